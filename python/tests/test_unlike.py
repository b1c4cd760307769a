"""Cells whose numbers are not of the same: there is no better or worse between them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake import FakeResult, pairs
from test_cautions import PLAN, both, made, said

import wifu
from wifu import cautions, hostcost, report, unlike
from wifu import plan as plans
from wifu.errors import PlanError
from wifu.figures.words import Words
from wifu.metrics import Measure, run_row

SHARES = ("p50_s", "p95_s", "p99_s")
LOAD = {"last_byte_s": 60.0, "finished": False}
TEXT = PLAN.replace('"aggregate", "jain"', '"aggregate", "one_way_p95", "one_way_p99"')


def told(delay: float, samples: int) -> dict[str, float]:
    return dict.fromkeys(SHARES, delay) | {"samples": samples}


def probe(lost: int, loaded: int, delay: float = 0.1, idle: int = 10_000) -> dict[str, Any]:
    """Datagrams of 100 bytes, most of them without load: so many were lost, so many met load."""
    count = idle + loaded
    return {
        "protocol": "udp", "bytes": count * 100 - 1000, "sent_bytes": (count + lost) * 100 - 1000,
        "start_s": 1.0, "last_byte_s": 59.9, "finished": False, "datagram": 100,
        "one_way": told(delay, count), "under_load": told(delay, loaded),
    }  # fmt: skip


def probed(folder: Path, one: dict[str, Any], two: dict[str, Any], **more: Any) -> wifu.Results:
    load = {**LOAD, **more}
    return made(folder, {"tcp-reno": [load, one], "tcp-newreno": [load, two]}, TEXT)


def test_what_is_lost_is_of_the_datagrams_that_met_load(tmp_path: Path) -> None:
    """Of all it is little, if probes go on for long after a short load."""
    found = probed(tmp_path / "a", probe(0, 1000), probe(300, 500, 0.05))
    words = said(found, "one_way_p95")
    assert (
        "Of the datagrams under load 0.0% to " in words and "% did not arrive at the most" in words
    )
    assert "Delays are of what arrived, so that there is neither colour nor bold" in words
    assert report.best_of(found, "one_way_p95") == set()
    like = probed(tmp_path / "b", probe(10, 1000), probe(20, 1000, 0.05))
    assert report.best_of(like, "one_way_p95") == {"tcp-newreno"}
    assert "neither colour" not in said(like, "one_way_p95")


def test_percentiles_of_a_few_datagrams_are_none(tmp_path: Path) -> None:
    found = probed(tmp_path / "a", probe(0, 60), probe(0, 50, 0.05))
    words = "99 % are below by 50 to 60 datagrams per flow on the mean: of fewer than 100 that is"
    assert words in said(found, "one_way_p99") and report.best_of(found, "one_way_p99") == set()
    assert found.compare("one_way_p99")["uneven"].all()
    assert "on the mean" not in said(found, "one_way_p95") + said(found, "one_way_p50")
    assert report.best_of(found, "one_way_p95") == {"tcp-newreno"}
    few = probed(tmp_path / "b", probe(0, 600), probe(0, 2, 0.05))
    assert "by 2 to 600 datagrams" in said(few, "one_way_p99")
    assert "on the mean: of fewer than 20 that is" in said(few, "one_way_p95")
    enough = probed(tmp_path / "c", probe(0, 100), probe(0, 101, 0.05))
    assert "on the mean" not in said(enough, "one_way_p99")


def test_a_load_that_delivers_nothing_is_no_load(tmp_path: Path) -> None:
    """Delays beside it are those without, and nobody knows those under it."""
    idle, beside = ({"id": n, **probe(0, 0)} for n in (2, 3))
    idle |= {"last_byte_s": 3.0, "until_s": 3.0}
    dead = {"id": 1, "protocol": "tcp-reno", "bytes": 0, "start_s": 4.5, "finished": False}
    outcome: dict[str, Any] = {"sim_seconds": 60.0}
    outcome["flows"] = [dead, idle, {**beside, "start_s": 7.0}]
    row = run_row(outcome, Measure(), ["one_way_p95@2", "one_way_p95@3"])
    assert np.isnan(row["one_way_p95"]) and np.isnan(row["one_way_p95@3"])
    assert np.isnan(row["latency_added"]) and row["one_way_p95@2"] == 0.1
    alive = {**outcome, "flows": outcome["flows"][1:]}
    assert run_row(alive, Measure())["one_way_p95"] == 0.1, "datagrams alone have no load"

    flows = {
        "tcp-reno": [LOAD, probe(0, 900)],
        "tcp-newreno": [{**LOAD, "bytes": -1000}, probe(0, 0)],
    }
    words = said(made(tmp_path, flows, TEXT), "one_way_p95")
    assert "In 1 of 16 runs the load delivered nothing: delays under it are not known" in words
    assert "In 7 of 16 runs no datagram arrived under load that was sent under it" in words


def test_means_of_different_flows_are_not_compared(tmp_path: Path) -> None:
    near, far = ({"last_byte_s": 9.0, "srtt_s": at, "min_rtt_s": at / 2} for at in (0.02, 0.2))
    text = PLAN.replace('"aggregate", "jain"', '"aggregate", "srtt", "min_rtt"')
    late = {**far, "srtt_s": None, "min_rtt_s": 0.1}
    found = made(tmp_path, {"tcp-reno": [near, far], "tcp-newreno": [near, late]}, text)
    words = "flow 2 has a value in 100% of the runs of tcp-reno and 0% of those of tcp-newreno"
    assert words in said(found, "srtt") and "neither colour nor bold" in said(found, "srtt")
    assert report.best_of(found, "srtt") == set() and found.compare("srtt")["uneven"].all()
    assert "flow 2" not in said(found, "min_rtt") and "has a value" not in said(found, "srtt@1")
    # A cell that has no value at all is compared with nothing.
    none = {k: v for k, v in near.items() if k != "srtt_s"}
    flows = {"tcp-reno": [near, far], "tcp-newreno": [none, none]}
    assert "has a value" not in said(made(tmp_path / "none", flows, text), "srtt")


def test_round_trip_samples_that_are_taken_otherwise_are_not_compared(tmp_path: Path) -> None:
    """One sender takes a sample by every acknowledgement, another one by each feedback."""
    text = PLAN.replace('"aggregate", "jain"', '"rtt_p50", "rtt_p95", "loss"')

    def flow(delay: float, samples: int) -> dict[str, Any]:
        return {"last_byte_s": 9.0, "data_segments": 1000, "rtt": told(delay, samples)}

    flows = {"tcp-reno": [flow(0.3, 900)] * 2, "tcp-newreno": [flow(0.003, 60)] * 2}
    found = made(tmp_path / "a", flows, text)
    for metric in ("rtt_p50", "rtt_p95", "rtt_p95@1"):
        words = said(found, metric)
        assert "tcp-reno 0.9 by each data segment sent, tcp-newreno 0.06" in words
        assert report.best_of(found, metric) == set() and found.compare(metric)["uneven"].all()
    flows["tcp-newreno"] = [flow(0.003, 450)] * 2
    like = made(tmp_path / "b", flows, text)
    assert "by each data segment" not in said(like, "rtt_p50")
    assert report.best_of(like, "rtt_p50") == {"tcp-newreno"}


def test_loss_is_said_to_be_of_both_directions(tmp_path: Path) -> None:
    assert "data and acknowledgements" in said(made(tmp_path / "a", both(9.0)), "loss")
    alone = both(9.0, protocol="udp")
    assert "data and acknowledgements" not in said(made(tmp_path / "b", alone), "loss")


def test_how_long_different_amounts_take_is_not_compared(tmp_path: Path) -> None:
    stream = PLAN.replace('"file"\nbytes = "1M"', '"stream"\ntime = "6s"')
    text = stream.replace('"aggregate", "jain"', '"aggregate", "delay"')
    much, little = (
        {"last_byte_s": at, "bytes": n} for at, n in ((9.0, 7_500_000), (6.1, 3_600_000))
    )
    flows = {"tcp-reno": [much] * 2, "tcp-newreno": [little] * 2}
    found = made(tmp_path / "stream", flows, text)
    for metric in ("delay", "delay_median", "delay@1"):
        words = said(found, metric)
        amounts = "3.6 to 7.5 MB" if "@" in metric else "7.21 to 15 MB"
        assert f"which runs of compared cells delivered {amounts} of" in words
        assert "neither colour nor bold" in words
        assert report.best_of(found, metric) == set() and found.compare(metric)["uneven"].all()
    files = made(tmp_path / "file", flows, text.replace('"stream"\ntime = "6s"', '"file"'))
    assert "Times of what a flow could send" not in said(files, "delay"), (
        "their sizes are what the plan says"
    )
    even = {**flows, "tcp-reno": [{**little, "last_byte_s": 9.0}] * 2}
    assert said(made(tmp_path / "even", even, text), "delay") == ""


def test_timetables_are_told_beside_rates_and_times(tmp_path: Path) -> None:
    words = "goodput and download time have the times in them at which nothing was to be sent"
    for n, (app, there) in enumerate(
        (
            ('"trace"\nrows = [[0, 6000], [20, 6000]]', True),
            ('"trace"\nrows = [[0, 6000]]', False),
            ('"onoff"\nrate = "1M"\non = "1s"\noff = "1s"\ntime = "20s"', True),
            ('"file"\nbytes = "1M"', False),
        )
    ):
        text = PLAN.replace('"file"\nbytes = "1M"', app)
        found = made(tmp_path / str(n), both(9.0, 9.0), text)
        for metric in ("goodput", "delay", "delay@1"):
            assert (words in said(found, metric)) is there, (app, metric)
        assert words not in said(found, "srtt")


def test_flows_that_hardly_met_share_nothing(tmp_path: Path) -> None:
    small, large = {"last_byte_s": 1.0}, {"last_byte_s": 9.0}
    found = made(tmp_path / "a", {"tcp-reno": [small, large], "tcp-newreno": [large, large]})
    words = "In 8 of 16 runs all flows were there together for less than half of the time"
    for metric in ("jain", "weakest", "unfairness", "lowest"):
        assert words in said(found, metric)
        assert report.best_of(found, metric) == set() and found.compare(metric)["uneven"].all()
    assert words not in said(found, "goodput") + said(found, "aggregate")
    half = made(tmp_path / "b", both(4.6, 9.0))
    assert "half of the time" not in said(half, "jain")


def test_time_at_which_nobody_sends_is_nobodys_slowness(tmp_path: Path) -> None:
    """Two files of 4 s each, the second of which begins at once or later: neither is slower."""
    one = {"last_byte_s": 4.0}
    late = {"start_s": 9.0, "last_byte_s": 13.0, "first_byte_s": 9.1}
    soon = {"start_s": 4.1, "last_byte_s": 8.1, "first_byte_s": 4.2}
    found = made(tmp_path / "a", {"tcp-reno": [one, soon], "tcp-newreno": [one, late]})
    words = "In 8 of 16 runs there was no flow at all for more than 5% of the time"
    told = said(found, "aggregate")
    assert words in told and "(1% to 38% by cell)" in told
    (row,) = found.compare("aggregate").to_dict("records")
    assert row["ratio"] < 0.7 and row["p_holm"] < 0.05
    assert row["uneven"] and row["why"] == "times at which there was no flow are counted"
    assert report.best_of(found, "aggregate") == set()
    assert words not in said(found, "goodput") + said(found, "sum_rates")
    # Flows that follow each other closely, or lie within another one, leave no such time.
    lasting = {"last_byte_s": 14.0}
    for name, flows in (("b", [one, soon]), ("c", [lasting, late])):
        full = made(tmp_path / name, {"tcp-reno": flows, "tcp-newreno": [one, one]})
        assert "no flow at all" not in said(full, "aggregate")
        assert "why" not in full.compare("aggregate") or not full.compare("aggregate")["why"].any()
    # At the receiver it is between deliveries.
    at = made(tmp_path / "d", {"tcp-reno": [one, late], "tcp-newreno": [one, late]},
              'measure = "receiver"\n' + PLAN)  # fmt: skip
    assert "(40% to 40% by cell)" in said(at, "aggregate")


def test_counts_are_told_along_all_axes(tmp_path: Path) -> None:
    """Cells that the plan does not compare stand beside each other in a table and on a figure."""
    text = PLAN.replace("[vary]\n", '[vary]\n"radio.attempts" = [1, 7]\n')
    text = text.replace("runs = 8", 'runs = 3\npair = "protocol"')

    def runner(scenario: dict[str, Any]) -> FakeResult:
        many = scenario["radio"]["attempts"] == 7
        octets = (20 if many else 1) * 10**6 + 1000 * scenario["run"]
        flow = {"id": 1, "protocol": scenario["flow"][0]["protocol"], "app": "file",
                "start_s": 0.0, "last_byte_s": 4.0, "finished": True, "bytes": octets,
                "retransmissions": 9 + scenario["run"]}  # fmt: skip
        name = f"{octets}{flow['protocol']}"
        return FakeResult({"sim_seconds": 60.0, "flows": [flow], "trace_hash": name}, {})

    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)
    assert "delivered from 1 to 20 MB, along whichever axis" in said(found, "retransmissions")
    assert "along whichever axis" not in said(found, "goodput")
    alone = [c for c in found.plan.cells if c.labels["radio.attempts"] == 7]
    assert not any("Counts per run" in n for n in cautions.notes(found, alone, "retransmissions"))


def test_a_competitor_without_a_value_is_no_part_of_it(tmp_path: Path) -> None:
    text = PLAN.replace("copies = 2\n", '[[scenario.flow]]\nprotocol = "tcp-cubic"\napp = "bulk"\n')
    one, bulk = {"last_byte_s": 4.0}, {"last_byte_s": 60.0, "finished": False, "app": "bulk"}
    found = made(tmp_path, {"tcp-reno": [one, bulk], "tcp-newreno": [one, bulk]}, text)
    assert "part of this number" in said(found, "goodput")
    assert "part of this number" not in said(found, "delay")


def test_a_competitor_that_is_always_the_same_is_told(tmp_path: Path) -> None:
    """Half of each mean is its, whatever the level is called."""
    text = PLAN.replace(
        "copies = 2\n", '[[scenario.flow]]\nprotocol = "tcp-cubic"\napp = "bulk"\n' * 2
    )
    found = made(tmp_path / "a", both(4.0, 8.0, 9.0), text)
    words = "Flows 2, 3 are tcp-cubic in every cell that is compared, and part of this number"
    for metric, alone in (("goodput", "goodput"), ("aggregate", "goodput"), ("delay", "delay")):
        told = said(found, metric)
        assert words in told and f"`{alone}@1` is of flow 1, whose protocol" in told, metric
    for metric in ("goodput@1", "loss", "srtt"):  # which has no value here
        assert "in every cell that is compared" not in said(found, metric)
    # Of the competitor alone the heading says so, too.
    told = "Flow 2 is tcp-cubic in every cell that is compared: levels change the protocol of"
    assert (
        told in said(found, "goodput@2") and told in found.plot("bars", metric="goodput@2").caption
    )
    names = Words(found, {})
    assert names.scale("goodput@2") == "goodput, flow 2 (tcp-cubic), Mb/s"
    assert names.scale("goodput@1") == "goodput, flow 1, Mb/s"
    called = Words(found, {"label": {"goodput@2": {"title": "the rival's"}}})
    assert called.metric("goodput@2") == "the rival's"
    # What another axis changes is the same in what is compared.
    rivals = text.replace('"tcp-cubic"', '"{rival}"').replace(
        "[vary]", '[vary]\nrival = ["tcp-cubic", "tcp-vegas"]'
    )
    others = made(tmp_path / "d", both(4.0, 8.0, 9.0), rivals)
    assert "Flows 2, 3 are of one protocol in every cell that" in said(others, "goodput")
    # One cell alone is compared with nothing.
    assert "tcp-cubic" not in " ".join(cautions.notes(found, found.plan.cells[:1], "goodput"))
    # A load of datagrams is left out anyway, and where all flows change nothing dilutes them.
    udp = text.replace('"tcp-cubic"\napp = "bulk"', '"udp"\nrate = "1M"')
    for n, plan in enumerate((udp, PLAN)):
        flows = both(4.0, 8.0, 9.0) if n == 0 else both(4.0, 8.0)
        found = made(tmp_path / f"b{n}", flows, plan)
        assert "in every cell that is compared" not in said(found, "goodput")
    # Levels that leave all protocols as they are dilute nothing.
    hops = text.replace('"{protocol}"', '"tcp-reno"').replace('baseline = "tcp-reno"\n', "")
    hops = hops.replace('protocol = ["tcp-reno", "tcp-newreno"]', '"radio.attempts" = [4, 7]')
    found = made(tmp_path / "c", both(4.0, 8.0, 9.0), hops)
    assert "in every cell that is compared" not in said(found, "goodput")


SHARED = ("jain", "unfairness", "weakest", "lowest", "utility", "starved")


def test_shares_with_a_competitor_that_is_always_the_same_are_no_merit(tmp_path: Path) -> None:
    """Jain's index is what the competitor took and left, however even the others are."""
    rival = 'copies = 2\n[[scenario.flow]]\nprotocol = "tcp-cubic"\napp = "bulk"\n'
    text = PLAN.replace("copies = 2\n", rival).replace(
        '"aggregate", "jain", "sum_rates"', ", ".join(f'"{m}"' for m in SHARED)
    )
    flows = {
        "tcp-reno": [{"last_byte_s": end} for end in (4.0, 16.0, 4.0)],
        "tcp-newreno": [{"last_byte_s": end} for end in (16.0, 16.0, 2.0)],
    }
    reason = "flows that the levels do not change are part of it"
    found = made(tmp_path / "a", flows, text)
    for metric in SHARED:
        assert reason in unlike.reasons(found, found.plan.cells, metric), metric
        assert report.best_of(found, metric) == set(), metric
        words = said(found, metric)
        assert "Flow 3 is tcp-cubic in every cell that is compared, and part of this" in words
        assert "`goodput@1` is of flow 1" in words and "neither colour nor bold" in words, metric
    for metric in ("goodput", "aggregate", "sum_rates"):
        assert reason not in unlike.reasons(found, found.plan.cells, metric), metric
    caption = str(found.plot("fairness").caption)
    assert "Flow 3 is tcp-cubic in every cell that is compared" in caption
    assert "neither colour" not in caption, "tables have it"
    # Of flows that all change, or none of which does, nothing is said.
    for n, (own, plan) in enumerate(
        ((2, text.replace(rival, "copies = 2\n")), (3, text.replace('"tcp-cubic"', '"{protocol}"')))
    ):
        other = made(tmp_path / f"b{n}", {k: v[:own] for k, v in flows.items()}, plan)
        assert reason not in unlike.reasons(other, other.plan.cells, "jain")
        assert "in every cell that is compared" not in said(other, "jain")


def test_what_a_receiver_sees_of_few_segments_is_no_rate(tmp_path: Path) -> None:
    text = 'measure = "receiver"\n' + PLAN
    flows = {
        "tcp-reno": [{"last_byte_s": 9.0, "data_segments": 700, "retransmissions": 5}] * 2,
        "tcp-newreno": [{"last_byte_s": 2.0, "data_segments": 31, "retransmissions": 10}] * 2,
    }
    found = made(tmp_path / "a", flows, text)
    words = "flows had fewer than 100 segments in some cells (tcp-newreno 21)"
    told = said(found, "goodput")
    assert words in told and "at the most by 1/20 of it" in told
    (row,) = found.compare("goodput").to_dict("records")
    assert row["ratio"] > 3 and row["p_holm"] < 0.05 and row["uneven"]
    assert row["why"] == "rates of few segments, the first of which takes no time"
    assert report.best_of(found, "goodput") == set()
    assert "segments" not in said(found, "delay")
    # From connect() on the first one takes its time.
    assert "fewer than 100 segments" not in said(made(tmp_path / "b", flows), "goodput")
    many = {"tcp-reno": flows["tcp-reno"], "tcp-newreno": flows["tcp-reno"]}
    assert "fewer than 100" not in said(made(tmp_path / "c", many, text), "goodput")


def test_packets_on_their_way_at_the_end_are_not_delivered(tmp_path: Path) -> None:
    text = PLAN.replace('"aggregate", "jain"', '"loss", "jain"')
    few = {"last_byte_s": 9.0, "packets": {"sent": 1000, "inside": 1, "delivered": 999}}
    many = {"last_byte_s": 9.0, "packets": {"sent": 1000, "inside": 140, "delivered": 860}}
    found = made(tmp_path / "a", {"tcp-reno": [few, few], "tcp-newreno": [few, many]}, text)
    words = "Packets that waited or were on their way when their run ended count neither as"
    told = said(found, "loss")
    assert words in told and "0.1% to 7.0% of those sent, by cell" in told
    assert "0.1% to 14.0%" in said(found, "loss@2") and words not in said(found, "loss@1")
    assert words not in said(found, "goodput")
    found = made(tmp_path / "b", {"tcp-reno": [few, few], "tcp-newreno": [few, few]}, text)
    assert words not in said(found, "loss")
    # Nodes on the way sent half of what was under way and delivered.
    copied = many | {"packets": {"sent": 500, "copies": 500, "inside": 140, "delivered": 860}}
    found = made(tmp_path / "c", {"tcp-reno": [few, few], "tcp-newreno": [few, copied]}, text)
    assert "0.1% to 14.0%" in said(found, "loss@2")


def test_packets_that_handlers_swallowed_are_told_from_losses(tmp_path: Path) -> None:
    text = PLAN.replace('"aggregate", "jain"', '"loss", "jain"')
    plain = {"packets": {"sent": 1000, "link": 20, "hop": 0, "inside": 0, "delivered": 980}}
    snoop = {"packets": {"sent": 990, "copies": 10, "link": 20, "hop": 60, "inside": 0,
                         "delivered": 920}}  # fmt: skip
    flows = [{"last_byte_s": 9.0, **told} for told in (plain, snoop)]
    found = made(tmp_path, {"tcp-reno": [flows[0]] * 2, "tcp-newreno": [flows[1]] * 2}, text)
    words = "counted as lost 0% to 75%, by cell, were dropped by handlers on the way"
    assert words in said(found, "loss") and "handlers" not in said(found, "goodput")
    assert report.best_of(found, "loss") == set() and found.compare("loss")["uneven"].all()
    some = snoop["packets"] | {"hop": 1, "delivered": 979}
    flows[1] = {"last_byte_s": 9.0, "packets": some}
    found = made(tmp_path / "few", {"tcp-reno": flows[:1] * 2, "tcp-newreno": flows[1:] * 2}, text)
    assert "handlers" not in said(found, "loss")


@pytest.mark.parametrize("begin", [2, 20])
def test_numbers_of_the_whole_run_are_none_of_the_window(tmp_path: Path, begin: int) -> None:
    """Of runs that end before the window begins neither: 20 s of which there is no goodput."""
    text = PLAN.replace('"aggregate", "jain"', '"goodput", "rtt_p50", "srtt", "retransmissions"')
    window = f'measure = {{ mode = "window", from = "{begin}s", to = "{begin + 6}s" }}\n'

    def flow(delay: float) -> dict[str, Any]:
        return {
            "last_byte_s": 9.0, "rtt": told(delay, 1000), "data_segments": 1000, "srtt_s": delay,
            "retransmissions": int(delay * 1000),
        }  # fmt: skip

    flows = {"tcp-reno": [flow(0.1)] * 2, "tcp-newreno": [flow(0.2)] * 2}
    arrived = {f"flow.{n}.delivered": pairs([0.0, 9.0], [0, 1_000_000]) for n in (1, 2)}
    found = made(tmp_path / "a", flows, window + text, lambda run: arrived)
    of = f"Of the whole run, its start included; goodput alone is of the window ({begin} s to "
    for metric in ("rtt_p50", "rtt_p50@1", "retransmissions"):
        assert of in said(found, metric), metric
        assert report.best_of(found, metric) == set()
        assert "of the whole run, where goodput is of a part" in found.compare(metric)["why"][0]
    assert "The last one that a flow had, whenever that was" in said(found, "srtt")
    assert "whole run" not in said(found, "goodput") + said(found, "finished")
    above = "`rtt_p50`, `srtt` and `retransmissions` are of the whole run, its start included."
    assert above in report.render(found, [])
    plain = made(tmp_path / "b", flows, text)
    assert "whole run" not in said(plain, "rtt_p50") + report.render(plain, [])
    assert report.best_of(plain, "rtt_p50") == {"tcp-reno"}


def test_numbers_of_the_whole_run_are_none_of_steady_state(tmp_path: Path) -> None:
    text = PLAN.replace('"aggregate", "jain"', '"goodput", "loss"')
    packets = {"packets": {"sent": 1000, "inside": 0, "delivered": 990}}
    batches = {"last_byte_s": 9.0, "batches": [250_000] * 4, "finished": False, **packets}
    of = "its start included; goodput alone is of batches without the first"
    for discard in (1, 0):
        steady = f'measure = {{ mode = "steady", discard = {discard} }}\n'
        found = made(
            tmp_path / str(discard), both(9.0, **batches), steady + text,
            batches_end_s=[2.0, 4.0, 6.0, 8.0],
        )  # fmt: skip
        assert (of in said(found, "loss")) == bool(discard)


def test_runs_of_unlike_lengths_are_told_of_flows_without_an_end(tmp_path: Path) -> None:
    """Between half of `stop.time` and all of it."""
    flows = both(None, None, finished=False)
    text = PLAN.replace("[scenario]", '[scenario]\nstop.time = "60s"')
    words = "runs of compared cells lasted between 40 s (tcp-newreno) and 60 s (tcp-reno)"
    length = {"tcp-reno": 60.0, "tcp-newreno": 40.0}
    found = made(tmp_path / "a", flows, text, seconds=length)
    assert words in said(found, "goodput") and words not in said(found, "timeouts")
    near = made(tmp_path / "b", flows, text, seconds=length | {"tcp-newreno": 56.0})
    assert "runs of compared cells lasted" not in said(near, "goodput")
    over = made(tmp_path / "c", both(9.0, 9.0), text, seconds=length)
    assert "runs of compared cells lasted" not in said(over, "goodput")


def test_why_there_is_no_latency_that_load_adds(tmp_path: Path) -> None:
    """Without datagrams before the load nobody knows the delay that it adds to."""
    text = PLAN.replace('"aggregate", "jain"', '"latency_added", "aggregate"')
    ways = {"from": "n1", "to": "n2"}
    load = {**LOAD, "start_s": 5.0, **ways}
    loaded = probe(0, 1000, idle=0) | {"start_s": 6.0, **ways}
    before = probe(0, 0) | {"start_s": 1.0, "last_byte_s": 4.0, "finished": True, **ways}
    words = "In 16 of 16 runs no flow of datagrams between the same two nodes was over before"

    def of(name: str, *flows: dict[str, Any]) -> wifu.Results:
        return made(tmp_path / name, {p: list(flows) for p in ("tcp-reno", "tcp-newreno")}, text)

    none = of("a", load, loaded)
    assert none.runs["latency_added_s"].isna().all() and words in said(none, "latency_added")
    assert words not in said(none, "aggregate")
    known = of("b", load, loaded, before)
    assert known.runs["latency_added_s"].notna().all()
    assert "no flow of datagrams" not in said(known, "latency_added")
    other = of("c", load, loaded, before | {"to": "n3"})
    assert words in said(other, "latency_added")


def test_runs_that_the_plan_left_out_later_are_told(tmp_path: Path) -> None:
    found = made(tmp_path, both(4.0, 8.0))
    assert "left out" not in report.render(found, [])
    path = found.folder / "plan.toml"
    path.write_text(path.read_text().replace("runs = 8", "runs = 5"))
    found.store.write_tables(found.store.plan())
    text = report.render(wifu.load(found.folder), [])
    assert "6 runs that were made are left out: plan.toml here now has 5 of each cell" in text


def test_comparisons_as_data_have_what_is_said_beside_tables(tmp_path: Path) -> None:
    one, other = {"last_byte_s": 4.0}, {"start_s": 4.0, "last_byte_s": 8.0}
    found = made(tmp_path, {"tcp-reno": [one, one], "tcp-newreno": [one, other]})
    notes = found.comparison()["notes"]
    assert any("no time at which all flows were there" in words for words in notes["jain"])
    assert notes.keys() <= {"aggregate", "jain", "sum_rates"} and "aggregate" not in notes
    flows = {"tcp-reno": [one] * 2, "tcp-newreno": [{"last_byte_s": 5.0}] * 2}
    few = made(tmp_path / "few", flows, PLAN.replace("runs = 8", "runs = 3"))
    said_of = few.comparison()["notes"]["aggregate"]
    assert any("no difference can be found here" in words for words in said_of)


@pytest.mark.parametrize("broadcast", [0, 5000])
def test_frames_to_all_are_not_tried_again_and_count_for_nothing(broadcast: int) -> None:
    nodes = [{"frames": 100 + broadcast, "failed": 10, "retries": 50}, {"frames": broadcast}]
    links = [{"from": "a", "to": "b", "frames": 60}, {"from": "b", "to": "a", "frames": 40}]
    flow = {"id": 1, "protocol": "tcp-reno", "bytes": 10, "finished": False}
    row = run_row({"sim_seconds": 9.0, "flows": [flow], "nodes": nodes, "links": links}, Measure())
    assert row["mac_retries"] == 0.5 and row["mac_loss"] == 0.1


def test_delays_under_unlike_loads_are_not_compared(tmp_path: Path) -> None:
    """A load that stalls offers nothing for a while, which makes queues short."""
    stalls = {**LOAD, "bytes": 300_000}
    flows = {"tcp-reno": [LOAD, probe(0, 1000)], "tcp-newreno": [stalls, probe(0, 1000, 0.05)]}
    found = made(tmp_path / "a", flows, TEXT)
    (row,) = found.compare("one_way_p95").to_dict("records")
    assert row["p_holm"] < 0.05 and row["ratio"] == pytest.approx(0.5), "what is tested here"
    assert row["why"] == "the loads delivered more than 10 % apart"
    assert report.best_of(found, "one_way_p95") == set()
    assert "the loads of compared cells delivered from 0.304 to 1 MB" in said(found, "one_way_p95")
    assert "the loads of" not in said(found, "aggregate")
    like = made(tmp_path / "b", {**flows, "tcp-newreno": [LOAD, probe(0, 1000, 0.05)]}, TEXT)
    assert report.best_of(like, "one_way_p95") == {"tcp-newreno"}
    assert said(like, "one_way_p95") == "" and "why" not in like.compare("one_way_p95")
    # Who is quicker beside more is so for all that.
    flows = {"tcp-reno": [LOAD, probe(0, 1000, 0.05)], "tcp-newreno": [stalls, probe(0, 1000)]}
    more = made(tmp_path / "e", flows, TEXT)
    assert report.best_of(more, "one_way_p95") == {"tcp-reno"}
    # A file has the same bytes, however long it takes.
    slow = {**LOAD, "last_byte_s": 3 * LOAD["last_byte_s"]}
    flows = {"tcp-reno": [LOAD, probe(0, 1000)], "tcp-newreno": [slow, probe(0, 1000, 0.05)]}
    files = made(tmp_path / "d", flows, TEXT, sim_seconds=99.0)
    (row,) = files.compare("one_way_p95").to_dict("records")
    assert row["why"] == "the loads delivered more than 10 % apart"
    assert " Mb/s: there is neither colour" in said(files, "one_way_p95")
    # A load that did not begin before the run was over is none that was met.
    never = {**LOAD, "start_s": 3.0, "bytes": 0, "last_byte_s": None, "first_byte_s": None}
    over = probe(0, 0) | {"last_byte_s": 3.0, "until_s": 3.0, "one_way": told(0.1, 1000)}

    def soon(scenario: dict[str, Any]) -> FakeResult:
        protocol = scenario["flow"][0]["protocol"]
        load = {"id": 1, "protocol": protocol, "app": "bulk", **never}
        flows = [load, {"id": 2, "bytes": 9000, "start_s": 0.0, **over}]
        trace = f"{protocol}{scenario['run']}"
        outcome = {"sim_seconds": 3.0, "end": "done", "flows": flows, "trace_hash": trace}
        return FakeResult(outcome, {})

    none = wifu.campaign(plans.parse(TEXT), tmp_path / "e", runner=soon)
    assert none.sample("one_way_p95").isna().all()
    assert "16 of 16 runs were over (at 3 s) before their load began" in said(none, "one_way_p95")
    # Datagrams that are over before the load begins met none.
    before = probe(0, 0, 0.05) | {"last_byte_s": 3.0, "until_s": 3.0}
    idle = {
        "tcp-reno": [{**LOAD, "start_s": 4.0}, {**before, "one_way": told(0.1, 1000)}],
        "tcp-newreno": [{**stalls, "start_s": 4.0}, before],
    }
    alone = made(tmp_path / "c", idle, TEXT)
    assert report.best_of(alone, "one_way_p95") == {"tcp-newreno"}


def test_the_smallest_round_trip_time_is_no_merit(tmp_path: Path) -> None:
    quick, slow = ({"last_byte_s": 9.0, "min_rtt_s": at} for at in (0.002, 0.003))
    flows = {"tcp-reno": [slow, slow], "tcp-newreno": [quick, quick]}
    text = PLAN.replace('"aggregate", "jain"', '"min_rtt", "aggregate"')
    found = made(tmp_path / "a", flows, text)
    why = "the smallest round-trip time is no merit of a protocol"
    assert found.compare("min_rtt")["why"].tolist() == [why]
    assert report.best_of(found, "min_rtt") == set()
    assert f"no colour: {why}" in report.render(found, [])
    words = said(found, "min_rtt")
    assert "it tells of the path, and is no merit of a protocol. Between" in words, words
    # Of paths it tells something.
    text = text.replace('protocol = ["tcp-reno", "tcp-newreno"]', "path = [1, 2]")
    text = text.replace('"{protocol}"', '"tcp-reno"').replace(
        'baseline = "tcp-reno"', 'pair = "path"'
    )
    text = text.replace("copies = 2", 'copies = 2\njitter = "{path}ms"')
    same = made(tmp_path / "b", flows, text)
    assert said(same, "min_rtt") == "" and "why" not in same.compare("min_rtt")


def test_shares_of_unlike_numbers_of_flows_are_not_compared(tmp_path: Path) -> None:
    text = PLAN.replace("copies = 2", 'copies = "{flows}"').replace('"{protocol}"', '"tcp-reno"')
    text = text.replace('baseline = "tcp-reno"', 'pair = "flows"')
    text = text.replace('protocol = ["tcp-reno", "tcp-newreno"]', "flows = [2, 4]")

    def runner(scenario: dict[str, Any]) -> FakeResult:
        own = [
            {"id": n, "protocol": "tcp-reno", "app": "file", "start_s": 0.0, "first_byte_s": 0.1,
             "finished": True, "bytes": 10**6 + 1000 * scenario["run"], "last_byte_s": 5.0 + n}
            for n, _ in enumerate(scenario["flow"], 1)
        ]  # fmt: skip
        told = {"sim_seconds": 60.0, "flows": own, "trace_hash": f"{len(own)}{scenario['run']}"}
        return FakeResult(told, {})

    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)
    for metric in ("jain", "weakest", "unfairness", "utility"):
        assert found.compare(metric)["why"].tolist() == ["unlike numbers of flows"], metric
        assert report.best_of(found, metric) == set()
        assert "Compared cells have 2 to 4 flows" in said(found, metric)
    assert "why" not in found.compare("aggregate") and said(found, "aggregate") == ""
    assert report.best_of(found, "aggregate")


def test_segments_of_other_sizes_are_not_counted_against_each_other(tmp_path: Path) -> None:
    """One that sends the same octets in thrice as many segments repeats thrice as many."""
    text = PLAN.replace('"aggregate", "jain"', '"retransmissions", "timeouts"')

    def flow(size: int, again: int) -> dict[str, Any]:
        new = 1_000_000 // size
        more = {"retransmissions": again, "data_segments": new + again, "timeouts": again}
        return {"last_byte_s": 9.0, "sent_bytes": 1_000_000, **more}

    short = {"tcp-reno": [flow(500, 30)] * 2, "tcp-newreno": [flow(1460, 10)] * 2}
    found = made(tmp_path / "short", short, text)
    words = "carry 500 octets (tcp-reno) to 1462 (tcp-newreno) on the mean"
    assert words in said(found, "retransmissions")
    assert words in said(found, "retransmissions@2")
    assert f"A share of packets, which of compared cells {words}: a short" in said(found, "loss")
    why = "segments are counted, which carry more than 10 % more in some"
    assert set(found.compare("retransmissions")["why"]) == {why}
    assert report.best_of(found, "retransmissions") == set() != report.best_of(found, "timeouts")
    assert "octets" not in said(found, "timeouts"), "events, not segments"
    like = {"tcp-reno": [flow(1400, 30)] * 2, "tcp-newreno": [flow(1460, 10)] * 2}
    found = made(tmp_path / "like", like, text)
    assert "octets" not in said(found, "retransmissions")
    assert why not in found.compare("retransmissions").to_string()


WITHOUT_PAIR = """
[vary.what]
one = { "flow.*.protocol" = "tcp-reno" }
other = { "flow.*.protocol" = "tcp-newreno" }
"""


def test_cells_of_a_plan_without_pair_stand_beside_each_other(tmp_path: Path) -> None:
    text = PLAN[: PLAN.index("[vary]")].replace('baseline = "tcp-reno"\n', "") + WITHOUT_PAIR
    text = text.replace('"{protocol}"', '"tcp-reno"').replace('"jain"', '"retransmissions"')
    assert plans.parse(text).pair is None
    much, little = (
        {"last_byte_s": 9.0, "bytes": n, "retransmissions": 9, "timeouts": 1}
        for n in (9_000_000, 100_000)
    )
    found = made(tmp_path, {"tcp-reno": [much] * 2, "tcp-newreno": [little] * 2}, text)
    assert "compared cells whose runs delivered from 0.209 to 18 MB" in said(
        found, "retransmissions"
    )
    like = made(tmp_path / "like", {"tcp-reno": [much] * 2, "tcp-newreno": [much] * 2}, text)
    assert "compared cells" not in said(like, "retransmissions")


def test_the_slowest_of_more_flows_is_none_of_fewer(tmp_path: Path) -> None:
    flow = {"last_byte_s": 9.0}
    found = made(tmp_path, {"tcp-reno": [flow] * 2, "tcp-newreno": [flow] * 3})
    assert "2 to 3 flows that share" in said(found, "lowest")
    assert found.compare("lowest")["uneven"].all() and report.best_of(found, "lowest") == set()


@pytest.mark.parametrize(
    "name", ["bytes", "timeouts", "finished", "starved", "sim_seconds", "fault"]
)
def test_an_axis_is_not_called_like_a_column_of_results(name: str) -> None:
    """Its levels would stand where what flows delivered is looked for, and no caution be said."""
    text = PLAN.replace('"1M"', f'"{{{name}}}"') + f'{name} = ["1M", "2M"]\n'
    with pytest.raises(PlanError, match=f"column of the results.*such as `{name}_asked`"):
        plans.parse(text)
    assert plans.parse(text.replace(name, "size").replace('size = "{', 'bytes = "{')).axis("size")


HOSTS = """
name = "hosts"
runs = 2
pair = "protocol"
metrics = ["goodput"]
[scenario]
topology = { words = "linear,2,rate=24M", set = "TB-B" }
stop.time = "1s"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "{protocol}"
app = "stream"
time = "1s"
jitter = "50ms"
[vary]
protocol = ["udp", "tcp-newreno"]
"""


def test_datagrams_cost_a_slow_host_nothing(tmp_path: Path) -> None:
    reason = "packets cost hosts time of some flows alone"
    found = wifu.campaign(plans.parse(HOSTS), tmp_path / "slow")
    assert reason in unlike.reasons(found, found.plan.cells, "goodput")
    assert "which stand beside them, none" in said(found, "goodput")
    told = hostcost.note(found.plan)
    assert "host.profile py, by TB-B), datagrams of `udp` and the kernel's TCP none;" in told
    text = HOSTS.replace('"udp"', '"kernel:reno"')
    emulated = plans.parse('on = ["emu"]\n' + text).variant("emu")
    assert hostcost.exempt(SimpleNamespace(plan=emulated), emulated.cells, "goodput")
    simulated = plans.parse('on = ["sim", "emu"]\n' + HOSTS)
    told = hostcost.elsewhere(simulated, emulated)
    assert told == "", "they have no cell in common"
    levels = HOSTS.replace('["udp", "tcp-newreno"]', '["tcp-linux-reno", "tcp-newreno"]')
    levels += '[emu.vary.protocol]\ntcp-linux-reno = "kernel:reno"\n'
    simulated = plans.parse('on = ["sim", "emu"]\n' + levels)
    told = hostcost.elsewhere(simulated, simulated.variant("emu"))
    assert "(host.profile py) on sim alone in tcp-linux-reno: what differs" in told
    # Neither between protocols, nor where hosts take no time.
    tcps = HOSTS.replace('"udp", ', '"tcp-reno", ')
    off = HOSTS.replace("[scenario]", '[scenario]\nhost.profile = "off"')
    for n, text in enumerate((tcps, off)):
        other = wifu.campaign(plans.parse(text), tmp_path / f"{n}")
        assert reason not in unlike.reasons(other, other.plan.cells, "goodput")
        assert "which stand beside them" not in said(other, "goodput")
