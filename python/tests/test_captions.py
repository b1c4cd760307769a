"""Captions say what figures show, in the words of the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake import CHAIN, FakeResult, fake

import wifu
from wifu import alike, figures
from wifu import plan as plans
from wifu.figures import captions
from wifu.figures.words import Words


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("One. There is neither colour nor bold. Two.", "One. Two."),
        ("One. There is neither colour nor bold; `rtt_p50` is all.", "One. `rtt_p50` is all."),
        ("So it is, and there is neither colour nor bold. Two.", "So it is. Two."),
        ("No delays, and there is neither colour nor bold between them; those are alike.",
         "No delays; those are alike."),
        ("From 1.5 to 2.5 MB: there is neither colour nor bold where they are more than 1.5% apart"
         ", as who sends less has less. Two.", "From 1.5 to 2.5 MB. Two."),
        ("Delays are of what arrived, so that there is neither colour nor bold.",
         "Delays are of what arrived."),
        ("It did. Between protocols there is neither colour nor bold.", "It did."),
        ("Nothing of it; as it was.", "Nothing of it; as it was."),
        ("There is neither colour nor bold; flows with `time` stay alike.",
         "Flows with `time` stay alike."),
    ],
)  # fmt: skip
def test_what_is_said_of_tables_is_left_out(given: str, left: str) -> None:
    assert captions.without_colour(given) == left


TEXT = CHAIN.replace(
    "[series]\nruns = [1]",
    '[label.hops]\ntitle = "length"\n[label.protocol]\ntcp-reno = "Reno"\ntcp-newreno = "NewReno"',
)


def test_cells_are_called_what_the_plan_calls_them(tmp_path: Path) -> None:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        if len(made._outcome["nodes"]) == 4:
            made._outcome["flows"][1] |= {
                "connected_s": None, "bytes": 0, "goodput_bps": 0.0, "finished": False,
                "first_byte_s": None, "last_byte_s": None,
            }  # fmt: skip
        return made

    found = wifu.campaign(plans.parse(TEXT), tmp_path / "r", runner=runner)
    made = figures.draw(found, {"kind": "bars", "x": "hops"}, tmp_path / "f")
    assert "3_tcp-reno" not in made.caption and "colour" not in made.caption
    words = Words(found, {})
    told = captions.named("(by cell: 3_tcp-reno 5, 1_tcp-newreno 2)", found.plan.cells, words)
    assert told == "(by cell: length 3/Reno 5, length 1/NewReno 2)"
    assert "/Reno" in made.caption


def test_levels_that_two_axes_have_are_told_which_they_are_of(tmp_path: Path) -> None:
    text = CHAIN.replace("copies = 2", '[[scenario.flow]]\nprotocol = "{far}"').replace(
        "hops = [1, 3]", 'far = ["tcp-reno", "tcp-sack"]'
    )
    chosen = plans.parse(text.replace("{hops+1}", "3"))
    found = wifu.campaign(chosen, tmp_path / "r", runner=fake)
    words = Words(found, {})
    assert words.apart("far", "tcp-reno") == "far tcp-reno"
    assert words.apart("far", "tcp-sack") == "tcp-sack"
    called = Words(found, {"label": {"far": {"tcp-reno": "Reno"}}})
    assert called.apart("far", "tcp-reno") == "Reno"
    assert called.apart("protocol", "tcp-reno") == "tcp-reno"


def test_differences_are_few_and_written_as_plans_write_them() -> None:
    found = alike.Difference(
        "tcp-newreno", "tcp-reno", ("", ""), ("a", "a"),
        {"mss": ("1460", "0"), **{f"part.{n}": ("1", "2") for n in range(9)}},
        {},
    )  # fmt: skip
    assert "mss 1460, not the MTU's" in found.sentence()
    assert (
        alike._shown([{"at": "1s", "cut": ["n2", "n3"]}]) == '[{ at = "1s", cut = ["n2", "n3"] }]'
    )
    assert found.sentence(captions.DIFFERENCES).endswith("part.2 1, not 2; and 6 more.")


def test_whiskers_that_are_not_there_are_explained(tmp_path: Path) -> None:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        for flow in made._outcome["flows"]:
            flow["timeouts"] = 3
        return made

    found = wifu.campaign(plans.parse(TEXT), tmp_path / "r", runner=runner)
    told = [
        figures.draw(found, {"kind": "bars", "x": "hops", "metric": m}, tmp_path / "f").caption
        for m in ("timeouts", "goodput")
    ]
    assert ["all runs are equal" in caption for caption in told] == [True, False]
