"""What is to be said beside numbers, so that nobody concludes from them what they do not say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wifu import (
    answering,
    backoff,
    bimodal,
    closed,
    course,
    crowded,
    cutoff,
    demand,
    displaced,
    drawn,
    early,
    ending,
    endless,
    faults,
    filesizes,
    fixed,
    flooding,
    growing,
    happenings,
    harmonic,
    heldback,
    hostcost,
    knowing,
    lasting,
    lighter,
    limited,
    marks,
    misread,
    narrow,
    offered,
    overlooked,
    phases,
    pooled,
    ramp,
    rare,
    roundtrips,
    routes,
    segments,
    short,
    shutout,
    splits,
    starving,
    stats,
    tails,
    turned,
    turns,
    unused,
    waited,
    walking,
    ways,
    wholerun,
)
from wifu.absent import uncounted
from wifu.asked import ASKING
from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.metrics import Measure, column, of_datagrams, parts, unstarted
from wifu.probes import arrived, few, outlasting, unprobed
from wifu.rows import (
    RATES,
    Results,
    alongside,
    by_cell,
    compared,
    flows_of,
    of_protocols,
    rows_of,
)
from wifu.rows import carriers as carriers
from wifu.stamps import first
from wifu.unlike import (
    alone,
    brief,
    counted,
    emptied,
    failing,
    handled,
    idle,
    loads,
    numbers,
    passing,
    smallest,
    strangers,
    together,
    tried,
)
from wifu.window import partly

MOST = 10
"""Cells that are named."""

APART = 1.05
"""Up to so many times what flows carry together, and the sum of their goodputs is taken for it."""

ENOUGH = 10
"""Of so many batches an interval is made without a word: how much fewer depend on each other they
do not tell.
"""

STALLED = 2.0
"""So many times as long as any before it, and a batch that is not over is told."""

INSIDE = 0.01
"""Of more packets than this share, which are still under way at the end of runs, it is told."""

WHOLE = ("loss", "finished")
"""Metrics of all flows, that goodput of some stands beside."""


BARE = re.compile(r" ?There is neither colour nor bold(\.|; )")
AFTER = {".": "", "; ": " "}
"""That there is no colour, without where, and what stays of it by what comes after."""


def notes(results: Results, cells: Sequence[Cell], metric: str) -> list[str]:
    """Sentences about a metric in these cells."""
    if "flow" not in results.flows:  # no run came out
        return []
    return _once([told for said in SAID if (told := said(results, cells, metric))])


def _once(every: Sequence[str]) -> list[str]:
    """These sentences, of which the first alone says that there is no colour whatever the numbers
    are.
    """
    seen, out = False, []
    for told in every:
        pieces = BARE.split(told)
        if seen and len(pieces) > 1:
            told = _without(pieces)
        seen = seen or len(pieces) > 1
        out.append(told.strip())
    return out


def _without(pieces: Sequence[str]) -> str:
    """What stood around those words; behind a full stop what followed them begins a sentence."""
    told = pieces[0]
    for after, text in zip(pieces[1::2], pieces[2::2], strict=True):
        begins = after == "; " and told.rstrip().endswith(".")
        told += AFTER[after] + (text[:1].upper() + text[1:] if begins else text)
    return told


def _beside(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows of datagrams that a metric leaves out."""
    if metric not in (*RATES, *OF_FINISHED, *WHOLE) or metric == "known":
        return ""
    rows = rows_of(results, cells)
    left = sorted({int(n) for n in rows[~rows.index.isin(carriers(rows).index)]["flow"]})
    if not left:
        return ""
    named = first([str(n) for n in left], MOST)
    if metric in WHOLE:
        return (
            f"Of all flows, datagrams (flow {named}) too, which goodput and times leave out: "
            f"`{metric}@N` is that of flow N."
        )
    return (
        f"Of the flows over connections; datagrams (flow {named}) are left out: "
        f"`goodput@{left[0]}` is that of flow {left[0]}."
    )


def _apart(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Where flows were not there at the same time."""
    by = together(results, cells, metric)
    apart, hardly = by["shared"] <= 0, by["shared"] < by["longest"] / 2
    inside = " in the window" if results.plan.measure.mode == "window" else ""
    told = []
    if apart.any():
        told.append(
            f"In {int(apart.sum())} of {len(by)} runs there was no time{inside} at which all flows "
            "were there: their goodputs are of different times, and no shares of one capacity."
        )
    if part := int((hardly & ~apart).sum()):
        told.append(
            f"In {part} of {len(by)} runs all flows were there together{inside} for less than half "
            "of the time of the longest: for the most part their goodputs are no shares of one "
            "capacity."
        )
    if strangers(results, cells, metric):
        told.append("There is neither colour nor bold where that is so in most runs of a cell.")
    return " ".join(told)


def _sum(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Goodputs of different times, added up, where that is more than all carried together."""
    columns = [column(name) for name in ("sum_rates", "aggregate")]
    if metric not in ("goodput", "sum_rates") or not all(c in results.runs for c in columns):
        return ""
    runs = results.runs
    runs = runs[(runs["status"] == "ok") & runs["cell"].isin([c.name for c in cells])]
    means = runs.groupby("cell")[columns].mean()
    most = float((means[columns[0]] / means[columns[1]].where(lambda x: x > 0)).max())
    if not most > APART:
        return ""
    return (
        "Each flow's goodput is over its own time. Where flows end apart, their sum and mean are "
        f"above what they carried together ({most - 1:.0%} at the most), the more so the less fair "
        f"they are and the longer nothing went on between them{of_all(results.plan.measure)}."
    )


def of_all(measure: Measure) -> str:
    """What the total goodput is, at the end of a sentence that it is set beside."""
    return f": `aggregate` is {measure.together}"


def _absent(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows that had no time to start, or whose bytes took none."""
    if of_datagrams(metric):
        return _without_load(results, cells)
    if parts(metric)[0] not in RATES:
        return ""
    rows = carriers(rows_of(results, cells), metric)
    told = []
    never = rows["bytes"].eq(0) & unstarted(rows["start_s"].fillna(0.0), rows["sim_seconds"])
    if never.any():
        ends = rows[never]["sim_seconds"]
        at = f"{ends.min():.4g} s" + (f" to {ends.max():.4g} s" if ends.max() > ends.min() else "")
        told.append(
            f"{int(never.sum())} of {len(rows)} flows had not started when their run ended (at "
            f"{at}): they have no value, nor have means and shares of these runs."
        )
    once = rows["finished"].eq(True) & (rows["last_byte_s"] == rows["first_byte_s"])
    once &= rows["bytes"] > 0
    if results.plan.measure.mode == "receiver" and once.any():
        told.append(
            f"{int(once.sum())} of {len(rows)} flows had all of their bytes at one instant: a "
            "receiver has no rate of them (`measure`)."
        )
    return " ".join(told)


def _without_load(results: Results, cells: Sequence[Cell]) -> str:
    """Runs that were over before the load of their datagrams began, and before their own end."""
    rows = rows_of(results, cells)
    limits = rows["cell"].map(lasting.limits(cells)).astype(float).fillna(np.inf)
    load = rows[rows["flow_protocol"].ne("udp") & (rows["sim_seconds"] < limits)]
    none = load["bytes"].eq(0) & unstarted(load["start_s"].fillna(0.0), load["sim_seconds"])
    runs = [load["cell"], load["run"]]
    found = load[none.groupby(runs).transform("all")]
    if found.empty:
        return ""
    count = found[["cell", "run"]].drop_duplicates()
    ends = found["sim_seconds"]
    at = f"{ends.min():.4g} s" + (f" to {ends.max():.4g} s" if ends.max() > ends.min() else "")
    return (
        f"{len(count)} of {rows.groupby(['cell', 'run']).ngroups} runs were over (at {at}) before "
        "their load began, as all flows that come to an end by themselves had: delays under load "
        "have no value there. A flow of the load with an end (`bytes`, `time`) keeps a run going."
    )


def _unconnected(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows that never connected, whose numbers are of no transfer."""
    base, every = parts(metric)[0], rows_of(results, cells)
    if base not in (*RATES, *OF_FINISHED, "finished", "connecting"):
        return ""
    missing = faults.unconnected(results, cells, metric)
    if missing.empty:
        return ""
    why = ": their goodput is 0, and part of means and shares" if base in RATES else ""
    return (
        f"{len(missing)} of {len(carriers(every, metric))} flows never connected (by cell: "
        f"{by_cell(missing, cells)}){why}.{flooding.kept_out(results, cells, missing)}"
    )


def _short(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Runs that ended before there was a batch that counts."""
    if parts(metric)[0] not in RATES or results.plan.measure.mode != "steady":
        return ""
    rows = rows_of(results, cells).drop_duplicates(["cell", "run"])
    start = results.plan.measure.discard
    none, early = (int((rows["batches_ended"] < count).sum()) for count in (start + 1, start))
    if not none:
        return _stalled(rows)
    told = (
        f"{none} of {len(rows)} runs ended before a batch was over after the {start} to leave out: "
        "their goodput is of what came after these until the end"
    )
    if early:
        told += f"; {early} of them before these were, so that theirs has the start in it"
    return told + "."


def _stalled(rows: pd.DataFrame) -> str:
    """Runs that ended long after their last batch, in one that was not over."""
    if "rest_s" not in rows:  # of an older lab
        return ""
    known = rows[rows["batch_s"].notna() & (rows["rest_s"] > 0)]
    found = []
    for rest, spans in zip(known["rest_s"], known["batch_s"], strict=True):
        longest = max([*spans[:-1], 0.0] if spans[-1] == rest else spans)
        if rest > STALLED * longest:
            found.append((float(rest), float(longest)))
    if not found:
        return ""
    after = faults.spread([rest for rest, _ in found])
    return (
        f"In {len(found)} of {len(rows)} runs the last batch was not over when the run ended, "
        f"after {after}, where those before took {max(at for _, at in found):.2g} s at the most: "
        "flows stalled in it, or were over. That time is in their goodput."
    )


def _small(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Batches that make no interval, where a single run has its own from them."""
    if parts(metric)[0] not in ("goodput", "aggregate", "sum_rates"):
        return ""
    if results.plan.measure.mode != "steady" or results.plan.deterministic:
        return ""
    rows = carriers(rows_of(results, cells), metric)
    found = []
    for name, own in rows[rows["batch_s"].notna()].groupby("cell", sort=False):
        if own["run"].nunique() == 1 and (why := _unfit(own)):
            found.append(f"{name} ({why})")
    if not found:
        return ""
    return (
        "Intervals of one run's batches may cover less than 95 %: "
        f"{first(found, MOST)}. Take larger ones and ten at least (stop.batch, stop.packets), or "
        "more runs."
    )


def _unfit(flows: pd.DataFrame) -> str:
    """Why the batches of a run are not what an interval can be made of; nothing if they are."""
    times = np.asarray(flows["batch_s"].iloc[0], dtype=float)
    if times.size < 3:
        return ""
    if not times.all():
        return f"{int((times == 0).sum())} of {times.size} took no time"
    if np.std(times) > np.mean(times):
        return f"they took {times.min():.2g} to {times.max():.2g} s"
    if times.size < ENOUGH:
        return f"only {times.size} batches"
    rates = sum(np.asarray(b, dtype=float) for b in flows["batch_bytes"]) / times
    follow = stats.neighbours(rates)
    # One-sided at 5 % of what independent ones have.
    return f"lag-1 correlation {follow:.2f}" if follow > 1.645 / times.size**0.5 else ""


def _paused(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows that rest between their requests, or write by a timetable."""
    base, only = parts(metric)
    if base not in (*RATES, *OF_FINISHED):
        return ""
    flows = [flow for cell in cells for n, flow in flows_of(cell) if only in (None, n)]
    if any(flow.get("protocol") != "udp" for flow in flows):
        flows = [flow for flow in flows if flow.get("protocol") != "udp"]
    told = []
    if base in RATES and any(map(_rests, flows)):
        told.append(
            "Of flows that pause between what they fetch a rate is by the whole time, pauses "
            "included: see `delay`."
        )
    if any(map(_waits, flows)):
        told.append(
            "Of flows that write by a timetable (`trace`, `onoff`) goodput and download time have "
            "the times in them at which nothing was to be sent: these are the scenario's."
        )
    return " ".join(told)


def _rests(flow: Mapping[str, Any]) -> bool:
    there = str(flow.get("pause", "0")).strip("0.") not in ("", "s", "ms", "us")
    return flow.get("app") in ASKING and there


def _waits(flow: Mapping[str, Any]) -> bool:
    if flow.get("app") == "onoff":
        return True
    rows = flow.get("rows")
    return flow.get("app") == "trace" and isinstance(rows, list) and rows[0][0] != rows[-1][0]


def _otherwise_far(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """An axis called `hops` whose levels are not what routes have, and routes that are longer in
    some cells than in others.
    """
    rows = rows_of(results, cells)
    if "flow_hops" not in rows or parts(metric)[0] not in RATES:
        return ""
    ways = _unlike_ways(results, cells, metric)
    known = rows[rows["flow"].eq(1) & rows["flow_hops"].notna()]
    far = known.groupby("cell")["flow_hops"].agg(["min", "max"])
    told = [
        f"{low:g}{'' if low == high else f' to {high:g}'} at {c.labels['hops']}"
        for c in cells
        if c.name in far.index
        for low, high in [far.loc[c.name]]
        if isinstance(c.labels.get("hops"), int) and {low, high} != {float(c.labels["hops"])}
    ]
    if not told:
        return ways
    named = first(list(dict.fromkeys(told)), MOST)
    return (
        f"Routes of flow 1 have other hops than the level of `hops` says: {named}. {ways}".rstrip()
    )


def _unlike_ways(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That routes are longer in some cells than in others, and whether they are compared; of an
    axis that says so, in cells of one level.
    """
    rows = carriers(rows_of(results, cells), metric)
    every = rows[rows["flow_hops"].notna()].groupby("cell")["flow_hops"].mean()

    def apart(own: Sequence[Cell]) -> bool:
        hops = every[[c.name for c in own if c.name in every.index]]
        return len(hops) > 1 and bool(hops.max() - hops.min() > 0.05 * hops.max())

    levels = {str(c.labels.get("hops")) for c in cells}
    met = [
        own
        for group in compared(results, cells)
        for level in levels
        if apart(own := [c for c in group if str(c.labels.get("hops")) == level])
    ]
    named = any("hops" in c.labels for c in cells)
    if not met and (named or not apart(cells)):
        return ""
    told = {c.name for own in met for c in own} if named else set(every.index)
    there = [f"{c.name} {every[c.name]:.2g}" for c in cells if c.name in told & set(every.index)]
    even = ", not even in those that are compared" if met else ""
    return (
        f"Routes are not equally long in all cells{even} "
        f"(mean of the flows' hops, by cell: {first(there, MOST)})."
    )


def _both_ways(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That lost packets are of both directions."""
    rows = carriers(rows_of(results, cells), metric)
    if parts(metric)[0] != "loss" or rows["flow_protocol"].eq("udp").all():
        return ""
    others = any(of_protocols(group) for group in alongside(results, cells))
    unlike = (
        ": a transport that sends fewer or smaller acknowledgements has other packets, not only "
        "other losses"
    )
    return (
        "Of the packets of both directions, data and acknowledgements, all counted alike"
        f"{unlike * others}. `results.hops()` tells them apart (`reverse`)."
    )


def _length(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What is of how long runs are, in one note."""
    ways = (
        short.few,
        course.apart,
        short.learning,
        short.losses,
        growing.connections,
        ending.waiting,
    )
    return early.sentence([told for way in ways if (told := way(results, cells, metric))])


def _inside(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Packets that had neither arrived nor been lost when their run ended."""
    base, only = parts(metric)
    rows = rows_of(results, cells)
    if base != "loss" or "packets_inside" not in rows:  # of an older lab
        return ""
    rows = rows if only is None else rows[rows["flow"] == only]
    names = [f"packets_{what}" for what in ("inside", "sent", "copies")]
    sums = rows.reindex(columns=names).astype(float).groupby(rows["cell"]).sum()
    sent = sums["packets_sent"] + sums["packets_copies"]
    shares = (sums["packets_inside"] / sent.where(sent > 0)).dropna()
    if not len(shares) or shares.max() <= INSIDE:
        return ""
    return (
        "Packets that waited or were on their way when their run ended count neither as sent nor "
        f"as lost: they were {shares.min():.1%} to {shares.max():.1%} of those sent, by cell. A "
        "queue that still fills then has not begun to lose: longer runs would tell."
    )


SAID = (
    _beside,
    fixed.words,
    fixed.beside,
    _apart,
    _sum,
    ways.above,
    idle,
    _absent,
    lasting.early,
    lasting.words,
    happenings.words,
    backoff.words,
    walking.words,
    _unconnected,
    failing,
    brief,
    _short,
    heldback.words,
    _small,
    drawn.words,
    drawn.exact,
    outlasting,
    unprobed,
    partly,
    segments.words,
    counted,
    filesizes.words,
    closed.words,
    emptied,
    endless.words,
    passing,
    arrived,
    growing.datagrams,
    loads,
    few,
    roundtrips.mixed,
    _paused,
    alone,
    numbers,
    turned.words,
    roundtrips.classes,
    roundtrips.samples,
    lighter.words,
    displaced.words,
    smallest,
    tried,
    uncounted,
    misread.ended,
    misread.unsent,
    misread.survivors,
    ramp.ramp,
    _length,
    starving.floored,
    starving.unseen,
    turns.words,
    tails.words,
    misread.recovered,
    misread.timerless,
    ways.copies,
    ways.recounts,
    ways.untold,
    ways.asked,
    splits.words,
    knowing.words,
    knowing.untold,
    answering.words,
    answering.asked,
    ways.frames,
    ways.spoken,
    ways.timings,
    ways.stayed,
    _both_ways,
    _otherwise_far,
    routes.words,
    _inside,
    handled,
    crowded.words,
    shutout.words,
    wholerun.words,
    hostcost.words,
    overlooked.words,
    demand.wants,
    demand.lateness,
    demand.holds,
    waited.words,
    limited.words,
    narrow.words,
    offered.words,
    bimodal.words,
    rare.words,
    harmonic.words,
    unused.words,
    marks.words,
    cutoff.none_of_them,
    pooled.kinds,
    pooled.words,
    phases.words,
    phases.moments,
)
"""What there is to say, each of a metric in some cells."""
