"""Flows that are of datagrams in some of compared cells, and of connections in others: where others
are over connections, too, numbers of all flows leave them out in the former and have them in the
latter.
"""

from __future__ import annotations

from collections.abc import Sequence

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import RATES, Results, alongside, flows_of, numbered

OF_ALL = (*RATES, "delay", "delay_median", "delay_p95", "delay_p99", "finished")
"""Metrics that leave out datagrams beside connections."""


def _left(cell: Cell) -> set[int]:
    """The flows of a cell that such numbers leave out."""
    udp = {n for n, flow in flows_of(cell) if flow.get("protocol") == "udp"}
    return udp if len(udp) < len(flows_of(cell)) else set()


def _found(results: Results, cells: Sequence[Cell], metric: str) -> list[int]:
    base, only = parts(metric)
    if base not in OF_ALL or only is not None:
        return []
    found: set[int] = set()
    for row in alongside(results, cells):
        left = [_left(cell) for cell in row]
        counted = [{n for n, _ in flows_of(c)} - own for c, own in zip(row, left, strict=True)]
        found |= set().union(*left) & set().union(*counted)
    return sorted(found)


def turned(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether there are such flows."""
    return bool(_found(results, cells, metric))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Which they are."""
    found = _found(results, cells, metric)
    if not found:
        return ""
    many = len(found) > 1
    name = numbered(found)
    return (
        f"{name[:1].upper()}{name[1:]} {'are' if many else 'is'} of datagrams in some of the "
        f"compared cells, and left out there, and over connections in others, and counted: what is "
        f"of all flows is of different ones. There is neither colour nor bold; "
        f"`goodput@{found[0]}` is that of flow {found[0]}."
    )
