"""Placements that are drawn again until they are connected: cells are of those that were, which are
the fewer the sparser nodes stand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wifu.outlets import topology_of
from wifu.plan import Plan


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
    about = {key: topology.get(key) for key in ("placement", "words", "propagation", "channel")}
    radio = scenario.get("radio")
    reach = ("power_dbm", "gain_dbi", "gain_db", "noise_figure_db", "attenuation_db", "rate")
    own = {k: radio.get(k) for k in reach} if isinstance(radio, Mapping) else {}
    return json.dumps([about, own], sort_keys=True, default=str)
