"""Datagrams that begin where the data of a connection does, too. A transport waits until its node's
queue has room and so keeps it full; a datagram that finds it full is refused. That is of this one
queue: one on the way takes from both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from wifu import values
from wifu.cells import Cell
from wifu.flooding import Flow, floods, flows, over
from wifu.metrics import of_datagrams, parts
from wifu.plan import Plan
from wifu.rings import buffers
from wifu.rows import RATES, Results, compared, rows_of
from wifu.stamps import first
from wifu.underload import begins

MOST = 4
"""So many flows or cells are named."""

SHORT = 250
"""Fewer packets than that, and a sender that meets no loss fills a queue with its ring."""

WIRE = 1000
"""Packets that wait in front of a wire that says nothing of it (`[[wire]]`)."""

TOLD = 0.01
"""Of more of a cell's datagrams than this share, which their own node refused, it is told."""

REMEDY = (
    "Let datagrams begin at another node, or one hop before the narrow link. On hosts the kernel's "
    "TCP does not do this: TCP Small Queues keep a sender from filling its own queue"
)


def beside(cell: Cell) -> dict[int, list[int]]:
    """Flows of datagrams with a rate that begin where others may keep a queue without a discipline
    full meanwhile: by their numbers those others.
    """
    every, found = flows(cell.scenario), dict[int, list[int]]()
    for n, flow in every:
        if flow.get("protocol") != "udp" or floods(flow) or not _fills(cell, flow.get("from")):
            continue
        own = [k for k, f in every if f.get("protocol") != "udp" and _meet(f, flow)]
        if own:
            found[n] = own
    return found


def _meet(one: Flow, other: Flow) -> bool:
    """Whether data of both begins at one node, at some time that the scenario tells."""
    start, begin = (values.seconds(flow.get("start", 0)) for flow in (one, other))
    return begins(one) == begins(other) and start < over(other) and begin < over(one)


def _fills(cell: Cell, node: Any) -> bool:
    """Whether a node has a queue that is short enough to be full, and drops only then."""
    if "queue" in (cell.scenario.get("host") or {}):
        return False
    return min(_wires(cell, node), min(map(sum, buffers(cell)), default=WIRE)) < SHORT


def _wires(cell: Cell, node: Any) -> int:
    """The shortest queue of a wire at a node."""
    topology: Any = cell.scenario.get("topology") or {}
    asked = re.findall(r"\bqueue=(\d+)", str(topology.get("words", "")))
    listed = cell.scenario.get("wire") or topology.get("wire") or []
    own = [wire.get("queue", WIRE) for wire in listed if node in (wire.get("a"), wire.get("b"))]
    return min(map(int, [*asked, *own]), default=WIRE)


def _named(numbers: Sequence[int]) -> str:
    ordered = [str(n) for n in sorted(set(numbers))]
    return f"flow{'s' if len(ordered) > 1 else ''} {first(ordered, MOST)}"


def warnings(plan: Plan) -> Iterator[str]:
    """What is told of a plan before it is run: of the first cell where it is so."""
    if plan.runner != "mesh" or plan.substrate != "sim":
        return
    for cell in plan.cells:
        if found := beside(cell):
            own = [k for others in found.values() for k in others]
            verb = "begin" if len(found) > 1 else "begins"
            yield (
                f"{_named(list(found)).capitalize()} of udp {verb} at a node where {_named(own)} "
                f"does, too (cell {cell.name}): a transport waits for room in its own node's queue "
                "and may keep it full, and datagrams that find it full are refused, which looks "
                f"like losses on the way. {REMEDY}."
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
