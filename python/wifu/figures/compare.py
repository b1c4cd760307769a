"""Figures that compare cells: bars, lines, CDFs, fairness, goodput against delay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import matplotlib.colors as mcolors
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from scipy import stats as sps

from wifu import stats
from wifu.api import Results
from wifu.cells import Cell, Label
from wifu.errors import PlanError
from wifu.figures import style
from wifu.metrics import RUN_METRICS, column

Made = tuple[Figure, str, str]
Drawable = TypeVar("Drawable")
End = tuple[float, float, str, str]
"""Where a line ends, its name and colour."""


def split(cells: Sequence[Cell], names: Sequence[str | None]) -> list[tuple[str, list[Cell]]]:
    """Cells by what distinguishes them besides the axes `names`: the panels of a figure."""
    varied = {k for c in cells for k in c.labels if len({str(d.labels[k]) for d in cells}) > 1}
    groups: dict[str, list[Cell]] = {}
    titles: dict[str, str] = {}
    for cell in cells:
        rest = {k: v for k, v in cell.labels.items() if k in varied and k not in names}
        key = json.dumps(rest)
        groups.setdefault(key, []).append(cell)
        titles[key] = ", ".join(
            v if isinstance(v, str) and v[:1].isalpha() else f"{k} {v}" for k, v in rest.items()
        )
    return [(titles[k], v) for k, v in groups.items()]


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


def titles(cells: Sequence[Cell]) -> dict[str, str]:
    """What distinguishes each of these cells, by name."""
    return {c.name: title for title, members in split(cells, []) for c in members}


def _by(results: Results, spec: dict[str, Any], x: str | None) -> str | None:
    by = spec.get("by", results.plan.pair)
    return by if by != x else None


def _counts(results: Results, cells: Sequence[Cell]) -> str:
    have = results.ok["cell"].value_counts()
    n = sorted({int(have.get(c.name, 0)) for c in cells})
    if n == [1]:
        return "one run per cell"
    return f"n = {n[0]} runs per cell" if len(n) == 1 else f"n = {n[0]} to {n[-1]} runs per cell"


def _interval_words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    methods = {results.interval(metric, c).method for c in cells} - {"none"}
    if not methods:
        return "no interval (deterministic)" if results.plan.deterministic else "no interval"
    return f"whiskers: 95 % interval ({', '.join(sorted(methods))}){_stopped(results)}"


def _stopped(results: Results) -> str:
    until = results.plan.until
    return "" if until is None else ", narrower than nominal as runs ended once it was narrow"


def bars(results: Results, spec: dict[str, Any]) -> Made:
    """A metric over an axis, grouped by another, with intervals."""
    return _over(results, spec, _draw_bars)


def lines(results: Results, spec: dict[str, Any]) -> Made:
    """The same as bars, drawn as lines, which suits many points."""
    return _over(results, spec, _draw_lines)


def _over(results: Results, spec: dict[str, Any], drawer: Any) -> Made:
    cells = chosen(results, spec)
    name = spec.get("metric", results.plan.metrics[0])
    metric = RUN_METRICS[name]
    x = spec.get("x") or (cells[0].labels and next(iter(cells[0].labels))) or None
    by = _by(results, spec, x)
    parts = split(cells, [x, by])
    figure, axes = style.panels(len(parts))
    handles: dict[str, Any] = {}
    ends: list[list[End]] = []
    marks: list[list[tuple[float, float]]] = []
    for axis, (title, members) in zip(axes, parts, strict=True):
        ends.append(drawer(results, axis, members, name, x, by, levels(cells, by), handles))
        told = spec.get("published", {})
        marks.append(_published(axis, told, members, x, by, levels(cells, by), drawer, handles))
        axis.set_title(title, loc="left", color=style.MUTED)
        axis.set_xlabel(str(x) if x else "")
        style.grid(axis)
    if spec.get("scale") == "log":
        axes[0].set_yscale("log")
        axes[0].yaxis.set_major_formatter(lambda v, _: f"{v:g}")
    elif np.nanmin([results.interval(name, c).estimate for c in cells] + [0.0]) >= 0:
        axes[0].set_ylim(bottom=0)
        style.from_zero(axes)
    for axis, points in zip(axes, marks, strict=True):
        _above(axis, points)
    style.label_rows(axes, metric.axis())
    # Names in colours that are used twice would not tell lines apart; a legend shows dashes too.
    if any(len(e) > 1 for e in ends) and len(levels(cells, by)) <= len(style.COLOURS):
        # Names stand at the ends of the lines, which are where they are once all is laid out.
        handles = {k: v for k, v in handles.items() if k == "published"}
        style.legend(figure, list(handles.values()), list(handles))
        figure.canvas.draw()
        for axis, own in zip(axes, ends, strict=True):
            style.end_labels(axis, own)
    else:
        style.legend(figure, list(handles.values()), [k or "measured" for k in handles])
    words = f"{_counts(results, cells)}; {_interval_words(results, cells, name)}"
    label = metric.axis()
    title = f"{metric.label[0].upper()}{metric.label[1:]}" + (f" over {x}" if x else "")
    return figure, title, f"{_capital(label)}; {words}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _published(
    axis: Axes, published: Mapping[str, Any], cells: list[Cell], x: str | None, by: str | None,
    every: list[Label], drawer: Any, handles: dict[str, Any],
) -> list[tuple[float, float]]:  # fmt: skip
    """Values of a paper beside ours: a table by label of x, or by label of `by` and then of x."""
    places = levels(cells, x)
    numeric = all(isinstance(p, int | float) for p in places)
    points = []
    for n, label in enumerate(every):
        values = published.get(str(label), {}) if by else published
        for i, place in enumerate(places):
            if not isinstance(values, Mapping) or str(place) not in values:
                continue
            at = i + (n - (len(every) - 1) / 2) * 0.8 / len(every)
            if drawer is _draw_lines:
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


def _draw_bars(
    results: Results, axis: Axes, cells: list[Cell], name: str, x: str | None, by: str | None,
    every: list[Label], handles: dict[str, Any],
) -> list[End]:  # fmt: skip
    scale = RUN_METRICS[name].scale
    places = levels(cells, x)
    width = 0.8 / len(every)
    for n, label in enumerate(every):
        own = [c for c in cells if by is None or c.labels[by] == label]
        found = [results.interval(name, c) for c in own]
        at = [
            (places.index(c.labels[x]) if x else 0) + (n - (len(every) - 1) / 2) * width
            for c in own
        ]
        heights = [i.estimate / scale for i in found]
        colour = style.colour(n)
        drawn = axis.bar(
            at, heights, width * 0.92, color=colour, edgecolor="white", linewidth=0,
            hatch=style.hatch(n),
        )  # fmt: skip
        handles.setdefault(str(label), drawn)
        known = [(a, i) for a, i in zip(at, found, strict=True) if i.known]
        if known:
            _whiskers(axis, [a for a, _ in known], [i for _, i in known], scale)
        if len(places) * len(every) <= 16:
            for a, h, i in zip(at, heights, found, strict=True):
                top = i.high / scale if i.known else h
                if np.isfinite(h):
                    axis.annotate(
                        style.number(h), (a, top), xytext=(0, 2), textcoords="offset points",
                        ha="center", fontsize=8, color=style.INK,
                    )  # fmt: skip
    names = [str(p) for p in places]
    # Names that would run into each other are tilted.
    tilted = sum(map(len, names)) > 80 * axis.get_position().width
    axis.set_xticks(
        range(len(names)), names,
        rotation=35 if tilted else 0, ha="right" if tilted else "center",
    )  # fmt: skip
    axis.tick_params(axis="x", length=0)
    return []


def _whiskers(
    axis: Axes, at: Sequence[float], found: Sequence[stats.Interval], scale: float
) -> None:
    middle = np.array([i.estimate for i in found]) / scale
    low = middle - np.array([i.low for i in found]) / scale
    high = np.array([i.high for i in found]) / scale - middle
    axis.errorbar(
        at, middle, yerr=[low, high], fmt="none", ecolor=style.INK, elinewidth=1.1, capsize=2.5
    )


def _draw_lines(
    results: Results, axis: Axes, cells: list[Cell], name: str, x: str | None, by: str | None,
    every: list[Label], handles: dict[str, Any],
) -> list[End]:  # fmt: skip
    scale = RUN_METRICS[name].scale
    places = levels(cells, x)
    numeric = all(isinstance(p, int | float) for p in places)
    ends = []
    for n, label in enumerate(every):
        own = [c for c in cells if by is None or c.labels[by] == label]
        if not own:
            continue
        found = [results.interval(name, c) for c in own]
        at = [
            float(c.labels[x]) if numeric and x else float(places.index(c.labels[x or ""]))
            for c in own
        ]
        y = np.array([i.estimate for i in found]) / scale
        low = np.array([i.low if i.known else i.estimate for i in found]) / scale
        high = np.array([i.high if i.known else i.estimate for i in found]) / scale
        colour = style.colour(n)
        (line,) = axis.plot(
            at, y, marker=style.marker(n), markersize=5, color=colour,
            linestyle=style.dash(n),
        )  # fmt: skip
        axis.errorbar(at, y, yerr=[y - low, high - y], fmt="none", ecolor=colour, capsize=2.5)
        handles.setdefault(str(label), line)
        ends.append((at[-1], float(y[-1]), str(label), colour))
    ticks = [float(p) if numeric else float(i) for i, p in enumerate(places)]
    axis.set_xticks(ticks, [str(p) for p in places])
    return ends


UNLIKE = 4.0
"""Panels whose values differ by more than this have scales of their own."""


def cdf(results: Results, spec: dict[str, Any]) -> Made:
    """Empirical distribution: of the flows' goodput, or of a metric over runs."""
    cells = chosen(results, spec)
    by = _by(results, spec, None)
    name = spec.get("metric")
    parts = split(cells, [by])
    values = [x for _, m in parts if (x := _cdf_sample(results, m, name)).size]
    low = min((float(x.min()) for x in values), default=0.0)
    ends = [float(x.max()) for x in values]
    alike = not ends or max(ends) <= UNLIKE * min(ends)
    figure, axes = style.panels(len(parts), share_x=alike)
    every = levels(cells, by)
    handles: dict[str, Any] = {}
    total = 0
    for axis, (title, members) in zip(axes, parts, strict=True):
        for n, label in enumerate(every):
            own = [c for c in members if by is None or c.labels[by] == label]
            x = _cdf_sample(results, own, name)
            if x.size == 0:
                continue
            total += x.size
            steps = sps.ecdf(x).cdf
            (line,) = axis.plot(
                np.concatenate(([steps.quantiles[0]], steps.quantiles)),
                np.concatenate(([0.0], steps.probabilities)),
                drawstyle="steps-post",
                color=style.colour(n),
                linestyle=style.dash(n),
            )
            handles.setdefault(str(label), line)
        axis.set_title(title, loc="left", color=style.MUTED)
        axis.set_xlabel(RUN_METRICS[name].axis() if name else "goodput of a flow, Mb/s")
        axis.set_ylim(0, 1.02)
        axis.set_xlim(left=min(0.0, low))
        style.grid(axis, "both")
    style.label_rows(axes, "share of runs" if name else "share of flows")
    style.legend(figure, list(handles.values()), list(handles))
    what = f"{RUN_METRICS[name].label} of the runs" if name else "goodput of the flows"
    caption = f"Empirical distribution of the {what}; {total} values, {_counts(results, cells)}."
    return figure, f"Distribution of the {what}", caption


def _cdf_sample(results: Results, cells: Sequence[Cell], name: str | None) -> stats.Floats:
    names = [c.name for c in cells]
    if name:
        rows = results.ok[results.ok["cell"].isin(names)]
        return stats.clean(rows[column(name)].to_numpy(float)) / RUN_METRICS[name].scale
    rows = results.flows[results.flows["cell"].isin(names) & (results.flows["status"] == "ok")]
    return stats.clean(rows["goodput_bps"].to_numpy(float)) / 1e6


def fairness(results: Results, spec: dict[str, Any]) -> Made:
    """Jain's index of every run as a dot, the mean with its interval beside them."""
    cells = chosen(results, spec)
    x = spec.get("x") or next(iter(cells[0].labels))
    by = _by(results, spec, x)
    parts = split(cells, [x, by])
    figure, axes = style.panels(len(parts))
    every = levels(cells, by)
    handles: dict[str, Any] = {}
    rng = np.random.default_rng(1)
    for axis, (title, members) in zip(axes, parts, strict=True):
        places = levels(members, x)
        wide = max(4.0, min(13.0, 330.0 / (len(parts) * len(places) * len(every))))
        for n, label in enumerate(every):
            colour = style.colour(n)
            for cell in members:
                if by is not None and cell.labels[by] != label:
                    continue
                at = places.index(cell.labels[x]) + (n - (len(every) - 1) / 2) * 0.8 / len(every)
                y = results.sample("jain", cell.labels).to_numpy(float)
                noise = rng.uniform(-0.12, 0.12, y.size) / len(every)
                form = style.later_marker(n)
                handles.setdefault(
                    str(label), Line2D([], [], marker=form, ls="", color=colour, ms=4)
                )
                if y.size == 1:  # a mean would hide it
                    axis.plot(at, y[0], form, color=colour, markersize=6, zorder=3)
                    continue
                axis.scatter(
                    at + noise, y, s=11, color=colour, alpha=0.45, linewidths=0, marker=form
                )
                interval = results.interval("jain", cell)
                axis.plot(at, interval.estimate, "_", color=style.INK, markersize=wide, mew=2)
                if interval.known:
                    _whiskers(axis, [at], [interval], 1.0)
        axis.set_xticks(range(len(places)), [str(p) for p in places])
        axis.set_title(title, loc="left", color=style.MUTED)
        axis.set_xlabel(str(x))
        axis.axhline(1.0, color=style.MUTED, linewidth=0.8)
        style.grid(axis)
    low = np.nanmin([results.sample("jain", c.labels).min() for c in cells])
    bottom = max(0.0, 1.0 - 1.15 * (1.0 - float(low))) if low < 0.9995 else 0.99
    # No index is above 1; the rest is room for dots that are there.
    axes[0].set_ylim(bottom, 1.0 + 0.05 * (1.0 - bottom))
    style.label_rows(axes, "Jain's index (1: equal shares)")
    style.legend(figure, list(handles.values()), list(handles))
    words = _counts(results, cells)
    caption = "Jain's fairness index, a dot per run; bar: mean, whiskers: 95 % interval"
    caption += f"{_stopped(results)}. {words}."
    return figure, "Fairness among the flows", caption


def tradeoff(results: Results, spec: dict[str, Any]) -> Made:
    """A metric against another: an ellipse of one standard deviation around each mean."""
    cells = chosen(results, spec)
    by = _by(results, spec, None)
    name, other = spec.get("metric", "aggregate"), spec.get("against", "srtt")
    up, right = RUN_METRICS[name], RUN_METRICS[other]
    parts = split(cells, [by])
    figure, axes = style.panels(len(parts), share=False)
    every = levels(cells, by)
    for axis, (title, members) in zip(axes, parts, strict=True):
        ends = []
        for n, label in enumerate(every):
            colour = style.colour(n)
            for cell in (c for c in members if by is None or c.labels[by] == label):
                x = results.sample(other, cell.labels).to_numpy(float) / right.scale
                y = results.sample(name, cell.labels).to_numpy(float) / up.scale
                both = np.isfinite(x) & np.isfinite(y)
                x, y = x[both], y[both]
                if x.size == 0:
                    continue
                if x.size > 2:
                    axis.add_patch(_ellipse(x, y, colour))
                axis.scatter(x, y, s=7, color=colour, alpha=0.35, linewidths=0)
                marker = style.marker(n)
                axis.plot(x.mean(), y.mean(), marker, color=colour, markersize=7, mec="white")
                ends.append((float(x.mean()), float(y.mean()), str(label), colour))
        axis.set_title(title, loc="left", color=style.MUTED)
        axis.set_xlabel(right.axis())
        axis.autoscale_view()
        axis.margins(x=0.12, y=0.12)
        _begin_at_zero(axis)
        style.grid(axis, "both")
        axis.figure.canvas.draw()
        style.end_labels(axis, ends)
    style.label_rows(axes, up.axis())
    towards = ("upper" if up.better == "more" else "lower") + (
        " left" if right.better == "less" else " right"
    )
    caption = (
        f"{_capital(up.axis())} against {right.axis()}: a dot per run, the mean, and an ellipse of "
        f"one standard deviation. Better is {towards}. {_counts(results, cells)}."
    )
    return figure, f"{up.label[0].upper()}{up.label[1:]} against {right.label}", caption


def _begin_at_zero(axis: Axes) -> None:
    """Show no values below 0 where none were measured: an ellipse may reach there."""
    if not axis.collections:
        return
    dots = np.concatenate([np.asarray(c.get_offsets()) for c in axis.collections])
    if dots[:, 0].min() >= 0:
        axis.set_xlim(left=max(0.0, axis.get_xlim()[0]))
    if dots[:, 1].min() >= 0:
        axis.set_ylim(bottom=max(0.0, axis.get_ylim()[0]))


def _ellipse(x: stats.Floats, y: stats.Floats, colour: str) -> Ellipse:
    values, vectors = np.linalg.eigh(np.cov(x, y))
    width, height = 2 * np.sqrt(np.maximum(values[::-1], 0.0))
    angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
    return Ellipse(
        (float(x.mean()), float(y.mean())),
        float(width),
        float(height),
        angle=angle,
        facecolor=mcolors.to_rgba(colour, 0.16),
        edgecolor=colour,
        linewidth=1.2,
    )
