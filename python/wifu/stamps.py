"""What `run.json` has to be said of: stamps of runs, attempts at them, and what they warned of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MANY_INVALID = 0.2
"""Where more than this share of a cell's attempts was rejected, the report warns."""


def warned(manifest: Mapping[str, Any]) -> list[str]:
    """What runs warned of, and in which cells."""
    given: Mapping[str, Sequence[str]] = manifest.get("warnings", {})
    return [f"{words} (cells {first(names)})." for words, names in given.items()]


def stamps_of(manifest: Mapping[str, Any]) -> str:
    """How many runs have which stamp: "9 VALID, 1 SUSPECT"; nothing if none has one."""
    stamps = manifest.get("stamps", {})
    return ", ".join(f"{n} {k}" for k, n in stamps.items() if n)


def stamped(manifest: Mapping[str, Any]) -> list[str]:
    """What is to be said of stamps: those of runs, why, and those of rejected attempts."""
    told = []
    stamps = manifest.get("stamps", {})
    if stamps.get("SUSPECT") or stamps.get("INVALID"):
        words = ", ".join(f"{n} {k}" for k, n in stamps.items())
        meaning = ["SUSPECT ones count"] if stamps.get("SUSPECT") else []
        if stamps.get("INVALID"):
            meaning.append("INVALID ones failed, for no attempt at them came out better")
        told.append(f"Stamps of the runs: {words}. {'; '.join(meaning)}.")
    if unserved := manifest.get("unserved"):
        cells = [f"{k} {n}" for k, n in unserved.items()]
        told.append(
            f"Relays passed on packets of a protocol that they do not serve{_which(manifest)}, so "
            "its handlers and lanes did less than they should: what they collect for its ends is "
            "of the other nodes alone, and what nodes wait for from one another stays away. "
            f"SUSPECT runs by cell: {first(cells)}."
        )
    rejected = manifest.get("rejected")
    if not rejected or not rejected["attempts"]:
        return told
    runs, failed = rejected["runs"], rejected["failed"]
    shares = {k: c["invalid"] / c["attempts"] for k, c in rejected["cells"].items()}
    worst = sorted(shares, key=lambda name: -shares[name])
    cells = [
        f"{k} {rejected['cells'][k]['invalid']} of {rejected['cells'][k]['attempts']}"
        for k in worst
    ]
    told.append(
        f"Attempts stamped INVALID: {rejected['attempts']}, of {runs} runs; {runs - failed} of "
        f"these runs came out, {failed} failed. By cell, of all attempts: {first(cells)}."
    )
    if suspicious := [k for k in worst if shares[k] > MANY_INVALID]:
        told.append(
            f"More than {MANY_INVALID * 100:g} % of the attempts were INVALID in "
            f"{first(suspicious)}. Lateness may depend on the load that a run itself makes, so "
            "such cells deserve suspicion; raise `dilation`."
        )
    return told


def _which(manifest: Mapping[str, Any]) -> str:
    """Of what protocols, and which relays, in parentheses; nothing where nothing is known."""
    known: Mapping[str, Sequence[str]] = manifest.get("unserved_at", {})
    named = [f"{k} at {first(nodes)}" if nodes else k for k, nodes in known.items()]
    return f" ({'; '.join(named)})" if named else ""


def first(names: Sequence[str], most: int = 10) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
