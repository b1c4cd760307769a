"""Flows of datagrams without a rate, which keep their node's queue from running empty: where it is
short nothing else that begins there ever finds a place in it, not even a SYN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from wifu import values
from wifu.cells import Cell
from wifu.plan import Plan
from wifu.stamps import first
from wifu.values import Value

MOST = 4
"""So many flows are named."""

Flow = Mapping[str, Any]


def floods(flow: Flow) -> bool:
    """Whether a flow of a scenario sends datagrams as fast as there is room."""
    return flow.get("protocol") == "udp" and "rate" not in flow


def flows(scenario: Mapping[str, Value]) -> list[tuple[int, Flow]]:
    """The flows of a scenario, with their numbers."""
    given = scenario.get("flow")
    listed = given if isinstance(given, list) else []
    return [(n, flow) for n, flow in enumerate(listed, 1) if isinstance(flow, dict)]


def over(flow: Flow) -> float:
    """When a flow stops sending, as far as the scenario says it."""
    start = values.seconds(flow.get("start", 0))
    ends = [start + values.seconds(flow["time"])] if "time" in flow else []
    ends += [values.seconds(flow["stop_at"])] if "stop_at" in flow else []
    return min(ends, default=float("inf"))


def beside(scenario: Mapping[str, Value]) -> dict[int, list[int]]:
    """Flows of a scenario that begin at the node of one that floods it, while that sends: by their
    numbers those of the floods.
    """
    every = flows(scenario)
    found: dict[int, list[int]] = {}
    for n, flow in every:
        start = values.seconds(flow.get("start", 0))
        at = [
            k
            for k, other in every
            if k != n and floods(other) and other.get("from") == flow.get("from")
            if start < over(other)
        ]
        if at:
            found[n] = at
    return found


def _named(what: str, numbers: Sequence[int]) -> str:
    return f"{what}{'s' if len(numbers) > 1 else ''} {first([str(n) for n in numbers], MOST)}"


def warnings(plan: Plan) -> Iterator[str]:
    """What is told of a plan before it is run: of the first cell where it is so."""
    if plan.runner != "mesh" or plan.substrate != "sim":
        return
    for cell in plan.cells:
        if found := beside(cell.scenario):
            own = sorted({n for at in found.values() for n in at})
            verb = "have" if len(own) > 1 else "has"
            yield (
                f"{_named('Flow', own)} of udp {verb} no rate (cell {cell.name}): datagrams keep "
                "the queue of their node full, where other flows that begin there "
                f"({first([str(n) for n in found], MOST)}) may never find a place, not even for "
                "their SYN. With a `rate` below what the path carries they do."
            )
            return


def kept_out(cells: Sequence[Cell], missing: pd.DataFrame) -> str:
    """What stands beside the count of flows that never connected, if some of these `missing` ones
    begin where another floods.
    """
    by = {cell.name: beside(cell.scenario) for cell in cells}
    keys = zip(missing["cell"], missing["flow"], strict=True)
    found = [(int(n), by[cell][int(n)]) for cell, n in keys if int(n) in by[cell]]
    if not found:
        return ""
    own = sorted({n for _, at in found for n in at})
    return f" {len(found)} of them begin {_where(own)}."


def _where(own: Sequence[int]) -> str:
    verb = "keep" if len(own) > 1 else "keeps"
    return (
        f"at the node of {_named('flow', own)}, udp without a `rate`, which {verb} its queue full: "
        "that is why they may never have sent a SYN"
    )


def words(outcome: Mapping[str, Any], scenario: Mapping[str, Value]) -> str:
    """The same of one run, beside why its attempts failed."""
    by = beside(scenario)
    flows = [f for f in outcome.get("flows") or [] if f.get("protocol") != "udp"]
    dark = [int(f["id"]) for f in flows if f.get("connected_s") is None and not f.get("bytes")]
    told = [n for n in dark if n in by]
    if not told:
        return ""
    own = sorted({k for n in told for k in by[n]})
    return f" {_named('Flow', told)} never connected, and began {_where(own)}."
