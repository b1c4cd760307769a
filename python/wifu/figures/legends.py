"""The names of what is shown, above the panels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
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
    figure.legend(
        handles,
        named,
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
    return best


def _parts(labels: Sequence[str], beside: int) -> Iterator[Sequence[str]]:
    """The names of each column, as matplotlib deals them out."""
    for part in np.array_split(np.arange(len(labels)), beside):
        if part.size:
            yield [labels[n] for n in part]


def _lines(named: Sequence[str], beside: int) -> int:
    """The lines of the highest column."""
    return max(sum(name.count("\n") + 1 for name in part) for part in _parts(named, beside))


def _beside(labels: Sequence[str], letters: float) -> int:
    """As many columns as there is room for in a line of so many letters, with names as they are."""
    for count in range(len(labels), 1, -1):
        longest = [max(map(len, part)) for part in _parts(labels, count)]
        # Each takes its longest name, its sign and the room beside it.
        if sum(longest) + SIGN * len(longest) <= letters:
            return count
    return 1
