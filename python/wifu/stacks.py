"""What the words of protocols mean: their profiles, parts and parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from wifu.cells import Cell
from wifu.runner import split

KERNEL = "kernel:"
"""What protocols that are the kernel's own begin with."""


@dataclass(frozen=True)
class Stack:
    """A protocol with all that it has: the parts by their roles, and `role.parameter`."""

    words: str
    profile: str
    values: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    """What the profile sets and no part takes."""
    number: int | None = None
    """The IP protocol number of its packets on hosts."""
    wire: str = ""
    """The format of its packets."""

    @property
    def kernel(self) -> bool:
        """Whether it is the kernel's own, of which nobody here knows the parameters."""
        return self.words.startswith(KERNEL)

    def value(self, name: str) -> str | None:
        """The value of a parameter of whichever part has it; none if none has."""
        found = (v for k, v in self.values.items() if k.rpartition(".")[2] == name)
        return next(found, None)


@lru_cache(maxsize=4096)
def stack(words: str, compositions: tuple[str, ...] = ()) -> Stack | None:
    """What a protocol's words mean; none of what has no parameters (`udp`) or means nothing."""
    from wifu import _native

    if words.startswith(KERNEL):
        said = dict(w.partition("=")[::2] for w in words.split(",")[1:])
        return Stack(words, "kernel", said)
    try:
        told = json.loads(
            _native.describe(words, list(compositions)) if compositions else _native.describe(words)
        )
    except ValueError:
        return None
    values = {p["name"]: p["value"] for p in told["engine"]}
    parts: dict[str, str] = {}
    for part in told["parts"]:
        role = part["role"]
        parts[role] = f"{parts[role]}, {part['part']}" if role in parts else part["part"]
        values |= {f"{role}.{p['name']}": p["value"] for p in part["params"]}
    return Stack(
        words, told["profile"], values, parts, tuple(told["unused"]), told["number"], told["wire"]
    )


def compositions_of(scenario: Mapping[str, Any]) -> tuple[str, ...]:
    """The files of compositions that came with a plan's scenario, as text."""
    return tuple(map(str, split(scenario)[1]))


def stacks(runner: str, cell: Cell) -> list[Stack | None]:
    """What the flows of a cell run over, with what the testbed says of it, by a plan's `runner`."""
    scenario, compositions = split(cell.scenario)[0], compositions_of(cell.scenario)
    if runner == "mock":
        more = str(scenario.get("set", ""))
        words = [",".join(w for w in (str(scenario.get("protocol", "")), more) if w)]
    else:
        words = [str(flow.get("protocol", "")) for flow in scenario.get("flow", [])]
        topology = json.dumps(scenario.get("topology", {}), sort_keys=True, default=str)
        words = [w if w.startswith(KERNEL) else _transport(topology, w) for w in words]
    return [stack(w, compositions) for w in words]


@lru_cache(maxsize=4096)
def _transport(topology: str, words: str) -> str:
    """A protocol as it is in a testbed, which may say something of its parameters."""
    from wifu import _native

    flow = {"from": "n1", "to": "n2", "protocol": words}
    asked = {"topology": json.loads(topology), "flow": [flow]}
    try:
        return str(json.loads(_native.testbed(json.dumps(asked)))["protocols"][0])
    except ValueError:
        return words  # what is wrong with the scenario is told where it is checked
