"""How evenly the flows of a run share what there is, and which of them starve."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

STARVED_BPS = 1000.0
"""A flow below 1 kb/s is starved."""

STARVED_UTILITY_BPS = 8.0
"""What a starved flow counts in the log utility: one byte a second."""


def jain(rates: ArrayLike) -> float:
    """Jain's index (sum x)^2 / (n sum x^2): 1 if all get the same, 1/n if one gets everything.

    Nan if nobody gets anything.
    """
    x = np.asarray(rates, dtype=float)
    squares = float(np.sum(x * x))
    # Of equal rates it would be above 1 by what is rounded.
    return min(1.0, float(np.sum(x)) ** 2 / (x.size * squares)) if squares > 0 else float("nan")


def unfairness(rates: ArrayLike) -> float:
    """Population standard deviation over mean, of the flows of one run; 0 is fair."""
    x = np.asarray(rates, dtype=float)
    mean = float(np.mean(x)) if x.size else 0.0
    return float(np.std(x)) / mean if mean > 0 else float("nan")


def log_utility(rates_bps: ArrayLike) -> float:
    """Sum of log10 of the goodputs in kb/s; a starved flow counts as one byte a second."""
    x = np.asarray(rates_bps, dtype=float)
    x = np.where(x < STARVED_BPS, STARVED_UTILITY_BPS, x)
    return float(np.sum(np.log10(x / 1000.0)))


def starved_share(rates_bps: ArrayLike) -> float:
    """Share of the flows below 1 kb/s; nan if the rate of one is not known."""
    x = np.asarray(rates_bps, dtype=float)
    known = x.size and not np.isnan(x).any()
    return float(np.mean(x < STARVED_BPS)) if known else float("nan")
