"""How long connections took to open: of flows that are one connection, end to end."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cautions import PLAN, both, made, said

import wifu
from wifu import cutoff, metrics, report, splits, unlike
from wifu.metrics import Measure
from wifu.places import Place
from wifu.traffic import Traffic

NEVER = "flows never connected"
ASKS = "ask again and again"
DIFFERENT = "means of different flows"
OTHERS = "times of different flows, as some ask again and again"
TEXT = PLAN.replace('"aggregate", "jain", "sum_rates"', '"connecting", "delay"')


def took(*flows: dict[str, Any], **more: Any) -> float:
    told = [{"id": n, "protocol": "tcp-reno", "start_s": 1.0, **f} for n, f in enumerate(flows, 1)]
    outcome = {"sim_seconds": 10.0, "flows": told, **more}
    return metrics.run_row(outcome, Measure(), ["connecting"])["connecting"]


def test_it_is_the_mean_of_the_flows_that_connected() -> None:
    assert took({"connected_s": 1.5}) == pytest.approx(0.5)
    assert took({"connected_s": 1.5}, {"connected_s": 4.0}) == pytest.approx(1.75)
    assert took({"connected_s": 1.5}, {"connected_s": None}, {}) == pytest.approx(0.5)
    assert np.isnan(took({"connected_s": None}))
    # In real time a client may get there when the run is over.
    assert np.isnan(took({"start_s": 10.0, "connected_s": 10.2}))
    second = metrics.metric_of("connecting@2")
    flows = [{"id": n, "start_s": 0.0, "connected_s": float(n)} for n in (1, 2)]
    assert second.compute({"flows": flows}, np.ones(2)) == 2.0


@pytest.mark.parametrize("other", [{"app": "http"}, {"app": "request"}, {"protocol": "udp"}])
def test_what_is_no_single_connection_is_not_in_it(other: dict[str, Any]) -> None:
    assert np.isnan(took({**other, "connected_s": 3.0}))
    assert took({**other, "connected_s": 3.0}, {"connected_s": 1.5}) == pytest.approx(0.5)


def test_the_simulator_tells_it_of_a_syn_that_was_lost() -> None:
    """A link that is cut at first, for less than the first timeout."""
    topology = {
        "node": [{"name": "n1"}, {"name": "n2"}],
        "wire": [{"a": "n1", "b": "n2", "rate": "10M"}],
    }
    flow = {"from": "n1", "to": "n2", "protocol": "tcp-newreno", "app": "file", "bytes": "50k"}
    scenario = {"topology": topology, "flow": [flow], "stop": {"time": "20s"}}
    ends = ["n1", "n2"]
    cut = {"event": [{"at": "0s", "cut": ends}, {"at": "500ms", "restore": ends}]}
    found = [wifu.run(scenario | more).outcome for more in ({}, cut)]
    row = [metrics.run_row(o, Measure())["connecting"] for o in found]
    assert row[0] < 0.1 and 0.5 < row[1] < 5.0
    tables = wifu.run(scenario | cut).to_pandas()
    assert tables["connecting_s"].iloc[0] == pytest.approx(row[1])


def test_runs_in_real_time_tell_it_as_the_simulator_does(tmp_path: Path) -> None:
    """Of what `wifu perf` took to connect, half as long in the model."""
    flow = {"from": "n1", "to": "n2", "protocol": "tcp-newreno", "app": "file", "bytes": 4000}
    places = {n: Place(n, n, (), "wifu", str(tmp_path)) for n in ("n1", "n2")}
    traffic = Traffic(places, {"flow": [flow]}, dilation=2.0)
    own = {"connect_s": 3.0, "first_byte_s": 0.1, "last_byte_s": 2.1}
    report = {
        "end": {"streams": [{"wifu": own, "receiver": {"bytes": 4000}, "sender": {}}]},
        "wifu": {"monotonic_s": 150.0},
    }
    row = traffic._stream(traffic.flows[0], report, 24.0, 100.0, False)
    outcome = {"sim_seconds": 60.0, "flows": [{**flow, "id": 1, **row}]}
    assert metrics.run_row(outcome, Measure())["connecting"] == pytest.approx(1.5)


def test_flows_that_never_connected_have_no_value_and_are_told(tmp_path: Path) -> None:
    whole: dict[str, Any] = {"connected_s": 0.2, "last_byte_s": 4.0}
    never: dict[str, Any] = {
        "finished": False,
        "bytes": 0,
        "connected_s": None,
        "fault": "TimedOut",
    }
    flows = {"tcp-reno": [whole, whole], "tcp-newreno": [whole, {**never, "last_byte_s": None}]}
    results = made(tmp_path, flows, TEXT)
    # It adds a thousand bytes to each; who never connected had none.
    results.flows.loc[results.flows["connected_s"].isna(), "bytes"] = 0
    assert results.summary("connecting")["mean"].tolist() == pytest.approx([0.2, 0.2])
    told = said(results, "connecting")
    assert f"8 of 32 {NEVER} (by cell: tcp-newreno 8)" in told
    assert "goodput is 0" not in told
    assert DIFFERENT in told and "flow 2 has a value in 100% of the runs" in told
    assert DIFFERENT in unlike.reasons(results, results.plan.cells, "connecting")
    assert report.best_of(results, "connecting") == set()


def test_alike_flows_are_compared_and_nothing_is_said(tmp_path: Path) -> None:
    results = made(tmp_path, both(4.0, 4.0, connected_s=0.2), TEXT)
    assert unlike.reasons(results, results.plan.cells, "connecting") == []
    assert said(results, "connecting") == ""


@pytest.mark.parametrize("app", ["http", "request"])
def test_why_flows_of_requests_have_no_value_is_said(tmp_path: Path, app: str) -> None:
    text = TEXT.replace('app = "file"\nbytes = "1M"', f'app = "{app}"')
    results = made(tmp_path, both(4.0, 4.0, connected_s=0.2, app=app), text)
    assert results.summary("connecting")["n"].tolist() == [0, 0]
    assert cutoff.absent(results, results.plan.cells, "connecting") == "no value"
    assert ASKS in said(results, "connecting") and "flow 1, 2" in said(results, "connecting")
    assert ASKS in report.render(results, [])


def test_why_datagrams_have_no_value_is_said(tmp_path: Path) -> None:
    udp = '[[scenario.flow]]\nprotocol = "udp"\nrate = "10k"\n[vary]'
    results = made(tmp_path, both(4.0, 4.0, connected_s=0.2), TEXT.replace("[vary]", udp))
    assert "Datagrams (flow 3) open no connection" in said(results, "connecting")
    assert "Datagrams" not in said(results, "connecting@1")


def test_a_file_beside_one_that_asks_is_not_compared_with_other_flows(tmp_path: Path) -> None:
    text = TEXT.replace('app = "file"\nbytes = "1M"', "")
    text = text.replace("[vary]", "[vary.protocol]\n").replace('protocol = ["tcp-reno"', "#")
    text += """
tcp-reno = { "flow.*.protocol" = "tcp-reno", "flow.*.app" = "file" }
tcp-newreno = { "flow.*.protocol" = "tcp-newreno", "flow.*.app" = "request" }
"""
    text = text.replace('protocol = "{protocol}"', 'protocol = "tcp-reno"')
    results = made(tmp_path, both(4.0, 4.0, connected_s=0.2), text)
    assert OTHERS in unlike.reasons(results, results.plan.cells, "connecting")
    assert OTHERS not in unlike.reasons(results, results.plan.cells, "delay")


def test_of_split_connections_it_is_the_first_half_that_opens(tmp_path: Path) -> None:
    """The node answers for the destination."""
    wires = [{"a": "n1", "b": "n2", "rate": "10M"}, {"a": "n2", "b": "n3", "rate": "10M"}]
    wires[1]["delay"] = "200ms"
    nodes = [{"name": name} for name in ("n1", "n2", "n3")]
    flow = {"from": "n1", "to": "n3", "protocol": "tcp-newreno", "app": "file", "bytes": "50k"}
    scenario = {"topology": {"node": nodes, "wire": wires}, "flow": [flow]}
    whole, halved = (wifu.run(scenario | more) for more in ({}, {"split": [{"nodes": ["n2"]}]}))
    assert whole.to_pandas()["connecting_s"].iloc[0] > 0.4
    assert halved.to_pandas()["connecting_s"].iloc[0] < 0.1
    assert "connecting" in splits.OF_HALF
