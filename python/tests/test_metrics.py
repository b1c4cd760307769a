from typing import Any

import numpy as np
import pytest

from wifu import even, metrics
from wifu.errors import LabError
from wifu.metrics import RUN_METRICS, Measure, batch_rates, flow_goodput, sliding

# Goodput of three flows under four transports, kb/s, and what the thesis prints for them.
TABLE = [
    ((703, 1184, 480), 8.602, 0.878, 0.372),
    ((2246, 2483, 546), 9.484, 0.806, 0.491),
    ((966, 1992, 951), 9.262, 0.877, 0.374),
    ((2085, 2410, 875), 9.643, 0.880, 0.369),
]


@pytest.mark.parametrize(("kbps", "utility", "jain", "nsd"), TABLE)
def test_utility_jain_and_unfairness_of_the_published_table(
    kbps: tuple[int, ...], utility: float, jain: float, nsd: float
) -> None:
    bps = np.array(kbps) * 1000.0
    assert even.log_utility(bps) == pytest.approx(utility, abs=5e-4)
    assert even.jain(bps) == pytest.approx(jain, abs=5e-4)
    assert even.unfairness(bps) == pytest.approx(nsd, abs=5e-4)


def test_a_starved_flow_counts_as_one_octet_a_second() -> None:
    assert even.log_utility([0.0]) == pytest.approx(-2.0969, abs=1e-4)
    assert even.log_utility([999.0]) == even.log_utility([0.0])
    assert even.log_utility([1000.0]) == 0.0
    # 16 of 32 starved and the rest near 100 kb/s: about zero.
    assert abs(even.log_utility([0.0] * 16 + [100e3] * 16)) < 2.0
    assert even.starved_share([0.0, 999.0, 1000.0, 5e6]) == 0.5
    assert np.isnan(even.starved_share([float("nan"), 5e6])), "what is not known is not fed"


def test_jain_of_extremes() -> None:
    assert even.jain([5, 5, 5]) == 1.0
    assert even.jain([1, 0, 0, 0]) == 0.25
    assert np.isnan(even.jain([0, 0]))


def test_passive_loss() -> None:
    assert metrics.passive_loss(100, 45) == pytest.approx(0.55)
    assert np.isnan(metrics.passive_loss(0, 0))


def test_links_of_several_routes_have_each_their_own_passive_loss() -> None:
    """n1 to n4 by n2, later by n3: who hands on behind a link is its own receiver."""

    def hop(number: int, one: str, two: str) -> dict[str, Any]:
        return {"flow": 1, "reverse": False, "hop": number, "from": one, "to": two, "packets": 9}

    def link(one: str, two: str, frames: int, heard: int) -> dict[str, Any]:
        return {"from": one, "to": two, "frames": frames, "overheard_frames": heard}

    hops = [hop(1, "n1", "n2"), hop(1, "n1", "n3"), hop(2, "n2", "n4"), hop(2, "n3", "n4")]
    links = [link("n2", "n4", 100, 0), link("n3", "n4", 50, 0)]
    links += [link("n2", "n1", 0, 75), link("n3", "n1", 0, 10)]
    rows = metrics.hop_rows({"hops": hops, "links": links})
    assert [(r["from"], r["to"]) for r in rows] == [(h["from"], h["to"]) for h in hops]
    found = [r["passive_loss"] for r in rows]
    assert found[:2] == pytest.approx([0.25, 0.8])
    assert np.isnan(found[2:]).all()


def test_a_steady_stream_has_one_rate_in_every_window() -> None:
    times = np.arange(1, 1001) * 1e-3
    for window, step in ((0.2, 0.02), (0.05, 0.002), (0.1, 0.1)):
        at, rate = sliding(times, np.arange(1, 1001) * 1000.0, window, step)
        full = at >= window - 1e-9
        assert rate[full] == pytest.approx(8e6)
        assert len(at) == round(1.0 / step)
    assert sliding([], [], 0.2, 0.1)[1].size == 0


def test_a_burst_is_in_the_windows_that_contain_it_and_nowhere_else() -> None:
    at, rate = sliding([0.5], [1000.0], 0.2, 0.1, end=1.0)
    assert [round(t, 1) for t, r in zip(at, rate, strict=True) if r > 0] == [0.5, 0.6]
    assert rate.max() == pytest.approx(40e3)


def test_batches_without_the_first() -> None:
    rates = batch_rates([10, 20, 30], [1.0, 2.0, 4.0], discard=1)
    assert rates.tolist() == [160.0, 120.0]


def test_a_batch_in_no_time_takes_no_run_away() -> None:
    """Its last packet may come with the one that ends the batch before."""
    octets, ends = [10, 20, 30, 40], [1.0, 2.0, 2.0, 4.0]
    rates = batch_rates(octets, ends)
    assert rates.tolist() == pytest.approx([160.0, np.nan, 160.0], nan_ok=True)
    told = {**outcome(batches=octets, bytes=100), "batches_end_s": ends}
    row = metrics.run_row(told, Measure("steady"))
    assert row["goodput"] == row["aggregate"] == 90 * 8 / 3
    assert row["jain"] == 1.0
    empty = {**outcome(batches=[10, 0, 0], bytes=10), "batches_end_s": [1.0, 1.0, 1.0]}
    assert metrics.run_row(empty, Measure("steady"))["goodput"] == 0.0


def outcome(**flow: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "id": 1,
        "start_s": 1.0,
        "first_byte_s": 1.5,
        "last_byte_s": 3.0,
        "finished": True,
    }
    return {"sim_seconds": 10.0, "flows": [{**base, "bytes": 1000, **flow}]}


def test_goodput_of_a_transfer() -> None:
    told = outcome()
    (flow,) = told["flows"]
    assert flow_goodput(told, flow, Measure()) == 4000.0
    assert flow_goodput(told, flow, Measure("receiver")) == pytest.approx(8000 / 1.5)


def test_goodput_of_what_was_cut_off_counts_until_the_end() -> None:
    told = outcome(finished=False)
    (flow,) = told["flows"]
    assert flow_goodput(told, flow, Measure()) == pytest.approx(8000 / 9)
    never = outcome(finished=False, bytes=0, first_byte_s=None, last_byte_s=None)
    (flow,) = never["flows"]
    for mode in ("transfer", "receiver", "steady"):
        assert flow_goodput(never, flow, Measure(mode)) == 0.0


def test_together_is_all_bytes_over_the_time_of_all() -> None:
    """Not the sum of rates over different times, which unfairness raises."""
    told = outcome()
    (one,) = told["flows"]
    told["flows"].append({**one, "id": 2, "start_s": 3.0, "first_byte_s": 3.5, "last_byte_s": 5.0})
    row = metrics.run_row(told, Measure())
    assert row["aggregate"] == 2000 * 8 / 4
    assert row["sum_rates"] == 2 * 4000.0
    assert metrics.run_row(told, Measure("receiver"))["aggregate"] == pytest.approx(16000 / 3.5)
    # One that is cut off counts until the end, as in its goodput.
    told["flows"][0] |= {"finished": False}
    assert metrics.run_row(told, Measure())["aggregate"] == pytest.approx(16000 / 9)
    # One that never got a byte was there all the same.
    told["flows"][0] |= {"bytes": 0, "first_byte_s": None, "last_byte_s": None}
    assert metrics.run_row(told, Measure())["aggregate"] == pytest.approx(8000 / 9)
    for flow, octets in zip(told["flows"], (1000, 500), strict=True):
        flow |= {"window_bytes": octets, "start_s": 0.0, "finished": False}
    window = metrics.run_row(told, Measure("window", start=0.0, end=10.0))
    assert window["aggregate"] == window["sum_rates"] == 1200.0


def test_a_file_that_is_complete_inside_the_window_is_not_slower_for_it() -> None:
    told = outcome(window_bytes=400)
    (one,) = told["flows"]
    window = Measure("window", start=2.0, end=6.0)
    assert flow_goodput(told, one, window) == 400 * 8 / 1, "it ended at 3 s"
    one["last_byte_s"] = 2.5
    assert flow_goodput(told, one, window) == 400 * 8 / 0.5, "the faster one is faster"
    assert metrics.run_row(told, window)["aggregate"] == 400 * 8 / 0.5
    slow = {**one, "id": 2, "start_s": 4.0, "last_byte_s": 9.0, "window_bytes": 100}
    told["flows"].append(slow)
    assert flow_goodput(told, slow, window) == 400.0, "it began at 4 s"
    row = metrics.run_row(told, window)
    assert row["aggregate"] == 1000.0 and row["sum_rates"] == 6800.0
    # One that goes on has all of the window, though nothing came for a while.
    slow |= {"start_s": 1.0, "finished": False}
    assert flow_goodput(told, slow, window) == 200.0
    one |= {"last_byte_s": 1.9, "window_bytes": 0}
    assert np.isnan(flow_goodput(told, one, window)), "over before it"
    assert np.isnan(metrics.run_row(told, window)["goodput"])
    assert metrics.run_row(told, window)["aggregate"] == 200.0
    assert window.words.startswith("bytes delivered inside 2 s to 6 s")


def test_a_flow_that_begins_after_the_window_is_not_silent_in_it() -> None:
    told = outcome(window_bytes=400)
    (one,) = told["flows"]
    window = Measure("window", start=2.0, end=6.0)
    late = {**one, "id": 2, "start_s": 7.0, "last_byte_s": 9.0, "window_bytes": 0}
    told["flows"].append(late)
    row = metrics.run_row(told, window, more=["goodput@1", "goodput@2"])
    assert row["goodput@1"] == 3200.0 and np.isnan(row["goodput@2"])
    for name in ("goodput", "lowest", "jain", "starved"):
        assert np.isnan(row[name]), name
    assert row["aggregate"] == 3200.0, "of the time from 2 s to 3 s, when there was a flow"
    assert np.isnan(metrics.carried(told, [late], window))


def test_what_was_not_simulated_of_a_window_is_no_silence() -> None:
    told = outcome(window_bytes=900, finished=False, start_s=0.0)
    (one,) = told["flows"]
    assert flow_goodput(told, one, Measure("window", start=1.0, end=10.0)) == 800.0
    # The run took 10 s, so that 9 s of 9.5 s were there, and by these it is.
    assert flow_goodput(told, one, Measure("window", start=1.0, end=10.5)) == 800.0
    row = metrics.run_row(told, Measure("window", start=1.0, end=31.0))
    for name in ("goodput", "aggregate", "sum_rates", "starved", "lowest", "jain", "utility"):
        assert np.isnan(row[name]), name
    # A file that was complete in a run that ended with it is known.
    one |= {"finished": True, "last_byte_s": 10.0}
    assert metrics.run_row(told, Measure("window", start=1.0, end=31.0))["goodput"] == 800.0


def test_datagrams_beside_a_transfer_are_no_part_of_its_goodput() -> None:
    told = outcome()
    (one,) = told["flows"]
    datagrams = {**one, "id": 2, "protocol": "udp", "start_s": 0.0, "bytes": 50_000}
    told["flows"].append({**datagrams, "last_byte_s": 9.0})
    row = metrics.run_row(told, Measure(), more=["goodput@1", "goodput@2", "delay@2"])
    alone = metrics.run_row(outcome(), Measure())
    names = ("goodput", "aggregate", "sum_rates", "lowest", "jain", "utility", "starved", "delay")
    assert {k: row[k] for k in names} == {k: alone[k] for k in names}
    assert row["goodput@1"] == 4000.0 and row["goodput@2"] == pytest.approx(400e3 / 9)
    assert row["delay@2"] == 9.0
    # Of nothing but datagrams it is theirs.
    told["flows"] = told["flows"][1:]
    assert metrics.run_row(told, Measure())["goodput"] == pytest.approx(400e3 / 9)


def test_goodput_in_steady_state() -> None:
    told = {**outcome(batches=[10, 20, 30]), "batches_end_s": [1.0, 2.0, 4.0]}
    (flow,) = told["flows"]
    # The mean of the rates, 160 and 120, would count the quick batch as much as the slow one.
    assert flow_goodput(told, flow, Measure("steady")) == pytest.approx(400 / 3)
    assert metrics.run_row(told, Measure("steady"))["aggregate"] == pytest.approx(400 / 3)
    cut = {**outcome(batches=[400], bytes=1000), "batches_end_s": [4.0]}
    (flow,) = cut["flows"]
    assert flow_goodput(cut, flow, Measure("steady")) == pytest.approx(600 * 8 / 6)


def test_download_delays_are_of_requests_or_of_the_whole() -> None:
    requests = [{"start_s": 0, "bytes": 1, "delay_s": d} for d in (1.0, 3.0)]
    assert metrics.download_delays({"requests": requests}) == [1.0, 3.0]
    (flow,) = outcome()["flows"]
    assert metrics.download_delays(flow) == [2.0]
    assert metrics.download_delays({**flow, "finished": False}) == []


def test_packets_lost_and_frames_not_overheard() -> None:
    told = outcome(packets={"sent": 110, "delivered": 90, "inside": 10})
    hop = {"flow": 1, "reverse": False}
    told["hops"] = [
        {**hop, "hop": 2, "from": "b", "to": "c"},
        {**hop, "hop": 1, "from": "a", "to": "b"},
        {**hop, "hop": 1, "from": "c", "to": "b", "reverse": True},
    ]
    told["links"] = [
        {"from": "b", "to": "c", "frames": 40, "overheard": 0, "overheard_frames": 0},
        # Attempts may be heard more often than there are packets: 30 packets were heard.
        {"from": "b", "to": "a", "frames": 20, "overheard": 55, "overheard_frames": 30},
    ]
    row = metrics.run_row(told, Measure())
    assert row["loss"] == pytest.approx(0.1)
    assert row["passive_loss"] == pytest.approx(0.25)
    # What b hands to d is overheard by a as well.
    told["links"].append({"from": "b", "to": "d", "frames": 20, "overheard_frames": 0})
    assert metrics.run_row(told, Measure())["passive_loss"] == pytest.approx(0.5)


def test_copies_that_nodes_made_are_packets_too() -> None:
    """They are in `delivered`, and no end sent them: losses would be below nothing."""
    packets = {"sent": 100, "copies": 60, "delivered": 110, "link": 30, "inside": 20}
    assert metrics.run_row(outcome(packets=packets), Measure())["loss"] == pytest.approx(30 / 140)


def test_withdrawn_links_are_counted_per_minute_where_routing_withdraws_any() -> None:
    flow = {"id": 1, "protocol": "tcp-newreno", "bytes": 0, "finished": False}
    outcome = {"sim_seconds": 30.0, "flows": [flow]}
    withdrawals = [
        metrics.run_row({**outcome, **more}, Measure())["withdrawals"]
        for more in ({"withdrawals": 7}, {"withdrawals": 0}, {})
    ]
    assert withdrawals[:2] == [14.0, 0.0] and np.isnan(withdrawals[2])
    other = {**flow, "id": 2, "routeless_s": 3.5}
    row = metrics.run_row({**outcome, "flows": [flow, other]}, Measure())
    assert row["routeless"] == 3.5


def test_losses_are_told_hop_by_hop() -> None:
    told = outcome()
    hop = {"flow": 1, "reverse": False}
    told["hops"] = [
        {**hop, "hop": 3, "from": "c", "to": "d", "packets": 0, "lost": 0},
        {**hop, "hop": 1, "from": "a", "to": "b", "packets": 90, "lost": 10},
        {**hop, "hop": 2, "from": "b", "to": "c", "packets": 60, "lost": 30},
        {**hop, "hop": 1, "from": "d", "to": "c", "packets": 4, "lost": 1, "reverse": True},
    ]
    told["links"] = [
        {"from": "b", "to": "c", "frames": 90, "overheard_frames": 0},
        {"from": "b", "to": "a", "frames": 50, "overheard_frames": 45},
        {"from": "c", "to": "d", "frames": 60, "overheard_frames": 0},
        {"from": "c", "to": "b", "frames": 5, "overheard_frames": 15},
    ]
    rows = metrics.hop_rows(told)
    assert [(r["reverse"], r["hop"]) for r in rows] == [
        (False, 1), (False, 2), (False, 3), (True, 1)
    ]  # fmt: skip
    lost = [r["packet_loss"] for r in rows]
    assert lost == pytest.approx([0.1, 1 / 3, np.nan, 0.2], nan_ok=True)
    unheard = [r["passive_loss"] for r in rows]
    assert unheard == pytest.approx([0.5, 0.75, np.nan, np.nan], nan_ok=True)
    assert metrics.run_row(told, Measure())["passive_loss"] == pytest.approx(0.625)
    # Older simulators do not tell what each flow lost in queues: there it is of a node.
    assert all(np.isnan(r["queue_drops"]) for r in rows)
    told["nodes"] = [{"name": "a", "queue_drops": 3}]
    assert metrics.hop_rows(told)[0]["queue_drops"] == 3.0
    told["hops"][1] |= {"queue_drops": 7, "queue_s": 1.8}
    first = metrics.hop_rows(told)[0]
    assert first["queue_drops"] == 7.0 and first["packet_loss"] == pytest.approx(0.1)
    assert first["queue_per_packet_s"] == pytest.approx(0.02)
    told["hops"][0] |= {"queue_s": 0.0}
    assert np.isnan(metrics.hop_rows(told)[2]["queue_per_packet_s"]), "nothing crossed it"
    # So they do not tell what lanes dropped, where there are any.
    told["nodes"] = [{"name": "a", "lanes": {"full": 3}}]
    dropped = [r["lane_drops"] for r in metrics.hop_rows(told)]
    assert np.isnan(dropped[0]) and dropped[1:] == [0.0, 0.0, 0.0]
    told["schema"] = "1.2"
    told["hops"][2] |= {"lane_drops": 4}
    assert [r["lane_drops"] for r in metrics.hop_rows(told)] == [0.0, 4.0, 0.0, 0.0]
    assert metrics.hop_rows(told)[1]["packet_loss"] == pytest.approx(1 / 3)
    del told["links"][1]["overheard_frames"]
    assert all(np.isnan(r["passive_loss"]) for r in metrics.hop_rows(told))


def test_passive_loss_without_its_counter_is_an_error_where_it_is_asked_for() -> None:
    told = outcome()
    hop = {"flow": 1, "reverse": False}
    told["hops"] = [
        {**hop, "hop": 1, "from": "a", "to": "b"},
        {**hop, "hop": 2, "from": "b", "to": "c"},
    ]
    told["links"] = [
        {"from": "b", "to": "c", "frames": 40, "overheard": 0},
        {"from": "b", "to": "a", "frames": 20, "overheard": 30},
    ]
    row = metrics.run_row(told, Measure(), ["goodput"])
    assert np.isnan(row["passive_loss"])
    assert row["goodput"] == 4000.0
    with pytest.raises(LabError, match="needs overheard_frames, which link b-a lacks"):
        metrics.run_row(told, Measure(), ["passive_loss"])


def test_every_metric_of_a_run_is_computed() -> None:
    told = outcome(srtt_s=0.1, min_rtt_s=0.05, retransmissions=3, timeouts=1)
    told["nodes"] = [{"frames": 10, "failed": 1, "retries": 5}, {"frames": 0}]
    row = metrics.run_row(told, Measure())
    assert set(row) == set(RUN_METRICS)
    assert row["aggregate"] == 4000.0
    assert row["mac_loss"] == pytest.approx(0.1)
    assert row["mac_retries"] == pytest.approx(0.5)
    assert row["finished"] == 1.0
    assert row["delay"] == 2.0
    assert row["retransmissions"] == 3.0


def test_a_metric_of_a_flow_alone_is_that_of_a_run_which_has_no_other() -> None:
    flows = [
        {
            "id": n, "bytes": 1_000_000 * n, "start_s": 0.0, "first_byte_s": 0.1, "finished": n < 3,
            "last_byte_s": 8.0, "srtt_s": 0.01 * n, "retransmissions": n, "timeouts": 0,
            "fast_retransmits": n, "packets": {"sent": 100, "inside": 0, "delivered": 100 - n},
        }
        for n in (1, 2, 3)
    ]  # fmt: skip
    outcome = {"flows": flows, "sim_seconds": 8.0}
    names = [f"{name}@2" for name in metrics.ALONE]
    row = metrics.run_row(outcome, Measure(), more=names)
    alone = metrics.run_row({**outcome, "flows": [flows[1]]}, Measure())
    for name in metrics.ALONE:
        assert row[f"{name}@2"] == pytest.approx(alone[name], nan_ok=True), name
    assert row["goodput@2"] == 2e6 and row["retransmissions@2"] == 2 and row["finished@2"] == 1
    assert row["goodput"] == 2e6 and row["retransmissions"] == 6, "those of all are as before"
    assert metrics.column("srtt@2") == "srtt_s@2"
    assert metrics.metric_of("goodput@2").axis() == "goodput, flow 2, Mb/s"
    with pytest.raises(LabError, match=r"there is no flow 4, of 3"):
        metrics.run_row(outcome, Measure(), ["goodput@4"])


def test_what_stacks_count_is_no_number_of_flows_of_datagrams() -> None:
    """Absent is not zero: nothing retransmits datagrams, whatever their rows say."""
    none = dict.fromkeys(("retransmissions", "timeouts", "fast_retransmits"), 0)
    told = outcome(**dict.fromkeys(none, 3))
    ((tcp,), udp) = told["flows"], {**told["flows"][0], **none, "id": 2, "protocol": "udp"}
    tcp["protocol"] = "tcp-newreno"
    for name in none:
        more = [f"{name}@1", f"{name}@2"]
        row = metrics.run_row({**told, "flows": [tcp, udp]}, Measure(), more=more)
        assert row[name] == row[more[0]] == 3
        assert np.isnan(row[more[1]]), name
        assert np.isnan(metrics.run_row({**told, "flows": [udp]}, Measure())[name]), name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("godput@2", "no metric is called godput@2; did you mean `goodput`?"),
        ("jain@2", "jain is not of a flow by itself; goodput, delay, "),
        ("sum_rates@1", "sum_rates is not of a flow by itself; goodput@N is"),
        ("aggregate@1", "aggregate is not of a flow by itself; goodput@N is"),
        ("goodput@0", "write goodput@N, where N is the number of a flow, from 1 on"),
        ("goodput@", "write goodput@N"),
    ],
)
def test_what_is_no_metric_of_a_flow_is_told(name: str, words: str) -> None:
    with pytest.raises(LabError) as told:
        metrics.metric_of(name)
    assert words in str(told.value)


def test_a_flow_that_never_started_is_not_starved() -> None:
    never = {"bytes": 0, "start_s": 10.0, "first_byte_s": None, "last_byte_s": None}
    told = outcome()
    told["flows"].append({**told["flows"][0], "id": 2, "finished": False, **never})
    for mode in ("transfer", "receiver", "steady"):
        row = metrics.run_row(told, Measure(mode), more=["goodput@1", "goodput@2"])
        assert np.isnan(row["goodput@2"]) and row["goodput@1"] > 0, mode
        assert np.isnan(row["starved"]) and np.isnan(row["goodput"])
    assert metrics.run_row(told, Measure())["aggregate"] == 8000 / 9
    # One that started and got nothing is.
    told["flows"][1]["start_s"] = 9.0
    assert metrics.run_row(told, Measure())["starved"] == 0.5


def test_what_came_at_once_has_no_rate_at_the_receiver() -> None:
    told = outcome(first_byte_s=3.0)
    row = metrics.run_row(told, Measure("receiver"))
    assert np.isnan(row["goodput"]) and np.isnan(row["starved"]) and np.isnan(row["aggregate"])
    assert metrics.run_row(told, Measure())["goodput"] == 4000.0


def test_octets_that_arrived_wrong_are_those_of_all_flows_or_unknown() -> None:
    flows = [{"id": n, "protocol": "hxh", "corrupt": n} for n in (0, 1, 2)]
    corrupt = RUN_METRICS["corrupt"].compute
    assert corrupt({"flows": flows}, np.array([])) == 3
    unknown = [*flows, {"id": 3, "protocol": "tcp-reno"}]
    assert np.isnan(corrupt({"flows": unknown}, np.array([])))
