"""Wires between namespaces that are cut and restored while a scenario runs on `live`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from wifu import values
from wifu.errors import LabError, RunError
from wifu.flows import Scenario

PLACE = ("pref", "7")
"""Where our filter stands among those of a device."""

STEAL = "1,6 0 0 4"
"""Classic BPF: every packet is taken, as by a wire that leads nowhere (TC_ACT_STOLEN)."""


@dataclass(frozen=True)
class Event:
    """A wire is cut, or restored; seconds from the beginning."""

    at: float
    a: str
    b: str
    cut: bool


def events_of(scenario: Scenario) -> list[Event]:
    """In order of time. That they mean something, the simulator's check has told."""
    found = []
    for n, given in enumerate(scenario.get("event", []), 1):
        try:
            cut = "cut" in given
            a, b = given["cut" if cut else "restore"]
            found.append(Event(values.seconds(given["at"]), str(a), str(b), cut))
        except (LabError, KeyError, ValueError, TypeError) as e:
            raise ValueError(f"event.{n}: {e}") from None
    return sorted(found, key=lambda e: e.at)


Command = Callable[..., str]


class Cuts:
    """Plays the events of one run against the clock, by a thread of its own."""

    def __init__(
        self, events: Sequence[Event], ends: Mapping[tuple[str, str], Sequence[str]],
        run: Command, route: Callable[[set[tuple[str, str]]], None],
    ) -> None:  # fmt: skip
        """`ends`: the devices at the first of two hosts that lead to the second; `run(HOST,
        WORDS...)` runs a command there; `route` lays routes over all wires but those between these.
        """
        self.events, self.ends, self.run, self.route = list(events), ends, run, route
        self._cut: set[tuple[str, str]] = set()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def prepare(self) -> None:
        """Make all devices ready; RunError if this kernel cannot cut them."""
        for event in self.events:
            for host, device in self._devices(event):
                self.run(host, "tc", "qdisc", "replace", "dev", device, "clsact")
                self._filter(host, device, True)
                self._filter(host, device, False)

    def begin(self) -> None:
        """The run begins now."""
        self._thread = threading.Thread(target=self._play, args=(time.monotonic(),), daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Nothing more happens. RunError if something could not be done."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise RunError(f"a wire could not be cut or restored: {self._error}")

    def _play(self, begun: float) -> None:
        # Routes follow at full seconds, as in the simulator.
        laid = {float(ceil(e.at)) for e in self.events}
        steps = sorted([(e.at, 0, e) for e in self.events] + [(at, 1, None) for at in laid],
                       key=lambda s: s[:2])  # fmt: skip
        try:
            for at, _, event in steps:
                if self._ended.wait(max(0.0, begun + at - time.monotonic())):
                    return
                if event is None:
                    self.route(set(self._cut))
                    continue
                for host, device in self._devices(event):
                    self._filter(host, device, event.cut)
                pair = (min(event.a, event.b), max(event.a, event.b))
                (self._cut.add if event.cut else self._cut.discard)(pair)
        except Exception as e:
            self._error = e

    def _devices(self, event: Event) -> list[tuple[str, str]]:
        pairs = ((event.a, event.b), (event.b, event.a))
        return [(a, device) for a, b in pairs for device in self.ends.get((a, b), ())]

    def _filter(self, host: str, device: str, cut: bool) -> None:
        words = ["tc", "filter", "add" if cut else "del", "dev", device, "egress", *PLACE]
        # Only IP: what hosts know of their neighbours stays, as in the simulator.
        more = ["protocol", "ip", "bpf", "da", "bytecode", STEAL] if cut else []
        self.run(host, *words, *more)
