"""Writing TOML: what `tomllib` reads, so that a plan can be kept as it was resolved."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


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
