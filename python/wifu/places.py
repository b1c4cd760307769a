"""Hosts on which programs run: network namespaces of this machine, and machines reached by SSH."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wifu.errors import Cancelled, LabError, RunError
from wifu.ssh import Connection

RIGHTS = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
"""Bits of the capabilities that namespaces and devices need."""


@dataclass
class Started:
    """A program that runs at a place."""

    popen: subprocess.Popen[bytes]
    log: Path
    errors: Path
    words: str
    asked: bool = False

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.popen.poll() is None

    def end(self) -> None:
        """Ask it to end, once: a second time would meet what it does upon the first."""
        if self.asked:
            return
        self.asked = True
        if self.popen.stdin is not None:
            with contextlib.suppress(OSError):
                self.popen.stdin.close()
            self.popen.stdin = None
        elif self.alive():
            self.popen.terminate()

    def stop(self, patience: float = 5.0) -> None:
        """Ask it to end, then insist."""
        if self.alive():
            self.end()
            try:
                self.popen.wait(patience)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()

    def output(self) -> str:
        """What it wrote so far on standard output."""
        return self.log.read_text(errors="replace")

    def said(self) -> str:
        """Its last lines on both outputs."""
        lines = (self.output() + self.errors.read_text(errors="replace")).splitlines()
        return "\n".join(lines[-8:])


@dataclass
class Place:
    """A host: how it is called in the scenario, its address, how commands get there."""

    name: str
    address: str
    prefix: tuple[str, ...]
    program: str
    scratch: str
    connection: Connection | None = None
    delay_dir: str | None = None
    monitor: str | None = None
    devices: tuple[str, ...] = ()
    """Interfaces by which its daemon serves, if not by all: those for measuring are none."""
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def remote(self) -> bool:
        """Whether it is a host of somebody else, who gets back what is changed there."""
        return self.connection is not None

    @property
    def python(self) -> str:
        """A Python interpreter there."""
        return "python3" if self.remote else sys.executable

    @property
    def door(self) -> str:
        """The socket of its daemon."""
        return f"{self.scratch}/{self.name}.sock"

    def command(self, words: Sequence[str], guarded: bool = False) -> list[str]:
        """The command that runs `words` there; if `guarded`, only as long as we listen."""
        if self.connection is None:
            return [*self.prefix, *words]
        words = self.connection.guarded(words) if guarded else words
        return [*self.prefix, shlex.join(words)]

    def undo(self, *words: str) -> None:
        """Have a command run at the end where that matters: namespaces of ours just go."""
        if self.connection is not None:
            self.connection.undo(words)

    def run(self, *words: str, text: str | None = None, timeout: float = 30.0) -> str:
        """What a command there prints; an error if it fails."""
        command = self.command(words)
        given: dict[str, object] = {"stdin": subprocess.DEVNULL} if text is None else {}
        try:
            done = subprocess.run(  # type: ignore[call-overload]
                command, input=text, capture_output=True, text=True, timeout=timeout,
                start_new_session=True, check=False, **given,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RunError(f"{self.name}: {shlex.join(words)}: not after {timeout:g} s") from None
        except OSError as e:
            raise RunError(f"{self.name}: {command[0]}: {e.strerror}") from None
        if done.returncode != 0:
            why = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}")[-400:]
            raise RunError(f"{self.name}: {shlex.join(words)}: {why}")
        return str(done.stdout)

    def set(self, key: str, value: str) -> None:
        """Set one of the kernel's parameters there; two flows may not want different values."""
        fresh = key not in self.settings
        if self.settings.setdefault(key, value) != value:
            raise RunError(f"{self.name}: flows want {key} both {self.settings[key]} and {value}")
        if fresh and self.remote:
            old = self.run("cat", f"/proc/sys/{key}").strip()
            self.undo("sh", "-c", f"echo {shlex.quote(old)} > /proc/sys/{key}")
        self.run("sh", "-c", f"echo {shlex.quote(value)} > /proc/sys/{key}")


class Crew:
    """The programs of a run; all of them end with the `with` block."""

    def __init__(self, folder: Path, deadline: float, cancelled: Callable[[], bool]) -> None:
        """`folder` for what they write; `deadline` by time.monotonic()."""
        self.folder, self.deadline, self._cancelled = folder, deadline, cancelled
        self.programs: list[Started] = []
        self.watched: list[Connection] = []
        """Connections without which the run is none."""

    def __enter__(self) -> Crew:
        """Begin; the end of `with` stops what still runs."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End all, those started last first."""
        for program in reversed(self.programs):
            program.end()
        for program in reversed(self.programs):
            program.stop()

    def start(self, place: Place, *words: str) -> Started:
        """Start a program at a place."""
        number = len(self.programs)
        log, errors = (self.folder / f"{number}-{place.name}.{k}" for k in ("out", "err"))
        command = place.command(words, guarded=True)
        if not place.remote:
            # Before whatever else runs on this machine, which would make answers late.
            command = ["nice", "-n", "-10", *command]
        with log.open("wb") as out, errors.open("wb") as err:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if place.remote else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        program = Started(popen, log, errors, shlex.join(words[:4]))
        self.programs.append(program)
        return program

    def check(self) -> None:
        """An error if the run has taken too long, or is to be given up."""
        if self._cancelled():
            raise Cancelled("given up")
        if time.monotonic() > self.deadline:
            raise RunError("run_timeout: not finished in time")
        for connection in self.watched:
            connection.check()

    def pause(self, seconds: float) -> None:
        """Wait, unless the run is to end."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, 0.05))
        self.check()

    def wait_for(self, program: Started, said: str, seconds: float = 15.0) -> None:
        """Wait until a program has said something."""
        limit = time.monotonic() + seconds
        while said not in program.output() + program.errors.read_text(errors="replace"):
            if not program.alive():
                raise RunError(f"{program.words} ended: {program.said()}")
            if time.monotonic() > limit:
                raise RunError(f"{program.words}: not ready after {seconds:g} s: {program.said()}")
            self.check()
            time.sleep(0.01)


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Hear no signals meanwhile: a second Ctrl-C must not interrupt the clean-up.

    A first one is heard afterwards, whichever thread the kernel gives it to.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    second = isinstance(sys.exc_info()[1], KeyboardInterrupt)
    heard: list[int] = []
    # Programs that are started meanwhile have the mask, too. It is this thread's alone: what
    # another takes is noted by the handler.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        old = [signal.signal(number, lambda n, frame: heard.append(n)) for number in numbers]
    except ValueError:  # not the main thread, which alone hears them
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield
        return
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)  # what waited is noted now
        for number, handler in zip(numbers, old, strict=True):
            signal.signal(number, handler)
        if heard and not second:
            signal.raise_signal(heard[0])


def need_root(what: str) -> None:
    """LabError unless this process is root, which `what` needs, with the rights to make
    namespaces and devices, which root of a container may lack.
    """
    if os.geteuid() != 0:
        raise LabError(f"{what} needs root: run this by sudo")
    if missing := [name for name, bit in RIGHTS.items() if not rights() >> bit & 1]:
        raise LabError(
            f"{what} needs {' and '.join(missing)}, which root has not here, as in a container: "
            "`wifu doctor` says what this host lacks"
        )


def rights() -> int:
    """The capabilities of this process as a mask (`capabilities(7)`); all if nobody tells."""
    try:
        told = Path("/proc/self/status").read_text()
        return int(told.split("CapEff:")[1].split()[0], 16)
    except (OSError, IndexError, ValueError):
        return -1
