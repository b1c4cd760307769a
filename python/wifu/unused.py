"""Levels that made the very same runs: what sets them apart was not used there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import combinations

from wifu.cells import Cell
from wifu.rows import Results
from wifu.stamps import first

MOST = 4
"""Pairs of levels that are named."""


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Levels of axes, but for what is compared run by run and said to be identical there, whose
    runs were the same packet by packet.
    """
    del metric
    told = [t for axis in results.plan.axes if (t := _of(results, cells, axis.name))]
    if not told:
        return ""
    return (
        f"{' '.join(told)} What sets them apart made no difference there: it was not used, or was "
        "no limit."
    )


def _of(results: Results, cells: Sequence[Cell], axis: str) -> str:
    """The levels of an axis whose runs were the same, in words."""
    if axis == results.plan.pair:
        return ""
    traces, found = _traces(results), dict[tuple[str, str], list[bool]]()
    for one, two in _pairs(cells, axis):
        mine, others = (traces.get(cell.name) for cell in (one, two))
        if mine and others and mine.keys() & others.keys():
            same = all(mine[run] == others[run] for run in mine.keys() & others.keys())
            labels = str(one.labels[axis]), str(two.labels[axis])
            found.setdefault(labels, []).append(same)
    alike = {labels: every for labels, every in found.items() if any(every)}
    if not alike:
        return ""
    named = [
        f"{a} and {b}" + ("" if all(e) else f" in {sum(e)} of {len(e)} places")
        for (a, b), e in alike.items()
    ]
    return f"Along `{axis}` runs were the same packet by packet: {first(named, MOST)}."


def _traces(results: Results) -> dict[str, dict[int, str]]:
    """What each run of the simulator did, as one number, by cell and run."""
    runs = results.runs
    if "trace_hash" not in runs or "status" not in runs:
        return {}
    runs = runs[runs["status"].eq("ok") & runs["trace_hash"].notna()]
    out: dict[str, dict[int, str]] = {}
    for cell, run, trace in zip(runs["cell"], runs["run"], runs["trace_hash"], strict=True):
        out.setdefault(str(cell), {})[int(run)] = str(trace)
    return out


def _pairs(cells: Sequence[Cell], axis: str) -> Iterator[tuple[Cell, Cell]]:
    """Cells that are the same but for this axis, two by two."""
    by: dict[str, list[Cell]] = {}
    for cell in cells:
        others = {name: str(label) for name, label in cell.labels.items() if name != axis}
        by.setdefault(json.dumps(others, sort_keys=True), []).append(cell)
    for group in by.values():
        yield from combinations(group, 2)
