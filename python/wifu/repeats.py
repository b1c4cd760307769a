"""What intervals are of: runs, or the batches of one run."""

from __future__ import annotations

from wifu import stats
from wifu.api import Results


def batches(results: Results, metric: str) -> list[int]:
    """How many batches the intervals of a metric are of, each number once; none if of runs."""
    found = [results.interval(metric, cell) for cell in results.plan.cells]
    return sorted({i.n for i in found if i.method.startswith(stats.BATCHES)})


def sentence(results: Results) -> str:
    """What a report says above its tables."""
    counts = set(results.ok["cell"].value_counts())
    if counts != {1}:
        told = "Means over runs with the half width of their 95 % interval"
        return told + (f"; n = {counts.pop()} runs in every cell." if len(counts) == 1 else ".")
    every = sorted({n for name in results.plan.metrics for n in batches(results, name)})
    if not every:
        return "One run of each cell, so that there are no intervals."
    span = str(every[0]) if len(every) == 1 else f"{every[0]} to {every[-1]}"
    return (
        f"One run of each cell: an interval is of its {span} batches, with half its width behind "
        "±; what has no batches has none."
    )
