"""Series of runs in real time: numbers of connections and lanes, by the simulator's names.

Daemons tell those of WiFu's connections and lanes (`wifu ss --watch`), kernels those of theirs
(`tcpinfo`). Both are looked at once an interval while the flows run.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from wifu import tcpinfo, values
from wifu.arrived import DELAY, names
from wifu.errors import RunError, nearest
from wifu.flows import Flow, Scenario, flows_of
from wifu.places import Crew, Place, Started
from wifu.traffic import Traffic

USUAL = ("cwnd", "srtt", "offered")
"""What `series = true` records here: of the usual series of the simulator those that are known,
beside what arrived when (`arrived`)."""

ARRIVED = "delivered"
"""The series of flows that receivers record."""

OFFERED = "offered"
"""Bytes sent, each once; senders of datagrams record it themselves."""

UNKNOWN = {"sent": "a point for each segment, which only the simulator has; there is `offered`"}
"""Series of flows that nobody tells here."""

SECONDS = ("gap", "srtt", "rttvar", "last_rtt", "min_rtt", "rto")
RATES = ("rate", "link_rate")
"""Numbers on the board that count the time of clocks on the wall, in s and bit/s."""

OVER = ("FIN-WAIT-2", "TIME-WAIT", "CLOSED")
"""States in which all that was sent is acknowledged, the end of the connection as well: its windows
and times are of nothing any more, as in the simulator, where their series end there."""

PEER = "peer."
INTERVAL = 0.01


@dataclass(frozen=True)
class Wanted:
    """A series: `name` as in the outcome, the number `of` a connection or of the lane at `node`."""

    name: str
    flow: Flow
    node: str
    of: str
    lane: bool = False


def interval_of(scenario: Scenario) -> float:
    """Seconds of model time between two looks. ValueError if it is no time."""
    given = scenario.get("record", {}).get("interval")
    return INTERVAL if given is None else max(values.seconds(given), 0.001)


def check(scenario: Scenario, flows: Sequence[Flow], nodes: Sequence[str]) -> None:
    """ValueError, naming the key, if a series is named that nobody here can tell.

    That the protocols of WiFu's know the names, the simulator's check has told. `nodes`: what
    nodes tell of themselves (`queues`).
    """
    for n, name in enumerate(names(scenario), 1):
        where = f'record.series.{n}: "{name}"'
        head, _, rest = name.partition(".")
        number, _, of = rest.partition(".")
        what = rest.rpartition(".")[2]
        if head == "node" and what not in nodes:
            has = f"there is {', '.join(nodes)}" if nodes else "nothing is known of such hosts"
            raise ValueError(f"{where}: nodes do not tell {what} here; {has}")
        if head != "flow":
            continue
        if of in (ARRIVED, OFFERED, DELAY):
            continue
        if of in UNKNOWN:
            raise ValueError(f"{where}: {UNKNOWN[of]}")
        meant = [f for f in flows if number in ("*", str(f.id))]
        kernels = [f for f in meant if f.kernel]
        if kernels == meant and of.removeprefix(PEER) not in tcpinfo.NAMES and meant:
            hint = nearest(of.removeprefix(PEER), tcpinfo.NAMES)
            raise ValueError(f"{where}: the kernel's TCP does not tell {of} here; {hint}")
    interval_of(scenario)


def wanted(scenario: Scenario, flows: Sequence[Flow], nodes: Sequence[str]) -> list[Wanted]:
    """All series that are to be recorded."""
    found: dict[str, Wanted] = {}
    for name in names(scenario):
        number, of = "*", ""
        if name.startswith("node."):
            continue
        if name != "all":
            _, number, of = name.split(".", 2)
        for flow in flows:
            if number not in ("*", str(flow.id)) or flow.protocol == "udp":
                continue
            for one in [of] if of else USUAL:
                if one in (ARRIVED, DELAY):
                    continue
                series = _series(flow, one, nodes)
                if not flow.kernel or (series.of in tcpinfo.NAMES and not series.lane):
                    found.setdefault(series.name, series)
    return list(found.values())


def _series(flow: Flow, of: str, nodes: Sequence[str]) -> Wanted:
    name, (first, _, rest) = f"flow.{flow.id}.{of}", of.partition(".")
    sender, receiver = flow.source, flow.target
    if flow.app == "request":  # of which the answers count
        sender, receiver = receiver, sender
    if of.startswith(PEER):
        return Wanted(name, flow, receiver, rest)
    if rest and first in nodes:
        return Wanted(name, flow, first, rest, lane=True)
    return Wanted(name, flow, sender, of)


class Watch:
    """Looks at the connections of one run."""

    def __init__(
        self, places: Mapping[str, Place], scenario: Scenario, flows: Sequence[Flow],
        dilation: float,
    ) -> None:  # fmt: skip
        """Nothing is looked at yet."""
        self.places, self.flows, self.dilation = places, flows, dilation
        self.wanted = wanted(scenario, flows, list(places))
        self.interval = interval_of(scenario) * dilation
        self._started: list[tuple[str, bool, Started]] = []
        self._begun: dict[str, float] = {}

    def prepare(self, crew: Crew) -> None:
        """Start looking."""
        for node in sorted({w.node for w in self.wanted}):
            place = self.places[node]
            ours = [w for w in self.wanted if w.node == node]
            names = sorted({w.of for w in ours if not w.flow.kernel})
            if names:
                words = ["ss", "--socket", place.door, "--json", "--watch", ",".join(names)]
                words += ["--interval", f"{self.interval:.4f}"]
                self._started.append((node, False, crew.start(place, place.program, *words)))
            ends = {n for w in ours if w.flow.kernel for n in (w.flow.source, w.flow.target)}
            if ends:
                peers = (self.places[n].address for n in sorted(ends - {node}))
                told = [f"{self.interval:.4f}", *peers]
                program = crew.start(place, place.python, "-c", _source(), "watch", *told)
                self._started.append((node, True, program))

    def begin(self) -> None:
        """Now is the beginning of the run, by the clock of each host."""
        for node in {node for node, _, _ in self._started}:
            place = self.places[node]
            if not place.remote:
                self._begun[node] = time.time()
                continue
            before = time.monotonic()
            there = float(place.run("date", "+%s.%N"))
            self._begun[node] = there - (time.monotonic() - before) / 2

    def end(self) -> None:
        """Look no more: daemons end soon. RunError if it was over before."""
        for _, _, program in self._started:
            if not program.alive():
                raise RunError(f"series are not recorded any more: {program.said()}")
            program.stop()

    def series(self, ends: Mapping[int, tuple[str, str]]) -> dict[str, bytes]:
        """What was seen: by name, pairs of little-endian doubles (seconds, value).

        `ends`: addresses and ports of each flow's sender and receiver; the sender's is empty where
        connections come and go, of which the last one counts. Nothing for a series that nobody ever
        told; NaN for what was not known yet.
        """
        made = {}
        for node, kernel, program in self._started:
            rows = [r for r in _rows(program) if r["time"] >= self._begun[node]]
            for one in self.wanted:
                if one.node == node and one.flow.kernel == kernel:
                    points = self._points(one, rows, ends.get(one.flow.id))
                    if points:
                        made[one.name] = np.array(points, dtype="<f8").tobytes()
        return made

    def _points(
        self, one: Wanted, rows: Sequence[Mapping[str, Any]], ends: tuple[str, str] | None
    ) -> list[tuple[float, float]]:
        if ends is None:
            return []
        # Lanes are named by the direction of their data, connections by who tells.
        ours = ends if one.lane or one.node == one.flow.source else (ends[1], ends[0])
        zero, points = self._begun[one.node], list[tuple[float, float]]()
        told = [r for r in rows if bool(r.get("lane")) == one.lane and one.of in r["values"]]
        before = last = 0.0
        total = one.name == f"flow.{one.flow.id}.{OFFERED}"
        for row, fresh in present(told, ours):
            if row.get("state") in OVER and not (one.lane or total) and points:
                continue
            value = self._scaled(one, row["values"][one.of])
            if total:  # over all connections of the flow
                before += last if fresh else 0.0
                last, value = value, before + value
            points.append(((row["time"] - zero) / self.dilation, value))
        return rises(points) if total else points

    def _scaled(self, one: Wanted, value: float | None) -> float:
        """In model time. What a part's own number counts is not known: it stays as it is."""
        if value is None:
            return math.nan
        if one.of in SECONDS:
            return value / self.dilation
        return value * (self.dilation if one.of in RATES else 1.0)


def present(
    rows: Sequence[Mapping[str, Any]], ends: tuple[str, str]
) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """The rows of the connection between these ends, in order, and whether it is another one than
    before. An end that is empty is any: once there is a new connection, the old ones are over.
    """
    now, over = None, set[tuple[str, str]]()
    for row in rows:
        both = (row["local"], row["remote"])
        fits = all(end in ("", found) for end, found in zip(ends, both, strict=True))
        if fits and both not in over:
            fresh = both != now
            if fresh and now is not None:
                over.add(now)
            now = both
            yield row, fresh


def rises(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those points at which there is more than before, as the simulator records what is sent."""
    found, most = list[tuple[float, float]](), 0.0
    for at, value in points:
        if value > most:
            found.append((at, value))
            most = value
    return found


def completed(points: bytes, row: Mapping[str, Any]) -> bytes:
    """What a flow offered, to its end if it is finished: all its octets had been sent by then.

    What connections sent that came and went between two looks is missing before.
    """
    pairs = np.frombuffer(points, dtype="<f8").reshape(-1, 2).tolist()
    at, most = pairs[-1] if pairs else (0.0, 0.0)
    if not row["finished"] or row["bytes"] <= most:
        return points
    end = (max(at, row["last_byte_s"]), row["bytes"])
    return np.array([*pairs, end], dtype="<f8").tobytes()


def watched(
    traffic: Traffic, places: Mapping[str, Place], scenario: Scenario, dilation: float, crew: Crew
) -> dict[str, Any]:
    """Run the flows, and record the series that the scenario names: in the outcome, `series`."""
    flows, watch = flows_of(scenario), None
    if wanted(scenario, flows, list(places)):
        watch = Watch(places, scenario, flows, dilation)
        traffic.prepares.append(watch.prepare)
        traffic.begins.append(watch.begin)
        traffic.overs.append(watch.end)
    outcome = traffic.run(crew)
    named, delivery = set(names(scenario)), scenario.get("record", {}).get("delivery")
    told = {}
    for name, points in outcome.get("series", {}).items():
        of = name.rpartition(".")[2]
        if named & {"all", name, f"flow.*.{of}"} or (delivery and of == ARRIVED):
            told[name] = points
    if watch is not None:
        told |= watch.series(traffic.ends)
        for row in outcome["flows"]:
            name = f"flow.{row['id']}.{OFFERED}"
            if row["protocol"] != "udp" and any(w.name == name for w in watch.wanted):
                told[name] = completed(told.get(name, b""), row)
    return {**outcome, "series": {name: points for name, points in told.items() if points}}


def _rows(program: Started) -> Iterator[dict[str, Any]]:
    for line in program.output().splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue  # the last one, which its end cut short
        yield row


def _source() -> str:
    return (resources.files("wifu") / "tcpinfo.py").read_text()
