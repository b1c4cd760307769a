"""Exchanges random octets with an echo server, over whatever TCP the socket is.

python3 peer.py serve IP PORT
python3 peer.py send IP PORT SIZE PATIENCE

A sender's only line is `exact`, `wrong ...` or `error: ...`.
"""

import os
import socket
import sys
import threading

PIECE = 65536


def echo(s):
    """Send back what comes until it ends."""
    try:
        with s:
            s.settimeout(60)
            while data := s.recv(PIECE):
                s.sendall(data)
    except OSError:
        # The other end sees it as well, and says so.
        pass


def serve(ip, port):
    """Echo to all."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((ip, int(port)))
    s.listen(64)
    print("listening", flush=True)
    while True:
        try:
            c, _ = s.accept()
        except OSError:
            continue
        threading.Thread(target=echo, args=(c,), daemon=True).start()


def push(s, data, failed):
    """Send everything, then the end."""
    try:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
    except OSError as e:
        failed.append(e)


def send(ip, port, size, patience):
    """Exchange once."""
    data, got, failed = os.urandom(int(size)), bytearray(), []
    s = socket.socket()
    s.settimeout(float(patience))
    try:
        s.connect((ip, int(port)))
        thread = threading.Thread(target=push, args=(s, data, failed))
        thread.start()
        while piece := s.recv(PIECE):
            got += piece
        thread.join()
        if failed:
            raise failed[0]
    except OSError as e:
        print(f"error: {e.strerror or e}")
        # What came before it must be right as well.
        if not data.startswith(bytes(got)):
            print("wrong octets before the error")
        os._exit(0)
    same = bytes(got) == data
    print("exact" if same else f"wrong: {len(got)} of {len(data)} octets, or others")


{"serve": serve, "send": send}[sys.argv[1]](*sys.argv[2:])
