"""Cells of a figure that have no value: what stands in their place, and how captions name them."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.transforms import offset_copy

from wifu import cutoff, stats
from wifu.api import Results
from wifu.cautions import MOST
from wifu.cells import Cell
from wifu.figures import page, style
from wifu.figures.sayings import all_bad
from wifu.figures.words import Words

NONE = "n/a"
"""What stands in place of a value."""


def of(results: Results, cells: Sequence[Cell], metric: str) -> list[Cell]:
    """Those of these cells of which no run has a value, not even the least that it can be."""
    return [c for c in cells if not stats.clean(cutoff.bounded(results, c, metric)).size]


def sentence(
    results: Results, words: Words, cells: Sequence[Cell], without: Sequence[Cell], metric: str,
    along: str | None = None,
) -> str:  # fmt: skip
    """Which of the `cells` of a figure are `without` a value, and why, by what the plan calls
    them; levels `along` an axis stand behind each other.
    """
    why = {c.name: _why(results, c, metric) for c in without}
    return "".join(
        named(words, cells, [c for c in without if why[c.name] == reason], reason, along)
        for reason in dict.fromkeys(why.values())
    )


def named(
    words: Words, cells: Sequence[Cell], some: Sequence[Cell], what: str, along: str | None
) -> str:
    """What is so of `some` of the cells of a figure; nothing if of none."""
    names, listed = {c.name for c in some}, []
    for title, own in words.split(cells, [along]):
        bare = [c for c in own if c.name in names]
        levels = [words.apart(along, c.labels[along]) for c in bare] if along else []
        if bare:
            listed.append(": ".join(filter(None, (title, ", ".join(dict.fromkeys(levels))))))
    if not some:
        return ""
    more = f"; and {len(listed) - MOST} more" if len(listed) > MOST else ""
    told = "; ".join(filter(None, listed[:MOST])) + more
    return f" {what}: {told}." if told else f" {what}."


def _why(results: Results, cell: Cell, metric: str) -> str:
    told = all_bad(results, [cell]) or cutoff.absent(results, [cell], metric)
    return told[:1].upper() + told[1:]


def width(axis: Axes, units: float) -> float:
    """Points of so many units of the horizontal scale."""
    low, high = axis.get_xlim()
    inches = axis.get_position().width * float(page.root(axis).get_figwidth())
    return float(inches * 72 * units / (high - low))


def fits(text: str, points: float) -> bool:
    """Whether a text has room in so many points."""
    return points >= 0.64 * style.small() * (len(text) + 0.6)


def say(axis: Axes, places: Sequence[float], middle: float, count: int) -> None:
    """That there is no value at these places around the `middle` of a level, at the lower end of a
    panel: once where none of so many (`count`) has one; upright where others stand beside it.
    """
    if len(places) == count:
        places, count = [middle], 1
    upright = not fits(NONE, width(axis, 0.8 / count))
    for at in places:
        axis.annotate(
            NONE, (at, 0.0), xycoords=axis.get_xaxis_transform(), xytext=(0, 4),
            textcoords="offset points", ha="center", fontsize=style.small(), color=style.INK,
            rotation=90 if upright else 0,
        )  # fmt: skip


def stacked(axis: Axes, at: float, own: Sequence[int], top: bool) -> None:
    """That levels which look so have no value at a place, one above the other, at the upper or the
    lower end of a panel; of no levels it is said once.
    """
    line = 1.3 * style.small()
    for row, look in enumerate(own or [None]):
        up = -(row + 1) * line if top else 4 + row * line
        aside = 0.0 if look is None else 5.0
        axis.annotate(
            NONE, (at, float(top)), xycoords=axis.get_xaxis_transform(), xytext=(aside, up),
            textcoords="offset points", ha="center", fontsize=style.small(), color=style.INK,
        )  # fmt: skip
        if look is not None:
            place = offset_copy(
                axis.get_xaxis_transform(), page.root(axis), x=-8, y=up + 0.35 * style.small(),
                units="points",
            )  # fmt: skip
            axis.plot(
                [at], [float(top)], ls="", marker=style.marker(look), mfc="white",
                mec=style.colour(look), mew=0.8, ms=style.mark(), transform=place, clip_on=False,
            )  # fmt: skip


def empty(axis: Axes) -> None:
    """That a panel shows nothing, as no cell of it has a value."""
    axis.text(
        0.5, 0.5, "no value", transform=axis.transAxes, ha="center", va="center",
        fontsize=style.small(), color=style.INK, bbox={"fc": "white", "ec": "none", "pad": 2},
    )  # fmt: skip
