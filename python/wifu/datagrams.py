"""Sends or receives datagrams, and says what came through. Needs nothing but Python itself.

It is handed to hosts as text, so it imports nothing of this package.
datagrams.py receive PORT GAP TELL EACH   until SIGTERM; then JSON on standard output, which says
                                     how much had arrived when, once in GAP seconds (0: not at all),
                                     and percentiles of how long datagrams were on their way, with
                                     EACH (1) that of every one; every TELL seconds a line with the
                                     packets so far (0: none)
datagrams.py send WHEN ADDRESS PORT SIZE GAP SECONDS OCTETS BITS_PER_S     0 octets, 0 s: no end
datagrams.py talk WHEN ADDRESS PORT SIZE GAP FILE                          in spurts, as FILE says;
                                     how much was sent when is told once in GAP seconds, too;
                                     WHEN: a file that will have the time of CLOCK_MONOTONIC from
                                     which all is due, or - for now
"""

from __future__ import annotations

import itertools
import json
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

STAMP = struct.Struct("=d")
"""What a datagram begins with: when it was sent, seconds of CLOCK_MONOTONIC."""
LONGEST = 3_600.0
"""Seconds; what was longer on its way was not."""


class _Stop(BaseException):
    pass


def _stop(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would meet the report
    raise _Stop


class _Points:
    """How many bytes, in how many packets, had passed when: the last of each gap."""

    def __init__(self, gap: float) -> None:
        self.gap, self.due = gap, 0.0
        self.rows: list[tuple[float, int, int]] = []

    def add(self, now: float, octets: int, packets: int) -> None:
        """So much had passed by now."""
        if not self.gap:
            return
        if now < self.due:
            self.rows[-1] = (now, octets, packets)
        else:
            self.rows.append((now, octets, packets))
            self.due = now + self.gap


class _Delays:
    """How long datagrams were on their way, by when their senders say that they left.

    That is of CLOCK_MONOTONIC, which processes of one machine share, and no others.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[float, float]] = []
        self.jitter = 0.0

    def add(self, now: float, datagram: bytes) -> None:
        """It came now. One that is too short to say when it left, or was altered, counts not."""
        if len(datagram) < STAMP.size:
            return
        took = now - STAMP.unpack_from(datagram)[0]
        if not 0.0 <= took < LONGEST:
            return
        if self.rows:
            # RFC 3550 section 6.4.1.
            self.jitter += (abs(took - self.rows[-1][1]) - self.jitter) / 16
        self.rows.append((now, took))

    def told(self, each: bool) -> dict[str, object]:
        """Percentiles, and with `each` all."""
        if not self.rows:
            return {}
        ordered = sorted(took for _, took in self.rows)
        shares = {"p50_s": 0.50, "p95_s": 0.95, "p99_s": 0.99}
        found: dict[str, object] = {name: _quantile(ordered, q) for name, q in shares.items()}
        told: dict[str, object] = {"one_way": {**found, "samples": len(ordered)}}
        if len(ordered) > 1:
            told["jitter_s"] = self.jitter
        return {**told, "delays": self.rows} if each else told


def _quantile(ordered: list[float], q: float) -> float:
    """Between the two that are next to it (Hyndman and Fan's seventh definition, numpy's)."""
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def receive(port: int, gap: float, tell: float, each: bool) -> None:
    """Count what comes; times are of CLOCK_MONOTONIC."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
    sock.settimeout(tell or None)
    sock.bind(("0.0.0.0", port))
    print("ready", flush=True)
    octets = packets = told = 0
    first = last = None
    arrivals, delays, due = _Points(gap), _Delays(), 0.0
    try:
        while True:
            try:
                datagram = sock.recv(65536)
                last = time.monotonic()
                octets += len(datagram)
                delays.add(last, datagram)
                first = first or last
                packets += 1
                arrivals.add(last, octets, packets)
            except socket.timeout:  # noqa: UP041 -- it is no TimeoutError before Python 3.10
                pass
            if tell and packets > told and time.monotonic() >= due:
                print(f"so far {packets}", flush=True)
                told, due = packets, time.monotonic() + tell
    except _Stop:
        pass
    found: dict[str, object] = {"bytes": octets, "packets": packets, "first": first, "last": last}
    found.update(delays.told(each))
    print(json.dumps({**found, "arrivals": arrivals.rows} if gap else found), flush=True)


def steady(size: int, rate: float) -> Iterator[float]:
    """When datagrams are due that leave evenly, at so many payload bit/s: seconds."""
    return (k * size * 8.0 / rate for k in itertools.count())


def talking(file: str) -> Iterator[float]:
    """When datagrams are due that leave in spurts, as a file says: seconds.

    It is read now, not when the first one is due: that may take some ten milliseconds.
    """
    told = json.loads(Path(file).read_text())
    return (begin + k * told["gap"] for begin, count in told["spurts"] for k in range(count))


def moment(when: str) -> float:
    """The moment that a file tells, once it is there, or now; seconds of CLOCK_MONOTONIC."""
    if when == "-":
        return time.monotonic()
    print("ready", flush=True)
    file = Path(when)
    while not file.exists():
        time.sleep(0.002)
    return float(file.read_text())


def send(
    when: str, to: tuple[str, int], size: int, gap: float, seconds: float, octets: int,
    dues: Iterator[float],
) -> None:  # fmt: skip
    """Send datagrams with `size` bytes of payload when they are due."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(to)
    begun = time.monotonic()
    sent = packets = refused = 0
    points, body = _Points(gap), memoryview(bytearray(max(size, STAMP.size)))
    try:
        begun = moment(when)
        for due in dues:
            now = time.monotonic() - begun
            if (seconds and max(due, now) >= seconds) or (octets and sent >= octets):
                break
            if due > now:
                time.sleep(due - now)
            part = min(size, octets - sent) if octets else size
            at = time.monotonic()
            try:
                if part >= STAMP.size:
                    STAMP.pack_into(body, 0, at)
                sock.send(body[:part])
            except OSError:  # a full queue, or nobody who listens any more
                refused += 1
            sent += part
            packets += 1
            points.add(at, sent, packets)
    except _Stop:
        pass
    found = {"bytes": sent, "packets": packets, "refused": refused, "begun": begun}
    print(json.dumps({**found, "sends": points.rows} if gap else found), flush=True)


def main(words: list[str]) -> None:
    """Do what the words say."""
    if words[0] == "receive":
        receive(int(words[1]), float(words[2]), float(words[3]), words[4] == "1")
        return
    when, to = words[1], (words[2], int(words[3]))
    size, gap = int(words[4]), float(words[5])
    if words[0] == "talk":
        send(when, to, size, gap, 0.0, 0, talking(words[6]))
    else:
        dues = steady(size, float(words[8]))
        send(when, to, size, gap, float(words[6]), int(words[7]), dues)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    main(sys.argv[1:])
