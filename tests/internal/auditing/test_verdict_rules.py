"""Verdicts from groups with given states, losses and changes: kinds, groups, and who decides."""

from dataclasses import replace

import pytest

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
from fairspan.auditing.verdict_rules import make_verdicts


def group(name, state, loss=1.0, change=None, n=100):
    expected = (
        {} if change is None else {"expected_change": Estimate(change, change - 0.1, change + 0.1)}
    )
    if state != "inconclusive" or change is not None:
        expected |= {
            "expected_error": Estimate(5.0, 4.5, 5.5),
            "expected_loss": Estimate(loss, loss - 0.2, loss + 0.2),
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


def model(name, *groups, baseline=None):
    labels = tuple(each.group for each in groups)
    description = ModelDescription(
        name,
        3,
        "global",
        is_scaled=False,
        is_pca=baseline is None,
        in_sample=True,
        baseline=baseline,
        training_groups=labels,
    )
    return ModelResult(description, groups, DisparityEstimates(Estimate(0.0), labels[:2]))


def verdict(plain, *fair, findings=()):
    (found,) = make_verdicts(
        [model("fair", *fair, baseline="PCA"), model("PCA", *plain)]
        if fair
        else [model("PCA", *plain)],
        findings,
        0.95,
        0.01,
    )
    return found


KINDS = [
    (
        [group("a", "harmed"), group("b", "no material harm", 0.0)],
        [group("a", "minor", 0.1, -0.9), group("b", "minor", 0.1, 0.3)],
        "harm, repair helps",
        ["'a' (100 rows) is harmed by PCA", "8.0 % to 12.0 % more of its variance",
         "'a' regains 8.0 % to 10.0 % of its variance",
         "The cost falls on 'b' (100 rows): an estimated 3.0 %"],
    ),
    (
        [group("a", "harmed"), group("b", "no material harm", 0.0)],
        [group("a", "minor", 0.1, -0.9), group("b", "harmed", 0.8, 0.8)],
        "harm, repair shifts it",
        ["Under fair, 'b' (100 rows) is harmed"],
    ),
    (
        [group("a", "harmed", 2.0), group("b", "harmed"), group("c", "no material harm", 0.0)],
        [group("a", "minor", 0.1, -0.9), group("b", "harmed", 1.4, 0.4),
         group("c", "no material harm", 0.0)],
        "harm, repair at a cost",
        ["'a' regains 8.0 % to 10.0 %",
         "'b' (100 rows), already harmed by PCA, loses a further estimated 4.0 %"],
    ),
    (
        [group("a", "harmed"), group("b", "inconclusive", 0.5)],
        [group("a", "minor", 0.1, -0.9), group("b", "inconclusive", 0.5)],
        "harm, repair helps",
        ["unresolved for 'b' (100 rows)"],
    ),
    (
        [group("a", "harmed"), group("b", "no material harm", 0.0)],
        [group("a", "harmed", 1.0, -0.05), group("b", "no material harm", 0.0, 0.0)],
        "harm, repair does not help",
        ["error of 'a' is not shown"],
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
        ["'b' (100 rows) is harmed by PCA", "So is 'a' (100 rows)."],
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
def test_each_kind_says_whom_and_what_to_do(plain, fair, kind, words):
    found = verdict(plain, *fair)
    assert found.kind == kind
    assert found.recommendation.endswith(".")
    for each in words:
        assert each in found.summary
    assert str(found).startswith(f"{kind[0].upper()}{kind[1:]}. ")


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
def test_no_verdict_ignores_a_finding_that_vetoes_it(plain, fair, kind, words):
    """All pairs of a kind and a finding: the verdict either says what questions it, or stands."""
    alone = verdict(plain, *fair)
    for code in ENTRIES:
        is_of_data = code.startswith("FS4")
        found = finding_of(code, None if is_of_data else "PCA")
        given = verdict(plain, *fair, findings=[found])
        if not found.qualifies_verdict or kind == "inconclusive":
            assert given == alone, code
            continue
        assert given.recommendation.startswith(found.remedy)
        assert f"{found.caveat} ({code})" in given.summary.split(". ")[0]
        if kind == "no material harm" and is_of_data and not found.may_be_harmless:
            assert given.kind == "inconclusive", code
            assert alone.recommendation not in given.recommendation
        else:
            assert given.kind == kind, code
            assert given.summary.endswith(alone.summary[1:])
            assert given.recommendation.endswith(alone.recommendation[1:])


def test_a_finding_qualifies_only_verdicts_of_its_groups_and_models():
    plain = [group("a", "harmed"), group("b", "no material harm", 0.0)]
    alone = verdict(plain)
    for found in (finding_of("FS109", groups=["b"]), finding_of("FS109", "another")):
        assert found.qualifies_verdict
        assert verdict(plain, findings=[found]) == alone
    ours = verdict(plain, findings=[finding_of("FS109", groups=["a", "b"])])
    assert "(FS109), 'a' (100 rows)" in ours.summary


def test_harm_by_the_repair_alone_is_attributed_to_it():
    """Also where too little is known of PCA: nobody is told to use that."""
    for state in ("no material harm", "inconclusive"):
        found = verdict(
            [group("a", state, 0.0), group("b", "no material harm", 0.0)],
            group("a", "no material harm", 0.0, 0.0),
            group("b", "harmed", 1.0, 1.0),
        )
        assert found.kind == "no material harm, repair harms"
        assert found.groups == ("b",)
        assert "under fair, 'b'" in found.summary
        assert "not use fair" in found.recommendation


@pytest.mark.parametrize("change", [0.0, -0.5, None])
@pytest.mark.parametrize("of_pca", ["harmed", "inconclusive", "no material harm"])
def test_harm_is_not_attributed_to_the_repair_unless_the_error_is_shown_to_rise(change, of_pca):
    """That harm is significant under one model only does not show that it differs."""
    found = verdict(
        [group("a", of_pca), group("b", "inconclusive", 0.5)],
        group("a", "no material harm", 0.0, -0.9),
        group("b", "harmed", 1.0, change),
    )
    assert found.kind == ("harm, repair helps" if of_pca == "harmed" else "inconclusive")
    assert "Under fair, 'b' (100 rows) is harmed, but not shown to be worse off" in found.summary


def test_the_worst_group_is_named_first_and_decides():
    """By the share of its variance that it loses, not by rows."""
    found = verdict(
        [group("a", "harmed", 1.0), group("b", "harmed", 3.0, n=9_000)],
        group("a", "minor", 0.1, -0.9),
        group("b", "harmed", 3.0, -0.05),
    )
    assert found.kind == "harm, repair does not help"
    assert found.summary.startswith("'b' (9,000 rows) is harmed by PCA")


def test_each_model_has_a_verdict_of_its_own():
    plain = model("PCA", group("a", "harmed"), group("b", "no material harm", 0.0))
    good = model(
        "good", group("a", "minor", 0.1, -0.9), group("b", "minor", 0.1, 0.2), baseline="PCA"
    )
    bad = model(
        "bad", group("a", "harmed", 1.0, 0.0), group("b", "minor", 0.1, 0.2), baseline="PCA"
    )
    kinds = [(each.model, each.kind) for each in make_verdicts([good, bad, plain], (), 0.95, 0.01)]
    assert kinds == [("good", "harm, repair helps"), ("bad", "harm, repair does not help")]
    changes = change_records([good, bad, plain])
    assert [(each["model"], each["group"]) for each in changes] == [
        ("good", "a"), ("good", "b"), ("bad", "a"), ("bad", "b"),
    ]  # fmt: skip
    assert changes[0]["expected_change_low"] == pytest.approx(-1.0)


def test_of_several_models_the_one_with_the_fewest_people_harmed_is_preferred():
    """One that helps comes first, then the least largest loss; the verdict of each names both."""
    plain = model("PCA", group("a", "harmed", 2.0), group("b", "no material harm", 0.0))

    def fair(name, state, loss, of_b="minor"):
        groups = group("a", state, loss, -0.9), group("b", of_b, 0.1, 0.3)
        return model(name, *groups, baseline="PCA")

    given = [fair("harms", "harmed", 0.9), fair("good", "minor", 0.3), fair("better", "minor", 0.2)]
    found = {each.model: each for each in make_verdicts([*given, plain], (), 0.95, 0.01)}
    said = found["harms"].recommendation
    assert said == found["good"].recommendation
    assert "prefer better (0 rows" in said
    assert "alternative is good (0 rows" in said
    alone = "Use better, and document"
    assert found["better"].recommendation.startswith(alone)
    assert found["better"].recommendation.endswith(said)
    # Fewer people are harmed under this one, but its largest loss is above that of PCA.
    worse = fair("worse", "inconclusive", 2.5)
    for each in make_verdicts(
        [worse, fair("moves", "harmed", 0.9, "harmed"), plain], (), 0.95, 0.01
    ):
        assert "prefer PCA (100 rows" in each.recommendation
    # With a single fair model there is nothing to choose from.
    (found,) = make_verdicts([given[2], plain], (), 0.95, 0.01)
    assert found.recommendation.startswith(alone)
    assert "prefer" not in found.recommendation


def test_an_unstable_projection_is_the_first_finding():
    """Where the sign rests on less than the spread of the model, of PCA or of the fair one."""
    steady, open_one = group("a", "harmed"), group("b", "no material harm", 0.0)
    changed = replace(group("a", "minor", 0.1, -0.05), is_unstable=True)
    found = verdict([steady, open_one], changed, open_one)
    assert (found.kind, found.groups) == ("inconclusive", ("a",))
    assert found.summary.startswith("fair itself is unstable")
    assert "a different number of dimensions" in found.summary.split(". ")[1]
    assert "'a' (100 rows) is harmed by PCA" in found.summary
    veiled = replace(group("a", "inconclusive", 0.5), is_unstable=True)
    for fair in ([], [group("a", "minor", 0.1, -0.9), group("b", "harmed", 1.0, 0.8)]):
        found = verdict([veiled, open_one], *fair)
        assert (found.kind, found.groups) == ("inconclusive", ("a",))
        assert found.summary.startswith("PCA itself is unstable")
        assert "harms 'a' (100 rows)" in found.summary


def test_no_group_is_said_to_lose_more_than_it_has():
    found = verdict([group("a", "harmed", 30.0), group("b", "no material harm", 0.0)])
    assert "100.0 % to 100.0 %" in found.summary


@pytest.mark.parametrize("n_paying", [1, 2])
def test_the_group_that_pays_most_is_reported(n_paying):
    paid = [0.3, 0.2][:n_paying]
    found = verdict(
        [group("a", "harmed"), *(group(name, "no material harm", 0.0) for name in "bc")],
        group("a", "minor", 0.1, -0.9),
        *(group(name, "minor", 0.1, change) for name, change in zip("bc", paid, strict=False)),
        *(group(name, "no material harm", 0.0, 0.0) for name in "bc"[n_paying:]),
    )
    told = {
        1: "The cost falls on 'b' (100 rows): an estimated 3.0 % of the variance.",
        2: "The cost falls on 'b', 'c' (200 rows together): the largest estimate is 3.0 % of the "
        "variance.",
    }
    assert told[n_paying] in found.summary


def test_a_verdict_of_harm_names_the_inconclusive_groups():
    plain = [group("a", "harmed"), group("b", "inconclusive"), group("c", "no material harm", 0.0)]
    for found in (verdict(plain), verdict(plain, group("a", "no material harm", 0.0, -0.5))):
        assert "Whether it harms 'b' (100 rows) is unresolved." in found.summary


def test_values_that_differ_by_rounding_share_the_maximum():
    assert argmax_with_ties({"a": 1.0, "b": 2.0, "c": 2.0 - 1e-14}, 1e-12)[0] == ["b", "c"]
