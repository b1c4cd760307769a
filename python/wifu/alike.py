"""What compared levels differ in besides what their names say, and which profile each of them has.

Two protocols by name differ in what makes them these protocols: with the same profile, nothing
else. A profile sets some thirty parameters more: windows, buffers, timers, when to acknowledge. A
comparison that mixes profiles compares these, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wifu import tries
from wifu.cells import Cell, Label, Level
from wifu.plan import Plan
from wifu.stacks import Stack, compositions_of, stack, stacks
from wifu.values import Value, fill, used

SIZES = ("rcv_wnd", "snd_buf", "mss", "max_seg")
"""Windows, buffers, and how long segments are."""

ORDER = (*SIZES, "ack.", "congestion.", "rtt.", "reliable.")
"""What is named first: what decides goodput most often."""

NAMED = 10
"""Parameters that a sentence names; JSON has all."""

LONGEST = 80
"""So many characters of what a key of the scenario is set to."""

UNSET = "not set"
"""What a key of the scenario is for a level that does not set it, if the plan does not either."""

PROTOCOL = re.compile(r"flow\.[^.]+\.protocol$")
FLOW = re.compile(r"^flow\.[^.]+\.")
PLACES = re.compile(r"topology\.|flow\.[^.]+\.(from|to|via)$")


def profiles(plan: Plan, axis: str) -> dict[str, str]:
    """The profile of each level of an axis, if its levels have different ones, each a single one;
    else nothing.
    """
    found: dict[str, set[str]] = {}
    for cell in plan.cells:
        own = found.setdefault(str(cell.labels[axis]), set())
        own |= {s.profile for s in stacks(plan.runner, cell) if s is not None}
    if any(len(p) != 1 for p in found.values()):
        return {}
    single = {label: next(iter(p)) for label, p in found.items()}
    return single if len(set(single.values())) > 1 else {}


def names(plan: Plan, axis: str | None) -> dict[str, str]:
    """What the levels of an axis are called in tables and legends: with the profile, where they
    have different ones and their labels do not say it.
    """
    if axis is None:
        return {}
    mixed = profiles(plan, axis)
    labels = [str(v.label) for v in plan.axis(axis).levels]
    return {k: named(k, mixed.get(k)) for k in labels}


def named(text: str, profile: str | None) -> str:
    """What a level is called, with its profile behind it unless there is none to tell or what is
    shown says it.
    """
    if profile is None or profile in re.split(r"[,=: ]", text):
        return text
    return f"{text} ({profile})"


Pair = tuple[str, str]
"""A value, and what it is for the other."""


@dataclass(frozen=True)
class Difference:
    """What a level and the one that it is compared with differ in besides their names."""

    level: Label
    baseline: Label
    words: Pair
    profiles: Pair
    parameters: Mapping[str, Pair]
    scenario: Mapping[str, Pair]
    kernel: bool = False
    attempts: Pair | None = None
    """How often radios try frames with a whole packet, where RTS makes that differ."""
    cells: int = 1
    of: int = 1
    called: Pair | None = None
    """What the plan calls both where it shows them."""

    def sentence(self, most: int = NAMED) -> str:
        """All that in a sentence; so many parameters, those that matter most often, are named."""
        one, two = self._shown()
        return (
            f"{one} and {two} differ{self._where()} in more than their names say: {self._in(most)}."
        )

    def _in(self, most: int) -> str:
        """What it is that they differ in."""
        told = []
        one, two = self.profiles
        if self.kernel:
            who = self.level if one == "kernel" else self.baseline
            told.append(
                f"{who} is the kernel's own TCP, whose buffers, windows, timers and "
                "acknowledgements may all be others"
            )
        elif one != two:
            first = "no profile" if one is None else f"profile {one}"
            told.append(f"{first}, not {'none' if two is None else two}")
        keys = [
            f"the scenario's {name} is {_cut(a)} for {self.level}, {_cut(b)} for {self.baseline}"
            for name, (a, b) in self.scenario.items()
        ]
        values = [
            (name, *(_meant(name, v) for v in pair)) for name, pair in self.parameters.items()
        ]
        all_of = [*(f"{name} {a}, not {b}" for name, a, b in values), *keys]
        told += all_of[:most]
        if len(all_of) > most:
            told.append(f"and {len(all_of) - most} more")
        if self.attempts is not None:
            a, b = self.attempts
            told.append(
                f"frames with a whole packet are tried up to {a} times for {self.level}, {b} for "
                f"{self.baseline}, since after an RTS radio.attempts_long is what counts"
            )
        return "; ".join(told)

    def _shown(self) -> tuple[str, str]:
        """Both as tables call them, with what they are."""
        called = self.called or (str(self.level), str(self.baseline))
        given = zip(called, self.words, (self.level, self.baseline), strict=True)
        one, two = (
            name if (own := words or str(label)) == name else f"{name} ({own})"
            for name, words, label in given
        )
        return one, two

    def _where(self) -> str:
        return "" if self.cells == self.of else f" in {self.cells} of {self.of} comparisons"

    def to_json(self) -> dict[str, Any]:
        """The same as data, with every parameter."""
        return {
            "level": self.level,
            "baseline": self.baseline,
            "protocols": list(self.words),
            "profiles": list(self.profiles),
            "kernel": self.kernel,
            "cells": self.cells,
            "of": self.of,
            "parameters": {k: list(v) for k, v in self.parameters.items()},
            "scenario": {k: list(v) for k, v in self.scenario.items()},
            "attempts": None if self.attempts is None else list(self.attempts),
            "words": self.sentence(),
        }


def sentences(every: Sequence[Difference], most: int = NAMED) -> list[str]:
    """All differences in sentences: levels that differ from one in the same have one together."""
    alike: dict[tuple[str, str, str], list[Difference]] = {}
    for each in every:
        key = each._shown()[1], each._where(), each._in(len(each.parameters) + len(each.scenario))
        alike.setdefault(key, []).append(each)
    return [_together(own, most) for own in alike.values()]


def _together(own: Sequence[Difference], most: int) -> str:
    """Levels that differ from one in the same."""
    if len(own) == 1:
        return own[0].sentence(most)
    *levels, last = (each._shown()[0] for each in own)
    return (
        f"{', '.join(levels)} and {last} differ from {own[0]._shown()[1]}{own[0]._where()} in more "
        f"than their names say, all in the same: {own[0]._in(most)}."
    )


def _cut(value: Any) -> str:
    """What a key is set to, without the end of long lists."""
    told = str(value)
    return told if len(told) <= LONGEST else f"{told[:LONGEST].rsplit(' ', 1)[0]} ..."


def _meant(name: str, value: str) -> str:
    """What a value is, where a number stands for something else."""
    return "the MTU's" if (name, value) == ("mss", "0") else value


def differences(plan: Plan, baseline: Label | None = None) -> list[Difference]:
    """For each level of the plan's `pair` what it and the baseline differ in besides their names;
    likewise, with the first level, of other axes whose levels stand beside each other (`beside`).
    Levels of which the names say it all are not in the list.
    """
    found: dict[tuple[str, str], list[Difference | None]] = {}
    for axis in compared(plan):
        for pair in pairs(plan, baseline, axis):
            one, two = zip(pair.levels, pair.cells, strict=True)
            told = _difference(axis, plan, one, two)
            found.setdefault((axis, str(pair.levels[0].label)), []).append(told)
    out = []
    for (axis, _), every in found.items():
        known = [d for d in every if d is not None]
        if known:
            told = replace(known[0], cells=len(known), of=len(every))
            out.append(replace(told, called=_shown_as(plan, axis, (told.level, told.baseline))))
    return out


def _shown_as(plan: Plan, axis: str, labels: tuple[Label, Label]) -> Pair | None:
    """What a plan calls two levels, if it calls one otherwise; formulas are for figures alone."""
    given = plan.labels.get(axis)
    names = given if isinstance(given, Mapping) else {}
    one, two = (str(names.get(str(label), label)) for label in labels)
    plain = "$" not in one + two
    return (one, two) if plain and (one, two) != (str(labels[0]), str(labels[1])) else None


def compared(plan: Plan) -> list[str]:
    """Axes whose levels are compared: the plan's `pair` first."""
    return ([] if plan.pair is None else [plan.pair]) + beside(plan)


def beside(plan: Plan) -> list[str]:
    """Axes besides `pair` whose levels a reader compares: all, if a plan has no `pair`; else those
    that a figure has along or beside each other and that change what carries flows, and those
    along which an RTS brings another limit.
    """
    others = [a.name for a in plan.axes if a.name != plan.pair]
    if plan.pair is None:
        return others
    drawn = {str(f[role]) for f in plan.figures for role in ("x", "by") if role in f}
    return [
        name
        for name in others
        if (name in drawn and _carries(plan, name)) or _announces(plan, name)
    ]


def _announces(plan: Plan, axis: str) -> bool:
    """Whether an RTS announces frames of some levels of an axis only, which are tried less often
    then.
    """
    return any(_attempts(plan, pair.cells, {})[0] is not None for pair in pairs(plan, None, axis))


def _carries(plan: Plan, axis: str) -> bool:
    """Whether an axis changes the protocols of flows."""
    for pair in pairs(plan, None, axis):
        one, two = (stacks(plan.runner, cell) for cell in pair.cells)
        if any(a != b for a, b in zip(one, two, strict=False)):
            return True
    return False


@dataclass(frozen=True)
class Compared:
    """A level and the baseline, and the cells of both that are compared run by run."""

    levels: tuple[Level, Level]
    cells: tuple[Cell, Cell]


def pairs(plan: Plan, baseline: Label | None = None, axis: str | None = None) -> Iterator[Compared]:
    """What is compared with each other along an axis; the plan's `pair`, if none is given."""
    axis = plan.pair if axis is None else axis
    if axis is None:
        return
    levels = {str(v.label): v for v in plan.axis(axis).levels}
    given = str(plan.baseline if baseline is None else baseline) if axis == plan.pair else ""
    base = levels.get(given) or next(iter(levels.values()))
    cells = {json.dumps(dict(c.labels)): c for c in plan.cells}
    for cell in plan.cells:
        label = str(cell.labels[axis])
        other = cells.get(json.dumps({**cell.labels, axis: base.label}))
        if label != str(base.label) and other is not None:
            yield Compared((levels[label], base), (cell, other))


def _difference(
    axis: str, plan: Plan, one: tuple[Level, Cell], two: tuple[Level, Cell]
) -> Difference | None:
    scenario = _paths(axis, plan, one[0], two[0])
    scenario |= _filled(axis, plan, one, two)
    pairs = list(zip(stacks(plan.runner, one[1]), stacks(plan.runner, two[1]), strict=False))
    words, profile, kernel = ("", ""), ("", ""), False
    same = not _other_protocols(axis, plan, one[0], two[0])
    parameters: dict[str, Pair] = {}
    for a, b in pairs:
        if a is None or b is None or a.words == b.words:
            continue
        same &= a.profile == b.profile and a.words.split(",")[0] == b.words.split(",")[0]
        more = _unsaid(a, b, (one[0].label, two[0].label), compositions_of(one[1].scenario))
        if more or a.kernel != b.kernel or a.profile != b.profile:
            words, profile = (a.words, b.words), (a.profile, b.profile)
            kernel = a.kernel != b.kernel
            parameters = {**more, **parameters}
    attempts, scenario = _attempts(plan, (one[1], two[1]), scenario)
    if not (parameters or scenario or kernel or attempts):
        return None
    if (
        same
        and attempts is None
        and len(parameters) + len(scenario) == 1
        and _called(axis, (one[0], two[0]), {**parameters, **scenario})
    ):
        return None  # it is what the level is called by
    labels = one[0].label, two[0].label
    return Difference(*labels, words, profile, parameters, scenario, kernel, attempts)


def _attempts(
    plan: Plan, cells: tuple[Cell, Cell], scenario: dict[str, Pair]
) -> tuple[Pair | None, dict[str, Pair]]:
    """How often radios try frames where one side announces them by RTS and the other does not, if
    that differs, and the keys of the scenario without those whose effect this is: a limit that
    makes both sides try as often is no difference.
    """
    one, two = (tries.radios(plan.runner, cell) for cell in cells)
    if one is None or two is None or one.announced == two.announced:
        return None, scenario
    rest = {k: v for k, v in scenario.items() if not tries.LIMIT.fullmatch(k)}
    return ((one.words(), two.words()) if one.limits != two.limits else None), rest


def _called(axis: str, levels: tuple[Level, Level], told: Mapping[str, Pair]) -> bool:
    """Whether levels are called by the one thing that they differ in. One that sets a window, a
    buffer, the size of segments or how many flows there are is not, unless it or its axis says a
    word of it or its value: these decide goodput, and nobody looks for them behind another name.
    """
    said = " ".join([axis, *(str(level.label) for level in levels)]).lower()
    for name, values in told.items():
        if not name.startswith(SIZES) and not name.endswith(".copies"):
            continue
        words = [w for text in (name, *values) for w in re.split(r"[^a-z0-9]+", text.lower())]
        if not any(len(word) > 2 and word in said for word in words):
            return False
    return True


def _paths(axis: str, plan: Plan, one: Level, two: Level) -> dict[str, Pair]:
    """Keys of the scenario that levels set beside the one that the axis is called by."""
    paths = [p for p in dict.fromkeys([*one.paths, *two.paths]) if p != axis]
    out = {}
    for path in paths:
        a, b = (
            _shown(v.paths[path]) if path in v.paths else _set(plan, axis, path) for v in (one, two)
        )
        if a != b and not PROTOCOL.match(path):
            out[path] = (a, b)
    return out


def _filled(
    axis: str, plan: Plan, one: tuple[Level, Cell], two: tuple[Level, Cell]
) -> dict[str, Pair]:
    """Keys of the scenario whose templates take the axis, where these are several: it is called by
    one of them at the most. Where flows begin and end comes with the topology, and what protocols
    are filled with shows in their parameters.
    """
    templates: dict[str, list[Value]] = {}
    for tree in (
        dict(plan.scenario),
        *({p: v for p, v in _above(plan, c)} for c in (one[1], two[1])),
    ):
        for path, value in leaves({k: v for k, v in tree.items() if k != "compositions"}).items():
            if axis in used(value):
                templates.setdefault(FLOW.sub("flow.*.", path), []).append(value)
    things = {"topology" if PLACES.match(path) else path for path in templates}
    if len(things) + bool(one[0].paths or two[0].paths) < 2:
        return {}
    out = {}
    for path, values in templates.items():
        if PROTOCOL.match(path) or (path.startswith("flow.") and PLACES.match(path)):
            continue
        found = [[_shown(fill(v, _names(plan, cell))) for v in values] for cell in (one[1], two[1])]
        a, b = (", ".join(dict.fromkeys(words)) for words in found)
        if a != b:
            out[path] = (a, b)
    return out


def _above(plan: Plan, cell: Cell) -> Iterator[tuple[str, Value]]:
    """What the levels of a cell set."""
    for axis in plan.axes:
        yield from axis.of(cell.labels[axis.name]).paths.items()


def _names(plan: Plan, cell: Cell) -> dict[str, Value]:
    """What templates refer to in a cell, in the first of copies."""
    return {a.name: a.of(cell.labels[a.name]).value for a in plan.axes} | {"copy": 0}


def _other_protocols(axis: str, plan: Plan, one: Level, two: Level) -> bool:
    """Whether levels give a flow protocols of other names."""
    paths = [p for p in dict.fromkeys([*one.paths, *two.paths]) if PROTOCOL.match(p)]
    for path in paths:
        found = (
            _shown(v.paths[path]) if path in v.paths else _set(plan, axis, path) for v in (one, two)
        )
        if len({words.partition(",")[0] for words in found}) > 1:
            return True
    return False


def _set(plan: Plan, axis: str, path: str) -> str:
    """What a key of the scenario is for levels of an axis that do not set it: what `[scenario]`
    says, unless a level of another axis says it.
    """
    others = [v for a in plan.axes if a.name != axis for v in a.levels]
    found = None if any(path in v.paths for v in others) else _at(plan.scenario, path.split("."))
    return UNSET if found is None else _shown(found)


def _at(tree: Value, path: Sequence[str]) -> Value:
    """The value of a path such as `flow.*.bytes`; none where it is not there, or not one."""
    if not path:
        return tree
    head, rest = path[0], path[1:]
    if isinstance(tree, Mapping):
        return _at(tree[head], rest) if head in tree else None
    if not isinstance(tree, list):
        return None
    if head != "*":
        return _at(tree[int(head) - 1], rest) if 0 < int(head) <= len(tree) else None
    found = [_at(item, rest) for item in tree]
    return found[0] if found and all(v == found[0] for v in found) else None


def _shown(value: Value) -> str:
    """A value as plans write it, as far as that matters to a reader."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_written(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _written(value: Value) -> str:
    """A value inside of others, where text is in quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _shown(value)


def _unsaid(
    one: Stack, two: Stack, labels: tuple[Label, Label], compositions: tuple[str, ...]
) -> dict[str, Pair]:
    """Parameters that differ although neither the protocols' names nor the labels say it."""
    if one.kernel or two.kernel:
        if one.kernel != two.kernel:
            return {}
        keys = [k for k in dict.fromkeys([*one.values, *two.values])]
        every = {k: (_own(one, k), _own(two, k)) for k in keys}
    else:
        every = _apart(one, two)
        by_name = _by_name(one, two, compositions)
        every = {k: v for k, v in every.items() if by_name.get(k) != v}
    said = {w.partition("=")[0].strip() for v in labels for w in str(v).split(",")[1:]}
    unsaid = {
        k: v for k, v in every.items() if v[0] != v[1] and not {k, k.rpartition(".")[2]} & said
    }
    return {k: unsaid[k] for k in sorted(unsaid, key=_rank)}


def _own(of: Stack, key: str) -> str:
    return of.values.get(key, "the kernel's own")


def _rank(key: str) -> tuple[int, str]:
    places = [n for n, start in enumerate(ORDER) if key.startswith(start)]
    return (places[0] if places else len(ORDER), key)


def _apart(one: Stack, two: Stack) -> dict[str, Pair]:
    """Parts, and parameters of parts that both have, in which two protocols differ."""
    every = {
        k: (one.values[k], two.values[k])
        for k in one.values
        if k in two.values and one.values[k] != two.values[k]
    }
    for role in dict.fromkeys([*one.parts, *two.parts]):
        a, b = one.parts.get(role, "none"), two.parts.get(role, "none")
        if a != b:
            every[role] = (a, b)
    return every


def _by_name(one: Stack, two: Stack, compositions: tuple[str, ...]) -> dict[str, Pair]:
    """In what two protocols differ by their names: with the profile of the second alone."""
    names = [of.words.partition(",")[0] for of in (one, two)]
    found = [stack(f"{name},profile={two.profile}", compositions) for name in names]
    if found[0] is None or found[1] is None:
        found = [stack(name, compositions) for name in names]
    if found[0] is None or found[1] is None:
        return {}
    return _apart(found[0], found[1])


def elsewhere(plan: Plan, other: Plan) -> list[dict[str, Any]]:
    """Levels that are something else on another substrate: axis, level, what it is on each."""
    out: list[dict[str, Any]] = []
    for axis in plan.axes:
        there = {str(v.label): v for v in other.axis(axis.name).levels}
        for level in axis.levels:
            again = there.get(str(level.label), level)
            if (again.value, again.paths) != (level.value, level.paths):
                told = {plan.substrate: _told(level), other.substrate: _told(again)}
                out.append({"axis": axis.name, "level": level.label, "is": told})
    return out


def scenarios(plan: Plan, other: Plan) -> list[dict[str, Any]]:
    """Keys of the scenario that another substrate has otherwise, and what they are on each."""
    one, two = (leaves(dict(p.scenario)) for p in (plan, other))
    return [
        {
            "key": key,
            "is": {
                p.substrate: _shown(of[key]) if key in of else UNSET
                for p, of in ((plan, one), (other, two))
            },
        }
        for key in {**one, **two}
        if one.get(key) != two.get(key)
    ]


def other_load(one: Cell, two: Cell) -> bool:
    """Whether a cell has other flows, another radio or another topology elsewhere: events that are
    counted there are of something else. Which protocol flows have, and when a run that lasts is
    stopped, do not matter to that.
    """
    a, b = (leaves(dict(c.scenario)) for c in (one, two))
    keys = [k for k in {**a, **b} if a.get(k) != b.get(k)]
    return any(
        not PROTOCOL.match(k) and k.startswith(("flow.", "radio.", "topology.")) for k in keys
    )


def leaves(tree: Any, prefix: str = "") -> dict[str, Any]:
    """What a scenario says, by its paths."""
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree, 1)
    out: dict[str, Any] = {}
    for key, value in items:
        if isinstance(value, Mapping | list):
            out |= leaves(value, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = value
    return out


def _told(level: Level) -> Value:
    return dict(level.paths) if isinstance(level.paths, dict) and level.paths else level.value
