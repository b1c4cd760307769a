"""Flows that never finish, or only if nothing is lost, of the share of flows that finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wifu.cells import Cell
from wifu.metrics import parts
from wifu.rows import Results, flows_of, numbered

Spec = Mapping[str, Any]


def _datagrams(flow: Spec) -> bool:
    return flow.get("protocol") == "udp"


def endless(flow: Spec) -> bool:
    """Whether a flow writes for as long as its run lasts."""
    if flow.get("stop_at") is not None:
        return False
    ends = {
        "bulk": _datagrams(flow) and (flow.get("bytes") or flow.get("time")),
        "onoff": flow.get("time"),
        "http": flow.get("count"),
        "request": flow.get("count"),
    }
    return not ends.get(str(flow.get("app", "bulk")), True)


def _some(cells: Sequence[Cell], metric: str, wanted: Callable[[Spec], bool]) -> list[list[int]]:
    """By cell the flows that the share is of, and that are `wanted`."""
    base, only = parts(metric)
    if base != "finished":
        return [[] for _ in cells]
    every = [[(n, f) for n, f in flows_of(cell) if only in (None, n)] for cell in cells]
    return [[n for n, flow in flows if wanted(flow)] for flows in every]


def _whose(numbers: Sequence[int], one: str, more: str) -> str:
    name = numbered(numbers)
    return f"{name[0].upper()}{name[1:]} {one if len(set(numbers)) == 1 else more}"


def words(results: Results, cells: Sequence[Cell], metric: str) -> str:
    """Of how many flows finished: which of them could not."""
    told = []
    never = _some(cells, metric, endless)
    if flows := [n for own in never for n in own]:
        whole = [len(own) for own in _some(cells, metric, lambda flow: True)]
        most = [1 - len(own) / of for own, of in zip(never, whole, strict=True) if of]
        shares = list(dict.fromkeys(f"{share:.0%}".replace("%", " %") for share in sorted(most)))
        of = shares[0] if len(shares) == 1 else f"{shares[0]} to {shares[-1]}, by cell,"
        bound = "" if shares == ["0 %"] else f": no more than {of} can be"
        whose = _whose(flows, "has no end, and is", "have no end, and are")
        told.append(f"{whose} never finished{bound}.")
    able = _some(cells, metric, lambda flow: _datagrams(flow) and not endless(flow))
    if flows := [n for own in able for n in own]:
        told.append(
            f"{_whose(flows, 'is', 'are')} of datagrams, which are finished only if none was lost."
        )
    return " ".join(told)
