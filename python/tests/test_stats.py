"""Known answers, and what intervals promise, checked by simulation (seeded)."""

from typing import Any

import numpy as np
import pytest
from scipy import stats as sps

from wifu import stats
from wifu.campaign import narrow
from wifu.tables import LEAST_RUNS


def test_the_t_interval_of_ten_batches_is_the_published_formula() -> None:
    x = np.array([5.1, 4.9, 5.3, 5.0, 4.8, 5.2, 5.1, 4.7, 5.0, 5.4])
    found = stats.mean_interval(x)
    half = 2.262 * x.std(ddof=1) / np.sqrt(10)
    assert found.estimate == pytest.approx(x.mean())
    assert found.half == pytest.approx(half, rel=1e-3)
    assert found.n == 10


def test_t_intervals_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(2000):
        found = stats.mean_interval(rng.normal(3.0, 1.0, 8))
        hits += found.low <= 3.0 <= found.high
    # 95 % +- 4 standard errors of 2000 trials.
    assert hits / 2000 == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 2000))


def test_stopping_once_narrow_costs_some_coverage_and_less_after_ten_runs() -> None:
    """What docs and report say of intervals after `until`: sd 10 % of the mean, stop at 5 %."""
    cover = {}
    for least in (3, LEAST_RUNS):
        rng = np.random.default_rng(9)
        hits, trials = 0, 800
        for _ in range(trials):
            x = rng.normal(1.0, 0.1, 100)
            runs = range(least, x.size + 1)
            stop = next((n for n in runs if narrow(x[:n].tolist(), 0.05, least)), x.size)
            found = stats.mean_interval(x[:stop])
            hits += found.low <= 1.0 <= found.high
        cover[least] = hits / trials
    assert cover[3] < 0.92
    assert 0.925 <= cover[LEAST_RUNS] < 0.95


def test_bootstrap_intervals_of_a_median_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "RESAMPLES", 999)
    rng = np.random.default_rng(2)
    truth = float(sps.lognorm(0.5).median())
    hits = 0
    for _ in range(300):
        found = stats.bootstrap_interval(rng.lognormal(0, 0.5, 40), np.median)
        hits += found.low <= truth <= found.high
    assert 0.90 <= hits / 300 <= 0.985


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_one_sided_bounds_of_a_paired_ratio_are_right_nine_times_in_ten(
    side: stats.Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "RESAMPLES", 999)
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(300):
        common = rng.lognormal(0, 0.3, 30)
        one, two = common * rng.normal(1.2, 0.1, 30), common * rng.normal(1.0, 0.1, 30)
        found = stats.ratio_bound(one, two, np.mean, side)
        hits += found <= 1.2 if side == "lower" else found >= 1.2
    assert 0.84 <= hits / 300 <= 0.955


@pytest.mark.parametrize("n", [3, 5, 10])
def test_intervals_of_a_ratio_cover_it_with_few_runs_as_well(n: int) -> None:
    rng = np.random.default_rng(8)
    hits = 0
    for _ in range(600):
        common = rng.lognormal(0, 0.2, n)
        one, two = common * rng.normal(1.2, 0.1, n), common * rng.normal(1.0, 0.1, n)
        found = stats.ratio_interval(one, two)
        hits += found.low <= 1.2 <= found.high
    # A bootstrap has 0.70, 0.83 and 0.91.
    assert 0.92 <= hits / 600 <= 0.99


def test_of_few_pairs_and_many_tests_no_p_is_small() -> None:
    assert stats.least_p(5) == 2 / 32
    assert stats.least_p(10, 27) > 0.05 > stats.least_p(11, 27)
    assert stats.enough(27, 0.05) == 11
    every = stats.paired_difference(np.arange(10) + 5.0, np.arange(10) * 1.0)
    assert every.p_permutation == stats.least_p(10)


def test_pairing_makes_ratios_sharper() -> None:
    rng = np.random.default_rng(4)
    common = rng.lognormal(0, 0.5, 20)
    one, two = common * rng.normal(1.1, 0.02, 20), common * rng.normal(1.0, 0.02, 20)
    paired = stats.ratio_interval(one, two)
    apart = stats.ratio_interval(one, two, paired=False)
    assert paired.low > 1.0
    assert paired.half < apart.half / 5
    assert paired.estimate == apart.estimate


def test_batch_means_of_an_autoregressive_process_cover_where_the_naive_interval_does_not() -> None:
    rng = np.random.default_rng(5)
    phi, length, batches = 0.9, 5500, 11
    hits = naive = 0
    for _ in range(400):
        noise = rng.normal(0, 1, length)
        x = np.empty(length)
        x[0] = noise[0] / np.sqrt(1 - phi**2)
        for i in range(1, length):
            x[i] = phi * x[i - 1] + noise[i]
        found = stats.batch_means(x, batches, discard=1)
        hits += found.low <= 0.0 <= found.high
        wrong = stats.mean_interval(x)
        naive += wrong.low <= 0.0 <= wrong.high
    assert 0.91 <= hits / 400 <= 0.98
    assert naive / 400 < 0.5


@pytest.mark.parametrize(
    ("rho", "least", "most"), [(0.0, 0.945, 0.98), (0.2, 0.92, 0.97), (0.4, 0.87, 0.94)]
)
def test_intervals_of_batches_that_depend_on_each_other_are_wider(
    rho: float, least: float, most: float
) -> None:
    """As Student's they cover 95, 91 and 82 %."""
    rng = np.random.default_rng(8)
    hits = plain = 0
    for _ in range(1000):
        noise = rng.normal(0, 1, 10)
        x = np.empty(10)
        x[0] = noise[0] / np.sqrt(1 - rho**2)
        for i in range(1, 10):
            x[i] = rho * x[i - 1] + noise[i]
        found = stats.batch_rate(100.0 + x, np.full(10, 1.0))
        hits += found.low <= 100.0 <= found.high
        wrong = stats.mean_interval(100.0 + x)
        plain += wrong.low <= 100.0 <= wrong.high
        assert found.half >= wrong.half * (1 - 1e-9)
    assert least <= hits / 1000 <= most
    assert rho == 0 or plain / 1000 < hits / 1000 - 0.02


def test_batches_are_widened_by_hand() -> None:
    rising = [1.0, 2.0, 3.0, 4.0, 5.0]
    found, plain = stats.batch_rate(rising, np.ones(5)), stats.mean_interval(rising)
    # Products 2, 0, 0, 2 by squares 4, 1, 0, 1, 4: (0.4 + 1/5) / (1 - 3/5) is above 0.9.
    assert stats.neighbours(rising) == pytest.approx(0.4)
    assert found.half == pytest.approx(plain.half * (1.9 / 0.1) ** 0.5)
    assert found.method == "batch means, t, widened for correlation"
    wave = stats.batch_rate([1.0, 3.0] * 5, np.ones(10))
    assert wave.method == "batch means, t"
    assert wave.half == pytest.approx(stats.mean_interval([1.0, 3.0] * 5).half)
    four = stats.batch_rate(rising[:4], np.ones(4))
    assert four.half == pytest.approx(stats.mean_interval(rising[:4]).half), "too few to tell"
    assert stats.neighbours([2.0, 2.0]) == 0.0
    assert stats.batch_rate([2.0] * 6, np.ones(6)).method == "none"


def test_batch_means_by_hand() -> None:
    found = stats.batch_means([9, 9, 1, 3, 2, 4, 3, 5, 7], 4, discard=1)
    assert found.estimate == pytest.approx((2 + 3 + 4) / 3)
    assert found.n == 3
    with pytest.raises(ValueError, match="do not make"):
        stats.batch_means([1, 2], 4)


def test_paired_difference_by_exact_enumeration() -> None:
    found = stats.paired_difference([2, 3, 4, 5, 6], [1, 1, 1, 1, 1])
    assert found.difference.estimate == 3.0
    # All five differences have one sign: 2 of 2^5 assignments are as extreme.
    assert found.p_permutation == pytest.approx(2 / 32)
    none = stats.paired_difference([1, 2, 3], [1, 2, 3])
    assert np.isnan(none.p_permutation)


def test_same_distribution() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(0, 1, 200)
    assert stats.same_distribution(x, rng.normal(0, 1, 200)) > 0.05
    assert stats.same_distribution(x, x + 1) < 1e-6


def test_a_sample_without_variance_has_no_interval() -> None:
    for found in (stats.mean_interval([2.0, 2.0, 2.0]), stats.bootstrap_interval([2.0] * 5)):
        assert found.estimate == 2.0
        assert not found.known
    assert np.isnan(stats.bound([1.0, 1.0, 1.0], np.mean, "lower"))
    assert stats.mean_interval([]).n == 0
    assert stats.mean_interval([1.0, np.nan, 3.0]).n == 2


def test_a_bound_is_on_its_side_and_the_same_each_time() -> None:
    x = np.random.default_rng(7).normal(10, 1, 25)
    low, high = stats.bound(x, np.mean, "lower"), stats.bound(x, np.mean, "upper")
    assert low < x.mean() < high
    # One-sided at 90 % lies inside two-sided at 95 %.
    both = stats.bootstrap_interval(x, np.mean)
    assert both.low < low
    assert high < both.high
    assert stats.bound(x, np.mean, "lower") == low


def test_difference_of_medians() -> None:
    rng = np.random.default_rng(8)
    one, two = rng.normal(5, 1, 60), rng.normal(4, 1, 60)
    low, high = stats.difference_interval(one, two, np.median)
    assert low < 1.0 < high
    assert stats.difference_bound(one, two, np.median, "lower") > low


def test_samples_apart_are_compared_as_scipy_does() -> None:
    rng = np.random.default_rng(10)
    common = rng.normal(10, 1, 12)
    x, y = common + rng.normal(1, 0.2, 12), common + rng.normal(0, 0.3, 12)
    runs = np.arange(12)

    def same(found: stats.Interval, test: Any, estimate: float) -> None:
        ci = test.confidence_interval(0.95)
        assert found.estimate == pytest.approx(estimate, rel=1e-12)
        assert (found.low, found.high) == pytest.approx((ci.low, ci.high), rel=1e-9)

    difference = float(x.mean() - y.mean())
    same(stats.apart(x, y[:9]), sps.ttest_ind(x, y[:9], equal_var=False), x.mean() - y[:9].mean())
    same(stats.apart(x, y, runs, runs), sps.ttest_rel(x, y), difference)
    shuffled = rng.permutation(12)
    same(stats.apart(x, y[shuffled], runs, shuffled), sps.ttest_rel(x, y), difference)
    same(stats.apart(x, [9.0]), sps.ttest_1samp(x - 9.0, 0.0), x.mean() - 9.0)
    same(stats.apart([9.0], x), sps.ttest_1samp(9.0 - x, 0.0), 9.0 - x.mean())
    # The ratio is the mean of (x - ratio y) / mean(y), but for what that is of second order.
    ratio = x.mean() / y.mean()
    ci = sps.ttest_rel(x / y.mean(), ratio * y / y.mean()).confidence_interval(0.95)
    found = stats.relative(x, y, runs, runs)
    assert (found.low, found.high) == pytest.approx((ratio - 1 + ci.low, ratio - 1 + ci.high))
    # Where scipy has no test, its own is the limit.
    nearly = stats._mixed(x, y, runs, runs, 0.95)[0]
    assert nearly == pytest.approx(stats.apart(x, y, runs, runs).half, rel=1e-9)
    # Nine pairs tell more than as many values that are none.
    more = stats.apart(x, y[:9], runs, runs[:9])
    assert more.half < stats.apart(x, y[:9]).half / 1.5
    assert more.method == "t of pairs"


@pytest.mark.parametrize("runs", [(), (1, 2, 3)])
def test_samples_that_never_vary_have_no_interval_of_their_difference(runs: tuple[int]) -> None:
    for found in (
        stats.apart([2.0] * 3, [1.0] * 3, runs, runs),
        stats.relative([2.0] * 3, [1.0] * 3, runs, runs),
        stats.apart([2.0], [1.0]),
    ):
        assert found.estimate == 1.0
        assert (found.known, found.method) == (False, "none")


def test_p_is_corrected_as_by_hand() -> None:
    # Holm's own steps: 0.01 * 4, 0.02 * 3, 0.03 * 2, 0.04 * 1, none below the one before.
    given = [0.04, 0.01, np.nan, 0.03, 0.02]
    expected = [0.06, 0.04, np.nan, 0.06, 0.06]
    assert stats.holm(given) == pytest.approx(expected, nan_ok=True)
    assert stats.holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert stats.holm([0.7, 0.9]) == pytest.approx([1.0, 1.0])
    assert stats.holm([]).size == 0


def test_among_many_comparisons_of_nothing_hardly_ever_one_is_found() -> None:
    """Twenty comparisons without a difference: uncorrected, two tables of three have a finding."""
    rng = np.random.default_rng(11)
    plain = corrected = 0
    trials = 400
    for _ in range(trials):
        p = sps.ttest_1samp(rng.normal(0, 1, (20, 12)), 0.0, axis=1).pvalue
        plain += bool((p < 0.05).any())
        corrected += bool((stats.holm(p) < 0.05).any())
    assert plain / trials > 0.5
    assert corrected / trials < 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


def test_p_is_fine_enough_to_survive_the_correction_of_a_large_table() -> None:
    rng = np.random.default_rng(12)
    x = rng.normal(1, 0.1, 20)
    p = stats.paired_difference(x, x - 0.5, tests=300).p_permutation
    assert p * 300 < 0.05


def test_nothing_is_tested_where_all_values_are_the_same() -> None:
    assert stats.distance([2.0] * 5, [2.0] * 9)[0] == 0.0
    assert np.isnan(stats.distance([2.0] * 5, [2.0] * 9)[1])
    assert stats.distance([2.0] * 5, [3.0] * 5) == pytest.approx((1.0, 2 / 252))


def test_an_interval_within_what_can_be_covers_as_often_and_is_as_wide_for_until() -> None:
    """Goodput of runs of which most get next to nothing."""
    rng = np.random.default_rng(8)
    whole = cut = 0
    for _ in range(1000):
        found = stats.mean_interval(rng.lognormal(0.0, 1.8, 5))
        part = found.within(0.0, float("inf"))
        truth = float(np.exp(1.8**2 / 2))
        assert (found.low <= truth <= found.high) == (part.low <= truth <= part.high)
        assert part.low >= 0 and part.high == found.high and part.method == found.method
        assert part.half == pytest.approx(found.half)
        assert part.relative == pytest.approx(found.relative)
        assert (part.cut > 0) == (found.low < 0)
        whole += found.low < 0
        cut += part.cut > 0
    assert whole == cut and 300 < cut < 1000, "what is tested here"
    both = stats.Interval(0.5, -0.5, 1.5, 3, 0.95, "Student t").within(0.0, 1.0)
    assert (both.low, both.high, both.half) == (0.0, 1.0, 1.0)
    # What is measured decides, should a number be where none can be.
    beyond = stats.Interval(-0.5, -0.7, -0.3, 3, 0.95, "Student t")
    assert beyond.within(0.0, 1.0) is beyond


def test_the_rate_of_batches_of_equal_amounts_has_no_bias() -> None:
    """The mean of their rates has: it is greater by the square of the variation of their times."""
    rng = np.random.default_rng(3)
    found, means = [], []
    for _ in range(400):
        times = rng.gamma(2.0, 0.5, 10)
        rate = stats.batch_rate(np.full(10, 7.0), times)
        found.append(rate)
        means.append(float(np.mean(7.0 / times)))
    assert np.mean([f.estimate for f in found]) == pytest.approx(7.0, rel=0.08)
    assert np.mean(means) > 1.5 * 7.0
    assert 0.9 < np.mean([f.low <= 7.0 <= f.high for f in found]) <= 0.97
    even = stats.batch_rate([1.0, 2.0, 3.0, 5.0], np.full(4, 0.5))
    plain = stats.mean_interval(np.array([1.0, 2.0, 3.0, 5.0]) * 2)
    assert (even.estimate, even.low, even.high, even.n) == pytest.approx(
        (plain.estimate, plain.low, plain.high, 4)
    )


@pytest.mark.parametrize("n", [3, 5, 8, 11])
@pytest.mark.parametrize("step", [0.0, 0.1, 1.0])
def test_changes_of_signs_are_scipys(n: int, step: float) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=n), rng.normal(size=n) + 0.5
    if step:  # many sums are equal
        x, y = np.round(x / step / 5) * step, np.round(y / step / 5) * step + step
    theirs = sps.permutation_test(
        (x, y),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    )
    ours = stats.paired_difference(x, y)
    assert ours.p_permutation == pytest.approx(theirs.pvalue, abs=1e-12)


def test_twenty_pairs_of_hundreds_of_tests_take_no_time() -> None:
    """All their changes of signs are looked at: the least p there can be is found."""
    d = np.arange(1.0, 21.0)
    found = stats.paired_difference(d, np.zeros(20), tests=400)
    assert found.p_permutation == stats.least_p(20)
