"""Where a distribution lies of which the least alone is known of some runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from wifu import cutoff, stats
from wifu.api import Results
from wifu.cells import Cell
from wifu.figures import style
from wifu.metrics import metric_of

PALE = "#eceef1"
"""Where several bands lie on each other: colours of their own would blend into one of none."""


@dataclass(frozen=True)
class Band:
    """The runs of a curve: those whose values are known, and the least that others can be."""

    known: stats.Floats
    least: stats.Floats
    look: int
    nth: int
    """Which of the curves of its panel it is."""


def longer(results: Results, cells: Sequence[Cell], name: str | None) -> int:
    """How many runs have a value of which only the least is known, as they were cut off."""
    if name is None or not cutoff.of_finished(name):
        return 0
    return sum(len(cutoff.runs(results, c, name)) for c in cells)


def least(results: Results, cells: Sequence[Cell], name: str | None) -> stats.Floats:
    """The least that the values of those runs can be in which transfers were cut off."""
    if name is None or not cutoff.of_finished(name):
        return stats.clean(())
    every = [(c, run) for c in cells for run in sorted(cutoff.runs(results, c, name))]
    found = [cutoff.at_least(results, cell, run, name) for cell, run in every]
    return stats.clean(found) / metric_of(name).scale


def draw(
    axes: Sequence[Axes],
    every: Sequence[Sequence[Band]],
    count: int,
    samples: Sequence[stats.Floats],
) -> bool:
    """The bands of each panel of `count` curves, which show `samples`; whether any has several."""
    far = 10 * max((float(x.max()) for x in samples if x.size), default=0.0)
    for axis, found in zip(axes, every, strict=True):
        _draw(axis, found, count, max(far, 1e-9))
    return any(sum(bool(b.least.size) for b in found) > 1 for found in every)


def _draw(axis: Axes, bands: Sequence[Band], count: int, far: float) -> None:
    """The bands of a panel of `count` curves, to the end of the panel, which is before `far`. One
    alone has the colour of its curve. Of several, which may be the same, the upper edges tell which
    is whose: each has hollow shapes at shares of its own.
    """
    shown = [band for band in bands if band.least.size]
    for band in shown:
        ends = np.unique(np.concatenate([band.known, band.least]))
        at = np.append(ends, far)
        total = band.known.size + band.least.size
        sure = np.searchsorted(np.sort(band.known), at, side="right")
        most = sure + np.searchsorted(np.sort(band.least), at, side="right")
        top, bottom = most[:-1] / total, sure[:-1] / total
        colour, dash = style.colour(band.look), style.dash(band.look)
        if len(shown) == 1:
            axis.stairs(
                top, at, baseline=bottom, fill=True, facecolor=colour, alpha=0.14, linewidth=0
            )
        else:
            axis.stairs(
                top, at, baseline=bottom, fill=True, facecolor=PALE, linewidth=0, zorder=0.2
            )
        axis.stairs(
            top, at, baseline=None, edgecolor=colour, linestyle=dash,
            linewidth=0.5 * style.line(), alpha=0.7, zorder=1.5,
        )  # fmt: skip
        if len(shown) > 1:
            every = np.concatenate([band.known, band.least])
            x, y, marks = style.distribution(every, band.nth, count)
            (line,) = axis.plot(
                x,
                y,
                color=colour,
                linestyle=dash,
                linewidth=0.5 * style.line(),
                zorder=2.5,
                **marks,
            )
            line.set(**hollow(band.look))


def hollow(look: int) -> dict[str, Any]:
    """The shape on the edge of a band."""
    return {
        "marker": style.marker(look), "markerfacecolor": "white", "markeredgewidth": 0.8,
        "markeredgecolor": style.colour(look), "markersize": style.mark(),
    }  # fmt: skip
