import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake import FakeResult, fake, pairs

import wifu
from wifu import claimed, claims, measures, published, reproduce
from wifu import plan as plans
from wifu.errors import LabError
from wifu.metrics import wrong
from wifu.overtime import OVER_TIME

TEXT = """
name = "fake"
runs = 20
pair = "stack"
[scenario]
topology.words = "linear,{hops+1}"
[[scenario.flow]]
protocol = "{stack}"
copies = 2
[vary]
hops = [1, 2]
[vary.stack]
ours = "tcp-newreno"
kernel = "tcp-reno"
[series]
runs = "1..3"
"""


def results(tmp_path: Path, runs: int = 20) -> wifu.Results:
    chosen = plans.parse(TEXT, overrides=[f"runs={runs}"])
    return wifu.campaign(chosen, tmp_path / "r", runner=fake)


def judged(found: wifu.Results | None, type: str = "HARD", **check: Any) -> claims.Verdict:
    given = {
        "id": "X-1",
        "says": "something",
        "source": "somewhere",
        "type": type,
        "plan": "fake",
        "check": [{"name": "it", **check}],
    }
    return claims.judge(published._claim(given), found)


RATIO: dict[str, Any] = {
    "kind": "ratio",
    "metric": "goodput",
    "of": {"stack": "ours", "hops": 1},
    "over": {"stack": "kernel", "hops": 1},
}


def test_a_hard_ratio_passes_if_its_bounds_do(tmp_path: Path) -> None:
    found = results(tmp_path)
    verdict = judged(found, range=[1.15, 1.35], **RATIO)
    assert verdict.verdict == "PASS"
    (finding,) = verdict.findings
    m = finding.measured
    assert m is not None
    assert m.n == 20
    assert m.low < m.lower_bound < m.estimate < m.upper_bound < m.high


def test_what_must_hold_in_each_run_is_judged_by_the_worst(tmp_path: Path) -> None:
    of = {"stack": "ours", "hops": 1}
    every: dict[str, Any] = {"kind": "every", "metric": "goodput", "of": of}
    found = results(tmp_path)
    sample = found.sample("goodput", of)
    least, most = float(sample.min()) / 1e6, float(sample.max()) / 1e6  # claims are in Mb/s
    limits: list[tuple[str, dict[str, Any], str]] = [
        ("least", {"at_least": least * 0.999}, "PASS"),
        ("least", {"at_least": least * 1.001}, "FAIL"),
        ("most", {"at_most": most * 1.001}, "PASS"),
        ("most", {"at_most": most * 0.999}, "FAIL"),
    ]
    for word, limit, verdict in limits:
        assert judged(found, worst=word, **every, **limit).verdict == verdict, limit
    few = results(tmp_path / "few", runs=5)
    assert judged(few, worst="least", at_least=0, **every).verdict == "OPEN"


def test_an_estimate_outside_fails_whatever_its_type(tmp_path: Path) -> None:
    found = results(tmp_path)
    for kind in ("HARD", "SOFT"):
        assert judged(found, kind, range=[0.9, 1.1], **RATIO).verdict == "FAIL"
    assert judged(found, "INFO", range=[0.9, 1.1], **RATIO).verdict == "INFO"


def test_results_of_another_scenario_decide_nothing(tmp_path: Path) -> None:
    """An override keeps the name: results of another testbed were judged as those of the paper."""
    plan = tmp_path / "experiments/fake/plan.toml"
    plan.parent.mkdir(parents=True)
    plan.write_text(TEXT)

    def run(*overrides: str) -> wifu.Results:
        chosen = plans.parse(TEXT, overrides=[*overrides, "runs=6"])
        return wifu.campaign(chosen, tmp_path / "-".join(["r", *overrides]), runner=fake)

    root = tmp_path / "experiments"
    assert claims.unlike(run(), root) == claims.unlike(run("hops=1"), root) == ""
    other = run("topology.set=TB-B")
    told = claims.unlike(other, root)
    assert told == "other than the plan's: topology.set"
    assert claims.unlike(run("hops=3"), root) == "other than the plan's: it has no cell 3_ours"
    given = {"id": "X-1", "says": "", "source": "", "type": "HARD", "plan": "fake"}
    claim = published._claim({**given, "check": [{"name": "it", "range": [0.1, 9], **RATIO}]})
    assert claims.judge(claim, other).verdict == "PASS"
    verdict = claims.judge(claim, other, strange=told)
    assert verdict.verdict == "OPEN" and told in verdict.why
    plan.unlink()
    # What cannot be compared decides nothing either.
    assert claims.unlike(other, root) == "there is no plan fake to hold them against"


def test_a_papers_plan_is_known_where_its_file_is_not_and_where_it_was_edited(
    tmp_path: Path,
) -> None:
    experiments = Path(__file__).parents[2] / "experiments"

    def run(name: str, *overrides: str) -> wifu.Results:
        chosen = plans.load(experiments / "x-w3g", ["runs=1", *overrides])
        return wifu.campaign(chosen, tmp_path / name, runner=fake_of_any)

    own, other = run("own"), run("other", "stop.time=10s")
    assert claims.unlike(own, tmp_path / "nowhere") == ""
    told = claims.unlike(other, tmp_path / "nowhere")
    assert told.startswith("other than the plan's: the scenario of cell ")
    assert claims.unlike(other, experiments) == "other than the plan's: stop.time"
    edited = tmp_path / "experiments/x-w3g/plan.toml"
    edited.parent.mkdir(parents=True)
    text = (other.folder / "plan.toml").read_text()
    edited.write_text(text)
    assert claims.unlike(other, tmp_path / "experiments").startswith("other than the plan's: ")
    assert claims.unlike(own, tmp_path / "experiments") == ""


def fake_of_any(scenario: dict[str, Any]) -> FakeResult:
    return fake({**scenario, "topology": {"words": "linear,2"}, "run": 1})


def test_what_identifies_the_plans_of_papers_is_true() -> None:
    """After a plan was changed: `python3 -m wifu.claimed`."""
    for name, now in claimed.every(Path(__file__).parents[2] / "experiments").items():
        assert claimed.shipped()[name] == now, name


def test_an_estimate_outside_fails_although_its_interval_reaches_in(tmp_path: Path) -> None:
    """To pass needs the estimate (Behaviour 13); that more runs would tell is said."""
    found = results(tmp_path)
    measured = judged(found, range=[0, 9], **RATIO).findings[0].measured
    assert measured is not None and measured.estimate < measured.upper_bound < measured.high
    edge = (measured.estimate + measured.upper_bound) / 2
    for kind in ("HARD", "SOFT"):
        verdict = judged(found, kind, at_least=edge, **RATIO)
        assert verdict.verdict == "FAIL"
        assert "its interval reaches in" in verdict.findings[0].why
    beyond = judged(found, at_least=measured.high + 0.1, **RATIO)
    assert beyond.findings[0].why == "estimate outside"


def test_a_bound_outside_leaves_a_hard_claim_open_and_not_a_soft_one(tmp_path: Path) -> None:
    found = results(tmp_path)
    estimate = judged(found, range=[0, 9], **RATIO).findings[0].measured
    assert estimate is not None
    edge = estimate.estimate - 1e-6
    hard, soft = (judged(found, t, at_least=edge, **RATIO) for t in ("HARD", "SOFT"))
    assert hard.verdict == "OPEN"
    assert "lower 90 % bound" in hard.findings[0].why
    assert soft.verdict == "PASS"


@pytest.mark.parametrize(("kind", "within"), [("ratio", [0.9, 1.1]), ("difference", [-0.1, 0.1])])
@pytest.mark.parametrize("how", ["runs = 20", "deterministic = true"])
def test_stacks_that_do_the_same_are_identical_and_no_hard_pass(
    tmp_path: Path, kind: str, within: list[float], how: str
) -> None:
    text = TEXT.replace('kernel = "tcp-reno"', 'kernel = "tcp-newreno"').replace("runs = 20", how)

    def exact(scenario: dict[str, Any]) -> FakeResult:
        return fake({**scenario, "run": 1} if how != "runs = 20" else scenario)

    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=exact)
    check: dict[str, Any] = {**RATIO, "kind": kind}
    verdict = judged(found, range=within, **check)
    assert verdict.verdict == "identical"
    assert "no PASS" in verdict.why
    runs = "all 20 runs" if how == "runs = 20" else "1 run"
    assert verdict.findings[0].why == f"identical in {runs}"
    assert verdict.to_json()["checks"][0]["identical"]
    soft = judged(found, "SOFT", range=within, **check)
    assert (soft.verdict, soft.findings[0].why) == ("PASS", f"identical in {runs}")
    # No difference is not "above" none.
    none = 1 if kind == "ratio" else 0
    assert judged(found, "SOFT", at_least=none, **check).verdict == "identical"
    # To be identical is a difference from what was published, if that is one.
    assert judged(found, at_least=within[1], **check).verdict == "FAIL"


def test_a_check_that_passes_carries_an_identical_one(tmp_path: Path) -> None:
    text = TEXT + 'same = "tcp-newreno"\n'
    text = text.replace('[series]\nruns = "1..3"\nsame = "tcp-newreno"', "").replace(
        'ours = "tcp', 'same = "tcp-newreno"\nours = "tcp'
    )
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=fake)
    checks = [
        {"name": "it", "range": [0.5, 2.0], **RATIO},
        {"name": "same", "range": [0.5, 2.0], **RATIO, "over": {"stack": "same", "hops": 1}},
    ]
    given = {"id": "X-1", "says": "", "source": "", "type": "HARD", "plan": "f", "check": checks}
    verdict = claims.judge(published._claim(given), found)
    assert [f.verdict for f in verdict.findings] == ["PASS", "identical"]
    assert verdict.verdict == "PASS"
    assert verdict.why == "1 of 2 checks identical: nothing was compared there"


def test_results_of_other_code_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = plans.parse(TEXT, overrides=["runs=3"])
    wifu.campaign(chosen, tmp_path / "r", runner=fake)
    monkeypatch.setattr(claims, "code_version", lambda runner, substrate: "given")
    given = {"id": "X-1", "says": "", "source": "", "type": "HARD", "plan": "fake"}
    claim = published._claim({**given, "check": [{"name": "it", "range": [0.5, 2.0], **RATIO}]})
    (verdict,) = claims.judge_all([claim], [tmp_path])
    assert verdict.warnings == ()
    monkeypatch.setattr(claims, "code_version", lambda runner, substrate: "0123")
    (verdict,) = claims.judge_all([claim], [tmp_path])
    (warning,) = verdict.warnings
    assert "made by other code (given) than there is now (0123)" in warning
    assert verdict.to_json()["warnings"] == [warning]
    path = tmp_path / "r/run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"code": ["0123", "given"]}))
    (verdict,) = claims.judge_all([claim], [tmp_path])
    assert "runs of different code are mixed: 0123, given" in verdict.warnings[0]


@pytest.mark.parametrize(("runs", "told"), [(1, "1 run"), (2, "2 runs"), (5, "5 runs")])
@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_fewer_than_six_runs_are_no_hard_pass(
    tmp_path: Path, runs: int, told: str, statistic: str
) -> None:
    """All of three runs are inside, so that a bootstrap's bound is, too: it covers far less than it
    says where runs are few.
    """
    found = results(tmp_path, runs)
    check: dict[str, Any] = {**RATIO, "statistic": statistic}
    verdict = judged(found, range=[0.5, 2.0], **check)
    assert verdict.verdict == "OPEN"
    assert verdict.findings[0].why == f"{told}; six are needed"
    assert judged(found, "SOFT", range=[0.5, 2.0], **check).verdict == "PASS"
    outside = judged(found, range=[5.0, 9.0], **check)
    assert outside.verdict == "FAIL" and "needed" not in outside.findings[0].why


def test_six_runs_can_be_a_hard_pass(tmp_path: Path) -> None:
    assert judged(results(tmp_path, 6), range=[0.5, 2.0], **RATIO).verdict == "PASS"


def test_what_is_not_random_passes_with_one_run(tmp_path: Path) -> None:
    plan = plans.parse(TEXT.replace("runs = 20", "deterministic = true"))
    found = wifu.campaign(plan, tmp_path / "r", runner=lambda s: fake({**s, "run": 1}))
    assert judged(found, range=[0.5, 2.0], **RATIO).verdict == "PASS"


def test_values_and_differences(tmp_path: Path) -> None:
    found = results(tmp_path)
    value: dict[str, Any] = {"kind": "value", "metric": "jain", "of": {"stack": "ours", "hops": 2}}
    assert judged(found, at_least=0.9, statistic="median", **value).verdict == "PASS"
    assert judged(found, at_most=0.9, **value).verdict == "FAIL"
    difference = {**RATIO, "kind": "difference"}
    verdict = judged(found, range=[0.5, 5.0], **difference)
    assert verdict.verdict == "PASS"
    m = verdict.findings[0].measured
    assert m is not None
    x, y = found.pairs("goodput", RATIO["of"], RATIO["over"])
    assert m.estimate == pytest.approx((x.mean() - y.mean()) / 1e6)


def test_curves_that_are_the_same_correlate(tmp_path: Path) -> None:
    def bump(scenario: dict[str, Any]) -> FakeResult:
        result = fake(scenario)
        late = (
            "newreno" in scenario["flow"][0]["protocol"]
            and scenario["topology"]["words"][-1] == "3"
        )
        rng = np.random.default_rng(scenario["run"])
        times = np.sort(rng.normal(0.4 if late else 0.2, 0.05, 500))
        for n in (1, 2):
            result._series[f"flow.{n}.delivered"] = pairs(times, np.arange(500) * 1448.0)
        return result

    found = wifu.campaign(plans.parse(TEXT), tmp_path / "r", runner=bump)
    curve: dict[str, Any] = {
        "kind": "correlation",
        "window": 0.05,
        "step": 0.002,
        "until": 0.6,
        "at_least": 0.9,
    }
    same = {"of": {"stack": "ours", "hops": 1}, "over": {"stack": "kernel", "hops": 1}}
    other = {"of": {"stack": "ours", "hops": 2}, "over": {"stack": "kernel", "hops": 2}}
    assert judged(found, "SOFT", **curve, **same).verdict == "PASS"
    assert judged(found, "SOFT", **curve, **other).verdict == "FAIL"


def trace(
    order: list[int], again: int, cwnd: int = 1000, duplicates: int = 3
) -> list[dict[str, Any]]:
    rows = []
    done = False
    for index in order:
        if index == again and not done:
            rows += [{"event": "ack", "seq_index": again, "len": 0}] * (duplicates + 1)
            done = True
        repeat = index == again
        rows.append(
            {
                "event": "send", "seq_index": index, "len": 1000, "cwnd": cwnd if repeat else 9000,
                "ssthresh": 7500, "retransmission": int(repeat),
                "reason": "dupack" if repeat else None,
            }
        )  # fmt: skip
    return rows


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        (trace([0, 1, 2, 4, 5, 3, 6, 7], 3), "PASS"),
        (trace([0, 1, 2, 4, 5, 3, 7, 6], 3), "FAIL"),
        (trace([0, 2, 1, 4, 5, 3, 6, 7], 3), "FAIL"),
        (trace([0, 1, 2, 4, 5, 3, 6, 7], 3, cwnd=2000), "FAIL"),
        (trace([0, 1, 2, 4, 5, 3, 6, 7], 3, duplicates=2), "FAIL"),
        (trace([0, 1, 2, 4, 5, 6, 7], 3), "FAIL"),
    ],
)
def test_traces_are_held_against_the_reference(
    tmp_path: Path, rows: list[dict[str, Any]], verdict: str
) -> None:
    def mocked(scenario: dict[str, Any]) -> FakeResult:
        flow = {"id": 1, "bytes": 1, "finished": True, "last_byte_s": 1.0}
        return FakeResult({"sim_seconds": 1.0, "flows": [flow], "trace": rows}, {})

    text = 'name="t"\nrunner="mock"\ndeterministic=true\nscenario.drop="{lost}"\nvary.lost=["3"]\n'
    found = wifu.campaign(plans.parse(text), tmp_path / "r", runner=mocked)
    check: dict[str, Any] = {
        "kind": "trace",
        "of": {"lost": "3"},
        "order": [4, 5, 3, 6, 7],
        "at_least": 1.0,
    }
    assert judged(found, cwnd=1.0, ssthresh=7.5, **check).verdict == verdict


def test_no_data_is_said_with_what_to_do(tmp_path: Path) -> None:
    verdict = judged(None, range=[0, 1], **RATIO)
    assert verdict.verdict == "not measured"
    assert verdict.why == "run experiments/fake"
    found = results(tmp_path)
    missing = {**RATIO, "of": {"stack": "ours", "hops": 7}}
    verdict = judged(found, range=[0, 1], **missing)
    assert verdict.verdict == "not measured"
    assert "axis hops has no 7" in verdict.findings[0].why


def test_the_newest_complete_results_of_a_plan_are_taken(tmp_path: Path) -> None:
    chosen = plans.parse(TEXT, overrides=["runs=3"])
    for name, state, updated in (
        ("old", "complete", "2026-01-01"),
        ("new", "complete", "2026-01-02"),
        ("cut", "interrupted", "2026-01-03"),
    ):
        wifu.campaign(chosen, tmp_path / name, runner=fake)
        path = tmp_path / name / "run.json"
        manifest = json.loads(path.read_text()) | {"state": state, "updated": updated}
        path.write_text(json.dumps(manifest))
    assert claims.find_results("fake", [tmp_path]) == tmp_path / "new"
    assert claims.find_results("fake", [tmp_path / "cut"]) == tmp_path / "cut"
    assert claims.find_results("other", [tmp_path]) is None


def test_the_claims_of_the_package() -> None:
    every = published.load()
    assert len({c.id for c in every}) == len(every)
    root = Path(__file__).parents[2] / "experiments"
    made = {e.name: e for paper in published.papers().values() for e in paper.experiments}
    # Of hundreds of cells, some of them.
    loaded = {name: reproduce.load(root, e, quick=False) for name, e in made.items()}
    for claim in every:
        plan = loaded[claim.plan]
        assert claim.checks
        fed = published.select(every, plan.claims) if plan.claims else []
        assert claim in fed, "the plan that feeds a claim names it"
        for check in claim.checks:
            assert check.low <= check.high
            two = check.kind in measures.OF_TWO_PLANS
            of = [check.given[k] for k in PARTS] if two else [check.given]
            for given in of:
                name = given.get("plan") or claim.plan
                source = loaded[name]
                assert source.name == name
                _exists(source, given, (claim.id, check.name))


def test_a_plan_decides_its_own_claims_only() -> None:
    """The report of `x-t2-oid` once judged what `x-t2-step` feeds, whose name goes on from its own
    claim's, and died of a check that names too little there.
    """

    def ids(plan: str, *names: str) -> list[str]:
        return [c.id for c in published.fed_by(plan, names)]

    assert ids("x-t2-oid", "AP-OID") == ["AP-OID"]
    assert ids("x-t2-oid-attempts-11", "AP-OID") == ["AP-OID"]
    assert ids("x-t2-step", "AP-OID-STEP") == ["AP-OID-STEP"]
    assert ids("mine", "AP-OID") == ["AP-OID", "AP-OID-STEP"]


def test_a_check_over_time_that_names_too_little_is_not_measured(tmp_path: Path) -> None:
    verdict = judged(
        results(tmp_path), kind="series", series="flow.1.x", of={"stack": "ours"}, at_least=0.0
    )
    assert verdict.verdict == claims.NOT_MEASURED
    assert "say which hops" in verdict.findings[0].why


PARTS = ("first", "second")


def _exists(plan: plans.Plan, given: Any, where: Any) -> None:
    """What a check looks at is in its plan: levels of axes, metrics, flows, series, cells."""
    kind = given.get("kind")
    along = [{given["axis"]: v} for v in given["levels"]] if kind == "along" else [{}]
    sides = [given[side] for side in ("of", "over") if side in given]
    if kind == "among":
        along, sides = measures.points_of(given), measures.sides_of(given)
        assert given["take"] in measures.AMONG
    for level in along:
        for side in sides:
            labels = {**level, **side}
            for name, label in labels.items():
                known = {str(v.label) for v in plan.axis(name).levels}
                assert set(_named(label)) <= known, (where, name, label)
            cells = [c for c in plan.cells if _all(c, labels)]
            assert cells, where
            if kind != "pooled":
                # A side of `beyond` may be several cells: it is beyond all of them.
                most = max(len(_named(label)) for label in labels.values()) if labels else 1
                assert len(cells) == (most if kind == "beyond" else 1), (where, len(cells))
    for key in ("metric", "over_metric"):
        assert key not in given or wrong(given[key]) is None, where
    if kind in OVER_TIME:
        assert plan.series_runs, where
    names = given.get("series", [])
    for name in [names] if isinstance(names, str) else names:
        # Those of nodes are always recorded.
        own = name.removeprefix("flow.").partition(".")[2]
        assert name.startswith("node.") or own in plan.recorded, (where, name)


def _named(label: Any) -> list[str]:
    return [str(v) for v in (label if isinstance(label, list) else [label])]


def _all(cell: Any, labels: Any) -> bool:
    return all(str(cell.labels[k]) in _named(v) for k, v in labels.items())


def test_the_testbeds_claims_stand_beside_both_readings_of_attempts() -> None:
    """D44: four and eleven attempts of TAP-*, `driver` and `literal` of TB-W9."""
    by_plan = {
        claim.id: {p for p in claim.plans if p.endswith("-attempts-11")}
        for claim in published.select(published.load(), ["AP"])
    }
    # Equations, the sensitivity of Table III, which has them among its variants, and ns-2's chain.
    without = {name for name, plans in by_plan.items() if not plans}
    assert without == {"AP-EQ", "AP-T3", "AP-T3-V", "AP-10"}
    assert by_plan["AP-FTP"] == {"x-t2-attempts-11", "x-t7-attempts-11"}
    for claim in published.select(published.load(), ["WIFU-F6", "WIFU-F7"]):
        worlds = {c.given["of"].get("world") for c in claim.checks}
        assert worlds == {"driver", "literal"}, claim.id
        assert all(c.type == "INFO" for c in claim.checks if c.given["of"]["world"] == "literal")


def test_every_kind_of_check_can_be_measured() -> None:
    assert {*measures.MEASURES, *measures.OF_TWO_PLANS} == set(published.KINDS)


def test_claims_are_chosen_by_id_or_its_beginning() -> None:
    every = published.load()
    assert [c.id for c in published.select(every, ["WIFU-II"])] == [
        f"WIFU-II.{n}" for n in (1, 2, 3, 4)
    ]
    assert [c.id for c in published.select(every, ["WIFU-III"])] == ["WIFU-III.10", "WIFU-III.100"]
    assert [c.id for c in published.select(every, ["WIFU-F4.*"])] == [
        f"WIFU-F4.{n}" for n in (1, 2, 3, 4)
    ]
    for name, ids in (
        ("WIFU-F6", ["WIFU-F6a", "WIFU-F6b", "WIFU-F6c"]),
        ("WIFU-F7", ["WIFU-F7a", "WIFU-F7b", "WIFU-F7c"]),
        ("AP-7", ["AP-7", "AP-7b"]),
        ("AP-23", ["AP-23a", "AP-23b"]),
        ("AP-7b", ["AP-7b"]),
    ):
        assert [c.id for c in published.select(every, [name])] == ids
    whole = published.select(every, ["AP", "ATP", "HXH", "WIFU"])
    assert {c.id for c in whole} == {c.id for c in every}
    assert not any(c.id.startswith("WIFU") for c in published.select(every, ["AP"]))
    both = published.select(every, ["AP-T3", "WIFU-F5"])
    assert [c.id for c in both] == ["AP-T3", "AP-T3-V", "WIFU-F5"]
    assert len(published.select(every, [])) == len(every)
    with pytest.raises(LabError, match="no claim is called AP-T33; did you mean `AP-T3`"):
        published.select(every, ["AP-T33"])


def test_the_last_line_counts_the_worst_of_all_substrates() -> None:
    from wifu.screen import tally

    claim = published._claim({"id": "X-1", "says": "", "source": "", "type": "SOFT", "plan": "f"})
    found = claims.Finding(published.Check("it", "value", "SOFT", 0, 1, "", {}), None, "PASS")

    def verdict(word: str) -> claims.Verdict:
        return claims.Verdict(claim, word, (found,) if word != "not measured" else ())

    good, bad, none = verdict("PASS"), verdict("FAIL"), verdict("not measured")
    assert tally([good], [{}]) == "1 PASS"
    assert tally([good], [{"emu": bad}]) == "1 FAIL (X-1 on emu)"
    assert tally([bad], [{"emu": bad}]) == "1 FAIL (X-1 on sim, emu)"
    assert tally([bad, good], [{}, {"emu": verdict("OPEN")}]) == "1 FAIL, 1 OPEN (X-1 on emu)"
    assert tally([none, good], [{"emu": good}, {"live": none}]) == "2 PASS"
    assert tally([none], [{}]) == "1 not measured"
