"""Figures that compare cells over an axis: bars and lines, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from wifu import cutoff, stats
from wifu.api import Results
from wifu.cells import Cell, Label
from wifu.errors import LabError, PlanError
from wifu.figures import along, lacking, legends, page, style
from wifu.figures.along import centred, placed
from wifu.figures.sayings import counted as counted
from wifu.figures.sayings import counts as counts
from wifu.figures.sayings import cut, interval_words, of_means
from wifu.figures.sayings import cut_off as cut_off
from wifu.figures.sayings import left_out as left_out
from wifu.figures.sayings import of_runs as of_runs
from wifu.figures.sayings import one_of as one_of
from wifu.figures.sayings import stopped as stopped
from wifu.figures.words import Words
from wifu.metrics import metric_of

Made = tuple[Figure, str, str]
Drawable = TypeVar("Drawable")
End = tuple[float, float, str, str]
"""Where a line ends, its name and colour."""


def levels(cells: Sequence[Cell], name: str | None) -> list[Label]:
    """The labels that cells have on an axis, in the plan's order."""
    if name is None:
        return [""]
    return list(dict.fromkeys(c.labels[name] for c in cells))


def looks(results: Results, name: str | None, every: Sequence[Label]) -> list[int]:
    """The number of each level's colour, shape and dash: its place in the plan, so that it looks
    the same in all figures, whichever cells they show. Of an axis with more levels than there are
    colours it is the place among those that are shown, so that these have as few in common as can
    be.
    """
    if name is not None:
        whole = [v.label for v in results.plan.axis(name).levels]
        if len(whole) <= len(style.COLOURS) and all(label in whole for label in every):
            return [whole.index(label) for label in every]
    return list(range(len(every)))


def chosen(results: Results, spec: dict[str, Any]) -> list[Cell]:
    """The cells that a figure shows."""
    cells = results.cells(spec.get("where"))
    if not cells:
        raise PlanError("no cell fits `where`", "figure")
    return cells


def first(
    found: Sequence[Drawable], most: int, what: str = "cells"
) -> tuple[Sequence[Drawable], str]:
    """What fits a figure of one panel for each, and what its caption says of the others."""
    if len(found) <= most:
        return found, ""
    return found[:most], f" The first {most} of {len(found)} {what}; choose with `where`."


def same_levels(parts: Sequence[tuple[str, list[Cell]]], x: str | None) -> bool:
    """Whether all panels of a figure have the same levels of an axis. Only then they may share its
    scale: what is written along it is that of all of them.
    """
    return all(levels(members, x) == levels(parts[0][1], x) for _, members in parts)


def most_levels(parts: Sequence[tuple[str, list[Cell]]], x: str | None) -> int:
    """How many levels of an axis the panel with most of them has."""
    return max(len(levels(members, x)) for _, members in parts)


MOST = 12
"""Panels in a figure, so that it fits a page."""


def split(
    words: Words, cells: Sequence[Cell], names: Sequence[str | None]
) -> tuple[Sequence[tuple[str, list[Cell]]], list[Cell], str]:
    """The panels of a figure (see `Words.split`), the cells in them, and what its caption says of
    those that do not fit.
    """
    parts, rest = first(words.split(cells, names), MOST, "panels")
    return parts, [c for _, members in parts for c in members], rest


def by_of(results: Results, spec: dict[str, Any], x: str | None) -> str | None:
    """The axis whose levels a figure tells apart by colour and shape."""
    by = spec.get("by", results.plan.pair)
    return by if by != x else None


def counting(
    results: Results, cells: Sequence[Cell], runs: Sequence[int]
) -> tuple[set[tuple[str, int]], str]:
    """Cells and runs that count nowhere and are not to be shown, and what a caption says of them:
    of the run that is shown, or of several.
    """
    rows = results.runs
    rows = rows[rows["cell"].isin([c.name for c in cells]) & rows["run"].isin(list(runs))]
    bad = rows[rows["status"] != "ok"]
    gone = {(str(cell), int(run)) for cell, run in zip(bad["cell"], bad["run"], strict=True)}
    if not gone:
        return gone, ""
    if len(gone) == len(rows):
        which = f"run {runs[0]}" if len(runs) == 1 else "every run of those"
        raise LabError(f"{which} failed or is excluded, in every cell")
    one = len(runs) == 1
    named, more = sorted({cell for cell, _ in gone}), ""
    if len(named) > MOST:
        named, more = named[:MOST], f" and {len(named) - MOST} more"
    what = f"run {runs[0]} of" if one else f"{len(gone)} run{'s' if len(gone) > 1 else ''} of"
    return gone, f" Not shown, as failed or excluded: {what} {', '.join(named)}{more}."


def bars(results: Results, spec: dict[str, Any]) -> Made:
    """A metric over an axis, grouped by another, with intervals."""
    return _over(results, spec, lines=False)


def lines(results: Results, spec: dict[str, Any]) -> Made:
    """The same as bars, drawn as lines, which suits many points."""
    return _over(results, spec, lines=True)


@dataclass(frozen=True)
class Task:
    """What is drawn: a metric over the axis `x`, grouped by the levels `every` of the axis `by`."""

    results: Results
    words: Words
    metric: str
    x: str | None
    by: str | None
    every: Sequence[Label]
    lines: bool
    values: Mapping[Label, float]
    """Where levels of `x` stand along a scale of numbers; none where they are no numbers."""
    most: int
    """So many levels of `x` has the panel with most of them."""
    top: float = 0.0
    """The highest of the means."""
    step: float = 0.012
    """How far lines stand beside each other, by the length of the scale."""

    def placed(self, cells: Sequence[Cell]) -> dict[Label, float]:
        """Where the levels of these cells stand in their panel: at their values, the same in all
        panels, or side by side.
        """
        own = levels(cells, self.x)
        return {p: self.values[p] if self.values else float(n) for n, p in enumerate(own)}

    @property
    def looks(self) -> list[int]:
        """The number of each level's colour and shape."""
        return looks(self.results, self.by, self.every)

    def of(self, cells: Sequence[Cell], label: Label) -> list[Cell]:
        """The cells of a level of `by`."""
        return [c for c in cells if self.by is None or c.labels[self.by] == label]

    def interval(self, cell: Cell) -> stats.Interval:
        """The mean in a cell; without bounds where it is but the least that it can be."""
        found = self.results.interval(self.metric, cell)
        if not self.least(cell):
            return found
        return replace(found, low=math.nan, high=math.nan)

    def least(self, cell: Cell) -> bool:
        """Whether the mean in a cell is known, and the least that it can be."""
        known = math.isfinite(self.results.interval(self.metric, cell).estimate)
        return known and cutoff.least(self.results, cell, self.metric)

    @property
    def alone(self) -> bool:
        """Whether lines would be points, as there is one level of `x`: they stand side by side over
        their names.
        """
        return self.lines and len(self.values or "1") == 1 and self.most == 1 < len(self.every)

    def aside(self, places: Sequence[float], n: int) -> float:
        """How far the nth line stands beside the places of `x`."""
        count = len(self.every)
        return n - (count - 1) / 2 if self.alone else along.aside(places, n, count, self.step)

    def name(self, label: Label) -> str:
        """A level of `by` in a legend."""
        return self.words.apart(self.by, label)


def _over(results: Results, spec: dict[str, Any], lines: bool) -> Made:
    cells = chosen(results, spec)
    name = spec.get("metric", results.plan.metrics[0])
    x = spec.get("x") or (cells[0].labels and next(iter(cells[0].labels))) or None
    by = by_of(results, spec, x)
    words = Words(results, spec)
    parts, cells, rest = split(words, cells, [x, by])
    where, numeric = placed(levels(cells, x))
    values = where if lines and numeric else {}
    most = most_levels(parts, x)
    found = [results.interval(name, c) for c in cells]
    top = max((i.estimate for i in found if math.isfinite(i.estimate)), default=0.0)
    task = Task(
        results, words, name, x, by, levels(cells, by), lines, values, most, top, _step(len(parts))
    )
    figure, axes = page.panels(len(parts), share_x=same_levels(parts, x))
    handles: dict[str, Any] = {}
    ends: list[list[End]] = []
    marks: list[list[tuple[float, float]]] = []
    for axis, (title, members) in zip(axes, parts, strict=True):
        ends.append((_draw_lines if lines else _draw_bars)(task, axis, members, handles))
        marks.append(_published(task, axis, spec.get("published", {}), members, handles))
        style.entitle(axis, title)
        axis.set_xlabel(words.axis(x) if x else "")
        style.grid(axis)
    _along(task, axes, parts)
    log = spec.get("scale") == "log" and any(i.estimate > 0 for i in found)
    if log:
        for axis in axes:
            _log_scale(axis)
    elif np.nanmin([i.estimate for i in found] + [0.0]) >= 0:
        for axis in axes:
            axis.set_ylim(bottom=0)
        style.from_zero(axes)
        # What is at zero is not cut in half by the axis.
        for line in (line for axis in axes for line in axis.get_lines()):
            line.set_clip_on(line.get_marker() in ("None", "", None))
    page.align(axes, "y")
    without = lacking.of(results, cells, name)
    if lines:
        for axis, (_, members) in zip(axes, parts, strict=True):
            _absent(task, axis, members, without)
    for axis, points in zip(axes, marks, strict=True):
        _above(axis, points, 0.8 / len(task.every))
    style.label_rows(axes, words.scale(name))
    if task.alone:
        handles = {k: v for k, v in handles.items() if k == "published"}
        ends = []
    _name(figure, axes, ends, handles, len(task.every))
    told = f"{of_means(results, cells, name)}; {interval_words(results, cells, name)}"
    told += cut(found, log)
    if any(task.least(c) for c in cells):
        told += "; hollow, with ≥: the least that it can be"
    if lines and any(
        _missing(task, members, label) for _, members in parts for label in task.every
    ):
        told += "; lines are broken where cells were not run"
    if lines and task.values and len(task.every) > 1:
        told += "; values of one place stand beside each other around it"
    if task.alone:
        told += f"; there is one level of {words.axis(x or '')}, and nothing to join by lines"
    title = capital(words.metric(name)) + (f" over {words.axis(x)}" if x else "")
    return (
        figure,
        title,
        f"{capital(words.scale(name))}; {told}."
        f"{lacking.sentence(results, words, cells, without, name, by)}"
        f"{cut_off(results, cells, name)}{rest}",
    )


def _step(panels: int) -> float:
    """So much of a scale as a mark is wide, and a little."""
    if page.current().axes is not None:
        return Task.step
    beside = page.beside(panels, 3)
    return max(Task.step, 1.15 * style.mark() / (72 * (page.width(beside) / beside - 0.6)))


def _along(task: Task, axes: Sequence[Axes], parts: Sequence[tuple[str, list[Cell]]]) -> None:
    """The levels of each panel along its scale; scales of numbers have one range."""
    if task.alone:
        _side_by_side(task, axes, parts)
        return
    if task.values and not same_levels(parts, task.x):
        ends = sorted(task.values.values())
        room = 0.05 * (ends[-1] - ends[0]) - along.aside(ends, 0, len(task.every), task.step)
        for axis in axes:
            axis.set_xlim(ends[0] - room, ends[-1] + room)
    for axis, (_, members) in zip(axes, parts, strict=True):
        where = task.placed(members)
        ticks = sorted(where, key=lambda p: where[p])
        names = [task.words.level(task.x, p) for p in ticks]
        style.places(axis, [where[p] for p in ticks], names, bool(task.values))


def _side_by_side(
    task: Task, axes: Sequence[Axes], parts: Sequence[tuple[str, list[Cell]]]
) -> None:
    """The names of points that stand at one level of `x`."""
    for axis, (_, members) in zip(axes, parts, strict=True):
        (at,) = task.placed(members).values()
        shown = [(n, label) for n, label in enumerate(task.every) if task.of(members, label)]
        where = [at + task.aside([at], n) for n, _ in shown]
        axis.set_xlim(*centred(len(task.every), len(task.every), 0.3))
        axis.set_xlim(*(at + edge - (len(task.every) - 1) / 2 for edge in axis.get_xlim()))
        style.places(axis, where, [task.name(label) for _, label in shown])
        x, by = task.x or "", task.by or ""
        told = f"{task.words.axis(x)} {task.words.level(x, members[0].labels[x])}" if x else ""
        axis.set_xlabel(", ".join(filter(None, (task.words.axis(by), told))))


def _log_scale(axis: Axes) -> None:
    """Powers of ten; zeros, which such a scale has not, are hollow at its lower end."""
    style.logarithmic(axis)
    for line in list(axis.get_lines()):
        x, y = (np.asarray(values, dtype=float) for values in line.get_data())
        if not (y <= 0).any() or line.get_marker() in ("None", "", None):
            continue
        axis.plot(
            x[y <= 0], np.zeros((y <= 0).sum()), ls="", marker=line.get_marker(), mfc="white",
            mec=line.get_color(), markersize=line.get_markersize(), clip_on=False, zorder=4,
            transform=axis.get_xaxis_transform(),
        )  # fmt: skip


def _name(
    figure: Figure, axes: Sequence[Axes], ends: Sequence[list[End]], handles: dict[str, Any],
    every: int,
) -> None:  # fmt: skip
    """Names at the ends of lines if that tells them apart, in grey, too; else a legend."""
    # Names in colours that are used twice would not tell lines apart; a legend shows dashes too.
    apart = every <= len(style.COLOURS) and page.current().axes is None
    # Beside narrow panels they would take the room.
    narrow = page.current().columns is not None and page.beside(len(axes), 3) > 1
    if any(len(e) > 1 for e in ends) and apart and not narrow:
        # Names stand at the ends of the lines, which are where they are once all is laid out.
        figure.draw_without_rendering()
        pairs = list(zip(axes, ends, strict=True))
        if all(legends.have_room(axis, own) for axis, own in pairs):
            published = {k: v for k, v in handles.items() if k == "published"}
            legends.above(figure, list(published.values()), list(published))
            figure.draw_without_rendering()
            for axis, own in pairs:
                legends.end_labels(axis, own)
            return
    legends.above(figure, list(handles.values()), [k or "measured" for k in handles])


def capital(text: str) -> str:
    """A text as a sentence begins."""
    return text[:1].upper() + text[1:]


def _published(
    task: Task, axis: Axes, published: Mapping[str, Any], cells: list[Cell], handles: dict[str, Any]
) -> list[tuple[float, float]]:
    """Values of a paper beside ours: a table by label of x, or by label of `by` and then of x. Of a
    range that it gives, [low, high], both ends are marked, and a line joins them.
    """
    places = levels(cells, task.x)
    where = task.placed(cells)
    points: list[tuple[float, float]] = []
    for n, label in enumerate(task.every):
        before = len(points)
        values = published.get(str(label), {}) if task.by else published
        for i, place in enumerate(places):
            if not isinstance(values, Mapping) or str(place) not in values:
                continue
            # Beside the bar's own whisker.
            at = i + (n - (len(task.every) - 1) / 2 + BESIDE) * 0.8 / len(task.every)
            if task.lines:
                at = where[place] + (task.aside([at], n) if task.alone else 0.0)
            value = values[str(place)]
            ends = value if isinstance(value, list) else [value]
            points += [(at, float(v)) for v in ends]
            if len(ends) > 1:
                axis.plot([at, at], ends, color=style.INK, lw=1.4, zorder=4)
        if len(points) > before:
            # On bars they stand where these do; beside lines their edge says whose they are.
            edge = style.colour(task.looks[n])
            if not task.lines or len(task.every) < 2:
                edge = style.INK
            axis.plot(
                *zip(*points[before:], strict=True), "D", color="white", mec=edge, mew=1.4,
                ms=style.mark(), zorder=5, ls="",
            )  # fmt: skip
    if points:
        handles["published"] = Line2D(
            [], [], marker="D", color="white", mec=style.INK, mew=1.4, ms=style.mark(), ls=""
        )
    return points


BESIDE = 0.27
"""How far what was published stands beside the middle of a bar, in its widths."""


def _above(axis: Axes, marks: Sequence[tuple[float, float]], width: float) -> None:
    """The number on a bar stands above the marks of what was published, where they would meet."""
    bottom, top = axis.get_ylim()
    points = axis.get_position().height * float(page.root(axis).get_figheight()) * 72
    half = 0.8 * style.mark()  # of the diagonal
    for text in axis.texts:
        at, end = getattr(text, "xy", (np.nan, np.nan))
        above = [(y - end) / (top - bottom) * points for x, y in marks if abs(x - at) < width / 2]
        # From the lowest on, as each may lift the number to where the next one is.
        lifted = text.get_position()[1]
        for mark in sorted(above):
            if lifted - half - 1 < mark < lifted + style.small() + half:
                lifted = mark + half + 2
        text.set_position((0, lifted))


def _have_room(task: Task, axis: Axes, cells: Sequence[Cell], width: float) -> bool:
    """Whether numbers stand beside each other on bars so wide, in units of the scale."""
    inches = _inches(axis)
    scale = metric_of(task.metric).scale
    texts = [style.number(task.results.interval(task.metric, c).estimate / scale) for c in cells]
    least = any(map(task.least, cells))
    longest = max(map(len, texts), default=0) + (2.6 if least else 0.6)
    bar = width * inches / max(1, task.most)
    return bar * 72 >= longest * 0.64 * style.small()


def _inches(axis: Axes) -> float:
    return float(axis.get_position().width * float(page.root(axis).get_figwidth()))


def _draw_bars(task: Task, axis: Axes, cells: list[Cell], handles: dict[str, Any]) -> list[End]:
    scale = metric_of(task.metric).scale
    places = levels(cells, task.x)
    every = task.every
    width = 0.8 / len(every)
    told = _have_room(task, axis, cells, width)
    for n, (look, label) in enumerate(zip(task.looks, every, strict=True)):
        own = task.of(cells, label)
        handles.setdefault(task.name(label), style.patch(look))
        for cell in own:
            place = places.index(cell.labels[task.x]) if task.x else 0
            at = place + (n - (len(every) - 1) / 2) * width
            i = task.interval(cell)
            values = task.results.sample(task.metric, cell.labels).to_numpy(float)
            # Where all values are zero there is a number and no bar.
            nothing = bool(values.size) and not values.any()
            if np.isfinite(i.estimate) and not nothing:
                bar(axis, at, width, look, i, scale, task.least(cell))
            elif nothing and i.known:
                whiskers(axis, [at], [i], scale)
            low = style.unseen(axis, i.estimate, task.top)
            if told or nothing or low or task.least(cell) or not np.isfinite(i.estimate):
                text = style.number(i.estimate / scale) if np.isfinite(i.estimate) else lacking.NONE
                if task.least(cell):
                    text = f"≥ {text}" if told or low else "≥"
                points = 72 * width * _inches(axis) / max(1, task.most)
                upright = len(text) > 1 and not told and not lacking.fits(text, points)
                on_bar(axis, at, i, scale, text, upright)
    if told:
        axis.margins(y=0.12)
    axis.set_xlim(centred(len(places), task.most, 0.03 * task.most))
    axis.tick_params(axis="x", length=0)
    return []


def bar(
    axis: Axes, at: float, width: float, look: int, i: stats.Interval, scale: float,
    least: bool = False,
) -> None:  # fmt: skip
    """A mean as the bar of the level that looks so, with its interval; hollow if it is but the
    `least` that it can be.
    """
    face = style.hollow(look) if least else style.face(look)
    axis.bar(at, i.estimate / scale, width * 0.92, **face)
    if i.known:
        whiskers(axis, [at], [i], scale)


def on_bar(
    axis: Axes, at: float, i: stats.Interval, scale: float, text: str, upright: bool = False
) -> None:
    """What stands on a bar, or where there is none."""
    top = (i.high if i.known else i.estimate) / scale
    axis.annotate(
        text, (at, top if np.isfinite(top) else 0.0), xytext=(0, 4), textcoords="offset points",
        ha="center", fontsize=style.small(), color=style.INK, rotation=90 if upright else 0,
    )  # fmt: skip


def whiskers(
    axis: Axes, at: Sequence[float], found: Sequence[stats.Interval], scale: float
) -> None:
    """Intervals as bars of error."""
    middle = np.array([i.estimate for i in found]) / scale
    low = middle - np.array([i.low for i in found]) / scale
    high = np.array([i.high for i in found]) / scale - middle
    axis.errorbar(
        at, middle, yerr=[low, high], fmt="none", ecolor=style.INK, elinewidth=1.1, capsize=2.5
    )


def _draw_lines(task: Task, axis: Axes, cells: list[Cell], handles: dict[str, Any]) -> list[End]:
    scale = metric_of(task.metric).scale
    where, numeric = task.placed(cells), bool(task.values)
    beside = list((task.values or where).values())
    ends = []
    for n, (look, label) in enumerate(zip(task.looks, task.every, strict=True)):
        own = task.of(cells, label)
        if not own:
            continue
        if task.x is not None:
            own.sort(key=lambda c: where[c.labels[task.x or ""]])
        found = [task.interval(c) for c in own]
        aside = task.aside(beside, n)
        at = [where[c.labels[task.x] if task.x else ""] + aside for c in own]
        y = np.array([i.estimate for i in found]) / scale
        low = np.array([i.low if i.known else i.estimate for i in found]) / scale
        high = np.array([i.high if i.known else i.estimate for i in found]) / scale
        colour = style.colour(look)
        # No line goes through what was not run.
        gaps = [at.index(where[p] + aside) for p in _missing(task, cells, label)] if numeric else []
        (line,) = axis.plot(
            np.insert(at, gaps, np.nan), np.insert(y, gaps, np.nan), color=colour,
            marker=style.marker(look), markersize=style.mark(),
            linestyle=style.dash(look) if numeric else "none",
        )  # fmt: skip
        axis.errorbar(at, y, yerr=[y - low, high - y], fmt="none", ecolor=colour, capsize=2.5)
        handles.setdefault(task.name(label), line)
        for cell, x, i in zip(own, at, found, strict=True):
            if task.least(cell):
                axis.plot(
                    x, i.estimate / scale, color=colour, marker=style.marker(look), ls="",
                    markersize=style.mark(), mfc="white", zorder=line.get_zorder() + 0.1,
                )  # fmt: skip
                axis.annotate(
                    "≥", (x, i.estimate / scale), xytext=(0, style.mark() / 2 + 1),
                    textcoords="offset points", ha="center", fontsize=style.small(), color=colour,
                )  # fmt: skip
        # Beside the last of the lines, so that the names stand below each other.
        last = task.aside(beside, len(task.every) - 1) - aside
        if np.isfinite(y).any():
            final = int(np.flatnonzero(np.isfinite(y))[-1])
            ends.append((at[final] + last, float(y[final]), task.name(label), colour))
    return ends


def _absent(task: Task, axis: Axes, cells: list[Cell], without: Sequence[Cell]) -> None:
    """Where lines have no value: the hollow shape of each level that has none, and n/a; once alone
    where no level has one. They stand at that end of the panel which has more room.
    """
    where, beside = task.placed(cells), list((task.values or task.placed(cells)).values())
    taken: dict[float, list[int]] = {}
    marks: dict[float, list[float]] = {}
    for n, label in enumerate(task.every):
        for cell in task.of(cells, label):
            place = where[cell.labels[task.x] if task.x else ""]
            at = place + (task.aside(beside, n) if task.alone else 0.0)
            if cell in without:
                taken.setdefault(at, []).append(task.looks[n])
            else:
                y = task.interval(cell).estimate / metric_of(task.metric).scale
                up = axis.transData.transform((at, y))[1]
                marks.setdefault(at, []).append(
                    float(axis.transAxes.inverted().transform((0, up))[1])
                )
    for at, own in taken.items():
        there = marks.get(at, [])
        top = bool(there) and min(there) < 1 - max(there)
        lacking.stacked(axis, at, own if there else [], top)


def _missing(task: Task, cells: Sequence[Cell], label: Label) -> list[Label]:
    """Of a line in a panel of these cells: each place before which cells are missing that others
    have there, as the plan skips them.
    """
    if task.x is None or not task.values:
        return []
    own = {c.labels[task.x] for c in task.of(cells, label)}
    where = task.placed(cells)
    ordered = sorted(where, key=lambda p: where[p])
    found, before = [], [False]
    for place in ordered:
        if place in own and not before[-1] and any(before):
            found.append(place)
        before.append(place in own)
    return found
