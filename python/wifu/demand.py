"""Numbers that are of what flows wanted, or of when receivers answered, not of what was carried."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from wifu import values
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.metrics import parts
from wifu.rows import RATES, Results, alongside, flows_of, numbered, rows_of
from wifu.stacks import Stack, stacks
from wifu.stamps import first

SHARES = ("jain", "unfairness", "utility", "lowest", "weakest")
"""Metrics of how flows share."""

PACED = ("http", "request", "onoff", "trace")
"""Applications that pause, whatever the path would carry."""

MOST = 4
"""Cells that are named."""

ALIKE = 0.01
"""Shares of datagrams that are no further apart are the same."""


def _paced(flow: Mapping[str, Any]) -> bool:
    return flow.get("app") in PACED or "rate" in flow


def _content(cells: Sequence[Cell], metric: str) -> list[int]:
    """Flows that pause or have a rate, where others beside them ask for something else."""
    if parts(metric)[0] not in SHARES:
        return []
    found: set[int] = set()
    for cell in cells:
        flows = dict(flows_of(cell))
        over = {n: flow for n, flow in flows.items() if flow.get("protocol") != "udp"}
        own = over or flows
        if len({_demand(flow) for flow in own.values()}) > 1:
            found |= {n for n, flow in own.items() if _paced(flow)}
    return sorted(found)


ELSEWHERE = ("from", "to", "protocol", "start", "jitter", "stop_at", "time", "bytes", "size")
"""Keys of a flow that say where it is, when, and for how long: not what it asks for meanwhile."""


def _demand(flow: Mapping[str, Any]) -> str:
    """What a flow asks for, wherever and whenever."""
    told: dict[str, Any] = {k: v for k, v in flow.items() if k not in ELSEWHERE}
    told["app"] = flow.get("app", "bulk")
    with suppress(LabError):  # one rate may be written in two ways
        told["rate"] = values.rate(flow["rate"]) if "rate" in flow else None
    return json.dumps(told, sort_keys=True, default=str)


def content(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether shares are among flows of which some want no more than they get."""
    return bool(_content(cells, metric))


def wants(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    if not (flows := _content(cells, metric)):
        return ""
    whose = numbered(flows)
    return (
        f"{whose[0].upper()}{whose[1:]} {'pauses' if len(flows) == 1 else 'pause'} by the "
        "application, or by a rate, and may have all that is asked for: beside flows that ask for "
        "something else a share is what one wanted, and that of the others grows less fair the "
        "faster they are. There is neither colour nor bold."
    )


def _arrived(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether a flow of datagrams has as much of what it sent in all of these cells."""
    base, only = parts(metric)
    if base not in RATES or only is None or "sent_bytes" not in results.flows:
        return False
    rows = rows_of(results, cells)
    rows = rows[rows["flow"].eq(only) & rows["flow_protocol"].eq("udp") & (rows["sent_bytes"] > 0)]
    by = rows.groupby("cell")[["bytes", "sent_bytes"]].sum(min_count=1)
    shares = by["bytes"] / by["sent_bytes"]
    alike = len(shares) == len(cells) > 1 and 0 < shares.max() <= (1 + ALIKE) * shares.min()
    return bool(alike and by["sent_bytes"].max() <= (1 + ALIKE) * by["sent_bytes"].min())


def late(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether goodput of datagrams, as many of which arrived, is by when the last one did."""
    return _arrived(results, cells, metric)


def lateness(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    if not any(_arrived(results, group, metric) for group in alongside(results, cells)):
        return ""
    return (
        "As many of these datagrams were sent and arrived in compared cells, to within "
        f"{ALIKE:.0%}: their goodput differs by when the last one arrived, which is its delay, "
        "and by the rest that was still under way. There is neither colour nor bold; `loss@N` and "
        "`one_way_p*` say what became of them."
    )


def _policy(stack: Stack) -> str:
    """How a receiver acknowledges. Who does for each segment waits for no timer."""
    value = stack.values.get
    keys = ["ack_every", "ack_delay"] if value("ack.ack_every") != "1" else ["ack_every"]
    told = [f"{key} {value(f'ack.{key}')}" for key in keys if value(f"ack.{key}") is not None]
    return ", ".join([stack.parts["ack"], *told])


def _policies(results: Results, cells: Sequence[Cell], metric: str) -> dict[str, str]:
    """How receivers of a metric's flows acknowledge, by cell, of round-trip times: which share of
    the flows each way, as means know nothing of their order.
    """
    base, only = parts(metric)
    if base != "srtt" and not base.startswith("rtt_p"):
        return {}
    if results.plan.runner == "mock":
        only = None  # all of its flows have one protocol
    out: dict[str, str] = {}
    for cell in cells:
        every = enumerate(stacks(results.plan.runner, cell), 1)
        own = [stack for n, stack in every if stack is not None and only in (None, n)]
        # How others time round trips is told in `ways`.
        told = Counter(_policy(s) for s in own if s.wire == "tcp" and "ack" in s.parts)
        if len(told) == 1:
            out[cell.name] = next(iter(told))
        elif told:
            found, whole = sorted(told.items()), told.total()
            shares = [f"{policy} ({n / whole:.0%} of the flows)" for policy, n in found]
            out[cell.name] = "; ".join(shares)
    return out


def held(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether receivers of what is compared hold acknowledgements back unlike each other."""
    return len(set(_policies(results, cells, metric).values())) > 1


def holds(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    groups = [g for g in alongside(results, cells) if held(results, g, metric)]
    if not groups:
        return ""
    by: dict[str, list[str]] = {}
    for cell, policy in _policies(results, groups[0], metric).items():
        by.setdefault(policy, []).append(cell)
    told = "; ".join(f"{first(names, MOST)}: {policy}" for policy, names in by.items())
    return (
        "Receivers do not acknowledge alike, and how long they hold an acknowledgement back is in "
        f"round-trip times ({told}): they are no delays of the path. There is neither colour nor "
        "bold; probes of datagrams compare (`one_way_p*`)."
    )
