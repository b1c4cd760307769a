"""The Python side of emulated radios, where the machine can make them."""

import os
from pathlib import Path

import pytest

from wifu.emu import Emulation, EmulationError, program
from wifu.errors import LabError
from wifu.program import find_program


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        monkeypatch.setenv("WIFU", str(find_program()))
    except LabError as e:
        pytest.skip(str(e))
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.mark.real_time
@pytest.mark.usefixtures("command")
def test_hosts_talk_until_their_link_is_cut() -> None:
    name = f"t-py-{os.getpid()}"
    with Emulation("linear,3", rate="6M", name=name, options=("--share",)) as net:
        assert list(net) == ["n1", "n2", "n3"]
        assert net.pingAll() == 0
        assert "1 received" in net["n1"].cmd("ping -c1 n3")
        one, two = net["n1"], net["n2"]
        assert net.get("n1") is one and net.get("n1", "n2") == [one, two]
        assert one.popen("sh -c 'exit 3'").wait() == 3
        assert net.iperf((one, two), 1) > 1e6
        with pytest.raises(EmulationError, match='"n9"; there are n1, n2, n3'):
            net.get("n9")
        net.configLinkStatus("n2", "n3", "down")
        assert "0 received" in two.cmd("ping -c1 -W1 n3")
        net.configLinkStatus("n2", "n3", "up")
        assert "1 received" in two.cmd("ping -c1 n3")
        net.cut("n1", "n2")
        assert "0 received" in net["n1"].cmd("ping -c1 -W1 n2")
        net.restore()
        net.snr("n1", "n2", 18)
        row = next(r for r in net.links() if (r["from"], r["to"]) == ("n1", "n2"))
        assert round(row["snr_db"]) == 18
        assert net.iperf(("n1", "n2"), 1) > 1e6
        assert net.iperf(("n1", "n2"), 1, protocol="tcp-newreno") > 1e6
        assert net.iperf(("n1", "n2"), 1, protocol="kernel:reno") > 1e6
        with pytest.raises(EmulationError, match="tcp-newreno"):
            net.iperf(("n1", "n2"), 1, protocol="tcp-newrino")
        delay = net["n1"].delay_us()
        assert delay is not None and delay > 200
        assert net.status()["verdict"] in ("VALID", "SUSPECT", "INVALID")
        with pytest.raises(EmulationError, match="n9"):
            net.pause("n9")
        net.cut("n2", "n3")
        with pytest.raises(EmulationError, match="restore"):
            net.restore("n2")
        assert "0 received" in net["n2"].cmd("ping -c1 -W1 n3")
    assert not (Path("/run/wifu/emu") / name).exists()


@pytest.mark.real_time
@pytest.mark.usefixtures("command")
def test_why_it_does_not_start_is_said() -> None:
    net = Emulation("ring,3")
    with pytest.raises(EmulationError, match="no shape is called"):
        net.start()


def test_an_option_that_would_hide_the_greeting_is_refused() -> None:
    with pytest.raises(EmulationError, match="status"):
        Emulation("linear,3", options=("--json",))


def test_a_missing_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("WIFU_BIN", "/nonexistent/wifu")
    with pytest.raises(EmulationError, match="no program /nonexistent/wifu"):
        program()
    monkeypatch.delenv("WIFU_BIN")
    monkeypatch.delenv("WIFU", raising=False)
    monkeypatch.setenv("CARGO_TARGET_DIR", "/nonexistent")
    with pytest.raises(EmulationError, match="run `make build`"):
        program()
