"""What figures call axes, levels and metrics: as the plan says it, else by their names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from wifu import alike, fixed
from wifu.api import Results
from wifu.cells import Cell, Label
from wifu.digits import with_unit
from wifu.metrics import metric_of


class Words:
    """The names in a figure. Those of its own `label` go before those of the plan. Where levels of
    an axis have different profiles, each is named behind its level; with `mixed` false never.
    `plain`: where no formulas can be, what has one is called as the plan calls it.
    """

    def __init__(
        self, results: Results, spec: Mapping[str, Any], mixed: bool = True, plain: bool = False
    ) -> None:
        axes = [a.name for a in results.plan.axes] if mixed else []
        self._profiles = {name: alike.profiles(results.plan, name) for name in axes}
        self._cells = results.plan.cells
        own: Mapping[str, Any] = spec.get("label", {})
        self._where = set(spec.get("where", {}))
        plans = results.plan.labels
        self._given: dict[str, Mapping[str, Any]] = {
            key: {**_table(plans.get(key)), **_table(own.get(key))} for key in {**plans, **own}
        }
        if plain:
            self._given = {
                key: {k: text for k, text in table.items() if "$" not in str(text)}
                for key, table in self._given.items()
            }

        every = (
            text
            for axis in results.plan.axes
            for text in {self.level(axis.name, level.label) for level in axis.levels}
        )
        self._of_several = {text for text, axes in Counter(every).items() if axes > 1}

    def axis(self, name: str) -> str:
        """An axis of the plan."""
        return str(self._given.get(name, {}).get("title", name))

    def level(self, axis: str | None, label: Label) -> str:
        """A level where it is clear of which axis it is."""
        text = str(self._given.get(axis or "", {}).get(str(label), label))
        profile = self._profiles.get(axis or "", {}).get(str(label))
        return alike.named(text, profile)

    def apart(self, axis: str | None, label: Label) -> str:
        """A level in a legend, where no axis stands beside it: a number is told what it is of, and
        so is what another axis has as well.
        """
        text = self.level(axis, label)
        if axis is None or (text[:1].isalpha() and text not in self._of_several):
            return text
        name = self.axis(axis)
        return f"{name}: {text}" if "," in name else f"{name} {text}"

    def metric(self, name: str) -> str:
        """A metric without its unit; of a flow alone with its protocol, where levels are called by
        those of others.
        """
        own = fixed.protocol(self._cells, name)
        label = f"{metric_of(name).label} ({own})" if own else metric_of(name).label
        return str(self._given.get(name, {}).get("title", label))

    def alone(self, name: str, default: str) -> str:
        """A metric of a flow alone (`goodput@1`), if the plan calls it something."""
        return str(self._given.get(name, {}).get("title", default))

    def scale(self, name: str) -> str:
        """A metric with its unit: what is written along a scale."""
        return with_unit(self.metric(name), metric_of(name).unit)

    def quantity(self, name: str, default: str) -> str:
        """Something over time."""
        return str(self._given.get(name, {}).get("title", default))

    def split(
        self, cells: Sequence[Cell], names: Sequence[str | None]
    ) -> list[tuple[str, list[Cell]]]:
        """Cells by what distinguishes them besides the axes `names`: the panels of a figure, each
        with its name, which is that of every axis and of the level there.
        """
        varied = {k for c in cells for k in c.labels if len({str(d.labels[k]) for d in cells}) > 1}
        # The one level that a filter left is told as well, where there are panels to bear it.
        varied |= self._where if names else set()
        groups: dict[str, list[Cell]] = {}
        titles: dict[str, str] = {}
        for cell in cells:
            rest = {k: v for k, v in cell.labels.items() if k in varied and k not in names}
            key = json.dumps(rest)
            groups.setdefault(key, []).append(cell)
            titles[key] = ", ".join(f"{self.axis(k)} {self.level(k, v)}" for k, v in rest.items())
        return [(titles[k], v) for k, v in groups.items()]

    def titles(self, cells: Sequence[Cell]) -> dict[str, str]:
        """What distinguishes each of these cells, by the cell's name."""
        return {c.name: title for title, members in self.split(cells, []) for c in members}


def _table(given: Any) -> Mapping[str, Any]:
    """Text alone is the title."""
    if given is None:
        return {}
    return given if isinstance(given, Mapping) else {"title": given}
