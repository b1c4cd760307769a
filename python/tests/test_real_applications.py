"""The simulator's applications and measures on real substrates. They need root."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_real_time import clean, program, run

from wifu.api import Results
from wifu.live import Live
from wifu.runner import mesh

__all__ = ["clean", "program"]

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]


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
    text = plan(app, "runs = 1", APPS[app], topology=WIRE)
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
        assert (live.ok["delay_s"] > 0).all()


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
        "endless", "runs = 1", endless, topology=WIRE, more="stop.time = '2s'"
    )  # fmt: skip
    live = run(text, tmp_path, "live")
    for cell in ("ours", "kernel"):
        outcome, real = live.outcome(cell, 1), flow(live, cell)
        assert (outcome["end"], outcome["sim_seconds"], real["finished"]) == ("time", 2.0, False)
        assert len(real["requests"]) > 5
        assert max(r["start_s"] + r["delay_s"] for r in real["requests"]) <= 2.0
        assert 0 <= real["bytes"] - 20_000 * len(real["requests"]) <= 20_000


def test_a_window_leaves_out_what_came_before_and_after(tmp_path: Path) -> None:
    head = 'measure = { mode = "window", from = "1s", to = "2s" }\nruns = 1'
    rows = "[[0, 50000], [1.2, 20000], [1.4, 30000], [2.5, 70000]]"
    text = plan("window", head, f'app = "trace"\nrows = {rows}', topology=WIRE)
    for substrate in ("sim", "live"):
        results = run(text, tmp_path, substrate)
        assert (results.flows["bytes"] == 170_000).all()
        assert list(results.flows["goodput_bps"]) == [400e3, 400e3], substrate


@pytest.mark.parametrize(
    ("app", "protocol", "rate"),
    [
        # It had not started when the run ended.
        ('rate = "400k"\nstart = "1.5s"', "udp", np.nan),
        ('app = "trace"\nrows = [[0.9, 5000]]\nstart = "0.6s"', "tcp-newreno", 0.0),
    ],
)
def test_a_window_in_which_nothing_arrives_is_empty(
    tmp_path: Path, app: str, protocol: str, rate: float
) -> None:
    head = 'measure = { mode = "window", from = "0.2s", to = "0.8s" }\nruns = 1'
    text = plan("empty", head, app, topology=WIRE, more="stop.time = '1s'")
    for substrate in ("sim", "live"):
        own = text.replace('"tcp-newreno"', f'"{protocol}"')
        results = run(own, tmp_path, substrate, "stack=ours")
        assert np.array_equal(results.flows["goodput_bps"], [rate], equal_nan=True), substrate
        assert list(results.flows["bytes"]) == [0], substrate


def test_datagrams_have_windows(tmp_path: Path) -> None:
    head = 'measure = { mode = "window", from = "1s", to = "2s" }\nruns = 1'
    text = plan("udp", head, 'rate = "1M"', topology=WIRE, more="stop.time = '3s'")
    text = text.replace('"tcp-newreno"', '"udp"')
    for substrate in ("sim", "live"):
        results = run(text, tmp_path, substrate, "stack=ours")
        assert results.flows["goodput_bps"].iloc[0] == pytest.approx(1e6, rel=0.1), substrate
        assert results.flows["bytes"].iloc[0] > 2.5 * 125_000


def test_steady_state_counts_packets_and_ends_with_them(tmp_path: Path) -> None:
    text = plan(
        "steady", 'measure = "steady"\nruns = 1', "", topology=WIRE,
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


TALK = 'app = "onoff"\nrate = "400kb/s"\non = "300ms"\noff = "200ms"\ntime = "2s"\nsize = 500'


@pytest.mark.parametrize(
    ("substrate", "topology"), [("live", WIRE), ("emu", 'words = "linear,2", set = "TB-W3"')]
)
def test_datagrams_talk_as_on_sim(tmp_path: Path, substrate: str, topology: str) -> None:
    text = plan(
        "talk", "runs = 1\n[series]\nruns = [1]", TALK, topology=topology,
        rest="[emu.scenario]\n'stop.time' = '20s'",
    ).replace('"tcp-newreno"', '"udp"')  # fmt: skip
    sim, real = (run(text, tmp_path, s, "stack=ours") for s in ("sim", substrate))
    model, told = flow(sim, "ours"), flow(real, "ours")
    sent = [r.series("ours")["flow.1.offered"] for r in (sim, real)]
    assert told["datagrams_sent"] == model["packets"]["sent"] > 50
    assert (told["finished"], told["bytes"]) == (True, model["bytes"])
    assert told["sent_bytes"] == model["sent_bytes"], "so that losses beside delays are known"
    # Each leaves when it is due, or later where this machine is busy; silence is longer than that.
    assert sent[0].iloc[-1] == sent[1].iloc[-1] == model["bytes"]
    begun = [s.index[0] for s in sent]
    late = np.interp(sent[1].to_numpy(), sent[0].to_numpy(), sent[0].index.to_numpy() - begun[0])
    late = sent[1].index.to_numpy() - begun[1] - late
    assert np.median(late) < 0.02, late
    assert late.min() > -0.02, late


@pytest.mark.parametrize("app", ["udp", "request"])
def test_datagrams_and_answers_are_counted_as_packets(tmp_path: Path, app: str) -> None:
    traffic = {"udp": 'rate = "2M"', "request": 'app = "request"\nresponse = "20k"'}
    text = plan(
        app, 'measure = "steady"\nruns = 1', traffic[app], topology=WIRE,
        rest="[live.scenario]\n'stop.time' = '30s'", more="stop.packets = 330\nstop.batch = 30",
    )  # fmt: skip
    text = text.replace('"tcp-newreno"', '"udp"') if app == "udp" else text
    sim, live = (run(text, tmp_path, s, *["stack=ours"] * (app == "udp")) for s in ("sim", "live"))
    for cell in ("ours", "kernel")[: 1 + (app == "request")]:
        outcome, real = live.outcome(cell, 1), flow(live, cell)
        assert outcome["end"] == "packets"
        assert outcome["sim_seconds"] == outcome["batches_end_s"][-1] < 30
        assert len(outcome["batches_end_s"]) == len(real["batches"]) == 11
        assert real["bytes"] == sum(real["batches"])
        size = 1472 if app == "udp" else 1448
        assert 330 <= real["bytes"] / size < 400, "of answers what came in one read"
        goodput = [r.flows.set_index("cell").loc[cell, "goodput_bps"] for r in (sim, live)]
        assert goodput[1] == pytest.approx(goodput[0], rel=0.05 if app == "udp" else 0.5)


def grows(series: Any) -> bool:
    """Whether each point is later than the one before, and more; the last may be at its time."""
    values, times = series.to_numpy(), series.index.to_numpy()
    return bool((np.diff(values) > 0).all() and (np.diff(times[:-1]) > 0).all()
                and times[-1] >= times[-2])  # fmt: skip


def test_what_is_sent_is_a_series(tmp_path: Path) -> None:
    record = "record = { series = ['flow.1.offered', 'flow.1.cwnd'], interval = '2ms' }"
    text = plan("sent", "runs = 1", 'app = "file"\nbytes = "300k"', topology=WIRE,
                more=record, rest="[series]\nruns = [1]")  # fmt: skip
    sim, live = (run(text, tmp_path, s) for s in ("sim", "live"))
    for cell in ("ours", "kernel"):
        model, real = (r.series(cell)["flow.1.offered"] for r in (sim, live))
        assert model.iloc[-1] == real.iloc[-1] == 300_000
        # The last point is put there; the others were seen, every 2 ms, while 1250 octets leave in
        # one.
        seen = real.iloc[:-1]
        assert grows(real) and 0 < seen.iloc[0] < 250_000 < seen.iloc[-1] <= 300_000
        assert len(real) > 20


def test_a_flow_shorter_than_an_interval_has_no_series_and_is_a_run(tmp_path: Path) -> None:
    record = "record = { series = ['flow.1.cwnd'], interval = '5s' }"
    text = plan("brief", "runs = 1", 'app = "file"\nbytes = "3k"', topology=WIRE,
                more=record, rest="[series]\nruns = [1]")  # fmt: skip
    live = run(text, tmp_path, "live")
    for cell in ("ours", "kernel"):
        assert flow(live, cell)["finished"] is True


@pytest.mark.parametrize("app", ["http", "request"])
def test_applications_have_series(tmp_path: Path, app: str) -> None:
    """Of connections that come and go, and of answers, which the receiver sends."""
    text = plan(
        app, "runs = 1", APPS[app], topology=WIRE, more="record.interval = '2ms'",
        rest="[series]\nruns = [1]",
    )  # fmt: skip
    sim, live = run(text, tmp_path, "sim"), run(text, tmp_path, "live")
    for cell in ("ours", "kernel"):
        model, real = sim.series(cell), live.series(cell)
        assert len(real["flow.1.cwnd"]) > 3
        sent = [s["flow.1.offered"] for s in (model, real)]
        assert grows(sent[1]) and sent[1].iloc[0] > 0
        assert [s.iloc[-1] for s in sent] == [flow(sim, cell)["bytes"]] * 2
        # Connections may be missed that are short, but neither all but one nor all but one answer.
        files = [r["bytes"] for r in flow(sim, cell)["requests"]]
        least = max(files) if app == "http" else sent[0].iloc[-1] - 40_000
        assert least < sent[1].iloc[-2] <= sent[0].iloc[-1]


SHORT = 'app = "onoff"\nrate = "400kb/s"\non = "300ms"\noff = "10ms"\nsize = 500'


def flows_until(
    folder: Path, app: str, substrate: str, protocol: str = "udp", stop: str = "1s"
) -> Any:
    """The outcome of a flow in a run of a second, or as long as it says."""
    text = plan("until", "runs = 1", app, topology=WIRE, more=f"stop.time = '{stop}'")
    text = text.replace('"tcp-newreno"', f'"{protocol}"')
    return run(text, folder, substrate, "stack=ours").outcome("ours", 1)


@pytest.mark.parametrize(
    ("app", "protocol"),
    [
        ('rate = "2M"\nbytes = "10M"', "udp"),
        ('rate = "2M"\napp = "stream"\ntime = "5s"', "udp"),
        (f'{SHORT}\nstop_at = "1.5s"', "udp"),
        ('app = "stream"\ntime = "5s"', "tcp-newreno"),
    ],
)
def test_a_flow_cut_by_the_clock_is_not_finished(tmp_path: Path, app: str, protocol: str) -> None:
    for substrate in ("sim", "live"):
        outcome = flows_until(tmp_path, app, substrate, protocol)
        (found,) = outcome["flows"]
        assert (outcome["end"], outcome["sim_seconds"]) == ("time", 1.0), substrate
        assert (found["finished"], found["bytes"] > 10_000) == (False, True), substrate


@pytest.mark.parametrize(
    ("end", "least"), [('time = "0.5s"', 0.4), ('stop_at = "0.5s"', 0.4), ('time = "1s"', 0.9)]
)
def test_datagrams_are_finished_at_their_own_end_whatever_they_had_left(
    tmp_path: Path, end: str, least: float
) -> None:
    """Also at the very end of the run."""
    for substrate in ("sim", "live"):
        outcome = flows_until(tmp_path, f'rate = "400k"\nbytes = "10M"\n{end}', substrate)
        (found,) = outcome["flows"]
        assert (outcome["end"], found["finished"]) == ("done", True), substrate
        assert least < outcome["sim_seconds"] < least + 0.4, substrate
        assert found["bytes"] == pytest.approx(50_000 * (least + 0.1), rel=0.1), substrate


@pytest.mark.parametrize("record", [{}, {"record": {"series": ["flow.1.delivered"]}}])
def test_what_arrives_after_the_end_counts_for_nothing_recorded_or_not(
    record: dict[str, Any],
) -> None:
    """Its client began a moment late, and ends as much later."""
    sender = {"from": "n1", "to": "n2", "protocol": "tcp-newreno"}
    given = {
        "topology": {"words": "linear,2,wire=10Mb/s"},
        "stop": {"time": "1s"},
        "flow": [sender],
    }
    outcome = json.loads(Live({}, 60)({**given, **record}).json())
    (found,) = outcome["flows"]
    assert (outcome["end"], outcome["sim_seconds"], found["finished"]) == ("time", 1.0, False)
    assert 0 < found["start_s"] < found["connected_s"] <= found["first_byte_s"]
    assert found["last_byte_s"] <= 1.0
    # Data of 10 Mb/s; the first 3200 octets pass at once.
    assert found["goodput_bps"] < 10e6 + 8 * 3200 / (1.0 - found["start_s"])


@pytest.mark.parametrize("protocol", ["tcp-newreno,profile=wifu-tahoe", "kernel:reno,window=128K"])
@pytest.mark.parametrize(
    ("app", "least"),
    [
        ('app = "file"\nbytes = "10M"\nstop_at = "0.5s"', 450_000),
        ('app = "stream"\ntime = "0.5s"', 450_000),
        ('app = "bulk"\nstop_at = "0.5s"', 450_000),
        ('app = "file"\nbytes = "20k"\nstop_at = "0.5s"', 20_000),
        ('app = "file"\nbytes = "20k"\nstop_at = "5s"', 20_000),
    ],
)
def test_what_was_written_by_a_flows_own_end_arrives(
    tmp_path: Path, app: str, least: int, protocol: str
) -> None:
    """Of 10 Mb/s, 625 kB in the time, and what buffers hold: also that of a daemon's socket."""
    for substrate in ("sim", "live"):
        real = protocol if substrate == "live" else "tcp-newreno,profile=wifu-tahoe"
        outcome = flows_until(tmp_path, app, substrate, real, "30s")
        (found,) = outcome["flows"]
        assert (outcome["end"], found["finished"], found["fault"]) == ("done", True, None)
        assert found["app"] == app.split('"')[1]
        assert outcome["sim_seconds"] >= found["last_byte_s"] > found["connected_s"]
        if least == 20_000:
            assert (found["bytes"], found["last_byte_s"] < 0.45) == (least, True)
        else:
            assert least < found["bytes"] < 2_000_000
            assert found["last_byte_s"] > 0.5


def test_a_flow_of_datagrams_is_over_though_some_are_lost() -> None:
    flow = {"from": "n1", "to": "n2", "protocol": "udp", "rate": "1M", "time": "0.5s"}
    given = {
        "topology": {"words": "linear,2,wire=10Mb/s"}, "stop": {"time": "9s"}, "flow": [flow],
        "handler": [
            {"use": "drop", "nodes": ["n2"], "hooks": ["input"], "protocol": 17, "p": 0.5}
        ],
    }  # fmt: skip
    for runner in (mesh, Live({}, 60)):
        outcome = json.loads(runner(given).json())
        (found,) = outcome["flows"]
        assert (outcome["end"], found["finished"]) == ("done", False)
        assert outcome["sim_seconds"] == pytest.approx(0.5, abs=0.02)
        assert 10_000 < found["bytes"] < 55_000


def test_a_file_ends_a_run_whose_other_flows_have_no_end(tmp_path: Path) -> None:
    more = """
[[scenario.flow]]
from = "n2"
to = "n1"
protocol = "{stack}"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "udp"
rate = "200k"
"""
    text = plan(
        "endless", "runs = 1", f'app = "file"\nbytes = "300k"{more}', topology=WIRE,
        more="stop.time = '50s'",
    )  # fmt: skip
    for substrate in ("sim", "live"):
        results = run(text, tmp_path, substrate)
        for cell in ("ours", "kernel"):
            outcome = results.outcome(cell, 1)
            told = [(f["finished"], f["bytes"] > 10_000) for f in outcome["flows"][:2]]
            assert (outcome["end"], told) == ("done", [(True, True), (False, True)]), substrate
            file, *others = outcome["flows"]
            assert outcome["sim_seconds"] - 0.1 < file["last_byte_s"] <= outcome["sim_seconds"]
            assert max(f["last_byte_s"] for f in others) <= outcome["sim_seconds"] < 40


def test_talk_that_ends_with_the_run_is_sent(tmp_path: Path) -> None:
    """Its sender begins a moment late, and what is due before its end leaves as much later."""
    told = [
        flows_until(tmp_path, f'{SHORT}\nstop_at = "1s"', substrate)["flows"][0]
        for substrate in ("sim", "live")
    ]
    assert told[1]["datagrams_sent"] == told[0]["packets"]["sent"] > 80


@pytest.mark.parametrize("app", ['rate = "400k"\nbytes = "1M"', SHORT])
def test_datagrams_may_begin_just_before_the_end(tmp_path: Path, app: str) -> None:
    outcome = flows_until(tmp_path, f'{app}\nstart = "0.96s"', "live")
    (found,) = outcome["flows"]
    assert (outcome["end"], outcome["sim_seconds"], found["finished"]) == ("time", 1.0, False)
    assert found["datagrams_sent"] > 0


@pytest.mark.parametrize(
    ("app", "protocol"),
    [
        ('rate = "400k"', "udp"),
        (SHORT, "udp"),
        ('app = "http"\npause = "50ms"\ncount = 3', "tcp-newreno"),
    ],
)
def test_a_flow_that_would_start_after_the_end_does_nothing(
    tmp_path: Path, app: str, protocol: str
) -> None:
    for substrate in ("sim", "live"):
        outcome = flows_until(tmp_path, f'{app}\nstart = "1.5s"', substrate, protocol)
        (found,) = outcome["flows"]
        assert (outcome["end"], outcome["sim_seconds"]) == ("time", 1.0), substrate
        assert (found["start_s"], found["bytes"], found["finished"]) == (1.0, 0, False), substrate
