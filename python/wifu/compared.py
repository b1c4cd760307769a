"""What a row of `Results.compare` says, for tables and figures alike."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from wifu import stats, unlike
from wifu.api import LEVEL
from wifu.cells import Label
from wifu.metrics import metric_of
from wifu.plan import Plan

CUT, NONE, IDENTICAL = "cut off", "no value", "identical"
"""What is told in place of a number."""

UNTESTED = "nothing is tested of fewer than three pairs of runs, or where nothing is random"
UNSURE = f"p is {LEVEL:g} or more"
WITHIN = "the interval holds that there is no difference"
"""Why a number has no colour that has none for itself."""

SMALL = 0.005
"""Up to such a part of it, and two means are alike for all purposes, however certain that is: runs
that draw the same numbers make some of a few hundredths of a per cent so.
"""

TRIVIAL = "less than 0.5 % apart"
"""Why such a ratio has no colour."""

REASONS = (
    CUT,
    NONE,
    IDENTICAL,
    UNTESTED,
    UNSURE,
    WITHIN,
    TRIVIAL,
    *(r.words for r in unlike.REASONS),
)
"""All reasons for which a comparison has no colour, as it says them."""


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
    """Whether p, corrected by Holm, and the interval, if there is one, say that the two are not the
    same.
    """
    instead: str = ""
    """What is told in place of it, if anything is."""
    why: str = ""
    """Why it is not clear, one or several of `REASONS`; nothing if it is."""
    unlike: bool = False
    """Whether that is because it is of what is not the same, whatever p and interval say."""

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
        return Told(instead=CUT, why=CUT)
    if row["n"] == 0:
        return Told(instead=NONE, why=NONE)
    difference = not math.isfinite(row["ratio"])
    if row["identical"]:
        same = 0.0 if difference else 1.0
        return Told(same, difference=difference, instead=IDENTICAL, why=IDENTICAL)
    keys = ("difference", "difference_low", "difference_high")
    value, low, high = (row[k] for k in (keys if difference else ("ratio", "low", "high")))
    none = 0.0 if difference else 1.0
    # Beside a p there is no interval where nothing varies: what p says is all there is.
    leaves = low > none or high < none or not math.isfinite(low)
    if row.get("uneven") is True:
        return Told(value, low, high, difference, why=row["why"], unlike=True)
    if not math.isfinite(row["p_holm"]):
        return Told(value, low, high, difference, why=UNTESTED)
    small = TRIVIAL if not difference and abs(value - 1.0) < SMALL else ""
    why = UNSURE if row["p_holm"] >= LEVEL else small if leaves else WITHIN
    return Told(value, low, high, difference, clear=not why, why=why)


def rows(frame: pd.DataFrame, name: str) -> list[dict[str, Any]]:
    """Rows of a metric as JSON can say them: a number that is none is null. `why` says why one has
    no colour, and is null where it has.
    """
    plain = json.loads(frame.to_json(orient="records", double_precision=15))
    whys = [told(row, name).why or None for row in frame.to_dict("records")]
    return [{**row, "why": why} for row, why in zip(plain, whys, strict=True)]


def baseline(plan: Plan) -> Label | None:
    """The level that a plan compares with: the first one if it names none that was run."""
    if plan.pair is None:
        return None
    labels = [v.label for v in plan.axis(plan.pair).levels]
    return next((label for label in labels if str(label) == str(plan.baseline)), labels[0])


def few(frame: pd.DataFrame) -> str:
    """That of so many runs and comparisons p is never small enough, whatever is compared; nothing
    if it can be.
    """
    tested = int(frame["p"].notna().sum())
    runs = int(frame[frame["p"].notna()]["n"].max()) if tested else 0
    if not tested or stats.least_p(runs, tested) < LEVEL:
        return ""
    comparisons = "1 comparison" if tested == 1 else f"{tested} comparisons"
    return f"with {runs} runs and {comparisons} no difference can be found"


def beyond(frame: pd.DataFrame, name: str) -> list[str]:
    """What is to be said where runs are too few for so many comparisons to find anything."""
    tested = int(frame["p"].notna().sum())
    rows = frame if tested else frame[(frame["n"] > 0) & ~frame["identical"].astype(bool)]
    if not tested and "cut" in rows:
        rows = rows[~rows["cut"].astype(bool)]
    if rows.empty:
        return []
    pairs = int(rows[rows["p"].notna()]["n"].max()) if tested else int(rows["n"].max())
    if tested and stats.least_p(pairs, tested) < LEVEL:
        return []
    comparisons = tested or len(rows)
    why = f"of {pairs} pair{'s' if pairs > 1 else ''} of runs nothing is tested"
    if tested:
        least = stats.least_p(pairs, tested)
        why = f"of {pairs} pairs and {tested} comparisons p is at least {least:.2g}"
    return [
        f"{metric_of(name).label}: no difference can be found here, however great: {why}. "
        f"{stats.enough(comparisons, LEVEL)} runs could."
    ]
