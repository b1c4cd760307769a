"""Sends IPv4 packets of protocol 245 in Ethernet frames: DEVICE, then SOURCE,DESTINATION[,KIND] of
each. KIND is `all` (a frame to all stations), `fragment`, `long` or `last` (its TTL is 1); else the
frame is for the station at the other end, whose address comes by MAC=."""

import socket
import struct
import sys


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(source: str, destination: str, kind: str) -> bytes:
    body = bytes(1400 if kind == "long" else 40)
    fragment = 0x2000 if kind == "fragment" else 0x4000
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    ttl = 1 if kind == "last" else 16
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 7, fragment, ttl, 245, 0) + ends
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def main() -> None:
    device, mac, *packets = sys.argv[1:]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind((device, 0))
        own = sender.getsockname()[4]
        for spec in packets:
            source, destination, kind = [*spec.split(","), ""][:3]
            to = b"\xff" * 6 if kind == "all" else bytes.fromhex(mac.replace(":", ""))
            sender.send(to + own + b"\x08\x00" + packet(source, destination, kind))


main()
