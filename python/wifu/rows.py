"""The flows of results, as notes beside numbers look at them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from wifu import stops
from wifu.cells import Cell, listed_flows
from wifu.metrics import parts
from wifu.plan import Plan
from wifu.stacks import compositions_of
from wifu.stamps import first
from wifu.transfers import of_tcp

MOST = 10
"""Cells that are named."""

SHARES = ("jain", "unfairness", "utility", "lowest", "weakest", "sum_rates")
"""Metrics that take the flows' goodputs for parts of what they share."""

RATES = ("goodput", "aggregate", "starved", *SHARES)
"""Metrics of goodputs."""


class Results(Protocol):
    """What is asked of results (`wifu.Results`, which uses this module)."""

    plan: Plan
    flows: pd.DataFrame
    runs: pd.DataFrame

    @property
    def folder(self) -> Path:
        """Where they are."""

    def sample(self, metric: str, where: Mapping[str, Any] | None = None) -> pd.Series[float]:
        """A metric of the runs of cells."""

    def look_up(self, metric: str) -> None:
        """Adds to `runs` a metric of a flow alone that is not there, as no plan names it."""

    def outcome(self, cell: Cell | str, run: int = 1) -> dict[str, Any]:
        """The whole outcome of a run."""


def labelled(rows: Sequence[tuple[Cell, Mapping[str, Any]]]) -> pd.DataFrame:
    """A table of what was found in cells, behind their labels; an axis that is called like
    something that was found is called `NAME_asked` there.
    """
    taken = {name for _, row in rows for name in row}
    found = []
    for cell, row in rows:
        labels = {}
        for axis, label in cell.labels.items():
            name = axis
            while name in taken or (name != axis and name in cell.labels):
                name += "_asked"
            labels[name] = label
        found.append({**labels, **row})
    return pd.DataFrame(found)


def rows_of(results: Results, cells: Sequence[Cell]) -> pd.DataFrame:
    """The flows of the runs that count, each with how long its run took."""
    rows = results.flows
    rows = rows[(rows["status"] == "ok") & rows["cell"].isin([c.name for c in cells])]
    if "bytes" in (axis.name for axis in results.plan.axes):
        # Its levels stand where what flows delivered would, of which nothing is known then.
        rows = rows.assign(bytes=np.nan)
    return rows.merge(results.runs[["cell", "run", "sim_seconds"]], on=["cell", "run"], how="left")


def compared(results: Results, cells: Sequence[Cell]) -> list[list[Cell]]:
    """These cells, as they stand beside each other: same but for the plan's `pair`, or all of them,
    if it has none.
    """
    if results.plan.pair is None:
        return [list(cells)] if len(cells) > 1 else []
    names = {c.name for c in cells}
    rows = ([c for c in row if c.name in names] for row in results.plan.groups())
    return [row for row in rows if len(row) > 1]


def alongside(results: Results, cells: Sequence[Cell]) -> list[list[Cell]]:
    """The same, and those that differ by an axis of protocols alone, whatever is the pair: they
    stand in rows or along a figure.
    """
    rows = compared(results, cells)
    if results.plan.pair is None:
        return rows
    others = (axis.name for axis in results.plan.axes if axis.name != results.plan.pair)
    return rows + [row for name in others for row in _of_protocols(cells, name)]


def _of_protocols(cells: Sequence[Cell], axis: str) -> list[list[Cell]]:
    """Cells that are the same but for an axis, along which flows have other protocols."""
    by: dict[str, list[Cell]] = {}
    for cell in cells:
        others = {name: str(label) for name, label in cell.labels.items() if name != axis}
        by.setdefault(json.dumps(others, sort_keys=True), []).append(cell)

    return [row for row in by.values() if of_protocols(row)]


def of_protocols(cells: Sequence[Cell]) -> bool:
    """Whether cells differ by what their flows run over: by its words, or by what one and the same
    topology says of it.
    """
    if len({tuple(str(f.get("protocol")) for _, f in flows_of(cell)) for cell in cells}) > 1:
        return True
    if len({tuple(carried(cell).values()) for cell in cells}) < 2:
        return False
    ways = [{k: v for k, v in _topology(c).items() if k != "transport"} for c in cells]
    return all(way == ways[0] for way in ways)


def _topology(cell: Cell) -> Mapping[str, Any]:
    return cell.scenario.get("topology") or {}


def carried(cell: Cell) -> dict[int, str]:
    """What each flow of a cell runs over, with what the plan's topology says of that protocol."""
    return {n: _worded(cell, str(flow.get("protocol"))) for n, flow in flows_of(cell)}


def _worded(cell: Cell, protocol: str) -> str:
    given = _topology(cell).get("transport") or {}
    own = given.get(protocol.partition(",")[0]) or {}
    return ",".join([protocol, *(f"{key}={value}" for key, value in own.items())])


def protocols(rows: pd.DataFrame, cells: Sequence[Cell]) -> pd.Series[str]:
    """The same of each of these flows."""
    by = {cell.name: cell for cell in cells}
    keys = zip(rows["cell"], rows["flow_protocol"], strict=True)
    found = [_worded(by[str(cell)], str(protocol)) for cell, protocol in keys]
    return pd.Series(found, rows.index, dtype=object)


def ahead(means: pd.Series[float], times: float = 1.0) -> Iterator[tuple[str, str]]:
    """All pairs of cells of which the first has more than so many times as much as the second."""
    for (one, much), (other, less) in permutations(means.items(), 2):
        if much > times * less:
            yield str(one), str(other)


def flows_of(cell: Cell) -> list[tuple[int, Mapping[str, Any]]]:
    """The flows of a cell's scenario, with their numbers."""
    return listed_flows(cell.scenario)


def of_these(rows: pd.DataFrame, wanted: Collection[tuple[str, int]]) -> pd.Series[bool]:
    """Whether each row is of one of these flows, each by its cell and number."""
    keys = zip(rows["cell"], rows["flow"], strict=True)
    return pd.Series([(str(cell), int(n)) in wanted for cell, n in keys], rows.index, dtype=bool)


def composed(rows: pd.DataFrame, cells: Sequence[Cell]) -> list[tuple[str, tuple[str, ...]]]:
    """What each of these flows runs over, with the compositions of its plan, which may name it."""
    own = {cell.name: compositions_of(cell.scenario) for cell in cells}
    keys = zip(rows["cell"], rows["flow_protocol"], strict=True)
    return [(str(protocol), own.get(str(cell), ())) for cell, protocol in keys]


def over_tcp(rows: pd.DataFrame, cells: Sequence[Cell]) -> pd.Series[bool]:
    """Whether each of these flows sends TCP's segments."""
    found = [of_tcp(*protocol) for protocol in composed(rows, cells)]
    return pd.Series(found, rows.index, dtype=bool)


def going(rows: pd.DataFrame, cells: Sequence[Cell]) -> pd.Series[bool]:
    """Whether each of these flows had more to send when something else ended it than its bytes: its
    run, or a time of its own (`time`, `stop_at`). What a count of the `stop` ends is a file.
    """
    own = {(cell.name, n) for cell in cells for n, flow in flows_of(cell) if stops.timed(flow)}
    more = rows["finished"].eq(False) | of_these(rows, own)
    return more & ~stops.counted(rows, cells)


def numbered(numbers: Iterable[int], most: int = 4) -> str:
    """Flows by their numbers, of which so many are named."""
    told = [str(n) for n in sorted(set(numbers))]
    return f"flow{'s' if len(told) > 1 else ''} {first(told, most)}"


def by_cell(rows: pd.DataFrame, cells: Sequence[Cell]) -> str:
    """How many of these rows each cell has, in words."""
    counts = rows["cell"].value_counts()
    return first([f"{c.name} {counts[c.name]}" for c in cells if c.name in counts], MOST)


def carriers(rows: pd.DataFrame, metric: str = "") -> pd.DataFrame:
    """Of these flows those that a metric is of: without datagrams beside connections."""
    if (alone := parts(metric)[1]) is not None:
        return rows[rows["flow"] == alone]
    datagrams = rows["flow_protocol"].eq("udp")
    mixed = (~datagrams).groupby([rows["cell"], rows["run"]]).transform("any")
    return rows[~(datagrams & mixed)]


def ends(rows: pd.DataFrame) -> pd.Series[float]:
    """Until when these flows were there: to their last byte if they finished, of datagrams until
    the last was sent or arrived, else to the end of their run.
    """
    end = rows["last_byte_s"].where(rows["finished"].eq(True))
    if "until_s" in rows:
        over = rows["flow_protocol"].eq("udp") & (rows["until_s"] < rows["sim_seconds"])
        end = end.fillna(rows["until_s"].astype(float).where(over))
    return end.astype(float).fillna(rows["sim_seconds"])
