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
    if only not in rates:
        return 0.0, 0.0, "", ""
    own, others = rates[only] / 1e6, rates.drop(columns=only) / 1e6
    pairs = [
        (gain, loss, a, b)
        for a, b in ahead(own, MORE)
        # Who is not there in one of the two lacks nothing.
        if (loss := float((others.loc[b] - others.loc[a]).sum()))
        > TAKEN * (gain := float(own[a] - own[b]))
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
