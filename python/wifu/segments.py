"""How long segments are: who counts them counts more where they are shorter."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, alongside, carriers, rows_of

SHARES = ("loss", "mac_loss", "mac_retries")
"""Of packets or frames: short ones are lost less often."""

OF_SEGMENTS = ("retransmissions", *SHARES)
"""Metrics that count segments, or what of packets was lost. Timeouts and recoveries are events,
however many it takes."""

ALIKE = 1.1
"""Up to so many times as many octets in a segment, and segments are counted alike."""


def sizes(results: Results, cells: Sequence[Cell], metric: str) -> pd.Series[float]:
    """Octets of the application in a segment of data on the mean, retransmitted ones left out, by
    cell, of a metric that counts segments; of others nothing.
    """
    none = pd.Series(dtype=float)
    if parts(metric)[0] not in OF_SEGMENTS or "flow" not in results.flows:
        return none
    rows = carriers(rows_of(results, cells), metric)
    names = ["sent_bytes", "data_segments", "retransmissions"]
    if not all(name in rows for name in names):  # of an older lab
        return none
    known = rows[["cell", *names]].astype(dict.fromkeys(names, float)).dropna()
    sums = known.groupby("cell")[names].sum()
    new = sums["data_segments"] - sums["retransmissions"]
    return (sums["sent_bytes"].where(lambda x: x > 0) / new.where(lambda x: x > 0)).dropna()


def unlike(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether segments of some cells are longer than those of others, where they are counted."""
    found = sizes(results, cells, metric)
    return bool(len(found) > 1 and found.max() > ALIKE * found.min())


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Counts of segments that are not of one size."""
    worst = pd.Series(dtype=float)
    for group in alongside(results, cells):
        if not unlike(results, group, metric):
            continue
        found = sizes(results, group, metric)
        if worst.empty or found.max() / found.min() > worst.max() / worst.min():
            worst = found
    if worst.empty:
        return ""
    if parts(metric)[0] in SHARES:
        return (
            f"A share of packets, which of compared cells carry {worst.min():.4g} octets "
            f"({worst.idxmin()}) to {worst.max():.4g} ({worst.idxmax()}) on the mean: a short "
            "frame is lost less often, and there are more of them for the same data. There is "
            f"neither colour nor bold where they are more than {ALIKE - 1:.0%} apart."
        )
    return (
        f"Segments are counted, and those of compared cells carry {worst.min():.4g} octets "
        f"({worst.idxmin()}) to {worst.max():.4g} ({worst.idxmax()}) on the mean: the same loss is "
        f"more of the shorter ones. There is neither colour nor bold where they are more than "
        f"{ALIKE - 1:.0%} apart."
    )
