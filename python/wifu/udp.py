"""Flows of datagrams: what their senders and receivers are told, and what they say."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from wifu import apps_live, arrived
from wifu.arrived import Arrived
from wifu.errors import RunError
from wifu.flows import HEADERS, Flow, Scenario
from wifu.places import Place, Started


def receiver(flow: Flow, place: Place, scenario: Scenario, slower: float) -> list[str]:
    """The command that counts what arrives; with `stop.packets` it tells how much as it goes."""
    gap = arrived.RESOLUTION * slower
    tell = arrived.PROGRESS if "packets" in scenario.get("stop", {}) else 0.0
    each = "1" if arrived.delays(scenario) else "0"
    return [*_script(place), "receive", str(flow.port), f"{gap:.6f}", f"{tell:.3f}", each]


def prepare(flow: Flow, place: Place, slower: float, limit: float) -> None:
    """Draw when a flow that talks sends, as the simulator does; at most so many seconds of it."""
    if not flow.spec:
        return
    ends = [t - flow.start for t in (flow.until, flow.end) if t is not None]
    seconds = max(min([limit, *(t * slower for t in ends)]), 0.0)
    words = apps_live.words(flow.spec, slower)
    told = apps_live.spurts(words, flow.stream, flow.size - HEADERS, seconds)
    place.run("sh", "-c", f"cat > {_file(flow, place)}", text=told)


def sender(
    flow: Flow, place: Place, to: str, full_rate: float, slower: float, points: bool
) -> list[str]:
    """The command that sends; if `points`, it tells how much it had sent when.

    Here it is `ready` before its time, which it is told by `begin`; on another machine, whose clock
    is not ours, it begins at once.
    """
    gap = arrived.RESOLUTION * slower if points else 0.0
    lasts = 0.0 if flow.end is None else (flow.end - flow.start) * slower
    when = "-" if place.remote else str(_moment(flow, place))
    words = [when, to, str(flow.port), str(flow.size - HEADERS), f"{gap:.6f}"]
    if flow.spec:  # over with its file: all of it is sent, however late
        return [*_script(place), "talk", *words, _file(flow, place)]
    rate = (flow.rate or full_rate) / slower
    return [*_script(place), "send", *words, f"{lasts:.9f}", str(flow.octets), str(rate)]


def begin(flow: Flow, place: Place, at: float) -> None:
    """Tell a sender that is ready from when all is due, by time.monotonic()."""
    file = _moment(flow, place)
    whole = file.with_suffix(".new")
    whole.write_text(repr(at))
    whole.rename(file)


def told(
    flow: Flow, client: Started, server: Started, begun: float, slower: float, remote: bool,
    cut: bool,
) -> dict[str, Any]:  # fmt: skip
    """What both said, by the simulator's names; what arrived, and was sent, when.

    `cut`: the sender was told to end.
    """
    try:
        sent = json.loads(client.output().splitlines()[-1])
        got = json.loads(server.output().splitlines()[-1])
    except (json.JSONDecodeError, IndexError):
        said = f"{client.said()}\n{server.said()}"
        raise RunError(f"flow {flow.id}: no report: {said}") from None
    zero, start = begun, (sent["begun"] - begun) / slower
    own = begun
    if remote:
        # Another machine's clock has another zero.
        start = flow.start
        zero = (got["first"] or 0.0) - start * slower
        own = sent["begun"] - start * slower
    out: dict[str, Any] = {
        "start_s": start,
        "bytes": got["bytes"],
        "datagrams_sent": sent["packets"],
        "sent_bytes": sent["bytes"],
    }
    for ours, theirs in (("first_byte_s", "first"), ("last_byte_s", "last")):
        if got[theirs] is not None:
            out[ours] = (got[theirs] - zero) / slower
    if not remote and got.get("one_way"):
        out["one_way"] = apps_live.scaled(got["one_way"], slower)
        if "delays" in got:
            out["delays"] = [((t - zero) / slower, took / slower) for t, took in got["delays"]]
    if not remote and got.get("jitter_s") is not None:
        out["jitter_s"] = got["jitter_s"] / slower
    for name, rows, at in (
        ("arrived", got.get("arrivals"), zero),
        ("offered", sent.get("sends"), own),
    ):
        if rows is not None:
            points = [(t - at, octets) for t, octets, _ in rows]
            counts = [packets for _, _, packets in rows]
            out[name] = Arrived.of(points, 0.0, slower, flow.size - HEADERS, counts)
    # What its own end left unsent was not to be sent.
    complete = bool(flow.octets) and sent["bytes"] >= flow.octets
    over = not cut and (complete or flow.closes)
    out["finished"] = over and got["packets"] == sent["packets"] and "last_byte_s" in out
    if over:  # though some may be lost
        last = out.get("last_byte_s", start)
        out["over_s"] = last if complete or flow.until is None else max(last, flow.until)
    return out


def _moment(flow: Flow, place: Place) -> Path:
    return Path(place.scratch) / f"begin-{flow.id}"


def _file(flow: Flow, place: Place) -> str:
    return f"{place.scratch}/talk-{flow.id}.json"


def _script(place: Place) -> list[str]:
    source = (resources.files("wifu") / "datagrams.py").read_text()
    return [place.python, "-c", source]
