"""What runs in real time cannot tell that the simulator tells, and what protocols do not have, in
words: absent is not zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wifu import valueless
from wifu.cells import Cell
from wifu.flows import KERNEL, Flow
from wifu.metrics import metric_of, parts
from wifu.rows import Results, carriers, rows_of
from wifu.stamps import first

COUNTED = (
    "segments", "data_segments", "feedback_segments", "sent_bytes", "retransmissions", "timeouts",
    "fast_retransmits", "timeout_s", "limited_s", "min_rtt_s", "srtt_s", "rtt",
)  # fmt: skip
"""What the simulator counts of flows with connections, and stacks may tell."""

DATAGRAMS = ("one_way", "jitter_s")
"""What it tells of datagrams."""

_KERNEL = {
    "timeout_s": "the kernel's TCP does not tell it",
    "limited_s": "the kernel's TCP does not tell it",
    "rtt": "the kernel's TCP tells no single samples",
    "timeouts": "before Linux 6.7 a kernel counts them of all its connections, and its host sends "
    "several flows of the kernel's",
    "fast_retransmits": "a kernel counts them of all its connections, and its host sends several "
    "flows of the kernel's",
}
_ASK = "a connection was over before its stack could be asked"

MOST = 4
"""So many names of protocols are told."""

OF_PARTS = ("timeouts", "fast_retransmits", "timeout_s")
"""What not every protocol has: without a retransmission timer there are no timeouts."""


def without(flow: Flow, row: Mapping[str, Any]) -> dict[str, Any]:
    """What a client tells of a flow, without the counters of one that asks: the answers count, and
    their sender tells nothing.
    """
    left_out = (*COUNTED, "cwnd") if flow.app == "request" else ()
    return {k: v for k, v in row.items() if k not in left_out}


def words(flows: Sequence[Flow], told: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each thing that some flows lack, such as "flow 1: rtt: ..."."""
    lacking: dict[tuple[str, str], list[int]] = {}
    for flow, row in zip(flows, told, strict=True):
        if not row.get("bytes"):
            continue  # of a flow that did nothing nothing is to be told
        for key in DATAGRAMS if flow.protocol == "udp" else COUNTED:
            if row.get(key) is None and (why := _why(flow, row, key)):
                lacking.setdefault((key, why), []).append(flow.id)
    reasons: dict[tuple[str, str], list[str]] = {}
    for (key, why), ids in lacking.items():
        reasons.setdefault((_named(ids), why), []).append(key)
    return [f"{who}: no {', '.join(keys)}: {why}" for (who, why), keys in reasons.items()]


def _why(flow: Flow, row: Mapping[str, Any], key: str) -> str:
    if flow.protocol == "udp":
        # A single datagram has no jitter.
        return "" if key == "jitter_s" else "the clocks of its two hosts are not the same"
    if flow.app == "request":
        return "who answers sends what counts, and does not tell it"
    if flow.kernel:
        return _KERNEL.get(key, _ASK)
    # `limited_s` is told of every protocol.
    asked = row.get("limited_s") is not None
    return f"no part of {flow.protocol} has any" if asked and key in OF_PARTS else _ASK


def _named(ids: Sequence[int]) -> str:
    return f"flow{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"


def uncounted(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Protocols that have nothing to count: no value is not 0 and no best."""
    base = parts(metric)[0]
    if why := valueless.why(cells, results.plan.substrate, metric):
        return f"{why[:1].upper()}{why[1:]}."
    if base not in OF_PARTS:
        return ""
    rows = carriers(rows_of(results, cells), metric)
    if base not in rows or "segments" not in rows:  # of an older lab
        return ""
    # Of a kernel, and of whom nobody asked, the reason is another.
    protocol = rows["flow_protocol"].astype(str)
    told = rows["segments"].notna() & ~protocol.str.startswith(KERNEL) & protocol.ne("udp")
    lacks = rows[told & rows[base].isna()]
    if lacks.empty:
        return ""
    names = sorted({str(name) for name in lacks["flow_protocol"]})
    words = (
        f"No part of {first(names, MOST)} has {metric_of(base).label}: there is no value, which is "
        "not 0 and is compared with nothing."
    )
    beside = rows[told & rows[base].notna()].merge(lacks[["cell", "run"]], on=["cell", "run"])
    if len(beside):
        words += f" Beside them `{base}@{int(beside['flow'].min())}` is that of a flow alone."
    return words
