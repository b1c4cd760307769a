"""What hands that know other tools write, and what it is called here."""

from __future__ import annotations

import shlex

from wifu.overrides import KEYS, SCENARIO_HEADS

LISTS = ("flow", "handler", "split", "event")
"""Tables of a scenario that there may be several of."""

PLAN = {
    "axes": "what is varied stands in [vary]",
    "axis": "what is varied stands in [vary]",
    "matrix": "what is varied stands in [vary]",
    "parameters": "what is varied stands in [vary]",
    "sweep": "what is varied stands in [vary]",
    "duration": 'how long a run is: scenario.stop.time = "60s"',
    "time": 'how long a run is: scenario.stop.time = "60s"',
    "repeat": "how often each cell is run: runs = 10",
    "repeats": "how often each cell is run: runs = 10",
    "repetitions": "how often each cell is run: runs = 10",
    "replicates": "how often each cell is run: runs = 10",
    "seeds": "how often each cell is run: runs = 10; seed = 1 is where their seeds begin",
    "figures": "write [[figure]] for each",
    "flows": "write [[scenario.flow]] for each",
    "plot": "write [[figure]] for each",
}
"""Keys of a plan by what they are called elsewhere."""

FIGURES = {
    "box": "bars (means with intervals) or cdf (all runs)",
    "boxplot": "bars (means with intervals) or cdf (all runs)",
    "violin": "bars (means with intervals) or cdf (all runs)",
    "ecdf": "cdf",
    "hist": "cdf",
    "histogram": "cdf",
    "scatter": "tradeoff",
    "plot": "lines or timeseries",
    "series": "timeseries",
    "time": "timeseries",
    "throughput": "timeseries or bars",
    "cwnd": "timeseries",
    "jain": "fairness",
    "topology": "map",
}
"""Kinds of figures by what they are called elsewhere."""


def of_plan(key: str) -> str | None:
    """What to write for an outermost key of a plan that it does not have."""
    if key in SCENARIO_HEADS:
        table = f"[[scenario.{key}]]" if key in LISTS else f"[scenario.{key}]"
        return f"is of the scenario: write {table}, or scenario.{key}"
    return PLAN.get(key)


def of_figure(kind: str) -> str | None:
    """Which kinds of figures show what another tool's kind does."""
    found = FIGURES.get(kind.lower())
    return found and f"what shows such is {found}"


PLOT = ("metric", "x", "by", "where", "label", "title", "show", "against", "window", "flow")
"""Keys of figures that who draws one may take for options."""


def of_option(name: str, value: str, command: str) -> str | None:
    """What to write in place of an option `--name` that a command does not have, with the word that
    followed it.
    """
    if name == "load":
        library = value or "./libmine.so"
        return f"libraries of parts are named by WIFU_LOAD={library} in front of `wifu-lab`"
    if name in ("kind", "figure") and command == "plot":
        return f"the kind of a figure is --plot {value or 'bars'}"
    own = {"run": (*KEYS, *SCENARIO_HEADS, "hops", "protocol"), "plot": PLOT}.get(command, ())
    if name.split(".")[0] in own:
        return f"changes have no dashes: {name}={shlex.quote(value) if value else '...'}"
    return None
