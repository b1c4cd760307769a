"""What had arrived when: batches of steady state, and the end of a run that counts packets.

For runs in real time, whose receivers record it; the simulator counts the same by itself. Also
which series a scenario names, as that decides what senders record and what is kept.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wifu import apps_live, values
from wifu.errors import RunError
from wifu.flows import Flow
from wifu.places import Started

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESOLUTION = 0.001
"""Seconds of model time between two points of a series."""

LARGEST = 1460
"""Bytes of a segment where nobody has said it yet."""

PROGRESS = 0.25
"""Seconds between two reports of how much has arrived, where that decides about the end."""


@dataclass(frozen=True)
class Arrived:
    """Octets of a flow that its receiver's application had, or its sender had sent, by the times,
    in seconds of the run.

    `size`: octets of a full segment or datagram; none if nobody knows. `counts`: packets by then,
    where they were counted.
    """

    times: Floats
    octets: Floats
    size: int | None
    counts: Ints | None = None

    @classmethod
    def of(
        cls, points: Sequence[Sequence[float]], zero: float, slower: float, size: int | None,
        counts: Sequence[int] | None = None,
    ) -> Arrived:  # fmt: skip
        """From points of (seconds since it began at `zero`, bytes), `slower` times slower."""
        pairs = np.asarray(points, dtype=np.float64).reshape(-1, 2)
        whole = None if counts is None else np.asarray(counts, dtype=np.int64)
        return cls(zero + pairs[:, 0] / slower, pairs[:, 1], size, whole)

    def by(self, time: float) -> float:
        """Bytes by then."""
        at = int(np.searchsorted(self.times, time, side="right"))
        return float(self.octets[at - 1]) if at else 0.0

    def packets(self) -> Ints:
        """Full segments, or datagrams, so far, at each time."""
        if self.counts is not None:
            return self.counts
        if not self.size:
            raise RunError("nobody knows how long a full segment is, so packets cannot be counted")
        return np.asarray(self.octets // self.size, dtype=np.int64)

    def raw(self, end: float) -> bytes:
        """The series until `end`, as those of the simulator: pairs of little-endian doubles."""
        kept = self.times <= end
        return np.column_stack([self.times[kept], self.octets[kept]]).astype("<f8").tobytes()


def names(scenario: Mapping[str, Any]) -> list[str]:
    """The series that a scenario names; `all` for the usual ones."""
    record = scenario.get("record", {})
    given = record.get("series", False)
    found = [str(n) for n in given] if isinstance(given, list) else ["all"] if given else []
    return found + (["flow.*.cwnd", "flow.*.srtt"] if record.get("cwnd") else [])


DELAY = "delay"
"""The series of how long each datagram was on its way, at the time when it arrived."""


def delays(scenario: Mapping[str, Any]) -> bool:
    """Whether receivers of datagrams have to record how long each was on its way."""
    return any(n.startswith("flow.") and n.endswith(f".{DELAY}") for n in names(scenario))


def transits(
    flows: Sequence[Mapping[str, Any]], found: Sequence[Any], scenario: Mapping[str, Any],
    end: float,
) -> dict[str, bytes]:  # fmt: skip
    """The series of delays of datagrams until `end`, as far as they are wanted and known."""
    made, named = {}, set(names(scenario))
    for flow, points in zip(flows, found, strict=True):
        name = f"flow.{flow['id']}.{DELAY}"
        if points is not None and named & {name, f"flow.*.{DELAY}"}:
            pairs = np.asarray(points, dtype="<f8").reshape(-1, 2)
            made[name] = pairs[pairs[:, 0] <= end].tobytes()
    return made


def outlasted(flow: Flow, row: Mapping[str, Any], found: Arrived | None) -> dict[str, float] | None:
    """What of a flow came only after its time (`time`, `stop_at`), from its buffers; none if
    nothing did. Datagrams have no buffer; applications that ask complete what they asked for."""
    steady = flow.protocol != "udp" and flow.app in ("bulk", "file", "stream")
    if not steady or found is None or flow.until is None or flow.until <= row["start_s"]:
        return None
    late = row["bytes"] - found.by(flow.until)
    if late <= 0 or row.get("last_byte_s", 0.0) <= flow.until:
        return None
    return {"stop_s": flow.until, "bytes": int(late), "seconds": row["last_byte_s"] - flow.until}


def offers(scenario: Mapping[str, Any]) -> bool:
    """Whether senders of datagrams have to record what they send when."""
    return any(name == "all" or name.endswith(".offered") for name in names(scenario))


def packets_end(arrived: Sequence[Arrived], packets: int) -> float | None:
    """When all flows together had delivered so many packets; none if they never had."""
    times, _, counts = _together(arrived)
    at = int(np.searchsorted(np.cumsum(counts), packets))
    return float(times[at]) if at < times.size else None


def batches(
    arrived: Sequence[Arrived], batch: int, end: float
) -> tuple[list[float], list[list[int]]]:  # fmt: skip
    """When batches ended by `end`, and the octets of each flow in each of them.

    A batch ends each time all flows together have delivered so many more packets.
    """
    times, flows, counts = _together(arrived)
    ends: list[float] = []
    octets: list[list[int]] = [[] for _ in arrived]
    before, delivered, following = [0.0] * len(arrived), 0, batch
    total = [0.0] * len(arrived)
    points = [iter(a.octets) for a in arrived]
    for at, flow, count in zip(times, flows, counts, strict=True):
        if at > end:
            break
        total[flow] = float(next(points[flow]))
        delivered += int(count)
        while delivered >= following:
            following += batch
            ends.append(float(at))
            for k, sum_ in enumerate(total):
                octets[k].append(int(sum_ - before[k]))
                before[k] = sum_
    return ends, octets


def _together(arrived: Sequence[Arrived]) -> tuple[Floats, Ints, Ints]:
    """All points in order of time: when, of which flow, how many packets more."""
    times = np.concatenate([np.empty(0), *(a.times for a in arrived)])
    flows = np.concatenate(
        [np.empty(0, dtype=np.int64), *(np.full(a.times.size, k) for k, a in enumerate(arrived))]
    )
    counts = np.concatenate(
        [np.empty(0, dtype=np.int64), *(np.diff(a.packets(), prepend=0) for a in arrived)]
    )
    order = np.argsort(times, kind="stable")
    return times[order], flows[order].astype(np.int64), counts[order].astype(np.int64)


class Progress:
    """How many packets have arrived so far, by the rows that servers write; at least so many."""

    # The summary in the end repeats what rows have said.
    _ROW = re.compile(r"sec +([0-9.]+) ([KMGT]?)Bytes(?!.*\b(?:sender|receiver)\b)")
    _DATAGRAMS = re.compile(r"^so far (\d+)$", re.MULTILINE)
    _UNITS: ClassVar = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}

    def __init__(
        self, servers: Mapping[int, Started], sizes: Mapping[int, int | None], packets: int,
        answers: Mapping[int, float] | None = None,
    ) -> None:  # fmt: skip
        """`answers`: of flows whose servers answer, octets of an answer. Their rows say what was
        written: all of it has arrived but the last answer, for without that nothing is asked.
        """
        self._servers, self._sizes, self._packets = servers, sizes, packets
        self._answers = answers or {}
        self._datagrams = dict.fromkeys(servers, 0)
        self._read = dict.fromkeys(servers, 0)
        self._octets = dict.fromkeys(servers, 0.0)
        self._next = 0.0

    def reached(self) -> bool:
        """Whether there are as many as wanted. It looks now and then only."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + PROGRESS / 2
        for number, server in self._servers.items():
            with server.log.open("rb") as file:
                file.seek(self._read[number])
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[number] += len(whole + newline)
            text = whole.decode(errors="replace")
            for amount, unit in self._ROW.findall(text):
                # Rows have three digits.
                self._octets[number] += 0.99 * float(amount) * self._UNITS[unit]
            for count in self._DATAGRAMS.findall(text):
                self._datagrams[number] = int(count)
        return sum(self._counted(number) for number in self._servers) >= self._packets

    def _counted(self, number: int) -> int:
        octets = max(self._octets[number] - self._answers.get(number, 0), 0)
        return self._datagrams[number] + int(octets // (self._sizes[number] or LARGEST))


@dataclass(frozen=True)
class End:
    """When a run ended, in seconds, and why."""

    seconds: float
    why: str


def end_of(
    scenario: Mapping[str, Any], arrived: Sequence[Arrived | None], lasted: float
) -> End | None:  # fmt: skip
    """The end that the scenario's `stop` gave a run that lasted so long; none if it gave none."""
    stop = scenario.get("stop", {})
    known = [a for a in arrived if a is not None]
    if "packets" in stop and len(known) == len(arrived):
        at = packets_end(known, int(stop["packets"]))
        if at is not None:
            return End(at, "packets")
    if "time" in stop and lasted >= values.seconds(stop["time"]):
        return End(values.seconds(stop["time"]), "time")
    return None


def cut(row: dict[str, Any], arrived: Arrived | None, end: float) -> None:
    """Leave out of a flow's row what arrived only after the run's end."""
    apps_live.cut(row, end)
    if row.get("last_byte_s", 0.0) > end:
        row["finished"] = False
    if arrived is None or not arrived.times.size or arrived.times[-1] <= end:
        return
    row["bytes"], row["finished"] = int(arrived.by(end)), False
    kept = arrived.times[arrived.times <= end]
    for key, index in (("first_byte_s", 0), ("last_byte_s", -1)):
        row.pop(key, None)
        if kept.size:
            row[key] = float(kept[index])


def measured(
    outcome: dict[str, Any], arrived: Sequence[Arrived | None], scenario: Mapping[str, Any],
    offered: Sequence[Arrived | None] = (),
) -> dict[str, Any]:  # fmt: skip
    """An outcome with its batches, and its series under `series`, as far as they were recorded."""
    known = [a for a in arrived if a is not None]
    end = float(outcome["sim_seconds"])
    batch = scenario.get("stop", {}).get("batch")
    if batch is not None and len(known) == len(arrived):
        ends, octets = batches(known, int(batch), end)
        outcome["batches_end_s"] = ends
        for flow, each in zip(outcome["flows"], octets, strict=True):
            flow["batches"] = each
    outcome["series"] = {
        f"flow.{flow['id']}.delivered": a.raw(end)
        for flow, a in zip(outcome["flows"], arrived, strict=True)
        if a is not None
    }
    for flow, a in zip(outcome["flows"], offered, strict=False):
        if a is not None:
            outcome["series"][f"flow.{flow['id']}.offered"] = a.raw(end)
    return outcome
