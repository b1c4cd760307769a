"""What a row of `Results.compare` says, for tables and figures alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from wifu import stats
from wifu.api import LEVEL
from wifu.metrics import metric_of

CUT, NONE, IDENTICAL = "cut off", "no value", "identical"
"""What is told in place of a number."""


@dataclass(frozen=True)
class Told:
    """A level against the baseline: a ratio of means, or their difference where that says nothing,
    with its 95 % interval.
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    difference: bool = False
    """Whether it is a difference, in the unit that the metric is shown in."""
    clear: bool = False
    """Whether p, corrected by Holm, and the interval say that the two are not the same."""
    instead: str = ""
    """What is told in place of it, if anything is."""

    @property
    def none(self) -> float:
        """What it is if the two are the same."""
        return 0.0 if self.difference else 1.0

    @property
    def known(self) -> bool:
        """Whether it has an interval."""
        return math.isfinite(self.low) and math.isfinite(self.high)


def told(row: Mapping[Any, Any], name: str) -> Told:
    """What a row says of the metric `name`."""
    if row.get("cut"):
        return Told(instead=CUT)
    if row["n"] == 0:
        return Told(instead=NONE)
    metric = metric_of(name)
    difference = not math.isfinite(row["ratio"])
    if row["identical"]:
        return Told(0.0 if difference else 1.0, difference=difference, instead=IDENTICAL)
    if difference:
        keys, scale = ("difference", "difference_low", "difference_high"), metric.scale
    else:
        keys, scale = ("ratio", "low", "high"), 1.0
    value, low, high = (row[k] / scale for k in keys)
    none = 0.0 if difference else 1.0
    even = row.get("uneven") is not True
    clear = even and row["p_holm"] < LEVEL and (low > none or high < none)
    return Told(value, low, high, difference, bool(clear))


def beyond(frame: pd.DataFrame, name: str) -> list[str]:
    """What is to be said where runs are too few for so many comparisons to find anything."""
    tested = int(frame["p"].notna().sum())
    pairs = int(frame.loc[frame["p"].notna(), "n"].max()) if tested else 0
    if not tested or (least := stats.least_p(pairs, tested)) < LEVEL:
        return []
    return [
        f"{metric_of(name).label}: no difference can be found here, however great: of {pairs} "
        f"pairs and {tested} comparisons p is at least {least:.2g}. "
        f"{stats.enough(tested, LEVEL)} runs could."
    ]
