"""Plan files: what to run, what to vary, how often, and what to look at.

A plan is TOML. `scenario` is the base, given to the simulator as it is; `vary` names the axes. An
axis is a list, a range (`"1..8"`, `"1,2,5.5"`), or a table of named levels. Its name is either the
path of a scenario key (`"radio.rate" = ["6Mb/s", "24Mb/s"]`), or a name that templates in the
scenario refer to: `topology.words = "linear,{hops+1}"`. A level that is a table sets several paths
at once. A flow with `copies = 5` stands for five, in which `{copy}` counts from 0.

`on` names the substrates; the tables `sim`, `emu` and `live` say what differs there: other values
for levels (`[emu.vary.stack] kernel = "kernel:reno"`), keys of the scenario, another count of runs.
Labels are the same on all of them, so that cells can be compared.

`compositions` names files of compositions, relative to the plan; their text becomes part of the
scenario, and with it of what identifies a run.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wifu import kinds, published, values
from wifu.cells import Axis, Cell, Label, all_cells, digest, levels_of, set_path
from wifu.errors import LabError, PlanError, nearest
from wifu.metrics import MEASURES, RUN_METRICS, Measure
from wifu.toml import locate
from wifu.values import Value
from wifu.variants import SUBSTRATES, changed, instead, settings_of, substrates, without

RESERVED = {"cell", "run", "seed", "status", "error", "flow", "from", "to", "copy"}
"""Names of columns in the results, which no axis may have."""

RUNNERS = {
    "mesh": "the 802.11 mesh simulator (`wifu sim`)",
    "mock": "the wired network of `wifu mock`",
}


LEAST_RUNS = 10
"""Before so many runs no cell stops. To stop as soon as an interval is narrow favours samples that
happen to be close together: nominal 95 % then cover the mean in about 93 to 95 % of the cases, and
in 90 % if three runs were enough to stop.
"""


@dataclass(frozen=True)
class Until:
    """Repeat until the interval of the mean is narrow: half width at most `ci` of the mean."""

    metric: str
    ci: float
    minimum: int
    maximum: int


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
    on: tuple[str, ...] = ("sim",)
    run_timeout: float | None = None
    tolerance: float = 0.1
    settings: Mapping[str, Any] = field(default_factory=dict)
    file: Path | None = None
    text: str = ""

    def variant(self, substrate: str) -> Plan:
        """The same plan on another substrate: the same cells, with what its table changes."""
        if substrate == self.substrate:
            return self
        source = {k: v for k, v in self.source.items() if k != "substrate"}
        if substrate != "sim":
            source["substrate"] = substrate
        return _resolve({"name": self.name, **source}, self.file, self.text)

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
                others += [f"flow.*.{name}" for name in self.recorded]
                if named is not False:
                    record["series"] = ["all", *others] if others else True
            if asked or windows:
                scenario["record"] = record
        else:
            scenario["seed"] = self.seed + run - 1
        return scenario

    def scenario_error(self, cell: Cell, message: str) -> PlanError:
        """What the simulator says about a cell's scenario (`flow[0].app: ...`), with the place in
        the plan.
        """
        path, colon, what = message.partition(": ")
        if not colon or " " in path:
            return PlanError(f"cell {cell.name}: {message}", "scenario", self.file)
        key = "scenario." + re.sub(r"\[(\d+)\]", lambda m: f".{int(m[1]) + 1}", path)
        return PlanError(f"{what} (cell {cell.name})", key, self.file, locate(self.text, key))

    def groups(self) -> list[list[Cell]]:
        """Cells that are compared with each other, hence stop together: same but for `pair`."""
        by: dict[str, list[Cell]] = {}
        for cell in self.cells:
            rest = {k: v for k, v in cell.labels.items() if k != self.pair}
            by.setdefault(json.dumps(rest), []).append(cell)
        return list(by.values())


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
        raise PlanError(f"cannot read: {e.strerror}", file=path) from None
    return parse(text, path, overrides, multirun, resolved)


def parse(
    text: str, path: Path | None = None, overrides: Sequence[str] = (), multirun: bool = False,
    resolved: bool = False,
) -> Plan:  # fmt: skip
    """A plan from TOML text; `path` is for messages and for the plan's name.

    A `resolved` plan was checked when it was: an override may have left out levels it still names.
    """
    try:
        source = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        found = re.search(r"line (\d+)", str(e))
        raise PlanError(f"{e}", "", path, int(found[1]) if found else None) from None
    declared = _labels(source)
    try:
        for override in overrides:
            apply_override(source, override, multirun)
    except PlanError as e:
        raise PlanError(e.message, e.key, path, locate(text, e.key) if e.key else None) from None
    try:
        _embed(source, path)
    except PlanError as e:
        raise PlanError(e.message, e.key, path, locate(text, e.key)) from None
    return _resolve(source, path, text, None if resolved else declared)


def _embed(source: dict[str, Value], path: Path | None) -> None:
    """Put the text of the files of compositions into the scenario: it decides what is run, and a
    plan that a campaign wrote beside its results needs no other file.
    """
    files = source.pop("compositions", None)
    if files is None:
        return
    if not isinstance(files, list) or not all(isinstance(f, str) for f in files):
        raise PlanError('must be a list of files, such as ["mine.toml"]', "compositions")
    folder = path.parent if path else Path()
    texts = []
    for file in files:
        try:
            texts.append((folder / file).read_text())
        except OSError as e:
            raise PlanError(f"cannot read {folder / file}: {e.strerror}", "compositions") from None
    scenario = source.get("scenario")
    if isinstance(scenario, dict):
        scenario["compositions"] = [*scenario.get("compositions", []), *texts]


def _labels(source: Mapping[str, Value]) -> dict[str, set[str]]:
    """The labels of each axis, as text; what is no axis is told later."""
    vary = source.get("vary")
    out: dict[str, set[str]] = {}
    for name, given in vary.items() if isinstance(vary, dict) else ():
        try:
            out[name] = {str(level.label) for level in levels_of(name, given)}
        except LabError:
            continue
    return out


def _resolve(
    source: dict[str, Value], path: Path | None, text: str,
    declared: Mapping[str, set[str]] | None = None,
) -> Plan:  # fmt: skip
    try:
        return replace(_Reader(source, path, declared).plan(), file=path, text=text)
    except PlanError as e:
        line = locate(text, e.key) if e.key else None
        raise PlanError(e.message, e.key, path, line) from None


def apply_override(source: dict[str, Value], override: str, multirun: bool = False) -> None:
    """Apply `key=value`: a key of the plan, an axis, or a scenario path (`radio.rate=6Mb/s`).

    With `multirun`, several values for a scenario path make it an axis, as Hydra's `-m` does.
    """
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not key:
        raise PlanError(f"{override!r} is no override: write key=value")
    head = key.split(".")[0]
    vary = source.setdefault("vary", {})
    if key.removeprefix("vary.") in vary:
        name = key.removeprefix("vary.")
        vary[name] = _chosen(vary[name], text, key)
        without(source, name, [str(v) for v in vary[name]])
    elif head in _KEYS:
        set_path(source, key, values.scalar(text))
    elif head in _SCENARIO_HEADS:
        options = values.sequence(text) if multirun else [values.scalar(text)]
        if len(options) > 1:
            vary[key] = options
        else:
            set_path(source.setdefault("scenario", {}), key, options[0])
    else:
        known = [*_KEYS, *vary, *_SCENARIO_HEADS]
        raise PlanError(
            f"{key} is neither an axis nor a key of plan or scenario; {nearest(key, known)}"
        )


def _chosen(axis: Value, text: str, key: str) -> Value:
    """New values for an axis; for one with named levels, which of them."""
    options = values.sequence(text)
    if not isinstance(axis, dict):
        return options
    for option in options:
        if str(option) not in axis:
            raise PlanError(f"axis {key} has no level {option}; {nearest(str(option), axis)}")
    return {str(o): axis[str(o)] for o in options}


_KEYS = (
    "name", "title", "about", "runner", "scenario", "vary", "zip", "skip", "runs", "until", "seed",
    "deterministic", "pair", "baseline", "measure", "metrics", "figure", "claims", "series", "on",
    "sim", "emu", "live", "substrate", "run_timeout", "tolerance", "compositions",
)  # fmt: skip
_SCENARIO_HEADS = (
    "topology", "radio", "routing", "host", "flow", "handler", "mobility", "event", "stop", "record"
)  # fmt: skip


class _Reader:
    """Turns the tables of a plan into a `Plan`; every error names the key.

    `declared` has the labels of the axes before overrides; without it names of levels are not
    checked again.
    """

    def __init__(
        self, source: dict[str, Value], path: Path | None, declared: Mapping[str, set[str]] | None
    ) -> None:
        self.source = source
        self.known: dict[str, set[str]] | None = None
        if declared is not None:
            now = _labels(source)
            self.known = {
                k: declared.get(k, set()) | now.get(k, set()) for k in {**declared, **now}
            }
        folder = path.resolve().parent.name if path else "plan"
        self.default_name = (
            folder if path and path.name == "plan.toml" else (path.stem if path else "plan")
        )

    def plan(self) -> Plan:
        """The plan, or the first error."""
        self._known(self.source, _KEYS, "")
        runner = self._choice("runner", "mesh", RUNNERS)
        substrate = self._choice("substrate", "sim", SUBSTRATES)
        if substrate != "sim" and runner != "mesh":
            raise PlanError(f"a plan of {runner} runs on sim only", "runner")
        settings = settings_of(self.source, substrate)
        special = self._get(substrate, dict, {})
        scenario = changed(self._get("scenario", dict, {}), special.get("scenario", {}), substrate)
        if not scenario:
            raise PlanError("a plan needs a [scenario]: what one run is", "scenario")
        for key in ("seed", "run"):
            if key in scenario and runner == "mesh":
                raise PlanError(
                    f"the lab sets {key} itself; the plan has `seed`", f"scenario.{key}"
                )
        declared = tuple(self._axes())
        axes = tuple(instead(declared, special.get("vary", {}), substrate))
        zipped = self._zip(axes)
        skip = self._skip(axes)
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
        names = [a.name for a in axes]
        pair = self._get("pair", str, "protocol" if "protocol" in names else None)
        if pair is not None and pair not in names:
            raise PlanError(f"no axis is called {pair}; {nearest(pair, names)}", "pair")
        baseline = self.source.get("baseline")
        self._check_baseline(pair, baseline)
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
            measure=self._measure(),
            metrics=self._metrics(),
            figures=self._figures(names, pair),
            claims=self._claims(),
            series_runs=self._series(),
            recorded=self._recorded(),
            source=self.source,
            cells=self._cells(scenario, declared, axes, zipped, skip),
            substrate=substrate,
            on=self._on(),
            run_timeout=self._timeout(special.get("run_timeout", self.source.get("run_timeout"))),
            tolerance=self._share("tolerance", 0.1),
            settings=settings,
        )

    def _on(self) -> tuple[str, ...]:
        return substrates(self._get("on", list, ["sim"]))

    def _timeout(self, given: Value) -> float | None:
        if given is None:
            return None
        try:
            limit = values.seconds(given)
        except LabError as e:
            raise PlanError(str(e), "run_timeout") from None
        if limit <= 0:
            raise PlanError("is a time above 0", "run_timeout")
        return limit

    def _share(self, key: str, default: float) -> float:
        try:
            share = values.fraction(self.source.get(key, default))
        except LabError as e:
            raise PlanError(str(e), key) from None
        if not 0 < share < 1:
            raise PlanError("is a share between 0 and 1, such as 10%", key)
        return share

    def _cells(
        self, scenario: Mapping[str, Value], declared: Sequence[Axis], axes: Sequence[Axis],
        zipped: Sequence[Sequence[str]], skip: Sequence[Mapping[str, Value]],
    ) -> tuple[Cell, ...]:  # fmt: skip
        cells = tuple(all_cells(scenario, axes, zipped, skip))
        if axes == declared:
            return cells
        # Names of cells may contain a digest of what a level means elsewhere.
        there = {json.dumps(dict(c.labels)): c.name for c in cells}
        for cell in all_cells(self._get("scenario", dict, {}), declared, zipped, skip):
            there[json.dumps(dict(cell.labels))] = cell.name
        return tuple(replace(c, name=there[json.dumps(dict(c.labels))]) for c in cells)

    def _known(self, table: Mapping[str, Value], valid: Iterable[str], path: str) -> None:
        for key in table:
            if key not in valid:
                where = f"{path}.{key}" if path else key
                raise PlanError(f"unknown key; {nearest(key, valid)}", where)

    def _get(self, key: str, kind: type, default: Value) -> Value:
        value = self.source.get(key, default)
        if value is default:
            return default
        right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        if not right:
            names = {str: "text", int: "an integer", bool: "true or false", dict: "a table"}
            raise PlanError(f"must be {names.get(kind, 'a list')}, not {value!r}", key)
        return value

    def _choice(self, key: str, default: str, valid: Iterable[str]) -> str:
        value = self._get(key, str, default)
        if value not in valid:
            raise PlanError(f"{value!r} is none of them; {nearest(value, valid)}", key)
        return str(value)

    def _axes(self) -> Iterator[Axis]:
        for name, given in self._get("vary", dict, {}).items():
            key = f"vary.{name}"
            if name in RESERVED:
                raise PlanError("is the name of a column of the results; choose another", key)
            try:
                levels = tuple(levels_of(name, given))
            except LabError as e:
                raise PlanError(str(e), key) from None
            if not levels:
                raise PlanError("has no values", key)
            labels = [level.label for level in levels]
            twice = [v for v in labels if labels.count(v) > 1]
            if twice:
                raise PlanError(f"has {twice[0]!r} twice", key)
            yield Axis(name, levels)

    def _zip(self, axes: tuple[Axis, ...]) -> tuple[tuple[str, ...], ...]:
        by = {a.name: a for a in axes}
        out = []
        for group in self._get("zip", list, []):
            if not isinstance(group, list) or len(group) < 2:
                raise PlanError('write [["one", "other"]]: axes that go together', "zip")
            for name in group:
                if name not in by:
                    raise PlanError(f"no axis is called {name}; {nearest(str(name), by)}", "zip")
            sizes = {name: len(by[name].levels) for name in group}
            if len(set(sizes.values())) > 1:
                told = ", ".join(f"{k} has {v}" for k, v in sizes.items())
                raise PlanError(f"axes that go together have as many values: {told}", "zip")
            out.append(tuple(group))
        return tuple(out)

    def _until(self) -> Until | None:
        given = self._get("until", dict, None)
        if given is None:
            return None
        if "runs" in self.source:
            raise PlanError("give either runs or until", "until")
        self._known(given, ("metric", "ci", "min", "max"), "until")
        metric = given.get("metric", "goodput")
        self._metric(metric, "until.metric")
        try:
            ci = values.fraction(given.get("ci", "5%"))
        except LabError as e:
            raise PlanError(str(e), "until.ci") from None
        low, high = given.get("min", 10), given.get("max", 100)
        if not (isinstance(low, int) and isinstance(high, int) and LEAST_RUNS <= low <= high):
            raise PlanError(
                f"needs {LEAST_RUNS} <= min <= max: stopping after fewer runs makes intervals that "
                "are too narrow",
                "until",
            )
        if not 0 < ci < 1:
            raise PlanError("is a share of the mean between 0 and 1, such as 5%", "until.ci")
        return Until(metric, ci, low, high)

    def _measure(self) -> Measure:
        given = self.source.get("measure", "transfer")
        if not isinstance(given, str | dict):
            raise PlanError(f"must be text or a table, not {given!r}", "measure")
        table = {"mode": given} if isinstance(given, str) else given
        self._known(table, ("mode", "discard", "from", "to"), "measure")
        mode = table.get("mode", "transfer")
        if mode not in MEASURES:
            raise PlanError(f"{mode!r} is none of them; {nearest(str(mode), MEASURES)}", "measure")
        try:
            start, end = (values.seconds(table.get(k, 0)) for k in ("from", "to"))
        except LabError as e:
            raise PlanError(str(e), "measure") from None
        if mode == "window" and not end > start:
            raise PlanError("needs from and to, such as from = '6s', to = '60s'", "measure")
        discard = table.get("discard", 1)
        if type(discard) is not int or discard < 0:
            raise PlanError(f"is a number of batches, not {discard!r}", "measure.discard")
        return Measure(mode, discard, start, end)

    def _metric(self, name: str, key: str) -> None:
        if name not in RUN_METRICS:
            raise PlanError(f"no metric is called {name}; {nearest(str(name), RUN_METRICS)}", key)

    def _metrics(self) -> tuple[str, ...]:
        names = self._get("metrics", list, ["goodput"])
        for name in names:
            self._metric(str(name), "metrics")
        if not names:
            raise PlanError("needs at least one", "metrics")
        return tuple(names)

    def _figures(self, axes: Sequence[str], pair: str | None) -> tuple[Mapping[str, Any], ...]:
        figures = self._get("figure", list, [])
        for n, figure in enumerate(figures, 1):
            key = f"figure.{n}"
            try:
                for role in kinds.check(figure, axes, self.known, pair, self._recorded()):
                    self._metric(figure[role], role)
            except PlanError as e:
                raise PlanError(e.message, f"{key}.{e.key}" if e.key else key) from None
        return tuple(figures)

    def _claims(self) -> tuple[str, ...]:
        names = self._get("claims", list, [])
        if names:
            try:
                published.select(published.load(), [str(n) for n in names])
            except LabError as e:
                raise PlanError(str(e), "claims") from None
        return tuple(names)

    def _skip(self, axes: Sequence[Axis]) -> tuple[Mapping[str, Value], ...]:
        names = [a.name for a in axes]
        rules = self._get("skip", list, [])
        for rule in rules:
            if not isinstance(rule, dict):
                raise PlanError("write [{ axis = value }]: cells to leave out", "skip")
            for name in rule:
                if name not in names:
                    raise PlanError(f"no axis is called {name}; {nearest(name, names)}", "skip")
                self._skips(name, rule[name])
        return tuple(rules)

    def _skips(self, axis: str, wanted: Value) -> None:
        """A rule that fits no level is a slip of the pen."""
        try:
            options = values.sequence(wanted) if isinstance(wanted, str) else wanted
        except LabError as e:
            raise PlanError(str(e), "skip") from None
        options = options if isinstance(options, list) else [options]
        known = None if self.known is None else self.known[axis]
        if known is not None and not any(str(o) in known for o in options):
            hint = nearest(str(wanted), known)
            raise PlanError(f"axis {axis} has no {wanted}; {hint}", "skip")

    def _series(self) -> frozenset[int]:
        given = self._get("series", dict, {})
        self._known(given, ("runs", "record"), "series")
        runs = given.get("runs", [])
        try:
            runs = values.sequence(runs) if isinstance(runs, str) else runs
        except LabError as e:
            raise PlanError(str(e), "series.runs") from None
        if not isinstance(runs, list) or not all(type(r) is int and r > 0 for r in runs):
            raise PlanError(f"is a list of runs, from 1 on, not {runs!r}", "series.runs")
        return frozenset(runs)

    def _recorded(self) -> tuple[str, ...]:
        """Quantities of flows that the series have besides the usual ones."""
        names = self._get("series", dict, {}).get("record", [])
        if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
            raise PlanError(f"is a list such as ['cubic.w_max'], not {names!r}", "series.record")
        return tuple(names)

    def _check_baseline(self, pair: str | None, baseline: Value) -> None:
        if baseline is None:
            return
        if pair is None:
            raise PlanError("needs `pair`: the axis along which cells are compared", "baseline")
        if self.known is not None and str(baseline) not in self.known[pair]:
            raise PlanError(
                f"{pair} has no {baseline}; {nearest(str(baseline), self.known[pair])}", "baseline"
            )
