"""Two cells in one metric, run by run: their ratio, or their difference where that says nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wifu import metrics, stats

Floats = NDArray[np.float64]
NAN = float("nan")


def against(metric: str, x: Floats, y: Floats, cut: bool = False) -> dict[str, Any]:
    """Runs `x` against the same ones of a baseline `y`: how many have both values, the ratio of
    means, the mean difference in the `unit` that the metric is shown in, and their 95 % intervals,
    as `Results.compare` tells them. `cut`: of neither anything is known, as transfers were cut off.
    """
    known = np.isfinite(x) & np.isfinite(y)
    n = int(known.sum())
    identical = n > 0 and bool(np.array_equal(x, y, equal_nan=True))
    ratio = stats.ratio_interval(x, y)
    below = stats.mean_interval(y[known])
    # By what may be zero, or less, a quotient says nothing.
    signed = metrics.metric_of(metric).least < 0
    signed |= below.known and below.low <= 0 and not identical
    if min(x[known], default=-1) >= 0 and min(y[known], default=-1) >= 0:
        ratio = ratio.within(0.0, float("inf"))
    apart = stats.mean_interval((x - y)[known] / metrics.metric_of(metric).scale)
    nothing = identical or cut or signed or not ratio.known
    return {
        "n": n,
        "ratio": NAN if cut or signed else ratio.estimate,
        "low": NAN if nothing else ratio.low,
        "high": NAN if nothing else ratio.high,
        "difference": NAN if cut else apart.estimate,
        "difference_low": NAN if cut or identical else apart.low,
        "difference_high": NAN if cut or identical else apart.high,
        "unit": unit(metric),
        "identical": identical,
    }


def unit(metric: str) -> str:
    """The unit of a difference in this metric, as it stands beside ratios: that of shares is no
    share of anything.
    """
    found = metrics.metric_of(metric).unit
    return "percentage points" if found == "%" else found
