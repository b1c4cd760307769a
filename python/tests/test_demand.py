"""What flows wanted, and when receivers answered, is not what was carried."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake import FakeResult, fake
from test_cautions import said

import wifu
from wifu import demand, unlike
from wifu import plan as plans

PLAN = """
name = "demand"
runs = 6
pair = "protocol"
metrics = ["jain", "rtt_p95@1", "goodput@2"]
[scenario]
topology.words = "linear,2"
stop.time = "30s"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "{protocol}"
app = "bulk"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "SECOND"
app = "APP"
[vary]
protocol = [LEVELS]
"""


def made(
    folder: Path, second: str = "{protocol}", app: str = "bulk",
    levels: str = '"tcp-newreno", "tcp-cubic"', share: float = 1.0,
) -> wifu.Results:  # fmt: skip
    def runner(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for flow, spec in zip(outcome["flows"], scenario["flow"], strict=True):
            if spec["protocol"] == "udp":
                cubic = scenario["flow"][0]["protocol"] == "tcp-cubic"
                flow |= {"protocol": "udp", "sent_bytes": 1000, "bytes": 1000}
                flow["bytes"] = int(1000 * share) if cubic else 1000
        return FakeResult(outcome, {})

    text = PLAN.replace("SECOND", second).replace("APP", app).replace("LEVELS", levels)
    return wifu.campaign(plans.parse(text), folder / "r", runner=runner)


WANT = "some flows want no more than they get"


@pytest.mark.parametrize(("app", "told"), [("onoff", True), ("request", True), ("bulk", False)])
def test_who_pauses_beside_who_takes_all_has_no_fair_share(
    tmp_path: Path, app: str, told: bool
) -> None:
    found = made(tmp_path, app=app)
    assert (WANT in unlike.reasons(found, found.plan.cells, "jain")) is told
    assert ("Flow 2 pauses by the application" in said(found, "jain")) is told
    assert WANT not in unlike.reasons(found, found.plan.cells, "goodput@1")


LATE = "as many datagrams arrived, and the last one later"


@pytest.mark.parametrize(("share", "told"), [(1.0, True), (0.9, False)])
def test_goodput_of_datagrams_that_all_arrived_is_their_delay(
    tmp_path: Path, share: float, told: bool
) -> None:
    found = made(tmp_path, second="udp", app="stream", share=share)
    assert (LATE in unlike.reasons(found, found.plan.cells, "goodput@2")) is told
    assert ("by when the last one arrived" in said(found, "goodput@2")) is told
    assert LATE not in unlike.reasons(found, found.plan.cells, "goodput@1")


HELD = "receivers hold acknowledgements back unlike each other"


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        ('"tcp-newreno", "tcp-cubic"', False),
        ('"tcp-newreno", "tcp-newreno,ack_every=1"', True),
        ('"tcp-newreno", "tcp-linux"', True),
        ('"tcp-newreno", "hxh"', False),
    ],
)
def test_round_trips_have_the_timers_of_receivers_in_them(
    tmp_path: Path, levels: str, told: bool
) -> None:
    found = made(tmp_path, levels=levels)
    assert (HELD in unlike.reasons(found, found.plan.cells, "rtt_p95@1")) is told
    assert ("Receivers do not acknowledge alike" in said(found, "rtt_p95@1")) is told
    assert HELD not in unlike.reasons(found, found.plan.cells, "min_rtt")


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        # With one acknowledgement for each segment nobody waits for a timer.
        ('"tcp-newreno,ack_every=1", "tcp-newreno,ack_every=1,ack_delay=50ms"', False),
        ('"tcp-newreno", "tcp-newreno,ack_delay=50ms"', True),
        ('"tcp-tahoe,ack_every=1", "tp-alpha"', False),
    ],
)
def test_a_timer_that_nobody_waits_for_is_in_no_round_trip(
    tmp_path: Path, levels: str, told: bool
) -> None:
    found = made(tmp_path, levels=levels)
    for metric in ("rtt_p95@1", "srtt"):
        assert (HELD in unlike.reasons(found, found.plan.cells, metric)) is told
        assert ("Receivers do not acknowledge alike" in said(found, metric)) is told


SLOW, PROMPT = "tcp-newreno", "tcp-newreno,ack_every=1"


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ((SLOW, PROMPT), (PROMPT, SLOW), False),
        ((SLOW, PROMPT, PROMPT), (SLOW, SLOW, PROMPT), True),
        ((SLOW, SLOW), (SLOW, PROMPT), True),
    ],
)
def test_the_order_of_flows_is_no_difference_of_their_receivers(
    tmp_path: Path, one: tuple[str, ...], other: tuple[str, ...], told: bool
) -> None:
    """A mean over flows does not know it; of how many each is it does."""
    text = PLAN[: PLAN.index("[[scenario.flow]]")].replace('"rtt_p95@1", "goodput@2"', '"srtt"')
    text = text.replace('pair = "protocol"', 'pair = "way"')
    text += '[[scenario.flow]]\nfrom = "n1"\nto = "n2"\nprotocol = "tcp-reno"\n' * len(one)
    text += "[vary.way]\n"
    for name, protocols in (("a", one), ("b", other)):
        keys = [f'"flow.{n}.protocol" = "{words}"' for n, words in enumerate(protocols, 1)]
        text += f"{name} = {{ {', '.join(keys)} }}\n"
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    assert (HELD in unlike.reasons(found, found.plan.cells, "srtt")) is told
    assert ("Receivers do not acknowledge alike" in said(found, "srtt")) is told
    if told and len(one) == 3:
        assert "every, ack_every 1 (67% of the flows)" in said(found, "srtt")


def test_all_flows_of_the_wired_network_have_one_protocol() -> None:
    text = """
name = "wired"
runner = "mock"
pair = "protocol"
deterministic = true
metrics = ["goodput"]
[scenario]
protocol = "{protocol}"
flows = 2
bytes = "100k"
[vary]
protocol = ["tcp-newreno", "tcp-linux"]
"""
    plan = plans.parse(text)
    results: Any = SimpleNamespace(plan=plan)
    for metric in ("srtt", "srtt@1", "srtt@2"):
        assert demand.held(results, plan.cells, metric), metric


def test_flows_that_all_have_rates_want_what_they_say() -> None:
    """Datagrams of unlike rates share nothing evenly, and need not."""
    text = """
name = "rates"
runs = 2
metrics = ["jain", "weakest"]
[scenario]
topology.words = "linear,3"
stop.time = "1s"
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "udp"
rate = "300k"
[[scenario.flow]]
from = "n3"
to = "n1"
protocol = "udp"
rate = "{rate}"
[vary]
"radio.rate" = ["24M", "6M"]
"""
    apart = plans.parse(text.replace("{rate}", "6M"))
    assert demand._content(apart.cells, "jain") == [1, 2]
    alike = plans.parse(text.replace("{rate}", "300k"))
    assert demand._content(alike.cells, "jain") == []


def test_one_demand_may_be_written_in_several_ways() -> None:
    late = {"protocol": "udp", "rate": "2000k", "start": "5s", "time": "25s", "app": "bulk"}
    assert demand._demand(late) == demand._demand({"protocol": "udp", "rate": "2M", "time": "30s"})
    assert demand._demand(late) != demand._demand({"protocol": "udp", "rate": "3M"})
