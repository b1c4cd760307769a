"""Figures say what they show: places of nodes that move, scales, ticks and what is tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import CHAIN, FakeResult, fake
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from test_figures import drawn, panel_titles

import wifu
from wifu import figures
from wifu import plan as plans
from wifu.figures import latency, page, style
from wifu.report import write

MOVING = CHAIN.replace(
    'topology.words = "linear,{hops+1}"',
    """topology.words = "linear,{hops+1}"
[[scenario.topology.node]]
name = "n1"
position = [-40.0, 10.0, 0.0]
[[scenario.topology.node]]
name = "n2"
position = [42.0, 0.0, 0.0]
[[scenario.mobility]]
kind = "waypoint"
""",
)


def laid_out(results: wifu.Results, **spec: Any) -> tuple[Figure, str]:
    """A figure as it is saved, and its caption."""
    with style.context(spec.get("columns")):
        figure, _, caption = figures.made(results, spec)
        style.fold(figure)
    return figure, caption


# The mesh -----------------------------------------------------------------------------------------


def test_a_map_of_nodes_that_move_says_when_they_are_there(
    results: wifu.Results, tmp_path: Path
) -> None:
    where = {"hops": 3, "protocol": "tcp-reno"}
    moved = wifu.campaign(plans.parse(MOVING), tmp_path / "r", runner=fake)
    figure, caption = drawn(moved, kind="map", where=where)
    assert panel_titles(figure) == ["at the end of the run"]
    assert "Nodes that move are where they were when the run ended" in caption
    assert "links are of the whole run" in caption
    # From where the scenario has them a line goes to where they are now.
    (way,) = [v for v in figure.axes[0].get_lines() if v.get_linestyle() == ":"]
    assert way.get_xydata().tolist() == [[-40.0, 10.0], [21.0, 3.0]]  # type: ignore[union-attr]
    assert (
        "(dotted: straight from where they began, which is not the way that they walked" in caption
    )
    assert "where those that walk at random began, and their ways, are not recorded" in caption
    still, caption = drawn(results, kind="map", where=where)
    assert panel_titles(still) == [] and "move" not in caption
    assert not [v for v in still.axes[0].get_lines() if v.get_linestyle() == ":"]


def test_a_map_has_the_way_of_a_trace(tmp_path: Path) -> None:
    rows = '[[0.0, "n2", 5.0, 5.0], [0.1, "n2", 15.0, 25.0], [900.0, "n2", 9999.0, 0.0]]'
    text = MOVING.replace('kind = "waypoint"', f'kind = "trace"\nrows = {rows}')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    figure, caption = drawn(found, kind="map", where={"hops": 3, "protocol": "tcp-reno"})
    (way,) = [v for v in figure.axes[0].get_lines() if v.get_linestyle() == ":"]
    points = way.get_xydata().tolist()  # type: ignore[union-attr]
    # Until the run ended, and from the first row, where it is from the beginning.
    assert points[:2] == [[5.0, 5.0], [15.0, 25.0]] and len(points) == 3 and points[2][0] < 100.0
    assert "(dotted: as their trace has them); links" in caption and "random" not in caption


def test_only_panels_of_nodes_that_move_say_so(tmp_path: Path) -> None:
    text = CHAIN + '\n[vary.walk]\nno = {}\nyes = { mobility = [{ kind = "waypoint" }] }\n'
    text = text.replace('protocol = ["tcp-reno", "tcp-newreno"]', 'protocol = ["tcp-reno"]')
    text = text.replace("[series]\nruns = [1]\n", "")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    figure, _ = drawn(found, kind="map", where={"hops": 1})
    assert panel_titles(figure) == ["walk no", "walk yes, at the end of the run"]


# Scales -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (16.0, 700.0),
        (0.9, 9.0),
        (11.0, 12.6),
        (2.1, 2.4),
        (0.003, 40.0),
        (1e-6, 1e6),
        (95.0, 105.0),
    ],
)
@pytest.mark.parametrize("which", ["x", "y"])
def test_a_logarithmic_scale_has_two_numbers_at_least(low: float, high: float, which: str) -> None:
    with style.context():
        figure = page.figure(4, 3)
        axis = figure.subplots()
        style.logarithmic(axis, which)
        getattr(axis, f"set_{which}lim")(low, high)
        figure.draw_without_rendering()
        scale = axis.xaxis if which == "x" else axis.yaxis
        told = shown(axis, which)
        assert 2 <= len(told) <= 10, [text for _, text in told]
        assert all(float(text) == pytest.approx(at) for at, text in told)
        boxes = [label.get_window_extent() for label in scale.get_ticklabels(which="both")]
        boxes = [b for b in boxes if b.width > 0]
        assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


def shown(axis: Axes, which: str) -> list[tuple[float, str]]:
    """The numbers along a scale that are seen, and where they stand."""
    scale = axis.xaxis if which == "x" else axis.yaxis
    low, high = sorted(getattr(axis, f"get_{which}lim")())
    ticks = [*scale.get_major_ticks(), *scale.get_minor_ticks()]
    return [
        (float(t.get_loc()), t.label1.get_text())
        for t in ticks
        if t.label1.get_text() and low <= t.get_loc() <= high
    ]


def test_a_tradeoff_says_that_a_scale_does_not_begin_at_zero(
    results: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"kind": "tradeoff", "metric": "goodput", "where": {"hops": 3}}
    figure, caption = drawn(results, **given)
    (axis,) = figure.axes
    assert axis.get_ylim()[0] > 0 and axis.get_xlim()[0] > 0
    assert "Scales do not begin at 0." in caption
    wide = results.runs.assign(
        goodput_bps=results.runs["goodput_bps"] * np.where(results.runs["run"] <= 4, 0.0, 1.0)
    )
    monkeypatch.setattr(results, "runs", wide)
    figure, caption = drawn(results, **given)
    assert figure.axes[0].get_ylim()[0] == 0
    assert "The scale of smoothed round-trip time at the end does not begin at 0." in caption
    assert "Ellipses end at 0, below which nothing can be." in caption


def test_marks_at_zero_are_whole(results: wifu.Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "runs", results.runs.assign(loss_share=0.0))
    for spec in ({"kind": "lines", "x": "hops", "metric": "loss"}, {"kind": "timeseries"}):
        figure, _ = drawn(results, **spec)
        marked = [
            line
            for axis in figure.axes
            for line in axis.get_lines()
            if line.get_marker() in style.MARKERS
        ]
        assert marked and not any(line.get_clip_on() for line in marked), spec
    axis = page.figure(4, 3).subplots()
    (line,) = axis.plot([0.0, 1.0, 2.0], [0.0, 0.0, 0.0])
    latency._mark(line, 0, 2, (0.0, 2.0))
    assert axis.get_lines()[-1].get_marker() == "o" and not axis.get_lines()[-1].get_clip_on()


def test_panels_of_one_range_say_so(results: wifu.Results) -> None:
    for kind in ("cdf", "tradeoff"):
        _, caption = drawn(results, kind=kind, scales="shared")
        assert "The panels have one range" in caption, kind
        _, caption = drawn(results, kind=kind, scales="own")
        assert "one range" not in caption, kind
        _, caption = drawn(results, kind=kind, where={"hops": 3})
        assert "one range" not in caption, kind
    _, caption = drawn(results, kind="cdf", scales="shared")
    # Of a panel that is squeezed it is told by how much, and what to do.
    few = results.flows.assign(goodput_bps=results.flows["goodput_bps"] * FEW)
    with pytest.MonkeyPatch.context() as patch:
        slow = few["hops"] == 3
        patch.setattr(
            results,
            "flows",
            results.flows.assign(
                goodput_bps=np.where(slow, few["goodput_bps"], results.flows["goodput_bps"])
            ),
        )
        _, caption = drawn(results, kind="cdf", scales="shared")
    assert 'All of hops 3 is in the first 1 % of it: scales = "own" shows it.' in caption


FEW = 0.02


# Ratios -------------------------------------------------------------------------------------------


def test_comparisons_are_those_of_the_metric_and_not_of_the_plan(results: wifu.Results) -> None:
    _, caption = drawn(results, kind="ratio", x="hops")
    assert "over all 2 comparisons of this metric" in caption and "of the plan" not in caption


def test_the_scale_of_ratios_is_named_in_few_lines(tmp_path: Path) -> None:
    text = CHAIN.replace(
        '["tcp-reno", "tcp-newreno"]',
        '["tcp-newreno,profile=rfc-modern", "tcp-tahoe,profile=wifu-tahoe"]',
    ).replace('baseline = "tcp-reno"\n', "")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    figure, _ = laid_out(found, kind="ratio", x="hops", columns=1)
    lines = figure.axes[0].get_ylabel().split("\n")
    assert len(lines) <= 3 and "log scale" in lines[-1]
    assert not any(line.startswith(")") for line in lines), lines


def test_signs_of_what_is_identical_keep_apart(tmp_path: Path) -> None:
    names = [f"tcp-reno,iw={n}" for n in range(1, 13)]
    text = CHAIN.replace('["tcp-reno", "tcp-newreno"]', repr(names))
    text = text.replace('baseline = "tcp-reno"\n', "").replace("[1, 3]", "[1, 2, 3, 4]")

    def same(scenario: dict[str, Any]) -> FakeResult:
        flows = [{**f, "protocol": "tcp-reno"} for f in scenario["flow"]]
        return fake({**scenario, "flow": flows})

    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=same)
    figure, _ = laid_out(found, kind="ratio", x="hops", columns=1)
    boxes = [t.get_window_extent() for t in figure.axes[0].texts if t.get_text() == "="]
    assert len(boxes) == 44
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


# Steady state of one run --------------------------------------------------------------------------

STEADY = CHAIN.replace("runs = 5", 'runs = 1\nmeasure = "steady"').replace(
    "[series]\nruns = [1]", ""
)


@pytest.fixture
def steady(tmp_path: Path) -> wifu.Results:
    """One run of each cell, in ten batches that take unequal times."""

    def uneven(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        ends = np.cumsum([1.0 + 0.1 * ((k * 3) % 4) for k in range(11)])
        made._outcome["batches_end_s"] = [float(e) for e in ends]
        return made

    return wifu.campaign(plans.parse(STEADY), tmp_path / "r", runner=uneven)


def test_intervals_of_batches_are_not_said_to_be_of_runs(
    steady: wifu.Results, tmp_path: Path
) -> None:
    told = write(steady, tmp_path / "r.html", []).read_text()
    assert "One run of each cell: an interval is of its 10 batches" in told
    assert "what has no batches has none" in told and "n = 1 runs" not in told
    _, caption = drawn(steady, kind="bars", x="hops")
    assert "one run per cell; whiskers: 95 % interval of its batches (batch means" in caption
    _, caption = drawn(steady, kind="bars", x="hops", metric="srtt")
    assert "one run per cell; no interval" in caption
    for kind in ("fairness", "ratio", "flows"):
        _, caption = drawn(steady, kind=kind)
        assert "whiskers" not in caption and "no interval" in caption, kind


def test_the_screen_does_not_count_batches_as_runs(
    steady: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wifu.screen import _summary_table

    heads = [column.header for column in _summary_table(steady).columns]
    assert "batches" in heads and "n" not in heads
