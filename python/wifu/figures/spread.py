"""Figures of how runs are spread: CDFs, goodput against delay."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

import matplotlib.colors as mcolors
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from numpy.typing import NDArray

from wifu import across, cutoff, stats, unlike
from wifu.api import Results
from wifu.cautions import MOST, carriers, notes
from wifu.cells import Cell, Label
from wifu.digits import with_unit
from wifu.errors import LabError
from wifu.figures import bands, lacking, legends, page, style
from wifu.figures.compare import (
    Made,
    by_of,
    capital,
    chosen,
    counted,
    counts,
    cut_off,
    levels,
    looks,
    split,
)
from wifu.figures.sayings import all_bad
from wifu.figures.words import Words
from wifu.metrics import metric_of
from wifu.rows import compared
from wifu.stamps import first

UNLIKE = 4.0
"""Panels whose values differ by more than this have scales of their own."""

OWN = " The panels have scales of their own."
"""What a caption says of panels that cannot be compared by eye."""

HOLLOW = " (with hollow shapes)"
"""How a caption calls the edge of one of several bands."""

SQUEEZED = 0.1
"""Of a panel that takes less of the range that all have, the caption says so."""


def _shared(spec: dict[str, Any], ends: Sequence[float]) -> bool:
    """Whether panels whose greatest values are these have one scale."""
    told = spec.get("scales")
    return told == "shared" or (told is None and (not ends or max(ends) <= UNLIKE * min(ends)))


def _range_words(titles: Sequence[str], ends: Sequence[float], shared: bool) -> str:
    """What a caption says of the scales of panels; `ends` are the greatest values in each."""
    if not shared:
        return OWN
    if len(titles) < 2:
        return ""
    told = " The panels have one range."
    most = max(ends, default=0.0)
    for title, end in zip(titles, ends, strict=False):
        if 0 <= end < SQUEEZED * most:
            share = max(1, math.ceil(100 * end / most))
            told += f' All of {title} is in the first {share} % of it: scales = "own" shows it.'
    return told


def _said(title: str, own: bool) -> str:
    """The title of a panel; it says that the scale is its own, which is easily overlooked."""
    return f"{title} (own\N{NO-BREAK SPACE}scale)" if own else title


def cdf(results: Results, spec: dict[str, Any]) -> Made:
    """Empirical distribution: of the flows' goodput, or of a metric over runs."""
    cells, by = chosen(results, spec), by_of(results, spec, None)
    name, pool = spec.get("metric"), spec.get("pool", [])
    words = Words(results, spec)
    parts, cells, rest = split(words, cells, [by, *pool])
    samples = [_cdf_sample(results, members, name) for _, members in parts]
    if not any(x.size for x in samples) and not bands.longer(results, cells, name):
        raise LabError(all_bad(results, cells) or f"no run has a value of {name or 'goodput'}")
    # What is known of the others is the least that they can be.
    rooms = [
        np.concatenate([x, bands.least(results, members, name)])
        for x, (_, members) in zip(samples, parts, strict=True)
    ]
    shared = _shared(spec, [float(x.max()) for x in rooms if x.size])
    figure, axes = page.panels(len(parts), share_x=shared)
    every = levels(cells, by)
    looking = looks(results, by, every)
    handles: dict[str, Any] = {}
    bare: dict[str, list[Cell]] = {}
    beyond: list[stats.Floats] = []
    behind: list[list[bands.Band]] = []
    for axis, (title, members), whole in zip(axes, parts, rooms, strict=True):
        behind.append([])
        for n, (look, label) in enumerate(zip(looking, every, strict=True)):
            own = [c for c in members if by is None or c.labels[by] == label]
            x = _cdf_sample(results, own, name)
            behind[-1].append(bands.Band(x, bands.least(results, own, name), look, n))
            if x.size == 0:
                if own:
                    bare.setdefault(words.apart(by, label), []).extend(own)
                continue
            # Of the others only the least is known: the band tells it.
            known = x.size / (x.size + bands.longer(results, own, name))
            across, up, marks = style.distribution(x, n, len(every), known)
            if marks:
                marks |= style.shape(look)
            (line,) = axis.plot(
                across, up, color=style.colour(look), linestyle=style.dash(look), **marks
            )
            handles.setdefault(words.apart(by, label), line)
        marked = _marks(axis, spec.get("published", {}), every if by else [None], handles, looking)
        style.entitle(axis, _said(title, not shared))
        axis.set_xlabel(words.scale(name) if name else _of_flows(words))
        axis.set_ylim(0, 1.02)
        if not shared and whole.size:
            _room(axis, [whole, marked])
        beyond.append(marked)
        style.grid(axis, "both")
    several = bands.draw(axes, behind, len(every), [*rooms, *beyond])
    _bare_names(results, words, (by, every, looking), (handles, bare, name or "", several))
    if shared and any(x.size for x in rooms):
        # Only now: a limit that is set while panels are drawn would be that of the first of them.
        for axis in axes:
            _room(axis, [x for x in (*rooms, *beyond) if x.size])
    style.label_rows(axes, "share of runs" if name else "share of flows")
    legends.above(figure, list(handles.values()), list(handles))
    what = f"{words.metric(name)} of the runs" if name else "goodput of the flows"
    total, told = sum(x.size for x in samples), _values(results, cells, name)
    caption = f"Empirical distribution of the {what}; {total} values, {told}."
    without = [c for c in cells if not _cdf_sample(results, [c], name).size]
    caption += _pooled(parts, words, (by, pool), _empty(results, without, name))
    caption += _published_words(spec.get("published", {}), words, by)
    if len(parts) == 1:
        caption += _middles(results, cells, name, (words, by, every))
    caption += lacking.sentence(results, words, cells, without, name or "", by)
    caption += _unknown(results, cells, name, several)
    ends = [float(x.max()) if x.size else 0.0 for x in rooms]
    caption += _range_words([title for title, _ in parts], ends, shared)
    return figure, f"Distribution of the {what}", caption + rest


def _bare_names(
    results: Results, words: Words, of: tuple[str | None, Sequence[Label], Sequence[int]],
    found: tuple[dict[str, Any], Mapping[str, list[Cell]], str, bool],
) -> None:  # fmt: skip
    """Name levels without a curve, which are not to be missed, behind those that have `handles`;
    with hollow shapes where `several` bands have them.
    """
    by, every, looking = of
    handles, bare, name, several = found
    for look, named in zip(looking, (words.apart(by, label) for label in every), strict=True):
        if named in bare and named not in handles:
            line = Line2D([], [], color=style.colour(look), linestyle=style.dash(look))
            if several and bands.longer(results, bare[named], name):
                line.set(**bands.hollow(look))
            handles[f"{named} ({cutoff.absent(results, bare[named], name or '')})"] = line


def _unknown(results: Results, cells: Sequence[Cell], name: str | None, several: bool) -> str:
    """What a caption says of runs of which the least alone is known, or else of the metric."""
    if not (longer := bands.longer(results, cells, name)):
        return cut_off(results, cells, name or "goodput")
    why = "transfers were cut off by the end of the run"
    if cutoff.failures(results, cells, name or ""):
        why += " or failed"
    told = (
        f" Of {longer} runs only the least that they can be is known, as {why}. Lines are of "
        "the others, as shares of all: there curves end below 1. The shares of all runs lie in "
        f"the band, whose upper edge{HOLLOW if several else ''} has each of these at its least."
    )
    return told + "".join(f" {t}" for t in _beside(results, cells, name or ""))


def _beside(results: Results, cells: Sequence[Cell], name: str) -> list[str]:
    """What a metric is and what is not to be concluded, where cut-off runs are told already."""
    return [told for told in (metric_of(name).about, *notes(results, cells, name)) if told]


def _empty(results: Results, without: Sequence[Cell], name: str | None) -> set[str]:
    """Those of the cells without a value that are in no curve and no band either, by name."""
    return {c.name for c in without if not bands.longer(results, [c], name)}


def _pooled(
    parts: Sequence[tuple[str, list[Cell]]], words: Words, of: tuple[str | None, Sequence[str]],
    empty: Container[str],
) -> str:  # fmt: skip
    """What a caption says of what curves pool, and of those that are not of the same levels of it,
    as some were not run or are `empty`, or go with one level alone.
    """
    by, pool = of
    if not pool:
        return ""
    together = f" All of {' and '.join(words.axis(axis) for axis in pool)} together."
    found: dict[str, tuple[str, ...]] = {}
    for title, members in parts:
        there = [c for c in members if c.name not in empty]
        for label in levels(there, by):
            own = [c for c in there if by is None or c.labels[by] == label]
            each = (" and ".join(words.apart(k, c.labels[k]) for k in pool) for c in own)
            curve = ", ".join(t for t in (title, words.apart(by, label)) if t)
            found[curve] = tuple(dict.fromkeys(each))
    if len({frozenset(own) for own in found.values()}) < 2:
        return together
    told = [f"{curve}: {first(own, MOST)}" for curve, own in found.items()]
    more = f"; and {len(told) - MOST} more" if len(told) > MOST else ""
    return f"{together} These are not the same for all curves: {'; '.join(told[:MOST])}{more}."


def _marks(
    axis: Axes, published: Mapping[str, Any], every: Sequence[Label | None],
    handles: dict[str, Any], looking: Sequence[int],
) -> stats.Floats:  # fmt: skip
    """What a paper says of the distribution: by label of `by`, what share is below which value. A
    mark is edged in the colour of its curve. Returns the values.
    """
    marked: list[float] = []
    for look, label in zip(looking, every, strict=True):
        table = published if label is None else published.get(str(label), {})
        if table:
            axis.plot(
                [float(v) for v in table.values()], [float(share) for share in table], "D",
                color="white", mec=style.colour(look), mew=1.8, ms=6, zorder=5, ls="",
            )  # fmt: skip
            handles["published"] = Line2D(
                [], [], marker="D", color="white", mec=style.INK, mew=1.4, ms=5.5, ls=""
            )
            marked += [float(v) for v in table.values()]
    return np.asarray(marked, dtype=np.float64)


def _published_words(published: Mapping[str, Any], words: Words, by: str | None) -> str:
    """The marks of what was published in words, which tell in grey whose they are."""
    said = []
    for label, table in published.items() if by is not None else [("", published)]:
        points = ", ".join(f"{share} below {value:g}" for share, value in table.items())
        said.append(f"{words.apart(by, label)} {points}".strip())
    return f" Published: {'; '.join(said)}." if any(said) else ""


def _middles(
    results: Results, cells: Sequence[Cell], name: str | None,
    told: tuple[Words, str | None, Sequence[Label]],
) -> str:  # fmt: skip
    """Mean and median of each curve in words, but of curves that end below 1."""
    words, by, every = told
    unit = metric_of(name or "goodput").unit
    said = []
    for label in every:
        own = [c for c in cells if by is None or c.labels[by] == label]
        x = _cdf_sample(results, own, name)
        if x.size and not bands.longer(results, own, name):
            numbers = f"{style.number(float(x.mean()))} and {style.number(float(np.median(x)))}"
            said.append(f"{words.apart(by, label)} {numbers}".strip())
    return f" Mean and median, {unit}: {'; '.join(said)}." if said else ""


def _of_flows(words: Words) -> str:
    return with_unit(words.quantity("goodput", "goodput of a flow"), "Mb/s")


def _room(axis: Axes, samples: Sequence[stats.Floats]) -> None:
    """A range from 0, or from what is less, to beyond the greatest value."""
    every = np.concatenate(list(samples))
    low, high = min(0.0, float(every.min())), float(every.max())
    axis.set_xlim(low, high + 0.04 * (high - low) if high > low else low + 1.0)


def _cdf_sample(results: Results, cells: Sequence[Cell], name: str | None) -> stats.Floats:
    names = [c.name for c in cells]
    if "flow" not in results.flows or not cells:  # no run came out, or no cell is of this level
        return stats.clean(())
    if name:
        parts = []
        for cell in cells:
            sample = results.sample(name, cell.labels).droplevel("cell")
            if cutoff.of_finished(name):
                sample = sample[~sample.index.isin(list(cutoff.runs(results, cell, name)))]
            parts.append(sample.to_numpy(float))
        return stats.clean(np.concatenate(parts)) / metric_of(name).scale
    rows = results.flows[results.flows["cell"].isin(names) & (results.flows["status"] == "ok")]
    rows = carriers(rows) if len(rows) else rows
    return stats.clean(rows["goodput_bps"].to_numpy(float)) / 1e6


def _values(results: Results, cells: Sequence[Cell], name: str | None) -> str:
    """Of how many runs the values of curves are, in words."""
    if name is None:
        return counts(results, cells)
    sizes = [_cdf_sample(results, [c], name).size for c in cells]
    least = [bands.longer(results, [c], name) for c in cells]
    have = results.ok["cell"].value_counts()
    all_told = all(
        size + more == int(have.get(c.name, 0))
        for c, size, more in zip(cells, sizes, least, strict=True)
    )
    lack = "were cut off" if any(least) else "have no value"
    if any(least) and not all_told:
        lack += " or have no value"
    return counted(results, cells, sizes, lack)


def tradeoff(results: Results, spec: dict[str, Any]) -> Made:
    """A metric against another: an ellipse of one standard deviation around each mean."""
    cells = chosen(results, spec)
    by = by_of(results, spec, None)
    name, other = spec.get("metric", "aggregate"), spec.get("against", "srtt")
    up, right = metric_of(name), metric_of(other)
    words = Words(results, spec)
    parts, cells, rest = split(words, cells, [by])
    clouds = [[_cloud(results, c, name, other) for c in members] for _, members in parts]
    without = [
        c
        for (_, members), panel in zip(parts, clouds, strict=True)
        for c, cloud in zip(members, panel, strict=True)
        if not len(cloud)
    ]
    tops = [
        np.max([p for c in panel for p in c], axis=0) for panel in clouds if any(map(len, panel))
    ]
    shared = all(_shared(spec, [float(top[k]) for top in tops]) for k in (0, 1))
    figure, axes = page.panels(len(parts), share=shared)
    every = levels(cells, by)
    looking = looks(results, by, every)
    handles: dict[str, Any] = {}
    for axis, (title, members), panel in zip(axes, parts, clouds, strict=True):
        for cell, cloud in zip(members, panel, strict=True):
            n = every.index(cell.labels[by]) if by is not None else 0
            if not len(cloud):
                continue
            least = [m for m in (name, other) if cutoff.least(results, cell, m)]
            cut = _cut(results, cell, (name, other)) if least else None
            drawn = _spot(axis, cloud[:, 0], cloud[:, 1], looking[n], cut)
            if least:
                _beyond(axis, cloud.mean(axis=0), other in least, name in least)
            handles.setdefault(words.apart(by, every[n]), drawn)
        if not any(map(len, panel)):
            lacking.empty(axis)
        style.entitle(axis, _said(title, not shared))
        axis.set_xlabel(words.scale(other))
        axis.autoscale_view()
        axis.margins(x=0.12, y=0.12)
        style.grid(axis, "both")
    for axis in axes:
        axis.autoscale_view()
    if shared:
        page.align(axes, "x")
        page.align(axes, "y")
    ended = [_begin_at_zero(axes if shared else [axis]) for axis in axes]
    style.label_rows(axes, words.scale(name))
    if len(levels(results.plan.cells, by)) > 1:
        # Where one level alone is shown, its name tells that others are not.
        _legend(figure, [words.apart(by, label) for label in every], handles, looking)
    larger = [_uncover(axis) for axis in axes]
    towards = ("upper" if up.better == "more" else "lower") + (
        " left" if right.better == "less" else " right"
    )
    sizes = [len(cloud) for panel in clouds for cloud in panel]
    number = counted(results, cells, sizes, "lack one of the two values")
    better = _better(results, cells, (name, other), by, towards)
    caption = (
        f"{capital(words.scale(name))} against {words.scale(other)}: {_spots(axes)}. {better}; "
        f"{number}.{lacking.sentence(results, words, cells, without, '', by)}"
        f"{_range_words([title for title, _ in parts], [], shared)}"
        f"{_beginnings(axes, words, (other, name), any(ended))}{rest}"
    )
    if any(larger):
        caption += " Means that others lie on are larger, so that they are seen."
    caption += _hollow(results, cells, (name, other))
    caption += cut_off(results, cells, name, other)
    return figure, f"{capital(words.metric(name))} against {words.metric(other)}", caption


def _legend(
    figure: Figure, names: Sequence[str], handles: Mapping[str, Line2D], looking: Sequence[int]
) -> None:
    """The levels, also those that have no value."""
    shown = [k if k in handles else f"{k} (no value)" for k in names]
    drawn = [
        handles.get(k)
        or Line2D([], [], marker=style.marker(look), ls="", color=style.colour(look), mfc="none")
        for k, look in zip(names, looking, strict=True)
    ]
    legends.above(figure, drawn, shown, least=1)


def _hollow(results: Results, cells: Sequence[Cell], names: tuple[str, str]) -> str:
    """What a caption says of hollow dots and means."""
    if not any(cutoff.least(results, c, m) for c in cells for m in names):
        return ""
    told = ""
    if any(_cut(results, c, names).any() for c in cells):
        told = " Hollow dots are runs in which some transfers were cut off or failed, at the least "
        told += "that they can be."
    return told + (
        " A hollow mean is the least that it can be, with arrows to where it may lie, and has "
        "no ellipse."
    )


def _spots(axes: Sequence[Axes]) -> str:
    """What is drawn of each cell: ellipses only where a cell has more than two runs."""
    if any(isinstance(p, Ellipse) for axis in axes for p in axis.patches):
        return "a dot per run, the mean, and an ellipse of one standard deviation"
    return "a dot per run, and the mean"


def _better(
    results: Results, cells: Sequence[Cell], by: tuple[str, str], axis: str | None, towards: str
) -> str:
    """Where in the plane something is better, if cells are to be compared by both metrics: along
    `pair`, and along the axis that tells them apart.
    """
    groups = compared(results, cells)
    groups = [*groups, *(across.beside(cells, axis) if axis else [])]
    found = (why for m in by for g in groups for why in unlike.reasons(results, g, m))
    if not (whys := list(dict.fromkeys(found))):
        return f"Better is {towards}"
    return f"Where it is better cannot be said ({'; '.join(whys)})"


def _cloud(results: Results, cell: Cell, up: str, right: str) -> stats.Floats:
    """The runs of a cell: a row each, with both metrics."""
    x, y = (_bounded(results, cell, name) / metric_of(name).scale for name in (right, up))
    both = np.isfinite(x) & np.isfinite(y)
    return np.asarray(np.column_stack([x[both], y[both]]), dtype=np.float64)


def _bounded(results: Results, cell: Cell, name: str) -> stats.Floats:
    """A metric of the runs of a cell; of those in which transfers were cut off the least of it."""
    return np.asarray(cutoff.bounded(results, cell, name), dtype=np.float64)


def _cut(results: Results, cell: Cell, names: tuple[str, str]) -> NDArray[np.bool_]:
    """Which of the runs of `_cloud` are not what they seem, as transfers were cut off."""
    up, right = (cutoff.bounded(results, cell, name) for name in names)
    both = np.isfinite(right.to_numpy(float)) & np.isfinite(up.to_numpy(float))
    found = {run for m in names if cutoff.of_finished(m) for run in cutoff.runs(results, cell, m)}
    return np.asarray(right.index.isin(list(found))[both], dtype=np.bool_)


def _beyond(axis: Axes, mean: stats.Floats, right: bool, up: bool) -> None:
    """Beside a mean that is but the least it can be: in which direction it may lie."""
    for wanted, text, to in (
        (right, "\N{RIGHTWARDS ARROW}", (9, 0)),
        (up, "\N{UPWARDS ARROW}", (0, 9)),
    ):
        if wanted:
            axis.annotate(
                text, (mean[0], mean[1]), xytext=to, textcoords="offset points", ha="center",
                va="center", fontsize=style.small() + 2, color=style.INK, zorder=5,
            )  # fmt: skip


def _spot(
    axis: Axes, x: stats.Floats, y: stats.Floats, n: int, cut: NDArray[np.bool_] | None
) -> Line2D:
    """The runs of a cell, their mean, and how they are spread; returns the mean's mark. Runs that
    were `cut` are hollow, and so is a mean with any of them, of which nobody knows the spread.
    """
    colour, form = style.colour(n), style.marker(n)
    if x.size > 2 and cut is None:
        axis.add_patch(_ellipse(x, y, colour, style.dash(n)))
    hollow = np.zeros(x.size, dtype=np.bool_) if cut is None else cut
    # What is at zero is not cut in half by the axes.
    axis.scatter(
        x[~hollow], y[~hollow], s=10, color=colour, alpha=0.45, linewidths=0, marker=form,
        clip_on=False,
    )  # fmt: skip
    if hollow.any():
        axis.scatter(
            x[hollow], y[hollow], s=10, facecolors="none", edgecolors=colour, alpha=0.7,
            linewidths=0.7, marker=form, clip_on=False,
        )  # fmt: skip
    inside, edge = ("white", colour) if cut is not None else (colour, "white")
    (drawn,) = axis.plot(
        x.mean(), y.mean(), form, color=colour, markersize=SPOT, mfc=inside, mec=edge, zorder=4,
        clip_on=False,
    )  # fmt: skip
    return drawn


SPOT = 7.0
"""Points that the mark of a mean is large."""


def _uncover(axis: Axes) -> bool:
    """Make means larger that others lie on, so that each is seen around these; whether any is."""
    marks = [line for line in axis.get_lines() if line.get_markersize() == SPOT]
    places = [axis.transData.transform(np.asarray(line.get_xydata()))[0] for line in marks]
    near = 0.5 * SPOT * page.root(axis).dpi / 72
    for n, (line, place) in enumerate(zip(marks, places, strict=True)):
        above = sum(float(np.hypot(*(other - place))) < near for other in places[n + 1 :])
        line.set_markersize(SPOT + 2.6 * min(above, 6))
    return any(line.get_markersize() > SPOT for line in marks)


def _begin_at_zero(axes: Sequence[Axes]) -> bool:
    """Show no values below 0 where none were measured: an ellipse may reach there. Whether one
    does, and is cut.
    """
    clouds = [np.asarray(c.get_offsets()) for axis in axes for c in axis.collections]
    if not clouds:
        return False
    low = np.concatenate(clouds).min(axis=0)
    for axis in axes:
        if low[0] >= 0:
            axis.set_xlim(left=max(0.0, axis.get_xlim()[0]))
        if low[1] >= 0:
            axis.set_ylim(bottom=max(0.0, axis.get_ylim()[0]))
    patches = [p for axis in axes for p in axis.patches]
    reach = [p.get_path().transformed(p.get_patch_transform()).get_extents().min for p in patches]
    return any(end[k] < 0 <= low[k] for end in reach for k in (0, 1))


def _beginnings(axes: Sequence[Axes], words: Words, names: tuple[str, str], cut: bool) -> str:
    """What a caption says of scales (to the right, up) that do not begin at 0, and of ellipses that
    are cut there.
    """
    lows = ([a.get_xlim()[0] for a in axes], [a.get_ylim()[0] for a in axes])
    above = [
        words.metric(name)
        for name, low in zip(names, lows, strict=True)
        if metric_of(name).least >= 0 and max(low) > 0
    ]
    told = f" The scale of {above[0]} does not begin at 0." if len(above) == 1 else ""
    told = " Scales do not begin at 0." if len(above) > 1 else told
    return told + (" Ellipses end at 0, below which nothing can be." if cut else "")


def _ellipse(x: stats.Floats, y: stats.Floats, colour: str, dash: Any) -> Ellipse:
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
        linestyle=dash,
    )
