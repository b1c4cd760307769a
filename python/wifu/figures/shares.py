"""Figures of what each flow of a run gets, and all of them together, and how fair that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from wifu import cautions, cutoff, stats
from wifu.answering import asks
from wifu.api import Results
from wifu.cautions import carriers
from wifu.cells import Cell
from wifu.digits import with_unit
from wifu.errors import LabError
from wifu.figures import lacking, legends, page, style
from wifu.figures.along import centred
from wifu.figures.compare import (
    Made,
    by_of,
    capital,
    chosen,
    counted,
    counts,
    cut_off,
    levels,
    looks,
    most_levels,
    of_runs,
    same_levels,
    split,
    whiskers,
)
from wifu.figures.sayings import all_bad
from wifu.figures.words import Words
from wifu.metrics import metric_of
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
        none = "no run has flows" if spec.get("run") is None else f"no run {spec['run']}"
        raise LabError(all_bad(results, cells) or none)
    # Of a cell without a run that counts nothing is known of any flow.
    nothing = (numbers, np.full((1, count + 1), np.nan))
    places_of = {name: table if table[0] else nothing for name, table in shown.items()}
    top = _top([table for _, table in places_of.values()]) / metric_of(metric).scale
    every = levels(cells, by)
    looking = looks(results, by, every)
    # With their ends flows may be called something else in each panel.
    called = [_names(results, members, numbers, ranked) for _, members in parts]
    if not ranked:
        called = [_labelled(words, metric, numbers, names) for names in called]
    same = all(names == called[0] for names in called)
    across = _across(len(parts), count + 1, len(every))
    figure, axes = page.panels(len(parts), columns=across, share_x=same)
    for axis, (title, members), names in zip(axes, parts, called, strict=True):
        bare = _bare([places_of[c.name] for c in members], numbers)
        for n, label in enumerate(every):
            for cell in (c for c in members if by is None or c.labels[by] == label):
                at = (n - (len(every) - 1) / 2) * 0.8 / len(every)
                own, table = places_of[cell.name]
                at_flows = [float(numbers.index(flow)) for flow in own]
                places = [at + place for place in (*at_flows, float(count))]
                bounds = _least(results, cell, spec, None if ranked else own, len(table.T))
                _bars(
                    axis, table, (metric, bounds), (places, 0.8 / len(every), bare, top), looking[n]
                )
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
    caption = _flows_words(results, words, cells, spec, (shown, places_of))
    return figure, f"{capital(what)} of each flow", caption + rest


Tables = Mapping[str, tuple[list[int], stats.Floats]]
"""What `_table` tells of each cell."""


def _flows_words(
    results: Results, words: Words, cells: Sequence[Cell], spec: Mapping[str, Any],
    of: tuple[Tables, Tables],
) -> str:  # fmt: skip
    """The caption: of the tables of what is known, and of what is drawn."""
    shown, places_of = of
    metric, ranked = str(spec.get("metric", "goodput")), bool(spec.get("sorted", False))
    what = words.quantity(metric, NAMES[metric])
    caption = f"{capital(what)} of each flow"
    if metric == "goodput":
        measure = results.plan.measure
        caption += f" ({measure.words})" if measure.unusual else ""
        caption += f", and of all together (aggregate: {measure.together}); "
    else:
        caption += ", and the mean of all files; "
    if ranked:
        caption += f"in each run flows are in order, {RANKS[metric].removeprefix('flows, ')}; "
    if "run" in spec:
        caption += f"run {spec['run']} alone."
    else:
        # Of a cell without a run that counts there is no table: what failed is told as such.
        known = [shown[c.name][1][:, -1:] for c in cells]
        sizes = [int(np.isfinite(table).sum()) for table in known]
        caption += f"{of_runs(results, cells)}; {counted(results, cells, sizes)}."
    sizes = sorted({len(own) for own, _ in shown.values() if own})
    if len(sizes) > 1:
        caption += (
            f" Cells have {sizes[0]} to {sizes[-1]} flows: where nothing stands at a flow's place, "
            "there is none."
        )
    none = [c for c in cells if not np.isfinite(places_of[c.name][1]).any()]
    caption += lacking.sentence(
        results, words, cells, none, metric, by_of(results, dict(spec), None)
    )
    caption += _without(words, cells, shown, metric, ranked)
    caption += _beside(results, cells, metric == "goodput" and not ranked)
    if not ranked and "run" not in spec:
        caption += _by_turns(words, cells, shown, metric)
    told = [cutoff.sentence(results, cells, metric), *cautions.notes(results, cells, metric)]
    # What all together are stands above.
    above = cautions.of_all(results.plan.measure)
    told = [words.replace(above, "") for words in told if "are left out" not in words]
    return caption + "".join(f" {words}" for words in told if words)


APART = 1.5
"""Flows of a run are so many times further apart than the means of flows, where it is told."""


OTHER = 0.2
"""In such a share of the runs another flow is ahead than in most, where it is told."""


def _by_turns(words: Words, cells: Sequence[Cell], of: Tables, metric: str) -> str:
    """That flows are far apart in a run, and now one is ahead and now another: means hide it."""
    told = []
    for cell in cells:
        own = of[cell.name][1][:, :-1]
        own = own[np.isfinite(own).all(axis=1)] / metric_of(metric).scale
        if own.shape[0] < 2 or own.shape[1] < 2:
            continue
        means, apart = own.mean(axis=0), float(np.ptp(own, axis=1).mean())
        best = own.argmax(axis=1) if metric == "goodput" else own.argmin(axis=1)
        # Who is ahead in most runs, and is not in a fifth of them.
        ahead = np.bincount(best).max() <= (1.0 - OTHER) * len(best)
        if ahead and apart > max(APART * float(np.ptp(means)), 0.5 * float(means.mean())):
            named = "/".join(words.apart(axis, label) for axis, label in cell.labels.items())
            told.append(f"{named} {apart:.2g} and {np.ptp(means):.2g}".strip())
    if not told:
        return ""
    unit = metric_of(metric).unit
    return (
        " Now one flow is ahead and now another: flows of a run are further apart than their means "
        f"({unit}, the mean of the runs and that of the means: {first(told, 4)}); `sorted = true` "
        "has them in order."
    )


def _across(panels: int, groups: int, levels: int) -> int:
    """How many panels stand side by side at the most: so many that bars are as wide as what stands
    on them; LabError if they are too thin even in panels as wide as the figure.
    """
    if page.current().axes is not None:
        return panels
    wide = 0.0
    for most in (3, 2, 1):
        beside = page.beside(panels, most)
        room = page.width(beside) / beside - AROUND
        wide = room * 72 * 0.8 / levels / (groups + 0.1)
        if wide >= 0.9 * style.small():
            return most
    if wide < THIN:
        raise LabError(
            f"{groups} groups of {levels} bars have no room beside each other: choose some with "
            "`where`"
        )
    return 1


AROUND = 0.55
"""Inches beside a panel that numbers and names of its scale take."""

THIN = 3.0
"""Points that a bar is wide at least."""

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


def _without(words: Words, cells: Sequence[Cell], of: Tables, metric: str, ranked: bool) -> str:
    """What a caption says of flows that have no value, such as the delay of one without a file, and
    of bars that are of fewer runs for it.
    """
    own = [table[:, :-1] for _, table in of.values() if table.size]
    none, count = sum(int(np.isnan(t).sum()) for t in own), sum(t.size for t in own)
    if not none:
        return ""
    lack = "no value" if metric == "goodput" else "no file at all"
    told = []
    for cell in cells:
        flows, table = of[cell.name]
        known = zip(flows, np.isfinite(table).sum(axis=0), strict=False)
        what = "rank" if ranked else "flow"
        few = [f"{n} of {len(table)} at {what} {flow}" for flow, n in known if 0 < n < len(table)]
        if few:
            named = "/".join(words.apart(axis, label) for axis, label in cell.labels.items())
            told.append(": ".join(filter(None, (named, first(few, 4)))))
    more = f"; and {len(told) - 4} more" if len(told) > 4 else ""
    fewer = f": bars are of fewer runs ({'; '.join(told[:4])}{more})" if told else ""
    return f" {none} of {count} flows had {lack}{fewer}."


def _bars(
    axis: Axes, table: stats.Floats, of: tuple[str, Sequence[bool]],
    room: tuple[Sequence[float], float, Sequence[int], float], look: int,
) -> None:  # fmt: skip
    """The bars of a cell, of a metric and whether each is but the least that it can be; `room` is
    where they stand, how wide they are, where there is no bar of any cell, and how high the highest
    bar of all is.
    """
    (metric, least) = of
    scale = metric_of(metric).scale
    places, width, bare, highest = room
    inches = axis.get_position().width * float(page.root(axis).get_figwidth())
    across = round(places[-1]) + 1  # of all panels, which may have more flows than this cell
    for at, values, bound in zip(places, table.T, least, strict=False):
        known = stats.clean(values)
        interval = stats.mean_interval(known).within(0.0, float("inf"))
        height = interval.estimate / scale
        top, small = height, style.unseen(axis, height, highest)
        if np.isfinite(height) and height > 0:
            face = style.hollow(look) if bound else style.face(look)
            axis.bar(at, height, width * 0.92, **face)
            if interval.known and not bound:
                whiskers(axis, [at], [interval], scale)
                top = interval.high / scale
        text = style.number(height) if np.isfinite(height) else "n/a"
        text = f"≥\N{NO-BREAK SPACE}{text}" if bound and text != "n/a" else text
        wide = width * inches * 72 / max(1, across)
        fits = wide >= 0.64 * style.small() * (len(text) + 0.6)
        if bound and not fits and not small and text != "n/a":
            text, fits = "≥", True
        if text == "n/a" and round(at) not in bare:
            _on(axis, at, 0.0, text, upright=not fits)
        elif text != "n/a" and (fits or height == 0 or small):
            _on(axis, at, top, text, upright=not fits and height > 0)


def _top(tables: Sequence[stats.Floats]) -> float:
    """The highest of the means of these tables' columns."""
    means = [stats.mean_interval(stats.clean(v)).estimate for table in tables for v in table.T]
    return max((mean for mean in means if np.isfinite(mean)), default=0.0)


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
        if any(asks(cell, flow) for cell in cells):  # its octets go back
            one, two = two, one
        name = f"{flow}" if others or not one else f"{flow}: {one} to {two}"
        names.append(f"{name}, datagrams" if flow in datagrams else name)
    return names


def fairness(results: Results, spec: dict[str, Any]) -> Made:
    """Jain's index of every run as a dot, the mean with its interval beside them."""
    cells = chosen(results, spec)
    x = spec.get("x") or next(iter(cells[0].labels), None)
    if x is None:
        raise LabError("needs an axis: what runs are told apart by")
    by = by_of(results, spec, x)
    words = Words(results, spec)
    parts, cells, rest = split(words, cells, [x, by])
    figure, axes = page.panels(len(parts), share_x=same_levels(parts, x))
    every = levels(cells, by)
    handles: dict[str, Any] = {}
    rng = np.random.default_rng(1)
    lowest = 1.0
    lack: list[tuple[Axes, float, int, Cell]] = []
    for axis, (title, members) in zip(axes, parts, strict=True):
        places = levels(members, x)
        wide = 0.62 / len(every)
        for n, (look, label) in enumerate(zip(looks(results, by, every), every, strict=True)):
            handles[words.apart(by, label)] = Line2D(
                [], [], marker=style.marker(look), ls="", color=style.colour(look), ms=5
            )
            for cell in members:
                if by is not None and cell.labels[by] != label:
                    continue
                at = places.index(cell.labels[x]) + (n - (len(every) - 1) / 2) * 0.8 / len(every)
                y = stats.clean(results.sample("jain", cell.labels).to_numpy(float))
                lack.extend([] if y.size else [(axis, at, places.index(cell.labels[x]), cell)])
                if y.size:
                    noise = rng.uniform(-0.4, 0.4, y.size) * wide
                    lowest = min(lowest, _dots(axis, at, noise, y, look, wide))
        axis.set_xlim(centred(len(places), most_levels(parts, x), 0.1))
        style.places(axis, range(len(places)), [words.level(x, p) for p in places])
        style.entitle(axis, title)
        axis.set_xlabel(words.axis(x))
        axis.axhline(1.0, color=style.MUTED, linewidth=0.8)
        style.grid(axis)
    # Not so near 1 that nothing looks like something.
    bottom = max(-0.02, 1.0 - 1.15 * max(1.0 - lowest, 0.05))
    # No index is above 1; the rest is room for dots that are there.
    for axis in axes:
        axis.set_ylim(bottom, 1.0 + 0.05 * (1.0 - bottom))
    for axis, place in dict.fromkeys((axis, place) for axis, _, place, _ in lack):
        lacking.say(
            axis, [at for a, at, p, _ in lack if (a, p) == (axis, place)], place, len(every)
        )
    title = words.metric("jain")
    title = title if title != metric_of("jain").label else f"{title} (1: equal shares)"
    style.label_rows(axes, title)
    legends.above(figure, list(handles.values()), list(handles))
    told = of_runs(results, cells)
    if told != "no interval":
        told = f"bar: mean, {told}, cut where no index can be (above 1, below 0)"
    caption = f"Jain's fairness index, a dot per run; {told}; "
    caption += f"{counts(results, cells, 'jain')}."
    caption += lacking.sentence(results, words, cells, [c for *_, c in lack], "jain", x)
    caption += f"{_bottom(bottom)}{cut_off(results, cells, 'jain')}{rest}"
    return figure, "Fairness among the flows", caption


def _bottom(bottom: float) -> str:
    """What a caption says of a scale of the index that does not begin at 0."""
    return f" The scale begins at {style.number(bottom)}, not at 0." if bottom > 0 else ""


def _dots(
    axis: Axes, at: float, noise: stats.Floats, y: stats.Floats, n: int, wide: float
) -> float:
    """The runs of a cell in the shape of its level, and their mean; returns what is lowest."""
    colour, form = style.colour(n), style.marker(n)
    if y.size == 1:  # a mean would hide it
        axis.plot(at, y[0], form, color=colour, markersize=6, zorder=3)
        return float(y[0])
    axis.scatter(at + noise, y, s=14, color=colour, alpha=0.55, linewidths=0, marker=form)
    interval = stats.mean_interval(y).within(0.0, 1.0)
    axis.hlines(interval.estimate, at - wide / 2, at + wide / 2, color=style.INK, linewidth=2)
    if not interval.known:
        return float(y.min())
    low, high = interval.low, interval.high
    axis.errorbar(
        [at], [interval.estimate], yerr=[[interval.estimate - low], [high - interval.estimate]],
        fmt="none", ecolor=style.INK, elinewidth=1.1, capsize=2.5,
    )  # fmt: skip
    return min(float(y.min()), low)
