"""Reads what `wifu daemon --pcap` wrote: pcapng, IPv4 packets with TCP's header."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ENHANCED_PACKET = 6
HALF = 1 << 31


@dataclass(frozen=True)
class Segment:
    """One captured segment."""

    time_ns: int
    source: bytes
    ports: bytes
    seq: int
    octets: int


def segments(path: Path) -> Iterator[Segment]:
    """Return all segments of a file, in order."""
    if path.stat().st_size == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = 0
        while at + 12 <= len(data):
            kind, length = struct.unpack_from("<II", data, at)
            if length < 12:
                break
            if kind == ENHANCED_PACKET:
                high, low = struct.unpack_from("<II", data, at + 12)
                yield parse(data, at + 28, high << 32 | low)
            at += length


def parse(data: mmap.mmap, ip: int, time_ns: int) -> Segment:
    """Return the segment whose IPv4 header begins at `ip`."""
    total = struct.unpack_from("!H", data, ip + 2)[0]
    tcp = ip + (data[ip] & 15) * 4
    octets = ip + total - tcp - (data[tcp + 12] >> 4) * 4
    seq = struct.unpack_from("!I", data, tcp + 4)[0]
    return Segment(time_ns, data[ip + 12 : ip + 16], data[tcp : tcp + 4], seq, octets)


def sent_again(path: Path, source: bytes) -> int:
    """Count the data segments of `source` that begin before what it had sent already."""
    ends: dict[bytes, int] = {}
    again = 0
    for s in segments(path):
        if s.source == source and s.octets > 0:
            end = ends.get(s.ports)
            if end is not None and (s.seq - end) % (1 << 32) >= HALF:
                again += 1
            else:
                ends[s.ports] = (s.seq + s.octets) % (1 << 32)
    return again
