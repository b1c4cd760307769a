"""Programs for front.rs; each function is one, started with WIFU's library preloaded."""

import errno
import fcntl
import json
import os
import select
import signal
import socket
import stat
import struct
import sys
import termios
import threading
import time

IP = "127.0.0.1"


def listener(backlog=64, port=0):
    s = socket.socket()
    s.bind((IP, port))
    s.listen(backlog)
    return s


def connect(name):
    s = socket.socket()
    s.connect(name)
    return s


def read_all(s):
    return b"".join(iter(lambda: s.recv(65536), b""))


def connections():
    """What the daemon lists, as `wifu ss --json` shows it."""
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ["WIFU_SOCKET"])
    s.sendall(struct.pack("<4sHHII", b"WIFU", 1, 8, 0, 0))
    answer = read_all(s)
    return json.loads(answer[answer.index(b"[") :])


def wait_until(seconds, done):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)


def many_at_once(n):
    """n connections at the same time, each with an echo."""
    s = listener(backlog=4096)

    def serve():
        poll, socks = select.epoll(), {s.fileno(): s}
        poll.register(s, select.EPOLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == s.fileno():
                    a, _ = s.accept()
                    socks[a.fileno()] = a
                    poll.register(a, select.EPOLLIN)
                    continue
                data = socks[fd].recv(4096)
                if data:
                    socks[fd].sendall(data)
                else:
                    socks.pop(fd).close()

    threading.Thread(target=serve, daemon=True).start()
    cs = [connect(s.getsockname()) for _ in range(int(n))]
    for i, c in enumerate(cs):
        c.sendall(b"%d" % i)
    for i, c in enumerate(cs):
        assert c.recv(99) == b"%d" % i
    for c in cs:
        c.shutdown(socket.SHUT_WR)
    for c in cs:
        assert c.recv(1) == b""


def open_close(n):
    """n connections one after the other."""
    s = listener()
    for i in range(int(n)):
        c = connect(s.getsockname())
        a, _ = s.accept()
        c.sendall(b"x")
        assert a.recv(9) == b"x"
        # Both orders of closing.
        first, second = (c, a) if i % 2 else (a, c)
        first.close()
        assert second.recv(1) == b""
        second.close()


def linger():
    s = listener()
    c = connect(s.getsockname())
    a, _ = s.accept()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
    try:
        a.recv(1)
        raise AssertionError("an end and no reset")
    except ConnectionResetError:
        pass
    # Set before connect, and inherited from a listening socket.
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c = connect(s.getsockname())
    a, _ = s.accept()
    a.close()
    try:
        c.recv(1)
        raise AssertionError("an end and no reset")
    except ConnectionResetError:
        pass


def linger_for_a_time():
    """close() waits for the peer, or for the time. Run over the kernel, too."""

    def closing(seconds, reads_after=None):
        s = listener()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50_000)
        c = connect(s.getsockname())
        a, _ = s.accept()
        c.sendall(b"x")
        a.recv(1)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
        sent, got = 0, []
        if reads_after is not None:
            sent = fill(c)

        def read():
            time.sleep(reads_after or 0)
            got.append(len(read_all(a)))

        reader = threading.Thread(target=read)
        reader.start()
        start = time.monotonic()
        c.close()
        took = time.monotonic() - start
        reader.join()
        assert got == [sent], (got, sent)
        return took

    assert closing(3) < 0.5, "nothing waits"
    took = closing(1, reads_after=2)
    assert 0.9 < took < 1.6, took
    took = closing(5, reads_after=0.5)
    assert 0.4 < took < 3, took


def reset_before_accept():
    """A connection that is over before anybody accepts it is accepted as any other."""
    s = listener()
    c = connect(s.getsockname())
    c.sendall(b"12")
    time.sleep(0.1)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
    time.sleep(0.2)
    a, _ = s.accept()
    assert a.recv(9) == b"12"
    try:
        a.recv(1)
        raise AssertionError("an end and no reset")
    except ConnectionResetError:
        pass
    # And the next one.
    c = connect(s.getsockname())
    a, _ = s.accept()
    c.sendall(b"3")
    assert a.recv(9) == b"3"


def unread_data_is_a_reset():
    s = listener()
    c = connect(s.getsockname())
    a, _ = s.accept()
    a.sendall(b"never read")
    assert select.select([c], [], [], 3)[0]
    c.close()
    try:
        a.recv(1)
        raise AssertionError("an end and no reset")
    except ConnectionResetError:
        pass


def early_answers(tries):
    """Who answers and closes without reading all is heard by a client that still writes."""
    tries, answer = int(tries), os.urandom(3000)
    s = listener()

    def serve():
        for _ in range(tries):
            a, _ = s.accept()
            a.recv(100)
            a.sendall(answer)
            a.close()

    threading.Thread(target=serve, daemon=True).start()
    lost = 0
    for _ in range(tries):
        c, got = connect(s.getsockname()), b""
        try:
            for _ in range(30):
                c.sendall(bytes(65536))
        except ConnectionError:
            pass
        try:
            while data := c.recv(65536):
                got += data
        except ConnectionError:
            pass
        lost += got != answer
    assert lost == 0, f"{lost} of {tries} answers are lost"


def last_words_have_an_end():
    """A peer that takes nothing keeps no connection whose application is gone."""
    s = listener()
    c = connect(s.getsockname())
    a, _ = s.accept()
    c.sendall(b"never read")
    a.setblocking(False)
    full = 0
    while full < 5:
        try:
            a.send(bytes(65536))
            full = 0
        except BlockingIOError:
            full += 1
            time.sleep(0.05)
    a.close()
    open_ones = lambda: sum(x["state"] == "ESTAB" for x in connections())
    assert open_ones() == 2, "it waits for the acknowledgement"
    wait_until(8, lambda: open_ones() == 0)
    # Without a wait if that is asked for.
    c = connect(s.getsockname())
    a, _ = s.accept()
    c.sendall(b"never read")
    a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert select.select([a], [], [], 3)[0]
    a.close()
    wait_until(1, lambda: open_ones() == 0)


def options_with_effect():
    s = listener()
    c = socket.socket()
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
    c.connect(s.getsockname())
    a, _ = s.accept()
    # Both send no more than was announced, less the timestamps.
    sizes = [x.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) for x in (c, a)]
    assert sizes == [988, 988], sizes
    # On connections, too, of both sides.
    for x in (c, a):
        x.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT):
            x.setsockopt(socket.IPPROTO_TCP, name, 7)
    # Nobody answers: the connection is given up long before the last of fifty SYNs.
    b = socket.socket()
    b.setsockopt(0x5769, 1, b"syn_tries=50")
    b.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 300)
    begun = time.monotonic()
    try:
        b.connect(("127.9.9.9", 80))
        raise AssertionError("somebody answered")
    except OSError as e:
        assert e.errno == errno.ETIMEDOUT, e
    assert time.monotonic() - begun < 50


def options_without_effect():
    for _ in range(2):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for name in (socket.TCP_CORK, socket.TCP_SYNCNT):
            s.setsockopt(socket.IPPROTO_TCP, name, 1)
        # What is so anyway is not worth a word.
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def noted(place):
    """What is said of options, while descriptor 2 is what it was and when it is not."""
    socket.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    os.dup2(os.open(place, os.O_CREAT | os.O_WRONLY), 2)
    socket.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)


def too_many_waiting():
    """The daemon holds 256 sockets of a user that have not said what they want."""
    s = listener()
    idle = []
    for _ in range(300):
        idle.append(socket.socket(socket.AF_UNIX))
        idle[-1].connect(os.environ["WIFU_SOCKET"])
    # The daemon has looked at them all when it has closed the last one.
    assert idle[-1].recv(1) == b""
    c = socket.socket()
    for _ in range(3):
        try:
            c.connect(s.getsockname())
            raise AssertionError("there was room")
        except OSError as e:
            # Which one, depends on whether the daemon or the library is faster.
            assert e.errno in (errno.ENOBUFS, errno.ECONNREFUSED), e
    for i in idle:
        i.close()
    time.sleep(0.2)
    c.connect(s.getsockname())
    c.sendall(b"x")
    assert s.accept()[0].recv(1) == b"x"


def urgent():
    """MSG_OOB from either side: its byte comes in its place, and the daemon goes on."""
    signal.alarm(20)
    for first in (b"", b"data"):
        s = listener()
        c = connect(s.getsockname())
        a, _ = s.accept()
        for x, y in ((c, a), (a, c)):
            if first:
                x.sendall(first)
            x.send(b"!", socket.MSG_OOB)
            want = first + b"!"
            assert y.recv(len(want), socket.MSG_WAITALL) == want
            # One on another, and data behind.
            x.send(b"ab", socket.MSG_OOB)
            x.send(b"c", socket.MSG_OOB)
            x.sendall(b"def")
            assert y.recv(6, socket.MSG_WAITALL) == b"abcdef"
        # Before it can be known whether anybody takes it, and at the very end.
        d = connect(s.getsockname())
        d.send(b"?", socket.MSG_OOB)
        d.close()
        assert read_all(s.accept()[0]) == b"?"
        c.send(b".", socket.MSG_OOB)
        c.shutdown(socket.SHUT_WR)
        assert read_all(a) == b"."


def killed_program():
    """A program that dies closes its connections."""
    s = listener()
    pid = os.fork()
    if pid == 0:
        c = connect(s.getsockname())
        c.sendall(b"here")
        signal.pause()
    a, _ = s.accept()
    assert a.recv(9) == b"here"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert a.recv(1) == b""


def full_queue():
    """More clients than the accept queue holds, and a slow server: all are served."""
    s = listener(backlog=1)
    got = []

    def client(i):
        c = connect(s.getsockname())
        c.sendall(b"%d" % i)
        got.append(c.recv(99))

    ts = [threading.Thread(target=client, args=(i,)) for i in range(12)]
    for t in ts:
        t.start()
    for _ in ts:
        time.sleep(0.05)
        a, _ = s.accept()
        a.sendall(a.recv(99))
    for t in ts:
        t.join()
    assert sorted(map(int, got)) == list(range(12)), got


def dead_listener():
    """Whoever stops listening refuses, and its port is free at once."""
    pid = os.fork()
    if pid == 0:
        s = listener(port=7100)
        os.kill(os.getppid(), signal.SIGUSR1)
        signal.pause()
    signal.sigwait([signal.SIGUSR1])
    connect((IP, 7100)).close()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    try:
        connect((IP, 7100)).recv(1)
        raise AssertionError("a dead listener took a connection")
    except ConnectionError:
        pass
    time.sleep(0.4)
    try:
        connect((IP, 7100))
        raise AssertionError("a dead listener took a connection")
    except ConnectionRefusedError:
        pass
    listener(port=7100)


def closed_listener():
    """Whoever closes a listening socket refuses from then on."""
    for _ in range(20):
        s = listener()
        connect(s.getsockname()).close()
        name = s.getsockname()
        s.close()
        t = time.monotonic()
        try:
            connect(name)
            raise AssertionError("a closed socket took a connection")
        except ConnectionRefusedError:
            pass
        assert time.monotonic() - t < 0.3, "only the second try was refused"


def names_after_the_end():
    """A socket has its address for life; its peer's only as long as there is a connection."""
    for first in (0, 1):
        s = listener()
        c = connect(s.getsockname())
        a, _ = s.accept()
        names = c.getsockname(), a.getsockname()
        ends = (c, a) if first else (a, c)
        for x in ends:
            x.shutdown(socket.SHUT_WR)
        for x in ends:
            assert x.recv(1) == b""
        # Until the daemon has let go of both.
        wait_until(3, lambda: select.select([], [], [], 0.1) and poll_hup(c) and poll_hup(a))
        assert (c.getsockname(), a.getsockname()) == names
        for x in ends:
            try:
                x.getpeername()
                raise AssertionError("a peer is left")
            except OSError as e:
                assert e.errno == errno.ENOTCONN, e


def poll_hup(s):
    p = select.poll()
    p.register(s, 0)
    return p.poll(0)


def fill(s):
    """Sends until nothing more is taken for a while; how much was."""
    s.setblocking(False)
    sent, full = 0, 0
    while full < 5:
        try:
            sent += s.send(bytes(65536))
            full = 0
        except BlockingIOError:
            full += 1
            time.sleep(0.05)
    s.setblocking(True)
    return sent


def send_queue():
    """SIOCOUTQ: what the peer has not acknowledged, wherever it is, and nothing else."""

    def queued(s):
        return struct.unpack("i", fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4)))[0]

    s = listener()
    c = socket.socket()
    assert queued(c) == 0
    c.connect(s.getsockname())
    a, _ = s.accept()
    assert queued(c) == queued(a) == 0
    for _ in range(3):
        c.sendall(b"heard")
        a.recv(5)
        wait_until(2, lambda: queued(c) == 0)
    sent = fill(c)
    waits = queued(c)
    assert 0 < waits < sent, (waits, sent)
    left = sent
    while left:
        left -= len(a.recv(min(left, 1 << 16)))
    wait_until(3, lambda: queued(c) == 0)
    try:
        queued(s)
        raise AssertionError("a listening socket sends nothing")
    except OSError as e:
        assert e.errno == errno.EINVAL, e


def small_send_buffer():
    """SO_SNDBUF bounds what is taken; everything arrives all the same."""

    def pair(before, size=4096):
        s = listener()
        c = socket.socket()
        ends = (c, s) if before else ()
        for x in ends:
            x.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        c.connect(s.getsockname())
        a, _ = s.accept()
        if not before:
            for x in (c, a):
                x.sendall(b"12")
                (a if x is c else c).recv(2)
                x.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        return c, a

    def room(x):
        p = select.poll()
        p.register(x, select.POLLOUT)
        return p.poll(3000)

    def filled(x):
        """What it takes until it says for a second that it is full: a busy host takes in late."""
        sent = fill(x)
        while select.select([], [x], [], 1)[1]:
            sent += fill(x)
        return sent

    plain = [filled(x) for x in pair(True, 300_000)]
    for before in (True, False):
        c, a = pair(before)
        for x, y in ((c, a), (a, c)):
            if before:
                assert x.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 8192
            sent = filled(x)
            # What the peer's host holds for its application is the same for all.
            assert sent < min(plain) - 150_000, (sent, plain, before)
            left = sent
            while left:
                left -= len(y.recv(min(left, 1 << 16)))
            # There is room again, also for the largest that it takes at once.
            for _ in range(20):
                assert room(x)
                n = x.send(bytes(8192))
                while n:
                    n -= len(y.recv(n))
        c.close()
        assert a.recv(1) == b""


def fails(number, f, *args):
    try:
        f(*args)
    except OSError as e:
        assert e.errno == number, e
    else:
        raise AssertionError(f"no error, expected {errno.errorcode[number]}")


def bound(option=None, name=(IP, 0)):
    s = socket.socket()
    if option:
        s.setsockopt(socket.SOL_SOCKET, option, 1)
    s.bind(name)
    return s


def shared_port():
    """Several listening sockets of one user at one port, in processes of their own, get all
    connections between them; nobody else joins them."""
    reuse = socket.SO_REUSEPORT
    first = bound(reuse)
    name = first.getsockname()
    assert first.getsockopt(socket.SOL_SOCKET, reuse) == 1
    first.listen()
    others = [bound(reuse, name) for _ in range(3)]
    for s in others:
        assert s.getsockname() == name
        s.listen()
    # Not who does not ask for it, nor another user; and not by the way that is for clients.
    for option in (None, socket.SO_REUSEADDR):
        fails(errno.EADDRINUSE, bound, option, name)
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        try:
            bound(reuse, name).listen()
        except OSError as e:
            os._exit(0 if e.errno == errno.EADDRINUSE else 2)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    servers = [first, *others]
    took = {s.fileno(): 0 for s in servers}

    def ask(n):
        cs = [connect(name) for _ in range(n)]
        for _ in cs:
            for s in select.select(servers, [], [], 3)[0][:1]:
                a, _ = s.accept()
                took[s.fileno()] += 1
                a.sendall(b"x")
                a.close()
        return sum(c.recv(9) == b"x" for c in cs)

    assert ask(40) == 40
    assert all(n > 3 for n in took.values()), took
    # Who closes leaves the connections to the others.
    for s in servers[:3]:
        s.close()
    del servers[:3]
    assert ask(10) == 10
    servers[0].close()
    fails(errno.ECONNREFUSED, connect, name)
    listener(port=name[1])


def shared_port_tuned():
    """Of sockets that share a port each has options of its own, and so have the connections that it
    takes. Run over the kernel, too."""
    ours = "WIFU_SOCKET" in os.environ
    reuse, tcp, sol = socket.SO_REUSEPORT, socket.IPPROTO_TCP, socket.SOL_SOCKET
    first = bound(reuse)
    name = first.getsockname()
    first.listen()
    second = bound(reuse, name)
    second.listen()

    def tune(s, idle):
        s.setsockopt(sol, socket.SO_SNDBUF, 50_000)
        s.setsockopt(sol, socket.SO_RCVBUF, 60_000)
        s.setsockopt(sol, socket.SO_KEEPALIVE, 1)
        s.setsockopt(tcp, socket.TCP_KEEPIDLE, idle)
        s.setsockopt(tcp, socket.TCP_USER_TIMEOUT, 9000)

    tune(first, 77)
    # Who comes later does not have to know.
    third = bound(reuse, name)
    third.listen()
    servers = [first, second, third]
    idle = [s.getsockopt(tcp, socket.TCP_KEEPIDLE) for s in servers]
    assert idle == [77, 7200, 7200], idle
    sizes = [s.getsockopt(sol, socket.SO_RCVBUF) for s in servers]
    assert sizes[0] == 120_000 and sizes[1] == sizes[2] != 120_000, sizes

    def taken(n=60):
        """What the connections have that each of them takes."""
        cs = [connect(name) for _ in range(n)]
        took = {s: set() for s in servers}
        for _ in cs:
            s = select.select(servers, [], [], 3)[0][0]
            a, _ = s.accept()
            if ours:
                params = a.getsockopt(0x5769, 2, 1024).decode().split(",")
                has = {p for p in params if p.startswith(("keep", "user", "snd", "rcv"))}
            else:
                has = {f"keep_idle={a.getsockopt(tcp, socket.TCP_KEEPIDLE)}s"}
                has -= {"keep_idle=7200s"}
            took[s].add(frozenset(has))
        assert all(len(has) == 1 for has in took.values()), took
        return [set(*took[s]) for s in servers]

    tuned = {"keep_idle=77s"}
    tuned |= {"keepalive=on", "user_timeout=9000ms"} if ours else set()
    assert taken() == [tuned, set(), set()]
    # Other ones on another.
    tune(second, 55)
    changed = (tuned | {"keep_idle=55s"}) - {"keep_idle=77s"}
    assert taken() == [tuned, changed, set()]
    # What all have is what connections have from their first segment on.
    for s in servers:
        tune(s, 33)
    everywhere = (tuned | {"keep_idle=33s"}) - {"keep_idle=77s"}
    everywhere |= {"snd_buf=50000", "rcv_wnd=60000"} if ours else set()
    assert taken() == [everywhere] * 3
    if ours:
        # One composition is wanted of those that come, and stays the one.
        other = bound(reuse, name)
        other.setsockopt(tcp, socket.TCP_CONGESTION, b"reno")
        fails(errno.EADDRINUSE, other.listen)
        other.close()
        for name_of, value in ((1, b"iw=4"), (2, b"tcp-reno")):
            fails(errno.EADDRINUSE, first.setsockopt, 0x5769, name_of, value)
        assert taken() == [everywhere] * 3


def tuned_while_clients_wait():
    """What is set on a listening socket is at nobody's cost who waits there. Run over the kernel,
    too."""
    s = listener(backlog=1)
    # One more than the queue takes.
    cs = [socket.socket() for _ in range(3)]
    for c in cs:
        c.setblocking(False)
        c.connect_ex(s.getsockname())
    time.sleep(0.3)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
    servers = {}
    for _ in cs:
        assert select.select([s], [], [], 10)[0], f"{len(servers)} of {len(cs)}"
        a, name = s.accept()
        servers[name] = a
    for i, c in enumerate(cs):
        assert select.select([], [c], [], 10)[1]
        c.sendall(b"%d" % i)
        assert servers[c.getsockname()].recv(9) == b"%d" % i


def tuned_alone_at_last():
    """The one that is left has the buffers that it was given, though another one had not."""
    first = bound(socket.SO_REUSEPORT)
    name = first.getsockname()
    first.listen()
    second = bound(socket.SO_REUSEPORT, name)
    second.listen()
    first.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 60_000)

    def has():
        c = connect(name)
        a = select.select([first, second], [], [], 3)[0][0].accept()[0]
        return "rcv_wnd=60000" in a.getsockopt(0x5769, 2, 1024).decode().split(",")

    assert not any(has() for _ in range(6))
    second.close()
    second = first
    wait_until(5, has)


def shared_by_clients():
    """With SO_REUSEADDR a second client has the port of the first, to another server."""
    s, t = listener(), listener()
    reuse = socket.SO_REUSEADDR
    first = bound(reuse)
    name = first.getsockname()
    fails(errno.EADDRINUSE, bound, None, name)
    first.connect(s.getsockname())
    second = bound(reuse, name)
    fails(errno.EADDRNOTAVAIL, second.connect, s.getsockname())
    second = bound(reuse, name)
    second.connect(t.getsockname())
    for c, server in ((first, s), (second, t)):
        a, peer = server.accept()
        assert peer == name == c.getsockname()
        c.sendall(b"x")
        assert a.recv(9) == b"x"
    # One of those may listen, and from then on nobody else is let in.
    third = bound(reuse, name)
    third.listen()
    fails(errno.EADDRINUSE, bound, reuse, name)
    connect(name).sendall(b"y")
    assert third.accept()[0].recv(9) == b"y"


def all_options(s):
    """What a program reads of its socket, by name."""
    tcp, sol = socket.IPPROTO_TCP, socket.SOL_SOCKET
    numbers = {
        sol: "REUSEADDR REUSEPORT KEEPALIVE SNDBUF RCVBUF PRIORITY MARK RCVLOWAT OOBINLINE BROADCAST",
        tcp: "NODELAY KEEPIDLE KEEPINTVL KEEPCNT USER_TIMEOUT MAXSEG SYNCNT",
    }
    found = {}
    for level, names in numbers.items():
        for name in names.split():
            name = ("SO_" if level == sol else "TCP_") + name
            found[name] = s.getsockopt(level, getattr(socket, name))
    for level, name in ((sol, "SO_LINGER"), (sol, "SO_BINDTODEVICE"), (tcp, "TCP_CONGESTION")):
        found[name] = s.getsockopt(level, getattr(socket, name), 16)
    found["IP_TOS"] = s.getsockopt(socket.IPPROTO_IP, socket.IP_TOS)
    found["timeouts"] = [s.getsockopt(sol, n, 16) for n in (20, 21)]
    return found


def set_options(s):
    tcp, sol = socket.IPPROTO_TCP, socket.SOL_SOCKET
    s.setsockopt(tcp, socket.TCP_CONGESTION, b"reno")
    s.setsockopt(sol, socket.SO_BINDTODEVICE, b"lo")
    s.setsockopt(sol, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.setsockopt(sol, 21, struct.pack("ll", 3, 0))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 16)
    for name, value in (
        *((n, 1) for n in "SO_REUSEADDR SO_REUSEPORT SO_KEEPALIVE TCP_NODELAY SO_OOBINLINE".split()),
        *((n, 31) for n in "TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT".split()),
        ("SO_SNDBUF", 6000),
        ("SO_RCVBUF", 50_000),
        ("SO_PRIORITY", 3),
        ("SO_MARK", 5),
        ("SO_RCVLOWAT", 7),
        ("TCP_USER_TIMEOUT", 31_000),
        ("TCP_MAXSEG", 1000),
        ("TCP_SYNCNT", 4),
    ):
        s.setsockopt(sol if name.startswith("SO_") else tcp, getattr(socket, name), value)


def options_survive_a_refusal():
    """Run over WiFu and over the kernel, whose socket stays what it is."""
    nobody = bound()
    ours = "WIFU_SOCKET" in os.environ
    s, fresh = socket.socket(), all_options(socket.socket())
    set_options(s)
    before = all_options(s)
    changed = {n for n in before if before[n] != fresh[n]}
    assert changed == set(before) - {"SO_BROADCAST"}, changed
    for _ in range(2):
        fails(errno.ECONNREFUSED, s.connect, nobody.getsockname())
        after = all_options(s)
        # The kernel takes the timestamps off each time that it tries.
        assert after["TCP_MAXSEG"] == 1000 or not ours
        after["TCP_MAXSEG"] = before["TCP_MAXSEG"]
        assert after == before, {n: (before[n], after[n]) for n in before if after[n] != before[n]}
    # What is set while the answer is waited for counts, too.
    s.setblocking(False)
    s.connect_ex(nobody.getsockname())
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 17)
    wait_until(5, lambda: select.select([], [s], [], 1)[1])
    fails(errno.ECONNREFUSED, s.connect, nobody.getsockname())
    s.setblocking(True)
    # And all of it acts at last.
    server = bound()
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    server.listen()
    s.connect(server.getsockname())
    assert s.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 17
    if ours:
        spec = s.getsockopt(0x5769, 2, 1024).decode()
        name, *params = spec.split(",")
        wanted = "keepalive=on keep_idle=31s keep_count=17 user_timeout=31000ms snd_buf=6000"
        assert name == "tcp-reno" and set(wanted.split()) <= set(params), spec
    a, _ = server.accept()
    s.close()
    fails(errno.ECONNRESET, a.recv, 1)


def options_are_inherited():
    """An accepted socket has the options of its listening one. Run over the kernel, too."""
    ours = "WIFU_SOCKET" in os.environ
    s, plain = bound(), listener()
    set_options(s)
    s.listen()
    for x in (s, plain):
        c = socket.socket()
        if x is s:
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        c.connect(x.getsockname())
        a, _ = x.accept()
        # The kernel shows what the connection uses, and the priority of its packets; what has no
        # effect on WiFu is not handed on.
        left = {"TCP_MAXSEG", "SO_PRIORITY"} | ({"TCP_SYNCNT", "IP_TOS"} if ours else set())
        has, gave = all_options(a), all_options(x)
        differ = {n: (gave[n], has[n]) for n in gave if gave[n] != has[n] and n not in left}
        if x is plain:
            # Those of the kernel grow with the connection.
            differ = {n for n in differ if n not in ("SO_SNDBUF", "SO_RCVBUF")}
        assert not differ, differ


def a_shared_port_survives_a_refusal():
    """The same of a client beside another one on a port (SO_REUSEADDR)."""
    s, t, nobody = listener(), listener(), bound()
    reuse = socket.SO_REUSEADDR
    first = bound(reuse)
    name = first.getsockname()
    second = bound(reuse, name)
    first.connect(s.getsockname())
    for _ in range(2):
        fails(errno.ECONNREFUSED, second.connect, nobody.getsockname())
    second.connect(t.getsockname())
    assert second.getsockname() == name == t.accept()[1]


def wildcard_conflict():
    a = socket.socket()
    a.bind(("0.0.0.0", 7101))
    a.listen()
    b = socket.socket()
    b.bind((IP, 7101))
    try:
        b.listen()
        raise AssertionError("two listen on one port")
    except OSError as e:
        assert e.errno == errno.EADDRINUSE, e


def slow_reader(size):
    """The sender is stopped by a reader that doesn't read, and nothing is lost."""
    size = int(size)
    s = listener()
    c = connect(s.getsockname())
    a, _ = s.accept()
    sent = []

    def send():
        c.sendall(bytes(size))
        sent.append(time.monotonic())
        c.close()

    t = threading.Thread(target=send)
    t.start()
    time.sleep(1)
    assert not sent, "everything fits into buffers: no back-pressure"
    assert len(read_all(a)) == size
    t.join()


def unknown_protocol():
    os.environ["X"] = "1"
    try:
        socket.create_connection((IP, 1), 3)
        raise AssertionError("connected")
    except OSError as e:
        assert e.errno == errno.EPROTONOSUPPORT, e


def restart():
    """Driven by lines on standard input; see front.rs."""
    s = listener(port=7102)
    c = connect(s.getsockname())
    a, _ = s.accept()
    c.sendall(b"1")
    assert a.recv(9) == b"1"
    print("up", flush=True)
    sys.stdin.readline()
    for x in (c, a):
        try:
            print("read", x.recv(9), flush=True)
        except OSError as e:
            print(e.errno, flush=True)
    sys.stdin.readline()
    # The new daemon knows the old listening socket.
    c = connect(s.getsockname())
    a, _ = s.accept()
    c.sendall(b"again")
    print(a.recv(9).decode(), flush=True)


def stolen_name(uid):
    """Somebody takes the name of a listening socket that closed: he gets no connection."""
    name = b"\0wifu/s/127.0.0.1/7103"
    s = listener(port=7103)
    s.close()
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setuid(int(uid))
        thief = socket.socket(socket.AF_UNIX)
        thief.bind(name)
        thief.listen()
        os.write(told, b"x")
        try:
            taken, _ = thief.accept()
            taken.settimeout(5)
            got = taken.recv(9)
        except OSError:
            got = b""
        os._exit(1 if got else 0)
    os.read(ready, 1)
    try:
        c = connect((IP, 7103))
        c.sendall(b"secret")
        c.recv(1)
        raise AssertionError("somebody else took the connection")
    except ConnectionError:
        pass
    try:
        connect((IP, 7103))
        raise AssertionError("the listening socket is still registered")
    except ConnectionRefusedError:
        pass
    # He may still wait for a connection that he was never given.
    done, status = os.waitpid(pid, os.WNOHANG)
    if done == 0:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    else:
        assert status == 0, "somebody else got the data"


def privileged_port():
    """As bind() for the kernel's TCP, but found at listen()."""
    os.setuid(65534)
    for use in (lambda s: s.listen(), lambda s: s.connect((IP, 7105))):
        s = socket.socket()
        s.bind((IP, 80))
        try:
            use(s)
            raise AssertionError("port 80 for anybody")
        except OSError as e:
            assert e.errno == errno.EACCES, e


def drops_privileges():
    """A server that listens as root and accepts as nobody owns what it accepts."""
    s = listener(port=443)
    c = connect(s.getsockname())
    os.setuid(65534)
    a, _ = s.accept()
    a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    info = a.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    assert info[0] == 1, "established"
    c.sendall(b"x")
    assert a.recv(9) == b"x"


def chrooted(root):
    """Behind another root connections are made and taken as before, from any thread."""
    os.mkdir(root)
    os.chroot(root)
    os.chdir("/")
    assert os.listdir("/") == []
    os.mkdir("inside")
    os.chdir("inside")
    print("in", flush=True)
    sys.stdin.readline()
    s = listener()
    for _ in range(3):
        cs = []
        ts = [threading.Thread(target=lambda: cs.append(connect(s.getsockname()))) for _ in range(8)]
        for t in ts:
            t.start()
        for t in ts:
            t.join()
        for c in cs:
            c.sendall(b"%d" % c.getsockname()[1])
        for _ in cs:
            a, peer = s.accept()
            assert a.recv(9) == b"%d" % peer[1]
        assert len(cs) == 8
    assert os.getcwd() == "/inside"
    try:
        os.wait()
        raise AssertionError("a child is left")
    except ChildProcessError:
        pass
    for x in (s, a, *cs):
        x.close()
    # Descriptors are not needed for it.
    os.closerange(3, 1024)
    fails(errno.ECONNREFUSED, connect, (IP, 1))
    # Nor is the user that changed the root, whose children go their own way, too.
    s = listener()
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        c = connect(s.getsockname())
        assert c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[0] == 1
        c.sendall(b"child")
        os._exit(0)
    assert s.accept()[0].recv(9) == b"child"
    assert os.waitpid(pid, 0)[1] == 0


def no_way_out(root):
    """No descriptor leads to a directory, from which `..` leads out."""
    os.mkdir(root)
    os.chroot(root)
    os.chdir("/")
    s = listener()
    c = connect(s.getsockname())
    assert c.fileno() > s.fileno()
    for fd in range(1024):
        try:
            directory = stat.S_ISDIR(os.fstat(fd).st_mode)
        except OSError:
            continue
        assert not directory, fd
        fails(errno.ENOTDIR, lambda fd=fd: os.open("../etc/os-release", os.O_RDONLY, dir_fd=fd))


def robbed_behind_a_root(root):
    """Somebody has the daemon's name while that is away: he is not shown the key."""
    os.mkdir(root)
    sockets = open("/proc/net/unix")
    os.chroot(root)
    name = next(n for n in sockets.read().split() if n.startswith("@wifu/d/"))
    print("in", flush=True)
    sys.stdin.readline()
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        thief = socket.socket(socket.AF_UNIX)
        thief.bind(name.replace("@", "\0"))
        thief.listen()
        os.write(told, b"x")
        os._exit(1 if thief.accept()[0].recv(99) else 0)
    os.read(ready, 1)
    s = socket.socket()
    for _ in range(2):
        fails(errno.ENETDOWN, s.connect, (IP, 1))
    assert os.waitpid(pid, 0)[1] == 0


def robbed_by_who_is_busy(root):
    """The same, and he takes nothing: nobody waits for him."""
    os.mkdir(root)
    sockets = open("/proc/net/unix")
    os.chroot(root)
    name = next(n for n in sockets.read().split() if n.startswith("@wifu/d/")).replace("@", "\0")
    print("in", flush=True)
    sys.stdin.readline()
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        thief = socket.socket(socket.AF_UNIX)
        thief.bind(name)
        thief.listen(0)
        others = [socket.socket(socket.AF_UNIX) for _ in range(9)]
        for o in others:
            o.setblocking(False)
            o.connect_ex(name)
        os.write(told, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    start = time.monotonic()
    try:
        fails(errno.ENETDOWN, socket.socket().connect, (IP, 1))
        assert time.monotonic() - start < 5
    finally:
        os.kill(pid, signal.SIGKILL)


def root_refused(root):
    """A change of the root that fails changes nothing."""
    fails(errno.ENOENT, os.chroot, root)
    s = listener()
    connect(s.getsockname())
    print("in", flush=True)
    sys.stdin.readline()
    s = listener()
    connect(s.getsockname())


def serve_one(port):
    """Serves until killed."""
    s = listener(port=int(port))
    c = connect(s.getsockname())
    a, _ = s.accept()
    c.sendall(b"x")
    assert a.recv(9) == b"x"
    print("up", flush=True)
    signal.pause()


if __name__ == "__main__":
    signal.alarm(60)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    globals()[sys.argv[1]](*sys.argv[2:])
