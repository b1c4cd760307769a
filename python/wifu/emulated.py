"""The substrate `emu`: a scenario over emulated radios, with real kernels and real programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wifu import queues, relays, toml, values, watch
from wifu.emu import Emulation, EmulationError
from wifu.errors import Cancelled, LabError, RunError
from wifu.flows import Scenario, flows_of, layer_of
from wifu.places import Crew, Place, need_root
from wifu.program import Pinned, take_libraries
from wifu.runner import Plain, Runner, RunResult, check_mesh, host_profile, split
from wifu.ssh import PRELOAD
from wifu.traffic import Traffic

MARGIN = 60.0
"""Seconds of the wall's clock that a run may take beyond its scenario's time."""

UNLIMITED = 300.0
"""... and where the scenario has no stop.time."""


REPEATS = 2
"""How often a run that was stamped INVALID is made again, unless `emu.repeats` says otherwise."""


def of_daemons(scenarios: Iterable[Scenario]) -> bool:
    """Whether any flow of some scenarios is of WiFu's own protocols."""
    return any(not f.kernel and f.protocol != "udp" for s in scenarios for f in flows_of(s))


def check_build(program: Path) -> None:
    """LabError if a program has no preload library, or takes none of what WIFU_LOAD names."""
    beside = [program.parent / PRELOAD, program.parent.parent / "lib/wifu" / PRELOAD]
    told = os.environ.get("WIFU_PRELOAD")
    if not any(p.is_file() for p in ([Path(told)] if told else beside)):
        raise LabError(
            f"no {told or beside[0]}, which flows over WiFu's protocols need: build it as "
            f"{program} was (`make build`, or `cargo build -p wifu -p wifu-preload`)"
        )
    take_libraries(program)


class InvalidRun(LabError):
    """The emulation was too late for its numbers to mean anything."""

    def __init__(self, message: str, attempt: Mapping[str, Any]) -> None:
        """`attempt`: its stamp, why, and what it measured."""
        super().__init__(message)
        self.attempt = dict(attempt)


def insist(
    runner: Runner, scenario: dict[str, Any], rejected: list[dict[str, Any]], name: str
) -> RunResult:
    """Run a scenario; again if the emulation was too late, as often as the runner's `repeats` says.

    That decision looks at lateness only. What is stamped INVALID is added to `rejected`, also if
    the run fails in the end.
    """
    left = getattr(runner, "repeats", 0)
    while True:
        try:
            return runner(scenario)
        except InvalidRun as e:
            rejected.append(e.attempt)
            if not left:
                raise
            left -= 1
            runner.told(f"{name}: again, {e}")  # type: ignore[attr-defined]


class RealTime(ABC):
    """What runners in real time share: a limit on time, and giving up when the campaign does."""

    def __init__(self, settings: Mapping[str, Any], timeout: float | None) -> None:
        self.settings, self.timeout = settings, timeout
        self.told: Callable[[str], None] = lambda text: None
        self._cancelled = threading.Event()
        self._program: Pinned | None = None
        self.code: str | None = None
        """Identifies the program that it keeps to, or those on hosts, once they are known."""

    def cancel(self) -> None:
        """Give up the run that is under way."""
        self._cancelled.set()

    @property
    def program(self) -> str:
        """The program `wifu`, which no other one may take the place of."""
        self._program = self._program or Pinned()
        return str(self._program)

    @property
    def dilation(self) -> float:
        """How many times slower model time passes than the wall's clock."""
        return float(self.settings.get("dilation", 1.0))

    def crew(self, folder: Path, scenario: Scenario) -> Crew:
        """The run's programs, and until when they may run."""
        limit = self.timeout
        if limit is None:
            stop = scenario.get("stop", {}).get("time")
            limit = UNLIMITED if stop is None else values.seconds(stop) * self.dilation + MARGIN
        return Crew(folder, time.monotonic() + limit, self._cancelled.is_set)

    @abstractmethod
    def check(self, scenario: Scenario) -> None:
        """ValueError if a scenario cannot be run here, as the simulator's."""

    def prepare(self, scenarios: Sequence[Scenario] = ()) -> None:
        """LabError if this machine cannot run these scenarios."""
        need_root("running kernels and programs in namespaces")
        if shutil.which("ip") is None:
            raise LabError("no command `ip`: install iproute2")
        self._program = Pinned()
        self.code = self._program.code
        if of_daemons(scenarios):
            check_build(Path(self.program))
        sweep(Path(tempfile.gettempdir()))

    def __call__(self, scenario: dict[str, Any]) -> Plain:
        """Run a scenario."""
        with tempfile.TemporaryDirectory(prefix=f"wifu-run-{os.getpid()}-") as folder:
            Path(folder).chmod(0o700)
            begun = time.monotonic()
            outcome = self.run(scenario, Path(folder))
        series = outcome.pop("series", {})
        head = {"schema": "1.0", "seed": scenario.get("seed", 1), "run": scenario.get("run", 1)}
        wall = round(time.monotonic() - begun, 3)
        return Plain({**head, **outcome, "wall_s": wall, "kernel": os.uname().release}, series)

    @abstractmethod
    def run(self, scenario: Scenario, folder: Path) -> dict[str, Any]:
        """Run a scenario with a folder for files."""


def sweep(folder: Path) -> None:
    """Remove the files of runs whose process was killed before it could do so itself."""
    for path in folder.glob("wifu-run-*"):
        owner = re.match(r"wifu-run-(\d+)-", path.name)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            shutil.rmtree(path, ignore_errors=True)


class Emulated(RealTime):
    """Runs scenarios over emulated radios."""

    def check(self, scenario: Scenario) -> None:
        """ValueError if a scenario cannot be run here."""
        if scenario.get("split"):
            raise ValueError("split: runs on sim only")
        check_by_model(scenario, queues.NODES)
        if scenario.get("routing", {}).get("olsr"):
            raise ValueError("routing.olsr: runs on sim only")
        for key in scenario.get("host", {}):
            if key not in ("profile", "lanes", "unserved"):
                raise ValueError(f"host.{key}: runs on sim only")
        relays.check(scenario, flows_of(scenario))
        host_of(scenario)
        topology = scenario.get("topology", {})
        if topology.get("wire") or re.search(r",\s*wire=", str(topology.get("words", ""))):
            raise ValueError("topology.wire: wires are not emulated; they run on sim and live")

    @property
    def repeats(self) -> int:
        """How often a run that was stamped INVALID is made again."""
        return int(self.settings.get("repeats", REPEATS))

    def run(self, scenario: Scenario, folder: Path) -> dict[str, Any]:
        """Run a scenario; InvalidRun if the emulation was too late for it to mean anything."""
        scenario, world = as_there(scenario)
        scene = folder / "scenario.toml"
        scene.write_text(toml.dumps(_scene(scenario)))
        options = [f"--{k}" for k in ("spin", "share") if self.settings.get(k)]
        if "patience" in self.settings:
            options.append(f"--patience={self.settings['patience']}")
        net = Emulation(
            scenario=str(scene),
            hold=bool(_changes(scenario)),
            dilation=self.dilation,
            name=f"lab-{os.getpid()}",
            options=tuple(options),
            program=self.program,
        )
        try:
            self._start(net)
            with self.crew(folder, scenario) as crew:
                return world | self._run(net, crew, scenario, folder)
        finally:
            net.stop()

    def _start(self, net: Emulation) -> None:
        said = False
        while True:
            if self._cancelled.is_set():
                raise Cancelled("given up")
            try:
                net.start()
                return
            except EmulationError as e:
                net.stop()
                if "another emulation runs" not in str(e):
                    raise
            if not said:
                self.told("waiting for another emulation on this host to end")
                said = True
            time.sleep(1.0)

    def _run(
        self, net: Emulation, crew: Crew, scenario: Scenario, folder: Path
    ) -> dict[str, Any]:  # fmt: skip
        places = {
            name: Place(
                name, host.address, ("ip", "netns", "exec", host.namespace), self.program,
                str(folder), delay_dir=str(net.directory / name), monitor="mon0",
                devices=("wlan0",),
            )
            for name, host in net.hosts.items()
        }  # fmt: skip
        spaces = {name: host.namespace for name, host in net.hosts.items()}
        traffic = Traffic(places, scenario, self.dilation, beside(places, spaces, scenario))
        traffic.host, traffic.emulated = host_of(scenario), True
        if _changes(scenario):
            traffic.begins.append(net.play)
        interval = watch.interval_of(scenario)
        hosts = {name: queues.Host(space, (queues.DEVICE,)) for name, space in spaces.items()}
        looks = queues.Queues(hosts, scenario, interval, self.dilation, net)
        if looks.wanted:
            traffic.prepares.append(lambda crew: looks.prepare())
            traffic.begins.append(looks.begin)
        try:
            outcome = watch.watched(traffic, places, scenario, self.dilation, crew)
        finally:
            looks.end()
        status, links = net.status(), net.links()
        _check_stamp(status, outcome)
        if looks.wanted:
            outcome["series"] |= looks.series(outcome["sim_seconds"])
        nodes = [node_of(row, links, outcome["daemons"]) for row in net.nodes()]
        return {"substrate": "emu", **outcome, "nodes": nodes, "links": links, "stamp": status}


def as_there(scenario: Scenario) -> tuple[dict[str, Any], dict[str, str]]:
    """A scenario with its protocols as its testbed has them, and the `world` that stamps results.

    The simulator does both by itself.
    """
    from wifu import _native

    plain, _ = split(scenario)
    told = json.loads(_native.testbed(json.dumps(plain)))
    flows = zip(scenario["flow"], told["protocols"], strict=True)
    there = [{**flow, "protocol": protocol} for flow, protocol in flows]
    return {**scenario, "flow": there}, {"world": told["world"]} if told["world"] else {}


def host_of(scenario: Scenario) -> str:
    """What packets cost the daemons' hosts. ValueError if the scenario wants that of kernels.

    What a set says of its hosts is off where a kernel's TCP stands beside.
    """
    profile = host_profile(scenario)
    kernels = [flow for flow in flows_of(scenario) if flow.kernel]
    if profile == "off" or not kernels:
        return profile
    if "profile" in scenario.get("host", {}):
        raise ValueError(
            f"host.profile: acts in WiFu's daemons, and flow {kernels[0].id} is the kernel's; "
            "leave the key out, or measure such flows by a plan of their own"
        )
    return "off"


def check_by_model(scenario: Scenario, nodes: Sequence[str] = ()) -> None:
    """ValueError if the scenario means nothing here, or would mean nothing to the simulator.

    `nodes`: what nodes tell of themselves (`queues`).
    """
    flows = flows_of(scenario)
    given = [dict(f) for f in scenario["flow"]]
    for row, flow in zip(given, flows, strict=True):
        if flow.kernel:
            row["protocol"] = "tcp-reno"
    check_mesh({**scenario, "flow": given}, others=True)
    watch.check(scenario, flows, nodes)
    for flow in flows if _changes(scenario) else ():
        if flow.options.get("quickack") == "on":
            raise ValueError(
                f"flow.{flow.id}.protocol: quickack=on is a route of its own, which would not "
                f"follow {_changes(scenario)[0]}"
            )


def beside(
    places: Mapping[str, Place], spaces: Mapping[str, str], scenario: Scenario
) -> dict[tuple[str, str], str]:
    """Join the two hosts of each flow by a wire of their own, for what measuring itself says.

    Else that would compete with what is measured, and start late behind a full queue. The wires go
    with the namespaces.
    """
    found: dict[tuple[str, str], str] = {}
    for flow in flows_of(scenario):
        pair = (flow.source, flow.target)
        if flow.protocol == "udp" or pair in found:
            continue
        for name in pair:
            if name not in places:
                raise RunError(f"flow {flow.id}: no host is called {name}")
        number = len(found)
        one, two = f"ctl{number}a", f"ctl{number}b"
        net = f"10.254.{number // 64}.{number % 64 * 4}"
        base, last = net.rsplit(".", 1)
        ours, theirs = (f"{base}.{int(last) + k}" for k in (1, 2))
        source, target = (places[n] for n in pair)
        source.run(
            "ip", "link", "add", one, "type", "veth", "peer", "name", two, "netns", spaces[pair[1]]
        )
        for place, device, address in ((source, one, ours), (target, two, theirs)):
            place.run("ip", "address", "add", f"{address}/30", "dev", device)
            place.run("ip", "link", "set", device, "up")
        found[pair] = theirs
    return found


def _topology(scenario: Scenario) -> dict[str, Any]:
    """All layers of the scenario's topology in one file."""
    given = dict(scenario.get("topology", {}))
    path = given.pop("file", None)
    tree = layer_of(path) if path else {}
    tree = toml.laid_over(tree, given)
    return tree


def _changes(scenario: Scenario) -> list[str]:
    """By which keys nodes and links change while it runs."""
    return [key for key in ("mobility", "event") if scenario.get(key)]


def _scene(scenario: Scenario) -> dict[str, Any]:
    """What the emulation has to know of a scenario: all but its flows."""
    keys = ("seed", "run", "radio", "routing", "mobility", "event")
    return {"topology": _topology(scenario), **{k: scenario[k] for k in keys if k in scenario}}


def node_of(
    row: Mapping[str, Any], links: list[dict[str, Any]], daemons: Mapping[str, Any]
) -> dict[str, Any]:
    """A node as the simulator counts it, from its links and its daemon."""
    host = daemons.get(row["name"], {}).get("host")
    own = [link for link in links if link["from"] == row["name"]]
    frames, attempts, tries, failed = (
        sum(link[k] for link in own) for k in ("frames", "attempts", "tries", "failed")
    )
    return {
        "name": row["name"], "position": row.get("position"), "frames": frames,
        "attempts": attempts, "tries": tries, "retries": row["retries"], "failed": failed,
        "received": row.get("received"), "queue_drops": row.get("queue_drops"),
        "delay_us": row.get("delay_us"), **({"host": host} if host else {}),
    }  # fmt: skip


def _check_stamp(status: Mapping[str, Any], outcome: Mapping[str, Any]) -> None:
    """An error if the emulation was none; InvalidRun if it just was too late."""
    if status.get("gone"):
        raise RunError(f"device or namespace is gone: {', '.join(status['gone'])}")
    if status["verdict"] == "INVALID":
        attempt = {
            "verdict": status["verdict"],
            "reasons": status["reasons"],
            "goodput_bps": [flow["goodput_bps"] for flow in outcome["flows"]],
        }
        raise InvalidRun(f"stamped INVALID: {_numbers(status)}", attempt)


def _numbers(status: Mapping[str, Any]) -> str:
    late = status.get("deliveries", {})
    told = [f"{k} {late[k] / 1000:.2f} ms" for k in ("p50", "p99", "p999", "max") if k in late]
    return f"deliveries late by {', '.join(told)}; {json.dumps(status.get('reasons', []))}"
