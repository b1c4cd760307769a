"""What `wifu-lab` shows on a terminal: progress, tables, verdicts."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from wifu import (
    advised,
    alike,
    cautions,
    compared,
    crowded,
    cutoff,
    flooding,
    hostcost,
    misnamed,
    outlets,
    phases,
    repeats,
    rings,
    selected,
    skipped,
    splits,
    stats,
    taken,
    undrawn,
    valueless,
    values,
    wired,
)
from wifu import claims as claiming
from wifu import diverge as diverging
from wifu.api import LEVEL, Results
from wifu.campaign import Summary, block
from wifu.cells import Cell
from wifu.digits import number
from wifu.figures.words import Words
from wifu.plan import Plan
from wifu.report import wanted
from wifu.stamps import stamped, warned
from wifu.store import Record, Store

screen = Console()
err = Console(stderr=True)


def counted(count: int, what: str) -> str:
    """A number of things, with the word as one or several of them have it."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


class Screen:
    """Progress as a line that renews itself, or as a few lines where that cannot be."""

    def __init__(self, quiet: bool) -> None:
        self.bar = Bar(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(), TextColumn("{task.fields[told]}"), console=err,
            disable=quiet or not err.is_terminal, transient=False,
        )  # fmt: skip
        self.quiet, self.failed, self.done, self.total, self._told = quiet, 0, 0, 0, 0
        self.task = self.bar.add_task("runs", told="", start=False)

    def planned(self, total: int, done: int) -> None:
        """Begin the bar at what is done already."""
        self.total, self.done = total, done
        self.bar.update(self.task, total=total, completed=done)
        self.bar.start_task(self.task)
        self.bar.start()

    def finished(self, record: Record) -> None:
        """Move the bar on by one run."""
        self.done += 1
        self.failed += not record.ok
        told = f"[red]{self.failed} failed[/red]" if self.failed else ""
        self.bar.update(self.task, advance=1, told=told)
        if not record.ok and self.failed <= 3:
            err.print(
                f"[red]failed[/red] {record.cell} run {record.run}: {escape(record.error or '')}"
            )
        if self.bar.disable and not self.quiet and self.done * 10 // self.total > self._told:
            self._told = self.done * 10 // self.total
            err.print(f"{self.done} of {self.total} runs, {self.failed} failed", highlight=False)

    def stopped(self, cells: Sequence[Cell], spared: int) -> None:
        """The intervals of these cells are narrow enough."""
        self.total -= spared
        self.bar.update(self.task, total=self.total)

    def waiting(self, text: str) -> None:
        """Something else must end first."""
        if not self.quiet:
            err.print(escape(text), highlight=False)

    def close(self) -> None:
        """Leave the bar as it is and go to the next line."""
        self.bar.stop()


def _unbroken() -> Console:
    """Where lines have no end that is known, a row is not to be broken."""
    return screen if screen.is_terminal else Console(width=max(screen.width, UNBROKEN))


UNBROKEN = 400
"""Letters in a line of a table at most, where it is not written on a terminal."""


def tell(
    folder: Path, summary: Summary, several: bool = False, told: set[str] | None = None
) -> None:
    """What a campaign gave; `several`: it is one of those on several substrates, of which warnings
    in `told` stand on the screen already.
    """

    results = Results(folder)
    _unbroken().print(_summary_table(results, several))
    for words in _compared(results):
        screen.print(escape(words), highlight=False)
    if summary.failed:
        screen.print(f"[red]{len(summary.failed)} of {summary.done} runs failed[/red]; the first:")
        cell, run, error = summary.failed[0]
        screen.print(f"  {cell} run {run}: {escape(error)}", highlight=False)
    if wide := results.wide():
        of = counted(len(results.plan.cells), "cell")
        screen.print(
            f"{len(wide)} of {of} {'is' if len(wide) == 1 else 'are'} not known as well as `until` "
            "asks",
            highlight=False,
        )
    for words in stamped(results.manifest):
        screen.print(escape(words), highlight=False)
    cells, metric = results.plan.cells, results.plan.metrics[0]
    every = [
        *warned(results.manifest), *_differences(results.plan),
        cutoff.sentence(results, cells, metric), *cautions.notes(results, cells, metric),
    ]  # fmt: skip
    told = set() if told is None else told
    again = _warn(every, told)
    _note(results.plan, told)
    if again:
        what = "warning holds" if again == 1 else "warnings hold"
        screen.print(f"{again} {what} here, too, told above already", highlight=False)
    if left_out := skipped.sentence(results.plan):
        screen.print(escape(left_out), highlight=False)
    if more := results.plan.metrics[1:]:
        count = f"{len(more)} more metric{'s' if len(more) > 1 else ''}"
        screen.print(f"{count}, in report.html: {escape(', '.join(more))}", highlight=False)


VERDICT = re.compile(r"(?P<how>there is|have) neither colour nor bold", re.IGNORECASE)


def _warn(every: Iterable[str], told: set[str], kind: str = "warning") -> int:
    """Tell each of these that was not `told` yet, and say how many were; what tables do with
    colours is a verdict that is not given.
    """
    new = [words for words in dict.fromkeys(every) if words and words not in told]
    for words in new:
        text = VERDICT.sub(_without, words)
        screen.print(f"[yellow]{kind}:[/yellow] {escape(text)}", highlight=False)
    again = len({words for words in every if words} & told)
    told.update(new)
    return again


def _without(found: re.Match[str]) -> str:
    return {"there is": "no verdict is given", "There is": "No verdict is given"}.get(
        found["how"], "have no verdict"
    )


def warn_of_differences(plan: Plan, told: set[str] | None = None) -> None:
    """Tell what compared levels differ in besides what their names say, and what protocols do not
    take of their profiles, but for what was `told` before.
    """
    told = set() if told is None else told
    _warn(_differences(plan), told)
    _note(plan, told)


def _differences(plan: Plan) -> list[str]:
    """What compared levels differ in besides what their names say, and what else a plan has that
    its reader may not expect.
    """
    return [
        *alike.sentences(alike.differences(plan)),
        *taken.halves(plan),
        *rings.warnings(plan),
        *outlets.warnings(plan),
        *phases.warnings(plan),
        *flooding.warnings(plan),
        *crowded.warnings(plan),
        *misnamed.warnings(plan),
        *splits.warnings(plan),
        *valueless.warnings(plan),
        *wired.warnings(plan),
        *selected.warnings(plan),
        *advised.warnings(plan),
    ]


def _note(plan: Plan, told: set[str]) -> None:
    """What protocols do not take of their profiles, and what the end of runs may cut off."""
    _warn((*taken.notes(plan), *cutoff.warnings(plan)), told, "note")


def notes(plan: Plan) -> None:
    """Tell before a run what its results will lack, and what its hosts cost."""
    for told in (own_runs(plan), hostcost.note(plan)):
        if told:
            err.print(f"[yellow]note:[/yellow] {escape(told)}", highlight=False)
    for told in undrawn.warnings(plan):
        err.print(f"[yellow]warning:[/yellow] {escape(told)}", highlight=False)


def own_runs(plan: Plan) -> str:
    """That a substrate has a count of runs of its own, which `runs=2` does not change."""
    own = plan.source.get(plan.substrate, {}).get("runs")
    asked = [o.partition("=")[0].strip() for o in plan.overrides]
    if own is None or not any(key.split(".")[0] in ("runs", "until") for key in asked):
        return ""
    return (
        f"{plan.substrate} has {counted(own, 'run')} of its own here: {plan.substrate}.runs=N "
        "changes them"
    )


def real_time(plan: Plan) -> str:
    """How long runs take that are in real time, one after the other."""
    stops = [plan.scenario_of(c, 1).get("stop", {}).get("time") for c in plan.cells]
    if None in stops:
        return "in real time, one run at a time, each as long as its flows take"
    longest = sum(values.seconds(stop) for stop in stops) * plan.max_runs
    return (
        f"in real time, one run at a time: {minutes(longest)} at most, and what each takes to begin"
    )


def minutes(seconds: float) -> str:
    """A time for people: seconds, or minutes from two on."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _warn_of_few(plan: Plan) -> None:
    """Tell of fewer runs than it takes to find a difference among so many comparisons."""
    if plan.pair is None or plan.deterministic:
        return
    levels = len(plan.axis(plan.pair).levels)
    tests = len(plan.cells) * (levels - 1) // levels
    runs = plan.max_runs
    if tests and (least := stats.least_p(runs, tests)) >= LEVEL:
        screen.print(
            f"[yellow]warning:[/yellow] no difference can be found, however great: of {runs} pairs "
            f"and {tests} comparisons p is at least {least:.2g}; {stats.enough(tests, LEVEL)} runs "
            "could",
            highlight=False,
        )


def _compared(results: Results) -> Iterator[str]:
    """The main metric of compared cells, a line for each: what the report has with intervals."""
    plan, name = results.plan, results.plan.metrics[0]
    if plan.pair is None or len(plan.axis(plan.pair).levels) < 2:
        return
    frame = results.compare(name)
    if frame.empty:
        return
    words = Words(results, {}, plain=True)
    about = f"{words.metric(name)}, relative to {words.apart(plan.pair, frame['baseline'][0])}"
    yield f"{about[0].upper()}{about[1:]} (paired test, corrected):"
    axes = [a.name for a in plan.axes if a.name != plan.pair]
    rows, few = frame.to_dict("records"), compared.few(frame)
    differences = False
    for row in rows[:MOST_COMPARED]:
        where = ", ".join(f"{words.axis(a)} {words.level(a, row[a])}" for a in axes)
        level = words.apart(plan.pair, row[plan.pair])
        told = _relation(row, name, few)
        differences |= told.startswith("Δ")
        yield f"  {where + ': ' if where else ''}{level} {told}"
    if differences:
        yield "  Δ: mean difference, where a ratio says nothing, as beside a baseline that may be 0"
    if len(rows) > MOST_COMPARED:
        yield f"  and {len(rows) - MOST_COMPARED} more, in the report and in comparison.json"


MOST_COMPARED = 24
"""So many comparisons are told on the screen."""


def _relation(row: Mapping[str, Any], name: str, few: str = "") -> str:
    """A comparison in a few words: ratio, or difference where that says nothing, and p; `few` if
    there are too few runs for any difference to be found.
    """
    if row["identical"]:
        return "the same in every run"
    ratio = row["ratio"]
    if math.isfinite(ratio):
        half = (row["high"] - row["low"]) / 2
        text = f"x {number(ratio, half if half == half else None)}"
    elif math.isfinite(row["difference"]):
        half = (row["difference_high"] - row["difference_low"]) / 2
        value = number(row["difference"], half if half == half else None)
        text = f"Δ {value} {row['unit']}".rstrip()
    else:
        return "cannot be told: transfers were cut off" if row.get("cut") else "cannot be told"
    p = row["p_holm"]
    text += f", p {p:.2g}" if math.isfinite(p) else ""
    why = compared.told(row, name).why
    if why == compared.UNSURE and few:
        return f"{text}; not told apart: {few}"
    return f"{text}; no better or worse: {why}" if why else text


def _summary_table(results: Results, several: bool = False) -> Table:

    place = f", on {results.plan.substrate}" if several or results.plan.substrate != "sim" else ""
    title = f"{results.plan.title}{place}"
    table = Table(title=escape(title), title_justify="left", box=None, pad_edge=False)
    axes = [a.name for a in results.plan.axes]
    words = Words(results, {}, plain=True)
    for axis in axes:
        # The ends of names may be what tells them apart.
        table.add_column(escape(words.axis(axis)), overflow="fold")
    name = results.plan.metrics[0]
    cut = any(cutoff.count(results, [c], name)[0] for c in results.plan.cells)
    asks = any(cutoff.per_run(results, c, name) for c in results.plan.cells)
    more = (["requests per run"] if asks else []) + (["unfinished"] if cut else [])
    n = "batches" if repeats.batches(results, name) else "n"
    for column in (words.scale(name), "95 % interval", n, *more):
        table.add_column(column, justify="right")
    for row in results.summary().to_dict("records"):
        half = (row["high"] - row["low"]) / 2
        interval = (
            f"{number(row['low'], half)} to {number(row['high'], half)}" if half == half else ""
        )
        shown = number(row["mean"], half if half == half else None)
        shown = shown if math.isfinite(row["mean"]) else compared.NONE
        cell = results.cells({a: row[a] for a in axes})[0]
        if math.isfinite(row["mean"]) and cutoff.least(results, cell, name):
            shown, interval = f"≥ {shown}", ""
        labels = [words.level(a, row[a]) for a in axes]
        gone, of = cutoff.count(results, [cell], name)
        late = [cutoff.per_run(results, cell, name).split()[0]] if asks else []
        late += [f"{gone} of {of}" if gone else ""] if cut else []
        table.add_row(*map(escape, labels), shown, interval, str(row["n"]), *late)
    return table


def dry(plan: Plan, store: Store, as_json: bool, told: set[str] | None = None) -> None:
    """What a plan would run; warnings in `told` stand on the screen already."""
    first = block(plan, 1, plan.cells)
    most = len(plan.cells) * plan.max_runs
    if as_json:
        listed = {
            "name": plan.name,
            "substrate": plan.substrate,
            "results": str(store.folder),
            "refused": store.exists(),
            "runs": most,
            "cells": [{"name": c.name, "labels": dict(c.labels)} for c in plan.cells],
            "first_block": [c.name for c, _ in first],
            "differences": [d.to_json() for d in alike.differences(plan)],
            "profiles": [*taken.halves(plan), *taken.notes(plan)],
            "queues": [*rings.warnings(plan), *outlets.warnings(plan), *phases.warnings(plan)],
            "floods": [*flooding.warnings(plan), *crowded.warnings(plan)],
            "names": misnamed.warnings(plan),
            "splits": splits.warnings(plan),
            "not_drawn": undrawn.warnings(plan),
            "no_value": valueless.warnings(plan),
            "cut_off": cutoff.warnings(plan),
            "scenarios": {c.name: plan.scenario_of(c, 1) for c in plan.cells},
        }
        print(json.dumps(listed))
        return
    screen.print(f"[b]{escape(plan.title)}[/b], on {plan.substrate}")
    for axis in plan.axes:
        labels = ", ".join(str(v.label) for v in axis.levels)
        screen.print(f"  {axis.name}: {escape(labels)}", highlight=False)
    often = (
        f"{plan.runs}"
        if plan.until is None
        else (
            f"{plan.until.minimum} to {plan.until.maximum}, until {plan.until.metric} is known to "
            f"{plan.until.ci * 100:g} %"
        )
    )
    cells = counted(len(plan.cells), "cell")
    screen.print(f"{cells}, runs of each: {often}; {counted(most, 'run')} at most")
    if plan.substrate != "sim":
        screen.print(real_time(plan), highlight=False)
    warn_of_differences(plan, told)
    _warn_of_few(plan)
    order = ", ".join(c.name for c, _ in first[:6]) + (", ..." if len(first) > 6 else "")
    screen.print(f"first block: {order}", highlight=False)
    if store.exists():
        screen.print(
            f"[yellow]warning:[/yellow] {store.folder} already holds results: a run without "
            "--dry-run is refused; name another folder with -o",
            highlight=False,
        )
    else:
        screen.print(f"results would go to {store.folder}", highlight=False)
    screen.print(f"the scenario of {first[0][0].name}, run 1:", highlight=False)
    screen.print_json(json.dumps(plan.scenario_of(first[0][0], 1)))


VERDICTS = {diverging.AGREE: "green", diverging.DIFFER: "bold red", diverging.OPEN: "yellow"}


def print_divergence(found: diverging.Divergence) -> None:
    """Print where substrates differ, a table for each metric."""
    out = _unbroken()
    for (metric, other), rows in found.groups().items():
        title = f"{found.scale(metric)}: {other} against {found.reference}"
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        table.add_column("cell")
        for column in (found.reference, other, "difference", "relative, %", "KS", "p", "n"):
            table.add_column(column, justify="right")
        table.add_column("")
        for row in rows:
            style = VERDICTS.get(row.verdict, "dim")
            table.add_row(*row.words(), f"[{style}]{row.said}[/{style}]")
        out.print(table)
    screen.print(found.sentence(), highlight=False)
    screen.print(
        "KS: Kolmogorov and Smirnov's distance of the two samples, 0 if they are alike and 1 if "
        "they do not overlap; p: of their being of one distribution, corrected by Holm over the "
        "cells of each table.",
        highlight=False,
    )
    for note in found.notes():
        screen.print(f"[yellow]warning:[/yellow] {escape(note)}", highlight=False)


STYLES = {
    "PASS": "bold green", "FAIL": "bold red", "OPEN": "bold yellow", "INFO": "cyan",
    "identical": "yellow",
}  # fmt: skip


def print_claims(
    verdicts: Sequence[claiming.Verdict], elsewhere: Sequence[claiming.Elsewhere]
) -> None:
    """Claims, on all substrates that have results."""
    for v, others in zip(verdicts, elsewhere, strict=True):
        badges = "".join(f", {s} {_badge(o.verdict)}" for s, o in others.items())
        sim = f"sim {_badge(v.verdict)}" if others else _badge(v.verdict)
        screen.print(
            f"[b]{v.claim.id}[/b] {sim}{badges}  [dim]{v.claim.type}, "
            f"{escape(v.claim.source)}[/dim]  {escape(v.claim.says)}",
            highlight=False,
        )
        if v.why:
            screen.print(f"  {escape(v.why)}", highlight=False)
        for substrate, other in others.items():
            if other.why:
                screen.print(f"  {substrate}: {escape(other.why)}", highlight=False)
        if others:
            _unbroken().print(_beside(v, others))
        elif v.findings:
            screen.print(_findings(v))
        if v.findings and v.absent:
            screen.print(f"  [dim]beside it: {escape(v.absent)}[/dim]", highlight=False)
    every = [*verdicts, *(o for others in elsewhere for o in others.values())]
    for warning in dict.fromkeys(w for v in every for w in v.warnings):
        screen.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False)
    screen.print(tally(verdicts, elsewhere), highlight=False)
    screen.print(f"[dim]{escape(_legend(verdicts))}[/dim]", highlight=False)


TYPES = {
    "HARD": "must hold with its bound, in six runs at least",
    "SOFT": "judged by the estimate alone",
    "INFO": "shown and not judged",
    "HW": "means something on real hardware only",
}
"""What kinds of claims there are."""


PAPERS = {"W": "the WiFu paper (2012)", "TA": "the TCP-AP paper (2011)"}
"""What claims call papers."""


def _legend(verdicts: Sequence[claiming.Verdict]) -> str:
    """What the kinds of claims, and the letters before the places in papers, mean."""
    there = {t for v in verdicts for t in (v.claim.type, *(c.type for c in v.claim.checks))}
    told = [f"{name}: {words}" for name, words in TYPES.items() if name in there]
    papers = {v.claim.source.split(",")[0] for v in verdicts}
    told += [f"{letters}: {paper}" for letters, paper in PAPERS.items() if letters in papers]
    return "; ".join(told)


def tally(verdicts: Sequence[claiming.Verdict], elsewhere: Sequence[claiming.Elsewhere]) -> str:
    """How many claims have which verdict: of those judged on several substrates the worst."""
    counts: dict[str, list[str]] = {}
    for v, others in zip(verdicts, elsewhere, strict=True):
        every = {"sim": v, **others}
        worst = claiming.worst(o.verdict for o in every.values())
        where = ", ".join(name for name, o in every.items() if o.verdict == worst)
        told = others and worst in (claiming.FAIL, claiming.OPEN)
        counts.setdefault(worst, []).append(f"{v.claim.id} on {where}" if told else "")
    words = []
    for verdict, places in counts.items():
        named = "; ".join(p for p in places if p)
        words.append(f"{len(places)} {verdict}" + (f" ({named})" if named else ""))
    return ", ".join(words)


def _badge(verdict: str) -> str:
    style = STYLES.get(verdict, "dim")
    return f"[{style}]{verdict}[/{style}]"


def _beside(v: claiming.Verdict, others: claiming.Elsewhere) -> Table:
    """The checks of a claim, what each substrate says of them in columns."""

    every = {"sim": v, **others}
    table = Table(box=None, pad_edge=True, padding=(0, 1), show_edge=False)
    for name in ("  check", "published", "must be", *every):
        table.add_column(name, header_style="dim")
    kept = {id(f.check) for o in every.values() for f in o.shown}
    for n, check in enumerate(v.claim.checks):
        if id(check) not in kept:
            continue
        row = ["  " + escape(check.name), check.published, wanted(check)]
        for verdict in every.values():
            if not verdict.findings:
                row.append("[dim]not measured[/dim]")
                continue
            finding = verdict.findings[n]
            measured, interval = in_words(finding)
            inside = f" ({interval})" if interval else ""
            late = f" [dim]{finding.unfinished}[/dim]" if finding.unfinished else ""
            row.append(f"{escape(measured)}{escape(inside)} {_badge(finding.verdict)}{late}")
        table.add_row(*row)
    return table


def _findings(v: claiming.Verdict) -> Table:

    table = Table(box=None, pad_edge=True, padding=(0, 1), show_edge=False)
    for name, justify in (
        ("  check", "left"), ("published", "right"), ("measured", "right"),
        ("95 % interval", "right"), ("must be", "left"), ("", "left"),
    ):  # fmt: skip
        table.add_column(name, justify=justify, header_style="dim")  # type: ignore[arg-type]
    for f in v.shown:
        measured, interval = in_words(f)
        style = STYLES.get(f.verdict, "dim")
        why = f" {escape(f.notes)}" if f.notes and f.measured else ""
        table.add_row(
            "  " + escape(f.check.name), f.check.published, escape(measured), interval,
            wanted(f.check), f"[{style}]{f.verdict}[/{style}]{why}",
        )  # fmt: skip
    return table


def in_words(f: claiming.Finding) -> tuple[str, str]:
    """What was measured for a check, and its interval."""
    m = f.measured
    if m is None:
        return f.why, ""
    if m.text:
        return ("the same" if f.verdict == claiming.PASS else m.text), "exact"
    half = (m.high - m.low) / 2
    known = half == half
    interval = (
        f"{number(m.low, half)} to {number(m.high, half)}"
        if known
        else ("exact" if m.exact else "?")
    )
    return number(m.estimate, half if known else None), interval


def print_lists(
    lists: Mapping[str, Sequence[Mapping[str, str]]], where: Mapping[str, str], as_json: bool
) -> None:
    """Show lists of names and what they are about; of an empty one, `where` was looked for it.

    Who reads may have enough of it, as `head` has.
    """
    try:
        if as_json:
            print(json.dumps(lists))
        else:
            for name, rows in lists.items():
                _print_list(name, rows, where.get(name))
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the latter is what rich makes of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_list(name: str, rows: Sequence[Mapping[str, str]], where: str | None) -> None:
    if rows:
        table = Table(title=name, title_justify="left", box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True, style="bold")
        table.add_column()
        for row in rows:
            table.add_row(escape(row["name"]), escape(row["about"]))
        screen.print(table)
    else:
        there = f" in {escape(where)}" if where else ""
        screen.print(f"[italic]{name}[/italic]: none{there}", highlight=False)
    screen.print()
