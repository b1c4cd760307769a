"""Two hosts on one machine: network namespaces joined by a shaped veth pair.

Everything made here carries the name of the process that made it and is removed when the `with`
block ends, however it ends: `ip netns del` takes the link and its shaping along, and every process
inside the namespaces is stopped first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType

ROOT = Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")


class LabError(Exception):
    """Something that the user must know and can act upon."""


def stop_on_signals() -> None:
    """Make SIGTERM and SIGHUP end the program as Ctrl-C does, by an exception."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Hear no signals meanwhile: a second Ctrl-C must not interrupt the clean-up."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    old = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, old, strict=True):
            signal.signal(number, handler)


def run(*args: str | Path, check: bool = True, timeout: float = 30) -> str:
    """Run a command out of reach of the terminal's Ctrl-C and return what it printed."""
    command = [str(a) for a in args]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, start_new_session=True
    )
    if check and done.returncode != 0:
        raise LabError(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def need(*commands: str) -> None:
    """Refuse to start without these programs, and without root."""
    missing = [c for c in commands if shutil.which(c) is None]
    if missing:
        raise LabError(f"missing: {', '.join(missing)}; `make` installs them (scripts/setup.sh)")
    if os.geteuid() != 0:
        raise LabError("network namespaces need root: run this by sudo")


def cpu_seconds(pid: int) -> float:
    """User and system time of a living process and its children that it has waited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return 0.0
    times = text.rpartition(")")[2].split()[11:15]
    return sum(map(int, times)) / TICKS


def machine_seconds() -> float:
    """Time in which some processor of this machine was busy, kernel and interrupts included."""
    values = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, irq, softirq = map(int, values[:7])
    return (user + nice + system + irq + softirq) / TICKS


@dataclass
class Host:
    """One namespace."""

    name: str
    address: str
    device: str = "eth0"

    def wrap(self, args: Sequence[str | Path]) -> list[str]:
        """Return the command that runs `args` inside."""
        return ["ip", "netns", "exec", self.name, *(str(a) for a in args)]

    def run(self, *args: str | Path, check: bool = True, timeout: float = 30) -> str:
        """Run a command inside and return what it printed."""
        return run(*self.wrap(args), check=check, timeout=timeout)

    def set(self, key: str, value: str) -> None:
        """Set one of the kernel's parameters in here."""
        self.run("sh", "-c", f"echo {value} > /proc/sys/{key}")

    def pids(self) -> list[int]:
        """All processes inside."""
        return [int(p) for p in run("ip", "netns", "pids", self.name, check=False).split()]

    def tcp(self) -> dict[str, int]:
        """Counters of the kernel's TCP in here, e.g. `OutSegs`, `RetransSegs`."""
        lines = self.run("cat", "/proc/net/snmp").splitlines()
        names, values = (line.split()[1:] for line in lines if line.startswith("Tcp:"))
        return dict(zip(names, map(int, values), strict=True))


@dataclass
class Process:
    """A program that runs beside us."""

    popen: subprocess.Popen[bytes]
    log: Path

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.popen.poll() is None

    def root(self) -> Path:
        """Where its root directory is."""
        return Path(f"/proc/{self.popen.pid}/root").readlink()

    def stop(self, patience: float = 5) -> None:
        """Ask it to end, then insist."""
        if self.alive():
            self.popen.terminate()
            try:
                self.popen.wait(patience)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()

    def said(self) -> str:
        """Its last lines."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])


@dataclass
class Lab:
    """Two hosts, `a` and `b`, and a scratch folder. Use it in a `with` statement.

    They share a link, or each has one to the host `router` between them. The queue at either end
    holds `queue` octets, by default so many that nothing is lost.
    """

    purpose: str
    rate_mbit: float | None
    offloads: bool = True
    routed: bool = False
    queue: int | None = None
    router: Host | None = None
    a: Host = field(init=False)
    b: Host = field(init=False)
    scratch: Path = field(init=False)
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Fix the names, so that the clean-up knows them before anything exists."""
        tag = f"wifu-{self.purpose}-{os.getpid()}"
        self.a, self.b = Host(f"{tag}-a", "10.77.0.1"), Host(f"{tag}-b", "10.77.0.2")
        if self.routed:
            self.router = Host(f"{tag}-r", "10.77.0.3")
        self.scratch = Path(tempfile.gettempdir()) / tag

    def __enter__(self) -> Lab:
        """Make the namespaces and the link."""
        try:
            sweep(self.purpose)
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        """Remove everything."""
        self._remove()

    def _make(self) -> None:
        self.scratch.mkdir(mode=0o700)
        for host in self._hosts():
            run("ip", "netns", "add", host.name)
            host.run("ip", "link", "set", "lo", "up")
        if self.router is None:
            join(self.a, "eth0", self.b, "eth0")
        else:
            join(self.a, "eth0", self.router, "eth0")
            join(self.b, "eth0", self.router, "eth1")
            self._route(self.router)
        for host in (self.a, self.b):
            length = 24 if self.router is None else 32
            host.run("ip", "address", "add", f"{host.address}/{length}", "dev", host.device)
            host.run("ip", "link", "set", host.device, "up")
            if self.router is not None:
                via = ["via", self.router.address, "dev", host.device, "onlink"]
                host.run("ip", "route", "add", "default", *via)
            # The kernel's default may be another one; what we compare with is Reno.
            host.set("net/ipv4/tcp_congestion_control", "reno")
            # Else ssthresh of one run would be remembered for the next.
            host.set("net/ipv4/tcp_no_metrics_save", "1")
            if not self.offloads:
                host.run("ethtool", "-K", host.device, "tso", "off", "gso", "off", "gro", "off")
            if self.rate_mbit is not None:
                self._shape(host, self.rate_mbit)
        self._spread()

    def _hosts(self) -> list[Host]:
        return [self.a, self.b] if self.router is None else [self.a, self.b, self.router]

    def _spread(self) -> None:
        """Let the ends receive on processors of their own, as two machines would.

        A veth pair else has whatever the receiver's kernel does with a packet done on the processor
        of the sender, which is then the one that limits both.
        """
        processors = sorted(os.sched_getaffinity(0))
        if len(processors) < 2:
            return
        for host, processor in zip((self.a, self.b), processors, strict=False):
            group, bit = divmod(processor, 32)
            mask = ",".join([f"{1 << bit:x}"] + ["0" * 8] * group)
            host.run("sh", "-c", f"echo {mask} > /sys/class/net/{host.device}/queues/rx-0/rps_cpus")

    def _route(self, router: Host) -> None:
        router.run("ip", "address", "add", f"{router.address}/32", "dev", "lo")
        router.set("net/ipv4/ip_forward", "1")
        for host, device in ((self.a, "eth0"), (self.b, "eth1")):
            router.run("ip", "link", "set", device, "up")
            router.run("ip", "route", "add", host.address, "dev", device)

    def _shape(self, host: Host, rate_mbit: float) -> None:
        # The burst covers what the machine's timers are late by, and stays well below the shortest
        # transfer, which else would not be shaped at all. The queue: 8 ms, at least 250 kB.
        octets_per_s = rate_mbit * 1e6 / 8
        burst = min(32_000, max(16_000, round(octets_per_s * 1e-3)))
        queue = self.queue or max(250_000, round(octets_per_s * 8e-3))
        host.run(
            *("tc", "qdisc", "replace", "dev", host.device, "root", "tbf"),
            *("rate", f"{rate_mbit}mbit", "burst", str(burst), "limit", str(queue)),
        )

    def door(self, host: Host) -> Path:
        """Return the path of the socket of a host's daemon, in a folder that goes with the lab."""
        names = {self.a.name: "a", self.b.name: "b"}
        folder = self.scratch / names.get(host.name, "router")
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / "daemon.sock"

    def _remove(self) -> None:
        with deaf():
            for process in reversed(self.processes):
                process.stop()
            for host in self._hosts():
                remove_namespace(host.name)
            shutil.rmtree(self.scratch, ignore_errors=True)

    def start(self, host: Host, *args: str | Path, env: dict[str, str] | None = None) -> Process:
        """Start a program inside a host; it ends with the lab at the latest."""
        log = self.scratch / f"{len(self.processes)}-{Path(args[0]).name}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                host.wrap(args),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        process = Process(popen, log)
        self.processes.append(process)
        return process


def join(one: Host, device: str, other: Host, its: str) -> None:
    """Join two hosts by a pair of devices."""
    ends = ["netns", one.name, "type", "veth", "peer", "name", its, "netns", other.name]
    run("ip", "link", "add", device, *ends)


def remove_namespace(name: str) -> None:
    """Stop all processes in a namespace of ours and delete it; none of that need exist."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        pids = run("ip", "netns", "pids", name, check=False).split()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), number)
        deadline = time.monotonic() + 2
        while pids and time.monotonic() < deadline:
            time.sleep(0.05)
            pids = run("ip", "netns", "pids", name, check=False).split()
    run("ip", "netns", "del", name, check=False)


def sweep(purpose: str) -> None:
    """Remove what an earlier run left that was killed before it could do so itself."""
    for line in run("ip", "netns", "list").splitlines():
        match = re.match(rf"(wifu-{purpose}-(\d+))-[abr]\b", line)
        if match and not Path(f"/proc/{match[2]}").exists():
            remove_namespace(line.split()[0])
            shutil.rmtree(Path(tempfile.gettempdir()) / match[1], ignore_errors=True)


def wait_for(what: str, ready: Callable[[], bool], *watch: Process, seconds: float = 10) -> None:
    """Wait until `ready()`; fail with what the watched programs said if one of them ends first."""
    deadline = time.monotonic() + seconds
    while not ready():
        for process in watch:
            if not process.alive():
                raise LabError(f"{what}: the program ended:\n{process.said()}")
        if time.monotonic() > deadline:
            said = "\n".join(p.said() for p in watch)
            raise LabError(f"{what}: not after {seconds:g} s\n{said}")
        time.sleep(0.05)


def daemon_answers(host: Host, wifu: Path, door: Path) -> bool:
    """Whether the daemon of a host can be asked."""
    try:
        json.loads(host.run(wifu, "ss", "--json", "--socket", door))
    except (LabError, json.JSONDecodeError):
        return False
    return True


@dataclass
class Sample:
    """State of the sender's connection. Times in seconds, sizes in octets."""

    time_s: float
    received: int
    cwnd: int | None = None
    ssthresh: int | None = None
    retransmissions: int | None = None


class Sampler:
    """Calls `probe` every `period_s` in a thread of its own."""

    def __init__(self, probe: Callable[[float], Sample], period_s: float = 0.1) -> None:
        self.samples: list[Sample] = []
        self._probe, self._period = probe, period_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> Sampler:
        """Begin."""
        self._begun = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """End."""
        self._end.set()
        self._thread.join(10)

    def _loop(self) -> None:
        while not self._end.is_set():
            # A probe that comes too late finds no connection any more: no sample, no fault.
            with contextlib.suppress(LabError, subprocess.TimeoutExpired, json.JSONDecodeError):
                self.samples.append(self._probe(time.monotonic() - self._begun))
            self._end.wait(self._period)


@dataclass
class Client:
    """What a client program took."""

    seconds: float
    cpu_s: float
    code: int
    said: str


def run_client(host: Host, args: Sequence[str | Path], log: Path, timeout: float) -> Client:
    """Run a program to its end and measure it."""
    begun = time.monotonic()
    with log.open("wb") as out:
        popen = subprocess.Popen(
            host.wrap(args),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = begun + timeout
    # wait4 on this process alone, because its times are what we want.
    cpu = 0.0
    while True:
        pid, status, usage = os.wait4(popen.pid, os.WNOHANG)
        if pid:
            cpu = usage.ru_utime + usage.ru_stime
            code = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() > deadline:
            popen.kill()
            os.wait4(popen.pid, 0)
            raise LabError(f"{' '.join(map(str, args))}: not finished after {timeout:g} s")
        time.sleep(0.002)
    popen.returncode = code
    return Client(time.monotonic() - begun, cpu, code, log.read_text(errors="replace"))


def main_guard(main: Callable[[], int]) -> None:
    """Run a tool: faults as one line, Ctrl-C as exit 130, everything cleaned up before."""
    stop_on_signals()
    try:
        code = main()
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("interrupted; everything made here is removed", file=sys.stderr)
        code = 130
    sys.exit(code)
