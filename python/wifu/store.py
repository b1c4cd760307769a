"""A folder of results: one file per run, tables made from them, and `run.json` about it all.

plan.toml          the plan as resolved, overrides included
run.json           provenance: schema, commit, versions, host, seed, order, failures, exclusions
runs/CELL-RUN.json.gz   one per replicate, failed ones too; written whole or not at all
emu/, live/        the same of other substrates than the simulator
series/CELL-RUN.parquet where the plan asks for series: columns series, time_s, value
results.parquet    one row per run and flow
runs.parquet       one row per run, with all metrics
figures/, report.html
"""

from __future__ import annotations

import gzip
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wifu import cutoff, hops, lastsent, marks, narrow, splits
from wifu import plan as plans
from wifu.cells import Cell
from wifu.errors import LabError, nearest
from wifu.metrics import OLD_COLUMNS, Measure, column, flow_row, run_row
from wifu.plan import Plan
from wifu.variants import SUBSTRATES

SCHEMA = "wifu-lab/1.0"


@dataclass(frozen=True)
class Record:
    """One replicate as it is on disk."""

    cell: str
    run: int
    key: str
    code: str
    status: str
    error: str | None
    wall_s: float
    outcome: dict[str, Any] | None
    repeated: list[dict[str, Any]] = field(default_factory=list)
    """Attempts at it that were stamped INVALID: why, and what they measured."""

    @property
    def ok(self) -> bool:
        """Whether there is an outcome."""
        return self.status == "ok"

    @property
    def invalid(self) -> bool:
        """Whether its last attempt is one of those stamped INVALID: so it failed."""
        return (self.error or "").startswith("InvalidRun")


def idle(outcome: Mapping[str, Any]) -> bool:
    """Whether relays passed on what they do not serve: handlers did not act as they should."""
    return any(flow.get("unserved") for flow in outcome.get("flows", []))


def idle_at(records: Iterable[Record]) -> dict[str, list[str]]:
    """Which relays did not serve what passed them, as far as they are known, by protocol."""
    found: dict[str, set[str]] = {}
    flows = (flow for r in records if r.outcome for flow in r.outcome.get("flows", []))
    for flow in (f for f in flows if f.get("unserved")):
        name = str(flow["protocol"]).split(",")[0]
        found.setdefault(name, set()).update(flow.get("unserved_at", []))
    return {name: sorted(nodes) for name, nodes in sorted(found.items())}


def verdict(outcome: Mapping[str, Any]) -> str | None:
    """The stamp of a run: that of the emulation, or SUSPECT because relays were idle."""
    given: str | None = outcome.get("stamp", {}).get("verdict")
    return "SUSPECT" if idle(outcome) and given != "INVALID" else given


class Store:
    """Reads and writes a folder of results."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @property
    def manifest_path(self) -> Path:
        """`run.json`."""
        return self.folder / "run.json"

    def on(self, substrate: str) -> Store:
        """The folder of another substrate's results: of `sim` this one, of others inside it."""
        return self if substrate == "sim" else Store(self.folder / substrate)

    def found(self, substrate: str | None = None) -> Store:
        """The results that are meant by this folder: those on a substrate, if one is named; else
        its own, or if it has none those of the only substrate inside.
        """
        inside = [s for s in SUBSTRATES if self.on(s).exists()]
        if substrate is not None and substrate not in SUBSTRATES:
            raise LabError(f"no substrate is called {substrate}; {nearest(substrate, SUBSTRATES)}")
        if substrate in inside or (self.exists() and substrate is None):
            return self.on(substrate or "sim")
        if substrate is not None:
            there = f"; it has some on {' and '.join(inside)}" if inside else ""
            raise LabError(f"{self.folder} holds no results on {substrate}{there}")
        if len(inside) > 1:
            names = " or ".join(str(self.folder / s) for s in inside)
            raise LabError(f"{self.folder} holds results on {' and '.join(inside)}: name {names}")
        return self.on(inside[0]) if inside else self

    def exists(self) -> bool:
        """Whether the folder holds results."""
        return self.manifest_path.exists()

    def manifest(self) -> dict[str, Any]:
        """What `run.json` says."""
        try:
            manifest: dict[str, Any] = json.loads(self.manifest_path.read_text())
        except OSError:
            raise LabError(
                f"{self.folder} holds no results: no run.json; {_results_like(self.folder)}"
            ) from None
        except ValueError as e:
            line = getattr(e, "lineno", None)
            where = f"{self.manifest_path}:{line}" if line else str(self.manifest_path)
            raise LabError(
                f"{where}: is no JSON: take it from a copy, or start afresh with `run -o`"
            ) from None
        if not isinstance(manifest, dict):
            raise LabError(f"{self.manifest_path}: is no table of a campaign")
        schema = str(manifest.get("schema"))
        if schema.split(".")[0] != SCHEMA.split(".")[0]:
            raise LabError(f"{self.manifest_path} has schema {schema}; this lab reads {SCHEMA}")
        return manifest

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write `run.json`."""
        write_whole(self.manifest_path, (json.dumps(manifest, indent=1) + "\n").encode())

    def plan(self) -> Plan:
        """The plan of these results; it remembers how it was overridden."""
        if not (self.folder / "plan.toml").exists():
            self.manifest()  # says that there are none
        plan = plans.load(self.folder / "plan.toml", resolved=True)
        overrides = self.manifest().get("overrides", []) if self.exists() else []
        return replace(plan, overrides=tuple(overrides))

    def path_of(self, cell: str, run: int) -> Path:
        """The file of a replicate."""
        return self.folder / "runs" / f"{cell}-{run}.json.gz"

    def save(self, record: Record) -> None:
        """Write a replicate, whole or not at all."""
        text = json.dumps(vars(record), separators=(",", ":"))
        write_whole(self.path_of(record.cell, record.run), gzip.compress(text.encode(), 6, mtime=0))

    def load(self, cell: str, run: int) -> Record | None:
        """Read a replicate; none if there is none, or a file that is no record."""
        path = self.path_of(cell, run)
        try:
            return Record(**json.loads(gzip.decompress(path.read_bytes())))
        except FileNotFoundError:
            return None
        except (OSError, EOFError, ValueError, TypeError):
            return None

    def records(self, plan: Plan) -> Iterable[tuple[Cell, Record]]:
        """All replicates of the plan that are there, in order of cell and run."""
        for cell in plan.cells:
            for run in range(1, plan.max_runs + 1):
                record = self.load(cell.name, run)
                if record is not None and record.key == cell.key:
                    yield cell, record

    def save_series(self, cell: str, run: int, series: Mapping[str, bytes]) -> None:
        """Write the series of a replicate."""
        parts = []
        for name, raw in sorted(series.items()):
            pairs = np.frombuffer(raw, dtype="<f8").reshape(-1, 2)
            parts.append(
                pd.DataFrame({"series": name, "time_s": pairs[:, 0], "value": pairs[:, 1]})
            )
        if parts:
            frame = pd.concat(parts, ignore_index=True)
            frame["series"] = frame["series"].astype("category")
            path = self.folder / "series" / f"{cell}-{run}.parquet"
            write_parquet(frame, path)

    def series(self, cell: str, run: int) -> pd.DataFrame | None:
        """The series of a replicate: columns series, time_s, value; none if there are none."""
        path = self.folder / "series" / f"{cell}-{run}.parquet"
        return read_parquet(path, "series") if path.exists() else None

    def write_tables(self, plan: Plan) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Make `results.parquet` and `runs.parquet` from the files of the runs."""
        tables = self.tables(plan)
        write_parquet(tables[0], self.folder / "results.parquet")
        write_parquet(tables[1], self.folder / "runs.parquet")
        return tables

    def tables(self, plan: Plan) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The same two, not written."""
        flows: list[dict[str, Any]] = []
        runs: list[dict[str, Any]] = []
        excluded = {(e["cell"], e["run"]): e["reason"] for e in self.manifest()["exclusions"]}
        for cell, record in self.records(plan):
            head = {
                "cell": cell.name,
                **cell.labels,
                "run": record.run,
                "seed": plan.seed,
                "status": record.status,
                "error": record.error,
            }
            if (cell.name, record.run) in excluded:
                head |= {"status": "excluded", "error": excluded[cell.name, record.run]}
            runs.append({**head, "wall_s": record.wall_s})
            if plan.substrate == "emu":
                runs[-1]["repeated"] = len(record.repeated)
            if record.outcome is None:
                flows.append(head)
                continue
            outcome = lastsent.known(record.outcome, cell.scenario)
            row = run_row(outcome, plan.measure, more=plan.metrics)
            runs[-1] |= {
                "sim_seconds": outcome.get("sim_seconds"),
                "trace_hash": outcome.get("trace_hash"),
                **({"world": world} if (world := outcome.get("world")) else {}),
                **({"stamp": stamp} if (stamp := verdict(outcome)) else {}),
                **{column(k): v for k, v in row.items()},
                **cutoff.columns(outcome, cell.scenario, row),
                **splits.columns(outcome),
                **marks.columns(outcome),
                **narrow.columns(outcome, cell.scenario),
                **hops.by_link(outcome),
            }
            own = (flow_row(outcome, f, plan.measure, cell.scenario) for f in outcome["flows"])
            flows += [{**head, **row} for row in own]
        tables = _table(flows, plan), _table(runs, plan)
        for table in tables:  # which parquet keeps
            table.attrs["measure"] = dict(vars(plan.measure))
        return tables


def measured(table: pd.DataFrame) -> Measure | None:
    """What a table's goodputs are by; none if an older lab wrote it."""
    made = table.attrs.get("measure")
    return Measure(**made) if made else None


def _table(rows: list[dict[str, Any]], plan: Plan) -> pd.DataFrame:
    # Of no run yet there are the columns of every row.
    head = ["cell", *(a.name for a in plan.axes), "run", "seed", "status", "error"]
    frame = pd.DataFrame(rows) if rows else pd.DataFrame(columns=head)
    for axis in plan.axes:
        if axis.name in frame and not all(isinstance(v.label, int | float) for v in axis.levels):
            frame[axis.name] = frame[axis.name].astype(str)
    return frame


def _results_like(folder: Path) -> str:
    """Where results of this name are, if they are not where they were looked for."""
    usual = Path("out/lab") / folder.name
    if usual != folder and (usual / "run.json").exists():
        return f"those of {folder.name} are in {usual}"
    return "`wifu-lab list results` lists those in out/lab"


def same(value: Any) -> str:
    """An outcome as text in which equal outcomes are equal."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def finite(value: float | None) -> float | None:
    """A number that JSON can say."""
    return value if value is not None and math.isfinite(value) else None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_parquet(path: Path, table: str, axes: Iterable[str] = ()) -> pd.DataFrame:
    """Read one of the tables `OLD_COLUMNS`, with today's names; an axis keeps its own."""
    kept = set(axes)
    names = {k: v for k, v in OLD_COLUMNS[table].items() if k not in kept}
    try:
        return pd.read_parquet(path).rename(columns=names)
    except (OSError, ValueError) as e:  # what pyarrow says of files that are none of its own
        again = "" if table == "series" else ": delete it, and it is made again from those of runs"
        raise LabError(f"{path}: is no table that can be read{again}") from e


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write a table, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    frame.to_parquet(partial, compression="zstd", index=False)
    partial.replace(path)
