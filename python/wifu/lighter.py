"""Round trips that are shorter where less was carried: who sends less meets shorter queues."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from wifu.cells import Cell
from wifu.metrics import column, parts
from wifu.rows import Results, alongside, carriers, rows_of

EVEN = 1.1
"""Up to so many times as much carried, and round trips are compared."""


def _found(results: Results, cells: Sequence[Cell], metric: str) -> tuple[float, str, str]:
    """By how many times as much one of two cells carried whose round trips are longer, where that
    is most and more than is told, with the names of both, the lesser first; else 1.
    """
    base, none = parts(metric)[0], (1.0, "", "")
    if base != "srtt" and not base.startswith("rtt_p"):
        return none
    rows = carriers(rows_of(results, cells), metric)
    names = [column(base), "goodput_bps"]
    if not all(name in rows for name in names):
        return none
    rows = rows[rows[names[0]].notna() & rows["flow_protocol"].ne("udp")]
    by = rows.groupby("cell")
    trips = by[names[0]].mean().astype(float)
    rates = (by["goodput_bps"].sum() / by["run"].nunique()).astype(float)
    pairs = [
        (float(rates[b] / rates[a]), str(a), str(b))
        for a, b in permutations(trips.index, 2)
        if trips[a] < trips[b] and 0 < rates[a] * EVEN < rates[b]
    ]
    return max(pairs, default=none)


def lighter(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether a cell with shorter round trips carried more than a tenth less."""
    return _found(results, cells, metric)[0] > 1.0


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    every = [_found(results, group, metric) for group in alongside(results, cells)]
    times, less, more = max(every, default=(1.0, "", ""))
    if times <= 1.0:
        return ""
    return (
        f"Round trips are shorter in {less} than in {more}, whose flows carried {times:.3g} times "
        "as much in the same time: who sends less meets shorter queues, and is no better for it. "
        "There is neither colour nor bold where it is more than a tenth less; a `tradeoff` shows "
        "both."
    )
