"""The names of what is shown, above the panels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wifu.figures import page
from wifu.figures.style import wrapped

SIGN = 8.5
"""Letters that the sign of a name takes, and the room beside it."""

NARROW = 16
"""Letters of a column at least: narrower ones break words."""

LETTER = 0.58
"""How wide a letter is on the mean, by the size of its font."""

LINE = 1.5
"""How high a line is, by the size of its font."""


AROUND = 0.8
"""Inches that stand around panels: numbers and names of scales."""


def above(figure: Figure, handles: Sequence[Any], labels: Sequence[str], least: int = 2) -> None:
    """Write names above the panels, if there are so many, in as few lines as they need. Where these
    are more than two the figure becomes higher, so that panels keep their room, and half of all at
    least.
    """
    if len(labels) < least and "published" not in labels:
        return
    given = page.current().axes
    if given:
        given[0].legend(handles, labels)
        return
    size = float(mpl.rcParams["legend.fontsize"])
    named, beside = _columns(labels, float(figure.get_figwidth()) * 72 / size / LETTER)
    order = _order(len(named), beside)
    figure.legend(
        [handles[n] for n in order],
        [named[n] for n in order],
        loc="outside upper left",
        ncols=beside,
        handlelength=2.2,
        columnspacing=1.6,
        borderaxespad=0.2,
    )
    lines = _lines(named, beside)
    if lines > 2:
        high, line = float(figure.get_figheight()), LINE * size / 72
        half = min(2 * (lines * line + AROUND), page.LENGTH)
        figure.set_figheight(max(high + (lines - 2) * line, half))


def _columns(labels: Sequence[str], letters: float) -> tuple[list[str], int]:
    """Names as they stand in lines of so many letters, and how many stand beside each other: as
    they are where there is room, else broken, if so they take fewer lines.
    """
    beside = _beside(labels, letters)
    best = [wrapped(label, int(letters - SIGN)) for label in labels], beside
    for count in range(beside + 1, len(labels) + 1):
        room = int(letters / count - SIGN)
        if room < NARROW:
            break
        named = [wrapped(label, room) for label in labels]
        if _lines(named, count) < _lines(*best):
            best = named, count
    return _even(*best, letters)


def _even(named: list[str], beside: int, letters: float) -> tuple[list[str], int]:
    """The same in as many lines, each as full as the others as far as that can be."""
    rows = -(-len(named) // beside)
    even = -(-len(named) // rows)
    alike = _lines(named, even) <= _lines(named, beside) and _wide(named, even) <= letters
    return named, even if alike else beside


def _order(count: int, beside: int) -> list[int]:
    """So many names in the order of matplotlib, which deals them out by columns, so that they are
    read line by line.
    """
    return [n for first in range(beside) for n in range(first, count, beside)]


def _parts(labels: Sequence[str], beside: int) -> Iterator[Sequence[str]]:
    """The names of each column; those of a line are one after the other."""
    for first in range(min(beside, len(labels))):
        yield labels[first::beside]


def _lines(named: Sequence[str], beside: int) -> int:
    """The lines of the highest column."""
    return max(sum(name.count("\n") + 1 for name in part) for part in _parts(named, beside))


def _beside(labels: Sequence[str], letters: float) -> int:
    """As many columns as there is room for in a line of so many letters, with names as they are."""
    for count in range(len(labels), 1, -1):
        if _wide(labels, count) <= letters:
            return count
    return 1


def _wide(named: Sequence[str], beside: int) -> float:
    """Letters that columns take: each its longest line, its sign and the room beside it."""
    parts = list(_parts(named, beside))
    longest = [max(len(line) for name in part for line in name.split("\n")) for part in parts]
    return sum(longest) + SIGN * len(longest)


def have_room(axis: Axes, ends: Sequence[tuple[float, float, str, str]]) -> bool:
    """Whether names can stand at the ends of these lines: each so near its own that one sees in
    grey whose it is, and all so short that the panel keeps most of its room.
    """
    letters = max((len(name) for _, _, name, _ in ends), default=0)
    wide = letters * 0.58 * float(mpl.rcParams["font.size"]) / 72
    if wide > 0.25 * float(page.root(axis).get_figwidth()):
        return False
    gap, placed = _at_ends(axis, ends)
    return all(two[0] - one[0] > 0.6 * gap for one, two in pairwise(placed))


def _at_ends(
    axis: Axes, ends: Sequence[tuple[float, float, str, str]]
) -> tuple[float, list[list[Any]]]:
    """The height of a line of text and where lines end from the lowest on: in pixels, so that the
    scale may be logarithmic.
    """
    gap = 1.15 * float(mpl.rcParams["font.size"]) * page.root(axis).dpi / 72.0
    return gap, sorted(
        [float(axis.transData.transform((x, y))[1]), y, x, name, colour]
        for x, y, name, colour in ends
        if x == x and y == y
    )


def end_labels(axis: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Names at the ends of lines (x, y, name, colour), moved apart where they would overlap."""
    points = float(mpl.rcParams["font.size"])
    dpi = page.root(axis).dpi
    gap, placed = _at_ends(axis, ends)
    for _ in range(60):
        for one, two in pairwise(placed):
            overlap = gap - (two[0] - one[0])
            if overlap > 1e-6:
                one[0] -= overlap / 2
                two[0] += overlap / 2
    for pixel, y, x, name, colour in placed:
        moved = pixel - float(axis.transData.transform((x, y))[1])
        axis.annotate(
            name,
            (x, y),
            xytext=(7, moved * 72.0 / dpi),
            textcoords="offset points",
            color=colour,
            fontsize=points - 0.5,
            va="center",
            annotation_clip=False,
        )
