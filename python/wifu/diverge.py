"""Where the same plan gave something else on another substrate: by how much, and how surely.

The verdict looks at the 95 % interval of the relative difference of the means. It lies within the
tolerance (10 % unless the plan says another): agree. It lies wholly outside: differ. Else open:
more runs would tell. Fewer than three runs: too few.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from wifu import alike, stats
from wifu.api import HOLM, Results
from wifu.cells import Cell, Label
from wifu.digits import number
from wifu.errors import LabError
from wifu.metrics import metric_of
from wifu.store import Store, finite, write_parquet, write_whole
from wifu.variants import SUBSTRATES

AGREE, DIFFER, OPEN = "agree", "differ", "open"
FEW, ABSENT = "too few runs", "absent"
LEAST = 3
"""With fewer runs of each there is no verdict."""


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
            ", ".join(str(v) for v in self.labels.values()) or self.cell,
            told(self.reference), told(self.other), told(self.difference),
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
        }

    def flat(self) -> dict[str, Any]:
        """A row of `divergence.parquet`."""
        out = self.to_json()
        labels = {k: str(v) for k, v in out.pop("labels").items()}
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

    def notes(self) -> list[str]:
        """Which levels are not the same on all substrates, in words."""
        told = []
        for e in self.elsewhere:
            (one, a), (two, b) = e["is"].items()
            told.append(f"{e['axis']} {e['level']} is {a} on {one} and {b} on {two}.")
        return told

    def groups(self) -> dict[tuple[str, str], list[Row]]:
        """Rows by metric and substrate."""
        out: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            out.setdefault((row.metric, row.substrate), []).append(row)
        return out

    def counts(self) -> dict[str, int]:
        """How many rows have which verdict."""
        verdicts = [r.verdict for r in self.rows]
        return {v: verdicts.count(v) for v in (AGREE, DIFFER, OPEN, FEW, ABSENT) if v in verdicts}

    def sentence(self) -> str:
        """What came out, and by which rule."""
        counts = ", ".join(f"{n} {v}" for v, n in self.counts().items())
        return (
            f"{counts}. Agree: the 95 % interval of the relative difference of the means lies "
            f"within ±{self.tolerance * 100:g} %; differ: wholly outside; open: neither."
        )

    def to_json(self) -> dict[str, Any]:
        """The same as a tree of JSON; numbers that JSON cannot say are null."""
        return {
            "schema": "wifu-lab/1.0", "name": self.name, "reference": self.reference,
            "tolerance": self.tolerance, "counts": self.counts(), "test": "Kolmogorov-Smirnov",
            "correction": HOLM, "elsewhere": list(self.elsewhere),
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
    first = found[0]
    limit = first.plan.tolerance if tolerance is None else tolerance
    rows = [
        _row(metric, cell, first, other, limit)
        for other in found[1:]
        for metric in first.plan.metrics
        for cell in first.plan.cells
    ]
    notes = [e for other in found[1:] for e in alike.elsewhere(first.plan, other.plan)]
    corrected = _corrected(rows)
    return Divergence(first.plan.name, first.plan.substrate, limit, corrected, tuple(notes))


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
    known = (stats.mean_interval(x), stats.mean_interval(y))
    exact = first.plan.deterministic and len(x) == 1
    enough = (len(x) >= LEAST or exact) and len(y) >= LEAST
    if not (len(x) and len(y)):
        verdict = ABSENT
    elif not enough:
        verdict = FEW
    else:
        verdict = _verdict(difference, relative, tolerance)
    return Row(
        metric, cell.name, dict(cell.labels), other.plan.substrate, *known, difference, relative,
        paired, ks, p, verdict,
    )  # fmt: skip


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
    if not relative.known and difference.known and difference.low <= 0 <= difference.high:
        # The second is zero throughout, or there is too little for an interval of the ratio.
        return OPEN
    low = relative.low if relative.known else relative.estimate
    high = relative.high if relative.known else relative.estimate
    if -tolerance <= low and high <= tolerance:
        return AGREE
    return DIFFER if low > tolerance or high < -tolerance else OPEN
