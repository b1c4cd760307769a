"""Losses that a plan has happen, of which hardly any did: what they do is not in such numbers."""

from __future__ import annotations

from collections.abc import Sequence

from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.metrics import parts
from wifu.outlets import wires_of
from wifu.rows import RATES, Results, rows_of
from wifu.stamps import first

FEW = 5
"""Up to so many packets lost in all runs of a cell."""

NAMES = ("packets_sent", "packets_copies", "packets_delivered", "packets_inside")
"""What is known of packets."""

MOST = 4
"""Cells that are named."""


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Cells with lossy wires, or handlers that drop, in which next to nothing was lost."""
    if parts(metric)[0] not in (*RATES, *OF_FINISHED) or not set(NAMES) <= set(results.flows):
        return ""
    rows, names = rows_of(results, cells), list(NAMES)
    sums = rows.groupby("cell")[names].sum(min_count=1).astype(float)
    lost = sums.iloc[:, 0] + sums.iloc[:, 1] - sums.iloc[:, 2] - sums.iloc[:, 3]
    runs = rows.groupby("cell")["run"].nunique()
    found = [
        f"{c.name} {max(0.0, lost[c.name]):.0f} in {runs[c.name]}"
        for c in cells
        if _lossy(c) and lost.get(c.name, FEW + 1) <= FEW
    ]
    if not found:
        return ""
    return (
        "Wires or handlers lose packets by chance, and hardly any was lost "
        f"({first(found, MOST)} runs): what a loss does is hardly in these numbers, and decides a "
        "mean over many more runs. More `runs`, or longer ones, meet it."
    )


def _lossy(cell: Cell) -> bool:
    handlers = cell.scenario.get("handler") or []
    drops = any(isinstance(h, dict) and h.get("use") == "drop" for h in handlers)
    return drops or any(wire.loss for wire in wires_of(cell.scenario))
