"""Queues of radios that are varied in front of rings which hold what waits."""

import json
from pathlib import Path

import pytest
from fake import fake

import wifu
from wifu import outlets, report, rings
from wifu import plan as plans
from wifu.screen import dry, screen
from wifu.store import Store

TEXT = """
name = "queues"
runs = 2
[scenario]
topology = {{ words = "{words}" }}
{more}
stop.time = "1s"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "tcp-newreno"
[vary]
"radio.queue" = {queues}
"""


def plan(words: str = "linear,3", more: str = "", queues: str = "[10, 100]") -> plans.Plan:
    return plans.parse(TEXT.format(words=words, more=more, queues=queues))


def test_queues_before_a_longer_ring_are_told_with_what_waits_together() -> None:
    (told,) = rings.warnings(plan())
    assert "10 to 100 packets long here, in front of a driver's ring that holds 200" in told
    assert "210 to 300 packets wait" in told and "radio.ring = 2" in told
    (words,) = rings.warnings(plan("linear,3,ring=50", queues="[20, 60]"))
    assert "that holds 50: 70 to 110 packets wait" in words


@pytest.mark.parametrize(
    ("words", "more", "queues"),
    [
        ("linear,3", "radio.ring = 2", "[10, 100]"),
        ("linear,3", "", "[300, 1000]"),
        ("linear,3", "", "[10]"),
    ],
)
def test_queues_that_do_the_work_are_not_told(words: str, more: str, queues: str) -> None:
    assert rings.warnings(plan(words, more, queues)) == []


def test_where_no_node_has_a_radio_its_queue_is_in_vain() -> None:
    (told,) = rings.warnings(plan("linear,3,wire=8Mb/s"))
    assert told.startswith("radio.queue changes nothing here, where no node has a radio: wires")
    (told,) = rings.warnings(plan("linear,3,wire=8Mb/s", "radio.ring = 2\nradio.attempts = 3"))
    assert told.startswith("radio.attempts, radio.queue, radio.ring change nothing here")
    text = TEXT.format(words="linear,3,wire=8Mb/s", more="", queues="[3, 4]")
    (told,) = rings.warnings(plans.parse(text.replace("radio.queue", "radio.attempts")))
    assert told == "radio.attempts changes nothing here, where no node has a radio."


def test_it_is_told_before_and_after_a_run(tmp_path: Path) -> None:
    (words,) = rings.warnings(given := plan())
    with screen.capture() as seen:
        dry(given, Store(tmp_path / "none"), as_json=False)
    assert words in " ".join(seen.get().split())
    found = wifu.campaign(given, tmp_path / "r", runner=fake)
    assert "in front of a driver&#x27;s ring that holds 200" in report.render(found, [])
    assert found.comparison()["queues"] == [words, *outlets.warnings(given)]


def test_dry_run_has_it_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dry(given := plan(), Store(tmp_path / "none"), as_json=True)
    assert json.loads(capsys.readouterr().out)["queues"] == [
        *rings.warnings(given),
        *outlets.warnings(given),
    ]


@pytest.mark.parametrize(
    ("protocol", "rings_of", "told"),
    [
        ("atp-adaptive", "[2, 200]", True),
        ("tp-alpha", "[2, 200]", True),
        ("tcp-newreno", "[2, 200]", False),
        ("atp", "[200]", False),
    ],
)
def test_rings_below_protocols_that_are_paced_by_them_are_told(
    protocol: str, rings_of: str, told: bool
) -> None:
    text = TEXT.format(words="linear,3", more="", queues=rings_of).replace(
        "radio.queue", "radio.ring"
    )
    found = rings.warnings(plans.parse(text.replace("tcp-newreno", protocol)))
    words = f"{protocol} sends by the delay of nodes, which counts from the driver's ring on"
    assert [one.startswith(words) for one in found] == [True] * told


QUEUES = """
name = "queues"
runs = 2
pair = "aqm"
[scenario]
topology.words = "linear,3,wire=10M,queue=100"
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "tcp-cubic"
[vary.aqm]
droptail = {}
red = { "host.queue.kind" = "red" }
"""


def test_that_transports_wait_at_their_own_queue_is_told_where_disciplines_are_compared() -> None:
    (told,) = outlets.warnings(plans.parse(QUEUES))
    assert told.startswith("a transport waits for room") and "(flow 1 at n1)" in told
    elsewhere = QUEUES.replace(
        '"host.queue.kind" = "red"', '"host.queue" = { kind = "red", nodes = ["n2"] }'
    )
    for text in (
        QUEUES.replace("tcp-cubic", "udp"),
        QUEUES.replace("droptail = {}", ""),
        elsewhere,
    ):
        assert outlets.warnings(plans.parse(text)) == []


def test_rings_shorter_than_an_emulated_one_are_told_there() -> None:
    given = plan("linear,3", "radio.ring = 2", "[5, 20]")
    assert rings.short(given) == ""
    told = rings.short(given.variant("emu"))
    assert "holds 4 to 8 packets where the plan's has 2: of short queues" in told
    assert told in rings.warnings(given.variant("emu"))
    assert rings.short(plan("linear,3", "radio.ring = 8", "[5, 20]").variant("emu")) == ""
