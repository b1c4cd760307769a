"""What waterfalls and maps show is seen, in grey too, and their captions say what it is of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import FakeResult, fake
from test_figures import drawn
from test_figures_seen import TEXT, changed


def slow(scenario: dict[str, Any], times: float) -> FakeResult:
    outcome = json.loads(fake(scenario).json())
    for hop in outcome["hops"] if "newreno" in scenario["flow"][0]["protocol"] else ():
        hop["node_s"] = times * hop["queue_s"]
    return FakeResult(outcome, {})


@pytest.mark.parametrize(("times", "own"), [(1.0, False), (20.0, True)])
def test_a_waterfall_much_longer_than_another_has_its_own_scale(
    tmp_path: Path, times: float, own: bool
) -> None:
    found = changed(tmp_path, lambda scenario: slow(scenario, times))
    figure, caption = drawn(found, kind="waterfall")
    limits = {round(axis.get_xlim()[1], 3) for axis in figure.axes}
    assert (len(limits) == 2) == own == ("Each panel has a scale of its own: they end" in caption)
    assert own == all("(own scale)" in axis.get_xlabel() for axis in figure.axes)
    for axis in figure.axes if own else ():
        last = max(p.get_window_extent().x1 for p in axis.patches)
        assert last > axis.get_window_extent().x0 + axis.get_window_extent().width / 3


def test_waits_in_the_lane_of_a_source_are_told_beside_send_buffers(tmp_path: Path) -> None:
    found = changed(tmp_path, fake, TEXT.replace("tcp-reno", "hxh"))
    _, caption = drawn(found, kind="waterfall")
    assert "With lanes (protocol hxh) a packet enters the mesh when its source's lane" in caption
    assert "without, that in the source's send buffer is in none." in caption
    for where in ("hxh", "tcp-newreno"):
        assert "With lanes" not in drawn(found, kind="waterfall", where={"protocol": where})[1]


def test_arrows_of_a_map_cover_no_names_and_good_links_differ_in_grey(tmp_path: Path) -> None:
    figure, _ = drawn(changed(tmp_path, fake), kind="map")
    figure.canvas.draw()
    arrows = [p.get_window_extent() for p in figure.axes[0].patches]
    names = [t for t in figure.axes[0].texts if t.get_text().startswith("n")]
    assert len(arrows) > 2 and len(names) > 2
    for name in names:
        assert not any(name.get_window_extent().overlaps(arrow) for arrow in arrows)
        assert name.get_zorder() > 3 and name.get_path_effects()
    shades = figure.axes[-1].collections[-1].get_cmap()
    greys = [np.dot(shades(v)[:3], (0.299, 0.587, 0.114)) for v in (0.6, 0.8, 1.0)]
    assert greys[0] - greys[1] > 0.15 and greys[1] - greys[2] > 0.15


def test_a_link_that_was_cut_and_never_tried_is_not_drawn(tmp_path: Path) -> None:
    """Nobody knows its quality."""

    def lines(snr: float | None) -> int:
        def cut(scenario: dict[str, Any]) -> FakeResult:
            outcome = json.loads(fake(scenario).json())
            for link in outcome["links"]:
                link |= {"attempts": 0, "tries": 0, "acked": 0, "frames": 0, "snr_db": snr}
            for place, node in enumerate(outcome["nodes"]):
                node["position"] = [float(place), 0.0, 0.0]
            return FakeResult(outcome, {})

        figure, _ = drawn(changed(tmp_path / str(snr), cut), kind="map")
        return sum(len(axis.get_lines()) for axis in figure.axes)

    assert lines(None) == lines(3.0) < lines(30.0)
