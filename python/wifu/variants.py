"""What a plan says about substrates: where it runs, and what is different there."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wifu.cells import Axis, flat, levels_of, set_path
from wifu.errors import LabError, PlanError, nearest
from wifu.values import Value, seconds

SUBSTRATES = {
    "sim": "in virtual time, by the simulator",
    "emu": "kernels and programs over emulated radios (`wifu emu`), in real time; root",
    "live": "kernels and programs over wires between namespaces (root), or hosts reached by SSH",
}

COMMON = ("vary", "scenario", "runs", "run_timeout", "skip")
"""What the table of each substrate may change."""

SETTINGS: dict[str, dict[str, Any]] = {
    "sim": {},
    "emu": {
        "dilation": int | float,
        "spin": bool,
        "share": bool,
        "repeats": int,
        "patience": str,
    },
    "live": {"hosts": dict, "addresses": dict, "control": dict, "program": str, "ssh": str},
}
"""What it may say besides: how to run there."""


def substrates(names: Sequence[Value]) -> tuple[str, ...]:
    """Substrates in the order in which they are run; an error if there is no such one."""
    if not names:
        raise PlanError(f"names no substrate; {nearest('', SUBSTRATES)}", "on")
    for name in names:
        if not isinstance(name, str) or name not in SUBSTRATES:
            raise PlanError(
                f"no substrate is called {name}; {nearest(str(name), SUBSTRATES)}", "on"
            )
    return tuple(s for s in SUBSTRATES if s in names)


def settings_of(source: Mapping[str, Value], substrate: str) -> dict[str, Any]:
    """The settings of a substrate; the tables of all are checked."""
    for name, own in SETTINGS.items():
        table = source.get(name, {})
        if not isinstance(table, dict):
            raise PlanError(f"must be a table, not {table!r}", name)
        for key, value in table.items():
            if key not in (*COMMON, *own):
                raise PlanError(f"unknown key; {nearest(key, (*COMMON, *own))}", f"{name}.{key}")
            if key in own and not isinstance(value, own[key]):
                raise PlanError(f"cannot be {value!r}", f"{name}.{key}")
            if key == "runs" and (type(value) is not int or value < 1):
                raise PlanError(f"must be an integer, 1 or more, not {value!r}", f"{name}.{key}")
            if key in ("vary", "scenario") and not isinstance(value, dict):
                raise PlanError(f"must be a table, not {value!r}", f"{name}.{key}")
            if key == "patience":
                try:
                    seconds(value)
                except LabError as error:
                    raise PlanError(str(error), f"{name}.{key}") from None
    settings = {k: v for k, v in source.get(substrate, {}).items() if k not in COMMON}
    if settings.get("dilation", 1) < 1:
        raise PlanError("is 1 or more", f"{substrate}.dilation")
    if settings.get("repeats", 0) < 0:
        raise PlanError("is 0 or more", f"{substrate}.repeats")
    for key in ("addresses", "control"):
        hosts = settings.get("hosts", {})
        for name in settings.get(key, {}):
            if name not in hosts:
                hint = nearest(str(name), hosts)
                raise PlanError(f"hosts has no {name}; {hint}", f"{substrate}.{key}.{name}")
    return settings


def changed(
    base: dict[str, Value], changes: Mapping[str, Value], substrate: str
) -> dict[str, Value]:
    """A scenario with the keys that a substrate changes."""
    tree = copy.deepcopy(base)
    try:
        for path, value in flat(changes).items():
            set_path(tree, path, value)
    except PlanError as e:
        raise PlanError(e.message, f"{substrate}.scenario.{e.key}") from None
    return tree


def instead(axes: Sequence[Axis], changes: Mapping[str, Value], substrate: str) -> Iterator[Axis]:
    """The axes, where levels that a substrate names mean something else under their labels."""
    where = f"{substrate}.vary"
    for name in changes:
        if name not in {a.name for a in axes}:
            raise PlanError(
                f"no axis is called {name}; {nearest(name, (a.name for a in axes))}",
                f"{where}.{name}",
            )
    for axis in axes:
        own = changes.get(axis.name)
        if own is None:
            yield axis
            continue
        key = f"{where}.{axis.name}"
        if not isinstance(own, dict):
            listed = own if isinstance(own, list) else [own]
            others = [v.label for v in axis.levels if v.label not in listed] or [
                axis.levels[0].label
            ]
            raise PlanError(
                'write label = "value" for the levels that differ; what is not to run on '
                f"{substrate} is left out by skip = [{{ {axis.name} = {json.dumps(others[0])} }}] "
                f"of [{substrate}]",
                key,
            )
        try:
            new = {str(level.label): level for level in levels_of(axis.name, own)}
        except LabError as e:
            raise PlanError(str(e), key) from None
        known = [str(v.label) for v in axis.levels]
        for label in new:
            if label not in known:
                raise PlanError(f"{axis.name} has no {label}; {nearest(label, known)}", key)
        levels = [
            replace(new[str(v.label)], label=v.label) if str(v.label) in new else v
            for v in axis.levels
        ]
        yield Axis(axis.name, tuple(levels))


def without(source: Mapping[str, Value], axis: str, labels: Sequence[str]) -> None:
    """Take levels that an override leaves out from the tables of substrates, too."""
    for substrate in SUBSTRATES:
        own = source.get(substrate, {}).get("vary", {}).get(axis)
        if isinstance(own, dict):
            for label in [k for k in own if k not in labels]:
                del own[label]
