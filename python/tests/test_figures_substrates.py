"""Figures of one plan on several substrates: what levels are on each, and intervals of the bars."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from fake import fake
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from test_substrates import TEXT, outcome_as, plan, slower

import wifu
from wifu import diverge, hostlock
from wifu.campaign import Campaign
from wifu.figures import beside, style
from wifu.store import Store


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> list[wifu.Results]:
    """The simulator's results, and those of an emulation that is a third slower."""
    folder = tmp_path_factory.mktemp("substrates")
    chosen = plan(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hostlock, "default_path", lambda: folder / "lab.lock")
        Campaign(chosen, Store(folder), fake).start()
        Campaign(chosen.variant("emu"), Store(folder).on("emu"), outcome_as(slower(0.7))).start()
    return list(diverge.results_by_substrate(folder).values())


def made(every: list[wifu.Results], found: diverge.Divergence, metric: str) -> tuple[Axes, str]:
    """The panel of a figure of substrates, and its caption."""
    with style.context(None):
        figure, _, caption = beside.substrates(every, found, metric)
        figure.draw_without_rendering()
    (axis,) = figure.axes
    return axis, caption


def test_a_level_that_is_another_protocol_elsewhere_is_told(every: list[wifu.Results]) -> None:
    found = diverge.compare(every)
    _, caption = made(every, found, "goodput")
    one, two = "tcp-reno,profile=kernel-reno on sim", "kernel:reno,window=64K on emu"
    assert f" Not the same on all: kernel is {one} and {two}." in caption
    assert "ours is" not in caption
    shown = tuple(row for row in found.rows if row.labels["stack"] == "ours")
    _, caption = made(every, dataclasses.replace(found, rows=shown), "goodput")
    assert "Not the same" not in caption, "a level that no bar is of"


def test_a_level_that_sets_several_keys_is_told_in_words() -> None:
    assert beside._said({"stop.time": "1s", "seed": 2}) == "stop.time 1s, seed 2"
    assert beside._said({}) == "nothing" and beside._said("tcp-reno") == "tcp-reno"


def test_whiskers_of_substrates_are_the_intervals_of_each(every: list[wifu.Results]) -> None:
    axis, caption = made(every, diverge.compare(every), "goodput")
    assert "whiskers: 95 % interval" in caption
    spans: list[Any] = [
        part.get_segments()[0][:, 1]
        for container in axis.containers
        if isinstance(container, ErrorbarContainer)
        for part in container.lines[2]
    ]
    wanted = [results.interval("goodput", c) for results in every for c in results.plan.cells]
    ends = sorted((i.low / 1e6, i.high / 1e6) for i in wanted)
    assert len(ends) == 8 and all(low < high for low, high in ends)
    assert np.asarray(sorted(map(tuple, spans))) == pytest.approx(np.asarray(ends))
    # Each stands on the middle of its bar.
    tops = sorted(bar.get_height() for bar in axis.patches)  # type: ignore[attr-defined]
    assert tops == pytest.approx(sorted(i.estimate / 1e6 for i in wanted))


def test_substrates_without_intervals_have_no_whiskers(
    every: list[wifu.Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    for results in every:
        first = results.runs["run"] == 1
        monkeypatch.setattr(results, "runs", results.runs[first])
    axis, caption = made(every, diverge.compare(every), "goodput")
    assert not [c for c in axis.containers if isinstance(c, ErrorbarContainer)]
    assert "; no interval" in caption and "whiskers" not in caption
