"""Figures of what each flow gets, pooled distributions, and flows that get nothing any more."""

import json
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib.colors as mcolors
import numpy as np
import pytest
from fake import CHAIN, FakeResult, fake, pairs
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import wifu
from wifu import figures, kinds
from wifu import plan as plans
from wifu.errors import PlanError
from wifu.figures import NotDrawn, style

STARVED = """
name = "starved"
runs = 2
[scenario]
topology.words = "linear,3"
[[scenario.flow]]
protocol = "{protocol}"
copies = 2
[vary]
protocol = ["tcp-reno", "tcp-newreno"]
[series]
runs = [1]
"""


def starving(scenario: dict[str, Any]) -> FakeResult:
    """One of two flows, another in each run, has all from 2 s on; a run takes 10 s."""
    result = fake(scenario)
    outcome = result._outcome
    loser = 1 + scenario["run"] % 2
    series = {}
    for flow in outcome["flows"]:
        lost = flow["id"] == loser
        octets = 100_000 if lost else 5_000_000 + 1000 * scenario["run"]
        end = 2.0 if lost else 10.0
        flow.update(finished=False, bytes=octets, last_byte_s=end)
        times = np.linspace(0.1, end, 200)
        series[f"flow.{flow['id']}.delivered"] = pairs(times, octets * times / end)
    outcome["sim_seconds"] = 10.0
    return FakeResult(outcome, series)


def test_goodput_is_drawn_from_when_its_flow_begins(tmp_path: Path) -> None:
    def late(scenario: dict[str, Any]) -> FakeResult:
        result = starving(scenario)
        result._outcome["flows"][1]["start_s"] = 1.0
        return result

    found = wifu.campaign(plans.parse(STARVED), tmp_path / "r", runner=late)
    figure, _ = drawn(found, kind="timeseries", show=["goodput"], where={"protocol": "tcp-reno"})
    one, two = (np.asarray(line.get_xdata(), float) for line in figure.axes[0].get_lines())
    assert one[0] < 0.1 and 1.0 < two[0] < 1.1


@pytest.fixture(scope="module")
def starved(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    return wifu.campaign(plans.parse(STARVED), tmp_path_factory.mktemp("s") / "r", runner=starving)


def drawn(results: wifu.Results, **spec: Any) -> tuple[Figure, str]:
    from wifu.figures import style

    module = import_module(f"wifu.figures.{kinds.KINDS[spec['kind']].module}")
    with style.context(None):
        figure, _, caption = getattr(module, spec["kind"])(results, spec)
        figure.draw_without_rendering()
    return figure, caption


def heights(figure: Figure) -> list[float]:
    return [p.get_height() for a in figure.axes for p in a.patches if isinstance(p, Rectangle)]


def places(figure: Figure) -> list[str]:
    return [t.get_text() for t in figure.axes[0].get_xticklabels()]


def test_each_flow_has_a_bar_and_all_together_one(starved: wifu.Results) -> None:
    figure, caption = drawn(starved, kind="flows", where={"protocol": "tcp-reno"})
    winner, loser = (octets * 8 / (10 - 0.005) / 1e6 for octets in (5_001_500, 100_000))
    mean = (winner + loser) / 2
    # Now the one loses, and now the other: their means hide it.
    assert heights(figure) == pytest.approx([mean, mean, winner + loser], rel=1e-3)
    assert places(figure) == ["1: n1 to n3", "2: n1 to n3", "all"]
    figure, caption = drawn(starved, kind="flows", sorted=True, where={"protocol": "tcp-reno"})
    assert heights(figure) == pytest.approx([winner, loser, winner + loser])
    assert places(figure) == ["1", "2", "all"]
    assert "in each run flows are in order, the strongest first" in caption
    figure, caption = drawn(starved, kind="flows", run=2, where={"protocol": "tcp-reno"})
    assert heights(figure) == pytest.approx([loser, winner, winner + loser], rel=1e-3)
    assert "run 2 alone" in caption


def test_a_flow_that_gets_nothing_any_more_is_drawn_to_the_end(starved: wifu.Results) -> None:
    for show, last in (("goodput", 0.0), ("delivered", 0.1)):
        figure, _ = drawn(starved, kind="timeseries", show=[show])
        loser = figure.axes[0].get_lines()[1]
        x, y = (np.asarray(v, dtype=float) for v in loser.get_data())
        assert x[-1] == pytest.approx(10.0) and y[-1] == pytest.approx(last), show


def test_what_lies_outside_the_time_shown_decides_no_scale(starved: wifu.Results) -> None:
    figure, _ = drawn(starved, kind="timeseries", show=["delivered"], to="2s")
    assert figure.axes[0].get_xlim()[1] == pytest.approx(2.0)
    assert 1.0 <= figure.axes[0].get_ylim()[1] < 1.5, "5 MB in 10 s"
    winner = figure.axes[0].get_lines()[0]
    assert np.asarray(winner.get_xdata(), dtype=float)[-1] == pytest.approx(2.0)


def test_a_distribution_pools_axes(results: wifu.Results) -> None:
    apart, _ = drawn(results, kind="cdf")
    assert len(apart.axes) == 2
    figure, caption = drawn(
        results, kind="cdf", pool=["hops"], published={"tcp-reno": {"0.5": 3.0, "0.9": 4.0}}
    )
    assert len(figure.axes) == 1
    assert "Published: tcp-reno 0.5 below 3, 0.9 below 4." in caption
    assert "All of hops together." in caption and "Mean and median, Mb/s: tcp-reno " in caption
    lines = figure.axes[0].get_lines()
    known = results.flows[results.flows["protocol"] == "tcp-reno"]["goodput_bps"] / 1e6
    x, y = (np.asarray(v, dtype=float) for v in lines[0].get_data())
    assert sorted(set(x)) == pytest.approx(sorted(known)) and y[-1] == 1.0
    marks = np.asarray(lines[-1].get_data(), dtype=float)
    assert marks.tolist() == [[3.0, 4.0], [0.5, 0.9]]


def with_datagrams(scenario: dict[str, Any]) -> FakeResult:
    """A transfer, and a load of datagrams that gets twice as much."""
    result = fake(scenario)
    one, two = result._outcome["flows"]
    one["last_byte_s"] = 8.0 + 0.01 * scenario["run"]
    two |= {"protocol": "udp", "app": "udp", "finished": False, "last_byte_s": 4.0}
    return result


def test_datagrams_are_in_no_distribution_and_not_in_all(tmp_path: Path) -> None:
    """Captions said that they are left out, of figures that showed them."""
    found = wifu.campaign(plans.parse(STARVED), tmp_path / "r", runner=with_datagrams)
    figure, caption = drawn(found, kind="cdf", by="protocol")
    x = np.asarray(figure.axes[0].get_lines()[0].get_xdata(), dtype=float)
    assert 0.9 < x.min() <= x.max() < 1.1 and "4 values" in caption
    assert "datagrams (flow 2) are left out" in caption
    figure, caption = drawn(found, kind="flows", where={"protocol": "tcp-reno"})
    one, two, whole = heights(figure)
    assert two > 1.9 * one and whole == pytest.approx(one)
    assert places(figure) == ["1: n1 to n3", "2: n1 to n3, datagrams", "all"]
    assert "Datagrams (flow 2) have bars of their own and are no part of all." in caption
    assert "left out" not in caption
    figure, caption = drawn(found, kind="flows", sorted=True, where={"protocol": "tcp-reno"})
    assert places(figure) == ["1", "all"] and "Datagrams (flow 2) are left out." in caption


def test_colours_and_marks_are_of_the_level_that_they_belong_to(results: wifu.Results) -> None:
    from wifu.figures import style

    where = {"protocol": "tcp-newreno", "hops": 1}
    figure, _ = drawn(results, kind="flows", where=where)
    faces = [p.get_facecolor() for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    own = mcolors.to_rgba(style.face(1)["color"] if "color" in style.face(1) else style.colour(1))
    assert {mcolors.to_hex(f) for f in faces} == {mcolors.to_hex(own)}
    published = {"tcp-newreno": {"0.5": 900.0}}
    figure, _ = drawn(results, kind="cdf", where=where, published=published)
    axis = figure.axes[0]
    mark = axis.get_lines()[-1]
    assert mcolors.to_hex(mark.get_markeredgecolor()) == mcolors.to_hex(style.colour(1))
    assert axis.get_xlim()[1] > 900.0, "a mark is not outside"


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ('kind = "flows"\nmetric = "srtt"', "metric: is goodput or delay"),
        ('kind = "flows"\nsorted = 1', "sorted: must be true or false"),
        ('kind = "cdf"\npool = "hops"', "pool: is a list of axes"),
        ('kind = "cdf"\npool = ["hosp"]', "no axis is called hosp; did you mean `hops`"),
        ('kind = "cdf"\npublished = { tcp-rneo = { "0.5" = 1 } }', "did you mean `tcp-reno`"),
        ('kind = "cdf"\npublished = { tcp-reno = { "5" = 1 } }', r"is \{ share = value \}"),
        # Without quotes TOML takes this for a table in a table.
        ('kind = "cdf"\npublished = { tcp-reno = { 0.5 = 1 } }', r"is \{ share = value \}"),
    ],
)
def test_wrong_keys_are_told(figure: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plans.parse(f"{CHAIN}\n[[figure]]\n{figure}\n")


def test_numbers_stand_above_all_marks_that_they_would_meet(results: wifu.Results) -> None:
    plain, _ = drawn(results, kind="bars", x="hops")
    first = plain.axes[0].texts[0]
    value = float(first.xy[1])  # type: ignore[attr-defined]
    high = float(plain.axes[0].get_ylim()[1])
    marks = [value + 0.02 * high, value + 0.09 * high]
    figure, _ = drawn(results, kind="bars", x="hops", published={"tcp-reno": {"1": marks}})
    figure.draw_without_rendering()
    (axis, *_) = figure.axes
    below = float(axis.texts[0].get_window_extent().y0)
    assert below > float(axis.transData.transform((0.0, marks[1]))[1])


FETCHING = """
name = "fetching"
runs = 2
metrics = ["delay"]
[scenario]
topology.words = "linear,3"
stop.requests = 3
[[scenario.flow]]
protocol = "{protocol}"
app = "http"
pause = 1
copies = 2
[vary]
protocol = ["tcp-reno", "tcp-newreno"]
"""


def fetching(scenario: dict[str, Any]) -> FakeResult:
    """Flow 2 of Reno has two files of three."""
    result = fake(scenario)
    for flow in result._outcome["flows"]:
        files = 2 if flow["id"] == 2 and flow["protocol"] == "tcp-reno" else 3
        delay = 0.1 * flow["id"] + 0.01 * scenario["run"]
        flow.update(finished=False)
        flow["requests"] = [{"start_s": n, "bytes": 9000, "delay_s": delay} for n in range(files)]
    return result


def test_flows_with_fewer_files_than_the_run_waits_for_are_told(tmp_path: Path) -> None:
    results = wifu.campaign(plans.parse(FETCHING), tmp_path / "r", runner=fetching)
    told = results.compare("delay", "tcp-reno")["unfinished"].tolist()
    assert told == ["2 of 8 flows with fewer files than others"]
    _, caption = drawn(results, kind="flows", metric="delay", where={"protocol": "tcp-reno"})
    assert "2 of 4 flows had fewer files than others by the end of their run" in caption
    _, caption = drawn(results, kind="flows", metric="delay", where={"protocol": "tcp-newreno"})
    assert "fewer" not in caption
    # It is not known that what is missing takes longer than what is there.
    _, caption = drawn(results, kind="bars", metric="delay", x="protocol")
    assert "≥" not in caption and "2 of 8 flows had fewer" in caption


def test_a_flow_without_a_file_is_told_and_in_no_bar(tmp_path: Path) -> None:
    def one_without(scenario: dict[str, Any]) -> FakeResult:
        result = fetching(scenario)
        if scenario["run"] == 1:
            result._outcome["flows"][0]["requests"] = []
        return result

    results = wifu.campaign(plans.parse(FETCHING), tmp_path / "r", runner=one_without)
    where = {"protocol": "tcp-newreno"}
    figure, caption = drawn(results, kind="flows", metric="delay", sorted=True, where=where)
    # Run 1 has 0.21 alone, run 2 has 0.12 and 0.22.
    assert heights(figure) == pytest.approx([(0.21 + 0.12) / 2, 0.22, (0.21 + 0.17) / 2])
    assert "1 of 4 flows had no file at all" in caption


def marked(figure: Figure) -> list[dict[str, float]]:
    """The heights of the bars of each panel by what is written below them."""
    found = []
    for axis in figure.axes:
        names = [t.get_text() for t in axis.get_xticklabels()]
        bars = [p for p in axis.patches if isinstance(p, Rectangle)]
        at = [round(bar.get_x() + bar.get_width() / 2) for bar in bars]
        found.append({names[i]: bar.get_height() for i, bar in zip(at, bars, strict=True)})
    return found


def test_all_together_stand_behind_the_flows_of_every_cell(tmp_path: Path) -> None:
    text = STARVED.replace("copies = 2", 'copies = "{flows}"')
    text = text.replace("[vary]", "[vary]\nflows = [1, 3]")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    where = {"protocol": "tcp-reno"}
    one, three = marked(drawn(found, kind="flows", where=where)[0])
    assert one["all"] == one["1: n1 to n3"] and len(one) == 2
    together = found.sample("aggregate", {**where, "flows": 3}).mean() / 1e6
    assert three["all"] == pytest.approx(together) and len(three) == 4
    one, three = marked(drawn(found, kind="flows", where=where, sorted=True)[0])
    assert sorted(one) == ["1", "all"] and sorted(three) == ["1", "2", "3", "all"]


def test_a_transfer_behind_datagrams_keeps_its_number(tmp_path: Path) -> None:
    def first_datagrams(scenario: dict[str, Any]) -> FakeResult:
        result = with_datagrams(scenario)
        one, two = result._outcome["flows"]
        one["id"], two["id"] = 2, 1
        result._outcome["flows"] = [{**two, "to": "n2"}, one]
        return result

    found = wifu.campaign(plans.parse(STARVED), tmp_path / "r", runner=first_datagrams)
    figure, _ = drawn(found, kind="flows", metric="delay", where={"protocol": "tcp-reno"})
    assert places(figure) == ["2: n1 to n3", "mean"]


def test_flows_without_a_goodput_are_not_said_to_have_no_file(tmp_path: Path) -> None:
    def late(scenario: dict[str, Any]) -> FakeResult:
        result = starving(scenario)
        nothing = {"start_s": 10.0, "bytes": 0, "first_byte_s": None, "last_byte_s": None}
        result._outcome["flows"][1] |= nothing
        return result

    found = wifu.campaign(plans.parse(STARVED), tmp_path / "r", runner=late)
    _, caption = drawn(found, kind="flows", where={"protocol": "tcp-reno"})
    assert "2 of 4 flows had no value" in caption and "file" not in caption


DISTRIBUTIONS = """
[[figure]]
kind = "cdf"
[[figure]]
kind = "cdf"
metric = "delay"
[[figure]]
kind = "flows"
[[figure]]
kind = "fairness"
"""


def test_figures_without_any_run_are_named_with_the_reason(tmp_path: Path) -> None:
    def failing(scenario: dict[str, Any]) -> FakeResult:
        raise ValueError("no")

    found = wifu.campaign(plans.parse(STARVED + DISTRIBUTIONS), tmp_path / "r", runner=failing)
    told = [figure.why for figure in figures.draw_all(found) if isinstance(figure, NotDrawn)]
    assert told == ["all runs failed"] * 3
    single = STARVED[: STARVED.index("[vary]")].replace("{protocol}", "tcp-reno") + DISTRIBUTIONS
    found = wifu.campaign(plans.parse(single), tmp_path / "single", runner=fake)
    told = [figure.why for figure in figures.draw_all(found) if isinstance(figure, NotDrawn)]
    assert told == ["needs an axis: what runs are told apart by"]


def test_a_level_without_cells_has_no_curve_in_a_distribution(tmp_path: Path) -> None:
    text = STARVED.replace("[vary]", '[vary]\nsize = ["1M", "2M"]')
    text = text.replace("copies = 2", 'copies = 2\nbytes = "{size}"')
    text = text.replace("runs = 2", 'runs = 2\nskip = [{ size = "2M", protocol = "tcp-reno" }]')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    figure, _ = drawn(found, kind="cdf", metric="delay")
    assert [len(axis.get_lines()) for axis in figure.axes] == [2, 1]


def test_figures_are_written(starved: wifu.Results, tmp_path: Path) -> None:
    from wifu import figures

    made = figures.draw(starved, {"kind": "flows", "sorted": True, "columns": 1}, tmp_path)
    assert made.svg.exists() and "strongest first" in made.svg.read_text()


@pytest.mark.parametrize("always", [True, False])
def test_flows_that_are_ahead_by_turns_are_told(tmp_path: Path, always: bool) -> None:
    def turns(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        first, second = outcome["flows"][:2]
        one, other = (first, second) if always or scenario["run"] % 2 else (second, first)
        for flow, octets in ((one, 2_000_000), (other, 20_000)):
            flow |= {"bytes": octets, "start_s": 0.0, "last_byte_s": 2.0 + scenario["run"] / 9}
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(STARVED), tmp_path / "r", runner=turns)
    _, caption = drawn(found, kind="flows")
    assert ("Now one flow is ahead and now another" in caption) != always
    assert "ahead and now" not in drawn(found, kind="flows", sorted=True)[1]
    # Of delays the least is ahead.
    delays = drawn(found, kind="flows", metric="delay")[1]
    assert "Now one flow is ahead" not in delays or not always


def test_all_together_is_what_the_network_carried(tmp_path: Path) -> None:
    """Files one after the other: the sum of their rates is that of two networks."""

    def apart(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        one, two = made._outcome["flows"]
        octets, later = 1_000_000, 10.0 + 0.01 * scenario["run"]
        for flow, start in ((one, 0.0), (two, later)):
            flow |= {"start_s": start, "last_byte_s": start + 2.0 + 0.001 * scenario["run"]}
            flow["bytes"] = octets
        return made

    found = wifu.campaign(plans.parse(STARVED), tmp_path / "r", runner=apart)
    figure, caption = drawn(found, kind="flows", where={"protocol": "tcp-reno"})
    one, two, whole = heights(figure)
    assert [one, two] == pytest.approx([4.0, 4.0], rel=1e-2)
    mean = found.sample("aggregate", {"protocol": "tcp-reno"}).mean() / 1e6
    assert whole == pytest.approx(mean) and 1.3 < mean < 1.4
    together = "the time from the first start to the last byte of any"
    assert f"of all together (aggregate: bytes of all flows, by {together})" in caption
    ranked = drawn(found, kind="flows", sorted=True, where={"protocol": "tcp-reno"})[0]
    assert heights(ranked)[-1] == pytest.approx(mean)


@pytest.mark.parametrize("columns", [None, 1])
def test_what_has_no_value_is_told_once_and_nothing_collides(
    tmp_path: Path, columns: int | None
) -> None:
    def some(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        for flow in made._outcome["flows"]:
            name = scenario["flow"][0]["protocol"]
            none = flow["id"] == 2 or (flow["id"] == 3 and name in NAMES[:3])
            flow |= {"finished": not none, "requests": []}
        return made

    text = STARVED.replace("copies = 2", "copies = 5")
    text = text.replace('protocol = ["tcp-reno", "tcp-newreno"]', f"protocol = {NAMES!r}")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=some)
    size = {} if columns is None else {"columns": columns}
    with style.context(columns):
        figure, _, _ = figures.made(found, {"kind": "flows", "metric": "delay", **size})
        style.fold(figure)
        (axis,) = figure.axes
        told = [text for text in axis.texts if text.get_text() == "n/a"]
        # One for flow 2, of which nobody has any; and three of the levels at flow 3.
        assert sorted(round(text.xy[0]) for text in told) == [1, 2, 2, 2]
        boxes = [text.get_window_extent() for text in told]
        for one, two in combinations(boxes, 2):
            assert not one.overlaps(two)


NAMES = ["tcp-reno", "tcp-newreno", "tcp-sack", "tcp-cubic"]
