"""TOML: writing it, so that a plan can be kept as it was resolved; finding the line of a key."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wifu import slips
from wifu.errors import PlanError


def loads(text: str, path: Path | None = None) -> dict[str, Any]:
    """What TOML text says; of what is none PlanError tells file and line, and what
    to write there."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        line, what = slips.words(str(e), text)
        raise PlanError(what, "", path, line) from None


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both trees in one, table by table; where both have a key, `above` has it."""
    out = dict(below)
    for key, value in above.items():
        old = out.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            out[key] = laid_over(old, value)
        else:
            out[key] = value
    return out


def dumps(tree: Mapping[str, Any]) -> str:
    """TOML text that reads back as `tree`."""
    lines = [f"{_key(k)} = {_value(v)}" for k, v in tree.items() if not _is_table(v)]
    for key, value in tree.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{_key(key)}]"]
            lines += [f"{_key(k)} = {_value(v)}" for k, v in value.items()]
        elif _is_table(value):
            for item in value:
                lines += ["", f"[[{_key(key)}]]"]
                lines += [f"{_key(k)} = {_value(v)}" for k, v in item.items()]
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    tables = isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value)
    return isinstance(value, Mapping) or bool(tables)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, str):
        # JSON's escapes are TOML's; only DEL is written raw by one and refused by the other.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def locate(text: str, key: str) -> int | None:
    """The line on which a key is set, or the nearest of its parents. `figure.2.x` is in the second
    table of that name; without a number it is in the first that has it.
    """
    parts = key.split(".")
    while parts:
        table: list[str] = []
        counts: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            header = re.match(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$", line)
            if header:
                table = [p.strip().strip("\"'") for p in header[2].split(".")]
                if header[1] == "[[":
                    counts[header[2]] = counts.get(header[2], 0) + 1
                    table.append(str(counts[header[2]]))
                if _matches(table, parts):
                    return number
                continue
            assigned = re.match(r"\s*([\w.\-\"'*]+)\s*=", line)
            if assigned:
                name = [p.strip("\"'") for p in assigned[1].split(".")]
                quoted = [assigned[1].strip("\"'")]
                if _matches(table + name, parts) or _matches(table + quoted, parts):
                    return number
        parts = parts[:-1]
    return None


def _matches(found: Sequence[str], wanted: Sequence[str]) -> bool:
    numbered = any(p.isdigit() for p in wanted)
    return ".".join(p for p in found if numbered or not p.isdigit()) == ".".join(wanted)
