import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake import FakeResult, fake, pairs

import wifu
from wifu import plan as plans
from wifu import report, screen
from wifu.api import Run
from wifu.errors import LabError
from wifu.frames import DTYPE, decode

SCENARIO = {
    "seed": 1,
    "run": 1,
    "topology": {"words": "linear,3"},
    "flow": [{"from": "n1", "to": "n3", "protocol": "tcp-reno"}],
    "record": {"series": True},
}


def test_a_run_shows_flows_nodes_links_hops_and_series() -> None:
    run = wifu.run(SCENARIO, runner=fake)
    frame = run.to_pandas()
    assert frame["flow_hops"].tolist() == [2]
    assert len(run.nodes()) == 3
    assert len(run.links()) == 4
    assert len(run.hops()) == 2
    assert run.jain() == 1.0
    assert "flow.1.cwnd" in run.series_names
    assert run.series("flow.1.delivered").iloc[-1] == pytest.approx(1e6)
    with pytest.raises(KeyError, match=r"did you mean `flow\.1\.cwnd`"):
        run.series("flow.1.cwdn")
    assert "1 flows" in repr(run)
    assert "<table" in run._repr_html_()


def test_a_scenario_is_a_dict_a_text_or_a_file(tmp_path: Path) -> None:
    text = (
        'topology.words = "linear,3"\nseed = 1\nrun = 1\n'
        '[[flow]]\nfrom = "n1"\nto = "n3"\nprotocol = "tcp-reno"\n'
    )
    (tmp_path / "s.toml").write_text(text)
    rates = {
        wifu.run(s, runner=fake).to_pandas()["goodput_bps"].iloc[0]
        for s in (SCENARIO, text, tmp_path / "s.toml", str(tmp_path / "s.toml"))
    }
    assert len(rates) == 1
    other = wifu.run(text, runner=fake, run=2).to_pandas()["goodput_bps"].iloc[0]
    assert other not in rates


def test_the_frame_trace_has_names() -> None:
    raw = np.zeros(2, dtype=DTYPE)
    raw["time_ns"] = [1_500_000_000, 2_000_000_000]
    raw["node"], raw["peer"], raw["other"] = [0, 1], [1, 0xFFFF], [0xFFFF, 2]
    raw["what"], raw["why"], raw["kind"], raw["signal"] = [3, 5], [0, 4], [0, 1], [0, 0]
    raw["mode"], raw["flags"] = [4, 11], [0, 1]

    class Traced(FakeResult):
        def frames(self) -> bytes:
            return raw.tobytes()

    result = fake(SCENARIO)
    frame = Run(SCENARIO, Traced(result._outcome, {})).frames()
    assert DTYPE.itemsize == 32
    assert frame["time_s"].tolist() == [1.5, 2.0]
    assert frame["node"].tolist() == ["n1", "n2"]
    assert frame["peer"].astype(object).iloc[0] == "n2"
    assert pd.isna(frame["peer"].iloc[1])
    assert frame["other"].iloc[1] == "n3"
    assert frame["what"].tolist() == ["sent", "lost"]
    assert frame["why"].tolist() == ["", "collision"]
    assert frame["kind"].tolist() == ["data", "ack"]
    assert frame["rate_mbps"].tolist() == [6.0, 54.0]
    assert frame["retry"].tolist() == [False, True]
    raw["what"], raw["signal"] = [0, 4], [0, -7550]
    frame = decode(raw.tobytes())
    assert frame["peer"].astype(object).fillna("").tolist() == ["n2", ""]
    # Also where the highest node is in one of them only.
    assert (frame["node"] == frame["peer"]).tolist() == [False, False]
    assert (frame["other"] == frame["node"]).tolist() == [False, False]
    assert list(frame["node"].cat.categories) == ["n1", "n2", "n3"]
    assert frame[["rate_mbps", "signal_dbm"]].isna().to_numpy().tolist() == [
        [True] * 2,
        [False] * 2,
    ]
    assert frame["signal_dbm"].iloc[1] == -75.5
    with pytest.raises(LabError, match="63 bytes are no multiple of 32"):
        decode(raw.tobytes()[:-1])
    raw["why"] = [0, 9]
    with pytest.raises(LabError, match="record 1 has a why that does not exist"):
        decode(raw.tobytes())
    with pytest.raises(LabError, match="there is a node 1, counted from 0, and 1 names"):
        decode(raw[:1].tobytes(), ["n1"])


TEXT = """
name = "fake"
runs = 8
baseline = "tcp-reno"
[scenario]
topology.words = "linear,{hops+1}"
[[scenario.flow]]
protocol = "{protocol}"
[vary]
hops = [1, 3]
protocol = ["tcp-newreno", "tcp-reno"]
"""


def results(tmp_path: Path) -> wifu.Results:
    return wifu.campaign(plans.parse(TEXT), tmp_path / "r", runner=fake)


def test_results_summarise_and_compare_in_pairs(tmp_path: Path) -> None:
    found = results(tmp_path)
    summary = found.summary("goodput")
    assert summary[["hops", "protocol"]].values.tolist() == [
        [1, "tcp-newreno"],
        [1, "tcp-reno"],
        [3, "tcp-newreno"],
        [3, "tcp-reno"],
    ]
    assert (summary["low"] < summary["mean"]).all()
    assert (summary["mean"] < summary["high"]).all()
    compared = found.compare("goodput")
    assert compared["baseline"].tolist() == ["tcp-reno"] * 2
    assert compared["ratio"].between(1.15, 1.35).all()
    # The channel is common to both protocols, so the ratio is known better than either mean.
    assert ((compared["high"] - compared["low"]) / 2 / compared["ratio"] < 0.06).all()
    assert (compared["p"] < 0.01).all()
    assert len(found.to_pandas()) == 32
    assert "tcp-newreno" in found._repr_html_()
    assert "4 cells, 32 runs, complete" in repr(found)


def test_levels_of_any_axis_are_compared(tmp_path: Path) -> None:
    found = wifu.campaign(
        plans.parse(TEXT.replace("[1, 3]", "[1, 3, 4]")), tmp_path / "r", runner=fake
    )
    asked = {"plan": found.compare("goodput"), "hops": found.compare("goodput", pair="hops")}
    assert asked["plan"].equals(found.compare("goodput", pair="protocol"))
    assert set(asked["plan"]["baseline"]) == {"tcp-reno"}
    hops = asked["hops"].set_index(["protocol", "hops"])
    assert set(hops["baseline"]) == {1} and len(hops) == 4
    assert hops["ratio"].between(0.2, 0.5).all()
    other = found.compare("goodput", baseline=3, pair="hops").set_index(["protocol", "hops"])
    assert set(other["baseline"]) == {3}
    assert (other["ratio"].xs(1, level="hops") > 2).all()
    with pytest.raises(LabError, match="did you mean `hops`"):
        found.compare("goodput", pair="hosp")
    with pytest.raises(LabError, match="hops has no tcp-reno"):
        found.compare("goodput", baseline="tcp-reno", pair="hops")


def test_a_campaign_goes_on_where_it_was(tmp_path: Path) -> None:
    results(tmp_path)

    def never(scenario: dict[str, Any]) -> FakeResult:
        raise AssertionError("everything is there already")

    again = wifu.campaign(plans.parse(TEXT), tmp_path / "r", runner=never)
    assert again.manifest["failed"] == []


def test_wrong_names_are_answered_with_the_nearest(tmp_path: Path) -> None:
    found = results(tmp_path)
    with pytest.raises(LabError, match="did you mean `goodput`"):
        found.sample("goodptu")
    with pytest.raises(LabError, match="axis protocol has no tcp-rno; did you mean `tcp-reno`"):
        found.sample("goodput", {"protocol": "tcp-rno"})
    with pytest.raises(LabError, match="no axis is called hop; did you mean `hops`"):
        found.sample("goodput", {"hop": 1})
    with pytest.raises(LabError, match="no outcome of nothing"):
        found.outcome("nothing")


def test_one_long_run_gets_its_interval_from_batches(tmp_path: Path) -> None:
    def batched(scenario: dict[str, Any]) -> FakeResult:
        result = fake(scenario)
        rng = np.random.default_rng(scenario["run"])
        sizes = rng.normal(1e6, 5e4, 11)
        result._outcome["flows"][0]["batches"] = [int(s) for s in sizes]
        result._outcome["batches_end_s"] = [float(k + 1) for k in range(11)]
        return result

    text = TEXT.replace("runs = 8", 'runs = 1\nmeasure = "steady"')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=batched)
    interval = found.interval("goodput", found.plan.cells[0])
    assert interval.n == 10
    assert interval.known
    assert interval.low < interval.estimate < interval.high
    assert "batch means" in interval.method


def test_series_of_a_campaign(tmp_path: Path) -> None:
    text = TEXT.replace("runs = 8", 'runs = 3\nseries = { runs = "1..2" }')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    cell = found.plan.cells[0]
    assert set(found.series(cell, 2)) >= {"flow.1.delivered", "flow.1.cwnd"}
    assert found.series(cell, 3) == {}


def test_pairs_of_doubles() -> None:
    assert pairs([1.0], [2.0]) == np.array([1.0, 2.0], dtype="<f8").tobytes()


def test_columns_of_tables_tell_their_unit(tmp_path: Path) -> None:
    recorded = plans.parse(TEXT + "[series]\nruns = [1]\n")
    found = wifu.campaign(recorded, tmp_path / "r", runner=fake)
    runs = pd.read_parquet(found.folder / "runs.parquet")
    flows = pd.read_parquet(found.folder / "results.parquet")
    units = {"goodput_bps", "aggregate_bps", "delay_s", "srtt_s", "loss_share", "finished_share"}
    assert units <= set(runs) and "goodput" not in runs and "srtt" not in runs
    assert "cwnd_bytes" in flows and "cwnd" not in flows
    # Of a flow it is of what it finished, as that column of runs is; theirs counts others, too.
    assert "delay_finished_s" in flows and "delay_s" not in flows
    # What a flow's column is called is not a metric's name of before.
    assert list(found.flows) == list(flows) and found.flows["finished"].all()
    assert list(found.runs) == list(runs)
    series = pd.read_parquet(next((found.folder / "series").iterdir()))
    assert list(series) == ["series", "time_s", "value"]
    assert set(found.summary("srtt")["unit"]) == {"ms"}


def test_tables_with_names_of_before_are_read(tmp_path: Path) -> None:
    recorded = plans.parse(TEXT + "[series]\nruns = [1]\n")
    found = wifu.campaign(recorded, tmp_path / "r", runner=fake)
    whole, cell = found.summary("srtt"), found.cells()[0]
    before = found.series(cell)["flow.1.cwnd"]
    old = {"goodput_bps": "goodput", "srtt_s": "srtt", "time_s": "t", "value": "v"}
    folder = found.folder
    for path in (folder / "runs.parquet", folder / "series" / f"{cell.name}-1.parquet"):
        pd.read_parquet(path).rename(columns=old).to_parquet(path, index=False)
    again = wifu.load(folder)
    pd.testing.assert_frame_equal(again.summary("srtt"), whole)
    pd.testing.assert_series_equal(again.series(cell)["flow.1.cwnd"], before)


def test_the_table_of_the_quick_start_is_printed_whole(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs/src/quick-start.md"
    (chosen,) = re.findall(r"^print\((table\[.*\])\)", page.read_text(), re.MULTILINE)
    table = results(tmp_path).summary("goodput")
    assert "..." in str(table)
    shown = str(eval(chosen, {"table": table}))
    assert "..." not in shown and {"mean", "low", "high"} <= set(shown.split("\n")[0].split())


def test_whole_numbers_among_fractions_are_levels_wherever_results_are_told(tmp_path: Path) -> None:
    """Of a column with fractions pandas makes fractions: no level was called 2.0."""
    text = TEXT.replace("[vary]", "[vary]\nloss = [0.5, 2, 2000000]")
    text = text.replace("[scenario]", '[scenario]\nhost.fwd_cost = "{loss}us"')
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    labels = [0.5, 2, 2000000]
    for frame in (found.summary(), found.compare("goodput")):
        told = list(dict.fromkeys(frame["loss"]))
        assert told == labels and [type(v) for v in told] == [float, int, int]
    for label in (0.5, 2.0, 2e6, "2"):
        assert {c.labels["loss"] for c in found.cells({"loss": label})} == {float(label)}
    with pytest.raises(LabError, match="loss has no 3;"):
        found.cells({"loss": 3.0})
    table = screen._summary_table(found)
    assert table.row_count == len(found.plan.cells)
    assert any("loss 2000000" in line for line in screen._compared(found))
    drawn = found.plot("ratio", x="loss", where={"hops": 1})
    places = [t.get_text() for axis in np.ravel(drawn) for t in axis.get_xticklabels()]
    assert places == ["0.5", "2", "2000000"], "levels were left out without a word"
    shown = report.render(found, [])
    assert "<td class='label'>2000000</td>" in shown and "2.0<" not in shown
