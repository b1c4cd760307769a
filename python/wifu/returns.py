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
    """When what comes back goes and comes, in seconds."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.links or self.traces)


def returns(scenario: Mapping[str, Any]) -> Returns:
    """Those of a scenario."""
    found: dict[Link, list[str]] = {}
    open_since: dict[Link, float | None] = {}
    times: list[float] = []
    back: set[Link] = set()
    for event in sorted(scenario.get("event") or [], key=_at):
        if not isinstance(event, dict):
            continue
        what = "restore" if "restore" in event else "cut"
        if isinstance(ends := event.get(what), list):
            link = frozenset(map(str, ends))
            found.setdefault(link, []).append(f"{what} {event.get('at')}")
            if what == "cut":
                open_since.setdefault(link, _at(event))
                continue
            back.add(link)
            if (since := open_since.pop(link, None)) is not None:
                times += [since, _at(event)]
    traces = []
    for moving in scenario.get("mobility") or []:
        if isinstance(moving, dict) and (rows := moving.get("rows")):
            told = json.dumps(rows, default=str)
            if away := _away(told):
                traces.append(told)
                times += away
    links = {link: tuple(at) for link, at in found.items() if link in back}
    return Returns(links, tuple(traces), tuple(times))


def _at(event: Any) -> float:
    """When an event happens; what is wrong is told where it is checked."""
    with suppress(LabError):
        return values.seconds(event.get("at", 0)) if isinstance(event, dict) else 0.0
    return 0.0


@lru_cache(maxsize=256)
def _away(told: str) -> tuple[float, ...]:
    """When nodes of a trace go away and come back, nearer again to where they were than they had
    been: each is half of how far it goes from there, on straight lines between rows.
    """
    by: dict[str, list[tuple[float, float, float]]] = {}
    with suppress(TypeError, ValueError):
        for at, node, x, y in json.loads(told):
            row = (float(at), float(x), float(y))
            by.setdefault(str(node), []).append(row)
    found: set[float] = set()
    for rows in by.values():
        times, places = np.array(rows)[:, 0], np.array(rows)[:, 1:]
        for n in range(len(rows) - 2):
            far = np.hypot(*(places[n:] - places[n]).T)
            most = np.maximum.accumulate(far)[:-1]
            back = np.flatnonzero((most >= FAR) & (far[1:] < NEARER * most))
            if len(back):
                found |= set(_crossed(times[n:], far, NEARER * most[back[0]], int(back[0]) + 1))
    return tuple(sorted(found))


def _crossed(
    times: NDArray[np.float64], far: NDArray[np.float64], half: float, back: int
) -> tuple[float, float]:
    """When on its way to row `back` a node is `half` away first and for the last time."""

    def between(near: int, away: int) -> float:
        return float(np.interp(half, far[[near, away]], times[[near, away]]))

    gone = int(np.argmax(far > half))
    return between(gone - 1, gone), between(back, back - 1)


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
