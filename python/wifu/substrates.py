"""The runner that a plan names, on its substrate: simulator, emulation, or machines."""

from __future__ import annotations

from wifu.emulated import Emulated
from wifu.live import Live
from wifu.plan import Plan
from wifu.program import libraries
from wifu.runner import Mock, Runner, Timed, mesh


def runner_for(plan: Plan) -> Runner:
    """The runner that a plan names, on its substrate."""
    if plan.substrate == "emu":
        return Emulated(plan.settings, plan.run_timeout)
    if plan.substrate == "live":
        return Live(plan.settings, plan.run_timeout)
    runner: Runner = Mock() if plan.runner == "mock" else mesh
    # What panics in a library ends the process that loaded it.
    apart = plan.run_timeout is not None or (runner is mesh and libraries())
    return Timed(runner, plan.run_timeout) if apart else runner
