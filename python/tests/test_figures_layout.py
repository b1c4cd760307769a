"""Figures of many, long and awkward things: what is written keeps apart and inside the page, and
what is drawn is told apart in grey.
"""

import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import matplotlib.colors as mcolors
import numpy as np
import pytest
from fake import CHAIN, fake
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox, BboxBase
from test_figures import drawn, legend, lightness, panel_titles

import wifu
from wifu import figures
from wifu import plan as plans
from wifu.figures import legends

NAMES = [f"tcp-reno,iw={n}" for n in range(1, 11)] + [
    "tcp-newreno,profile=kernel-reno,mss=1460,rcv_wnd=93440,ack_every=2",
    "tcp-newreno,profile=wifu-tahoe",
]

TEXT = CHAIN.replace('["tcp-reno", "tcp-newreno"]', "PROTOCOLS")
TEXT = TEXT.replace('baseline = "tcp-reno"', "").replace("runs = 5", "runs = 4")


def made(folder: Path, text: str, protocols: Sequence[str] = NAMES) -> wifu.Results:
    plan = plans.parse(text.replace("PROTOCOLS", str(list(protocols))))
    return wifu.campaign(plan, folder / "r", runner=fake)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    return made(tmp_path_factory.mktemp("many"), TEXT)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    return made(tmp_path_factory.mktemp("two"), TEXT, ["tcp-reno", "tcp-newreno"])


def folded(results: wifu.Results, **spec: Any) -> tuple[Figure, str]:
    """A figure as it is written, and its caption."""
    from wifu.figures import style

    with style.context(spec.get("columns")):
        figure, _, caption = figures.made(results, spec)
        style.fold(figure)
        figure.draw_without_rendering()
    return figure, caption


def box(artist: Any) -> BboxBase:
    found = artist.get_window_extent()
    assert isinstance(found, BboxBase)
    return found


def around(axis: Axes) -> BboxBase:
    """A panel with what is written around it."""
    found = axis.get_tightbbox()
    assert isinstance(found, BboxBase)
    return found


def overlapping(texts: Sequence[Text]) -> list[tuple[str, str]]:
    shown = [t for t in texts if t.get_text() and t.get_visible()]
    return [
        (one.get_text(), two.get_text())
        for one, two in combinations(shown, 2)
        if Bbox.intersection(box(one).padded(1.5, 0.0), box(two).padded(1.5, 0.0)) is not None
    ]


def markers(axis: Axes) -> list[Line2D]:
    """The lines of levels, without the caps of whiskers."""
    return [line for line in axis.get_lines() if line.get_marker() in ("o", "s")]


def numbers(axis: Axes) -> list[Text]:
    return [t for t in axis.texts if isinstance(t, Annotation)]


# Names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bars", "lines", "cdf", "fairness", "tradeoff"])
@pytest.mark.parametrize("columns", [1, 2])
def test_a_legend_of_long_names_leaves_room_for_the_panels(
    many: wifu.Results, kind: str, columns: int
) -> None:
    over = {"x": "hops"} if kind in ("bars", "lines", "fairness") else {}
    figure, _ = folded(many, kind=kind, columns=columns, **over)
    (names,) = figure.legends
    assert len(legend(figure)) == len(NAMES)
    assert box(names).x0 >= 0 and box(names).x1 <= figure.bbox.x1
    panels = [axis for axis in figure.axes if axis.get_visible()]
    for axis in panels:
        assert around(axis).y1 <= box(names).y0 + 1, "the legend stands above the panels"
        assert box(axis).height > 0.9 * figure.dpi * (0.7 if columns == 1 else 1)


LONG = [
    f"tcp-newreno,profile=rfc-modern,rcv_wnd={n}00000,snd_buf={n}00000,ack.every=2,iw=10"
    for n in range(1, 9)
]


@pytest.mark.parametrize("columns", [None, 1, 2])
@pytest.mark.parametrize("kind", ["lines", "cdf"])
def test_under_many_long_names_panels_have_half_of_the_figure(
    tmp_path: Path, kind: str, columns: int | None
) -> None:
    found = made(tmp_path, TEXT, LONG)
    wide = {} if columns is None else {"columns": columns}
    over = {"x": "hops"} if kind == "lines" else {}
    figure, _ = folded(found, kind=kind, **wide, **over)
    (names,) = figure.legends
    assert box(names).x1 <= figure.bbox.x1 and len(legend(figure)) == len(LONG)
    high = {round(box(axis).y0): box(axis).height for axis in figure.axes}
    # Of a column of panels those of all count, between which their titles stand.
    assert sum(high.values()) >= (0.5 if len(high) == 1 else 0.45) * figure.bbox.height
    for axis in figure.axes:
        assert around(axis).y1 <= box(names).y0 + 1


def test_one_long_name_leaves_the_short_ones_beside_each_other() -> None:
    """Broken in two it takes less room than all below each other."""
    short = [f"tcp-reno,iw={n}" for n in range(1, 8)]
    long = "tcp-newreno,profile=kernel-reno,mss=1460,rcv_wnd=93440,ack_every=2"
    named, beside = legends._columns([*short, long], 90)
    assert beside >= 2 and legends._lines(named, beside) <= 5
    assert [name.replace("\n", "") for name in named] == [*short, long]
    # Where all have room, nothing is broken.
    assert legends._columns(short, 90) == (short, legends._beside(short, 90))


@pytest.mark.parametrize("kind", ["bars", "lines", "fairness"])
def test_names_along_the_scale_are_tilted_and_leave_room(many: wifu.Results, kind: str) -> None:
    figure, _ = folded(many, kind=kind, x="protocol", columns=2)
    for axis in figure.axes:
        assert {label.get_rotation() for label in axis.get_xticklabels()} == {35}
        assert box(axis).height > figure.dpi
        below = around(axis)
        assert below.y0 >= -2 and below.x0 >= -2 and below.x1 <= figure.bbox.x1 + 2


def test_numbers_along_the_scale_keep_apart(tmp_path: Path) -> None:
    hops = [1, 2, 3, 4, 5, 6, 8, 10, 20, 50, 100]
    text = TEXT.replace("hops = [1, 3]", f"hops = {hops}")
    found = made(tmp_path, text, ["tcp-reno", "tcp-newreno"])
    (axis,) = folded(found, kind="lines", x="hops", columns=1)[0].axes
    labels = axis.get_xticklabels()
    # Those without room stand in a second line.
    for line in (True, False):
        own = [t for t in labels if t.get_text().startswith("\n") == line]
        assert own and not overlapping(own)
    shown = [label.get_text() for label in labels if label.get_text()]
    assert shown[0] == "1" and shown[-1] == "100" and "50" in shown
    assert [float(t) for t in axis.get_xticks()] == hops, "each has its tick"


def test_lines_of_text_end_behind_commas() -> None:
    from wifu.figures import style

    assert style.wrapped("size 30k, radio.attempts 1", 24) == "size 30k,\nradio.attempts 1"
    assert style.wrapped("hops 1, protocol tcp-tahoe", 22) == "hops 1,\nprotocol tcp-tahoe"
    assert style.wrapped("a,b,c", 20) == "a,b,c"
    assert style.wrapped("where nothing is a comma", 12) == "where\nnothing is a\ncomma"
    long = style.wrapped(NAMES[10], 30).split("\n")
    assert "".join(long) == NAMES[10] and max(map(len, long)) <= 30
    assert style.wrapped("x" * 25, 10).split("\n") == ["x" * 10, "x" * 10, "x" * 5]


def test_numbers_on_bars_keep_apart(
    many: wifu.Results, two: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0
    for results in (many, two):
        # All at one height, where nothing else keeps them apart.
        monkeypatch.setattr(results, "runs", results.runs.assign(goodput_bps=8.8e6))
    for results in (many, two):
        for columns in (None, 1, 2):
            spec = {} if columns is None else {"columns": columns}
            for axis in folded(results, kind="bars", x="hops", **spec)[0].axes:
                assert not overlapping(numbers(axis))
                seen += len(numbers(axis))
    assert seen, "where there is room there are numbers"


def test_a_waterfall_names_its_scale_once_in_a_column(many: wifu.Results) -> None:
    figure, _ = folded(many, kind="waterfall", columns=1)
    labels = [axis.get_xlabel() != "" for axis in figure.axes if axis.get_visible()]
    assert labels == [False] * 5 + [True], "panels stand below each other"
    panels = [around(axis) for axis in figure.axes]
    for one, two in combinations(panels, 2):
        both = Bbox.intersection(one, two)
        assert both is None or min(both.width, both.height) < 2, "panels keep apart"


@pytest.mark.parametrize("columns", [None, 1, 2])
def test_numbers_in_a_waterfall_stay_in_their_panels(
    many: wifu.Results, columns: int | None
) -> None:
    figure, _ = folded(many, kind="waterfall", **({} if columns is None else {"columns": columns}))
    for axis in (a for a in figure.axes if a.get_visible()):
        assert numbers(axis)
        assert max(box(text).x1 for text in numbers(axis)) <= box(axis).x1 + 1


def test_the_number_on_a_bar_stands_above_what_was_published(two: wifu.Results) -> None:
    means = {
        c.labels["hops"]: two.interval("goodput", c) for c in two.cells({"protocol": "tcp-reno"})
    }
    tops = {str(k): (i.high if i.known else i.estimate) / 1e6 for k, i in means.items()}
    for share in (0.98, 1.0, 1.03, 1.06):
        published = {"tcp-reno": {k: [0.9 * v, share * v] for k, v in tops.items()}}
        figure, _ = folded(two, kind="bars", x="hops", published=published)
        axis = figure.axes[0]
        (marks,) = [line for line in axis.get_lines() if line.get_marker() == "D"]
        half = marks.get_markersize() * 0.71 * figure.dpi / 72
        for x, y in axis.transData.transform(np.column_stack(marks.get_data())):
            mark = Bbox.from_extents(x - half, y - half, x + half, y + half)
            assert all(Bbox.intersection(box(text), mark) is None for text in numbers(axis))


def test_what_fits_no_page_is_told(tmp_path: Path) -> None:
    text = TEXT.replace("hops = [1, 3]", "hops = '1..24'")
    found = made(tmp_path, text, ["tcp-reno", "tcp-newreno"])
    for spec in ({"kind": "cdf"}, {"kind": "bars", "x": "protocol"}, {"kind": "tradeoff"}):
        for columns in (1, 2):
            figure, caption = folded(found, columns=columns, **spec)
            assert figure.get_figheight() <= 9.2
            assert len([a for a in figure.axes if a.get_visible()]) == 12
            assert "The first 12 of 24 panels; choose with `where`." in caption
    values = re.search(r"; (\d+) values", drawn(found, kind="cdf")[1])
    assert values is not None and int(values[1]) == 12 * 2 * 4 * 2, "those that are shown"


# Grey ---------------------------------------------------------------------------------------------


def test_sixteen_bars_are_told_apart_in_grey() -> None:
    from wifu.figures import style

    faces = [style.face(n) for n in range(16)]
    looks = {(f["hatch"], f["edgecolor"]) for f in faces}
    assert len(looks) == 16
    for f in faces:
        ground, lines = lightness(f["facecolor"]), lightness(mcolors.to_rgb(f["edgecolor"]))
        assert not f["hatch"] or abs(ground - lines) > 0.3, "a hatch is seen"


def test_many_distributions_are_told_apart_in_grey(many: wifu.Results) -> None:
    figure, _ = drawn(many, kind="cdf")
    for axis in figure.axes:
        # What `get_linestyle` says of dashes does not tell them apart.
        looks = [(v.get_marker(), str(vars(v)["_unscaled_dash_pattern"])) for v in axis.get_lines()]
        assert len(looks) == len(set(looks)) == len(NAMES)


def test_distributions_that_lie_on_each_other_are_all_seen(
    two: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two, "flows", two.flows.assign(goodput_bps=1e6 * (1 + two.flows["run"])))
    for columns in (None, 1):
        figure, _ = drawn(two, kind="cdf", **({} if columns is None else {"columns": columns}))
        for axis in figure.axes:
            lines = [np.column_stack(line.get_data()) for line in axis.get_lines()]
            every: list[Any] = [line.get_markevery() for line in axis.get_lines()]
            at = [{tuple(xy[k]) for k in n} for n, xy in zip(every, lines, strict=True)]
            assert len(at) == 2 and all(len(points) == 4 for points in at)
            assert not at[0] & at[1], "no shape hides another's"
            for xy in lines:
                assert (np.diff(xy, axis=0) >= 0).all() and xy[-1, 1] == 1.0, "still a distribution"
                assert (np.diff(xy, axis=0) == 0).any(axis=1).all(), "of steps"


def test_a_distribution_steps_at_its_values() -> None:
    from wifu.figures import style

    x, y, marks = style.distribution([3.0, 1.0, 1.0, 2.0], 0, 1, reach=0.8)
    assert x.tolist() == [1, 1, 2, 2, 3, 3] and not marks
    assert np.allclose(y, [0, 0.4, 0.4, 0.6, 0.6, 0.8])
    x, y, marks = style.distribution([3.0, 1.0, 1.0, 2.0], 1, 2)
    assert [round(float(y[k]), 4) for k in marks["markevery"]] == [0.1875, 0.4375, 0.6875, 0.9375]
    assert [float(x[k]) for k in marks["markevery"]] == [1, 1, 2, 3]


def test_a_line_is_named_at_its_end_only_where_one_sees_whose_name_it_is(
    two: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = np.where(two.runs["cell"].str.contains("newreno"), 2e6, 8e6)
    for rates, ends in ((apart, True), (np.full(len(two.runs), 2e6), False)):
        monkeypatch.setattr(two, "runs", two.runs.assign(goodput_bps=rates))
        figure, _ = drawn(two, kind="lines", x="hops")
        assert bool(numbers(figure.axes[0])) is ends
        assert (legend(figure) == ["tcp-reno", "tcp-newreno"]) is not ends
    long = {"protocol": {"tcp-reno": "a name that takes a third of all the room there is"}}
    monkeypatch.setattr(two, "runs", two.runs.assign(goodput_bps=apart))
    figure, _ = drawn(two, kind="lines", x="hops", label=long)
    assert not numbers(figure.axes[0]) and len(legend(figure)) == 2


@pytest.mark.parametrize("kind", ["bars", "lines", "cdf", "fairness", "tradeoff"])
def test_a_level_looks_the_same_whichever_others_are_shown(two: wifu.Results, kind: str) -> None:
    def colours(*protocols: str) -> set[str]:
        figure, _ = drawn(two, kind=kind, where={"protocol": list(protocols)}, by="protocol")
        axis = figure.axes[0]
        found: list[Any] = [c.get_facecolor() for c in axis.collections]
        faces = [mcolors.to_rgb(face[0]) for face in found if len(face)]
        faces += [mcolors.to_rgb(p.get_facecolor()) for p in axis.patches]
        faces += [mcolors.to_rgb(line.get_color()) for line in axis.get_lines()]
        return {mcolors.to_hex(face) for face in faces}

    from wifu.figures import style

    first, second = map(style.colour, (0, 1))
    assert {first, second} <= colours("tcp-reno", "tcp-newreno")
    assert second in colours("tcp-newreno") and first not in colours("tcp-newreno")


def test_many_levels_have_as_few_colours_in_common_as_can_be(many: wifu.Results) -> None:
    figure, _ = drawn(many, kind="cdf", where={"protocol": [NAMES[0], NAMES[8]]})
    colours = {line.get_color() for line in figure.axes[0].get_lines()}
    assert len(colours) == 2, "by their places in the plan they had the same"


def test_delays_under_load_are_told_apart_in_grey(probed: wifu.Results) -> None:
    figure, _ = drawn(probed, kind="latency", **{"as": "cdf", "by": "window"})
    (axis,) = figure.axes
    looks = [(line.get_marker(), line.get_linestyle()) for line in axis.get_lines()]
    assert len(looks) == len(set(looks)) == 3


# Lines --------------------------------------------------------------------------------------------


def test_zeros_are_seen_on_a_logarithmic_scale(
    two: wifu.Results, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    zero = two.runs["cell"].isin([c.name for c in two.cells({"hops": 1})])
    runs = two.runs.assign(loss_share=np.where(zero, 0.0, two.runs["run"] * 0.01))
    monkeypatch.setattr(two, "runs", runs)
    spec = {"kind": "lines", "x": "hops", "metric": "loss", "scale": "log", "columns": 1}
    figure, caption = drawn(two, **spec)
    (axis,) = figure.axes
    hollow = [v for v in markers(axis) if v.get_markerfacecolor() == "white"]
    assert axis.get_yscale() == "log" and len(hollow) == 2
    assert {line.get_marker() for line in hollow} == {"o", "s"}
    assert all(box(line).y0 <= box(axis).y0 + 4 for line in hollow), "at its lower end"
    assert "hollow, at the lower end: 0" in caption
    svg = figures.draw(two, spec, tmp_path).svg.read_text()
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", svg)]
    assert min(sizes) >= 6, "no powers in small print"
    monkeypatch.setattr(two, "runs", two.runs.assign(loss_share=0.0))
    figure, caption = drawn(two, **spec)
    assert figure.axes[0].get_yscale() == "linear" and "hollow" not in caption


def test_only_what_has_an_order_is_joined(two: wifu.Results) -> None:
    for x, style in (("protocol", "None"), ("hops", "-")):
        figure, _ = drawn(two, kind="lines", x=x)
        assert figure.axes[0].get_lines()[0].get_linestyle() == style


@pytest.mark.parametrize(
    ("labels", "at"),
    [
        (["10M", "1M", "2M", "40M"], [10, 1, 2, 40]),
        (["10Mb/s", "500kb/s"], [10e6, 500e3]),
        (["500us", "10ms", "1s", "2min"], [5e-4, 0.01, 1, 120]),
        (["1K", "500", "1M"], [1e3, 500, 1e6]),
        (["64", "64K"], [64, 64e3]),
        ([3, 1, 2], [3, 1, 2]),
        (["10m", "1s"], None),
        (["1ms", "1kB"], None),
        (["2 hops", "far"], None),
    ],
)
def test_levels_with_units_stand_where_their_values_are(labels: Any, at: Any) -> None:
    from wifu.figures.along import placed

    where, known = placed(labels)
    assert known == (at is not None)
    assert list(where.values()) == pytest.approx(at if known else list(range(len(labels))))


def test_lines_over_levels_with_units_go_from_left_to_right(tmp_path: Path) -> None:
    levels = TEXT.replace("hops = [1, 3]", 'size = ["10M", "1M", "4M"]')
    text = levels.replace("{hops+1}", "2").replace("copies", 'bytes = "{size}"\ncopies')
    found = made(tmp_path, text, ["tcp-reno", "tcp-newreno"])
    figure, _ = drawn(found, kind="lines", x="size")
    axis = figure.axes[0]
    for line in markers(axis):
        x = np.asarray(line.get_xdata(), dtype=float)
        assert np.abs(x - [1, 4, 10]).max() < 0.2 and line.get_linestyle() != "None"
    assert [t.get_text() for t in axis.get_xticklabels()] == ["1M", "4M", "10M"]


def test_lines_go_from_left_to_right_and_beside_each_other(tmp_path: Path) -> None:
    text = TEXT.replace("hops = [1, 3]", "hops = [3, 1, 2]")
    found = made(tmp_path, text, ["tcp-reno", "tcp-newreno"])
    figure, _ = drawn(found, kind="lines", x="hops")
    places = [np.asarray(line.get_xdata(), dtype=float) for line in markers(figure.axes[0])]
    assert len(places) == 2
    for x in places:
        assert (np.diff(x) > 0).all() and np.abs(x - [1, 2, 3]).max() < 0.1
    assert (np.abs(places[0] - places[1]) > 0.005).all(), "whiskers do not hide each other"


def test_whiskers_that_leave_the_scale_are_told(
    two: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "without an end" not in drawn(two, kind="lines", x="hops", scale="log")[1]
    rates = np.resize([1e6, 1e6, 1e6, 40e6], len(two.runs))
    monkeypatch.setattr(two, "runs", two.runs.assign(goodput_bps=rates))
    # From 0 on the interval ends at 0, where rates do; a logarithmic scale has no 0.
    assert "without an end" not in drawn(two, kind="bars", x="hops")[1]
    caption = drawn(two, kind="lines", x="hops", scale="log")[1]
    assert "whiskers without an end go on below the scale" in caption


def test_a_caption_counts_the_values_of_its_metric(
    two: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = (two.runs["cell"] == two.plan.cells[0].name) & (two.runs["run"] > 1)
    srtt = np.where(gone, np.nan, two.runs["srtt_s"])
    monkeypatch.setattr(two, "runs", two.runs.assign(srtt_s=srtt))
    for kind in ("bars", "lines", "cdf"):
        _, caption = drawn(two, kind=kind, metric="srtt")
        assert "n = 1 to 4 of 4 runs per cell, the others have no value" in caption
    assert "n = 4 runs per cell" in drawn(two, kind="bars", metric="goodput")[1]


# Time ---------------------------------------------------------------------------------------------


def test_sequence_graphs_of_several_cells_have_one_range(two: wifu.Results) -> None:
    figure, _ = drawn(two, kind="sequence", zoom=False)
    assert len(figure.axes) == 4
    assert len({axis.get_xlim() for axis in figure.axes}) == 1
    assert len({axis.get_ylim() for axis in figure.axes}) == 1
    _, end = figure.axes[0].get_xlim()
    last = [max(np.asarray(line.get_xdata()).max() for line in a.get_lines()) for a in figure.axes]
    assert end >= max(last) and max(last) > 1.5 * min(last)


def test_fairness_does_not_magnify_nothing(
    two: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = 1.0 - 0.0002 * two.runs["run"]
    monkeypatch.setattr(two, "runs", two.runs.assign(jain=values))
    bottom, top = drawn(two, kind="fairness", x="hops")[0].axes[0].get_ylim()
    assert top - bottom > 0.05
    assert panel_titles(drawn(two, kind="cdf")[0]) == ["hops 1", "hops 3"]
    assert all(one != two for one, two in pairwise(panel_titles(drawn(two, kind="cdf")[0])))


@pytest.mark.parametrize(("count", "rows"), [(3, [3]), (6, [3, 3]), (7, [4, 3]), (11, [4, 4, 3])])
def test_lines_of_a_legend_are_alike_full_and_read_from_left_to_right(
    two: wifu.Results, count: int, rows: list[int]
) -> None:
    from wifu.figures import page, style

    names = [f"tcp-newreno {n}" + " x" * (count > 3) for n in range(count)]
    with style.context(None):
        figure = page.figure(9.0, 3.0)
        figure.subplots()
        legends.above(figure, [style.patch(0) for _ in names], names)
        figure.draw_without_rendering()
        (found,) = figure.legends
        texts = [(t.get_window_extent(), t.get_text()) for t in found.get_texts()]
    # From above to below, and from the left to the right.
    lines: dict[int, list[tuple[float, str]]] = {}
    for box, text in texts:
        lines.setdefault(-round(box.y0), []).append((box.x0, text))
    read = [[text for _, text in sorted(lines[at])] for at in sorted(lines)]
    assert [name for line in read for name in line] == names
    assert [len(line) for line in read] == rows


@pytest.mark.parametrize("columns", [None, 1])
def test_lines_over_a_single_level_are_points_over_their_names(
    tmp_path: Path, columns: int | None
) -> None:
    names = ["tcp-reno", "tcp-newreno", "tcp-sack"]
    results = made(tmp_path, TEXT, names)
    spec: dict[str, Any] = {"kind": "lines", "x": "hops", "where": {"hops": [3]}}
    figure, caption = folded(results, columns=columns, **spec, published={"tcp-sack": {"3": 2.0}})
    (axis,) = figure.axes
    assert [t.get_text() for t in axis.get_xticklabels()] == names
    assert axis.get_xlabel() == "protocol, hops 3"
    points = [line for line in axis.get_lines() if len(np.ravel(line.get_xdata())) == 1]
    where = sorted({round(float(np.ravel(line.get_xdata())[0]), 6) for line in points})
    assert where == pytest.approx(list(axis.get_xticks())), "marks of a paper, too"
    assert legend(figure) == ["published"]
    assert "there is one level of hops, and nothing to join by lines" in caption
    # With two levels they are lines, with a legend or names at their ends.
    figure, caption = folded(results, columns=columns, kind="lines", x="hops")
    assert "nothing to join" not in caption
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["1", "3"]


def test_the_name_of_the_last_panel_of_a_line_stays_inside() -> None:
    """Where names below are long panels are narrow, and a name had no room to go on."""
    from wifu.figures import page, style

    with style.context(1):
        figure, axes = page.panels(4, columns=2, share_x=True)
        for axis in axes:
            style.entitle(axis, "path HX-4, places of a lane 256")
            axis.set_xlim(-0.6, 2.6)
            style.places(axis, range(3), ["before the ring", "on the air, as many places", "few"])
        style.label_rows(axes, "time of a transfer, s")
        style.fold(figure)
        figure.draw_without_rendering()
        for axis in axes:
            (name,) = [t for t in axis.get_children() if isinstance(t, Text) and t.get_text()]
            assert name.get_window_extent().x1 <= figure.bbox.width, name.get_text()
