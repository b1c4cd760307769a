"""The seam to what runs: `Runner = Callable[[dict], RunResult]`.

The mesh simulator is compiled into this package; `wifu mock` is the program of that name.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from wifu.program import Pinned, libraries


class RunResult(Protocol):
    """What one run gave."""

    def json(self) -> str:
        """The outcome; the same for the same scenario, byte for byte."""

    def series_names(self) -> list[str]:
        """Names of the recorded series."""

    def series(self, name: str) -> bytes:
        """Pairs of little-endian doubles: time in seconds, value."""

    def frames(self) -> bytes:
        """The frame trace, 32 bytes a record."""


Runner = Callable[[dict[str, Any]], RunResult]


def split(scenario: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A scenario of a plan, and the files of compositions that came with it, as text."""
    plain = dict(scenario)
    return plain, plain.pop("compositions", [])


def mesh(scenario: Mapping[str, Any]) -> RunResult:
    """Run a scenario in the mesh simulator. ValueError if the scenario means nothing."""
    from wifu import _native

    scenario, compositions = split(scenario)
    return _native.run(json.dumps(scenario), compositions)


def check_mesh(scenario: Mapping[str, Any], *, others: bool = False) -> None:
    """ValueError if a scenario means nothing; `others`: to hosts that send more than it says."""
    from wifu import _native

    for n, flow in enumerate(scenario.get("flow", []), 1):
        if isinstance(size := flow.get("bytes"), float) and not size.is_integer():
            raise ValueError(f"flow.{n}.bytes: is a whole number of bytes, not {size:g}")
    scenario, compositions = split(scenario)
    _native.check_scenario(json.dumps(scenario), compositions, others)


def records(scenario: Mapping[str, Any], name: str) -> bool:
    """Whether a scenario could record a series of this name."""
    try:
        check_mesh({**scenario, "record": {"series": [name]}})
    except ValueError:
        return False
    return True


def host_profile(scenario: Mapping[str, Any]) -> str:
    """What packets cost the hosts where they begin and end: `off` or `py`."""
    from wifu import _native

    scenario, _compositions = split(scenario)
    return _native.host_profile(json.dumps(scenario))


def advice(scenario: Mapping[str, Any]) -> list[str]:
    """What a scenario has that is easily taken for something else; nothing of a wrong one."""
    from wifu import _native

    try:
        return _native.advice(json.dumps(split(scenario)[0]))
    except ValueError:  # what is wrong with it is told where it is checked
        return []


class Kept:
    """A result that another process handed over."""

    def __init__(self, text: str, series: dict[str, bytes], frames: bytes) -> None:
        self._text, self._series, self._frames = text, series, frames

    def json(self) -> str:
        """The outcome, as JSON."""
        return self._text

    def series_names(self) -> list[str]:
        """Names of the recorded series."""
        return list(self._series)

    def series(self, name: str) -> bytes:
        """A recorded series: pairs of little-endian doubles."""
        return self._series[name]

    def frames(self) -> bytes:
        """The frame trace, 32 bytes a record."""
        return self._frames


class Timed:
    """A runner whose runs may take so many seconds (None: as long as they take): each in a process
    that can be ended, and that may end by itself, as it does of a panic in a loaded library.
    """

    def __init__(self, runner: Runner, limit: float | None) -> None:
        self._runner, self._limit = runner, limit
        self.code: str | None = getattr(runner, "code", None)

    def __call__(self, scenario: dict[str, Any]) -> RunResult:
        """Run it; TimeoutError if it takes too long, RuntimeError if its process dies."""
        with _Apart(_run_apart, self._runner, scenario) as apart:
            if not apart.pipe.poll(self._limit):
                raise TimeoutError(f"run_timeout: not finished after {self._limit:g} s")
            try:
                found = apart.pipe.recv()
            except EOFError:
                seed = f" (seed {scenario['seed']})" if "seed" in scenario else ""
                raise RuntimeError(
                    f"the process of this run died{seed}{apart.last_words()}"
                ) from None
            apart.tell()
        if isinstance(found, str):
            raise RuntimeError(found)
        return Kept(*found)


class _Apart:
    """A process of its own that does something and sends what comes of it by a pipe."""

    def __init__(self, what: Callable[..., None], *args: Any) -> None:
        # Not by fork, as other threads may hold locks.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["wifu.runner"])
        self.pipe, theirs = context.Pipe(duplex=False)
        handle, self._said = tempfile.mkstemp(prefix="wifu-said-")
        os.close(handle)
        self._child = context.Process(
            target=_begin, args=(what, self._said, *args, theirs), daemon=True
        )
        try:
            self._child.start()
        except BaseException:  # nobody enters what was never made
            self.pipe.close()
            Path(self._said).unlink(missing_ok=True)
            raise
        finally:
            theirs.close()

    def __enter__(self) -> _Apart:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.join()
        self.pipe.close()
        Path(self._said).unlink(missing_ok=True)

    def tell(self) -> None:
        """Say on standard error what it said there."""
        sys.stderr.write(Path(self._said).read_text(errors="replace"))

    def last_words(self) -> str:
        """How it ended, and of what, for the end of a sentence."""
        self._child.join(PATIENCE)
        status = self._child.exitcode or 0
        how = f" of {signal.Signals(-status).name}" if status < 0 else ""
        said = Path(self._said).read_text(errors="replace")
        panic = re.search(
            r"panicked at ([^\n]+):\n(.*?)\n(?:note: |fatal |stack |$)", said, re.DOTALL
        )
        if panic is None:
            return f"{how}: {line}" if (line := said.strip()[-WORDS:]) else how
        whose = " or ".join(path.name for path in libraries())
        whose = f", in a part or handler of {whose}" if whose else ""
        return f"{how}: a panic at {panic[1]}{whose}: {panic[2]}"


PATIENCE = 10.0
"""Seconds for a process to end that has closed its pipe."""

WORDS = 300
"""So much is told of what a process said last."""


def _begin(what: Callable[..., None], said: str, *args: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND), 2)
    what(*args)


def _run_apart(runner: Runner, scenario: dict[str, Any], pipe: Any) -> None:
    try:
        result = runner(scenario)
        series = {name: result.series(name) for name in result.series_names()}
        found: Any = (result.json(), series, result.frames())
    except BaseException as e:  # a panic of the simulator is no Exception
        found = f"{type(e).__name__}: {e}"
    pipe.send(found)


def dies(scenarios: Sequence[Mapping[str, Any]], check: Callable[[Any], None]) -> tuple[int, str]:
    """Of these scenarios the place of the first whose check ends the process it is made in, and of
    what; the number of them if none does.
    """
    with _Apart(_check_apart, check, scenarios) as apart:
        at = -1
        try:
            while at < len(scenarios):
                at = apart.pipe.recv()
        except EOFError:
            return at, apart.last_words()
    return at, ""


def _check_apart(
    check: Callable[[Any], None], scenarios: Sequence[Mapping[str, Any]], pipe: Any
) -> None:
    for at, scenario in enumerate(scenarios):
        pipe.send(at)
        with suppress(ValueError):  # the place in the plan is told by who asks again
            check(scenario)
    pipe.send(len(scenarios))


class Plain:
    """A run that gave an outcome, and perhaps series."""

    def __init__(self, outcome: dict[str, Any], series: Mapping[str, bytes] | None = None) -> None:
        self._outcome, self._series = outcome, dict(series or {})

    def json(self) -> str:
        """The outcome, as JSON."""
        return json.dumps(self._outcome)

    def series_names(self) -> list[str]:
        """Names of the recorded series."""
        return list(self._series)

    def series(self, name: str) -> bytes:
        """A recorded series: pairs of little-endian doubles."""
        return self._series[name]

    def frames(self) -> bytes:
        """Nothing: no frames were traced."""
        return b""


class Mock:
    """`wifu mock`, by a program that is looked for once."""

    def __init__(self) -> None:
        self._program = Pinned()
        self.code = self._program.code

    def __call__(self, scenario: Mapping[str, Any]) -> RunResult:
        """Run a scenario."""
        return mock(scenario, self._program)


def mock(scenario: Mapping[str, Any], program: Pinned | None = None) -> RunResult:
    """Run `wifu mock`: each key of the scenario is the option of that name.

    ValueError with the program's message if it refuses.
    """
    with tempfile.TemporaryDirectory(prefix="wifu-lab-") as folder:
        trace = Path(folder) / "trace.csv"
        argv = [str(program or Pinned()), "mock", "--json", "--trace", str(trace)]
        scenario, compositions = split(scenario)
        for number, text in enumerate(compositions):
            file = Path(folder) / f"compositions-{number}.toml"
            file.write_text(text)
            argv += ["--file", str(file)]
        for key, value in scenario.items():
            for one in value if isinstance(value, list) else [value]:
                argv += [f"--{key}", str(one)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        summary = _told(done)
        rows = list(csv.DictReader(trace.read_text().splitlines()))
    return Plain(_mock_outcome(summary, rows, scenario))


def _told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What `wifu mock` told of a run. One whose connection gave up is an outcome, too, and what it
    ended with the flow's `fault`; one that got wrong bytes, or was refused, is an error.
    """
    try:
        summary: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise ValueError(done.stderr.strip()) from None
    if not all(flow["intact"] for flow in summary["flows"]):
        raise ValueError(done.stderr.strip())
    for number, _, fault in FAULTS.findall(done.stderr):
        summary["flows"][int(number) - 1]["fault"] = fault
    return summary


FAULTS = re.compile(r"^wifu: flow (\d+)(, [AB])?: ended with (\w+)", re.MULTILINE)
"""Connections that gave up, in the words of `wifu mock`."""


def _mock_outcome(
    summary: Mapping[str, Any], rows: list[dict[str, str]], scenario: Mapping[str, Any]
) -> dict[str, Any]:
    flows = [
        {
            "id": int(f["flow"]),
            "from": "sender",
            "to": "receiver",
            "protocol": summary["protocol"],
            "app": "file",
            "hops": 2,
            "start_s": 0.0,
            "last_byte_s": f["last_byte_s"],
            "finished": bool(f["complete"]),
            "bytes": f["bytes_delivered"],
            "goodput_bps": f["goodput_bps"],
            "segments": f["data_segments"],
            "retransmissions": f["retransmissions"],
            # Absent where no part of the composition counts it.
            **{key: f[key] for key in ("timeouts", "cwnd", "fault") if key in f},
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
