"""What is missing from means: transfers that the end of a run cut off, of whose times only the
least is known, and runs that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pandas as pd

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.plan import Plan


class Results(Protocol):
    """What is asked of results (`wifu.Results`, which uses this module)."""

    plan: Plan
    flows: pd.DataFrame
    runs: pd.DataFrame


OF_FINISHED = ("delay", "delay_median")
"""Metrics of the transfers that were finished, without those that take longest."""

MOST = 10
"""Cells that are named."""

_RATES = ("goodput", "aggregate", "lowest")


def of_finished(metric: str) -> bool:
    """Whether a metric is of the transfers alone that were finished."""
    return parts(metric)[0] in OF_FINISHED


def _files(results: Results, cell: Cell, metric: str = "") -> pd.DataFrame:
    """The flows of a cell's runs that count that are files: what has an end of its own. Datagrams
    have none, since lost ones do not come. Of a metric of a flow alone it is that flow.
    """
    only = parts(metric)[1]
    flows = cell.scenario.get("flow")
    files = [
        n
        for n, flow in enumerate(flows if isinstance(flows, list) else [], 1)
        if isinstance(flow, dict) and flow.get("app") == "file" and flow.get("protocol") != "udp"
        if only in (None, n)
    ]
    rows = results.flows
    if "flow" not in rows:  # no run came out
        return rows[:0]
    return rows[(rows["cell"] == cell.name) & (rows["status"] == "ok") & rows["flow"].isin(files)]


def _cut(rows: pd.DataFrame) -> pd.DataFrame:
    # Where nobody tells whether they were finished they are taken for it.
    return rows[rows["finished"].eq(False)] if "finished" in rows else rows[:0]


def runs(results: Results, cell: Cell, metric: str = "") -> set[int]:
    """The numbers of a cell's runs of which a transfer was cut off."""
    return {int(run) for run in _cut(_files(results, cell, metric))["run"]}


def count(results: Results, cells: Sequence[Cell], metric: str = "") -> tuple[int, int]:
    """How many transfers of these cells' runs were cut off, and of how many."""
    every = [_files(results, cell, metric) for cell in cells]
    return sum(len(_cut(rows)) for rows in every), sum(map(len, every))


def short(results: Results, cells: Sequence[Cell], metric: str = "") -> tuple[int, int]:
    """How many flows of these cells' runs had fewer files or answers than `stop.requests` waits for
    when the run ended, and of how many.
    """
    only, found, of, rows = parts(metric)[1], 0, 0, results.flows
    for cell in cells:
        wanted = cell.scenario.get("stop", {}).get("requests")
        if wanted is None or "requests" not in rows:
            continue
        asking = [
            n
            for n, flow in enumerate(cell.scenario.get("flow", []), 1)
            if flow.get("app") in ("http", "request") and only in (None, n)
        ]
        own = rows[(rows["cell"] == cell.name) & (rows["status"] == "ok")]
        own = own[own["flow"].isin(asking)]
        found, of = found + int((own["requests"] < wanted).sum()), of + len(own)
    return found, of


def unfinished(results: Results, cells: Sequence[Cell], metric: str = "") -> str:
    """The same in words, beside a number of any metric; nothing if all were finished."""
    cut, of = count(results, cells, metric)
    few, all_ = short(results, cells, metric)
    told = [f"{cut} of {of} transfers unfinished"] if cut else []
    told += [f"{few} of {all_} flows with fewer files than others"] if few else []
    return ", ".join(told)


def least(results: Results, cell: Cell, metric: str) -> bool:
    """Whether the mean of a metric in a cell is but the least that it can be."""
    return of_finished(metric) and bool(runs(results, cell, metric))


def sentence(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What is to be said of transfers that were cut off, where a metric depends on them."""
    rates = parts(metric)[0] in _RATES and results.plan.measure.mode in ("transfer", "receiver")
    if not rates and not of_finished(metric):
        return ""
    if of_finished(metric) and (few := short(results, cells, metric))[0]:
        return (
            f"{few[0]} of {few[1]} flows had fewer files than others by the end of their run, and "
            "weigh less: they are the slowest."
        )
    cut, of = count(results, cells, metric)
    if not cut:
        return ""
    told = f"{cut} of {of} transfers were cut off by the end of their run"
    if rates:
        return f"{told}; their goodput is that until then."
    return f"{told} and are missing: means of such cells are the least that they can be (≥)."


def failed(results: Results) -> str:
    """What is to be said where runs failed: which cells their absence may flatter."""
    rows = results.runs
    if not len(rows) or not (gone := rows["status"] == "failed").any():
        return ""
    counts = rows[gone]["cell"].value_counts()
    cells = [f"{c.name} {counts[c.name]}" for c in results.plan.cells if c.name in counts]
    more = f" and {len(cells) - MOST} more" if len(cells) > MOST else ""
    return (
        f"{int(gone.sum())} of {len(rows)} runs failed and are in no mean. Where what makes runs "
        "fail makes them slow as well, those that are left flatter. By cell: "
        f"{', '.join(cells[:MOST])}{more}."
    )
