"""Figures of ratios: each level of an axis by the baseline, and what is a difference."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from wifu import compared, paired
from wifu.api import LEVEL, Results
from wifu.cells import Cell, Label
from wifu.compared import IDENTICAL, Told
from wifu.digits import with_unit
from wifu.errors import LabError
from wifu.figures import lacking, legends, page, style
from wifu.figures.along import centred
from wifu.figures.compare import (
    Made,
    capital,
    chosen,
    cut_off,
    left_out,
    levels,
    looks,
    most_levels,
    same_levels,
    split,
    stopped,
)  # fmt: skip
from wifu.figures.words import Words
from wifu.metrics import metric_of

BEYOND = 3.0
"""So many times beyond the means a scale goes for intervals, at most."""


@dataclass(frozen=True)
class Task:
    """What is drawn: levels of the axis `pair` by `base`, over the axis `x`."""

    results: Results
    words: Words
    metric: str
    x: str
    pair: str
    base: Label
    called: str
    """The baseline in few words, as a scale has little room; caption and legend have them all."""
    every: Sequence[Label]
    told: Mapping[str, Told]
    most: int
    """So many levels of `x` has the panel with most of them."""
    differences: bool
    """Whether all are differences, as what may be negative has no ratio."""

    @property
    def none(self) -> float:
        """Where a level stands that is the same as the baseline."""
        return 0.0 if self.differences else 1.0

    def full(self, found: Told) -> bool:
        """Whether a mark is filled: where nothing is random, all are."""
        return found.clear or self.results.plan.deterministic

    def drawn(self, found: Told) -> bool:
        """Whether it has a place on the scale."""
        there = not found.instead and math.isfinite(found.value)
        return there and found.difference == self.differences


def ratio(results: Results, spec: dict[str, Any]) -> Made:
    """A metric of each level of the plan's `pair` by that of its baseline."""
    pair = results.plan.pair
    if pair is None:
        raise LabError("needs `pair`: the axis along which levels are compared")
    name = spec.get("metric", results.plan.metrics[0])
    frame = results.compare(name)
    rows = {_key(row, results): row for row in frame.to_dict("records")}
    # Who has no pair of runs, as they failed, is in no row.
    bare = _unpaired(results, chosen(results, spec), set(rows))
    shown = [c for c in chosen(results, spec) if _key(c.labels, results) in rows or c in bare]
    if not rows or not shown:
        raise LabError("there is nothing beside the baseline that was run")
    others = [k for k in shown[0].labels if k != pair]
    x = spec.get("x") or (others[0] if others else pair)
    words = Words(results, spec)
    parts, cells, rest = split(words, shown, [x, pair])
    told = {c.name: compared.told(rows.get(_key(c.labels, results), {"n": 0}), name) for c in cells}
    if all(found.instead not in ("", IDENTICAL) for found in told.values()):
        raise LabError(f"no two cells that are compared have a value of {name}")
    numbers = [f for f in told.values() if not f.instead]
    differences = bool(numbers) and all(f.difference for f in numbers)
    every = [""] if x == pair else levels(cells, pair)
    base = frame["baseline"].iloc[0]
    called = _called(Words(results, spec, mixed=False), pair, base, results)
    most = most_levels(parts, x)
    task = Task(results, words, name, x, pair, base, called, every, told, most, differences)
    figure, axes = page.panels(len(parts), share_x=same_levels(parts, x))
    own = looks(results, None if x == pair else pair, every)
    limits = _limits(task)
    for axis, (title, members) in zip(axes, parts, strict=True):
        _scale(task, axis, limits)
        _draw(task, axis, members, own)
        style.entitle(axis, title)
        axis.set_xlabel(words.axis(x))
        style.grid(axis)
    style.label_rows(axes, _scale_words(task))
    handles = [] if x == pair else [_mark(look, style.colour(look)) for look in own]
    names = [words.apart(pair, label) for label in every] if handles else []
    if not results.plan.deterministic:
        handles += [_mark(0, style.INK), _mark(0, style.INK, full=False)]
        other = any(f.unlike and task.drawn(f) for f in told.values())
        none = "no difference shown" + (", or unlike in more (see caption)" if other else "")
        names += [f"differs (p < {LEVEL:g}, Holm)", none]
    legends.above(figure, handles, names)
    what = capital(words.metric(name))
    title = f"{what} relative to {words.apart(pair, base)}"
    return figure, title, _caption(task, cells, frame, limits) + rest


def _unpaired(results: Results, cells: Sequence[Cell], rows: Collection[str]) -> list[Cell]:
    """The cells that are compared with a baseline that the plan has, and have no pair of runs."""
    pair = str(results.plan.pair)
    base = compared.baseline(results.plan)
    return [
        c
        for c in cells
        if str(c.labels[pair]) != str(base)
        and _key(c.labels, results) not in rows
        and results.cells({**c.labels, pair: base})
    ]


def _called(words: Words, pair: str, base: Label, results: Results) -> str:
    """A level without its profile and parameters, where that says which one it is."""
    every = [words.apart(pair, v.label) for v in results.plan.axis(pair).levels]
    short, whole = (words.apart(pair, base).partition(",")[0], words.apart(pair, base))
    return short if [name.partition(",")[0] for name in every].count(short) == 1 else whole


def _key(labels: Mapping[Any, Any], results: Results) -> str:
    return json.dumps([str(labels[a.name]) for a in results.plan.axes])


def _scale_words(task: Task) -> str:
    what = task.words.metric(task.metric)
    if task.differences:
        return with_unit(f"{what} less that of {task.called}", metric_of(task.metric).unit)
    return f"{what} by that of {task.called}, log scale"


def _mark(look: int, colour: str, full: bool = True) -> Line2D:
    return Line2D(
        [], [], ls="", marker=style.marker(look), markersize=style.mark() + 1, mec=colour, mew=1.4,
        mfc=colour if full else "white", color=colour,
    )  # fmt: skip


def _limits(task: Task) -> tuple[float, float]:
    """From where to where the scale goes: it has the line of no difference, all that is drawn, and
    intervals as far as they do not make all else small.
    """
    found = [f for f in task.told.values() if task.drawn(f)]
    ends = [(f.low, f.high) if f.known else (f.value, f.value) for f in found]
    if task.differences:
        low = min([0.0, *(one for one, _ in ends)])
        high = max([0.0, *(two for _, two in ends)])
        room = 0.08 * (high - low) or 1.0
        return low - room, high + room
    values = [1.0, *(f.value for f in found if f.value > 0)]
    low = min([*values, *(max(one, min(values) / BEYOND) for one, _ in ends)])
    high = max([*values, *(min(two, max(values) * BEYOND) for _, two in ends)])
    room = max(0.08 * math.log(high / low), math.log(1.02))
    return low / math.exp(room), high * math.exp(room)


def _scale(task: Task, axis: Axes, limits: tuple[float, float]) -> None:
    if not task.differences:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(FixedLocator(sorted({1.0, *style.log_ticks(*limits)})))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.axhline(task.none, color=style.INK, lw=0.9, zorder=1.5)
    axis.set_ylim(*limits)


def _draw(task: Task, axis: Axes, cells: Sequence[Cell], own: Sequence[int]) -> None:
    places = levels(cells, task.x)
    count = len(task.every)
    axis.set_xlim(centred(len(places), task.most))
    for n, (look, label) in enumerate(zip(own, task.every, strict=True)):
        for cell in cells:
            if task.x == task.pair or cell.labels[task.pair] == label:
                aside = (n - (count - 1) / 2) * 0.7 / count
                at = places.index(cell.labels[task.x]) + aside
                _point(task, axis, at, task.told[cell.name], (look, n))
    style.places(axis, range(len(places)), [task.words.level(task.x, p) for p in places])
    axis.tick_params(axis="x", length=0)


def _point(task: Task, axis: Axes, at: float, found: Told, nth: tuple[int, int]) -> None:
    """A level: its mark and whisker, or what is told in place of them."""
    look, n = nth
    colour = style.colour(look)
    face: dict[str, Any] = {
        "mfc": colour if task.full(found) else "white",
        "mec": colour,
        "mew": 1.4,
    }
    size: dict[str, Any] = {
        "marker": style.marker(look),
        "markersize": style.mark() + 1,
        "color": colour,
    }
    if found.instead == IDENTICAL:
        face["mfc"] = "white"
        axis.plot([at], [task.none], **size, **face, zorder=4)
        # Where levels stand close, what is said of one is not to run into that of the next.
        rows = max(1, math.ceil(0.9 * style.small() / _room(task, axis)))
        _say(axis, (at, task.none), "=", n % rows)
    elif found.instead:
        _below(task, axis, at, "n/a")
    elif not task.drawn(found):
        _below(task, axis, at, f"Δ {style.number(found.value)}", bold=found.clear)
    elif not task.differences and found.value <= 0:
        ends = axis.get_xaxis_transform()
        axis.plot([at], [0.04], **size, **face, zorder=4, transform=ends)
        _below(task, axis, at, "0", above=0.04)
    else:
        if found.known:
            # Of a bound that a logarithmic scale has not the whisker ends below it.
            low = found.low if task.differences else max(found.low, 1e-3 * axis.get_ylim()[0])
            spread = [[found.value - low], [found.high - found.value]]
            axis.errorbar(
                [at], [found.value], yerr=spread, fmt="none", ecolor=colour, capsize=2.5, zorder=3
            )
        axis.plot([at], [found.value], **size, **face, zorder=4)


def _say(axis: Axes, place: tuple[float, float], text: str, row: int) -> None:
    above = style.mark() / 2 + 3 + row * 1.2 * style.small()
    axis.annotate(
        text, place, xytext=(0, above), textcoords="offset points", ha="center",
        fontsize=style.small(), color=style.INK,
    )  # fmt: skip


def _room(task: Task, axis: Axes) -> float:
    """Points of the horizontal scale for each level."""
    inches = axis.get_position().width * float(page.root(axis).get_figwidth())
    low, high = axis.get_xlim()
    return inches * 72 / (high - low) * 0.7 / len(task.every)


def _below(
    task: Task, axis: Axes, at: float, text: str, bold: bool = False, above: float = 0.0
) -> None:
    """What stands at the lower end of the scale, for it has no place on it; upright where others
    stand beside it.
    """
    upright = len(text) * 0.64 * style.small() > _room(task, axis)
    axis.annotate(
        text, (at, above), xycoords=axis.get_xaxis_transform(), xytext=(0, style.mark() / 2 + 2),
        textcoords="offset points", ha="center", fontsize=style.small(), color=style.INK,
        fontweight="bold" if bold else "normal", rotation=90 if upright else 0,
        path_effects=style.halo(),
    )  # fmt: skip


def _caption(task: Task, cells: Sequence[Cell], frame: Any, limits: tuple[float, float]) -> str:
    results, found = task.results, [task.told[c.name] for c in cells]
    base = task.words.level(task.pair, task.base)
    what = "differences of means" if task.differences else "ratios of means, on a logarithmic scale"
    told = f"{capital(task.words.metric(task.metric))} relative to {base}: {what}"
    if results.plan.deterministic:
        told += "; one run per cell: nothing is random, they are exact"
    else:
        told += f"; {_pairs(task, cells, frame)}; "
        if any(f.known for f in found):
            how = "t of pairs" if task.differences else "linearized, t of pairs"
            told += f"whiskers: 95 % interval ({how}){stopped(results)}"
        else:
            told += "no interval"
        told += f"; {_filled(task, int(frame['p'].notna().sum()))}"
    if any(f.instead == IDENTICAL for f in found):
        told += "; =: identical in all runs"
    if any(f.instead not in ("", IDENTICAL) for f in found):
        told += "; n/a: no value"
    if any(not f.instead and f.difference != task.differences for f in found):
        unit = with_unit("Δ: mean difference", paired.unit(task.metric))
        told += f"; {unit}, where the baseline's mean is 0 or its interval reaches 0 (bold: as if "
        told += "filled)"
    if any(task.drawn(f) and f.known and _leaves(f, limits) for f in found):
        told += "; whiskers without an end go on beyond the scale"
    beyond = [] if results.plan.deterministic else compared.beyond(frame, task.metric)
    few = "".join(f" {capital(words)}" for words in beyond)
    without = [c for c in cells if task.told[c.name].instead not in ("", IDENTICAL)]
    lack = _lacking(task, cells, without)
    said = cut_off(results, _with_baselines(task, cells), task.metric)
    return f"{told}.{few}{lack}{_unlike(task, cells)}{said}"


def _with_baselines(task: Task, cells: Sequence[Cell]) -> list[Cell]:
    """These cells and those by which they are divided: what is to be said is of both."""
    results, pair = task.results, task.pair
    names = {c.name for c in cells}
    for cell in cells:
        names |= {c.name for c in results.cells({**cell.labels, pair: task.base})}
    return [c for c in results.plan.cells if c.name in names]


def _unlike(task: Task, cells: Sequence[Cell]) -> str:
    """Which marks are hollow whatever p and interval say, and why."""
    if task.results.plan.deterministic:
        return ""
    whys: dict[str, list[Cell]] = {}
    for cell in cells:
        found = task.told[cell.name]
        if found.unlike and task.drawn(found):
            whys.setdefault(found.why, []).append(cell)
    told = ""
    for why, hollow in whys.items():
        if len(hollow) == sum(task.drawn(task.told[c.name]) for c in cells):
            return f" All are hollow whatever p and the interval are: {why}."
        what = f"Hollow whatever p and the interval are ({why})"
        told += lacking.named(task.words, cells, hollow, what, task.pair)
    return told


def _lacking(task: Task, cells: Sequence[Cell], without: Sequence[Cell]) -> str:
    """Which cells have no value, and why: those that have none of their own, and the others, of
    which the baseline has none, or transfers of either were cut off.
    """
    own = lacking.of(task.results, without, task.metric)
    told = lacking.sentence(task.results, task.words, cells, own, task.metric, task.pair)
    rest = [c for c in without if c not in own]
    cut = [c for c in rest if task.told[c.name].instead == compared.CUT]
    for found, why in ((cut, "Cut off"), ([c for c in rest if c not in cut], "No pair of runs")):
        told += lacking.named(task.words, cells, found, why, task.pair)
    return told


def _filled(task: Task, tested: int) -> str:
    """What filled marks and hollow ones mean, of so many comparisons that were tested."""
    if not tested:
        return "nothing is tested: all hollow"
    none = "" if all(f.known or f.instead for f in task.told.values()) else ", if there is one,"
    return (
        f"filled: p of a paired permutation test, corrected by Holm over all {tested} comparisons "
        f"of this metric, is below {LEVEL:g} and the interval{none} leaves out {task.none:g}; "
        "hollow: not, or what is compared is unlike in more than that, as is told"
    )


def _leaves(found: Told, limits: tuple[float, float]) -> bool:
    return found.low < limits[0] or found.high > limits[1]


def _pairs(task: Task, cells: Sequence[Cell], frame: Any) -> str:
    """Of how many runs the values are, in words."""
    shown = {_key(c.labels, task.results) for c in cells}
    rows = frame.to_dict("records")
    pairs = {_key(row, task.results): int(row["n"]) for row in rows}
    n = sorted({pairs.get(key, 0) for key in shown})
    span = str(n[0]) if len(n) == 1 else f"{n[0]} to {n[-1]}"
    told = "one pair of runs per cell" if n == [1] else f"n = {span} pairs of runs per cell"
    return told + left_out(task.results, _with_baselines(task, cells))
