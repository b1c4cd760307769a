"""Figures of results, as SVG and PNG. The drawing itself is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from wifu.api import Results
from wifu.diverge import Divergence
from wifu.errors import LabError, PlanError, nearest
from wifu.kinds import KINDS


@dataclass(frozen=True)
class Drawn:
    """A figure on disk."""

    title: str
    caption: str
    svg: Path
    png: Path


@dataclass(frozen=True)
class NotDrawn:
    """A figure of a plan that these results cannot fill, and why."""

    title: str
    why: str


def draw(results: Results, spec: Mapping[str, Any], folder: Path, number: int = 1) -> Drawn:
    """Draw one figure of a plan into a folder."""
    kind = spec.get("kind", "")
    if kind not in KINDS:
        raise PlanError(f"no figure is of kind {kind!r}; {nearest(kind, KINDS)}")
    module = import_module(f"wifu.figures.{KINDS[kind].module}")
    from wifu.figures import style

    with style.context():
        figure, title, caption = getattr(module, kind)(results, dict(spec))
        title = spec.get("title", title)
        name = "-".join([f"{number:02}", kind, *([spec["metric"]] if "metric" in spec else [])])
        folder.mkdir(parents=True, exist_ok=True)
        svg, png = folder / f"{name}.svg", folder / f"{name}.png"
        style.save(figure, svg, png)
    return Drawn(title, caption, svg, png)


def draw_all(results: Results) -> list[Drawn | NotDrawn]:
    """Draw all figures of the plan into the folder's `figures`.

    One that shows cells which an override left out, or which all failed, is named with the reason.
    """
    folder = results.folder / "figures"
    for old in [*folder.glob("*.svg"), *folder.glob("*.png")]:
        old.unlink()
    specs = results.plan.figures or default_specs(results)
    out: list[Drawn | NotDrawn] = []
    for number, spec in enumerate(specs, 1):
        try:
            out.append(draw(results, spec, folder, number))
        except LabError as e:
            out.append(NotDrawn(str(spec.get("title", spec["kind"])), str(e)))
    return out


def draw_divergence(every: Sequence[Results], found: Divergence) -> list[Drawn | NotDrawn]:
    """Bars of each substrate side by side, one figure for each metric that two of them know."""
    from wifu.figures import beside, style

    folder = every[0].folder / "figures"
    out: list[Drawn | NotDrawn] = []
    for metric in dict.fromkeys(row.metric for row in found.rows):
        with style.context():
            try:
                figure, title, caption = beside.substrates(every, found, metric)
            except LabError as e:
                out.append(NotDrawn(f"Substrates: {metric}", str(e)))
                continue
            folder.mkdir(parents=True, exist_ok=True)
            svg, png = (folder / f"divergence-{metric}{end}" for end in (".svg", ".png"))
            style.save(figure, svg, png)
        out.append(Drawn(title, caption, svg, png))
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
