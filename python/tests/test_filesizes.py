"""Times of files and answers that are not of one size are not compared."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake import CHAIN, FakeResult, fake
from test_cautions import said

import wifu
from wifu import filesizes, unlike
from wifu import plan as plans

PLAN = (
    CHAIN.replace('"goodput", "jain", "srtt"', '"delay", "goodput"')
    .replace('protocol = "{protocol}"', 'protocol = "tcp-reno"\napp = "file"\nbytes = "{size}"')
    .replace('protocol = ["tcp-reno", "tcp-newreno"]', "size = [SIZES]")
    .replace('baseline = "tcp-reno"', 'pair = "size"')
)
WHY = "files are more than 10 % larger in some"


def sized(scenario: dict[str, Any]) -> FakeResult:
    outcome = json.loads(fake(scenario).json())
    for flow, spec in zip(outcome["flows"], scenario["flow"], strict=True):
        flow["bytes"] = int(str(spec["bytes"]).replace("k", "000"))
    return FakeResult(outcome, {})


@pytest.mark.parametrize(("sizes", "told"), [("100, 105", False), ("100, 200", True)])
def test_larger_files_take_longer(tmp_path: Path, sizes: str, told: bool) -> None:
    levels = ", ".join(f'"{size.strip()}k"' for size in sizes.split(","))
    text = PLAN.replace("SIZES", levels)
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=sized)
    for metric in ("delay", "delay_median", "delay_p95"):
        assert (WHY in unlike.reasons(found, found.plan.cells, metric)) is told
        assert ("what is smaller takes less time" in said(found, metric)) is told
    assert WHY not in unlike.reasons(found, found.plan.cells, "goodput")
    assert not len(filesizes.sizes(found, found.plan.cells, "goodput"))
