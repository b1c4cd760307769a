"""What senders waited for beside their congestion control, levels without effect, marks that nobody
made, relays that shut out who passes, and ways: told of real runs.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from fake import FakeResult
from test_cautions import PLAN, made, said

import wifu
from wifu import crowdedout, early, happenings, mirrored, misnamed, unlike
from wifu import plan as plans
from wifu.stamps import warned

WIRES = """
name = "held"
runs = 2
metrics = ["goodput"]
[scenario]
topology.words = "linear,4,wire=10Mb/s,delay=5ms,queue=50"
stop.time = "6s"
[[scenario.flow]]
from = "n1"
to = "n4"
jitter = "50ms"
protocol = "{protocol}"
"""
PROTOCOLS = '[vary]\nprotocol = ["tcp-newreno", "tcp-cubic"]\n'


def ran(folder: Path, text: str) -> wifu.Results:
    return wifu.campaign(plans.parse(text), folder / "r")


@pytest.mark.parametrize(
    ("set_to", "words"),
    [
        ("", "but for room in their own node's queue, which loses nothing of theirs"),
        (",rcv_wnd=8k", "but for the receiver's window"),
        (",snd_buf=8k", "but for the send buffer"),
    ],
)
def test_what_held_all_senders_is_told_beside_what_protocols_did(
    tmp_path: Path, set_to: str, words: str
) -> None:
    text = WIRES + PROTOCOLS.replace('o",', f'o{set_to}",').replace('c"]', f'c{set_to}"]')
    told = said(ran(tmp_path, text), "goodput")
    cells = (
        f"tcp-{name}{set_to.replace(',', '-').replace('_', '-').replace('=', '-')}"
        for name in ("newreno", "cubic")
    )
    shares = ", ".join(f"{cell} (\\d+)%" for cell in cells)
    found = re.search(rf"{re.escape(words)} \({shares}\)", told)
    assert found and int(found[1]) > 80, told


def narrowed(text: str, delay: str = "5ms") -> str:
    """The same with a narrow wire behind a wide one."""
    wires = [("n1", "n2", "100Mb/s", "1ms"), ("n2", "n3", "10Mb/s", delay)]
    named = "".join(f'[[scenario.topology.node]]\nname = "n{k}"\n' for k in (1, 2, 3))
    topology = named + "".join(
        f'[[scenario.topology.wire]]\na = "{a}"\nb = "{b}"\nrate = "{rate}"\n'
        f'delay = "{delay}"\nqueue = 50\n'
        for a, b, rate, delay in wires
    )
    text = text.replace('topology.words = "linear,4,wire=10Mb/s,delay=5ms,queue=50"\n', "")
    return text.replace('"n4"', '"n3"').replace("[[scenario.flow]]", topology + "[[scenario.flow]]")


def test_what_a_path_limits_is_no_such_limit(tmp_path: Path) -> None:
    """The narrow link is a hop further on: windows decide, and nothing is told."""
    told = said(ran(tmp_path, narrowed(WIRES) + PROTOCOLS), "goodput")
    assert "congestion control" not in told


def test_waiting_for_room_is_told_of_protocols_alone(tmp_path: Path) -> None:
    text = (
        WIRES.replace("{protocol}", "tcp-sack")
        + "[vary.end]\nsome = {}\nmore = { \"stop.time\" = '7s' }\n"
    )
    assert "congestion control" not in said(ran(tmp_path, text), "goodput")


def test_levels_of_an_axis_that_nothing_uses_are_told(tmp_path: Path) -> None:
    text = WIRES + PROTOCOLS + '[vary.gain]\nlow = {}\nhigh = { "radio.gain_db" = 6 }\n'
    text = text.replace("runs = 2", 'runs = 2\npair = "protocol"')
    text = text.replace("linear,4,wire=10Mb/s,delay=5ms,queue=50", "linear,4")
    told = said(ran(tmp_path, text), "goodput")
    assert "Along `gain` runs were the same packet by packet: low and high. What sets" in told
    assert "Along `protocol`" not in told


def test_congestion_control_by_marks_where_nobody_marks(tmp_path: Path) -> None:
    text = WIRES + '[vary]\nprotocol = ["tcp-newreno", "tcp-dctcp"]\n'
    told = said(ran(tmp_path / "a", text), "goodput")
    assert "Transports ask for marks (ecn=on) in tcp-dctcp, and no queue marked" in told
    handler = '[[scenario.handler]]\nuse = "drop"\np = 0.01\n[[scenario.flow]]'
    dropped = ran(tmp_path / "c", text.replace("[[scenario.flow]]", handler))
    assert "Transports ask for marks" in said(dropped, "goodput"), "it marks nothing"
    queue = '[scenario.host.queue]\nkind = "codel"\n[[scenario.flow]]'
    marked = text.replace("[[scenario.flow]]", queue)
    assert "Transports ask for marks" not in said(ran(tmp_path / "b", marked), "goodput")


ONE = WIRES.replace("{protocol}", "tcp-newreno")
RELAY = ONE.replace("queue=50", "queue=20") + (
    '[[scenario.flow]]\nfrom = "n2"\nto = "n4"\njitter = "50ms"\n'
    'protocol = "tcp-newreno"\n[vary.start]\nboth = {}\nlate = { "flow.2.start" = "20s" }\n'
)
SHUT = "a relay's own transport shut connections out that pass it"


def test_a_transport_at_a_relay_shuts_out_who_passes(tmp_path: Path) -> None:
    found = ran(tmp_path, RELAY)
    told = said(found, "goodput")
    assert "Connections lost packets to the full queue of a node that they pass" in told
    assert "flow 1 in both" in told and "in late" not in told
    assert SHUT in unlike.reasons(found, found.plan.cells, "goodput@1")
    assert SHUT not in unlike.reasons(found, found.plan.cells[1:], "goodput@1")
    rows = found.flows[found.flows["flow"] == 1].set_index("cell")
    assert rows.loc["both", "goodput_bps"].mean() < 0.3 * rows.loc["late", "goodput_bps"].mean()


def test_who_fills_a_queue_alone_is_not_shut_out() -> None:
    def outcome(waited: float) -> dict[str, Any]:
        hop = {"flow": 1, "from": "n2", "to": "n3", "reverse": False, "packets": 100}
        own = {"flow": 2, "from": "n2", "to": "n3", "reverse": False, "packets": 100}
        flows = [
            {"id": 1, "from": "n1", "to": "n4", "protocol": "tcp-newreno", "limited_s": {}},
            {"id": 2, "from": "n2", "to": "n4", "protocol": "tcp-newreno"},
        ]
        flows[1]["limited_s"] = {"queue": waited, "window": 1.0}
        return {"flows": flows, "hops": [{**hop, "queue_drops": 7}, own]}

    for waited, refused in ((0.0, 0.0), (0.5, 0.0), (2.0, 7.0)):
        told = outcome(waited)
        assert [crowdedout.shut_out(told, f) for f in told["flows"]] == [refused, 0.0]


def test_shorter_round_trips_of_who_carried_less_have_no_colour(tmp_path: Path) -> None:
    def flows(octets: int, trip: float) -> list[dict[str, Any]]:
        rtt = {"p50_s": trip, "p95_s": trip, "p99_s": trip, "samples": 100}
        return [{"last_byte_s": 4.0, "bytes": octets, "rtt": rtt, "srtt_s": trip}]

    why = "round trips are shorter where more than a tenth less was carried"
    for name, less, reason in (("a", 0.1, True), ("b", 0.9, False), ("c", 0.3, False)):
        of = {"tcp-reno": flows(5_000_000, 0.3), "tcp-newreno": flows(1_000_000, less)}
        if name == "c":  # alike carried
            of["tcp-newreno"] = flows(4_900_000, 0.1)
        found = made(tmp_path / name, of)
        assert (why in unlike.reasons(found, found.plan.cells, "rtt_p95")) == reason, name
        told = "shorter in tcp-newreno than in tcp-reno, whose flows carried 4.98 times as much"
        assert (told in said(found, "rtt_p95")) == reason


def test_ways_that_are_not_mirrored_are_told(tmp_path: Path) -> None:
    def hop(a: str, b: str, reverse: bool, packets: int = 100) -> dict[str, Any]:
        times = dict.fromkeys(("node_s", "queue_s", "contention_s", "retry_s", "air_s"), 0.0)
        own = {"flow": 1, "from": a, "to": b, "reverse": reverse, "packets": packets}
        return {**own, **times, "hop": 1, "lost": 0, "propagation_s": 0.0}

    there = [hop("n1", "n2", False), hop("n2", "n3", False)]
    mirror = [hop("n3", "n2", True, 50), hop("n2", "n1", True, 50), hop("n3", "n1", True, 1)]
    other = [hop("n3", "n1", True, 50)]
    told = [mirrored.other_way_back({"hops": there + b}, {"id": 1}) for b in (mirror, other, [])]
    assert told == [False, True, None]
    flows = {
        p: [
            {"last_byte_s": 4.0, "from": "n1", "to": "n3", "hops": 2},
            {"last_byte_s": 4.0, "from": "n3", "to": "n1", "hops": 1},
        ]
        for p in ("tcp-reno", "tcp-newreno")
    }
    found = made(tmp_path, flows, hops=there + other)
    words = said(found, "goodput")
    assert "came back over other links than data went (flow 1 in tcp-reno" in words
    assert "between n1 and n3 flow 1 has 2 hops and flow 2 has 1 (tcp-" in words


def test_totals_of_both_directions_of_wires_are_told(tmp_path: Path) -> None:
    back = '[[scenario.flow]]\nfrom = "n4"\nto = "n1"\nprotocol = "tcp-newreno"\n'
    found = ran(tmp_path, ONE + back)
    assert "a total may be twice what a wire carries" in said(found, "aggregate")
    assert "a total may be" not in said(found, "goodput")


def test_runs_of_two_kinds_are_told(tmp_path: Path) -> None:
    """A mean of 5 s, where no run took less than 2 or more than 10, and none that."""

    def results(folder: Path, ends: list[float]) -> wifu.Results:
        def runner(scenario: dict[str, Any]) -> FakeResult:
            flow = {"id": 1, "protocol": "tcp-reno", "app": "file", "start_s": 0.0, "bytes": 10**6}
            flow |= {"last_byte_s": ends[scenario["run"] - 1], "finished": True}
            return FakeResult({"sim_seconds": 60.0, "flows": [flow]}, {})

        text = PLAN.replace("runs = 8", f"runs = {len(ends)}").replace("copies = 2\n", "")
        return wifu.campaign(plans.parse(text), folder, runner=runner)

    two = results(tmp_path / "a", [2.0, 2.1, 2.2, 10.0, 10.3, 10.1])
    words = "(tcp-reno 3 runs of 2.000 to 2.200 and 3 runs of 10.00 to 10.30 s, tcp-newreno"
    assert f"Runs are of two kinds in some cells {words}" in said(two, "delay")
    one = results(tmp_path / "b", [2.0, 2.1, 2.2, 10.0, 6.0, 4.0])
    single = results(tmp_path / "c", [2.0, 2.1, 2.2, 2.3, 2.0, 10.0])
    for found in (one, single):
        assert "two kinds" not in said(found, "delay")


def test_how_often_a_daemon_speaks_changes_no_route() -> None:
    text = PLAN + '[vary.hello]\na = { "routing.olsr.hello" = "1s" }\nb = {}\n'
    assert any("no route depends on them" in w for w in misnamed.warnings(plans.parse(text)))
    kept = text.replace('{ "routing.olsr.hello" = "1s" }', '{ "stop.time" = "9s" }')
    assert not misnamed.warnings(plans.parse(kept))


def test_a_warning_of_some_runs_says_of_how_many(tmp_path: Path) -> None:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        flow = {"id": 1, "protocol": "tcp-reno", "app": "file", "start_s": 0.0, "bytes": 10**6}
        flow |= {"last_byte_s": 4.0 + scenario["run"], "finished": True}
        outcome: dict[str, Any] = {"sim_seconds": 60.0, "flows": [flow]}
        reno = scenario["flow"][0]["protocol"] == "tcp-reno"
        outcome["trace_hash"] = f"{scenario['run']}"
        return FakeResult(outcome | {"warnings": ["nothing"] * (reno or scenario["run"] < 4)}, {})

    found = wifu.campaign(plans.parse(PLAN), tmp_path / "r", runner=runner)
    told = ["nothing (cells tcp-newreno in 3 of 8 runs, tcp-reno)."]
    assert warned(found.manifest) == told


FILE = ONE.replace('jitter = "50ms"', 'jitter = "50ms"\napp = "file"\nbytes = "200k"')
FILE = FILE.replace("linear,4,wire=10Mb/s,delay=5ms,queue=50", "linear,4")


def test_what_comes_after_the_end_of_runs_is_told(tmp_path: Path) -> None:
    text = FILE + (
        '[[scenario.event]]\nat = "3s"\ncut = ["n2", "n3"]\n'
        '[vary.size]\nshort = {}\nlong = { "flow.1.bytes" = "9M" }\n'
    )
    found = ran(tmp_path, text)
    told = "never met it, in some runs or all (a link is cut at 3 s: short all)"
    assert told in said(found, "goodput")
    why = "some were over before what others met"
    assert why in unlike.reasons(found, found.plan.cells, "goodput")
    assert why not in unlike.reasons(found, found.plan.cells[1:], "goodput")
    told = said(ran(tmp_path / "m", text.replace('"3s"', '"0.2s"')), "goodput")
    assert "never met it" not in told


def test_flows_that_were_over_before_their_load_or_a_cut_are_told(tmp_path: Path) -> None:
    """... though their run goes on."""
    text = FILE + (
        '[[scenario.event]]\nat = "4s"\ncut = ["n2", "n3"]\n'
        '[[scenario.flow]]\nfrom = "n1"\nto = "n4"\nprotocol = "udp"\nrate = "50k"\n'
        'start = "3s"\ntime = "9s"\n'
    )
    found = ran(tmp_path, text)
    told = "(a link is cut at 4 s: only all, flow 2 begins at 3 s: only all)"
    assert all(told in said(found, metric) for metric in ("goodput", "goodput@1", "delay@1"))
    assert "never met" not in said(found, "goodput@2")


def test_what_happens_is_known_by_its_moments() -> None:
    scenario = {
        "event": [{"at": "2s", "cut": ["n1", "n2"]}, {"at": "3s", "restore": ["n1", "n2"]}],
        "topology": {"interferer": [{"start": "1s"}, {"duty": 0.5}]},
        "mobility": [{"rows": [[4.0, "n1", 0, 0], [9.0, "n1", 1, 1]]}, {"kind": "waypoint"}],
    }
    assert list(happenings.moments(scenario)) == [
        (2.0, "a link is cut"), (3.0, "a link is restored"), (1.0, "an interferer begins"),
        (4.0, "a node begins to move"),
    ]  # fmt: skip


def test_delays_in_queues_that_grow_all_the_run_long_are_told(tmp_path: Path) -> None:
    text = WIRES.replace("{protocol}", "udp").replace("queue=50", "queue=100000") + 'rate = "{r}"\n'
    text = text.replace("goodput", "one_way_p95") + '[vary]\nr = ["9M", "11M"]\n'
    told = said(ran(tmp_path, text), "one_way_p95")
    assert "queues that still grew when runs ended (11M):" in told


def test_flows_of_few_round_trips_are_told(tmp_path: Path) -> None:
    told = said(ran(tmp_path / "far", narrowed(ONE, "99ms")), "goodput")
    assert "by the clock after few round trips (only 2" in told
    assert "round trips" not in said(ran(tmp_path / "near", narrowed(ONE)), "goodput")


def test_what_is_of_how_long_runs_are_is_one_note(tmp_path: Path) -> None:
    far = narrowed(WIRES, "99ms") + '[vary]\nprotocol = ["tcp-newreno", "atp"]\n'
    told = said(ran(tmp_path, far), "goodput")
    assert told.count("How long runs are is in these numbers.") == 1
    assert "few round trips (tcp-newreno 2" in told
    assert "ATP changes its rate once in an epoch, of which its flows had few (atp " in told
    assert told.count("tells what they come to.") == 1
    assert "A longer `stop.time`, with a `window` at its end, tells what they come to." in told
    ways = [("a longer run",), ("a longer run, with a window", "another")]
    both = early.sentence([early.Early("One.", ways[0]), early.Early("Two.", ways[1])])
    assert both.endswith("Two. A longer run, with a window, or another, tells what they come to.")


def test_what_one_run_drew_once_is_told_beside_an_interval_of_its_batches(tmp_path: Path) -> None:
    text = FILE.replace("runs = 2", 'runs = 1\nmeasure = "steady"')
    text = text.replace('stop.time = "6s"', "stop.packets = 330\nstop.batch = 30")
    text = text.replace('topology.words = "linear,4"', 'topology.words = "linear,4"\n{more}')
    text = text.replace('bytes = "200k"', 'bytes = "9M"')
    plain = ran(tmp_path / "a", text.replace("{more}", ""))
    assert "drawn once" not in said(plain, "goodput")
    slow = ran(
        tmp_path / "b", text.replace("{more}", 'topology.fading = { sigma_db = 1.0, tau = "60s" }')
    )
    assert "drawn once for a run is the same in all of them (only: slow fading)" in said(
        slow, "goodput"
    )
    placed = text.replace("linear,4", "random,4,area=30x30").replace("{more}", "")
    assert "(only: where nodes stand)" in said(ran(tmp_path / "c", placed), "goodput")
