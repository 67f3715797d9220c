"""Verdicts from groups with given states, losses and changes: kinds, groups, and who decides."""

from dataclasses import replace

import pytest

from fairspan.auditing.decision_notes import separate_losses_note
from fairspan.auditing.decision_table import decision_table, decisions
from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.findings.finding_catalog import ENTRIES
from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import (
    DisparityEstimates,
    GroupResult,
    ModelDescription,
    ModelResult,
    argmax_with_ties,
    change_records,
)
from fairspan.auditing.verdict_rules import draw_conclusions


def group(name, state, loss=1.0, change=None, n=100, margin=0.1):
    """Result with a variance of 10, so that 0.1 is material at the default threshold."""
    expected = (
        {}
        if change is None
        else {"expected_change": Estimate(change, change - margin, change + margin)}
    )
    if state != "inconclusive" or change is not None:
        # A loss that is not material has a limit below the threshold.
        half_width = 0.04 if state in ("minor", "no material harm") else 0.2
        expected |= {
            "expected_error": Estimate(5.0, 4.5, 5.5),
            "expected_loss": Estimate(loss, loss - half_width, loss + half_width),
            "state": state,
        }
    return GroupResult(
        group=name,
        n_rows=n,
        proportion=0.5,
        observed_total_variance=10.0,
        observed_error=Estimate(5.0),
        observed_best_error=4.0,
        observed_loss=1.0,
        observed_variance_kept=0.5,
        **expected,
    )


def model(name, *groups, baseline=None, favors_equal_errors=False):
    labels = tuple(group.group for group in groups)
    description = ModelDescription(
        name,
        3,
        "global",
        is_scaled=False,
        is_pca=baseline is None,
        in_sample=True,
        baseline=baseline,
        training_groups=labels,
        favors_equal_errors=favors_equal_errors,
    )
    return ModelResult(description, groups, DisparityEstimates(Estimate(0.0), labels[:2]))


def verdict(plain, *fair, findings=()):
    (result,) = draw_conclusions(
        [model("fair", *fair, baseline="PCA"), model("PCA", *plain)]
        if fair
        else [model("PCA", *plain)],
        findings,
        0.95,
        0.01,
    ).verdicts
    return result


def recommendation(*models, findings=()):
    (result,) = draw_conclusions(models, findings, 0.95, 0.01).recommendations
    return result


KINDS = [
    (
        [group("a", "harmed"), group("b", "no material harm", 0.0)],
        [group("a", "minor", 0.05, -0.9), group("b", "minor", 0.05, 0.05, margin=0.02)],
        "harm, repair helps",
        ["loses 10.0 % (8.0 to 12.0) more of the variance of 'a' (100 rows)",
         "Under fair, 'a' keeps 9.0 points more (8.0 to 10.0)",
         "no group pays more than the threshold of 1.0 %: 'b' (100 rows) keeps 0.5 points less "
         "(0.3 to 0.7)."],
    ),
    (
        [group("a", "harmed"), group("b", "no material harm", 0.0)],
        [group("a", "minor", 0.05, -0.9), group("b", "harmed", 0.8, 0.8)],
        "harm, repair shifts it",
        ["Under fair, 'b' (100 rows) is harmed"],
    ),
    (
        [group("a", "harmed", 2.0), group("b", "harmed"), group("c", "no material harm", 0.0)],
        [group("a", "minor", 0.05, -0.9), group("b", "harmed", 1.4, 0.4),
         group("c", "no material harm", 0.0)],
        "harm, repair at a cost",
        ["'a' keeps 9.0 points more (8.0 to 10.0)",
         "'b' (100 rows) keeps 4.0 points less (3.0 to 5.0)"],
    ),
    (
        [group("a", "harmed"), group("b", "inconclusive", 0.5)],
        [group("a", "minor", 0.05, -0.9), group("b", "inconclusive", 0.5)],
        "harm, repair at a possible cost",
        ["Whether 'b' (100 rows) pays more than 1.0 % is unresolved."],
    ),
    (
        [group("a", "harmed"), group("b", "no material harm", 0.0)],
        [group("a", "harmed", 1.0, -0.05), group("b", "no material harm", 0.0, 0.0)],
        "harm, repair not shown to help",
        ["error of 'a' is not shown"],
    ),
    (
        [group("a", "harmed"), group("b", "no material harm", 0.0)],
        [group("a", "harmed", 1.5, 0.5), group("b", "no material harm", 0.0, 0.0)],
        "harm, repair makes it worse",
        ["Under fair, 'a' loses even more."],
    ),
    (
        [group("a", "no material harm", 0.0), group("b", "minor", 0.05)],
        [group("a", "harmed", 1.0, 1.0), group("b", "minor", 0.05, 0.0)],
        "no material harm, repair harms",
        ["under fair, 'a' (100 rows) is harmed", "PCA is not shown"],
    ),
    (
        [group("a", "harmed"), group("b", "harmed", 3.0)],
        [],
        "harm, no repair tried",
        ["variance of 'b' (100 rows)", "'a' (100 rows) is also harmed"],
    ),
    (
        [group("a", "inconclusive", n=7), group("b", "no material harm", 0.0)],
        [],
        "inconclusive",
        ["harms 'a' (7 rows)"],
    ),
    (
        [group("a", "no material harm", 0.0), group("b", "minor", 0.05)],
        [group("a", "no material harm", 0.0, 0.0), group("b", "minor", 0.05, 0.0)],
        "no material harm",
        ["no group has a material loss under PCA",
         "loss of 'b' is above zero"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("plain", "fair", "kind", "words"), KINDS, ids=[k[2] for k in KINDS])
def test_each_kind_names_the_groups_and_a_recommendation(plain, fair, kind, words):
    result = verdict(plain, *fair)
    assert result.kind == kind
    assert result.recommendation.endswith(".")
    for word in words:
        assert word in result.summary
    assert str(result).startswith(f"{kind[0].upper()}{kind[1:]}. ")


def finding_of(code, model=None, groups=()):
    """A finding with the fields that its entry gives it."""
    entry = ENTRIES[code]
    return Finding(
        code,
        entry.severity,
        "Message.",
        model=model,
        groups=tuple(groups),
        remedy=entry.recommendation_in(None),
        caveat=entry.caveat,
        may_be_harmless=entry.may_be_harmless,
    )


@pytest.mark.parametrize(("plain", "fair", "kind", "words"), KINDS, ids=[k[2] for k in KINDS])
def test_no_verdict_ignores_a_finding_that_qualifies_it(plain, fair, kind, words):
    """All pairs of a kind and a finding: the verdict either says what questions it, or stands."""
    unqualified = verdict(plain, *fair)
    for code in ENTRIES:
        is_of_data = code.startswith("FS4")
        finding = finding_of(code, None if is_of_data else "PCA")
        qualified = verdict(plain, *fair, findings=[finding])
        casts_doubt = is_of_data and not finding.may_be_harmless
        if not finding.qualifies_verdict or (kind == "inconclusive" and not casts_doubt):
            assert qualified == unqualified, code
            continue
        assert finding.remedy in qualified.advice.step_texts
        assert qualified.summary.endswith(f"{finding.caveat} ({code}).")
        if kind == "no material harm" and casts_doubt:
            assert qualified.kind == "inconclusive", code
            assert unqualified.recommendation not in qualified.recommendation
        else:
            assert qualified.kind == kind, code
            assert qualified.summary.startswith(unqualified.summary)
            # Steps are in the order in which they are taken: what was found comes first.
            first_step, *other_steps = unqualified.advice.step_texts
            assert qualified.advice.step_texts[0] == finding.remedy
            assert qualified.advice.step_texts[1].endswith(first_step[1:])
            assert list(qualified.advice.step_texts[2:]) == other_steps
            # The figures are those of the same model.
            assert qualified.advice.offered_model == unqualified.advice.offered_model


def test_a_finding_qualifies_only_verdicts_of_its_groups_and_models():
    plain = [group("a", "harmed"), group("b", "no material harm", 0.0)]
    unqualified = verdict(plain)
    for finding in (finding_of("FS109", groups=["b"]), finding_of("FS109", "another")):
        assert finding.qualifies_verdict
        assert verdict(plain, findings=[finding]) == unqualified
    qualified = verdict(plain, findings=[finding_of("FS109", groups=["a", "b"])])
    assert qualified.summary.endswith("(FS109).")


@pytest.mark.parametrize(
    ("state", "kind"),
    [("no material harm", "no material harm, repair harms"), ("inconclusive", "inconclusive")],
)
def test_harm_by_the_repair_alone_is_attributed_to_it(state, kind):
    """Harm by PCA that is not shown is not ruled out either."""
    result = verdict(
        [group("a", state, 0.0), group("b", "no material harm", 0.0)],
        group("a", "no material harm", 0.0, 0.0),
        group("b", "harmed", 1.0, 1.0),
    )
    assert result.kind == kind
    assert result.groups[0] == "b"
    assert "under fair, 'b'" in result.summary
    assert "not use fair" in result.recommendation


@pytest.mark.parametrize("change", [0.0, -0.5, None])
@pytest.mark.parametrize("of_pca", ["harmed", "inconclusive", "no material harm"])
def test_harm_is_not_attributed_to_the_repair_unless_the_error_is_shown_to_rise(change, of_pca):
    """Harm that is significant under one model only does not show that the models differ."""
    result = verdict(
        [group("a", of_pca), group("b", "inconclusive", 0.5)],
        group("a", "no material harm", 0.0, -0.9),
        group("b", "harmed", 1.0, change),
    )
    kind = "harm, repair at a possible cost" if of_pca == "harmed" else "inconclusive"
    if change == -0.5 and of_pca == "harmed":
        kind = "harm, repair helps"
    assert result.kind == kind
    assert "Under fair, 'b' (100 rows) is harmed, but not shown to be worse off" in result.summary


def test_the_worst_group_is_named_first_and_decides():
    """The worst group is the one that loses the largest share of its variance."""
    result = verdict(
        [group("a", "harmed", 1.0), group("b", "harmed", 3.0, n=9_000)],
        group("a", "minor", 0.1, -0.9),
        group("b", "harmed", 3.0, -0.05),
    )
    assert result.kind == "harm, repair not shown to help"
    assert "variance of 'b' (9,000 rows)" in result.summary.split(".")[0] + result.summary
    assert result.groups == ("b", "a")


def test_each_model_has_a_verdict_of_its_own():
    plain = model("PCA", group("a", "harmed"), group("b", "no material harm", 0.0))
    good_model = model(
        "good",
        group("a", "minor", 0.05, -0.9),
        group("b", "no material harm", 0.05, 0.05),
        baseline="PCA",
    )
    bad_model = model(
        "bad", group("a", "harmed", 1.0, 0.0), group("b", "minor", 0.05, 0.2), baseline="PCA"
    )
    verdicts = draw_conclusions([good_model, bad_model, plain], (), 0.95, 0.01).verdicts
    kinds = [(verdict.model, verdict.kind) for verdict in verdicts]
    assert kinds == [("good", "harm, repair helps"), ("bad", "harm, repair not shown to help")]
    changes = change_records([good_model, bad_model, plain])
    assert [(change["model"], change["group"]) for change in changes] == [
        ("good", "a"), ("good", "b"), ("bad", "a"), ("bad", "b"),
    ]  # fmt: skip
    assert changes[0]["expected_change_low"] == pytest.approx(-1.0)


def test_any_group_that_pays_makes_a_repair_costly():
    """Also one that PCA does not harm, and that the fair model does not harm either."""
    result = verdict(
        [group("a", "harmed"), group("b", "no material harm", 0.0)],
        group("a", "minor", 0.05, -0.9),
        group("b", "inconclusive", 0.3, 0.3),
    )
    assert result.kind == "harm, repair at a cost"
    assert "'b' (100 rows) keeps 3.0 points less (2.0 to 4.0)" in result.summary


def test_a_minor_loss_that_may_be_material_is_not_ruled_out():
    possible = group("a", "minor", 0.09)
    assert possible.expected_loss.high > 0.1
    result = verdict([possible, group("b", "no material harm", 0.0)])
    assert result.kind == "inconclusive"
    assert result.groups == ("a",)


PLAIN = (group("a", "harmed", 2.0), group("b", "no material harm", 0.0))


def fair_model(name, loss, cost=0.0, **options):
    """Fair model under which a gains and b pays, each with an interval of 0.05 and more."""
    groups = group("a", "harmed", loss, loss - 2.0), group("b", "minor", 0.05, cost, margin=0.02)
    return model(name, *groups, baseline="PCA", **options)


def test_the_model_with_the_smallest_limit_of_the_largest_loss_is_recommended():
    models = [fair_model("good", 0.9), fair_model("better", 0.5), model("PCA", *PLAIN)]
    result = recommendation(*models)
    assert (result.kind, result.model, result.baseline) == ("use model", "better", "PCA")
    losses = {
        compared_model.model: compared_model.largest_loss.high for compared_model in result.compared
    }
    assert losses == pytest.approx({"PCA": 0.22, "good": 0.11, "better": 0.07})
    verdicts = draw_conclusions(models, (), 0.95, 0.01).verdicts
    assert {single_verdict.recommendation for single_verdict in verdicts} == {result.text}


def test_models_that_are_not_shown_to_be_worse_are_named_as_ties():
    plain = model("PCA", *PLAIN)
    best, near, far = (
        fair_model(name, loss) for name, loss in (("b", 0.5), ("n", 0.6), ("f", 1.2))
    )
    result = recommendation(best, near, far, plain)
    assert (result.model, result.tied_models) == ("b", ("n",))
    assert result.text.endswith("but n is not shown to be worse.")
    apart = recommendation(best, far, plain)
    assert (apart.model, apart.tied_models) == ("b", ())
    assert apart.text.endswith("this estimate is the smallest.")
    # A model that does not help is no alternative, however small its lower limit.
    useless = model("useless", *PLAIN, baseline="PCA")
    assert recommendation(best, useless, plain).tied_models == ()


def test_an_undecided_recommendation_names_a_model_that_helps_without_cost():
    leading = model(
        "leading",
        group("a", "harmed", 0.2, -1.8),
        group("b", "inconclusive", 0.09, 0.09),
        baseline="PCA",
    )
    result = recommendation(leading, fair_model("free", 0.9), model("PCA", *PLAIN))
    assert (result.kind, result.leading_model) == ("undecided", "leading")
    assert "whether 'b' pays more than 1.0 % is unresolved. " in result.reason
    (step,) = result.advice.step_texts
    assert step.startswith("Keep PCA")
    assert (result.advice.offered_model, result.advice.suggests_more_dimensions) == (None, True)
    alternative = "Without a material cost, free lowers the estimate of the largest loss to 9.0 %"
    assert f"{alternative} of the variance of 'a' (at most 11.0 %)." in result.reason


def test_an_interval_below_the_threshold_that_rules_nothing_out_says_why():
    """A few rows dominate the error of the group, so that its interval may be too short."""
    doubtful_effect = replace(group("b", "harmed", 1.0, 0.03, margin=0.02), is_heavy_tailed=True)
    leading = model("leading", group("a", "harmed", 0.2, -1.8), doubtful_effect, baseline="PCA")
    plain = model("PCA", group("a", "harmed", 2.0), group("b", "harmed", 1.0))
    result = recommendation(leading, plain)
    assert result.compared[1].effects[1].is_limit_doubtful(0.01)
    assert (
        "whether 'b' pays more than 1.0 % is unresolved, as a few of its rows have far"
        in result.text
    )
    assert "0.1 to 0.5 %, may be too short" in result.text


def test_estimates_and_limits_of_the_largest_loss_are_distinguished():
    """The group with the largest estimate need not be the one with the largest limit."""
    wide = replace(
        group("b", "inconclusive", 0.05, 0.0, margin=0.04),
        expected_loss=Estimate(0.05, -0.05, 0.15),
    )
    fair = model("fair", group("a", "minor", 0.08, -1.9, margin=0.02), wide, baseline="PCA")
    result = recommendation(fair, model("PCA", *PLAIN))
    compared_model = result.compared[1]
    assert (compared_model.expected_group, compared_model.group) == ("a", "b")
    assert "estimated at 0.8 % of the variance of 'a' (under PCA, 20.0 %)" in result.text
    assert "the largest upper limit is 1.5 %, of 'b' (under PCA, 22.0 %, of 'a')" in result.text
    assert result.kind == "use model"
    assert "so a loss above 1.0 % is not ruled out." in result.text


def test_a_repair_that_shifts_harm_says_so_if_it_also_adds_to_it():
    result = verdict(PLAIN, group("a", "harmed", 2.4, 0.4), group("b", "harmed", 1.0, 1.0))
    assert result.kind == "harm, repair shifts it"
    assert "'a' also loses more than under PCA." in result.summary


def test_losses_with_separate_intervals_and_an_open_change_are_explained():
    fair = group("b", "harmed", 1.0, 0.5, margin=0.6)
    result = verdict(
        [group("a", "inconclusive", 0.5), group("b", "minor", 0.05)],
        group("a", "inconclusive", 0.5, 0.0),
        fair,
    )
    assert result.kind == "inconclusive"
    assert "'b' (100 rows) is harmed" in result.summary
    assert "neither a gain nor a cost is shown" in result.summary


def test_many_groups_that_pay_little_are_described_together():
    names = "bcdef"
    result = verdict(
        [group("a", "harmed"), *(group(name, "no material harm", 0.0) for name in names)],
        group("a", "minor", 0.05, -0.9),
        *(group(name, "minor", 0.05, 0.05, margin=0.02) for name in names),
    )
    assert result.kind == "harm, repair helps"
    assert (
        "points less (0.3 to 0.7), and 3 other groups keep up to 0.7 points less" in result.summary
    )


def test_no_model_is_recommended_for_which_a_group_pays():
    """Also if another model without a cost has a limit below that of PCA."""
    result = recommendation(
        fair_model("free", 0.9), fair_model("costly", 0.5, cost=0.3), model("PCA", *PLAIN)
    )
    assert (result.kind, result.model) == ("no model, a group pays", None)
    assert result.leading_model == "costly"
    effects = {effect.group: effect.kind for effect in result.compared[2].effects}
    assert effects == {"a": "gain", "b": "cost"}
    assert result.compared[2].effects[1].change == Estimate(
        pytest.approx(0.03), pytest.approx(0.028), pytest.approx(0.032)
    )


def test_a_criterion_that_aims_at_equal_errors_is_never_recommended():
    equal = fair_model("equal", 0.1, favors_equal_errors=True)
    result = recommendation(equal, fair_model("fair", 0.5), model("PCA", *PLAIN))
    assert (result.kind, result.model) == ("use model", "fair")
    assert [compared_model.model for compared_model in result.compared] == ["PCA", "equal", "fair"]
    result_without_fair = recommendation(equal, model("PCA", *PLAIN))
    assert (result_without_fair.kind, result_without_fair.model) == ("undecided", None)


def test_pca_is_recommended_if_it_does_no_harm_or_no_fair_model_limits_losses_better():
    harmless = model("PCA", group("a", "minor", 0.05), group("b", "no material harm", 0.0))
    result = recommendation(fair_model("fair", 0.01), harmless)
    assert (result.kind, result.model) == ("use model", "PCA")
    worse = model(
        "worse",
        group("a", "harmed", 2.5, 0.0),
        group("b", "no material harm", 0.0, 0.0),
        baseline="PCA",
    )
    result = recommendation(worse, model("PCA", *PLAIN))
    assert (result.kind, result.model) == ("use model", "PCA")


def test_lack_of_evidence_is_not_recommended():
    """Neither a group that may pay nor a gain that is not shown."""
    unknown = model(
        "unknown", group("a", "minor", 0.05, -0.9), group("b", "inconclusive"), baseline="PCA"
    )
    result = recommendation(unknown, model("PCA", *PLAIN))
    assert (result.kind, result.model) == ("undecided", None)
    assert result.compared[1].unknown_groups == ("b",)
    unshown = model(
        "unshown",
        group("a", "harmed", 1.9, -0.05),
        group("b", "no material harm", 0.0, 0.0),
        baseline="PCA",
    )
    assert recommendation(unshown, model("PCA", *PLAIN)).kind == "undecided"


def test_nothing_is_recommended_while_the_data_are_in_doubt():
    models = fair_model("fair", 0.5), model("PCA", *PLAIN)
    result = recommendation(*models, findings=[finding_of("FS402")])
    assert (result.kind, result.model, result.questioned_by) == ("undecided", None, ("FS402",))
    # Rows that are alike may be harmless.
    assert recommendation(*models, findings=[finding_of("FS410")]).model == "fair"


def test_an_unstable_projection_is_the_first_finding():
    """The difference is smaller than the spread of PCA, or of the fair model."""
    steady = group("a", "harmed")
    open_one = group("b", "no material harm", 0.0)
    unstable_group = replace(group("a", "minor", 0.05, -0.05), is_unstable=True)
    result = verdict([steady, open_one], unstable_group, open_one)
    assert (result.kind, result.groups) == ("inconclusive", ("a",))
    assert result.summary.startswith("fair itself is unstable")
    assert "a different number of dimensions" in result.summary.split(". ")[1]
    assert "variance of 'a' (100 rows)" in result.summary
    veiled = replace(group("a", "inconclusive", 0.5), is_unstable=True)
    for fair in ([], [group("a", "minor", 0.05, -0.9), group("b", "harmed", 1.0, 0.8)]):
        result = verdict([veiled, open_one], *fair)
        assert (result.kind, result.groups) == ("inconclusive", ("a",))
        assert result.summary.startswith("PCA itself is unstable")
        assert "harms 'a' (100 rows)" in result.summary


def test_no_reported_loss_exceeds_the_variance_of_its_group():
    result = verdict([group("a", "harmed", 30.0), group("b", "no material harm", 0.0)])
    assert "loses 100.0 % (100.0 to 100.0) more" in result.summary


def test_the_group_that_pays_most_comes_first():
    result = verdict(
        [group("a", "harmed"), *(group(name, "no material harm", 0.0) for name in "bc")],
        group("a", "minor", 0.05, -0.9),
        *(group(name, "inconclusive", 0.3, change) for name, change in (("b", 0.3), ("c", 0.4))),
    )
    cost = "'c' (100 rows) keeps 4.0 points less (3.0 to 5.0), 'b' (100 rows) keeps 3.0 points less"
    assert cost in result.summary


def test_a_verdict_of_harm_names_the_inconclusive_groups():
    plain = [group("a", "harmed"), group("b", "inconclusive"), group("c", "no material harm", 0.0)]
    for result in (verdict(plain), verdict(plain, group("a", "no material harm", 0.0, -0.5))):
        assert "Whether it harms 'b' (100 rows) is unresolved." in result.summary


def test_values_that_differ_by_rounding_share_the_maximum():
    assert argmax_with_ties({"a": 1.0, "b": 2.0, "c": 2.0 - 1e-14}, 1e-12)[0] == ["b", "c"]


HELPS = "harm, repair helps"
MAY_COST = "harm, repair at a possible cost"


@pytest.mark.parametrize(
    ("change", "margin", "state", "kind", "verdict_kind"),
    [
        (-0.3, 0.2, "inconclusive", "gain", HELPS),
        (0.3, 0.1, "inconclusive", "cost", "harm, repair at a cost"),
        # Shown, and estimated below the threshold of 0.1, which it may exceed.
        (0.05, 0.02, "inconclusive", "small cost", HELPS),
        (0.08, 0.04, "inconclusive", "small cost", MAY_COST),
        (0.0, 0.05, "inconclusive", "no material cost", HELPS),
        # The change is at most the loss, which is below the threshold.
        (0.0, 0.3, "no material harm", "no material cost", HELPS),
        (0.0, 0.3, "inconclusive", "unclear", MAY_COST),
    ],
)
def test_verdict_recommendation_and_decision_table_classify_a_change_alike(
    change, margin, state, kind, verdict_kind
):
    plain = model("PCA", group("a", "harmed", 2.0), group("b", "no material harm", 0.0))
    loss = 0.05 if state == "no material harm" else 1.0
    fair = model(
        "fair",
        group("a", "minor", 0.05, -0.9),
        group("b", state, loss, change, margin=margin),
        baseline="PCA",
    )
    effect = recommendation(fair, plain).compared[1].effects[1]
    assert effect.kind == kind
    (_, (_, decision)) = decisions([fair, plain], 0.01)
    assert (decision.outcome, decision.change) == (kind, effect.change)
    (result,) = draw_conclusions([fair, plain], (), 0.95, 0.01).verdicts
    assert result.kind == verdict_kind
    assert effect.may_pay is (verdict_kind == MAY_COST)


def test_a_possible_cost_does_not_exceed_the_loss_that_bounds_it():
    plain = model("PCA", group("a", "harmed", 2.0), group("b", "no material harm", 0.0))
    bounded = group("b", "no material harm", 0.02, 0.0, margin=0.3)
    fair = model("fair", group("a", "minor", 0.05, -0.9), bounded, baseline="PCA")
    cell = decision_table([fair, plain], 0.01).columns[2].cells[1]
    # The upper limit of the loss is 0.06 of a variance of 10.
    assert cell.text.replace("\xa0", " ") == "change 0.0 % (\u22123.0 to +0.6): no material cost"


def with_gap(result, value, half_width):
    gap = Estimate(value, value - half_width, value + half_width)
    return replace(
        result, disparity=replace(result.disparity, expected=gap, expected_pair=("a", "b"))
    )


@pytest.mark.parametrize(
    ("under_pca", "under_fair", "is_opened"),
    [
        ((0.1, 0.2), (0.5, 0.2), True),
        ((0.1, 0.2), (0.1, 0.2), False),
        ((0.5, 0.2), (0.9, 0.2), False),
    ],
)
def test_a_gap_in_error_that_only_the_repair_shows_is_in_the_summary(
    under_pca, under_fair, is_opened
):
    plain = with_gap(model("PCA", *PLAIN), *under_pca)
    larger = replace(group("b", "minor", 0.05, 0.05, margin=0.02), expected_error=Estimate(6.0))
    fair = model("fair", group("a", "minor", 0.05, -0.9), larger, baseline="PCA")
    (result,) = draw_conclusions([with_gap(fair, *under_fair), plain], (), 0.95, 0.01).verdicts
    assert result.kind == "harm, repair helps"
    message = (
        "the error of 'b' is larger than that of 'a' by 5.0 % of the variance of all rows (3.0 to "
        "7.0); under PCA no gap is shown"
    )
    assert (message in result.summary) is is_opened


def test_a_gap_in_error_below_zero_names_the_groups_in_the_other_order():
    plain = with_gap(model("PCA", *PLAIN), 0.1, 0.2)
    fair = fair_model("fair", 0.9)
    (result,) = draw_conclusions([with_gap(fair, -0.5, 0.2), plain], (), 0.95, 0.01).verdicts
    assert "the error of 'a' is larger than that of 'b' by 5.0 % of the" in result.summary


def test_the_recommendation_does_not_repeat_the_costs_of_the_verdict():
    result = verdict(PLAIN, group("a", "minor", 0.05, -0.9), group("b", "minor", 0.05, 0.0))
    assert "pays more than" in result.summary
    assert "pays more than" not in result.recommendation
    assert str(result).count("(100 rows)") == 1


def test_a_model_named_by_its_criterion_is_called_a_fair_pca():
    fair = model("minimax loss", group("a", "minor", 0.05, -0.9), PLAIN[1], baseline="PCA")
    assert fair.full_name == "minimax loss"
    description = replace(fair.description, problem="minimax loss")
    fair = replace(fair, description=description)
    result = recommendation(fair, model("PCA", *PLAIN))
    assert result.text.startswith("Use fair PCA (minimax loss): ")


def test_no_share_of_a_variance_exceeds_one():
    """Intervals of few rows may exceed the variance."""
    result = group("a", "harmed", 9.9, 0.0, margin=20.0)
    assert result.expected_loss.high > 10
    assert result.expected_loss_share.high == 1.0
    assert (result.expected_change_share.low, result.expected_change_share.high) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        # Loss of the group before and after, with the change that is not shown.
        (("minor", 0.05), ("harmed", 1.0, 0.5), "a cost"),
        (("harmed", 2.0), ("minor", 0.05, -0.5), "a gain"),
        (("harmed", 1.0), ("harmed", 1.1, 0.5), ""),
    ],
)
def test_separate_losses_with_an_open_change_are_explained_below_the_table(before, after, effect):
    plain = model("PCA", group("a", *before), group("b", "minor", 0.05))
    fair = model(
        "fair", group("a", *after, margin=0.6), group("b", "minor", 0.05, 0.0), baseline="PCA"
    )
    note = separate_losses_note([fair, plain])
    assert (f"{effect} is not shown" in note) is bool(effect)
    assert ("'a'" in note, "'b'" in note) == (bool(effect), False)
    assert bool(note) is (note in decision_table([fair, plain], 0.01).notes)


@pytest.mark.parametrize(
    ("change", "is_said"), [(-0.5, True), (-0.05, False), (0.05, False)], ids=str
)
def test_a_gain_that_is_estimated_but_not_shown_is_no_mere_lack_of_a_cost(change, is_said):
    """The interval of the change contains zero; its loss rules a material cost out."""
    before = group("a", "harmed", 0.6)
    after = group("a", "no material harm", 0.05, change, margin=0.6)
    table = decision_table([model("fair", after, baseline="PCA"), model("PCA", before)], 0.01)
    cell = table.columns[1].cells[1]
    assert cell.attributes["data-outcome"] == "no material cost"
    assert ("gain not shown" in cell.text) is is_said
    assert ("Gain not shown" in str(table.notes)) is is_said


@pytest.mark.parametrize("loss", [0.1, -0.1])
def test_a_loss_below_zero_is_explained(loss):
    """The half width of the interval is 0.04."""
    plain = model("PCA", group("a", "no material harm", loss))
    fair = model("fair", group("a", "no material harm", 0.1, 0.0), baseline="PCA")
    notes = str(decision_table([fair, plain], 0.01).notes)
    assert ("below zero as no loss" in notes) is (loss < 0)


def test_a_recommendation_counts_the_models_that_it_compares():
    """Models that aim at equal errors are no rivals if one of them has a smaller loss."""
    best, plain = fair_model("best", 0.3), model("PCA", *PLAIN)
    equal = replace(best, description=replace(best.description, name="equal"))
    smaller = replace(
        fair_model("equal", 0.1),
        description=replace(equal.description, favors_equal_errors=True),
    )
    worse = fair_model("worse", 0.9)
    assert "Of PCA and two fair models" in recommendation(best, worse, plain).text
    result = recommendation(best, worse, smaller, plain)
    assert result.model == "best"
    assert "Of PCA and the two fair models that do not aim at equal errors" in result.text


def test_figures_of_a_model_that_is_not_recommended_are_no_part_of_the_advice():
    costly = model(
        "costly", group("a", "harmed", 0.3, -1.7), group("b", "harmed", 1.0, 0.5), baseline="PCA"
    )
    result = recommendation(costly, model("PCA", *PLAIN))
    assert (result.kind, result.model) == ("no model, a group pays", None)
    assert result.advice.offered_model == "costly"
    assert not any("%" in step for step in result.advice.step_texts)
    assert "points less" in result.reason
    assert result.text == f"{result.advice} {result.reason}"


@pytest.mark.parametrize(("low", "sign"), [(-1e-6, "\u2212"), (1e-6, "+"), (0.0, "")])
def test_a_limit_that_rounds_to_zero_keeps_the_sign_that_decides(low, sign):
    plain = model("PCA", group("a", "harmed", 2.0), group("b", "minor", 0.05))
    change = Estimate(0.5, low, 1.0)
    payer = replace(group("b", "inconclusive", 1.0, 0.5), expected_change=change)
    fair = model("fair", group("a", "minor", 0.05, -0.9), payer, baseline="PCA")
    text = decision_table([fair, plain], 0.01).columns[2].cells[1].text.replace("\xa0", " ")
    assert text == f"change +5.0 % ({sign}0.0 to +10.0): {'cost' if low > 0 else 'unclear'}"
