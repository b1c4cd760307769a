"""What passes an interface, as a capture of IP packets: sniff.py INTERFACE FILE, until ended."""

import signal
import socket
import struct
import sys

device, path = sys.argv[1:]
# ETH_P_ALL, LINKTYPE_RAW (pcap).
frames = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
frames.bind((device, 3))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with open(path, "wb", buffering=0) as out:
    out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
    print("listening", flush=True)
    while True:
        packet, (_, protocol, *_) = frames.recvfrom(65535)
        if protocol == 0x0800:
            out.write(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)
