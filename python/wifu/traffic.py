"""Flows of a scenario, really run between hosts: their daemons, servers, clients and handlers.

What comes out has the simulator's shape, as far as a real transport can know it. What it cannot
know is left out, so that metrics which need it are absent, not zero.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from wifu import apps_live, arrived, reports, toml, values
from wifu.apps_live import FOREVER
from wifu.arrived import Arrived, Progress
from wifu.errors import LabError, RunError, nearest
from wifu.places import Crew, Place, Started

Scenario = Mapping[str, Any]

APPS = ("bulk", "file", "stream")
KERNEL = "kernel:"
KERNEL_KEYS = {
    "sack": ("tcp_sack", "1"),
    "dsack": ("tcp_dsack", "1"),
    "frto": ("tcp_frto", "2"),
    "window_scaling": ("tcp_window_scaling", "1"),
    "timestamps": ("tcp_timestamps", "1"),
    "ecn": ("tcp_ecn", "1"),
}
"""Switches of the kernel's TCP (those of Table I of the WiFu paper among them), the parameters that
they set, and what says `on`; 0 says `off` of each."""

KERNEL_WORDS = ("window", "mss", "quickack", *KERNEL_KEYS)
"""What may follow a congestion control; `quickack` has the receiver acknowledge every segment."""

ROUTES = "119"
"""The number under which routes that we make stand in the kernel's tables (`proto`)."""

FIRST_PORT = 5201
GRACE = 5.0
"""Seconds of the wall's clock after the end, in which clients report."""

QUEUES = 2.0
"""Seconds of model time for datagrams to come out of queues once nobody sends any more."""

HEADERS = 28
"""Octets of IPv4 and UDP."""


@dataclass(frozen=True)
class Flow:
    """One application: who sends what to whom, when. Times in seconds of model time.

    `end`: when it is cut short or ends; `ends`: whether that is what it wants.
    """

    id: int
    source: str
    target: str
    protocol: str
    app: str
    start: float
    end: float | None
    octets: int
    rate: float | None = None
    size: int = 1500
    options: Mapping[str, str] = field(default_factory=dict)
    ends: bool = True
    spec: Mapping[str, Any] = field(default_factory=dict)
    """What an application does beside steady transfers (`apps_live.KEYS`)."""
    until: float | None = None
    """From then on such an application begins nothing new."""
    stream: str = ""
    """The random stream that it draws from, as the simulator's."""

    @property
    def kernel(self) -> bool:
        """Whether the kernel's TCP carries it."""
        return self.protocol.startswith(KERNEL)

    @property
    def congestion(self) -> str:
        """The kernel's congestion control."""
        return self.protocol.removeprefix(KERNEL).split(",")[0]

    @property
    def port(self) -> int:
        """Of its server; the one after it is free, too."""
        return FIRST_PORT + 2 * (self.id - 1)


def flows_of(scenario: Scenario) -> list[Flow]:
    """The flows, checked. ValueError that begins with the key's path, as the simulator's does."""
    stop = scenario.get("stop", {})
    limit = values.seconds(stop["time"]) if "time" in stop else None
    if not scenario.get("flow"):
        raise ValueError("flow: no flow: nothing would be measured")
    draws, found = apps_live.draws(scenario), []
    for n, given in enumerate(scenario["flow"]):
        try:
            found.append(_flow(n, given, limit, draws[n], "packets" in stop))
        except LabError as e:
            raise ValueError(f"flow[{n}]: {e}") from None
        except KeyError as e:
            raise ValueError(f"flow[{n}].{e.args[0]}: is required") from None
    return found


_FLOW_KEYS = ("from", "to", "protocol", "app", "start", "jitter", "stop_at")


def _flow(
    n: int, given: Mapping[str, Any], limit: float | None, draws: Mapping[str, Any], counted: bool
) -> Flow:
    where, app = f"flow[{n}]", str(given.get("app", "bulk"))
    if app not in APPS and app not in apps_live.KEYS:
        known = nearest(app, (*APPS, *apps_live.KEYS))
        raise ValueError(f"{where}.app: no application is called {app}; {known}")
    keys = (*_FLOW_KEYS, *apps_live.KEYS.get(app, ("bytes", "time", "rate", "size")))
    for key in given:
        if key not in keys:
            raise ValueError(f"{where}.{key}: `{app}` does not use it; {nearest(key, keys)}")
    protocol = str(given["protocol"])
    start = float(draws.get("start_s", values.seconds(given.get("start", 0))))
    ends = [values.seconds(given["stop_at"])] if "stop_at" in given else []
    if "time" in given:
        ends.append(start + values.seconds(given["time"]))
    if app in apps_live.KEYS:
        return _app(n, given, limit, start, min(ends, default=None), str(draws["stream"]), counted)
    ends += [limit] if limit is not None else []
    octets = int(values.octets(given["bytes"])) if "bytes" in given else 0
    if app == "file" and not octets:
        raise ValueError(f"{where}.bytes: a file needs them")
    if not (ends or octets or counted):
        raise ValueError(f"{where}: ends only if it has bytes or time, or the plan a stop.time")
    if counted and protocol == "udp":
        raise ValueError("stop.packets: counts datagrams on sim only")
    rate = rate_of(given["rate"]) if "rate" in given else None
    timed = protocol == "udp" and "time" in given
    if protocol != "udp" and ("size" in given or rate is not None):
        raise ValueError(f"{where}.rate: rate and size are of udp")
    return Flow(
        n + 1, str(given["from"]), str(given["to"]), protocol, app, start,
        min(ends, default=None), octets, rate, int(given.get("size", 1500)),
        _kernel_options(where, protocol),
        bool(octets) or app == "stream" or "stop_at" in given or timed,
    )  # fmt: skip


def _app(
    n: int, given: Mapping[str, Any], limit: float | None, start: float, until: float | None,
    stream: str, counted: bool,
) -> Flow:  # fmt: skip
    """A flow with an application that is more than a steady transfer."""
    where, app, protocol = f"flow[{n}]", str(given["app"]), str(given["protocol"])
    if protocol == "udp":
        raise ValueError(f"{where}.app: {app} over udp runs on sim only")
    ends = until is not None or apps_live.finite(given)
    if not (ends or counted or limit is not None):
        raise ValueError(f"{where}: ends only if it has an end, or the plan a stop.time")
    if counted and app == "request":
        raise ValueError("stop.packets: does not count the answers of `request` but on sim")
    return Flow(
        n + 1, str(given["from"]), str(given["to"]), protocol, app, start, limit, 0,
        options=_kernel_options(where, protocol), ends=ends, spec=given, until=until, stream=stream,
    )  # fmt: skip


rate_of = values.rate


def _kernel_options(where: str, protocol: str) -> dict[str, str]:
    if not protocol.startswith(KERNEL):
        return {}
    options = {}
    for word in protocol.split(",")[1:]:
        key, _, value = word.partition("=")
        if key not in KERNEL_WORDS:
            hint = nearest(key, KERNEL_WORDS)
            raise ValueError(f"{where}.protocol: the kernel's TCP has no {key} here; {hint}")
        if key not in ("window", "mss") and value not in ("on", "off"):
            raise ValueError(f"{where}.protocol: {key} is on or off")
        options[key] = value
    return options


def check_kernel(flows: Sequence[Flow], place: Place) -> None:
    """An error if the kernel of a host lacks a congestion control."""
    for name in sorted({f.congestion for f in flows if f.kernel}):
        path = "/proc/sys/net/ipv4/tcp_available_congestion_control"
        have = place.run("cat", path).split()
        if name not in have:
            place.undo("sh", "-c", f"modprobe -r tcp_{name} || :")
            with contextlib.suppress(RunError):
                place.run("modprobe", f"tcp_{name}")
            have = place.run("cat", path).split()
        if name not in have:
            raise RunError(
                f"{place.name}: this kernel has no congestion control {name}; "
                f"it has {', '.join(have)}"
            )


def acknowledge_all(place: Place, sender: str) -> None:
    """Have a host's kernel acknowledge every segment of a sender: a property of a route.

    Ours goes before those that are there, which stay as they are. It is told from them by who made
    it, so that giving back takes no other, and minds neither that there is none nor one left over.
    """
    remove = ("ip", "route", "flush", "exact", f"{sender}/32", "proto", ROUTES)
    place.undo(*remove)
    place.run(*remove)
    known = json.loads(place.run("ip", "-j", "route", "get", sender))[0]
    words = ["via", known["gateway"]] if "gateway" in known else []
    words += ["dev", known["dev"], "src", known["prefsrc"], "quickack", "1"]
    place.run("ip", "route", "prepend", f"{sender}/32", *words, "proto", ROUTES)


class Traffic:
    """The flows of one run between places."""

    def __init__(
        self, places: Mapping[str, Place], scenario: Scenario, dilation: float = 1.0,
        control: Mapping[tuple[str, str], str] | None = None, full_rate: float = 60e6,
    ) -> None:  # fmt: skip
        """`control`: for two hosts, the address under which the second is reached beside what is
        measured. `full_rate`: what saturates a host, bit/s.
        """
        self.flows = flows_of(scenario)
        self.scenario, self.places, self.dilation = scenario, places, dilation
        self.control, self.full_rate = control or {}, full_rate
        self.prepares: list[Callable[[Crew], None]] = []
        self.begins: list[Callable[[], None]] = []
        """What else is to be made ready, and to begin with the flows."""
        self.ends: dict[int, tuple[str, str]] = {}
        """Addresses and ports of the sender and the receiver of each flow, once it has ended."""
        for flow in self.flows:
            for name in (flow.source, flow.target):
                if name not in places:
                    raise RunError(f"flow {flow.id}: no host is called {name}")

    def run(self, crew: Crew) -> dict[str, Any]:
        """Run them to their ends; the outcome's keys `flows`, `sim_seconds`, `end`."""
        self._settle()
        handlers = self._start_handlers(crew)
        serving = self._start_daemons(crew)
        servers = {f.id: self._start_server(crew, f) for f in self.flows}
        before = self._timeouts()
        for prepare in self.prepares:
            prepare(crew)
        begun = time.monotonic()
        for begin in self.begins:
            begin()
        clients, starts = self._start_clients(crew, begun)
        cut = self._await(crew, clients, servers, begun)
        lasted = (time.monotonic() - begun) / self.dilation
        after = self._timeouts()
        told = [
            self._told(f, clients[f.id], servers[f.id], starts[f.id], begun, f.id in cut)
            for f in self.flows
        ]
        found = [row.pop("arrived", None) for row in told]
        seconds, end = self._ended(told, found, lasted)
        for flow, row in zip(self.flows, told, strict=True):
            row["goodput_bps"] = _goodput(row, seconds)
            if flow.source in before:
                row["timeouts"] = after[flow.source] - before[flow.source]
        for handler in handlers.values():
            if not handler.alive():
                raise RunError(f"wifu core ended: {handler.said()}")
        for daemon in serving.values():
            if not daemon.alive():
                raise RunError(f"wifu daemon ended: {daemon.said()}")
        core = {name: reports.core(program) for name, program in handlers.items()}
        daemons = {name: reports.counted(program) for name, program in serving.items()}
        outcome = {
            "sim_seconds": seconds, "end": end, "flows": told, "core": core, "daemons": daemons,
        }  # fmt: skip
        return arrived.measured(outcome, found, self.scenario)

    def _ended(
        self, told: Sequence[dict[str, Any]], found: Sequence[Arrived | None], lasted: float
    ) -> tuple[float, str]:
        """When it ended and why; what came later is left out of what is told."""
        last = arrived.end_of(self.scenario, found, lasted)
        if last is not None:
            for row, series in zip(told, found, strict=True):
                arrived.cut(row, series, last.seconds)
            if last.why == "packets":
                return last.seconds, last.why
        stop = self._stop()
        ends = [f.end for f in self.flows if f.end is not None]
        if stop is None and len(ends) == len(self.flows):
            stop = max(ends)
        ended = [t.get("last_byte_s", t["start_s"]) for t in told if t["finished"]]
        if len(ended) == len(told):
            return max(ended), "done"
        return min(lasted, stop) if stop is not None else lasted, "time"

    def _stop(self) -> float | None:
        time_ = self.scenario.get("stop", {}).get("time")
        return None if time_ is None else values.seconds(time_)

    def _settle(self) -> None:
        for name in {n for f in self.flows for n in (f.source, f.target) if f.kernel}:
            # Else ssthresh of one run would be remembered for the next.
            self.places[name].set("net/ipv4/tcp_no_metrics_save", "1")
        for flow in self.flows:
            for key, value in flow.options.items():
                if key in KERNEL_KEYS:
                    parameter, on = KERNEL_KEYS[key]
                    for name in (flow.source, flow.target):
                        number = on if value == "on" else "0"
                        self.places[name].set(f"net/ipv4/{parameter}", number)
            if flow.options.get("quickack") == "on":
                acknowledge_all(self.places[flow.target], self.places[flow.source].address)
        checked = {id(self.places[f.source]): self.places[f.source] for f in self.flows if f.kernel}
        for place in checked.values():
            check_kernel([f for f in self.flows if self.places[f.source] is place], place)

    def _start_handlers(self, crew: Crew) -> dict[str, Started]:
        """`wifu core` wherever a handler of the scenario is."""
        started = {}
        for number, (name, place) in enumerate(self.places.items()):
            text = self._core(name, number)
            if not text:
                continue
            path = f"{place.scratch}/core-{name}.toml"
            place.run("sh", "-c", f"cat > {path}", text=text)
            words = ["--delay-dir", place.delay_dir] if place.delay_dir else []
            program = crew.start(place, place.program, "core", "--config", path, *words)
            started[name] = program
            crew.wait_for(program, "ready")
        return started

    def _core(self, name: str, number: int) -> str:
        rows = []
        for given in self.scenario.get("handler", []):
            if name not in (given.get("nodes") or [name]):
                continue
            row = {k: v for k, v in given.items() if k != "nodes"}
            rows += (
                [row]
                if row.get("protocol") != 6
                else [{**row, "protocol": p} for p in self._numbers()]
            )
        if not rows:
            return ""
        seed = int(self.scenario.get("seed", 1)) + int(self.scenario.get("run", 1))
        return toml.dumps({"core": {"node": number, "seed": seed}, "handler": rows})

    def _numbers(self) -> list[int]:
        """IP protocols of the flows: TCP's header stands behind other numbers than 6, live."""
        found = {6} if any(f.kernel for f in self.flows) else set()
        for flow in self.flows:
            if flow.protocol != "udp" and not flow.kernel:
                place = self.places[flow.source]
                listed = json.loads(
                    place.run(place.program, "list", "protocols", "--json", *self._files(place))
                )
                numbers = {p["name"]: int(p["number"]) for p in listed["protocols"]}
                found.add(numbers.get(flow.protocol.split(",")[0], 6))
        return sorted(found)

    def _files(self, place: Place) -> list[str]:
        """Options with the plan's files of compositions, which are written there."""
        words = []
        for number, text in enumerate(self.scenario.get("compositions", [])):
            path = f"{place.scratch}/compositions-{place.name}-{number}.toml"
            place.run("sh", "-c", f"cat > {path}", text=text)
            words += ["--file", path]
        return words

    def _start_daemons(self, crew: Crew) -> dict[str, Started]:
        """On the hosts of the ends; on all, if they serve something, and then gives them."""
        ours = [f for f in self.flows if not f.kernel and f.protocol != "udp"]
        served = self._served(ours)
        daemons = {}
        for name, place in self.places.items():
            if served or any(name in (f.source, f.target) for f in ours):
                words = ["--socket", place.door, *self._files(place), *served]
                words += ["--monitor", place.monitor] if served and place.monitor else []
                if served and place.delay_dir:
                    words += ["--delay-dir", f"wlan0={place.delay_dir}"]
                for device in place.devices if served else ():
                    words += ["--device", device]
                daemons[name] = crew.start(place, place.program, "daemon", *words)
        for daemon in daemons.values():
            crew.wait_for(daemon, "ready")
        return daemons if served else {}

    def _served(self, flows: Sequence[Flow]) -> list[str]:
        """Options for what these flows' compositions have to do on every host, or ask of it."""
        words = []
        for flow in {f.protocol.split(",")[0]: f for f in flows}.values():
            name, place = flow.protocol.split(",")[0], self.places[flow.source]
            text = place.run(place.program, "describe", name, "--json", *self._files(place))
            told = json.loads(text)
            if told["brings"]["handlers"] or told["brings"]["lane"] or told["requires"]:
                words += ["--serve", name]
        return words

    def _start_server(self, crew: Crew, flow: Flow) -> Started:
        place = self.places[flow.target]
        if flow.protocol == "udp":
            gap = arrived.RESOLUTION * self.dilation if arrived.wanted(self.scenario) else 0.0
            words = [place.python, "-c", _script(), "receive", str(flow.port), f"{gap:.6f}"]
            server = crew.start(place, *words)
            crew.wait_for(server, "ready")
            return server
        words = ["-s", "-1", "-p", str(flow.port), "--socket", place.door]
        if self._packets() is not None:
            words += ["-i", f"{arrived.PROGRESS:.3f}"]
        server = crew.start(place, place.program, "perf", *words)
        crew.wait_for(server, "Server listening")
        return server

    def _packets(self) -> int | None:
        found = self.scenario.get("stop", {}).get("packets")
        return None if found is None else int(found)

    def _start_clients(
        self, crew: Crew, begun: float
    ) -> tuple[dict[int, Started], dict[int, float]]:
        clients, starts = {}, {}
        for flow in sorted(self.flows, key=lambda f: f.start):
            crew.pause(max(0.0, begun + flow.start * self.dilation - time.monotonic()))
            starts[flow.id] = (time.monotonic() - begun) / self.dilation
            clients[flow.id] = crew.start(self.places[flow.source], *self._client(flow))
        return clients, starts

    def _client(self, flow: Flow) -> list[str]:
        place, to = self.places[flow.source], self.places[flow.target].address
        lasts = 0.0 if flow.end is None else max(flow.end - flow.start, 0.001) * self.dilation
        if flow.protocol == "udp":
            rate = (flow.rate or self.full_rate) / self.dilation
            payload = str(flow.size - HEADERS)
            amount = [payload, str(rate), str(flow.octets), str(0 if flow.octets else lasts)]
            return [place.python, "-c", _script(), "send", to, str(flow.port), *amount]
        protocol = KERNEL + flow.congestion if flow.kernel else flow.protocol
        words = ["-c", to, "-p", str(flow.port), "-C", protocol, "-J", "--socket", place.door]
        beside = self.control.get((flow.source, flow.target))
        words += ["--control-host", beside] if beside else []
        if flow.spec or arrived.wanted(self.scenario):
            words += ["--arrivals", f"{arrived.RESOLUTION * self.dilation:.4f}"]
        if flow.spec:
            left = None if flow.until is None else flow.until - flow.start
            words += apps_live.options(flow.spec, flow.stream, left, self.dilation)
        elif flow.octets:
            words += ["-n", str(flow.octets)]
        else:
            words += ["-t", str(FOREVER) if flow.end is None else f"{lasts:.3f}"]
        words += ["-w", flow.options["window"]] if "window" in flow.options else []
        words += ["-M", flow.options["mss"]] if "mss" in flow.options else []
        return [place.program, "perf", *words]

    def _await(
        self, crew: Crew, clients: Mapping[int, Started], servers: Mapping[int, Started],
        begun: float,
    ) -> set[int]:  # fmt: skip
        """Wait for the clients; those that the scenario cuts short are asked to end."""
        stop, cut = self._stop(), set[int]()
        datagrams = [f for f in self.flows if f.protocol == "udp"]
        late, packets = GRACE / self.dilation, self._packets()
        progress = None if packets is None else Progress(servers, self._sizes(), packets)
        while any(c.alive() for c in clients.values()):
            crew.check()
            now = (time.monotonic() - begun) / self.dilation
            if stop is not None and now >= stop:
                for flow in datagrams:  # what still lies in queues does not count
                    servers[flow.id].end()
            over = progress is not None and progress.reached()
            for flow in self.flows:
                client = clients[flow.id]
                if over and client.alive():
                    client.end()
                    cut.add(flow.id)
                if flow.end is None or not client.alive():
                    continue
                # Those that send for a time end by themselves, and then have to report.
                patience = 0.0 if flow.octets or flow.spec else late
                if flow.id not in cut and now > flow.end + patience:
                    client.end()
                    cut.add(flow.id)
                elif flow.id in cut and now > flow.end + 3 * late:
                    client.popen.kill()
            time.sleep(0.01)
        if datagrams:
            now = (time.monotonic() - begun) / self.dilation
            left = QUEUES if stop is None else min(QUEUES, stop - now)
            crew.pause(max(0.0, left * self.dilation))
        return cut

    def _timeouts(self) -> dict[str, int]:
        """Retransmission timeouts so far of kernels that send just one flow."""
        kernel = [f.source for f in self.flows if f.kernel]
        return {
            name: reports.counter(self.places[name].run("cat", "/proc/net/netstat"), "TCPTimeouts")
            for name in kernel
            if kernel.count(name) == 1
        }

    def _told(
        self, flow: Flow, client: Started, server: Started, start: float, begun: float, cut: bool
    ) -> dict[str, Any]:
        row: dict[str, Any] = {
            "id": flow.id, "from": flow.source, "to": flow.target, "protocol": flow.protocol,
            "app": flow.app, "start_s": start, "bytes": 0, "finished": False, "fault": None,
        }  # fmt: skip
        if flow.protocol == "udp":
            server.stop()
            return row | self._datagrams(flow, client, server, begun)
        try:
            report = json.loads(client.output())
        except json.JSONDecodeError:
            raise RunError(f"flow {flow.id}: no report: {client.said()}") from None
        for end in report.get("start", {}).get("connected", [])[:1]:
            local, remote = (f"{end[f'{e}_host']}:{end[f'{e}_port']}" for e in ("local", "remote"))
            self.ends[flow.id] = (local, remote)
        if "error" in report and not cut:
            raise RunError(f"flow {flow.id}, {flow.protocol}: {report['error']}")
        return row | self._stream(flow, report, start, begun, cut)

    def _zero(self, flow: Flow, report: Mapping[str, Any], start: float, begun: float) -> float:
        """When the client's test began; another machine's clock has another zero."""
        if self.places[flow.source].remote:
            return start
        return (float(report["wifu"]["monotonic_s"]) - begun) / self.dilation

    def _sizes(self) -> dict[int, int | None]:
        """Octets of full segments, of flows for which the plan says it."""
        asked = {f.id: f.options.get("mss") for f in self.flows}
        return {number: None if mss is None else int(mss) for number, mss in asked.items()}

    def _stream(
        self, flow: Flow, report: Mapping[str, Any], start: float, begun: float, cut: bool
    ) -> dict[str, Any]:
        rows = report.get("end", {}).get("streams") or [{}]
        stream, slower = rows[0], self.dilation
        own, receiver, sender = (stream.get(k) or {} for k in ("wifu", "receiver", "sender"))
        if cut and not receiver:
            raise RunError(f"flow {flow.id}: stopped by the clock, and the receiver did not report")
        connected = start + float(own.get("connect_s") or 0.0) / slower
        got = int(receiver.get("bytes") or 0)
        out: dict[str, Any] = {
            "connected_s": connected,
            "bytes": got,
            "finished": not cut and (got == flow.octets if flow.octets else flow.ends),
        }
        for ours, theirs in (("first_byte_s", "first_byte_s"), ("last_byte_s", "last_byte_s")):
            if own.get(theirs) is not None:
                out[ours] = connected + float(own[theirs]) / slower
        out["finished"] = out["finished"] and "last_byte_s" in out
        if "retransmits" in sender:
            out["retransmissions"] = int(sender["retransmits"])
        zero = self._zero(flow, report, start, begun)
        if flow.spec:
            out |= apps_live.told(report, zero, slower)
            for key in ("first_byte_s", "last_byte_s"):
                out.pop(key, None)
                if own.get(key) is not None:
                    out[key] = zero + float(own[key]) / slower
        if own.get("arrivals") is not None:
            size = apps_live.segment(report, self._sizes()[flow.id])
            out["arrived"] = Arrived.of(own["arrivals"], zero, slower, size)
        last = reports.last_interval(report)
        if last.get("rtt"):
            # The smallest one of all is not known: what is reported is sampled.
            out["srtt_s"] = float(last["rtt"]) / 1e6 / slower
        if last.get("snd_cwnd"):
            out["cwnd"] = int(last["snd_cwnd"])
        return out

    def _datagrams(
        self, flow: Flow, client: Started, server: Started, begun: float
    ) -> dict[str, Any]:
        try:
            sent = json.loads(client.output())
            got = json.loads(server.output().splitlines()[-1])
        except (json.JSONDecodeError, IndexError):
            said = f"{client.said()}\n{server.said()}"
            raise RunError(f"flow {flow.id}: no report: {said}") from None
        zero, start = begun, (sent["begun"] - begun) / self.dilation
        if self.places[flow.source].remote or self.places[flow.target].remote:
            # Another machine's clock has another zero.
            start = flow.start
            zero = (got["first"] or 0.0) - start * self.dilation
        out: dict[str, Any] = {
            "start_s": start,
            "bytes": got["bytes"],
            "datagrams_sent": sent["packets"],
        }
        for ours, theirs in (("first_byte_s", "first"), ("last_byte_s", "last")):
            if got[theirs] is not None:
                out[ours] = (got[theirs] - zero) / self.dilation
        if "arrivals" in got:
            points = [(t - zero, octets) for t, octets in got["arrivals"]]
            out["arrived"] = Arrived.of(points, 0.0, self.dilation, flow.size - HEADERS)
        whole = got["packets"] == sent["packets"]
        return {**out, "finished": flow.ends and whole and "last_byte_s" in out}


def _goodput(row: Mapping[str, Any], seconds: float) -> float:
    end = row["last_byte_s"] if row["finished"] else seconds
    span = end - row["start_s"]
    return row["bytes"] * 8.0 / span if span > 0 else 0.0


def _script() -> str:
    return (resources.files("wifu") / "datagrams.py").read_text()
