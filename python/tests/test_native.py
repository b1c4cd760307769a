"""The compiled simulator as Python sees it."""

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wifu
from wifu import _native
from wifu import plan as plans
from wifu.emulated import check_by_model
from wifu.errors import LabError

FRAME = np.dtype(
    [
        ("time_ns", "<u8"),
        ("frame", "<u4"),
        ("node", "<u2"),
        ("peer", "<u2"),
        ("what", "u1"),
        ("mode", "u1"),
        ("tries", "u1"),
        ("why", "u1"),
        ("bytes", "<u2"),
        ("signal", "<i2"),
        ("other", "<u2"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("value", "<u4"),
    ]
)
SENT, DATA = 3, 0


def scenario(**changes: Any) -> str:
    flow = {"from": "n1", "to": "n4", "protocol": "tcp-sack", "app": "file", "bytes": "200k"}
    base: dict[str, Any] = {"topology": {"words": "linear,4", "set": "TB-B"}, "flow": [flow]}
    return json.dumps(base | changes)


def test_the_same_scenario_gives_the_same_octets_in_any_thread() -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: _native.run(scenario()).json(), range(8)))
    assert len(found) == 1
    outcome = json.loads(found.pop())
    assert outcome["flows"][0]["bytes"] == 200_000
    assert "series" not in outcome
    assert _native.run(scenario(run=2)).json() != json.dumps(outcome)


def _part(described: str) -> list[dict[str, str]]:
    parts = json.loads(described)["parts"]
    found: list[dict[str, str]] = next(p["params"] for p in parts if p["role"] == "congestion")
    return found


def test_compositions_are_known_beside_the_built_in_ones() -> None:
    mine = '[protocol.mine]\nextends = "tcp-sack"\nnumber = 240\nset = { iw = 1 }\n'
    flow = {"from": "n1", "to": "n4", "protocol": "mine", "app": "file", "bytes": "20k"}
    outcome = json.loads(_native.run(scenario(flow=[flow]), [mine]).json())
    assert outcome["flows"][0]["finished"]
    described = {p["name"]: p["value"] for p in _part(_native.describe("mine", [mine]))}
    assert described["iw"] == "1"
    with pytest.raises(ValueError, match="mine"):
        _native.describe("mine")
    with pytest.raises(ValueError, match="mine"):
        _native.run(scenario(flow=[flow]))
    with pytest.raises(ValueError, match="iww"):
        _native.check_scenario(scenario(flow=[flow]), [mine.replace("iw", "iww")])


def test_series_and_frames_are_arrays_for_numpy() -> None:
    result = _native.run(scenario(record={"series": True, "frames": True, "pcap": "any"}))
    assert "flow.1.cwnd" in result.series_names()
    delivered = np.frombuffer(result.series("flow.1.delivered")).reshape(-1, 2)
    assert delivered[-1, 1] == 200_000
    assert (np.diff(delivered[:, 0]) >= 0).all()
    with pytest.raises(KeyError, match="cwnd"):
        result.series("flow.2.cwnd")
    frames = np.frombuffer(result.frames(), dtype=FRAME)
    attempts = (frames["what"] == SENT) & (frames["kind"] == DATA)
    nodes = json.loads(result.json())["nodes"]
    assert attempts.sum() == sum(n["attempts"] for n in nodes)
    assert result.pcap()[:4] == bytes.fromhex("0a0d0d0a")
    silent = _native.run(scenario())
    assert (silent.series_names(), silent.frames(), silent.pcap()) == ([], b"", b"")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('{"sed": 1}', "sed: unknown key; did you mean `seed`?"),
        ('{"seed": ', "EOF"),
        (scenario(radio={"rat": "6M"}), "radio.rat: .*did you mean `rate`"),
        (scenario(topology={"words": "linear,3"}), r"flow\.1.to: no node `n4`"),
        (scenario(topology={"set": "TB-X"}), "TB-A"),
        (scenario(topology={"file": "/nonexistent.toml"}), "topology.file: /nonexistent.toml"),
    ],
)
def test_errors_name_the_key_and_what_would_be_right(text: str, hint: str) -> None:
    for call in (_native.run, _native.check_scenario):
        with pytest.raises(ValueError, match=hint):
            call(text)


def test_a_handler_of_no_flow_is_refused_unless_hosts_send_more() -> None:
    idle = scenario(handler=[{"use": "null", "protocol": 17}])
    for call in (_native.run, _native.check_scenario):
        with pytest.raises(ValueError, match=r"handler\.1: null: no packet is for it"):
            call(idle)
    _native.check_scenario(idle, others=True)
    check_by_model(json.loads(idle))
    with pytest.raises(ValueError, match="null"):
        check_by_model(json.loads(idle.replace('"null"', '"nul"')))


def test_what_a_scenario_leaves_out_is_filled_in() -> None:
    full = json.loads(_native.check_scenario(scenario()))
    assert (full["seed"], full["run"], full["flow"][0]["start"]) == (1, 1, "0 s")
    assert _native.run(json.dumps(full)).json() == _native.run(scenario()).json()


def test_the_catalogue_knows_protocols_and_sets() -> None:
    assert {"tcp-newreno", "tcp-cubic", "udp"} <= set(_native.protocols())
    assert {"TB-A", "TAP-16"} <= set(_native.sets())
    described = json.loads(_native.describe("tcp-newreno,iw=4"))
    params = {p["name"]: p["value"] for part in described["parts"] for p in part["params"]}
    assert params["iw"] == "4"
    with pytest.raises(ValueError, match="did you mean `tcp-reno`"):
        _native.describe("tcp-ren")


def test_ctrl_c_ends_a_run() -> None:
    flow = {"from": "n1", "to": "n4", "protocol": "udp"}
    endless = scenario(flow=[flow], stop={"time": "10000000s"})
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    # A shell starts what it runs in the background deaf to this signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            _native.run(endless)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


RTS = {
    "topology": {"words": "linear,3,rate=6M,snr=8,attempts=4,rts_threshold=0"},
    "flow": [
        {"from": "n1", "to": "n3", "protocol": "tcp-newreno", "app": "file", "bytes": 300_000}
    ],
    "stop": {"time": "60s"},
}


def test_why_attempts_failed_is_data_and_lost_rts_are_a_cause_of_their_own() -> None:
    run = wifu.run({**RTS, "record": {"frames": True}})
    why = run.why
    frames = run.frames()
    failed = int((frames["what"] == "failed").sum())
    assert why["failed"] == failed == sum(why["causes"].values()) > 50
    # An RTS that nobody decoded, counted by hand.
    sent = frames[(frames["what"] == "sent") & (frames["kind"] == "rts")]
    heard = frames[(frames["what"] == "received") & (frames["kind"] == "rts")]
    assert why["causes"]["rts_lost"] == len(sent) - len(heard) > failed / 2
    assert "the RTS was lost" in why["words"] and "answer was lost" not in why["words"]
    assert why["attempts"] == len(sent)
    # What they were lost to is recorded of each.
    lost = frames[(frames["what"] == "lost") & (frames["kind"] == "rts")]
    assert len(lost) == len(sent) - len(heard)
    assert not (lost["why"] == lost["why"].cat.categories[0]).any(), "each says why"
    assert sum(why["lost_to"]["rts"].values()) == why["causes"]["rts_lost"]
    links = {(k["from"], k["to"]): k for k in why["links"]}
    assert sum(k["failed"] for k in links.values()) == failed
    assert links["n1", "n2"]["causes"]["rts_lost"] > 0
    # Nothing else changes by looking, and who did not look is told how.
    plain = wifu.run(RTS)
    assert plain.outcome["trace_hash"] == run.outcome["trace_hash"]
    with pytest.raises(LabError, match=r"record\.frames = true"):
        plain.why  # noqa: B018


def test_a_link_that_an_event_cut_is_a_cause_of_its_own(tmp_path: Path) -> None:
    """With RTS or without; a table of runs has the column of those that had no cut, too."""
    text = """
name = "cut"
runs = 1
[scenario]
topology.words = "linear,2,rate=6M,snr=30,attempts=4,rts_threshold={threshold}"
record.frames = true
event = [{ at = "1.25s", cut = ["n1", "n2"] }]
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "udp"
rate = "1M"
time = "{time}s"
[vary]
threshold = [0, 2000]
time = [1, 3]
"""
    found = wifu.campaign(plans.parse(text), tmp_path / "r")
    why = found.why().set_index(["threshold", "time"])
    assert (why.loc[:, "noise"] == 0).all() and (why["cut"] == why["failed"]).all()
    for threshold in (0, 2000):
        assert why["cut"][threshold, 1] == 0 and why["cut"][threshold, 3] > 100
        whole = found.outcome(found.cells({"threshold": threshold, "time": 3})[0])
        lost = whole["nodes"][1]["lost"].get("cut", 0)
        assert (lost > 100) is (threshold > 0), "frames of data are counted at who is to have them"
        (row,) = whole["flows"]
        assert not {"timeouts", "timeout_s", "cwnd"} & set(row), "datagrams have none"


def test_results_tell_why_run_by_run(tmp_path: Path) -> None:
    text = """
name = "why"
runs = 2
[scenario]
topology.words = "linear,3,rate=6M,snr=8,attempts=4"
record.frames = true
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "tcp-newreno"
app = "file"
bytes = "100k"
jitter = "5ms"
[vary]
"radio.rts_threshold" = [0, 2000]
"""
    found = wifu.campaign(plans.parse(text), tmp_path / "r").why()
    assert found["run"].tolist() == [1, 2, 1, 2]
    rts = found[found["radio.rts_threshold"] == 0]
    assert (rts["rts_lost"] > 0).all()
    assert (rts["rts_lost"] > rts["hidden"]).all()
    plain = found[found["radio.rts_threshold"] == 2000]
    assert (plain["rts_lost"] == 0).all()
    assert (plain["hidden"] > 0).all()
