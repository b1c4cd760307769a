"""Metrics that no run of a plan can have are told before it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fake import CHAIN, fake

import wifu
from wifu import absent, valueless
from wifu import plan as plans
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
