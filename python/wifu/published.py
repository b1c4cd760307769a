"""What papers published, as data: `claims.toml` (the WiFu paper), `claims-tcp-ap.toml`,
`claims-atp.toml` and `claims-hxh.toml` have each claim, what has to hold, and which plan feeds it;
`papers.toml` has which plans repeat a paper. What results say of a claim is `wifu.claims`' part.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from wifu.errors import LabError, nearest

KINDS = (
    "value", "every", "ratio", "difference", "trace", "correlation", "share", "pooled", "along",
    "among", "windows", "steps", "clusters", "series", "apart", "gains", "shapes", "resumed",
    "hops", "trips", "rates", "beyond", "ratios",
)  # fmt: skip
"""What a check can measure; `wifu.measures.MEASURES` says how."""

FILES = ("claims.toml", "claims-tcp-ap.toml", "claims-atp.toml", "claims-hxh.toml")


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
    plan: str = ""
    """Whose results it is measured in, if not those of the claim's plan."""


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

    @property
    def plans(self) -> tuple[str, ...]:
        """All plans that its checks are measured in, its own first."""
        named = [self.plan]
        for check in self.checks:
            parts = (check.given.get(k, {}) for k in ("first", "second"))
            named += [check.plan, *(part.get("plan", "") for part in parts)]
        return tuple(dict.fromkeys(p for p in named if p))


def load(path: Path | None = None) -> list[Claim]:
    """The claims of the package, or of a file."""
    return _claims([path.read_text()]) if path else list(_shipped())


@cache
def _shipped() -> tuple[Claim, ...]:
    """Those of the package, which each plan is checked against."""
    return tuple(_claims([_packaged(name) for name in FILES]))


def _claims(texts: Iterable[str]) -> list[Claim]:
    return [_claim(given) for text in texts for given in tomllib.loads(text)["claim"]]


def _packaged(name: str) -> str:
    return (resources.files("wifu") / name).read_text()


def _claim(given: Mapping[str, Any]) -> Claim:
    written = [one for c in given.get("check", []) for one in _each(c)]
    checks = [_check(given, c) for c in written]
    for name, changed in given.get("beside", {}).items():
        checks += [_check(given, _beside(c, name, changed)) for c in written]
    return Claim(
        given["id"], given["says"], given["source"], given["type"], given["plan"], tuple(checks),
        given.get("note", ""),
    )  # fmt: skip


def _check(claim: Mapping[str, Any], c: Mapping[str, Any]) -> Check:
    low, high = c.get("range", [c.get("at_least", -math.inf), c.get("at_most", math.inf)])
    if c["kind"] not in KINDS:
        raise LabError(f"{claim['id']}: no check is of kind {c['kind']}")
    return Check(
        c["name"], c["kind"], c.get("type", claim["type"]), float(low), float(high),
        str(c.get("published", "")), c, c.get("plan", ""),
    )  # fmt: skip


def _each(check: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A check, or one for each level of the axis that `each` names: of both sides, with `{level}`
    in its name; `published` may be as many.
    """
    if "each" not in check:
        yield dict(check)
        return
    ((axis, levels),) = check["each"].items()
    told = check.get("published", "")
    for n, level in enumerate(levels):
        one = {k: v for k, v in check.items() if k != "each"}
        one |= {side: {axis: level, **one[side]} for side in ("of", "over") if side in one}
        one["name"] = re.sub(
            r"\b1 (hop|flow)s\b", r"1 \1", one["name"].replace("{level}", str(level))
        )
        one["published"] = told[n] if isinstance(told, list) else told
        yield one


def _beside(check: Mapping[str, Any], name: str, changed: Mapping[str, Any]) -> dict[str, Any]:
    """The same check where something else holds: for information, whatever the claim is."""
    where = changed.get("where", {})

    def sides(of: Mapping[str, Any]) -> dict[str, Any]:
        own: dict[str, Any] = {k: {**of[k], **where} for k in ("of", "over") if k in of}
        return own | ({"against": sides(of["against"])} if "against" in of else {})

    plan = {"plan": changed["plan"]} if "plan" in changed else {}
    # Whose parts are of several plans.
    others = changed.get("plans", {})
    parts = {k: check[k] for k in ("first", "second") if k in check}
    parts = {
        k: {**p, **sides(p), "plan": others.get(p["plan"], p["plan"])} for k, p in parts.items()
    }
    name = f"{check['name']}, {name}"
    return {**check, **sides(check), **plan, **parts, "name": name, "type": "INFO"}


def select(claims: Sequence[Claim], names: Iterable[str]) -> list[Claim]:
    """Claims by id or beginning of an id (`WIFU-II`, `AP-T3`, `WIFU-F6` for `WIFU-F6a`, `AP`); all
    without names.
    """
    wanted = list(names)
    if not wanted:
        return list(claims)
    chosen: list[Claim] = []
    for name in (w.removesuffix(".*") for w in wanted):
        found = [c for c in claims if _is_of(c.id, name)]
        if not found:
            groups = {c.id for c in claims} | {c.id.split(".")[0] for c in claims}
            raise LabError(f"no claim is called {name}; {nearest(name, groups)}")
        chosen += [c for c in found if c not in chosen]
    return chosen


def fed_by(plan: str, names: Iterable[str]) -> list[Claim]:
    """The claims that a plan names and that its results decide: AP-OID, and not AP-OID-STEP, which
    another plan feeds. All of them for a plan of one's own, under whatever name.
    """
    chosen = select(load(), names)
    own = [c for c in chosen if plan == c.plan or plan.startswith(f"{c.plan}-")]
    return own or chosen


def _is_of(claim: str, name: str) -> bool:
    """Whether a claim has this name, or one that goes on with a dot, a dash or a small letter."""
    rest = claim.removeprefix(name)
    return claim.startswith(name) and (rest == "" or rest[0] in ".-" or rest[0].islower())


# Papers -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Experiment:
    """A plan that repeats an experiment of a paper, and what its short form changes."""

    plan: str
    """The folder of the plan."""
    name: str
    """Of its results."""
    changes: tuple[str, ...]
    """Overrides that make it what it is, if it is not the plan as it stands."""
    quick: tuple[str, ...]
    """Further ones for the short form, which tells that it runs and no more."""
    repeats: str
    """Which figures or tables."""


@dataclass(frozen=True)
class Paper:
    """A paper, its experiments in the order in which they are run, and its claims."""

    name: str
    title: str
    page: str
    claims: tuple[str, ...]
    experiments: tuple[Experiment, ...]


@cache
def papers() -> Mapping[str, Paper]:
    """The papers that `wifu-lab reproduce` knows."""
    found = {}
    for name, given in tomllib.loads(_packaged("papers.toml")).items():
        experiments = tuple(
            Experiment(
                e["plan"], e.get("name", e["plan"]), tuple(e.get("changes", [])),
                tuple(e.get("quick", [])), e["repeats"],
            )
            for e in given["experiment"]
        )  # fmt: skip
        claims = tuple(given["claims"])
        found[name] = Paper(name, given["title"], given["page"], claims, experiments)
    return found


def how_to_measure(plan: str) -> str:
    """What to run for results of this name, in words."""
    made = (e for paper in papers().values() for e in paper.experiments if e.name == plan)
    changed = next((e for e in made if e.changes), None)
    if changed is None:
        return f"run experiments/{plan}"
    return f"run experiments/{changed.plan} {' '.join([f'name={plan}', *changed.changes])}"
