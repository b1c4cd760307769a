"""Datagrams that a node refuses while its transport waits for room: told before a run and after."""

from pathlib import Path

import pytest

import wifu
from wifu import cautions, figures, unlike
from wifu import plan as plans
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
    assert found and warned(text) == ""
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


def test_answers_begin_at_who_is_asked() -> None:
    asked = PLAN.replace('ecn=on"', 'ecn=on"\napp = "request"')
    assert "of udp begins" not in warned(asked)
    ends = 'from = "n1"\nto = "n4"\nprotocol = "tcp'
    turned = asked.replace(ends, 'from = "n4"\nto = "n1"\nprotocol = "tcp')
    assert turned != asked and "of udp begins" in warned(turned)
