"""Flows of questions larger than their answers: what counts is of who answers, and hardly any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from wifu import values
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.metrics import parts
from wifu.rows import RATES, Results, carriers, flows_of, rows_of
from wifu.stamps import first

MOST = 10
"""Flows and cells that are named."""

OF_ANSWERS = ("retransmissions", "timeouts", "fast_retransmits", "srtt", "min_rtt")
"""Metrics of what the end that sends what counts does or sees itself, and `rtt_p*`."""

SIZES = {"request": 200, "response": 30_000}
"""Bytes of a question and of an answer that does not say how many."""


def asks(cell: Cell, flow: int) -> bool:
    """Whether a flow's octets are those of answers."""
    return dict(flows_of(cell)).get(flow, {}).get("app") == "request"


def _uploads(flow: Mapping[str, Any]) -> bool:
    if flow.get("app") != "request":
        return False
    try:
        asks, answers = (values.octets(flow.get(key, none)) for key, none in SIZES.items())
    except LabError:  # of a template that is not filled
        return False
    return asks > answers


def _flows(cell: Cell, metric: str) -> list[int]:
    """The flows of a cell, of those that a metric is of, whose questions are larger."""
    base, only = parts(metric)
    if base not in (*OF_ANSWERS, *RATES) and not base.startswith("rtt_p"):
        return []
    return [n for n, flow in flows_of(cell) if only in (None, n) and _uploads(flow)]


def answering(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether what a flow of some cells carries mostly is not counted."""
    return any(_flows(cell, metric) for cell in cells)


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Whose the numbers are, and what the other end sent, where that is known."""
    flows = sorted({n for cell in cells for n in _flows(cell, metric)})
    if not flows:
        return ""
    told = (
        "Flows of `request` are of who answers, whose bytes count: of "
        f"flow {first([str(n) for n in flows], MOST)} the questions are larger, and what became of "
        "them is not in it"
    )
    rows = carriers(rows_of(results, cells), metric)
    if parts(metric)[0] in RATES:
        return f"{told} (`asked_bytes` of results.parquet). There is neither colour nor bold."
    if "asked_retransmissions" in rows and rows["asked_retransmissions"].notna().any():
        known = rows["asked_retransmissions"].notna() & rows["flow"].isin(flows)
        by = rows[known].groupby("cell", sort=False)
        means = by["asked_retransmissions"].sum() / by["run"].nunique()
        each = [f"{cell} {mean:.3g}" for cell, mean in means.items()]
        told += f": who asks retransmitted, per run, {first(each, MOST)}"
    return f"{told}. There is neither colour nor bold."


ASKED = 0.1
"""Who asks retransmits more than such a part of both, and counts of who answers alone are told."""


def _asked(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """Which part of what both ends of flows that ask repeated who asks did, by cell."""
    base = parts(metric)[0]
    names = [base, f"asked_{base}"]
    if base not in ("retransmissions", "timeouts") or not all(n in results.flows for n in names):
        return pd.Series(dtype=float)
    rows = carriers(rows_of(results, cells), metric)
    known = {n for cell in cells for n, flow in flows_of(cell) if flow.get("app") == "request"}
    rows = rows[rows["flow"].isin(known) & rows[names[1]].notna()]
    sums = rows[["cell", *names]].astype(dict.fromkeys(names, float)).groupby("cell")[names].sum()
    return (sums[names[1]] / sums.sum(axis=1).where(lambda x: x > 0)).dropna()


def asking(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether who asks repeated so much that counts of who answers say little."""
    return bool((_asked(results, cells, metric) > ASKED).any())


def asked(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    found = _asked(results, cells, metric)
    if not (found > ASKED).any() or any(_flows(cell, metric) for cell in cells):
        return ""
    base = parts(metric)[0]
    return (
        "Flows of `request` are of who answers: who asks has its own "
        f"{base}, {found.min():.0%} to {found.max():.0%} of both by cell (`asked_{base}` of "
        "results.parquet), which are not in it. There is neither colour nor bold."
    )
