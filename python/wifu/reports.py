"""What the programs of a run say of themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wifu.errors import RunError
from wifu.places import Started


def core(program: Started) -> dict[str, Any]:
    """What a `wifu core` says of itself at its end."""
    program.stop()
    try:
        report: dict[str, Any] = json.loads(program.output().splitlines()[-1])
    except (json.JSONDecodeError, IndexError):
        raise RunError(f"wifu core did not report: {program.said()}") from None
    return report


def counted(daemon: Started) -> dict[str, Any]:
    """What a daemon says of its node at its end, by the simulator's names."""
    daemon.stop()
    for line in reversed(daemon.errors.read_text(errors="replace").splitlines()):
        _, found, counted = line.partition("counted: ")
        if found:
            all_ = json.loads(counted)
            known = ("packets", "handlers", "lanes", "unserved", "monitor", "host")
            return {key: all_[key] for key in known}
    raise RunError(f"wifu daemon did not report: {daemon.said()}")


def dropped(daemons: Mapping[str, Any]) -> list[str]:
    """What is to be said of daemons that lost packets by themselves: a sentence for each host.

    A sender takes that for a loss of the network, and nothing else tells of it. How many they were
    is in the outcome (`daemons`); without it the same is said of all runs of a cell.
    """
    whys = {"queue": "a device or the kernel took no more", "host": "too many waited for the host"}
    return [
        f"The daemon of {name} dropped packets, because {why} (`daemons.{name}.packets.{key}`)"
        for name, told in daemons.items()
        for key, why in whys.items()
        if told.get("packets", {}).get(key)
    ]


def last_interval(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """The last row of a report of `wifu perf` that knows a round-trip time."""
    for interval in reversed(report.get("intervals") or []):
        for stream in interval.get("streams") or []:
            if stream.get("rtt"):
                found: Mapping[str, Any] = stream
                return found
    return {}


def recoveries(text: str) -> dict[str, int]:
    """By the simulator's names, what a kernel's TCP counts of all its connections together, in
    /proc/net/netstat: timeouts, and recoveries that began without one."""
    fast = ("TCPRenoRecovery", "TCPSackRecovery")
    return {
        "timeouts": counter(text, "TCPTimeouts"),
        "fast_retransmits": sum(counter(text, name) for name in fast),
    }


def counter(text: str, name: str) -> int:
    """A counter of the kernel's TCP in /proc/net/netstat."""
    lines = [line.split() for line in text.splitlines() if line.startswith("TcpExt:")]
    return int(dict(zip(lines[0], lines[1], strict=True))[name])
