"""What is computed from an outcome: goodput, fairness, utility, starvation, delay, loss.

Goodput counts octets delivered in order to the application, once. Rates are bit/s, times seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wifu import asked, crowdedout, limits, mirrored, offers
from wifu.batches import around, steady, steady_batches
from wifu.batches import batch_rates as batch_rates
from wifu.batches import rates as rates_of
from wifu.digits import with_unit
from wifu.errors import LabError, MissingError, nearest
from wifu.even import STARVED_BPS
from wifu.even import jain as jain
from wifu.even import log_utility as log_utility
from wifu.even import starved_share as starved_share
from wifu.even import unfairness as unfairness
from wifu.hops import hop_rows as hop_rows
from wifu.hops import mean_passive, packet_loss, per_frame
from wifu.hops import passive_loss as passive_loss
from wifu.sliding import sliding as sliding
from wifu.transfers import carriers as carriers
from wifu.transfers import columns, connecting, delay, downloads, opening, percentile
from wifu.transfers import download_delays as download_delays
from wifu.transfers import known as known
from wifu.underload import added, idle_load, load_span, lost, one_way

Floats = NDArray[np.float64]
Outcome = Mapping[str, Any]

SIMULATED = 0.9
"""Of a flow that goes on there is a goodput in a window if so much of it was simulated at least."""


MEASURES = {
    "transfer": "bytes delivered in order, from connect() to the last of them",
    "receiver": "bytes delivered in order, from the first delivery to the last",
    "steady": "bytes of the batches of packets after the first ones, by the time that they took",
    "window": "bytes delivered inside `from`..`to`, by as much of it as the flow was there for",
}
"""What the goodput of a flow is, by how it is measured: `steady` needs `packets` and `batch` of
`scenario.stop`, `window` records series.
"""

TOGETHER = {
    "transfer": "bytes of all flows, by the time from the first start to the last byte of any",
    "receiver": "bytes of all flows, by the time from the first delivery to the last byte of any",
    "steady": "the sum of the flows' goodputs",
    "window": "bytes of all flows inside the window, by as much of it as any of them was there for",
}
"""What the total goodput is (`carried`), by how goodput is measured."""


@dataclass(frozen=True)
class Measure:
    """What counts as a flow's goodput (see `MEASURES`)."""

    mode: str = "transfer"
    discard: int = 1
    start: float = 0.0
    end: float = 0.0

    @property
    def words(self) -> str:
        """What it is, in words; of a window with its times."""
        return MEASURES[self.mode].replace("`from`..`to`", f"{self.start:g} s to {self.end:g} s")

    @property
    def together(self) -> str:
        """What the total goodput is, in words; of a window with its times."""
        window = f"the window ({self.start:g} s to {self.end:g} s)"
        return TOGETHER[self.mode].replace("the window", window)

    @property
    def unusual(self) -> bool:
        """Whether it is not what a plan has that says nothing of it."""
        return self.mode != Measure.mode

    def of(self, names: Sequence[str]) -> str:
        """What the goodput of a flow is, and that of all together, as far as tables show it."""
        bases = [parts(name)[0] for name in names]
        alone = "" if set(bases) == {"aggregate"} else f"Goodput: {self.words}. "
        together = f"Total goodput: {self.together}. " if "aggregate" in bases else ""
        return together + alone if bases[0] == "aggregate" else alone + together


def flow_goodput(outcome: Outcome, flow: Mapping[str, Any], measure: Measure) -> float:
    """Goodput of one flow, bit/s, as the plan measures it. 0 for a flow that delivered nothing; nan
    for one that was not there in the window, or had not started when the run ended, and of a
    receiver that got all at one instant.
    """
    octets = float(flow.get("bytes") or 0)
    if not octets and unstarted(flow.get("start_s") or 0.0, outcome.get("sim_seconds") or 0.0):
        return float("nan")
    if measure.mode == "steady":
        return steady(outcome, flow, measure.discard)
    if measure.mode == "window":
        begin, over = window_part(outcome, flow, measure)
        # Nor is it known where nobody can tell until when it was there.
        there = over - begin if over > begin else float("nan")
        return float(flow["window_bytes"]) * 8.0 / there
    start = flow.get("start_s") or 0.0
    if measure.mode == "receiver":
        start = flow.get("first_byte_s")
    end = _end(outcome, flow)
    if octets and start is not None and end == start and measure.mode == "receiver":
        return float("nan")
    if octets == 0 or start is None or end is None or end <= start:
        return 0.0
    return octets * 8.0 / float(end - start)


def unstarted(start_s: ArrayLike, sim_seconds: ArrayLike) -> Any:
    """Whether flows of which nothing arrived were to start no sooner than their run ended."""
    start, end = (np.asarray(at, dtype=float) for at in (start_s, sim_seconds))
    return (start >= end) & (end > 0)


def window_part(outcome: Outcome, flow: Mapping[str, Any], measure: Measure) -> tuple[float, float]:
    """The part of the window in which a flow was there: after its end it carries nothing, and a
    file that is complete early is not slower for it. Nan if the run ended too early to tell.
    """
    begin = max(measure.start, float(flow.get("start_s") or 0.0))
    if (over := _over(outcome, flow)) is not None:
        return begin, min(measure.end, float(over))
    if flow.get("fault") and flow.get("app") != "http":
        return begin, measure.end  # nothing comes of it any more
    end = min(measure.end, float(outcome["sim_seconds"]))
    return begin, float("nan") if cut_short(end, measure) else end


def cut_short(sim_seconds: ArrayLike, measure: Measure) -> Any:
    """Whether a run ended before enough of the window was over (`SIMULATED`)."""
    wanted = measure.start + SIMULATED * (measure.end - measure.start)
    return np.asarray(sim_seconds, dtype=float) < wanted - 1e-9


def carried(outcome: Outcome, flows: Sequence[Mapping[str, Any]], measure: Measure) -> float:
    """What flows carry together, bit/s: the bytes of all, from the first start to the last byte of
    any, or to the end of the run if one is unfinished.

    Of `receiver` from the first delivery on, of `window` the part of it in which there was a flow.
    In `steady` state all are measured over the same time: it is the sum of their goodputs.
    """
    if measure.mode == "steady":
        return sum(flow_goodput(outcome, flow, measure) for flow in flows)
    if measure.mode == "window":
        parts = [window_part(outcome, flow, measure) for flow in flows]
        if np.isnan([end for _, end in parts]).any():
            return float("nan")
        parts = [(begin, end) for begin, end in parts if end > begin]
        there = max((end for _, end in parts), default=0.0)
        there -= min((begin for begin, _ in parts), default=0.0)
        octets = sum(float(flow["window_bytes"]) for flow in flows)
        return octets * 8.0 / there if there > 0 else float("nan")
    key = "first_byte_s" if measure.mode == "receiver" else "start_s"
    starts = [float(at) for f in flows if (at := f.get(key)) is not None]
    ends = [float(end) for f in flows if (end := _end(outcome, f)) is not None]
    octets = sum(float(f.get("bytes") or 0) for f in flows)
    # What tells no start began with the run.
    begin = min(starts) if len(starts) == len(flows) or measure.mode == "receiver" else 0.0
    span = max(ends, default=0.0) - begin
    if octets and span == 0 and measure.mode == "receiver":
        return float("nan")
    return octets * 8.0 / span if octets and span > 0 else 0.0


def _end(outcome: Outcome, flow: Mapping[str, Any]) -> float | None:
    """Until when a flow's bytes count: its last one, or the end of a run that cut it off."""
    end = _over(outcome, flow)
    return outcome.get("sim_seconds") if end is None else end


def _over(outcome: Outcome, flow: Mapping[str, Any]) -> float | None:
    """When a flow was over, none if it was not: with its last byte if it finished; of datagrams, of
    which lost ones never come, when the last was sent or arrived.
    """
    if flow.get("finished"):
        last: float | None = flow.get("last_byte_s")
        return last
    until, end = flow.get("until_s"), outcome.get("sim_seconds")
    if flow.get("protocol") != "udp" or until is None or end is None:
        return None
    return float(until) if until < end else None


@dataclass(frozen=True)
class Metric:
    """A number per run: what it is called on axes, its unit, and what to divide by for it."""

    label: str
    unit: str
    scale: float
    better: str
    compute: Callable[[Outcome, Floats], float]
    least: float = 0.0
    """No value is below, in what is divided by `scale`."""
    most: float = float("inf")
    about: str = ""
    """What its name does not say, as a sentence."""

    def axis(self) -> str:
        """The label of an axis."""
        return with_unit(self.label, self.unit)

    def words(self) -> str:
        """What a list of metrics says of it."""
        return f"{self.axis()}. {self.about}" if self.about else self.axis()


def _flows_mean(key: str) -> Callable[[Outcome, Floats], float]:
    def compute(outcome: Outcome, rates: Floats) -> float:
        known = [float(f[key]) for f in outcome["flows"] if f.get(key) is not None]
        return float(np.mean(known)) if known else float("nan")

    return compute


def _flows_sum(key: str) -> Callable[[Outcome, Floats], float]:
    def compute(outcome: Outcome, rates: Floats) -> float:
        connected = [f for f in outcome["flows"] if f.get("protocol") != "udp"]
        # What a substrate cannot know of one of the flows is not known of their sum.
        if not connected or any(key not in f for f in connected):
            return float("nan")
        return float(sum(f[key] or 0 for f in connected))

    return compute


def _percentile(kind: str, which: str) -> Callable[[Outcome, Floats], float]:
    """Mean over the flows that tell it."""

    def compute(outcome: Outcome, rates: Floats) -> float:
        told = [f[kind][which] for f in outcome["flows"] if f.get(kind)]
        return float(np.mean(told)) if told else float("nan")

    return compute


def _withdrawals(outcome: Outcome, rates: Floats) -> float:
    count = outcome.get("withdrawals")
    return float("nan") if count is None else float(count) * 60.0 / float(outcome["sim_seconds"])


def _routeless(outcome: Outcome, rates: Floats) -> float:
    return float(max((f.get("routeless_s", 0.0) for f in outcome["flows"]), default=float("nan")))


def _lowest(outcome: Outcome, rates: Floats) -> float:
    return float(np.min(rates)) if rates.size else float("nan")


def _weakest(outcome: Outcome, rates: Floats) -> float:
    total = float(np.sum(rates))
    return float(np.min(rates)) / total if total > 0 else float("nan")


def _overflows(outcome: Outcome, rates: Floats) -> float:
    if "core" not in outcome:  # of a substrate without daemons
        return float("nan")
    return float(sum(node["overflows"] for node in outcome["core"].values()))


OF_RUNS = (
    "Each run has its own median, and these are averaged: it is not the median of all downloads."
)
OF_FLOWS = (
    "Each flow of each run has its own percentile, and these are averaged: it is not the "
    "percentile of all samples."
)
OF_SYN = (
    "Of whatever segment, mostly the SYN, which is short on the air: a full segment and its "
    "acknowledgement take longer without any queue."
)
OF_OPENED = "From connect() on, of the flows of one connection that opened it."
OF_UTILITY = (
    "The sum of log10 of the flows' goodputs in kb/s, in which a starved flow, below 1 kb/s, "
    "counts as 8 b/s (-2.1) whatever it had."
)
"""What is to be said of metrics wherever they are shown."""


def _percent(share: int) -> str:
    """What a percentile is called."""
    return "median" if share == 50 else f"{share}th percentile"


RUN_METRICS: dict[str, Metric] = {
    "goodput": Metric(
        "mean goodput per flow",
        "Mb/s",
        1e6,
        "more",
        lambda o, x: float(np.mean(x)) if x.size else 0.0,
    ),
    "aggregate": Metric("total goodput", "Mb/s", 1e6, "more", lambda o, x: float(o["carried_bps"])),
    "sum_rates": Metric(
        "sum of the flows' goodputs", "Mb/s", 1e6, "more", lambda o, x: float(np.sum(x))
    ),
    "lowest": Metric("goodput of the weakest flow", "Mb/s", 1e6, "more", _lowest),
    "weakest": Metric("share of the weakest flow", "%", 0.01, "more", _weakest, most=1.0),
    "jain": Metric("Jain's index", "", 1.0, "more", lambda o, x: jain(x), most=1.0),
    "unfairness": Metric("unfairness (sd / mean)", "", 1.0, "less", lambda o, x: unfairness(x)),
    "utility": Metric(
        "log utility (starved flows as 8 b/s)",
        "",
        1.0,
        "more",
        lambda o, x: log_utility(x),
        least=float("-inf"),
        about=OF_UTILITY,
    ),
    "starved": Metric(
        "flows starved (below 1 kb/s)", "%", 0.01, "less", lambda o, x: starved_share(x), most=1.0
    ),
    "delay": Metric("mean download time", "s", 1.0, "less", delay(np.mean)),
    "delay_median": Metric(
        "median download time of a run", "s", 1.0, "less", delay(np.median), about=OF_RUNS
    ),
    **{
        f"delay_p{share}": Metric(
            f"download times of a run, {_percent(share)}",
            "s",
            1.0,
            "less",
            delay(percentile(share)),
            about=OF_RUNS.replace("median", "percentile"),
        )
        for share in (95, 99)
    },
    "known": Metric("mean time until the sender knew of the end", "s", 1.0, "less", known),
    "connecting": Metric(
        "mean time until a connection opened", "s", 1.0, "less", connecting, about=OF_OPENED
    ),
    "srtt": Metric(
        "smoothed round-trip time at the end", "ms", 1e-3, "less", _flows_mean("srtt_s")
    ),
    "min_rtt": Metric(
        "smallest round-trip time", "ms", 1e-3, "less", _flows_mean("min_rtt_s"), about=OF_SYN
    ),
    **{
        f"{name}_p{share}": Metric(
            f"{title}, {_percent(share)}", "ms", 1e-3, "less", of(f"p{share}_s"), about=OF_FLOWS
        )
        for name, of, title in (
            ("rtt", partial(_percentile, "rtt"), "round-trip samples of a flow"),
            ("one_way", one_way, "one-way delay of a flow's datagrams"),
        )
        for share in (50, 95, 99)
    },
    "latency_added": Metric(
        "one-way delay, 95th percentile under load less median without",
        "ms",
        1e-3,
        "less",
        added,
        least=float("-inf"),
        about="What is below for 95 % of the datagrams under load, less the median of those before "
        "it: where delays vary without load it is above 0 though load adds nothing.",
    ),
    "retransmissions": Metric(
        "segments retransmitted", "per run", 1.0, "less", _flows_sum("retransmissions")
    ),
    "timeouts": Metric("retransmission timeouts", "per run", 1.0, "less", _flows_sum("timeouts")),
    "fast_retransmits": Metric(
        "recoveries without a timeout", "per run", 1.0, "less", _flows_sum("fast_retransmits")
    ),
    "loss": Metric("packets lost", "%", 0.01, "less", lambda o, x: packet_loss(o), most=1.0),
    "passive_loss": Metric(
        "frames handed on and not overheard",
        "%",
        0.01,
        "less",
        lambda o, x: mean_passive(o),
        most=1.0,
    ),
    "mac_loss": Metric(
        "frames given up by the MAC", "%", 0.01, "less", per_frame("failed"), most=1.0
    ),
    "mac_retries": Metric("MAC retries per frame", "", 1.0, "less", per_frame("retries")),
    "overflows": Metric(
        "times that WiFu Core's receive buffers were full (ENOBUFS)",
        "per run",
        1.0,
        "less",
        _overflows,
    ),
    "withdrawals": Metric("links that routing withdrew", "per minute", 1.0, "less", _withdrawals),
    "routeless": Metric(
        "longest time for which routing had no way for a flow", "s", 1.0, "less", _routeless
    ),
    "corrupt": Metric(
        "octets that arrived wrong",
        "octets",
        1.0,
        "less",
        _flows_sum("corrupt"),
        about="Of what a receiver's application got, compared octet by octet with what was sent.",
    ),
    "finished": Metric(
        "flows that finished",
        "%",
        0.01,
        "more",
        lambda o, x: float(np.mean([bool(f.get("finished")) for f in o["flows"]])),
        most=1.0,
    ),
}
"""What can stand in `metrics`, `until.metric` and figures, of all flows of a run (goodput
of its `carriers`); behind some names (`ALONE`) `@N` makes it that of flow N alone."""

ALONE = {
    "goodput": "goodput",
    "delay": "download time",
    "delay_median": "median download time of a run",
    **{name: RUN_METRICS[name].label for name in ("delay_p95", "delay_p99")},
    "connecting": "time until the connection opened",
    "loss": "packets lost",
    "finished": "runs that finished it",
    **{
        name: re.sub(" of a flow(?!')|a flow's ", "", metric.label)
        for name, metric in RUN_METRICS.items()
        if name.startswith(("rtt_", "one_way_"))
        or name in ("srtt", "min_rtt", "retransmissions", "timeouts", "fast_retransmits")
    },
}
"""Metrics that a flow has by itself, and what they are called then."""


OTHERWISE = dict.fromkeys(("throughput", "bandwidth", "rate"), "goodput")
"""What users call metrics that have another name here."""


def parts(name: str) -> tuple[str, int | None]:
    """The name of a metric and the flow that it is of: `goodput@2` is that of the second flow."""
    base, at, flow = name.partition("@")
    return base, int(flow) if at else None


def of_datagrams(name: str) -> bool:
    """Whether a metric is of how long datagrams were on their way."""
    return name.startswith(("one_way_", "latency_added"))


def wrong(name: str) -> str | None:
    """Why nothing is called so, with the nearest name; none if it is a metric."""
    base, at, flow = name.partition("@")
    if base not in RUN_METRICS:
        ours = OTHERWISE.get(base)
        hint = f"did you mean `{ours}`?" if ours else nearest(base, RUN_METRICS)
        return f"no metric is called {name}; {hint} (`wifu-lab list metrics` has all)"
    if not at:
        return None
    if base not in ALONE:
        of_rates = base in ("aggregate", "sum_rates", "lowest")
        hint = "goodput@N is" if of_rates else f"{', '.join(ALONE)} are"
        return f"{base} is not of a flow by itself; {hint}"
    if not re.fullmatch("[1-9][0-9]*", flow):
        return f"{name}: write {base}@N, where N is the number of a flow, from 1 on"
    return None


def metric_of(name: str) -> Metric:
    """The metric of this name, perhaps that of a flow alone. LabError if there is none."""
    if (why := wrong(name)) is not None:
        raise LabError(why)
    base, flow = parts(name)
    whole = RUN_METRICS[base]
    if flow is None:
        return whole
    label = f"{ALONE[base]}, flow {flow}"

    def compute(outcome: Outcome, rates: Floats) -> float:
        found = [n for n, f in enumerate(outcome["flows"]) if f["id"] == flow]
        if not found:
            count = len(outcome["flows"])
            raise MissingError(f"{name}: there is no flow {flow}, of {count}")
        alone = {**outcome, "flows": [outcome["flows"][n] for n in found]}
        return whole.compute(alone, rates[found])

    return replace(whole, label=label, compute=compute)


_BASE = {"Mb/s": "bps", "s": "s", "ms": "s", "%": "share"}
"""What metrics of a unit are computed in, as names of columns say it."""


def column(name: str) -> str:
    """The column of a metric in `runs.parquet`: its name with the base unit, such as `srtt_s`;
    `srtt_s@2` of the second flow alone.
    """
    base, at, flow = name.partition("@")
    unit = _BASE.get(RUN_METRICS[base].unit)
    return (f"{base}_{unit}" if unit else base) + at + flow


OLD_COLUMNS = {
    "runs": {name: column(name) for name in RUN_METRICS},
    "results": {"cwnd": "cwnd_bytes", "delay_s": "delay_finished_s"},
    "series": {"t": "time_s", "v": "value"},
}
"""Columns of tables that were written when not all names told the unit, or what they are of, and
what they are now.
"""


def flow_row(
    outcome: Outcome, flow: Mapping[str, Any], measure: Measure, scenario: Mapping[str, Any]
) -> dict[str, Any]:
    """The columns of one flow in `results.parquet`, of a run of a scenario."""
    rate = flow_goodput(outcome, flow, measure)
    delays = download_delays(flow)
    under_way, late = asked.under_way(outcome, flow, scenario)
    whole = {
        "flow": int(flow["id"]),
        "flow_from": flow.get("from"),
        "flow_to": flow.get("to"),
        "flow_protocol": flow.get("protocol"),
        "flow_hops": flow.get("hops"),
        "goodput_bps": rate,
        "bytes": flow.get("bytes"),
        "starved": None if rate != rate else bool(rate < STARVED_BPS),
        **downloads(delays),
        "connecting_s": opening(outcome, flow),
        "requests": len(flow.get("requests") or []),
        "requests_cut": under_way,
        "requests_failed": asked.failed(flow),
        "requests_late": late,
        "requests_bytes": asked.octets(flow),
        **columns(outcome, flow),
        "batch_goodput_bps": None,
        "batch_bytes": None,
        "batch_s": None,
        "batches_ended": len(outcome.get("batches_end_s") or []),
    }
    if flow.get("batches"):
        kept = steady_batches(outcome, flow, measure.discard)
        whole["batch_goodput_bps"] = [float(v) for v in rates_of(*kept)]
        whole["batch_bytes"], whole["batch_s"] = ([float(v) for v in part] for part in kept)
    whole |= around(outcome, flow, measure.discard)
    for key in _COPIED:
        whole[key] = flow.get(key)
    for kind in ("rtt", "ack_delay", "one_way"):
        for share in ("p50_s", "p95_s", "p99_s"):
            whole[f"{kind}_{share}"] = (flow.get(kind) or {}).get(share)
        whole[f"{kind}_samples"] = (flow.get(kind) or {}).get("samples")
    packets = flow.get("packets") or {}
    whole |= {f"packets_{what}": packets.get(what, none) for what, none in _PACKETS.items()}
    whole["loaded_samples"] = (flow.get("under_load") or {}).get("samples")
    whole["loaded_lost"] = lost(outcome, flow)
    whole["crowded_out"] = crowdedout.crowded_out(outcome, flow)
    whole["own_full"] = offers.own_full(outcome, flow)
    whole["shut_out"] = crowdedout.shut_out(outcome, flow)
    whole["other_way_back"] = mirrored.other_way_back(outcome, flow)
    whole |= limits.columns(flow)
    for key in ("bytes", "retransmissions", "timeouts", "timeout_s"):
        whole[f"asked_{key}"] = (flow.get("asked") or {}).get(key)
    whole["outlasted_s"] = (flow.get("outlasted") or {}).get("seconds")
    return whole | {"cwnd_bytes": flow.get("cwnd")}


_PACKETS: dict[str, int | None] = dict.fromkeys(("sent", "inside", "delivered"))
_PACKETS |= {"copies": 0, "hop": 0}  # what is 0 is not told
_COPIED = (
    "start_s", "connected_s", "first_byte_s", "last_byte_s", "until_s", "finished", "segments",
    "data_segments", "feedback_segments", "sent_bytes", "retransmissions", "timeouts",
    "timeout_s", "fast_retransmits", "srtt_s", "min_rtt_s", "jitter_s", "fault", "fault_s",
    "lost_s", "late_bytes",
)  # fmt: skip


def run_row(
    outcome: Outcome, measure: Measure, needed: Collection[str] = (), more: Collection[str] = ()
) -> dict[str, float]:
    """All metrics of one run, in base units (bit/s, seconds, shares): those of all flows, and of
    those of a flow alone what is `needed` and `more`.

    Nan for a metric that the outcome does not have the facts for; an error if it is `needed`.
    """
    names = dict.fromkeys([*RUN_METRICS, *needed, *more])
    flows = outcome.get("flows") or []
    rates = np.asarray([flow_goodput(outcome, f, measure) for f in flows], dtype=float)
    if not flows:
        return dict.fromkeys(names, float("nan"))
    row = {}
    own = carriers(flows)
    # What is of all flows, or of the run, though a metric be of one alone.
    whole = {
        **outcome,
        "carried_bps": carried(outcome, [flows[n] for n in own], measure),
        "load_span": load_span(outcome) if "sim_seconds" in outcome else None,
        "idle_load": idle_load(outcome),
    }
    for name in names:
        try:
            given = rates[own] if parts(name)[1] is None else rates
            row[name] = metric_of(name).compute(whole, given)
        except MissingError:
            if name in needed:
                raise
            row[name] = float("nan")
    return row
