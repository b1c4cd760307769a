"""Percentiles of what requests took: of a run, as its median is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cautions import PLAN, made, said

import wifu
from wifu import cutoff, metrics, plan, unlike
from wifu.metrics import Measure

TEXT = PLAN.replace('"aggregate", "jain", "sum_rates"', '"delay_p95", "delay_p99@1"')
TEXT = TEXT.replace('app = "file"\nbytes = "1M"', 'app = "request"')
FEW = "of too few values for such a percentile"


def asking(count: int, slowest: float = 9.0, **more: Any) -> dict[str, Any]:
    """All took a second but the last."""
    took = [1.0] * (count - 1) + [slowest]
    each = [{"start_s": 10.0 * n, "delay_s": d, "bytes": 1} for n, d in enumerate(took)]
    return {"app": "request", "requests": each, "last_byte_s": 50.0, **more}


def found(folder: Path, one: int, other: int, **more: Any) -> wifu.Results:
    flows = {
        name: [asking(n, **more)] * 2 for name, n in (("tcp-reno", one), ("tcp-newreno", other))
    }
    return made(folder, flows, TEXT)


def test_they_are_of_all_requests_of_a_run_and_of_a_flow_alone() -> None:
    flows = [{**asking(60), "id": 1}, {**asking(40, 5.0), "id": 2}]
    outcome = {"sim_seconds": 1000.0, "flows": flows}
    every = [r["delay_s"] for flow in flows for r in flow["requests"]]
    row = metrics.run_row(outcome, Measure(), ["delay_p95", "delay_p99", "delay_p99@2"])
    assert row["delay_p95"] == pytest.approx(np.percentile(every, 95)) == 1.0
    assert row["delay_p99"] == pytest.approx(np.percentile(every, 99))
    assert row["delay_p99@2"] == pytest.approx(np.percentile([1.0] * 39 + [5.0], 99))
    assert metrics.column("delay_p95") == "delay_p95_s"
    assert "not the percentile of all" in metrics.RUN_METRICS["delay_p95"].words()


@pytest.mark.parametrize(("one", "other", "few95", "few99"), [
    (50, 60, False, True), (9, 60, True, True), (100, 120, False, False),
])  # fmt: skip
def test_of_too_few_there_is_none(
    tmp_path: Path, one: int, other: int, few95: bool, few99: bool
) -> None:
    """Twenty of a run, of both flows together, for 95 %; a hundred of a flow alone for 99."""
    results = found(tmp_path, one, other)
    for metric, few in (("delay_p95", few95), ("delay_p99@1", few99)):
        assert (FEW in unlike.reasons(results, results.plan.cells, metric)) is few, metric
        assert ("hardly less than the greatest of them" in said(results, metric)) is few
    if few95:
        words = "95 % are below by 18 to 120 transfers and requests per run on the mean"
        assert words in said(results, "delay_p95")
    assert FEW not in unlike.reasons(results, results.plan.cells, "delay")


def test_requests_that_were_cut_off_count_with_their_time_so_far(tmp_path: Path) -> None:
    """As in the mean: who is stuck has the quick answers left."""
    results = found(tmp_path, 30, 30, finished=False, under_way_s=12.0)
    cell = results.plan.cells[0]
    assert cutoff.runs(results, cell, "delay_p95") == set(range(1, 9))
    values = [1.0] * 58 + [9.0] * 2 + [48.0] * 2
    assert cutoff.at_least(results, cell, 1, "delay_p95") == pytest.approx(
        np.percentile(values, 95)
    )
    # However long the last two take, 95 % are below that; 99 % are not.
    assert not cutoff.least(results, cell, "delay_p95") and cutoff.least(results, cell, "delay_p99")
    assert "numbers are the same" in cutoff.sentence(results, results.plan.cells, "delay_p95")
    assert "≥" in cutoff.sentence(results, results.plan.cells, "delay_p99")
    for share, of_all in ((95, True), (99, False)):
        column = results.runs[f"delay_p{share}_s"]
        assert column.tolist() == pytest.approx([np.percentile(values, share)] * 16)
        finished = results.runs[f"delay_p{share}_finished_s"]
        assert (finished == column).all() == of_all
    assert any("`delay_p95` is the least" in w for w in cutoff.warnings(results.plan))


def test_datagrams_beside_them_are_left_out(tmp_path: Path) -> None:
    udp = '[[scenario.flow]]\nprotocol = "udp"\nrate = "10k"\n[vary]'
    text = TEXT.replace("[vary]", udp)
    flows = [asking(30), asking(30), {"protocol": "udp", "last_byte_s": 9.0}]
    results = made(tmp_path, {"tcp-reno": flows, "tcp-newreno": flows}, text)
    assert "datagrams (flow 3) are left out" in said(results, "delay_p95")


def test_no_axis_is_called_like_their_columns() -> None:
    text = TEXT.replace("[vary]", "[vary]\ndelay_p95_finished_s = [1, 2]")
    with pytest.raises(wifu.PlanError, match="delay_p95_finished_s"):
        plan.parse(text)
