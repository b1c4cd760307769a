"""The same plan on several substrates, side by side."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wifu import cutoff, stats
from wifu.api import Results
from wifu.diverge import ABSENT, FAILED, SKIPPED, Divergence, Row, said_of
from wifu.errors import LabError
from wifu.figures import legends, page, style
from wifu.figures.compare import bar, capital, on_bar, whiskers
from wifu.figures.sayings import interval_words, measured
from wifu.figures.words import Words
from wifu.metrics import metric_of
from wifu.variants import SUBSTRATES

MOST = 48
"""Cells in a figure."""

LEVELS = 6
"""Levels of which a caption tells what they are on each substrate; the report has them all."""

CELL = 0.22
"""Inches that a cell takes in the width of a paper: a tilted name, or a bar for each substrate."""


def substrates(every: Sequence[Results], found: Divergence, metric: str) -> tuple[Figure, str, str]:
    """A metric in each cell: a bar for each substrate, with its interval. In the width of a paper
    cells that have no room beside the others stand below them.
    """
    bare = (ABSENT, FAILED, SKIPPED)
    rows = [r for r in found.rows if r.metric == metric and r.verdict not in bare]
    if not rows:
        raise LabError("no two substrates know it")
    cells = list(dict.fromkeys(r.cell for r in rows))
    if len(cells) > MOST:
        raise LabError(f"{len(cells)} cells are too many for one figure; the table has them")
    names = [r.plan.substrate for r in every]
    words = Words(every[0], {}, mixed=False)  # the same level has another on each substrate
    label = words.scale(metric)
    labels = {
        r.cell: ", ".join(words.level(k, v) for k, v in r.labels.items()) or r.cell for r in rows
    }
    known = {(found.reference, r.cell) for r in rows} | {(r.substrate, r.cell) for r in rows}
    figure, axes = _bands(len(cells), len(names))
    size = -(-len(cells) // len(axes))
    for n, axis in enumerate(axes):
        own = cells[n * size : (n + 1) * size]
        for k, results in enumerate(every):
            width = 0.8 / len(names)
            at = (k - (len(names) - 1) / 2) * width
            shown = [cell if (names[k], cell) in known else None for cell in own]
            _draw(axis, results, metric, shown, at, width)
        axis.set_xlim(-0.6, size - 0.4)
        style.places(axis, range(len(own)), [labels[c] for c in own])
        axis.tick_params(axis="x", length=0, labelbottom=True)
        style.grid(axis)
    if metric_of(metric).least >= 0:
        for axis in axes:
            axis.set_ylim(bottom=0)
    style.from_zero(axes)
    page.align(axes, "y")
    axes[-1].set_xlabel(", ".join(words.axis(name) for name in rows[0].labels))
    style.label_rows(axes, label)
    legends.above(figure, [style.patch(_look(name)) for name in names], names)
    title = f"{label[:1].upper()}{label[1:]} on {', '.join(names)}"
    kinds = list(dict.fromkeys(interval_words(r, r.plan.cells, metric) for r in every))
    caption = f"{capital(label)}; {_counts(every, known)}; {'; '.join(kinds)}."
    said = [
        f"{capital(on)}: {told}" if on else capital(told) for on, told in said_of(every, metric)
    ]
    first = [caption, *_elsewhere(words, found, rows), *_measured(every, metric)]
    return figure, title, " ".join([*first, *map(capital, found.left_out(metric)), *said])


def _elsewhere(words: Words, found: Divergence, rows: Sequence[Row]) -> list[str]:
    """Levels that are something else on each substrate, such as the kernel's protocol there, though
    they have one name in the figure.
    """
    shown = {(axis, str(label)) for row in rows for axis, label in row.labels.items()}
    levels: dict[tuple[str, str], dict[str, str]] = {}
    for one in found.elsewhere:
        if (key := (str(one["axis"]), str(one["level"]))) in shown:
            levels.setdefault(key, {}).update({on: _said(it) for on, it in one["is"].items()})
    if not levels:
        return []
    told = [
        f"{words.apart(axis, level)} is {' and '.join(f'{it} on {on}' for on, it in own.items())}"
        for (axis, level), own in levels.items()
    ]
    more = f"; and {len(told) - LEVELS} more" if len(told) > LEVELS else ""
    return [f"Not the same on all: {'; '.join(told[:LEVELS])}{more}."]


def _said(level: Any) -> str:
    """What a level is, in words: a value, or what it sets."""
    if isinstance(level, Mapping):
        return ", ".join(f"{key} {value}" for key, value in level.items()) or "nothing"
    return str(level)


def _measured(every: Sequence[Results], metric: str) -> list[str]:
    """What goodput is where a metric is of it, by substrate where it is not the same on all."""
    found: dict[str, list[str]] = {}
    for results in every:
        found.setdefault(measured(results, [metric]), []).append(results.plan.substrate)
    return [
        told if len(of) == len(every) else f"On {', '.join(of)}: {told}"
        for told, of in found.items()
        if told
    ]


def _counts(every: Sequence[Results], known: Collection[tuple[str, str]]) -> str:
    """Of how many runs the cells are that are shown, of each substrate where these differ."""
    found: dict[str, str] = {}
    for results in every:
        have = results.ok["cell"].value_counts()
        name = results.plan.substrate
        n = sorted({int(have.get(cell, 0)) for own, cell in known if own == name})
        found[name] = f"{n[0]} to {n[-1]}" if len(n) > 1 else f"{n[0] if n else 0}"
    if len(set(found.values())) == 1:
        return f"n = {next(iter(found.values()))} runs per cell"
    return f"n runs per cell: {', '.join(f'{n} on {name}' for name, n in found.items())}"


def _look(substrate: str) -> int:
    """The number of a substrate's colour, which is the same whichever others stand beside it."""
    return list(SUBSTRATES).index(substrate)


def _bands(cells: int, substrates: int) -> tuple[Figure, list[Axes]]:
    """One panel for all cells, or in a narrow figure several below each other."""
    if page.current().columns is None:
        wide = max(page.width(1), min(13.0, 2.0 + 0.42 * cells * substrates))
        figure = page.figure(wide, 3.8)
        return figure, [figure.subplots()]
    bands = -(-cells // int((page.width(1) - 0.6) / CELL))
    return page.panels(bands, height=3.4 if bands == 1 else 2.8, columns=1, share_x=False)


def _draw(
    axis: Axes, results: Results, metric: str, cells: Sequence[str | None], at: float, width: float
) -> None:
    """The bars of a substrate; a 0 where all values are, and nothing where it does not know any."""
    scale, look = metric_of(metric).scale, _look(results.plan.substrate)
    of = {c.name: c for c in results.plan.cells}
    for n, name in enumerate(cells):
        if name is None:
            on_bar(axis, n + at, stats.mean_interval(()), scale, "n/a")
            continue
        cell = of[name]
        i = results.interval(metric, cell)
        least = cutoff.least(results, cell, metric)
        if not least and not results.sample(metric, cell.labels).to_numpy(float).any():
            if i.known:
                whiskers(axis, [n + at], [i], scale)
            on_bar(axis, n + at, i, scale, "0")
            continue
        if least:
            i = replace(i, low=math.nan, high=math.nan)
        bar(axis, n + at, width, look, i, scale, least)
        if least:
            on_bar(axis, n + at, i, scale, "≥")
