"""What tables, captions and figures show is what they say it is."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import CHAIN, PROBED, FakeResult, fake
from test_figures import drawn, panel_titles
from test_ratios import hollow, marks

import wifu
from wifu import absent, alike, compared, comparisons, metrics, paired, report, stats, values
from wifu import plan as plans
from wifu.errors import LabError
from wifu.flows import flows_of
from wifu.screen import _relation

ONE = CHAIN.replace("[1, 3]", "[1]").replace('["goodput", "jain", "srtt"]', '["retransmissions"]')


def counted(tmp_path: Path, runs: int, text: str = ONE, **of: Any) -> wifu.Results:
    """Each protocol retransmits by `of` of the run (`reno`, `newreno`), the same bytes."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for flow in outcome["flows"]:
            which = flow["protocol"].removeprefix("tcp-")
            flow["retransmissions"] = of[which](scenario["run"])
        return FakeResult(outcome, {})

    plan = plans.parse(text.replace("runs = 5", f"runs = {runs}"))
    return wifu.campaign(plan, tmp_path / "r", runner=runner)


@pytest.mark.parametrize("reno", [lambda run: 400 + 10 * run, lambda run: 500])
def test_what_never_varies_can_differ(tmp_path: Path, reno: Any) -> None:
    """Nothing against hundreds in each of eight runs: p is 0.008, and there is no interval."""
    found = counted(tmp_path, 8, reno=reno, newreno=lambda run: 0)
    (row,) = found.compare("retransmissions").to_dict("records")
    assert row["p_holm"] < 0.01 and math.isnan(row["low"])
    told = compared.told(row, "retransmissions")
    assert told.clear and not told.known and told.value == 0
    assert "<span class='up'>" in report.render(found, [])
    figure, _ = drawn(found, kind="ratio", metric="retransmissions")
    (mark,) = marks(figure.axes[0]).values()
    assert not hollow(mark)


def test_bold_needs_what_colour_needs(tmp_path: Path) -> None:
    """One run of ten decides: p of the signs is 0.002, the interval of the difference holds 0."""
    found = counted(
        tmp_path, 10,
        reno=lambda run: 1000 if run == 10 else 101, newreno=lambda run: 100,
    )  # fmt: skip
    (row,) = found.compare("retransmissions").to_dict("records")
    assert row["p_holm"] < 0.05 and row["difference_low"] < 0 < row["difference_high"]
    assert report.best_of(found, "retransmissions") == set()
    assert "<b>" not in report._pivot(found, "retransmissions")
    clear = counted(
        tmp_path / "2", 10, reno=lambda run: 190 + run % 3, newreno=lambda run: 100 + run % 2
    )
    assert report.best_of(clear, "retransmissions") == {"1_tcp-newreno"}


def test_differences_have_units(tmp_path: Path) -> None:
    found = counted(tmp_path, 8, reno=lambda run: 0, newreno=lambda run: 40 + run)
    (row,) = found.compare("retransmissions").to_dict("records")
    assert "Δ 89.0 per run</span>" in comparisons._ratio(row, "retransmissions")
    assert _relation(row, "retransmissions").startswith("Δ 89.0 per run, p ")
    # Of shares a difference by itself reads as a relative one.
    row |= {"difference": 2.0, "difference_low": 1.0, "difference_high": 3.0}
    row["unit"] = paired.against("loss", np.array([0.02]), np.array([0.0]))["unit"]
    assert "Δ 2.0 percentage points</span>" in comparisons._ratio(row, "loss")


def test_of_two_runs_nothing_is_tested_and_that_is_said(tmp_path: Path) -> None:
    text = CHAIN.replace('["goodput", "jain", "srtt"]', '["goodput"]')
    plan = plans.parse(text.replace("runs = 5", "runs = 2"))
    found = wifu.campaign(plan, tmp_path / "r", runner=fake)
    (said,) = compared.beyond(found.compare("goodput"), "goodput")
    assert said == (
        "mean goodput per flow: no difference can be found here, however great: of 2 pairs of "
        f"runs nothing is tested. {stats.enough(2, 0.05)} runs could."
    )
    assert said in report.render(found, [])
    _, caption = drawn(found, kind="ratio", x="hops")
    assert "comparisons of the plan" not in caption and "all hollow" in caption
    # Where nothing can differ, nothing is missing.
    same = counted(tmp_path / "2", 2, reno=lambda run: 3, newreno=lambda run: 3)
    assert compared.beyond(same.compare("retransmissions"), "retransmissions") == []


def test_a_difference_in_place_of_a_ratio_is_told_why(tmp_path: Path) -> None:
    """The baseline is 1 in one run of eight: its mean is not 0, its interval reaches it."""
    text = ONE.replace('["tcp-reno", "tcp-newreno"]', '["tcp-reno", "tcp-newreno", "tcp-sack"]')
    text = text.replace("[1]", "[1, 3]")

    def runner(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        near = scenario["topology"]["words"] == "linear,2"
        for flow in outcome["flows"]:
            few = int(scenario["run"] == 1) if near else 20
            reno = flow["protocol"] == "tcp-reno"
            flow["retransmissions"] = few if reno else 40 + scenario["run"]
        return FakeResult(outcome, {})

    plan = plans.parse(text.replace("runs = 5", "runs = 8"))
    found = wifu.campaign(plan, tmp_path / "r", runner=runner)
    _, caption = drawn(found, kind="ratio", metric="retransmissions", x="hops")
    assert (
        "Δ: mean difference, per run, where the baseline's mean is 0 or its interval reaches 0"
        in (caption)
    )


def excluded(tmp_path: Path, text: str, *runs: tuple[str, int], **of: Any) -> wifu.Results:
    """Results of which these runs count nowhere."""
    made = wifu.campaign(plans.parse(text), tmp_path / "r", **of)
    manifest = made.store.manifest()
    manifest["exclusions"] = [{"cell": c, "run": r, "reason": "asleep"} for c, r in runs]
    made.store.write_manifest(manifest)
    made.store.write_tables(made.plan)
    return wifu.load(tmp_path / "r")


def test_runs_that_count_nowhere_are_in_no_figure(tmp_path: Path) -> None:
    found = excluded(tmp_path, CHAIN, ("1_tcp-reno", 1), ("3_tcp-reno", 2), runner=fake)
    for kind, panels in (("timeseries", 9), ("sequence", 6), ("map", 3)):
        figure, caption = drawn(found, kind=kind)
        assert "Not shown, as failed or excluded: run 1 of 1_tcp-reno." in caption
        titles = panel_titles(figure)
        assert len(titles) == 3 and "hops 1, protocol tcp-reno" not in titles, kind
        if kind != "map":  # which has a scale of colours
            assert len(figure.axes) == panels
        _, caption = drawn(found, kind=kind, where={"protocol": "tcp-newreno"})
        assert "Not shown" not in caption
        with pytest.raises(LabError, match="run 1 failed or is excluded, in every cell"):
            drawn(found, kind=kind, where={"protocol": "tcp-reno", "hops": 1})


def test_delays_of_runs_that_count_nowhere_are_in_no_figure(tmp_path: Path) -> None:
    every = wifu.campaign(plans.parse(PROBED), tmp_path / "all")
    found = excluded(tmp_path, PROBED, ("12000", 1))

    def datagrams(results: wifu.Results) -> int:
        _, caption = drawn(results, kind="latency", **{"as": "cdf"})
        assert ("Not shown, as failed or excluded: 1 run of 12000." in caption) == (
            results is found
        )
        return int(caption.partition(" datagrams")[0].rpartition(" ")[2])

    flows = every.outcome("12000", 1)["flows"]
    alone = sum(f["one_way"]["samples"] for f in flows if f["protocol"] == "udp")
    met = 5  # at most: what left before the load began, and arrived in it
    assert alone - met <= datagrams(every) - datagrams(found) <= alone
    figure, caption = drawn(found, kind="latency")
    assert "run 1 of 12000" in caption and len(figure.axes) == 2


def test_captions_count_excluded_runs(tmp_path: Path) -> None:
    text = CHAIN.replace("copies = 2", "copies = 2\nexplode = true")
    found = excluded(tmp_path, text, ("1_tcp-reno", 3), runner=fake)
    for kind in ("bars", "lines", "fairness", "ratio"):
        _, caption = drawn(found, kind=kind, x="hops")
        assert "n = 3 to 4" in caption and ", without 4 that failed and 1 excluded" in caption, kind
    _, caption = drawn(found, kind="bars", x="hops", where={"protocol": "tcp-newreno"})
    assert "without 4" not in caption and "without 2 that failed;" in caption


def test_a_tradeoff_counts_what_it_draws(tmp_path: Path) -> None:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        if "newreno" in scenario["flow"][0]["protocol"] and scenario["run"] > 2:
            for flow in made._outcome["flows"]:
                flow["srtt_s"] = None
        return made

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=runner)
    for roles in ({"metric": "goodput", "against": "srtt"}, {"metric": "srtt", "against": "jain"}):
        _, caption = drawn(found, kind="tradeoff", **roles)
        said = "n = 2 to 5 of 5 runs per cell, the others lack one of the two values ("
        assert said in caption, roles
    _, caption = drawn(found, kind="tradeoff", metric="goodput", against="jain")
    assert "n = 5 runs per cell." in caption


def test_no_line_goes_through_what_was_not_run(tmp_path: Path) -> None:
    text = CHAIN.replace("[1, 3]", '"1..4"').replace(
        "runs = 5", 'runs = 5\nskip = [{ hops = [2, 3], protocol = "tcp-newreno" }]'
    )
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    figure, caption = drawn(found, kind="lines", x="hops")
    lines = [line for line in figure.axes[0].get_lines() if line.get_linestyle() != "None"]
    broken = [np.isnan(np.asarray(line.get_ydata(), dtype=float)).tolist() for line in lines]
    assert broken == [[False] * 4, [False, True, False]]
    assert "lines are broken where cells were not run" in caption
    # At its end nothing is broken.
    text = text.replace("[2, 3]", "[4]")
    found = wifu.campaign(plans.parse(text), tmp_path / "2", runner=fake)
    _, caption = drawn(found, kind="lines", x="hops")
    assert "broken" not in caption


def test_results_of_another_scenario_say_so(tmp_path: Path) -> None:
    wifu.campaign(plans.parse(ONE), tmp_path / "r", runner=fake)
    plan = tmp_path / "r" / "plan.toml"
    plan.write_text(plan.read_text().replace("linear,", "ring,"))
    for name in ("results", "runs"):
        (tmp_path / "r" / f"{name}.parquet").unlink()
    with pytest.raises(LabError, match="its runs are of another scenario than its plan"):
        wifu.load(tmp_path / "r")
    for path in (tmp_path / "r" / "runs").iterdir():
        path.unlink()
    for name in ("results", "runs"):
        (tmp_path / "r" / f"{name}.parquet").unlink(missing_ok=True)
    assert wifu.load(tmp_path / "r").runs.empty


STACKS = """
runs = 8
pair = "stack"
[scenario]
topology = { words = "linear,3", set = "TB-W3" }
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "{stack}"
[vary.stack]
"""


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        ('modern = "tcp-sack"\nclassic = "tcp-sack,rcv_wnd=6000"', "rcv_wnd 6000, not 4194304"),
        ('large = "tcp-sack"\n6000 = "tcp-sack,rcv_wnd=6000"', ""),
        ('"rcv_wnd small" = "tcp-sack,rcv_wnd=6000"\n"rcv_wnd large" = "tcp-sack"', ""),
        ('one = "tcp-sack"\ntwo = "tcp-tahoe"', ""),
        ('patient = "tcp-sack,rto_min=1s"\neager = "tcp-sack,rto_min=200ms"', ""),
    ],
)
def test_names_that_do_not_say_the_one_difference(levels: str, told: str) -> None:
    found = alike.differences(plans.parse(STACKS + levels))
    assert [d.sentence().rpartition(": ")[2] for d in found] == ([f"{told}."] if told else [])


def test_an_axis_that_is_called_by_the_one_difference_says_it() -> None:
    text = STACKS.replace("{stack}", "tcp-sack,rcv_wnd={rcv_wnd}").replace(".stack", "")
    text = text.replace('pair = "stack"', 'pair = "rcv_wnd"')
    assert alike.differences(plans.parse(text + 'rcv_wnd = ["6k", "60k"]')) == []


def test_mac_metrics_are_of_frames_that_are_acknowledged() -> None:
    """Routing that floods the mesh makes no frame arrive sooner."""
    flow = {"id": 1, "bytes": 1000, "start_s": 0.0}
    nodes = [{"frames": 1000, "failed": 10, "retries": 50}, {"frames": 1000, "failed": 0}]
    links = [{"frames": 90}, {"frames": 10}]
    told = {"flows": [flow], "sim_seconds": 1.0, "nodes": nodes}
    row = metrics.run_row({**told, "links": links}, metrics.Measure())
    assert (row["mac_loss"], row["mac_retries"]) == (0.1, 0.5)
    row = metrics.run_row(told, metrics.Measure())
    assert (row["mac_loss"], row["mac_retries"]) == (0.005, 0.025)


def test_load_adds_to_the_delay_of_the_same_path_or_nothing_is_known() -> None:
    def probe(ends: str, start: float, last: float, delay: float) -> dict[str, Any]:
        told = {"p50_s": delay, "p95_s": delay, "p99_s": delay, "samples": 10}
        return {"protocol": "udp", "bytes": 10, "from": ends[0], "to": ends[1], "start_s": start,
                "last_byte_s": last, "one_way": told}  # fmt: skip

    load = {"protocol": "tcp-sack", "bytes": 10, "start_s": 5.0, "last_byte_s": 29.0}

    def added(*probes: dict[str, Any]) -> float:
        outcome = {"flows": [load, *probes], "sim_seconds": 30.0}
        return metrics.RUN_METRICS["latency_added"].compute(outcome, np.empty(0))

    near, far = probe("ab", 0, 4, 0.001), probe("bc", 6, 29, 0.1)
    assert np.isnan(added(near, far)), "a longer path is no load"
    assert np.isnan(added(near, probe("ba", 6, 29, 0.1))), "nor is the other direction"
    both = (near, probe("bc", 0, 4, 0.09), far, probe("ab", 6, 29, 0.031))
    assert added(*both) == pytest.approx((0.01 + 0.03) / 2)


@pytest.mark.parametrize("text", ["1MB/s", "1MBps", "8 kB/s", "10B/s", "1 MB", "1MB/sec"])
def test_rates_in_bytes_are_no_rates(text: str) -> None:
    with pytest.raises(LabError, match="is in bytes: rates are in bits, 1 MB/s is 8 Mb/s"):
        values.rate(text)
    assert values.rate("1Mb/s") == 1e6


def test_rates_are_read_as_programs_write_them() -> None:
    """Here as by `wifu sim`."""
    for text in [
        "1Mb/s",
        "1 mb/s",
        "1Mbps",
        "1M",
        "1Mbit",
        "1Mb",
        "1 Mbits",
        "1 Mbits/sec",
        "1mbit/s",
        "1000 kb",
        "1e6",
    ]:
        assert values.rate(text) == 1e6, text
    assert values.rate(6) == values.rate("6") == 6.0
    for text in ("1M/s", "1/s", "1Mbps/s", "1 Mbit/min", "1 megabit", "fast", ""):
        with pytest.raises(LabError, match="is no rate: write"):
            values.rate(text)


def test_counters_of_who_asks_are_not_those_of_the_answers() -> None:
    given = {"topology": {"words": "linear,3"}, "stop": {"time": "9s"},
             "flow": [{"from": "n1", "to": "n3", "protocol": "tcp-sack", "app": app, "pause": "1s"}
                      for app in ("request", "http")]}  # fmt: skip
    asks, fetches = flows_of(given)
    row = {
        "bytes": 5,
        "requests": [],
        "connections": 1,
        "cwnd": 1,
        **dict.fromkeys(absent.COUNTED, 1),
    }
    assert absent.without(asks, row) == {"bytes": 5, "requests": [], "connections": 1}
    assert absent.without(fetches, row) == row
    (said,) = absent.words([asks], [absent.without(asks, row)])
    assert said.endswith("who answers sends what counts, and does not tell it")


def test_the_waterfall_of_answers_is_called_so(tmp_path: Path) -> None:
    text = CHAIN.replace("copies = 2", 'copies = 2\napp = "request"')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    _, caption = drawn(found, kind="waterfall")
    assert "Mean over the questions and acknowledgements of flow 1 " in caption
