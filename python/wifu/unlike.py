"""Cells whose numbers are not of the same: there is no better or worse between them, and neither
colour nor bold, whatever the numbers are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from wifu import (
    answering,
    backoff,
    closed,
    course,
    crowded,
    demand,
    faults,
    filesizes,
    fixed,
    happenings,
    harmonic,
    heldback,
    hostcost,
    knowing,
    lasting,
    lighter,
    misread,
    overlooked,
    phases,
    pooled,
    roundtrips,
    segments,
    short,
    shutout,
    splits,
    tries,
    turned,
    waited,
    walking,
    ways,
    wholerun,
    window,
)
from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED, by_the_clock
from wifu.metrics import RUN_METRICS, of_datagrams, parts
from wifu.probes import few, selected
from wifu.rows import RATES, SHARES, Results, ahead, alongside, carriers, ends, flows_of, rows_of
from wifu.stamps import first
from wifu.transfers import SIZED

COUNTS = tuple(name for name, metric in RUN_METRICS.items() if metric.unit == "per run")
"""Metrics that count events of a run."""

EVEN = 1.1
"""Up to so many times as many bytes delivered, and counts are compared."""

TIMED = ("time", "stop_at")
"""What says until when an application writes."""

MOSTLY = 0.5
"""In more of a cell's runs flows hardly met, and their shares are not compared."""

NUMBERED = ("jain", "unfairness", "utility", "lowest", "weakest")
"""Metrics that depend on how many flows share."""

IDLE = 0.05
"""For more than such a share of the time of all there is no flow, and totals are not compared."""

HANDLED = 0.05
"""For more than such a share of what is lost, and handlers that dropped it are told."""

SEGMENTS = 100
"""Of fewer segments the first one is 1 % of what a receiver's rate is of, and takes no time."""

MOST = 10
"""Cells that are named."""

INSTANT = 1e-6
"""Times that are so much apart at the most, in seconds, are the same."""


def together(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """For how long all flows of each run were there together, and how long the longest was: in a
    window inside it, of the runs of which all flows have a value.
    """
    measure = results.plan.measure
    rows = carriers(rows_of(results, cells), metric)
    wanted = measure.mode in ("transfer", "receiver", "window") and parts(metric)[0] in SHARES
    rows = rows if wanted else rows[:0]
    spans = rows.assign(end=ends(rows), start=rows["start_s"].fillna(0.0))
    if measure.mode == "window":
        known = rows["goodput_bps"].notna().groupby([rows["cell"], rows["run"]]).transform("all")
        inside = {name: spans[name].clip(measure.start, measure.end) for name in ("start", "end")}
        spans = spans.assign(**inside)[known]
    spans = spans.assign(lasted=spans["end"] - spans["start"])
    by = spans.groupby(["cell", "run"]).agg(
        count=("flow", "size"),
        last=("start", "max"),
        first=("end", "min"),
        longest=("lasted", "max"),
    )
    return by[by["count"] > 1].assign(shared=by["first"] - by["last"])


def strangers(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether in most runs of a cell flows hardly met, of a metric of what they share."""
    if (base := parts(metric)[0]) not in SHARES or base == "sum_rates":
        return False
    by = together(results, cells, metric)
    hardly = (by["shared"] < by["longest"] / 2).groupby("cell").mean()
    return bool((hardly > MOSTLY).any())


def unoccupied(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """The share of the time of all flows, from the first start to the last byte, at which none of
    them was there, by cell and run: of a total that counts it.
    """
    mode = results.plan.measure.mode
    shares: dict[tuple[str, int], float] = {}
    if parts(metric)[0] == "aggregate" and mode in ("transfer", "receiver"):
        rows = carriers(rows_of(results, cells), metric)
        begin = rows["start_s"].fillna(0.0)
        begin = rows["first_byte_s"].fillna(begin) if mode == "receiver" else begin
        spans = rows.assign(begin=begin, end=ends(rows))
        for (cell, run), own in spans[spans["end"] > spans["begin"]].groupby(["cell", "run"]):
            own = own.sort_values("begin")
            before = own["end"].cummax().shift().fillna(own["begin"])
            idle = (own["begin"] - before).clip(lower=0.0).sum()
            shares[str(cell), int(run)] = idle / (own["end"].max() - own["begin"].min())
    index = pd.MultiIndex.from_tuples(list(shares), names=["cell", "run"]) if shares else None
    return pd.Series(list(shares.values()), index=index, dtype=float)


def _mostly_idle(shares: pd.Series[float]) -> bool:
    return bool(len(shares) and shares.groupby("cell").mean().max() > IDLE)


def idle(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Time at which nobody sends, in a total by all of the time."""
    shares = unoccupied(results, cells, metric)
    if not _mostly_idle(shares):
        return ""
    means = shares.groupby("cell").mean()
    return (
        f"In {int((shares > IDLE).sum())} of {len(shares)} runs there was no flow at all for more "
        f"than {IDLE:.0%} of the time from the first start to the last byte ({means.min():.0%} to "
        f"{means.max():.0%} by cell), which the total counts: it is by when the scenario has flows "
        "begin, not only by how fast they are. There is neither colour nor bold; `goodput` is of "
        "each flow's own time."
    )


def _idle(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    return _mostly_idle(unoccupied(results, cells, metric))


def _brief(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """How many segments a flow of each cell delivered on the mean, of those cells in which they
    were few, of rates at the receiver.
    """
    none = pd.Series(dtype=float)
    if parts(metric)[0] not in RATES or results.plan.measure.mode != "receiver":
        return none
    rows = carriers(rows_of(results, cells), metric)
    names = ("data_segments", "retransmissions")
    if not all(name in rows for name in names):  # of an older lab
        return none
    sent, again = (rows[name].astype(float) for name in names)
    means = (sent - again.fillna(0.0))[rows["bytes"] > 0].groupby(rows["cell"]).mean().dropna()
    return means[means < SEGMENTS]


def brief(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Rates at the receiver that are above what was carried, as the first segment takes no time."""
    if not len(found := _brief(results, cells, metric)):
        return ""
    few = found.min()
    above = f"by 1/{few - 1:.3g} of it" if few > 2 else "by as much again or more"
    named = first([f"{cell} {count:.3g}" for cell, count in found.items()], MOST)
    return (
        "At the receiver the bytes of the first segment count, and the time that it took does not: "
        f"flows had fewer than {SEGMENTS} segments in some cells ({named}), so that their rate is "
        f"above that of the others, at the most {above}, and may be above what the link carries. "
        'There is neither colour nor bold; `measure = "transfer"`, or larger files, tell more.'
    )


def passing(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows that ended or began within steady state."""
    if parts(metric)[0] not in RATES or parts(metric)[0] == "aggregate":
        return ""
    if results.plan.measure.mode != "steady":
        return ""
    rows = carriers(rows_of(results, cells), metric)
    took = rows["batch_s"].map(lambda spans: np.sum(spans) if spans is not None else np.nan)
    # Without a batch that counts it is what `_short` tells.
    ended = rows["finished"].eq(True) & (rows["last_byte_s"] < rows["sim_seconds"] - INSTANT)
    late = rows["start_s"].fillna(0.0) > rows["sim_seconds"] - took + INSTANT
    count = int((ended | late).sum())
    if not count:
        return ""
    return (
        f"{count} of {len(rows)} flows were there for a part of the batches only "
        f"({int(ended.sum())} ended before the run): by the time of all batches, "
        "their goodput is what they had to send and when, not how fast they were. There "
        "is neither colour nor bold."
    )


def delivered(results: Results, cells: Sequence[Cell], metric: str) -> tuple[float, float]:
    """The least and the most bytes that runs of a cell delivered on the mean, of a metric that
    counts, or is of how long it takes to deliver what the scenario does not tell; of others
    nothing.
    """
    base = parts(metric)[0]
    if base not in (*COUNTS, *OF_FINISHED) or "flow" not in results.flows:
        return 0.0, 0.0
    # A load of datagrams is what the scenario says, and would hide what the others delivered.
    rows = carriers(rows_of(results, cells), metric)
    if base in OF_FINISHED:
        left_out = by_the_clock(cells, metric)
        timed = ((c.name, n) for c in cells for n, app in _apps(c) if app not in SIZED)
        open_ended = {(name, n) for name, n in timed if n not in left_out}
        keys = zip(rows["cell"], rows["flow"], strict=True)
        own = np.asarray([(cell, int(flow)) in open_ended for cell, flow in keys], dtype=bool)
        rows = rows[own & rows["finished"].eq(True)]
    by = rows.groupby("cell")
    means = by["bytes"].sum() / by["run"].nunique()
    return (float(means.min()), float(means.max())) if len(means) > 1 else (0.0, 0.0)


def _open_ended(cells: Sequence[Cell], metric: str) -> list[int]:
    """Flows over a connection that write until their time is over, of a metric of who finished."""
    base, only = parts(metric)
    if base != "finished":
        return []
    timed = {
        n
        for cell in cells
        for n, flow in flows_of(cell)
        if flow.get("protocol") != "udp" and flow.get("app", "bulk") not in SIZED
        and not flow.get("bytes") and only in (None, n)
        and any(flow.get(key) is not None for key in TIMED)
    }  # fmt: skip
    return sorted(timed)


def _emptied(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    return bool(_open_ended(cells, metric))


def emptied(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What it takes for flows to finish whose bytes the scenario does not tell."""
    if not (flows := _open_ended(cells, metric)):
        return ""
    one = len(flows) == 1
    who, does, has = ("Flow", "writes", "has") if one else ("Flows", "write", "have")
    return (
        f"{who} {first([str(n) for n in flows], MOST)} {does} until a time that the plan says, and "
        f"{has} finished once what the send buffer held then has arrived: who has a large buffer "
        "has it full, and is unfinished the longer the larger it is. There is neither colour nor "
        "bold; flows with `bytes` compare."
    )


def counted(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Counts of runs that delivered differently."""
    pairs = [delivered(results, group, metric) for group in alongside(results, cells)]
    found = [(least, most) for least, most in pairs if most > EVEN * least]
    every = delivered(results, cells, metric)
    worst = max((_times(*pair) for pair in found), default=EVEN)
    if parts(metric)[0] in COUNTS and _times(*every) > worst:
        return _along(every, bool(found))
    if not found:
        return ""
    least, most = max(found, key=lambda pair: _times(*pair))
    if parts(metric)[0] in OF_FINISHED:
        return (
            f"Times of what a flow could send, which runs of compared cells delivered "
            f"{least / 1e6:.3g} to {most / 1e6:.3g} MB of: there is neither colour nor bold where "
            f"that is more than {EVEN - 1:.0%} apart, as less takes less time."
        )
    return (
        f"Counts per run, of compared cells whose runs delivered from {least / 1e6:.3g} "
        f"to {most / 1e6:.3g} MB: there is neither colour nor bold where they are more than "
        f"{EVEN - 1:.0%} apart, as who delivers less has less to repeat."
    )


def _times(least: float, most: float) -> float:
    """How many times as much."""
    return most / least if least else np.inf if most else 1.0


def _along(every: tuple[float, float], compared: bool) -> str:
    """Counts of all cells of a table, which are looked at along other axes, too."""
    return (
        f"Counts per run, of cells whose runs delivered from {every[0] / 1e6:.3g} to "
        f"{every[1] / 1e6:.3g} MB, along whichever axis: who delivers less has less to repeat, and "
        "`goodput` stands for what was delivered"
        + (
            ". There is neither colour nor bold where compared ones are more than "
            f"{EVEN - 1:.0%} apart."
            if compared
            else "."
        )
    )


def _apps(cell: Cell) -> list[tuple[int, str]]:
    return [(n, str(flow.get("app", "bulk"))) for n, flow in flows_of(cell)]


def alone(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Shares where there is nothing to share, or nobody to share it with."""
    if parts(metric)[0] not in ("jain", "weakest", "unfairness"):
        return ""
    by = carriers(rows_of(results, cells), metric).groupby(["cell", "run"])
    runs = by.agg(count=("flow", "size"), octets=("bytes", "sum"))
    single, nothing = int((runs["count"] == 1).sum()), int((runs["octets"] == 0).sum())
    told = []
    if single:
        told.append(
            f"In {single} of {len(runs)} runs there is one flow alone, which has no share of "
            "anything: that it is fair says nothing, and there is neither colour nor bold."
        )
    if nothing:
        told.append(
            f"In {nothing} of {len(runs)} runs nobody got anything: they have no value here."
        )
    return " ".join(told)


def _single(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    return "one flow alone" in alone(results, cells, metric)


def failing(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Connections that gave up before the run was to end."""
    return faults.failed(results, cells, metric) if parts(metric)[0] in RATES else ""


def _load(
    results: Results, cells: Sequence[Cell], metric: str
) -> list[tuple[float, float, float, str]]:
    """Where a metric of datagrams is better beside a load that delivered more than a tenth less: by
    how many times less, both loads, and their unit, in a run (MB) and in a second of it (Mb/s).
    """
    if not of_datagrams(metric) or "flow" not in results.flows:
        return []
    rows, only, keys = rows_of(results, cells), parts(metric)[1], ["cell", "run"]
    datagrams = rows["flow_protocol"].eq("udp")
    load = rows[~datagrams]
    probes = rows[datagrams if only is None else datagrams & rows["flow"].eq(only)]
    spans = (
        load[load["bytes"] > 0]
        .groupby(keys)
        .agg(begin=("start_s", "min"), end=("last_byte_s", "max"))
    )
    beside = probes.merge(spans, left_on=keys, right_index=True)
    met = beside["start_s"].fillna(0.0) < beside["end"].fillna(np.inf)
    met &= beside["last_byte_s"].fillna(np.inf) > beside["begin"].fillna(0.0)
    by = load[load["cell"].isin(beside[met]["cell"])]
    octets = by.groupby(keys)["bytes"].sum()
    lasted = (spans["end"] - spans["begin"].fillna(0.0)).reindex(octets.index)
    found = {
        "MB": (octets / 1e6).groupby("cell").mean(),
        # A load of a moment has no rate.
        "Mb/s": (octets * 8e-6 / lasted.where(lasted > 0)).groupby("cell").mean().dropna(),
    }
    means = lighter.good(results, cells, metric)
    return [
        (float(load[b] / load[a]) if load[a] else np.inf, float(load[a]), float(load[b]), unit)
        for unit, load in found.items()
        for a, b in ahead(means[means.index.isin(load.index)])
        if load[b] > EVEN * load[a]
    ]


def loads(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Delays under loads that offered different things."""
    apart = [each for group in alongside(results, cells) for each in _load(results, group, metric)]
    if not apart:
        return ""
    _, least, most, unit = max(apart)
    return (
        "Under load is from its first start to its last byte, with the time in which it stalled "
        f"and offered nothing, and the loads of compared cells delivered from {least:.3g} "
        f"to {most:.3g} {unit}: there is neither colour nor bold where the better one met more "
        f"than {EVEN - 1:.0%} less, as who sends less meets shorter queues."
    )


def _protocols(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    if parts(metric)[0] != "min_rtt":
        return False
    rows = carriers(rows_of(results, cells), metric)
    found = rows.groupby("cell")["flow_protocol"].agg(lambda own: frozenset(map(str, own)))
    return bool(found.nunique() > 1)


def smallest(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That the smallest round-trip time is of a moment."""
    if not any(_protocols(results, group, metric) for group in alongside(results, cells)):
        return ""
    apart = any(ways.timed(results, group, metric) for group in alongside(results, cells))
    path = (
        "is no merit of a protocol" if apart else "tells of the path, and is no merit of a protocol"
    )
    return (
        "The smallest round-trip time is that of one exchange, often of the SYN, which met the "
        f"emptiest queues: it {path}. Between protocols there is neither colour nor "
        "bold."
    )


def _numbers(results: Results, cells: Sequence[Cell], metric: str) -> tuple[float, float]:
    """How many flows share in a cell at the least and at the most, if a metric depends on it."""
    if parts(metric)[0] not in NUMBERED or "flow" not in results.flows:
        return 0.0, 0.0
    by = carriers(rows_of(results, cells), metric).groupby("cell")
    means = by["flow"].size() / by["run"].nunique()
    return (float(means.min()), float(means.max())) if len(means) > 1 else (0.0, 0.0)


def numbers(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Shares of few beside shares of many."""
    found = [_numbers(results, group, metric) for group in alongside(results, cells)]
    apart = [pair for pair in found if pair[0] < pair[1]]
    if not apart:
        return ""
    least, most = max(apart, key=lambda pair: pair[1] - pair[0])
    return (
        f"Compared cells have {least:g} to {most:g} flows that share: the least of more flows is "
        "less, the sum over more flows another one, and Jain's index of n flows goes down to 1/n. "
        "There is neither colour nor bold between unlike numbers of flows."
    )


def _tried(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    return parts(metric)[0] == "mac_retries" and tries.unlike(results.plan.runner, cells)


def tried(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Retries up to other limits, or of RTS."""
    apart = [group for group in alongside(results, cells) if _tried(results, group, metric)]
    if not apart:
        return ""
    found = [tries.radios(results.plan.runner, cell) for cell in apart[0]]
    known = [radios for radios in found if radios is not None]
    some = any(any(radios.announced) for radios in known)
    told = dict.fromkeys(
        radios.words() + (" (no RTS)" if some and not any(radios.announced) else "")
        for radios in known
    )
    return (
        f"Frames are tried up to {' and '.join(told)} times in compared cells, and retries are "
        "counted up to that limit, those of an RTS with them: who gives up sooner has fewer. There "
        "is neither colour nor bold."
    )


def _dropped(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """Which share of the lost packets of each cell handlers on the way dropped."""
    base, only = parts(metric)
    rows = rows_of(results, cells)
    names = ["packets_hop", "packets_delivered", "packets_sent", "packets_inside", "packets_copies"]
    if base != "loss" or not all(name in rows for name in names):  # of an older lab
        return pd.Series(dtype=float)
    rows = rows if only is None else rows[rows["flow"] == only]
    hop, delivered, sent, inside, copies = (
        rows[name].astype(float).groupby(rows["cell"]).sum() for name in names
    )
    lost = sent + copies - inside - delivered
    return (hop / lost.where(lost > 0)).dropna()


def handled(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Packets that handlers on the way dropped, which may be what they are for."""
    shares = _dropped(results, cells, metric)
    if not len(shares) or shares.max() <= HANDLED:
        return ""
    return (
        f"Of the packets that are counted as lost {shares.min():.0%} to {shares.max():.0%}, by "
        "cell, were dropped by handlers on the way, which may be what these are for: Snoop "
        "swallows duplicate acknowledgements, and lanes let go what they had. They are no "
        "losses of a link, and there is neither colour nor bold."
    )


@dataclass(frozen=True)
class Reason:
    """Why nothing is called better or worse."""

    words: str
    """As comparisons say it."""
    found: Callable[[Results, Sequence[Cell], str], object]
    """Whether it is so of a metric in some cells."""


def _counts(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    least, most = delivered(results, cells, metric)
    return parts(metric)[0] in COUNTS and most > EVEN * least


def _takes(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    least, most = delivered(results, cells, metric)
    return parts(metric)[0] in OF_FINISHED and most > EVEN * least


def _loaded(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    return bool(_load(results, cells, metric))


def _counted_flows(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    least, most = _numbers(results, cells, metric)
    return least < most


REASONS = (
    Reason("in another order by the times that files took", harmonic.turned),
    Reason("counts of runs that delivered more than 10 % apart", _counts),
    Reason("times of flows without an end, which delivered more than 10 % apart", _takes),
    Reason("files are more than 10 % larger in some", filesizes.unlike),
    Reason("who asked less has no longer waits", closed.fewer),
    Reason("flows whose bytes nobody told finish by their send buffers", _emptied),
    Reason("flows were there for a part of the batches only", passing),
    Reason("the batches left out took far longer than those that count", heldback.held),
    Reason("connections failed, and their run ended with them", failing),
    Reason("the shares of datagrams that arrived are more than 5 % apart", selected),
    Reason("the loads delivered more than 10 % apart", _loaded),
    Reason("of too few values for such a percentile", few),
    Reason("flows were hardly there together", strangers),
    Reason("times at which there was no flow are counted", _idle),
    Reason("runs lasted more than 10 % longer in some", lasting.unlike),
    Reason("some were over before what others met", happenings.unmet),
    Reason("apart mostly by timers when links came back", backoff.decides),
    Reason("nodes walk in other ways, from where they were placed", walking.near),
    Reason("rates of few segments, the first of which takes no time", brief),
    Reason("flows had few round trips, in which shares do not settle", short.unsettled),
    Reason("losses are of how flows began", short.at_first),
    Reason("apart in the first half at least twice as much as in the second", course.begun),
    Reason("one flow alone has no share", _single),
    Reason("unlike numbers of flows", _counted_flows),
    Reason("flows are of datagrams in some, which are left out there", turned.turned),
    Reason("flows that the levels do not change are part of it", fixed.diluted),
    Reason("means of different flows", roundtrips.unmixed),
    Reason("within one class of round-trip times", roundtrips.same_class),
    Reason("round-trip samples are not taken alike", roundtrips.unsampled),
    Reason("round trips are shorter where more than a tenth less was carried", lighter.lighter),
    Reason("better beside a load that carried more than a tenth less", lighter.loaded),
    Reason("frames fail less where more than a tenth less was carried", lighter.quieter),
    Reason("shares are more even where every flow has less", lighter.poorer),
    Reason("the smallest round-trip time is no merit of a protocol", _protocols),
    Reason("frames are tried up to other limits, or after an RTS", _tried),
    Reason("segments are counted, which carry more than 10 % more in some", segments.unlike),
    Reason("the quickest were over before the window began", window.dropped),
    Reason("values at the end, of flows that finished and others cut off", misread.otherwise_ended),
    Reason("until when datagrams were sent is not known", misread.unsent),
    Reason("of the whole run, where goodput is of a part", wholerun.found),
    Reason("packets that handlers dropped are counted as lost", handled),
    Reason("datagrams were refused where a transport waits for room", crowded.refused),
    Reason("a relay's own transport shut connections out that pass it", shutout.shut),
    Reason("recoveries beside timeouts that are more than 10 % apart", misread.timed_out),
    Reason("recoveries, where some protocols have no timeouts", misread.untimed),
    Reason("nodes sent copies, which are not counted", ways.copied),
    Reason("copies that nodes sent count as lost, too", ways.recounted),
    Reason("copies that nodes send are not known here", ways.uncounted),
    Reason("Hop repairs hop by hop, its source only asks", ways.asking),
    Reason("nodes split TCP, whose halves are not counted", splits.split),
    Reason("nodes split TCP, whose senders are told before all has arrived", knowing.early),
    Reason("times of different flows, as some ask again and again", knowing.others),
    Reason("of who answers, where the questions are larger", answering.answering),
    Reason("who asks repeated more than a tenth of it, and is not counted", answering.asking),
    Reason("frames are data more often in some", ways.diluted),
    Reason("round trips are not timed alike", ways.timed),
    Reason("flows were there for more than 10 % longer in some", ways.left),
    Reason("some flows want no more than they get", demand.content),
    Reason("as many datagrams arrived, and the last one later", demand.late),
    Reason("receivers hold acknowledgements back unlike each other", demand.held),
    Reason("how long receivers held acknowledgements back is more than 5 % apart", waited.unlike),
    Reason("flows keep step at a full queue, as nothing on the way is random", phases.decided),
    Reason("datagrams leave at the same moments in all runs", phases.meeting),
    Reason("downloads of unlike kinds are in one number", pooled.mixed),
    Reason("flows have other parts in what is counted together", pooled.unlike),
    Reason("handlers make the way worse for some alone", overlooked.overlooked),
    Reason("packets cost hosts time of some flows alone", hostcost.exempt),
    Reason("means are above what was carried, by more than 10 % in some", ways.inflated),
)
"""All that takes colour and bold from a comparison of cells whose values are known."""


def reasons(results: Results, cells: Sequence[Cell], metric: str) -> list[str]:
    """Why these cells cannot be called better or worse by a metric: it counts what their runs did
    to deliver much more or less (of two transports the one that delivers a tenth retransmits less,
    and is no better for it), or its values are not of the same.
    """
    if "flow" not in results.flows:  # no run came out
        return []
    return [reason.words for reason in REASONS if reason.found(results, cells, metric)]
