"""Handlers that make the way worse for some of what is compared."""

from pathlib import Path

import pytest
from fake import CHAIN, fake
from test_cautions import said

import wifu
from wifu import plan as plans
from wifu import unlike

REASON = "handlers make the way worse for some alone"
PLAN = """
name = "passed by"
runs = 4
pair = "protocol"
metrics = ["goodput"]
[scenario]
topology.words = "linear,4"
[[scenario.handler]]
use = "{use}"
nodes = ["n2"]
{only}
[[scenario.flow]]
from = "n1"
to = "n4"
protocol = "{protocol}"
app = "bulk"
[vary]
protocol = [{protocols}]
"""


def made(
    folder: Path, protocols: str, only: str = "protocol = 6", use: str = "drop"
) -> wifu.Results:
    text = PLAN.replace("{protocols}", protocols).replace("{only}", only).replace("{use}", use)
    return wifu.campaign(plans.parse(text), folder / "r", runner=fake)


@pytest.mark.parametrize("other", ["hxh", "atp", "udp", "tp-alpha"])
def test_what_a_handler_never_sees_is_not_better_for_it(tmp_path: Path, other: str) -> None:
    found = made(tmp_path, f'"tcp-newreno,iw=4", "{other}"')
    cells = found.plan.cells
    assert REASON in unlike.reasons(found, cells, "goodput")
    told = said(found, "goodput")
    one, two = (cell.name for cell in cells)
    assert f"drop (protocol 6) sees the packets of flow 1 in {one}, and not in {two}" in told


@pytest.mark.parametrize(
    ("protocols", "only", "use"),
    [
        ('"tcp-newreno", "tcp-ap11"', "protocol = 6", "delay"),
        ('"tcp-newreno", "hxh"', "", "drop"),
        ('"tcp-newreno", "hxh"', 'protocol = "{protocol}"', "drop"),
        ('"tcp-newreno", "hxh"', "protocol = 6", "snoop"),  # what it is for
    ],
)
def test_who_meets_a_handler_alike_is_compared(
    tmp_path: Path, protocols: str, only: str, use: str
) -> None:
    found = made(tmp_path, protocols, only, use)
    assert REASON not in unlike.reasons(found, found.plan.cells, "goodput")
    assert "Handlers are for packets" not in said(found, "goodput")


def test_plans_without_handlers_have_nothing_of_it(tmp_path: Path) -> None:
    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=fake)
    assert REASON not in unlike.reasons(found, found.plan.cells, "goodput")
