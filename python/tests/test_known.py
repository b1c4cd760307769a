"""Until when a sender did not know of the end: of flows that are one transfer, end to end."""

from pathlib import Path
from typing import Any

import pytest
from fake import FakeResult
from test_cautions import PLAN, made, said

import wifu
from wifu import cutoff, report, transfers, unlike
from wifu import plan as plans

TOLD_EARLY = "nodes split TCP, whose senders are told before all has arrived"
OTHERS = "times of different flows, as some ask again and again"
SPLIT = "split TCP: its sender is told before all has arrived"
ASKS = "ask again and again"

TEXT = PLAN.replace('"aggregate", "jain", "sum_rates"', '"known", "delay"')
TEXT = TEXT.replace("copies = 2", 'from = "n1"\nto = "n3"')
HOP = {"reverse": False, "hop": 1, "packets": 700, "lost": 1}
OVER = [(1, "n1", "n2"), (1, "n2", "n3"), (2, "n1", "n2")]
"""The second flow ends at the node that splits the first."""


def file(n: int, end: float, **more: Any) -> dict[str, Any]:
    return {
        "id": n, "from": "n1", "to": "n3", "protocol": "tcp-newreno", "app": "file", "start_s": 0.0,
        "finished": True, "bytes": 300_000, "last_byte_s": end, "known_s": end, **more,
    }  # fmt: skip


def found(
    folder: Path, text: str, flows: list[list[dict[str, Any]]], nodes: list[Any], **more: Any
) -> wifu.Results:
    """Two cells: the flows and nodes of the one, and those of the other."""

    def runner(scenario: dict[str, Any]) -> FakeResult:
        place = int(scenario["flow"][0]["protocol"] == "tcp-newreno")
        run = scenario["run"]
        told = [{**f} for f in flows[place]]
        for flow in told:
            if flow.get("known_s"):
                flow["known_s"] += 0.01 * run
        hops = [{**HOP, "flow": n, "from": a, "to": b} for n, a, b in OVER]
        outcome = {"sim_seconds": 60.0, "end": "done", "flows": told, "nodes": nodes[place]}
        outcome |= {"hops": hops, "trace_hash": f"{place}{run}", **more}
        return FakeResult(outcome, {})

    return wifu.campaign(plans.parse(text), folder / "r", runner=runner)


def splitting(accepted: int = 1) -> list[dict[str, Any]]:
    return [{"name": "n2", "split": {"accepted": accepted, "near": {}, "far": {}}}, {"name": "n1"}]


def test_a_sender_that_a_splitter_answers_has_no_value(tmp_path: Path) -> None:
    """Its time is that of the last byte, as the splitter had told it before."""
    flows = [[file(1, 3.2, known_s=3.4)], [file(1, 1.9)]]
    results = found(tmp_path / "a", TEXT, flows, [[], splitting()])
    assert results.summary("known")["n"].tolist() == [8, 0]
    assert results.runs["known_s"].notna().groupby(results.runs["cell"]).sum().tolist() == [0, 8]
    assert results.summary("delay")["n"].tolist() == [8, 8]
    assert TOLD_EARLY in unlike.reasons(results, results.plan.cells, "known")
    assert report.best_of(results, "known") == set()
    assert SPLIT in said(results, "known") and "n2" in said(results, "known")
    assert SPLIT not in said(results, "delay")
    text = report.render(results, [])
    assert SPLIT in text and "no value" in text
    assert SPLIT in str(results.plot("bars", metric="known").caption)
    # Nor is it the least that it can be where the run cut it off.
    cut = [[file(1, 3.2, known_s=3.4)], [file(1, 1.9, finished=False, known_s=None)]]
    late = found(tmp_path / "b", TEXT, cut, [[], splitting()])
    newreno = late.cells({"protocol": "tcp-newreno"})[0]
    assert cutoff.runs(late, newreno, "known") == set()
    assert late.runs[late.runs["cell"] == newreno.name]["known_s"].isna().all()
    assert cutoff.runs(late, newreno, "delay") == set(range(1, 9))
    # Who had nothing to split is as before.
    none = found(tmp_path / "c", TEXT, flows, [[], splitting(0)])
    assert none.summary("known")["n"].tolist() == [8, 8]
    assert unlike.reasons(none, none.plan.cells, "known") == [] and said(none, "known") == ""


def test_who_is_told_by_a_splitter_has_not_failed_to_learn_of_the_end() -> None:
    """The simulator has no `known_s` of it, as of one whose sender never knew."""
    flow = file(1, 1.9, known_s=None)
    hops = [{**HOP, "flow": 1, "from": a, "to": b} for _, a, b in OVER[:2]]
    outcome = {"flows": [flow], "nodes": splitting(), "hops": hops, "sim_seconds": 60.0}
    assert transfers.columns(outcome, flow) == {"unlearned": False, "split": True}
    whole = {**outcome, "nodes": splitting(0)}
    assert transfers.columns(whole, flow) == {"unlearned": True, "split": False}


def test_flows_that_no_node_on_their_way_splits_have_a_value() -> None:
    hops = [{"flow": n, "from": a, "to": b} for n, a, b in OVER]
    hops += [{"flow": 3, "from": "n1", "to": "n2"}, {"flow": 3, "from": "n2", "to": "n3"}]
    flows = [file(1, 1.9), file(2, 1.0, to="n2", known_s=1.1), file(3, 2.0, protocol="hxh")]
    outcome = {"flows": flows, "nodes": splitting(), "hops": hops}
    assert transfers.split(outcome) == {1}
    assert transfers.known(outcome, []) == pytest.approx((1.1 + 2.0) / 2)
    # Where nobody tells ways any of TCP may be that has no end there.
    assert transfers.split({**outcome, "hops": []}) == {1}
    assert transfers.split({**outcome, "nodes": [{"name": "n2"}]}) == set()


def test_a_mean_without_those_that_are_split_is_of_other_flows(tmp_path: Path) -> None:
    second = '[[scenario.flow]]\nprotocol = "tcp-newreno"\nfrom = "n1"\nto = "n2"\napp = "file"\n'
    text = TEXT.replace("[vary]", second + 'bytes = "1M"\n[vary]')
    flows = [[file(1, 3.2), file(2, 1.0, to="n2")], [file(1, 1.9), file(2, 1.0, to="n2")]]
    results = found(tmp_path, text, flows, [[], splitting()])
    assert results.summary("known")["n"].tolist() == [8, 8]
    assert TOLD_EARLY in unlike.reasons(results, results.plan.cells, "known")
    assert SPLIT in said(results, "known")


REQUESTS = [{"start_s": 1.0, "delay_s": 0.2}, {"start_s": 2.0, "delay_s": 0.4}]


def asking(n: int) -> dict[str, Any]:
    """Two requests came to an end, and a third was under way for a long time."""
    return file(
        n, 3.0, app="request", finished=False, known_s=None, requests=REQUESTS, under_way_s=4.0,
        until_s=60.0,
    )  # fmt: skip


@pytest.mark.parametrize("app", ["request", "http"])
def test_flows_of_requests_have_no_value(tmp_path: Path, app: str) -> None:
    """Those that ended are told of none, and the one that was cut off is no mean of them."""
    text = TEXT.replace('app = "file"\nbytes = "1M"', f'app = "{app}"')
    for name, flow in (("a", asking(1)), ("b", {**asking(1), "finished": True, "known_s": 9.0})):
        flow = {**flow, "app": app}
        results = found(tmp_path / name, text, [[flow], [flow]], [[], []])
        assert results.summary("known")["n"].tolist() == [0, 0]
        assert results.runs["known_s"].isna().all()
        assert cutoff.runs(results, results.plan.cells[0], "known") == set()
        assert cutoff.beside(results, results.plan.cells[0], "known") == ""
        assert cutoff.absent(results, results.plan.cells, "known") == "no value"
        words = said(results, "known")
        assert ASKS in words and "cut off" not in words
        assert cutoff.sentence(results, results.plan.cells, "known") == ""
        assert ASKS in report.render(results, []) and ASKS not in said(results, "delay")
    assert results.summary("delay")["n"].tolist() == [8, 8]


def test_times_of_a_file_beside_one_that_asks_are_compared_with_its_own(tmp_path: Path) -> None:
    first = TEXT.split("[vary]")[0]
    second = '[[scenario.flow]]\nfrom = "n1"\nto = "n3"\nprotocol = "{protocol}"\n'
    text = first + second + 'app = "request"\n[vary]' + TEXT.split("[vary]")[1]
    flows = [[file(1, 3.2), asking(2)], [file(1, 1.9), asking(2)]]
    same = found(tmp_path / "a", text, flows, [[], []])
    assert same.summary("known")["mean"].tolist() == pytest.approx([3.245, 1.945])
    assert unlike.reasons(same, same.plan.cells, "known") == []
    assert "flow 2" in said(same, "known")
    apps = '[vary]\npair_app = ["file", "request"]'
    text = text.replace('app = "request"\n[vary]', 'app = "{pair_app}"\n[vary]')
    plan = text.replace("[vary]", apps).replace('baseline = "tcp-reno"\n', 'pair = "pair_app"\n')
    plan = plan.replace('protocol = ["tcp-reno", "tcp-newreno"]\n', 'protocol = ["tcp-reno"]\n')
    others = found(tmp_path / "b", plan, flows, [[], []])
    assert OTHERS in unlike.reasons(others, others.plan.cells, "known")


def test_in_real_time_nobody_tells_when_a_sender_knew(tmp_path: Path) -> None:
    found = made(
        tmp_path, {"tcp-reno": [{"last_byte_s": 4.0}], "tcp-newreno": [{"last_byte_s": 4.0}]}
    )
    assert "nobody tells when a sender knew" not in said(found, "known")
    found.plan = found.plan.variant("emu")
    assert "nobody tells when a sender knew" in said(found, "known")
    assert "nobody tells when a sender knew" not in said(found, "delay")
