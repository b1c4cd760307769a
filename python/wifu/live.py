"""The substrate `live`: wires between namespaces of this machine, or hosts reached by SSH."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from wifu import queues, relays, values
from wifu.arrived import delays
from wifu.cells import digest
from wifu.cuts import Cuts, events_of
from wifu.emulated import RealTime, beside, check_by_model, sweep
from wifu.errors import Cancelled, LabError, RunError
from wifu.flows import Scenario, flows_of, layer_of
from wifu.places import Place, deaf, need_root
from wifu.ssh import PRELOAD, Connection, Facts
from wifu.traffic import Traffic
from wifu.watch import interval_of, wanted, watched

RUN = Path("/run/wifu")
ETHERNET = 14
"""Bytes of a frame that the kernel counts; `overhead` of a wire has them, too."""

FASTEST = 10e9
"""bit/s of a host that is to be saturated by datagrams without a rate, over SSH."""

GUARDIAN = """
state=$1; shift; cat
for signal in TERM KILL; do
    for space; do ip netns pids "$space" 2>/dev/null | xargs -r kill -$signal 2>/dev/null; done
    [ $signal = KILL ] || sleep 0.05
done
for space; do ip netns del "$space" 2>/dev/null; done
rm -f "$state"
"""
"""Waits for the end of its input, then removes namespaces and what runs in them."""

SLOW = 200e6
"""bit/s up to which every packet is a frame of its own."""

NEGLIGIBLE = 0.001
"""Seconds of a wire's delay that are left out: without netem nothing delays packets so shortly."""


@dataclass(frozen=True)
class Wire:
    """A wire between two hosts; rate in bit/s, queue in packets, overhead in bytes."""

    a: str
    b: str
    rate: float
    queue: int = 1000
    overhead: int = 38


def wires_of(scenario: Scenario) -> tuple[list[str], list[Wire]]:
    """Nodes and wires of a topology of wires. ValueError, naming the key, if it is none."""
    topology = dict(scenario.get("topology", {}))
    if "file" in topology:
        topology = {**layer_of(topology.pop("file")), **topology}
    nodes = [str(n["name"]) for n in topology.get("node", [])]
    wires: list[Wire] = []
    words = str(topology.get("words", ""))
    if words:
        nodes, wires = _words(words)
    for n, given in enumerate(topology.get("wire", []), 1):
        where = f"topology.wire.{n}"
        for key in ("a", "b", "rate"):
            if key not in given:
                raise ValueError(f"{where}.{key}: is required")
        wires.append(_wire(where, str(given["a"]), str(given["b"]), given))
    if not wires:
        raise ValueError("topology: live needs wires, such as words = 'linear,2,wire=10Mb/s'")
    for wire in wires:
        nodes += [n for n in (wire.a, wire.b) if n not in nodes]
    return nodes, wires


def _words(words: str) -> tuple[list[str], list[Wire]]:
    shape, *rest = [w.strip() for w in words.split(",")]
    keys = dict(w.split("=", 1) for w in rest if "=" in w)
    sizes = [w for w in rest if "=" not in w]
    known = shape == "minimal" or (shape == "linear" and sizes and sizes[0].isdigit())
    if not known or "wire" not in keys:
        raise ValueError(f"topology.words: {words}: live has wires: linear,N,wire=RATE")
    count = int(sizes[0]) if shape == "linear" else 2
    nodes = [f"n{k}" for k in range(1, count + 1)]
    keys["rate"] = keys.pop("wire")
    ends = pairwise(nodes)
    return nodes, [_wire("topology.words", a, b, keys) for a, b in ends]


def _wire(where: str, a: str, b: str, given: Mapping[str, Any]) -> Wire:
    try:
        for key in ("loss", "variation", "overheard_by"):
            if values.fraction(given[key]) if key == "loss" and key in given else key in given:
                raise ValueError(f"{where}: {key} of wires runs on sim only")
        if values.seconds(given.get("delay", 0)) > NEGLIGIBLE:
            raise ValueError(
                f"{where}: a delay above {NEGLIGIBLE * 1000:g} ms runs on sim only: this lab "
                "shapes by tbf, which does not delay"
            )
        return Wire(
            a, b, values.rate(given["rate"]), int(given.get("queue", 1000)),
            int(given.get("overhead", 38)),
        )  # fmt: skip
    except LabError as e:
        raise ValueError(f"{where}: {e}") from None


def python_needed(scenario: Scenario, hosts: Sequence[str]) -> list[tuple[str, str]]:
    """Hosts where Python has to be, and what for."""
    flows = flows_of(scenario)
    ends = [(name, "udp") for f in flows if f.protocol == "udp" for name in (f.source, f.target)]
    series = wanted(scenario, flows, hosts)
    return ends + [(w.node, f"the series {w.name}") for w in series if w.flow.kernel]


def next_hops(nodes: Sequence[str], wires: Sequence[Wire]) -> dict[str, dict[str, str]]:
    """For each node and destination, the neighbour to hand packets to: fewest hops."""
    near: dict[str, list[str]] = {n: [] for n in nodes}
    for wire in wires:
        near[wire.a].append(wire.b)
        near[wire.b].append(wire.a)
    table: dict[str, dict[str, str]] = {n: {} for n in nodes}
    for to in nodes:
        found, seen = deque([to]), {to}
        while found:
            here = found.popleft()
            for other in near[here]:
                if other not in seen:
                    seen.add(other)
                    table[other][to] = here
                    found.append(other)
    return table


class Wires:
    """Namespaces joined by shaped pairs of devices; gone with the `with` block.

    A guardian removes them, also if this process is killed. A file below /run/wifu says whose they
    are, so that `wifu clean` does it if the guardian was killed, too.
    """

    def __init__(self, label: str, nodes: Sequence[str], wires: Sequence[Wire]) -> None:
        self.label, self.nodes, self.wires = label, list(nodes), list(wires)
        self.spaces = {n: f"wifu-{label}-{n}" for n in nodes}
        self.addresses = {
            n: f"10.78.{k // 250}.{k % 250 + 1}" for k, n in enumerate(self.nodes)
        }  # fmt: skip
        self._state = RUN / f"lab-{label}.json"
        self._guardian: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Wires:
        """Make the wires."""
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """Remove the wires."""
        self._remove()

    def _make(self) -> None:
        RUN.mkdir(parents=True, exist_ok=True)
        owner = {"pid": os.getpid(), "start": _start_of(os.getpid())}
        state = {
            "version": 1, "label": self.label, "owner": owner,
            "namespaces": list(self.spaces.values()),
        }  # fmt: skip
        self._state.write_text(json.dumps(state))
        self._guardian = subprocess.Popen(
            ["sh", "-c", GUARDIAN, "sh", str(self._state), *self.spaces.values()],
            stdin=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        tag = f"wifu:{owner['pid']}:{owner['start']}"
        for space in self.spaces.values():
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "dev", "lo", "alias", tag, "up")
            for key, value in _PARAMETERS.items():
                _in(space, "sh", "-c", f"echo {value} > /proc/sys/{key}")
        for number, wire in enumerate(self.wires):
            self._join(wire, f"eth{number}")
        self.route(set())

    def run(self, node: str, *words: str) -> str:
        """What a command in the namespace of a node says."""
        return _in(self.spaces[node], *words)

    @property
    def devices(self) -> dict[tuple[str, str], list[str]]:
        """For two nodes, the devices at the first that lead to the second, the last made first."""
        found: dict[tuple[str, str], list[str]] = {}
        for number, wire in enumerate(self.wires):
            for pair in ((wire.a, wire.b), (wire.b, wire.a)):
                found.setdefault(pair, []).insert(0, f"eth{number}")
        return found

    def ends_at(self, node: str) -> tuple[str, ...]:
        """The devices of a node, by which it has wires."""
        named = enumerate(self.wires)
        return tuple(f"eth{number}" for number, wire in named if node in (wire.a, wire.b))

    def route(self, cut: Set[tuple[str, str]]) -> None:
        """Lay routes over all wires but those between these pairs."""
        wires = [w for w in self.wires if not {(w.a, w.b), (w.b, w.a)} & cut]
        devices = self.devices
        for here, ways in next_hops(self.nodes, wires).items():
            lines = []
            for to in (n for n in self.nodes if n != here):
                if to not in ways:
                    lines.append(f"route replace unreachable {self.addresses[to]}/32")
                    continue
                via = ways[to]
                way = "" if via == to else f"via {self.addresses[via]} onlink "
                lines.append(
                    f"route replace {self.addresses[to]}/32 {way}dev {devices[here, via][0]} "
                    f"src {self.addresses[here]}"
                )
            _batch(self.spaces[here], lines)

    def _join(self, wire: Wire, device: str) -> None:
        ends = [self.spaces[wire.a], self.spaces[wire.b]]
        _ip(
            "link", "add", device, "netns", ends[0], "type", "veth",
            "peer", "name", device, "netns", ends[1],
        )  # fmt: skip
        for node, space in zip((wire.a, wire.b), ends, strict=True):
            _ip("-n", space, "address", "add", f"{self.addresses[node]}/32", "dev", device)
            # Frames as they would be on a wire, where the processor can do without super-packets.
            segments = "1" if wire.rate <= SLOW else "64"
            _ip("-n", space, "link", "set", device, "gso_max_segs", segments, "up")
            # The burst covers what timers are late by, and stays below short transfers.
            burst = max(3_200, round(wire.rate / 8 * 4e-4))
            limit = burst + wire.queue * (1500 + wire.overhead)
            _in(
                space, "tc", "qdisc", "replace", "dev", device, "root", "tbf",
                "rate", f"{wire.rate:.0f}bit", "burst", str(burst), "limit", str(limit),
                "overhead", str(wire.overhead - ETHERNET),
            )  # fmt: skip

    def _remove(self) -> None:
        if self._guardian is not None:
            with deaf():
                self._guardian.communicate()


_PARAMETERS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/default/send_redirects": "0",
    # As in an emulation: of BBR as the default, sockets keep the pacing when they are told another.
    "net/ipv4/tcp_congestion_control": "reno",
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
}


def _start_of(pid: int) -> int:
    """When a process started, in ticks since the boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def _ip(*words: str, check: bool = True) -> str:
    return _command(["ip", *words], check)


def _batch(space: str, lines: Sequence[str]) -> None:
    words = ["ip", "-n", space, "-batch", "-"]
    done = subprocess.run(
        words, input="\n".join(lines), capture_output=True, text=True, timeout=30,
        start_new_session=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RunError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


def _in(space: str, *words: str) -> str:
    return _command(["ip", "netns", "exec", space, *words], True)


def _command(words: Sequence[str], check: bool) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=30, start_new_session=True, check=False
    )
    if check and done.returncode != 0:
        raise RunError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _joined(hosts: Sequence[str]) -> dict[str, Any]:
    """A topology that stands for whatever joins these hosts."""
    nodes = [{"name": name, "wired_only": True} for name in hosts]
    first = hosts[0] if hosts else ""
    wires = [{"a": first, "b": name, "rate": "1G"} for name in hosts[1:]]
    return {"node": nodes, "wire": wires}


class Live(RealTime):
    """Runs scenarios over wires between namespaces, or between hosts reached by SSH."""

    @property
    def hosts(self) -> Mapping[str, str]:
        """Where to log in for each node; none: namespaces of this machine."""
        return dict(self.settings.get("hosts", {}))

    def check(self, scenario: Scenario) -> None:
        """ValueError if a scenario cannot be run here."""
        flows = flows_of(scenario)
        for key in ("mobility", "routing", "radio", "split"):
            if scenario.get(key):
                raise ValueError(f"{key}: does not run on live")
        for key in scenario.get("host", {}):
            if key not in ("lanes", "unserved"):
                raise ValueError(f"host.{key}: does not run on live")
        relays.check(scenario, flows, self.hosts or None)
        if scenario.get("topology", {}).get("host"):
            raise ValueError("topology.host: does not run on live")
        if self.hosts and scenario.get("event"):
            raise ValueError("event: what joins hosts over SSH cannot be cut from here")
        if not self.hosts:
            wires_of(scenario)
            check_by_model(scenario, queues.WIRED)
            return
        for n, flow in enumerate(flows):
            for role, name in (("from", flow.source), ("to", flow.target)):
                if name not in self.hosts:
                    raise ValueError(f"flow.{n + 1}.{role}: live.hosts has no {name}")
        if delays(scenario):
            raise ValueError("record.series: delay: the clocks of hosts over SSH are not the same")
        if scenario.get("record"):
            # Only names are looked at, and whatever joins these hosts.
            keys = ("from", "to", "protocol")
            rows = [{**{k: f[k] for k in keys}, "app": "file", "bytes": 1}
                    for f in scenario["flow"]]  # fmt: skip
            given = {k: scenario[k] for k in ("record", "compositions") if k in scenario}
            check_by_model({**given, "flow": rows, "topology": _joined(list(self.hosts))})

    def prepare(self, scenarios: Sequence[Scenario] = ()) -> None:
        """LabError if this machine, or a host, cannot run these scenarios."""
        if not self.hosts:
            super().prepare(scenarios)
            if shutil.which("tc") is None:
                raise LabError("no command `tc`: install iproute2")
            self._sweep()
            return
        ssh = shlex.split(str(self.settings.get("ssh", "ssh")))
        if not ssh or shutil.which(ssh[0]) is None:
            raise LabError(f"no command `{' '.join(ssh[:1])}`: install openssh-client")
        addresses = self.settings.get("addresses", {})
        with (
            tempfile.TemporaryDirectory(prefix=f"wifu-run-{os.getpid()}-") as folder,
            self._connections(Path(folder)) as connections,
        ):
            sweep(Path(tempfile.gettempdir()))
            facts = self._open(connections, scenarios)
            for name, connection in connections.items():
                connection.address(addresses.get(name))
        self.code = digest([f.sum for f in facts.values()])

    def _sweep(self) -> None:
        """Remove what an earlier one left that was killed before it could do so itself."""
        for path in RUN.glob("lab-live-*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                owner = json.loads(path.read_text())["owner"]
                alive = Path(f"/proc/{owner['pid']}").exists()
                if not (alive and _start_of(owner["pid"]) == owner["start"]):
                    _command([self.program, "clean"], check=False)
                    return

    def run(self, scenario: Scenario, folder: Path) -> dict[str, Any]:
        """Run a scenario."""
        if self.hosts:
            return self._over_ssh(scenario, folder)
        need_root("live")
        nodes, wires = wires_of(scenario)
        with Wires(f"live-{os.getpid()}", nodes, wires) as net:
            places = {
                name: Place(
                    name, net.addresses[name], ("ip", "netns", "exec", space),
                    self.program, str(folder), devices=net.ends_at(name),
                )
                for name, space in net.spaces.items()
            }  # fmt: skip
            control = beside(places, net.spaces, scenario)
            fastest = max(w.rate for w in wires)
            traffic = Traffic(places, scenario, 1.0, control, fastest)
            cuts = Cuts(events_of(scenario), net.devices, net.run, net.route)
            if cuts.events:
                traffic.prepares.append(lambda crew: cuts.prepare())
                traffic.begins.append(cuts.begin)
            hosts = {n: queues.Host(space, net.ends_at(n)) for n, space in net.spaces.items()}
            looks = queues.Queues(hosts, scenario, interval_of(scenario), 1.0)
            if looks.wanted:
                traffic.prepares.append(lambda crew: looks.prepare())
                traffic.begins.append(looks.begin)
            with self.crew(folder, scenario) as crew:
                try:
                    outcome = watched(traffic, places, scenario, 1.0, crew)
                finally:
                    cuts.end()
                    looks.end()
            outcome["series"] |= looks.series(outcome["sim_seconds"])
            return {"substrate": "live", **outcome}

    def _over_ssh(self, scenario: Scenario, folder: Path) -> dict[str, Any]:
        with self._connections(folder) as connections:
            places, facts = self._places(connections, scenario)
            flows, control = flows_of(scenario), dict(self.settings.get("control", {}))
            beside = {
                (f.source, f.target): str(control[f.target]) for f in flows if f.target in control
            }  # fmt: skip
            try:
                with self.crew(folder, scenario) as crew:
                    crew.watched = list(connections.values())
                    traffic = Traffic(places, scenario, 1.0, beside, FASTEST)
                    outcome = watched(traffic, places, scenario, 1.0, crew)
                    return {"substrate": "live", "hosts": facts, **outcome}
            except RunError as e:
                if not isinstance(e, Cancelled):
                    for connection in connections.values():
                        connection.check(patience=1.0)  # which would be why
                raise

    @contextlib.contextmanager
    def _connections(self, folder: Path) -> Iterator[dict[str, Connection]]:
        """Connections to all hosts; with the block, they end and all is given back."""
        command = shlex.split(str(self.settings.get("ssh", "ssh")))
        program = str(self.settings.get("program", "wifu"))
        made = {
            name: Connection(name, str(login), command, program, folder / f"ssh{number}")
            for number, (name, login) in enumerate(self.hosts.items())
        }
        try:
            yield made
        except BaseException:
            with deaf():
                for connection in made.values():
                    with contextlib.suppress(RunError):
                        connection.close()
            raise
        with deaf():
            troubles = []
            for connection in made.values():
                try:
                    connection.close()
                except RunError as e:
                    troubles.append(str(e))
        if troubles:
            raise RunError("; ".join(troubles))

    def _open(
        self, connections: Mapping[str, Connection], scenarios: Sequence[Scenario]
    ) -> dict[str, Facts]:
        facts: dict[str, Facts] = {}
        for name, connection in connections.items():
            facts[name] = connection.open()
            for other in facts:
                if other != name and facts[other].same == facts[name].same:
                    raise RunError(f"{connections[other]} and {connection} are the same host")
        for name, why in (need for s in scenarios for need in python_needed(s, list(facts))):
            if not facts[name].python:
                raise RunError(
                    f"{connections[name]}: no python3 there, which {why} needs: install it"
                )
        for flow in (f for s in scenarios for f in flows_of(s)):
            for name in (flow.source, flow.target):
                if flow.protocol != "udp" and not flow.kernel and not facts[name].preload:
                    raise RunError(
                        f"{connections[name]}: no {PRELOAD} there, which {flow.protocol} needs: "
                        f"copy it there, beside {connections[name].program}"
                    )
        return facts

    def _places(
        self, connections: Mapping[str, Connection], scenario: Scenario
    ) -> tuple[dict[str, Place], dict[str, dict[str, str]]]:
        facts = self._open(connections, [scenario])
        addresses = self.settings.get("addresses", {})
        places: dict[str, Place] = {}
        # In the same order for everybody, so that two labs do not wait for each other.
        for name in sorted(connections, key=lambda n: facts[n].same):
            connection = connections[name]
            connection.lock(lambda host=connection: self._wait_for(host))  # type: ignore[misc]
        for name, connection in connections.items():
            places[name] = Place(
                name, connection.address(addresses.get(name)), connection.prefix,
                connection.program, connection.scratch, connection,
            )  # fmt: skip
        return places, {
            n: {"system": f.system, "wifu": f.version, "sum": f.sum} for n, f in facts.items()
        }

    def _wait_for(self, connection: Connection) -> None:
        self.told(f"waiting for another lab's run on {connection} to end")
        if self._cancelled.wait(1.0):
            raise Cancelled("given up")
