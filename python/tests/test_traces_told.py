"""What captions of figures over time say of lines that are not of the same."""

from pathlib import Path
from typing import Any

import pytest
from fake import CHAIN, FakeResult, fake
from test_figures import drawn

import wifu
from wifu import plan as plans

TIMED = "do not time round trips alike"


def found(folder: Path, protocols: list[str], split: bool = False) -> wifu.Results:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        result = fake(scenario)
        if split:
            result._outcome["nodes"][1]["split"] = {"accepted": 1, "near": {}, "far": {}}
        return result

    text = CHAIN.replace('["tcp-reno", "tcp-newreno"]', str(protocols)).replace("[1, 3]", "[3]")
    text = text.replace("runs = 5", "runs = 1").replace('baseline = "tcp-reno"', "")
    return wifu.campaign(plans.parse(text), folder / "r", runner=runner)


@pytest.mark.parametrize(
    ("other", "how"),
    [
        ("hxh", "HxH times a packet"),
        ("hop", "Hop times a block"),
        ("atp", "ATP times what comes back"),
    ],
)
def test_round_trips_over_time_that_are_timed_unlike_are_told(
    tmp_path: Path, other: str, how: str
) -> None:
    results = found(tmp_path, ["tcp-newreno", other])
    caption = drawn(results, kind="timeseries")[1]
    assert TIMED in caption and how in caption and "colour" not in caption
    # Without round trips nothing is said of them, nor of one way to time them.
    assert TIMED not in drawn(results, kind="timeseries", show=["goodput", "cwnd"])[1]
    alone = drawn(results, kind="timeseries", where={"protocol": other})[1]
    assert TIMED not in alone


def test_flows_of_one_panel_are_timed_unlike_as_well(tmp_path: Path) -> None:
    """Though the cells be alike."""
    text = CHAIN.replace("copies = 2", '[[scenario.flow]]\nprotocol = "hop"')
    text = text.replace('["tcp-reno", "tcp-newreno"]', '["tcp-reno"]').replace(
        "runs = 5", "runs = 1"
    )
    results = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    assert TIMED in drawn(results, kind="timeseries")[1]
    tcp = found(tmp_path / "b", ["tcp-reno", "tcp-newreno"])
    assert TIMED not in drawn(tcp, kind="timeseries")[1]


def test_lines_of_the_source_s_half_are_told(tmp_path: Path) -> None:
    results = found(tmp_path / "a", ["tcp-newreno"], split=True)
    caption = drawn(results, kind="timeseries")[1]
    assert "Nodes split TCP (n2): window, round-trip time are of the source's half alone" in caption
    assert "goodput is of the whole way" in caption
    one = drawn(results, kind="timeseries", show=["srtt"])[1]
    assert "round-trip time is of the source's half alone." in one and "whole way" not in one
    assert "split" not in drawn(results, kind="timeseries", show=["goodput"])[1]
    plain = found(tmp_path / "b", ["tcp-newreno"])
    assert "split" not in drawn(plain, kind="timeseries")[1]


def test_delivery_of_a_sequence_is_over_all_halves(tmp_path: Path) -> None:
    results = found(tmp_path, ["tcp-newreno"], split=True)
    caption = drawn(results, kind="sequence")[1]
    assert "what is drawn is of the source's half" not in caption
    assert "the dots are of the source's half" in caption
    assert "the line is what the last receiver got in order, behind all halves" in caption


@pytest.mark.parametrize(
    ("more", "told"),
    [('app = "http"', True), ('app = "http"\npersistent = true', False), ("", False)],
)
def test_offsets_that_begin_anew_with_each_connection_are_told(
    tmp_path: Path, more: str, told: bool
) -> None:
    text = CHAIN.replace("copies = 2", f"copies = 2\n{more}").replace("runs = 5", "runs = 1")
    results = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    caption = drawn(results, kind="sequence", where={"hops": 3})[1]
    assert ("offsets of the dots begin anew" in caption) is told


ANEW = "Each file has a connection of its own"


@pytest.mark.parametrize(
    ("more", "told"),
    [('app = "http"', True), ('app = "http"\npersistent = true', False), ("", False)],
)
def test_windows_that_begin_anew_with_each_connection_are_told(
    tmp_path: Path, more: str, told: bool
) -> None:
    """They fall with each, which losses would look like, and are drawn where none is open."""
    text = CHAIN.replace("copies = 2", f"copies = 2\n{more}").replace("runs = 5", "runs = 1")
    results = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)

    def caption(*show: str) -> str:
        return drawn(results, kind="timeseries", where={"hops": 3}, show=list(show))[1]

    whole = (
        f"{ANEW}, with which window and round-trip time begin anew: that they fall there is no "
        "loss. In the pause between two files no connection is open, and the last value is drawn "
        "on."
    )
    assert (whole in caption("goodput", "cwnd", "srtt")) is told
    one = f"{ANEW}, with which round-trip time begins anew: that it falls there is no loss."
    assert (one in caption("srtt")) is told
    # Delivered bytes add up over all of them.
    assert ANEW not in caption("goodput", "delivered")


def test_flows_whose_windows_begin_anew_are_named_beside_others(tmp_path: Path) -> None:
    other = '[[scenario.flow]]\nprotocol = "tcp-reno"\napp = "http"'
    text = CHAIN.replace("copies = 2", other).replace("runs = 5", "runs = 1")
    results = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    caption = drawn(results, kind="timeseries", where={"hops": 3})[1]
    assert "Each file of flow 2 has a connection of its own" in caption
