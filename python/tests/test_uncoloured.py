"""Why a comparison has no colour is said in words that the book explains."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake import CHAIN, FakeResult, fake
from typer.testing import CliRunner

import wifu
from wifu import cli, compared, report, stats, unlike
from wifu import plan as plans
from wifu.digits import number

BOOK = Path(__file__).parents[2] / "docs/src/lab.md"


def test_the_book_has_every_reason_word_for_word() -> None:
    _, _, rest = BOOK.read_text().partition("| why a cell has no colour |")
    lines = rest.splitlines()[2:]
    rows = lines[: next(n for n, line in enumerate(lines) if not line.startswith("|"))]
    assert [row.split("|")[1].strip() for row in rows] == list(compared.REASONS)
    assert len(set(compared.REASONS)) == len(compared.REASONS)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"cut": True}, compared.CUT),
        ({"n": 0}, compared.NONE),
        ({"identical": True}, compared.IDENTICAL),
        ({"p_holm": float("nan")}, compared.UNTESTED),
        ({"p_holm": 0.05}, compared.UNSURE),
        ({"low": 0.9}, compared.WITHIN),
        ({"low": 0.9, "p_holm": 0.05}, compared.UNSURE),
        ({"uneven": True, "why": unlike.REASONS[0].words}, unlike.REASONS[0].words),
        ({}, ""),
    ],
)
def test_what_has_no_colour_says_why(changed: dict[str, object], why: str) -> None:
    row = {"n": 8, "ratio": 1.2, "low": 1.1, "high": 1.3, "identical": False, "p_holm": 0.01}
    found = compared.told(row | changed, "goodput")
    assert (found.why, found.clear) == (why, not why)
    assert not why or why in compared.REASONS


def test_a_comparison_says_it_in_json(tmp_path: Path) -> None:
    def apart(scenario: dict[str, Any]) -> FakeResult:
        result = fake(scenario)
        for flow in result._outcome["flows"]:
            flow["min_rtt_s"] = flow["srtt_s"] / flow["goodput_bps"]
        return result

    text = CHAIN.replace('"goodput", "jain", "srtt"', '"min_rtt"').replace("runs = 5", "runs = 8")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=apart)
    rows = json.loads(json.dumps(found.comparison()))["tables"]["min_rtt"]
    assert [row["why"] for row in rows] == [
        "the smallest round-trip time is no merit of a protocol"
    ] * len(rows)


def test_that_all_finished_has_an_interval(tmp_path: Path) -> None:
    """Eight of eight are no certainty: of as many more one in three may be missing."""
    text = CHAIN.replace('"goodput", "jain", "srtt"', '"finished"').replace("runs = 5", "runs = 8")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    (cell, *_) = found.plan.cells
    share = found.interval("finished", cell)
    assert (share.estimate, share.n, share.method) == (1.0, 8, "Wilson")
    assert [share.low, share.high] == pytest.approx([8 / (8 + 1.959964**2), 1.0])
    assert "100 <span class='pm'>68 to 100</span>" in report._pivot(found, "finished")
    none = stats.wilson(0, 8)
    assert [none.low, none.high] == pytest.approx([0.0, 1 - share.low])
    assert stats.wilson(3, 8).low > 0.1 and stats.wilson(3, 8).high < 0.7


def test_a_table_says_of_how_many_runs_it_is(tmp_path: Path) -> None:
    """Above all of them stands how many runs there were."""

    def once(scenario: dict[str, Any]) -> FakeResult:
        result = fake(scenario)
        for flow in result._outcome["flows"]:
            flow["srtt_s"] = flow["srtt_s"] if scenario["run"] == 1 else None
        return result

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=once)
    assert "n = 5 runs in every cell" in report.render(found, [])
    table = report._pivot(found, "srtt")
    assert table.count("<span class='pm'>n = 1</span>") == 4
    assert "n = " not in report._pivot(found, "goodput")
    # Of one run each nothing more is to be said.
    one = plans.parse(CHAIN.replace("runs = 5", "runs = 1"))
    single = wifu.campaign(one, tmp_path / "one", runner=fake)
    assert "n = " not in report._pivot(single, "srtt")


def test_what_is_starved_is_said_where_it_is_shown() -> None:
    done = CliRunner().invoke(cli.app, ["list", "metrics"])
    assert "starved (below 1 kb/s)" in done.output


@pytest.mark.parametrize(
    ("value", "half", "shown"),
    [
        (-0.3, 12.0, "-0.3"),
        (0.6, 12.0, "0.6"),
        (0.04, 1.2, "0.04"),
        (-1e-9, 12.0, "0.00"),
        (0.0, 12.0, "0"),
        (-14.32, 12.0, "-14"),
        (1.0078, 0.003, "1.0078"),
    ],
)
def test_a_small_number_beside_a_wide_interval_has_a_digit(
    value: float, half: float, shown: str
) -> None:
    assert number(value, half) == shown
