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


REAL = ("emu", "live")

NEVER = {
    "loss": (
        REAL,
        "the simulator alone counts what becomes of each packet; of datagrams `sent_bytes` and "
        "`bytes` of results.parquet tell what was sent and what arrived, and what was on its way "
        "at the end did not",
    ),
    "passive_loss": (REAL, "nobody counts packets there hop by hop"),
    "mac_loss": (("live",), "wires have no MAC that tries again"),
    "mac_retries": (("live",), "wires have no MAC that tries again"),
    "withdrawals": (REAL, "no routing protocol runs there (`routing.olsr` is of sim only)"),
    "overflows": (
        ("sim",), "WiFu Core, whose buffers are counted, runs in daemons, on emu and live"
    ),
}  # fmt: skip
"""Metrics that no run on these substrates has a value of, and why."""


class Asking(Protocol):
    """A plan, as far as it matters here."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """What it wants to know."""

    @property
    def until(self) -> Any:
        """What its runs end by once it is known, with its `metric`."""

    @property
    def substrate(self) -> str:
        """Where it is run."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """What is run."""


def why(cells: Sequence[Cell], substrate: str, metric: str) -> str:
    """Why a metric has no value in any of these cells on a substrate; nothing where it may have."""
    base, only = parts(metric)
    places, never = NEVER.get(base, ((), ""))
    if substrate in places:
        return f"there is no value on {substrate}: {never}"
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
    wanted = [*plan.metrics, *([plan.until.metric] if plan.until else [])]
    told = [(one, why(plan.cells, plan.substrate, one)) for one in dict.fromkeys(wanted)]
    return [f"{metric}: {words}." for metric, words in told if words]
