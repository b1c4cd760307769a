"""What checks measure, on runs whose numbers are known."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import FakeResult, pairs

import wifu
from wifu import claims, measures, overtime, published, stats
from wifu import plan as plans
from wifu.errors import LabError
from wifu.measured import Measured

PLAN = """
name = "known"
runs = 12
pair = "stack"
[scenario]
topology.words = "linear,{hops+1}"
[[scenario.flow]]
protocol = "tcp-newreno"
copies = 2
[vary]
hops = [1, 2, 3]
[vary.stack]
ap = { "flow.*.protocol" = "tcp-ap11" }
newreno = {}
[series]
runs = "1..12"
"""

Rates = Callable[[str, int, int], list[float]]
Series = dict[str, tuple[Any, Any]]


def made(
    tmp_path: Path, rates: Rates, series: Any = None, text: str = PLAN, last: float = 20.0
) -> wifu.Results:
    """Runs whose flows carry `rates(stack, hops, run)`, in Mb/s."""
    ids = itertools.count()

    def lasted(scenario: dict[str, Any]) -> float:
        return last if scenario["run"] > 1 else 11.0

    def runner(scenario: dict[str, Any]) -> FakeResult:
        protocol = scenario["flow"][0]["protocol"]
        stack = "ap" if "ap11" in protocol else protocol.removeprefix("tcp-")
        hops = int(scenario["topology"]["words"].split(",")[1]) - 1
        carried = rates(stack, hops, scenario["run"])
        flows = [
            {
                "id": n, "bytes": rate * 1e6 / 8, "start_s": 0.0, "last_byte_s": 1.0,
                "first_byte_s": 0.0, "finished": True, "protocol": "tcp",
            }
            for n, rate in enumerate(carried, 1)
        ]  # fmt: skip
        outcome = {"sim_seconds": lasted(scenario), "flows": flows, "trace_hash": f"{next(ids)}"}
        recorded = series(stack, scenario["run"]) if series else {}
        return FakeResult(outcome, {k: pairs(*v) for k, v in recorded.items()})

    # One at a time: what the n-th run was is told by counting.
    return wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner, workers=1)


def noise(run: int, hops: int = 0) -> float:
    return float(np.exp(np.random.default_rng([run, hops]).normal(0, 0.02)))


def gain(stack: str, hops: int, run: int) -> list[float]:
    """TCP-AP has 0.9, 1.6 and 1.2 times what NewReno has over one, two and three hops."""
    factor = {1: 0.9, 2: 1.6, 3: 1.2}[hops] if stack == "ap" else 1.0
    return [6.0 / hops * factor * noise(run, hops) * (1 + 0.001 * (stack == "ap") * run)] * 2


def measured(results: wifu.Results, **given: Any) -> Measured:
    return measures.MEASURES[given["kind"]](results, given)


ALONG: dict[str, Any] = {
    "kind": "along",
    "metric": "goodput",
    "axis": "hops",
    "levels": [1, 2, 3],
    "of": {"stack": "ap"},
    "over": {"stack": "newreno"},
}


def test_along_an_axis(tmp_path: Path) -> None:
    found = made(tmp_path, gain)
    of = {take: measured(found, **ALONG, take=take) for take in measures.TAKEN}
    assert of["greatest"].estimate == pytest.approx(1.6, rel=0.02)
    assert of["least"].estimate == pytest.approx(0.9, rel=0.02)
    assert of["mean"].estimate == pytest.approx((0.9 + 1.6 + 1.2) / 3, rel=0.02)
    assert of["where greatest"].estimate == 2.0
    assert of["how many below"].estimate == 1
    assert of["steps down"].estimate == 1
    assert of["slope"].estimate == pytest.approx((1.2 - 0.9) / 2, abs=0.02)
    top = of["greatest"]
    assert top.low <= top.lower_bound <= top.estimate <= top.upper_bound <= top.high
    assert top.n == 12
    # Nowhere near another level: all that is drawn says the same.
    where = of["where greatest"]
    assert (where.low, where.lower_bound, where.upper_bound, where.high) == (2, 2, 2, 2)


THREE = PLAN.replace("newreno = {}", 'newreno = {}\nsack = { "flow.*.protocol" = "tcp-sack" }')

AMONG: dict[str, Any] = {
    "kind": "among",
    "metric": "goodput",
    "points": {"hops": [1, 2, 3]},
    "of": {"stack": "ap"},
    "rivals": {"stack": ["newreno", "sack"]},
}


def test_among_rivals(tmp_path: Path) -> None:
    """Best of all at a length is more than better than each of them at many."""
    factors = {"ap": (1.0, 1.0, 1.0), "newreno": (0.5, 1.02, 0.9), "sack": (1.5, 0.6, 0.8)}

    def rates(stack: str, hops: int, run: int) -> list[float]:
        return [6.0 / hops * factors[stack][hops - 1] * noise(run, hops)] * 2

    found = made(tmp_path, rates, text=THREE)

    def among(of: str = "ap", **given: Any) -> Measured:
        rivals = {"stack": [name for name in factors if name != of]}
        return measured(found, **AMONG | {"of": {"stack": of}, "rivals": rivals} | given)

    best = among(take="best")
    assert (best.estimate, best.note, best.n) == (1, "at hops 3", 12)
    # The same noise for all: what runs are drawn does not matter.
    assert (best.low, best.lower_bound, best.upper_bound, best.high) == (1, 1, 1, 1)
    assert among(take="best", within=0.95).note == "at hops 2, 3"
    assert [among(of, take="best").estimate for of in factors] == [1, 1, 1]
    # Beside either of them alone it has two lengths.
    for one in ("newreno", "sack"):
        assert among(take="best", rivals={"stack": [one]}).estimate == 2
    assert among(take="worst").note == "nowhere"
    assert among("sack", take="worst").note == "at hops 2, 3"
    assert among("newreno", take="worst").note == "at hops 1"
    assert among("newreno", take="worst", within=0.85).note == "at hops 1, 3"
    assert among(take="alike", within=0.741).note == "at hops 3"
    assert among(take="alike", within=0.1).note == "everywhere"
    # Less is better of times: what has the least is the best.
    slow = among("sack", take="worst", metric="delay")
    assert slow.estimate == 0 and slow.identical is True


def test_all_points_count_for_who_is_best_among_rivals(tmp_path: Path) -> None:
    """Runs that one of the cells lacks are of no use; what lies near is told by the interval."""

    def close(stack: str, hops: int, run: int) -> list[float]:
        own = np.random.default_rng([run, hops, len(stack)]).normal(1.0, 0.2)
        return [float(own), 1.0]

    load = '[vary.load]\nlight = {}\nheavy = { "radio.queue" = 9 }\n[vary.stack]'
    text = THREE.replace("[vary.stack]", load)
    found = made(tmp_path, close, text=text)
    points = {"load": ["light", "heavy"], "hops": [1, 2, 3]}
    given = {**AMONG, "points": points, "take": "best"}
    m = measured(found, **given)
    assert 0 < m.estimate < 6 and m.low < m.high and m.n == 12
    assert m.note.startswith("at load light, hops ") and "; load heavy, hops " in m.note
    check = published.Check("it", "among", "HARD", m.estimate, m.estimate, "", given)
    assert claims._judged(check, m)[0] == "OPEN"
    assert len(claims._cells(given, found)) == 18
    with pytest.raises(LabError, match="no run of stack ap and of all its rivals"):
        measured(found, **given | {"metric": "srtt"})


def test_where_it_is_greatest_is_uncertain_if_levels_are_close(tmp_path: Path) -> None:
    def close(stack: str, hops: int, run: int) -> list[float]:
        own = np.random.default_rng([run, hops, len(stack)]).normal(1.0, 0.2)
        return [float(own) + 0.05 * (hops == 2), 1.0]

    found = made(tmp_path, close)
    given = {**ALONG, "take": "where greatest"}
    m = measured(found, **given)
    assert m.low < m.high
    check = published.Check("it", "along", "HARD", m.estimate, m.estimate, "", given)
    assert claims._judged(check, m)[0] == "OPEN"


def test_levels_without_a_divisor_are_left_out_and_told(tmp_path: Path) -> None:
    def silent(stack: str, hops: int, run: int) -> list[float]:
        return [0.0, 0.0] if stack == "newreno" and hops == 3 else gain(stack, hops, run)

    found = made(tmp_path, silent)
    m = measured(found, **ALONG, take="greatest")
    assert m.estimate == pytest.approx(1.6, rel=0.02)
    assert m.note == "without hops 3: nothing to divide by"
    with pytest.raises(LabError, match="nothing to divide by"):
        measured(found, **{**ALONG, "levels": [3]}, take="greatest")


def test_the_other_side_may_be_one_level(tmp_path: Path) -> None:
    found = made(tmp_path, gain)
    given = {**ALONG, "of": {"stack": "newreno"}, "over": {"stack": "newreno", "hops": 1}}
    m = measured(found, **given, take="least")
    assert m.estimate == pytest.approx(1 / 3, rel=0.03)


def test_shares_of_runs_have_exact_bounds(tmp_path: Path) -> None:
    def starving(stack: str, hops: int, run: int) -> list[float]:
        return [0.9 * noise(run), 0.1 if run > 1 + (stack == "ap") else 0.8]

    found = made(tmp_path, starving)
    share: dict[str, Any] = {
        "kind": "share", "metric": "weakest", "counts": {"at_most": 25.0},
        "of": {"stack": "newreno", "hops": 1},
    }  # fmt: skip
    m = measured(found, **share)
    assert m.estimate == pytest.approx(11 / 12)
    assert m.note == "11 of 12 runs"
    # Of 11 of 12, P(11 or more | p) = 0.1 at the lower bound.
    p = m.lower_bound
    assert 12 * p**11 * (1 - p) + p**12 == pytest.approx(0.1, abs=1e-6)
    check = published.Check("it", "share", "HARD", 0.7, np.inf, "", share)
    assert claims._judged(check, m)[0] == "PASS"
    other = measured(found, **{**share, "of": {"stack": "ap", "hops": 1}})
    assert claims._judged(check, other)[0] == "OPEN" or other.lower_bound >= 0.7
    # All alike is no lack of knowledge, as it would be for a bootstrap.
    assert stats.share_bound(12, 12, "lower") == pytest.approx(0.1 ** (1 / 12))


def test_metrics_of_one_cell_may_be_divided(tmp_path: Path) -> None:
    found = made(tmp_path, lambda stack, hops, run: [noise(run), 3.0 * noise(run)])
    here = {"stack": "ap", "hops": 1}
    m = measured(
        found, kind="ratio", metric="goodput@1", over_metric="aggregate", of=here, over=here
    )
    assert m.estimate == pytest.approx(0.25)


def test_a_quotient_of_what_is_never_negative_has_no_negative_bound(tmp_path: Path) -> None:
    """One of twelve runs has it all: Student's interval of the quotient reaches below zero."""

    def rates(stack: str, hops: int, run: int) -> list[float]:
        return [9.0 * noise(run) * (run == 1 or stack != "ap"), 9.0 * noise(run, hops)]

    found = made(tmp_path, rates)
    sides = {"of": {"stack": "ap", "hops": 1}, "over": {"stack": "newreno", "hops": 1}}
    m = measured(found, kind="ratio", metric="goodput@1", **sides)
    assert m.estimate == pytest.approx(1 / 12, rel=0.1) and m.low == 0.0 and m.high > 0.2


def test_pooled_runs_are_drawn_by_placement(tmp_path: Path) -> None:
    """All pairs of a placement share its luck: cells pooled, there are as many draws as runs."""

    def placed(stack: str, hops: int, run: int) -> list[float]:
        luck = float(np.random.default_rng(run).uniform(0.5, 1.5))
        skew = float(np.random.default_rng([run, 7]).uniform(0.9, 1.1)) if stack == "ap" else 1.0
        return [luck * hops * skew * (1.5 if stack == "ap" else 1.0)] * 2

    found = made(tmp_path, placed)
    pooled = {"kind": "pooled", "metric": "goodput", "of": {"stack": "ap"}}
    pooled["over"] = {"stack": "newreno"}
    m = measured(found, **pooled)
    assert m.estimate == pytest.approx(1.5, rel=0.05)
    assert m.n == 12 and m.note == "36 runs of 3 cells"
    assert m.low < m.lower_bound < m.estimate < m.upper_bound < m.high
    x = found.sample("goodput", {"stack": "ap"})
    y = found.sample("goodput", {"stack": "newreno"})
    median = measured(found, **pooled, statistic="median")
    assert median.estimate == pytest.approx(np.median(x) / np.median(y))


def ramp(first: float, second: float, until: float = 20.0) -> tuple[Any, Any]:
    """Octets of a flow that carries `first` Mb/s until 10 s, `second` from there."""
    t = np.arange(0.1, until + 0.05, 0.1)
    return t, np.where(t <= 10, t * first, 10 * first + (t - 10) * second) * 1e6 / 8


def test_windows_of_time(tmp_path: Path) -> None:
    def series(stack: str, run: int) -> Series:
        once = {"flow.1.delivered": ramp(2.0 * noise(run), 1.0 * noise(run, 1))}
        # The other flow of NewReno's delivers nothing at all, and has no series.
        return once | ({"flow.2.delivered": ramp(0.0, 0.8)} if stack == "ap" else {})

    found = made(tmp_path, gain, series)
    windows: dict[str, Any] = {"kind": "windows", "flow": 1, "of": {"stack": "ap", "hops": 1}}
    m = measured(found, **windows, window=[10.0, 20.0], over_window=[0.0, 10.0])
    assert m.estimate == pytest.approx(0.5, rel=0.03)
    assert m.n == 11 and m.lower_bound < m.estimate < m.upper_bound, "one ended after 11 s"
    both = measured(
        found, **{**windows, "flow": "weakest"}, over_flow="strongest", window=[10.0, 20.0]
    )
    assert both.estimate == pytest.approx(0.8, rel=0.03)
    silent = {**windows, "flow": 2, "of": {"stack": "newreno", "hops": 1}}
    assert measured(found, **silent, over_flow=1, window=[0.0, 20.0]).estimate == 0.0


def test_what_was_not_simulated_is_no_silence(tmp_path: Path) -> None:
    def series(stack: str, run: int) -> Series:
        return {"flow.1.delivered": ramp(2.0 * noise(run), 1.0, 15.0)}

    found = made(tmp_path, gain, series, last=15.0)
    windows: dict[str, Any] = {"kind": "windows", "flow": 1, "of": {"stack": "ap", "hops": 1}}
    windows["over_window"] = [0.0, 10.0]
    assert measured(found, **windows, window=[10.0, 15.0]).estimate == pytest.approx(0.5, rel=0.03)
    with pytest.raises(LabError, match="lasted until 20 s"):
        measured(found, **windows, window=[10.0, 20.0])


def test_series(tmp_path: Path) -> None:
    def series(stack: str, run: int) -> Series:
        t = np.arange(0.0, 10.0, 0.5)
        unknown = np.where(t < 2, np.nan, 0.003 + t / 1e3)
        return {"flow.1.ap11.x": (t, unknown), "flow.2.ap11.x": (t, 2 * unknown)}

    found = made(tmp_path, gain, series)
    one: dict[str, Any] = {"of": {"stack": "ap", "hops": 1}, "series": "flow.1.ap11.x"}
    last = measured(found, kind="series", **one, take="last", times=1e3)
    assert last.estimate == pytest.approx(12.5)
    mean = measured(found, kind="series", **one)
    assert mean.estimate == pytest.approx(0.003 + np.arange(2.0, 10.0, 0.5).mean() / 1e3)
    two = {**one, "series": ["flow.1.ap11.x", "flow.2.ap11.x"]}
    assert measured(found, kind="apart", **two).estimate == pytest.approx(2 / 3)
    with pytest.raises(LabError, match=r"no series flow\.1\.ap11\.y; did you mean"):
        measured(found, kind="series", **{**one, "series": "flow.1.ap11.y"})


def test_numbers_of_a_series(tmp_path: Path) -> None:
    """An interval of 1, from 2 s on of 8, from 4 s on of 2, twice as long in the other stack."""

    def series(stack: str, run: int) -> Series:
        at, each = [0.0, 2.0, 4.0, 9.0, 10.0], [1.0, 8.0, 2.0, 2.0, 2.0]
        factor = 2.0 if stack == "ap" else 1.0
        return {"flow.1.p.x": (at, [factor * v for v in each])}

    found = made(tmp_path, gain, series)
    one = {"kind": "series", "series": "flow.1.p.x", "of": {"stack": "newreno", "hops": 1}}
    takes = set(overtime.OF_SERIES) - {"settled"}
    of = {take: measured(found, **one, take=take).estimate for take in takes}
    assert of == {
        "mean": 3.0, "last": 2.0, "greatest": 8.0, "changed at": 2.0, "changed to": 8.0,
        "recovered": 4.0, "off": 2.0, "sd of ln": pytest.approx(np.std(np.log([1, 8, 2, 2, 2]))),
    }  # fmt: skip
    double = {**one, "of": {"stack": "ap", "hops": 1}, "over": one["of"]}
    with pytest.raises(LabError, match="in none of 12 runs"):
        measured(found, **one, take="settled")  # its first value is below the later ones
    ratio = measured(found, **double, take="greatest")
    assert (ratio.estimate, ratio.n) == (2.0, 12)
    more = measured(found, **double, take="greatest", times=0.5, difference=True)
    assert more.estimate == 4.0
    share = measured(found, **one, take="off", counts={"at_least": 1.5})
    assert (share.estimate, share.note) == (1.0, "12 of 12 runs")
    assert measured(found, **one, take="off", counts={"at_least": 2.5}).estimate == 0.0


def test_an_interval_is_settled_when_it_is_nearly_as_short_as_later(tmp_path: Path) -> None:
    def series(stack: str, run: int) -> Series:
        return {"flow.1.p.x": ([1.0, 2.0, 3.0, 4.0, 9.0, 10.0], [9.0, 6.0, 2.5, 2.0, 2.0, 2.0])}

    found = made(tmp_path, gain, series)
    one = {"kind": "series", "series": "flow.1.p.x", "of": {"stack": "ap", "hops": 1}}
    assert measured(found, **one, take="settled").estimate == 2.0


def test_what_a_flow_carries_from_window_to_window(tmp_path: Path) -> None:
    """1 Mb/s in each second but for every fourth, which has nothing; it ends after 12 s."""

    def series(stack: str, run: int) -> Series:
        at = [t + 0.5 for t in range(12) if t % 4 != 3] + [12.0]
        return {"flow.1.delivered": (at, [125_000.0 * (n + 1) for n in range(9)] + [1_125_000.0])}

    found = made(tmp_path, gain, series)
    of = {"of": {"stack": "ap", "hops": 1}, "flow": 1, "window": 1.0, "kind": "steps"}
    below = measured(found, **of, take="below", limit=1e5)
    assert (below.estimate, below.n) == (0.25, 12)
    later = measured(found, **of, take="below", limit=1e5, **{"from": 3.0, "until": 8.0})
    assert later.estimate == pytest.approx(2 / 5)
    cov = measured(found, **of, take="cov", until=8.0).estimate
    assert cov == pytest.approx(np.std([1, 1, 1, 0] * 2, ddof=1) / 0.75)
    same = measured(found, **of, take="cov", over={"stack": "newreno", "hops": 1})
    assert same.estimate == 1.0 and same.identical
    # A flow of which nothing arrived is silent.
    assert measured(found, **{**of, "flow": 2}, take="below", limit=1e5).estimate == 1.0


def test_a_flow_resumes_with_its_next_delivery(tmp_path: Path) -> None:
    """Deliveries at 1, 2, 4.5 and 9 s, and a sample between them that tells of none."""

    def series(stack: str, run: int) -> Series:
        return {"flow.1.delivered": ([1.0, 2.0, 3.5, 4.5, 9.0], [10.0, 20.0, 20.0, 30.0, 40.0])}

    found = made(tmp_path, gain, series)
    of: dict[str, Any] = {"of": {"stack": "ap", "hops": 1}, "kind": "resumed", "flow": 1}
    assert measured(found, **of, after=[3.0]).estimate == 1.5
    assert measured(found, **of, after=[3.0, 5.0]).estimate == pytest.approx((1.5 + 4.0) / 2)
    # What never comes counts to the end, and of a flow without deliveries all does.
    (cell,) = found.cells(of["of"])
    ends = [found.outcome(cell, run)["sim_seconds"] for run in found.plan.series_runs]
    late = [end - 10.0 for end in ends if end >= 10.0]
    assert measured(found, **of, after=[10.0]).estimate == pytest.approx(np.mean(late))
    silent = measured(found, **{**of, "flow": 2}, after=[4.0]).estimate
    assert silent == pytest.approx(np.mean(ends) - 4.0)


def test_a_flow_that_is_cut_again_before_it_resumes_did_not(tmp_path: Path) -> None:
    """Else one outage counts as often as the link is back meanwhile, up to what ends the last."""

    def series(stack: str, run: int) -> Series:
        return {"flow.1.delivered": ([1.0, 3.5, 10.5], [10.0, 20.0, 30.0])}

    of: dict[str, Any] = {"of": {"stack": "ap", "hops": 1}, "kind": "resumed", "flow": 1}
    after = {**of, "after": [3.0, 5.0, 9.0]}
    found = made(tmp_path / "a", gain, series)
    # At 5 s nothing comes until the link is back again, if no event tells when it was cut.
    known = measured(found, **after)
    assert known.estimate == pytest.approx((0.5 + 4.0 + 1.5) / 3)
    runs = len(found.plan.series_runs)
    assert known.note.startswith(f"≥: after {runs} of {3 * runs} of these times nothing came")
    assert measured(found, **of, after=[3.0]).note == ""
    cuts = "".join(f'[[scenario.event]]\nat = "{at}s"\ncut = ["n1", "n2"]\n' for at in (2, 4, 8))
    cut = made(tmp_path / "b", gain, series, PLAN + cuts)
    known = measured(cut, **after)
    assert known.estimate == pytest.approx((0.5 + 3.0 + 1.5) / 3)


def test_clusters_are_bursts_after_a_silence(tmp_path: Path) -> None:
    def series(stack: str, run: int) -> Series:
        # Five in step; after 0.16 s three at once, after 0.5 s two, which is no burst of three.
        at = [0.04, 0.08, 0.12, 0.16, 0.20, 0.36, 0.365, 0.87, 0.875, 0.91]
        return {"flow.1.p.n": (at, [1, 2, 3, 4, 5, 6, 8, 9, 10, 11])}

    found = made(tmp_path, gain, series)
    of = {"of": {"stack": "ap", "hops": 1}, "kind": "clusters", "series": "flow.1.p.n"}
    two = measured(found, **of, gap=0.08, within=0.01, burst=2)
    assert two.estimate == 1.0
    assert measured(found, **of, gap=0.08, within=0.01, burst=1).estimate == 2.0
    assert measured(found, **of, gap=0.6, within=0.01, burst=1).estimate == 0.0


def test_shapes_of_the_goodputs_of_two_plans(tmp_path: Path) -> None:
    """One carries twice what the other does, in the same shares: their shapes are the same."""

    def uneven(stack: str, hops: int, run: int) -> list[float]:
        shares = [1.0, 3.0] if stack == "ap" else [2.0, 2.0]
        return [v * hops * noise(run) for v in shares]

    found = made(tmp_path, uneven)
    parts = [{"plan": "known", "of": {"stack": "ap", "hops": hops}} for hops in (1, 2)]

    def between(first: Any, second: Any) -> float:
        given = {"kind": "shapes", "first": first, "second": second}
        return measures.OF_TWO_PLANS["shapes"]({"known": found}, given).estimate

    assert between(*parts) == 0.0
    # Half of the flows carry half of the mean, where all carry the mean and a little.
    assert between(parts[0], {"plan": "known", "of": {"stack": "newreno", "hops": 1}}) == 0.5
    with pytest.raises(LabError, match="run experiments/other"):
        between(parts[0], {"plan": "other", "of": {}})


def test_gains_of_two_plans(tmp_path: Path) -> None:
    found = made(tmp_path, gain)
    part = {**ALONG, "take": "greatest", "plan": "known"}
    ratio = {
        "plan": "other", "kind": "ratio", "metric": "goodput",
        "of": {"stack": "ap", "hops": 1}, "over": {"stack": "newreno", "hops": 1},
    }  # fmt: skip
    check = {"name": "it", "kind": "gains", "at_least": 0, "first": part, "second": ratio}
    given = {"id": "X", "says": "", "source": "", "type": "SOFT", "plan": "known"}
    claim = published._claim({**given, "check": [check]})
    assert claim.plans == ("known", "other")
    verdict = claims.judge(claim, found, others={"other": found})
    (finding,) = verdict.findings
    assert verdict.verdict == "PASS" and finding.measured is not None
    assert finding.measured.estimate == pytest.approx(0.7, abs=0.03)
    alone = claims.judge(claim, found)
    assert alone.verdict == "not measured"
    assert alone.findings[0].why == "run experiments/other"


def test_checks_for_each_level_and_beside() -> None:
    check = {
        "name": "r, {level} hops", "kind": "ratio", "metric": "goodput", "at_least": 1,
        "each": {"hops": [1, 2]}, "of": {"stack": "ap"}, "over": {"stack": "newreno", "hops": 1},
        "published": ["1.1", "1.2"],
    }  # fmt: skip
    beside = {"eleven": {"plan": "known-11"}, "literal": {"where": {"world": "literal"}}}
    given = {"id": "X", "says": "", "source": "", "type": "HARD", "plan": "known"}
    claim = published._claim({**given, "check": [check], "beside": beside})
    names = ["r, 1 hop", "r, 2 hops"]
    assert [c.name for c in claim.checks] == [
        *names, *(f"{n}, eleven" for n in names), *(f"{n}, literal" for n in names)
    ]  # fmt: skip
    assert [c.type for c in claim.checks] == ["HARD"] * 2 + ["INFO"] * 4
    second = claim.checks[1]
    assert second.given["of"] == {"stack": "ap", "hops": 2}
    assert second.given["over"] == {"stack": "newreno", "hops": 1}, "what it says itself stays"
    assert second.published == "1.2"
    assert claim.checks[2].plan == "known-11"
    assert claim.checks[5].given["of"] == {"stack": "ap", "hops": 2, "world": "literal"}
    assert claim.plans == ("known", "known-11")


def test_what_stands_beside_is_measured_in_its_own_results(tmp_path: Path) -> None:
    found = made(tmp_path / "a", gain)
    other = made(tmp_path / "b", lambda stack, hops, run: [noise(run), noise(run, 5 + hops)])
    check = {
        "name": "it", "kind": "ratio", "metric": "goodput", "at_most": 1,
        "of": {"stack": "ap", "hops": 1}, "over": {"stack": "newreno", "hops": 1},
    }  # fmt: skip
    given = {"id": "X", "says": "", "source": "", "type": "HARD", "plan": "known"}
    claim = published._claim(
        {**given, "check": [check], "beside": {"eleven": {"plan": "x-t2-attempts-11"}}}
    )
    verdict = claims.judge(claim, found, others={"x-t2-attempts-11": other})
    own, beside = (f.measured for f in verdict.findings)
    assert own is not None and beside is not None
    assert own.estimate == pytest.approx(0.9, rel=0.02) and beside.estimate == 1.0
    assert verdict.verdict == "PASS"
    alone = claims.judge(claim, found)
    assert alone.verdict == "PASS", "what is for information decides nothing"
    wanted = "run experiments/x-t2 name=x-t2-attempts-11 radio.attempts=11 radio.attempts_long=11"
    assert alone.findings[1].why == alone.absent == wanted
    assert [f.check.name for f in alone.shown] == ["it"] and verdict.absent == ""
