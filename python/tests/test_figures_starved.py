"""Figures over time have the flows that got nothing: a line at 0, a name, and a word why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import CHAIN, FakeResult, fake, pairs
from matplotlib.axes import Axes
from test_figures import drawn, legend

import wifu
from wifu import plan as plans

ONE = CHAIN.replace("hops = [1, 3]", "hops = [1]").replace("runs = 5", "runs = 1")
GOODPUT: dict[str, Any] = {"kind": "timeseries", "show": ["goodput"]}


def starving(
    flows: Sequence[int], only: str = "", **others: Any
) -> Callable[[dict[str, Any]], FakeResult]:
    """A runner whose `flows` never connect while others last; with one protocol `only`."""

    def run(scenario: dict[str, Any]) -> FakeResult:
        result = fake(scenario)
        result._outcome["sim_seconds"] = 8.0
        for flow in result._outcome["flows"]:
            if flow["id"] in flows and only in flow["protocol"]:
                nothing: dict[str, Any] = {
                    "connected_s": None, "first_byte_s": None, "last_byte_s": None, "bytes": 0,
                    "finished": False, "goodput_bps": 0.0, "srtt_s": None, "min_rtt_s": None,
                }  # fmt: skip
                flow |= nothing | others
                for name in [n for n in result._series if n.startswith(f"flow.{flow['id']}.")]:
                    if not name.endswith(".sent"):  # the SYN and its retransmissions
                        del result._series[name]
        return result

    return run


def made(folder: Path, runner: Any) -> wifu.Results:
    return wifu.campaign(plans.parse(ONE), folder / "r", runner=runner)


def ends(axis: Axes) -> list[tuple[float, float]]:
    """The last point of each line."""
    points = [np.asarray(line.get_xydata(), float)[-1] for line in axis.get_lines()]
    return [(float(x), float(y)) for x, y in points]


@pytest.mark.parametrize("show", ["goodput", "delivered"])
def test_a_flow_that_got_nothing_is_a_line_at_zero(tmp_path: Path, show: str) -> None:
    found = made(tmp_path, starving([2]))
    figure, caption = drawn(found, kind="timeseries", show=[show])
    assert legend(figure) == ["flow 1", "flow 2"]
    for axis in figure.axes:
        _, two = axis.get_lines()
        assert not np.any(two.get_ydata())
        assert ends(axis)[1] == (8.0, 0.0)
    assert "Flow 2 never connected, in any panel." in caption


def test_a_flow_at_one_rate_has_no_ramp(tmp_path: Path) -> None:
    """The window reaches back before it began, where it could carry nothing."""

    def even(scenario: dict[str, Any]) -> FakeResult:
        result, run = fake(scenario), scenario["run"]
        times = 1.0 + 0.01 * np.arange(1, 401)
        for flow in result._outcome["flows"]:
            flow |= {"start_s": 1.0, "last_byte_s": 5.0}
            octets = (12_500 + run) * np.arange(1, 401)  # 10 Mb/s
            result._series[f"flow.{flow['id']}.delivered"] = pairs(times, octets)
        return result

    figure, caption = drawn(made(tmp_path, even), **GOODPUT)
    assert "at first since the flow began" in caption
    for line in figure.axes[0].get_lines():
        x, y = np.asarray(line.get_xydata(), float).T
        assert x[0] > 1.0 and y == pytest.approx(np.full(len(y), 10.0), rel=0.01)


def test_where_all_flows_got_nothing_the_value_is_zero(tmp_path: Path) -> None:
    found = made(tmp_path, starving([1, 2]))
    figure, caption = drawn(found, kind="timeseries", show=["goodput", "cwnd"])
    above, below = figure.axes[::2], figure.axes[1::2]
    assert [len(axis.get_lines()) for axis in above] == [2, 2]
    assert not any(axis.texts for axis in above)
    # Nothing is not magnified.
    assert above[0].get_ylim() == (0.0, 1.0)
    # A sender that never connected has no window.
    assert [[t.get_text() for t in axis.texts] for axis in below] == [["no value"]] * 2
    assert "Flows 1 and 2 never connected, in any panel." in caption


def test_a_caption_says_in_which_panel_a_flow_never_connected(tmp_path: Path) -> None:
    found = made(tmp_path, starving([2], only="newreno"))
    _, caption = drawn(found, **GOODPUT)
    assert "Flow 2 never connected in protocol tcp-newreno." in caption
    _, caption = drawn(found, **GOODPUT, where={"protocol": "tcp-newreno"})
    assert "Flow 2 never connected." in caption
    _, caption = drawn(found, **GOODPUT, where={"protocol": "tcp-reno"})
    assert "connected" not in caption


def test_a_flow_that_connected_and_got_nothing_is_not_said_not_to_have(tmp_path: Path) -> None:
    figure, caption = drawn(made(tmp_path, starving([2], connected_s=0.01)), **GOODPUT)
    assert ends(figure.axes[0])[1] == (8.0, 0.0)
    assert "connected" not in caption


def test_a_flow_that_was_to_begin_after_the_end_is_not_there(tmp_path: Path) -> None:
    figure, caption = drawn(made(tmp_path, starving([2], start_s=9.0)), **GOODPUT)
    assert [len(axis.get_lines()) for axis in figure.axes] == [1, 1]
    assert "connected" not in caption


def test_one_flow_that_got_nothing_is_seen(tmp_path: Path) -> None:
    text = ONE.replace("copies = 2", "copies = 1")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=starving([1]))
    figure, _ = drawn(found, **GOODPUT)
    (line,) = figure.axes[0].get_lines()
    assert line.get_zorder() > figure.axes[0].spines["bottom"].get_zorder()
    assert not line.get_clip_on()


def test_what_was_not_recorded_is_not_zero(tmp_path: Path) -> None:
    # Octets came, and nobody wrote down when.
    figure, _ = drawn(made(tmp_path, starving([2], bytes=5, connected_s=0.01)), **GOODPUT)
    assert [len(axis.get_lines()) for axis in figure.axes] == [1, 1]
