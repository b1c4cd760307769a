"""Emulated radios from Python: hosts with real kernels, as `wifu emu` makes them (needs root).

with Emulation("linear,3", rate="6M") as net:
    print(net["n1"].cmd("ping -c3 n3"))
    net.cut("n2", "n3")
    print(net.pingAll(), net.status()["verdict"])

Names are Mininet's where it has them. The class only starts the command and talks to its socket.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from wifu.errors import LabError
from wifu.program import find_program

RUN = Path("/run/wifu/emu")
END = "-- that is all --"


class EmulationError(LabError):
    """The emulation cannot be started, or does not do what it was asked."""


def program() -> str:
    """The `wifu` command, looked for as the lab does: `$WIFU_BIN` or `$WIFU`, a build beside this
    package, the path.
    """
    try:
        return str(find_program())
    except LabError as e:
        raise EmulationError(str(e)) from None


class Host:
    """A host of an emulation."""

    def __init__(self, net: Emulation, name: str, namespace: str, address: str) -> None:
        self.net, self.name, self.namespace, self.address = net, name, namespace, address

    def IP(self) -> str:
        """Its IPv4 address."""
        return self.address

    def popen(self, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Start a program on it; options are those of `subprocess.Popen`. One text is split into
        words, as Mininet does.
        """
        if len(command) == 1:
            command = tuple(shlex.split(command[0]))
        line = ["ip", "netns", "exec", self.namespace, *command]
        return subprocess.Popen(line, text=True, **options)

    def cmd(self, line: str, timeout: float | None = None) -> str:
        """What a shell's command line on it says, on both outputs.

        Names of hosts become addresses.
        """
        words = [self.net.hosts[w].IP() if w in self.net.hosts else w for w in line.split(" ")]
        done = subprocess.run(
            ["ip", "netns", "exec", self.namespace, "sh", "-c", " ".join(words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        return done.stdout

    def delay_us(self) -> int | None:
        """The driver's average delay, microseconds; none before the first packet."""
        text = (self.net.directory / self.name / "Da").read_text()
        return int(text.split()[0]) if text else None


class Emulation:
    """A running `wifu emu`; ends with the `with` block, and leaves nothing."""

    def __init__(
        self,
        topo: str = "minimal",
        *,
        testbed: str | None = None,
        seed: int = 1,
        run: int = 1,
        dilation: float = 1.0,
        routing: str | None = None,
        name: str = "emu",
        scenario: str | None = None,
        hold: bool = False,
        options: tuple[str, ...] = (),
        program: str | None = None,
        **radio: object,
    ) -> None:
        """`radio`: its keys, such as `rate="6M"`; `options`: further words of `wifu emu`;
        `program`: the `wifu` command, if it is not to be looked for; `scenario`: a file of a
        scenario whose nodes, links, routes, movement and cuts are meant instead of `topo`,
        `testbed`, `seed` and `run`; with `hold` nothing of it moves or is cut before `play`.
        """
        self._program = program
        self.name, self.dilation = name, dilation
        self.directory = RUN / name
        self.hosts: dict[str, Host] = {}
        words = ["--name", name, "--dilation", str(dilation)]
        if scenario is None:
            words += ["--topo", topo, "--seed", str(seed), "--run", str(run)]
            words += ["--set", testbed] if testbed else []
        else:
            words += ["--scenario", scenario, *(["--hold"] if hold else [])]
        words += ["--routing", routing] if routing else []
        if "--json" in options:
            raise EmulationError("ask `status`, `links` and `nodes` instead of --json")
        words += [*options, *(f"radio.{key}={value}" for key, value in radio.items())]
        self._words = words
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Emulation:
        """Start `wifu emu` and wait until the hosts are there."""
        self._process = subprocess.Popen(
            [self._program or program(), "emu", *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C is for whoever uses this; the emulation ends when its input does.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            _, wrong = self._process.communicate()
            raise EmulationError(wrong.strip() or "wifu emu ended at once")
        try:
            rows = self.nodes()
        except EmulationError:
            self.stop()
            raise
        for row in rows:
            name = row["name"]
            self.hosts[name] = Host(self, name, row["namespace"], row["address"])
        return self

    def stop(self) -> None:
        """End it; everything that it made goes."""
        if self._process is not None:
            # What it reports in the end can be asked for by `status` before.
            try:
                self._process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                # Its guardian removes what it made.
                self._process.kill()
                self._process.communicate()
            self._process = None
        self.hosts = {}

    def __enter__(self) -> Emulation:
        """Start; the end of `with` stops."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def __getitem__(self, name: str | Host) -> Host:
        """A host by its name, or itself."""
        name = name.name if isinstance(name, Host) else name
        if name not in self.hosts:
            known = ", ".join(self.hosts) or "none"
            raise EmulationError(f'there is no host "{name}"; there are {known}')
        return self.hosts[name]

    def get(self, *names: str) -> Host | list[Host]:
        """A host by its name, or several, as Mininet's."""
        found = [self[name] for name in names]
        return found[0] if len(found) == 1 else found

    def __iter__(self) -> Iterator[str]:
        """The hosts' names."""
        return iter(self.hosts)

    def ask(self, words: str) -> Any:
        """Have something done, in the words of `wifu emu ctl`."""
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(20)
                s.connect(str(self.directory / "control.sock"))
                s.sendall(f"{words}\n".encode())
                answer = json.loads(s.makefile().read())
        except (OSError, ValueError) as e:
            raise EmulationError(f'the emulation "{self.name}" does not answer: {e}') from e
        if not answer["ok"]:
            raise EmulationError(answer["text"])
        return answer["data"]

    def status(self) -> dict[str, Any]:
        """How late it was, and its stamp (`verdict`)."""
        status: dict[str, Any] = self.ask("status")
        return status

    def links(self) -> list[dict[str, Any]]:
        """All links with SNR and counts."""
        links: list[dict[str, Any]] = self.ask("links")
        return links

    def nodes(self) -> list[dict[str, Any]]:
        """All hosts with queues, delays and counts."""
        nodes: list[dict[str, Any]] = self.ask("nodes")
        return nodes

    def snr(self, a: str, b: str, db: float) -> None:
        """Give the direction from `a` to `b` a mean SNR, dB."""
        self.ask(f"snr {a} {b} {db}")

    def move(self, node: str, x: float, y: float, z: float = 0.0) -> None:
        """Put a host elsewhere, metres."""
        self.ask(f"move {node} {x} {y} {z}")

    def cut(self, a: str, b: str) -> None:
        """Let nothing pass between two hosts."""
        self.ask(f"cut {a} {b}")

    def restore(self, a: str | None = None, b: str | None = None) -> None:
        """Undo one cut, or all."""
        self.ask(" ".join(["restore", *(name for name in (a, b) if name)]))

    def configLinkStatus(self, a: str, b: str, status: str) -> None:
        """The same in Mininet's words: `status` is `down` or `up`."""
        if status not in ("down", "up"):
            raise EmulationError(f'the status of a link is "down" or "up", not "{status}"')
        (self.cut if status == "down" else self.restore)(a, b)

    def play(self) -> None:
        """Let what moves or is cut in the scenario begin, which `hold` kept."""
        self.ask("play")

    def pause(self, node: str) -> None:
        """Make a host's radio deaf and mute."""
        self.ask(f"pause {node}")

    def resume(self, node: str) -> None:
        """Let a paused node hear and speak again."""
        self.ask(f"resume {node}")

    def restart(self, node: str, seconds: float = 1.0) -> None:
        """Switch a host's radio off for so long; queues, addresses and routes are lost."""
        self.ask(f"restart {node} {seconds}")

    def pingAll(self) -> float:
        """Ping every host from every other once; the share lost, per cent."""
        pairs = [(a, b) for a in self.hosts for b in self.hosts if a != b]
        patience = f"-c1 -W {self.dilation:.1f}"
        answers = (self[a].cmd(f"ping -n {patience} {b}") for a, b in pairs)
        lost = sum(" 1 received" not in text for text in answers)
        return 100.0 * lost / max(len(pairs), 1)

    def iperf(
        self,
        hosts: tuple[str | Host, str | Host],
        seconds: float = 5,
        *words: str,
        protocol: str | None = None,
    ) -> float:
        """Throughput from the first to the second host, bit/s of model time.

        It is the kernel's TCP, or a `protocol` by its name at the prompt: `tcp-newreno`,
        `tcp-sack,iw=4`, `kernel:bbr`.

        `words` are further ones of iperf3's client.
        """
        a, b = (self[name] for name in hosts)
        if protocol is not None:
            line = " ".join(["iperf", a.name, b.name, "-t", str(seconds), "-C", protocol, *words])
            said, wrong = self._say(line)
            found = re.search(r": ([0-9.]+) Mb/s received", said)
            if found is None:
                raise EmulationError(wrong or said or "iperf says nothing")
            # The prompt has converted it.
            return float(found[1]) * 1e6
        server = b.popen("iperf3", "-s", "-1", stdout=subprocess.DEVNULL)
        try:
            self._wait_for_server(b)
            line = " ".join(["iperf3", "-J", "-t", str(seconds), "-c", b.name, *words])
            found = json.loads(a.cmd(line))
        finally:
            server.kill()
            server.wait()
        if "error" in found:
            raise EmulationError(f"iperf3: {found['error']}")
        return float(found["end"]["sum_received"]["bits_per_second"]) * self.dilation

    def _say(self, line: str) -> tuple[str, str]:
        """What the prompt answers to a line, on both outputs."""
        if self._process is None:
            raise EmulationError("the emulation is not running")
        asked, told, wrong = self._process.stdin, self._process.stdout, self._process.stderr
        assert asked is not None and told is not None and wrong is not None
        try:
            asked.write(f"{line}\nsh echo {END}\n")
            asked.flush()
        except BrokenPipeError:
            raise EmulationError("the emulation has ended") from None
        lines = []
        for answer in told:
            if answer.strip() == END:
                break
            lines.append(answer)
        os.set_blocking(wrong.fileno(), False)
        try:
            said = wrong.read()
        except TypeError:  # nothing there, of a stream that does not wait
            said = None
        finally:
            os.set_blocking(wrong.fileno(), True)
        return "".join(lines).strip(), (said or "").strip()

    @staticmethod
    def _wait_for_server(host: Host) -> None:
        for _ in range(100):
            if "5201" in host.cmd("ss -Hltn sport = :5201"):
                return
            time.sleep(0.05)
        raise EmulationError("iperf3's server does not listen")
