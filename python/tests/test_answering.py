"""Questions that are larger than their answers: whose the numbers of such flows are."""

from pathlib import Path
from typing import Any

import pytest
from fake import FakeResult
from test_cautions import PLAN, said

import wifu
from wifu import plan as plans
from wifu import report, unlike

OURS = "of who answers, where the questions are larger"
TEXT = PLAN.replace('"aggregate", "jain", "sum_rates"', '"retransmissions", "delay"')
TEXT = TEXT.replace("copies = 2", 'from = "n1"\nto = "n3"')


def found(folder: Path, sizes: str, **more: Any) -> wifu.Results:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        run = int(scenario["run"])
        place = int(scenario["flow"][0]["protocol"] == "tcp-newreno")
        flow = {
            "id": 1, "from": "n1", "to": "n3", "protocol": scenario["flow"][0]["protocol"],
            "app": "request", "start_s": 0.0, "finished": True, "bytes": 4_000,
            "last_byte_s": 9.0 + run, "retransmissions": 3 * place, **more,
        }  # fmt: skip
        outcome = {"sim_seconds": 60.0, "end": "done", "flows": [flow], "nodes": [], "hops": []}
        return FakeResult(outcome | {"trace_hash": f"{place}{run}"}, {})

    text = TEXT.replace('app = "file"', f'app = "request"\n{sizes}').replace('bytes = "1M"', "")
    return wifu.campaign(plans.parse(text), folder / "r", runner=runner)


@pytest.mark.parametrize("base", ["retransmissions", "srtt", "rtt_p95", "retransmissions@1"])
def test_uploads_by_questions_are_not_compared_by_answers(tmp_path: Path, base: str) -> None:
    asked = {"bytes": 2_000_000, "retransmissions": 84, "timeouts": 2}
    results = found(tmp_path, 'request = "100k"\nresponse = 200', asked=asked)
    assert OURS in unlike.reasons(results, results.plan.cells, base)
    told = said(results, base)
    assert "of flow 1 the questions are larger" in told and "retransmitted, per run" in told
    assert " 84" in told
    assert results.flows["asked_bytes"].eq(2_000_000).all()
    assert OURS not in unlike.reasons(results, results.plan.cells, "delay")
    if base == "retransmissions":
        assert report.best_of(results, base) == set()
        assert "the questions are larger" in report.render(results, [])


def test_uploads_by_questions_have_no_rate_of_their_own(tmp_path: Path) -> None:
    """Who asks for 200 bytes by 100 kB has the goodput of 200 bytes."""
    results = found(tmp_path, 'request = "100k"\nresponse = 200')
    for metric in ("goodput", "aggregate", "starved", "goodput@1"):
        assert OURS in unlike.reasons(results, results.plan.cells, metric), metric
        assert "not in it (`asked_bytes` of results.parquet)" in said(results, metric)


def test_what_who_asks_repeated_is_told_where_answers_are_larger(tmp_path: Path) -> None:
    asked = {"bytes": 200, "retransmissions": 3, "timeouts": 3}
    results = found(tmp_path, 'request = 200\nresponse = "100k"', asked=asked, retransmissions=2)
    words = "who asks repeated more than a tenth of it, and is not counted"
    assert words in unlike.reasons(results, results.plan.cells, "retransmissions")
    assert "60% to 60% of both by cell (`asked_retransmissions`" in said(results, "retransmissions")
    assert words not in unlike.reasons(results, results.plan.cells, "loss")
    assert OURS not in unlike.reasons(results, results.plan.cells, "retransmissions")


def test_answers_that_are_larger_count_as_before(tmp_path: Path) -> None:
    results = found(tmp_path, "request = 200")
    assert OURS not in unlike.reasons(results, results.plan.cells, "retransmissions")
    assert "questions" not in said(results, "retransmissions")


def test_where_nobody_tells_what_was_asked_it_is_not_made_up(tmp_path: Path) -> None:
    """As on emulated radios."""
    results = found(tmp_path, 'request = "1M"')
    told = said(results, "retransmissions")
    assert "the questions are larger" in told and "retransmitted, per run" not in told


def test_who_writes_until_its_time_is_over_finishes_by_its_buffer(tmp_path: Path) -> None:
    """A small buffer is empty soon: that is no success."""
    reason = "flows whose bytes nobody told finish by their send buffers"

    def runner(scenario: dict[str, Any]) -> FakeResult:
        small = scenario["flow"][0]["protocol"] == "tcp-newreno"
        flow = {
            "id": 1, "from": "n1", "to": "n3", "protocol": scenario["flow"][0]["protocol"],
            "app": "stream", "start_s": 0.0, "finished": small,
            "bytes": 7_000_000 + 50_000 * scenario["run"], "last_byte_s": 8.0,
        }  # fmt: skip
        outcome = {"sim_seconds": 12.0, "end": "time", "flows": [flow], "nodes": [], "hops": []}
        return FakeResult(outcome | {"trace_hash": f"{small}{scenario['run']}"}, {})

    text = TEXT.replace('"retransmissions"', '"finished"')
    for n, (app, told) in enumerate(
        (
            ('app = "stream"\ntime = "8s"', True),
            ('app = "bulk"', False),  # who writes without an end never finishes
            ('app = "file"\nbytes = "7M"', False),
        )
    ):
        own = text.replace('app = "file"\nbytes = "1M"', app)
        found = wifu.campaign(plans.parse(own), tmp_path / str(n), runner=runner)
        assert (reason in unlike.reasons(found, found.plan.cells, "finished")) == told
        assert ("writes until a time that the plan says" in said(found, "finished")) == told
        assert (report.best_of(found, "finished") == set()) == told
