"""Plans on hosts that are reached by a real SSH: servers in namespaces. They need root.

The lab runs in a namespace of its own, wired to both hosts, which are wired to each other.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from wifu.api import Results
from wifu.emulated import sweep
from wifu.errors import LabError
from wifu.live import Wire, Wires
from wifu.program import find_program

EXAMPLE = Path(__file__).parents[2] / "experiments/two-hosts"
SSHD = "/usr/sbin/sshd"
PORT, PORT_OF_NOBODY = 2222, 2223
HOSTS = ("a", "b")

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not Path(SSHD).exists(), reason="needs sshd: install openssh-server"),
    pytest.mark.skipif(shutil.which("nft") is None, reason="needs nft: install nftables"),
]

SERVER = """
Port {port}
Port {port_of_nobody}
HostKey {folder}/host-{name}
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM {pam}
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
SetEnv HOME={folder}/home-{name}
LogLevel VERBOSE
# Somebody who is not root.
Match LocalPort {port_of_nobody}
    ForceCommand setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "$SSH_ORIGINAL_COMMAND"
"""

CLIENT = """
Host host-b nobody stranger
    HostName {b}
Host host-a unknown changed refused
    HostName {a}
Host nobody
    Port {port_of_nobody}
Host refused
    Port 9
Host unknown
    UserKnownHostsFile /dev/null
Host changed
    UserKnownHostsFile {folder}/old
Host stranger
    IdentityFile {folder}/other
Host * !stranger
    IdentityFile {folder}/user
Host *
    User root
    Port {port}
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known
    GlobalKnownHostsFile none
    ControlPath {folder}/mine-%n
"""

PLAN = """
name = "two-hosts"
deterministic = true
pair = "stack"
on = ["live"]
metrics = ["goodput", "retransmissions", "overflows"]
[scenario]
topology = {{ words = "linear,2,wire=20Mb/s" }}
stop.time = "20s"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "{{stack}}"
app = "file"
bytes = "2M"
[vary.stack]
ours = "tcp-newreno"
kernel = "tcp-reno,profile=kernel-reno"
[live]
runs = 1
run_timeout = "30s"
ssh = "{ssh}"
program = "{program}"
hosts = {{ n1 = "host-a", n2 = "host-b" }}
{more}
[live.vary.stack]
kernel = "kernel:reno,sack=off,timestamps=off,quickack=on"
"""


def scratch() -> set[Path]:
    """Directories of runs; those from before are not ours."""
    return set(Path("/tmp").glob("wifu-ssh-????????"))


@dataclass
class Net:
    """Three namespaces, two of them with a server."""

    folder: Path
    wires: Wires
    servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    before: dict[str, dict[str, str]] = field(default_factory=dict)
    scratch: set[Path] = field(default_factory=lambda: scratch())

    @property
    def ssh(self) -> str:
        return f"ssh -F {self.folder}/config"

    def command(self, node: str, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self.wires.spaces[node], *words]

    def run(self, node: str, *words: str) -> str:
        done = subprocess.run(
            self.command(node, *words), capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout

    def pids(self, node: str) -> set[int]:
        listed = subprocess.run(
            ["ip", "netns", "pids", self.wires.spaces[node]], capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return {int(p) for p in listed.stdout.split()}

    def state(self, node: str) -> dict[str, str]:
        """All of a host that a run could change."""
        script = "cd /proc/sys/net/ipv4; grep -s . tcp_* conf/*/* | grep -v tcp_fastopen_key"
        return {
            "settings": self.run(node, "sh", "-c", script),
            "routes": self.run(node, "ip", "-4", "route", "show", "table", "all"),
            "devices": self.run(node, "ip", "-br", "link"),
            # Whoever uses iptables leaves its tables behind, empty.
            "rules": "\n".join(
                line
                for line in self.run(node, "nft", "list", "ruleset").splitlines()
                if not re.match(r"\s*(table|chain|type|}|$)", line)
            ),
            "qdiscs": self.run(node, "tc", "qdisc"),
        }

    def plan(self, **changes: str) -> Path:
        path = self.folder / "plan.toml"
        given = {"ssh": self.ssh, "program": str(find_program()), "more": "", **changes}
        path.write_text(PLAN.format(**given))
        return path

    def lab(self, *words: str) -> subprocess.Popen[str]:
        return self.start("lab", sys.executable, "-m", "wifu.cli", *words)

    def start(self, node: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(node, *words),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "WIFU_BIN": "/nosuch", "COLUMNS": "1000"},  # only hosts need it
        )  # fmt: skip

    def sessions(self, node: str) -> list[int]:
        """The server's processes of connections, which carry all sessions of one."""
        server, found = self.servers[node].pid, []
        for pid in self.pids(node) - {server}:
            try:
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                name = Path(f"/proc/{pid}/cmdline").read_text()
            except OSError:
                continue
            if int(stat[1]) == server and name.startswith("sshd"):
                found.append(pid)
        return found

    def programs(self, node: str) -> str:
        """The command lines of all that runs there."""
        lines = []
        for pid in self.pids(node) - {self.servers[node].pid}:
            try:
                lines.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:120])
            except OSError:
                continue
        return "\n".join(lines)

    def assert_untouched(self, seconds: float = 5.0) -> None:
        """Both hosts are as they were; they may take a moment."""
        until = time.monotonic() + seconds
        while any(self.programs(n) for n in HOSTS) and time.monotonic() < until:
            time.sleep(0.05)
        for node in HOSTS:
            assert self.programs(node) == ""
            assert self.state(node) == self.before[node]
        assert scratch() == self.scratch


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    folder, label = tmp_path_factory.mktemp("ssh"), f"t-ssh-{os.getpid()}"
    for key in ("user", "other", *(f"host-{n}" for n in HOSTS)):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True
        )
    locked = subprocess.run(["getent", "shadow", "root"], capture_output=True, text=True)
    pam = "yes" if locked.stdout.startswith("root:!") else "no"
    separation = Path("/run/sshd")
    made = not separation.exists()
    if made:
        separation.mkdir(mode=0o755)
    joined = [Wire("lab", "a", 1e9), Wire("lab", "b", 1e9), Wire("a", "b", 20e6)]
    for name in HOSTS:
        (folder / f"home-{name}").mkdir()
    (folder / "alone").write_text("#!/bin/sh\necho wifu 1.0\n")
    (folder / "alone").chmod(0o755)
    with Wires(label, ["lab", *HOSTS], joined) as wires:
        net = Net(folder, wires)
        ports = {"port": PORT, "port_of_nobody": PORT_OF_NOBODY}
        known = []
        for name in HOSTS:
            config = folder / f"sshd-{name}"
            config.write_text(SERVER.format(folder=folder, name=name, pam=pam, **ports))
            log = (folder / f"sshd-{name}.log").open("wb")
            net.servers[name] = subprocess.Popen(
                net.command(name, SSHD, "-D", "-e", "-f", str(config)),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
            key = " ".join((folder / f"host-{name}.pub").read_text().split()[:2])
            known += [f"[{wires.addresses[name]}]:{p} {key}\n" for p in ports.values()]
        (folder / "known").write_text("".join(known))
        own = (folder / "host-b.pub").read_text()
        (folder / "old").write_text(f"[{wires.addresses['a']}]:{PORT} {own}")
        (folder / "config").write_text(CLIENT.format(folder=folder, **ports, **wires.addresses))
        for name in HOSTS:
            await_(lambda n=name: f":{PORT} " in net.run(n, "ss", "-ltn"))  # type: ignore[misc]
            # Other than the lab wants them, and than they are by default.
            net.run(name, "sh", "-c", "echo 2 > /proc/sys/net/ipv4/tcp_timestamps")
            net.run(name, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/tcp_no_metrics_save")
            net.before[name] = net.state(name)
        try:
            yield net
        finally:
            for server in net.servers.values():
                server.terminate()
                server.wait(10)
            if made:
                separation.rmdir()


@pytest.fixture
def net(world: Net, tmp_path: Path) -> Iterator[Net]:
    try:
        find_program()
    except LabError:
        pytest.skip("needs the command `wifu`: make build")
    world.assert_untouched()
    yield world
    world.assert_untouched()


def await_(true: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "not in time"
        time.sleep(0.02)


def await_flow(net: Net, lab: subprocess.Popen[str]) -> None:
    """Wait until a run has come so far that a transfer is under way."""
    await_(lambda: " perf -c " in net.programs("a") or lab.poll() is not None, 60)
    assert lab.poll() is None, lab.communicate()


def outcome(out: Path, cell: str) -> Any:
    return Results(out / "live").outcome(cell, 1)


def test_the_example_of_the_book(net: Net, tmp_path: Path) -> None:
    """With other hosts, fewer runs, and wires with a network for control, as it were."""
    out, address = tmp_path / "out", net.wires.addresses["b"]
    words = [
        str(EXAMPLE), "-o", str(out), "--json", "flow.*.bytes=2M", "live.runs=2",
        f"live.ssh={net.ssh}", f"live.program={find_program()}",
        "live.hosts.n1=host-a", "live.hosts.n2=host-b",
        f"live.addresses.n2={address}", f"live.control.n2={address}",
    ]  # fmt: skip
    lab = net.lab("run", *words)
    _, said = lab.communicate(timeout=90)
    assert lab.returncode == 0, said
    results = Results(out / "live")
    flows = results.flows
    ours = "tcp-newreno,profile=wifu-tahoe"
    assert sorted(flows["flow_protocol"].unique()) == ["kernel:reno,sack=off", ours]
    assert flows["finished"].all() and (flows["bytes"] == 2_000_000).all()
    # Of 20 Mb/s, TCP's headers and the wire's leave some 18.9.
    assert flows["goodput_bps"].between(12e6, 19.5e6).all(), flows["goodput_bps"]
    rows = results.ok
    assert rows["retransmissions"].between(0, 400).all()
    assert (rows["srtt_s"] < 1.0).all()
    assert rows["timeouts"].between(0, 3).all()
    told = outcome(out, "wifu")["hosts"]
    assert sorted(told) == ["n1", "n2"]
    assert told["n1"]["system"].startswith("Linux ") and len(told["n1"]["sum"]) == 16
    assert told["n1"]["wifu"].startswith("wifu ")
    assert results.manifest["code"] != ["unknown"]
    assert "live against sim" in (out / "report.html").read_text()
    # The programs are the same as then, which the hosts say.
    lab = net.lab("resume", str(out), "--on", "live", "--no-report", "--json")
    again, said = lab.communicate(timeout=60)
    assert lab.returncode == 0, said
    assert json.loads(again)["missing"] == 0


def test_settings_are_what_a_run_needs_and_then_what_they_were(net: Net, tmp_path: Path) -> None:
    words = ["stack=kernel", "flow.*.bytes=8M", "--no-report", "--json"]
    lab = net.lab("run", str(net.plan()), "-o", str(tmp_path / "out"), *words)
    await_flow(net, lab)
    changed = {
        node: sorted(
            set(net.state(node)["settings"].splitlines())
            - set(net.before[node]["settings"].splitlines())
        )
        for node in HOSTS
    }
    routes = net.run("b", "ip", "route", "show", net.wires.addresses["a"])
    _, said = lab.communicate(timeout=60)
    assert lab.returncode == 0, said
    wanted = ["tcp_no_metrics_save:1", "tcp_sack:0", "tcp_timestamps:0"]
    assert changed == {"a": wanted, "b": wanted}
    assert "quickack 1" in routes


def with_a_handler(net: Net, handler: str, flow: str = "") -> Path:
    """The plan with a handler on the second host, and perhaps another flow."""
    plan = net.plan()
    text = plan.read_text().replace('app = "file"\nbytes = "2M"', flow or 'bytes = "2M"')
    row = f'[[live.scenario.handler]]\nnodes = ["n2"]\nhooks = ["input"]\n{handler}\n'
    plan.write_text(text.replace("[live.vary", row + "[live.vary"))
    return plan


def test_datagrams_and_handlers_on_hosts(net: Net, tmp_path: Path) -> None:
    flow = 'app = "bulk"\nrate = "1M"'
    plan = with_a_handler(net, 'use = "drop"\nprotocol = 17\np = 0.5', flow)
    text = plan.read_text().replace('stop.time = "20s"', 'stop.time = "2s"')
    plan.write_text(text.replace('"tcp-newreno"', '"udp"'))
    out = tmp_path / "out"
    lab = net.lab("run", str(plan), "-o", str(out), "stack=ours", "--no-report", "--json")
    _, said = lab.communicate(timeout=60)
    assert lab.returncode == 0, said
    (flow,) = outcome(out, "ours")["flows"]
    # Half of 250 kB, less what did not fit into the start of the programs.
    assert 60e3 < flow["bytes"] < 170e3
    # These two are one machine, but of hosts that SSH reaches nobody knows that.
    assert "one_way" not in flow
    (told,) = outcome(out, "ours")["absent"]
    assert told == "flow 1: no one_way: the clocks of its two hosts are not the same"
    core = outcome(out, "ours")["core"]["n2"]
    assert core["hooks"]["input"]["dropped"] > 20
    assert list(Results(out / "live").ok["overflows"]) == [0.0]


def test_a_program_that_does_not_end_when_told_to(net: Net, tmp_path: Path) -> None:
    # One that has nothing to do: SSH itself goes through handlers of everything.
    plan = with_a_handler(net, 'use = "null"\nprotocol = 17')
    words = ["stack=kernel", "flow.*.bytes=500M", "--no-report"]
    lab = net.lab("run", str(plan), "-o", str(tmp_path / "out"), *words)
    await_flow(net, lab)
    assert "NFQUEUE" in net.run("b", "iptables-save")
    stopped = [
        pid
        for pid in net.pids("b")
        if Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1:3] == ["core", "--config"]
    ]
    assert len(stopped) == 1
    os.kill(stopped[0], signal.SIGSTOP)
    begun = time.monotonic()
    lab.send_signal(signal.SIGINT)
    _, said = lab.communicate(timeout=40)
    assert lab.returncode == 130, said
    assert time.monotonic() - begun < 20
    # It could not remove its rules itself.
    assert "NFQUEUE" not in net.run("b", "iptables-save")
    net.assert_untouched(0.5)


def test_a_run_that_fails(net: Net, tmp_path: Path) -> None:
    words = ["flow.*.bytes=500M", "run_timeout=3s", "--no-report", "--json"]
    plan = net.plan()
    plan.write_text(plan.read_text().replace('run_timeout = "30s"\n', ""))
    lab = net.lab("run", str(plan), "-o", str(tmp_path / "out"), *words)
    told, said = lab.communicate(timeout=60)
    assert lab.returncode == 1, said
    failed = {f["cell"]: f["error"] for f in json.loads(told)["failed"]}
    assert sorted(failed) == ["kernel", "ours"]
    assert all("run_timeout" in error for error in failed.values())


@pytest.mark.parametrize("stack", ["ours", "kernel"])
def test_ctrl_c(net: Net, tmp_path: Path, stack: str) -> None:
    words = [f"stack={stack}", "flow.*.bytes=500M", "--no-report"]
    lab = net.lab("run", str(net.plan()), "-o", str(tmp_path / "out"), *words)
    await_flow(net, lab)
    time.sleep(0.5)
    lab.send_signal(signal.SIGINT)
    _, said = lab.communicate(timeout=30)
    assert lab.returncode == 130, said
    # By the time that the lab has ended, all is in order: nothing to wait for.
    net.assert_untouched(0.5)


@pytest.mark.parametrize("stack", ["ours", "kernel"])
def test_the_lab_is_killed(net: Net, tmp_path: Path, stack: str) -> None:
    words = [f"stack={stack}", "flow.*.bytes=500M", "--no-report"]
    lab = net.lab("run", str(net.plan()), "-o", str(tmp_path / "out"), *words)
    await_flow(net, lab)
    time.sleep(0.5)
    lab.kill()
    lab.communicate(timeout=30)
    net.assert_untouched(15)
    # What it left here, the next one removes.
    left = list(Path(tempfile.gettempdir()).glob(f"wifu-run-{lab.pid}-*"))
    assert left
    sweep(Path(tempfile.gettempdir()))
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("stack", ["ours", "kernel"])
def test_a_connection_is_cut(net: Net, tmp_path: Path, stack: str, host: str) -> None:
    words = [f"stack={stack}", "flow.*.bytes=500M", "--no-report", "--json"]
    lab = net.lab("run", str(net.plan()), "-o", str(tmp_path / "out"), *words)
    await_flow(net, lab)
    time.sleep(0.5)
    cut = net.sessions(host)
    assert cut
    for pid in cut:
        os.kill(pid, signal.SIGKILL)
    told, said = lab.communicate(timeout=40)
    assert lab.returncode == 1, said
    ((_, error),) = ((f["cell"], f["error"]) for f in json.loads(told)["failed"])
    name = {"a": "n1 (host-a)", "b": "n2 (host-b)"}[host]
    assert f"{name}: the connection ended in the middle of a run" in error
    net.assert_untouched(15)


def test_a_network_falls_silent(net: Net, tmp_path: Path) -> None:
    words = ["stack=kernel", "flow.*.bytes=500M", "run_timeout=90s", "--no-report", "--json"]
    plan = net.plan()
    plan.write_text(plan.read_text().replace('run_timeout = "30s"\n', ""))
    text = plan.read_text().replace('stop.time = "20s"\n', "")
    plan.write_text(text)
    lab = net.lab("run", str(plan), "-o", str(tmp_path / "out"), *words)
    await_flow(net, lab)
    # Everything between the lab and the first host disappears, without a word to either.
    drop = "add table ip cut; add chain ip cut in { type filter hook input priority 0; }"
    lost = f"{drop}; add rule ip cut in ip saddr {net.wires.addresses['a']} drop"
    mute = f"{drop}; add chain ip cut out {{ type filter hook output priority 0; }}"
    mute += f"; add rule ip cut out ip daddr {net.wires.addresses['a']} drop"
    try:
        net.run("lab", "nft", lost)
        net.run("lab", "nft", mute)
        told, said = lab.communicate(timeout=80)
        assert lab.returncode == 1, said
        (failure,) = json.loads(told)["failed"]
        assert "n1 (host-a): the connection ended in the middle of a run" in failure["error"]
        # The first host cannot have been told; it sees by itself that nobody is there.
        await_(lambda: not net.programs("a").replace("sshd: root@notty", "").strip(), 40)
        state = net.state("a")
        assert state == net.before["a"]
    finally:
        net.run("lab", "nft", "delete table ip cut")
        for pid in net.sessions("a"):  # for which the server would wait two hours
            os.kill(pid, signal.SIGTERM)


WRONG = {
    "no such name": ({"n1": "root@nosuch.invalid"}, {}, r"nosuch\.invalid.*no such name: correct"),
    "nobody there": ({"n1": "refused"}, {}, r"n1 \(refused\): cannot be reached: is it up"),
    "an unknown key of a host": (
        {"n1": "unknown"}, {}, r"n1 \(unknown\): the host's key is not known.*by hand.*: ssh -F"
    ),
    "another key of a host": (
        {"n1": "changed"}, {}, r"n1 \(changed\): the host's key is another one than before"
    ),
    "a wrong key of a user": (
        {"n2": "stranger"}, {}, r"n2 \(stranger\): no login without a password: put your public key"
    ),
    "no program": (
        {}, {"program": "/usr/bin/nosuch"}, r"n1 \(host-a\): no program /usr/bin/nosuch there: copy"
    ),
    "another program": (
        {}, {"program": "/bin/echo"}, r"n1 \(host-a\): /bin/echo does not run there: echo "
    ),
    "no library": (
        {}, {"program": "{folder}/alone"},
        r"n1 \(host-a\): no libwifu_preload\.so there, which tcp-newreno needs: copy it there",
    ),
    "no root": ({"n2": "nobody"}, {}, r"n2 \(nobody\): no root there \(user 65534\): log in"),
    "one host twice": ({"n2": "host-a"}, {}, r"n1 \(host-a\) and n2 \(host-a\) are the same host"),
    "no ssh": ({}, {"ssh": "nosuch-ssh -p 1"}, r"no command `nosuch-ssh`: install openssh-client"),
    "no configuration": ({}, {"ssh": "ssh -F /nosuch"}, r"n1 \(host-a\): .*/nosuch"),
    "no address": (
        {},
        {"more": 'addresses = { n2 = "localhost" }'},
        r"n2 \(host-b\): localhost is 127\.0\.0\.1, every host.*live\.addresses\.n2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_before_anything_runs(net: Net, tmp_path: Path, what: str) -> None:
    hosts, changes, wanted = WRONG[what]
    plan = net.plan(**{k: v.replace("{folder}", str(net.folder)) for k, v in changes.items()})
    text = plan.read_text()
    for name, login in hosts.items():
        was = {"n1": "host-a", "n2": "host-b"}[name]
        text = text.replace(f'{name} = "{was}"', f'{name} = "{login}"')
    plan.write_text(text)
    lab = net.lab("run", str(plan), "-o", str(tmp_path / "out"), "--no-report")
    _, said = lab.communicate(timeout=40)
    assert lab.returncode == 2, said
    assert re.search(wanted, said), said
    assert not (tmp_path / "out").exists()


def test_login_scripts_that_print(net: Net, tmp_path: Path) -> None:
    script = net.folder / "home-b/.bashrc"
    script.write_text("echo welcome\n")
    try:
        lab = net.lab("run", str(net.plan()), "-o", str(tmp_path / "out"))
        _, said = lab.communicate(timeout=40)
    finally:
        script.unlink()
    assert lab.returncode == 2, said
    assert "n2 (host-b): its login scripts print 'welcome' with every command" in said


def test_a_connection_of_the_user_is_shared(net: Net, tmp_path: Path) -> None:
    """One that was opened by hand may have needed a password: here, a key the lab has not."""
    words = ["-o", "ControlMaster=yes", "-i", f"{net.folder}/user", "-N", "stranger"]
    master = subprocess.Popen(net.command("lab", *net.ssh.split(), *words))
    try:
        await_(lambda: (net.folder / "mine-stranger").exists())
        plan = net.plan()
        plan.write_text(plan.read_text().replace('"host-b"', '"stranger"'))
        out = tmp_path / "out"
        lab = net.lab("run", str(plan), "-o", str(out), "--no-report", "stack=kernel", "--json")
        _, said = lab.communicate(timeout=60)
        assert lab.returncode == 0, said
        assert outcome(out, "kernel")["flows"][0]["finished"]
        assert master.poll() is None
    finally:
        master.terminate()
        master.wait(10)


def test_two_labs_take_turns(net: Net, tmp_path: Path) -> None:
    """Each on a machine of its own, as it were, where the other's lock is not seen."""
    words = ["run", str(net.plan()), "stack=kernel", "flow.*.bytes=8M", "--no-report"]
    labs = []
    for k in range(2):
        home = tmp_path / f"run-{k}"
        home.mkdir()
        command = ["unshare", "-m", "sh", "-c", f'mount --bind {home} /run/wifu; exec "$@"', "sh"]
        command += [sys.executable, "-m", "wifu.cli", *words, "-o", str(tmp_path / f"out{k}")]
        labs.append(net.start("lab", *command))
    told = [lab.communicate(timeout=90)[1] for lab in labs]
    assert [lab.returncode for lab in labs] == [0, 0], told
    assert sum("waiting for another lab's run on n" in text for text in told) == 1, told
    for k in range(2):
        assert outcome(tmp_path / f"out{k}", "kernel")["flows"][0]["goodput_bps"] > 12e6
