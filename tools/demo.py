"""`make demo`: curl fetches a file from nginx over the kernel's TCP and over each TCP of WiFu.

Two network namespaces are the hosts, a veth pair shaped at both ends is the link, with a queue so
short that it overflows and each TCP shows what it does then; curl and nginx are unmodified. Per
protocol: the SHA-256 of what arrived must be that of the file, and during WiFu's runs the kernel's
own TCP must not have sent a single segment.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import capture
import demo_figure
from netlab import (
    Host,
    Lab,
    LabError,
    Process,
    Sample,
    Sampler,
    cpu_seconds,
    daemon_answers,
    machine_seconds,
    main_guard,
    need,
    run_client,
    wait_for,
)

KERNEL = "kernel reno"
PROTOCOLS = ["tcp-tahoe", "tcp-reno", "tcp-newreno", "tcp-sack", "tcp-cubic"]
PORT = 8080

NGINX_CONF = """\
# root reads the file in a folder that is nobody else's.
user root;
daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 64; }}
http {{
    access_log off;
    sendfile on;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen {port}; root {folder}/www; }}
}}
"""


@dataclasses.dataclass
class Result:
    """One transfer."""

    protocol: str
    bytes: int
    seconds: float
    retransmissions: int | None
    client_cpu_s: float
    daemon_cpu_s: float
    machine_cpu_s: float
    captures: list[str]
    samples: list[Sample]

    @property
    def goodput_mbit(self) -> float:
        """Octets of the file over the time curl took, its start and the handshake included."""
        return self.bytes * 8 / self.seconds / 1e6


def size(text: str) -> int:
    """Octets of `100M`, `64k` or `1000`, by powers of ten."""
    match = re.fullmatch(r"(\d+)([kMG]?)B?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; examples: 100M, 64k")
    return int(match[1]) * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[match[2]]


def make_file(path: Path, octets: int) -> str:
    """Write random octets; return their SHA-256."""
    digest = hashlib.sha256()
    with path.open("wb") as out:
        for start in range(0, octets, 1 << 20):
            block = os.urandom(min(1 << 20, octets - start))
            digest.update(block)
            out.write(block)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file; of nothing, if it does not exist."""
    if not path.exists():
        return "nothing"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Demo:
    """The hosts, the programs on them, and what they measured."""

    def __init__(self, lab: Lab, args: argparse.Namespace) -> None:
        self.lab, self.args = lab, args
        self.out: Path = args.out
        self.wifu: Path = args.bin / "wifu"
        self.download = lab.scratch / "download"
        self.www = lab.scratch / "www"
        self.www.mkdir()
        self.digest = make_file(self.www / "file", args.size)
        self.nginx_conf = lab.scratch / "nginx.conf"
        self.nginx_conf.write_text(NGINX_CONF.format(folder=lab.scratch, port=PORT))

    def nginx(self) -> list[str | Path]:
        """Return the command of the server."""
        return ["nginx", "-p", self.lab.scratch, "-c", self.nginx_conf]

    def curl(self) -> list[str | Path]:
        """Return the command of the client."""
        url = f"http://{self.lab.a.address}:{PORT}/file"
        return ["curl", "--silent", "--show-error", "--fail", "--output", self.download, url]

    def received(self) -> int:
        """Octets that curl has written so far."""
        return self.download.stat().st_size if self.download.exists() else 0

    def over_kernel(self) -> Result:
        """Transfer over the kernel's Reno."""
        lab = self.lab
        server = lab.start(lab.a, *self.nginx())
        listens = f"sport = :{PORT}"
        wait_for("nginx", lambda: bool(lab.a.run("ss", "-tlnH", listens).strip()), server)

        def probe(time_s: float) -> Sample:
            text = lab.a.run("ss", "-tinOH", "state", "established", listens)
            return kernel_sample(time_s, self.received(), text)

        before = lab.a.tcp()["RetransSegs"]
        result = self.transfer(KERNEL, self.curl(), probe, server, [])
        result.retransmissions = lab.a.tcp()["RetransSegs"] - before
        server.stop()
        return result

    def over_wifu(self, protocol: str) -> Result:
        """Transfer over one of WiFu's protocols."""
        lab = self.lab
        over_a, over_b = (self.over(protocol, host) for host in (lab.a, lab.b))
        file = self.out / f"{protocol}.pcapng"
        with self.daemons(file) as daemons:
            before = [host.tcp()["OutSegs"] for host in (lab.a, lab.b)]
            server = lab.start(lab.a, *over_a, *self.nginx())
            self.wait_until_served(server, over_b)

            def probe(time_s: float) -> Sample:
                text = lab.a.run(self.wifu, "ss", "--json", "--socket", lab.door(lab.a))
                return wifu_sample(time_s, self.received(), json.loads(text))

            result = self.transfer(protocol, [*over_b, *self.curl()], probe, server, daemons)
            result.captures = [str(file)]
            after = [host.tcp()["OutSegs"] for host in (lab.a, lab.b)]
            if before != after:
                raise LabError(
                    f"{protocol}: the kernel's TCP was used, {before} -> {after} segments"
                )
            server.stop()
        source = socket.inet_aton(lab.a.address)
        result.retransmissions = capture.sent_again(file, source)
        return result

    def over(self, protocol: str, host: Host) -> list[str | Path]:
        """Return what makes a command on a host run over a protocol."""
        return [self.wifu, "exec", "--protocol", protocol, "--socket", self.lab.door(host), "--"]

    @contextmanager
    def daemons(self, file: Path) -> Iterator[list[Process]]:
        """One daemon per host; the server's writes the capture."""
        lab = self.lab
        pairs: list[tuple[Host, list[str | Path]]] = [(lab.a, ["--pcap", file]), (lab.b, [])]
        daemons = [
            lab.start(host, self.wifu, "daemon", "--socket", lab.door(host), *more)
            for host, more in pairs
        ]
        try:
            for (host, _more), daemon in zip(pairs, daemons, strict=True):
                ready = partial(daemon_answers, host, self.wifu, lab.door(host))
                wait_for("wifu daemon", ready, daemon)
            yield daemons
        finally:
            for daemon in daemons:
                daemon.stop()

    def wait_until_served(self, server: Process, over: list[str | Path]) -> None:
        """Wait until a request for the start of the file is answered."""
        url = f"http://{self.lab.a.address}:{PORT}/file"
        asks = ["curl", "--silent", "--fail", "--range", "0-9", "--max-time", "2", "--output"]

        def served() -> bool:
            try:
                self.lab.b.run(*over, *asks, "/dev/null", url)
            except LabError:
                return False
            return True

        wait_for("nginx", served, server)

    def transfer(
        self,
        protocol: str,
        curl: list[str | Path],
        probe: Callable[[float], Sample],
        server: Process,
        daemons: list[Process],
    ) -> Result:
        """Run curl once, sampling meanwhile, and compare what arrived."""
        self.download.unlink(missing_ok=True)
        before = self.clocks(daemons)
        log = self.lab.scratch / "curl.log"
        with Sampler(probe, self.args.period) as sampler:
            client = run_client(self.lab.b, curl, log, self.args.timeout)
        after = self.clocks(daemons)
        if client.code != 0:
            said = "\n".join(d.said() for d in daemons)
            raise LabError(f"{protocol}: curl ended with {client.code}: {client.said}\n{said}")
        if file_digest(self.download) != self.digest:
            raise LabError(f"{protocol}: what arrived is not what was sent (SHA-256 differs)")
        spent = [b - a for a, b in zip(before, after, strict=True)]
        return Result(
            protocol=protocol,
            bytes=self.args.size,
            seconds=client.seconds,
            retransmissions=None,
            client_cpu_s=client.cpu_s,
            daemon_cpu_s=spent[0],
            machine_cpu_s=spent[1],
            captures=[],
            samples=sampler.samples,
        )

    def clocks(self, daemons: list[Process]) -> tuple[float, float]:
        """CPU seconds so far of the daemons, of the whole machine."""
        return sum(cpu_seconds(d.popen.pid) for d in daemons), machine_seconds()


def kernel_sample(time_s: float, received: int, text: str) -> Sample:
    """Read `ss -tin` of the sender's connection."""
    if not text.strip():
        return Sample(time_s, received)
    line = max(text.splitlines(), key=len)
    mss = field(line, r"\bmss:(\d+)") or 1448
    cwnd, ssthresh = field(line, r"\bcwnd:(\d+)"), field(line, r"\bssthresh:(\d+)")
    octets = [None if n is None else n * mss for n in (cwnd, ssthresh)]
    return Sample(time_s, received, octets[0], octets[1], field(line, r"\bretrans:\d+/(\d+)"))


def field(line: str, pattern: str) -> int | None:
    """Return the number that a pattern finds."""
    match = re.search(pattern, line)
    return int(match[1]) if match else None


def wifu_sample(time_s: float, received: int, report: list[dict[str, Any]]) -> Sample:
    """Read `wifu ss --json`: the connection that has sent most."""
    sender = max(report, key=lambda c: c.get("octets_out", 0), default={})
    if "octets_out" not in sender:
        return Sample(time_s, received)
    return Sample(time_s, received, sender["cwnd"], sender["ssthresh"], sender["retransmits"])


def table(results: list[Result]) -> str:
    """Markdown, one row per protocol."""
    clocks = "CPU curl | CPU daemons | CPU machine"
    head = f"| protocol | goodput | retransmissions | {clocks} |"
    rows = [head, "|---|---:|---:|---:|---:|---:|"]
    for r in results:
        again = "?" if r.retransmissions is None else str(r.retransmissions)
        daemons = f"{r.daemon_cpu_s:.2f} s" if r.captures else "-"
        times = f"{r.client_cpu_s:.2f} s | {daemons} | {r.machine_cpu_s:.2f} s"
        rows.append(f"| {r.protocol} | {r.goodput_mbit:.1f} Mb/s | {again} | {times} |")
    legend = (
        "CPU: seconds of processor time during the transfer, of curl, of WiFu's daemons "
        "and of the whole machine (all its processors, the kernel and all else that ran meanwhile)."
    )
    return "\n".join([*rows, "", legend])


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=Path("target/release"), help="where `wifu` is")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="for the results")
    parser.add_argument("--size", type=size, default=size("25M"), help="of the file (25M)")
    parser.add_argument("--rate", type=float, default=20.0, help="of the link, Mb/s (20)")
    parser.add_argument("--queue", type=size, default=size("100k"), help="of the link (100k)")
    parser.add_argument("--protocols", default=",".join(PROTOCOLS), help="of WiFu, by comma")
    parser.add_argument("--period", type=float, default=0.1, help="between samples, s")
    parser.add_argument("--timeout", type=float, default=120.0, help="for one transfer, s")
    args = parser.parse_args()
    args.bin, args.out = args.bin.resolve(), args.out.resolve()
    return args


def main() -> int:
    """Run the demonstration."""
    args = parse_args()
    need("ip", "tc", "ss", "nginx", "curl")
    if not (args.bin / "wifu").exists():
        raise LabError(f"no wifu in {args.bin}: run `make build` first")
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    results = []
    # Super-packets would fill a short queue at once.
    with Lab("demo", args.rate, offloads=False, queue=args.queue) as lab:
        demo = Demo(lab, args)
        print(
            f"{args.size / 1e6:g} MB from nginx to curl over a link of {args.rate:g} Mb/s with a "
            f"queue of {args.queue / 1e3:g} kB"
        )
        for protocol in [KERNEL, *filter(None, args.protocols.split(","))]:
            one = demo.over_kernel() if protocol == KERNEL else demo.over_wifu(protocol)
            print(f"  {protocol}: {one.goodput_mbit:.1f} Mb/s, SHA-256 agrees", flush=True)
            results.append(one)
    text = table(results)
    (args.out / "table.md").write_text(text + "\n")
    data = [dataclasses.asdict(r) | {"goodput_mbit": r.goodput_mbit} for r in results]
    (args.out / "demo.json").write_text(json.dumps(data, indent=1))
    demo_figure.draw(results, args.out / "demo.png", args.rate, args.queue)
    print(f"\n{text}\n\npicture: {args.out / 'demo.png'}")
    for path in (c for r in results for c in r.captures):
        print(f"capture: {path}")
    print("Wireshark reads them with the plug-in that `wifu dissector` prints")
    return 0


if __name__ == "__main__":
    main_guard(main)
