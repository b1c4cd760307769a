"""When the flows of a run were there, and which of them never connected or got nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wifu.api import Results
from wifu.cells import Cell


class There(NamedTuple):
    """When the flows of a run were there."""

    begin: Mapping[int, float]
    last: Mapping[int, float]
    """Until when those last that do not come to an end: until the run does, whatever they get."""
    done: Mapping[int, tuple[float, float]]
    """Of those that finished when the last byte came, and how many had by then."""
    nothing: frozenset[int]
    """Those of which nothing arrived, though they were to begin before the end."""
    apart: frozenset[int]
    """Those of them that never connected."""


def there_of(results: Results, cell: Cell, run: int) -> There:
    """When the flows of a run were there."""
    outcome = results.outcome(cell, run)
    whole, flows = float(outcome["sim_seconds"]), {int(f["id"]): f for f in outcome["flows"]}
    begin = {n: float(f.get("start_s") or 0.0) for n, f in flows.items()}
    nothing = [n for n, f in flows.items() if f.get("bytes") == 0 and begin[n] < whole]
    # Datagrams need no connection; in real time whoever had none, and began, has no time of it.
    real = results.plan.substrate != "sim"
    calls = [
        n
        for n in nothing
        if flows[n].get("protocol") != "udp"
        if "connected_s" in flows[n] or (real and flows[n].get("start_s") is not None)
    ]
    return There(
        begin,
        {n: whole for n, f in flows.items() if not f.get("finished")},
        {
            n: (float(f["last_byte_s"]), float(f["bytes"]))
            for n, f in flows.items()
            if f.get("finished") and f.get("last_byte_s") is not None and f.get("bytes")
        },
        frozenset(nothing),
        frozenset(n for n in calls if flows[n].get("connected_s") is None),
    )


def apart(panels: Sequence[tuple[str, There]]) -> str:
    """What a caption says of flows that never connected."""
    found: dict[frozenset[int], list[str]] = {}
    for title, flows in panels:
        if flows.apart:
            found.setdefault(flows.apart, []).append(title)
    told = ""
    for missing, titles in found.items():
        *most, last = map(str, sorted(missing))
        what = f"Flows {', '.join(most)} and {last}" if most else f"Flow {last}"
        where = ", in any panel" if len(panels) > 1 else ""
        if len(titles) < len(panels):
            where = f" in {'; '.join(titles)}"
        told += f" {what} never connected{where}."
    return told
