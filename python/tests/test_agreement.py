"""The plan that compares simulated with emulated radios: what is in its cells."""

import json
from pathlib import Path
from typing import Any

import pytest

from wifu import plan as plans
from wifu import runner

PLAN = plans.load(Path(__file__).parents[2] / "experiments/agreement/plan.toml")

MEASURED = {
    "1_6_newreno": "cc754fb9431dd680", "1_6_kernel": "fbb716c82631b240",
    "1_24_newreno": "a3abd14a404b1d63", "1_24_kernel": "852929360b282a7a",
    "2_6_newreno": "b2263fc56ff99878", "2_6_kernel": "851c088816e68ce6",
    "2_24_newreno": "7089de556f0c693d", "2_24_kernel": "edef4cf73abab20d",
    "3_6_newreno": "66973a8d769ef4cf", "3_6_kernel": "adfa7e334abd35dd",
    "3_24_newreno": "10c47e43afe2a156", "3_24_kernel": "3b70ca2fb1416c4b",
    "4_6_newreno": "f2dc3416eea35671", "4_6_kernel": "6fb5fa6217c1692c",
    "4_24_newreno": "0672e8576f76d590", "4_24_kernel": "e63a6ea401ba6de7",
}  # fmt: skip
"""Cells of which results are published, and what identifies their scenarios."""


def outcome(cell: str, run: int) -> dict[str, Any]:
    chosen = next(c for c in PLAN.cells if c.name == cell)
    found: dict[str, Any] = json.loads(runner.mesh(PLAN.scenario_of(chosen, run)).json())
    return found


def test_what_was_measured_before_is_in_the_plan_as_it_was() -> None:
    cells = {c.name: c.key for c in PLAN.cells}
    assert {k: cells[k] for k in MEASURED} == MEASURED
    assert [c.name for c in PLAN.variant("emu").cells] == list(cells)
    assert {c.split("_")[1] for c in set(cells) - set(MEASURED)} == {
        "weak", "hidden", "rts", "full",
    }  # fmt: skip


@pytest.mark.parametrize("cell", [c.name for c in PLAN.cells if c.name not in MEASURED])
def test_the_other_cells_lose_segments_each_in_its_way(cell: str) -> None:
    for run in (1, 2, 3):
        found = outcome(cell, run)
        (flow,) = found["flows"]
        assert flow["finished"] and flow["retransmissions"] > 0
        lost = {k: sum(n["lost"][k] for n in found["nodes"]) for k in ("noise", "collision")}
        attempts = sum(n["attempts"] for n in found["nodes"])
        match cell.split("_")[1]:
            case "weak":
                assert 0.05 < lost["noise"] / attempts < 0.10
                assert flow["packets"]["link"] > 0
            case "full":
                assert flow["packets"]["queue"] > 0 and flow["packets"]["link"] == 0
            case "rts":
                # Whoever was hidden is kept off by the CTS; what fails are the RTS themselves.
                sent = sum(n["received"] for n in found["nodes"])
                assert flow["packets"]["link"] > 0 and attempts < 1.2 * sent
            case "hidden":
                assert lost["collision"] > 0.1 * attempts and flow["packets"]["link"] > 0


def test_the_cells_at_two_rates_lose_hardly_any() -> None:
    for cell in MEASURED:
        assert outcome(cell, 1)["flows"][0]["retransmissions"] <= 3, cell
