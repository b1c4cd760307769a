"""Protocols that stand in rows beside another `pair`: what is told between levels is told there."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake import FakeResult
from test_cautions import said

import wifu
from wifu import plan as plans

PLAN = """
name = "rows"
runs = 3
pair = "queue"
metrics = ["goodput", "aggregate", "one_way_p95", "min_rtt", "loss", "retransmissions", "delay"]
[scenario]
topology = { words = "linear,3,rate=24M", set = "TB-B" }
radio.queue = "{queue}"
[[scenario.handler]]
use = "drop"
nodes = ["n2"]
protocol = 6
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "{protocol}"
app = "{app}"
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "{other}"
[vary]
protocol = ["tcp-newreno", "LESS"]
queue = [20, 80]
"""


def rows(
    folder: Path, more: Mapping[str, Any], less: Mapping[str, Any], name: str = "hxh",
    other: str = "udp", beside: Sequence[Mapping[str, Any]] = ({}, {}), app: str = "bulk",
) -> wifu.Results:  # fmt: skip
    """Runs of two flows, of which the first is by its protocol, and alike with all queues."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        specs, run = scenario["flow"], scenario["run"]
        kind = int(specs[0]["protocol"] != "tcp-newreno")
        own = {"bytes": 5_000_000, "finished": False, "start_s": 0.0, "first_byte_s": 0.1}
        told = [
            {"id": n, "protocol": spec["protocol"], "app": "bulk", "last_byte_s": 8.9, **own, **of}
            for n, (spec, of) in enumerate(
                zip(specs, ((more, less)[kind], beside[kind]), strict=True), 1
            )
        ]
        for flow in told:
            flow["bytes"] += 1000 * run
        name = f"{specs[0]['protocol']}{run}{scenario['radio']['queue']}"
        return FakeResult({"sim_seconds": 9.0, "flows": told, "trace_hash": name}, {})

    text = PLAN.replace("LESS", name).replace("{other}", other).replace("{app}", app)
    return wifu.campaign(plans.parse(text), folder / "r", runner=runner)


def test_delays_beside_loads_of_protocols_in_rows_are_told(tmp_path: Path) -> None:
    def probe(delay: float) -> dict[str, Any]:
        told = {"p50_s": delay, "p95_s": delay, "p99_s": delay, "samples": 9000}
        more = {"start_s": 1.0, "datagram": 100, "sent_bytes": 5_000_000}
        return {**more, "one_way": told, "under_load": told}

    light = {"bytes": 2_000_000}
    found = rows(tmp_path / "a", {}, light, beside=(probe(0.2), probe(0.1)))
    assert "the loads of compared cells delivered from" in said(found, "one_way_p95")
    worse = rows(tmp_path / "b", {}, light, beside=(probe(0.1), probe(0.2)))
    assert "the loads of compared cells" not in said(worse, "one_way_p95")


@pytest.mark.parametrize(
    ("metric", "more", "less", "words"),
    [
        ("min_rtt", {"min_rtt_s": 0.1}, {"min_rtt_s": 0.2}, "no merit of a protocol"),
        ("goodput", {}, {}, "drop (protocol 6) sees the packets of flow 1 in"),
        (
            "retransmissions",
            {"sent_bytes": 10**6, "data_segments": 1000, "retransmissions": 9},
            {"sent_bytes": 10**6, "data_segments": 700, "retransmissions": 9},
            "Segments are counted, and those of compared cells carry",
        ),
        ("aggregate", {}, {"bytes": 10}, "flows starved, below"),
    ],
)
def test_what_is_told_of_protocols_is_told_of_rows(
    tmp_path: Path, metric: str, more: dict[str, Any], less: dict[str, Any], words: str
) -> None:
    found = rows(tmp_path, more, less, other="tcp-sack")
    assert words in said(found, metric)


def test_hosts_that_take_their_time_over_rows_are_told(tmp_path: Path) -> None:
    found = rows(tmp_path, {}, {}, name="udp")
    assert "which stand beside them, none" in said(found, "goodput")


def test_answers_of_unlike_size_in_rows_are_told(tmp_path: Path) -> None:
    near, far = (
        [{"start_s": 0.1 * k, "delay_s": 0.05, "bytes": size} for k in range(12)]
        for size in (9_000, 18_000)
    )
    found = rows(tmp_path, {"requests": near}, {"requests": far}, app="request")
    assert "Files, or answers, of compared cells have 9" in said(found, "delay")
