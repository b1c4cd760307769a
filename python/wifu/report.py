"""The report: one HTML file with everything inside; it needs neither network nor lab to be read."""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from wifu import (
    advised,
    cautions,
    compared,
    comparisons,
    crowded,
    cutoff,
    flooding,
    hostcost,
    misnamed,
    outlets,
    paired,
    phases,
    published,
    repeats,
    rings,
    selected,
    skipped,
    splits,
    stats,
    taken,
    toml,
    unlike,
    valueless,
    wholerun,
    wired,
)
from wifu import claims as claiming
from wifu import diverge as diverging
from wifu.api import COMPARED, LEVEL, Results
from wifu.cells import Cell, Label
from wifu.digits import number
from wifu.figures import Drawn, NotDrawn, draw_all, draw_divergence
from wifu.figures.words import Words
from wifu.metrics import metric_of
from wifu.stamps import first, stamped, stamps_of, warned
from wifu.variants import SUBSTRATES

E = html.escape

STOPPED = (
    "To stop as soon as an interval is narrow makes it narrower than its nominal 95 %: of values "
    "that lie around their mean these cover the true one in some 93 to 95 % of the cases, but "
    "perhaps in less than half of them where few runs decide it, as those with a timeout do: the "
    "first ones may have none of it, and look alike. A greater `min` helps."
)
"""What is said of intervals after `until`."""

WITHIN = (
    "Where the interval would go on below 0, or above what a share can be, it ends there and is "
    "written from end to end: it holds the true mean as often, and hints at few or skewed runs."
)
"""What is said of intervals that would go beyond what can be."""

DIVERGENCE = (
    "Values are means with half their 95 % interval; relative differences have Student's of the "
    "linearized ratio, in which runs of the same number are paired; KS is Kolmogorov and Smirnov's "
    "distance of the two samples, p that of their being of one distribution, corrected by Holm "
    "over the cells of each table; where all values are the same nothing is tested. Verdicts are "
    "each cell's own, by its interval, and not corrected."
)
"""What is said below the table of substrates."""


def write(
    results: Results, path: Path | None = None, figures: Sequence[Drawn | NotDrawn] | None = None,
    columns: int | None = None,
) -> Path:  # fmt: skip
    """Write the report of results; draws the figures unless they are given, so many `columns` of a
    paper wide.
    """
    drawn = draw_all(results, columns) if figures is None else figures
    path = path or results.folder / "report.html"
    path.write_text(render(results, drawn, columns))
    return path


def render(
    results: Results, figures: Sequence[Drawn | NotDrawn], columns: int | None = None
) -> str:
    """The report as text; its figures of substrates are so many `columns` of a paper wide."""
    parts = [
        ("results", "Results", _results(results)),
        ("comparison", "Comparison", comparisons.html_of(results)),
        ("divergence", "Substrates", _divergence(results, columns)),
        ("figures", "Figures", "".join(_figure(d) for d in figures)),
        ("claims", "Claims", _claims(results)),
        ("trouble", "Failed and excluded runs", _trouble(results)),
        ("provenance", "Provenance", _provenance(results)),
    ]
    parts = [(key, title, body) for key, title, body in parts if body]
    nav = "".join(f'<a href="#{key}">{E(title)}</a>' for key, title, _ in parts)
    body = "".join(f'<section><h2 id="{k}">{E(t)}</h2>{b}</section>' for k, t, b in parts)
    css = (resources.files("wifu") / "report.css").read_text()
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{E(results.plan.title)}</title><style>{css}</style></head><body>"
        f"{_header(results)}<nav><div>{nav}</div></nav><main>{_alerts(results)}{body}"
        f"<footer>Made by wifu-lab from <code>{E(results.plan.name)}</code>, "
        f"{E(results.manifest['updated'])}.</footer></main></body></html>\n"
    )


def _header(results: Results) -> str:
    m, plan = results.manifest, results.plan
    failed = int((results.runs["status"] == "failed").sum()) if len(results.runs) else 0
    simulated = float(results.ok["sim_seconds"].sum()) if "sim_seconds" in results.ok else 0.0
    facts = [
        ("cells", str(len(plan.cells)), ""),
        ("runs", str(len(results.runs)), ""),
        ("failed", str(failed), "bad" if failed else ""),
        ("simulated" if plan.substrate == "sim" else "model time", duration(simulated), ""),
        *([("substrate", plan.substrate, "")] if plan.substrate != "sim" else []),
        *([("stamps", words, "")] if (words := stamps_of(m)) else []),
        ("run time, summed", duration(m["run_seconds"]), ""),
        ("seed", str(m["seed"]), ""),
        ("state", m["state"], "" if m["state"] == "complete" else "bad"),
    ]
    paragraphs = [" ".join(p.split()) for p in plan.about.split("\n\n") if p.strip()]
    about = "".join(f"<p class='about'>{E(p)}</p>" for p in paragraphs)
    if plan.overrides:
        about = f"<p class='overrides'>with {E(', '.join(plan.overrides))}</p>{about}"
    listed = "".join(f'<div><dt>{E(k)}</dt><dd class="{c}">{E(v)}</dd></div>' for k, v, c in facts)
    return (
        f"<header><div><p class='name'>{E(plan.name)}</p><h1>{E(plan.title)}</h1>"
        f"{about}<dl class='facts'>{listed}</dl></div></header>"
    )


def duration(seconds: float) -> str:
    """A time in words."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 90:
        return f"{seconds / 60:.1f} min"
    return f"{seconds:.1f} s"


def _alerts(results: Results) -> str:
    out = []
    m = results.manifest
    if m["state"] != "complete":
        out.append(
            f"<div class='alert'>This campaign is <b>{E(m['state'])}</b>: what follows is what was "
            f"done so far. <code>wifu-lab resume {E(str(results.folder))}</code> does the rest."
            "</div>"
        )
    wide, until = results.wide(), results.plan.until
    if until is not None and wide:
        out.append(
            f"<div class='alert soft'>{len(wide)} of {len(results.plan.cells)} cells are not known "
            f"to {until.ci * 100:g} % after {until.maximum} runs; their intervals are wider.</div>"
        )
    if len(m["code"]) > 1:
        out.append(
            "<div class='alert soft'>Runs of different versions of the code are mixed here: "
            f"{E(', '.join(m['code']))}.</div>"
        )
    out += [f"<div class='alert soft'>{E(told)}</div>" for told in stamped(m)]
    soft = [
        *rings.warnings(results.plan),
        *outlets.warnings(results.plan),
        *phases.warnings(results.plan),
    ]
    soft += flooding.warnings(results.plan)
    soft += [*crowded.warnings(results.plan), *misnamed.warnings(results.plan)]
    soft += [*splits.warnings(results.plan), *wired.warnings(results.plan)]
    soft += [*selected.warnings(results.plan), *advised.warnings(results.plan)]
    if not comparisons.compares(results.plan):  # else they stand above what is compared
        soft += comparisons.unsaid(results.plan)
    out += [f"<div class='alert soft'>{E(told)}</div>" for told in soft]
    out += [f"<p class='note'>{E(told)}</p>" for told in taken.notes(results.plan)]
    if cost := hostcost.note(results.plan):
        out.append(f"<p class='note'>{E(cost[0].upper() + cost[1:])}.</p>")
    for words, names in m.get("absent", {}).items():
        told = f"Not known, in cells {first(names)}: {words}."
        out.append(f"<p class='note'>{E(told)}</p>")
    out += [f"<div class='alert soft'>{E(told)}</div>" for told in warned(m)]
    for told in filter(None, (cutoff.failed(results), cutoff.left_out(results))):
        out.append(f"<div class='alert soft'>{E(told)}</div>")
    if m.get("dirty"):
        out.append(
            "<div class='alert soft'>Made from a checkout with changes that are in no commit.</div>"
        )
    return "".join(out)


# Tables -------------------------------------------------------------------------------------------


def _results(results: Results) -> str:
    plan = results.plan
    told = "" if plan.runner == "mock" else plan.measure.of(plan.metrics)
    told += wholerun.sentence(plan)
    if plan.deterministic:
        told += "Nothing in a run is random, so every cell is run once and its value is exact."
    else:
        told += repeats.sentence(results)
        if any(results.interval(name, c).cut for name in plan.metrics for c in plan.cells):
            told += f" {WITHIN}"
    if plan.until is not None:
        told += (
            f" Runs were added until that half width of {metric_of(plan.until.metric).label} was "
            f"at most {plan.until.ci * 100:g} % of the mean, {plan.until.minimum} to "
            f"{plan.until.maximum} runs. {STOPPED}"
        )
    if any(len(row) > 1 for row in plan.groups()):
        told += f" Bold, of the first {COMPARED} metrics: better than every other of its row" + (
            ", exactly."
            if plan.deterministic
            else f" (p below {LEVEL:g} and the interval; see Comparison)."
        )
    out = [f"<p class='note'>{E(told)}</p>"]
    for n, name in enumerate(plan.metrics):
        table = _pivot(results, name, marked=n < COMPARED)
        head = Words(results, {}, plain=True).scale(name)
        head = head[0].upper() + head[1:]
        said = [metric_of(name).about, cutoff.sentence(results, plan.cells, name)]
        said += [skipped.sentence(plan)] if n == 0 else []
        for told in filter(None, said + cautions.notes(results, plan.cells, name)):
            table += f"<p class='note'>{E(told)}</p>"
        if n == 0:
            out.append(f"<h3>{E(head)}</h3>{table}")
        else:
            out.append(f"<details><summary>{E(head)}</summary>{table}</details>")
    return "".join(out)


def best_of(results: Results, name: str) -> set[str]:
    """Cells that are better in a metric than every other of their row: by the paired permutation
    test, corrected by Holm over all comparisons of the table, and by the interval, as colours are.
    If nothing is random, by the values.
    """
    plan, better = results.plan, metric_of(name).better
    base = compared.baseline(plan)
    found: list[tuple[str, list[int]]] = []
    pairs: list[tuple[Any, Any]] = []
    for row in plan.groups():
        means = {c.name: results.interval(name, c).estimate for c in row}
        known = [c for c in row if math.isfinite(means[c.name])]
        if len(known) < 2 or any(cutoff.least(results, c, name) for c in row):
            continue
        if unlike.reasons(results, row, name):
            continue
        first = (max if better == "more" else min)(known, key=lambda c: means[c.name])
        others = [c for c in known if c is not first]
        if plan.deterministic:
            if all(means[c.name] != means[first.name] for c in others):
                found.append((first.name, []))
            continue
        found.append((first.name, list(range(len(pairs), len(pairs) + len(others)))))
        for c in others:
            # Ratios are by the baseline's mean, where one of the two is the baseline.
            one, two = (c, first) if first.labels.get(plan.pair or "") == base else (first, c)
            pairs.append(results.pairs(name, one.labels, two.labels))
    p = stats.holm(
        [stats.paired_difference(x, y, tests=len(pairs)).p_permutation for x, y in pairs]
    )
    clear = [
        compared.told({**paired.against(name, x, y), "p_holm": p_holm}, name).clear
        for (x, y), p_holm in zip(pairs, p, strict=True)
    ]
    return {cell for cell, tests in found if all(clear[t] for t in tests)}


def _pivot(results: Results, name: str, marked: bool = True) -> str:
    plan, metric = results.plan, metric_of(name)
    pair = plan.pair
    columns: list[Label] = [v.label for v in plan.axis(pair).levels] if pair else [""]
    others = [a.name for a in plan.axes if a.name != pair]
    rows: dict[str, dict[str, Cell]] = {}
    labels: dict[str, list[Label]] = {}
    for cell in plan.cells:
        rest = [cell.labels[k] for k in others]
        key = json.dumps(rest)
        labels[key] = rest
        rows.setdefault(key, {})[str(cell.labels[pair]) if pair else ""] = cell
    estimates = {c.name: results.interval(name, c) for c in plan.cells}
    finite = [i.estimate for i in estimates.values() if math.isfinite(i.estimate)]
    most = max(finite, default=0.0) or 1.0
    counts = {i.n for i in estimates.values()}
    # What stands above all tables is how many runs there were, not how many have a value.
    ran = set(results.ok["cell"].value_counts())
    common = len(counts) == 1 and ran in (counts, {1})
    words = Words(results, {}, plain=True)
    head = "".join(f"<th>{E(words.axis(k))}</th>" for k in others)
    head += "".join(
        f"<th>{E(words.apart(pair, c)) if pair else E(words.scale(name))}</th>" for c in columns
    )
    best = best_of(results, name) if marked else set()
    least = {c.name for c in plan.cells if cutoff.least(results, c, name)}
    cut = {c.name: cutoff.beside(results, c, name) for c in plan.cells}
    body = []

    def gone(key: str, column: Label) -> str:
        own = dict(zip(others, labels[key], strict=True)) | ({pair: column} if pair else {})
        return "skipped" if skipped.reason(plan, own) else "not run"

    for key, cells in rows.items():
        cellular = "".join(
            _cell(
                cells.get(str(c)),
                estimates,
                metric.scale,
                most,
                best,
                common,
                least,
                cut,
                gone(key, c),
            )
            for c in columns
        )
        body.append(
            "<tr>"
            + "".join(
                f"<td class='label'>{E(words.level(k, v))}</td>"
                for k, v in zip(others, labels[key], strict=True)
            )
            + cellular
            + "</tr>"
        )
    return (
        f"<div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _cell(
    cell: Cell | None, estimates: dict[str, Any], scale: float, most: float, best: set[str],
    common: bool, least: set[str], cut: Mapping[str, str], missing: str,
) -> str:  # fmt: skip
    if cell is None:
        return f"<td class='value same'>{missing}</td>"
    found = estimates[cell.name]
    late = f" <span class='pm'>{E(cut[cell.name])}</span>" if cut[cell.name] else ""
    if not math.isfinite(found.estimate):
        return f"<td class='value same'>no value{late}</td>"
    half = found.half / scale if found.known else math.nan
    text = number(found.estimate / scale, half if found.known else None)
    if cell.name in best:
        text = f"<b>{text}</b>"
    if cell.name in least:
        text = f"≥ {text}"
    elif found.cut or found.method == stats.WILSON:
        low, high = (number(v / scale, half) for v in (found.low, found.high))
        text += f" <span class='pm'>{low} to {high}</span>"
    elif found.known:
        text += f" <span class='pm'>± {number(half, half)}</span>"
    if not common:
        text += f" <span class='pm'>n = {found.n}</span>"
    text += late
    width = max(0.0, min(1.0, found.estimate / most)) * 100
    second = "" if cell.name in best else " second"
    bar = f"<div class='bar{second}' style='width:{width:.1f}%'></div>" if width > 0 else ""
    return f"<td class='value'>{text}{bar}</td>"


def _figure(drawn: Drawn | NotDrawn) -> str:
    if isinstance(drawn, NotDrawn):
        return f"<p class='note'>Not drawn: {E(drawn.title)}: {E(drawn.why)}</p>"
    raw = drawn.svg.read_bytes()
    kind = "image/svg+xml"
    if len(raw) > 1_500_000:
        raw, kind = drawn.png.read_bytes(), "image/png"
    data = base64.b64encode(raw).decode()
    return (
        f"<figure><h3>{E(drawn.title)}</h3><img alt='{E(drawn.title)}' "
        f"src='data:{kind};base64,{data}'><figcaption>{E(drawn.caption)}</figcaption></figure>"
    )


# Claims, trouble, provenance ----------------------------------------------------------------------


def _claims(results: Results) -> str:
    if not results.plan.claims:
        return ""
    chosen = published.fed_by(results.plan.name, results.plan.claims)
    # The report of the simulator's results shows all substrates; those of others their own.
    every = _substrates(results)
    out = []
    for one in chosen:
        for substrate, found in every.items():
            out.append(
                claim(
                    claiming.judge(one, found, strange=claiming.unlike(found)),
                    substrate if len(every) > 1 else "",
                )
            )
    return "".join(out)


def _substrates(results: Results) -> dict[str, Results]:
    own = results.plan.substrate
    found = diverging.results_by_substrate(results.folder) if own == "sim" else {}
    return {**found, own: results} if own not in found else found


def _divergence(results: Results, columns: int | None) -> str:
    every = list(_substrates(results).values())
    if len(every) < 2:
        return ""
    found = diverging.compare(every)
    stamps = [
        f"Stamps of the runs on {r.plan.substrate}: {words}."
        for r in every
        if (words := stamps_of(r.manifest))
    ]
    out = [f"<p class='note'>{E(' '.join([found.sentence(), *stamps, DIVERGENCE]))}</p>"]
    out += [f"<div class='alert soft'>{E(note)}</div>" for note in found.notes()]
    for n, ((name, other), rows) in enumerate(found.groups().items()):
        metric = found.scale(name)
        head = f"{metric[:1].upper()}{metric[1:]}: {other} against {found.reference}"
        body = _rows(found.reference, other, rows)
        verdicts = {r.verdict for r in rows}
        if diverging.ABSENT in verdicts <= {diverging.ABSENT, diverging.SKIPPED}:
            known = {
                r.plan.substrate: valueless.why(r.plan.cells, r.plan.substrate, name) for r in every
            }
            said = list(dict.fromkeys(filter(None, known.values())))
            words = "; ".join(said) or f"{other} does not know it"
            body = f"<p class='note'>{E(words[:1].upper() + words[1:])}.</p>"
        if n == 0:
            out.append(f"<h3>{E(head)}</h3>{body}")
        else:
            out.append(f"<details><summary>{E(head)}</summary>{body}</details>")
    return "".join(out) + "".join(_figure(d) for d in draw_divergence(every, found, columns))


def _rows(reference: str, other: str, rows: Sequence[diverging.Row]) -> str:
    heads = ("cell", reference, other, "difference", "relative, %", "KS", "p", "n", "")
    head = "".join(f"<th>{E(h)}</th>" for h in heads)
    css = {diverging.AGREE: "PASS", diverging.DIFFER: "FAIL", diverging.OPEN: "OPEN"}
    body = ""
    for row in rows:
        first, *rest = row.words()
        badge = f"<span class='verdict {css.get(row.verdict, 'none')}'>{E(row.said)}</span>"
        body += f"<tr><td class='label'>{E(first)}</td>"
        body += "".join(f"<td class='n'>{E(w)}</td>" for w in rest) + f"<td>{badge}</td></tr>"
    return (
        f"<div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _badge(verdict: str) -> str:
    css = verdict if verdict in ("PASS", "FAIL", "OPEN", "INFO") else "none"
    return f"<span class='verdict {css}'>{E(verdict)}</span>"


def claim(v: claiming.Verdict, substrate: str = "") -> str:
    """A claim with its checks, as HTML."""
    rows = []
    for f in v.shown:
        m = f.measured
        interval = ""
        if m is None:
            measured = E(f.why)
        elif m.text:
            measured = E(m.text)
        else:
            half = (m.high - m.low) / 2
            measured = number(m.estimate, half if math.isfinite(half) else None)
            if math.isfinite(m.low):
                interval = f"{number(m.low, half)} to {number(m.high, half)}"
            elif m.exact:
                interval = "exact"
        why = f" <span class='note'>{E(f.notes)}</span>" if f.notes and m is not None else ""
        rows.append(
            f"<tr><td>{E(f.check.name)}</td><td class='n'>{E(f.check.published)}</td>"
            f"<td class='n'>{measured}</td><td class='n'>{interval}</td>"
            f"<td>{E(wanted(f.check))}</td><td>{_badge(f.verdict)}{why}</td></tr>"
        )
    table = (
        "<div class='scroll'><table><thead><tr><th></th><th class='n'>published</th>"
        "<th class='n'>measured</th><th class='n'>95 % interval</th><th>must be</th><th></th></tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
    beside = f"Beside it: {v.absent}." if v.absent else ""
    texts = (v.claim.note, v.why, beside)
    note = "".join(f"<p class='note'>{E(text)}</p>" for text in texts if text)
    return (
        f"<div class='claim'><p><span class='id'>{E(v.claim.id)}</span>"
        f"{E(substrate)} {_badge(v.verdict)} "
        f"<span class='note'>{E(v.claim.type)}, {E(v.claim.source)}</span></p>"
        f"<p>{E(v.claim.says)}</p>{note}{table}</div>"
    )


def wanted(check: published.Check) -> str:
    """Where a check's value must lie, in words."""
    if check.kind == "trace":
        return "the same"
    low, high = check.low, check.high
    if math.isfinite(low) and math.isfinite(high):
        return f"{low:g} to {high:g}"
    if math.isfinite(low):
        return f"at least {low:g}"
    return f"at most {high:g}" if math.isfinite(high) else ""


def _trouble(results: Results) -> str:
    bad = results.runs[results.runs["status"] != "ok"] if len(results.runs) else results.runs
    if bad.empty:
        return ""
    rows = "".join(
        f"<tr><td class='label'>{E(str(r['cell']))}</td><td class='n'>{r['run']}</td>"
        f"<td>{E(str(r['status']))}</td><td>{E(str(r['error']))}</td></tr>"
        for r in bad.head(200).to_dict("records")
    )
    more = f"<p class='note'>and {len(bad) - 200} more</p>" if len(bad) > 200 else ""
    return (
        "<p>These runs count nowhere above.</p><div class='scroll'><table><thead><tr><th>cell</th>"
        "<th class='n'>run</th><th>status</th><th>why</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{more}"
    )


def _provenance(results: Results) -> str:
    m = results.manifest
    commit = (m.get("commit") or "not from a checkout") + (
        " with changes" if m.get("dirty") else ""
    )
    host = m["host"]
    rows = [
        ("commit", commit),
        ("code", ", ".join(m["code"]) + f" ({m['runner']})"),
        *[("library", f"{row['name']} ({row['sha256']})") for row in m.get("libraries", [])],
        ("substrate", SUBSTRATES[m.get("substrate", "sim")]),
        ("plan", m["plan_sha256"]),
        ("made", f"{m['created']} to {m['updated']}"),
        ("versions", ", ".join(f"{k} {v}" for k, v in m["versions"].items())),
        ("host", f"{host['system']} {host['kernel']}, {host['machine']}, {host['cpus']} CPUs"),
        ("order", "blocks of one replicate of every cell, shuffled from the seed; in run.json"),
        *[("note", n) for n in m.get("notes", [])],
    ]
    table = "".join(f"<tr><td class='label'>{E(k)}</td><td>{E(v)}</td></tr>" for k, v in rows)
    again = f"wifu-lab rerun {results.folder}"
    repeated = f"<p>To do it again and see whether the same comes out: <code>{E(again)}</code></p>"
    plan = toml.dumps(dict(results.plan.source))
    return (
        f"<div class='scroll'><table><tbody>{table}</tbody></table></div>"
        f"{repeated if results.plan.substrate == 'sim' else ''}"
        f"<details><summary>The plan</summary><pre>{E(plan)}</pre></details>"
    )
