"""Means of files whose sizes have no bound to speak of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from wifu import values
from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.errors import LabError
from wifu.metrics import parts
from wifu.rows import RATES, Results, flows_of, rows_of

HEAVY = 2.0
"""Sizes of a Pareto distribution with a lesser shape have no variance but by their greatest."""

FEW = 100
"""With so many runs and more the mean is near to normal for all that."""

SCALE, CAP, WIDE = "10k", "10M", 20
"""The least and the greatest size of files of which a plan says nothing; and how many times as much
the greatest is where there is a tail.
"""


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Where means are of files whose sizes are heavy-tailed."""
    base, only = parts(metric)
    if base not in (*RATES, *OF_FINISHED) or base == "delay_median":
        return ""
    rows = rows_of(results, cells)
    runs = rows.groupby("cell")["run"].nunique()
    found = {
        c.name: float(flow.get("shape", 1.5))
        for c in cells
        for n, flow in flows_of(c)
        if flow.get("app") == "http" and only in (None, n) and runs.get(c.name, FEW) < FEW
        and float(flow.get("shape", 1.5)) < HEAVY and _wide(flow)
    }  # fmt: skip
    if not found:
        return ""
    return (
        f"Sizes of files are heavy-tailed (`http`, shape {min(found.values()):g}): the few large "
        "ones decide means, most samples have too few of them, and intervals hold the true mean "
        "less often than 95 %, where they miss it mostly below it. More runs, a higher `count` or "
        "`delay_median` tell more."
    )


def _wide(flow: Mapping[str, Any]) -> bool:
    """Whether the greatest file is much larger than the least."""
    with suppress(LabError):
        least, most = (values.octets(flow.get(k, v)) for k, v in (("scale", SCALE), ("cap", CAP)))
        return most > WIDE * least
    return False  # what is wrong is told where it is checked
