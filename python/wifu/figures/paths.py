"""The ways of nodes that move, as far as a scenario tells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wifu import values

Point = tuple[float, float]


def begun(scenario: Mapping[str, Any]) -> dict[str, Point]:
    """Where nodes began of which the scenario says it."""
    topology = scenario.get("topology")
    named = topology.get("node") if isinstance(topology, Mapping) else None
    return {
        str(node["name"]): (float(node["position"][0]), float(node["position"][1]))
        for node in named or []
        if node.get("position") and node.get("name")
    }


def traced(scenario: Mapping[str, Any], until: float) -> dict[str, list[Point]]:
    """The points of nodes that move by a trace, up to the end of a run. Before its first one a node
    is there.
    """
    found: dict[str, list[Point]] = {}
    for rule in _rules(scenario):
        for at, name, x, y in rule.get("rows") or []:
            points = found.setdefault(str(name), [])
            if values.seconds(at) <= until:
                points.append((float(x), float(y)))
    return found


def walking(scenario: Mapping[str, Any], nodes: Sequence[str]) -> list[str]:
    """The nodes that move at random, whose ways are nobody's to tell."""
    found: dict[str, None] = {}
    for rule in _rules(scenario):
        if rule.get("kind") == "waypoint":
            found |= dict.fromkeys(map(str, rule.get("nodes") or nodes))
    return [name for name in found if name in nodes]


def _rules(scenario: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rules = scenario.get("mobility") or []
    return [rule for rule in rules if isinstance(rule, Mapping)] if isinstance(rules, list) else []


def ways(
    scenario: Mapping[str, Any], places: Mapping[str, Point], until: float
) -> dict[str, list[Point]]:
    """The way of each node that moved, to where it was when the run ended; of one that walks at
    random its two ends.
    """
    starts, points = begun(scenario), traced(scenario, until)
    found: dict[str, list[Point]] = {}
    walkers = walking(scenario, list(places))
    for name, end in ((n, p) for n, p in places.items() if n in points or n in walkers):
        own = [starts[name]] if name in starts else []
        way = [*points.get(name, own), end]
        way = [p for n, p in enumerate(way) if n == 0 or p != way[n - 1]]
        if len(way) > 1:
            found[name] = way
    return found


def words(drawn: Sequence[tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]]) -> str:
    """What a caption says of the ways of panels: of each its scenario, places and ways."""
    told, walks, unknown = [], False, set[str]()
    for scenario, places, found in drawn:
        walkers = walking(scenario, list(places))
        walks = walks or any(name in found for name in walkers)
        unknown |= {name for name in walkers if name not in found and name not in begun(scenario)}
        if any(name not in walkers for name in found):
            told.append("as their trace has them")
    dotted = list(dict.fromkeys(told))
    dotted += ["straight from where they began, which is not the way that they walked"] * walks
    said = f" (dotted: {'; '.join(dotted)})" if dotted else ""
    if unknown:
        said += "; where those that walk at random began, and their ways, are not recorded"
    return said
