"""Claims of published papers against what was measured.

A check passes if its point estimate lies where it must; a HARD one also needs its one-sided 90
% bound there, and is OPEN without it, or with fewer than six runs of what is random. An
estimate elsewhere is a FAIL, whatever its interval reaches: to PASS needs the estimate. SOFT is
judged by the estimate alone, INFO is reported and not judged, HW means something only on real
hardware. If both sides of a HARD comparison are the same number in every run, it is identical,
which counts for nothing: there was nothing to compare. Results of another scenario that have a
plan's name leave its claims OPEN, and so does a cell of which more than a tenth of the runs
failed or was excluded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from wifu import claimed, cutoff
from wifu.alike import leaves
from wifu.api import Results
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.measured import Measured
from wifu.measures import MEASURES, OF_TWO_PLANS, points_of, sides_of
from wifu.plan import Plan, load
from wifu.provenance import code_version
from wifu.published import Check, Claim, how_to_measure, papers
from wifu.store import Store
from wifu.variants import SUBSTRATES

PASS, FAIL, OPEN, INFO, NOT_MEASURED = "PASS", "FAIL", "OPEN", "INFO", "not measured"
IDENTICAL = "identical"

LEAST_RUNS = 6
"""A HARD claim about what is random needs so many: a bootstrap of fewer is too narrow, three cover
70 % for 95. Six runs that all lie on one side are 0.03 likely by chance, five 0.06.
"""

MOST_MISSING = 0.1
"""If more than this share of a cell's runs failed or is excluded, its check does not pass: which
runs are left need not be chance.
"""

EXPERIMENTS = Path("experiments")
"""Where the plans are that the package has none of."""


@dataclass(frozen=True)
class Finding:
    """A check and its verdict."""

    check: Check
    measured: Measured | None
    verdict: str
    why: str = ""
    unfinished: str = ""
    """How many transfers of the runs behind it the end of their run cut off, in words."""

    @property
    def absent(self) -> bool:
        """Whether it is of a plan of its own, for information, that has no results."""
        return bool(self.check.plan) and self.check.type == "INFO" and self.measured is None

    @property
    def notes(self) -> str:
        """What is said beside the verdict."""
        note = self.measured.note if self.measured else ""
        return "; ".join(filter(None, (self.why, note, self.unfinished)))


@dataclass(frozen=True)
class Verdict:
    """A claim with what results of its plan say of it."""

    claim: Claim
    verdict: str
    findings: tuple[Finding, ...] = ()
    folder: str = ""
    why: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[Finding, ...]:
        """The findings without those that stand beside the claim and have no results."""
        return tuple(f for f in self.findings if not f.absent)

    @property
    def absent(self) -> str:
        """What to run for what stands beside the claim and has no results; nothing if all has."""
        return "; ".join(dict.fromkeys(f.why for f in self.findings if f.absent))

    def to_json(self) -> dict[str, Any]:
        """The same as a tree of JSON."""
        return {
            "id": self.claim.id,
            "type": self.claim.type,
            "says": self.claim.says,
            "plan": self.claim.plan,
            "verdict": self.verdict,
            "why": self.why,
            "results": self.folder,
            "warnings": list(self.warnings),
            "checks": [
                {
                    "name": f.check.name,
                    "type": f.check.type,
                    "published": f.check.published,
                    "range": [_number(f.check.low), _number(f.check.high)],
                    "verdict": f.verdict,
                    "why": f.why,
                    "unfinished": f.unfinished,
                    **(_measured_json(f.measured) if f.measured else {}),
                }
                for f in self.findings
            ],
        }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _measured_json(found: Measured) -> dict[str, Any]:
    return {
        "measured": _number(found.estimate),
        "interval": [_number(found.low), _number(found.high)],
        "bounds_90": [_number(found.lower_bound), _number(found.upper_bound)],
        "n": found.n,
        "exact": found.exact,
        "identical": found.identical,
        "note": found.note,
    }


def find_results(plan: str, roots: Sequence[Path], substrate: str = "sim") -> Path | None:
    """The newest results of a plan on a substrate below the roots; complete ones before others."""
    found = []
    inside = "" if substrate == "sim" else f"{substrate}/"
    for root in roots:
        for manifest in [*root.glob(f"{inside}run.json"), *root.glob(f"*/{inside}run.json")]:
            try:
                told = Store(manifest.parent).manifest()
            except LabError:
                continue
            if told["name"] == plan and told.get("substrate", "sim") == substrate:
                found.append((told["state"] == "complete", told["updated"], manifest.parent))
    return max(found)[2] if found else None


def code_warnings(results: Results) -> tuple[str, ...]:
    """What to mind about the code that made results: another than now, or several."""
    then = list(results.manifest["code"])
    out = []
    if len(then) > 1:
        out.append(f"{results.folder}: runs of different code are mixed: {', '.join(then)}")
    if results.plan.settings.get("hosts"):  # which need not be there any more
        return tuple(out)
    try:
        now = code_version(results.manifest["runner"], results.plan.substrate)
    except (LabError, ImportError, OSError):
        return tuple(out)
    if then != [now]:
        made = f"made by other code ({', '.join(then)}) than there is now ({now})"
        out.append(f"{results.folder}: {made}; run experiments/{results.plan.name} again")
    return tuple(out)


def unlike(results: Results, root: Path = EXPERIMENTS) -> str:
    """In what results differ from the plan whose name they have, in words; nothing if they are its,
    be it of some of its cells or another number of runs. The plan is the one that this package came
    with, whatever a file of its name says by now; one that it has none of is looked up below
    `root`.
    """
    own = results.plan
    known = own.name in claimed.shipped()
    try:
        there = _plan_below(root, own)
    except LabError as e:
        if not known:
            return f"its plan cannot be read: {e}"
        there = None
    if there is None and not known:
        return f"there is no plan {own.name} to hold them against"
    measure = claimed.measure_of(there) if there else None
    cells = frozenset(claimed.identity(c) for c in there.cells) if there else frozenset()
    if known:
        measure = claimed.shipped()[own.name]["measure"]
        cells = claimed.cells_of(own.name, own.substrate)
    if measure != claimed.measure_of(own):
        return "other than the plan's: measure"
    strange = next((c for c in own.cells if claimed.identity(c) not in cells), None)
    return f"other than the plan's: {_strange(strange, there)}" if strange else ""


def made_otherwise(results: Results, root: Path = EXPERIMENTS) -> str:
    """That results are of fewer runs than their plan has, or of another seed, in words. Where there
    is no plan below `root` its overrides tell it.
    """
    own = results.plan
    try:
        there = _plan_below(root, own)
    except LabError:
        there = None
    if there is None:
        keys = ("runs", "until", "seed", "quick")
        found = [o for o in own.overrides if o.partition("=")[0].split(".")[-1].strip() in keys]
        return f"made with {', '.join(found)}" if found else ""
    told = []
    if own.max_runs < there.max_runs:
        told.append(f"of {own.max_runs} runs of each cell, where the plan has {there.max_runs}")
    if own.seed != there.seed:
        told.append(f"of seed {own.seed}, where the plan has {there.seed}")
    return "; ".join(told)


def _plan_below(root: Path, own: Plan) -> Plan | None:
    """The plan that results are called after, as a folder of plans has it."""
    made = (e for paper in papers().values() for e in paper.experiments if e.name == own.name)
    of = next(made, None)
    file = root / (of.plan if of else own.name) / "plan.toml"
    if not file.exists():
        return None
    return load(file, of.changes if of else ()).variant(own.substrate)


def _strange(cell: Cell, there: Plan | None) -> str:
    """In what a cell is not the plan's."""
    alike = (c for c in (there.cells if there else ()) if dict(c.labels) == dict(cell.labels))
    meant = next(alike, None)
    if meant is None:
        return f"it has no cell {cell.name}" if there else f"the scenario of cell {cell.name}"
    one, two = (leaves(dict(c.scenario)) for c in (cell, meant))
    paths = [p for p in {**one, **two} if one.get(p) != two.get(p)]
    more = f" and {len(paths) - 4} more" if len(paths) > 4 else ""
    return ", ".join(paths[:4]) + more if paths else f"the scenario of cell {cell.name}"


def judge(
    claim: Claim,
    results: Results | None,
    warnings: tuple[str, ...] = (),
    others: Mapping[str, Results | None] | None = None,
    strange: str = "",
    otherwise: str = "",
) -> Verdict:
    """A claim against results of its plan, and of `others` by name where a check asks for them;
    `warnings` are handed on, and runs that do not count are added. `strange`: in what the results
    are not those of the plan, if they are not; they decide nothing then. `otherwise`: of how many
    runs they are, or of which seed, if that is not the plan's.
    """
    if results is None:
        why = how_to_measure(claim.plan)
        if claim.type == "HW":
            why += "; real time only, for it is about machines"
        return Verdict(claim, NOT_MEASURED, why=why)
    every = {**(others or {}), claim.plan: results}
    findings = tuple(_find(check, results, every) for check in claim.checks)
    verdicts = [f.verdict for f in findings if f.check.type != INFO]
    if not verdicts:
        overall = INFO
    else:
        order = (FAIL, NOT_MEASURED, OPEN, PASS, IDENTICAL)
        overall = next(v for v in order if v in verdicts)
    whys = [] if results.manifest["state"] == "complete" else [results.manifest["state"]]
    whys = [f"results {state}" for state in whys]
    if strange and overall in (PASS, FAIL, IDENTICAL):
        overall = OPEN
    whys += [told for told in (strange, otherwise) if told]
    if overall == IDENTICAL:
        whys.append("identical: what is compared does the same in every run, which is no PASS")
    elif same := sum(f.measured is not None and f.measured.identical for f in findings):
        whys.append(f"{same} of {len(findings)} checks identical: nothing was compared there")
    used = [r for p in claim.plans if (r := every.get(p))]
    gone = [f"{r.folder}: {told}" for r in used if (told := _counted(r.runs["status"]))]
    warnings = (*warnings, *(g for g in gone if g not in warnings))
    return Verdict(claim, overall, findings, str(results.folder), "; ".join(whys), warnings)


def judge_all(
    claims: Sequence[Claim], roots: Sequence[Path], substrate: str = "sim"
) -> list[Verdict]:
    """Claims against the newest results of a substrate below the roots."""
    loaded: dict[str, Results | None] = {}
    for plan in dict.fromkeys(p for c in claims for p in c.plans):
        folder = find_results(plan, roots, substrate)
        loaded[plan] = Results(folder) if folder else None
    warned = {p: code_warnings(found) if found else () for p, found in loaded.items()}
    strange = {p: unlike(found) if found else "" for p, found in loaded.items()}
    otherwise = {p: made_otherwise(found) if found else "" for p, found in loaded.items()}

    def of(claim: Claim, words: Mapping[str, str]) -> str:
        return "; ".join(dict.fromkeys(words[p] for p in claim.plans if words[p]))

    return [
        judge(
            c, loaded[c.plan], tuple(w for p in c.plans for w in warned[p]), loaded,
            of(c, strange), of(c, otherwise),
        )
        for c in claims
    ]  # fmt: skip


Elsewhere = Mapping[str, Verdict]
"""Verdicts of a claim on further substrates that have results of its plan."""


def judge_elsewhere(claims: Sequence[Claim], roots: Sequence[Path]) -> Sequence[Elsewhere]:
    """For each claim, what emu and live say of it."""
    found: list[dict[str, Verdict]] = [{} for _ in claims]
    for substrate in (s for s in SUBSTRATES if s != "sim"):
        for into, verdict in zip(found, judge_all(claims, roots, substrate), strict=True):
            if verdict.findings:
                into[substrate] = verdict
    return found


def worst(verdicts: Iterable[str]) -> str:
    """The verdict to look at first; one that was not measured matters only if none was."""
    found = list(verdicts)
    return next(v for v in (FAIL, OPEN, PASS, IDENTICAL, INFO, NOT_MEASURED) if v in found)


def _find(check: Check, results: Results, every: Mapping[str, Results | None]) -> Finding:
    try:
        if check.kind in OF_TWO_PLANS:
            found = OF_TWO_PLANS[check.kind](every, check.given)
        else:
            found = MEASURES[check.kind](_results_of(check, results, every), check.given)
    except LabError as e:
        return Finding(check, None, NOT_MEASURED, str(e))
    if not math.isfinite(found.estimate):
        return Finding(check, None, NOT_MEASURED, "no run counts")
    verdict, why = _judged(check, found)
    own = every.get(check.plan) or results
    missing = _missing(check, own, every)
    if missing and verdict in (PASS, IDENTICAL):
        verdict = OPEN
    why = "; ".join(filter(None, (why, missing)))
    return Finding(check, found, verdict, why, _unfinished(check, own))


def _results_of(check: Check, results: Results, every: Mapping[str, Results | None]) -> Results:
    """Those of the claim's plan, or of the one that the check names."""
    found = every.get(check.plan) if check.plan else results
    if found is None:
        raise LabError(how_to_measure(check.plan))
    return found


def _unfinished(check: Check, results: Results) -> str:
    if check.kind in OF_TWO_PLANS:
        return ""
    cells = _cells(check.given, results)
    return cutoff.unfinished(results, cells, check.given.get("metric", ""))


def _cells(given: Mapping[str, Any], results: Results) -> list[Cell]:
    """The cells that a check looks at."""
    if given.get("kind") == "among":
        where = [{**side, **point} for side in sides_of(given) for point in points_of(given)]
        return list({c.name: c for w in where for c in results.cells(w)}.values())
    along = {given["axis"]: list(given["levels"])} if given.get("kind") == "along" else {}
    sides = [{**along, **given[k]} for k in ("of", "over") if k in given]
    return list({c.name: c for where in sides for c in results.cells(where)}.values())


def _missing(check: Check, own: Results, every: Mapping[str, Results | None]) -> str:
    """Of which cell of a check too many runs failed or are excluded, in words."""
    parts = [(check.given, own)]
    if check.kind in OF_TWO_PLANS:
        each = [check.given[k] for k in ("first", "second")]
        parts = [(p, found) for p in each if (found := every.get(p["plan"]))]
    for given, results in parts:
        for cell in _cells(given, results):
            status = results.runs.loc[results.runs["cell"] == cell.name, "status"]
            if (status != "ok").sum() > MOST_MISSING * len(status):
                return f"{_counted(status)} in cell {cell.name}"
    return ""


def _counted(status: pd.Series[str]) -> str:
    """How many runs failed and are excluded, in words; nothing if all count."""
    told = [(int((status == s).sum()), s) for s in ("failed", "excluded")]
    return " and ".join(f"{n} of {len(status)} runs {s}" for n, s in told if n)


def _judged(check: Check, found: Measured) -> tuple[str, str]:
    inside = check.low <= found.estimate <= check.high
    if check.type == INFO:
        where = [] if inside else ["outside"]
        return INFO, ", ".join(where + ["identical"] * found.identical)
    if not inside:
        reaches = check.low <= found.high and found.low <= check.high
        more = ", its interval reaches in: more runs would tell" if reaches else ""
        return FAIL, f"estimate outside{more}"
    if found.identical:
        why = f"identical in {'all ' if found.n > 1 else ''}{found.n} run{'s'[: found.n > 1]}"
        # "Above 0" is not met by a difference that there is not.
        edge = found.estimate in (check.low, check.high)
        return (IDENTICAL if check.type == "HARD" or edge else PASS), why
    if check.type != "HARD" or found.exact:
        return PASS, ""
    if found.n < LEAST_RUNS:
        return OPEN, f"{found.n} run{'s'[: found.n > 1]}; six are needed"
    for limit, bound, word in (
        (check.low, found.lower_bound, "lower"),
        (check.high, found.upper_bound, "upper"),
    ):
        if not math.isfinite(limit):
            continue
        if not math.isfinite(bound):
            return OPEN, f"there is no bound (n = {found.n})"
        if (word == "lower" and bound < limit) or (word == "upper" and bound > limit):
            return OPEN, f"{word} 90 % bound {bound:.4g} is outside"
    return PASS, ""
