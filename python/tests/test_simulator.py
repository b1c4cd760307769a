"""The lab on the simulator."""

import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import wifu
from wifu import figures
from wifu import plan as plans
from wifu.campaign import check_scenarios
from wifu.errors import LabError
from wifu.rerun import again

SCENARIO: dict[str, Any] = {
    "seed": 5,
    "run": 2,
    "topology": {"words": "linear,4", "set": "TB-W3"},
    "flow": [
        {"from": "n1", "to": "n4", "protocol": "tcp-newreno", "app": "file", "bytes": "200k"},
        {
            "from": "n4",
            "to": "n2",
            "protocol": "udp",
            "app": "file",
            "bytes": "50k",
            "rate": "1Mb/s",
        },
    ],
    "record": {"series": True, "frames": True},
}


def test_series_outcome_and_frames_agree() -> None:
    run = wifu.run(SCENARIO)
    flows = run.to_pandas()
    assert flows["bytes"].tolist() == [200_000, 50_000]
    assert flows["flow_hops"].tolist() == [3, 2]
    delivered = run.series("flow.1.delivered")
    assert delivered.iloc[-1] == 200_000
    assert delivered.index[-1] == pytest.approx(flows["last_byte_s"].iloc[0])
    assert np.all(np.diff(delivered.index) >= 0)
    told = run.outcome["flows"][0]["goodput_bps"]
    assert flows["goodput_bps"].iloc[0] == pytest.approx(told)
    frames = run.frames()
    sent = frames[(frames["what"] == "sent") & (frames["kind"] == "data")]
    assert len(sent) == run.nodes()["attempts"].sum() == run.links()["attempts"].sum()
    assert frames["time_s"].is_monotonic_increasing
    hops = run.hops().query("flow == 1 and not reverse")
    assert hops[["from", "to"]].to_numpy().tolist() == [["n1", "n2"], ["n2", "n3"], ["n3", "n4"]]
    packet = hops[["queue_s", "contention_s", "retry_s", "air_s"]].sum(axis=1) / hops["packets"]
    assert (packet > 0.5e-3).all()


def test_the_file_of_wifu_sim_reads_as_wifu_trace_tells_it(tmp_path: Path) -> None:
    from wifu.program import find_program

    try:
        program = str(find_program())
    except LabError:
        pytest.skip("the program wifu is not built: make build")
    file = tmp_path / "frames.bin"
    words = [
        "--topo",
        "linear,4",
        "--set",
        "TB-B",
        "--protocol",
        "tcp-newreno",
        "-n",
        "50k",
    ]
    subprocess.run([program, "sim", *words, "--frames", str(file)], check=True, capture_output=True)
    told = subprocess.run(
        [program, "trace", str(file), "--csv"], check=True, capture_output=True, text=True
    )
    table = pd.read_csv(io.StringIO(told.stdout), keep_default_na=False, na_values="")
    frames = wifu.read_frames(file)
    assert len(frames) == len(table) > 500
    assert frames["time_s"].to_numpy() == pytest.approx(table["time_s"].to_numpy(), abs=1e-12)
    for column in ("frame", "tries", "value"):
        assert (frames[column] == table[column]).all()
    for column in ("node", "peer", "other", "what", "why", "kind"):
        mine = frames[column].astype(object).fillna("")
        assert mine.tolist() == table[column].fillna("").tolist()
    for column in ("retry", "unsensed", "unheard"):
        assert (frames[column] == (table[column] == 1)).all()
    for column in ("rate_mbps", "signal_dbm"):
        assert frames[column].to_numpy() == pytest.approx(table[column].to_numpy(), nan_ok=True)
    assert {"n1", "n4"} < set(frames["node"])
    assert {"a", "d"} < set(wifu.read_frames(file, ["a", "b", "c", "d"])["node"])


def test_the_same_scenario_gives_the_same_octets_in_any_thread() -> None:
    from wifu import runner

    with ThreadPoolExecutor(4) as pool:
        texts = set(pool.map(lambda _: runner.mesh(SCENARIO).json(), range(8)))
    assert len(texts) == 1
    other = runner.mesh({**SCENARIO, "run": 3}).json()
    assert other not in texts


def test_recording_changes_nothing() -> None:
    quiet = wifu.run({**SCENARIO, "record": {}})
    loud = wifu.run(SCENARIO)
    assert quiet.outcome["trace_hash"] == loud.outcome["trace_hash"]
    with pytest.raises(LabError, match=r"no frames were recorded: record\.frames = true"):
        quiet.frames()
    with pytest.raises(KeyError, match=r"none were recorded: record\.series = true"):
        quiet.series("flow.1.cwnd")


def test_delayed_acknowledgements_are_delayed() -> None:
    flow = {"from": "n1", "to": "n2", "app": "file", "bytes": "1M"}
    base = {"topology": {"words": "linear,2", "set": "TB-W3"}}
    acks = []
    for every in (1, 2):
        protocol = f"tcp-reno,ack_every={every}"
        run = wifu.run({**base, "flow": [{**flow, "protocol": protocol}]})
        acks.append(run.outcome["flows"][0]["feedback_segments"])
    assert acks[1] == pytest.approx(acks[0] / 2, rel=0.02)


PLAN = """
name = "small"
runs = 3
[scenario]
topology = { words = "linear,{hops+1}", set = "TB-A", host.profile = "off" }
[[scenario.flow]]
from = "n1"
to = "n{hops+1}"
protocol = "{protocol}"
app = "file"
bytes = "50k"
jitter = "5ms"
[vary]
hops = [1, 2]
protocol = ["tcp-tahoe", "tcp-sack"]
"""


def test_a_wrong_scenario_stops_a_campaign_before_it_begins(tmp_path: Path) -> None:
    for wrong, told in (
        (
            ('app = "file"', 'app = "fiel"'),
            r"^p.toml:10: scenario.flow.1.app: .*did you mean `file`",
        ),
        (('"TB-A"', '"TB-AA"'), r"^p.toml.*TB-AA.*TB-A"),
        (("jitter =", "jittr ="), r"^p.toml:12: scenario.flow.1.jittr: .*did you mean `jitter`"),
    ):
        chosen = plans.parse(PLAN.replace(*wrong), Path("p.toml"))
        with pytest.raises(LabError, match=told):
            wifu.campaign(chosen, tmp_path / "r")
        with pytest.raises(LabError, match=told):
            check_scenarios(chosen)
        assert not (tmp_path / "r").exists()


def test_a_dry_run_refuses_what_the_run_would(tmp_path: Path) -> None:
    # Only the second level of the axis is wrong.
    (tmp_path / "p.toml").write_text(PLAN.replace('"tcp-sack"]', '"tcp-sakc"]'))
    for more in (["--dry-run"], ["--dry-run", "--json"], []):
        done = subprocess.run(
            [sys.executable, "-m", "wifu.cli", "run", "p.toml", *more],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2, done.stdout
        assert "did you mean `tcp-sack`" in " ".join(done.stderr.split())
        assert done.stdout == ""


def test_a_campaign_can_be_done_again(tmp_path: Path) -> None:
    results = wifu.campaign(plans.parse(PLAN), tmp_path / "r")
    assert results.manifest["failed"] == []
    assert len(results.manifest["code"][0]) == 16
    done = again(results.store, None, None, 2)
    assert (done.equal, done.differ) == (12, [])


@pytest.mark.parametrize("kind", ["", "codel", "red"])
def test_what_queues_dropped_is_not_lost_on_the_hops(kind: str) -> None:
    """Neither by a wire's full queue nor by its discipline."""
    scenario: dict[str, Any] = {
        "topology": {"words": "linear,3,wire=10Mb/s,delay=10ms,queue=100"},
        "stop": {"time": "20s"},
        "flow": [
            {"from": n, "to": "n3", "protocol": "tcp-newreno", "app": "bulk"} for n in ("n1", "n2")
        ],
    }
    if kind:
        scenario["host"] = {"queue": {"kind": kind}}
    run = wifu.run(scenario)
    hops, flows = run.hops(), run.outcome["flows"]
    assert hops["packet_loss"].max() == 0.0
    dropped = sum(flow["packets"]["queue"] for flow in flows)
    assert hops["queue_drops"].sum() == dropped > 0
    early = hops["early_drops"].sum() if "early_drops" in hops else 0
    assert (early > 0) == bool(kind)


def test_losses_of_each_hop_of_a_campaign(tmp_path: Path) -> None:
    text = """
name = "hops"
runs = 2
metrics = ["passive_loss", "loss"]
[scenario]
topology = { words = "linear,4", set = "TB-A" }
radio.attempts = 2
[[scenario.flow]]
from = "n1"
to = "n4"
protocol = "{protocol}"
app = "file"
bytes = "100k"
[vary]
protocol = ["tcp-newreno", "tcp-tahoe"]
"""
    found = wifu.campaign(plans.parse(text), tmp_path / "r")
    hops = found.hops({"protocol": "tcp-tahoe"})
    assert set(hops["protocol"]) == {"tcp-tahoe"}
    data = hops[~hops["reverse"]]
    assert data[["run", "hop"]].to_numpy().tolist() == [[r, h] for r in (1, 2) for h in (1, 2, 3)]
    tried = data["packets"] + data["lost"]
    assert (data["packet_loss"] == data["lost"] / tried).all()
    assert data["packet_loss"].between(0, 1).all() and data["packet_loss"].max() > 0
    assert data["queue_drops"].eq(0).all()
    assert (data["queue_per_packet_s"] * data["packets"]).to_numpy() == pytest.approx(
        data["queue_s"].to_numpy()
    )
    assert data["passive_loss"].isna().tolist() == [False, False, True] * 2
    means = data.groupby("run")["passive_loss"].mean()
    told = found.sample("passive_loss", {"protocol": "tcp-tahoe"}).droplevel("cell")
    assert means.to_numpy() == pytest.approx(told.to_numpy())


def test_what_full_queues_refused_is_told_of_hops() -> None:
    told = wifu.run(
        {
            "topology": {"words": "linear,4", "set": "TB-W3"},
            "radio": {"queue": 3, "ring": 2},
            "stop": {"time": "5s"},
            "flow": [{"from": "n1", "to": "n4", "protocol": "tcp-newreno", "app": "bulk"}],
        }
    )
    hops = told.hops()
    drops = {n["name"]: n["queue_drops"] for n in told.outcome["nodes"]}
    # Each way's own: together they are the node's.
    sums = hops.groupby("from")["queue_drops"].sum().to_dict()
    assert sums == {name: drops[name] for name in sums}
    assert hops["queue_drops"].sum() > 0


def test_a_flow_or_a_recorder_more_shifts_nobodys_channel() -> None:
    # Both flows send for the whole two seconds, at the ends of a chain, where nobody hears the
    # other: neither packets, nor backoffs, nor fading of the first may change.
    flow = {"from": "n1", "to": "n2", "protocol": "tcp-newreno", "app": "stream", "time": "2s"}
    far = {**flow, "from": "n30", "to": "n29"}
    base = {"topology": {"words": "linear,30", "set": "TB-A"}, "stop": {"time": "3s"}}
    alone = wifu.run({**base, "flow": [flow]})
    both = wifu.run({**base, "flow": [flow, far], "record": {"series": True, "frames": True}})
    assert both.outcome["flows"][1]["bytes"] > 1_000_000
    assert both.outcome["flows"][0]["bytes"] > 100_000
    assert both.outcome["flows"][0] == alone.outcome["flows"][0]


def test_a_flow_that_contends_meets_the_same_fading() -> None:
    flow = {"from": "n1", "to": "n2", "protocol": "udp", "app": "stream", "time": "2s"}
    slow, fast = {**flow, "rate": "1Mb/s"}, {**flow, "from": "n3", "rate": "4Mb/s"}
    base = {"topology": {"words": "linear,3", "set": "TB-A"}, "record": {"frames": True}}

    def levels(*flows: dict[str, Any]) -> tuple["pd.Series[float]", int]:
        frames = wifu.run({**base, "flow": list(flows)}).frames()
        own = frames[(frames["node"] == "n2") & (frames["peer"] == "n1")]
        heard = own[(own["what"] == "received") & (own["kind"] == "data")]
        # Fading is constant for 50 ms.
        by = heard.groupby((heard["time_s"] / 0.05).astype(int))["signal_dbm"]
        assert (by.nunique() == 1).all()
        return by.first(), int((own["what"] == "lost").sum())

    (alone, few), (contending, many) = levels(slow), levels(slow, fast)
    assert many > few, "they do contend"
    common = alone.index.intersection(contending.index)
    assert len(common) > 25
    assert alone[common].nunique() > 20
    assert (alone[common] == contending[common]).all()


def test_a_probe_of_the_receivers_part_is_recorded_and_drawn_by_a_plan(tmp_path: Path) -> None:
    """The receiver limits the window, and the same part of the sender has nothing to limit."""
    text = """
    name = "limited"
    runs = 1
    [scenario]
    topology.words = "linear,3"
    [[scenario.flow]]
    from = "n1"
    to = "n3"
    protocol = "{protocol}"
    app = "file"
    bytes = "200k"
    [vary]
    protocol = ["tcp-newreno", "tcp-clamp"]
    [series]
    runs = [1]
    record = ["clamp.limit", "peer.clamp.limit", "peer.window"]
    [[figure]]
    kind = "timeseries"
    show = ["peer.clamp.limit", "peer.window"]
    where = { protocol = "tcp-clamp" }
    [label]
    "peer.clamp.limit" = "what the receiver allows"
    """
    found = wifu.campaign(plans.parse(text), tmp_path / "r")
    plain, clamp = (found.series(c) for c in found.plan.cells)
    assert "flow.1.peer.window" in plain and "flow.1.peer.clamp.limit" not in plain
    allowed = clamp["flow.1.peer.clamp.limit"].dropna()
    own = clamp["flow.1.clamp.limit"].dropna()
    assert len(allowed) > 10 and not own.reindex(allowed.index).equals(allowed)
    (made,) = figures.draw_all(found)
    assert isinstance(made, figures.Drawn)
    svg = made.svg.read_text()
    assert "what the receiver allows" in svg and "peer.window" in svg
