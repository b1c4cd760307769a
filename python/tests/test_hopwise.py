"""What nodes hand down and what is lost at hops: checks and figures on runs that are known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake import FakeResult, pairs

import wifu
from wifu import figures, handed, hopwise, kinds, measures, published
from wifu import plan as plans
from wifu.errors import LabError, PlanError
from wifu.measured import Measured
from wifu.metrics import metric_of
from wifu.transfers import known_times

PLAN = """
name = "hops"
runs = 12
pair = "protocol"
[scenario]
topology.set = "HX-4"
[[scenario.flow]]
from = "mesh6"
to = "mesh1"
protocol = "{protocol}"
app = "file"
bytes = "100k"
[vary]
protocol = ["hxh-nolh", "hxh", "tcp-reno"]
[series]
runs = "1..12"
usual = false
record = ["sent", "rtt_samples", "mesh6.hop-queue.sent"]
[[figure]]
kind = "trips"
where = { protocol = ["hxh", "hxh-nolh"] }
[[figure]]
kind = "rates"
nodes = ["mesh6"]
published = 0.5
where = { protocol = ["hxh", "hxh-nolh"] }
[[figure]]
kind = "rates"
nodes = ["mesh6"]
which = "longest"
where = { protocol = "hxh" }
[[figure]]
kind = "hops"
metric = "passive_loss"
published = 50
where = { protocol = ["hxh", "hxh-nolh"] }
"""

SENT, SAMPLES, HANDED = "flow.1.sent", "flow.1.rtt_samples", "flow.1.mesh6.hop-queue.sent"
TOLD = "flow.1.hxh-source.explicit"
NODES = ["mesh6", "mesh5", "mesh2", "mesh4"]


def recorded(slow: float, burst: int = 0) -> dict[str, Any]:
    """Ten packets, one each 0.1 s, of which the third goes again at once; words of all come `slow`
    seconds after the last. A stall of 2 s is between the sixth and the seventh. Behind the last a
    `burst` of packets that go again.
    """
    numbers = [0.0, 1.0, 2.0, -2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, *([-9.0] * burst)]
    down = [0.1 * n + (2.0 if n > 6 else 0.0) for n in range(1, 12)] + [3.15] * burst
    return {
        SENT: ([0.01] * len(numbers), numbers),
        HANDED: (down, list(range(1, len(down) + 1))),
        SAMPLES: ([0.1, 3.1 + slow], [0, 10]),
        TOLD: ([0.1, 1.0], [0, 1]),
        "flow.1.mesh6.hop-queue.again": ([0.1, 0.4], [0, 1]),
    }


def as_series(slow: float) -> dict[str, "pd.Series[float]"]:
    return {k: pd.Series(v, index=t, dtype=float) for k, (t, v) in recorded(slow).items()}


def made(tmp_path: Path) -> wifu.Results:
    """HxH takes 4 s and loses 6 % at its second hop, without last-hop ACKs 3 s and 2 %."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        protocol, run = scenario["flow"][0]["protocol"], scenario["run"]
        took = {"hxh": 4.0, "hxh-nolh": 3.0, "tcp-reno": 2.0}[protocol] + 0.01 * run
        took += 3.0 * (protocol == "tcp-reno" and run <= 3)
        lost = {"hxh": 6, "hxh-nolh": 2}.get(protocol, 0)
        ways = list(zip(NODES, [*NODES[1:], "mesh1"], strict=True))
        hops = [
            {
                "flow": 1, "reverse": False, "hop": n, "from": a, "to": b,
                "packets": 100 - lost * (n == 2), "lost": lost * (n == 2),
            }
            for n, (a, b) in enumerate(ways, 1)
        ]  # fmt: skip
        links = [{"from": a, "to": b, "frames": 100} for a, b in ways]
        links += [{"from": b, "to": a, "frames": 0, "overheard_frames": 40} for a, b in ways]
        flow = {
            "id": 1, "from": "mesh6", "to": "mesh1", "bytes": 100_000, "start_s": 0.0,
            "last_byte_s": took - 0.5, "known_s": took, "finished": True, "protocol": protocol,
            "sent_bytes": 14_440, "data_segments": 11, "retransmissions": 1,
        }  # fmt: skip
        outcome = {
            "sim_seconds": took, "flows": [flow], "hops": hops, "links": links,
            "trace_hash": f"{protocol}{run}",
        }  # fmt: skip
        slow, burst = {"hxh": (2.0, 50), "hxh-nolh": (0.5, 0)}.get(protocol, (0.0, 0))
        series = {} if protocol == "tcp-reno" else recorded(slow, burst)
        return FakeResult(outcome, {k: pairs(*v) for k, v in series.items()})

    return wifu.campaign(plans.parse(PLAN), tmp_path / "r", runner=runner, workers=1)


def hop(number: int, packets: int, lost: int, to: str, **more: Any) -> dict[str, Any]:
    """A hop of flow 1 from mesh6 on."""
    way = {"flow": 1, "reverse": False, "from": NODES[number - 1], "to": to}
    return {**way, "hop": number, "packets": packets, "lost": lost, **more}


def changed(tmp_path: Path, hops: list[dict[str, Any]], **more: Any) -> wifu.Results:
    """Runs that have these hops, and what `more` says of flow 1."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        protocol = scenario["flow"][0]["protocol"]
        flow = {
            "id": 1, "from": "mesh6", "to": "mesh1", "bytes": 100_000, "start_s": 0.0,
            "last_byte_s": 3.5, "known_s": 3.6, "finished": True, "protocol": protocol, **more,
        }  # fmt: skip
        flow["last_byte_s"] += 0.01 * scenario["run"]
        outcome = {"sim_seconds": 4.0, "flows": [flow], "hops": hops, "links": []}
        series = {k: pairs(*v) for k, v in recorded(0.5).items()}
        return FakeResult({**outcome, "trace_hash": f"{protocol}{scenario['run']}"}, series)

    return wifu.campaign(plans.parse(PLAN), tmp_path / "c", runner=runner, workers=1)


def measured(results: wifu.Results, **given: Any) -> Measured:
    return measures.MEASURES[given["kind"]](results, given)


L, N, T = {"protocol": "hxh"}, {"protocol": "hxh-nolh"}, {"protocol": "tcp-reno"}


def test_round_trips_begin_with_the_first_hand_down() -> None:
    trips = handed.trips(as_series(2.0), outcome_of())
    # The fourth that was handed down was the third again: the fourth packet was the fifth.
    expected = [5.0, 4.9, 4.8, 4.6, 4.5, 2.4, 2.3, 2.2, 2.1, 2.0]
    assert trips.told.tolist() == pytest.approx(expected, 0.05)
    assert len(trips.known) == 10 and not trips.at_end.size and not trips.never
    with pytest.raises(LabError, match="no series"):
        handed.trips({}, outcome_of())
    with pytest.raises(LabError, match="there is no flow 2, of 1"):
        handed.trips(as_series(2.0), outcome_of(), 2)


def outcome_of(**more: Any) -> dict[str, Any]:
    """An outcome of a flow from mesh6, whose packets carry 1000 octets."""
    sent = {"sent_bytes": 10_000, "data_segments": 11, "retransmissions": 1}
    return {"flows": [{"id": 1, "from": "mesh6", **sent, **more}], "sim_seconds": 9.0}


def test_packets_of_which_word_ends_the_connection_have_the_time_of_their_source() -> None:
    """The series is not looked at any more when it comes: they had been left out, as the longest
    ones are.
    """
    series = as_series(2.0)
    series[SAMPLES] = pd.Series([0.0, 6.0], index=[0.1, 2.0])
    trips = handed.trips(series, outcome_of(known_s=8.0))
    assert trips.told.size == 6 and trips.never == 0
    # The last four were handed down at 2.8 to 3.1 s.
    assert trips.at_end.tolist() == pytest.approx([5.2, 5.1, 5.0, 4.9]) and trips.known.size == 10
    cut = handed.trips(series, outcome_of(known_s=None))
    assert cut.never == 4 and cut.known.tolist() == trips.told.tolist()
    # Nobody looked at the lane any more when the last one left.
    series[HANDED] = series[HANDED].iloc[:-1]
    late = handed.trips(series, outcome_of(known_s=8.0))
    assert late.at_end.tolist() == pytest.approx([5.2, 5.1, 5.0, 5.0])


def test_rates_are_of_windows_and_stalls_of_half_a_second() -> None:
    series = as_series(2.0)
    times = handed.handed(series, "mesh6")
    assert times.size == 11 and handed.once(series, "mesh6").size == 10
    at, rate = handed.rates(times, 1.0, 3.1)
    assert at[0] == pytest.approx(1.2) and np.diff(at).tolist() == pytest.approx([0.1] * 19)
    assert rate.min() == 0.0 and rate.max() <= 7
    assert handed.gaps(times, 3.1).tolist() == pytest.approx([2.1])
    assert handed.gaps(times, 4.1).tolist() == pytest.approx([2.1, 1.0])
    assert handed.rates(np.empty(0), 1.0, 3.0)[1].size == handed.gaps(np.empty(0), 1.0).size == 0
    outcome = outcome_of(known_s=3.1)

    def of(take: str, limit: float = 0.0) -> float:
        return handed.rate_of(series, outcome, "mesh6", take, 1, limit)

    assert of("stalls") == 1 and of("stalled") == pytest.approx(2.1)
    # None in the second behind the answer at 1 s, in which it stalls.
    assert of("after answer") == 0.0
    assert 0 < of("below", 1000.0) < 1 and of("p90") > of("mean") > 0 and of("cov") > 0
    # As many octets as the source put into packets.
    assert of("first") == pytest.approx(rate[0] * 8000)
    assert of("mean") == pytest.approx(11 * 8000 / 2.999, rel=0.05)
    small = outcome_of(known_s=3.1, sent_bytes=5000)
    assert handed.rate_of(series, small, "mesh6", "mean", 1, 0.0) == pytest.approx(of("mean") / 2)
    del outcome["flows"][0]["sent_bytes"]
    assert of("stalls") == 1
    with pytest.raises(LabError, match="octets a packet of flow 1 carries is not recorded"):
        of("mean")
    # Who gets packets late has the time of the source.
    late = handed.rates(times[7:], 1.0, 3.1, begin=float(times[0]))
    assert late[0].tolist() == at.tolist() and late[1][0] == 0.0


def test_checks_of_hops_trips_and_rates(tmp_path: Path) -> None:
    results = made(tmp_path)
    at = {"kind": "hops", "metric": "loss"}
    assert measured(results, take="mean", hops=[2], of=L, **at).estimate == pytest.approx(6.0)
    assert measured(results, take="greatest", hops=[1, 3, 4], of=L, **at).estimate == 0.0
    more = measured(results, take="greatest change", of=L, over=N, **at)
    assert more.estimate == pytest.approx(4.0) and "6" in more.note
    less = measured(results, take="change", hops=[2], of=N, over=L, **at)
    assert less.estimate == pytest.approx(-4.0)
    unheard = {"kind": "hops", "metric": "passive_loss", "take": "how many above", "of": L}
    # 60 of 100 at all hops but the last, behind which nobody hands on.
    assert measured(results, limit=50.0, **unheard).estimate == 3
    assert measured(results, limit=70.0, **unheard).estimate == 0
    with pytest.raises(LabError, match="nothing is lost at hops by goodput"):
        measured(results, kind="hops", metric="goodput", take="mean", of=L)
    trips = measured(results, kind="trips", of=N, over=L, statistic="median")
    assert 0.5 < trips.estimate < 0.7 and trips.n == 12
    stalls = measured(results, kind="rates", take="stalls", node="mesh6", of=L)
    # And one behind the last packet.
    assert stalls.estimate == 2
    share = measured(
        results, kind="rates", take="once", node="mesh6", over_node="mesh6", of=L, over=L
    )
    assert share.identical and share.estimate == 1.0


def test_checks_of_several_cells(tmp_path: Path) -> None:
    results = made(tmp_path)
    beyond = {"kind": "beyond", "metric": "known", "of": T}
    found = measured(results, over={"protocol": ["hxh", "hxh-nolh"]}, **beyond)
    assert found.estimate == pytest.approx(3 / 12) and found.note == "3 of 12 runs"
    by = {"kind": "ratios", "metric": "known", "statistic": "median", "of": L, "over": N}
    double = measured(results, against={"of": N, "over": T}, **by)
    one, two = 4.065 / 3.065, 3.065 / 2.085
    assert double.estimate == pytest.approx(one / two, rel=0.02)
    assert double.low <= double.estimate <= double.high and " and " in double.note
    slowest = {"kind": "value", "metric": "goodput", "statistic": "least by median", "of": T}
    assert measured(results, **slowest).estimate == pytest.approx(2.085 / 5.03, rel=0.2)


def test_a_transfer_ends_when_its_sender_knows(tmp_path: Path) -> None:
    results = made(tmp_path)
    assert results.sample("known", L).iloc[0] == pytest.approx(4.01)
    assert results.sample("delay", L).iloc[0] == pytest.approx(3.51)
    assert metric_of("known").unit == "s" and "known_finished_s" in results.runs
    assert known_times({"finished": True, "last_byte_s": 2.0, "start_s": 0.5}) == [1.5]
    assert known_times({"finished": True, "last_byte_s": 2.0, "known_s": None}) == []
    assert known_times({"finished": False, "last_byte_s": 2.0}) == []


def test_lanes_are_recorded_where_there_are_some_and_nothing_else() -> None:
    plan = plans.parse(PLAN)
    series = {c.labels["protocol"]: plan.scenario_of(c, 1)["record"]["series"] for c in plan.cells}
    assert series["hxh"] == ["flow.*.sent", "flow.*.rtt_samples", "flow.*.mesh6.hop-queue.sent"]
    assert series["tcp-reno"] == ["flow.*.sent", "flow.*.rtt_samples"]
    usual = plans.parse(PLAN.replace("usual = false\n", ""))
    assert usual.scenario_of(usual.cells[0], 1)["record"]["series"][0] == "all"
    with pytest.raises(PlanError, match="true or false"):
        plans.parse(PLAN.replace("usual = false", "usual = 3"))


def test_a_hop_of_a_run_whose_routes_changed_is_of_all_its_links(tmp_path: Path) -> None:
    """They have a row each, of which there were two of one run and hop."""
    drops = {"mesh5": 47, "mesh2": 3}
    hops = [hop(1, 90, 10, "mesh5"), hop(1, 300, 0, "mesh2")]
    results = changed(tmp_path, [{**h, "queue_drops": drops[h["to"]]} for h in hops])
    table = hopwise.lost_at_hops(results, results.plan.cells[0], "loss")
    assert table[1].tolist() == pytest.approx([2.5] * 12)
    axes = results.plot("hops", where={"protocol": "hxh"})
    assert axes.patches[0].get_height() == pytest.approx(2.5)
    unheard = hopwise.lost_at_hops(results, results.plan.cells[0], "passive_loss")
    assert unheard.empty
    # What its queue kept is not in it, and its scale does not say so.
    assert axes.get_ylabel() == "sent and lost, %"
    assert "dropped before they were sent, per run: HxH" in axes.caption.replace("hxh", "HxH")
    assert "50.0 at hop 1" in axes.caption


def crossing(tmp_path: Path, hops: Callable[[int], list[dict[str, Any]]]) -> wifu.Results:
    """Runs that have these hops, by their number."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        protocol, run = scenario["flow"][0]["protocol"], scenario["run"]
        flow = {
            "id": 1, "from": "mesh6", "to": "mesh1", "bytes": 100_000, "start_s": 0.0,
            "last_byte_s": 3.5 + 0.1 * run, "finished": True, "protocol": protocol,
        }  # fmt: skip
        outcome = {"sim_seconds": 4.0, "flows": [flow], "hops": hops(run), "links": []}
        return FakeResult({**outcome, "trace_hash": f"{protocol}{run}"}, {})

    return wifu.campaign(plans.parse(PLAN), tmp_path / "r", runner=runner, workers=1)


def test_hops_that_not_all_runs_have_are_told(tmp_path: Path) -> None:
    """As where routes are of several lengths."""
    results = crossing(
        tmp_path, lambda run: [hop(1, 90, 10, "mesh5"), hop(2, 80, 2, "mesh2")][: 1 + (run < 3)]
    )
    told = results.plot("hops", by="protocol", where={"protocol": ["hxh", "tcp-reno"]}).caption
    few = "hxh 2 at hop 2 of 12, tcp-reno (rfc-modern) 2 at hop 2 of 12"
    assert f"Not all runs have a value of every hop: {few}." in told


def test_figures_of_nodes_tell_what_they_are_not_of(tmp_path: Path) -> None:
    """Other flows, packets of which no word came, runs without series, and octets of packets."""
    text = PLAN.replace('runs = "1..12"', 'runs = [1]').replace(
        "[vary]", """[[scenario.flow]]
from = "mesh5"
to = "mesh1"
protocol = "hxh"
app = "file"
bytes = "100k"
[vary]""")  # fmt: skip

    def runner(scenario: dict[str, Any]) -> FakeResult:
        protocol, run = scenario["flow"][0]["protocol"], scenario["run"]
        one = {
            "id": 1, "from": "mesh6", "to": "mesh1", "bytes": 100_000, "start_s": 0.0,
            "last_byte_s": 3.5 + 0.1 * run, "known_s": 3.6 + 0.1 * run, "finished": True,
            "protocol": protocol, "sent_bytes": 5_000, "data_segments": 11, "retransmissions": 1,
        }  # fmt: skip
        two = {**one, "id": 2, "from": "mesh5", "protocol": "hxh", "known_s": None}
        outcome = {
            "sim_seconds": 4.0, "flows": [one, two], "hops": [hop(1, 90, 10, "mesh5")],
            "links": [], "trace_hash": f"{protocol}{run}",
        }  # fmt: skip
        known = recorded(0.5)
        known[SAMPLES] = ([0.1, 2.0], [0, 7])
        return FakeResult(outcome, {k: pairs(*v) for k, v in known.items()})

    results = wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner, workers=1)
    where = {"protocol": "hxh"}
    caption = results.plot("trips", where=where).caption
    assert "10 packets of 1 runs" in caption and "of 3 of them to when it knew" in caption
    assert "Recorded each 10 ms" in caption and "Of flow 1 alone: flow 2 can be" in caption
    axes = results.plot("rates", nodes=["mesh6"], where=where)
    assert "Of flow 1 alone" in axes.caption and "500 in a packet" in axes.caption
    told = "runs that have series: 1 of 12 runs; 3.70 s, where the median of all is 4.20 s"
    assert told in axes.caption
    assert np.nanmax(axes.lines[0].get_ydata()) == pytest.approx(5 * 4000 / 1e6)
    assert "Of flow 1 alone" in results.plot("hops", where=where).caption
    with pytest.raises(LabError, match="tells of hops of flow 2"):
        results.plot("hops", where=where, flow=2)


def test_figures_of_nodes_are_drawn(tmp_path: Path) -> None:
    results = made(tmp_path)
    drawn = figures.draw_all(results)
    assert [type(d).__name__ for d in drawn] == ["Drawn"] * 4, drawn
    trips, median, longest, hops = drawn
    assert isinstance(trips, figures.Drawn) and "240 packets of 24 runs" in trips.caption
    assert isinstance(median, figures.Drawn) and "median time" in median.caption
    assert isinstance(longest, figures.Drawn) and "longest time" in longest.caption
    assert "run 12" in longest.svg.read_text()
    assert isinstance(hops, figures.Drawn) and "heard no attempt" in hops.caption


def test_panels_have_one_scale_that_holds_all_lines(tmp_path: Path) -> None:
    """That of the first panel alone once cut off the lines of others, and what was published."""
    results = made(tmp_path)
    where = {"protocol": ["hxh", "hxh-nolh"]}
    axes = results.plot("rates", nodes=["mesh6"], where=where)
    tops = [float(np.max(axis.lines[0].get_ydata())) for axis in axes]
    assert tops[1] > 5 * tops[0]
    for axis in axes:
        low, high = axis.get_ylim()
        assert low == 0 and high > tops[1]
    axes = results.plot("rates", nodes=["mesh6"], where=where, published=3)
    assert all(axis.get_ylim()[1] > 3 for axis in axes)


def test_keys_of_figures_of_nodes_are_checked() -> None:
    axes = ["protocol"]
    for spec, told in (
        ({"kind": "rates"}, "names the nodes"),
        ({"kind": "rates", "nodes": []}, "list of nodes"),
        ({"kind": "rates", "nodes": ["a"], "published": {"a": 1}}, "is a number"),
        ({"kind": "rates", "nodes": ["a"], "which": "best"}, "median"),
        ({"kind": "hops", "metric": "goodput"}, "loss or passive_loss"),
        ({"kind": "bars", "x": "protocol", "published": 3}, "must be a table"),
    ):
        with pytest.raises(PlanError, match=told):
            kinds.check(spec, axes, None, "protocol")


def test_what_stands_beside_a_claim_changes_all_four_cells(tmp_path: Path) -> None:
    text = """
[[claim]]
id = "X-1"
says = "s"
source = "t"
type = "SOFT"
plan = "p"
[claim.beside.other]
where = { world = "b" }
[[claim.check]]
name = "n"
kind = "ratios"
metric = "known"
of = { world = "a", x = 1 }
over = { world = "a", x = 2 }
against = { of = { world = "a", x = 3 }, over = { world = "a", x = 4 } }
"""
    path = tmp_path / "claims.toml"
    path.write_text(text)
    (claim,) = published.load(path)
    own, beside = claim.checks
    assert own.given["against"]["of"] == {"world": "a", "x": 3}
    assert beside.given["against"] == {"of": {"world": "b", "x": 3}, "over": {"world": "b", "x": 4}}
    assert beside.given["of"]["world"] == "b" and beside.type == "INFO"


def test_kinds_of_checks_have_measures() -> None:
    assert set(hopwise.HOPWISE) <= set(published.KINDS) & set(measures.MEASURES)


def test_what_queues_dropped_is_the_mean_of_all_runs(tmp_path: Path) -> None:
    """Runs have numbers, and so have hops: the two are not to be taken for each other."""

    def hops(run: int) -> list[dict[str, Any]]:
        one, two = hop(1, 90, 10, "mesh5"), hop(2, 80, 2, "mesh2")
        return [{**one, "queue_drops": 10 * run}, {**two, "queue_drops": 24 * (run == 12)}]

    results = crossing(tmp_path, hops)
    cell = results.cells({"protocol": "hxh"})[0]
    assert hopwise.dropped_at_hops(results, cell).to_dict() == {1: 65.0, 2: 2.0}
    told = results.plot("hops", where={"protocol": "hxh"}).caption
    assert "65.0 at hop 1" in told and "2.00 at hop 2" in told
