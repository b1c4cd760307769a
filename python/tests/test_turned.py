"""Cross traffic that is UDP in some levels and TCP in others."""

from __future__ import annotations

import pytest
from fake import fake

import wifu
from wifu import plan as plans
from wifu import report, turned, unlike

TEXT = """
name = "turned"
runs = 5
pair = "cross"
baseline = "udp"
metrics = ["goodput", "aggregate", "jain", "finished"]
[scenario]
topology.words = "linear,2"
[[scenario.flow]]
protocol = "tcp-reno"
copies = 2
[[scenario.flow]]
protocol = "{cross}"
[vary]
cross = ["udp", "tcp-reno"]
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    """Flow 3 is of datagrams in one level; flows 1 and 2 have the same TCP in both."""
    return wifu.campaign(plans.parse(TEXT), tmp_path_factory.mktemp("turned") / "r", runner=fake)


@pytest.mark.parametrize("metric", ["goodput", "aggregate", "jain", "finished"])
def test_numbers_of_all_flows_are_of_different_ones(results: wifu.Results, metric: str) -> None:
    cells = results.plan.cells
    words = "flows are of datagrams in some, which are left out there"
    assert words in unlike.reasons(results, cells, metric)
    assert turned.words(results, cells, metric).startswith("Flow 3 is of datagrams in some of")
    assert report.best_of(results, metric) == set()


def test_a_flow_alone_is_of_one_flow(results: wifu.Results) -> None:
    assert not turned.turned(results, results.plan.cells, "goodput@3")
    assert not turned.turned(results, results.plan.cells, "mac_loss")
