"""Protocols that live on radios where nodes have none: what these do not know or hear there."""

from __future__ import annotations

from wifu.cells import Cell, listed_flows
from wifu.outlets import data_ends, on_air
from wifu.plan import Plan
from wifu.stacks import Stack, stacks
from wifu.stamps import first

ASSUMED = {"ap05": "24 Mb/s", "ap11": "11 Mb/s"}
"""What gates of TCP-AP take a link for whose data rate nobody tells."""

OVERHEARING = ("hxh-source",)
"""Parts whose nodes learn what the next one did by overhearing it."""


def warnings(plan: Plan) -> list[str]:
    """Where a plan has such protocols begin at nodes without a radio, or on radios whose data rate
    no driver tells.
    """
    if plan.runner != "mesh" or plan.substrate == "live":  # where nobody knows what hosts have
        return []
    rates: dict[str, set[str]] = {}
    deaf: dict[str, set[str]] = {}
    for cell in plan.cells:
        for stack, flow, node in _begins(plan, cell):
            lacks = plan.substrate == "emu" or not on_air(cell.scenario, node)
            name = stack.words.partition(",")[0]
            for part, rate in ASSUMED.items():
                if lacks and part in _parts(stack) and stack.value("bandwidth") == "auto":
                    rates.setdefault(f"{name} takes its links for {rate}", set()).add(flow)
            if not on_air(cell.scenario, node) and set(OVERHEARING) & _parts(stack):
                deaf.setdefault(name, set()).add(flow)
    why = "no driver tells the rate of emulated links" if plan.substrate == "emu" else ""
    why = why or "it begins at a node without a radio, which knows nothing of those on the way"
    told = [
        f"{words} ({first(sorted(flows), 4)}), as {why}: `bandwidth` says it."
        for words, flows in rates.items()
    ]
    told += [
        f"{name} begins at a node without a radio ({first(sorted(flows), 4)}): nothing is "
        "overheard over a wire, and a node sends one packet for each wait there, which holds up "
        "all of the way."
        for name, flows in deaf.items()
    ]
    return told


def _begins(plan: Plan, cell: Cell) -> list[tuple[Stack, str, str]]:
    """The protocols of a cell's flows, with what the flow is called and where its data begins."""
    flows = listed_flows(cell.scenario)
    return [
        (stack, f"flow {n}", data_ends(flow)[0])
        for (n, flow), stack in zip(flows, stacks(plan.runner, cell), strict=False)
        if stack is not None and not stack.kernel
    ]


def _parts(stack: Stack) -> set[str]:
    return {part for own in stack.parts.values() for part in own.split(", ")}
