"""What nodes of a hop protocol hand down, from recorded series: rates and stalls at a node, and how
long packets take until their source knows that they arrived.

The plan records `NODE.hop-queue.sent` of each node that is looked at, for round trips also
`rtt_samples` of the source. They are looked at once an interval of the series, which is how exact
these times are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wifu.errors import LabError, nearest
from wifu.sliding import sliding

Floats = NDArray[np.float64]
Series = Mapping[str, "pd.Series[float]"]
Span = tuple[float, float]
"""From when to when, seconds."""

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


def payload(flow: Mapping[str, Any]) -> float:
    """Octets of the application in a packet of a flow of an outcome on the mean, of those that its
    source sent for the first time; nan if that is not told.
    """
    told = [flow.get(name) for name in ("sent_bytes", "data_segments", "retransmissions")]
    if None in told:
        return math.nan
    octets, packets, again = (float(n) for n in told if n is not None)
    return octets / (packets - again) if octets > 0 and packets > again else math.nan


def rates(
    times: Floats, window: float, end: float, begin: float | None = None, bits: float = 1.0
) -> tuple[Floats, Floats]:
    """What was handed down in a window of so many seconds before each instant, from `begin`, or the
    first packet, to `end`, each `STEP`: bit/s of packets of so many `bits`, without them packets/s.
    """
    if not times.size:
        return np.empty(0), np.empty(0)
    octets = bits / 8 * np.arange(1, times.size + 1, dtype=float)
    start = STEP * math.floor((float(times[0]) if begin is None else begin) / STEP)
    return sliding(times, octets, window, STEP, start + window, end)


class Trips(NamedTuple):
    """Round trips of a flow's packets, in order, in seconds."""

    told: Floats
    """From the first time that the source handed a packet down to the word that it arrived,
    overheard or told.
    """
    at_end: Floats
    """The same of those of which the series tells no word: with it the source knew that all had
    arrived, and the connection ended, before the series was looked at again.
    """
    never: int
    """Packets of which no word came at all."""

    @property
    def known(self) -> Floats:
        """All that ended."""
        return np.concatenate([self.told, self.at_end])


def trips(series: Series, outcome: Mapping[str, Any], flow: int = 1) -> Trips:
    """How long the packets of a flow took until its source knew that they arrived."""
    one = flow_of(outcome, flow)
    source, name = str(one["from"]), f"flow.{flow}.sent"
    down, sent = handed(series, source, flow), _of(series, name)
    counts = _of(series, f"flow.{flow}.{source}.hop-queue.sent")
    # Whatever left after the last look at the lane was handed down then at the soonest.
    looked = float(counts.index[-1]) if len(counts) else 0.0
    late = np.maximum(sent.index.to_numpy(float)[down.size :], looked)
    # The lane of the source hands down in the order in which it was given packets; numbers of those
    # that go again are negative.
    first = np.concatenate([down, late])[: len(sent)][sent.to_numpy(float) >= 0]
    known = _grown(_of(series, f"flow.{flow}.rtt_samples"))[: first.size]
    told, left = np.maximum(known - first[: known.size], 0.0), first[known.size :]
    if (end := one.get("known_s")) is None:
        return Trips(told, np.empty(0), left.size)
    return Trips(told, np.maximum(float(end) - left, 0.0), 0)


def flow_of(outcome: Mapping[str, Any], flow: int) -> Mapping[str, Any]:
    """A flow of an outcome by its number. LabError if there is none."""
    every = outcome["flows"]
    found: Mapping[str, Any] | None = next((f for f in every if f["id"] == flow), None)
    if found is None:
        raise LabError(f"there is no flow {flow}, of {len(every)}")
    return found


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


class Down(NamedTuple):
    """What a node handed down in a run: when, from when to when it is looked at, the bits of a
    packet, and what a check says.
    """

    times: Floats
    span: Span
    bits: float
    series: Series
    flow: int
    limit: float


def _after(down: Down) -> float:
    """The rate in the second behind the destination's first answer, bit/s."""
    begun = first_word(down.series, down.flow)
    if math.isnan(begun):
        return math.nan
    return float(np.sum((down.times > begun) & (down.times <= begun + 1.0)) * down.bits)


def _mean(down: Down) -> float:
    """The rate over the transfer, bit/s; the first second is in few windows, and has a burst."""
    begin, end = down.span
    return down.times.size * down.bits / (end - begin) if end > begin else math.nan


def _cov(rate: Floats) -> float:
    return float(rate.std(ddof=1) / rate.mean()) if rate.size > 1 and rate.any() else math.nan


def _windows(of: Callable[[Floats, float], float]) -> Callable[[Down], float]:
    """Something of the rates in windows of a second."""

    def take(down: Down) -> float:
        rate = rates(down.times, 1.0, down.span[1], down.span[0], down.bits)[1]
        return of(rate, down.limit) if rate.size else math.nan

    return take


OF_RATES: dict[str, Callable[[Down], float]] = {
    "p90": _windows(lambda rate, _: float(np.quantile(rate, 0.9))),
    "below": _windows(lambda rate, limit: float(np.mean(rate < limit))),
    "cov": _windows(lambda rate, _: _cov(rate)),
    "mean": _mean,
    "once": _mean,
    "first": _windows(lambda rate, _: float(rate[0])),
    "after answer": _after,
    "stalled": lambda down: float(gaps(down.times, down.span[1]).sum()),
    "stalls": lambda down: float(gaps(down.times, down.span[1]).size),
}
"""What a check takes of what a node handed down, from the source's first packet to the end of the
transfer: of its rate in windows of a second, each 0.1 s, the 90 % quantile, the share of windows
below `limit`, the coefficient of variation, the first; its rate over all of the time, and that
without what it repeated itself (`once`); its rate in the second behind the destination's first
answer; the seconds in stalls, and how many there are.
"""

OF_PACKETS = ("cov", "stalled", "stalls")
"""Those of them that are the same whatever packets carry."""


def rate_of(
    series: Series, outcome: Mapping[str, Any], node: str, take: str, flow: int, limit: float
) -> float:
    """A number (`OF_RATES`) of what a node handed down in a run."""
    one = flow_of(outcome, flow)
    bits = 1.0 if take in OF_PACKETS else 8 * payload(one)
    if math.isnan(bits):
        raise LabError(f"how many octets a packet of flow {flow} carries is not recorded")
    end = one.get("known_s") or outcome["sim_seconds"]
    times = (once if take == "once" else handed)(series, node, flow)
    # All nodes have the time of the source, however late the first packet reaches them.
    first = handed(series, str(one["from"]), flow)
    begin = float(first[0]) if first.size else 0.0
    return OF_RATES[take](Down(times, (begin, float(end)), bits, series, flow, limit))
