"""What becomes of a connection to nobody.

reach.py connect IP PORT    says the name of the error, and after how many seconds
reach.py begin IP PORT      the same without waiting, and what then becomes of a write
reach.py idle IP PORT N     has N connections until it is told to end them
reach.py hold IP PORT       connects, says so, writes when told to, and says how that ends
"""

import errno
import resource
import select
import socket
import sys
import time


def connect(address):
    """Try it."""
    s = socket.socket()
    began = time.monotonic()
    error = s.connect_ex(address)
    print(errno.errorcode.get(error, "connected"), round(time.monotonic() - began, 2))


def begin(address):
    """Try it, and write before there is a connection; then as soon as there is one."""
    s = socket.socket()
    s.setblocking(False)
    began = time.monotonic()
    error = s.connect_ex(address)
    took = round(time.monotonic() - began, 2)
    try:
        written = str(s.send(b"too-early"))
    except OSError as e:
        written = errno.errorcode[e.errno]
    print(errno.errorcode.get(error, "connected"), took, written, end="")
    if error != errno.EINPROGRESS:
        return
    poll = select.poll()
    poll.register(s, select.POLLOUT)
    poll.poll()
    if error := s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        print("", errno.errorcode[error])
        return
    s.setblocking(True)
    s.sendall(b"in-time")
    s.shutdown(socket.SHUT_WR)
    print("", s.makefile("rb").read().decode())


def idle(address, count):
    """Have connections."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    all_of_them = [socket.create_connection(address) for _ in range(count)]
    print("open", flush=True)
    sys.stdin.readline()
    for s in all_of_them:
        s.close()


def hold(address):
    """Have a connection that its peer will not answer."""
    s = socket.create_connection(address)
    print("open", flush=True)
    sys.stdin.readline()
    s.sendall(b"x")
    s.setblocking(False)
    poll = select.poll()
    poll.register(s, select.POLLIN)
    poll.poll()
    print(errno.errorcode.get(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), flush=True)


if __name__ == "__main__":
    what = {"connect": connect, "begin": begin, "hold": hold, "idle": idle}[sys.argv[1]]
    what((sys.argv[2], int(sys.argv[3])), *map(int, sys.argv[4:]))
