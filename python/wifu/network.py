"""What a scenario has, whichever of its words say so: nodes with their radios, wires, and routes.

A rate may stand in `radio`, in `topology.radio`, at a node, among the words, in a file or in a set:
the simulator says what comes of it, and who asks here needs to know none of these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wifu.runner import split

DECIDING = ("topology", "radio", "host", "mobility")
"""Tables of a scenario that say what nodes have."""

ANY = {"from": "n1", "to": "n2", "protocol": "udp"}
"""A flow, without which nothing is a scenario."""


@dataclass(frozen=True)
class Node:
    """A node, with what its radio is if it has one."""

    name: str
    place: tuple[float, ...] | None
    """In m; none if only tables of SNRs say how it is heard."""
    radio: bool
    heard: bool
    """It has one that somebody hears, or may, as its place is not known."""
    rate: float
    """Of unicast data, in b/s; where `rate_control` begins unless that is `fixed`."""
    rate_by: str
    """Who says that: the `plan`, the `set` that it names, or only the `standard`."""
    rate_control: str
    queue: int
    """Packets in front of the driver."""
    ring: int
    """Packets in it."""
    data: int
    """How often a frame with a whole packet is tried."""
    rts: int | None
    """The same of the RTS that announces such a frame; none if nothing does."""


@dataclass(frozen=True)
class Wire:
    """A wire, alike in both directions."""

    a: str
    b: str
    rate: float
    """In b/s."""
    queue: int
    """Packets in front of each direction."""
    overhead: int
    """Bytes that a packet costs beside its own."""
    loss: float
    """The share of packets that are lost by chance."""
    variation: float
    """The greatest random delay, in s."""


@dataclass(frozen=True)
class Network:
    """The nodes and wires of a scenario, and what of them is drawn once for a run."""

    standard: str
    nodes: tuple[Node, ...]
    wires: tuple[Wire, ...]
    scattered: bool
    """Where nodes stand is drawn."""
    shadowed: bool
    """How loud some link is on the mean is drawn."""
    fading: tuple[tuple[float, float], ...]
    """Deviations in dB of links that vary, with their time constants in s, each pair once."""

    def node(self, name: str) -> Node | None:
        """A node by its name, or by `n1`, `n2`, ... in order if none is called so."""
        for node in self.nodes:
            if node.name == name:
                return node
        number = name.removeprefix("n")
        if number == name or not number.isdecimal() or not 0 < int(number) <= len(self.nodes):
            return None
        return self.nodes[int(number) - 1]

    @property
    def radios(self) -> list[Node]:
        """The nodes that have a radio."""
        return [node for node in self.nodes if node.radio]

    @property
    def heard(self) -> list[Node]:
        """Those of them that somebody hears."""
        return [node for node in self.nodes if node.heard]


def network(scenario: Mapping[str, Any]) -> Network | None:
    """The network of a scenario of the mesh; none of one that means nothing, which is told where it
    is checked.
    """
    return _network(_about(scenario, DECIDING))


def routes(
    scenario: Mapping[str, Any], ends: Sequence[tuple[str, str]]
) -> tuple[tuple[str, ...], ...]:
    """The routes between these pairs of nodes when a scenario begins: the nodes on the way, both
    ends included. Empty without a route, and where there is no such network.
    """
    found = _routes(_about(scenario, (*DECIDING, "routing")), tuple(ends))
    return found or ((),) * len(ends)


def _about(scenario: Mapping[str, Any], keys: Sequence[str]) -> str:
    plain, _ = split(scenario)
    own = {key: plain[key] for key in keys if key in plain}
    return json.dumps({**own, "flow": [ANY]}, sort_keys=True, default=str)


@lru_cache(maxsize=4096)
def _network(about: str) -> Network | None:
    from wifu import _native

    try:
        told: dict[str, Any] = json.loads(_native.network(about))
    except ValueError:
        return None
    nodes, wires = (told.pop(key) for key in ("nodes", "wires"))
    fading = tuple((float(sigma), float(tau)) for sigma, tau in told.pop("fading"))
    return Network(
        nodes=tuple(map(_node, nodes)),
        wires=tuple(Wire(**wire) for wire in wires),
        fading=fading,
        **told,
    )


def _node(told: Mapping[str, Any]) -> Node:
    place = told["place"]
    return Node(**{**told, "place": None if place is None else tuple(place)})


@lru_cache(maxsize=4096)
def _routes(about: str, ends: tuple[tuple[str, str], ...]) -> tuple[tuple[str, ...], ...] | None:
    from wifu import _native

    try:
        told: list[list[str]] = json.loads(_native.routes(about, list(ends)))
    except ValueError:
        return None
    return tuple(map(tuple, told))
