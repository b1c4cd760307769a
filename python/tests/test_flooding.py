"""Datagrams without a rate that leave no place in a queue: told before a run and after it."""

from pathlib import Path
from typing import Any

import pytest

import wifu
from wifu import cautions, flooding
from wifu import plan as plans
from wifu.screen import screen, warn_of_differences

PLAN = """
name = "flood"
runs = 2
[scenario]
topology = { words = "linear,3", set = "TB-A" }
radio = { queue = 5, ring = 2 }
stop.time = "5s"
record.frames = true
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "udp"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "{protocol}"
app = "file"
bytes = "10k"
start = "1s"
jitter = "5ms"
[vary]
protocol = ["tcp-newreno", "tcp-sack"]
"""


def test_what_keeps_others_from_sending_a_syn_is_told(tmp_path: Path) -> None:
    plan = plans.parse(PLAN)
    (words,) = flooding.warnings(plan)
    assert words.startswith(
        "Flow 1 of udp has no rate (cell tcp-newreno): datagrams keep the queue"
    )
    assert "others that begin or end there (flow 2) may find no place in it" in words
    with screen.capture() as seen:
        warn_of_differences(plan)
    assert words in " ".join(seen.get().split())
    results = wifu.campaign(plan, tmp_path / "r")
    assert all(results.flows[results.flows["flow"] == 2]["connected_s"].isna()), "so it is"
    told = " ".join(cautions.notes(results, plan.cells, "goodput"))
    assert "4 of 4 flows never connected" in told
    assert "4 of them began or ended at the node of flow 1, udp without a `rate`, which" in told
    why = results.why()["words"]
    assert all("Flow 2 never connected, and began or ended at the node of" in w for w in why)


TCP: dict[str, Any] = {"from": "n1", "to": "n3", "protocol": "tcp-newreno", "start": "1s"}
UDP: dict[str, Any] = {"from": "n1", "to": "n3", "protocol": "udp"}
BACK = {"from": "n3", "to": "n1"}
WIRES = {"words": "linear,3,wire=10M,queue=5"}


def ran(flows: list[dict[str, Any]], **more: Any) -> wifu.Run:
    """A run of these flows at radios with a short queue."""
    scenario: dict[str, Any] = {
        "topology": {"words": "linear,3", "set": "TB-A"}, "radio": {"queue": 5, "ring": 2},
        "stop": {"time": "6s"}, "record": {"frames": True}, "flow": flows,
    }  # fmt: skip
    return wifu.run({**scenario, **more})


@pytest.mark.parametrize(
    ("flows", "more"),
    [
        ([UDP, TCP], {"radio": {"queue": 30, "ring": 2}}),
        ([UDP, TCP], {"radio": {"queue": 5, "ring": 20}}),
        ([UDP, {**UDP, "to": "n2"}, TCP], {"radio": {"queue": 60, "ring": 2}}),
        ([UDP, {**TCP, **BACK}], {}),
        ([UDP, TCP], {"host": {"queue": {"kind": "fq_codel"}}}),
        ([UDP, TCP], {"host": {"queue": {"kind": "codel"}}}),
        ([UDP, {**TCP, "protocol": "hxh"}], {}),
    ],
)
def test_a_short_queue_of_a_radio_keeps_out_who_begins_or_ends_there(
    flows: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    run = ran(flows, **more)
    last = len(flows)
    assert run.outcome["flows"][-1]["connected_s"] is None, "so it is"
    assert flooding.beside(run.scenario) == {last: list(range(1, last))}
    assert f" Flow {last} never connected, and began or ended at the node" in run.why["words"]


@pytest.mark.parametrize(
    ("flows", "more"),
    [
        ([UDP, TCP], {"radio": {"queue": 31, "ring": 2}}),
        ([UDP, TCP], {"radio": {"queue": 20, "ring": 20}}),
        ([UDP, {**UDP, "to": "n2"}, TCP], {"radio": {"queue": 66, "ring": 2}}),
        ([UDP, TCP], {"topology": WIRES, "radio": {}}),
        ([UDP, TCP], {"topology": {"words": "linear,3,wire=10M"}, "radio": {}}),
        ([UDP, {**TCP, **BACK}], {"topology": WIRES, "radio": {}}),
        ([{**UDP, "start": "4s"}, {**TCP, "start": 0}], {}),
        ([{**UDP, "time": "900ms"}, TCP], {}),
        ([{**UDP, "app": "file", "bytes": "10k"}, {**TCP, "start": 0}], {}),
        ([UDP, TCP], {"host": {"queue": {"kind": "red", "thresh": 2, "maxthresh": 4}}}),
    ],
)
def test_who_finds_a_place_is_not_warned_of(
    flows: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    file = {**flows[-1], "app": "file", "bytes": "10k"}
    run = ran([*flows[:-1], file], **more)
    assert run.outcome["flows"][-1]["connected_s"] is not None, "so it is"
    assert flooding.beside(run.scenario) == {} and "never connected" not in (run.why["words"] or "")


def test_datagrams_are_not_said_to_lack_a_connection() -> None:
    rated = {**UDP, "to": "n2", "rate": "100k"}
    assert flooding.beside(ran([UDP, {**UDP, "to": "n2"}, rated]).scenario) == {}


@pytest.mark.parametrize("start", ["1s", "5s"])
def test_who_is_kept_out_by_a_cut_is_not_told_of_a_queue(start: str) -> None:
    """The SYN went out, and met the cut: or it was to begin before there was a flood."""
    cut = [{"at": "0s", "cut": ["n2", "n3"]}]
    flood = {**UDP, "to": "n2", "start": start, "time": "1s"}
    late = {**TCP, "start": "500ms"}
    run = ran([flood, late], event=cut, stop={"time": "9s"})
    (_, told) = run.outcome["flows"]
    assert told["connected_s"] is None and told["packets"]["sent"] > 0, "so it is"
    assert "never connected" not in (run.why["words"] or "")
    assert flooding._shown(run.outcome, 2, {2: [1]}) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('protocol = "udp"', 'protocol = "udp"\nrate = "1M"'),
        ('protocol = "udp"', 'protocol = "udp"\ntime = "900ms"'),
        ('to = "n3"\nprotocol = "udp"', 'to = "n2"\nprotocol = "udp"'),
        ("queue = 5, ring = 2", "queue = 5"),
        ("queue = 5, ring = 2", "ring = 2"),
        ('protocol = "udp"', 'protocol = "udp"\nstart = "2s"'),
        ('protocol = "udp"', 'protocol = "udp"\napp = "file"\nbytes = "10k"\nstart = "1s"'),
        ('topology = { words = "linear,3", set = "TB-A" }', 'topology.words = "linear,3,wire=10M"'),
    ],
)
def test_who_leaves_room_is_not_blamed(old: str, new: str) -> None:
    text = PLAN.replace(old, new)
    text = text.replace(
        'from = "n1"\nto = "n2"\nprotocol = "udp"', 'from = "n3"\nto = "n2"\nprotocol = "udp"'
    )
    assert text != PLAN
    assert list(flooding.warnings(plans.parse(text))) == []
