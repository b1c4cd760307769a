"""Flows of datagrams without a rate, which keep their node's radio supplied: where its queue is
short nothing else that begins or ends there ever finds a place in it, not even a SYN or its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from wifu import outlets, values
from wifu.cells import Cell, listed_flows
from wifu.outlets import Outlet, Scenario
from wifu.plan import Plan
from wifu.rows import Results, numbered

LOAD = 32
"""Packets that such a flow keeps at its radio, in its queue and its ring (`LOAD` of the
simulator). Where more find room others do, too; in front of wires they always do.
"""

FASTEST = 54e6
"""No radio of the simulator sends more bits a second: datagrams of so many bytes take longer."""

LASTS = 1.0
"""Seconds that a flow has to go on beside another: one that is over sooner only delays it."""

DROPPING = ("red", "step")
"""Disciplines that may keep a queue shorter than it is. Others look at how long packets wait, and
drop what leaves: measured, they leave no more room than none.
"""

Flow = Mapping[str, Any]


def floods(flow: Flow) -> bool:
    """Whether a flow of a scenario sends datagrams as fast as there is room."""
    return flow.get("protocol") == "udp" and "rate" not in flow


def over(flow: Flow) -> float:
    """When a flow stops sending, as far as the scenario says it: of a flood of so many bytes, when
    it is over at the soonest.
    """
    start = values.seconds(flow.get("start", 0))
    ends = [start + values.seconds(flow["time"])] if "time" in flow else []
    ends += [values.seconds(flow["stop_at"])] if "stop_at" in flow else []
    if floods(flow) and "bytes" in flow:
        ends += [start + 8 * values.octets(flow["bytes"]) / FASTEST]
    return min(ends, default=float("inf"))


def beside(scenario: Scenario) -> dict[int, list[int]]:
    """Flows over connections that begin or end at the node of one that floods its radio, while that
    sends: by their numbers those of the floods.
    """
    every = listed_flows(scenario)
    flooding = [(k, flow) for k, flow in every if floods(flow)]
    found: dict[int, list[int]] = {}
    for n, flow in every:
        if flow.get("protocol") == "udp":
            continue
        met = [(k, other) for k, other in flooding if _meets(flow, other)]
        for begin, end in (("from", "to"), ("to", "from")):
            own = [(k, f) for k, f in met if f.get("from") == flow.get(begin)]
            at = _outlet(scenario, flow, begin, end) if own else None
            own = [(k, f) for k, f in own if _outlet(scenario, f, "from", "to") == at]
            if at and own and _full(scenario, at, len(own)):
                found[n] = sorted({*found.get(n, []), *(k for k, _ in own)})
    return found


def _meets(flow: Flow, flood: Flow) -> bool:
    """Whether a flow may begin while another floods, and that goes on: one that has a connection
    before that has sent its SYN.
    """
    start = values.seconds(flow.get("start", 0))
    latest = start + values.seconds(flow.get("jitter", 0))
    begin = values.seconds(flood.get("start", 0))
    return begin <= latest and begin < over(flow) and over(flood) - max(start, begin) >= LASTS


def _outlet(scenario: Scenario, flow: Flow, begin: str, end: str) -> Outlet | None:
    return outlets.outlet(scenario, str(flow.get(begin)), str(flow.get(end)))


def _full(scenario: Scenario, at: Outlet, floods: int) -> bool:
    """Whether so many floods leave no room in a queue."""
    kind = outlets.discipline(scenario, at.node)
    return not at.toward and at.holds <= LOAD * floods and kind not in DROPPING


def warnings(plan: Plan) -> Iterator[str]:
    """What is told of a plan before it is run: of the first cell where it is so."""
    if plan.runner != "mesh" or plan.substrate != "sim":
        return
    for cell in plan.cells:
        if found := beside(cell.scenario):
            own = {n for at in found.values() for n in at}
            verb = "have" if len(own) > 1 else "has"
            yield (
                f"{numbered(own).capitalize()} of udp {verb} no rate (cell {cell.name}): datagrams "
                "keep the queue of their node full, which is short, and others that begin or end "
                f"there ({numbered(found)}) may find no place in it meanwhile, not even for a SYN "
                "or its answer. With a `rate` below what the path carries they do, and where "
                f"`radio.queue` and `radio.ring` together are more than {LOAD} for each such flow."
            )
            return


def kept_out(results: Results, cells: Sequence[Cell], missing: pd.DataFrame) -> str:
    """What stands beside the count of flows that never connected, if some of these `missing` ones
    were kept out of the queue of a node that another floods.
    """
    if results.plan.runner != "mesh" or results.plan.substrate != "sim":
        return ""
    by = {cell.name: found for cell in cells if (found := beside(cell.scenario))}
    keys = zip(missing["cell"], missing["run"], missing["flow"], strict=True)
    own, count = set[int](), 0
    for cell, run, flow in keys:
        if int(flow) in by.get(cell, {}):
            at = _shown(results.outcome(cell, int(run)), int(flow), by[cell])
            own, count = own | set(at), count + bool(at)
    return f" {count} of them began or ended {_where(own)}." if count else ""


def _shown(outcome: Mapping[str, Any], flow: int, by: Mapping[int, list[int]]) -> list[int]:
    """The floods that kept out a flow without a connection, as its outcome shows it: an end at
    their node sent nothing though it was to, or what it sent was refused there.
    """
    told = {f["id"]: f for f in outcome.get("flows") or []}
    one = told.get(flow) or {}
    begun = float(one.get("start_s") or 0.0) < float(outcome["sim_seconds"])
    if one.get("connected_s") is not None or one.get("bytes") or not begun:
        return []
    found = []
    for flood in by.get(flow, ()):
        node = (told.get(flood) or {}).get("from")
        own = [h for h in outcome.get("hops") or [] if (h["flow"], h["from"]) == (flow, node)]
        sent = sum(h["packets"] + (h.get("lost") or 0) for h in own)
        packets = one.get("packets") or {}
        asked = packets.get("delivered") if one.get("to") == node else not packets.get("sent")
        if not sent and (asked or any(h.get("queue_drops") for h in own)):
            found.append(flood)
    return found


def _where(own: Iterable[int]) -> str:
    verb = "keep" if len(own := set(own)) > 1 else "keeps"
    return (
        f"at the node of {numbered(own)}, udp without a `rate`, which {verb} its short queue full: "
        "no SYN, or no answer to one, found a place there"
    )


def words(outcome: Mapping[str, Any], scenario: Scenario) -> str:
    """The same of one run, beside why its attempts failed."""
    by = beside(scenario)
    told = {n: at for n in by if (at := _shown(outcome, n, by))}
    if not told:
        return ""
    own = {k for at in told.values() for k in at}
    named = numbered(told).capitalize()
    return f" {named} never connected, and began or ended {_where(own)}."
