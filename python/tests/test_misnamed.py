"""Names in plans that say something else than what stands behind them."""

from pathlib import Path

import pytest
from fake import fake
from test_alike import TEXT, with_levels

import wifu
from wifu import misnamed, report
from wifu import plan as plans
from wifu.errors import PlanError
from wifu.screen import screen, warn_of_differences

LABEL = "[label]\nprotocol = {{ tcp-sack = {}, tcp-tahoe = {} }}\n"
PLAIN = TEXT.replace("tcp-cubic,profile=wifu-tahoe", "tcp-tahoe")


def test_two_levels_of_one_label_are_refused() -> None:
    with pytest.raises(PlanError, match="tcp-sack and tcp-tahoe of protocol are both called 'A'"):
        plans.parse(PLAIN + LABEL.format("'A'", "'A'"))
    assert misnamed.warnings(plans.parse(PLAIN + LABEL.format("'A'", "'B'"))) == []


def test_a_label_that_is_another_level_is_told(tmp_path: Path) -> None:
    plan = plans.parse(PLAIN + LABEL.format("'tcp-tahoe'", "'B'"))
    told = "figures call level tcp-sack of protocol tcp-tahoe, which is another level."
    assert misnamed.warnings(plan) == [told]
    with screen.capture() as shown:
        warn_of_differences(plan)
    assert told in " ".join(shown.get().split())
    assert told in report.render(wifu.campaign(plan, tmp_path / "r", runner=fake), [])


def test_a_level_called_like_a_protocol_that_it_has_not_is_told() -> None:
    plan = with_levels('{ tcp-sack = "tcp-sack", tcp-cubic = "tcp-newreno,iw=2" }')
    told = "level tcp-cubic of protocol is no tcp-cubic: it has tcp-newreno,iw=2."
    assert misnamed.warnings(plan) == [told]
    table = '{ tcp-sack = {}, tcp-cubic = { "flow.*.protocol" = "tcp-newreno" } }'
    assert "is no tcp-cubic: it has tcp-newreno" in misnamed.warnings(with_levels(table))[0]


def test_a_composition_in_place_of_a_protocol_that_is_built_in_is_told(tmp_path: Path) -> None:
    mine = '[protocol.NAME]\nextends = "tcp-newreno"\nnumber = 241\n'
    text = PLAIN.replace("[scenario]", 'compositions = ["mine.toml"]\n[scenario]')
    (tmp_path / "plan.toml").write_text(text)
    for name, count in (("tcp-tahoe", 1), ("tcp-own", 0)):
        (tmp_path / "mine.toml").write_text(mine.replace("NAME", name))
        found = misnamed.warnings(plans.load(tmp_path / "plan.toml"))
        assert len(found) == count
    (tmp_path / "mine.toml").write_text(mine.replace("NAME", "tcp-tahoe"))
    (told,) = misnamed.warnings(plans.load(tmp_path / "plan.toml"))
    assert told.startswith("tcp-tahoe is what `compositions` say here, in place of the protocol")


def test_a_key_that_two_axes_set_is_told() -> None:
    text = PLAIN + '[vary.load]\nlight = { "flow.*.bytes" = "1M" }\n'
    other = '[vary.size]\nsmall = { "KEY" = "1k" }\n'
    (found,) = misnamed.warnings(plans.parse(text + other.replace("KEY", "flow.1.bytes")))
    assert found.startswith("flow.*.bytes is set by load and by size: where levels of both")
    assert misnamed.warnings(plans.parse(text + other.replace("KEY", "flow.1.start"))) == []


def test_a_rate_that_minstrel_only_begins_at_is_told() -> None:
    text = PLAIN + '[vary.rate]\nslow = { "radio.rate" = "6M" }\nfast = { "radio.rate" = "24M" }\n'
    chosen = text.replace("[scenario]", '[scenario]\nradio.rate_control = "minstrel"')
    (found,) = misnamed.warnings(plans.parse(chosen))
    assert found.startswith("with radio.rate_control = minstrel radio.rate is where it begins")
    assert misnamed.warnings(plans.parse(text)) == []


def test_an_axis_to_compare_that_goes_with_another_is_told() -> None:
    text = (
        'name = "z"\nbaseline = "tcp-newreno"\nzip = [["protocol", "amount"]]\n[scenario]\n'
        'topology.words = "linear,2"\n[[scenario.flow]]\nfrom = "n1"\nto = "n2"\napp = "file"\n'
        'protocol = "{protocol}"\nbytes = "{amount}"\n'
        '[vary]\nprotocol = ["tcp-newreno", "tcp-cubic"]\namount = ["5M", "100k"]\n'
    )
    (told,) = misnamed.warnings(plans.parse(text))
    assert told.startswith("nothing is compared along protocol: it goes together with amount")
    assert misnamed.warnings(plans.parse(text.replace('zip = [["protocol", "amount"]]', ""))) == []


def test_a_rate_control_that_has_to_learn_beside_a_fixed_rate_is_told() -> None:
    text = (
        'name = "m"\npair = "control"\n[scenario]\ntopology.words = "linear,2,rate=24M"\n'
        '[[scenario.flow]]\nfrom = "n1"\nto = "n2"\napp = "file"\nbytes = "100k"\n'
        'protocol = "tcp-newreno"\n[vary.control]\nfixed = { "radio.rate" = "24Mb/s" }\n'
        'minstrel = { "radio.rate_control" = "minstrel", "radio.rate" = "24Mb/s" }\n'
    )
    words = "a file that is the first traffic of its links"
    assert any(words in told for told in misnamed.warnings(plans.parse(text)))
    bulk = text.replace('app = "file"\nbytes = "100k"\n', "")
    asking = text.replace('"file"', '"request"').replace('bytes = "100k"', "count = 1000")
    for long in (bulk, text.replace("100k", "1G"), asking):
        assert not any(words in told for told in misnamed.warnings(plans.parse(long)))


MESH = """
name = "m"
pair = "control"
[scenario]
TOPOLOGY
[[scenario.flow]]
from = "FROM"
to = "n4"
protocol = "tcp-newreno"
FLOW
[vary.control]
fixed = { FIXED }
minstrel = { MINSTREL }
"""
FILE = 'app = "file"\nbytes = "100k"'
GATEWAY = """topology.words = "linear,4"
topology.node = [{ name = "s", wired_only = true }]
topology.wire = [{ a = "s", b = "n1", rate = "100Mb/s" }]"""
LEARNS = "a file that is the first traffic of its links"
SLOWEST = "frames are sent at the slowest rate of the standard"


def controls(
    fixed: str, minstrel: str, topology: str = "", flow: str = FILE, begin: str = "n1"
) -> list[str]:
    words = topology or 'topology.words = "linear,4"'
    text = MESH.replace("TOPOLOGY", words).replace("FLOW", flow).replace("FROM", begin)
    return misnamed.warnings(
        plans.parse(text.replace("FIXED", fixed).replace("MINSTREL", minstrel))
    )


@pytest.mark.parametrize(
    ("fixed", "minstrel", "topology", "begin"),
    [
        ("", '"radio.rate_control" = "minstrel"', "", "n1"),
        ("", '"topology.radio.rate_control" = "minstrel"', "", "n1"),
        ("", '"topology.words" = "linear,4,rate_control=minstrel"', "", "n1"),
        ("", '"topology.node" = [{ name = "n1", radio.rate_control = "minstrel" }]', "", "n1"),
        ("", '"radio.rate_control" = "minstrel"', GATEWAY, "s"),
    ],
)
def test_a_rate_control_is_told_whoever_says_it(
    fixed: str, minstrel: str, topology: str, begin: str
) -> None:
    told = controls(fixed, minstrel, topology, begin=begin)
    assert [LEARNS in " ".join(told), SLOWEST in " ".join(told)] == [True, True]
    rate = (GATEWAY + "\n" if topology else 'topology.words = "linear,4"\n') + "radio.rate = '24M'"
    told = controls(fixed, minstrel, rate, begin=begin)
    assert [LEARNS in " ".join(told), SLOWEST in " ".join(told)] == [True, False]
    bulk = controls(fixed, minstrel, topology, flow="", begin=begin)
    assert LEARNS not in " ".join(bulk)


def test_testbeds_with_rate_controls_of_their_own_are_not_compared_by_these() -> None:
    sets = [f'"topology.words" = "linear,2,set={name}"' for name in ("HX-9", "HX-1")]
    flow = FILE + '\nto = "n2"'
    text = MESH.replace('to = "n4"\n', "").replace("TOPOLOGY", "").replace("FLOW", flow)
    text = text.replace("FIXED", sets[0]).replace("MINSTREL", sets[1]).replace("FROM", "n1")
    assert misnamed.warnings(plans.parse(text)) == []
    plain = text.replace("[[scenario.flow]]", 'radio.rate_control = "minstrel"\n[[scenario.flow]]')
    assert LEARNS not in " ".join(misnamed.warnings(plans.parse(plain)))
    over = text.replace("set=HX-9", "set=HX-1,rate_control=fixed")
    assert LEARNS in " ".join(misnamed.warnings(plans.parse(over)))


@pytest.mark.parametrize(
    ("flow", "told"),
    [
        ('app = "request"\nresponse = "100k"\ncount = 1', True),
        ('app = "http"\npause = "1s"\ncount = 1', True),
        ('app = "trace"\nrows = [[0.0, 100000]]', True),
        ('app = "bulk"\nstop_at = "5s"', False),
        ('app = "bulk"\n[scenario.stop]\npackets = 70', True),
    ],
)
def test_what_ends_with_its_bytes_is_a_file_to_who_learns(flow: str, told: bool) -> None:
    assert (
        LEARNS in " ".join(controls("", '"radio.rate_control" = "minstrel"', flow=flow))
    ) is told


@pytest.mark.parametrize("key", ["radio.rate", "topology.radio.rate"])
def test_rates_that_minstrel_begins_at_are_told_whoever_says_them(key: str) -> None:
    topology = 'topology.words = "linear,4,rate_control=minstrel"'
    told = controls(f'"{key}" = "6M"', f'"{key}" = "24M"', topology)
    assert "radio.rate is where it begins" in told[0]
    sets = controls('"topology.set" = "TB-A"', '"topology.set" = "TB-B"', topology)
    assert "radio.rate is where it begins" not in " ".join(sets)
    wired = 'topology.words = "linear,4,wire=5Mb/s"'
    assert controls("", "", wired) == []
