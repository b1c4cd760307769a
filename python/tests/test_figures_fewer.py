"""Captions say of how many runs, packets and flows a bar or a curve is where it is of few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake import CHAIN, PROBED, FakeResult, fake
from test_figures import drawn

import wifu
from wifu import plan as plans


def failing(scenario: dict[str, Any]) -> FakeResult:
    """No run of NewReno comes out."""
    if "newreno" in scenario["flow"][0]["protocol"]:
        raise RuntimeError("exploded")
    return fake(scenario)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    return wifu.campaign(
        plans.parse(CHAIN), tmp_path_factory.mktemp("failed") / "r", runner=failing
    )


# Whose datagrams ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"as": "cdf", "by": "window"}])
def test_datagrams_of_cross_traffic_are_told_from_those_of_probes(
    tmp_path: Path, probed: wifu.Results, how: dict[str, str]
) -> None:
    """They go the same way, and are most of what is drawn."""
    cross = """[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "udp"
rate = "400k"
size = 128
stop_at = "8s"

[vary]"""
    found = wifu.campaign(plans.parse(PROBED.replace("[vary]", cross, 1)), tmp_path / "r")
    caption = drawn(found, kind="latency", **how)[1]
    told = "Datagrams of all flows of a direction are taken together, by how many of them arrived"
    assert f" {told} (n1 > n2: flow 2 " in caption, caption
    assert " flow 3 " in caption and ", flow 4 9" in caption.partition(told)[2], "over nine tenths"
    assert f"{told} (n1 > n2: flow 2 " in drawn(probed, kind="latency", **how)[1]
    before, *_ = PROBED.rpartition("[[scenario.flow]]")
    one = before.replace('stop_at = "1.9s"', 'stop_at = "8s"') + PROBED[PROBED.index("[vary]") :]
    alone = wifu.campaign(plans.parse(one), tmp_path / "s")
    assert "taken together" not in drawn(alone, kind="latency", **how)[1]
