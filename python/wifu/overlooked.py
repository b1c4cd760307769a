"""Handlers that make the way worse for the packets of some flows that are compared, and never see
those of others, as they are of another IP protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, alongside, flows_of
from wifu.stacks import KERNEL, compositions_of, stack
from wifu.stamps import first

SHAPING = ("drop", "delay")
"""Handlers that make the way worse. What others do is for the protocols that they know."""

TCP, UDP, SHIM = 6, 17, 208
"""IP protocol numbers: of simulated protocols with TCP's header, but for those that have a shim."""

MOST = 4
"""Handlers that are told."""


def _number(flow: Mapping[str, Any], cell: Cell, simulated: bool) -> int | None:
    """The IP protocol number of a flow's packets, if it is known."""
    name = str(flow.get("protocol", ""))
    if name == "udp":
        return UDP
    if name.startswith(KERNEL):
        return TCP
    found = stack(name, compositions_of(cell.scenario))
    if found is None or found.number is None:
        return None
    return TCP if simulated and found.wire == "tcp" and found.number != SHIM else found.number


def _wanted(handler: Mapping[str, Any], cell: Cell, simulated: bool) -> int | None:
    """The IP protocol number that a handler is for; none if it is for all."""
    given = handler.get("protocol")
    if given is None or isinstance(given, int):
        return given
    return _number({"protocol": given}, cell, simulated)


def _seen(results: Results, cell: Cell, metric: str) -> dict[tuple[int, int], tuple[str, bool]]:
    """Whether each handler that makes the way worse sees the packets of each flow that a metric is
    of: by the number of the handler and of the flow, with its name.
    """
    only, simulated = parts(metric)[1], results.plan.substrate == "sim"
    out = {}
    for k, handler in enumerate(cell.scenario.get("handler") or []):
        if handler.get("use") not in SHAPING:
            continue
        if (number := _wanted(handler, cell, simulated)) is None:
            continue
        for n, flow in flows_of(cell):
            own = _number(flow, cell, simulated)
            if only in (None, n) and own is not None:
                out[k, n] = (f"{handler['use']} (protocol {number})", own == number)
    return out


def _apart(
    results: Results, cells: Sequence[Cell], metric: str
) -> dict[tuple[str, int], tuple[list[str], list[str]]]:
    """By handler and flow the cells, of those that are compared, where its packets are seen, and
    where they are not.
    """
    found: dict[tuple[str, int], tuple[list[str], list[str]]] = {}
    for cell in cells:
        for (_, n), (name, sees) in _seen(results, cell, metric).items():
            found.setdefault((name, n), ([], []))[not sees].append(cell.name)
    return {key: both for key, both in found.items() if all(both)}


def overlooked(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether handlers make the way worse for some of what is compared alone."""
    if results.plan.runner != "mesh":
        return False
    return bool(_apart(results, cells, metric))


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    if results.plan.runner != "mesh":
        return ""
    told: dict[str, None] = {}
    for group in alongside(results, cells):
        for (name, n), (there, passing) in _apart(results, group, metric).items():
            seen = f"in {first(there, MOST)}, and not in {first(passing, MOST)}"
            told[f"{name} sees the packets of flow {n} {seen}"] = None
    if not told:
        return ""
    return (
        "Handlers are for packets of one IP protocol, and what is compared is of several: "
        f"{'; '.join(list(told)[:MOST])}. There is neither colour nor bold; without `protocol` "
        "a handler is for all."
    )
