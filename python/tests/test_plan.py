import re
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

import wifu
from wifu import emulated, live, toml
from wifu import plan as plans
from wifu.campaign import check_scenarios
from wifu.errors import PlanError
from wifu.overrides import KEYS

BASE = """
name = "chain"
runs = 4
metrics = ["goodput", "jain"]

[scenario]
topology.words = "linear,{hops+1}"
topology.set = "TB-A"

[[scenario.flow]]
from = "n1"
to = "n{hops+1}"
protocol = "{protocol}"
app = "file"
bytes = "2M"

[vary]
hops = "1..3"
protocol = ["tcp-tahoe", "tcp-newreno"]
"""


def test_cells_are_the_product_with_templates_filled() -> None:
    plan = plans.parse(BASE)
    assert len(plan.cells) == 6
    cell = next(c for c in plan.cells if c.labels == {"hops": 3, "protocol": "tcp-newreno"})
    assert cell.name == "3_tcp-newreno"
    assert cell.scenario["topology"] == {"words": "linear,4", "set": "TB-A"}
    assert cell.scenario["flow"] == [
        {"from": "n1", "to": "n4", "protocol": "tcp-newreno", "app": "file", "bytes": "2M"}
    ]
    assert plan.pair == "protocol"


def test_the_same_run_has_the_same_seed_in_all_cells() -> None:
    plan = plans.parse(BASE, overrides=["seed=7"])
    seeds = {(s["seed"], s["run"]) for s in (plan.scenario_of(c, 3) for c in plan.cells)}
    assert seeds == {(7, 3)}


def test_axes_that_go_together_and_named_levels() -> None:
    text = (
        BASE
        + """
size = ["1M", "2M", "4M"]
[vary.radio]
slow = { radio.rate = "6Mb/s", "flow.1.bytes" = "1k" }
fast = { "radio.rate" = "24Mb/s", "flow.*.bytes" = "{size}" }
"""
    )
    text = text.replace("metrics", 'zip = [["hops", "size"]]\nmetrics')
    plan = plans.parse(text)
    assert len(plan.cells) == 3 * 2 * 2
    pairs = {(c.labels["hops"], c.labels["size"]) for c in plan.cells}
    assert pairs == {(1, "1M"), (2, "2M"), (3, "4M")}
    slow = next(c for c in plan.cells if c.labels["radio"] == "slow")
    assert slow.scenario["radio"] == {"rate": "6Mb/s"}
    assert slow.scenario["flow"][0]["bytes"] == "1k"
    fast = next(c for c in plan.cells if c.labels["radio"] == "fast" and c.labels["hops"] == 2)
    assert fast.scenario["flow"][0]["bytes"] == "2M"


def test_a_path_is_an_axis_too() -> None:
    plan = plans.parse(BASE + '"radio.attempts" = [1, 2]\n')
    assert {c.scenario["radio"]["attempts"] for c in plan.cells} == {1, 2}


def test_copies_of_a_flow_count_from_zero() -> None:
    text = BASE.replace('app = "file"', 'app = "file"\ncopies = 3\nstart = "{10*copy}ms"')
    flows = plans.parse(text).cells[0].scenario["flow"]
    assert [f["start"] for f in flows] == ["0ms", "10ms", "20ms"]
    assert all("copies" not in f for f in flows)


def test_a_flow_of_its_own_is_the_same_in_all_cells() -> None:
    """Behind flows with copies, flow 2 would be a copy here and the newcomer there."""
    text = BASE.replace('["goodput", "jain"]', '["goodput@2"]') + "others = [1, 3]\n"
    more = '[[scenario.flow]]\nfrom = "n1"\nto = "n2"\nprotocol = "tcp-reno"\n'
    copied = more + 'copies = "{others}"\n'
    head, tail = text.split("[vary]")
    plans.parse(f"{head}{more}{copied}[vary]{tail}")
    mixed = f"{head}{copied}{more}[vary]{tail}".replace("@2", "@3")
    with pytest.raises(PlanError, match=r"it is another \[\[scenario\.flow\]\]'s"):
        plans.parse(mixed)


def test_cells_can_be_left_out() -> None:
    plan = plans.parse(BASE.replace("metrics", 'skip = [{ hops = "2..3" }]\nmetrics'))
    assert {c.labels["hops"] for c in plan.cells} == {1}


def test_overrides() -> None:
    def load(*overrides: str, multirun: bool = False) -> plans.Plan:
        return plans.parse(BASE, overrides=overrides, multirun=multirun)

    assert {c.labels["hops"] for c in load("hops=2").cells} == {2}
    assert load("runs=9").runs == 9
    assert load("flow.*.bytes=1M").cells[0].scenario["flow"][0]["bytes"] == "1M"
    assert load("radio.rate=6Mb/s").cells[0].scenario["radio"] == {"rate": "6Mb/s"}
    swept = load("radio.rate=6Mb/s,24Mb/s", multirun=True)
    assert {c.labels["radio.rate"] for c in swept.cells} == {"6Mb/s", "24Mb/s"}
    assert len(swept.cells) == 12


def test_a_level_that_sets_nothing_may_be_all_that_is_left() -> None:
    text = BASE.replace(
        'protocol = ["tcp-tahoe"',
        'variant.default = {}\nvariant.lossy = { radio.attempts = 1 }\nprotocol = ["tcp-tahoe"',
    )
    plan = plans.parse(text, overrides=["variant=default"])
    assert {c.labels["variant"] for c in plan.cells} == {"default"}
    assert all("radio" not in c.scenario for c in plan.cells)


def test_one_flow_in_place_of_a_list_is_told() -> None:
    with pytest.raises(PlanError, match=r"write \[\[scenario.flow\]\]"):
        plans.parse(BASE.replace("[[scenario.flow]]", "[scenario.flow]"))


def test_named_levels_are_chosen_by_name() -> None:
    text = BASE.replace(
        'protocol = ["tcp-tahoe", "tcp-newreno"]',
        '[vary.protocol]\nold = "tcp-tahoe,iw=1"\nnew = "tcp-newreno"',
    )
    plan = plans.parse(text, overrides=["protocol=old"])
    assert {c.labels["protocol"] for c in plan.cells} == {"old"}
    assert plan.cells[0].scenario["flow"][0]["protocol"] == "tcp-tahoe,iw=1"
    with pytest.raises(PlanError, match="has no level odl; did you mean `old`"):
        plans.parse(text, overrides=["protocol=odl"])


def test_a_level_may_be_called_baseline() -> None:
    text = BASE.replace('hops = "1..3"', "").replace("{hops+1}", "3")
    text += '[vary.variant]\nbaseline = {}\nruns = { "topology.spacing" = 9 }\n'
    assert {c.labels["variant"] for c in plans.parse(text).cells} == {"baseline", "runs"}


@pytest.mark.parametrize(
    ("change", "key", "line", "message"),
    [
        (("runs = 4", "emu = { patience = '3 apples' }"), "emu.patience", 3, "unknown unit apples"),
        (("runs = 4", "rnus = 4"), "rnus", 3, "unknown key; did you mean `runs`"),
        (('"jain"', '"jian"'), "metrics", 4, "no metric is called jian; did you mean `jain`"),
        (("{hops+1}", "{hop+1}"), "scenario.topology.words", 7, "nothing is called {hop}"),
        (("hops = ", "hosp = "), "vary.hosp", 18, "did you mean `hops`"),
        (('"1..3"', '"3..1"'), "vary.hops", 18, "the range 3..1 is empty"),
        (("runs = 4", "runs = 'x'"), "runs", 3, "must be an integer, not 'x'"),
        (("runs = 4", "until = { ci = '200%' }"), "until.ci", 3, "share of the mean"),
        (("runs = 4", "until = { min = 9 }"), "until", 3, "needs 10 <= min <= max"),
        (("runs = 4", "until = { cii = '2%' }"), "until.cii", 3, "did you mean `ci`"),
        (("runs = 4", "measure = 'stedy'"), "measure", 3, "did you mean `steady`"),
        (("runs = 4", "deterministic = true\nruns = 4"), "deterministic", 3, "one run per cell"),
        (("runs = 4", "pair = 'protocl'"), "pair", 3, "did you mean `protocol`"),
        (("hops = ", "run = 1\nhops = "), "vary.run", 18, "name of a column"),
        (("hops = ", "n = 1\nhops = "), "vary.n", 18, "name of a column"),
        (("runs = 4", "baseline = 'tcp-tahooe'"), "baseline", 3, "did you mean `tcp-tahoe`"),
        (("runs = 4", "pair = 'hops'\nbaseline = 4"), "baseline", 4, "hops has no 4"),
        (("runs = 4", "skip = [{ hosp = 3 }]"), "skip", 3, "did you mean `hops`"),
        (("runs = 4", "skip = [{ hops = '4..9' }]"), "skip", 3, "axis hops has no 4..9"),
        (("runs = 4", "skip = [3]"), "skip", 3, "cells to leave out"),
        (("runs = 4", "figure = [{ kind = 'bars', x = 'hops', runs = 5 }]"), "figure.1.runs", 3,
         "above the first [table]"),
        (('hops = "1..3"', '[vary.y]\na = { "topology.spacing" = 1 }\nb = "2m"'),
         "vary.y.b", 20, 'goes nowhere: other levels of this axis are tables of paths'),
        (('hops = "1..3"', '[vary.y]\na = { "topology.spacing" = 1 }\nruns = 4'),
         "vary.y.runs", 20, "keys of the plan itself stand above the first [table]"),
        (("runs = 4", "skip = [{ protocol = ['tcp-newreno', 'tcp-newrno'] }]"), "skip", 3,
         "axis protocol has no tcp-newrno; did you mean `tcp-newreno`"),
        (("runs = 4", "claims = ['WIFU-IX']"), "claims", 3, "did you mean `WIFU-II`"),
        (("runs = 4", "measure = { mode = 'window', to = '3x' }"), "measure", 3, "3x"),
        (("runs = 4", "measure = { discard = 'x' }"), "measure.discard", 3, "number of batches"),
        (("runs = 4", "series = { runs = '3..1' }"), "series.runs", 3, "3..1 is empty"),
        (("runs = 4", "series = { runs = 1 }"), "series.runs", 3, "a list of runs"),
        (('["goodput", "jain"]', "[]"), "metrics", 4, "at least one"),
        (('bytes = "2M"', "copies = 'x'"), "scenario.flow.copies", 15, "number of flows"),
        (('"1..3"', "[1, nan]"), "vary.hops", 18, "nan is no level"),
        (("runs = 4", "on = [['sim']]"), "on", 3, "no substrate is called ['sim']"),
        (("runs = 4", "emu = { vary = '' }"), "emu.vary", 3, "must be a table, not ''"),
        (("runs = 4", "emu = { scenario = 2 }"), "emu.scenario", 3, "must be a table, not 2"),
        (("runs = 4", "figure = [{ kind = 'bars', x = [] }]"), "figure.1.x", 3, "name of an axis"),
        (("[vary]", "[figure]\nkind = 'bars'\n[vary]"), "figure", 17, "list: write [[figure]]"),
        (("[vary]", "[skip]\nhops = 2\n[vary]"), "skip", 17, "is a list: write [[skip]]"),
        (('"1..3"', "['1', 'two']"), "vary.hops", 18,
         "{hops+1}: '1' is text; numbers are written without quotes, and 'two' is no number"),
        (('"1..3"', "['1', '2']"), "vary.hops", 18, "'1' is text; numbers are written without"),
    ],
)  # fmt: skip
def test_errors_name_key_line_and_nearest_name(
    change: tuple[str, str], key: str, line: int, message: str
) -> None:
    text = BASE.replace(*change, 1)
    with pytest.raises(PlanError) as caught:
        plans.parse(text, Path("x/plan.toml"))
    assert caught.value.key == key
    assert caught.value.line == line
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"x/plan.toml:{line}: {key}: ")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("scenario.event", "write [[scenario.event]]"),
        ("scenario.split", "write [[scenario.split]]"),
        ("scenario.topology.link", "write its name in two brackets, [[...link]]"),
    ],
)
def test_a_table_for_a_list_of_them_is_told_what_to_write(table: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_scenarios(plans.parse(f"{BASE}\n[{table}]\nat = 1\n"))
    assert caught.value.key == table and message in str(caught.value), str(caught.value)


def test_a_setting_that_is_near_to_profile_is_told_so() -> None:
    with pytest.raises(PlanError, match="did you mean `profile`"):
        check_scenarios(plans.parse(BASE.replace("{protocol}", "{protocol},profil=linux")))


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ('kind = "brs"', "no figure is of kind 'brs'; did you mean `bars`"),
        ('kind = "bars"\nx = "hosp"', "no axis is called hosp; did you mean `hops`"),
        ('kind = "bars"\nmetrics = "jain"', "unknown key; did you mean `metric`"),
        ('kind = "bars"\nmetric = "goodputt"', "did you mean `goodput`"),
        ('kind = "bars"\nmetric = 3', "no metric is called 3"),
        ('kind = "map"\nwhere = { hosp = 3 }', "no axis is called hosp; did you mean `hops`"),
        ('kind = "map"\nwhere = { hops = 4 }', "axis hops has no 4; there are: 1, 2, 3"),
        ('kind = "map"\nwhere = { protocol = ["tcp-tahooe"] }', "did you mean `tcp-tahoe`"),
        ('kind = "map"\nwhere = "hops"', "where: must be a table"),
        ('kind = "timeseries"\nshow = ["cwdn"]', "list of goodput, delivered, cwnd, srtt"),
        ('kind = "timeseries"\nwindow = "0s"', "window: must be a time above 0"),
        ('kind = "timeseries"\nfrom = "2 parsecs"', "from: must be a time"),
        ('kind = "map"\nrun = 0', "number of a run"),
        ('kind = "waterfall"\nreverse = 1', "true or false"),
        ('kind = "lines"\nscale = "lg"', 'is "log" or "linear"'),
        ('kind = "bars"\nx = "hops"\npublished = { 1 = 2.0 }', "protocol has no 1"),
        (
            'kind = "bars"\nx = "hops"\npublished = { tcp-tahoe = { 4 = 2.0 } }',
            "hops has no 4; there are: 1, 2, 3",
        ),
        (
            'kind = "bars"\nx = "hops"\npublished = { tcp-tahoe = 2.0 }',
            "needs a table of values for each level of protocol",
        ),
        (
            'kind = "bars"\nx = "hops"\npublished.tcp-tahoe = { 1 = [3.0, 2.0] }',
            r"is a number or a range, \[low, high\], not \[3.0, 2.0\]",
        ),
        ("", "no figure is of kind ''"),
    ],
)
def test_errors_in_figures(figure: str, message: str) -> None:
    good = '[[figure]]\nkind = "bars"\nx = "hops"\nmetric = "goodput"\n'
    before = f"{BASE}\n{good}\n"
    with pytest.raises(PlanError, match=message) as caught:
        plans.parse(f"{before}[[figure]]\n{figure}\n")
    assert caught.value.key.startswith("figure.2")
    assert caught.value.line is not None and caught.value.line > before.count("\n")


def test_what_an_override_leaves_out_may_still_be_named() -> None:
    figure = '\n[[figure]]\nkind = "map"\nwhere = { protocol = "tcp-tahoe" }\n'
    text = BASE.replace("runs = 4", 'baseline = "tcp-tahoe"\nruns = 4') + figure
    plan = plans.parse(text, overrides=["protocol=tcp-newreno"])
    assert {c.labels["protocol"] for c in plan.cells} == {"tcp-newreno"}
    # So may the plan that is kept beside the results; but a name that never was is an error.
    kept = toml.dumps(dict(plan.source))
    assert plans.parse(kept, resolved=True).baseline == "tcp-tahoe"
    with pytest.raises(PlanError, match="did you mean `tcp-tahoe`"):
        plans.parse(text, overrides=["baseline=tcp-tahooe"])
    assert plans.parse(text, overrides=["protocol=tcp-reno", "baseline=tcp-reno"]).cells


def test_the_text_of_compositions_is_part_of_what_is_run(tmp_path: Path) -> None:
    mine, path = tmp_path / "mine.toml", tmp_path / "plan.toml"
    text = '[protocol.mine]\nextends = "tcp-reno"\nnumber = 240\nset = { iw = 3 }\n'
    mine.write_text(text)
    path.write_text('compositions = ["mine.toml"]\n' + BASE)
    plan = plans.load(path)
    assert all(c.scenario["compositions"] == [text] for c in plan.cells)
    written = toml.dumps(dict(plan.source))
    mine.write_text(text.replace("3", "4"))
    other = plans.load(path)
    assert {c.key for c in plan.cells}.isdisjoint(c.key for c in other.cells)
    # What a campaign wrote needs the file no more.
    mine.unlink()
    assert plans.parse(written).sha256 == plan.sha256
    with pytest.raises(PlanError, match="cannot read"):
        plans.load(path)


def test_what_a_topology_file_says_is_part_of_what_is_run(tmp_path: Path) -> None:
    file = tmp_path / "mesh.toml"
    text = BASE.replace('topology.words = "linear,{hops+1}"', f'topology.file = "{file}"')
    found = []
    for rate in ("10Mb/s", "2Mb/s"):
        file.write_text(f'words = "linear,{{hops+1}}"\n[radio]\nrate = "{rate}"\npower = 20\n')
        found.append(plans.parse(text + "[scenario.topology.radio]\npower = 3\n"))
    one, two = found
    assert one.sha256 != two.sha256
    assert one.cells[0].scenario["topology"] == {
        "words": "linear,2", "set": "TB-A", "radio": {"rate": "10Mb/s", "power": 3},
    }  # fmt: skip
    file.unlink()
    with pytest.raises(PlanError, match=r"scenario\.topology\.file: cannot read"):
        plans.parse(text)


def test_what_topology_files_say_that_levels_name_is_part_of_what_is_run(tmp_path: Path) -> None:
    named = f'topology.file = "{tmp_path}/{{hops}}.toml"'
    text = BASE.replace('topology.words = "linear,{hops+1}"', named)
    count = len({c.labels["hops"] for c in plans.parse(BASE).cells})

    def parsed(delay: str) -> plans.Plan:
        for hops in range(1, count + 1):
            words = f"linear,{hops + 1},wire=8mbit,delay={delay}"
            (tmp_path / f"{hops}.toml").write_text(f'words = "{words}"\n')
        return plans.parse(text)

    one, two = parsed("1ms"), parsed("2ms")
    assert one.sha256 != two.sha256
    assert {c.key for c in one.cells}.isdisjoint(c.key for c in two.cells)
    topology = two.cells[0].scenario["topology"]
    assert topology == {"words": "linear,2,wire=8mbit,delay=2ms", "set": "TB-A"}
    # What a campaign wrote needs the files no more.
    written = toml.dumps({"name": two.name, **two.source})
    for file in tmp_path.glob("*.toml"):
        file.unlink()
    assert plans.parse(written, resolved=True).sha256 == two.sha256
    assert two.variant("emu").cells[0].scenario["topology"] == topology
    with pytest.raises(PlanError, match=r"scenario\.topology\.file: cannot read"):
        plans.parse(text)


def test_the_window_that_is_counted_in_is_part_of_what_is_run() -> None:
    given = 'runs = 4\nmeasure = { mode = "window", from = "1s", to = "%ds" }'
    one, two = (plans.parse(BASE.replace("runs = 4", given % end)) for end in (4, 9))
    assert one.sha256 != two.sha256


@pytest.mark.parametrize("where", ["compositions", "topology.file", "wifu.run"])
def test_broken_toml_says_its_file_and_line(tmp_path: Path, where: str) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("[protocol.mine]\nextends = = 3\n")
    if where == "compositions":
        with pytest.raises(PlanError) as told:
            plans.parse('compositions = ["bad.toml"]\n' + BASE, tmp_path / "plan.toml")
        assert str(told.value).startswith(
            f"{tmp_path}/plan.toml:1: compositions: {bad}:2: one = is enough"
        )
    elif where == "wifu.run":
        with pytest.raises(PlanError) as told:
            wifu.run(bad)
        assert str(told.value).startswith(f"{bad}:2: one = is enough")
    else:
        for read in (live.wires_of, emulated._topology):
            with pytest.raises(ValueError) as wrong:
                read({"topology": {"file": str(bad)}})
            assert str(wrong.value).startswith(f"topology.file: {bad}:2: one = is enough")
    bad.write_text("[protocol.mine\n")
    with pytest.raises(PlanError, match=r"bad\.toml:1: "):
        plans.load(bad)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[vary]", "[varies]", "did you mean `vary`?"),
        (
            "{protocol}",
            "{proto}",
            "flow.1.protocol has {proto}: nothing is called {proto}; there are {copy}, {hops}",
        ),
        (
            "{hops+1}",
            "{hop+hops}",
            "nothing is called {hop}; did you mean `hops`? There are {copy}",
        ),
        ("{hops+1}", "{hops+x}", "nothing is called {x}; there are {copy}, {hops}, {protocol}"),
        ("[vary]", "[label]\ngoodput = 'of {proto}'\n[vary]", "There are {hops}, {protocol}"),
    ],
)
def test_hints_name_what_was_meant_and_the_placeholders(old: str, new: str, words: str) -> None:
    with pytest.raises(PlanError) as told:
        plans.parse(BASE.replace(old, new))
    assert words in str(told.value), str(told.value)
    # A formula has braces of its own.
    plans.parse(BASE.replace("[vary]", "[label]\ngoodput = '$g_{max}$'\n[vary]"))


def test_broken_toml_says_the_line() -> None:
    with pytest.raises(PlanError) as caught:
        plans.parse("name = 'x'\nruns = = 3\n", Path("p.toml"))
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        (
            ("hops = ", '"radio.queu" = [10, 20]\nhops = '),
            "vary.radio.queu",
            "did you mean `queue`",
        ),
        (('"tcp-tahoe", "tcp', '"tcp-tahoe,iv=3", "tcp'), "scenario.flow.1.protocol", "iv"),
        (("runs = 4", 'runs = 4\nbaseline = "tcp-reno"'), "baseline", "protocol has no tcp-reno"),
    ],
)
def test_a_slip_in_an_axis_is_told_there_and_not_where_it_is_referred_to(
    change: tuple[str, str], key: str, words: str
) -> None:
    refers = '\n[[figure]]\nkind = "bars"\nx = "radio.queue"\n'
    refers = "" if key == "baseline" else refers
    with pytest.raises(PlanError) as told:
        plans.parse(BASE.replace(*change) + refers)
    assert told.value.key == key and words in str(told.value), str(told.value)


@pytest.mark.parametrize("templates", [True, False])
def test_what_a_level_sets_is_a_path_and_no_placeholder(templates: bool) -> None:
    text = BASE.replace("[vary]", '[vary.traffic]\nsame = { src = "n1" }\n[vary]')
    text = text.replace('from = "n1"', 'from = "{src}"') if templates else text
    with pytest.raises(PlanError, match="paths in the scenario") as told:
        plan = plans.parse(text)
        check_scenarios(plan)
    assert told.value.key == ("vary.traffic" if templates else "vary.traffic.same.src")


def test_what_an_override_brings_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(BASE)
    with pytest.raises(PlanError, match=r"a range is written.*given as hops=1\.\.9x") as told:
        plans.load(tmp_path, ["hops=1..9x"])
    assert told.value.file is None


def test_of_a_plan_that_is_not_there_the_nearest_is_named(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first/plan.toml").write_text(BASE)
    with pytest.raises(PlanError, match=r"did you mean `.*/first`\?.*list plans"):
        plans.load(tmp_path / "frist")


def test_an_override_of_nothing_says_so() -> None:
    with pytest.raises(PlanError, match=r"hopss is neither an axis nor a key.*did you mean `hops`"):
        plans.parse(BASE, overrides=["hopss=3"])
    with pytest.raises(PlanError, match="write key=value"):
        plans.parse(BASE, overrides=["hops"])
    with pytest.raises(PlanError, match=r"flow is a list: write flow\.1\.key or flow\.\*\.key"):
        plans.parse(BASE, overrides=["flow.bytes=3"])


def test_what_was_resolved_reads_back() -> None:
    plan = plans.parse(BASE, overrides=["hops=1,2", "radio.rate=6Mb/s"])
    text = toml.dumps(dict(plan.source))
    assert tomllib.loads(text) == plan.source
    again = plans.parse(text)
    assert again.sha256 == plan.sha256
    assert [c.scenario for c in again.cells] == [c.scenario for c in plan.cells]


def test_every_experiment_of_the_repository_is_a_plan() -> None:
    found = sorted((Path(__file__).parents[2] / "experiments").glob("*/plan.toml"))
    assert len(found) >= 9
    for path in found:
        plan = plans.load(path)
        assert plan.name == path.parent.name
        assert plan.cells


def test_the_book_has_every_key_of_a_plan() -> None:
    page = (Path(__file__).parents[2] / "docs/src/lab.md").read_text()
    table = page.split("### Keys", 1)[1].split("### ", 1)[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    # That of the results of another substrate is written by the lab.
    assert told == set(KEYS) - {"substrate"}


def texts(value: object) -> list[str]:
    """All texts in a scenario's value."""
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inside for text in texts(one)]


def unprofiled(scenario: dict[str, Any]) -> list[str]:
    """Protocols that name TCP of ours without the profile that it has."""
    return [
        text
        for text in texts(scenario)
        if text.startswith("tcp-") and "profile" not in dict(
            word.partition("=")[::2] for word in text.split(",")[1:]
        )
    ]  # fmt: skip


def test_every_experiment_names_the_profile_of_each_tcp() -> None:
    """On every substrate that it says, in every cell, as they are run."""
    seen = set[str]()
    for path in sorted((Path(__file__).parents[2] / "experiments").glob("*/plan.toml")):
        plan = plans.load(path)
        for substrate in plan.prepared:
            chosen = plan.variant(substrate)
            for cell in chosen.cells:
                scenario = chosen.scenario_of(cell, 1)
                assert unprofiled(scenario) == [], f"{path.parent.name} on {substrate}: {cell.name}"
                seen |= set(texts(scenario))
    assert "tcp-tahoe,profile=wifu-tahoe" in seen
    assert any(text.startswith("kernel:") for text in seen), "which have none"
    told = unprofiled({"flow": [{"protocol": p} for p in ("tcp-sack", "tcp-sack,iw=2", "udp")]})
    assert told == ["tcp-sack", "tcp-sack,iw=2"]


def test_a_plan_says_what_a_quick_look_leaves_out() -> None:
    text = BASE.replace("metrics", 'quick = ["runs=1", "hops=2", "flow.*.bytes=1k"]\nmetrics')
    assert (len(plans.parse(text).cells), plans.parse(text).runs) == (6, 4)
    quick = plans.parse(text, overrides=["quick=true", "runs=3"])
    assert (len(quick.cells), quick.runs) == (2, 3), "what is said besides has the last word"
    assert quick.cells[0].scenario["flow"][0]["bytes"] == "1k"
    assert "quick" not in quick.source, "what a campaign writes is the plan as it was run"
    with pytest.raises(PlanError, match="does not say what is left out"):
        plans.parse(BASE, overrides=["quick=true"])
    for wrong in ('"runs=1"', "[]", "[1]"):
        with pytest.raises(PlanError, match="is a list of overrides") as caught:
            plans.parse(BASE.replace("metrics", f"quick = {wrong}\nmetrics"))
        assert caught.value.line is not None


def test_a_probe_is_recorded_where_a_flow_has_the_part() -> None:
    text = BASE.replace('["tcp-tahoe", "tcp-newreno"]', '["tcp-newreno", "tcp-ap11"]')

    def recorded(names: str) -> dict[str, Any]:
        plan = plans.parse(f"{text}\n[series]\nruns = [1]\nrecord = {names}\n")
        cells = [c for c in plan.cells if c.labels["hops"] == 2]
        return {str(c.labels["protocol"]): plan.scenario_of(c, 1)["record"] for c in cells}

    both = recorded('["cwnd", "ap11.cov", "peer.ap11.cov"]')
    assert both["tcp-newreno"] == {"series": ["all", "flow.*.cwnd"]}
    own = ["all", "flow.*.cwnd", "flow.*.ap11.cov", "flow.*.peer.ap11.cov"]
    assert both["tcp-ap11"] == {"series": own}
    # What no protocol of the plan has is a slip of the pen, which the simulator tells.
    assert recorded('["ap12.cov"]')["tcp-newreno"] == {"series": ["all", "flow.*.ap12.cov"]}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("flow.1.peer.window", "of all flows, without their numbers: write 'peer.window'"),
        ("flow.*.cubic.w_max", "write 'cubic.w_max'"),
        ("clamp.peer.limit", "the receiver's begins with peer: write 'peer.clamp.limit'"),
        ("clamp.limit.peer", "write 'peer.clamp.limit'"),
        ("peer", "write 'peer.window'"),
        ("node.n1.queue", r"series in \[scenario.record\]"),
    ],
)
def test_names_of_series_that_a_plan_cannot_have_are_told(name: str, words: str) -> None:
    with pytest.raises(PlanError, match=words) as refused:
        plans.parse(f'{BASE}\n[series]\nruns = [1]\nrecord = ["{name}"]\n')
    assert refused.value.key == "series.record"
    assert refused.value.line is not None


@pytest.mark.parametrize(
    ("text", "overrides", "key", "words"),
    [
        (BASE, ["runs=100000000"], "runs", "100,000,000 runs are too many"),
        (BASE, ["runs=200000"], "runs", "6 cells with 200,000 runs each are too many"),
        (BASE.replace("runs = 4", "until.max = 2000000"), [], "until.max", "2,000,000 runs"),
        (BASE, ["substrate=emu", "emu.runs=2000000"], "emu.runs", "2,000,000 runs"),
        (BASE, ["hops=1..60000"], "vary.hops", "120,000 combinations"),
        (BASE.replace("1..3", "1..9999999999"), [], "vary.hops", "too many values"),
        (
            BASE.replace("[vary]", "copies = 100000000000\n[vary]"),
            [],
            "scenario.flow.copies",
            "100,000,000,000 flows are too many",
        ),
    ],
)
def test_counts_that_could_never_be_run_are_refused_at_once(
    text: str, overrides: list[str], key: str, words: str
) -> None:
    began = time.process_time()
    with pytest.raises(PlanError, match=words) as refused:
        plans.parse(text, overrides=overrides)
    assert refused.value.key == key
    assert time.process_time() - began < 5


def test_a_plan_may_have_a_million_runs() -> None:
    assert plans.parse(BASE, overrides=["hops=1", "runs=500000"]).runs == 500_000
