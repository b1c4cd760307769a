"""Figures that a plan asks for and its runs cannot fill: what they are made of, such as series,
cannot be had once the runs are over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from wifu.cells import Cell, listed_flows
from wifu.program import libraries
from wifu.runner import split
from wifu.stacks import stacks
from wifu.values import Value, seconds


class Asking(Protocol):
    """A plan, as far as it matters here."""

    @property
    def runner(self) -> str:
        """What its runs are done by."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """What is run."""

    @property
    def max_runs(self) -> int:
        """How often at most."""

    @property
    def series_runs(self) -> frozenset[int]:
        """The runs whose series are kept."""

    @property
    def figures(self) -> tuple[Mapping[str, Any], ...]:
        """What it wants drawn."""

    def scenario_of(self, cell: Cell, run: int) -> dict[str, Value]:
        """The scenario of one replicate."""


LANE = "hop-queue"
"""The part of lanes that hands packets down one by one, and counts them."""

SOURCE = "hxh-source"
"""The part of sources whose nodes have such lanes."""

OVER_TIME = ("timeseries", "sequence", "latency", "trips", "rates")
"""Kinds that are drawn from series."""


def undrawn(plan: Asking) -> list[tuple[str, str]]:
    """What no run of a plan will have though it asks for it: a key of the plan, and why."""
    out, runs = [], plan.max_runs
    if plan.series_runs and min(plan.series_runs) > runs:
        out.append(
            ("series.runs", f"no run has series: runs of a cell are numbered from 1 to {runs}")
        )
    for n, spec in enumerate(plan.figures, 1):
        if (found := _lack(plan, spec)) is not None:
            out.append((f"figure.{n}.{found[0]}", found[1]))
    return out


def warnings(plan: Asking) -> list[str]:
    """The same, as sentences for who changed a plan."""
    return [f"not drawn: {key}: {why}" for key, why in undrawn(plan)]


def _lack(plan: Asking, spec: Mapping[str, Any]) -> tuple[str, str] | None:
    """The key of a figure that asks for what is not there, and why."""
    kind, runs = spec["kind"], plan.max_runs
    whole = kind == "latency" and spec.get("as") == "cdf"
    run = None if whole else spec.get("run")
    if run is not None and run > runs:
        return "run", f"there is no run {run}: runs of a cell are numbered from 1 to {runs}"
    # The wired network's segments are in each of its outcomes.
    if kind not in OVER_TIME or (kind == "sequence" and plan.runner == "mock"):
        return None
    if kind in ("trips", "rates") and plan.runner == "mesh" and _laneless(plan):
        return "kind", f"{kind} is of what HxH's lanes hand down, and no flow here has such a lane"
    more = ', record = ["delay"]' if kind == "latency" else ""
    wanted = f"series = {{ runs = [{run or 1}]{more} }}"
    having = sorted(k for k in plan.series_runs if k <= runs)
    if not having:
        return "kind", f"{kind} needs series, which no run here has: write {wanted}"
    if run is not None and run not in having:
        of = f"run{'s' * (len(having) > 1)} {', '.join(map(str, having))}"
        return "run", f"run {run} has no series, only {of}: name it in series.runs"
    if kind == "latency" and plan.runner == "mesh" and not _delays(plan, having[0]):
        return "kind", f"latency needs the delays of datagrams: write {wanted}"
    if plan.runner == "mesh" and (names := _counts(plan, spec, having[0])):
        record = ", ".join(f'"{name}"' for name in names)
        of = f"series = {{ runs = [{run or 1}], record = [{record}] }}"
        return "kind", f"{kind} needs what a lane hands down: write {of}"
    last = _end(plan)
    if "from" in spec and last is not None and seconds(spec["from"]) >= last:
        return "from", f"runs end at {last:g} s at the latest (scenario.stop.time)"
    return None


def _delays(plan: Asking, run: int) -> bool:
    """Whether delays are recorded anywhere."""
    return any(name.endswith(".delay") for cell in plan.cells for name in _named(plan, cell, run))


def _named(plan: Asking, cell: Cell, run: int) -> list[str]:
    """The series that a run records by name."""
    named = plan.scenario_of(cell, run).get("record", {}).get("series")
    return [str(name) for name in named] if isinstance(named, list) else []


def _laneless(plan: Asking) -> bool:
    """Whether it is known of all flows that no node has a lane for them which hands packets down
    one by one.
    """
    if libraries():
        return False  # whose compositions may have any lane
    for cell in plan.cells:
        found = stacks(plan.runner, cell)
        if split(cell.scenario)[1] or len(found) != len(flows := listed_flows(cell.scenario)):
            return False  # a composition of the plan's own may have any lane
        for (_, flow), stack in zip(flows, found, strict=True):
            if stack is None and flow.get("protocol") != "udp":
                return False  # it means nothing, which is told elsewhere
            if stack is not None and stack.parts.get("reliable") == SOURCE:
                return False
            if "reliable=" in str(flow.get("protocol")):
                return False  # a source of its own may be of any lane
    return True


def _counts(plan: Asking, spec: Mapping[str, Any], run: int) -> list[str]:
    """What a figure of lanes needs to be recorded, if that is recorded in no cell."""
    if spec["kind"] == "rates":
        wanted = [f"{node}.{LANE}.sent" for node in spec["nodes"]]
    elif spec["kind"] == "trips":
        flows = [flow for _, flow in listed_flows(plan.scenario_of(plan.cells[0], run))]
        asked = flows[min(int(spec.get("flow", 1)), len(flows)) - 1] if flows else {}
        if (source := asked.get("from")) is None:
            return []  # that it begins nowhere is told where scenarios are looked at
        # The source may be another one in other cells.
        there = (name for cell in plan.cells for name in _named(plan, cell, run))
        if any(name.endswith(f".{LANE}.sent") for name in there):
            return []
        wanted = [f"{source}.{LANE}.sent", "rtt_samples"]
    else:
        return []
    for cell in plan.cells:
        names = _named(plan, cell, run)
        if all(any(name.endswith(f".{end}") for name in names) for end in wanted):
            return []
    return wanted


def _end(plan: Asking) -> float | None:
    """When the last run ends, if all cells say so."""
    stops = [c.scenario.get("stop") for c in plan.cells]
    times = [s.get("time") if isinstance(s, dict) else None for s in stops]
    return max((seconds(t) for t in times if t is not None), default=0.0) if all(times) else None
