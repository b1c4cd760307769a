"""Where the compiled code is: the program `wifu`, and the simulator inside this package."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from wifu.errors import LabError


def find_program() -> Path:
    """The program `wifu`: $WIFU_BIN or $WIFU, of a build beside this package, or of the path."""
    told = os.environ.get("WIFU_BIN") or os.environ.get("WIFU")
    if told:
        if not os.access(told, os.X_OK) or not Path(told).is_file():
            raise LabError(f"no program {told}: WIFU_BIN or WIFU names it; unset it, or build it")
        return Path(told)
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[2] / "target"))
    built = [p for kind in ("release", "debug") if (p := target / kind / "wifu").exists()]
    if built:
        # What was built last: the other one may be of another state of the sources.
        return max(built, key=lambda p: p.stat().st_mtime)
    found = shutil.which("wifu")
    if found is None:
        raise LabError("no program `wifu`: run `make build`, or set WIFU_BIN to it")
    return Path(found)


def native_file() -> Path:
    """The file of the compiled simulator."""
    from wifu import _native

    file = getattr(_native, "__file__", None)
    if not file:
        raise LabError("the simulator is not installed: run `make python`")
    return Path(file)
