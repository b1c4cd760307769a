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
    nodes = [f'[[scenario.topology.node]]\nname = "n{n}"\nwired_only = true\n' for n in (1, 2, 3)]
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
    flow = flow.replace('topology.words = "{words}"\n', "").replace(
        "[vary]", "".join([*nodes, wires, "[vary]"])
    )
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


LINE = """topology.placement = { kind = "line", count = 2, spacing_m = 20.0 }"""
CLOSE = """topology.node = [
  { name = "n1", position = [0.0, 0.0, 0.0] }, { name = "n2", position = [9.0, 0.0, 0.0] },
]"""


@pytest.mark.parametrize(
    ("topology", "told"),
    [
        ('topology.words = "minimal"', True),
        ('topology.words = "grid,1,2"', True),
        (LINE, True),
        (LINE + '\ntopology.set = "TB-A"', True),
        (CLOSE, True),
        (LINE.replace("20.0", "2000.0"), True),  # a row is a row
        # A relay's queue is the same, and fills.
        (LINE.replace("count = 2", "count = 4"), False),
        # Where nodes stand is another thing in each run.
        ('topology.words = "random,4,area=20x20"', False),
    ],
)
def test_radios_beside_each_other_whatever_says_where_they_stand(topology: str, told: bool) -> None:
    to = "n4" if "4" in topology else "n2"
    text = (
        PLAN.replace("{to}", to).replace("{of}", "tcp-reno").replace("queue =", '"radio.queue" =')
    )
    text = text.replace('topology.words = "{words}"', topology).replace('"queue"', '"radio.queue"')
    assert len(outlets.warnings(plans.parse(text))) == told


DISCIPLINE = """
name = "d"
[scenario]
topology.words = "linear,3,wire=10Mb/s,queue=50"
[[scenario.flow]]
from = "{from}"
to = "{to}"
protocol = "tcp-newreno"
{app}
[vary.queue.fifo]
[vary.queue.red]
host.queue = {{ kind = "red", thresh = 10, maxthresh = 30, nodes = ["n1"] }}
"""


@pytest.mark.parametrize(
    ("begin", "end", "app", "told"),
    [
        ("n1", "n3", 'app = "file"\nbytes = "5M"', 1),
        ("n3", "n1", 'app = "request"\nresponse = "5M"\ncount = 1', 1),
        ("n1", "n3", 'app = "request"\nresponse = "5M"\ncount = 1', 0),
    ],
)
def test_a_discipline_is_where_data_begins(begin: str, end: str, app: str, told: int) -> None:
    text = DISCIPLINE.replace("{from}", begin).replace("{to}", end).replace("{app}", app)
    found = outlets.warnings(plans.parse(text.replace("{{", "{").replace("}}", "}")))
    assert ["flow 1 at n1" in words for words in found] == [True] * told
