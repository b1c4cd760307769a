"""What protocols go without on emulated hosts is told with their runs."""

from __future__ import annotations

import subprocess

import pytest

from wifu import lacks
from wifu.program import find_program


def checked(name: str) -> str:
    program = find_program()
    words = [str(program), "check", name, "--substrate", "emu", "--json"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("name", "rate"), [("tcp-ap11", True), ("tcp-ap11,bandwidth=24M", False)])
def test_a_rate_that_nobody_tells_is_named_unless_it_is_set(name: str, rate: bool) -> None:
    told = lacks.sentence(name, checked(name))
    assert told.startswith(f"{name} knows less here than in the simulator: without site.route_hops")
    assert ("it takes links of 11 Mb/s unless bandwidth is set" in told) == rate
    # What the simulator does not tell either makes no difference.
    assert "tx_power" not in told and "it is in" not in told


def test_who_asks_for_nothing_lacks_nothing() -> None:
    assert lacks.sentence("tcp-newreno", checked("tcp-newreno")) == ""
