"""What a plan leaves out is told from what is not known, with the rule."""

from pathlib import Path

import pytest
from fake import fake
from test_plan import BASE

import wifu
from wifu import figures, report, screen, skipped
from wifu import plan as plans
from wifu.campaign import Summary
from wifu.figures import style

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
