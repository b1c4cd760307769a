"""Applications on real hosts: what `wifu perf --app` is told of a flow, and what it says of it.

The applications themselves are the simulator's own (crates/wifu-sim/src/traffic.rs), and so is what
they draw: each flow has the random stream that it has in the simulator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from wifu import values
from wifu.runner import split

KEYS = {
    "http": ("pause", "count", "shape", "scale", "cap", "persistent"),
    "onoff": ("rate", "on", "off", "time"),
    "request": ("request", "response", "pause", "count"),
    "trace": ("rows",),
}
"""Applications beside steady transfers, and what may be said of each."""

FOREVER = 86_400
"""Seconds (a day) that a flow lasts which the run's end cuts short."""

PATIENCE = 600.0
"""Seconds of the run that a connection may take to open. A TCP gives up sooner by itself, as it
does in the simulator."""

ENDLESS = 10**15
"""Bytes (a petabyte) that no transfer comes to the end of."""

_TIMES = ("pause", "on", "off")
_OCTETS = ("scale", "cap", "request", "response")


def random(scenario: Mapping[str, Any]) -> bool:
    """Whether a flow of the scenario draws something that the simulator would draw for it."""
    flows = scenario.get("flow", [])
    return any(f.get("app") in KEYS or f.get("jitter") for f in flows)


def draws(scenario: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each flow when it starts in the simulator (`start_s`), and its random `stream`.

    Nothing of any if none draws. Where the topology is not that of the flows, as it need not be on
    hosts that are just there, their nodes are those that flows name.
    """
    if not random(scenario):
        return [{} for _ in scenario.get("flow", [])]
    plain, _ = split(scenario)
    wanted = {k: plain[k] for k in ("seed", "run", "topology", "radio", "flow") if k in plain}
    path = wanted.get("topology", {}).get("file")
    changed = Path(path).stat().st_mtime_ns if path and Path(path).exists() else 0
    names = () if "topology" in wanted else named(scenario)
    text = json.dumps(wanted)
    try:
        drawn = _draws(text, names, changed)
    except ValueError as e:
        if "no node `" not in str(e):
            raise
        drawn = _draws(text, named(scenario), changed)
    found: list[dict[str, Any]] = json.loads(drawn)
    return found


def named(scenario: Mapping[str, Any]) -> tuple[str, ...]:
    """The nodes that flows name, in order: all that is known of a network that is just there."""
    ends = [str(f[key]) for f in scenario.get("flow", []) for key in ("from", "to") if key in f]
    return tuple(sorted(set(ends), key=lambda name: (len(name), name)))


@lru_cache(maxsize=64)
def _draws(scenario: str, names: tuple[str, ...], changed: int) -> str:
    from wifu import _native

    return _native.draws(scenario, list(names))


def spurts(words: str, stream: str, payload: int, seconds: float) -> str:
    """When a flow of datagrams that talks sends them, as JSON (`_native.spurts`)."""
    from wifu import _native

    return _native.spurts(words, stream, payload, seconds)


ANSWER = 30_000
"""Bytes of an answer of `request` that does not say it (crates/wifu-sim/src/traffic.rs)."""


def answer(given: Mapping[str, Any]) -> float:
    """Bytes of an answer of a flow of `request`."""
    return values.octets(given.get("response", ANSWER))


def finite(given: Mapping[str, Any]) -> bool:
    """Whether an application comes to an end by itself."""
    return given["app"] == "trace" or "count" in given


def writing(octets: int, seconds: float) -> dict[str, Any]:
    """A transfer that writes so many octets (0: without end) until its own end, so late.

    That is a table whose first row is all of it. What is written then still arrives; that there is
    another row keeps the table open until then.
    """
    return {"app": "trace", "rows": [[0.0, octets or ENDLESS], [seconds + 1.0, 0]]}


def words(given: Mapping[str, Any], slower: float) -> str:
    """The application as `--app` takes it, `slower` times slower."""
    found = [str(given["app"])]
    for key in KEYS[given["app"]]:
        if key in given and key != "time":
            found.append(f"{key}={_word(key, given[key], slower)}")
    return ",".join(found)


def _word(key: str, value: Any, slower: float) -> str:
    if key in _TIMES:
        return f"{values.seconds(value) * slower:.9f}"
    if key in _OCTETS:
        return str(round(values.octets(value)))
    if key == "rate":
        return str(round(values.rate(value) / slower))
    if key == "persistent":
        return str(bool(value)).lower()
    if key == "rows":
        return "+".join(f"{float(t) * slower:.9f}:{int(n)}" for t, n in value)
    return str(value)


def options(
    given: Mapping[str, Any], stream: str, lasts: float | None, slower: float
) -> list[str]:  # fmt: skip
    """Options of `wifu perf` for an application that begins nothing new after so many seconds."""
    found = ["--app", words(given, slower)]
    found += ["--stream", stream] if stream else []
    if lasts is not None:
        found += ["-t", f"{lasts * slower:.9f}"]
    elif not finite(given):
        found += ["-t", str(FOREVER)]
    return found


def told(report: Mapping[str, Any], zero: float, slower: float) -> dict[str, Any]:
    """What a report says of its application, by the simulator's names.

    `zero`: when it began, seconds of the run. What it does not know is left out.
    """
    app = report["wifu"]["application"]
    out: dict[str, Any] = {
        "start_s": zero,
        "finished": bool(app["finished"]),
        "connections": app["connections"],
        "fault": app.get("fault"),
        "requests": [
            {
                "start_s": zero + r["start_s"] / slower,
                "bytes": r["bytes"],
                "delay_s": r["delay_s"] / slower,
            }
            for r in app["requests"]
        ],
    }
    if "connected_s" in app:
        out["connected_s"] = zero + app["connected_s"] / slower
    if "fault_s" in app:
        out["fault_s"] = zero + app["fault_s"] / slower
    if "retransmits" in app:
        out["retransmissions"] = app["retransmits"]
    out |= counted(app, slower)
    if "rtt" in app:
        out["srtt_s"] = app["rtt"] / 1e6 / slower
    if "snd_cwnd" in app:
        out["cwnd"] = app["snd_cwnd"]
    return out


def counted(stack: Mapping[str, Any], slower: float) -> dict[str, Any]:
    """What a sender's stack counted that iperf3 does not report."""
    out: dict[str, Any] = {}
    if "timeouts" in stack:
        out["timeouts"] = int(stack["timeouts"])
    if "smallest_rtt" in stack:
        out["min_rtt_s"] = stack["smallest_rtt"] / 1e6 / slower
    for key in ("segments", "data_segments", "feedback_segments", "sent_bytes", "fast_retransmits"):
        if key in stack:
            out[key] = int(stack[key])
    if "timeout_s" in stack:
        out["timeout_s"] = stack["timeout_s"] / slower
    if "limited_s" in stack:
        out["limited_s"] = {name: s / slower for name, s in stack["limited_s"].items()}
    if "round_trips" in stack:
        out["rtt"] = scaled(stack["round_trips"], slower)
    return out


def scaled(percentiles: Mapping[str, float], slower: float) -> dict[str, float]:
    """Percentiles of delays that were measured `slower` times slower, by the simulator's names."""
    return {k: v / slower if k.endswith("_s") else v for k, v in percentiles.items()}


def segment(report: Mapping[str, Any], asked: int | None) -> int | None:
    """Bytes of a full segment, as far as it is known: `asked` for, or as the stack says."""
    app = report.get("wifu", {}).get("application") or {}
    said = app.get("mss") or report.get("start", {}).get("tcp_mss_default")
    return int(said) if said else asked


def cut(row: dict[str, Any], end: float) -> None:
    """Leave out of a flow what came to its end only after the run did."""
    before = row.get("requests")
    if before:
        kept = [r for r in before if r["start_s"] + r["delay_s"] <= end]
        if len(kept) < len(before):
            row["requests"], row["finished"] = kept, False
