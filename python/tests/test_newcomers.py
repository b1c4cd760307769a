"""What people meet who do not know the lab yet: slips of the pen, interrupts, words."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake import CHAIN, FakeResult, fake
from typer.testing import CliRunner

import wifu
from wifu import cli, emulated, report, screen, substrates
from wifu import plan as plans
from wifu.campaign import Campaign, Summary, check_scenarios, execute
from wifu.errors import LabError, PlanError
from wifu.metrics import metric_of
from wifu.runner import Timed, dies, mesh
from wifu.ssh import PRELOAD
from wifu.store import Store

MESH = """
runs = 2
metrics = ["goodput", "jain", "srtt"]
[scenario]
topology.words = "linear,{acks+1}"
stop.time = "2s"
[[scenario.flow]]
from = "n1"
to = "n2"
protocol = "tcp-newreno"
app = "file"
bytes = 20000
jitter = "50ms"
[vary]
acks = [1, 2]
"""


def lab(*words: str, cwd: Path, code: int = 0, **more: str) -> str:
    """What `wifu-lab` says."""
    done = subprocess.run(
        [sys.executable, "-m", "wifu.cli", *words],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "400", "NO_COLOR": "1", **more},
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == code, told
    assert "Traceback" not in told
    return " ".join(told.replace("│", " ").split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan and its results."""
    folder = tmp_path_factory.mktemp("new")
    (folder / "acks.toml").write_text(MESH)
    (folder / "said.txt").write_text(lab("run", "acks.toml", "--no-report", cwd=folder))
    return folder


def interrupted(scenario: dict[str, Any]) -> FakeResult:
    raise KeyboardInterrupt


@pytest.fixture
def nothing(tmp_path: Path) -> Path:
    """The folder of a campaign that was interrupted in its first run."""
    doing = Campaign(plans.parse(CHAIN), Store(tmp_path / "r"), runner=interrupted, workers=1)
    assert doing.start().state == "interrupted"
    return tmp_path / "r"


def test_of_no_run_yet_there_are_tables_a_report_and_a_word(nothing: Path) -> None:
    found = wifu.load(nothing)
    assert {"cell", "hops", "protocol", "run", "status"} <= set(found.runs.columns)
    assert found.summary()["n"].tolist() == [0, 0, 0, 0]
    assert "0 runs, interrupted" in repr(found)
    page = report.write(found).read_text()
    assert "This campaign is <b>interrupted</b>" in page
    assert "no value" in page
    told = lab("plot", str(nothing), "-o", "f.svg", cwd=nothing, code=2)
    assert "no run is done yet: wifu-lab resume" in told
    again = Campaign(plans.parse(CHAIN), Store(nothing), runner=fake)
    assert again.resume().done == 20


def test_who_is_interrupted_while_waiting_for_others_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["wifu.campaign"], "exclusive", waits)
    doing = Campaign(plans.parse(CHAIN), Store(tmp_path / "r"), runner=fake)
    doing.real = True
    with pytest.raises(KeyboardInterrupt):
        doing.start()
    assert not (tmp_path / "r").exists()


def test_a_library_that_the_program_refuses_is_told_with_what_both_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wifu").write_text(
        "#!/bin/sh\necho 'built alike but in another profile' >&2\nexit 1\n"
    )
    (tmp_path / "wifu").chmod(0o755)
    (tmp_path / PRELOAD).touch()
    (tmp_path / "libmine.so").touch()
    monkeypatch.setenv("WIFU_BIN", str(tmp_path / "wifu"))
    monkeypatch.setenv("WIFU_LOAD", str(tmp_path / "libmine.so"))
    monkeypatch.delenv("WIFU_PRELOAD", raising=False)
    wanted = "for emu and live WIFU_BIN names a program that does, too: WIFU_BIN=target/debug/wifu"
    with pytest.raises(LabError, match=wanted):
        emulated.check_build(tmp_path / "wifu")
    chosen = plans.parse(CHAIN)
    assert wanted in str(chosen.scenario_error(chosen.cells[0], "WIFU_LOAD: built alike but not"))
    assert wanted not in str(chosen.scenario_error(chosen.cells[0], "WIFU_BIN: none"))


def test_a_dry_run_asks_for_the_preload_library_as_the_run_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wifu").write_text("#!/bin/sh\n")
    (tmp_path / "wifu").chmod(0o755)
    text = CHAIN.replace("copies = 2", "from = 'n1'\nto = 'n2'\napp = 'file'\nbytes = '1M'")
    (tmp_path / "plan.toml").write_text(text)
    monkeypatch.setenv("WIFU_BIN", str(tmp_path / "wifu"))
    monkeypatch.delenv("WIFU_PRELOAD", raising=False)
    asked = ["run", str(tmp_path / "plan.toml"), "--dry-run", "--on", "emu"]
    done = CliRunner().invoke(cli.app, asked)
    assert isinstance(done.exception, LabError)
    assert f"no {tmp_path}/{PRELOAD}, which flows" in str(done.exception)
    (tmp_path / PRELOAD).touch()
    assert CliRunner().invoke(cli.app, asked).exit_code == 0


@pytest.mark.parametrize(
    ("on", "plans_on", "more"),
    [("emu", '["sim", "emu"]', " --on emu"), ("emu", '["emu"]', ""), ("sim", '["sim"]', "")],
)
def test_the_hint_after_an_interrupt_goes_on_with_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    on: str, plans_on: str, more: str,
) -> None:  # fmt: skip
    from wifu import cli, conduct

    def ended(*_: object) -> Summary:
        return Summary("interrupted", 3)

    def leaves(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(conduct, "campaign", ended)
    monkeypatch.setattr(os, "_exit", leaves)
    chosen = plans.parse(f"on = {plans_on}\n{MESH}").variant(on)
    store = Store(tmp_path / "oec")
    with pytest.raises(SystemExit):
        cli._campaigns(store, [(chosen, store.on(on), Campaign.start)], 1, "threads", True, False)
    told = " ".join(capsys.readouterr().err.split())
    assert told.endswith(f"oec{more}"), told


def test_a_substrates_own_runs_are_told_beside_other_ones(folder: Path) -> None:
    (folder / "own.toml").write_text(f"{MESH}\n[emu]\nruns = 3\n")
    told = lab("run", "own.toml", "runs=2", "--on", "emu", "--dry-run", cwd=folder)
    assert "emu has 3 runs of its own here: emu.runs=N changes them" in told
    assert "in real time, one run at a time" in told
    for words in (["runs=2", "--on", "sim"], ["--on", "emu"]):
        assert "of its own" not in lab("run", "own.toml", *words, "--dry-run", cwd=folder)


def test_how_long_runs_in_real_time_take_is_told_beforehand() -> None:
    plan = plans.parse(MESH.replace("2s", "60s"), overrides=["runs=4"]).variant("emu")
    told = "in real time, one run at a time: 8 min at most, and what each takes to begin"
    assert screen.real_time(plan) == told
    ends = plans.parse(MESH.replace('stop.time = "2s"\n', "")).variant("emu")
    assert "each as long as its flows take" in screen.real_time(ends)


NAMED = (
    CHAIN.replace('baseline = "tcp-reno"', 'pair = "hops"')
    + """
[label]
hops = { title = "relays <here>", 1 = "none" }
protocol = { tcp-newreno = "$New$" }
"""
)


def test_tables_say_what_numbers_are_of_and_take_the_plans_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = CHAIN.replace('baseline = "tcp-reno"', 'pair = "hops"')
    found = wifu.campaign(plans.parse(plain), tmp_path / "a", runner=fake)
    page = report.render(found, [])
    assert "<th>hops 1</th><th>hops 3</th>" in page
    assert "Mean goodput per flow, relative to hops 1" in page
    said = list(screen._compared(found))
    assert said[0].startswith("Mean goodput per flow, relative to hops 1 (")
    assert said[1].startswith("  protocol tcp-reno: hops 3 x 0.")
    drawn = found.plot("ratio")
    assert "by that of hops 1" in drawn.get_ylabel().replace("\n", " ")

    named = wifu.campaign(plans.parse(NAMED), tmp_path / "b", runner=fake)
    page = report.render(named, [])
    assert "<th>none</th><th>relays &lt;here&gt; 3</th>" in page
    assert "relative to none" in page
    assert "<td class='label'>tcp-newreno</td>" in page, "a formula is for figures"
    table = screen._summary_table(named)
    assert [c.header for c in table.columns][:2] == ["relays <here>", "protocol"]


def test_the_screen_says_what_more_is_in_the_report(folder: Path) -> None:
    said = (folder / "said.txt").read_text()
    assert "2 more metrics, in report.html: jain, srtt" in said


@pytest.mark.parametrize("command", ["run", "report", "plot", "reproduce"])
def test_no_word_is_no_folder(folder: Path, command: str) -> None:
    what = {"run": "acks.toml", "reproduce": "wifu"}.get(command, "out/lab/acks")
    before = sorted(p.name for p in folder.iterdir())
    assert "is empty: name a file or a folder" in lab(command, what, "-o", "", cwd=folder, code=2)
    assert sorted(p.name for p in folder.iterdir()) == before


def test_a_baseline_is_of_the_only_axis_or_the_one_that_has_it() -> None:
    assert plans.parse(f"baseline = 1\n{MESH}").pair == "acks"
    assert plans.parse(MESH).pair is None
    more = f'baseline = "2"\n{MESH}"radio.attempts" = [4, 7]\n'
    with pytest.raises(PlanError, match=r'needs `pair`: .*; here pair = "acks"'):
        plans.parse(more)


def test_all_substrates_are_prepared_before_the_first_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wifu import cli

    def refused(plan: plans.Plan) -> None:
        raise LabError(f"{plan.substrate} cannot be here")

    def runs(*_: object) -> None:
        raise AssertionError("something ran")

    monkeypatch.setattr(cli, "prepare", refused)
    monkeypatch.setattr(cli, "_campaigns", runs)
    with pytest.raises(LabError, match="emu cannot be here"):
        cli.resume(folder / "out/lab/acks", on="sim,emu")


def test_a_dry_run_says_that_its_run_would_be_refused(folder: Path) -> None:
    told = lab("run", "acks.toml", "--dry-run", cwd=folder)
    assert "out/lab/acks already holds results: a run without --dry-run is refused" in told
    assert "would go to" not in told
    told = lab("run", "acks.toml", "--dry-run", "-o", "x", cwd=folder)
    assert "results would go to x" in told
    as_json = lab("run", "acks.toml", "--dry-run", "--json", cwd=folder)
    assert json.loads(as_json)["refused"] is True


WRONG = [
    (f"{MESH}\n[emu]\nruns = -2\n", "emu.runs: must be an integer, 1 or more, not -2"),
    (f'{MESH}\n[label]\nacks = ["a", "b"]\n', "acks must be text, not"),
    (f'measure = {{ mode = "window", from = "12s", to = "10s" }}\n{MESH}',
     "from is after to: 12 s and 10 s"),
    (MESH.replace("{acks+1}", "{acks+1"), "p.toml:5: scenario.topology.words: 'linear,{acks+1': a "
     "brace { is not closed"),
    (MESH.replace("{acks+1}", "{acks}+1}"), "a brace } closes none"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_slips_in_plans_are_told(text: str, message: str) -> None:
    with pytest.raises(PlanError) as error:
        plans.parse(text, Path("p.toml"))
    assert message in str(error.value)
    assert str(error.value).startswith("p.toml:")


def test_half_a_byte_is_none() -> None:
    chosen = plans.parse(MESH, Path("p.toml"), ["flow.1.bytes=1.5"])
    with pytest.raises(PlanError, match=r"flow\.1\.bytes: is a whole number of bytes, not 1\.5"):
        check_scenarios(chosen)
    check_scenarios(plans.parse(MESH, Path("p.toml"), ["flow.1.bytes=2e4"]))


def test_a_plan_that_is_no_text_is_named(folder: Path) -> None:
    (folder / "binary.toml").write_bytes(b"\x80\xff\x00")
    assert "binary.toml: is no UTF-8 text" in lab("run", "binary.toml", cwd=folder, code=2)


SAID = [
    (["run", "acks.toml", "--jobs", "0"], "'--jobs':"),
    (["plot", "out/lab/acks", "-o", "../gone/x.pdf"], "there is no folder ../gone"),
    (["report", "nothere"], "nothere holds no results: no run.json; `wifu-lab list results`"),
    (["plot", "acks"], "acks holds no results: no run.json; those of acks are in out/lab/acks"),
    (["run", "acks.toml", "-o", "acks.toml"], "acks.toml: is a file, and no folder"),
    (["report", "out/lab/acks", "-o", "nope/x.html"], "nope/x.html: no such file or directory"),
    (["report", "out/lab/acks", "-o", "out"], "out: is a folder, and no file"),
    (["report", "broken"], "broken/run.json:1: is no JSON"),
]


@pytest.mark.parametrize(("words", "message"), SAID)
def test_slips_on_the_command_line_are_told(folder: Path, words: list[str], message: str) -> None:
    (folder / "broken").mkdir(exist_ok=True)
    (folder / "broken/run.json").write_text("")
    (folder / "broken/plan.toml").write_text(MESH)
    told = lab(*words, cwd=folder, code=2)
    assert message in told
    assert not any(words in told for words in ("[Errno", "Expecting value", "Error:"))
    assert not (folder.parent / "gone").exists()


def test_a_repetition_finds_results_inside(folder: Path) -> None:
    inside = folder / "only" / "emu"
    inside.mkdir(parents=True)
    text = (folder / "out/lab/acks/run.json").read_text()
    (inside / "run.json").write_text(text)
    (inside / "plan.toml").write_text(f'substrate = "emu"\n{MESH}')
    told = lab("rerun", "only", cwd=folder, code=2)
    assert "only/emu: runs on emu are in real time: never twice the same" in told


def test_what_took_too_long_is_told_in_words() -> None:
    def late(scenario: dict[str, Any]) -> FakeResult:
        raise TimeoutError("run_timeout: not finished after 3 s")

    chosen = plans.parse(CHAIN)
    cell = chosen.cells[0]
    scenario = chosen.scenario_of(cell, 1)
    record, _ = execute(late, scenario, cell.name, 1, cell.key, "", chosen.measure, False)
    assert record.error == "run_timeout: not finished after 3 s"


def test_letters_beside_claims_are_explained(folder: Path) -> None:
    told = lab("claims", "WIFU-II", cwd=folder)
    assert "HARD: must hold with its bound, in six runs at least" in told
    assert "W: the WiFu paper (2012)" in told
    assert "TA:" not in told
    assert "means something on real hardware only" in lab("claims", "--help", cwd=folder)
    assert "Kolmogorov and Smirnov's distance" in lab("diverge", "--help", cwd=folder)


def test_one_cell_is_one(folder: Path) -> None:
    told = lab("run", "acks.toml", "acks=1", "runs=1", "--dry-run", "-o", "x", cwd=folder)
    assert "1 cell, runs of each: 1; 1 run at most" in told


LATE = """
name = "late"
runs = 1
series = { runs = [1] }
[scenario]
topology.words = "linear,3"
stop.time = "2s"
[[scenario.flow]]
from = "n1"
to = "n3"
protocol = "tcp-newreno"
app = "bulk"
[[scenario.flow]]
from = "n2"
to = "n3"
protocol = "tcp-newreno"
app = "bulk"
start = "1s"
[vary]
"radio.rate" = ["6M", "12M"]
"""


def test_a_flow_that_goes_on_is_drawn_to_the_end_of_the_run(tmp_path: Path) -> None:
    from wifu.figures import style, traces

    found = wifu.campaign(plans.parse(LATE), tmp_path / "r")
    with style.context():
        figure, _, _ = traces.timeseries(found, {"kind": "timeseries", "show": ["goodput", "cwnd"]})
        lines = [line for axis in figure.axes for line in axis.get_lines()]
    whole = found.outcome(found.plan.cells[0])["sim_seconds"]
    assert len(lines) == 8
    for line in lines:
        end = np.asarray(line.get_xdata(), dtype=float)[-1]
        assert end == pytest.approx(whole, abs=0.03), "a window that stays is no flow that ended"
        assert line.get_marker() != "None" and not line.get_clip_on(), "marks at zero are whole"
    assert figure.axes[0].get_xlim()[1] == pytest.approx(whole)


def test_nothing_recovered_is_said_inside_a_narrow_panel(tmp_path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from wifu.figures import sequences, style

    found = wifu.campaign(plans.parse(CHAIN), tmp_path / "r", runner=fake)
    quiet = found.plan.cells[0].name
    path = found.folder / "series" / f"{quiet}-1.parquet"
    frame = pd.read_parquet(path)
    frame[~((frame["series"] == "flow.1.sent") & (frame["value"] < 0))].to_parquet(path)
    with style.context(1):
        figure, _, _ = sequences.sequence(found, {"kind": "sequence"})
        style.fold(figure)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()  # type: ignore[no-untyped-call]
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    [(axis, text)] = [(a, t) for a in figure.axes for t in a.texts if "recovered" in t.get_text()]
    words, panel = text.get_window_extent(renderer), axis.get_window_extent(renderer)
    assert panel.x0 < words.x0 and words.x1 < panel.x1
    rows: dict[float, list[Any]] = {}
    for one in figure.axes:
        if one.get_ylabel():
            rows.setdefault(one.get_window_extent().x0 // 50, []).append(
                one.yaxis.label.get_window_extent(renderer)
            )
    for column in rows.values():
        column.sort(key=lambda box: box.y0)
        for below, above in pairwise(column):
            assert below.y1 <= above.y0, "names of scales do not meet"


def test_slips_of_a_plan_are_told_by_what_is_to_be_written(folder: Path) -> None:
    def told(text: str, *words: str) -> str:
        (folder / "slip.toml").write_text(text)
        return " ".join(lab("run", "slip.toml", "--dry-run", *words, cwd=folder, code=2).split())

    dotted = MESH + "[vary]\nradio.attempts = [2, 4]\n"
    if "[vary]" in MESH:
        dotted = MESH.replace("[vary]", "[vary]\nradio.attempts = [2, 4]")
    assert 'a path stands in quotes: "radio.attempts" = [...]' in told(dotted)
    several = told(MESH, "radio.queue=2,4")
    assert "given as radio.queue=2,4; several values are an axis with -m" in several
    assert "slip.toml:" not in several, "it is on no line of the plan"
    single = "baseline = 2\n" + MESH.replace("[[scenario.flow]]", "[scenario.flow]")
    assert "scenario.flow: is a list: write [[scenario.flow]]" in told(single)
    within = MESH.replace("[scenario]", '[scenario]\nseries = ["cwnd"]')
    assert "scenario.series: unknown key; keys of the plan itself stand above" in told(within)


@pytest.mark.parametrize("page", ["docs/src/sim.md", "crates/wifu/src/sim/mod.rs"])
def test_the_flows_that_are_said_to_cross_in_a_grid_do(page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text()
    (grid,) = re.findall(r"--topo (grid,5,5\S*) --flow n11:n15:\S+ --flow n3:n23:", text)
    flows = [
        {"from": a, "to": b, "protocol": "tcp-newreno", "app": "file", "bytes": 20000}
        for a, b in (("n11", "n15"), ("n3", "n23"))
    ]
    run = wifu.run(
        {"topology": {"words": grid}, "radio": {"rate": "6M", "rts_threshold": 0},
         "flow": flows, "stop": {"time": "9s"}}
    )  # fmt: skip
    ways = [set(part["from"]) for _, part in run.hops().groupby("flow")]
    row, column = {f"n{n}" for n in range(11, 16)}, {f"n{n}" for n in range(3, 24, 5)}
    assert ways == [row, column]


TWO = MESH.replace("tcp-newreno", "{protocol}") + 'protocol = ["tcp-tahoe", "tcp-sack"]\n'


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "protocol=tcp-tahoe,tcp-sack,hystart=off",
            """write 'protocol=["tcp-tahoe","tcp-sack,hystart=off"]', quotes and all""",
        ),
        ("ack=1", "ack is neither an axis nor a key of plan or scenario; did you mean `acks`?"),
        ("hosp=1", "did you mean `hops`?"),
        ("metrics=throughput", "must be a list"),
        ('metrics=["throughput"]', "no metric is called throughput; did you mean `goodput`?"),
        ('metrics=["jians"]', "(`wifu-lab list metrics` has all)"),
    ],
)
def test_slips_of_overrides_are_told_by_what_is_to_be_written(override: str, message: str) -> None:
    text = TWO.replace("acks", "hops") if override.startswith("hosp") else TWO
    with pytest.raises(PlanError, match=re.escape(message)):
        plans.parse(text, overrides=[override])
    listed = 'protocol=["tcp-tahoe","tcp-sack,hystart=off"]'
    assert len(plans.parse(TWO, overrides=[listed]).cells) == 4
    with_keys = TWO.replace('"tcp-tahoe", "tcp-sack"', '"tcp-sack", "tcp-sack,iw=4"')
    assert len(plans.parse(with_keys, overrides=["protocol=tcp-tahoe"]).cells) == 2


def test_labels_of_a_flow_alone_are_sentences() -> None:
    told = metric_of("one_way_p95@1").label
    assert told.startswith("one-way delay of datagrams, 95th percentile"), told
    assert "of a flow" not in metric_of("rtt_p50@1").label


PANIC = """
thread '<unnamed>' (7) panicked at src/mine.rs:12:9:
attempt to subtract with overflow
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
fatal runtime error: Rust cannot catch foreign exceptions, aborting
"""


def panics(scenario: dict[str, Any]) -> FakeResult:
    """As a part of a loaded library does, in every other run."""
    if scenario["run"] % 2:
        return fake(scenario)
    os.write(2, PANIC.encode())
    os.abort()


def looks(scenario: dict[str, Any]) -> None:
    if scenario["n"] == 1:
        raise ValueError("no such key")
    if scenario["n"] == 2:
        os.write(2, PANIC.encode())
        os.abort()


WHOSE = "of SIGABRT: a panic at src/mine.rs:12:9, in a part or handler of libmine.so"


def test_a_panic_in_a_library_fails_its_run_which_is_named_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libmine.so").touch()
    chosen = plans.parse(CHAIN)
    assert substrates.runner_for(plans.parse(MESH)) is mesh
    monkeypatch.setenv("WIFU_LOAD", str(tmp_path / "libmine.so"))
    assert isinstance(substrates.runner_for(plans.parse(MESH)), Timed)
    summary = Campaign(chosen, Store(tmp_path / "r"), Timed(panics, None), workers=2).start()
    assert {run for _, run, _ in summary.failed} == {2, 4}
    assert (summary.done, len(summary.failed)) == (20, 8)
    for cell, run, error in summary.failed:
        seed = chosen.scenario_of(next(c for c in chosen.cells if c.name == cell), run)["seed"]
        assert f"the process of this run died (seed {seed}) {WHOSE}: attempt to sub" in error
        assert error.endswith("with overflow")


def test_a_panic_in_a_library_where_scenarios_are_looked_at_names_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libmine.so").touch()
    monkeypatch.setenv("WIFU_LOAD", str(tmp_path / "libmine.so"))
    scenarios = [{"n": n} for n in range(4)]
    at, why = dies(scenarios, looks)
    assert (at, why.startswith(f" {WHOSE}: attempt")) == (2, True)
    assert dies(scenarios[:2], looks) == (2, "")
    monkeypatch.setattr(sys.modules["wifu.campaign"], "dies", lambda s, check: (1, " of SIGABRT"))
    chosen = plans.parse(MESH)
    with pytest.raises(PlanError, match=f"cell {chosen.cells[1].name}: the process that looked"):
        check_scenarios(chosen)


def test_a_resumed_campaign_takes_no_changes_and_the_way_is_told(folder: Path) -> None:
    told = lab("resume", "out/lab/acks", "runs=5", cwd=folder, code=2)
    told = " ".join(told.split())
    assert "takes no runs=5" in told
    assert "change out/lab/acks/plan.toml" in told
    assert "wifu-lab resume out/lab/acks --accept-changes" in told


def test_a_scenario_that_is_neither_a_table_nor_a_file_is_told_what_it_takes() -> None:
    with pytest.raises(LabError, match="a scenario is a dict, TOML text or the path of a file"):
        wifu.run("linear,3")


def test_text_of_several_words_needs_quotes(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("title = unquoted text\n")
    with pytest.raises(PlanError, match='text needs quotes: write title = "unquoted text"'):
        plans.load(tmp_path / "plan.toml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run acks.toml --runs 5", "no option is called --runs; changes have no dashes: runs=5"),
        ("run acks.toml --radio.rate=6M", "changes have no dashes: radio.rate=6M"),
        ("run acks.toml --load ./x.so", "named by WIFU_LOAD=./x.so in front of `wifu-lab`"),
        ("plot out/lab/acks bars", "bars: the kind of a figure is --plot bars"),
        ("plot out/lab/acks --kind cdf", "the kind of a figure is --plot cdf"),
        ("plot out/lab/acks --metric jain", "changes have no dashes: metric=jain"),
        ("plot out/lab/acks -p box", "what shows such is bars (means with intervals) or cdf"),
    ],
)
def test_options_of_other_tools_are_told_what_they_are_here(
    folder: Path, words: str, message: str
) -> None:
    assert message in " ".join(lab(*words.split(), cwd=folder, code=2).split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("duration = 5\n" + MESH, "duration: unknown key; how long a run is: scenario.stop.time"),
        (MESH.replace("[[scenario.", "[["), "flow: unknown key; is of the scenario: write [[scen"),
        (MESH + '[[figure]]\nkind = "boxplot"\n', "figure.1.kind: no figure is of kind 'boxplot'"),
    ],
)
def test_keys_of_other_tools_are_told_what_they_are_here(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        plans.parse(text)
