"""What checks of claims measure in results: each kind of check by its function in `MEASURES`.

Estimates come with a 95 % interval and one-sided 90 % bounds: BCa bootstraps of runs, in pairs
where two cells are compared; percentiles of runs drawn for all levels together where it is about
the levels of an axis; exact (Clopper and Pearson) for shares of runs, of which a bootstrap knows
nothing where all runs agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from wifu import stats
from wifu.api import Results
from wifu.digits import number
from wifu.errors import LabError
from wifu.hopwise import HOPWISE
from wifu.measured import (
    BOUND_LEVEL,
    Measured,
    counting,
    identical_in,
    of_one,
    one_cell,
    quotient,
    runs_of,
    samples,
    statistic_of,
    words,
)
from wifu.metrics import flow_goodput, metric_of
from wifu.overtime import OVER_TIME
from wifu.published import how_to_measure

LEAST_EVERY = 6
"""Runs in each of which something must have held before a claim that it always does is judged."""


def _value(results: Results, given: Mapping[str, Any]) -> Measured:
    return of_one(*samples(results, given), statistic_of(given))


def _every(results: Results, given: Mapping[str, Any]) -> Measured:
    """What must hold in each run (`worst`: "most" or "least"): of that there is no interval, and no
    run is one of a sample.
    """
    x, exact = samples(results, given)
    worst = float(np.max(x) if given["worst"] == "most" else np.min(x))
    n = 1 if exact else int(x.size)
    return Measured(
        worst, n=n, exact=n >= LEAST_EVERY or exact, note=f"the {given['worst']} of {n}"
    )


def _ratio(results: Results, given: Mapping[str, Any]) -> Measured:
    metric, over = given["metric"], given.get("over_metric")
    if over is None:
        x, y = results.pairs(metric, given["of"], given["over"])
    else:
        x, y = _both(results, (metric, given["of"]), (over, given["over"]))
    if x.size == 0:
        raise LabError(f"no runs in common of {words(given['of'])} and {words(given['over'])}")
    return quotient(x, y, results.plan.deterministic, statistic_of(given))


def _both(
    results: Results, one: tuple[str, Mapping[str, Any]], two: tuple[str, Mapping[str, Any]]
) -> tuple[stats.Floats, stats.Floats]:
    """Two metrics, each of a cell, run by run."""
    found = pd.concat([runs_of(results, *one), runs_of(results, *two)], axis=1, join="inner")
    return found.iloc[:, 0].to_numpy(float), found.iloc[:, 1].to_numpy(float)


def _difference(results: Results, given: Mapping[str, Any]) -> Measured:
    x, y = results.pairs(given["metric"], given["of"], given["over"])
    scale = metric_of(given["metric"]).scale
    statistic, same = statistic_of(given), identical_in(x, y)
    if x.size == 0:
        raise LabError(f"no runs in common of {words(given['of'])} and {words(given['over'])}")
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
    cell = one_cell(results, given["of"])
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


def _share(results: Results, given: Mapping[str, Any]) -> Measured:
    """The share of runs in which a metric is at most, or at least, so much (`counts`)."""
    x, exact = samples(results, given)
    return counting(x, given["counts"], exact)


def _pooled(results: Results, given: Mapping[str, Any]) -> Measured:
    """A statistic of all runs of all the cells `of` by that of those `over`; runs of one number,
    which have the same placement, are drawn together.
    """
    sides = []
    for side in ("of", "over"):
        cells = results.cells(given[side])
        runs = [runs_of(results, given["metric"], c.labels) for c in cells]
        sides.append(pd.concat(runs, axis=1, join="inner"))
    common = sides[0].index.intersection(sides[1].index)
    x, y = (side.loc[common].to_numpy(float).T for side in sides)
    if x.size == 0 or y.size == 0:
        raise LabError(f"no runs in common of {words(given['of'])} and {words(given['over'])}")
    statistic = statistic_of(given)

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


def _slope(at: stats.Floats, values: stats.Floats, limit: float) -> Any:
    """The least squares line's, per unit of the axis."""
    off = at - at.mean()
    return np.tensordot(off, values, axes=1) / np.sum(off**2)


TAKEN: dict[str, Callable[[stats.Floats, stats.Floats, float], Any]] = {
    "greatest": _greatest,
    "least": _least,
    "mean": _mean,
    "where greatest": _where_greatest,
    "how many below": _how_many_below,
    "steps down": _steps_down,
    "slope": _slope,
}
"""What a check along an axis takes of the values of its levels."""


def _along(results: Results, given: Mapping[str, Any]) -> Measured:
    """Of a metric, or of its ratio where `over` is given, at each of some levels of an axis: the
    greatest, the least or the mean, at which level it is greatest, how many are below `limit`, how
    many are below the level before, or the slope of a line through them. Levels of which the
    divisor is nothing are left out.
    """
    name, levels = given["axis"], list(given["levels"])
    sides = [
        [runs_of(results, given["metric"], {name: level, **given[side]}) for level in levels]
        for side in ("of", "over")
        if side in given
    ]
    whole = pd.concat([s for side in sides for s in side], axis=1, join="inner")
    arrays = whole.to_numpy(float).T
    if arrays.shape[1] == 0:
        raise LabError(f"no run of {words(given['of'])} counts at all of {name} {levels}")
    x, *y = np.split(arrays, len(sides))
    if not y:
        x = x / metric_of(given["metric"]).scale
    there = np.ones(len(levels), bool) if not y else y[0].mean(axis=-1) > 0
    if not there.any():
        raise LabError(f"{words(given['over'])}: nothing to divide by at any of {name} {levels}")
    at = np.asarray([float(v) for v in levels])[there]
    take, limit = TAKEN[given["take"]], float(given.get("limit", 1.0))
    statistic = statistic_of(given)

    def value(*drawn: stats.Floats) -> Any:
        # Arrays of levels, then whatever, then runs.
        upper = np.asarray(statistic(drawn[0][there], axis=-1))
        if len(drawn) == 1:
            return take(at, upper, limit)
        under = np.asarray(statistic(drawn[1][there], axis=-1))
        with np.errstate(divide="ignore", invalid="ignore"):
            return take(at, upper / under, limit)

    note = "" if there.all() else f"without {name} {_left_out(levels, there)}: nothing to divide by"
    estimate, same = float(value(x, *y)), bool(y) and identical_in(x, y[0])
    n = arrays.shape[1]
    if results.plan.deterministic:
        return Measured(estimate, n=1, exact=True, identical=same, note=note)
    low, high, lower, upper = stats.drawn_together([x, *y], value, BOUND_LEVEL)
    return Measured(estimate, low, high, lower, upper, n, identical=same, note=note)


def _left_out(levels: Sequence[Any], there: Any) -> str:
    return ", ".join(str(v) for v, is_there in zip(levels, there, strict=True) if not is_there)


# Among rivals -------------------------------------------------------------------------------------


def _best(own: Any, rivals: Any, within: float) -> Any:
    return own > within * np.max(rivals, axis=0)


def _worst(own: Any, rivals: Any, within: float) -> Any:
    return within * own < np.min(rivals, axis=0)


def _alike(own: Any, rivals: Any, within: float) -> Any:
    every = np.concatenate([own[None], rivals])
    return np.min(every, axis=0) > within * np.max(every, axis=0)


AMONG: dict[str, Callable[[Any, Any, float], Any]] = {
    "best": _best,
    "worst": _worst,
    "alike": _alike,
}
"""Whether a mean stands so among those of its rivals, of which each is a row."""


def points_of(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where a check among rivals looks: every combination of the levels of `points`."""
    points = given["points"]
    return [dict(zip(points, levels, strict=True)) for levels in product(*points.values())]


def sides_of(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Who stands among whom in such a check, `of` first: rivals differ by one axis from it."""
    ((axis, names),) = given["rivals"].items()
    return [given["of"], *({**given["of"], axis: name} for name in names)]


def _among(results: Results, given: Mapping[str, Any]) -> Measured:
    """At how many of the `points` the mean of a metric is the `best` of all rivals (the greatest,
    or the least if less of it is better), or the `worst`, or all are `alike`. `within` (1): the
    best has more than this share of each rival's, each rival of the worst more than this share of
    its own; all are alike if the least has more than this share of the greatest. Means are of the
    runs that all cells have.
    """
    points, sides, metric = points_of(given), sides_of(given), given["metric"]
    cells = [runs_of(results, metric, {**side, **point}) for side in sides for point in points]
    runs = pd.concat(cells, axis=1, join="inner").to_numpy(float).T
    n = runs.shape[-1]
    if n == 0:
        raise LabError(f"no run of {words(given['of'])} and of all its rivals counts at all points")
    # Sides, then points, then runs.
    every = runs.reshape(len(sides), len(points), n)
    more = metric_of(metric).better == "more"
    stands, within = AMONG[given["take"]], float(given.get("within", 1.0))

    def where(drawn: stats.Floats) -> Any:
        means = np.mean(drawn, axis=-1)
        with np.errstate(divide="ignore"):
            means = means if more else 1 / means
        return stands(means[0], means[1:], within)

    def value(*drawn: stats.Floats) -> Any:
        return np.sum(where(np.stack(drawn)), axis=0)

    there = where(every)
    note = _there(points, there)
    estimate, same = float(there.sum()), all(identical_in(every[0], rival) for rival in every[1:])
    if results.plan.deterministic:
        return Measured(estimate, n=1, exact=True, identical=same, note=note)
    low, high, lower, upper = stats.drawn_together(list(every), value, BOUND_LEVEL)
    return Measured(estimate, low, high, lower, upper, n, identical=same, note=note)


def _there(points: Sequence[Mapping[str, Any]], there: Any) -> str:
    """Which of the points these are, in words: by the last axis, what is before it once."""
    if there.all() or not there.any():
        return "everywhere" if there.all() else "nowhere"
    found: dict[str, list[str]] = {}
    for point, is_there in zip(points, there, strict=True):
        if is_there:
            *before, (axis, level) = point.items()
            found.setdefault(", ".join([f"{k} {v}" for k, v in before] + [axis]), []).append(
                str(level)
            )
    return "at " + "; ".join(f"{k} {', '.join(levels)}" for k, levels in found.items())


# Of two plans -------------------------------------------------------------------------------------


def _of_both(
    others: Mapping[str, Results | None], given: Mapping[str, Any]
) -> list[tuple[Results, Mapping[str, Any]]]:
    """The two parts of a check, and the results of the plan of each."""
    found = []
    for part in (given["first"], given["second"]):
        results = others.get(part["plan"])
        if results is None:
            raise LabError(how_to_measure(part["plan"]))
        found.append((results, part))
    return found


def _gains(others: Mapping[str, Results | None], given: Mapping[str, Any]) -> Measured:
    """The difference of what two checks of different plans measure, `first` less `second`."""
    first, second = (MEASURES[p["kind"]](results, p) for results, p in _of_both(others, given))
    note = f"{number(first.estimate)} and {number(second.estimate)}"
    return Measured(first.estimate - second.estimate, n=min(first.n, second.n), note=note)


def _shapes(others: Mapping[str, Results | None], given: Mapping[str, Any]) -> Measured:
    """Kolmogorov and Smirnov's distance of the goodputs of all flows of all runs of a cell of one
    plan from those of a cell of another one, each by the mean of its cell.
    """
    both = []
    for results, part in _of_both(others, given):
        cell = one_cell(results, part["of"])
        runs = results.ok.loc[results.ok["cell"] == cell.name, "run"]
        outcomes = [results.outcome(cell, int(run)) for run in runs]
        goodputs = [flow_goodput(o, f, results.plan.measure) for o in outcomes for f in o["flows"]]
        if not any(goodputs):
            raise LabError(f"nothing arrived in {cell.name}")
        both.append(np.asarray(goodputs) / np.mean(goodputs))
    note = f"{both[0].size} and {both[1].size} flows"
    return Measured(stats.distance(*both)[0], n=min(map(len, both)), note=note)


OF_TWO_PLANS: dict[str, Callable[[Mapping[str, Results | None], Mapping[str, Any]], Measured]] = {
    "gains": _gains,
    "shapes": _shapes,
}
"""How each kind of check is measured that compares two plans, whose results it gets by name."""

MEASURES: dict[str, Callable[[Results, Mapping[str, Any]], Measured]] = {
    "value": _value,
    "every": _every,
    "ratio": _ratio,
    "difference": _difference,
    "trace": _trace,
    "share": _share,
    "pooled": _pooled,
    "along": _along,
    "among": _among,
    **OVER_TIME,
    **HOPWISE,
}
"""How each kind of check is measured that looks at the results of one plan."""
