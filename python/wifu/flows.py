"""Flows of a scenario as they are run between real hosts: who sends what to whom, when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wifu import apps_live, toml, values
from wifu.errors import LabError, PlanError, nearest

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

FIRST_PORT = 5201

HEADERS = 28
"""Bytes of IPv4 and UDP."""


@dataclass(frozen=True)
class Flow:
    """One application: who sends what to whom, when. Times in seconds of model time.

    `end`: when it is cut short, or ends if it sends datagrams. `octets`: 0 if there is no end of
    them.
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
    spec: Mapping[str, Any] = field(default_factory=dict)
    """The application, unless it is a steady transfer that nothing but octets or the run's end
    ends."""
    until: float | None = None
    """Its own end, before that of the run or after it: from then on it begins nothing new."""
    stream: str = ""
    """The random stream that it draws from, as the simulator's."""

    @property
    def kernel(self) -> bool:
        """Whether the kernel's TCP carries it."""
        return self.protocol.startswith(KERNEL)

    @property
    def finite(self) -> bool:
        """Whether it comes to an end by itself, sooner or later."""
        count = bool(self.spec) and apps_live.finite(self.spec)
        return self.until is not None or bool(self.octets) or count

    @property
    def closes(self) -> bool:
        """Whether it comes to its own end, if it has not done all before, by that of the run."""
        return self.until is not None and (self.end is None or self.until <= self.end)

    @property
    def congestion(self) -> str:
        """The kernel's congestion control."""
        return self.protocol.removeprefix(KERNEL).split(",")[0]

    @property
    def port(self) -> int:
        """Of its server; the one after it is free, too."""
        return FIRST_PORT + 2 * (self.id - 1)


def layer_of(file: str) -> dict[str, Any]:
    """What a topology file says. ValueError that begins with the key's path, as the simulator's."""
    try:
        return toml.loads(Path(file).read_text(), Path(file))
    except OSError as e:
        raise ValueError(f"topology.file: cannot read {file}: {e.strerror}") from None
    except PlanError as e:
        raise ValueError(f"topology.file: {e}") from None


def flows_of(scenario: Scenario) -> list[Flow]:
    """The flows, checked. ValueError that begins with the key's path, as the simulator's does."""
    stop = scenario.get("stop", {})
    limit = values.seconds(stop["time"]) if "time" in stop else None
    if "requests" in stop:
        raise ValueError("stop.requests: only the simulator ends runs by it; say `time` or `count`")
    if not scenario.get("flow"):
        raise ValueError("flow: no flow: nothing would be measured")
    draws, found = apps_live.draws(scenario), []
    for n, given in enumerate(scenario["flow"]):
        try:
            found.append(_flow(n, given, limit, draws[n], "packets" in stop))
        except LabError as e:
            raise ValueError(f"flow.{n + 1}: {e}") from None
        except KeyError as e:
            raise ValueError(f"flow.{n + 1}.{e.args[0]}: is required") from None
    return found


_FLOW_KEYS = ("from", "to", "protocol", "app", "start", "jitter", "stop_at")


def _flow(
    n: int, given: Mapping[str, Any], limit: float | None, draws: Mapping[str, Any], counted: bool
) -> Flow:
    where, app = f"flow.{n + 1}", str(given.get("app", "bulk"))
    if app not in APPS and app not in apps_live.KEYS:
        known = nearest(app, (*APPS, *apps_live.KEYS))
        raise ValueError(f"{where}.app: no application is called {app}; {known}")
    keys = (*_FLOW_KEYS, *apps_live.KEYS.get(app, ("bytes", "time", "rate", "size")))
    keys += ("size",) if app == "onoff" and given.get("protocol") == "udp" else ()
    for key in given:
        if key not in keys:
            raise ValueError(f"{where}.{key}: `{app}` does not use it; {nearest(key, keys)}")
    protocol = str(given["protocol"])
    start = float(draws.get("start_s", values.seconds(given.get("start", 0))))
    ends = [values.seconds(given["stop_at"])] if "stop_at" in given else []
    if "time" in given:
        ends.append(start + values.seconds(given["time"]))
    if app in apps_live.KEYS:
        until, stream = min(ends, default=None), str(draws["stream"])
        return _app(n, given, limit, start, until, stream, counted)
    own = min(ends, default=None)
    octets = int(values.octets(given["bytes"])) if "bytes" in given else 0
    if app == "file" and not octets:
        raise ValueError(f"{where}.bytes: a file needs them")
    if own is None and limit is None and not (octets or counted):
        raise ValueError(f"{where}: ends only if it has bytes or time, or the plan a stop.time")
    rate = values.rate(given["rate"]) if "rate" in given else None
    if protocol != "udp" and ("size" in given or rate is not None):
        raise ValueError(f"{where}.rate: rate and size are of udp")
    spec, end = {}, limit
    if protocol == "udp":
        end = min(ends + ([limit] if limit is not None else []), default=None)
    elif own is not None and start < own:
        spec = apps_live.writing(octets, own - start)
    return Flow(
        n + 1, str(given["from"]), str(given["to"]), protocol, app, start, end, octets, rate,
        int(given.get("size", 1500)), _kernel_options(where, protocol), spec, own,
    )  # fmt: skip


def _app(
    n: int, given: Mapping[str, Any], limit: float | None, start: float, until: float | None,
    stream: str, counted: bool,
) -> Flow:  # fmt: skip
    """A flow with an application that is more than a steady transfer."""
    where, app, protocol = f"flow.{n + 1}", str(given["app"]), str(given["protocol"])
    if protocol == "udp" and app != "onoff":
        raise ValueError(f"{where}.app: `{app}` needs a protocol with connections")
    ends = until is not None or apps_live.finite(given)
    if not (ends or counted or limit is not None):
        raise ValueError(f"{where}: ends only if it has an end, or the plan a stop.time")
    rate = values.rate(given["rate"]) if app == "onoff" else None
    return Flow(
        n + 1, str(given["from"]), str(given["to"]), protocol, app, start, limit, 0,
        rate, int(given.get("size", 1500)), _kernel_options(where, protocol), given, until, stream,
    )  # fmt: skip


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
