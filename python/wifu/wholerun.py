"""Numbers of the whole run, that stand beside goodput of a part of it."""

from __future__ import annotations

from collections.abc import Sequence

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.plan import Plan
from wifu.rows import RATES, Results, rows_of

OF_ITSELF = ("finished",)
"""What nobody takes for a number of a part of the run."""

OVER_TIME = ("srtt", "rtt_p")
"""What a recorded series has over time."""


def _part(plan: Plan) -> str:
    """What goodput is of, if that is not the whole run."""
    measure = plan.measure
    if measure.mode == "window":
        return f"the window ({measure.start:g} s to {measure.end:g} s)"
    if measure.mode == "steady" and measure.discard:
        return "batches without the first" + (f" {measure.discard}" if measure.discard > 1 else "")
    return ""


def _named(metric: str) -> bool:
    return parts(metric)[0] not in (*RATES, *OF_ITSELF)


def sentence(plan: Plan) -> str:
    """What stands above the tables of a plan, if some of its metrics are of the whole run."""
    found = [f"`{name}`" for name in plan.metrics if _named(name)]
    if not (part := _part(plan)) or not found:
        return ""
    named = f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else found[0]
    verb = "are" if len(found) > 1 else "is"
    return f"Goodput alone is of {part}: {named} {verb} of the whole run, its start included. "


def found(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether a metric is of the whole run where goodput is of less of it, whenever runs ended."""
    measure = results.plan.measure
    if not _named(metric) or not _part(results.plan):
        return False
    if measure.mode != "window" or measure.start > 0:
        return True
    return bool((rows_of(results, cells)["sim_seconds"] > measure.end).any())


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That a metric is of more than goodput is of."""
    if not found(results, cells, metric):
        return ""
    base, part = parts(metric)[0], _part(results.plan)
    told = "Of the whole run, its start included"
    if base == "srtt":
        told = "The last one that a flow had, whenever that was"
    told += f"; goodput alone is of {part}. There is neither colour nor bold."
    if base.startswith(OVER_TIME):
        told += ' A recorded series has it over time (`series.record = ["srtt"]`).'
    return told
