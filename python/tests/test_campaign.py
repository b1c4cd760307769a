import concurrent.futures
import gzip
import json
import math
import signal
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake import FakeResult, fake

import wifu
from wifu import chance
from wifu import plan as plans
from wifu.campaign import Campaign, _same, block, window_octets
from wifu.errors import LabError, ReplicateError
from wifu.plan import Plan
from wifu.rerun import again
from wifu.stamps import stamped
from wifu.store import Record, Store

TEXT = """
name = "fake"
runs = 6
baseline = "tcp-reno"
metrics = ["goodput", "jain"]
[scenario]
topology.words = "linear,{hops+1}"
[[scenario.flow]]
from = "n1"
to = "n{hops+1}"
protocol = "{protocol}"
copies = 2
[vary]
hops = "1..3"
protocol = ["tcp-reno", "tcp-newreno"]
[series]
runs = [1]
"""


def plan(*overrides: str) -> Plan:
    return plans.parse(TEXT, overrides=overrides)


def run(folder: Path, chosen: Plan, runner: Any = fake, **more: Any) -> Campaign:
    campaign = Campaign(chosen, Store(folder), runner, **more)
    campaign.start()
    return campaign


def test_a_campaign_leaves_everything_in_its_folder(tmp_path: Path) -> None:
    run(tmp_path / "r", plan())
    manifest = json.loads((tmp_path / "r/run.json").read_text())
    assert manifest["schema"] == "wifu-lab/1.0"
    assert manifest["state"] == "complete"
    assert manifest["runs_done"] == 36
    assert manifest["failed"] == []
    assert {"commit", "versions", "host", "seed", "code", "order", "plan_sha256"} <= set(manifest)
    assert sorted(map(tuple, manifest["order"])) == sorted(
        (c.name, r) for c in plan().cells for r in range(1, 7)
    )
    flows = pd.read_parquet(tmp_path / "r/results.parquet")
    assert len(flows) == 36 * 2
    assert {"cell", "hops", "protocol", "run", "flow", "goodput_bps", "status"} <= set(flows)
    runs = pd.read_parquet(tmp_path / "r/runs.parquet")
    assert len(runs) == 36
    assert runs["goodput_bps"].notna().all()
    assert len(list((tmp_path / "r/series").iterdir())) == 6
    assert (tmp_path / "r/plan.toml").exists()
    assert not (tmp_path / "r/.lock").exists()


def test_runs_whose_relays_served_nothing_are_suspect(tmp_path: Path) -> None:
    def idle(scenario: dict[str, Any]) -> FakeResult:
        result = fake(scenario)
        outcome = json.loads(result.json())
        if scenario["run"] == 2 and outcome["flows"][0]["protocol"] == "tcp-reno":
            outcome["flows"][0]["unserved"] = 31
            outcome["flows"][0]["unserved_at"] = ["n2"]
        return FakeResult(outcome, {})

    run(tmp_path / "plain", plan())
    assert {"stamps", "unserved"}.isdisjoint(Store(tmp_path / "plain").manifest())
    run(tmp_path / "r", plan(), idle)
    manifest = Store(tmp_path / "r").manifest()
    assert manifest["stamps"] == {"VALID": 33, "SUSPECT": 3, "INVALID": 0}
    assert list(manifest["unserved"].values()) == [1, 1, 1]
    assert manifest["unserved_at"] == {"tcp-reno": ["n2"]}
    runs = pd.read_parquet(tmp_path / "r/runs.parquet")
    suspect = runs[runs["stamp"] == "SUSPECT"]
    assert set(suspect["run"]) == {2} and set(suspect["protocol"]) == {"tcp-reno"}
    told = " ".join(stamped(manifest))
    assert "33 VALID, 3 SUSPECT" in told and "that they do not serve (tcp-reno at n2)" in told


def test_blocks_hold_every_cell_once_in_an_order_of_their_own(tmp_path: Path) -> None:
    chosen = plan()
    blocks = [[c.name for c, _ in block(chosen, r, chosen.cells)] for r in range(1, 7)]
    assert all(sorted(b) == sorted(c.name for c in chosen.cells) for b in blocks)
    assert len({tuple(b) for b in blocks}) > 3
    assert blocks == [[c.name for c, _ in block(plan(), r, plan().cells)] for r in range(1, 7)]
    run(tmp_path / "r", chosen)
    order = json.loads((tmp_path / "r/run.json").read_text())["order"]
    assert [c for c, _ in order] == [name for b in blocks for name in b]


def test_the_order_of_execution_changes_no_result(tmp_path: Path) -> None:
    for workers in (1, 4):
        run(tmp_path / str(workers), plan(), workers=workers)
    for path in sorted((tmp_path / "1/runs").iterdir()):
        one, four = (
            json.loads(gzip.decompress((tmp_path / w / "runs" / path.name).read_bytes()))
            for w in ("1", "4")
        )
        assert one["outcome"] == four["outcome"]


def test_an_interrupt_anywhere_in_what_waits_for_runs_ends_the_campaign(tmp_path: Path) -> None:
    """It comes before each line of the library's code in turn, which has locks of its own."""
    chosen = plan("hops=1", "protocol=tcp-reno", "runs=2")
    library = {concurrent.futures._base.__file__}
    lines = at = 0

    def hung(number: int, frame: Any) -> None:
        raise AssertionError(f"hangs after an interrupt before line {at} of the library's")

    def interrupted(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in library or frame.f_code.co_name in ("shutdown", "wait"):
            return None
        lines += event == "line"
        if event == "line" and lines == at:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupted

    before = signal.signal(signal.SIGALRM, hung)
    states = []
    try:
        for at in range(1, 200):
            lines = 0
            campaign = Campaign(chosen, Store(tmp_path / str(at)), fake, workers=2)
            signal.alarm(10)
            sys.settrace(interrupted)
            states.append(campaign.start().state)
            sys.settrace(None)
            if lines < at:
                break
    finally:
        sys.settrace(None)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    print(len(states), "lines")
    assert len(states) > 15
    assert states == ["interrupted"] * (len(states) - 1) + ["complete"]


def test_an_interrupted_campaign_resumes_without_loss(tmp_path: Path) -> None:
    calls: list[tuple[Any, int]] = []

    def interrupted(scenario: dict[str, Any]) -> FakeResult:
        calls.append((scenario["flow"][0]["protocol"], scenario["run"]))
        return fake(scenario)

    class CtrlC:
        def planned(self, total: int, done: int) -> None: ...
        def stopped(self, cells: Any, spared: int) -> None: ...
        def waiting(self, text: str) -> None: ...
        def finished(self, record: Record) -> None:
            if len(calls) >= 10:
                raise KeyboardInterrupt

    whole = tmp_path / "whole"
    run(whole, plan())
    cut = tmp_path / "cut"
    summary = Campaign(plan(), Store(cut), interrupted, workers=2, progress=CtrlC()).start()
    assert summary.state == "interrupted"
    before = {p.name: p.stat().st_mtime_ns for p in (cut / "runs").iterdir()}
    # What was under way when the interrupt came was finished and kept.
    assert len(before) == len(calls)
    assert json.loads((cut / "run.json").read_text())["state"] == "interrupted"
    (cut / "runs" / "torn-1.json.gz").write_bytes(b"\x1f\x8b torn")

    summary = Campaign(plan(), Store(cut), interrupted).resume()
    assert summary.state == "complete"
    assert len(calls) == 36
    assert all((cut / "runs" / n).stat().st_mtime_ns == t for n, t in before.items())
    one, two = (pd.read_parquet(f / "runs.parquet").drop(columns="wall_s") for f in (whole, cut))
    pd.testing.assert_frame_equal(one, two)


def test_a_torn_file_is_run_again(tmp_path: Path) -> None:
    run(tmp_path / "r", plan())
    torn = tmp_path / "r/runs/1_tcp-reno-3.json.gz"
    torn.write_bytes(torn.read_bytes()[:50])
    Campaign(plan(), Store(tmp_path / "r"), fake).resume()
    record = Store(tmp_path / "r").load("1_tcp-reno", 3)
    assert record is not None
    assert record.ok


def test_failed_runs_are_failed_not_missing(tmp_path: Path) -> None:
    text = TEXT.replace("copies = 2", "copies = 2\nexplode = true")
    chosen = plans.parse(text)
    run(tmp_path / "r", chosen)
    manifest = Store(tmp_path / "r").manifest()
    assert manifest["state"] == "complete"
    assert len(manifest["failed"]) == 6
    assert manifest["failed"][0]["error"] == "RuntimeError: exploded"
    results = wifu.load(tmp_path / "r")
    runs = results.to_pandas().drop_duplicates(["cell", "run"])
    assert (runs["status"] == "failed").sum() == 6
    assert results.summary()["n"].tolist() == [5] * 6
    calls = []

    def mended(scenario: dict[str, Any]) -> FakeResult:
        calls.append(scenario["run"])
        return fake({**scenario, "flow": [{**f, "explode": False} for f in scenario["flow"]]})

    Campaign(chosen, Store(tmp_path / "r"), mended).resume()
    assert calls == []
    Campaign(chosen, Store(tmp_path / "r"), mended).resume(retry_failed=True)
    assert calls == [2] * 6
    assert Store(tmp_path / "r").manifest()["failed"] == []


def test_a_crash_that_is_no_exception_is_a_failed_run_too(tmp_path: Path) -> None:
    class Panic(BaseException):
        pass

    def panics(scenario: dict[str, Any]) -> FakeResult:
        if scenario["run"] == 3:
            raise Panic("index out of bounds")
        return fake(scenario)

    run(tmp_path / "r", plan("hops=1"), panics)
    assert [f["error"] for f in Store(tmp_path / "r").manifest()["failed"]] == [
        "Panic: index out of bounds"
    ] * 2


def test_identical_replicates_are_refused(tmp_path: Path) -> None:
    def constant(scenario: dict[str, Any]) -> FakeResult:
        return fake({**scenario, "run": 1})

    def unlucky(scenario: dict[str, Any]) -> FakeResult:
        made = constant(scenario)
        made._outcome["trace_hash"] = f"{scenario['run']:016x}"
        return made

    with pytest.raises(ReplicateError, match="5 replicates gave identical results: they are one"):
        run(tmp_path / "r", plan(), constant)
    assert Store(tmp_path / "r").manifest()["state"] == "failed"
    with pytest.raises(ReplicateError, match="2 replicates"):
        run(tmp_path / "two", plan("runs=2"), constant)
    chosen = plans.parse(TEXT.replace("runs = 6", "deterministic = true"))
    run(tmp_path / "once", chosen, constant)
    assert Store(tmp_path / "once").manifest()["runs_done"] == 6
    with pytest.raises(
        ReplicateError, match=r"another run has other results .*something is random"
    ):
        run(tmp_path / "random", chosen)
    # Where packets are lost at random, that none was yet is chance.
    for n, (loss, few) in enumerate([("0.01%", True), ("0", False), ("0.0%", False)]):
        words = f"linear,{{hops+1}},wire=8mbit,loss={loss}"
        lossy = plans.parse(TEXT.replace("linear,{hops+1}", words))
        if few:
            run(tmp_path / f"l{n}", lossy, unlucky)
            assert Store(tmp_path / f"l{n}").manifest()["state"] == "complete"
        else:
            with pytest.raises(ReplicateError):
                run(tmp_path / f"l{n}", lossy, unlucky)


def test_one_known_value_is_not_the_same_as_others(tmp_path: Path) -> None:
    """As of a window that four of five runs ended too early for."""
    assert not _same([1.0, math.nan, math.nan])
    assert _same([1.0, math.nan, 1.0]) and not _same([1.0, 2.0])


@pytest.mark.parametrize(
    ("scenario", "seldom"),
    [
        ({"handler": [{"use": "drop", "p": 0.001}]}, True),
        ({"topology": {"wire": [{"loss": 0.0}]}, "handler": [{"p": 0}]}, False),
        ({"topology": {"wire": [{"variation": "2ms"}]}}, True),
        ({"topology": {"words": "linear,2,wire=1mbit,loss=1e-5"}}, True),
        ({"topology": {"words": "linear,2,snr=20"}}, False),
        ({"topology": {"wire": [{"loss": "0.0%", "variation": "0ms"}]}}, False),
        ({"handler": [{"use": "drop"}]}, True),
        ({"loss": "1%"}, True),
    ],
)
def test_what_happens_seldom_at_random(scenario: dict[str, Any], seldom: bool) -> None:
    assert chance.seldom(scenario) == seldom


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({"retransmissions": 9}, "retransmissions"),
        ({"finished": False, "last_byte_s": None}, "delay"),
    ],
)
def test_all_metrics_of_a_deterministic_plan_are_the_same_again(
    tmp_path: Path, second: dict[str, Any], told: str
) -> None:
    """Not only the first that it names: whether all finish hides a good deal."""

    def nearly(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake({**scenario, "run": 1}).json())
        if scenario["run"] == 2:
            outcome["flows"][0] |= second
        return FakeResult(outcome, {})

    text = TEXT.replace("runs = 6", "deterministic = true").replace("goodput", "srtt")
    with pytest.raises(ReplicateError, match=rf"another run has other results \({told}"):
        run(tmp_path / "r", plans.parse(text), nearly)


def test_flows_that_share_a_full_wire_differently_are_no_identical_replicates(
    tmp_path: Path,
) -> None:
    """What they carry together is the wire's rate in every run."""

    def full(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        one = outcome["flows"][0]
        other = {**one, "id": 2, "last_byte_s": 1.0 + 0.1 * scenario["run"]}
        outcome["flows"] = [{**one, "last_byte_s": 2.0}, other]
        return FakeResult(outcome, {})

    chosen = plans.parse(TEXT.replace('"goodput", "jain"', '"aggregate"'), overrides=["hops=1"])
    run(tmp_path / "r", chosen, full)
    assert Store(tmp_path / "r").manifest()["state"] == "complete"


def test_cells_in_which_nothing_arrives_are_not_identical_replicates(tmp_path: Path) -> None:
    def dead(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for flow in outcome["flows"]:
            flow |= {"bytes": 0, "finished": False, "last_byte_s": None}
        return FakeResult(outcome, {})

    run(tmp_path / "r", plan("hops=1"), dead)
    assert Store(tmp_path / "r").manifest()["state"] == "complete"


def test_repeating_until_the_interval_is_narrow(tmp_path: Path) -> None:
    text = TEXT.replace("runs = 6", 'until = { metric = "goodput", ci = "4%", min = 10, max = 60 }')
    chosen = plans.parse(text)
    run(tmp_path / "r", chosen, workers=2)
    results = wifu.load(tmp_path / "r")
    summary = results.summary("goodput")
    half = (summary["high"] - summary["low"]) / 2 / summary["mean"]
    assert (half <= 0.04).all()
    assert summary["n"].between(10, 59).all()
    assert summary["n"].nunique() > 1
    # Protocols that are compared get the same number of runs.
    assert (summary.groupby("hops")["n"].nunique() == 1).all()
    assert results.wide() == []
    vague = plans.parse(text.replace("4%", "1%").replace("max = 60", "max = 11"))
    run(tmp_path / "vague", vague)
    assert len(wifu.load(tmp_path / "vague").wide()) == 6
    run(tmp_path / "one", chosen, workers=1)
    assert wifu.load(tmp_path / "one").summary("goodput")["n"].tolist() == summary["n"].tolist()


def test_runs_that_failed_do_not_make_up_the_runs_before_a_stop(tmp_path: Path) -> None:
    text = TEXT.replace("runs = 6", 'until = { ci = "90%", min = 10, max = 60 }')
    chosen = plans.parse(text.replace("copies = 2", "copies = 2\nexplode = true"))
    run(tmp_path / "r", chosen)
    assert Store(tmp_path / "r").manifest()["runs_done"] == 6 * 11
    assert wifu.load(tmp_path / "r").summary()["n"].tolist() == [10] * 6


def test_a_metric_without_its_facts_fails_the_run_and_is_told(tmp_path: Path) -> None:
    def older(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for link in outcome["links"]:
            del link["overheard_frames"]
        return FakeResult(outcome, {})

    run(tmp_path / "plain", plan("hops=3"), older)
    results = wifu.load(tmp_path / "plain")
    assert (results.runs["status"] == "ok").all()
    with pytest.raises(LabError, match="passive_loss needs overheard_frames"):
        results.sample("passive_loss")
    text = TEXT.replace('"jain"', '"passive_loss"').replace("[series]\nruns = [1]", "")
    run(tmp_path / "asked", plans.parse(text, overrides=["hops=3"]), older)
    failed = Store(tmp_path / "asked").manifest()["failed"]
    assert len(failed) == 12
    assert "passive_loss needs overheard_frames" in failed[0]["error"]


def test_changed_plans_and_code_are_refused_unless_told(tmp_path: Path) -> None:
    run(tmp_path / "r", plan())
    with pytest.raises(LabError, match="already holds results"):
        run(tmp_path / "r", plan())
    longer = plan("runs=8")
    with pytest.raises(LabError, match="the plan changed"):
        Campaign(longer, Store(tmp_path / "r"), fake).resume()

    def other(scenario: dict[str, Any]) -> FakeResult:
        return fake(scenario)

    other.code = "0123456789abcdef"  # type: ignore[attr-defined]
    with pytest.raises(LabError, match=r"the code .given then, 0123456789abcdef now. changed"):
        Campaign(plan(), Store(tmp_path / "r"), other).resume()
    with pytest.raises(LabError, match="has the seed 1, and the plan 2"):
        Campaign(plan("seed=2"), Store(tmp_path / "r"), fake).resume(accept_changes=True)
    Campaign(longer, Store(tmp_path / "r"), other).resume(accept_changes=True)
    manifest = Store(tmp_path / "r").manifest()
    assert manifest["code"] == ["0123456789abcdef", "given"]
    assert manifest["runs_done"] == 48
    assert "resumed although" in manifest["notes"][0]
    assert Store(tmp_path / "r").plan().runs == 8


def test_results_name_the_libraries_that_they_were_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "libown.so"
    library.write_text("one")
    monkeypatch.setenv("WIFU_LOAD", str(library))
    run(tmp_path / "r", plan())
    (row,) = Store(tmp_path / "r").manifest()["libraries"]
    assert row["name"] == "libown.so" and len(row["sha256"]) == 16
    monkeypatch.delenv("WIFU_LOAD")
    with pytest.raises(LabError, match=r"were made with libown\.so: set WIFU_LOAD"):
        Campaign(plan(), Store(tmp_path / "r"), fake).resume()
    with pytest.raises(LabError, match=r"were made with libown\.so: set WIFU_LOAD"):
        again(Store(tmp_path / "r"), None, None, 1, fake)
    library.write_text("another")
    monkeypatch.setenv("WIFU_LOAD", str(library))
    with pytest.raises(LabError, match=rf"the library libown\.so \({row['sha256']} then"):
        Campaign(plan(), Store(tmp_path / "r"), fake).resume()


def test_records_of_another_scenario_are_not_taken(tmp_path: Path) -> None:
    run(tmp_path / "r", plan())
    changed = plans.parse(TEXT.replace("copies = 2", "copies = 3"))
    Campaign(changed, Store(tmp_path / "r"), fake).resume(accept_changes=True)
    flows = pd.read_parquet(tmp_path / "r/results.parquet")
    assert len(flows) == 36 * 3


def test_two_campaigns_in_a_folder_are_refused(tmp_path: Path) -> None:
    inside: list[str] = []

    def nested(scenario: dict[str, Any]) -> FakeResult:
        if not inside:
            inside.append("")
            with pytest.raises(LabError, match="another campaign writes here"):
                Campaign(plan(), Store(tmp_path / "r"), fake).resume()
            inside[0] = "refused"
        return fake(scenario)

    run(tmp_path / "r", plan(), nested, workers=1)
    assert inside == ["refused"]


def test_any_executor_of_that_shape_will_do(tmp_path: Path) -> None:
    class Counting(ThreadPoolExecutor):
        submitted = 0

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            Counting.submitted += 1
            return super().submit(fn, *args, **kwargs)

    run(tmp_path / "r", plan(), executor=Counting(3), workers=3)
    assert Counting.submitted == 36


def test_runs_overlap(tmp_path: Path) -> None:
    def slow(scenario: dict[str, Any]) -> FakeResult:
        time.sleep(0.1)
        return fake(scenario)

    start = time.perf_counter()
    run(tmp_path / "r", plan(), slow, workers=12)
    assert time.perf_counter() - start < 36 * 0.1


def test_a_repetition_compares_octet_for_octet(tmp_path: Path) -> None:
    run(tmp_path / "r", plan())
    done = again(Store(tmp_path / "r"), None, None, 2, runner=fake)
    assert (done.equal, done.differ) == (36, [])

    def drifts(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        outcome["events"] += scenario["run"] == 2
        return FakeResult(outcome, {})

    done = again(Store(tmp_path / "r"), "1_tcp-reno", None, 2, runner=drifts)
    assert done.differ == ["1_tcp-reno run 2: events"]
    assert done.equal == 5
    with pytest.raises(LabError, match="did you mean `1_tcp-reno`"):
        again(Store(tmp_path / "r"), "1_tcp-rno", None, 2, runner=fake)


def test_goodput_inside_a_window(tmp_path: Path) -> None:
    chosen = plans.parse(
        TEXT.replace("runs = 6", 'runs = 3\nmeasure = { mode = "window", from = "0.1s", to = 0.5 }')
    )
    run(tmp_path / "r", chosen)
    results = wifu.load(tmp_path / "r")
    assert (results.summary("goodput")["mean"] > 0.5).all()
    raw = np.array([[0.1, 10.0], [0.2, 30.0], [0.4, 60.0]]).astype("<f8").tobytes()
    assert window_octets(raw, 0.1, 0.3) == 20.0
    assert window_octets(raw, 0.0, 1.0) == 60.0
    assert window_octets(b"", 0.0, 1.0) == 0.0


def test_excluded_runs_do_not_count(tmp_path: Path) -> None:
    run(tmp_path / "r", plan())
    store = Store(tmp_path / "r")
    manifest = store.manifest()
    manifest["exclusions"] = [{"cell": "1_tcp-reno", "run": 2, "reason": "the host was asleep"}]
    store.write_manifest(manifest)
    store.write_tables(store.plan())
    results = wifu.load(tmp_path / "r")
    assert results.summary()["n"].tolist() == [5, 6, 6, 6, 6, 6]
    x, y = results.pairs(
        "goodput", {"hops": 1, "protocol": "tcp-reno"}, {"hops": 1, "protocol": "tcp-newreno"}
    )
    assert len(x) == len(y) == 5


def test_another_schema_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "r", plan())
    path = tmp_path / "r/run.json"
    path.write_text(path.read_text().replace("wifu-lab/1.0", "wifu-lab/2.0"))
    with pytest.raises(LabError, match=r"has schema wifu-lab/2\.0"):
        wifu.load(tmp_path / "r")
    with pytest.raises(LabError, match="holds no results"):
        wifu.load(tmp_path)


def test_an_edited_measure_makes_tables_anew(tmp_path: Path) -> None:
    """They were those of the old one, under the words of the new."""

    def late(scenario: dict[str, Any]) -> FakeResult:
        outcome = json.loads(fake(scenario).json())
        for flow in outcome["flows"]:
            flow["first_byte_s"] = 0.5 * flow["last_byte_s"]
        return FakeResult(outcome, {})

    folder = tmp_path / "r"
    run(folder, plan("hops=1", "runs=2"), late)
    before = wifu.load(folder)
    path = folder / "plan.toml"
    text = path.read_text()
    path.write_text('measure = "receiver"\n' + text)
    now = wifu.load(folder)
    assert (now.runs["goodput_bps"] > 1.5 * before.runs["goodput_bps"]).all()
    again = pd.read_parquet(folder / "runs.parquet")
    assert again["goodput_bps"].tolist() == now.runs["goodput_bps"].tolist()
    path.write_text('measure = { mode = "window", from = "0s", to = "1s" }\n' + text)
    with pytest.raises(LabError, match="a window is counted when it is run"):
        wifu.load(folder)
    path.write_text(text)
    assert wifu.load(folder).runs["goodput_bps"].tolist() == before.runs["goodput_bps"].tolist()
