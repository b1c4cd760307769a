"""Flows over wires on which nothing is random: their packets keep step at a full queue. And
datagrams at one rate, which meet on the air always or never.

Packets of one size arrive at a bottleneck whenever one leaves it, or a fraction of that later, and
which flow finds the last place is decided by that fraction: phase effects (Floyd and Jacobson,
"On Traffic Phase Effects in Packet-Switched Gateways", 1992). Replicates do not tell: when flows
start changes nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

from wifu import values
from wifu.cells import Cell, listed_flows
from wifu.cutoff import OF_FINISHED
from wifu.errors import LabError
from wifu.metrics import parts
from wifu.network import Network, network, routes
from wifu.outlets import data_ends, discipline, on_air, topology_of
from wifu.plan import Plan
from wifu.rows import RATES, SHARES, Results
from wifu.stamps import first

RANDOM = ("http", "onoff", "trace")
"""Applications whose packets are in step with nothing; over connections, which fill what there is.
Datagrams that talk and pause are too few to break a step.
"""

STEADY = (
    "null", "logger", "delay", "delay-collector", "link-notice", "tpa-shim", "snoop",
)  # fmt: skip
"""Handlers to which all packets are alike: none is lost by chance, and all are held as long."""

PACKET = 12_000
"""Bits of a packet: a step is broken by what varies by as long as that takes at a bottleneck."""

SENT = {"size": 1_500, "rate": 0.0}
"""Bytes of a datagram that says nothing of it; one without a rate is in step with nobody."""

DECIDED = (
    *SHARES, *RATES, *OF_FINISHED, "srtt", "rtt_p50", "rtt_p95", "rtt_p99",
    "loss", "retransmissions", "timeouts", "fast_retransmits",
)  # fmt: skip
"""Metrics that a step decides: by which flow loses, and by how many of them do at a time."""

MULTIPLES = 10
"""Datagrams that meet one in so many of another flow's are of no account."""

Scenario = Mapping[str, Any]


def in_step(scenario: Scenario) -> bool:
    """Whether several flows over connections cross wires alone, and nothing there is random."""
    told, flows = network(scenario), [flow for _, flow in listed_flows(scenario)]
    if told is None or not told.wires or topology_of(scenario).get("interferer"):
        return False
    if any(wire.loss for wire in told.wires) or _varied(told):
        return False
    carried = [flow for flow in flows if flow.get("protocol") != "udp"]
    ways = routes(scenario, [data_ends(flow) for flow in carried])
    # What comes over the air comes by chance; what goes there has passed the wires before, if
    # these are the narrower.
    routed = [
        (flow, way)
        for flow, way in zip(carried, ways, strict=True)
        if not (_pausing(flow) or on_air(scenario, data_ends(flow)[0]) or _handled(scenario, way))
    ]
    steady = [flow for flow, _ in routed]
    if any(on_air(scenario, data_ends(flow)[1]) for flow in steady) and not _narrow(told):
        return False
    ends = {flow.get(end) for flow in carried if flow not in steady for end in ("from", "to")}
    crossed = any(flow.get(end) in ends for flow in steady for end in ("from", "to"))
    return not crossed and _share(scenario, told, routed)


def _pausing(flow: Mapping[str, Any]) -> bool:
    """Whether an application is in step with nothing; a trace that writes all at once is a file."""
    if flow.get("app") == "trace":
        return len({at for at, *_ in flow.get("rows") or []}) > 1
    return flow.get("app") in RANDOM


def _handled(scenario: Scenario, way: Sequence[str]) -> bool:
    """Whether some handler on a way does to packets what is by chance, or not known here."""
    return any(
        set(handler.get("nodes") or way) & set(way) and handler.get("use") not in STEADY
        for handler in scenario.get("handler") or []
    )


def _share(
    scenario: Scenario,
    told: Network,
    routed: Sequence[tuple[Mapping[str, Any], Sequence[str]]],
) -> bool:
    """Whether data of two of these flows, which are there together, wait for one wire whose queue
    does nothing before it is full.
    """
    rates = {ends: w.rate for w in told.wires for ends in ((w.a, w.b), (w.b, w.a))}
    for (one, way), (two, other) in combinations(routed, 2):
        both = {ends: rates[ends] for ends in {*pairwise(way)} & {*pairwise(other)} & {*rates}}
        # A discipline drops by its own clock where packets wait.
        waits = [node for (node, _), rate in both.items() if rate == min(both.values())]
        if any(discipline(scenario, node) is None for node in waits) and _meet(one, two):
            return True
    return False


def _meet(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Whether neither flow is over by the clock when the other begins."""
    try:
        (a, first), (b, last) = (_span(flow) for flow in (one, two))
    except LabError:
        return True  # what is wrong is told where it is checked
    return max(a, b) < min(first, last)


def _span(flow: Mapping[str, Any]) -> tuple[float, float]:
    """When a flow begins, and until when by the clock, in seconds."""
    start = values.seconds(flow.get("start", 0))
    over = [values.seconds(flow["stop_at"])] if "stop_at" in flow else []
    over += [start + values.seconds(flow["time"])] if "time" in flow else []
    return start, min(over, default=float("inf"))


def _narrow(told: Network) -> bool:
    """Whether some wire is narrower than half the rate of all radios."""
    slowest = min(wire.rate for wire in told.wires)
    return 2 * slowest < min((node.rate for node in told.heard), default=0.0)


def _varied(told: Network) -> bool:
    """Whether delays vary by the time of a packet at the slowest wire."""
    slowest = min(wire.rate for wire in told.wires)
    return max(wire.variation for wire in told.wires) >= PACKET / slowest


def together(scenario: Scenario) -> list[int]:
    """Flows of datagrams that leave the nodes of radios at the same moments in all runs: at one
    rate, or at a multiple of another one's, and beginning by less chance than that takes.
    """
    found: list[tuple[int, float, str]] = []
    for n, flow in listed_flows(scenario):
        if flow.get("protocol") != "udp" or flow.get("app") == "onoff":
            continue
        try:
            size = values.octets(flow.get("size", SENT["size"]))
            rate = values.rate(flow.get("rate", SENT["rate"]))
            by_chance = values.seconds(flow.get("jitter", 0))
        except LabError:
            continue
        node = str(flow.get("from"))
        if rate > 0 and by_chance < size * 8 / rate and on_air(scenario, node):
            found.append((n, size * 8 / rate, node))
    meet = {
        n
        for (a, one, here), (b, two, there) in combinations(found, 2)
        if here != there and _multiple(one, two)
        for n in (a, b)
    }
    return sorted(meet)


def _multiple(one: float, two: float) -> bool:
    """Whether a period is a whole number of the other one, and no large one."""
    ratio = max(one, two) / min(one, two)
    return ratio < MULTIPLES and abs(ratio - round(ratio)) < 1e-6


def meeting(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether a metric of datagrams alone is decided by such moments in some of these cells."""
    base, only = parts(metric)
    of = base in (*RATES, "loss") or base.startswith(("mac_", "one_way", "latency_added"))
    if not of or results.plan.runner != "mesh" or results.plan.substrate != "sim":
        return False
    for cell in cells:
        flows, own = dict(listed_flows(cell.scenario)), together(cell.scenario)
        alone = all(flow.get("protocol") == "udp" for flow in flows.values())
        # Beside a load of connections it is that which decides.
        if own and alone and only in (None, *own):
            return True
    return False


def moments(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    found = [cell for cell in cells if meeting(results, [cell], metric)]
    if not found:
        return ""
    flows = first([str(n) for n in together(found[0].scenario)], 4)
    return (
        f"Datagrams of flows {flows} leave at one rate, or a multiple of it, and begin at moments "
        "that hardly vary between runs: whether they meet on the air is decided by that, once for "
        "all, of which intervals know nothing. There is neither colour nor bold; a `jitter` of as "
        "long as a period gives each run moments of its own."
    )


def warnings(plan: Plan) -> list[str]:
    """The same in words, of a plan's cells."""
    if plan.runner != "mesh" or plan.substrate != "sim":
        return []
    return [*_steps(plan), *_moments(plan)]


def _moments(plan: Plan) -> list[str]:
    """Cells whose flows are all of datagrams that leave at the same moments in all runs."""
    found = []
    for cell in plan.cells:
        alone = all(flow.get("protocol") == "udp" for _, flow in listed_flows(cell.scenario))
        if alone and together(cell.scenario):
            found.append(cell)
    if not found:
        return []
    flows = first([str(n) for n in together(found[0].scenario)], 4)
    return [
        f"datagrams of flows {flows} leave at one rate, or a multiple of it, and begin at moments "
        "that hardly vary between runs, which decides once for all whether they meet on the air: a "
        "`jitter` of as long as a period gives each run moments of its own."
    ]


def _steps(plan: Plan) -> list[str]:
    found = [cell.name for cell in plan.cells if in_step(cell.scenario)]
    if not found:
        return []
    which = "" if len(found) == len(plan.cells) else f" in {first(found, 4)}"
    return [
        f"nothing before a wire's queue is random{which}: wires have no variation, or less than a "
        "packet takes on the slowest one, and there is nobody but flows over connections. Their "
        "packets keep step at a full queue, and a fraction of a packet's time decides which flow "
        "loses (phase effects: Floyd and Jacobson 1992): how flows share says little of protocols, "
        "and intervals of runs that begin at other moments know too little of it. A `variation` of "
        "the wires before the bottleneck, of as long as that takes for some packets, breaks it."
    ]


def decided(results: Results, cells: Sequence[Cell], metric: str) -> bool:
    """Whether such a step decides what a metric is of in some of these cells: what flows have of
    what they share, and how often they lose, which is what all have together.
    """
    if parts(metric)[0] not in DECIDED or results.plan.substrate != "sim":
        return False
    return results.plan.runner == "mesh" and any(in_step(cell.scenario) for cell in cells)


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words."""
    found = [cell for cell in cells if decided(results, [cell], metric)]
    if not found:
        return ""
    return (
        "Nothing before a wire's queue is random, and flows keep step there once it is full: how "
        "they share, how long they wait, and what they have together, is decided by a fraction of "
        "a packet's time or a packet of the queue (phase effects), of which intervals know too "
        "little. There is neither "
        "colour nor bold; a `variation` of the wires breaks the step."
    )
