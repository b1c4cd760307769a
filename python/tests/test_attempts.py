"""RTS changes how often frames are tried, which is no effect of RTS."""

import json
from pathlib import Path

import pytest
from test_cautions import said

import wifu
from wifu import alike, comparisons, report
from wifu import plan as plans
from wifu.screen import dry, screen
from wifu.store import Store

TEXT = """
name = "rts"
runs = 6
pair = "rts"
metrics = ["goodput", "mac_retries"]
[scenario]
topology = { words = "linear,2,snr=6.6,rate=12M" }
stop.time = "1s"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "tcp-newreno"
[vary.rts]
off = {}
on = { "radio.rts_threshold" = 0 }
on7 = { "radio.rts_threshold" = 0, "radio.attempts_long" = 7 }
"""


def levels(table: str, text: str = TEXT) -> plans.Plan:
    return plans.parse(text[: text.index("[vary.rts]")] + table)


def test_rts_by_default_tries_data_less_often_and_that_is_told() -> None:
    """The level that sets both equal is what RTS alone changes, and no warning stands there."""
    (found,) = alike.differences(plans.parse(TEXT))
    assert (found.level, found.attempts) == ("on", ("4 (RTS 7)", "7"))
    assert found.sentence() == (
        "on and off differ in more than their names say: the scenario's radio.rts_threshold is 0 "
        "for on, not set for off; frames with a whole packet are tried up to 4 (RTS 7) times for "
        "on, 7 for off, since after an RTS radio.attempts_long is what counts."
    )
    assert json.loads(json.dumps(found.to_json()))["attempts"] == ["4 (RTS 7)", "7"]


@pytest.mark.parametrize(
    "table",
    [
        '[vary]\n"radio.rts_threshold" = [2347, 0]',  # the axis is the key
        '[vary.rts]\noff = { "radio.rts_threshold" = 2347 }\non = { "radio.rts_threshold" = 500 }',
    ],
)
def test_however_the_axis_is_written(table: str) -> None:
    text = TEXT.replace('"rts"\nmetrics', '"radio.rts_threshold"\nmetrics')
    (found,) = alike.differences(levels(table, TEXT if "vary.rts" in table else text))
    assert found.attempts == ("4 (RTS 7)", "7")


def test_what_a_template_sets_is_looked_at_as_well() -> None:
    text = TEXT.replace("rate=12M", "rate=12M,rts_threshold={rts}")
    (found,) = alike.differences(levels("[vary]\nrts = [2347, 0]", text))
    assert found.attempts == ("4 (RTS 7)", "7")
    # Short frames alone are announced by nothing.
    assert alike.differences(levels("[vary]\nrts = [2347, 1600]", text)) == []


def test_limits_that_the_topology_says_count() -> None:
    """With as many attempts after an RTS as without, RTS is all that differs."""
    text = TEXT.replace("topology = { words", "topology.words").replace('12M" }', '12M"')
    table = '[vary.rts]\noff = {}\non = { "radio.rts_threshold" = 0 }'
    for limit, told in (("attempts = 4", None), ("attempts_long = 9", ("9 (RTS 7)", "7"))):
        own = text.replace("stop.time", f"topology.radio = {{ {limit} }}\nstop.time")
        found = alike.differences(levels(table, own))
        assert [d.attempts for d in found] == ([] if told is None else [told])


@pytest.mark.parametrize("key", ["radio", "topology.radio"])
def test_a_limit_that_makes_both_try_as_often_is_no_difference_wherever_it_stands(key: str) -> None:
    table = (
        f'[vary.rts]\non = {{ "{key}.rts_threshold" = 0, "{key}.attempts_long" = 7 }}\noff = {{}}'
    )
    assert alike.differences(levels(table)) == []


def test_an_axis_of_attempts_is_no_news() -> None:
    assert alike.differences(levels('[vary.rts]\nx = { "radio.attempts" = 2 }\ny = {}')) == []
    both = '[vary.rts]\nx = { "radio.attempts" = 2, "radio.rts_threshold" = 0 }\ny = {}'
    (found,) = alike.differences(levels(both))
    # RTS is given up sooner than data are without.
    assert found.attempts == ("7", "4 (RTS 2)")
    assert dict(found.scenario) == {"radio.rts_threshold": ("not set", "0")}


def test_the_dry_run_warns_of_it(tmp_path: Path) -> None:
    with screen.capture() as told:
        dry(plans.parse(TEXT), Store(tmp_path / "r"), as_json=False)
    words = " ".join(told.get().split())
    assert "tried up to 4 (RTS 7) times for on, 7 for off" in words and "on7 and off" not in words


@pytest.mark.parametrize(
    "table",
    [
        "[vary.rts]\noff = {}\non = { 'radio.rts_threshold' = 0 }",
        "[vary]\n'radio.attempts' = [2, 7]",
    ],
)
def test_retries_up_to_other_limits_have_no_colour(tmp_path: Path, table: str) -> None:
    text = TEXT if "vary.rts" in table else TEXT.replace('"rts"\n', '"radio.attempts"\n')
    found = wifu.campaign(levels(table, text), tmp_path / "r")
    row = found.compare("mac_retries").iloc[0]
    assert row["why"].startswith("frames are tried up to other limits, or after an RTS")
    assert row["p_holm"] < 0.05 or "rts" in table, "what is tested here"
    assert report.best_of(found, "mac_retries") == set()
    assert "who gives up sooner has fewer" in said(found, "mac_retries")
    text = comparisons._ratios(found, found.compare("mac_retries"), "mac_retries")
    assert f"no colour: {row['why']}" in text
    assert "class='up'" not in text and "class='down'" not in text
    assert "gives up sooner" not in said(found, "goodput")


def test_retries_at_the_same_limits_have_colour(tmp_path: Path) -> None:
    """How often a frame fails is what they tell then."""
    table = '[vary.rts]\nnear = { "topology.words" = "linear,2,snr=20,rate=12M" }\nfar = {}'
    found = wifu.campaign(levels(table), tmp_path / "r")
    assert "why" not in found.compare("mac_retries")
    assert report.best_of(found, "mac_retries") == {"near"}


def test_rts_on_another_axis_than_the_pair_is_told_too() -> None:
    """Who compares protocols, and looks along RTS, compares other limits as well."""
    text = """
name = "along"
runs = 2
[scenario]
topology.words = "linear,3"
stop.time = "1s"
{more}
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "{{protocol}}"
[vary]
protocol = ["tcp-newreno", "tcp-sack"]
"radio.rts_threshold" = ["off", 0]
"""
    (told,) = alike.differences(plans.parse(text.format(more="")))
    assert "tried up to 4 (RTS 7) times for 0, 7 for off" in told.sentence()
    same = "radio.attempts = 7\nradio.attempts_long = 7"
    assert list(alike.differences(plans.parse(text.format(more=same)))) == []
