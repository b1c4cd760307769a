"""Cells without a value, and what is known of runs that did not finish, are seen and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import CHAIN, FakeResult, fake
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from test_figures import drawn, legend

import wifu
from wifu import plan as plans
from wifu.figures import bands

TEXT = (
    CHAIN.replace('["tcp-reno", "tcp-newreno"]', '["tcp-reno", "tcp-newreno", "tcp-sack"]')
    .replace("runs = 5", "runs = 3")
    .replace("copies = 2", 'copies = 2\napp = "file"\nbytes = "1M"')
    .replace("[series]\nruns = [1]", '[label.hops]\ntitle = "length"')
)
LONG = 40.0


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    """SACK fails over three hops. There nobody else finishes, and over one hop Reno does."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        name, long = scenario["flow"][0]["protocol"], len(made._outcome["nodes"]) == 4
        if name == "tcp-sack" and long:
            raise RuntimeError("lost")
        if long or name != "tcp-reno":
            for flow in made._outcome["flows"]:
                flow |= {"finished": False, "srtt_s": None if long else flow["srtt_s"]}
            made._outcome["sim_seconds"] = (LONG if long else 9.0) + 0.1 * scenario["run"]
        return made

    return wifu.campaign(plans.parse(TEXT), tmp_path_factory.mktemp("r"), runner=runner)


def said(axis: Axes) -> list[str]:
    return [t.get_text() for t in axis.texts if t.get_text() in ("n/a", "no value")]


def test_bands_go_on_to_the_end_of_the_panel_and_do_not_blend(results: wifu.Results) -> None:
    figure, caption = drawn(results, kind="cdf", metric="delay", scales="shared")
    one, two = figure.axes
    for axis in (one, two):
        end = axis.get_xlim()[1]
        for edge in axis.patches:
            assert edge.get_data().edges[-1] > end > LONG  # type: ignore[attr-defined]
    filled = [p for p in two.patches if p.get_fill()]
    assert {to_hex(p.get_facecolor()) for p in filled} == {bands.PALE}
    shapes = [line for line in two.get_lines() if str(line.get_marker()) in "os^"]
    assert len(shapes) == 2 and {line.get_markerfacecolor() for line in shapes} == {"white"}
    at = [np.asarray(line.get_ydata())[np.asarray(line.get_markevery())] for line in shapes]
    assert not set(np.round(at[0], 6)) & set(np.round(at[1], 6)), "shapes of one hide the other's"
    assert "None finished: length 1: tcp-newreno, tcp-sack; length 3: tcp-reno" in caption
    assert "All runs failed: length 3: tcp-sack." in caption
    assert "(with hollow shapes)" in caption
    assert [name for name in legend(figure) if "none finished" in name] == [
        "tcp-newreno (none finished)", "tcp-sack (none finished)",
    ]  # fmt: skip


def test_a_band_alone_has_the_colour_of_its_curve(results: wifu.Results) -> None:
    where = {"protocol": "tcp-newreno", "hops": 1}
    figure, caption = drawn(results, kind="cdf", metric="delay", where=where)
    (axis,) = figure.axes
    assert to_hex(axis.patches[0].get_facecolor()) == "#d55e00" and "hollow" not in caption


def test_ratios_of_cells_that_failed_are_not_left_out(results: wifu.Results) -> None:
    figure, caption = drawn(results, kind="ratio", x="hops")
    assert said(figure.axes[0]) == ["n/a"]
    assert "n = 0 to 3 pairs of runs per cell, without 3 that failed" in caption
    assert "n/a: no value" in caption and "All runs failed: length 3: tcp-sack." in caption


def test_ratios_to_a_baseline_that_failed_say_so(tmp_path: Path) -> None:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        if (
            scenario["flow"][0]["protocol"] == "tcp-reno"
            and scenario["topology"]["words"][-1] > "3"
        ):
            raise RuntimeError("lost")
        return fake(scenario)

    found = wifu.campaign(plans.parse(TEXT), tmp_path / "r", runner=runner)
    figure, caption = drawn(found, kind="ratio", x="hops")
    assert said(figure.axes[0]) == ["n/a", "n/a"]
    assert "No pair of runs: length 3: tcp-newreno, tcp-sack." in caption


def test_lines_mark_and_name_where_there_is_no_value(results: wifu.Results) -> None:
    figure, caption = drawn(results, kind="lines", x="hops", metric="srtt")
    (axis,) = figure.axes
    assert said(axis) == ["n/a"], "once where no level has one"
    assert "No value: tcp-reno: length 3; tcp-newreno: length 3." in caption or (
        "No value: length 3: tcp-reno, tcp-newreno." in caption
    )
    assert "All runs failed: length 3: tcp-sack." in caption
    figure, _ = drawn(results, kind="lines", x="hops", metric="goodput")
    (axis,) = figure.axes
    assert said(axis) == ["n/a"]
    hollow = [line for line in axis.get_lines() if line.get_markerfacecolor() == "white"]
    assert [str(line.get_marker()) for line in hollow] == ["^"], "whose it is, in grey, too"


def test_flows_and_indices_without_a_value_say_so(results: wifu.Results) -> None:
    figure, caption = drawn(results, kind="flows")
    assert [said(axis) for axis in figure.axes] == [[], ["n/a"] * 3]
    assert "All runs failed: length 3: tcp-sack." in caption
    figure, caption = drawn(results, kind="fairness", x="hops")
    assert said(figure.axes[0]) == ["n/a"]
    assert "All runs failed: protocol tcp-sack: length 3." in caption
    low = figure.axes[0].get_ylim()[0]
    assert f" The scale begins at {low:.2f}, not at 0." in caption


def test_an_empty_plane_says_that_it_is(results: wifu.Results) -> None:
    figure, caption = drawn(results, kind="tradeoff")
    assert [said(axis) for axis in figure.axes] == [[], ["no value"]]
    assert "No value: length 3: tcp-reno, tcp-newreno." in caption
    assert "an ellipse" in caption
    one = {"kind": "tradeoff", "where": {"hops": 3}}
    assert "an ellipse" not in drawn(results, **one)[1], "there is none"


def test_curves_say_of_how_many_runs_they_are(results: wifu.Results) -> None:
    """Of runs that were cut off a metric has the least that it can be, which no curve shows."""
    figure, caption = drawn(results, kind="cdf", metric="delay", where={"hops": 1})
    assert "3 values, n = 0 to 3 of 3 runs per cell, the others were cut off." in caption
    assert "Of 6 runs only the least" in caption and len(figure.axes) == 1
