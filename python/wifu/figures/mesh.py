"""Figures of the mesh: where the nodes are and how good their links; where a packet's time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.patches import Patch

from wifu import splits, ways
from wifu.answering import asks
from wifu.api import Results
from wifu.cells import Cell
from wifu.errors import LabError
from wifu.figures import joined, legends, naming, page, paths, style
from wifu.figures.compare import MOST, Made, chosen, counting, first, left_out, one_of
from wifu.figures.sayings import all_bad, of_unlike
from wifu.figures.words import Words
from wifu.outlets import data_ends
from wifu.unlike import EVEN

PARTS = (
    ("splitter_s", "at the splitter", "#d9b8a0", "ooo"),
    ("node_s", "in the node", "#b7a6cc", "/////"),
    ("queue_s", "in the queue", "#dde3ea", ""),
    ("contention_s", "contention", "#f0b030", ""),
    ("retry_s", "failed attempts", "#c8500a", "xxxxx"),
    ("air_s", "on the air", "#0b3c6b", ""),
    ("sent_s", "being sent", "#0b3c6b", "//"),
    ("propagation_s", "on the wire", "#6fa88f", "....."),
)
"""Where a packet's time goes: what links have is each darker than the one before, so that grey
tells them apart."""


APART = 5.0
"""So many times as long as another, and a waterfall has a scale of its own."""

OWN = " (own scale)"

MOSTLY = 0.5
"""If a run has more than this share of all packets of a hop, means are said to be its."""


def _quality_map() -> ListedColormap:
    """Bad links pale and warm, good ones dark and cold; the better the darker, also in grey: most
    so above the middle, where links that carry anything are.
    """
    share = np.linspace(0.0, 1.0, 256)
    return ListedColormap(mpl.colormaps["plasma_r"](0.06 + 0.94 * share * (0.25 + 0.75 * share)))


def map(results: Results, spec: dict[str, Any]) -> Made:
    """Nodes where they are; links that carried frames, coloured by how many attempts succeeded, and
    wires by how many packets arrived.
    """
    every, run = chosen(results, spec), int(spec.get("run", 1))
    gone, left = counting(results, every, [run])
    cells, rest = first([c for c in every if (c.name, run) not in gone], MOST)
    outcomes = [results.outcome(cell, run) for cell in cells]
    # Equal scales on both axes and common scales of panels exclude each other.
    most = 1 if len(cells) <= 3 else 2 if len(cells) <= 6 else 3
    crowded = any(naming.crowded(outcome["nodes"]) for outcome in outcomes)
    tall = len(cells) * _height(outcomes, 1) * page.scale(1)
    if page.current().columns == 1 and crowded and tall <= page.LENGTH:
        most = 1
    across = page.beside(len(cells), most)
    height = _height(outcomes, across)
    figure, axes = page.panels(len(cells), height=height, columns=most, share=False)
    size = _size(across)
    norm, colours = Normalize(0.0, 1.0), _quality_map()
    names, moved = Words(results, spec).titles(every), []
    drawn, grey = [joined.joined(outcome) for outcome in outcomes], False
    links = [link for own in drawn for link in own]
    looks = joined.Scale(colours, norm, joined.busiest(links))
    for axis, cell, outcome, own in zip(axes, cells, outcomes, drawn, strict=True):
        places, real = _places(outcome["nodes"])
        grey |= joined.draw(axis, own, places, real, looks, size)
        walked = paths.ways(cell.scenario, places, float(outcome["sim_seconds"])) if real else {}
        _ways(axis, walked)
        moved.append((cell.scenario, places, walked))
        _nodes(axis, outcome, places, size)
        when = "at the end of the run" if cell.scenario.get("mobility") else ""
        style.entitle(axis, ", ".join(filter(None, (names[cell.name], when))))
        axis.set_aspect("equal", adjustable="datalim")
        if real:
            axis.set_xlabel("m")
        else:
            axis.set_axis_off()
    if real:
        style.label_rows(axes, "m")
    scale, told = joined.words(links, grey, len(cells))
    if scale:
        _scale(figure, axes, mpl.cm.ScalarMappable(norm, colours), scale)
    if page.current().axes is None:
        style.fold(figure)  # what stands around panels decides how much room names have
    figure.draw_without_rendering()
    for axis, outcome in zip(axes, outcomes, strict=True):
        naming.names(axis, _places(outcome["nodes"])[0], size)
    kinds = [
        [{data_ends(f)[end] for f in outcome["flows"]} for end in (0, 1)] for outcome in outcomes
    ]
    caption = f"Run {run}.{told} Squares: senders; diamonds: receivers"
    caption += "; hexagons: both." if any(one & other for one, other in kinds) else "."
    if any(cell.scenario.get("mobility") for cell in cells):
        caption += " Nodes that move are where they were when the run ended"
        caption += f"{paths.words(moved)}; links are of the whole run."
    if not real:
        caption += " The set has no positions: nodes are drawn in order."
    caption += one_of(results, cells, run)
    return figure, "The mesh and its links", caption + left + rest


def _scale(figure: Any, axes: Sequence[Axes], of: Any, name: str) -> None:
    """The scale of colours, below: beside panels it takes their width."""
    figure.colorbar(
        of, ax=axes, label=name, location="bottom", shrink=0.6, aspect=30, pad=0.02,
        format=mpl.ticker.PercentFormatter(1.0),
    )  # fmt: skip
    if page.current().axes is None:
        figure.set_figheight(page.lower(float(figure.get_figheight()) + 0.5))


def _ways(axis: Axes, walked: Mapping[str, Sequence[paths.Point]]) -> None:
    """Dotted lines of how nodes went to where they are."""
    for way in walked.values():
        axis.plot(*zip(*way, strict=True), ":", color=style.MUTED, lw=1.1, zorder=1.5)


def _height(outcomes: Sequence[Mapping[str, Any]], across: int) -> float:
    """Inches for a panel, so that a chain is flat and a square of nodes is square."""
    wide = (6.0 if across == 1 else 0.8 * page.SCREEN[across] / across) * (
        page.width(across) / page.SCREEN[across]
    )
    tallest = 0.0
    for outcome in outcomes:
        along, up = np.ptp(np.array(list(_places(outcome["nodes"])[0].values())), axis=0)
        tallest = max(tallest, float(up) / float(along) if along > 0 else 1.0)
    return float(np.clip((0.8 + wide * tallest) / page.scale(across), 1.9, 6.2))


def _places(nodes: Sequence[Mapping[str, Any]]) -> tuple[dict[str, tuple[float, float]], bool]:
    if all(n.get("position") for n in nodes):
        return {n["name"]: (n["position"][0], n["position"][1]) for n in nodes}, True
    return {n["name"]: (float(i), 0.0) for i, n in enumerate(nodes)}, False


def _size(across: int) -> float:
    """How large nodes and arrows are; where a panel is narrow they are smaller."""
    return max(min(1.0, page.width(across) / across / page.SCREEN[1]), 0.45)


def _nodes(
    axis: Axes, outcome: Mapping[str, Any], places: Mapping[str, tuple[float, float]], size: float
) -> None:
    senders = {data_ends(f)[0] for f in outcome["flows"]}
    receivers = {data_ends(f)[1] for f in outcome["flows"]}
    for name, (x, y) in places.items():
        both = name in senders and name in receivers
        alone = "s" if name in senders else "D" if name in receivers else "o"
        marker = "h" if both else alone
        face = style.INK if marker != "o" else "white"
        axis.plot(x, y, marker, markersize=9 * size, mfc=face, mec=style.INK, mew=1.3, zorder=3)
    # Equal scales leave out margins, but nothing that is there; names are wider than nodes.
    xs = [x for x, _ in places.values()]
    room = 0.04 * ((max(xs) - min(xs)) or 1.0) / size
    y = next(iter(places.values()))[1]
    axis.update_datalim([(min(xs) - room, y), (max(xs) + room, y)])
    axis.margins(0.05, 0.25)


def waterfall(results: Results, spec: dict[str, Any]) -> Made:
    """The mean packet's way: each hop's bar begins where the hop before it ended."""
    cells = chosen(results, spec)
    flow, reverse = int(spec.get("flow", 1)), bool(spec.get("reverse", False))
    having = [(c, *_hops(results, c, flow, reverse)) for c in cells]
    found, rest = first([(c, hops, n) for c, hops, n in having if hops], 6)
    if not found:
        raise LabError(all_bad(results, cells) or "no run recorded hops of that flow")
    rows = max(len(hops) for _, hops, _ in found)
    height = 1.5 + 0.36 * rows
    # In a column bars have room if panels stand below each other, which they do while they fit.
    stacked = page.current().columns == 1 and len(found) * height * page.scale(1) <= page.LENGTH
    most = 1 if stacked else 2
    figure, axes = page.panels(len(found), height=height, columns=most, share=False)
    names = Words(results, spec).titles(cells)
    used: dict[str, Any] = {}
    ends = []
    for axis, (cell, hops, _) in zip(axes, found, strict=True):
        ends.append(_bars(axis, hops, used))
        axis.set_yticks(range(len(hops)), [h["name"] for h in hops])
        axis.tick_params(axis="y", length=0, labelleft=True)
        style.entitle(axis, names[cell.name])
        axis.set_ylim(rows - 0.4, -0.6)
        style.grid(axis, "x")
    # The number behind the last bar has room, too.
    inches = 0.95 * axes[0].get_position().width * float(page.root(axes[0]).get_figwidth())
    number = (7.5 * 0.58 * style.small() + 4) / 72
    own = max(ends) > APART * min(ends)
    for n, (axis, end) in enumerate(zip(axes, ends, strict=True)):
        last = end if own else max(ends)
        axis.set_xlim(0, last / (1 - min(0.6, number / inches)) or 1.0)
        # One scale of all is named where nothing stands below.
        if own or n + page.beside(len(axes), most) >= len(axes) or page.current().axes is not None:
            axis.set_xlabel(f"time since the packet entered the mesh, ms{OWN * own}")
    order = [name for _, name, *_ in PARTS if name in used]
    legends.above(figure, [used[name] for name in order], order)
    counts = sorted({n for _, _, n in found})
    told = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    what = "acknowledgements" if reverse else "data packets"
    if all(asks(cell, flow) for cell, _, _ in found):
        what = "answers" if reverse else "questions and acknowledgements"
    caption = f"Mean over the {what} of flow {flow} that crossed each hop, n = {told} run"
    caption += "s" * (counts != [1])
    caption += f"{left_out(results, [cell for cell, _, _ in found])}. "
    caption += f"{of_unlike([cell for cell, _, _ in found], flow, reverse)} ".lstrip()
    if any(h["several"] for _, hops, _ in found for h in hops):
        caption += (
            "Runs had several routes: hops go by their number, those that only some routes have "
            "are of these alone, and the sum is the delay of no packet."
        )
    else:
        caption += (
            "Hops are averaged one by one, so that the sum is the delay of a packet that is never "
            "lost, until the last node has it, with SIFS and ACK of each radio hop besides."
        )
    if splits.splitting(results, [cell for cell, _, _ in found]):
        caption += _at_splitters([hop for _, hops, _ in found for hop in hops])
    if own:
        caption += f" Each panel has a scale of its own: they end at {style.number(min(ends))} to "
        caption += f"{style.number(max(ends))} ms."
    laned = [c for c, _, _ in found if ways.laned(results.plan.runner, c, flow)]
    if laned and len(laned) < len(found) and not reverse:
        caption += f" With lanes ({_listed([names[c.name] for c in laned])}) a packet enters the "
        caption += "mesh when its source's lane takes it, and its wait there is in the first bar; "
        caption += "without, that in the source's send buffer is in none."
    caption += _in_nodes([hop for _, hops, _ in found for hop in hops])
    every = [(names[cell.name], hops, n) for cell, hops, n in found]
    caption += _crossed(every) + _mostly_one(every)
    caption += _bare(results, names, [cell for cell, hops, _ in having if not hops])
    return figure, "Where a packet's time goes", caption + rest


def _bare(results: Results, names: Mapping[str, str], cells: Sequence[Cell]) -> str:
    """What a caption says of cells of which no hops are known, and why not."""
    whys: dict[str, list[str]] = {}
    for cell in cells:
        why = all_bad(results, [cell]) or "none of these packets is recorded"
        whys.setdefault(why, []).append(names[cell.name])
    return "".join(f" Not shown, as {why}: {_listed(own)}." for why, own in whys.items())


def _at_splitters(hops: Sequence[Mapping[str, Any]]) -> str:
    """What a caption says of the time that data is at nodes that split TCP."""
    if not all(hop["held"] for hop in hops):
        return " Nodes split TCP: how long they hold what they have is not in it."
    return (
        " Nodes split TCP: at the splitter is how long an octet waits there until the half behind "
        "it sends it, before the node's link has the packet."
    )


def _in_nodes(hops: Sequence[Mapping[str, Any]]) -> str:
    """What a caption says of the time that packets are in nodes."""
    if not all(hop["told"] for hop in hops):
        return (
            " Runs of an older simulator are among them: it does not tell how long packets are in "
            "nodes (lanes, handlers, hosts), which is missing in the sum."
        )
    if not any(hop["node_s"] for hop in hops):
        return ""
    return (
        " In the node: before its link has the packet, in lanes, in handlers that hold it, and "
        "while the host works it off."
    )


def _bars(axis: Axes, hops: Sequence[Mapping[str, Any]], used: dict[str, Any]) -> float:
    """The hops of a cell as bars, one after the other; returns where the last one ends, in ms."""
    at = 0.0
    for n, hop in enumerate(hops):
        begin = at
        for key, name, colour, hatch in PARTS:
            width = hop[key] * 1000
            if width <= 0:
                continue
            look: dict[str, Any] = {
                "facecolor": colour,
                "hatch": hatch,
                "edgecolor": "white",
                "linewidth": 0,
            }
            axis.barh(n, width, left=at, height=0.66, **look)
            used.setdefault(name, Patch(**look))
            at += width
        text = f"{style.number(at - begin)} ms" if hop["packets"] else "no packet"
        axis.annotate(
            text, (at, n), xytext=(4, 0), textcoords="offset points", va="center",
            fontsize=style.small(),
        )  # fmt: skip
        if n + 1 < len(hops):
            axis.plot([at, at], [n, n + 1], color=style.MUTED, linewidth=0.7, zorder=0)
    return at


def _crossed(found: Sequence[tuple[str, Sequence[Mapping[str, Any]], int]]) -> str:
    """What a caption says of numbers of packets that are not alike, between panels or hops: means
    are of those that came across.
    """
    each = {title: [hop["packets"] / max(1, n) for hop in hops] for title, hops, n in found}
    every = [v for counts in each.values() for v in counts]
    if max(every) <= EVEN * min(every):
        return ""
    said = []
    for title, counts in each.items():
        ends = [style.number(v) if v else "none" for v in (min(counts), max(counts))]
        told = " to ".join(dict.fromkeys(ends))
        said.append(f"{title}: {told}" if title else told)
    return f" Packets that came across a hop, per run: {_listed(said)}."


def _mostly_one(found: Sequence[tuple[str, Sequence[Mapping[str, Any]], int]]) -> str:
    """What a caption says of means that are of one run, which had most of the packets, as where a
    flow starves in the others.
    """
    said = []
    for title, hops, n in found:
        most = max(hop["most"] for hop in hops)
        if n > 2 and most > MOSTLY:
            share = f"{most:.0%} of those over a hop are of one run of {n}"
            said.append(f"{title}: {share}" if title else share)
    return f" Means are over the packets of all runs: {_listed(said)}." if said else ""


def _listed(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return "; ".join(names[:MOST]) + more


def _hops(
    results: Results, cell: Cell, flow: int, reverse: bool
) -> tuple[list[dict[str, Any]], int]:
    """Per hop the packets and the mean seconds of each, over all runs of a cell; and the number of
    runs. A hop over which runs had several links has its number for a name.
    """
    sums: dict[int, dict[str, float]] = {}
    links: dict[int, set[str]] = {}
    silent: set[int] = set()
    unheld: set[int] = set()
    crossed: dict[tuple[int, int], float] = {}
    runs = results.ok[results.ok["cell"] == cell.name]["run"]
    for run in runs:
        outcome = results.outcome(cell, int(run))
        wired = {_ends(wire) for wire in outcome.get("wires") or []}
        for hop in outcome.get("hops") or []:
            if hop["flow"] != flow or bool(hop.get("reverse")) != reverse:
                continue
            links.setdefault(hop["hop"], set()).add(f"{hop['from']} → {hop['to']}")
            if "node_s" not in hop:
                silent.add(hop["hop"])
            if hop["from"] in splits.splitters(outcome) and "splitter_s" not in hop:
                unheld.add(hop["hop"])
            # A run whose routes changed has several rows of a hop.
            crossed[hop["hop"], int(run)] = crossed.get((hop["hop"], int(run)), 0.0) + float(
                hop.get("packets") or 0.0
            )
            total = sums.setdefault(hop["hop"], {"packets": 0.0, **{k: 0.0 for k, *_ in PARTS}})
            for part in total:
                # Of a wire it is the time that sending takes: there is no air.
                own = {"sent_s": "air_s", "air_s": ""} if _ends(hop) in wired else {"sent_s": ""}
                total[part] += hop.get(own.get(part, part)) or 0.0
    out = []
    for number, total in sorted(sums.items()):
        packets = total["packets"] or 1.0
        most = max(count for (hop, _), count in crossed.items() if hop == number)
        means = {k: total[k] / packets for k, *_ in PARTS} | {"packets": total["packets"]}
        one = next(iter(links[number])) if len(links[number]) == 1 else None
        named = {"name": one or f"hop {number}", "several": one is None}
        known = {"told": number not in silent, "held": number not in unheld}
        out.append({**named, **known, "most": most / packets, **means})
    return out, len(runs)


def _ends(link: Mapping[str, Any]) -> tuple[Any, Any]:
    return link["from"], link["to"]
