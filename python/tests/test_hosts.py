"""What a run changes on other people's hosts, and how it is given back: without SSH."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from wifu import ssh
from wifu.errors import RunError
from wifu.flows import flows_of
from wifu.kernels import acknowledge_all, check_kernel
from wifu.places import Place
from wifu.ssh import Connection

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Notes:
    """In a connection's place."""

    def __init__(self, does: list[list[str]]) -> None:
        self.does = does

    def undo(self, words: Sequence[str]) -> None:
        self.does.append(["undo", *words])


class Scripted(Place):
    """A host without a kernel's module, on which nothing is run."""

    def run(self, *words: str, text: str | None = None, timeout: float = 30.0) -> str:
        does = cast(Notes, self.connection).does
        does.append([*words])
        return "cubic vegas" if ["modprobe", "tcp_vegas"] in does and words[0] == "cat" else "cubic"


def test_a_module_is_noted_before_it_is_loaded() -> None:
    does = list[list[str]]()
    place = Scripted("a", "10.0.0.1", (), "wifu", "/tmp", cast(Connection, Notes(does)))
    flow = {"from": "a", "to": "b", "protocol": "kernel:vegas", "bytes": 1000}
    check_kernel(flows_of({"flow": [flow]}), place)
    steps = [words for words in does if words[0] != "cat"]
    undo = ["undo", "sh", "-c", "modprobe -r tcp_vegas || :"]
    assert steps == [undo, ["modprobe", "tcp_vegas"]]


def test_a_host_that_does_not_answer_is_no_kernel_without_a_module() -> None:
    class Deaf(Notes):
        def undo(self, words: Sequence[str]) -> None:
            raise RunError("a: the host does not answer as it should")

    place = Scripted("a", "10.0.0.1", (), "wifu", "/tmp", cast(Connection, Deaf([])))
    flow = {"from": "a", "to": "b", "protocol": "kernel:vegas", "bytes": 1000}
    with pytest.raises(RunError, match="does not answer as it should"):
        check_kernel(flows_of({"flow": [flow]}), place)


ROUTE = "10.85.0.9/32 via 10.85.0.2 dev one"
PATHS = "10.85.0.9/32 nexthop via 10.85.0.2 dev one nexthop via 10.86.0.3 dev three"


@contextlib.contextmanager
def two_ways() -> Iterator[tuple[str, ...]]:
    """A namespace with two interfaces; yields how to run a command inside."""
    name = f"wifu-t-routes-{os.getpid()}"
    inside = ("ip", "netns", "exec", name)
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for line in (
            "ip link add one type veth peer name two", "ip link set one up", "ip link set two up",
            "ip link add three type veth peer name four", "ip link set three up",
            "ip link set four up", "ip addr add 10.85.0.1/24 dev one",
            "ip addr add 10.86.0.1/24 dev three",
        ):  # fmt: skip
            subprocess.run([*inside, *line.split()], check=True)
        yield inside
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


class Cut(Place):
    """A host whose connection ends before a route is made there."""

    def run(self, *words: str, text: str | None = None, timeout: float = 30.0) -> str:
        if words[2] in ("replace", "prepend"):
            raise RunError("cut")
        return super().run(*words, text=text, timeout=timeout)


@pytest.mark.real_time
@root
@pytest.mark.parametrize("kind", [Place, Cut])
@pytest.mark.parametrize(
    ("given", "then"),
    [
        ((), ""),
        ((ROUTE,), ""),
        ((f"{ROUTE} quickack 1",), ""),
        ((ROUTE, "10.85.0.9/32 via 10.85.0.3 dev one metric 50"), ""),
        ((f"{ROUTE} metric 20", "10.85.0.9/32 via 10.85.0.3 dev one metric 50"), ""),
        ((PATHS,), ""),
        ((PATHS,), "ip link set four down"),  # "linkdown" in what `ip` shows
        ((PATHS,), "ip link set three down"),  # "dead linkdown"
    ],
)
def test_routes_are_given_back_as_they_were(
    given: Sequence[str], then: str, kind: type[Place]
) -> None:
    with two_ways() as inside:
        for line in (*(f"ip route add {route}" for route in given), then or "true"):
            subprocess.run([*inside, *line.split()], check=True)
        does = list[list[str]]()
        connection = cast(Connection, Notes(does))
        place = kind("a", "10.85.0.1", (*inside, "sh", "-c"), "wifu", "/tmp", connection)
        before = place.run("ip", "route", "show")
        if kind is Cut:
            with pytest.raises(RunError, match="cut"):
                acknowledge_all(place, "10.85.0.9")
        else:
            for _ in range(2):  # as two flows do, or a run whose keeper was killed
                acknowledge_all(place, "10.85.0.9")
            assert "quickack 1" in place.run("ip", "route", "get", "10.85.0.9")
        for _, *words in reversed(does):
            Place.run(place, *words)
        assert place.run("ip", "route", "show") == before


@pytest.mark.real_time
@root
def test_a_route_left_over_does_not_lead_the_next_one() -> None:
    with two_ways() as inside:
        connection = cast(Connection, Notes([]))
        place = Place("a", "10.85.0.1", (*inside, "sh", "-c"), "wifu", "/tmp", connection)
        acknowledge_all(place, "10.85.0.9")
        assert "dev one" in place.run("ip", "route", "get", "10.85.0.9")
        # Its keeper is killed, and the way to the sender changes.
        way = ("via", "10.86.0.2", "dev", "three")
        place.run("ip", "route", "append", "10.85.0.9/32", *way)
        acknowledge_all(place, "10.85.0.9")
        assert " ".join(way) in place.run("ip", "route", "get", "10.85.0.9")


def chatty(folder: Path, then: str) -> Connection:
    """A connection by a command that tells more than a pipe holds before it does its work."""
    (folder / "wifu").write_text("#!/bin/sh\necho wifu 0\n")
    (folder / "wifu").chmod(0o755)
    client = folder / "ssh"
    client.write_text(f"""#!/bin/sh
case " $* " in *" -O "*) exit 1 ;; esac
yes debug1: | head -c 300000 >&2
for last; do :; done
{then}
""")
    client.chmod(0o755)
    return Connection("a", "a", [str(client)], str(folder / "wifu"), folder / "socket")


@pytest.mark.real_time
@root
def test_ssh_may_say_as_much_as_it_likes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "CONNECT", -15.0)
    connection = chatty(tmp_path, 'exec sh -c "$last"')
    try:
        assert connection.open().version == "wifu 0"
        connection.undo(["true"])
    finally:
        connection.close()


def test_of_much_that_ssh_says_the_end_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "CONNECT", -15.0)
    connection = chatty(tmp_path, "echo 'a: Permission denied (publickey).' >&2; exit 255")
    with pytest.raises(RunError, match="no login without a password"):
        connection.open()
    connection.close()
