"""A total does not tell who got it."""

from pathlib import Path
from typing import Any

import pytest
from test_cautions import PLAN, made, said

import wifu
from wifu import cautions, unlike

TOLD = "flows starved, below 1 kb/s"
FED: dict[str, Any] = {"last_byte_s": 4.0, "connected_s": 0.1}
STARVED: dict[str, Any] = {"finished": False, "bytes": -900, "connected_s": 0.1}
"""Which `made` gives a thousand bytes in each run."""


def found(folder: Path, reno: list[dict[str, Any]], newreno: list[dict[str, Any]]) -> wifu.Results:
    return made(folder, {"tcp-reno": reno, "tcp-newreno": newreno}, PLAN)


def test_a_total_whose_winner_starves_a_flow_says_so(tmp_path: Path) -> None:
    results = found(tmp_path, [FED, FED], [{**FED, "last_byte_s": 1.0}, STARVED])
    for metric in ("aggregate", "goodput", "sum_rates"):
        told = said(results, metric)
        assert f"8 of 32 {TOLD} (by cell: tcp-newreno 8)" in told
        assert "`starved`, `lowest`" in told
    # It is what the flows carried all the same.
    assert unlike.reasons(results, results.plan.cells, "aggregate") == []
    assert TOLD not in said(results, "goodput@1")
    assert TOLD not in " ".join(cautions.notes(results, results.plan.cells[:1], "aggregate"))


@pytest.mark.parametrize("flows", [[FED, FED], [FED, STARVED], [STARVED, STARVED]])
def test_where_levels_starve_as_many_nothing_is_said(
    tmp_path: Path, flows: list[dict[str, Any]]
) -> None:
    assert TOLD not in said(found(tmp_path, flows, flows[::-1]), "aggregate")


def test_a_flow_alone_takes_from_nobody(tmp_path: Path) -> None:
    assert TOLD not in said(found(tmp_path, [FED], [STARVED]), "aggregate")


def test_a_total_of_which_one_has_nearly_all_says_so(tmp_path: Path) -> None:
    """Who has little, and does not starve by a thousand bits per second, is no less shut out."""
    rich: dict[str, Any] = {**FED, "bytes": 1_900_000}
    poor: dict[str, Any] = {**FED, "bytes": 100_000}
    results = found(tmp_path, [FED, FED], [rich, poor])
    words = "the one with most has 95% of the bytes in tcp-newreno and 50% in tcp-reno"
    for metric in ("aggregate", "goodput", "sum_rates"):
        assert words in said(results, metric) and TOLD not in said(results, metric)
    assert words not in said(results, "jain") + said(results, "goodput@1")
