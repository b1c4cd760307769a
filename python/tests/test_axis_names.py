"""Axes that are called like what results tell: neither stands in the other's place."""

from pathlib import Path

import pytest

import wifu
from wifu import plan as plans
from wifu.errors import PlanError

PLAN = """
name = "names"
runs = 2
[scenario]
topology.words = "linear,3,rate=6M,snr=8,attempts={attempts}"
record.frames = true
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "tcp-newreno"
app = "file"
bytes = "100k"
jitter = "{lost}ms"
[vary]
attempts = [3, 4]
lost = [5]
"""


def test_axes_called_like_what_hops_and_causes_tell_are_beside_it(tmp_path: Path) -> None:
    results = wifu.campaign(plans.parse(PLAN), tmp_path / "r")
    hops = results.hops()
    assert hops["attempts"].tolist() == [3] * (len(hops) // 2) + [4] * (len(hops) // 2)
    assert set(hops["lost_asked"]) == {5}
    told = [
        h["lost"] for c in results.plan.cells for r in (1, 2) for h in results.outcome(c, r)["hops"]
    ]
    assert sorted(hops["lost"]) == sorted(told)
    why = results.why()
    assert why["attempts_asked"].tolist() == [3, 3, 4, 4]
    assert (why["attempts"] >= why["failed"]).all() and (why["attempts"] > 100).all()
    assert why["lost"].tolist() == [5] * 4


@pytest.mark.parametrize("name", ["substrate", "paired", "ks", "verdict"])
def test_columns_of_the_divergence_are_no_axes(name: str) -> None:
    text = PLAN.replace("lost", name)
    with pytest.raises(PlanError, match="is the name of a column of the results"):
        plans.parse(text)


def test_hxh_path_has_a_variant_with_as_many_places() -> None:
    """Later stamps with fewer places are two things at once."""
    plan = plans.load(Path(__file__).parents[2] / "experiments/hxh-path")
    places: dict[tuple[object, ...], dict[object, int]] = {}
    for cell in plan.cells:
        radio = cell.scenario.get("radio", {})
        behind = radio.get("ring", 200) + radio.get("queue", 1000)
        lane = int(str(cell.scenario["flow"][0]["protocol"]).rsplit("packets=", 1)[1])
        key = (cell.labels["place"], cell.labels["buffer"], cell.labels["told"])
        places.setdefault(key, {})[cell.labels["stamped"]] = behind + lane
    for own in places.values():
        assert own["ring"] == own["air"] > own["few"]
