"""What scenarios of a plan have that is easily taken for something else, as the simulator tells."""

from __future__ import annotations

from wifu.plan import Plan
from wifu.runner import advice
from wifu.stamps import first

MOST = 4
"""Cells that are named."""


def warnings(plan: Plan) -> list[str]:
    """Each once, with the cells that it is of, if it is not of all."""
    if plan.runner != "mesh":
        return []
    found: dict[str, list[str]] = {}
    for cell in plan.cells:
        for told in advice(cell.scenario):
            found.setdefault(told, []).append(cell.name)
    return [
        f"{told}{'' if len(names) == len(plan.cells) else f' ({first(names, MOST)})'}."
        for told, names in found.items()
    ]
