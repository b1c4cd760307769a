"""A stand-in for the simulator, for tests of the lab: plausible, seeded, quick, and not physics."""

from __future__ import annotations

import json
import time
import zlib
from typing import Any

import numpy as np
import pytest

import wifu


class FakeResult:
    def __init__(self, outcome: dict[str, Any], series: dict[str, bytes]) -> None:
        self._outcome, self._series = outcome, series

    def json(self) -> str:
        return json.dumps(self._outcome)

    def series_names(self) -> list[str]:
        return sorted(self._series)

    def series(self, name: str) -> bytes:
        return self._series[name]

    def frames(self) -> bytes:
        return b""


def pairs(times: Any, values: Any) -> bytes:
    return np.column_stack([times, values]).astype("<f8").tobytes()


def fake(scenario: dict[str, Any]) -> FakeResult:
    """Goodput falls with the hops; protocols differ; channel noise is common to all protocols."""
    hops = int(str(scenario["topology"]["words"]).split(",")[1]) - 1
    channel = np.random.default_rng([scenario["seed"], scenario["run"], hops])
    factor = float(np.exp(channel.normal(0, 0.08)))
    flows, hop_rows, series = [], [], {}
    count = len(scenario["flow"])
    for i, flow in enumerate(scenario["flow"], 1):
        name = flow["protocol"]
        own = np.random.default_rng([scenario["run"], zlib.crc32(name.encode()), i])
        if flow.get("explode") and scenario["run"] == 2:
            raise RuntimeError("exploded")
        better = 1.0 + 0.25 * ("newreno" in name)
        rate = 12e6 * factor * better / (hops**0.9) / count * float(np.exp(own.normal(0, 0.05)))
        octets = 1_000_000
        end = 0.005 + octets * 8 / rate
        flows.append(
            {
                "id": i, "from": "n1", "to": f"n{hops + 1}", "protocol": name, "app": "file",
                "hops": hops, "start_s": 0.005, "connected_s": 0.01, "first_byte_s": 0.02,
                "last_byte_s": end, "finished": True, "bytes": octets, "goodput_bps": rate,
                "segments": 700, "retransmissions": int(own.poisson(5)), "timeouts": 0,
                "fast_retransmits": 2, "srtt_s": 0.01 * hops * factor, "min_rtt_s": 0.002 * hops,
                "cwnd": 30000, "fault": None, "batches": [octets // 11] * 11, "requests": [],
            }
        )  # fmt: skip
        for h in range(1, hops + 1):
            hop_rows.append(
                {
                    "flow": i, "reverse": False, "hop": h, "from": f"n{h}", "to": f"n{h + 1}",
                    "packets": 700, "lost": 1, "node_s": 0.0, "queue_s": 2.0 / h,
                    "contention_s": 0.3, "air_s": 0.35, "retry_s": 0.1 * own.uniform(),
                    "propagation_s": 0.0,
                }
            )  # fmt: skip
        if scenario.get("record", {}).get("series"):
            times = np.linspace(0.02, end, 400)
            seq = np.linspace(1448, octets, 400)
            sent = seq.copy()
            sent[::37] *= -1
            series[f"flow.{i}.delivered"] = pairs(times, seq)
            series[f"flow.{i}.sent"] = pairs(times - 0.01, sent)
            saw = 20_000 + 15_000 * ((times * 3) % 1)
            series[f"flow.{i}.cwnd"] = pairs(times, saw)
            named = scenario["record"]["series"]
            if named is not True and "flow.*.cubic.w_max" in named:
                known = np.where(times < end / 2, np.nan, 40.0 + i)
                series[f"flow.{i}.cubic.w_max"] = pairs(times, known)
            series[f"flow.{i}.srtt"] = pairs(times, 0.01 * hops * (1 + 0.3 * ((times * 3) % 1)))
    nodes = [
        {
            "name": f"n{k}", "position": [21.0 * k, 3.0 * (k % 2), 0.0], "frames": 700,
            "attempts": 760, "retries": 60, "failed": 3, "received": 690, "duplicates": 1,
            "queue_drops": 0, "lost": {"collision": 30, "noise": 20, "busy": 10},
            "airtime_s": 0.4, "busy_s": 0.9, "delay_us": 800.0,
        }
        for k in range(1, hops + 2)
    ]  # fmt: skip
    links = []
    for k in range(1, hops + 1):
        for one, two, frames in ((k, k + 1, 700), (k + 1, k, 350)):
            attempts = int(frames * (1 + 0.4 * channel.uniform()))
            links.append(
                {
                    "from": f"n{one}", "to": f"n{two}", "snr_db": 17.0, "attempts": attempts,
                    "acked": frames, "frames": frames, "failed": 0, "overheard": 0,
                    "overheard_frames": 0,
                }
            )  # fmt: skip
    text = json.dumps([flows, hop_rows])
    outcome = {
        "schema": "1.0", "seed": scenario["seed"], "run": scenario["run"],
        "sim_seconds": max(f["last_byte_s"] for f in flows), "end": "done",
        "trace_hash": f"{zlib.crc32(text.encode()):016x}", "events": 1000, "flows": flows,
        "batches_end_s": [end * (k + 1) / 11 for k in range(11)], "nodes": nodes, "links": links,
        "hops": hop_rows,
    }  # fmt: skip
    return FakeResult(outcome, series)


def sleepy(scenario: dict[str, Any]) -> FakeResult:
    """Takes an hour in its second run."""
    if scenario["run"] == 2:
        time.sleep(3600)
    return fake(scenario)


CHAIN = """
name = "fake"
title = "Reno <and> others"
about = "A chain."
runs = 5
baseline = "tcp-reno"
metrics = ["goodput", "jain", "srtt"]
[scenario]
topology.words = "linear,{hops+1}"
[[scenario.flow]]
protocol = "{protocol}"
copies = 2
[vary]
hops = [1, 3]
protocol = ["tcp-reno", "tcp-newreno"]
[series]
runs = [1]
"""
"""What the tests of figures and reports look at: two flows over one hop and over three, by two
protocols.
"""

PROBED = """
name = "probed"
runs = 2
metrics = ["aggregate", "latency_added", "one_way_p95"]
series = { runs = [1, 2], record = ["delay"] }
[scenario]
topology.words = "linear,2,wire=2Mb/s"
stop.time = "20s"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "tcp-newreno,rcv_wnd={window},snd_buf=50000"
app = "bulk"
start = "2s"
jitter = "50ms"
stop_at = "8s"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "udp"
rate = "40k"
size = 128
stop_at = "1.9s"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "udp"
rate = "40k"
size = 128
start = "3s"
stop_at = "8s"
[vary]
window = [12000, 48000]
"""
"""Of this datagrams meet a transfer, in the simulator."""


def having(request: pytest.FixtureRequest, kind: str) -> wifu.Results:
    """Results that a kind of figure can be drawn of."""
    found = request.getfixturevalue("probed" if kind == "latency" else "results")
    assert isinstance(found, wifu.Results)
    return found
