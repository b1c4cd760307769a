"""What commands have in common that run campaigns: progress on the screen, figures and reports."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from wifu.api import Results
from wifu.campaign import Campaign, Executor, Summary
from wifu.errors import LabError, nearest
from wifu.figures import NotDrawn, draw_all
from wifu.plan import Plan
from wifu.program import find_program
from wifu.report import write
from wifu.screen import Screen, err
from wifu.store import Store, write_whole

COMPARISON = "comparison.json"
"""The file of a folder that has its comparisons."""


def executor_of(kind: str, jobs: int) -> Executor | None:
    """What runs are done by; none for threads, which a campaign makes itself."""
    if kind == "threads":
        return None
    if kind != "processes":
        raise LabError(f"no executor is called {kind}; {nearest(kind, ['threads', 'processes'])}")
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, context, _deaf_to_interrupts)


def _deaf_to_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def campaign(
    plan: Plan,
    store: Store,
    jobs: int | None,
    executor: str,
    as_json: bool,
    do: Callable[[Campaign], Summary],
) -> Summary:
    """Run a plan on one substrate, and show how far it is; `do` starts or resumes it."""
    workers = jobs or os.cpu_count() or 1
    shown = Screen(quiet=as_json)
    real = plan.substrate != "sim"
    if real and not as_json:
        by = "" if plan.settings.get("hosts") else f", by {find_program()}"
        err.print(f"on {plan.substrate}, one run at a time{by}", highlight=False)
    doing = Campaign(
        plan,
        store,
        executor=None if real else executor_of(executor, workers),
        workers=workers,
        progress=shown,
    )
    try:
        return do(doing)
    finally:
        shown.close()


def report(folder: Path) -> tuple[Path, list[str]]:
    """Draw the figures of results and write their report; also returns which of them could not be
    drawn, and why.
    """
    results = Results(folder)
    compared(results)
    drawn = draw_all(results)
    missed = [f"{d.title}: {d.why}" for d in drawn if isinstance(d, NotDrawn)]
    return write(results, figures=drawn), missed


def compared(results: Results) -> None:
    """Write `comparison.json`: the tables of comparisons, if cells are compared."""
    found = results.comparison()
    path = results.folder / COMPARISON
    if found["tables"]:
        text = json.dumps(found, indent=1) + "\n"
        write_whole(path, text.encode())
    else:
        path.unlink(missing_ok=True)  # of runs that count no more


def exclude(folder: Path, cell: str, run: int, reason: str) -> str:
    """Take a run out of what counts, and write anew what tells of it; returns what was, in words:
    nothing where there was no report.
    """
    store = Store(folder).found()
    manifest, plan = store.manifest(), store.plan()
    names = [c.name for c in plan.cells]
    if cell not in names:
        raise LabError(f"no cell is called {cell}; {nearest(cell, names)}")
    if store.load(cell, run) is None:
        raise LabError(f"{folder} has no run {run} of {cell}")
    manifest["exclusions"].append({"cell": cell, "run": run, "reason": reason})
    store.write_manifest(manifest)
    store.write_tables(plan)
    return _renewed(store.folder)


def _renewed(folder: Path) -> str:
    """Write the report, figures and comparison of a folder anew, if it has any."""
    if (folder / "report.html").exists():
        page, _ = report(folder)
        return f"report, figures and {COMPARISON} are written anew: {page}"
    told = []
    if (folder / COMPARISON).exists():
        compared(Results(folder))
        told.append(f"{COMPARISON} is written anew")
    if any((folder / "figures").glob("*")):
        told.append(f"figures are older: wifu-lab report {folder}")
    return "; ".join(told)
