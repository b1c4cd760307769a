"""Metrics that no run of a plan can have are told before it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fake import CHAIN, fake
from rich.console import Console

import wifu
from wifu import absent, screen, valueless
from wifu import plan as plans
from wifu.campaign import Summary
from wifu.plan import Plan

ENDS = {"file": 'app = "file"\nbytes = "1M"', "bulk": 'app = "bulk"', "asks": 'app = "request"'}


def plan(flow: str, *metrics: str) -> Plan:
    """A plan of such flows."""
    text = CHAIN.replace("copies = 2", f"copies = 2\n{ENDS[flow]}")
    return plans.parse(text, overrides=[f"metrics={list(metrics)}".replace("'", '"')])


@pytest.mark.parametrize(("flow", "none"), [("bulk", True), ("file", False), ("asks", False)])
def test_downloads_of_flows_without_an_end_are_told_to_be_none(flow: str, none: bool) -> None:
    told = valueless.warnings(plan(flow, "goodput", "delay", "delay_p95@1"))
    assert len(told) == (2 if none else 0)
    if none:
        assert told[0].startswith("delay: there is no value: no flow that it is of comes to an end")


def test_losses_of_packets_are_told_to_be_the_simulators() -> None:
    told = valueless.warnings(replace(plan("bulk", "loss@1"), substrate="emu"))
    assert told and told[0].startswith("loss@1: there is no value on emu: the simulator alone")
    assert not valueless.warnings(plan("bulk", "loss@1"))


def test_captions_and_tables_say_so_too(tmp_path: Path) -> None:
    results = wifu.campaign(plan("bulk", "goodput", "delay"), tmp_path / "r", runner=fake)
    words = absent.uncounted(results, results.plan.cells, "delay")
    assert words.startswith("There is no value: no flow")
    assert not absent.uncounted(results, results.plan.cells, "goodput")


def test_what_holds_of_several_substrates_stands_on_the_screen_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "screen", Console(width=2000))
    results = wifu.campaign(plan("bulk", "goodput", "delay"), tmp_path / "r", runner=fake)
    told: set[str] = set()
    for _ in range(2):
        screen.tell(results.folder, Summary("complete", 16), True, told)
    said = capsys.readouterr().out
    assert said.count("delay: there is no value") == 1
    assert "here, too, told above already" in said or "holds here, too" in said


def test_the_screen_has_no_colours_to_be_without() -> None:
    for words, spoken in [
        ("A. There is neither colour nor bold where x.", "A. No verdict is given where x."),
        ("A, and there is neither colour nor bold.", "A, and no verdict is given."),
        ("cells have neither colour nor bold", "cells have no verdict"),
    ]:
        assert screen.VERDICT.sub(screen._without, words) == spoken
