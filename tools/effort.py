#!/usr/bin/env python3
"""Counts what each composition adds to the one that it extends: lines of its table, files and lines
of the parts that those it extends do not have (WIFU-EFF of Behaviour 15.5).

Lines are of code: without blank ones, comments, documentation, attributes and tests. What parts
share is not counted: the engine with its kit, in which both generations of TCP-AP have their
averages. What a parameter of a shared part turns on (`rack`, `sack`) is in that part.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / "crates/wifu-parts/src"
TABLES = PARTS / "protocols/tcp.toml"
FOLDER = {"gates": "gate"}
ROLES = ("manager", "rtt", "reliable", "receive", "congestion", "judge", "ack", "gates", "watch")


@dataclass
class Added:
    """What a composition adds."""

    protocol: str
    extends: str
    table: int
    parts: dict[str, int] = field(default_factory=dict)
    files: int = 0

    @property
    def lines(self) -> int:
        """Lines of the parts."""
        return sum(self.parts.values())


def code(text: str) -> int:
    """Count the lines of Rust that are neither blank, comment, attribute nor test."""
    text = text.split("#[cfg(test)]\nmod tests", 1)[0]
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith(("//", "#[", "#![")))


def sources(role: str, part: str) -> list[Path]:
    """Return the files of a part."""
    stem = PARTS / FOLDER.get(role, role) / part.replace("-", "_")
    inside = sorted(stem.rglob("*.rs")) if stem.is_dir() else []
    return [p for p in (stem.with_suffix(".rs"), *inside) if p.exists() and p.stem != "tests"]


def names(value: Any) -> Iterator[str]:
    """Return the parts that the value of a role names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from names(one)
    elif isinstance(value, dict):
        for key in ("use", "add"):
            yield from names(value.get(key))


def tables(text: str) -> dict[str, int]:
    """Count the lines of each composition's table."""
    found: dict[str, int] = {}
    name = ""
    for line in text.splitlines():
        if head := re.match(r"\[(\w+)\.([\w.-]+)\]", line):
            name = head[2] if head[1] == "protocol" else ""
        if name and line.strip() and not line.startswith("#"):
            found[name] = found.get(name, 0) + 1
    return found


def effort() -> list[Added]:
    """Return what each composition of the TCP family adds, in the order of the file."""
    text = TABLES.read_text()
    lines, has = tables(text), dict[str, set[str]]()
    rows = []
    for name, table in tomllib.loads(text)["protocol"].items():
        row = Added(name, table.get("extends", ""), lines[name])
        has[name] = seen = set(has.get(row.extends, ()))
        for role in ROLES:
            for part in names(table.get(role)):
                files = sources(role, part)
                if part in seen or not files:
                    continue
                seen.add(part)
                row.parts[part] = sum(code(p.read_text()) for p in files)
                row.files += len(files)
        rows.append(row)
    return rows


def main() -> None:
    """Print the table."""
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--json", action="store_true", help="for programs")
    rows = effort()
    if args.parse_args().json:
        print(json.dumps([asdict(r) | {"lines": r.lines} for r in rows], indent=1))
        return
    print(f"{'protocol':<20} {'extends':<14} {'table':>5} {'files':>5} {'lines':>5}  parts")
    for r in rows:
        parts = ", ".join(f"{p} {n}" for p, n in r.parts.items())
        print(f"{r.protocol:<20} {r.extends:<14} {r.table:>5} {r.files:>5} {r.lines:>5}  {parts}")


if __name__ == "__main__":
    main()
