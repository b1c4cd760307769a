"""The command `wifu-lab`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from wifu import alike, conduct, given, published
from wifu import claims as claiming
from wifu import diverge as diverging
from wifu import plan as plans
from wifu import reproduce as reproducing
from wifu.api import Results
from wifu.campaign import Campaign, Summary, check_scenarios, prepare, take_build
from wifu.errors import LabError, nearest
from wifu.figures import ENDS, check_figure, draw
from wifu.kinds import KINDS
from wifu.metrics import RUN_METRICS
from wifu.overrides import set_option
from wifu.plan import Plan
from wifu.report import write
from wifu.rerun import again
from wifu.screen import (
    dry,
    err,
    notes,
    print_claims,
    print_divergence,
    print_lists,
    screen,
    tell,
)
from wifu.store import Store
from wifu.variants import SUBSTRATES, substrates

OK, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
ROOT = Path("out/lab")
REPRODUCED = Path("out/reproduce")
EXPERIMENTS = Path("experiments")

HELP = """\
Experiments with transport protocols over meshes, simulated, emulated (--on emu) or live.

A [b]plan[/b] (TOML) says what one run is, what is varied, and how often it is repeated:

  [dim]wifu-lab list[/dim]                                      plans, results, metrics
  [dim]wifu-lab run experiments/demo[/dim]                      out/lab/demo/report.html
  [dim]wifu-lab run experiments/demo hops=1..3 runs=5[/dim]     change it
  [dim]wifu-lab run experiments/demo -m radio.rate=6M,9M[/dim]  add an axis
  [dim]wifu-lab resume out/lab/demo[/dim]                       go on after Ctrl-C
  [dim]wifu-lab claims WIFU-II AP-T3[/dim]                      published, and verdicts
  [dim]wifu-lab reproduce tcp-ap --quick[/dim]                  all of a paper
  [dim]wifu-lab rerun out/lab/demo[/dim]                        the same once more?

Exit status: 0 all well; 1 runs failed or differ, or a claim failed;
2 wrong plan or usage; 130 interrupted.
"""

app = typer.Typer(
    help=HELP, callback=given.first, rich_markup_mode="rich", no_args_is_help=True,
    invoke_without_command=True, add_completion=False,
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip

Folder = Annotated[Path, typer.Argument(help="A folder of results, such as out/lab/demo.")]
Jobs = Annotated[
    int | None,
    typer.Option("-j", "--jobs", min=1, help="Runs at a time; as many as there are cores."),
]
Engine = Annotated[
    str,
    typer.Option(
        "--executor", help="threads (the simulator does not hold Python's lock) or processes."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs on standard output.")]
Columns = Annotated[
    int | None,
    typer.Option("--columns", min=1, max=2, help="Width of figures: 1 or 2 columns of a paper."),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="Substrates: sim, emu, live, or several (sim,emu); the plan's `on` if not said.",
    ),
]
NoReport = Annotated[
    bool, typer.Option("--no-report", help="Draw nothing; `report` can do it later.")
]


def main() -> None:
    """Entry point of `wifu-lab`."""
    # The end of a batch job's time leaves a folder that resumes, as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app(standalone_mode=True)
    except LabError as e:
        err.print(f"[red]wifu-lab:[/red] {escape(str(e))}", highlight=False)
        sys.exit(WRONG)
    except UnicodeDecodeError as e:
        said = f"a file that is to be read is no UTF-8 text: {e}"
        err.print(f"[red]wifu-lab:[/red] {escape(said)}", highlight=False)
        sys.exit(WRONG)
    except OSError as e:
        # What the system says of a path that was given.
        err.print(f"[red]wifu-lab:[/red] {escape(given.of_system(e))}", highlight=False)
        sys.exit(WRONG)
    except KeyboardInterrupt:
        sys.stdout.flush()
        os._exit(INTERRUPTED)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


@app.command(cls=given.Command)
def run(
    plan: Annotated[Path, typer.Argument(help="A plan file, or a folder with a plan.toml.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="Changes: an axis (hops=1..3), a key of the plan (runs=5), or one of the scenario "
            "(radio.rate=6Mb/s, flow.*.bytes=1M).",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", parser=given.path, help="Folder for the results (out/lab/NAME)."
        ),
    ] = None,
    multirun: Annotated[
        bool,
        typer.Option("-m", "--multirun", help="Several values for a scenario key are an axis."),
    ] = False,
    on: On = None,
    jobs: Jobs = None,
    executor: Engine = "threads",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all, and show what would be run.")
    ] = False,
    no_report: NoReport = False,
    as_json: Json = False,
) -> None:
    """Run a plan: every cell, as often as it says, on all cores; then figures and a report.

    On emu and live, runs are in real time, one at a time, and need root: here, or on live.hosts.
    """
    chosen = plans.load(plan, overrides or [], multirun)
    store = Store(out or ROOT / chosen.name)
    places = substrates(on.split(",")) if on else chosen.on
    # What is wrong on the last of them is told before the first is run.
    variants = [chosen.variant(s) for s in places]
    for variant in variants:
        check_scenarios(variant)
        if not as_json:
            notes(variant)
        if not dry_run:
            prepare(variant)
        elif variant.substrate != "sim":
            take_build(variant)
        if not dry_run and store.on(variant.substrate).exists():
            raise LabError(
                f"{store.on(variant.substrate).folder} already holds results: name another folder "
                f"with -o; `wifu-lab resume {store.folder}` does what is missing there, by the "
                "plan as it was"
            )
    if dry_run:
        warned: set[str] = set()
        for variant in variants:
            dry(variant, store.on(variant.substrate), as_json, warned)
        return
    work = [(v, store.on(v.substrate), Campaign.start) for v in variants]
    _campaigns(store, work, jobs, executor, no_report, as_json)


@app.command(cls=given.Command)
def resume(
    folder: Folder,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", hidden=True)
    ] = None,
    accept_changes: Annotated[
        bool, typer.Option(help="Go on although plan or code changed since; the report says so.")
    ] = False,
    retry_failed: Annotated[bool, typer.Option(help="Also do failed runs again.")] = False,
    plan: Annotated[
        Path | None, typer.Option(help="Take this plan instead of the one in the folder.")
    ] = None,
    on: On = None,
    jobs: Jobs = None,
    executor: Engine = "threads",
    no_report: NoReport = False,
    as_json: Json = False,
) -> None:
    """Go on with an interrupted campaign. What was done stays; refused if plan or code changed.

    On all substrates that the plan's `on` or --on names and on those that have results.
    """
    store, on = _whole(folder, on)
    if changes:
        given.unchanged(store, changes)
    there = [s for s in SUBSTRATES if store.on(s).exists()]
    if not there:
        store.manifest()  # says that there are none
    chosen = plans.load(plan) if plan else store.on(there[0]).plan()
    places = substrates(on.split(",")) if on else substrates([*there, *chosen.on])
    work: list[Work] = []
    for substrate in places:
        own = store.on(substrate)
        if not own.exists():
            work.append((chosen.variant(substrate), own, Campaign.start))
            continue
        variant = chosen.variant(substrate) if plan else own.plan()
        work.append((variant, own, lambda c: c.resume(accept_changes, retry_failed)))
    for variant, _, _ in work:
        # What cannot be run on the last of them is told before the first is.
        if variant.substrate != "sim" and len(work) > 1:
            prepare(variant)
    _campaigns(store, work, jobs, executor, no_report, as_json)


def _whole(folder: Path, on: str | None = None) -> tuple[Store, str | None]:
    """The folder of all substrates, where that of one of them is named; and then which."""
    store = Store(folder)
    if store.exists():
        substrate = store.manifest().get("substrate", "sim")
        if substrate != "sim":
            return Store(folder.resolve().parent), on or substrate
    return store, on


Work = tuple[Plan, Store, Callable[[Campaign], Summary]]


def _campaigns(
    store: Store, work: Sequence[Work], jobs: int | None, executor: str, no_report: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Run a plan on one substrate after the other: never two at once."""
    told: list[dict[str, Any]] = []
    warned: set[str] = set()
    for plan, own, do in work:
        summary = conduct.campaign(plan, own, jobs, executor, as_json, do)
        told.append(
            {
                "results": str(own.folder),
                "state": summary.state,
                "runs": summary.done,
                "failed": [{"cell": c, "run": r, "error": e} for c, r, e in summary.failed],
                "missing": summary.missing,
                "substrate": plan.substrate,
                "differences": [d.to_json() for d in alike.differences(plan)],
            }
        )
        if summary.state == "interrupted":
            # Without a word it would go on with all that the plan says, too.
            names = tuple(p.substrate for p, _, _ in work)
            there = [s for s in SUBSTRATES if store.on(s).exists()]
            more = "" if substrates([*there, *plan.on]) == names else f" --on {','.join(names)}"
            err.print(
                f"interrupted after {summary.done} runs; go on with: wifu-lab resume "
                f"{store.folder}{more}",
                highlight=False,
            )
            if as_json:
                print(json.dumps(_one_or_all(told)))
            sys.stdout.flush()
            os._exit(INTERRUPTED)
        if not as_json:
            tell(own.folder, summary, len(work) > 1, warned)
    divergence = diverging.of_folder(store.folder)
    if divergence:
        divergence.write(store.folder)
    # The first report shows the divergence, too.
    for row, (_, own, _do) in zip(told, work, strict=True):
        if not no_report:
            if not as_json:
                err.print(f"figures and report of {own.folder} ...", highlight=False)
            page, missed = conduct.report(own.folder)
            row |= {"report": str(page), "not_drawn": missed}
            for why in [] if as_json else missed:
                err.print(f"[yellow]warning:[/yellow] not drawn: {escape(why)}", highlight=False)
    if as_json:
        print(json.dumps(_one_or_all(told)))
    else:
        if divergence:
            print_divergence(divergence)
        for row in told:
            screen.print(f"results  {row['results']}", highlight=False)
            if "report" in row:
                screen.print(f"report   {row['report']}", highlight=False)
    if any(row["failed"] for row in told):
        raise typer.Exit(FAILED)


def _one_or_all(told: list[dict[str, Any]]) -> dict[str, Any]:
    return told[0] if len(told) == 1 else {"substrates": told}


@app.command()
def diverge(
    folder: Folder,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Share within which substrates agree; the plan's, or 0.1."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Where results on emu and live differ from the simulator's, by how much, and the verdict.

    KS is Kolmogorov and Smirnov's distance of the two samples (0: alike, 1: they do not overlap), p
    that of their being of one distribution, corrected by Holm over the cells of each table.
    """
    folder = _whole(folder)[0].folder
    found = diverging.of_folder(folder, tolerance)
    if found is None:
        Store(folder).found().manifest()  # says so where there are none at all
        raise LabError(
            f"{folder} has results on fewer than two substrates: wifu-lab resume {folder} --on "
            "sim,emu"
        )
    found.write(folder)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        print_divergence(found)


@app.command()
def report(
    folder: Folder,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", parser=given.path, help="File (FOLDER/report.html)."),
    ] = None,
    columns: Columns = None,
) -> None:
    """Draw the figures of results and write the report: one HTML file, readable anywhere.

    Of each substrate that the folder has results of; with -o of one of them.
    """
    store = Store(folder)
    every = [store.on(s) for s in SUBSTRATES if store.on(s).exists()]
    for own in every if every and out is None else [store.found()]:
        own.write_tables(own.plan())
        results = Results(own.folder)
        conduct.compared(results)
        screen.print(str(write(results, out, columns=columns)), highlight=False)


@app.command(cls=given.Command)
def plot(
    folder: Folder,
    kind: Annotated[
        str, typer.Option("-p", "--plot", help="Kind: `wifu-lab list figures`.")
    ] = "bars",
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Such as metric=jain x=hops where.hops=3,6."),
    ] = None,
    out: Annotated[
        Path, typer.Option("-o", "--out", parser=given.path, help="File, .svg, .pdf or .png.")
    ] = Path("figure.svg"),
    columns: Columns = None,
    on: Annotated[
        str | None, typer.Option("--on", help="Results on this substrate: sim, emu or live.")
    ] = None,
) -> None:
    """Draw one figure of results."""
    import shutil
    import tempfile

    if out.suffix not in ENDS:
        raise LabError(f"{out}: must end with {', '.join(ENDS[:-1])} or {ENDS[-1]}")
    # Below the current folder others are made; elsewhere it is a slip of the pen.
    if not out.parent.is_dir() and not out.parent.resolve().is_relative_to(Path.cwd()):
        raise LabError(f"{out}: there is no folder {out.parent}; make it first")
    results = Results(Store(folder).found(on).folder)
    if results.runs.empty:
        raise LabError(f"{results.folder}: no run is done yet: wifu-lab resume {folder}")
    spec: dict[str, Any] = {"kind": kind}
    if columns is not None:
        spec["columns"] = columns
    levels = {a.name: [str(v.label) for v in a.levels] for a in results.plan.axes}
    for option in options or []:
        if option in KINDS:
            raise LabError(f"{option}: the kind of a figure is --plot {option}")
        set_option(spec, option, levels)
    if isinstance(spec.get("show"), str):
        spec["show"] = [spec["show"]]
    check_figure(results, spec)
    with tempfile.TemporaryDirectory() as scratch:
        drawn = draw(results, spec, Path(scratch))
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(getattr(drawn, out.suffix[1:]), out)
    screen.print(f"{out}: {escape(drawn.caption)}", highlight=False)


@app.command("list")
def list_things(
    what: Annotated[
        str, typer.Argument(help="plans, results, metrics, figures or claims; all if not said.")
    ] = "",
    as_json: Json = False,
) -> None:
    """List plans, results, metrics, kinds of figures, claims."""
    every: dict[str, Callable[[], list[dict[str, str]]]] = {
        "plans": lambda: given.plans_in(EXPERIMENTS),
        "results": lambda: given.results_in(ROOT),
        "metrics": lambda: [{"name": k, "about": m.words()} for k, m in RUN_METRICS.items()],
        "figures": lambda: [
            {"name": k, "about": f"{v.about} [{', '.join(v.options)}]"} for k, v in KINDS.items()
        ],
        "claims": lambda: [
            {"name": c.id, "about": f"{c.type}, {c.plan}: {c.says}"} for c in published.load()
        ],
    }
    if what and what not in every:
        raise LabError(f"nothing to list is called {what}; {nearest(what, every)}")
    chosen = {k: f() for k, f in every.items() if what in ("", k)}
    where = {"plans": f"./{EXPERIMENTS}", "results": f"./{ROOT}"}
    print_lists(chosen, where, as_json)


@app.command()
def exclude(
    folder: Folder,
    cell: Annotated[str, typer.Argument(help="Name of the cell.")],
    run: Annotated[int, typer.Argument(help="Number of the run.")],
    reason: Annotated[str, typer.Option(help="Why it must not count; the report says so.")],
) -> None:
    """Take a run out of what counts. It stays on disk, and in the report with the reason; a report
    that is there is written anew.
    """
    if told := conduct.exclude(folder, cell, run, reason):
        print(told)


@app.command()
def rerun(
    folder: Folder,
    cell: Annotated[str | None, typer.Option(help="Only this cell.")] = None,
    runs: Annotated[int | None, typer.Option(help="Only so many runs of each cell.")] = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Run what is in a folder again, and say whether the same comes out, byte for byte."""

    folder = folder.parent if folder.name == "run.json" else folder
    done = again(Store(folder), cell, runs, jobs or os.cpu_count() or 1)
    if as_json:
        print(json.dumps(done.to_json()))
    else:
        screen.print(done.words(), highlight=False)
        for line in done.differ[:20]:
            screen.print(f"  differs: {line}", highlight=False)
    if done.differ:
        raise typer.Exit(FAILED)


@app.command()
def claims(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...",
            help="WIFU-II, AP-T3, WIFU-F6 (a, b and c), AP (all of a paper); all if none is named.",
        ),
    ] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option("-r", "--results", help="Where results are (out/lab, out/reproduce/PAPER)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Published claims: what was measured, with intervals, and the verdict.

    [b]HARD[/b] claims must hold with their bound, in six runs at least; [b]SOFT[/b] ones are judged
    by the estimate alone; [b]INFO[/b] is shown and not judged; [b]HW[/b] means something on real
    hardware only. In places W is the WiFu paper (2012), TA the TCP-AP paper (2011), AT the ATP
    thesis (2011).
    """
    chosen = published.select(published.load(), ids or [])
    folders = results or [ROOT, *(REPRODUCED / paper for paper in published.papers())]
    verdicts = claiming.judge_all(chosen, folders)
    elsewhere = claiming.judge_elsewhere(chosen, folders)
    if as_json:
        told = [
            {**v.to_json(), "on": {s: o.to_json() for s, o in others.items()}}
            for v, others in zip(verdicts, elsewhere, strict=True)
        ]
        print(json.dumps(told))
    else:
        print_claims(verdicts, elsewhere)
    every = [*verdicts, *(v for others in elsewhere for v in others.values())]
    if any(v.verdict == claiming.FAIL for v in every):
        raise typer.Exit(FAILED)


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="atp, tcp-ap or wifu.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Few and short runs: does all of it run? In minutes.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            parser=given.path,
            help="Folder (out/reproduce/PAPER, with --quick PAPER-quick).",
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", help="These experiments: x-t2 or x-t4,x-t5.")
    ] = None,
    on: Annotated[
        str,
        typer.Option("--on", help="Substrates: sim, or also emu and live, in real time, as root."),
    ] = "sim",
    jobs: Jobs = None,
    executor: Engine = "threads",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the experiments; run nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run all experiments of a paper; the table of its claims and the figures at the end.

    [b]atp[/b]     Zhang, Experimental Performance Evaluation of ATP (2011)
    [b]tcp-ap[/b]  ElRakabawy and Lindemann, A Practical Adaptive Pacing Scheme for TCP (2011)
    [b]wifu[/b]    Buck, Lee, Lundrigan and Zappala, WiFu: A Composable Toolkit (2012)

    The whole takes half an hour (ATP) to days of processor time; what each took is told. Ctrl-C
    ends it and leaves what is done: the same command goes on. --only takes one experiment.

      [dim]wifu-lab reproduce tcp-ap --dry-run[/dim]        what there is, and how many runs
      [dim]wifu-lab reproduce tcp-ap --quick[/dim]          does it run here?
      [dim]wifu-lab reproduce wifu --only x-w7[/dim]        Figure 7 alone
      [dim]wifu-lab claims AP[/dim]                         its claims, with all checks

    The folder gets results and a report for each experiment, index.html (claims and figures),
    claims.md, and reproduce.json, which --json prints. The book has a page for each paper
    (Reproduction). Exit status 1: runs failed, or without --quick a claim did.
    """
    known = published.papers()
    if paper not in known:
        raise LabError(f"no paper is called {paper}; {nearest(paper, known)}")
    folder = out or REPRODUCED / (f"{paper}-quick" if quick else paper)
    chosen = only.split(",") if only else []
    doing = reproducing.Reproduction(
        known[paper], folder, quick, tuple(substrates(on.split(","))), jobs, executor, as_json,
        chosen,
    )  # fmt: skip
    if dry_run:
        told = doing.listed()
        if as_json:
            print(json.dumps(told))
        else:
            reproducing.show_listed(told)
        return
    state = doing.run()
    if state == "interrupted":
        err.print(f"interrupted; go on with: {doing.again(out)}", highlight=False)
        sys.stdout.flush()
        os._exit(INTERRUPTED)
    told = doing.finish()
    if as_json:
        print(json.dumps(told))
    lost = any(
        c["verdict"] == claiming.FAIL for v in told["claims"] for c in (v, *v["on"].values())
    )
    if state == "failed" or (lost and not quick):
        raise typer.Exit(FAILED)


if __name__ == "__main__":
    main()
