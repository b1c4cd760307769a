"""What stands beside each other in a figure is told apart: numbers on bars of flows, directions of
datagrams, and flows without segments.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import CHAIN, PROBED, FakeResult, fake
from test_figures import drawn, legend
from test_figures_honest import laid_out

import wifu
from wifu import plan as plans
from wifu.errors import LabError

UP = """[[scenario.flow]]
from = "n2"
to = "n1"
protocol = "udp"
rate = "40k"
size = 128
stop_at = "8s"

[vary]"""


def starving(scenario: dict[str, Any]) -> FakeResult:
    """The second flow gets nothing, and the file of the first is cut off in one run."""
    made = fake(scenario)
    one, two, *_ = made._outcome["flows"]
    two |= {"bytes": 0, "first_byte_s": None, "last_byte_s": None, "finished": False}
    one["finished"] = scenario["run"] != 2
    return made


# Numbers on bars ----------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [None, 1, 2])
@pytest.mark.parametrize("metric", ["goodput", "delay"])
def test_numbers_on_bars_of_flows_keep_apart(
    tmp_path: Path, columns: int | None, metric: str
) -> None:
    text = CHAIN.replace("copies = 2", 'copies = 3\napp = "file"\nbytes = "1M"')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=starving)
    figure, _ = laid_out(found, kind="flows", metric=metric, columns=columns)
    figure.draw_without_rendering()
    told = [text for axis in figure.axes for text in axis.texts if text.get_text()]
    assert len(told) >= 4
    assert {text.get_text()[0] for text in told} & {"0", "n", "≥"}, "what has no bar is told"
    for axis in figure.axes:
        boxes = [text.get_window_extent() for text in axis.texts if text.get_text()]
        assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
        top = axis.get_window_extent().y1
        assert all(box.y1 <= top + 1 for box in boxes), "and are inside their panel"


# Directions of datagrams --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    """Datagrams from either end, of which one way has a transfer as well."""
    folder = tmp_path_factory.mktemp("both") / "r"
    return wifu.campaign(plans.parse(PROBED.replace("[vary]", UP, 1)), folder)


def test_latency_of_two_directions_has_a_line_and_a_shape_for_each(
    both_ways: wifu.Results,
) -> None:
    figure, caption = drawn(both_ways, kind="latency")
    assert legend(figure) == ["n1 > n2", "n2 > n1"]
    handles = figure.legends[0].legend_handles
    looks = [(h.get_color(), h.get_marker()) for h in handles]  # type: ignore[union-attr]
    assert all(a != b for a, b in zip(*looks, strict=True)), "in grey, too"
    for below in figure.axes[1::2]:
        dots = [line for line in below.get_lines() if line.get_marker() == "."]
        there, back = (np.asarray(line.get_ydata(), dtype=float) for line in dots)
        assert {line.get_color() for line in dots} == {looks[0][0], looks[1][0]}
        assert np.median(there) > 3 * np.median(back), "the load's queue is in one direction"
    assert " arrived (n1 > n2: flow 2 " in caption and "n2 > n1:" not in caption


def test_a_distribution_of_two_directions_says_so(both_ways: wifu.Results) -> None:
    _, caption = drawn(both_ways, kind="latency", **{"as": "cdf", "by": "window"})
    assert "of both directions and of all runs" in caption


# Segments of datagrams ----------------------------------------------------------------------------


def test_a_sequence_graph_of_datagrams_says_that_there_are_no_segments(
    probed: wifu.Results,
) -> None:
    where = {"window": 12000}
    why = "is of datagrams, of which no segments are recorded: choose another `flow`, or other"
    for flow in (2, 3):
        with pytest.raises(LabError, match=f"flow {flow} of 12000 {why} cells by `where`"):
            drawn(probed, kind="sequence", flow=flow, where=where)
    figure, caption = drawn(probed, kind="sequence", flow=1, where=where)
    assert "Run 1, flow 1." in caption
    assert " sent, 0 retransmitted" in figure.axes[0].get_title(loc="left")
