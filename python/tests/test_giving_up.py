"""Transports that give up, or stall: what they did not do is in the numbers, or is told."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import FakeResult, pairs
from test_cautions import PLAN, STEADY, both, made, said
from test_cutoff import ASKING, loading
from test_figures import drawn

import wifu
from wifu import asked, cutoff, metrics, report
from wifu import plan as plans
from wifu.campaign import Campaign, Summary
from wifu.metrics import Measure
from wifu.screen import screen, tell
from wifu.store import Store

BATCHES = {"batches": [500_000, 250_000, 250_000], "finished": False, "last_byte_s": 3.5}
ENDS = [1.0, 2.0, 3.0]


def steady(end: str, **more: Any) -> dict[str, Any]:
    flow = {"id": 1, "start_s": 0.0, "bytes": 1_100_000, **BATCHES, **more}
    return {"sim_seconds": 13.0, "end": end, "flows": [flow], "batches_end_s": ENDS}


def row_of(outcome: dict[str, Any]) -> dict[str, Any]:
    return metrics.flow_row(outcome, outcome["flows"][0], Measure("steady"), {})


def test_a_flow_that_stalls_after_its_last_batch_is_as_slow_as_that() -> None:
    whole, stalled = (row_of(steady(end)) for end in ("packets", "time"))
    assert whole["goodput_bps"] == 500_000 * 8 / 2
    assert stalled["goodput_bps"] == pytest.approx(600_000 * 8 / 12)
    assert stalled["batch_bytes"] == [250_000, 250_000, 100_000]
    assert stalled["batch_s"] == [1.0, 1.0, 10.0]
    assert stalled["batch_goodput_bps"] == pytest.approx([2e6, 2e6, 8e4])
    assert (whole["rest_s"], stalled["rest_s"]) == (0.0, 10.0)
    # A part of a batch is none of its own.
    short = {**steady("time"), "sim_seconds": 3.25}
    assert row_of(short)["batch_s"] == [1.0, 1.25]
    assert row_of(short)["goodput_bps"] == pytest.approx(600_000 * 8 / 2.25)
    assert metrics.run_row(short, Measure("steady"))["aggregate"] == row_of(short)["goodput_bps"]
    unknown = steady("time")
    del unknown["end"]
    assert row_of(unknown)["goodput_bps"] == whole["goodput_bps"]


def test_stalls_after_the_last_batch_are_told(tmp_path: Path) -> None:
    flows = both(3.5, 3.5, **BATCHES)
    words = "In 16 of 16 runs the last batch was not over when the run ended, after 57 s"

    def found(name: str, **more: Any) -> wifu.Results:
        return made(tmp_path / name, flows, STEADY, batches_end_s=ENDS, **more)

    stalled = found("stalled", end="time")
    assert words in said(stalled, "goodput") and words in said(stalled, "jain")
    assert words not in said(stalled, "srtt")
    for quiet in (found("packets", end="packets"), found("a", end="time", sim_seconds=3.9)):
        assert said(quiet, "goodput") == ""
    single = STEADY.replace("runs = 8", "runs = 1")
    one = made(tmp_path / "one", flows, single, batches_end_s=ENDS, end="time")
    assert one.summary("goodput")["mean"][0] == pytest.approx(500_002 * 8 / 59 / 1e6, rel=0.01)


def test_tables_without_what_came_after_the_batches_are_made_anew(tmp_path: Path) -> None:
    found = made(tmp_path, both(3.5, **BATCHES), STEADY, batches_end_s=ENDS, end="time")
    path = found.folder / "results.parquet"
    old = found.flows.drop(columns=["rest_s", "split"]).assign(goodput_bps=1.0)
    old.attrs = found.flows.attrs
    old.to_parquet(path, index=False)
    again = wifu.load(found.folder)
    assert again.flows["goodput_bps"].tolist() == found.flows["goodput_bps"].tolist()


TIMED = PLAN.replace("[scenario]", '[scenario]\nstop.time = "{stop}"').replace("copies = 2", "")
DEAD = {"finished": False, "fault": "TimedOut", "last_byte_s": 5.9, "bytes": 500_000}


def failing(folder: Path, end: float, stop: str = "120s", **dead: Any) -> wifu.Results:
    """One side completes its file; the other's connection fails."""
    flows = {"tcp-reno": [{"last_byte_s": 40.0}], "tcp-newreno": [{**DEAD, **dead}]}
    text = TIMED.replace("{stop}", stop).replace('"aggregate", "jain"', '"goodput", "delay"')
    return made(folder, flows, text, sim_seconds=end)


def test_who_gives_up_is_no_faster_for_it(tmp_path: Path) -> None:
    """The run ends with it, so that its goodput is by how soon it gave up."""
    found = failing(tmp_path / "a", 8.0)
    words = "8 of 16 connections failed (TimedOut), and their run ended when nothing else was under"
    for metric in ("goodput", "aggregate", "jain", "weakest", "goodput@1", "starved"):
        told = said(found, metric)
        assert words in told and "neither colour nor bold" in told
        assert report.best_of(found, metric) == set()
        assert found.compare(metric)["uneven"].all()
    assert words not in said(found, "srtt") + said(found, "delay")
    cells = found.plan.cells
    assert cutoff.sentence(found, cells, "goodput") == "", "the end of the run cut nothing off"
    told = cutoff.sentence(found, cells, "delay")
    assert told.startswith("8 of 16 transfers failed: they count with their time so far")
    unfinished = cutoff.unfinished(found, cells, "goodput")
    assert unfinished == "8 of 16 transfers unfinished (8 failed)"
    caption = drawn(found, kind="cdf", metric="delay")[1]
    least = (
        "Of 8 runs only the least that they can be is known, as transfers were cut off by the end"
    )
    assert f"{least} of the run or failed" in caption
    # Until the end of its time it is as slow as it is.
    whole = failing(tmp_path / "b", 120.0)
    assert "their run ended when" not in said(whole, "goodput")
    assert "uneven" not in whole.compare("goodput")
    told = cutoff.sentence(whole, cells, "goodput")
    assert told == "8 of 16 transfers failed; their goodput is that until the end of their run."
    cut = failing(tmp_path / "c", 120.0, fault=None)
    assert cutoff.sentence(cut, cells, "goodput").startswith("8 of 16 transfers were cut off by")
    assert "failed" not in said(cut, "goodput") + cutoff.unfinished(cut, cells, "goodput")


def test_files_that_follow_a_failed_one_do_not_end_with_it(tmp_path: Path) -> None:
    """What `http` asks for next has a connection of its own."""
    text = TIMED.replace("{stop}", "120s").replace('"file"\nbytes = "1M"', '"http"\npause = "1s"')
    flows: dict[str, list[dict[str, Any]]] = {
        "tcp-reno": [{"last_byte_s": 40.0}],
        "tcp-newreno": [DEAD],
    }
    found = made(tmp_path, flows, text, sim_seconds=60.0)
    assert "failed" not in said(found, "goodput")


WINDOW = 'measure = { mode = "window", from = "1s", to = "81s" }\n' + PLAN


def test_a_connection_that_failed_carries_nothing_for_the_rest_of_the_window(
    tmp_path: Path,
) -> None:
    window = Measure("window", start=1.0, end=81.0)
    dead = {"id": 1, "app": "file", "start_s": 0.0, "window_bytes": 1000, **DEAD}
    outcome = {"sim_seconds": 9.0, "flows": [dead]}
    assert metrics.run_row(outcome, window)["goodput"] == 1000 * 8 / 80
    for more in ({"fault": None}, {"app": "http"}):
        others = {"sim_seconds": 9.0, "flows": [{**dead, **more}]}
        assert np.isnan(metrics.run_row(others, window)["goodput"]), "it would have gone on"

    # Of what would have gone on beside it nothing is known, and no other window helps.
    def series(run: int) -> dict[str, bytes]:
        return {f"flow.{n}.delivered": pairs([1.0, 2.0], [1e5, 2e5 + run]) for n in (1, 2)}

    alive = {"last_byte_s": 8.9, "finished": False, "app": "bulk"}
    whole = [{"last_byte_s": 60.0}] * 2
    flows: dict[str, list[dict[str, Any]]] = {"tcp-reno": [DEAD, alive], "tcp-newreno": whole}
    found = made(tmp_path, flows, WINDOW, series, sim_seconds=9.0)
    told = said(found, "goodput")
    assert "16 of 16 runs ended" not in told
    assert "8 of 16 runs ended after a connection had failed (TimedOut)" in told
    assert "have no value" in told and "let the window end sooner" not in told


def test_files_that_failed_make_a_mean_the_least(tmp_path: Path) -> None:
    """Who gives up on them has the quick ones left."""

    def giving_up(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(loading(scenario).json())
        (flow,) = outcome["flows"]
        flow |= {"under_way_s": None, "fault": None}
        if scenario["flow"][0]["jitter"] != 0:
            gone = [{"start_s": 2.0 + n, "bytes": 1000, "failed_s": 1.0} for n in range(3)]
            flow |= {"requests_failed": gone, "fault": "TimedOut"}
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(ASKING), tmp_path / "r", runner=giving_up)
    (whole,), (breaks,) = (found.cells({"link": name}) for name in ("whole", "breaks"))
    assert found.flows.groupby("cell")["requests_failed"].sum()[breaks.name] == 24
    assert cutoff.least(found, breaks, "delay") and not cutoff.least(found, whole, "delay")
    assert cutoff.unfinished(found, [breaks], "delay") == "24 of 40 requests unfinished (24 failed)"
    assert cutoff.unfinished(found, [whole], "delay") == ""
    told = cutoff.sentence(found, found.plan.cells, "delay")
    assert told.startswith("24 of 112 requests failed: they count with their time so far")
    row = found.compare("delay").iloc[0]
    assert row["cut"] and np.isnan(row["ratio"]) and np.isnan(row["p"])
    assert report.best_of(found, "delay") == set()


def test_requests_that_failed_are_those_that_a_run_tells() -> None:
    gone = [{"start_s": 2.0, "bytes": 10, "failed_s": 1.0}]
    assert asked.failed({"app": "http", "requests_failed": gone}) == 1
    assert asked.failed({"app": "http", "requests": []}) == 0


def test_flows_that_never_connected_are_told_wherever_numbers_are(tmp_path: Path) -> None:
    there = {"last_byte_s": 8.0, "connected_s": 0.1}
    dark: dict[str, Any] = {"connected_s": None, "finished": False, "first_byte_s": None}
    flows = {"tcp-reno": [there, there], "tcp-newreno": [there, dark]}

    def runner(scenario: dict[str, Any]) -> FakeResult:
        protocol, run = scenario["flow"][0]["protocol"], scenario["run"]
        told = [
            {"id": n, "protocol": protocol, "app": "file", "start_s": 0.0, "first_byte_s": 0.2,
             "finished": True, "bytes": 1_000_000 + run, **flow}
            for n, flow in enumerate(flows[protocol], 1)
        ]  # fmt: skip
        for flow in told:
            flow["bytes"] = flow["bytes"] if flow["connected_s"] else 0
        return FakeResult({"sim_seconds": 60.0, "flows": told, "trace_hash": f"{run}"}, {})

    text = PLAN.replace('"aggregate", "jain"', '"goodput", "finished", "delay", "srtt"')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)
    words = "8 of 32 flows never connected (by cell: tcp-newreno 8)"
    assert f"{words}: their goodput is 0, and part of means and shares." in said(found, "goodput")
    assert f"{words}." in said(found, "finished") and f"{words}." in said(found, "delay")
    assert "never connected" not in said(found, "srtt") + said(found, "goodput@1")
    assert "8 of 16 flows never connected" in said(found, "goodput@2")
    assert words in report.render(found, [])
    assert words in json.dumps(found.comparison()["notes"])
    with screen.capture() as seen:
        tell(found.folder, Summary("complete", 16))
    assert words in " ".join(seen.get().split())
    assert words in drawn(found, kind="bars", metric="goodput", x="protocol")[1]
    # Who is to begin after the end, and datagrams, open nothing.
    dark["start_s"] = 70.0
    late = wifu.campaign(plans.parse(text), tmp_path / "late", runner=runner)
    assert "never connected" not in said(late, "goodput")


@pytest.mark.parametrize("start", [0.0, None])
def test_a_kernels_flow_that_never_connected_is_told(tmp_path: Path, start: float | None) -> None:
    """Its client was cut while it tried, which is no fault of a connection."""
    text = PLAN.replace('"aggregate", "jain", "sum_rates"', '"goodput"') + "[series]\nruns = [1]\n"
    plan = plans.parse(text).variant("emu")

    def runner(scenario: dict[str, Any]) -> FakeResult:
        own = {"protocol": "kernel:cubic", "app": "file", "fault": None}
        there = {**own, "id": 1, "start_s": 0.0, "connected_s": 0.1, "first_byte_s": 0.2,
                 "last_byte_s": 8.0, "finished": True, "bytes": 10**6 + scenario["run"],
                 }  # fmt: skip
        # What `wifu perf` does not tell is not there.
        dark = {**own, "id": 2, "start_s": start, "bytes": 0, "finished": False}
        series = {"flow.1.delivered": pairs([0.2, 8.0], [1.0, 1e6])}
        return FakeResult({"sim_seconds": 60.0, "flows": [there, dark]}, series)

    Campaign(plan, Store(tmp_path).on("emu"), runner).start()
    found = wifu.load(tmp_path, on="emu")
    words = "16 of 32 flows never connected (by cell: tcp-reno 8, tcp-newreno 8)"
    assert (words in said(found, "goodput")) is (start is not None)
    caption = drawn(found, kind="timeseries", show=["goodput"])[1]
    assert ("Flow 2 never connected, in any panel." in caption) is (start is not None)
