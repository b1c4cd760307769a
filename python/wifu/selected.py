"""Placements that are drawn again until they are connected: cells are of those that were, which are
the fewer the sparser nodes stand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wifu.outlets import topology_of
from wifu.plan import Plan

REACH = ("power_dbm", "gain_db", "attenuation_db", "noise_figure_db", "noise_dbm", "rate")
"""Keys of radios by which links reach further or less far."""


def warnings(plan: Plan) -> list[str]:
    """Where levels change how densely nodes stand, or how far they reach."""
    drawn = [told for cell in plan.cells if (told := _drawn(cell.scenario))]
    if plan.runner != "mesh" or len(set(drawn)) < 2:
        return []
    return [
        "placements are drawn until they are connected (`accept`, which `random,N` has), and how "
        "many that are thrown away depends on how many nodes there are, where, and how far they "
        "reach: cells are of connected placements alone, which among sparse ones are the rare "
        "dense ones, and no trend over all placements. Without `accept` flows may have no route."
    ]


def _drawn(scenario: Mapping[str, Any]) -> str:
    """What decides whether a placement is connected, if it has to be; empty if not."""
    topology = topology_of(scenario)
    placement = topology.get("placement")
    words = str(topology.get("words", ""))
    accepts = isinstance(placement, Mapping) and placement.get("accept")
    if not accepts and not words.startswith("random,"):
        return ""
    tables = ("placement", "words", "propagation", "channel", "radio")
    about = [{key: of.get(key) for key in tables} for of in (topology, scenario)]
    for of in about:
        if isinstance(radio := of["radio"], Mapping):
            of["radio"] = {key: radio.get(key) for key in REACH}
    return json.dumps(about, sort_keys=True, default=str)
