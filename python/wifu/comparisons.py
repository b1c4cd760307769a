"""The comparisons of a report, as HTML: a table of ratios for each metric that is compared."""

from __future__ import annotations

import html
import math
from typing import Any

import pandas as pd

from wifu import alike, compared, taken
from wifu.api import COMPARED, HOLM, LEVEL, Results
from wifu.digits import number
from wifu.figures.words import Words
from wifu.metrics import metric_of
from wifu.plan import Plan

E = html.escape


def compares(plan: Plan) -> bool:
    """Whether levels are compared with a baseline."""
    return plan.pair is not None and len(plan.axis(plan.pair).levels) > 1


def unsaid(plan: Plan) -> list[str]:
    """What levels that stand beside each other differ in besides what their names say."""
    return [*alike.sentences(alike.differences(plan)), *taken.halves(plan)]


def html_of(results: Results) -> str:
    """All comparisons of results, with what is to be said before them."""
    plan = results.plan
    if not compares(plan) or plan.pair is None:
        return ""
    out, beyond = [], []
    for n, name in enumerate(plan.metrics[:COMPARED]):
        frame = results.compare(name)
        if frame.empty:
            continue
        beyond += compared.beyond(frame, name)
        table = _ratios(results, frame, name)
        words = Words(results, {}, plain=True)
        head = f"{words.metric(name)}, relative to {words.apart(plan.pair, frame['baseline'][0])}"
        head = head[0].upper() + head[1:]
        if n == 0:
            out.append(f"<h3>{E(head)}</h3>{table}")
        else:
            out.append(f"<details><summary>{E(head)}</summary>{table}</details>")
    if not out:
        return ""
    same = "random numbers" if plan.substrate == "sim" else "seed, not the same real time,"
    told = (
        f"Run by run: the same run number had the same {same} everywhere. Ratios of means, or "
        " (Δ) mean differences where a ratio says nothing, with 95 % intervals; p of a paired "
        f"permutation test of no difference, corrected by {HOLM}. Green is better, red worse: p is "
        f"below {LEVEL:g} and the interval leaves out 1 (a difference's 0), or there is none, as "
        f"nothing varies, and a ratio is {compared.SMALL:.1%} off at least; grey is neither. Where "
        "all runs were identical nothing is tested."
    )
    if plan.deterministic:
        told, beyond = "Ratios; nothing is random here, so they are exact.", []
    alerts = [*unsaid(plan), *beyond]
    warned = "".join(f"<div class='alert soft'>{E(alert)}</div>" for alert in alerts)
    return f"{warned}<p class='note'>{E(told)}</p>{''.join(out)}"


def _ratios(results: Results, frame: pd.DataFrame, name: str) -> str:
    pair = results.plan.pair or ""
    computed = {"baseline", "n", "ratio", "low", "high", "identical", "cut", "unfinished", "p"}
    computed |= {"p_holm", "difference", "difference_low", "difference_high", "unit"}
    computed |= {"uneven", "why", pair}
    labels = [c for c in frame.columns if c not in computed]
    columns = list(dict.fromkeys(frame[pair]))
    words = Words(results, {}, plain=True)
    heads = [*map(words.axis, labels), *(words.apart(pair, c) for c in columns)]
    head = "".join(f"<th>{E(str(h))}</th>" for h in heads)
    rows: dict[tuple[Any, ...], dict[Any, str]] = {}
    for row in frame.to_dict("records"):
        key = tuple(row[c] for c in labels)
        cut = f" <span class='pm'>{E(row['unfinished'])}</span>" if row["unfinished"] else ""
        rows.setdefault(key, {})[row[pair]] = _ratio(row, name) + cut
    body = "".join(
        "<tr>"
        + "".join(
            f"<td class='label'>{E(words.level(k, v))}</td>"
            for k, v in zip(labels, key, strict=True)
        )
        + "".join(f"<td class='value'>{cells.get(c, '')}</td>" for c in columns)
        + "</tr>"
        for key, cells in rows.items()
    )
    return (
        f"<div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _ratio(row: dict[Any, Any], name: str) -> str:
    """A ratio, or a difference where there is none: green or red where p, corrected, and the
    interval say that there is one.
    """
    found = compared.told(row, name)
    if found.instead:
        return f"<span class='same'>{found.instead}</span>"
    better = (found.value > found.none) == (metric_of(name).better == "more")
    css = ("up" if better else "down") if found.clear else "same"
    half = (found.high - found.low) / 2
    text = number(found.value, half if found.known else None)
    if found.difference:
        text = f"Δ {text} {row['unit']}".rstrip()
    text = f"<span class='{css}'>{E(text)}</span>"
    if found.known:
        low, high = number(found.low, half), number(found.high, half)
        text += f" <span class='pm'>{low} to {high}</span>"
    p = row["p_holm"]
    if math.isfinite(p):
        text += f" <span class='pm'>p {'&lt; 0.001' if p < 0.001 else f'= {p:.3f}'}</span>"
    if found.unlike:
        text += f" <span class='pm'>no colour: {E(found.why)}</span>"
    return text
