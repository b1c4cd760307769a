"""The tutorial's plan prints what its page shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/src/tutorial.md").read_text()
CRATE = ROOT / "examples/hopwise"
# Made by `make custom`, before these tests run.
DEBUG = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
LIBRARY = DEBUG / "libhopwise.so"
ROW = re.compile(r"^\d +\S+.* \d+$")


@pytest.mark.skipif(not LIBRARY.exists(), reason="examples/hopwise is not built: make custom")
def test_the_tutorials_plan_prints_the_table_of_its_page(tmp_path: Path) -> None:
    block = next(b for b in PAGE.split("```console\n")[1:] if b.startswith("$ wifu-lab "))
    command, *shown = block.split("\n```")[0].splitlines()
    words = command.removeprefix("$ wifu-lab ").split()
    assert words[-2] == "-o"
    done = subprocess.run(
        [sys.executable, "-m", "wifu.cli", *words[:-1], str(tmp_path / "out"), "--no-report"],
        cwd=CRATE,
        env={**os.environ, "WIFU_LOAD": str(LIBRARY), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    def rows(lines: list[str]) -> list[list[str]]:
        return [line.split() for line in lines if ROW.match(line.strip())]

    assert len(rows(shown)) == 12, shown
    assert rows(done.stdout.splitlines()) == rows(shown), done.stdout
