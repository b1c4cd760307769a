"""Where results come from: commit, versions, host."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wifu.program import find_program, fingerprint, native_file

PACKAGES = ("wifu", "numpy", "scipy", "pandas", "pyarrow", "matplotlib")


def now() -> str:
    """The time, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def commit() -> dict[str, Any]:
    """The commit of the checkout that this package lies in, and whether it has changes."""
    folder = Path(__file__).resolve().parent
    try:
        head = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}
    return {"commit": head, "dirty": bool(changed)}


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def code_version(name: str, substrate: str = "sim") -> str:
    """Identifies the compiled code that there is now behind a runner. A campaign by the program
    `wifu` has that of the one that it keeps to (`wifu.program.Pinned`).
    """
    real = name == "mock" or substrate != "sim"
    return fingerprint(find_program() if real else native_file())


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide results."""
    out = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return out


def host() -> dict[str, Any]:
    """What the runs ran on. Results do not depend on it; how long they took does."""
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "byteorder": sys.byteorder,
    }
