"""What this host's kernel says of its TCP connections, again and again: a line of JSON each.

The lab runs it on hosts by their own Python, so it needs nothing but the standard library:
`python3 -c SOURCE watch SECONDS PEER...`. Names and units are those of `wifu ss --watch --json`.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence

# linux/sock_diag.h, linux/inet_diag.h, linux/netlink.h; the names are the kernel's.
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR, NLMSG_DONE = 2, 3
INET_DIAG_INFO = 2
TCP_LISTEN = 10
INFINITE_SSTHRESH = 0x7FFF_FFFF
NEVER = 0xFFFF_FFFF

NAMES = (
    "cwnd", "ssthresh", "srtt", "rttvar", "min_rtt", "rto", "backoff", "flight", "sacked",
    "retransmits", "recovering", "peer_window", "window", "mss", "send_q", "unsent", "recv_q",
    "offered",
)  # fmt: skip
"""What a kernel tells. Windows are octets, times seconds; segments in flight count as full ones.
`offered` are octets sent, each once."""


def values(info: bytes, recv_q: int, send_q: int) -> dict[str, float | None]:
    """From a `struct tcp_info`, of which older kernels know less."""

    def u32(at: int) -> int | None:
        return struct.unpack_from("=I", info, at)[0] if len(info) >= at + 4 else None

    def octets(at: int) -> int | None:
        packets, mss = u32(at), u32(16)
        return None if packets is None or mss is None else packets * mss

    def seconds(at: int, *unknown: int) -> float | None:
        microseconds = u32(at)
        return None if microseconds is None or microseconds in unknown else microseconds / 1e6

    def once() -> int | None:
        """What was sent without what was sent again."""
        if len(info) < 216:
            return None
        sent, again = struct.unpack_from("=QQ", info, 200)
        return int(sent - again)

    state = info[1] if len(info) > 1 else 0
    return {
        "cwnd": octets(80),
        "ssthresh": None if u32(76) == INFINITE_SSTHRESH else octets(76),
        "srtt": seconds(68, 0),
        "rttvar": seconds(72) if u32(68) else None,
        "min_rtt": seconds(148, NEVER),
        "rto": seconds(8, 0),
        "backoff": info[4] if len(info) > 4 else None,
        "flight": octets(24),
        "sacked": octets(28),
        "retransmits": u32(100),
        "recovering": float(state in (3, 4)),
        "peer_window": u32(228),
        "window": u32(232),
        "mss": u32(16),
        "send_q": send_q,
        "unsent": u32(144),
        "recv_q": recv_q,
        "offered": once(),
    }


def parse(message: bytes) -> dict[str, object] | None:
    """A `struct inet_diag_msg` with its attributes; none for a socket that is no connection."""
    if len(message) < 72 or message[1] == TCP_LISTEN:
        return None
    ports = struct.unpack_from("!HH", message, 4)
    ends = [socket.inet_ntoa(message[at : at + 4]) for at in (8, 24)]
    recv_q, send_q = struct.unpack_from("=II", message, 56)
    info, at = b"", 72
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if length < 4:
            break
        if kind == INET_DIAG_INFO:
            info = message[at + 4 : at + length]
        at += (length + 3) & ~3
    local, remote = (f"{ends[k]}:{ports[k]}" for k in (0, 1))
    return {"local": local, "remote": remote, "values": values(info, recv_q, send_q)}


def connections(diag: socket.socket) -> Iterator[dict[str, object]]:
    """All connections of this network namespace by IPv4."""
    states = 0xFFF & ~(1 << TCP_LISTEN | 1 << 6 | 1 << 7)  # nor those in TIME-WAIT, nor closed
    body = struct.pack(
        "=BBBBI48x", socket.AF_INET, socket.IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0, states
    )
    diag.send(struct.pack("=IHHII", 16 + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP, 0, 0)
              + body)  # fmt: skip
    while True:
        data, at = diag.recv(1 << 16), 0
        while at + 16 <= len(data):
            length, kind = struct.unpack_from("=IH", data, at)
            if kind in (NLMSG_DONE, NLMSG_ERROR) or length < 16:
                return
            found = parse(data[at + 16 : at + length])
            if found is not None:
                yield found
            at += (length + 3) & ~3


def watch(interval: float, peers: Sequence[str]) -> None:
    """Tell of the connections with these addresses, once an interval, until nobody reads."""
    diag = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
    diag.bind((0, 0))
    while True:
        begun = time.monotonic()
        lines = ""
        for found in connections(diag):
            if str(found["remote"]).partition(":")[0] in peers:
                lines += json.dumps({**found, "time": time.time()}) + "\n"
        sys.stdout.write(lines)
        sys.stdout.flush()
        time.sleep(max(0.0, interval - (time.monotonic() - begun)))


if __name__ == "__main__" and sys.argv[1:2] == ["watch"]:
    watch(float(sys.argv[2]), sys.argv[3:])
