"""Figures of what nodes of a hop protocol do: round trips, rates, and what is lost at each hop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from wifu import handed, values
from wifu.answering import asks
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
from wifu.figures.sayings import all_bad, of_unlike
from wifu.figures.traces import columns as columns_of
from wifu.figures.words import Words
from wifu.hopwise import dropped_at_hops, let_go, lost_at_hops, packets_at_hops
from wifu.stamps import first as named_first
from wifu.transfers import known_times

MOST = 6
"""Panels of rates."""

CELLS = 10
"""Cells of which a caption tells queues."""

FEW = 30
"""Shares of fewer packets are told as such: one packet that is lost is much of them."""

SMALLEST = 4.5
"""Points of letters on narrow bars."""

FLAT = 0.015
"""A bar lower than such a share of its panel is not seen."""

INTERVAL = "10ms"
"""How often series are looked at where a scenario does not say it."""


def _flow(results: Results, spec: dict[str, Any], cells: Sequence[Cell]) -> tuple[int, str, str]:
    """The flow that a figure is of; what its caption says of others, and its title where there are
    any.
    """
    flow, rows = int(spec.get("flow", 1)), results.flows
    rows = rows[rows["cell"].isin([c.name for c in cells])]
    others = sorted({int(n) for n in rows["flow"].dropna()} - {flow})
    if not others:
        return flow, "", ""
    what = f"other flows ({len(others)})" if len(others) > 3 else "flow " + ", ".join(
        map(str, others)
    )  # fmt: skip
    return flow, f" Of flow {flow} alone: {what} can be chosen with `flow`.", f", flow {flow}"


def trips(results: Results, spec: dict[str, Any]) -> Made:
    """Empirical distribution of the round trips of all packets of all runs that have series."""
    cells, by = chosen(results, spec), by_of(results, spec, None)
    flow, others, of = _flow(results, spec, cells)
    words = Words(results, spec)
    gone, left = counting(results, cells, sorted(results.plan.series_runs))
    parts, cells, rest = split(words, cells, [by])
    figure, axes = page.panels(len(parts), share_x=False)
    every = levels(cells, by)
    looking = looks(results, by, every)
    handles: dict[str, Any] = {}
    told, instant, shown = [], [], list[tuple[str, handed.Trips]]()
    for axis, (title, members) in zip(axes, parts, strict=True):
        longest = 0.0
        for n, (look, label) in enumerate(zip(looking, every, strict=True)):
            own = [c for c in members if by is None or c.labels[by] == label]
            found = [x for c in own for x in _trips_of(results, c, gone, flow)]
            named = ", ".join(w for w in (title, words.apart(by, label)) if w)
            shown += [(named, f) for f in found]
            if not (x := np.concatenate([np.empty(0), *(f.known for f in found)])).size:
                continue
            if not x.any():  # a curve on the axis would not be seen
                instant.append(named or "all of them")
                continue
            longest = max(longest, float(x.max()))
            across, up, marks = style.distribution(x, n, len(every))
            marks |= style.shape(look) if marks else {}
            (line,) = axis.plot(
                across, up, color=style.colour(look), linestyle=style.dash(look), **marks
            )
            handles.setdefault(words.apart(by, label), line)
            told.append(f"{named} {style.number(float(np.median(x)))} s".lstrip())
        style.entitle(axis, title)
        axis.set_xlabel("round trip, s")
        axis.set_ylim(0, 1.02)
        axis.set_xlim(0, 1.03 * longest if longest else 1.0)
        style.grid(axis, "both")
    if not any(found.known.size for _, found in shown):
        raise LabError("no packet's round trip is known")
    style.label_rows(axes, "share of packets")
    legends.above(figure, list(handles.values()), list(handles))
    caption = _of_trips(shown, told, instant, _intervals(cells))
    if len(parts) > 1:
        caption += " The panels have scales of their own."
    return figure, f"Distribution of round trips{of}", caption + others + left + rest


def _of_trips(
    shown: Sequence[tuple[str, handed.Trips]], told: Sequence[str], instant: Sequence[str],
    intervals: str,
) -> str:  # fmt: skip
    """What the caption says of round trips, each with its curve's name, and of the medians that are
    `told`.
    """
    sizes = [f.known.size for _, f in shown]
    packets, runs = sum(sizes), sum(map(bool, sizes))
    caption = (
        f"Round trips of {packets} packets of {runs} runs, from the first time that the source "
        "handed a packet to its driver to the first word that it arrived, overheard or told"
    )
    if late := _by_curve([(named, f.at_end.size) for named, f in shown]):
        caption += f"; of {late} of them to when it knew that all had arrived, the last word"
    caption += "."
    if never := _by_curve([(named, f.never) for named, f in shown], " packets"):
        caption += f" Not shown: {never} of which no word came before their run ended."
    if told:
        caption += f" Medians: {'; '.join(told)}."
    if instant:
        caption += f" No curve, as all are 0 at this interval: {'; '.join(instant)}."
    return f"{caption} Recorded each {intervals}, which is how exact they are."


def _by_curve(counts_of: Sequence[tuple[str, int]], what: str = "") -> str:
    """A sum over all curves, and where there are several how much of it each has; nothing if 0."""
    sums: dict[str, int] = {}
    for named, count in counts_of:
        sums[named] = sums.get(named, 0) + count
    total = f"{sum(sums.values())}{what}"
    each = [f"{named} {count}" for named, count in sums.items() if count]
    if len(sums) < 2 or not each:
        return total if each else ""
    return f"{total} ({named_first(each, CELLS)})"


def _intervals(cells: Sequence[Cell]) -> str:
    """How often the series of cells are looked at."""
    found = []
    for cell in cells:
        record = cell.scenario.get("record")
        given = record.get("interval", INTERVAL) if isinstance(record, dict) else INTERVAL
        found.append(f"{values.seconds(given) * 1e3:g} ms")
    return " or ".join(dict.fromkeys(found))


def _trips_of(
    results: Results, cell: Cell, gone: set[tuple[str, int]], flow: int
) -> list[handed.Trips]:
    """The round trips of each run of a cell that counts and has series."""
    found = []
    for run in sorted(results.plan.series_runs):
        if (cell.name, run) not in gone and (series := results.series(cell, run)):
            found.append(handed.trips(series, results.outcome(cell, run), flow))
    return found


def rates(results: Results, spec: dict[str, Any]) -> Made:
    """What nodes hand down over time, a column for each cell, a row for each node: of the run whose
    transfer took as long as the median, or longest.
    """
    cells, nodes = chosen(results, spec), [str(n) for n in spec["nodes"]]
    flow, others, of = _flow(results, spec, cells)
    window, which = values.seconds(spec.get("window", "1s")), str(spec.get("which", "median"))
    begin, end = (values.seconds(spec[k]) if k in spec else None for k in ("from", "to"))
    picked = [(c, _picked(results, c, which, flow)) for c in cells]
    found, rest = first([(c, run) for c, run in picked if run is not None], MOST)
    if not found:
        raise LabError("no run has series: name some in [series] runs, and the nodes in record")
    outcomes = [results.outcome(cell, run.run) for cell, run in found]
    octets = [handed.payload(handed.flow_of(outcome, flow)) for outcome in outcomes]
    unit, scale = ("Mb/s", 1e6) if all(o == o for o in octets) else ("packets/s", 1.0)
    if unit != "Mb/s" and "published" in spec:
        raise LabError("`published` is in Mb/s, and the octets of a packet are not recorded")
    figure, columns = columns_of(len(found), len(nodes), own_times=True)
    names = Words(results, spec).titles(cells)
    for (cell, run), outcome, size, column in zip(found, outcomes, octets, columns, strict=True):
        series = results.series(cell, run.run)
        over = handed.flow_of(outcome, flow).get("known_s") or outcome["sim_seconds"]
        down = [handed.handed(series, node, flow) for node in nodes]
        start = min((float(times[0]) for times in down if times.size), default=0.0)
        for axis, times in zip(column, down, strict=True):
            bits = 8 * size if unit == "Mb/s" else 1.0
            at, rate = handed.rates(times, window, float(over), start, bits)
            if not at.size:  # which is no rate of 0
                _say(axis, f"shorter than\nthe window, {window:g} s" if times.size else "nothing")
            axis.plot(at, rate / scale, color=style.colour(0), linewidth=0.75 * style.line())
            axis.set_xlim(begin or 0.0, end or float(over))
            _mark(axis, spec.get("published"))
            style.grid(axis)
        style.entitle(column[0], f"{names[cell.name]}, run {run.run}".removeprefix(", "))
        column[-1].set_xlabel("time, s")
    for row, node in enumerate(nodes):
        style.label_rows([column[row] for column in columns], f"rate at {node}, {unit}")
        for column in columns:
            # Only now: panels share a scale, and a limit that is set stays.
            column[row].set_ylim(bottom=0)
        page.align([column[row] for column in columns], "y")
    if "published" in spec:
        legends.above(figure, [_published_line()], ["published"])
    caption = _of_rates(octets, unit, window, which)
    if len(found) > 1:
        caption += " The panels have times of their own: each ends when its transfer does."
    caption += _among([(names[cell.name], run) for cell, run in found], which)
    return figure, f"Rates over time{of}", caption + others + rest


def _say(axis: Axes, text: str) -> None:
    """Words in a panel that has no line."""
    axis.text(
        0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center",
        fontsize=style.small(), color=style.INK, path_effects=style.halo(),
    )  # fmt: skip


def _of_rates(octets: Sequence[float], unit: str, window: float, which: str) -> str:
    """What the caption says of rates."""
    what = "Packets"
    if unit == "Mb/s":
        sizes = list(dict.fromkeys(f"{size:.4g}" for size in octets))
        what = f"Octets of the application, {' or '.join(sizes)} in a packet on the mean,"
    longest = "the longest" if which == "longest" else "the median"
    return (
        f"{what} that a node handed to its driver in a window of {window:g} s before each instant, "
        f"repetitions included; of the transfer of {longest} time of each cell."
    )


class Picked(NamedTuple):
    """A run that is shown, and among which."""

    run: int
    took: float
    """How long its transfer took, seconds; infinite if it had no end."""
    having: int
    """Runs that have series."""
    every: Sequence[float]
    """How long transfers of all runs that count took, from the shortest on."""


def _among(found: Sequence[tuple[str, Picked]], which: str) -> str:
    """What the caption says where not all runs have series, among which one is the median."""
    said = []
    for title, run in found:
        if run.having == len(run.every):
            continue
        at = -1 if which == "longest" else (len(run.every) - 1) // 2
        took, all_of = (
            "no end" if s == np.inf else f"{style.number(s)} s" for s in (run.took, run.every[at])
        )
        what = "longest" if which == "longest" else "median"
        told = f"{run.having} of {len(run.every)} runs; {took}, where the {what} of all is {all_of}"
        said.append(f"{title}: {told}" if title else told)
    if not said:
        return ""
    return f" That is among the runs that have series: {'. '.join(said)}."


def _picked(results: Results, cell: Cell, which: str, flow: int) -> Picked | None:
    """The run of a cell with series whose transfer took as long as the median, or longest."""
    took = {}
    for run in results.ok.loc[results.ok["cell"] == cell.name, "run"]:
        known = known_times(handed.flow_of(results.outcome(cell, int(run)), flow))
        took[int(run)] = known[0] if known else np.inf
    having = sorted((run for run in took if run in results.plan.series_runs), key=took.__getitem__)
    if not having:
        return None
    run = having[-1 if which == "longest" else (len(having) - 1) // 2]
    return Picked(run, took[run], len(having), sorted(took.values()))


AT_HOPS = {
    "loss": (
        "Lost on each hop towards the target",
        "sent and lost, %",
        "{packets} that a node sent which the next one never got, after all attempts ({rest}, as "
        "it is in the metric `loss`)",
    ),
    "passive_loss": (
        "Not overheard on each hop",
        "handed on, not overheard, %",
        "packets that the next node handed on of which a node heard no attempt",
    ),
}
"""By metric the title of a figure of hops, what stands along its scale, and what it is a share of.
"""


DIRECTIONS = {
    (False, False): (
        "packets towards the flow's target",
        "what goes back, such as acknowledgements, is not in it",
    ),
    (False, True): ("acknowledgements, which go back,", "what goes to the target is not in it"),
    (True, False): (
        "questions and acknowledgements towards the flow's target",
        "the answers, which are its data, go back and are not in it: `reverse = true` is of them",
    ),
    (True, True): ("answers", "questions and acknowledgements are not in it"),
}
"""Of which packets hops are, and what is left out: of a flow that asks or not, in its direction or
in reverse.
"""


def hops(results: Results, spec: dict[str, Any]) -> Made:
    """What is lost on each hop: bars of means, with the quartiles of the runs."""
    metric = str(spec.get("metric", "loss"))
    cells, by = chosen(results, spec), by_of(results, spec, None)
    flow, others, of = _flow(results, spec, cells)
    words = Words(results, spec)
    reverse = bool(spec.get("reverse", False))
    tables, untold = _tables(results, cells, metric, (flow, reverse))
    parts, cells, rest = split(words, [c for c in cells if c.name in tables], [by])
    figure, axes = page.panels(len(parts), height=2.8, columns=2)
    every = levels(cells, by)
    looking = looks(results, by, every)
    handles: dict[str, Any] = {}
    width = 0.8 / len(every)
    counts_of = {c.name: _count(results, c, (flow, metric), tables[c.name]) for c in cells}
    last = max(counts_of.values())
    dropped, crossed, means = [], [], list[tuple[Axes, float, float, float]]()
    for axis, (title, members) in zip(axes, parts, strict=True):
        for n, (look, label) in enumerate(zip(looking, every, strict=True)):
            handles.setdefault(words.apart(by, label), style.patch(look))
            for cell in (c for c in members if by is None or c.labels[by] == label):
                table = tables[cell.name]
                aside = (n - (len(every) - 1) / 2) * width
                at = np.asarray(table.columns, float) + aside
                axis.bar(at, table.mean(), width * 0.92, **style.face(look))
                low, high = table.quantile(0.25), table.quantile(0.75)
                axis.vlines(at, low, high, color=style.INK, linewidth=0.8 * style.line())
                own = table.mean().reindex(range(1, counts_of[cell.name] + 1))
                high = high.reindex(own.index)
                means += [(axis, hop + aside, own[hop], high[hop]) for hop in own.index]
                named = ", ".join(w for w in (title, words.apart(by, label)) if w)
                if metric == "loss":
                    dropped.append(_Left.of(results, cell, (flow, reverse), named))
                runs = int(results.ok["cell"].eq(cell.name).sum())
                packets = packets_at_hops(results, cell, metric, flow, reverse)
                crossed.append((named, packets, runs))
        _mark(axis, spec.get("published"))
        style.entitle(axis, title)
        axis.set_xticks(range(1, last + 1))
        axis.set_xlim(0.4, last + 0.6)
        axis.set_xlabel("hop")
        style.grid(axis)
    # Only now: panels share a scale, and a limit that is set stays.
    for axis in axes:
        axis.set_ylim(bottom=0)
    style.from_zero(axes)
    page.align(axes, "y")
    points, flat = _points(axes[0], width / (last + 0.2)), FLAT * axes[0].get_ylim()[1]
    for axis, place, value, top in means:
        # Where quartiles are seen there is something.
        if not (value > flat or top > flat):
            told = style.number(value) if value > 0 else "0" if value == 0 else "n/a"
            _number(axis, place, told, points)
    named, scale, what = AT_HOPS[metric]
    whose, left = DIRECTIONS[all(asks(cell, flow) for cell in cells), reverse]
    what = what.format(packets=whose, rest=left)
    named = named.replace("towards the target", "back") if reverse else named
    style.label_rows(axes, scale)
    if "published" in spec:
        handles["published"] = _published_line()
    legends.above(figure, list(handles.values()), list(handles))
    alone = all(len(tables[c.name]) <= 1 for c in cells)
    caption = f"Share of the {what}: "
    caption += "" if alone else "means, and quartiles of the runs; "
    caption += f"{counts(results, cells, metric)}."
    caption += of_unlike(cells, flow, reverse)
    caption += " n/a: no packet came there." if any(np.isnan(m[2]) for m in means) else ""
    caption += _of_few(crossed) + _few_packets(crossed)
    caption += _left_out(dropped) if metric == "loss" else ""
    return figure, f"{named}{of}", caption + _untold(untold) + others + rest


def _tables(
    results: Results, cells: Sequence[Cell], metric: str, of: tuple[int, bool]
) -> tuple[dict[str, Any], list[str]]:
    """What is lost at the hops of each cell, by its name, and cells of which no run tells it.
    LabError if none of any does.
    """
    found, untold, error = dict[str, Any](), list[str](), None
    if bad := all_bad(results, cells):
        raise LabError(bad)
    for cell in cells:
        try:
            found[cell.name] = lost_at_hops(results, cell, metric, *of)
        except LabError as e:
            untold.append(cell.name)
            error = e
    if not found and error is not None:
        raise error
    return found, untold


def _count(results: Results, cell: Cell, what: tuple[int, str], table: Any) -> int:
    """How many hops of a flow in a cell may have a value of a metric, whether or not a packet came
    that far.
    """
    flow, metric = what
    # Nobody hands on what crossed the last one.
    end = int(metric == "passive_loss")
    runs = results.ok.loc[results.ok["cell"] == cell.name, "run"]
    told = [handed.flow_of(results.outcome(cell, int(run)), flow) for run in runs]
    return max(
        [*map(int, table.columns), *(int(f.get("hops") or 0) - end for f in told)], default=1
    )


def _points(axis: Axes, share: float) -> float:
    """How wide a share of a panel is, in points."""
    return 72 * share * axis.get_position().width * float(page.root(axis).get_figwidth())


def _number(axis: Axes, at: float, text: str, points: float) -> None:
    """What stands where no bar is seen, of which one is so many points wide."""
    upright = len(text) > 1 and points < len(text) * 0.6 * style.small()
    size = min(style.small(), max(SMALLEST, points / (1.1 if upright else 0.62)))
    axis.annotate(
        text, (at, 0.0), xytext=(0, 2), textcoords="offset points", ha="center", va="bottom",
        fontsize=size, color=style.INK, rotation=90 if upright else 0,
    )  # fmt: skip


def _untold(cells: Sequence[str]) -> str:
    """What the caption says of cells of whose hops nothing is known."""
    if not cells:
        return ""
    return f" Not shown, as no run that counts tells of these hops: {named_first(cells, CELLS)}."


def _of_few(crossed: Sequence[tuple[str, Any, int]]) -> str:
    """What the caption says of hops that not all runs of a cell have a value of, by how many
    packets there were in each run.
    """
    told = []
    for named, packets, runs in crossed:
        counts_at = packets.notna().sum()
        found = [f"{n} at hop {hop}" for hop, n in counts_at.items() if n < runs]
        if found:
            told.append(f"{named} {', '.join(found)} of {runs}".lstrip())
    return f" Not all runs have a value of every hop: {named_first(told, CELLS)}." if told else ""


def _few_packets(crossed: Sequence[tuple[str, Any, int]]) -> str:
    """The same of shares of so few packets that one of them is much."""
    told = []
    for named, packets, _ in crossed:
        few = packets.where(packets < FEW)
        found = [f"{_ends(few[hop])} at hop {hop}" for hop in few.columns if few[hop].notna().any()]
        if found:
            told.append(f"{named} {', '.join(found)}".lstrip())
    if not told:
        return ""
    return (
        f" Some shares are of fewer than {FEW} packets of a run, so that one packet is more than "
        f"{100 / FEW:.0f} % of them: {named_first(told, CELLS)}."
    )


def _ends(counts_of: Any) -> str:
    """From the least of some counts to the greatest."""
    low, high = int(counts_of.min()), int(counts_of.max())
    return f"{low}" if low == high else f"{low} to {high}"


class _Left(NamedTuple):
    """What is in no bar of a cell, in packets per run: by hop what queues dropped and full lanes
    did not take, and what handlers and lanes let go somewhere.
    """

    named: str
    queues: Any
    lanes: Any
    let_go: float

    @staticmethod
    def of(results: Results, cell: Cell, of: tuple[int, bool], named: str) -> _Left:
        """Of a flow in a cell that a figure calls so, perhaps of what goes back."""
        flow, reverse = of
        queues = dropped_at_hops(results, cell, flow, reverse=reverse)
        lanes = dropped_at_hops(results, cell, flow, "lane_drops", reverse)
        return _Left(named, queues, lanes, let_go(results, cell, flow))


def _left_out(cells: Sequence[_Left]) -> str:
    """What the caption says of packets that were lost before they were sent, by cell and hop."""
    lanes = _at_hops([(c.named, c.lanes) for c in cells])
    gone = [(c.named, style.number(c.let_go)) for c in cells if c.let_go > 0]
    told = _at_hops([(c.named, c.queues) for c in cells])
    if not any(c.queues.notna().any() for c in cells):
        said = " What queues dropped before it was sent is not recorded."
    elif told:
        said = f" Not in it are packets that queues dropped before they were sent, per run: {told}."
    else:
        said = f" Queues dropped nothing{'' if lanes or gone else ' besides'}."
    if lanes:
        said += f" Not in it are packets that full lanes did not take, per run: {lanes}."
    if gone:
        counts_of = [f"{named}: {count}" if named else count for named, count in gone]
        said += (
            " Not in it are packets that handlers of nodes dropped or lanes let go, per run and of "
            f"both directions: {named_first(counts_of, CELLS)}; at which hop is not recorded."
        )
    return said


def _at_hops(dropped: Sequence[tuple[str, Any]]) -> str:
    said = []
    for named, drops in dropped:
        found = [f"{style.number(count)} at hop {hop}" for hop, count in drops.items() if count > 0]
        if found:
            said.append(f"{named} {', '.join(found)}".lstrip())
    return "; ".join(said[:CELLS]) + (f" and {len(said) - CELLS} more" if len(said) > CELLS else "")


def _mark(axis: Axes, published: Any) -> None:
    """A line at each value that a paper has."""
    told = published if isinstance(published, list) else [published]
    for value in (v for v in told if v is not None):
        axis.axhline(value, color=style.INK, linestyle=(0, (1, 1.5)), linewidth=style.line())


def _published_line() -> Line2D:
    return Line2D([], [], color=style.INK, linestyle=(0, (1, 1.5)), linewidth=style.line())
