"""Captions say of how many runs, packets and flows a bar or a curve is where it is of few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake import CHAIN, PROBED, FakeResult, fake
from test_figures import drawn
from test_hopwise import SAMPLES, changed, hop, recorded
from test_shares import FETCHING, fetching

import wifu
from wifu import plan as plans
from wifu.errors import LabError
from wifu.figures.nodes import _by_curve


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


# Bars of fewer runs -------------------------------------------------------------------------------


def test_bars_of_flows_say_of_how_many_runs_they_are(tmp_path: Path) -> None:
    def one_without(scenario: dict[str, Any]) -> FakeResult:
        result = fetching(scenario)
        if scenario["run"] == 1:
            result._outcome["flows"][0]["requests"] = []
        return result

    found = wifu.campaign(plans.parse(FETCHING), tmp_path / "r", runner=one_without)
    where = {"protocol": "tcp-newreno"}
    told = " 1 of 4 flows had no file at all: bars are of fewer runs (tcp-newreno: 1 of 2 at "
    caption = drawn(found, kind="flows", metric="delay", where=where)[1]
    assert f"{told}flow 1)." in caption
    caption = drawn(found, kind="flows", metric="delay", where=where, sorted=True)[1]
    assert f"{told}rank 2)." in caption


def test_bars_of_cells_say_of_how_many_runs_they_are(tmp_path: Path) -> None:
    def untold(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        if "newreno" in scenario["flow"][0]["protocol"] and scenario["run"] > 2:
            for flow in made._outcome["flows"]:
                flow["srtt_s"] = None
        return made

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=untold)
    caption = drawn(found, kind="bars", metric="srtt")[1]
    few = "1_tcp-newreno 2 of 5, 3_tcp-newreno 2 of 5"
    assert f"n = 2 to 5 of 5 runs per cell, the others have no value ({few})" in caption


# Runs that failed ---------------------------------------------------------------------------------


def test_flows_of_runs_that_failed_are_not_said_to_have_no_value(failed: wifu.Results) -> None:
    caption = drawn(failed, kind="flows")[1]
    assert "n = 0 to 5 runs per cell, without 10 that failed." in caption
    assert "have no value" not in caption and "All runs failed: " in caption


@pytest.mark.parametrize("kind", ["waterfall", "hops", "flows", "cdf"])
def test_figures_of_runs_that_all_failed_say_so(failed: wifu.Results, kind: str) -> None:
    with pytest.raises(LabError, match=r"^all runs failed$"):
        drawn(failed, kind=kind, where={"protocol": "tcp-newreno"})
    if kind == "waterfall":
        caption = drawn(failed, kind=kind)[1]
        assert "Not shown, as all runs failed: hops 1, protocol tcp-newreno; " in caption
        assert "recorded" not in caption.partition("Not shown")[2]


def test_curves_do_not_pool_cells_without_runs(tmp_path: Path, failed: wifu.Results) -> None:
    """Nothing of theirs is in a curve."""

    def long_ones(scenario: dict[str, Any]) -> FakeResult:
        if scenario["topology"]["words"] == "linear,4":
            return failing(scenario)
        return fake(scenario)

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=long_ones)
    asked = {"kind": "cdf", "by": "protocol", "pool": ["hops"]}
    told = "not the same for all curves: tcp-reno: hops 1, hops 3; tcp-newreno: hops 1."
    for more in ({}, {"metric": "goodput"}):
        caption = drawn(found, **asked, **more)[1]
        assert told in caption and "All runs failed: hops 3: tcp-newreno." in caption
    assert "not the same for all curves" not in drawn(failed, **asked)[1], "one curve is none"


# Few packets --------------------------------------------------------------------------------------


def test_shares_of_few_packets_are_told(tmp_path: Path) -> None:
    found = changed(tmp_path, [hop(1, 90, 10, "mesh5"), hop(2, 4, 1, "mesh2")])
    where = {"protocol": "hxh"}
    caption = found.plot("hops", where=where).caption
    told = "fewer than 30 packets of a run, so that one packet is more than 3 % of them: hxh 5 at"
    assert f" Some shares are of {told} hop 2." in caption
    many = changed(tmp_path / "many", [hop(1, 90, 10, "mesh5"), hop(2, 29, 1, "mesh2")])
    assert "Some shares are of" not in many.plot("hops", where=where).caption


# Round trips --------------------------------------------------------------------------------------


def test_what_ended_with_its_connection_is_told_by_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _by_curve([("hxh", 3), ("atp", 0), ("hxh", 1)], " packets") == "4 packets (hxh 4)"
    assert _by_curve([("", 3), ("", 4)]) == "7" and _by_curve([("hxh", 0), ("atp", 0)]) == ""
    seven = {**recorded(0.5), SAMPLES: ([0.1, 2.0], [0, 7])}
    monkeypatch.setattr("test_hopwise.recorded", lambda slow: seven)
    found = changed(tmp_path, [])
    where = {"protocol": ["hxh", "hxh-nolh"]}
    caption = found.plot("trips", where=where, by="protocol").caption
    told = "of 72 (hxh-nolh 36, hxh 36) of them to when it knew that all had arrived"
    assert told in caption
    never = changed(tmp_path / "never", [], known_s=None)
    caption = never.plot("trips", where=where, by="protocol").caption
    assert "Not shown: 72 packets (hxh-nolh 36, hxh 36) of which no word came" in caption
