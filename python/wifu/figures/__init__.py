"""Figures of results, as SVG, PDF and PNG. What draws is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from wifu import across, skipped, values
from wifu.api import Results
from wifu.diverge import Divergence
from wifu.errors import LabError, PlanError, nearest
from wifu.figures import captions
from wifu.figures.words import Words
from wifu.kinds import KINDS, check
from wifu.metrics import wrong


@dataclass(frozen=True)
class Drawn:
    """A figure on disk."""

    title: str
    caption: str
    svg: Path
    png: Path
    pdf: Path


@dataclass(frozen=True)
class NotDrawn:
    """A figure of a plan that these results cannot fill, and why."""

    title: str
    why: str


ENDS = (".svg", ".png", ".pdf")
"""What a figure is written as."""


def made(results: Results, spec: Mapping[str, Any]) -> tuple[Any, str, str]:
    """Draw one figure of a plan on the page at hand; returns figure, title and caption."""
    kind = spec.get("kind", "")
    if kind not in KINDS:
        raise PlanError(f"no figure is of kind {kind!r}; {nearest(kind, KINDS)}")
    module = import_module(f"wifu.figures.{KINDS[kind].module}")
    figure, title, caption = getattr(module, kind)(results, dict(spec))
    caption += _filter(results, spec) + _apart(results, spec)
    cells, axis = results.cells(spec.get("where")), Words(results, spec).axis(str(spec.get("by")))
    beside = across.sentence(results, cells, spec, axis)
    told = [beside, skipped.sentence(results.plan, spec.get("where"))]
    caption += "".join(f" {words}" for words in told if words)
    caption = captions.without_colour(caption)
    caption = captions.named(caption, results.plan.cells, Words(results, spec, mixed=False))
    return figure, spec.get("title", title), caption


def _apart(results: Results, spec: Mapping[str, Any]) -> str:
    """What a caption says of levels that differ in more than their names say, of those shown."""
    pair = results.plan.pair
    if pair is None:
        return ""
    shown = {str(c.labels[pair]) for c in results.cells(spec.get("where"))}
    words = Words(results, spec, mixed=False)
    found = [d for d in results.differences() if str(d.level) in shown]
    told = [captions.difference(d, pair, words) for d in found]
    return "".join(f" {sentence}" for sentence in told) if len(shown) > 1 else ""


def _filter(results: Results, spec: Mapping[str, Any]) -> str:
    """What a caption says of cells that `where` leaves out."""
    words, told = Words(results, spec, mixed=False), []
    for axis, wanted in spec.get("where", {}).items():
        levels = values.sequence(wanted) if isinstance(wanted, str) else wanted
        levels = levels if isinstance(levels, list) else [levels]
        told.append(f"{words.axis(axis)} {', '.join(words.level(axis, v) for v in levels)}")
    return f" Only {'; '.join(told)}." if told else ""


def draw(results: Results, spec: Mapping[str, Any], folder: Path, number: int = 1) -> Drawn:
    """Draw one figure of a plan into a folder."""
    from wifu.figures import style

    with style.context(spec.get("columns")):
        figure, title, caption = made(results, spec)
        metric = [spec["metric"]] if "metric" in spec else []
        name = "-".join([f"{number:02}", spec["kind"], *metric])
        return _written(figure, title, caption, folder, name)


def _written(figure: Any, title: str, caption: str, folder: Path, name: str) -> Drawn:
    from wifu.figures import style

    folder.mkdir(parents=True, exist_ok=True)
    svg, png, pdf = (folder / f"{name}{end}" for end in ENDS)
    style.save(figure, svg, png, pdf)
    return Drawn(title, caption, svg, png, pdf)


def draw_all(results: Results, columns: int | None = None) -> list[Drawn | NotDrawn]:
    """Draw all figures of the plan into the folder's `figures`; those whose width the plan does not
    tell so many `columns` of a paper wide.

    One that shows cells which an override left out, or which all failed, is named with the reason.
    """
    folder = results.folder / "figures"
    for old in (path for end in ENDS for path in folder.glob(f"*{end}")):
        old.unlink()
    wide = {} if columns is None else {"columns": columns}
    specs = [{**wide, **spec} for spec in results.plan.figures or default_specs(results)]
    out: list[Drawn | NotDrawn] = []
    for number, spec in enumerate(specs, 1):
        try:
            out.append(draw(results, spec, folder, number))
        except LabError as e:
            out.append(NotDrawn(str(spec.get("title", spec["kind"])), str(e)))
    return out


def show(results: Results, spec: Mapping[str, Any], axes: Any = None) -> Any:
    """Draw one figure of a plan on a figure of pyplot, or on `axes`, with the look that is set
    there; returns the axes. Axes are a list of matplotlib's, or one, or an array of them.

    The caption stands below the panels of a figure of its own, and is the attribute `caption` of
    this and of all axes.
    """
    import numpy as np

    from wifu.figures import page, style

    check_figure(results, spec)
    if axes is not None:
        flat = list(np.ravel(np.asarray(axes, dtype=object)))
        with page.use(page.Page(axes=flat)):
            _, _, caption = made(results, spec)
        for axis in flat:
            style.whole(axis)
            axis.caption = caption
        return flat[0] if len(flat) == 1 else np.asarray(flat, dtype=object)
    columns = spec.get("columns")
    with style.context(columns), page.use(page.Page(columns, shown=True)):
        figure, _, caption = made(results, spec)
        style.beneath(figure, caption)
        style.fold(figure)
    figure.caption = caption
    drawn = [axis for axis in figure.axes if axis.get_visible()]
    for axis in drawn:
        axis.caption = caption
    return drawn[0] if len(drawn) == 1 else np.asarray(drawn, dtype=object)


def check_figure(results: Results, spec: Mapping[str, Any]) -> None:
    """An error if a figure names what is not in these results, or has keys that it cannot have."""
    plan = results.plan
    labels = {a.name: [str(v.label) for v in a.levels] for a in plan.axes}
    for role in check(spec, list(labels), labels, plan.pair, plan.recorded):
        if (why := wrong(str(spec[role]))) is not None:
            raise LabError(why)


def draw_divergence(
    every: Sequence[Results], found: Divergence, columns: int | None = None
) -> list[Drawn | NotDrawn]:
    """Bars of each substrate side by side, one figure for each metric that two of them know, so
    many `columns` of a paper wide.
    """
    from wifu.figures import beside, style

    out: list[Drawn | NotDrawn] = []
    for metric in dict.fromkeys(row.metric for row in found.rows):
        with style.context(columns):
            try:
                figure, title, caption = beside.substrates(every, found, metric)
            except LabError as e:
                out.append(NotDrawn(f"Substrates: {metric}", str(e)))
                continue
            folder = every[0].folder / "figures"
            out.append(_written(figure, title, caption, folder, f"divergence-{metric}"))
    return out


def default_specs(results: Results) -> list[dict[str, Any]]:
    """Figures for a plan that names none: each metric over the axis with the most numbers."""
    plan = results.plan
    numeric = [
        a for a in plan.axes if all(isinstance(v.label, int | float) for v in a.levels)
    ] or list(plan.axes)
    if not numeric:
        return []
    x = max(numeric, key=lambda a: len(a.levels)).name
    return [{"kind": "bars", "metric": m, "x": x} for m in plan.metrics]
