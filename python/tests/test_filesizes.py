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
    for metric in ("delay", "delay_median", "delay_p95", "known"):
        assert (WHY in unlike.reasons(found, found.plan.cells, metric)) is told
        assert ("what is smaller takes less time" in said(found, metric)) is told
    assert WHY not in unlike.reasons(found, found.plan.cells, "goodput")
    assert not len(filesizes.sizes(found, found.plan.cells, "goodput"))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("large", "told"), [(100_000, False), (200_000, True)])
def test_an_answer_that_was_cut_off_makes_others_no_larger(
    tmp_path: Path, large: int, told: bool, known: bool
) -> None:
    """Three answers and a half, beside twenty and a little: of one size, told of each or not."""

    def cut(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        slow = "newreno" not in scenario["flow"][0]["protocol"]
        for flow in outcome["flows"]:
            size, count = (100_000, 3) if slow else (large, 20)
            flow |= {"app": "request", "finished": False, "bytes": int(size * (count + 0.5))}
            flow["requests"] = [
                {"start_s": 0.02 * n, "delay_s": 0.01} | ({"bytes": size} if known else {})
                for n in range(count)
            ]
        return FakeResult(outcome, {})

    text = CHAIN.replace('"goodput", "jain", "srtt"', '"delay"')
    text = text.replace("copies = 2", 'copies = 2\napp = "request"')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=cut)
    assert (WHY in unlike.reasons(found, found.plan.cells, "delay")) is told
    (sizes, *_) = [filesizes.sizes(found, [cell], "delay") for cell in found.plan.cells]
    assert sizes["low"].iloc[0] <= 100_000 <= sizes["high"].iloc[0]


def test_files_after_the_last_that_counts_make_those_before_no_larger(tmp_path: Path) -> None:
    """With `stop.requests` flows list so many, and have the bytes of all."""

    def first(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        quick = "newreno" in scenario["flow"][0]["protocol"]
        for flow in outcome["flows"]:
            flow |= {"app": "http", "finished": False, "bytes": 500_000 if quick else 30_000}
            flow["requests"] = [
                {"start_s": 0.02 * n, "bytes": 10_000 + n * 1000, "delay_s": 0.01} for n in range(3)
            ]
        return FakeResult(outcome, {})

    text = CHAIN.replace('"goodput", "jain", "srtt"', '"delay"').replace(
        "copies = 2", 'copies = 2\napp = "http"'
    )
    text = text.replace("[scenario]\n", "[scenario]\nstop.requests = 3\n")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=first)
    cells = found.plan.cells
    sizes = filesizes.sizes(found, cells, "delay")
    assert sizes["low"].tolist() == sizes["high"].tolist() == [11_000] * len(cells)
    assert WHY not in unlike.reasons(found, cells, "delay")
    # Of results of an older lab nobody knows.
    found.flows = found.flows.drop(columns="requests_bytes")
    assert not len(filesizes.sizes(found, cells, "delay"))
    assert WHY not in unlike.reasons(found, cells, "delay")
