"""What stands below tables is said once, and a verdict of few runs says of how few it is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import CHAIN, fake

import wifu
from wifu import cautions, diverge, stats
from wifu import plan as plans

BARE = "There is neither colour nor bold"


def test_that_there_is_no_colour_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [
        f"One. {BARE}.",
        f"Two. {BARE}; `rtt_p50` is of all samples.",
        f"Three. {BARE}. More of it.",
        f"Four. {BARE} where it is more than 10% apart.",
        f"Five. {BARE}; larger files tell more.",
    ]

    def saying(n: int) -> Any:
        return lambda *_: told[n]

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=fake)
    monkeypatch.setattr(cautions, "SAID", [saying(n) for n in range(len(told))])
    assert cautions.notes(found, found.plan.cells, "goodput") == [
        told[0], "Two. `rtt_p50` is of all samples.", "Three. More of it.", told[3],
        "Five. Larger files tell more.",
    ]  # fmt: skip
    monkeypatch.setattr(cautions, "SAID", [saying(1), saying(3)])
    assert cautions.notes(found, found.plan.cells, "goodput") == [told[1], told[3]]


def test_a_verdict_of_few_runs_says_of_how_few(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(n: int, verdict: str = diverge.AGREE, reference: int = 20) -> diverge.Row:
        of = stats.mean_interval([1.0, 1.01, 0.99])
        one, two = replace(of, n=reference), replace(of, n=n)
        return diverge.Row(
            "goodput", "a", {"x": 1}, "emu", one, two, of, of, False, 0.1, 0.9, verdict
        )

    assert (row(3).said, row(5).said, row(6).said) == ("agree (n = 3)", "agree (n = 5)", "agree")
    assert row(6, reference=1).said == "agree", "what is exact is no sample"
    assert row(3, diverge.OPEN).said == diverge.OPEN
    few = diverge.Divergence("p", "sim", 0.1, (row(3), row(20)))
    (note,) = few.notes()
    assert note == (
        "agree: 1 of 2 comparisons that do have fewer than 6 runs on a side, 3 at the least. "
        "That says little: what happens in 63% of runs is met in none of 3 once in twenty times."
    )
    assert diverge.Divergence("p", "sim", 0.1, (row(20),)).notes() == []


def judged(one: np.ndarray[Any, Any], two: np.ndarray[Any, Any], pairs: bool) -> str:
    """The verdict on two samples, as `wifu-lab diverge` comes to it."""
    runs = (np.arange(two.size), np.arange(one.size)) if pairs else ((), ())
    apart, ratio = stats.apart(two, one, *runs), stats.relative(two, one, *runs)
    return diverge._verdict(apart, ratio, 0.1)


def test_rare_long_values_on_one_side_are_no_difference() -> None:
    """Of a small ratio the interval is narrow: as wide as the ratio, however the first varies."""
    one, two = np.array([0.014] * 18 + [1.001] * 2), np.array([0.011] * 6)
    apart, ratio = stats.apart(two, one), stats.relative(two, one)
    assert ratio.high < -0.7 and apart.low < 0 < apart.high, "what is tested here"
    assert judged(one, two, pairs=False) == diverge.OPEN
    # Where the difference is told apart as well, they differ.
    often = np.array([0.014] * 10 + [1.001] * 10)
    assert judged(often, two, pairs=False) == diverge.DIFFER
    assert judged(np.array([0.014, 0.015] * 6), two, pairs=False) == diverge.DIFFER
    # What is exact has no interval.
    assert judged(np.array([2.0]), np.array([1.0] * 6), pairs=False) == diverge.DIFFER


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize(("of_one", "of_two"), [(20, 6), (10, 10), (20, 20)])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
def test_samples_of_one_distribution_seldom_differ(
    share: float, of_one: int, of_two: int, pairs: bool
) -> None:
    """A second where something rare happens, else 14 ms: they did in up to half of all cases."""
    rng = np.random.default_rng(1)

    def drawn(count: int) -> np.ndarray[Any, Any]:
        rare = np.where(rng.random(count) < share, 1.0, 0.014)
        return np.asarray(rare + 0.001 * rng.random(count))

    verdicts = [judged(drawn(of_one), drawn(of_two), pairs) for _ in range(200)]
    assert verdicts.count(diverge.DIFFER) <= 20
