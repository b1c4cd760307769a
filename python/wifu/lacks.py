"""What protocols go without on emulated hosts that the simulator tells them, as `wifu check` says.

Two substrates may differ by that alone.
"""

from __future__ import annotations

import json
import re
from typing import Any

KNOWN = "`wifu sim` with radios"
"""How `wifu check` calls the simulator's nodes that have radios."""

SENTENCE = re.compile(r"\S+ goes without (.+?), which is not known in [^:]+: (.+); it is in (.+)")


def sentence(name: str, checked: str) -> str:
    """What a protocol knows less of here than in the simulator, from what `wifu check --json` says
    of it; nothing if that is nothing.
    """
    reports: list[dict[str, Any]] = json.loads(checked)
    every = [text for report in reports for text in report.get("goes_without") or []]
    found = [match for text in every if (match := SENTENCE.fullmatch(text)) and KNOWN in match[3]]
    if not found:
        return ""
    told = "; ".join(f"without {match[1]} {match[2]}" for match in found)
    return f"{name} knows less here than in the simulator: {told}"
