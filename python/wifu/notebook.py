"""What notebooks show of a run."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import pandas as pd


def run(frame: pd.DataFrame, outcome: Mapping[str, Any]) -> str:
    """A run, of which there is a row per flow, as HTML."""
    columns = {
        "flow": frame["flow"],
        "from": frame["flow_from"],
        "to": frame["flow_to"],
        "hops": frame["flow_hops"],
        "protocol": frame["flow_protocol"],
        "goodput, Mb/s": (frame["goodput_bps"] / 1e6).map("{:.3f}".format),
        "retransmitted": frame["retransmissions"],
        "timeouts": [f"{n:.0f}" if n == n else "-" for n in frame["timeouts"].astype(float)],
    }
    told = (
        f"<p>{outcome['sim_seconds']:.3f} simulated seconds, trace "
        f"<code>{html.escape(str(outcome.get('trace_hash', '')))}</code></p>"
    )
    return told + str(pd.DataFrame(columns).to_html(index=False, border=0))
