"""What the tools' own lists have to say the same about, read from their source."""

import ast
import importlib
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
EVERYWHERE = {"sh", "env", "cat"}
RUNS = {"ask": 0, "run": 0, "serve": 1, "over": 1, "start": 1}
"""Calls that run a program, and which argument names it."""


def programs(source: str) -> set[str]:
    """The programs that calls name, and the first words of lists that are commands."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args):
                if name in RUNS and len(args) > RUNS[name]:
                    found.append(args[RUNS[name]])
            case ast.AnnAssign(annotation=ast.Name(id="Command"), value=ast.List(elts=elts)):
                found += elts[:1]
            case ast.Return(value=ast.List(elts=elts)):
                found += elts[:1]
    words = {str(n.value) for n in found if isinstance(n, ast.Constant)}
    return {Path(word).name for word in words if not word.startswith("-")} - EVERYWHERE


def test_the_programs_of_the_applications_are_asked_for_before_they_run() -> None:
    checks = (TOOLS / "check_applications.py").read_text()
    used = programs(checks) | programs((TOOLS / "services.py").read_text())
    used |= programs((TOOLS / "app_world.py").read_text())
    assert {"nginx", "redis-benchmark", "scp", "setpriv", "cc"} <= used, "what is looked for"
    (needed,) = (
        ast.literal_eval(node.value)
        for node in ast.walk(ast.parse(checks))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NEEDED"
    )
    asked = {command for commands in needed.values() for command in commands}
    assert used - asked == set()


def test_a_folder_that_cannot_be_removed_hides_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    services = importlib.import_module("services")
    folder = tmp_path / "sshd"
    with services.present(folder):
        assert folder.is_dir()
    assert not folder.exists()
    with pytest.raises(RuntimeError, match="the first"), services.present(folder):
        (folder / "of others").touch()
        raise RuntimeError("the first")
    with services.present(folder):
        (folder / "of others").unlink()
    assert folder.is_dir(), "it was there before"


def test_what_a_protocol_adds_is_counted_without_comments_and_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    effort = importlib.import_module("effort")
    rust = (
        "//! Doc.\n\n/// It.\n#[inline]\nfn f() {\n    // Why.\n}\n\n#[cfg(test)]\nmod tests {\n}\n"
    )
    assert effort.code(rust) == 2
    rows = {r.protocol: r for r in effort.effort()}
    assert set(rows["tcp-ap05"].parts) == {"ap05", "ttl-hops"} and rows["tcp-ap05"].lines > 100
    assert set(rows["tcp-delack"].parts) == {"dynamic"} and rows["tcp-delack"].files == 1
    assert rows["tcp-linux"].parts == {}, "a profile adds none"


def test_orders_of_segments_are_compared_until_they_differ_and_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    losses = importlib.import_module("same_losses")
    kernel = ["0", "1", "2", "3", "1*", "4"]
    found = losses.compared(kernel, ["0", "1", "2", "1*", "3", "4"])
    assert found["alike until"] == 3 and found["of"] == 6
    assert found["in common"] == pytest.approx(5 / 6)
    assert losses.compared(kernel, kernel)["in common"] == 1.0


def test_the_link_drops_a_named_segment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    losses = importlib.import_module("same_losses")
    link = losses.Link(0, 1, 1e6, 0.1, 8, frozenset({1}))

    def segment(number: int) -> bytes:
        ip = bytes([0x45]) + bytes(19)
        seq = int(7 + number * losses.SEGMENT).to_bytes(4, "big")
        tcp = bytes(4) + seq + bytes(4) + b"\x50" + bytes(7)
        return ip + tcp + bytes(int(losses.SEGMENT))

    assert [link._drops(segment(n), 0.0) for n in (0, 1, 2, 1)] == [False, True, False, False]
    assert losses.order(link.sent) == ["0", "1", "2", "1*"]
