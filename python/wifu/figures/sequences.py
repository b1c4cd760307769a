"""Time-sequence graphs: segments as they were sent, and recoveries from losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wifu import handed, stats, ways
from wifu.api import Results
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.figures import legends, page, style
from wifu.figures.compare import Made, chosen, counting, first, one_of
from wifu.figures.there import there_of
from wifu.figures.traces import anew, insist, run_of, span_of, splitters_of
from wifu.figures.words import Words


class Segments(NamedTuple):
    """What a sender did: when it sent what, and what was acknowledged or delivered by then."""

    sent: tuple[stats.Floats, stats.Floats]
    again: tuple[stats.Floats, stats.Floats]
    lost: tuple[stats.Floats, stats.Floats]
    line: tuple[stats.Floats, stats.Floats]
    name: str
    opened: float = -np.inf
    """When the connection was open: what goes again before is its SYN; inf if it never was."""


def sequence(results: Results, spec: dict[str, Any]) -> Made:
    """Time-sequence graph: a dot per segment sent, circles for those retransmitted; and below it a
    recovery from a loss, so large that single segments are seen.
    """
    every, run = chosen(results, spec), run_of(results, spec)
    gone, left = counting(results, every, [run])
    cells, rest = first([c for c in every if (c.name, run) not in gone], 4)
    flow = int(spec.get("flow", 1))
    start, end = span_of(spec)
    whole = start is None and end is None
    found = [_segments(results, cell, flow, run) for cell in cells]
    if start is not None and (sent := [s.sent[0] for s in found if s.sent[0].size]):
        insist(start, max(float(times.max()) for times in sent))
    which = int(spec.get("zoom", 1)) if whole else 0
    zooms = [recovery(segments, which) if which else None for segments in found]
    if "zoom" in spec and which and not any(zooms):
        raise LabError(f"flow {flow} of run {run} has no recovery {which}")
    below = any(zooms)
    figure, columns = _pairs(len(cells), below)
    words = Words(results, spec)
    names = words.titles(every)
    handles: dict[str, Any] = {}
    for axes, cell, segments, zoom in zip(columns, cells, found, zooms, strict=True):
        _segment_marks(axes[0], segments, handles, large=not whole)
        counted = _count(segments, start, end)
        style.entitle(axes[0], f"{names[cell.name]}\n{counted}".lstrip())
        axes[0].set_xlim(start, end)
        if not whole:
            _fit(axes[0])
        if below:
            none = "never connected" if segments.opened == np.inf else ""
            none = none or _unrepaired(results, cell, flow, run)
            _larger(axes, segments, zoom, handles, none)
        axes[-1].set_xlabel("time, s")
    if whole:
        # Slopes are rates: they are compared between cells.
        page.align([axes[0] for axes in columns], "x")
        page.align([axes[0] for axes in columns], "y")
    unit = "data segment" if results.plan.runner == "mock" else "offset in the stream, kB"
    for row in range(2 if below else 1):
        style.label_rows([axes[row] for axes in columns], unit)
    legends.above(figure, list(handles.values()), list(handles))
    caption = f"Run {run}, flow {flow}. Each dot is a segment that "
    lanes = [c for c in cells if ways.laned(results.plan.runner, c, flow)]
    named = ", ".join(names[c.name] for c in lanes)
    if lanes and len(lanes) < len(cells):
        caption += f"leaves the sender, or with lanes ({named}) enters the sender's lane."
    else:
        caption += "enters the sender's lane." if lanes else "leaves the sender."
    if nodes := splitters_of(results, cells, run):
        caption += f" Nodes split TCP ({nodes}): the dots are of the source's half, whose segments "
        caption += "the first of them acknowledges; the line is what the last receiver got in "
        caption += "order, behind all halves, which repair what they lose themselves."
    caption += _anew(cells, flow)
    if below:
        nth = {1: "first", 2: "second", 3: "third"}.get(which, f"{which}th")
        caption += f" Below, the grey part: the {nth} recovery, from before the first segment that "
        caption += "went again until all that had been sent by then was there."
        caption += _endless([names[c.name] for c in cells], zooms)
    caption += one_of(results, cells, run)
    return figure, "Segments over time", caption + left + rest


def _anew(cells: Sequence[Cell], flow: int) -> str:
    """What a caption says of flows that open a connection for each file."""
    if not any(flow in anew(cell) for cell in cells):
        return ""
    return (
        " Each file has a connection of its own, with which the offsets of the dots begin anew; "
        "what was delivered adds up over all of them."
    )


def _endless(titles: Sequence[str], zooms: Sequence[Recovery | None]) -> str:
    """What a caption says of recoveries that had no end."""
    found = [t for t, zoom in zip(titles, zooms, strict=True) if zoom is not None and not zoom.over]
    if not found:
        return ""
    where = f" in {'; '.join(found)}" if len(titles) > 1 else ""
    return f" It never was{where}: there is shown what came until the end."


def _unrepaired(results: Results, cell: Cell, flow: int, run: int) -> str:
    """What is said where a source sent nothing again: nodes may have."""
    if not ways.laned(results.plan.runner, cell, flow):
        return "nothing was\nrecovered"
    packets = results.outcome(cell, run)["flows"][flow - 1].get("packets")
    told = "the ends\nrepaired nothing"
    return told if packets is None else f"{told},\nnodes sent\n{packets.get('copies', 0)} copies"


def _pairs(cells: int, below: bool) -> tuple[Figure, list[list[Axes]]]:
    """For each cell one panel, or two of which the second is `below`."""
    rows = 2 if below else 1
    if (own := page.given(cells * rows)) is not None:
        return page.root(own[0]), [own[n : n + rows] for n in range(0, cells * rows, rows)]
    across = page.beside(cells, 2)
    bands = -(-cells // across)
    high = (3.1 if below else 4.4) * rows * bands * page.scale(across)
    figure = page.figure(page.width(across), high)
    grid = figure.add_gridspec(rows * bands, across)
    return figure, [
        [figure.add_subplot(grid[n // across * rows + row, n % across]) for row in range(rows)]
        for n in range(cells)
    ]


def _larger(
    axes: Sequence[Axes], segments: Segments, zoom: Recovery | None,
    handles: dict[str, Any], none: str,
) -> None:  # fmt: skip
    """The recovery in the second panel, and where it is in the first; `none` if there is none."""
    if zoom is None:
        axes[1].text(
            0.5, 0.5, none, transform=axes[1].transAxes, ha="center",
            va="center", color=style.MUTED, fontsize=style.small(),
        )  # fmt: skip
        axes[1].set(xticks=[], yticks=[])
        return
    _segment_marks(axes[1], segments, handles, large=True)
    axes[0].axvspan(zoom.begin, zoom.end, color=style.FAINT, alpha=0.7, linewidth=0, zorder=0)
    axes[1].set_xlim(zoom.begin, zoom.end)
    _fit(axes[1])


def _count(segments: Segments, start: float | None, end: float | None) -> str:
    """How many segments a panel shows, in words: those that lie close together are not seen."""
    low, high = -np.inf if start is None else start, np.inf if end is None else end
    sent, again = (
        int(((points[0] >= low) & (points[0] <= high)).sum())
        for points in (segments.sent, segments.again)
    )
    times = segments.again[0]
    syns = int(((times >= low) & (times <= min(high, segments.opened))).sum())
    told = f"{sent} sent, {again - syns} retransmitted"
    if segments.opened == np.inf:
        told = "never connected"
    return told + (f", {syns} SYN{'s' if syns > 1 else ''} retransmitted" if syns else "")


def _segment_marks(axis: Axes, segments: Segments, handles: dict[str, Any], large: bool) -> None:
    (line,) = axis.step(
        *segments.line, where="post", color=style.MUTED, linewidth=1.2 if large else 0.9
    )
    handles.setdefault(segments.name, line)
    many = segments.sent[0].size > 4000
    # Circles are below the dots, and so thin that those beside them are seen.
    circle = {"marker": "o", "color": style.COLOURS[1], "fillstyle": "none", "zorder": 1.9}
    looks: dict[str, tuple[tuple[stats.Floats, stats.Floats], dict[str, Any]]] = {
        "sent": (segments.sent, {"marker": ".", "color": style.COLOURS[0], "zorder": 2.1}),
        "retransmitted": (segments.again, {**circle, "markeredgewidth": 1.0 if large else 0.5}),
        "lost": (segments.lost, {"marker": "x", "color": "#b3261e", "markeredgewidth": 1.4}),
    }
    for name, (points, form) in looks.items():
        if not points[0].size:
            continue
        size = {"sent": 2.5, "retransmitted": 4.5 if large else 3.5, "lost": 5.0}[name] * (
            1.5 if large else 1.0
        )
        (drawn,) = axis.plot(*points, ls="", markersize=size, rasterized=many, **form)
        handles.setdefault(name, drawn)
    style.grid(axis, "both")


class Recovery(NamedTuple):
    """A recovery from a loss, with room around it."""

    begin: float
    end: float
    over: bool
    """Whether what had been sent came at last."""


def recovery(segments: Segments, which: int) -> Recovery | None:
    """The recovery number `which`; none if there are not so many.

    It begins when a segment goes again and ends when what had been sent by then is there, or with
    the run; shown is also the time since that segment was sent first.
    """
    times, offsets = segments.sent
    until, count = -np.inf, 0
    for begin, lost in zip(*segments.again, strict=True):
        sent = offsets[times <= begin]
        if begin <= until or not sent.size:
            continue
        # A segment is there when more is there than what lay before it.
        over = segments.line[0][segments.line[1] > sent.max()]
        every = np.concatenate([times, segments.again[0], segments.line[0]])
        until = max(float(begin), float(over[0] if over.size else every.max()))
        count += 1
        if count == which:
            # Seen from when it was first sent, which is what it is compared with.
            before = times[offsets == lost]
            start = min(float(begin), float(before[0]) if before.size else float(begin))
            last = until if over.size else float(segments.again[0].max())
            room = max(0.25 * (last - start), 0.01)
            return Recovery(max(0.0, start - room), until + room * bool(over.size), bool(over.size))
    return None


def _fit(axis: Axes) -> None:
    """Fit y to what lies inside the x limits."""
    low, high = axis.get_xlim()
    inside = [
        np.asarray(line.get_ydata(), dtype=float)[
            (np.asarray(line.get_xdata(), dtype=float) >= low)
            & (np.asarray(line.get_xdata(), dtype=float) <= high)
        ]
        for line in axis.get_lines()
    ]
    seen = np.concatenate([y for y in inside if y.size] or [np.array([0.0, 1.0])])
    margin = 0.04 * (float(seen.max()) - float(seen.min()) or 1.0)
    axis.set_ylim(float(seen.min()) - margin, float(seen.max()) + margin)


def _segments(results: Results, cell: Cell, flow: int, run: int) -> Segments:
    if results.plan.runner == "mock":
        return _mock_segments(results.outcome(cell, run)["trace"])
    series, outcome = results.series(cell, run), results.outcome(cell, run)
    one = handed.flow_of(outcome, flow)
    nothing = np.empty(0)
    sent = series.get(f"flow.{flow}.sent")
    if sent is None and one.get("protocol") == "udp":
        raise LabError(
            f"flow {flow} of {cell.name} is of datagrams, of which no segments are recorded: "
            "choose another `flow`, or other cells by `where`"
        )
    if sent is None and (one.get("bytes") != 0 or not series):
        raise LabError(f"no series of run {run}: the plan must say [series] runs = [{run}]")
    times, offsets = (
        (nothing, nothing)
        if sent is None
        else (sent.index.to_numpy(float), sent.to_numpy(float) / 1e3)
    )
    new = offsets >= 0
    # The first octet that goes again is written as half of one, for there is no -0.
    again = np.where(-offsets[~new] < 1e-3, 0.0, -offsets[~new])
    delivered = series.get(f"flow.{flow}.delivered")
    line = (nothing, nothing)
    if delivered is not None:
        line = (delivered.index.to_numpy(float), delivered.to_numpy(float) / 1e3)
    there = there_of(results, cell, run)
    if (last := there.last.get(flow)) is not None:
        # Who got nothing any more is seen to have got nothing.
        if not line[0].size and flow in there.nothing:
            line = (np.array([there.begin[flow]]), np.zeros(1))
        if line[0].size and last > line[0][-1]:
            line = (np.append(line[0], last), np.append(line[1], line[1][-1]))
    opened = np.inf if flow in there.apart else float(one.get("connected_s") or -np.inf)
    return Segments(
        (times[new], offsets[new]), (times[~new], again), (nothing, nothing), line,
        "delivered in order", opened,
    )  # fmt: skip


def _mock_segments(trace: Sequence[Mapping[str, Any]]) -> Segments:
    def points(event: str, again: int | None = None) -> tuple[stats.Floats, stats.Floats]:
        rows = [
            (r["time_s"], r["seq_index"])
            for r in trace
            if r["event"] == event
            and r["seq_index"] is not None
            and again in (None, r["retransmission"])
        ]
        both = np.asarray(rows, dtype=float).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    return Segments(
        points("send", 0), points("send", 1), points("drop"), points("ack"), "asked for"
    )
