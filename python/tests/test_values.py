import json

import pytest

from wifu import values
from wifu.errors import LabError
from wifu.runner import mesh


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1..4", [1, 2, 3, 4]),
        ("1..9..4", [1, 5, 9]),
        ("1,2,5.5", [1, 2, 5.5]),
        ("1..3,6", [1, 2, 3, 6]),
        ("tcp-reno,tcp-sack", ["tcp-reno", "tcp-sack"]),
        ("['tcp-reno,iw=4', 'udp']", ["tcp-reno,iw=4", "udp"]),
        ("'a,b',c", ["a,b", "c"]),
        ("6Mb/s", ["6Mb/s"]),
    ],
)
def test_sequences(text: str, expected: list[object]) -> None:
    assert values.sequence(text) == expected


def test_an_empty_range_is_an_error() -> None:
    with pytest.raises(LabError, match=r"the range 4\.\.1 is empty"):
        values.sequence("4..1")


def test_quantities() -> None:
    assert values.seconds("200ms") == pytest.approx(0.2)
    assert values.seconds(3) == 3.0
    assert values.octets("2M") == 2e6
    assert values.octets("64KiB") == 65536
    assert values.fraction("5%") == pytest.approx(0.05)
    with pytest.raises(LabError, match="unknown unit secs; did you mean `sec`"):
        values.seconds("3secs")
    for wrong in ("", "s", "_", ".", "e5", "1..2"):
        with pytest.raises(LabError, match="is no time"):
            values.seconds(wrong)
    with pytest.raises(LabError, match="True is no time"):
        values.seconds(True)


@pytest.mark.parametrize(
    "text",
    ["2s", "2 sec", "2000ms", "2_000_000us", "2000000 µs", ".05min", "2.s"],
)
def test_times_are_read_as_the_simulator_reads_them(text: str) -> None:
    flow = {"from": "n1", "to": "n2", "protocol": "udp", "rate": "10k"}
    scenario = {"topology": {"words": "minimal"}, "stop": {"time": text}, "flow": [flow]}
    ended = json.loads(mesh(scenario).json())["sim_seconds"]
    assert values.seconds(text) == pytest.approx(ended)


@pytest.mark.parametrize("text", ["2kB", "2KB", "2 k", "2K", "2_000", "2000B", "2KiB", "0.002M"])
def test_sizes_are_read_as_the_simulator_reads_them(text: str) -> None:
    flow = {"from": "n1", "to": "n2", "protocol": "tcp-newreno", "app": "file", "bytes": text}
    scenario = {"topology": {"words": "minimal"}, "stop": {"time": 9}, "flow": [flow]}
    assert values.octets(text) == json.loads(mesh(scenario).json())["flows"][0]["bytes"]


def test_templates_become_values_or_text() -> None:
    names = {"hops": 3, "protocol": "tcp-reno"}
    assert values.fill("{hops}", names) == 3
    assert values.fill("linear,{hops+1}", names) == "linear,4"
    assert values.fill({"a": ["{protocol}", 5]}, names) == {"a": ["tcp-reno", 5]}
    assert values.fill("{{x}}", names) == "{x}"
    assert values.fill("{10*hops - 1}ms", names) == "29ms"
    assert values.fill("{min(hops, 2)}", names) == 2
    assert values.used({"a": "n{hops+1}", "b": ["{min(x, copy)}"]}) == {"hops", "x", "copy"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{hop}", "nothing is called hop; did you mean `hops`"),
        ("{__import__('os')}", "only names, numbers"),
        ("{hops.real}", "only names, numbers"),
        ("{protocol*2}", "'tcp-reno' is no number"),
        ("{hops", "a brace { is not closed"),
        ("{}", "is no expression"),
        ("{60/(hops-3)}s", "a division by zero"),
        ("{hops%0}", "a division by zero"),
        ("{min(hops, protocol)}", "'tcp-reno' is no number"),
        ("{-protocol}", "'tcp-reno' is no number"),
        # Silently dropped, it would be another name than what is written.
        ("n{hops:02}", "nothing is understood behind hops, such as :02"),
        ("{protocol!r}", "nothing is understood behind protocol, such as !r"),
    ],
)
def test_bad_templates(text: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        values.fill(text, {"hops": 3, "protocol": "tcp-reno"})
