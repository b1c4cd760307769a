"""Changes of a plan from the command line: `key=value`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from wifu import _native, values
from wifu.cells import set_path
from wifu.errors import LabError, PlanError, nearest
from wifu.values import Value
from wifu.variants import SUBSTRATES, without

KEYS = (
    "name", "title", "about", "runner", "scenario", "vary", "zip", "skip", "runs", "until", "seed",
    "deterministic", "pair", "baseline", "measure", "metrics", "figure", "claims", "series", "on",
    "sim", "emu", "live", "substrate", "run_timeout", "tolerance", "compositions", "label", "quick",
    "topologies",
)  # fmt: skip
SCENARIO_HEADS = (
    "topology", "radio", "routing", "host", "flow", "handler", "split", "mobility", "event", "stop",
    "record",
)  # fmt: skip


def apply_override(source: dict[str, Value], override: str, multirun: bool = False) -> None:
    """Apply `key=value`: a key of the plan, an axis, or a scenario path (`radio.rate=6Mb/s`).

    With `multirun`, several values for a scenario path make it an axis, as Hydra's `-m` does.
    """
    key, equals, text = override.partition("=")
    key = key.strip()
    if key in SUBSTRATES and not equals:
        raise PlanError(f"{key} stands alone: substrates are listed with commas, --on sim,{key}")
    if not equals or not key:
        raise PlanError(f"{override!r} is no override: write key=value")
    head = key.split(".")[0]
    vary = source.setdefault("vary", {})
    if key.removeprefix("vary.") in vary:
        name = key.removeprefix("vary.")
        _whole(vary[name], text, key)
        vary[name] = _chosen(vary[name], text, key)
        without(source, name, [str(v) for v in vary[name]])
    elif head in KEYS:
        set_path(source, key, values.scalar(text))
    elif head in SCENARIO_HEADS:
        _filled(source, key, text)
        options = values.sequence(text) if multirun else [values.scalar(text)]
        if len(options) > 1:
            vary[key] = options
        else:
            set_path(source.setdefault("scenario", {}), key, options[0])
    else:
        # Letters that changed places first: `hosp` is rather the plan's `hops` than `host`.
        swapped = [name for name in vary if sorted(name) == sorted(key)]
        meant = nearest(key, swapped or [*KEYS, *vary, *SCENARIO_HEADS])
        meant = f"did you mean `radio.{key}`?" if _of_radio(key) else meant
        raise PlanError(f"{key} is neither an axis nor a key of plan or scenario; {meant}")


def _filled(source: Mapping[str, Value], key: str, text: str) -> None:
    """An error if an axis fills this key, and nothing else: it would fill nothing any more."""
    found: Any = source.get("scenario", {})
    for part in key.split("."):
        if isinstance(found, list) and part.isdigit() and 1 <= int(part) <= len(found):
            found = found[int(part) - 1]
        else:
            found = found.get(part) if isinstance(found, dict) else None
    name = found[1:-1] if isinstance(found, str) and found[:1] + found[-1:] == "{}" else ""
    every = json.dumps(source.get("scenario", {}), default=str)
    used = re.findall(rf"{{[^{{}}]*\b{re.escape(name)}\b[^{{}}]*}}", every) if name else []
    if name in source.get("vary", {}) and len(used) == 1:
        raise PlanError(f"the axis {name} fills {key} ({found}): write {name}={text}")


def _of_radio(key: str) -> bool:
    """Whether this is a key of the radio, written without it."""
    words = {"topology": {"words": "minimal"}, "radio": {key: []}, "stop": {"time": 1}}
    try:
        _native.check_scenario(json.dumps(words))
    except ValueError as e:
        # No list is right; of an unknown key that is not what is said.
        return str(e).startswith(f"radio.{key}: ") and "no key is called" not in str(e)
    return True


def _whole(axis: Value, text: str, key: str) -> None:
    """An error if a comma inside a level, as in `tcp-sack,hystart=off`, would end it there."""
    options = [str(o) for o in values.sequence(text)]
    known = axis if isinstance(axis, list | dict) else []
    if text.lstrip().startswith("[") or "=" in options[0] or any("=" in str(k) for k in known):
        return
    levels: list[str] = []
    for option in options:
        if re.match(r"[a-z][a-z0-9_.-]*=", option):
            levels[-1] += f",{option}"
        else:
            levels.append(option)
    if len(levels) < len(options):
        raise PlanError(
            f"a comma begins another level; if it belongs to one, write "
            f"'{key}={json.dumps(levels, separators=(',', ':'))}', quotes and all"
        )


def _chosen(axis: Value, text: str, key: str) -> Value:
    """New values for an axis; for one with named levels, which of them."""
    options = values.sequence(text)
    if not isinstance(axis, dict):
        return options
    for option in options:
        if str(option) not in axis:
            raise PlanError(f"axis {key} has no level {option}; {nearest(str(option), axis)}")
    return {str(o): axis[str(o)] for o in options}


def set_option(spec: dict[str, Any], option: str, levels: Mapping[str, Sequence[str]]) -> None:
    """Set a key of a figure, `key=value`, of a plan with these `levels` by axis: names of axes may
    have dots, those of levels an equals sign, and labels commas.
    """
    key, _, text = option.partition("=")
    head, _, rest = key.partition(".")
    table_text = text.lstrip().startswith("{")
    if head == "label":
        parts = [values.scalar(text) if table_text else text]
    else:
        parts = values.sequence(text)
    value = parts if len(parts) > 1 else parts[0]
    if head == "label" and table_text and not isinstance(value, dict):
        raise LabError(f'{key}: {text} is no table of TOML: write {{ title = "text" }}')
    if head not in ("where", "label") or not rest:
        set_path(spec, key, value)
        return
    axes = sorted(levels, key=len, reverse=True)
    axis = next((a for a in axes if f"{rest}.".startswith(f"{a}.")), rest)
    level = rest.removeprefix(axis).lstrip(".")
    if head == "label":
        # Of levels that begin alike the longest is meant.
        own = option[len(f"label.{axis}.") :]
        known = sorted(levels.get(axis, ()), key=len, reverse=True)
        level = next((name for name in known if level and own.startswith(f"{name}=")), level)
        value = value if own == f"{level}={text}" or not level else own[len(level) + 1 :]
    table = spec.setdefault(head, {})
    if not level:
        table[axis] = value
    elif isinstance(table.setdefault(axis, {}), dict):
        table[axis][level] = value
    else:
        table[axis] = {"title": table[axis], level: value}
