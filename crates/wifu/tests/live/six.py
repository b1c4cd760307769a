"""Programs for both families of IP, over whatever TCP their sockets are.

six.py both PORT            listens at ::, for both families; says who came, and echoes
six.py only PORT            the same for IPv6 only, and at 0.0.0.0 beside it
six.py hold IP PORT         connects by an IPv6 socket, says its names, and waits to be told to end
six.py names PORT           binds and connects in all ways that must, or must not, be
"""

import errno
import socket
import sys


def listening(family, ip, port, only=None):
    """A socket that listens."""
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if only is not None:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
    s.bind((ip, port))
    s.listen(8)
    return s


def echo(s):
    """Say who comes, and send back what he says."""
    c, peer = s.accept()
    assert peer == c.getpeername(), (peer, c.getpeername())
    print("from", peer[0], "at", c.getsockname()[0], flush=True)
    while data := c.recv(65536):
        c.sendall(data)
    c.close()


def both(port):
    """One socket for both."""
    s = listening(socket.AF_INET6, "::", port, 0)
    assert s.getsockname()[:2] == ("::", port)
    while True:
        echo(s)


def only(port):
    """One socket for each, as nginx has it."""
    import select

    all_of_them = [
        listening(socket.AF_INET, "0.0.0.0", port),
        listening(socket.AF_INET6, "::", port, 1),
    ]
    while True:
        ready, _, _ = select.select(all_of_them, [], [])
        echo(ready[0])


def hold(ip, port):
    """Have a connection."""
    s = socket.socket(socket.AF_INET6)
    e = s.connect_ex((ip, port))
    if e:
        print(errno.errorcode[e])
        return
    s.sendall(b"hello")
    assert s.recv(5, socket.MSG_WAITALL) == b"hello"
    print("from", s.getsockname()[0], "to", s.getpeername()[0], flush=True)
    sys.stdin.readline()


def fails(e, call, *args):
    """It must fail so."""
    try:
        call(*args)
    except OSError as error:
        assert error.errno == e, (call, args, error)
    else:
        raise AssertionError((call, args))


def names(port):
    """What the kernel's TCP does, whatever TCP this is; scopes and conflicts apart."""
    six = lambda: socket.socket(socket.AF_INET6)
    a = listening(socket.AF_INET6, "::1", port)
    assert a.getsockname()[:2] == ("::1", port)
    c = six()
    c.bind(("::1", 0))
    mine = c.getsockname()
    assert mine[0] == "::1" and mine[1], mine
    c.connect(("::1", port))
    d, peer = a.accept()
    assert peer == mine == c.getsockname() == d.getpeername()
    assert c.getpeername() == d.getsockname() == a.getsockname()
    c.sendall(b"x" * 100000)
    c.shutdown(socket.SHUT_WR)
    data = b""
    while more := d.recv(65536):
        data += more
    assert data == b"x" * 100000
    # The address that is none is this host.
    e = six()
    e.connect(("::", port))
    assert e.getpeername()[0] == "::1"
    f, _ = a.accept()
    fails(errno.EADDRNOTAVAIL, six().bind, ("2001:db8::9", 0))
    fails(errno.ENETUNREACH, six().connect, ("ff02::1", port))
    fails(errno.ECONNREFUSED, six().connect, ("::1", port + 1))
    alone = six()
    alone.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    fails(errno.ENETUNREACH, alone.connect, ("::ffff:127.0.0.1", port))
    fails(errno.EINVAL, alone.bind, ("::ffff:127.0.0.1", port))
    alone.bind(("::1", 0))
    fails(errno.EINVAL, alone.setsockopt, socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    # From an address of one family to one of the other there is no way.
    g = six()
    g.bind(("::ffff:127.0.0.1", 0))
    fails(errno.EAFNOSUPPORT, g.connect, ("::1", port))
    print("as it should be")


if __name__ == "__main__":
    what = {"both": both, "only": only, "hold": hold, "names": names}[sys.argv[1]]
    what(*sys.argv[2:-1], int(sys.argv[-1]))
