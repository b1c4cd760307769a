"""Either end of a connection, over whatever TCP the socket is: python3 peer.py WHO IP PORT DO ...

WHO is listen or connect. The last line printed says how it went, in JSON.
"""

import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time

PIECE = 65536


def options(s):
    """What TCP_INFO says was negotiated: 1 timestamps, 2 SACK, 4 window scaling."""
    return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[5]


def read_all(s, digest, pause=0.0):
    """Read to the end; with a pause before the last part of it."""
    count = 0
    time.sleep(pause)
    while data := s.recv(PIECE):
        digest.update(data)
        count += len(data)
    return count


def send_random(s, size, digest):
    """Send random octets, then the end."""
    data = os.urandom(size)
    digest.update(data)
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)


def exchange(s, size, begin="0"):
    """Send and receive at once, until both have ended; begin in so many seconds, or on a file."""
    if begin.startswith("go"):
        while not os.path.exists(begin):
            time.sleep(0.02)
    else:
        time.sleep(float(begin))
    sent, got = hashlib.sha256(), hashlib.sha256()
    thread = threading.Thread(target=send_random, args=(s, int(size), sent))
    thread.start()
    count = read_all(s, got)
    thread.join()
    return {"sent": sent.hexdigest(), "got": got.hexdigest(), "count": count}


def take(s, pause="0"):
    """Only receive."""
    got = hashlib.sha256()
    count = read_all(s, got, float(pause))
    return {"got": got.hexdigest(), "count": count}


def give(s, size):
    """Only send."""
    sent = hashlib.sha256()
    send_random(s, int(size), sent)
    end = s.recv(1)
    return {"sent": sent.hexdigest(), "end": len(end)}


def answer(s, size):
    """Read to the end, and only then send."""
    got, sent = hashlib.sha256(), hashlib.sha256()
    count = read_all(s, got)
    send_random(s, int(size), sent)
    return {"sent": sent.hexdigest(), "got": got.hexdigest(), "count": count}


def reset(s):
    """Say something, then close so that the other end sees a reset."""
    s.sendall(b"hello")
    s.recv(1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return {}


def is_reset(s, how):
    """See a reset, by reading or by writing."""
    # In this order: a reset may overtake data that are still on their way.
    s.recv(5, socket.MSG_WAITALL)
    s.sendall(b"!")
    print("up")
    seen = []
    try:
        while True:
            if how == "read":
                if not s.recv(1):
                    seen.append("end")
                    break
            else:
                s.sendall(b"x" * PIECE)
    except OSError as e:
        seen.append(e.strerror)
    return {"seen": seen}


def hold(s):
    """Keep the connection until this process is killed, sending nothing."""
    s.sendall(b"hello")
    print("up")
    time.sleep(600)


def quiet(s, seconds):
    """Say nothing for so long, with keepalive probes each second; then exchange a little."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
        s.setsockopt(socket.IPPROTO_TCP, name, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
    time.sleep(float(seconds))
    return exchange(s, 1000)


def opened(who, ip, port):
    """The connection. A kernel's small receive buffer is asked for by "small" for `who`."""
    s = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET)
    if who.endswith("small"):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    if who.startswith("connect"):
        s.connect((ip, port))
        return s
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((ip, port))
    s.listen(64)
    print("listening")
    c, _ = s.accept()
    if who.startswith("listen-on"):
        # Goes on listening, as servers do; the next connection is echoed.
        threading.Thread(target=serve_on, args=(s,), daemon=True).start()
    else:
        s.close()
    return c


def serve_on(s):
    """Echo, one connection after the other."""
    while True:
        c, _ = s.accept()
        while data := c.recv(PIECE):
            c.sendall(data)
        c.close()


def main():
    """Open, act, report."""
    who, ip, port, do, *rest = sys.argv[1:]
    with opened(who, ip, int(port)) as s:
        report = {"options": options(s), **globals()[do](s, *rest)}
    print(json.dumps(report))
    if who.startswith("listen-on"):
        time.sleep(600)


main()
