"""Rates of files, whose mean is not by the mean time that they took: a file that takes
ten times as long counts for a tenth among rates, and for ten among times.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from wifu import stops
from wifu.asked import ASKING
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


def _files(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """Finished transfers whose bytes end them, each of one file or answer, or of as many packets as
    end a run (`counted`).
    """
    rows = carriers(rows_of(results, cells), metric)
    every = {(c.name, n): flow for c in cells for n, flow in flows_of(c)}
    sized = {key for key, flow in every.items() if stops.by_bytes(flow)}
    asking = {key for key, flow in every.items() if flow.get("app") in ASKING}
    counted = stops.counted(rows, cells) & ~of_these(rows, asking)
    done = (of_these(rows, sized) & rows["finished"].eq(True)) | counted
    rows = rows.assign(counted=counted)
    return rows[done & rows["flow_protocol"].ne("udp") & rows["goodput_bps"].gt(0)]


def _both(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """By cell the mean of the rates of finished files, and their bytes by all of their time."""
    none = pd.DataFrame({"rate": [], "whole": []})
    if parts(metric)[0] != "goodput" or results.plan.measure.mode not in ("transfer", "receiver"):
        return none
    rows = _files(results, cells, metric)
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
    counted = _files(results, cells, metric)["counted"]
    return (
        f"Goodput of {'transfers' if counted.any() else 'files'} is the mean of their rates, in "
        "which those that took long count for little: by all of their time it is less "
        f"({first(told, MOST)}).{' `delay` compares times.' * (not counted.all())}"
        f"{' There is neither colour nor bold where the order of both is not the same.' * colour}"
    )
