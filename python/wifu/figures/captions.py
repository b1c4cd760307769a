"""What captions do not take over from notes beside tables: words on colour, names of files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from wifu.alike import Difference
from wifu.cells import Cell
from wifu.figures.words import Words

DIFFERENCES = 4
"""Parameters that a caption names of levels that differ; the report has them all."""

COLOUR = re.compile(
    r"(?P<before>^|[.:;,])\s*"
    r"(?:(?:and |so that |between protocols )?there is|cells that are less apart have)"
    r" neither colour nor bold(?:[^.;`]|\.(?=\d)|`[^`]*`)*(?P<after>[.;]|$)",
    re.IGNORECASE,
)
"""A clause that says that numbers have no colour: figures show none, tables do."""


def without_colour(caption: str) -> str:
    """A caption without what is said of tables alone."""
    told, at = "", 0
    for found in COLOUR.finditer(caption):
        told += caption[at : found.start()]
        at = found.end()
        ends = found["before"] == "." or not found["before"]
        if found["after"] == ";" and ends:
            rest = caption[at:].lstrip()
            # What followed it begins a sentence.
            told += found["before"] + " " * bool(told) + rest[:1].upper()
            at = len(caption) - len(rest) + 1
        else:
            told += found["before"] if ends else found["after"]
    return told + caption[at:]


def named(caption: str, cells: Sequence[Cell], words: Words) -> str:
    """A caption in which cells of several axes are called by what the plan calls their levels."""
    names = {
        c.name: "/".join(words.apart(axis, label) for axis, label in c.labels.items())
        for c in cells
        if len(c.labels) > 1
    }
    if not names:
        return caption
    every = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w/-])(?:{every})(?![\w/-])", lambda m: names[m[0]], caption)


def difference(found: Difference, pair: str, words: Words) -> str:
    """What levels differ in besides their names, in few words."""
    called = replace(
        found,
        level=words.level(pair, found.level),
        baseline=words.level(pair, found.baseline),
        called=None,
    )
    return called.sentence(DIFFERENCES)
