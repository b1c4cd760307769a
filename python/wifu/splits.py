"""Nodes that split TCP connections: what is told of a flow is of its end's own half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from wifu import holding
from wifu.cells import Cell
from wifu.metrics import parts
from wifu.plan import Plan
from wifu.rows import Results, carriers, flows_of, rows_of
from wifu.stacks import compositions_of
from wifu.stamps import first
from wifu.transfers import of_tcp, split_nodes
from wifu.transfers import splitters as splitters

MOST = 10
"""Cells that are named."""

OF_HALF = (
    "retransmissions",
    "timeouts",
    "fast_retransmits",
    "loss",
    "srtt",
    "min_rtt",
    "connecting",
)
"""Metrics of what an end does or sees itself, and `rtt_p*`."""

WAIT = "splitters_wait_s"
"""How long data waited at splitters, on the mean."""

COUNTED = ("retransmissions", "timeouts")
"""What outcomes have of the halves of splitters."""


def columns(outcome: Mapping[str, Any]) -> dict[str, float]:
    """What `runs.parquet` has of the halves of splitters, of a run in which there were some; and
    how long data of a flow waited there on the mean, the longest.
    """
    if not (nodes := split_nodes(outcome)):
        return {}
    halves = [node["split"].get(side) or {} for node in nodes for side in ("near", "far")]
    found = {f"splitters_{k}": float(sum(int(h.get(k, 0)) for h in halves)) for k in COUNTED}
    waits = holding.waits(outcome)
    return found | ({WAIT: max(waits.values())} if waits else {})


def _sent(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """What halves of splitters sent again, and their timeouts, per run, by cell that has some."""
    base, names = parts(metric)[0], [f"splitters_{key}" for key in COUNTED]
    runs = results.runs
    wanted = base in OF_HALF or base.startswith("rtt_p")
    if not wanted or not all(name in runs for name in names):
        return pd.DataFrame(columns=names)
    own = runs[(runs["status"] == "ok") & runs["cell"].isin(_passing(results, cells, metric))]
    return own.groupby("cell", sort=False)[names].mean().dropna()


def _passing(results: Results, cells: Sequence[Cell], metric: str) -> list[str]:
    """The cells in which nodes split a flow that a metric is of."""
    every = [c.name for c in cells]
    if "split" not in results.flows:  # of an older lab
        return every
    rows = carriers(rows_of(results, cells), metric)
    found = set(rows[rows["split"].eq(True)]["cell"])
    return [name for name in every if name in found]


def split(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether a metric of some of these cells is of the source's half alone."""
    return bool(len(_sent(results, cells, metric)))


def splitting(results: Results, cells: Sequence[Cell]) -> bool:
    """Whether nodes split a connection in a run of one of these cells."""
    return split(results, cells, OF_HALF[0])


def _waited(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """How long data waited between the halves, by cell: of a metric of a flow alone where that is
    the only one that is split.
    """
    runs, names = results.runs, _passing(results, cells, metric)
    if WAIT not in runs:
        return ""
    if parts(metric)[1] is not None and "split" in results.flows:
        rows = rows_of(results, cells)
        counts = rows[rows["split"].eq(True)].groupby("cell")["flow"].nunique()
        names = [name for name in names if counts[name] == 1]
    own = runs[(runs["status"] == "ok") & runs["cell"].isin(names)]
    found = own.groupby("cell", sort=False)[WAIT].mean().dropna()
    told = [f"{cell} {wait:.3g} s" for cell, wait in found.items() if wait >= holding.TOLD]
    if not told:
        return ""
    return (
        "Between the halves data waited on the mean, which is in no round trip and in no loss: "
        f"{first(told, MOST)}."
    )


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What the halves did that are not in a metric."""
    found = _sent(results, cells, metric)
    if found.empty:
        return ""
    every = zip(found.index, *(found[name] for name in found), strict=True)
    told = first(
        [f"{cell} {n:.3g} segments again and {late:.3g} timeouts" for cell, n, late in every], MOST
    )
    return (
        "Nodes split TCP on the way: these are of the source's half, and not of the whole way. "
        f"What the splitters' halves sent is not in it, per run: {told}. There is neither colour "
        f"nor bold. {_waited(results, cells, metric)}"
    ).rstrip()


def warnings(plan: Plan) -> list[str]:
    """Splitters behind which all levels of a protocol run the same TCP, as the plan names it."""
    out = []
    every = [(cell, cell.scenario.get("split") or []) for cell in plan.cells]
    for k in range(max((len(rules) for _, rules in every), default=0)):
        # Where nothing splits them flows are what they are called all the way.
        having = [(cell, rules[k]) for cell, rules in every if len(rules) > k]
        given = [rule for _, rule in having]
        behind = {str(rule.get("far", rule.get("near"))) for rule in given}
        moved = [n for n, names in _tcps([cell for cell, _ in having]).items() if len(names) > 1]
        if len(behind) != 1 or "None" in behind or not moved:
            continue
        (carrier,) = behind
        where = "in every cell" if len(having) == len(every) else "in every cell that splits them"
        key = "far" if "far" in given[0] else "near"
        nodes = first([str(n) for n in given[0].get("nodes", [])], MOST)
        flows = first([str(n) for n in moved], MOST)
        out.append(
            f"behind {nodes} flows that are split run {carrier} {where} "
            f"(split.{k + 1}.{key}), whatever the levels of flow {flows} are called: these differ "
            "on the way there alone."
        )
    return out


def _tcps(cells: Sequence[Cell]) -> dict[int, set[str]]:
    """The protocols of TCP that each flow has in some cell."""
    found: dict[int, set[str]] = {}
    for cell in cells:
        for n, flow in flows_of(cell):
            name = str(flow.get("protocol", ""))
            if of_tcp(name, compositions_of(cell.scenario)):
                found.setdefault(n, set()).add(name)
    return found
