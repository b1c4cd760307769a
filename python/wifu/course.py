"""When in a run bytes came: cells that are the less apart the longer their flows go on, as by how
these began, or by what happened once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wifu import stats, stops
from wifu.cells import Cell
from wifu.early import Early
from wifu.even import jain
from wifu.happenings import befalling
from wifu.metrics import parts
from wifu.rows import Results, ahead, alongside, carriers, ends, going, rows_of
from wifu.short import shared
from wifu.stamps import first

OF: Mapping[str, Callable[[NDArray[np.float64]], float]] = {
    "goodput": lambda rates: float(np.mean(rates)),
    "aggregate": lambda rates: float(np.sum(rates)),
    "lowest": lambda rates: float(np.min(rates)),
    "weakest": lambda rates: float(np.min(rates) / np.sum(rates)),
    "jain": jain,
}
"""Metrics of rates, of one flow or of all, and what each is of these."""

SINCE = {"transfer": "start_s", "receiver": "first_byte_s"}
"""From when on goodput is measured."""

SMALL = 0.005
"""Up to such a difference cells are not apart."""

LEAST = 0.1
"""What is less in the second half by more counts as so much."""

MOSTLY = 0.9
"""Flows that go on have more of all bytes than that."""

LEFT = 2 / 3
"""Of what sets two cells apart no more is left in the second half: half of what the first has."""

HALF = 0.5
"""... of what one flow has more, and more, is what others gave away so."""

CHANCE = 0.01
"""By chance it is so in no more of the rows of a table, however many cells are compared in each."""

RUNS = 3
"""Of so many runs on it is seen whether that is so."""

MOST = 3
"""Pairs of cells that are named."""


def _rest(rows: pd.DataFrame, since: str, base: str) -> pd.Series[float]:
    """How many times what it is of the whole time of flows a metric is of its second half, by cell
    and run.
    """
    begin, over = rows["start_s"].astype(float).fillna(0.0), ends(rows)
    measured = over - rows[since].astype(float).fillna(0.0)
    whole = rows["bytes"].astype(float) / measured
    late = rows["late_bytes"].astype(float) / (over - begin) * 2
    both = pd.DataFrame({"late": late, "whole": whole})
    with np.errstate(divide="ignore", invalid="ignore"):
        of = both.groupby([rows["cell"], rows["run"]]).agg(lambda own: OF[base](own.to_numpy()))
        return (of["late"] / of["whole"]).clip(lower=LEAST)


def _settling(cells: Sequence[Cell], rows: pd.DataFrame) -> bool:
    """Whether nothing befalls flows, and all are there in the second half of runs."""
    late = rows["start_s"].astype(float) > rows["sim_seconds"].astype(float) / 2
    return not late.any() and not any(befalling(cell) for cell in cells)


class Pair(NamedTuple):
    """Two such cells: the one with more first, their ratio, and what it is in the second half."""

    one: str
    other: str
    ratio: float
    rest: float
    flow: int | None = None
    """Of the metric of this flow, if not of what was asked for."""

    def __str__(self) -> str:
        """In words."""
        whose = f"flow {self.flow}: " if self.flow is not None else ""
        return (
            f"{whose}{self.one} x {self.ratio:.3g} of {self.other}, x {self.rest:.3g} in the "
            "second half"
        )


def _found(results: Results, cells: Sequence[Cell], metric: str) -> list[Pair]:
    """Pairs of cells that are so; of a flow that shares with others, those in which it has mostly
    what these gave away.
    """
    found, (base, only) = _of(results, cells, metric), parts(metric)
    if found or only is None or not shared(results, cells, metric):
        return found
    rows = rows_of(results, cells)
    on = carriers(rows)
    others = sorted(set(on.loc[going(on, cells) & on["flow"].ne(only), "flow"].astype(int)))
    means = rows.assign(rate=rows["goodput_bps"].astype(float)).pivot_table(
        index="cell", columns="flow", values="rate", aggfunc="mean"
    )
    early: dict[tuple[str, str], list[Pair]] = {}
    for n in others:
        for pair in _of(results, cells, f"{base}@{n}"):
            early.setdefault((pair.one, pair.other), []).append(pair._replace(flow=n))
    explained: list[Pair] = []
    for (one, other), pairs in early.items():
        lost = means.loc[one] - means.loc[other]
        given, net = lost.reindex([pair.flow for pair in pairs]).sum(), lost.reindex(others).sum()
        more = -lost.get(only, 0.0)
        # What others took of it went to them.
        explained += pairs if more > 0 and min(given, net) >= HALF * more else []
    return explained


def _of(results: Results, cells: Sequence[Cell], metric: str) -> list[Pair]:
    """The same of a metric by itself."""
    since, base = SINCE.get(results.plan.measure.mode), parts(metric)[0]
    if base not in OF or since is None:
        return []
    rows = carriers(rows_of(results, cells), metric)
    if "late_bytes" not in rows or not _settling(cells, rows):  # or of an older lab
        return []
    # Beside what ends by itself the rest of the time is another.
    every = rows_of(results, cells)
    octets = every["bytes"].astype(float)
    if not octets[going(every, cells)].sum() > MOSTLY * octets.sum():
        return []
    rest = _rest(rows[going(rows, cells) & rows["late_bytes"].notna()], since, base)
    if parts(metric)[1] is not None:  # what a plan does not name would have to be looked up
        means = rows["goodput_bps"].astype(float).groupby(rows["cell"]).mean()
        means = means[means.index.isin(rest.index.get_level_values("cell"))]
    else:
        known = {c.name: c.labels for c in cells if c.name in rest.index}
        found = {name: results.sample(metric, of).mean() for name, of in known.items()}
        means = pd.Series(found, dtype=float)
    level = 1 - CHANCE / max(math.comb(len(means), 2), 1)
    return [
        Pair(a, b, means[a] / means[b], without)
        for a, b in ahead(means, 1 + SMALL)
        if means[b] > 0
        and (without := _without(means[a] / means[b], rest[a], rest[b], level)) is not None
    ]


def _without(
    ratio: float, one: pd.Series[float], other: pd.Series[float], level: float
) -> float | None:
    """What a ratio above 1 is in the second half, if it is so much less, and not by chance."""
    gains = (np.log(one) - np.log(other)).dropna()
    if len(gains) < RUNS:
        return None
    change = stats.mean_interval(gains.to_numpy(float), level)
    chance = change.known and not change.high < 0
    if chance or change.estimate > -(1 - LEFT) * np.log(ratio):
        return None
    return float(ratio * np.exp(change.estimate))


def begun(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether two of these cells are so."""
    return bool(_found(results, cells, metric))


def apart(results: Results, cells: Sequence[Cell], metric: str) -> Early | None:
    """The same in words."""
    every = [pair for group in alongside(results, cells) for pair in _found(results, group, metric)]
    if (pair := results.plan.pair) is not None:  # all are compared with one
        labels = [str(level.label) for level in results.plan.axis(pair).levels]
        own = str(results.plan.baseline)
        base = own if own in labels else labels[0]
        ours = {c.name for c in cells if str(c.labels.get(pair)) == base}
        every = [both for both in every if ours & {both.one, both.other}]
    if not every:
        return None
    rows = carriers(rows_of(results, cells), metric)
    rows = rows[rows["cell"].isin({name for both in every for name in (both.one, both.other)})]
    return Early(
        "Some cells are apart in the first half of their flows' time at least twice as much as in "
        f"the second, as by how flows begin ({first(list(dict.fromkeys(map(str, every))), MOST)}).",
        stops.longer(rows[going(rows, cells)], cells),
        colourless=True,
    )
