"""Goodput in steady state: of batches of equal packets, and of what came after the last of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Outcome = Mapping[str, Any]

INSTANT = 1e-6
"""What takes no longer, in seconds, is no time."""


def kept_batches(
    octets: Sequence[float], ends: Sequence[float], discard: int = 1
) -> tuple[Floats, Floats]:
    """Bytes of the batches of steady state and how long each took, without the first `discard`."""
    spans = np.diff(np.concatenate(([0.0], np.asarray(ends, dtype=float))))
    count = min(len(octets), len(spans))
    kept = np.asarray(octets[:count], dtype=float)[discard:]
    return np.asarray(kept, dtype=float), np.asarray(spans[:count][discard:], dtype=float)


def batch_rates(octets: Sequence[float], ends: Sequence[float], discard: int = 1) -> Floats:
    """Goodput in each batch of steady state, without the first `discard` batches; nan for one that
    took no time, as it came with what ended the one before.
    """
    return rates(*kept_batches(octets, ends, discard))


def rates(octets: Floats, spans: Floats) -> Floats:
    """Bytes by time, bit/s; nan where it took none."""
    found = np.full(spans.shape, np.nan, dtype=np.float64)
    np.divide(octets * 8.0, spans, out=found, where=spans > 0)
    return found


def rest_of(outcome: Outcome, flow: Mapping[str, Any]) -> tuple[float, float]:
    """Bytes of a flow after the last batch that was over, and the time until the run ended: none of
    a run that ended with its packets, or of which nobody says why it ended.
    """
    ends = outcome.get("batches_end_s") or []
    if not ends or outcome.get("end", "packets") == "packets":
        return 0.0, 0.0
    span = float(outcome["sim_seconds"]) - float(ends[-1])
    octets = float(flow.get("bytes") or 0) - sum((flow.get("batches") or [])[: len(ends)])
    return (max(0.0, octets), span) if span > INSTANT else (0.0, 0.0)


def around(outcome: Outcome, flow: Mapping[str, Any], discard: int) -> dict[str, float | None]:
    """When the last of the batches was over that are left out, none if it never was; and the time
    after the last of all.
    """
    ends = outcome.get("batches_end_s") or []
    left_out = float(ends[discard - 1]) if 0 < discard <= len(ends) else None
    return {"left_out_until_s": left_out, "rest_s": rest_of(outcome, flow)[1]}


def steady_batches(
    outcome: Outcome, flow: Mapping[str, Any], discard: int = 1
) -> tuple[Floats, Floats]:
    """Bytes and times of what a flow's steady state is of: the batches, without the first ones, and
    what came after them. Who stalls or dies there was not as fast as the batches say. It counts as
    one more, or to the last if it took less time than they did on the mean.
    """
    batches, ends = flow.get("batches") or [], outcome.get("batches_end_s") or []
    octets, spans = kept_batches(batches, ends, discard)
    more, took = rest_of(outcome, flow)
    if not octets.size or not took:
        return octets, spans
    if took >= spans.mean():
        return np.append(octets, more), np.append(spans, took)
    octets[-1] += more
    spans[-1] += took
    return octets, spans


def steady(outcome: Outcome, flow: Mapping[str, Any], discard: int) -> float:
    """Goodput of a flow in steady state, bit/s."""
    octets, spans = steady_batches(outcome, flow, discard)
    if spans.sum() > 0:
        # Not the mean of the rates: batches have equal packets, so that it favours the quick ones.
        return float(octets.sum() * 8.0 / spans.sum())
    # Stopped by the clock before a batch ended: what came after the batches to discard, per time.
    batches, ends = flow.get("batches") or [], outcome.get("batches_end_s") or []
    known = min(discard, len(ends))
    rest = float(flow.get("bytes") or 0) - sum(batches[:known])
    span = float(outcome["sim_seconds"]) - (ends[known - 1] if known else 0.0)
    return rest * 8.0 / span if span > 0 else 0.0
