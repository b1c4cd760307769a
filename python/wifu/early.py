"""What is of how long runs are: flows that were cut off before what they come to had begun. One
note says all of it, with what would tell more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Early:
    """One way in which it is so: a sentence with the cells, what would tell more, each by itself,
    and whether that takes colour and bold.
    """

    what: str
    longer: tuple[str, ...]
    colourless: bool = False


def sentence(every: Sequence[Early]) -> str:
    """All of it as one note; nothing if there is none."""
    if not every:
        return ""
    tells = list(dict.fromkeys(way for early in every for way in early.longer))
    # Who is to take a window as well has the longer time in that.
    tells = [a for a in tells if not any(b != a and b.startswith(a) for b in tells)]
    named = ", or ".join(tells)
    named += "," * ("," in named)
    verdict = " There is neither colour nor bold between such cells."
    return (
        f"How long runs are is in these numbers. {' '.join(early.what for early in every)} "
        f"{named[0].upper()}{named[1:]} tells what they come to."
        f"{verdict * any(early.colourless for early in every)}"
    )
