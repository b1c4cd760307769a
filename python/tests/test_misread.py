"""Numbers of which readers concluded what they do not say: each is told, or has no colour."""

from pathlib import Path

from fake import pairs
from test_cautions import PLAN, made, said

import wifu
from wifu import unlike


def why(results: wifu.Results, metric: str) -> list[str]:
    """Why nothing of a metric is better or worse; nothing where it may be."""
    return unlike.reasons(results, results.plan.cells, metric)


def test_in_a_window_too_flows_that_hardly_met_shared_nothing(tmp_path: Path) -> None:
    """One of them came when all but a twentieth of it was over."""
    text = 'measure = { mode = "window", from = "2s", to = "6s" }\n' + PLAN

    def series(run: int) -> dict[str, bytes]:
        return {f"flow.{n}.delivered": pairs([1.0, 5.9], [1e5, 2e5 + run]) for n in (1, 2)}

    def found(folder: str, start: float) -> wifu.Results:
        two = [{"finished": False}, {"start_s": start, "last_byte_s": 6.1}]
        return made(tmp_path / folder, {"tcp-reno": two, "tcp-newreno": two}, text, series)

    late, soon = found("late", 5.8), found("soon", 3.0)
    words = "In 16 of 16 runs all flows were there together in the window for less than half"
    for metric in ("jain", "weakest", "lowest"):
        assert words in said(late, metric) and "neither colour nor bold" in said(late, metric)
        assert why(late, metric) == ["flows were hardly there together"], metric
        assert "together" not in said(soon, metric) and why(soon, metric) == [], metric
    assert why(late, "aggregate") == [] == why(late, "goodput")
