"""Intervals, bounds and comparisons: scipy's tests and resampling, with what has to be decided
around them. Only for samples of which some runs are pairs and others are not scipy has no test:
there (`_mixed`) the variances of independent parts are added, with Welch's and Satterthwaite's
degrees of freedom, which give scipy's own results where it has them.

A sample without variance has no interval that means anything: its bounds are nan, unless it is one
value that is exact because nothing in the run is random.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Side = Literal["lower", "upper"]
Alternative = Literal["two-sided", "less", "greater"]
Statistic = Callable[..., Any]

RESAMPLES = 4999
SEED = 20120901
"""Resampling is seeded: the same results give the same intervals."""
SAME = 1e-6
"""Values that are no further apart, as a share of the greatest, are one: what is random shifted
them by microseconds, and of such replicates every difference would be certain.
"""
AT_ONCE = 10_000_000
"""So many numbers are drawn at once."""


@dataclass(frozen=True)
class Interval:
    """A point estimate and its two-sided interval."""

    estimate: float
    low: float
    high: float
    n: int
    level: float
    method: str
    cut: float = 0.0
    """So much of it was left out by `within`, on both sides together."""

    @property
    def half(self) -> float:
        """Half the width of the interval, as in "1.2 +- 0.1", what was left out included."""
        return (self.high - self.low + self.cut) / 2

    def within(self, least: float, most: float) -> Interval:
        """The part of it that can be true of what is never below `least` or above `most`.

        What is left out never holds the truth, so that the interval covers it as often as before.
        """
        if not (self.known and least <= self.estimate <= most):
            return self
        low, high = max(self.low, least), min(self.high, most)
        cut = self.cut + (low - self.low) + (self.high - high)
        return replace(self, low=low, high=high, cut=cut)

    @property
    def relative(self) -> float:
        """Half the width as a share of the estimate."""
        return self.half / abs(self.estimate) if self.estimate else float("inf")

    @property
    def known(self) -> bool:
        """Whether there are bounds."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))


def clean(sample: ArrayLike) -> Floats:
    """The sample without values that are missing."""
    x = np.asarray(sample, dtype=float)
    return np.asarray(x[np.isfinite(x)], dtype=np.float64)


def mean_interval(sample: ArrayLike, level: float = 0.95) -> Interval:
    """Mean with Student's t interval."""
    x = clean(sample)
    if x.size == 0:
        return Interval(float("nan"), float("nan"), float("nan"), 0, level, "none")
    mean = float(np.mean(x))
    if x.size == 1 or _constant(x):
        return Interval(mean, float("nan"), float("nan"), int(x.size), level, "none")
    ci = _scipy().ttest_1samp(x, 0.0).confidence_interval(level)
    return Interval(mean, float(ci.low), float(ci.high), int(x.size), level, "Student t")


def bootstrap_interval(
    sample: ArrayLike, statistic: Statistic = np.median, level: float = 0.95
) -> Interval:
    """Any statistic with a BCa bootstrap interval."""
    x = clean(sample)
    if x.size == 0:
        return Interval(float("nan"), float("nan"), float("nan"), 0, level, "none")
    estimate = float(statistic(x))
    if x.size < 3 or _constant(x):
        return Interval(estimate, float("nan"), float("nan"), int(x.size), level, "none")
    low, high, method = _bootstrap((x,), statistic, level, "two-sided", paired=False)
    return Interval(estimate, low, high, int(x.size), level, f"bootstrap {method}")


def bound(sample: ArrayLike, statistic: Statistic, side: Side, level: float = 0.90) -> float:
    """One-sided bootstrap bound: with probability `level` the truth is above (below) it."""
    x = clean(sample)
    return _bound((x,), statistic, side, level, paired=False)


def ratio_bound(
    one: ArrayLike, two: ArrayLike, statistic: Statistic, side: Side, level: float = 0.90,
    paired: bool = True,
) -> float:  # fmt: skip
    """One-sided bootstrap bound of statistic(one) / statistic(two).

    With `paired`, values at the same place are from the same random numbers and are drawn together.
    """
    x, y = _pairs(one, two) if paired else (clean(one), clean(two))
    return _bound((x, y), _ratio(statistic), side, level, paired)


def ratio_interval(
    one: ArrayLike, two: ArrayLike, statistic: Statistic = np.mean, level: float = 0.95,
    paired: bool = True,
) -> Interval:  # fmt: skip
    """statistic(one) / statistic(two) with its interval: of means as `relative` has it, since a
    bootstrap of few runs is too narrow (three cover 70 % for 95, ten 91 %); else a bootstrap's.
    """
    x, y = _pairs(one, two) if paired else (clean(one), clean(two))
    n = int(min(x.size, y.size))
    if n == 0 or float(statistic(y)) == 0.0:
        return Interval(float("nan"), float("nan"), float("nan"), n, level, "none")
    estimate = float(statistic(x)) / float(statistic(y))
    if statistic is np.mean:
        runs = np.arange(n if paired else 0)
        found = relative(x, y, runs, runs, level)
        return replace(found, estimate=estimate, low=found.low + 1.0, high=found.high + 1.0)
    if n < 3 or (_constant(x) and _constant(y)):
        return Interval(estimate, float("nan"), float("nan"), n, level, "none")
    low, high, method = _bootstrap((x, y), _ratio(statistic), level, "two-sided", paired)
    return Interval(estimate, low, high, n, level, f"bootstrap {method}")


def difference_interval(
    one: ArrayLike, two: ArrayLike, statistic: Statistic = np.mean, level: float = 0.95
) -> tuple[float, float]:
    """Bootstrap interval of statistic(one) - statistic(two), drawn in pairs."""
    x, y = _pairs(one, two)
    if x.size < 3 or (_constant(x) and _constant(y)):
        return float("nan"), float("nan")
    return _bootstrap((x, y), _less(statistic), level, "two-sided", True)[:2]


def difference_bound(
    one: ArrayLike, two: ArrayLike, statistic: Statistic, side: Side, level: float = 0.90
) -> float:
    """One-sided bootstrap bound of statistic(one) - statistic(two), drawn in pairs."""
    return _bound(_pairs(one, two), _less(statistic), side, level, True)


def drawn_together(
    arrays: Sequence[Floats], value: Callable[..., Any], level: float = 0.90
) -> tuple[float, float, float, float]:
    """95 % interval and one-sided bounds of a value of several rows of runs, where the same runs
    are drawn of all rows. Percentiles, for what is made of the greatest of something is not smooth.
    """
    n = arrays[0].shape[-1]
    if n < 3 or all(_constant(row) for array in arrays for row in array):
        return (float("nan"),) * 4
    drawn = np.random.default_rng(SEED).integers(n, size=(RESAMPLES, n))
    parts = np.array_split(drawn, max(1, n * arrays[0].shape[0] * RESAMPLES // AT_ONCE))
    values = clean(np.concatenate([value(*(a[:, part] for a in arrays)) for part in parts]))
    if values.size == 0:
        return (float("nan"),) * 4
    shares = [2.5, 97.5, 100 * (1 - level), 100 * level]
    low, high, lower, upper = np.percentile(values, shares, method="inverted_cdf")
    return float(low), float(high), float(lower), float(upper)


def share_interval(k: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Exact interval of a share, k of n (Clopper and Pearson)."""
    found = _scipy().binomtest(k, n).proportion_ci(level, method="exact")
    return float(found.low), float(found.high)


def wilson(k: int, n: int, level: float = 0.95) -> Interval:
    """A share, k of n, with Wilson's interval, which has a width where all of n agree, too."""
    found = _scipy().binomtest(k, n).proportion_ci(level, method="wilson")
    return Interval(k / n, float(found.low), float(found.high), n, level, WILSON)


WILSON = "Wilson"
"""The method of intervals of shares of runs."""


def share_bound(k: int, n: int, side: Side, level: float = 0.90) -> float:
    """Exact one-sided bound of a share, k of n."""
    found = share_interval(k, n, 2 * level - 1)
    return found[0] if side == "lower" else found[1]


@dataclass(frozen=True)
class Comparison:
    """Two samples, pair by pair: the mean difference, its interval, and two tests of none."""

    difference: Interval
    p_permutation: float
    p_wilcoxon: float


def paired_difference(
    one: ArrayLike, two: ArrayLike, level: float = 0.95, tests: int = 1
) -> Comparison:
    """one - two, where values at the same place come from the same random numbers.

    With no difference anywhere there is nothing to test: p is nan. `tests`: how many p will be
    corrected together; many need finer p, which more resamples give.
    """
    x, y = _pairs(one, two)
    d = x - y
    interval = mean_interval(d, level)
    if d.size < 3 or not np.any(d != 0):
        return Comparison(interval, float("nan"), float("nan"))
    p = _signs_exactly(d) if d.size <= EXACT_PAIRS else _signs_drawn(x, y, tests)
    return Comparison(interval, p, float(_scipy().wilcoxon(x, y).pvalue))


EXACT_PAIRS = 20
"""So many pairs have all their changes of signs looked at, a million."""


def _signs_exactly(d: Floats) -> float:
    """Two-sided p of the mean of `d` among those of all changes of signs, twice the smaller share
    of them on one side. What scipy's `permutation_test` gives if it looks at all of them, which for
    twenty pairs it does pairing by pairing, in a second.
    """
    sums = np.zeros(1)
    for value in d:
        sums = np.concatenate((sums + value, sums - value))
    seen = float(d.sum())
    # Sums that are equal but for rounding are as extreme.
    near = 1e-12 * float(np.abs(d).sum())
    sides = np.mean(sums <= seen + near), np.mean(sums >= seen - near)
    return min(1.0, 2.0 * float(min(sides)))


def _signs_drawn(x: Floats, y: Floats, tests: int) -> float:
    """The same of changes of signs that are drawn."""
    test = _scipy().permutation_test(
        (x, y),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=max(RESAMPLES, 400 * tests - 1),
        rng=np.random.default_rng(SEED),
    )
    return float(test.pvalue)


def holm(p: ArrayLike) -> Floats:
    """p corrected by Holm for so many tests at once: the chance of one wrong rejection among all of
    them is at most the level that they are held against. Nan, where nothing was tested, stays.

    S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6, 1979.
    """
    given = np.asarray(p, dtype=np.float64)
    out = np.full(given.shape, np.nan)
    order = [int(i) for i in np.argsort(given, kind="stable") if np.isfinite(given[i])]
    highest = 0.0
    for n, i in enumerate(order):
        highest = max(highest, min(1.0, float(given[i]) * (len(order) - n)))
        out[i] = highest
    return out


def least_p(pairs: int, tests: int = 1) -> float:
    """The least p, corrected by Holm for so many tests, that so many pairs can have: all
    differences on one side, of all changes of signs.
    """
    return min(1.0, tests * 2.0 ** (1 - pairs))


def enough(tests: int, level: float) -> int:
    """The least number of pairs of which p, corrected for so many tests, can be below `level`."""
    return next(n for n in range(3, 1000) if least_p(n, tests) < level)


def same_distribution(one: ArrayLike, two: ArrayLike) -> float:
    """p of the two-sample Kolmogorov-Smirnov test."""
    x, y = clean(one), clean(two)
    return float(_scipy().ks_2samp(x, y).pvalue) if x.size and y.size else float("nan")


def distance(one: ArrayLike, two: ArrayLike) -> tuple[float, float]:
    """Kolmogorov and Smirnov's distance of two samples, and p of their being of one distribution;
    nan where one is empty. Where all values are the same there is nothing to test: p is nan.
    """
    x, y = clean(one), clean(two)
    if not (x.size and y.size):
        return float("nan"), float("nan")
    if _constant(np.concatenate([x, y])):
        return 0.0, float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of samples that are all the same p is approximate
        found = _scipy().ks_2samp(x, y)
    return float(found.statistic), float(found.pvalue)


def apart(
    one: ArrayLike, two: ArrayLike, one_runs: ArrayLike = (), two_runs: ArrayLike = (),
    level: float = 0.95,
) -> Interval:  # fmt: skip
    """mean(one) - mean(two) of independent samples, by Welch; a `two` of one value is exact.

    With numbers of runs, those that both have depend on each other, as their random numbers are the
    same; each sample may have more. Without more that is the interval of paired differences.
    """
    x, y = clean(one), clean(two)
    n = int(min(x.size, y.size))
    if n == 0:
        return Interval(float("nan"), float("nan"), float("nan"), 0, level, "none")
    estimate = float(np.mean(x) - np.mean(y))
    half, method = _half(x, y, np.asarray(one_runs), np.asarray(two_runs), level)
    return Interval(estimate, estimate - half, estimate + half, n, level, method)


def relative(
    one: ArrayLike, two: ArrayLike, one_runs: ArrayLike = (), two_runs: ArrayLike = (),
    level: float = 0.95,
) -> Interval:  # fmt: skip
    """mean(one) / mean(two) - 1 with Student's interval of its linearization; else as `apart`."""
    x, y = clean(one), clean(two)
    n = int(min(x.size, y.size))
    mean = float(np.mean(y)) if y.size else 0.0
    if n == 0 or mean == 0.0:
        return Interval(float("nan"), float("nan"), float("nan"), n, level, "none")
    ratio = float(np.mean(x)) / mean
    half, method = _half(
        x / mean, ratio * y / mean, np.asarray(one_runs), np.asarray(two_runs), level
    )
    known = f"linearized, {method}" if np.isfinite(half) else method
    return Interval(ratio - 1.0, ratio - 1.0 - half, ratio - 1.0 + half, n, level, known)


def _half(
    x: Floats, y: Floats, x_runs: NDArray[Any], y_runs: NDArray[Any], level: float
) -> tuple[float, str]:
    """Half the width of the interval of mean(x) - mean(y) (nan if nothing varies); the method."""
    common, at, to = np.intersect1d(x_runs, y_runs, return_indices=True)
    if common.size < 2:
        if max(x.size, y.size) < 2 or (_constant(x) and _constant(y)):
            return float("nan"), "none"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one of them may not vary, and is exact
            test = (
                _scipy().ttest_1samp(x - y, 0.0)
                if min(x.size, y.size) == 1
                else _scipy().ttest_ind(x, y, equal_var=False)
            )
        method = "Welch t"
    elif common.size < max(x.size, y.size):
        return _mixed(x, y, at, to, level)
    else:
        if _constant(x[at] - y[to]):
            return float("nan"), "none"
        test, method = _scipy().ttest_rel(x[at], y[to]), "t of pairs"
    ci = test.confidence_interval(level)
    return float(ci.high - ci.low) / 2, method


def _mixed(
    x: Floats, y: Floats, at: NDArray[Any], to: NDArray[Any], level: float
) -> tuple[float, str]:
    """The same where x[at] and y[to] are pairs, and there are further values of x, y or both."""
    count = at.size
    # Independent parts: what is common, run by run, and what only one of them has.
    pairs = x[at] * count / x.size - y[to] * count / y.size
    parts = [(float(np.var(pairs, ddof=1)) / count, count - 1)]
    for sample in (x, y):
        rest = (sample.size - count) / sample.size
        if rest > 0:  # the spread of all of them, as the rest may be one value
            spread = float(np.var(sample, ddof=1)) / (sample.size - count)
            parts.append((rest**2 * spread, int(sample.size) - 1))
    variance = sum(v for v, _ in parts)
    if variance <= 1e-24 * max(1e-300, float(np.mean(x)) ** 2):
        return float("nan"), "none"
    freedom = variance**2 / sum(v * v / df for v, df in parts)
    return float(_scipy().t.ppf((1 + level) / 2, freedom)) * variance**0.5, "t of pairs"


def batch_means(series: ArrayLike, batches: int, discard: int = 0, level: float = 0.95) -> Interval:
    """Mean of one long correlated series, its interval from means of successive batches.

    The first `discard` batches are warm-up and left out.
    """
    x = np.asarray(series, dtype=float)
    size = x.size // batches
    if size == 0:
        raise ValueError(f"{x.size} values do not make {batches} batches")
    means = x[: size * batches].reshape(batches, size).mean(axis=1)
    return _widened(means[discard:], mean_interval(means[discard:], level))


def batch_rate(amounts: ArrayLike, times: ArrayLike, level: float = 0.95) -> Interval:
    """All amounts by all times of successive batches, with Student's interval of its linearization:
    where batches take equal times it is that of the mean of their rates. See `_widened`.
    """
    x, t = np.asarray(amounts, dtype=float), np.asarray(times, dtype=float)
    rate = float(x.sum() / t.sum())
    each = (x - rate * t) / t.mean() + rate
    return replace(_widened(each, mean_interval(each, level)), estimate=rate)


BATCHES = "batch means"
"""How the method of intervals begins that are of the batches of one run."""

CORRELATED = 5
"""Of so many batches on their correlation is estimated; of fewer it says nothing."""

MOST_CORRELATED = 0.9
"""What it is taken for at most: an interval is up to 4.4 times as wide."""


def _widened(each: Floats, plain: Interval) -> Interval:
    """An interval of successive batches, wider as much as their correlation makes the mean less
    certain: by the root of (1 + c) / (1 - c), as if batches were an autoregressive process.

    `c` is the correlation of neighbours without the bias that it has for being taken about the
    batches' own mean (M. G. Kendall, Note on bias in the estimation of autocorrelation, Biometrika
    41, 1954), and nothing where it is negative. Of ten batches 95 % are 96 where they are
    independent, 94 at c = 0.2 (91 without it) and 90 at 0.4 (82).
    """
    if each.size < CORRELATED or not plain.known:
        return replace(plain, method=f"{BATCHES}, t" if plain.known else plain.method)
    n = each.size
    c = min(MOST_CORRELATED, (neighbours(each) + 1 / n) / (1 - 3 / n))
    if c <= 0:
        return replace(plain, method=f"{BATCHES}, t")
    half = plain.half * ((1 + c) / (1 - c)) ** 0.5
    low, high = plain.estimate - half, plain.estimate + half
    return replace(plain, low=low, high=high, method=f"{BATCHES}, t, widened for correlation")


def neighbours(series: ArrayLike) -> float:
    """The correlation of each value with the next one; 0 if nothing varies."""
    x = np.asarray(series, dtype=float)
    apart = x - np.mean(x)
    square = float(np.sum(apart**2))
    return float(np.sum(apart[1:] * apart[:-1])) / square if square else 0.0


def _scipy() -> Any:
    # It takes a second to import, which commands that compute nothing should not wait for.
    from scipy import stats

    return stats


def _pairs(one: ArrayLike, two: ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(one, dtype=float), np.asarray(two, dtype=float)
    if x.shape != y.shape:
        raise ValueError(f"{x.size} and {y.size} values are not pairs")
    both = np.isfinite(x) & np.isfinite(y)
    return x[both], y[both]


def _constant(x: Floats) -> bool:
    return bool(np.ptp(x) <= SAME * max(1e-300, float(np.max(np.abs(x)))))


def _ratio(statistic: Statistic) -> Statistic:
    def ratio(a: Floats, b: Floats, axis: int = -1) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(statistic(a, axis=axis)) / np.asarray(statistic(b, axis=axis))

    return ratio


def _less(statistic: Statistic) -> Statistic:
    def difference(a: Floats, b: Floats, axis: int = -1) -> Any:
        return np.asarray(statistic(a, axis=axis)) - np.asarray(statistic(b, axis=axis))

    return difference


def _bound(
    data: tuple[Floats, ...], statistic: Statistic, side: Side, level: float, paired: bool
) -> float:
    if min(x.size for x in data) < 3 or all(_constant(x) for x in data):
        return float("nan")
    alternative: Alternative = "greater" if side == "lower" else "less"
    low, high, _ = _bootstrap(data, statistic, level, alternative, paired)
    return low if side == "lower" else high


def _bootstrap(
    data: tuple[Floats, ...],
    statistic: Statistic,
    level: float,
    alternative: Alternative,
    paired: bool,
) -> tuple[float, float, str]:
    """BCa; where that is not defined (a degenerate jackknife) percentiles of the same resamples."""
    for method in ("BCa", "percentile"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = _scipy().bootstrap(
                data,
                statistic,
                n_resamples=RESAMPLES,
                confidence_level=level,
                alternative=alternative,
                paired=paired,
                vectorized=True,
                method=method,
                rng=np.random.default_rng(SEED),
            )
        low = float(result.confidence_interval.low)
        high = float(result.confidence_interval.high)
        wanted = {"greater": [low], "less": [high], "two-sided": [low, high]}[alternative]
        if not any(np.isnan(v) for v in wanted):
            return low, high, method
    return float("nan"), float("nan"), "none"
