"""Clients of the flows of one run: which of them run, since when, and which were asked to end."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from wifu.flows import Flow
from wifu.places import Started

GRACE = 5.0
"""Seconds of the wall's clock after the end, in which clients report."""

LOOK = 0.01
"""Seconds of the wall's clock between two looks at clients."""


@dataclass
class Clients:
    """`begun`: when the flows' time began, by time.monotonic(); it passes `slower` times slower.

    `programs` by flow, and `starts`: when they were started, in seconds of the run. `waiting`:
    flows whose client is to be started, the first one first. `cut`: flows whose client was asked to
    end.
    """

    begun: float
    slower: float
    programs: dict[int, Started]
    starts: dict[int, float]
    waiting: list[Flow]
    cut: set[int] = field(default_factory=set)
    _ended: dict[int, float] = field(default_factory=dict)

    def now(self) -> float:
        """Seconds of the run."""
        return (time.monotonic() - self.begun) / self.slower

    def due(self) -> Flow | None:
        """The next flow whose client is to be started now; it waits no more."""
        if not self.waiting or self.now() < self.waiting[0].start:
            return None
        return self.waiting.pop(0)

    def add(self, flow: Flow, program: Started) -> None:
        """A client is started."""
        self.starts[flow.id], self.programs[flow.id] = self.now(), program

    def going_on(self) -> bool:
        """Whether some run or wait."""
        return bool(self.waiting) or any(p.alive() for p in self.programs.values())

    def ended(self, flow: Flow) -> float:
        """When it was first seen that a flow's client had ended; infinite until then."""
        program = self.programs.get(flow.id)
        if program is None or program.alive():
            return math.inf
        return self._ended.setdefault(flow.id, self.now())

    def end(self, flow: Flow) -> None:
        """Ask a flow's client to end, if it runs; a flow that waits never begins."""
        if flow in self.waiting:
            self.waiting.remove(flow)
        program = self.programs.get(flow.id)
        if program is not None and program.alive():
            program.end()
            self.cut.add(flow.id)

    def cut_short(self, flow: Flow) -> None:
        """Ask a flow's client to end that goes on after the flow's end; insist if it does not."""
        program = self.programs.get(flow.id)
        if flow.end is None or program is None or not program.alive():
            return
        late = GRACE / self.slower
        # Those that send for a time, and all that send datagrams, may have begun a moment late, end
        # as much later by themselves, and then have to report.
        timed = flow.protocol == "udp" or not (flow.octets or flow.spec)
        if flow.id not in self.cut and self.now() > flow.end + (late if timed else 0.0):
            self.end(flow)
        elif flow.id in self.cut and self.now() > flow.end + 3 * late:
            program.popen.kill()

    def pause(self) -> None:
        """Wait for a moment, and no longer than until the next client is to be started."""
        left = LOOK
        if self.waiting:
            left = min(left, (self.waiting[0].start - self.now()) * self.slower)
        time.sleep(max(left, 0.0))
