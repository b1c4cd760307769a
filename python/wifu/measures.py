"""What checks of claims measure in results: each kind of check by its function in `MEASURES`.

Estimates come with a 95 % interval and one-sided 90 % bounds: BCa bootstraps of runs, in pairs
where two cells are compared; percentiles of runs drawn for all levels together where it is about
the levels of an axis; exact (Clopper and Pearson) for shares of runs, of which a bootstrap knows
nothing where all runs agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from wifu import stats
from wifu.api import Results
from wifu.cells import Cell
from wifu.digits import number
from wifu.errors import LabError, nearest
from wifu.metrics import metric_of, sliding
from wifu.published import how_to_measure

BOUND_LEVEL = 0.90
STATISTICS: dict[str, stats.Statistic] = {"mean": np.mean, "median": np.median}


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


def _statistic(given: Mapping[str, Any]) -> stats.Statistic:
    return STATISTICS[given.get("statistic", "mean")]


def _samples(results: Results, given: Mapping[str, Any]) -> tuple[stats.Floats, bool]:
    sample = results.sample(given["metric"], given["of"]).to_numpy(float)
    sample = stats.clean(sample) / metric_of(given["metric"]).scale
    if sample.size == 0:
        raise LabError(f"no run of {_words(given['of'])} counts")
    return sample, results.plan.deterministic


def _words(where: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in where.items()) or "the plan"


def _value(results: Results, given: Mapping[str, Any]) -> Measured:
    return _one(*_samples(results, given), _statistic(given))


def _one(x: stats.Floats, exact: bool, statistic: stats.Statistic, note: str = "") -> Measured:
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


def _ratio(results: Results, given: Mapping[str, Any]) -> Measured:
    metric, over = given["metric"], given.get("over_metric")
    if over is None:
        x, y = results.pairs(metric, given["of"], given["over"])
    else:
        x, y = _both(results, (metric, given["of"]), (over, given["over"]))
    if x.size == 0:
        raise LabError(f"no runs in common of {_words(given['of'])} and {_words(given['over'])}")
    return _quotient(x, y, results.plan.deterministic, _statistic(given))


def _quotient(
    x: stats.Floats, y: stats.Floats, exact: bool, statistic: stats.Statistic
) -> Measured:
    """A statistic of one sample by that of another, run by run."""
    same = _identical(x, y)
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


def _both(
    results: Results, one: tuple[str, Mapping[str, Any]], two: tuple[str, Mapping[str, Any]]
) -> tuple[stats.Floats, stats.Floats]:
    """Two metrics, each of a cell, run by run."""
    found = pd.concat([_runs_of(results, *one), _runs_of(results, *two)], axis=1, join="inner")
    return found.iloc[:, 0].to_numpy(float), found.iloc[:, 1].to_numpy(float)


def _identical(x: stats.Floats, y: stats.Floats) -> bool:
    """Whether every run gave the same number on both sides: then nothing of it varies, and an
    interval of their ratio or difference is a point however many runs there are.
    """
    return bool(np.array_equal(x, y))


def _difference(results: Results, given: Mapping[str, Any]) -> Measured:
    x, y = results.pairs(given["metric"], given["of"], given["over"])
    scale = metric_of(given["metric"]).scale
    statistic, same = _statistic(given), _identical(x, y)
    if x.size == 0:
        raise LabError(f"no runs in common of {_words(given['of'])} and {_words(given['over'])}")
    estimate = float(statistic(x) - statistic(y)) / scale
    if results.plan.deterministic:
        return Measured(estimate, n=1, exact=True, identical=same)
    low, high = stats.difference_interval(x / scale, y / scale, statistic)
    lower, upper = (
        stats.difference_bound(x / scale, y / scale, statistic, side, BOUND_LEVEL)
        for side in ("lower", "upper")
    )
    return Measured(estimate, low, high, lower, upper, int(x.size), identical=same)


def _trace(results: Results, given: Mapping[str, Any]) -> Measured:
    """1 if a trace of `wifu mock` sends the segments of the reference in its order, from the first
    that is retransmitted on, cuts the window as stated, and does so on the third duplicate.
    """
    (cell,) = results.cells(given["of"])
    rows = results.outcome(cell, 1)["trace"]
    mss = max(r["len"] for r in rows if r["event"] == "send")
    sends = [r for r in rows if r["event"] == "send" and r["seq_index"] is not None]
    order = [r["seq_index"] for r in sends]
    reference = list(given["order"])
    first = next((i for i, r in enumerate(sends) if r["retransmission"]), None)
    if first is None:
        return Measured(0.0, exact=True, text="nothing was retransmitted")
    faults = []
    start = order.index(reference[0])
    if order[:start] != list(range(start)):
        faults.append("an unexpected order before the loss")
    if order[start : start + len(reference)] != reference:
        faults.append(f"order {order[start : start + len(reference)]}")
    again = sends[first]
    if again["cwnd"] != mss * given["cwnd"]:
        faults.append(f"cwnd {again['cwnd'] / mss:g} segments")
    if again["ssthresh"] != mss * given["ssthresh"]:
        faults.append(f"ssthresh {again['ssthresh'] / mss:g} segments")
    before = rows[: rows.index(again)]
    asked = sum(r["event"] == "ack" and r["seq_index"] == again["seq_index"] for r in before)
    if asked != 4 or again["reason"] != "dupack":
        faults.append(f"retransmitted for {again['reason']} after {asked - 1} duplicates")
    text = "; ".join(faults) or (
        f"{len(reference)} segments in the reference's order, cwnd {given['cwnd']:g} MSS, "
        f"ssthresh {given['ssthresh']:g} MSS, on the 3rd duplicate"
    )
    return Measured(0.0 if faults else 1.0, exact=True, text=text)


def _curve(
    results: Results, where: Mapping[str, Any], window: float, step: float, end: float
) -> Any:
    (cell,) = results.cells(where)
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


def _share(results: Results, given: Mapping[str, Any]) -> Measured:
    """The share of runs in which a metric is at most, or at least, so much (`counts`)."""
    x, exact = _samples(results, given)
    limits = given["counts"]
    inside = (x >= limits.get("at_least", -math.inf)) & (x <= limits.get("at_most", math.inf))
    k, n = int(inside.sum()), int(x.size)
    if exact:
        return Measured(k / n, n=1, exact=True)
    low, high = stats.share_interval(k, n)
    lower, upper = (stats.share_bound(k, n, side, BOUND_LEVEL) for side in ("lower", "upper"))
    return Measured(k / n, low, high, lower, upper, n, note=f"{k} of {n} runs")


def _pooled(results: Results, given: Mapping[str, Any]) -> Measured:
    """A statistic of all runs of all the cells `of` by that of those `over`; runs of one number,
    which have the same placement, are drawn together.
    """
    sides = []
    for side in ("of", "over"):
        cells = results.cells(given[side])
        runs = [_runs_of(results, given["metric"], c.labels) for c in cells]
        sides.append(pd.concat(runs, axis=1, join="inner"))
    common = sides[0].index.intersection(sides[1].index)
    x, y = (side.loc[common].to_numpy(float).T for side in sides)
    if x.size == 0 or y.size == 0:
        raise LabError(f"no runs in common of {_words(given['of'])} and {_words(given['over'])}")
    statistic = _statistic(given)

    def value(*drawn: stats.Floats) -> Any:
        # Cells, then whatever, then runs.
        one, two = (np.moveaxis(a, 0, -1) for a in drawn)
        upper = statistic(one.reshape(*one.shape[:-2], -1), axis=-1)
        under = statistic(two.reshape(*two.shape[:-2], -1), axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(upper) / np.asarray(under)

    low, high, lower, upper = stats.drawn_together([x, y], value, BOUND_LEVEL)
    note = f"{x.size} runs of {len(x)} cells"
    return Measured(float(value(x, y)), low, high, lower, upper, len(common), note=note)


# Along the levels of an axis ----------------------------------------------------------------------


def _greatest(at: stats.Floats, values: stats.Floats, limit: float) -> Any:
    return np.max(values, axis=0)


def _least(at: stats.Floats, values: stats.Floats, limit: float) -> Any:
    return np.min(values, axis=0)


def _mean(at: stats.Floats, values: stats.Floats, limit: float) -> Any:
    return np.mean(values, axis=0)


def _where_greatest(at: stats.Floats, values: stats.Floats, limit: float) -> Any:
    return at[np.argmax(values, axis=0)]


def _how_many_below(at: stats.Floats, values: stats.Floats, limit: float) -> Any:
    return np.sum(values < limit, axis=0)


def _steps_down(at: stats.Floats, values: stats.Floats, limit: float) -> Any:
    return np.sum(np.diff(values, axis=0) < 0, axis=0)


TAKEN: dict[str, Callable[[stats.Floats, stats.Floats, float], Any]] = {
    "greatest": _greatest,
    "least": _least,
    "mean": _mean,
    "where greatest": _where_greatest,
    "how many below": _how_many_below,
    "steps down": _steps_down,
}
"""What a check along an axis takes of the values of its levels."""


def _along(results: Results, given: Mapping[str, Any]) -> Measured:
    """Of a metric, or of its ratio where `over` is given, at each of some levels of an axis: the
    greatest, the least or the mean, at which level it is greatest, how many are below `limit`, or
    how many are below the level before. Levels of which the divisor is nothing are left out.
    """
    name, levels = given["axis"], list(given["levels"])
    sides = [
        [_runs_of(results, given["metric"], {name: level, **given[side]}) for level in levels]
        for side in ("of", "over")
        if side in given
    ]
    whole = pd.concat([s for side in sides for s in side], axis=1, join="inner")
    arrays = whole.to_numpy(float).T
    if arrays.shape[1] == 0:
        raise LabError(f"no run of {_words(given['of'])} counts at all of {name} {levels}")
    x, *y = np.split(arrays, len(sides))
    if not y:
        x = x / metric_of(given["metric"]).scale
    there = np.ones(len(levels), bool) if not y else y[0].mean(axis=-1) > 0
    if not there.any():
        raise LabError(f"{_words(given['over'])}: nothing to divide by at any of {name} {levels}")
    at = np.asarray([float(v) for v in levels])[there]
    take, limit = TAKEN[given["take"]], float(given.get("limit", 1.0))
    statistic = _statistic(given)

    def value(*drawn: stats.Floats) -> Any:
        # Arrays of levels, then whatever, then runs.
        upper = np.asarray(statistic(drawn[0][there], axis=-1))
        if len(drawn) == 1:
            return take(at, upper, limit)
        under = np.asarray(statistic(drawn[1][there], axis=-1))
        with np.errstate(divide="ignore", invalid="ignore"):
            return take(at, upper / under, limit)

    note = "" if there.all() else f"without {name} {_left_out(levels, there)}: nothing to divide by"
    estimate, same = float(value(x, *y)), bool(y) and _identical(x, y[0])
    n = arrays.shape[1]
    if results.plan.deterministic:
        return Measured(estimate, n=1, exact=True, identical=same, note=note)
    low, high, lower, upper = stats.drawn_together([x, *y], value, BOUND_LEVEL)
    return Measured(estimate, low, high, lower, upper, n, identical=same, note=note)


def _left_out(levels: Sequence[Any], there: Any) -> str:
    return ", ".join(str(v) for v, is_there in zip(levels, there, strict=True) if not is_there)


def _runs_of(results: Results, metric: str, where: Mapping[str, Any]) -> pd.Series[float]:
    """A metric of the runs of one cell, by run."""
    sample = results.sample(metric, where)
    if len(results.cells(where)) > 1:
        raise LabError(f"{_words(where)} is more than one cell: say which")
    return sample.droplevel("cell").dropna() if len(sample) else sample


# Over time ----------------------------------------------------------------------------------------


def _recorded(
    results: Results, where: Mapping[str, Any], of: Callable[[Cell, int], float]
) -> pd.Series[float]:
    """A number of each run that counts and was recorded, of one cell."""
    (cell,) = results.cells(where)
    ok = set(results.ok[results.ok["cell"] == cell.name]["run"])
    runs = sorted(int(run) for run in results.plan.series_runs if run in ok)
    found = {run: of(cell, run) for run in runs}
    if not found:
        raise LabError(f"no series of {cell.name}")
    return pd.Series(found, dtype=float).dropna()


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
        raise LabError(f"no run of {_words(given['of'])} lasted until {end:g} s")
    return _quotient(x, y, results.plan.deterministic, _statistic(given))


def _series(results: Results, given: Mapping[str, Any]) -> Measured:
    """The last or the mean value of a recorded series, `times` so much."""
    name, take = given["series"], given.get("take", "mean")

    def of(cell: Cell, run: int) -> float:
        data = _known(results, cell, run, name)
        return float(data.iloc[-1] if take == "last" else data.mean())

    sample = _recorded(results, given["of"], of) * given.get("times", 1.0)
    return _one(sample.to_numpy(float), results.plan.deterministic, _statistic(given))


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
    return _one(sample.to_numpy(float), results.plan.deterministic, _statistic(given))


def _held(data: pd.Series[float], at: stats.Floats) -> stats.Floats:
    """What a series said last at some times."""
    index = np.searchsorted(data.index.to_numpy(float), at, side="right") - 1
    return np.asarray(data.to_numpy(float)[np.maximum(index, 0)], dtype=np.float64)


# Of two plans -------------------------------------------------------------------------------------


def gains(others: Mapping[str, Results | None], given: Mapping[str, Any]) -> Measured:
    """The difference of what two checks of different plans measure, `first` less `second`."""
    found = []
    for part in (given["first"], given["second"]):
        results = others.get(part["plan"])
        if results is None:
            raise LabError(how_to_measure(part["plan"]))
        found.append(MEASURES[part["kind"]](results, part))
    first, second = found
    note = f"{number(first.estimate)} and {number(second.estimate)}"
    return Measured(first.estimate - second.estimate, n=min(first.n, second.n), note=note)


MEASURES: dict[str, Callable[[Results, Mapping[str, Any]], Measured]] = {
    "value": _value,
    "ratio": _ratio,
    "difference": _difference,
    "trace": _trace,
    "correlation": _correlation,
    "share": _share,
    "pooled": _pooled,
    "along": _along,
    "windows": _windows,
    "series": _series,
    "apart": _apart,
}
"""How each kind of check is measured, but for `gains`, which looks at several plans."""
