"""Applications and measures in real time, as far as that needs no root."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import fake

from wifu import apps_live, arrived
from wifu.arrived import Arrived, Progress
from wifu.campaign import execute, window_octets
from wifu.flows import flows_of
from wifu.metrics import Measure, flow_goodput
from wifu.places import Started
from wifu.runner import mesh

HTTP = {"from": "n1", "to": "n3", "protocol": "tcp-newreno", "app": "http", "pause": "100ms"}


def scenario(*flows: dict[str, Any], **more: Any) -> dict[str, Any]:
    topology = {"words": "linear,3,wire=10Mb/s"}
    return {"seed": 3, "run": 2, "topology": topology, "flow": list(flows), **more}


def series(result: Any, number: int, size: int | None = None) -> Arrived:
    """What the simulator recorded of a flow, as if a receiver had."""
    pairs = np.frombuffer(result.series(f"flow.{number}.delivered"), dtype="<f8").reshape(-1, 2)
    return Arrived(pairs[:, 0], pairs[:, 1], size or int(pairs[0, 1]))


# What flows are told ------------------------------------------------------------------------------


def test_flows_start_and_draw_as_in_the_simulator() -> None:
    given = scenario(
        HTTP | {"count": 3, "jitter": "80ms"},
        HTTP | {"count": 2, "jitter": "80ms", "start": 1},
        {"from": "n3", "to": "n1", "protocol": "tcp-sack", "app": "file", "bytes": "9k",
         "jitter": "1s"},
    )  # fmt: skip
    flows = flows_of(given)
    outcome = json.loads(mesh(given).json())
    assert [f.start for f in flows] == [pytest.approx(f["start_s"]) for f in outcome["flows"]]
    streams = [f.stream for f in flows[:2]]
    assert len(set(streams)) == 2
    assert all(len(s) == 16 for s in streams)
    # The kernel's TCP meets the same traffic, and what is not known of places changes nothing else.
    kernel = [f | {"protocol": "kernel:reno"} for f in given["flow"]]
    assert [f.stream for f in flows_of(given | {"flow": kernel})][:2] == streams
    other = flows_of(given | {"run": 3})
    assert other[0].stream != streams[0]
    assert other[0].start != flows[0].start
    without = {k: v for k, v in given.items() if k != "topology"}
    assert len(flows_of(without)) == 3


def test_an_application_is_told_in_words_as_much_slower_as_the_run_is() -> None:
    http = {"app": "http", "pause": "250ms", "count": 5, "scale": "20k"}
    assert apps_live.words(http, 1.0) == "http,pause=0.250000000,count=5,scale=20000"
    assert apps_live.words(http, 4.0) == "http,pause=1.000000000,count=5,scale=20000"
    talk = {"app": "onoff", "rate": "1Mb/s", "on": 1, "off": "2s", "time": "9s"}
    assert apps_live.words(talk, 2.0) == "onoff,rate=500000,on=2.000000000,off=4.000000000"
    table = {"app": "trace", "rows": [[0, 10], [1.5, 20]]}
    assert apps_live.words(table, 2.0) == "trace,rows=0.000000000:10+3.000000000:20"
    assert apps_live.options(http, "ab", None, 1.0)[-2:] == ["--connect-timeout", "10000"]
    assert apps_live.options(talk, "ab", 9.0, 2.0)[-2:] == ["-t", "18.000"]
    endless = {"app": "request"}
    assert apps_live.options(endless, "ab", None, 1.0)[-2:] == ["-t", str(apps_live.FOREVER)]


@pytest.mark.parametrize(
    ("flow", "stop", "says"),
    [
        ({"app": "onoff", "protocol": "udp", "rate": "1M", "on": 1, "off": 1}, {"time": 5},
         r"flow\[0\].app: onoff over udp runs on sim only"),
        ({"app": "htp"}, {"time": 5}, "no application is called htp.*http"),
        ({"app": "http", "pause": 1, "bytes": "1M"}, {"time": 5}, r"bytes: `http` does not use"),
        ({"app": "http", "pause": 1}, {}, "ends only if"),
        ({"protocol": "udp"}, {"packets": 100}, "stop.packets: counts datagrams on sim only"),
        ({"app": "request", "count": 3}, {"packets": 100}, "stop.packets: does not count"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_runs(
    flow: dict[str, Any], stop: dict[str, Any], says: str
) -> None:
    given = {"from": "n1", "to": "n3", "protocol": "tcp-newreno", **flow}
    with pytest.raises(ValueError, match=says):
        flows_of(scenario(given, stop=stop))


# What they say ------------------------------------------------------------------------------------


REPORT: dict[str, Any] = {
    "start": {},
    "wifu": {
        "monotonic_s": 100.5,
        "application": {
            "app": "http", "finished": True, "connections": 2, "connected_s": 0.02,
            "mss": 1448, "retransmits": 3,
            "requests": [
                {"start_s": 0.0, "bytes": 11_000, "delay_s": 0.2},
                {"start_s": 1.0, "bytes": 12_000, "delay_s": 0.4},
            ],
        },
    },
}  # fmt: skip


def test_a_report_has_the_simulators_names_and_the_times_of_the_run() -> None:
    row = apps_live.told(REPORT, 2.0, 2.0)
    assert row["requests"][1] == {"start_s": 2.5, "bytes": 12_000, "delay_s": 0.2}
    assert (row["start_s"], row["connected_s"], row["finished"]) == (2.0, 2.01, True)
    assert (row["connections"], row["retransmissions"], row["fault"]) == (2, 3, None)
    assert "srtt_s" not in row, "what nobody knows is absent, not zero"
    unknown = json.loads(json.dumps(REPORT))
    del unknown["wifu"]["application"]["retransmits"]
    assert "retransmissions" not in apps_live.told(unknown, 0.0, 1.0)
    assert apps_live.segment(REPORT, None) == 1448
    assert apps_live.segment({"start": {"tcp_mss_default": 1400}, "wifu": {}}, 500) == 1400


def test_what_came_after_the_end_is_left_out() -> None:
    row = apps_live.told(REPORT, 0.0, 1.0) | {"bytes": 23_000, "first_byte_s": 0.1}
    points = [(0.1, 5000), (0.2, 11_000), (1.3, 20_000), (1.4, 23_000)]
    found = Arrived.of(points, 0.0, 1.0, 1000)
    arrived.cut(row, found, 1.35)
    assert (row["bytes"], row["finished"], row["last_byte_s"]) == (20_000, False, 1.3)
    assert [r["bytes"] for r in row["requests"]] == [11_000]
    whole = apps_live.told(REPORT, 0.0, 1.0) | {"bytes": 23_000, "last_byte_s": 1.4}
    arrived.cut(whole, found, 1.4)
    assert (whole["bytes"], whole["finished"], len(whole["requests"])) == (23_000, True, 2)


# Measures -----------------------------------------------------------------------------------------


def test_batches_are_those_that_the_simulator_counts() -> None:
    bulk = {"from": "n1", "to": "n3", "protocol": "tcp-newreno"}
    back = {"from": "n3", "to": "n2", "protocol": "tcp-sack", "start": "300ms"}
    stop = {"packets": 1100, "batch": 100}
    result = mesh(scenario(bulk, back, stop=stop, record={"series": True}))
    outcome = json.loads(result.json())
    found = [series(result, 1), series(result, 2)]
    end = arrived.end_of({"stop": stop}, found, 1e9)
    assert end is not None
    assert end.why == "packets"
    assert end.seconds == pytest.approx(outcome["sim_seconds"])
    ends, octets = arrived.batches(found, 100, end.seconds)
    assert ends == pytest.approx(outcome["batches_end_s"])
    assert len(ends) == 11
    assert octets == [flow["batches"] for flow in outcome["flows"]]
    mine = arrived.measured(
        {"sim_seconds": end.seconds, "flows": [dict(f) for f in outcome["flows"]]},
        found, {"stop": stop},
    )  # fmt: skip
    steady = Measure("steady")
    for one, two in zip(mine["flows"], outcome["flows"], strict=True):
        assert flow_goodput(mine, one, steady) == pytest.approx(flow_goodput(outcome, two, steady))


def test_the_first_batch_does_not_count() -> None:
    # Slow at first: 10 packets in 10 s, then 10 a second.
    points = [(float(k), k * 1000) for k in range(1, 11)]
    points += [(10 + k / 10, 10_000 + k * 1000) for k in range(1, 31)]
    found = [Arrived.of(points, 0.0, 1.0, 1000)]
    given = {"stop": {"packets": 40, "batch": 10}}
    end = arrived.end_of(given, found, 60.0)
    assert end is not None
    outcome = arrived.measured({"sim_seconds": end.seconds, "flows": [{"id": 1}]}, found, given)
    assert outcome["batches_end_s"] == pytest.approx([10.0, 11.0, 12.0, 13.0])
    assert flow_goodput(outcome, outcome["flows"][0], Measure("steady")) == pytest.approx(80e3)
    whole = flow_goodput(outcome, outcome["flows"][0], Measure("steady", discard=0))
    assert whole == pytest.approx((8e3 + 3 * 80e3) / 4)


def test_a_window_has_what_arrived_in_it() -> None:
    found = Arrived.of([(0.5, 100), (1.5, 300), (2.5, 700), (9.0, 900)], 0.5, 1.0, None)
    raw = found.raw(5.0)
    assert window_octets(raw, 1.5, 3.5) == 600.0
    assert window_octets(raw, 0.0, 99.0) == 700.0, "what came after the run's end is no part of it"
    assert window_octets(b"", 0.0, 1.0) == 0.0


def test_a_flow_of_which_nothing_arrived_has_an_empty_window() -> None:
    given = {"seed": 1, "run": 1, "topology": {"words": "linear,2"}, "flow": [{"protocol": "x"}]}
    record, _ = execute(fake, given, "c", 1, "k", "v", Measure("window", start=1.0, end=2.0), False)
    assert record.error is None
    assert record.outcome is not None
    assert record.outcome["flows"][0]["window_bytes"] == 0.0


def test_packets_are_not_counted_without_their_size() -> None:
    found = [Arrived.of([(0.5, 100)], 0.0, 1.0, None)]
    with pytest.raises(Exception, match="nobody knows"):
        arrived.packets_end(found, 10)
    assert arrived.end_of({"stop": {}}, found, 5.0) is None


def test_progress_is_read_from_the_rows_of_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrived, "PROGRESS", 0.0)
    log = tmp_path / "server.out"
    row = "[  5]   0.00-0.25   sec  {}  10.5 Mbits/sec             10.0.0.1:1 > 10.0.0.2:2\n"
    log.write_text("Server listening on 5201\n" + row.format("1.00 MBytes"))
    server = Started(None, log, log, "perf")  # type: ignore[arg-type]
    progress = Progress({1: server}, {1: None}, 1000)
    assert not progress.reached(), "718 packets of 1460 octets"
    with log.open("a") as file:
        for end in ("sender", "receiver"):
            file.write(row.format("1.00 MBytes").rstrip() + f"                  {end}\n")
    assert not progress.reached(), "the summary of a flow that is over says nothing new"
    with log.open("a") as file:
        file.write(row.format("0.50 MBytes")[:40])
    assert not progress.reached(), "half a line is none"
    with log.open("a") as file:
        file.write(row.format("0.50 MBytes")[40:])
    assert progress.reached()
    assert Progress({1: server}, {1: 500}, 3000).reached(), "smaller segments are more"
