"""What is missing from means: transfers that the end of a run cut off, of whose times only the
least is known, and runs that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wifu import asked, faults, stops, values
from wifu.asked import ASKING
from wifu.cells import Cell, listed_flows
from wifu.metrics import carriers, column, download_delays, parts
from wifu.plan import Plan
from wifu.rows import Results, by_cell, flows_of
from wifu.stamps import first
from wifu.transfers import SIZED, known_times, learned, percentile, sized, unlearned

STATISTICS: Mapping[str, Callable[[list[float]], Any]] = {
    "delay": np.mean,
    "delay_median": np.median,
    "delay_p95": percentile(95),
    "delay_p99": percentile(99),
    "known": np.mean,
}
OF_FINISHED = tuple(STATISTICS)
"""Metrics of the transfers that were finished, without those that take longest."""

ENDING = ("file", "stream", "trace")
"""Applications that are one transfer, which ends by itself; others do with a time."""

RUN = ".json.gz"
"""What files of runs end with."""

_RATES = ("goodput", "aggregate", "sum_rates", "lowest")


def of_finished(metric: str) -> bool:
    """Whether a metric is of the transfers alone that were finished."""
    return parts(metric)[0] in OF_FINISHED


def _knows(metric: str) -> bool:
    return parts(metric)[0] == "known"


def _own(results: Results, cell: Cell, metric: str, wanted: Callable[[Any], bool]) -> pd.DataFrame:
    """The flows of a cell's runs that count whose part of the scenario is `wanted`. Of a metric of
    a flow alone it is that flow.
    """
    only = parts(metric)[1]
    chosen = [
        n
        for n, flow in flows_of(cell)
        if flow.get("protocol") != "udp" and wanted(flow) and only in (None, n)
    ]
    rows = results.flows
    if "flow" not in rows:  # no run came out
        return rows[:0]
    return rows[(rows["cell"] == cell.name) & (rows["status"] == "ok") & rows["flow"].isin(chosen)]


def _files(results: Results, cell: Cell, metric: str = "") -> pd.DataFrame:
    """Flows that are one transfer with an end of its own. Datagrams have none, since lost ones do
    not come.
    """
    stop = cell.scenario.get("stop", {}).get("time")

    beside = by_the_clock([cell], metric).values()

    def ends(flow: Any) -> bool:
        # A rate lacks nothing of who was to write for as long as the run lasted.
        whole = not of_finished(metric) and _to_the_end(flow, stop)
        clock = flow.get("app", "bulk") in beside
        return _transfer(flow) and not (whole or clock)

    rows = _own(results, cell, metric, ends)
    # Senders that are told before all has arrived have no time until they knew of it.
    return rows[~rows["split"].eq(True)] if _knows(metric) and "split" in rows else rows


def by_the_clock(cells: Sequence[Cell], metric: str) -> dict[int, str]:
    """The flows of cells that end by the clock beside others that end with their bytes, with their
    applications, of a metric of how long transfers take: they are none.
    """
    found: dict[int, str] = {}
    if not of_finished(metric) or parts(metric)[1] is not None:
        return found
    fetching = tuple(app for app in SIZED if not (_knows(metric) and app in ASKING))
    for cell in cells:
        flows = {n: flow for n, flow in flows_of(cell) if flow.get("protocol") != "udp"}
        apps = {n: str(flow.get("app", "bulk")) for n, flow in flows.items()}
        if any(app in fetching for app in apps.values()):
            found |= {n: app for n, app in apps.items() if app not in SIZED}
    return found


def none_of_them(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """That such flows are left out, in words."""
    del results
    found = by_the_clock(cells, metric)
    ends = {
        n: app
        for cell in cells
        for n, flow in flows_of(cell)
        if (app := found.get(n)) and any(flow.get(key) is not None for key in ("time", "stop_at"))
    }
    if not ends:
        return ""
    told = ", ".join(f"{n} ({app})" for n, app in sorted(ends.items()))
    one = len(ends) == 1
    return (
        f"Flow{'' if one else 's'} {told} end{'s' if one else ''} by the clock and "
        f"{'is no download: of it' if one else 'are no downloads: of them'} "
        f"`{parts(metric)[0]}@N` tells."
    )


def _to_the_end(flow: Any, stop: Any) -> bool:
    """Whether a flow writes until a time, and no bytes, which is not before its run's end."""
    if stop is None or flow.get("bytes") or not (flow.get("time") or flow.get("stop_at")):
        return False
    begin = values.seconds(flow.get("start", 0))
    last = [begin + values.seconds(flow["time"])] if "time" in flow else []
    last += [values.seconds(flow["stop_at"])] if "stop_at" in flow else []
    return min(last) >= values.seconds(stop)


def _transfer(flow: Any) -> bool:
    """Whether a flow is one transfer that ends by itself: with its bytes, or its time."""
    talk = flow.get("app") == "onoff" and ("time" in flow or "stop_at" in flow)
    return flow.get("app") in ENDING or talk or stops.timed(flow)


def _asking(results: Results, cell: Cell, metric: str = "") -> pd.DataFrame:
    """Flows that are requests, each with an end of its own, of a metric that is of these."""
    rows = _own(results, cell, metric, lambda flow: flow.get("app") in ASKING)
    return rows if "requests_cut" in rows and not _knows(metric) else rows[:0]


def _cut(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    # Where nobody tells whether they were finished they are taken for it.
    cut = rows["finished"].eq(False) if "finished" in rows else pd.Series(False, rows.index)
    if _knows(metric) and "unlearned" in rows:
        cut |= rows["unlearned"].eq(True)
    return rows[cut]


def _some_failed(asking: pd.DataFrame) -> pd.DataFrame:
    """Of flows of requests those with some that failed, as far as the simulator tells."""
    known = "requests_failed" in asking
    return asking[asking["requests_failed"] > 0] if known else asking[:0]


def _never_asked(cell: Cell, asking: pd.DataFrame) -> pd.DataFrame:
    """Of flows of requests those that made fewer than their `count`."""
    wanted = _counts(cell)
    if asking.empty or not any(wanted.values()):
        return asking[:0]
    return asking[_made(asking) < asking["flow"].map(wanted)]


def _counts(cell: Cell) -> dict[int, int]:
    return {n: _wanted(flow) for n, flow in flows_of(cell)}


def _made(asking: pd.DataFrame) -> pd.Series[float]:
    """How many requests flows made that came to an end or failed."""
    return (asking["requests"] + asking.get("requests_failed", 0)).astype(float)


def runs(results: Results, cell: Cell, metric: str = "") -> set[int]:
    """The numbers of a cell's runs of which a transfer was cut off, or a request that had taken
    longer than others, or one that failed.
    """
    asking = _asking(results, cell, metric)
    late = asking[asking["requests_late"] > 0] if len(asking) else asking
    never = _never_asked(cell, asking)
    rows = (_cut(_files(results, cell, metric), metric), late, _some_failed(asking), never)
    return {int(run) for found in rows if len(found) for run in found["run"]}


def count(results: Results, cells: Sequence[Cell], metric: str = "") -> tuple[int, int]:
    """How many transfers of these cells' runs were cut off, and of how many; of a metric of how
    long they take requests are among them.
    """
    every = [_files(results, cell, metric) for cell in cells]
    cut, of = sum(len(_cut(rows, metric)) for rows in every), sum(map(len, every))
    asked, open_ones = _requests(results, cells, metric)
    return cut + open_ones, of + asked + open_ones


def failures(results: Results, cells: Sequence[Cell], metric: str = "") -> int:
    """How many of these were not cut off, but had a connection that failed."""
    rows = [_cut(_files(results, cell, metric), metric) for cell in cells]
    found = sum(int(own["fault"].notna().sum()) for own in rows if "fault" in own)
    if not of_finished(metric):
        return found
    asking = [_some_failed(_asking(results, cell, metric)) for cell in cells]
    return found + sum(int(own["requests_failed"].sum()) for own in asking if len(own))


def _requests(results: Results, cells: Sequence[Cell], metric: str) -> tuple[int, int]:
    """How many requests ended, and how many failed or were under way when their run did."""
    if not of_finished(metric):
        return 0, 0
    every = [rows for cell in cells if len(rows := _asking(results, cell, metric))]
    keys = ("requests", "requests_cut", "requests_failed")
    sums = [sum(int(rows[key].sum()) for rows in every if key in rows) for key in keys]
    # Who has a `count` lacks more than the one that was under way, if any was.
    lacking = [(_never_asked(cell, _asking(results, cell, metric)), cell) for cell in cells]
    more = sum(
        int((rows["flow"].map(_counts(cell)) - _made(rows) - rows["requests_cut"]).sum())
        for rows, cell in lacking
        if len(rows)
    )
    return sums[0], sums[1] + sums[2] + more


def _called(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What those are that were cut off."""
    files = any(len(_files(results, cell, metric)) for cell in cells)
    if not any(_requests(results, cells, metric)):
        return "transfers"
    return "transfers and requests" if files else "requests"


def short(results: Results, cells: Sequence[Cell], metric: str = "") -> tuple[int, int]:
    """How many flows of these cells' runs had fewer files or answers than `stop.requests` waits for
    when the run ended, and of how many.
    """
    only, found, of, rows = parts(metric)[1], 0, 0, results.flows
    if _knows(metric):  # which is of no files of these
        return 0, 0
    for cell in cells:
        wanted = cell.scenario.get("stop", {}).get("requests")
        if wanted is None or "requests" not in rows:
            continue
        asking = [
            n
            for n, flow in enumerate(cell.scenario.get("flow", []), 1)
            if flow.get("app") in ("http", "request") and only in (None, n)
        ]
        own = rows[(rows["cell"] == cell.name) & (rows["status"] == "ok")]
        own = own[own["flow"].isin(asking)]
        found, of = found + int((own["requests"] < wanted).sum()), of + len(own)
    return found, of


def unfinished(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """The same in words, beside a number of any metric; nothing if all were finished."""
    cut, of = count(results, cells, metric)
    few, flows = short(results, cells, metric)
    told = [f"{cut} of {of} {_called(results, cells, metric)} unfinished"] if cut else []
    if gone := failures(results, cells, metric):
        told[0] += f" ({gone} failed)"
    told += [f"{few} of {flows} flows with fewer files than others"] if few else []
    return ", ".join(told)


def per_run(results: Results, cell: Cell, metric: str) -> str:
    """How many requests a mean of their delays is of, in words: who is stuck makes few. Transfers
    beside them are of the same mean.
    """
    rows = _asking(results, cell, metric)
    if not of_finished(metric) or not len(rows):
        return ""
    told = f"{rows['requests'].sum() / rows['run'].nunique():.3g} requests"
    if len(files := _files(results, cell, metric)):
        each = len(files) / files["run"].nunique()
        told += f" and {each:.3g} transfer{'' if each == 1 else 's'}"
    return f"{told} per run"


def beside(results: Results, cell: Cell, metric: str) -> str:
    """What stands beside a number of a cell."""
    told = (per_run(results, cell, metric), unfinished(results, [cell], metric))
    return ", ".join(words for words in told if words)


def unsettled(results: Results, cell: Cell, metric: str) -> set[int]:
    """The numbers of those of these runs in which a metric depends on what was cut off."""
    found, name = runs(results, cell, metric), settled(metric)
    if found:
        results.look_up(metric)
    if not found or name not in results.runs:
        return found
    rows = results.runs
    return found - set(rows.loc[(rows["cell"] == cell.name) & rows[name].eq(True), "run"])


def least(results: Results, cell: Cell, metric: str) -> bool:
    """Whether the mean of a metric in a cell is but the least that it can be."""
    return of_finished(metric) and bool(unsettled(results, cell, metric))


def bounded(results: Results, cell: Cell, metric: str) -> pd.Series[float]:
    """A metric of the runs of a cell, by run: where transfers were cut off or failed, the least
    that it can be. The mean of those that came to an end is no such thing: the slower a transport,
    the quicker are the few that it finishes.
    """
    sample = results.sample(metric, cell.labels)
    own = sample.droplevel("cell") if len(sample) else sample
    known = {int(run): float(value) for run, value in own.items()}
    known |= bounds(results, cell, metric)
    return pd.Series(known, dtype=float)


def bounds(
    results: Results, cell: Cell, metric: str, among: Collection[int] | None = None
) -> dict[int, float]:
    """The least that a metric can be in those runs of a cell, or `among` them, of which transfers
    were cut off or failed, by run.
    """
    found = sorted(unsettled(results, cell, metric)) if of_finished(metric) else []
    wanted = [run for run in found if among is None or run in among]
    return {run: at_least(results, cell, run, metric) for run in wanted}


def at_least(results: Results, cell: Cell, run: int, metric: str) -> float:
    """The least that a metric of finished transfers can be in a run, in seconds: had all of them
    come to an end when the run did. Those that failed count until then, too, and requests that did
    until their connection had failed: nothing of them is ever complete.
    """
    return _statistic(metric, *_times(results.outcome(cell, run), cell.scenario, metric))


def _times(
    outcome: Mapping[str, Any], scenario: Mapping[str, Any], metric: str
) -> tuple[list[float], list[float]]:
    """How long the transfers of a run took, in seconds, and those that were cut off or failed until
    it ended.
    """
    only, listed, specs = parts(metric)[1], outcome["flows"], dict(listed_flows(scenario))
    own = [listed[n] for n in carriers(listed)]
    own = own if only is None else [flow for flow in listed if flow["id"] == only]
    knows = _knows(metric)
    own = [flow for flow in own if learned(outcome, flow)] if knows else own
    own = sized(own) if only is None else own
    times = known_times if knows else download_delays
    took: list[float] = []
    cut: list[float] = []
    for flow in own:
        took += times(flow)
        cut += [float(each["failed_s"]) for each in flow.get("requests_failed") or []]
        spec = specs.get(int(flow["id"]), {})
        file = _transfer(spec) and spec.get("protocol") != "udp"
        if file and (flow.get("finished") is False or (knows and unlearned(flow))):
            cut.append(max(0.0, float(outcome["sim_seconds"]) - float(flow.get("start_s") or 0.0)))
        elif (late := asked.late(outcome, flow, scenario)) is not None:
            cut.append(late)
        # Of those that were never asked nothing is known: at the least they take no time.
        ended = len(download_delays(flow)) + len(flow.get("requests_failed") or [])
        late_too = int(not knows and asked.late(outcome, flow, scenario) is not None)
        cut += [0.0] * (0 if knows else max(0, _wanted(spec) - ended - late_too))
    return took, cut


def _statistic(metric: str, took: list[float], cut: list[float]) -> float:
    return float(STATISTICS[parts(metric)[0]](took + cut)) if took or cut else 0.0


def _known(metric: str, took: list[float], cut: list[float]) -> bool:
    """Whether a statistic is the same however long what was cut off takes."""
    so_far, most = (_statistic(metric, took, own) for own in (cut, [NEVER] * len(cut)))
    return bool(np.isclose(so_far, most))


NEVER = 1e9
"""Seconds: longer than any transfer takes."""

COUNT = "delay_cut_off"
"""The column of `runs.parquet` that tells how many transfers of a run were cut off or failed."""


def of_finished_alone(metric: str) -> str:
    """The column of `runs.parquet` of a metric of finished transfers without those that were cut
    off, such as `delay_finished_s`.
    """
    base, at, flow = metric.partition("@")
    return f"{base}_finished_s{at}{flow}"


def settled(metric: str) -> str:
    """The column of `runs.parquet` that tells whether such a metric is known of a run though some
    were cut off or failed, such as `delay_median_settled`: they took longer already than most.
    """
    base, at, flow = metric.partition("@")
    return f"{base}_settled{at}{flow}"


def _wanted(spec: Mapping[str, Any]) -> int:
    """How many requests a flow of a scenario makes, if that is said."""
    told = spec.get("count") if spec.get("app") in ASKING else None
    return told if isinstance(told, int) else 0


def columns(
    outcome: Mapping[str, Any], scenario: Mapping[str, Any], row: Mapping[str, float]
) -> dict[str, float]:
    """What `runs.parquet` has in place of metrics of finished transfers in the `row` of a run, and
    beside them: where some were cut off or failed, the least that they can be, since of those that
    came to an end means are the lower the fewer a transport finishes.
    """
    made: dict[str, float] = {}
    for metric in filter(of_finished, row):
        took, cut = _times(outcome, scenario, metric)
        made[of_finished_alone(metric)] = row[metric]
        if cut:
            made[column(metric)] = _statistic(metric, took, cut)
            made[settled(metric)] = _known(metric, took, cut)
            if made[settled(metric)]:
                made[of_finished_alone(metric)] = made[column(metric)]
    return made | {COUNT: len(_times(outcome, scenario, "delay")[1])}


def absent(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What stands beside the name of a level of which no run has a value of a metric."""
    cut, of = count(results, cells, metric)
    if not of_finished(metric) or not of:
        return "no value"
    if cut < of:  # Some came to an end in runs of which others did not.
        return "no complete run"
    return "no answer" if _called(results, cells, metric) == "requests" else "none finished"


def sentence(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What is to be said of transfers that were cut off, where a metric depends on them."""
    rates = parts(metric)[0] in _RATES and results.plan.measure.mode in ("transfer", "receiver")
    if not rates and not of_finished(metric):
        return ""
    if of_finished(metric) and (few := short(results, cells, metric))[0]:
        slow = (
            f"{few[0]} of {few[1]} flows had fewer files than others by the end of their run, and "
            "weigh less: they are the slowest."
        )
        return " ".join(filter(None, (slow, _so_far(results, cells, metric))))
    return _so_far(results, cells, metric)


def _so_far(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What is to be said of transfers that were cut off or failed, of a metric that they change."""
    rates = parts(metric)[0] in _RATES
    cut, of = count(results, cells, metric)
    if not cut:
        return ""
    called, gone = _called(results, cells, metric), failures(results, cells, metric)
    if rates:
        return _of_rates(f"of {of} {called}", cut - gone, gone - _early(results, cells, metric))
    told = f"{cut - gone} of {of} {called} were cut off by the end of their run"
    if gone:
        told = f"{gone} of {of} {called} failed" if cut == gone else f"{told}, {gone} failed"
    if not any(runs(results, cell, metric) for cell in cells):
        return f"{told} and are missing; none had taken longer than others of its flow."
    if not any(least(results, cell, metric) for cell in cells):
        return (
            f"{told}: they count with their time so far, and however long they would have taken, "
            "these numbers are the same."
        )
    every = [_never_asked(cell, _asking(results, cell, metric)) for cell in cells]
    never = (
        " Requests of a `count` that were never asked count as taking none: a longer run "
        "(`stop.time`) has them."
    )
    never *= any(len(rows) for rows in every)
    return (
        f"{told}: they count with their time so far, and means of such cells are the least that "
        f"they can be (≥).{never}{_endless(cells, metric)}"
    )


def _asking_on(cells: Sequence[Cell], metric: str) -> list[int]:
    """Flows that ask as long as there is time, of a metric of how long that takes."""
    only = parts(metric)[1]
    return sorted(
        {
            n
            for cell in cells
            if cell.scenario.get("stop", {}).get("requests") is None
            for n, flow in flows_of(cell)
            if flow.get("app") in ASKING
            and only in (None, n)
            and not flow.get("count")
            and flow.get("stop_at") is None
        }
    )


def _endless(cells: Sequence[Cell], metric: str) -> str:
    """How runs end with the last answer of flows that ask as long as there is time."""
    if not (asks := _asking_on(cells, metric)):
        return ""
    flows = f"flow{'' if len(asks) == 1 else 's'} {first([str(n) for n in asks])}"
    return f" With a `count` of {flows}, or `stop.requests`, a run ends with its last answer."


def warnings(plan: Plan) -> list[str]:
    """What is told of a plan before it is run: flows that never start, and requests that the end of
    its runs will cut off.
    """
    wanted = [m for m in plan.metrics if of_finished(m) and not _knows(m)]
    asks = sorted({n for m in wanted for n in _asking_on(plan.cells, m)})
    if not asks:
        return _too_late(plan)
    one = len(asks) == 1
    flows = f"flow{'' if one else 's'} {first([str(n) for n in asks])}"
    return [
        *_too_late(plan),
        f"{flows} {'asks' if one else 'ask'} until the run is over, which cuts off the last "
        f"request: where that had taken longer than others, `{wanted[0]}` is the least that it can "
        "be (≥). With a `count`, or `stop.requests`, runs end with the last answer.",
    ]


def _too_late(plan: Plan) -> list[str]:
    """Flows that start no sooner than the runs of some cell are over."""
    found: dict[tuple[int, float, float], list[str]] = {}
    for cell in plan.cells:
        if (last := cell.scenario.get("stop", {}).get("time")) is None:
            continue
        for n, flow in flows_of(cell):
            begin, end = values.seconds(flow.get("start", 0)), values.seconds(last)
            if begin >= end:
                found.setdefault((n, begin, end), []).append(cell.name)
    return [
        f"flow {n} starts at {begin:g} s, and runs end at {end:g} s (stop.time): it never does, in "
        f"{first(names)}."
        for (n, begin, end), names in found.items()
    ]


def missing(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """What is to be said beside the times of finished transfers alone; nothing if all finished."""
    cut, of = count(results, cells, metric) if of_finished(metric) else (0, 0)
    late = any(runs(results, cell, metric) for cell in cells) if cut else False
    if not cut or (late and not any(least(results, cell, metric) for cell in cells)):
        return ""
    return (
        f"{cut} of {of} {_called(results, cells, metric)} were cut off or failed and are missing "
        "here: means of those that finished are the lower the fewer did. `Results.runs` has them "
        f"with their time so far (`{column(metric)}`), and `Results.summary` the least that means "
        "can be."
    )


def _of_rates(of: str, cut: int, gone: int) -> str:
    """What is to be said beside rates of transfers that were cut off, and of those that failed."""
    told = []
    if cut:
        what = "were cut off by the end of their run; their goodput is that until then"
        told.append(f"{cut} {of} {what}.")
    if gone:
        told.append(f"{gone} {of} failed; their goodput is that until the end of their run.")
    return " ".join(told)


def _early(results: Results, cells: Sequence[Cell], metric: str) -> int:
    """How many of those that failed ended their run, which `faults.failed` tells."""
    keys = ["cell", "run", "flow"]
    files = [rows[keys] for cell in cells if len(rows := _files(results, cell, metric))]
    early = faults.early(results, cells, metric)
    return len(early[keys].merge(pd.concat(files), on=keys)) if files else 0


def left_out(results: Results) -> str:
    """Runs that are there and that the plan beside them has no more, in words."""
    most, names = results.plan.max_runs, {c.name for c in results.plan.cells}
    files = (p.name.removesuffix(RUN) for p in (results.folder / "runs").glob(f"*{RUN}"))
    cut = (name.rpartition("-") for name in files)
    found = sum(cell in names and run.isdigit() and int(run) > most for cell, _, run in cut)
    if not found:
        return ""
    return f"{found} runs that were made are left out: plan.toml here now has {most} of each cell."


def failed(results: Results) -> str:
    """What is to be said where runs failed: which cells their absence may flatter."""
    rows = results.runs
    if not len(rows) or not (gone := rows["status"] == "failed").any():
        return ""
    return (
        f"{int(gone.sum())} of {len(rows)} runs failed and are in no mean. Where what makes runs "
        "fail makes them slow as well, those that are left flatter. By cell: "
        f"{by_cell(rows[gone], results.plan.cells)}."
    )
