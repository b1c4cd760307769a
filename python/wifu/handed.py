"""What nodes of a hop protocol hand down, from recorded series: rates and stalls at a node, and how
long packets take until their source knows that they arrived.

The plan records `NODE.hop-queue.sent` of each node that is looked at, for round trips also
`rtt_samples` of the source. They are looked at once an interval of the series, which is how exact
these times are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wifu.errors import LabError, nearest
from wifu.sliding import sliding

Floats = NDArray[np.float64]
Series = Mapping[str, "pd.Series[float]"]
Span = tuple[float, float]
"""From when to when, seconds."""

PAYLOAD = 1444
"""Octets of the application in a full packet of HxH (Behaviour 10.1)."""

STALL = 0.5
"""A node that hands nothing down for so many seconds stalls."""

STEP = 0.1
"""Seconds from one window of a rate to the next, as the HxH thesis plots them."""


def handed(series: Series, node: str, flow: int = 1) -> Floats:
    """When a node handed down each packet of a flow, repetitions included."""
    return _grown(_of(series, f"flow.{flow}.{node}.hop-queue.sent"))


def once(series: Series, node: str, flow: int = 1) -> Floats:
    """The same without what the node repeated itself (`NODE.hop-queue.again` is recorded, too)."""
    name = f"flow.{flow}.{node}.hop-queue"
    down, again = _of(series, f"{name}.sent"), _of(series, f"{name}.again")
    return _grown((down - again.reindex(down.index, method="ffill")).cummax())


def rates(
    times: Floats, window: float, end: float, begin: float | None = None
) -> tuple[Floats, Floats]:
    """What was handed down in a window of so many seconds before each instant, bit/s, from `begin`,
    or the first packet, to `end`, each `STEP`.
    """
    if not times.size:
        return np.empty(0), np.empty(0)
    octets = PAYLOAD * np.arange(1, times.size + 1, dtype=float)
    start = STEP * math.floor((float(times[0]) if begin is None else begin) / STEP)
    return sliding(times, octets, window, STEP, start + window, end)


def trips(series: Series, source: str, flow: int = 1) -> Floats:
    """For each packet, in order, the seconds from the first time that its source handed it down to
    the word that it arrived, overheard or told. Packets of which no word came are not in it.
    """
    down = handed(series, source, flow)
    sent = _of(series, f"flow.{flow}.sent").to_numpy(float)
    # The lane of the source hands down in the order in which it was given packets; numbers of those
    # that go again are negative.
    first = np.flatnonzero(sent[: down.size] >= 0)
    known = _grown(_of(series, f"flow.{flow}.rtt_samples"))
    both = min(first.size, known.size)
    return np.asarray(np.maximum(known[:both] - down[first[:both]], 0.0))


def gaps(times: Floats, end: float) -> Floats:
    """Seconds of each stall: between packets, and behind the last one until `end`."""
    if not times.size:
        return np.empty(0)
    waits = np.diff(np.append(times, max(end, float(times[-1]))))
    return np.asarray(waits[waits >= STALL])


def _grown(data: pd.Series[float]) -> Floats:
    """When a count reached 1, 2, ..., as far as it did."""
    known = data[np.isfinite(data.to_numpy(float))]
    counts = np.diff(known.to_numpy(float), prepend=0.0).clip(0.0).astype(int)
    return np.repeat(known.index.to_numpy(float), counts)


def _of(series: Series, name: str) -> pd.Series[float]:
    if name not in series:
        raise LabError(f"there is no series {name}; {nearest(name, series)}")
    return series[name]


def first_word(series: Series, flow: int) -> float:
    """When the destination's first answer reached the source; nan if none did."""
    told = _grown(_of(series, f"flow.{flow}.hxh-source.explicit"))
    return float(told[0]) if told.size else math.nan


def _after(times: Floats, series: Series, flow: int) -> float:
    """The rate in the second behind the destination's first answer, bit/s."""
    begun = first_word(series, flow)
    if math.isnan(begun):
        return math.nan
    return float(np.sum((times > begun) & (times <= begun + 1.0)) * PAYLOAD * 8)


def _mean(times: Floats, span: Span) -> float:
    """The rate over the transfer, bit/s; the first second is in few windows, and has a burst."""
    return times.size * PAYLOAD * 8 / (span[1] - span[0]) if span[1] > span[0] else math.nan


def _cov(rate: Floats) -> float:
    return float(rate.std(ddof=1) / rate.mean()) if rate.size > 1 and rate.any() else math.nan


def _windows(of: Callable[[Floats, float], float]) -> Callable[..., float]:
    """Something of the rates in windows of a second."""

    def take(times: Floats, span: Span, series: Series, flow: int, limit: float) -> float:
        rate = rates(times, 1.0, span[1], span[0])[1]
        return of(rate, limit) if rate.size else math.nan

    return take


OF_RATES: dict[str, Callable[..., float]] = {
    "p90": _windows(lambda rate, _: float(np.quantile(rate, 0.9))),
    "below": _windows(lambda rate, limit: float(np.mean(rate < limit))),
    "cov": _windows(lambda rate, _: _cov(rate)),
    "mean": lambda times, span, series, flow, _: _mean(times, span),
    "once": lambda times, span, series, flow, _: _mean(times, span),
    "first": _windows(lambda rate, _: float(rate[0])),
    "after answer": lambda times, span, series, flow, _: _after(times, series, flow),
    "stalled": lambda times, span, series, flow, _: float(gaps(times, span[1]).sum()),
    "stalls": lambda times, span, series, flow, _: float(gaps(times, span[1]).size),
}
"""What a check takes of what a node handed down, from the source's first packet to the end of the
transfer: of its rate in windows of a second, each 0.1 s, the 90 % quantile, the share of windows
below `limit`, the coefficient of variation, the first; its rate over all of the time, and that
without what it repeated itself (`once`); its rate in the second behind the destination's first
answer; the seconds in stalls, and how many there are.
"""


def rate_of(
    series: Series, outcome: Mapping[str, Any], node: str, take: str, flow: int, limit: float
) -> float:
    """A number (`OF_RATES`) of what a node handed down in a run."""
    (one,) = (f for f in outcome["flows"] if f["id"] == flow)
    end = one.get("known_s") or outcome["sim_seconds"]
    times = (once if take == "once" else handed)(series, node, flow)
    # All nodes have the time of the source, however late the first packet reaches them.
    first = handed(series, str(one["from"]), flow)
    begin = float(first[0]) if first.size else 0.0
    return OF_RATES[take](times, (begin, float(end)), series, flow, limit)
