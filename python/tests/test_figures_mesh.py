"""What waterfalls and maps show is seen, in grey too, and their captions say what it is of."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import FakeResult, fake
from matplotlib.text import Text
from test_figures import drawn, legend
from test_figures_layout import folded
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
    firsts = [a for a in figure.axes if (p := a.get_subplotspec()) and p.is_first_col()]
    assert len(firsts) > 1 and {a.get_ylabel() for a in firsts} == {"m"}
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


def unused(scenario: dict[str, Any], metres: float) -> FakeResult:
    """Of a chain the first and the third node hear each other, and send each other nothing."""
    outcome = json.loads(fake(scenario).json())
    for one, two in (("n1", "n3"), ("n3", "n1"), ("n4", "n1")):
        link = {"attempts": 0, "tries": 0, "acked": 0, "frames": 0, "overheard": 9}
        outcome["links"].append({"from": one, "to": two, "snr_db": 20.0, **link})
    for place, node in enumerate(outcome["nodes"]):
        node["position"] = [metres * place, 9.0 * (place % 2), 0.0] if metres else None
    return FakeResult(outcome, {})


@pytest.mark.parametrize(("metres", "lines"), [(21.0, 2), (0.0, 0)])
def test_a_map_draws_neighbours_that_were_not_used(
    tmp_path: Path, metres: float, lines: int
) -> None:
    """However far apart they are, in metres; in a row they would lie upon those between them."""
    found = changed(tmp_path, lambda scenario: unused(scenario, metres))
    figure, caption = drawn(found, kind="map", where={"protocol": "tcp-reno"})
    greys = [
        v
        for v in figure.axes[0].get_lines()
        if v.get_linestyle() == "-" and len(np.asarray(v.get_xdata())) == 2
    ]
    assert len(greys) == lines
    told = "Grey lines: nodes that heard each other's frames and sent each other none."
    assert (told in caption) == bool(lines)


def wired(scenario: dict[str, Any]) -> FakeResult:
    """Three wires of which one loses a third, one all, and one is not used."""
    outcome = json.loads(fake(scenario).json())
    outcome["links"] = []
    ends = (("n1", "n2", 20, 10), ("n2", "n4", 0, 2), ("n3", "n4", 0, 0))
    outcome["wires"] = [
        {"from": a, "to": b, "packets": packets, "lost": lost} for a, b, packets, lost in ends
    ]
    for node in outcome["nodes"]:
        node["position"] = None
    return FakeResult(outcome, {})


def test_a_map_draws_wires(tmp_path: Path) -> None:
    figure, caption = drawn(changed(tmp_path, wired), kind="map", where={"protocol": "tcp-reno"})
    axis, bar = figure.axes
    assert bar.get_xlabel() == "packets arrived"
    shades = bar.collections[-1].get_cmap()
    colours = [patch.get_edgecolor() for patch in axis.patches]
    assert colours == [shades(20 / 30), shades(0.0)]
    box = axis.get_window_extent()
    for patch in axis.patches:
        assert box.y0 < patch.get_window_extent().y0 and patch.get_window_extent().y1 < box.y1
    assert "colour is the share of packets that arrived" in caption
    assert "Grey lines: wires not used." in caption and "attempts" not in caption


def test_a_map_of_which_no_link_is_recorded_has_no_scale(tmp_path: Path) -> None:
    def bare(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        del outcome["links"]
        return FakeResult(outcome, {})

    where = {"protocol": "tcp-reno"}
    figure, caption = drawn(changed(tmp_path, bare), kind="map", where=where)
    assert len(figure.axes) == 1
    assert "Neither links nor wires are recorded." in caption and "colour" not in caption


def test_a_waterfall_that_is_of_one_run_mostly_says_so(tmp_path: Path) -> None:
    """As of a flow that starves in the others."""

    def starved(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for hop in outcome["hops"] if "newreno" in scenario["flow"][0]["protocol"] else ():
            hop["packets"] = 1842 if scenario["run"] == 2 else 2
        return FakeResult(outcome, {})

    found = changed(tmp_path, starved, TEXT.replace("runs = 1", "runs = 5"))
    _, caption = drawn(found, kind="waterfall")
    told = "protocol tcp-newreno: 100% of those over a hop are of one run of 5."
    assert told in caption.replace(" (rfc-modern)", ""), caption


def test_a_waterfall_over_wires_has_no_air(tmp_path: Path) -> None:
    def partly(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        if "newreno" in scenario["flow"][0]["protocol"]:
            outcome["wires"] = [
                {"from": hop["from"], "to": hop["to"], "packets": 9} for hop in outcome["hops"]
            ]
        return FakeResult(outcome, {})

    found = changed(tmp_path, partly)
    names = legend(drawn(found, kind="waterfall", where={"protocol": "tcp-newreno"})[0])
    assert "being sent" in names and "on the air" not in names
    names = legend(drawn(found, kind="waterfall")[0])
    assert "being sent" in names and "on the air" in names


@pytest.mark.parametrize("columns", [1, 2])
def test_names_of_many_nodes_cover_neither_each_other_nor_nodes(
    tmp_path: Path, columns: int
) -> None:
    def many(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        places = np.random.default_rng(2).uniform(0.0, 150.0, (25, 2))
        places[7] = places[3] + (1.0, 4.0)  # as close as two nodes of a mesh may be
        node = outcome["nodes"][0]
        outcome["nodes"] = [
            {**node, "name": f"n{n}", "position": [*place, 0.0]}
            for n, place in enumerate(places, 1)
        ]
        return FakeResult(outcome, {})

    figure, _ = folded(changed(tmp_path, many), kind="map", columns=columns)
    *panels, bar = figure.axes
    for axis in panels:
        # Of an annotation it would be with the line to it.
        names = [Text.get_window_extent(t) for t in axis.texts]
        assert len(names) == 25
        assert not any(one.overlaps(two) for one, two in combinations(names, 2))
        dots = [
            line.get_window_extent() for line in axis.get_lines() if str(line.get_marker()) in "osD"
        ]
        hidden = [n for n in names for dot in dots if n.contains(*dot.get_points().mean(0))]
        assert len(dots) == 25 and not hidden
    titles = [axis.title for axis in panels] + [axis._left_title for axis in panels]  # type: ignore[attr-defined]
    boxes = [t.get_window_extent() for t in titles if t.get_text()]
    assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))
    assert bar.get_window_extent().y1 < min(axis.get_window_extent().y0 for axis in panels)


def test_lines_of_a_map_have_one_measure_in_all_panels(tmp_path: Path) -> None:
    """A link that carried a ninth of the busiest one of another panel is thinner than that."""

    def fewer(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for link in outcome["links"] if "newreno" in scenario["flow"][0]["protocol"] else ():
            for name in ("frames", "attempts", "acked"):
                link[name] = link[name] // 9
        return FakeResult(outcome, {})

    figure, caption = drawn(changed(tmp_path, fewer), kind="map")
    panels = {
        a.get_title(loc="left"): max(p.get_linewidth() for p in a.patches) for a in figure.axes[:2]
    }
    few = next(width for title, width in panels.items() if "newreno" in title)
    (many,) = (width for title, width in panels.items() if "newreno" not in title)
    assert few < 0.6 * many
    assert "by the square root of their share of those of the busiest link of all panels" in caption
    _, alone = drawn(changed(tmp_path / "one", fewer), kind="map", where={"protocol": "tcp-reno"})
    assert "of the busiest link of the map" in alone
