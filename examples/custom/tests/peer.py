"""A request and its answer: peer.py serve|connect ADDRESS PORT REQUEST ANSWER, in octets.

Without an answer the client closes behind its request, and the server reads to the end.
"""

import socket
import sys
import time

who, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
request, answer = int(sys.argv[4]), int(sys.argv[5])


def pattern(length: int) -> bytes:
    return bytes((i * 7 + i // 251) % 256 for i in range(length))


def read(peer: socket.socket, most: int) -> bytes:
    got = bytearray()
    while len(got) < most and (more := peer.recv(min(65536, most - len(got)))):
        got += more
    return bytes(got)


wanted = answer
if who == "serve":
    listener = socket.create_server((address, port))
    print("listening", flush=True)
    peer, _ = listener.accept()
    wanted = request
else:
    peer = socket.create_connection((address, port))
begun = time.monotonic()
if who == "serve":
    got = read(peer, request + (1 if answer == 0 else 0))
    peer.sendall(pattern(answer))
else:
    peer.sendall(pattern(request))
    got = read(peer, answer + 1) if answer else b""
peer.close()
said = "exact" if got == pattern(wanted) else f"{len(got)} octets, of {wanted}"
print(f"{said} {time.monotonic() - begun:.1f} s", flush=True)
