"""Plans that are really run over emulated radios and live wires. They need root."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wifu import cli, diverge, hostlock
from wifu import plan as plans
from wifu.api import Results
from wifu.campaign import Campaign
from wifu.clients import Clients
from wifu.emulated import Emulated, insist
from wifu.errors import LabError
from wifu.flows import KERNEL_KEYS
from wifu.live import Live
from wifu.metrics import Measure, run_row
from wifu.places import Crew, Started
from wifu.plan import Plan
from wifu.program import find_program
from wifu.runner import mesh
from wifu.store import Store
from wifu.traffic import Traffic

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]


def transfer(
    name: str, head: str, topology: str, rest: str, *, to: str = "n2", protocol: str = "{stack}",
    size: str = "200k",
) -> str:  # fmt: skip
    """A plan in which n1 sends a file; `rest` begins with what else there is to say of the flow."""
    return f"""
name = "{name}"
{head.strip()}
[scenario]
topology = {{ {topology} }}
stop.time = "20s"
[[scenario.flow]]
from = "n1"
to = "{to}"
protocol = "{protocol}"
app = "file"
bytes = "{size}"
{rest.strip()}
"""


HOP = transfer(
    "hop",
    """
runs = 2
pair = "stack"
metrics = ["goodput", "timeouts", "mac_retries"]
""",
    'words = "linear,2", set = "TB-W3"',
    """
jitter = "5ms"
[vary.stack]
ours = "tcp-newreno"
kernel = "tcp-newreno,profile=kernel-reno"
[emu]
share = true
dilation = 4                # so that slow machines and debug builds are in time
[emu.vary.stack]
kernel = "kernel:reno,window=64K"
""",
)

WIRE = transfer(
    "wire",
    """
deterministic = true
pair = "stack"
""",
    'words = "linear,3,wire=20Mb/s,delay=50us"',
    """
[vary.stack]
ours = "tcp-newreno"
kernel = "tcp-reno,profile=kernel-reno"
[live]
runs = 1
[live.vary.stack]
kernel = "kernel:reno"
""",
    to="n3",
)


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hostlock, "default_path", lambda: tmp_path / "lab.lock")
    told = os.environ.get("WIFU_BIN") or os.environ.get("WIFU")
    if told:
        monkeypatch.setenv("WIFU_BIN", told)
    try:
        found = find_program()
    except LabError:
        pytest.skip("needs the command `wifu`: make build")
    if not found.exists():
        pytest.skip(f"needs the command `wifu`, and {found} does not exist")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """What this process makes carries its number; nothing of it may be left."""
    yield
    assert leftovers(os.getpid()) == []


def leftovers(pid: int) -> list[str]:
    """Namespaces, files and programs of a process that is to have removed them."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    names = [n for n in listed.stdout.split() if f"-{pid}-" in n]
    run = Path("/run/wifu")
    files = [str(p) for p in [*run.glob(f"lab-*-{pid}.json"), *run.glob(f"emu/lab-{pid}")]]
    return names + files


def run(text: str, folder: Path, substrate: str, *overrides: str) -> Results:
    chosen = plans.parse(text, overrides=overrides).variant(substrate)
    store = Store(folder).on(substrate)
    summary = Campaign(chosen, store).start()
    if any("InvalidRun" in error for _, _, error in summary.failed):
        # Something else had the machine for a moment.
        summary = Campaign(chosen, store).resume(retry_failed=True)
    assert summary.failed == []
    return Results(Store(folder).on(substrate).folder)


def test_one_hop_on_sim_and_emu(tmp_path: Path) -> None:
    run(HOP, tmp_path, "sim")
    emu = run(HOP, tmp_path, "emu")
    flows = emu.flows
    assert sorted(flows["flow_protocol"].unique()) == ["kernel:reno,window=64K", "tcp-newreno"]
    assert flows["finished"].all()
    assert (flows["bytes"] == 200_000).all()
    # TB-W3 carries some 14 Mb/s over a hop; how near it is to the simulator, an idle machine says.
    assert flows["goodput_bps"].between(1e6, 20e6).all()
    outcome = emu.outcome("kernel", 1)
    assert outcome["stamp"]["verdict"] in ("VALID", "SUSPECT")
    assert outcome["stamp"]["deliveries"]["count"] > 130
    assert outcome["nodes"][0]["frames"] >= 139
    stamps = emu.manifest["stamps"]
    assert stamps["VALID"] + stamps["SUSPECT"] == 4
    # Both stacks say how often their timers went off, and how fast the way can be.
    assert emu.ok.set_index("cell").loc[["kernel", "ours"], "timeouts"].ge(0).all()
    assert emu.flows["min_rtt_s"].between(0.1e-3, 0.1).all()
    # ... and all else that they count, under the simulator's names: 139 full segments at least.
    for key in ("segments", "data_segments"):
        assert emu.flows[key].between(139, 400).all(), key
    assert emu.flows["feedback_segments"].between(60, 400).all()
    assert (emu.flows["sent_bytes"] == 200_000).all()
    assert emu.ok["fast_retransmits"].ge(0).all()
    ours = emu.outcome("ours", 1)["flows"][0]
    assert 30 < ours["rtt"]["samples"] <= 200
    assert ours["min_rtt_s"] * 0.9 <= ours["rtt"]["p50_s"] <= ours["rtt"]["p99_s"] < 0.5
    assert 0.02 < sum(ours["limited_s"].values()) < 2
    assert emu.outcome("ours", 1)["absent"] == []
    assert list(emu.manifest["absent"].values()) == [["kernel"]] * 2, "in words"
    found = diverge.of_folder(tmp_path)
    assert found is not None
    assert {r.verdict for r in found.rows} <= {diverge.FEW, diverge.ABSENT}


def test_a_substrate_is_added_to_results_by_the_command(tmp_path: Path) -> None:
    path, out = tmp_path / "plan.toml", tmp_path / "out"
    path.write_text(HOP)

    def lab(*words: str) -> Any:
        done = CliRunner().invoke(cli.app, [*words, "--json"])
        assert done.exit_code in (0, cli.FAILED), done.output
        return json.loads(done.stdout)

    assert lab("run", str(path), "-o", str(out), "runs=3", "--on", "sim")["runs"] == 6
    told = lab("resume", str(out), "--on", "sim,emu", "--retry-failed")["substrates"]
    assert [(t["substrate"], t["runs"], t["missing"]) for t in told] == [
        ("sim", 6, 0),
        ("emu", 6, 0),
    ]
    # By itself, a folder of one substrate goes on as well.
    assert lab("resume", str(out / "emu"), "--retry-failed")["substrate"] == "emu"
    found = lab("diverge", str(out))
    assert (found["reference"], len(found["rows"])) == ("sim", 6)
    assert "emu against sim" in (out / "report.html").read_text()


def test_what_a_scenario_cuts_short_sends_and_drops_on_emu() -> None:
    runner = Emulated({"share": True, "dilation": 2}, 60)
    scenario: dict[str, Any] = {
        "topology": {"words": "linear,3", "set": "TB-W3"},
        "stop": {"time": "2s"},
        "flow": [
            {"from": "n1", "to": "n3", "protocol": "tcp-newreno", "app": "file", "bytes": "50M"},
            {"from": "n3", "to": "n1", "protocol": "udp", "rate": "500kb/s"},
            {
                "from": "n2", "to": "n3", "protocol": "udp", "app": "file", "bytes": "50k",
                "rate": "1M",
            },
        ],
        "handler": [
            {"use": "drop", "nodes": ["n2"], "hooks": ["forward"], "protocol": 17, "p": 0.5}
        ],
    }  # fmt: skip
    runner.check(scenario)
    outcome = json.loads(insist(runner, scenario, [], "cut short").json())
    long, dropped, short = outcome["flows"]
    assert (outcome["end"], long["finished"]) == ("time", False)
    assert 1e5 < long["bytes"] < 50e6
    assert outcome["sim_seconds"] == 2.0
    # Half of 125 kB, dropped on the way by `wifu core`.
    assert 30e3 < dropped["bytes"] < 95e3
    assert (short["bytes"], short["finished"]) == (50_000, True)
    assert "retransmissions" not in short


def test_a_stack_in_python_takes_its_time_on_emu_as_in_the_simulator() -> None:
    runner = Emulated({"share": True, "dilation": 2}, 60)
    scenario: dict[str, Any] = {
        "topology": {"words": "linear,2", "set": "TB-W3"},
        "stop": {"time": "20s"},
        "host": {"profile": "py"},
        "flow": [{"from": "n1", "to": "n2", "protocol": "tcp-newreno,profile=wifu-tahoe",
                  "app": "file", "bytes": "1M"}],
    }  # fmt: skip
    runner.check(scenario)
    real = json.loads(insist(runner, scenario, [], "python").json())
    model = json.loads(mesh(scenario).json())
    for outcome in (real, model):
        assert outcome["flows"][0]["finished"]
        sender, receiver = (node["host"] for node in outcome["nodes"])
        assert sender["sent"] > 690 and receiver["received"] > 690
        for host in (sender, receiver):
            took = 1.2e-3 * host["sent"] + 0.6e-3 * host["received"]
            assert host["busy_s"] == pytest.approx(took, abs=1e-6)
        assert sender["busy_s"] < outcome["sim_seconds"] + 0.2
        # Not what the radio can do, which is twice that.
        assert outcome["flows"][0]["goodput_bps"] < 1448 * 8 / 1.8e-3


def test_flows_that_nobody_answers_end_on_emu_as_in_the_simulator() -> None:
    runner = Emulated({"share": True}, 60)
    flow = {"from": "n1", "to": "n2", "app": "file", "bytes": "1M"}
    scenario: dict[str, Any] = {
        "topology": {"words": "linear,2,snr=3", "set": "TB-W3"},  # no frame arrives
        "stop": {"time": "12s"},
        "flow": [
            {**flow, "protocol": "tcp-newreno"},  # asks for a minute
            {**flow, "protocol": "tcp-newreno,rto_initial=400ms,syn_tries=2"},
        ],
    }
    runner.check(scenario)
    real = json.loads(insist(runner, scenario, [], "unanswered").json())
    model = json.loads(mesh(scenario).json())
    for outcome in (real, model):
        asks, gave_up = outcome["flows"]
        assert outcome["sim_seconds"] == pytest.approx(12.0, abs=0.01)
        assert (asks["fault"], gave_up["fault"]) == (None, "TimedOut")
        for one in (asks, gave_up):
            assert (one["bytes"], one["finished"], one["goodput_bps"]) == (0, False, 0.0)
            assert one.get("connected_s") is None and one["start_s"] < 1.0
        assert 1.0 < gave_up["fault_s"] < 4.0


def test_wires_on_sim_and_live(tmp_path: Path) -> None:
    run(WIRE, tmp_path, "sim")
    live = run(WIRE, tmp_path, "live")
    flows = live.flows.set_index("cell")
    assert flows["finished"].all()
    for cell in ("ours", "kernel"):
        assert 5e6 < flows.loc[cell, "goodput_bps"] < 20.5e6
    assert live.manifest["host"]["kernel"] == os.uname().release


def test_a_transfer_that_hangs_fails_the_run_only(tmp_path: Path) -> None:
    text = WIRE.replace('stop.time = "20s"\n', "")
    chosen = plans.parse(
        text, overrides=["flow.*.bytes=500M", "run_timeout=2s", "stack=kernel"]
    ).variant("live")
    start = time.monotonic()
    summary = Campaign(chosen, Store(tmp_path)).start()
    assert time.monotonic() - start < 30
    ((cell, number, error),) = summary.failed
    assert (cell, number) == ("kernel", 1)
    assert "run_timeout" in error


def test_an_unknown_congestion_control_is_named() -> None:
    chosen = plans.parse(WIRE.replace('"kernel:reno"', '"kernel:nosuch"')).variant("live")
    runner = Live({}, None)
    scenario = chosen.scenario_of(chosen.cells[1], 1)
    with pytest.raises(LabError, match=r"no congestion control nosuch; it has .*reno"):
        runner(scenario)


def test_ctrl_c_removes_everything(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    for text, substrate in ((HOP, "emu"), (WIRE, "live")):
        path.write_text(text)
        out = tmp_path / substrate
        words = [str(path), "flow.*.bytes=500M", "--on", substrate, "-o", str(out)]
        program = subprocess.Popen(
            [sys.executable, "-m", "wifu.cli", "run", *words], stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 60
        while not leftovers(program.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1.0)
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=60)
        assert program.returncode == 130, said
        assert f"wifu-lab resume {out}" in said.replace("\n", "")
        assert leftovers(program.pid) == []


OWN = """compositions = ['''
[protocol.snooped]
extends = "tcp-newreno"
number = 245
[handlers.snooped]
chain = ["snoop"]
''']"""


@pytest.mark.parametrize(
    ("substrate", "topology", "devices"),
    [
        ("emu", 'words = "linear,3,rate=24M"', [["wlan0"], ["wlan0"], ["wlan0"]]),
        ("live", 'words = "linear,3,wire=20Mb/s"', [["eth0"], ["eth0", "eth1"], ["eth1"]]),
    ],
)
def test_what_a_composition_brings_runs_on_every_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, substrate: str, topology: str,
    devices: list[list[str]],
) -> None:  # fmt: skip
    served: dict[str, tuple[list[str], str]] = {}
    real = Traffic._start_daemons

    def looking(self: Traffic, crew: Crew) -> dict[str, Started]:
        started = real(self, crew)
        for name, place in self.places.items():
            words = list(map(str, started[name].popen.args))  # type: ignore[arg-type]
            named = [word for key, word in pairwise(words) if key == "--device"]
            served[name] = (named, place.run("ip", "-br", "address"))
        return started

    monkeypatch.setattr(Traffic, "_start_daemons", looking)
    plan = transfer(
        "served",
        'runs = 1\nmetrics = ["goodput"]',
        topology,
        "[series]\nruns = [1]\n[emu]\nshare = true\ndilation = 4",
        to="n3",
        protocol="snooped",
    )
    results = run(plan.replace("[scenario]", f"[scenario]\n{OWN}"), tmp_path, substrate)
    assert results.flows["finished"].all()
    outcome = results.outcome(results.ok["cell"].iloc[0], 1)
    daemons = outcome["daemons"]
    assert sorted(daemons) == ["n1", "n2", "n3"]
    # Nothing is served by the wire for measuring.
    assert [served[name][0] for name in sorted(served)] == devices
    assert ["ctl0" in served[name][1] for name in sorted(served)] == [True, False, True]
    relay = daemons["n2"]
    snoop = relay["handlers"][0]
    # 200 kB in some 140 segments, and what acknowledges them: less where a host is late.
    assert relay["packets"]["forwarded"] > 150
    # It lets them go on, or holds duplicate acknowledgements back.
    seen = relay["packets"]["forwarded"] + relay["packets"]["hop"]
    assert snoop["name"] == "snoop" and snoop["packets"] == seen
    assert snoop["kept"] >= 137
    assert (relay["monitor"] is not None) == (substrate == "emu")
    assert relay["lanes"] is None
    # Daemons that serve end, and report, before series are read.
    recorded = results.series(results.ok["cell"].iloc[0])
    assert recorded["flow.1.offered"].iloc[-1] > 100_000
    assert "node.n2.queue" in recorded
    assert ("node.n2.delay" in recorded) == (substrate == "emu")


SWITCHES = transfer(
    "switches",
    """
runs = 1
pair = "switch"
metrics = ["goodput"]
""",
    'words = "linear,2,wire=20Mb/s"',
    """
[vary.switch]
off = "kernel:reno,sack=off,dsack=off,frto=off,window_scaling=off,timestamps=off,ecn=off"
on = "kernel:cubic,sack=on,dsack=on,frto=on,window_scaling=on,timestamps=on,ecn=on"
""",
    protocol="{switch}",
    size="4M",
)


def test_each_switch_of_the_kernels_tcp_takes_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of Table I of the WiFu paper: what the kernel says while data flows."""
    said: dict[str, tuple[list[str], list[str]]] = {}
    real = Traffic._all_over
    parameters = [f"/proc/sys/net/ipv4/{name}" for name, _ in KERNEL_KEYS.values()]

    def looking(self: Traffic, clients: Clients) -> bool:
        flow = self.flows[0]
        place = self.places[flow.source]
        if clients.now() > 0.5 and flow.congestion not in said:
            all_ = [line.split() for line in place.run("ss", "-tinoHO").splitlines()]
            data = [words for words in all_ if flow.congestion in words]
            said[flow.congestion] = (place.run("cat", *parameters).split(), data[0])
        return real(self, clients)

    monkeypatch.setattr(Traffic, "_all_over", looking)
    run(SWITCHES, tmp_path, "live")
    assert {name: values for name, (values, _) in said.items()} == {
        "reno": ["0"] * 6,
        "cubic": ["1", "1", "2", "1", "1", "1"],
    }
    for name, there in (("reno", False), ("cubic", True)):
        words = said[name][1]
        assert ("ts" in words, "sack" in words, "ecn" in words) == (there, there, there), words
        assert any(w.startswith("wscale:") for w in words) == there, words


CORE = transfer(
    "core",
    """
runs = 1
pair = "core"
metrics = ["goodput", "overflows"]
""",
    'words = "linear,2,wire=20Mb/s"',
    """
[vary.core]
off = { handler = [] }
on = { handler = [{ use = "null", hooks = ["input", "output"] }] }
""",
    protocol="kernel:cubic",
    size="2M",
)


def test_what_wifu_core_missed_is_a_metric(tmp_path: Path) -> None:
    """The plan of X-W5, shorter."""
    results = run(CORE, tmp_path, "live")
    found = results.ok.set_index("cell")
    assert dict(found["overflows"]) == {"off": 0.0, "on": 0.0}
    core = results.outcome("on", 1)["core"]
    assert sorted(core) == ["n1", "n2"]
    # 2 MB in some 1400 segments, and what acknowledges them.
    assert all(core[n]["hooks"][h]["packets"] > 300 for n in core for h in ("input", "output"))
    assert results.outcome("off", 1)["core"] == {}


def test_full_buffers_of_wifu_core_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is stopped, the socket's buffer fills up: what does not fit passes unseen."""
    real = Traffic._core
    # Else this limit would be reached before that of the buffer.
    longer = "[core]\nqueue_length = 100000"
    monkeypatch.setattr(
        Traffic, "_core", lambda self, *words: real(self, *words).replace("[core]", longer)
    )
    flow = {"from": "n1", "to": "n2", "protocol": "udp", "app": "bulk", "rate": "100M"}
    scenario: dict[str, Any] = {
        "topology": {"words": "linear,2,wire=1Gb/s"}, "stop": {"time": "4s"}, "flow": [flow],
        "handler": [{"use": "null", "hooks": ["input"], "nodes": ["n2"]}],
    }  # fmt: skip
    stopper = threading.Thread(target=stop_for_a_while, args=("core-n2.toml", 0.5, 2.0))
    stopper.start()
    outcome = json.loads(Live({}, 60)(scenario).json())
    stopper.join()
    assert sorted(outcome["core"]) == ["n2"]
    assert run_row(outcome, Measure())["overflows"] >= 1
    (row,) = outcome["flows"]
    assert row["bytes"] > 0.5 * row["datagrams_sent"] * 1472


def stop_for_a_while(word: str, after: float, seconds: float) -> None:
    """Stop the program of this process's child that has a word in its command line."""
    label, until = f"wifu-run-{os.getpid()}-", time.monotonic() + 30
    while time.monotonic() < until:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = path.read_text()
                if word in line and label in line:
                    time.sleep(after)
                    os.kill(int(path.parent.name), signal.SIGSTOP)
                    time.sleep(seconds)
                    os.kill(int(path.parent.name), signal.SIGCONT)
                    return
        time.sleep(0.02)


def test_a_plan_is_refused_where_a_host_is_missing() -> None:
    text = WIRE.replace("[live]\n", '[live]\nhosts = { n1 = "root@a" }\n')
    chosen: Plan = plans.parse(text).variant("live")
    with pytest.raises(ValueError, match=r"flow\.1.to: live.hosts has no n3"):
        Live(chosen.settings, None).check(chosen.scenario_of(chosen.cells[0], 1))
