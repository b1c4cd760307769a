"""Transfers that the end of a run cut off: nobody may take the rest for all of them."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from fake import FakeResult, fake
from matplotlib.patches import Rectangle
from test_figures import drawn

import wifu
from wifu import asked, claims, cutoff, published, report, runner, stops
from wifu import plan as plans
from wifu.errors import LabError, PlanError
from wifu.figures import spread, style
from wifu.rows import flows_of, rows_of
from wifu.screen import _summary_table, dry, print_claims, screen
from wifu.store import Store

END = 2.5
"""Seconds after which runs here end."""

TEXT = """
name = "cut"
runs = 8
baseline = "tcp-reno"
metrics = ["delay", "goodput", "srtt"]
[scenario]
topology.words = "linear,{hops+1}"
[[scenario.flow]]
protocol = "{protocol}"
app = "file"
bytes = "1M"
[[scenario.flow]]
protocol = "{protocol}"
app = "bulk"
[vary]
hops = [1, 2]
protocol = ["tcp-reno", "tcp-newreno"]
"""


def ending(scenario: dict[str, Any]) -> FakeResult:
    """The stand-in, stopped by the clock; its second flow has no end."""
    found = fake(scenario)
    outcome = found._outcome
    outcome["flows"][1] |= {"app": "bulk", "finished": False}
    outcome["sim_seconds"] = END
    for flow in outcome["flows"]:
        if flow["last_byte_s"] > END:
            flow["bytes"] = int(flow["bytes"] * END / flow["last_byte_s"])
            flow |= {"last_byte_s": END, "finished": False}
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    folder = tmp_path_factory.mktemp("cut")
    return wifu.campaign(plans.parse(TEXT), folder / "r", runner=ending)


def cell(results: wifu.Results, hops: int, protocol: str) -> Any:
    return results.cells({"hops": hops, "protocol": protocol})[0]


def test_only_files_can_be_cut_off(results: wifu.Results) -> None:
    one, two = cell(results, 1, "tcp-reno"), cell(results, 2, "tcp-reno")
    # Half the time would do on one hop, and two need more than there is, but for a few runs.
    assert cutoff.runs(results, one) == set()
    assert 0 < len(cutoff.runs(results, two)) < 8, "what is tested here"
    assert not cutoff.least(results, one, "delay") and cutoff.least(results, two, "delay")
    assert not cutoff.least(results, two, "goodput")
    for metric, words in (
        ("delay", "means of such cells are the least that they can be"),
        ("goodput", "their goodput is that until then"),
    ):
        told = cutoff.sentence(results, results.plan.cells, metric)
        assert " of 32 transfers were cut off by the end of their run" in told and words in told
    assert cutoff.sentence(results, results.plan.cells, "srtt") == ""
    assert cutoff.sentence(results, [one], "delay") == ""


def test_what_is_cut_off_is_compared_with_nothing(results: wifu.Results) -> None:
    rows = results.compare("delay").set_index("hops")
    assert not rows["cut"][1] and 0 < rows["ratio"][1] < 1 and rows["p"][1] < 0.05
    assert rows["cut"][2] and np.isnan(rows["ratio"][2]) and np.isnan(rows["p"][2])
    assert "cut" not in results.compare("goodput")
    # Nor is the one of which the slow runs are missing the best.
    assert report.best_of(results, "delay") == {cell(results, 1, "tcp-newreno").name}
    text = report.render(results, [])
    assert "<span class='same'>cut off</span>" in text
    assert text.count("≥ ") >= 1 and "transfers were cut off by the end of their run" in text


def test_tables_say_that_it_is_the_least(results: wifu.Results) -> None:
    table = _summary_table(results)
    means, intervals = (list(table.columns[n].cells) for n in (2, 3))
    cut = [cutoff.least(results, c, "delay") for c in results.plan.cells]
    assert any(cut) and not all(cut)
    assert [str(mean).startswith("≥ ") for mean in means] == cut
    assert [interval == "" for interval in intervals] == cut


def test_summaries_say_that_it_is_the_least(results: wifu.Results) -> None:
    rows = results.summary("delay")
    cut = [cutoff.least(results, c, "delay") for c in results.plan.cells]
    assert rows["at_least"].tolist() == cut
    assert rows["low"].isna().tolist() == rows["high"].isna().tolist() == cut
    assert [bool(words) for words in rows["unfinished"]] == cut
    assert not results.summary("goodput")["at_least"].any()
    shown = results._repr_html_()
    assert shown.count("≥ ") == sum(cut)
    assert "means of such cells are the least that they can be" in shown


def test_tables_without_their_runs_have_what_their_plan_names(
    results: wifu.Results, tmp_path: Path
) -> None:
    """The rest is not looked for without an end, and said to be missing."""
    alone = tmp_path / "tables"
    shutil.copytree(results.folder, alone, ignore=shutil.ignore_patterns("*.json.gz"))
    found = wifu.load(alone)
    cut = next(c for c in found.plan.cells if cutoff.runs(found, c, "delay_median@1"))
    assert found.sample("delay_median@1", cut.labels).isna().all()
    with pytest.raises(LabError, match="has no outcome of"):
        found.interval("delay_median@1", cut)


@pytest.mark.parametrize("name", ["results", "runs"])
def test_a_table_that_is_none_is_named(results: wifu.Results, tmp_path: Path, name: str) -> None:
    copy = tmp_path / "broken"
    shutil.copytree(results.folder, copy)
    (copy / f"{name}.parquet").write_text("garbage")
    with pytest.raises(LabError, match=f"{name}.parquet: is no table that can be read: delete it"):
        wifu.load(copy)
    (copy / f"{name}.parquet").unlink()
    assert len(wifu.load(copy).runs) == len(results.runs)


def test_tables_for_other_programs_have_the_time_so_far(results: wifu.Results) -> None:
    """Who averages a column gets what the summary says, and can tell of what it is."""
    runs = pd.read_parquet(results.folder / "runs.parquet")
    assert list(runs.columns) == list(results.runs.columns)
    for hops, protocol in ((1, "tcp-reno"), (2, "tcp-reno"), (2, "tcp-newreno")):
        one = cell(results, hops, protocol)
        own = runs[runs["cell"] == one.name]
        assert own["delay_s"].mean() == pytest.approx(results.interval("delay", one).estimate)
        assert own["delay_cut_off"].sum() == cutoff.count(results, [one])[0]
        late = set(own[own["delay_cut_off"] > 0]["run"])
        assert late == cutoff.runs(results, one, "delay")
        # What finished transfers took alone is another column, of which samples are.
        sample = results.sample("delay", one.labels)
        assert own["delay_finished_s"].notna().sum() == sample.notna().sum() == 8 - len(late)
    two = cell(results, 2, "tcp-reno")
    alone = results.runs[results.runs["cell"] == two.name]
    assert "delay_s@1" not in alone
    assert results.sample("delay@1", two.labels).notna().sum() == 8 - len(cutoff.runs(results, two))
    alone = results.runs[results.runs["cell"] == two.name]
    assert alone["delay_s@1"].mean() == pytest.approx(alone["delay_s"].mean())


def test_tables_of_an_older_lab_get_the_time_so_far(tmp_path: Path) -> None:
    found = wifu.campaign(plans.parse(TEXT), tmp_path / "r", runner=ending)
    path, now = found.folder / "runs.parquet", found.runs
    old = now.drop(columns=["delay_cut_off", "delay_finished_s", "delay_median_finished_s"])
    old = old.assign(delay_s=now["delay_finished_s"])
    old.attrs.update(now.attrs)
    old.to_parquet(path)
    again = wifu.load(found.folder)
    assert again.runs["delay_s"].tolist() == now["delay_s"].tolist()
    assert now["delay_finished_s"].isna().any()


def test_rows_of_every_metric_say_how_many_were_unfinished(results: wifu.Results) -> None:
    """Also where the metric does not depend on it, as runs differ all the same."""
    whole, cut = cell(results, 1, "tcp-reno"), cell(results, 2, "tcp-reno")
    count = len(cutoff.runs(results, cut))
    said = f"{count} of 8 transfers unfinished"
    for metric in results.plan.metrics:
        assert cutoff.unfinished(results, [cut], metric) == said
        assert cutoff.unfinished(results, [whole], metric) == ""
        rows = results.compare(metric).set_index("hops")["unfinished"]
        assert rows[1] == "" and rows[2].endswith(" of 16 transfers unfinished")
    # A flow without an end is never unfinished.
    assert cutoff.unfinished(results, [cut], "goodput@2") == ""
    assert cutoff.unfinished(results, [cut], "goodput@1") == said
    text = report.render(results, [])
    assert text.count(said) == 3, "a cell in the table of each metric"
    assert text.count(" of 16 transfers unfinished") == 3
    table = _summary_table(results)
    assert f"{count} of 8" in [str(c) for c in table.columns[-1].cells]


def test_who_finishes_only_the_quick_ones_is_not_quick(tmp_path: Path) -> None:
    """Of two files one is done in a second and one never: 1 s is no least of the mean, and makes it
    look better than who needs 2 s for each.
    """

    def stuck(scenario: dict[str, Any]) -> FakeResult:
        outcome = fake(scenario)._outcome
        quick = scenario["flow"][0]["protocol"] == "tcp-newreno"
        jitter = scenario["run"] * 1e-3
        for flow, end in zip(outcome["flows"], (1.0, 41.0) if quick else (2.0, 2.0), strict=True):
            flow |= {"start_s": 0.0, "last_byte_s": min(end, 30.0) + jitter, "finished": end < 30}
        outcome["flows"][1]["fault"] = "TimedOut" if quick and scenario["run"] % 2 else None
        return FakeResult({**outcome, "sim_seconds": 31.0}, {})

    text = TEXT.replace('app = "bulk"', 'app = "file"\nbytes = "1M"').replace("[1, 2]", "[1]")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=stuck)
    slow, quick = (cell(found, 1, name) for name in ("tcp-reno", "tcp-newreno"))
    for metric in ("delay", "delay_median"):
        assert found.sample(metric, quick.labels).mean() < 1.01, "what is tested here"
        least = found.interval(metric, quick)
        assert least.estimate == pytest.approx((1.0045 + 31.0) / 2) and not least.known
        assert found.interval(metric, slow).estimate == pytest.approx(2.0045)
    row = found.summary("delay").set_index("protocol").loc["tcp-newreno"]
    assert row["mean"] == pytest.approx(16.002, abs=1e-3) and row["at_least"] and row["n"] == 8
    assert row[["low", "high", "sd", "median", "least", "greatest"]].isna().all()
    assert "≥ 16.0" in report._pivot(found, "delay")
    assert found.interval("delay@2", quick).estimate == pytest.approx(31.0)
    told = cutoff.sentence(found, [quick], "delay")
    assert told.startswith("4 of 16 transfers were cut off by the end of their run, 4 failed: they")


def test_requests_that_failed_count_until_their_connection_did(tmp_path: Path) -> None:
    def failing(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(loading(scenario).json())
        (flow,) = outcome["flows"]
        flow["requests"] = [{"start_s": 0.0, "delay_s": 0.5, "bytes": 9}]
        flow |= {"under_way_s": None, "requests_failed": []}
        if scenario["flow"][0]["jitter"] != 0:
            flow["requests_failed"] = [{"start_s": 1.0, "bytes": 9, "failed_s": 7.5}]
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(ASKING), tmp_path / "r", runner=failing)
    (breaks,) = found.cells({"link": "breaks"})
    assert cutoff.at_least(found, breaks, 1, "delay") == pytest.approx((0.5 + 7.5) / 2)
    assert found.interval("delay", breaks).estimate == pytest.approx(4.0)


def test_cells_of_which_nothing_was_finished_say_so(tmp_path: Path) -> None:
    """No run has a value of them: each transfer took as long as its run at the least."""

    def never_twice(scenario: dict[str, Any]) -> FakeResult:
        found = fake(scenario)
        for flow in found._outcome["flows"]:
            flow["finished"] = flow["id"] == 1 and scenario["topology"]["words"] == "linear,2"
        return found

    plan = plans.parse(TEXT.replace("runs = 8", "runs = 3"))
    found = wifu.campaign(plan, tmp_path / "r", runner=never_twice)
    said = "3 of 3 transfers unfinished"
    cells = found.cells({"hops": 2})
    assert [cutoff.unfinished(found, [c], "delay") for c in cells] == [said] * 2
    assert found.sample("delay", {"hops": 2}).isna().all(), "what is tested here"
    for c in cells:
        ends = found.runs[found.runs["cell"] == c.name]["sim_seconds"]
        assert found.interval("delay", c).n == 3
        assert found.interval("delay", c).estimate == pytest.approx(ends.mean() - 0.005)
    assert report._pivot(found, "delay").count(said) == 2
    rows = found.compare("delay").set_index("hops")["unfinished"]
    assert rows[2] == "6 of 6 transfers unfinished" and rows[1] == ""
    table = _summary_table(found)
    assert [str(c) for c in table.columns[-1].cells].count("3 of 3") == 2
    assert [str(c).startswith("≥ ") for c in table.columns[2].cells].count(True) == 2
    assert report._pivot(found, "delay").count("≥ ") == 2
    figure, _ = drawn(found, kind="bars", metric="delay", x="hops")
    bars = [p.get_height() for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    assert sorted(bars)[-1] == pytest.approx(
        max(found.interval("delay", c).estimate for c in cells)
    )


def test_claims_say_of_how_many_unfinished_transfers_they_are(
    results: wifu.Results, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, Any] = {"metric": "goodput", "of": {"hops": 2, "protocol": "tcp-reno"}}
    claim = published.Claim(
        "X", "says", "here", "SOFT", "cut",
        tuple(
            published.Check(kind, kind, "SOFT", -1e9, 1e9, "", more)
            for kind, more in (
                ("value", given),
                ("ratio", {**given, "over": {"hops": 2, "protocol": "tcp-newreno"}}),
                ("value", {**given, "of": {"hops": 1, "protocol": "tcp-reno"}}),
            )
        ),
    )  # fmt: skip
    verdict = claims.judge(claim, results)
    count = len(cutoff.runs(results, cell(results, 2, "tcp-reno")))
    one, two, whole = verdict.findings
    assert one.notes == f"{count} of 8 transfers unfinished"
    assert two.notes.endswith(" of 16 transfers unfinished")
    assert whole.notes == ""
    assert verdict.to_json()["checks"][0]["unfinished"] == one.unfinished
    with screen.capture() as told:
        print_claims([verdict], [{}])
    assert told.get().count("unfinished") == 2
    print_claims([verdict], [{"emu": verdict}])
    assert capsys.readouterr().out.count("unfinished") == 4
    assert f"<span class='note'>{one.notes}</span>" in report.claim(verdict)


@pytest.mark.parametrize("kind", ["bars", "lines"])
def test_figures_say_that_it_is_the_least(results: wifu.Results, kind: str) -> None:
    figure, caption = drawn(results, kind=kind, metric="delay", x="hops")
    (axis,) = figure.axes
    told = [t.get_text() for t in axis.texts if "≥" in t.get_text()]
    assert len(told) == sum(cutoff.least(results, c, "delay") for c in results.plan.cells)
    # The means have all runs, those that were cut off with the least that they can be.
    assert "(≥)" in caption and "; n = 8 runs per cell; " in caption
    assert "have no value" not in caption
    ends = [
        segment[:, 1]
        for bars in axis.containers
        for part in getattr(bars, "lines", ((), (), ()))[2]
        for segment in part.get_segments()
    ]
    spans = [float(np.ptp(y)) for y in ends if y.size and np.isfinite(y).all() and np.ptp(y) > 0]
    assert len(spans) == 4 - len(told), "no whiskers around what is but the least"
    assert "(≥)" not in drawn(results, kind=kind, metric="srtt", x="hops")[1]


def test_a_distribution_ends_where_runs_were_cut_off(results: wifu.Results) -> None:
    figure, caption = drawn(results, kind="cdf", metric="delay", where={"protocol": "tcp-reno"})
    tops = [float(np.asarray(a.get_lines()[0].get_ydata(), float).max()) for a in figure.axes]
    cut = len(cutoff.runs(results, cell(results, 2, "tcp-reno")))
    assert tops == [1.0, pytest.approx(1 - cut / 8)]
    assert f"Of {cut} runs only the least that they can be is known" in caption
    assert "curves end below 1" in caption and "took longer" not in caption
    with style.context(None):
        title = spread.cdf(results, {"kind": "cdf", "metric": "delay"})[1]
    assert title == "Distribution of the mean download time of the runs"
    # The upper edge has those that were cut off at the end of their run.
    whole, band = (list[Any](a.patches) for a in figure.axes)
    assert not whole and all(edge.get_data().values[-1] == 1.0 for edge in band)
    ends = band[0].get_data()
    assert ends.edges[list(ends.values).index(1.0)] == pytest.approx(END - 0.005)
    assert "curves end below 1" not in drawn(results, kind="cdf", metric="srtt")[1]


def test_a_late_request_is_not_the_slowest_of_all_runs(tmp_path: Path) -> None:
    """A run whose mean lacks one of fifty requests is hardly slower for it."""

    def quick(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(loading(scenario).json())
        (flow,) = outcome["flows"]
        late = scenario["flow"][0]["jitter"] != 0
        n, took = (50, 0.1) if late else (9, 0.9)
        flow["requests"] = [{"start_s": k * 1.0, "delay_s": took, "bytes": 9} for k in range(n)]
        flow["under_way_s"] = 50.0 if late else None
        outcome["sim_seconds"] = 50.4
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(ASKING), tmp_path / "r", runner=quick)
    (breaks,) = found.cells({"link": "breaks"})
    assert cutoff.runs(found, breaks, "delay") == set(range(1, 9)), "what is tested here"
    least = (50 * 0.1 + 0.4) / 51
    assert cutoff.at_least(found, breaks, 1, "delay") == pytest.approx(least)
    assert cutoff.at_least(found, breaks, 1, "delay_median") == pytest.approx(0.1)
    figure, _ = drawn(found, kind="cdf", metric="delay")
    band: Any = figure.axes[0].patches[0]
    assert band.get_data().edges[0] == pytest.approx(least)
    assert band.get_data().values[0] == 1.0 and not np.any(band.get_data().baseline)
    low, high = figure.axes[0].get_xlim()
    assert low == 0.0 and 0.9 < high < 1.0


def test_bars_of_flows_say_that_they_are_the_least(results: wifu.Results) -> None:
    cut = cell(results, 2, "tcp-reno")
    where = {"where": {"hops": 2, "protocol": "tcp-reno"}}
    figure, _ = drawn(results, kind="flows", metric="delay", **where)
    (axis,) = figure.axes
    told = [t.get_text().startswith("≥") for t in axis.texts if t.get_text() != "n/a"]
    assert told == [True, True], "of the file and of all; the other has no end"
    assert len(axis.containers) == len(told), "bars, and no whiskers"
    where = {"where": {"hops": 1, "protocol": "tcp-reno"}}
    figure, _ = drawn(results, kind="flows", metric="delay", **where)
    assert not any("≥" in t.get_text() for t in figure.axes[0].texts)
    assert len(figure.axes[0].containers) > 2, "whiskers, too"
    # Panels have one scale, in which the bars of all of them end.
    figure, _ = drawn(results, kind="flows", metric="delay", where={"protocol": "tcp-reno"})
    top = max(p.get_height() for a in figure.axes for p in a.patches if isinstance(p, Rectangle))
    assert top > 2.0 and all(a.get_ylim()[1] > top for a in figure.axes)
    assert cutoff.least(results, cut, "delay@1") and not cutoff.least(results, cut, "delay@2")


def test_bars_of_flows_have_the_time_so_far_as_tables_do(tmp_path: Path) -> None:
    """Else who finishes the quick ones alone looks quick, with the same sign before the number."""

    def slow(scenario: dict[str, Any]) -> FakeResult:
        found = fake(scenario)
        outcome = found._outcome
        outcome["sim_seconds"] = 9.0
        for flow, took in zip(outcome["flows"], (2.0, 9.0), strict=True):
            ends = took < 9.0 or (scenario["run"] == 1)
            flow.update(start_s=0.0, last_byte_s=3.0 if took > 2.0 else took, finished=ends)
        return found

    text = TEXT.replace('app = "bulk"', 'app = "file"\nbytes = "1M"').replace(
        "runs = 8", "runs = 4"
    )
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=slow)
    one = {"hops": 1, "protocol": "tcp-reno"}
    figure, caption = drawn(found, kind="flows", metric="delay", where=one)
    high = [p.get_height() for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    # The second flow had its file in one run of four, and was at it for 9 s in the others.
    mean = found.interval("delay", cell(found, 1, "tcp-reno")).estimate
    assert high == pytest.approx([2.0, (3.0 + 3 * 9.0) / 4, mean])
    assert "count with their time so far" in caption and "no file at all" not in caption
    texts = [t.get_text() for t in figure.axes[0].texts]
    assert [t.startswith("≥") for t in texts] == [False, True, True]
    # By rank, too; a run of which nothing was cut off is known.
    figure, _ = drawn(found, kind="flows", metric="delay", where=one, sorted=True)
    high = [p.get_height() for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    assert high == pytest.approx([2.0, 7.5, mean])
    figure, _ = drawn(found, kind="flows", metric="delay", where=one, run=1)
    assert not any("≥" in t.get_text() for t in figure.axes[0].texts)
    figure, _ = drawn(found, kind="flows", metric="delay", where=one, run=2)
    assert [t.get_text()[0] for t in figure.axes[0].texts] == ["2", "≥", "≥"]


def test_dots_of_a_tradeoff_tell_which_runs_were_cut_off(results: wifu.Results) -> None:
    cut = cell(results, 2, "tcp-reno")
    where = {"where": {"hops": 2, "protocol": "tcp-reno"}}
    figure, caption = drawn(results, kind="tradeoff", metric="aggregate", against="delay", **where)
    whole, *hollow = (np.shape(dots.get_offsets())[0] for dots in figure.axes[0].collections)
    mine = len(cutoff.runs(results, cut, "delay"))
    assert sum(hollow) == mine > 0 and whole == 8 - mine, "those of which nothing ended, too"
    assert not figure.axes[0].patches, "no ellipse where nobody knows the spread"
    assert "A hollow mean is the least that it can be" in caption
    assert "Hollow dots are runs" in caption


def test_runs_with_a_late_request_are_hollow_dots(tmp_path: Path) -> None:
    """Their mean is of the others, and the least that it can be is known."""
    found = wifu.campaign(plans.parse(ASKING), tmp_path / "r", runner=loading)
    where = {"link": "breaks"}
    figure, caption = drawn(found, kind="tradeoff", metric="goodput", against="delay", where=where)
    whole, hollow = figure.axes[0].collections
    assert np.shape(whole.get_offsets())[0] == 0 and np.shape(hollow.get_offsets())[0] == 8
    assert np.size(hollow.get_facecolor()) == 0 and "Hollow dots are runs" in caption
    (breaks,) = found.cells(where)
    least = sorted(cutoff.at_least(found, breaks, run, "delay") for run in range(1, 9))
    assert sorted(np.asarray(hollow.get_offsets())[:, 0]) == pytest.approx(least)
    assert min(least) > found.sample("delay", {"link": "whole"}).max(), "what is tested here"


def test_failed_runs_are_told_where_means_are(tmp_path: Path) -> None:
    text = TEXT.replace("hops = [1, 2]", "hops = [1]")
    text += '[vary.load]\nlight = { "flow.1.jitter" = 0 }\nheavy = { "flow.1.explode" = true }\n'
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=ending)
    text = report.render(found, [])
    assert "2 of 32 runs failed and are in no mean" in text
    assert "By cell: " in text and text.split("By cell: ")[1].count("heavy 1") == 2
    _, caption = drawn(found, kind="bars", x="protocol")
    assert "n = 7 to 8 runs per cell, without 2 that failed" in caption
    _, caption = drawn(found, kind="bars", x="protocol", where={"load": "light"})
    assert "n = 8 runs per cell;" in caption


ASKING = """
name = "asking"
runs = 8
pair = "link"
metrics = ["delay", "goodput"]
[scenario]
topology.words = "linear,2"
[[scenario.flow]]
protocol = "tcp-reno"
app = "http"
pause = "500ms"
[vary.link]
whole = { "flow.1.jitter" = 0 }
breaks = { "flow.1.jitter" = "1ms" }
"""


def loading(scenario: dict[str, Any]) -> FakeResult:
    """Pages of half a second, one a second for 10 s: the link stays, or breaks after 2 s."""
    run, breaks = scenario["run"], scenario["flow"][0]["jitter"] != 0
    count = 2 if breaks else 9
    told = [
        {"start_s": float(n), "delay_s": 0.5 + 0.01 * run - 0.1 * breaks, "bytes": 1000}
        for n in range(count)
    ]
    flow = {
        "id": 1, "protocol": "tcp-reno", "app": "http", "start_s": 0.0, "first_byte_s": 0.1,
        "last_byte_s": count - 0.5, "finished": False, "bytes": count * 1000 + run,
        "requests": told, "connections": count + (breaks or run == 1),
    }  # fmt: skip
    # The last of those of the link that stays had just begun.
    end = 10.0 if breaks else 9.3
    outcome = {"sim_seconds": end, "flows": [flow], "trace_hash": f"{run}{breaks}"}
    return FakeResult(outcome, {})


def test_requests_that_were_cut_off_are_told_as_files_are(tmp_path: Path) -> None:
    """A link that breaks leaves the quick pages: their mean is the least that it can be."""
    found = wifu.campaign(plans.parse(ASKING), tmp_path / "r", runner=loading)
    (whole,), (breaks,) = (found.cells({"link": name}) for name in ("whole", "breaks"))
    assert found.sample("delay", breaks.labels).mean() < found.sample("delay", whole.labels).mean()
    assert cutoff.least(found, breaks, "delay") and not cutoff.least(found, whole, "delay")
    assert cutoff.unfinished(found, [breaks], "delay") == "8 of 24 requests unfinished"
    assert cutoff.unfinished(found, [whole], "delay") == "1 of 73 requests unfinished"
    told = "9 of 97 requests were cut off by the end of their run: they count with their"
    assert told in cutoff.sentence(found, found.plan.cells, "delay")
    assert "none had taken longer" in cutoff.sentence(found, [whole], "delay")
    assert cutoff.per_run(found, breaks, "delay") == "2 requests per run"
    assert cutoff.beside(found, breaks, "goodput") == ""
    assert cutoff.unfinished(found, [breaks], "goodput") == "", "they have no end as a whole"
    row = found.compare("delay").iloc[0]
    assert row["cut"] and np.isnan(row["ratio"]) and np.isnan(row["p"])
    assert report.best_of(found, "delay") == set()
    text = report.render(found, [])
    assert "9 requests per run, 1 of 73 requests unfinished" in text and "≥ " in text
    columns = {str(c.header): list(c.cells) for c in _summary_table(found).columns}
    assert columns["requests per run"] == ["9", "2"]
    assert columns["unfinished"] == ["1 of 73", "8 of 24"]


def test_a_distribution_says_why_a_level_has_no_curve(tmp_path: Path) -> None:
    """Of a link that breaks two pages of each run came: that none did would be too strong."""

    def names(runner: Any, folder: str) -> list[str]:
        found = wifu.campaign(plans.parse(ASKING), tmp_path / folder, runner=runner)
        figure = found.plot("cdf", metric="delay", by="link").figure
        told = [text.get_text() for text in figure.legends[0].get_texts()]
        plt.close(figure)
        return told

    def silent(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(loading(scenario).json())
        if scenario["flow"][0]["jitter"] != 0:
            outcome["flows"][0] |= {"requests": [], "bytes": 0, "connections": 1}
        return FakeResult(outcome, {})

    def gone(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(silent(scenario).json())
        for flow in outcome["flows"]:
            flow["connections"] = 0 if flow["requests"] == [] else flow["connections"]
        return FakeResult(outcome, {})

    assert names(loading, "breaks") == ["whole", "breaks (no complete run)"]
    assert names(silent, "silent") == ["whole", "breaks (no answer)"]
    assert names(gone, "gone") == ["whole", "breaks (no value)"], "nothing was asked"


@pytest.mark.parametrize("told", [False, True])
def test_a_file_that_hangs_on_the_connection_of_others_is_told(told: bool, tmp_path: Path) -> None:
    """All files go over one connection: how many there were says nothing."""

    def kept(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(loading(scenario).json())
        (flow,) = outcome["flows"]
        flow["connections"] = 1 if not told else 12
        if told:
            breaks = scenario["flow"][0]["jitter"] != 0
            flow["under_way_s"] = 2.0 if breaks else None
        return FakeResult(outcome, {})

    text = ASKING.replace('pause = "500ms"', 'pause = "500ms"\npersistent = true')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=kept)
    (whole,), (breaks,) = (found.cells({"link": name}) for name in ("whole", "breaks"))
    assert cutoff.least(found, breaks, "delay") and not cutoff.least(found, whole, "delay")
    assert cutoff.unfinished(found, [breaks], "delay") == "8 of 24 requests unfinished"
    assert bool(cutoff.unfinished(found, [whole], "delay")) is not told


def test_files_beyond_those_that_a_run_waits_for_are_not_cut_off(tmp_path: Path) -> None:
    """Who has as many goes on meanwhile: what it asks for then is nobody's delay."""

    def counted(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(loading(scenario).json())
        (flow,) = outcome["flows"]
        flow["connections"], flow["bytes"] = 40, 50_000
        return FakeResult(outcome, {})

    text = ASKING + "[scenario.stop]\nrequests = 9\n"
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=counted)
    (whole,), (breaks,) = (found.cells({"link": name}) for name in ("whole", "breaks"))
    assert cutoff.least(found, breaks, "delay") and not cutoff.least(found, whole, "delay")
    assert cutoff.unfinished(found, [whole], "delay") == ""


def test_a_request_that_was_under_way() -> None:
    done = [{"start_s": at, "delay_s": 0.5, "bytes": 10} for at in (0.0, 1.0)]

    def at(end: float, scenario: dict[str, Any] | None = None, **flow: Any) -> tuple[int, int]:
        given = {"app": "request", "start_s": 0.0, "bytes": 20, "requests": done, "id": 1, **flow}
        return asked.under_way({"sim_seconds": end}, given, scenario or {})

    assert at(9.0, app="file") == at(9.0, finished=True) == (0, 0)
    assert at(1.9) == (0, 0), "it pauses half a second"
    assert at(1.9, bytes=25) == (1, 0), "a part of the answer has come"
    assert at(9.0) == (1, 1), "no pause is so long"
    assert at(1.9, app="http", connections=2) == (0, 0)
    assert at(1.9, app="http", connections=3) == (1, 0)
    assert at(2.6, app="http", connections=3) == (1, 1)
    assert at(5.0, requests=[], bytes=0) == (1, 1)
    assert at(0.0, requests=[], bytes=0) == (0, 0), "not begun"
    kept = {"flow": [{"persistent": True}]}
    assert at(1.9, kept, app="http", connections=1) == (0, 0)
    assert at(1.9, kept, app="http", connections=1, bytes=25) == (1, 0)
    assert at(9.0, kept, app="http", connections=1) == (1, 1)
    assert at(9.0, {"stop": {"requests": 2}}, bytes=25) == (0, 0)
    assert at(9.0, {"stop": {"requests": 3}}, bytes=25) == (1, 1)
    # A file that failed had a connection, too; where it is told there is nothing to guess.
    assert at(9.0, app="http", connections=5, under_way_s=None) == (0, 0)
    assert at(1.9, bytes=20, under_way_s=1.6) == (1, 0)
    assert at(2.2, bytes=20, under_way_s=1.6) == (1, 1)
    listed = [*done, {"start_s": 1.7, "delay_s": None, "bytes": 0}]
    assert at(2.0, requests=listed) == (1, 0) and at(2.3, requests=listed) == (1, 1)


def test_a_sender_that_never_learned_of_the_end_is_cut_off(tmp_path: Path) -> None:
    """All had arrived, and it asked on until its run ended: no run is quicker for that."""

    def silent(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        outcome["sim_seconds"] = 60.0
        for flow in outcome["flows"]:
            never = flow["protocol"] == "tcp-newreno" and scenario["run"] > 2
            known = None if never else flow["last_byte_s"] + 0.1
            flow |= {"finished": True, "known_s": known}
        return FakeResult(outcome, {})

    text = TEXT.replace("hops = [1, 2]", "hops = [1]").replace('"srtt"', '"known"')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=silent)
    told, never = cell(found, 1, "tcp-reno"), cell(found, 1, "tcp-newreno")
    assert cutoff.runs(found, never, "known") == set(range(3, 9))
    assert cutoff.runs(found, told, "known") == cutoff.runs(found, never, "delay") == set()
    assert cutoff.at_least(found, never, 3, "known") == pytest.approx(60.0, abs=0.1)
    assert cutoff.unfinished(found, [never], "known") == "6 of 8 transfers unfinished"
    assert cutoff.unfinished(found, [never], "delay") == "", "it was finished"
    assert found.runs.query("run > 2 and protocol == 'tcp-newreno'")["known_s"].min() > 30.0
    assert report.best_of(found, "known") == set()
    figure, caption = drawn(found, kind="cdf", metric="known", by="protocol")
    assert "end below 1" in caption
    curves = [np.asarray(line.get_ydata(), dtype=float) for line in figure.axes[0].lines]
    assert min(float(y[-1]) for y in curves if y.size > 2) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("", ""), True),
        (('pause = "500ms"', 'pause = "500ms"\ncount = 9'), False),
        (('pause = "500ms"', 'pause = "500ms"\nstop_at = "9s"'), False),
        (("[scenario]", "[scenario]\nstop.requests = 9"), False),
        (('"delay", "goodput"', '"goodput"'), False),
    ],
)
def test_requests_that_will_be_cut_off_are_told_before_a_run(
    change: tuple[str, str], told: bool
) -> None:
    found = cutoff.warnings(plans.parse(ASKING.replace(*change)))
    assert [text[:28] for text in found] == ["flow 1 asks until the run is"] * told
    with screen.capture() as said:
        dry(plans.parse(ASKING.replace(*change)), Store(Path("/nowhere")), as_json=False)
    assert ("With a `count`" in " ".join(said.get().split())) is told


WIRED = """
name = "wired"
runner = "mock"
runs = 6
pair = "protocol"
metrics = ["delay", "goodput"]
[scenario]
protocol = "{protocol}"
bytes = "300k"
time = "60s"
[vary]
protocol = ["tcp-newreno", "tcp-sack"]
"""


def wired(scenario: dict[str, Any]) -> FakeResult:
    """Half of the files of tcp-sack are cut off, and the others are quick."""
    run, sack = int(scenario["seed"]), scenario["protocol"] == "tcp-sack"
    done = run % 2 == 0 or not sack
    flow = {
        "id": 1, "protocol": scenario["protocol"], "app": "file", "start_s": 0.0,
        "last_byte_s": 10.0 + run / 9 if sack else 20.0 + run / 9, "finished": done,
        "bytes": 300_000 if done else 40_000, "retransmissions": 9,
    }  # fmt: skip
    return FakeResult({"sim_seconds": 60.0 if sack else 21.0, "flows": [flow]}, {})


def test_files_over_the_wired_network_are_cut_off_as_others_are(tmp_path: Path) -> None:
    found = wifu.campaign(plans.parse(WIRED), tmp_path / "r", runner=wired)
    cells = found.plan.cells
    assert cutoff.count(found, cells, "delay") == (3, 12)
    assert [cutoff.least(found, cell, "delay") for cell in cells] == [False, True]
    assert found.compare("delay")["cut"].all()
    assert stops.longer(rows_of(found, cells), cells) == ("a longer `time`",)
    # Without bytes nothing ends, and with neither it is a file.
    for gone, app in (('time = "60s"\n', "file"), ('bytes = "300k"\n', "bulk")):
        plan = plans.parse(WIRED.replace(gone, ""))
        assert {flow["app"] for c in plan.cells for _, flow in flows_of(c)} == {app}


@pytest.mark.parametrize("mode", ['"receiver"', '"steady"', '{ mode = "window", to = "9s" }'])
def test_the_wired_network_has_no_times_but_those_of_whole_flows(mode: str) -> None:
    with pytest.raises(PlanError, match=r"measure: '[a-z]+' cannot be had of the wired network"):
        plans.parse(f"measure = {mode}\n{WIRED}")


def test_flows_that_never_start_are_told_before_a_run() -> None:
    text = ASKING.replace(
        "[[scenario.flow]]", 'stop.time = "3s"\n[[scenario.flow]]\nstart = "{at}"'
    )
    late = plans.parse(text.replace("{at}", "5s"))
    told = [words for words in cutoff.warnings(late) if "starts at" in words]
    assert told == [
        "flow 1 starts at 5 s, and runs end at 3 s (stop.time): it never does, in whole, breaks."
    ]
    assert not any(
        "starts at" in w for w in cutoff.warnings(plans.parse(text.replace("{at}", "2s")))
    )


def test_a_connection_that_gave_up_over_the_wired_network_is_an_outcome() -> None:
    def done(code: int, out: str, err: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], code, out, err)

    flow = {"flow": 1, "bytes_delivered": 5, "intact": True, "complete": False}
    text = json.dumps({"flows": [flow, {**flow, "flow": 2}]})
    told = runner._told(done(1, text, "wifu: flow 2, A: ended with TimedOut\n"))
    assert [each.get("fault") for each in told["flows"]] == [None, "TimedOut"]
    with pytest.raises(ValueError, match="byte 3 is wrong"):
        runner._told(done(1, text.replace("true", "false"), "wifu: flow 1: byte 3 is wrong"))
    with pytest.raises(ValueError, match="no protocol"):
        runner._told(done(1, "", "no protocol of this name"))


TALK = 'app = "onoff"\nrate = "1M"\non = "1s"\noff = "1s"\n'


@pytest.mark.parametrize(("time", "told"), [("60s", 0), ("59s", 8)])
@pytest.mark.parametrize(
    "app",
    ['app = "stream"\ntime', 'app = "bulk"\nstop_at', "stop_at", f"{TALK}time", f"{TALK}stop_at"],
)
def test_who_writes_until_the_run_ends_has_no_rate_that_was_cut_off(
    tmp_path: Path, app: str, time: str, told: int
) -> None:
    text = ASKING.replace('app = "http"\npause = "500ms"', f'{app} = "{time}"')
    text = text.replace("[[scenario.flow]]", 'stop.time = "60s"\n[[scenario.flow]]', 1)
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=loading)
    whole, breaks = found.plan.cells
    assert cutoff.count(found, [whole], "goodput") == (told, told)
    assert cutoff.count(found, [breaks], "delay")[0] == 8, "of times they are the least"
    assert cutoff.least(found, breaks, "delay")


def test_requests_of_a_count_that_were_never_asked_are_no_upper_end(tmp_path: Path) -> None:
    """Who is cut off after the slow ones may be quick in the rest: at the least none of them is."""
    text = ASKING.replace('pause = "500ms"', 'pause = "500ms"\ncount = 9')

    def runner(scenario: dict[str, Any]) -> FakeResult:
        run = scenario["run"]
        done = [
            {"start_s": 2.0 * k, "delay_s": 1.0 + 0.01 * run} for k in range(6 if run == 1 else 9)
        ]
        flow = {
            "id": 1,
            "protocol": scenario["flow"][0]["protocol"],
            "app": "request",
            "start_s": 0.0,
            "last_byte_s": 9.0,
            "finished": run != 1,
            "bytes": 9,
            "requests": done,
            "under_way_s": None,
        }
        name = f"{run}{flow['protocol']}"
        return FakeResult({"sim_seconds": 60.0, "flows": [flow], "trace_hash": name}, {})

    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)
    cell = found.plan.cells[0]
    assert cutoff.runs(found, cell, "delay") == {1}
    assert cutoff.at_least(found, cell, 1, "delay") == pytest.approx(6 * 1.01 / 9)
    assert "3 of" in cutoff.unfinished(found, [cell], "delay")
    assert "never asked count as taking none" in cutoff.sentence(found, [cell], "delay")
