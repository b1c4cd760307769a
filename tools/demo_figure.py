"""The picture of `make demo`: throughput and congestion window over time, one row per protocol."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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

    @property
    def goodput_mbit(self) -> float:
        """Mean over the transfer."""


def throughput(samples: Sequence[Sample]) -> tuple[list[float], list[float]]:
    """Mb/s that arrived between one sample and the next, at the middle of the two."""
    times, rates = [], []
    for one, two in pairwise(samples):
        span = two.time_s - one.time_s
        if span > 0 and two.received >= one.received:
            times.append((one.time_s + two.time_s) / 2)
            rates.append((two.received - one.received) * 8 / span / 1e6)
    return times, rates


def draw(results: Sequence[Transfer], path: Path, rate_mbit: float) -> None:
    """Write the picture."""
    count = len(results)
    figure, axes = plt.subplots(
        count, 2, figsize=(11, 1.5 * count + 0.9), sharex=True, squeeze=False
    )
    for (left, right), result in zip(axes, results, strict=True):
        left.plot(*throughput(result.samples), color=BLUE, linewidth=1.2)
        left.axhline(rate_mbit, color=GREY, linewidth=0.7, linestyle=":")
        left.set_ylim(0, rate_mbit * 1.15)
        label = f"{result.protocol}\nmean {result.goodput_mbit:.1f} Mb/s"
        left.annotate(label, (0.985, 0.08), xycoords="axes fraction", ha="right", fontsize=9)
        known = [s for s in result.samples if s.cwnd is not None]
        times = [s.time_s for s in known]
        right.plot(times, [(s.cwnd or 0) / 1e3 for s in known], color=ORANGE, linewidth=1.2)
        ceiling = max((s.cwnd or 0 for s in known), default=0) * 1.5
        finite = [s for s in known if s.ssthresh is not None and s.ssthresh <= ceiling]
        thresholds = [(s.ssthresh or 0) / 1e3 for s in finite]
        right.plot([s.time_s for s in finite], thresholds, color=GREY, linewidth=1, linestyle="--")
        highest = max([(s.cwnd or 0) / 1e3 for s in known] + thresholds, default=0)
        right.set_ylim(0, highest * 1.15 or 1)
        for axis in (left, right):
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_title("arriving at curl, Mb/s", fontsize=10)
    axes[0][1].set_title("cwnd of the sender (ssthresh dashed), kB", fontsize=10)
    for axis in axes[-1]:
        axis.set_xlabel("time, s")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
