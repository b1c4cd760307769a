"""`wifu-lab reproduce`: all experiments of a paper, one after the other, and what they say of it.

Each experiment has its folder of results in the one of the paper, so that what was interrupted goes
on where it was; beside them `reproduce.json` (experiments with their times, claims with their
verdicts), `claims.md` (the table of claims) and `index.html` (claims and figures on one page).
"""

from __future__ import annotations

import html
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from wifu import claims as claiming
from wifu import conduct, published, toml
from wifu import diverge as diverging
from wifu import plan as plans
from wifu.campaign import Campaign, Summary, check_scenarios
from wifu.errors import LabError, nearest
from wifu.plan import Plan
from wifu.published import Experiment, Paper
from wifu.report import claim as claim_html
from wifu.report import duration, wanted
from wifu.screen import STYLES, err, in_words, screen, tally
from wifu.store import Store, write_whole

SCHEMA = "wifu-reproduce/1.0"
QUICK = (
    "The short form: few and short runs, which tell that everything runs. Its numbers and verdicts "
    "say nothing of the paper."
)
"""What is said of results of `--quick`."""


@dataclass
class Done:
    """What became of an experiment."""

    experiment: Experiment
    state: str = "not run"
    runs: int = 0
    failed: int = 0
    seconds: float = 0.0
    """By the clock on the wall, of all goes at it."""
    why: str = ""

    @property
    def bad(self) -> bool:
        """Whether something in it failed."""
        return self.state == "failed" or self.failed > 0

    def to_json(self) -> dict[str, Any]:
        """The same as a tree of JSON."""
        e = self.experiment
        return {
            "name": e.name, "plan": e.plan, "repeats": e.repeats, "changes": list(e.changes),
            "state": self.state, "runs": self.runs, "failed": self.failed,
            "seconds": round(self.seconds, 1), "why": self.why,
        }  # fmt: skip

    def sentence(self) -> str:
        """How it went, in a line."""
        if self.why:
            return f"{self.experiment.name}: {self.state}: {self.why}"
        bad = f", {self.failed} failed" if self.failed else ""
        runs = f"{self.runs} run{'s'[: self.runs != 1]}"
        return f"{self.experiment.name}: {runs}{bad} in {duration(self.seconds)}"


@dataclass
class Reproduction:
    """The experiments of a paper in a folder."""

    paper: Paper
    folder: Path
    quick: bool
    on: tuple[str, ...] = ("sim",)
    jobs: int | None = None
    executor: str = "threads"
    silent: bool = False
    only: Sequence[str] = ()
    done: list[Done] = field(default_factory=list)

    def experiments(self) -> list[tuple[Experiment, Plan]]:
        """Those that are asked for, with their plans as they are run."""
        names = [e.name for e in self.paper.experiments]
        for name in self.only:
            if name not in names:
                told = nearest(name, names)
                raise LabError(f"{self.paper.name} has no experiment {name}; {told}")
        root = plans_of_the_checkout()
        chosen = [e for e in self.paper.experiments if not self.only or e.name in self.only]
        return [(e, load(root, e, self.quick)) for e in chosen]

    def places(self, plan: Plan) -> list[Plan]:
        """A plan on those of the substrates that are asked for which it is prepared for."""
        return [plan.variant(s) for s in plan.prepared if s in self.on]

    def listed(self) -> dict[str, Any]:
        """What would be run."""
        rows, root = [], plans_of_the_checkout()
        for e, plan in self.experiments():
            variants = self.places(plan)
            rows.append(
                {
                    "name": e.name,
                    "plan": e.plan,
                    "repeats": e.repeats,
                    "changes": [*e.changes, *(short(root, e) if self.quick else ())],
                    "cells": max((len(v.cells) for v in variants), default=len(plan.cells)),
                    "runs": sum(v.max_runs * len(v.cells) for v in variants),
                    "on": [v.substrate for v in variants],
                    "needs": list(plan.prepared),
                }
            )
        return {"paper": self.paper.name, "title": self.paper.title, "experiments": rows}

    def run(self) -> str:
        """Run what is missing; how it ended: `complete`, `failed` or `interrupted`."""
        work = self.experiments()
        self._check(work)
        before = self._seconds()
        self.done = [Done(e, seconds=before.get(e.name, 0.0)) for e, _ in work]
        for n, (one, (_, plan)) in enumerate(zip(self.done, work, strict=True), 1):
            variants = self.places(plan)
            if not variants:
                one.why = needs(plan)
                self._tell(one.sentence())
                continue
            runs = sum(v.max_runs * len(v.cells) for v in variants)
            head = f"[{n}/{len(work)}] {one.experiment.name}: {one.experiment.repeats}"
            self._tell(f"{head} ({runs} runs at most)")
            begun = time.monotonic()
            try:
                self._one(one, plan, variants)
            except KeyboardInterrupt:
                one.state = "interrupted"
            except (LabError, OSError) as e:
                # One that cannot be run is told, and keeps no other from being run.
                one.state, one.why = "failed", str(e)
            one.seconds += time.monotonic() - begun
            self._write(None)
            self._tell(one.sentence())
            if one.state == "interrupted":
                return "interrupted"
        return "failed" if any(one.bad for one in self.done) else "complete"

    def _check(self, work: Sequence[tuple[Experiment, Plan]]) -> None:
        """What is wrong in the last plan is told before the first is run."""
        self._tell(f"checking the scenarios of {len(work)} experiments")
        for _, plan in work:
            for variant in self.places(plan):
                check_scenarios(variant)

    def _one(self, one: Done, plan: Plan, variants: Sequence[Plan]) -> None:
        store = Store(self.folder / one.experiment.name)
        for variant in variants:
            own = store.on(variant.substrate)
            go_on = own.exists()

            def do(campaign: Campaign, go_on: bool = go_on) -> Summary:
                return campaign.resume() if go_on else campaign.start()

            summary = conduct.campaign(variant, own, self.jobs, self.executor, self.silent, do)
            one.state = summary.state
            one.runs += summary.done
            one.failed += len(summary.failed)
            if summary.state == "interrupted":
                return
        divergence = diverging.of_folder(store.folder)
        if divergence:
            divergence.write(store.folder)
        for variant in variants:
            conduct.report(store.on(variant.substrate).folder)

    def _tell(self, words: str) -> None:
        if not self.silent:
            err.print(escape(words), highlight=False)

    def _seconds(self) -> dict[str, float]:
        """What earlier goes took."""
        try:
            told = json.loads((self.folder / "reproduce.json").read_text())
            return {e["name"]: float(e["seconds"]) for e in told["experiments"]}
        except (OSError, ValueError, KeyError):
            return {}

    def again(self, out: Path | None) -> str:
        """The command that goes on; `out` is the folder if it was said."""
        words = ["wifu-lab reproduce", self.paper.name]
        words += ["--quick"] if self.quick else []
        words += ["-o", str(out)] if out else []
        words += ["--only", ",".join(self.only)] if self.only else []
        words += ["--on", ",".join(self.on)] if self.on != ("sim",) else []
        return " ".join(words)

    def judge(self) -> list[tuple[claiming.Verdict, claiming.Elsewhere]]:
        """The claims of the paper, by the results in the folder."""
        chosen = published.select(published.load(), self.paper.claims)
        verdicts = claiming.judge_all(chosen, [self.folder])
        elsewhere = claiming.judge_elsewhere(chosen, [self.folder])
        return list(zip(verdicts, elsewhere, strict=True))

    def finish(self) -> dict[str, Any]:
        """Judge the claims, and write what there is to read; returns `reproduce.json`."""
        judged = self.judge()
        text = markdown(judged)
        write_whole(self.folder / "claims.md", text.encode())
        write_whole(self.folder / "index.html", self._page(judged).encode())
        if not self.silent:
            self._show(judged)
        return self._write(judged)

    def _write(
        self, judged: Sequence[tuple[claiming.Verdict, claiming.Elsewhere]] | None
    ) -> dict[str, Any]:
        known = self._seconds()
        # Those that this go leaves out keep their times.
        names = {d.experiment.name for d in self.done}
        others = [
            {"name": name, "state": "not run this time", "seconds": seconds}
            for name, seconds in known.items()
            if name not in names
        ]
        told: dict[str, Any] = {
            "schema": SCHEMA,
            "paper": self.paper.name,
            "title": self.paper.title,
            "quick": self.quick,
            "seconds": round(sum(d.seconds for d in self.done), 1),
            "experiments": [*(d.to_json() for d in self.done), *others],
        }
        if judged is not None:
            told["claims"] = [
                {**v.to_json(), "on": {s: o.to_json() for s, o in others.items()}}
                for v, others in judged
            ]
        text = json.dumps(told, indent=1) + "\n"
        write_whole(self.folder / "reproduce.json", text.encode())
        return told

    def _show(self, judged: Sequence[tuple[claiming.Verdict, claiming.Elsewhere]]) -> None:
        table = Table(box=None, pad_edge=False, title=self.paper.title, title_justify="left")
        for name, justify in (
            ("claim", "left"), ("check", "left"), ("published", "right"), ("measured", "right"),
            ("must be", "left"), ("", "left"),
        ):  # fmt: skip
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        for row in rows(judged):
            style = STYLES.get(row[-1], "dim")
            table.add_row(*map(escape, row[:-1]), f"[{style}]{escape(row[-1])}[/{style}]")
        screen.print(table)
        if self.quick:
            screen.print(f"[yellow]{escape(QUICK)}[/yellow]", highlight=False)
        verdicts, elsewhere = [v for v, _ in judged], [o for _, o in judged]
        for warning in dict.fromkeys(w for v in verdicts for w in v.warnings):
            screen.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False)
        screen.print(f"claims   {tally(verdicts, elsewhere)}", highlight=False)
        total = duration(sum(d.seconds for d in self.done))
        screen.print(f"time     {total}, of it", highlight=False)
        for one in self.done:
            screen.print(f"         {escape(one.sentence())}", highlight=False)
        for name in ("index.html", "claims.md", "reproduce.json"):
            screen.print(f"results  {self.folder / name}", highlight=False, soft_wrap=True)
        for figure in self.figures():
            screen.print(f"figure   {figure}", highlight=False, soft_wrap=True)

    def figures(self) -> list[Path]:
        """The figures of the experiments, in their order."""
        found = []
        for experiment in self.paper.experiments:
            folder = self.folder / experiment.name
            found += sorted(folder.glob("figures/*.svg")) + sorted(folder.glob("*/figures/*.svg"))
        return found

    def _page(self, judged: Sequence[tuple[claiming.Verdict, claiming.Elsewhere]]) -> str:
        e = html.escape
        claims = "".join(
            claim_html(v, "sim" if others else "")
            + "".join(claim_html(o, s) for s, o in others.items())
            for v, others in judged
        )
        figures, links = "", ""
        for figure in self.figures():
            path = figure.relative_to(self.folder).as_posix()
            name = f"{path.split('/')[0]}: {figure.stem}"
            figures += f"<figure><h3>{e(name)}</h3><img alt='{e(name)}' src='{e(path)}'></figure>"
        for one in self.done:
            report = self.folder / one.experiment.name / "report.html"
            told = f"{one.experiment.repeats}. {one.sentence()}"
            name = e(one.experiment.name)
            if report.exists():
                name = f"<a href='{name}/report.html'>{name}</a>"
            links += f"<tr><td class='label'>{name}</td><td>{e(told)}</td></tr>"
        css = (resources.files("wifu") / "report.css").read_text()
        alert = f"<div class='alert soft'>{e(QUICK)}</div>" if self.quick else ""
        return (
            "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
            "<meta name='viewport' content='width=device-width, initial-scale=1'>"
            f"<title>{e(self.paper.title)}</title><style>{css}</style></head><body>"
            f"<header><div><p class='name'>{e(self.paper.name)}</p><h1>{e(self.paper.title)}</h1>"
            f"</div></header><main>{alert}<section><h2>Experiments</h2><div class='scroll'>"
            f"<table><tbody>{links}</tbody></table></div></section>"
            f"<section><h2>Claims</h2>{claims}</section>"
            f"<section><h2>Figures</h2>{figures}</section></main></body></html>\n"
        )


def load(root: Path, experiment: Experiment, quick: bool) -> Plan:
    """The plan of an experiment as it is run."""
    renamed = [f"name={experiment.name}"] if experiment.name != experiment.plan else []
    changes = [*renamed, *experiment.changes, *(short(root, experiment) if quick else ())]
    return plans.load(root / experiment.plan, changes)


def short(root: Path, experiment: Experiment) -> list[str]:
    """What makes an experiment short: what its plan says, else what the paper's list says."""
    file = root / experiment.plan / "plan.toml"
    own = toml.loads(file.read_text(), file).get("quick")
    return list(own) if isinstance(own, list) else list(experiment.quick)


def needs(plan: Plan) -> str:
    """What to say for a plan to be run, in words."""
    real = ", in real time" if "sim" not in plan.prepared else ""
    return f"needs --on {','.join(plan.prepared)}{real}"


def plans_of_the_checkout() -> Path:
    """Where the plans are: `experiments` here, or of the checkout that is installed."""
    here = Path("experiments")
    linked = Path(__file__).resolve().parents[2] / "experiments"
    for folder in (here, linked):
        if (folder / "x-t1" / "plan.toml").exists():
            return folder
    raise LabError(
        "no plans here: `reproduce` runs those of the folder experiments of WiFu's sources; go to "
        "a checkout"
    )


def rows(judged: Sequence[tuple[claiming.Verdict, claiming.Elsewhere]]) -> list[list[str]]:
    """The table of claims: a row for each check that is judged, on each substrate with results."""
    found = []
    for verdict, others in judged:
        for substrate, v in {"sim": verdict, **others}.items():
            called = v.claim.id + (f" ({substrate})" if others else "")
            told = [f for f in v.findings if f.check.type != claiming.INFO] or list(v.shown)
            if not told:
                found.append([called, v.why, "", "", "", v.verdict])
            for n, finding in enumerate(told):
                measured, interval = in_words(finding)
                inside = f" ({interval})" if interval else ""
                check = finding.check
                found.append(
                    [
                        called if n == 0 else "", check.name, check.published,
                        measured + inside, wanted(check), finding.verdict,
                    ]
                )  # fmt: skip
    return found


def markdown(judged: Sequence[tuple[claiming.Verdict, claiming.Elsewhere]]) -> str:
    """The table of claims as Markdown."""
    lines = [
        "| claim | check | published | measured (95 % interval) | must be | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows(judged):
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines) + "\n"


def show_listed(told: dict[str, Any]) -> None:
    """The experiments of a paper, as `--dry-run` lists them."""
    table = Table(box=None, pad_edge=False, title=told["title"], title_justify="left")
    for name, justify in (
        ("experiment", "left"), ("repeats", "left"), ("cells", "right"), ("runs", "right"),
        ("with", "left"),
    ):  # fmt: skip
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for e in told["experiments"]:
        runs = str(e["runs"]) if e["on"] else f"0: needs --on {','.join(e['needs'])}"
        words = [e["name"], e["repeats"], str(e["cells"]), runs, " ".join(e["changes"])]
        table.add_row(*map(escape, words))
    screen.print(table)
    total = sum(e["runs"] for e in told["experiments"])
    screen.print(f"{total} runs at most; nothing was run", highlight=False)
