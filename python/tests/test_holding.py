"""How long data waits at nodes that split TCP: no hop's time, and most of the way."""

from typing import Any

import numpy as np
import pytest

import wifu
from wifu import cautions, figures, holding
from wifu import plan as plans
from wifu.figures import style

PLAN = """
name = "held"
runs = 2
metrics = ["goodput", "srtt"]
[scenario]
topology = { words = "linear,5", set = "TB-A" }
record.frames = true
[[scenario.flow]]
from = "n1"
to = "n5"
protocol = "tcp-newreno"
app = "file"
bytes = "1M"
jitter = "5ms"
[vary.way]
whole = {}
split = { split = [{ nodes = ["n3"] }] }
"""

ALONG = ("splitter", "node", "queue", "contention", "retry", "air", "propagation")

NARROW: dict[str, Any] = {
    "topology": {
        "node": [{"name": name} for name in ("n1", "n2", "n3")],
        "wire": [
            {"a": "n1", "b": "n2", "rate": "10M", "delay": "5ms"},
            {"a": "n2", "b": "n3", "rate": "1M", "delay": "5ms"},
        ],
    },
    "split": [{"nodes": ["n2"]}],
}
"""Two wires of which the second is the slower one, split between them."""


def ran(flows: list[dict[str, Any]], **more: Any) -> wifu.Run:
    """A run of these flows over the two wires, with what tells how long halves hold what they have
    and all series of the flows' bytes.
    """
    scenario = {**NARROW, "flow": flows, **more}
    series = holding.recorded(["flow.*.sent", "flow.*.delivered"], scenario)
    return wifu.run({**scenario, "record": {"frames": True, "series": series}})


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    return wifu.campaign(plans.parse(PLAN), tmp_path_factory.mktemp("held") / "r")


def test_what_waits_is_no_more_than_halves_held(results: wifu.Results) -> None:
    for way in ("whole", "split"):
        hops = results.hops({"way": way})
        data = hops[(hops["run"] == 1) & ~hops["reverse"]].sort_values("hop")
        waits = data["splitter_per_packet_s"].tolist()
        if way == "whole":
            assert waits == [0.0] * 4
            continue
        assert waits[0] == waits[1] == waits[3] == 0.0
        (cell,) = results.cells({"way": way})
        held = results.outcome(cell)["nodes"][2]["split"]["most_held"]
        took = results.outcome(cell)["flows"][0]["last_byte_s"]
        assert 0.01 < waits[2] < held * took / 1e6, "of no hop before, and no more than it held"
        back = hops[hops["reverse"]]
        assert (back["splitter_s"] == 0).all(), "acknowledgements are each half's own"


@pytest.mark.parametrize("split", [True, False])
def test_times_of_hops_add_up_to_when_octets_arrive(split: bool) -> None:
    """By Little's law: what was sent and not delivered yet, over the time of the run, is how long
    octets were under way, of which the hops have each a part.
    """
    flow = {"from": "n1", "to": "n3", "protocol": "tcp-newreno", "app": "file", "bytes": "1M"}
    run = ran([flow], **({} if split else {"split": []}))
    hops = run.hops()
    data = hops[~hops["reverse"]]
    times = [float(data[f"{part}_per_packet_s"].sum()) for part in ALONG]
    end = float(run.outcome["sim_seconds"])
    sent, delivered = (area(run.series(f"flow.1.{name}"), end) for name in ("sent", "delivered"))
    assert sum(times) == pytest.approx((sent - delivered) / 1e6, rel=0.03)
    assert (times[0] > 0.7 * sum(times)) is split, "where the queue does not hold it"


def area(series: Any, end: float) -> float:
    """Octets of a cumulative series, by how long they are there."""
    gaps = np.diff(np.append(series.index.to_numpy(), end))
    return float((series.to_numpy() * gaps).sum())


@pytest.mark.parametrize("stop", ["12s", "60s"])
def test_a_half_that_is_gone_holds_nothing(stop: str) -> None:
    """Series of a half end with its connection, and another flow keeps the run going."""
    file = {"from": "n1", "to": "n3", "protocol": "tcp-newreno", "app": "file", "bytes": "5M"}
    stream = {"from": "n1", "to": "n2", "protocol": "tcp-newreno", "app": "stream", "time": stop}
    run = ran([file, stream], split=[{"nodes": ["n2"], "restart": "9s"}])
    assert 9 < run.outcome["flows"][0]["fault_s"] < 12 <= run.outcome["sim_seconds"], "so it is"
    assert holding.waits(run.outcome)[1, "n2", False] == pytest.approx(3.6, abs=0.2)


@pytest.mark.parametrize("up", [True, False])
def test_questions_and_answers_wait_each_on_its_own_way(up: bool) -> None:
    """Where the wire behind the splitter is the slower one."""
    ends = {"from": "n1", "to": "n3"} if up else {"from": "n3", "to": "n1"}
    sizes = {"request": "1M", "response": 200} if up else {"request": 200, "response": "1M"}
    flow = {**ends, "protocol": "tcp-newreno", "app": "request", "count": 3, **sizes}
    run = ran([flow])
    hops = run.hops()
    at = hops[hops["from"] == "n2"].set_index("reverse")["splitter_per_packet_s"]
    assert 2 < at[not up] < 8 and 0 <= at[up] < 0.1, "1 MB takes 8 s over 1 Mb/s"
    assert (hops[hops["from"] != "n2"]["splitter_s"] == 0).all()
    assert f" {'Questions' if up else 'Answers'} of flow 1 waited" in run.why["words"]


def test_of_questions_that_nobody_counted_nothing_is_told() -> None:
    """NaN and not 0: outcomes of older simulators do not say how much was asked."""
    flow = {"from": "n1", "to": "n3", "protocol": "tcp-newreno", "app": "request", "count": 1}
    run = ran([flow])
    (told,) = run.outcome["flows"]
    bare = {**run.outcome, "flows": [{k: v for k, v in told.items() if k != "asked"}]}
    for outcome, known in ((run.outcome, True), (bare, False)):
        hops = [{k: v for k, v in hop.items() if k != "splitter_s"} for hop in outcome["hops"]]
        found = holding.told({**outcome, "hops": hops}, run._result, run.scenario)["hops"]
        at = {bool(hop["reverse"]): "splitter_s" in hop for hop in found if hop["from"] == "n2"}
        assert at == {False: known, True: True}


def test_datagrams_are_not_split(results: wifu.Results) -> None:
    scenario = dict(results.plan.scenario_of(results.cells({"way": "split"})[0], 1))
    probe = {"from": "n1", "to": "n5", "protocol": "udp", "rate": "10k", "time": "1s"}
    run = wifu.run({**scenario, "flow": [*scenario["flow"], probe]})
    hops = run.hops().query("flow == 2 and not reverse")
    assert len(hops) == 4 and (hops["splitter_s"] == 0).all()


def test_a_waterfall_has_the_time_at_the_splitter(results: wifu.Results) -> None:
    from wifu.figures import mesh

    with style.context(None):
        figure, _, caption = figures.made(results, {"kind": "waterfall"})
    ends = {axis.get_title(loc="left") or axis.get_title(): axis for axis in figure.axes}
    assert "at the splitter is how long an octet waits there" in caption
    assert "is not in it" not in caption
    labels = [t.get_text() for found in figure.legends for t in found.get_texts()]
    assert labels[0] == "at the splitter" and len(ends) == 2
    (cell,) = results.cells({"way": "split"})
    rows, _ = mesh._hops(results, cell, 1, False)
    assert rows[2]["splitter_s"] > 0 and [row["splitter_s"] for row in rows[:2]] == [0, 0]


def test_it_is_told_beside_round_trips_and_by_why(results: wifu.Results) -> None:
    told = " ".join(cautions.notes(results, results.plan.cells, "srtt"))
    assert "Between the halves data waited on the mean, which is in no round trip" in told
    words = results.why().set_index("way")["words"]
    assert words["split"].str.contains(r"Data of flow 1 waited .* s on the mean at n3, which").all()
    assert not words["whole"].str.contains("waited").any()


def test_it_needs_what_is_recorded(results: wifu.Results) -> None:
    """Where nobody asked nothing is told as 0; recording changes nothing of a run."""
    (cell,) = results.cells({"way": "split"})
    scenario: dict[str, Any] = dict(results.plan.scenario_of(cell, 1))
    assert set(scenario["record"]["series"]) == {f"flow.*.n3.{what}" for what in holding.HALVES}
    bare = wifu.run({**scenario, "record": {"frames": True}})
    assert bare.outcome["trace_hash"] == results.outcome(cell)["trace_hash"]
    hops = bare.hops()
    at = (hops["from"] == "n3") & ~hops["reverse"]
    assert hops[at]["splitter_s"].isna().all() and "waited" not in bare.why["words"]
    assert not list(results.folder.glob("series/*")), "no series that nobody asked for"


def test_tcp_ap_behind_a_splitter_is_told_what_its_interval_is_of() -> None:
    flow = {"from": "n1", "to": "n5", "protocol": "tcp-newreno"}
    hop = {"flow": 1, "from": "n3", "hop": 3, "packets": 10, "splitter_s": 5.0}
    for far, told in (("tcp-ap11", True), ("tcp-newreno", False)):
        scenario = {"flow": [flow], "split": [{"nodes": ["n3"], "far": far}]}
        words = holding.words({"hops": [hop]}, scenario)
        assert words.startswith(" Data of flow 1 waited 0.5 s on the mean at n3")
        assert ("TCP-AP makes its interval of round trips" in words) is told
