"""The seam to what runs: `Runner = Callable[[dict], RunResult]`.

The mesh simulator is compiled into this package; `wifu mock` is the program of that name.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from wifu.errors import LabError


class RunResult(Protocol):
    """What one run gave."""

    def json(self) -> str:
        """The outcome; the same for the same scenario, octet for octet."""

    def series_names(self) -> list[str]:
        """Names of the recorded series."""

    def series(self, name: str) -> bytes:
        """Pairs of little-endian doubles: time in seconds, value."""

    def frames(self) -> bytes:
        """The frame trace, 32 octets a record."""


Runner = Callable[[dict[str, Any]], RunResult]


def mesh(scenario: Mapping[str, Any]) -> RunResult:
    """Run a scenario in the mesh simulator. ValueError if the scenario means nothing."""
    from wifu import _native

    return _native.run(json.dumps(scenario))


def check_mesh(scenario: Mapping[str, Any]) -> None:
    """ValueError if a scenario means nothing."""
    from wifu import _native

    _native.check_scenario(json.dumps(scenario))


def runner_for(name: str) -> Runner:
    """The runner that a plan names."""
    return mock if name == "mock" else mesh


def code_version(name: str) -> str:
    """Identifies the compiled code behind a runner: 16 digits of the SHA-256 of the file."""
    path = find_program() if name == "mock" else _native_file()
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _native_file() -> Path:
    from wifu import _native

    file = getattr(_native, "__file__", None)
    if not file:
        raise LabError("the simulator is not installed: run `make python`")
    return Path(file)


def find_program() -> Path:
    """The program `wifu`: $WIFU_BIN, of a build beside this package, or of the search path."""
    told = os.environ.get("WIFU_BIN")
    if told:
        return Path(told)
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[2] / "target"))
    for kind in ("release", "debug"):
        if (target / kind / "wifu").exists():
            return target / kind / "wifu"
    found = shutil.which("wifu")
    if found is None:
        raise LabError("no program `wifu`: run `make build`, or set WIFU_BIN to it")
    return Path(found)


class MockResult:
    """A run of `wifu mock`, in the shape of an outcome; the trace is in its key `trace`."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        self._outcome = outcome

    def json(self) -> str:
        """The outcome."""
        return json.dumps(self._outcome)

    def series_names(self) -> list[str]:
        """None: the trace is in the outcome."""
        return []

    def series(self, name: str) -> bytes:
        """There is none."""
        raise KeyError(name)

    def frames(self) -> bytes:
        """There are none."""
        return b""


def mock(scenario: Mapping[str, Any]) -> RunResult:
    """Run `wifu mock`: each key of the scenario is the option of that name.

    ValueError with the program's message if it refuses.
    """
    with tempfile.TemporaryDirectory(prefix="wifu-lab-") as folder:
        trace = Path(folder) / "trace.csv"
        argv = [str(find_program()), "mock", "--json", "--trace", str(trace)]
        for key, value in scenario.items():
            for one in value if isinstance(value, list) else [value]:
                argv += [f"--{key}", str(one)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ValueError(done.stderr.strip())
        summary = json.loads(done.stdout)
        rows = list(csv.DictReader(trace.read_text().splitlines()))
    return MockResult(_mock_outcome(summary, rows, scenario))


def _mock_outcome(
    summary: Mapping[str, Any], rows: list[dict[str, str]], scenario: Mapping[str, Any]
) -> dict[str, Any]:
    flows = [
        {
            "id": int(f["flow"]) + 1,
            "from": "sender",
            "to": "receiver",
            "protocol": summary["protocol"],
            "app": "file",
            "hops": 2,
            "start_s": 0.0,
            "last_byte_s": f["duration_s"],
            "finished": bool(f["complete"]),
            "bytes": f["bytes_delivered"],
            "goodput_bps": f["goodput_bps"],
            "segments": f["data_segments"],
            "retransmissions": f["retransmissions"],
            "timeouts": f["timeouts"],
            "cwnd": f["cwnd"],
        }
        for f in summary["flows"]
    ]
    return {
        "schema": "1.0",
        "seed": summary["seed"],
        "run": 1,
        "sim_seconds": summary["virtual_time_s"],
        "flows": flows,
        "trace": [{k: _number(v) for k, v in row.items()} for row in rows],
        "scenario": dict(scenario),
    }


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None
