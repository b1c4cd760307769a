"""Cells that a plan leaves out (`skip`), and by which of its rules: they were not run, which is not
the same as that nothing is known of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wifu import values
from wifu.cells import Label, skips
from wifu.plan import Plan
from wifu.values import Value

MOST = 4
"""So many rules are told."""


def reason(plan: Plan, labels: Mapping[str, Label]) -> str:
    """The rule by which a plan leaves out a cell, in words; empty if none does."""
    return next((words for words, rule in _rules(plan) if skips(rule, labels)), "")


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
    found = [words for words, rule in _rules(plan) if _meets(plan, rule, where or {})]
    if not found:
        return ""
    more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
    return f"Skipped, as the plan leaves them out: {'; '.join(found[:MOST])}{more}."


def _meets(plan: Plan, rule: Mapping[str, Value], where: Mapping[str, Any]) -> bool:
    """Whether a rule leaves out something among levels that are shown."""
    shown = {a.name: [v.label for v in a.levels] for a in plan.axes}
    for name, wanted in where.items():
        given = values.sequence(wanted) if isinstance(wanted, str) else wanted
        named = {str(v) for v in (given if isinstance(given, list) else [given])}
        shown[name] = [v for v in shown[name] if str(v) in named]
    return all(
        any(skips({name: v}, {name: label}) for label in shown[name]) for name, v in rule.items()
    )
