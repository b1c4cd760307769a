"""Figures of results, as SVG and PNG. The drawing itself is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wifu import values
from wifu.errors import LabError, PlanError, nearest

if TYPE_CHECKING:
    from wifu.api import Results
    from wifu.diverge import Divergence


@dataclass(frozen=True)
class Kind:
    """A kind of figure: what it shows, the keys it takes, and where it is drawn."""

    about: str
    options: tuple[str, ...]
    module: str


KINDS: dict[str, Kind] = {
    "bars": Kind(
        "a metric over an axis, with intervals", ("metric", "x", "by", "published"), "compare"
    ),
    "lines": Kind(
        'the same as bars, drawn as lines; scale = "log" if wanted',
        ("metric", "x", "by", "published", "scale"),
        "compare",
    ),
    "cdf": Kind("distribution of the flows' goodput, or of a metric", ("metric", "by"), "compare"),
    "fairness": Kind("Jain's index of every run, with means", ("x", "by"), "compare"),
    "tradeoff": Kind(
        "goodput against round-trip time, with ellipses", ("metric", "against", "by"), "compare"
    ),
    "timeseries": Kind(
        "goodput, window and round-trip time over time (needs series)",
        ("show", "window", "run", "from", "to"),
        "traces",
    ),
    "sequence": Kind(
        "segments over time: sent, sent again, delivered", ("run", "from", "to", "flow"), "traces"
    ),
    "map": Kind("the mesh, links coloured by how many attempts succeed", ("run",), "mesh"),
    "waterfall": Kind(
        "where a packet's time goes, hop by hop: queue, contention, retries, air",
        ("flow", "reverse"),
        "mesh",
    ),
}
"""Figures by name; every one also takes `title` and `where`."""


SHOWN = ("goodput", "cwnd", "srtt")
"""What `show` of a time series can name."""


def check(
    spec: Any, axes: Sequence[str], known: Mapping[str, Collection[str]] | None, pair: str | None
) -> list[str]:
    """The keys of a figure that name metrics. An error if anything else cannot be drawn; `known`
    has the labels of the axes, which are not looked at without it.
    """
    if not isinstance(spec, Mapping):
        raise PlanError("write [[figure]], and below it kind = ...")
    kind = str(spec.get("kind", ""))
    if kind not in KINDS:
        raise PlanError(f"no figure is of kind {kind!r}; {nearest(kind, KINDS)}", "kind")
    options = ("kind", "title", "where", *KINDS[kind].options)
    for key, value in spec.items():
        if key not in options:
            raise PlanError(f"unknown key; {nearest(key, options)}", key)
        if key in _RULES and not _RULES[key][1](value):
            raise PlanError(f"{_RULES[key][0]}, not {value!r}", key)
    for role in ("x", "by"):
        if role in spec and spec[role] not in axes:
            name = str(spec[role])
            raise PlanError(f"no axis is called {name}; {nearest(name, axes)}", role)
    where = spec.get("where", {})
    for name, wanted in where.items():
        if name not in axes:
            raise PlanError(f"no axis is called {name}; {nearest(name, axes)}", "where")
        _labels(known, name, wanted if isinstance(wanted, list) else [wanted], "where")
    if "published" in spec:
        x = spec.get("x", axes[0] if axes else None)
        by = spec.get("by", pair)
        tables = [spec["published"]]
        if by is not None and by != x:
            _labels(known, by, tables[0], "published")
            tables = list(tables[0].values())
            if not all(isinstance(t, Mapping) for t in tables):
                raise PlanError(f"needs a table of values for each level of {by}", "published")
        for table in tables:
            _labels(known, x, table, "published")
    return [role for role in ("metric", "against") if role in spec]


def _labels(
    known: Mapping[str, Collection[str]] | None, axis: Any, labels: Collection[Any], key: str
) -> None:
    if known is None or axis is None:
        return
    for label in labels:
        if str(label) not in known[axis]:
            hint = nearest(str(label), known[axis])
            raise PlanError(f"axis {axis} has no {label}; {hint}", key)


def _time(value: Any) -> bool:
    try:
        values.seconds(value)
    except LabError:
        return False
    return True


def _count(value: Any) -> bool:
    return type(value) is int and value > 0


_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "title": ("must be text", lambda v: isinstance(v, str)),
    "where": ("must be a table: { axis = level }", lambda v: isinstance(v, Mapping)),
    "published": ("must be a table: { level = value }", lambda v: isinstance(v, Mapping)),
    "scale": ('is "log" or "linear"', lambda v: v in ("log", "linear")),
    "show": (
        f"must be a list of {', '.join(SHOWN)}",
        lambda v: isinstance(v, list) and bool(v) and all(s in SHOWN for s in v),
    ),
    "window": ("must be a time above 0", lambda v: _time(v) and values.seconds(v) > 0),
    "from": ("must be a time", _time),
    "to": ("must be a time", _time),
    "run": ("must be the number of a run, from 1 on", _count),
    "flow": ("must be the number of a flow, from 1 on", _count),
    "reverse": ("must be true or false", lambda v: isinstance(v, bool)),
}
"""What values of keys must be, besides the names of axes, levels and metrics."""


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
