#!/usr/bin/env python3
"""Sends one file by the kernel's Reno and by WiFu's TCPs over a link of ours that drops the same
segments of each, and compares the order in which segments leave (WIFU-F4K of Behaviour 15.5).

Two namespaces are joined by TUN devices and by this program, which is the link: a rate, a delay, a
queue, and the first transmissions of named data segments dropped, as in X-W1 (Fall and Floyd). The
kernel has Table I's switches of the WiFu paper, an initial window of two segments, a minimum RTO of
1 s and an acknowledgement for each segment, as the profile `wifu-tahoe` has them. Root; real time.
"""

from __future__ import annotations

import argparse
import difflib
import fcntl
import heapq
import json
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path

from netlab import (
    Host,
    Lab,
    LabError,
    daemon_answers,
    main_guard,
    need,
    run,
    stop_on_signals,
    wait_for,
)

ROOT = Path(__file__).resolve().parent.parent
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SEGMENT, WINDOW, PORT = 1000, 28_000, 9000
"""Octets of data in a segment and the receiver's window, as X-W1's; the file's port."""

# Table I of the paper, what the kernel has besides by now, and no memory of earlier connections.
SWITCHES = {
    "tcp_congestion_control": "reno",
    "tcp_timestamps": "1",
    "tcp_window_scaling": "0",
    "tcp_sack": "0",
    "tcp_ecn": "0",
    "tcp_dsack": "0",
    "tcp_frto": "0",
    "tcp_recovery": "0",
    "tcp_early_retrans": "0",
    "tcp_no_metrics_save": "1",
    "tcp_slow_start_after_idle": "1",
}
PROTOCOLS = {
    "tahoe": "tcp-tahoe",
    "reno": "tcp-reno",
    "reno, limited transmit": "tcp-reno,ltx=on",
    "newreno": "tcp-newreno",
    "newreno, limited transmit": "tcp-newreno,ltx=on",
}
"""What is held against the kernel, each with the same constants."""

SERVER = """
import socket
s = socket.create_server(("{address}", {port}))
c, _ = s.accept()
n = 0
while d := c.recv(65536):
    n += len(d)
print("bytes", n, flush=True)
"""
CLIENT = """
import socket
s = socket.create_connection(("{address}", {port}))
for _ in range({size} // {segment}):
    s.sendall(bytes({segment}))
s.shutdown(socket.SHUT_WR)
s.recv(1)
"""


def tun(name: str) -> int:
    """Make a TUN device and return what reads and writes its packets."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return fd


@dataclass
class Sent:
    """A data segment as it came to the link, offset in segments."""

    time_s: float
    index: float
    again: bool
    dropped: bool


@dataclass
class Link:
    """The link between two TUN devices, one way with rate, queue and losses."""

    near: int
    far: int
    rate: float
    delay: float
    queue: int
    lost: frozenset[int] = frozenset()
    sent: list[Sent] = field(default_factory=list)
    overflows: int = 0
    _first: int | None = None
    _end: int = 0
    _free: float = 0.0
    _leaves: list[float] = field(default_factory=list)
    _due: list[tuple[float, int, int, bytes]] = field(default_factory=list)
    _count: int = 0
    _begun: float = field(default_factory=time.monotonic)

    def again(self, lost: frozenset[int]) -> None:
        """Forget what passed: the next file begins."""
        self.lost, self.sent, self.overflows = lost, [], 0
        self._first, self._end, self._begun = None, 0, time.monotonic()

    def run(self, end: threading.Event) -> None:
        """Carry packets until the end."""
        while not end.is_set():
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                _, _, fd, packet = heapq.heappop(self._due)
                os.write(fd, packet)
            wait = min(0.05, self._due[0][0] - now) if self._due else 0.05
            for fd in select.select([self.near, self.far], [], [], max(0.0, wait))[0]:
                self._take(fd, os.read(fd, 65536), time.monotonic())

    def _take(self, fd: int, packet: bytes, now: float) -> None:
        if packet[0] >> 4 != 4:
            return
        if fd == self.far:
            self._push(now + self.delay, self.near, packet)
        elif not self._drops(packet, now):
            self._leaves = [t for t in self._leaves if t > now]
            if len(self._leaves) > self.queue:
                self.overflows += 1
                return
            self._free = max(self._free, now) + len(packet) * 8 / self.rate
            self._leaves.append(self._free)
            self._push(self._free + self.delay, self.far, packet)

    def _push(self, due: float, fd: int, packet: bytes) -> None:
        self._count += 1
        heapq.heappush(self._due, (due, self._count, fd, packet))

    def _drops(self, packet: bytes, now: float) -> bool:
        """Take down a data segment, and whether it is to be lost."""
        tcp = (packet[0] & 15) * 4
        seq = struct.unpack_from("!I", packet, tcp + 4)[0]
        octets = len(packet) - tcp - (packet[tcp + 12] >> 4) * 4
        if octets == 0:
            return False
        if self._first is None:
            self._first = seq
        offset = (seq - self._first) % (1 << 32)
        again = offset < self._end
        lost = not again and offset // SEGMENT in self.lost
        self._end = max(self._end, offset + octets)
        self.sent.append(Sent(now - self._begun, offset / SEGMENT, again, lost))
        return lost


@dataclass
class Bed:
    """Two hosts and the link between them."""

    lab: Lab
    wifu: Path
    link: Link

    def prepare(self) -> None:
        """Move the devices into the hosts, set the kernel's switches, start the daemons."""
        names = (f"wl{os.getpid()}a", f"wl{os.getpid()}b")
        for name, host, other in zip(names, self.hosts(), reversed(self.hosts()), strict=True):
            run("ip", "link", "set", name, "netns", host.name)
            # One segment at a time: from larger pieces odd ones are left over.
            segs = ["gso_max_segs", "1"]
            host.run("ip", "link", "set", name, "mtu", str(SEGMENT + 52), *segs, "up")
            address = host.address.replace(".77.", ".78.")
            host.run("ip", "address", "add", f"{address}/32", "dev", name)
            peer = other.address.replace(".77.", ".78.")
            route = ["initcwnd", "2", "rto_min", "1s", "quickack", "1", "window", str(WINDOW)]
            host.run("ip", "route", "add", peer, "dev", name, "src", address, *route)
            for key, value in SWITCHES.items():
                host.set(f"net/ipv4/{key}", value)
            door = self.lab.door(host)
            daemon = self.lab.start(
                host, self.wifu, "daemon", "--socket", door, "--mtu", str(SEGMENT + 52)
            )
            wait_for("wifu daemon", partial(daemon_answers, host, self.wifu, door), daemon)

    def hosts(self) -> list[Host]:
        """Both."""
        return [self.lab.a, self.lab.b]

    def send(self, spec: str | None, size: int, lost: frozenset[int]) -> list[Sent]:
        """Send a file by the kernel (None) or by a WiFu protocol, and return what left."""
        self.link.again(lost)
        address = self.lab.b.address.replace(".77.", ".78.")
        words = {"address": address, "port": PORT, "size": size, "segment": SEGMENT}
        server = self.lab.start(self.lab.b, *self.by(spec, self.lab.b, SERVER.format(**words)))
        time.sleep(1.0)
        client = self.lab.start(self.lab.a, *self.by(spec, self.lab.a, CLIENT.format(**words)))
        wait_for("the file", lambda: f"bytes {size}" in server.said(), client, seconds=60)
        client.stop()
        server.stop()
        time.sleep(0.5)
        if self.link.overflows:
            raise LabError(f"the queue overflowed {self.link.overflows} times")
        return list(self.link.sent)

    def by(self, spec: str | None, host: Host, program: str) -> list[str | Path]:
        """Return the command that runs a program over it."""
        python: list[str | Path] = [sys.executable, "-u", "-c", program]
        if spec is None:
            return python
        door = self.lab.door(host)
        full = f"{spec},profile=wifu-tahoe,iw=2,mss={SEGMENT},rcv_wnd={WINDOW}"
        return [self.wifu, "exec", "--socket", door, "-p", full, "--", *python]


def order(sent: Sequence[Sent]) -> list[str]:
    """Return what left, in order: `17`, or `17*` where it was sent again."""
    return [f"{s.index:g}{'*' * s.again}" for s in sent]


def compared(kernel: list[str], other: list[str]) -> dict[str, object]:
    """Return how much two orders have in common."""
    same = len(list(takewhile(lambda p: p[0] == p[1], zip(kernel, other, strict=False))))
    blocks = difflib.SequenceMatcher(None, kernel, other, autojunk=False).get_matching_blocks()
    around = slice(max(0, same - 3), same + 9)
    return {
        "alike until": same,
        "of": max(len(kernel), len(other)),
        "in common": sum(b.size for b in blocks) / max(len(kernel), len(other)),
        "kernel": " ".join(kernel[around]),
        "wifu": " ".join(other[around]),
    }


def rounds(bed: Bed, which: str, args: argparse.Namespace) -> list[dict[str, object]]:
    """Send the file with these segments lost, by the kernel and by each protocol."""
    lost, rows = frozenset(int(n) for n in which.split(",") if n), []
    for number in range(args.runs):
        kernel = order(bed.send(None, args.size, lost))
        for name, spec in PROTOCOLS.items():
            other = order(bed.send(spec, args.size, lost))
            row: dict[str, object] = {"lost": which, "run": number + 1, "protocol": name}
            row |= compared(kernel, other)
            print(json.dumps(row), flush=True)
            rows.append(row | {"orders": [kernel, other]})
    return rows


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--bin", type=Path, default=ROOT / "target/release", help="where wifu is")
    args.add_argument("--size", type=int, default=200_000, help="octets of the file; %(default)s")
    args.add_argument("--rate", type=float, default=0.8e6, help="of the link, b/s; %(default)g")
    args.add_argument("--delay", type=float, default=0.1, help="one way, s; %(default)s")
    args.add_argument("--queue", type=int, default=60, help="packets that wait; %(default)s")
    lost = ["", "14", "14,26", "14,26,28", "14,24,26,28"]
    args.add_argument("--lost", nargs="*", default=lost, help="segments, counted from 0")
    args.add_argument("--runs", type=int, default=3, help="of each; %(default)s")
    args.add_argument("--out", type=Path, help="write all orders there, as JSON")
    return args.parse_args()


def main() -> int:
    """Compare, and print a table."""
    args = parse_args()
    need("ip")
    stop_on_signals()
    rows: list[dict[str, object]] = []
    end = threading.Event()
    fds = [tun(f"wl{os.getpid()}{side}") for side in "ab"]
    link = Link(fds[0], fds[1], args.rate, args.delay, args.queue)
    thread = threading.Thread(target=link.run, args=(end,), daemon=True)
    try:
        with Lab("losses", None) as lab:
            bed = Bed(lab, args.bin.resolve() / "wifu", link)
            bed.prepare()
            thread.start()
            try:
                for which in args.lost:
                    rows += rounds(bed, which, args)
            finally:
                # Before the devices go.
                end.set()
                thread.join(2)
    finally:
        for fd in fds:
            os.close(fd)
        if args.out:
            args.out.write_text(json.dumps({"rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    main_guard(main)
