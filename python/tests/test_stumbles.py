"""Slips that a first plan has: each is told at its place, before anything is run in vain."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake import CHAIN, fake

import wifu
from wifu import alike, hostcost, report, toml, undrawn
from wifu import plan as plans
from wifu.campaign import check_scenarios
from wifu.errors import LabError, PlanError
from wifu.figures import sequences, shares, style, traces

BASE = """runs = 3
{more}
[scenario]
topology = {{ words = "linear,{{hops+1}}", set = "TB-B" }}
{stop}
[[scenario.flow]]
from = "n1"
to = "n{{hops+1}}"
protocol = "{{protocol}}"
app = "file"
bytes = "20k"
[vary]
protocol = ["tcp-newreno", "tcp-cubic"]
hops = {hops}
{figures}"""


def text(more: str = "", figure: str = "", **changes: str) -> str:
    """A plan with this in it, and a figure of these keys."""
    figures = f"[[figure]]\n{figure}\n" if figure else ""
    known = {"stop": 'stop.time = "20s"', "hops": "[1, 2]", **changes}
    return BASE.format(more=more, figures=figures, **known)


def lab(*words: str, cwd: Path, code: int = 0) -> str:
    """What `wifu-lab` says."""
    done = subprocess.run(
        [sys.executable, "-m", "wifu.cli", *words],
        cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": "400", "NO_COLOR": "1"},
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == code, told
    assert "Traceback" not in told
    return " ".join(told.split())


def refused(told: str, *overrides: str) -> PlanError:
    """Why a plan is none."""
    with pytest.raises(PlanError) as caught:
        plans.parse(told, Path("x.toml"), overrides)
    return caught.value


# Figures that cannot be drawn ---------------------------------------------------------------------

SERIES = "series = { runs = [1] }"


@pytest.mark.parametrize(
    ("more", "figure", "key", "words"),
    [
        ("", 'kind = "timeseries"', "figure.1.kind", "write series = { runs = [1] }"),
        ("", 'kind = "sequence"', "figure.1.kind", "sequence needs series"),
        ("", 'kind = "latency"', "figure.1.kind", 'runs = [1], record = ["delay"] }'),
        (SERIES, 'kind = "latency"', "figure.1.kind", "needs the delays of datagrams"),
        (SERIES, 'kind = "timeseries"\nrun = 2', "figure.1.run", "has no series, only run 1"),
        (SERIES, 'kind = "map"\nrun = 4', "figure.1.run", "there is no run 4"),
        ("series = { runs = [7] }", 'kind = "bars"', "series.runs", "numbered from 1 to 3"),
        (SERIES, 'kind = "timeseries"\nfrom = "20s"', "figure.1.from", "runs end at 20 s"),
        (SERIES, 'kind = "timeseries"\nfrom = 5\nto = "5s"', "figure.1.from", "not before `to`"),
    ],
)
def test_what_no_run_will_have_is_told_with_the_plan(
    more: str, figure: str, key: str, words: str
) -> None:
    told = refused(text(more, figure))
    assert told.key == key and words in str(told)
    assert told.line is not None


@pytest.mark.parametrize(
    ("figure", "record"),
    [
        ('kind = "trips"', '["n1.hop-queue.sent", "rtt_samples"]'),
        ('kind = "rates"\nnodes = ["n1", "n2"]', '["n1.hop-queue.sent", "n2.hop-queue.sent"]'),
    ],
)
def test_what_lanes_hand_down_is_recorded_where_there_are_such(figure: str, record: str) -> None:
    told = text(SERIES, figure).replace("tcp-cubic", "hxh")
    wrong = refused(told)
    assert wrong.key == "figure.1.kind" and f"record = {record} }}" in str(wrong)
    plans.parse(told.replace("runs = [1] }", f"runs = [1], record = {record} }}"))
    # Hop has a lane, which hands down blocks, and is no HxH; TCP has none.
    for other in ("tcp-cubic", "hop", "kernel:cubic", "udp"):
        for series in (SERIES, ""):
            wrong = refused(text(series, figure).replace("tcp-cubic", other))
            assert wrong.key == "figure.1.kind"
            assert "of what HxH's lanes hand down, and no flow here has such a lane" in str(wrong)
    # Nobody knows what has no meaning.
    assert "no flow here" not in str(refused(told.replace("hxh", "hxhh")))


def test_a_flow_that_begins_nowhere_is_told_as_such(tmp_path: Path) -> None:
    bare = text(SERIES, 'kind = "trips"').replace("tcp-cubic", "hxh").replace('from = "n1"\n', "")
    (tmp_path / "p.toml").write_text(bare)
    said = lab("run", "p.toml", "--dry-run", cwd=tmp_path, code=2)
    assert "scenario.flow.1: missing field `from`" in said


def test_figures_that_can_be_drawn_are_let_be() -> None:
    plans.parse(text(SERIES, 'kind = "timeseries"\nrun = 1\nfrom = "1s"\nto = "90s"'))
    plans.parse(text("series = { runs = '1..10' }", 'kind = "sequence"\nrun = 3'))
    plans.parse(text('series = { runs = [2], record = ["delay"] }', 'kind = "latency"'))
    wired = 'runner = "mock"\n[scenario]\nprotocol = "tcp-tahoe"\n[[figure]]\nkind = "sequence"\n'
    plans.parse(wired)


def test_what_an_override_leaves_out_is_a_warning() -> None:
    whole = text("series = { runs = [3] }", 'kind = "timeseries"\nrun = 3')
    assert undrawn.warnings(plans.parse(whole)) == []
    (runs, figure) = undrawn.warnings(plans.parse(whole, overrides=["runs=2"]))
    assert "series.runs" in runs and "there is no run 3" in figure


def test_what_is_not_drawn_is_told_before_and_after_a_run(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(text(SERIES, 'kind = "timeseries"\nrun = 1'))
    change = ("series.runs=[]", "hops=1", "runs=1")
    said = lab("run", "p.toml", *change, "--dry-run", cwd=tmp_path)
    assert "warning: not drawn: figure.1.kind: timeseries needs series" in said
    said = lab("run", "p.toml", *change, "-o", "out", cwd=tmp_path)
    assert said.count("not drawn: ") == 2 and "no series of run 1" in said
    told = json.loads(lab("run", "p.toml", *change, "-o", "two", "--json", cwd=tmp_path))
    assert "no series of run 1" in told["not_drawn"][0]


def test_nothing_is_drawn_of_a_time_when_nothing_was(results: wifu.Results) -> None:
    with pytest.raises(LabError, match="nothing is from 900 s on"):
        traces.timeseries(results, {"from": 900})
    with pytest.raises(LabError, match="nothing is from 900 s on"):
        sequences.sequence(results, {"from": "900s"})
    with pytest.raises(PlanError, match="is not before `to`: 2 s and 1 s"):
        results.plot("timeseries", from_="2s", to="1s")


def test_no_latency_is_drawn_after_the_last_datagram(probed: wifu.Results) -> None:
    with pytest.raises(LabError, match="the last datagram arrived at"):
        probed.plot("latency", from_="900s")


# Other figures ------------------------------------------------------------------------------------


def test_each_panel_of_flows_has_its_own_names(tmp_path: Path) -> None:
    moved = CHAIN.replace("copies = 2", 'from = "n1"\nto = "n{hops+1}"\ncopies = 2')
    found = wifu.campaign(plans.parse(moved), tmp_path / "r", runner=fake)
    with style.context(None):
        figure, _, _ = shares.flows(found, {"kind": "flows"})
        figure.canvas.draw()
    first, second = ([t.get_text() for t in axis.get_xticklabels()] for axis in figure.axes[:2])
    names = [shares._names(found, [c], [1, 2], False) for c in found.cells({"hops": 1})[:1]]
    names += [shares._names(found, [c], [1, 2], False) for c in found.cells({"hops": 3})[:1]]
    assert names[0] != names[1], "else there is nothing to tell apart"
    plain = [[" ".join(t.split()) for t in ticks[:2]] for ticks in (first, second)]
    assert plain == names


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("bars", {"metric": ["jain", "goodput"]}),
        ("ratio", {"metric": ["jain", "goodput"]}),
        ("tradeoff", {"against": ["jain", "goodput"]}),
    ],
)
def test_several_metrics_are_no_metric(
    results: wifu.Results, kind: str, spec: dict[str, Any]
) -> None:
    with pytest.raises(LabError, match=r"must be the name of a metric, not \['jain', 'goodput'\]"):
        results.plot(kind, **spec)
    with pytest.raises(LabError, match="no metric is called 3"):
        results.plot(kind, **dict.fromkeys(spec, 3))


# Where errors are told ----------------------------------------------------------------------------


def test_errors_of_series_are_told_there() -> None:
    more = '[series]\nruns = [1]\nrecord = "cubic.w_max"'
    told = refused(text(more, 'kind = "timeseries"'))
    assert (told.key, told.line) == ("series.record", 4)


def test_a_protocol_nobody_knows_is_told_before_what_is_recorded_of_it() -> None:
    more = 'series = { runs = [1], record = ["drain.share"] }'
    plan = plans.parse(text(more).replace("tcp-cubic", "tcp-drain"))
    with pytest.raises(PlanError) as caught:
        check_scenarios(plan)
    # Before the names of all that there are.
    first = "no protocol of this name (one of your own: `compositions`, or WIFU_LOAD)"
    assert first in str(caught.value)
    with pytest.raises(PlanError, match=r"no quantity of tcp-newreno is called `drain\.share`"):
        check_scenarios(plans.parse(text(more)))


def test_a_part_nobody_knows_is_told_with_where_parts_come_from() -> None:
    plan = plans.parse(text().replace("tcp-cubic", "tcp-cubic,judge=late-loss"))
    with pytest.raises(PlanError) as caught:
        check_scenarios(plan)
    first = "no part for judge is called `late-loss` (one of your own: WIFU_LOAD)"
    assert first in str(caught.value)


def test_a_key_of_the_radio_without_its_table_is_told() -> None:
    for key in ("rate", "attempts", "control_rates"):
        with pytest.raises(PlanError, match=rf"{key} is neither .* did you mean `radio.{key}`"):
            plans.parse(text(), overrides=[f"{key}=6M"])
    with pytest.raises(PlanError, match=r"hosts is neither .* did you mean `host`"):
        plans.parse(text(), overrides=["hosts=6M"])
    with pytest.raises(PlanError, match=r"lossy is neither .*; there are: "):
        plans.parse(text(), overrides=["lossy=6M"])


def test_a_library_among_compositions_is_told() -> None:
    with pytest.raises(
        PlanError, match=r"libmine\.so is a shared library, which WIFU_LOAD="
    ) as told:
        plans.parse(text('compositions = ["libmine.so"]'))
    assert told.value.key == "compositions"


# What hosts cost ----------------------------------------------------------------------------------


def test_what_a_set_says_of_hosts_is_told(tmp_path: Path) -> None:
    plan = plans.parse(text())
    assert hostcost.note(plan).startswith(
        "hosts take 1.2 ms per packet sent and 0.6 ms per packet received"
    )
    assert "(host.profile py, by TB-B)" in hostcost.note(plan)
    for said in ('host.profile = "off"', 'host.profile = "py"'):
        assert hostcost.note(plans.parse(text(stop=said))) == "", "the plan says it"
    assert hostcost.note(plans.parse(text().replace("TB-B", "TB-W3"))) == ""
    (tmp_path / "p.toml").write_text(text())
    assert "note: hosts take 1.2 ms" in lab("run", "p.toml", "--dry-run", cwd=tmp_path)
    found = wifu.campaign(plan, tmp_path / "r", runner=fake)
    assert "Hosts take 1.2 ms per packet sent" in report.render(found, [])


# Words --------------------------------------------------------------------------------------------


def difference(one: str | None, two: str | None) -> str:
    pair: Any = (one, two)
    return alike.Difference("a", "b", ("", ""), pair, {"mss": ("1", "2")}, {}).sentence()


def test_a_protocol_without_a_profile_is_called_so() -> None:
    assert "no profile, not rfc-modern" in difference(None, "rfc-modern")
    assert "profile rfc-modern, not none" in difference("rfc-modern", None)


@pytest.mark.parametrize(
    ("changes", "overrides", "words"),
    [
        ({"stop": 'stop = "20s"'}, [], 'scenario.stop: is a table: stop.time = "20s"'),
        ({"stop": "stop.time = 20s"}, [], 'text with a unit needs quotes: "20s"'),
        ({"stop": "stop = { time = 20s }"}, [], 'text with a unit needs quotes: "20s"'),
        ({"hops": '"1-2"'}, [], "a range is written low..high, such as 1..9"),
        ({"more": 'run_timeout = "5 minutes"'}, [], "there are: h, min, ms, ns, s, sec, us, µs"),
        (
            {}, ["metrics=jain,goodput"],
            """; write 'metrics=["jain", "goodput"]', quotes and all""",
        ),
        ({}, ["metrics=jain"], """; write 'metrics=["jain"]', quotes and all"""),
    ],
)  # fmt: skip
def test_messages_say_how_it_is_written(
    changes: dict[str, str], overrides: list[str], words: str
) -> None:
    assert words in str(refused(text(**changes), *overrides))


def test_the_form_that_a_message_shows_works() -> None:
    plan = plans.parse(text(), overrides=['metrics=["jain", "goodput"]'])
    assert plan.metrics == ("jain", "goodput")


@pytest.mark.parametrize(
    ("bad", "line", "words"),
    [
        ("a = 1\na = 2", 2, "a is set twice, first on line 1: leave out one"),
        ("[a]\nx = 1\n[b]\nx = 2\nx = 3", 5, "x is set twice, first on line 4: leave out one"),
        ("[a]\nx = 1\n[a]", 3, "[a] is there twice, first on line 1: put what is below both"),
        ("[[a]]\n[a]", 2, "a is a list of tables, first on line 1: write [[a]] here as well"),
        ("a = 1\n[[a]]", 2, "a is something else already, first on line 1: write [[a]]"),
        ("[a]\nb = { c = 1 }\n[[a.b.d]]", 3, "a.b is in braces on line 2: write [a.b], its keys"),
        ("a = { x = 1, x = 2 }", 1, "x is set twice between these braces"),
        (
            "[s]\nt = { w = 1 }\nt.f.x = 2 # why",
            3,
            "s.t is in braces on line 2, which are all of it: write f.x = 2 between them",
        ),
        ("t = { w = 1 }\nt.x = 2", 2, "t is in braces on line 1, which are all of it: write x = 2"),
        ("t.x = 2\nt = { w = 1 }", 2, "t has keys of its own on line 1: write all in one way"),
        (
            't = { w = 1 }\nt.f.x = "a #b" # why',
            2,
            't is in braces on line 1, which are all of it: write f.x = "a #b" between them',
        ),
        (
            "t = { w = 1 }\nt.x = 2#no",
            2,
            "t is in braces on line 1, which are all of it: write x = 2 ",
        ),
        (
            "[[f]]\nt = { a = 1 }\n[[f]]\nt.x = 1\nt.x = 2",
            5,
            "t.x is set twice, first on line 4: leave out one",
        ),
        (
            "[[f]]\nt = { a = 1 }\n[[f]]\nt = { a = 1 }\nt.x = 2",
            5,
            "f.t is in braces on line 4, which are all of it: write x = 2 between them",
        ),
        (
            "[[f]]\n[f.t]\n[[f]]\n[f.t]\n[f.t]",
            5,
            "[f.t] is there twice, first on line 4: put what is below both below one",
        ),
        ("x.a = 1\nx.a = { b = 1 }", 2, "x.a is set twice, first on line 1: leave out one"),
        ("x.b = 1\nx.a = 1\nx.a = 2", 3, "x.a is set twice, first on line 2: leave out one"),
        ("x.b = 1\nx.a.c = 1\nx.a = { b = 1 }", 3, "x.a has keys of its own on line 2: write all"),
        ("[vary]\nhops = 1..3", 2, 'a range needs quotes: write hops = "1..3"'),
        ("b = 1\na =\nc = 2", 2, "a has no value: write one behind the ="),
        ("b = 1\na\nc = 2", 2, "a has no value: write a = ..."),
        ('a = "x\nb = 1', 1, 'text is not closed: it lacks " at its end'),
        ("b = 1\na = 'x", 2, "text is not closed: it lacks ' at its end"),
        ('b = 1\na = """x\ny = 2\n', 2, 'text is not closed: it lacks """ at its end'),
        ('a = ["x", "y"\nb = 2', 1, "a list is not closed, or lacks a comma"),
        ("a = [1,\n", 1, "the list of a is not closed: it lacks ]"),
        ("a = {x = 1\ny = 2}", 1, "a table in braces is not closed, or lacks a comma"),
        ("a = [tcp-reno, tcp-cubic]", 1, 'text needs quotes, in lists as well: "tcp-reno"'),
        ("a = tcp-reno", 1, 'text needs quotes: write a = "tcp-reno"'),
        ("a = True", 1, "write a = true, in small letters"),
        ("a = \u201cx\u201d", 1, 'quotes are straight ones: write "x"'),
        ("a: 1", 1, "write a = 1: keys have =, not a colon"),
        ("a b = 1", 1, "write key = value; a key that has blanks in it stands in quotes"),
        ("[a\nb = 1", 1, "the name of a table is not closed: write [a]"),
        ("a = 1 b = 2", 1, "something stands behind the value"),
        ("a = 1,5", 1, "a list is [1,5], and decimals have a point"),
        ("a = .5", 1, "write 0.5: a digit stands before the point"),
        ("a = 05", 1, "a number does not begin with 0: 05"),
        ('a = "\\q"', 1, "a \\ in text is written twice"),
        ("= 3", 1, "Invalid statement"),
        ("", 1, None),
    ],
)
def test_what_is_no_toml_is_told_in_our_words(bad: str, line: int, words: str | None) -> None:
    if words is None:
        assert toml.loads(bad) == {}
        return
    with pytest.raises(PlanError) as caught:
        toml.loads(bad, Path("x.toml"))
    assert str(caught.value).startswith(f"x.toml:{line}: {words}")


def test_a_flow_without_a_protocol_is_what_lacks_it() -> None:
    bare = text().replace('protocol = "{protocol}"\n', "")
    wrong = refused(bare)
    assert wrong.key == "scenario.flow.1"
    assert 'flow 1 has no protocol: write protocol = "{protocol}" there' in str(wrong)
    other = bare.replace("protocol = [", "transport = [")
    assert 'write protocol = "{transport}" there' in str(refused(other))
    # What is no axis of protocols is what is told.
    assert refused(bare.replace("{hops+1}", "3")).key == "scenario.flow.1"
    assert refused(text().replace("{hops+1}", "3")).key == "vary.hops"
    one = bare.replace('protocol = ["tcp-newreno", "tcp-cubic"]\n', "")
    with pytest.raises(PlanError, match=r'flow\.1: .*write protocol = "tcp-newreno"'):
        check_scenarios(plans.parse(one))


def test_what_else_is_no_toml_has_no_hint_of_quotes() -> None:
    assert "quotes" not in str(refused(text(stop="stop.time = = 3")))


COMMAS = """runs = 1
[scenario]
topology.words = "linear,2,wire=8Mb/s"
stop.time = "1s"
radio.queue = "{{queue}}"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "{{protocol}}"
[vary]
protocol = ["tcp-cubic,hystart=off", "tcp-newreno,hystart=off", "tcp-vegas"]
queue = {queue}
{more}
"""


def test_a_level_with_commas_is_skipped_as_it_stands() -> None:
    one = 'skip = [{ protocol = "tcp-newreno,hystart=off" }]\n'
    found = plans.parse(one + COMMAS.format(queue="[5, 20]", more=""))
    kept = {str(c.labels["protocol"]) for c in found.cells}
    assert kept == {"tcp-cubic,hystart=off", "tcp-vegas"}
    two = COMMAS.format(
        queue="[5, 20]", more='[emu]\nskip = [{ protocol = "tcp-vegas", queue = 5 }]'
    )
    assert len(plans.parse(two).variant("emu").cells) == 5
    # Names between commas are several, as before.
    both = 'skip = [{ protocol = "tcp-vegas", queue = "5,20" }]\n'
    assert len(plans.parse(both + COMMAS.format(queue="[5, 20, 50]", more="")).cells) == 7
    three = 'skip = [{ protocol = "tcp-newreno" }]\n' + COMMAS.format(queue="[5]", more="")
    assert "tcp-newreno,hystart=off`" in str(refused(three)) or "; tcp-" in str(refused(three))


def test_what_an_axis_fills_is_changed_by_the_axis() -> None:
    given = COMMAS.format(queue="[5, 20]", more="")
    told = str(refused(given, "radio.queue=10"))
    assert "the axis queue fills radio.queue ({queue}): write queue=10" in told
    assert [c.labels["queue"] for c in plans.parse(given, None, ["queue=10"]).cells] == [10] * 3


def test_substrates_are_listed_with_commas() -> None:
    told = str(refused(COMMAS.format(queue="[5]", more=""), "emu"))
    assert "substrates are listed with commas, --on sim,emu" in told


@pytest.mark.parametrize("queue", ["5-200", "5..."])
def test_what_is_no_number_may_be_a_range(queue: str) -> None:
    given = plans.parse(COMMAS.format(queue=f'["{queue}"]', more=""))
    with pytest.raises(PlanError, match=r"a range is written 5\.\.(200|HIGHEST), or"):
        check_scenarios(given)


def test_levels_are_listed_by_their_size(tmp_path: Path) -> None:
    found = wifu.campaign(
        plans.parse(CHAIN, None, ["hops=5,20,200,50"]), tmp_path / "r", runner=fake
    )
    with pytest.raises(LabError, match="axis hops has no 7; there are: 5, 20, 50, 200"):
        found.cells({"hops": 7})


def test_a_figure_of_a_flow_that_cells_lack_leaves_them_out() -> None:
    given = """runs = 2
[scenario]
topology.words = "linear,3"
stop.time = "1s"
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "tcp-sack"
[[scenario.flow]]
from = "n3"
to = "n1"
protocol = "{bulk}"
[vary.bulk]
none = { "flow.2.copies" = 0 }
cubic = "tcp-cubic"
[[figure]]
kind = "bars"
metric = "goodput@2"
x = "bulk"
"""
    told = str(refused(given))
    assert "goodput@2: cell none has 1 flow; leave the cell out (`where` of the figure" in told
    assert len(plans.parse(given + 'where = { bulk = "cubic" }\n').cells) == 2
    told = str(refused(given.replace("runs = 2", 'runs = 2\nmetrics = ["goodput@2"]')))
    assert "`metrics` are of all cells" in told
