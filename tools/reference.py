"""Writes the pages of the book that come from the registry: reference.md and formats.md.

They say what `wifu list`, `wifu describe` and `wifu dissector` give. With `--check` it writes
nothing and fails if a page is not what the registry says.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from itertools import groupby
from pathlib import Path
from typing import Any

from netlab import LabError, main_guard

BOOK = Path(__file__).resolve().parent.parent / "docs" / "src"
HEAD = """\
# Protocols and parts

<!-- Written by tools/reference.py (`make docs`); change the descriptors, not this page. -->

What `wifu list` and `wifu describe` say. A parameter is set by name: `wifu exec --protocol
tcp-newreno,iw=4 -- ...`, `wifu mock --set iw=4 ...`, or in a composition file.
"""

FORMATS_HEAD = """\
# Wire formats

<!-- Written by tools/reference.py (`make docs`); change the declarations, not this page. -->

Each header is declared once. Codecs, the words that handlers read and write, the plug-in for
Wireshark (`wifu dissector`), the fuzz targets' dictionaries and this page come from the
declaration; `wifu dissector --json` prints it for machines.

An offset counts bytes from where the format's own header begins, and within a byte bits from
the most significant, 0. All numbers are in network byte order. A word is written by the end that
sends the packet, unless the column *by* says for which packets nodes on the way (hop) write it,
too (both). A packet is of the first type that fits.
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
            if p["requires"]:
                facts = ", ".join(f"`{fact}`" for fact in p["requires"])
                lines += ["", f"Requires {facts}."]
            for one in p["requires_either"]:
                told = f"Requires `{one['fact']}`, or a part that writes `{one['section']}`."
                lines += ["", told]
            if p["params"]:
                lines += ["", "| parameter | default | range | |", "|---|---|---|---|"]
            for q in p["params"]:
                span = ", ".join(q["choices"]) or f"{q['low']} to {q['high']}"
                row = [f"`{q['name']}`", q["default"], span, q["doc"]]
                lines.append(f"| {' | '.join(map(cell, row))} |")
    return lines


def place(word: dict[str, Any]) -> str:
    """Return where a word begins: byte, and bit if it does not begin with a byte."""
    whole = word["bit"] == 0 and word["bits"] % 8 == 0
    return str(word["byte"]) if whole else f"{word['byte']}.{word['bit']}"


def writers(word: dict[str, Any]) -> str:
    """Return who writes a word, by packet type where it is not always the sending end."""
    by: dict[str, str] = word["by"]
    kinds = sorted(set(by.values()))
    if len(kinds) == 1:
        return kinds[0]
    named = (f"{kind}: {', '.join(t for t, who in by.items() if who == kind)}" for kind in kinds)
    return "; ".join(named)


def told(kind: dict[str, Any]) -> str:
    """Return how a packet type is told."""
    when = kind["when"]
    said = [f"`{when['word']}` = {when['is']}"] if when else []
    if kind["payload"] is not None:
        said.append("with a payload" if kind["payload"] else "without a payload")
    return ", ".join(said) or "none of these"


def heading(form: dict[str, Any]) -> list[str]:
    """What comes before a format's tables."""
    lines = ["", f"## {form['name']}", "", form["doc"]]
    if form["cites"]:
        lines += ["", f"Sources: {', '.join(form['cites'])}."]
    facts = []
    if form["number"] is not None:
        facts.append(f"IP protocol {form['number']}")
    if form["port"] is not None:
        facts.append(f"UDP port {form['port']}")
    facts.append(f"{form['header']} bytes")
    if form["base"]:
        facts.append(f"behind {form['base']} bytes in the form of UDP's header, with the ports")
    if form["name"] == "shim":
        facts.append("then the words of the composition's parts, those that hops write first")
    return [*lines, "", f"{', '.join(facts)}."]


def formats(known: list[dict[str, Any]]) -> list[str]:
    """One section per format: its packet types, its words."""
    lines = []
    for form in known:
        lines += [*heading(form), "", "| packet type | class | told by |", "|---|---|---|"]
        for kind in form["types"]:
            lines.append(f"| `{kind['name']}` | {kind['class']} | {told(kind)} |")
        lines += ["", "| offset | bits | word | unit | by | only on | zero | |"]
        lines += ["|---:|---:|---|---|---|---|---|---|"]
        for word in form["words"]:
            row = [place(word), word["bits"], f"`{word['name']}`", word["unit"], writers(word)]
            row += [", ".join(word["on"]), word["zero"], word["doc"]]
            lines.append(f"| {' | '.join(map(cell, row))} |")
    return lines


def main() -> int:
    """Write or compare the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=Path("target/release"), help="where `wifu` is")
    parser.add_argument("--check", action="store_true", help="compare only")
    args = parser.parse_args()
    wifu: Path = args.bin.resolve() / "wifu"
    registry = ask(wifu, "list")
    pages = {
        "reference.md": [HEAD, *protocols(wifu, registry["protocols"]), *parts(registry["parts"])],
        "formats.md": [FORMATS_HEAD.rstrip("\n"), *formats(ask(wifu, "dissector"))],
    }
    for name, lines in pages.items():
        page, text = BOOK / name, "\n".join(lines) + "\n"
        if not args.check:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            raise LabError(f"{name} is not what the registry says: run `make docs`")
    return 0


if __name__ == "__main__":
    main_guard(main)
