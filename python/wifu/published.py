"""What papers published, as data: `claims.toml` has each claim, what has to hold, and which plan
feeds it. What results say of a claim is `wifu.claims`' part.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from wifu.errors import LabError, nearest

KINDS = ("value", "ratio", "difference", "trace", "correlation")
"""What a check can measure; `wifu.claims.MEASURES` says how."""


@dataclass(frozen=True)
class Check:
    """One number that has to lie somewhere."""

    name: str
    kind: str
    type: str
    low: float
    high: float
    published: str
    given: Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """A statement that a paper publishes, and the checks that decide whether it holds here."""

    id: str
    says: str
    source: str
    type: str
    plan: str
    checks: tuple[Check, ...]
    note: str = ""


def load(path: Path | None = None) -> list[Claim]:
    """The claims of the package, or of a file."""
    text = path.read_text() if path else (resources.files("wifu") / "claims.toml").read_text()
    return [_claim(given) for given in tomllib.loads(text)["claim"]]


def _claim(given: Mapping[str, Any]) -> Claim:
    checks = []
    for c in given.get("check", []):
        low, high = c.get("range", [c.get("at_least", -math.inf), c.get("at_most", math.inf)])
        if c["kind"] not in KINDS:
            raise LabError(f"{given['id']}: no check is of kind {c['kind']}")
        checks.append(
            Check(
                c["name"], c["kind"], c.get("type", given["type"]), float(low), float(high),
                str(c.get("published", "")), c,
            )
        )  # fmt: skip
    return Claim(
        given["id"], given["says"], given["source"], given["type"], given["plan"], tuple(checks),
        given.get("note", ""),
    )  # fmt: skip


def select(claims: Sequence[Claim], names: Iterable[str]) -> list[Claim]:
    """Claims by id or beginning of an id (`WIFU-II`, `AP-T3`, `WIFU-F4.1`); all without names."""
    wanted = list(names)
    if not wanted:
        return list(claims)
    chosen: list[Claim] = []
    for name in (w.removesuffix(".*") for w in wanted):
        found = [c for c in claims if c.id == name or c.id.startswith((name + ".", name + "-"))]
        if not found:
            groups = {c.id for c in claims} | {c.id.split(".")[0] for c in claims}
            raise LabError(f"no claim is called {name}; {nearest(name, groups)}")
        chosen += [c for c in found if c not in chosen]
    return chosen
