"""Numbers of which readers concluded what they do not say: each is told, or has no colour."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake import FakeResult, pairs
from test_cautions import PLAN, both, made, said

import wifu
from wifu import claims, compared, lastsent, published, report, stats, unlike
from wifu import plan as plans
from wifu.campaign import Summary
from wifu.errors import ReplicateError
from wifu.metrics import Measure, flow_goodput, metric_of
from wifu.screen import screen, tell


def why(results: wifu.Results, metric: str) -> list[str]:
    """Why nothing of a metric is better or worse; nothing where it may be."""
    return unlike.reasons(results, results.plan.cells, metric)


def test_in_a_window_too_flows_that_hardly_met_shared_nothing(tmp_path: Path) -> None:
    """One of them came when all but a twentieth of it was over."""
    text = 'measure = { mode = "window", from = "2s", to = "6s" }\n' + PLAN

    def series(run: int) -> dict[str, bytes]:
        return {f"flow.{n}.delivered": pairs([1.0, 5.9], [1e5, 2e5 + run]) for n in (1, 2)}

    def found(folder: str, start: float) -> wifu.Results:
        two: list[dict[str, Any]] = [{"finished": False}, {"start_s": start, "last_byte_s": 6.1}]
        return made(tmp_path / folder, {"tcp-reno": two, "tcp-newreno": two}, text, series)

    late, soon = found("late", 5.8), found("soon", 3.0)
    words = "In 16 of 16 runs all flows were there together in the window for less than half"
    for metric in ("jain", "weakest", "lowest"):
        assert words in said(late, metric) and "neither colour nor bold" in said(late, metric)
        assert why(late, metric) == ["flows were hardly there together"], metric
        assert "together" not in said(soon, metric) and why(soon, metric) == [], metric
    assert why(late, "aggregate") == [] == why(late, "goodput")


def test_the_last_round_trip_time_is_of_how_a_flow_ended(tmp_path: Path) -> None:
    """One that was cut off was in the middle of its queue, one that finished had emptied it."""
    text = PLAN.replace('"aggregate", "jain"', '"srtt", "rtt_p50"')

    def flow(srtt: float, finished: bool) -> dict[str, Any]:
        samples = {"p50_s": 0.1 + srtt, "p95_s": 0.2, "p99_s": 0.2, "samples": 500}
        told = {"srtt_s": srtt, "rtt": samples, "data_segments": 500}
        return {"last_byte_s": 9.0, "finished": finished, **told}

    flows = {"tcp-reno": [flow(0.03, False)] * 2, "tcp-newreno": [flow(0.01, True)] * 2}
    found = made(tmp_path / "cut", flows, text)
    words = "flow 1 finished in 100% of the runs of tcp-newreno and 0% of those of tcp-reno"
    assert words in said(found, "srtt") and "`rtt_p50` is of all samples" in said(found, "srtt")
    reason = "values at the end, of flows that finished and others cut off"
    assert why(found, "srtt") == [reason] == why(found, "srtt@1")
    assert report.best_of(found, "srtt") == set() and why(found, "rtt_p50") == []
    for finished in (True, False):
        flows = {"tcp-reno": [flow(0.03, finished)] * 2, "tcp-newreno": [flow(0.01, finished)] * 2}
        alike = made(tmp_path / f"{finished}", flows, text)
        assert "finished in" not in said(alike, "srtt") and why(alike, "srtt") == []


def test_fewer_recoveries_are_no_better_beside_more_timeouts(tmp_path: Path) -> None:
    text = PLAN.replace('"aggregate", "jain"', '"fast_retransmits", "timeouts"')

    def flow(fast: int, timeouts: int) -> dict[str, Any]:
        return {"last_byte_s": 9.0, "fast_retransmits": fast, "timeouts": timeouts}

    flows = {"tcp-reno": [flow(6, 2)] * 2, "tcp-newreno": [flow(0, 30)] * 2}
    found = made(tmp_path / "a", flows, text)
    told = said(found, "fast_retransmits")
    assert "from 6.25 (tcp-reno) to 62.2 (tcp-newreno) timeouts per run" in told
    reason = "recoveries beside timeouts that are more than 10 % apart"
    assert why(found, "fast_retransmits") == [reason] == why(found, "fast_retransmits@2")
    assert report.best_of(found, "fast_retransmits") == set() and why(found, "timeouts") == []
    found.plan = replace(found.plan, pair=None)
    assert told == said(found, "fast_retransmits"), "without a pair all stand beside each other"
    flows = {"tcp-reno": [flow(6, 30)] * 2, "tcp-newreno": [flow(2, 30)] * 2}
    alike = made(tmp_path / "b", flows, text)
    assert "timeouts per run" not in said(alike, "fast_retransmits")
    assert why(alike, "fast_retransmits") == []


def test_goodput_that_still_rises_in_all_runs_is_no_steady_state(tmp_path: Path) -> None:
    text = PLAN.replace(
        'metrics = ["aggregate", "jain"', 'measure = "steady"\nmetrics = ["goodput"'
    )
    text = text.replace("[scenario]", "[scenario]\nstop.packets = 1100\nstop.batch = 100")

    def steady(folder: str, *octets: int) -> wifu.Results:
        flow = {"last_byte_s": 60.0, "finished": False, "batches": list(octets)}
        flows = {"tcp-reno": [flow] * 2, "tcp-newreno": [flow] * 2}
        ends = [1.0 * k for k in range(1, 12)]
        return made(tmp_path / folder, flows, text, batches_end_s=ends, end="packets")

    rising = steady("rising", *(100_000 + 10_000 * k for k in range(11)))
    words = "This is no steady state"
    for metric in ("goodput", "aggregate", "goodput@1"):
        assert words in said(rising, metric), metric
    assert "tcp-reno +58%, tcp-newreno +58%" in said(rising, "goodput")
    up_and_down = steady("steady", *(100_000 + 30_000 * (k % 2) for k in range(11)))
    assert words not in said(up_and_down, "goodput") and words not in said(rising, "jain")


def test_that_utility_takes_starved_flows_for_others_is_said(tmp_path: Path) -> None:
    text = PLAN.replace('"aggregate", "jain"', '"utility", "jain"')

    def rates(folder: str, octets: int) -> wifu.Results:
        flows = [{"last_byte_s": 50.0, "bytes": octets}] * 2
        return made(tmp_path / folder, {"tcp-reno": flows, "tcp-newreno": flows}, text)

    few = rates("few", -500)  # and 1000 more by each run: 80 to 1200 b/s
    told = said(few, "utility")
    assert "24 of 32 flows starved (by cell: tcp-reno 12, tcp-newreno 12): below 1 kb/s a" in told
    assert "counts as 8 b/s, whatever it had, so that the log utility has a step of 2.1" in told
    assert "20 of 32 flows had 500 to 2000 b/s: on which side they are decides" in told
    assert said(rates("many", 500_000), "utility") == "" == said(few, "starved")
    assert metric_of("utility").axis() == "log utility (starved flows as 8 b/s)"
    assert "a starved flow, below 1 kb/s, counts as 8 b/s" in metric_of("utility").words()


def datagrams(end: float, **more: Any) -> dict[str, Any]:
    """A flow that sent 100 datagrams of 1000 bytes, the last after 0.99 s, and lost one."""
    sent = {"sent_bytes": 100_000, "bytes": 98_000, "datagram": 1000, "finished": False}
    told = {"protocol": "udp", "last_byte_s": 0.5, "until_s": end, **sent, **more}
    return {"id": 1, "app": "file", "start_s": 0.0, "first_byte_s": 0.1, **told}


@pytest.mark.parametrize(
    ("spec", "until"),
    [
        ({"bytes": "100k", "rate": "800k"}, 0.99),
        ({"time": "2s", "rate": "800k"}, 2.0),
        ({"stop_at": "3s"}, 3.0),
        ({"bytes": "101k", "rate": "800k"}, 60.0),
        ({"bytes": "100k"}, 60.0),
        ({"rate": "800k"}, 60.0),
    ],
)
def test_a_lost_datagram_does_not_make_a_flow_last(spec: dict[str, Any], until: float) -> None:
    """Its sender was over long before its run."""
    told = lastsent.known({"sim_seconds": 60.0, "flows": [datagrams(60.0)]}, {"flow": [spec]})
    (flow,) = told["flows"]
    assert flow["until_s"] == pytest.approx(until)
    assert flow_goodput(told, flow, Measure()) == pytest.approx(98_000 * 8 / until)
    flow["window_bytes"] = 98_000
    rate = flow_goodput(told, flow, Measure("window", start=0.0, end=60.0))
    assert rate == pytest.approx(98_000 * 8 / until)


def test_files_of_datagrams_say_of_which_runs_they_are(tmp_path: Path) -> None:
    text = PLAN.replace('"aggregate", "jain"', '"goodput", "delay"').replace("copies = 2\n", "")
    text = text.replace('protocol = "{protocol}"', 'protocol = "udp"\nsize = "{size}"')
    text = text.replace('protocol = ["tcp-reno", "tcp-newreno"]', "size = [1028, 1500]")
    text = text.replace('baseline = "tcp-reno"', "pair = 'size'")

    def runner(scenario: dict[str, Any]) -> FakeResult:
        whole = scenario["run"] < 4
        flow = datagrams(60.0, finished=whole, bytes=10**6 - 1000 * scenario["run"])
        flow |= {"sent_bytes": 10**6, "last_byte_s": 9.0 + 0.01 * scenario["run"]}
        outcome = {"sim_seconds": 60.0, "trace_hash": str(scenario), "flows": [flow]}
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(text), tmp_path / "a", runner=runner)
    known = "the time is known where none was lost: 6 of 16 (by cell: 1028 3, 1500 3)"
    assert known in said(found, "delay")
    assert "10 flows of datagrams had sent all of their bytes" in said(found, "goodput")
    assert why(found, "goodput") == ["until when datagrams were sent is not known"]
    rated = plans.parse(text.replace('app = "file"', 'app = "file"\nrate = "1M"'))
    told = wifu.campaign(rated, tmp_path / "b", runner=runner)
    assert said(told, "goodput").startswith("All that was offered arrived in 1028, 1500")
    assert "sent all of their bytes" not in said(told, "goodput")
    assert why(told, "goodput") == []
    assert told.sample("goodput").max() < 1.1e6 and told.sample("goodput").min() > 0.8e6


def test_replicates_a_millionth_apart_are_one_sample(tmp_path: Path) -> None:
    """What is random moved them by microseconds: of eight any difference would be certain."""
    assert not stats.mean_interval([1.0, 1.0 + 5e-7, 1.0]).known
    assert stats.mean_interval([1.0, 1.0 + 5e-6, 1.0]).known
    flows = both(8.0)
    for own in flows["tcp-reno"]:
        own["bytes"] = 10**10  # of which a run has 1000 more than the one before
    with pytest.raises(ReplicateError, match=r"identical results \(within 1e-06 of each other\)"):
        made(tmp_path, flows)


def test_screen_and_json_say_why_there_is_no_colour(tmp_path: Path) -> None:
    text = PLAN.replace('"aggregate", "jain"', '"goodput", "srtt"')
    near = {"last_byte_s": 9.0, "srtt_s": 0.01}
    two = {"tcp-reno": [near] * 2, "tcp-newreno": [{**near, "last_byte_s": 8.0}] * 2}
    found = made(tmp_path / "clear", two, text)
    tables = found.comparison()["tables"]
    assert [row["why"] for row in tables["goodput"]] == [None]
    assert [row["why"] for row in tables["srtt"]] == [compared.IDENTICAL]
    few = made(tmp_path / "few", two, text.replace("runs = 8", "runs = 3"))
    assert [row["why"] for row in few.comparison()["tables"]["goodput"]] == [compared.UNSURE]
    # That p is too great says nothing where it cannot be small.
    blind = "p 0.25; not told apart: with 3 runs and 1 comparison no difference can be found"
    more = text.replace('"linear,2"', '"linear,{hops+1}"') + "hops = [1, 2]\n"
    fewer = made(tmp_path / "fewer", two, more.replace("runs = 8", "runs = 4"))
    blind_2 = "not told apart: with 4 runs and 2 comparisons no difference can be found"
    for results, why_not in ((found, ""), (few, blind), (fewer, blind_2)):
        with screen.capture() as told:
            tell(results.folder, Summary("complete", 16))
        words = " ".join(told.get().split())
        assert why_not in words and compared.UNSURE not in words
        assert ("told apart" in words) == bool(why_not)


def test_a_sample_of_those_that_finished_says_so(tmp_path: Path) -> None:
    flows = [{"last_byte_s": 9.0}, {"last_byte_s": 9.0, "finished": False}]
    found = made(tmp_path, {"tcp-reno": flows, "tcp-newreno": flows})
    note = found.sample("delay").attrs["note"]
    assert note.startswith("16 of 32 transfers were cut off or failed and are missing here")
    own = found.sample("delay@2", {"protocol": "tcp-reno"})
    assert own.attrs["note"].startswith("8 of 8 transfers were cut off")
    assert all("note" not in found.sample(name).attrs for name in ("delay@1", "goodput"))


def test_claims_judged_by_fewer_runs_or_another_seed_say_so(tmp_path: Path) -> None:
    text = PLAN.replace("runs = 8", "runs = 2\nseed = 5")
    flows = both(8.0)
    found = made(tmp_path, flows, text)
    folder = tmp_path / "plans" / "known"
    folder.mkdir(parents=True)
    (folder / "plan.toml").write_text(PLAN)
    told = claims.made_otherwise(found, tmp_path / "plans")
    assert told == "of 2 runs of each cell, where the plan has 8; of seed 5, where the plan has 1"
    given = {"id": "X", "says": "it", "source": "s", "type": "INFO", "plan": "known"}
    check = {"name": "it", "kind": "value", "metric": "goodput", "of": {"protocol": "tcp-reno"}}
    claim = published._claim({**given, "check": [check]})
    assert claims.judge(claim, found, otherwise=told).why == told
    (folder / "plan.toml").write_text(text)
    assert claims.made_otherwise(found, tmp_path / "plans") == ""
