"""What is wrong with text that is no TOML, in the words of who writes plans: what to write there.

Python's reader says what it expected next. It tells no line at the end of a text, and the line of
what it did not expect where something before it is not closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

TWICE = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Duplicate inline table key")
OPEN = ("Illegal character '\\n'", "Unterminated string", 'Expected "\'"', "Expected '\"'")
CURLY = "\u201c\u201d\u201e\u2018\u2019"
BARE = re.compile(r"[A-Za-z_][\w.:,=+/-]*")
QUANTITY = re.compile(r"[=\[,]\s*([+-]?\d[\d.]*\s*[A-Za-z%][A-Za-z/]*)\s*([,\]}#]|$)")


def words(error: str, text: str) -> tuple[int, str]:
    """The line on which something is wrong, from 1 on, and what; the reader's own words where
    there are no better ones.
    """
    lines = text.splitlines() or [""]
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", error)
    what = error[: found.start()] if found else error
    # At the end of the text there is no number.
    line = int(found[1]) if found and found[1] else len(lines)
    line = min(max(1, line), len(lines))
    if quantity := QUANTITY.search(lines[line - 1]):
        return line, f'text with a unit needs quotes: "{quantity[1]}"'
    for begins, say in SAID:
        if what.startswith(begins) and (told := say(lines, line, what)):
            return told
    return line, what


def _key(line: str) -> tuple[str, str] | None:
    """A key and what stands behind its `=`, if a line is such."""
    found = re.match(r"\s*([\w.\-\"'*]+)\s*=(.*)$", line)
    return (found[1], found[2].strip()) if found else None


def _header(line: str) -> str | None:
    found = re.match(r"\s*(\[\[?[^\[\]]+\]\]?)\s*(#.*)?$", line)
    return found[1] if found else None


def _twice(lines: list[str], line: int, what: str) -> tuple[int, str] | None:
    here = lines[line - 1]
    if header := _header(here):
        name = header.strip("[] ")
        before = [n for n, text in _above(lines, line, name) if _named(text, name)]
        first = f", first on line {before[0]}" if before else ""
        if braces := _in_braces(lines, line, name):
            of, at = braces
            return (
                line,
                f"{of} is in braces on line {at}: write [{of}], its keys on lines of their own",
            )
        if header.startswith("[["):
            return line, f"{name} is something else already{first}: write [[{name}]] everywhere"
        if before and lines[before[0] - 1].strip().startswith("[["):
            return line, f"{name} is a list of tables{first}: write [[{name}]] here as well"
        return line, f"{header} is there twice{first}: put what is below both below one"
    if inline := re.search(r"Duplicate inline table key '(.+)'", what):
        return line, f"{inline[1]} is set twice between these braces: leave out one"
    if (found := _key(here)) is None:
        return None
    begin = max((n for n, text in enumerate(lines[: line - 1], 1) if _header(text)), default=0)
    section = (_header(lines[begin - 1]) or "").strip("[] ") if begin else ""
    path = f"{section}.{found[0]}".lstrip(".")
    if braces := _in_braces(lines, line, path):
        of, at = braces
        return line, f"{of} is in braces on line {at}, which are all of it: write " + (
            f"{path.removeprefix(of + '.')} = {_bare(found[1])} between them"
        )
    above = enumerate(lines[begin : line - 1], begin + 1)
    keys = [(n, own[0]) for n, text in above if (own := _key(text))]
    deeper = [n for n, key in keys if key.startswith(found[0] + ".")]
    if found[1].startswith("{") and deeper:
        return line, f"{found[0]} has keys of its own on line {deeper[0]}: write all in one way"
    before = [n for n, key in keys if key == found[0]]
    before += [n for n, key in keys if key.split(".")[0] == found[0].split(".")[0]]
    first = f", first on line {before[0]}" if before else " with the tables above"
    return line, f"{found[0]} is set twice{first}: leave out one"


def _bare(value: str) -> str:
    """A value without the comment behind it; a # in quotes begins none."""
    quoted = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^#"'])*(?=#|$)"""
    found = re.match(quoted, value)
    return (found[0] if found else value).strip()


def _above(lines: list[str], line: int, name: str) -> list[tuple[int, str]]:
    """The lines above one, with their numbers, as far as they are of the table of this name: those
    before the last [[...]] that it is in are of others of the list.
    """
    found = list(enumerate(lines[: line - 1], 1))
    for n, text in reversed(found):
        header = _header(text) or ""
        if header.startswith("[[") and name.startswith(header.strip("[] ") + "."):
            return found[n - 1 :]
    return found


def _in_braces(lines: list[str], line: int, name: str) -> tuple[str, int] | None:
    """The table above one of this name that stands between braces, which end it, and its line."""
    parts = name.split(".")
    above, section = {".".join(parts[:n]) for n in range(1, len(parts))}, ""
    for n, text in _above(lines, line, name):
        if header := _header(text):
            section = header.strip("[] ") + "."
        elif (key := _key(text)) and key[1].startswith("{") and section + key[0] in above:
            return section + key[0], n
    return None


def _named(line: str, name: str) -> bool:
    header, key = _header(line), _key(line)
    return name in (header and header.strip("[] "), key and key[0])


def _open(lines: list[str], line: int, what: str) -> tuple[int, str] | None:
    """The reader stands where text that is not closed ends, which may be far below."""
    whole = "\n".join(lines)
    for mark in ('"""', "'''"):
        if whole.count(mark) % 2:
            begin = whole.rfind(mark)
            return whole[:begin].count("\n") + 1, f"text is not closed: it lacks {mark} at its end"
    mark = "'" if '"\'"' in what else '"'
    return line, f"text is not closed: it lacks {mark} at its end"


def _value(lines: list[str], line: int, _: str) -> tuple[int, str] | None:
    if items := re.search(r"(?:^|[\[,])\s*([A-Za-z_][\w.:/-]*)\s*[,\]]", lines[line - 1]):
        return line, f'text needs quotes, in lists as well: "{items[1]}"'
    if (found := _key(lines[line - 1])) is None:
        return None
    name, value = found
    bare = value.split("#")[0].strip()
    if not bare:
        return line, f"{name} has no value: write one behind the =, or leave out the line"
    if bare.startswith("="):
        return line, f"one = is enough: write {name} = {bare.strip('= ')}"
    if any(mark in bare for mark in CURLY):
        return line, f'quotes are straight ones: write "{bare.strip(CURLY)}"'
    if bare.lower() in ("true", "false"):
        return line, f"write {name} = {bare.lower()}, in small letters"
    if BARE.fullmatch(bare):
        return line, f'text needs quotes: write {name} = "{bare}"'
    if re.fullmatch(r"[A-Za-z][^\"'\[\]{}=]*", bare):
        return line, f'text needs quotes: write {name} = "{bare}"'
    if re.fullmatch(r"[+-]?\.\d+", bare):
        return line, f"write {bare.replace('.', '0.')}: a digit stands before the point"
    if bare.count("[") > bare.count("]"):
        return line, f"the list of {name} is not closed: it lacks ] at its end"
    return None


def _list(lines: list[str], line: int, _: str) -> tuple[int, str]:
    begin = next((n for n in range(line, 0, -1) if "[" in lines[n - 1]), line)
    return begin, "a list is not closed, or lacks a comma: write [1, 2]"


def _braces(lines: list[str], line: int, _: str) -> tuple[int, str]:
    what = "a table in braces is not closed, or lacks a comma"
    return line, f"{what}: write {{ a = 1, b = 2 }}, in one line"


def _equals(lines: list[str], line: int, _: str) -> tuple[int, str] | None:
    here = lines[line - 1].split("#")[0].strip()
    name, colon, value = here.partition(":")
    if colon and re.fullmatch(r"[\w.\-]+", name.strip()):
        return line, f"write {name.strip()} = {value.strip()}: keys have =, not a colon"
    if re.fullmatch(r"[\w.\-]+", here):
        return line, f"{here} has no value: write {here} = ..."
    return line, "write key = value; a key that has blanks in it stands in quotes"


def _bracket(lines: list[str], line: int, _: str) -> tuple[int, str]:
    name = lines[line - 1].split("#")[0].strip()
    one = "]]" if name.startswith("[[") else "]"
    return line, f"the name of a table is not closed: write {name.rstrip('] ')}{one}"


def _behind(lines: list[str], line: int, _: str) -> tuple[int, str] | None:
    found = _key(lines[line - 1])
    if found and re.match(r"[+-]?0\d", found[1]):
        return line, f"a number does not begin with 0: {found[1]}"
    if found and (span := re.match(r"(\d+\.\.\d+)\s*(#.*)?$", found[1])):
        return line, f'a range needs quotes: write {found[0]} = "{span[1]}"'
    if found and re.match(r"[+-]?\d+,\d", found[1]):
        return line, f"a list is [{found[1]}], and decimals have a point: {found[1]}"
    return line, "something stands behind the value: a line has one key = value"


def _backslash(lines: list[str], line: int, _: str) -> tuple[int, str]:
    return line, "a \\ in text is written twice, or the text stands in single quotes: '...'"


SAID: tuple[
    tuple[tuple[str, ...] | str, Callable[[list[str], int, str], tuple[int, str] | None]], ...
] = (
    (TWICE, _twice),
    (OPEN, _open),
    ("Invalid value", _value),
    ("Unclosed array", _list),
    ("Unclosed inline table", _braces),
    ("Expected '=' after a key", _equals),
    ("Expected ']'", _bracket),
    ("Expected newline or end of document", _behind),
    ("Unescaped '\\'", _backslash),
)
"""What the reader's words begin with, and what is said instead."""
