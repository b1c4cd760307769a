"""Numbers over all flows of a run, where these have other parts in it in some cells: who is shut
out sends little, and counts for little, whatever it loses; who is slow asks seldom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import pandas as pd

from wifu.asked import ASKING
from wifu.cells import Cell
from wifu.cutoff import STATISTICS
from wifu.metrics import ALONE, metric_of, parts
from wifu.rows import Results, alongside, carriers, flows_of, numbered, rows_of
from wifu.transfers import SIZED, size

PACKETS = (
    "loss", "passive_loss", "mac_loss", "mac_retries", "retransmissions", "timeouts",
    "fast_retransmits",
)  # fmt: skip
"""Metrics that count what became of the packets of all flows together."""

OF_ALL = ("loss", "passive_loss", "mac_loss", "mac_retries")
"""Those of them that count datagrams beside connections, too."""

COUNTED = ("retransmissions", "timeouts", "fast_retransmits")
"""Those that are counts of events, of which a flow has so many by what it carried."""

BY_LINK = {"mac_loss": "mac_loss_by_link", "mac_retries": "mac_retries_by_link"}
"""Columns of runs that have the mean over links of what metrics have over all frames."""

DOWNLOADS = tuple(name for name in STATISTICS if name.startswith("delay"))
"""Metrics of the downloads of all flows together."""

APART = 0.1
"""Up to so much of what runs carried may the greatest part of it, which one flow has, be apart."""

SURE = 2.0
"""So many standard errors apart, and it is no chance of a few runs."""

OTHERWISE = 1.1
"""Up to so many times otherwise may cells be apart by flows than by all together, whatever it is
of how far they are apart.
"""


def _weights(rows: pd.DataFrame, metric: str, cells: Sequence[Cell]) -> pd.Series[float] | None:
    """What each flow counts in a metric; nothing of metrics that count flows alike."""
    base, only = parts(metric)
    if only is not None:
        return None
    if base in OF_ALL and (name := "packets_sent") in rows and rows[name].notna().all():
        return rows[name].astype(float)
    if base in PACKETS:
        return rows["bytes"].astype(float)
    if base in DOWNLOADS and "requests" in rows:
        asks = any(flow.get("app") in ASKING for cell in cells for _, flow in flows_of(cell))
        return rows["requests"].astype(float) if asks else None
    return None


def _own(rows: pd.DataFrame, metric: str) -> pd.Series[float] | None:
    """A metric of each flow by itself, where tables have it."""
    base, _ = parts(metric)
    if base in DOWNLOADS:
        name = f"{base}_finished_s"
        return rows[name].astype(float) if name in rows else None
    if base in COUNTED and base in rows and rows[base].notna().any():
        return rows[base].astype(float) / (rows["bytes"].astype(float).where(lambda x: x > 0) / 1e6)
    names = ["packets_delivered", "packets_sent", "packets_inside", "packets_copies"]
    if base != "loss" or not all(name in rows for name in names):
        return None
    delivered, sent, inside, copies = (rows[name].astype(float) for name in names)
    decided = sent + copies - inside
    return ((decided - delivered) / decided.where(decided > 0)).clip(lower=0.0)


def _rows(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """The flows that are counted together."""
    rows = rows_of(results, cells)
    return rows if parts(metric)[0] in OF_ALL else carriers(rows, metric)


def _by_link(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """The mean over links of each run."""
    name, runs = BY_LINK[parts(metric)[0]], results.runs
    if name not in runs:
        return pd.Series(dtype=float)
    runs = runs[(runs["status"] == "ok") & runs["cell"].isin([c.name for c in cells])]
    return runs.set_index(["cell", "run"])[name].astype(float).dropna()


def _error(runs: pd.Series[float]) -> pd.Series[float]:
    """The standard error of the mean of each cell's runs; of one run nothing is known, and none."""
    by = runs.groupby("cell")
    return (by.std() / by.size() ** 0.5).fillna(0.0)


def _beyond(one: str, two: str, by: float, errors: pd.Series[float]) -> bool:
    """Whether means of two cells are so much apart by more than chance."""
    return by > SURE * math.hypot(errors[one], errors[two])


def _greatest(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """Which part the flow that counts most has in each cell, on the mean; of several flows."""
    rows = _rows(results, cells, metric)
    weights = _weights(rows, metric, cells)
    return pd.Series(dtype=float) if weights is None else greatest(rows, weights)


def greatest(rows: pd.DataFrame, weights: pd.Series[float]) -> pd.Series[float]:
    """Which part the flow with most of something has in each cell, on the mean over the runs that
    have several flows; nothing where these are unlike many, as each has less the more they are.
    """
    runs = weights.dropna().groupby([rows["cell"], rows["run"]]).agg(["max", "sum", "size"])
    runs = runs[(runs["size"] > 1) & (runs["sum"] > 0)]
    if runs["size"].groupby("cell").mean().nunique() > 1:
        return pd.Series(dtype=float)
    return _means(runs["max"] / runs["sum"])


def _means(runs: pd.Series[float]) -> pd.Series[float]:
    """The mean of each cell's runs, and the errors of these in `attrs`."""
    means = runs.groupby("cell").mean()
    means.attrs["errors"] = _error(runs)
    return means


def _moved(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """Which part the flow whose part is most apart has in each cell, on the mean; its number is the
    name. Nothing if that is not too far.
    """
    none = pd.Series(dtype=float)
    rows = _rows(results, cells, metric)
    if (weights := _weights(rows, metric, cells)) is None or rows.empty:
        return none
    share = weights / weights.groupby([rows["cell"], rows["run"]]).transform("sum").where(
        lambda x: x > 0
    )
    found = none
    for flow, own in share.groupby(rows["flow"]):
        runs = own.groupby([rows["cell"], rows["run"]]).mean().dropna()
        means = _means(runs)
        if apart(means) and (found.empty or means.max() - means.min() > found.max() - found.min()):
            found = means.rename(flow)
    return found


def apart(found: pd.Series[float]) -> bool:
    """Whether such parts are too far apart to say nothing of it, and that by more than chance."""
    if len(found) < 2 or found.max() - found.min() <= APART:
        return False
    most, least = str(found.idxmax()), str(found.idxmin())
    errors = found.attrs.get("errors", pd.Series(0.0, found.index))
    return _beyond(most, least, float(found[most] - found[least]), errors)


def _otherwise(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """A metric of all flows together and the mean of that of each, by cell, if cells are otherwise
    apart by one than by the other.
    """
    none = pd.DataFrame()
    rows = _rows(results, cells, metric)
    if _weights(rows, metric, cells) is None:
        return none
    if parts(metric)[0] in BY_LINK:
        flows = _by_link(results, cells, metric)
    elif (own := _own(rows, metric)) is None:
        return none
    else:
        if parts(metric)[0] in DOWNLOADS:
            rows = rows[rows["requests"] > 0]
        several = rows.groupby(["cell", "run"])["flow"].transform("size") > 1
        rows, own = rows[several], own[rows.index][several]
        flows = own.groupby([rows["cell"], rows["run"]]).mean().dropna()
    both = pd.DataFrame({"together": _together(results, cells, metric), "flows": flows}).dropna()
    means = both.groupby("cell").mean()
    means = means[(means > 0).all(axis=1)]
    if len(means) < 2:
        return none
    logs = both[(both > 0).all(axis=1)].map(math.log)
    errors = _error(logs["together"] - logs["flows"]).reindex(means.index, fill_value=0.0)
    means = means.assign(ratio=means["together"] / means["flows"])
    apart = [
        (one, two)
        for one, two in combinations(list(means.index), 2)
        if _says_otherwise(means.loc[[one, two]])
        and _beyond(one, two, math.log(_spread(means.loc[[one, two]])), errors)
    ]
    if not apart:
        return none
    one, two = max(apart, key=lambda pair: _spread(means.loc[list(pair)]))
    return means.loc[[one, two]]


def _together(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """A metric of each run; what is counted by what was carried, as that of a flow is."""
    base, _ = parts(metric)
    if base not in COUNTED:
        return pd.concat([results.sample(metric, c.labels) for c in cells]).dropna()
    rows = _rows(results, cells, metric)
    sums = rows[["cell", "run", base, "bytes"]].astype({base: float, "bytes": float})
    # Who has no timer has no timeouts by the byte either, as by flows.
    sums = sums.dropna()
    sums = sums.groupby(["cell", "run"]).sum()
    return (sums[base] / (sums["bytes"].where(lambda x: x > 0) / 1e6)).dropna()


def _knows(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether it is known what flows or links have by themselves: then that decides, however they
    share.
    """
    if parts(metric)[0] in BY_LINK:
        return len(_by_link(results, cells, metric)) > 0
    return _own(_rows(results, cells, metric), metric) is not None


def _says_otherwise(both: pd.DataFrame) -> bool:
    """Whether two cells are apart the other way round, or by less than half or more than twice as
    much, by their flows as by all together.
    """
    if _spread(both) <= OTHERWISE:
        return False
    together, flows = (
        math.log(both[name].iloc[0] / both[name].iloc[1]) for name in ("together", "flows")
    )
    return not 0.5 * abs(together) <= flows * math.copysign(1, together) <= 2 * abs(together)


def _spread(both: pd.DataFrame) -> float:
    return float(both["ratio"].max() / both["ratio"].min()) if len(both) else 1.0


def unlike(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether flows have other parts in what is counted together in some of these cells, so that
    they count for more or less of it there.
    """
    if _knows(results, cells, metric):
        return len(_otherwise(results, cells, metric)) > 0
    return apart(_greatest(results, cells, metric)) or len(_moved(results, cells, metric)) > 0


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words, of the cells that are most apart."""
    base, groups = parts(metric)[0], alongside(results, cells)
    what, who = (
        ("Downloads of all flows are", "Who is slow asks seldom and counts for little.")
        if base in DOWNLOADS
        else (
            "What became of the packets of all flows is",
            "Who is shut out sends little and counts for little, whatever it loses.",
        )
    )
    alone = f"`{base}@N`" if base in ALONE else "`loss@N`"
    rest = f"{who} There is neither colour nor bold between such cells; {alone} is of a flow alone."
    by_flows = [_otherwise(results, group, metric) for group in groups]
    if any(len(both) for both in by_flows):
        both = max(by_flows, key=_spread)
        unit, scale = f" {metric_of(metric).unit}".rstrip(), metric_of(metric).scale
        each = "links" if base in BY_LINK else "flows"
        own = " per MB" if base in COUNTED else unit
        told = [
            f"{cell} has {both['together'][cell] / scale:.3g}{own} together and "
            f"{both['flows'][cell] / scale:.3g}{own} as the mean of its {each}"
            for cell in (both["ratio"].idxmax(), both["ratio"].idxmin())
        ]
        have = f"counted together, where {each} have unlike parts in it"
        return f"{what} {have}: {', '.join(told)}. {rest}"
    groups = [group for group in groups if not _knows(results, group, metric)]
    every = [_greatest(results, group, metric) for group in groups]
    found = max(every, key=lambda of: of.max() - of.min() if len(of) else 0.0, default=None)
    whose = "the one with most"
    if found is None or not apart(found):
        moved = [_moved(results, group, metric) for group in groups]
        found = max(moved, key=lambda of: of.max() - of.min() if len(of) else 0.0, default=None)
        if found is None or not len(found):
            return ""
        whose = f"flow {found.name}"
    of = "downloads" if base in DOWNLOADS else "packets" if base in OF_ALL else "bytes"
    return (
        f"{what} counted together, and flows have unlike parts in it: {whose} has "
        f"{found.max():.0%} of the {of} in {found.idxmax()} and {found.min():.0%} in "
        f"{found.idxmin()}. {rest}"
    )


UNLIKE = 2.0
"""Transfers of which one is so many times as large as another are not of one kind."""


def _kinds(cell: Cell, metric: str) -> tuple[dict[int, float], dict[int, float]]:
    """The flows of a cell that are one transfer and those that ask, of a metric of all downloads,
    with how large each of their transfers is; 0 where that is not told.
    """
    base, only = parts(metric)
    if base not in DOWNLOADS or only is not None:
        return {}, {}
    sizes = {
        n: (flow["app"] in ASKING, size(flow))
        for n, flow in flows_of(cell)
        if flow.get("protocol") != "udp" and flow.get("app") in SIZED
    }
    once = {n: octets for n, (asks, octets) in sizes.items() if not asks}
    return once, {n: octets for n, (asks, octets) in sizes.items() if asks}


def _unlike_kinds(cell: Cell, metric: str) -> bool:
    once, asking = _kinds(cell, metric)
    known = [octets for octets in (*once.values(), *asking.values()) if octets > 0]
    return bool((once and asking) or (known and max(known) > UNLIKE * min(known)))


def mixed(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether downloads of unlike kinds are in one number in some of these cells."""
    return any(_unlike_kinds(cell, metric) for cell in cells)


def kinds(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    cell = next((cell for cell in cells if _unlike_kinds(cell, metric)), None)
    if cell is None:
        return ""
    once, asking = _kinds(cell, metric)
    told = [f"files of {numbered(once)}{_sizes(once)}"] if once else []
    told += [f"what {numbered(asking)} asked for{_sizes(asking)}"] if asking else []
    what = " and ".join(told)
    return (
        f"{what[0].upper()}{what[1:]} {'are' if once else 'is'} in one number, to which the long "
        "ones give most: there is neither colour nor bold, and "
        f"`{parts(metric)[0]}@N` is of a flow alone."
    )


def _sizes(every: Mapping[int, float]) -> str:
    """How large the transfers of these flows are, if they are not all alike."""
    least, most = min(every.values()), max(every.values())
    return f" ({least / 1e6:.3g} to {most / 1e6:.3g} MB)" if most > least > 0 else ""
