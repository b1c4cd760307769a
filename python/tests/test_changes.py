"""Links that are cut, nodes that move and series, really run in real time. They need root."""

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from test_load import DEBUG, LIBRARY
from test_real_time import clean, program  # noqa: F401

from wifu import api
from wifu.emu import Emulation
from wifu.emulated import Emulated, insist
from wifu.live import Live
from wifu.runner import RunResult
from wifu.store import idle
from wifu.traffic import Traffic

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.usefixtures("clean", "program"),
]

EMU = {"share": True, "repeats": 2}
ROW = {
    "placement": {"kind": "line", "count": 3, "spacing_m": 60.0},
    "propagation": {"anchor": {"snr_db": 12.0, "distance_m": 60.0}},
}
"""Each node is in reach of its neighbours only."""

CUT = [{"at": 2, "cut": ["n2", "n3"]}, {"at": 4, "restore": ["n2", "n3"]}]


def datagrams(**more: Any) -> dict[str, Any]:
    flow = {"from": "n1", "to": "n3", "protocol": "udp", "rate": "200kb/s", "size": 500,
            "time": "6s"}  # fmt: skip
    return {"seed": 5, "topology": ROW, "flow": [flow], "stop": {"time": "6s"}, **more}


class Looked:
    """What `look(net)` said while the scenario played: (seconds since its beginning, what)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, look: Any) -> None:
        self.seen: list[tuple[float, Any]] = []
        self._look, play = look, Emulation.play

        def playing(net: Emulation) -> None:
            self.seen.clear()
            zero = self._seconds(net)
            play(net)
            threading.Thread(target=self._watch, args=(net, zero), daemon=True).start()

        monkeypatch.setattr(Emulation, "play", playing)

    @staticmethod
    def _seconds(net: Emulation) -> float:
        return float(net.status()["seconds"])

    def _watch(self, net: Emulation, zero: float) -> None:
        while True:
            try:
                # Not before: nothing may be seen earlier than it happened.
                what = self._look(net)
                self.seen.append((self._seconds(net) - zero, what))
            except Exception:
                return  # it has ended
            time.sleep(0.02)


def emulated(scenario: dict[str, Any], settings: dict[str, Any] | None = None) -> RunResult:
    runner = Emulated({**EMU, **(settings or {})}, 90)
    runner.check(scenario)
    return insist(runner, scenario, [], "emu")


def series(result: RunResult, name: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(result.series(name), dtype="<f8").reshape(-1, 2)


def test_nothing_arrives_while_a_link_is_cut_on_sim_and_emu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = datagrams(event=CUT)
    sim = api.run({**scenario, "record": {"delivery": True}})
    times = sim.series("flow.1.delivered").index
    assert ((times > 2.05) & (times < 4.0)).sum() == 0
    assert (times < 2.0).sum() > 80 and (times > 4.0).sum() > 50

    def arrived(net: Emulation) -> tuple[int, bool]:
        (link,) = [r for r in net.links() if (r["from"], r["to"]) == ("n2", "n3")]
        return link["acked"], link["cut"]

    looked = Looked(monkeypatch, arrived)
    outcome = json.loads(emulated(scenario).json())
    cut = [count for _, (count, down) in looked.seen if down]
    assert cut and max(cut) - min(cut) <= 1  # what was on the air
    assert min(cut) > 20
    after = max(count for _, (count, _) in looked.seen)
    assert after > max(cut) + 20
    at = [t for t, (_, down) in looked.seen if down]
    assert min(at) >= 2.0
    assert next(t for t, (_, down) in looked.seen if not down and t > min(at)) >= 4.0
    assert 0.4 < outcome["flows"][0]["bytes"] / sim.outcome["flows"][0]["bytes"] < 1.6


def test_a_node_that_leaves_changes_the_route_at_the_same_time_on_sim_and_emu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """n2 and n4 both lead from n1 to n3; n2 walks away from 1.5 to 2.5 s."""
    scenario = datagrams(
        routing={"kind": "shortest"},
        mobility=[{"kind": "trace", "rows": [[1.5, "n2", 60, 0], [2.5, "n2", 60, 4000]]}],
    )
    scenario["topology"] = {**ROW, "node": [{"name": "n4", "position": [60, 30, 0]}]}
    sim = api.run({**scenario, "record": {"frames": True}})
    frames = sim.frames()
    sent = frames[(frames["node"] == "n1") & (frames["what"] == "sent")]
    turned = sent[sent["peer"] == "n4"]["time_s"].min()
    assert 2.0 <= turned < 2.2, "the next full second after it was out of reach"

    def way(net: Emulation) -> str:
        words = ["ip", "-o", "-n", net["n1"].namespace, "route", "get", net["n3"].address]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return told.split(" via ")[1].split()[0]

    looked = Looked(monkeypatch, way)
    outcome = json.loads(emulated(scenario).json())
    by = [via for _, via in looked.seen]
    assert by[0] == "10.0.0.2" and by[-1] == "10.0.0.4"
    first = next(t for t, via in looked.seen if via == "10.0.0.4")
    assert first >= 2.0
    assert outcome["stamp"]["reroutes"] >= 1
    last = max(t for t, via in looked.seen if via == "10.0.0.2")
    # How soon it was seen depends on the machine; how soon it was done the stamp knows.
    assert last < 2.0 + outcome["stamp"]["reroute_late_us"] / 1e6 + 1.0
    used = {(r["from"], r["to"]): r["acked"] for r in outcome["links"]}
    assert used["n1", "n2"] > 20 and used["n1", "n4"] > 20


def test_a_wire_is_cut_on_sim_and_live() -> None:
    flow = {"from": "n1", "to": "n3", "protocol": "udp", "rate": "200kb/s", "size": 500,
            "time": "6s"}  # fmt: skip
    scenario = {
        "topology": {"words": "linear,3,wire=10Mb/s"}, "flow": [flow], "stop": {"time": "7s"},
        "event": CUT,
    }  # fmt: skip
    sim = api.run(scenario).outcome["flows"][0]
    runner = Live({}, 60)
    runner.check(scenario)
    live = json.loads(runner(scenario).json())["flows"][0]
    # Four of the six seconds of 25,000 octets each.
    assert sim["bytes"] == pytest.approx(100_000, abs=3 * 472)
    assert live["bytes"] == pytest.approx(sim["bytes"], abs=40 * 472)
    assert live["datagrams_sent"] * 472 == pytest.approx(150_000, abs=5 * 472)


@pytest.mark.parametrize("protocol", ["tcp-newreno", "kernel:reno,window=64K"])
def test_series_of_a_connection_are_recorded_on_emu(protocol: str) -> None:
    names = ["cwnd", "srtt", "retransmits", "peer.recv_q"]
    scenario = {
        "topology": {"words": "linear,3", "set": "TB-W3"},
        "flow": [{"from": "n1", "to": "n3", "protocol": protocol, "app": "file", "bytes": "400k"}],
        "stop": {"time": "20s"},
        "record": {"series": [f"flow.1.{n}" for n in names], "interval": "20ms"},
    }  # fmt: skip
    result = emulated(scenario, {"dilation": 2})
    assert sorted(result.series_names()) == sorted(f"flow.1.{n}" for n in names)
    end = json.loads(result.json())["flows"][0]["last_byte_s"]
    cwnd = series(result, "flow.1.cwnd")
    cwnd = cwnd[cwnd[:, 1] > 0]  # There is none until the connection is open.
    assert len(cwnd) > 5
    assert (np.diff(cwnd[:, 0]) > 0).all() and 0 <= cwnd[0, 0] < cwnd[-1, 0] < end + 3
    # From a few segments, for a while growing, never beyond what 400 kB can make of it.
    assert 1000 <= cwnd[0, 1] <= 60_000 and cwnd[0, 1] < cwnd[:, 1].max() < 800_000
    srtt = series(result, "flow.1.srtt")[:, 1]
    known = srtt[~np.isnan(srtt)]
    assert len(known) > 3 and (known > 0.0005).all() and (known < 3).all()
    again = series(result, "flow.1.retransmits")[:, 1]
    assert (np.diff(again) >= 0).all()


def loaded(test: str) -> bool:
    """Whether this process knows the protocols of `examples/custom`; if not, one that does has run
    the test instead: libraries are looked for once, and the program is of their own build."""
    if os.environ.get("WIFU_LOAD") == str(LIBRARY):
        return True
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::{test}"],
        env={**os.environ, "WIFU_LOAD": str(LIBRARY), "WIFU_BIN": str(DEBUG / "wifu")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return False


@pytest.mark.skipif(LIBRARY is None, reason="examples/custom is not built: make custom")
def test_lanes_share_a_link_in_the_same_order_on_sim_and_live() -> None:
    """The lane that was opened first has the link to itself if it is told so."""
    if not loaded("test_lanes_share_a_link_in_the_same_order_on_sim_and_live"):
        return
    shares: dict[str, list[list[int]]] = {"strict": [], "drr": []}
    for order, seen in shares.items():
        # The lanes' 64 packets are a parameter, by which every host serves.
        flow = {"from": "n1", "to": "n3", "app": "bulk",
                "protocol": "ungated,lane.packets=64"}  # fmt: skip
        scenario = {
            "topology": {"words": "linear,3,wire=8Mb/s,queue=100"},
            "host": {"lanes": order},
            "flow": [{**flow, "start": f"{n * 300}ms"} for n in range(4)],
            "stop": {"time": "10s"},
        }
        runner = Live({}, 60)
        runner.check(scenario)
        for outcome in (api.run(scenario).outcome, json.loads(runner(scenario).json())):
            seen.append([f["bytes"] for f in outcome["flows"]])
    for strict, even in zip(*shares.values(), strict=True):
        # Hosts that come late lose packets, so that the link is idle for a while: in either order.
        assert strict[-1] / sum(strict) < 0.6 * even[-1] / sum(even), shares


def test_a_relay_that_does_not_serve_is_in_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon in the middle has ended: the kernel forwards, and both ends notice."""
    start = Traffic._start_daemons

    def without_relay(traffic: Traffic, crew: Any) -> dict[str, Any]:
        daemons = start(traffic, crew)
        daemons.pop("n2").stop()
        return daemons

    flow = {"from": "n1", "to": "n3", "protocol": "atp-adaptive", "app": "file", "bytes": "30k"}
    scenario = {
        "topology": {"words": "linear,3,wire=8Mb/s"}, "flow": [flow], "stop": {"time": "10s"},
    }  # fmt: skip
    runner = Live({}, 60)
    assert "unserved" not in json.loads(runner(scenario).json())["flows"][0]
    monkeypatch.setattr(Traffic, "_start_daemons", without_relay)
    outcome = json.loads(runner(scenario).json())
    assert outcome["flows"][0]["unserved"] > 5
    assert outcome["flows"][0]["unserved_at"] == ["n2"]
    assert idle(outcome)


def test_a_lanes_credits_are_recorded_on_sim_and_emu() -> None:
    """Lanes of eight packets."""
    names = ["flow.1.n2.hop-credit.credits", "flow.1.n2.queued", "flow.1.n1.hop-credit.credits"]
    scenario = {
        "topology": {"words": "linear,3,rate=24M"},
        "flow": [{"from": "n1", "to": "n3", "protocol": "hxh", "app": "file", "bytes": "2M"}],
        "stop": {"time": "30s"},
        "record": {"series": names},
    }  # fmt: skip
    sim = api.run(scenario)
    result = emulated(scenario, {"dilation": 2})
    assert sorted(result.series_names()) == sorted(names) == sorted(sim.series_names)
    for name in names:
        model, real = sim.series(name).to_numpy(), series(result, name)[:, 1]
        assert len(real) > 50
        for seen in (model, real):
            assert seen.min() >= 0 and seen.max() <= 8
        # Under way, credits are used up and packets wait: in both worlds.
        assert abs(np.median(real) - np.median(model)) <= 3
    # About one look in twenty finds a packet waiting: of some two hundred, none is no chance.
    assert series(result, names[1])[:, 1].max() > 0


def test_queues_of_nodes_are_recorded_on_emu() -> None:
    """Whoever sends more than goes through has a full queue: the kernel's and the ring together."""
    scenario = {
        "topology": {"words": "linear,3", "set": "TB-W3"}, "radio": {"queue": 20, "ring": 10},
        "flow": [{"from": "n1", "to": "n3", "protocol": "udp", "rate": "30M", "start": "500ms"}],
        "stop": {"time": "3s"}, "record": {"series": ["node.*.queue", "node.n1.delay"],
        "interval": "20ms"},
    }  # fmt: skip
    result, sim = emulated(scenario, {"dilation": 2}), api.run(scenario)
    assert sorted(result.series_names()) == sim.series_names
    queue = {n: series(result, f"node.{n}.queue") for n in ("n1", "n2", "n3")}
    early = queue["n1"][:, 0] < 0.4
    assert early.sum() > 3 and queue["n1"][early, 1].max() == 0, "nobody sends yet"
    model = sim.series("node.n1.queue").to_numpy()
    assert (model.max(), np.median(model)) == (30, 26)
    # A kernel is granted some frames beyond the ring, which lie in the TAP.
    assert 24 <= queue["n1"][:, 1].max() <= 34
    assert 20 <= np.median(queue["n1"][:, 1]) <= 34
    assert 5 < queue["n2"][:, 1].max() <= 34
    assert queue["n3"][:, 1].max() <= 2, "who only receives has nothing to send"
    delay = [np.median(d) for d in (series(result, "node.n1.delay")[:, 1],
                                    sim.series("node.n1.delay").to_numpy())]  # fmt: skip
    assert delay[0] == pytest.approx(delay[1], rel=0.5), "microseconds of model time"


def test_series_are_recorded_on_live_beside_a_cut() -> None:
    """Both transfers stand still while the wire is cut, and go on."""
    flow = {"from": "n1", "to": "n3", "app": "file", "bytes": "6M"}
    scenario = {
        "topology": {"words": "linear,3,wire=10Mb/s"},
        "flow": [{**flow, "protocol": p} for p in ("tcp-newreno", "kernel:reno")],
        "stop": {"time": "40s"}, "event": CUT,
        "record": {"series": ["flow.*.backoff", "flow.*.cwnd"], "interval": "50ms"},
    }  # fmt: skip
    runner = Live({}, 90)
    runner.check(scenario)
    result = runner(scenario)
    flows = json.loads(result.json())["flows"]
    assert [f["finished"] for f in flows] == [True, True]
    # Two seconds of silence, by whichever stack: its timer went off, each time later.
    assert all(2 <= f["timeouts"] <= 6 and 0 < f["min_rtt_s"] < 0.2 for f in flows), flows
    for number in (1, 2):
        backoff = series(result, f"flow.{number}.backoff")
        within = (backoff[:, 0] > 2.0) & (backoff[:, 0] < 4.0)
        assert np.nanmax(backoff[within, 1]) >= 1, "its timer went off"
        assert len(series(result, f"flow.{number}.cwnd")) > 20


def test_delays_of_datagrams_and_queues_of_wires_are_those_of_the_simulator() -> None:
    """Probes wait behind a transfer whose buffer outlasts its time: live as in the simulator."""
    probe = {"from": "n1", "to": "n2", "protocol": "udp", "rate": "40k", "size": 128}
    bulk = {
        "from": "n1",
        "to": "n2",
        "protocol": "tcp-newreno,rcv_wnd=15000,snd_buf=100000",
        "app": "stream",
    }
    scenario = {
        "topology": {"words": "linear,2,wire=2Mb/s,queue=50"},
        "flow": [{**bulk, "start": "2s", "time": "2s"}, {**probe, "stop_at": "1.9s"},
                 {**probe, "start": "2.5s", "stop_at": "5s"}],
        "stop": {"time": "20s"},
        "record": {"series": ["flow.*.delay", "node.n1.queue"], "interval": "20ms"},
    }  # fmt: skip
    runner = Live({}, 90)
    runner.check(scenario)
    result, sim = runner(scenario), api.run(scenario)
    assert sorted(result.series_names()) == sim.series_names
    real, model = json.loads(result.json())["flows"], sim.outcome["flows"]
    for before, loaded in ((real[1], real[2]), (model[1], model[2])):
        assert before["one_way"]["p50_s"] < 0.005
        # Behind a window of 15 kB at 2 Mb/s.
        assert 0.03 < loaded["one_way"]["p95_s"] < 0.1
        assert loaded["jitter_s"] > 0
    points = series(result, "flow.3.delay")
    assert len(points) == real[2]["one_way"]["samples"] > 100
    assert np.percentile(points[:, 1], 95) == pytest.approx(real[2]["one_way"]["p95_s"])
    queue = series(result, "node.n1.queue")
    assert queue[queue[:, 0] < 1.8, 1].max() <= 1 and 5 < queue[:, 1].max() <= 15
    # Some of what was written by 4 s came later: the buffer of the connection, and a socket's.
    for flow in (real[0], model[0]):
        late = flow["outlasted"]
        assert late["stop_s"] == pytest.approx(4.0, abs=0.1)
        assert late["bytes"] * 8 / 2e6 == pytest.approx(late["seconds"], rel=0.25)
