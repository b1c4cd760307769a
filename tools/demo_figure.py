"""The picture of `make demo`: throughput and congestion window over time, one row per protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from netlab import Sample

BLUE, ORANGE, GREY = "#2a6f97", "#d1731d", "#9a9a9a"


class Transfer(Protocol):
    """What the picture needs of a result."""

    protocol: str
    samples: list[Sample]
    retransmissions: int | None

    @property
    def goodput_mbit(self) -> float:
        """Mean over the transfer."""


WINDOW_S = 0.5
"""Of the mean throughput. What waits for a segment that was lost arrives at once with it."""


def throughput(samples: Sequence[Sample]) -> tuple[list[float], list[float]]:
    """Mb/s that arrived in the `WINDOW_S` before each sample, or since the first."""
    times, rates = [], []
    first = 0
    for two in samples[1:]:
        while samples[first].time_s < two.time_s - WINDOW_S - 1e-9:
            first += 1
        one = samples[first]
        if two.time_s > one.time_s and two.received >= one.received:
            times.append(two.time_s)
            rates.append((two.received - one.received) * 8 / (two.time_s - one.time_s) / 1e6)
    return times, rates


def draw(results: Sequence[Transfer], path: Path, rate_mbit: float, queue: int) -> None:
    """Write the picture; `queue` is how many octets the link's holds."""
    count = len(results)
    figure, axes = plt.subplots(
        count, 2, figsize=(11, 1.6 * count + 0.9), sharex=True, sharey="col", squeeze=False
    )
    highest, fastest = 0.0, rate_mbit
    for (left, right), result in zip(axes, results, strict=True):
        times, rates = throughput(result.samples)
        left.plot(times, rates, color=BLUE, linewidth=1.2)
        fastest = max([fastest, *rates])
        left.axhline(rate_mbit, color=GREY, linewidth=0.7, linestyle=":")
        again = "?" if result.retransmissions is None else result.retransmissions
        label = f"{result.protocol}: mean {result.goodput_mbit:.1f} Mb/s, {again} retransmitted"
        # Above the panel, where no line passes through it.
        left.annotate(label, (0.0, 1.04), xycoords="axes fraction", fontsize=9)
        known = [s for s in result.samples if s.cwnd is not None]
        times = [s.time_s for s in known]
        right.plot(times, [(s.cwnd or 0) / 1e3 for s in known], color=ORANGE, linewidth=1.2)
        ceiling = max((s.cwnd or 0 for s in known), default=0) * 1.5
        finite = [s for s in known if s.ssthresh is not None and s.ssthresh <= ceiling]
        thresholds = [(s.ssthresh or 0) / 1e3 for s in finite]
        right.plot([s.time_s for s in finite], thresholds, color=GREY, linewidth=1, linestyle="--")
        right.axhline(queue / 1e3, color=GREY, linewidth=0.7, linestyle=":")
        highest = max([highest, *((s.cwnd or 0) / 1e3 for s in known), *thresholds])
        for axis in (left, right):
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_xlim(left=0)
    axes[0][0].set_ylim(0, fastest * 1.1)
    axes[0][1].set_ylim(0, max(highest, queue / 1e3) * 1.1)
    axes[0][0].set_title(
        f"arriving at curl, Mb/s (mean of {WINDOW_S:g} s; dotted: the link)", fontsize=10, pad=22
    )
    axes[0][1].set_title(
        "cwnd of the sender, kB (dashed: ssthresh; dotted: the queue)", fontsize=10, pad=22
    )
    for axis in axes[-1]:
        axis.set_xlabel("time, s")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
