"""Datagrams that a node refuses while its transport waits for room: told before a run and after."""

from pathlib import Path
from typing import Any

import pytest

import wifu
from wifu import cautions, crowded, crowdedout, figures, transfers, unlike
from wifu import plan as plans
from wifu.cells import Cell
from wifu.screen import screen, warn_of_differences

PLAN = """
name = "crowded"
runs = 3
pair = "queue"
baseline = "tail"
metrics = ["loss", "one_way_p50"]
[scenario]
topology.words = "linear,4,wire=10Mb/s,delay=1ms,queue=50"
stop.time = "8s"
[[scenario.flow]]
from = "n1"
to = "n4"
protocol = "tcp-newreno,ecn=on"
start = "1s"
jitter = "50ms"
[[scenario.flow]]
from = "n1"
to = "n4"
protocol = "udp"
rate = "100k"
size = 200
[series]
runs = [1]
record = ["delay"]
[vary.queue]
tail = {}
codel = { "host.queue" = { kind = "codel" } }
"""
WHY = "datagrams were refused where a transport waits for room"


def warned(text: str) -> str:
    with screen.capture() as seen:
        warn_of_differences(plans.parse(text))
    return " ".join(seen.get().split())


def test_datagrams_that_their_own_node_refuses_are_told_before_and_after(tmp_path: Path) -> None:
    told = warned(PLAN)
    assert "Flow 2 of udp begins at a node where flow 1 does, too (cell tail)" in told
    assert "datagrams that find it full are refused, which looks like losses on the way" in told
    assert "Let datagrams begin at another node, or one hop before the narrow link" in told
    assert "TCP Small Queues" in told
    found = wifu.campaign(plans.parse(PLAN), tmp_path / "r")
    rows = found.flows[found.flows["flow"] == 2].set_index("cell")
    shares = rows["crowded_out"] / rows["packets_sent"]
    assert shares["tail"].min() > 0.3 and shares["codel"].max() < 0.01, "so it is"
    for metric in ("loss", "one_way_p50", "latency_added", "goodput@2"):
        said = " ".join(cautions.notes(found, found.plan.cells, metric))
        assert "Datagrams were refused by the full queue of the node where they begin" in said
        assert "tail " in said and "There is neither colour nor bold." in said
        assert WHY in unlike.reasons(found, found.plan.cells, metric)
    for metric in ("goodput", "loss@1", "goodput@1"):
        assert WHY not in unlike.reasons(found, found.plan.cells, metric)
    for how in ({"kind": "bars", "metric": "loss"}, {"kind": "latency", "as": "cdf"}):
        drawn = figures.draw(found, how, tmp_path)
        assert drawn.caption.count("Datagrams were refused by the full queue") == 1
    assert "were refused" not in figures.draw(found, {"kind": "map"}, tmp_path).caption
    (row,) = found.comparison()["tables"]["loss"]
    assert row["uneven"] and WHY in row["why"]


def test_datagrams_from_elsewhere_meet_the_same_queue_and_few_are_lost(tmp_path: Path) -> None:
    head, found, tail = PLAN.rpartition('from = "n1"')
    text = head + 'from = "n2"' + tail
    assert found and "of udp begins" not in warned(text)
    results = wifu.campaign(plans.parse(text), tmp_path / "r")
    assert results.flows["crowded_out"].max() == 0
    assert WHY not in unlike.reasons(results, results.plan.cells, "loss")


def test_datagrams_that_do_not_fit_are_no_fault_of_a_transport(tmp_path: Path) -> None:
    """They fill the queue themselves, and as many are lost without any transport."""
    text = PLAN.replace('rate = "100k"\nsize = 200', 'rate = "16M"\nsize = 1000')
    results = wifu.campaign(plans.parse(text), tmp_path / "r")
    assert results.summary("loss")["mean"].max() > 0.2
    assert results.flows["crowded_out"].max() == 0
    assert WHY not in unlike.reasons(results, results.plan.cells, "loss")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("queue=50", "queue=1000"),
        ('start = "1s"', 'start = "6s"\nstop_at = "7s"'),
        ('words = "linear,4,wire=10Mb/s,delay=1ms,queue=50"', 'words = "linear,4"'),
        ("tail = {}", 'tail = { "host.queue" = { kind = "red" } }'),
    ],
)
def test_nothing_is_said_of_who_leaves_room(old: str, new: str) -> None:
    text = PLAN.replace(old, new).replace("size = 200", 'size = 200\ntime = "2s"')
    assert text.count(new) and "of udp begins" not in warned(text)


LARGE = 'ecn=on"\napp = "request"\nrequest = "{}"\nresponse = "{}"'


@pytest.mark.parametrize(
    ("asks", "question", "answer", "told"),
    [
        ("n1", "1M", "100", True),
        ("n4", "100", "1M", True),
        ("n1", "100", "1M", False),
        ("n1", "60k", "100", False),
        ("n4", "100", "60k", False),
    ],
)
def test_questions_begin_where_they_are_asked_and_answers_at_the_other_end(
    tmp_path: Path, asks: str, question: str, answer: str, told: bool
) -> None:
    """What fits into the queue all at once does not fill it."""
    ends, given = 'from = "n1"\nto = "n4"\n', LARGE.format(question, answer)
    text = PLAN.replace('ecn=on"', given)
    if asks == "n4":
        text = text.replace(ends + 'protocol = "tcp', 'from = "n4"\nto = "n1"\nprotocol = "tcp')
    assert text.count(given) == 1
    assert ("of udp begins" in warned(text)) is told
    found = wifu.campaign(plans.parse(text), tmp_path / "r")
    rows = found.flows[(found.flows["flow"] == 2) & (found.flows["cell"] == "tail")]
    assert bool((rows["crowded_out"] / rows["packets_sent"]).min() > 0.3) is told
    assert (WHY in unlike.reasons(found, found.plan.cells, "loss")) is told
    if not told:
        assert rows["crowded_out"].max() == 0


WIRED: dict[str, Any] = {
    "topology": {
        "node": [{"name": f"n{k}"} for k in (1, 2, 3)],
        "wire": [
            {"a": "n1", "b": "n2", "rate": "10M", "delay": "5ms", "queue": 50},
            {"a": "n1", "b": "n3", "rate": "1M", "delay": "5ms", "queue": 50},
        ],
    },
    "stop": {"time": "6s"},
}
TCP = {"from": "n1", "to": "n2", "protocol": "tcp-newreno"}
UDP = {"from": "n1", "to": "n3", "protocol": "udp"}


def crowded_out(scenario: dict[str, Any]) -> tuple[list[int], float, int]:
    """Whether a scenario is warned of and what comes of it: by whom, and how many of the datagrams
    of its last flow were refused where a transport waits, and by any queue.
    """
    cell = Cell(0, "only", {}, scenario)
    run = wifu.run(scenario)
    rows, last = run.to_pandas(), len(scenario["flow"])
    refused = sum(hop["queue_drops"] for hop in run.outcome["hops"] if hop["flow"] == last)
    return crowded.beside(cell).get(last, []), rows["crowded_out"].iloc[-1], refused


def test_each_wire_of_a_node_has_a_queue_of_its_own() -> None:
    """Datagrams that are too many for their wire are no fault of who keeps another one busy."""
    by, blamed, refused = crowded_out({**WIRED, "flow": [TCP, {**UDP, "rate": "2M"}]})
    assert refused > 100 and blamed == 0 and by == []
    few = {**UDP, "to": "n2", "rate": "100k", "size": 200}
    by, blamed, refused = crowded_out({**WIRED, "flow": [TCP, few]})
    assert blamed == refused > 100 and by == [1]


def test_a_radio_has_one_queue_for_all_its_neighbours() -> None:
    scenario: dict[str, Any] = {
        "topology": {"words": "linear,3", "set": "TB-A"}, "radio": {"queue": 5, "ring": 2},
        "stop": {"time": "6s"},
    }  # fmt: skip
    there = {"from": "n2", "to": "n1", "protocol": "atp"}
    flows = [there, {**UDP, "from": "n2", "rate": "50k", "size": 200}]
    by, blamed, refused = crowded_out({**scenario, "flow": flows})
    assert blamed == refused > 2 and by == [1], "few, as radios report in batches what left"


def test_wires_are_not_short_where_radios_are() -> None:
    """Of a server on a wire behind a mesh."""
    topology = {
        "words": "linear,2",
        "node": [{"name": name, "wired_only": True} for name in ("server", "hall")],
        "wire": [{"a": "server", "b": "hall", "rate": "10M"}],
    }
    ends = {"from": "server", "to": "hall"}
    flows = [{**TCP, **ends}, {**UDP, **ends, "rate": "100k"}]
    scenario = {"topology": topology, "radio": {"queue": 5, "ring": 2}, "flow": flows}
    by, blamed, refused = crowded_out({**scenario, "stop": {"time": "3s"}})
    assert (by, blamed, refused) == ([], 0, 0)


def test_the_half_behind_a_splitter_keeps_its_queue_full() -> None:
    wires = [
        {**w, "b": "n3"} if w["b"] == "n2" else {**w, "b": "n2"} for w in WIRED["topology"]["wire"]
    ]
    topology = {**WIRED["topology"], "wire": wires}
    flows = [{**TCP, "from": "n3"}, {**UDP, "to": "n2", "rate": "50k", "size": 200}]
    scenario = {**WIRED, "topology": topology, "flow": flows}
    by, blamed, refused = crowded_out({**scenario, "split": [{"nodes": ["n1"]}]})
    assert blamed == refused > 100 and by == [1]
    by, blamed, refused = crowded_out(scenario)
    assert blamed == 0 and by == [], "on the way: it takes from both"


def test_several_flows_are_told_of_in_the_plural() -> None:
    flow = PLAN[PLAN.index("[[scenario.flow]]") : PLAN.index("[[scenario.flow]]", 250)]
    told = warned(PLAN.replace("[series]", flow + "[series]"))
    assert "Flow 2 of udp begins at a node where flows 1, 3 do, too (cell tail)" in told


@pytest.mark.parametrize("nodes", [[], [{"name": "n1", "split": {"accepted": 1}}]])
def test_hops_that_name_no_flow_are_nobodys(nodes: list[Any]) -> None:
    """As those of other programs than the simulator may."""
    tcp = {"id": 1, "limited_s": {"queue": 1.0}, **TCP}
    datagrams = {"id": 2, "from": "n1", "to": "n2", "protocol": "udp"}
    hop = {"from": "n1", "to": "n2", "packets": 90}
    hops = [{**hop, "flow": 1}, {**hop, "flow": 2, "queue_drops": 5}]
    outcome = {"flows": [tcp, datagrams], "hops": hops, "nodes": nodes}
    assert crowdedout.crowded_out(outcome, datagrams) == 5
    untold = {**hop, "queue_drops": 7}
    assert crowdedout.crowded_out({**outcome, "hops": [untold, *hops]}, datagrams) == 5
    flow = {"id": 1, "from": "n0", "to": "n2", "protocol": "tcp-newreno"}
    assert transfers.split({**outcome, "flows": [flow], "hops": [untold]}) == (
        {1} if nodes else set()
    )
