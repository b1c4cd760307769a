"""What is said of flows that begin at once simulated, and one after the other on hosts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake import CHAIN, fake

import wifu
from wifu import diverge, starts
from wifu import plan as plans

TWO = CHAIN.replace('"goodput", "jain", "srtt"', '"connecting", "goodput"')


def late(by: Callable[[int, int], float]) -> Any:
    """A runner whose flows begin later, by flow and run."""

    def run(scenario: dict[str, Any]) -> Any:
        result = fake(scenario)
        for flow in result._outcome["flows"]:
            for key in ("start_s", "connected_s"):
                flow[key] += by(flow["id"], scenario["run"])
        return result

    return run


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (lambda flow, run: 0.001 * flow, ""),
        (lambda flow, run: 0.02 * flow + 0.01 * (run == 1), "35 ms later than on sim (median; 50"),
        (lambda flow, run: 0.03, "30 ms later than on sim (median; 30 ms at most)"),
    ],
)
def test_flows_that_begin_late_are_told(
    tmp_path: Path, by: Callable[[int, int], float], said: str
) -> None:
    plan = plans.parse(TWO)
    assert len(plan.cells[0].scenario["flow"]) == 2, "what is tested here"
    one = wifu.campaign(plan, tmp_path / "one", runner=fake)
    two = wifu.campaign(plan, tmp_path / "two", runner=late(by))
    told = starts.caution(one, two, ["connecting"])
    assert (said in told) if said else (told == "")
    assert starts.caution(one, two, ["goodput"]) == "", "nothing is decided by it"
    beside = [n for n in diverge.compare([one, two]).notes() if "flows begin when" in n]
    assert beside == ([told] if said else [])


def test_flows_that_begin_apart_anyway_are_not_told(tmp_path: Path) -> None:
    """A probe three seconds later meets nothing of what the first one sends first."""
    plan = plans.parse(TWO)
    one = wifu.campaign(plan, tmp_path / "one", runner=late(lambda flow, run: 3.0 * flow))
    two = wifu.campaign(plan, tmp_path / "two", runner=late(lambda flow, run: 3.02 * flow))
    assert starts.caution(one, two, ["connecting"]) == ""
