"""Numbers that protocols, or nodes between their ends, come to in ways of their own."""

from pathlib import Path
from typing import Any

import pytest
from fake import FakeResult
from test_cautions import PLAN, made, said

import wifu
from wifu import plan as plans
from wifu import report, unlike
from wifu.metrics import column

RENO, NEWRENO = "tcp-reno", "tcp-newreno"


def plan(*metrics: str, names: tuple[str, str] = (RENO, NEWRENO)) -> str:
    text = PLAN.replace('"aggregate", "jain", "sum_rates"', ", ".join(f'"{m}"' for m in metrics))
    return text.replace(RENO, names[0]).replace(NEWRENO, names[1])


def found(
    folder: Path, one: dict[str, Any], two: dict[str, Any], *metrics: str,
    names: tuple[str, str] = (RENO, NEWRENO), **more: Any,
) -> wifu.Results:  # fmt: skip
    flows = {
        name: [{"last_byte_s": 9.0, "data_segments": 700, "feedback_segments": 350, **own}] * 2
        for name, own in zip(names, (one, two), strict=True)
    }
    return made(folder, flows, plan(*metrics, names=names), **more)


def why(results: wifu.Results, metric: str) -> list[str]:
    return unlike.reasons(results, results.plan.cells, metric)


def test_what_nodes_send_again_is_told_beside_retransmissions(tmp_path: Path) -> None:
    """With them the end sends less again, and all together no less."""

    def flow(again: int, copies: int) -> dict[str, Any]:
        packets = {"sent": 700, "inside": 0, "delivered": 690}
        packets |= {"copies": copies} if copies else {}
        return {"retransmissions": again, "packets": packets}

    some = found(tmp_path / "a", flow(76, 0), flow(15, 100), "retransmissions")
    assert why(some, "retransmissions") == ["nodes sent copies, which are not counted"]
    assert report.best_of(some, "retransmissions") == set()
    words = said(some, "retransmissions")
    assert "copies that nodes on the way sent" in words and "per run tcp-newreno 200." in words
    one = found(tmp_path / "b", flow(76, 0), flow(15, 0), "retransmissions")
    assert why(one, "retransmissions") == [] and "copies" not in said(one, "retransmissions")


def test_copies_that_are_lost_are_no_lost_data(tmp_path: Path) -> None:
    def flow(copies: int) -> dict[str, Any]:
        packets = {"sent": 700, "inside": 0, "delivered": 690, "copies": copies}
        return {"packets": packets}

    reason = "copies that nodes sent count as lost, too"
    some = found(tmp_path / "a", flow(0), flow(140), "loss")
    assert reason in why(some, "loss") and report.best_of(some, "loss") == set()
    words = said(some, "loss")
    assert "by each packet that ends sent there were tcp-newreno 0.2." in words
    few = found(tmp_path / "b", flow(0), flow(14), "loss")
    assert reason not in why(few, "loss") and "Copies that nodes" not in said(few, "loss")
    both = found(tmp_path / "c", flow(140), flow(150), "loss")
    assert reason not in why(both, "loss") and "Copies that nodes" in said(both, "loss")


def test_frames_of_more_acknowledgements_fail_less(tmp_path: Path) -> None:
    links = [{"from": "n1", "to": "n2", "frames": 1000}]
    nodes = [{"name": "n1", "frames": 1000, "failed": 10, "retries": 100}]
    metrics = ("mac_retries", "mac_loss")
    more: dict[str, Any] = {"links": links, "nodes": nodes}
    few = found(tmp_path / "a", {}, {"feedback_segments": 7}, *metrics, **more)
    alike = found(tmp_path / "b", {}, {"feedback_segments": 360}, *metrics, **more)
    for metric in metrics:
        assert why(few, metric) == ["frames are data more often in some"], metric
        words = said(few, metric)
        assert "67% (tcp-reno) to 99% (tcp-newreno) are data" in words, words
        assert why(alike, metric) == [] and "are data" not in said(alike, metric)


def test_round_trips_are_timed_in_ways_of_their_own(tmp_path: Path) -> None:
    """As percentiles of them, the smoothed one at the end has no colour between these."""
    metrics = ("srtt", "min_rtt", "rtt_p50")

    def flow(srtt: float, samples: int = 500) -> dict[str, Any]:
        rtt = {"p50_s": srtt, "p95_s": 0.4, "p99_s": 0.4, "samples": samples}
        return {"srtt_s": srtt, "min_rtt_s": srtt / 9, "rtt": rtt}

    for other, told in (
        ("hxh", "HxH times a packet"),
        ("atp", "ATP times what comes back"),
        ("hop", "Hop times a block"),
    ):
        results = found(
            tmp_path / other, flow(0.1), flow(0.3), *metrics, names=("tcp-sack", other)
        )  # fmt: skip
        for metric in metrics:
            assert "round trips are not timed alike" in why(results, metric), metric
            assert told in said(results, metric), metric
            assert report.best_of(results, metric) == set()
        assert "tells of the path" not in said(results, "min_rtt")
        axes = results.plot("tradeoff", against="srtt")
        assert "Better is" not in axes.caption and told in axes.caption
    both = found(tmp_path / "both", flow(0.1), flow(0.3), *metrics, names=("hxh", "hop"))
    assert "round trips are not timed alike" in why(both, "srtt")
    tcp = found(tmp_path / "tcp", flow(0.1), flow(0.3), *metrics)
    assert why(tcp, "srtt") == [] == why(tcp, "rtt_p50")
    assert "tells of the path" in said(tcp, "min_rtt")
    assert "Better is upper left" in results_caption(tcp)
    few = found(tmp_path / "few", flow(0.1), flow(0.3, 5), *metrics)
    assert "round-trip samples are not taken alike" in why(few, "srtt")


def test_what_nodes_say_to_one_another_is_of_no_flow(tmp_path: Path) -> None:
    links = [{"from": "n1", "to": "n2", "frames": 1000}]
    nodes = [{"name": "n1", "frames": 1000, "failed": 10, "retries": 100}]
    metrics = ("mac_retries", "loss")
    packets = {"packets": {"sent": 700, "inside": 0, "delivered": 690}}
    more: dict[str, Any] = {"links": links, "nodes": nodes}
    names = ("tcp-sack", "hop")
    lanes = found(tmp_path / "a", packets, packets, *metrics, names=names, **more)
    for metric, where in zip(metrics, ("among these frames", "not among these"), strict=True):
        words = said(lanes, metric)
        assert "Hop its questions" in words and f"{where}" in words and "(hop)" in words
    tcp = found(tmp_path / "b", packets, packets, *metrics, **more)
    assert all("questions" not in said(tcp, metric) for metric in metrics)


def results_caption(results: wifu.Results) -> str:
    return str(results.plot("tradeoff", against="srtt").caption)


def test_recoveries_beside_those_of_protocols_without_timeouts(tmp_path: Path) -> None:
    with_timer = {"fast_retransmits": 9, "timeouts": 3, "data_segments": 700}
    results = found(tmp_path / "a", with_timer, {"fast_retransmits": 2}, "fast_retransmits")
    assert why(results, "fast_retransmits") == ["recoveries, where some protocols have no timeouts"]
    assert "or tell of none" in said(results, "fast_retransmits")
    same = found(tmp_path / "b", with_timer, with_timer, "fast_retransmits")
    assert why(same, "fast_retransmits") == []


def test_who_was_over_before_lacks_no_route(tmp_path: Path) -> None:
    lasting = {"last_byte_s": 9.0, "routeless_s": 6.0}
    results = found(tmp_path / "a", lasting, {"last_byte_s": 2.9, "routeless_s": 0.0}, "routeless")
    assert why(results, "routeless") == ["flows were there for more than 10 % longer in some"]
    words = said(results, "routeless")
    assert "2.9 s (tcp-newreno) to 9 s (tcp-reno)" in words
    assert why(results, "withdrawals") == why(results, "routeless")
    same = found(tmp_path / "b", lasting, {**lasting, "routeless_s": 0.0}, "routeless")
    assert why(same, "routeless") == [] and "Who is over" not in said(same, "routeless")


def test_means_of_unlike_times_are_above_what_was_carried(tmp_path: Path) -> None:
    """The unfair one has the better mean, and carries no more."""
    flows = {
        RENO: [{"last_byte_s": 9.0}, {"last_byte_s": 9.0}],
        NEWRENO: [{"last_byte_s": 3.0}, {"last_byte_s": 9.1}],
    }
    results = made(tmp_path / "a", flows, plan("goodput", "aggregate"))
    reason = "means are above what was carried, by more than 10 % in some"
    assert why(results, "goodput") == [reason] and why(results, "aggregate") == []
    assert report.best_of(results, "goodput") == set()
    assert "+102% (tcp-newreno)" in said(results, "goodput")
    flows[NEWRENO][0] = {"last_byte_s": 8.0}
    alike = made(tmp_path / "b", flows, plan("goodput", "aggregate"))
    assert why(alike, "goodput") == [] and "beside what was carried" not in said(alike, "goodput")


@pytest.mark.parametrize("metric", ["retransmissions", "mac_retries", "srtt", "routeless"])
def test_nothing_is_said_where_nothing_is_known(tmp_path: Path, metric: str) -> None:
    flows = {RENO: [{"last_byte_s": 9.0}], NEWRENO: [{"last_byte_s": 9.0}]}
    results = made(tmp_path, flows, plan(metric))
    assert why(results, metric) == [] and said(results, metric) == ""


def test_buffers_of_daemons_have_no_value_in_the_simulator(tmp_path: Path) -> None:
    """Every run had failed of it."""
    results = made(tmp_path, {RENO: [{"last_byte_s": 9.0}], NEWRENO: [{"last_byte_s": 9.0}]},
                   plan("overflows"))  # fmt: skip
    assert (results.runs["status"] == "ok").all()
    assert "There is no value on sim" in said(results, "overflows")


def test_what_lanes_had_is_no_loss_of_a_link(tmp_path: Path) -> None:
    packets = {"sent": 700, "inside": 0, "delivered": 650, "hop": 40}
    results = found(tmp_path, {"packets": packets}, {"packets": packets}, "loss")
    assert "lanes let go what they had" in said(results, "loss")


def test_hop_repairs_on_the_way_and_its_source_only_asks(tmp_path: Path) -> None:
    counts = {"timeouts": 0, "fast_retransmits": 0}
    metrics = ("timeouts", "fast_retransmits")
    many = {"timeouts": 4, "fast_retransmits": 9}
    results = found(tmp_path / "a", many, counts, *metrics, names=("tcp-sack", "hop"))
    for metric in metrics:
        assert "Hop repairs hop by hop, its source only asks" in why(results, metric)
        assert report.best_of(results, metric) == set()
        assert "from node to node" in said(results, metric)
    same = found(tmp_path / "b", many, counts, *metrics, names=("hop", "hop,block=8"))
    assert "Hop repairs hop by hop, its source only asks" not in why(same, "timeouts")
    assert "from node to node" not in said(same, "timeouts")


@pytest.mark.parametrize("other", ["hop", "hxh"])
def test_copies_of_nodes_that_nobody_counted_are_no_merit(tmp_path: Path, other: str) -> None:
    """Real hosts tell of no packets, so that 0 at the ends had looked like nothing at all."""
    words = "copies that nodes send are not known here"
    flows = {"retransmissions": 9}, {"retransmissions": 0}
    results = found(tmp_path / "a", *flows, "retransmissions", names=("tcp-sack", other))
    assert why(results, "retransmissions") == [words]
    assert report.best_of(results, "retransmissions") == set()
    assert "not known how often" in said(results, "retransmissions")
    packets = {"packets": {"sent": 700, "inside": 0, "delivered": 690}}
    one, two = ({**flow, **packets} for flow in flows)
    known = found(tmp_path / "b", one, two, "retransmissions", names=("tcp-sack", other))
    assert why(known, "retransmissions") == []
    tcp = found(tmp_path / "c", *flows, "retransmissions")
    assert why(tcp, "retransmissions") == [] and said(tcp, "retransmissions") == ""


def test_protocols_in_rows_beside_another_pair_are_told_too(tmp_path: Path) -> None:
    """Rows of a table are read beside each other, whatever its columns compare."""
    text = """
name = "rows"
runs = 2
pair = "radio.attempts"
metrics = ["rtt_p50"]
[scenario]
topology.words = "linear,2"
[[scenario.flow]]
protocol = "{protocol}"
app = "file"
bytes = "1M"
[vary]
protocol = ["tcp-newreno", "atp"]
"radio.attempts" = [1, 7]
"""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        protocol, run = scenario["flow"][0]["protocol"], scenario["run"]
        rtt = {"p50_s": 0.1, "p95_s": 0.2, "p99_s": 0.3, "samples": 1000}
        flow = {
            "id": 1,
            "protocol": protocol,
            "app": "file",
            "start_s": 0.0,
            "finished": True,
            "last_byte_s": 4.0 + run,
            "bytes": 10**6,
            "rtt": rtt,
        }
        name = f"{protocol}{run}{scenario['radio']['attempts']}"
        return FakeResult({"sim_seconds": 60.0, "flows": [flow], "trace_hash": name}, {})

    results = wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)
    assert "do not time round trips alike" in said(results, "rtt_p50")


@pytest.mark.parametrize("metric", ["mac_retries", "mac_loss"])
@pytest.mark.parametrize(
    ("end", "fewer", "told"), [(12.0, True, True), (12.0, False, False), (9.5, True, False)]
)
def test_frames_of_who_sends_less_fail_less(
    tmp_path: Path, metric: str, end: float, fewer: bool, told: bool
) -> None:
    links = [{"from": "n1", "to": "n2", "frames": 1000}]
    nodes = [{"name": "n1", "frames": 1000, "failed": 10, "retries": 100}]
    more: dict[str, Any] = {"links": links, "nodes": nodes}
    results = found(tmp_path, {}, {"last_byte_s": end}, metric, **more)
    runs = results.runs
    runs.loc[runs["cell"].eq(NEWRENO if fewer else RENO), column(metric)] *= 0.5
    reason = "frames fail less where more than a tenth less was carried"
    assert (reason in why(results, metric)) is told
    words = "Fewer frames fail in tcp-newreno than in tcp-reno, whose flows carried 1.33 times"
    assert (words in said(results, metric)) is told
