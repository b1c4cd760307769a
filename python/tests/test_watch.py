"""Series and events of runs in real time: what needs no root."""

import json
import math
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wifu import arrived, queues, tcpinfo, watch
from wifu import plan as plans
from wifu.cuts import Cuts, Event, events_of
from wifu.emulated import Emulated, host_of
from wifu.errors import RunError
from wifu.flows import flows_of
from wifu.live import Live, next_hops, wires_of
from wifu.places import Crew, Place
from wifu.runner import mesh
from wifu.ssh import Facts


def scenario(*protocols: str, **more: Any) -> dict[str, Any]:
    flow = [{"from": "n1", "to": "n3", "protocol": p, "app": "file", "bytes": "9k"}
            for p in protocols]  # fmt: skip
    return {"topology": {"words": "linear,3"}, "stop": {"time": "5s"}, "flow": flow, **more}


# Series -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "protocol", "hint"),
    [
        ("flow.1.sent", "tcp-cubic", "a point for each segment, which only the simulator has"),
        ("node.n9.queue", "tcp-cubic", "n9"),
        ("node.n2.length", "tcp-cubic", "nodes know queue and delay"),
        ("flow.1.pipe", "kernel:cubic", "the kernel's TCP does not tell pipe here"),
        ("flow.1.srt", "kernel:cubic", "srt"),
        ("flow.1.cubic.wmax", "tcp-cubic", "w_max"),
        ("flow.2.cwnd", "tcp-cubic", "flows are numbered from 1 to 1"),
    ],
)
def test_what_cannot_be_recorded_is_refused_by_name(name: str, protocol: str, hint: str) -> None:
    given = scenario(protocol, record={"series": [name]})
    with pytest.raises(ValueError, match=rf"record\.series\.1.*{hint}"):
        Emulated({}, None).check(given)


def test_what_packets_cost_hosts_is_of_daemons() -> None:
    Emulated({}, None).check(scenario("tcp-cubic", host={"profile": "py"}))
    kernel = scenario("tcp-cubic", "kernel:cubic", host={"profile": "py"})
    with pytest.raises(ValueError, match=r"host\.profile: .* flow 2 is the kernel's"):
        Emulated({}, None).check(kernel)
    with pytest.raises(ValueError, match=r"host\.mtu: runs on sim only"):
        Emulated({}, None).check(scenario("tcp-cubic", host={"mtu": 1400}))
    marks = scenario("tcp-cubic", host={"queue": {"kind": "codel"}})
    with pytest.raises(ValueError, match=r"host\.queue: runs on sim only"):
        Emulated({}, None).check(marks)
    vain = scenario("tcp-cubic", host={"lanes": "fifo"})
    with pytest.raises(ValueError, match=r"host\.lanes: no flow's protocol has lanes"):
        Emulated({}, None).check(vain)
    with pytest.raises(ValueError, match=r"host\.lanes: no flow's protocol has lanes"):
        Live({}, None).check({**vain, "topology": {"words": "linear,3,wire=8Mb/s"}})
    with pytest.raises(ValueError, match=r"host\.mtu: does not run on live"):
        Live({}, None).check(scenario("tcp-cubic", host={"mtu": 1400}))
    with pytest.raises(ValueError, match=r"host\.queue: does not run on live"):
        Live({}, None).check(marks)
    with pytest.raises(ValueError, match="unknown name `pi`; did you mean `py`"):
        Emulated({}, None).check(scenario("tcp-cubic", host={"profile": "pi"}))
    # Of a set it is off where a kernel's TCP stands beside.
    of_set = {"words": "linear,3", "host": {"profile": "py"}}
    assert host_of(scenario("tcp-cubic", topology=of_set)) == "py"
    assert host_of(scenario("tcp-cubic", "kernel:cubic", topology=of_set)) == "off"
    with pytest.raises(ValueError, match=r"topology\.host: does not run on live"):
        Live({}, None).check(scenario("tcp-cubic", topology=of_set))


def test_series_of_nodes_are_of_queues_and_delays_of_radios() -> None:
    given = scenario(
        "tcp-cubic", record={"series": ["node.n2.queue", "flow.1.cwnd", "node.*.delay"]}
    )
    Emulated({}, None).check(given)
    each = [(f"n{n}", "delay") for n in (1, 2)]
    assert queues.wanted(given, ["n1", "n2"]) == [("n2", "queue"), *each]
    usual = scenario("tcp-cubic", record={"series": True})
    assert queues.wanted(usual, ["n1"]) == [("n1", "queue"), ("n1", "delay")]
    assert [w.name for w in watch.wanted(given, flows_of(given), ["n1"])] == ["flow.1.cwnd"]
    given["topology"] = {"words": "linear,3,wire=10Mb/s"}
    with pytest.raises(
        ValueError, match=r"record\.series\.3.*do not tell delay here; there is queue"
    ):
        Live({}, None).check(given)
    given["record"]["series"].remove("node.*.delay")
    Live({}, None).check(given)
    hosts = {"n1": "root@n1", "n3": "root@n3"}
    given["record"]["series"] = ["node.n1.queue"]
    with pytest.raises(ValueError, match="nothing is known of such hosts"):
        Live({"hosts": hosts}, None).check(given)
    given["record"] = {"series": ["flow.*.delay"]}
    with pytest.raises(ValueError, match="clocks of hosts over SSH"):
        Live({"hosts": hosts}, None).check(given)


def test_series_are_of_senders_receivers_and_lanes() -> None:
    names = ["flow.*.cwnd", "flow.1.peer.window", "flow.1.n2.hop-credit.credits", "flow.2.srtt"]
    given = scenario("tcp-cubic", "kernel:cubic", "udp", record={"series": names})
    found = watch.wanted(given, flows_of(given), ["n1", "n2", "n3"])
    assert [(w.name, w.node, w.of, w.lane) for w in found] == [
        ("flow.1.cwnd", "n1", "cwnd", False),
        ("flow.2.cwnd", "n1", "cwnd", False),
        ("flow.1.peer.window", "n3", "window", False),
        ("flow.1.n2.hop-credit.credits", "n2", "hop-credit.credits", True),
        ("flow.2.srtt", "n1", "srtt", False),
    ]
    given["record"] = {"series": True}
    usual = [w.name for w in watch.wanted(given, flows_of(given), ["n1"])]
    assert usual == [f"flow.{n}.{of}" for n in (1, 2) for of in ("cwnd", "srtt", "offered")]
    given["record"] = {"cwnd": True}
    few = [w.name for w in watch.wanted(given, flows_of(given), ["n1"])]
    assert few == [f"flow.{n}.{of}" for of in ("cwnd", "srtt") for n in (1, 2)]
    assert (queues.wanted(given, ["n1"]), arrived.offers(given)) == ([], False)
    model = {**given, "flow": [given["flow"][0], given["flow"][2] | {"rate": "1M"}]}
    model["flow"][1]["app"] = "bulk"
    assert mesh(model).series_names() == ["flow.1.cwnd", "flow.1.srtt"]
    given["record"] = {}
    assert watch.wanted(given, flows_of(given), ["n1"]) == []


def test_numbers_become_those_of_the_simulator(tmp_path: Path) -> None:
    """Rows of other connections, of one that is over, of what is not known yet, cut short."""
    names = ["flow.1.cwnd", "flow.1.srtt", "flow.1.n2.hop-credit.credits"]
    given = scenario("hop", record={"series": names})
    script = tmp_path / "wifu"
    rows = [
        {"local": "a1:9", "remote": "a3:5201", "values": {"cwnd": 1.0, "srtt": None}, "time": 7.0},
        {"local": "a1:8", "remote": "a3:5201", "values": {"cwnd": 2.0, "srtt": None}, "time": 11.0},
        {"local": "a1:9", "remote": "a3:5201", "values": {"cwnd": 3.0, "srtt": 0.5}, "time": 12.0},
        {"local": "a1:9", "remote": "a3:5201", "values": {"cwnd": 3.5, "srtt": None}, "time": 13.0},
        {"local": "a1:9", "remote": "a3:80", "values": {"cwnd": 4.0, "srtt": 9.0}, "time": 12.0},
        {"local": "a1:9", "remote": "a3:5201", "lane": True, "values": {"cwnd": 5.0},
         "time": 12.0},
        {"local": "a1:9", "remote": "a3:5201", "lane": True,
         "values": {"hop-credit.credits": 6.0}, "time": 14.0},
    ]  # fmt: skip
    lines = "\n".join(json.dumps(r) for r in rows)
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{lines}\n{{\"loc\nEND\nexec sleep 60\n")
    script.chmod(0o755)
    places = {f"n{k}": Place(f"n{k}", f"a{k}", (), str(script), str(tmp_path)) for k in (1, 2, 3)}
    watched = watch.Watch(places, given, flows_of(given), 2.0)
    with Crew(tmp_path, time.monotonic() + 60, lambda: False) as crew:
        watched.prepare(crew)
        for program in crew.programs:
            crew.wait_for(program, '{"loc')
        watched.begin()
        watched._begun = dict.fromkeys(watched._begun, 10.0)
        watched.end()
        series = watched.series({1: ("a1:9", "a3:5201")})
    found = {}
    for name, raw in series.items():
        pairs = np.frombuffer(raw).reshape(-1, 2).tolist()
        found[name] = [[t, None if math.isnan(v) else v] for t, v in pairs]
    assert found == {
        "flow.1.cwnd": [[1.0, 3.0], [1.5, 3.5]],
        "flow.1.srtt": [[1.0, 0.25], [1.5, None]],  # half as long by the slower time of the model
        "flow.1.n2.hop-credit.credits": [[2.0, 6.0]],
    }


def test_what_is_offered_is_recorded_as_it_grows_and_of_answers_at_who_answers() -> None:
    points = [(0.1, 0.0), (0.2, 5.0), (0.3, 5.0), (0.4, math.nan), (0.5, 4.0), (0.6, 9.0)]
    assert watch.rises(points) == [(0.2, 5.0), (0.6, 9.0)]
    given = scenario("tcp-cubic", record={"series": ["flow.1.offered"]})
    given["flow"][0] = {"from": "n1", "to": "n3", "protocol": "kernel:cubic", "app": "request"}
    (found,) = watch.wanted(given, flows_of(given), ["n1", "n3"])
    assert (found.node, found.of) == ("n3", "offered")


def test_of_questions_and_answers_who_answers_is_the_sender() -> None:
    given = scenario("tcp-cubic", record={"series": ["flow.1.cwnd", "flow.1.peer.cwnd"]})
    given["flow"][0] = {"from": "n1", "to": "n3", "protocol": "tcp-cubic", "app": "request"}
    found = watch.wanted(given, flows_of(given), ["n1", "n3"])
    assert [(w.name, w.node) for w in found] == [("flow.1.cwnd", "n3"), ("flow.1.peer.cwnd", "n1")]


def seen(
    name: str, values: Sequence[tuple[int, float]], states: Sequence[str] = ()
) -> list[list[float]]:
    """The points of a series from what was told by connections of these ports, a row a second."""
    given = scenario("tcp-cubic", record={"series": [name]})
    places = {f"n{k}": Place(f"n{k}", f"a{k}", (), "wifu", "") for k in (1, 3)}
    watched = watch.Watch(places, given, flows_of(given), 1.0)
    (one,) = watched.wanted
    watched._begun = {one.node: 0.0}
    rows = []
    for at, (port, value) in enumerate(values, 1):
        ends = [f"a1:{port}", "a3:5202"]
        local, remote = ends if one.node == "n1" else reversed(ends)
        rows.append({"local": local, "remote": remote, "values": {one.of: value}, "time": at})
        if states:
            rows[-1]["state"] = states[at - 1]
    return [list(p) for p in watched._points(one, rows, ("", "a3:5202"))]


def test_what_is_offered_is_summed_over_connections() -> None:
    values = [(8, 5), (8, 9), (9, 3), (9, 4)]
    told = seen("flow.1.offered", values)
    assert told == [[1, 5], [2, 9], [3, 12], [4, 13]]


def test_series_end_with_their_connection() -> None:
    """While it waits for what may still be under way its window is of nothing any more."""
    values = [(8, 5.0), (8, 9.0), (8, 9.0), (8, 9.0)]
    states = ("ESTABLISHED", "FIN-WAIT-1", "FIN-WAIT-2", "TIME-WAIT")
    assert seen("flow.1.cwnd", values, states) == [[1, 5], [2, 9]]
    # One that came and went between two looks is seen once; and what it sent counts.
    assert seen("flow.1.cwnd", values, ("TIME-WAIT",) * 4) == [[1, 5]]
    again = [(8, 5.0), (9, 3.0)]
    assert seen("flow.1.offered", again, ("TIME-WAIT",) * 2) == [[1, 5], [2, 8]]


def test_what_the_other_end_offers_is_looked_at_once_an_interval() -> None:
    told = seen("flow.1.peer.offered", [(8, 0), (8, 0), (8, 7), (8, 7)])
    assert told == [[1, 0], [2, 0], [3, 7], [4, 7]]


def test_a_probe_of_the_receivers_part_is_asked_of_the_receivers_daemon() -> None:
    """The number has no `peer.` there: both ends have the part, and each its own value."""
    names = ["flow.*.clamp.limit", "flow.*.peer.clamp.limit"]
    given = scenario("tcp-clamp", "kernel:cubic", record={"series": names})
    watch.check(given, flows_of(given), [])
    found = watch.wanted(given, flows_of(given), ["n1", "n2", "n3"])
    assert [(w.name, w.node, w.of) for w in found] == [
        ("flow.1.clamp.limit", "n1", "clamp.limit"),
        ("flow.1.peer.clamp.limit", "n3", "clamp.limit"),
    ], "the kernel's have no such part"
    told = seen("flow.1.peer.clamp.limit", [(8, 4), (8, 5), (8, 5), (8, 9)])
    assert told == [[1, 4], [2, 5], [3, 5], [4, 9]]


def test_what_is_offered_ends_with_all_octets_of_a_flow_that_is_finished() -> None:
    points = np.array([(0.1, 5), (0.4, 9)], dtype="<f8").tobytes()
    row = {"finished": True, "bytes": 20, "last_byte_s": 0.7}
    told = np.frombuffer(watch.completed(points, row)).reshape(-1, 2)
    assert told.tolist() == [[0.1, 5], [0.4, 9], [0.7, 20]]
    late = np.frombuffer(watch.completed(points, row | {"last_byte_s": 0.3})).reshape(-1, 2)
    assert late.tolist()[-1] == [0.4, 20]
    assert np.frombuffer(watch.completed(b"", row)).tolist() == [0.7, 20]
    for more in ({"finished": False}, {"bytes": 9}):
        assert watch.completed(points, row | more) == points


def test_of_connections_that_come_and_go_the_last_one_counts() -> None:
    def row(port: int, value: float, of: str = "a3:5202") -> dict[str, Any]:
        return {"local": f"a1:{port}", "remote": of, "value": value}

    rows = [row(8, 1), row(9, 9, "a3:80"), row(8, 2), row(9, 3), row(8, 4), row(9, 5)]
    found = [(r["value"], fresh) for r, fresh in watch.present(rows, ("", "a3:5202"))]
    assert found == [(1, True), (2, False), (3, True), (5, False)]
    one = [r["value"] for r, _ in watch.present(rows, ("a1:8", "a3:5202"))]
    assert one == [1, 2, 4]


@pytest.mark.parametrize("ends", [False, True])
def test_a_flow_too_short_to_be_looked_at_has_no_points(tmp_path: Path, ends: bool) -> None:
    given = scenario("tcp-cubic", record={"series": ["flow.1.cwnd"]})
    script = tmp_path / "wifu"
    script.write_text(f"#!/bin/sh\necho here\n{'' if ends else 'exec sleep 60'}\n")
    script.chmod(0o755)
    places = {"n1": Place("n1", "a1", (), str(script), str(tmp_path))}
    watched = watch.Watch(places, given, flows_of(given), 1.0)
    with Crew(tmp_path, time.monotonic() + 60, lambda: False) as crew:
        watched.prepare(crew)
        (program,) = crew.programs
        crew.wait_for(program, "here")
        watched.begin()
        if not ends:
            watched.end()
            assert watched.series({1: ("a1:9", "a3:5201")}) == {}
            return
        program.popen.wait()
        with pytest.raises(RunError, match="series are not recorded any more: here"):
            watched.end()


def test_the_series_of_a_plan_are_asked_for_on_every_substrate() -> None:
    text = """
name = "series"
runs = 2
on = ["sim", "emu"]
[scenario]
topology.words = "linear,2"
stop.time = "5s"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "tcp-cubic"
app = "file"
bytes = "9k"
[series]
runs = [2]
record = ["cubic.w_max"]
"""
    emu = plans.parse(text).variant("emu")
    assert "record" not in emu.scenario_of(emu.cells[0], 1)
    record = emu.scenario_of(emu.cells[0], 2)["record"]
    assert record == {"series": ["all", "flow.*.cubic.w_max"]}


def test_times_and_rates_on_the_board_are_those_that_are_converted() -> None:
    source = Path(__file__).parents[2] / "crates/wifu-engine/src/quantity.rs"
    rows = [line for line in source.read_text().splitlines() if 'quantity("' in line]
    unit = {line.split('"')[1]: line.split(",")[1].strip() for line in rows}
    assert sorted(n for n, u in unit.items() if u == '"s"') == sorted(watch.SECONDS)
    assert sorted(n for n, u in unit.items() if u == "BPS") == sorted(watch.RATES)
    assert set(tcpinfo.NAMES) <= {*unit, watch.OFFERED}


# What kernels tell --------------------------------------------------------------------------------


def test_a_kernel_tells_of_its_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as peer:
            client.sendall(b"x" * 5000)
            peer.recv(1)
            words = [sys.executable, tcpinfo.__file__, "watch", "0.05", "127.0.0.1"]
            with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
                assert program.stdout is not None
                own, found = f"127.0.0.1:{client.getsockname()[1]}", dict[str, Any]()
                # Others may have connections on this host, too.
                while not {own, f"127.0.0.1:{port}"} <= found.keys():
                    row = json.loads(program.stdout.readline())
                    found[row["local"]] = row
                program.terminate()
    sender, receiver = found[own], found[f"127.0.0.1:{port}"]
    assert (sender["remote"], receiver["remote"]) == (f"127.0.0.1:{port}", own)
    assert set(sender["values"]) == set(tcpinfo.NAMES)
    mss = sender["values"]["mss"]
    # Linux's initial window, and a segment for each that was acknowledged.
    assert sender["values"]["cwnd"] % mss == 0
    assert 10 * mss <= sender["values"]["cwnd"] <= 20 * mss
    assert sender["values"]["ssthresh"] is None
    assert 0 < sender["values"]["srtt"] < 1
    assert 0.1 < sender["values"]["rto"] < 2
    assert receiver["values"]["recv_q"] == 4999
    assert (sender["values"]["offered"], receiver["values"]["offered"]) == (5000, 0)
    assert abs(time.time() - sender["time"]) < 60


def test_an_older_kernel_tells_less() -> None:
    info = bytearray(104)
    struct.pack_into("=I", info, 16, 1000)
    struct.pack_into("=I", info, 80, 7)
    found = tcpinfo.values(bytes(info), 1, 2)
    assert (found["cwnd"], found["peer_window"], found["unsent"]) == (7000, None, None)
    assert (found["srtt"], found["min_rtt"]) == (None, None)
    assert all(v is None or not math.isnan(v) for v in found.values())


def test_python_has_to_be_where_it_tells_of_the_kernel() -> None:
    facts = {n: Facts("Linux", "1", "s", True, False, n) for n in ("n1", "n3")}
    hosts = {n: SimpleNamespace(open=lambda n=n: facts[n], program="wifu") for n in facts}
    substrate = Live({"hosts": {"n1": "a", "n3": "b"}}, None)
    given = scenario("kernel:cubic", "tcp-cubic", record={"series": ["flow.*.cwnd"]})
    with pytest.raises(RunError, match=r"no python3 there, which the series flow\.1\.cwnd needs"):
        substrate._open(hosts, [given])  # type: ignore[arg-type]
    ours = scenario("tcp-cubic", record={"series": ["flow.*.cwnd"]})
    substrate._open(hosts, [ours, {**given, "record": {}}])  # type: ignore[arg-type]
    with pytest.raises(RunError, match="no python3 there, which udp needs"):
        substrate._open(hosts, [scenario("udp")])  # type: ignore[arg-type]


# Events -------------------------------------------------------------------------------------------

CUT = [{"at": "0.2s", "cut": ["n2", "n3"]}, {"at": 0.4, "restore": ["n3", "n2"]}]


def test_events_run_where_they_mean_something() -> None:
    wired = scenario("tcp-cubic", event=CUT)
    Emulated({}, None).check(wired)
    wired["topology"] = {"words": "linear,3,wire=10Mb/s"}
    Live({}, None).check(wired)
    wired["event"] = [{"at": 1, "cut": ["n1", "n3"]}]
    with pytest.raises(ValueError, match=r"event\.1.cut: nothing passes from n1 to n3 anyhow"):
        Live({}, None).check(wired)
    hosts = {"n1": "root@a", "n3": "root@b"}
    with pytest.raises(ValueError, match="event: what joins hosts over SSH cannot be cut"):
        Live({"hosts": hosts}, None).check(scenario("tcp-cubic", event=CUT))
    split = {"split": [{"nodes": ["n2"]}]}
    with pytest.raises(ValueError, match="split: does not run on live"):
        Live({}, None).check({**wired, **split})
    with pytest.raises(ValueError, match="split: runs on sim only"):
        Emulated({}, None).check(scenario("tcp-cubic", **split))
    with pytest.raises(ValueError, match="mobility: does not run on live"):
        Live({}, None).check({**wired, "mobility": [{"kind": "trace", "rows": []}]})
    quick = scenario("kernel:reno,quickack=on", event=CUT)
    own = r"flow\.1.protocol: quickack=on is a route of its own"
    with pytest.raises(ValueError, match=own):
        Emulated({}, None).check(quick)
    quick["topology"] = {"words": "linear,3,wire=10Mb/s"}
    with pytest.raises(ValueError, match=own):
        Live({}, None).check(quick)


def test_wires_are_cut_in_time_and_routes_follow_at_full_seconds() -> None:
    done: list[tuple[float, str]] = []
    over = threading.Event()
    begun = 0.0

    def run(host: str, *words: str) -> str:
        done.append((time.monotonic() - begun, f"{host} {' '.join(words[1:7])}"))
        return ""

    def route(cut: set[tuple[str, str]]) -> None:
        done.append((time.monotonic() - begun, f"routes without {sorted(cut)}"))
        over.set()

    ends = {("n2", "n3"): ["eth1"], ("n3", "n2"): ["eth1"]}
    cuts = Cuts(events_of({"event": CUT}), ends, run, route)
    cuts.prepare()
    assert len(done) == 12  # each device is tried, for each event
    done.clear()
    begun = time.monotonic()
    cuts.begin()
    assert over.wait(30)
    cuts.end()
    assert [what for _, what in done] == [
        "n2 filter add dev eth1 egress pref",
        "n3 filter add dev eth1 egress pref",
        "n3 filter del dev eth1 egress pref",
        "n2 filter del dev eth1 egress pref",
        "routes without []",
    ]
    for (at, _), least in zip(done, [0.2, 0.2, 0.4, 0.4, 1.0], strict=True):
        assert at >= least


def test_an_error_while_a_wire_is_cut_fails_the_run() -> None:
    def run(host: str, *words: str) -> str:
        raise RuntimeError("no such device")

    cuts = Cuts([Event(0.0, "a", "b", True)], {("a", "b"): ["eth0"]}, run, lambda cut: None)
    cuts.begin()
    assert cuts._thread is not None
    cuts._thread.join()
    with pytest.raises(Exception, match="could not be cut or restored: no such device"):
        cuts.end()


def test_routes_lead_around_a_wire_that_is_cut() -> None:
    wire = [{"a": a, "b": b, "rate": "1M"} for a, b in (("a", "b"), ("b", "c"), ("a", "c"))]
    nodes, wires = wires_of({"topology": {"wire": wire}})
    assert next_hops(nodes, wires)["a"] == {"b": "b", "c": "c"}
    assert next_hops(nodes, wires[:2])["a"] == {"b": "b", "c": "b"}
