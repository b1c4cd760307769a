"""Plans on several substrates, and how they are compared: all that needs no root."""

import dataclasses
import json
import os
import subprocess
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from fake import FakeResult, fake, sleepy
from scipy import stats as sps
from typer.testing import CliRunner

import wifu
from wifu import (
    claimed,
    cli,
    diverge,
    emulated,
    hostlock,
    live,
    program,
    published,
    report,
    reports,
    screen,
    stats,
)
from wifu import plan as plans
from wifu.api import Results
from wifu.campaign import Campaign, check_scenarios
from wifu.emulated import Emulated, InvalidRun, as_there, node_of, sweep
from wifu.errors import LabError, PlanError
from wifu.figures import beside, style
from wifu.flows import flows_of
from wifu.plan import Plan
from wifu.runner import Timed
from wifu.store import Store

TEXT = """
name = "fake"
runs = 8
on = ["emu", "sim"]
pair = "stack"
metrics = ["goodput", "timeouts"]
[scenario]
topology.words = "linear,{hops+1}"
stop.time = "30s"
[[scenario.flow]]
from = "n1"
to = "n{hops+1}"
protocol = "{stack}"
app = "file"
bytes = "1M"
[vary]
hops = [1, 2]
[vary.stack]
ours = "tcp-newreno"
kernel = "tcp-reno,profile=kernel-reno"
[emu]
runs = 5
dilation = 2
[emu.vary.stack]
kernel = "kernel:reno,window=64K"
[emu.scenario]
"stop.time" = "60s"
flow."*".bytes = "200k"
"""


def plan(text: str = TEXT, *overrides: str) -> Plan:
    return plans.parse(text, overrides=overrides)


def outcome_as(change: Any) -> Any:
    """A runner whose flows are changed, and who knows nothing of timeouts."""

    def run(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for flow in outcome["flows"]:
            change(flow, scenario["run"])
            del flow["timeouts"]
        del outcome["trace_hash"]
        return FakeResult(outcome, {})

    return run


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "lab.lock"
    monkeypatch.setattr(hostlock, "default_path", lambda: path)
    return path


def both(folder: Path, change: Any, chosen: Plan | None = None) -> None:
    chosen = chosen or plan()
    Campaign(chosen, Store(folder), fake).start()
    emu = chosen.variant("emu")
    Campaign(emu, Store(folder).on("emu"), outcome_as(change)).start()


def slower(share: float) -> Any:
    def change(flow: dict[str, Any], run: int) -> None:
        span = flow["last_byte_s"] - flow["start_s"]
        flow["last_byte_s"] = flow["start_s"] + span / (share * (1 + 0.002 * (run % 3)))

    return change


# Plans --------------------------------------------------------------------------------------------


def test_a_substrate_changes_levels_and_scenario_but_no_label() -> None:
    sim = plan()
    emu = sim.variant("emu")
    assert sim.on == ("sim", "emu")
    assert [c.name for c in emu.cells] == [c.name for c in sim.cells]
    assert [c.labels for c in emu.cells] == [c.labels for c in sim.cells]
    protocols = [[c.scenario["flow"][0]["protocol"] for c in p.cells[:2]] for p in (sim, emu)]
    assert protocols == [
        ["tcp-newreno", "tcp-reno,profile=kernel-reno"],
        ["tcp-newreno", "kernel:reno,window=64K"],
    ]
    assert emu.cells[0].scenario["stop"] == {"time": "60s"}
    assert emu.cells[0].scenario["flow"][0]["bytes"] == "200k"
    assert sim.cells[0].scenario["flow"][0]["bytes"] == "1M"
    assert (sim.runs, emu.runs, emu.settings) == (8, 5, {"dilation": 2})
    assert emu.variant("sim").sha256 == sim.sha256 != emu.sha256
    assert emu.variant("emu") is emu


def test_names_of_cells_are_the_simulators_even_if_they_hold_a_digest() -> None:
    text = TEXT.replace("ours =", '"a b" =').replace("kernel =", '"a-b" =')
    sim = plan(text)
    names = [c.name for c in sim.cells]
    assert any(len(n) > len("1_a-b") for n in names)
    assert [c.name for c in sim.variant("emu").cells] == names


def test_the_tables_of_substrates_do_not_change_what_was_measured_before() -> None:
    bare = TEXT[: TEXT.index("[emu]")].replace('on = ["emu", "sim"]\n', "")
    assert plan(bare).sha256 == plan().sha256


def test_the_resolved_plan_reads_back_as_the_variant(tmp_path: Path, lock: Path) -> None:
    both(tmp_path, slower(1.0))
    again = Store(tmp_path).on("emu").plan()
    assert again.substrate == "emu"
    assert again.sha256 == plan().variant("emu").sha256
    assert again.variant("sim").sha256 == plan().sha256


def test_cells_that_a_substrate_leaves_out_are_run_on_the_others() -> None:
    text = TEXT.replace("[emu]\n", "[sim]\nskip = [{ stack = 'kernel' }]\n\n[emu]\n"
                        "skip = [{ hops = 2, stack = 'ours' }]\n")  # fmt: skip
    whole, sim = plan(), plan(text)
    assert [c.name for c in sim.cells] == [c.name for c in whole.cells if "ours" in c.name]
    emu, every = sim.variant("emu"), whole.variant("emu")
    assert [c.name for c in emu.cells] == ["1_ours", "1_kernel", "2_kernel"]
    keys = {c.name: c.key for c in every.cells}
    assert {c.name: c.key for c in emu.cells}.items() <= keys.items()
    none = plan(text, "stack=kernel")  # loads, for there is emu
    check_scenarios(none.variant("emu"))
    with pytest.raises(PlanError, match="leaves no cell on sim"):
        check_scenarios(none)


def test_a_plan_is_prepared_for_what_it_has_a_table_of() -> None:
    bare = TEXT.replace('on = ["emu", "sim"]\n', "")
    assert (plan(bare).on, plan(bare).prepared) == (("sim",), ("sim", "emu"))


def test_an_override_leaves_levels_out_everywhere() -> None:
    sim = plan(TEXT, "stack=ours")
    assert [c.labels["stack"] for c in sim.variant("emu").cells] == ["ours", "ours"]


@pytest.mark.parametrize(
    ("old", "new", "key", "says"),
    [
        ("[emu.vary.stack]\nkernel", "[emu.vary.stack]\nkernal", "emu.vary.stack", "kernel"),
        ("[emu.vary.stack]", "[emu.vary.stock]", "emu.vary.stock", "stack"),
        ("dilation = 2", "dilation = 0.5", "emu.dilation", "1 or more"),
        ("dilation = 2", "repeats = -1", "emu.repeats", "0 or more"),
        ("dilation = 2", "dilaton = 2", "emu.dilaton", "dilation"),
        ('"sim"]', '"simulator"]', "on", "sim"),
        ("runs = 8", 'runs = 8\nrun_timeout = "-1s"', "run_timeout", "above 0"),
        ("runs = 8", 'runs = 8\ntolerance = "200%"', "tolerance", "10%"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(old: str, new: str, key: str, says: str) -> None:
    assert old in TEXT
    with pytest.raises(PlanError, match=says) as found:
        plan(TEXT.replace(old, new)).variant("emu")
    assert found.value.key == key


@pytest.mark.parametrize(
    ("old", "new", "key", "says"),
    [
        ('.vary.stack]\nkernel = "kernel:reno,window=64K"', '.vary]\nstack = ["ours"]',
         "emu.vary.stack", r'skip = \[\{ stack = "kernel" \}\] of \[emu\]'),
        ("dilation = 2", "skip = [{ hops = 7 }]", "emu.skip", "hops has no 7"),
        ("dilation = 2", "skip = [{ hosp = 1 }]", "emu.skip", "no axis is called hosp"),
        ("dilation = 2", "dilation = 0.5", "emu.dilation", "1 or more"),
        ('"stop.time" = "60s"', '"flow.7.bytes" = "1M"', "emu.scenario.flow.7.bytes", "1 of flow"),
    ],
)  # fmt: skip
def test_tables_of_other_substrates_are_read_with_the_plan(
    old: str, new: str, key: str, says: str
) -> None:
    assert old in TEXT
    text = TEXT.replace('on = ["emu", "sim"]\n', "").replace(old, new)
    with pytest.raises(PlanError, match=says) as found:
        plan(text)
    assert found.value.key == key
    assert found.value.line is not None
    # What a campaign wrote into its folder is read all the same.
    assert plans.parse(text, resolved=True).substrate == "sim"


def test_in_real_time_nothing_is_deterministic() -> None:
    text = TEXT.replace("runs = 8", "deterministic = true").replace("runs = 5\n", "")
    assert (plan(text).runs, plan(text).deterministic) == (1, True)
    emu = plan(text).variant("emu")
    assert (emu.runs, emu.deterministic) == (10, False)


def test_the_kernels_tcp_on_sim_names_its_model() -> None:
    text = TEXT.replace("tcp-reno,profile=kernel-reno", "kernel:reno")
    with pytest.raises(PlanError, match="emu and live; its model here is tcp-linux-reno,profile"):
        check_scenarios(plan(text))


def test_what_only_the_simulator_can_is_told_before_anything_runs() -> None:
    for old, new, says in (
        ('bytes = "1M"', 'bytes = "1M"\npause = "1s"', "pause: `file` does not use it"),
        ('"linear,{hops+1}"', '"linear,{hops+1},wire=6M"', "wires are not emulated"),
        ('stop.time = "30s"', "stop.batch = 100", "stop.packets"),
        ('kernel = "kernel:reno,window=64K"', 'kernel = "kernel:reno,sak=off"', "sack"),
        ('ours = "tcp-newreno"', 'ours = "tcp-newreno,iv=4"', "iw"),
    ):
        text = TEXT.replace(old, new).replace('flow."*".bytes = "200k"\n', "")
        text = text.replace('"stop.time" = "60s"\n', "")
        with pytest.raises(PlanError, match=says):
            check_scenarios(plan(text).variant("emu"))
    check_scenarios(plan('measure = "steady"\n' + TEXT).variant("emu"))
    with pytest.raises(PlanError, match="live has wires: linear,N,wire=RATE"):
        check_scenarios(plan().variant("live"))


def test_flows_are_read_as_the_simulator_reads_them() -> None:
    one, two = flows_of(
        {
            "seed": 3,
            "run": 2,
            "stop": {"time": "10s"},
            "flow": [
                {"from": "n1", "to": "n2", "protocol": "tcp-sack", "start": "1s", "jitter": "5ms"},
                {
                    "from": "n2", "to": "n1", "protocol": "udp", "app": "stream", "time": 2,
                    "rate": "500kb/s",
                },
            ],
        }
    )  # fmt: skip
    assert 1.0 <= one.start < 1.005
    assert (one.end, one.octets, one.finite, one.closes) == (10.0, 0, False, False)
    assert (two.end, two.rate, two.finite, two.closes) == (2.0, 500e3, True, True)
    assert one.port != two.port


def test_wires_and_ways_over_them() -> None:
    nodes, wires = live.wires_of({"topology": {"words": "linear,4,wire=10Mb/s,delay=50us"}})
    assert nodes == ["n1", "n2", "n3", "n4"]
    assert [(w.a, w.b, w.rate) for w in wires] == [
        ("n1", "n2", 10e6), ("n2", "n3", 10e6), ("n3", "n4", 10e6),
    ]  # fmt: skip
    ways = live.next_hops(nodes, wires)
    assert ways["n1"] == {"n2": "n2", "n3": "n2", "n4": "n2"}
    assert ways["n4"]["n1"] == "n3"
    row = live.Wires("row", nodes, wires)
    assert [row.ends_at(n) for n in ("n1", "n2")] == [("eth0",), ("eth0", "eth1")]
    own = {"node": [{"name": "a"}], "wire": [{"a": "a", "b": "b", "rate": "1G", "queue": 50}]}
    assert live.wires_of({"topology": own}) == (["a", "b"], [live.Wire("a", "b", 1e9, 50)])
    for key in ("delay=5ms", "loss=1%", "variation=1ms"):
        with pytest.raises(ValueError, match=key.split("=")[0]):
            live.wires_of({"topology": {"words": f"linear,2,wire=1M,{key}"}})


# Statistics ---------------------------------------------------------------------------------------


def test_the_relative_difference_has_the_interval_of_the_paired_differences() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(100, 10, 20)
    # Around a mean of 1 the linearization of y / x is that of y - x.
    y = x + rng.normal(0, 1, 20)
    runs = np.arange(20)
    found = stats.relative(y, x, runs, runs)
    plain = sps.ttest_1samp((y - x) / x.mean(), 0).confidence_interval(0.95)
    assert found.estimate == pytest.approx(y.mean() / x.mean() - 1)
    assert found.low == pytest.approx(plain.low, abs=2e-4)
    assert found.high == pytest.approx(plain.high, abs=2e-4)
    # Unpaired, the spread of both counts.
    assert stats.relative(y, x).half > 5 * found.half
    both = stats.apart(y, x, runs, runs)
    known = sps.ttest_rel(y, x).confidence_interval(0.95)
    assert (both.low, both.high) == pytest.approx((known.low, known.high))


def test_independent_samples_are_compared_by_welch() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(10, 1, 12), rng.normal(9, 3, 7)
    found = stats.apart(x, y)
    known = sps.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((known.low, known.high))
    exact = stats.apart(x, [9.0])
    alone = sps.ttest_1samp(x - 9.0, 0).confidence_interval(0.95)
    assert (exact.low, exact.high) == pytest.approx((alone.low, alone.high))


def test_the_interval_of_the_relative_difference_covers_it_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    hits = dict.fromkeys(("pairs", "more", "apart"), 0)
    for _ in range(600):
        common = rng.normal(0, 8, 16)
        x = 100 + common + rng.normal(0, 3, 16)
        y = 90 + common + rng.normal(0, 3, 16)
        runs = np.arange(16)
        found = {
            "pairs": stats.relative(y[:8], x[:8], runs[:8], runs[:8]),
            # One side has more runs than the other, and not the same ones.
            "more": stats.relative(y[4:12], x, runs[4:12], runs),
            "apart": stats.relative(y[8:], x[:8]),
        }
        for name, interval in found.items():
            hits[name] += interval.low <= -0.1 <= interval.high
    for name, count in hits.items():
        assert 0.925 <= count / 600 <= 0.98, (name, count)


def test_the_distance_of_samples() -> None:
    assert stats.distance([1, 2, 3], [4, 5, 6])[0] == 1.0
    assert stats.distance([1, 2, 3], [1, 2, 3]) == (0.0, 1.0)
    assert np.isnan(stats.distance([], [1.0])[0])


# Divergence ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "verdict"), [(1.0, diverge.AGREE), (0.95, diverge.AGREE), (0.7, diverge.DIFFER)]
)
def test_verdicts_follow_the_rule(tmp_path: Path, lock: Path, share: float, verdict: str) -> None:
    both(tmp_path, slower(share), plan(TEXT, "emu.runs=6"))
    found = diverge.of_folder(tmp_path)
    assert found is not None
    rows = [r for r in found.rows if r.metric == "goodput"]
    assert [r.verdict for r in rows if r.labels["stack"] == "ours"] == [verdict] * 2
    for row in rows:
        assert row.paired
        assert (row.reference.n, row.other.n) == (8, 6)
        means = row.other.estimate - row.reference.estimate
        assert row.difference.estimate == pytest.approx(means)
    # What a substrate cannot know is absent, not zero.
    assert {r.verdict for r in found.rows if r.metric == "timeouts"} == {diverge.ABSENT}


def test_what_daemons_lost_by_themselves_is_told_where_substrates_are_compared(
    tmp_path: Path, lock: Path
) -> None:
    daemons = {
        "n1": {"packets": {"queue": 0, "host": 0}},
        "n3": {"packets": {"queue": 3, "host": 1}},
        "n4": {},
    }
    full, many = reports.dropped(daemons)
    assert "n3 dropped packets, because a device or the kernel took no more" in full
    assert "`daemons.n3.packets.queue`" in full
    assert "too many waited for the host" in many

    chosen = plan()
    Campaign(chosen, Store(tmp_path), fake).start()

    def lossy(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        outcome["warnings"] = reports.dropped(daemons)
        return FakeResult(outcome, {})

    Campaign(chosen.variant("emu"), Store(tmp_path).on("emu"), lossy).start()
    found = diverge.of_folder(tmp_path)
    assert found is not None
    (told,) = [note for note in found.notes() if full in note]
    assert told.startswith("On emu: ")
    assert "cells " in told


def test_what_lies_on_the_edge_stays_open_and_the_tolerance_can_be_set(
    tmp_path: Path, lock: Path
) -> None:
    def change(flow: dict[str, Any], run: int) -> None:
        slower(0.9 + 0.05 * (run % 3 - 1))(flow, run)

    both(tmp_path, change)
    own = [r.verdict for r in _goodput(diverge.of_folder(tmp_path)) if r.labels["stack"] == "ours"]
    assert own == [diverge.OPEN] * 2
    wide = _goodput(diverge.of_folder(tmp_path, 0.3))
    assert {r.verdict for r in wide if r.labels["stack"] == "ours"} == {diverge.AGREE}


def test_nothing_on_the_second_side_and_hardly_anything_on_the_first_stays_open() -> None:
    low, none = (
        stats.Interval(0.2, -0.36, 0.76, 5, 0.95, "t"),
        stats.Interval(0.0, 0.0, 0.0, 3, 0.95, "t"),
    )
    assert low.known
    unknown = stats.Interval(-1.0, float("nan"), float("nan"), 3, 0.95, "t")
    difference = stats.Interval(none.estimate - low.estimate, -0.55, 0.15, 3, 0.95, "t")
    assert diverge._verdict(difference, unknown, 0.1) == diverge.OPEN
    apart = stats.Interval(-0.2, -0.3, -0.1, 3, 0.95, "t")
    assert diverge._verdict(apart, unknown, 0.1) == diverge.DIFFER


def _goodput(found: diverge.Divergence | None) -> list[diverge.Row]:
    assert found is not None
    return [r for r in found.rows if r.metric == "goodput"]


def test_two_runs_are_too_few(tmp_path: Path, lock: Path) -> None:
    both(tmp_path, slower(1.0), plan(TEXT, "emu.runs=2"))
    assert {r.verdict for r in _goodput(diverge.of_folder(tmp_path))} == {diverge.FEW}


@pytest.mark.parametrize(
    ("sim", "emu", "told"),
    [
        (8, 5, "1 more run on emu could"),
        (3, 3, "3 more runs on sim and 3 more runs on emu could"),
    ],
)
def test_of_fewer_than_six_runs_nothing_is_said_to_differ(
    tmp_path: Path, lock: Path, sim: int, emu: int, told: str
) -> None:
    """Of three and three, p of the distance is 0.1 at the least, and 1 among a dozen cells."""
    both(tmp_path, slower(0.7), plan(TEXT, f"runs={sim}", f"emu.runs={emu}"))
    found = diverge.of_folder(tmp_path)
    rows = [r for r in _goodput(found) if r.labels["stack"] == "ours"]
    assert found is not None and all(r.relative.high < -0.1 for r in rows), "what is tested here"
    assert {r.verdict for r in rows} == {diverge.OPEN}
    assert {r.missing for r in rows} == {(6 - min(sim, 6), 6 - emu)}
    (note,) = [note for note in found.notes() if "outside the tolerance" in note]
    assert note.startswith("mean goodput per flow, emu: ") and told in note
    assert "of 6 runs of each at least" in found.sentence()
    # Where it agrees no more are needed.
    same = diverge.of_folder(tmp_path, 0.5)
    assert {r.verdict for r in _goodput(same)} == {diverge.AGREE}
    assert same is not None and not any("outside the tolerance" in note for note in same.notes())


@pytest.mark.parametrize("emu", [3, 6])
def test_counts_that_are_zero_in_a_few_runs_stay_open(tmp_path: Path, lock: Path, emu: int) -> None:
    def change(flow: dict[str, Any], run: int) -> None:
        flow["retransmissions"] = 0

    def never(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for flow in outcome["flows"]:
            change(flow, 0)
        return FakeResult(outcome, {})

    text = TEXT.replace('"timeouts"]', '"retransmissions"]')
    chosen = plan(text.replace('flow."*".bytes = "200k"\n', ""), f"emu.runs={emu}")
    Campaign(chosen, Store(tmp_path), never).start()
    Campaign(chosen.variant("emu"), Store(tmp_path).on("emu"), never).start()
    found = diverge.of_folder(tmp_path)
    assert found is not None
    rows = [r for r in found.rows if r.metric == "retransmissions"]
    verdicts, notes = {r.verdict for r in rows}, " ".join(found.notes())
    assert verdicts == ({diverge.OPEN} if emu < 6 else {diverge.AGREE})
    told = "so few runs cannot say that there are none: 3 more runs on emu could"
    assert (told in notes) == (emu < 6)


def test_counts_of_other_loads_are_not_compared_and_it_is_said(tmp_path: Path, lock: Path) -> None:
    def change(flow: dict[str, Any], run: int) -> None:
        flow["retransmissions"] = 0

    text = TEXT.replace('"timeouts"]', '"retransmissions", "srtt"]')
    both(tmp_path / "other", change, plan(text))
    found = diverge.of_folder(tmp_path / "other")
    assert found is not None
    verdicts = {m: {r.verdict for r in found.rows if r.metric == m} for m in METRICS}
    assert verdicts["retransmissions"] == {diverge.APART}
    assert diverge.APART not in verdicts["goodput"] | verdicts["srtt"]
    notes = " ".join(found.notes())
    assert "flow.1.bytes is 1M on sim and 200k on emu." in notes
    assert "stop.time is 30s on sim and 60s on emu." in notes
    assert "srtt is not the same quantity" in notes and "less to repeat" in notes
    assert [e["key"] for e in found.to_json()["scenarios"]] == ["stop.time", "flow.1.bytes"]
    # With the same flows they are, unless runs delivered more or less.
    text = text.replace('flow."*".bytes = "200k"\n', "").replace("runs = 5", "runs = 6")
    both(tmp_path / "same", change, plan(text))
    found = diverge.of_folder(tmp_path / "same")
    assert found is not None
    assert {r.verdict for r in found.rows if r.metric == "retransmissions"} == {diverge.DIFFER}
    assert not any(r.verdict == diverge.APART for r in found.rows)

    def less(flow: dict[str, Any], run: int) -> None:
        change(flow, run)
        flow["bytes"] = flow["bytes"] // 2

    both(tmp_path / "less", less, plan(text))
    found = diverge.of_folder(tmp_path / "less")
    assert found is not None
    assert {r.verdict for r in found.rows if r.metric == "retransmissions"} == {diverge.APART}


METRICS = ("goodput", "retransmissions", "srtt")


def test_times_of_transfers_that_were_cut_off_stay_open(tmp_path: Path, lock: Path) -> None:
    def change(flow: dict[str, Any], run: int) -> None:
        if run == 5:
            flow |= {"finished": False, "last_byte_s": None}
        else:
            slower(0.5)(flow, run)

    both(tmp_path, change, plan(TEXT.replace('"timeouts"]', '"delay"]')))
    found = diverge.of_folder(tmp_path)
    assert found is not None
    rows = [r for r in found.rows if r.metric == "delay"]
    assert {r.verdict for r in rows} == {diverge.OPEN}
    assert {r.unfinished for r in rows} == {("", "1 of 5 transfers unfinished")}
    # What is known of the others says nothing, and each mean is the least that it can be.
    assert all(r.words()[2].startswith("≥ ") and r.words()[3:5] == ["-", "-"] for r in rows)
    assert "(1 of 5 transfers unfinished)" in rows[0].words()[2]
    assert any("on emu: 4 of 20 transfers were cut off" in note for note in found.notes())


def test_where_all_were_cut_off_the_least_is_known(tmp_path: Path, lock: Path) -> None:
    def change(flow: dict[str, Any], _run: int) -> None:
        flow |= {"finished": False, "last_byte_s": None}

    both(tmp_path, change, plan(TEXT.replace('"timeouts"]', '"delay"]')))
    found = diverge.of_folder(tmp_path)
    assert found is not None
    rows = [r for r in found.rows if r.metric == "delay"]
    assert {r.verdict for r in rows} == {diverge.OPEN}
    assert all(r.words()[2].startswith("≥ ") for r in rows)
    every = list(diverge.results_by_substrate(tmp_path).values())
    with style.context(2):
        figure, _, caption = beside.substrates(every, found, "delay")
        figure.draw_without_rendering()
    # A caption stands for itself where a figure is taken out of its report.
    assert "On emu: 20 of 20 transfers were cut off" in caption
    signs = [t.get_text() for t in figure.axes[0].texts]
    assert signs.count("≥") == len(rows) and "0" not in signs


def test_divergence_is_in_files_report_and_on_the_screen(tmp_path: Path, lock: Path) -> None:
    both(tmp_path, slower(0.7), plan(TEXT, "emu.runs=6"))
    done = CliRunner().invoke(cli.app, ["diverge", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "differ" in done.stdout
    told = json.loads((tmp_path / "divergence.json").read_text())
    table = pd.read_parquet(tmp_path / "divergence.parquet")
    assert len(told["rows"]) == len(table) == 8
    row = next(r for r in told["rows"] if r["verdict"] == "differ")
    assert row["relative"]["high"] < -0.1
    # p is corrected over the cells of a table, and both are told; nothing is tested of zeros.
    assert told["correction"] == "Holm, over the cells of each table"
    assert all(r["p"] is None or r["p_holm"] >= r["p"] for r in told["rows"])
    assert any(r["p"] is not None and r["p_holm"] > r["p"] for r in told["rows"])
    assert "corrected by Holm" in " ".join(done.stdout.split())
    assert row["reference"]["estimate"] > row["other"]["estimate"]
    from wifu.report import write

    page = write(Results(tmp_path)).read_text()
    assert "emu against sim" in page
    svg = (tmp_path / "figures/divergence-goodput.svg").read_text()
    assert ">hops, stack</text>" in svg
    assert (tmp_path / "figures/divergence-goodput.pdf").exists()
    alone = write(Results(tmp_path / "emu")).read_text()
    assert "emu against sim" not in alone
    assert "no value" in alone  # of timeouts


def stamped_runs(scenario: dict[str, Any]) -> FakeResult:
    """A runner on emu that was in time, but for each second run."""
    outcome = json.loads(fake(scenario).json())
    verdict = "VALID" if scenario["run"] % 2 else "SUSPECT"
    outcome["stamp"] = {"verdict": verdict, "reasons": [], "gone": []}
    return FakeResult(outcome, {})


def test_results_of_one_substrate_inside_are_found(tmp_path: Path, lock: Path) -> None:
    alone, two = tmp_path / "alone", tmp_path / "two"
    Campaign(plan().variant("emu"), Store(alone).on("emu"), stamped_runs).start()
    for given in (alone, alone / "emu"):
        assert wifu.load(given).plan.substrate == "emu"
    done = CliRunner().invoke(cli.app, ["report", str(alone)])
    assert done.exit_code == 0, done.output
    page = (alone / "emu" / "report.html").read_text()
    assert '<dt>stamps</dt><dd class="">12 VALID, 8 SUSPECT</dd>' in page
    with pytest.raises(LabError, match="no results on live; it has some on emu"):
        wifu.load(alone, on="live")
    with pytest.raises(LabError, match="did you mean"):
        wifu.load(alone, on="sin")
    with pytest.raises(LabError, match=r"holds no results: no run\.json"):
        wifu.load(tmp_path)
    # Where the simulator's are there, they are meant, and the others by name.
    both(two, slower(1.0))
    assert wifu.load(two).plan.substrate == "sim"
    assert wifu.load(two, on="emu").plan.substrate == "emu"


def test_report_renews_all_substrates_and_tells_their_stamps(tmp_path: Path, lock: Path) -> None:
    Campaign(plan(), Store(tmp_path), fake).start()
    Campaign(plan().variant("emu"), Store(tmp_path).on("emu"), stamped_runs).start()
    done = CliRunner().invoke(cli.app, ["report", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert (
        "Stamps of the runs on emu: 12 VALID, 8 SUSPECT." in (tmp_path / "report.html").read_text()
    )
    assert (tmp_path / "emu" / "report.html").exists()
    figure = tmp_path / "one.svg"
    words = ["plot", str(tmp_path), "--on", "emu", "x=hops", "-o", str(figure)]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0 and figure.exists(), done.output


@pytest.mark.parametrize("table", ["emu", "sim"])
def test_a_cell_that_a_substrate_skips_is_told_with_the_rule(
    tmp_path: Path, lock: Path, table: str
) -> None:
    text = TEXT.replace("[emu]\n", "[emu]\nskip = [{ hops = 2 }]\n")
    if table == "sim":
        text = TEXT + "[sim]\nskip = [{ hops = 2 }]\n"
    both(tmp_path, slower(1.0), plan(text))
    found = diverge.of_folder(tmp_path)
    assert found is not None
    cells = [r.labels["hops"] for r in _goodput(found) if r.verdict == diverge.SKIPPED]
    assert cells == [2, 2]
    assert {r.labels["hops"] for r in found.rows if r.verdict == diverge.ABSENT} == {1}
    (said,) = [note for note in found.notes() if note.startswith("skipped: ")]
    assert said.startswith(f"skipped: {table} leaves out hops = 2 ({table}.skip), and was not run")
    assert {r["why"] for r in found.to_json()["rows"]} == {
        "",
        f"{table} leaves out hops = 2 ({table}.skip)",
    }
    skipped = [r for r in _goodput(found) if r.labels["hops"] == 2]
    assert len(skipped) == 2
    assert {(r.reference.n, r.other.n) for r in skipped} == {(8, 0) if table == "emu" else (0, 5)}
    for command in ("diverge", "report"):
        done = CliRunner().invoke(cli.app, [command, str(tmp_path)])
        assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text()
    assert "<span class='verdict none'>skipped</span>" in page
    assert "<span class='verdict none'>absent</span>" not in page
    drawn = [part for part in page.split("<figcaption>") if "on sim, emu" in part]
    assert page.count(f"Skipped: {table} leaves out hops = 2") >= 1 and drawn
    # So does the report of the substrate itself, and each of its figures.
    own = tmp_path / "emu" / "report.html" if table == "emu" else tmp_path / "report.html"
    told = f"Skipped, as the plan leaves them out: hops = 2 ({table}.skip)."
    assert own.read_text().count(told) >= 2


def test_divergence_needs_two_substrates(tmp_path: Path) -> None:
    Campaign(plan(), Store(tmp_path), fake).start()
    with pytest.raises(LabError, match="fewer than two substrates"):
        cli.diverge(tmp_path)
    with pytest.raises(LabError, match="there holds no results"):
        cli.diverge(tmp_path / "there")


def test_claims_have_a_column_for_each_substrate(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both(tmp_path / "r", slower(0.7))
    given = {
        "id": "X-1", "says": "fast", "source": "here", "type": "HARD", "plan": "fake",
        "check": [
            {
                "name": "ours", "kind": "value", "metric": "goodput", "at_least": 11.0,
                "of": {"stack": "ours", "hops": 1},
            }
        ],
    }  # fmt: skip
    monkeypatch.setattr(published, "load", lambda: [published._claim(given)])
    known = {"fake": claimed.identified(plan())}
    monkeypatch.setattr(claimed, "shipped", lambda: known)
    done = CliRunner().invoke(cli.app, ["claims", "-r", str(tmp_path), "--json"])
    (told,) = json.loads(done.stdout)
    assert (told["verdict"], told["on"]["emu"]["verdict"]) == ("PASS", "FAIL")
    assert done.exit_code == cli.FAILED
    shown = CliRunner().invoke(cli.app, ["claims", "-r", str(tmp_path)]).stdout
    assert "sim PASS, emu FAIL" in shown


def test_results_of_a_substrate_resume_by_themselves(tmp_path: Path, lock: Path) -> None:
    both(tmp_path, slower(1.0))
    store = Store(tmp_path).on("emu")
    store.path_of("1_ours", 3).unlink()
    runs: list[int] = []

    def counted(scenario: dict[str, Any]) -> Any:
        runs.append(scenario["run"])
        return outcome_as(slower(1.0))(scenario)

    summary = Campaign(store.plan(), store, counted).resume()
    assert (runs, summary.missing) == ([3], 0)
    manifest = store.manifest()
    assert (manifest["substrate"], manifest["workers"]) == ("emu", 1)
    assert manifest["stamps"] == {"VALID": 0, "SUSPECT": 0, "INVALID": 0}


def test_pairs_of_several_cells_are_an_error_with_words(tmp_path: Path) -> None:
    Campaign(plan(), Store(tmp_path), fake).start()
    with pytest.raises(LabError, match="stack ours is more than one cell"):
        Results(tmp_path).pairs("goodput", {"stack": "ours"}, {"stack": "kernel", "hops": 1})


# Stamps -------------------------------------------------------------------------------------------

VALID = {"verdict": "VALID", "reasons": [], "gone": []}
LATE = {"verdict": "INVALID", "reasons": ["median lateness 2000.0 us"], "gone": []}
GONE = {"verdict": "INVALID", "reasons": ["device or namespace is gone: n2"], "gone": ["n2"]}


@pytest.fixture
def stamps(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the emulation says of one attempt after the other; nothing is emulated."""
    given: list[dict[str, Any]] = []

    class Net:
        hosts: ClassVar[dict[str, Any]] = {}

        def __init__(self, *words: str, **more: Any) -> None:
            pass

        def start(self) -> None:
            pass

        def stop(self) -> None:
            pass

        def links(self) -> list[Any]:
            return []

        def nodes(self) -> list[Any]:
            return []

        def status(self) -> dict[str, Any]:
            return given.pop(0)

    class Flows:
        def __init__(self, places: Any, scenario: Any, *rest: Any) -> None:
            self.scenario = scenario

        def run(self, crew: Any) -> Any:
            assert list(crew.folder.iterdir()) == [crew.folder / "scenario.toml"], "of another run"
            (crew.folder / "left").touch()
            return json.loads(outcome_as(lambda flow, run: None)(self.scenario).json())

    monkeypatch.setattr(emulated, "Emulation", Net)
    monkeypatch.setattr(emulated, "Traffic", Flows)
    monkeypatch.setattr(emulated, "beside", lambda *words: {})
    monkeypatch.setattr(program, "find_program", lambda: Path("/bin/true"))
    return given


def test_a_run_whose_host_is_gone_fails_and_is_not_made_again(
    tmp_path: Path, lock: Path, stamps: list[dict[str, Any]]
) -> None:
    stamps += [GONE, VALID]
    chosen = plan(TEXT, "hops=1", "stack=ours", "emu.runs=1").variant("emu")
    summary = Campaign(chosen, Store(tmp_path), Emulated({}, 60)).start()
    assert summary.failed == [("1_ours", 1, "RunError: device or namespace is gone: n2")]
    assert stamps == [VALID]


@pytest.mark.parametrize(
    ("given", "settings", "rejected", "ok"),
    [
        ([VALID], {}, 0, True),
        ([LATE, LATE, VALID], {}, 2, True),
        ([LATE, VALID], {"repeats": 1}, 1, True),
        ([LATE, LATE, LATE, VALID], {}, 3, False),
        ([LATE, VALID], {"repeats": 0}, 1, False),
        ([LATE, GONE, VALID], {}, 1, False),
    ],
)
def test_a_run_stamped_invalid_is_made_again(
    tmp_path: Path, lock: Path, stamps: list[dict[str, Any]], given: list[dict[str, Any]],
    settings: dict[str, Any], rejected: int, ok: bool,
) -> None:  # fmt: skip
    stamps[:] = given
    runner, said = Emulated(settings, 60), list[str]()
    runner.told = said.append
    chosen = plan(TEXT, "hops=1", "stack=ours", "emu.runs=1").variant("emu")
    Campaign(chosen, Store(tmp_path), runner).start()
    record = Store(tmp_path).load("1_ours", 1)
    assert record is not None
    assert (record.ok, len(record.repeated)) == (ok, rejected)
    assert stamps == ([] if ok else [VALID]), "what is not needed is not run"
    for attempt in record.repeated:
        assert (attempt["verdict"], attempt["reasons"]) == ("INVALID", LATE["reasons"])
        (rate,) = attempt["goodput_bps"]
        assert 1e6 < rate < 20e6
    assert len(said) == min(rejected, settings.get("repeats", 2))
    assert all(text.startswith("1_ours run 1: again, stamped INVALID") for text in said)


class Unsteady:
    """A runner whose first attempts at some runs are stamped INVALID."""

    repeats = 2

    def __init__(self, invalid: dict[tuple[int, int], int]) -> None:
        """`invalid`: how many of them, by hops and number of the run."""
        self.invalid = invalid

    def told(self, text: str) -> None:
        pass

    def __call__(self, scenario: dict[str, Any]) -> FakeResult:
        key = (int(scenario["topology"]["words"][-1]) - 1, scenario["run"])
        if self.invalid.get(key, 0) > 0:
            self.invalid[key] -= 1
            attempt = {"verdict": "INVALID", "reasons": ["late"], "goodput_bps": [1e6]}
            raise InvalidRun("stamped INVALID: late", attempt)
        outcome = json.loads(outcome_as(lambda flow, run: None)(scenario).json())
        outcome["stamp"] = {"verdict": "VALID", "reasons": []}
        return FakeResult(outcome, {})


def test_attempts_stamped_invalid_are_told_by_run_and_cell(tmp_path: Path, lock: Path) -> None:
    chosen = plan(TEXT, "stack=ours").variant("emu")
    store = Store(tmp_path)
    runner = Unsteady({(1, 1): 1, (1, 3): 2, (2, 4): 1, (1, 5): 4})
    summary = Campaign(chosen, store, runner).start()
    assert [(cell, run) for cell, run, _ in summary.failed] == [("1_ours", 5)]
    manifest = store.manifest()
    assert manifest["stamps"] == {"VALID": 9, "SUSPECT": 0, "INVALID": 1}
    assert manifest["rejected"] == {
        "attempts": 7, "runs": 4, "failed": 1,
        "cells": {
            "1_ours": {"invalid": 6, "attempts": 10}, "2_ours": {"invalid": 1, "attempts": 6},
        },
    }  # fmt: skip
    table = pd.read_parquet(tmp_path / "runs.parquet")
    count = dict(
        zip(table["cell"] + "/" + table["run"].astype(str), table["repeated"], strict=True)
    )
    assert {name: n for name, n in count.items() if n} == {
        "1_ours/1": 1, "1_ours/3": 2, "1_ours/5": 3, "2_ours/4": 1,
    }  # fmt: skip
    assert len(count) == 10
    told = [
        "Stamps of the runs: 9 VALID, 0 SUSPECT, 1 INVALID.",
        "Attempts stamped INVALID: 7, of 4 runs; 3 of these runs came out, 1 failed. "
        "By cell, of all attempts: 1_ours 6 of 10, 2_ours 1 of 6.",
        "More than 20 % of the attempts were INVALID in 1_ours. Lateness may depend on the load",
    ]
    text = report.write(Results(tmp_path)).read_text()
    with screen.screen.capture() as shown:
        screen.tell(tmp_path, summary)
    for sentence in told:
        assert sentence in text
        assert sentence in " ".join(shown.get().split())
    # What was rejected before still counts when a run that failed is made again.
    assert Campaign(chosen, store, runner).resume(retry_failed=True).failed == []
    record = store.load("1_ours", 5)
    assert record is not None
    assert (record.ok, len(record.repeated)) == (True, 4)
    found = store.manifest()["rejected"]
    assert (found["attempts"], found["runs"], found["failed"]) == (8, 4, 0)
    assert found["cells"]["1_ours"] == {"invalid": 7, "attempts": 12}


# Lock and limits ----------------------------------------------------------------------------------


def test_one_campaign_in_real_time_waits_for_another(tmp_path: Path) -> None:
    path, said, got = tmp_path / "lock", list[str](), list[float]()

    def second() -> None:
        with hostlock.exclusive("two", said.append, path):
            got.append(time.monotonic())

    with hostlock.exclusive("one on emu", None, path):
        other = threading.Thread(target=second)
        other.start()
        deadline = time.monotonic() + 10
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "one on emu" in said[0]
        assert not got
        with pytest.raises(LabError, match="one on emu"), hostlock.exclusive("x", None, path, 0.0):
            raise AssertionError("two hold it")
        released = time.monotonic()
    other.join(10)
    assert got[0] >= released
    assert len(said) == 1


def test_the_lock_names_who_holds_it_now(tmp_path: Path) -> None:
    path, waited_for = tmp_path / "lock", threading.Event()

    def first() -> None:
        with hostlock.exclusive("the first, told at some length", None, path):
            waited_for.wait(10)

    other = threading.Thread(target=first)
    other.start()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not (path.exists() and path.read_text()):
        time.sleep(0.01)
    with hostlock.exclusive("the second", lambda _: waited_for.set(), path, 10.0):
        assert "the second" in hostlock.holder(path)
        assert path.read_bytes().startswith(b"{")
    assert waited_for.is_set()
    assert not path.read_bytes()
    other.join(10)


def test_runs_in_real_time_hold_the_lock_and_never_overlap(tmp_path: Path, lock: Path) -> None:
    running, most = 0, 0

    def slow(scenario: dict[str, Any]) -> FakeResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        with pytest.raises(LabError), hostlock.exclusive("x", None, lock, 0.0):
            raise AssertionError("not held")
        time.sleep(0.005)
        running -= 1
        return fake(scenario)

    summary = Campaign(plan().variant("emu"), Store(tmp_path / "r"), slow, workers=8).start()
    assert (most, summary.failed) == (1, [])


def test_a_run_that_hangs_fails_and_the_campaign_goes_on(tmp_path: Path) -> None:
    chosen = plan(TEXT, "runs=3", "hops=1")
    start = time.monotonic()
    summary = Campaign(chosen, Store(tmp_path), Timed(sleepy, 8.0), workers=2).start()
    assert time.monotonic() - start < 60
    assert sorted((c, r) for c, r, _ in summary.failed) == [("1_kernel", 2), ("1_ours", 2)]
    assert all("run_timeout" in error for _, _, error in summary.failed)
    assert summary.done == 6


def test_a_limit_changes_nothing_else() -> None:
    scenario = plan().scenario_of(plan().cells[0], 1) | {"record": {"series": True}}
    one, two = fake(scenario), Timed(fake, 60.0)(scenario)
    assert one.json() == two.json()
    assert one.series_names() == sorted(two.series_names())
    assert all(one.series(n) == two.series(n) for n in one.series_names())


def test_files_of_killed_runs_go_and_others_stay(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    names = [f"wifu-run-{dead.pid}-x", f"wifu-run-{os.getpid()}-x", "wifu-run-notes"]
    for name in names:
        (tmp_path / name).mkdir()
    sweep(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names[1:])


def test_protocols_are_as_the_testbed_has_them() -> None:
    """On emulated radios as in the simulator; results are stamped with the world."""
    flows = [
        {"from": "n1", "to": "n3", "protocol": "tcp-tahoe", "app": "bulk"},
        {"from": "n1", "to": "n3", "protocol": "tcp-tahoe,rto_min=1s", "app": "bulk"},
        {"from": "n1", "to": "n3", "protocol": "kernel:reno", "app": "bulk"},
    ]
    given = {"topology": {"set": "TB-STACK"}, "flow": flows, "stop": {"time": "1s"}}
    there, stamp = as_there(given)
    protocols = [f["protocol"] for f in there["flow"]]
    assert protocols == ["tcp-tahoe,rto_min=100ms", "tcp-tahoe,rto_min=1s", "kernel:reno"]
    assert stamp == {"world": "literal"}
    there, stamp = as_there({**given, "topology": {"set": "TB-STACK,world=driver"}})
    assert (there["flow"], stamp) == (flows, {"world": "driver"})
    assert as_there({**given, "topology": {"words": "linear,3"}})[1] == {}


# Figures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [None, 1])
def test_substrates_side_by_side(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch, columns: int | None
) -> None:
    from wifu.figures import beside, style

    both(tmp_path, slower(0.7), plan(TEXT.replace("hops = [1, 2]", "hops = '1..8'")))
    every = list(diverge.results_by_substrate(tmp_path).values())
    for results in every:
        # Of most cells nothing was lost; of the others Student's interval goes on below 0.
        some = results.runs["cell"].isin(["1_ours", "8_kernel"]) & (results.runs["run"] == 1)
        monkeypatch.setattr(results, "runs", results.runs.assign(retransmissions=some * 9.0))
    found = dataclasses.replace(
        diverge.compare(every),
        rows=tuple(
            diverge._row("retransmissions", cell, every[0], every[1], 0.1)
            for cell in every[0].plan.cells
        ),
    )
    with style.context(columns):
        figure, _, caption = beside.substrates(every, found, "retransmissions")
        style.fold(figure)
        figure.draw_without_rendering()
    assert "; n runs per cell: 8 on sim, 5 on emu; " in caption
    assert len(figure.axes) == (1 if columns is None else 2)
    assert figure.get_figwidth() == 3.5 if columns else figure.get_figwidth() <= 13
    bars: list[Any] = [p for axis in figure.axes for p in axis.patches]
    assert len(bars) == 4 and all(p.get_height() > 0 for p in bars)
    assert [t.get_text() for a in figure.axes for t in a.texts] == ["0"] * 28
    for axis in figure.axes:
        assert axis.get_ylim() == figure.axes[0].get_ylim() and axis.get_ylim()[0] == 0
        spans = [
            segment[:, 1]
            for container in axis.containers
            for part in getattr(container, "lines", ((), (), ()))[2]
            for segment in part.get_segments()
        ]
        assert spans and all(span.min() >= 0 for span in spans), "whiskers end at 0"
        names = [label.get_window_extent() for label in axis.get_xticklabels()]
        apart = [two.x1 - one.x1 for one, two in pairwise(names)]
        assert min(apart) > 8 / 72 * figure.dpi, "tilted names keep apart"
    svg = report_of(tmp_path, columns)
    assert (f'width="{3.5 * 72:g}pt"' in svg) == (columns == 1)


def report_of(folder: Path, columns: int | None) -> str:
    """The figure of substrates as the report has it drawn."""
    wide = [] if columns is None else ["--columns", str(columns)]
    done = CliRunner().invoke(cli.app, ["report", str(folder), *wide])
    assert done.exit_code == 0, done.output
    return (folder / "figures/divergence-goodput.svg").read_text()


def test_retries_of_emulated_nodes_are_those_of_the_radio() -> None:
    """With RTS they are not what links transmitted beyond the first."""
    row = {"name": "n1", "retries": 7}
    links = [{"from": "n1", "frames": 10, "attempts": 12, "tries": 17, "failed": 1}]
    node = node_of(row, links, {})
    assert (node["retries"], node["attempts"], node["tries"]) == (7, 12, 17)
    assert node["failed"] == 1


def test_what_is_said_of_two_substrates_is_said_once() -> None:
    long = "Of some cells it is to be said at length{} what their numbers are and are not, " * 3
    first, other = long.format(" (a 1, b 2)", "", ""), long.format(" (c 3)", "", "")
    assert diverge._short(first, first) == first
    told = '"Of some cells it is to be said at length what their numbers ...", as above: c 3.'
    assert diverge._short(other, first) == told
    assert diverge._short("Short (a 1).", "Short (b 2).") == "Short (a 1)."
