"""The names of what is shown, above the panels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib as mpl
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
