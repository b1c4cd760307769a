"""Figures that set levels of another axis than `pair` beside each other."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake import FakeResult

import wifu
from wifu import figures
from wifu import plan as plans
from wifu.figures import style

PLAN = """
name = "across"
runs = 6
pair = "protocol"
metrics = ["retransmissions", "goodput"]
[scenario]
topology.words = "linear,2"
[[scenario.flow]]
protocol = "{protocol}"
app = "stream"
time = "{load}s"
[vary]
protocol = ["tcp-reno", "tcp-newreno"]
load = [1, 10]
"""


def run(scenario: dict[str, Any]) -> FakeResult:
    """Protocols deliver alike, and loads do not."""
    (flow,), run = scenario["flow"], scenario["run"]
    octets = 100_000 * int(flow["time"].rstrip("s")) + run
    told = {"id": 1, "protocol": flow["protocol"], "app": "stream", "start_s": 0.0,
            "connected_s": 0.1, "first_byte_s": 0.2, "last_byte_s": 9.0, "finished": True,
            "bytes": octets, "retransmissions": 9 + run % 3, "timeouts": 0, "srtt_s": 0.1,
            "rtt": {"p50_s": 0.1, "p95_s": 0.1, "p99_s": 0.1, "samples": 100}}  # fmt: skip
    return FakeResult({"sim_seconds": 60.0, "flows": [told], "trace_hash": f"{octets}"}, {})


def caption(results: wifu.Results, **spec: object) -> str:
    with style.context(None):
        return figures.made(results, spec)[2]


WORDS = "No level of load is to be called better or worse by segments retransmitted"


@pytest.mark.parametrize("kind", ["bars", "lines"])
def test_levels_beside_pair_are_compared_too(tmp_path: Path, kind: str) -> None:
    results = wifu.campaign(plans.parse(PLAN), tmp_path / "r", runner=run)
    told = caption(results, kind=kind, x="protocol", by="load")
    assert f"{WORDS} (counts of runs that delivered more than 10 % apart)." in told
    # Along `pair` they are alike; and goodput is no count.
    assert "No level of" not in caption(results, kind=kind, x="load", by="protocol")
    assert "No level of" not in caption(
        results, kind=kind, x="protocol", by="load", metric="goodput"
    )
    assert "No level of" not in caption(
        results, kind=kind, x="protocol", by="load", where={"load": 1}
    )


def test_no_corner_is_better_of_levels_that_are_not_to_be_compared(tmp_path: Path) -> None:
    results = wifu.campaign(plans.parse(PLAN), tmp_path / "r", runner=run)
    spec = {"kind": "tradeoff", "metric": "goodput", "against": "retransmissions"}
    assert "Where it is better cannot be said (counts of" in caption(results, by="load", **spec)
    assert "Better is upper left" in caption(results, by="protocol", **spec)


SAMPLED = PLAN.replace('pair = "protocol"', 'pair = "load"').replace(
    '["retransmissions", "goodput"]', '["srtt"]'
)


def sampling(scenario: dict[str, Any]) -> FakeResult:
    """Senders of tcp-newreno take a round-trip sample by every fiftieth segment."""
    outcome = json.loads(run(scenario).json())
    (flow,) = outcome["flows"]
    flow |= {"bytes": 100_000 + scenario["run"], "data_segments": 100}
    flow["rtt"]["samples"] = 2 if flow["protocol"] == "tcp-newreno" else 100
    return FakeResult(outcome | {"trace_hash": f"{scenario['run']}"}, {})


def test_reasons_are_found_along_every_axis(tmp_path: Path) -> None:
    results = wifu.campaign(plans.parse(SAMPLED), tmp_path / "r", runner=sampling)
    words = "round-trip samples are not taken alike"
    assert words in caption(results, kind="bars", x="load", by="protocol")
    spec = {"kind": "tradeoff", "metric": "goodput", "against": "srtt"}
    told = caption(results, by="protocol", **spec)
    assert f"Where it is better cannot be said ({words}" in told
