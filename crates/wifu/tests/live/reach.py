"""What becomes of a connection to nobody.

reach.py connect IP PORT    says the name of the error, and after how many seconds
reach.py hold IP PORT       connects, says so, writes when told to, and says how that ends
"""

import errno
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
    {"connect": connect, "hold": hold}[sys.argv[1]]((sys.argv[2], int(sys.argv[3])))
