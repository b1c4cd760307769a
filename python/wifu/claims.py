"""Claims of published papers against what was measured.

A check passes if its point estimate lies where it must; a HARD one also needs its one-sided 90 %
bootstrap bound there. SOFT is judged by the estimate alone, INFO is reported and not judged, HW
means something only on real hardware. If both sides of a HARD comparison are the same number in
every run, it is identical, which counts for nothing: there was nothing to compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wifu import cutoff, stats
from wifu.api import Results
from wifu.errors import LabError
from wifu.metrics import metric_of, sliding
from wifu.provenance import code_version
from wifu.published import Check, Claim
from wifu.store import Store
from wifu.variants import SUBSTRATES

PASS, FAIL, OPEN, INFO, NOT_MEASURED = "PASS", "FAIL", "OPEN", "INFO", "not measured"
IDENTICAL = "identical"
BOUND_LEVEL = 0.90
STATISTICS: dict[str, stats.Statistic] = {"mean": np.mean, "median": np.median}


@dataclass(frozen=True)
class Measured:
    """What came out for a check: estimate, 95 % interval, one-sided bounds."""

    estimate: float
    low: float = math.nan
    high: float = math.nan
    lower_bound: float = math.nan
    upper_bound: float = math.nan
    n: int = 1
    exact: bool = False
    text: str = ""
    identical: bool = False


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
    def notes(self) -> str:
        """What is said beside the verdict."""
        return "; ".join(filter(None, (self.why, self.unfinished)))


@dataclass(frozen=True)
class Verdict:
    """A claim with what results of its plan say of it."""

    claim: Claim
    verdict: str
    findings: tuple[Finding, ...] = ()
    folder: str = ""
    why: str = ""
    warnings: tuple[str, ...] = ()

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


def judge(claim: Claim, results: Results | None, warnings: tuple[str, ...] = ()) -> Verdict:
    """A claim against results of its plan; `warnings` are handed on."""
    if results is None:
        why = f"run experiments/{claim.plan}"
        if claim.type == "HW":
            why += "; real time only, for it is about machines"
        return Verdict(claim, NOT_MEASURED, why=why)
    findings = tuple(_find(check, results) for check in claim.checks)
    verdicts = [f.verdict for f in findings if f.check.type != INFO]
    if not verdicts:
        overall = INFO
    else:
        order = (FAIL, NOT_MEASURED, OPEN, PASS, IDENTICAL)
        overall = next(v for v in order if v in verdicts)
    whys = [] if results.manifest["state"] == "complete" else [results.manifest["state"]]
    whys = [f"results {state}" for state in whys]
    if overall == IDENTICAL:
        whys.append("identical: what is compared does the same in every run, which is no PASS")
    elif same := sum(f.measured is not None and f.measured.identical for f in findings):
        whys.append(f"{same} of {len(findings)} checks identical: nothing was compared there")
    return Verdict(claim, overall, findings, str(results.folder), "; ".join(whys), warnings)


def judge_all(
    claims: Sequence[Claim], roots: Sequence[Path], substrate: str = "sim"
) -> list[Verdict]:
    """Claims against the newest results of a substrate below the roots."""
    loaded: dict[str, tuple[Results | None, tuple[str, ...]]] = {}
    for claim in claims:
        if claim.plan not in loaded:
            folder = find_results(claim.plan, roots, substrate)
            found = Results(folder) if folder else None
            loaded[claim.plan] = found, code_warnings(found) if found else ()
    return [judge(c, *loaded[c.plan]) for c in claims]


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


def _find(check: Check, results: Results) -> Finding:
    try:
        found = MEASURES[check.kind](results, check.given)
    except LabError as e:
        return Finding(check, None, NOT_MEASURED, str(e))
    if not math.isfinite(found.estimate):
        return Finding(check, None, NOT_MEASURED, "no run counts")
    verdict, why = _judged(check, found)
    return Finding(check, found, verdict, why, _unfinished(check, results))


def _unfinished(check: Check, results: Results) -> str:
    given = check.given
    cells = {c.name: c for k in ("of", "over") if k in given for c in results.cells(given[k])}
    return cutoff.unfinished(results, list(cells.values()), given.get("metric", ""))


def _judged(check: Check, found: Measured) -> tuple[str, str]:
    inside = check.low <= found.estimate <= check.high
    if check.type == INFO:
        where = [] if inside else ["outside"]
        return INFO, ", ".join(where + ["identical"] * found.identical)
    if not inside:
        return FAIL, "estimate outside"
    if found.identical:
        why = f"identical in {'all ' if found.n > 1 else ''}{found.n} run{'s'[: found.n > 1]}"
        return (IDENTICAL if check.type == "HARD" else PASS), why
    if check.type != "HARD" or found.exact:
        return PASS, ""
    for limit, bound, word in (
        (check.low, found.lower_bound, "lower"),
        (check.high, found.upper_bound, "upper"),
    ):
        if not math.isfinite(limit):
            continue
        if not math.isfinite(bound):
            return OPEN, f"too few runs for a bound (n = {found.n})"
        if (word == "lower" and bound < limit) or (word == "upper" and bound > limit):
            return OPEN, f"{word} 90 % bound {bound:.4g} is outside"
    return PASS, ""


# What can be measured ---------------------------------------------------------------------------


def _statistic(given: Mapping[str, Any]) -> stats.Statistic:
    return STATISTICS[given.get("statistic", "mean")]


def _samples(results: Results, given: Mapping[str, Any]) -> tuple[stats.Floats, bool]:
    sample = results.sample(given["metric"], given["of"]).to_numpy(float)
    sample = stats.clean(sample) / metric_of(given["metric"]).scale
    if sample.size == 0:
        raise LabError(f"no run of {_words(given['of'])} counts")
    return sample, results.plan.deterministic


def _words(where: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in where.items()) or "the plan"


def _value(results: Results, given: Mapping[str, Any]) -> Measured:
    x, exact = _samples(results, given)
    statistic = _statistic(given)
    if exact:
        return Measured(float(statistic(x)), n=1, exact=True)
    both = stats.bootstrap_interval(x, statistic)
    return Measured(
        both.estimate,
        both.low,
        both.high,
        stats.bound(x, statistic, "lower", BOUND_LEVEL),
        stats.bound(x, statistic, "upper", BOUND_LEVEL),
        int(x.size),
    )


def _ratio(results: Results, given: Mapping[str, Any]) -> Measured:
    x, y = results.pairs(given["metric"], given["of"], given["over"])
    if x.size == 0:
        raise LabError(f"no runs in common of {_words(given['of'])} and {_words(given['over'])}")
    statistic, same = _statistic(given), _identical(x, y)
    if results.plan.deterministic:
        ratio = float(x[0] / y[0]) if y[0] else math.nan
        return Measured(ratio, n=1, exact=True, identical=same)
    both = stats.ratio_interval(x, y, statistic)
    return Measured(
        both.estimate,
        both.low,
        both.high,
        stats.ratio_bound(x, y, statistic, "lower", BOUND_LEVEL),
        stats.ratio_bound(x, y, statistic, "upper", BOUND_LEVEL),
        both.n,
        identical=same,
    )


def _identical(x: stats.Floats, y: stats.Floats) -> bool:
    """Whether every run gave the same number on both sides: then nothing of it varies, and an
    interval of their ratio or difference is a point however many runs there are.
    """
    return bool(np.array_equal(x, y))


def _difference(results: Results, given: Mapping[str, Any]) -> Measured:
    x, y = results.pairs(given["metric"], given["of"], given["over"])
    scale = metric_of(given["metric"]).scale
    statistic, same = _statistic(given), _identical(x, y)
    if x.size == 0:
        raise LabError(f"no runs in common of {_words(given['of'])} and {_words(given['over'])}")
    estimate = float(statistic(x) - statistic(y)) / scale
    if results.plan.deterministic:
        return Measured(estimate, n=1, exact=True, identical=same)
    low, high = stats.difference_interval(x / scale, y / scale, statistic)
    lower, upper = (
        stats.difference_bound(x / scale, y / scale, statistic, side, BOUND_LEVEL)
        for side in ("lower", "upper")
    )
    return Measured(estimate, low, high, lower, upper, int(x.size), identical=same)


def _trace(results: Results, given: Mapping[str, Any]) -> Measured:
    """1 if a trace of `wifu mock` sends the segments of the reference in its order, from the first
    that is retransmitted on, cuts the window as stated, and does so on the third duplicate.
    """
    (cell,) = results.cells(given["of"])
    rows = results.outcome(cell, 1)["trace"]
    mss = max(r["len"] for r in rows if r["event"] == "send")
    sends = [r for r in rows if r["event"] == "send" and r["seq_index"] is not None]
    order = [r["seq_index"] for r in sends]
    reference = list(given["order"])
    first = next((i for i, r in enumerate(sends) if r["retransmission"]), None)
    if first is None:
        return Measured(0.0, exact=True, text="nothing was retransmitted")
    faults = []
    start = order.index(reference[0])
    if order[:start] != list(range(start)):
        faults.append("an unexpected order before the loss")
    if order[start : start + len(reference)] != reference:
        faults.append(f"order {order[start : start + len(reference)]}")
    again = sends[first]
    if again["cwnd"] != mss * given["cwnd"]:
        faults.append(f"cwnd {again['cwnd'] / mss:g} segments")
    if again["ssthresh"] != mss * given["ssthresh"]:
        faults.append(f"ssthresh {again['ssthresh'] / mss:g} segments")
    before = rows[: rows.index(again)]
    asked = sum(r["event"] == "ack" and r["seq_index"] == again["seq_index"] for r in before)
    if asked != 4 or again["reason"] != "dupack":
        faults.append(f"retransmitted for {again['reason']} after {asked - 1} duplicates")
    text = "; ".join(faults) or (
        f"{len(reference)} segments in the reference's order, cwnd {given['cwnd']:g} MSS, "
        f"ssthresh {given['ssthresh']:g} MSS, on the 3rd duplicate"
    )
    return Measured(0.0 if faults else 1.0, exact=True, text=text)


def _curve(
    results: Results, where: Mapping[str, Any], window: float, step: float, end: float
) -> Any:
    (cell,) = results.cells(where)
    curves = []
    for run in sorted(results.plan.series_runs):
        series = results.series(cell, run)
        for name in sorted(n for n in series if n.endswith(".delivered")):
            data = series[name]
            times, octets = data.index.to_numpy(float), data.to_numpy(float)
            rates = sliding(times, octets, window, step, end=end)[1]
            curves.append(rates)
    if not curves:
        raise LabError(f"no series of {cell.name}")
    return np.mean(curves, axis=0)


def _correlation(results: Results, given: Mapping[str, Any]) -> Measured:
    """Pearson correlation of the mean instantaneous goodput per flow, over time."""
    window, step, end = given["window"], given["step"], given["until"]
    one = _curve(results, given["of"], window, step, end)
    two = _curve(results, given["over"], window, step, end)
    runs = len(results.plan.series_runs)
    return Measured(float(np.corrcoef(one, two)[0, 1]), n=runs, exact=results.plan.deterministic)


MEASURES: dict[str, Callable[[Results, Mapping[str, Any]], Measured]] = {
    "value": _value,
    "ratio": _ratio,
    "difference": _difference,
    "trace": _trace,
    "correlation": _correlation,
}
