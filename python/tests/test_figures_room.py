"""Figures in which much stands on little: names and marks stay apart, and bars are seen."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import CHAIN, FakeResult, fake
from matplotlib.figure import Figure
from test_figures import drawn

import wifu
from wifu import plan as plans
from wifu.errors import LabError
from wifu.figures import style

LONG = "transport number {} with all that one can say of it in a name"
NAMES = ["tcp-reno", "tcp-newreno", "tcp-sack", "tcp-tahoe", "tcp-cubic", "tcp-vegas", "tcp-bbr"]
MANY = CHAIN.replace('["tcp-reno", "tcp-newreno"]', str(NAMES).replace("'", '"')).replace(
    "[series]\nruns = [1]",
    "[label.protocol]\n" + "\n".join(f'{n} = "{LONG.format(k)}"' for k, n in enumerate(NAMES)),
)


def ran(tmp_path: Path, text: str, factors: dict[str, float] | None = None) -> wifu.Results:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        for flow in made._outcome["flows"]:
            factor = (factors or {}).get(flow["protocol"], 1.0)
            flow["goodput_bps"] *= factor
            flow["last_byte_s"] = flow["start_s"] + (flow["last_byte_s"] - 0.005) / factor
        return made

    plan = plans.parse(text.replace("runs = 5", "runs = 2"))
    return wifu.campaign(plan, tmp_path / "r", runner=runner)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    return ran(tmp_path_factory.mktemp("many"), MANY)


def boxes(figure: Figure) -> list[Any]:
    return [
        t.get_window_extent()
        for axis in figure.axes
        for t in axis.get_xticklabels()
        if t.get_text()
    ]


def test_long_names_leave_the_panel_its_room_and_each_other_theirs(many: wifu.Results) -> None:
    with style.context(1):
        figure, _ = drawn(many, kind="bars", x="protocol", by="hops", columns=1)
        style.fold(figure)
        figure.draw_without_rendering()
        (axis,) = figure.axes
        assert axis.get_position().width > 0.7
        placed = boxes(figure)
        assert all(one.x1 <= two.x0 for one, two in pairwise(placed))
        assert min(box.x0 for box in placed) >= 0
        told = [t.get_text() for t in axis.get_xticklabels()]
    assert all("\n" in name and "".join(name.split()) for name in told)


def test_bars_of_flows_are_wide_enough_or_refused(many: wifu.Results, tmp_path: Path) -> None:
    figure, _ = drawn(many, kind="flows", columns=1)
    one, two = figure.axes
    assert one.get_position().x0 == pytest.approx(two.get_position().x0), "below each other"
    bars = [p for axis in figure.axes for p in axis.patches]
    assert min(p.get_window_extent().width for p in bars) * 72 / figure.dpi > style.small() * 0.5
    text = MANY.replace("copies = 2", "copies = 14").replace("[1, 3]", "[3]")
    with pytest.raises(LabError, match=r"15 groups of 7 bars have no room .* choose .* `where`"):
        drawn(ran(tmp_path, text), kind="flows", columns=1)


@pytest.mark.parametrize("kind", ["bars", "flows"])
def test_bars_that_nobody_sees_say_their_value(tmp_path: Path, kind: str) -> None:
    text = CHAIN.replace("[series]\nruns = [1]", "").replace("[1, 3]", "[3]")
    found = ran(tmp_path, text, {"tcp-reno": 1e-4})
    spec = {"x": "protocol", "by": "hops"} if kind == "bars" else {}
    figure, _ = drawn(found, kind=kind, columns=1, **spec)
    told = [float(t.get_text()) for axis in figure.axes for t in axis.texts]
    low = float(found.sample("goodput", {"protocol": "tcp-reno"}).mean()) / 1e6
    assert any(value == pytest.approx(low, rel=0.4) for value in told)


def test_what_was_published_stands_beside_the_whisker(many: wifu.Results) -> None:
    published = {"tcp-reno": {"1": [3.0, 4.0]}}
    figure, _ = drawn(many, kind="bars", x="hops", by="protocol", published=published, columns=2)
    (axis,) = figure.axes
    at = [np.asarray(v.get_xdata())[0] for v in axis.get_lines() if v.get_marker() == "D"]
    bar = axis.patches[0]
    middle = bar.get_x() + bar.get_width() / 2  # type: ignore[attr-defined]
    assert middle < at[0] < bar.get_x() + bar.get_width()  # type: ignore[attr-defined]


def test_marks_of_lines_in_a_column_do_not_hide_each_other(tmp_path: Path) -> None:
    text = CHAIN.replace("[1, 3]", "[1, 2, 3]").replace("[series]\nruns = [1]", "")
    figure, _ = drawn(ran(tmp_path, text), kind="lines", x="hops", columns=1)
    (axis,) = figure.axes
    marked = [v for v in axis.get_lines() if v.get_marker() in ("o", "s")]
    at = [axis.transData.transform(np.asarray(v.get_xydata()))[0, 0] for v in marked]
    assert abs(at[1] - at[0]) * 72 / figure.dpi > marked[0].get_markersize()


def test_ten_levels_have_ten_shapes() -> None:
    assert len({style.marker(n) for n in range(10)}) == 10
    same = [(n, n + 8 * k) for n in range(8) for k in range(1, 5)]
    assert all(style.marker(one) != style.marker(two) for one, two in same)


def test_means_that_others_lie_on_are_larger_and_whole(tmp_path: Path) -> None:
    """Two protocols whose every run is alike."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        reno = [{**f, "protocol": "tcp-reno"} for f in scenario["flow"]]
        made = fake({**scenario, "flow": reno})
        for flow in made._outcome["flows"]:
            flow["protocol"] = scenario["flow"][0]["protocol"]
        return made

    found = wifu.campaign(
        plans.parse(CHAIN.replace("[1, 3]", "[3]")), tmp_path / "r", runner=runner
    )
    figure, caption = drawn(found, kind="tradeoff", columns=1)
    marks = [v for v in figure.axes[0].get_lines() if len(v.get_xdata()) == 1]  # type: ignore[arg-type]
    one, two = marks
    assert one.get_markersize() > 1.3 * two.get_markersize()
    assert not any(v.get_clip_on() for v in marks)
    assert "Means that others lie on are larger" in caption
