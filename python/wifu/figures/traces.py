"""Figures over time: goodput, window and round-trip time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wifu import splits, stats, values, ways
from wifu.api import Results
from wifu.cells import Cell
from wifu.digits import with_unit
from wifu.errors import LabError
from wifu.figures import legends, page, style
from wifu.figures.compare import chosen, counting, first, one_of
from wifu.figures.there import There, apart, there_of
from wifu.figures.words import Words
from wifu.metrics import sliding
from wifu.rows import flows_of, numbered
from wifu.stamps import first as listed

Made = tuple[Figure, str, str]
Series = Mapping[str, Any]


class Drawn(NamedTuple):
    """A line over time, in the unit of its scale."""

    times: stats.Floats
    y: stats.Floats
    steps: bool


SHOWN = {
    "goodput": ("delivered", "goodput", "Mb/s"),
    "delivered": ("delivered", "bytes delivered in order", "MB"),
    "cwnd": ("cwnd", "window", "kB"),
    "srtt": ("srtt", "round-trip time", "ms"),
}
"""What is shown: the series that it is made of, its name and unit."""
WHOLE = ("goodput", "delivered")
"""What of it is at the last receiver."""
SCALES = {"delivered": 1e6, "cwnd": 1e3, "srtt": 1e-3}


def run_of(results: Results, spec: Mapping[str, Any]) -> int:
    """The run that is shown: the first that has series, if none is named."""
    runs = results.plan.series_runs
    return int(spec.get("run", min(runs) if runs else 1))


def span_of(spec: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """From when to when a figure is to be, seconds."""
    start, end = spec.get("from"), spec.get("to")
    return (
        None if start is None else values.seconds(start),
        None if end is None else values.seconds(end),
    )


def insist(start: float, last: float) -> None:
    """LabError if there is nothing from `start` on, as the last of all is before it."""
    if start >= last:
        raise LabError(f"nothing is from {start:g} s on: the last is at {last:.4g} s")


def timeseries(results: Results, spec: dict[str, Any]) -> Made:
    """A column per cell, up to three side by side; a row per thing shown, a line per flow."""
    show = [str(s) for s in spec.get("show", ["goodput", "cwnd", "srtt"])]
    cells, run = chosen(results, spec), run_of(results, spec)
    gone, left = counting(results, cells, [run])
    having = [(c, results.series(c, run)) for c in cells if (c.name, run) not in gone]
    found, rest = first([(c, s) for c, s in having if s], 6)
    if not found:
        raise LabError(
            f"no series of run {run}: the plan must say [series] runs = [{run}] before it is run"
        )
    for what in (s for s in show if s not in SHOWN):
        if not any(n.endswith(f".{what}") for _, series in found for n in series):
            raise LabError(f"no flow has a series {what}: name it in [series] record of the plan")
    there = [there_of(results, cell, run) for cell, _ in found]
    lasts = [flows.last for flows in there]
    if {"goodput", "delivered"} & set(show):
        lasts = [{**flows.last, **{n: at for n, (at, _) in flows.done.items()}} for flows in there]
    start, end = _range([series for _, series in found], show, *span_of(spec), lasts)
    insist(start, _range([series for _, series in found], show, None, None, lasts)[1])
    window = values.seconds(spec["window"]) if "window" in spec else _window(end - start)
    figure, column_axes = columns(len(found), len(show))
    words = Words(results, spec)
    names = words.titles(cells)
    lines: dict[str, Any] = {}
    lacking: list[tuple[str, str, tuple[int, ...]]] = []
    for (cell, series), column, flows in zip(found, column_axes, there, strict=True):
        lacking += [
            (names[cell.name], what, missing)
            for what, missing in _flows(
                column, series, (show, window), (start, end), flows, lines
            ).items()
        ]
        style.entitle(column[0], names[cell.name])
        column[-1].set_xlabel("time, s")
        column[0].set_xlim(start, end)
    for row, what in enumerate(show):
        style.label_rows([axes[row] for axes in column_axes], _scale(words, what, window))
        axes = [column[row] for column in column_axes]
        if what in SHOWN:
            for axis in axes:
                axis.set_ylim(bottom=0)
            style.from_zero(axes)
        page.align(axes, "y")
    legends.above(figure, list(lines.values()), list(lines))
    caption = f"Run {run}."
    if "goodput" in show:
        caption += " Goodput: bytes delivered in order, so that it leaps where a hole is filled, "
        caption += f"in a sliding window of {_milliseconds(window)} before each instant, at first "
        caption += "since the flow began."
    caption += " Congestion window of the sender." if "cwnd" in show else ""
    caption += " Smoothed round-trip time at the sender." if "srtt" in show else ""
    drawn = [cell for cell, _ in found]
    caption += _of_halves(splitters_of(results, drawn, run), show)
    caption += _begun_anew(drawn, show)
    caption += f" {told}" if "srtt" in show and (told := ways.unlike_trips(results, drawn)) else ""
    titles = [names[cell.name] for cell in drawn]
    caption += apart(list(zip(titles, there, strict=True))) + _lacking(lacking, len(found))
    caption += one_of(results, drawn, run)
    return figure, "Over time", caption + left + rest


def splitters_of(results: Results, cells: Sequence[Cell], run: int) -> str:
    """The nodes that split connections in a run of these cells."""
    every = (node for c in cells for node in splits.splitters(results.outcome(c, run)))
    return ", ".join(dict.fromkeys(every))


def _of_halves(nodes: str, show: Sequence[str]) -> str:
    """What a caption says of lines that are of the source's half, where `nodes` split TCP."""
    whole, own = (
        [SHOWN.get(what, ("", what))[1] for what in show if (what in WHOLE) == of] for of in (1, 0)
    )
    # What a splitter has, such as `n2.far.cwnd`, says so itself.
    own = [name for name in own if name.split(".")[0] not in nodes.split(", ")]
    if not nodes or not own:
        return ""
    told = f" Nodes split TCP ({nodes}): {', '.join(own)} {'are' if len(own) > 1 else 'is'} of the "
    told += "source's half alone"
    if not whole:
        return told + "."
    return f"{told}, {', '.join(whole)} {'are' if len(whole) > 1 else 'is'} of the whole way."


def anew(cell: Cell) -> list[int]:
    """The flows that open a connection for each file."""
    return [n for n, f in flows_of(cell) if f.get("app") == "http" and not f.get("persistent")]


def _begun_anew(cells: Sequence[Cell], show: Sequence[str]) -> str:
    """What a caption says of a connection's own lines where flows have one for each file."""
    own = [SHOWN.get(what, ("", what))[1] for what in show if what not in WHOLE]
    flows = sorted({n for cell in cells for n in anew(cell)})
    if not own or not flows:
        return ""
    alone = all(anew(cell) == [n for n, _ in flows_of(cell)] for cell in cells)
    *most, last = own
    names, they = (f"{', '.join(most)} and {last}", "they fall") if most else (last, "it falls")
    return (
        f" Each file{'' if alone else f' of {numbered(flows)}'} has a connection of its own, with "
        f"which {names} begin{'' if most else 's'} anew: that {they} there is no loss. In the "
        "pause between two files no connection is open, and the last value is drawn on."
    )


def _scale(words: Words, what: str, window: float) -> str:
    """What is written along a scale; with the window that it is a mean of."""
    _, name, unit = SHOWN.get(what, ("", what, ""))
    text = with_unit(words.quantity(what, name), unit)
    mean = _milliseconds(window).replace(" ", "\N{NO-BREAK SPACE}")
    return f"{text}\n(mean of {mean})" if what == "goodput" else text


def _milliseconds(window: float) -> str:
    return f"{window * 1000:g} ms" if window < 1 else f"{window:g} s"


def _window(span: float) -> float:
    """A window in which a line over so many seconds has features, not noise: a thirtieth of them,
    rounded to 1, 2 or 5, and 200 ms at least.
    """
    for exponent in range(-1, 7):
        for digit in (1, 2, 5):
            window = float(digit * 10.0**exponent)
            if window >= max(0.2, span / 30):
                return window
    return span / 30


def _range(
    every: Sequence[Series], show: Sequence[str], start: float | None, end: float | None,
    lasts: Sequence[Mapping[int, float]] = (),
) -> tuple[float, float]:  # fmt: skip
    """The time that all panels show: what was asked for, else from 0 to the last of all points, and
    to the end of a run in which flows did not end before (`lasts`).
    """
    kinds = {SHOWN.get(what, (what,))[0] for what in show}
    last = [
        float(data.index[-1])
        for series in every
        for name, data in series.items()
        if name.split(".", 2)[-1] in kinds and len(data)
    ]
    last += [until for flows in lasts for until in flows.values()]
    start = 0.0 if start is None else start
    return start, max(last, default=start + 1.0) if end is None else end


def _flows(
    column: Sequence[Axes], series: Series, shown: tuple[Sequence[str], float],
    span: tuple[float, float], there: There, lines: dict[str, Any],
) -> dict[str, tuple[int, ...]]:  # fmt: skip
    """All flows of a cell, from when to when they were `there`; `lines` gets one of each by its
    name. Returns those that have no line though others have, by what is shown.
    """
    show, window = shown
    named = {int(n.split(".")[1]) for n in series if n.startswith("flow.")}
    flows = sorted(named | there.nothing)
    without: dict[str, tuple[int, ...]] = {}
    for axis, what in zip(column, show, strict=True):
        for n, flow in enumerate(flows):
            drawn = _line(series, flow, what, window, there)
            if drawn is None:
                without[what] = (*without.get(what, ()), flow)
                continue
            drawn = _within(drawn, span)
            (line,) = axis.plot(
                drawn.times, drawn.y, color=style.colour(n), linestyle=style.dash(n),
                linewidth=(0.75 if len(flows) <= 3 else 0.55) * style.line(),
                drawstyle="steps-post" if drawn.steps else "default",
                # What is at zero is neither cut in half by the axis nor below it.
                clip_on=False, zorder=3,
            )  # fmt: skip
            if len(flows) > 1:
                # In grey dashes tell lines apart that cross, shapes those with too many bends.
                line.set(
                    marker=style.marker(n), markersize=5, markeredgewidth=0.5,
                    markeredgecolor="white",
                    markevery=style.marked(drawn.times, drawn.y, n, len(flows), span),
                )  # fmt: skip
            lines.setdefault(f"flow {flow}", line)
        if not axis.lines:  # such as windows of a protocol that has none
            without.pop(what, None)
            axis.text(
                0.5, 0.5, "no value", transform=axis.transAxes, ha="center", va="center",
                fontsize=style.small(), color=style.INK,
            )  # fmt: skip
        style.grid(axis)
    return without


def _lacking(found: Sequence[tuple[str, str, tuple[int, ...]]], panels: int) -> str:
    """What a caption says of flows that have no line where others have one."""
    told: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for title, what, flows in found:
        told.setdefault((what, flows), []).append(title)
    each = []
    for (what, flows), titles in told.items():
        where = f" (in {'; '.join(titles)})" if len(titles) < panels else ""
        names = f"flow{'s' if len(flows) > 1 else ''} {listed([str(n) for n in flows], 8)}"
        each.append(f"{SHOWN.get(what, ('', what))[1]} of {names}{where}")
    return f" No line, as none is known: {', '.join(each)}." if each else ""


def columns(cells: int, rows: int, own_times: bool = False) -> tuple[Figure, list[list[Axes]]]:
    """For each cell its axes from top to bottom, with one scale of time, or one of its own; a row
    has one scale in all cells. More than three cells go on below, so that the figure fits a page.
    """
    if (own := page.given(cells * rows)) is not None:
        return page.root(own[0]), [own[n : n + rows] for n in range(0, cells * rows, rows)]
    across = page.beside(cells, 3)
    bands = -(-cells // across)
    high = ((0.9 + 1.7 * rows) * bands + 0.4) * page.scale(across)
    figure = page.figure(page.width(across), high)
    outer = figure.add_gridspec(bands, 1, hspace=0.08)
    inner = [outer[band].subgridspec(rows, across) for band in range(bands)]
    made: list[list[Axes]] = []
    for cell in range(cells):
        band, column = divmod(cell, across)
        axes: list[Axes] = []
        for row in range(rows):
            axis = figure.add_subplot(
                inner[band][row, column],
                sharex=axes[0] if axes else made[0][0] if made and not own_times else None,
                sharey=made[0][row] if made else None,
            )
            axis.tick_params(labelbottom=row == rows - 1, labelleft=column == 0)
            axes.append(axis)
        made.append(axes)
    return figure, made


def _line(series: Series, flow: int, what: str, window: float, there: There) -> Drawn | None:
    """The line of a flow, if there is one, drawn to the last instant that it is there: that it gets
    nothing any more is seen, and that its window stayed what it was. Goodput begins with the flow,
    and is 0 where there is no series because nothing arrived.
    """
    begin, last = there.begin.get(flow, 0.0), there.last.get(flow)
    kind = SHOWN.get(what, (what,))[0]
    data = series.get(f"flow.{flow}.{kind}")
    if data is not None and len(data):
        times, y = data.index.to_numpy(float), data.to_numpy(float)
    elif kind == "delivered" and flow in there.nothing and last is not None:
        times, y = np.array([begin]), np.zeros(1)
    else:
        return None
    done, octets = there.done.get(flow, (0.0, 0.0))
    if kind == "delivered" and done > times[-1] and octets >= y[-1]:
        # Series are recorded every so often, and not when a flow is over.
        times, y = np.append(times, done), np.append(y, octets)
    if what == "goodput":
        # On the steps that all flows have, so that the end is one of them.
        step = window / 10
        start = step * float(np.floor(begin / step))
        at, rate = sliding(times, y, window, step, start, last)
        if last is None and times[-1] > max([start, *at[-1:]]) + step * 1e-6:
            end, final = sliding(times, y, window, times[-1] - start, start)
            at, rate = np.append(at, end), np.append(rate, final)
        # Before a window is over the mean is of the time since the flow began: no ramp.
        rate *= window / np.clip(at - start, step, window)
        return Drawn(at, rate / 1e6, False)
    if last is not None and last > times[-1]:
        times, y = np.append(times, last), np.append(y, y[-1])
    # What was not known is NaN, which leaves a gap.
    return Drawn(times, y / SCALES.get(what, 1.0), True)


def _within(drawn: Drawn, span: tuple[float, float]) -> Drawn:
    """The part of a line that is shown: what lies outside decides no scale."""
    (start, end), times, y = span, drawn.times, drawn.y
    inside = (times >= start) & (times <= end)
    before, after = np.flatnonzero(times < start), bool(times.size and times[-1] > end)
    shown, values = times[inside], y[inside]
    if drawn.steps and before.size:
        shown, values = np.append(start, shown), np.append(y[before[-1]], values)
    if drawn.steps and after and values.size:
        shown, values = np.append(shown, end), np.append(values, values[-1])
    return Drawn(shown, values, drawn.steps)
