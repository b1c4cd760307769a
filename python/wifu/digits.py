"""How many digits of a number are shown, and where its unit stands."""

from __future__ import annotations

import math
import re


def number(value: float, like: float | None = None) -> str:
    """A value with as many digits as `like` (a half width, say) justifies; else three or four."""
    if not math.isfinite(value):
        return "?"
    if like is not None and math.isfinite(like) and like > 0:
        digits = max(0, min(6, 1 - math.floor(math.log10(like))))
        if 0 < abs(value) < 10.0**-digits:  # no digit would be left, or one that is another number
            digits = min(digits + 2, -math.floor(math.log10(abs(value))))
        text = f"{value:.{digits}f}"
        return text.removeprefix("-") if float(text) == 0 else text
    if value == 0:
        return "0"
    if 0.99 < abs(value) < 1:
        return f"{value:.6f}"
    digits = max(0, min(6, 3 - math.floor(math.log10(abs(value)))))
    return f"{value:.{digits}f}"


def with_unit(label: str, unit: str) -> str:
    """Words and unit as they stand along a scale; once, if who called it so has said the unit."""
    said = not unit or re.search(rf"[\s,(\[]{re.escape(unit)}[)\]]?$", label)
    return label if said else f"{label}, {unit}"
