"""Series of the nodes of a run in real time, by the simulator's names: how many frames wait, and
how long.

A frame waits in its kernel's queues, of which the kernel tells, then in the ring of its driver, of
which the emulated radio tells; both are asked once an interval while the flows run.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wifu.arrived import names
from wifu.emu import Emulation
from wifu.errors import RunError
from wifu.flows import Scenario

DEVICE = "wlan0"
NODES = ("queue", "delay")
"""What there is of a node: frames, and microseconds."""
WIRED = ("queue",)
"""What there is of one without a radio."""

LEAST = 0.01
"""Seconds of the wall's clock between two questions at least: they are answered by whoever carries
frames."""

# sched.h, linux/rtnetlink.h, linux/pkt_sched.h, linux/gen_stats.h; the names are the kernel's.
CLONE_NEWNET = 0x4000_0000
RTM_NEWQDISC, RTM_GETQDISC = 36, 38
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR, NLMSG_DONE = 2, 3
TC_H_ROOT = 0xFFFF_FFFF
TCA_STATS2, TCA_STATS_QUEUE = 7, 3


def wanted(scenario: Scenario, nodes: Sequence[str]) -> list[tuple[str, str]]:
    """Of which nodes what is to be recorded."""
    found: dict[tuple[str, str], None] = {}
    for name in names(scenario):
        head, _, rest = name.partition(".")
        node, _, what = rest.rpartition(".")
        if name == "all":
            node, whats = "*", list(NODES)
        elif head == "node":
            whats = [what]
        else:
            continue
        for one in nodes:
            found |= {(one, of): None for of in whats if node in ("*", one)}
    return list(found)


@dataclass(frozen=True)
class Host:
    """A node: the namespace that it is, and the devices whose queues are its own."""

    namespace: str
    devices: tuple[str, ...]


class Queues:
    """Asks for the queues of one run."""

    def __init__(
        self, hosts: Mapping[str, Host], scenario: Scenario, interval: float, dilation: float,
        net: Emulation | None = None,
    ) -> None:  # fmt: skip
        """`interval`: seconds of model time, `dilation` times slower than the wall's. `net`: the
        emulation whose radios the hosts have, if they have any.
        """
        known = WIRED if net is None else NODES
        self.wanted = [(n, what) for n, what in wanted(scenario, list(hosts)) if what in known]
        self._hosts, self._net, self._dilation = hosts, net, dilation
        self._interval = max(interval * dilation, LEAST)
        self._points: dict[tuple[str, str], list[tuple[float, float]]] = {
            w: [] for w in self.wanted
        }
        self._kernels: dict[str, tuple[socket.socket, list[int]]] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._wrong: Exception | None = None

    def prepare(self) -> None:
        """Open a way to each kernel."""
        for node in dict.fromkeys(node for node, what in self.wanted if what == "queue"):
            self._kernels[node] = _inside(self._hosts[node])

    def begin(self) -> None:
        """Look from now on, which is the beginning of the run."""
        self._thread = threading.Thread(target=self._look, args=(time.monotonic(),), daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        for kernel, _ in self._kernels.values():
            kernel.close()

    def series(self, end: float) -> dict[str, bytes]:
        """What was seen until `end`, seconds of the run. RunError if looking failed."""
        if self._wrong is not None:
            raise RunError(f"queues could not be looked at: {self._wrong}")
        found = {}
        for (node, what), points in self._points.items():
            kept = [p for p in points if p[0] <= end]
            if kept:
                found[f"node.{node}.{what}"] = np.array(kept, dtype="<f8").tobytes()
        return found

    def _look(self, begun: float) -> None:
        try:
            while not self._over.is_set():
                at = time.monotonic()
                self._note((at - begun) / self._dilation)
                self._over.wait(max(0.0, self._interval - (time.monotonic() - at)))
        except Exception as e:
            self._wrong = e

    def _note(self, now: float) -> None:
        rows = {} if self._net is None else {row["name"]: row for row in self._net.nodes()}
        for (node, what), points in self._points.items():
            row = rows.get(node, {})
            if what == "queue":
                kernel, devices = self._kernels[node]
                told = row.get("queued", 0) + sum(waiting(kernel, device) for device in devices)
                points.append((now, float(told)))
            elif row["delay_us"] is not None:
                points.append((now, float(row["delay_us"])))


def waiting(kernel: socket.socket, device: int) -> int:
    """Packets in the queueing discipline of a device."""
    body = struct.pack("=BxxxiIII", 0, device, 0, TC_H_ROOT, 0)
    head = struct.pack("=IHHII", 16 + len(body), RTM_GETQDISC, NLM_F_REQUEST_DUMP, 0, 0)
    kernel.send(head + body)
    found = None
    while True:
        data, at = kernel.recv(1 << 16), 0
        while at + 16 <= len(data):
            length, kind = struct.unpack_from("=IH", data, at)
            if kind in (NLMSG_DONE, NLMSG_ERROR) or length < 16:
                if found is None:
                    raise OSError(f"the kernel does not tell of the queue of device {device}")
                return found
            if kind == RTM_NEWQDISC:
                told = _length(data[at + 16 : at + length], device)
                found = told if told is not None else found
            at += (length + 3) & ~3


def _length(message: bytes, device: int) -> int | None:
    """Of a `struct tcmsg` with its attributes, if it is the device's own discipline."""
    index, _, parent = struct.unpack_from("=4xiII", message)
    if (index, parent) != (device, TC_H_ROOT):
        return None
    for kind, stats in _attributes(message[20:]):
        for inner, queue in _attributes(stats) if kind == TCA_STATS2 else ():
            if inner == TCA_STATS_QUEUE:
                return int(struct.unpack_from("=I", queue)[0])
    return None


def _attributes(octets: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(octets):
        length, kind = struct.unpack_from("=HH", octets, at)
        if length < 4:
            return
        yield kind & 0x3FFF, octets[at + 4 : at + length]
        at += (length + 3) & ~3


def _inside(host: Host) -> tuple[socket.socket, list[int]]:
    """A socket to the kernel from inside a namespace, and the numbers of the devices there."""
    found: list[tuple[socket.socket, list[int]]] = []
    wrong: list[OSError] = []

    def open_() -> None:
        namespace = host.namespace
        fd = os.open(Path("/run/netns") / namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) != 0:
                number = ctypes.get_errno()
                raise OSError(number, f"namespace {namespace}: {os.strerror(number)}")
            kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
            kernel.settimeout(5.0)
            found.append((kernel, [socket.if_nametoindex(name) for name in host.devices]))
        finally:
            os.close(fd)

    def caught() -> None:
        try:
            open_()
        except OSError as e:
            wrong.append(e)

    # A namespace is a thread's: this one ends in the other, and nothing else is there.
    thread = threading.Thread(target=caught)
    thread.start()
    thread.join()
    if wrong:
        raise RunError(str(wrong[0]))
    return found[0]
