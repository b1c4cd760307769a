"""Relays that do not serve what passes them: which, and what is said of such runs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from test_real_time import clean, program  # noqa: F401

from wifu import plan as plans
from wifu import relays
from wifu.campaign import Campaign
from wifu.emulated import Emulated, insist
from wifu.errors import RunError
from wifu.flows import flows_of
from wifu.live import Live
from wifu.places import Place
from wifu.stamps import stamped
from wifu.store import Store, verdict

NAMES = ("n1", "n2", "n3", "n4")
ADDRESSES = {f"n{k}": f"10.0.0.{k}" for k in range(1, 5)}


def route(to: str, via: str | None) -> str:
    """What `ip -j route get` of iproute2 6.1 said in an emulation."""
    told: dict[str, Any] = {"dst": ADDRESSES[to]}
    if via is not None:
        told["gateway"] = via
    return json.dumps([{**told, "dev": "wlan0", "uid": 0, "flags": [], "cache": []}])


class Routed(Place):
    """A host whose kernel knows the ways of a row of four, or those of `ways`."""

    ways: dict[str, str] | None = None

    def run(self, *words: str, text: str | None = None, timeout: float = 30.0) -> str:
        assert words[:4] == ("ip", "-j", "route", "get")
        here = NAMES.index(self.name)
        there = list(ADDRESSES.values()).index(words[4])
        step = here + (1 if there > here else -1)
        via = None if step == there else ADDRESSES[NAMES[step]]
        if self.ways is not None:
            via = self.ways.get(words[4])
            if via is None:
                raise RunError(f"{self.name}: {words}: Network is unreachable")
        return route(NAMES[there], via)


def row(**ways: dict[str, str]) -> dict[str, Place]:
    made: dict[str, Place] = {}
    for name in NAMES:
        host = Routed(name, ADDRESSES[name], (), "wifu", "/tmp")
        host.ways = ways.get(name)
        made[name] = host
    return made


def scenario(**more: Any) -> dict[str, Any]:
    flow = {"from": "n1", "to": "n4", "protocol": "atp-adaptive", "app": "file", "bytes": "200k"}
    return {"topology": {"words": "linear,4,rate=24M"}, "stop": {"time": "20s"},
            "flow": [flow], **more}  # fmt: skip


def test_the_relays_of_a_route_are_those_that_kernels_name() -> None:
    assert relays.between(row(), "n1", "n4") == ["n2", "n3"]
    assert relays.between(row(), "n4", "n1") == ["n3", "n2"]
    assert relays.between(row(), "n3", "n4") == []
    lost = row(n3={})
    assert relays.between(lost, "n1", "n4") == ["n2", "n3"], "n3 has no way on"
    stranger = row(n2={ADDRESSES["n4"]: "192.0.2.7"})
    assert relays.between(stranger, "n1", "n4") == ["n2"], "whom nobody knows"
    circle = row(n3={ADDRESSES["n4"]: ADDRESSES["n2"]})
    assert relays.between(circle, "n1", "n4") == ["n2", "n3"], "routes may be in a circle"


def test_relays_that_passed_nothing_on_are_named() -> None:
    (flow,) = flows_of(scenario())
    counted = {name: {"packets": {"forwarded": 12}} for name in NAMES}
    assert relays.idle(row(), flow, counted) == []
    counted["n3"] = {"packets": {"forwarded": 0}}
    assert relays.idle(row(), flow, counted) == ["n3"], "its daemon serves something else"
    del counted["n2"]
    assert relays.idle(row(), flow, counted) == ["n2", "n3"], "no daemon at all"


def test_a_flow_that_does_not_pass_relays_names_them() -> None:
    flows = flows_of(scenario())
    row_ = {"unserved": 2, "unserved_at": ["n2"], "bytes": 0}
    said = "flow 1: nothing was delivered, and n2 on its way does not serve atp-adaptive"
    assert relays.unpassed(flows, [row_]) == [said]
    (two,) = relays.unpassed(flows, [row_ | {"unserved_at": ["n2", "n3"]}])
    assert "n2, n3 on its way do not serve" in two
    (unknown,) = relays.unpassed(flows, [{"unserved": 2, "bytes": 0}])
    assert "a node on its way does not serve" in unknown
    for some in ({"bytes": 7}, {"unserved": 0}):
        assert relays.unpassed(flows, [row_ | some]) == []


def test_relays_alone_are_left_out_on_real_hosts() -> None:
    for runner in (Emulated({}, None), Live({}, None)):
        with pytest.raises(ValueError, match=r"host.unserved\[0\]: n4 is an end of flow 1"):
            runner.check(scenario(host={"unserved": ["n4"]}))
    Emulated({}, None).check(scenario(host={"unserved": ["n2", "n3"]}))
    with pytest.raises(ValueError, match="unserved"):
        Emulated({}, None).check(scenario(host={"unserved": ["n9"]}))
    over_ssh = Live({"hosts": {"n1": "root@a", "n4": "root@b"}}, None)
    with pytest.raises(ValueError, match=r"host.unserved\[0\]: live.hosts has no n2"):
        over_ssh.check(scenario(host={"unserved": ["n2"]}))


PLAN = """
name = "idle"
title = "A relay that serves nothing"
runs = 2
metrics = ["goodput"]

[scenario]
topology.words = "linear,4,rate=24M"
stop.time = "20s"

[[scenario.flow]]
from = "n1"
to = "n4"
protocol = "{protocol}"
app = "file"
bytes = "200k"

[vary]
protocol = ["atp-adaptive", "tp-alpha"]

[vary.relays]
all = {}
one = { "host.unserved" = ["n2"] }
both = { "host.unserved" = ["n2", "n3"] }
"""


def test_a_campaign_names_what_did_not_serve_what(tmp_path: Path) -> None:
    Campaign(plans.parse(PLAN), Store(tmp_path)).start()
    manifest = Store(tmp_path).manifest()
    assert manifest["stamps"] == {"VALID": 4, "SUSPECT": 8, "INVALID": 0}
    assert manifest["unserved_at"] == {"atp-adaptive": ["n2", "n3"], "tp-alpha": ["n2", "n3"]}
    words = " ".join(stamped(manifest))
    assert "do not serve (atp-adaptive at n2, n3; tp-alpha at n2, n3)" in words


@pytest.mark.real_time
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.usefixtures("clean", "program")
def test_a_relay_that_is_left_out_makes_a_run_on_emu_suspect() -> None:
    """Its kernel passes packets on, whose delay there nobody collects."""
    given = scenario(host={"unserved": ["n3"]}, topology={"words": "linear,4", "set": "TB-A"})
    runner = Emulated({"share": True, "repeats": 2}, 90)
    runner.check(given)
    outcome = json.loads(insist(runner, given, [], "relays").json())
    (flow,) = outcome["flows"]
    assert flow["finished"] and flow["unserved"] > 5
    assert flow["unserved_at"] == ["n3"] and "n3" not in outcome["daemons"]
    assert outcome["daemons"]["n2"]["packets"]["forwarded"] > 139
    assert verdict(outcome) == "SUSPECT"
