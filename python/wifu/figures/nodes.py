"""Figures of what nodes of a hop protocol do: round trips, rates, and what is lost at each hop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from wifu import handed, stats, values
from wifu.api import Results
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.figures import legends, page, style
from wifu.figures.compare import (
    Made,
    by_of,
    chosen,
    counting,
    counts,
    first,
    levels,
    looks,
    split,
)
from wifu.figures.traces import columns as columns_of
from wifu.figures.words import Words
from wifu.hopwise import lost_at_hops
from wifu.metrics import metric_of

MOST = 6
"""Panels of rates."""


def trips(results: Results, spec: dict[str, Any]) -> Made:
    """Empirical distribution of the round trips of all packets of all runs that have series."""
    cells, by = chosen(results, spec), by_of(results, spec, None)
    words = Words(results, spec)
    gone, left = counting(results, cells, sorted(results.plan.series_runs))
    parts, cells, rest = split(words, cells, [by])
    figure, axes = page.panels(len(parts), share_x=False)
    every = levels(cells, by)
    looking = looks(results, by, every)
    handles: dict[str, Any] = {}
    told, packets, runs = [], 0, 0
    for axis, (title, members) in zip(axes, parts, strict=True):
        longest = 0.0
        for n, (look, label) in enumerate(zip(looking, every, strict=True)):
            own = [c for c in members if by is None or c.labels[by] == label]
            found = [x for c in own for x in _trips_of(results, c, gone)]
            if not (x := np.concatenate([np.empty(0), *found])).size:
                continue
            packets, runs, longest = (
                packets + x.size,
                runs + len(found),
                max(longest, float(x.max())),
            )
            across, up, marks = style.distribution(x, n, len(every))
            marks |= style.shape(look) if marks else {}
            (line,) = axis.plot(
                across, up, color=style.colour(look), linestyle=style.dash(look), **marks
            )
            handles.setdefault(words.apart(by, label), line)
            named = ", ".join(w for w in (title, words.apart(by, label)) if w)
            told.append(f"{named} {style.number(float(np.median(x)))} s")
        style.entitle(axis, title)
        axis.set_xlabel("round trip, s")
        axis.set_ylim(0, 1.02)
        axis.set_xlim(0, 1.03 * longest if longest else 1.0)
        style.grid(axis, "both")
    if not packets:
        raise LabError("no packet's round trip is known")
    style.label_rows(axes, "share of packets")
    legends.above(figure, list(handles.values()), list(handles))
    caption = (
        f"Round trips of {packets} packets of {runs} runs, from the first time that the source "
        "handed a packet to its driver to the first word that it arrived, overheard or told. "
        f"Medians: {'; '.join(told)}."
    )
    if len(parts) > 1:
        caption += " The panels have scales of their own."
    return figure, "Distribution of round trips", caption + left + rest


def _trips_of(results: Results, cell: Cell, gone: set[tuple[str, int]]) -> list[stats.Floats]:
    """The round trips of each run of a cell that counts and has series."""
    found = []
    for run in sorted(results.plan.series_runs):
        if (cell.name, run) not in gone and (series := results.series(cell, run)):
            source = str(results.outcome(cell, run)["flows"][0]["from"])
            found.append(handed.trips(series, source))
    return found


def rates(results: Results, spec: dict[str, Any]) -> Made:
    """What nodes hand down over time, a column for each cell, a row for each node: of the run whose
    transfer took as long as the median, or longest.
    """
    cells, nodes = chosen(results, spec), [str(n) for n in spec["nodes"]]
    window = values.seconds(spec.get("window", "1s"))
    begin, end = (values.seconds(spec[k]) if k in spec else None for k in ("from", "to"))
    picked = [(c, _picked(results, c, str(spec.get("which", "median")))) for c in cells]
    found, rest = first([(c, run) for c, run in picked if run is not None], MOST)
    if not found:
        raise LabError("no run has series: name some in [series] runs, and the nodes in record")
    figure, columns = columns_of(len(found), len(nodes), own_times=True)
    names = Words(results, spec).titles(cells)
    for (cell, run), column in zip(found, columns, strict=True):
        series, outcome = results.series(cell, run), results.outcome(cell, run)
        over = outcome["flows"][0].get("known_s") or outcome["sim_seconds"]
        down = [handed.handed(series, node) for node in nodes]
        start = min((float(times[0]) for times in down if times.size), default=0.0)
        for axis, times in zip(column, down, strict=True):
            at, rate = handed.rates(times, window, float(over), start)
            axis.plot(at, rate / 1e6, color=style.colour(0), linewidth=0.75 * style.line())
            axis.set_xlim(begin or 0.0, end or float(over))
            _mark(axis, spec.get("published"))
            style.grid(axis)
        style.entitle(column[0], f"{names[cell.name]}, run {run}".removeprefix(", "))
        column[-1].set_xlabel("time, s")
    for row, node in enumerate(nodes):
        style.label_rows([column[row] for column in columns], f"rate at {node}, Mb/s")
        for column in columns:
            # Only now: panels share a scale, and a limit that is set stays.
            column[row].set_ylim(bottom=0)
        page.align([column[row] for column in columns], "y")
    if "published" in spec:
        legends.above(figure, [_published_line()], ["published"])
    which = "the longest" if spec.get("which") == "longest" else "the median"
    caption = (
        "Octets of the application that a node handed to its driver in a window of "
        f"{window:g} s before each instant, repetitions included; of the transfer of {which} time "
        "of each cell."
    )
    return figure, "Rates over time", caption + rest


def _picked(results: Results, cell: Cell, which: str) -> int | None:
    """The run of a cell with series whose transfer took as long as the median, or longest."""
    known = results.runs[(results.runs["cell"] == cell.name) & (results.runs["status"] == "ok")]
    known = known[known["run"].isin(results.plan.series_runs)].sort_values("known_s")
    if known.empty:
        return None
    return int(known["run"].iloc[-1 if which == "longest" else (len(known) - 1) // 2])


def hops(results: Results, spec: dict[str, Any]) -> Made:
    """What is lost at each hop: bars of means, with the quartiles of the runs."""
    metric = str(spec.get("metric", "loss"))
    cells, by = chosen(results, spec), by_of(results, spec, None)
    words = Words(results, spec)
    parts, cells, rest = split(words, cells, [by])
    figure, axes = page.panels(len(parts), height=2.8, columns=2)
    every = levels(cells, by)
    looking = looks(results, by, every)
    handles: dict[str, Any] = {}
    width = 0.8 / len(every)
    for axis, (title, members) in zip(axes, parts, strict=True):
        for n, (look, label) in enumerate(zip(looking, every, strict=True)):
            for cell in (c for c in members if by is None or c.labels[by] == label):
                table = lost_at_hops(results, cell, metric)
                at = np.asarray(table.columns, float) + (n - (len(every) - 1) / 2) * width
                bars = axis.bar(at, table.mean(), width * 0.92, **style.face(look))
                low, high = table.quantile(0.25), table.quantile(0.75)
                axis.vlines(at, low, high, color=style.INK, linewidth=0.8 * style.line())
                handles.setdefault(words.apart(by, label), bars)
        _mark(axis, spec.get("published"))
        style.entitle(axis, title)
        axis.set_xticks(_numbers(axis, results, members, metric))
        axis.set_xlabel("hop")
        style.grid(axis)
    style.label_rows(axes, f"{metric_of(metric).label}, %")
    if "published" in spec:
        handles["published"] = _published_line()
    legends.above(figure, list(handles.values()), list(handles))
    what = {
        "loss": "packets that a node sent which the next one never got, after all attempts",
        "passive_loss": "packets that the next node handed on of which a node heard no attempt",
    }[metric]
    caption = (
        f"Share of the {what}: means, and quartiles of the runs; {counts(results, cells, metric)}."
    )
    return figure, "Lost at each hop", caption + rest


def _numbers(axis: Axes, results: Results, cells: Sequence[Cell], metric: str) -> list[int]:
    return sorted({int(h) for c in cells for h in lost_at_hops(results, c, metric).columns})


def _mark(axis: Axes, published: Any) -> None:
    """A line at each value that a paper has."""
    told = published if isinstance(published, list) else [published]
    for value in (v for v in told if v is not None):
        axis.axhline(value, color=style.INK, linestyle=(0, (1, 1.5)), linewidth=style.line())


def _published_line() -> Line2D:
    return Line2D([], [], color=style.INK, linestyle=(0, (1, 1.5)), linewidth=style.line())
