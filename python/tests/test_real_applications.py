"""The simulator's applications and measures on real substrates. They need root."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_real_time import clean, program, run

from wifu.api import Results

__all__ = ["clean", "program"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def plan(
    name: str, head: str, app: str, *, topology: str, rest: str = "", more: str = ""
) -> str:  # fmt: skip
    return f"""
name = "{name}"
seed = 4
pair = "stack"
{head.strip()}
[scenario]
{more}
topology = {{ {topology} }}
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "{{stack}}"
{app.strip()}
[vary.stack]
ours = "tcp-newreno"
kernel = "tcp-reno,profile=kernel-reno"
[live]
runs = 1
[live.vary.stack]
kernel = "kernel:reno"
[emu]
runs = 1
share = true
dilation = 4
[emu.vary.stack]
kernel = "kernel:reno"
{rest.strip()}
"""


WIRE = 'words = "linear,2,wire=10Mb/s"'
APPS = {
    "http": 'app = "http"\npause = "50ms"\ncount = 6\njitter = "100ms"',
    "request": 'app = "request"\nresponse = "20k"\npause = "40ms"\ncount = 8',
    "onoff": 'app = "onoff"\nrate = "400kb/s"\non = "300ms"\noff = "200ms"\ntime = "2s"',
    "trace": 'app = "trace"\nrows = [[0, 5000], [0.4, 20000], [0.9, 1]]',
}


def flow(results: Results, cell: str, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = results.outcome(cell, 1)["flows"][number]
    return found


@pytest.mark.parametrize("app", sorted(APPS))
def test_an_application_does_on_live_what_it_does_on_sim(tmp_path: Path, app: str) -> None:
    text = plan(app, "deterministic = true", APPS[app], topology=WIRE)
    sim, live = run(text, tmp_path, "sim"), run(text, tmp_path, "live")
    for cell in ("ours", "kernel"):
        model, real = flow(sim, cell), flow(live, cell)
        assert (real["finished"], real["fault"]) == (True, None)
        lengths = [[r["bytes"] for r in f.get("requests", [])] for f in (model, real)]
        assert lengths[0] == lengths[1]
        assert real["bytes"] == model["bytes"]
        assert real["connections"] == model["connections"]
        assert all(r["delay_s"] > 0 for r in real["requests"])
        # Pauses are drawn alike; how much later a real one ends is a matter of the machine.
        gaps = [_gaps(f.get("requests", [])) for f in (model, real)]
        assert np.all(np.asarray(gaps[1]) > np.asarray(gaps[0]) - 0.002), gaps
        assert real["start_s"] >= model["start_s"]
        assert real["last_byte_s"] > real["first_byte_s"] > real["start_s"]
    assert (live.flows["requests"] == sim.flows["requests"]).all()
    if app in ("http", "request"):
        assert (live.ok["delay"] > 0).all()


def _gaps(requests: list[dict[str, Any]]) -> list[float]:
    ends = [r["start_s"] + r["delay_s"] for r in requests]
    starts = [r["start_s"] for r in requests]
    return [s - e for s, e in zip(starts[1:], ends[:-1], strict=True)]


def test_files_over_emulated_radios_have_the_lengths_of_the_simulated(tmp_path: Path) -> None:
    text = plan(
        "emulated", "runs = 1", APPS["http"].replace("6", "3"),
        topology='words = "linear,2", set = "TB-W3"', rest="[emu.scenario]\n'stop.time' = '20s'",
    )  # fmt: skip
    sim, emu = run(text, tmp_path, "sim"), run(text, tmp_path, "emu")
    for cell in ("ours", "kernel"):
        model, real = flow(sim, cell), flow(emu, cell)
        assert [r["bytes"] for r in real["requests"]] == [r["bytes"] for r in model["requests"]]
        # 10 kB take some 10 ms at 12 Mb/s, in the model's time as in the emulation's.
        assert all(0.003 < r["delay_s"] < 2.0 for r in real["requests"])


def test_a_request_without_end_is_cut_by_the_clock(tmp_path: Path) -> None:
    endless = 'app = "request"\nresponse = "20k"\npause = "40ms"'
    text = plan(
        "endless", "deterministic = true", endless, topology=WIRE, more="stop.time = '2s'"
    )  # fmt: skip
    live = run(text, tmp_path, "live")
    for cell in ("ours", "kernel"):
        outcome, real = live.outcome(cell, 1), flow(live, cell)
        assert (outcome["end"], outcome["sim_seconds"], real["finished"]) == ("time", 2.0, False)
        assert len(real["requests"]) > 5
        assert max(r["start_s"] + r["delay_s"] for r in real["requests"]) <= 2.0
        assert 0 <= real["bytes"] - 20_000 * len(real["requests"]) <= 20_000


def test_a_window_leaves_out_what_came_before_and_after(tmp_path: Path) -> None:
    head = 'measure = { mode = "window", from = "1s", to = "2s" }\ndeterministic = true'
    rows = "[[0, 50000], [1.2, 20000], [1.4, 30000], [2.5, 70000]]"
    text = plan("window", head, f'app = "trace"\nrows = {rows}', topology=WIRE)
    for substrate in ("sim", "live"):
        results = run(text, tmp_path, substrate)
        assert (results.flows["bytes"] == 170_000).all()
        assert list(results.flows["goodput_bps"]) == [400e3, 400e3], substrate


def test_datagrams_have_windows(tmp_path: Path) -> None:
    head = 'measure = { mode = "window", from = "1s", to = "2s" }\ndeterministic = true'
    text = plan("udp", head, 'rate = "1M"', topology=WIRE, more="stop.time = '3s'")
    text = text.replace('"tcp-newreno"', '"udp"')
    for substrate in ("sim", "live"):
        results = run(text, tmp_path, substrate, "stack=ours")
        assert results.flows["goodput_bps"].iloc[0] == pytest.approx(1e6, rel=0.1), substrate
        assert results.flows["bytes"].iloc[0] > 2.5 * 125_000


def test_steady_state_counts_packets_and_ends_with_them(tmp_path: Path) -> None:
    text = plan(
        "steady", 'measure = "steady"\ndeterministic = true', "", topology=WIRE,
        rest="[live.scenario]\n'stop.time' = '30s'", more="stop.packets = 1100\nstop.batch = 100",
    )  # fmt: skip
    sim, live = run(text, tmp_path, "sim"), run(text, tmp_path, "live")
    for cell in ("ours", "kernel"):
        outcome, real = live.outcome(cell, 1), flow(live, cell)
        assert outcome["end"] == "packets"
        assert len(outcome["batches_end_s"]) == len(real["batches"]) == 11
        assert outcome["sim_seconds"] == outcome["batches_end_s"][-1] < 30
        # Of 1448 or 1460 octets. What ends a batch comes in a read with some others.
        assert real["bytes"] == pytest.approx(sum(real["batches"]))
        assert 1100 <= real["bytes"] / 1448 < 1300
        goodput = [r.flows.set_index("cell").loc[cell, "goodput_bps"] for r in (sim, live)]
        assert goodput[0] == pytest.approx(9.4e6, rel=0.03)
        assert 2e6 < goodput[1] < 10.2e6
