"""What is to be said beside delays of datagrams."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu.cells import Cell
from wifu.metrics import column, of_datagrams, parts
from wifu.rows import Results, carriers, rows_of
from wifu.underload import under_load

SELECTED = 0.05
"""Shares of lost datagrams that are further apart than this, and delays are not compared."""

LEAST = {"95": 20, "99": 100}
"""Of so many values one alone is above such a percentile."""


def outlasting(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Runs of which delays under load are not known."""
    if not of_datagrams(metric):
        return ""
    unknown = 0
    rows = rows_of(results, cells)
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


def _lost(results: Results, cells: Sequence[Cell], metric: str) -> tuple[dict[str, float], bool]:
    """The share of the datagrams that did not arrive, of each cell that tells what was sent, and
    whether it is of those that met load: then it is the most that it can be.
    """
    rows = rows_of(results, cells)
    only = parts(metric)[1]
    rows = rows[rows["flow_protocol"].eq("udp") & (rows["sent_bytes"] > 0)]
    rows = rows if only is None else rows[rows["flow"] == only]
    loaded = rows["loaded_lost"].notna() if "loaded_lost" in rows else rows["flow"].isna()
    if loaded.any():
        by = rows[loaded].groupby("cell")
        lost = by["loaded_lost"].sum()
        share = lost / (lost + by["loaded_samples"].sum())
    else:
        by = rows.groupby("cell")
        share = 1.0 - by["bytes"].sum() / by["sent_bytes"].sum()
    told = {str(cell): max(0.0, float(lost)) for cell, lost in share.items() if lost == lost}
    return told, bool(loaded.any())


def arrived(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Datagrams that did not arrive, of whose delays nothing is known."""
    if not of_datagrams(metric):
        return ""
    told = []
    shares, loaded = _lost(results, cells, metric)
    lost, under = shares.values(), " under load" if loaded else ""
    if lost and max(lost) > 0:
        most = " at the most" if loaded else ""
        of = f"Of the datagrams{under} {min(lost):.1%} to {max(lost):.1%}"
        # Under load those are not counted of which it is known that they were on their way.
        unless = ", where nobody counts packets," if loaded else ""
        way = f"lost, or{unless} on their way when the run ended"
        spreads = _spreads(results, cells, metric)
        flow = max(spreads, key=lambda n: spreads[n], default=None)
        if flow is not None and spreads[flow] > max(SELECTED, max(lost) - min(lost)):
            own, _ = _lost(results, cells, f"{parts(metric)[0]}@{flow}")
            of += f", of flow {flow} alone {min(own.values()):.1%} to {max(own.values()):.1%},"
        told.append(f"{of} did not arrive{most}, by cell: {way}")
    rows = rows_of(results, cells)
    none = rows["flow_protocol"].eq("udp") & (rows["bytes"].eq(0) | rows["loaded_samples"].eq(0))
    if (only := parts(metric)[1]) is not None:
        none &= rows["flow"].eq(only)
    keys = ["cell", "run"]
    # Those that are over before the load have none under it, and are what it adds to.
    load = rows[~rows["flow_protocol"].eq("udp") & (rows["bytes"] > 0)]
    begins = load["start_s"].fillna(0.0).groupby([load["cell"], load["run"]]).min()
    begin = begins.reindex(pd.MultiIndex.from_frame(rows[keys])).to_numpy(float)
    none &= ~(rows["last_byte_s"].astype(float) <= begin)
    results.sample(metric)  # of a flow alone it is looked up
    without = results.runs[results.runs[column(metric)].isna()][keys]
    every, idle = len(rows[keys].drop_duplicates()), _idle(rows).merge(without, on=keys)
    if len(idle):
        told.append(
            f"In {len(idle)} of {every} runs the load delivered nothing: delays under it are not "
            "known"
        )
    silent = rows[none].merge(without, on=keys)[keys].drop_duplicates()
    silent = silent.merge(idle, on=keys, how="left", indicator=True)
    silent = silent[silent["_merge"] == "left_only"]
    if len(silent):
        told.append(
            f"In {len(silent)} of {every} runs no datagram arrived under load that was sent under "
            "it: they have no value"
        )
    if selected(results, cells, metric):
        told.append("Delays are of what arrived, so that there is neither colour nor bold")
    return "".join(f"{sentence}. " for sentence in told).rstrip()


def unprobed(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Runs without the delay that load adds to, as no datagrams went the same way before it."""
    if parts(metric)[0] != "latency_added" or (name := column(metric)) not in results.runs:
        return ""
    rows, keys = rows_of(results, cells), ["cell", "run"]
    unknown = results.runs[results.runs[name].isna()][keys]
    load = rows[~rows["flow_protocol"].eq("udp") & (rows["bytes"] > 0)]
    begins = load["start_s"].fillna(0.0).groupby([load["cell"], load["run"]]).min()
    probes = rows[rows["flow_protocol"].eq("udp") & rows["one_way_p50_s"].notna()]
    probes = probes.merge(unknown, on=keys).merge(begins.rename("begin").reset_index(), on=keys)
    before = probes["last_byte_s"].fillna(probes["sim_seconds"]) <= probes["begin"]
    ends = [*keys, "flow_from", "flow_to"]
    found = probes[~before].merge(probes[before][ends], on=ends, how="left", indicator=True)
    without = found[found["_merge"] == "left_only"][keys].drop_duplicates()
    if without.empty:
        return ""
    return (
        f"In {len(without)} of {len(rows[keys].drop_duplicates())} runs no flow of datagrams "
        "between the same two nodes was over before the load began: what their delay is without "
        'load is not known, and there is no value. A flow with `protocol = "udp"` and a `time` '
        "that ends before the load tells it."
    )


def _idle(rows: pd.DataFrame) -> pd.DataFrame:
    """The runs that have a load of connections, and nothing of it arrived."""
    keys = ["cell", "run"]
    load = rows[~rows["flow_protocol"].eq("udp")].groupby(keys)["bytes"].sum(min_count=1)
    return load[load == 0].reset_index()[keys]


def _samples(rows: pd.DataFrame, kind: str) -> pd.Series[float]:
    """Of how many values percentiles of a flow are, on the mean of each cell that tells it."""
    if f"{kind}_samples" not in rows:  # of an older lab
        return pd.Series(dtype=float)
    counted = rows[f"{kind}_samples"].astype(float)
    if kind == "one_way" and (met := rows["loaded_samples"].astype(float) > 0).any():
        counted = rows["loaded_samples"].astype(float).where(met)
    # Who has few values of its own counts as much in a mean over flows.
    by_flow = counted.groupby([rows["cell"], rows["flow"]]).mean()
    return by_flow.groupby("cell").min().dropna()


def _downloads(rows: pd.DataFrame) -> pd.Series[float]:
    """How many transfers and requests came to an end in a run, on the mean of each cell."""
    took = rows["delay_finished_s"].notna()
    each = rows["requests"].clip(lower=1).where(took, 0).groupby([rows["cell"], rows["run"]]).sum()
    return each.where(each > 0).groupby("cell").mean().dropna()


def few(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Percentiles of too few values to be any."""
    base, only = parts(metric)
    kind, _, share = ("one_way", "", "95") if base == "latency_added" else base.partition("_p")
    if kind not in ("rtt", "one_way", "delay") or share not in LEAST:
        return ""
    rows = rows_of(results, cells)
    if kind == "delay":
        means, what, of = _downloads(carriers(rows, metric)), "transfers and requests", "per run"
    else:
        rows = rows if only is None else rows[rows["flow"] == only]
        means = _samples(rows, kind)
        name = f"{kind}_samples"
        several = name in rows and rows.loc[rows[name].notna(), "flow"].nunique() > 1
        of = "of the flow with fewest" if several else "per flow"
        what = "datagrams" if kind == "one_way" else "round-trip times"
    least = LEAST[share]
    if not len(means) or means.min() >= least:
        return ""
    low, high = (f"{v:.3g}" for v in (means.min(), means.max()))
    return (
        f"{share} % are below by {low if low == high else f'{low} to {high}'} {what} {of} on "
        f"the mean: of fewer than {least} that is hardly less than the greatest of them. There is "
        "neither colour nor bold."
    )


def selected(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether so unlike shares arrived in these cells, which are compared, that delays are not of
    the same.
    """
    if not of_datagrams(metric):
        return False
    return max(_spreads(results, cells, metric).values(), default=0.0) > SELECTED


def _spreads(results: Results, cells: Sequence[Cell], metric: str) -> dict[int, float]:
    """By how much the shares of each flow's datagrams that did not arrive are apart, by its number:
    a mean over flows is of few datagrams as much as of many.
    """
    base, only = parts(metric)
    rows = rows_of(results, cells)
    flows = sorted(set(rows.loc[rows["flow_protocol"].eq("udp"), "flow"]))
    found = {}
    for n in flows if only is None else [only]:
        lost, _ = _lost(results, cells, f"{base}@{n}")
        shares = [lost[c.name] for c in cells if c.name in lost]
        if shares:
            found[int(n)] = max(shares) - min(shares)
    return found
