"""Figures over time: goodput, window and round-trip time; segments as they were sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wifu import values
from wifu.api import Results
from wifu.errors import LabError
from wifu.figures import style
from wifu.figures.compare import chosen, first, titles
from wifu.metrics import sliding

Made = tuple[Figure, str, str]
Series = Mapping[str, Any]

SHOWN = {
    "goodput": ("delivered", "goodput, Mb/s"),
    "cwnd": ("cwnd", "window, kB"),
    "srtt": ("srtt", "round-trip time, ms"),
}
SCALES = {"cwnd": 1e3, "srtt": 1e-3}


def _run(results: Results, spec: Mapping[str, Any]) -> int:
    runs = results.plan.series_runs
    return int(spec.get("run", min(runs) if runs else 1))


def _span(spec: Mapping[str, Any]) -> tuple[float | None, float | None]:
    start, end = spec.get("from"), spec.get("to")
    return (
        None if start is None else values.seconds(start),
        None if end is None else values.seconds(end),
    )


def timeseries(results: Results, spec: dict[str, Any]) -> Made:
    """A column per cell, up to three side by side; a row per thing shown, a line per flow."""
    show = [str(s) for s in spec.get("show", ["goodput", "cwnd", "srtt"])]
    cells, run = chosen(results, spec), _run(results, spec)
    window = values.seconds(spec.get("window", "200ms"))
    start, end = _span(spec)
    having = [(c, results.series(c, run)) for c in cells]
    found, rest = first([(c, s) for c, s in having if s], 6)
    if not found:
        raise LabError(
            f"no series of run {run}: the plan must say [series] runs = [{run}] before it is run"
        )
    for what in (s for s in show if s not in SHOWN):
        if not any(n.endswith(f".{what}") for _, series in found for n in series):
            raise LabError(f"no flow has a series {what}: name it in [series] record of the plan")
    figure, columns = _columns(len(found), len(show))
    names = titles(cells)
    for column, (cell, series) in enumerate(found):
        flows = sorted({int(n.split(".")[1]) for n in series if n.startswith("flow.")})
        for row, what in enumerate(show):
            axis = columns[column][row]
            for n, flow in enumerate(flows):
                look = {
                    "color": style.colour(n),
                    "linestyle": style.later_dash(n),
                    "linewidth": 1.3 if len(flows) <= 3 else 0.9,
                    "label": f"flow {flow}",
                }
                _draw(axis, series, flow, what, window, look)
            style.grid(axis)
        columns[column][0].set_title(names[cell.name], loc="left", color=style.MUTED)
        columns[column][-1].set_xlabel("time, s")
        if start is not None or end is not None:
            columns[column][-1].set_xlim(start, end)
    for row, what in enumerate(show):
        style.label_rows([axes[row] for axes in columns], SHOWN.get(what, (what, what))[1])
        if what in SHOWN:
            columns[0][row].set_ylim(bottom=0)
    _flow_legend(figure, columns[0][0])
    caption = f"Run {run}. Goodput (octets delivered in order, so that it leaps where a hole is "
    caption += f"filled) in a sliding window of {window * 1000:g} ms"
    caption += "; congestion window of the sender" if "cwnd" in show else ""
    caption += "; smoothed round-trip time at the sender" if "srtt" in show else ""
    return figure, "Over time", f"{caption}.{rest}"


def _columns(cells: int, rows: int) -> tuple[Figure, list[list[Axes]]]:
    """For each cell its axes from top to bottom, with one scale of time; a row has one scale in all
    cells. More than three cells go on below, so that the figure fits a page.
    """
    across = 2 if cells == 4 else min(cells, 3)
    bands = -(-cells // across)
    figure = plt.figure(figsize=(style.width(across), (0.9 + 1.7 * rows) * bands + 0.4))
    outer = figure.add_gridspec(bands, 1, hspace=0.08)
    inner = [outer[band].subgridspec(rows, across) for band in range(bands)]
    columns: list[list[Axes]] = []
    for cell in range(cells):
        band, column = divmod(cell, across)
        axes: list[Axes] = []
        for row in range(rows):
            axis = figure.add_subplot(
                inner[band][row, column],
                sharex=axes[0] if axes else None,
                sharey=columns[0][row] if columns else None,
            )
            axis.tick_params(labelbottom=row == rows - 1, labelleft=column == 0)
            axes.append(axis)
        columns.append(axes)
    return figure, columns


def _draw(
    axis: Axes, series: Series, flow: int, what: str, window: float, look: Mapping[str, Any]
) -> None:
    data = series.get(f"flow.{flow}.{SHOWN.get(what, (what, what))[0]}")
    if data is None or len(data) == 0:
        return
    times, y = data.index.to_numpy(float), data.to_numpy(float)
    if what == "goodput":
        at, rate = sliding(times, y, window, window / 10)
        axis.plot(at, rate / 1e6, **look)
    else:
        # What was not known is NaN, which leaves a gap.
        axis.plot(times, y / SCALES.get(what, 1.0), drawstyle="steps-post", **look)


def _flow_legend(figure: Figure, axis: Axes) -> None:
    handles, labels = axis.get_legend_handles_labels()
    style.legend(figure, handles, labels)


def sequence(results: Results, spec: dict[str, Any]) -> Made:
    """Time-sequence graph: a dot per segment sent, circles for those retransmitted."""
    every, run = chosen(results, spec), _run(results, spec)
    cells, rest = first(every, 4)
    flow = int(spec.get("flow", 1))
    start, end = _span(spec)
    figure, axes = style.panels(len(cells), height=4.4, columns=2)
    names = titles(every)
    for axis, cell in zip(axes, cells, strict=True):
        if results.plan.runner == "mock":
            _mock_sequence(axis, results.outcome(cell, run)["trace"])
            unit = "data segment"
        else:
            _mesh_sequence(axis, results.series(cell, run), flow, run)
            unit = "offset in the stream, kB"
        axis.set_title(names[cell.name], loc="left", color=style.MUTED)
        axis.set_xlabel("time, s")
        axis.set_xlim(start, end)
        if start is not None or end is not None:
            _fit(axis)
        style.grid(axis, "both")
    style.label_rows(axes, unit)
    handles, labels = axes[0].get_legend_handles_labels()
    for other in axes[1:]:
        for handle, label in zip(*other.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    style.legend(figure, handles, labels)
    caption = f"Run {run}, flow {flow}. Each dot is a segment that leaves the sender."
    return figure, "Segments over time", caption + rest


def _fit(axis: Axes) -> None:
    """Fit y to what lies inside the x limits."""
    low, high = axis.get_xlim()
    inside = [
        np.asarray(line.get_ydata(), dtype=float)[
            (np.asarray(line.get_xdata(), dtype=float) >= low)
            & (np.asarray(line.get_xdata(), dtype=float) <= high)
        ]
        for line in axis.get_lines()
    ]
    seen = np.concatenate([y for y in inside if y.size] or [np.array([0.0, 1.0])])
    margin = 0.04 * (float(seen.max()) - float(seen.min()) or 1.0)
    axis.set_ylim(float(seen.min()) - margin, float(seen.max()) + margin)


def _mesh_sequence(axis: Axes, series: Series, flow: int, run: int) -> None:
    sent = series.get(f"flow.{flow}.sent")
    if sent is None:
        raise LabError(f"no series of run {run}: the plan must say [series] runs = [{run}]")
    times, offsets = sent.index.to_numpy(float), sent.to_numpy(float) / 1e3
    new = offsets >= 0
    delivered = series.get(f"flow.{flow}.delivered")
    if delivered is not None:
        axis.step(
            delivered.index, delivered.to_numpy(float) / 1e3, where="post", color=style.MUTED,
            linewidth=0.9, label="delivered in order",
        )  # fmt: skip
    many = bool(new.sum() > 4000)
    axis.plot(
        times[new], offsets[new], ".", color=style.COLOURS[0], markersize=2.5, rasterized=many,
        label="sent",
    )  # fmt: skip
    again = style.COLOURS[1]
    axis.plot(
        times[~new], -offsets[~new], "o", color=again, markersize=4.5, fillstyle="none",
        label="retransmitted",
    )  # fmt: skip


def _mock_sequence(axis: Axes, trace: Sequence[Mapping[str, Any]]) -> None:
    def points(event: str, again: int | None = None) -> tuple[list[float], list[int]]:
        rows = [
            r
            for r in trace
            if r["event"] == event
            and r["seq_index"] is not None
            and again in (None, r["retransmission"])
        ]
        return [r["time_s"] for r in rows], [r["seq_index"] for r in rows]

    axis.step(*points("ack"), where="post", color=style.MUTED, linewidth=0.9, label="asked for")
    axis.plot(*points("send", 0), ".", color=style.COLOURS[0], markersize=3.5, label="sent")
    axis.plot(
        *points("send", 1), "o", color=style.COLOURS[1], markersize=6, fillstyle="none",
        label="retransmitted",
    )  # fmt: skip
    axis.plot(*points("drop"), "x", color="#b3261e", markersize=7, mew=1.6, label="lost")
