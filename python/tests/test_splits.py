"""Cells whose nodes split TCP: what is told of a flow is of its source's half."""

from pathlib import Path
from typing import Any

import pytest
from test_cautions import PLAN, made, said

import wifu
from wifu import plan as plans
from wifu import report, splits, unlike

RENO, NEWRENO = "tcp-reno", "tcp-newreno"
REASON = "nodes split TCP, whose halves are not counted"
METRICS = ("retransmissions", "timeouts", "fast_retransmits", "loss", "srtt", "min_rtt", "rtt_p50")


def found(folder: Path, split: dict[str, Any] | None) -> wifu.Results:
    packets = {"sent": 700, "inside": 0, "delivered": 690}
    flow: dict[str, Any] = {
        "last_byte_s": 9.0, "data_segments": 700, "feedback_segments": 350, "packets": packets,
        "retransmissions": 9, "timeouts": 0, "fast_retransmits": 2, "srtt_s": 0.1,
        "min_rtt_s": 0.05, "rtt": {"p50_s": 0.1, "p95_s": 0.2, "p99_s": 0.2, "samples": 500},
    }  # fmt: skip
    slow = {**flow, "retransmissions": 99, "srtt_s": 0.2, "rtt": {**flow["rtt"], "p50_s": 0.2}}
    text = PLAN.replace('"aggregate", "jain", "sum_rates"', ", ".join(f'"{m}"' for m in METRICS))
    nodes = [{"name": "n1", "split": split}] if split else [{"name": "n1"}]
    return made(folder, {RENO: [slow], NEWRENO: [flow]}, text, nodes=nodes)


@pytest.mark.parametrize("metric", METRICS)
def test_what_splitters_send_again_is_told_and_nothing_is_coloured(
    tmp_path: Path, metric: str
) -> None:
    near, far = {"retransmissions": 10, "timeouts": 1}, {"retransmissions": 40, "timeouts": 2}
    split = {"accepted": 1, "near": near, "far": far}
    some = found(tmp_path / "a", split)
    assert REASON in unlike.reasons(some, some.plan.cells, metric)
    assert report.best_of(some, metric) == set()
    words = said(some, metric)
    assert "Nodes split TCP" in words and "of the source's half" in words
    counts = "50 segments again and 3 timeouts"
    assert f"per run: tcp-reno {counts}, tcp-newreno {counts}." in words
    # Who had nothing to split, such as a flow of datagrams, changed nothing.
    for other in (None, {**split, "accepted": 0}):
        none = found(tmp_path / f"{other is None}", other)
        assert REASON not in unlike.reasons(none, none.plan.cells, metric)
        assert "Nodes split" not in said(none, metric)


def test_goodput_is_of_both_halves(tmp_path: Path) -> None:
    some = found(tmp_path, {"accepted": 1})
    assert REASON not in unlike.reasons(some, some.plan.cells, "goodput")
    assert "Nodes split" not in said(some, "goodput")


def test_flows_that_pass_no_splitter_are_of_their_whole_way(tmp_path: Path) -> None:
    text = """
    name = "s"
    runs = 2
    pair = "protocol"
    metrics = ["retransmissions"]
    [scenario]
    topology.words = "linear,4,wire=10M"
    stop.time = "2s"
    split = [{ nodes = ["n3"] }]
    [[scenario.flow]]
    from = "n1"
    to = "n4"
    protocol = "{protocol}"
    jitter = "5ms"
    [[scenario.flow]]
    from = "n1"
    to = "n2"
    protocol = "{protocol}"
    [vary]
    protocol = ["tcp-newreno", "tcp-sack"]
    """
    results = wifu.campaign(plans.parse(text), tmp_path / "r")
    assert "Nodes split TCP" in said(results, "retransmissions@1")
    assert "Nodes split TCP" not in said(results, "retransmissions@2")
    assert REASON not in unlike.reasons(results, results.plan.cells, "srtt@2")


@pytest.mark.parametrize(
    ("split", "told"),
    [
        ('near = "tcp-newreno"', "run tcp-newreno in every cell (split.1.near)"),
        ('near = "{protocol}"\nfar = "tcp-cubic"', "run tcp-cubic in every cell (split.1.far)"),
        ('near = "tcp-newreno"\nfar = "{protocol}"', ""),
        ('near = "{protocol}"', ""),
        ("", ""),
    ],
)
def test_levels_that_are_the_same_behind_a_splitter_are_told(split: str, told: str) -> None:
    plan = plans.parse(f"""
    name = "s"
    [scenario]
    topology.words = "linear,4,wire=10M"
    [[scenario.split]]
    nodes = ["n2"]
    {split}
    [[scenario.flow]]
    from = "n1"
    to = "n4"
    protocol = "{{protocol}}"
    [vary]
    protocol = ["tcp-newreno", "tcp-bbr"]
    """)
    assert [told in text and "behind n2" in text for text in splits.warnings(plan)] == [
        True
    ] * bool(told)


@pytest.mark.parametrize("order", [("none", "on"), ("on", "none")])
def test_a_level_without_splitters_does_not_hide_the_others(order: tuple[str, str]) -> None:
    levels = {"none": "", "on": 'split = [{ nodes = ["n3"], far = "tcp-sack" }]'}
    plan = plans.parse(
        """
    name = "s"
    [scenario]
    topology.words = "linear,5"
    [[scenario.flow]]
    from = "n1"
    to = "n5"
    protocol = "{protocol}"
    [vary]
    protocol = ["tcp-newreno", "tcp-cubic"]
    """
        + "".join(f"[vary.relay.{name}]\n{levels[name]}\n" for name in order)
    )
    (told,) = splits.warnings(plan)
    assert "run tcp-sack in every cell that splits them (split.1.far)" in told
