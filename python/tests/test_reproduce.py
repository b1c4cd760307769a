"""`wifu-lab reproduce`, on the simulator with plans of a few packets."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from wifu import plan as plans
from wifu import published, reproduce
from wifu.campaign import check_scenarios
from wifu.errors import LabError
from wifu.published import Experiment, Paper
from wifu.store import Store

SMALL = """
name = "x-t1"
runs = 3
pair = "stack"
metrics = ["goodput", "retransmissions"]
[scenario]
topology.words = "linear,{hops+1},wire=2Mb/s,loss=0.02"
stop.time = "20s"
[[scenario.flow]]
from = "n1"
to = "n{hops+1}"
protocol = "tcp-newreno,profile=tap-newreno"
app = "file"
bytes = "60k"
jitter = "5ms"
[vary]
hops = [1, 2]
[vary.stack]
user = {}
kernel = { "flow.*.protocol" = "tcp-reno,profile=kernel-reno" }
[[figure]]
kind = "bars"
x = "hops"
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with plans, where the command is called."""
    for name, text in (
        ("x-t1", SMALL),
        ("x-t2", SMALL.replace("x-t1", "x-t2")),
        # Nothing in it is random: refused, as replicates are one sample.
        ("x-t3", SMALL.replace("x-t1", "x-t3").replace(",loss=0.02", "").replace("5ms", "0s")),
        ("x-w5", SMALL.replace("x-t1", "x-w5").replace("runs = 3", 'runs = 3\non = ["live"]')),
    ):
        folder = tmp_path / "experiments" / name
        folder.mkdir(parents=True)
        (folder / "plan.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def paper(*experiments: Experiment) -> Paper:
    return Paper("tcp-ap", "A paper", "page.md", ("AP-T3",), experiments)


def experiment(plan: str, name: str = "", *changes: str, quick: Any = ()) -> Experiment:
    return Experiment(plan, name or plan, changes, tuple(quick), f"Figure of {plan}")


def test_every_plan_of_the_papers_loads_whole_and_in_short() -> None:
    root = Path(__file__).parents[2] / "experiments"
    for one in published.papers().values():
        names = [e.name for e in one.experiments]
        assert len(set(names)) == len(names)
        assert published.select(published.load(), one.claims)
        page = Path(__file__).parents[2] / one.page
        assert f"wifu-lab reproduce {one.name}" in page.read_text()
        total = 0
        for e in one.experiments:
            whole, short = (reproduce.load(root, e, quick) for quick in (False, True))
            assert whole.name == short.name == e.name
            runs = [p.max_runs * len(p.cells) for p in (whole, short)]
            assert runs[1] <= runs[0]
            total += runs[1]
            if "emu" in whole.prepared:
                emu = [p.variant("emu") for p in (whole, short)]
                for variant in emu:
                    check_scenarios(variant)
                assert len(emu[1].cells) * emu[1].max_runs <= 40, e.name
        assert total < 1000, one.name


def test_shortened_plans_have_the_kernels_own_tcp_on_emulated_radios() -> None:
    root = Path(__file__).parents[2] / "experiments"
    for name in ("x-w6", "x-w7", "x-t4"):
        whole = plans.load(root / name)
        by_kernel = {
            str(f["protocol"]).split(",")[0]
            for c in whole.variant("emu").cells for f in c.scenario["flow"]
        }  # fmt: skip
        assert by_kernel >= {"kernel:reno", "kernel:cubic", "kernel:bbr"}
        assert not any("kernel:" in str(c.scenario) for c in whole.cells)


PAPER_OF = {"AP": "tcp-ap", "ATP": "atp", "HXH": "hxh", "WIFU": "wifu"}


def test_all_plans_that_feed_claims_are_run_by_a_paper() -> None:
    made = {p.name: {e.name for e in p.experiments} for p in published.papers().values()}
    for claim in published.load():
        assert set(claim.plans) <= made[PAPER_OF[claim.id.partition("-")[0]]]


def test_experiments_are_run_judged_and_drawn(root: Path) -> None:
    two = paper(experiment("x-t1"), experiment("x-t2", "x-t2-more", "runs=2"))
    doing = reproduce.Reproduction(two, root / "out", quick=False, silent=True)
    assert doing.run() == "complete"
    told = doing.finish()
    rows = told["experiments"]
    assert [(e["name"], e["state"], e["runs"]) for e in rows] == [
        ("x-t1", "complete", 12), ("x-t2-more", "complete", 8)
    ]  # fmt: skip
    assert all(e["seconds"] > 0 for e in rows)
    assert told["seconds"] == pytest.approx(sum(e["seconds"] for e in rows), abs=0.11)
    assert Store(root / "out/x-t2-more").manifest()["name"] == "x-t2-more"
    verdicts = {v["id"]: v for v in told["claims"]}
    # Not its results, but those of the plan of that name.
    measured = [c for c in verdicts["AP-T3"]["checks"] if c.get("measured")]
    assert {c["name"] for c in measured} >= {"1 hop, Mb/s", "2 hops / 1 hop"}
    assert verdicts["AP-T3-V"]["verdict"] == "not measured"
    assert json.loads((root / "out/reproduce.json").read_text()) == told
    page = (root / "out/index.html").read_text()
    for figure in doing.figures():
        assert f"src='{figure.relative_to(root / 'out')}'" in page
    assert len(doing.figures()) == 2 and "x-t1/report.html" in page
    table = (root / "out/claims.md").read_text()
    assert "| AP-T3 | 1 hop, Mb/s | 5.588 |" in table
    assert all(line.count(" | ") == 5 for line in table.splitlines()[2:])


def test_the_same_again_goes_on_and_keeps_times(root: Path) -> None:
    one = paper(experiment("x-t1"), experiment("x-t2"))
    first = reproduce.Reproduction(one, root / "out", quick=False, silent=True, only=["x-t1"])
    assert first.run() == "complete"
    first.finish()
    before = Store(root / "out/x-t1").manifest()["created"]
    lost = sorted((root / "out/x-t1/runs").glob("*.gz"))[0]
    lost.unlink()
    again = reproduce.Reproduction(one, root / "out", quick=False, silent=True)
    assert again.run() == "complete"
    assert lost.exists() and Store(root / "out/x-t1").manifest()["created"] == before
    x_t1, x_t2 = again.finish()["experiments"]
    assert x_t1["seconds"] > first.done[0].seconds > 0 and x_t2["runs"] == 12
    # A go that leaves one out does not forget what it took.
    third = reproduce.Reproduction(one, root / "out", quick=False, silent=True, only=["x-t2"])
    third.run()
    rows = {e["name"]: e for e in third.finish()["experiments"]}
    assert rows["x-t1"]["seconds"] == x_t1["seconds"]


def test_one_that_cannot_be_run_keeps_no_other_from_it(root: Path) -> None:
    three = paper(experiment("x-t3"), experiment("x-w5"), experiment("x-t1"))
    doing = reproduce.Reproduction(three, root / "out", quick=False, silent=True)
    assert doing.run() == "failed"
    told = {d.experiment.name: d for d in doing.done}
    assert "identical results" in told["x-t3"].why and told["x-t3"].state == "failed"
    assert told["x-w5"].sentence() == "x-w5: not run: needs --on live, in real time"
    assert not told["x-w5"].bad
    assert told["x-t1"].state == "complete"


def test_plans_with_a_table_of_a_substrate_are_run_there_and_others_say_what_they_need(
    root: Path,
) -> None:
    plan = root / "experiments/x-t1/plan.toml"
    plan.write_text(f"{SMALL}\n[emu]\nruns = 1\n")
    both = paper(experiment("x-t1"), experiment("x-t2"))
    on = {name: tuple(name.split(",")) for name in ("sim", "emu", "sim,emu")}
    rows = {
        name: reproduce.Reproduction(both, root / "out", quick=False, on=places).listed()
        for name, places in on.items()
    }
    told = {n: [(e["runs"], e["on"]) for e in r["experiments"]] for n, r in rows.items()}
    assert told["sim"] == [(12, ["sim"]), (12, ["sim"])]
    assert told["emu"] == [(4, ["emu"]), (0, [])]
    assert told["sim,emu"] == [(16, ["sim", "emu"]), (12, ["sim"])]
    only = reproduce.Reproduction(paper(experiment("x-t2")), root / "out", False, on=("emu",))
    only.silent = True
    assert only.run() == "complete"
    assert only.done[0].sentence() == "x-t2: not run: needs --on sim"


def test_the_short_form_changes_plans_and_says_so(root: Path) -> None:
    one = paper(experiment("x-t1", quick=["hops=1", "runs=2"]))
    doing = reproduce.Reproduction(one, root / "out", quick=True, silent=True)
    (row,) = doing.listed()["experiments"]
    assert (row["cells"], row["runs"], row["changes"]) == (2, 4, ["hops=1", "runs=2"])
    assert doing.run() == "complete" and doing.done[0].runs == 4
    told = doing.finish()
    assert told["quick"]
    assert reproduce.QUICK in (root / "out/index.html").read_text()
    # What its levels leave out is not measured, and no error.
    checks = {c["name"]: c for c in told["claims"][0]["checks"]}
    assert checks["9 hops / 1 hop"]["verdict"] == "not measured"


def test_unknown_names_are_told_with_the_nearest(root: Path) -> None:
    one = paper(experiment("x-t1"))
    doing = reproduce.Reproduction(one, root / "out", quick=False, only=["x-t11"])
    with pytest.raises(LabError, match="no experiment x-t11; did you mean `x-t1`"):
        doing.run()
    done = lab("reproduce", "tcp-app", cwd=root, code=2)
    assert "did you mean `tcp-ap`" in done.stderr


def lab(*words: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "wifu.cli", *words], cwd=cwd, capture_output=True, text=True,
        env={**os.environ, "COLUMNS": "160", "NO_COLOR": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_the_command_ends_with_claims_times_and_figures(root: Path) -> None:
    done = lab("reproduce", "tcp-ap", "--only", "x-t1", "-o", "r", cwd=root)
    assert "[1/1] x-t1: Table III (12 runs at most)" in done.stderr
    assert "x-t1: 12 runs in " in done.stderr
    # A wire of 2 Mb/s has not 5.6; but it is another plan than that which the claim is of.
    assert "AP-T3" in done.stdout and "FAIL" in done.stdout
    assert '"verdict": "OPEN"' in (root / "r/reproduce.json").read_text()
    for line in ("r/index.html", "r/claims.md", "r/reproduce.json", "r/x-t1/figures/01-bars"):
        assert line in done.stdout
    told = json.loads(
        lab("reproduce", "tcp-ap", "--only", "x-t1", "-o", "r", "--json", cwd=root).stdout
    )
    assert told["experiments"][0]["runs"] == 12 and len(told["claims"]) > 20
    listed = lab("reproduce", "wifu", "--dry-run", "--only", "x-w5", cwd=root).stdout
    assert "needs --on live" in listed and "0 runs at most" in listed


def test_claims_are_judged_by_what_was_reproduced(root: Path) -> None:
    lab("reproduce", "tcp-ap", "--only", "x-t1", cwd=root)
    told = json.loads(lab("claims", "AP", "WIFU-F6", "--json", cwd=root).stdout)
    verdicts = {v["id"]: v for v in told}
    assert verdicts["AP-T3"]["results"] == "out/reproduce/tcp-ap/x-t1"
    assert verdicts["WIFU-F6c"]["verdict"] == "not measured"
    # What only shows that all of it runs is not looked at.
    lab("reproduce", "wifu", "--quick", "--only", "x-w5", cwd=root)
    (root / "out/reproduce/tcp-ap").rename(root / "out/reproduce/tcp-ap-quick")
    (again,) = json.loads(lab("claims", "AP-T3.*", "--json", cwd=root).stdout)[:1]
    assert again["verdict"] == "not measured"


def test_help_teaches(root: Path) -> None:
    told = " ".join(lab("reproduce", "--help", cwd=root).stdout.split())
    for words in ("reproduce tcp-ap --quick", "--only", "Ctrl-C", "reproduce.json", "Exit status"):
        assert words in told


def test_an_interrupt_leaves_what_is_done_and_says_how_to_go_on(root: Path) -> None:
    plan = root / "experiments/x-t1/plan.toml"
    plan.write_text(SMALL.replace("runs = 3", "runs = 4000"))
    doing = subprocess.Popen(
        [sys.executable, "-m", "wifu.cli", "reproduce", "tcp-ap", "--only", "x-t1,x-t2", "-o", "r"],
        cwd=root, stderr=subprocess.PIPE, text=True,
        # A shell's job in the background ignores it, and so would all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while len(list((root / "r/x-t1/runs").glob("*.gz"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    doing.send_signal(signal.SIGINT)
    _, told = doing.communicate(timeout=60)
    assert doing.returncode == 130, told
    assert "go on with: wifu-lab reproduce tcp-ap -o r --only x-t1,x-t2" in told
    manifest = Store(root / "r/x-t1").manifest()
    assert manifest["state"] == "interrupted" and 5 <= manifest["runs_done"] < 16000
    assert not (root / "r/x-t2").exists()
    (row, *_) = json.loads((root / "r/reproduce.json").read_text())["experiments"]
    assert row["state"] == "interrupted" and row["seconds"] > 0
    assert not (root / "r/x-t1/.lock").exists()
