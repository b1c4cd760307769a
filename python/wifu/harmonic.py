"""Rates of files of one size, whose mean is not by the mean time that they took: a file that takes
ten times as long counts for a tenth among rates, and for ten among times.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, alongside, carriers, flows_of, of_these, rows_of
from wifu.stamps import first

APART = 1.25
"""So many times as much one is as the other, and it is told."""

CLEAR = 1.02
"""... and so much the order of two cells is another one by times."""

MOST = 4
"""Cells that are named."""


def _both(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """By cell the mean of the rates of finished files, and their bytes by all of their time."""
    none = pd.DataFrame({"rate": [], "whole": []})
    if parts(metric)[0] != "goodput" or results.plan.measure.mode not in ("transfer", "receiver"):
        return none
    sized = {
        (c.name, n) for c in cells for n, flow in flows_of(c)
        if flow.get("app") == "file" and flow.get("protocol") != "udp"
    }  # fmt: skip
    rows = carriers(rows_of(results, cells), metric)
    rows = rows[of_these(rows, sized) & rows["finished"].eq(True) & rows["goodput_bps"].gt(0)]
    times = rows["bytes"].astype(float) * 8 / rows["goodput_bps"].astype(float)
    by = rows.assign(took=times).groupby("cell")
    whole = by["bytes"].sum().astype(float) * 8 / by["took"].sum()
    return pd.DataFrame({"rate": by["goodput_bps"].mean().astype(float), "whole": whole})


def turned(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether two cells are in another order by times than by rates."""
    both = _both(results, cells, metric)
    ratios = [both.loc[a] / both.loc[b] for a, b in combinations(both.index, 2)]
    return any(float(r.min()) * CLEAR < 1.0 < float(r.max()) / CLEAR for r in ratios)


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words, and where they are far apart."""
    both = _both(results, cells, metric)
    apart = both[both["rate"] > APART * both["whole"]]
    if not len(apart):
        return ""
    told = [
        f"{c.name} {apart['whole'][c.name] / 1e6:.3g} Mb/s, not {apart['rate'][c.name] / 1e6:.3g}"
        for c in cells
        if c.name in apart.index
    ]
    colour = any(turned(results, group, metric) for group in alongside(results, cells))
    return (
        "Goodput of files is the mean of their rates, in which those that took long count for "
        f"little: by all of their time it is less ({first(told, MOST)}). `delay` compares times."
        f"{' There is neither colour nor bold where the order of both is not the same.' * colour}"
    )
