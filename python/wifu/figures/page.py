"""Where figures are drawn: panels for the screen or for a paper, or axes that somebody gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wifu.errors import LabError

PAPER = {1: 3.5, 2: 7.16}
"""Inches of one and of two columns of a paper, those of the IEEE; others are a little narrower."""

LENGTH = 9.2
"""Inches of a page that a figure may take; below it a caption has to stand."""

SCREEN = {1: 7.4, 2: 8.4, 3: 10.2}
"""Inches of a figure with so many panels beside each other, where it is for no paper."""


@dataclass(frozen=True)
class Page:
    """How wide figures are, and the axes to draw on if they are somebody else's."""

    columns: int | None = None
    axes: Sequence[Axes] | None = None
    shown: bool = False


_SCREEN = Page()
_PAGE: ContextVar[Page] = ContextVar("page", default=_SCREEN)


def current() -> Page:
    """The page that is drawn on."""
    return _PAGE.get()


@contextmanager
def use(page: Page) -> Iterator[None]:
    """Draw on this page."""
    token = _PAGE.set(page)
    try:
        yield
    finally:
        _PAGE.reset(token)


def width(across: int) -> float:
    """Inches of a figure with so many panels beside each other."""
    columns = current().columns
    return SCREEN[min(across, 3)] if columns is None else PAPER[columns]


def scale(across: int) -> float:
    """How much lower panels are than on the screen. Narrow ones are not as flat as they were."""
    return max(width(across) / SCREEN[min(across, 3)], 0.62)


def beside(count: int, most: int) -> int:
    """How many of `count` panels stand side by side, of which there may be `most`."""
    if current().columns == 1:
        most = min(most, 1 if count <= 2 else 2)
    return min(2, most) if count == 4 else min(count, most) or 1


def figure(wide: float, high: float) -> Figure:
    """An empty figure; notebooks show it only if it is for them, and its window is theirs."""
    size = (wide, lower(high))
    return plt.figure(figsize=size) if current().shown else Figure(figsize=size)


def lower(high: float) -> float:
    """A height, in inches, if it fits the page of a paper; else that of the page."""
    return high if current().columns is None else min(high, LENGTH)


def given(count: int) -> list[Axes] | None:
    """The axes to draw on, if somebody gave them: one for each of `count` panels."""
    axes = current().axes
    if axes is None:
        return None
    if len(axes) != count:
        raise LabError(
            f"this figure has {count} panels: give as many axes, not {len(axes)}, or choose cells "
            "with `where`"
        )
    return list(axes)


def root(axis: Axes) -> Figure:
    """The figure that axes are in."""
    found = axis.get_figure(root=True)
    assert found is not None, "axes of a figure that was cleared"
    return found


def panels(
    count: int,
    height: float = 3.5,
    columns: int = 3,
    share: bool = True,
    share_x: bool | None = None,
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels side by side, with common scales if they `share`.

    `share_x`: the same for the horizontal ones alone.
    """
    if (own := given(count)) is not None:
        return root(own[0]), own
    across = beside(count, columns)
    rows = -(-count // across)
    made = figure(width(across), height * scale(across) * rows)
    axes = made.subplots(
        rows, across, squeeze=False, sharey=share, sharex=share if share_x is None else share_x
    )
    flat = list(axes.flat)
    for unused in flat[count:]:
        unused.set_visible(False)
    for n, axis in enumerate(flat[:count]):
        if n + across >= count:
            axis.tick_params(axis="x", labelbottom=True)
    return made, flat[:count]


def align(axes: Sequence[Axes], which: str) -> None:
    """Give axes one range of `x` or `y`, whether or not they were made to share it."""
    limits = [getattr(axis, f"get_{which}lim")() for axis in axes]
    low, high = min(low for low, _ in limits), max(high for _, high in limits)
    for axis in axes:
        getattr(axis, f"set_{which}lim")(low, high)
