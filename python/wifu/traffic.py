"""Flows of a scenario, really run between hosts: their daemons, servers, clients and handlers.

What comes out has the simulator's shape, as far as a real transport can know it. What it cannot
know is left out, so that metrics which need it are absent, not zero.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wifu import apps_live, arrived, reports, toml, udp, values
from wifu.apps_live import FOREVER
from wifu.arrived import Arrived, Progress
from wifu.errors import RunError
from wifu.flows import KERNEL, KERNEL_KEYS, Flow, Scenario, flows_of
from wifu.kernels import acknowledge_all, check_kernel
from wifu.places import Crew, Place, Started

GRACE = 5.0
"""Seconds of the wall's clock after the end, in which clients report."""

QUEUES = 2.0
"""Seconds of model time for datagrams to come out of queues once nobody sends any more."""


class Traffic:
    """The flows of one run between places."""

    def __init__(
        self, places: Mapping[str, Place], scenario: Scenario, dilation: float = 1.0,
        control: Mapping[tuple[str, str], str] | None = None, full_rate: float = 60e6,
    ) -> None:  # fmt: skip
        """`control`: for two hosts, the address under which the second is reached beside what is
        measured. `full_rate`: what saturates a host, bit/s.
        """
        self.scenario, self.places, self.dilation = scenario, places, dilation
        self.control, self.full_rate = control or {}, full_rate
        self.flows, stop = flows_of(scenario), self._stop()
        self.host = "off"
        """What packets cost the hosts of daemons (`host.profile`)."""
        self.idle = {f.id for f in self.flows if stop is not None and f.start >= stop}
        """Flows that would start only after the run: nothing is started for them."""
        self.prepares: list[Callable[[Crew], None]] = []
        self.begins: list[Callable[[], None]] = []
        self.overs: list[Callable[[], None]] = []
        """What else is to be made ready, to begin and to end with the flows."""
        self.ends: dict[int, tuple[str, str]] = {}
        """Addresses and ports of the sender and the receiver of each flow, once it has ended. That
        of a sender is empty whose connections come and go."""
        for flow in self.flows:
            for name in (flow.source, flow.target):
                if name not in places:
                    raise RunError(f"flow {flow.id}: no host is called {name}")

    def run(self, crew: Crew) -> dict[str, Any]:
        """Run them to their ends; the outcome's keys `flows`, `sim_seconds`, `end`."""
        self._settle()
        handlers = self._start_handlers(crew)
        serving = self._start_daemons(crew)
        servers = {f.id: self._start_server(crew, f) for f in self._going()}
        before = self._timeouts()
        for prepare in self.prepares:
            prepare(crew)
        begun = time.monotonic()
        for begin in self.begins:
            begin()
        clients, starts = self._start_clients(crew, begun)
        cut = self._await(crew, clients, servers, begun)
        lasted = (time.monotonic() - begun) / self.dilation
        for over in self.overs:
            over()
        after = self._timeouts()
        told = [
            self._idle(f) if f.id in self.idle else
            self._told(f, clients[f.id], servers[f.id], starts[f.id], begun, f.id in cut)
            for f in self.flows
        ]  # fmt: skip
        found = [row.pop("arrived", None) for row in told]
        offered = [row.pop("offered", None) for row in told]
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
        return arrived.measured(outcome, found, self.scenario, offered)

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

    def _going(self) -> list[Flow]:
        """Flows that start before the run ends."""
        return [f for f in self.flows if f.id not in self.idle]

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
        """On the hosts of the ends; on all, if they serve something. Gives those that count."""
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
                if self.host != "off":
                    words += ["--host-profile", self.host, "--host-slower", str(self.dilation)]
                daemons[name] = crew.start(place, place.program, "daemon", *words)
        for daemon in daemons.values():
            crew.wait_for(daemon, "ready")
        return daemons if served or self.host != "off" else {}

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
            limit = crew.deadline - time.monotonic()
            udp.prepare(flow, self.places[flow.source], self.dilation, limit)
            words = udp.receiver(flow, place, self.scenario, self.dilation)
            server = crew.start(place, *words)
            crew.wait_for(server, "ready")
            return server
        words = ["-s", "-1", "-p", str(flow.port), "--socket", place.door]
        words += ["--data-port", str(flow.port + 1)] if flow.spec else []
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
        for flow in sorted(self._going(), key=lambda f: f.start):
            crew.pause(max(0.0, begun + flow.start * self.dilation - time.monotonic()))
            starts[flow.id] = (time.monotonic() - begun) / self.dilation
            clients[flow.id] = crew.start(self.places[flow.source], *self._client(flow))
        return clients, starts

    def _client(self, flow: Flow) -> list[str]:
        place, to = self.places[flow.source], self.places[flow.target].address
        lasts = 0.0 if flow.end is None else max(flow.end - flow.start, 0.001) * self.dilation
        if flow.protocol == "udp":
            points = arrived.offers(self.scenario)
            return udp.sender(flow, place, to, self.full_rate, self.dilation, points)
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
        datagrams = [f for f in self._going() if f.protocol == "udp"]
        late, packets = GRACE / self.dilation, self._packets()
        answers = {f.id: apps_live.answer(f.spec) for f in self.flows if f.app == "request"}
        progress = None
        if packets is not None:
            progress = Progress(servers, self._sizes(), packets, answers)
        counted = False
        while any(c.alive() for c in clients.values()):
            crew.check()
            now = (time.monotonic() - begun) / self.dilation
            if stop is not None and now >= stop:
                for flow in datagrams:  # what still lies in queues does not count
                    servers[flow.id].end()
            counted = counted or (progress is not None and progress.reached())
            for flow in self._going():
                client = clients[flow.id]
                if counted and client.alive():
                    client.end()
                    cut.add(flow.id)
                if flow.end is None or not client.alive():
                    continue
                # Those that send for a time, and all that send datagrams, began a moment late,
                # end as much later by themselves, and then have to report.
                timed = flow.protocol == "udp" or not (flow.octets or flow.spec)
                patience = late if timed else 0.0
                if flow.id not in cut and now > flow.end + patience:
                    client.end()
                    cut.add(flow.id)
                elif flow.id in cut and now > flow.end + 3 * late:
                    client.popen.kill()
            time.sleep(0.01)
        if datagrams and not counted:
            now = (time.monotonic() - begun) / self.dilation
            left = QUEUES if stop is None else min(QUEUES, stop - now)
            crew.pause(max(0.0, left * self.dilation))
        if self.idle and stop is not None:
            crew.pause(max(0.0, begun + stop * self.dilation - time.monotonic()))
        return cut

    def _timeouts(self) -> dict[str, int]:
        """Retransmission timeouts so far of kernels that send just one flow."""
        kernel = [f.source for f in self.flows if f.kernel]
        return {
            name: reports.counter(self.places[name].run("cat", "/proc/net/netstat"), "TCPTimeouts")
            for name in kernel
            if kernel.count(name) == 1
        }

    def _row(self, flow: Flow, start: float | None) -> dict[str, Any]:
        return {
            "id": flow.id, "from": flow.source, "to": flow.target, "protocol": flow.protocol,
            "app": flow.app, "start_s": start, "bytes": 0, "finished": False, "fault": None,
        }  # fmt: skip

    def _idle(self, flow: Flow) -> dict[str, Any]:
        """A flow that never started; in the simulator it starts when the run ends, too."""
        row = self._row(flow, self._stop())
        if arrived.wanted(self.scenario):
            row["arrived"] = Arrived.of([], 0.0, 1.0, None, [])
        return row | ({"datagrams_sent": 0} if flow.protocol == "udp" else {})

    def _told(
        self, flow: Flow, client: Started, server: Started, start: float, begun: float, cut: bool
    ) -> dict[str, Any]:
        row = self._row(flow, start)
        if flow.protocol == "udp":
            server.stop()
            far = self.places[flow.source].remote or self.places[flow.target].remote
            return row | udp.told(flow, client, server, begun, self.dilation, far, cut)
        try:
            report = json.loads(client.output())
        except json.JSONDecodeError:
            raise RunError(f"flow {flow.id}: no report: {client.said()}") from None
        for end in report.get("start", {}).get("connected", [])[:1]:
            local, remote = (f"{end[f'{e}_host']}:{end[f'{e}_port']}" for e in ("local", "remote"))
            self.ends[flow.id] = (local, remote)
        if flow.spec:
            self.ends[flow.id] = ("", f"{self.places[flow.target].address}:{flow.port + 1}")
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


def _goodput(row: Mapping[str, Any], seconds: float) -> float:
    end = row["last_byte_s"] if row["finished"] else seconds
    span = end - row["start_s"]
    return row["bytes"] * 8.0 / span if span > 0 else 0.0
