"""What can be wrong with what a user gives the lab."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from wifu import _native


class LabError(Exception):
    """The lab cannot do what it was told; the message says why and, where possible, what to do."""


class PlanError(LabError):
    """A plan is wrong. Carries the path of the offending key, and file and line where known."""

    def __init__(
        self, message: str, key: str = "", file: Path | None = None, line: int | None = None
    ) -> None:
        self.message, self.key, self.file, self.line = message, key, file, line
        super().__init__(message)

    def __str__(self) -> str:
        """Where, which key, what."""
        where = ""
        if self.file is not None:
            where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        return f"{where}{self.key}: {self.message}" if self.key else f"{where}{self.message}"


class MissingError(LabError):
    """An outcome lacks what a metric is computed from."""


class ReplicateError(LabError):
    """Replicates of a cell that are one and the same sample."""


class RunError(LabError):
    """A run in real time did not come about, or did not end."""


class Cancelled(RunError):
    """The run was given up because the campaign is."""


# So many names are told at once.
FEW = 12


def placeholders(name: str, valid: Iterable[str]) -> str:
    """A hint for a placeholder of a template that is unknown: the nearest, and all there are."""
    known = sorted(set(valid))
    question = _native.meant(name, known)
    told = ", ".join(f"{{{k}}}" for k in known) or "none"
    return f"{question} There are {told}" if question else f"there are {told}"


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint for a name that is none of `valid`: the nearest of them, or some."""
    known = sorted(set(valid), key=_by_number)
    question = _native.meant(name, known)
    if question is not None:
        return question
    # Levels may have commas of their own.
    between = "; " if any("," in one for one in known) else ", "
    if len(known) <= FEW:
        return "there are: " + between.join(known)
    return f"there are: {between.join(known[:FEW])} and {len(known) - FEW} more"


def _by_number(name: str) -> tuple[float, str]:
    """Numbers by their size, before what is none."""
    try:
        return float(name), name
    except ValueError:
        return math.inf, name
