"""Rates over time, from what was delivered so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def sliding(
    times: ArrayLike,
    delivered: ArrayLike,
    window: float,
    step: float,
    start: float = 0.0,
    end: float | None = None,
) -> tuple[Floats, Floats]:
    """Rate in a sliding window: at each instant t what was delivered in (t - window, t], bit/s.

    `delivered` is the count so far at `times`. Usual windows: 200 ms; 50 ms every 2 ms; 1 s every
    100 ms.
    """
    t, total = np.asarray(times, dtype=float), np.asarray(delivered, dtype=float)
    if end is None:
        end = float(t[-1]) if t.size else start
    count = max(0, int(np.floor((end - start) / step + 1e-9)))
    at = np.asarray(start + step * np.arange(1, count + 1), dtype=np.float64)
    # The smallest part of a step keeps rounding from losing an octet that falls on an edge.
    slack = step * 1e-9
    rate = (_so_far(t, total, at + slack) - _so_far(t, total, at - window + slack)) * 8.0 / window
    return at, rate


def _so_far(times: Floats, total: Floats, at: Floats) -> Floats:
    index = np.searchsorted(times, at, side="right")
    return np.asarray(np.concatenate(([0.0], total))[index], dtype=np.float64)
