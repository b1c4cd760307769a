"""Where the same plan gave something else on another substrate: by how much, and how surely.

The verdict looks at the 95 % interval of the relative difference of the means. It lies within the
tolerance (10 % unless the plan says another): agree. It lies wholly outside, and the interval of
the difference leaves out 0: differ, of six runs of each at least. Else open: more runs would tell.
Fewer than three runs: too few. Counts of events are not compared where runs had other flows,
another radio or another topology, or delivered more than a tenth more: who delivers less has less
to repeat. Times of transfers stay open where the end of runs cut some off.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from wifu import alike, cautions, cutoff, hostcost, rings, skipped, starts, stats, unlike
from wifu.api import HOLM, Results
from wifu.cells import Cell, Label
from wifu.digits import number, with_unit
from wifu.errors import LabError
from wifu.metrics import metric_of, parts
from wifu.plan import Plan
from wifu.stamps import first as first_of
from wifu.stamps import warned
from wifu.store import Store, finite, write_parquet, write_whole
from wifu.variants import SUBSTRATES

if TYPE_CHECKING:
    from wifu.figures.words import Words

AGREE, DIFFER, OPEN = "agree", "differ", "open"
FEW, ABSENT = "too few runs", "absent"
SKIPPED = "skipped"
"""The plan leaves a cell out on one of the two."""
FAILED = "no run"
"""All runs of a cell failed or were excluded on one of the two."""
APART = "not alike"
"""What is counted is of other loads."""
LEAST = 3
"""With fewer runs of each there is no verdict."""
SURE = 6
"""With fewer runs of each nothing is said to differ: of five and five, and a table of a dozen, no
test would find it, however far apart they are.
"""


@dataclass(frozen=True)
class Row:
    """A metric in a cell on two substrates, in the metric's unit."""

    metric: str
    cell: str
    labels: dict[str, Label]
    substrate: str
    reference: stats.Interval
    other: stats.Interval
    difference: stats.Interval
    relative: stats.Interval
    paired: bool
    ks: float
    p: float
    verdict: str
    p_holm: float = math.nan
    """p corrected by Holm over the cells of the table: of this metric on this substrate."""
    unfinished: tuple[str, str] = ("", "")
    """How many transfers the end of runs cut off, in words, on each."""
    least: tuple[bool, bool] = (False, False)
    """Whether the mean is but the least that it can be, on each."""
    missing: tuple[int, int] = (0, 0)
    """How many runs of each are missing to say that they differ."""
    why: str = ""
    """Of what was skipped where, and by which rule; or where no run came out."""
    called: str = ""
    """The cell as the plan calls its levels."""

    @property
    def few(self) -> int:
        """Of how few runs of a side it is said that the two agree; 0 of enough. What is exact has
        one.
        """
        sizes = [i.n for i in (self.reference, self.other) if 1 < i.n < SURE]
        return min(sizes) if sizes and self.verdict == AGREE else 0

    @property
    def said(self) -> str:
        """The verdict as it is shown."""
        return f"{self.verdict} (n = {self.few})" if self.few else self.verdict

    def words(self) -> list[str]:
        """Cell, both values, difference, relative difference, distance, p, runs."""

        def told(i: stats.Interval, scale: float = 1.0) -> str:
            if not math.isfinite(i.estimate):
                return "-"
            half = i.half * scale if i.known else math.nan
            text = number(i.estimate * scale, half if i.known else None)
            return f"{text} ± {number(half, half)}" if i.known else text

        counts = f"{self.reference.n}, {self.other.n}"
        known = math.isfinite(self.ks)
        return [
            self.called or self.cell,
            *(
                f"{'≥ ' if least and math.isfinite(value.estimate) else ''}{told(value)}"
                f"{f' ({cut})' if cut else ''}"
                for value, cut, least in zip(
                    (self.reference, self.other), self.unfinished, self.least, strict=True
                )
            ),
            told(self.difference),
            told(self.relative, 100.0), f"{self.ks:.2f}" if known else "-",
            f"{self.p_holm:.3f}" if math.isfinite(self.p_holm) else "-", counts,
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The same as a tree of JSON; numbers that JSON cannot say are null."""

        def told(i: stats.Interval) -> dict[str, Any]:
            return {
                "estimate": finite(i.estimate), "low": finite(i.low), "high": finite(i.high),
                "n": i.n, "method": i.method,
            }  # fmt: skip

        return {
            "metric": self.metric,
            "unit": metric_of(self.metric).unit,
            "cell": self.cell,
            "labels": self.labels,
            "substrate": self.substrate,
            "reference": told(self.reference),
            "other": told(self.other),
            "difference": told(self.difference),
            "relative": told(self.relative),
            "paired": self.paired,
            "ks": finite(self.ks),
            "p": finite(self.p),
            "p_holm": finite(self.p_holm),
            "verdict": self.verdict,
            "unfinished": list(self.unfinished),
            "at_least": list(self.least),
            "missing": list(self.missing),
            "why": self.why,
        }

    def flat(self) -> dict[str, Any]:
        """A row of `divergence.parquet`."""
        out = self.to_json()
        labels = {k: str(v) for k, v in out.pop("labels").items()}
        out["unfinished"] = "; ".join(filter(None, out["unfinished"]))
        for key in ("at_least", "missing"):
            out[f"reference_{key}"], out[f"other_{key}"] = out.pop(key)
        for name in ("reference", "other", "difference", "relative"):
            part = out.pop(name)
            out |= {f"{name}_{k}": part[k] for k in ("estimate", "low", "high", "n")}
        return {**labels, **out}


@dataclass(frozen=True)
class Divergence:
    """All metrics of a plan in all cells, on each substrate against the first."""

    name: str
    reference: str
    tolerance: float
    rows: tuple[Row, ...]
    elsewhere: tuple[dict[str, Any], ...] = ()
    """Levels that are something else on another substrate (`wifu.alike.elsewhere`)."""
    scenarios: tuple[dict[str, Any], ...] = ()
    """Keys of the scenario that are (`wifu.alike.scenarios`)."""
    cautions: tuple[str, ...] = ()
    """What is to be said beside the numbers."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What the plan calls each metric."""

    def label(self, metric: str) -> str:
        """A metric without its unit."""
        return self.labels.get(metric, metric_of(metric).label)

    def scale(self, metric: str) -> str:
        """A metric with its unit."""
        return with_unit(self.label(metric), metric_of(metric).unit)

    def notes(self) -> list[str]:
        """What is not the same on all substrates, and what else is to be minded, in words."""
        told = []
        for e in (*self.elsewhere, *self.scenarios):
            (one, a), (two, b) = e["is"].items()
            what = f"{e['axis']} {e['level']}" if "axis" in e else e["key"]
            told.append(f"{what} is {a} on {one} and {b} on {two}.")
        if any(r.verdict == APART for r in self.rows):
            told.append(
                f"{APART}: counts of runs that had other flows, another radio or another topology, "
                "or delivered more than 10 % apart. Who delivers less has less to repeat."
            )
        return [*told, *self.left_out(), *self._few(), *self._open(), *self.cautions]

    def _few(self) -> Iterator[str]:
        """How little it tells that so few runs agree."""
        if few := [row for row in self.rows if row.few]:
            n = min(row.few for row in few)
            yield (
                f"{AGREE}: {len(few)} of {self.counts()[AGREE]} comparisons that do have fewer "
                f"than {SURE} runs on a side, {n} at the least. That says little: what happens in "
                f"{1 - 0.05 ** (1 / n):.0%} of runs is met in none of {n} once in twenty times."
            )

    def left_out(self, metric: str | None = None) -> list[str]:
        """Which cells were left out where, by which rule of the plan, and of which no run came out;
        of a `metric` alone.
        """
        by: dict[tuple[str, str], dict[str, None]] = {}
        for row in self.rows:
            if row.verdict in (SKIPPED, FAILED) and metric in (None, row.metric):
                by.setdefault((row.verdict, row.why), {})[row.cell] = None
        return [
            f"{verdict}: {why}: {first_of(list(cells))}."
            if verdict == FAILED
            else f"{verdict}: {why}, and was not run there: {first_of(list(cells))}."
            for (verdict, why), cells in by.items()
        ]

    def _open(self) -> Iterator[str]:
        """What lies outside the tolerance by too few runs to say that it differs, and counts of
        which so few runs have none.
        """
        for (metric, substrate), rows in self.groups().items():
            few = [row for row in rows if any(row.missing)]
            never = [row for row in few if not (row.reference.estimate or row.other.estimate)]
            short = [row for row in few if row not in never]
            label = f"{self.label(metric)}, {substrate}"
            if short:
                yield (
                    f"{label}: {len(short)} of {len(rows)} cells lie outside the tolerance and are "
                    f"{OPEN}, as so few runs cannot say that they differ: "
                    f"{self._wanted(short, substrate)} could."
                )
            if never:
                yield (
                    f"{label}: {len(never)} of {len(rows)} cells have none and are {OPEN}, as so "
                    f"few runs cannot say that there are none: {self._wanted(never, substrate)} "
                    "could."
                )

    def _wanted(self, rows: Sequence[Row], substrate: str) -> str:
        """How many runs more it takes."""
        more = [max(row.missing[n] for row in rows) for n in (0, 1)]
        return " and ".join(
            f"{count} more run{'s' if count > 1 else ''} on {place}"
            for count, place in zip(more, (self.reference, substrate), strict=True)
            if count
        )

    def groups(self) -> dict[tuple[str, str], list[Row]]:
        """Rows by metric and substrate."""
        out: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            out.setdefault((row.metric, row.substrate), []).append(row)
        return out

    def counts(self) -> dict[str, int]:
        """How many rows have which verdict."""
        verdicts = [r.verdict for r in self.rows]
        return {
            v: verdicts.count(v)
            for v in (AGREE, DIFFER, OPEN, FEW, APART, ABSENT, SKIPPED, FAILED)
            if v in verdicts
        }

    def sentence(self) -> str:
        """What came out, and by which rule."""
        counts = ", ".join(f"{n} {v}" for v, n in self.counts().items())
        return (
            f"{counts}. Agree: the 95 % interval of the relative difference of the means lies "
            f"within ±{self.tolerance * 100:g} %; differ: wholly outside, and that of the "
            f"difference leaves out 0, of {SURE} runs of each at least; open: neither."
        )

    def to_json(self) -> dict[str, Any]:
        """The same as a tree of JSON; numbers that JSON cannot say are null."""
        return {
            "schema": "wifu-lab/1.0", "name": self.name, "reference": self.reference,
            "tolerance": self.tolerance, "counts": self.counts(), "test": "Kolmogorov-Smirnov",
            "correction": HOLM, "elsewhere": list(self.elsewhere),
            "scenarios": list(self.scenarios), "cautions": list(self.cautions),
            "rows": [r.to_json() for r in self.rows],
        }  # fmt: skip

    def write(self, folder: Path) -> None:
        """Write `divergence.json` and `divergence.parquet` into a folder."""
        text = json.dumps(self.to_json(), indent=1) + "\n"
        write_whole(folder / "divergence.json", text.encode())
        write_parquet(pd.DataFrame([r.flat() for r in self.rows]), folder / "divergence.parquet")


def results_by_substrate(folder: Path) -> dict[str, Results]:
    """The results that a folder holds, by substrate."""
    store = Store(folder)
    return {s: Results(store.on(s).folder) for s in SUBSTRATES if store.on(s).exists()}


def of_folder(folder: Path, tolerance: float | None = None) -> Divergence | None:
    """The divergence of a folder's results; none if they are of one substrate only."""
    found = results_by_substrate(folder)
    if len(found) < 2:
        return None
    return compare(list(found.values()), tolerance)


def compare(found: Sequence[Results], tolerance: float | None = None) -> Divergence:
    """Results of one plan on several substrates, each against the first."""
    from wifu.figures.words import Words  # figures draw what is compared here

    first = found[0]
    # The same level may have another profile on each substrate.
    words = Words(first, {}, mixed=False, plain=True)
    limit = first.plan.tolerance if tolerance is None else tolerance
    rows = [
        replace(_row(metric, cell, first, other, limit), called=_called(words, cell))
        for other in found[1:]
        for metric in first.plan.metrics
        for cell in _cells(first.plan, other.plan)
    ]
    notes = [e for other in found[1:] for e in alike.elsewhere(first.plan, other.plan)]
    keys = [e for other in found[1:] for e in alike.scenarios(first.plan, other.plan)]
    return Divergence(
        first.plan.name, first.plan.substrate, limit, _corrected(rows), tuple(notes), tuple(keys),
        tuple(_cautions(found, words)), {m: words.metric(m) for m in first.plan.metrics},
    )  # fmt: skip


def _called(words: Words, cell: Cell) -> str:
    return ", ".join(words.level(axis, label) for axis, label in cell.labels.items())


def _cells(*of: Plan) -> list[Cell]:
    """The cells of plans, each once, the first plan's first: substrates may skip some."""
    found: dict[str, Cell] = {}
    for cell in (c for plan in of for c in plan.cells):
        found.setdefault(json.dumps(dict(cell.labels)), cell)
    return list(found.values())


SRTT = (
    "srtt is not the same quantity: in real time it is what was seen when the last bytes had "
    "arrived, the simulator's is that after the connection closed, when queues had drained."
)


def _cautions(found: Sequence[Results], words: Words) -> Iterator[str]:
    """What is to be said beside each metric, and of which substrates; and what runs warned of, as
    that may be why they differ.
    """
    for results in found:
        for sentence in warned(results.manifest):
            yield f"On {results.plan.substrate}: {sentence}"
    for other in found[1:]:
        if cost := hostcost.elsewhere(found[0].plan, other.plan):
            yield f"{cost}."
        if ring := rings.short(other.plan):
            yield ring
        if late := starts.caution(found[0], other, found[0].plan.metrics):
            yield late
    for metric in found[0].plan.metrics:
        for on, sentence in said_of(found, metric):
            yield f"{words.metric(metric)}, {on}: {sentence}" if on else sentence


def said_of(found: Sequence[Results], metric: str) -> Iterator[tuple[str, str]]:
    """What is to be said beside a metric, each with the substrates that it is said of (`on sim`);
    or with nothing, if that is of all.
    """
    said: dict[str, list[str]] = {}
    shapes: dict[str, str] = {}
    for results in found:
        cells = list(results.plan.cells)
        told = [cutoff.sentence(results, cells, metric)]
        told += cautions.notes(results, cells, metric)
        for sentence in filter(None, told):
            first = shapes.setdefault(ASIDE.sub("", sentence), sentence)
            said.setdefault(_short(sentence, first), []).append(results.plan.substrate)
    yield from ((f"on {', '.join(of)}", sentence) for sentence, of in said.items())
    if parts(metric)[0] == "srtt" and {r.plan.substrate for r in found} - {"sim"}:
        yield "", SRTT


ASIDE = re.compile(r" ?\([^()]*\)")
"""Which cells something is said of, and by how much."""

OPENING = 60
"""So many of its characters remind of it."""

LONG = 200
"""A sentence of so many characters is said once, with what is in brackets on other substrates."""


def _short(sentence: str, first: str) -> str:
    """What is said again, as short as can be, if all but what is in brackets stood there before."""
    inside = "; ".join(found.strip(" ()") for found in ASIDE.findall(sentence))
    if sentence == first or not inside or len(sentence) < LONG:
        return sentence
    opening = ASIDE.sub("", first)
    return f'"{opening[:OPENING].rsplit(" ", 1)[0]} ...", as above: {inside}.'


def _corrected(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with their p corrected, table by table."""
    tables: dict[tuple[str, str], list[int]] = {}
    for n, row in enumerate(rows):
        tables.setdefault((row.metric, row.substrate), []).append(n)
    out = list(rows)
    for places in tables.values():
        for n, p in zip(places, stats.holm([rows[n].p for n in places]), strict=True):
            out[n] = replace(rows[n], p_holm=float(p))
    return tuple(out)


def _row(metric: str, cell: Cell, first: Results, other: Results, tolerance: float) -> Row:
    sides = [(r, c) for r in (first, other) for c in r.plan.cells if c.labels == cell.labels]
    if len(sides) < 2:
        return _skipped(metric, cell, first, other)
    scale = metric_of(metric).scale
    x, y = (_sample(r, metric, cell) / scale for r in (first, other))
    # The same run had the same placement and fading on both, if the seed is the same.
    common = x.index.intersection(y.index)
    paired = first.plan.seed == other.plan.seed and len(common) >= LEAST
    paired = paired and not first.plan.deterministic
    runs = (y.index.to_numpy(), x.index.to_numpy()) if paired else ((), ())
    difference = stats.apart(y, x, *runs)
    relative = stats.relative(y, x, *runs)
    ks, p = stats.distance(y, x)
    exact = first.plan.deterministic and len(x) == 1
    enough = (len(x) >= LEAST or exact) and len(y) >= LEAST
    least = (cutoff.least(*sides[0], metric), cutoff.least(*sides[1], metric))
    one, two = (
        _scaled(r.interval(metric, c), scale) if bound else stats.mean_interval(sample)
        for (r, c), bound, sample in zip(sides, least, (x, y), strict=True)
    )
    missing, why = (0, 0), ""
    if not (len(x) and len(y)) and all(b or len(s) for b, s in zip(least, (x, y), strict=True)):
        # Of a side all were cut off: the least that it can be is known.
        verdict = OPEN
        difference = relative = stats.mean_interval(())
    elif not (len(x) and len(y)):
        verdict = FAILED if (why := _none_came(sides)) else ABSENT
    elif not enough:
        verdict = FEW
    elif parts(metric)[0] in unlike.COUNTS and _apart(metric, sides):
        verdict = APART
    else:
        verdict = _verdict(difference, relative, tolerance)
        few = (_missing(x, exact), _missing(y, exact=False))
        # That something was never counted in a few runs says nothing of the others.
        never = parts(metric)[0] in unlike.COUNTS and not (x.any() or y.any())
        if any(few) and (verdict == DIFFER or (verdict == AGREE and never)):
            verdict, missing = OPEN, few
        # Means of the transfers that ended are the least that they can be.
        if any(least):
            verdict, missing = OPEN, (0, 0)
            difference = relative = stats.mean_interval(())
            ks = p = math.nan
    unfinished = [cutoff.unfinished(r, [c], metric) for r, c in sides]
    return Row(
        metric, cell.name, dict(cell.labels), other.plan.substrate, one, two, difference, relative,
        paired, ks, p, verdict, unfinished=(unfinished[0], unfinished[1]), least=least,
        missing=missing, why=why,
    )  # fmt: skip


def _none_came(sides: Sequence[Side]) -> str:
    """On which of the two no run of a cell came out; nothing where its runs lack the metric."""
    bare = [
        results.plan.substrate
        for results, cell in sides
        if not results.ok["cell"].eq(cell.name).any()
    ]
    return f"all runs failed or were excluded on {' and '.join(bare)}" if bare else ""


def _skipped(metric: str, cell: Cell, first: Results, other: Results) -> Row:
    """A cell that one of the two skips: what the other has, and nothing to compare it with."""
    plan = next(
        p for p in (other.plan, first.plan) if all(c.labels != cell.labels for c in p.cells)
    )
    rule = skipped.reason(plan, cell.labels)
    # What an override left out on one substrate is in no rule.
    why = f"{plan.substrate} leaves out {rule}" if rule else f"{plan.substrate} has no such level"
    scale = metric_of(metric).scale
    one, two = (stats.mean_interval(_sample(r, metric, cell) / scale) for r in (first, other))
    none = stats.mean_interval(())
    return Row(
        metric, cell.name, dict(cell.labels), other.plan.substrate, one, two, none, none,
        False, math.nan, math.nan, SKIPPED, why=why,
    )  # fmt: skip


def _scaled(of: stats.Interval, scale: float) -> stats.Interval:
    return replace(of, estimate=of.estimate / scale)


def _missing(sample: pd.Series[float], exact: bool) -> int:
    """How many runs more it takes to say that something differs; none of what is exact."""
    return 0 if exact else max(0, SURE - len(sample))


Side = tuple[Results, Cell]


def _apart(metric: str, sides: Sequence[Side]) -> bool:
    """Whether what a metric counts is of other loads on two substrates."""
    (_, cell), (_, there) = sides
    if alike.other_load(cell, there):
        return True
    means = [_delivered(metric, *side) for side in sides]
    return max(means) > unlike.EVEN * min(means)


def _delivered(metric: str, results: Results, cell: Cell) -> float:
    """The bytes that runs of a cell delivered on the mean, of a flow alone those of it."""
    rows, alone = results.flows, parts(metric)[1]
    rows = rows[(rows["status"] == "ok") & (rows["cell"] == cell.name)]
    own = rows if alone is None else rows[rows["flow"] == alone]
    return float(own["bytes"].sum() / max(rows["run"].nunique(), 1))


def _sample(results: Results, metric: str, cell: Cell) -> pd.Series[float]:
    try:
        sample = results.sample(metric, cell.labels)
    except LabError:  # an outcome without the facts for this metric
        return pd.Series(dtype=float)
    if sample.empty:
        return pd.Series(dtype=float)
    return sample.droplevel("cell").dropna()


def _verdict(difference: stats.Interval, relative: stats.Interval, tolerance: float) -> str:
    if not math.isfinite(relative.estimate):
        # The first is zero throughout: only another zero agrees with it.
        if difference.estimate == 0 and not difference.known:
            return AGREE
        return DIFFER if difference.known and difference.low * difference.high > 0 else OPEN
    none = difference.known and difference.low <= 0 <= difference.high
    if not relative.known and none:
        # The second is zero throughout, or there is too little for an interval of the ratio.
        return OPEN
    low = relative.low if relative.known else relative.estimate
    high = relative.high if relative.known else relative.estimate
    if -tolerance <= low and high <= tolerance:
        return AGREE
    # The interval of a small ratio is narrow however the first varies, as it is about the ratio
    # times the share that the first mean is known to: a few long runs would make a difference.
    # Near 1, where substrates agree, both intervals are as wide.
    return DIFFER if not none and (low > tolerance or high < -tolerance) else OPEN
