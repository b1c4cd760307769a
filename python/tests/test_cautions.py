"""What is said beside numbers, of runs whose numbers are known."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake import CHAIN, FakeResult, fake, pairs
from matplotlib.patches import Rectangle
from test_figures import drawn

import wifu
from wifu import cautions, comparisons, report
from wifu import plan as plans
from wifu.campaign import Summary, check_scenarios
from wifu.errors import PlanError
from wifu.screen import screen, tell

PLAN = """
name = "known"
runs = 8
baseline = "tcp-reno"
metrics = ["aggregate", "jain", "sum_rates"]
[scenario]
topology.words = "linear,2"
[[scenario.flow]]
protocol = "{protocol}"
app = "file"
bytes = "1M"
copies = 2
[vary]
protocol = ["tcp-reno", "tcp-newreno"]
"""


def made(
    folder: Path, flows: Mapping[str, list[dict[str, Any]]], text: str = PLAN,
    series: Callable[[int], dict[str, bytes]] | None = None,
    seconds: Mapping[str, float] | None = None, **more: Any,
) -> wifu.Results:  # fmt: skip
    """Runs whose flows are those of their protocol, each a little faster than the one before."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        protocol, run = scenario["flow"][0]["protocol"], scenario["run"]
        told = [
            {"id": n, "protocol": protocol, "app": "file", "start_s": 0.0, "first_byte_s": 0.1,
             "finished": True, "bytes": 1_000_000, **flow}
            for n, flow in enumerate(flows[protocol], 1)
        ]  # fmt: skip
        for flow in told:
            flow["bytes"] += 1000 * run
            if "timeouts" in flow:
                flow["timeouts"] += run % 3
            if "batches" in flow:
                flow["batches"] = [octets + run for octets in flow["batches"]]
        length = (seconds or {}).get(protocol, 60.0)
        outcome = {"sim_seconds": length, "flows": told, "trace_hash": f"{protocol}{run}", **more}
        return FakeResult(outcome, series(run) if series else {})

    return wifu.campaign(plans.parse(text), folder / "r", runner=runner)


def both(*ends: float | None, **more: Any) -> dict[str, list[dict[str, Any]]]:
    """The same flows for both protocols, with these last bytes."""
    flows = [{"last_byte_s": end, **more} for end in ends]
    return {"tcp-reno": flows, "tcp-newreno": flows}


def said(results: wifu.Results, metric: str) -> str:
    return " ".join(cautions.notes(results, results.plan.cells, metric))


def test_flows_one_after_the_other_are_no_shares_and_that_is_told(tmp_path: Path) -> None:
    one, other = {"last_byte_s": 4.0}, {"start_s": 4.0, "last_byte_s": 8.0}
    together = {"last_byte_s": 8.0}
    found = made(tmp_path, {"tcp-reno": [together, together], "tcp-newreno": [one, other]})
    words = "In 8 of 16 runs there was no time at which all flows were there"
    for metric in ("jain", "lowest", "unfairness", "utility", "sum_rates"):
        assert words in said(found, metric), metric
    assert words not in said(found, "aggregate") + said(found, "goodput")
    above = "above what they carried together (100% at the most)"
    assert above in said(found, "goodput") and above in said(found, "sum_rates")
    together_only = found.cells({"protocol": "tcp-reno"})
    assert cautions.notes(found, together_only, "goodput") == []
    assert words not in " ".join(cautions.notes(found, found.plan.cells[:1], "jain"))
    # Nor are they faster, together: twice the sum of rates, and the same bytes in the same time.
    ratios = {m: found.compare(m)["ratio"][0] for m in ("aggregate", "sum_rates")}
    assert ratios == {"aggregate": pytest.approx(1.0), "sum_rates": pytest.approx(2.0)}
    text = report.render(found, [])
    assert (
        words in text
        and "`aggregate` is bytes of all flows, by the time from the first start" in text
    )
    for kind in ("fairness", "bars"):
        keys = {} if kind == "fairness" else {"metric": "jain"}
        assert words in drawn(found, kind=kind, x="protocol", **keys)[1]


def test_the_screen_says_it_of_the_first_metric(tmp_path: Path) -> None:
    flows = [{"last_byte_s": 4.0}, {"start_s": 4.0, "last_byte_s": 8.0}]
    text = PLAN.replace('"aggregate", "jain"', '"lowest", "jain"')
    found = made(tmp_path, {"tcp-reno": flows, "tcp-newreno": flows}, text)
    with screen.capture() as told:
        tell(found.folder, Summary("complete", 16))
    assert "In 16 of 16 runs there was no time" in " ".join(told.get().split())


def test_tables_of_an_older_lab_are_made_anew(tmp_path: Path) -> None:
    """What it called `aggregate` was the sum of rates."""
    found = made(tmp_path, both(4.0, 8.0))
    right = found.summary("aggregate")
    path = found.folder / "runs.parquet"
    table = pd.read_parquet(path).drop(columns="aggregate_bps")
    old = table.rename(columns={"sum_rates_bps": "aggregate_bps"})
    old.to_parquet(path, index=False)
    pd.testing.assert_frame_equal(wifu.load(found.folder).summary("aggregate"), right)
    pd.testing.assert_frame_equal(wifu.load(found.folder).summary("aggregate"), right)
    # Without the runs it keeps its name no longer.
    old.to_parquet(path, index=False)
    for run in (found.folder / "runs").iterdir():
        run.unlink()
    (found.folder / "runs").rmdir()
    bare = wifu.load(found.folder)
    assert bare.summary("sum_rates")["mean"].tolist() == pytest.approx(
        found.summary("sum_rates")["mean"].tolist()
    )
    assert bare.summary("aggregate")["n"].tolist() == [0, 0]


STEADY = 'measure = "steady"\n' + PLAN


def test_runs_without_a_batch_that_counts_are_told(tmp_path: Path) -> None:
    batches = {"batches": [500_000, 250_000, 250_000], "finished": False}
    flows = both(4.0, 4.0, **batches)
    whole = made(tmp_path / "whole", flows, STEADY, batches_end_s=[1.0, 2.0, 3.0])
    assert said(whole, "goodput") == ""
    one = made(tmp_path / "one", flows, STEADY, batches_end_s=[1.0])
    words = "16 of 16 runs ended before a batch was over after the 1 to leave out"
    assert words in said(one, "goodput") and "has the start in it" not in said(one, "goodput")
    none = made(tmp_path / "none", flows, STEADY, batches_end_s=[])
    assert "16 of them before these were, so that theirs has the start" in said(none, "aggregate")
    # Of a value at the end no batch is asked for.
    assert "batch was over" not in said(none, "srtt") + said(none, "loss")


def test_batches_that_are_too_small_for_an_interval_are_told(tmp_path: Path) -> None:
    single = STEADY.replace("runs = 8", "runs = 1").replace("copies = 2", "")

    def told(name: str, times: list[float], runs: str = single) -> str:
        ends = [sum(times[: n + 1]) for n in range(len(times))]
        flows = both(9.0, batches=[1000] * len(times), finished=False)
        found = made(tmp_path / name, flows, runs, batches_end_s=ends)
        used = len(times) - 1 if runs == single else 8
        assert found.summary("goodput")["n"].tolist() == [used] * 2
        return said(found, "goodput")

    fine = [1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.1, 0.9, 1.0, 1.1, 0.9]
    assert told("fine", fine) == ""
    assert "tcp-reno (1 of 10 took no time)" in told("none", [*fine[:-1], 0.0])
    assert "(they took 0.1 to 9 s)" in told("spread", [1.0] + [0.1] * 9 + [9.0])
    assert "(lag-1 correlation 0.7" in told("slow", [1.0] + [0.5] * 5 + [1.5] * 5)
    assert "(only 9 batches)" in told("few", fine[:-1])
    assert "(only 3 batches)" in told("three", fine[:4])
    # The interval of many runs is not of their batches.
    assert told("runs", [*fine[:-1], 0.0], STEADY.replace("copies = 2", "")) == ""


def test_flows_that_end_inside_the_window_are_told(tmp_path: Path) -> None:
    """With the window's times, as the plan's heading may not say them."""
    text = 'measure = { mode = "window", from = "1s", to = "6s" }\n' + PLAN

    def series(run: int) -> dict[str, bytes]:
        octets = [k * (1e5 + run) for k in range(1, 5)]
        return {f"flow.{n}.delivered": pairs([1.0, 2.0, 3.0, 4.0], octets) for n in (1, 2)}

    found = made(tmp_path / "a", both(4.0, 8.0), text, series)
    words = "16 of 32 flows were there for a part of the window only (16 ended inside or before)"
    assert words in said(found, "goodput")
    assert "of the window only" not in said(found, "srtt")
    assert "no value" not in said(found, "goodput")
    assert "bytes delivered inside 1 s to 6 s, by as much of it" in report.render(found, [])
    first = found.flows[found.flows["run"] == 1]["goodput_bps"].head(2)
    assert first.tolist() == pytest.approx([3 * 100_001 * 8 / 3, 3 * 100_001 * 8 / 5])
    gone = made(tmp_path / "b", both(0.5, 8.0), text, series)
    assert "16 were not there at all, and their runs have no value" in said(gone, "goodput")


def test_a_window_that_leaves_out_the_quickest_is_told(tmp_path: Path) -> None:
    text = 'measure = { mode = "window", from = "5s", to = "15s" }\n' + PLAN

    def runner(scenario: dict[str, Any]) -> FakeResult:
        protocol, run = scenario["flow"][0]["protocol"], scenario["run"]
        quick = protocol == "tcp-newreno" and run > 3
        end = 4.0 + 0.1 * run if quick else 9.0
        flows = [
            {"id": n, "protocol": protocol, "app": "file", "start_s": 0.0, "first_byte_s": 0.1,
             "finished": True, "bytes": 1_000_000, "last_byte_s": end}
            for n in (1, 2)
        ]  # fmt: skip
        points = pairs([1.0, end], [1e5, 1e6 + run])
        series = {f"flow.{n}.delivered": points for n in (1, 2)}
        return FakeResult({"sim_seconds": 60.0, "flows": flows, "trace_hash": f"{run}"}, series)

    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)
    told = said(found, "goodput")
    assert "10 were not there at all, and their runs have no value" in told
    words = "10 of these were over before the window began (by cell: tcp-newreno 10): they were"
    assert words in told and "the quickest of their cells" in told
    assert (
        "neither colour nor bold beside them" in told and report.best_of(found, "goodput") == set()
    )
    assert set(found.compare("goodput")["why"]) == {
        "the quickest were over before the window began"
    }
    assert "quickest" not in said(found, "srtt")
    _, caption = drawn(found, kind="flows", where={"protocol": "tcp-newreno"})
    assert "n = 3 of 8 runs per cell" in caption
    _, caption = drawn(found, kind="flows", where={"protocol": "tcp-reno"})
    assert "n = 8 runs per cell" in caption and "the quickest" not in caption


def test_windows_that_were_not_simulated_are_told(tmp_path: Path) -> None:
    text = 'measure = { mode = "window", from = "1s", to = "81s" }\n' + PLAN

    def series(run: int) -> dict[str, bytes]:
        return {f"flow.{n}.delivered": pairs([1.0, 2.0], [1e5, 2e5 + run]) for n in (1, 2)}

    flows = both(4.0, 8.0, finished=False)
    flows["tcp-reno"] = both(4.0, 8.0)["tcp-reno"]
    found = made(tmp_path, flows, text, series)
    words = "8 of 16 runs ended before 90% of the window 1 s to 81 s was over"
    assert words in said(found, "goodput")
    assert found.runs["starved_share"].isna().sum() == 8, "not known is not starved, nor fed"
    with pytest.raises(PlanError, match="the window ends at 81 s, and runs at 60 s at the latest"):
        plans.parse(text.replace("[scenario]", '[scenario]\nstop.time = "60s"'))
    with pytest.raises(PlanError, match=r"stop\.time: \"60 parsecs\" needs a unit of time"):
        check_scenarios(
            plans.parse(text.replace("[scenario]", '[scenario]\nstop.time = "60 parsecs"'))
        )


def test_datagrams_that_are_left_out_are_told(tmp_path: Path) -> None:
    flows: list[dict[str, Any]] = [
        {"last_byte_s": 4.0},
        {"last_byte_s": 8.0, "protocol": "udp", "start_s": 5.0},
    ]
    found = made(tmp_path / "a", {"tcp-reno": flows, "tcp-newreno": flows})
    words = "datagrams (flow 2) are left out: `goodput@2` is that of flow 2."
    for metric in ("goodput", "aggregate", "jain", "delay"):
        assert words in said(found, metric)
    assert "no time at which all flows were there" not in said(found, "jain")
    assert said(found, "goodput@2") == said(found, "retransmissions") == ""
    only = [{"last_byte_s": 4.0, "protocol": "udp"}] * 2
    assert said(made(tmp_path / "b", {"tcp-reno": only, "tcp-newreno": only}), "goodput") == ""


def test_counts_of_who_delivers_less_are_no_better(tmp_path: Path) -> None:
    """Ten timeouts for a hundredth of the bytes are not fewer than thirty for all of them."""

    def found(name: str, octets: int) -> wifu.Results:
        text = PLAN.replace('"aggregate", "jain"', '"aggregate", "timeouts"')
        few = {"last_byte_s": 8.0, "bytes": octets, "timeouts": 10}
        many = {"last_byte_s": 8.0, "timeouts": 30}
        return made(tmp_path / name, {"tcp-reno": [many] * 2, "tcp-newreno": [few] * 2}, text)

    even, uneven = found("even", 950_000), found("uneven", 10_000)
    assert report.best_of(even, "timeouts") == {"tcp-newreno"}
    assert report.best_of(uneven, "timeouts") == set()
    assert report.best_of(uneven, "aggregate") == {"tcp-reno"}, "others are compared as before"
    assert "uneven" not in even.compare("timeouts") and even.compare("timeouts")["p"][0] < 0.05
    assert uneven.compare("timeouts")["uneven"].all() and "uneven" not in uneven.compare(
        "aggregate"
    )
    words = "whose runs delivered from 0.029 to 2.01 MB: there is neither colour nor bold"
    assert words in said(uneven, "timeouts") and said(even, "timeouts") == ""
    assert said(uneven, "aggregate") == ""
    colours = {}
    for results in (even, uneven):
        text = comparisons._ratios(results, results.compare("timeouts"), "timeouts")
        colours[results] = text.count("class='up'"), text.count("class='same'")
    assert list(colours.values()) == [(1, 0), (0, 1)]


def test_what_a_protocol_does_not_have_is_no_best_value(tmp_path: Path) -> None:
    """Who has no timer has no timeouts, which is not 0 of them."""
    has = {"last_byte_s": 8.0, "segments": 900, "timeouts": 30}
    lacks = {"last_byte_s": 8.0, "segments": 900}
    text = PLAN.replace('"aggregate", "jain", "sum_rates"', '"timeouts", "fast_retransmits"')
    text += """
[[figure]]
kind = "bars"
metric = "timeouts"
"""

    def runs(name: str, first: dict[str, Any], other: dict[str, Any]) -> wifu.Results:
        flows = {"tcp-reno": [has, first], "tcp-newreno": [other] * 2}
        return made(tmp_path / name, flows, text)

    found = runs("lacks", has, lacks)
    reno, newreno = found.plan.cells
    assert found.interval("timeouts", reno).estimate > 59
    assert np.isnan(found.interval("timeouts", newreno).estimate)
    assert report.best_of(found, "timeouts") == set()
    (row,) = found.compare("timeouts").to_dict("records")
    assert row["n"] == 0 and all(np.isnan(row[key]) for key in ("ratio", "difference", "p"))
    words = (
        "No part of tcp-newreno has retransmission timeouts: there is no value, which is not 0 and "
        "is compared with nothing."
    )
    assert said(found, "timeouts") == words
    assert said(found, "fast_retransmits").startswith("No part of tcp-newreno, tcp-reno has reco")
    page = report.render(found, [])
    assert words in page and "no value" in page
    axis = drawn(found, **found.plan.figures[0])[0].axes[0]
    heights = [bar.get_height() for bar in axis.patches if isinstance(bar, Rectangle)]
    assert sum(height > 0 for height in heights) == 1, heights
    # Beside others there is no sum of all flows, and one of each that has its own.
    mixed = runs("mixed", lacks | {"protocol": "atp"}, has)
    assert np.isnan(mixed.interval("timeouts", mixed.plan.cells[0]).estimate)
    assert said(mixed, "timeouts").startswith("No part of atp has retransmission timeouts")
    assert said(mixed, "timeouts").endswith("Beside them `timeouts@1` is that of a flow alone.")
    assert mixed.interval("timeouts@1", mixed.plan.cells[0]).estimate > 29
    # What was not asked for is told elsewhere, and so is what a kernel does not count.
    unasked = runs("unasked", has, {"last_byte_s": 8.0})
    kernel = runs("kernel", has, lacks | {"protocol": "kernel:cubic"})
    assert said(unasked, "timeouts") == said(kernel, "timeouts") == ""


def test_files_that_end_inside_steady_state_are_not_compared(tmp_path: Path) -> None:
    """What is done sooner has its bytes by the same time, and a longer start left out."""
    ends = [1.0, 2.0, 60.0]
    batches = {"batches": [500_000, 250_000, 250_000]}
    through = {**batches, "last_byte_s": 60.0, "finished": False}
    slower = {**through, "batches": [300_000, 150_000, 150_000]}

    def found(name: str, **more: Any) -> wifu.Results:
        flows = {"tcp-reno": [through] * 2, "tcp-newreno": [{**slower, **more}, slower]}
        return made(tmp_path / name, flows, STEADY, batches_end_s=ends)

    plain = found("plain")
    assert said(plain, "goodput") == "" and report.best_of(plain, "goodput") == {"tcp-reno"}
    for name, more in (
        ("ended", {"finished": True, "last_byte_s": 9.0}),
        ("late", {"start_s": 30.0}),
    ):
        cut = found(name, **more)
        words = "8 of 32 flows were there for a part of the batches only"
        for metric in ("goodput", "goodput@1", "jain"):
            assert words.replace("32", "16" if "@" in metric else "32") in said(cut, metric)
            assert report.best_of(cut, metric) == set()
            assert cut.compare(metric)["uneven"].all()
        assert "a part of the batches" not in said(cut, "aggregate") + said(cut, "goodput@2")


def test_delays_of_what_arrived_are_not_of_what_was_lost(tmp_path: Path) -> None:
    load = {"last_byte_s": 60.0, "finished": False}

    def probe(octets: int, delay: float) -> dict[str, Any]:
        told = dict.fromkeys(("p50_s", "p95_s", "p99_s"), delay) | {"samples": octets // 72}
        return {"protocol": "udp", "bytes": octets, "sent_bytes": 100_000, "start_s": 1.0,
                "last_byte_s": 59.9, "finished": False,
                **({"one_way": told, "under_load": told} if octets else {})}  # fmt: skip

    def found(name: str, octets: int) -> wifu.Results:
        text = PLAN.replace('"aggregate"', '"aggregate", "one_way_p95"')
        one, two = probe(90_000, 0.18), probe(octets, 0.01)
        return made(tmp_path / name, {"tcp-reno": [load, one], "tcp-newreno": [load, two]}, text)

    like, unlike = found("like", 88_000), found("unlike", 2_000)
    assert "Of the datagrams under load 5.6% to 7.6% did not arrive at the most" in said(
        like, "one_way_p95"
    )
    assert report.best_of(like, "one_way_p95") == {"tcp-newreno"}
    assert "neither colour nor bold" not in said(like, "one_way_p95")
    assert "neither colour nor bold" in said(unlike, "one_way_p95")
    assert report.best_of(unlike, "one_way_p95") == set()
    assert unlike.compare("one_way_p95")["uneven"].all()
    assert said(unlike, "srtt") == ""
    assert "Counts per run" not in said(unlike, "one_way_p95"), "that is of what counts events"
    silent = {**probe(1_000, 0.01), "under_load": {"samples": 0}}
    flows = {"tcp-reno": [load, probe(90_000, 0.18)], "tcp-newreno": [load, silent]}
    nothing = made(tmp_path / "none", flows, PLAN.replace('"aggregate"', '"aggregate", "srtt"'))
    words = "In 8 of 16 runs no datagram arrived under load that was sent under it"
    assert words in said(nothing, "one_way_p95")
    assert nothing.runs["one_way_p95_s"].isna().sum() == 8


def test_what_is_said_of_lost_datagrams_is_of_the_flow_that_a_metric_is_of(tmp_path: Path) -> None:
    told = dict.fromkeys(("p50_s", "p95_s", "p99_s"), 0.18) | {"samples": 9}
    probe = {"protocol": "udp", "sent_bytes": 100_000, "start_s": 1.0, "last_byte_s": 59.9,
             "finished": False, "bytes": 90_000, "one_way": told, "under_load": told}  # fmt: skip
    load: dict[str, Any] = {"last_byte_s": 60.0, "finished": False}
    silent = {**probe, "under_load": {"samples": 0}}
    flows = {"tcp-reno": [load, probe, silent], "tcp-newreno": [load, probe, probe]}
    found = made(tmp_path, flows, PLAN.replace("copies = 2", "copies = 3"))
    words = "In 8 of 16 runs no datagram arrived under load that was sent under it"
    assert words in said(found, "one_way_p95") and words in said(found, "one_way_p95@3")
    assert "no datagram" not in said(found, "one_way_p95@2")
    # What is over before the load is what that adds to, and has nothing under it.
    base = {**probe, "last_byte_s": 3.0, "until_s": 3.0, "under_load": {"samples": 0}, "to": "n2"}
    flows = {name: [{**load, "start_s": 4.0}, base, {**probe, "to": "n3"}] for name in flows}
    added = made(tmp_path / "added", flows, PLAN.replace("copies = 2", "copies = 3"))
    assert "no flow of datagrams between the same two nodes" in said(added, "latency_added")
    assert "no datagram arrived" not in said(added, "latency_added")


def test_flows_that_had_not_started_or_came_at_once_are_told(tmp_path: Path) -> None:
    late = {"start_s": 60.0, "bytes": -1000, "finished": False, "first_byte_s": None}
    flows: dict[str, list[dict[str, Any]]] = {
        "tcp-reno": [{"last_byte_s": 9.0}, {**late, "last_byte_s": None}]
    }
    flows["tcp-newreno"] = both(9.0, 9.0)["tcp-reno"]
    found = made(tmp_path / "late", flows)
    words = "1 of 32 flows had not started when their run ended (at 60 s): they have no value"
    assert words in said(found, "goodput") and words in said(found, "starved")
    text = 'measure = "receiver"\n' + PLAN
    once = made(tmp_path / "once", {**flows, "tcp-reno": both(9.0, 0.1)["tcp-reno"]}, text)
    assert "16 of 32 flows had all of their bytes at one instant" not in said(once, "goodput")
    assert "8 of 32 flows had all of their bytes at one instant" in said(once, "goodput")


def test_a_load_of_datagrams_does_not_hide_who_delivered_less(tmp_path: Path) -> None:
    text = PLAN.replace('"aggregate", "jain"', '"aggregate", "timeouts", "loss", "finished"')
    load = {"last_byte_s": 60.0, "protocol": "udp", "bytes": 50_000_000}
    few = {"last_byte_s": 8.0, "bytes": 10_000, "timeouts": 10}
    many = {"last_byte_s": 8.0, "timeouts": 30}
    found = made(tmp_path, {"tcp-reno": [many, load], "tcp-newreno": [few, load]}, text)
    assert report.best_of(found, "timeouts") == set()
    assert "delivered from 0.0145 to 1 MB" in said(found, "timeouts")
    for metric in ("loss", "finished"):
        assert "Of all flows, datagrams (flow 2) too" in said(found, metric)
    assert "flow 2" not in said(found, "loss@1")


def test_pauses_are_told_beside_rates(tmp_path: Path) -> None:
    text = PLAN.replace('app = "file"\nbytes = "1M"', 'app = "http"\ncount = 5\npause = "{pause}"')
    for pause, there in (("3s", True), ("0s", False)):
        found = made(tmp_path / pause, both(9.0, 9.0), text.replace("{pause}", pause))
        for metric in ("goodput", "aggregate", "goodput@1"):
            assert (
                "by the whole time, pauses included: see `delay`" in said(found, metric)
            ) == there
        assert "pauses" not in said(found, "srtt")


def test_shares_of_one_flow_and_of_nothing_are_told(tmp_path: Path) -> None:
    one, none = {"last_byte_s": 9.0}, {"bytes": -1000, "last_byte_s": None, "finished": False}
    other = {"last_byte_s": 5.0}
    found = made(tmp_path, {"tcp-reno": [one, other], "tcp-newreno": [none]})
    for metric in ("jain", "weakest", "unfairness"):
        told = said(found, metric)
        assert "In 8 of 16 runs there is one flow alone, which has no share" in told
        assert "In 1 of 16 runs nobody got anything: they have no value here" in told
        assert report.best_of(found, metric) == set()
    assert "alone" not in said(found, "lowest") and "nobody" not in said(found, "aggregate")


def test_percentiles_of_classes_are_not_told_apart_within_one(tmp_path: Path) -> None:
    text = PLAN.replace('"aggregate", "jain"', '"aggregate", "rtt_p95"')

    def found(name: str, rtt: float) -> wifu.Results:
        sides = [
            [{"last_byte_s": 9.0, "rtt": {f"p{share}_s": at for share in (50, 95, 99)}}] * 2
            for at in (0.1, rtt)
        ]
        return made(tmp_path / name, {"tcp-reno": sides[0], "tcp-newreno": sides[1]}, text)

    near, far = found("near", 0.105), found("far", 0.12)
    assert report.best_of(near, "rtt_p95") == set() and near.compare("rtt_p95")["uneven"].all()
    assert report.best_of(far, "rtt_p95") == {"tcp-reno"}
    assert "within 1/16 (6.25%)" in said(near, "rtt_p95")
    assert "uneven" not in far.compare("rtt_p95") and said(near, "srtt") == ""


def test_runs_that_end_long_before_their_time_are_told(tmp_path: Path) -> None:
    """As a small file beside was over, and what has no end ends with it."""
    text = PLAN.replace("topology.words", 'stop.time = "30s"\ntopology.words')
    bulk, small = {"finished": False, "last_byte_s": 0.4}, {"last_byte_s": 0.4, "bytes": 100_000}
    flows = {"tcp-reno": [bulk, small], "tcp-newreno": [bulk, small]}
    found = made(tmp_path / "a", flows, text, sim_seconds=0.4)
    for metric in ("goodput@1", "aggregate", "goodput"):
        told = said(found, metric)
        early = "had more to send when their run was over in less than half of its `stop.time`"
        assert f"{early}, at 0.4 s of 30 s" in told, metric
    assert "more to send" not in said(found, "goodput@2") + said(found, "retransmissions")
    whole = made(tmp_path / "b", flows, text, sim_seconds=30.0)
    assert "more to send" not in said(whole, "goodput@1")
    done = {"tcp-reno": [small, small], "tcp-newreno": [small, small]}
    assert "more to send" not in said(
        made(tmp_path / "c", done, text, sim_seconds=0.4), "aggregate"
    )


def test_routes_that_are_not_what_the_axis_says_are_told(tmp_path: Path) -> None:
    """As with routing by ETX, which goes past nodes of a chain."""
    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "a", runner=fake)
    assert "other hops than the level" not in said(found, "goodput")

    def shorter(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for flow in outcome["flows"]:
            flow["hops"] = 1
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "b", runner=shorter)
    told = "Routes of flow 1 have other hops than the level of `hops` says: 1 at 3."
    assert told in said(found, "goodput") and "`hops`" not in said(found, "srtt")
    assert "equally long" not in said(found, "goodput")

    def by_protocol(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for flow in outcome["flows"]:
            flow["hops"] += "newreno" in flow["protocol"] and flow["hops"] > 1
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "c", runner=by_protocol)
    told = said(found, "goodput")
    assert "hops` says: 4 at 3. Routes are not equally long in all cells, not even in" in told
    assert "by cell: 3_tcp-reno 3, 3_tcp-newreno 4)." in told


def test_routes_of_unlike_length_are_told_where_no_axis_says_so(tmp_path: Path) -> None:
    called = CHAIN.replace("hops", "side")
    found = wifu.campaign(plans.parse(called), tmp_path / "a", runner=fake)
    told = said(found, "goodput")
    assert "Routes are not equally long in all cells" in told
    assert "by cell: 1_tcp-reno 1, 1_tcp-newreno 1, 3_tcp-reno 3, 3_tcp-newreno 3)." in told
    assert "equally long" not in said(found, "srtt")
    assert "equally long" not in " ".join(cautions.notes(found, found.plan.cells[:2], "goodput"))


def test_rates_over_runs_of_unlike_lengths_have_no_colour(tmp_path: Path) -> None:
    """As answers that one protocol brings sooner end a run, and with it the bulk flow beside."""
    text = PLAN.replace("topology.words", 'stop.time = "600s"\ntopology.words')

    def found(name: str, times: list[float], stop: str = text) -> wifu.Results:
        def runner(scenario: dict[str, Any]) -> FakeResult:
            made = fake(scenario)
            slow = "newreno" in scenario["flow"][0]["protocol"]
            made._outcome["sim_seconds"] = times[slow]
            rate = (2e6 if slow else 4e6) + 1e4 * scenario["run"]
            made._outcome["flows"][0] |= {"finished": False, "goodput_bps": rate}
            return made

        return wifu.campaign(
            plans.parse(stop.replace("runs = 2", "runs = 12")), tmp_path / name, runner=runner
        )

    short = found("a", [14.0, 201.0])
    row = short.compare("goodput@1").iloc[0]
    assert "runs lasted more than 10 % longer in some" in row["why"]
    assert report.best_of(short, "goodput@1") == set()
    assert "lasted between 14 s" in said(short, "goodput@1")
    alike = found("b", [60.0, 60.0])
    assert "uneven" not in alike.compare("goodput@1")
    packets = found("c", [14.0, 201.0], text.replace('stop.time = "600s"', "stop.packets = 1000"))
    longer = "runs lasted more than 10 % longer in some"
    assert longer not in str(packets.compare("goodput@1").iloc[0].get("why"))
    # Cells that are compared with each other are looked at by themselves.
    ends = '[vary.end]\nlate = { "stop.time" = "600s" }\nfew = { "stop.packets" = 1000 }\n'
    some = found("d", [14.0, 201.0], text.replace('stop.time = "600s"\n', "") + ends)
    assert "lasted between 14 s" in said(some, "goodput@1")
