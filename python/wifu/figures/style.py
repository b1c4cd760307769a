"""How figures look: colours that colour-blind readers can tell apart, and what is common."""

from __future__ import annotations

import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.colors as mcolors
import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from matplotlib.ticker import (
    AutoLocator,
    FixedLocator,
    FuncFormatter,
    Locator,
    MaxNLocator,
    NullFormatter,
    ScalarFormatter,
)

from wifu.errors import LabError
from wifu.figures import page

INK, MUTED, FAINT = "#20242a", "#6b7280", "#d8dce2"

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#e69f00", "#56b4e9", "#7a5c2e", "#4d4d4d")
"""After Okabe and Ito; neighbours also differ in lightness."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "d", "h")
"""More than colours, so that those who share a colour in grey do not share a shape."""

DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.6)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (9, 1.5)),
)
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oooo")
LATER_HATCHES = (*HATCHES[1:], "||||")


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
    """Its marker: of two with the same colour never the same."""
    return MARKERS[n % len(MARKERS)]


def shape(n: int) -> dict[str, Any]:
    """Its marker as it stands on a line of many points."""
    return {
        "marker": marker(n), "markersize": mark(), "markeredgewidth": 0.5,
        "markeredgecolor": "white",
    }  # fmt: skip


def distribution(x: Any, n: int, count: int, reach: float = 1.0) -> tuple[Any, Any, dict[str, Any]]:
    """The corners of the empirical distribution of `x`, which ends at the share `reach`, and how
    the nth of `count` such curves shows its shape: each at shares of its own, so that all are seen
    where curves lie on each other.
    """
    steps, places = np.unique(np.asarray(x, dtype=float), return_counts=True)
    shares = reach * np.cumsum(places) / places.sum()
    across = np.repeat(steps, 2)
    up = np.concatenate(([0.0], np.repeat(shares, 2)[:-1]))
    if count < 2:
        return across, up, {}
    at = reach * (np.arange(STEPS) + (n + 0.5) / count) / STEPS
    step = np.searchsorted(shares, at).clip(max=len(steps) - 1)
    before = 2 * step + 1
    points = [int(k) for k in before + np.arange(STEPS)]
    return np.insert(across, before, steps[step]), np.insert(up, before, at), {"markevery": points}


STEPS = 4
"""So many shapes stand on a distribution."""


def marked(times: Any, y: Any, n: int, count: int, span: tuple[float, float]) -> list[int]:
    """The points with a shape of the nth of `count` lines over time, those of each line at times of
    its own.
    """
    start, end = span
    at = start + (end - start) * (np.arange(MARKED) + (n + 0.5) / count) / MARKED
    points = np.searchsorted(times, at)
    return [int(i) for i in np.unique(points) if i < len(times) and np.isfinite(y[i])]


MARKED = 7
"""So many shapes stand on a line over time."""


def later_marker(n: int) -> str:
    """The same for clouds of dots: round ones, until colours are used again."""
    return MARKERS[n // len(COLOURS) % len(MARKERS)]


def hatch(n: int) -> str:
    """Its hatching, and of two with the same colour never the same."""
    if n < len(COLOURS):
        return HATCHES[n]
    return LATER_HATCHES[(n + n // len(COLOURS) - 1) % len(LATER_HATCHES)]


def face(n: int) -> dict[str, Any]:
    """How its bars look. Where colours are used again, lines are dark on a pale ground: there
    hatches are too few, and in grey many colours are the same.
    """
    again = n >= len(COLOURS)
    red, green, blue = mcolors.to_rgb(colour(n))
    pale = tuple(1.0 - 0.45 * (1.0 - part) for part in (red, green, blue))
    return {
        "facecolor": pale if again else colour(n),
        "edgecolor": INK if again else "white",
        "hatch": hatch(n),
        "linewidth": 0,
    }


def hollow(n: int) -> dict[str, Any]:
    """The same of a value that is but the least that it can be."""
    edge = face(n)["facecolor"] if n < len(COLOURS) else INK
    return {"facecolor": "white", "edgecolor": edge, "hatch": hatch(n), "linewidth": 1.2}


WHOLE = (-9, 10)
"""Powers of ten between which numbers along a scale are written out."""

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
                # A number that is to be added to all others, or a factor of them, is overlooked.
                "axes.formatter.useoffset": False,
                "axes.formatter.limits": WHOLE,
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


def halo() -> list[Any]:
    """White around text that may stand on what is drawn."""
    return [patheffects.withStroke(linewidth=2.5, foreground="white")]


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
    # In all formats as it was folded, and not laid out twice anew for each.
    figure.set_layout_engine("none")
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


def beneath(figure: Figure, caption: str) -> None:
    """Write a caption below the panels of a figure, which becomes higher by it."""
    size = small()
    text = textwrap.fill(caption, int(float(figure.get_figwidth()) * 72 / size / 0.56))
    figure.supxlabel(text, x=0.01, ha="left", fontsize=size, color=MUTED).set_gid("caption")
    lines = text.count("\n") + 1
    figure.set_figheight(float(figure.get_figheight()) + (lines * 1.25 + 0.6) * size / 72)


def fold(figure: Figure) -> None:
    """Names longer than the panel that they stand at go on in a second line; where names leave the
    panels too little of the height, the figure becomes higher.
    """
    high = float(figure.get_figheight())
    # As they were given: in a figure that became higher they need fewer lines.
    names = {a: (a.get_xlabel(), a.get_ylabel(), a.get_title(loc="left")) for a in figure.axes}
    for _ in range(5):
        more = 0.4 * high
        if not _laid_out(figure):
            # Long names leave no room before they are folded: by where panels would be without.
            for axis in figure.axes:
                _fold_names(axis, names[axis])
        if _laid_out(figure):
            for axis in figure.axes:
                _keep_apart(axis)
                _fold_names(axis, names[axis])
            if _laid_out(figure):
                more = PANELS * high - _stacked(figure)
                if more <= 0:
                    return
        figure.set_figheight(page.lower(float(figure.get_figheight()) + max(more, 0.05 * high)))


PANELS = 0.5
"""The least share of a figure's height for panels, before it becomes higher for names."""


def _laid_out(figure: Figure) -> bool:
    """Lay a figure out; whether there was room for its panels."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        figure.draw_without_rendering()
    return not any("collapsed" in str(warning.message) for warning in told)


def _stacked(figure: Figure) -> float:
    """Inches of the panels that stand above each other, without what is written around them."""
    heights: dict[int, float] = {}
    for axis in figure.axes:
        box = axis.get_window_extent()
        if axis.get_visible() and axis.get_subplotspec() is not None:
            # Those of one column begin at the same place.
            column = round(box.x0 / 8)
            heights[column] = heights.get(column, 0.0) + box.height / figure.dpi
    return max(heights.values(), default=float("inf"))


def whole(axis: Axes) -> None:
    """Write numbers out along scales of axes that have not this style."""
    for scale in (axis.xaxis, axis.yaxis):
        formatter = scale.get_major_formatter()
        if isinstance(formatter, ScalarFormatter):
            formatter.set_useOffset(False)
            formatter.set_powerlimits(WHOLE)


def _keep_apart(axis: Axes) -> None:
    """Take fewer numbers along the horizontal scale where they would run into each other, as those
    of many digits do. Those that somebody chose stay.
    """
    if not isinstance(axis.xaxis.get_major_locator(), AutoLocator):
        return
    for most in (5, 4, 3, 2, 1):
        axis.get_xticklabels()  # which brings the ticks up to date
        low, high = sorted(axis.get_xlim())
        texts = [t.label1 for t in axis.xaxis.get_major_ticks() if low <= t.get_loc() <= high]
        boxes = [text.get_window_extent() for text in texts if text.get_visible()]
        if all(two.x0 - one.x1 > 0.6 * one.height for one, two in pairwise(boxes)):
            return
        axis.xaxis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))


def _fold_names(axis: Axes, names: tuple[str, str, str]) -> None:
    box, figure = axis.get_window_extent(), page.root(axis)
    size = float(mpl.rcParams["axes.titlesize"])
    place = axis.get_subplotspec()
    # A title may go on over what is beside a panel that is narrower than its column.
    across = place.get_gridspec().ncols if place is not None else 0
    wide = 0.88 * figure.bbox.width / across if across else 0.0
    wide = min(wide, float(figure.bbox.width - box.x0))
    rooms = (box.width, box.height, max(box.width, wide))
    puts: list[Callable[[str], object]] = [axis.set_xlabel, axis.set_ylabel]
    puts.append(partial(axis.set_title, loc="left", color=MUTED))
    for text, room, put in zip(names, rooms, puts, strict=True):
        letters = max(10, int(1.05 * room * 72 / figure.dpi / (0.56 * size)))
        if text:
            put(wrapped(text, letters))


def wrapped(text: str, letters: int) -> str:
    """Lines of so many letters at most. They end behind commas where that can be, else between
    words; only what is longer than a line is cut.
    """
    lines = []
    for given in text.split("\n"):
        line = ""
        for piece in re.findall(r"[^,]+,?\s*|,", given):
            if line and len((line + piece).rstrip(" ")) > letters:
                lines.append(line.rstrip(" "))
                line = ""
            if len(piece.rstrip(" ")) > letters:
                end = " " if piece.endswith(" ") else ""
                *full, piece = textwrap.wrap(piece, letters, break_on_hyphens=False)
                lines += full
                piece += end
            line += piece
        lines.append(line.rstrip(" "))
    return "\n".join(lines)


def patch(n: int) -> Patch:
    """What a legend shows for bars."""
    return Patch(**face(n))


def label_rows(axes: Sequence[Axes], text: str) -> None:
    """Write what the scale is beside the first panel of each row, or of those that were given."""
    for n, axis in enumerate(axes):
        place = axis.get_subplotspec()
        alone = n == 0 and page.current().axes is not None
        if alone or (place is not None and place.is_first_col()):
            axis.set_ylabel(text)


def unseen(axis: Axes, value: float, highest: float) -> bool:
    """Whether a bar is so low beside the highest one that nobody sees it."""
    inches = axis.get_position().height * float(page.root(axis).get_figheight())
    return 0 < value < highest and value / highest * inches * 72 < LOW


LOW = 2.5
"""Points that a bar is high, to be seen."""


def grid(axis: Axes, which: str = "y") -> None:
    """Faint lines to read values by."""
    axis.set_axisbelow(True)
    axis.grid(axis="both" if which == "both" else "x" if which == "x" else "y")


def logarithmic(axis: Axes, which: str = "y") -> None:
    """A scale of powers of ten, with numbers as `log_ticks` has them."""
    getattr(axis, f"set_{which}scale")("log")
    scale = axis.xaxis if which == "x" else axis.yaxis
    scale.set_major_locator(_Numbers())
    scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    scale.set_minor_formatter(NullFormatter())


class _Numbers(Locator):
    """Where the numbers of a logarithmic scale stand, whichever range is shown."""

    def __call__(self) -> Sequence[float]:
        assert self.axis is not None, "a locator of a scale"
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        low, high = sorted((vmin, vmax))
        return log_ticks(low, high) if 0 < low < high else []


def log_ticks(low: float, high: float) -> list[float]:
    """Values of a logarithmic scale that are written: two at least."""
    if high / low < 3.2:
        # As evenly as numbers are: so narrow, the scale is nearly linear.
        even = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
        found = [float(f"{v:.9g}") for v in even]
    else:
        few = (1, 1.5, 2, 3, 4, 5, 6, 8) if high / low <= 5 else (1, 2, 5)
        parts = few if high / low < 500 else (1,)
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        step = math.ceil(len(decades) / 8)
        found = [float(f"{part}e{n}") for n in decades if n % step == 0 for part in parts]
    return [v for v in found if low <= v <= high]


def places(axis: Axes, at: Sequence[float], names: Sequence[str], numbers: bool = False) -> None:
    """Names along the horizontal scale, whose limits are set. Those that would run into each other
    are tilted; of `numbers` some stand below the others, or are left out where places say as much.
    """
    _insist_on_its_own(axis, at, names)
    low, high = axis.get_xlim()
    inches = axis.get_position().width * float(page.root(axis).get_figwidth())
    # A size may be a name, as in somebody else's style.
    size = FontProperties(size=mpl.rcParams["xtick.labelsize"]).get_size_in_points()
    letters = inches * 72 / (0.58 * size) / (high - low)
    needed = [(len(one) + len(two)) / 2 + 1 for one, two in pairwise(names)]
    room = [letters * (two - one) for one, two in pairwise(at)]
    tilted = any(n > r for n, r in zip(needed, room, strict=True))
    if tilted and numbers:
        names, tilted = _staggered(at, names, letters), False
    before = [letters * (where - low) for where in at]
    wide = 0.25 * float(page.root(axis).get_figwidth()) * 72 / (0.58 * size)
    if tilted and any(TILT * len(n) - b > wide for n, b in zip(names, before, strict=True)):
        # Tilted, they would leave the panel less room than they take beside it.
        lines = int(
            letters * min((two - one for one, two in pairwise(at)), default=1.0) * 0.58 / 1.3
        )
        names = [_folded(name, lines) for name in names]
        axis.set_xticks(list(at), names, rotation=90, ha="center", va="top", ma="right")
        return
    axis.set_xticks(
        list(at), list(names), rotation=35 if tilted else 0, ha="right" if tilted else "center"
    )


TILT = 0.82
"""How wide a tilted name is, by its length."""


def _folded(name: str, lines: int) -> str:
    """A name in so many lines at most, each as short as that allows."""
    for letters in range(max(SHORT, len(name) // max(1, lines)), len(name)):
        if (told := wrapped(name, letters)).count("\n") < lines:
            return told
    return name


SHORT = 16
"""Letters of a line of an upright name at least."""


def _insist_on_its_own(axis: Axes, at: Sequence[float], names: Sequence[str]) -> None:
    """LabError if axes that share this scale have other names: those of all would be the last."""
    before = axis.xaxis.get_major_locator()
    if len(axis.get_shared_x_axes().get_siblings(axis)) < 2 or not isinstance(before, FixedLocator):
        return
    formatter = axis.xaxis.get_major_formatter()
    # Folded, they are the same names.
    there = {float(v): "".join(formatter(v, n).split()) for n, v in enumerate(axis.get_xticks())}
    wanted = {float(v): "".join(name.split()) for v, name in zip(at, names, strict=True)}
    if there and (
        there.keys() != wanted.keys() or any(there[v] not in ("", wanted[v]) for v in there)
    ):
        raise LabError(
            "panels of this figure have other levels than each other: give axes that do not share "
            "their x (sharex=False)"
        )


def _staggered(at: Sequence[float], names: Sequence[str], letters: float) -> list[str]:
    """Names of which those that have no room stand in a second line, as far as there is room; of
    places as far apart as each other, which need no names to be read, they are left out.
    """
    first = _thinned(at, names, letters)
    steps = [two - one for one, two in pairwise(at)]
    left = [n for n, name in enumerate(first) if not name]
    if not left or max(steps) - min(steps) < 1e-6 * (at[-1] - at[0]):
        return first
    second = _thinned([at[n] for n in left], [names[n] for n in left], letters, ends=False)
    for n, name in zip(left, second, strict=True):
        first[n] = f"\n{name}" if name else ""
    return first


def _thinned(
    at: Sequence[float], names: Sequence[str], letters: float, ends: bool = True
) -> list[str]:
    """Without the names that have no room at their places, where there are so many `letters` to a
    unit; the first and the last stay if the `ends` are to.
    """
    kept = [0, len(names) - 1] if ends else []

    def apart(one: int, two: int) -> bool:
        return letters * abs(at[one] - at[two]) >= (len(names[one]) + len(names[two])) / 2 + 1

    for n in range(len(names)):
        if n not in kept and all(apart(n, other) for other in kept):
            kept.append(n)
    return [name if n in kept else "" for n, name in enumerate(names)]


def from_zero(axes: Sequence[Axes]) -> None:
    """Where all that is drawn is zero, the axis that the panels share does not magnify nothing."""
    # Of axes on which nothing is, the limits of data are infinite.
    if not any(v and math.isfinite(v) for axis in axes for v in axis.dataLim.intervaly):
        for axis in axes:
            axis.set_ylim(0, 1)


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
