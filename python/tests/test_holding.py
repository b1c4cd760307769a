"""How long data waits at nodes that split TCP: no hop's time, and most of the way."""

from typing import Any

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


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    return wifu.campaign(plans.parse(PLAN), tmp_path_factory.mktemp("held") / "r")


def test_times_of_hops_add_up_to_when_octets_arrive(results: wifu.Results) -> None:
    """By Little's law: what the two buffers hold is what came in and did not go on."""
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
