"""What of its profile a protocol takes.

A profile sets parameters for whatever parts may have them. A part of one's own may have fewer: what
the profile says of a window is in vain for one that does not declare it. Where one side of a
comparison takes a parameter and the other cannot, they differ in it, with the same profile.
"""

from __future__ import annotations

from collections.abc import Sequence

from wifu import _native, alike
from wifu.plan import Plan
from wifu.stacks import Stack, compositions_of, stack, stacks
from wifu.stamps import first

MOST = 4
"""Protocols that a sentence names."""


def notes(plan: Plan) -> list[str]:
    """What profiles take the place of, and what they set and no part takes, of each protocol of a
    plan that has such.
    """
    return [*_replaced(plan), *_unused(plan)]


def _replaced(plan: Plan) -> list[str]:
    """Protocols with a profile of their own, which a plan gives another one."""
    usual = stack("tcp-newreno")
    found: dict[str, str] = {}
    for cell in plan.cells:
        compositions = compositions_of(cell.scenario)
        for one in stacks(plan.runner, cell):
            if one is None or one.kernel or one.words in found:
                continue
            name, *words = one.words.split(",")
            own = stack(name, compositions)
            if own is None or usual is None or own.profile in (usual.profile, one.profile):
                continue
            if f"profile={one.profile}" in words:
                found[one.words] = _instead(name, own, one, compositions)
    return list(dict.fromkeys(found.values()))


def _instead(name: str, own: Stack, given: Stack, compositions: tuple[str, ...]) -> str:
    values = {key: value for key, value in given.values.items() if own.values.get(key) != value}
    changed = [f"{key} {value}, not {own.values.get(key, 'set')}" for key, value in values.items()]
    same = [
        other
        for other in _native.protocols()
        if other != name and (two := stack(f"{other},profile={given.profile}", compositions))
        and (two.parts, two.values) == (given.parts, given.values)
    ]  # fmt: skip
    left = f"; what is left is {same[0]}" if same else ""
    return (
        f"{name} has a profile of its own, {own.profile}, for which profile={given.profile} stands "
        f"here: {first(changed, alike.NAMED)}{left}. Without `profile` it is what its name says."
    )


def _unused(plan: Plan) -> list[str]:
    """What profiles set and no part takes."""
    found: dict[tuple[str, tuple[str, ...]], dict[str, None]] = {}
    for cell in plan.cells:
        for one in stacks(plan.runner, cell):
            if one is not None and one.unused:
                found.setdefault((one.profile, one.unused), {})[one.words] = None
    return [
        f"{first(list(names), MOST)}: profile {profile} sets {first(keys, alike.NAMED)}, which "
        "nothing here takes."
        for (profile, keys), names in found.items()
    ]


def halves(plan: Plan) -> list[str]:
    """What one side of comparisons takes of the profile of both, and the other does not."""
    takers: dict[tuple[str, str, str], dict[str, None]] = {}
    for pair in (p for axis in alike.compared(plan) for p in alike.pairs(plan, None, axis)):
        found = (stacks(plan.runner, cell) for cell in pair.cells)
        for one, two in zip(*found, strict=False):
            if one is None or two is None or one.profile != two.profile:
                continue
            for taker, other in ((one, two), (two, one)):
                if told := _taken(taker, other):
                    takers.setdefault((taker.profile, told, other.words), {})[taker.words] = None
    others: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (profile, told, other), names in takers.items():
        others.setdefault((profile, told, tuple(names)), []).append(other)
    return [
        f"Of profile {profile} {_do(names, 'takes', 'take')} {told}, and "
        f"{_do(lacking, 'has', 'have')} no part that does: they differ in that as well, besides "
        "what their names say."
        for (profile, told, names), lacking in others.items()
    ]


def _taken(taker: Stack, other: Stack) -> str:
    """What the first takes and the second does not, in words."""
    keys = [key for key in other.unused if key not in taker.unused]
    # What a part has by another name, or nowhere, is not taken either; what is off is as if it were
    # not there.
    found = ((key, taker.value(key)) for key in keys)
    values = {key: value for key, value in found if value not in (None, "off")}
    return first([f"{key} ({value})" for key, value in values.items()], alike.NAMED)


def _do(names: Sequence[str], does: str, do: str) -> str:
    """Names, with a word as one or several of them have it."""
    return f"{first(names, MOST)} {does if len(names) == 1 else do}"
