"""Links that are cut and come back, nodes that walk away and come back, and whose packets pass
there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wifu import values
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.rows import Results, flows_of

NEARER, FAR = 0.5, 10.0
"""A node is back that is nearer than so to where it was, of how far away it went, and that is so
many metres at the least: less takes it out of nobody's reach.
"""

Link = frozenset[str]
"""A link by the names of its ends."""


class Returns(NamedTuple):
    """What goes and comes back in a scenario, each with its moments."""

    links: Mapping[Link, tuple[str, ...]]
    traces: tuple[str, ...]
    times: tuple[float, ...]
    """When anything goes or comes, in seconds: links, and nodes of such traces."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.links or self.traces)


def returns(scenario: Mapping[str, Any]) -> Returns:
    """Those of a scenario."""
    found: dict[Link, list[str]] = {}
    back: set[Link] = set()
    times: list[float] = []
    events = scenario.get("event")
    for event in events if isinstance(events, list) else []:
        if not isinstance(event, dict):
            continue
        what = "restore" if "restore" in event else "cut"
        if isinstance(ends := event.get(what), list):
            at, link = _at(event), frozenset(map(str, ends))
            found.setdefault(link, []).append(f"{what} {at:g}")
            back |= {link} if what == "restore" else set()
            times.append(at)
    traces = []
    for moving in scenario.get("mobility") or []:
        if isinstance(moving, dict) and (rows := moving.get("rows")):
            told = json.dumps(rows, default=str)
            way = _way(told)
            if way.back:
                traces.append(told)
                times += way.times
    links = {link: tuple(at) for link, at in found.items() if link in back}
    return Returns(links, tuple(traces), tuple(times))


def _at(event: Mapping[str, Any]) -> float:
    """When an event happens; what is wrong is told where it is checked."""
    with suppress(LabError):
        return values.seconds(event.get("at", 0))
    return 0.0


class _Way(NamedTuple):
    """Whether a node of a trace is nearer again to where it was than it had been, and when nodes
    move, in seconds.
    """

    back: bool
    times: tuple[float, ...]


@lru_cache(maxsize=256)
def _way(told: str) -> _Way:
    by: dict[str, list[tuple[float, float, float]]] = {}
    with suppress(TypeError, ValueError):
        for at, node, x, y in json.loads(told):
            row = (float(at), float(x), float(y))
            by.setdefault(str(node), []).append(row)
    back, moves = False, set()
    for rows in by.values():
        times, places = np.array(rows)[:, 0], np.array(rows)[:, 1:]
        moved = (places[1:] != places[:-1]).any(axis=1)
        moves |= {*times[:-1][moved].tolist(), *times[1:][moved].tolist()}
        back = back or _comes_back(places)
    return _Way(back, tuple(sorted(moves)))


def _comes_back(places: NDArray[np.float64]) -> bool:
    for n in range(len(places) - 2):
        far = np.hypot(*(places[n:] - places[n]).T)
        away = np.maximum.accumulate(far)[:-1]
        if ((away >= FAR) & (far[1:] < NEARER * away)).any():
            return True
    return False


def crossing(results: Results, cell: Cell) -> set[int]:
    """Flows whose packets pass a link that comes back; all where a node does, for any link may be
    one of its own, and where it is not known who passed what.
    """
    back, every = returns(cell.scenario), {n for n, _ in flows_of(cell)}
    if not back or back.traces:
        return every if back else set()
    runs = results.runs
    good = runs.loc[runs["cell"].eq(cell.name) & runs["status"].eq("ok"), "run"]
    hops = None
    if len(good):
        with suppress(LabError):  # tables without the files of runs
            hops = results.outcome(cell, int(good.min())).get("hops")
    if hops is None:
        return every
    return {int(h["flow"]) for h in hops if frozenset((str(h["from"]), str(h["to"]))) in back.links}
