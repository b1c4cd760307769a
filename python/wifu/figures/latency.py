"""Latency under load, in the manner of flent's RRUL: goodput of the load, delay of datagrams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from wifu import crowded, stats, values
from wifu.api import Results
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.figures import legends, page, style
from wifu.figures.compare import (
    Made,
    by_of,
    chosen,
    counting,
    first,
    levels,
    looks,
    one_of,
    split,
)  # fmt: skip
from wifu.figures.there import apart, there_of
from wifu.figures.words import Words
from wifu.metrics import sliding
from wifu.outlets import data_ends
from wifu.probes import SELECTED
from wifu.stamps import first as named
from wifu.underload import idle_load, lasted, load_span, lost, silent
from wifu.unlike import loads

LEAST = 5
"""Datagrams in a window of which a percentile is drawn."""

MOST = 10
"""Levels of which a caption tells what was lost."""


class Probes(NamedTuple):
    """When datagrams arrived, and how long each had been on its way: seconds, milliseconds."""

    times: stats.Floats
    delays: stats.Floats


class Run(NamedTuple):
    """A run: by direction the probes and the load's bytes over time; when there was load."""

    probes: Mapping[str, Probes]
    load: Mapping[str, tuple[stats.Floats, stats.Floats]]
    span: tuple[float, float]
    idle: bool
    """Whether that load got nothing at all: then it is when there was to be some."""
    unheard: Sequence[str]
    """Directions of which datagrams were sent in this time, and none arrived."""
    lost: tuple[float, float]
    """How many datagrams were lost under load at the most, and how many met load."""
    over: float
    """When the run ended: what would have been then is not known."""
    flows: Mapping[str, Mapping[int, int]]
    """By direction how many datagrams of each flow arrived, of which delays are recorded."""


def latency(results: Results, spec: dict[str, Any]) -> Made:
    """Over time, below the goodput of the load; or the distribution with and without load."""
    draw = _cdf if spec.get("as") == "cdf" else _over_time
    figure, title, caption = draw(results, spec)
    refused = crowded.refusals(results, chosen(results, spec), "one_way_p50")
    return figure, title, f"{caption} {refused}".rstrip()


def _over_time(results: Results, spec: dict[str, Any]) -> Made:
    cells, runs = chosen(results, spec), results.plan.series_runs
    run = int(spec.get("run", min(runs) if runs else 1))
    gone, left = counting(results, cells, [run])
    counted = [c for c in cells if (c.name, run) not in gone]
    having = [(c, made) for c in counted if (made := _run(results, c, run)) is not None]
    found, rest = first(having, 6)
    if not found:
        raise LabError(_none(f"of run {run}"))
    start = values.seconds(spec["from"]) if "from" in spec else 0.0
    last = max((float(p.times[-1]) for _, r in found for p in r.probes.values()), default=0.0)
    last = max([last, *(r.span[1] for _, r in found if r.idle)])
    if start >= last:
        raise LabError(f"nothing is from {start:g} s on: the last datagram arrived at {last:.4g} s")
    end = values.seconds(spec["to"]) if "to" in spec else last
    window = values.seconds(spec["window"]) if "window" in spec else max((end - start) / 30, 0.2)
    figure, columns = _columns(len(found))
    words = Words(results, spec)
    names = words.titles(cells)
    ways = list(dict.fromkeys(way for _, r in found for way in (*r.load, *r.probes)))
    handles: dict[str, Any] = {}
    for (cell, made), (above, below) in zip(found, columns, strict=True):
        for way, (times, octets) in made.load.items():
            stop = min(end, made.over)
            if stop <= start:
                continue
            at, rate = sliding(times, octets, window, window / 10, start, stop)
            n = ways.index(way)
            (line,) = above.plot(
                at, rate / 1e6, color=style.colour(n), linestyle=style.later_dash(n),
                linewidth=0.8 * style.line(),
                # What is at zero is neither cut in half by the axis nor below it.
                clip_on=False, zorder=3,
            )  # fmt: skip
            if len(ways) > 1:
                line = _mark(line, n, len(ways), (start, end))
            handles.setdefault(way, line)
        for way, probes in made.probes.items():
            n = ways.index(way)
            line = _draw_probes(below, probes, n, window)
            if len(ways) > 1:
                line = _mark(line, n, len(ways), (start, end))
            handles.setdefault(way, line)
        style.entitle(above, names[cell.name])
        for axis in (above, below):
            _shade(axis, made)
            style.grid(axis)
        style.logarithmic(below, "y")
        below.set_xlabel("time, s")
        below.set_xlim(start, end)
        above.set_ylim(bottom=0)
        _say_lost(below, made, len(made.probes))
    style.from_zero([above for above, _ in columns])
    for row, text in enumerate(("goodput of the load, Mb/s", "one-way delay, ms")):
        style.label_rows([axes[row] for axes in columns], text)
        page.align([axes[row] for axes in columns], "y")
    legends.above(figure, list(handles.values()), list(handles))
    caption = (
        f"Run {run}. Above, bytes delivered in order by all flows of a direction, so that it leaps "
        f"where a hole is filled, in a sliding window of {window:.3g} s. Below, each dot is a "
        "datagram that arrived: how long it was on its way, and when; lines are medians of the "
        "same window. Grey: while there is load."
    )
    titles = [names[cell.name] for cell, _ in found]
    ends = [made.over for _, made in found]
    if min(ends) < min(end, max(ends)) - window:
        caption += f" Runs ended at {min(ends):.4g} to {max(ends):.4g} s, and lines with them."
    caption += _of_idle([(title, made) for title, (_, made) in zip(titles, found, strict=True)])
    flows = [there_of(results, cell, run) for cell, _ in found]
    caption += apart(list(zip(titles, flows, strict=True)))
    caption += _whose([made for _, made in found]) + one_of(results, [c for c, _ in found], run)
    return figure, "Latency under load", caption + left + rest


def _shade(axis: Axes, made: Run) -> None:
    """When there was load, in grey; hatched where it got nothing."""
    if not np.isfinite(made.span[0]):
        return
    look: dict[str, Any] = {"color": style.FAINT, "alpha": 0.5, "linewidth": 0}
    if made.idle:
        look = {"facecolor": "none", "edgecolor": style.FAINT, "hatch": "////", "linewidth": 0}
    axis.axvspan(*made.span, **look, zorder=0)


def _say_lost(axis: Axes, made: Run, ways: int) -> None:
    """Where no datagram arrived under load: no dot is no short delay."""
    if not made.unheard:
        return
    low, high = axis.get_xlim()
    begin, end = max(made.span[0], low), min(made.span[1], high)
    if begin >= end:
        return
    told = "all lost" if len(made.unheard) >= ways else f"{', '.join(made.unheard)}:\nall lost"
    axis.text(
        (begin + end) / 2, 0.5, told, transform=axis.get_xaxis_transform(), ha="center",
        va="center", fontsize=style.small(), color=style.INK, path_effects=style.halo(),
    )  # fmt: skip


def _of_idle(panels: Sequence[tuple[str, Run]]) -> str:
    """What a caption says of load that got nothing, and of datagrams of which none arrived."""
    told = ""
    if any(made.idle for _, made in panels):
        told += " Hatched: while there was to be load, which delivered nothing."
    if any(made.unheard for _, made in panels):
        shares = [
            f"{title}: {made.lost[0]:.0f} of {made.lost[1]:.0f}".removeprefix(": ")
            for title, made in panels
            if made.unheard
        ]
        told += f" All lost: of the datagrams sent meanwhile none arrived ({named(shares, MOST)})."
    return told


def _draw_probes(axis: Axes, probes: Probes, n: int, window: float) -> Line2D:
    """The datagrams of the nth direction and their median, which is returned."""
    axis.plot(
        probes.times, probes.delays, ls="", marker=".", markersize=1.6, alpha=0.35,
        color=style.colour(n), rasterized=probes.times.size > 2_000,
    )  # fmt: skip
    at, median = _medians(probes, window)
    # White around it, so that it is seen among the dots.
    around = patheffects.withStroke(linewidth=1.6 * style.line(), foreground="white")
    (line,) = axis.plot(
        at, median, color=style.colour(n), linestyle=style.later_dash(n), path_effects=[around],
        linewidth=0.8 * style.line(), zorder=3,
    )  # fmt: skip
    return line


def _mark(line: Line2D, n: int, count: int, span: tuple[float, float]) -> Line2D:
    """Shapes, by which the nth of so many directions is known in grey, above all lines: where these
    lie on each other, the last one hides the others. Returns what a legend shows.
    """
    times, y = (np.asarray(values, dtype=float) for values in line.get_data())
    points, look = style.marked(times, y, n, count, span), style.shape(n)
    axis: Any = line.axes
    assert axis is not None, "a line that was drawn"
    # What is at zero is not cut in half by the axis.
    axis.plot(
        times[points], y[points], ls="", color=line.get_color(), zorder=4, clip_on=False, **look
    )
    shown = Line2D([], [], color=line.get_color(), lw=line.get_linewidth(), **look)
    shown.set_linestyle(style.later_dash(n))
    return shown


def _medians(probes: Probes, window: float) -> tuple[stats.Floats, stats.Floats]:
    """The median of what arrived in a window before each instant; NaN where hardly any did, or
    nothing of late.
    """
    at = np.arange(probes.times[0], probes.times[-1], window / 10) + window / 10
    low, late, high = (np.searchsorted(probes.times, at - w) for w in (window, window / 5, 0.0))
    found = [
        np.median(probes.delays[a:b]) if b - a >= LEAST and b > late_one else np.nan
        for a, late_one, b in zip(low, late, high, strict=True)
    ]
    return at, np.asarray(found, dtype=float)


class Met(NamedTuple):
    """Of the datagrams of a level that met load, how many were lost at the most, of how many."""

    part: str
    level: str
    lost: float
    of: float


def _cdf(results: Results, spec: dict[str, Any]) -> Made:
    """Of all datagrams of all runs with series, of all directions."""
    cells = chosen(results, spec)
    by = by_of(results, spec, None)
    words = Words(results, spec)
    parts, cells, rest = split(words, cells, [by])
    every, runs = levels(cells, by), sorted(map(int, results.plan.series_runs))
    gone, left = counting(results, cells, runs)
    figure, axes = page.panels(len(parts))
    handles: dict[str, Any] = {}
    total, met, ways, silent_runs = 0, list[Met](), set[str](), list[str]()
    curves, shown = list[dict[str, float]](), list[Run]()
    looking = looks(results, by, every)
    for axis, (title, members) in zip(axes, parts, strict=True):
        idle: dict[int, stats.Floats] = {}
        for n, label in enumerate(every):
            own = [c for c in members if by is None or c.labels[by] == label]
            keys = [(c, k) for c in own for k in runs if (c.name, k) not in gone]
            made = [r for c, k in keys if (r := _run(results, c, k)) is not None]
            ways |= {way for r in made for way in r.probes}
            curves.append(_by_way(made))
            shown += made
            x, idle[n] = _sample(made, True), np.sort(_sample(made, False))
            total += x.size + idle[n].size
            name = words.apart(by, label)
            counts = [r.lost for r in made]
            met.append(Met(title, name, sum(a for a, _ in counts), sum(b for _, b in counts)))
            silent_runs += [title or name for r in made if r.idle]
            dash = style.later_dash(looking[n])
            _draw_cdf(axis, x, (name, handles), n, len(every), looking[n], dash)
        first_one, *others = idle.values()
        if all(np.array_equal(first_one, other) for other in others):
            # In the simulator the same runs meet the same: one line says it.
            _draw_cdf(axis, first_one, ("without load", handles), 0, 1, None, ":")
        else:
            for n, x in idle.items():
                name = f"{words.apart(by, every[n])}, without load"
                _draw_cdf(axis, x, (name, handles), n, len(every), looking[n], ":")
        if all(one.lost >= one.of > 0 for one in met[-len(every) :]):
            axis.text(
                0.5, 0.5, "under load\nall were lost", transform=axis.transAxes, ha="center",
                va="center", fontsize=style.small(), color=style.INK, path_effects=style.halo(),
            )  # fmt: skip
        style.entitle(axis, title)
        style.logarithmic(axis, "x")
        axis.set_xlabel("one-way delay, ms")
        axis.set_ylim(0, 1.02)
        style.grid(axis, "both")
    if not total:
        raise LabError(_none("of any run"))
    style.label_rows(axes, "share of datagrams")
    handles = _with_lost(handles, [words.apart(by, label) for label in every], looking, met)
    legends.above(figure, list(handles.values()), list(handles))
    both = any(" > ".join(reversed(way.split(" > "))) in ways for way in ways)
    caption = (
        f"Empirical distribution of the one-way delay of {total} datagrams that arrived, of "
        f"{'both directions and of ' if both else ''}{_runs(results, cells, runs)}: under load, "
        "and before it (dotted)."
    )
    unequal = loads(results, cells, "one_way_p95")
    caption += _together(curves) + _whose(shown)
    caption += _lost_words(met) + (f" {unequal}" if unequal else "")
    if silent_runs:
        count = f"{len(silent_runs)} run{'s' if len(silent_runs) > 1 else ''}"
        where = named(list(dict.fromkeys(filter(None, silent_runs))), MOST)
        caption += f" In {count}{f' ({where})' if where else ''} the load delivered nothing: what "
        caption += "arrived meanwhile is in no curve."
    return figure, "Delay of datagrams with and without load", caption + left + rest


def _by_way(runs: Sequence[Run]) -> dict[str, float]:
    """The parts of a curve's datagrams by whence and whither they went."""
    sizes: dict[str, int] = {}
    for made in runs:
        for way, probes in made.probes.items():
            sizes[way] = sizes.get(way, 0) + int(probes.times.size)
    return {way: n / sum(sizes.values()) for way, n in sizes.items() if n}


def _together(curves: Sequence[Mapping[str, float]]) -> str:
    """That curves are of several pairs of nodes, or of one direction far more than of the other."""
    for parts in curves:
        pairs = {frozenset(way.split(" > ")) for way in parts}
        if len(parts) < 2 or (len(pairs) == 1 and max(parts.values()) < 1.5 * min(parts.values())):
            continue
        of = sorted(parts, key=lambda way: -parts[way])
        shares = [f"{way} ({parts[way]:.0%})".replace("%", " %") for way in of[:MOST]]
        more = f" and {len(of) - MOST} more" if len(of) > MOST else ""
        return (
            f" A curve is of {', '.join(shares)}{more}, each datagram counted alike, where "
            "`one_way_p50` is the mean of flows."
        )
    return ""


def _whose(runs: Sequence[Run]) -> str:
    """Whose datagrams stand together, where a direction has several flows of them: those of cross
    traffic beside those that were to measure it.
    """
    sizes: dict[str, dict[int, int]] = {}
    for made in runs:
        for way, flows in made.flows.items():
            own = sizes.setdefault(way, {})
            for flow, count in flows.items():
                own[flow] = own.get(flow, 0) + count
    told = []
    for way, own in sizes.items():
        if len(own) > 1:
            parts = [f"flow {n} {_share(own[n] / sum(own.values()))}" for n in sorted(own)]
            told.append(f"{way}: {named(parts, MOST)}")
    if not told:
        return ""
    more = f"; and {len(told) - MOST} more directions" if len(told) > MOST else ""
    return (
        " Datagrams of all flows of a direction are taken together, by how many of them arrived "
        f"({'; '.join(told[:MOST])}{more})."
    )


def _share(part: float) -> str:
    """A share in per cent; one that is there is not 0."""
    return "below 1 %" if part < 0.005 else f"{part:.0%}".replace("%", " %")


def _runs(results: Results, cells: Sequence[Cell], recorded: Sequence[int]) -> str:
    """All runs of these cells, or how many of them have series."""
    rows = results.runs[results.runs["cell"].isin([c.name for c in cells])]
    most = rows.groupby("cell")["run"].nunique().max()
    if most <= len(recorded):
        return "all runs"
    return f"the {len(recorded)} of {most} runs per cell whose series are recorded"


def _with_lost(
    handles: Mapping[str, Any], every: Sequence[str], looking: Sequence[int], met: Sequence[Met]
) -> dict[str, Any]:
    """What a legend names, with levels that have no curve: where all was lost that is the worst."""
    out: dict[str, Any] = {}
    for n, (look, name) in enumerate(zip(looking, every, strict=True)):
        if name in handles:
            out[name] = handles[name]
            continue
        why = "all lost" if any(one.of for one in met[n :: len(every)]) else "none under load"
        line = Line2D([], [], color=style.colour(look), **style.shape(look))
        line.set_linestyle(style.later_dash(look))
        out[f"{name or 'datagrams'} ({why})"] = line
    return {**out, **{k: v for k, v in handles.items() if k not in out}}


def _lost(outcome: Mapping[str, Any], span: tuple[float, float]) -> tuple[float, float]:
    """How many datagrams of a run were lost under load at the most, and how many met load."""
    gone = every = 0.0
    for flow in outcome["flows"]:
        if silent(outcome, flow, span):
            missing, samples = float(flow.get("data_segments") or 1), 0.0
        elif (known := lost(outcome, flow)) is not None:
            missing, samples = known, float(flow["under_load"]["samples"])
        else:
            continue
        gone, every = gone + missing, every + missing + samples
    return gone, every


def _lost_idle(outcome: Mapping[str, Any], span: tuple[float, float]) -> tuple[float, float]:
    """The same of load that got nothing, where nobody tells how many datagrams met it: of flows
    that went on when it was to begin.
    """
    gone = every = 0.0
    for flow in outcome["flows"]:
        if flow.get("protocol") != "udp" or not lasted(flow, span[0]):
            continue
        if not flow.get("bytes"):
            missing = sent = float(flow.get("data_segments") or 1)
        else:
            samples = (flow.get("one_way") or {}).get("samples") or 0
            sent = max(float(flow.get("data_segments") or 0), samples)
            inside = (flow.get("packets") or {}).get("inside") or 0
            missing = max(0.0, sent - samples - inside)
        gone, every = gone + missing, every + sent
    return gone, every


def _lost_words(met: Sequence[Met]) -> str:
    """What a caption says of datagrams that have no delay, as they were lost."""
    parts = [
        [one for one in met if one.part == part] for part in dict.fromkeys(m.part for m in met)
    ]
    shares: dict[str, float] = {}
    for members in parts:
        known = [one for one in members if one.of]
        if len(known) > 1 and len(parts) > 1 and all(one.lost >= one.of for one in known):
            shares[f"{members[0].part}, each"] = 1.0
            continue
        for one in known:
            shares[", ".join(filter(None, (one.part, one.level)))] = one.lost / one.of
    if not shares or max(shares.values()) <= 0:
        return ""
    each = [f"{name} {share:.1%}".strip() for name, share in shares.items()]
    each.sort(key=lambda text: not text.endswith(" 100.0%"))
    told = f" Of those that met load were lost, at the most: {named(each, MOST)}."
    if max(shares.values()) - min(shares.values()) > SELECTED:
        told += " Delays are of what arrived: these curves are not of the same, and none is better."
    return told


def _draw_cdf(
    axis: Axes, x: stats.Floats, named: tuple[str, dict[str, Any]], n: int, count: int,
    look: int | None, dash: Any,
) -> None:  # fmt: skip
    """The nth of so many distributions; without a look of its own it is grey."""
    if x.size == 0:
        return
    across, up, marks = style.distribution(x, n, count)
    if marks and look is not None:
        marks |= style.shape(look)
    colour = style.MUTED if look is None else style.colour(look)
    (line,) = axis.plot(across, up, color=colour, linestyle=dash, **marks)
    named[1].setdefault(named[0], line)


def _sample(runs: Sequence[Run], loaded: bool) -> stats.Floats:
    found = []
    for made in runs:
        for probes in made.probes.values():
            begin, end = made.span
            # That which left before the load began may still have met it.
            left = probes.times - probes.delays / 1e3
            inside = (left >= begin) & (probes.times <= end) & (not made.idle)
            found.append(probes.delays[inside if loaded else probes.times < begin])
    return np.concatenate(found) if found else np.empty(0)


def _run(results: Results, cell: Cell, run: int) -> Run | None:
    """What a run recorded; none if that is no delay of any datagram."""
    series = results.series(cell, run)
    named = [n for n in series if n.endswith(".delay") and n.startswith("flow.")]
    outcome = results.outcome(cell, run)
    if not named and not _all_lost(outcome):
        return None
    probes: dict[str, list[tuple[stats.Floats, stats.Floats]]] = {}
    load: dict[str, list[tuple[stats.Floats, stats.Floats]]] = {}
    flows: dict[str, dict[int, int]] = {}
    for flow in outcome["flows"]:
        way = " > ".join(data_ends(flow))
        what = "delay" if flow["protocol"] == "udp" else "delivered"
        data = series.get(f"flow.{flow['id']}.{what}")
        if data is not None and len(data):
            points = (data.index.to_numpy(float), data.to_numpy(float))
            (probes if what == "delay" else load).setdefault(way, []).append(points)
            if what == "delay":
                flows.setdefault(way, {})[int(flow["id"])] = len(data)
    pooled = {}
    for way, parts in probes.items():
        times, delays = (np.concatenate([p[k] for p in parts]) for k in (0, 1))
        order = np.argsort(times, kind="stable")
        pooled[way] = Probes(times[order], delays[order] * 1e3)
    since = idle_load(outcome)
    idle = bool(np.isfinite(since))
    over = float(outcome["sim_seconds"])
    span = (since, over) if idle else load_span(outcome)
    for flow in outcome["flows"] if idle else ():
        if flow["protocol"] != "udp" and float(flow.get("start_s") or 0.0) < span[1]:
            begin = float(flow.get("start_s") or 0.0)
            load.setdefault(" > ".join(data_ends(flow)), []).append(
                (np.array([begin]), np.zeros(1))
            )
    unheard = _unheard(outcome, pooled, span)
    gone = (_lost_idle if idle else _lost)(outcome, span)
    totals = {way: _total(p) for way, p in load.items()}
    return Run(pooled, totals, span, idle, unheard, gone, over, flows)


def _all_lost(outcome: Mapping[str, Any]) -> bool:
    """Whether a run sent datagrams and none arrived."""
    told = [f for f in outcome["flows"] if f.get("protocol") == "udp"]
    return bool(told) and not any(f.get("bytes") for f in told)


def _unheard(
    outcome: Mapping[str, Any], probes: Mapping[str, Probes], span: tuple[float, float]
) -> list[str]:
    """Directions of which datagrams were sent in a time, and none of these arrived."""
    found: dict[str, None] = {}
    for flow in outcome["flows"]:
        way = " > ".join(data_ends(flow))
        start = float(flow.get("start_s") or 0.0)
        if silent(outcome, flow, span) and start < span[1] and way not in found:
            known = probes.get(way)
            left = known.times - known.delays / 1e3 if known else np.empty(0)
            if not np.any((left >= span[0]) & (left <= span[1])):
                found[way] = None
    return list(found)


def _total(
    parts: Sequence[tuple[stats.Floats, stats.Floats]],
) -> tuple[stats.Floats, stats.Floats]:
    """The sum of counts that grow at times of their own."""
    times = np.concatenate([t for t, _ in parts])
    steps = np.concatenate([np.diff(octets, prepend=0.0) for _, octets in parts])
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(steps[order])


def _columns(cells: int) -> tuple[Figure, list[tuple[Axes, Axes]]]:
    """For each cell a panel for the load and a larger one for delays, with one scale of time."""
    if (own := page.given(cells * 2)) is not None:
        return page.root(own[0]), [(own[n], own[n + 1]) for n in range(0, cells * 2, 2)]
    across = page.beside(cells, 3)
    bands = -(-cells // across)
    figure = page.figure(page.width(across), (4.9 * bands + 0.4) * page.scale(across))
    outer = figure.add_gridspec(bands, 1, hspace=0.08)
    inner = [outer[b].subgridspec(2, across, height_ratios=(2, 3)) for b in range(bands)]
    columns: list[tuple[Axes, Axes]] = []
    for cell in range(cells):
        band, column = divmod(cell, across)
        above = figure.add_subplot(inner[band][0, column])
        below = figure.add_subplot(inner[band][1, column], sharex=above)
        for axis in (above, below):
            axis.tick_params(labelleft=column == 0)
        above.tick_params(labelbottom=False)
        columns.append((above, below))
    return figure, columns


def _none(which: str) -> str:
    return (
        f"no delays of datagrams {which} are recorded: the plan needs flows of udp, and [series] "
        'runs = [...], record = ["delay"] before it is run'
    )
