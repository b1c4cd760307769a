"""What a shared library brings is known to the lab by WIFU_LOAD."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Made by `make custom`, before these tests run.
DEBUG = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
BUILT = [p for p in (DEBUG / "libcustom.so", DEBUG / "deps/libcustom.so") if p.exists()]
LIBRARY = max(BUILT, key=lambda p: p.stat().st_mtime, default=None)
PLAN = """
name = "own"
runs = 2
metrics = ["goodput"]
[scenario.topology]
words = "linear,3"
set = "TB-W9"
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "{protocol}"
app = "file"
bytes = "50k"
[vary]
protocol = ["paced", "hxh-short"]
"""


def lab(folder: Path, load: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wifu.cli", "run", "own.toml", "-o", "own", "--no-report"],
        cwd=folder,
        env={**os.environ, "WIFU_LOAD": load},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(LIBRARY is None, reason="examples/custom is not built: make custom")
def test_parts_of_a_library_run_in_the_lab(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(PLAN)
    refused = lab(tmp_path, "")
    assert refused.returncode != 0 and "paced" in refused.stderr
    done = lab(tmp_path, str(LIBRARY))
    assert done.returncode == 0, done.stderr
    assert "paced" in done.stdout and "hxh-short" in done.stdout


def test_what_is_no_library_is_said(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(PLAN)
    (tmp_path / "text").write_text("no library")
    refused = lab(tmp_path, str(tmp_path / "text"))
    said = " ".join(refused.stderr.split())
    assert refused.returncode == 2, said
    assert "WIFU_LOAD: " in said and "no shared library" in said
    assert "scenario.WIFU_LOAD" not in said and "of the environment" in said, said
    assert "Traceback" not in refused.stderr
