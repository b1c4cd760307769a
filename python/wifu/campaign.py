"""Campaigns: run a plan on all cores, in blocked random order, so that it can be resumed.

A block is one replicate of every cell, in an order shuffled from the plan's seed; so whatever
changes while a campaign runs hits all cells alike. Everything that finished is on disk at once.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np

from wifu import chance, holding, lastsent, provenance, stats, toml
from wifu.causes import cause
from wifu.cells import Cell
from wifu.emulated import check_build, insist, of_daemons
from wifu.errors import Cancelled, LabError, PlanError, ReplicateError
from wifu.hostlock import exclusive
from wifu.metrics import Measure, run_row
from wifu.places import deaf
from wifu.plan import Plan
from wifu.program import find_program, libraries, loaded, need, take_libraries
from wifu.provenance import code_version
from wifu.runner import Runner, RunResult, check_mesh, dies
from wifu.store import SCHEMA, Record, Store, idle, idle_at, verdict
from wifu.substrates import runner_for
from wifu.tables import LEAST_RUNS
from wifu.underload import load_span, percentiles

Task = tuple[Cell, int]


class Executor(Protocol):
    """Anything shaped like `concurrent.futures`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Run `fn(*args)` somewhere, some time."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; wait for what was taken, unless told not to."""


class Progress(Protocol):
    """Who is told how far a campaign is."""

    def planned(self, total: int, done: int) -> None:
        """So many runs in all (at most, with `until`), so many of them done before."""

    def finished(self, record: Record) -> None:
        """A run ended."""

    def stopped(self, cells: Sequence[Cell], spared: int) -> None:
        """These cells are known well enough: so many runs need not be done."""

    def waiting(self, text: str) -> None:
        """Something else must end first."""


class Silent:
    """A progress that nobody sees."""

    def planned(self, total: int, done: int) -> None:
        """Say nothing."""

    def finished(self, record: Record) -> None:
        """Say nothing."""

    def stopped(self, cells: Sequence[Cell], spared: int) -> None:
        """Say nothing."""

    def waiting(self, text: str) -> None:
        """Say nothing."""


MODELS = {
    "reno": "tcp-linux-reno,profile=linux",
    "cubic": "tcp-linux,profile=linux",
}
"""What the simulator has in place of kernels' congestion controls."""


@dataclass
class Summary:
    """How a campaign ended."""

    state: str
    done: int = 0
    failed: list[tuple[str, int, str]] = field(default_factory=list)
    missing: int = 0


def execute(
    runner: Runner, scenario: dict[str, Any], cell: str, run: int, key: str, code: str,
    measure: Measure, keep_series: bool, needed: Sequence[str] = (),
    rejected: Sequence[dict[str, Any]] = (),
) -> tuple[Record, dict[str, bytes]]:  # fmt: skip
    """One run. Whatever goes wrong in it is its result, not the end of the campaign.

    `rejected`: attempts at it that were stamped INVALID when it was run before, and failed.
    """
    start = time.perf_counter()
    outcome: dict[str, Any] | None = None
    series: dict[str, bytes] = {}
    status, error, repeated = "ok", None, list(rejected)
    try:
        result = insist(runner, scenario, repeated, f"{cell} run {run}")
        outcome = lastsent.known(json.loads(result.json()), scenario)
        outcome = holding.told(outcome, result, scenario)
        if measure.mode == "window":
            for flow in outcome["flows"]:
                name = f"flow.{flow['id']}.delivered"
                # A flow of which nothing arrived has no series, on whatever substrate.
                nothing = not flow["bytes"] and name not in result.series_names()
                raw = b"" if nothing else result.series(name)
                flow["window_bytes"] = window_octets(raw, measure.start, measure.end)
        _digest_delays(outcome, result)
        run_row(outcome, measure, needed)
        series = {n: result.series(n) for n in result.series_names() if keep_series}
    except (KeyboardInterrupt, Cancelled):
        raise
    except BaseException as e:  # a panic of the simulator is no Exception
        words = str(e) if isinstance(e, TimeoutError) else f"{type(e).__name__}: {e}"
        status, error, outcome = "failed", words, None
    wall = round(time.perf_counter() - start, 4)
    return Record(cell, run, key, code, status, error, wall, outcome, repeated), series


def _digest_delays(outcome: dict[str, Any], result: RunResult) -> None:
    """Write down the percentiles of delays under load where each datagram's was recorded."""
    recorded = set(result.series_names())
    for flow in outcome.get("flows", []):
        if (name := f"flow.{flow['id']}.delay") in recorded and flow.get("one_way"):
            flow["under_load"] = percentiles(result.series(name), load_span(outcome))


def window_octets(raw: bytes, start: float, end: float) -> float:
    """Bytes of a cumulative series between two instants."""
    pairs = np.frombuffer(raw, dtype="<f8").reshape(-1, 2)
    total = np.concatenate(([0.0], pairs[:, 1]))
    low, high = np.searchsorted(pairs[:, 0], [start, end], side="right")
    return float(total[high] - total[low])


def block(plan: Plan, run: int, cells: Sequence[Cell]) -> list[Task]:
    """One replicate of each cell, in the order that the plan's seed gives to this block."""
    order = np.random.default_rng([plan.seed, run]).permutation(len(plan.cells))
    chosen = {c.index for c in cells}
    return [(plan.cells[i], run) for i in order if i in chosen]


def check_scenarios(plan: Plan) -> None:
    """Have the simulator check every cell's scenario; an error names the place in the plan."""
    if not plan.cells:
        raise PlanError(f"leaves no cell on {plan.substrate}", "skip", plan.file)
    if plan.runner != "mesh":
        return
    check = check_simulated
    if plan.substrate != "sim":
        check = runner_for(plan).check  # type: ignore[attr-defined]
    elif libraries():
        at, why = dies([plan.scenario_of(c, 1) for c in plan.cells], check_simulated)
        if at in range(len(plan.cells)):
            told = f"cell {plan.cells[at].name}: the process that looked at it died{why}"
            raise PlanError(told, "", plan.file)
    for cell in plan.cells:
        try:
            check(plan.scenario_of(cell, 1))
        except ValueError as e:
            raise cause(plan, cell, str(e), check) from None


def prepare(plan: Plan) -> Runner:
    """The plan's runner; an error if this machine cannot run anything on its substrate."""
    runner = runner_for(plan)
    if plan.substrate != "sim":
        runner.prepare([plan.scenario_of(c, 1) for c in plan.cells])  # type: ignore[attr-defined]
    return runner


def take_build(plan: Plan) -> None:
    """LabError if what is built here cannot run a plan in real time, as its runs would say."""
    if plan.substrate == "emu" and of_daemons(plan.scenario_of(c, 1) for c in plan.cells):
        check_build(find_program())
    elif os.environ.get("WIFU_LOAD"):
        take_libraries(find_program())


def check_simulated(scenario: dict[str, Any]) -> None:
    """ValueError if a scenario means nothing to the simulator."""
    for n, flow in enumerate(scenario.get("flow", [])):
        name = str(flow.get("protocol", ""))
        if name.startswith("kernel:"):
            kind = name.removeprefix("kernel:").split(",")[0]
            model = MODELS.get(kind)
            instead = f"its model here is {model}" if model else "there is no model of it here"
            raise ValueError(
                f"flow.{n + 1}.protocol: {name} needs a kernel: it runs on emu and live; {instead}"
            )
    check_mesh(scenario)


def narrow(sample: Sequence[float], share: float, least: int = LEAST_RUNS) -> bool:
    """Whether a cell is known well enough: half its interval is at most so much of its mean.

    `sample`: of the runs that count, as failed ones do not; of fewer than `least` it never is.
    """
    interval = stats.mean_interval(sample)
    if interval.n < least:
        return False
    # A cell in which nothing ever arrives has no relative interval; more runs do not help.
    return interval.estimate == 0.0 or (interval.known and interval.relative <= share)


def _same(values: Sequence[float], unknown: bool = False) -> bool:
    """Whether all are the same; `unknown` where none is a number. One that is known beside some
    that are not is no sample at all.
    """
    known = [v for v in values if v == v]
    if not known:
        return unknown
    if len(known) == 1 < len(values):
        return False
    # Zeros are cells where nothing arrives.
    return max(known) > 0 and max(known) - min(known) <= stats.SAME * max(known)


class Campaign:
    """A plan, a folder, and what runs it."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        runner: Runner | None = None,
        executor: Executor | None = None,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.plan, self.store = plan, store
        self._given = runner is not None
        self.runner = runner or runner_for(plan)
        self.real = plan.substrate != "sim"
        # Runs in real time would make each other late.
        self.workers = 1 if self.real else workers or os.cpu_count() or 1
        self.executor: Executor = executor or ThreadPoolExecutor(self.workers)
        self.progress = progress or Silent()
        self.code = self._code()
        self._values: dict[str, list[tuple[int, float, str | None]]] = {}
        self._rates: dict[str, list[float]] = {}
        self._rows: dict[str, dict[str, float]] = {}
        self._order: list[list[Any]] = []
        self._records: dict[tuple[str, int], Record] = {}
        self._rejected: dict[tuple[str, int], Sequence[dict[str, Any]]] = {}
        self._libraries = loaded()
        self._created = provenance.now()
        self._notes: list[str] = []
        until = [plan.until.metric] if plan.until else []
        self._needed = (*plan.metrics, *until)

    def _code(self) -> str:
        """Identifies what runs. Of a program in real time it is known once that was looked for."""
        own: str | None = getattr(self.runner, "code", None)
        if own is not None or self._given or self.real:
            return own or ("given" if self._given else "unknown")
        return code_version(self.plan.runner)

    def _program(self) -> str:
        """Which program runs in real time, in words: of two builds it is the one built last."""
        own = getattr(self.runner, "program", None)
        if not self.real or not isinstance(own, str):
            return ""
        return (
            f"; now {own} runs, which WIFU_BIN names, or which was built last: "
            "WIFU_BIN=PATH takes another"
        )

    def start(self) -> Summary:
        """Run a plan into a folder that holds no results yet."""
        if self.store.exists():
            raise LabError(
                f"{self.store.folder} already holds results: name another folder with -o, or "
                "`wifu-lab resume` it"
            )
        self._check()
        return self._run(plan=True)

    def resume(self, accept_changes: bool = False, retry_failed: bool = False) -> Summary:
        """Do what is missing. Refused if plan or code changed, unless that is accepted."""
        manifest = self.store.manifest()
        before = {row["name"]: row["sha256"] for row in manifest.get("libraries", [])}
        now = {row["name"]: row["sha256"] for row in self._libraries}
        need(manifest.get("libraries", []), self.store.folder)
        self._check()
        self._created = manifest["created"]
        self._notes = list(manifest.get("notes", []))
        if (seed := manifest.get("seed", self.plan.seed)) != self.plan.seed:
            raise LabError(
                f"{self.store.folder} has the seed {seed}, and the plan {self.plan.seed}: runs "
                "of the same number would be no pairs. Start afresh with `run -o`"
            )
        changes = []
        if manifest["plan_sha256"] != self.plan.sha256:
            changes.append("the plan")
        if self.code not in manifest["code"]:
            changes.append(f"the code ({', '.join(manifest['code'])} then, {self.code} now)")
        changes += [
            f"the library {name} ({before.get(name, 'none')} then, {own} now)"
            for name, own in now.items()
            if before.get(name) != own
        ]
        if changes and not accept_changes:
            raise LabError(
                f"{self.store.folder}: {' and '.join(changes)} changed since these results were "
                f"made{self._program()}. Start afresh with `run -o`, or mix them knowingly with "
                "--accept-changes"
            )
        if changes:
            self._notes.append(
                f"{provenance.now()}: resumed although {' and '.join(changes)} changed"
            )
        for _, record in self.store.records(self.plan):
            if record.ok or not retry_failed:
                self._remember(record)
            else:
                self._rejected[record.cell, record.run] = record.repeated
        return self._run(plan=bool(changes))

    def _check(self) -> None:
        if not self._given:
            check_scenarios(self.plan)
            if self.real:
                self.runner = prepare(self.plan)
                self.runner.told = self.progress.waiting  # type: ignore[attr-defined]
                self.code = self._code()

    def _resolved(self) -> dict[str, Any]:
        source = dict(self.plan.source)
        return {"name": self.plan.name, **source}

    def _run(self, plan: bool) -> Summary:
        """Do what is missing; `plan`: the folder gets this plan first."""
        state = "failed"
        with self._lock(), self._alone():
            if plan:
                (self.store.folder / "plan.toml").write_text(toml.dumps(self._resolved()))
            self._write("running")
            try:
                self.progress.planned(len(self.plan.cells) * self.plan.max_runs, len(self._records))
                self._all_blocks()
                state = "complete"
            except KeyboardInterrupt:
                state = "interrupted"
            finally:
                self.executor.shutdown(wait=state == "complete", cancel_futures=True)
                summary = self._write(state)
                self.store.write_tables(self.plan)
        return summary

    def _alone(self) -> AbstractContextManager[None]:
        """On substrates in real time: this host's only campaign."""
        if not self.real:
            return nullcontext()
        return exclusive(f"{self.plan.name} on {self.plan.substrate}", self.progress.waiting)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self.store.folder.mkdir(parents=True, exist_ok=True)
        with (self.store.folder / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise LabError(f"{self.store.folder}: another campaign writes here") from None
            try:
                yield
            finally:
                (self.store.folder / ".lock").unlink(missing_ok=True)
                with suppress(OSError):  # who waited in vain for others leaves nothing
                    self.store.folder.rmdir()

    def _all_blocks(self) -> None:
        if self.plan.until is None:
            self._do(
                [
                    t
                    for r in range(1, self.plan.runs + 1)
                    for t in block(self.plan, r, self.plan.cells)
                ]
            )
            self._check_variance(final=True)
            self._check_exact()
            return
        until = self.plan.until
        first = range(1, until.minimum + 1)
        self._do([t for r in first for t in block(self.plan, r, self.plan.cells)])
        open_groups = self.plan.groups()
        for run in range(until.minimum, until.maximum + 1):
            if run > until.minimum:
                self._do(block(self.plan, run, [c for g in open_groups for c in g]))
            still = []
            for group in open_groups:
                known = [[v for _, v, _ in self._values.get(c.name, [])] for c in group]
                if all(narrow(values, until.ci) for values in known):
                    self.progress.stopped(group, (until.maximum - run) * len(group))
                else:
                    still.append(group)
            open_groups = still
            if not open_groups:
                break
        self._check_variance(final=True)

    def _do(self, tasks: Sequence[Task]) -> None:
        """Run tasks in order, some at once. An interrupt lets those under way end."""
        self._order += [[c.name, r] for c, r in tasks]
        waiting = [t for t in tasks if (t[0].name, t[1]) not in self._records]
        waiting.reverse()
        running: set[Future[Any]] = set()
        # Not `concurrent.futures.wait`: an interrupt within it leaves futures locked for ever.
        done: SimpleQueue[Future[Any]] = SimpleQueue()
        try:
            while waiting or running:
                while waiting and len(running) < self.workers:
                    running.add(future := self._submit(*waiting.pop()))
                    future.add_done_callback(done.put)
                future = done.get()
                running.discard(future)
                self._take(future)
        except BaseException:
            with deaf() if self.real else nullcontext():
                # What is made for a run in real time is removed by the thread that made it.
                getattr(self.runner, "cancel", lambda: None)()
                for future in running:
                    if not future.cancelled() and future.exception() is None:
                        self._keep(*future.result())
            raise

    def _submit(self, cell: Cell, run: int) -> Future[Any]:
        return self.executor.submit(
            execute, self.runner, self.plan.scenario_of(cell, run), cell.name, run, cell.key,
            self.code, self.plan.measure, run in self.plan.series_runs, self._needed,
            self._rejected.get((cell.name, run), ()),
        )  # fmt: skip

    def _take(self, future: Future[Any]) -> None:
        record, series = future.result()
        self._keep(record, series)
        self.progress.finished(record)
        self._check_variance(cell=record.cell)

    def _keep(self, record: Record, series: dict[str, bytes]) -> None:
        if series:
            self.store.save_series(record.cell, record.run, series)
        self.store.save(record)
        self._remember(record)

    def _remember(self, record: Record) -> None:
        self._records[record.cell, record.run] = record
        if record.outcome is None:
            return
        metric = self.plan.until.metric if self.plan.until else self.plan.metrics[0]
        row = run_row(record.outcome, self.plan.measure, more=[metric])
        value = row[metric]
        trace = record.outcome.get("trace_hash")
        self._values.setdefault(record.cell, []).append((record.run, value, trace))
        self._rates.setdefault(record.cell, []).append(row["sum_rates"])
        if self.plan.deterministic:
            self._rows[record.cell] = self._row(record.outcome)

    def _row(self, outcome: dict[str, Any]) -> dict[str, float]:
        """Every metric of a run, those of the plan first."""
        row = run_row(outcome, self.plan.measure, more=self.plan.metrics)
        return {name: row[name] for name in dict.fromkeys([*self.plan.metrics, *row])}

    def _check_variance(self, cell: str | None = None, final: bool = False) -> None:
        """Refuse replicates that are all the same: they are one sample, not many."""
        if self.plan.deterministic:
            return
        for name in [cell] if cell else list(self._values):
            seen = self._values.get(name, [])
            if len(seen) < (2 if final else 5):
                continue
            traces = {t for _, _, t in seen}
            values = [v for _, v, _ in seen]
            same_trace = len(traces) == 1 and traces != {None}
            # A wire that is full carries the same in all, however its flows share it.
            same_value = _same(values) and _same(self._rates[name], unknown=True)
            if same_trace or (same_value and not self._seldom(name)):
                few = len(set(values)) > 1 and f" (within {stats.SAME:g} of each other)"
                raise ReplicateError(
                    f"cell {name}: {len(seen)} replicates gave identical results{few or ''}: they "
                    "are one sample. Give the scenario something random (flow.jitter, a fading "
                    "link), or say deterministic = true, which runs each cell once"
                )

    def _seldom(self, cell: str) -> bool:
        return any(chance.seldom(c.scenario) for c in self.plan.cells if c.name == cell)

    def _check_exact(self) -> None:
        """Refuse one run for all where a second one, with other random numbers, has other results,
        be it in metrics that the plan does not name: then something is random, and the plan's
        `deterministic` is not true. Traces are not compared: initial sequence numbers are in them.
        """
        if not self.plan.deterministic:
            return
        cells = [c for c in self.plan.cells if c.name in self._values]
        others = [(cell, self._submit(cell, 2)) for cell in cells]
        for cell, other in others:
            record, _ = other.result()
            if told := self._other(cell.name, record):
                raise ReplicateError(
                    f"cell {cell.name}: another run has other results ({told}): something is "
                    "random. Leave out deterministic = true, and say how many runs there are to be"
                )

    def _other(self, cell: str, record: Record) -> str:
        """In what a run is not a cell's one run, in words; nothing if it is the same."""
        if record.outcome is None:
            return record.error or "it failed"
        row = self._row(record.outcome)
        for name, once in self._rows[cell].items():
            again = row[name]
            same = math.isclose(again, once, rel_tol=1e-9) or (again != again and once != once)
            if not same:
                return f"{name} {again:g}, and {once:g} before, in base units"
        return ""

    def _stamps(self) -> dict[str, int]:
        """How many runs were stamped what; those stamped INVALID failed."""
        counts = {"VALID": 0, "SUSPECT": 0, "INVALID": 0}
        unstamped = None if self.plan.substrate == "emu" else "VALID"
        for record in self._records.values():
            if record.outcome is not None and (stamp := verdict(record.outcome) or unstamped):
                counts[stamp] += 1
            counts["INVALID"] += record.invalid
        return counts

    def _idle(self) -> dict[str, int]:
        """Runs in which relays did not serve a protocol, by cell."""
        found = [r.cell for r in self._records.values() if r.outcome and idle(r.outcome)]
        return {cell: found.count(cell) for cell in dict.fromkeys(sorted(found))}

    def _absent(self) -> dict[str, list[str]]:
        """What runs could not tell, in words, and of which cells."""
        found: dict[str, dict[str, None]] = {}
        for record in self._records.values():
            for words in (record.outcome or {}).get("absent", []):
                found.setdefault(words, {})[record.cell] = None
        return {words: sorted(cells) for words, cells in sorted(found.items())}

    def _warned(self) -> dict[str, list[str]]:
        """What outcomes warn of, in sentences, and in which cells; of how many of their runs where
        it is not all.
        """
        known = [record for record in self._records.values() if record.outcome]
        runs = Counter(record.cell for record in known)
        found: dict[str, Counter[str]] = {}
        for record in known:
            for words in dict.fromkeys((record.outcome or {}).get("warnings", [])):
                found.setdefault(words, Counter())[record.cell] += 1

        def named(cell: str, n: int) -> str:
            return cell if n == runs[cell] else f"{cell} in {n} of {runs[cell]} runs"

        return {w: [named(*of) for of in sorted(c.items())] for w, c in sorted(found.items())}

    def _rejections(self) -> dict[str, Any]:
        """How many attempts at how many runs were stamped INVALID, and at which cells."""
        found = [r for r in self._records.values() if r.repeated]
        cells = {r.cell: {"invalid": 0, "attempts": 0} for r in found}
        for record in self._records.values():
            if record.cell in cells:
                cells[record.cell]["invalid"] += len(record.repeated)
                cells[record.cell]["attempts"] += len(record.repeated) + (not record.invalid)
        return {
            "attempts": sum(len(r.repeated) for r in found),
            "runs": len(found),
            "failed": sum(not r.ok for r in found),
            "cells": cells,
        }

    def _write(self, state: str) -> Summary:
        records = self._records.values()
        failed = sorted((r.cell, r.run, r.error or "") for r in records if not r.ok)
        old = self.store.manifest() if self.store.exists() else {}
        codes = {r.code for r in records} | {self.code}
        missing = sum((c, r) not in self._records for c, r in self._order)
        unserved, absent, warned = self._idle(), self._absent(), self._warned()
        self.store.write_manifest(
            {
                "schema": SCHEMA,
                "name": self.plan.name,
                "title": self.plan.title,
                **({"overrides": list(self.plan.overrides)} if self.plan.overrides else {}),
                "state": state,
                "created": self._created,
                "updated": provenance.now(),
                "plan_sha256": self.plan.sha256,
                "runner": self.plan.runner,
                "substrate": self.plan.substrate,
                **({"settings": dict(self.plan.settings)} if self.plan.settings else {}),
                **(
                    {"stamps": self._stamps(), "rejected": self._rejections()}
                    if self.plan.substrate == "emu"
                    else {"stamps": self._stamps()}
                    if unserved
                    else {}
                ),
                **({"unserved": unserved, "unserved_at": idle_at(records)} if unserved else {}),
                **({"absent": absent} if absent else {}),
                **({"warnings": warned} if warned else {}),
                "code": sorted(codes),
                **({"libraries": self._libraries} if self._libraries else {}),
                **provenance.commit(),
                "versions": provenance.versions(),
                "host": provenance.host(),
                "workers": self.workers,
                "seed": self.plan.seed,
                "cells": [
                    {"name": c.name, "labels": dict(c.labels), "key": c.key}
                    for c in self.plan.cells
                ],
                "runs_done": len(self._records),
                "run_seconds": round(sum(r.wall_s for r in records), 3),
                "failed": [{"cell": c, "run": r, "error": e} for c, r, e in failed],
                "exclusions": old.get("exclusions", []),
                "notes": self._notes,
                "order": self._order,
            }
        )
        return Summary(state, len(self._records), failed, missing)
