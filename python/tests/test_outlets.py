"""Queues of unlike lengths, in which transports wait for room."""

from __future__ import annotations

import pytest

from wifu import outlets
from wifu import plan as plans

PLAN = """
pair = "queue"
[scenario]
topology.words = "{words}"
[[scenario.flow]]
from = "n1"
to = "{to}"
protocol = "{protocol}"
app = "file"
bytes = "1M"
[vary]
protocol = ["{of}"]
queue = [5, 1000]
"""


@pytest.mark.parametrize(
    ("words", "to", "of", "told"),
    [
        ("linear,2,wire=5Mb/s,queue={queue}", "n2", "tcp-reno", True),
        ("linear,3,wire=5Mb/s,queue={queue}", "n3", "tcp-reno", True),
        ("linear,2,queue={queue}", "n2", "tcp-reno", True),
        # Relays have queues, too, which fill.
        ("linear,4,queue={queue}", "n4", "tcp-reno", False),
        # Datagrams do not wait.
        ("linear,2,wire=5Mb/s,queue={queue}", "n2", "udp", False),
    ],
)
def test_lengths_of_a_queue_that_loses_nothing(words: str, to: str, of: str, told: bool) -> None:
    text = PLAN.replace("{words}", words).replace("{to}", to).replace("{of}", of)
    plan = plans.parse(text.replace('app = "file"\n', "") if of == "udp" else text)
    found = outlets.warnings(plan)
    assert ["flow 1 at n1): a transport waits for room" in w for w in found] == [True] * told


def test_another_nodes_queue_is_no_matter() -> None:
    wires = """[[scenario.topology.wire]]
a = "n1"
b = "n2"
rate = "100Mb/s"
[[scenario.topology.wire]]
a = "n2"
b = "n3"
rate = "5Mb/s"
"""
    flow = PLAN.replace("{to}", "n3").replace("{of}", "tcp-reno")
    flow = flow.replace('topology.words = "{words}"\n', "").replace("[vary]", wires + "[vary]")
    far = flow.replace('rate = "5Mb/s"\n', 'rate = "5Mb/s"\nqueue = "{queue}"\n')
    near = flow.replace('rate = "100Mb/s"\n', 'rate = "100Mb/s"\nqueue = "{queue}"\n')
    assert outlets.warnings(plans.parse(far)) == []
    assert len(outlets.warnings(plans.parse(near))) == 1


MORE = """[[scenario.flow]]
from = "{from}"
to = "n3"
protocol = "tcp-reno"
[vary]"""


@pytest.mark.parametrize(("begin", "told"), [("n1", 1), ("n2", 0)])
def test_a_queue_that_others_pass_may_lose(begin: str, told: int) -> None:
    words = "linear,3,wire=5Mb/s,queue={queue}"
    text = PLAN.replace("{words}", words).replace("{to}", "n3").replace("{of}", "tcp-reno")
    plan = plans.parse(text.replace("[vary]", MORE.replace("{from}", begin)))
    assert len(outlets.warnings(plan)) == told


@pytest.mark.parametrize(("ends", "told"), [(("n1", "n2"), "n2"), (("n2", "n1"), "n1")])
def test_answers_begin_where_they_are_sent(ends: tuple[str, str], told: str) -> None:
    words = "linear,2,wire=5Mb/s,queue={queue}"
    text = PLAN.replace("{words}", words).replace("{of}", "tcp-reno")
    text = text.replace('from = "n1"', f'from = "{ends[0]}"').replace("{to}", ends[1])
    text = text.replace('app = "file"\nbytes = "1M"', 'app = "request"\ncount = 3')
    (found,) = outlets.warnings(plans.parse(text))
    assert f"flow 1 at {told}" in found
