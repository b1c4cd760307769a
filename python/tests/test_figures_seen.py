"""What figures show is seen: nothing is hidden, left out silently, or told by colour alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fake import CHAIN, FakeResult, fake, pairs
from test_figures import drawn

import wifu
from wifu import plan as plans

TEXT = CHAIN.replace("[1, 3]", "[3]").replace("runs = 5", "runs = 1")


def changed(tmp_path: Path, runner: Any, text: str = TEXT) -> wifu.Results:
    return wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)


def test_dots_of_a_sequence_graph_are_above_circles_and_both_are_counted(tmp_path: Path) -> None:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        offsets = np.linspace(1448, 99_000, 40)
        again = np.where(np.arange(40) % 8 == 7, -offsets, offsets)
        times = np.linspace(0.02, 0.5, 40)
        return FakeResult(made._outcome, {**made._series, "flow.1.sent": pairs(times, again)})

    found = changed(tmp_path, runner)
    figure, _ = drawn(found, kind="sequence")
    for axis in figure.axes:
        lines = {str(line.get_marker()): line for line in axis.get_lines()}
        if "o" in lines:
            assert lines["."].get_zorder() > lines["o"].get_zorder()
    titles = {axis.get_title(loc="left") for axis in figure.axes}
    told = "35 sent, 5 retransmitted"
    assert titles == {f"protocol tcp-newreno\n{told}", f"protocol tcp-reno\n{told}", ""}
    figure, _ = drawn(found, kind="sequence", to="250ms")
    assert figure.axes[0].get_title(loc="left").endswith("\n17 sent, 2 retransmitted")


def test_lines_over_time_have_dashes_of_their_own(tmp_path: Path) -> None:
    figure, caption = drawn(changed(tmp_path, fake), kind="timeseries", show=["cwnd"])
    one, two = figure.axes[0].get_lines()
    assert not one.is_dashed() and two.is_dashed()
    assert "No line" not in caption


def test_flows_without_a_line_are_named(tmp_path: Path) -> None:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        gone = ["flow.2.srtt", "flow.1.cwnd", "flow.2.cwnd"]
        reno = "newreno" not in scenario["flow"][0]["protocol"]
        series = {k: v for k, v in made._series.items() if not (reno and k in gone)}
        return FakeResult(made._outcome, series)

    _, caption = drawn(changed(tmp_path, runner), kind="timeseries")
    told = "No line, as none is known: round-trip time of flow 2 (in protocol tcp-reno)."
    assert told in caption, "that of a panel without any line is written in it"
