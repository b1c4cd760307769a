"""The tables of a plan, read and checked one by one; every error names the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wifu import habits, kinds, published, values
from wifu.cells import Axis, Cell, Label, level_names, levels_of
from wifu.errors import LabError, PlanError, nearest
from wifu.metrics import MEASURES, RUN_METRICS, Measure, column, flow_row, parts, wrong
from wifu.values import Value
from wifu.variants import substrates

RESERVED = {
    "cell", "run", "seed", "status", "error", "flow", "from", "to", "copy",
    # Of summaries and comparisons.
    "metric", "unit", "n", "mean", "low", "high", "at_least", "unfinished", "sd", "median", "least",
    "greatest", "baseline", "ratio", "difference", "difference_low", "difference_high",
    "identical", "cut", "uneven", "why", "p", "p_holm",
}  # fmt: skip
"""Names of columns in the results, which no axis may have."""

COLUMNS = frozenset({
    *flow_row({}, {"id": 1}, Measure(), {}), *(column(name) for name in RUN_METRICS),
    "wall_s", "repeated", "sim_seconds", "trace_hash", "stamp",
    "delay_finished_s", "delay_median_finished_s", "delay_p95_finished_s", "delay_p99_finished_s",
    "known_finished_s", "delay_cut_off", "delay_settled", "delay_median_settled",
    "delay_p95_settled", "delay_p99_settled", "known_settled",
    "mac_loss_by_link", "mac_retries_by_link",
    "splitters_retransmissions", "splitters_timeouts", "splitters_wait_s",
    # Of `divergence.parquet`.
    "substrate", "paired", "ks", "verdict",
    *(f"{value}_{what}" for value in ("reference", "other", "difference", "relative")
      for what in ("estimate", "low", "high", "n", "at_least", "missing")),
})  # fmt: skip
"""Names of columns of flows and runs, which an axis may not have either: one of the two would stand
in the other's place.
"""

TABLES = ("figure", "skip")
"""Lists of tables."""

LEAST_RUNS = 10
"""Before so many runs no cell stops. To stop as soon as an interval is narrow favours samples that
happen to be close together: nominal 95 % then cover the mean of normal values in about 93 to 95 %
of the cases, and in 90 % if three runs were enough to stop.
"""


def _shown(cells: Sequence[Cell], where: Any) -> list[Cell]:
    """The cells that a figure shows; what is wrong with its `where` is told where it is checked."""
    rules = where if isinstance(where, dict) else {}

    def fits(cell: Cell) -> bool:
        every = {axis: str(label) for axis, label in cell.labels.items()}
        known = {axis: {str(c.labels.get(axis)) for c in cells} for axis in rules}
        chosen = {axis: level_names(wanted, known[axis]) for axis, wanted in rules.items()}
        return all(every.get(axis) in names for axis, names in chosen.items() if axis in every)

    return [cell for cell in cells if fits(cell)]


@dataclass(frozen=True)
class Until:
    """Repeat until the interval of the mean is narrow: half width at most `ci` of the mean."""

    metric: str
    ci: float
    minimum: int
    maximum: int


def labels_in(source: Mapping[str, Value]) -> dict[str, set[str]]:
    """The labels of each axis, as text; what is no axis is told later."""
    vary = source.get("vary")
    out: dict[str, set[str]] = {}
    for name, given in vary.items() if isinstance(vary, dict) else ():
        try:
            out[name] = {str(level.label) for level in levels_of(name, given)}
        except LabError:
            continue
    return out


class Tables:
    """The tables of a plan.

    `declared` has the labels of the axes before overrides; without it names of levels are not
    checked again.
    """

    def __init__(
        self, source: dict[str, Value], path: Path | None, declared: Mapping[str, set[str]] | None
    ) -> None:
        self.source = source
        self.known: dict[str, set[str]] | None = None
        if declared is not None:
            now = labels_in(source)
            self.known = {
                k: declared.get(k, set()) | now.get(k, set()) for k in {**declared, **now}
            }
        folder = path.resolve().parent.name if path else "plan"
        self.default_name = (
            folder if path and path.name == "plan.toml" else (path.stem if path else "plan")
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

    def _known(self, table: Mapping[str, Value], valid: Iterable[str], path: str) -> None:
        for key in table:
            if key not in valid:
                where = f"{path}.{key}" if path else key
                if not path and key in ("protocol", "profile", "lane", "handlers"):
                    raise PlanError(
                        "belongs in a file of compositions, which a plan names: compositions = "
                        '["mine.toml"], beside the plan',
                        key,
                    )
                told = None if path else habits.of_plan(key)
                raise PlanError(f"unknown key; {told or nearest(key, valid)}", where)

    def _get(self, key: str, kind: type, default: Value) -> Value:
        value = self.source.get(key, default)
        if value is default:
            return default
        right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        if not right:
            if key in TABLES and isinstance(value, dict):
                raise PlanError(f"is a list: write [[{key}]]", key)
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
            # What a campaign wrote is read as it is.
            if name in COLUMNS and self.known is not None:
                raise PlanError(
                    "is the name of a column of the results, which would be lost behind it; write "
                    f"another, such as `{name}_asked`, here and as {{{name}_asked}}",
                    key,
                )
            try:
                levels = tuple(levels_of(name, given))
            except LabError as e:
                raise PlanError(str(e), key) from None
            if not levels:
                raise PlanError("has no values", key)
            seen: set[Label] = set()
            for label in (level.label for level in levels):
                if label in seen:
                    raise PlanError(f"has {label!r} twice", key)
                if label != label:
                    raise PlanError("nan is no level", key)
                seen.add(label)
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

    def _measure(self, runner: str) -> Measure:
        given = self.source.get("measure", "transfer")
        if not isinstance(given, str | dict):
            raise PlanError(f"must be text or a table, not {given!r}", "measure")
        table = {"mode": given} if isinstance(given, str) else given
        self._known(table, ("mode", "discard", "from", "to"), "measure")
        mode = table.get("mode", "transfer")
        if mode not in MEASURES:
            raise PlanError(f"{mode!r} is none of them; {nearest(str(mode), MEASURES)}", "measure")
        if runner == "mock" and mode != "transfer":
            raise PlanError(
                f"{mode!r} cannot be had of the wired network, whose outcomes have the whole of "
                "each flow alone: 'transfer' can",
                "measure",
            )
        try:
            start, end = (values.seconds(table.get(k, 0)) for k in ("from", "to"))
        except LabError as e:
            raise PlanError(str(e), "measure") from None
        if mode == "window" and "to" in table and end < start:
            raise PlanError(f"from is after to: {start:g} s and {end:g} s", "measure")
        if mode == "window" and not end > start:
            raise PlanError("needs from and to, such as from = '6s', to = '60s'", "measure")
        discard = table.get("discard", 1)
        if type(discard) is not int or discard < 0:
            raise PlanError(f"is a number of batches, not {discard!r}", "measure.discard")
        return Measure(mode, discard, start, end)

    def _metric(self, name: str, key: str) -> None:
        if (why := wrong(str(name))) is not None:
            raise PlanError(why, key)

    def _metrics(self) -> tuple[str, ...]:
        names = self._get("metrics", list, ["goodput"])
        for name in names:
            self._metric(str(name), "metrics")
        if not names:
            raise PlanError("needs at least one", "metrics")
        return tuple(names)

    def _flows(self, cells: Sequence[Cell], until: Until | None) -> None:
        """Every cell has the flows of which metrics are asked for."""
        asked = [(name, "metrics", cells) for name in self._metrics()]
        asked += [(until.metric, "until.metric", cells)] if until else []
        for n, figure in enumerate(self._get("figure", list, []), 1):
            roles = [role for role in ("metric", "against") if role in figure]
            shown = _shown(cells, figure.get("where"))
            asked += [(figure[role], f"figure.{n}.{role}", shown) for role in roles]
        for name, key, cells in asked:
            flow = parts(name)[1] or 0
            for cell in cells:
                count = len(cell.scenario.get("flow", [])) if "flow" in cell.scenario else 1
                if flow > count:
                    there = f"{count} flow{'' if count == 1 else 's'}"
                    instead = (
                        "`metrics` are of all cells: of those that have it a plan without this one "
                        "tells, and a figure with `where`"
                        if key == "metrics"
                        else "leave the cell out (`where` of the figure, `skip` of the plan)"
                    )
                    raise PlanError(f"{name}: cell {cell.name} has {there}; {instead}", key)
            if flow and len({c.entries[flow - 1] for c in cells if c.entries}) > 1:
                raise PlanError(
                    f"{name}: with other numbers of copies it is another [[scenario.flow]]'s. Put "
                    "flows with copies behind it",
                    key,
                )

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

    def _labels(self, axes: Sequence[str]) -> Mapping[str, Any]:
        return kinds.labels(self.source.get("label", {}), axes, self.known, self._recorded())

    def _claims(self) -> tuple[str, ...]:
        names = self._get("claims", list, [])
        if names:
            try:
                published.select(published.load(), [str(n) for n in names])
            except LabError as e:
                raise PlanError(str(e), "claims") from None
        return tuple(names)

    def _skip(self, axes: Sequence[Axis], substrate: str) -> tuple[Mapping[str, Value], ...]:
        """The rules of the plan, and those of the substrate."""
        names = [a.name for a in axes]
        own, special = self._get("skip", list, []), self.source.get(substrate, {}).get("skip", [])
        found: list[Mapping[str, Value]] = []
        for key, rules in (("skip", own), (f"{substrate}.skip", special)):
            if not isinstance(rules, list):
                raise PlanError("write [{ axis = value }]: cells to leave out", key)
            for rule in rules:
                if not isinstance(rule, dict):
                    raise PlanError("write [{ axis = value }]: cells to leave out", key)
                for name in rule:
                    if name not in names:
                        raise PlanError(f"no axis is called {name}; {nearest(name, names)}", key)
                    self._skips(name, rule[name], key)
                found.append(rule)
        return tuple(found)

    def _skips(self, axis: str, wanted: Value, key: str) -> None:
        """A rule that fits no level is a slip of the pen, and so is a name that is none; numbers
        may reach beyond those that there are.
        """
        try:
            options = values.sequence(wanted) if isinstance(wanted, str) else wanted
        except LabError as e:
            raise PlanError(str(e), key) from None
        options = options if isinstance(options, list) else [options]
        known = None if self.known is None else self.known[axis]
        if known is None or str(wanted) in known:
            return
        missing = [o for o in options if str(o) not in known]
        names = [o for o in missing if isinstance(o, str) and not o.strip().isdigit()]
        if names or len(missing) == len(options):
            lacking = names[0] if names else wanted
            raise PlanError(f"axis {axis} has no {lacking}; {nearest(str(lacking), known)}", key)

    def _series(self) -> frozenset[int]:
        given = self._get("series", dict, {})
        self._known(given, ("runs", "record", "usual"), "series")
        if not isinstance(usual := given.get("usual", True), bool):
            raise PlanError(f"is true or false, not {usual!r}", "series.usual")
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
        for name in names:
            if (why := _not_of_flows(name)) is not None:
                raise PlanError(f"{name!r}: {why}", "series.record")
        return tuple(names)

    def _check_baseline(self, pair: str | None, baseline: Value, axes: Sequence[Axis]) -> None:
        if baseline is None:
            return
        if pair is None:
            having = [a.name for a in axes if str(baseline) in {str(v.label) for v in a.levels}]
            here = f'; here pair = "{having[0]}"' if len(having) == 1 else ""
            raise PlanError(
                f"needs `pair`: the axis along which cells are compared{here}", "baseline"
            )
        if self.known is not None and str(baseline) not in self.known[pair]:
            raise PlanError(
                f"{pair} has no {baseline}; {nearest(str(baseline), self.known[pair])}", "baseline"
            )


def _not_of_flows(name: str) -> str | None:
    """Why `[series] record` cannot have a name that a scenario, or nobody, would write so."""
    head, *rest = name.split(".")
    if head == "flow":
        of = ".".join(rest[1:]) or "cwnd"
        return f"names here are of all flows, without their numbers: write {of!r}"
    if head == "node":
        return "names here are of flows; those of nodes are for series in [scenario.record]"
    if name == "peer" or "peer" in rest:
        own = ".".join(word for word in (head, *rest) if word != "peer") or "window"
        return f"what is the receiver's begins with peer: write 'peer.{own}'"
    return None
