"""Plan files: what to run, what to vary, how often, and what to look at.

A plan is TOML. `scenario` is the base, given to the simulator as it is; `vary` names the axes. An
axis is a list, a range (`"1..8"`, `"1,2,5.5"`), or a table of named levels. Its name is either the
path of a scenario key (`"radio.rate" = ["6Mb/s", "24Mb/s"]`), or a name that templates in the
scenario refer to: `topology.words = "linear,{hops+1}"`. A level that is a table sets several paths
at once. A flow with `copies = 5` stands for five, in which `{copy}` counts from 0.

`on` names the substrates; the tables `sim`, `emu` and `live` say what differs there: other values
for levels (`[emu.vary.stack] kernel = "kernel:reno"`), keys of the scenario, another count of runs,
cells to leave out. Labels are the same on all of them, so that cells can be compared.

`compositions` names files of compositions, relative to the plan; their text becomes part of the
scenario, and with it of what identifies a run.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wifu import holding, program
from wifu._native import meant
from wifu.cells import ABOVE, Axis, Cell, Label, all_cells, digest, leaves
from wifu.errors import LabError, PlanError, nearest
from wifu.metrics import Measure, of_datagrams
from wifu.overrides import KEYS, apply_override
from wifu.runner import check_mesh, records
from wifu.stacks import stacks
from wifu.tables import Tables, Until, labels_in
from wifu.toml import laid_over, loads, locate
from wifu.undrawn import undrawn
from wifu.values import Value, seconds, sequence, used
from wifu.variants import SUBSTRATES, changed, instead, settings_of

MOST_RUNS = 1_000_000
"""So many runs a plan can have in all: each is listed before the first, and a file afterwards."""

NO_PART = re.compile("no part for [a-z]+ is called `[^`]*`")
"""What the simulator says of a part that is not there."""

RUNNERS = {
    "mesh": "the 802.11 mesh simulator (`wifu sim`)",
    "mock": "the wired network of `wifu mock`",
}


@dataclass(frozen=True)
class Plan:
    """A plan, resolved and checked."""

    name: str
    title: str
    about: str
    runner: str
    scenario: Mapping[str, Value]
    axes: tuple[Axis, ...]
    zipped: tuple[tuple[str, ...], ...]
    skip: tuple[Mapping[str, Value], ...]
    runs: int
    until: Until | None
    seed: int
    deterministic: bool
    pair: str | None
    baseline: Label | None
    measure: Measure
    metrics: tuple[str, ...]
    figures: tuple[Mapping[str, Any], ...]
    claims: tuple[str, ...]
    series_runs: frozenset[int]
    source: Mapping[str, Value]
    cells: tuple[Cell, ...]
    substrate: str = "sim"
    recorded: tuple[str, ...] = ()
    usual: bool = True
    """Whether the usual series are recorded beside these."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    on: tuple[str, ...] = ("sim",)
    run_timeout: float | None = None
    tolerance: float = 0.1
    settings: Mapping[str, Any] = field(default_factory=dict)
    file: Path | None = None
    text: str = ""
    overrides: tuple[str, ...] = ()
    """What was changed of the plan as it is written, which its title may not tell."""

    def variant(self, substrate: str) -> Plan:
        """The same plan on another substrate: the same cells, with what its table changes."""
        if substrate == self.substrate:
            return self
        source = {k: v for k, v in self.source.items() if k != "substrate"}
        if substrate != "sim":
            source["substrate"] = substrate
        made = _resolve({"name": self.name, **source}, self.file, self.text)
        return replace(made, overrides=self.overrides)

    @property
    def prepared(self) -> tuple[str, ...]:
        """The substrates that it says something of: those of `on`, and those with a table."""
        return tuple(s for s in SUBSTRATES if s in self.on or self.source.get(s))

    @property
    def max_runs(self) -> int:
        """The most replicates that a cell can get."""
        return self.until.maximum if self.until else self.runs

    @property
    def sha256(self) -> str:
        """Identifies everything of the plan that decides what is run."""
        decisive = [[c.name, c.key] for c in self.cells]
        until = None if self.until is None else list(vars(self.until).values())
        whole = [self.runner, decisive, self.runs, until, self.seed, self.pair]
        if self.measure.mode == "window":  # what a run delivered inside is kept, and no more
            whole += [[self.measure.start, self.measure.end]]
        if self.substrate != "sim":
            whole += [self.substrate, dict(self.settings)]
        return digest(whole)

    def axis(self, name: str) -> Axis:
        """The axis of this name."""
        for axis in self.axes:
            if axis.name == name:
                return axis
        hint = nearest(name, (a.name for a in self.axes))
        raise PlanError(f"no axis is called {name}; {hint}")

    def scenario_of(self, cell: Cell, run: int) -> dict[str, Value]:
        """The scenario of one replicate. The same `run` gives the same random numbers in all
        cells: protocols are compared under the same fading, placement and traffic.
        """
        scenario = dict(copy.deepcopy(dict(cell.scenario)))
        if self.runner == "mesh":
            scenario["seed"], scenario["run"] = self.seed, run
            record = dict(scenario.get("record", {}))
            real, windows = self.substrate != "sim", self.measure.mode == "window"
            asked = run in self.series_runs
            if real and windows:
                record["delivery"] = True
            if asked or (windows and not real):
                named = record.get("series", True)
                others = [n for n in named if n != "all"] if isinstance(named, list) else []
                others += [f"flow.*.{name}" for name in self.recorded if self._has(cell, name)]
                if named is not False:
                    all_of = ["all"] if self.usual else []
                    record["series"] = [*all_of, *others] if others else self.usual
            if self._delays(scenario):
                record["series"] = _with_delays(record.get("series", False))
            if not real and holding.nodes_of(scenario):
                record["series"] = holding.recorded(record.get("series", False), scenario)
            if record:
                scenario["record"] = record
        else:
            scenario["seed"] = self.seed + run - 1
        return scenario

    def _has(self, cell: Cell, name: str) -> bool:
        """Whether what is recorded is there in a cell: what is of a part, such as `ap11.cov`, is
        where a flow has this part. If none has it anywhere, the simulator says what there is.
        """
        part, dot, rest = name.removeprefix("peer.").partition(".")
        if not dot:
            return True

        def having(c: Cell) -> bool:
            if "." in rest:  # of a lane, behind the name of its node
                return records(c.scenario, f"flow.*.{name}")
            found = [stack for stack in stacks(self.runner, c) if stack is not None]
            return any(part in parts.split(", ") for s in found for parts in s.parts.values())

        return having(cell) or not any(map(having, self.cells))

    def _delays(self, scenario: Mapping[str, Any]) -> bool:
        """Whether each datagram's delay is to be recorded, as a metric is of those under load."""
        asked = [*self.metrics, *([self.until.metric] if self.until else [])]
        asked += [str(f[role]) for f in self.figures for role in ("metric", "against") if role in f]
        if not any(map(of_datagrams, asked)) or (self.substrate == "live" and self._remote()):
            return False
        flows = [f for f in scenario.get("flow", []) if isinstance(f, dict)]
        return len({f.get("protocol") == "udp" for f in flows}) == 2

    def _remote(self) -> bool:
        """Whether runs are between hosts over SSH, whose clocks are not the same."""
        return bool(self.settings.get("hosts"))

    def scenario_error(self, cell: Cell, message: str) -> PlanError:
        """What the simulator says about a cell's scenario (`flow.1.app: ...`), with the place in
        the plan.
        """
        path, colon, what = message.partition(": ")
        if path in ("WIFU_LOAD", "WIFU_BIN"):
            where = "(a variable of the environment, not of the plan)"
            return PlanError(f"{message} {where}{program.both_take(path)}")
        if not colon or " " in path:
            return PlanError(f"cell {cell.name}: {message}", "scenario", self.file)
        key = f"scenario.{path}"
        # Before the names of all that there are, behind which nobody would look for it.
        none = "no protocol of this name"
        what = what.replace(none, f"{none} (one of your own: `compositions`, or WIFU_LOAD)", 1)
        what = NO_PART.sub(r"\g<0> (one of your own: WIFU_LOAD)", what, count=1)
        if path in KEYS and what.startswith("unknown key"):
            what = f"unknown key; {ABOVE}"
        for axis in self.axes:
            if path in (level := axis.of(cell.labels[axis.name])).paths:
                key = f"vary.{axis.name}" + f".{level.label}.{path}" * level.table
                if "." not in path:
                    what += "; what a level sets are paths in the scenario, such as flow.1.from"
        if key.startswith("scenario."):
            what = what.replace(f"write [[{path}]]", f"write [[{key}]]")
        for given in self.overrides:
            name, _, value = given.partition("=")
            if name.strip() in (path, key, f"scenario.{path}"):
                # It is on the command line, and on no line of the plan.
                axis_of = "; several values are an axis with -m" if "," in value else ""
                return PlanError(f"{what} (given as {given}{axis_of})", key)
        return PlanError(f"{what} (cell {cell.name})", key, self.file, locate(self.text, key))

    def groups(self) -> list[list[Cell]]:
        """Cells that are compared with each other, hence stop together: same but for `pair`."""
        by: dict[str, list[Cell]] = {}
        for cell in self.cells:
            rest = {k: v for k, v in cell.labels.items() if k != self.pair}
            by.setdefault(json.dumps(rest), []).append(cell)
        return list(by.values())


def _with_delays(series: Value) -> Value:
    """Series that are recorded, and the delays of datagrams."""
    named = series if isinstance(series, list) else ["all"] * (series is True)
    return named if "flow.*.delay" in named else [*named, "flow.*.delay"]


# Reading ------------------------------------------------------------------------------------------


def load(
    path: str | Path, overrides: Sequence[str] = (), multirun: bool = False, resolved: bool = False
) -> Plan:
    """Read a plan file, or the `plan.toml` of a folder, and apply `key=value` overrides.

    `resolved`: it is what a campaign wrote beside its results.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "plan.toml"
    try:
        text = path.read_text()
    except OSError as e:
        raise PlanError(f"cannot read: {e.strerror}{_near(path)}", file=path) from None
    except UnicodeDecodeError:
        raise PlanError("is no UTF-8 text, as a plan is", file=path) from None
    return parse(text, path, overrides, multirun, resolved)


def _near(path: Path) -> str:
    """A hint at plans beside one that is not there."""
    if path.exists():
        return ""
    beside = [str(p.parent) for p in path.parent.glob("*/plan.toml")]
    beside += [str(p) for p in path.parent.glob("*.toml")]
    question = meant(str(path), sorted(beside))
    return (
        f"; {question} `wifu-lab list plans` lists them"
        if question
        else ("; `wifu-lab list plans` lists what there is")
    )


def parse(
    text: str, path: Path | None = None, overrides: Sequence[str] = (), multirun: bool = False,
    resolved: bool = False,
) -> Plan:  # fmt: skip
    """A plan from TOML text; `path` is for messages and for the plan's name.

    A `resolved` plan was checked when it was: an override may have left out levels it still names.
    """
    source = loads(text, path)
    declared = labels_in(source)
    try:
        for override in [*_quick(source, overrides), *(o for o in overrides if o != QUICK)]:
            apply_override(source, override, multirun)
    except PlanError as e:
        raise PlanError(e.message, e.key, path, locate(text, e.key) if e.key else None) from None
    try:
        _embed(source, path)
    except PlanError as e:
        raise PlanError(e.message, e.key, path, locate(text, e.key)) from None
    try:
        plan = _resolve(source, path, text, None if resolved else declared)
    except PlanError as e:
        for override in overrides:
            given = override.partition("=")[0].strip()
            if e.key in (given, f"vary.{given}", f"scenario.{given}"):
                # It is on the command line, and on no line of the plan.
                told = f"{e.message} (given as {override})"
                raise PlanError(told + _as_list(e.message, override), e.key) from None
        raise
    if not resolved and (why := _beyond(plan)):
        raise PlanError(why, "measure", path, locate(text, "measure"))
    # What overrides leave out of a plan as it is written is told (`undrawn.warnings`), not refused.
    if not resolved and not overrides:
        for key, why in undrawn(plan):
            raise PlanError(why, key, path, locate(text, key))
    return replace(plan, overrides=tuple(overrides))


def _as_list(message: str, override: str) -> str:
    """How to write an override of what must be a list, and was given as words."""
    key, _, text = override.partition("=")
    if not message.startswith("must be a list") or not text:
        return ""
    return f"; write '{key.strip()}={json.dumps(sequence(text))}', quotes and all"


def _beyond(plan: Plan) -> str:
    """Why the window that goodput is of cannot be: it reaches beyond the end of all runs."""
    if plan.measure.mode != "window":
        return ""
    for cell in plan.cells:
        stop = cell.scenario.get("stop")
        last = stop.get("time") if isinstance(stop, dict) else None
        try:
            latest = math.inf if last is None else seconds(last)
        except LabError:
            continue  # the scenario's own check says so, with its line
        if latest < plan.measure.end:
            return (
                f"the window ends at {plan.measure.end:g} s, and runs at {latest:g} s at "
                "the latest (scenario.stop.time): take a window inside"
            )
    return ""


QUICK = "quick=true"
"""The override that makes a plan so small as its key `quick` says."""


def _quick(source: dict[str, Value], overrides: Sequence[str]) -> list[str]:
    """The overrides that a plan's key `quick` lists, if they are wanted."""
    listed = source.pop("quick", None)
    if listed is not None and not (
        isinstance(listed, list) and listed and all(isinstance(o, str) for o in listed)
    ):
        raise PlanError('is a list of overrides, such as ["runs=2", "hops=1,4"]', "quick")
    if QUICK not in overrides:
        return []
    if listed is None:
        raise PlanError("this plan does not say what is left out of it", "quick")
    return list(listed)


def _embed(source: dict[str, Value], path: Path | None) -> None:
    """Put what a topology file and those of compositions say into the scenario: it decides what is
    run, and a plan that a campaign wrote beside its results needs no other file.
    """
    scenario = source.get("scenario")
    topology = scenario.get("topology") if isinstance(scenario, dict) else None
    file = topology.get("file") if isinstance(topology, dict) else None
    # One that is named by a level, as in `{size}.toml`, is read for each cell (`_Reader._read`).
    if isinstance(file, str) and "{" not in file:
        assert isinstance(scenario, dict) and isinstance(topology, dict)
        above = {k: v for k, v in topology.items() if k != "file"}
        scenario["topology"] = laid_over(_topology(file), above)
    files = source.pop("compositions", None)
    if files is None:
        return
    if not isinstance(files, list) or not all(isinstance(f, str) for f in files):
        raise PlanError('must be a list of files, such as ["mine.toml"]', "compositions")
    folder = path.parent if path else Path()
    texts = []
    for file in files:
        if file.endswith(".so"):
            raise PlanError(
                f"{file} is a shared library, which WIFU_LOAD={file} loads; here go TOML files",
                "compositions",
            )
        try:
            texts.append((folder / file).read_text())
        except OSError as e:
            raise PlanError(f"cannot read {folder / file}: {e.strerror}", "compositions") from None
        except UnicodeDecodeError:
            raise PlanError(f"{folder / file} is no UTF-8 text", "compositions") from None
        try:
            loads(texts[-1], folder / file)
        except PlanError as e:
            raise PlanError(str(e), "compositions") from None
    scenario = source.get("scenario")
    if isinstance(scenario, dict):
        scenario["compositions"] = [*scenario.get("compositions", []), *texts]


def _topology(file: str) -> dict[str, Value]:
    try:
        return loads(Path(file).read_text(), Path(file))
    except OSError as e:
        told = f"cannot read {file}: {e.strerror}"
    except UnicodeDecodeError:
        told = f"{file} is no UTF-8 text"
    except PlanError as e:
        told = str(e)
    raise PlanError(told, "scenario.topology.file")


def _resolve(
    source: dict[str, Value], path: Path | None, text: str,
    declared: Mapping[str, set[str]] | None = None,
) -> Plan:  # fmt: skip
    try:
        return replace(_Reader(source, path, declared).plan(), file=path, text=text)
    except PlanError as e:
        if (origin := _origin(source, path, text, e)) is not None:
            raise origin from None
        line = locate(text, e.key) if e.key else None
        raise PlanError(e.message, e.key, path, line) from None


REFERRING = ("figure", "label", "baseline", "pair", "skip", "zip")
"""Keys of a plan that name axes and levels."""


def _origin(
    source: dict[str, Value], path: Path | None, text: str, told: PlanError
) -> PlanError | None:
    """What is wrong with an axis itself, if a reference to it or to a level of it was refused: then
    the slip of the pen is there, and not in what refers to it.
    """
    if told.key.split(".")[0] not in REFERRING:
        return None
    rest = {k: v for k, v in source.items() if k not in (*REFERRING, "substrate")}
    try:
        plan = replace(_Reader(rest, path, None).plan(), file=path, text=text)
    except PlanError:
        return None
    if plan.runner != "mesh":
        return None
    varied = {path for axis in plan.axes for level in axis.levels for path in level.paths}
    varied |= {path for path, value in leaves(dict(plan.scenario)) if used(value)}
    seen: set[tuple[str, Label]] = set()
    for cell in plan.cells:
        if seen.issuperset(cell.labels.items()):
            continue
        seen |= set(cell.labels.items())
        try:
            check_mesh(plan.scenario_of(cell, 1))
        except ValueError as e:
            key = str(e).partition(": ")[0]
            # What is a kernel's is no slip: it is of another substrate.
            if key in varied and "kernel:" not in str(e):
                return plan.scenario_error(cell, str(e))
    return None


def _bounded(cells: int, runs: int, key: str) -> None:
    """An error if there are more runs than a campaign can list and keep."""
    if cells * runs > MOST_RUNS:
        of = f"{cells:,} cells with {runs:,} runs each" if cells > 1 else f"{runs:,} runs"
        raise PlanError(f"{of} are too many: a plan has at most {MOST_RUNS:,} runs in all", key)


class _Reader(Tables):
    """Turns the tables of a plan into a `Plan`."""

    def plan(self) -> Plan:
        """The plan, or the first error."""
        self._known(self.source, KEYS, "")
        # Before what refers to it, so that its errors are told as its own.
        series, recorded = self._series(), self._recorded()
        runner = self._choice("runner", "mesh", RUNNERS)
        substrate = self._choice("substrate", "sim", SUBSTRATES)
        if substrate != "sim" and runner != "mesh":
            raise PlanError(f"a plan of {runner} runs on sim only", "runner")
        settings = settings_of(self.source, substrate)
        special = self._get(substrate, dict, {})
        scenario = changed(self._get("scenario", dict, {}), special.get("scenario", {}), substrate)
        if not scenario:
            raise PlanError("a plan needs a [scenario]: what one run is", "scenario")
        stop = scenario.get("stop", {})
        if runner == "mesh" and not isinstance(stop, dict):
            raise PlanError(f"is a table: stop.time = {json.dumps(stop)}", "scenario.stop")
        for key in ("seed", "run"):
            if key in scenario and runner == "mesh":
                raise PlanError(
                    f"the lab sets {key} itself; the plan has `seed`", f"scenario.{key}"
                )
        declared = tuple(self._axes())
        axes = tuple(instead(declared, special.get("vary", {}), substrate))
        zipped = self._zip(axes)
        skip = self._skip(axes, substrate)
        self._elsewhere(declared, substrate)
        deterministic = self._get("deterministic", bool, False)
        until = self._until()
        runs = 1 if deterministic else self._get("runs", int, 10)
        if deterministic and (until or self.source.get("runs", 1) != 1):
            raise PlanError("a deterministic plan has one run per cell", "deterministic")
        if substrate != "sim" and deterministic:  # real time is never twice the same
            deterministic, runs = False, 10
        if "runs" in special:
            until, runs = None, special["runs"]
            if not isinstance(runs, int) or (deterministic and runs != 1):
                raise PlanError("must be an integer; 1 if deterministic", f"{substrate}.runs")
        if runs < 1:
            raise PlanError("at least one run", "runs")
        most = until.maximum if until else runs
        counts = f"{substrate}.runs" if "runs" in special else "until.max" if until else "runs"
        _bounded(1, most, counts)
        names = [a.name for a in axes]
        alone = names[0] if len(names) == 1 and "baseline" in self.source else None
        pair = self._get("pair", str, self._of_protocols(names) or alone)
        if pair is not None and pair not in names:
            raise PlanError(f"no axis is called {pair}; {nearest(pair, names)}", "pair")
        if isinstance(scenario.get("flow"), dict):
            raise PlanError("is a list: write [[scenario.flow]]", "scenario.flow")
        baseline = self.source.get("baseline")
        # What nothing fills is told first: it may be why there is no axis to compare along.
        cells = self._cells(scenario, declared, axes, zipped, skip)
        self._check_baseline(pair, baseline, axes)
        _bounded(len(cells), most, counts)
        figures = self._figures(names, pair)
        self._flows(cells, until)
        return Plan(
            name=self._get("name", str, self.default_name),
            title=self._get("title", str, self._get("name", str, self.default_name)),
            about=self._get("about", str, "").strip(),
            runner=runner,
            scenario=scenario,
            axes=axes,
            zipped=zipped,
            skip=skip,
            runs=runs,
            until=until,
            seed=self._get("seed", int, 1),
            deterministic=deterministic,
            pair=pair,
            baseline=baseline,
            measure=self._measure(runner),
            metrics=self._metrics(),
            figures=figures,
            labels=self._labels(names),
            claims=self._claims(),
            series_runs=series,
            recorded=recorded,
            usual=self._get("series", dict, {}).get("usual", True),
            source=self.source,
            cells=cells,
            substrate=substrate,
            on=self._on(),
            run_timeout=self._timeout(special.get("run_timeout", self.source.get("run_timeout"))),
            tolerance=self._share("tolerance", 0.1),
            settings=settings,
        )

    def _elsewhere(self, axes: Sequence[Axis], here: str) -> None:
        """Check what the other substrates' tables say: a campaign finds it in its own plan when it
        goes on there, where it can be mended no more. Results that are there already are read.
        """
        for name in (n for n in SUBSTRATES if n != here and self.known is not None):
            special = self._get(name, dict, {})
            settings_of(self.source, name)
            changed(self._get("scenario", dict, {}), special.get("scenario", {}), name)
            list(instead(axes, special.get("vary", {}), name))
            self._skip(axes, name)

    def _of_protocols(self, names: Sequence[str]) -> str | None:
        """The axis that says which protocol a flow has: `protocol`, or the only one that does."""
        if "protocol" in names:
            return "protocol"
        scenario = self._get("scenario", dict, {})
        flows = scenario.get("flow")
        rows = [f for f in flows if isinstance(f, dict)] if isinstance(flows, list) else []
        found = [
            n for n in names if any(str(f.get("protocol")).startswith(f"{{{n}}}") for f in rows)
        ]
        return found[0] if len(found) == 1 else None

    def _cells(
        self, scenario: Mapping[str, Value], declared: Sequence[Axis], axes: Sequence[Axis],
        zipped: Sequence[Sequence[str]], skip: Sequence[Mapping[str, Value]],
    ) -> tuple[Cell, ...]:  # fmt: skip
        cells = tuple(map(self._read, all_cells(scenario, axes, zipped, skip)))
        if axes == declared:
            return cells
        # Names of cells may contain a digest of what a level means elsewhere.
        there = {json.dumps(dict(c.labels)): c.name for c in cells}
        for cell in all_cells(self._get("scenario", dict, {}), declared, zipped, skip):
            there[json.dumps(dict(cell.labels))] = cell.name
        return tuple(replace(c, name=there[json.dumps(dict(c.labels))]) for c in cells)

    def _read(self, cell: Cell) -> Cell:
        """A cell with what the topology file says that its levels name: as if it stood there. The
        plan keeps it, so that results need the file no more.
        """
        topology = cell.scenario.get("topology")
        file = topology.get("file") if isinstance(topology, dict) else None
        if not isinstance(topology, dict) or not isinstance(file, str):
            return cell
        known = self.source.setdefault("topologies", {})
        if file not in known:
            known[file] = _topology(file)
        above = {k: v for k, v in topology.items() if k != "file"}
        return replace(cell, scenario={**cell.scenario, "topology": laid_over(known[file], above)})
