"""Marks of queues (RFC 3168): what senders who ask for them do is seen where there are any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wifu.cells import Cell
from wifu.rows import Results
from wifu.stacks import stacks
from wifu.stamps import first

MARKLESS = (
    "null",
    "logger",
    "drop",
    "delay",
    "delay-collector",
    "link-notice",
    "tpa-shim",
    "snoop",
)
"""Handlers that mark no packet; those of one's own may."""

MOST = 4
"""Cells that are named."""


def columns(outcome: Mapping[str, Any]) -> dict[str, int]:
    """What the table of runs has of marks: how many packets queues marked, in the simulator."""
    if "trace_hash" not in outcome:
        return {}
    queues = [node.get("queue") or {} for node in outcome.get("nodes") or []]
    return {"marked": sum(int(queue.get("marked") or 0) for queue in queues)}


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Cells whose transports ask for marks and saw none in any run."""
    del metric
    runs = results.runs
    if results.plan.runner != "mesh" or "marked" not in runs:
        return ""
    most = runs[runs["status"].eq("ok")].groupby("cell")["marked"].max().dropna()
    found = [c for c in cells if c.name in most.index and _asks(c)]
    silent = [c.name for c in found if not most[c.name] and not _handled(c)]
    if not silent:
        return ""
    return (
        f"Transports ask for marks (ecn=on) in {first(silent, MOST)}, and no queue marked a packet "
        "there: what ECN does, and a congestion control that lives on it, was not seen. Queues "
        "mark where they have a discipline (`host.queue`) and their packets wait in it."
    )


def _handled(cell: Cell) -> bool:
    """Whether a handler may mark packets, which no queue counts."""
    return any(handler.get("use") not in MARKLESS for handler in cell.scenario.get("handler") or [])


def _asks(cell: Cell) -> bool:
    return any(s is not None and s.value("ecn") == "on" for s in stacks("mesh", cell))
