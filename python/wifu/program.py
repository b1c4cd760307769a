"""Where the compiled code is: the program `wifu`, and the simulator inside this package."""

from __future__ import annotations

import hashlib
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


def fingerprint(path: Path) -> str:
    """Identifies compiled code: 16 digits of the SHA-256 of its file and of the libraries that
    WIFU_LOAD names.
    """
    digest = hashlib.sha256(path.read_bytes())
    for library in filter(None, os.environ.get("WIFU_LOAD", "").split(os.pathsep)):
        digest.update(Path(library).read_bytes())
    return digest.hexdigest()[:16]


class Pinned:
    """The program `wifu` of one campaign: looked for once, and the same file until the end."""

    def __init__(self) -> None:
        self.path = find_program().resolve()
        self._file = self._stamp()
        self.code = fingerprint(self.path)
        """Its fingerprint, by the same look."""

    def _stamp(self) -> tuple[int, int, int]:
        try:
            file = self.path.stat()
        except OSError as e:
            raise LabError(f"{self.path}: {e.strerror}") from None
        return file.st_ino, file.st_size, file.st_mtime_ns

    def __str__(self) -> str:
        """Its path; LabError once it is another program than in the beginning."""
        if self._stamp() != self._file:
            raise LabError(
                f"{self.path} was built anew while the campaign ran, whose other runs are of the "
                "program before: resume it, or begin anew"
            )
        return str(self.path)


def native_file() -> Path:
    """The file of the compiled simulator."""
    from wifu import _native

    file = getattr(_native, "__file__", None)
    if not file:
        raise LabError("the simulator is not installed: run `make python`")
    return Path(file)
