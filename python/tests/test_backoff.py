"""Links and nodes that come back: who waited for a timer then is no worse by its protocol."""

from itertools import product
from pathlib import Path
from typing import Any

from test_cautions import PLAN, made, said
from test_pitfalls import GOING, WINDOW, _going, delivered

from wifu import backoff, unlike
from wifu.returns import returns

TIMES = ("node_s", "queue_s", "contention_s", "retry_s", "air_s", "propagation_s")
WHY = "apart mostly by timers when links came back"
EVENTS = (
    '[[scenario.event]]\nat = "10s"\ncut = ["n1", "n2"]\n'
    '[[scenario.event]]\nat = "17s"\nrestore = ["n1", "n2"]\n'
)
"""A link of two nodes is cut for seven seconds."""


def _hop(flow: int = 1, to: str = "n1", reverse: bool = True) -> dict[str, Any]:
    """What is known of the packets of a flow over a link of n2."""
    over = {"flow": flow, "from": "n2", "to": to, "reverse": reverse}
    return {**over, **dict.fromkeys(TIMES, 0.0), "hop": 1, "packets": 9, "lost": 0}


def _plan(changes: str, flows: str = "", text: str = GOING) -> str:
    at = text.index("[vary]")
    return f"{text[:at]}{flows}{changes}{text[at:]}".replace("copies = 2", "")


def _moves(*rows: tuple[float, float]) -> str:
    told = ", ".join(f'[{at}, "n2", {x}, 0.0]' for at, x in rows)
    return f'[[scenario.mobility]]\nkind = "trace"\nrows = [{told}]\n'


def test_who_waits_for_timers_when_links_come_back_is_no_better(tmp_path: Path) -> None:
    cut = _plan(EVENTS)
    walks = _plan(_moves((5.0, 10.0), (6.0, 90.0), (9.0, 12.0)))
    goes = _plan(_moves((5.0, 10.0), (6.0, 90.0)))
    lengths = cut + '[vary.back]\nshort = {}\nlong = { "event.2.at" = "20s" }\n'
    begins = cut + '[vary.off]\nshort = {}\nlong = { "event.1.at" = "9s" }\n'
    for name, text, waits, reason in (
        ("a", cut, 18.0, True), ("b", cut, 12.5, False), ("c", GOING, 18.0, False),
        ("d", lengths, 18.0, False), ("e", cut, 18.0, False), ("f", walks, 18.0, True),
        ("g", goes, 18.0, False), ("h", begins, 18.0, False),
    ):  # fmt: skip
        of = {"tcp-reno": _going(1.0, timeout_s=12.0), "tcp-newreno": _going(0.9, timeout_s=waits)}
        if name == "c":
            of = {p: [*own, *own] for p, own in of.items()}
        hop = _hop(to="n3" if name == "e" else "n1")
        found = made(tmp_path / name, of, text=text, hops=[hop])
        cells = found.plan.groups()[0]
        assert (WHY in unlike.reasons(found, cells, "goodput")) == reason, name
        told = said(found, "goodput")
        assert ("(of their time: tcp-reno 20%, tcp-newreno 30%)" in told) == reason
    # Where nobody knows which packets passed which link, all may have.
    of = {"tcp-reno": _going(1.0, timeout_s=12.0), "tcp-newreno": _going(0.9, timeout_s=18.0)}
    found = made(tmp_path / "i", of, text=cut)
    assert WHY in unlike.reasons(found, found.plan.cells, "goodput")


def test_a_cell_of_which_no_run_came_out_is_none(tmp_path: Path) -> None:
    of: dict[str, list[dict[str, Any]]] = {"tcp-newreno": _going(0.9, timeout_s=18.0)}
    found = made(tmp_path, of, text=_plan(EVENTS), hops=[_hop()])
    assert set(found.runs["status"]) == {"ok", "failed"}
    assert WHY not in unlike.reasons(found, found.plan.cells, "goodput")


def test_with_and_without_a_cut_the_cut_is_what_is_compared(tmp_path: Path) -> None:
    cut = '{ event = [{ at = "10s", cut = ["n1", "n2"] }, { at = "17s", restore = ["n1", "n2"] }] }'
    text = GOING.replace("copies = 2", "")
    text = text.replace("[vary]", f"[vary]\nwhat = {{ none = {{}}, there = {cut} }}")
    of = {"tcp-reno": _going(1.0, timeout_s=12.0), "tcp-newreno": _going(0.9, timeout_s=18.0)}
    found = made(tmp_path, of, text=text, hops=[_hop()])
    by = {
        what: [c for c in found.plan.cells if c.labels["what"] == what]
        for what in ("none", "there")
    }
    assert WHY in unlike.reasons(found, by["there"], "goodput")
    assert WHY not in unlike.reasons(found, by["none"], "goodput")
    for one, other in product(by["none"], by["there"]):
        assert WHY not in unlike.reasons(found, [one, other], "goodput")


def test_waits_before_a_window_are_not_of_it(tmp_path: Path) -> None:
    of = {"tcp-reno": _going(1.0, timeout_s=3.0), "tcp-newreno": _going(0.9, timeout_s=5.5)}
    for name, begin, end, inside in (
        ("a", 5, 45, True), ("b", 20, 40, False), ("c", 12, 45, False), ("d", 5, 15, False)
    ):  # fmt: skip
        window = WINDOW.replace("FROM", f"{begin}s").replace("TO", f"{end}s")
        text = _plan(EVENTS).replace("runs = 8", window)
        found = made(tmp_path / name, of, text=text, hops=[_hop()], series=delivered)
        assert found.flows["goodput_bps"].notna().all()
        assert backoff._inside(found) == inside, name


def test_only_what_comes_back_has_to_be_in_a_window(tmp_path: Path) -> None:
    """Not where nodes stand, but what is cut for good: waits are known of whole runs."""
    of = {"tcp-reno": _going(1.0, timeout_s=3.0), "tcp-newreno": _going(0.9, timeout_s=5.5)}
    gone = EVENTS + '[[scenario.event]]\nat = "58s"\ncut = ["n1", "n2"]\n'
    walk = ((0.0, 10.0), (10.0, 10.0), (14.0, 90.0), (18.0, 10.0), (60.0, 10.0))
    for name, changes, begin, inside in (
        ("a", gone, 5, False), ("b", _moves(*walk), 5, True), ("c", _moves(*walk), 15, False),
    ):  # fmt: skip
        window = WINDOW.replace("FROM", f"{begin}s").replace("TO", "55s")
        text = _plan(changes).replace("runs = 8", window)
        found = made(tmp_path / name, of, text=text, hops=[_hop()], series=delivered)
        assert backoff._inside(found) == inside, name
    rows = [[at, "n2", x, 0.0] for at, x in walk]
    assert returns({"mobility": [{"rows": rows}]}).times == (10.0, 14.0, 18.0)


def test_flows_beside_that_no_link_cuts_decide_what_they_decide(tmp_path: Path) -> None:
    """Two flows of which the first waits; the order of the total is that of the second."""
    text = _plan(EVENTS, text=GOING.replace("copies = 2", "")).replace(
        "[[scenario.event]]",
        '[[scenario.flow]]\nprotocol = "{protocol}"\n[[scenario.event]]',
        1,
    )
    for name, beside, reason in (("a", 1.0, True), ("b", 5.0, False)):
        of = {
            p: [*_going(own, timeout_s=waits), *_going(other, timeout_s=0.0)]
            for p, own, waits, other in (
                ("tcp-reno", 1.0, 12.0, beside), ("tcp-newreno", 0.9, 18.0, 1.0)
            )
        }  # fmt: skip
        found = made(tmp_path / name, of, text=text, hops=[_hop()])
        assert (WHY in unlike.reasons(found, found.plan.cells, "aggregate")) == reason, name
        assert WHY in unlike.reasons(found, found.plan.cells, "goodput@1")


def test_files_that_wait_for_timers_when_links_come_back_are_no_quicker(tmp_path: Path) -> None:
    """Twice the time, of which the second half is a wait."""
    events = EVENTS.replace("10s", "1s").replace("17s", "3s")
    text = _plan(events, text=PLAN)
    for name, wait, reason in (("a", 5.0, True), ("b", 0.5, False)):
        of = {
            "tcp-reno": [{"last_byte_s": 5.0, "timeout_s": 0.0}],
            "tcp-newreno": [{"last_byte_s": 10.0, "timeout_s": wait}],
        }
        found = made(tmp_path / name, of, text=text, hops=[_hop()])
        assert (WHY in unlike.reasons(found, found.plan.cells, "delay")) == reason, name
    asking = text.replace('app = "file"\nbytes = "1M"', 'app = "request"\ncount = 50')

    def asked(longest: float, wait: float, ours: bool) -> list[dict[str, Any]]:
        delays = [0.1] * 49 + [longest]
        requests = [{"delay_s": d, "start_s": float(n)} for n, d in enumerate(delays)]
        of_answers, of_questions = (wait, 0.0) if ours else (0.0, wait)
        own = {"bytes": 5000, "retransmissions": 1, "timeouts": 1, "timeout_s": of_questions}
        flow = {"app": "request", "requests": requests, "last_byte_s": 59.0, "asked": own}
        return [{**flow, "timeout_s": of_answers}]

    for name, ours in (("c", True), ("d", False)):  # what is lost may be the question
        of = {"tcp-reno": asked(5.0, 4.9, ours), "tcp-newreno": asked(10.0, 9.9, ours)}
        found = made(tmp_path / name, of, text=asking, hops=[_hop()])
        assert WHY in unlike.reasons(found, found.plan.cells, "delay")
        assert WHY not in unlike.reasons(found, found.plan.cells, "delay_p95")


def test_files_beside_that_no_link_cuts_are_as_quick_as_they_are(tmp_path: Path) -> None:
    """Of ten files one waits for its timer, for a part of what the others take longer."""
    text = _plan(EVENTS, text=PLAN).replace('bytes = "1M"', 'bytes = "1M"\ncopies = 10')
    for name, others, reason in (("a", 10.0, True), ("b", 15.0, False)):
        of = {
            "tcp-reno": [{"last_byte_s": 10.0, "timeout_s": 0.0}] * 10,
            "tcp-newreno": [
                {"last_byte_s": 14.0, "timeout_s": 4.0},
                *[{"last_byte_s": others, "timeout_s": 0.0}] * 9,
            ],
        }
        found = made(tmp_path / name, of, text=text, hops=[_hop()])
        assert (WHY in unlike.reasons(found, found.plan.cells, "delay")) == reason, name
        assert WHY not in unlike.reasons(found, found.plan.cells, "delay_median")


def test_a_node_is_back_that_was_away() -> None:
    def back(*places: float) -> bool:
        rows = [[float(n), "n2", x, 0.0] for n, x in enumerate(places)]
        return bool(returns({"mobility": [{"kind": "trace", "rows": rows}]}))

    assert [back(0, 90, 10), back(0, 90, 90, 0), back(50, 0, 90, 0)] == [True] * 3
    assert [back(0, 90), back(0, 50, 90), back(0, 90, 80), back(0)] == [False] * 4
    assert not back(10, 11, 10), "which takes it out of nobody's reach"
    for wrong in (["x"], 3, ["2s", "n1", 0, 0], [1, "n1", None, 0]):
        rows = [wrong, [3.0, "n2", 0, 0]]
        assert not returns({"mobility": [{"kind": "trace", "rows": rows}]})
    assert not returns({"event": [{"at": "1s", "cut": ["n1", "n2"]}, None, {"restore": "n1"}]})
