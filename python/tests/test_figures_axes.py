"""What is written along a scale is true of each panel, whichever levels and values it has."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import CHAIN, FakeResult, fake
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from test_figures_honest import laid_out

import wifu
from wifu import plan as plans
from wifu.errors import LabError
from wifu.figures import style

SKIPPED = (
    CHAIN.replace("hops = [1, 3]", 'hops = [1, 2, 3]\nsize = ["10k", "1M"]')
    .replace("copies = 2", 'copies = 2\napp = "file"\nbytes = "{size}"')
    .replace(
        "baseline =",
        'skip = [{ size = "10k", hops = 3 }, { size = "1M", hops = 1 }]\nbaseline =',
    )
)


def made(folder: Path, text: str) -> wifu.Results:
    return wifu.campaign(plans.parse(text), folder / "r", runner=fake)


@pytest.fixture(scope="module")
def skipped(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    return made(tmp_path_factory.mktemp("skipped"), SKIPPED)


def names(axis: Axes) -> list[str]:
    """What stands along a panel, from left to right."""
    return [t.get_text().strip() for t in axis.get_xticklabels()]


def panels(figure: Figure) -> dict[str, Axes]:
    return {axis.get_title(loc="left"): axis for axis in figure.axes}


# Levels of panels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bars", "lines", "ratio", "fairness"])
def test_each_panel_names_its_own_levels(skipped: wifu.Results, kind: str) -> None:
    figure, _ = laid_out(skipped, kind=kind, x="hops")
    own = panels(figure)
    assert names(own["size 10k"]) == ["1", "2"]
    assert names(own["size 1M"]) == ["2", "3"]
    assert all(label.get_visible() for a in own.values() for label in a.get_xticklabels())


def test_lines_over_numbers_have_one_range_in_all_panels(skipped: wifu.Results) -> None:
    figure, _ = laid_out(skipped, kind="lines", x="hops")
    one, two = figure.axes
    assert one.get_xlim() == two.get_xlim()
    drawn = [np.rint(a.get_lines()[0].get_xdata()).tolist() for a in (one, two)]
    assert drawn == [[1, 2], [2, 3]]
    # The first and the last level are no more cut off than those between them.
    (low, high), space = one.get_xlim(), 0.05 * (3 - 1)
    assert low < 1 - space and high > 3 + space


def test_units_of_one_panel_are_those_of_all(skipped: wifu.Results) -> None:
    figure, _ = laid_out(skipped, kind="lines", x="size")
    # Alone, a panel with the one level "1M" would have it at 1.
    own = {title: axis.get_xticks().tolist() for title, axis in panels(figure).items()}
    assert own == {"hops 1": [1e4], "hops 2": [1e4, 1e6], "hops 3": [1e6]}
    assert names(panels(figure)["hops 3"]) == ["1M"]


@pytest.mark.parametrize("kind", ["bars", "ratio", "fairness"])
def test_panels_of_a_level_each_are_not_called_after_the_last(tmp_path: Path, kind: str) -> None:
    text = SKIPPED.replace('["10k", "1M"]', '["10k", "50k", "1M"]').replace(
        'skip = [{ size = "10k", hops = 3 }, { size = "1M", hops = 1 }]',
        'zip = [["hops", "size"]]',
    )
    figure, _ = laid_out(made(tmp_path, text), kind=kind, x="hops")
    called = {title: names(axis) for title, axis in panels(figure).items()}
    assert called == {"size 10k": ["1"], "size 50k": ["2"], "size 1M": ["3"]}


def test_bars_are_as_wide_in_panels_of_fewer_levels(tmp_path: Path) -> None:
    text = SKIPPED.replace(
        'skip = [{ size = "10k", hops = 3 }, { size = "1M", hops = 1 }]',
        'skip = [{ size = "10k", hops = [2, 3] }]',
    )
    figure, _ = laid_out(made(tmp_path, text), kind="bars", x="hops")
    one, three = figure.axes
    assert (names(one), names(three)) == (["1"], ["1", "2", "3"])
    figure.draw_without_rendering()
    wide = {round(p.get_window_extent().width, 3) for a in (one, three) for p in a.patches}
    assert len(one.patches) == 2 and len(three.patches) == 6 and len(wide) == 1


@pytest.mark.parametrize("kind", ["bars", "lines", "ratio", "fairness"])
def test_panels_of_the_same_levels_still_share_them(skipped: wifu.Results, kind: str) -> None:
    one, two = laid_out(skipped, kind=kind, x="hops", where={"hops": 2})[0].axes
    # Over one level lines are points over their own names.
    told = ["tcp-reno", "tcp-newreno"] if kind == "lines" else ["2"]
    assert names(one) == names(two) == told
    assert one.get_shared_x_axes().joined(one, two)


@pytest.mark.parametrize("kind", ["bars", "lines", "ratio", "fairness"])
def test_axes_that_share_a_scale_take_no_panels_of_other_levels(
    skipped: wifu.Results, kind: str
) -> None:
    whole = Figure()
    with pytest.raises(LabError, match=r"other levels than each other: .* do not share their x"):
        skipped.plot(kind, ax=whole.subplots(1, 2, sharex=True), x="hops")
    drawn: Any = skipped.plot(kind, ax=Figure().subplots(1, 2), x="hops")
    assert [names(axis) for axis in drawn] == [["1", "2"], ["2", "3"]]


LATE = CHAIN.replace("hops = [1, 3]", "hops = [1, 3]\nLEVELS").replace(
    "copies = 2", 'copies = 2\nstart = "{late}"'
)


@pytest.mark.parametrize("columns", [None, 1])
def test_levels_that_stand_close_are_all_named(tmp_path: Path, columns: int | None) -> None:
    text = LATE.replace("LEVELS", 'late = ["0s", "1s", "5s", "30s"]')
    found = made(tmp_path, text)
    figure, _ = laid_out(found, kind="lines", x="late", columns=columns)
    figure.draw_without_rendering()
    for axis in (a for a in figure.axes if a.get_xticklabels()):
        assert names(axis) == ["0s", "1s", "5s", "30s"]
        # In two lines, in each of which they keep apart.
        for line in (True, False):
            own = [t for t in written_names(axis) if t.get_text().startswith("\n") == line]
            boxes = [t.get_window_extent() for t in own]
            assert own and not any(one.overlaps(two) for one, two in combinations(boxes, 2))


def test_of_names_in_the_second_line_some_are_left_out_as_well() -> None:
    near = ["0s", "1s", "2s", "90s"]
    assert style._staggered([0, 1, 2, 90], near, 1.2) == ["0s", "\n1s", "", "90s"]
    assert style._staggered([0, 1, 9, 90], near, 1.2) == ["0s", "\n1s", "2s", "90s"]


def written_names(axis: Axes) -> list[Text]:
    return [t for t in axis.get_xticklabels() if t.get_visible() and t.get_text()]


def test_levels_as_far_apart_as_each_other_are_named_by_some(tmp_path: Path) -> None:
    every = [round(100 + 0.1 * n, 1) for n in range(40)]
    text = LATE.replace("LEVELS", f"late = {every}").replace("runs = 5", "runs = 1")
    figure, _ = laid_out(made(tmp_path, text), kind="lines", x="late", where={"hops": 1})
    shown = [t.get_text() for t in written_names(figure.axes[0])]
    assert 3 < len(shown) < 40 and not any(name.startswith("\n") for name in shown)


# Numbers ------------------------------------------------------------------------------------------


def close(scenario: dict[str, Any]) -> FakeResult:
    """Round-trip times that differ by less than a microsecond, and very many retransmissions."""
    result = fake(scenario)
    for flow in result._outcome["flows"]:
        flow["srtt_s"] = 0.361165 + 4.3e-7 * ("newreno" in flow["protocol"]) + 1e-9 * flow["id"]
        flow["retransmissions"] = 2_000_000
    return result


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    text = CHAIN.replace("hops = [1, 3]", "hops = [1, 2, 3]")
    return wifu.campaign(plans.parse(text), tmp_path_factory.mktemp("near") / "r", runner=close)


def written(axis: Axes, which: str) -> list[tuple[float, Text]]:
    """The numbers along a scale that are seen, and where they stand."""
    scale = getattr(axis, f"{which}axis")
    low, high = getattr(axis, f"get_{which}lim")()
    scale.get_ticklabels()  # which brings the ticks up to date
    pairs = [(float(tick.get_loc()), tick.label1) for tick in scale.get_major_ticks()]
    seen = [(at, text) for at, text in pairs if text.get_visible() and text.get_text()]
    return [(at, text) for at, text in seen if low <= at <= high]


def true_numbers(figure: Figure) -> None:
    """That each number along a scale is the value there: nothing is to be added or multiplied."""
    figure.draw_without_rendering()
    for axis in figure.axes:
        for which, scale in (("x", axis.xaxis), ("y", axis.yaxis)):
            assert scale.get_offset_text().get_text() == ""
            for at, text in written(axis, which):
                number = float(text.get_text().replace("\N{MINUS SIGN}", "-"))
                assert number == pytest.approx(at, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("columns", [None, 1, 2])
def test_numbers_along_a_scale_are_whole_and_keep_apart(
    near: wifu.Results, columns: int | None
) -> None:
    figure, _ = laid_out(near, kind="tradeoff", columns=columns)
    true_numbers(figure)
    every = [[text for _, text in written(axis, "x")] for axis in figure.axes]
    for shown in (texts for texts in every if texts):  # of panels one above the other, the lowest
        assert len({text.get_text() for text in shown}) == len(shown) >= 2
        assert all("361.16" in text.get_text() for text in shown)
        for one, two in pairwise(text.get_window_extent() for text in shown):
            assert two.x0 - one.x1 > 0.5 * one.height
    assert any(every)


def test_great_numbers_are_written_out(near: wifu.Results) -> None:
    where = {"hops": 1}
    figure, _ = laid_out(
        near, kind="bars", metric="retransmissions", x="protocol", by="hops", where=where
    )
    (axis,) = figure.axes
    figure.draw_without_rendering()
    assert axis.yaxis.get_offset_text().get_text() == ""
    assert "2000000" in [text.get_text() for _, text in written(axis, "y")]


def test_numbers_are_whole_on_axes_of_ones_own(near: wifu.Results) -> None:
    figure = Figure(figsize=(9, 4))
    near.plot("tradeoff", ax=figure.subplots(1, 3))
    true_numbers(figure)
