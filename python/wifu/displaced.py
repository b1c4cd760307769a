"""What one flow has more, and others have less: it is taken from them, and no gain of all."""

from __future__ import annotations

from collections.abc import Sequence

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, ahead, alongside, carriers, rows_of

MORE = 1.05
"""From so many times as much on it is told."""

TAKEN = 0.5
"""... if others have less by so much of it at the least."""


def _found(results: Results, cells: Sequence[Cell], only: int) -> tuple[float, float, str, str]:
    """The most that a flow has more in one of two cells, and what others have less there, both in
    Mb/s, with the names of both cells; nothing if others lack no half of it.
    """
    rows = carriers(rows_of(results, cells))
    rates = rows.groupby(["cell", "flow"])["goodput_bps"].mean().astype(float).unstack()
    # Who is not there in one of two cells lacks nothing.
    rates = rates.dropna(axis=1) / 1e6
    if only not in rates or rates.shape[1] < 2:
        return 0.0, 0.0, "", ""
    own, others = rates[only], rates.drop(columns=only).sum(axis=1)
    pairs = [
        (float(own[a] - own[b]), float(others[b] - others[a]), a, b)
        for a, b in ahead(own, MORE)
        if others[b] - others[a] > TAKEN * (own[a] - own[b])
    ]
    return max(pairs, default=(0.0, 0.0, "", ""))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That it is so, beside the goodput of a flow."""
    base, only = parts(metric)
    if base != "goodput" or only is None:
        return ""
    every = [_found(results, group, only) for group in alongside(results, cells)]
    more, less, one, other = max(every, default=(0.0, 0.0, "", ""))
    if more <= 0:
        return ""
    return (
        f"What flow {only} has more in {one} than in {other} ({more:.3g} Mb/s) other flows "
        f"lack ({less:.3g} Mb/s): it takes it from them. `aggregate` and `jain` tell of all."
    )
