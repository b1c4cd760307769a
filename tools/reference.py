"""Writes docs/src/reference.md from the registry, as `wifu list` and `wifu describe` give it.

With `--check` it writes nothing and fails if the page is not what the registry says.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from itertools import groupby
from pathlib import Path
from typing import Any

from netlab import LabError, main_guard

PAGE = Path(__file__).resolve().parent.parent / "docs" / "src" / "reference.md"
HEAD = """\
# Protocols and parts

<!-- Written by tools/reference.py (`make docs`); change the descriptors, not this page. -->

What `wifu list` and `wifu describe` say. A parameter is set by name: `wifu exec --protocol
tcp-newreno,iw=4 -- ...`, `wifu mock --set iw=4 ...`, or in a composition file.
"""


def ask(wifu: Path, *args: str) -> Any:
    """Return what the command says, decoded."""
    done = subprocess.run([wifu, *args, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"wifu {' '.join(args)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def cell(text: object) -> str:
    """Return text that cannot end a table's cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def protocols(wifu: Path, known: list[dict[str, Any]]) -> list[str]:
    """One table, and one section per protocol."""
    lines = ["## Protocols", "", "| name | IP protocol | profile | |", "|---|---:|---|---|"]
    for p in known:
        lines.append(f"| `{p['name']}` | {p['number']} | {p['profile']} | {cell(p['doc'])} |")
    for p in known:
        lines += ["", f"### {p['name']}", "", "| role | part | parameters |", "|---|---|---|"]
        for part in ask(wifu, "describe", p["name"])["parts"]:
            values = ", ".join(f"`{k}` {v}" for k, v in part["params"].items())
            lines.append(f"| {part['role']} | `{part['part']}` | {cell(values)} |")
    return lines


def parts(known: list[dict[str, Any]]) -> list[str]:
    """One section per part, by role."""
    lines = ["", "## Parts"]
    for role, group in groupby(known, key=lambda p: p["role"]):
        lines += ["", f"### Role {role}"]
        for p in group:
            lines += ["", f"**`{p['name']}`** — {p['doc']}"]
            if p["cites"]:
                lines += ["", f"Sources: {', '.join(p['cites'])}."]
            if p["params"]:
                lines += ["", "| parameter | default | range | |", "|---|---|---|---|"]
            for q in p["params"]:
                span = ", ".join(q["choices"]) or f"{q['low']} to {q['high']}"
                row = [f"`{q['name']}`", q["default"], span, q["doc"]]
                lines.append(f"| {' | '.join(map(cell, row))} |")
    return lines


def main() -> int:
    """Write or compare the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=Path("target/release"), help="where `wifu` is")
    parser.add_argument("--check", action="store_true", help="compare only")
    args = parser.parse_args()
    wifu: Path = args.bin.resolve() / "wifu"
    registry = ask(wifu, "list")
    lines = [HEAD, *protocols(wifu, registry["protocols"]), *parts(registry["parts"])]
    text = "\n".join(lines) + "\n"
    if not args.check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        raise LabError(f"{PAGE.name} is not what the registry says: run `make docs`")
    return 0


if __name__ == "__main__":
    main_guard(main)
