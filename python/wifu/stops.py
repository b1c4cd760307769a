"""What ends flows and runs: bytes of their own, a time of their own, the run's `stop.time`, a count
of its `stop`, or that all others were over. Only of what a clock ended is a longer one of use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wifu import values
from wifu.asked import ASKING
from wifu.cells import Cell, listed_flows

WHOLE = 0.99
"""What lasted for such a share of its `stop.time` ended by it: clocks of hosts are not exact."""

FLOWING = ("bulk", "stream")
"""Applications that write as long as they may, unless a number of bytes ends them."""

COUNTS = ("packets", "requests")
"""Keys of a `stop` that end a run as soon as so many were delivered, or answered."""

CUT = {
    "stop": "by the clock",
    "time": "by the clock",
    "stop_at": "by the clock",
    "packets": "by `stop.packets`",
    "requests": "by `stop.requests`",
    "others": "by the end of others",
}
"""What cut flows off, in words, by what `reasons` finds."""

LONGER = {
    "stop": "a longer `stop.time`",
    "time": "a longer `time`",
    "stop_at": "a later `stop_at`",
    "packets": "a higher `stop.packets`",
    "requests": "a higher `stop.requests`",
    "others": "a flow with `time` that outlasts the others",
}
"""What has them last longer."""


def timed(flow: Mapping[str, Any]) -> bool:
    """Whether a flow writes as long as it may, and a time of its own ends that."""
    flowing = flow.get("app", "bulk") in FLOWING and not flow.get("bytes")
    return flowing and bool(flow.get("time") or flow.get("stop_at"))


def by_bytes(flow: Mapping[str, Any]) -> bool:
    """Whether the scenario tells how much one transfer of a flow's has, after which it is over."""
    asks = flow.get("app") in ASKING
    return flow.get("app") in ("file", "trace") or (asks and flow.get("count") == 1)


def limits(cells: Sequence[Cell]) -> dict[str, float]:
    """When runs of cells are over at the latest, in seconds, as far as the scenario says."""
    stops = {c.name: _stop(c).get("time") for c in cells}
    return {name: np.inf if at is None else values.seconds(at) for name, at in stops.items()}


def _stop(cell: Cell) -> Mapping[str, Any]:
    found = cell.scenario.get("stop")
    return found if isinstance(found, dict) else {}


def reasons(rows: pd.DataFrame, cells: Sequence[Cell]) -> pd.Series[str]:
    """What ended each of these flows, or their runs before they were done: a key of `CUT`; nothing
    of connections that failed.
    """
    flows = {(c.name, n): flow for c in cells for n, flow in listed_flows(c.scenario)}
    counts = {c.name: _otherwise(c) for c in cells}
    ends = limits(cells)

    def reason(cell: str, number: int, finished: Any, end: float, fault: Any) -> str:
        flow = flows.get((cell, number), {})
        if finished is True and timed(flow):
            return _clock(flow)
        if isinstance(fault, str):
            return ""
        return "stop" if end >= WHOLE * ends.get(cell, np.inf) else counts.get(cell, "others")

    faults = rows["fault"] if "fault" in rows else pd.Series(None, rows.index, dtype=object)
    columns = (rows["cell"], rows["flow"], rows["finished"].eq(True), rows["sim_seconds"], faults)
    found = [reason(str(c), int(n), bool(f), e, w) for c, n, f, e, w in zip(*columns, strict=True)]
    return pd.Series(found, rows.index, dtype=object)


def _clock(flow: Mapping[str, Any]) -> str:
    """Which of the times of its own ends a flow that has one."""
    if not flow.get("time") or not flow.get("stop_at"):
        return "time" if flow.get("time") else "stop_at"
    last = values.seconds(flow.get("start", 0)) + values.seconds(flow["time"])
    return "time" if last < values.seconds(flow["stop_at"]) else "stop_at"


def _otherwise(cell: Cell) -> str:
    """What ends runs of a cell before their `stop.time`; the wired network's end by `time`."""
    others = "others" if "flow" in cell.scenario else "time"
    return next((key for key in COUNTS if key in _stop(cell)), others)


def counted(rows: pd.DataFrame, cells: Sequence[Cell]) -> pd.Series[bool]:
    """Which of these flows had as much by the end as a count of the `stop` wants, which makes files
    of them: `packets` of a flow alone, and `requests` of those that ask.
    """
    if not any(key in _stop(c) for c in cells for key in COUNTS):
        return pd.Series(False, rows.index, dtype=bool)
    ends = reasons(rows, cells)
    every = {c.name: dict(listed_flows(c.scenario)) for c in cells}
    alone = {name for name, flows in every.items() if len(flows) == 1}
    asking = {(c, n) for c, flows in every.items() for n, f in flows.items() if _asks(f)}
    keys = zip(rows["cell"], rows["flow"], strict=True)
    of = pd.Series([(str(cell), int(n)) in asking for cell, n in keys], rows.index, dtype=bool)
    return (ends.eq("packets") & rows["cell"].isin(alone)) | (ends.eq("requests") & of)


def _asks(flow: Mapping[str, Any]) -> bool:
    return flow.get("app") in ASKING


def cut(rows: pd.DataFrame, cells: Sequence[Cell]) -> str:
    """What cut these flows off, in words."""
    return " or ".join(dict.fromkeys(CUT[key] for key in _kinds(rows, cells)))


def longer(rows: pd.DataFrame, cells: Sequence[Cell]) -> tuple[str, ...]:
    """What has these flows last longer, in words."""
    return tuple(LONGER[key] for key in _kinds(rows, cells))


def _kinds(rows: pd.DataFrame, cells: Sequence[Cell]) -> list[str]:
    found = set(reasons(rows, cells))
    return [key for key in LONGER if key in found] or ["stop"]
