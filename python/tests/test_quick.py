"""Plans as small as they can be: the simulator runs them, and every figure is drawn."""

from pathlib import Path

import pytest

import wifu
from wifu import figures, toml
from wifu import plan as plans

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
QUICK = sorted(
    path.parent.name
    for path in EXPERIMENTS.glob("*/plan.toml")
    if "quick" in toml.loads(path.read_text(), path)
)


def test_the_pacing_experiments_can_be_looked_at_quickly() -> None:
    assert {"x-w6", "x-t2", "x-t3", "x-t4", "x-t5", "x-t6", "x-t7"} <= set(QUICK)


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_look_has_every_figure(name: str, tmp_path: Path) -> None:
    plan = plans.load(EXPERIMENTS / name, [plans.QUICK])
    results = wifu.campaign(plan, tmp_path / "r")
    assert set(results.runs["status"]) == {"ok"}
    assert (results.flows["bytes"] > 0).any()
    made = figures.draw_all(results)
    assert [d for d in made if isinstance(d, figures.NotDrawn)] == []
    assert len(made) == len(plan.figures) > 0
