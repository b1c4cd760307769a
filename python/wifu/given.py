"""What a command line gives, and what is found where it looks."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from wifu import _native, habits, program
from wifu import plan as plans
from wifu.errors import LabError
from wifu.screen import counted
from wifu.store import Store
from wifu.variants import SUBSTRATES


def first(
    versions: Annotated[
        bool,
        typer.Option("--version", is_eager=True, help="Versions of the lab and of what it runs."),
    ] = False,
) -> None:
    """What is given before a command."""
    if not versions:
        return
    print(f"wifu-lab {_native.version()} (Python {platform.python_version()})")
    try:
        found = program.find_program()
        print(f"{program.version(found)} ({found})")
    except LabError as e:
        print(f"wifu: {e}")
    raise typer.Exit


class Command(TyperCommand):
    """A command of which other tools have options that this one has not."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The same; LabError for such an option, with what to write."""
        known = {own for param in self.params for own in (*param.opts, *param.secondary_opts)}
        for at, word in enumerate(args):
            option, equals, value = word.partition("=")
            if option == "--":
                break
            if not option.startswith("--") or option in known:
                continue
            if not equals:
                value = "".join(after for after in args[at + 1 : at + 2] if after[:1] != "-")
            if told := habits.of_option(option[2:], value, str(ctx.info_name)):
                raise LabError(f"no option is called {option}; {told}")
        return super().parse_args(ctx, args)


def path(text: str) -> Path:
    """A path of an option; nothing is none, and would be the current folder."""
    if not text:
        raise typer.BadParameter('is empty: name a file or a folder ("." is the current one)')
    return Path(text)


def unchanged(store: Store, changes: Sequence[str]) -> NoReturn:
    """LabError: what is resumed is the plan as it was."""
    folder, words = store.folder, " ".join(changes)
    places = [own for s in SUBSTRATES if (own := store.on(s)).exists()]
    files = " and ".join(str(own.folder / "plan.toml") for own in places) or f"{folder}/plan.toml"
    raise LabError(
        f"`resume` goes on with the plan as it was, and takes no {words}. To have it otherwise, "
        f"change {files} and say `wifu-lab resume {folder} --accept-changes`; or begin anew, as "
        f"with `wifu-lab run PLAN {words} -o OTHER`"
    )


def of_system(error: OSError) -> str:
    """What the system says of a path that was given, without Python's own words."""
    if error.filename is None or error.strerror is None:
        return str(error)
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename}: is a file, and no folder"
    if isinstance(error, IsADirectoryError):
        return f"{error.filename}: is a folder, and no file"
    return f"{error.filename}: {error.strerror.lower()}"


def plans_in(folder: Path) -> list[dict[str, str]]:
    """The plans below a folder, and what each is about."""
    rows = []
    for path in sorted(folder.glob("*/plan.toml")):
        try:
            plan = plans.load(path)
            often = f"{plan.until.minimum} to " if plan.until else ""
            runs = f"{often}{plan.max_runs} run{'s' if plan.max_runs > 1 else ''} each"
            about = f"{plan.title} ({counted(len(plan.cells), 'cell')}, {runs})"
        except LabError as e:
            about = f"cannot be read: {e}"
        rows.append({"name": str(path.parent), "about": about})
    return rows


def results_in(folder: Path) -> list[dict[str, str]]:
    """The results below a folder, on whatever substrate, and how each came to be."""
    rows = []
    inside = [folder.glob(f"*/{s}/run.json") for s in SUBSTRATES]
    for path in sorted([*folder.glob("*/run.json"), *(p for found in inside for p in found)]):
        try:
            m = Store(path.parent).manifest()
            failed = f", {len(m['failed'])} failed" if m["failed"] else ""
            about = f"{m['title']} ({m['state']}, {m['runs_done']} runs{failed}, {m['updated']})"
        except LabError as e:
            about = str(e)
        rows.append({"name": str(path.parent), "about": about})
    return rows
