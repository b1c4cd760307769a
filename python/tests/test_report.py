import json
import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from fake import CHAIN, FakeResult, fake, having
from matplotlib.collections import LineCollection
from test_figures import drawn

import wifu
from wifu import digits, figures, kinds, metrics, report, stats
from wifu import plan as plans
from wifu.campaign import Summary
from wifu.errors import LabError, PlanError
from wifu.screen import dry, screen, tell
from wifu.store import Store

SPECS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "bars", "metric": "aggregate", "x": "hops"}, r"n = 5 runs per cell; whiskers: 95 %"),
    ({"kind": "lines", "x": "hops"}, "Student t"),
    ({"kind": "lines", "x": "hops", "scale": "log"}, "Student t"),
    (
        {"kind": "bars", "x": "hops", "published": {"tcp-reno": {"1": 5.5, "3": 2.0}}},
        "Student t",
    ),
    ({"kind": "ratio", "x": "hops"}, "ratios of means.*; n = 5 pairs of runs per cell; whiskers"),
    ({"kind": "cdf"}, "goodput of the flows; 40 values"),
    ({"kind": "cdf", "metric": "srtt"}, "runs; 20 values"),
    ({"kind": "flows"}, r"Goodput of each flow, and of all together \(aggregate: .*\); whiskers"),
    ({"kind": "fairness", "x": "hops"}, r"a dot per run.*; n = 5 runs per cell\."),
    (
        {"kind": "tradeoff", "where": {"hops": 3}},
        r"upper left; n = 5 runs per cell\. Scales do not begin at 0\. Only hops 3\.",
    ),
    ({"kind": "timeseries", "where": {"hops": 3}, "window": "100ms"}, "window of 100 ms"),
    ({"kind": "sequence", "where": {"hops": 3}, "from": 0.1, "to": "1s"}, "Run 1, flow 1"),
    ({"kind": "map", "where": {"hops": 3, "protocol": "tcp-reno"}}, "attempts that were ack"),
    ({"kind": "map", "where": {"protocol": "tcp-reno"}}, "attempts that were ack"),
    ({"kind": "waterfall", "where": {"hops": 3}}, "n = 5 runs"),
    ({"kind": "latency", "window": "1s"}, "window of 1 s"),
    ({"kind": "latency", "as": "cdf", "by": "window"}, "one-way delay of .* under load"),
]


@pytest.mark.parametrize(("spec", "caption"), SPECS, ids=[s["kind"] for s, _ in SPECS])
def test_every_kind_is_drawn_twice_and_captioned(
    request: pytest.FixtureRequest, tmp_path: Path, spec: dict[str, Any], caption: str
) -> None:
    results = having(request, spec["kind"])
    drawn = figures.draw(results, spec, tmp_path)
    assert re.search(caption, drawn.caption)
    assert drawn.svg.read_text().startswith("<?xml")
    assert drawn.png.read_bytes().startswith(b"\x89PNG")
    again = figures.draw(results, spec, tmp_path / "again")
    assert again.svg.read_bytes() == drawn.svg.read_bytes()


def test_every_kind_is_covered() -> None:
    # What nodes of a hop protocol do is drawn in test_hopwise.
    of_nodes = {"trips", "rates", "hops"}
    assert {s["kind"] for s, _ in SPECS} | of_nodes == set(kinds.KINDS)


def test_many_cells_over_time_fit_a_page(tmp_path: Path) -> None:
    chosen = plans.parse(CHAIN.replace("[1, 3]", '"1..3"'))
    found = wifu.campaign(chosen, tmp_path / "r", runner=fake)
    drawn = figures.draw(found, {"kind": "timeseries"}, tmp_path)
    height, width = plt.imread(drawn.png).shape[:2]
    assert 1000 < width <= 1600
    assert 1000 < height <= 2000


@pytest.mark.parametrize(("kind", "most"), [("map", 12), ("waterfall", 6), ("sequence", 4)])
def test_a_figure_of_some_cells_says_so_and_tells_them_apart(
    tmp_path: Path, kind: str, most: int
) -> None:
    from importlib import import_module

    from wifu.figures import style

    chosen = plans.parse(CHAIN.replace("[1, 3]", '"1..7"').replace("runs = 5", "runs = 1"))
    found = wifu.campaign(chosen, tmp_path / "r", runner=fake)
    drawer = getattr(import_module(f"wifu.figures.{kinds.KINDS[kind].module}"), kind)
    with style.context():
        figure, _, caption = drawer(found, {"kind": kind})
        titles = [a.get_title(loc="left") for a in figure.axes if a.get_title(loc="left")]
        plt.close(figure)
    assert f"The first {most} of 14 cells; choose with `where`." in caption
    assert len(set(titles)) == most
    assert [title.split("\n")[0] for title in titles[:3]] == [
        "hops 1, protocol tcp-reno", "hops 1, protocol tcp-newreno", "hops 2, protocol tcp-reno"
    ]  # fmt: skip
    few = figures.draw(found, {"kind": kind, "where": {"hops": 1}}, tmp_path)
    assert "The first" not in few.caption


def test_intervals_after_a_stop_are_said_to_be_narrower(tmp_path: Path) -> None:
    text = CHAIN.replace("runs = 5", 'until = { ci = "9%", min = 10, max = 20 }')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    drawn = figures.draw(found, {"kind": "bars", "x": "hops"}, tmp_path)
    assert "narrower than nominal" in drawn.caption
    assert report.STOPPED in report.render(found, [])


def test_axes_carry_names_and_units(results: wifu.Results) -> None:
    from wifu.figures import compare, mesh, spread, style, traces

    with style.context():
        for drawer, spec in (
            (compare.bars, {"metric": "aggregate", "x": "hops"}),
            (compare.lines, {"metric": "srtt", "x": "hops"}),
            (spread.cdf, {}),
            (traces.timeseries, {"where": {"hops": 1}}),
            (mesh.waterfall, {"where": {"hops": 3}}),
        ):
            figure, _, _ = drawer(results, spec)
            labels = [t for a in figure.axes for t in (a.get_xlabel(), a.get_ylabel())]
            units = r", (Mb/s|ms|s|kB)(\n.*)?$|^hops$|^share of"
            assert any(re.search(units, t) for t in labels), labels
            plt.close(figure)


@pytest.mark.parametrize(("rate", "alike"), [(1.0, True), (0.1, False)])
def test_panels_have_scales_of_their_own_where_values_are_unlike(
    results: wifu.Results, monkeypatch: pytest.MonkeyPatch, rate: float, alike: bool
) -> None:
    from wifu.figures import spread, style

    flows = results.flows.copy()
    far = flows["cell"].isin([c.name for c in results.cells() if c.labels["hops"] == 3])
    flows.loc[far, "goodput_bps"] *= rate
    monkeypatch.setattr(results, "flows", flows)
    with style.context():
        figure, _, _ = spread.cdf(results, {"by": "protocol"})
        near, further = (a.get_xlim() for a in figure.axes)
        plt.close(figure)
    assert near[0] == further[0] == 0
    assert (near == further) == alike


def test_more_levels_than_colours_are_told_apart() -> None:
    from wifu.figures import style

    for form in (style.dash, style.later_dash, style.marker, style.later_marker, style.hatch):
        looks = [(style.colour(n), str(form(n))) for n in range(24)]
        assert len(set(looks)) == 24


@pytest.mark.parametrize(("count", "named"), [(8, 0), (9, 9)])
def test_lines_in_colours_used_twice_have_a_legend(tmp_path: Path, count: int, named: int) -> None:
    from wifu.figures import compare, style

    names = [f"p{n}" for n in range(count)]
    text = CHAIN.replace('["tcp-reno", "tcp-newreno"]', str(names)).replace("[1, 3]", "[1, 2]")
    text = text.replace("runs = 5", "runs = 1").replace('baseline = "tcp-reno"\n', "")

    def apart(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for flow in outcome["flows"]:
            rate = 1e6 * (1 + int(flow["protocol"][1:]))
            flow["last_byte_s"] = flow["start_s"] + flow["bytes"] * 8 / rate
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=apart)
    with style.context():
        figure, _, _ = compare.lines(found, {"x": "hops"})
        told = [t.get_text() for legend in figure.legends for t in legend.get_texts()]
        plt.close(figure)
    assert len(told) == named


def test_ten_flows_over_time_are_ten_lines(tmp_path: Path) -> None:
    from wifu.figures import style, traces

    text = CHAIN.replace("copies = 2", "copies = 10").replace("[1, 3]", "[1]")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    with style.context():
        figure, _, _ = traces.timeseries(found, {"show": ["cwnd"]})
        # The style's name of all dashes is the same.
        lines: list[Any] = figure.axes[0].get_lines()
        drawn = [(line.get_color(), str(line._unscaled_dash_pattern)) for line in lines]
        plt.close(figure)
    assert len(drawn) == len(set(drawn)) == 10


def test_a_probe_that_was_recorded_is_drawn(tmp_path: Path) -> None:
    from wifu.figures import style, traces

    more = 'runs = [1]\nrecord = ["cubic.w_max"]\n[[figure]]\nkind = "timeseries"\n'
    text = CHAIN.replace("runs = [1]", more + 'show = ["cubic.w_max"]').replace("[1, 3]", "[1]")
    plan = plans.parse(text)
    series = plan.scenario_of(plan.cells[0], 1)["record"]["series"]
    assert series == ["all", "flow.*.cubic.w_max"]
    found = wifu.campaign(plan, tmp_path / "r", runner=fake)
    with style.context():
        figure, _, _ = traces.timeseries(found, dict(plan.figures[0]))
        axis = figure.axes[0]
        assert axis.get_ylabel() == "cubic.w_max"
        values = np.asarray(axis.get_lines()[0].get_ydata(), dtype=float).tolist()
        plt.close(figure)
    known = [v for v in values if v == v]
    assert set(known) == {41.0} and len(known) < len(values), "what is not known leaves a gap"
    with pytest.raises(LabError, match=r"no flow has a series cubic\.k_s"):
        traces.timeseries(found, {"show": ["cubic.k_s"]})
    with pytest.raises(PlanError, match=r"goodput, delivered, cwnd, srtt, cubic\.w_max"):
        plans.parse(text.replace('show = ["cubic.w_max"]', 'show = ["cubic.wmax"]'))


@pytest.mark.parametrize("copies", [1, 2])
def test_the_scale_of_fairness_ends_at_one(tmp_path: Path, copies: int) -> None:
    from wifu.figures import shares, style

    text = CHAIN.replace("copies = 2", f"copies = {copies}").replace("runs = 5", "runs = 2")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    with style.context():
        figure, _, _ = shares.fairness(found, {"x": "hops"})
        bottom, top = figure.axes[0].get_ylim()
        plt.close(figure)
    assert bottom < found.sample("jain").min()
    assert 1.0 < top <= 1.0 + 0.06 * (1.0 - bottom)


def test_the_number_on_a_bar_and_what_was_published_do_not_meet(results: wifu.Results) -> None:
    from wifu.figures import compare, style

    cell = next(c for c in results.plan.cells if c.labels == {"hops": 1, "protocol": "tcp-reno"})
    near = results.interval("goodput", cell).high / 1e6
    spec = {"x": "hops", "published": {"tcp-reno": {"1": near, "3": 3.0 * near}}}
    with style.context():
        figure, _, _ = compare.bars(results, spec)
        lifted = [text.get_position()[1] > 4 for text in figure.axes[0].texts]
        plt.close(figure)
    assert lifted == [True, False, False, False]


def test_of_a_published_range_both_ends_are_marked(results: wifu.Results) -> None:
    from wifu.figures import compare, style

    spec = {"x": "hops", "published": {"tcp-reno": {"1": [2.0, 5.0], "3": 1.0}}}
    with style.context():
        figure, _, _ = compare.bars(results, spec)
        lines = [[float(y) for y in np.ravel(a.get_ydata())] for a in figure.axes[0].get_lines()]
        plt.close(figure)
    assert [2.0, 5.0] in lines and [2.0, 5.0, 1.0] in lines


def test_bars_of_nothing_stand_on_an_axis_that_begins_at_zero(results: wifu.Results) -> None:
    from wifu.figures import compare, style

    assert results.runs["timeouts"].eq(0).all()
    with style.context():
        figure, _, _ = compare.bars(results, {"metric": "timeouts", "x": "hops"})
        assert figure.axes[0].get_ylim() == (0, 1)
        plt.close(figure)
        # The paper had some.
        spec = {"metric": "timeouts", "x": "hops", "published": {"tcp-reno": {"1": 5.0}}}
        figure, _, _ = compare.bars(results, spec)
        assert figure.axes[0].get_ylim()[1] > 5
        plt.close(figure)


def test_no_ellipse_makes_a_scale_begin_below_what_can_be(
    results: wifu.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wifu.figures import spread, style

    index = pd.MultiIndex.from_product([[""], range(1, 6)], names=["cell", "run"])
    skewed = pd.Series([1.0, 1.0, 1.0, 1.0, 100.0], index=index)
    monkeypatch.setattr(results, "sample", lambda *_: skewed)
    with style.context():
        figure, _, _ = spread.tradeoff(results, {"against": "retransmissions"})
        reaches = [
            min(p.get_extents().x0 for p in a.patches) < a.transData.transform((0, 0))[0]
            for a in figure.axes
        ]
        assert any(reaches), "an ellipse reaches below 0"
        assert all(a.get_xlim()[0] >= 0 for a in figure.axes)
        plt.close(figure)


def test_figures_of_what_was_not_recorded_say_so(results: wifu.Results, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no series of run 2"):
        figures.draw(results, {"kind": "timeseries", "run": 2}, tmp_path)
    with pytest.raises(LabError, match="no run recorded hops"):
        figures.draw(results, {"kind": "waterfall", "flow": 9}, tmp_path)
    with pytest.raises(LabError, match=r"protocol has no tcp-rneo; did you mean `tcp-reno`"):
        results.compare("goodput", "tcp-rneo")
    with pytest.raises(PlanError, match="did you mean `bars`"):
        figures.draw(results, {"kind": "barz"}, tmp_path)


def test_the_report_holds_everything_and_asks_the_network_for_nothing(
    results: wifu.Results,
) -> None:
    text = report.write(results).read_text()
    assert "Reno &lt;and&gt; others" in text
    assert "A chain." in text
    assert text.count("<figure>") == len(figures.default_specs(results)) == 3
    links = re.findall(r"""(?:src|href)=["']([^"']+)["']""", text)
    assert all(link.startswith(("data:", "#")) for link in links)
    assert not re.search(r"@import|url\(", text)
    row = results.summary().iloc[0]
    half = (row["high"] - row["low"]) / 2
    assert f"{digits.number(row['mean'], half)}" in text
    assert results.manifest["plan_sha256"] in text
    assert "wifu-lab rerun" in text


@pytest.mark.parametrize(("runs", "clear"), [(5, False), (12, True)])
def test_no_colour_and_no_bold_against_p(tmp_path: Path, runs: int, clear: bool) -> None:
    """NewReno is a quarter better in every run; of five pairs p cannot be below 0.06."""
    text = CHAIN.replace("runs = 5", f"runs = {runs}").replace(
        '["goodput", "jain", "srtt"]', '["goodput"]'
    )
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    frame = found.compare("goodput")
    assert (frame["low"] > 1).all(), "the intervals alone would say so"
    assert ((frame["p_holm"] < 0.05) == clear).all()
    told = report.render(found, [])
    assert ("<span class='up'>" in told) == clear
    assert told.count("<b>") == (2 if clear else 0)
    few = "no difference can be found here, however great: of 5 pairs and 2 comparisons p is at "
    assert (few + "least 0.12. 7 runs could." in told) != clear
    assert "corrected by Holm, over the cells of each table" in told


def test_a_table_with_more_cells_asks_for_more(tmp_path: Path) -> None:
    """p of one comparison is 2 / 2^6 = 0.031 and stands alone; of four it does not."""
    text = CHAIN.replace("runs = 5", "runs = 6")
    alone = wifu.campaign(plans.parse(text.replace("[1, 3]", "[1]")), tmp_path / "1", runner=fake)
    four = wifu.campaign(plans.parse(text.replace("[1, 3]", '"1..4"')), tmp_path / "4", runner=fake)
    assert alone.compare("goodput")["p_holm"].tolist() == pytest.approx([2 / 64])
    assert four.compare("goodput")["p"].tolist() == pytest.approx([2 / 64] * 4)
    assert four.compare("goodput")["p_holm"].tolist() == pytest.approx([8 / 64] * 4)
    assert "class='up'" in report.render(alone, [])
    assert "class='up'" not in report.render(four, [])


def test_what_was_identical_is_said_and_not_tested(tmp_path: Path) -> None:
    def same(scenario: dict[str, Any]) -> Any:
        scenario["flow"] = [{**f, "protocol": "tcp-reno"} for f in scenario["flow"]]
        return fake(scenario)

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=same)
    frame = found.compare("goodput")
    assert frame["identical"].all() and (frame["ratio"] == 1).all()
    assert frame[["p", "p_holm", "low", "high"]].isna().all(axis=None)
    told = report.render(found, [])
    assert "<span class='same'>identical</span>" in told
    assert "p =" not in told and "<b>" not in told


def changed_flows(tmp_path: Path, metric: str, **flows: Any) -> wifu.Results:
    """Eight runs of files over a hop; `flows`: by key, what the flows of each protocol tell."""

    def changed(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        own = np.random.default_rng([scenario["run"], len(scenario["flow"][0]["protocol"])])
        for flow in outcome["flows"]:
            which = "newreno" if "newreno" in flow["protocol"] else "reno"
            flow.update({k: v[which](own) for k, v in flows.items()})
        return FakeResult(outcome, {})

    text = CHAIN.replace("runs = 5", "runs = 8").replace("[1, 3]", "[1]")
    text = text.replace("copies = 2", 'copies = 2\napp = "file"')
    text = text.replace('["goodput", "jain", "srtt"]', f'["{metric}"]')
    return wifu.campaign(plans.parse(text), tmp_path / "r", runner=changed)


def compared(tmp_path: Path, metric: str, **flows: Any) -> tuple[dict[str, Any], str]:
    """The comparison of `changed_flows`: its row, and the report."""
    found = changed_flows(tmp_path, metric, **flows)
    (row,) = found.compare(metric).to_dict("records")
    return row, report.render(found, [])


def test_what_may_be_negative_is_compared_by_its_difference(tmp_path: Path) -> None:
    """The ratio of -5 to -8 is 0.6, as if it were worse."""
    slow = {"newreno": lambda own: own.uniform(80, 90) * 100, "reno": lambda own: 500.0}
    row, told = compared(tmp_path, "utility", goodput_bps=slow)
    assert np.isnan(row["ratio"]) and row["difference_low"] > 0
    assert "<span class='up'>Δ " in told and "class='down'" not in told
    assert "<b>" in told


def test_beside_a_baseline_of_zero_it_is_the_difference_as_well(tmp_path: Path) -> None:
    lost = {"newreno": lambda own: int(own.integers(10, 20)), "reno": lambda own: 0}
    row, told = compared(tmp_path, "timeouts", timeouts=lost)
    assert np.isnan(row["ratio"]) and 20 < row["difference"] < 40
    assert "<span class='down'>Δ " in told


def test_nothing_known_of_both_is_not_identical(tmp_path: Path) -> None:
    none = {"newreno": lambda own: None, "reno": lambda own: None}
    row, told = compared(tmp_path, "srtt", srtt_s=none)
    assert (row["n"], row["identical"]) == (0, False)
    assert "<span class='same'>no value</span>" in told and "identical</span>" not in told


def test_a_waterfall_over_several_routes_names_no_links(tmp_path: Path) -> None:
    """Links of all runs in a row were thirteen hops where no run had more than three."""

    def routed(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for hop in outcome["hops"]:
            hop["to"] = f"n{7 + scenario['run'] % 2}"
        return FakeResult(outcome, {})

    text = CHAIN.replace("[1, 3]", "[2]")
    for runner, names, told in (
        (routed, ["hop 1", "hop 2"], "the sum is the delay of no packet"),
        (fake, ["n1 → n2", "n2 → n3"], "the sum is the delay of a packet that is never lost"),
    ):
        found = wifu.campaign(plans.parse(text), tmp_path / names[0], runner=runner)
        figure, caption = drawn(found, kind="waterfall")
        assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == names
        assert told in caption


def test_a_distribution_names_levels_of_which_nothing_finished(tmp_path: Path) -> None:
    ends = {"newreno": lambda own: True, "reno": lambda own: False}
    found = changed_flows(tmp_path, "delay", finished=ends)
    figure = found.plot("cdf", metric="delay", by="protocol").figure
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    plt.close(figure)
    assert sorted(names) == ["tcp-newreno", "tcp-reno (none finished)"]


def test_a_dry_run_says_that_runs_are_too_few_for_so_many_comparisons(tmp_path: Path) -> None:
    text = CHAIN.replace("[1, 3]", '"1..4"')
    for runs, told in ((7, True), (8, False)):
        plan = plans.parse(text.replace("runs = 5", f"runs = {runs}"))
        with screen.capture() as captured:
            dry(plan, Store(tmp_path / "r"), False)
        said = "of 7 pairs and 4 comparisons p is at least 0.062; 8 runs could"
        assert (said in " ".join(captured.get().split())) == told


def test_the_end_of_a_run_tells_the_comparison_and_names_in_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = (
        "tcp-reno,profile=rfc-modern,iw=4,ack_every=2,snd_buf=4194304,rcv_wnd=4194304,iw=" + "1" * 9
    )
    found = wifu.campaign(
        plans.parse(CHAIN.replace('"tcp-newreno"', f'"{long}8", "{long}9", "tcp-newreno"')),
        tmp_path / "r", runner=fake,
    )  # fmt: skip
    tell(found.folder, Summary("complete"), several=True)
    said = capsys.readouterr().out
    assert f"{found.plan.title}, on sim" in said
    assert f"{long}8 " in said and f"{long}9 " in said
    row = found.compare("goodput").to_dict("records")[0]
    assert f"relative to {row['baseline']} (paired test, corrected):" in " ".join(said.split())
    assert f" x {row['ratio']:.1f}"[:4] in said and "p " in said


@pytest.mark.parametrize(
    ("names", "begins", "has"),
    [
        (["aggregate"], "Total goodput: bytes of all flows", ""),
        (["aggregate", "goodput@2"], "Total goodput: ", " Goodput: bytes delivered in order"),
        (["jain", "aggregate"], "Goodput: bytes delivered", " Total goodput: "),
        (["goodput"], "Goodput: bytes delivered", ""),
    ],
)
def test_the_report_begins_with_what_its_main_metric_is(
    names: list[str], begins: str, has: str
) -> None:
    said = metrics.Measure().of(names)
    assert said.startswith(begins) and has in said
    assert ("otal" in said) == ("aggregate" in names)


def test_comparisons_are_data_too(results: wifu.Results) -> None:
    found = json.loads(json.dumps(results.comparison()))
    assert found["correction"] == "Holm, over the cells of each table"
    assert (found["test"], found["level"]) == ("paired permutation test", 0.05)
    assert set(found["tables"]) == {"goodput", "jain", "srtt"}
    row = found["tables"]["goodput"][0]
    assert row["p_holm"] >= row["p"]
    assert row["identical"] is False


def test_differences_are_in_the_unit_of_means(results: wifu.Results) -> None:
    """Bit/s beside means in Mb/s were taken for a million times as much."""
    for metric, unit in (("goodput", "Mb/s"), ("srtt", "ms"), ("jain", "")):
        means = results.summary(metric).set_index(["hops", "protocol"])["mean"]
        row = results.comparison([metric])["tables"][metric][0]
        apart = means[1, "tcp-newreno"] - means[1, "tcp-reno"]
        assert (row["unit"], row["difference"]) == (unit, pytest.approx(apart))
        if metric == "goodput":
            assert row["difference_low"] < apart < row["difference_high"]


def test_the_report_shows_what_failed_and_what_was_excluded(tmp_path: Path) -> None:
    text = CHAIN.replace("copies = 2", "copies = 2\nexplode = true")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    manifest = found.store.manifest()
    manifest["exclusions"] = [{"cell": "1_tcp-reno", "run": 3, "reason": "asleep"}]
    found.store.write_manifest(manifest)
    found.store.write_tables(found.plan)
    told = report.write(wifu.load(tmp_path / "r")).read_text()
    assert "RuntimeError: exploded" in told
    assert "asleep" in told
    assert "Failed and excluded runs" in told


def test_numbers_have_the_digits_that_their_error_justifies() -> None:
    assert digits.number(12.3456, 0.5) == "12.35"
    assert digits.number(12.3456, 0.04) == "12.346"
    assert digits.number(1234.5, 30.0) == "1234"
    assert digits.number(0.00123) == "0.001230"
    assert digits.number(1234.5) == "1234"
    assert digits.number(0.0) == "0"
    assert digits.number(float("nan")) == "?"


def seldom(scenario: dict[str, Any]) -> FakeResult:
    """The stand-in, where but every fourth run gets anything worth to be told."""
    found = fake(scenario)
    outcome = found._outcome
    for flow in outcome["flows"]:
        flow["bytes"] = 1_000_000 if scenario["run"] % 4 == 1 else 200 + scenario["run"]
        flow["one_way"] = {"p50_s": 0.1, "p95_s": 0.1, "p99_s": 0.1}
    return found


def test_no_interval_of_goodput_goes_below_zero(tmp_path: Path) -> None:
    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=seldom)
    for cell in found.plan.cells:
        whole = stats.mean_interval(found.sample("goodput", cell.labels))
        shown = found.interval("goodput", cell)
        assert whole.low < 0 == shown.low and shown.high == whole.high
    assert (found.summary("goodput")["low"] == 0).all()
    text = report.render(found, [])
    assert report.WITHIN in text
    assert re.search(r"<span class='pm'>0\.0* to [\d.]+</span>", text)
    figure, _ = drawn(found, kind="bars", x="hops")
    bars = [c for a in figure.axes for c in a.collections if isinstance(c, LineCollection)]
    ends = [np.asarray(s)[:, 1] for c in bars for s in c.get_segments()]
    assert ends and min(float(y.min()) for y in ends) == 0.0
    # An index near 1 may have one that ends there.
    text = CHAIN.replace('"goodput", "jain", "srtt"', '"goodput"')
    usual = wifu.campaign(plans.parse(text), tmp_path / "usual", runner=fake)
    assert report.WITHIN not in report.render(usual, [])


@pytest.mark.parametrize("ring", [200, 2])
def test_a_discipline_above_a_ring_that_holds_everything_is_told(tmp_path: Path, ring: int) -> None:
    """By the simulator; on the screen, in the report and in run.json."""
    text = f"""
        name = "managed"
        runs = 2
        [scenario]
        topology = {{ words = "linear,3", set = "TB-B" }}
        radio.ring = {ring}
        host.queue = {{ kind = "fq_codel" }}
        stop.time = "8s"
        [[scenario.flow]]
        from = "n1"
        to = "n3"
        protocol = "{{protocol}},rcv_wnd=65535,snd_buf=131071"
        [vary]
        protocol = ["tcp-reno", "tcp-newreno"]
    """
    found = wifu.campaign(plans.parse(text), tmp_path / "r")
    told = report.render(found, [])
    with screen.capture() as seen:
        tell(tmp_path / "r", Summary("complete", 4))
    words = "fq_codel of the radios at n1, n2, n3 marked and dropped nothing"
    for shown in (told, " ".join(seen.get().split())):
        assert (words in shown) == (ring == 200)
        assert ("(cells tcp-newreno" in shown) == (ring == 200)
    assert bool(found.manifest.get("warnings")) == (ring == 200)


def test_a_report_says_how_its_plan_was_overridden(tmp_path: Path) -> None:
    file, folder = tmp_path / "plan.toml", tmp_path / "r"
    file.write_text(CHAIN)
    changes = ["hops=1", "topology.set=TB-<B>"]
    made = wifu.campaign(file, folder, changes, runner=fake)
    told = "<p class='overrides'>with hops=1, topology.set=TB-&lt;B&gt;</p>"
    assert made.manifest["overrides"] == changes
    assert told in report.render(made, [])
    # What is resumed has the plan from the folder, as a substrate that joins it has.
    own = Store(folder).plan()
    assert own.variant("emu").overrides == tuple(changes)
    again = wifu.campaign(own, folder, runner=fake)
    assert again.manifest["overrides"] == changes and told in report.render(again, [])
    plain = wifu.campaign(file, tmp_path / "plain", runner=fake)
    assert "overrides" not in plain.manifest
    assert "class='overrides'" not in report.render(plain, [])
