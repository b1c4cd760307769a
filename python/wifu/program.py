"""Where the compiled code is: the program `wifu`, and the simulator inside this package."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
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


def version(path: Path) -> str:
    """What the program says of itself."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise LabError(f"{path} --version: {e}") from None
    if done.returncode:
        raise LabError(f"{path} --version: exit status {done.returncode}")
    return done.stdout.strip()


def both_take(variable: str) -> str:
    """What is said behind the refusal of a library: both the lab and the program must take it."""
    if variable != "WIFU_LOAD":
        return ""
    return (
        "; the lab takes a library of `cargo build`, and for emu and live WIFU_BIN names a program "
        "that does, too: WIFU_BIN=target/debug/wifu (`cargo build -p wifu -p wifu-preload`)"
    )


def take_libraries(program: Path) -> None:
    """LabError if a program takes none of what WIFU_LOAD names."""
    if not os.environ.get("WIFU_LOAD"):
        return
    asked = [str(program), "list", "protocols"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise LabError(f"{program} list protocols: {e}") from None
    if done.returncode != 0:
        raise LabError(f"{program}: {done.stderr.strip()}{both_take('WIFU_LOAD')}")


def libraries() -> list[Path]:
    """The libraries that WIFU_LOAD names."""
    told = [Path(p) for p in os.environ.get("WIFU_LOAD", "").split(os.pathsep) if p]
    for path in told:
        if not path.is_file():
            raise LabError(f"no library {path}: WIFU_LOAD names it; unset it, or build it")
    return [path.resolve() for path in told]


def loaded() -> list[dict[str, str]]:
    """The names of these libraries and 16 digits of the SHA-256 of each."""
    return [
        {"name": p.name, "sha256": hashlib.sha256(p.read_bytes()).hexdigest()[:16]}
        for p in libraries()
    ]


def need(made_with: Iterable[Mapping[str, str]], folder: Path) -> None:
    """LabError if results were made with libraries that are not loaded now."""
    now = {path.name for path in libraries()}
    if gone := [row["name"] for row in made_with if row["name"] not in now]:
        raise LabError(f"{folder}: these results were made with {', '.join(gone)}: set WIFU_LOAD")


def fingerprint(path: Path) -> str:
    """Identifies compiled code: 16 digits of the SHA-256 of its file and of the libraries that
    WIFU_LOAD names.
    """
    digest = hashlib.sha256(path.read_bytes())
    for library in libraries():
        digest.update(library.read_bytes())
    return digest.hexdigest()[:16]


class Pinned:
    """The program `wifu` of one campaign: looked for once, and the same file until the end, as are
    the libraries that it loads.
    """

    def __init__(self) -> None:
        self.path = find_program().resolve()
        self._files = {file: _stamp(file) for file in (self.path, *libraries())}
        self.code = fingerprint(self.path)
        """Its fingerprint, by the same look."""

    def __str__(self) -> str:
        """Its path; LabError once it or a library is another than in the beginning."""
        for file, before in self._files.items():
            if _stamp(file) != before:
                raise LabError(
                    f"{file} was built anew while the campaign ran, whose other runs are of the "
                    "one before: resume it, or begin anew"
                )
        return str(self.path)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        file = path.stat()
    except OSError as e:
        raise LabError(f"{path}: {e.strerror}") from None
    return file.st_ino, file.st_size, file.st_mtime_ns


def native_file() -> Path:
    """The file of the compiled simulator."""
    from wifu import _native

    file = getattr(_native, "__file__", None)
    if not file:
        raise LabError("the simulator is not installed: run `make python`")
    return Path(file)
