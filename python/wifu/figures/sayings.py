"""What captions of values say: of how many runs they are, with which intervals, and what metrics
are not to be taken for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wifu import cautions, cutoff, stats
from wifu.answering import asks
from wifu.api import Results
from wifu.cells import Cell
from wifu.metrics import metric_of, parts
from wifu.rows import RATES
from wifu.stamps import first as named


def counts(results: Results, cells: Sequence[Cell], metric: str | None = None) -> str:
    """How many runs these cells have, in words; with a `metric` those that have a value of it."""
    if metric is None:
        return counted(results, cells)
    sizes = [stats.clean(results.sample(metric, c.labels)).size for c in cells]
    return counted(results, cells, sizes)


def of_means(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same of means: they have runs of which only the least is known that a value can be."""
    sizes = [stats.clean(cutoff.bounded(results, c, metric)).size for c in cells]
    return counted(results, cells, sizes)


def counted(
    results: Results, cells: Sequence[Cell], sizes: Sequence[int] | None = None,
    lack: str = "have no value",
) -> str:  # fmt: skip
    """The same where so many runs of these cells are shown, and the others `lack` something."""
    have = results.ok["cell"].value_counts()
    n = sorted({int(have.get(c.name, 0)) for c in cells})
    told = "one run per cell" if n == [1] else f"n = {_span(n)} runs per cell"
    if sizes is not None and (known := sorted(set(sizes))) != n:
        told = f"n = {_span(known)} of {_span(n)} runs per cell, the others {lack}"
        told += _fewer(
            [(c.name, k, int(have.get(c.name, 0))) for c, k in zip(cells, sizes, strict=True)]
        )
    return told + left_out(results, cells)


def _fewer(found: Sequence[tuple[str, int, int]]) -> str:
    """Which cells have fewer runs than the others of which some are not shown, and how many: one
    that shows none says so itself.
    """
    some = [f"{name} {k} of {n}" for name, k, n in found if 0 < k < n]
    return f" ({named(some, MOST)})" if 0 < len(some) < len(found) else ""


def left_out(results: Results, cells: Sequence[Cell]) -> str:
    """How many runs of these cells count nowhere, and how many are SUSPECT, in words."""
    runs = results.runs[results.runs["cell"].isin([c.name for c in cells])]
    failed, excluded = (int((runs["status"] == s).sum()) for s in ("failed", "excluded"))
    told = [f"{failed} that failed"] if failed else []
    told += [f"{excluded} excluded"] if excluded else []
    words = f", without {' and '.join(told)}" if told else ""
    counted = runs[runs["status"] == "ok"]
    suspect = int((counted["stamp"] == "SUSPECT").sum()) if "stamp" in counted else 0
    which = "all" if suspect == len(counted) else str(suspect)
    return words + (f", {which} of them stamped SUSPECT" if suspect else "")


def all_bad(results: Results, cells: Sequence[Cell]) -> str:
    """That no run of these cells counts, in words; nothing if some does."""
    status = results.runs[results.runs["cell"].isin([c.name for c in cells])]["status"]
    if status.empty or status.eq("ok").any():
        return ""
    words = {"failed": "failed", "excluded": "are excluded"}
    return f"all runs {' or '.join(told for s, told in words.items() if status.eq(s).any())}"


def of_unlike(cells: Sequence[Cell], flow: int, reverse: bool) -> str:
    """What packets are in cells of which the flow asks in some, and carries its data in others."""
    asking = [c.name for c in cells if asks(c, flow)]
    others = [c.name for c in cells if not asks(c, flow)]
    if not asking or not others:
        return ""
    own, rest = ("answers", "acknowledgements") if reverse else ("questions", "data packets")
    return (
        f" These are {own} and what goes with them in {named(asking, MOST)}, and {rest} in "
        f"{named(others, MOST)}: not the same packets, and not to be compared."
    )


FAR = 1.25
"""A run whose goodput is so many times the mean, or that part of it, is not like the others."""


def one_of(results: Results, cells: Sequence[Cell], run: int) -> str:
    """Of a single run that is shown: of how many, and where its goodput is far from their mean."""
    told, most = [], 0
    for cell in cells:
        sample = results.sample("goodput", cell.labels).droplevel("cell").dropna()
        most = max(most, len(sample))
        mean = float(sample.mean()) if len(sample) > 1 and run in sample.index else 0.0
        ratio = float(sample[run]) / mean if mean > 0 else 1.0
        if not 1 / FAR <= ratio <= FAR:
            told.append(f"{ratio:.2g} times in {cell.name}")
    if most < 2:
        return ""
    words = f" Run {run} is one of {most} of each cell"
    if told:
        more = f" and {len(told) - MOST} more" if len(told) > MOST else ""
        words += f", and not like them: it has their mean goodput {', '.join(told[:MOST])}{more}"
    return f"{words}."


MOST = 4
"""So many cells are named."""


def _span(n: Sequence[int]) -> str:
    return str(n[0]) if len(n) == 1 else f"{n[0]} to {n[-1]}"


def cut_off(results: Results, cells: Sequence[Cell], *names: str) -> str:
    """What a caption says of metrics: what they are, of transfers that the end of a run cut off,
    and of what else is not to be concluded. Nothing is said twice.
    """
    told = [measured(results, names)]
    for metric in names:
        told += [metric_of(metric).about, cutoff.sentence(results, cells, metric)]
        told += cautions.notes(results, cells, metric)
    return "".join(f" {words}" for words in dict.fromkeys(told) if words)


def measured(results: Results, names: Sequence[str]) -> str:
    """What goodput is where metrics are of it and the plan measures it in another way than plans
    do that say nothing of it.
    """
    measure = results.plan.measure
    bases = [base for name in names if (base := parts(name)[0]) in RATES]
    return measure.of(bases).strip() if measure.unusual and bases else ""


def interval_words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Which intervals whiskers are, if there are any."""
    each = [results.interval(metric, c).method for c in cells]
    methods = set(each) - {"none"}
    without = [c for c, method in zip(cells, each, strict=True) if method == "none"]
    samples = [stats.clean(results.sample(metric, c.labels)) for c in without]
    equal = any(x.size > 1 and np.ptp(x) == 0 and x[0] != 0 for x in samples)
    if not methods:
        why = "deterministic" if results.plan.deterministic else "all runs are equal" * equal
        return f"no interval ({why})" if why else "no interval"
    of = " of its batches" if all(method.startswith(stats.BATCHES) for method in methods) else ""
    told = f"whiskers: 95 % interval{of} ({', '.join(sorted(methods))}){stopped(results)}"
    return told + (", none where all runs are equal" if equal else "")


def of_runs(results: Results, cells: Sequence[Cell]) -> str:
    """The same of intervals that are of runs alone: of one run there is none."""
    have = results.ok["cell"].value_counts()
    if max((int(have.get(c.name, 0)) for c in cells), default=0) < 2:
        return "no interval"
    return f"whiskers: 95 % interval{stopped(results)}"


def stopped(results: Results) -> str:
    """What is to be said of intervals if the plan has `until`."""
    until = results.plan.until
    return "" if until is None else ", narrower than nominal as runs ended once it was narrow"


def cut(found: Sequence[stats.Interval], log: bool) -> str:
    """What is to be said of what does not fit a scale that begins at 0, or that has no 0."""
    told = ""
    if log and any(i.estimate <= 0 for i in found):
        told += "; hollow, at the lower end: 0, which a logarithmic scale has not"
    if any(i.known and i.low < (1e-300 if log else 0) <= i.estimate for i in found):
        told += "; whiskers without an end go on below the scale"
    return told
