"""A host reached by SSH: a connection that checks it, and gives back what is changed there.

A shell script, the keeper, runs on the host as long as the connection does. It knows what has to be
undone, so that it happens there also when nobody can reach the host any more: when the connection
is cut, or when this process is killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wifu.errors import RunError

CONNECT = 10
"""Seconds to wait for a host that does not answer."""

OPTIONS = (
    "-T", "-x", "-a", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT}",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "RemoteCommand=none",
    "-o", "ClearAllForwardings=yes", "-o", "PermitLocalCommand=no",
)  # fmt: skip
"""Beside what the user's configuration says: never a question, and no silence without end."""

HEARTBEAT = 5.0
"""Seconds between two signs of life for the keeper."""

PATIENCE = 20
"""Seconds without one after which the keeper takes the connection for lost."""

ENDING = 30.0
"""Seconds that the keeper may take to give everything back."""

LAST = 16384
"""Bytes that are kept of what ssh complains about."""

LONGEST = 80
"""Bytes of a path that ssh can use for the socket of a shared connection."""

PRELOAD = "libwifu_preload.so"
"""What programs over WiFu's protocols need beside `wifu`, or in ../lib/wifu from there."""

MARK = "WIFU_SSH"
"""A variable in the environment of what we run there, by which the keeper finds it."""

KEEPER = f"""
trap : HUP INT TERM PIPE
say() {{ printf 'wifu:%s\\n' "$*"; }}
say user "$(id -u)"
say program "$(command -v "$1")"
say runs "$("$1" --version 2>&1 | head -n 1)"
say sum "$(sha256sum "$(command -v "$1")" 2>/dev/null | cut -c 1-16)"
say python "$(command -v python3)"
f=$(readlink -f "$(command -v "$1")")
say preload "$(for l in "$WIFU_PRELOAD" "${{f%/*}}/{PRELOAD}" "${{f%/*}}/../lib/wifu/{PRELOAD}"
    do [ -f "$l" ] && printf yes && break; done)"
say lacks "$(for c in ip flock timeout; do command -v $c >/dev/null || printf '%s ' $c; done)"
say system "$(uname -rsn)"
say same "$(cat /proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/net)"
say begin
exec 9</proc/self/ns/net
d= undo=
while l=$(timeout -s KILL {PATIENCE} sh -c 'IFS= read -r l && printf %s "$l"'); do
    case $l in
    lock)
        if flock -n 9; then d=$(mktemp -d /tmp/wifu-ssh-XXXXXXXX); say at "$d"
        else say busy; fi ;;
    undo\\ *)
        undo="${{l#undo }}
$undo"
        say noted ;;
    esac
done
[ -n "$d" ] || exit 0
ours() {{ grep -lsF "{MARK}=$d" /proc/[0-9]*/environ | cut -d / -f 3; }}
for signal in 0 TERM KILL; do
    n=0
    while [ -n "$(ours)" ] && [ $n -lt 30 ]; do
        [ $n -gt 0 ] || kill -$signal $(ours) 2>/dev/null
        sleep 0.1
        n=$((n + 1))
    done
    [ $n -lt 30 ] && break
done
if [ $signal = KILL ] || [ -e "$d/killed" ]; then sleep 0.5; "$1" clean >/dev/null 2>&1; fi
printf '%s' "$undo" | while IFS= read -r l; do
    e=$(sh -c "$l" 2>&1) || say failed "$l: $e"
done
rm -rf "$d"
say end
"""
"""Its first argument is the program `wifu`. Then it reads commands, until there are no more."""

GUARD = (
    'exec 3<&0; nice -n -10 "$@" </dev/null 3<&- & p=$!; { cat <&3; kill $p; '
    "n=0; while [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done; "
    f': > "${MARK}/killed"; kill -KILL $p; }} '
    ">/dev/null 2>&1 & w=$!; wait $p; r=$?; kill $w 2>/dev/null; exit $r"
)
"""Runs a program on a host until it ends or its input does, first of all (as here: `nice`).

One that does not end when it is told to may leave things behind, which the keeper then removes.
"""


@dataclass(frozen=True)
class Facts:
    """What a host says of itself: its system, the version of its `wifu` and the hash of that,
    whether the preload library is there, and Python.
    """

    system: str
    version: str
    sum: str
    preload: bool
    python: bool
    same: str
    """Two names with the same text here are one host."""


class Connection:
    """A connection to a host; all commands share it where ssh can do that."""

    def __init__(
        self, name: str, login: str, ssh: Sequence[str], program: str, socket_: Path
    ) -> None:
        """`ssh`: the command and options of the user. `socket_`: a path for ssh's own use."""
        self.name, self.login, self.program = name, login, program
        self._ssh = (*ssh, *OPTIONS)
        self._socket = socket_
        self._keeper: subprocess.Popen[bytes] | None = None
        self._read = b""
        self._said: list[str] = []
        self._complaints = b""
        self._listening: threading.Thread | None = None
        self._writing = threading.Lock()
        self._closed = threading.Event()
        self.prefix: tuple[str, ...] = ()
        self.scratch = ""

    def __str__(self) -> str:
        """The node and where to log in for it, for messages."""
        return self.name if self.login == self.name else f"{self.name} ({self.login})"

    def by_hand(self) -> str:
        """A command by which a user can try to log in."""
        options = self._ssh[: len(self._ssh) - len(OPTIONS)]
        return shlex.join([*options, self.login])

    # Before anything runs there ------------------------------------------------------------------

    def address(self, given: str | None) -> str:
        """Its IPv4 address for the other hosts: what the plan says, else where ssh goes."""
        name = given or self._hostname()
        try:
            found = socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0]
        except OSError:
            raise RunError(
                f"{self}: {name} has no IPv4 address that is known here: say which the other hosts "
                f"reach it by, live.addresses.{self.name}"
            ) from None
        if str(found).startswith("127."):
            raise RunError(
                f"{self}: {name} is {found}, every host's name for itself: say which address the "
                f"other hosts reach it by, live.addresses.{self.name}"
            )
        return str(found)

    def _hostname(self) -> str:
        done = self._ask("-G", self.login)
        if done.returncode != 0:
            raise RunError(f"{self}: {done.stderr.strip() or 'ssh -G failed'}")
        found = re.search(r"^hostname (.*)$", done.stdout, re.MULTILINE)
        return found[1] if found else self.login

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [*self._ssh, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=CONNECT + 20, start_new_session=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RunError(f"{self}: {shlex.join(words)}: no answer") from None
        except OSError as e:
            raise RunError(f"{self}: {self._ssh[0]}: {e.strerror}: see live.ssh") from None

    def open(self) -> Facts:
        """Log in, and see whether the host has what runs need. The error says what to do."""
        own: tuple[str, ...] = ()
        # One that the user has open already may have needed a password, or a token.
        if self._ask("-O", "check", self.login).returncode == 0:
            shared: tuple[str, ...] = ("-o", "ControlMaster=no")
        elif len(str(self._socket)) <= LONGEST:
            path = ("-o", f"ControlPath={self._socket}", "-o", "ControlPersist=no")
            own, shared = ("-o", "ControlMaster=yes", *path), ("-o", "ControlMaster=no", *path)
        else:
            own = shared = ("-o", "ControlMaster=no", "-o", "ControlPath=none")
        self.prefix = (*self._ssh, *shared, self.login)
        words = [*self._ssh, *(own or shared), self.login]
        words.append(shlex.join(["sh", "-c", KEEPER, "sh", self.program]))
        self._keeper = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._beat, daemon=True).start()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()
        told: dict[str, str] = {}
        while (line := self._line(CONNECT + 20.0)) != "begin":
            key, _, told[key] = line.partition(" ")
        if self._said:
            raise RunError(
                f"{self}: its login scripts print {self._said[0][:60]!r} with every command, which "
                "would be taken for results: have them do so in interactive shells only"
            )
        return self._facts(told)

    def _facts(self, told: Mapping[str, str]) -> Facts:
        if told["user"] != "0":
            raise RunError(
                f"{self}: no root there (user {told['user']}): log in as root, with a key: "
                f'live.hosts.{self.name} = "root@..."'
            )
        if not told["program"]:
            raise RunError(
                f"{self}: no program {self.program} there: copy it there, or say where it is: "
                "live.program"
            )
        if not told["runs"].startswith("wifu "):
            raise RunError(
                f"{self}: {self.program} does not run there: {told['runs']}. It has to be built "
                "for that host's processor and C library"
            )
        lacks = told["lacks"].split()
        if lacks:
            packages = {"ip": "iproute2", "flock": "util-linux", "timeout": "coreutils"}
            raise RunError(
                f"{self}: no command {', '.join(lacks)} there: install "
                f"{', '.join(packages[c] for c in lacks)} there"
            )
        return Facts(
            told["system"],
            told["runs"],
            told["sum"],
            bool(told["preload"]),
            bool(told["python"]),
            told["same"],
        )

    def lock(self, wait: Callable[[], None]) -> None:
        """Have the host for ourselves; `wait` is called as long as another lab has it."""
        while True:
            self._write("lock")
            key, _, rest = self._line(CONNECT + 20.0).partition(" ")
            if key == "at" and not rest:
                raise RunError(f"{self}: cannot make a directory in /tmp there")
            if key == "at":
                self.scratch = rest
                return
            wait()

    # While programs run there --------------------------------------------------------------------

    def undo(self, words: Sequence[str]) -> None:
        """Have a command run at the end, whatever happens; the last one that was said first."""
        self._write(f"undo {shlex.join(words)}")
        if self._line(CONNECT + 20.0) != "noted":
            raise RunError(f"{self}: the host does not answer as it should")

    def guarded(self, words: Sequence[str]) -> list[str]:
        """What runs `words` there as long as our end of their input is open."""
        return ["env", f"{MARK}={self.scratch}", "sh", "-c", GUARD, "sh", *words]

    def check(self, patience: float = 0.0) -> None:
        """An error if the connection has ended; seconds to wait for it, as news takes a moment."""
        if self._keeper is None or self._closed.is_set():
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(patience)
            raise RunError(
                f"{self}: the connection ended in the middle of a run: {self._why()}. What was "
                "changed there is given back by the host itself"
            )

    def close(self) -> None:
        """Have everything given back, and log out. An error if the host could not do it."""
        keeper = self._keeper
        self._closed.set()
        if keeper is None:
            return
        with self._writing, contextlib.suppress(OSError):
            assert keeper.stdin is not None
            keeper.stdin.close()
        if not self.scratch:  # nothing was changed, and perhaps nobody answers
            keeper.terminate()
        ended, failed = False, []
        with contextlib.suppress(RunError):
            while not ended:
                key, _, rest = self._line(ENDING).partition(" ")
                failed += [rest] if key == "failed" else []
                ended = key == "end"
        try:
            keeper.wait(5.0)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()
        if keeper.stdout is not None:
            keeper.stdout.close()
        self._keeper = None
        if failed:
            raise RunError(f"{self}: could not be given back: {'; '.join(failed)}")
        if self.scratch and not ended:
            raise RunError(
                f"{self}: the connection was lost before it was told that all is given back; the "
                f"host does so by itself within {PATIENCE + 10} s"
            )

    # What it is made of --------------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._closed.wait(HEARTBEAT):
            with contextlib.suppress(RunError):
                self._write("alive")

    def _listen(self) -> None:
        """Take what ssh complains about, lest it wait for us; the end is kept."""
        assert self._keeper is not None and self._keeper.stderr is not None
        with self._keeper.stderr as pipe:
            while more := os.read(pipe.fileno(), 65536):
                self._complaints = (self._complaints + more)[-LAST:]

    def _write(self, line: str) -> None:
        with self._writing:
            if self._keeper is None or self._keeper.stdin is None or self._keeper.stdin.closed:
                return
            try:
                self._keeper.stdin.write(line.encode() + b"\n")
                self._keeper.stdin.flush()
            except OSError:
                pass  # to be told by what reads

    def _line(self, seconds: float) -> str:
        """The next line of the keeper; what the host's login scripts print is passed over."""
        assert self._keeper is not None and self._keeper.stdout is not None
        number, until = self._keeper.stdout.fileno(), time.monotonic() + seconds
        while True:
            raw, newline, rest = self._read.partition(b"\n")
            if newline:
                self._read = rest
                line = raw.decode(errors="replace")
                if line.startswith("wifu:"):
                    return line.removeprefix("wifu:").strip()
                self._said.append(line)
                continue
            left = until - time.monotonic()
            if left <= 0 or not select.select([number], [], [], left)[0]:
                raise RunError(f"{self}: logged in, but no answer after {seconds:g} s")
            more = os.read(number, 65536)
            if not more:
                raise RunError(self._refused())
            self._read += more

    def _why(self) -> str:
        keeper = self._keeper
        if keeper is None or self._listening is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            keeper.wait(5.0)
        # Somebody who is not ssh may have its pipe still.
        self._listening.join(1.0)
        said = self._complaints.decode(errors="replace")
        lines = [*self._said, *said.splitlines()]
        return (
            " / ".join(line.strip() for line in lines if line.strip(" @\r"))[-500:] or "no reason"
        )

    def _refused(self) -> str:
        said = self._why()
        for pattern, advice in ADVICE:
            if re.search(pattern, said, re.IGNORECASE):
                return f"{self}: {advice.format(by_hand=self.by_hand())} (ssh says: {said})"
        return f"{self}: {said}. Try by hand: {self.by_hand()}"


ADVICE = (
    (
        "identification has changed|key for .* has changed",
        "the host's key is another one than before: if that is right, remove the old one by "
        "`ssh-keygen -R`, then log in once by hand: {by_hand}",
    ),
    (
        "host key verification failed|no .* host key is known",
        "the host's key is not known here: log in once by hand and compare it: {by_hand}",
    ),
    (
        "permission denied|too many authentication failures|no supported authentication",
        "no login without a password: put your public key there (ssh-copy-id), name it "
        '(live.ssh = "ssh -i FILE", or IdentityFile in ~/.ssh/config), and try: {by_hand}',
    ),
    (
        "could not resolve hostname",
        "no such name: correct it in live.hosts, or give it a Host entry in ~/.ssh/config",
    ),
    (
        "timed out|no route to host|unreachable|connection refused|connection reset|closed by",
        "cannot be reached: is it up, does an SSH server listen there? Try: {by_hand}",
    ),
)
"""What to do about what ssh says."""
