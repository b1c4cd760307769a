"""Metrics are called what they are: a median of runs is not one of all downloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import FakeResult, fake
from typer.testing import CliRunner

import wifu
from wifu import plan as plans
from wifu.cli import app
from wifu.figures import draw
from wifu.metrics import metric_of
from wifu.report import write

FILES = """
name = "files"
runs = 4
metrics = ["delay_median", "min_rtt", "rtt_p95", "one_way_p95"]
[scenario]
topology.words = "linear,{hops+1}"
[[scenario.flow]]
protocol = "tcp-reno"
[vary]
hops = [1, 3]
"""


@pytest.fixture
def files(tmp_path: Path) -> wifu.Results:
    """Each run has two quick downloads and a slow one: of four runs one has many quick ones."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        for flow in made._outcome["flows"]:
            quick = 20 if scenario["run"] == 1 else 0
            delays = [0.1] * quick + [1.0 + 0.1 * scenario["run"]] * 3
            flow["requests"] = [{"delay_s": d} for d in delays]
            flow["rtt"] = {"p50_s": 0.01, "p95_s": 0.02 + 0.001 * scenario["run"], "p99_s": 0.03}
        return made

    return wifu.campaign(plans.parse(FILES), tmp_path / "r", runner=runner)


def test_a_mean_of_medians_is_not_called_the_median(files: wifu.Results, tmp_path: Path) -> None:
    mean = files.summary("delay_median")["mean"].iloc[0]
    runs = files.sample("delay_median", {"hops": 1}).to_numpy(float)
    assert mean == pytest.approx(np.mean([0.1, 1.2, 1.3, 1.4])) and mean == runs.mean()
    words = "Each run has its own median, and these are averaged: it is not the median of all"
    drawn = draw(files, {"kind": "bars", "metric": "delay_median"}, tmp_path)
    assert "Median download time of a run" in drawn.title and words in drawn.caption
    told = write(files, tmp_path / "r.html", []).read_text()
    assert "Median download time of a run, s" in told and words in told


def test_percentiles_say_that_they_are_of_each_flow(files: wifu.Results, tmp_path: Path) -> None:
    words = "Each flow of each run has its own percentile, and these are averaged"
    drawn = draw(files, {"kind": "lines", "metric": "rtt_p95"}, tmp_path)
    assert drawn.title.startswith("Round-trip samples of a flow, 95th percentile") and (
        words in drawn.caption
    )
    assert metric_of("one_way_p95").label == "one-way delay of a flow's datagrams, 95th percentile"
    assert metric_of("rtt_p95@2").label == "round-trip samples, 95th percentile, flow 2"


def test_the_smallest_round_trip_is_said_to_be_of_a_small_packet(
    files: wifu.Results, tmp_path: Path
) -> None:
    words = "Of whatever segment, mostly the SYN, which is short on the air"
    drawn = draw(files, {"kind": "bars", "metric": "min_rtt"}, tmp_path)
    assert words in drawn.caption
    assert words in write(files, tmp_path / "r.html", []).read_text()


def test_the_list_of_metrics_says_it_too() -> None:
    listed = CliRunner().invoke(app, ["list", "metrics", "--json"]).output
    for words in ("not the median of all", "not the percentile of all", "mostly the SYN"):
        assert words in listed, words
