"""What identifies the plans that claims are judged by: their measure, and each cell with its
scenario, on every substrate. It comes with the package (`claimed-plans.json`), so that results of
another testbed are told from a paper's outside of the checkout too, and where its plan was edited.

`python3 -m wifu.claimed` in the checkout writes the file again after a plan was changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from wifu.cells import Cell, digest
from wifu.plan import Plan, load
from wifu.published import papers
from wifu.variants import SUBSTRATES

FILE = "claimed-plans.json"

DIGITS = 10
"""Hexadecimal ones of a cell: of a few thousand, two have the same by a chance of 1 in 10^5."""


def identity(cell: Cell) -> str:
    """Identifies a cell by its labels and its scenario."""
    return digest([dict(cell.labels), cell.key])[:DIGITS]


def measure_of(plan: Plan) -> list[Any]:
    """The measure of a plan as JSON has it."""
    return list(vars(plan.measure).values())


def identified(plan: Plan) -> dict[str, Any]:
    """What identifies a plan; a substrate is named where it changes something."""
    out: dict[str, Any] = {"measure": measure_of(plan)}
    for substrate in SUBSTRATES if plan.runner == "mesh" else ("sim",):
        cells = " ".join(identity(c) for c in plan.variant(substrate).cells)
        if cells != out.get("sim"):
            out[substrate] = cells
    return out


def every(root: Path) -> dict[str, dict[str, Any]]:
    """What identifies the plans below a folder that papers are repeated by, by name."""
    return {
        e.name: identified(load(root / e.plan / "plan.toml", e.changes))
        for paper in papers().values()
        for e in paper.experiments
    }


@cache
def shipped() -> Mapping[str, Mapping[str, Any]]:
    """The same of the plans that this package was made with."""
    found: dict[str, dict[str, Any]] = json.loads((resources.files("wifu") / FILE).read_text())
    return found


def cells_of(name: str, substrate: str) -> frozenset[str]:
    """The cells of a plan that came with the package."""
    own = shipped()[name]
    return frozenset(own.get(substrate, own["sim"]).split())


def main() -> None:
    """Write the file from the plans of this checkout."""
    into = Path(__file__).with_name(FILE)
    into.write_text(json.dumps(every(Path("experiments")), indent=0) + "\n")


if __name__ == "__main__":
    main()
