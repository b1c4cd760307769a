"""What the tools' own lists have to say the same about, read from their source."""

import ast
import importlib
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
EVERYWHERE = {"sh", "env", "cat"}
RUNS = {"ask": 0, "run": 0, "serve": 1, "over": 1, "start": 1}
"""Calls that run a program, and which argument names it."""


def programs(source: str) -> set[str]:
    """The programs that calls name, and the first words of lists that are commands."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args):
                if name in RUNS and len(args) > RUNS[name]:
                    found.append(args[RUNS[name]])
            case ast.AnnAssign(annotation=ast.Name(id="Command"), value=ast.List(elts=elts)):
                found += elts[:1]
            case ast.Return(value=ast.List(elts=elts)):
                found += elts[:1]
    words = {str(n.value) for n in found if isinstance(n, ast.Constant)}
    return {Path(word).name for word in words if not word.startswith("-")} - EVERYWHERE


def test_the_programs_of_the_applications_are_asked_for_before_they_run() -> None:
    checks = (TOOLS / "check_applications.py").read_text()
    used = programs(checks) | programs((TOOLS / "services.py").read_text())
    used |= programs((TOOLS / "app_world.py").read_text())
    assert {"nginx", "redis-benchmark", "scp", "setpriv", "cc"} <= used, "what is looked for"
    (needed,) = (
        ast.literal_eval(node.value)
        for node in ast.walk(ast.parse(checks))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NEEDED"
    )
    asked = {command for commands in needed.values() for command in commands}
    assert used - asked == set()


def test_a_folder_that_cannot_be_removed_hides_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    services = importlib.import_module("services")
    folder = tmp_path / "sshd"
    with services.present(folder):
        assert folder.is_dir()
    assert not folder.exists()
    with pytest.raises(RuntimeError, match="the first"), services.present(folder):
        (folder / "of others").touch()
        raise RuntimeError("the first")
    with services.present(folder):
        (folder / "of others").unlink()
    assert folder.is_dir(), "it was there before"
