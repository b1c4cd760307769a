"""Sends IPv4 packets of protocol 245 in Ethernet frames: DEVICE, then SOURCE,DESTINATION[,KIND] of
each. KIND is `all` (a frame to all stations), `fragment` (the first one), `later` (another one), `long`,
`last` (its TTL is 1), `priority` or `vlan` (a tag with number 0 or 5)."""

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
    fragment = {"fragment": 0x2000, "later": 0x0007}.get(kind, 0x4000)
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
            tag = {"priority": b"\x81\x00\x60\x00", "vlan": b"\x81\x00\x00\x05"}.get(kind, b"")
            sender.send(to + own + tag + b"\x08\x00" + packet(source, destination, kind))


main()
