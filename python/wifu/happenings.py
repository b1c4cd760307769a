"""What a plan has happen later than at the beginning, to links, nodes and by other flows, and flows
that were over before it did: they never met it, and beside others that did they are of another
network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd

from wifu import values
from wifu.cells import Cell
from wifu.cutoff import OF_FINISHED
from wifu.errors import LabError
from wifu.metrics import of_datagrams, parts
from wifu.outlets import topology_of
from wifu.rows import RATES, Results, alongside, carriers, ends, flows_of, rows_of
from wifu.stamps import first

MOST = 4
"""Cells that are named."""

APART = 0.05
"""Of so much more of one cell's runs, and what met something is not compared with what did not."""


def moments(scenario: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    """When something happens that is not there from the beginning, in seconds, and what it is."""
    for event in _tables(scenario, "event"):
        what = "a link is cut" if "cut" in event else "a link is restored"
        with suppress(LabError, KeyError):  # what is wrong is told where it is checked
            yield values.seconds(event["at"]), what
    for source in _tables(topology_of(scenario), "interferer"):
        with suppress(LabError):
            if (at := values.seconds(source.get("start", 0))) > 0:
                yield at, "an interferer begins"
    for moving in _tables(scenario, "mobility"):
        with suppress(LabError):
            if moving.get("kind") == "waypoint" and (at := values.seconds(moving.get("pause", 0))):
                yield at, "nodes begin to walk"
        begins: dict[str, float] = {}
        for at, node, *_ in moving.get("rows") or []:
            begins.setdefault(str(node), float(at))
        for at in begins.values():
            yield at, "a node begins to move"


def happening(cell: Cell) -> bool:
    """Whether anything does in a cell, nodes move, or a flow begins later than others or stops
    before them: then what came early or late may be of that.
    """
    later = [at for at, _ in _begun(cell, set())]
    apart = len(later) not in (0, len(flows_of(cell))) or len(set(later)) > 1
    return apart or befalling(cell)


def befalling(cell: Cell) -> bool:
    """Whether anything but later flows does: they are there from then on."""
    apart = len({_stops(flow) for _, flow in flows_of(cell)}) > 1
    moving = bool(_tables(cell.scenario, "mobility"))
    return apart or moving or any(at > 0 for at, _ in moments(cell.scenario))


def _tables(of: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    given = of.get(key)
    return [t for t in given if isinstance(t, Mapping)] if isinstance(given, list) else []


def _begun(cell: Cell, own: set[int]) -> Iterator[tuple[float, str]]:
    """When flows begin that are not among these."""
    for n, flow in flows_of(cell):
        with suppress(LabError):
            if n not in own and (at := values.seconds(flow.get("start", 0))) > 0:
                yield at, f"flow {n} begins"


def _measured(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """The flows that a metric is of: rates and times are of connections where there are any, delays
    of datagrams of these, and what is lost is of all.
    """
    rows, (base, only) = rows_of(results, cells), parts(metric)
    if only is not None or base in (*RATES, *OF_FINISHED):
        return carriers(rows, metric)
    return rows[rows["flow_protocol"].eq("udp")] if of_datagrams(metric) else rows


def _stops(flow: Mapping[str, Any]) -> float | None:
    """When the clock ends a flow before the run is over."""
    begin = values.seconds(flow.get("start", 0))
    last = [begin + values.seconds(flow["time"])] if "time" in flow else []
    last += [values.seconds(flow["stop_at"])] if "stop_at" in flow else []
    return min(last, default=None)


def _missed(results: Results, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """In which share of a cell's runs each of these comes when all flows that the metric is of are
    over: a row for each, by when and what it is, a column for each cell; nan where a cell has no
    such thing.
    """
    rows = _measured(results, cells, metric)
    if "sim_seconds" not in rows or "start_s" not in rows:
        return pd.DataFrame()
    over = ends(rows).groupby([rows["cell"], rows["run"]]).max()
    numbers = rows.groupby("cell")["flow"].agg(lambda own: set(map(int, own)))
    found: dict[str, dict[tuple[float, str], float]] = {}
    for cell in cells:
        if cell.name in numbers.index:
            own = over.loc[cell.name]
            when = (*moments(cell.scenario), *_begun(cell, numbers[cell.name]))
            found[cell.name] = {at: float((own <= at[0]).mean()) for at in when}
    return pd.DataFrame({name: pd.Series(own) for name, own in found.items() if own})


def unmet(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether flows of some cells met something that those of others were over before."""
    shares = _missed(results, cells, metric)
    apart = shares.max(axis=1) - shares.min(axis=1)
    return bool(len(shares) and (apart > APART).any())


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words, and where no run of a cell met something."""
    shares = _missed(results, cells, metric)
    late = shares[shares.max(axis=1) > 0] if len(shares) else shares
    if not len(late):
        return ""
    told = []
    for (at, what), row in late.iterrows():
        own = row[row > 0]
        named = [f"{cell} {'all' if share == 1 else f'{share:.0%}'}" for cell, share in own.items()]
        told.append(f"{what} at {at:g} s: {first(named, MOST)}")
    colour = any(unmet(results, group, metric) for group in alongside(results, cells))
    return (
        "What is measured was over before what the plan has happen, and never met it, in some "
        f"runs or all ({first(told, MOST)}): larger files, flows that go on, a longer `stop.time` "
        "or an earlier moment would have it met."
        f"{' There is neither colour nor bold where that is so of more runs of one.' * colour}"
    )
