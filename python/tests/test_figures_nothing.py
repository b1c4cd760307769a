"""Where nothing came, or nothing is known, figures say which of the two it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import CHAIN, PROBED, FakeResult, fake, pairs
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from test_figures import drawn, legend
from test_figures_layout import around, folded
from test_figures_starved import ONE
from test_hopwise import made as nodes

import wifu
from wifu import plan as plans
from wifu.figures import style

CUT: dict[str, Any] = {"as": "cdf", "by": "window"}


def texts(axis: Axes) -> list[str]:
    return [text.get_text() for text in axis.texts]


@pytest.fixture(scope="module")
def severed(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    """Of `PROBED` with the wire cut before the load begins, or not."""
    text = PROBED.replace("window = [12000, 48000]", "window = [12000]")
    text += '[vary.case]\nplain = {}\ncut = { event = [ { at = "1.95s", cut = ["n1", "n2"] } ] }\n'
    return wifu.campaign(plans.parse(text), tmp_path_factory.mktemp("severed") / "r")


def test_load_that_never_connected_is_a_line_at_zero(severed: wifu.Results) -> None:
    figure, caption = drawn(severed, kind="latency")
    above, below = figure.axes[2:]
    (line,) = above.get_lines()
    times, rate = (np.asarray(v, float) for v in line.get_data())
    assert not rate.any() and times[-1] > 7.5
    assert not line.get_clip_on(), "of one direction no shape is seen above the axis"
    for axis in (above, below):
        assert [patch.get_hatch() for patch in axis.patches] == ["////"]
    assert texts(below) == ["all lost"] and not texts(figure.axes[1])
    assert "Hatched: while there was to be load, which delivered nothing." in caption
    assert "none arrived (case cut: 250 of 250)" in caption
    assert "Flow 1 never connected in case cut." in caption
    _, plain = drawn(severed, kind="latency", where={"case": "plain"})
    assert "connected" not in plain and "Hatched" not in plain and "none arrived" not in plain


def test_a_distribution_of_what_was_all_lost_says_so(severed: wifu.Results) -> None:
    figure, caption = drawn(severed, kind="latency", **CUT)
    plain, cut = figure.axes
    assert texts(cut) == ["under load\nall were lost"] and not texts(plain)
    assert "at the most: case cut, window 12000 100.0%" in caption
    assert "In 2 runs (case cut) the load delivered nothing" in caption
    figure, _ = drawn(severed, kind="latency", **CUT, where={"case": "cut"})
    assert "window 12000 (all lost)" in legend(figure)


def test_a_distribution_says_of_how_many_runs_it_is(tmp_path: Path) -> None:
    text = PROBED.replace("window = [12000, 48000]", "window = [12000]")
    every = wifu.campaign(plans.parse(text), tmp_path / "all")
    assert "of all runs whose" not in (told := drawn(every, kind="latency", **CUT)[1])
    assert "of all runs: under load" in told
    some = plans.parse(text.replace("runs = [1, 2]", "runs = [1]"))
    _, told = drawn(wifu.campaign(some, tmp_path / "one"), kind="latency", **CUT)
    assert "of the 1 of 2 runs per cell whose series are recorded: under load" in told


def test_a_run_of_which_no_datagram_arrived_is_not_left_out(tmp_path: Path) -> None:
    text = PROBED.replace("window = [12000, 48000]", "window = [12000]")
    text += '[vary.case]\nplain = {}\ncut = { event = [ { at = "0s", cut = ["n1", "n2"] } ] }\n'
    found = wifu.campaign(plans.parse(text), tmp_path / "r")
    figure, _ = drawn(found, kind="latency")
    assert len(figure.axes) == 4
    assert texts(figure.axes[3]) == ["all lost"]


def test_a_transfer_shorter_than_the_window_has_no_rate(tmp_path: Path) -> None:
    found = nodes(tmp_path)
    where = {"protocol": ["hxh", "hxh-nolh"]}
    figure, caption = drawn(found, kind="rates", nodes=["mesh6"], where=where, window="3500ms")
    one, two = figure.axes
    assert texts(one) == ["shorter than\nthe window, 3.5 s"] and not texts(two)
    assert "times of their own" in caption
    where = {"protocol": ["hxh"]}
    figure, caption = drawn(found, kind="rates", nodes=["mesh6"], where=where)
    assert not texts(figure.axes[0]) and "times of their own" not in caption


def test_long_names_leave_room_for_panels_of_a_column(tmp_path: Path) -> None:
    """Names that were wider than the page once left no room for panels until they were folded."""
    text = ONE + "[vary.case]\n"
    text += "".join(
        f'"hxh, of {n} places, without last-hop ACKs, RTS above 500 bytes, run 1" = {{}}\n'
        for n in "1234"
    )
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    spec = {"show": ["cwnd", "srtt"], "where": {"protocol": "tcp-reno"}, "columns": 1}
    figure, _ = folded(found, kind="timeseries", **spec)
    assert style._laid_out(figure)
    boxes = [around(axis) for axis in figure.axes]
    assert all(box.x1 <= figure.bbox.width + 1 for box in boxes)
    assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))


Losses = Mapping[str, Sequence[float | None]]


def hopwise(tmp_path: Path, losses: Losses, runs: int) -> wifu.Results:
    """What each of three hops loses of 100 packets, by protocol; none if no packet came there."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        own = losses[scenario["flow"][0]["protocol"]]
        if not own:
            raise RuntimeError("exploded")
        for hop in outcome["hops"]:
            lost = own[hop["hop"] - 1]
            hop |= {"packets": 0 if lost is None else 100 - lost, "lost": lost or 0}
        return FakeResult(outcome, {})

    text = CHAIN.replace("[1, 3]", "[3]").replace("runs = 5", f"runs = {runs}")
    return wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)


def test_hops_without_a_bar_say_why(tmp_path: Path) -> None:
    losses: Losses = {"tcp-reno": [60, 0, None], "tcp-newreno": [0, 1, 30]}
    figure, caption = drawn(hopwise(tmp_path, losses, 2), kind="hops")
    (axis,) = figure.axes
    places = [(round(t.xy[0]), t.get_text()) for t in axis.texts if isinstance(t, Annotation)]
    assert sorted(places) == [(1, "0"), (2, "0"), (3, "n/a")], "1 % of 60 is seen"
    assert "n/a: no packet came there." in caption and "quartiles" in caption
    assert axis.get_ylim()[1] >= 60


def test_a_bar_too_low_to_be_seen_has_a_number(tmp_path: Path) -> None:
    losses = {"tcp-reno": [90, 90, 90], "tcp-newreno": [1, 1, 0]}
    figure, caption = drawn(hopwise(tmp_path, losses, 1), kind="hops")
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.00", "1.00", "0"]
    assert "n/a" not in caption and "quartiles" not in caption and "means" not in caption
    _, caption = drawn(hopwise(tmp_path / "x", losses, 1), kind="waterfall")
    assert "n = 1 run." in caption


def test_hops_of_a_cell_that_failed_leave_the_others(tmp_path: Path) -> None:
    found = hopwise(tmp_path, {"tcp-reno": [], "tcp-newreno": [1, 2, 3]}, 1)
    figure, caption = drawn(found, kind="hops")
    assert len(figure.axes[0].patches) == 3
    assert "Not shown, as no run that counts tells of these hops: 3_tcp-reno." in caption


def sending(sent: Sequence[tuple[float, float]], come: Sequence[tuple[float, float]]) -> Any:
    """A runner of a flow that sends so, and goes on until 10 s whatever comes."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        result = fake(scenario)
        result._outcome["sim_seconds"] = 10.0
        one = result._outcome["flows"][0]
        one |= {"finished": False, "connected_s": 0.5, "bytes": 9000, "start_s": 0.1}
        if not come:
            one |= {"connected_s": None, "last_byte_s": None, "bytes": 0}
        named = {"sent": sent, "delivered": come}
        series = {n: v for n, v in result._series.items() if n.split(".")[2] not in named}
        series |= {
            f"flow.1.{n}": pairs(*zip(*rows, strict=True)) for n, rows in named.items() if rows
        }
        return FakeResult(result._outcome, series)

    return runner


def graph(tmp_path: Path, runner: Any) -> tuple[Any, str]:
    found = wifu.campaign(plans.parse(ONE), tmp_path / "r", runner=runner)
    return drawn(found, kind="sequence", where={"protocol": "tcp-reno"})


SENT = [(0.3, -0.5), (0.6, 0.0), (0.7, 3000.0), (0.8, 6000.0), (1.5, -3000.0), (4.5, -3000.0)]


def test_a_recovery_without_an_end_is_shown_as_such(tmp_path: Path) -> None:
    figure, caption = graph(tmp_path, sending(SENT, [(0.9, 3000.0)]))
    above, below = figure.axes
    assert above.get_title(loc="left") == "3 sent, 2 retransmitted, 1 SYN retransmitted"
    assert "by then was there. It never was: there is shown what came until the end." in caption
    assert below.get_xlim()[1] == 10.0, "with what went again after it"
    assert np.asarray(above.get_lines()[0].get_xydata())[-1].tolist() == [10.0, 3.0]
    figure, caption = graph(tmp_path / "b", sending(SENT, [(0.9, 3000.0), (5.0, 9000.0)]))
    assert "It never was" not in caption
    assert figure.axes[1].get_xlim()[1] < 10.0


@pytest.mark.parametrize("again", [2, 0])
def test_a_sequence_graph_of_who_never_connected_says_so(tmp_path: Path, again: int) -> None:
    figure, _ = graph(tmp_path, sending([(1.0, -0.5), (3.0, -0.5)][:again], []))
    told = "never connected" + ", 2 SYNs retransmitted" * bool(again)
    assert figure.axes[0].get_title(loc="left") == told
    line = np.asarray(figure.axes[0].get_lines()[0].get_xydata())
    assert line.tolist() == [[0.1, 0.0], [10.0, 0.0]]


def test_a_recovery_of_the_first_octet_begins_where_that_was_sent(tmp_path: Path) -> None:
    """It goes again as -0.5, for there is no -0."""
    sent = [(0.6, 0.0), (0.7, 3000.0), (2.5, -0.5)]
    figure, _ = graph(tmp_path, sending(sent, [(2.6, 3000.0), (2.7, 6000.0)]))
    below = figure.axes[1]
    low, high = below.get_xlim()
    assert low < 0.6 and high > 2.7
    assert below.get_ylim()[1] > 3.0, "with all that had been sent"
