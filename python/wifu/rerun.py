"""Running results again, to see whether the same comes out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from wifu.campaign import execute
from wifu.cells import Cell
from wifu.errors import LabError, nearest
from wifu.plan import Plan
from wifu.program import need
from wifu.provenance import code_version
from wifu.runner import Runner
from wifu.store import Record, Store, same
from wifu.substrates import runner_for


@dataclass
class Again:
    """What a repetition found."""

    folder: str
    code: str
    codes_then: list[str]
    equal: int = 0
    differ: list[str] = field(default_factory=list)

    def words(self) -> str:
        """What came out, in a sentence."""
        total = self.equal + len(self.differ)
        code = (
            ""
            if [self.code] == self.codes_then
            else (f"; the code is another: {self.code} now, {', '.join(self.codes_then)} then")
        )
        return f"{self.equal} of {total} runs came out the same, byte for byte{code}"

    def to_json(self) -> dict[str, Any]:
        """The same as a tree of JSON."""
        return {**vars(self), "same": not self.differ}


def again(
    store: Store, cell: str | None, runs: int | None, workers: int, runner: Runner | None = None
) -> Again:
    """Repeat the runs of a folder that did not fail, and compare the outcomes whole."""
    store = store.found()
    manifest, plan = store.manifest(), store.plan()
    if plan.substrate != "sim":
        raise LabError(
            f"{store.folder}: runs on {plan.substrate} are in real time: never twice the same"
        )
    need(manifest.get("libraries", []), store.folder)
    names = [c.name for c in plan.cells]
    if cell is not None and cell not in names:
        raise LabError(f"no cell is called {cell}; {nearest(cell, names)}")
    chosen = [
        (c, r)
        for c, r in store.records(plan)
        if r.ok and cell in (None, c.name) and (runs is None or r.run <= runs)
    ]
    if not chosen:
        raise LabError(f"{store.folder} has no run that could be done again")
    do = runner or runner_for(plan)
    code = getattr(do, "code", None) or ("given" if runner else code_version(plan.runner))
    done = Again(str(store.folder), code, list(manifest["code"]))
    with ThreadPoolExecutor(workers) as pool:
        for (_, old), new in zip(
            chosen, pool.map(lambda t: _once(do, plan, *t), chosen), strict=True
        ):
            if new.outcome is not None and same(new.outcome) == same(old.outcome):
                done.equal += 1
            else:
                done.differ.append(f"{old.cell} run {old.run}: {new.error or _where(old, new)}")
    return done


def _once(runner: Runner, plan: Plan, cell: Cell, record: Record) -> Record:
    scenario = plan.scenario_of(cell, record.run)
    return execute(
        runner, scenario, cell.name, record.run, cell.key, "", plan.measure, False
    )[0]  # fmt: skip


def _where(old: Record, new: Record) -> str:
    one, two = old.outcome or {}, new.outcome or {}
    keys = [k for k in sorted({*one, *two}) if same(one.get(k)) != same(two.get(k))]
    return ", ".join(keys)
