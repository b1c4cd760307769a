"""The package's modules stand on each other in layers: no module imports one that imports it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import wifu

Graph = Mapping[str, set[str]]


def modules(package: Path) -> dict[str, Path]:
    """Every module of a package by its dotted name; of a compiled one the stub stands for it."""
    found = {}
    for path in [*package.rglob("*.pyi"), *package.rglob("*.py")]:
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def named(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    """What a module imports, wherever the statement stands: `a.b` and, of `from a import b`, both
    `a.b` and, should that be no module, `a`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = module.split(".")
            above = here[: len(here) - node.level + is_package] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{name.name}" for name in node.names)


def graph(package: Path) -> Graph:
    """Which modules of a package each of them imports."""
    known = modules(package)
    out: dict[str, set[str]] = {}
    for module, path in known.items():
        tree = ast.parse(path.read_text())
        out[module] = set()
        for name in named(tree, module, path.stem == "__init__"):
            target = name if name in known else name.rpartition(".")[0]
            if target in known and target != module:
                out[module].add(target)
    return out


def circles(imports: Graph) -> list[list[str]]:
    """Modules that reach themselves, those that reach each other together."""
    reach: dict[str, set[str]] = {}
    for start in imports:
        seen: set[str] = set()
        left = list(imports[start])
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                left += imports[name]
        reach[start] = seen
    found = {tuple(sorted(b for b in reach[a] if a in reach[b])) for a in imports if a in reach[a]}
    return [list(circle) for circle in sorted(found)]


def test_no_module_imports_one_that_imports_it() -> None:
    imports = graph(Path(wifu.__file__).parent)
    assert imports["wifu"] and imports["wifu.plan"], "the package was found"
    assert circles(imports) == []


def test_a_circle_is_found_wherever_the_import_stands(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    files = {
        "__init__": "from p.a import f\n",
        "a": "from . import b\nimport os\n",
        "b": "def g():\n    from p.c import h\n",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.a\n",
        "d": "from p import c\nfrom p.a import f\n",
    }
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    (package / "_native.pyi").write_text("")
    assert circles(graph(package)) == [["p.a", "p.b", "p.c"]]
    (package / "c.py").write_text("from p import _native\n")
    assert circles(graph(package)) == []
    (package / "c.py").write_text("from p import name_of_the_package\n")
    assert circles(graph(package)) == [["p", "p.a", "p.b", "p.c"]]
