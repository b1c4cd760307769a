"""How often radios try a frame before they give it up, by all that a scenario and its testbed say.

The limit of frames that follow an RTS is another one than that of frames without, and by default it
is lower: who turns RTS on and says no more changes both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wifu.cells import Cell
from wifu.network import network

LIMIT = re.compile(r"(topology\.)?(node\.\d+\.)?radio\.attempts(_long)?")
"""The keys of a scenario that set limits, of all radios or a node's."""


@dataclass(frozen=True)
class Tries:
    """The limits of a radio, for frames with a whole packet."""

    data: int
    rts: int | None
    """Of the RTS that announces such a frame; none if nothing does."""

    def words(self) -> str:
        """Both in words."""
        return str(self.data) if self.rts is None else f"{self.data} (RTS {self.rts})"


@dataclass(frozen=True)
class Radios:
    """The radios of a scenario, each kind once."""

    kinds: tuple[Tries, ...]

    @property
    def announced(self) -> tuple[bool, ...]:
        """Whether RTS announces frames, of each kind."""
        return tuple(tries.rts is not None for tries in self.kinds)

    @property
    def limits(self) -> tuple[tuple[int, int], ...]:
        """How often they try data, and what comes first: that is data where nothing announces it"""
        return tuple((t.data, t.data if t.rts is None else t.rts) for t in self.kinds)

    def words(self) -> str:
        """How often they try frames, in words."""
        return " or ".join(tries.words() for tries in self.kinds)


def radios(runner: str, cell: Cell) -> Radios | None:
    """The radios of a cell, by a plan's `runner`; none where there are none, or nobody knows."""
    if runner != "mesh":
        return None
    told = network(cell.scenario)
    kinds = tuple(dict.fromkeys(Tries(n.data, n.rts) for n in told.radios)) if told else ()
    return Radios(kinds) if kinds else None


def unlike(runner: str, cells: Sequence[Cell]) -> bool:
    """Whether radios of some cells announce frames, or try them, as those of others do not."""
    found = {radios(runner, cell) for cell in cells} - {None}
    return len({(r.announced, r.limits) for r in found if r is not None}) > 1
