"""The step that log utility has where a flow starves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wifu.cells import Cell
from wifu.even import STARVED_BPS, STARVED_UTILITY_BPS
from wifu.metrics import parts
from wifu.rows import Results, by_cell, carriers, rows_of

NEAR = 2.0
"""Rates within so many times of the one below which a flow starves are near to it."""


def floored(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows that starve, or nearly do, whose utility is not the logarithm of their rate."""
    if parts(metric)[0] != "utility":
        return ""
    rows = carriers(rows_of(results, cells), metric)
    rates = rows["goodput_bps"].astype(float)
    starved = rows[rates < STARVED_BPS]
    near = rows[(rates > STARVED_BPS / NEAR) & (rates < STARVED_BPS * NEAR)]
    step = np.log10(STARVED_BPS / STARVED_UTILITY_BPS)
    rule = (
        f"below {STARVED_BPS / 1e3:g} kb/s a flow counts as {STARVED_UTILITY_BPS:g} b/s, whatever "
        f"it had, so that the log utility has a step of {step:.1f} there"
    )
    told = []
    if len(starved):
        told.append(f"{len(starved)} of {len(rows)} flows starved (by cell: "
                    f"{by_cell(starved, cells)}): {rule}.")  # fmt: skip
    if len(near):
        told.append(
            f"{len(near)} of {len(rows)} flows had {STARVED_BPS / NEAR:g} to "
            f"{STARVED_BPS * NEAR:g} b/s: on which side they are decides"
            + (" that step." if told else f", as {rule}.")
        )
    return " ".join(told)
