"""Figures of ratios: each level against the baseline, as the tables have it."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import CHAIN, FakeResult, fake
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from test_figures import drawn, legend, panel_titles

import wifu
from wifu import compared, figures
from wifu import plan as plans
from wifu.errors import LabError, PlanError

THREE = CHAIN.replace('["tcp-reno", "tcp-newreno"]', '["tcp-reno", "tcp-newreno", "tcp-sack"]')


def changed(scenario: dict[str, Any], of: dict[str, float]) -> FakeResult:
    """These protocols are so much as fast as Reno in the same run, a little more or less in each,
    or exactly if it is 1.
    """
    name = scenario["flow"][0]["protocol"]
    made = fake({**scenario, "flow": [{**f, "protocol": "tcp-reno"} for f in scenario["flow"]]})
    factor = of.get(name, 1.0)
    if factor != 1.0:
        factor *= 1.0 + 0.01 * ((scenario["run"] * 7) % 5 - 2)
    for flow in made._outcome["flows"]:
        flow["protocol"] = name
        flow["last_byte_s"] = flow["start_s"] + (flow["last_byte_s"] - flow["start_s"]) / factor
        flow["goodput_bps"] *= factor
    return made


def made(tmp_path: Path, of: dict[str, float], text: str = THREE, runs: int = 12) -> wifu.Results:
    plan = plans.parse(text.replace("runs = 5", f"runs = {runs}"))
    return wifu.campaign(plan, tmp_path / "r", runner=lambda s: changed(s, of))


def marks(axis: Axes) -> dict[float, Line2D]:
    """The marks of a panel by their height, without the line at 1 and the whiskers."""
    return {
        float(np.asarray(line.get_ydata(), dtype=float)[0]): line
        for line in axis.get_lines()
        if line.get_marker() in ("o", "s", "^", "D") and len(line.get_xdata()) == 1  # type: ignore[arg-type]
    }


def hollow(mark: Line2D) -> bool:
    return to_rgba(mark.get_markerfacecolor()) == to_rgba("white")


def test_a_level_stands_at_the_ratio_of_the_table_with_its_interval(results: wifu.Results) -> None:
    figure, _ = drawn(results, kind="ratio", x="hops")
    table = results.compare("goodput")
    (axis,) = figure.axes
    assert sorted(marks(axis)) == pytest.approx(sorted(table["ratio"]))
    paths = [path for c in axis.collections for path in c.get_paths()]
    ends = [np.asarray(path.vertices, dtype=float)[:, 1] for path in paths]
    whiskers = sorted((float(min(e)), float(max(e))) for e in ends)
    for (low, high), row in zip(whiskers, table.sort_values("low").to_dict("records"), strict=True):
        assert (low, high) == pytest.approx((row["low"], row["high"]))


def test_ratios_have_a_logarithmic_scale_that_says_so_and_a_line_at_one(
    results: wifu.Results,
) -> None:
    figure, _ = drawn(results, kind="ratio", x="hops")
    (axis,) = figure.axes
    assert axis.get_yscale() == "log"
    assert "log scale" in axis.get_ylabel() and "tcp-reno" in axis.get_ylabel()
    flat = [line for line in axis.get_lines() if list(line.get_ydata()) == [1, 1]]  # type: ignore[arg-type]
    assert len(flat) == 1 and flat[0].get_marker() in (None, "None", "")
    shown = [t.get_text() for t in axis.get_yticklabels() if t.get_text()]
    assert "1" in shown and len(shown) >= 3


def test_what_passes_holm_is_filled_and_what_does_not_is_hollow(tmp_path: Path) -> None:
    # SACK is nearer to Reno than its runs are to each other.
    results = made(tmp_path, {"tcp-reno": 1.0, "tcp-newreno": 1.5, "tcp-sack": 0.999})
    table = results.compare("goodput")
    passes = {float(r["ratio"]): r["p_holm"] < 0.05 for r in table.to_dict("records")}
    assert sorted(passes.values()) == [False, False, True, True]
    figure, caption = drawn(results, kind="ratio", x="hops")
    seen = {y: not hollow(mark) for y, mark in marks(figure.axes[0]).items()}
    assert {round(y, 9): v for y, v in seen.items()} == {round(y, 9): v for y, v in passes.items()}
    # Which level it is, is a shape besides.
    shapes = {mark.get_marker() for mark in marks(figure.axes[0]).values()}
    assert len(shapes) == 2
    assert "12 pairs of runs" in caption and "Holm" in caption and "4 comparisons" in caption
    assert any("Holm" in name for name in legend(figure)) and "tcp-sack" in legend(figure)


def test_the_same_in_all_runs_is_told_and_is_no_difference(tmp_path: Path) -> None:
    results = made(tmp_path, {"tcp-reno": 1.0, "tcp-newreno": 1.5, "tcp-sack": 1.0})
    figure, caption = drawn(results, kind="ratio", x="hops")
    (axis,) = figure.axes
    assert hollow(marks(axis)[1.0])
    assert [t.get_text() for t in axis.texts] == ["=", "="]
    assert "=: identical in all runs" in caption


def test_beside_a_baseline_of_nothing_a_difference_is_written(tmp_path: Path) -> None:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        own = changed(scenario, {"tcp-newreno": 1.5, "tcp-sack": 0.5})
        far = scenario["topology"]["words"] == "linear,4"
        if far and scenario["flow"][0]["protocol"] == "tcp-reno":
            for flow in own._outcome["flows"]:
                flow["goodput_bps"], flow["bytes"], flow["finished"] = 0.0, 0, False
        return own

    results = wifu.campaign(plans.parse(THREE), tmp_path / "r", runner=runner)
    table = results.compare("goodput")
    assert not np.isfinite(table["ratio"]).all() and np.isfinite(table["ratio"]).any()
    figure, caption = drawn(results, kind="ratio", x="hops")
    told = [t.get_text() for t in figure.axes[0].texts]
    assert len(told) == 2 and all(t.startswith("Δ ") for t in told)
    value = float(table[~np.isfinite(table["ratio"])]["difference"].iloc[0])
    assert float(told[0].removeprefix("Δ ")) == pytest.approx(value, rel=0.01)
    assert "Δ: mean difference, Mb/s" in caption


def test_by_a_baseline_that_may_be_nothing_differences_are_told(tmp_path: Path) -> None:
    """One loss in eight runs: 9733 times as much, -13333 to 32799, hid what was certain."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        own = changed(scenario, {})
        name, run = scenario["flow"][0]["protocol"], scenario["run"]
        for flow in own._outcome["flows"]:
            few = int(run == 1)
            flow["retransmissions"] = few if name == "tcp-reno" else 900 + 10 * run
            flow["timeouts"] = (5 + run % 3) if name == "tcp-reno" else few
        return own

    text = THREE.replace("runs = 5", "runs = 8")
    results = wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)
    rows = results.compare("retransmissions").to_dict("records")
    for told in (compared.told(row, "retransmissions") for row in rows):
        assert told.difference and told.clear and 0 < told.low < told.value < told.high
    # Of what is never negative no ratio is.
    rows = results.compare("timeouts").to_dict("records")
    for told in (compared.told(row, "timeouts") for row in rows):
        assert not told.difference and told.low == 0.0 < told.value < told.high


def test_of_what_may_be_negative_differences_are_drawn_around_zero(tmp_path: Path) -> None:
    results = made(tmp_path, {"tcp-newreno": 1.5, "tcp-sack": 0.5})
    figure, caption = drawn(results, kind="ratio", metric="utility", x="hops")
    (axis,) = figure.axes
    assert axis.get_yscale() == "linear" and "log scale" not in axis.get_ylabel()
    assert [0, 0] in [list(line.get_ydata()) for line in axis.get_lines()]  # type: ignore[arg-type]
    table = results.compare("utility")
    # Logarithms differ as much however many hops there are.
    assert {round(y, 9) for y in marks(axis)} == {round(y, 9) for y in table["difference"]}
    assert "differences of means" in caption and "leaves out 0" in caption


def test_a_cell_without_a_value_says_so(tmp_path: Path) -> None:
    def runner(scenario: dict[str, Any]) -> FakeResult:
        own = fake(scenario)
        if scenario["flow"][0]["protocol"] == "tcp-sack":
            for flow in own._outcome["flows"]:
                flow["srtt_s"] = None
        return own

    plan = plans.parse(THREE.replace('"goodput", "jain", ', ""))
    broken = wifu.campaign(plan, tmp_path / "r", runner=runner)
    figure, caption = drawn(broken, kind="ratio", x="hops")
    assert [t.get_text() for t in figure.axes[0].texts] == ["=", "=", "n/a", "n/a"]
    assert list(marks(figure.axes[0])) == [1.0]
    assert "n/a: no value" in caption


def test_too_few_runs_for_so_many_comparisons_are_told(results: wifu.Results) -> None:
    _, caption = drawn(results, kind="ratio", x="hops")
    assert compared.beyond(results.compare("goodput"), "goodput")[0][1:] in caption
    assert "n = 5 pairs of runs" in caption


def test_ratios_along_the_compared_axis_itself_have_a_panel_for_the_others(
    results: wifu.Results,
) -> None:
    figure, _ = drawn(results, kind="ratio", x="protocol")
    assert panel_titles(figure) == ["hops 1", "hops 3"]
    assert [len(marks(axis)) for axis in figure.axes] == [1, 1]


def test_where_nothing_is_random_ratios_are_exact(tmp_path: Path) -> None:
    text = CHAIN.replace("runs = 5", "deterministic = true")
    results = wifu.campaign(
        plans.parse(text), tmp_path / "r", runner=lambda s: fake({**s, "run": 1})
    )
    figure, caption = drawn(results, kind="ratio", x="hops")
    assert "exact" in caption and "Holm" not in caption
    assert not any("Holm" in name for name in legend(figure))


def test_the_caption_and_the_words_are_in_the_pdf_and_svg(
    results: wifu.Results, tmp_path: Path
) -> None:
    made = figures.draw(results, {"kind": "ratio", "x": "hops"}, tmp_path)
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", made.svg.read_text())
    assert "tcp-newreno" in texts and "1" in texts
    assert b"/FontFile2" in made.pdf.read_bytes()


def test_ratios_need_something_to_compare() -> None:
    alone = """
    [scenario]
    topology.words = "linear,{hops+1}"
    [[scenario.flow]]
    protocol = "tcp-reno"
    [vary]
    hops = [1, 3]
    [[figure]]
    kind = "ratio"
    """
    with pytest.raises(PlanError, match="needs `pair`"):
        plans.parse(alone)


def test_a_baseline_without_other_levels_is_told(results: wifu.Results) -> None:
    with pytest.raises(LabError, match="nothing beside the baseline"):
        drawn(results, kind="ratio", where={"protocol": "tcp-reno"})


def uneven(scenario: dict[str, Any]) -> FakeResult:
    """NewReno delivers a half more and retransmits ten times as much, and Reno's second flow
    starves in two runs.
    """
    made, name = fake(scenario), scenario["flow"][0]["protocol"]
    for flow in made._outcome["flows"]:
        if name == "tcp-newreno":
            flow["bytes"] = flow["bytes"] * 3 // 2
            flow["retransmissions"] = 10 * (5 + scenario["run"] % 3)
    if name == "tcp-reno" and scenario["run"] < 3:
        made._outcome["flows"][1] |= {"goodput_bps": 500.0, "bytes": 100}
    return made


@pytest.fixture(scope="module")
def uneven_runs(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    plan = plans.parse(CHAIN.replace("runs = 5", "runs = 12"))
    return wifu.campaign(plan, tmp_path_factory.mktemp("r"), runner=uneven)


def test_a_mark_that_is_hollow_for_another_reason_says_so(uneven_runs: wifu.Results) -> None:
    figure, caption = drawn(uneven_runs, kind="ratio", metric="retransmissions", x="hops")
    row = uneven_runs.compare("retransmissions").iloc[0]
    assert row["p_holm"] < 0.05 and row["low"] > 1, "else there is nothing to explain"
    assert all(hollow(mark) for mark in marks(figure.axes[0]).values())
    why = "counts of runs that delivered more than 10 % apart"
    assert f"All are hollow whatever p and the interval are: {why}" in caption
    assert "no difference shown, or unlike in more (see caption)" in legend(figure)
    # What both sides of a ratio are is told as in the table.
    assert "delivered from" in caption


def test_what_is_said_of_a_ratio_is_of_the_baseline_too(uneven_runs: wifu.Results) -> None:
    _, caption = drawn(uneven_runs, kind="ratio", metric="aggregate", x="hops")
    assert "flows starved" in caption and "tcp-reno 2" in caption
