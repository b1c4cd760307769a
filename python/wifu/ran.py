"""`Run`: what one run gave, for scripts and notebooks."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from wifu import flooding, frames, holding, lastsent, metrics
from wifu.errors import LabError, nearest
from wifu.metrics import Measure
from wifu.runner import RunResult


class Run:
    """What one run gave."""

    def __init__(self, scenario: Mapping[str, Any], result: RunResult) -> None:
        self.scenario = dict(scenario)
        self._result = result
        self.outcome = lastsent.known(json.loads(result.json()), self.scenario)
        self.outcome = holding.told(self.outcome, result, self.scenario)

    def to_pandas(self) -> pd.DataFrame:
        """One row per flow."""
        given = (Measure(), self.scenario)
        rows = [metrics.flow_row(self.outcome, f, *given) for f in self.outcome["flows"]]
        return pd.DataFrame(rows)

    def nodes(self) -> pd.DataFrame:
        """One row per node."""
        return pd.json_normalize(self.outcome.get("nodes") or [])

    def links(self) -> pd.DataFrame:
        """One row per directed radio link."""
        return pd.DataFrame(self.outcome.get("links") or [])

    def hops(self) -> pd.DataFrame:
        """One row per flow, direction and hop: where the packets' time went, `packet_loss`,
        `queue_drops` and `passive_loss` there (see `wifu.metrics.hop_rows`).
        """
        return pd.DataFrame(metrics.hop_rows(self.outcome))

    @property
    def series_names(self) -> list[str]:
        """The recorded series (scenario key `record.series`)."""
        return self._result.series_names()

    def series(self, name: str) -> pd.Series[float]:
        """A recorded series: values over seconds."""
        if name not in self.series_names:
            none = "none were recorded: record.series = true"
            hint = nearest(name, self.series_names) if self.series_names else none
            raise KeyError(f"no series is called {name}; {hint}")
        pairs = np.frombuffer(self._result.series(name), dtype="<f8").reshape(-1, 2)
        return pd.Series(pairs[:, 1], index=pd.Index(pairs[:, 0], name="time_s"), name=name)

    def frames(self) -> pd.DataFrame:
        """The fate of every frame (scenario key `record.frames`), one row per event; see
        `wifu.read_frames`. `node`, `peer` and `other` are the names of nodes. LabError if they were
        not recorded.
        """
        octets = self._result.frames()
        if not octets and not self.scenario.get("record", {}).get("frames"):
            raise LabError("no frames were recorded: record.frames = true")
        names = [n["name"] for n in self.outcome.get("nodes") or []]
        return frames.decode(octets, names)

    @property
    def why(self) -> dict[str, Any]:
        """Why attempts failed (scenario key `record.frames`), as `wifu sim` says it: `words` is its
        sentence, `causes` how many by which cause, `lost_to` what `rts`, `cts` and `ack` were lost
        to, `hidden` who was hidden from whom, `links` the same of each link.
        """
        return why_of(self.outcome, self.scenario)

    def jain(self) -> float:
        """Jain's index over the flows."""
        return metrics.run_row(self.outcome, Measure())["jain"]

    def __repr__(self) -> str:
        """What it is and how it went, in a line."""
        rates = self.to_pandas()["goodput_bps"] / 1e6
        told = ", ".join(f"{v:.3g}" for v in rates[:4]) + (", ..." if len(rates) > 4 else "")
        return f"<Run: {len(rates)} flows, {told} Mb/s, {self.outcome['sim_seconds']:.3g} s>"

    def _repr_html_(self) -> str:
        frame = self.to_pandas()
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
            f"<p>{self.outcome['sim_seconds']:.3f} simulated seconds, trace "
            f"<code>{html.escape(str(self.outcome.get('trace_hash', '')))}</code></p>"
        )
        return told + str(pd.DataFrame(columns).to_html(index=False, border=0))


def why_of(outcome: Mapping[str, Any], scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Why attempts failed, as the outcome of a scenario says it, and why flows may never have made
    one.
    """
    if "why" not in outcome:
        raise LabError("nobody looked at frames: record.frames = true in the scenario")
    why = dict(outcome["why"])
    more = flooding.words(outcome, scenario) + holding.words(outcome, scenario)
    return {**why, "words": (why["words"] or "") + more or why["words"]}
