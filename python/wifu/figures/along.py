"""Where levels stand along a scale."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from wifu.cells import Label


def centred(count: int, most: int, room: float = 0.0) -> tuple[float, float]:
    """The limits of a panel with so many levels side by side, of which others have up to `most`: a
    level is as wide in all of them. `room` is beside them, in levels.
    """
    middle, half = (count - 1) / 2, most / 2 + room
    return middle - half, middle + half


def aside(places: Sequence[float], n: int, count: int, share: float = 0.012) -> float:
    """How far the nth of so many lines is moved, so that whiskers and marks do not hide each other:
    such a share of the scale, or as little as places that lie close together leave.
    """
    if len(places) < 2:
        return 0.0 if count < 2 else (n - (count - 1) / 2) * 0.2 / count
    ordered = sorted(places)
    least = min(two - one for one, two in pairwise(ordered))
    step = min(share * (ordered[-1] - ordered[0]), 0.2 * least / count)
    return (n - (count - 1) / 2) * step


SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


def placed(places: Sequence[Label]) -> tuple[dict[Label, float], bool]:
    """Where levels stand along a scale, and whether they are more and less of something there, so
    that what lies between them is too: numbers, and numbers with units that one can be told from
    the other by. Others stand beside each other in the plan's order, and are not joined.
    """
    # Yes and no are names.
    if all(isinstance(p, int | float) and not isinstance(p, bool) for p in places):
        return {p: float(p) for p in places}, True
    found = [re.fullmatch(r"(-?\d+(?:\.\d+)?)\s*(\D*)", str(p)) for p in places]
    split = [(float(m[1]), m[2]) for m in found if m]
    factors = _factors({unit for _, unit in split})
    if len(split) < len(places) or not factors:
        return {p: float(i) for i, p in enumerate(places)}, False
    known = [number * factors[unit] for number, unit in split]
    return dict(zip(places, known, strict=True)), True


def _factors(units: set[str]) -> dict[str, float]:
    """What each of these units is of the same one; nothing if that cannot be told."""
    if len(units) < 2:
        return dict.fromkeys(units, 1.0)
    if units <= set(SECONDS):
        return {unit: SECONDS[unit] for unit in units}
    rests = {unit[1:] if unit[:1] in PREFIXES else unit for unit in units}
    if len(rests) > 1:
        return {}
    (rest,) = rests
    return {unit: PREFIXES[unit.removesuffix(rest)] for unit in units}
