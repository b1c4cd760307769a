"""Captions say what goodput is where a plan measures it in another way than is usual."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake import CHAIN, FakeResult, fake
from test_figures import drawn

import wifu
from wifu import plan as plans
from wifu.figures import beside
from wifu.metrics import Measure

RECEIVER = 'measure = "receiver"\n' + CHAIN
FLOW = "bytes delivered in order, from the first delivery to the last"
ALL = "bytes of all flows, by the time from the first delivery to the last byte of any"


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    folder = tmp_path_factory.mktemp("received") / "r"
    return wifu.campaign(plans.parse(RECEIVER), folder, runner=fake)


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "bars"},
        {"kind": "lines", "x": "hops"},
        {"kind": "ratio"},
        {"kind": "cdf"},
        {"kind": "cdf", "metric": "goodput"},
        {"kind": "bars", "metric": "jain"},
        {"kind": "fairness"},
    ],
)
def test_captions_of_rates_say_how_they_are_measured(
    results: wifu.Results, received: wifu.Results, spec: dict[str, Any]
) -> None:
    assert drawn(received, **spec)[1].count(f" Goodput: {FLOW}.") == 1
    assert "Goodput: bytes" not in drawn(results, **spec)[1], "what is usual need not be said"


def test_captions_of_totals_say_what_a_total_is(received: wifu.Results) -> None:
    caption = drawn(received, kind="bars", metric="aggregate")[1]
    assert f"Total goodput: {ALL}." in caption and " Goodput: " not in caption
    caption = drawn(received, kind="tradeoff", metric="aggregate", against="goodput")[1]
    assert caption.count(f"Total goodput: {ALL}. Goodput: {FLOW}.") == 1
    assert FLOW not in drawn(received, kind="bars", metric="srtt")[1]


def test_flows_say_what_the_goodput_of_each_is(
    results: wifu.Results, received: wifu.Results
) -> None:
    assert (
        f"Goodput of each flow ({FLOW}), and of all together (aggregate: {ALL});"
        in (drawn(received, kind="flows")[1])
    )
    assert "Goodput of each flow, and of all together" in drawn(results, kind="flows")[1]


def test_words_of_a_window_have_its_times() -> None:
    window = Measure("window", start=2.0, end=6.5)
    assert window.words.startswith("bytes delivered inside 2 s to 6.5 s, by as much of it")
    assert "inside the window (2 s to 6.5 s), by as much of it" in window.together
    assert not Measure().unusual and window.unusual


def test_bars_of_substrates_say_how_goodput_is_measured(received: wifu.Results) -> None:
    emulated = wifu.Results(received.folder)
    emulated.plan = replace(emulated.plan, substrate="emu")
    told = beside._measured([received, emulated], "goodput")
    assert told == [f"Goodput: {FLOW}."]
    emulated.plan = replace(emulated.plan, measure=Measure("window", end=3.0))
    one, two = beside._measured([received, emulated], "goodput")
    assert one == f"On sim: Goodput: {FLOW}." and two.startswith("On emu: Goodput: bytes")
    assert beside._measured([received, emulated], "srtt") == []


def test_what_a_total_is_is_said_once_and_as_it_is_measured(tmp_path: Path) -> None:
    """Of two files one after the other the goodputs add up to more than both carried together."""

    def apart(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        for n, flow in enumerate(made._outcome["flows"]):
            start, took = 10.0 * n, 2.0 + 0.01 * scenario["run"]
            flow |= {"start_s": start, "first_byte_s": start + 0.1, "last_byte_s": start + took}
        return made

    found = wifu.campaign(plans.parse(RECEIVER), tmp_path / "r", runner=apart)
    caption = drawn(found, kind="bars", metric="goodput")[1]
    assert f"nothing went on between them: `aggregate` is {ALL}." in caption
    caption = drawn(found, kind="flows")[1]
    assert "the longer nothing went on between them." in caption
    assert caption.count(ALL) == 1 and "first start" not in caption
