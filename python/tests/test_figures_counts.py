"""Which runs figures are of, and intervals of what no run did, or all did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake import CHAIN, FakeResult, fake
from matplotlib.colors import to_hex
from test_figures import drawn

import wifu
from wifu import plan as plans
from wifu.figures import along
from wifu.figures.sayings import interval_words, of_unlike


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    """Files that all finish over one hop, and none over three; one run of each cell is SUSPECT."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        outcome = fake(scenario)
        long = len(outcome._outcome["nodes"]) == 4
        for flow in outcome._outcome["flows"]:
            flow["finished"] = not long
        if scenario["run"] == 2:
            outcome._outcome["stamp"] = {"verdict": "SUSPECT"}
        return outcome

    text = CHAIN.replace("copies = 2", 'copies = 2\napp = "file"\nbytes = "1M"')
    folder = tmp_path_factory.mktemp("counts") / "r"
    return wifu.campaign(plans.parse(text), folder, runner=runner)


@pytest.mark.parametrize("kind", ["bars", "lines", "ratio", "fairness", "tradeoff", "waterfall"])
def test_captions_say_how_many_runs_are_suspect(results: wifu.Results, kind: str) -> None:
    _, caption = drawn(results, kind=kind)
    cells = len(results.plan.cells)
    assert f", {cells} of them stamped SUSPECT" in caption, caption


def test_what_no_run_did_has_the_interval_of_a_share(results: wifu.Results) -> None:
    figure, caption = drawn(results, kind="bars", metric="finished")
    whiskers = [
        c
        for axis in figure.axes
        for c in axis.containers
        if type(c).__name__ == "ErrorbarContainer"
    ]
    assert len(whiskers) == len(results.plan.cells), "that of 0 of 5 as well as that of 5 of 5"
    assert "none where all runs are equal" not in caption
    cells = results.plan.cells
    assert "Wilson" in interval_words(results, cells, "finished")


def test_yes_and_no_have_no_between() -> None:
    assert along.placed([False, True]) == ({False: 0.0, True: 1.0}, False)
    assert along.placed([0, 1])[1]


def test_places_of_flows_that_a_cell_does_not_have_are_told(tmp_path: Path) -> None:
    text = CHAIN.replace("copies = 2", 'copies = "{hops}"')
    results = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    numbers = {c.labels["hops"] for c in results.plan.cells}
    _, caption = drawn(results, kind="flows")
    assert f"Cells have {min(numbers)} to {max(numbers)} flows: where nothing stands" in caption


@pytest.mark.parametrize("kind", ["bars", "lines"])
def test_the_least_that_a_value_can_be_is_hollow(results: wifu.Results, kind: str) -> None:
    """Over three hops all files were cut off, over one hop none was."""
    figure, caption = drawn(results, kind=kind, metric="delay", x="hops")
    assert "; hollow, with ≥: the least that it can be" in caption
    marks = [to_hex(line.get_markerfacecolor()) for a in figure.axes for line in a.get_lines()]
    faces = [to_hex(bar.get_facecolor()) for a in figure.axes for bar in a.patches]
    found = marks if kind == "lines" else faces
    assert found.count("#ffffff") == 2, found
    _, known = drawn(results, kind=kind, metric="goodput", x="hops")
    assert "hollow" not in known


def test_questions_beside_data_are_told(results: wifu.Results) -> None:
    one, *others = results.plan.cells
    asking = replace(one, scenario={"flow": [{"protocol": "tcp-reno", "app": "request"}]})
    words = of_unlike([asking, *others], 1, False)
    assert words.startswith(f" These are questions and what goes with them in {one.name}, and data")
    assert of_unlike(others, 1, False) == "" == of_unlike([asking], 1, True)
