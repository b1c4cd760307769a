"""What captions of losses at hops say of packets that are in no bar, on real runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import wifu
from wifu import figures
from wifu import plan as plans

PLAN = """
name = "hops"
runs = 2
metrics = ["loss"]
[scenario]
topology.words = "linear,4"
stop.time = "20s"
[[scenario.flow]]
from = "n1"
to = "n4"
protocol = "tcp-newreno"
app = "file"
bytes = "200k"
jitter = "5ms"
"""

DROP = """
[[scenario.handler]]
use = "drop"
nodes = ["n3"]
hooks = ["forward"]
p = 0.05
"""


@pytest.mark.parametrize(
    ("more", "said", "unsaid"),
    [
        ("", "Queues dropped nothing besides.", "handlers"),
        (DROP, "handlers of nodes dropped or lanes let go, per run and of both", "besides"),
    ],
)
def test_what_is_in_no_bar_is_told(tmp_path: Path, more: str, said: str, unsaid: str) -> None:
    results = wifu.campaign(plans.parse(PLAN + more), tmp_path / "r")
    made = figures.draw(results, {"kind": "hops"}, tmp_path / "f")
    assert said in made.caption and unsaid not in made.caption
    # The metric `loss` has the other direction in it.
    assert "packets towards the flow's target" in made.caption
    assert made.title.startswith("Lost on each hop towards the target")


def test_what_full_lanes_did_not_take_is_told(tmp_path: Path) -> None:
    text = (
        PLAN.replace('"tcp-newreno"', '"hxh"')
        .replace('"linear,4"', '"linear,5,set=TB-W9"')
        .replace('app = "file"\nbytes = "200k"\n', "")
    )
    flow = text[text.index("[[scenario.flow]]") :]
    text = "".join([text.replace('"n4"', '"n5"'), *(flow.replace("n4", n) for n in ("n2", "n3"))])
    results = wifu.campaign(plans.parse(text), tmp_path / "r")
    rows = results.hops()
    assert rows[(rows["flow"] == 1) & ~rows["reverse"]]["lane_drops"].sum() > 0
    caption = figures.draw(results, {"kind": "hops"}, tmp_path / "f").caption
    assert "packets that full lanes did not take, per run: " in caption and "besides" not in caption
