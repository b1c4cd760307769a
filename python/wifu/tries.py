"""How often radios try a frame before they give it up, by all that a scenario and its testbed say.

The limit of frames that follow an RTS is another one than that of frames without, and by default it
is lower: who turns RTS on and says no more changes both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wifu.cells import Cell
from wifu.runner import split

LIMITS = ("radio.attempts", "radio.attempts_long")
"""The keys of a scenario that set limits."""


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
    scenario, _ = split(cell.scenario)
    about = {key: scenario[key] for key in ("topology", "radio", "host") if key in scenario}
    return _resolved(json.dumps(about, sort_keys=True, default=str))


@lru_cache(maxsize=4096)
def _resolved(about: str) -> Radios | None:
    from wifu import _native

    flow = {"from": "n1", "to": "n2", "protocol": "udp"}
    try:
        told: list[dict[str, Any]] = json.loads(
            _native.attempts(json.dumps({**json.loads(about), "flow": [flow]}))
        )
    except ValueError:
        return None  # what is wrong with the scenario is told where it is checked
    return Radios(tuple(Tries(each["data"], each["rts"]) for each in told))


def unlike(runner: str, cells: Sequence[Cell]) -> bool:
    """Whether radios of some cells announce frames, or try them, as those of others do not."""
    found = {radios(runner, cell) for cell in cells} - {None}
    return len({(r.announced, r.limits) for r in found if r is not None}) > 1
