"""What a scenario has, whichever of its words say so."""

from typing import Any

import pytest

from wifu import drawn, narrow
from wifu.cells import Cell
from wifu.network import Network, network, routes

PLACED = [{"name": f"n{n}", "position": [20.0 * n, 0.0, 0.0]} for n in (1, 2, 3)]


def of(topology: dict[str, Any], **more: Any) -> Network:
    told = network({"topology": topology, **more})
    assert told is not None
    return told


@pytest.mark.parametrize(
    ("topology", "radio", "rates", "by"),
    [
        ({"words": "linear,3"}, {}, [6e6] * 3, ["standard"] * 3),
        ({"words": "linear,3,rate=24M"}, {}, [24e6] * 3, ["plan"] * 3),
        ({"words": "linear,3", "radio": {"rate": "24Mb/s"}}, {}, [24e6] * 3, ["plan"] * 3),
        ({"words": "linear,3"}, {"rate": "24Mb/s"}, [24e6] * 3, ["plan"] * 3),
        ({"words": "linear,3", "set": "TB-A"}, {}, [24e6] * 3, ["set"] * 3),
        ({"words": "linear,3,set=TB-A"}, {}, [24e6] * 3, ["set"] * 3),
        (
            {"words": "linear,3", "node": [{"name": "n2", "radio": {"rate": "24Mb/s"}}]},
            {},
            [6e6, 24e6, 6e6],
            ["standard", "plan", "standard"],
        ),
        ({"node": PLACED}, {}, [6e6] * 3, ["standard"] * 3),
    ],
)
def test_a_rate_is_what_radios_have_whoever_says_it(
    topology: dict[str, Any], radio: dict[str, Any], rates: list[float], by: list[str]
) -> None:
    told = of(topology, radio=radio)
    assert [node.rate for node in told.nodes] == rates
    assert [node.rate_by for node in told.nodes] == by


def test_rate_controls_queues_and_attempts_are_those_of_each_node() -> None:
    own = {"name": "n2", "radio": {"rate_control": "minstrel", "queue": 5, "rts_threshold": 0}}
    one, two, _ = of({"words": "linear,3,queue=50,ring=2", "node": [own]}).nodes
    assert (one.rate_control, one.queue, one.ring, one.rts) == ("fixed", 50, 2, None)
    assert (two.rate_control, two.queue, two.ring, two.rts) == ("minstrel", 5, 2, 7)
    assert (one.data, two.data) == (7, 4)


def test_nodes_that_nobody_hears() -> None:
    servers = [{"name": "s", "wired_only": True}, {"name": "far", "position": [0.0, 0.0, 0.0]}]
    wire = {"a": "s", "b": "n1", "rate": "2Mb/s", "queue": 9, "variation": "5ms", "loss": 0.01}
    told = of({"words": "linear,2", "node": servers, "wire": [wire]})
    assert {node.name for node in told.nodes} == {"n1", "n2", "s", "far"}
    assert {node.name for node in told.heard} == {"n1", "n2", "far"}
    (found,) = told.wires
    assert (found.a, found.b, found.rate, found.queue) == ("s", "n1", 2e6, 9)
    assert (found.overhead, found.variation, found.loss) == (38, 0.005, 0.01)
    wired = of({"words": "linear,2,wire=5Mb/s"})
    assert wired.heard == wired.radios == []
    two = told.node("n2")
    assert two is not None and two.name == "n2"
    assert told.node("n9") is None and told.node("x") is None


def test_what_is_drawn_once_is_that_of_sets_and_links_too() -> None:
    assert of({"words": "linear,2"}).fading == ()
    assert of({"words": "linear,3,set=TB-A"}).fading == ((2.0, 0.5),)
    link = {"from": "n1", "to": "n2", "sigma_db": 3.0, "tau": "10s"}
    assert of({"words": "linear,2", "link": [link]}).fading == ((3.0, 10.0),)
    random = of({"words": "random,5,set=TB-RND"})
    assert random.scattered and random.shadowed
    tabled = of({"words": "linear,3", "propagation": {"shadowing_db": 4.0}})
    placed = of({"node": PLACED, "propagation": {"shadowing_db": 4.0}})
    assert not tabled.shadowed and not tabled.scattered and placed.shadowed


def test_ways_are_those_of_the_routes() -> None:
    scenario = {"topology": {"words": "linear,4"}}
    ends = [("n1", "n3"), ("n4", "n4")]
    assert routes(scenario, ends) == (("n1", "n2", "n3"), ("n4",))
    near = {"topology": {"node": PLACED}}
    assert routes(near, [("n1", "n3")]) == (("n1", "n3"),)
    by_hand = [{"from": "n1", "to": "n3", "via": "n2"}, {"from": "n2", "to": "n3", "via": "n3"}]
    told = {**near, "routing": {"kind": "static", "routes": by_hand}}
    assert routes(told, [("n1", "n3"), ("n3", "n1")]) == (("n1", "n2", "n3"), ())


def test_what_means_nothing_has_no_network() -> None:
    assert network({"topology": {"words": "lines,2"}}) is None
    assert routes({"topology": {"words": "lines,2"}}, [("n1", "n2")] * 2) == ((), ())


@pytest.mark.parametrize(
    "levels",
    [
        [{"radio": {"rate": "6Mb/s"}}, {"radio": {"rate": "24Mb/s"}}],
        [{"topology": {"radio": {"rate": "6Mb/s"}}}, {"radio": {"rate": "24Mb/s"}}],
        [{"topology": {"words": f"linear,3,rate={rate}"}} for rate in ("6M", "24M")],
        [
            {"topology": {"node": [{"name": "s", "wired_only": True}, {"name": "n1", **more}]}}
            for more in ({}, {"radio": {"rate": "24Mb/s"}})
        ],
    ],
)
def test_levels_of_radios_are_that_whoever_says_it(levels: list[dict[str, Any]]) -> None:
    wire = {"a": "s", "b": "n1", "rate": "2Mb/s"}
    plain = {"words": "linear,3", "wire": [wire], "node": [{"name": "s", "wired_only": True}]}
    scenarios = [{**own, "topology": plain | own.get("topology", {})} for own in levels]
    cells = [Cell(n, str(n), {}, scenario) for n, scenario in enumerate(scenarios)]
    assert narrow._of_radios(cells)
    more = {"interferer": [{"received_dbm": {"n2": -70.0}}]}, {"wire": [{**wire, "queue": 5}]}
    for other in (*more, {"words": "linear,4"}):
        changed = {**scenarios[0], "topology": {**scenarios[0]["topology"], **other}}
        assert not narrow._of_radios([cells[1], Cell(0, "0", {}, changed)])


@pytest.mark.parametrize(
    ("topology", "told"),
    [
        ({"words": "linear,2", "fading": {"sigma_db": 2.0, "tau": "60s"}}, ["slow fading"]),
        (
            {
                "words": "linear,2",
                "link": [{"from": "n1", "to": "n2", "sigma_db": 2.0, "tau": "60s"}],
            },
            ["slow fading"],
        ),
        ({"words": "linear,2", "set": "TB-A", "fading": {"tau": "60s"}}, ["slow fading"]),
        ({"words": "linear,2", "set": "TB-A"}, []),
        ({"words": "random,5"}, ["where nodes stand"]),
        (
            {"placement": {"kind": "uniform", "count": 3, "area_m": [9.0, 9.0]}, "set": "TB-RND"},
            ["where nodes stand", "shadowing"],
        ),
    ],
)
def test_what_a_run_draws_once_whoever_says_it(topology: dict[str, Any], told: list[str]) -> None:
    assert list(drawn._once({"topology": topology}, 20.0)) == told
