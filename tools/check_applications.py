"""Runs unmodified programs over WiFu between two network namespaces and compares every octet.

Each case runs over a `wifu daemon` of its own at both ends. During it the kernel's own TCP must not
have sent a segment, and the daemons must have carried what was moved, so a program that WiFu did
not reach cannot pass. The case through TUN is the opposite: one end is the kernel's TCP.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import services
from app_world import SIZE, Command, World
from netlab import ROOT, Lab, LabError, main_guard, need, run, wait_for

ASYNCIO = """\
import asyncio, hashlib, os, sys

async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def serve(port):
    async with await asyncio.start_server(echo, "0.0.0.0", port) as server:
        await server.serve_forever()

async def one(host, port):
    reader, writer = await asyncio.open_connection(host, port)
    data = os.urandom(300_000)
    async def send():
        writer.write(data)
        await writer.drain()
        writer.write_eof()
    _, got = await asyncio.gather(send(), reader.read(-1))
    writer.close()
    return got == data

async def many(host, port):
    return all(await asyncio.gather(*(one(host, port) for _ in range(25))))

if sys.argv[1] == "serve":
    asyncio.run(serve(int(sys.argv[2])))
sys.exit(0 if asyncio.run(many(sys.argv[2], int(sys.argv[3]))) else 1)
"""


def nginx_curl(w: World) -> None:
    """Four curls at once from an nginx with four workers, and one that is refused."""
    server = w.serve(8080, *w.nginx("8080"))
    paths = [w.lab.scratch / f"got{i}" for i in range(4)]
    curls = [["curl", "-sSf", "-o", str(p), w.url(8080)] for p in paths]
    clients = [w.lab.start(w.lab.b, *w.over(w.lab.b, *c)) for c in curls]
    for client, path in zip(clients, paths, strict=True):
        if client.popen.wait(60) != 0:
            raise LabError(f"curl: {client.said()}")
        w.compare(path)
    server.stop()
    try:
        w.ask("curl", "-sS", "--max-time", "10", w.url(8081))
    except LabError as error:
        if "curl: (7)" not in str(error):
            raise
    else:
        raise LabError("curl connected to a port where nobody listens")


def nginx_wget(w: World) -> None:
    """Wget from nginx."""
    server = w.serve(8080, *w.nginx("8080"))
    path = w.lab.scratch / "got"
    w.ask("wget", "-q", "-T", "30", "-O", path, w.url(8080))
    w.compare(path)
    server.stop()


def python_http(w: World) -> None:
    """Curl, and urllib, from python's http.server."""
    command: Command = ["python3", "-u", "-m", "http.server", "8000", "--directory", w.file.parent]
    server = w.serve(8000, *command)
    path = w.lab.scratch / "got"
    w.ask("curl", "-sSf", "-o", path, w.url(8000))
    w.compare(path)
    fetch = "import sys, urllib.request as u; u.urlretrieve(sys.argv[1], sys.argv[2])"
    w.ask("python3", "-c", fetch, w.url(8000), path)
    w.compare(path)
    server.stop()


def python_asyncio(w: World) -> None:
    """25 connections at once to an echo server, both in asyncio, with half-close."""
    script = w.lab.scratch / "echo.py"
    script.write_text(ASYNCIO)
    server = w.serve(9000, "python3", script, "serve", "9000")
    w.ask("python3", script, "ask", w.lab.a.address, "9000")
    server.stop()


def iperf3(w: World) -> None:
    """Iperf3 forwards, backwards, in both directions, with four streams; its control as well."""
    server = w.serve(5201, "iperf3", "-s")
    for more in ([], ["-R"], ["--bidir"], ["-P", "4"]):
        command = ["iperf3", "-c", w.lab.a.address, "-t", "1", "-J", *more]
        end = json.loads(w.ask(*command))["end"]
        if end["sum_received"]["bytes"] < 100_000:
            raise LabError(f"iperf3 {' '.join(more)}: {end['sum_received']}")
        time.sleep(0.2)  # iperf3's server is not at once ready for the next
    server.stop()


def socat(w: World) -> None:
    """Socat sends a file to socat, which ends upon the half-close."""
    path = w.lab.scratch / "got"
    server = w.serve(7000, "socat", "-u", "TCP4-LISTEN:7000", f"OPEN:{path},creat")
    w.ask("socat", "-u", f"OPEN:{w.file},rdonly", f"TCP4:{w.lab.a.address}:7000")
    if server.popen.wait(30) != 0:
        raise LabError(f"socat: {server.said()}")
    w.compare(path)


def c_library(w: World) -> None:
    """A C program on the static library: sends a file by sendfile and has it echoed."""
    program, crate = w.lab.scratch / "wifu-file", ROOT / "crates" / "wifu-c"
    source: Command = [crate / "examples-c" / "wifu-file.c", w.binaries / "libwifu.a"]
    flags: Command = ["-Wall", "-Wextra", "-Werror", "-O1", "-I", crate / "include"]
    run("cc", *flags, *source, "-o", program, "-lpthread", "-ldl", "-lm", timeout=60)
    at_a, at_b = (
        {"WIFU_SOCKET": str(w.lab.door(host)), "WIFU_PROTOCOL": w.protocol}
        for host in (w.lab.a, w.lab.b)
    )
    server = w.lab.start(w.lab.a, program, "serve", "6000", "1", env=at_a)
    wait_for("wifu-file", lambda: "listening" in server.said(), server)
    to: Command = [w.lab.a.address, "6000", w.file]
    client = w.lab.start(w.lab.b, program, "send", *to, env=at_b)
    if client.popen.wait(60) != 0 or f"{SIZE} bytes there and back" not in client.said():
        raise LabError(f"wifu-file: {client.said()}")


def through_tun(w: World) -> None:
    """The kernel's curl from nginx over WiFu, and the reverse, through a TUN device on host a."""
    ours, kernels = "10.9.0.2", "10.9.0.1"
    w.daemons[0].stop()
    carrier = ["--carrier", "tun", "--address", ours, "--kernel-address", kernels]
    w.daemons[0] = w.daemon(w.lab.a, *carrier)
    path = w.lab.scratch / "got"
    curl: Command = ["curl", "-sSf", "-o", path]
    over_wifu = w.serve(8080, *w.nginx("8080"))
    w.lab.a.run(*curl, f"http://{ours}:8080/file")
    w.compare(path)
    over_wifu.stop()
    of_kernel = w.lab.start(w.lab.a, *w.nginx(f"{kernels}:8080"))
    wait_for("nginx", lambda: ":8080" in w.lab.a.run("ss", "-tlnH"), of_kernel)
    w.lab.a.run(*w.over(w.lab.a, *curl, f"http://{kernels}:8080/file"))
    w.compare(path)
    of_kernel.stop()


# Name, how many bytes the daemon of each host has to carry at least, and the case.
Case = tuple[str, int, Callable[[World], None]]
OVER_RAW: list[Case] = [
    ("nginx, curl", 4 * SIZE, nginx_curl),
    ("nginx, wget", SIZE, nginx_wget),
    ("python http.server, curl, urllib", 2 * SIZE, python_http),
    ("python asyncio", 2 * 25 * 300_000, python_asyncio),
    ("iperf3", 400_000, iperf3),
    ("socat", SIZE, socat),
    ("C program on libwifu.a", 2 * SIZE, c_library),
    *services.CASES,
]
THROUGH_TUN: Case = ("nginx and curl, kernel's TCP through TUN", SIZE, through_tun)
NEEDED = {
    "the lab": ["ip", "ss", "cc", "setpriv", "getent", "ssh-keygen", "mariadb-install-db"],
    "servers": ["nginx", "redis-server", "mariadbd", "apache2", "haproxy", "vsftpd", "sshd"],
    "clients": ["curl", "wget", "redis-cli", "redis-benchmark", "psql", "pgbench", "mariadb", "ab"],
    "more clients": ["wrk", "ssh", "scp", "sftp"],
    "both": ["python3", "iperf3", "socat", "java", "node"],
}


def check(world: World, case: Case) -> None:
    """Run a case with daemons of its own; what it moved went through them, or it fails."""
    name, moves, act = case
    hosts = (world.lab.a, world.lab.b)
    before = [host.tcp()["OutSegs"] for host in hosts]
    begun = time.monotonic()
    world.up()
    act(world)
    carried = world.down()
    kernel = before != [host.tcp()["OutSegs"] for host in hosts]
    if kernel != (case is THROUGH_TUN):
        raise LabError(f"{name}: the kernel's TCP was {'' if kernel else 'not '}used")
    # Through TUN host b is no party to it.
    if min(carried[:1] if case is THROUGH_TUN else carried) < moves:
        raise LabError(f"{name}: the daemons carried {carried} bytes, which is less than {moves}")
    print(f"{name}: ok, {time.monotonic() - begun:.1f} s", flush=True)


def main() -> int:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=Path("target/release"), help="where `wifu` is")
    parser.add_argument("--protocol", default="tcp-sack", help="of WiFu")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    args = parser.parse_args()
    need(*(command for commands in NEEDED.values() for command in commands))
    chosen = [case for case in [*OVER_RAW, THROUGH_TUN] if args.only in case[0]]
    with Lab("apps", 200) as lab:
        world = World(lab, args.bin.resolve(), args.protocol)
        for case in chosen:
            check(world, case)
    print(f"{len(chosen)} passed, 0 failed")
    return 0


if __name__ == "__main__":
    main_guard(main)
