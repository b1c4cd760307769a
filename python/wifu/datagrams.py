"""Sends or receives datagrams, and says what came through. Needs nothing but Python itself.

It is handed to hosts as text, so it imports nothing of this package.
datagrams.py receive PORT GAP        until SIGTERM; then JSON on standard output, which says how
                                     much had arrived when, once in GAP seconds (0: not at all)
datagrams.py send ADDRESS PORT SIZE BITS_PER_S OCTETS SECONDS      0 octets, 0 s: without end
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import time


class _Stop(BaseException):
    pass


def _stop(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would meet the report
    raise _Stop


def receive(port: int, gap: float) -> None:
    """Count what comes; times are of CLOCK_MONOTONIC."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
    sock.bind(("0.0.0.0", port))
    print("ready", flush=True)
    octets = packets = 0
    first = last = None
    arrivals: list[tuple[float, int]] = []
    due = 0.0
    try:
        while True:
            octets += len(sock.recv(65536))
            last = time.monotonic()
            first = first or last
            packets += 1
            if not gap:
                continue
            if last < due:
                arrivals[-1] = (last, octets)
            else:
                arrivals.append((last, octets))
                due = last + gap
    except _Stop:
        pass
    told = {"bytes": octets, "packets": packets, "first": first, "last": last}
    print(json.dumps({**told, "arrivals": arrivals} if gap else told), flush=True)


def send(to: str, port: int, size: int, rate: float, octets: int, seconds: float) -> None:
    """Send datagrams with `size` octets of payload, evenly, at so many payload bit/s."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((to, port))
    gap = size * 8.0 / rate
    begun = time.monotonic()
    sent = packets = refused = 0
    try:
        while not (octets and sent >= octets):
            due = begun + packets * gap
            now = time.monotonic()
            if seconds and max(due, now) - begun >= seconds:
                break
            if due > now:
                time.sleep(due - now)
            part = min(size, octets - sent) if octets else size
            try:
                sock.send(bytes(part))
            except OSError:  # a full queue, or nobody who listens any more
                refused += 1
            sent += part
            packets += 1
    except _Stop:
        pass
    told = {"bytes": sent, "packets": packets, "refused": refused, "begun": begun}
    print(json.dumps({**told, "ended": time.monotonic()}), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    words = sys.argv[1:]
    if words[0] == "receive":
        receive(int(words[1]), float(words[2]))
    else:
        numbers = [float(w) for w in words[3:]]
        send(words[1], int(words[2]), int(numbers[0]), numbers[1], int(numbers[2]), numbers[3])
