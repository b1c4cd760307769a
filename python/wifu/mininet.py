"""Mininet's topology files (`--custom FILE.py --topo NAME`) as topologies of `wifu emu`.

    from mininet.topo import Topo

    class MyTopo(Topo):
        def build(self, n=2):
            for i in range(1, n + 1):
                self.addHost(f"h{i}")
            self.addLink("h1", "h2", snr=24)

    topos = {"mytopo": MyTopo}

The file runs as it is, with or without Mininet on the machine. Hosts become hosts with radios, and
links say who hears whom: `snr` (dB) one way, `reverse_snr` the other way, `sigma` (dB) and `tau`
(s) for variation. Hosts without a link between them do not hear each other, unless all have a
`position=(x, y)` in metres (or "x,y,z", as in Mininet-WiFi): then the distances say that, and only
links with an `snr` override them. A radio has no switches.

`python3 mininet.py FILE NAME[,ARGUMENTS]` prints the topology as TOML. This module needs nothing
but Python itself.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

# Mean SNR of a link that does not say how good it is, and of two hosts without a link, dB.
LINKED, UNHEARD = 25.0, -99.0
HOST_WORDS = {"position"}
LINK_WORDS = {"snr", "reverse_snr", "sigma", "tau"}


class TopologyError(Exception):
    """The file does not say what can be made of radios."""


class Topo:
    """Mininet's base class of topologies, as far as radios go."""

    def __init__(self, *args: Any, **params: Any) -> None:
        """Build it; `hopts` and `lopts` are options for all hosts and links."""
        self.hopts: dict[str, Any] = params.pop("hopts", {})
        self.lopts: dict[str, Any] = params.pop("lopts", {})
        params.pop("sopts", None)
        self.nodes_: dict[str, dict[str, Any]] = {}
        self.links_: list[tuple[str, str, dict[str, Any]]] = []
        self.build(*args, **params)

    def build(self, *args: Any, **params: Any) -> None:
        """Add hosts and links here."""

    def addHost(self, name: str, **opts: Any) -> str:
        """Add a host with a radio."""
        if name in self.nodes_:
            raise TopologyError(f"there are two hosts called {name}")
        self.nodes_[name] = {**self.hopts, **opts}
        return name

    addNode = addHost
    addStation = addHost

    def addSwitch(self, name: str, **_opts: Any) -> str:
        """Refuse: there are none on a radio."""
        raise TopologyError(
            f"{name} is a switch or an access point, and radios have none: link hosts to each "
            "other, or make it a host, which forwards"
        )

    addAccessPoint = addSwitch
    addController = addSwitch

    def addLink(self, node1: str, node2: str, *_ports: Any, **opts: Any) -> None:
        """Let two hosts hear each other."""
        for name in (node1, node2):
            if name not in self.nodes_:
                raise TopologyError(f"addLink({node1!r}, {node2!r}): there is no host {name}")
        if node1 == node2:
            raise TopologyError(f"addLink({node1!r}, {node2!r}): a host hears itself anyhow")
        for word in ("port1", "port2", "key"):
            opts.pop(word, None)
        self.links_.append((node1, node2, {**self.lopts, **opts}))

    def hosts(self, sort: bool = True) -> list[str]:
        """Return the hosts' names."""
        return sorted(self.nodes_) if sort else list(self.nodes_)

    def nodes(self, sort: bool = True) -> list[str]:
        """Return the same: all nodes are hosts."""
        return self.hosts(sort)

    def switches(self, sort: bool = True) -> list[str]:
        """Return none: a mesh has no switches."""
        return []

    def links(self, *_args: Any, **_options: Any) -> list[tuple[str, str]]:
        """Return pairs of names."""
        return [(a, b) for a, b, _ in self.links_]

    def nodeInfo(self, name: str) -> dict[str, Any]:
        """Return a host's options."""
        return self.nodes_[name]


class _Stub(type):
    """What stands for everything else in Mininet: it can be named, not used."""

    def __call__(cls, *_args: Any, **_options: Any) -> Any:
        raise TopologyError(f"{cls.__name__} of Mininet is not here: only topologies are read")


class _Module(ModuleType):
    """A module of Mininet."""

    Topo = Topo

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Stub(name, (), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives our modules to who imports Mininet's."""

    def find_spec(self, name: str, *_args: Any) -> importlib.machinery.ModuleSpec | None:
        """Answer for modules of Mininet only."""
        if name.split(".")[0] not in ("mininet", "mn_wifi"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty module: what it is asked for is made when it is asked."""
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing: the module is complete."""


def words(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Take `NAME,1,x,n=2` apart, as Mininet does: numbers are numbers."""

    def value(word: str) -> Any:
        for kind in (int, float):
            try:
                return kind(word)
            except ValueError:
                continue
        return word

    name, *rest = text.split(",")
    args = [value(w) for w in rest if "=" not in w]
    named = dict(w.split("=", 1) for w in rest if "=" in w)
    return name, args, {key: value(w) for key, w in named.items()}


def load(path: Path, text: str, default: str | None = None) -> Topo:
    """Make the topology that `text` names from a file; `default` may also mean the only one."""
    sys.meta_path.insert(0, _Finder())
    # Where the package is installed, its classes are these.
    sys.modules["wifu.mininet"] = sys.modules[__name__]
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location("custom", path)
    if spec is None or spec.loader is None:
        raise TopologyError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    topos = getattr(module, "topos", None)
    if not isinstance(topos, dict) or not topos:
        raise TopologyError(f"{path} has no topos = {{'name': class}}")
    name, args, named = words(text)
    if name not in topos and text == default and len(topos) == 1:
        name = next(iter(topos))
    if name not in topos:
        raise TopologyError(f"--topo {name}: {path} has {', '.join(sorted(topos))}")
    topo = topos[name](*args, **named)
    if not isinstance(topo, Topo):
        raise TopologyError(f"topos['{name}'] makes no Topo")
    return topo


def position(name: str, given: Any) -> list[float]:
    """Coordinates in metres."""
    parts = given.split(",") if isinstance(given, str) else given
    try:
        numbers = [float(p) for p in parts]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) not in (2, 3) or not all(map(math.isfinite, numbers)):
        raise TopologyError(f"{name}: position {given!r} is not x, y or x, y, z in metres")
    return [*numbers, 0.0][:3]


def ignored(topo: Topo) -> Iterator[str]:
    """Say which options mean nothing to radios."""
    links = {w for _, _, opts in topo.links_ for w in opts} - LINK_WORDS
    hosts = {w for opts in topo.nodes_.values() for w in opts} - HOST_WORDS
    if links:
        yield f"ignored options of links: {', '.join(sorted(links))} (radios know snr, ...)"
    if hosts:
        yield f"ignored options of hosts: {', '.join(sorted(hosts))}"


def number(opts: dict[str, Any], word: str, otherwise: float) -> float:
    """Read a number among a link's options."""
    try:
        value = float(opts.get(word, otherwise))
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise TopologyError(f"{word}={opts[word]!r} is no number")
    return value


def toml(topo: Topo) -> str:
    """Return the topology in the words of `wifu`."""
    names = list(topo.nodes_)
    if len(names) < 2:
        raise TopologyError("a network has two hosts at least")
    places = [opts.get("position") for opts in topo.nodes_.values()]
    placed = all(p is not None for p in places)
    lines: list[str] = []
    if not placed:
        quiet = [[UNHEARD] * len(names) for _ in names]
        lines += ["[matrix]", f"snr_db = {json.dumps(quiet)}", ""]
    for name, place in zip(names, places, strict=True):
        lines += ["[[node]]", f"name = {json.dumps(name)}"]
        if placed:
            lines.append(f"position = {json.dumps(position(name, place))}")
    for a, b, opts in topo.links_:
        if placed and "snr" not in opts:
            continue
        snr = number(opts, "snr", LINKED)
        lines += ["[[link]]", f"from = {json.dumps(a)}", f"to = {json.dumps(b)}"]
        lines += [f"snr_db = {snr}", f"reverse_db = {number(opts, 'reverse_snr', snr)}"]
        if "sigma" in opts:
            lines.append(f"sigma_db = {number(opts, 'sigma', 0.0)}")
        if "tau" in opts:
            lines.append(f"tau = {number(opts, 'tau', 1.0)}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the topology; what is ignored goes to standard error."""
    path, text, default = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    try:
        topo = load(path, text, default)
        for line in ignored(topo):
            print(f"Note: {path}: {line}", file=sys.stderr)
        # What the file itself printed is not ours to parse.
        print("\0" + toml(topo), end="")
    except TopologyError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
