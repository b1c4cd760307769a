"""What TCP programs rely on, checked from inside a preloaded process.

Each function is one check; run by preload.rs against the relay, and usable against a real daemon:
WIFU_TEST_IP names the address to use, 127.0.0.1 by default. BLACK is an address that never
answers, for which the relay reports ETIMEDOUT after a second.
"""

import array
import asyncio
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

IP = os.environ.get("WIFU_TEST_IP", "127.0.0.1")
BLACK = os.environ.get("WIFU_TEST_BLACK", "192.0.2.1")
SOL_WIFU, WIFU_PARAM, WIFU_PROTOCOL = 0x5769, 1, 2
TIMEOUT = 10


def listener(backlog=16, port=0, ip=None):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((ip or IP, port))
    s.listen(backlog)
    return s


def pair():
    s = listener()
    c = socket.create_connection(s.getsockname(), TIMEOUT)
    c.settimeout(None)
    a, _ = s.accept()
    s.close()
    return c, a


def fails(number, f, *args):
    try:
        f(*args)
    except OSError as e:
        assert e.errno == number, f"{errno.errorcode.get(e.errno)} and not {errno.errorcode[number]}"
    else:
        raise AssertionError(f"no error, expected {errno.errorcode[number]}")


def read_all(s):
    return b"".join(iter(lambda: s.recv(65536), b""))


def poll(s, events, ms=3000):
    p = select.poll()
    p.register(s, events)
    r = p.poll(ms)
    return r[0][1] if r else 0


def is_ours():
    s = socket.socket()
    out = subprocess.run(["readlink", f"/proc/self/fd/{s.fileno()}"], pass_fds=[s.fileno()], capture_output=True)
    assert out.stdout.startswith(b"socket:")
    raw = socket.socket(fileno=os.dup(s.fileno()), family=socket.AF_UNIX, type=socket.SOCK_STREAM)
    assert raw.getsockopt(socket.SOL_SOCKET, 47, 8)[4:] == b"uFiW"


def names():
    s = listener()
    ip, port = s.getsockname()
    assert ip == IP and 32768 <= port < 61000
    c = socket.create_connection((IP, port), TIMEOUT)
    a, peer = s.accept()
    assert c.getpeername() == (IP, port)
    assert a.getsockname() == (IP, port)
    assert a.getpeername() == peer == c.getsockname(), (peer, c.getsockname())
    fails(errno.ENOTCONN, socket.socket().getpeername)
    assert socket.socket().getsockname() == ("0.0.0.0", 0)
    any_ = listener(ip="0.0.0.0")
    assert any_.getsockname()[0] == "0.0.0.0"
    c = socket.create_connection((IP, any_.getsockname()[1]), TIMEOUT)
    a, _ = any_.accept()
    assert a.getsockname() == c.getpeername() == (IP, any_.getsockname()[1])


def bound_client():
    s = listener()
    c = socket.socket()
    c.bind((IP, 0))
    name = c.getsockname()
    c.connect(s.getsockname())
    _, peer = s.accept()
    assert peer == name == c.getsockname()


def address_in_use():
    s = listener()
    t = socket.socket()
    fails(errno.EADDRINUSE, t.bind, s.getsockname())
    name = s.getsockname()
    s.close()
    t.bind(name)
    fails(errno.EINVAL, t.bind, (IP, 0))
    fails(errno.EADDRNOTAVAIL, socket.socket().bind, ("203.0.113.7", 80))


def refused():
    name = listener_gone()
    fails(errno.ECONNREFUSED, socket.create_connection, name)


def listener_gone():
    s = socket.socket()
    s.bind((IP, 0))
    name = s.getsockname()
    s.close()
    return name


def refused_non_blocking():
    c = socket.socket()
    c.setblocking(False)
    assert c.connect_ex(listener_gone()) == errno.EINPROGRESS
    events = poll(c, select.POLLOUT)
    assert events & (select.POLLERR | select.POLLHUP), events
    assert c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    # A TCP socket can be tried again.
    s = listener()
    assert c.connect_ex(s.getsockname()) == errno.EINPROGRESS
    assert poll(c, select.POLLOUT) == select.POLLOUT
    assert c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    c.send(b"again")
    assert s.accept()[0].recv(9) == b"again"


def timed_out():
    c = socket.socket()
    c.setblocking(False)
    assert c.connect_ex((BLACK, 80)) == errno.EINPROGRESS
    assert poll(c, select.POLLOUT, 200) == 0
    assert c.connect_ex((BLACK, 80)) == errno.EALREADY
    fails(errno.ENOTCONN, c.getpeername)
    fails(errno.EAGAIN, c.recv, 1)
    poll(c, select.POLLOUT, 5000)
    assert c.connect_ex((BLACK, 80)) == errno.ETIMEDOUT
    fails(errno.ETIMEDOUT, socket.create_connection, (BLACK, 80))


def send_timeout_bounds_connect():
    c = socket.socket()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 200_000))
    t = time.monotonic()
    fails(errno.EINPROGRESS, c.connect, (BLACK, 80))
    assert 0.15 < time.monotonic() - t < 0.9


def connect_twice():
    s = listener()
    c = socket.socket()
    c.setblocking(False)
    assert c.connect_ex(s.getsockname()) == errno.EINPROGRESS
    assert poll(c, select.POLLOUT) == select.POLLOUT
    assert c.connect_ex(s.getsockname()) == 0
    assert c.connect_ex(s.getsockname()) == errno.EISCONN
    c = socket.create_connection(s.getsockname())
    c.settimeout(None)
    fails(errno.EISCONN, c.connect, s.getsockname())
    fails(errno.EISCONN, s.connect, s.getsockname())
    fails(errno.EINVAL, c.listen, 1)


def interrupted_connect():
    def alarm(*_):
        hits.append(1)

    hits = []
    # Python restarts calls itself; ctypes shows what the library does.
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    addr = struct.pack("<H", socket.AF_INET) + struct.pack(">H", 80) + socket.inet_aton(BLACK) + bytes(8)
    for restart, number in ((False, errno.EINTR), (True, errno.ETIMEDOUT)):
        signal.signal(signal.SIGALRM, alarm)
        signal.siginterrupt(signal.SIGALRM, not restart)
        if restart:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        c = socket.socket()
        assert libc.connect(c.fileno(), addr, 16) == -1
        assert ctypes.get_errno() == number, (restart, ctypes.get_errno())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert len(hits) == 2


def half_close():
    c, a = pair()
    c.sendall(b"request")
    c.shutdown(socket.SHUT_WR)
    assert read_all(a) == b"request"
    a.sendall(b"answer")
    a.close()
    assert read_all(c) == b"answer"
    assert c.recv(1) == b""


def shutdown_wants_a_connection():
    for how in (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR):
        fails(errno.ENOTCONN, socket.socket().shutdown, how)
    c = socket.socket()
    fails(errno.ENOTCONN, c.shutdown, socket.SHUT_RDWR)
    s = listener()
    c.connect(s.getsockname())
    c.sendall(b"still works")
    assert s.accept()[0].recv(99) == b"still works"
    u, v = socket.socketpair()
    u.shutdown(socket.SHUT_WR)
    assert v.recv(1) == b""


def events():
    c, a = pair()
    assert poll(c, select.POLLIN | select.POLLOUT, 0) == select.POLLOUT
    a.sendall(b"x")
    assert poll(c, select.POLLIN) == select.POLLIN
    assert poll(c, select.POLLIN | select.POLLOUT) == select.POLLIN | select.POLLOUT
    assert select.select([c], [c], [c], 0)[:2] == ([c], [c])
    assert c.recv(1, socket.MSG_PEEK) == b"x" == c.recv(1)
    fails(errno.EAGAIN, c.recv, 1, socket.MSG_DONTWAIT)
    a.shutdown(socket.SHUT_WR)
    assert poll(c, select.POLLRDHUP) == select.POLLRDHUP
    assert poll(c, select.POLLIN | select.POLLRDHUP) == select.POLLIN | select.POLLRDHUP


def falls_silent(poll):
    """Edges end. Of a connection's room there may be several: the daemon frees what filled it in pieces."""
    for _ in range(32):
        if not poll():
            return
    raise AssertionError("no edge, but a level")


def edge_triggered():
    s = listener()
    c = socket.socket()
    e = select.epoll()
    # Registered before it is connected, as event libraries do.
    c.setblocking(False)
    c.connect_ex(s.getsockname())
    e.register(c, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET | select.EPOLLRDHUP)
    a, _ = s.accept()
    assert e.poll(3)[0][1] & select.EPOLLOUT
    falls_silent(lambda: e.poll(0.05))
    for _ in range(3):
        a.sendall(b"x")
        assert e.poll(3)[0][1] & select.EPOLLIN
        assert c.recv(9) == b"x"
    nested = select.epoll()
    nested.register(e, select.EPOLLIN)
    a.sendall(b"y")
    assert nested.poll(3)
    fill = 0
    try:
        while True:
            fill += c.send(bytes(65536))
    except BlockingIOError:
        pass
    got = 0
    while got < fill:
        got += len(a.recv(1 << 20))
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        if any(ev & select.EPOLLOUT for _, ev in e.poll(1)):
            return
    raise AssertionError("no edge for free room")


def epoll_goes_on_after_a_failure():
    """A set that watches a socket whose connect failed watches it at the next one, with the same word."""
    import ctypes

    class Event(ctypes.Structure):
        _pack_ = 1 if os.uname().machine == "x86_64" else 0
        _fields_ = [("events", ctypes.c_uint32), ("word", ctypes.c_uint64)]

    libc = ctypes.CDLL(None, use_errno=True)
    add, modify, edge = 1, 3, 1 << 31
    for copied in False, True:
        c = socket.socket()
        c.setblocking(False)
        sets = [libc.epoll_create1(os.O_CLOEXEC) for _ in range(3)]
        wanted = select.EPOLLOUT, select.EPOLLOUT | edge, select.EPOLLOUT | select.EPOLLRDHUP

        def control(i, what, events):
            event = Event(events, 0x7000_0000_0000_0001 + i)
            assert libc.epoll_ctl(sets[i], what, c.fileno(), ctypes.byref(event)) == 0, i

        def wait(i, ms=3000):
            event = Event()
            n = libc.epoll_wait(sets[i], ctypes.byref(event), 1, ms)
            assert n == 0 or event.word == 0x7000_0000_0000_0001 + i, hex(event.word)
            return event.events if n else 0

        c.connect_ex(listener_gone())
        for i, events in enumerate(wanted):
            control(i, add, events)
            assert wait(i) & select.EPOLLERR, i
        copy = c.dup() if copied else None
        c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        s = listener()
        first = c.connect_ex(s.getsockname())
        if first == errno.ECONNABORTED:  # so the kernel closes the first attempt
            first = c.connect_ex(s.getsockname())
        assert first == errno.EINPROGRESS, first
        a, _ = s.accept()
        for i in range(3):
            assert wait(i) == select.EPOLLOUT, i
        falls_silent(lambda: wait(1, 50))
        for i in range(3):
            control(i, modify, select.EPOLLIN)
            assert wait(i, 0) == 0, i
        a.sendall(b"x")
        for i in range(3):
            assert wait(i) == select.EPOLLIN, i
        for fd in sets:
            os.close(fd)
        del copy


def copies():
    c, a = pair()
    d = c.dup()
    c.close()
    d.sendall(b"1")
    assert a.recv(1) == b"1"
    assert fcntl.fcntl(d, fcntl.F_GETFL) & os.O_NONBLOCK == 0
    if os.fork() == 0:
        d.sendall(b"2")
        assert d.getpeername() == a.getsockname()
        os._exit(0)
    assert os.wait()[1] == 0
    assert a.recv(1) == b"2"
    child = (
        "import socket, sys; s = socket.socket(fileno=%d); s.sendall(b'3'); "
        "print(s.getpeername()[1])" % d.fileno()
    )
    out = subprocess.run(
        [sys.executable, "-c", child], pass_fds=[d.fileno()], capture_output=True, check=True
    )
    assert a.recv(1) == b"3"
    assert int(out.stdout) == a.getsockname()[1], out
    d.close()
    assert a.recv(1) == b""


def passed_descriptors():
    c, a = pair()
    x, y = socket.socketpair()
    socket.send_fds(x, [b"-"], [c.fileno()])
    _, fds, _, _ = socket.recv_fds(y, 1, 1)
    c.close()
    d = socket.socket(fileno=fds[0])
    d.sendall(b"z")
    assert a.recv(1) == b"z"


def send_file_and_vectors():
    c, a = pair()
    with tempfile.TemporaryFile() as f:
        f.write(os.urandom(300_000))
        f.flush()
        t = threading.Thread(target=lambda: (os.sendfile(c.fileno(), f.fileno(), 0, 300_000), c.close()))
        t.start()
        got = read_all(a)
        t.join()
        f.seek(0)
        assert got == f.read()
    c, a = pair()
    assert os.writev(c.fileno(), [b"ab", b"cd"]) == 4
    b = [bytearray(1), bytearray(3)]
    assert os.readv(a.fileno(), b) == 4 and bytes(b[0] + b[1]) == b"abcd"
    c.sendmsg([b"e", b"f"])
    assert a.recvmsg(9)[0] == b"ef"
    n = array.array("i", [0])
    c.sendall(b"123")
    assert poll(a, select.POLLIN)
    fcntl.ioctl(a, 0x541B, n)
    assert n[0] == 3


def bulk_both_ways():
    c, a = pair()
    data = os.urandom(8 << 20)
    t = threading.Thread(target=lambda: (c.sendall(data), c.shutdown(socket.SHUT_WR)))
    t.start()
    u = threading.Thread(target=lambda: (a.sendall(data), a.shutdown(socket.SHUT_WR)))
    u.start()
    got = []
    v = threading.Thread(target=lambda: got.append(read_all(c)))
    v.start()
    assert read_all(a) == data
    for x in (t, u, v):
        x.join()
    assert got[0] == data


def single_bytes():
    c, a = pair()
    for i in range(500):
        c.send(bytes([i % 256]))
        assert a.recv(9) == bytes([i % 256])
        a.send(bytes([i % 251]))
        assert c.recv(9) == bytes([i % 251])


def options():
    s = listener()
    c = socket.socket()
    o = c.getsockopt
    assert o(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
    assert o(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET
    assert o(socket.SOL_SOCKET, socket.SO_PROTOCOL) == socket.IPPROTO_TCP
    assert o(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert o(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    for level, name in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        (socket.SOL_SOCKET, socket.SO_REUSEADDR),
    ):
        c.setsockopt(level, name, 1)
        assert o(level, name) == 1
    other = socket.socket()
    for level, name, default, value in (
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 7200, 60),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 75, 5),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0, 30_000),
        (socket.IPPROTO_TCP, socket.TCP_CORK, 0, 1),
        (socket.IPPROTO_IP, socket.IP_TOS, 0, 16),
    ):
        assert o(level, name) == default
        c.setsockopt(level, name, value)
        assert o(level, name) == value
        assert other.getsockopt(level, name) == default
    c.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    assert o(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 1
    c.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)
    assert o(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0
    c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 50_000)
    assert o(socket.SOL_SOCKET, socket.SO_SNDBUF) == 100_000
    assert o(socket.SOL_SOCKET, socket.SO_RCVBUF) > 0
    fails(errno.ENOPROTOOPT, c.setsockopt, socket.IPPROTO_TCP, 9999, 1)
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    assert o(socket.IPPROTO_TCP, socket.TCP_MAXSEG) == 536
    for wrong in (-1, 87, 32_768):
        fails(errno.EINVAL, c.setsockopt, socket.IPPROTO_TCP, socket.TCP_MAXSEG, wrong)
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
    assert o(socket.IPPROTO_TCP, socket.TCP_MAXSEG) == 1000
    c.connect(s.getsockname())
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
    assert len(c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)) == 104
    assert c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[0] == 1
    c.settimeout(None)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 100_000))
    t = time.monotonic()
    fails(errno.EAGAIN, c.recv, 1)
    assert 0.05 < time.monotonic() - t < 2
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert c.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == struct.pack("ii", 1, 0)


def param(c, name):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    value, size = ctypes.create_string_buffer(name, 64), ctypes.c_uint(64)
    assert libc.getsockopt(c.fileno(), SOL_WIFU, WIFU_PARAM, value, ctypes.byref(size)) == 0
    return value.value


def tuned():
    """Options that tune a parameter of the composition, before and on a connection."""
    s, c = listener(), socket.socket()
    for connected in (False, True):
        on = int(not connected)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, on)
        assert param(c, b"keepalive") == (b"on" if on else b"off")
        for name, value, key, text in (
            (socket.TCP_KEEPIDLE, 60 + on, b"keep_idle", b"%ds" % (60 + on)),
            (socket.TCP_KEEPINTVL, 5 + on, b"keep_interval", b"%ds" % (5 + on)),
            (socket.TCP_KEEPCNT, 3 + on, b"keep_count", b"%d" % (3 + on)),
            (socket.TCP_USER_TIMEOUT, 31_001 + on, b"user_timeout", b"%dms" % (31_001 + on)),
        ):
            c.setsockopt(socket.IPPROTO_TCP, name, value)
            assert c.getsockopt(socket.IPPROTO_TCP, name) == value
            told = param(c, key).replace(b" ", b"")
            # A daemon says times in seconds, whoever only keeps the words as they were.
            assert told in (text, b"%gs" % (value / 1000)), (key, told)
        for name, wrong in (
            (socket.TCP_KEEPIDLE, 0),
            (socket.TCP_KEEPINTVL, 32_768),
            (socket.TCP_KEEPCNT, 128),
            (socket.TCP_USER_TIMEOUT, -1),
        ):
            fails(errno.EINVAL, c.setsockopt, socket.IPPROTO_TCP, name, wrong)
        if not connected:
            c.connect(s.getsockname())
    c.close()
    s.close()


def marks_and_devices():
    """What needs a program's own way is kept, and interfaces answer on any socket."""
    c = socket.socket()
    device = b"lo" + bytes(14)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 7)
    assert c.getsockopt(socket.SOL_SOCKET, socket.SO_MARK) == 7
    c.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
    assert c.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(b"\0") == b"lo"
    fails(errno.ENODEV, c.setsockopt, socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"nope")
    s = listener()
    if IP.startswith("127."):
        c.connect(s.getsockname())
        assert c.getsockname()[0].startswith("127.")
    # SIOCGIFADDR, SIOCGIFNETMASK
    for request, want in ((0x8915, "127.0.0.1"), (0x891B, "255.0.0.0")):
        for x in (socket.socket(), s):
            answer = fcntl.ioctl(x, request, device + bytes(24))
            assert socket.inet_ntoa(answer[20:24]) == want
    fails(errno.ENODEV, fcntl.ioctl, c, 0x8915, b"nope" + bytes(36))


def protocol_options():
    c = socket.socket()
    want = os.environ["WIFU_PROTOCOL"].encode()
    name = want.split(b",")[0]
    assert c.getsockopt(SOL_WIFU, WIFU_PROTOCOL, 100).rstrip(b"\0") == want
    assert c.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0") == name
    c.setsockopt(SOL_WIFU, WIFU_PARAM, b"iw=7")
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    value, size = ctypes.create_string_buffer(b"iw", 64), ctypes.c_uint(64)
    r = libc.getsockopt(c.fileno(), SOL_WIFU, WIFU_PARAM, value, ctypes.byref(size))
    assert (r, value.value, size.value) == (0, b"7", 1), (r, value.value, size.value)
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"tcp-reno")
    assert c.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0") == b"tcp-reno"
    fails(errno.EINVAL, c.setsockopt, SOL_WIFU, WIFU_PARAM, b"no equals sign")
    fails(errno.EINVAL, c.setsockopt, SOL_WIFU, WIFU_PARAM, b"nonsense=1")


def mapped_ipv6():
    s = socket.socket(socket.AF_INET6)
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET6
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind(("::", 0))
    s.listen(4)
    name = s.getsockname()
    assert name[0] == "::"
    c = socket.create_connection((IP, name[1]), TIMEOUT)
    a, peer = s.accept()
    assert peer[0] == a.getpeername()[0] == "::ffff:" + c.getsockname()[0]
    d = socket.socket(socket.AF_INET6)
    d.connect(("::ffff:" + IP, name[1]))
    assert d.getpeername()[:2] == ("::ffff:" + IP, name[1])
    # No route leads there, or whatever the daemon sends comes back to it and nobody listens.
    refused = socket.socket(socket.AF_INET6).connect_ex(("2001:db8::1", 80))
    assert refused in (errno.ENETUNREACH, errno.ECONNREFUSED), errno.errorcode[refused]
    for x in (a, c, d, s):
        x.close()
    v4 = socket.socket()
    for option in socket.IPV6_V6ONLY, socket.IPV6_UNICAST_HOPS:
        fails(errno.ENOPROTOOPT, v4.setsockopt, socket.IPPROTO_IPV6, option, 1)
        fails(errno.EOPNOTSUPP, v4.getsockopt, socket.IPPROTO_IPV6, option)
    v4.bind(("0.0.0.0", 0))
    v4.listen(4)
    name = v4.getsockname()
    only = socket.socket(socket.AF_INET6)
    only.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    # The same port as the IPv4 socket, as nginx's default configuration has it.
    only.bind(("::", name[1]))
    only.listen(4)
    assert only.getsockname()[:2] == ("::", name[1])


def families():
    """Addresses of the other family, and of none, as the kernel's TCP answers them."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)

    def gives(call, family, address):
        s = socket.socket(family)
        r = getattr(libc, call)(s.fileno(), address, len(address))
        return 0 if r == 0 else ctypes.get_errno()

    port = struct.pack(">H", 9)
    v4 = struct.pack("<H", socket.AF_INET) + port + socket.inet_aton(IP) + bytes(8)
    v6 = struct.pack("<H", socket.AF_INET6) + port + bytes(4) + bytes(15) + b"\1" + bytes(4)
    longer = v4 + bytes(12)
    for call in ("bind", "connect"):
        assert gives(call, socket.AF_INET6, v4) == errno.EINVAL, call
        assert gives(call, socket.AF_INET6, longer) == errno.EAFNOSUPPORT, call
        assert gives(call, socket.AF_INET, v6) == errno.EAFNOSUPPORT, call
        assert gives(call, socket.AF_INET, v4[:15]) == errno.EINVAL, call
        assert gives(call, socket.AF_INET6, v6[:23]) == errno.EINVAL, call
    none = bytes(16)
    assert gives("bind", socket.AF_INET, none) == 0
    assert gives("bind", socket.AF_INET, bytes(4) + v4[4:]) == errno.EAFNOSUPPORT
    assert gives("bind", socket.AF_INET6, none + bytes(12)) == errno.EAFNOSUPPORT
    assert gives("connect", socket.AF_INET, none) == 0


def accept_flags_and_queue():
    s = listener()
    s.setblocking(False)
    fails(errno.EAGAIN, s.accept)
    cs = [socket.create_connection(s.getsockname(), TIMEOUT) for _ in range(5)]
    assert poll(s, select.POLLIN) == select.POLLIN
    peers = set()
    for _ in cs:
        # The client's connect may end before the server's side is complete.
        assert poll(s, select.POLLIN)
        peers.add(s.accept()[1])
    assert peers == {c.getsockname() for c in cs}
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    c = socket.create_connection(s.getsockname(), TIMEOUT)
    poll(s, select.POLLIN)
    addr, size = ctypes.create_string_buffer(4), ctypes.c_uint(4)
    fd = libc.accept4(s.fileno(), addr, ctypes.byref(size), os.O_NONBLOCK | os.O_CLOEXEC)
    assert fd >= 0 and size.value == 16, size.value
    assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK
    assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def accepted_sockets_have_what_the_listening_one_was_allowed():
    """What takes a right that is gone fails no `accept`; the rest is handed on, and only what was set."""
    level, debug, mark = socket.SOL_SOCKET, 1, 36
    s = listener()
    root = os.geteuid() == 0
    given = {socket.SO_KEEPALIVE: 1, socket.SO_RCVLOWAT: 2, socket.SO_OOBINLINE: 1}
    for name, value in given.items():
        s.setsockopt(level, name, value)
    s.setsockopt(level, socket.SO_LINGER, struct.pack("ii", 1, 5))
    s.setsockopt(level, socket.SO_RCVTIMEO, struct.pack("ll", 7, 0))
    if root:
        s.setsockopt(level, debug, 1)
        s.setsockopt(level, mark, 9)
    c = socket.create_connection(s.getsockname(), TIMEOUT)
    if root:
        os.seteuid(65534)
    try:
        a, _ = s.accept()
    finally:
        if root:
            os.seteuid(0)
    for name, value in given.items():
        assert a.getsockopt(level, name) == value, name
    assert a.getsockopt(level, socket.SO_LINGER, 8) == struct.pack("ii", 1, 5)
    assert a.getsockopt(level, socket.SO_RCVTIMEO, 16) == struct.pack("ll", 7, 0)
    assert a.getsockopt(level, socket.SO_SNDTIMEO, 16) == bytes(16)
    c.sendall(b"12")
    assert a.recv(9) == b"12"


def strangers_are_not_accepted():
    s = listener()
    s.settimeout(0.3)
    raw = socket.socket(socket.AF_UNIX)
    raw.connect("\0wifu/s/%s/%d" % s.getsockname())
    try:
        s.accept()
        raise AssertionError("a stranger was accepted")
    except TimeoutError:
        pass
    assert raw.recv(1) == b""


def broken_pipe():
    c, a = pair()
    a.close()
    assert c.recv(1) == b""
    deadline = time.monotonic() + 5
    try:
        while time.monotonic() < deadline:
            c.send(b"x")
            time.sleep(0.01)
        raise AssertionError("writing to nobody succeeds")
    except (BrokenPipeError, ConnectionResetError):
        pass


def errno_is_preserved():
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(77)
    c = socket.socket()
    size = ctypes.c_uint(16)
    assert libc.getsockname(c.fileno(), ctypes.create_string_buffer(16), ctypes.byref(size)) == 0
    assert ctypes.get_errno() == 77
    assert libc.bind(c.fileno(), None, 16) == -1 and ctypes.get_errno() == errno.EFAULT
    assert libc.connect(-1, None, 0) == -1 and ctypes.get_errno() == errno.EBADF
    u, v = socket.socketpair()
    assert libc.getsockopt(u.fileno(), 1, 3, None, None) == -1 and ctypes.get_errno() == errno.EFAULT


def other_sockets_untouched():
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.bind(("127.0.0.1", 0))
    v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    v.connect(u.getsockname())
    v.send(b"d")
    assert u.recvfrom(9) == (b"d", v.getsockname())
    with tempfile.TemporaryDirectory() as d:
        s = socket.socket(socket.AF_UNIX)
        s.bind(d + "/s")
        s.listen(1)
        c = socket.socket(socket.AF_UNIX)
        c.connect(d + "/s")
        a, _ = s.accept()
        assert c.getpeername() == d + "/s"
        c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 9000)


def asyncio_streams():
    async def serve(r, w):
        w.write(await r.read(100))
        await w.drain()
        w.close()

    async def main():
        server = await asyncio.start_server(serve, IP, 0)
        port = server.sockets[0].getsockname()[1]

        async def one(i):
            r, w = await asyncio.open_connection(IP, port)
            w.write(b"%d" % i)
            got = await r.read()
            assert got == b"%d" % i, got
            w.close()

        await asyncio.gather(*(one(i) for i in range(50)))
        server.close()

    asyncio.run(asyncio.wait_for(main(), 20))


CHECKS = [v for k, v in list(globals().items()) if callable(v) and getattr(v, "__module__", "") == "__main__"]
HELPERS = {"listener", "pair", "fails", "read_all", "poll", "listener_gone", "param", "falls_silent"}

if __name__ == "__main__":
    wanted, bad = sys.argv[1:], 0
    for check in CHECKS:
        name = check.__name__
        if name in HELPERS or (wanted and name not in wanted):
            continue
        try:
            signal.alarm(30)
            check()
            signal.alarm(0)
            print(f"ok {name}", flush=True)
        except BaseException as e:
            import traceback

            traceback.print_exc()
            print(f"FAILED {name}: {type(e).__name__}: {e}", flush=True)
            bad += 1
    sys.exit(bad > 0)
