"""What captions of losses at hops say of packets that are in no bar, on real runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import wifu
from wifu import figures
from wifu import plan as plans
from wifu.figures import latency, shares

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


ASKS = PLAN.replace('app = "file"\nbytes = "200k"', 'app = "request"\nresponse = "20k"\ncount = 4')


def test_hops_of_who_asks_are_of_questions_and_in_reverse_of_answers(tmp_path: Path) -> None:
    """The data of a flow that asks go back."""
    results = wifu.campaign(plans.parse(ASKS), tmp_path / "r")
    made = figures.draw(results, {"kind": "hops"}, tmp_path / "f")
    assert "questions and acknowledgements towards the flow's target" in made.caption
    assert "the answers, which are its data, go back" in made.caption
    back = figures.draw(results, {"kind": "hops", "reverse": True}, tmp_path / "g")
    assert "Share of the answers that a node sent" in back.caption
    assert back.title == "Lost on each hop back"
    file = wifu.campaign(plans.parse(PLAN), tmp_path / "s")
    acks = figures.draw(file, {"kind": "hops", "reverse": True}, tmp_path / "h")
    assert "acknowledgements, which go back," in acks.caption


def test_load_and_senders_of_who_asks_are_those_of_answers(tmp_path: Path) -> None:
    probe = '[[scenario.flow]]\nfrom = "n1"\nto = "n4"\nprotocol = "udp"\nrate = "20k"\n'
    series = '[series]\nruns = [1]\nrecord = ["delay"]\n'
    results = wifu.campaign(plans.parse(ASKS + probe + series), tmp_path / "r")
    run = latency._run(results, results.plan.cells[0], 1)
    assert shares._names(results, results.plan.cells, [1], False) == ["1: n4 to n1"]
    assert run is not None and list(run.load) == ["n4 > n1"] and list(run.probes) == ["n1 > n4"]
