"""Files of Mininet become topologies of radios."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

SHIM = Path(__file__).resolve().parents[1] / "wifu" / "mininet.py"

CHAIN = """
from mininet.topo import Topo
from mininet.net import Mininet
from mininet.link import TCLink
from mininet.log import setLogLevel

class Chain(Topo):
    def build(self, n=2, snr=20):
        hosts = [self.addHost(f"h{i}", ip=f"10.0.0.{i}/24") for i in range(1, n + 1)]
        for a, b in zip(hosts, hosts[1:]):
            self.addLink(a, b, snr=snr, bw=10, delay="5ms")

class Old(Topo):
    def __init__(self):
        Topo.__init__(self)
        a = self.addHost("a")
        b = self.addHost("b")
        self.addLink(a, b, reverse_snr=11.5)

class Placed(Topo):
    def build(self):
        self.addStation("a", position="0,0,0")
        self.addStation("b", position=(30, 40))
        self.addLink("a", "b")

class Switched(Topo):
    def build(self):
        self.addSwitch("s1")

print("this is not part of it: [[link]]")
topos = {"chain": Chain, "old": (lambda: Old()), "placed": Placed, "switched": Switched}
"""


def shown(tmp_path: Path, words: str, text: str = CHAIN) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "mytopo.py"
    file.write_text(text)
    line = [sys.executable, "-I", "-", str(file), words, "minimal"]
    return subprocess.run(
        line, input=SHIM.read_text(), capture_output=True, text=True, cwd=tmp_path, check=False
    )


def made(tmp_path: Path, words: str, text: str = CHAIN) -> dict[str, Any]:
    done = shown(tmp_path, words, text)
    assert done.returncode == 0, done.stderr
    return tomllib.loads(done.stdout.rpartition("\0")[2])


def test_hosts_hear_whom_they_are_linked_to(tmp_path: Path) -> None:
    topo = made(tmp_path, "chain,3,snr=17.5")
    assert [n["name"] for n in topo["node"]] == ["h1", "h2", "h3"]
    links = [(k["from"], k["to"], k["snr_db"], k["reverse_db"]) for k in topo["link"]]
    assert links == [("h1", "h2", 17.5, 17.5), ("h2", "h3", 17.5, 17.5)]
    assert topo["matrix"]["snr_db"][0][2] == -99
    said = shown(tmp_path, "chain,3").stderr
    assert "bw, delay" in said and "ip" in said


def test_constructors_of_the_old_style_and_a_way_back(tmp_path: Path) -> None:
    (link,) = made(tmp_path, "old")["link"]
    assert (link["snr_db"], link["reverse_db"]) == (25, 11.5)


def test_positions_say_who_hears_whom(tmp_path: Path) -> None:
    topo = made(tmp_path, "placed")
    assert [n["position"] for n in topo["node"]] == [[0, 0, 0], [30, 40, 0]]
    assert "link" not in topo and "matrix" not in topo


def test_one_topology_needs_no_name(tmp_path: Path) -> None:
    one = CHAIN.rpartition("topos =")[0] + "topos = {'chain': Chain}\n"
    assert len(made(tmp_path, "minimal", one)["node"]) == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("switched", "s1 is a switch"),
        ("ring", "has chain, old, placed, switched"),
        ("minimal", "has chain"),
        ("chain,1", "two hosts at least"),
        ("chain,2,snr=good", "snr='good' is no number"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, words: str, hint: str) -> None:
    done = shown(tmp_path, words)
    assert done.returncode != 0 and hint in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_the_rest_of_mininet_can_be_named_but_not_used(tmp_path: Path) -> None:
    done = shown(tmp_path, "chain", CHAIN + "net = Mininet(topo=Chain())\n")
    assert done.returncode != 0 and "Mininet of Mininet is not here" in done.stderr
