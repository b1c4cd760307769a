"""Cells that a plan leaves out (`skip`), and by which of its rules: they were not run, which is not
the same as that nothing is known of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wifu import values
from wifu.cells import Label, combinations, level_names, skips
from wifu.plan import Plan
from wifu.values import Value

MOST = 4
"""So many rules are told."""


def reason(plan: Plan, labels: Mapping[str, Label]) -> str:
    """The rule by which a plan leaves out a cell, in words; empty if none does."""
    found = next((words for words, rule in _rules(plan) if skips(rule, labels)), "")
    # Of axes that go together there never were most cells.
    there = found and dict(labels) in combinations(plan.axes, plan.zipped)
    return found if there else ""


def _rules(plan: Plan) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """The rules that hold on a plan's substrate, the plan's own first, with words for each."""
    special = len(plan.source.get(plan.substrate, {}).get("skip", []))
    for n, rule in enumerate(plan.skip):
        key = "skip" if n < len(plan.skip) - special else f"{plan.substrate}.skip"
        told = " and ".join(f"{name} = {_wanted(v)}" for name, v in rule.items())
        yield f"{told} ({key})" if told else key, rule


def _wanted(value: Value) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def sentence(plan: Plan, where: Mapping[str, Any] | None = None) -> str:
    """What stands below tables and figures of a plan of whose cells `where` some are left out."""
    shown = _shown(plan, where or {})
    every = [
        labels
        for labels in combinations(plan.axes, plan.zipped)
        if all(str(labels[name]) in names for name, names in shown.items())
    ]
    found = [w for w, rule in _rules(plan) if any(skips(rule, labels) for labels in every)]
    if not found:
        return ""
    more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
    return f"Skipped, as the plan leaves them out: {'; '.join(found[:MOST])}{more}."


def _shown(plan: Plan, where: Mapping[str, Any]) -> dict[str, set[str]]:
    """The levels that are shown of each axis that `where` chooses from."""
    shown: dict[str, set[str]] = {}
    for name, wanted in where.items():
        known = {str(v.label) for v in plan.axis(name).levels}
        given = values.sequence(wanted) if isinstance(wanted, str) else wanted
        shown[name] = level_names(given, known)
    return shown
