"""The same plan on several substrates, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from wifu import stats
from wifu.api import Results
from wifu.diverge import ABSENT, Divergence
from wifu.errors import LabError
from wifu.figures import page, style
from wifu.figures.words import Words

MOST = 48
"""Cells in a figure."""


def substrates(every: Sequence[Results], found: Divergence, metric: str) -> tuple[Figure, str, str]:
    """A metric in each cell: a bar for each substrate, with its interval."""
    rows = [r for r in found.rows if r.metric == metric and r.verdict != ABSENT]
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
    values: dict[tuple[str, str], stats.Interval] = {}
    for row in rows:
        values[found.reference, row.cell] = row.reference
        values[row.substrate, row.cell] = row.other
    wide = max(page.width(1), min(13.0, 2.0 + 0.42 * len(cells) * len(names)))
    figure = page.figure(wide, 3.8)
    axis = figure.subplots()
    width = 0.8 / len(names)
    handles = []
    for n, name in enumerate(names):
        at = np.arange(len(cells)) + (n - (len(names) - 1) / 2) * width
        own = [values.get((name, c)) for c in cells]
        heights = [i.estimate if i is not None else np.nan for i in own]
        halves = [i.half if i is not None and i.known else 0.0 for i in own]
        bars = axis.bar(
            at, heights, width * 0.92, yerr=[h or np.nan for h in halves],
            **style.face(n),
            error_kw={"ecolor": style.INK, "elinewidth": 1.1, "capsize": 2.5},
        )  # fmt: skip
        handles.append(bars)
    style.places(axis, range(len(cells)), [labels[c] for c in cells])
    axis.set_xlabel(", ".join(words.axis(name) for name in rows[0].labels))
    style.from_zero([axis])
    axis.tick_params(axis="x", length=0)
    axis.set_ylabel(label)
    style.grid(axis)
    style.legend(figure, handles, names)
    title = f"{label[:1].upper()}{label[1:]} on {', '.join(names)}"
    return figure, title, f"{label[:1].upper()}{label[1:]}; whiskers: 95 % interval (Student t)."
