"""What is random in a scenario and may not happen for many runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

KEYS = ("loss", "variation", "p", "reorder", "duplicate")
"""Of wires, of handlers, and of the wired network (`runner = "mock"`)."""

_IN_WORDS = re.compile(r"\b(?:loss|variation)=[0.]*[1-9]")


def seldom(scenario: Any) -> bool:
    """Whether packets are lost or late at random: runs in which none was are alike, and no sign
    that others will be.
    """
    if isinstance(scenario, Mapping):
        given = [scenario[key] for key in KEYS if key in scenario]
        if any(not isinstance(v, list | Mapping) and re.search("[1-9]", str(v)) for v in given):
            return True
        if scenario.get("use") == "drop" and "p" not in scenario:
            return True
        return any(seldom(value) for value in scenario.values())
    if isinstance(scenario, list):
        return any(seldom(value) for value in scenario)
    return isinstance(scenario, str) and bool(_IN_WORDS.search(scenario))
