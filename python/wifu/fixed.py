"""Flows whose protocol the levels that are compared do not change, beside some that they do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.metrics import ALONE, column, of_datagrams, parts
from wifu.rows import RATES, Results, carried, compared
from wifu.stamps import first

MOST = 10
"""Flows that are named."""

WHOLE = ("loss", "finished")
"""Metrics of all flows, that say so themselves."""

SUMS = ("goodput", "aggregate", "sum_rates")
"""Means and sums, which such flows move towards each other, and no further."""

SHARED = tuple(name for name in RATES if name not in SUMS)
"""Metrics that may be the competitor's doing alone."""


def _protocols(cell: Cell) -> dict[int, str]:
    """What carries the flows of a cell that means are of, by their numbers."""
    every = carried(cell)
    return {n: name for n, name in every.items() if name != "udp"} or every


def _found(rows: Iterable[Sequence[Cell]]) -> tuple[dict[int, set[str]], set[int]]:
    """The protocols of flows that levels leave as they are in every row of cells that are compared,
    and the flows that they change in some.
    """
    moved: set[int] = set()
    found: dict[int, set[str]] = {}
    for row in rows:
        each = [_protocols(cell) for cell in row]
        common = [n for n in each[0] if all(n in own for own in each)] if len(each) > 1 else []
        same = [n for n in common if len({own[n] for own in each}) == 1]
        if len(same) < len(common):
            moved |= set(common).difference(same)
            for n in same:
                found.setdefault(n, set()).add(each[0][n])
    return {n: names for n, names in found.items() if n not in moved}, moved


def diluted(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether shares in these cells, which are compared, are also of flows that their levels leave
    as they are: of what these take from the others, and not of how the others share.
    """
    return metric in SHARED and bool(_found([cells])[0])


def protocol(cells: Sequence[Cell], metric: str) -> str:
    """Of a metric of one flow its protocol, if that is the same in all cells while those of others
    change: levels are called by these, and the number is not of them. Else nothing.
    """
    only = parts(metric)[1]
    if only is None:
        return ""
    found, _ = _found([cells])
    return next(iter(found[only])) if only in found else ""


def beside(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    only = parts(metric)[1]
    found, moved = _found(compared(results, cells))
    if only is None or only not in found:
        return ""
    name = "of one protocol" if len(found[only]) > 1 else next(iter(found[only]))
    others = f"flow{'s' * (len(moved) > 1)} {first([str(n) for n in sorted(moved)], MOST)}"
    return (
        f"Flow {only} is {name} in every cell that is compared: levels change the protocol of "
        f"{others} beside it, and this number is not of that one."
    )


def _valued(results: Results, base: str, flow: int) -> bool:
    """Whether a flow has values of a metric, in some run: of times of transfers not all do."""
    if base not in (*OF_FINISHED, "connecting"):
        return True
    name = "connecting_s" if base == "connecting" else "delay_finished_s"
    rows = results.flows
    return name not in rows or bool(rows.loc[rows["flow"] == flow, name].notna().any())


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words, of all that such flows are part of."""
    if metric not in (*ALONE, *RATES) or metric in WHOLE or of_datagrams(metric):
        return ""
    if column(metric) not in results.runs or results.runs[column(metric)].isna().all():
        return ""
    found, moved = _found(compared(results, cells))
    base = metric if metric in ALONE else "goodput"
    found = {n: names for n, names in found.items() if _valued(results, base, n)}
    moved = {n for n in moved if _valued(results, base, n)}
    if not (found and moved):
        return ""
    by: dict[str, list[str]] = {}
    for n, protocols in sorted(found.items()):
        name = "of one protocol" if len(protocols) > 1 else next(iter(protocols))
        by.setdefault(name, []).append(str(n))
    told = [f"flow {flows[0]} is {name}" for name, flows in by.items() if len(flows) == 1]
    told += [f"flows {first(own, MOST)} are {name}" for name, own in by.items() if len(own) > 1]
    one, whole = min(moved), " and ".join(told)
    sentence = (
        f"{whole[0].upper()}{whole[1:]} in every cell that is compared, and part of this number "
        f"whatever a level is called: `{base}@{one}` is of flow {one}, whose protocol the levels "
        "change."
    )
    if parts(metric)[0] not in SHARED:
        return sentence
    return (
        f"{sentence} What such a flow takes from the others is in it, however these share: there "
        "is neither colour nor bold."
    )
