"""Pitfalls of measuring networks: what a plan offers, waits for, draws and throws away, and what
its runs are too short for.
"""

from pathlib import Path
from typing import Any

import pytest
from fake import FakeResult, pairs
from test_cautions import PLAN, made, said
from test_limited import FILE, ONE, WIRES, narrowed, ran

import wifu
from wifu import (
    advised,
    compared,
    cutoff,
    happenings,
    misnamed,
    narrow,
    offers,
    selected,
    short,
    unlike,
)
from wifu import plan as plans
from wifu.growing import _grows_until_loss
from wifu.rows import composed, over_tcp, rows_of

UDP = WIRES.replace("{protocol}", "udp")


def test_what_was_offered_and_arrived_is_no_capacity(tmp_path: Path) -> None:
    text = UDP + 'rate = "{offer}"\n[vary]\noffer = ["1M", "40M"]\n'
    found = ran(tmp_path, text)
    told = said(found, "goodput")
    assert "All that was offered arrived in 1M: goodput is the plan's `rate` there" in told
    told = said(found, "loss")
    assert "by the full queue of the node where it begins (40M 100%): more was offered" in told


def test_what_a_nodes_own_queue_refused_is_counted() -> None:
    hop = {"flow": 1, "from": "n1", "to": "n2", "reverse": False, "packets": 9, "queue_drops": 5}
    flow = {"id": 1, "from": "n1", "protocol": "udp"}
    later = hop | {"from": "n2", "to": "n3", "queue_drops": 4}
    assert offers.own_full({"hops": [hop | {"early_drops": 2}, later]}, flow) == 3.0
    assert offers.own_full({"hops": [hop]}, flow | {"protocol": "tcp-reno"}) is None
    assert offers.own_full({"hops": [hop | {"queue_drops": None}]}, flow) is None


CLOSED = PLAN.replace('app = "file"\nbytes = "1M"', 'app = "request"\nstop_at = "9s"')


def test_who_waits_asks_less(tmp_path: Path) -> None:
    why = "who asked less has no longer waits"

    def flows(count: int, delay: float) -> list[dict[str, Any]]:
        requests = [{"delay_s": delay, "start_s": 0.0} for _ in range(count)]
        own = {"app": "request", "requests": requests, "last_byte_s": 9.0, "finished": False}
        return [own, own]

    for name, (fewer, slow), reason in (
        ("a", (50, 0.1), True), ("b", (50, 0.2), False), ("c", (95, 0.1), False)
    ):  # fmt: skip
        of = {"tcp-reno": flows(100, 0.1), "tcp-newreno": flows(fewer, slow)}
        found = made(tmp_path / name, of, text=CLOSED)
        reasons = unlike.reasons(found, found.plan.cells, "delay_p95")
        assert (why in reasons) == reason, (name, reasons)
        words = "Runs asked from 100 (tcp-newreno) to 200 (tcp-reno) times"
        assert (words in said(found, "delay_p95")) == (fewer == 50)
    counted = CLOSED.replace('stop_at = "9s"', "count = 100")
    found = made(tmp_path / "d", {"tcp-reno": flows(100, 0.1), "tcp-newreno": flows(50, 0.1)},
                 text=counted)  # fmt: skip
    assert why not in unlike.reasons(found, found.plan.cells, "delay_p95")


def test_queues_that_connections_fill_all_the_time_are_told(tmp_path: Path) -> None:
    wires = [("n1", "n2", "100Mb/s", "1ms"), ("n2", "n3", "5Mb/s", "5ms")]
    nodes = "".join(f'[[scenario.topology.node]]\nname = "n{k}"\n' for k in (1, 2, 3))
    lines = "".join(
        f'[[scenario.topology.wire]]\na = "{a}"\nb = "{b}"\nrate = "{rate}"\n'
        f'delay = "{delay}"\nqueue = 1000\n'
        for a, b, rate, delay in wires
    )
    text = ONE.replace('topology.words = "linear,4,wire=10Mb/s,delay=5ms,queue=50"\n', "")
    text = text.replace('"n4"', '"n3"').replace(
        "[[scenario.flow]]", nodes + lines + "[[scenario.flow]]"
    )
    words = "connections lost nothing yet, and filled a queue all the time (only):"
    assert words in said(ran(tmp_path / "long", text), "rtt_p95")
    short = text.replace("queue = 1000", "queue = 30")
    assert words not in said(ran(tmp_path / "short", short), "rtt_p95")


def test_radios_behind_a_full_wire_are_told(tmp_path: Path) -> None:
    wires = [{"from": "s", "to": "g", "packets": 100, "bytes": 120_000}]
    flows = [{"start_s": 1.0, "last_byte_s": 2.0}]
    topology = {"wire": [{"a": "s", "b": "g", "rate": "1Mb/s", "overhead": 0}]}
    topology["node"] = [{"name": name, "wired_only": True} for name in "sg"]
    told = narrow.columns({"wires": wires, "flows": flows}, {"topology": topology})
    assert told == {"fullest_wire": 0.96}
    assert narrow.columns({"flows": flows}, {"topology": topology}) == {}
    topo = """
[[scenario.topology.node]]
name = "s"
wired_only = true
[[scenario.topology.node]]
name = "n1"
position = [0.0, 0.0, 0.0]
[[scenario.topology.node]]
name = "n2"
position = [5.0, 0.0, 0.0]
[[scenario.topology.wire]]
a = "s"
b = "n1"
rate = "1Mb/s"
delay = "1ms"
[[scenario.flow]]"""
    text = ONE.replace('topology.words = "linear,4,wire=10Mb/s,delay=5ms,queue=50"\n', "")
    text = text.replace('"n1"', '"s"').replace('"n4"', '"n2"').replace("[[scenario.flow]]", topo)
    text += '[vary.rates]\na = { "radio.rate" = "6Mb/s" }\nb = { "radio.rate" = "24Mb/s" }\n'
    full = "A wire was full in all compared cells (a 100%, b 100% of its rate)"
    assert full in said(ran(tmp_path, text), "goodput")
    text = text.replace('rate = "1Mb/s"', 'rate = "100Mb/s"')
    assert "A wire was full" not in said(ran(tmp_path / "b", text), "goodput")


def test_shares_of_flows_that_stand_still_by_turns_are_told(tmp_path: Path) -> None:
    for still, is_told in ((30.0, True), (1.0, False)):
        flows = [{"last_byte_s": None, "finished": False, "timeout_s": still, "timeouts": 9}] * 2
        found = made(tmp_path / str(still), {"tcp-reno": flows, "tcp-newreno": flows})
        words = "flows waited for timeouts meanwhile (tcp-reno 50%, tcp-newreno 50% of their time)"
        assert (words in said(found, "jain")) == is_told
        assert "by turns" not in said(found, "goodput")


def test_sizes_without_bound_are_told(tmp_path: Path) -> None:
    flows = [{"last_byte_s": 4.0}, {"last_byte_s": 5.0}]
    both = {"tcp-reno": flows, "tcp-newreno": flows}
    for name, more, is_told in (("a", "", True), ("b", "shape = 3.0", False)):
        text = PLAN.replace('app = "file"\nbytes = "1M"', f'app = "http"\npause = "1s"\n{more}')
        found = made(tmp_path / name, both, text=text)
        assert ("heavy-tailed (`http`, shape 1.5)" in said(found, "delay")) == is_told


def test_placements_that_were_drawn_again_are_told() -> None:
    text = PLAN.replace('"linear,2"', '"random,{nodes},area=200x200"') + "nodes = [5, 20]\n"
    assert any("until they are connected" in w for w in selected.warnings(plans.parse(text)))
    same = text.replace("[5, 20]", "[20]")
    assert not selected.warnings(plans.parse(same))
    line = text.replace("random,{nodes},area=200x200", "linear,{nodes}")
    assert not selected.warnings(plans.parse(line))


def test_standards_at_their_slowest_rates_are_told() -> None:
    places = [f'{{ name = "n{n}", position = [{n}.0, 0.0, 0.0] }}' for n in (1, 2)]
    text = PLAN.replace('topology.words = "linear,2"', f"topology.node = [{', '.join(places)}]")
    text += '[vary.standards]\na = {}\nb = { "topology.channel.standard" = "802.11b" }\n'
    assert any("1 Mb/s of 802.11b" in w for w in misnamed.warnings(plans.parse(text)))


def test_an_algorithm_beside_the_slowest_rate_is_told() -> None:
    text = PLAN + '[vary.rates]\nfixed = {}\nm = { "radio.rate_control" = "minstrel" }\n'

    def told(text: str) -> bool:
        return any("slowest rate" in words for words in misnamed.warnings(plans.parse(text)))

    assert told(text)
    assert not told(text.replace("[scenario]", '[scenario]\nradio.rate = "24Mb/s"'))
    assert not told(text.replace("m = {", "k = { \"radio.rate_control\" = 'fixed' }\n#"))


def one_of_each(folder: Path, ends: list[float], text: str = PLAN) -> wifu.Results:
    """A file per run and protocol that took so long."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        flow = {"id": 1, "protocol": "tcp-reno", "app": "file", "start_s": 0.0, "bytes": 10**6}
        end = ends[scenario["run"] - 1]
        if scenario["flow"][0]["protocol"] == "tcp-newreno":
            end = other[scenario["run"] - 1]
        flow |= {"last_byte_s": end, "finished": True}
        return FakeResult({"sim_seconds": 60.0, "flows": [flow]}, {})

    other = [end * 1.0001 for end in ends]
    text = text.replace("runs = 8", f"runs = {len(ends)}").replace("copies = 2\n", "")
    return wifu.campaign(plans.parse(text), folder, runner=runner)


def test_a_few_runs_that_make_the_mean_are_told(tmp_path: Path) -> None:
    rare = one_of_each(tmp_path / "a", [1.0, 1.1, 1.2, 0.9, 1.0, 1.1, 10.0, 1.2])
    words = "(tcp-reno 1 of 8, tcp-newreno 1 of 8 runs): mean and interval hang on how many"
    assert words in said(rare, "delay") and words in said(rare, "goodput")
    even = one_of_each(tmp_path / "b", [1.0, 1.1, 1.2, 0.9, 1.0, 1.1, 1.3, 1.2])
    assert "far from the others" not in said(even, "delay")


@pytest.mark.parametrize(("ratio", "why"), [(1.004, compared.TRIVIAL), (1.006, ""), (0.996, None)])
def test_differences_too_small_to_be_of_use_have_no_colour(ratio: float, why: str | None) -> None:
    row = {"n": 8, "ratio": ratio, "low": ratio - 1e-4, "high": ratio + 1e-4, "identical": False,
           "p_holm": 0.01}  # fmt: skip
    found = compared.told(row, "goodput")
    assert found.why == (compared.TRIVIAL if why is None else why) and found.clear == (
        not found.why
    )


def test_means_of_rates_are_told_beside_bytes_by_time(tmp_path: Path) -> None:
    def flows(*ends: float) -> list[dict[str, Any]]:
        return [{"last_byte_s": end} for end in ends]

    of = {"tcp-reno": flows(1.0, 10.0), "tcp-newreno": flows(1.9, 2.0)}
    found = made(tmp_path / "a", of)
    why = "in another order by the times that files took"
    assert "by all of their time it is less (tcp-reno 1.46 Mb/s, not 4.42)" in said(
        found, "goodput"
    )
    assert why in unlike.reasons(found, found.plan.cells, "goodput")
    asks = [{"delay_s": 1.0, "start_s": 0.0}]
    for n, app in enumerate(('"trace"\nrows = [[0.0, 1_000_000]]', '"request"\ncount = 1')):
        text = PLAN.replace('"file"\nbytes = "1M"', app)
        asked = {
            p: [own | {"app": app[1:8], "requests": asks} for own in rows] for p, rows in of.items()
        }
        found = made(tmp_path / f"c{n}", asked, text)
        assert why in unlike.reasons(found, found.plan.cells, "goodput"), app
    again = made(tmp_path / "d", asked, text.replace("count = 1", "count = 2"))
    assert why not in unlike.reasons(again, again.plan.cells, "goodput")
    even = made(tmp_path / "b", {"tcp-reno": flows(1.0, 1.1), "tcp-newreno": flows(1.9, 2.0)})
    assert why not in unlike.reasons(even, even.plan.cells, "goodput")
    assert "mean of their rates" not in said(even, "goodput")


def test_rates_of_as_many_packets_are_as_those_of_files(tmp_path: Path) -> None:
    """A run in ten took ten times as long."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        protocol, run = scenario["flow"][0]["protocol"], scenario["run"]
        end = (1.0, 10.0)[run % 2] if protocol == "tcp-reno" else (1.9, 2.0)[run % 2]
        own = {"id": 1, "protocol": protocol, "app": "bulk", "start_s": 0.0, "finished": False}
        own |= {"bytes": 10**6 + run, "last_byte_s": end}
        return FakeResult(
            {"sim_seconds": end, "flows": [own], "trace_hash": f"{protocol}{run}"}, {}
        )

    text = GOING.replace("copies = 2", "").replace(
        "[vary]", "[scenario.stop]\npackets = 700\n[vary]"
    )
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)
    why = "in another order by the times that files took"
    assert why in unlike.reasons(found, found.plan.cells, "goodput")
    told = (
        "Goodput of transfers is the mean of their rates, in which those that took long count for"
    )
    assert told in said(found, "goodput") and "`delay` compares" not in said(found, "goodput")


def test_losses_that_hardly_happened_are_told(tmp_path: Path) -> None:
    text = UDP.replace("queue=50", "queue=50,loss={lossy}") + 'rate = "100k"\nstart = "0.1s"\n'
    text = text.replace("goodput", "loss") + '[vary]\nlossy = ["0.01%", "10%"]\n'
    told = said(ran(tmp_path, text), "goodput")
    assert (
        "hardly any was lost (0.01 " in told and "10 " not in told.partition("hardly any")[2][:40]
    )


def test_flows_that_waited_when_runs_ended_are_told(tmp_path: Path) -> None:
    for name, last, is_told in (("a", 20.0, True), ("b", 59.0, False)):
        flows = [{"last_byte_s": last, "finished": False, "timeout_s": 39.0, "timeouts": 4}]
        found = made(tmp_path / name, {"tcp-reno": flows, "tcp-newreno": flows})
        told = "(of flows: tcp-reno 100%, up to 40 s, tcp-newreno 100%, up to 40 s)"
        assert (told in said(found, "goodput")) == is_told


WINDOW = 'runs = 8\nmeasure = { mode = "window", from = "FROM", to = "TO" }'
STOP = '[scenario.stop]\ntime = "60s"\n[vary]'


def delivered(run: int) -> dict[str, bytes]:
    """As much of both flows in each second."""
    octets = [second * (1000 + run) for second in range(1, 60)]
    return {f"flow.{n}.delivered": pairs(range(1, 60), octets) for n in (1, 2)}


@pytest.mark.parametrize(
    ("last", "begin", "end", "waited"), [(20.0, 2, 60, 40), (20.0, 25, 50, 25), (55.0, 2, 50, None)]
)
def test_flows_that_waited_when_a_window_ended_are_told(
    tmp_path: Path, last: float, begin: int, end: int, waited: int | None
) -> None:
    window = WINDOW.replace("FROM", f"{begin}s").replace("TO", f"{end}s")
    text = GOING.replace("runs = 8", window).replace("[vary]", STOP)
    flows = _going(1.0, 1.0, timeout_s=39.0)
    flows = [flow | {"last_byte_s": last} for flow in flows]
    found = made(tmp_path, {"tcp-reno": flows, "tcp-newreno": flows}, text, delivered)
    told = said(found, "goodput")
    words = "Flows waited for timeouts when the window ended"
    assert (words in told) == (waited is not None)
    assert waited is None or (
        f"tcp-reno 100%, up to {waited} s" in told and "A longer window" in told
    )


@pytest.mark.parametrize(("begin", "is_told"), [(2, True), (40, False)])
def test_shares_in_a_window_of_flows_that_stand_still_are_told(
    tmp_path: Path, begin: int, is_told: bool
) -> None:
    window = WINDOW.replace("FROM", f"{begin}s").replace("TO", "60s")
    text = GOING.replace("runs = 8", window).replace("[vary]", STOP)
    flows = _going(1.0, 1.0, timeout_s=30.0)
    found = made(tmp_path, {"tcp-reno": flows, "tcp-newreno": flows}, text, delivered)
    words = "Shares are over the window, and flows waited for timeouts in runs (tcp-reno 50%, "
    assert (words in said(found, "jain")) == is_told


def test_routes_of_unlike_length_in_one_mean_are_told(tmp_path: Path) -> None:
    text = PLAN.replace("runs = 8", "runs = 4").replace("copies = 2\n", "")
    walk = (
        '[[scenario.mobility]]\nkind = "waypoint"\nnodes = ["n2"]\narea = [0, 0, 9, 9]\n'
        "speed = [1, 2]\n"
    )

    def results(folder: Path, far: int) -> wifu.Results:
        def runner(scenario: dict[str, Any]) -> FakeResult:
            hops = 1 if scenario["run"] < 3 else far
            flow = {"id": 1, "protocol": "tcp-reno", "app": "file", "start_s": 0.0, "hops": hops}
            flow |= {"last_byte_s": 2.0 * hops + 0.1 * scenario["run"], "finished": True}
            return FakeResult({"sim_seconds": 60.0, "flows": [flow | {"bytes": 10**6}]}, {})

        return wifu.campaign(plans.parse(text), folder, runner=runner)

    found = results(tmp_path / "a", 3)
    assert "in which long ones weigh most" in said(found, "delay")
    told = said(found, "goodput")
    assert "in which short ones weigh most" in told
    assert "tcp-reno: 3.72 Mb/s over 1 (2), 1.26 Mb/s over 3 (2)" in told
    assert "What a level does over long ones" in told
    assert "Routes are not equally long in all runs" not in said(
        results(tmp_path / "b", 1), "goodput"
    )
    text = text.replace("[vary]", f"{walk}[vary]")
    assert "packets take other ways later" in said(results(tmp_path / "c", 3), "goodput")


def test_exact_values_are_of_their_moments(tmp_path: Path) -> None:
    text = ONE.replace("runs = 2", "deterministic = true").replace('jitter = "50ms"\n', "")
    far = text + '[[scenario.flow]]\nfrom = "n2"\nto = "n4"\nprotocol = "tcp-newreno"\n'
    assert "values are exact of these very moments" in said(ran(tmp_path / "a", far), "goodput")
    assert "very moments" not in said(ran(tmp_path / "b", text), "goodput")


def test_who_lost_something_is_counted_among_those_that_fill_a_queue(tmp_path: Path) -> None:
    """One flow of many that lost nothing yet says nothing of a cell."""
    trips = {"p50_s": 0.1, "p95_s": 0.2, "p99_s": 0.2, "samples": 100}
    filling = {
        "last_byte_s": 59.0, "finished": False, "srtt_s": 0.2, "min_rtt_s": 0.01, "rtt": trips,
        "retransmissions": 0, "packets": {"sent": 100, "inside": 1, "delivered": 99},
    }  # fmt: skip
    losing = filling | {"retransmissions": 3}
    for name, flows, is_told in (
        ("a", [filling, filling], True),
        ("b", [filling, *[losing] * 7], False),
    ):
        found = made(tmp_path / name, {"tcp-reno": flows, "tcp-newreno": flows})
        assert ("filled a queue all the time" in said(found, "rtt_p95")) == is_told


def test_delays_of_datagrams_that_begin_later_are_of_what_began(tmp_path: Path) -> None:
    text = FILE + '[[scenario.flow]]\nfrom = "n1"\nto = "n4"\nprotocol = "udp"\nrate = "50k"\n'
    found = ran(tmp_path, text + 'start = "3s"\ntime = "2s"\n')
    assert "flow 2 begins" in said(found, "goodput")
    assert "flow 2 begins" not in said(found, "one_way_p95") + said(found, "loss")


def test_three_protocols_whose_order_by_times_is_another(tmp_path: Path) -> None:
    text = PLAN.replace('"tcp-newreno"]', '"tcp-newreno", "tcp-sack"]')

    def flows(*ends: float) -> list[dict[str, Any]]:
        return [{"last_byte_s": end} for end in ends]

    of = {"tcp-reno": flows(1.0, 10.0), "tcp-newreno": flows(1.9, 2.0), "tcp-sack": flows(3.0, 3.1)}
    found = made(tmp_path, of, text=text)
    assert "where the order of both is not the same" in said(found, "goodput")


def test_what_pauses_or_reaches_is_looked_at_whole(tmp_path: Path) -> None:
    reach = PLAN.replace('"linear,2"', '"random,5"')
    for key in ("propagation.exponent", "topology.propagation.exponent"):
        levels = f'[vary.reach]\na = {{ "{key}" = 3.0 }}\nb = {{ "{key}" = 3.5 }}\n'
        assert selected.warnings(plans.parse(reach + levels)), key
    talk = UDP + 'rate = "1M"\napp = "onoff"\non = "1s"\noff = "1s"\n'
    assert "All that was offered" not in said(ran(tmp_path, talk), "goodput")
    paused = [{"last_byte_s": 20.0, "finished": False, "timeout_s": 1.0, "requests": []}]
    asking = PLAN.replace('app = "file"\nbytes = "1M"', 'app = "request"')
    found = made(tmp_path / "p", {"tcp-reno": paused, "tcp-newreno": paused}, text=asking)
    assert "Flows waited for timeouts when" not in said(found, "goodput")


def test_requests_beside_a_load_that_fills_a_queue_are_told(tmp_path: Path) -> None:
    text = narrowed(ONE).replace("queue = 50", "queue = 1000") + (
        '[[scenario.flow]]\nfrom = "n1"\nto = "n3"\nprotocol = "tcp-newreno"\napp = "request"\n'
        'start = "2s"\n'
    )
    told = "filled a queue all the time (only): what a full queue does is not in delays"
    assert told in said(ran(tmp_path, text), "delay_p95@2")


def test_rates_that_are_learned_second_by_second_are_told(tmp_path: Path) -> None:
    text = PLAN.replace('app = "file"\nbytes = "1M"', "").replace(
        '["tcp-reno", "tcp-newreno"]', '["tcp-reno", "atp"]'
    )
    flows = [{"last_byte_s": 5.0, "finished": False, "app": "bulk"}]
    of = {"tcp-reno": flows, "atp": flows}
    early = made(tmp_path / "a", of, text=text, seconds={"tcp-reno": 5.0, "atp": 5.0})
    assert "of which its flows had few (atp 5): that is how" in said(early, "goodput")
    assert "ATP changes" not in said(made(tmp_path / "b", of, text=text), "goodput")


def _going(*rates: float, **more: Any) -> list[dict[str, Any]]:
    """Flows that go on for a minute, at so many Mb/s."""
    rows = [{"bytes": int(rate * 7.5e6), "last_byte_s": 60.0} for rate in rates]
    return [{**row, "finished": False, "app": "bulk", **more} for row in rows]


GOING = PLAN.replace('app = "file"\nbytes = "1M"', "")


def test_shares_of_who_has_less_of_all_are_no_fairer(tmp_path: Path) -> None:
    why = "shares are more even where every flow has less"
    for name, few, reason in (
        ("a", (1.0, 1.1), True), ("b", (2.0, 2.1), False), ("c", (1.9, 1.9), False)
    ):  # fmt: skip
        of = {"tcp-reno": _going(3.0, 1.9 if name == "a" else 1.0), "tcp-newreno": _going(*few)}
        found = made(tmp_path / name, of, text=GOING)
        assert (why in unlike.reasons(found, found.plan.cells, "jain")) == reason, name
        words = "Shares are more even in tcp-newreno than in tcp-reno, where no flow has less"
        assert (words in said(found, "jain")) == reason


def test_what_one_flow_takes_from_another_is_told(tmp_path: Path) -> None:
    words = "What flow 1 has more in tcp-reno than in tcp-newreno (1 Mb/s) other flows lack (0.9"
    for name, other, told in (("a", 2.9, True), ("b", 2.0, False)):
        of = {"tcp-reno": _going(3.0, 2.0), "tcp-newreno": _going(2.0, other)}
        found = made(tmp_path / name, of, text=GOING)
        assert (words in said(found, "goodput@1")) == told
        assert words not in said(found, "goodput")
    alone = {"tcp-reno": _going(5.0), "tcp-newreno": _going(2.0, 2.0)}
    found = made(tmp_path / "c", alone, text=GOING.replace("copies = 2", ""))
    assert "other flows lack" not in said(found, "goodput@1")
    # Who is not there in a third level says nothing of the two that it is there in.
    three = GOING.replace('"tcp-newreno"]', '"tcp-newreno", "tcp-tahoe"]')
    of = {"tcp-reno": _going(3.0, 2.0), "tcp-newreno": _going(2.0, 2.9), "tcp-tahoe": _going(2.0)}
    found = made(tmp_path / "d", of, text=three)
    assert words in said(found, "goodput@1")


def test_answers_beside_a_load_that_carried_less_have_no_colour(tmp_path: Path) -> None:
    asks = '[[scenario.flow]]\nfrom = "n1"\nto = "n2"\napp = "request"\nprotocol = "tcp-sack"\n'
    at = GOING.index("[vary]")
    text = f"{GOING[:at]}{asks}{GOING[at:]}"
    why = "better beside a load that carried more than a tenth less"

    def flows(rate: float, delay: float) -> list[dict[str, Any]]:
        requests = [{"delay_s": delay, "start_s": float(n)} for n in range(50)]
        own = {"app": "request", "requests": requests, "last_byte_s": 59.0, "finished": False}
        return [*_going(rate, rate), {**own, "bytes": 500_000}]

    for name, (rate, delay), reason in (
        ("a", (1.0, 0.1), True), ("b", (1.0, 0.3), False), ("c", (1.95, 0.1), False)
    ):  # fmt: skip
        of = {"tcp-reno": flows(2.0, 0.2), "tcp-newreno": flows(rate, delay)}
        found = made(tmp_path / name, of, text=text)
        assert (why in unlike.reasons(found, found.plan.cells, "delay_p95@3")) == reason, name
        words = "Answers are quicker in tcp-newreno than in tcp-reno, where the load beside them"
        assert (words in said(found, "delay_p95@3")) == reason
    # A small file is as good a probe, by how long it takes and by its rate.
    filed = text.replace('app = "request"', 'app = "file"\nbytes = "30k"')
    small = {"app": "file", "bytes": 30_000, "protocol": "tcp-sack", "last_byte_s": 0.5}
    of = {"tcp-reno": [*_going(2.0, 2.0), small | {"last_byte_s": 2.0}],
          "tcp-newreno": [*_going(1.0, 1.0), small]}  # fmt: skip
    found = made(tmp_path / "e", of, text=filed)
    for metric in ("delay@3", "goodput@3"):
        assert why in unlike.reasons(found, found.plan.cells, metric), metric
    # That a file is quicker may be why what has one protocol in all cells has less.
    load = '[[scenario.flow]]\nfrom = "n1"\nto = "n2"\ncopies = 2\nprotocol = "tcp-sack"\n[vary]'
    fixed = PLAN.replace("copies = 2", "").replace('"1M"', '"30k"').replace("[vary]", load)
    beside = [own | {"protocol": "tcp-sack"} for own in _going(2.0, 2.0)]
    lighter = [own | {"protocol": "tcp-sack"} for own in _going(1.0, 1.0)]
    of = {"tcp-reno": [{"bytes": 30_000, "last_byte_s": 2.0}, *beside],
          "tcp-newreno": [{"bytes": 30_000, "last_byte_s": 0.5}, *lighter]}  # fmt: skip
    found = made(tmp_path / "f", of, text=fixed)
    for metric in ("delay@1", "delay", "goodput@1"):
        assert why not in unlike.reasons(found, found.plan.cells, metric), metric
    # Whose protocol the levels change is the load, also if it asks again and again.
    pages = text.replace("copies = 2", 'app = "http"\ncopies = 2')
    of = {"tcp-reno": flows(2.0, 0.2), "tcp-newreno": flows(1.0, 0.1)}
    of = {p: [own | {"protocol": p} for own in rows] for p, rows in of.items()}
    for rows in of.values():
        rows[2]["protocol"] = "tcp-sack"
    found = made(tmp_path / "d", of, text=pages)
    assert why in unlike.reasons(found, found.plan.cells, "delay_p95@3")


def test_a_median_that_a_cut_request_does_not_change_is_known(tmp_path: Path) -> None:
    """Its last request had taken longer than most already."""
    plan = CLOSED.replace('stop_at = "9s"', "")

    def flows(delays: list[float]) -> list[dict[str, Any]]:
        requests = [{"delay_s": delay, "start_s": 0.1 * n} for n, delay in enumerate(delays)]
        own = {"app": "request", "requests": requests, "last_byte_s": 9.0, "finished": False}
        return [own | {"under_way_s": 59.5}, own | {"under_way_s": None}]

    of = {p: flows([0.1] * 40 + [0.2] * 41) for p in ("tcp-reno", "tcp-newreno")}
    found = made(tmp_path, of, text=plan)
    cell = found.plan.cells[0]
    assert cutoff.runs(found, cell, "delay_median")
    assert not cutoff.least(found, cell, "delay_median")
    assert cutoff.least(found, cell, "delay")
    assert "these numbers are the same" in cutoff.sentence(found, [cell], "delay_median")
    assert found.sample("delay_median", cell.labels).mean() == pytest.approx(0.2)
    # A metric that the plan does not name is read from the runs, by whoever asks first.
    fresh = wifu.load(found.folder)
    assert "delay_median@1" not in fresh.plan.metrics
    assert not cutoff.least(fresh, cell, "delay_median@1")


def test_losses_of_the_first_slow_start_have_no_colour(tmp_path: Path) -> None:
    why = "losses are of how flows began"

    def flows(at: float, lost: int) -> list[dict[str, Any]]:
        packets = {"sent": 1000, "delivered": 1000 - lost, "queue": lost, "inside": 0}
        return _going(1.0, packets=packets, lost_s=at)

    cut = '[[scenario.event]]\nat = "1s"\ncut = ["n1", "n2"]\n[vary]'
    for name, (at, lost), told, reason in (
        ("a", (9.0, 50), True, True), ("b", (25.0, 50), False, False),
        ("c", (9.0, 1), False, False), ("d", (9.0, 50), False, False),
        ("e", (9.0, 30), True, False),  # the more are lost later on
    ):  # fmt: skip
        of = {"tcp-reno": flows(at, lost), "tcp-newreno": flows(31.0, 40)}
        text = GOING.replace("copies = 2", "").replace("[vary]", cut if name == "d" else "[vary]")
        found = made(tmp_path / name, of, text=text)
        assert (why in unlike.reasons(found, found.plan.cells, "loss")) == reason, name
        words = "Most of what was lost was lost as flows began (on the mean after such a part of"
        assert (words in said(found, "retransmissions")) == told
        assert why not in unlike.reasons(found, found.plan.cells, "goodput")


def test_losses_of_how_flows_began_beside_a_cell_without_any_run(tmp_path: Path) -> None:
    packets = {"sent": 1000, "delivered": 950, "queue": 50, "inside": 0}
    of = {"tcp-newreno": _going(1.0, packets=packets, lost_s=9.0)}
    text = GOING.replace("copies = 2", "")
    found = made(tmp_path, of, text=text)
    assert found.plan.cells[0].labels["protocol"] == "tcp-reno", "which has no value"
    assert short.at_first(found, found.plan.cells, "loss")
    assert not short.at_first(found, found.plan.cells[:1], "loss")


def test_who_is_apart_by_how_its_flows_began_has_no_colour(tmp_path: Path) -> None:
    """Nothing came in its first tenth of a minute, and nine tenths of what others had."""
    why = "apart in the first half at least twice as much as in the second"
    for name, late, reason in (
        ("a", 3_750_000, True),
        ("b", 3_375_000, False),
        ("c", 3_300_000, False),
        ("e", 3_513_000, True),  # 62 % is left
        ("f", 3_465_000, False),  # 75 %
    ):
        of = {p: _going(1.0, late_bytes=3_750_000) for p in ("tcp-reno", "tcp-newreno")}
        of["tcp-newreno"] = _going(0.9, late_bytes=late)
        found = made(tmp_path / name, of, text=GOING.replace("copies = 2", ""))
        assert (why in unlike.reasons(found, found.plan.cells, "goodput")) == reason, name
        rest = {"a": "1", "e": "1.07"}.get(name, "")
        words = f"flows begin (tcp-reno x 1.11 of tcp-newreno, x {rest} in the second half)"
        assert (words in said(found, "goodput")) == reason
    # A receiver's goodput has no part of the time before.
    of = {p: _going(1.0, late_bytes=3_750_000) for p in ("tcp-reno", "tcp-newreno")}
    of["tcp-newreno"] = _going(0.9, late_bytes=3_750_000, first_byte_s=6.0)
    text = GOING.replace("copies = 2", "").replace("runs = 8", 'runs = 8\nmeasure = "receiver"')
    found = made(tmp_path / "d", of, text=text)
    assert why not in unlike.reasons(found, found.plan.cells, "goodput")


def test_what_one_flow_has_is_a_share_where_others_go_on(tmp_path: Path) -> None:
    why = "flows had few round trips, in which shares do not settle"
    begun = "apart in the first half at least twice as much as in the second"
    for name, trip, few in (("a", 0.9, True), ("b", 0.1, False)):
        # Flow 2 gives the first half away, and flow 1 has it.
        rtt = {"p50_s": trip, "p95_s": trip, "p99_s": trip, "samples": 99}
        own = {"min_rtt_s": 0.01, "rtt": rtt}
        one = {p: _going(1.0, late_bytes=3_900_000, **own) for p in ("tcp-reno", "tcp-newreno")}
        of = {
            "tcp-reno": [*one["tcp-reno"], *_going(1.0, late_bytes=3_750_000, **own)],
            "tcp-newreno": [*_going(1.1, late_bytes=4_200_000, **own),
                            *_going(0.9, late_bytes=3_750_000, **own)],
        }  # fmt: skip
        found = made(tmp_path / name, of, text=GOING)
        for flow in (1, 2):
            reasons = unlike.reasons(found, found.plan.cells, f"goodput@{flow}")
            assert (why in reasons) == few, (name, flow)
            assert begun in reasons
        assert why not in unlike.reasons(found, found.plan.cells, "aggregate")
        assert "(flow 2: tcp-reno x 1.11 of tcp-newreno, x 1 in the second half)" in said(
            found, "goodput@1"
        )
    alone = {p: own[:1] for p, own in of.items()}
    found = made(tmp_path / "c", alone, text=GOING.replace("copies = 2", ""))
    reasons = unlike.reasons(found, found.plan.cells, "goodput@1")
    assert begun not in reasons and why not in reasons


def test_what_one_flow_has_is_its_own_but_for_what_others_gave_it(tmp_path: Path) -> None:
    """Flow 1 has twice as much all the time; flow 2 began a little slower."""
    begun = "apart in the first half at least twice as much as in the second"
    of = {
        "tcp-reno": [*_going(1.0, late_bytes=3_750_000), *_going(1.0, late_bytes=3_750_000)],
        "tcp-newreno": [*_going(2.0, late_bytes=7_500_000), *_going(0.98, late_bytes=3_750_000)],
    }
    for name, other, reason in (("a", 0.98, False), ("b", 0.4, True)):
        of["tcp-newreno"][1:] = _going(other, late_bytes=3_750_000)
        found = made(tmp_path / name, of, text=GOING)
        assert (begun in unlike.reasons(found, found.plan.cells, "goodput@1")) == reason
        assert begun in unlike.reasons(found, found.plan.cells, "goodput@2")
    # What another flow took of it is not what flow 1 has.
    even = 3_750_000
    of = {
        "tcp-reno": _going(1.0, 1.0, 1.0, late_bytes=even),
        "tcp-newreno": [*_going(1.1, late_bytes=4_125_000), *_going(0.4, late_bytes=even),
                        *_going(1.6, late_bytes=6_000_000)],
    }  # fmt: skip
    found = made(tmp_path / "c", of, text=GOING.replace("copies = 2", "copies = 3"))
    assert begun not in unlike.reasons(found, found.plan.cells, "goodput@1")
    # Datagrams in one cell are none beside connections, and have a number of their own.
    of = {p: flows[:2] for p, flows in of.items()}
    of["tcp-newreno"][1:] = _going(0.4, late_bytes=even, protocol="udp")
    found = made(tmp_path / "d", of, text=GOING)
    assert begun in unlike.reasons(found, found.plan.cells, "goodput@1")


def test_what_a_plan_has_everywhere_is_told() -> None:
    ways = PLAN.replace("copies = 2", 'from = "n1"\nto = "n2"')
    text = ways.replace("[vary]", '[[scenario.handler]]\nuse = "drop"\np = 0.01\n[vary]')
    (told,) = advised.warnings(plans.parse(text))
    assert told.startswith("handler drop says neither `nodes` nor `hooks`: it acts at each hook")
    placed = text.replace("p = 0.01", 'p = 0.01\nhooks = ["forward"]')
    assert advised.warnings(plans.parse(placed)) == []
    some = placed + '[vary.more]\na = {}\nb = { handler = [{ use = "delay" }] }\n'
    (told,) = advised.warnings(plans.parse(some))
    assert told.endswith("(tcp-reno_b, tcp-newreno_b).")


def test_round_trips_of_one_flow_beside_a_lighter_load_have_no_colour(tmp_path: Path) -> None:
    why = "round trips are shorter where more than a tenth less was carried"

    def flows(load: float, trip: float) -> list[dict[str, Any]]:
        rtt = {"p50_s": trip, "p95_s": trip, "p99_s": trip, "samples": 100}
        return [*_going(load), *_going(1.0, rtt=rtt, srtt_s=trip)]

    for name, load, reason in (("a", 1.0, True), ("b", 3.9, False)):
        of = {"tcp-reno": flows(4.0, 0.2), "tcp-newreno": flows(load, 0.1)}
        found = made(tmp_path / name, of, text=GOING)
        assert (why in unlike.reasons(found, found.plan.cells, "rtt_p95@2")) == reason, name


def test_what_a_stream_loses_beside_a_lighter_load_is_no_merit(tmp_path: Path) -> None:
    why = "better beside a load that carried more than a tenth less"

    def flows(load: float, lost: int) -> list[dict[str, Any]]:
        packets = {"sent": 1000, "delivered": 1000 - lost, "queue": lost, "inside": 0}
        stream = _going(1.0, protocol="udp", packets=packets)[0]
        return [*_going(load), stream]

    for name, load, reason in (("a", 1.0, True), ("b", 3.9, False)):
        of = {"tcp-reno": flows(4.0, 200), "tcp-newreno": flows(load, 100)}
        found = made(tmp_path / name, of, text=GOING)
        assert (why in unlike.reasons(found, found.plan.cells, "loss@2")) == reason, name
        assert ("that is what it meets" in said(found, "loss@2")) == reason
    queues = GOING.replace('protocol = "{protocol}"', 'protocol = "tcp-reno"')
    queues = queues.split("[vary]")[0].replace('"tcp-reno"\nmetrics', '"short"\nmetrics') + (
        '[vary.queue]\nshort = { "radio.queue" = 5 }\nlong = { "radio.queue" = 50 }\n'
    )

    def runner(scenario: dict[str, Any]) -> FakeResult:
        short = scenario["radio"]["queue"] == 5
        rows = [{"id": n, "protocol": "tcp-reno", **row} for n, row in
                enumerate(flows(1.0 if short else 4.0, 100 if short else 200), 1)]  # fmt: skip
        for row in rows:
            row["bytes"] += 1000 * scenario["run"]
            row["packets"] = {"sent": 1000 + scenario["run"], "delivered": 900 - 100 * (not short),
                              "queue": 100, "inside": 0}  # fmt: skip
        return FakeResult({"sim_seconds": 60.0, "flows": rows}, {})

    found = wifu.campaign(plans.parse(queues), tmp_path / "q", runner=runner)
    assert why not in unlike.reasons(found, found.plan.cells, "loss@2")


def test_streams_that_the_clock_ends_are_told_as_bulk_is(tmp_path: Path) -> None:
    """Their own time ends them, and they are finished."""
    stream = GOING.replace("copies = 2", 'app = "stream"\ntime = "60s"')
    why = "apart in the first half at least twice as much as in the second"
    of = {p: _going(1.0, late_bytes=3_750_000, finished=True) for p in ("tcp-reno", "tcp-newreno")}
    of["tcp-newreno"] = _going(0.9, late_bytes=3_750_000, finished=True)
    for name, text, reason in (
        ("a", stream, True), ("b", stream.replace("time =", 'bytes = "1M"\ntime ='), False),
    ):  # fmt: skip
        found = made(tmp_path / name, of, text=text)
        assert (why in unlike.reasons(found, found.plan.cells, "goodput")) == reason, name


def test_what_happens_later_than_at_the_beginning() -> None:
    def happens(*keys: str, more: str = "") -> bool:
        flows = "".join(
            f'[[scenario.flow]]\nfrom = "n1"\nto = "n2"\nprotocol = "tcp-reno"\n{own}\n'
            for own in keys
        )
        text = f'name = "h"\n[scenario]\ntopology.words = "linear,2"\n{flows}{more}'
        return happenings.happening(plans.parse(text).cells[0])

    def start(at: str) -> str:
        return f'start = "{at}"'

    assert [happens(start("0s")), happens(start("1s")), happens(*[start("1s")] * 2)] == [False] * 3
    assert [happens(start("0s"), start("3s")), happens(start("1s"), start("3s"))] == [True] * 2
    stops = 'stop_at = "9s"'
    assert [happens(stops), happens(stops, stops), happens(stops, "")] == [False, False, True]
    assert happens('app = "stream"\ntime = "5s"', stops)
    trace = '[[scenario.mobility]]\nkind = "trace"\nrows = [[0.0, "n1", 0.0, 0.0]]\n'
    walk = '[[scenario.mobility]]\nkind = "waypoint"\nnodes = ["n2"]\narea = [0, 0, 9, 9]\n'
    assert happens("", more=trace) and happens("", more=walk + "speed = [1, 2]\n")


def test_an_epoch_is_as_long_as_its_protocol_has_it(tmp_path: Path) -> None:
    text = GOING.replace('["tcp-reno", "tcp-newreno"]', '["tcp-reno", "atp-adaptive"]')
    of = {p: _going(1.0) for p in ("tcp-reno", "atp-adaptive")}
    text = text.replace("copies = 2", "")
    found = made(tmp_path / "a", of, text=text, seconds={"tcp-reno": 5.0, "atp-adaptive": 5.0})
    assert "changes its rate" not in said(found, "goodput")
    found = made(tmp_path / "b", of, text=text, seconds={"tcp-reno": 1.0, "atp-adaptive": 1.0})
    assert "of which its flows had few (atp-adaptive 25)" in said(found, "goodput")


ENDED = (
    "Flows were cut off {cut} after few round trips (tcp-reno 60, tcp-newreno 60, of the flow that "
    "had fewest): how a window began to grow is a large part of their goodput. {more}, tells what "
    "they come to."
)


@pytest.mark.parametrize(
    ("stop", "cut", "more"),
    [
        ('time = "60s"', "by the clock", "A longer `stop.time`, with a `window` at its end"),
        (
            'time = "90s"',
            "by the end of others",
            "A flow with `time` that outlasts the others, with a `window` at its end",
        ),
        (
            'time = "90s"\npackets = 9000',
            "by `stop.packets`",
            'A higher `stop.packets` and `stop.batch`, with `measure = "steady"`',
        ),
        (
            'time = "60s"\npackets = 9000',
            "by the clock",
            "A longer `stop.time`, with a `window` at its end",
        ),
    ],
)
def test_what_has_flows_last_longer_is_by_what_ended_them(
    tmp_path: Path, stop: str, cut: str, more: str
) -> None:
    text = GOING.replace("[vary]", f"[scenario.stop]\n{stop}\n[vary]")
    flows = _going(1.0, 1.0, min_rtt_s=1.0)
    found = made(tmp_path, {"tcp-reno": flows, "tcp-newreno": flows}, text=text)
    assert ENDED.format(cut=cut, more=more) in said(found, "goodput")


def test_few_round_trips_of_a_rate_that_did_not_grow_are_no_matter(tmp_path: Path) -> None:
    for name, late, told in (("a", 3_750_000, False), ("b", 3_950_000, True)):
        flows = _going(1.0, min_rtt_s=1.0, late_bytes=late)
        of = {"tcp-reno": flows, "tcp-newreno": flows}
        found = made(tmp_path / name, of, text=GOING.replace("copies = 2", ""))
        assert ("after few round trips" in said(found, "goodput")) == told, name


@pytest.mark.parametrize(
    ("own", "more"),
    [
        ('time = "60s"', "A longer `time`"),
        ('stop_at = "60s"', "A later `stop_at`"),
        ('time = "200s"\nstop_at = "60s"', "A later `stop_at`"),
    ],
)
def test_a_flow_that_its_own_time_ends_has_that_longer(tmp_path: Path, own: str, more: str) -> None:
    text = GOING.replace("copies = 2", f'app = "stream"\n{own}')
    flows = _going(1.0, min_rtt_s=1.0, finished=True)
    found = made(tmp_path, {"tcp-reno": flows, "tcp-newreno": flows}, text=text)
    told = ENDED.format(cut="by the clock", more=f"{more}, with a `window` at its end")
    assert told in said(found, "goodput")


def test_a_flow_that_a_number_of_packets_ends_is_a_file(tmp_path: Path) -> None:
    """Alone it has all of them; of two flows each has what it got."""
    why = "apart in the first half at least twice as much as in the second"
    for name, more, latest, few in (
        ("a", "", 90, False), ("b", "", 60, True), ("c", "copies = 2", 90, True)
    ):  # fmt: skip
        stop = f'[scenario.stop]\npackets = 5000\ntime = "{latest}s"\n[vary]'
        text = GOING.replace("copies = 2", more).replace("[vary]", stop)
        of = {
            p: _going(1.0, late_bytes=3_750_000, min_rtt_s=1.0) for p in ("tcp-reno", "tcp-newreno")
        }
        of["tcp-newreno"] = _going(0.9, late_bytes=3_750_000, min_rtt_s=1.0)
        of = {p: rows * (2 if more else 1) for p, rows in of.items()}
        found = made(tmp_path / name, of, text=text)
        assert ("after few round trips" in said(found, "goodput")) == few, name
        assert (why in unlike.reasons(found, found.plan.cells, "goodput")) == few, name


OWN = """
[protocol.mine-reno]
extends = "tcp-newreno"
number = 241
[protocol.mine-lanes]
extends = "hxh"
number = 242
[protocol.mine-rates]
extends = "atp"
number = 243
"""


def test_protocols_of_ones_own_are_what_they_extend(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    text = GOING.replace("[scenario]", f'compositions = ["{tmp_path}/own.toml"]\n[scenario]', 1)
    names = ["mine-reno", "mine-lanes", "mine-rates"]
    text = text.replace("copies = 2", "").replace("tcp-reno", names[0])
    text = text.replace('"tcp-newreno"', '"mine-lanes", "mine-rates"')
    trips = {"min_rtt_s": 0.05, "rtt": {"p50_s": 0.1, "p95_s": 0.2, "p99_s": 0.3, "samples": 99}}
    of = {name: _going(1.0, **trips, other_way_back=True) for name in names}
    found = made(tmp_path / "a", of, text=text, seconds=dict.fromkeys(names, 2.0))
    told = said(found, "goodput")
    assert "(mine-reno 20, of the" in told, "lanes and rates have no window"
    assert "of which its flows had few (mine-rates 2)" in told
    rows, cells = rows_of(found, found.plan.cells), found.plan.cells
    tcp = over_tcp(rows, cells).groupby(rows["cell"]).all()
    assert tcp.to_dict() == {"mine-reno": True, "mine-lanes": False, "mine-rates": False}
    grows = [_grows_until_loss(*protocol) for protocol in dict.fromkeys(composed(rows, cells))]
    assert sorted(grows) == [False, False, True]


def test_protocols_that_a_topology_changes_are_other_protocols(tmp_path: Path) -> None:
    """A window by `topology.transport` is as much a level of the load as one by its words."""
    why = "better beside a load that carried more than a tenth less"
    flow = '[[scenario.flow]]\nprotocol = "tcp-sack"\n'
    text = GOING.replace('"{protocol}"\n\ncopies = 2', '"tcp-newreno"\n' + flow)
    text = text.replace("baseline", "#").split("[vary]")[0]
    text += '[vary]\n"topology.transport.tcp-newreno.rcv_wnd" = ["64KiB", "8KiB"]\n'

    def ran(folder: Path, text: str) -> wifu.Results:
        def runner(scenario: dict[str, Any]) -> FakeResult:
            less = "8KiB" in str(scenario) or scenario["radio"]["queue"] == 5
            packets = {"sent": 1000, "delivered": 900 if less else 800, "queue": 100, "inside": 0}
            rows = [*_going(1.0 if less else 4.0), *_going(1.0, packets=packets)]
            names = ("tcp-newreno", "tcp-sack")
            told = [{**row, "id": n, "protocol": names[n - 1]} for n, row in enumerate(rows, 1)]
            for row in told:
                row["bytes"] += 1000 * scenario["run"]
            return FakeResult({"sim_seconds": 60.0, "flows": told}, {})

        return wifu.campaign(plans.parse(text), folder, runner=runner)

    text = text.replace("[scenario]", "[scenario]\nradio.queue = 50")
    found = ran(tmp_path / "a", text)
    assert why in unlike.reasons(found, found.plan.cells, "loss@2")
    assert "Flow 2 is tcp-sack in every cell that is compared" in said(found, "loss@2")
    queues = text.split("[vary]")[0] + '[vary]\n"radio.queue" = [50, 5]\n'
    found = ran(tmp_path / "b", queues)
    assert why not in unlike.reasons(found, found.plan.cells, "loss@2")
    assert "in every cell that is compared" not in said(found, "loss@2")
