"""Figures warn of what a reader would conclude wrongly from them."""

from __future__ import annotations

from pathlib import Path

from fake import PROBED
from test_figures import drawn, legend

import wifu
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


def test_delays_under_unequal_loads_say_so(tmp_path: Path, probed: wifu.Results) -> None:
    """Over a path so long a small window carries half of what a large one does."""
    text = PROBED.replace("wire=2Mb/s", "wire=2Mb/s,delay=40ms")
    found = wifu.campaign(plans.parse('pair = "window"\n' + text), tmp_path / "r")
    _, caption = drawn(found, kind="latency", **{"as": "cdf", "by": "window"})
    told = "who sends less meets shorter queues"
    (notes,) = found.comparison(["one_way_p95"])["notes"].values()
    assert told in caption and told in " ".join(notes)
    assert told not in drawn(probed, kind="latency", **{"as": "cdf", "by": "window"})[1]
