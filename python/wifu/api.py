"""`Results`: what a campaign gave, for scripts and notebooks; and what runs one."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wifu import (
    alike,
    cautions,
    cutoff,
    metrics,
    outlets,
    paired,
    phases,
    rings,
    stats,
    taken,
    toml,
    unlike,
)
from wifu.campaign import Campaign, Progress
from wifu.cells import Cell, Label, level_names
from wifu.errors import LabError, nearest
from wifu.metrics import Measure
from wifu.plan import Plan
from wifu.plan import load as load_plan
from wifu.ran import Run as Run
from wifu.ran import why_of
from wifu.rows import labelled
from wifu.runner import Runner, mesh
from wifu.store import Store, measured, read_parquet

COMPARED = 3
"""So many of a plan's metrics, the first ones, are compared: each comparison is a resampling."""

LEVEL = 0.05
"""What p, corrected, must be below for a difference to be marked."""

RATES = ("goodput", "aggregate", "sum_rates")
"""Metrics that batches of one run give an interval of."""

HOLM = "Holm, over the cells of each table"
"""How p is corrected."""


NEWEST = metrics.column("sum_rates")
NEWER = (*map(metrics.column, ("connecting", "delay_p95")), "mac_loss_by_link")
NEWER_OF_FLOWS = ("split", "connecting_s", "requests_bytes", "other_way_back")
"""Columns that tables of older labs lack, as they may `cutoff.COUNT`."""


class Results:
    """What a campaign gave; reads a folder that `wifu-lab run` wrote."""

    def __init__(self, folder: str | Path) -> None:
        self.store = Store(folder)
        self.manifest = self.store.manifest()
        self.plan = self.store.plan()
        results, runs = self.store.folder / "results.parquet", self.store.folder / "runs.parquet"
        if not (results.exists() and runs.exists()):
            self.store.write_tables(self.plan)
        axes = [a.name for a in self.plan.axes]
        self.flows = read_parquet(results, "results", axes)
        self.runs = read_parquet(runs, "runs", axes)
        if self.plan.measure != (made := measured(self.runs)) and "sim_seconds" in self.runs:
            self._other_measure(made)
            self._renew(axes)
        elif not self._newest() and "sim_seconds" in self.runs:
            self._renew(axes)
        if self.runs.empty and any((self.folder / "runs").glob("*.json.gz")):
            raise LabError(
                f"{self.folder}: its runs are of another scenario than its plan.toml has now. "
                "Undo that change, or run the plan into another folder"
            )
        self._compared: dict[tuple[str, str, str], pd.DataFrame] = {}
        self._bounds: dict[tuple[str, str], stats.Interval] = {}
        self._differences: dict[str, list[alike.Difference]] = {}

    def _newest(self) -> bool:
        """Whether the tables are as this lab writes them."""
        known = all(name in self.runs for name in (NEWEST, cutoff.COUNT, *NEWER))
        return known and all(name in self.flows for name in NEWER_OF_FLOWS)

    def _renew(self, axes: list[str]) -> None:
        """Tables that an older lab wrote hold what it took for these metrics: made anew from the
        runs. Without them what was called `aggregate` is told by what it was.
        """
        if (self.store.folder / "runs").is_dir():
            try:
                self.flows, self.runs = self.store.write_tables(self.plan)
            except OSError:  # somebody else's
                self.flows, self.runs = self.store.tables(self.plan)
            return
        if NEWEST not in self.runs:
            self.runs = self.runs.rename(columns={metrics.column("aggregate"): NEWEST})

    def _other_measure(self, made: Measure | None) -> None:
        """An error where the plan says another measure than its tables were made with, and they
        cannot be made anew: of a window a run keeps what was delivered inside, and no more.
        """
        if made is None:
            return
        there = (self.store.folder / "runs").is_dir()
        if self.plan.measure.mode == "window" or not there:
            why = "a window is counted when it is run" if there else "their runs are not there"
            raise LabError(
                f"{self.folder}: the plan's measure is now {self.plan.measure.words!r}, and its "
                f"results are by {made.words!r}; {why}"
            )

    @property
    def folder(self) -> Path:
        """The folder that they were read from."""
        return self.store.folder

    @property
    def ok(self) -> pd.DataFrame:
        """One row per run that counts: neither failed nor excluded."""
        return self.runs[self.runs["status"] == "ok"]

    def to_pandas(self) -> pd.DataFrame:
        """One row per run and flow, failed runs included (column `status`)."""
        return self.flows

    def cells(self, where: Mapping[str, Any] | None = None) -> list[Cell]:
        """Cells with these labels; a value may be a list of labels."""
        chosen = list(self.plan.cells)
        for name, wanted in (where or {}).items():
            axis = self.plan.axis(name)
            known = {str(v.label) for v in axis.levels}
            labels = level_names(wanted, known)
            for label in labels - known:
                raise LabError(f"axis {name} has no {label}; {nearest(label, known)}")
            chosen = [c for c in chosen if str(c.labels[name]) in labels]
        return chosen

    def hops(self, where: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Every hop of every run that counts, of the cells `where`: labels, run, and the columns of
        `Run.hops`. An axis that is called like one of these is called `NAME_asked`. Reads the
        outcomes, so it takes a while for many runs.
        """
        runs = self.ok[["cell", "run"]]
        rows = [
            (cell, {"cell": cell.name, "run": int(run), **hop})
            for cell in self.cells(where)
            for run in runs[runs["cell"] == cell.name]["run"]
            for hop in metrics.hop_rows(self.outcome(cell, int(run)))
        ]
        return labelled(rows)

    def sample(self, metric: str, where: Mapping[str, Any] | None = None) -> pd.Series[float]:
        """A metric of all runs of the cells `where`, in base units; index cell and run. Times are
        those of finished transfers alone: `runs` has the others' with what they took so far, and
        the `attrs["note"]` of the sample tells how many they are.
        """
        if (why := metrics.wrong(metric)) is not None:
            raise LabError(why)
        names = [c.name for c in self.cells(where)]
        name = metrics.column(metric)
        self.look_up(metric)
        if cutoff.of_finished(metric) and (own := cutoff.of_finished_alone(metric)) in self.runs:
            name = own
        if name not in self.ok:
            nothing = pd.MultiIndex.from_arrays([[], []], names=["cell", "run"])
            return pd.Series(dtype=float, index=nothing)
        rows = self.ok[self.ok["cell"].isin(names)].set_index(["cell", "run"])
        column: pd.Series[float] = rows[name].astype(float)
        if len(column) and column.isna().all():
            cell, run = column.index[0]
            # Says what is missing, if that is why there is no value.
            record = self.store.load(str(cell), int(run))
            if record is not None and record.outcome is not None:
                metrics.run_row(record.outcome, self.plan.measure, [metric])
        if note := cutoff.missing(self, self.cells(where), metric):
            column.attrs["note"] = note
        return column.sort_index()

    def look_up(self, metric: str) -> None:
        """Adds to `runs` a metric of a flow alone that the plan does not name, from the outcomes;
        others are there.
        """
        if "@" not in metric or metrics.column(metric) in self.runs:
            return
        scenarios = {cell.name: cell.scenario for cell in self.plan.cells}
        found: dict[str, dict[Any, float]] = {}
        for at, cell, run in zip(self.runs.index, self.runs["cell"], self.runs["run"], strict=True):
            record = self.store.load(str(cell), int(run))
            outcome = (record.outcome if record is not None else None) or {}
            row = metrics.run_row(outcome, self.plan.measure, more=[metric])
            made = {metrics.column(metric): row[metric]}
            if outcome and cutoff.of_finished(metric):
                made |= cutoff.columns(outcome, scenarios[str(cell)], {metric: row[metric]})
            for name, value in made.items():
                found.setdefault(name, {})[at] = value
        for name in found.keys() - {cutoff.COUNT}:
            self.runs[name] = pd.Series(found[name], dtype=float)

    def pairs(
        self, metric: str, one: Mapping[str, Any], two: Mapping[str, Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A metric of two cells, run by run: the same run had the same random numbers."""
        samples = [self.sample(metric, where) for where in (one, two)]
        for where, sample in zip((one, two), samples, strict=True):
            if sample.index.nunique() and sample.index.get_level_values("cell").nunique() > 1:
                words = ", ".join(f"{k} {v}" for k, v in where.items()) or "the plan"
                found = ", ".join(map(str, sample.index.get_level_values("cell").unique()[:4]))
                raise LabError(f"{words} is more than one cell ({found}, ...): say which")
        if any(sample.empty for sample in samples):
            return np.empty(0), np.empty(0)
        x, y = (sample.droplevel("cell") for sample in samples)
        both = pd.concat([x, y], axis=1, join="inner")
        return both.iloc[:, 0].to_numpy(float), both.iloc[:, 1].to_numpy(float)

    def interval(self, metric: str, cell: Cell) -> stats.Interval:
        """Mean of a metric in a cell with its 95 % interval: over runs, or over batches of one;
        without what no value can be, such as a goodput below 0. Where transfers were cut off it is
        the least that the mean can be, and has no bounds.
        """
        if cutoff.least(self, cell, metric):
            return self._least(metric, cell)
        found = self._interval(metric, cell)
        known = metrics.metric_of(metric)
        return found.within(known.least, known.most)

    def _least(self, metric: str, cell: Cell) -> stats.Interval:
        if (found := self._bounds.get((metric, cell.name))) is None:
            known = cutoff.bounded(self, cell, metric)
            found = replace(stats.mean_interval(known), low=float("nan"), high=float("nan"))
            self._bounds[metric, cell.name] = found = replace(found, method="none")
        return found

    def _interval(self, metric: str, cell: Cell) -> stats.Interval:
        x = self.sample(metric, cell.labels).to_numpy(float)
        base, flow = metrics.parts(metric)
        if x.size == 1 and self.plan.measure.mode == "steady" and base in RATES:
            rows = self.flows[(self.flows["cell"] == cell.name) & (self.flows["status"] == "ok")]
            if flow is not None:
                rows = rows[rows["flow"] == flow]
            elif not (datagrams := rows["flow_protocol"].eq("udp")).all():
                rows = rows[~datagrams]
            octets = np.asarray([list(b) for b in rows["batch_bytes"] if b is not None], float)
            if octets.ndim == 2 and octets.shape[1] >= 3:
                own = octets.mean(axis=0) if base == "goodput" else octets.sum(axis=0)
                return stats.batch_rate(own * 8.0, list(rows["batch_s"].iloc[0]))
        known = stats.clean(x)
        if base == "finished" and known.size > 1 and np.isin(known, (0.0, 1.0)).all():
            # That all of so many runs did, or none, says something of others, and not all.
            return stats.wilson(int(known.sum()), int(known.size))
        return stats.mean_interval(known)

    def wide(self) -> list[Cell]:
        """Cells whose interval is still wider than the plan's `until` asks for."""
        until = self.plan.until
        if until is None:
            return []
        found = [(c, self.interval(until.metric, c)) for c in self.plan.cells]
        return [c for c, i in found if i.estimate != 0 and not (i.known and i.relative <= until.ci)]

    def summary(self, metric: str | None = None) -> pd.DataFrame:
        """One row per cell: labels, and mean, 95 % interval, sd, median, ... in its `unit`. `n` are
        the runs that have a value, or the batches of one, whichever the interval is of. Where
        transfers were cut off a mean is `at_least` so much, with each of them until then, and has
        neither interval nor spread; `unfinished` says how many there were, `failed` and `excluded`
        how many runs count nowhere. `attrs["differences"]`, if it is there, has sentences: what
        compared levels differ in besides their names.
        """
        name = metric or self.plan.metrics[0]
        known = metrics.metric_of(name)
        scale, unit = known.scale, known.unit
        rows = []
        for cell in self.plan.cells:
            interval, least = self.interval(name, cell), cutoff.least(self, cell, name)
            x = stats.clean(self.sample(name, cell.labels).to_numpy(float)) / scale
            x = x[:0] if least else x  # those that are known are the quick ones
            rows.append(
                {
                    **cell.labels,
                    "metric": name,
                    "unit": unit,
                    "n": interval.n,
                    "mean": interval.estimate / scale,
                    "low": interval.low / scale,
                    "high": interval.high / scale,
                    "at_least": least,
                    "unfinished": cutoff.beside(self, cell, name),
                    **self._left_out(cell),
                    "sd": float(np.std(x, ddof=1)) if x.size > 1 else float("nan"),
                    "median": float(np.median(x)) if x.size else float("nan"),
                    "least": float(np.min(x)) if x.size else float("nan"),
                    "greatest": float(np.max(x)) if x.size else float("nan"),
                }
            )
        return self._aside(self._table(rows))

    def _left_out(self, cell: Cell) -> dict[str, int]:
        """How many runs of a cell count nowhere, and why."""
        status = self.runs[self.runs["cell"] == cell.name]["status"]
        return {why: int((status == why).sum()) for why in ("failed", "excluded")}

    def differences(self, baseline: Label | None = None) -> list[alike.Difference]:
        """What compared levels differ in besides their names."""
        if (key := str(baseline)) not in self._differences:
            self._differences[key] = alike.differences(self.plan, baseline)
        return self._differences[key]

    def _aside(self, frame: pd.DataFrame, baseline: Label | None = None) -> pd.DataFrame:
        """A table that says what its levels differ in (`frame.attrs["differences"]`)."""
        if told := alike.sentences(self.differences(baseline)):
            frame.attrs["differences"] = told
        return frame

    def _table(self, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
        """Rows of cells as a table in which levels are what the plan calls them: whole numbers
        among fractions too, of which pandas would make fractions.
        """
        frame = pd.DataFrame(rows)
        for name in (a.name for a in self.plan.axes if a.name in frame):
            labels = [row[name] for row in rows]
            if any(isinstance(v, float) for v in labels) and any(type(v) is int for v in labels):
                frame[name] = pd.Series(labels, dtype=object)
        return frame

    def compare(
        self, metric: str, baseline: Label | None = None, pair: str | None = None
    ) -> pd.DataFrame:
        """Each level of the plan's `pair` axis, or of another one, against the baseline, run by
        run.

        The baseline is the plan's, or the first level if the plan has none that was run; of an
        axis that is not the plan's `pair` it is the first level.
        Columns: other labels, level, n (pairs of which both values are known), ratio of means with
        its 95 % interval, mean difference with its (`difference`, `difference_low`,
        `difference_high`, in the `unit` that means are shown in), p of the paired permutation test,
        and `p_holm`: the same corrected by Holm for all rows of this table. Where all runs were
        `identical` nothing is tested and there is no interval. What may be negative, as utility,
        has no ratio, nor where the interval of the baseline's mean reaches 0; that of others ends
        at 0. Of how long transfers take there is neither where some were `cut` off by the end of a
        run. `unfinished` says in words how many of both cells were, whatever the metric. `uneven`:
        none is better or worse, as its values are not of the same, and `why` says what is not. What
        the levels differ in besides their names is in `attrs["differences"]`, in sentences.
        """
        own = self.plan.pair
        pair = own if pair is None else pair
        if pair is None:
            return pd.DataFrame()
        levels = [v.label for v in self.plan.axis(pair).levels]
        known = {str(v): v for v in levels}
        if baseline is not None and str(baseline) not in known:
            raise LabError(f"{pair} has no {baseline}; {nearest(str(baseline), known)}")
        # The plan's own may have been left out by an override.
        if baseline is None and pair == own:
            baseline = self.plan.baseline
        base = known.get(str(baseline), levels[0])
        if (asked := (metric, pair, str(base))) in self._compared:
            return self._compared[asked].copy()
        rows = []
        samples: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        for cell in self.plan.cells:
            if str(cell.labels[pair]) == str(base):
                continue
            against = {**cell.labels, pair: base}
            if not self.cells(against):
                continue
            x, y = self.pairs(metric, cell.labels, against)
            if x.size == 0:
                continue
            both = [cell, *self.cells(against)]
            cut = any(cutoff.least(self, c, metric) for c in both)
            why = unlike.reasons(self, both, metric)
            rest = {k: v for k, v in cell.labels.items() if k != pair}
            rows.append(
                {
                    **rest,
                    pair: cell.labels[pair],
                    "baseline": base,
                    **paired.against(metric, x, y, cut),
                    **({"cut": cut} if cutoff.of_finished(metric) else {}),
                    "unfinished": cutoff.unfinished(self, both, metric),
                    **({"uneven": True, "why": "; ".join(why)} if why else {}),
                }
            )
            # What is known of both sides says nothing of what was cut off.
            samples.append((x[:0], y[:0]) if cut else (x, y))
        frame = self._table(rows)
        if rows:
            tested = [stats.paired_difference(x, y, tests=len(rows)) for x, y in samples]
            frame["p"] = [t.p_permutation for t in tested]
            frame["p_holm"] = stats.holm(frame["p"])
        self._compared[asked] = self._aside(frame, base) if pair == own else frame
        return frame.copy()

    def comparison(self, metrics: Sequence[str] | None = None) -> dict[str, Any]:
        """What the report compares, as data: of each metric (the plan's first ones) the table of
        `compare`, how p was found and corrected, what compared levels differ in besides what
        their names say, and what is to be said beside the numbers of a metric (`notes`).
        """
        chosen = self.plan.metrics[:COMPARED] if metrics is None else metrics
        tables = {name: self.compare(name) for name in chosen}
        rows = import_module("wifu.compared").rows  # which stands on this module
        return {
            "schema": "wifu-lab/1.0",
            "name": self.plan.name,
            "substrate": self.plan.substrate,
            "pair": self.plan.pair,
            "statistic": "ratio of means and mean difference, 95 % intervals",
            "test": None if self.plan.deterministic else "paired permutation test",
            "correction": None if self.plan.deterministic else HOLM,
            "level": LEVEL,
            "differences": [d.to_json() for d in self.differences()],
            "left_out": self._bad(),
            "profiles": [*taken.halves(self.plan), *taken.notes(self.plan)],
            "queues": [
                *rings.warnings(self.plan),
                *outlets.warnings(self.plan),
                *phases.warnings(self.plan),
            ],
            "notes": {k: said for k, frame in tables.items() if (said := self._said(k, frame))},
            "tables": {k: rows(frame, k) for k, frame in tables.items() if not frame.empty},
        }

    def _bad(self) -> list[dict[str, Any]]:
        """The runs that count nowhere, with the reasons."""
        if self.runs.empty:
            return []
        bad = self.runs[self.runs["status"] != "ok"][["cell", "run", "status", "error"]]
        return _rows(bad.rename(columns={"error": "why"}))

    def _said(self, name: str, frame: pd.DataFrame) -> list[str]:
        """The sentences that the report has below a metric's tables."""
        cells = self.plan.cells
        said = [cutoff.sentence(self, cells, name), *cautions.notes(self, cells, name)]
        if not (frame.empty or self.plan.deterministic):
            # What judges comparisons stands on this module.
            said += import_module("wifu.compared").beyond(frame, name)
        return [words for words in said if words]

    def plot(self, kind: str = "bars", ax: Any = None, **keys: Any) -> Any:
        """Draw a figure, with the keys that `[[figure]]` of a plan has, and return its axes.

        On a figure of its own, or on `ax`: matplotlib's axes, as many as the figure has panels (a
        list, or what `plt.subplots` returns), which keep the look of where they come from. Over
        time it is a column of panels for each cell: `results.plot("timeseries",
        show=["cwnd"], from_="1s")`.
        """
        # What draws is loaded by who draws; it stands on this module.
        figures = import_module("wifu.figures")
        spec = {key.removesuffix("_"): value for key, value in keys.items()}
        return figures.show(self, {"kind": kind, **spec}, ax)

    def outcome(self, cell: Cell | str, run: int = 1) -> dict[str, Any]:
        """The whole outcome of a run."""
        name = cell if isinstance(cell, str) else cell.name
        record = self.store.load(name, run)
        if record is None or record.outcome is None:
            raise LabError(f"{self.folder} has no outcome of {name}, run {run}")
        return record.outcome

    def why(self, where: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Why attempts failed (scenario key `record.frames`), a row for each run that counts of the
        cells `where`: labels, run, `attempts`, `failed`, how many by each cause, and the sentence
        as `words`. An axis that is called like one of these is called `NAME_asked`. Reads the
        outcomes, so it takes a while for many runs.
        """
        runs = self.ok[["cell", "run"]]
        rows = []
        for cell in self.cells(where):
            for run in runs[runs["cell"] == cell.name]["run"]:
                why = why_of(self.outcome(cell, int(run)), cell.scenario)
                counts = {"attempts": why["attempts"], "failed": why["failed"], **why["causes"]}
                counts.setdefault("cut", 0)  # told where an event cut a link
                rows.append((cell, {"run": int(run), **counts, "words": why["words"]}))
        return labelled(rows)

    def series(self, cell: Cell | str, run: int = 1) -> dict[str, pd.Series[float]]:
        """The recorded series of a run: by name, values over seconds."""
        name = cell if isinstance(cell, str) else cell.name
        frame = self.store.series(name, run)
        if frame is None:
            return {}
        return {
            str(key): pd.Series(
                part["value"].to_numpy(), index=part["time_s"].to_numpy(), name=str(key)
            )
            for key, part in frame.groupby("series", observed=True)
        }

    def __repr__(self) -> str:
        """What it is and how it went, in a line."""
        bad = int((self.runs["status"] != "ok").sum())
        told = f", {bad} failed or excluded" if bad else ""
        return (
            f"<Results {self.plan.name}: {len(self.plan.cells)} cells, {len(self.runs)} runs"
            f"{told}, {self.manifest['state']}>"
        )

    def _repr_html_(self) -> str:
        metric = metrics.metric_of(self.plan.metrics[0])
        shown = self.summary().round(4)
        least = shown.pop("at_least")
        shown["mean"] = [
            f"{'≥ ' if a else ''}{m:g}" for a, m in zip(least, shown["mean"], strict=True)
        ]
        if not any(shown["unfinished"]):
            del shown["unfinished"]
        for why in ("failed", "excluded"):
            if not any(shown[why]):
                del shown[why]
        head = f"<p><b>{html.escape(self.plan.title)}</b>: {html.escape(metric.axis())}</p>"
        said = alike.sentences(self.differences())
        said += self._said(self.plan.metrics[0], pd.DataFrame())
        told = "".join(f"<p>{html.escape(words)}</p>" for words in said)
        return head + str(shown.to_html(index=False, border=0)) + told


def run(scenario: Mapping[str, Any] | str | Path, runner: Runner = mesh, **changes: Any) -> Run:
    """Run a scenario: a dict, TOML text, or the path of a TOML file. LabError if there is none.

    `changes` set top-level keys: `wifu.run("mesh.toml", seed=7)`.
    """
    if isinstance(scenario, Path) or (isinstance(scenario, str) and "\n" not in scenario):
        if not Path(scenario).is_file():
            raise LabError(
                f"{scenario}: there is no such file; a scenario is a dict, TOML text or the path "
                "of a file, and words of a topology are {'topology': {'words': 'linear,3'}, ...} "
                "in it"
            )
        tree = toml.loads(Path(scenario).read_text(), Path(scenario))
    elif isinstance(scenario, str):
        tree = toml.loads(scenario)
    else:
        tree = dict(scenario)
    tree |= changes
    return Run(tree, runner(tree))


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON can say them: a number that is none is null."""
    plain = json.loads(frame.to_json(orient="records", double_precision=15))
    return list(plain)


def load(folder: str | Path, on: str | None = None) -> Results:
    """The results in a folder: its own, which are the simulator's, or if it has none those of the
    substrate inside; `on="emu"` names one.
    """
    return Results(Store(folder).found(on).folder)


def campaign(
    plan: str | Path | Plan,
    folder: str | Path,
    overrides: Sequence[str] = (),
    runner: Runner | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Results:
    """Run a plan, or what is missing of it, and read the results."""
    plan = plan if isinstance(plan, Plan) else load_plan(plan, overrides)
    store = Store(folder)
    doing = Campaign(plan, store, runner, workers=workers, progress=progress)
    if store.exists():
        doing.resume()
    else:
        doing.start()
    return Results(folder)
