"""How figures look: colours that colour-blind readers can tell apart, and what is common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import Normal, Stroke

INK, MUTED, FAINT = "#20242a", "#6b7280", "#d8dce2"

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#e69f00", "#56b4e9", "#7a5c2e", "#4d4d4d")
"""After Okabe and Ito; neighbours also differ in lightness."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.6)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (9, 1.5)),
)
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oooo")


def colour(n: int) -> str:
    """The colour of the nth of what is compared, from 0."""
    return COLOURS[n % len(COLOURS)]


def dash(n: int) -> Any:
    """Its line: of two with the same colour never the same."""
    return DASHES[n % len(DASHES)]


def later_dash(n: int) -> Any:
    """The same where lines are too thin and bent for dashes that are not needed."""
    return DASHES[n // len(COLOURS) % len(DASHES)]


def marker(n: int) -> str:
    """Its marker, and of two with the same colour never the same."""
    return MARKERS[(n + n // len(COLOURS)) % len(MARKERS)]


def later_marker(n: int) -> str:
    """The same for clouds of dots: round ones, until colours are used again."""
    return MARKERS[n // len(COLOURS) % len(MARKERS)]


def hatch(n: int) -> str:
    """Its hatching, and of two with the same colour never the same."""
    return HATCHES[(n + n // len(COLOURS)) % len(HATCHES)]


WIDTH = 7.4
"""Inches of a figure with one panel."""


@contextmanager
def context() -> Iterator[None]:
    """The style, while something is drawn."""
    with mpl.rc_context(
        {
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "font.size": 10,
            "axes.titlesize": 10,
            "axes.labelsize": 10,
            "axes.edgecolor": MUTED,
            "axes.labelcolor": INK,
            "axes.linewidth": 0.8,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "xtick.labelsize": 9,
            "ytick.labelsize": 9,
            "grid.color": FAINT,
            "grid.linewidth": 0.7,
            "legend.frameon": False,
            "legend.fontsize": 9.5,
            "lines.linewidth": 1.8,
            "hatch.linewidth": 0.6,
            "figure.constrained_layout.use": True,
            "svg.hashsalt": "wifu",
        }
    ):
        yield


def save(figure: Figure, svg: Path, png: Path) -> None:
    """Write both forms. The same results give the same octets: no date is inside."""
    for axis in figure.axes:
        # Of panels that share a scale, only the lowest says what it is.
        if not axis.xaxis.get_tick_params().get("labelbottom", True):
            axis.set_xlabel("")
    figure.savefig(svg, metadata={"Date": None, "Creator": None})
    figure.savefig(png, dpi=150, metadata={"Software": None})
    plt.close(figure)


def width(across: int) -> float:
    """Inches of a figure with so many panels beside each other."""
    return {1: WIDTH, 2: 8.4}.get(across, 10.2)


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
    across = min(count, columns) or 1
    if count == 4:
        across = min(2, columns)
    rows = -(-count // across)
    figure, axes = plt.subplots(
        rows,
        across,
        figsize=(width(across), height * rows),
        squeeze=False,
        sharey=share,
        sharex=share if share_x is None else share_x,
    )
    flat = list(axes.flat)
    for unused in flat[count:]:
        unused.set_visible(False)
    for n, axis in enumerate(flat[:count]):
        if n + across >= count:
            axis.tick_params(axis="x", labelbottom=True)
    return figure, flat[:count]


def label_rows(axes: Sequence[Axes], text: str) -> None:
    """Write what the scale is beside the first panel of each row."""
    for axis in axes:
        place = axis.get_subplotspec()
        if place is not None and place.is_first_col():
            axis.set_ylabel(text)


def grid(axis: Axes, which: str = "y") -> None:
    """Faint lines to read values by."""
    axis.grid(axis="both" if which == "both" else "x" if which == "x" else "y")


def from_zero(axes: Sequence[Axes]) -> None:
    """Where all that is drawn is zero, the axis that the panels share does not magnify nothing."""
    if not any(axis.dataLim.intervaly.any() for axis in axes):
        axes[0].set_ylim(0, 1)


def legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """The names of what is shown, in one line above the panels."""
    if len(labels) > 1 or "published" in labels:
        figure.legend(
            handles,
            labels,
            loc="outside upper left",
            ncols=min(len(labels), 5),
            handlelength=1.8,
            markerscale=1.5,
            columnspacing=1.8,
            borderaxespad=0.2,
        )


def end_labels(axis: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Names at the ends of lines (x, y, name, colour), moved apart where they would overlap."""
    gap = 11.5 * axis.figure.dpi / 72.0
    # In pixels, so that the scale may be logarithmic.
    placed: list[list[Any]] = sorted(
        [float(axis.transData.transform((x, y))[1]), y, x, name, colour]
        for x, y, name, colour in ends
    )
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
            xytext=(7, moved * 72.0 / axis.figure.dpi),
            textcoords="offset points",
            color=colour,
            fontsize=9.5,
            va="center",
            annotation_clip=False,
            path_effects=[Stroke(linewidth=3, foreground="white", alpha=0.85), Normal()],
        )


def number(value: float) -> str:
    """A value with three digits that mean something."""
    if value != value:
        return "?"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    if abs(value) >= 0.1:
        return f"{value:.2f}"
    return f"{value:.2g}"
