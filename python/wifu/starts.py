"""How much later flows begin on hosts than simulated, and how far apart."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from wifu.metrics import parts
from wifu.rows import Results

OF_STARTS = ("connecting", "min_rtt")
"""What the first packets of flows that begin at once decide."""

LEAST_S = 0.005
"""Less than this is of no account: a frame or two."""


def caution(first: Results, other: Results, metrics: Iterable[str]) -> str:
    """That flows which begin at once simulated do not where programs have to be started; nothing
    where they do, where no run has two of them, and where no metric is decided by it.
    """
    if not any(parts(metric)[0] in OF_STARTS for metric in metrics):
        return ""
    keys = ["cell", "run"]
    one, two = (_starts(results) for results in (first, other))
    both = one.to_frame("asked").join(two.to_frame("began"), how="inner")
    # Only those that begin at once meet with what they send first.
    keys.append("moment")
    both["moment"] = (both["asked"] / LEAST_S).round()
    both = both[both.groupby(keys)["asked"].transform("size") > 1]
    if both.empty or first.plan.substrate != "sim":
        return ""
    both["late"] = both["began"] - both["asked"]
    late = both["late"]
    apart = both.groupby(keys)["late"].agg(lambda of: of.max() - of.min())
    if max(late.median(), apart.median()) < LEAST_S:
        return ""
    place = other.plan.substrate
    return (
        f"On {place} flows begin when their programs run: {late.median() * 1e3:.0f} ms later than "
        f"on {first.plan.substrate} (median; {late.max() * 1e3:.0f} ms at most), and those of a "
        f"run {apart.median() * 1e3:.0f} ms apart ({apart.max() * 1e3:.0f} ms at "
        "most). What the first packets of flows wait for, which decides "
        f"{' and '.join(OF_STARTS)}, is not the same."
    )


def _starts(results: Results) -> pd.Series[float]:
    """When each flow began, in seconds."""
    rows = results.flows
    rows = rows[(rows["status"] == "ok") & rows["start_s"].notna()]
    return rows.set_index(["cell", "run", "flow"])["start_s"]
