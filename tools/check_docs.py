"""Checks the Markdown pages.

Every relative link leads somewhere, every page is in the summary, files below `examples` that pages
name are there, and code that follows a comment `<!-- from FILE -->` is in that file as quoted,
where a line `...` stands for any lines left out.
Citations of documents and of the page on behaviour are the style test's affair.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
QUOTE = re.compile(r"<!-- from (\S+) -->\n```[^\n]*\n(.*?)```", re.DOTALL)
EXAMPLE = re.compile(r"(?<![\w/])examples/[\w./-]*\w")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def anchors(text: str) -> set[str]:
    """Return what `#...` may name on a page, by mdBook's rule."""
    heads = re.findall(r"^#+ (.*)$", CODE.sub(lambda m: m[0].strip("`"), text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def broken(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    found = []
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists():
            found.append(f"{page.relative_to(ROOT)}: no such file: {target}")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            found.append(f"{page.relative_to(ROOT)}: no such heading: {target}")
    return found


def stale(page: Path) -> list[str]:
    """Return the quotations that their source no longer says."""
    found = []
    for name, quoted in QUOTE.findall(page.read_text()):
        file = ROOT / name
        text, at = file.read_text() if file.exists() else "", 0
        for part in re.split(r"^ *\.\.\.\n", quoted, flags=re.MULTILINE):
            at = text.find(part, at)
            if at < 0:
                first = part.strip().splitlines()[0]
                found.append(f"{page.relative_to(ROOT)}: {name} does not say: {first} ...")
                break
    return found


def missing(page: Path) -> list[str]:
    """Return the files below `examples` that a page names and that are not there."""
    names = dict.fromkeys(EXAMPLE.findall(page.read_text()))
    gone = [name for name in names if not (ROOT / name).exists()]
    return [f"{page.relative_to(ROOT)}: no such file: {name}" for name in gone]


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    source = ROOT / "docs" / "src"
    pages = sorted(source.rglob("*.md"))
    summary = (source / "SUMMARY.md").read_text()
    listed = {(source / t).resolve() for t in LINK.findall(summary)}
    checks = (broken, stale, missing)
    found = [
        line for page in [ROOT / "README.md", *pages] for check in checks for line in check(page)
    ]
    strays = [p for p in pages if p.resolve() not in listed and p.name != "SUMMARY.md"]
    found += [f"{p.relative_to(ROOT)}: not in docs/src/SUMMARY.md" for p in strays]
    print("\n".join(found) or f"docs: {len(pages)} pages, all links lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
