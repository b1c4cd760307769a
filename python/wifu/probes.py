"""What is to be said beside delays of datagrams."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu.cells import Cell
from wifu.metrics import column, of_datagrams, parts
from wifu.rows import Results, rows_of
from wifu.underload import under_load

SELECTED = 0.05
"""Shares of lost datagrams that are further apart than this, and delays are not compared."""


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


def _lost(results: Results, cells: Sequence[Cell], metric: str) -> dict[str, float]:
    """The share of the datagrams that did not arrive, of each cell that tells what was sent."""
    rows = rows_of(results, cells)
    only = parts(metric)[1]
    rows = rows[rows["flow_protocol"].eq("udp") & (rows["sent_bytes"] > 0)]
    by = (rows if only is None else rows[rows["flow"] == only]).groupby("cell")
    share = 1.0 - by["bytes"].sum() / by["sent_bytes"].sum()
    return {str(cell): max(0.0, float(lost)) for cell, lost in share.items()}


def arrived(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Datagrams that were lost, of whose delays nothing is known."""
    if not of_datagrams(metric):
        return ""
    told = []
    lost = _lost(results, cells, metric).values()
    if lost and max(lost) > 0:
        told.append(f"Of the datagrams {min(lost):.1%} to {max(lost):.1%} were lost, by cell")
    rows = rows_of(results, cells)
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
    if selected(results, cells, metric):
        told.append("Delays are of what arrived, so that there is neither colour nor bold")
    return "".join(f"{sentence}. " for sentence in told).rstrip()


def selected(results: Results, cells: Sequence[Cell], metric: str) -> bool:
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
