"""The runner that a plan names, on its substrate: simulator, emulation, or machines."""

from __future__ import annotations

from wifu.emulated import Emulated
from wifu.live import Live
from wifu.plan import Plan
from wifu.runner import Mock, Runner, Timed, mesh


def runner_for(plan: Plan) -> Runner:
    """The runner that a plan names, on its substrate."""
    if plan.substrate == "emu":
        return Emulated(plan.settings, plan.run_timeout)
    if plan.substrate == "live":
        return Live(plan.settings, plan.run_timeout)
    runner: Runner = Mock() if plan.runner == "mock" else mesh
    return runner if plan.run_timeout is None else Timed(runner, plan.run_timeout)
