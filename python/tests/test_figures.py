"""Figures as they go into a paper: their size, their words, and what is read from them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.colors as mcolors
import numpy as np
import pandas as pd
import pytest
from fake import CHAIN, PROBED, FakeResult, fake, having
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from test_hopwise import made

import wifu
from wifu import figures, kinds, report
from wifu import plan as plans
from wifu.errors import LabError, PlanError
from wifu.overrides import set_option

LABELS = """
[label]
hops = "Hops of the chain"
goodput = "Goodput"
protocol = { title = "Transport", tcp-reno = "Reno", tcp-newreno = "NewReno" }
"""


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    folder = tmp_path_factory.mktemp("n") / "r"
    return wifu.campaign(plans.parse(CHAIN + LABELS), folder, runner=fake)


def drawn(results: wifu.Results, **spec: Any) -> tuple[Figure, str]:
    """A figure, laid out, and its caption."""
    from wifu.figures import style

    module = import_module(f"wifu.figures.{kinds.KINDS[spec['kind']].module}")
    with style.context(spec.get("columns")):
        figure, _, caption = getattr(module, spec["kind"])(results, spec)
        figure.draw_without_rendering()
    return figure, caption


def legend(figure: Figure) -> list[str]:
    return [t.get_text() for found in figure.legends for t in found.get_texts()]


def panel_titles(figure: Figure) -> list[str]:
    return [a.get_title(loc="left") for a in figure.axes if a.get_title(loc="left")]


def lightness(colour: Any) -> float:
    """How bright a colour is in grey, as ITU-R BT.601 has it."""
    return float(np.dot(mcolors.to_rgb(colour), (0.299, 0.587, 0.114)))


# Files --------------------------------------------------------------------------------------------


def test_a_figure_is_also_a_pdf_with_fonts_inside(results: wifu.Results, tmp_path: Path) -> None:
    pdf = figures.draw(results, {"kind": "bars", "x": "hops"}, tmp_path).pdf.read_bytes()
    assert pdf.startswith(b"%PDF")
    # TrueType, which publishers take; what Type 3 draws is no text to them.
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf
    assert b"CreationDate" not in pdf


def test_processes_draw_the_same_octets(results: wifu.Results, tmp_path: Path) -> None:
    program = (
        "import sys, wifu; from pathlib import Path; from wifu import figures\n"
        "figures.draw(wifu.load(sys.argv[1]), {'kind': 'lines', 'x': 'hops'}, Path(sys.argv[2]))"
    )
    made = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        subprocess.run(
            [sys.executable, "-c", program, str(results.folder), str(out)],
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
        )  # fmt: skip
        made.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert {Path(name).suffix for name in made[0]} == {".svg", ".pdf", ".png"}
    assert made[0] == made[1]


def test_text_in_svg_is_text(results: wifu.Results, tmp_path: Path) -> None:
    svg = figures.draw(results, {"kind": "lines", "x": "hops"}, tmp_path).svg.read_text()
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", svg)
    # Names at the ends of lines, too.
    assert {"mean goodput per flow, Mb/s", "hops", "tcp-reno", "tcp-newreno"} <= set(texts)
    assert "'DejaVu Sans', 'Bitstream Vera Sans'" in svg or "'DejaVu Sans', Bitstream" in svg


def shown(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> tuple[wifu.Results, dict[str, Any]]:
    """Results that have what a kind of figure shows, and the least that it is told."""
    if kind not in ("rates", "trips"):
        return having(request, kind), {"kind": kind}
    nodes = {"nodes": ["mesh6"]} if kind == "rates" else {}
    return made(tmp_path), {"kind": kind, "where": {"protocol": ["hxh", "hxh-nolh"]}, **nodes}


@pytest.mark.parametrize("kind", sorted(kinds.KINDS))
@pytest.mark.parametrize(("columns", "inches"), [(1, 3.5), (2, 7.16)])
def test_a_figure_is_as_wide_as_columns_of_a_paper(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, columns: int, inches: float
) -> None:
    results, spec = shown(request, kind, tmp_path)
    svg = figures.draw(results, {**spec, "columns": columns}, tmp_path).svg.read_text()
    found = re.search(r'<svg [^>]*width="([\d.]+)pt"', svg)
    assert found is not None and float(found[1]) == pytest.approx(inches * 72)
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", svg)]
    assert sizes and min(sizes) >= 6 and max(sizes) <= 8


@pytest.mark.parametrize("kind", sorted(kinds.KINDS))
def test_words_stay_inside_a_narrow_figure(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wifu.figures import style

    (results, spec), outside = shown(request, kind, tmp_path), []

    def look(figure: Figure, *_: Path) -> None:
        style.fold(figure)
        figure.draw_without_rendering()
        whole = figure.bbox
        for axis in figure.axes:
            for label in (axis.xaxis.label, axis.yaxis.label, axis.title, *figure.texts):
                box = label.get_window_extent()
                inside = box.x0 >= -2 and box.x1 <= whole.x1 + 2 and box.y0 >= -2
                if label.get_text() and not (inside and box.y1 <= whole.y1 + 2):
                    outside.append(label.get_text())

    monkeypatch.setattr(style, "save", look)
    figures.draw(results, {**spec, "columns": 1}, tmp_path)
    assert not outside


@pytest.mark.parametrize("columns", [None, 1, 2])
def test_the_scale_of_a_map_is_named_by_whole_words(
    results: wifu.Results, columns: int | None
) -> None:
    from wifu.figures import style

    wide = {} if columns is None else {"columns": columns}
    with style.context(columns):
        figure, _, _ = figures.made(results, {"kind": "map", **wide})
        style.fold(figure)
        figure.draw_without_rendering()
    label = figure.axes[-1].get_xlabel() or figure.axes[-1].get_ylabel()
    assert label.split() == ["attempts", "acknowledged"]
    mesh = figure.axes[0]
    whole = mesh.get_window_extent()
    boxes = [text.get_window_extent() for text in mesh.texts]
    assert boxes and all(whole.x0 < box.x0 and box.x1 < whole.x1 for box in boxes)


def test_all_figures_of_a_report_take_a_width(results: wifu.Results) -> None:
    every = [d for d in figures.draw_all(results, columns=1) if isinstance(d, figures.Drawn)]
    assert every and all('width="252pt"' in d.svg.read_text() for d in every)


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ("columns = 3", "columns: is 1 or 2"),
        ("zoom = 1", "zoom: unknown key"),
        ('label = "x"', "label: must be a table"),
        ('label = { hosp = "x" }', "no axis or metric is called hosp; did you mean `hops`"),
        ("label = { hops = 3 }", "hops must be text, not 3"),
        ('label = { protocol = { tcp-rneo = "x" } }', "did you mean `tcp-reno`"),
    ],
)
def test_wrong_keys_of_figures_are_told(figure: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plans.parse(f'{CHAIN}\n[[figure]]\nkind = "bars"\n{figure}\n')


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ("zoom = 0", "zoom: is the number of a recovery"),
        ("zoom = true", "zoom: is the number of a recovery"),
        ('zoom = 2\nfrom = "1s"', "leave out `from` and `to`"),
    ],
)
def test_wrong_keys_of_sequence_graphs_are_told(figure: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plans.parse(f'{CHAIN}\n[[figure]]\nkind = "sequence"\n{figure}\n')
    plans.parse(f'{CHAIN}\n[[figure]]\nkind = "sequence"\nzoom = false\nfrom = "1s"\n')


def test_wrong_labels_of_a_plan_are_told() -> None:
    with pytest.raises(PlanError, match="did you mean `goodput`") as caught:
        plans.parse(f'{CHAIN}\n[label]\ngoodputt = "x"\n')
    assert caught.value.line is not None


# Words --------------------------------------------------------------------------------------------


def test_a_plan_says_what_figures_call_things(named: wifu.Results) -> None:
    figure, caption = drawn(named, kind="bars", x="hops")
    assert legend(figure) == ["Reno", "NewReno"]
    assert figure.axes[0].get_xlabel() == "Hops of the chain"
    assert figure.axes[0].get_ylabel() == "Goodput, Mb/s"
    assert caption.startswith("Goodput, Mb/s;")
    figure, _ = drawn(named, kind="map")
    assert panel_titles(figure)[0] == "Hops of the chain 1, Transport Reno"
    figure, _ = drawn(named, kind="lines", x="hops", label={"protocol": {"tcp-reno": "R"}})
    ends = [t.get_text() for a in figure.axes for t in a.texts]
    assert sorted(ends) == ["NewReno", "R"]


def test_names_of_axes_and_levels_in_options_may_have_dots_and_commas() -> None:
    spec: dict[str, Any] = {}
    levels = {
        "radio.attempts": ["2", "5"], "hops": ["1", "2"],
        "tcp": ["tcp-ap11", "tcp-ap11,profile=rfc-modern"],
    }  # fmt: skip
    for option in (
        "where.radio.attempts=2,5", "label.radio.attempts=Attempts, each", "label.hops.1=one",
        "label.tcp.tcp-ap11,profile=rfc-modern=TCP-AP = it", "label.tcp.tcp-ap11=1",
        "x=radio.attempts",
    ):  # fmt: skip
        set_option(spec, option, levels)
    assert spec == {
        "where": {"radio.attempts": [2, 5]},
        "label": {
            "radio.attempts": "Attempts, each",
            "hops": {"1": "one"},
            "tcp": {"tcp-ap11,profile=rfc-modern": "TCP-AP = it", "tcp-ap11": "1"},
        },
        "x": "radio.attempts",
    }
    set_option(spec, "label.hops=Hops", levels)
    set_option(spec, "label.hops.2=two", levels)
    assert spec["label"]["hops"] == {"title": "Hops", "2": "two"}


def test_labels_in_options_are_tables_as_in_plans(results: wifu.Results) -> None:
    one: dict[str, Any] = {}
    set_option(one, 'label={ hops = "Hops", protocol = { tcp-reno = "R" } }', {})
    assert one["label"] == {"hops": "Hops", "protocol": {"tcp-reno": "R"}}
    two: dict[str, Any] = {}
    set_option(two, 'label.protocol={ title = "TCP", "tcp-reno" = "R" }', {"protocol": []})
    figures.check_figure(results, {"kind": "bars", "x": "hops", **two})
    with pytest.raises(LabError, match=r"label.hops: \{a=b\} is no table of TOML"):
        set_option({}, "label.hops={a=b}", {"hops": []})


def test_results_are_the_same_plan_under_other_names() -> None:
    assert plans.parse(CHAIN + LABELS).sha256 == plans.parse(CHAIN).sha256


def test_panels_and_numbers_in_legends_name_their_axis(results: wifu.Results) -> None:
    figure, _ = drawn(results, kind="cdf", by="hops")
    assert panel_titles(figure) == ["protocol tcp-reno", "protocol tcp-newreno"]
    assert legend(figure) == ["hops 1", "hops 3"]


@pytest.mark.parametrize("columns", [None, 1, 2])
def test_a_legend_of_many_names_stays_inside(tmp_path: Path, columns: int | None) -> None:
    text = CHAIN.replace("copies = 2", "copies = 10").replace("[1, 3]", "[1]")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    wide = {} if columns is None else {"columns": columns}
    figure, _ = drawn(found, kind="timeseries", show=["cwnd"], **wide)
    (box,) = [found.get_window_extent() for found in figure.legends]
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1
    # Dealt out by columns; `test_figures_layout` reads them.
    assert sorted(legend(figure)) == sorted(f"flow {n}" for n in range(1, 11))


# What is read from them ---------------------------------------------------------------------------


@pytest.mark.parametrize("scales", [None, "shared"])
def test_no_value_is_cut_off_where_panels_share_a_range(
    results: wifu.Results, monkeypatch: pytest.MonkeyPatch, scales: str | None
) -> None:
    flows = results.flows.copy()
    # The first panel's values are the smallest.
    first = flows["cell"].isin([c.name for c in results.cells({"hops": 1})])
    rates = np.where(first, 1.85e6, 2.94e6) * np.linspace(0.9, 1.0, len(flows))
    monkeypatch.setattr(results, "flows", flows.assign(goodput_bps=rates))
    spec = {"scales": scales} if scales else {}
    figure, caption = drawn(results, kind="cdf", **spec)
    limits = [axis.get_xlim() for axis in figure.axes]
    assert limits[0] == limits[1]
    for axis in figure.axes:
        for line in axis.get_lines():
            assert np.asarray(line.get_xdata()).max() < limits[0][1]
    assert "scales of their own" not in caption


@pytest.mark.parametrize("kind", ["cdf", "tradeoff"])
def test_panels_with_a_scale_of_their_own_say_so(results: wifu.Results, kind: str) -> None:
    figure, caption = drawn(results, kind=kind, scales="own")
    assert [t.replace("\N{NO-BREAK SPACE}", " ") for t in panel_titles(figure)] == [
        "hops 1 (own scale)", "hops 3 (own scale)"
    ]  # fmt: skip
    assert "scales of their own" in caption
    figure, caption = drawn(results, kind=kind, scales="shared")
    assert panel_titles(figure) == ["hops 1", "hops 3"]
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    assert "scales of their own" not in caption
    with pytest.raises(PlanError, match="scales"):
        figures.check_figure(results, {"kind": kind, "scales": "mine"})


def test_fairness_has_shapes_and_its_intervals_inside(
    results: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = results.runs.copy()
    # Student's interval of these reaches far beyond 1, and far below the dots.
    values = np.resize([1.0, 1.0, 1.0, 1.0, 0.6], len(runs))
    monkeypatch.setattr(results, "runs", runs.assign(jain=values))
    figure, caption = drawn(results, kind="fairness", x="hops")
    axis = figure.axes[0]
    bottom, top = axis.get_ylim()
    spans = [
        segment[:, 1]
        for bars in axis.containers
        for part in getattr(bars, "lines", ((), (), ()))[2]
        for segment in part.get_segments()
    ]
    assert len(spans) == 4
    for span in spans:
        assert bottom < span.min() < span.max() <= 1.0 < top
    dots = [c for c in axis.collections if isinstance(c, PathCollection)]
    shapes = {str(c.get_paths()[0].vertices) for c in dots}
    assert len(shapes) == 2
    assert "above 1" in caption


def test_there_is_no_bar_where_all_values_are_zero(
    results: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = results.runs.copy()
    one = runs["cell"] == results.cells({"hops": 3})[0].name
    monkeypatch.setattr(results, "runs", runs.assign(timeouts=np.where(one, 4.0, 0.0)))
    figure, _ = drawn(results, kind="bars", metric="timeouts", x="hops")
    heights = [p.get_height() for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    assert heights == [4.0] and len(figure.axes[0].patches) == 1
    assert [t.get_text() for t in figure.axes[0].texts].count("0") == 3


def test_a_cell_without_a_value_is_not_a_zero(
    results: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = results.runs.copy()
    one = runs["cell"] == results.cells({"hops": 3})[0].name
    gone = runs.assign(srtt_s=np.where(one, np.nan, runs["srtt_s"]))
    monkeypatch.setattr(results, "runs", gone)
    figure, _ = drawn(results, kind="bars", metric="srtt", x="hops")
    assert len(figure.axes[0].patches) == 3
    assert [t.get_text() for t in figure.axes[0].texts].count("n/a") == 1


def test_flows_over_time_are_told_apart_in_grey(results: wifu.Results) -> None:
    figure, caption = drawn(results, kind="timeseries")
    for axis in figure.axes:
        looks = [(line.get_marker(), str(line.get_linestyle())) for line in axis.get_lines()]
        assert len(looks) == len(set(looks)) == 2
        assert all(line.get_markevery() for line in axis.get_lines())
    # The means that the line is made of stand beside it.
    assert "Mb/s\n(mean of 200\N{NO-BREAK SPACE}ms)" in figure.axes[0].get_ylabel()
    assert "window of 200 ms" in caption


def test_panels_over_time_have_one_range(results: wifu.Results) -> None:
    ends = [
        max(float(s.index[-1]) for n, s in results.series(c).items() if n.endswith("cwnd"))
        for c in results.cells()
    ]
    assert max(ends) > 1.5 * min(ends)
    figure, _ = drawn(results, kind="timeseries", show=["cwnd"])
    assert {axis.get_xlim() for axis in figure.axes} == {(0.0, max(ends))}
    figure, _ = drawn(results, kind="timeseries", show=["cwnd"], **{"from": "1s", "to": "2s"})
    assert {axis.get_xlim() for axis in figure.axes} == {(1.0, 2.0)}


@pytest.mark.parametrize(("seconds", "window"), [(1, 0.2), (10, 0.5), (20, 1), (60, 2), (600, 20)])
def test_a_window_is_chosen_by_the_time_that_is_shown(seconds: float, window: float) -> None:
    from wifu.figures import traces

    assert traces._window(seconds) == pytest.approx(window)


def test_latency_under_load_is_seen_over_time(probed: wifu.Results) -> None:
    figure, caption = drawn(probed, kind="latency")
    assert len(figure.axes) == 4 and legend(figure) == [], "one direction needs no name"
    assert panel_titles(figure) == ["window 12000", "window 48000"]
    for above, below in (figure.axes[:2], figure.axes[2:]):
        rate = np.asarray(above.get_lines()[0].get_ydata(), dtype=float)
        assert 1.5 < np.median(rate[rate > 0]) < 2.0, "Mb/s of a wire of 2 Mb/s"
        dots, line = below.get_lines()
        times, delays = (np.asarray(v, dtype=float) for v in dots.get_data())
        assert delays[times < 2.0].max() < 8, "idle: its own time on the wire, ms"
        at, median = (np.asarray(v, dtype=float) for v in line.get_data())
        assert np.isnan(median[(at > 2.5) & (at < 3.0)]).all(), "a gap where nothing is sent"
        assert below.get_yscale() == "log"
    full = [np.nanmax(np.asarray(a.get_lines()[1].get_ydata(), float)) for a in figure.axes[1::2]]
    assert full[1] > 2.5 * full[0], "a window four times as long"
    assert "sliding window" in caption
    added = probed.summary("latency_added").set_index("window")["mean"]
    assert added[48000] > 2.5 * added[12000] > 0


def test_lines_of_a_load_end_with_their_run(tmp_path: Path) -> None:
    """What has no end is cut off as a file beside it is there: nobody knows how it went on."""
    text = PROBED.replace(
        'start = "2s"\njitter = "50ms"\nstop_at = "8s"', 'start = "1s"\njitter = "50ms"'
    )
    text = text.replace('start = "3s"\nstop_at = "8s"\n', "").replace('stop_at = "1.9s"\n', "")
    file = 'from = "n2"\nto = "n1"\nprotocol = "tcp-newreno"\napp = "file"\nbytes = "{window}"\n'
    text = text.replace("[vary]", f"[[scenario.flow]]\n{file}[vary]")
    text = text.replace("rcv_wnd={window}", "rcv_wnd=48000").replace(
        "[12000, 48000]", '["1M", "3M"]'
    )
    found = wifu.campaign(plans.parse(text), tmp_path / "r")
    figure, caption = drawn(found, kind="latency")
    ends = [found.outcome(cell, 1)["sim_seconds"] for cell in found.plan.cells]
    assert ends[1] > 2 * ends[0]
    for end, above in zip(ends, figure.axes[::2], strict=True):
        lines = [line for line in above.get_lines() if len(line.get_xdata()) > 20]  # type: ignore[arg-type]
        last = {round(float(np.asarray(line.get_xdata(), float)[-1]), 1) for line in lines}
        assert lines and all(end - 0.2 < at <= end + 0.1 for at in last)
    assert f"Runs ended at {ends[0]:.4g} to {ends[1]:.4g} s, and lines with them." in caption


def test_what_load_adds_does_not_depend_on_how_long_it_lasts(tmp_path: Path) -> None:
    """The delays of datagrams are recorded for it without a word of the plan's."""
    text = PROBED.replace('series = { runs = [1, 2], record = ["delay"] }', "")
    text = text.replace('app = "bulk"', 'app = "file"\nbytes = "{size}"')
    text = text.replace('["aggregate", ', "[")
    text = text.replace('jitter = "50ms"\nstop_at = "8s"', 'jitter = "50ms"')
    text = text.replace('start = "3s"\nstop_at = "8s"', 'start = "2s"\nstop_at = "19s"')
    text = text.replace("window = [12000, 48000]", 'window = [48000]\nsize = ["200k", "2M"]')
    found = wifu.campaign(plans.parse(text), tmp_path / "r")
    assert "delay" not in str(found.plan.source.get("series"))
    short, long = found.summary("latency_added")["mean"]
    assert 100 < short < long < 1.5 * short, "ms, of a window of 48 kB at 2 Mb/s"
    assert found.summary("one_way_p95@3")["mean"].tolist() == pytest.approx(
        found.summary("one_way_p95")["mean"].tolist()
    )
    assert list((found.folder / "runs").iterdir()) and not (found.folder / "series").exists()


def test_latency_under_load_is_a_distribution_with_and_without(probed: wifu.Results) -> None:
    figure, caption = drawn(probed, kind="latency", **{"as": "cdf", "by": "window"})
    (axis,) = figure.axes
    assert set(legend(figure)) == {"window 12000", "window 48000", "without load"}
    ends = [float(np.asarray(line.get_xdata(), float).max()) for line in axis.get_lines()]
    assert ends[1] > 2.5 * ends[0] > 20 > ends[2]
    counted = sum(f["one_way"]["samples"] for c in probed.plan.cells for k in (1, 2)
                  for f in probed.outcome(c, k)["flows"] if "one_way" in f)  # fmt: skip
    told = int(caption.split("delay of ")[1].split()[0])
    assert 0.97 * counted <= told <= counted


def test_a_figure_of_latency_says_what_it_needs(results: wifu.Results) -> None:
    with pytest.raises(LabError, match=r'record = \["delay"\]'):
        drawn(results, kind="latency")
    with pytest.raises(PlanError, match="time"):
        kinds.check({"kind": "latency", "as": "bars"}, [], None, None)


@pytest.fixture
def recovering(tmp_path: Path) -> Iterator[wifu.Results]:
    """A sender of 50 segments that loses the fifth and the twentieth."""
    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=fake)
    rows: list[tuple[str, float, float]] = []
    at, delivered = 0.0, 0
    for n in range(50):
        at = 0.1 * n
        rows.append(("flow.1.sent", at, n * 1000.0 or 0.5))
        if n in (8, 25):
            rows.append(("flow.1.sent", at + 0.05, -1000.0 * (4 if n == 8 else 20)))
        hole = 4 if 4 <= n < 8 else 20 if 20 <= n < 25 else None
        delivered = (n + 1 if hole is None else hole) * 1000
        rows.append(("flow.1.delivered", at + 0.09, delivered))
    frame = pd.DataFrame(rows, columns=["series", "time_s", "value"])
    for cell in found.cells():
        frame.to_parquet(found.folder / "series" / f"{cell.name}-1.parquet", index=False)
    yield found


def test_a_sequence_graph_has_a_recovery_in_large(recovering: wifu.Results) -> None:
    spec: dict[str, Any] = {"kind": "sequence", "where": {"hops": 3, "protocol": "tcp-reno"}}
    figure, caption = drawn(recovering, **spec)
    whole, large = figure.axes
    start, end = large.get_xlim()
    # From before the lost segment was sent (0.4 s) to after what was sent by then was there.
    assert 0.0 < start < 0.4 and 0.89 < end < 1.3
    assert whole.get_xlim()[1] > 4.5
    assert "first recovery" in caption
    figure, caption = drawn(recovering, **spec, zoom=2)
    start, end = figure.axes[1].get_xlim()
    assert 1.5 < start < 2.0 and 2.59 < end < 3.1
    assert "second recovery" in caption
    for rest in ({"zoom": False}, {"from": "1s"}):
        figure, caption = drawn(recovering, **spec, **rest)
        assert len(figure.axes) == 1 and "Below" not in caption
    with pytest.raises(LabError, match="has no recovery 3"):
        drawn(recovering, **spec, zoom=3)


def test_a_waterfall_is_read_in_grey() -> None:
    from wifu.figures import mesh

    shades = [lightness(colour) for _, _, colour, _ in mesh.PARTS]
    # Those of radios, which stand beside each other, are each darker than the one before.
    assert all(one - two > 0.15 for one, two in pairwise(shades[2:6]))
    # What is on the wire is on none, and nodes have none of their own.
    looks = [(round(s / 0.15), hatch) for s, (*_, hatch) in zip(shades, mesh.PARTS, strict=True)]
    assert len(set(looks)) == len(looks)


def test_the_quality_of_links_is_read_in_grey() -> None:
    from wifu.figures import mesh

    shades = [lightness(c) for c in mesh._quality_map()(np.linspace(0, 1, 32))[:, :3]]
    assert all(one > two for one, two in pairwise(shades))
    assert shades[0] - shades[-1] > 0.5


def test_a_tradeoff_has_a_shape_for_each_level(results: wifu.Results) -> None:
    figure, _ = drawn(results, kind="tradeoff", where={"hops": 3})
    axis = figure.axes[0]
    assert legend(figure) == ["tcp-reno", "tcp-newreno"]
    assert len({line.get_marker() for line in axis.get_lines()}) == 2
    assert len({str(p.get_linestyle()) for p in axis.patches}) == 2


def test_a_tradeoff_tells_what_it_cannot_show(tmp_path: Path) -> None:
    """Runs that did not end have no time: without a word the slowest looked like the quickest."""

    def cut(scenario: dict[str, Any]) -> FakeResult:
        result = fake(scenario)
        for flow in result._outcome["flows"]:
            newreno = "newreno" in flow["protocol"]
            if newreno or scenario["run"] == 1:
                flow |= {"finished": False, "last_byte_s": None}
        return result

    text = CHAIN.replace("copies = 2", 'copies = 2\napp = "file"')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=cut)
    given: dict[str, Any] = {"kind": "tradeoff", "metric": "aggregate", "against": "delay"}
    figure, caption = drawn(found, where={"hops": 3}, **given)
    assert legend(figure) == ["tcp-reno", "tcp-newreno"]
    # Who finished nothing is at the least that it can be, with an arrow to where it is.
    (mean,) = [line for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert mcolors.to_hex(mean.get_markerfacecolor()) == "#ffffff"
    assert "hollow" in caption and [t.get_text() for t in figure.axes[0].texts] == ["→"] * 2
    assert "their goodput is that until then" in caption and "their time so far" in caption
    # One level alone is named as well, so that nobody takes it for another.
    figure, _ = drawn(found, where={"hops": 3, "protocol": "tcp-reno"}, **given)
    assert legend(figure) == ["tcp-reno"]


# On axes of one's own -----------------------------------------------------------------------------


def test_results_are_drawn_on_given_axes(results: wifu.Results) -> None:
    whole = Figure(figsize=(3, 3))
    left, right = whole.subplots(1, 2)
    assert results.plot("lines", ax=right, x="hops").get_ylabel() == "mean goodput per flow, Mb/s"
    right.clear()
    face = left.get_facecolor()
    again = results.plot("bars", ax=left, x="hops", metric="srtt")
    assert again is left and left.patches and not right.patches
    assert left.get_xlabel() == "hops" and left.get_facecolor() == face
    told = left.get_legend()
    assert told is not None and [t.get_text() for t in told.get_texts()] == [
        "tcp-reno", "tcp-newreno"
    ]  # fmt: skip
    assert not whole.legends and tuple(whole.get_size_inches()) == (3, 3)
    both = results.plot("cdf", ax=whole.subplots(1, 2))
    assert len(both) == 2 and both[0].get_xlim() == both[1].get_xlim()
    with pytest.raises(LabError, match=r"this figure has 2 panels: .* not 1, or choose"):
        results.plot("cdf", ax=left)
    with pytest.raises(PlanError, match="did you mean `metric`"):
        results.plot("bars", ax=left, metrik="srtt")
    over = results.plot(
        "timeseries", ax=whole.subplots(3, 1), where={"hops": 1, "protocol": "tcp-reno"}
    )
    assert [a.get_ylabel().split(",")[0] for a in over] == ["goodput", "window", "round-trip time"]


def test_what_python_has_a_word_for_is_written_with_a_stroke(results: wifu.Results) -> None:
    import matplotlib.pyplot as plt

    where = {"hops": 1, "protocol": "tcp-reno"}
    (axis,) = np.ravel(results.plot("timeseries", show=["cwnd"], where=where, from_="0.1s"))
    assert axis.get_xlim()[0] == 0.1
    plt.close(axis.figure)


def test_numbers_on_bars_stay_inside(results: wifu.Results) -> None:
    figure, _ = drawn(results, kind="bars", x="hops")
    axis = figure.axes[0]
    top = axis.get_window_extent().y1
    assert all(text.get_window_extent().y1 <= top for text in axis.texts) and axis.texts


def test_results_are_drawn_on_a_figure_of_pyplot(results: wifu.Results) -> None:
    import matplotlib.pyplot as plt

    before, font = plt.get_fignums(), mpl.rcParams["font.size"]
    axes = results.plot("cdf", columns=2)
    assert len(axes) == 2 and len(plt.get_fignums()) == len(before) + 1
    assert axes[0].figure.get_figwidth() == 7.16
    assert mpl.rcParams["font.size"] == font
    plt.close(axes[0].figure)
    assert results.plot(x="hops").get_ylabel() == "mean goodput per flow, Mb/s"
    plt.close("all")


def test_drawing_leaves_the_backend_alone(results: wifu.Results, tmp_path: Path) -> None:
    program = (
        "import sys, matplotlib as mpl; mpl.use('svg')\n"
        "import wifu; wifu.load(sys.argv[1]).plot(x='hops')\n"
        "assert mpl.get_backend().lower() == 'svg', mpl.get_backend()"
    )
    subprocess.run([sys.executable, "-c", program, str(results.folder)], check=True)


# The report ---------------------------------------------------------------------------------------


def test_the_report_has_no_bar_for_nothing(
    results: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = results.runs.assign(goodput_bps=0.0)
    monkeypatch.setattr(results, "runs", nothing)
    table = report._pivot(results, "goodput")
    assert "class='value'" in table and "class='bar" not in table
    # Nor is any of them the best.
    assert "<b>" not in table


def test_a_metric_of_one_flow_is_planned_drawn_and_looked_up_later(tmp_path: Path) -> None:
    text = CHAIN.replace('["goodput", "jain", "srtt"]', '["goodput@2", "goodput"]')
    text += '[[figure]]\nkind = "bars"\nmetric = "goodput@2"\nx = "hops"\n'
    text += "[label]\n'goodput@2' = 'Goodput of the second'\n"
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    assert "goodput_bps@2" in found.runs
    rows = found.flows[found.flows["flow"] == 2].set_index(["cell", "run"])["goodput_bps"]
    sample = found.sample("goodput@2").sort_index()
    assert np.allclose(sample, rows.sort_index()) and not np.allclose(
        sample, found.sample("goodput@1")
    )
    assert "goodput@1" not in found.plan.metrics, "this one was read from the outcomes"
    assert not found.compare("goodput@2").empty
    for kind in ("bars", "lines", "cdf"):
        spec = {"kind": kind, "metric": "goodput@2", "columns": 2}
        _, caption = drawn(found, **spec)
        assert "oodput of the second" in caption
    assert "<h3>Goodput of the second, Mb/s</h3>" in report.render(found, []), "as in figures"
    with pytest.raises(PlanError, match=r"goodput@3: cell 1_tcp-reno has 2 flows"):
        plans.parse(text.replace("goodput@2", "goodput@3"))
