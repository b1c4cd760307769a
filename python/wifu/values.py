"""Values in plans: ranges, lists, quantities with units, templates such as `linear,{hops+1}`."""

from __future__ import annotations

import ast
import operator
import re
import string
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from wifu.errors import LabError, nearest, placeholders

Value = Any
"""What TOML can say: bool, int, float, str, list, dict."""

_RANGE = re.compile(r"^(-?\d+)\.\.(-?\d+)(?:\.\.(\d+))?$")
_QUANTITY = re.compile(r"^([-+]?[\d_]*\.?[\d_]*(?:[eE][-+]?\d+)?)\s*([A-Za-zµ/%]*)$")

# What the simulator reads.
_SECONDS = {
    "": 1.0, "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0,
    "h": 3600.0,
}  # fmt: skip
_OCTETS = {
    "": 1.0, "B": 1.0, "k": 1e3, "kB": 1e3, "K": 1e3, "KB": 1e3, "M": 1e6, "MB": 1e6, "G": 1e9,
    "GB": 1e9,
    "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30,
}  # fmt: skip


def scalar(text: str) -> Value:
    """A value as TOML writes it, or else the text itself: `3`, `2.5`, `true`, `tcp-newreno`."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def split(text: str) -> list[str]:
    """Split at commas outside brackets, braces and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "[{(":
            depth += 1
        elif c in "]})":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts]


MOST_VALUES = 1_000_000
"""So many values a range can have."""


def sequence(text: str) -> list[Value]:
    """A list written as text: `1..8`, `1..9..2` (by twos), `1,2,5.5`, `a,b`, `1..3,6`."""
    if text.strip().startswith("["):
        listed = scalar(text)
        if isinstance(listed, list):
            return listed
    out: list[Value] = []
    for part in split(text):
        found = _RANGE.match(part)
        if not found:
            out.append(scalar(part))
            continue
        first, last, step = int(found[1]), int(found[2]), int(found[3] or 1)
        if step == 0 or last < first:
            raise LabError(f"the range {part} is empty: write low..high or low..high..step")
        if (last - first) // abs(step) >= MOST_VALUES:
            raise LabError(f"the range {part} has too many values: at most {MOST_VALUES:,}")
        out.extend(range(first, last + 1, step))
    return out


def seconds(value: Value) -> float:
    """A time: a number of seconds, or text with a unit (`200ms`, `1.5s`)."""
    return _quantity(value, _SECONDS, "time")


def octets(value: Value) -> float:
    """A number of bytes: `2M` is 2,000,000, `64KiB` is 65,536."""
    return _quantity(value, _OCTETS, "size")


def rate(value: Value) -> float:
    """bit/s of a rate such as `6M`, `24Mb/s`, `500kbit`, or a number."""
    text = str(value).strip()
    if re.search(r"B(/s|/sec|ps)?$", text):
        raise LabError(f"{value!r} is in bytes: rates are in bits, 1 MB/s is 8 Mb/s")
    found = re.fullmatch(r"(.*?)\s*([kmg]?)(?:(?:b|bits?)(?:/s|/sec)?|bps)?", text.lower())
    try:
        number, unit = found.groups() if found else (text, "")
        return float(number) * {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}[unit]
    except ValueError:
        raise LabError(f"{value!r} is no rate: write 24Mb/s, 6M or 500kbit") from None


def fraction(value: Value) -> float:
    """A share: 0.05, or text `5%`."""
    return _quantity(value, {"": 1.0, "%": 0.01}, "share")


def _quantity(value: Value, units: Mapping[str, float], what: str) -> float:
    if isinstance(value, bool):
        raise LabError(f"{value} is no {what}")
    if isinstance(value, int | float):
        return float(value)
    found = _QUANTITY.match(str(value).strip())
    try:
        number = float(found[1].replace("_", "")) if found else None
    except ValueError:
        number = None
    if not found or number is None:
        raise LabError(f"{value!r} is no {what}")
    if found[2] not in units:
        raise LabError(
            f"{value!r}: unknown unit {found[2]}; {nearest(found[2], filter(None, units))}"
        )
    return number * units[found[2]]


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def expression(text: str, names: Mapping[str, Value]) -> Value:
    """The value of an arithmetic expression over `names`: `hops+1`, `10*copy`, `min(hops, 3)`."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise LabError(f"{{{text}}} is no expression") from None
    return _evaluate(tree, names, text)


def _evaluate(node: ast.expr, names: Mapping[str, Value], text: str) -> Value:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            if name not in names:
                hint = placeholders(name, names)
                raise LabError(f"{{{text}}}: nothing is called {name}; {hint}")
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, names, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            one, two = _number(left, names, text), _number(right, names, text)
            try:
                return _OPERATORS[type(op)](one, two)
            except ZeroDivisionError:
                raise LabError(f"{{{text}}}: a division by zero") from None
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=args, keywords=[]) if args:
            values = [_number(a, names, text) for a in args]
            return min(values) if name == "min" else max(values)
    raise LabError(f"{{{text}}}: only names, numbers, + - * / // %, min and max are understood")


def quoted(text: str) -> bool:
    """Whether a text would be a number without its quotes."""
    found = scalar(text)
    return isinstance(found, int | float) and not isinstance(found, bool)


def _number(node: ast.expr, names: Mapping[str, Value], text: str) -> int | float:
    """The value of a part of an expression that is a number."""
    found = _evaluate(node, names, text)
    if not isinstance(found, int | float):
        if isinstance(found, str) and quoted(found):
            raise LabError(f"{{{text}}}: {found!r} is text; numbers are written without quotes")
        like = ".." in str(found) or re.fullmatch(r"\d+ *[-:] *\d+", str(found))
        hint = "; a range is written low..high, such as 1..9" if like else ""
        raise LabError(f"{{{text}}}: {found!r} is no number{hint}")
    return found


def fill(value: Value, names: Mapping[str, Value]) -> Value:
    """Fill the templates in a value. Text that is one template becomes the value itself."""
    if isinstance(value, dict):
        return {k: fill(v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(v, names) for v in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    pieces = _pieces(value)
    if len(pieces) == 1 and pieces[0][0] == "" and pieces[0][1] is not None:
        return expression(pieces[0][1], names)
    out = ""
    for literal, field in pieces:
        out += literal
        if field is not None:
            out += str(expression(field, names))
    return out


def used(value: Value) -> set[str]:
    """The names that the templates in a value refer to."""
    if isinstance(value, dict):
        return set().union(*(used(v) for v in value.values()))
    if isinstance(value, list):
        return set().union(*(used(v) for v in value))
    if not isinstance(value, str) or "{" not in value:
        return set()
    fields = [field for _, field in _pieces(value) if field is not None]
    return {n for f in fields for n in re.findall(r"[A-Za-z_]\w*", f)} - {"min", "max"}


def _pieces(text: str) -> list[tuple[str, str | None]]:
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError as e:
        told = (
            "a brace { is not closed"
            if "before end" in str(e) or "'{'" in str(e)
            else ("a brace } closes none" if "'}'" in str(e) else str(e))
        )
        raise LabError(f"{text!r}: {told}") from None
    for _, field, form, conversion in parsed:
        if form or conversion:
            more = f"!{conversion}" if conversion else f":{form}"
            raise LabError(f"{text!r}: nothing is understood behind {field}, such as {more}")
    return [(literal, field) for literal, field, _, _ in parsed]
