"""Flows in real time, as far as that needs no root: their ends, and what is told of them."""

import json
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wifu.clients import Clients
from wifu.errors import RunError
from wifu.live import wires_of
from wifu.places import Crew, Place, Started
from wifu.runner import mesh
from wifu.traffic import Traffic
from wifu.watch import watched

# They share ports of the loopback device.
pytestmark = pytest.mark.real_time

# Of datagrams, over the loopback device -----------------------------------------------------------

DATAGRAMS = {"from": "n1", "to": "n2", "protocol": "udp", "rate": "2M"}


def scenario(stop: dict[str, Any], *flows: dict[str, Any], **more: Any) -> dict[str, Any]:
    topology = {"words": "linear,2,wire=10Mb/s"}
    return {"topology": topology, "stop": stop, "flow": [DATAGRAMS | f for f in flows], **more}


def simulated(given: dict[str, Any]) -> dict[str, Any]:
    outcome: dict[str, Any] = json.loads(mesh(given).json())
    return outcome


def run(given: dict[str, Any], folder: Path, limit: float = 60.0) -> dict[str, Any]:
    places = {n: Place(n, "127.0.0.1", (), "wifu", str(folder)) for n in ("n1", "n2")}
    with Crew(folder, time.monotonic() + limit, lambda: False) as crew:
        return Traffic(places, given).run(crew)


def ends(outcome: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(outcome["end"], f["finished"], f["bytes"] > 0) for f in outcome["flows"]]


def test_a_flow_that_would_start_after_its_own_end_does_nothing(tmp_path: Path) -> None:
    given = scenario({"time": "1s"}, {"start": "0.8s", "stop_at": "0.5s"})
    for outcome in (simulated(given), run(given, tmp_path)):
        (flow,) = outcome["flows"]
        assert ends(outcome) == [("done", False, False)]
        assert (outcome["sim_seconds"], flow["start_s"], flow["goodput_bps"]) == (0.5, 0.5, 0.0)


@pytest.mark.parametrize("stop", ["0.4s", "0.8s"])
def test_the_run_ends_before_or_after_what_never_begins(tmp_path: Path, stop: str) -> None:
    given = scenario({"time": stop}, {"start": "0.9s", "stop_at": "0.6s"}, {"bytes": "9k"})
    for outcome in (simulated(given), run(given, tmp_path)):
        end, at = ("time", 0.4) if stop == "0.4s" else ("done", 0.6)
        assert ends(outcome) == [(end, False, False), (end, True, True)]
        assert outcome["sim_seconds"] == at
        assert [f["start_s"] for f in outcome["flows"]] == [at, 0.0]


def test_what_begins_just_before_its_own_end_sends_once(tmp_path: Path) -> None:
    given = scenario({"time": "9s"}, {"start": "0.2s", "stop_at": "0.2001s"})
    for outcome in (simulated(given), run(given, tmp_path)):
        assert ends(outcome) == [("done", True, True)]
        assert outcome["flows"][0]["bytes"] == 1472


def test_a_run_that_has_its_packets_does_not_wait_for_flows_that_never_begin(
    tmp_path: Path,
) -> None:
    stop = {"packets": 50, "time": "3000s"}
    never = {"start": "3100s"}
    given = scenario(stop, {}, never)
    for outcome in (simulated(given), run(given, tmp_path)):
        one, other = outcome["flows"]
        assert outcome["end"] == "packets"
        # Some may come within a millisecond where this machine is busy.
        assert 50 * 1472 <= one["bytes"] < 80 * 1472
        assert (other["start_s"], other["bytes"]) == (outcome["sim_seconds"], 0)
        assert outcome["sim_seconds"] < 60
    assert (tmp_path / "begin-1").exists() and not (tmp_path / "begin-2").exists()
    # Also if the last of them come with the end of all that flows.
    given = scenario(stop, {"bytes": 50 * 1472}, never)
    assert run(given, tmp_path)["end"] == "packets"


def test_a_run_that_has_its_packets_does_not_wait_for_flows_that_would_begin_later(
    tmp_path: Path,
) -> None:
    given = scenario({"packets": 50, "time": "3000s"}, {}, {"start": "2000s"})
    for outcome in (simulated(given), run(given, tmp_path)):
        assert outcome["end"] == "packets"
        assert outcome["flows"][1]["start_s"] == outcome["sim_seconds"] < 60


@pytest.mark.parametrize("start", ["0s", "2000s", "3100s"])
def test_flows_without_end_do_not_keep_a_run_from_its_end(tmp_path: Path, start: str) -> None:
    endless = {"start": start, "rate": "300k", "size": 500}
    given = scenario({"time": "3000s"}, {"bytes": "90k"}, endless)
    model, real = simulated(given), run(given, tmp_path)
    assert ends(real) == ends(model) == [("done", True, True), ("done", False, start == "0s")]
    # 90 kB take 0.36 s.
    assert 0.3 < real["sim_seconds"] < 60
    (ended, cut), seconds = real["flows"], real["sim_seconds"]
    assert ended["last_byte_s"] == seconds
    if start == "0s":
        assert cut["last_byte_s"] <= seconds
        rate = cut["bytes"] * 8 / seconds
        assert cut["goodput_bps"] == pytest.approx(rate)
        assert rate == pytest.approx(300e3, rel=0.2)
    else:
        assert cut["start_s"] == seconds


def test_datagrams_leave_at_their_times_however_late_their_sender_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second here; the times of `[[event]]` and of series begin with the flows'."""
    real, begun = Crew.start, list[float]()

    def late(self: Crew, place: Place, *words: str) -> Started:
        if "send" in words:
            words = ("sh", "-c", 'sleep 0.5; exec "$@"', "sh", *words)
        return real(self, place, *words)

    monkeypatch.setattr(Crew, "start", late)
    flows = [{"rate": "400k", "time": "1s"}, {"rate": "400k", "start": "0.1s", "stop_at": "1s"}]
    given = scenario({"time": "1s"}, *flows)
    places = {n: Place(n, "127.0.0.1", (), "wifu", str(tmp_path)) for n in ("n1", "n2")}
    with Crew(tmp_path, time.monotonic() + 60, lambda: False) as crew:
        traffic = Traffic(places, given)
        traffic.begins.append(lambda: begun.append(time.monotonic()))
        before = time.monotonic()
        outcome = traffic.run(crew)
    assert begun[0] - before >= 0.5
    model = simulated(given)
    assert ends(outcome) == ends(model) == [("done", True, True)] * 2
    assert [f["start_s"] for f in outcome["flows"]] == pytest.approx([0.0, 0.1])
    for real_, simulated_ in zip(outcome["flows"], model["flows"], strict=True):
        assert real_["bytes"] == pytest.approx(simulated_["bytes"], rel=0.1)
        assert real_["first_byte_s"] >= real_["start_s"]


@pytest.mark.parametrize(
    ("record", "names"),
    [
        ({}, []),
        ({"series": ["flow.1.cwnd"]}, []),
        ({"series": ["flow.1.delivered"]}, ["flow.1.delivered"]),
        ({"series": ["flow.*.offered"]}, ["flow.1.offered"]),
        ({"series": True}, ["flow.1.delivered", "flow.1.offered"]),
        ({"delivery": True}, ["flow.1.delivered"]),
    ],
)
def test_what_arrived_is_kept_where_it_is_asked_for_and_never_changes_what_is_measured(
    tmp_path: Path, record: dict[str, Any], names: list[str]
) -> None:
    given = scenario({"time": "0.3s"}, {"rate": "1M"}, record=record)
    places = {n: Place(n, "127.0.0.1", (), "wifu", str(tmp_path)) for n in ("n1", "n2")}
    with Crew(tmp_path, time.monotonic() + 60, lambda: False) as crew:
        outcome = watched(Traffic(places, given), places, given, 1.0, crew)
    assert sorted(outcome["series"]) == names
    (flow,) = outcome["flows"]
    assert 0 < flow["last_byte_s"] <= 0.3
    for name, raw in outcome["series"].items():
        pairs = np.frombuffer(raw, dtype="<f8").reshape(-1, 2)
        assert pairs[-1, 0] <= 0.3
        if name.endswith("delivered"):
            assert (pairs[-1].tolist()) == [pytest.approx(flow["last_byte_s"]), flow["bytes"]]


# Of connections, as `wifu perf` tells ------------------------------------------------------------


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("arrivals", [None, [[0.1, 1000], [1.9, 2000], [2.1, 4000]]])
def test_all_that_is_told_of_a_transfer_has_the_same_zero(
    tmp_path: Path, arrivals: list[list[float]] | None, remote: bool
) -> None:
    """Its test began 50 s after the run, half as long in the model, and 60 ms after connecting;
    of what another machine tells it is only known when it was asked for."""
    flow = {"from": "n1", "to": "n2", "protocol": "tcp-newreno", "app": "file", "bytes": 4000}
    connection: Any = object() if remote else None
    places = {n: Place(n, n, (), "wifu", str(tmp_path), connection) for n in ("n1", "n2")}
    traffic = Traffic(places, {"flow": [flow]}, dilation=2.0)
    own = {"connect_s": 0.06, "first_byte_s": 0.1, "last_byte_s": 2.1, "arrivals": arrivals}
    report = {
        "end": {"streams": [{"wifu": own, "receiver": {"bytes": 4000}, "sender": {}}]},
        "start": {"tcp_mss_default": 1000},
        "wifu": {"monotonic_s": 150.0},
    }
    row = traffic._stream(traffic.flows[0], report, 24.0, 100.0, False)
    zero = 24.03 if remote else 25.0
    assert row["start_s"] == pytest.approx(zero - 0.03)
    assert row["connected_s"] == pytest.approx(zero)
    assert row["first_byte_s"] == pytest.approx(zero + 0.05)
    assert row["last_byte_s"] == pytest.approx(zero + 1.05)
    if arrivals is not None:
        assert row["arrived"].times == pytest.approx([zero + 0.05, zero + 0.95, zero + 1.05])


@pytest.mark.parametrize("remote", [False, True])
def test_what_a_receiver_saw_is_told_by_its_own_clock(tmp_path: Path, remote: bool) -> None:
    """A sender that begins 20 ms after its receiver does not make all arrive 20 ms late."""
    flow = {"from": "n1", "to": "n2", "protocol": "tcp-newreno", "app": "file", "bytes": 1000}
    connection: Any = object() if remote else None
    places = {n: Place(n, n, (), "wifu", str(tmp_path), connection) for n in ("n1", "n2")}
    traffic = Traffic(places, {"flow": [flow]})
    own = {"connect_s": 0.0, "first_byte_s": 0.1, "last_byte_s": 0.5, "monotonic_s": 149.98}
    own["arrivals"] = [[0.1, 500], [0.5, 1000]]  # type: ignore[assignment]
    report = {
        "end": {"streams": [{"wifu": own, "receiver": {"bytes": 1000}, "sender": {}}]},
        "start": {"tcp_mss_default": 500},
        "wifu": {"monotonic_s": 150.0},
    }
    row = traffic._stream(traffic.flows[0], report, 50.0, 100.0, False)
    began = 50.0 if remote else 49.98
    assert row["first_byte_s"] == pytest.approx(began + 0.1)
    assert row["last_byte_s"] == pytest.approx(began + 0.5)
    assert row["arrived"].times == pytest.approx([began + 0.1, began + 0.5])


def test_a_client_that_is_asked_to_end_before_it_is_connected_has_sent_nothing(
    tmp_path: Path,
) -> None:
    """`wifu perf` has nothing to report then; of one that ends so by itself it is an error."""
    flow = {"from": "n1", "to": "n2", "protocol": "tcp-newreno", "app": "file", "bytes": 4000}
    places = {n: Place(n, n, (), "wifu", str(tmp_path)) for n in ("n1", "n2")}
    traffic = Traffic(places, {"flow": [flow], "stop": {"time": "9s"}})
    with Crew(tmp_path, time.monotonic() + 60, lambda: False) as crew:
        client = crew.start(places["n1"], "sleep", "60")
        clients = Clients(time.monotonic(), 1.0, {1: client}, {1: 0.5}, [])
        clients.end(traffic.flows[0])
        client.popen.wait()
        assert not clients.going_on()
        row = traffic._told(traffic.flows[0], clients, client)
        assert (row["start_s"], row["bytes"], row["finished"]) == (0.5, 0, False)
        assert row["arrived"].times.size == 0
        clients.cut.clear()
        with pytest.raises(RunError, match="flow 1: no report"):
            traffic._told(traffic.flows[0], clients, client)


def test_a_handlers_protocol_by_name_comes_with_what_the_flow_sets(tmp_path: Path) -> None:
    places = {n: Place(n, "127.0.0.1", (), "wifu", str(tmp_path)) for n in ("n1", "n2")}
    flow = {"from": "n1", "to": "n2", "protocol": "mine,gates.add=nagle", "bytes": "9k"}
    rows = [
        {"use": "drop", "protocol": "mine", "nodes": ["n2"]},
        {"use": "null", "protocol": "other"},
        {"use": "logger", "protocol": 17},
    ]
    traffic = Traffic(places, {"flow": [flow], "handler": rows})
    told = [h["protocol"] for h in tomllib.loads(traffic._core("n2", 1))["handler"]]
    assert told == ["mine,gates.add=nagle", "other", 17]
    assert len(tomllib.loads(traffic._core("n1", 0))["handler"]) == 2


def test_wires_between_hosts_are_overheard_by_nobody() -> None:
    wire = {"a": "n1", "b": "n2", "rate": "1Mb/s"}
    assert wires_of({"topology": {"wire": [wire]}})[0] == ["n1", "n2"]
    given = {"topology": {"wire": [wire | {"overheard_by": ["n3"]}]}}
    with pytest.raises(ValueError, match=r"topology\.wire\.1: overheard_by of wires runs on sim"):
        wires_of(given)
