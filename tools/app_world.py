"""Two hosts with a daemon each, and programs that run over WiFu between them."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from netlab import Host, Lab, LabError, Process, daemon_answers, wait_for

SIZE = 5_000_000
Command = list[str | Path]
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
    server {{ listen {address}; root {root}; }}
}}
"""


@dataclass
class Account:
    """A user whom a server runs as, because it refuses to be root."""

    name: str

    def before(self) -> Command:
        """What goes before a command of his."""
        entry = pwd.getpwnam(self.name)
        ids = [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}"]
        return ["setpriv", *ids, "--clear-groups", "--"]


class World:
    """A lab with daemons, a file to move, and the means to run programs over a protocol.

    Everybody may use the daemons and read the file: some servers become other users.
    """

    def __init__(self, lab: Lab, binaries: Path, protocol: str) -> None:
        self.lab, self.binaries, self.protocol = lab, binaries, protocol
        self.wifu = binaries / "wifu"
        lab.scratch.chmod(0o711)
        self.file = self.folder("served") / "file"
        data = os.urandom(SIZE)
        self.file.write_bytes(data)
        self.digest = hashlib.sha256(data).hexdigest()
        # Other users may not reach the folder of a checkout.
        self.library = Path(shutil.copy(binaries / "libwifu_preload.so", lab.scratch))
        self.library.chmod(0o755)
        self.daemons: list[Process] = []

    def up(self) -> None:
        """Start a daemon on each host."""
        self.daemons = [self.daemon(host) for host in (self.lab.a, self.lab.b)]

    def down(self) -> list[int]:
        """Stop the daemons; returns how many bytes of packets each carried."""
        return [self._stop(daemon) for daemon in self.daemons]

    def _stop(self, daemon: Process) -> int:
        daemon.stop()
        told = [line for line in daemon.log.read_text().splitlines() if " counted: " in line]
        if not told:
            raise LabError(f"the daemon counted nothing:\n{daemon.said()}")
        carriers = json.loads(told[-1].partition(" counted: ")[2])["carriers"]
        return sum(c["sent_octets"] + c["received_octets"] for _, c in carriers)

    def daemon(self, host: Host, *more: str) -> Process:
        """Start a daemon that everybody may use, and wait until it answers."""
        door = self.lab.door(host)
        door.parent.chmod(0o711)
        options: Command = ["--socket", door, "--mode", "0666", *more]
        daemon = self.lab.start(host, self.wifu, "daemon", *options)
        wait_for("wifu daemon", partial(daemon_answers, host, self.wifu, door), daemon)
        return daemon

    def folder(self, name: str, owner: str = "root") -> Path:
        """Return a folder, made where it is not there, that everybody can read."""
        path = self.lab.scratch / name
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
        shutil.chown(path, owner)
        return path

    def over(self, host: Host, *command: str | Path) -> Command:
        """Return a command that runs over WiFu."""
        door = self.lab.door(host)
        options: Command = ["--protocol", self.protocol, "--socket", door]
        return ["env", f"WIFU_PRELOAD={self.library}", self.wifu, "exec", *options, "--", *command]

    def serve(self, port: int, *command: str | Path, host: Host | None = None) -> Process:
        """Start a server, on host a unless told, over WiFu, and wait until it listens."""
        host = host or self.lab.a
        server = self.lab.start(host, *self.over(host, *command))
        asks: Command = [self.wifu, "ss", "--listening", "--socket", self.lab.door(host)]
        # A program that is compiled first takes its time.
        wait_for(
            f"{command[0]} on port {port}",
            lambda: f":{port} " in host.run(*asks),
            server,
            seconds=30,
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
        """Return the command of an nginx with four workers that serves the file."""
        conf, folder = self.lab.scratch / "nginx.conf", self.lab.scratch
        conf.write_text(NGINX.format(folder=folder, root=self.file.parent, address=address))
        return ["nginx", "-p", folder, "-c", conf]


def expect(what: str, right: bool, said: object) -> None:
    """Fail with what a program said, unless all is right."""
    if not right:
        raise LabError(f"{what}: {said}")
