"""What stacks counted, what they cannot tell, and what outlasts a flow's time."""

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wifu import absent, apps_live, arrived, reports, runner
from wifu.arrived import Arrived
from wifu.flows import Flow, flows_of
from wifu.metrics import RUN_METRICS, Measure, flow_row, run_row
from wifu.underload import load_span, percentiles

STACK: dict[str, Any] = {
    "timeouts": 2, "smallest_rtt": 4000, "segments": 90, "data_segments": 70,
    "feedback_segments": 40, "sent_bytes": 100_000, "fast_retransmits": 3, "timeout_s": 1.5,
    "limited_s": {"window": 3.0, "drain": 0.5}, "rtt_classes": "5:2",
    "round_trips": {"p50_s": 0.02, "p95_s": 0.2, "p99_s": 0.3, "samples": 60},
}  # fmt: skip


def flow(protocol: str = "tcp-newreno", **more: Any) -> Flow:
    given = {"from": "n1", "to": "n2", "protocol": protocol, "app": "bulk", **more}
    return flows_of({"flow": [given], "stop": {"time": "9s"}})[0]


def test_what_a_stack_counted_has_the_simulators_names_and_its_time() -> None:
    told = apps_live.counted(STACK, 2.0)
    assert told["min_rtt_s"] == 0.002 and told["timeout_s"] == 0.75
    assert told["limited_s"] == {"window": 1.5, "drain": 0.25}
    assert told["rtt"] == {"p50_s": 0.01, "p95_s": 0.1, "p99_s": 0.15, "samples": 60}
    counts = ("segments", "data_segments", "feedback_segments", "sent_bytes", "fast_retransmits")
    assert {k: told[k] for k in counts} == {k: STACK[k] for k in counts}
    assert apps_live.counted({}, 2.0) == {}, "absent is not zero"


def test_they_are_columns_and_metrics() -> None:
    told = apps_live.counted(STACK, 1.0)
    row = {"id": 1, "protocol": "tcp-newreno", "bytes": 100_000, "start_s": 0.0, **told}
    probe = {"id": 2, "protocol": "udp", "bytes": 9, "start_s": 0.0,
             "one_way": {"p50_s": 0.001, "p95_s": 0.002, "p99_s": 0.003, "samples": 9}}  # fmt: skip
    late = {"outlasted": {"stop_s": 1.0, "bytes": 7, "seconds": 0.25}}
    first = row | late
    outcome = {"flows": [first, probe], "sim_seconds": 2.0}
    whole = flow_row(outcome, first, Measure(), {})
    assert (whole["rtt_p95_s"], whole["one_way_p95_s"], whole["outlasted_s"]) == (0.2, None, 0.25)
    assert (whole["data_segments"], whole["timeout_s"], whole["sent_bytes"]) == (70, 1.5, 100_000)
    run = run_row(outcome, Measure())
    assert (run["rtt_p50"], run["rtt_p99"], run["one_way_p99"]) == (0.02, 0.3, 0.003)
    assert run["fast_retransmits"] == 3
    assert {"latency_added", "one_way_p50"} <= set(RUN_METRICS)


def test_latency_that_load_adds_needs_probes_with_and_without() -> None:
    def probe(start: float, last: float, p50: float, p95: float) -> dict[str, Any]:
        told = {"p50_s": p50, "p95_s": p95, "p99_s": p95, "samples": 10}
        return {"protocol": "udp", "bytes": 10, "start_s": start, "last_byte_s": last,
                "one_way": told}  # fmt: skip

    load = {"protocol": "tcp-sack", "bytes": 10, "start_s": 5.0, "last_byte_s": 29.0}
    flows = [load, probe(0, 4.9, 0.002, 0.004), probe(6, 29.1, 0.05, 0.20), probe(6, 29, 0.1, 0.30)]
    outcome = {"flows": flows, "sim_seconds": 30.0}
    assert load_span(outcome) == (5.0, 29.0)
    added = RUN_METRICS["latency_added"].compute
    assert added(outcome, np.empty(0)) == pytest.approx(0.25 - 0.002)
    for less in ([load, flows[2]], flows[:2], flows[1:]):
        assert np.isnan(added({"flows": less, "sim_seconds": 30.0}, np.empty(0)))


def test_what_cannot_be_told_is_said_in_words() -> None:
    ours, kernel = flow(), flow("kernel:reno")
    whole = {"bytes": 1, **dict.fromkeys(absent.COUNTED, 1)}
    assert absent.words([ours, kernel], [whole, whole]) == []
    lacking = {k: v for k, v in whole.items() if k not in ("rtt", "timeout_s", "limited_s")}
    (first, second) = absent.words([kernel], [lacking])
    assert first == "flow 1: no timeout_s, limited_s: the kernel's TCP does not tell it"
    assert second.startswith("flow 1: no rtt: the kernel's TCP tells no single samples")
    (gone,) = absent.words([ours], [lacking])
    assert "over before" in gone
    untimed = {k: v for k, v in whole.items() if k not in ("timeouts", "timeout_s")}
    (told,) = absent.words([flow("atp")], [untimed])
    assert told == "flow 1: no timeouts, timeout_s: no part of atp has any"
    (told,) = absent.words([flow("atp")], [untimed | {"limited_s": None}])
    assert told.endswith("asked"), "nobody knows what it has"
    assert absent.words([ours], [{"bytes": 0}]) == [], "who did nothing has nothing to tell"
    probe = flow("udp", rate="40k")
    (clock,) = absent.words([probe], [{"bytes": 5, "jitter_s": 0.1}])
    assert clock == "flow 1: no one_way: the clocks of its two hosts are not the same"


def test_a_kernel_counts_timeouts_and_recoveries_of_all_its_connections() -> None:
    text = "TcpExt: TCPRenoRecovery TCPSackRecovery TCPTimeouts\nTcpExt: 2 3 4\n"
    assert reports.recoveries(text) == {"timeouts": 4, "fast_retransmits": 5}


def test_what_buffers_hold_after_the_time_is_told() -> None:
    points = Arrived.of([(0.5, 1000), (2.0, 5000), (3.5, 9000)], 0.0, 1.0, 1000)
    row = {"start_s": 0.0, "bytes": 9000, "last_byte_s": 3.5}
    told = arrived.outlasted(flow(time="2s"), row, points)
    assert told == {"stop_s": 2.0, "bytes": 4000, "seconds": 1.5}
    assert arrived.outlasted(flow(time="4s"), row, points) is None
    assert arrived.outlasted(flow(), row, points) is None, "it has no time of its own"
    assert arrived.outlasted(flow("udp", time="2s", rate="1M"), row, points) is None


def test_delays_of_datagrams_are_recorded_where_they_are_named() -> None:
    flows = [{"id": 1}, {"id": 2}]
    found = [None, [(1.0, 0.01), (2.0, 0.02), (9.0, 0.03)]]

    def made(*names: str) -> list[str]:
        scenario = {"record": {"series": list(names)}}
        assert arrived.delays(scenario) is any(n.endswith(".delay") for n in names)
        return list(arrived.transits(flows, found, scenario, 5.0))

    assert made("flow.*.delay") == made("flow.2.delay") == ["flow.2.delay"]
    assert made("all") == made("flow.1.delay") == []
    raw = arrived.transits(flows, found, {"record": {"series": ["flow.2.delay"]}}, 5.0)
    pairs = np.frombuffer(raw["flow.2.delay"], dtype="<f8").reshape(-1, 2)
    assert pairs.tolist() == [[1.0, 0.01], [2.0, 0.02]], "none after the end"


def test_datagrams_after_the_load_say_nothing_of_it() -> None:
    """Their number decides where 95 % are: a second of load in a minute of probes adds nothing."""
    at = np.arange(0.0, 60.0, 0.1)
    delays = np.where((at >= 10) & (at < 12), 0.2, 0.01)
    raw = np.column_stack([at + delays, delays]).astype("<f8").tobytes()
    load = {"id": 1, "protocol": "tcp-sack", "bytes": 10, "start_s": 10.0, "last_byte_s": 12.0}
    whole = {"p50_s": 0.01, "p95_s": 0.01, "p99_s": 0.2, "samples": 600}
    probe: dict[str, Any] = {
        "id": 2, "protocol": "udp", "bytes": 10, "start_s": 10.0, "last_byte_s": 60.0,
        "one_way": whole,
    }  # fmt: skip
    before = {**probe, "id": 3, "start_s": 0.0, "last_byte_s": 9.0}
    outcome = {"flows": [load, probe, before], "sim_seconds": 60.0}
    asked = ("one_way_p95@2", "one_way_p95@3")
    row = run_row(outcome, Measure(), more=asked)
    assert np.isnan(row["latency_added"]) and np.isnan(row["one_way_p95"]), "nobody knows"
    assert np.isnan(row["one_way_p95@2"]) and row["one_way_p95@3"] == 0.01
    probe["under_load"] = percentiles(raw, load_span(outcome))
    row = run_row(outcome, Measure(), more=asked)
    assert probe["under_load"]["samples"] in (18, 19), "sent and arrived within two seconds"
    assert row["latency_added"] == pytest.approx(0.19)
    assert row["one_way_p95"] == row["one_way_p95@2"] == 0.2
    assert row["one_way_p95@3"] == 0.01, "one that met no load has its own"
    assert percentiles(raw, (100.0, 101.0)) == {"samples": 0}
    # Nothing but datagrams: all of them.
    alone = {"flows": [before], "sim_seconds": 60.0}
    assert run_row(alone, Measure())["one_way_p95"] == 0.01


def test_probes_of_which_nothing_arrived_under_load_have_no_delay() -> None:
    """That before the load is not theirs."""
    idle = {"p50_s": 0.01, "p95_s": 0.01, "p99_s": 0.01, "samples": 40}
    load = {"id": 1, "protocol": "tcp-sack", "bytes": 10, "start_s": 5.0, "last_byte_s": 15.0}
    before: dict[str, Any] = {
        "id": 2, "protocol": "udp", "bytes": 10, "start_s": 0.0, "last_byte_s": 4.0,
        "one_way": idle, "until_s": 4.0, "under_load": {"samples": 0},
    }  # fmt: skip
    lost = {"id": 3, "protocol": "udp", "bytes": 0, "start_s": 6.0, "until_s": 15.0}
    through = {**before, "until_s": 15.0, "last_byte_s": 4.9}
    last = {**through, "last_byte_s": 5.001}
    for flows in ([load, before, lost], [load, through], [load, last]):
        row = run_row({"flows": flows, "sim_seconds": 15.0}, Measure())
        assert np.isnan(row["one_way_p95"]) and np.isnan(row["latency_added"])
    # One that was over as the load began met none.
    edge = {**before, "until_s": 5.001, "last_byte_s": 5.001}
    assert run_row({"flows": [load, edge], "sim_seconds": 15.0}, Measure())["one_way_p95"] == 0.01


def test_a_process_that_cannot_be_started_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = len(list(Path("/proc/self/fd").iterdir()))
    # What no pickle takes no process gets.
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        runner._Apart(print, lambda: None)
    assert [p.name for p in tmp_path.glob("wifu-said-*")] == []
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_the_last_byte_of_an_unfinished_flow_of_wifu_mock_is_not_the_end_of_the_run() -> None:
    """Its time is to the end; its last byte came before."""
    told = {
        "flow": 1, "complete": False, "bytes_delivered": 1000, "duration_s": 60.0,
        "last_byte_s": 10.4, "goodput_bps": 133.0, "data_segments": 9, "retransmissions": 7,
    }  # fmt: skip
    summary = {"protocol": "tcp-bbr", "seed": 1, "virtual_time_s": 60.0, "flows": [told]}
    (row,) = runner._mock_outcome(summary, [], {})["flows"]
    assert (row["last_byte_s"], row["goodput_bps"]) == (10.4, 133.0)
