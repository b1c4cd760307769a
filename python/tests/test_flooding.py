"""Datagrams without a rate that leave no place in a queue: told before a run and after it."""

from pathlib import Path

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
    assert "other flows that begin there (2) may never find a place" in words
    with screen.capture() as seen:
        warn_of_differences(plan)
    assert words in " ".join(seen.get().split())
    results = wifu.campaign(plan, tmp_path / "r")
    assert all(results.flows[results.flows["flow"] == 2]["connected_s"].isna()), "so it is"
    told = " ".join(cautions.notes(results, plan.cells, "goodput"))
    assert "4 of 4 flows never connected" in told
    assert "4 of them begin at the node of flow 1, udp without a `rate`, which keeps its" in told
    why = results.why()["words"]
    assert all("Flow 2 never connected, and began at the node of flow 1, udp" in w for w in why)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('protocol = "udp"', 'protocol = "udp"\nrate = "1M"'),
        ('protocol = "udp"', 'protocol = "udp"\ntime = "900ms"'),
        ('to = "n3"\nprotocol = "udp"', 'to = "n1"\nprotocol = "udp"'),
    ],
)
def test_who_leaves_room_is_not_blamed(old: str, new: str) -> None:
    text = PLAN.replace(old, new)
    text = text.replace('from = "n1"\nto = "n1"', 'from = "n3"\nto = "n1"')
    assert text != PLAN
    assert list(flooding.warnings(plans.parse(text))) == []
