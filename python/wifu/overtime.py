"""Checks of claims that look at what was recorded over time, by kind in `OVER_TIME`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from wifu import stats, values
from wifu.api import Results
from wifu.cells import Cell
from wifu.errors import LabError, nearest
from wifu.measured import Measured, counting, of_one, one_cell, quotient, statistic_of, words
from wifu.metrics import sliding


def _recorded(
    results: Results, where: Mapping[str, Any], of: Callable[[Cell, int], float]
) -> pd.Series[float]:
    """A number of each run that counts and was recorded, of one cell."""
    cell = one_cell(results, where)
    ok = set(results.ok[results.ok["cell"] == cell.name]["run"])
    runs = sorted(int(run) for run in results.plan.series_runs if run in ok)
    found = {run: of(cell, run) for run in runs}
    if not found:
        raise LabError(f"no series of {cell.name}")
    known = pd.Series(found, dtype=float).dropna()
    known.attrs["of"] = len(found)
    return known


def of_runs(
    results: Results,
    given: Mapping[str, Any],
    of: Callable[[Cell, int], float],
    below: Callable[[Cell, int], float] | None = None,
) -> Measured:
    """A number of each run that was recorded, `times` so much; by that of another cell where `over`
    is given (`below` of it, if that is another number), or what is more than there with
    `difference`; with `counts` the share of runs in which it is at most, or at least, so much.
    """
    sample = _recorded(results, given["of"], of)
    if sample.empty:
        raise LabError(f"{words(given['of'])}: it is in none of {sample.attrs['of']} runs")
    some = f"{len(sample)} of {sample.attrs['of']} runs" if len(sample) < sample.attrs["of"] else ""
    sample = sample * given.get("times", 1.0)
    exact, statistic = results.plan.deterministic, statistic_of(given)
    if "over" in given:
        under = _recorded(results, given["over"], below or of) * given.get("times", 1.0)
        both = pd.concat([sample, under], axis=1, join="inner").to_numpy(float)
        if not len(both):
            raise LabError(f"no runs in common of {words(given['of'])} and {words(given['over'])}")
        if given.get("difference"):
            return of_one(both[:, 0] - both[:, 1], exact, statistic)
        return quotient(both[:, 0], both[:, 1], exact, statistic)
    if "counts" in given:
        return counting(sample.to_numpy(float), given["counts"], exact)
    return of_one(sample.to_numpy(float), exact, statistic, some)


def _curve(
    results: Results, where: Mapping[str, Any], window: float, step: float, end: float
) -> Any:
    cell = one_cell(results, where)
    curves = []
    for run in sorted(results.plan.series_runs):
        series = results.series(cell, run)
        for name in sorted(n for n in series if n.endswith(".delivered")):
            data = series[name]
            times, octets = data.index.to_numpy(float), data.to_numpy(float)
            rates = sliding(times, octets, window, step, end=end)[1]
            curves.append(rates)
    if not curves:
        raise LabError(f"no series of {cell.name}")
    return np.mean(curves, axis=0)


def _correlation(results: Results, given: Mapping[str, Any]) -> Measured:
    """Pearson correlation of the mean instantaneous goodput per flow, over time."""
    window, step, end = given["window"], given["step"], given["until"]
    one = _curve(results, given["of"], window, step, end)
    two = _curve(results, given["over"], window, step, end)
    runs = len(results.plan.series_runs)
    return Measured(float(np.corrcoef(one, two)[0, 1]), n=runs, exact=results.plan.deterministic)


def _carried(results: Results, cell: Cell, run: int, flow: Any, window: Sequence[float]) -> float:
    """The rate of a flow within a window of time, bit/s; of the `weakest`, or the `strongest`. None
    of a run that ended before: what was not simulated is no silence.
    """
    series, outcome = results.series(cell, run), results.outcome(cell, run)
    if float(outcome["sim_seconds"]) < window[1] - 0.5:
        return math.nan
    rates = {}
    for one in outcome["flows"]:
        # A flow of which nothing arrived has no series.
        data = series.get(f"flow.{one['id']}.delivered")
        rates[one["id"]] = 0.0 if data is None else rate_within(data, *window)
    if flow in ("weakest", "strongest"):
        return min(rates.values()) if flow == "weakest" else max(rates.values())
    return rates[flow]


def rate_within(delivered: pd.Series[float], start: float, end: float) -> float:
    """What a cumulative series of octets grew within (start, end], as bit/s."""
    times = delivered.index.to_numpy(float)
    total = np.concatenate(([0.0], delivered.to_numpy(float)))
    low, high = np.searchsorted(times, [start, end], side="right")
    return float(total[high] - total[low]) * 8.0 / (end - start)


def _windows(results: Results, given: Mapping[str, Any]) -> Measured:
    """What a flow carries in a window of time by what one carries in another window."""
    window, over_window = given["window"], given.get("over_window", given["window"])
    flow, over = given["flow"], given.get("over", given["of"])

    def of(cell: Cell, run: int) -> float:
        return _carried(results, cell, run, flow, window)

    def below(cell: Cell, run: int) -> float:
        return _carried(results, cell, run, given.get("over_flow", flow), over_window)

    sides = [_recorded(results, given["of"], of), _recorded(results, over, below)]
    both = pd.concat(sides, axis=1, join="inner")
    x, y = both.iloc[:, 0].to_numpy(float), both.iloc[:, 1].to_numpy(float)
    if x.size == 0:
        end = max(window[1], over_window[1])
        raise LabError(f"no run of {words(given['of'])} lasted until {end:g} s")
    return quotient(x, y, results.plan.deterministic, statistic_of(given))


def _steps(results: Results, given: Mapping[str, Any]) -> Measured:
    """What a flow carries in consecutive windows of `window` seconds, while it lasts and between
    `from` and `until`: the share of them with less than `limit` bit/s, or their coefficient of
    variation; by that of another cell where `over` is given.
    """
    width, flow = float(given["window"]), given["flow"]
    start, end = float(given.get("from", 0.0)), float(given.get("until", math.inf))
    take, limit = given["take"], float(given.get("limit", math.nan))

    def of(cell: Cell, run: int) -> float:
        outcome = results.outcome(cell, run)
        (one,) = (f for f in outcome["flows"] if f["id"] == flow)
        data = results.series(cell, run).get(f"flow.{flow}.delivered")
        last = float(outcome["sim_seconds"])
        if one["finished"] and data is not None:
            last = float(data.index[-1])
        first = max(start, float(one["start_s"]))
        count = int((min(end, last) - first) / width + 1e-9)
        if count < 2:
            return math.nan
        edges = first + width * np.arange(count + 1)
        if data is None:
            rates = np.zeros(count)
        else:
            total = np.concatenate(([0.0], data.to_numpy(float)))
            at = np.searchsorted(data.index.to_numpy(float), edges, side="right")
            rates = np.diff(total[at]) * 8.0 / width
        if take == "below":
            return float(np.mean(rates < limit))
        return float(rates.std(ddof=1) / rates.mean()) if rates.any() else math.nan

    return of_runs(results, given, of)


def _clusters(results: Results, given: Mapping[str, Any]) -> Measured:
    """How often a count (`series`) stood still for more than `gap` seconds and then grew by one and
    at least by `burst` more within `within` seconds.
    """
    gap, within, burst = (float(given[k]) for k in ("gap", "within", "burst"))

    def of(cell: Cell, run: int) -> float:
        data = _known(results, cell, run, given["series"])
        times, counts = data.index.to_numpy(float), data.to_numpy(float)
        # A count that was sampled late may have grown by several.
        grew = np.repeat(times, np.diff(counts, prepend=0.0).clip(0.0).astype(int))
        after = np.flatnonzero(np.diff(grew) > gap) + 1
        soon = np.searchsorted(grew, grew[after] + within, side="right") - after - 1
        return float(np.sum(soon >= burst))

    return of_runs(results, given, of)


def _half(data: pd.Series[float]) -> float:
    """What a series is in the middle of its second half."""
    times = data.index.to_numpy(float)
    return float(data[times >= (times[0] + times[-1]) / 2].median())


def _changed(data: pd.Series[float]) -> int:
    """The place where a series first is another value; its last if it never is."""
    other = np.flatnonzero(data.to_numpy(float) != float(data.iloc[0]))
    return int(other[0]) if other.size else len(data) - 1


def _settled(data: pd.Series[float], first: int = 0) -> float:
    """When an interval first is short enough for 0.8 of the rate of the second half, in seconds
    from the start of the series; from the `first` value on. Nan if that one is: it was not slow.
    """
    enough = data.to_numpy(float)[first:] <= _half(data) / 0.8
    reached = np.flatnonzero(enough)
    if enough[0]:
        return math.nan
    at = first + int(reached[0]) if reached.size else len(data) - 1
    return float(data.index[at] - data.index[0])


def _recovered(data: pd.Series[float]) -> float:
    """The same from the first change on, which is to a longer interval."""
    return _settled(data, _changed(data))


def _off(data: pd.Series[float]) -> float:
    """By what factor the first value is off that of the second half, whichever is larger."""
    ratio = float(data.iloc[0]) / _half(data)
    return max(ratio, 1.0 / ratio)


OF_SERIES: dict[str, Callable[[pd.Series[float]], float]] = {
    "mean": lambda data: float(data.mean()),
    "last": lambda data: float(data.iloc[-1]),
    "greatest": lambda data: float(data.max()),
    "sd of ln": lambda data: float(np.log(data.to_numpy(float)).std()),
    "changed at": lambda data: float(data.index[_changed(data)] - data.index[0]),
    "changed to": lambda data: float(data.iloc[_changed(data)]),
    "settled": _settled,
    "recovered": _recovered,
    "off": _off,
}
"""What a check takes of a recorded series."""


def _series(results: Results, given: Mapping[str, Any]) -> Measured:
    """A number of a recorded series (`take`)."""
    name, take = given["series"], OF_SERIES[given.get("take", "mean")]

    def of(cell: Cell, run: int) -> float:
        return take(_known(results, cell, run, name))

    return of_runs(results, given, of)


def _known(results: Results, cell: Cell, run: int, name: str) -> pd.Series[float]:
    series = results.series(cell, run)
    if name not in series:
        raise LabError(f"{cell.name} has no series {name}; {nearest(name, series)}")
    data = series[name]
    data = data[np.isfinite(data.to_numpy(float))]
    if data.empty:
        raise LabError(f"{cell.name}, run {run}: nothing is known of {name}")
    return data


def _apart(results: Results, given: Mapping[str, Any]) -> Measured:
    """How far two series are apart: the mean of |a - b| over time by the mean of both."""
    one, two = given["series"]
    start = float(given.get("from", 0.0))

    def of(cell: Cell, run: int) -> float:
        a, b = (_known(results, cell, run, name) for name in (one, two))
        first = max(start, float(a.index[0]), float(b.index[0]))
        last = min(float(a.index[-1]), float(b.index[-1]))
        if last <= first:
            raise LabError(f"{cell.name}, run {run}: {one} and {two} have no time in common")
        at = np.linspace(first, last, 1000)
        x, y = (_held(s, at) for s in (a, b))
        return float(np.mean(np.abs(x - y)) / np.mean((x + y) / 2))

    sample = _recorded(results, given["of"], of)
    return of_one(sample.to_numpy(float), results.plan.deterministic, statistic_of(given))


def _held(data: pd.Series[float], at: stats.Floats) -> stats.Floats:
    """What a series said last at some times."""
    index = np.searchsorted(data.index.to_numpy(float), at, side="right") - 1
    return np.asarray(data.to_numpy(float)[np.maximum(index, 0)], dtype=np.float64)


def _resumed(results: Results, given: Mapping[str, Any]) -> Measured:
    """Seconds from each of some times (`after`, when a link is back, say) until a flow delivers
    something, the mean of them; what does not come before the next event of the scenario cuts a
    link, before the next of these times, or at all, counts until then, or to the end of the run.
    """
    after, flow = sorted(float(t) for t in given["after"]), given["flow"]
    missed: list[int] = []

    def of(cell: Cell, run: int) -> float:
        data = results.series(cell, run).get(f"flow.{flow}.delivered")
        times = np.empty(0) if data is None else data.index.to_numpy(float)
        if data is not None:
            # A sample that says the same as the one before is no delivery.
            times = times[np.diff(data.to_numpy(float), prepend=0.0) > 0]
        end = float(results.outcome(cell, run)["sim_seconds"])
        if end < max(after):
            return math.nan
        # One outage that goes on would count again for every time at which the link is back.
        bounds = np.sort([*after, *_cuts(cell), end])
        limit = np.minimum(bounds[np.searchsorted(bounds[:-1], after, side="right")], end)
        next_ = np.append(times, math.inf)[np.searchsorted(times, after, side="right")]
        missed.append(int((next_ > limit).sum()))
        return float(np.mean(np.minimum(next_, limit) - np.asarray(after)))

    found = of_runs(results, given, of)
    if not (none := sum(missed)):
        return found
    told = (
        f"≥: after {none} of {len(after) * len(missed)} of these times nothing came before the "
        "next cut, or the end, until which they count"
    )
    return replace(found, note="; ".join(filter(None, (told, found.note))))


def _cuts(cell: Cell) -> list[float]:
    """When events of a scenario cut links, in seconds."""
    events = cell.scenario.get("event") or []
    return [values.seconds(event.get("at", 0)) for event in events if "cut" in event]


OVER_TIME: dict[str, Callable[[Results, Mapping[str, Any]], Measured]] = {
    "correlation": _correlation,
    "windows": _windows,
    "steps": _steps,
    "clusters": _clusters,
    "series": _series,
    "apart": _apart,
    "resumed": _resumed,
}
