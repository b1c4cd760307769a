"""Steady goodput with what a batch that is left out held back."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake import FakeResult
from test_cautions import PLAN, said

import wifu
from wifu import plan as plans
from wifu import report, unlike

REASON = "the batches left out took far longer than those that count"
STEADY = 'measure = "steady"\n' + PLAN
EVEN = [1.0] * 11
HOLE = [12.0, 0.0, 0.01, 0.15, *[0.12] * 7]
"""How long each batch took: one with a hole at its end, which those behind it waited for."""


def found(folder: Path, spans: Sequence[float], start: float = 0.0, **more: Any) -> wifu.Results:
    """The first run of tcp-newreno has these batches, all others have even ones."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        protocol, run = scenario["flow"][0]["protocol"], scenario["run"]
        took = spans if (protocol, run) == ("tcp-newreno", 1) else EVEN
        ends = [start + sum(took[: n + 1]) for n in range(len(took))]
        flow = {
            "protocol": protocol, "app": "bulk", "start_s": start, "first_byte_s": start + 0.1,
            "finished": False, "last_byte_s": ends[-1], "bytes": len(took) * (100_000 + run),
            "batches": [100_000 + run] * len(took),
        }  # fmt: skip
        outcome = {
            "sim_seconds": ends[-1], "end": "packets", "batches_end_s": ends,
            "flows": [{**flow, "id": n} for n in (1, 2)], "trace_hash": f"{protocol}{run}", **more,
        }  # fmt: skip
        return FakeResult(outcome, {})

    text = STEADY.replace('"aggregate", "jain"', '"goodput", "aggregate", "jain"')
    return wifu.campaign(plans.parse(text), folder / "r", runner=runner)


@pytest.mark.parametrize("metric", ["goodput", "aggregate", "jain", "sum_rates"])
def test_what_a_batch_left_out_held_back_is_told_and_nothing_is_coloured(
    tmp_path: Path, metric: str
) -> None:
    results = found(tmp_path, HOLE)
    assert REASON in unlike.reasons(results, results.plan.cells, metric)
    assert report.best_of(results, metric) == set()
    words = said(results, metric)
    assert "In 1 of 16 runs" in words and "neither colour nor bold" in words
    # 20 batches of 100001 octets in 1 s, of 22 in 13 s.
    assert "tcp-newreno run 1: 16 Mb/s in steady state, 1.35 Mb/s by all of its time" in words


def test_reports_and_comparisons_name_the_run(tmp_path: Path) -> None:
    results = found(tmp_path, HOLE)
    assert "tcp-newreno run 1: 16 Mb/s in steady state" in report.render(results, [])
    assert REASON in json.dumps(results.comparison())
    assert "tcp-newreno run 1: 16 Mb/s" in results.plot("bars", metric="goodput").caption


@pytest.mark.parametrize(
    ("spans", "start", "told"),
    [
        (EVEN, 0.0, False),
        ([4.0, *[1.0] * 10], 0.0, False),  # a slow start
        ([8.0, *[1.0] * 10], 0.0, False),  # a slower one, without a hole
        ([8.0, 0.1, *[1.0] * 10], 0.0, True),
        ([5.5, 0.0, *[1.0] * 99], 0.0, True),  # of so many the rate hardly tells
        ([4.0, *[1.0] * 3], 0.0, False),
        ([2.0, 1.0, 1.0, 0.1], 0.0, False),
        ([4.0, 0.1, 1.0, 1.0], 0.0, True),  # of so few the rate tells first
        ([4.0, 1.0, 1.0, 0.1], 0.0, False),  # a hole in the third, which counts
        ([9.0, 1.0, 1.0, 1.0, 6.0, 0.0, *[1.0] * 4], 0.0, False),
        (EVEN, 9.0, False),  # nobody was there before
    ],
)
def test_what_is_long(tmp_path: Path, spans: list[float], start: float, told: bool) -> None:
    results = found(tmp_path, spans, start)
    assert (REASON in unlike.reasons(results, results.plan.cells, "goodput")) == told
    assert ("in steady state" in said(results, "goodput")) == told


def test_other_measures_and_metrics_have_nothing_of_it(tmp_path: Path) -> None:
    steady = found(tmp_path, HOLE)
    assert REASON not in unlike.reasons(steady, steady.plan.cells, "delay")
    assert "in steady state" not in said(steady, "delay")
    alone = [c for c in steady.plan.cells if c.labels["protocol"] == "tcp-reno"]
    assert unlike.reasons(steady, alone, "goodput") == []
