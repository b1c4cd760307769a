"""Round-trip times of cells that are not of the same flows, moments or classes; and times until
connections opened, which not all do.
"""

from __future__ import annotations

from collections.abc import Sequence

from wifu.cells import Cell
from wifu.metrics import column, parts
from wifu.probes import SELECTED
from wifu.rows import Results, alongside, carriers, rows_of

CLASS = 1 / 16
"""How wide the classes are that round-trip times are counted in, of what they begin at."""

OF_SOME = ("srtt", "min_rtt", "rtt_p", "connecting")
"""What metrics begin with that are means of those flows that have a value."""

SAMPLED = 3.0
"""So many times as many round-trip samples by each data segment, and they are not of the same."""


def _mixed(results: Results, row: Sequence[Cell], metric: str) -> tuple[float, str]:
    """By how much the shares of runs in which a flow has a value are apart in cells of a row, if by
    more than is told; and which flow's are so most.
    """
    (base, only), worst = parts(metric), (0.0, "")
    if only is not None or not base.startswith(OF_SOME):
        return worst
    name, rows = column(base), rows_of(results, row)
    if name not in rows:
        return worst
    shares = rows[name].notna().groupby([rows["cell"], rows["flow"]]).mean().unstack("cell")
    shares = shares.loc[:, shares.max() > 0]  # of the others nothing is compared
    for flow, found in shares.iterrows():
        apart = float(found.max() - found.min())
        if apart > max(SELECTED, worst[0]):
            most, least = found.idxmax(), found.idxmin()
            words = (
                f"flow {flow} has a value in {found.max():.0%} of the runs of {most} and "
                f"{found.min():.0%} of those of {least}"
            )
            worst = apart, words
    return worst


def unmixed(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether means in cells that are compared are of different flows."""
    return bool(_mixed(results, cells, metric)[1])


def mixed(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Means of the flows that have a value, of cells in which these are not the same."""
    every = [_mixed(results, row, metric) for row in alongside(results, cells)]
    _, words = max(every, key=lambda found: found[0], default=(0.0, ""))
    if not words:
        return ""
    return (
        f"Means are of the flows that have a value, and {words}: means of different flows are "
        "not compared, and there is neither colour nor bold."
    )


def classes(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That percentiles are of classes."""
    if not parts(metric)[0].startswith("rtt_p"):
        return ""
    return (
        "Round-trip times are counted in classes: percentiles are true to within 1/16 "
        f"({CLASS:.2%}), of which intervals know nothing. Cells that are less apart have neither "
        "colour nor bold."
    )


def same_class(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether the two least of some cells may be of one class."""
    if not parts(metric)[0].startswith("rtt_p"):
        return False
    known = sorted(v for c in cells if (v := results.sample(metric, c.labels).mean()) > 0)
    return len(known) > 1 and bool(known[1] < known[0] * (1 + CLASS))


def _sampled(results: Results, row: Sequence[Cell], metric: str) -> tuple[float, str]:
    """How many times as many round-trip samples by segment some cell of a row takes as another, if
    more than is told; and which these are.
    """
    base, _ = parts(metric)
    none = (0.0, "")
    if base != "srtt" and not base.startswith("rtt_p"):
        return none
    rows, names = carriers(rows_of(results, row), metric), ("rtt_samples", "data_segments")
    if not all(name in rows for name in names):  # of an older lab
        return none
    told = rows[["cell", *names]].astype(dict.fromkeys(names, float)).dropna()
    sums = told.groupby("cell")[[*names]].sum()
    shares = (sums["rtt_samples"] / sums["data_segments"].where(lambda x: x > 0)).dropna()
    if len(shares) < 2 or shares.min() <= 0 or shares.max() / shares.min() <= SAMPLED:
        return none
    most, least = str(shares.idxmax()), str(shares.idxmin())
    words = f"{most} {shares[most]:.2g} by each data segment sent, {least} {shares[least]:.2g}"
    return float(shares.max() / shares.min()), words


def unsampled(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether senders in cells that are compared do not take round-trip samples alike."""
    return bool(_sampled(results, cells, metric)[1])


def samples(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Round-trip times of which senders take one by every acknowledgement, or by hardly any: such
    percentiles are not of the same.
    """
    every = [_sampled(results, row, metric) for row in alongside(results, cells)]
    _, words = max(every, key=lambda found: found[0], default=(0.0, ""))
    if not words:
        return ""
    return (
        f"Senders do not take round-trip samples alike: {words}. "
        "Who takes few takes them at moments of its "
        "own, such as once by each feedback, and what is made of them is of those: they are no "
        "delays of all data. There is neither colour nor bold."
    )
