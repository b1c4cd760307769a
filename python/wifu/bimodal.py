"""Cells whose runs are of two kinds, far apart: a mean is of neither of them, and an interval
around it says where the mean of many runs is, not what a run does. And cells of which a few runs
make the mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.digits import number
from wifu.metrics import metric_of, parts
from wifu.rows import RATES, Results
from wifu.stamps import first

KINDS = 2
"""So many runs of a kind at least."""

APART = 2.0
"""So many times as much the least of one kind is as the most of the other."""

GAP = 2.0
"""So many times as wide as what either spreads over is what lies between."""

RARE = 3.0
"""So many times the median, or that part of it, and a run is far from the others."""

SELDOM = 0.25
"""Up to such a share of runs they are few."""

MOST = 4
"""Cells that are named."""

OF_RUNS = (*(set(RATES) - {"starved"}), *OF_FINISHED)
"""Metrics that every run has a value of its own of, and no count, nor the share of a few flows."""


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Cells of which it is so, with what both kinds are."""
    if parts(metric)[0] not in OF_RUNS:
        return ""
    about, found, rare = metric_of(metric), [], []
    for cell in cells:
        sample = results.sample(metric, cell.labels).dropna().to_numpy(float) / about.scale
        if kinds := _kinds(sample):
            low, high = kinds
            found.append(f"{cell.name} {_of(low)} and {_of(high)} {about.unit}".rstrip())
        elif far := _far(sample):
            rare.append(f"{cell.name} {far} of {len(sample)}")
    return " ".join(filter(None, (_two(found), _few(rare))))


def _few(rare: Sequence[str]) -> str:
    if not rare:
        return ""
    return (
        f"A few runs are far from the others, at more than {RARE:g} times the median or less than "
        f"1/{RARE:g} of it ({first(rare, MOST)} runs): mean and interval hang on how many there "
        "happened to be, and of few runs intervals miss the true mean more often than in 5 %. More "
        "runs, or the median, tell more."
    )


def _far(sample: np.ndarray) -> int:
    """How many of a sample are far from its median, if these are few."""
    usual = float(np.median(sample)) if len(sample) >= 2 * KINDS + 1 else 0.0
    if usual <= 0:
        return 0
    far = int(((sample >= RARE * usual) | (sample <= usual / RARE)).sum())
    return far if far <= SELDOM * len(sample) else 0


def _two(found: Sequence[str]) -> str:
    if not found:
        return ""
    return (
        f"Runs are of two kinds in some cells ({first(found, MOST)}): no run is as the mean says, "
        "which tells how often there was which. `cdf` shows both."
    )


def _of(values: np.ndarray) -> str:
    spread = f"{number(values[0])} to {number(values[-1])}"
    return f"{len(values)} runs of {spread if values[0] < values[-1] else number(values[0])}"


def _kinds(sample: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Both kinds of a sample, each in order; none if there is one."""
    values = np.sort(sample)
    if len(values) < 2 * KINDS + 1:
        return None
    at = int(np.argmax(np.diff(values))) + 1
    low, high = values[:at], values[at:]
    if min(len(low), len(high)) < KINDS or high[0] < APART * max(low[-1], 0.0):
        return None
    widest = max(low[-1] - low[0], high[-1] - high[0])
    return (low, high) if high[0] - low[-1] >= GAP * widest else None
