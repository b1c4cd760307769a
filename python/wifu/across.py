"""Levels that a figure sets beside each other along another axis than the plan's `pair`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wifu import unlike
from wifu.cells import Cell
from wifu.metrics import metric_of
from wifu.rows import Results
from wifu.stamps import first

MOST = 3
"""Reasons that are told."""

DEFAULTS = {"bars": "", "lines": "", "cdf": "goodput", "flows": "goodput", "fairness": "jain"}
"""Kinds of figures that set levels beside each other, with the metric they are of if none is
named; empty: the plan's first.
"""


def beside(cells: Sequence[Cell], axis: str) -> list[list[Cell]]:
    """Cells that stand beside each other along an axis: same but for it."""
    by: dict[str, list[Cell]] = {}
    for cell in cells:
        rest = {k: v for k, v in cell.labels.items() if k != axis}
        by.setdefault(json.dumps(rest), []).append(cell)
    return [group for group in by.values() if len(group) > 1]


def metrics_of(results: Results, spec: Mapping[str, Any]) -> list[str]:
    """The metrics by which a figure sets levels beside each other."""
    kind = str(spec["kind"])
    if kind == "tradeoff":
        return [str(spec.get("metric", "aggregate")), str(spec.get("against", "srtt"))]
    if kind not in DEFAULTS:
        return []
    return [str(spec.get("metric", DEFAULTS[kind] or results.plan.metrics[0]))]


def sentence(results: Results, cells: Sequence[Cell], spec: Mapping[str, Any], axis: str) -> str:
    """What a caption says of levels along another axis than `pair` (called `axis` in it), where
    there are reasons against calling one better. What is said of cells is along `pair`.
    """
    by, pair = spec.get("by"), results.plan.pair
    if pair is None or by is None or by == pair:
        return ""
    told = []
    for metric in metrics_of(results, spec):
        groups = beside(cells, by)
        found = [whys for group in groups if (whys := unlike.reasons(results, group, metric))]
        if whys := list(dict.fromkeys(why for own in found for why in own)):
            named = "; ".join(whys[:MOST]) + (f"; {len(whys) - MOST} more" * (len(whys) > MOST))
            some = f" in {len(found)} of {len(groups)} comparisons" * (len(found) < len(groups))
            told.append(f"by {metric_of(metric).label}{some} ({named})")
    if not told:
        return ""
    return f"No level of {axis} is to be called better or worse {first(told)}."
