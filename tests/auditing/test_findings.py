"""Findings and verdicts: each where it must appear and where it must not."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from case_selection import mark_most_long, select_cases
from fairspan import FairPCA, GroupMoments, audit
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
from fairspan.formatting.numbers import format_change, to_ascii

RNG = np.random.default_rng(0)
WIDE = RNG.standard_normal((200, 4)) * [3, 1, 1, 1]
NARROW = RNG.standard_normal((100, 4)) * [0.3, 1, 0.3, 0.3]
ALIKE = RNG.standard_normal((100, 4)) * [3, 1, 1, 1]
X, GROUPS = np.vstack([WIDE, NARROW]), np.repeat(["wide", "narrow"], [200, 100])
OTHERS = np.random.default_rng(1).standard_normal((300, 4)) * np.repeat(
    [[3, 1, 1, 1], [0.3, 1, 0.3, 0.3]], [200, 100], axis=0
)


def codes(*arguments, **named):
    return [finding.code for finding in audit(*arguments, **named).findings]


def finding(code, *arguments, **named):
    return next(f for f in audit(*arguments, **named).findings if f.code == code)


def fit_model(rows=X, groups=GROUPS, d=1, **settings):
    return FairPCA(d, **settings).fit(rows, sensitive_features=groups)


FEW = (np.vstack([WIDE, NARROW[:3]]), np.repeat(["wide", "few"], [200, 3]))
BOTH = {"fair": fit_model(), "sklearn": PCA(1).fit(X)}
CENTERS = {"global": fit_model(), "group": fit_model(center="group")}
MOMENTS = GroupMoments.from_rows(X, GROUPS)
BLOCKS = [GroupMoments.from_rows(X[i::5], GROUPS[i::5]) for i in range(5)]
SMALL = {n: np.repeat(["wide", "small"], [300 - n, n]) for n in (14, 15)}


@pytest.mark.parametrize(
    ("code", "is_there", "arguments", "named"),
    [
        ("FS101", False, (PCA(4).fit(FEW[0]), *FEW), {}),  # with all dimensions
        ("FS101", True, ({"all": PCA(4).fit(FEW[0]), "two": PCA(2).fit(FEW[0])}, *FEW), {}),
        ("FS103", False, (PCA(1).fit(X), X, GROUPS), {}),
        ("FS103", False, (PCA(1).fit(X), X, SMALL[15]), {}),
        ("FS103", True, (PCA(1).fit(X), X, SMALL[14]), {}),
        ("FS106", True, (PCA(1).fit(X),), {"moments": MOMENTS}),
        ("FS106", False, (PCA(1).fit(X),), {"moments": BLOCKS}),
        ("FS107", True, (fit_model(), WIDE, ["wide"] * 200), {}),
        ("FS107", False, (fit_model(), X, GROUPS), {}),
        ("FS203", True, (BOTH, X, GROUPS), {}),
        ("FS203", True, (BOTH, X[1:], GROUPS[1:]), {}),
        ("FS203", False, (BOTH, OTHERS, GROUPS), {}),
        ("FS204", False, (fit_model(d=2), X, GROUPS), {}),
        ("FS301", True, (CENTERS, X, GROUPS), {}),
        ("FS301", False, (CENTERS["group"], X, GROUPS), {}),
    ],
)
def test_a_finding_comes_where_it_must_and_nowhere_else(code, is_there, arguments, named):
    found = [each for each in audit(*arguments, **named).findings if each.code == code]
    assert bool(found) == is_there
    groups = {"FS101": ("few",), "FS103": ("small",), "FS107": ("narrow",)}
    assert all(each.groups == groups.get(code, ()) for each in found)
    if found and code == "FS203":
        assert "fair, sklearn, PCA" in found[0].message


def test_a_group_with_too_few_rows_for_d_fits_itself():
    rows, labels = np.vstack([WIDE, NARROW[:3]]), np.repeat(["wide", "few"], [200, 3])
    assert finding("FS101", PCA(3).fit(rows), rows, labels).groups == ("few",)
    # About its own mean, d + 1 rows fit perfectly as well.
    fair = FairPCA(2, center="group").fit(rows, sensitive_features=labels)
    found = finding("FS101", fair, rows, labels)
    assert found.groups == ("few",)
    assert audit(fair, rows, labels).models[0].groups[0].observed_best_error == pytest.approx(
        0, abs=1e-12
    )


@pytest.mark.parametrize("d", mark_most_long([1, 2, 3], 3))
def test_few_rows_are_fewer_than_twenty_for_each_of_d_and_one(d):
    def few(n):
        rows, labels = np.vstack([WIDE, ALIKE[:n]]), np.repeat(["wide", "few"], [200, n])
        return "FS101" in codes(np.eye(4)[:d], rows, labels)

    limit = 20 * (d + 1)
    assert [few(n) for n in (2, limit - 1, limit, limit + 1)] == [True, True, False, False]


def test_few_rows_of_a_group_that_is_shown_to_be_harmed_are_no_finding():
    rows, labels = np.vstack([WIDE, NARROW[:39]]), np.repeat(["wide", "few"], [200, 39])
    result = audit(np.eye(4)[:1], rows, labels)
    assert [group.state for group in result.models[0].groups if group.group == "few"] == ["harmed"]
    assert "FS101" not in [each.code for each in result.findings]


def loss_by_chance(eigenvalues, d, n, n_draws=100):
    """Loss of the best subspace of a distribution on rows of it, as a share of its error."""
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(n_draws):
        rows = rng.standard_normal((n, len(eigenvalues))) * np.sqrt(eigenvalues)
        own = np.sort((np.linalg.svd(rows, compute_uv=False) ** 2) / n)[::-1][d:].sum()
        losses.append((rows[:, d:] ** 2).sum() / n - own)
    return np.mean(losses) / eigenvalues[d:].sum()


def rows_of_the_table():
    page = (Path(__file__).parents[2] / "docs" / "findings.md").read_text()
    for line in re.findall(r"^\| (\d.*%) \|$", page, re.M):
        name, *cells = line.split(" | ")
        yield name, [int(cell.removesuffix(" %")) / 100 for cell in cells]


@pytest.mark.parametrize(("name", "stated"), list(rows_of_the_table()))
def test_the_page_shows_the_loss_due_to_chance(name, stated):
    p, d = (int(word) for word in re.findall(r"\d+", name))
    eigenvalues = np.ones(p) if "equal" in name else 1 / np.arange(1, p + 1)
    shares = [loss_by_chance(eigenvalues, d, times * (d + 1)) for times in (1, 5, 10, 20, 40)]
    np.testing.assert_allclose(shares, stated, atol=0.02)


def test_a_group_of_one_row_is_a_finding_without_interval():
    rows, labels = np.vstack([WIDE, NARROW[:1]]), np.repeat(["wide", "one"], [200, 1])
    result = audit(FairPCA(2).fit(rows, sensitive_features=labels), rows, labels)
    assert "FS102" in [found.code for found in result.findings]
    alone = result.models[0].groups[0]
    assert (alone.group, alone.observed_error.low, alone.observed_error.high) == ("one", None, None)
    assert result.models[0].groups[1].observed_error.has_interval
    assert not result.models[0].observed_disparity.has_interval


@pytest.mark.long
def test_many_groups_are_not_all_named():
    labels = np.arange(len(X)) // 10
    found = finding("FS103", PCA(1).fit(X), X, labels)
    assert len(found.groups) == labels.max() + 1
    assert f"'11' and {labels.max() - 11} more: less than 5 %" in found.message


def test_a_group_without_variance():
    rows = np.vstack([NARROW - NARROW.mean(axis=0), np.zeros((100, 4))])
    labels = np.repeat(["some", "flat"], 100)
    fair = FairPCA(1, center="none").fit(rows, sensitive_features=labels)
    assert finding("FS104", fair, rows, labels).groups == ("flat",)
    result = audit(fair, rows, labels)
    assert np.isnan(result.models[0].groups[0].observed_variance_kept)
    assert result.to_records()[0]["observed_variance_kept"] is None


def test_one_group_has_nothing_to_compare():
    found = codes(PCA(1).fit(X), X, ["all"] * 300)
    assert "FS105" in found
    assert not {"FS201", "FS202", "FS205"} & set(found)


def test_an_interval_that_contains_zero_and_one_that_does_not():
    same = RNG.standard_normal((200, 4))
    labels = np.repeat(["a", "b"], 100)
    assert "FS201" in codes(np.eye(4)[:1], same, labels)
    found = finding("FS202", np.eye(4)[1:2], X, GROUPS)
    assert found.groups == ("wide", "narrow")
    assert "FS202" not in codes(np.eye(4)[:1], same, labels)


@pytest.mark.parametrize("unit", mark_most_long([1e-6, 1.0, 1e6], 3))
def test_who_pays_for_plain_pca(unit):
    rows = unit * X
    fair = FairPCA(1).fit(rows, sensitive_features=GROUPS)
    found = finding("FS205", fair, rows, GROUPS)
    table = audit(fair, rows, GROUPS).frame()
    losses = dict(zip(fair.groups_, table["expected_loss"][2:], strict=True))
    assert found.groups[0] == max(losses, key=losses.get)
    assert " %)" in found.message or " times)" in found.message


@pytest.mark.sweep
def test_no_percentage_of_a_best_error_that_is_only_rounding():
    """A group in as few directions as dimensions could lose nothing: its best error is rounding."""
    for seed in select_cases(range(10), 3):
        rng = np.random.default_rng(seed)
        line = rng.standard_normal((100, 1)) @ rng.standard_normal((1, 4)) + rng.standard_normal(4)
        rows, labels = np.vstack([WIDE, line]), np.repeat(["wide", "line"], [200, 100])
        fair = FairPCA(1, center="group").fit(rows, sensitive_features=labels)
        result = audit(fair, rows, labels)
        best = {group.group: group.observed_best_error for group in result.models[1].groups}
        assert best["line"] < 1e-13
        found = next(each for each in result.findings if each.code == "FS205")
        assert found.groups[0] == "line"
        assert "%" not in found.message
        assert not re.search(r"\d{5} %", str(result))


def test_no_percentage_of_an_error_that_is_only_rounding():
    rng = np.random.default_rng(0)
    line = np.column_stack([rng.standard_normal(100), np.full((100, 3), 1e-9)])
    rows = np.vstack([WIDE - WIDE.mean(axis=0), line])
    labels = np.repeat(["wide", "line"], [200, 100])
    found = finding("FS202", np.eye(4)[:1], rows, labels)
    assert found.groups == ("wide", "line")
    assert "more error" not in found.message


def test_who_pays_for_repair_by_rows_and_share():
    fair = fit_model()
    mine, plain = audit(fair, X, GROUPS).models
    fallen = [
        after.group
        for before, after in zip(plain.groups, mine.groups, strict=True)
        if before.observed_variance_kept - after.observed_variance_kept > 0.01
    ]
    found = finding("FS303", fair, X, GROUPS)
    assert found.groups == tuple(fallen) == ("wide",)
    assert (found.severity, found.model) == ("info", "minimax_loss")
    assert "'wide' (200 rows, 66.7 % of all rows: " in found.message
    alike = np.arange(200) % 2
    assert "FS303" not in codes(FairPCA(1).fit(WIDE, sensitive_features=alike), WIDE, alike)
    assert "FS303" not in codes(PCA(1).fit(X), X, GROUPS)


def test_what_repair_costs():
    fair = fit_model()
    mine, plain = audit(fair, X, GROUPS).models
    message = finding("FS302", fair, X, GROUPS).message
    before, after = (
        sum(each.proportion * each.expected_error.value for each in model.groups)
        for model in (plain, mine)
    )
    assert "on new rows" in message
    assert f"({to_ascii(format_change(after / before - 1))})" in message
    here = audit(fair, moments=MOMENTS)
    cost = mine.observed_total_error / plain.observed_total_error - 1
    message = next(each.message for each in here.findings if each.code == "FS302")
    assert f"({to_ascii(format_change(cost))})" in message
    assert "on these rows" in message
    assert cost > 0
    assert mine.observed_largest_loss < plain.observed_largest_loss


@pytest.mark.sweep
@pytest.mark.parametrize("d", [2, 3, 5])
def test_rounding_is_not_taken_for_a_finding(d):
    """Rows of rank two in five columns, and all dimensions kept: nothing is lost."""
    for seed in select_cases(range(20), 10):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5)) + 7
        labels = np.repeat(["a", "b"], 30)
        models = {
            "sklearn": PCA(d).fit(rows),
            "fair": FairPCA(d).fit(rows, sensitive_features=labels),
        }
        found = codes(models, rows, labels)
        assert found.count("FS206") == 3
        assert not {"FS201", "FS202", "FS205", "FS302"} & set(found)


def test_errors_next_to_a_column_of_huge_numbers():
    rng = np.random.default_rng(0)
    small = rng.standard_normal((200, 3))
    rows, labels = (
        np.column_stack([rng.standard_normal(200) * 1e9, small]),
        np.repeat(["a", "b"], 100),
    )
    fair = FairPCA(1).fit(rows, sensitive_features=labels)
    audited = audit(fair, rows, labels).models[0]
    for group in audited.groups:
        direct = -fair.score_samples(rows[labels == group.group]).mean()
        assert group.observed_error.value == pytest.approx(direct, rel=1e-6)
        assert group.observed_error.low < direct < group.observed_error.high
    np.testing.assert_allclose(fair.group_errors_, [g.observed_error.value for g in audited.groups])


def test_each_model_is_compared_with_the_plain_pca_of_its_own_rows():
    half = FairPCA(1).fit(X[::2], sensitive_features=GROUPS[::2])
    whole = FairPCA(1).fit(X, sensitive_features=GROUPS)
    result = audit({"half": half, "whole": whole}, X, GROUPS)
    assert [m.name for m in result.models] == ["half", "whole", "PCA", "PCA for whole"]
    assert [m.baseline for m in result.models] == ["PCA", "PCA for whole", None, None]
    taken = audit({"PCA": whole}, X, GROUPS)
    assert [m.name for m in taken.models] == ["PCA", "PCA for PCA"]


def test_names_from_the_data_cannot_command_the_terminal():
    labels = np.where(GROUPS == "wide", "\x1b[31mred", "line\nbreak")
    text = str(audit({"\x1b[2Jmodel": PCA(1).fit(X)}, X, labels))
    assert "\x1b" not in text
    assert "line?break" in text


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
        ["Under fair, 'b' (100 rows) is harmed, which PCA is not shown to harm"],
    ),
    (
        [group("a", "harmed", 2.0), group("b", "harmed"), group("c", "no material harm", 0.0)],
        [group("a", "minor", 0.1, -0.9), group("b", "harmed", 1.4, 0.4),
         group("c", "no material harm", 0.0)],
        "harm, repair at a cost",
        ["'a' regains 8.0 % to 10.0 % of its variance on new rows",
         "but 'b' (100 rows), already harmed by PCA, loses a further estimated 4.0 %"],
    ),
    (
        [group("a", "harmed"), group("b", "inconclusive", 0.5)],
        [group("a", "minor", 0.1, -0.9), group("b", "inconclusive", 0.5)],
        "harm, repair helps",
        ["no other group is shown to become harmed; this is unresolved for 'b' (100 rows)"],
    ),
    (
        [group("a", "harmed"), group("b", "no material harm", 0.0)],
        [group("a", "harmed", 1.0, -0.05), group("b", "no material harm", 0.0, 0.0)],
        "harm, repair does not help",
        ["the error of 'a' is not shown to decrease on new rows"],
    ),
    (
        [group("a", "no material harm", 0.0), group("b", "minor", 0.05)],
        [group("a", "harmed", 1.0, 1.0), group("b", "minor", 0.05, 0.0)],
        "no material harm, repair harms",
        ["The repair itself does harm: under fair, 'a' (100 rows) is harmed",
         "while PCA is not shown to harm any group."],
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
        ["These rows do not suffice to decide whether PCA harms 'a' (7 rows)."],
    ),
    (
        [group("a", "no material harm", 0.0), group("b", "minor", 0.05)],
        [group("a", "no material harm", 0.0, 0.0), group("b", "minor", 0.05, 0.0)],
        "no material harm",
        ["no group has a material loss under PCA",
         "The loss of 'b' is above zero but immaterial"],
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


@pytest.mark.parametrize("code", ENTRIES)
@pytest.mark.parametrize(("plain", "fair", "kind", "words"), KINDS, ids=[k[2] for k in KINDS])
def test_no_verdict_ignores_a_finding_that_vetoes_it(plain, fair, kind, words, code):
    """All pairs of a kind and a finding: the verdict either says what questions it, or stands."""
    is_of_data = code.startswith("FS4")
    found = finding_of(code, None if is_of_data else "PCA")
    alone, given = verdict(plain, *fair), verdict(plain, *fair, findings=[found])
    if not found.qualifies_verdict or kind == "inconclusive":
        assert given == alone
        return
    assert given.recommendation.startswith(found.remedy)
    assert f"{found.caveat} ({code})" in given.summary.split(". ")[0]
    if kind == "no material harm" and is_of_data and code != "FS410":  # which may be order alone
        assert (given.kind, alone.recommendation in given.recommendation) == ("inconclusive", False)
    else:
        assert given.kind == kind
        assert given.summary.endswith(alone.summary[1:])
        assert given.recommendation.endswith(alone.recommendation[1:])


def test_a_finding_qualifies_only_verdicts_of_its_groups_and_models():
    plain = [group("a", "harmed"), group("b", "no material harm", 0.0)]
    alone = verdict(plain)
    for found in (finding_of("FS109", groups=["b"]), finding_of("FS109", "another")):
        assert found.qualifies_verdict
        assert verdict(plain, findings=[found]) == alone
    ours = verdict(plain, findings=[finding_of("FS109", groups=["a", "b"])])
    assert ours.summary.startswith(
        "With the caveat that a few rows dominate the error of a group (FS109), 'a' (100 rows)"
    )


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
        assert found.summary.startswith("The repair itself does harm: under fair, 'b'")
        assert found.recommendation == "Do not use fair in place of PCA."


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
    said = (
        "Among the 4 models compared, prefer better (0 rows in groups shown to be harmed): the "
        "group that PCA harms most gains, and no other group is shown to become harmed. The "
        "alternative is good (0 rows in groups shown to be harmed)."
    )
    assert found["harms"].recommendation == found["good"].recommendation == said
    assert (
        found["better"].recommendation
        == f"Use better, and document which groups bear the cost. {said}"
    )
    # Fewer people are harmed under this one, but its largest loss is above that of PCA.
    worse = fair("worse", "inconclusive", 2.5)
    for each in make_verdicts(
        [worse, fair("moves", "harmed", 0.9, "harmed"), plain], (), 0.95, 0.01
    ):
        assert "prefer PCA (100 rows" in each.recommendation
    # With a single fair model there is nothing to choose from.
    (alone,) = make_verdicts([given[2], plain], (), 0.95, 0.01)
    assert alone.recommendation == "Use better, and document which groups bear the cost."


def test_an_unstable_projection_is_the_first_finding():
    """Where the sign rests on less than the spread of the model, of PCA or of the fair one."""
    steady, open_one = group("a", "harmed"), group("b", "no material harm", 0.0)
    changed = replace(group("a", "minor", 0.1, -0.05), is_unstable=True)
    found = verdict([steady, open_one], changed, open_one)
    assert (found.kind, found.groups) == ("inconclusive", ("a",))
    assert found.summary.startswith(
        "fair itself is unstable: refitted to other rows, it could raise"
    )
    assert "a different number of dimensions" in found.summary.split(". ")[1]
    assert "'a' (100 rows) is harmed by PCA" in found.summary
    veiled = replace(group("a", "inconclusive", 0.5), is_unstable=True)
    for fair in ([], [group("a", "minor", 0.1, -0.9), group("b", "harmed", 1.0, 0.8)]):
        found = verdict([veiled, open_one], *fair)
        assert (found.kind, found.groups) == ("inconclusive", ("a",))
        assert found.summary.startswith("PCA itself is unstable: whether it harms 'a' (100 rows)")


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


def test_groups_that_tie_are_named_together():
    rows = WIDE * [1, 1, 10, 1]
    mirrored, labels = np.vstack([rows, rows[:, [1, 0, 2, 3]]]), np.repeat(["a", "b"], 200)
    found = finding("FS205", PCA(1).fit(mirrored), mirrored, labels, folds=None)
    assert "'a', 'b' have the largest loss on these rows" in found.message
    assert argmax_with_ties({"a": 1.0, "b": 2.0, "c": 2.0 - 1e-14}, 1e-12)[0] == ["b", "c"]


def test_findings_and_verdict_read_the_same_figures():
    """On rows that are all noise, fits to them differ; nothing is claimed of new rows."""
    rng, claims = np.random.default_rng(3), 0
    for _ in range(4):
        rows, labels = rng.standard_normal((120, 8)), np.repeat(["a", "b"], 60)
        result = audit(fit_model(rows, labels, 2), rows, labels)
        claimed = {each.code for each in result.findings}
        harmful = any(group.state == "harmed" for group in result.models[1].groups)
        assert harmful or not claimed & {"FS205"}
        claims += "FS202" in claimed
    assert claims <= 1


def test_a_verdict_of_harm_names_the_inconclusive_groups():
    plain = [group("a", "harmed"), group("b", "inconclusive"), group("c", "no material harm", 0.0)]
    for found in (verdict(plain), verdict(plain, group("a", "no material harm", 0.0, -0.5))):
        assert "Whether it harms 'b' (100 rows) is unresolved." in found.summary


def test_the_largest_loss_and_the_largest_lost_share_are_distinguished():
    """By share 'small' loses more, of little variance; the verdict begins with it."""
    rng = np.random.default_rng(0)
    spreads = {"wide": [6, 1, 3, 3, 1, 1], "small": [0.2, 1.1, 0.1, 0.1, 0.1, 0.1]}
    rows = np.vstack([rng.standard_normal((900, 6)) * spread for spread in spreads.values()])
    groups = np.repeat(["wide", "small"], 900)
    model = PCA(3).fit(rng.standard_normal((900, 6)) * [6, 0.1, 2.9, 1, 3, 0.1])
    result = audit({"PCA": model}, rows, groups)
    [said] = [each.message for each in result.findings if each.code == "FS205"]
    assert said.startswith("PCA: 'wide' has the largest loss on new rows.")
    assert said.endswith("Relative to its variance, 'small' has the largest loss: 85.2 %.")
    assert result.verdict.groups == ("small", "wide")
