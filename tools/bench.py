"""`make bench`: WiFu's TCP beside the kernel's, in one run, interleaved.

Six tables: goodput over shaped links as a ratio to the kernel's Reno, fairness of ten flows on
one link, the speed of a single flow without shaping, what handlers at the kernel's hooks cost its
TCP, by which path a relay's packets come to handlers, and the speed of the mesh simulator. Every
figure is the median of several transfers or runs; what is compared takes turns in an order drawn
anew for each round, so that a slow moment of the machine meets all.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import random
import resource
import shutil
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from netlab import (
    Lab,
    LabError,
    Process,
    cpu_seconds,
    daemon_answers,
    main_guard,
    need,
    run,
    wait_for,
)

KERNEL = "kernel:reno"
RATES_MBIT = [10.0, 100.0, 1000.0]
# Size and how many times as many rounds: short transfers scatter more and cost less.
# On fast links there is time for more.
SIZES = {"100 kB": (100_000, 5), "1 MB": (1_000_000, 3), "10 MB": (10_000_000, 1)}
# Ways of carrying an unshaped flow, and the daemon's options for each.
WAYS: dict[str, list[str] | None] = {
    f"{KERNEL}, offloads off": None,
    "{}, raw, direct": ["--direct"],
    "{}, raw, through the IP layer": [],
    "{}, udp": ["--carrier", "udp"],
    "{}, udp, datagrams one by one": ["--carrier", "udp", "--no-offload"],
}
FLOWS, FLOWS_MBIT, FLOWS_SECONDS = 10, 100.0, 20
# Runs of the simulator: what they are, and what ns-2 and ns-3 reach on such runs.
MESHES = {
    "chain": ("802.11a chain of 6 hops at 24 Mb/s, 1 TCP flow", "125, 7.1"),
    "chain6": ("the same at 6 Mb/s", ""),
    "random": ("20 nodes at random, 10 flows", "45, 1.6"),
    "grid": ("grid of 10 x 10, 50 flows over 7 hops", "6.0, 0.26"),
    "thousand": ("grid of 25 x 40, 100 flows over 2 hops", ""),
}
# Those that ns-2 simulates beside, if it is installed: rate, and simulated seconds.
NS2 = {"chain": ("24Mb", 100), "chain6": ("6Mb", 300)}


class Bench:
    """A lab with everything running that a transfer needs."""

    def __init__(
        self, lab: Lab, wifu: Path, systems: Sequence[str], options: Sequence[str] = ()
    ) -> None:
        self.lab, self.wifu, self.systems = lab, wifu, systems
        programs: list[Process] = []
        if any(not s.startswith("kernel:") for s in systems):
            for host in (lab.a, lab.b):
                door = lab.door(host)
                programs.append(lab.start(host, wifu, "daemon", "--socket", door, *options))
                wait_for("wifu daemon", partial(daemon_answers, host, wifu, door), *programs)
        programs.append(lab.start(lab.a, wifu, "perf", "-s", "--socket", lab.door(lab.a)))
        for system in systems:
            wait_for(f"perf over {system}", partial(self.serves, system), *programs)

    def serves(self, system: str) -> bool:
        """Whether a short transfer comes through."""
        try:
            self.transfer(system, ["-n", "1000"])
        except LabError:
            return False
        return True

    def transfer(self, system: str, amount: Sequence[str], timeout: float = 120) -> list[float]:
        """Goodput of each stream of one transfer, bit/s, from the first octets read to the last.

        Where everything came in a single read there is no such span: then from the start.
        """
        return [goodput(s) for s in self.streams(system, amount, timeout)]

    def streams(
        self, system: str, amount: Sequence[str], timeout: float = 120
    ) -> list[dict[str, Any]]:
        """What the report says of each stream of one transfer."""
        client = ["perf", "-c", self.lab.a.address, "-C", system, *amount, "-J"]
        client += ["--socket", str(self.lab.door(self.lab.b))]
        for _ in range(20):
            text = self.lab.b.run(self.wifu, *client, check=False, timeout=timeout)
            report = json.loads(text or '{"error": "no report"}')
            if "busy" not in report.get("error", ""):
                break
            time.sleep(0.05)  # the server is still tidying up after the test before
        if "error" in report:
            raise LabError(f"{system}: {report['error']}")
        streams: list[dict[str, Any]] = report["end"]["streams"]
        return streams

    def rounds(
        self, count: int, amount: Sequence[str], order: random.Random
    ) -> dict[str, list[list[float]]]:
        """Let the systems take turns, `count` times each."""
        found: dict[str, list[list[float]]] = {s: [] for s in self.systems}
        for _ in range(count):
            for system in order.sample(list(self.systems), len(self.systems)):
                found[system].append(self.transfer(system, amount))
        return found


def goodput(stream: dict[str, Any]) -> float:
    """Goodput of one stream of a report, bit/s."""
    own = stream.get("wifu", {}).get("goodput_bits_per_second")
    return float(own if own else stream["receiver"]["bits_per_second"])


def jain(rates: Sequence[float]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one has everything."""
    return sum(rates) ** 2 / (len(rates) * sum(r * r for r in rates))


def mbit(bits: Iterable[float]) -> str:
    """Median and range, Mb/s."""
    values = [b / 1e6 for b in bits]
    low, high = min(values), max(values)
    return f"{statistics.median(values):.4g} ({low:.4g}-{high:.4g})"


@dataclasses.dataclass
class Table:
    """One table: printed as Markdown, kept as JSON."""

    title: str
    head: list[str]
    rows: list[list[str]]
    raw: list[dict[str, object]]

    def markdown(self) -> str:
        """Return the table under its title."""
        rule = ["---" if i == 0 else "---:" for i in range(len(self.head))]
        lines = [" | ".join(cells) for cells in [self.head, rule, *self.rows]]
        return "\n".join([f"### {self.title}", "", *(f"| {line} |" for line in lines)])


def shaped(args: argparse.Namespace, order: random.Random) -> Table:
    """Goodput of one flow, by rate of the link and size of the transfer."""
    systems = [KERNEL, args.protocol]
    head = ["link", "size", f"{KERNEL}, Mb/s", f"{args.protocol}, Mb/s", "ratio of medians"]
    table = Table("Shaped link, one flow: median (range)", head, [], [])
    for rate in args.rates:
        with Lab("speed", rate) as lab:
            bench = Bench(lab, args.bin / "wifu", systems, args.daemon)
            for label, (octets, more) in SIZES.items():
                rounds = args.rounds * more * (5 if rate >= 1000 else 1)
                found = bench.rounds(rounds, ["-n", str(octets)], order)
                kernel, wifu = ([r[0] for r in found[s]] for s in systems)
                ratio = statistics.median(wifu) / statistics.median(kernel)
                row = [f"{rate:g} Mb/s", label, mbit(kernel), mbit(wifu), f"{ratio:.4f}"]
                table.rows.append(row)
                table.raw.append({"rate_mbit": rate, "bytes": octets, "bits_per_second": found})
                print("  " + ", ".join(row), flush=True)
    return table


def fairness(args: argparse.Namespace, order: random.Random) -> Table:
    """Ten flows at once."""
    systems = [KERNEL, args.protocol]
    head = ["system", "sum, Mb/s", "slowest, Mb/s", "fastest, Mb/s", "Jain"]
    title = f"{FLOWS} flows on {FLOWS_MBIT:g} Mb/s for {FLOWS_SECONDS} s: the median run by Jain"
    table = Table(title, head, [], [])
    with Lab("speed", FLOWS_MBIT) as lab:
        bench = Bench(lab, args.bin / "wifu", systems, args.daemon)
        amount = ["-P", str(FLOWS), "-t", str(FLOWS_SECONDS)]
        found = bench.rounds(max(1, args.rounds // 2), amount, order)
    for name, runs in found.items():
        rates = sorted(runs, key=jain)[len(runs) // 2]
        parts = [sum(rates), min(rates), max(rates)]
        table.rows.append([name, *(f"{p / 1e6:.4g}" for p in parts), f"{jain(rates):.6f}"])
        table.raw.append({"system": name, "bits_per_second": runs, "jain": [jain(r) for r in runs]})
        print("  " + ", ".join(table.rows[-1]), flush=True)
    return table


def unshaped(args: argparse.Namespace, order: random.Random) -> Table:
    """One flow, as fast as it goes, packets of 1500 octets."""
    head = ["system", "Mb/s", "ratio to the kernel with offloads off"]
    table = Table("No shaping, one flow, packets of 1500 octets: median (range)", head, [], [])
    found: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        # One lab for each way of carrying, all there at once, so that they can take turns.
        benches: dict[str, tuple[Bench, str]] = {}
        for name, options in WAYS.items():
            lab = stack.enter_context(Lab(f"speed-{len(benches)}", None, offloads=False))
            systems = [KERNEL] if options is None else [args.protocol]
            benches[name] = (Bench(lab, args.bin / "wifu", systems, options or []), systems[0])
            found[name] = []
        for _ in range(args.rounds):
            for name in order.sample(list(benches), len(benches)):
                bench, system = benches[name]
                found[name] += bench.transfer(system, ["-t", str(args.seconds)])
    base = statistics.median(next(iter(found.values())))
    for name, rates in found.items():
        label = name.format(args.protocol)
        ratio = statistics.median(rates) / base
        table.rows.append([label, mbit(rates), f"{ratio:.3f}"])
        table.raw.append({"system": label, "bits_per_second": rates})
        print("  " + ", ".join(table.rows[-1]), flush=True)
    return table


STAMP = ["delay", "--dev", "eth0", "--stamp"]
# What may stand in packets' way: the path, the rate, whether through a router, the command on the
# hosts concerned, and the ratio to be reached.
NULL = '[[handler]]\nuse = "null"\nhooks = {}\n'
HOOKED: list[tuple[str, float | None, str, list[str], str]] = [
    ("1 Gb/s link, input and output on both hosts", 1000.0, NULL, ["core"], "0.99"),
    ("unshaped, forward on the router between", None, NULL, ["core"], "0.6"),
    ("unshaped, BPF stamps at the router's egress", None, "", [*STAMP, "--fixed", "2ms"], "1"),
    ("... and measures what it stamps", None, "", [*STAMP, "--measure", "queue"], ""),
]


class Hooked:
    """Programs on the way of one lab's packets that come and go between transfers."""

    def __init__(self, lab: Lab, wifu: Path, handlers: str, command: Sequence[str]) -> None:
        self.lab = lab
        self.hosts = [lab.a, lab.b] if lab.router is None else [lab.router]
        hooks = ["input", "output"] if lab.router is None else ["forward"]
        where = lab.scratch / "hooked"
        if handlers:
            where = lab.scratch / "hooked.toml"
            where.write_text(handlers.format(json.dumps(hooks)))
        option = "--config" if handlers else "--dir"
        self.command: list[str | Path] = [wifu, *command, option, where]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run them meanwhile."""
        programs = [self.lab.start(h, *self.command) for h in self.hosts]
        try:
            said = ("ready", "wifu delay:")
            wait_for(
                "the program on the way",
                lambda: all(any(s in p.said() for s in said) for p in programs),
                *programs,
            )
            yield
        finally:
            for program in programs:
                program.stop()


def interception(args: argparse.Namespace, order: random.Random) -> Table:
    """Kernel TCP with and without a program on the way."""
    head = ["path", "without, Mb/s", "with, Mb/s", "ratio of medians", "goal"]
    title = "Interception: goodput of kernel:reno, median (range), without and with `null` handlers"
    table = Table(title, head, [], [])
    for name, rate, handlers, command, goal in HOOKED:
        with Lab("hooks", rate, routed=rate is None) as lab:
            bench = Bench(lab, args.bin / "wifu", [KERNEL])
            hooked = Hooked(lab, args.bin / "wifu", handlers, command)
            found: dict[str, list[float]] = {"without": [], "with": []}
            amount = ["-t", str(args.seconds)]
            for _ in range(args.rounds):
                for way in order.sample(list(found), len(found)):
                    with hooked.running() if way == "with" else contextlib.nullcontext():
                        found[way] += bench.transfer(KERNEL, amount)
        without, hindered = found["without"], found["with"]
        ratio = statistics.median(hindered) / statistics.median(without)
        table.rows.append([name, mbit(without), mbit(hindered), f"{ratio:.4f}", goal])
        table.raw.append({"path": name, "bits_per_second": found})
        print("  " + ", ".join(table.rows[-1]), flush=True)
    return table


# Paths by which packets of a relay come to a handler that does nothing, and the command there.
RELAYED = """
[protocol.relayed]
extends = "tcp-reno"
number = 245
"""
BROUGHT = """
[handlers.relayed]
chain = ["null"]
"""
PATHS: dict[str, list[str]] = {
    "none: the kernel forwards": [],
    "packet ring (`wifu daemon --serve`)": ["daemon", "--serve", "relayed"],
    "NFQUEUE (`wifu core`)": ["core", "--by", "nfqueue"],
    "TUN (`wifu core --by tun`)": ["core", "--by", "tun"],
}
UNHURRIED = ["-b", "10M", "-t", "2"]


@contextlib.contextmanager
def relaying(lab: Lab, wifu: Path, command: Sequence[str]) -> Iterator[Process | None]:
    """Have the router's packets take a path meanwhile."""
    if lab.router is None or not command:
        yield None
        return
    for device in ("eth0", "eth1"):  # daemons serve by interfaces that have addresses
        address = f"{lab.router.address}/32"
        lab.router.run("ip", "address", "replace", address, "dev", device)
    files: list[str | Path] = ["--config", lab.scratch / "hooked.toml"]
    if command[0] == "daemon":
        files = ["--file", lab.scratch / "relayed.toml", "--socket", lab.door(lab.router)]
    program = lab.start(lab.router, wifu, *command, *files)
    try:
        if command[0] == "daemon":
            answers = partial(daemon_answers, lab.router, wifu, lab.door(lab.router))
            wait_for("the router's daemon", answers, program)
        else:
            wait_for("wifu core", lambda: "ready" in program.said(), program)
        yield program
    finally:
        program.stop()


def paths(args: argparse.Namespace, order: random.Random) -> Table:
    """What a relay's packets gain and lose by the path on which a handler sees them."""
    head = [
        "path",
        "unshaped, Mb/s",
        "round trip at 10 Mb/s, us",
        "CPU of the program, us a packet",
    ]
    title = (
        "A relay, by the path on which a handler that does nothing gets its packets: median (range)"
    )
    table = Table(title, head, [], [])
    with Lab("paths", None, offloads=False, routed=True) as lab:
        ends = lab.scratch / "ends.toml"
        ends.write_text(RELAYED)
        (lab.scratch / "relayed.toml").write_text(RELAYED + BROUGHT)
        (lab.scratch / "hooked.toml").write_text(NULL.format(json.dumps(["forward"])))
        bench = Bench(lab, args.bin / "wifu", ["relayed"], ["--file", str(ends)])
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in PATHS}
        for _ in range(args.rounds):
            for name in order.sample(list(PATHS), len(PATHS)):
                with relaying(lab, bench.wifu, PATHS[name]) as program:
                    (calm,) = bench.streams("relayed", UNHURRIED)
                    before = cpu_seconds(program.popen.pid) if program else 0.0
                    (busy,) = bench.streams("relayed", ["-t", str(args.seconds)])
                    spent = cpu_seconds(program.popen.pid) - before if program else 0.0
                own = busy["wifu"]
                packets = own["segments"] + own["feedback_segments"]
                trip = calm["wifu"]["round_trips"]["p50_s"]
                found[name].append((goodput(busy), 1e6 * trip, 1e6 * spent / packets))
    for name, rounds in found.items():
        rates, trips, costs = zip(*rounds, strict=True)
        table.rows.append([name, mbit(rates), spread(trips), spread(costs)])
        table.raw.append({"path": name, "rate_rtt_cost": rounds})
        print("  " + ", ".join(table.rows[-1]), flush=True)
    return table


def simulator(args: argparse.Namespace, _order: random.Random) -> Table:
    """CPU time of the mesh simulator, one thread."""
    head = ["run", "simulated s per CPU s", "us per attempt", "published: ns-2, ns-3"]
    head += ["ns-2 here", "ratio"]
    title = "Mesh simulator, one thread: simulated s per CPU s, median (range)"
    table = Table(title, head, [], [])
    binary = args.bin / "examples" / "mesh_speed"
    for name, (what, peers) in MESHES.items():
        runs, ns2 = [], []
        for _ in range(args.rounds):
            runs.append(json.loads(run(binary, name, "--json", timeout=300)))
            if name in NS2 and shutil.which("ns"):
                ns2.append(ns2_speed(*NS2[name]))
        rates = [float(r["seconds_per_cpu_second"]) for r in runs]
        each = statistics.median(float(r["us_per_attempt"]) for r in runs)
        row = [what, spread(rates), f"{each:.2f}", peers]
        row += (
            [spread(ns2), f"{statistics.median(rates) / statistics.median(ns2):.2f}"]
            if ns2
            else ["", ""]
        )
        table.rows.append(row)
        table.raw.append({"run": name, "runs": runs, "ns2_seconds_per_cpu_second": ns2})
        print("  " + ", ".join(row), flush=True)
    return table


def spread(values: Sequence[float]) -> str:
    """Median and range."""
    return f"{statistics.median(values):.4g} ({min(values):.4g}-{max(values):.4g})"


def ns2_speed(rate: str, seconds: int) -> float:
    """Simulated seconds per CPU second of ns-2 on a chain like ours."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = run("ns", Path(__file__).parent / "ns2_chain.tcl", rate, str(seconds), timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if float(said.split("goodput_mbps")[1].split()[0]) < 0.1:
        raise LabError(f"ns-2 carried nothing: {said}")
    return seconds / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def machine() -> dict[str, object]:
    """Return where and on what this ran."""
    text = Path("/proc/cpuinfo").read_text()
    models = {line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line}
    commit = run("git", "describe", "--always", "--dirty", check=False).strip()
    cores = os.cpu_count()
    return {"cpu": sorted(models), "cores": cores, "kernel": platform.release(), "commit": commit}


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=Path("target/release"), help="where `wifu` is")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="for the results")
    modern = "tcp-reno,profile=rfc-modern,iw=10"
    parser.add_argument("--protocol", default=modern, help="of WiFu; %(default)s")
    parser.add_argument("--rounds", type=int, default=7, help="transfers of 10 MB per system")
    parser.add_argument("--seconds", type=int, default=5, help="of an unshaped transfer")
    parser.add_argument("--seed", type=int, default=1, help="of the order of turns")
    tables = ["shaped", "fairness", "unshaped", "interception", "paths", "simulator"]
    parser.add_argument("--only", choices=tables, help="one table")
    parser.add_argument(
        "--daemon", nargs="*", default=["--direct"], help="its options on shaped links; %(default)s"
    )
    help_rates = "of shaped links, Mb/s"
    parser.add_argument("--rates", type=float, nargs="+", default=RATES_MBIT, help=help_rates)
    args = parser.parse_args()
    args.bin, args.out = args.bin.resolve(), args.out.resolve()
    return args


def main() -> int:
    """Run the benchmark."""
    args = parse_args()
    need("ip", "tc", "ethtool")
    if not (args.bin / "wifu").exists():
        raise LabError(f"no wifu in {args.bin}: run `make build` first")
    args.out.mkdir(parents=True, exist_ok=True)
    order = random.Random(args.seed)
    tables = []
    tests = {
        "shaped": shaped,
        "fairness": fairness,
        "unshaped": unshaped,
        "interception": interception,
        "paths": paths,
        "simulator": simulator,
    }
    for name, measure in tests.items():
        if args.only in (None, name):
            print(f"{name}:", flush=True)
            tables.append(measure(args, order))
    where = machine()
    text = "\n\n".join(t.markdown() for t in tables)
    text += f"\n\n{where['cores']} cores, Linux {where['kernel']}, commit {where['commit']}."
    (args.out / "bench.md").write_text(text + "\n")
    data = {"machine": where, "seed": args.seed, "tables": [dataclasses.asdict(t) for t in tables]}
    (args.out / "bench.json").write_text(json.dumps(data, indent=1))
    print(f"\n{text}\n\nresults: {args.out}")
    return 0


if __name__ == "__main__":
    main_guard(main)
