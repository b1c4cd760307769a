"""Figures that compare cells over an axis: bars and lines, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wifu import stats
from wifu.api import Results
from wifu.cells import Cell, Label
from wifu.errors import PlanError
from wifu.figures import page, style
from wifu.figures.words import Words
from wifu.metrics import RUN_METRICS

Made = tuple[Figure, str, str]
Drawable = TypeVar("Drawable")
End = tuple[float, float, str, str]
"""Where a line ends, its name and colour."""


def levels(cells: Sequence[Cell], name: str | None) -> list[Label]:
    """The labels that cells have on an axis, in the plan's order."""
    if name is None:
        return [""]
    return list(dict.fromkeys(c.labels[name] for c in cells))


def chosen(results: Results, spec: dict[str, Any]) -> list[Cell]:
    """The cells that a figure shows."""
    cells = results.cells(spec.get("where"))
    if not cells:
        raise PlanError("no cell fits `where`", "figure")
    return cells


def first(found: Sequence[Drawable], most: int) -> tuple[Sequence[Drawable], str]:
    """What fits a figure of one panel per cell, and what its caption says of the others."""
    if len(found) <= most:
        return found, ""
    return found[:most], f" The first {most} of {len(found)} cells; choose with `where`."


def by_of(results: Results, spec: dict[str, Any], x: str | None) -> str | None:
    """The axis whose levels a figure tells apart by colour and shape."""
    by = spec.get("by", results.plan.pair)
    return by if by != x else None


def counts(results: Results, cells: Sequence[Cell]) -> str:
    """How many runs these cells have, in words."""
    have = results.ok["cell"].value_counts()
    n = sorted({int(have.get(c.name, 0)) for c in cells})
    if n == [1]:
        return "one run per cell"
    return f"n = {n[0]} runs per cell" if len(n) == 1 else f"n = {n[0]} to {n[-1]} runs per cell"


def _interval_words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    methods = {results.interval(metric, c).method for c in cells} - {"none"}
    if not methods:
        return "no interval (deterministic)" if results.plan.deterministic else "no interval"
    return f"whiskers: 95 % interval ({', '.join(sorted(methods))}){stopped(results)}"


def stopped(results: Results) -> str:
    """What is to be said of intervals if the plan has `until`."""
    until = results.plan.until
    return "" if until is None else ", narrower than nominal as runs ended once it was narrow"


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

    def of(self, cells: Sequence[Cell], label: Label) -> list[Cell]:
        """The cells of a level of `by`."""
        return [c for c in cells if self.by is None or c.labels[self.by] == label]

    def name(self, label: Label) -> str:
        """A level of `by` in a legend."""
        return self.words.apart(self.by, label)


def _over(results: Results, spec: dict[str, Any], lines: bool) -> Made:
    cells = chosen(results, spec)
    name = spec.get("metric", results.plan.metrics[0])
    x = spec.get("x") or (cells[0].labels and next(iter(cells[0].labels))) or None
    by = by_of(results, spec, x)
    words = Words(results, spec)
    task = Task(results, words, name, x, by, levels(cells, by), lines)
    parts = words.split(cells, [x, by])
    figure, axes = page.panels(len(parts))
    handles: dict[str, Any] = {}
    ends: list[list[End]] = []
    marks: list[list[tuple[float, float]]] = []
    for axis, (title, members) in zip(axes, parts, strict=True):
        ends.append((_draw_lines if lines else _draw_bars)(task, axis, members, handles))
        marks.append(_published(task, axis, spec.get("published", {}), members, handles))
        style.entitle(axis, title)
        axis.set_xlabel(words.axis(x) if x else "")
        style.grid(axis)
    if spec.get("scale") == "log":
        for axis in axes:
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
    elif np.nanmin([results.interval(name, c).estimate for c in cells] + [0.0]) >= 0:
        for axis in axes:
            axis.set_ylim(bottom=0)
        style.from_zero(axes)
    page.align(axes, "y")
    for axis, points in zip(axes, marks, strict=True):
        _above(axis, points)
    style.label_rows(axes, words.scale(name))
    _name(figure, axes, ends, handles, len(task.every))
    told = f"{counts(results, cells)}; {_interval_words(results, cells, name)}"
    title = capital(words.metric(name)) + (f" over {words.axis(x)}" if x else "")
    return figure, title, f"{capital(words.scale(name))}; {told}."


def _name(
    figure: Figure, axes: Sequence[Axes], ends: Sequence[list[End]], handles: dict[str, Any],
    every: int,
) -> None:  # fmt: skip
    """Names at the ends of lines if that tells them apart, else a legend."""
    # Names in colours that are used twice would not tell lines apart; a legend shows dashes too.
    apart = every <= len(style.COLOURS) and page.current().axes is None
    # Beside narrow panels they would take the room.
    narrow = page.current().columns is not None and page.beside(len(axes), 3) > 1
    if any(len(e) > 1 for e in ends) and apart and not narrow:
        # Names stand at the ends of the lines, which are where they are once all is laid out.
        published = {k: v for k, v in handles.items() if k == "published"}
        style.legend(figure, list(published.values()), list(published))
        figure.draw_without_rendering()
        for axis, own in zip(axes, ends, strict=True):
            style.end_labels(axis, own)
    else:
        style.legend(figure, list(handles.values()), [k or "measured" for k in handles])


def capital(text: str) -> str:
    """A text as a sentence begins."""
    return text[:1].upper() + text[1:]


def _published(
    task: Task, axis: Axes, published: Mapping[str, Any], cells: list[Cell], handles: dict[str, Any]
) -> list[tuple[float, float]]:
    """Values of a paper beside ours: a table by label of x, or by label of `by` and then of x."""
    places = levels(cells, task.x)
    numeric = all(isinstance(p, int | float) for p in places)
    points = []
    for n, label in enumerate(task.every):
        values = published.get(str(label), {}) if task.by else published
        for i, place in enumerate(places):
            if not isinstance(values, Mapping) or str(place) not in values:
                continue
            at = i + (n - (len(task.every) - 1) / 2) * 0.8 / len(task.every)
            if task.lines:
                at = float(place) if numeric else float(i)
            points.append((at, float(values[str(place)])))
    if points:
        (drawn,) = axis.plot(
            *zip(*points, strict=True), "D", color="white", mec=style.INK, mew=1.4, ms=5.5,
            zorder=5, ls="",
        )  # fmt: skip
        handles.setdefault("published", drawn)
    return points


def _above(axis: Axes, marks: Sequence[tuple[float, float]]) -> None:
    """The number on a bar stands above the mark of what was published, where they would meet."""
    bottom, top = axis.get_ylim()
    for text in axis.texts:
        at, end = getattr(text, "xy", (np.nan, np.nan))
        if any(abs(x - at) < 0.01 and -0.03 < (y - end) / (top - bottom) < 0.06 for x, y in marks):
            text.set_position((0, 8))


NARROW = 0.3
"""Inches of a bar that its number needs beside others."""


def _draw_bars(task: Task, axis: Axes, cells: list[Cell], handles: dict[str, Any]) -> list[End]:
    scale = RUN_METRICS[task.metric].scale
    places = levels(cells, task.x)
    every = task.every
    width = 0.8 / len(every)
    inches = axis.get_position().width * float(page.root(axis).get_figwidth())
    told = inches / max(1, len(places) * len(every)) >= NARROW * style.small() / 8.5
    for n, label in enumerate(every):
        own = task.of(cells, label)
        handles.setdefault(task.name(label), style.patch(n))
        for cell in own:
            place = places.index(cell.labels[task.x]) if task.x else 0
            at = place + (n - (len(every) - 1) / 2) * width
            i = task.results.interval(task.metric, cell)
            values = task.results.sample(task.metric, cell.labels).to_numpy(float)
            height, top = i.estimate / scale, (i.high if i.known else i.estimate) / scale
            # Where all values are zero there is a number and no bar.
            nothing = bool(values.size) and not values.any()
            if np.isfinite(height) and not nothing:
                axis.bar(
                    at, height, width * 0.92, color=style.colour(n), edgecolor="white",
                    linewidth=0, hatch=style.hatch(n),
                )  # fmt: skip
                if i.known:
                    whiskers(axis, [at], [i], scale)
            if told or nothing or not np.isfinite(height):
                text = style.number(height) if np.isfinite(height) else "n/a"
                axis.annotate(
                    text, (at, top if np.isfinite(top) else 0.0), xytext=(0, 4),
                    textcoords="offset points", ha="center", fontsize=style.small(),
                    color=style.INK,
                )  # fmt: skip
    if told:
        axis.margins(y=0.12)
    names = [task.words.level(task.x, p) for p in places]
    # Names that would run into each other are tilted.
    tilted = sum(map(len, names)) > 11.0 * inches
    axis.set_xticks(
        range(len(names)), names,
        rotation=35 if tilted else 0, ha="right" if tilted else "center",
    )  # fmt: skip
    axis.set_xlim(-0.5 - 0.03 * len(places), len(places) - 0.5 + 0.03 * len(places))
    axis.tick_params(axis="x", length=0)
    return []


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
    scale = RUN_METRICS[task.metric].scale
    places = levels(cells, task.x)
    numeric = all(isinstance(p, int | float) for p in places)
    ends = []
    for n, label in enumerate(task.every):
        own = task.of(cells, label)
        if not own:
            continue
        found = [task.results.interval(task.metric, c) for c in own]
        here = [c.labels[task.x] if task.x else "" for c in own]
        at = [float(p) if numeric else float(places.index(p)) for p in here]
        y = np.array([i.estimate for i in found]) / scale
        low = np.array([i.low if i.known else i.estimate for i in found]) / scale
        high = np.array([i.high if i.known else i.estimate for i in found]) / scale
        colour = style.colour(n)
        (line,) = axis.plot(
            at, y, marker=style.marker(n), markersize=style.mark(), color=colour,
            linestyle=style.dash(n),
        )  # fmt: skip
        axis.errorbar(at, y, yerr=[y - low, high - y], fmt="none", ecolor=colour, capsize=2.5)
        handles.setdefault(task.name(label), line)
        ends.append((at[-1], float(y[-1]), task.name(label), colour))
    ticks = [float(p) if numeric else float(i) for i, p in enumerate(places)]
    axis.set_xticks(ticks, [task.words.level(task.x, p) for p in places])
    return ends
