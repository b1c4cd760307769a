"""Kinds of figures: what a plan can ask for, and with which keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wifu import habits, values
from wifu.cells import ABOVE, OF_PLANS
from wifu.errors import LabError, PlanError, nearest, placeholders
from wifu.metrics import RUN_METRICS, wrong


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
    "ratio": Kind(
        "each level of `pair` by the plan's baseline, with what passes Holm",
        ("metric", "x"),
        "ratios",
    ),
    "cdf": Kind(
        "distribution of the flows' goodput, or of a metric over runs",
        ("metric", "by", "scales", "pool", "published"),
        "spread",
    ),
    "flows": Kind(
        "what each flow gets, and all together; sorted = true: the strongest first in each run",
        ("metric", "by", "run", "sorted"),
        "shares",
    ),
    "fairness": Kind("Jain's index of every run, with means", ("x", "by"), "shares"),
    "tradeoff": Kind(
        "goodput against round-trip time, with ellipses",
        ("metric", "against", "by", "scales"),
        "spread",
    ),
    "timeseries": Kind(
        "goodput, bytes delivered, window and round-trip time over time (needs series)",
        ("show", "window", "run", "from", "to"),
        "traces",
    ),
    "sequence": Kind(
        "segments over time: sent, retransmitted, delivered; and a recovery, larger",
        ("run", "from", "to", "flow", "zoom"),
        "sequences",
    ),
    "trips": Kind(
        "distribution of the packets' round trips over all runs (needs series; see wifu.handed)",
        ("by", "flow"),
        "nodes",
    ),
    "rates": Kind(
        'what nodes hand down over time, in the run of median length or which = "longest" (needs '
        "series)",
        ("nodes", "which", "window", "from", "to", "published", "flow"),
        "nodes",
    ),
    "hops": Kind(
        "what is lost on each hop, with quartiles of the runs: metric = loss or passive_loss",
        ("metric", "by", "published", "flow", "reverse"),
        "nodes",
    ),
    "latency": Kind(
        'latency under load: goodput and delay of datagrams over time, or as = "cdf" (needs series '
        "with delay)",
        ("as", "by", "window", "run", "from", "to"),
        "latency",
    ),
    "map": Kind("the mesh, links coloured by how many attempts succeed", ("run",), "mesh"),
    "waterfall": Kind(
        "where a packet's time goes, hop by hop: queue, contention, retries, air",
        ("flow", "reverse"),
        "mesh",
    ),
}
"""Figures by name; every one also takes the keys `COMMON`."""

COMMON = ("title", "where", "label", "columns")
"""What it is called, which cells it shows, what it calls them, and how wide it is: in `columns` of
a paper.
"""


MARKED = ("rates", "hops")
"""Kinds on whose scale `published` marks values."""

SHOWN = ("goodput", "delivered", "cwnd", "srtt")
"""What `show` of a time series can name besides what `[series] record` of the plan names."""


def check(
    spec: Any,
    axes: Sequence[str],
    known: Mapping[str, Collection[str]] | None,
    pair: str | None,
    recorded: Collection[str] = (),
) -> list[str]:
    """The keys of a figure that name metrics. An error if anything else cannot be drawn; `known`
    has the labels of the axes, which are not looked at without it; `recorded` are the quantities
    that a time series can show besides the usual ones.
    """
    if not isinstance(spec, Mapping):
        raise PlanError("write [[figure]], and below it kind = ...")
    kind = str(spec.get("kind", ""))
    if kind not in KINDS:
        told = habits.of_figure(kind) or nearest(kind, KINDS)
        raise PlanError(f"no figure is of kind {kind!r}; {told}", "kind")
    options = ("kind", *COMMON, *KINDS[kind].options)
    for key, value in spec.items():
        if key not in options:
            above = f"; {ABOVE}" if key in OF_PLANS else ""
            raise PlanError(f"unknown key; {nearest(key, options)}{above}", key)
        if key in _RULES and not _RULES[key][1](value):
            raise PlanError(f"{_RULES[key][0]}, not {value!r}", key)
        if key == "show" and (strange := [s for s in value if s not in (*SHOWN, *recorded)]):
            could = ", ".join((*SHOWN, *recorded))
            raise PlanError(
                f"must be a list of {could}, not {strange!r}; others are named in [series] record",
                key,
            )
    start, end = (values.seconds(spec[k]) if k in spec else None for k in ("from", "to"))
    if start is not None and end is not None and start >= end:
        raise PlanError(f"is not before `to`: {start:g} s and {end:g} s", "from")
    if spec.get("zoom") and ("from" in spec or "to" in spec):
        raise PlanError("a recovery has a time of its own: leave out `from` and `to`", "zoom")
    labels(spec.get("label", {}), axes, known, recorded)
    if kind == "ratio" and pair is None:
        raise PlanError("a ratio needs `pair`: the axis along which levels are compared", "kind")
    _axes_named(spec, axes)
    where = spec.get("where", {})
    for name, wanted in where.items():
        if name not in axes:
            raise PlanError(f"no axis is called {name}; {nearest(name, axes)}", "where")
        _labels(known, name, wanted if isinstance(wanted, list) else [wanted], "where")
    if kind == "flows" and spec.get("metric", "goodput") not in ("goodput", "delay"):
        raise PlanError("is goodput or delay, what a flow has by itself", "metric")
    if "published" in spec and (kind in MARKED) == isinstance(spec["published"], Mapping):
        what = "is a number, or several" if kind in MARKED else "must be a table: { level = value }"
        raise PlanError(f"{what}, not {spec['published']!r}", "published")
    if kind == "hops" and spec.get("metric", "loss") not in ("loss", "passive_loss"):
        raise PlanError("is loss or passive_loss, what a hop has", "metric")
    if kind == "rates" and "nodes" not in spec:
        raise PlanError('names the nodes: nodes = ["n1"]', "kind")
    if "published" in spec and kind in MARKED:
        pass
    elif "published" in spec and kind == "cdf":
        _shares(spec["published"], known, spec.get("by", pair))
    elif "published" in spec:
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
            for value in table.values():
                if not _value(value):
                    raise PlanError(
                        f"is a number or a range, [low, high], not {value!r}", "published"
                    )
    return [role for role in ("metric", "against") if role in spec]


def _axes_named(spec: Mapping[str, Any], axes: Sequence[str]) -> None:
    """The axes that a figure names are there."""
    for role in ("x", "by", "pool"):
        names = spec.get(role, [])
        for name in names if isinstance(names, list) else [names]:
            if name not in axes:
                raise PlanError(f"no axis is called {name}; {nearest(str(name), axes)}", role)


def _shares(
    published: Mapping[str, Any], known: Mapping[str, Collection[str]] | None, by: str | None
) -> None:
    """What a paper says of a distribution: by level of `by`, below which value what share is."""
    if by is not None:
        _labels(known, by, published, "published")
    for table in published.values() if by is not None else [published]:
        points = table.items() if isinstance(table, Mapping) else [("", "")]
        for share, value in points:
            try:
                right = 0 < float(share) < 1 and type(value) in (int, float)
            except ValueError:
                right = False
            if not right:
                raise PlanError(
                    'of a distribution it is { share = value }, such as { "0.5" = 1.2 }',
                    "published",
                )


_BRACE = re.compile(r"\{([A-Za-z_][^{}]*)\}")


def labels(
    given: Any,
    axes: Sequence[str],
    known: Mapping[str, Collection[str]] | None,
    recorded: Collection[str] = (),
) -> Mapping[str, Any]:
    """The table `label` of a plan or a figure, if it names what there is: text for an axis, a
    metric or what a time series shows; or of an axis a table of its `title` and its levels.
    """
    if not isinstance(given, Mapping):
        raise PlanError("must be a table: { name = text }", "label")
    names = (*axes, *RUN_METRICS, *SHOWN, *recorded)
    for name, said in given.items():
        if name not in names and wrong(name) is not None:
            raise PlanError(f"no axis or metric is called {name}; {nearest(name, names)}", "label")
        levels = isinstance(said, Mapping) and name in axes
        if levels:
            _labels(known, name, [k for k in said if k != "title"], "label")
        for text in said.values() if levels else [said]:
            if not isinstance(text, str):
                raise PlanError(f"{name} must be text, not {text!r}", "label")
            # Between dollars braces are formulas'.
            if (brace := _BRACE.search(text)) and "$" not in text:
                hint = placeholders(brace[1], axes)
                raise PlanError(
                    f"{name} is shown as it is written, with {brace[0]}: [scenario] alone has "
                    f"placeholders; {hint}",
                    "label",
                )
        if levels:
            _apart(name, {k: text for k, text in said.items() if k != "title"})
    return given


def _apart(axis: str, shown: Mapping[str, str]) -> None:
    """An error where two levels are called the same."""
    first: dict[str, str] = {}
    for label, text in shown.items():
        if (other := first.setdefault(text, label)) != label:
            raise PlanError(f"{other} and {label} of {axis} are both called {text!r}", "label")


def _labels(
    known: Mapping[str, Collection[str]] | None, axis: Any, labels: Collection[Any], key: str
) -> None:
    if known is None or axis is None:
        return
    for label in labels:
        if str(label) not in known[axis]:
            hint = nearest(str(label), known[axis])
            raise PlanError(f"axis {axis} has no {label}; {hint}", key)


def _value(published: Any) -> bool:
    """Whether this is what a figure marks of a paper: a number, or a range."""
    ends = published if isinstance(published, list) else [published]
    numbers = all(type(v) in (int, float) for v in ends)
    return numbers and (len(ends) == 1 or (len(ends) == 2 and ends[0] <= ends[1]))


def _numbers(value: Any) -> bool:
    """Whether this is a number, or some."""
    every = value if isinstance(value, list) else [value]
    return bool(every) and all(type(v) in (int, float) for v in every)


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
    "metric": ("must be the name of a metric", lambda v: not isinstance(v, list | Mapping)),
    "against": ("must be the name of a metric", lambda v: not isinstance(v, list | Mapping)),
    "x": ("must be the name of an axis", lambda v: isinstance(v, str)),
    "by": ("must be the name of an axis", lambda v: isinstance(v, str)),
    "where": ("must be a table: { axis = level }", lambda v: isinstance(v, Mapping)),
    "published": (
        "must be a table: { level = value }",
        lambda v: isinstance(v, Mapping) or _numbers(v),
    ),
    "nodes": (
        "must be a list of nodes",
        lambda v: isinstance(v, list) and bool(v) and all(isinstance(n, str) for n in v),
    ),
    "which": ('is "median" or "longest"', lambda v: v in ("median", "longest")),
    "columns": ("is 1 or 2: columns of a paper", lambda v: type(v) is int and v in (1, 2)),
    "scales": ('is "shared" or "own"', lambda v: v in ("shared", "own")),
    "zoom": (
        "is the number of a recovery, from 1 on, or false",
        lambda v: v is False or _count(v),
    ),
    "scale": ('is "log" or "linear"', lambda v: v in ("log", "linear")),
    "show": (
        f"must be a list of {', '.join(SHOWN)}",
        lambda v: isinstance(v, list) and bool(v) and all(isinstance(s, str) for s in v),
    ),
    "as": ('is "time" or "cdf"', lambda v: v in ("time", "cdf")),
    "window": ("must be a time above 0", lambda v: _time(v) and values.seconds(v) > 0),
    "from": ("must be a time", _time),
    "to": ("must be a time", _time),
    "run": ("must be the number of a run, from 1 on", _count),
    "flow": ("must be the number of a flow, from 1 on", _count),
    "sorted": ("must be true or false", lambda v: isinstance(v, bool)),
    "pool": (
        'is a list of axes, such as ["pair"]',
        lambda v: isinstance(v, list) and bool(v) and all(isinstance(s, str) for s in v),
    ),
    "reverse": ("must be true or false", lambda v: isinstance(v, bool)),
}
"""What values of keys must be, besides the names of axes, levels and metrics."""
