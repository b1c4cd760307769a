#!/usr/bin/env python3
"""Draw the trace of `wifu mock --trace out.csv`: data segments over time, and the window below.

    tools/plot_mock.py out.csv [out.png]

Dots are segments that leave the sender, open circles ones retransmitted, crosses losses, the line
the acknowledgements; below, congestion window and slow start threshold in segments.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

BLUE, ORANGE, RED, GREY = "#2a6f97", "#d1731d", "#b3261e", "#9a9a9a"

Row = dict[str, str]


def points(rows: list[Row], event: str, again: str | None = None) -> tuple[list[float], list[int]]:
    """Times and segment numbers of an event; `again` chooses by the column retransmission."""
    fits = [
        r
        for r in rows
        if r["event"] == event and r["seq_index"] and again in (None, r["retransmission"])
    ]
    return [float(r["time_s"]) for r in fits], [int(r["seq_index"]) for r in fits]


def draw(rows: list[Row], title: str, path: Path) -> None:
    """Write the picture of one flow."""
    figure, (top, below) = plt.subplots(
        2, 1, figsize=(10, 7), sharex=True, height_ratios=[3, 1], layout="constrained"
    )
    top.step(*points(rows, "ack"), where="post", color=GREY, linewidth=0.8, label="asked for")
    top.plot(*points(rows, "send", "0"), ".", color=BLUE, markersize=3, label="sent")
    again = points(rows, "send", "1")
    top.plot(*again, "o", color=ORANGE, markersize=6, fillstyle="none", label="retransmitted")
    top.plot(*points(rows, "drop"), "x", color=RED, markersize=7, label="lost")
    for time in points(rows, "timeout")[0]:
        top.axvline(time, color=RED, linewidth=0.7, linestyle=":")
    top.set_ylabel("data segment")
    top.set_title(title, loc="left", fontsize=10)
    top.legend(frameon=False)
    mss = max((int(r["len"]) for r in rows), default=1) or 1
    times = [float(r["time_s"]) for r in rows]
    cwnd = [int(r["cwnd"]) / mss for r in rows]
    ceiling = max(cwnd, default=1) * 1.5
    ssthresh = [min(int(r["ssthresh"]) / mss, ceiling) for r in rows]
    below.step(times, ssthresh, where="post", color=GREY, linewidth=0.8, label="ssthresh")
    below.step(times, cwnd, where="post", color=ORANGE, linewidth=1.2, label="cwnd")
    below.set_ylim(0, ceiling)
    below.set_ylabel("segments")
    below.set_xlabel("seconds")
    below.legend(frameon=False, ncols=2)
    for axes in (top, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> int:
    """Draw the first flow of the file that is named."""
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    source = Path(sys.argv[1])
    target = Path(sys.argv[2]) if len(sys.argv) == 3 else source.with_suffix(".png")
    with source.open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if r.get("flow", "1") == "1"]
    if not rows or "seq_index" not in rows[0]:
        print(f"{source}: no trace of wifu mock", file=sys.stderr)
        return 1
    draw(rows, source.name, target)
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
