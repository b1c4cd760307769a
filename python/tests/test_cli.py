"""The command as users call it, on the wired network of `wifu mock` (built by `make build`)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from wifu import emulated, program
from wifu import plan as plans
from wifu.campaign import Campaign
from wifu.errors import LabError
from wifu.places import deaf
from wifu.store import Store

ROOT = Path(__file__).parents[2]

PLAN = """
name = "drops"
runner = "mock"
runs = 4
metrics = ["goodput", "retransmissions"]
[scenario]
protocol = "{protocol}"
bytes = 300000
loss = "2%"
[vary]
protocol = ["tcp-reno", "tcp-newreno"]
"""


def lab(*words: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    found = program.find_program()
    done = subprocess.run(
        [sys.executable, "-m", "wifu.cli", *words],
        cwd=cwd,
        env={**os.environ, "WIFU_BIN": str(found), "COLUMNS": "160", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_the_lab_tells_its_version_and_that_of_its_program(tmp_path: Path) -> None:
    found = program.find_program()
    lines = lab("--version", cwd=tmp_path).stdout.splitlines()
    own = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    assert len(lines) == 2 and lines[0].startswith(f"wifu-lab {own.split()[1]} (Python 3.")
    assert lines[1] == f"{own.strip()} ({found})"
    run = [sys.executable, "-m", "wifu.cli", "--version"]
    environment = {**os.environ, "WIFU_BIN": "/nowhere/wifu"}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1].startswith("wifu: no program /nowhere/wifu: WIFU_BIN")
    # The rest is as it was.
    assert "reproduce" in lab(cwd=tmp_path, code=2).stdout
    assert "--version" in lab("--help", cwd=tmp_path).stdout
    assert "Missing command" not in lab("list", "metrics", cwd=tmp_path).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        program.find_program()
    except LabError as e:
        pytest.skip(str(e))
    folder = tmp_path_factory.mktemp("cli")
    (folder / "plan.toml").write_text(PLAN)
    (folder / "experiments/one").mkdir(parents=True)
    (folder / "experiments/one/plan.toml").write_text(PLAN)
    told = json.loads(lab("run", "plan.toml", "--json", cwd=folder).stdout)
    assert told["state"] == "complete"
    assert told["runs"] == 8
    return folder


def test_of_two_builds_the_last_one_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WIFU_BIN", raising=False)
    monkeypatch.delenv("WIFU", raising=False)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    for age, kind in enumerate(("debug", "release")):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "wifu").touch()
        os.utime(tmp_path / kind / "wifu", (1000 - age, 1000 - age))
    assert program.find_program() == tmp_path / "debug" / "wifu"
    os.utime(tmp_path / "release" / "wifu", (2000, 2000))
    assert program.find_program() == tmp_path / "release" / "wifu"


def test_a_run_leaves_results_and_a_report(folder: Path) -> None:
    out = folder / "out/lab/drops"
    for name in ("run.json", "results.parquet", "runs.parquet", "report.html", "plan.toml"):
        assert (out / name).exists()
    assert list((out / "figures").glob("*.svg"))


def test_a_second_run_into_the_same_folder_is_refused(folder: Path) -> None:
    assert (
        "already holds results: name another folder with -o"
        in lab("run", "plan.toml", cwd=folder, code=2).stderr
    )


def test_wrong_plans_exit_with_two_and_say_where(folder: Path) -> None:
    (folder / "bad.toml").write_text(PLAN.replace("runs = 4", "rnus = 4"))
    told = lab("run", "bad.toml", cwd=folder, code=2).stderr
    assert "bad.toml:4: rnus: unknown key; did you mean `runs`?" in told
    told = lab("run", "nothing.toml", cwd=folder, code=2).stderr
    assert "nothing.toml: cannot read" in told


def test_a_wrong_scenario_is_a_failed_run_with_the_reason(folder: Path) -> None:
    (folder / "wrong.toml").write_text(PLAN.replace("loss =", "lost =").replace("drops", "wrong"))
    done = lab("run", "wrong.toml", "--no-report", cwd=folder, code=1)
    assert "8 of 8 runs failed" in done.stdout
    assert "unexpected argument '--lost'" in done.stdout


def test_a_dry_run_shows_cells_and_a_scenario_and_runs_nothing(folder: Path) -> None:
    told = lab("run", "plan.toml", "runs=7", "-o", "elsewhere", "--dry-run", cwd=folder).stdout
    assert "2 cells, runs of each: 7; 14 runs at most" in told
    told = lab("run", "plan.toml", "--dry-run", "--json", cwd=folder).stdout
    assert json.loads(told)["scenarios"]["tcp-reno"]["protocol"] == "tcp-reno"
    assert not (folder / "elsewhere").exists()


def test_overrides_and_sweeps(folder: Path) -> None:
    told = json.loads(
        lab("run", "plan.toml", "protocol=tcp-reno", "runs=2", "-o", "two", "--json", "--no-report",
            "--executor", "processes", "-j", "2", cwd=folder).stdout
    )  # fmt: skip
    assert told["runs"] == 2


def test_a_repetition_finds_the_same(folder: Path) -> None:
    done = lab("rerun", "out/lab/drops", "--runs", "2", cwd=folder)
    assert "4 of 4 runs came out the same, byte for byte" in done.stdout


def test_plot_draws_one_figure(folder: Path) -> None:
    lab("plot", "out/lab/drops", "-p", "cdf", "metric=goodput", "-o", "x/cdf.png", cwd=folder)
    assert (folder / "x/cdf.png").read_bytes().startswith(b"\x89PNG")
    paper = ("--columns", "1", "x=protocol", "label.protocol.tcp-reno=Reno, of 1990")
    lab("plot", "out/lab/drops", *paper, "-o", "x/bars.svg", cwd=folder)
    svg = (folder / "x/bars.svg").read_text()
    assert ">Reno, of 1990</text>" in svg and 'width="252pt"' in svg
    lab("plot", "out/lab/drops", "-o", "x/bars.pdf", cwd=folder)
    assert (folder / "x/bars.pdf").read_bytes().startswith(b"%PDF")
    lab("plot", "out/lab/drops", "--columns", "3", cwd=folder, code=2)
    told = lab("plot", "out/lab/drops", "-p", "cdf", "metrik=goodput", cwd=folder, code=2).stderr
    assert "metrik: unknown key; did you mean `metric`?" in told
    for option, hint in (
        ("metric=jian", "did you mean `jain`?"),
        ("by=lots", "no axis is called lots"),
        ("title=3", "title: must be text"),
    ):
        options = ("plot", "out/lab/drops", "-p", "cdf", option)
        assert hint in lab(*options, cwd=folder, code=2).stderr
    lab("plot", "out/lab/drops", "-o", "x.gif", cwd=folder, code=2)


def test_lists(folder: Path) -> None:
    every = json.loads(lab("list", "--json", cwd=folder).stdout)
    assert set(every) == {"plans", "results", "metrics", "figures", "claims"}
    assert [p["name"] for p in every["plans"]] == ["experiments/one"]
    assert "out/lab/drops" in [r["name"] for r in every["results"]]
    assert "goodput" in lab("list", "metrics", cwd=folder).stdout
    assert "did you mean `metrics`" in lab("list", "metricks", cwd=folder, code=2).stderr


def test_a_list_of_nothing_says_where_it_looked(tmp_path: Path) -> None:
    told = lab("list", cwd=tmp_path).stdout
    assert "plans: none in ./experiments\n" in told
    assert "results: none in ./out/lab\n" in told


@pytest.mark.parametrize("more", [(), ("--json",), ("metrics",)])
def test_who_reads_a_list_may_have_enough_of_it(tmp_path: Path, more: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "wifu.cli", "list", *more],
            cwd=tmp_path,
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_excluding_a_run_needs_a_reason_and_is_told(folder: Path) -> None:
    lab("run", "plan.toml", "-o", "third", "--no-report", cwd=folder)
    lab("exclude", "third", "tcp-reno", "2", cwd=folder, code=2)
    lab("exclude", "third", "tcp-reno", "2", "--reason", "noise", cwd=folder)
    report = Path(lab("report", "third", cwd=folder).stdout.strip())
    assert "noise" in (folder / report).read_text()


def test_resume_of_what_is_complete_runs_nothing_more(folder: Path) -> None:
    told = json.loads(lab("resume", "out/lab/drops", "--json", "--no-report", cwd=folder).stdout)
    assert (told["state"], told["runs"]) == ("complete", 8)


def test_claims_without_results_say_what_to_run(folder: Path) -> None:
    told = lab("claims", "WIFU-II.1", cwd=folder).stdout
    assert "not measured" in told
    assert "run experiments/x-w2" in told
    verdict, variants = json.loads(lab("claims", "AP-T3", "--json", cwd=folder).stdout)
    assert verdict["verdict"] == "not measured"
    assert variants["id"] == "AP-T3-V"


def test_the_traces_of_tahoe_are_those_of_ns2(folder: Path) -> None:
    lab("run", str(ROOT / "experiments/x-w1"), "--no-report", cwd=folder)
    told = json.loads(lab("claims", "WIFU-F4", "--json", cwd=folder).stdout)
    assert [v["verdict"] for v in told] == ["PASS"] * 4


def test_help_teaches(folder: Path) -> None:
    told = lab("--help", cwd=folder).stdout
    assert "wifu-lab run experiments/demo" in told
    assert "Exit status" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_folder_that_resumes(folder: Path, number: signal.Signals) -> None:
    name = f"long-{number}"
    (folder / "long.toml").write_text(PLAN.replace("runs = 4", "runs = 400"))
    doing = subprocess.Popen(
        [sys.executable, "-m", "wifu.cli", "run", "long.toml", "-o", name, "--no-report"],
        cwd=folder,
        env={**os.environ, "WIFU_BIN": str(program.find_program())},
        stderr=subprocess.PIPE,
        text=True,
        # A shell's job in the background ignores it, and so would all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 30
    while len(list((folder / name / "runs").glob("*.gz"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    doing.send_signal(number)
    _, told = doing.communicate(timeout=30)
    assert doing.returncode == 130
    assert f"go on with: wifu-lab resume {name}" in told
    manifest = json.loads((folder / name / "run.json").read_text())
    assert manifest["state"] == "interrupted"
    assert manifest["runs_done"] == len(list((folder / name / "runs").glob("*.gz"))) < 800


def test_wrong_files_are_said_without_a_traceback(folder: Path) -> None:
    (folder / "latin.toml").write_bytes(b'name = "\xe9"\n')
    for words in (
        ["run", "latin.toml"],
        ["run", "plan.toml", "-o", "/dev/null/x"],
        ["run", "plan.toml", "-o", "latin.toml"],
    ):
        done = lab(*words, cwd=folder, code=2)
        said = done.stderr
        assert said.startswith("wifu-lab:") and "Traceback" not in said, said


def test_a_campaign_keeps_to_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "wifu"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv("WIFU_BIN", str(own))
    pinned = program.Pinned()
    monkeypatch.setenv("WIFU_BIN", "/bin/true")
    assert str(pinned) == str(own.resolve())
    own.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(LabError, match="was built anew while the campaign ran"):
        str(pinned)


def test_a_campaign_keeps_to_the_libraries_that_its_program_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "libfirst.so", tmp_path / "libsecond.so"
    first.write_text("one")
    second.write_text("two")
    monkeypatch.setenv("WIFU_BIN", "/bin/true")
    monkeypatch.setenv("WIFU_LOAD", f"{first}{os.pathsep}{second}")
    pinned = program.Pinned()
    assert str(pinned) == str(Path("/bin/true").resolve())
    second.write_text("anew")
    with pytest.raises(LabError, match=r"libsecond\.so was built anew while the campaign ran"):
        str(pinned)
    pinned = program.Pinned()
    first.unlink()
    with pytest.raises(LabError, match=r"libfirst\.so: No such file"):
        str(pinned)
    with pytest.raises(LabError, match=r"no library .*libfirst\.so: WIFU_LOAD names it"):
        program.Pinned()


def test_results_name_the_program_that_their_runs_are_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not another one that is there a moment later, by a second look."""
    own = tmp_path / "wifu"
    own.write_text("#!/bin/sh\nexit 1\n")
    own.chmod(0o755)
    monkeypatch.setenv("WIFU_BIN", str(own))
    text = 'name = "m"\nrunner = "mock"\nruns = 1\n[scenario]\nprotocol = "tcp-reno"\n'
    campaign = Campaign(plans.parse(text), Store(tmp_path / "r"))
    then = program.fingerprint(own)
    monkeypatch.setenv("WIFU_BIN", "/bin/true")
    campaign.start()
    assert Store(tmp_path / "r").manifest()["code"] == [then]
    record = Store(tmp_path / "r").load("only", 1)
    assert record is not None and record.code == then
    monkeypatch.setenv("WIFU_BIN", str(own))
    real = emulated.Emulated({}, None)
    monkeypatch.setattr(emulated, "need_root", lambda what: None)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    emulated.RealTime.prepare(real)
    assert real.code == then
    assert real.program == str(own.resolve())
    # What its flows need besides is looked for before any of them runs.
    flow = {"from": "n1", "to": "n2", "app": "file", "bytes": "1k"}
    emulated.RealTime.prepare(real, [{"flow": [{**flow, "protocol": "kernel:reno"}]}])
    monkeypatch.delenv("WIFU_PRELOAD", raising=False)
    with pytest.raises(LabError, match=r"no .*libwifu_preload\.so, .*cargo build -p wifu -p wifu"):
        emulated.RealTime.prepare(real, [{"flow": [{**flow, "protocol": "tcp-reno"}]}])


@pytest.mark.parametrize("others", [0, 4])
def test_a_first_signal_during_a_clean_up_is_heard_after_it_and_a_second_never(others: int) -> None:
    """Be there other threads, to which the kernel may give it."""
    # A shell has what it starts in the background ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    end = threading.Event()
    threads = [threading.Thread(target=end.wait, daemon=True) for _ in range(others)]
    for thread in threads:
        thread.start()
    try:
        _signals()
    finally:
        signal.signal(signal.SIGINT, before)
        end.set()
        for thread in threads:
            thread.join()


def _signals() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), deaf():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)  # for the thread that takes it
        done.append("first")
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with deaf():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            done.append("second")
    assert done == ["first", "second"]
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGINT, signal.SIGTERM}


def test_a_program_that_refuses_the_libraries_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the run itself: a program of another profile refuses them."""
    library = tmp_path / "libown.so"
    library.write_bytes(b"")
    own = tmp_path / "wifu"
    own.write_text("#!/bin/sh\necho 'built otherwise' >&2\nexit 1\n")
    own.chmod(0o755)
    monkeypatch.setenv("WIFU_LOAD", str(library))
    with pytest.raises(LabError, match="wifu: built otherwise; the lab takes a library of"):
        program.take_libraries(own)
    own.write_text("#!/bin/sh\n")
    program.take_libraries(own)
    monkeypatch.delenv("WIFU_LOAD")
    program.take_libraries(tmp_path / "none")
