"""Round trips with a receiver's timer in them, and counts over flows that share unlike."""

from pathlib import Path
from typing import Any

import pytest
from fake import FakeResult
from test_cautions import PLAN, made, said

import wifu
from wifu import cutoff, pooled, unlike
from wifu import plan as plans
from wifu.cells import Cell

HELD = "how long receivers held acknowledgements back is more than 5 % apart"
TOGETHER = "flows have other parts in what is counted together"


def found(folder: Path, waits: tuple[float, float]) -> wifu.Results:
    """Two protocols whose receivers held so long back what 95 % of acknowledgements had at most."""

    def flows(wait: float) -> list[dict[str, Any]]:
        rtt = {"p50_s": 0.1, "p95_s": 0.2, "p99_s": 0.3, "samples": 100}
        held = {"p50_s": 0.001, "p95_s": wait, "p99_s": 0.1, "samples": 50}
        return [{"last_byte_s": 4.0, "ack_delay": held, "rtt": rtt, "srtt_s": 0.1}]

    return made(folder, {"tcp-reno": flows(waits[0]), "tcp-newreno": flows(waits[1])})


@pytest.mark.parametrize(
    ("waits", "of"),
    [
        ((0.0, 0.0), ()),
        ((0.09, 0.09), ()),
        ((0.001, 0.010), ()),
        ((0.001, 0.012), ("rtt_p95",)),
        ((0.001, 0.090), ("srtt", "rtt_p95")),
    ],
)
def test_what_a_receiver_held_back_takes_colour_from_round_trips(
    tmp_path: Path, waits: tuple[float, float], of: tuple[str, ...]
) -> None:
    results = found(tmp_path, waits)
    for metric in ("srtt", "rtt_p50", "rtt_p95", "rtt_p99"):
        reasons = unlike.reasons(results, results.plan.cells, metric)
        assert (HELD in reasons) == (metric in of), metric
        told = said(results, metric)
        assert ("ms in tcp-reno and" in told) == (metric in of)
        assert "nobody tells here how long" not in told
    assert HELD not in unlike.reasons(results, results.plan.cells, "goodput")
    if "srtt" in of:
        words = "for 95 % at most 1.0 ms in tcp-reno and 90 ms in tcp-newreno"
        assert words in said(results, "rtt_p95")
        words = "round trip: about 1.0 ms in tcp-reno and 12 ms in tcp-newreno"
        assert words in said(results, "srtt")


def test_what_is_far_more_than_was_held_back_keeps_its_colour(tmp_path: Path) -> None:
    """A queue of 300 ms is one, whoever held 4 ms back."""

    def flows(trip: float, wait: float) -> list[dict[str, Any]]:
        rtt = {"p50_s": trip, "p95_s": trip, "p99_s": trip, "samples": 1000}
        held = {"p50_s": wait, "p95_s": wait, "p99_s": wait, "samples": 500}
        return [{"last_byte_s": 4.0, "ack_delay": held, "rtt": rtt, "srtt_s": trip}]

    found = made(tmp_path, {"tcp-reno": flows(0.008, 0.004), "tcp-newreno": flows(0.3, 0.0)})
    assert HELD not in unlike.reasons(found, found.plan.cells, "rtt_p95")


def test_of_no_runs_nothing_is_said(tmp_path: Path) -> None:
    results = found(tmp_path, (0.001, 0.09))
    for reason in unlike.REASONS:
        assert not reason.found(results, (), "srtt"), reason.words
    results.flows = results.flows[:0]
    for metric in ("srtt", "rtt_p95", "rtt_p95@1", "loss", "delay", "retransmissions"):
        assert HELD not in unlike.reasons(results, results.plan.cells, metric)
        assert TOGETHER not in unlike.reasons(results, results.plan.cells, metric)


def test_where_nobody_counts_timers_it_is_told(tmp_path: Path) -> None:
    results = made(
        tmp_path, {"tcp-reno": [{"last_byte_s": 4.0}], "tcp-newreno": [{"last_byte_s": 4.0}]}
    )
    assert "or a timer ends" not in said(results, "rtt_p95"), "the simulator tells"
    results.plan = results.plan.variant("emu")
    told = said(results, "rtt_p95")
    assert "or a timer ends" in told and "nobody tells here how long" in told
    assert "or a timer ends" not in said(results, "goodput")


def test_small_windows_wait_for_the_timer_in_the_simulator(tmp_path: Path) -> None:
    """Vegas keeps to a few segments beside CUBIC, at whose queue the path is the same for both."""
    text = """
name = "waited"
runs = 2
metrics = ["rtt_p95@1"]
[scenario]
topology.node = [
  { name = "n1", wired_only = true }, { name = "n2", wired_only = true },
  { name = "n3", wired_only = true },
]
topology.wire = [
  { a = "n1", b = "n2", rate = "100Mb/s", delay = "5ms" },
  { a = "n2", b = "n3", rate = "10Mb/s", delay = "10ms", queue = 100 },
]
stop.time = "15s"
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "{protocol},ack_every={every}"
jitter = "50ms"
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "tcp-cubic"
jitter = "50ms"
[vary]
protocol = ["tcp-cubic", "tcp-vegas"]
every = [1, 2]
"""
    results = wifu.campaign(plans.parse(text), tmp_path / "r")
    rows = results.flows[results.flows["flow"] == 1]
    wait = rows.groupby(["protocol", "every"])["ack_delay_p95_s"].mean()
    assert wait["tcp-vegas", 2] > 0.05 > 10 * wait["tcp-cubic", 2] > 0
    assert max(wait["tcp-vegas", 1], wait["tcp-cubic", 1]) < 1e-5
    cells = {
        every: [c for c in results.plan.cells if c.labels["every"] == every] for every in (1, 2)
    }
    assert HELD in unlike.reasons(results, cells[2], "rtt_p95@1")
    assert HELD not in unlike.reasons(results, cells[1], "rtt_p95@1")
    assert HELD not in unlike.reasons(results, cells[2], "rtt_p95@2")


def test_who_is_shut_out_counts_for_little_and_that_is_told(tmp_path: Path) -> None:
    def flows(*octets: int) -> list[dict[str, Any]]:
        each = {"last_byte_s": 4.0, "retransmissions": 3, "timeouts": 1}
        return [{**each, "bytes": n} for n in octets]

    one = made(
        tmp_path / "a", {"tcp-reno": flows(10**6, 10**6), "tcp-newreno": flows(2 * 10**6, 9)}
    )
    for metric in ("retransmissions", "timeouts"):
        assert TOGETHER in unlike.reasons(one, one.plan.cells, metric)
        told = said(one, metric)
        assert "per MB as the mean of its flows" in told and f"`{metric}@N` is of a flow" in told
    # Of a flow alone nothing is counted together; goodput is no count.
    assert TOGETHER not in unlike.reasons(one, one.plan.cells, "retransmissions@1")
    assert TOGETHER not in unlike.reasons(one, one.plan.cells, "goodput")
    alike = {"tcp-reno": flows(10**6, 9 * 10**5), "tcp-newreno": flows(9 * 10**5, 10**6)}
    two = made(tmp_path / "b", alike)
    assert TOGETHER not in unlike.reasons(two, two.plan.cells, "retransmissions")
    alone = made(tmp_path / "c", {"tcp-reno": flows(10**6), "tcp-newreno": flows(10**6)})
    assert TOGETHER not in unlike.reasons(alone, alone.plan.cells, "retransmissions")


def test_parts_that_change_sides_are_unlike_where_nothing_else_is_known(tmp_path: Path) -> None:
    def flows(*octets: int) -> list[dict[str, Any]]:
        return [{"last_byte_s": 4.0, "retransmissions": 3, "bytes": n} for n in octets]

    given = {"tcp-reno": flows(3 * 10**6, 10**6), "tcp-newreno": flows(10**6, 3 * 10**6)}
    found = made(tmp_path, given)
    assert TOGETHER in unlike.reasons(found, found.plan.cells, "passive_loss")
    words = "flow 1 has 75% of the packets in tcp-reno and 25% in tcp-newreno"
    assert words in said(found, "passive_loss")
    # By the byte that each carried they are alike.
    assert TOGETHER not in unlike.reasons(found, found.plan.cells, "retransmissions")


def test_who_asks_seldom_counts_for_little_in_percentiles_of_downloads(tmp_path: Path) -> None:
    text = PLAN.replace('app = "file"', 'app = "request"').replace("bytes =", "# bytes =")

    def flows(*each: tuple[int, float]) -> list[dict[str, Any]]:
        def asks(n: int, delay: float) -> dict[str, Any]:
            done = [{"start_s": 0.1 * k, "delay_s": delay, "bytes": 9} for k in range(n)]
            return {"last_byte_s": 9.0, "app": "request", "requests": done}

        return [asks(n, delay) for n, delay in each]

    even, shut = flows((50, 0.1), (50, 0.1)), flows((90, 0.05), (20, 1.0))
    found = made(tmp_path / "a", {"tcp-reno": even, "tcp-newreno": shut}, text)
    for metric in ("delay", "delay_median"):
        assert TOGETHER in unlike.reasons(found, found.plan.cells, metric), metric
        told = said(found, metric)
        assert "0.525 s as the mean of its flows" in told
        assert f"`{metric}@N` is of a flow alone" in told
        assert TOGETHER not in unlike.reasons(found, found.plan.cells, f"{metric}@1")
    # Unlike parts of what is alike decide nothing.
    quick = flows((90, 0.05), (20, 0.05))
    alike = made(tmp_path / "b", {"tcp-reno": even, "tcp-newreno": quick}, text)
    assert TOGETHER not in unlike.reasons(alike, alike.plan.cells, "delay_p95")


def test_what_ends_by_the_clock_is_no_download(tmp_path: Path) -> None:
    """Beside a browser a bulk flow with an end of its own took as long as the plan says."""
    text = PLAN.replace('app = "file"', 'app = "http"').replace("bytes =", "# bytes =")
    bulk = '[[scenario.flow]]\nprotocol = "tcp-cubic"\napp = "bulk"\nstop_at = "50s"\n'
    text = text.replace("copies = 2\n", bulk)
    done = [{"start_s": 0.1 * k, "delay_s": 0.05, "bytes": 9} for k in range(9)]
    browser = {"last_byte_s": 9.0, "app": "http", "requests": done}

    def flows(octets: int) -> list[dict[str, Any]]:
        return [browser, {"last_byte_s": 55.0, "app": "bulk", "bytes": octets}]

    found = made(tmp_path, {"tcp-reno": flows(10**6), "tcp-newreno": flows(2 * 10**6)}, text)
    for metric in ("delay", "delay_median", "delay_p99"):
        assert found.summary(metric)["mean"].tolist() == pytest.approx([0.05, 0.05]), metric
        told = said(found, metric)
        assert f"Flow 2 (bulk) ends by the clock and is no download: of it `{metric}@N`" in told
        assert "delivered 1" not in told, "what it delivered tells nothing of downloads"
    assert found.summary("delay@2")["mean"].tolist() == pytest.approx([55.0, 55.0])
    assert "by the clock" not in said(found, "delay@2") + said(found, "goodput")
    reasons = unlike.reasons(found, found.plan.cells, "delay")
    assert "times of flows without an end, which delivered more than 10 % apart" not in reasons


def test_downloads_that_flows_have_otherwise_than_all_together_have_no_colour(
    tmp_path: Path,
) -> None:
    """Of five clients the near one asks most, and a little less often where far ones are quick."""
    text = PLAN.replace('app = "file"', 'app = "request"').replace("bytes =", "# bytes =")

    def flows(near: int, far: float, slow: float = 0.1) -> list[dict[str, Any]]:
        def asks(n: int, delay: float) -> dict[str, Any]:
            done = [{"start_s": 0.1 * k, "delay_s": delay, "bytes": 9} for k in range(n)]
            return {"last_byte_s": 9.0, "app": "request", "requests": done}

        return [asks(near, slow), *[asks(20, far)] * 4]

    one = {"tcp-reno": flows(100, 1.0), "tcp-newreno": flows(75, 0.6)}
    found = made(tmp_path / "a", one, text)
    assert TOGETHER in unlike.reasons(found, found.plan.cells, "delay_median")
    told = said(found, "delay_median")
    assert "tcp-reno has 0.1 s together and 0.82 s as the mean of its flows" in told
    assert "tcp-newreno has 0.6 s together and 0.5 s as the mean of its flows" in told
    other = {"tcp-reno": flows(100, 1.0), "tcp-newreno": flows(100, 0.6, 0.06)}
    two = made(tmp_path / "b", other, text)
    for metric in ("delay", "delay_median", "delay_p95"):
        assert TOGETHER not in unlike.reasons(two, two.plan.cells, metric)


def test_frames_of_a_weak_link_count_as_much_as_others_have_few(tmp_path: Path) -> None:
    """Datagrams over a weak link beside one flow: a quick protocol has more frames elsewhere."""

    def links(frames: int) -> dict[str, Any]:
        good = {
            "from": "n1",
            "to": "n2",
            "frames": frames,
            "failed": frames // 700,
            "tries": frames * 11 // 10,
            "attempts": frames * 11 // 10,
        }
        weak = {
            "from": "n2",
            "to": "n3",
            "frames": 500,
            "failed": 60,
            "tries": 900,
            "attempts": 900,
        }
        return {"links": [good, weak], "nodes": [{"failed": frames // 700 + 60, "retries": 400}]}

    def runner(scenario: dict[str, Any]) -> FakeResult:
        frames = {"tcp-reno": 3600, "tcp-newreno": 11500}[scenario["flow"][0]["protocol"]]
        flow = {
            "id": 1,
            "protocol": "tcp-reno",
            "app": "file",
            "start_s": 0.0,
            "bytes": 10**6,
            "finished": True,
            "last_byte_s": 4.0 + 0.01 * scenario["run"],
        }
        told = {"sim_seconds": 60.0, "flows": [flow], "trace_hash": f"{frames}{scenario['run']}"}
        return FakeResult(told | links(frames + scenario["run"]), {})

    text = PLAN.replace("copies = 2\n", "").replace(
        '"aggregate", "jain", "sum_rates"', '"mac_loss"'
    )
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)
    assert TOGETHER in unlike.reasons(found, found.plan.cells, "mac_loss")
    told = said(found, "mac_loss")
    assert "tcp-newreno has 0.633% together and" not in told and "as the mean of its links" in told
    assert TOGETHER not in unlike.reasons(found, found.plan.cells, "goodput")


LONGER = "runs lasted more than 10 % longer in some"


def test_round_trips_and_losses_of_runs_of_unlike_length_are_not_compared(tmp_path: Path) -> None:
    """A flow goes on beside a file, whose end is that of the run: its start weighs more there."""
    file: dict[str, Any] = {"last_byte_s": 9.0, "srtt_s": 0.1}
    bulk: dict[str, Any] = {"finished": False, "app": "bulk", "srtt_s": 0.1, "last_byte_s": 9.0}
    both = {"tcp-reno": [file, bulk], "tcp-newreno": [file, bulk]}
    found = made(tmp_path / "a", both, seconds={"tcp-reno": 10.0, "tcp-newreno": 20.0})
    for metric in ("srtt", "srtt@2", "rtt_p95", "loss", "mac_retries", "goodput"):
        assert LONGER in unlike.reasons(found, found.plan.cells, metric), metric
        assert "lasted between 10 s (tcp-reno) and 20 s" in said(found, metric), metric
    for metric in ("srtt@1", "delay"):
        assert LONGER not in unlike.reasons(found, found.plan.cells, metric), metric
    alike = made(tmp_path / "b", both)
    assert LONGER not in unlike.reasons(alike, alike.plan.cells, "srtt")


def test_frames_that_carry_unlike_segments_are_not_compared(tmp_path: Path) -> None:
    def flows(size: int) -> list[dict[str, Any]]:
        counts = {"sent_bytes": 10**6, "data_segments": 10**6 // size, "retransmissions": 0}
        return [{"last_byte_s": 4.0, **counts}]

    words = "segments are counted, which carry more than 10 % more in some"
    found = made(tmp_path / "a", {"tcp-reno": flows(1460), "tcp-newreno": flows(536)})
    for metric in ("loss", "mac_loss", "mac_retries", "retransmissions"):
        assert words in unlike.reasons(found, found.plan.cells, metric), metric
    for metric in ("mac_loss", "mac_retries"):
        assert "a short frame is lost less often" in said(found, metric)
    assert words not in unlike.reasons(found, found.plan.cells, "timeouts")


def test_of_datagrams_each_flow_has_its_share_that_arrived(tmp_path: Path) -> None:
    """A flow of many hides one of few, of which half did not arrive; a mean has both alike."""

    def flows(lost: float) -> list[dict[str, Any]]:
        each = {"protocol": "udp", "app": "bulk", "last_byte_s": 9.0, "finished": False}
        delays = {"p50_s": 0.01, "p95_s": 0.02, "p99_s": 0.03, "samples": 5000}
        many = {**each, "sent_bytes": 10**8, "bytes": 10**8, "one_way": delays}
        return [many, {**many, "sent_bytes": 10**6, "bytes": int(10**6 * (1 - lost))}]

    text = PLAN.replace('"aggregate", "jain", "sum_rates"', '"one_way_p95"')
    text = text.replace('protocol = "{protocol}"', 'protocol = "udp"\nsize = "{size}"')
    text = text.replace('protocol = ["tcp-reno", "tcp-newreno"]', "size = [100, 200]")
    text = text.replace('baseline = "tcp-reno"\n', "").replace('app = "file"\nbytes = "1M"\n', "")

    def runner(scenario: dict[str, Any]) -> FakeResult:
        own = flows(0.5 if scenario["flow"][0]["size"] == 200 else 0.0)
        own = [{"id": n, "start_s": 0.0, **flow} for n, flow in enumerate(own, 1)]
        for flow in own:
            flow["one_way"] = {**flow["one_way"], "p95_s": 0.02 + 0.001 * scenario["run"]}
        name = f"{scenario['run']}{scenario['flow'][0]['size']}"
        return FakeResult({"sim_seconds": 60.0, "flows": own, "trace_hash": name}, {})

    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=runner)
    words = "the shares of datagrams that arrived are more than 5 % apart"
    assert words in unlike.reasons(found, found.plan.cells, "one_way_p95")
    assert "of flow 2 alone 0.0% to 50.0%, did not arrive" in said(found, "one_way_p95")
    assert words not in unlike.reasons(found, found.plan.cells, "one_way_p95@1")


KINDS = "downloads of unlike kinds are in one number"


def test_requests_and_files_in_one_number_have_no_colour(tmp_path: Path) -> None:
    """A file takes most of a mean, and quicker answers are hidden by it."""
    more = '[[scenario.flow]]\nprotocol = "tcp-cubic"\napp = "{app}"\n{octets}\n'

    def found(name: str, app: str, octets: str) -> wifu.Results:
        text = PLAN.replace("copies = 2\n", more.format(app=app, octets=octets))
        done = [{"start_s": 0.1 * k, "delay_s": 0.05, "bytes": 9} for k in range(12)]
        other: dict[str, Any] = {
            "last_byte_s": 3.0,
            "app": app,
            "requests": done if app == "request" else [],
        }
        both: list[dict[str, Any]] = [{"last_byte_s": 9.0}, other]
        return made(tmp_path / name, {"tcp-reno": both, "tcp-newreno": both}, text)

    asks = found("a", "request", "")
    for metric in ("delay", "delay_p95"):
        assert KINDS in unlike.reasons(asks, asks.plan.cells, metric)
        assert "Files of flow 1 and what flow 2 asked for are in one number" in said(asks, metric)
    assert KINDS not in unlike.reasons(asks, asks.plan.cells, "delay@2")
    assert KINDS not in unlike.reasons(asks, asks.plan.cells, "goodput")
    assert cutoff.per_run(asks, asks.plan.cells[0], "delay") == "12 requests and 1 transfer per run"
    mice = found("b", "file", 'bytes = "30k"')
    assert "Files of flows 1, 2 (0.03 to 1 MB) are in one number" in said(mice, "delay")
    alike = found("c", "file", 'bytes = "1M"')
    assert KINDS not in unlike.reasons(alike, alike.plan.cells, "delay")


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"app": "request", "response": "20k", "count": 1}, {"app": "request", "response": "8M"},
         "What flows 1, 2 asked for (0.02 to 8 MB) is in one number"),
        ({"app": "request", "response": "20k"}, {"app": "request", "response": "30k"}, ""),
        ({"app": "request", "request": "1M", "response": 200}, {"app": "request"},
         "What flows 1, 2 asked for (0.03 to 1 MB) is in one number"),
        ({"app": "file", "bytes": "20k"}, {"app": "trace", "rows": [[0, 4_000_000], [1, "4M"]]},
         "Files of flows 1, 2 (0.02 to 8 MB) are in one number"),
        ({"app": "http", "pause": "1s"}, {"app": "request", "response": "30k"}, ""),
        ({"app": "http", "pause": "1s"}, {"app": "http", "pause": "2s", "scale": "1M"},
         "What flows 1, 2 asked for (0.0294 to 2.37 MB) is in one number"),
        ({"app": "file", "bytes": "20k"}, {"app": "file", "bytes": "8M", "protocol": "udp"}, ""),
    ],
)  # fmt: skip
def test_transfers_are_of_one_kind_by_their_sizes_whatever_asks_for_them(
    one: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    flows = [{"protocol": "tcp-reno", **one}, {"protocol": "tcp-reno", **other}]
    cells = [Cell(1, "a", {}, {"flow": flows})]
    none: Any = None
    assert pooled.mixed(none, cells, "delay") is bool(words)
    told = pooled.kinds(none, cells, "delay")
    assert told.startswith(words) and bool(told) is bool(words)
