"""Figures of what each flow of a run gets, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from wifu import cautions, cutoff, stats
from wifu.api import Results
from wifu.cautions import carriers
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.figures import legends, page, style
from wifu.figures.compare import (
    Made,
    by_of,
    capital,
    chosen,
    counted,
    levels,
    looks,
    of_runs,
    split,
    whiskers,
)
from wifu.figures.words import Words, with_unit
from wifu.metrics import TOGETHER, metric_of
from wifu.stamps import first

COLUMN = {"goodput": "goodput_bps", "delay": "delay_finished_s"}
"""What a flow can be drawn by, and its column of the table of flows."""

ALL = {"goodput": "all", "delay": "mean"}
"""What stands behind the flows: what they carry together (`aggregate`), or the mean."""


def flows(results: Results, spec: dict[str, Any]) -> Made:
    """A group of bars for each flow and one for all, a bar for each level of `by`."""
    cells = chosen(results, spec)
    by = by_of(results, spec, None)
    metric, ranked = str(spec.get("metric", "goodput")), bool(spec.get("sorted", False))
    words = Words(results, spec)
    parts, cells, rest = split(words, cells, [by])
    shown = {c.name: _table(results, c, metric, spec.get("run"), ranked) for c in cells}
    # Cells may have other numbers of flows: each has its place, and what is of all is behind them.
    numbers = sorted({n for own, _ in shown.values() for n in own})
    count = len(numbers)
    if not numbers:
        raise LabError("no run has flows" if spec.get("run") is None else f"no run {spec['run']}")
    every = levels(cells, by)
    looking = looks(results, by, every)
    # With their ends flows may be called something else in each panel.
    called = [_names(results, members, numbers, ranked) for _, members in parts]
    if not ranked:
        called = [_labelled(words, metric, numbers, names) for names in called]
    same = all(names == called[0] for names in called)
    figure, axes = page.panels(len(parts), share_x=same)
    for axis, (title, members), names in zip(axes, parts, called, strict=True):
        bare = _bare([shown[c.name] for c in members], numbers)
        for n, label in enumerate(every):
            for cell in (c for c in members if by is None or c.labels[by] == label):
                at = (n - (len(every) - 1) / 2) * 0.8 / len(every)
                own, table = shown[cell.name]
                at_flows = [float(numbers.index(flow)) for flow in own]
                places = [at + place for place in (*at_flows, float(count))]
                bounds = _least(results, cell, spec, None if ranked else own, len(table.T))
                _bars(axis, table, (metric, bounds), (places, 0.8 / len(every), bare), looking[n])
        for place in bare:
            _on(axis, place, 0.0, "n/a")
        axis.set_xlim(-0.55, count + 0.55)
        style.places(axis, range(count + 1), [*names, ALL[metric]])
        axis.axvline(count - 0.5, color=style.MUTED, linewidth=0.8)
        axis.tick_params(axis="x", length=0)
        axis.margins(y=0.12)
        style.entitle(axis, title)
        axis.set_xlabel(RANKS[metric] if ranked else "flow")
        style.grid(axis)
    # Only now: panels have one scale, which would be that of the first of them.
    for axis in axes:
        axis.set_ylim(bottom=0)
    style.from_zero(axes)
    page.align(axes, "y")
    what = words.quantity(metric, NAMES[metric])
    style.label_rows(axes, with_unit(f"{what} of a flow", metric_of(metric).unit))
    named = [
        (style.patch(look), words.apart(by, label))
        for look, label in zip(looking, every, strict=True)
    ]
    legends.above(figure, [p for p, _ in named], [name for _, name in named])
    caption = f"{capital(what)} of each flow, and "
    together = f"of all together (aggregate: {TOGETHER[results.plan.measure.mode]}); "
    caption += together if metric == "goodput" else "the mean of all files; "
    if ranked:
        caption += f"in each run flows are in order, {RANKS[metric].removeprefix('flows, ')}; "
    if "run" in spec:
        caption += f"run {spec['run']} alone."
    else:
        sizes = [int(np.isfinite(shown[c.name][1][:, -1]).sum()) for c in cells if shown[c.name][0]]
        caption += f"{of_runs(results, cells)}; {counted(results, cells, sizes)}."
    caption += _without([table for _, table in shown.values()], metric)
    caption += _beside(results, cells, metric == "goodput" and not ranked)
    told = [cutoff.sentence(results, cells, metric), *cautions.notes(results, cells, metric)]
    told = [words for words in told if words and "are left out" not in words]
    caption += "".join(f" {words}" for words in told)
    return figure, f"{capital(what)} of each flow", caption + rest


NAMES = {"goodput": "goodput", "delay": "mean download time"}
RANKS = {"goodput": "flows, the strongest first", "delay": "flows, the quickest first"}
"""What is written below flows that are ordered in each run."""


def _table(
    results: Results, cell: Cell, metric: str, run: int | None, ranked: bool
) -> tuple[list[int], stats.Floats]:
    """The flows of a cell, by their numbers or by rank; a row for each run, a column for each of
    them, and one for all behind them.
    """
    rows = results.flows
    if "flow" not in rows:  # no run came out
        return [], np.empty((0, 0))
    rows = rows[(rows["cell"] == cell.name) & (rows["status"] == "ok")]
    if run is not None:
        rows = rows[rows["run"] == run]
    if rows.empty:
        return [], np.empty((0, 0))
    pivot = rows.pivot(index="run", columns="flow", values=COLUMN[metric])
    table, numbers = pivot.to_numpy(float), [int(n) for n in pivot.columns]
    carrying = [n not in _datagrams(rows) for n in numbers]
    own = table[:, carrying]
    if metric == "goodput":
        together = results.sample("aggregate", cell.labels).droplevel("cell")
        whole = together.reindex(pivot.index).to_numpy(float)
    else:
        for place, flow in enumerate(
            n for n, there in zip(numbers, carrying, strict=True) if there
        ):
            found = cutoff.bounds(results, cell, f"{metric}@{flow}", pivot.index)
            own[:, place] = [
                found.get(r, v) for r, v in zip(pivot.index, own[:, place], strict=True)
            ]
        whole = cutoff.bounded(results, cell, metric).reindex(pivot.index).to_numpy(float)
    if ranked or metric != "goodput":  # datagrams are in no order of transfers, and have no file
        table, numbers = own, [n for n, there in zip(numbers, carrying, strict=True) if there]
    if ranked:
        numbers = list(range(1, len(numbers) + 1))
        # What has no value, such as the delay of a flow without a file, is last.
        table = -np.sort(-table, axis=1) if metric == "goodput" else np.sort(table, axis=1)
    return numbers, np.column_stack([table, whole])


def _datagrams(rows: pd.DataFrame) -> list[int]:
    """The flows of datagrams beside connections, which are no part of all."""
    return sorted({int(n) for n in rows[~rows.index.isin(carriers(rows).index)]["flow"]})


def _beside(results: Results, cells: Sequence[Cell], apart: bool) -> str:
    """What a caption says of datagrams beside connections."""
    rows = results.flows
    rows = rows[(rows["status"] == "ok") & rows["cell"].isin([c.name for c in cells])]
    if not (left := _datagrams(rows)):
        return ""
    named = first([str(n) for n in left], 10)
    if not apart:
        return f" Datagrams (flow {named}) are left out."
    return f" Datagrams (flow {named}) have bars of their own and are no part of all."


def _without(tables: Sequence[stats.Floats], metric: str) -> str:
    """What a caption says of flows that have no value, such as the delay of one without a file."""
    own = [table[:, :-1] for table in tables if table.size]
    none, of = sum(int(np.isnan(t).sum()) for t in own), sum(t.size for t in own)
    if not none:
        return ""
    lack = "no value" if metric == "goodput" else "no file at all"
    return f" {none} of {of} flows had {lack}: bars without them are of fewer runs."


def _bars(
    axis: Axes, table: stats.Floats, of: tuple[str, Sequence[bool]],
    room: tuple[Sequence[float], float, Sequence[int]], look: int,
) -> None:  # fmt: skip
    """The bars of a cell, of a metric and whether each is but the least that it can be; `room` is
    where they stand, how wide they are, and where there is no bar of any cell.
    """
    (metric, least) = of
    scale = metric_of(metric).scale
    places, width, bare = room
    inches = axis.get_position().width * float(page.root(axis).get_figwidth())
    for at, values, bound in zip(places, table.T, least, strict=False):
        known = stats.clean(values)
        interval = stats.mean_interval(known).within(0.0, float("inf"))
        height = interval.estimate / scale
        top = height
        if np.isfinite(height) and height > 0:
            axis.bar(at, height, width * 0.92, **style.face(look))
            if interval.known and not bound:
                whiskers(axis, [at], [interval], scale)
                top = interval.high / scale
        text = style.number(height) if np.isfinite(height) else "n/a"
        text = f"≥\N{NO-BREAK SPACE}{text}" if bound and text != "n/a" else text
        wide = width * inches * 72 / max(1, table.shape[1])
        fits = wide >= 0.64 * style.small() * (len(text) + 0.6)
        if bound and not fits and text != "n/a":
            text, fits = "≥", True
        if text == "n/a" and round(at) not in bare:
            _on(axis, at, 0.0, text, upright=not fits)
        elif text != "n/a" and (fits or height == 0):
            _on(axis, at, top, text)


def _on(axis: Axes, at: float, top: float, text: str, upright: bool = False) -> None:
    """What stands on a bar, or where there is none."""
    axis.annotate(
        text, (at, top), xytext=(0, 4), textcoords="offset points", ha="center",
        fontsize=style.small(), color=style.INK, rotation=90 if upright else 0,
    )  # fmt: skip


def _bare(tables: Sequence[tuple[list[int], stats.Floats]], numbers: Sequence[int]) -> list[int]:
    """The places where no cell of a panel has a bar, as none of its runs has a value: those of
    flows by their numbers, and the one behind them.
    """
    known: dict[int, bool] = {}
    for own, table in tables:
        places = [*(numbers.index(flow) for flow in own), len(numbers)]
        for place, values in zip(places, table.T, strict=False):
            known[place] = known.get(place, False) or bool(np.isfinite(values).any())
    return [place for place, there in known.items() if not there]


def _least(
    results: Results, cell: Cell, spec: Mapping[str, Any], flows: Sequence[int] | None, count: int
) -> list[bool]:
    """Whether the bars of a cell are but the least that they can be, as transfers were cut off:
    those of these flows and the one behind them; without flows (by rank) all of them are.
    """
    metric, only = str(spec.get("metric", "goodput")), spec.get("run")

    def bound(name: str) -> bool:
        found = cutoff.runs(results, cell, name) if cutoff.of_finished(name) else set()
        return bool(found) if only is None else only in found

    whole = bound(metric)
    if flows is None or not whole:
        return [whole] * count
    return [*(bound(f"{metric}@{flow}") for flow in flows), whole]


def _labelled(words: Words, metric: str, numbers: Sequence[int], names: Sequence[str]) -> list[str]:
    """What the plan calls a metric of these flows, where it does, in place of their `names`."""
    return [words.alone(f"{metric}@{n}", name) for n, name in zip(numbers, names, strict=True)]


def _names(
    results: Results, cells: Sequence[Cell], numbers: Sequence[int], ranked: bool
) -> list[str]:
    """What the flows are called: where all runs have the same ones, by their ends."""
    if ranked:
        return [str(n) for n in numbers]
    rows = results.flows
    rows = rows[rows["cell"].isin([c.name for c in cells]) & (rows["status"] == "ok")]
    names, datagrams = [], _datagrams(rows)
    for flow in numbers:
        own = rows[rows["flow"] == flow]
        ends = set(zip(own["flow_from"], own["flow_to"], strict=True))
        (one, two), *others = ends or [("", "")]
        name = f"{flow}" if others or not one else f"{flow}: {one} to {two}"
        names.append(f"{name}, datagrams" if flow in datagrams else name)
    return names
