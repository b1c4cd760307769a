"""Comparisons say in what their sides differ besides their names."""

import json
from pathlib import Path

import pytest
from fake import fake

import wifu
from wifu import alike, diverge, report, taken
from wifu import plan as plans
from wifu.campaign import Summary
from wifu.screen import dry, screen, tell, warn_of_differences
from wifu.store import Store

TEXT = """
name = "mixed"
runs = 3
baseline = "tcp-sack"
[scenario]
topology.words = "linear,2"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "{protocol}"
[vary]
protocol = ["tcp-sack", "tcp-cubic,profile=wifu-tahoe"]
"""

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def with_levels(levels: str) -> plans.Plan:
    return plans.parse(TEXT.replace('["tcp-sack", "tcp-cubic,profile=wifu-tahoe"]', levels))


def test_a_profile_that_one_side_has_is_told_with_what_it_changes() -> None:
    plan = plans.parse(TEXT)
    (found,) = alike.differences(plan)
    assert found.profiles == ("wifu-tahoe", "rfc-modern")
    assert found.parameters["rcv_wnd"] == ("65535", "4194304")
    assert found.parameters["ack.ack_every"] == ("1", "2")
    # What makes CUBIC CUBIC is no news.
    assert "congestion" not in found.parameters
    assert "profile wifu-tahoe, not rfc-modern; rcv_wnd 65535, not 4194304" in found.sentence()
    assert json.loads(json.dumps(found.to_json()))["parameters"]["snd_buf"] == ["131071", "4194304"]
    assert alike.names(plan, "protocol") == {
        "tcp-sack": "tcp-sack (rfc-modern)",
        "tcp-cubic,profile=wifu-tahoe": "tcp-cubic,profile=wifu-tahoe",
    }


def test_levels_are_told_by_the_names_that_tables_have() -> None:
    label = '[label.protocol]\n"tcp-cubic,profile=wifu-tahoe" = "CUBIC"\n'
    (found,) = alike.differences(plans.parse(TEXT + label))
    told = "CUBIC (tcp-cubic,profile=wifu-tahoe) and tcp-sack differ in more than their names"
    assert found.sentence().startswith(told)


def test_levels_that_differ_in_the_same_are_told_together() -> None:
    levels = ["tcp-sack", "tcp-reno,profile=wifu-tahoe", "tcp-newreno,profile=wifu-tahoe"]
    text = TEXT.replace('["tcp-sack", "tcp-cubic,profile=wifu-tahoe"]', json.dumps(levels))
    every = alike.differences(plans.parse(text))
    assert len(every) == 2
    (told,) = alike.sentences(every)
    assert told.startswith(f"{levels[1]} and {levels[2]} differ from tcp-sack in more than their")
    assert ", all in the same: profile wifu-tahoe, not rfc-modern; rcv_wnd 65535" in told
    other = text.replace("newreno,profile=wifu-tahoe", "newreno,profile=kernel-reno")
    assert len(alike.sentences(alike.differences(plans.parse(other)))) == 2


@pytest.mark.parametrize(
    "levels",
    [
        '["tcp-sack", "tcp-cubic", "tcp-newreno", "tcp-reno", "tcp-tahoe"]',
        '["tcp-sack", "tcp-sack,iw=4"]',
        '["tcp-sack", "tcp-cubic,rcv_wnd=65535"]',
        '["tcp-sack,profile=wifu-tahoe", "tcp-cubic,profile=wifu-tahoe"]',
        '{ tcp-sack = "tcp-sack", wide = "tcp-sack,iw=10" }',
    ],
)
def test_levels_that_differ_in_what_they_say_are_not_warned_of(levels: str) -> None:
    text = TEXT.replace('["tcp-sack", "tcp-cubic,profile=wifu-tahoe"]', levels)
    plan = plans.parse(text.replace('baseline = "tcp-sack"\n', ""))
    assert alike.differences(plan) == []
    assert all(k == v for k, v in alike.names(plan, "protocol").items())


def test_a_name_that_hides_a_window_does_not() -> None:
    plan = with_levels('{ tcp-sack = "tcp-sack", small = "tcp-newreno,rcv_wnd=65535" }')
    (found,) = alike.differences(plan)
    assert dict(found.parameters) == {"rcv_wnd": ("65535", "4194304")}
    assert found.sentence().startswith("small (tcp-newreno,rcv_wnd=65535) and tcp-sack differ")


def test_keys_that_a_level_sets_besides_are_told() -> None:
    plan = with_levels(
        '{ tcp-sack = { "flow.*.protocol" = "tcp-sack" }, cubic = { "flow.*.protocol" = '
        '"tcp-cubic", "radio.attempts" = 2, "flow.*.bytes" = "1M" } }'
    )
    (found,) = alike.differences(plan)
    assert dict(found.scenario) == {
        "radio.attempts": ("2", "not set"),
        "flow.*.bytes": ("1M", "not set"),
    }
    assert found.sentence() == (
        "cubic and tcp-sack differ in more than their names say: "
        "the scenario's radio.attempts is 2 for cubic, not set for tcp-sack; "
        "the scenario's flow.*.bytes is 1M for cubic, not set for tcp-sack."
    )


@pytest.mark.parametrize(
    ("key", "values"),
    [('"radio.attempts" = 2', ("2", "not set")), ('"flow.*.bytes" = "1M"', ("1M", "not set"))],
)
def test_one_key_beside_a_protocol_is_not_hidden_by_the_levels_name(
    key: str, values: tuple[str, str]
) -> None:
    plan = with_levels(
        '{ tcp-sack = { "flow.*.protocol" = "tcp-sack" }, cubic = { "flow.*.protocol" = '
        f'"tcp-cubic", {key} }} }}'
    )
    (found,) = alike.differences(plan)
    assert list(found.scenario.values()) == [values]
    # Alone it is what the level is called by.
    text = TEXT.replace('"{protocol}"', '"tcp-sack"').replace("baseline", 'pair = "a"\nbaseline')
    text = text[: text.index("[vary]")] + f"[vary.a]\ntcp-sack = {{}}\nmore = {{ {key} }}\n"
    assert alike.differences(plans.parse(text)) == []


def test_a_level_that_sets_how_many_flows_there_are_says_so() -> None:
    text = TEXT.replace('"{protocol}"', '"tcp-sack"').replace(
        'baseline = "tcp-sack"', 'pair = "AXIS"'
    )
    text = text[: text.index("[vary]")] + '[vary.AXIS]\nfew = {}\nmany = { "flow.1.copies" = 4 }\n'
    (found,) = alike.differences(plans.parse(text.replace("AXIS", "load")))
    assert dict(found.scenario) == {"flow.1.copies": ("4", "not set")}
    assert alike.differences(plans.parse(text.replace("AXIS", "flows"))) == []


def test_all_that_templates_take_an_axis_in_is_told() -> None:
    """An axis is called by one thing: a window that is so many attempts, too, is not."""
    head = TEXT[: TEXT.index("[vary]")].replace('baseline = "tcp-sack"', 'pair = "window"')
    vary = "[vary]\nwindow = [2, 1]\n"
    one = head.replace('"{protocol}"', '"tcp-sack,rcv_wnd={window*10000}"') + vary
    assert dict(alike.differences(plans.parse(one))[0].scenario) == {}
    both = one.replace("[scenario]", '[scenario]\nradio.attempts = "{window}"')
    (found,) = alike.differences(plans.parse(both))
    assert dict(found.parameters) == {"rcv_wnd": ("10000", "20000")}
    assert dict(found.scenario) == {"radio.attempts": ("1", "2")}
    plain = both.replace(",rcv_wnd={window*10000}", "")
    assert alike.differences(plans.parse(plain)) == []
    sized = plain.replace("[vary]", 'bytes = "{window}M"\n[vary]')
    (found,) = alike.differences(plans.parse(sized))
    assert dict(found.scenario) == {"radio.attempts": ("1", "2"), "flow.*.bytes": ("1M", "2M")}
    # Where flows end comes with how long the chain is.
    chain = plain.replace('radio.attempts = "{window}"', "")
    chain = chain.replace("linear,2", "linear,{window+1}").replace('"n2"', '"n{window+1}"')
    assert alike.differences(plans.parse(chain)) == []
    timed = chain.replace("[scenario]", '[scenario]\nstop.time = "{window}s"')
    (found,) = alike.differences(plans.parse(timed))
    assert dict(found.scenario) == {
        "stop.time": ("1s", "2s"),
        "topology.words": ("linear,2", "linear,3"),
    }


def test_what_a_level_does_not_set_is_told_as_the_plan_has_it() -> None:
    levels = (
        '{ tcp-sack = { "flow.*.protocol" = "tcp-sack" }, cubic = { "flow.*.protocol" = '
        '"tcp-cubic", "radio.attempts" = 2, "flow.*.bytes" = "1M" } }'
    )
    text = TEXT.replace('["tcp-sack", "tcp-cubic,profile=wifu-tahoe"]', levels)
    text = text.replace("[vary]", 'bytes = "{size}"\n[vary]\nsize = ["2M", "3M"]')
    text = text.replace("topology.words", "radio.attempts = 7\ntopology.words")
    (found,) = alike.differences(plans.parse(text))
    assert dict(found.scenario) == {
        "radio.attempts": ("2", "7"),
        "flow.*.bytes": ("1M", "{size}"),
    }
    # Another axis that sets it decides.
    text = text.replace("[vary]", "[vary]\n'radio.attempts' = [3, 4]")
    (found,) = alike.differences(plans.parse(text))
    assert found.scenario["radio.attempts"] == ("2", "not set")


WESTWOOD = """
[protocol.tcp-westwood]
extends = "tcp-sack"
number = 241
congestion = "westwood"
"""


def test_what_one_side_takes_of_a_profile_and_the_other_does_not_is_told(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(WESTWOOD)
    text = TEXT.replace("[scenario]", 'compositions = ["mine.toml"]\n[scenario]')
    (tmp_path / "plan.toml").write_text(
        text.replace("tcp-cubic,profile=wifu-tahoe", "tcp-westwood")
    )
    plan = plans.load(tmp_path / "plan.toml")
    note = "tcp-westwood: profile rfc-modern sets hystart, which nothing here takes."
    half = (
        "Of profile rfc-modern tcp-sack takes hystart (on), and tcp-westwood has no part that "
        "does: they differ in that as well, besides what their names say."
    )
    assert alike.differences(plan) == [] and taken.notes(plan) == [note]
    assert taken.halves(plan) == [half]
    with screen.capture() as shown:
        dry(plan, Store(tmp_path / "r"), as_json=False)
    words = " ".join(shown.get().split())
    assert f"warning: {half}" in words and f"note: {note}" in words
    results = wifu.campaign(plan, tmp_path / "r", runner=fake)
    with screen.capture() as shown:
        tell(results.folder, Summary("complete", 6))
    words = " ".join(shown.get().split())
    assert f"warning: {half}" in words and f"note: {note}" in words
    page = report.render(results, [])
    assert half in page and note in page
    assert results.comparison()["profiles"] == [half, note]


def test_a_protocol_alone_is_told_what_it_does_not_take() -> None:
    alone = with_levels('{ tcp-sack = "tcp-tahoe", other = "tcp-vegas,profile=rfc-modern" }')
    assert taken.notes(alone) == [
        "tcp-tahoe, tcp-vegas,profile=rfc-modern: profile rfc-modern sets hystart, which nothing "
        "here takes."
    ]
    assert taken.halves(alone) == [], "neither takes it"
    off = with_levels('{ tcp-sack = "tcp-sack,hystart=off", other = "tcp-tahoe" }')
    assert taken.halves(off) == [], "what is off is as if it were not there"
    several = with_levels('["tcp-sack", "tcp-tahoe", "tcp-vegas"]')
    assert taken.halves(several) == [
        "Of profile rfc-modern tcp-sack takes hystart (on), and tcp-tahoe, tcp-vegas have no part "
        "that does: they differ in that as well, besides what their names say."
    ]
    # With other profiles these are what they differ in.
    mixed = with_levels('["tcp-sack", "tcp-tahoe,profile=wifu-tahoe"]')
    assert taken.halves(mixed) == [] and taken.notes(mixed) == []


def test_a_kernel_beside_ours_is_told_and_named() -> None:
    plan = plans.load(EXPERIMENTS / "agreement/plan.toml")
    sim, emu = (alike.differences(plan.variant(s)) for s in ("sim", "emu"))
    assert sim[0].profiles == ("linux", "wifu-tahoe")
    assert (sim[0].kernel, emu[0].kernel) == (False, True)
    assert "kernel is the kernel's own TCP" in emu[0].sentence()
    assert alike.names(plan.variant("emu"), "stack")["newreno"] == "newreno (wifu-tahoe)"
    (again,) = alike.elsewhere(plan.variant("sim"), plan.variant("emu"))
    assert again["is"]["emu"] == "kernel:reno,quickack=on"
    note = diverge.Divergence("x", "sim", 0.1, (), (again,)).notes()[0]
    assert note.startswith("stack kernel is tcp-linux-reno,profile=linux,ack_every=1 on sim and")


def test_what_a_testbed_sets_for_one_protocol_alone_is_told() -> None:
    """TB-RND's literal world gives Tahoe a shorter timeout than NewReno beside it."""
    (found,) = alike.differences(plans.load(EXPERIMENTS / "tb-rnd-tcp/plan.toml"))
    assert dict(found.parameters) == {"rtt.rto_min": ("100 ms", "1 s")}
    assert (found.cells, found.of) == (6, 12)
    assert "differ in 6 of 12 comparisons" in found.sentence()


@pytest.mark.parametrize("axis", ["protocol", "tcp"])
@pytest.mark.parametrize("first", [True, False])
def test_the_varied_flow_may_be_any_of_several(axis: str, first: bool) -> None:
    """Beside a flow that is the same in all cells, and whatever the axis is called."""
    text = TEXT.replace("protocol = [", f"{axis} = [").replace('"{protocol}"', f'"{{{axis}}}"')
    head, rest = text.split("[[scenario.flow]]")
    flow, *after = rest.partition("[vary]")
    other = flow.replace(f'"{{{axis}}}"', '"tcp-sack"')
    flows = [flow, other] if first else [other, flow]
    plan = plans.parse(head + "".join(f"[[scenario.flow]]{f}" for f in flows) + "".join(after))
    (found,) = alike.differences(plan)
    assert found.profiles == ("wifu-tahoe", "rfc-modern")


def test_report_screen_and_json_warn_and_name_the_profiles(tmp_path: Path) -> None:
    found = wifu.campaign(plans.parse(TEXT), tmp_path / "r", runner=fake)
    text = report.render(found, [])
    assert "differ in more than their names say: profile wifu-tahoe, not rfc-modern" in text
    assert text.count("<th>tcp-sack (rfc-modern)</th>") == 1
    assert "relative to tcp-sack (rfc-modern)" in text
    assert found.comparison()["differences"][0]["profiles"] == ["wifu-tahoe", "rfc-modern"]
    with screen.capture() as told:
        warn_of_differences(found.plan)
    assert "warning: tcp-cubic,profile=wifu-tahoe and tcp-sack differ" in told.get()


@pytest.mark.parametrize("kind", ["bars", "lines", "cdf"])
def test_legends_name_mixed_profiles(tmp_path: Path, kind: str) -> None:
    from wifu import figures

    text = TEXT.replace("[vary]", "[vary]\n'radio.attempts' = [2, 4]")
    text += "[label.protocol]\ntcp-sack = 'SACK'\n"
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    drawn = figures.draw(found, {"kind": kind}, tmp_path)
    told = drawn.svg.read_text()
    assert "SACK (rfc-modern)" in told
    hidden = text + "'tcp-cubic,profile=wifu-tahoe' = 'CUBIC'\n"
    shown = wifu.campaign(plans.parse(hidden), tmp_path / "hidden", runner=fake)
    again = figures.draw(shown, {"kind": kind}, tmp_path / "h").svg.read_text()
    assert "CUBIC (wifu-tahoe)" in again
    assert "tcp-cubic,profile=wifu-tahoe" in told
    same = text.replace(",profile=wifu-tahoe", "")
    alone = wifu.campaign(plans.parse(same), tmp_path / "same", runner=fake)
    assert "(rfc-modern)" not in figures.draw(alone, {"kind": kind}, tmp_path / "s").svg.read_text()


def test_axes_that_are_not_the_pair_are_looked_at_where_they_stand_beside_each_other(
    tmp_path: Path,
) -> None:
    text = (
        (
            TEXT[: TEXT.index("[vary]")].replace("linear,2", "linear,{hops+1}")
            + """[vary]
hops = [1, 2]
[vary.stack]
old = { "flow.*.protocol" = "tcp-sack" }
new = { "flow.*.protocol" = "tcp-cubic,profile=wifu-tahoe", "radio.attempts" = 7 }
"""
        )
        .replace('"{protocol}"', '"tcp-sack"')
        .replace('baseline = "tcp-sack"', 'pair = "hops"')
    )
    figure = '[[figure]]\nkind = "bars"\nx = "hops"\nby = "stack"\n'
    (found,) = alike.differences(plans.parse(text + figure))
    assert (found.level, found.of) == ("new", 2) and "radio.attempts" in found.scenario
    assert found.profiles == ("wifu-tahoe", "rfc-modern")
    assert alike.differences(plans.parse(text)) == [], "nothing has them beside each other"
    # Without a pair a table has all of them; there is no comparison above which it could be told.
    alone = plans.parse(text.replace('pair = "hops"', ""))
    (found,) = alike.differences(alone)
    assert found.level == "new"
    results = wifu.campaign(alone, tmp_path / "r", runner=fake)
    assert found.sentence() in report.render(results, [])


def test_a_profile_in_place_of_a_protocols_own_is_told(tmp_path: Path) -> None:
    text = """
runs = 3
[scenario]
topology.words = "linear,2"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "{protocol},profile=rfc-modern"
[vary]
protocol = ["tcp-newreno", "tcp-linux", "tcp-ap05"]
"""
    told = [note for note in taken.notes(plans.parse(text)) if "of its own" in note]
    assert [note.split(" ")[0] for note in told] == ["tcp-linux", "tcp-ap05"]
    assert "profile of its own, linux, for which profile=rfc-modern stands here: " in told[0]
    assert "; what is left is tcp-cubic. Without" in told[0]
    bare = plans.parse(text.replace(",profile=rfc-modern", ""))
    assert not any("of its own" in note for note in taken.notes(bare))


def test_long_lists_of_the_scenario_are_cut() -> None:
    rows = [[n / 10, 1000] for n in range(500)]
    both = f'"flow.1.rows" = {rows}, "radio.queue" = 5'
    text = TEXT.split("[vary]")[0] + f"[vary.load]\na = {{}}\nb = {{ {both} }}\n"
    text = text.replace("{protocol}", "tcp-sack").replace('baseline = "tcp-sack"', 'pair = "load"')
    (told,) = alike.sentences(alike.differences(plans.parse(text)))
    assert "flow.1.rows is" in told and "[0.5, 1000], ... for b" in told
    assert len(told) < 400
