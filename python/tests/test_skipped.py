"""What a plan leaves out is told from what is not known, with the rule."""

from pathlib import Path
from typing import Any

import pytest
from fake import FakeResult, fake
from test_plan import BASE

import wifu
from wifu import diverge, figures, metrics, report, screen, skipped
from wifu import plan as plans
from wifu.campaign import Campaign, Summary
from wifu.figures import style
from wifu.store import Store

SKIP = 'skip = [{ protocol = "tcp-tahoe", hops = "1..2" }]\n'
TOLD = "Skipped, as the plan leaves them out: protocol = tcp-tahoe and hops = 1..2 (skip)."


def caption(results: wifu.Results, **spec: object) -> str:
    with style.context(None):
        return figures.made(results, spec)[2]


def test_tables_and_figures_tell_what_was_skipped(tmp_path: Path) -> None:
    results = wifu.campaign(plans.parse(SKIP + BASE), tmp_path / "r", runner=fake)
    page = report.render(results, [])
    assert page.count("<td class='value same'>skipped</td>") == 2 * len(results.plan.metrics)
    assert TOLD in page
    for kind in ("bars", "lines", "cdf"):
        assert TOLD in caption(results, kind=kind)
    assert "Skipped" not in caption(results, kind="bars", where={"hops": [3]})
    with screen.screen.capture() as said:
        screen.tell(results.folder, Summary("complete", 16))
    assert TOLD in " ".join(said.get().split())


def test_what_axes_that_go_together_have_not_was_not_skipped(tmp_path: Path) -> None:
    text = 'zip = [["hops", "protocol"]]\n' + BASE.replace("1..3", "1..2")
    results = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    page = report.render(results, [])
    assert "<td class='value same'>not run</td>" in page
    assert ">skipped<" not in page and "Skipped" not in page
    assert "Skipped" not in caption(results, kind="bars")


def test_a_rule_about_what_never_was_skipped_nothing() -> None:
    together = 'zip = [["hops", "protocol"]]\n' + BASE.replace("1..3", "1..2")
    plan = plans.parse('skip = [{ protocol = "tcp-tahoe", hops = 2 }]\n' + together)
    assert skipped.sentence(plan) == ""
    assert skipped.reason(plan, {"hops": 2, "protocol": "tcp-tahoe"}) == ""
    # Tables beside fractions have whole numbers as 1.0.
    plan = plans.parse(SKIP + BASE)
    assert skipped.sentence(plan, {"hops": [1.0]}) == skipped.sentence(plan, {"hops": 1}) == TOLD


@pytest.mark.parametrize(
    ("substrate", "words"), [("sim", "hops = 1 (skip)"), ("emu", "hops = 1, 2 (emu.skip)")]
)
def test_the_rule_is_named_by_its_key(substrate: str, words: str) -> None:
    text = "skip = [{ hops = 1 }]\n" + BASE + "[emu]\nskip = [{ hops = [1, 2] }]\n"
    plan = plans.parse(text).variant(substrate)
    told = skipped.sentence(plan)
    assert words in told and "hops = 1 (skip)" in told
    assert skipped.reason(plan, {"hops": 1, "protocol": "tcp-tahoe"}) == "hops = 1 (skip)"
    assert skipped.reason(plan, {"hops": 3, "protocol": "tcp-tahoe"}) == ""


BOTH = (
    BASE.replace("runs = 4", 'runs = 4\non = ["sim", "emu"]')
    + """
[label]
goodput = "what arrives, Mb/s"
protocol = { title = "stack", tcp-tahoe = "Tahoe" }
"""
)


def two_hops_fail(scenario: dict[str, Any]) -> FakeResult:
    if scenario["topology"]["words"] == "linear,3":
        raise RuntimeError("no such luck")
    return fake(scenario)


@pytest.fixture
def found(tmp_path: Path) -> diverge.Divergence:
    plan = plans.parse(BOTH)
    Campaign(plan, Store(tmp_path), fake).start()
    Campaign(plan.variant("emu"), Store(tmp_path).on("emu"), two_hops_fail).start()
    return diverge.compare(list(diverge.results_by_substrate(tmp_path).values()))


def test_a_cell_of_which_no_run_came_out_is_not_called_unknown(found: diverge.Divergence) -> None:
    rows = [row for row in found.rows if row.labels["hops"] == 2]
    assert {row.verdict for row in rows} == {diverge.FAILED}
    (told,) = found.left_out("goodput")
    assert told.startswith("no run: all runs failed or were excluded on emu: ")
    assert all(row.cell in told for row in rows)


def test_substrates_are_compared_in_the_words_of_the_plan(
    found: diverge.Divergence, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found.scale("goodput") == "what arrives, Mb/s"
    assert {row.words()[0] for row in found.rows} >= {"1, Tahoe", "3, Tahoe"}
    screen.print_divergence(found)
    assert "what arrives, Mb/s: emu against sim" in capsys.readouterr().out
    assert metrics.metric_of("goodput").axis() == "mean goodput per flow, Mb/s"
