"""Flows over wires on which nothing is random keep step at a full queue."""

from pathlib import Path
from typing import Any

import pytest
from test_cautions import said

import wifu
from wifu import outlets, phases, unlike
from wifu import plan as plans

WORDS = "flows keep step at a full queue, as nothing on the way is random"

NEAR = """
name = "near"
runs = 3
metrics = ["jain", "goodput@1", "aggregate"]
[scenario]
stop.time = "40s"
topology.node = [
  {{ name = "n1", wired_only = true }}, {{ name = "n2", wired_only = true }},
  {{ name = "n3", wired_only = true }}, {{ name = "n4", wired_only = true }},
]
topology.wire = [
  {{ a = "n1", b = "n3", rate = "100Mb/s", delay = "5ms", variation = "{{by}}" }},
  {{ a = "n2", b = "n3", rate = "100Mb/s", delay = "6ms", variation = "{{by}}" }},
  {{ a = "n3", b = "n4", rate = "5Mb/s", delay = "10ms", queue = 20 }},
]
{more}
[[scenario.flow]]
from = "n1"
to = "n4"
protocol = "{{protocol}}"
jitter = "100ms"
[[scenario.flow]]
from = "n2"
to = "n4"
protocol = "{{protocol}}"
jitter = "100ms"
{flow}
[vary]
protocol = ["tcp-newreno", "tcp-cubic"]
by = {by}
"""


def plan(by: str = '["0ms"]', more: str = "", flow: str = "") -> plans.Plan:
    return plans.parse(NEAR.format(by=by, more=more, flow=flow))


def udp(app: str) -> str:
    return f'[[scenario.flow]]\nfrom = "n1"\nto = "n4"\nprotocol = "udp"\nrate = "50k"\n{app}'


def browser(begin: str, end: str) -> str:
    ends = f'from = "{begin}"\nto = "{end}"'
    return f'[[scenario.flow]]\n{ends}\nprotocol = "tcp-sack"\napp = "http"'


@pytest.mark.parametrize(
    ("given", "step"),
    [
        (plan(), True),
        (plan('["3ms"]'), False),
        (plan(more='host.queue = { kind = "codel" }'), False),
        (plan(flow=udp("")), True),
        (plan(flow=udp('app = "onoff"\non = "1s"\noff = "1s"')), True),
        (plan('["20us"]'), True),
        (plan(flow=browser("n1", "n4")), False),
        (plan(flow=browser("n3", "n2")), False),
        (plan(more='host.queue = { kind = "codel", nodes = ["n3"] }'), False),
        (plan(more='host.queue = { kind = "codel", nodes = ["n1", "n4"] }'), True),
        (plan(more='handler = [{ use = "drop", p = 0.01, nodes = ["n3"] }]'), False),
        (plan(more='handler = [{ use = "drop", p = 0.01 }]'), False),
        (plan(more='handler = [{ use = "logger" }]'), True),
        (plan(more='handler = [{ use = "delay", t = "1ms", nodes = ["n3"] }]'), True),
    ],
)
def test_what_is_random_breaks_the_step(given: plans.Plan, step: bool) -> None:
    assert [phases.in_step(c.scenario) for c in given.cells] == [step] * 2
    assert bool(phases.warnings(given)) is step


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ("linear,2,wire=8Mb/s", True),
        ("linear,3,wire=8Mb/s,variation=2ms", False),
        ("linear,3,wire=8Mb/s,variation=1ms", True),
        ("linear,3,wire=8Mb/s,loss=1%", False),
        ("linear,3,wire=8Mb/s,loss=0", True),
        ("linear,3", False),
    ],
)
def test_wires_of_words_and_radios(words: str, step: bool) -> None:
    flow = {"from": "n1", "to": "n2", "protocol": "tcp-sack"}
    scenario = {"topology": {"words": words}, "flow": [flow, flow]}
    assert phases.in_step(scenario) is step
    assert not phases.in_step({**scenario, "flow": [flow]}), "one flow shares with nobody"
    assert outlets.wires_of({}) == ()


@pytest.mark.parametrize(
    ("rate", "begin", "step"),
    [("5Mb/s", "s", True), ("20Mb/s", "s", False), ("5Mb/s", "n2", False)],
)
def test_servers_behind_a_gateway_keep_step_too(rate: str, begin: str, step: bool) -> None:
    """What radios carry on has passed the wires before, if these are the narrower."""
    wires = [{"a": "s1", "b": "r"}, {"a": "s2", "b": "r"}, {"a": "r", "b": "n1"}]
    nodes = [{"name": name, "wired_only": True} for name in ("s1", "s2", "r")]
    topology = {"words": "linear,2,rate=24M", "node": nodes}
    topology["wire"] = [{**w, "rate": rate, "delay": "5ms"} for w in wires]
    starts, end = (("s1", "s2"), "n2") if begin == "s" else (("n2", "n1"), "s1")
    flows = [{"from": start, "to": end, "protocol": "tcp-sack"} for start in starts]
    assert phases.in_step({"topology": topology, "flow": flows}) is step


@pytest.mark.parametrize(
    ("more", "step"),
    [
        ({"radio": {"rate": "24Mb/s"}}, True),
        ({"topology": {"radio": {"rate": "24Mb/s"}}}, True),
        ({"topology": {"set": "TB-A"}}, True),
        ({"topology": {"node": [{"name": "n1", "radio": {"rate": "9Mb/s"}}]}}, False),
        ({}, False),
    ],
)
def test_radios_are_wider_than_wires_whoever_says_their_rate(
    more: dict[str, Any], step: bool
) -> None:
    nodes = [{"name": name, "wired_only": True} for name in ("s1", "s2", "r")]
    ends = [("s1", "r"), ("s2", "r"), ("r", "n1")]
    wires = [{"a": a, "b": b, "rate": "5Mb/s", "delay": "5ms"} for a, b in ends]
    own: dict[str, Any] = {"words": "linear,2", "wire": wires, **more.get("topology", {})}
    own["node"] = [*nodes, *own.get("node", [])]
    flows = [{"from": start, "to": "n2", "protocol": "tcp-sack"} for start in ("s1", "s2")]
    assert phases.in_step({**more, "topology": own, "flow": flows}) is step


def test_handlers_and_traces_beside_the_way_break_no_step() -> None:
    nodes = [{"name": name, "wired_only": True} for name in "abrcd"]
    ends = [("a", "r"), ("b", "r"), ("r", "c"), ("c", "d")]
    wires = [{"a": a, "b": b, "rate": "10Mb/s", "queue": 50} for a, b in ends]
    flow = {"to": "c", "protocol": "tcp-newreno", "app": "trace", "rows": [[0, 8_000_000]]}
    scenario: dict[str, Any] = {
        "topology": {"node": nodes, "wire": wires},
        "flow": [{**flow, "from": "a"}, {**flow, "from": "b"}],
    }
    assert phases.in_step(scenario), "a trace that writes all at once is a file"
    late = {**flow, "rows": [[0, 1_000], [2, 8_000_000]]}
    other = [{**late, "from": "a"}, {**late, "from": "b"}]
    assert not phases.in_step({**scenario, "flow": other})
    for nodes_of, step in ((["d"], True), (["r"], False), (["a"], False)):
        dropping = [{"use": "drop", "p": 0.1, "nodes": nodes_of}]
        assert phases.in_step({**scenario, "handler": dropping}) is step
        several = [*scenario["flow"], scenario["flow"][1]]
        assert phases.in_step({**scenario, "flow": several, "handler": dropping}) is step


def test_shares_by_such_a_step_have_no_colour(tmp_path: Path) -> None:
    """A millisecond decides who has nine tenths, in all runs; a little variation undoes it."""
    found = wifu.campaign(plan('["0ms", "10ms"]'), tmp_path / "r")
    share = found.flows.groupby(["by", "flow"])["bytes"].sum().unstack()
    share = share[1] / share.sum(axis=1)
    assert abs(share["0ms"] - 0.5) > 0.3 > abs(share["10ms"] - 0.5)
    cells = {by: [c for c in found.plan.cells if c.labels["by"] == by] for by in ("0ms", "10ms")}
    for metric in ("jain", "goodput@1", "aggregate"):
        assert WORDS in unlike.reasons(found, cells["0ms"], metric)
        assert "phase effects" in said(found, metric)
        assert WORDS not in unlike.reasons(found, cells["10ms"], metric)
    told = phases.warnings(found.plan)
    assert "random in tcp-newreno_0ms, tcp-cubic_0ms: wires have no variation" in told[0]


@pytest.mark.parametrize(
    ("flows", "step"),
    [
        ([("a", "b", {}), ("a", "b", {})], True),
        ([("a", "b", {}), ("c", "d", {})], False),
        ([("a", "b", {}), ("b", "a", {})], False),
        ([("a", "b", {"time": "5s"}), ("a", "b", {"start": "9s"})], False),
        ([("a", "b", {"time": "5s"}), ("a", "b", {"start": "3s"})], True),
        ([("a", "b", {}), ("b", "a", {"app": "request"})], True),
    ],
)
def test_only_flows_that_share_a_queue_keep_step(
    flows: list[tuple[str, str, dict[str, str]]], step: bool
) -> None:
    """Of opposite directions data never wait for one wire; what is answered goes back."""
    nodes = [{"name": name, "wired_only": True} for name in "abcd"]
    wires = [{"a": "a", "b": "b", "rate": "5Mb/s"}, {"a": "c", "b": "d", "rate": "5Mb/s"}]
    given = [{"from": one, "to": two, "protocol": "tcp-sack", **more} for one, two, more in flows]
    scenario = {"topology": {"node": nodes, "wire": wires}, "flow": given}
    assert phases.in_step(scenario) is step


HIDDEN = """
name = "hidden"
runs = 6
metrics = ["loss", "goodput"]
[scenario]
topology.words = "linear,3"
stop.time = "5s"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "udp"
rate = "{rate}"
{more}
[[scenario.flow]]
from = "n3"
to = "n2"
protocol = "udp"
rate = "500k"
{more}
{flow}
[vary]
"radio.attempts" = [1, 4]
"""
SAME = "datagrams leave at the same moments in all runs"


@pytest.mark.parametrize(
    ("rate", "more", "flow", "same"),
    [
        ("500k", "", "", True),
        ("500k", 'start = "5ms"', "", True),
        ("500k", 'jitter = "1s"', "", False),
        ("500k", 'jitter = "1ms"', "", True),
        ("250k", "", "", True),
        ("400k", "", "", False),
    ],
)
def test_datagrams_of_one_rate_meet_always_or_never(
    tmp_path: Path, rate: str, more: str, flow: str, same: bool
) -> None:
    found = wifu.campaign(
        plans.parse(HIDDEN.format(rate=rate, more=more, flow=flow)), tmp_path / "r"
    )
    for metric in ("loss", "goodput"):
        assert (SAME in unlike.reasons(found, found.plan.cells, metric)) is same
        assert ("leave at one rate, or a multiple of it" in said(found, metric)) is same
    assert any("leave at one rate" in told for told in phases.warnings(found.plan)) is same


def test_beside_a_connection_it_is_of_their_own_metrics_alone() -> None:
    flow = '[[scenario.flow]]\nfrom = "n1"\nto = "n3"\nprotocol = "tcp-sack"'
    given = plans.parse(HIDDEN.format(rate="500k", more="", flow=flow))
    assert phases.warnings(given) == []
    assert phases.together(given.cells[0].scenario) == [1, 2]
