"""Checks of claims about the hops that packets take, by kind in `HOPWISE`: what is lost at each,
what nodes hand down, when a source learns that packets arrived; and of several cells together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from wifu import handed, stats
from wifu.api import Results
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.measured import (
    BOUND_LEVEL,
    Measured,
    counting,
    identical_in,
    one_cell,
    runs_of,
    statistic_of,
    words,
)
from wifu.metrics import hop_rows
from wifu.overtime import of_runs

LOST = {"loss": "packet_loss", "passive_loss": "passive_loss"}
"""What can be lost at a hop, by the name of the metric that is the same of all hops."""


def lost_at_hops(
    results: Results, cell: Cell, metric: str, flow: int = 1, reverse: bool = False
) -> pd.DataFrame:
    """What each run of a cell that counts lost at each hop of a flow, in per cent: a row for each
    run, a column for each hop, from 1 on; of what goes back (`reverse`) from the target on.

    Where routes changed, a hop is of several links in a run: what is lost there is of the packets
    of all of them, and what was not overheard the mean of them by the packets that crossed each.
    """
    sums = _sums(results, cell, metric, flow, reverse)
    shares = 100.0 * sums["lost"] / sums["of"].where(lambda count: count > 0)
    return shares.unstack("hop").dropna(axis="columns", how="all")


def packets_at_hops(
    results: Results, cell: Cell, metric: str, flow: int = 1, reverse: bool = False
) -> pd.DataFrame:
    """How many packets the shares of `lost_at_hops` are of: rows and columns as there; nan where
    there is no share.
    """
    of = _sums(results, cell, metric, flow, reverse)["of"]
    return of.where(of > 0).unstack("hop").dropna(axis="columns", how="all")


def _sums(results: Results, cell: Cell, metric: str, flow: int, reverse: bool) -> pd.DataFrame:
    """By run and hop of a flow how many packets were `lost`, and `of` how many."""
    rows = [
        {"run": run, "hop": int(hop["hop"]), **_lost(hop, LOST[metric])}
        for run, hop in _hops_of(results, cell, metric, flow, reverse)
    ]
    return pd.DataFrame(rows).groupby(["run", "hop"]).sum()


def _hops_of(
    results: Results, cell: Cell, metric: str, flow: int, reverse: bool
) -> list[tuple[int, dict[str, Any]]]:
    """The hops of a flow in the runs of a cell that count, each with its run."""
    if metric not in LOST:
        raise LabError(f"nothing is lost at hops by {metric}; {' and '.join(LOST)} are")
    runs = results.ok.loc[results.ok["cell"] == cell.name, "run"]
    found = [
        (int(run), hop)
        for run in runs
        for hop in hop_rows(results.outcome(cell, int(run)))
        if hop["flow"] == flow and bool(hop["reverse"]) == reverse
    ]
    if not found:
        raise LabError(f"no run of {cell.name} tells of hops of flow {flow}")
    return found


def dropped_at_hops(
    results: Results, cell: Cell, flow: int = 1, by: str = "queue_drops", reverse: bool = False
) -> pd.Series[float]:
    """How many packets of a flow a run of a cell that counts dropped on the mean in front of each
    hop, before the node there had sent them (`queue_drops` or `lane_drops` of `wifu.hops`); nan
    where it is not counted.
    """
    found = _hops_of(results, cell, "loss", flow, reverse)
    rows = pd.DataFrame(
        {"run": run, "hop": int(hop["hop"]), "drops": hop[by]} for run, hop in found
    )
    sums = rows.groupby(["run", "hop"])["drops"].sum(min_count=1).unstack("hop")
    return sums.fillna(0.0).mean().where(sums.notna().any())


def let_go(results: Results, cell: Cell, flow: int = 1) -> float:
    """How many packets of a flow handlers of nodes dropped and lanes let go in a run of a cell that
    counts, on the mean, of both directions: it is not recorded where.
    """
    runs = results.ok.loc[results.ok["cell"] == cell.name, "run"]
    told = [handed.flow_of(results.outcome(cell, int(run)), flow) for run in runs]
    return float(np.mean([(f.get("packets") or {}).get("hop") or 0 for f in told] or [0.0]))


def _lost(hop: Mapping[str, Any], share: str) -> dict[str, float]:
    """How many packets were lost at a hop, and of how many; none of any where that is not known."""
    of = (hop.get("packets") or 0) + (hop.get("lost") or 0 if share == "packet_loss" else 0)
    known = hop[share] == hop[share]
    return {"lost": hop[share] * of if known else 0.0, "of": float(of) if known else 0.0}


def _greatest_change(one: Any, two: Any, limit: float) -> Any:
    return np.max(np.abs(one - two), axis=0)


def _change(one: Any, two: Any, limit: float) -> Any:
    return np.mean(one - two, axis=0)


def _how_many_above(one: Any, two: Any, limit: float) -> Any:
    return np.sum(one > limit, axis=0)


def _mean(one: Any, two: Any, limit: float) -> Any:
    return np.mean(one, axis=0)


def _greatest(one: Any, two: Any, limit: float) -> Any:
    return np.max(one, axis=0)


AT_HOPS: dict[str, Callable[[Any, Any, float], Any]] = {
    "greatest change": _greatest_change,
    "change": _change,
    "how many above": _how_many_above,
    "mean": _mean,
    "greatest": _greatest,
}
"""What a check takes of what two cells lose at each hop on the mean."""


def _hops(results: Results, given: Mapping[str, Any]) -> Measured:
    """What is lost at hops, per cent, each hop's mean over the runs: the mean of hops, the
    greatest, or how many are above `limit`; with `over` by how much that of another cell is less,
    or the greatest difference of a hop. `hops`: of these alone.
    """
    metric, limit = given["metric"], float(given.get("limit", 0.0))
    sides = [given["of"], given.get("over", given["of"])]
    tables = [lost_at_hops(results, one_cell(results, side), metric) for side in sides]
    hops = [h for h in tables[0].columns if h in tables[1] and h in given.get("hops", [h])]
    common = tables[0].index.intersection(tables[1].index)
    x, y = (table.loc[common, hops].to_numpy(float).T for table in tables)
    if not x.size:
        raise LabError(f"no runs in common of {words(sides[0])} and {words(sides[1])}")
    take = AT_HOPS[given["take"]]

    def value(*drawn: stats.Floats) -> Any:
        one, two = (np.nanmean(a, axis=-1) for a in drawn)
        return take(one, two, limit)

    means = np.nanmean(x, axis=-1)
    note = ", ".join(f"{m:.3g}" for m in means) + f" % at hops {hops[0]} to {hops[-1]}"
    if len(hops) == 1:
        note = ""
    same = "over" in given and identical_in(x, y)
    low, high, lower, upper = stats.drawn_together([x, y], value, BOUND_LEVEL)
    estimate = float(value(x, y))
    return Measured(estimate, low, high, lower, upper, len(common), identical=same, note=note)


def _trips(results: Results, given: Mapping[str, Any]) -> Measured:
    """The median round trip of the packets of a run, seconds (`wifu.handed.Trips`). Those of which
    no word came are longer than all others; a run has no value if they are half of its packets.
    """

    def of(cell: Cell, run: int) -> float:
        found = handed.trips(results.series(cell, run), results.outcome(cell, run))
        every = np.append(found.known, np.full(found.never, np.inf))
        median = float(np.median(every)) if every.size else float("nan")
        return median if np.isfinite(median) else float("nan")

    return of_runs(results, given, of)


def _rates(results: Results, given: Mapping[str, Any]) -> Measured:
    """What a node hands down (`take` of `wifu.handed.OF_RATES`); that of `over_node` beside it in
    another cell, or the same.
    """
    take, limit = given["take"], float(given.get("limit", 0.0))

    def at(node: str) -> Callable[[Cell, int], float]:
        def of(cell: Cell, run: int) -> float:
            series, outcome = results.series(cell, run), results.outcome(cell, run)
            return handed.rate_of(series, outcome, node, take, 1, limit)

        return of

    return of_runs(results, given, at(given["node"]), at(given.get("over_node", given["node"])))


def _beyond(results: Results, given: Mapping[str, Any]) -> Measured:
    """The share of the runs of a cell in which a metric is above all that runs of the cells `over`
    have.
    """
    own = runs_of(results, given["metric"], given["of"]).to_numpy(float)
    others = results.sample(given["metric"], given["over"]).dropna().to_numpy(float)
    if not own.size or not others.size:
        raise LabError(f"no run of {words(given['of'])} or of {words(given['over'])} counts")
    least = {"at_least": float(np.nextafter(others.max(), np.inf))}
    return counting(own, least, results.plan.deterministic)


def _ratios(results: Results, given: Mapping[str, Any]) -> Measured:
    """The ratio of two cells by that of two others (`against`), of runs that all four have."""
    metric, against = given["metric"], given["against"]
    cells = [given["of"], given["over"], against["of"], against["over"]]
    whole = pd.concat([runs_of(results, metric, c) for c in cells], axis=1, join="inner")
    arrays = [row[None] for row in whole.to_numpy(float).T]
    if not len(whole):
        raise LabError(f"no runs in common of {words(given['of'])} and three other cells")
    statistic = statistic_of(given)

    def value(*drawn: stats.Floats) -> Any:
        a, b, c, d = (np.asarray(statistic(x, axis=-1))[0] for x in drawn)
        with np.errstate(divide="ignore", invalid="ignore"):
            return a / b / (c / d)

    low, high, lower, upper = stats.drawn_together(arrays, value, BOUND_LEVEL)
    one, two = (float(statistic(x) / statistic(y)) for x, y in (arrays[:2], arrays[2:]))
    note = f"{one:.3g} and {two:.3g}"
    return Measured(float(value(*arrays)), low, high, lower, upper, len(whole), note=note)


HOPWISE: dict[str, Callable[[Results, Mapping[str, Any]], Measured]] = {
    "hops": _hops,
    "trips": _trips,
    "rates": _rates,
    "beyond": _beyond,
    "ratios": _ratios,
}
