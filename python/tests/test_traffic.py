"""Ends of flows of datagrams, which really run over the loopback device: no root is needed."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from wifu.places import Crew, Place, Started
from wifu.runner import mesh
from wifu.traffic import Traffic

DATAGRAMS = {"from": "n1", "to": "n2", "protocol": "udp", "rate": "2M"}


def scenario(stop: dict[str, Any], *flows: dict[str, Any], **more: Any) -> dict[str, Any]:
    topology = {"words": "linear,2,wire=10Mb/s"}
    return {"topology": topology, "stop": stop, "flow": [DATAGRAMS | f for f in flows], **more}


def simulated(given: dict[str, Any]) -> dict[str, Any]:
    outcome: dict[str, Any] = json.loads(mesh(given).json())
    return outcome


def run(given: dict[str, Any], folder: Path, limit: float = 60.0) -> dict[str, Any]:
    places = {n: Place(n, "127.0.0.1", (), "wifu", str(folder)) for n in ("n1", "n2")}
    with Crew(folder, time.monotonic() + limit, lambda: False) as crew:
        return Traffic(places, given).run(crew)


def ends(outcome: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(outcome["end"], f["finished"], f["bytes"] > 0) for f in outcome["flows"]]


def test_a_flow_that_would_start_after_its_own_end_does_nothing(tmp_path: Path) -> None:
    given = scenario({"time": "1s"}, {"start": "0.8s", "stop_at": "0.5s"})
    for outcome in (simulated(given), run(given, tmp_path)):
        (flow,) = outcome["flows"]
        assert ends(outcome) == [("done", False, False)]
        assert (outcome["sim_seconds"], flow["start_s"], flow["goodput_bps"]) == (0.5, 0.5, 0.0)


@pytest.mark.parametrize("stop", ["0.4s", "0.8s"])
def test_the_run_ends_before_or_after_what_never_begins(tmp_path: Path, stop: str) -> None:
    given = scenario({"time": stop}, {"start": "0.9s", "stop_at": "0.6s"}, {"bytes": "9k"})
    for outcome in (simulated(given), run(given, tmp_path)):
        end, at = ("time", 0.4) if stop == "0.4s" else ("done", 0.6)
        assert ends(outcome) == [(end, False, False), (end, True, True)]
        assert outcome["sim_seconds"] == at
        assert [f["start_s"] for f in outcome["flows"]] == [at, 0.0]


def test_what_begins_just_before_its_own_end_sends_once(tmp_path: Path) -> None:
    given = scenario({"time": "9s"}, {"start": "0.2s", "stop_at": "0.2001s"})
    for outcome in (simulated(given), run(given, tmp_path)):
        assert ends(outcome) == [("done", True, True)]
        assert outcome["flows"][0]["bytes"] == 1472


def test_a_run_that_has_its_packets_does_not_wait_for_flows_that_never_begin(
    tmp_path: Path,
) -> None:
    stop = {"packets": 50, "time": "3000s"}
    never = {"start": "3100s"}
    given = scenario(stop, {}, never)
    for outcome in (simulated(given), run(given, tmp_path)):
        one, other = outcome["flows"]
        assert outcome["end"] == "packets"
        # Some may come within a millisecond where this machine is busy.
        assert 50 * 1472 <= one["bytes"] < 80 * 1472
        assert (other["start_s"], other["bytes"]) == (outcome["sim_seconds"], 0)
        assert outcome["sim_seconds"] < 60
    # Also if the last of them come with the end of all that flows.
    given = scenario(stop, {"bytes": 50 * 1472}, never)
    assert run(given, tmp_path)["end"] == "packets"


def test_datagrams_leave_at_their_times_however_late_their_sender_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second here; the times of `[[event]]` and of series begin with the flows'."""
    real, begun = Crew.start, list[float]()

    def late(self: Crew, place: Place, *words: str) -> Started:
        if "send" in words:
            words = ("sh", "-c", 'sleep 0.5; exec "$@"', "sh", *words)
        return real(self, place, *words)

    monkeypatch.setattr(Crew, "start", late)
    flows = [{"rate": "400k", "time": "1s"}, {"rate": "400k", "start": "0.1s", "stop_at": "1s"}]
    given = scenario({"time": "1s"}, *flows)
    places = {n: Place(n, "127.0.0.1", (), "wifu", str(tmp_path)) for n in ("n1", "n2")}
    with Crew(tmp_path, time.monotonic() + 60, lambda: False) as crew:
        traffic = Traffic(places, given)
        traffic.begins.append(lambda: begun.append(time.monotonic()))
        before = time.monotonic()
        outcome = traffic.run(crew)
    assert begun[0] - before >= 0.5
    model = simulated(given)
    assert ends(outcome) == ends(model) == [("done", True, True)] * 2
    assert [f["start_s"] for f in outcome["flows"]] == pytest.approx([0.0, 0.1])
    for real_, simulated_ in zip(outcome["flows"], model["flows"], strict=True):
        assert real_["bytes"] == pytest.approx(simulated_["bytes"], rel=0.1)
        assert real_["first_byte_s"] >= real_["start_s"]
