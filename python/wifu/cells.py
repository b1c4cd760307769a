"""Cells of a plan: axes and their levels, every combination of them, scenarios filled in."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wifu import values
from wifu.errors import LabError, PlanError, nearest, placeholders
from wifu.values import Value

Label = str | int | float

PROTOCOLS = ("tcp-", "kernel:", "atp", "tp-alpha", "udp")
"""What names of protocols begin with."""

MOST_CELLS = 100_000
"""So many combinations of levels the axes of a plan can have, skipped ones counted."""

MOST_COPIES = 10_000
"""So many flows an entry with `copies` can stand for."""


OF_PLANS = frozenset({
    "name", "title", "about", "runs", "baseline", "pair", "metrics", "measure", "tolerance", "skip",
    "zip", "deterministic", "run_timeout", "claims",
})  # fmt: skip
"""Keys of plans that may have got below a table."""

ABOVE = "keys of the plan itself stand above the first [table]"
"""What is said of them there."""


@dataclass(frozen=True)
class Level:
    """One value of an axis: its label, and what it sets."""

    label: Label
    value: Value
    paths: Mapping[str, Value] = field(default_factory=dict)
    table: bool = False
    """It is written as a table of what it sets, be that nothing."""


@dataclass(frozen=True)
class Axis:
    """Something that is varied."""

    name: str
    levels: tuple[Level, ...]

    def of(self, label: Label) -> Level:
        """The level with this label."""
        return next(level for level in self.levels if level.label == label)


@dataclass(frozen=True)
class Cell:
    """One point of the plan: its labels, and the scenario without seed and run."""

    index: int
    name: str
    labels: Mapping[str, Label]
    scenario: Mapping[str, Value]
    entries: tuple[int, ...] = ()
    """Of each flow the number of the `[[scenario.flow]]` that it is of, or is a copy of."""

    @property
    def key(self) -> str:
        """Identifies the scenario, whatever the plan around it."""
        return digest(self.scenario)


def digest(value: object) -> str:
    """16 hexadecimal digits that identify a JSON value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def set_path(tree: dict[str, Value], path: str, value: Value) -> None:
    """Set `a.b.c`; in an array of tables, `flow.1.to` is the first, `flow.*.to` all of them."""
    head, _, rest = path.partition(".")
    if not rest:
        tree[head] = value
        return
    child = tree.setdefault(head, {})
    if isinstance(child, list):
        which, _, rest = rest.partition(".")
        if not rest or not (which == "*" or which.isdigit()):
            raise PlanError(f"{head} is a list: write {head}.1.key or {head}.*.key", path)
        if which != "*" and not 1 <= int(which) <= len(child):
            raise PlanError(f"there are {len(child)} of {head}, counted from 1", path)
        for item in child if which == "*" else [child[int(which) - 1]]:
            set_path(item, rest, value)
    elif isinstance(child, dict):
        set_path(child, rest, value)
    else:
        raise PlanError(f"{head} is {child!r}, which has no keys", path)


def levels_of(name: str, given: Value) -> Iterator[Level]:
    """The levels of an axis as a plan gives it: a list, a range, a table of named levels."""
    is_path = "." in name or name in ("seed",)
    if isinstance(given, str):
        given = values.sequence(given)
    if isinstance(given, list):
        for value in given:
            if isinstance(value, list | dict):
                raise LabError("levels that are not plain values need names: [vary.NAME] a = ...")
            yield Level(value, value, {name: value} if is_path else {})
        return
    if not isinstance(given, dict):
        given = [given]
        yield Level(given[0], given[0], {name: given[0]} if is_path else {})
        return
    for label, value in given.items():
        shown: Label = int(label) if label.isdigit() else label
        if isinstance(value, dict):
            yield Level(shown, shown, flat(value), table=True)
        else:
            yield Level(shown, value, {name: value} if is_path else {})


def all_cells(
    scenario: Mapping[str, Value],
    axes: Sequence[Axis],
    zipped: Sequence[Sequence[str]],
    skip: Sequence[Mapping[str, Value]],
) -> Iterator[Cell]:
    """Every combination of levels but those that `skip` leaves out, its scenario filled in."""
    # Braces are tables in there, and no templates.
    compositions = scenario.get("compositions")
    scenario = {k: v for k, v in scenario.items() if k != "compositions"}
    _check_use(scenario, axes)
    groups = _grouped(axes, zipped)
    if (points := math.prod(map(len, groups))) > MOST_CELLS:
        longest = max(axes, key=lambda a: len(a.levels))
        raise PlanError(
            f"the axes have {points:,} combinations, at most {MOST_CELLS:,} can be run; this one "
            f"has {len(longest.levels):,} levels",
            f"vary.{longest.name}",
        )
    names: set[str] = set()
    index = 0
    for chosen in _points(axes, groups):
        labels = {name: level.label for name, level in chosen.items()}
        if any(skips(rule, labels) for rule in skip):
            continue
        made, entries = _scenario(scenario, chosen, axes)
        if compositions:
            made["compositions"] = compositions
        name = _slug(labels.values()) or "only"
        if name in names:
            name = f"{name}-{digest(made)[:6]}"
        names.add(name)
        yield Cell(index, name, labels, made, entries)
        index += 1


def combinations(axes: Sequence[Axis], zipped: Sequence[Sequence[str]]) -> list[dict[str, Label]]:
    """The labels of every combination of levels, those too that a `skip` leaves out."""
    points = _points(axes, _grouped(axes, zipped))
    return [{name: level.label for name, level in chosen.items()} for chosen in points]


def _points(
    axes: Sequence[Axis], groups: Sequence[Sequence[Sequence[tuple[Axis, Level]]]]
) -> Iterator[dict[str, Level]]:
    for point in itertools.product(*groups):
        chosen = {axis.name: level for part in point for axis, level in part}
        yield {a.name: chosen[a.name] for a in axes}


def level_names(given: Any, known: Collection[str]) -> set[str]:
    """What levels of an axis are called that are asked for by label; beside fractions a table has
    whole numbers as 1.0.
    """
    wanted = given if isinstance(given, list) else [given]
    whole = [int(v) if isinstance(v, float) and v.is_integer() else v for v in wanted]
    pairs = zip(wanted, whole, strict=True)
    return {str(v) if str(v) in known else str(w) for v, w in pairs}


def _check_use(scenario: Mapping[str, Value], axes: Sequence[Axis]) -> None:
    for path, value in leaves(dict(scenario)):
        try:
            values.used(value)
        except LabError as e:
            raise PlanError(str(e), f"scenario.{path}") from None
    paths = [level.paths for a in axes for level in a.levels]
    for axis, level in ((a, v) for a in axes for v in a.levels):
        try:
            values.used(dict(level.paths))
        except LabError as e:
            raise PlanError(str(e), f"vary.{axis.name}") from None
    refers = values.used([dict(scenario), *[dict(p) for p in paths]])
    known = {a.name for a in axes} | {"copy"}
    strange = sorted(refers - known)
    for axis in axes:
        sets = any(level.paths or level.table for level in axis.levels)
        if not sets and axis.name not in refers:
            _check_protocols(scenario, axis)
            hint = nearest(axis.name, strange or [*_paths(scenario), *refers])
            if strange:
                there = ", ".join(f"{{{name}}}" for name in sorted(known))
                place = next(
                    (p for p, v in leaves(scenario) if strange[0] in values.used(v)), "a level"
                )
                near = f"{hint} {place} has {{{strange[0]}}}: " if hint.startswith("did") else ""
                hint = f"{near}nothing is called {{{strange[0]}}}; there are {there}"
            dotted = [v.label for v in axis.levels if isinstance(v.value, list)]
            if dotted:
                hint = f'a path stands in quotes: "{axis.name}.{dotted[0]}" = [...]'
            raise PlanError(
                f"is neither a path in the scenario nor used in a template {{{axis.name}}}; {hint}",
                f"vary.{axis.name}",
            )
        for level in axis.levels if sets and axis.name not in refers else ():
            if not level.paths and not level.table:
                path = next(p for other in axis.levels for p in (*other.paths, "flow.1.protocol"))
                raise PlanError(
                    f"goes nowhere: other levels of this axis are tables of paths, and nothing has "
                    f'{{{axis.name}}}; write {{ "{path}" = {json.dumps(level.value)} }}, or {{}} '
                    "for the scenario as it is" + f"; {ABOVE}" * (level.label in OF_PLANS),
                    f"vary.{axis.name}.{level.label}",
                )
    for name in strange:
        for axis in axes:
            if any(level.table and name in level.paths for level in axis.levels):
                raise PlanError(
                    f"its levels set {name}, which is no name for templates: a level that is a "
                    "table sets paths in the scenario, such as flow.1.from, and {"
                    f"{axis.name}}} is its label",
                    f"vary.{axis.name}",
                )
        found = (f"scenario.{p}" for p, v in leaves(scenario) if name in values.used(v))
        hint = placeholders(name, known)
        raise PlanError(f"nothing is called {{{name}}}; {hint}", next(found, "vary"))


def _check_protocols(scenario: Mapping[str, Value], axis: Axis) -> None:
    """What a flow lacks that has no protocol, while nothing takes an axis of them."""
    names = (str(level.value) for level in axis.levels)
    if axis.name != "protocol" and not any(name.startswith(PROTOCOLS) for name in names):
        return
    flows = scenario.get("flow")
    for n, flow in enumerate(flows if isinstance(flows, list) else [], 1):
        if isinstance(flow, dict) and "protocol" not in flow:
            raise PlanError(
                f'flow {n} has no protocol: write protocol = "{{{axis.name}}}" there, and it has '
                "what the axis says",
                f"scenario.flow.{n}",
            )


def flat(table: Mapping[str, Value], prefix: str = "") -> dict[str, Value]:
    """A table of tables as paths: `{"a.b": value}`."""
    out: dict[str, Value] = {}
    for key, value in table.items():
        if isinstance(value, dict) and value:
            out |= flat(value, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = value
    return out


def _grouped(
    axes: Sequence[Axis], zipped: Sequence[Sequence[str]]
) -> list[list[list[tuple[Axis, Level]]]]:
    groups: list[list[list[tuple[Axis, Level]]]] = []
    done: set[str] = set()
    by = {a.name: a for a in axes}
    for axis in axes:
        if axis.name in done:
            continue
        names = next((g for g in zipped if axis.name in g), [axis.name])
        done |= set(names)
        together = zip(*(by[n].levels for n in names), strict=True)
        groups.append(
            [[(by[n], v) for n, v in zip(names, point, strict=True)] for point in together]
        )
    return groups


def listed_flows(scenario: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """The flows of a scenario, with their numbers. The wired network's are files with `bytes`, or
    without `time`, and go on until that else.
    """
    if "flow" in scenario or "protocol" not in scenario:
        listed = scenario.get("flow")
        every = enumerate(listed if isinstance(listed, list) else [], 1)
        return [(n, flow) for n, flow in every if isinstance(flow, dict)]
    ends = "bytes" in scenario or "time" not in scenario
    flow = {"protocol": str(scenario["protocol"]), "app": "file" if ends else "bulk"}
    return [(n, flow) for n in range(1, int(scenario.get("flows", 1)) + 1)]


def skips(rule: Mapping[str, Value], labels: Mapping[str, Label]) -> bool:
    """Whether a rule of `skip` leaves out a cell with these labels."""

    def fits(name: str, wanted: Value) -> bool:
        if name in labels and labels[name] == wanted:  # a level with commas of its own
            return True
        options = values.sequence(wanted) if isinstance(wanted, str) else wanted
        options = options if isinstance(options, list) else [options]
        return labels.get(name) in options

    return all(fits(name, wanted) for name, wanted in rule.items())


def _scenario(
    base: Mapping[str, Value], chosen: Mapping[str, Level], axes: Sequence[Axis]
) -> tuple[dict[str, Value], tuple[int, ...]]:
    tree: dict[str, Value] = copy.deepcopy(dict(base))
    for level in chosen.values():
        for path, value in level.paths.items():
            set_path(tree, path, value)
    names: dict[str, Value] = {name: level.value for name, level in chosen.items()}
    entries: tuple[int, ...] = ()
    try:
        flows = tree.pop("flow", None)
        out: dict[str, Value] = values.fill(tree, names)
        if flows is not None and not isinstance(flows, list):
            raise PlanError("is a list: write [[scenario.flow]]", "scenario.flow")
        if flows is not None:
            copies = [list(_copies(flow, names)) for flow in flows]
            out["flow"] = [f for each in copies for f in each]
            entries = tuple(n for n, each in enumerate(copies, 1) for _ in each)
    except PlanError:
        raise
    except LabError as e:
        texts = (n for n, v in names.items() if isinstance(v, str) and repr(v) in str(e))
        axis = next(texts, None)
        others = _words(next((a for a in axes if a.name == axis), None), str(e))
        raise PlanError(f"{e}{others}", f"vary.{axis}" if axis else "scenario") from None
    return out, entries


def _words(axis: Axis | None, message: str) -> str:
    """The levels that are no numbers, where a message is about one that only has quotes."""
    if axis is None or "without quotes" not in message:
        return ""
    words = [v.value for v in axis.levels if isinstance(v.value, str)]
    words = [repr(w) for w in words if not values.quoted(w)]
    verb = "are no numbers" if len(words) > 1 else "is no number"
    return f", and {', '.join(words)} {verb}" if words else ""


def _copies(flow: Mapping[str, Value], names: Mapping[str, Value]) -> Iterator[dict[str, Value]]:
    rest = {k: v for k, v in flow.items() if k != "copies"}
    count = values.fill(flow.get("copies", 1), names)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise PlanError(f"is a number of flows, not {count!r}", "scenario.flow.copies")
    if count > MOST_COPIES:
        raise PlanError(
            f"{count:,} flows are too many: at most {MOST_COPIES:,}", "scenario.flow.copies"
        )
    for n in range(count):
        yield values.fill(rest, {**names, "copy": n})


def leaves(tree: Value, prefix: str = "") -> Iterator[tuple[str, Value]]:
    """The paths in a tree that have plain values, with these."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{prefix}{key}.")
    elif isinstance(tree, list) and tree and isinstance(tree[0], dict):
        for n, value in enumerate(tree, 1):
            yield from leaves(value, f"{prefix}{n}.")
    else:
        yield prefix[:-1], tree


def _paths(tree: Mapping[str, Value]) -> list[str]:
    return [path for path, _ in leaves(dict(tree))]


def _slug(labels: Iterable[Label]) -> str:
    text = "_".join(re.sub(r"[^A-Za-z0-9.+-]+", "-", str(v)).strip("-") for v in labels)
    return text if len(text) <= 80 else text[:60] + digest(text)[:8]
