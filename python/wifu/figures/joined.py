"""What joins the nodes of a map: links of radios, and wires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.patches import FancyArrowPatch

from wifu.figures import style
from wifu.figures.paths import Point

HEARD = 4.0
"""Decibels of signal over noise below which nobody is a neighbour."""

BEND = 0.3
"""How far a link to a node that is not the next one keeps from a row of nodes, by its length."""

Outcome = Mapping[str, Any]


class Joined(NamedTuple):
    """One direction between two nodes."""

    ends: tuple[str, str]
    carried: float
    """Frames of a radio, packets of a wire."""
    good: float | None
    """The share of attempts that were acknowledged, of packets that arrived; none if none was."""
    wire: bool


def joined(outcome: Outcome) -> list[Joined]:
    """What joins nodes in a run: links over which somebody heard something, and all wires."""
    found = []
    for link in outcome.get("links") or []:
        good = None
        # An RTS without an answer is an attempt as well; what was kept before does not say it.
        if tries := link.get("tries") or link["attempts"]:
            good = link["acked"] / tries
        elif not (link["snr_db"] or 0.0) > HEARD:
            continue  # what was cut and has no attempts has no quality either
        found.append(Joined((link["from"], link["to"]), link["frames"], good, False))
    for wire in outcome.get("wires") or []:
        sent = wire["packets"] + (wire.get("lost") or 0)
        good = wire["packets"] / sent if sent else None
        found.append(Joined((wire["from"], wire["to"]), wire["packets"], good, True))
    return found


class Scale(NamedTuple):
    """What the looks of lines say, in all panels alike."""

    colours: Colormap
    norm: Normalize
    most: Mapping[bool, float]
    """What the busiest of the radios' links carried, and (True) of the wires."""


def busiest(links: Sequence[Joined]) -> dict[bool, float]:
    """What the busiest of these links carried, and (True) the busiest wire."""
    return {
        kind: max((v.carried for v in links if v.wire == kind), default=0) or 1
        for kind in (False, True)
    }


def draw(
    axis: Axes, links: Sequence[Joined], places: Mapping[str, Point], real: bool,
    scale: Scale, size: float,
) -> bool:  # fmt: skip
    """Draw all that joins nodes; whether there are links that carried nothing, in grey. Nodes whose
    places are not `real` stand in a row, where only those beside each other have such links.
    """
    spread = np.ptp(np.array(list(places.values())), axis=0).max() or 1.0
    idle: set[frozenset[str]] = set()
    used = {frozenset(link.ends) for link in links if link.good is not None}
    for link in links:
        one, two = (np.array(places[name]) for name in link.ends)
        far = not real and float(np.hypot(*(two - one))) > 1.01
        if link.good is None:
            pair = frozenset(link.ends)
            # A radio hears over its neighbours; a wire is there.
            if pair not in idle | used and (link.wire or not far):
                idle.add(pair)
                _line(axis, one, two, far)
            continue
        along = (two - one) / (np.hypot(*(two - one)) or 1.0)
        aside = np.array([along[1], -along[0]]) * spread * 0.011 / size
        width = max(1.0, (1.2 + 3.6 * (link.carried / scale.most[link.wire]) ** 0.5) * size)
        if far:
            _make_room(axis, one, two)
        axis.add_patch(
            FancyArrowPatch(
                tuple(one + aside), tuple(two + aside), arrowstyle="-|>",
                connectionstyle=f"arc3,rad={BEND if far else 0.0}",
                mutation_scale=7 * size + 2 * width, shrinkA=9 * size, shrinkB=9 * size,
                linewidth=width, color=scale.colours(scale.norm(link.good)), zorder=2,
                joinstyle="miter", capstyle="butt",
            )
        )  # fmt: skip
    return bool(idle)


def _line(axis: Axes, one: Any, two: Any, far: bool) -> None:
    """A grey line, of what carried nothing."""
    if not far:
        axis.plot(*zip(one, two, strict=True), color=style.FAINT, linewidth=0.8, zorder=1)
        return
    _make_room(axis, one, two)
    axis.add_patch(
        FancyArrowPatch(
            tuple(one), tuple(two), arrowstyle="-", connectionstyle=f"arc3,rad={BEND}",
            color=style.FAINT, linewidth=0.8, zorder=1,
        )
    )  # fmt: skip


def _make_room(axis: Axes, one: Any, two: Any) -> None:
    """Let an arc between two nodes of a row fit its panel, on either side of the row."""
    (x, y), up = (one + two) / 2, 0.5 * BEND * float(np.hypot(*(two - one)))
    axis.update_datalim([(x, y + up), (x, y - up)])


WIDTH = "by the square root of their share of those of the busiest {} of {}"


def words(drawn: Sequence[Joined], grey: bool, panels: int) -> tuple[str, str]:
    """What a scale of colours is of, and what a caption says of lines in so many panels; nothing is
    coloured where the first is empty.
    """
    where = "the map" if panels == 1 else "all panels"
    kinds = {link.wire for link in drawn if link.good is not None}
    every = {link.wire for link in drawn}
    if not every:
        return "", " Neither links nor wires are recorded."
    names = {False: "attempts acknowledged", True: "packets arrived"}
    scale = names[kinds.pop()] if len(kinds) == 1 else "acknowledged, arrived" if kinds else ""
    told = []
    if False in every:
        told.append(
            "A line per direction that carried data frames, on the right of its direction of "
            "travel: colour is the share of attempts that were acknowledged (an RTS that got no "
            f"CTS is an attempt, too), width the frames carried, {WIDTH.format('link', where)}. "
            "Short frames fail less than long ones, so that a direction which carries "
            "acknowledgements looks better than one with data over the same link."
        )
    if True in every:
        told.append(
            "A line per direction of a wire that was sent over, on the right of its direction of "
            "travel: colour is the share of packets that arrived, width their number, "
            f"{WIDTH.format('wire', where)}; what a queue dropped was not sent."
        )
    if grey:
        what = []
        if False in every:
            what.append("nodes that heard each other's frames and sent each other none")
        if True in every:
            what.append("wires not used")
        told.append(f"Grey lines: {'; '.join(what)}.")
    return scale, " " + " ".join(told)
