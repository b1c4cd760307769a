"""Numbers that protocols, or the nodes between their ends, come to in ways of their own: what one
has more or less of is no merit beside another that does it, or times it, otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from wifu.cells import Cell
from wifu.metrics import column, parts
from wifu.rows import Results, alongside, carriers, ends, rows_of
from wifu.stacks import stacks
from wifu.stamps import first

EVEN = 1.1
"""Up to so many times as much, and what numbers are of is the same."""

MOST = 10
"""Cells that are named."""

PER_FRAME = ("mac_retries", "mac_loss")
"""Metrics of all frames, of data and of acknowledgements."""

LANES = ("hop-source", "hxh-source")
"""Parts of sources whose nodes have lanes, which send packets again themselves."""

TIMED = {
    "hxh-source": "HxH times a packet from when it was first sent to the word that it arrived, "
    "with the waiting in the lanes of nodes and what the ends send again",
    "hop-source": "Hop times a block of many packets, from when its first one was first sent to "
    "the word that all of it arrived",
    "hold-echo": "ATP times what comes back with its feedback, once in an epoch or little more "
    "often, without the time that the receiver held it",
}
"""Parts that time round trips unlike TCP, which takes them from acknowledgement to acknowledgement,
and what they do.
"""

Found = Callable[[Results, Sequence[Cell], str], object]


def _named(values: pd.Series[float]) -> str:
    return first([f"{cell} {value:.3g}" for cell, value in values.items()], MOST)


def _any(found: Found, results: Results, cells: Sequence[Cell], metric: str) -> list[list[Cell]]:
    """The cells that are compared of which something is so."""
    return [group for group in alongside(results, cells) if found(results, group, metric)]


def _copies(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """How many packets of the flows that are counted nodes on the way sent again, per run, by cell
    in which they sent any.
    """
    none = pd.Series(dtype=float)
    if parts(metric)[0] != "retransmissions" or "packets_copies" not in results.flows:
        return none
    rows = carriers(rows_of(results, cells), metric)
    rows = rows[rows["packets_copies"].notna()]
    by = rows.groupby("cell")
    means = by["packets_copies"].sum().astype(float) / by["run"].nunique()
    return means[means > 0]


def copied(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether nodes of some cells send again what is counted where the ends do it."""
    return bool(len(_copies(results, cells, metric)))


def copies(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What nodes send again is not among retransmissions."""
    found = _copies(results, cells, metric)
    if found.empty:
        return ""
    told = (
        "Of what the ends send again alone: copies that nodes on the way sent of packets are not "
        f"in it, per run {_named(found)}."
    )
    if not _any(copied, results, cells, metric):
        return told
    return (
        f"{told} Who lets nodes repair what was lost sends less again at the ends, and not less in "
        "all: there is neither colour nor bold."
    )


RECOUNTED = 0.05
"""For so much more of what ends sent, and copies of nodes are told beside what was lost."""


def _recounted(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """How many copies nodes sent by each packet that ends sent, by cell, of what was lost."""
    names = ["packets_sent", "packets_copies"]
    if parts(metric)[0] != "loss" or not all(name in results.flows for name in names):
        return pd.Series(dtype=float)
    rows, only = rows_of(results, cells), parts(metric)[1]
    rows = rows if only is None else rows[rows["flow"] == only]
    rows = rows[rows["packets_sent"].notna()]
    sums = rows.groupby("cell")[names].sum().astype(float)
    return (sums["packets_copies"] / sums["packets_sent"].where(lambda sent: sent > 0)).dropna()


def recounted(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether what was lost is of many more copies of nodes in some cells than in others."""
    shares = _recounted(results, cells, metric)
    return len(shares) > 1 and bool(shares.max() - shares.min() > RECOUNTED)


def recounts(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That copies of nodes count where they are lost."""
    shares = _recounted(results, cells, metric)
    if not len(shares) or shares.max() <= RECOUNTED:
        return ""
    told = (
        "Copies that nodes on the way sent of packets are packets here, too, and each that is lost "
        "counts, whether or not another one arrives: by each packet that ends sent there were "
        f"{_named(shares[shares > 0])}."
    )
    bare = _any(recounted, results, cells, metric)
    return f"{told} There is neither colour nor bold." if bare else told


def _sources(results: Results, cell: Cell, metric: str) -> frozenset[str]:
    """The parts that send again what was lost, of the flows of a cell that a metric is of."""
    only = parts(metric)[1]
    every = enumerate(stacks(results.plan.runner, cell), 1)
    return frozenset(s.parts.get("reliable", "") for n, s in every if s and only in (None, n))


def laned(runner: str, cell: Cell, flow: int) -> bool:
    """Whether nodes have lanes for a flow of a cell, by a plan's `runner`."""
    own = stacks(runner, cell)[flow - 1 : flow]
    return any(s is not None and s.parts.get("reliable", "") in LANES for s in own)


def uncounted(results: Results, cells: Sequence[Cell], metric: str) -> list[Cell]:
    """The cells whose nodes send copies in lanes of which nobody tells how many."""
    if parts(metric)[0] != "retransmissions" or "packets_sent" not in results.flows:
        return []
    rows = carriers(rows_of(results, cells), metric)
    untold = set(rows["cell"][rows["packets_sent"].isna()])
    lanes = {cell.name for cell in cells if _sources(results, cell, metric) & {*LANES}}
    return [cell for cell in cells if cell.name in untold & lanes]


def untold(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Copies of lanes where outcomes tell of no packets, such as those of real hosts."""
    if not (found := uncounted(results, cells, metric)):
        return ""
    return (
        "Of what the ends send again alone: nodes with lanes send packets again, too, and it is "
        f"not known how often they did ({first([c.name for c in found], MOST)}). There is neither "
        "colour nor bold beside these."
    )


def asking(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether what Hop's source does stands beside timers and recoveries of others."""
    if parts(metric)[0] not in ("timeouts", "fast_retransmits"):
        return False
    return len({"hop-source" in _sources(results, cell, metric) for cell in cells}) > 1


def asked(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That a source that asks has nothing to count as others do."""
    if not _any(asking, results, cells, metric):
        return ""
    return (
        "Hop repairs from node to node what was lost, and its source only asks on the way for a "
        "block of which it hears nothing: that is neither a timeout nor a recovery as those of "
        "TCP are. There is neither colour nor bold between them."
    )


def _data(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """Which share of the segments that flows sent was data, by cell."""
    none = pd.Series(dtype=float)
    names = ["data_segments", "feedback_segments"]
    if parts(metric)[0] not in PER_FRAME or not all(n in results.flows for n in names):
        return none
    rows = carriers(rows_of(results, cells), metric)
    known = rows[["cell", *names]].astype(dict.fromkeys(names, float)).dropna()
    sums = known.groupby("cell")[names].sum()
    every = sums.sum(axis=1)
    return (sums["data_segments"] / every.where(every > 0)).dropna()


def diluted(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether frames of some cells are data more often than those of others."""
    found = _data(results, cells, metric)
    return bool(len(found) > 1 and found.max() > EVEN * found.min())


def frames(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Frames of data and short ones of acknowledgements, counted together."""
    groups = _any(diluted, results, cells, metric)
    if not groups:
        return ""
    every = [_data(results, group, metric) for group in groups]
    found = max(every, key=lambda own: float(own.max() / max(own.min(), 1e-9)))
    return (
        "Of all frames, those of acknowledgements too, which are short and fail less. Of the "
        f"segments of compared cells {found.min():.0%} ({found.idxmin()}) to {found.max():.0%} "
        f"({found.idxmax()}) are data: who acknowledges more often has fewer by frame on the same "
        "links. There is neither colour nor bold where that is more than "
        f"{EVEN - 1:.0%} apart; links of outcomes have both directions by themselves."
    )


def spoken(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What nodes with lanes say to one another, which no flow counts."""
    if parts(metric)[0] not in (*PER_FRAME, "loss"):
        return ""
    lanes = [cell.name for cell in cells if _sources(results, cell, metric) & {*LANES}]
    if not lanes:
        return ""
    among = "not among these packets" if parts(metric)[0] == "loss" else "among these frames"
    return (
        "Nodes with lanes say things of their own to the nodes beside them (Hop its questions and "
        f"answers, HxH its credits), short packets of no flow, which are {among} "
        f"({first(lanes, MOST)}); `lanes.made` of the nodes of an outcome counts them."
    )


def _timing(results: Results, cell: Cell, metric: str) -> frozenset[str]:
    """The parts by which the flows of a cell time round trips, as far as they are not TCP's."""
    found, only = set(), parts(metric)[1]
    for n, stack in enumerate(stacks(results.plan.runner, cell), 1):
        if stack is None or only not in (None, n):
            continue
        part = stack.parts.get("rtt", stack.parts.get("reliable", ""))
        found.add(part if part in TIMED else "")
    return frozenset(found)


def _timings(results: Results, cells: Sequence[Cell], metric: str) -> list[frozenset[str]]:
    """The same of each of these cells, of a metric of round trips."""
    base = parts(metric)[0]
    if base not in ("srtt", "min_rtt") and not base.startswith("rtt_p"):
        return []
    return [_timing(results, cell, metric) for cell in cells]


def timed(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether the flows of some cells time round trips as those of others do not."""
    return len(set(_timings(results, cells, metric))) > 1


def unlike_trips(results: Results, cells: Sequence[Cell]) -> str:
    """That flows of these cells, or of one of them, do not time round trips alike, as they stand
    beside each other; nothing if they do.
    """
    found = {part for cell in cells for part in _timing(results, cell, "srtt")}
    if len(found) < 2:
        return ""
    how = "; ".join(words for part, words in TIMED.items() if part in found)
    return (
        f"Protocols that are drawn do not time round trips alike: {how}. Beside each other these "
        "tell nothing of queues; delays of datagrams beside a flow (`one_way_p50`) are alike for "
        "all."
    )


def timings(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Round trips that begin, or end, with something else."""
    groups = _any(timed, results, cells, metric)
    if not groups:
        return ""
    found = {p for group in groups for t in _timings(results, group, metric) for p in t if p}
    how = "; ".join(words for part, words in TIMED.items() if part in found)
    return (
        f"Protocols of compared cells do not time round trips alike: {how}. These are no delays of "
        "one packet on the path, and there is neither colour nor bold between them; delays of "
        "datagrams beside a flow (`one_way_p50`) are alike for all, though they pass lanes by: "
        "what data wait there, `hops` tells."
    )


def _spans(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """For how long the flow of a run that stayed longest was there on the mean, by cell."""
    if parts(metric)[0] not in ("routeless", "withdrawals") or "flow" not in results.flows:
        return pd.Series(dtype=float)
    rows = rows_of(results, cells)
    lasted = (ends(rows) - rows["start_s"].fillna(0.0)).clip(lower=0.0)
    return lasted.groupby([rows["cell"], rows["run"]]).max().groupby("cell").mean().dropna()


def left(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether flows of some cells were over long before those of others, and no way was sought."""
    found = _spans(results, cells, metric)
    return bool(len(found) > 1 and found.max() > EVEN * found.min())


def stayed(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Time without a route of flows that were over before it, and of others."""
    groups = _any(left, results, cells, metric)
    if not groups:
        return ""
    every = [_spans(results, group, metric) for group in groups]
    found = max(every, key=lambda own: float(own.max() / max(own.min(), 1e-9)))
    return (
        "Who is over lacks no route, and sees none withdrawn: flows of compared cells were there "
        f"for {found.min():.3g} s ({found.idxmin()}) to {found.max():.3g} s ({found.idxmax()}) on "
        f"the mean. There is neither colour nor bold where that is more than {EVEN - 1:.0%} apart; "
        "flows with `time` stay alike."
    )


def _excess(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """By how much the goodputs of flows, added up, are more than they carried together, by cell."""
    names = [column(name) for name in ("sum_rates", "aggregate")]
    if metric not in ("goodput", "sum_rates") or not all(c in results.runs for c in names):
        return pd.Series(dtype=float)
    runs = results.runs
    runs = runs[(runs["status"] == "ok") & runs["cell"].isin([c.name for c in cells])]
    means = runs.groupby("cell")[names].mean()
    return (means[names[0]] / means[names[1]].where(lambda x: x > 0)).dropna()


def inflated(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether means of goodputs are above what was carried, more in some cells than in others."""
    found = _excess(results, cells, metric)
    return bool(len(found) > 1 and found.max() > EVEN * found.min())


def above(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Means over unlike times, which are more where flows share less evenly."""
    groups = _any(inflated, results, cells, metric)
    if not groups:
        return ""
    every = [_excess(results, group, metric) for group in groups]
    found = max(every, key=lambda own: float(own.max() / own.min()))
    return (
        f"Furthest apart of compared cells are {found.min() - 1:+.0%} ({found.idxmin()}) and "
        f"{found.max() - 1:+.0%} ({found.idxmax()}) beside what was carried: there is neither "
        f"colour nor bold where it is more than {EVEN - 1:.0%} apart."
    )
