"""Which of several complaints about a plan's scenarios is the cause of the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from wifu.cells import Cell
from wifu.errors import PlanError
from wifu.plan import Plan

RANGE = re.compile(r'string "(\d+)(-|\.\.\.?)(\d*)"')
"""What is no number, and may be meant for several."""


def cause(
    plan: Plan, cell: Cell, message: str, check: Callable[[dict[str, Any]], object]
) -> PlanError:
    """The error of a plan of which `check` refused a cell's scenario with this message.

    That no flow has a quantity which is to be recorded may be since another cell's protocol, whose
    it is, is known to nobody: then that is told.
    """
    if message.startswith("record."):
        for other in plan.cells:
            scenario = {k: v for k, v in plan.scenario_of(other, 1).items() if k != "record"}
            try:
                check(scenario)
            except ValueError as e:
                return plan.scenario_error(other, str(e))
    if found := RANGE.search(message):
        low, _, high = found.groups()
        whole = f"{low}..{high or 'HIGHEST'}"
        message += f": a range is written {whole}, or {whole}..STEP"
    return plan.scenario_error(cell, message)
