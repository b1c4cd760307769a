"""What is said of shares of flows that finished where some never do."""

from pathlib import Path

import pytest
from fake import fake

import wifu
from wifu import cautions
from wifu import plan as plans

PLAN = """
name = "endless"
runs = 2
metrics = ["finished", "goodput"]
[scenario]
topology.words = "linear,2"
stop.time = "9s"
[[scenario.flow]]
protocol = "{protocol}"
app = "file"
bytes = "1M"
[[scenario.flow]]
OTHER
[vary]
protocol = ["tcp-reno", "tcp-newreno"]
"""
TCP = 'protocol = "{protocol}"'


def said(folder: Path, other: str, metric: str = "finished") -> str:
    plan = plans.parse(PLAN.replace("OTHER", other))
    results = wifu.campaign(plan, folder / "r", runner=fake)
    return " ".join(cautions.notes(results, plan.cells, metric))


@pytest.mark.parametrize(
    "other",
    [
        f'{TCP}\napp = "bulk"',
        TCP,
        f'{TCP}\napp = "http"\npause = "1s"',
        f'{TCP}\napp = "request"',
        f'{TCP}\napp = "onoff"\nrate = "1M"\non = "1s"\noff = "1s"',
        'protocol = "udp"\nrate = "100k"',
    ],
)
def test_flows_without_an_end_are_told(tmp_path: Path, other: str) -> None:
    told = "Flow 2 has no end, and is never finished: no more than 50 % can be."
    assert told in said(tmp_path / "all", other)
    alone = said(tmp_path / "two", other, "finished@2")
    assert "Flow 2 has no end, and is never finished." in alone
    assert "no end" not in said(tmp_path / "one", other, "finished@1")
    assert "no end" not in said(tmp_path / "rate", other, "goodput")


@pytest.mark.parametrize(
    "other",
    [
        f'{TCP}\napp = "bulk"\nstop_at = "3s"',
        f'{TCP}\napp = "stream"\ntime = "3s"',
        f'{TCP}\napp = "http"\npause = "1s"\ncount = 3',
        f'{TCP}\napp = "request"\ncount = 3',
    ],
)
def test_of_flows_with_an_end_nothing_is_said(tmp_path: Path, other: str) -> None:
    assert "no end" not in said(tmp_path, other)


def test_datagrams_that_are_lost_keep_a_flow_from_its_end(tmp_path: Path) -> None:
    other = 'protocol = "udp"\nrate = "100k"\nbytes = "100k"'
    told = said(tmp_path / "all", other)
    assert "Flow 2 is of datagrams, which are finished only if none was lost." in told
    assert "no end" not in told


def test_levels_with_unlike_many_flows_without_an_end(tmp_path: Path) -> None:
    text = PLAN.replace("OTHER", f'{TCP}\napp = "bulk"')
    text = text[: text.index("[vary]")].replace("{protocol}", "tcp-reno")
    text += '[vary.ends]\nnever = {}\nsoon = { "flow.2.stop_at" = "3s" }'
    plan = plans.parse(text)
    results = wifu.campaign(plan, tmp_path / "r", runner=fake)
    told = " ".join(cautions.notes(results, plan.cells, "finished"))
    assert "never finished: no more than 50 % to 100 %, by cell, can be." in told
