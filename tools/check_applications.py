"""Runs unmodified programs over WiFu between two network namespaces and compares every octet.

Each case runs over `wifu daemon` at both ends. During it the kernel's own TCP must not have sent a
segment, so a program that WiFu did not reach cannot pass. The cases through TUN are the opposite:
one end is the kernel's TCP.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from netlab import (
    Host,
    Lab,
    LabError,
    Process,
    daemon_answers,
    main_guard,
    need,
    run,
    wait_for,
)

SIZE = 5_000_000
Command = list[str | Path]
ROOT = Path(__file__).resolve().parent.parent
NGINX = """\
user root;
daemon off;
worker_processes 4;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    sendfile on;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen {address}; root {folder}; }}
}}
"""
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


class World:
    """A lab with daemons, a file to move, and the means to run programs over a protocol."""

    def __init__(self, lab: Lab, binaries: Path, protocol: str) -> None:
        self.lab, self.binaries, self.protocol = lab, binaries, protocol
        self.wifu = binaries / "wifu"
        self.file = lab.scratch / "file"
        data = os.urandom(SIZE)
        self.file.write_bytes(data)
        self.digest = hashlib.sha256(data).hexdigest()
        self.daemons = [self.daemon(host) for host in (lab.a, lab.b)]

    def daemon(self, host: Host, *more: str) -> Process:
        """Start a daemon and wait until it answers."""
        door = self.lab.door(host)
        daemon = self.lab.start(host, self.wifu, "daemon", "--socket", door, *more)
        wait_for("wifu daemon", partial(daemon_answers, host, self.wifu, door), daemon)
        return daemon

    def over(self, host: Host, *command: str | Path) -> Command:
        """Return a command that runs over WiFu."""
        door = self.lab.door(host)
        return [self.wifu, "exec", "--protocol", self.protocol, "--socket", door, "--", *command]

    def serve(self, port: int, *command: str | Path) -> Process:
        """Start a server on host a, over WiFu, and wait until it listens."""
        server = self.lab.start(self.lab.a, *self.over(self.lab.a, *command))
        asks: Command = [self.wifu, "ss", "--listening", "--socket", self.lab.door(self.lab.a)]
        wait_for(
            f"{command[0]} on port {port}", lambda: f":{port} " in self.lab.a.run(*asks), server
        )
        return server

    def ask(self, *command: str | Path, seconds: float = 60) -> str:
        """Run a client on host b, over WiFu, to its end."""
        return self.lab.b.run(*self.over(self.lab.b, *command), timeout=seconds)

    def url(self, port: int, name: str = "file") -> str:
        """Return where host a serves."""
        return f"http://{self.lab.a.address}:{port}/{name}"

    def compare(self, path: Path) -> None:
        """Fail if a file is not the one that was sent."""
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != self.digest:
                raise LabError(f"{path.name} is not what was sent")
        path.unlink()

    def nginx(self, address: str) -> Command:
        """Return the command of an nginx with four workers that serves the scratch folder."""
        conf = self.lab.scratch / "nginx.conf"
        conf.write_text(NGINX.format(folder=self.lab.scratch, address=address))
        return ["nginx", "-p", self.lab.scratch, "-c", conf]


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
    command: Command = ["python3", "-u", "-m", "http.server", "8000", "--directory", w.lab.scratch]
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


OVER_RAW: list[tuple[str, Callable[[World], None]]] = [
    ("nginx, curl", nginx_curl),
    ("nginx, wget", nginx_wget),
    ("python http.server, curl, urllib", python_http),
    ("python asyncio", python_asyncio),
    ("iperf3", iperf3),
    ("socat", socat),
    ("C program on libwifu.a", c_library),
]


def main() -> int:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=Path("target/release"), help="where `wifu` is")
    parser.add_argument("--protocol", default="tcp-sack", help="of WiFu")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    args = parser.parse_args()
    need("ip", "tc", "nginx", "curl", "wget", "python3", "iperf3", "socat", "cc")
    binaries, passed = args.bin.resolve(), 0
    with Lab("apps", 200) as lab:
        world = World(lab, binaries, args.protocol)
        for name, case in [*OVER_RAW, ("nginx and curl, kernel's TCP through TUN", through_tun)]:
            if args.only not in name:
                continue
            before = [host.tcp()["OutSegs"] for host in (lab.a, lab.b)]
            begun = time.monotonic()
            case(world)
            kernel = before != [host.tcp()["OutSegs"] for host in (lab.a, lab.b)]
            if kernel != (case is through_tun):
                raise LabError(f"{name}: the kernel's TCP was {'' if kernel else 'not '}used")
            print(f"{name}: ok, {time.monotonic() - begun:.1f} s", flush=True)
            passed += 1
    print(f"{passed} passed, 0 failed")
    return 0


if __name__ == "__main__":
    main_guard(main)
