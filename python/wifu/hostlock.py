"""One campaign in real time per host: two would make each other late."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from wifu.errors import LabError

Told = Callable[[str], None]
PERIOD = 0.5
"""Seconds between two attempts."""


def default_path() -> Path:
    """Where the lock is: below /run/wifu for root, else where the user may write."""
    if os.geteuid() == 0:
        return Path("/run/wifu/lab.lock")
    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / "wifu-lab.lock"


@contextmanager
def exclusive(
    what: str, told: Told | None = None, path: Path | None = None, patience: float | None = None
) -> Iterator[None]:
    """Hold this host's lock for runs in real time; wait for it and say whom for.

    The file stays: to remove it would let two hold locks of the same name. `patience` in seconds.
    """
    path = path or default_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    # Opened without cutting it: what is inside tells of the one who holds it.
    with _open(path) as file:
        said = ""
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                who = holder(path)
            if patience is not None and time.monotonic() - begun > patience:
                raise LabError(f"runs in real time are done by {who}: one at a time on a host")
            if who != said and told is not None:
                told(f"waiting for {who}: runs in real time are one at a time on a host")
                said = who
            time.sleep(PERIOD)
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "what": what, "since": time.time()}))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _open(path: Path) -> TextIO:
    try:
        # Not through a link that somebody else has put there. Every write goes to the end, for
        # others cut the file while we wait.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        return os.fdopen(os.open(path, flags, 0o644), "a+")
    except OSError as e:
        raise LabError(f"{path}, the lock for runs in real time: {e.strerror}") from None


def holder(path: Path) -> str:
    """Who holds the lock, in words."""
    try:
        told = json.loads(path.read_text())
        minutes = (time.time() - float(told["since"])) / 60
        return f"process {told['pid']} ({told['what']}, for {minutes:.0f} min)"
    except (OSError, ValueError, KeyError):
        return "another process"
