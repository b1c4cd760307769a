"""Flows that were not there for all of the window that goodput is measured in."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu import faults
from wifu.cells import Cell
from wifu.metrics import SIMULATED, Measure, cut_short, parts
from wifu.rows import RATES, Results, by_cell, carriers, rows_of


def partly(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows that were not there for all of the window."""
    measure = results.plan.measure
    if parts(metric)[0] not in RATES or measure.mode != "window":
        return ""
    rows = carriers(rows_of(results, cells), metric)
    over = rows["finished"].eq(True)
    ended = over & (rows["last_byte_s"] < measure.end)
    late = rows["start_s"].fillna(0.0) > measure.start
    never = rows["goodput_bps"].isna()
    short = ~over & never & cut_short(rows["sim_seconds"], measure)
    if short.any():
        told = [
            _cut_window(results, cells, rows, short),
            _gone(cells, _before(rows, measure), "flows"),
        ]
        return " ".join(filter(None, told))
    if not (ended | late).any():
        return ""
    part = (
        f"{int((ended | late).sum())} of {len(rows)} flows were there for a part of the window "
        f"only ({int(ended.sum())} ended inside or before): their goodput is by that part"
    )
    if never.any():
        part += f"; {int(never.sum())} were not there at all, and their runs have no value"
    return f"{part}. {_gone(cells, _before(rows, measure), 'of these')}".rstrip()


def _before(rows: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Of these flows those that were over when the window began, and have no value."""
    over = rows["finished"].eq(True) & (rows["last_byte_s"] <= measure.start)
    return rows[over & rows["goodput_bps"].isna()]


def _gone(cells: Sequence[Cell], before: pd.DataFrame, who: str) -> str:
    if before.empty:
        return ""
    named = by_cell(before, cells)
    return (
        f"{len(before)} {who} were over before the window began (by cell: {named}): "
        "they were the quickest of their cells, and what is left is of the slow ones. There is "
        "neither colour nor bold beside them. Let the window begin sooner, or give flows more to "
        "send."
    )


def dropped(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether the window leaves out some of these cells' flows, which were the quickest."""
    measure = results.plan.measure
    if parts(metric)[0] not in RATES or measure.mode != "window":
        return False
    return not _before(carriers(rows_of(results, cells), metric), measure).empty


def _cut_window(
    results: Results, cells: Sequence[Cell], rows: pd.DataFrame, short: pd.Series[bool]
) -> str:
    """Runs that ended before the window did."""
    measure, keys = results.plan.measure, ["cell", "run"]
    every, cut = len(rows[keys].drop_duplicates()), rows[short][keys].drop_duplicates()
    dead = faults.dead(results, cells)
    with_dead = cut.merge(dead[keys].drop_duplicates(), on=keys)
    window = f"{SIMULATED:.0%} of the window {measure.start:g} s to {measure.end:g} s was over"
    told = []
    if without := len(cut) - len(with_dead):
        told.append(
            f"{without} of {every} runs ended before {window}, and flows that went on have no "
            "value in them: let the window end sooner, or the run later."
        )
    if len(with_dead):
        told.append(
            f"{len(with_dead)} of {every} runs ended after a connection had failed "
            f"({faults.named(dead)}) and before {window}, as nothing else was to come to an end: "
            "flows that went on have no value in them."
        )
    return " ".join(told)
