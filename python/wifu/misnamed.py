"""Names in a plan that say something else than what stands behind them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from wifu import _native
from wifu.asked import ASKING
from wifu.cells import Cell, Level
from wifu.network import Node
from wifu.network import network as of
from wifu.outlets import topology_of
from wifu.plan import Plan
from wifu.rows import flows_of
from wifu.runner import split
from wifu.transfers import size
from wifu.values import Value

SHORT = 5e6
"""Octets of a flow that ends, with all its transfers, of which what rate control has to learn is a
part to speak of: of 100 kB over two hops a fifth of the time, of fifty times as much nothing.
"""

COUNTED = {"packets", "requests"}
"""Keys of `stop` by which runs end with what was carried."""


def warnings(plan: Plan) -> list[str]:
    """What is to be said of names that mislead, and of keys that two axes set."""
    return [
        *_levels(plan), *_labels(plan), *_replaced(plan), *_overridden(plan), *_first_rates(plan),
        *_broadcasts(plan), *_zipped(plan),
    ]  # fmt: skip


def _zipped(plan: Plan) -> list[str]:
    """An axis to compare along which goes together with another, so that no two cells differ in it
    alone.
    """
    group = next((own for own in plan.zipped if plan.pair in own), None)
    if group is None or any(len(row) > 1 for row in plan.groups()):
        return []
    others = ", ".join(name for name in group if name != plan.pair)
    return [
        f"nothing is compared along {plan.pair}: it goes together with {others} (`zip`), and no "
        "two cells differ in it alone. Another `pair` is compared, or none of these axes zipped."
    ]


def _levels(plan: Plan) -> list[str]:
    """Levels that are called like a protocol, and have another one."""
    known, out = set(_native.protocols()), []
    for axis in plan.axes:
        for level in axis.levels:
            found = _protocols(level)
            names = [str(words).partition(",")[0] for words in found]
            label = str(level.label).partition(",")[0]
            if label in known and names and label not in names:
                out.append(f"level {level.label} of {axis.name} is no {label}: it has {found[0]}.")
    return out


def _protocols(level: Level) -> list[Value]:
    """The protocols that a level sets, or is."""
    own = [v for path, v in level.paths.items() if path.endswith(".protocol")]
    plain = isinstance(level.value, str) and not level.paths
    return own or ([level.value] if plain else [])


def _labels(plan: Plan) -> list[str]:
    """Levels that figures call by the name of another one."""
    out = []
    for axis, shown in _shown(plan):
        names = {str(level.label) for level in plan.axis(axis).levels}
        for label, text in shown.items():
            if text != label and text in names and label != "title":
                out.append(f"figures call level {label} of {axis} {text}, which is another level.")
    return list(dict.fromkeys(out))


def _shown(plan: Plan) -> list[tuple[str, Mapping[str, str]]]:
    """What levels of an axis are called, by the plan and by each of its figures."""
    axes = {axis.name for axis in plan.axes}
    tables = [plan.labels, *(figure.get("label", {}) for figure in plan.figures)]
    return [
        (name, said)
        for table in tables
        for name, said in table.items()
        if name in axes and isinstance(said, Mapping)
    ]


def _replaced(plan: Plan) -> list[str]:
    """Protocols of compositions that have the name of one that is built in."""
    known = set(_native.protocols())
    found: dict[str, None] = {}
    for cell in plan.cells[:1]:
        for text in split(cell.scenario)[1]:
            table = tomllib.loads(str(text)).get("protocol", {})
            found |= dict.fromkeys(name for name in table if name in known)
    return [
        f"{name} is what `compositions` say here, in place of the protocol of this name that is "
        "built in."
        for name in found
    ]


def _overridden(plan: Plan) -> list[str]:
    """Keys that levels of two axes set in one cell: those of the later one hold."""
    out: dict[str, None] = {}
    for cell in plan.cells:
        levels = [(axis.name, axis.of(cell.labels[axis.name])) for axis in plan.axes]
        for n, (name, level) in enumerate(levels):
            for later, other in levels[n + 1 :]:
                for path in level.paths:
                    if any(
                        _covers(p, path) and _differ(p, path, other, level) for p in other.paths
                    ):
                        told = f"{path} is set by {name} and by {later}: where levels of both set "
                        out[f"{told}it, that of {later} holds, which stands later."] = None
    return list(out)


def _differ(later: str, path: str, other: Level, level: Level) -> bool:
    return bool(other.paths[later] != level.paths[path])


def _covers(later: str, path: str) -> bool:
    """Whether what sets one path sets the other as well, in some flow."""
    one, two = later.split("."), path.split(".")
    return len(one) == len(two) and all(
        a == b or "*" in (a, b) for a, b in zip(one, two, strict=True)
    )


def _first_rates(plan: Plan) -> list[str]:
    """Levels of a rate that an algorithm chooses, and only begins at; and an algorithm beside a
    fixed rate that nobody chose.
    """
    radios = [(cell, nodes) for cell in plan.cells if (nodes := _radios(cell))]
    own = [node for _, nodes in radios for node in nodes if node.rate_control == "minstrel"]
    fixed = [nodes for _, nodes in radios if all(n.rate_control == "fixed" for n in nodes)]
    unsaid = any(node.rate_by == "standard" for nodes in fixed for node in nodes)
    told = []
    if len({node.rate for node in own}) > 1 and any(node.rate_by == "plan" for node in own):
        told.append(
            "with radio.rate_control = minstrel radio.rate is where it begins, and no rate at "
            "which frames are sent all along."
        )
    # Testbeds have rate controls of their own, which nobody compares who does not name one.
    compared = own and fixed and any(map(_names_control, plan.cells))
    if compared and unsaid:
        told.append(
            "with radio.rate_control = fixed, and no radio.rate, frames are sent at the slowest "
            "rate of the standard: what minstrel gains beside it is more than it gains beside the "
            "best fixed one (an axis of radio.rate shows which that is)."
        )
    if compared and any(_short(cell) for cell, _ in radios):
        told.append(
            "minstrel begins at radio.rate, and learns from what is sent: a file that is the first "
            "traffic of its links is of what it does not know yet, where a fixed rate has nothing "
            "to learn (a larger file, or one after others, tells what it does then)."
        )
    standards = {found.standard for cell, _ in radios if (found := of(cell.scenario))}
    if len(standards) > 1 and unsaid:
        told.append(
            "without radio.rate frames are sent at the slowest rate of the standard (1 Mb/s of "
            "802.11b, 6 Mb/s of the others): standards are compared by that."
        )
    return told


def _radios(cell: Cell) -> list[Node]:
    """The radios of a cell that somebody hears: what wires join beside them is no matter."""
    told = of(cell.scenario)
    return told.heard if told else []


def _names_control(cell: Cell) -> bool:
    """Whether a plan says itself how radios choose their rates."""
    return "rate_control" in str([topology_of(cell.scenario), cell.scenario.get("radio")])


def _short(cell: Cell) -> bool:
    """Whether some flow ends with the little that it has, or a run with what was carried."""
    ends = any(0 < _octets(flow) <= SHORT for _, flow in flows_of(cell))
    return ends or bool(COUNTED & set(cell.scenario.get("stop") or {}))


def _octets(flow: Mapping[str, Any]) -> float:
    """Those of a flow that ends with them; 0 of others."""
    count = flow.get("count", 0 if flow.get("app") in ASKING else 1)
    return size(flow) * float(count) if isinstance(count, int | float) else 0.0


def _broadcasts(plan: Plan) -> list[str]:
    """Levels of how often a routing daemon speaks, which no route depends on."""
    said: set[str] = set()
    for cell in plan.cells:
        routing = cell.scenario.get("routing")
        daemon = routing.get("olsr") if isinstance(routing, Mapping) else None
        if not isinstance(daemon, Mapping) or daemon.get("withdraw"):
            daemon = {}
        said.add(str([daemon.get(key) for key in ("hello", "tc", "flood")]))
    if plan.substrate != "sim" or len(said) < 2:
        return []
    return [
        "routing.olsr makes the broadcasts of a daemon, which take air, and no route depends on "
        "them: routes are computed for all nodes at once. Without `withdraw` levels differ by "
        "that air time and by chance."
    ]
