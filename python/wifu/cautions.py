"""What is to be said beside numbers, so that nobody concludes from them what they do not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pandas as pd

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.plan import Plan


class Results(Protocol):
    """What is asked of results (`wifu.Results`, which uses this module)."""

    plan: Plan
    flows: pd.DataFrame
    runs: pd.DataFrame


SHARES = ("jain", "unfairness", "utility", "lowest", "weakest", "sum_rates")
"""Metrics that take the flows' goodputs for parts of what they share."""


def notes(results: Results, cells: Sequence[Cell], metric: str) -> list[str]:
    """Sentences about a metric in these cells."""
    if "flow" not in results.flows:  # no run came out
        return []
    return [told for said in (_apart, _sum) if (told := said(results, cells, metric))]


def _rows(results: Results, cells: Sequence[Cell]) -> pd.DataFrame:
    """The flows of the runs that count, each with how long its run took."""
    rows = results.flows
    rows = rows[(rows["status"] == "ok") & rows["cell"].isin([c.name for c in cells])]
    return rows.merge(results.runs[["cell", "run", "sim_seconds"]], on=["cell", "run"], how="left")


def _apart(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Where flows were not there at the same time."""
    if parts(metric)[0] not in SHARES or results.plan.measure.mode not in ("transfer", "receiver"):
        return ""
    rows = _rows(results, cells)
    end = rows["last_byte_s"].where(rows["finished"].eq(True), rows["sim_seconds"])
    spans = rows.assign(end=end.fillna(rows["sim_seconds"]), start=rows["start_s"].fillna(0.0))
    by = spans.groupby(["cell", "run"]).agg(
        count=("flow", "size"), last=("start", "max"), first=("end", "min")
    )
    by = by[by["count"] > 1]
    apart = int((by["last"] >= by["first"]).sum())
    if not apart:
        return ""
    return (
        f"In {apart} of {len(by)} runs there was no time at which all flows were there: their "
        "goodputs are of different times, and no shares of one capacity."
    )


def _sum(results: Results, cells: Sequence[Cell], metric: str) -> str:
    if parts(metric)[0] != "sum_rates" or results.plan.measure.mode not in ("transfer", "receiver"):
        return ""
    return (
        "Each flow's goodput is over its own time, so their sum is greater the further apart flows "
        "end, at the same total: `aggregate` is all bytes over the time of all."
    )
