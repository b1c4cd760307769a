"""Applications and measures in real time, as far as that needs no root."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import FakeResult, fake

from wifu import apps_live, arrived, datagrams, udp
from wifu.arrived import Arrived, Progress
from wifu.campaign import execute, window_octets
from wifu.flows import flows_of
from wifu.metrics import Measure, flow_goodput
from wifu.places import Crew, Place, Started
from wifu.runner import mesh
from wifu.store import Record

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
    one = {**http, "persistent": True}
    assert apps_live.words(one, 1.0).endswith(",persistent=true")
    talk = {"app": "onoff", "rate": "1Mb/s", "on": 1, "off": "2s", "time": "9s"}
    assert apps_live.words(talk, 2.0) == "onoff,rate=500000,on=2.000000000,off=4.000000000"
    table = {"app": "trace", "rows": [[0, 10], [1.5, 20]]}
    assert apps_live.words(table, 2.0) == "trace,rows=0.000000000:10+3.000000000:20"
    assert apps_live.options(http, "ab", None, 1.0)[-2:] == ["--stream", "ab"]
    assert apps_live.options(talk, "ab", 9.0, 2.0)[-2:] == ["-t", "18.000000000"]
    endless = {"app": "request"}
    assert apps_live.options(endless, "ab", None, 1.0)[-2:] == ["-t", str(apps_live.FOREVER)]


@pytest.mark.parametrize(
    ("flow", "stop", "says"),
    [
        ({"app": "http", "protocol": "udp", "pause": 1}, {"time": 5},
         r"flow\.1.app: `http` needs a protocol with connections"),
        ({"app": "onoff", "protocol": "udp", "rate": "1M", "on": 1, "off": 1}, {}, "ends only if"),
        ({"app": "onoff", "rate": "1M", "on": 1, "off": 1, "size": 500}, {"time": 5},
         r"size: `onoff` does not use it"),
        ({"app": "onoff", "protocol": "udp", "on": 1, "off": 1}, {"time": 5}, "rate"),
        ({"app": "htp"}, {"time": 5}, "no application is called htp.*http"),
        ({"app": "http", "pause": 1, "bytes": "1M"}, {"time": 5}, r"bytes: `http` does not use"),
        ({"app": "http", "pause": 1}, {}, "ends only if"),
        ({"app": "http", "pause": 1}, {"requests": 9}, "stop.requests: only the simulator"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_runs(
    flow: dict[str, Any], stop: dict[str, Any], says: str
) -> None:
    given = {"from": "n1", "to": "n3", "protocol": "tcp-newreno", **flow}
    with pytest.raises(ValueError, match=says):
        flows_of(scenario(given, stop=stop))


TALK = {
    "from": "n1", "to": "n3", "protocol": "udp", "app": "onoff", "rate": "400kb/s", "on": "300ms",
    "off": "200ms", "start": "1s", "jitter": "50ms",
}  # fmt: skip


@pytest.mark.parametrize("more", [{"time": "4s"}, {"size": 200, "stop_at": "3s"}])
def test_datagrams_leave_when_the_simulators_do(more: dict[str, Any], tmp_path: Path) -> None:
    given = scenario(TALK | more, record={"series": ["flow.1.offered"]}, stop={"time": "9s"})
    pairs = np.frombuffer(mesh(given).series("flow.1.offered"), dtype="<f8").reshape(-1, 2)
    (flow,) = flows_of(given)
    place = Place("n1", "10.0.0.1", (), "wifu", str(tmp_path))
    udp.prepare(flow, place, 1.0, 100.0)
    *_, file = udp.sender(flow, place, "10.0.0.3", 1e6, 1.0, False)
    dues = [flow.start + t for t in datagrams.talking(file)]
    assert dues == pytest.approx(pairs[:, 0].tolist(), abs=1e-6)
    assert len(dues) > 50
    assert pairs[-1, 1] == len(dues) * (flow.size - 28)
    # Half as long by the wall's clock, twice as slow: the same talk, and only so much is drawn.
    udp.prepare(flow, place, 2.0, 3.0)
    slower = [flow.start + t / 2 for t in datagrams.talking(file)]
    assert slower == pytest.approx([t for t in dues if t < flow.start + 1.5], abs=1e-6)


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
    assert "fault_s" not in row
    broken = json.loads(json.dumps(REPORT))
    broken["wifu"]["application"] |= {"fault": "reset", "fault_s": 1.0}
    assert apps_live.told(broken, 2.0, 2.0)["fault_s"] == 2.5
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
    arrived.cut(whole, None, 1.39)
    assert whole["finished"] is False


@pytest.mark.parametrize(
    ("more", "sent", "cut", "finished"),
    [
        ({"bytes": "3k"}, 3000, False, True),
        ({"bytes": "10M"}, 3000, False, False),
        ({"bytes": "10M", "time": "2s"}, 3000, False, True),
        ({"bytes": "10M", "stop_at": "4s"}, 3000, False, True),
        ({"bytes": "10M", "stop_at": "2s"}, 3000, True, False),
        ({"bytes": "10M", "stop_at": "9s"}, 3000, False, False),
        ({"bytes": "3k", "stop_at": "9s"}, 3000, False, True),
        ({"app": "stream", "time": "2s"}, 3000, False, True),
        ({"app": "stream", "time": "2s"}, 3000, True, False),
        ({"app": "stream", "time": "9s"}, 3000, False, False),
        ({"stop_at": "9s"}, 3000, False, False),
        ({}, 3000, False, False),
    ],
)
def test_datagrams_are_finished_if_all_were_sent_that_were_wanted(
    tmp_path: Path, more: dict[str, Any], sent: int, cut: bool, finished: bool
) -> None:
    given = {"from": "n1", "to": "n3", "protocol": "udp", "rate": "1M", **more}
    (flow,) = flows_of(scenario(given, stop={"time": "4s"}))
    reports = (
        {"bytes": sent, "packets": 3, "begun": 7.0},
        {"bytes": sent, "packets": 3, "first": 7.1, "last": 7.2},
    )
    with Crew(tmp_path, time.monotonic() + 60, lambda: False) as crew:
        place = Place("n1", "10.0.0.1", (), "wifu", str(tmp_path))
        said = [crew.start(place, "echo", json.dumps(r)) for r in reports]
        for program in said:
            program.popen.wait()
        row = udp.told(flow, said[0], said[1], 7.0, 1.0, False, cut)
    assert (row["finished"], row["bytes"], row["last_byte_s"]) == (
        finished, 3000, pytest.approx(0.2),
    )  # fmt: skip


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
    assert whole == pytest.approx(40_000 * 8 / 13)


def test_a_window_has_what_arrived_in_it() -> None:
    found = Arrived.of([(0.5, 100), (1.5, 300), (2.5, 700), (9.0, 900)], 0.5, 1.0, None)
    raw = found.raw(5.0)
    assert window_octets(raw, 1.5, 3.5) == 600.0
    assert window_octets(raw, 0.0, 99.0) == 700.0, "what came after the run's end is no part of it"
    assert window_octets(b"", 0.0, 1.0) == 0.0


WINDOW = Measure("window", start=1.0, end=2.0)


def windowed(octets: int, more: dict[str, Any], recorded: dict[str, bytes]) -> Record:
    """A run measured in a window, of a flow of so many octets, with these series."""

    def runner(given: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(given).json())
        outcome["flows"][0]["bytes"] = octets
        return FakeResult(outcome | more, recorded)

    given = {"seed": 1, "run": 1, "topology": {"words": "linear,2"}, "flow": [{"protocol": "x"}]}
    return execute(runner, given, "c", 1, "k", "v", WINDOW, False)[0]


@pytest.mark.parametrize("more", [{}, {"substrate": "live"}, {"substrate": "emu"}])
def test_a_flow_of_which_nothing_arrived_has_an_empty_window(more: dict[str, Any]) -> None:
    record = windowed(0, more, {})
    assert record.error is None
    assert record.outcome is not None
    assert record.outcome["flows"][0]["window_bytes"] == 0.0


@pytest.mark.parametrize("more", [{}, {"substrate": "live"}])
def test_a_flow_of_which_something_arrived_has_a_window_or_is_a_failure(
    more: dict[str, Any],
) -> None:
    points = np.array([(0.5, 100), (1.5, 400)], dtype="<f8").tobytes()
    record = windowed(400, more, {"flow.1.delivered": points})
    assert record.outcome is not None
    assert record.outcome["flows"][0]["window_bytes"] == 300.0
    missing = windowed(400, more, {})
    assert (missing.status, "flow.1.delivered" in str(missing.error)) == ("failed", True)


def test_answers_have_the_length_of_the_simulators() -> None:
    asks = {"from": "n1", "to": "n3", "protocol": "tcp-sack", "app": "request", "count": 1}
    (flow,) = json.loads(mesh(scenario(asks)).json())["flows"]
    assert [r["bytes"] for r in flow["requests"]] == [apps_live.answer(asks)]


def test_packets_are_not_counted_without_their_size() -> None:
    found = [Arrived.of([(0.5, 100)], 0.0, 1.0, None)]
    with pytest.raises(Exception, match="nobody knows"):
        arrived.packets_end(found, 10)
    assert arrived.end_of({"stop": {}}, found, 5.0) is None


def test_datagrams_and_answers_are_the_packets_that_the_simulator_counts() -> None:
    """Short datagrams are packets, and segments of answers go on from one to the next."""
    rates = {"protocol": "udp", "rate": "300kb/s", "app": "file"}
    short = {"from": "n1", "to": "n3", "bytes": 5_100, "size": 1028} | rates
    long = {"from": "n3", "to": "n1", "bytes": 90_000} | rates
    asks = {"from": "n1", "to": "n3", "protocol": "tcp-sack", "app": "request",
            "response": "10k", "pause": "30ms"}  # fmt: skip
    stop = {"packets": 180, "batch": 40}
    result = mesh(scenario(short, long, asks, stop=stop, record={"delivery": True}))
    outcome = json.loads(result.json())
    found = [series(result, n) for n in (1, 2, 3)]
    found[:2] = [replace(a, counts=np.arange(1, a.times.size + 1)) for a in found[:2]]
    assert found[0].packets()[-1] == 6, "5 of 1000 octets, and one of 100"
    end = arrived.end_of({"stop": stop}, found, 1e9)
    assert end is not None
    assert end.why == "packets"
    assert end.seconds == pytest.approx(outcome["sim_seconds"])
    ends, octets = arrived.batches(found, 40, end.seconds)
    assert ends == pytest.approx(outcome["batches_end_s"])
    assert octets == [flow["batches"] for flow in outcome["flows"]]


def test_progress_of_datagrams_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrived, "PROGRESS", 0.0)
    one, two = tmp_path / "one.out", tmp_path / "two.out"
    servers = {n: Started(None, log, log, "") for n, log in ((1, one), (2, two))}  # type: ignore[arg-type]
    one.write_text("ready\nso far 30\nso far 70\nso far 9")
    two.write_text("[  1]   0.00-0.25   sec  0.10 MBytes  10.5 Mbits/sec    10.0.0.1:1\n")
    # Of 103 kB written the last answer may still be on its way: 53 packets are there.
    progress = Progress(servers, {1: None, 2: 1000}, 124, {2: 50_000})
    assert not progress.reached()
    with one.open("a") as file:
        file.write("0\n")
    assert progress.reached(), "90 and 53"


def test_a_receiver_tells_how_much_it_has_even_when_nothing_comes() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    words = [sys.executable, datagrams.__file__, "receive", str(port), "0.001", "0.05", "1"]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        for late in (0.2, 0.3, -5.0):  # one from the future is of another clock, or altered
            stamp = datagrams.STAMP.pack(time.monotonic() - late)
            sock.sendto(stamp.ljust(100, b"x"), ("127.0.0.1", port))
        line = ""
        while line != "so far 3\n":  # the first may be told at once, the others in silence
            line = receiver.stdout.readline()
            assert line.startswith("so far "), line
        receiver.terminate()
        told = json.loads(receiver.stdout.read())
    assert (told["bytes"], told["packets"]) == (300, 3)
    assert told["arrivals"][-1] == [told["last"], 300, 3]
    took = [round(d, 2) for _, d in told["delays"]]
    assert took == pytest.approx([0.2, 0.3], abs=0.02) and told["one_way"]["samples"] == 2
    assert told["one_way"]["p50_s"] == pytest.approx(0.25, abs=0.02)
    assert told["jitter_s"] == pytest.approx(0.1 / 16, rel=0.2)


def test_percentiles_are_numpys() -> None:
    delays = datagrams._Delays()
    rng = np.random.default_rng(3)
    sample = rng.exponential(0.1, 999)
    for took in sample:
        delays.add(1e3, datagrams.STAMP.pack(1e3 - took))
    told = delays.told(False)
    assert isinstance(told["one_way"], dict) and "delays" not in told
    for name, share in (("p50_s", 50), ("p95_s", 95), ("p99_s", 99)):
        assert told["one_way"][name] == pytest.approx(np.percentile(sample, share), rel=1e-9)


def test_a_receiver_waits_on_also_where_no_timeout_error_tells_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Silent(OSError):
        """What a socket's timeout is before Python 3.10."""

    heard: Iterator[Any] = iter(
        [b"12345", Silent("timed out"), b"678", Silent("timed out"), datagrams._Stop()]
    )

    class Sock:
        def recv(self, _size: int) -> bytes:
            found = next(heard)
            if isinstance(found, BaseException):
                raise found
            return bytes(found)

        def __getattr__(self, _name: str) -> Any:
            return lambda *_words: None

    monkeypatch.setattr(socket, "timeout", Silent)
    monkeypatch.setattr(socket, "socket", lambda *_words: Sock())
    datagrams.receive(1, 0.0, 0.001, False)
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["bytes"], told["packets"]) == (8, 2)
    assert "one_way" not in told, "too short to say when they left"


def test_the_file_of_talk_is_read_before_time_begins(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        datagrams.talking(str(tmp_path / "none"))


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
