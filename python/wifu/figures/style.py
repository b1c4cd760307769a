"""How figures look: colours that colour-blind readers can tell apart, and what is common."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from wifu.figures import page

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


FONTS = ("DejaVu Sans", "Bitstream Vera Sans", "Verdana", "sans-serif")
"""Text in SVG is set by who shows it: in the first that is there; the next two are as wide."""


@contextmanager
def context(columns: int | None = None) -> Iterator[None]:
    """The style, while something is drawn: for the screen, or for so many `columns` of a paper."""
    # On paper a figure is as large as it is drawn.
    text, small, line = (10.0, 9.0, 1.8) if columns is None else (8.0, 7.0, 1.3)
    with (
        mpl.rc_context(
            {
                "font.family": list(FONTS[:1]),
                "font.size": text,
                "axes.titlesize": text,
                "axes.labelsize": text,
                "axes.edgecolor": MUTED,
                "axes.labelcolor": INK,
                "axes.linewidth": 0.8,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.axisbelow": True,
                "text.color": INK,
                "xtick.color": INK,
                "ytick.color": INK,
                "xtick.labelsize": small,
                "ytick.labelsize": small,
                "grid.color": FAINT,
                "grid.linewidth": 0.7,
                "legend.frameon": False,
                "legend.fontsize": text - 0.5,
                "lines.linewidth": line,
                "lines.markersize": 6.0 if columns is None else 4.5,
                "hatch.linewidth": 0.6,
                "figure.constrained_layout.use": True,
                # Text stays text: it can be searched, copied, and set in the paper's font.
                "svg.fonttype": "none",
                "svg.hashsalt": "wifu",
                "pdf.fonttype": 42,
            }
        ),
        page.use(page.Page(columns)),
    ):
        yield


def small() -> float:
    """Points of text that stands among what is drawn."""
    return float(mpl.rcParams["font.size"]) - 1.5


def line() -> float:
    """Points that a line is wide."""
    return float(mpl.rcParams["lines.linewidth"])


def mark() -> float:
    """Points that the shape on a line is large."""
    return 0.85 * float(mpl.rcParams["lines.markersize"])


def save(figure: Figure, *paths: Path) -> None:
    """Write a figure, as each name ends. The same results give the same bytes."""
    for axis in figure.axes:
        # Of panels that share a scale, only the lowest says what it is.
        if not axis.xaxis.get_tick_params().get("labelbottom", True):
            axis.set_xlabel("")
    fold(figure)
    for path in paths:
        if path.suffix == ".png":
            figure.savefig(path, dpi=PNG_DPI, metadata={"Software": None})
        elif path.suffix == ".pdf":
            dates = {"Creator": None, "Producer": None, "CreationDate": None}
            figure.savefig(path, metadata=dates)
            path.write_bytes(_named_in_order(path.read_bytes()))
        else:
            figure.savefig(path, metadata={"Date": None, "Creator": None})
            path.write_text(_with_other_fonts(path.read_text()))


PNG_DPI = 150


def _with_other_fonts(svg: str) -> str:
    first, *others = FONTS
    return svg.replace(f"'{first}'", ", ".join([f"'{first}'", *others]))


def _named_in_order(pdf: bytes) -> bytes:
    """Subsets of fonts are named by a hash that no two processes share; here they are counted."""
    names = dict.fromkeys(re.findall(rb"/([A-Z]{6})\+", pdf))
    for n, name in enumerate(names):
        pdf = pdf.replace(b"/" + name + b"+", b"/WIFUA%c+" % (65 + n))
    return pdf


def entitle(axis: Axes, title: str) -> None:
    """Name a panel."""
    if title:
        axis.set_title(title, loc="left", color=MUTED)


def fold(figure: Figure) -> None:
    """Names longer than the panel that they stand at go on in a second line."""
    figure.draw_without_rendering()
    for axis in figure.axes:
        box = axis.get_window_extent()
        title = axis.get_title(loc="left")
        size = float(mpl.rcParams["axes.titlesize"])
        for text, room, put in (
            (axis.get_xlabel(), box.width, axis.set_xlabel),
            (axis.get_ylabel(), box.height, axis.set_ylabel),
            (title, box.width, partial(axis.set_title, loc="left", color=MUTED)),
        ):
            letters = max(10, int(1.05 * room * 72 / figure.dpi / (0.56 * size)))
            if any(len(line) > letters for line in text.split("\n")):
                put("\n".join(textwrap.fill(line, letters) for line in text.split("\n")))


def patch(n: int) -> Patch:
    """What a legend shows for bars."""
    return Patch(facecolor=colour(n), hatch=hatch(n), edgecolor="white", linewidth=0)


def label_rows(axes: Sequence[Axes], text: str) -> None:
    """Write what the scale is beside the first panel of each row, or of those that were given."""
    for n, axis in enumerate(axes):
        place = axis.get_subplotspec()
        alone = n == 0 and page.current().axes is not None
        if alone or (place is not None and place.is_first_col()):
            axis.set_ylabel(text)


def grid(axis: Axes, which: str = "y") -> None:
    """Faint lines to read values by."""
    axis.set_axisbelow(True)
    axis.grid(axis="both" if which == "both" else "x" if which == "x" else "y")


def from_zero(axes: Sequence[Axes]) -> None:
    """Where all that is drawn is zero, the axis that the panels share does not magnify nothing."""
    # Of axes on which nothing is, the limits of data are infinite.
    if not any(v and math.isfinite(v) for axis in axes for v in axis.dataLim.intervaly):
        for axis in axes:
            axis.set_ylim(0, 1)


def legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """The names of what is shown, in as few lines as they need above the panels."""
    if len(labels) < 2 and "published" not in labels:
        return
    given = page.current().axes
    if given:
        given[0].legend(handles, labels)
        return
    figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=_beside(labels, float(figure.get_figwidth())),
        handlelength=2.2,
        columnspacing=1.6,
        borderaxespad=0.2,
    )


def _beside(labels: Sequence[str], inches: float) -> int:
    """The columns of a legend: as many as there is room for."""
    letters = inches * 72 / float(mpl.rcParams["legend.fontsize"]) / 0.58
    for rows in range(1, len(labels)):
        longest = [max(map(len, labels[n : n + rows])) for n in range(0, len(labels), rows)]
        # Each takes its longest name, its sign and the room beside it.
        if sum(longest) + 8.5 * len(longest) <= letters:
            return len(longest)
    return 1


def end_labels(axis: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Names at the ends of lines (x, y, name, colour), moved apart where they would overlap."""
    points = float(mpl.rcParams["font.size"])
    dpi = page.root(axis).dpi
    gap = 1.15 * points * dpi / 72.0
    # In pixels, so that the scale may be logarithmic.
    placed: list[list[Any]] = sorted(
        [float(axis.transData.transform((x, y))[1]), y, x, name, colour]
        for x, y, name, colour in ends
        if x == x and y == y
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
            xytext=(7, moved * 72.0 / dpi),
            textcoords="offset points",
            color=colour,
            fontsize=points - 0.5,
            va="center",
            annotation_clip=False,
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
