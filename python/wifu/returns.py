"""Links that are cut and come back, nodes that walk away and come back, and whose packets pass
there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

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
    """Of all that goes or comes, in seconds."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.links or self.traces)


def returns(scenario: Mapping[str, Any]) -> Returns:
    """Those of a scenario."""
    found: dict[Link, list[str]] = {}
    back: set[Link] = set()
    times: list[float] = []
    for event in scenario.get("event") or []:
        if not isinstance(event, dict):
            continue
        what = "restore" if "restore" in event else "cut"
        if isinstance(ends := event.get(what), list):
            link = frozenset(map(str, ends))
            found.setdefault(link, []).append(f"{what} {event.get('at')}")
            back |= {link} if what == "restore" else set()
            with suppress(LabError):  # what is wrong is told where it is checked
                times.append(values.seconds(event.get("at", 0)))
    traces = []
    for moving in scenario.get("mobility") or []:
        if isinstance(moving, dict) and (rows := moving.get("rows")):
            told = json.dumps(rows, default=str)
            if _comes_back(told):
                traces.append(told)
                times += [float(row[0]) for row in rows]
    links = {link: tuple(at) for link, at in found.items() if link in back}
    return Returns(links, tuple(traces), tuple(times))


@lru_cache(maxsize=256)
def _comes_back(told: str) -> bool:
    """Whether a node of a trace is nearer again to where it was than it had been."""
    by: dict[str, list[tuple[float, float]]] = {}
    with suppress(TypeError, ValueError):
        for at, node, x, y in json.loads(told):
            float(at)
            by.setdefault(str(node), []).append((float(x), float(y)))
    for places in by.values():
        for n, begin in enumerate(places):
            away = 0.0
            for place in places[n + 1 :]:
                far = math.dist(begin, place)
                if away >= FAR and far < NEARER * away:
                    return True
                away = max(away, far)
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
