"""What is to be said beside numbers, so that nobody concludes from them what they do not say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from wifu import stats
from wifu.asked import ASKING
from wifu.cells import Cell
from wifu.metrics import RUN_METRICS, SIMULATED, column, cut_short, of_datagrams, parts, unstarted
from wifu.plan import Plan
from wifu.stamps import first
from wifu.underload import under_load


class Results(Protocol):
    """What is asked of results (`wifu.Results`, which uses this module)."""

    plan: Plan
    flows: pd.DataFrame
    runs: pd.DataFrame

    def sample(self, metric: str, where: Mapping[str, Any] | None = None) -> pd.Series[float]:
        """A metric of the runs of cells."""


MOST = 10
"""Cells that are named."""

SHARES = ("jain", "unfairness", "utility", "lowest", "weakest", "sum_rates")
"""Metrics that take the flows' goodputs for parts of what they share."""

COUNTS = tuple(name for name, metric in RUN_METRICS.items() if metric.unit == "per run")
"""Metrics that count events of a run."""

APART = 1.05
"""Up to so many times what flows carry together, and the sum of their goodputs is taken for it."""

EVEN = 1.1
"""Up to so many times as many bytes delivered, and counts are compared."""

ENOUGH = 10
"""Of so many batches an interval is made without a word: how much fewer depend on each other they
do not tell.
"""

WHOLE = ("loss", "finished")
"""Metrics of all flows, that goodput of some stands beside."""

CLASS = 1 / 16
"""How wide the classes are that round-trip times are counted in, of what they begin at."""

SELECTED = 0.05
"""Shares of lost datagrams that are further apart than this, and delays are not compared."""

INSTANT = 1e-6
"""Times that are so much apart at the most, in seconds, are the same."""

RATES = ("goodput", "aggregate", "starved", *SHARES)
"""Metrics of goodputs."""


def notes(results: Results, cells: Sequence[Cell], metric: str) -> list[str]:
    """Sentences about a metric in these cells."""
    if "flow" not in results.flows:  # no run came out
        return []
    return [told for said in SAID if (told := said(results, cells, metric))]


def _rows(results: Results, cells: Sequence[Cell]) -> pd.DataFrame:
    """The flows of the runs that count, each with how long its run took."""
    rows = results.flows
    rows = rows[(rows["status"] == "ok") & rows["cell"].isin([c.name for c in cells])]
    if "bytes" in (axis.name for axis in results.plan.axes):
        # Its levels stand where what flows delivered would, of which nothing is known then.
        rows = rows.assign(bytes=np.nan)
    return rows.merge(results.runs[["cell", "run", "sim_seconds"]], on=["cell", "run"], how="left")


def _carriers(rows: pd.DataFrame, metric: str = "") -> pd.DataFrame:
    """Of these flows those that a metric is of: without datagrams beside connections."""
    if (alone := parts(metric)[1]) is not None:
        return rows[rows["flow"] == alone]
    datagrams = rows["flow_protocol"].eq("udp")
    mixed = (~datagrams).groupby([rows["cell"], rows["run"]]).transform("any")
    return rows[~(datagrams & mixed)]


def _beside(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows of datagrams that a metric leaves out."""
    if metric not in (*RATES, "delay", "delay_median", *WHOLE):
        return ""
    rows = _rows(results, cells)
    left = sorted({int(n) for n in rows[~rows.index.isin(_carriers(rows).index)]["flow"]})
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
    if parts(metric)[0] not in SHARES or results.plan.measure.mode not in ("transfer", "receiver"):
        return ""
    rows = _carriers(_rows(results, cells), metric)
    end = rows["last_byte_s"].where(rows["finished"].eq(True), rows["sim_seconds"])
    spans = rows.assign(end=end.fillna(rows["sim_seconds"]), start=rows["start_s"].fillna(0.0))
    by = spans.groupby(["cell", "run"]).agg(
        count=("flow", "size"), last=("start", "max"), first=("end", "min")
    )
    by = by[by["count"] > 1]
    apart = int((by["last"] >= by["first"]).sum())
    if not apart:
        return ""
    return (
        f"In {apart} of {len(by)} runs there was no time at which all flows were there: their "
        "goodputs are of different times, and no shares of one capacity."
    )


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
        "they are: `aggregate` is all bytes over the time of all."
    )


def _absent(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows that had no time to start, or whose bytes took none."""
    if parts(metric)[0] not in RATES:
        return ""
    rows = _carriers(_rows(results, cells), metric)
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


def _short(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Runs that ended before there was a batch that counts."""
    if parts(metric)[0] not in RATES or results.plan.measure.mode != "steady":
        return ""
    rows = _rows(results, cells).drop_duplicates(["cell", "run"])
    start = results.plan.measure.discard
    none, early = (int((rows["batches_ended"] < count).sum()) for count in (start + 1, start))
    if not none:
        return ""
    told = (
        f"{none} of {len(rows)} runs ended before a batch was over after the {start} to leave out: "
        "their goodput is of what came after these until the end"
    )
    if early:
        told += f"; {early} of them before these were, so that theirs has the start in it"
    return told + "."


def _small(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Batches that make no interval, where a single run has its own from them."""
    if parts(metric)[0] not in ("goodput", "aggregate", "sum_rates"):
        return ""
    if results.plan.measure.mode != "steady" or results.plan.deterministic:
        return ""
    rows = _carriers(_rows(results, cells), metric)
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


def _outlasting(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Runs of which delays under load are not known."""
    if not of_datagrams(metric):
        return ""
    unknown = 0
    rows = _rows(results, cells)
    columns = ["start_s", "last_byte_s", "bytes", "loaded_samples", "one_way_p50_s"]
    for _, run in rows.groupby(["cell", "run"]):
        end = float(run["sim_seconds"].iloc[0])
        flows = [
            {k: None if pd.isna(v) else v for k, v in zip(columns, row, strict=True)}
            | {"protocol": protocol}
            for protocol, *row in run[["flow_protocol", *columns]].itertuples(index=False)
        ]
        told = {"flows": flows, "sim_seconds": end}
        for flow in flows:
            if flow["one_way_p50_s"] is None or flow["loaded_samples"] is not None:
                continue
            if under_load(told, flow | {"one_way": {"p50_s": 0.0}}) == {}:
                unknown += 1
                break
    if not unknown:
        return ""
    count = len(rows[["cell", "run"]].drop_duplicates())
    return (
        f"In {unknown} of {count} runs datagrams went on without load, before or after it, and "
        "nobody wrote down the delay of each: what it was under load is not known. Newer runs "
        "record it, but between hosts over SSH."
    )


def _partly(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows that were not there for all of the window."""
    measure = results.plan.measure
    if parts(metric)[0] not in RATES or measure.mode != "window":
        return ""
    rows = _carriers(_rows(results, cells), metric)
    over = rows["finished"].eq(True)
    ended = over & (rows["last_byte_s"] < measure.end)
    late = rows["start_s"].fillna(0.0) > measure.start
    never = rows["goodput_bps"].isna()
    short = ~over & cut_short(rows["sim_seconds"], measure)
    if short.any():
        runs = int(rows[short].drop_duplicates(["cell", "run"]).shape[0])
        every = len(rows.drop_duplicates(["cell", "run"]))
        return (
            f"{runs} of {every} runs ended before {SIMULATED:.0%} of the window "
            f"{measure.start:g} s to {measure.end:g} s was over, and flows that "
            "went on have no value in them: let the window end sooner, or the run later."
        )
    if not (ended | late).any():
        return ""
    told = (
        f"{int((ended | late).sum())} of {len(rows)} flows were there for a part of the window "
        f"only ({int(ended.sum())} ended inside or before): their goodput is by that part"
    )
    if never.any():
        told += f"; {int(never.sum())} were not there at all, and their runs have no value"
    return told + "."


def uneven(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether these cells cannot be called better or worse by a metric: it counts what their runs
    did to deliver much more or less (of two transports the one that delivers a tenth retransmits
    less, and is no better for it), or its values are not of the same (`UNLIKE`).
    """
    if "flow" not in results.flows:  # no run came out
        return False
    least, most = _delivered(results, cells, metric)
    return most > EVEN * least or any(found(results, cells, metric) for found in UNLIKE)


def _passing(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows that ended or began within steady state."""
    if parts(metric)[0] not in RATES or parts(metric)[0] == "aggregate":
        return ""
    if results.plan.measure.mode != "steady":
        return ""
    rows = _carriers(_rows(results, cells), metric)
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


def _delivered(results: Results, cells: Sequence[Cell], metric: str) -> tuple[float, float]:
    """The least and the most bytes that runs of a cell delivered on the mean, of a metric that
    counts; of others nothing.
    """
    if parts(metric)[0] not in COUNTS or "flow" not in results.flows:
        return 0.0, 0.0
    # A load of datagrams is what the scenario says, and would hide what the others delivered.
    by = _carriers(_rows(results, cells), metric).groupby("cell")
    means = by["bytes"].sum() / by["run"].nunique()
    return (float(means.min()), float(means.max())) if len(means) > 1 else (0.0, 0.0)


def _counted(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Counts of runs that delivered differently."""
    names = {c.name for c in cells}
    groups = [[c for c in row if c.name in names] for row in results.plan.groups()]
    pairs = [_delivered(results, group, metric) for group in groups]
    found = [(least, most) for least, most in pairs if most > EVEN * least]
    if not found:
        return ""
    least, most = max(found, key=lambda pair: pair[1] / pair[0] if pair[0] else np.inf)
    return (
        f"Counts per run, of compared cells whose runs delivered from {least / 1e6:.3g} to "
        f"{most / 1e6:.3g} MB: there is neither colour nor bold where they are more than "
        f"{EVEN - 1:.0%} apart, as who delivers less has less to repeat."
    )


def _lost(results: Results, cells: Sequence[Cell], metric: str) -> dict[str, float]:
    """The share of the datagrams that did not arrive, of each cell that tells what was sent."""
    rows = _rows(results, cells)
    only = parts(metric)[1]
    rows = rows[rows["flow_protocol"].eq("udp") & (rows["sent_bytes"] > 0)]
    by = (rows if only is None else rows[rows["flow"] == only]).groupby("cell")
    share = 1.0 - by["bytes"].sum() / by["sent_bytes"].sum()
    return {str(cell): max(0.0, float(lost)) for cell, lost in share.items()}


def _arrived(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Datagrams that were lost, of whose delays nothing is known."""
    if not of_datagrams(metric):
        return ""
    told = []
    lost = _lost(results, cells, metric).values()
    if lost and max(lost) > 0:
        told.append(f"Of the datagrams {min(lost):.1%} to {max(lost):.1%} were lost, by cell")
    rows = _rows(results, cells)
    none = rows["flow_protocol"].eq("udp") & (rows["bytes"].eq(0) | rows["loaded_samples"].eq(0))
    if (only := parts(metric)[1]) is not None:
        none &= rows["flow"].eq(only)
    keys = ["cell", "run"]
    results.sample(metric)  # of a flow alone it is looked up
    without = results.runs[results.runs[column(metric)].isna()][keys]
    silent = rows[none].merge(without, on=keys)[keys].drop_duplicates()
    if len(silent):
        every = len(rows[keys].drop_duplicates())
        told.append(
            f"In {len(silent)} of {every} runs no datagram arrived under load that was sent under "
            "it: they have no value"
        )
    if _selected(results, cells, metric):
        told.append("Delays are of what arrived, so that there is neither colour nor bold")
    return "".join(f"{sentence}. " for sentence in told).rstrip()


def _paused(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Flows that rest between their requests."""
    base, only = parts(metric)
    if base not in RATES:
        return ""
    for cell in cells:
        listed = cell.scenario.get("flow")
        flows = [f for f in listed if isinstance(f, dict)] if isinstance(listed, list) else []
        for n, flow in enumerate(flows, 1):
            if flow.get("app") not in ASKING or only not in (None, n):
                continue
            if str(flow.get("pause", "0")).strip("0.") not in ("", "s", "ms", "us"):
                return (
                    "Of flows that pause between what they fetch a rate is by the whole time, "
                    "pauses included: see `delay`."
                )
    return ""


def _alone(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Shares where there is nothing to share, or nobody to share it with."""
    if parts(metric)[0] not in ("jain", "weakest", "unfairness"):
        return ""
    by = _carriers(_rows(results, cells), metric).groupby(["cell", "run"])
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
    return "one flow alone" in _alone(results, cells, metric)


def _classes(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That percentiles are of classes."""
    if not parts(metric)[0].startswith("rtt_p"):
        return ""
    return (
        "Round-trip times are counted in classes: percentiles are true to within 1/16 "
        f"({CLASS:.2%}), of which intervals know nothing. Cells that are less apart have neither "
        "colour nor bold."
    )


def _same_class(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether the two least of some cells may be of one class."""
    if not parts(metric)[0].startswith("rtt_p"):
        return False
    known = sorted(v for c in cells if (v := results.sample(metric, c.labels).mean()) > 0)
    return len(known) > 1 and bool(known[1] < known[0] * (1 + CLASS))


def _selected(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether cells of a row lost so differently that their delays are not of the same."""
    if not of_datagrams(metric):
        return False
    names = {c.name for c in cells}
    lost = _lost(results, cells, metric)
    for row in results.plan.groups():
        shares = [lost[c.name] for c in row if c.name in names and c.name in lost]
        if shares and max(shares) - min(shares) > SELECTED:
            return True
    return False


UNLIKE: tuple[Callable[[Results, Sequence[Cell], str], object], ...] = (
    _passing,
    _selected,
    _single,
    _same_class,
)
"""What takes colour and bold from a comparison of some cells."""

SAID = (
    _beside,
    _apart,
    _sum,
    _absent,
    _short,
    _small,
    _outlasting,
    _partly,
    _counted,
    _passing,
    _arrived,
    _paused,
    _alone,
    _classes,
)
"""What there is to say, each of a metric in some cells."""


def carriers(rows: pd.DataFrame) -> pd.DataFrame:
    """Of rows of flows those over connections, where a run has any; else all."""
    return _carriers(rows)
