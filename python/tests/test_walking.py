"""Nodes that walk at random: cells in which they are not as quick differ in where they are, too."""

from pathlib import Path
from typing import Any

import pytest
from test_cautions import made, said
from test_pitfalls import GOING, _going

from wifu import unlike, walking

WHY = "nodes walk in other ways, from where they were placed"
TABLE = '[[scenario.mobility]]\nkind = "waypoint"\narea = [0, 0, 100, 100]\nspeed = SPEED\n'


@pytest.mark.parametrize(
    ("area", "mean"), [((0, 0, 1, 1), 0.5214), ((0, 0, 2, 1), 0.8048), ((5, 2, 5, 8), 2.0)]
)
def test_ways_are_as_long_as_points_of_an_area_are_apart(
    area: tuple[float, ...], mean: float
) -> None:
    one = {"kind": "waypoint", "area": area, "speed": [1, 1], "pause": "3s"}
    assert walking.leg(one) == pytest.approx(mean + 3, abs=1e-4)
    assert walking.leg({**one, "speed": [0.5, 1.0]}) == pytest.approx(mean * 1.3863 + 3, abs=1e-3)


def test_how_quick_nodes_are_is_not_all_in_which_cells_differ(tmp_path: Path) -> None:
    of: dict[str, list[dict[str, Any]]] = {p: _going(1.0) for p in ("tcp-reno", "tcp-newreno")}
    text = GOING.replace("copies = 2", 'start = "STARTs"')
    text = text.replace("[vary]", TABLE + "[vary]")
    speeds = '[vary.quick]\nslow = { "mobility.1.speed" = [0.5, 0.5] }\n'
    speeds += 'fast = { "mobility.1.speed" = [5, 10] }\n'
    for name, start, more, told in (
        ("a", 0, speeds, True), ("b", 40, speeds, True), ("c", 400, speeds, False),
        ("d", 0, "", False),
    ):  # fmt: skip
        plan = text.replace("SPEED", "[1, 2]").replace("START", str(start)) + more
        if more:
            plan = "pair = 'quick'\n" + plan.replace('baseline = "tcp-reno"\n', "")
        found = made(tmp_path / name, of, text=plan)
        cells = found.plan.groups()[0]
        assert (WHY in unlike.reasons(found, cells, "goodput")) == told, name
        assert not more or WHY in unlike.reasons(found, cells, "routeless")
        assert ("(from point to point: tcp-reno_slow 104 s" in said(found, "goodput")) == told
    assert not found.plan.cells[0].scenario["mobility"][0].get("pause")


def test_who_stands_is_where_it_was_placed(tmp_path: Path) -> None:
    of: dict[str, list[dict[str, Any]]] = {p: _going(1.0) for p in ("tcp-reno", "tcp-newreno")}
    walks = '{ kind = "waypoint", area = [0, 0, 9, 9], speed = [1, 2] }'
    text = f"pair = 'what'\n{GOING}[vary.what]\nstand = {{}}\nwalk = {{ mobility = [{walks}] }}\n"
    found = made(tmp_path, of, text=text.replace('baseline = "tcp-reno"\n', ""))
    assert WHY in unlike.reasons(found, found.plan.groups()[0], "goodput")
    assert "tcp-reno_stand stand" in said(found, "goodput")
