"""Metrics that no run of a plan can have: nothing in it comes to an end, or nobody counts there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from wifu.asked import ASKING
from wifu.cells import Cell
from wifu.endless import endless
from wifu.metrics import parts
from wifu.rows import flows_of

DOWNLOADS = ("delay", "delay_median", "delay_p95", "delay_p99", "known")
"""What is of transfers that finish."""


class Asking(Protocol):
    """A plan, as far as it matters here."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """What it wants to know."""

    @property
    def substrate(self) -> str:
        """Where it is run."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """What is run."""


def why(cells: Sequence[Cell], substrate: str, metric: str) -> str:
    """Why a metric has no value in any of these cells on a substrate; nothing where it may have."""
    base, only = parts(metric)
    if base == "loss" and substrate != "sim":
        return (
            f"there is no value on {substrate}: the simulator alone counts what becomes of each "
            "packet (`mac_loss` is of frames; delays of datagrams say how many did not arrive)"
        )
    if base not in DOWNLOADS:
        return ""
    flows = [flow for cell in cells for n, flow in flows_of(cell) if only in (None, n)]
    carried: list[Any] = [flow for flow in flows if flow.get("protocol") != "udp"]
    if not carried or any(flow.get("app") in ASKING or not endless(flow) for flow in carried):
        return ""
    return (
        "there is no value: no flow that it is of comes to an end by itself, and `bytes` or "
        '`app = "request"` would give it one'
    )


def warnings(plan: Asking) -> list[str]:
    """What is to be said of the metrics of a plan before its runs."""
    told = [(metric, why(plan.cells, plan.substrate, metric)) for metric in plan.metrics]
    return [f"{metric}: {words}." for metric, words in told if words]
