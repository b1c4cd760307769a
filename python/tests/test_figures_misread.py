"""Figures warn of what a reader would conclude wrongly from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from fake import CHAIN, PROBED, FakeResult, fake, pairs
from test_figures import drawn, legend

import wifu
from wifu import cautions, conduct, figures
from wifu import plan as plans

LOSING = (
    PROBED.replace("linear,2,wire=2Mb/s", "linear,2,wire=5Mb/s,delay=10ms,queue={queue}")
    .replace('protocol = "tcp-newreno,rcv_wnd={window},snd_buf=50000"', 'protocol = "tcp-cubic"')
    .replace("window = [12000, 48000]", "queue = [3, 200]")
    .replace('rate = "40k"', 'rate = "400k"')
)
"""Of datagrams beside a greedy transfer none gets into the short queue."""


def test_delays_of_what_was_lost_are_missed_by_name(tmp_path: Path, probed: wifu.Results) -> None:
    found = wifu.campaign(plans.parse(LOSING), tmp_path / "r")
    figure, caption = drawn(found, kind="latency", **{"as": "cdf", "by": "queue"})
    names = legend(figure)
    assert names == ["queue 3 (all lost)", "queue 200", "without load"]
    assert "lost, at the most: queue 3 100.0%, queue 200 " in caption
    assert "these curves are not of the same" in caption
    assert "both directions" not in caption
    _, whole = drawn(probed, kind="latency", **{"as": "cdf", "by": "window"})
    assert "lost" not in whole, "nothing was"


def test_datagrams_of_several_ways_in_one_curve_are_named_with_their_parts(
    tmp_path: Path, probed: wifu.Results
) -> None:
    """Who sends ten times as many counts ten times."""
    more = """[[scenario.flow]]
from = "n2"
to = "n1"
protocol = "udp"
rate = "400k"
size = 128
stop_at = "9s"

[vary]"""
    found = wifu.campaign(plans.parse(PROBED.replace("[vary]", more, 1)), tmp_path / "r")
    spec = {"as": "cdf", "by": "window"}
    _, caption = drawn(found, kind="latency", **spec)
    told = " A curve is of n2 > n1 ("
    assert told in caption and "each datagram counted alike" in caption, caption
    assert "A curve is of" not in drawn(probed, kind="latency", **spec)[1]


def test_delays_under_unequal_loads_say_so(tmp_path: Path, probed: wifu.Results) -> None:
    """Over a path so long a small window carries half of what a large one does."""
    text = PROBED.replace("wire=2Mb/s", "wire=2Mb/s,delay=40ms")
    found = wifu.campaign(plans.parse('pair = "window"\n' + text), tmp_path / "r")
    _, caption = drawn(found, kind="latency", **{"as": "cdf", "by": "window"})
    told = "who sends less meets shorter queues"
    (notes,) = found.comparison(["one_way_p95"])["notes"].values()
    assert told in caption and told in " ".join(notes)
    assert told not in drawn(probed, kind="latency", **{"as": "cdf", "by": "window"})[1]


def test_a_hop_that_no_packet_crossed_took_no_time_of_any(tmp_path: Path) -> None:
    def deaf(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        if "newreno" in scenario["flow"][0]["protocol"]:
            outcome["hops"] = outcome["hops"][:1]
            outcome["hops"][0].update(
                packets=0, queue_s=0.0, contention_s=0.0, air_s=0.0, retry_s=0
            )
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=deaf)
    figure, caption = drawn(found, kind="waterfall", where={"hops": 3})
    reno, newreno = ([t.get_text() for t in axis.texts] for axis in figure.axes)
    assert newreno == ["no packet"] and len(reno) == 3 and all("ms" in t for t in reno)
    told = "Packets that came across a hop, per run: protocol tcp-reno: 700; "
    assert told + "protocol tcp-newreno: none." in caption
    _, alike = drawn(found, kind="waterfall", where={"protocol": "tcp-reno"})
    assert "came across" not in alike


def test_a_waterfall_has_the_time_in_nodes(tmp_path: Path) -> None:
    def laned(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for hop in outcome["hops"]:
            if "newreno" in scenario["flow"][0]["protocol"]:
                hop["node_s"] = 700 * 0.25
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=laned)
    figure, caption = drawn(found, kind="waterfall", where={"hops": 3})
    reno, newreno = ([t.get_text() for t in axis.texts] for axis in figure.axes)
    ms = [[float(t.removesuffix(" ms")) for t in texts] for texts in (reno, newreno)]
    assert all(two == pytest.approx(one + 250, rel=0.02) for one, two in zip(*ms, strict=True))
    assert "In the node: before its link has the packet" in caption
    _, none = drawn(found, kind="waterfall", where={"protocol": "tcp-reno"})
    assert "In the node" not in none and "older" not in none


def test_a_waterfall_of_older_runs_says_what_is_missing(tmp_path: Path) -> None:
    def old(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for hop in outcome["hops"]:
            del hop["node_s"]
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=old)
    _, caption = drawn(found, kind="waterfall", where={"hops": 3})
    assert "does not tell how long packets are in nodes" in caption


def test_a_waterfall_names_cells_that_it_does_not_show(tmp_path: Path) -> None:
    def silent(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        if "newreno" in scenario["flow"][0]["protocol"]:
            outcome["hops"] = []
        return FakeResult(outcome, {})

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=silent)
    _, caption = drawn(found, kind="waterfall", where={"hops": 1})
    assert "Not shown, as none of these packets is recorded: protocol tcp-newreno." in caption


ENDS = 'from = "n1"\nto = "n{hops+1}"\napp = "file"\nbytes = "30k"\njitter = "5ms"'


def test_a_waterfall_has_what_packets_wait_in_lanes(tmp_path: Path) -> None:
    """The simulator's own runs."""
    text = CHAIN.replace('"tcp-newreno"', '"hxh"').replace("copies = 2", ENDS)
    found = wifu.campaign(plans.parse(text), tmp_path / "r")
    _, caption = drawn(found, kind="waterfall", where={"hops": 3, "protocol": "hxh"})
    assert "in lanes, in handlers that hold it" in caption


COUNTED = CHAIN.replace('["goodput", "jain", "srtt"]', '["retransmissions"]')


def unlike(scenario: dict[str, Any]) -> FakeResult:
    """One protocol delivers a tenth, and has less to repeat."""
    outcome = json.loads(fake(scenario).json())
    for flow in outcome["flows"]:
        if "newreno" in flow["protocol"]:
            flow["bytes"] = flow["bytes"] // 10
    return FakeResult(outcome, {})


def test_a_distribution_has_the_cautions_of_its_metric(tmp_path: Path) -> None:
    found = wifu.campaign(plans.parse(COUNTED), tmp_path / "r", runner=unlike)
    asked = {"metric": "retransmissions", "where": {"hops": 1}}
    notes = cautions.notes(found, found.cells({"hops": 1}), "retransmissions")
    assert any("who delivers less has less to repeat" in told for told in notes)
    for kind in ("bars", "cdf"):
        _, caption = drawn(found, kind=kind, **asked)
        assert all(told in caption for told in notes), kind


def test_curves_tell_what_they_pool_if_it_is_not_the_same(
    tmp_path: Path, results: wifu.Results
) -> None:
    text = 'skip = [{ hops = [3], protocol = "tcp-newreno" }]\n' + CHAIN
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    for more in ({}, {"metric": "goodput"}):
        asked = {"kind": "cdf", "by": "protocol", "pool": ["hops"], **more}
        told = "not the same for all curves: tcp-reno: hops 1, hops 3; tcp-newreno: hops 1."
        assert told in drawn(found, **asked)[1]
        assert "not the same" not in drawn(results, **asked)[1]


def test_a_run_that_is_excluded_is_in_no_report_of_before(tmp_path: Path) -> None:
    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=fake)
    assert conduct.exclude(found.folder, "1_tcp-reno", 1, "noise") == "", "there is none"
    conduct.report(found.folder)
    names = ("report.html", "comparison.json", "figures/01-bars-goodput.svg")
    before = [(found.folder / name).read_bytes() for name in names]
    told = conduct.exclude(found.folder, "1_tcp-reno", 2, "asleep")
    assert told.startswith("report, figures and comparison.json are written anew")
    after = [(found.folder / name).read_bytes() for name in names]
    assert all(one != two for one, two in zip(before, after, strict=True))
    assert b"asleep" in after[0]
    (found.folder / "report.html").unlink()
    told = conduct.exclude(found.folder, "1_tcp-reno", 3, "noise")
    assert (
        told
        == f"comparison.json is written anew; figures are older: wifu-lab report {found.folder}"
    )
    assert (found.folder / "comparison.json").read_bytes() != after[1]


def test_runs_that_count_nowhere_are_in_tables_as_data(tmp_path: Path) -> None:
    text = CHAIN.replace("copies = 2", "copies = 2\nexplode = true")
    made = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    conduct.exclude(made.folder, "1_tcp-reno", 3, "asleep")
    found = wifu.load(made.folder)
    summary = found.summary("goodput")
    assert summary["failed"].tolist() == [1] * 4 and summary["excluded"].sum() == 1
    left = found.comparison()["left_out"]
    assert len(left) == 5
    assert {"cell": "1_tcp-reno", "run": 3, "status": "excluded", "why": "asleep"} in left
    assert "excluded" in found._repr_html_()


def test_a_plot_has_its_caption(results: wifu.Results) -> None:
    axis = results.plot("bars", x="hops", metric="goodput")
    figure = axis.figure
    text = figure.get_supxlabel().replace("\n", " ")
    assert "n = 5 runs per cell" in text and text == figure.caption == axis.caption
    figure.draw_without_rendering()
    below = figure._supxlabel.get_window_extent()
    assert below.y1 <= axis.get_tightbbox().y0 and below.y0 >= 0 and below.x1 <= figure.bbox.x1
    own, mine = plt.subplots()
    assert results.plot("bars", mine, x="hops").caption and own.get_supxlabel() == ""
    plt.close("all")


def test_levels_that_differ_in_more_than_names_say_so_wherever_they_stand(tmp_path: Path) -> None:
    both = '{ "flow.*.protocol" = "tcp-%s", "flow.*.bytes" = "%sM", "seed" = %s }'
    levels = [f"{name} = {both % (name, k, k)}" for k, name in enumerate(("reno", "newreno"), 1)]
    text = CHAIN.replace('protocol = ["tcp-reno", "tcp-newreno"]', "")
    text = text.replace('protocol = "{protocol}"\n', "").replace('"tcp-reno"', '"reno"')
    text = "\n".join(['pair = "protocol"', text, "[vary.protocol]", *levels])
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    (told,) = [d.sentence() for d in found.differences()]
    assert "differ" in told
    assert found.compare("goodput").attrs["differences"] == [told]
    assert found.summary().attrs["differences"] == [told]
    assert told in found.plot("bars", x="hops").caption
    plt.close("all")
    assert told not in figures.made(found, {"kind": "bars", "where": {"protocol": "reno"}})[2]


def on_the_way(copies: int, split: bool) -> Any:
    """The stand-in without repairs of its ends, whose nodes sent copies, or split."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        outcome = json.loads(made.json())
        series = {k: v for k, v in made._series.items() if not k.endswith(".sent")}
        times = np.linspace(0.02, 0.5, 40)
        for flow in outcome["flows"]:
            flow["packets"] = {"sent": 700, "inside": 0, "delivered": 700, "copies": copies}
            series[f"flow.{flow['id']}.sent"] = pairs(times, np.linspace(1448, 99_000, 40))
            if flow["protocol"] == "tcp-newreno":  # or there is no second row
                again = np.where(np.arange(40) == 20, -20_000, np.linspace(1448, 99_000, 40))
                series[f"flow.{flow['id']}.sent"] = pairs(times, again)
        if split:
            outcome["nodes"][1]["split"] = {"accepted": 2, "near": {}, "far": {}}
        return FakeResult(outcome, series)

    return runner


@pytest.mark.parametrize("protocol", ["hxh", "hop", "tcp-sack"])
def test_a_sequence_graph_says_who_repairs(tmp_path: Path, protocol: str) -> None:
    text = CHAIN.replace("tcp-reno", protocol).replace("[1, 3]", "[3]")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=on_the_way(31, False))
    figure, caption = drawn(found, kind="sequence")
    told = [" ".join(t.get_text().split()) for axis in figure.axes for t in axis.texts]
    _, alone = drawn(found, kind="sequence", where={"protocol": protocol})
    if protocol == "tcp-sack":
        assert told == ["nothing was recovered"]
        assert "leaves the sender." in caption and "lane" not in caption + alone
        return
    assert told == ["the ends repaired nothing, nodes sent 31 copies"]
    assert f"with lanes (protocol {protocol}) enters the sender's lane." in caption
    assert "Each dot is a segment that enters the sender's lane." in alone
    assert "Nodes split" not in caption


def test_figures_of_flows_that_are_split_say_what_they_are_of(tmp_path: Path) -> None:
    text = CHAIN.replace("[1, 3]", "[3]")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=on_the_way(0, True))
    _, caption = drawn(found, kind="sequence")
    assert "Nodes split TCP (n2): the dots are of the source's half" in caption
    _, caption = drawn(found, kind="waterfall")
    assert "Nodes split TCP: how long they hold what they have is not in it." in caption
    whole = wifu.campaign(plans.parse(text), tmp_path / "w", runner=on_the_way(0, False))
    assert "split" not in drawn(whole, kind="sequence")[1] + drawn(whole, kind="waterfall")[1]


@pytest.mark.parametrize("show", ["goodput", "delivered"])
def test_a_flow_over_time_is_drawn_to_its_last_byte(tmp_path: Path, show: str) -> None:
    """Series are recorded every so often, and the last bytes come after the last time."""

    def sparse(scenario: dict[str, Any]) -> FakeResult:
        made = fake(scenario)
        series = dict(made._series)
        for flow in (1, 2):
            series[f"flow.{flow}.delivered"] = pairs([0.1, 0.2, 0.3], [1e5, 2e5, 3e5])
            made._outcome["flows"][flow - 1] |= {"last_byte_s": 0.377, "bytes": 400_000 + flow}
            made._outcome["flows"][flow - 1]["start_s"] = 0.0
        return FakeResult(made._outcome, series)

    text = CHAIN.replace("[1, 3]", "[3]").replace("runs = 5", "runs = 1")
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=sparse)
    figure, _ = drawn(found, kind="timeseries", show=[show], window="200ms")
    last = 8 * 300_001 / 0.2 / 1e6 if show == "goodput" else 0.400001
    for axis in figure.axes:
        x, y = np.asarray(axis.get_lines()[0].get_xydata(), float)[-1]
        assert (x, y) == (pytest.approx(0.377), pytest.approx(last))
        assert axis.get_xlim()[1] == pytest.approx(0.377)


def test_bars_of_flows_bear_the_names_that_the_plan_gives_them(tmp_path: Path) -> None:
    text = CHAIN.replace("[1, 3]", "[3]") + '[label]\n"goodput@1" = "goodput of A"\n'
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)

    def names(**spec: Any) -> list[str]:
        figure, _ = drawn(found, kind="flows", **spec)
        return [" ".join(t.get_text().split()) for t in figure.axes[0].get_xticklabels()]

    assert names()[:2] == ["goodput of A", "2: n1 to n4"]
    assert names(label={"goodput@2": "B"})[:2] == ["goodput of A", "B"]
    assert names(metric="delay")[0] == "1: n1 to n4", "its label would be delay@1"
    assert names(sorted=True)[0] == "1"
