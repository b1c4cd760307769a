"""Programs that hosts are handed as text need no Python of today; Vermin knows what does."""

import ast
import builtins
import re
import subprocess
import sys
from pathlib import Path

import pytest
import vermin
from vermin import rules

from wifu import datagrams, tcpinfo

OLDEST = (3, 7)


def newer(path: Path) -> list[str]:
    """What in a program is of a Python after the oldest one."""
    words = ["--no-tips", "--violations", f"-t={OLDEST[0]}.{OLDEST[1]}-", str(path)]
    run = [sys.executable, "-c", "from vermin import main; main()", *words]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    found = [line for line in done.stdout.splitlines() if re.match(" .* requires? ", line)]
    assert bool(found) == (done.returncode == 1), done.stdout
    return [line.strip() for line in found] + methods(path)


def methods(path: Path) -> list[str]:
    """Methods of values whose type Vermin does not see, which no older class has by that name."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    named = [n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module]
    named += [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names]
    known = {*dir(builtins), *(name.partition(".")[0] for name in named)}
    since: dict[str, tuple[int, int]] = {}
    for name, (_, version) in rules.MOD_MEM_REQS(vermin.Config()).items():
        head, last = name.partition(".")[0], name.rpartition(".")[2]
        if head in known and version is not None:
            since[last] = min(version, since.get(last, version))
    used = [n for n in nodes if isinstance(n, ast.Attribute)]
    return [
        f"L{n.lineno}: {n.attr} requires {since[n.attr]}"
        for n in used
        if since.get(n.attr, OLDEST) > OLDEST
    ]


@pytest.mark.parametrize("script", [datagrams, tcpinfo], ids=lambda script: script.__name__)
def test_programs_for_hosts_are_written_for_older_pythons(script: object) -> None:
    assert newer(Path(str(script.__file__))) == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("for a, b in zip([1], [2], strict=True): print(a, b)", "zip(strict)"),
        ("if (n := 1): print(n)", "named expressions"),
        ("import math\nprint(math.lcm(2, 3))", "math.lcm"),
        ("def f(s): return s.removeprefix('a')", "removeprefix"),
        ("def f(n): return n.bit_count()", "bit_count"),
        ("from pathlib import Path\ndef f(p): return p.is_relative_to('/')", "is_relative_to"),
        ("import socket\nprint(socket.create_server(('', 0)))", "socket.create_server"),
    ],
)
def test_what_is_newer_is_found(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(text + "\n")
    assert any(what in found for found in newer(path)), newer(path)
