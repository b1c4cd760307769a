"""Flows of a scenario, really run between hosts: their daemons, servers, clients and handlers.

What comes out has the simulator's shape, as far as a real transport can know it. What it cannot
know is left out, so that metrics which need it are absent, not zero.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wifu import absent, apps_live, arrived, lacks, relays, reports, toml, udp, values
from wifu.apps_live import FOREVER
from wifu.arrived import Arrived, End, Progress
from wifu.clients import Clients
from wifu.errors import RunError
from wifu.flows import KERNEL, KERNEL_KEYS, Flow, Scenario, flows_of
from wifu.kernels import acknowledge_all, check_kernel
from wifu.places import Crew, Place, Started

QUEUES = 2.0
"""Seconds of model time for datagrams to come out of queues once nobody sends any more."""

SOON = 0.1
"""Seconds of the wall's clock after which the flows' time begins, once all are ready for it."""


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
        self.flows = flows_of(scenario)
        self.emulated = False
        """Whether hosts have emulated radios, of which `wifu check` says what they tell."""
        self.less: list[str] = []
        """What protocols know less of there than in the simulator."""
        self.host = "off"
        """What packets cost the hosts of daemons (`host.profile`)."""
        self.lanes = scenario.get("host", {}).get("lanes", "drr")
        """How lanes share the links of the hosts of daemons (`host.lanes`)."""
        self.idle = {f.id for f in self.flows if not self._begins(f)}
        """Flows that would start only after the run or after their own end: nothing is started for
        them."""
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
        before = self._counts()
        for prepare in self.prepares:
            prepare(crew)
        clients = self._start_clients(crew)
        begun = clients.begun
        self._await(crew, clients, servers)
        told = [
            self._told(f, clients, servers[f.id]) if f.id in clients.programs else self._idle(f)
            for f in self.flows
        ]
        found = [row.pop("arrived", None) for row in told]
        delays = [row.pop("delays", None) for row in told]
        offered = [row.pop("offered", None) for row in told]
        self._await_idle(crew, found, begun)
        lasted = (time.monotonic() - begun) / self.dilation
        for over in self.overs:
            over()
        after = self._counts()
        seconds, end = self._ended(told, found, lasted)
        for flow, row, series in zip(self.flows, told, found, strict=True):
            # In the simulator, too, what has not started when the run ends starts then.
            start = row["start_s"]
            row["start_s"] = seconds if start is None else min(start, seconds)
            row["goodput_bps"] = _goodput(row, seconds)
            if late := arrived.outlasted(flow, row, series):
                row["outlasted"] = late
            counts = before.get(flow.source, {}) if flow.kernel and flow.app != "request" else {}
            for key, count in counts.items():
                row.setdefault(key, after[flow.source][key] - count)
        for handler in handlers.values():
            if not handler.alive():
                raise RunError(f"wifu core ended: {handler.said()}")
        for daemon in serving.values():
            if not daemon.alive():
                raise RunError(f"wifu daemon ended: {daemon.said()}")
        core = {name: reports.core(program) for name, program in handlers.items()}
        daemons = {name: reports.counted(program) for name, program in serving.items()}
        for flow, row in zip(self.flows, told, strict=True):
            name = flow.protocol.split(",")[0]
            ends = [daemons.get(n, {}).get("unserved", {}) for n in (flow.source, flow.target)]
            if unserved := sum(end.get(name, 0) for end in ends):
                row["unserved"] = unserved
                if at := relays.idle(self.places, flow, daemons):
                    row["unserved_at"] = at
        outcome: dict[str, Any] = {
            "sim_seconds": seconds, "end": end, "flows": told, "core": core, "daemons": daemons,
            "absent": absent.words(self.flows, told),
        }  # fmt: skip
        warnings = [*reports.dropped(daemons), *relays.unpassed(self.flows, told), *self.less]
        if warnings:
            outcome["warnings"] = warnings
        outcome = arrived.measured(outcome, found, self.scenario, offered)
        outcome["series"] |= arrived.transits(told, delays, self.scenario, seconds)
        return outcome

    def _ended(
        self, told: Sequence[dict[str, Any]], found: Sequence[Arrived | None], lasted: float
    ) -> tuple[float, str]:
        """When it ended and why; what came later is left out of what is told."""
        end = arrived.end_of(self.scenario, found, lasted) or End(lasted, "time")
        rows = list(zip(self.flows, told, found, strict=True))
        for _, row, series in rows:
            arrived.cut(row, series, end.seconds)
        over = [self._over(flow, row) for flow, row, _ in rows]
        if end.why != "packets":
            end = self._done(over, end.seconds)
        for flow, row, series in rows:
            if not flow.finite:  # those that are were over by then
                arrived.cut(row, series, end.seconds)
        return end.seconds, end.why

    def _done(self, over: Sequence[float | None], lasted: float) -> End:
        """The end of a run in which flows came to these ends, and which lasted so long at most."""
        finite = [at for flow, at in zip(self.flows, over, strict=True) if flow.finite]
        done = [at for at in finite if at is not None and at <= lasted]
        return End(max(done), "done") if done and done == finite else End(lasted, "time")

    def _over(self, flow: Flow, row: dict[str, Any]) -> float | None:
        """When a flow came to its own end; none if it did not."""
        if flow.id in self.idle:
            return flow.until if flow.closes else None
        known: float | None = row.pop("over_s", None)
        ended: float = row.get("last_byte_s", row["start_s"])
        return ended if known is None and row["finished"] else known

    def _begins(self, flow: Flow) -> bool:
        """Whether it starts before the run ends, and before its own end."""
        return all(end is None or flow.start < end for end in (flow.until, self._stop()))

    def _stop(self) -> float | None:
        time_ = self.scenario.get("stop", {}).get("time")
        return None if time_ is None else values.seconds(time_)

    def _going(self) -> list[Flow]:
        """Flows that begin."""
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
            words += self._files(place)
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
            if isinstance(named := row.get("protocol"), str):
                row["protocol"] = self._as_run(named)
            rows += (
                [row]
                if row.get("protocol") != 6
                else [{**row, "protocol": p} for p in self._numbers()]
            )
        if not rows:
            return ""
        seed = int(self.scenario.get("seed", 1)) + int(self.scenario.get("run", 1))
        return toml.dumps({"core": {"node": number, "seed": seed}, "handler": rows})

    def _as_run(self, protocol: str) -> str:
        """A protocol named by a handler, with the parameters that a flow gives it: some change its
        header."""
        ours = (f.protocol for f in self.flows if not f.kernel)
        return next((p for p in ours if p.split(",")[0] == protocol), protocol)

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
        """On the hosts of the ends; on all, if they serve something, but those that are left out.
        Gives those that count."""
        ours = [f for f in self.flows if not f.kernel and f.protocol != "udp"]
        served, idle = self._served(ours), relays.left_out(self.scenario)
        daemons = {}
        for name, place in ((n, p) for n, p in self.places.items() if n not in idle):
            if served or any(name in (f.source, f.target) for f in ours):
                words = ["--socket", place.door, *self._files(place), *served]
                words += ["--monitor", place.monitor] if served and place.monitor else []
                if served and place.delay_dir:
                    words += ["--delay-dir", f"wlan0={place.delay_dir}"]
                for device in place.devices if served else ():
                    words += ["--device", device]
                if self.lanes != "drr":
                    words += ["--lanes", self.lanes]
                if self.host != "off":
                    words += ["--host-profile", self.host, "--host-slower", str(self.dilation)]
                daemons[name] = crew.start(place, place.program, "daemon", *words)
        for daemon in daemons.values():
            crew.wait_for(daemon, "ready")
        return daemons if served or self.host != "off" else {}

    def _served(self, flows: Sequence[Flow]) -> list[str]:
        """Options for what these flows' compositions have to do on every host, or ask of it: with
        their parameters, some of which are of handlers and lanes. What they prefer to know of the
        radio is told by a daemon that serves, too.
        """
        words = []
        for name, flow in {f.protocol: f for f in flows}.items():
            place = self.places[flow.source]
            text = place.run(place.program, "describe", name, "--json", *self._files(place))
            told = json.loads(text)
            prefers = bool(told.get("prefers"))
            if self.emulated and prefers:
                asked = ("check", name, "--substrate", "emu", "--json", *self._files(place))
                less = lacks.sentence(name, place.run(place.program, *asked))
                self.less += [less] if less else []
            brings = told["brings"]["handlers"] or told["brings"]["lane"]
            if brings or told["requires"] or prefers:
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
        words += ["--control-timeout", self._patience()]
        if self._packets() is not None:
            words += ["-i", f"{arrived.PROGRESS:.3f}"]
        server = crew.start(place, place.program, "perf", *words)
        crew.wait_for(server, "Server listening")
        return server

    def _patience(self) -> str:
        """Milliseconds that an end waits for the other, which may be waiting for the network."""
        return str(round(apps_live.PATIENCE * self.dilation * 1000) + 10_000)

    def _packets(self) -> int | None:
        found = self.scenario.get("stop", {}).get("packets")
        return None if found is None else int(found)

    def _start_clients(self, crew: Crew) -> Clients:
        """Begin. Senders of datagrams are ready before; the others are started in their time."""
        ready = [f for f in self._going() if f.protocol == "udp" and not self._far(f)]
        programs = {f.id: crew.start(self.places[f.source], *self._client(f)) for f in ready}
        for client in programs.values():
            crew.wait_for(client, "ready")
        begun = time.monotonic() + (SOON if ready else 0.0)
        for flow in ready:
            udp.begin(flow, self.places[flow.source], begun + flow.start * self.dilation)
        crew.pause(begun - time.monotonic())
        for begin in self.begins:
            begin()
        others = [f for f in self._going() if f.id not in programs]
        waiting = sorted(others, key=lambda f: f.start)
        return Clients(begun, self.dilation, programs, {f.id: f.start for f in ready}, waiting)

    def _far(self, flow: Flow) -> bool:
        """Whether an end of it is another machine, whose clock is not ours."""
        return self.places[flow.source].remote or self.places[flow.target].remote

    def _client(self, flow: Flow) -> list[str]:
        place, to = self.places[flow.source], self.places[flow.target].address
        lasts = 0.0 if flow.end is None else (flow.end - flow.start) * self.dilation
        if flow.protocol == "udp":
            points = arrived.offers(self.scenario)
            return udp.sender(flow, place, to, self.full_rate, self.dilation, points)
        protocol = KERNEL + flow.congestion if flow.kernel else flow.protocol
        words = ["-c", to, "-p", str(flow.port), "-C", protocol, "-J", "--socket", place.door]
        beside = self.control.get((flow.source, flow.target))
        words += ["--control-host", beside] if beside else []
        words += ["--arrivals", f"{arrived.RESOLUTION * self.dilation:.4f}"]
        if flow.spec:
            left = None if flow.until is None else flow.until - flow.start
            words += apps_live.options(flow.spec, flow.stream, left, self.dilation)
        elif flow.octets:
            words += ["-n", str(flow.octets)]
        else:
            words += ["-t", str(FOREVER) if flow.end is None else f"{lasts:.9f}"]
        words += ["--connect-timeout", str(round(apps_live.PATIENCE * self.dilation * 1000))]
        words += ["--control-timeout", self._patience()]
        words += ["-w", flow.options["window"]] if "window" in flow.options else []
        words += ["-M", flow.options["mss"]] if "mss" in flow.options else []
        return [place.program, "perf", *words]

    def _await(self, crew: Crew, clients: Clients, servers: Mapping[int, Started]) -> None:
        """Start clients and wait for them; those that the run's end cuts short are asked to end."""
        packets, progress = self._packets(), None
        if packets is not None:
            answers = {f.id: apps_live.answer(f.spec) for f in self.flows if f.app == "request"}
            progress = Progress(servers, self._sizes(), packets, answers)
        over = False
        while clients.going_on():
            crew.check()
            while (flow := clients.due()) is not None:
                place = self.places[flow.source]
                clients.add(flow, crew.start(place, *self._client(flow)))
            over = over or (progress.reached() if progress else self._all_over(clients))
            for flow in self._going():
                clients.ended(flow)  # seen now, as its fault's time may be
                if over:
                    clients.end(flow)
                clients.cut_short(flow)
            clients.pause()
        if not over and any(f.protocol == "udp" for f in self._going()):
            stop = self._stop()
            left = QUEUES if stop is None else min(QUEUES, stop - clients.now())
            crew.pause(left * self.dilation)

    def _all_over(self, clients: Clients) -> bool:
        """Whether all flows are over that come to an end by themselves: it is the run's end."""
        finite = [f for f in self.flows if f.finite]
        return bool(finite) and all(clients.now() >= self._end_of(f, clients) for f in finite)

    def _end_of(self, flow: Flow, clients: Clients) -> float:
        """When a flow is over, in seconds of the run, as far as it can be seen by now."""
        if flow.id in self.idle:
            return flow.until if flow.closes and flow.until is not None else math.inf
        # Its last datagrams may still be in queues.
        return clients.ended(flow) + (QUEUES if flow.protocol == "udp" else 0.0)

    def _await_idle(self, crew: Crew, found: Sequence[Arrived | None], begun: float) -> None:
        """Wait for the ends of flows that never begin, if the run does not end before them: it has
        its packets, or flows that come to an end by themselves, and these do not.
        """
        packets, known = self._packets(), [a for a in found if a is not None]
        if packets is not None and arrived.packets_end(known, packets) is not None:
            return
        finite = any(f.finite for f in self.flows)
        idle = [f for f in self.flows if f.id in self.idle and f.finite == finite]
        ends = [f.until if f.closes else self._stop() for f in idle]
        last = max((end for end in ends if end is not None), default=0.0)
        crew.pause(begun + last * self.dilation - time.monotonic())

    def _counts(self) -> dict[str, dict[str, int]]:
        """What kernels that send just one flow have counted so far of all their connections: they
        do not count it by connection; timeouts they do, from Linux 6.7 on."""
        kernel = [f.source for f in self.flows if f.kernel]
        return {
            name: reports.recoveries(self.places[name].run("cat", "/proc/net/netstat"))
            for name in kernel
            if kernel.count(name) == 1
        }

    def _row(self, flow: Flow, start: float | None) -> dict[str, Any]:
        return {
            "id": flow.id, "from": flow.source, "to": flow.target, "protocol": flow.protocol,
            "app": flow.app, "start_s": start, "bytes": 0, "finished": False, "fault": None,
        }  # fmt: skip

    def _idle(self, flow: Flow) -> dict[str, Any]:
        """A flow that never started."""
        row = self._row(flow, None)
        row["arrived"] = Arrived.of([], 0.0, 1.0, None, [])
        return row | ({"datagrams_sent": 0, "sent_bytes": 0} if flow.protocol == "udp" else {})

    def _told(self, flow: Flow, clients: Clients, server: Started) -> dict[str, Any]:
        client, begun, cut = clients.programs[flow.id], clients.begun, flow.id in clients.cut
        start = clients.starts[flow.id]
        row = self._row(flow, start)
        if flow.protocol == "udp":
            server.stop()
            far = self._far(flow)
            return row | udp.told(flow, client, server, begun, self.dilation, far, cut)
        if cut and not client.output():  # it was asked to end before it had begun
            return self._idle(flow) | {"start_s": start}
        try:
            report = json.loads(client.output())
        except json.JSONDecodeError:
            raise RunError(f"flow {flow.id}: no report: {client.said()}") from None
        for end in report.get("start", {}).get("connected", [])[:1]:
            local, remote = (f"{end[f'{e}_host']}:{end[f'{e}_port']}" for e in ("local", "remote"))
            self.ends[flow.id] = (local, remote)
        if flow.spec:
            self.ends[flow.id] = ("", f"{self.places[flow.target].address}:{flow.port + 1}")
        if fault := report.get("wifu", {}).get("fault"):
            at = clients.ended(flow)
            return self._idle(flow) | {
                "start_s": start,
                "fault": fault,
                "fault_s": at,
                "over_s": at,
            }
        if "error" in report and not cut:
            raise RunError(f"flow {flow.id}, {flow.protocol}: {report['error']}")
        return row | self._stream(flow, report, start, begun, cut)

    def _zero(
        self, flow: Flow, report: Mapping[str, Any], start: float, begun: float, connecting: float
    ) -> float:
        """When the client's test began, which was once it was connected, unless it is that of an
        application. Another machine's clock has another zero.
        """
        if self.places[flow.source].remote:
            return start if flow.spec else start + connecting
        return (float(report["wifu"]["monotonic_s"]) - begun) / self.dilation

    def _heard(self, flow: Flow, own: Mapping[str, Any], zero: float, begun: float) -> float:
        """When the receiver began to count: on a loaded host that is not when the sender began.
        Another machine's clock has another zero.
        """
        if self._far(flow) or own.get("monotonic_s") is None:
            return zero
        return (float(own["monotonic_s"]) - begun) / self.dilation

    def _sizes(self) -> dict[int, int | None]:
        """Bytes of full segments, of flows for which the plan says it."""
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
        connecting = float(own.get("connect_s") or 0.0) / slower
        zero = self._zero(flow, report, start, begun, connecting)
        heard = self._heard(flow, own, zero, begun)
        got = int(receiver.get("bytes") or 0)
        out: dict[str, Any] = {
            "start_s": zero - connecting,
            "connected_s": zero,
            "bytes": got,
            "finished": bool(flow.octets) and got == flow.octets,
        }
        for key in ("first_byte_s", "last_byte_s"):
            if own.get(key) is not None:
                out[key] = heard + float(own[key]) / slower
        out["finished"] = out["finished"] and "last_byte_s" in out
        if own.get("corrupt") is not None:
            out["corrupt"] = int(own["corrupt"])
        if "retransmits" in sender:
            out["retransmissions"] = int(sender["retransmits"])
        out |= apps_live.counted(own, slower)
        if flow.spec:
            whole = out["finished"]
            del out["connected_s"]
            out |= apps_live.told(report, zero, slower)
            out["finished"] = out["finished"] or whole
        if own.get("arrivals") is not None:
            size = apps_live.segment(report, self._sizes()[flow.id])
            out["arrived"] = Arrived.of(own["arrivals"], heard, slower, size)
        last = reports.last_interval(report)
        if last.get("rtt"):
            out["srtt_s"] = float(last["rtt"]) / 1e6 / slower
        if last.get("snd_cwnd"):
            out["cwnd"] = int(last["snd_cwnd"])
        return absent.without(flow, out)


def _goodput(row: Mapping[str, Any], seconds: float) -> float:
    end = row["last_byte_s"] if row["finished"] else seconds
    span = end - row["start_s"]
    return row["bytes"] * 8.0 / span if span > 0 else 0.0
