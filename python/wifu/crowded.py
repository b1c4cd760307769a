"""Datagrams that begin where the data of a connection does, too. A transport waits until its node's
queue has room and so keeps it full; a datagram that finds it full is refused. That is of this one
queue (`wifu.outlets`): one on the way takes from both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from wifu import holding, outlets, values
from wifu.cells import Cell
from wifu.flooding import Flow, floods, over
from wifu.metrics import of_datagrams, parts
from wifu.outlets import Outlet, Scenario
from wifu.plan import Plan
from wifu.rows import RATES, Results, compared, flows_of, numbered, rows_of
from wifu.stacks import compositions_of
from wifu.stamps import first
from wifu.transfers import ASKED, of_tcp

MOST = 4
"""So many cells are named."""

SHORT = 250
"""Fewer packets than that, and a sender that meets no loss fills a queue with its ring."""

SEGMENT = 1400
"""Octets in a packet: what is sent at a time fills no queue that holds it all."""

TOLD = 0.01
"""Of more of a cell's datagrams than this share, which their own node refused, it is told."""

REMEDY = (
    "Let datagrams begin at another node, or one hop before the narrow link. On hosts the kernel's "
    "TCP does not do this: TCP Small Queues keep a sender from filling its own queue"
)


def beside(cell: Cell) -> dict[int, list[int]]:
    """Flows of datagrams with a rate that begin where others may keep their queue, which has no
    discipline, full meanwhile: by their numbers those others.
    """
    every, found = flows_of(cell), dict[int, list[int]]()
    for n, flow in every:
        if flow.get("protocol") != "udp" or floods(flow):
            continue
        met = [(k, f) for k, f in every if f.get("protocol") != "udp" and _meet(f, flow)]
        node = str(flow.get("from"))
        at = outlets.outlet(cell.scenario, node, str(flow.get("to"))) if met else None
        if at is None or at.holds >= SHORT or outlets.discipline(cell.scenario, node):
            continue
        if own := [k for k, f in met if _fills(cell.scenario, f, at)]:
            found[n] = own
    return found


def _meet(one: Flow, other: Flow) -> bool:
    """Whether both send at some time that the scenario tells."""
    start, begin = (values.seconds(flow.get("start", 0)) for flow in (one, other))
    return start < over(other) and begin < over(one)


def _fills(scenario: Scenario, flow: Flow, at: Outlet) -> bool:
    """Whether data of a flow begins at the node of a queue, at an end or a half of its connection,
    takes this queue, and is more at a time than that holds.
    """
    ends = str(flow.get("from")), str(flow.get("to"))
    ways = [(ends, flow.get("bytes"))]
    if flow.get("app") == "request":
        question, answer = (flow.get(key, usual) for key, usual in ASKED.items())
        ways = [(ends, question), (ends[::-1], answer)]
    splits = at.node in holding.nodes_of(scenario) and of_tcp(
        str(flow.get("protocol")), compositions_of(scenario)
    )
    splits = splits and outlets.passes(scenario, ends, at.node)
    return any(
        (begin == at.node or splits)
        and (size is None or values.octets(size) > SEGMENT * at.holds)
        and outlets.outlet(scenario, at.node, end) == at
        for (begin, end), size in ways
    )


def warnings(plan: Plan) -> Iterator[str]:
    """What is told of a plan before it is run: of the first cell where it is so."""
    if plan.runner != "mesh" or plan.substrate != "sim":
        return
    for cell in plan.cells:
        if found := beside(cell):
            own = [k for others in found.values() for k in others]
            verb = "begin" if len(found) > 1 else "begins"
            does = "do" if len(set(own)) > 1 else "does"
            yield (
                f"{numbered(found).capitalize()} of udp {verb} at a node where {numbered(own)} "
                f"{does}, too (cell {cell.name}): a transport waits for room in its own node's "
                "queue and may keep it full, and datagrams that find it full are refused, which "
                f"looks like losses on the way. {REMEDY}."
            )
            return


def _shares(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """Which share of the datagrams that a metric is of their own node refused, by cell."""
    base, only = parts(metric)
    rows = results.flows
    if not (base == "loss" or of_datagrams(metric) or (only is not None and base in RATES)):
        return pd.Series(dtype=float)
    if "crowded_out" not in rows:  # of an older lab
        return pd.Series(dtype=float)
    rows = rows_of(results, cells)
    rows = rows[rows["crowded_out"].notna()]
    rows = rows if only is None else rows[rows["flow"] == only]
    sums = rows.groupby("cell", sort=False)[["crowded_out", "packets_sent"]].sum().astype(float)
    return (sums["crowded_out"] / sums["packets_sent"].where(lambda n: n > 0)).dropna()


def refused(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether datagrams of some of these cells were refused where a transport kept a queue full."""
    shares = _shares(results, cells, metric)
    return bool(len(shares) and shares.max() > TOLD)


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What is told beside such a metric."""
    told = refusals(results, cells, metric)
    colour = any(refused(results, row, metric) for row in compared(results, cells))
    return told + (" There is neither colour nor bold." if told and colour else "")


def refusals(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """How many datagrams were refused, and what to do about it."""
    shares = _shares(results, cells, metric)
    if not len(shares) or shares.max() <= TOLD:
        return ""
    told = first([f"{cell} {share:.1%}" for cell, share in shares.items()], MOST)
    return (
        "Datagrams were refused by the full queue of the node where they begin, which a transport "
        f"of the same node kept full, as it waits for room there and they do not (of all: {told}). "
        f"A queue on the way takes from both. {REMEDY}."
    )
