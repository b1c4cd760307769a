"""What an outcome says held the sender of a flow, besides its congestion control."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENDS: Mapping[str, tuple[str, str]] = {
    "peer": (
        "the receiver's window",
        "a larger `rcv_wnd`, where a protocol does not keep it small on purpose",
    ),
    "buffer": ("the send buffer", "a larger `snd_buf`"),
    "source": ("an application that wrote no more", "an application without a rate"),
    "drain": ("the last acknowledgements, all being sent", "longer transfers"),
}
"""Limits that the scenario sets whatever the path, each with what takes it away."""

LOCAL: Mapping[str, tuple[str, str]] = {
    "queue": (
        "room in their own node's queue, which loses nothing of theirs",
        "a narrow link that is a hop further on",
    ),
    "host": ("their host's time for each packet", "no `host.profile`"),
}
"""... and those of the sender's own node."""

LIMITS = {**ENDS, **LOCAL}


def columns(flow: Mapping[str, Any]) -> dict[str, float | None]:
    """What `results.parquet` has of what held a flow's sender, in seconds: each of these limits,
    and all of the time in which its connections were open.
    """
    told: Mapping[str, float] = flow.get("limited_s") or {}
    known = bool(told)
    out = {column(name): float(told.get(name, 0.0)) if known else None for name in LIMITS}
    return out | {"open_s": sum(told.values()) if known else None}


def column(name: str) -> str:
    """What the column of a limit is called."""
    return f"limited_{name}_s"
