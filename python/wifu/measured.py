"""What a check measured, and what all kinds of checks measure by.

Estimates come with a 95 % interval and one-sided 90 % bounds: BCa bootstraps of runs, in pairs
where two cells are compared; exact (Clopper and Pearson) for shares of runs, of which a bootstrap
knows nothing where all runs agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from wifu import stats
from wifu.api import Results
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.metrics import metric_of

BOUND_LEVEL = 0.90


def _least_by_median(x: Any, axis: int | None = None) -> Any:
    return np.min(x, axis=axis) / np.median(x, axis=axis)


STATISTICS: dict[str, stats.Statistic] = {
    "mean": np.mean,
    "median": np.median,
    "sd": partial(np.std, ddof=1),
    "least by median": _least_by_median,
}


@dataclass(frozen=True)
class Measured:
    """What came out for a check: estimate, 95 % interval, one-sided bounds."""

    estimate: float
    low: float = math.nan
    high: float = math.nan
    lower_bound: float = math.nan
    upper_bound: float = math.nan
    n: int = 1
    exact: bool = False
    text: str = ""
    identical: bool = False
    note: str = ""
    """What is to be said beside it."""


def statistic_of(given: Mapping[str, Any]) -> stats.Statistic:
    """What is taken of a sample of runs; their mean if nothing is said."""
    return STATISTICS[given.get("statistic", "mean")]


def one_cell(results: Results, where: Mapping[str, Any]) -> Cell:
    """The cell with these labels, of which there has to be one."""
    found = results.cells(where)
    if len(found) != 1:
        free = ", ".join(a.name for a in results.plan.axes if a.name not in where)
        raise LabError(f"{words(where)} are {len(found)} cells, not one: say which {free}")
    return found[0]


def samples(results: Results, given: Mapping[str, Any]) -> tuple[stats.Floats, bool]:
    """A metric of the runs of a cell in its unit, and whether there is no chance in it."""
    sample = results.sample(given["metric"], given["of"]).to_numpy(float)
    sample = stats.clean(sample) / metric_of(given["metric"]).scale
    if sample.size == 0:
        raise LabError(f"no run of {words(given['of'])} counts")
    return sample, results.plan.deterministic


def words(where: Mapping[str, Any]) -> str:
    """Labels of a cell, for a message."""
    return ", ".join(f"{k} {v}" for k, v in where.items()) or "the plan"


def of_one(x: stats.Floats, exact: bool, statistic: stats.Statistic, note: str = "") -> Measured:
    """A statistic of one sample, a value for each run."""
    if exact:
        return Measured(float(statistic(x)), n=1, exact=True, note=note)
    both = stats.bootstrap_interval(x, statistic)
    return Measured(
        both.estimate,
        both.low,
        both.high,
        stats.bound(x, statistic, "lower", BOUND_LEVEL),
        stats.bound(x, statistic, "upper", BOUND_LEVEL),
        int(x.size),
        note=note,
    )


def quotient(x: stats.Floats, y: stats.Floats, exact: bool, statistic: stats.Statistic) -> Measured:
    """A statistic of one sample by that of another, run by run."""
    same = identical_in(x, y)
    if exact:
        ratio = float(x[0] / y[0]) if y[0] else math.nan
        return Measured(ratio, n=1, exact=True, identical=same)
    both = stats.ratio_interval(x, y, statistic)
    if min(*stats.clean(x), *stats.clean(y), 0.0) >= 0:
        both = both.within(0.0, math.inf)
    return Measured(
        both.estimate,
        both.low,
        both.high,
        stats.ratio_bound(x, y, statistic, "lower", BOUND_LEVEL),
        stats.ratio_bound(x, y, statistic, "upper", BOUND_LEVEL),
        both.n,
        identical=same,
    )


def identical_in(x: stats.Floats, y: stats.Floats) -> bool:
    """Whether every run gave the same number on both sides: then nothing of it varies, and an
    interval of their ratio or difference is a point however many runs there are.
    """
    return bool(np.array_equal(x, y))


def counting(x: stats.Floats, limits: Mapping[str, float], exact: bool) -> Measured:
    """The share of runs whose value is within limits, with exact bounds."""
    inside = (x >= limits.get("at_least", -math.inf)) & (x <= limits.get("at_most", math.inf))
    k, n = int(inside.sum()), int(x.size)
    if exact:
        return Measured(k / n, n=1, exact=True)
    low, high = stats.share_interval(k, n)
    lower, upper = (stats.share_bound(k, n, side, BOUND_LEVEL) for side in ("lower", "upper"))
    return Measured(k / n, low, high, lower, upper, n, note=f"{k} of {n} runs")


def runs_of(results: Results, metric: str, where: Mapping[str, Any]) -> pd.Series[float]:
    """A metric of the runs of one cell, by run."""
    sample = results.sample(metric, where)
    if len(results.cells(where)) > 1:
        raise LabError(f"{words(where)} is more than one cell: say which")
    return sample.droplevel("cell").dropna() if len(sample) else sample
