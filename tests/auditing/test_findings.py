"""Findings: each where it must appear and where it must not."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from case_selection import mark_most_long, select_cases
from fairspan import FairPCA, GroupMoments, audit

RNG = np.random.default_rng(0)
WIDE = RNG.standard_normal((200, 4)) * [3, 1, 1, 1]
NARROW = RNG.standard_normal((100, 4)) * [0.3, 1, 0.3, 0.3]
ALIKE = RNG.standard_normal((100, 4)) * [3, 1, 1, 1]
X = np.vstack([WIDE, NARROW])
GROUPS = np.repeat(["wide", "narrow"], [200, 100])
OTHERS = np.random.default_rng(1).standard_normal((300, 4)) * np.repeat(
    [[3, 1, 1, 1], [0.3, 1, 0.3, 0.3]], [200, 100], axis=0
)


def finding_codes(*arguments, **options):
    return [finding.code for finding in audit(*arguments, **options).findings]


def get_finding(code, *arguments, **options):
    return next(
        finding for finding in audit(*arguments, **options).findings if finding.code == code
    )


def fit_model(rows=X, groups=GROUPS, d=1, **settings):
    return FairPCA(d, **settings).fit(rows, sensitive_features=groups)


@cache
def fair_model(center="global"):
    return fit_model(center=center)


@cache
def plain_pca(d=1):
    return PCA(d).fit(X)


@cache
def audit_of_fair_model():
    return audit(fair_model(), X, GROUPS)


def moments():
    return GroupMoments.from_rows(X, GROUPS)


def blocks():
    return [GroupMoments.from_rows(X[i::5], GROUPS[i::5]) for i in range(5)]


def equal_and_plain_models():
    return {"fair": fair_model(), "sklearn": plain_pca()}


def models_by_center():
    return {center: fair_model(center) for center in ("global", "group")}


THREE_NARROW_ROWS = (np.vstack([WIDE, NARROW[:3]]), np.repeat(["wide", "few"], [200, 3]))
SMALL = {n: np.repeat(["wide", "small"], [300 - n, n]) for n in (14, 15)}


@pytest.mark.parametrize(
    ("code", "is_there", "call"),
    [
        (
            "FS101",
            False,
            lambda: audit(PCA(4).fit(THREE_NARROW_ROWS[0]), *THREE_NARROW_ROWS),
        ),  # with all dimensions
        (
            "FS101",
            True,
            lambda: audit(
                {"all": PCA(4).fit(THREE_NARROW_ROWS[0]), "two": PCA(2).fit(THREE_NARROW_ROWS[0])},
                *THREE_NARROW_ROWS,
            ),
        ),
        ("FS103", False, lambda: audit(plain_pca(), X, GROUPS, folds=None)),
        ("FS103", False, lambda: audit(plain_pca(), X, SMALL[15], folds=None)),
        ("FS103", True, lambda: audit(plain_pca(), X, SMALL[14], folds=None)),
        ("FS106", True, lambda: audit(plain_pca(), moments=moments())),
        ("FS106", False, lambda: audit(plain_pca(), moments=blocks())),
        ("FS107", True, lambda: audit(fair_model(), WIDE, ["wide"] * 200, folds=None)),
        ("FS107", False, lambda: audit_of_fair_model()),
        ("FS203", True, lambda: audit(equal_and_plain_models(), X, GROUPS, folds=5)),
        ("FS203", True, lambda: audit(equal_and_plain_models(), X[1:], GROUPS[1:], folds=5)),
        ("FS203", False, lambda: audit(equal_and_plain_models(), OTHERS, GROUPS, folds=5)),
        ("FS204", False, lambda: audit(fit_model(d=2), X, GROUPS, folds=None)),
        ("FS301", True, lambda: audit(models_by_center(), X, GROUPS, folds=None)),
        ("FS301", False, lambda: audit(models_by_center()["group"], X, GROUPS, folds=None)),
    ],
)
def test_a_finding_is_reported_only_where_it_applies(code, is_there, call):
    matching = [finding for finding in call().findings if finding.code == code]
    assert bool(matching) == is_there
    groups = {"FS101": ("few",), "FS103": ("small",), "FS107": ("narrow",)}
    assert all(finding.groups == groups.get(code, ()) for finding in matching)
    if matching and code == "FS203":
        assert "fair, sklearn, PCA" in matching[0].message


def test_a_group_with_too_few_rows_for_d_fits_itself():
    rows = np.vstack([WIDE, NARROW[:3]])
    labels = np.repeat(["wide", "few"], [200, 3])
    assert get_finding("FS101", PCA(3).fit(rows), rows, labels, folds=5).groups == ("few",)
    # About its own mean, d + 1 rows fit perfectly as well.
    plain = FairPCA(2, center="group", criterion="total_error")
    result = audit(plain.fit(rows, sensitive_features=labels), rows, labels, folds=5)
    [finding] = [finding for finding in result.findings if finding.code == "FS101"]
    assert finding.groups == ("few",)
    assert result.models[0].groups[0].observed_best_error == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("d", mark_most_long([1, 2, 3], 3))
def test_few_rows_are_fewer_than_twenty_for_each_of_d_and_one(d):
    def has_few_rows_finding(n):
        rows = np.vstack([WIDE, ALIKE[:n]])
        labels = np.repeat(["wide", "few"], [200, n])
        return "FS101" in finding_codes(np.eye(4)[:d], rows, labels)

    limit = 20 * (d + 1)
    assert [has_few_rows_finding(n) for n in (2, limit - 1, limit, limit + 1)] == [
        True,
        True,
        False,
        False,
    ]


def test_few_rows_of_a_group_that_is_shown_to_be_harmed_are_no_finding():
    rows = np.vstack([WIDE, NARROW[:39]])
    labels = np.repeat(["wide", "few"], [200, 39])
    result = audit(np.eye(4)[:1], rows, labels)
    assert [group.state for group in result.models[0].groups if group.group == "few"] == ["harmed"]
    assert "FS101" not in [finding.code for finding in result.findings]


def simulate_chance_loss(eigenvalues, d, n, n_draws=100):
    """Loss of the best subspace of a distribution on rows of it, as a share of its error."""
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(n_draws):
        rows = rng.standard_normal((n, len(eigenvalues))) * np.sqrt(eigenvalues)
        best_error = np.sort((np.linalg.svd(rows, compute_uv=False) ** 2) / n)[::-1][d:].sum()
        losses.append((rows[:, d:] ** 2).sum() / n - best_error)
    return np.mean(losses) / eigenvalues[d:].sum()


def read_table_rows():
    page = (Path(__file__).parents[2] / "docs" / "findings.md").read_text()
    table = []
    for line in re.findall(r"^\| (\d.*%) \|$", page, re.M):
        name, *cells = line.split(" | ")
        table.append((name, [int(cell.removesuffix(" %")) / 100 for cell in cells]))
    return table


@pytest.mark.parametrize(
    "place", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2, 3))]
)
def test_the_page_shows_the_loss_due_to_chance(place):
    table = read_table_rows()
    assert len(table) == 4
    name, stated = table[place]
    p, d = (int(word) for word in re.findall(r"\d+", name))
    eigenvalues = np.ones(p) if "equal" in name else 1 / np.arange(1, p + 1)
    shares = [simulate_chance_loss(eigenvalues, d, times * (d + 1)) for times in (1, 5, 10, 20, 40)]
    np.testing.assert_allclose(shares, stated, atol=0.02)


def test_a_group_of_one_row_is_a_finding_without_interval():
    rows = np.vstack([WIDE, NARROW[:1]])
    labels = np.repeat(["wide", "one"], [200, 1])
    result = audit(FairPCA(2).fit(rows, sensitive_features=labels), rows, labels)
    assert "FS102" in [finding.code for finding in result.findings]
    single = result.models[0].groups[0]
    assert (single.group, single.observed_error.low, single.observed_error.high) == (
        "one",
        None,
        None,
    )
    assert result.models[0].groups[1].observed_error.has_interval
    assert not result.models[0].observed_disparity.has_interval


@pytest.mark.long
def test_many_groups_are_not_all_named():
    labels = np.arange(len(X)) // 10
    finding = get_finding("FS103", PCA(1).fit(X), X, labels)
    assert len(finding.groups) == labels.max() + 1
    assert f"'11' and {labels.max() - 11} more: less than 5 %" in finding.message


def test_a_group_without_variance_is_reported():
    rows = np.vstack([NARROW - NARROW.mean(axis=0), np.zeros((100, 4))])
    labels = np.repeat(["some", "flat"], 100)
    fair = FairPCA(1, center="none").fit(rows, sensitive_features=labels)
    result = audit(fair, rows, labels, folds=None)
    assert [finding.groups for finding in result.findings if finding.code == "FS104"] == [("flat",)]
    assert np.isnan(result.models[0].groups[0].observed_variance_kept)
    assert result.to_records()[0]["observed_variance_kept"] is None


def test_one_group_has_nothing_to_compare():
    codes = finding_codes(PCA(1).fit(X), X, ["all"] * 300)
    assert "FS105" in codes
    assert not {"FS201", "FS202", "FS205"} & set(codes)


def test_an_interval_that_contains_zero_and_one_that_does_not():
    equal_rows = RNG.standard_normal((200, 4))
    labels = np.repeat(["a", "b"], 100)
    assert "FS201" in finding_codes(np.eye(4)[:1], equal_rows, labels)
    finding = get_finding("FS202", np.eye(4)[1:2], X, GROUPS)
    assert finding.groups == ("wide", "narrow")
    # The interval is in the unit of the difference, in which groups of other variances compare.
    model = audit(np.eye(4)[1:2], X, GROUPS).models[0]
    share = abs(model.expected_disparity.value) / model.total_variance
    assert f"by {100 * share:.1f} % of the variance of all rows (" in finding.message
    assert "FS202" not in finding_codes(np.eye(4)[:1], equal_rows, labels)


def test_a_larger_error_that_is_the_smaller_share_of_its_variance():
    """The order in squared units is the reverse of that of the shares, and the finding says so."""
    model = audit(plain_pca(), X, GROUPS).models[0]
    wide, narrow = sorted(model.groups, key=lambda group: -group.expected_error.value)
    assert (wide.group, narrow.group) == ("wide", "narrow")
    shares = [100 * group.expected_error_share.value for group in (wide, narrow)]
    assert shares[0] < shares[1]
    ratio = wide.observed_total_variance / narrow.observed_total_variance
    message = get_finding("FS202", plain_pca(), X, GROUPS).message
    assert f"{shares[0]:.1f} against {shares[1]:.1f} %" in message
    assert f"{ratio:.1f} times that of 'narrow'" in message
    other = get_finding("FS202", np.eye(3)[:1], *_larger_error_and_share())
    assert "As a share" not in other.message


def _larger_error_and_share():
    """Rows of two groups of equal variance, of which one has the larger error."""
    rng = np.random.default_rng(2)
    kept_rows = rng.standard_normal((400, 3)) * [3, 1, 1]
    lost_rows = rng.standard_normal((400, 3)) * [1, 3, 1]
    return np.vstack([kept_rows, lost_rows]), np.repeat(["kept", "lost"], 400)


def test_equal_errors_are_advised_with_their_result_only():
    """A criterion that was not fitted here is not named."""
    rows, labels = _larger_error_and_share()
    pca_finding = get_finding("FS202", PCA(1).fit(rows), rows, labels)
    assert not re.search("Under|error_gap|equal_error", pca_finding.full_remedy)
    result = audit({"gap": fit_model(rows, labels, criterion="error_gap")}, rows, labels)
    finding = next(finding for finding in result.findings if finding.code == "FS202")
    assert finding.model == "PCA"
    gap = result.models[0]
    assert gap.expected_disparity.contains_zero
    assert [group.state for group in gap.groups] == ["harmed", "harmed"]
    assert "Under gap, no difference is shown, but" in finding.full_remedy
    for group in gap.groups:
        assert f"{100 * group.expected_loss_share.value:.1f} %" in finding.full_remedy


@pytest.mark.parametrize("unit", mark_most_long([1e-6, 1.0, 1e6], 3))
def test_who_pays_for_plain_pca(unit):
    rows = unit * X
    fair = FairPCA(1).fit(rows, sensitive_features=GROUPS)
    result = audit(fair, rows, GROUPS, folds=5)
    [finding] = [finding for finding in result.findings if finding.code == "FS205"]
    table = result.frame()[2:]
    shares = table["expected_loss"] / table["observed_total_variance"]
    losses = dict(zip(fair.groups_, shares, strict=True))
    assert finding.groups[0] == max(losses, key=losses.get)
    assert f" {100 * max(shares):.1f} % of the variance" in finding.message


@pytest.mark.sweep
def test_no_percentage_of_a_best_error_that_is_only_rounding():
    """The best error of a group with as few directions as dimensions is rounding."""
    for seed in select_cases(range(10), 10):
        rng = np.random.default_rng(seed)
        line = rng.standard_normal((100, 1)) @ rng.standard_normal((1, 4)) + rng.standard_normal(4)
        rows = np.vstack([WIDE, line])
        labels = np.repeat(["wide", "line"], [200, 100])
        fair = FairPCA(1, center="group").fit(rows, sensitive_features=labels)
        result = audit(fair, rows, labels)
        best = {group.group: group.observed_best_error for group in result.models[1].groups}
        assert best["line"] < 1e-13
        finding = next(finding for finding in result.findings if finding.code == "FS205")
        assert finding.groups[0] == "line"
        assert not re.search(r"\d{3} %", finding.message)
        assert not re.search(r"\d{5} %", str(result))


def test_no_percentage_of_an_error_that_is_only_rounding():
    rng = np.random.default_rng(0)
    line = np.column_stack([rng.standard_normal(100), np.full((100, 3), 1e-9)])
    rows = np.vstack([WIDE - WIDE.mean(axis=0), line])
    labels = np.repeat(["wide", "line"], [200, 100])
    finding = get_finding("FS202", np.eye(4)[:1], rows, labels)
    assert finding.groups == ("wide", "line")
    assert not re.search(r"\d{3} %", finding.message)


def test_who_pays_for_repair_by_rows_and_share():
    fair_model, plain = audit_of_fair_model().models
    losing_groups = [
        fair_group.group
        for pca_group, fair_group in zip(plain.groups, fair_model.groups, strict=True)
        if pca_group.observed_variance_kept - fair_group.observed_variance_kept > 0.01
    ]
    finding = next(finding for finding in audit_of_fair_model().findings if finding.code == "FS303")
    assert finding.groups == tuple(losing_groups) == ("wide",)
    assert (finding.severity, finding.model) == ("info", "minimax loss")
    assert "'wide' (200 rows, 66.7 % of all rows: " in finding.message
    alike = np.arange(200) % 2
    assert "FS303" not in finding_codes(fit_model(WIDE, alike), WIDE, alike, folds=5)
    assert "FS303" not in finding_codes(plain_pca(), X, GROUPS)


def test_the_cost_of_repair_is_reported():
    def parse_cost(findings):
        """The shares that are lost before and after, and whether they are for new rows."""
        message = next(finding.message for finding in findings if finding.code == "FS302")
        shares = re.search(r"from ([\d.]+) % to ([\d.]+) % of the variance", message).groups()
        assert ("on new rows" in message) != ("on these rows" in message)
        return [float(share) / 100 for share in shares], "on new rows" in message

    result = audit_of_fair_model()
    fair, plain = result.models
    variance = sum(group.proportion * group.observed_total_variance for group in plain.groups)
    lost_shares = [
        sum(group.proportion * group.expected_error.value for group in model.groups) / variance
        for model in (plain, fair)
    ]
    assert parse_cost(result.findings) == (pytest.approx(lost_shares, abs=6e-4), True)
    in_sample = audit(fair_model(), moments=moments())
    lost_shares = [model.observed_total_error / variance for model in (plain, fair)]
    assert parse_cost(in_sample.findings) == (pytest.approx(lost_shares, abs=6e-4), False)
    assert lost_shares[1] > lost_shares[0]
    assert fair.observed_largest_loss < plain.observed_largest_loss


@pytest.mark.sweep
@pytest.mark.parametrize("d", [2, *(pytest.param(d, marks=pytest.mark.slow) for d in (3, 5))])
def test_differences_within_rounding_are_not_reported(d):
    """Rows of rank two in five columns have no error in two dimensions."""
    for seed in select_cases(range(20), 20):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5)) + 7
        labels = np.repeat(["a", "b"], 30)
        models = {
            "sklearn": PCA(d).fit(rows),
            "fair": FairPCA(d).fit(rows, sensitive_features=labels),
        }
        codes = finding_codes(models, rows, labels, folds=5)
        assert codes.count("FS206") == 3
        assert not {"FS201", "FS202", "FS205", "FS302"} & set(codes)


def test_errors_next_to_a_column_of_huge_numbers_keep_their_digits():
    rng = np.random.default_rng(0)
    small = rng.standard_normal((200, 3))
    rows = np.column_stack([rng.standard_normal(200) * 1e9, small])
    labels = np.repeat(["a", "b"], 100)
    fair = FairPCA(1).fit(rows, sensitive_features=labels)
    audited_model = audit(fair, rows, labels).models[0]
    for group in audited_model.groups:
        direct = -fair.score_samples(rows[labels == group.group]).mean()
        assert group.observed_error.value == pytest.approx(direct, rel=1e-6)
        assert group.observed_error.low < direct < group.observed_error.high
    np.testing.assert_allclose(
        fair.group_errors_, [g.observed_error.value for g in audited_model.groups]
    )


def test_each_model_is_compared_with_the_plain_pca_of_its_own_rows():
    half = FairPCA(1).fit(X[::2], sensitive_features=GROUPS[::2])
    all_rows = FairPCA(1).fit(X, sensitive_features=GROUPS)
    result = audit({"half": half, "whole": all_rows}, X, GROUPS, folds=None)
    assert [m.name for m in result.models] == ["half", "whole", "PCA", "PCA for whole"]
    assert [m.baseline for m in result.models] == ["PCA", "PCA for whole", None, None]
    with_taken_name = audit({"PCA": all_rows}, X, GROUPS, folds=None)
    assert [m.name for m in with_taken_name.models] == ["PCA", "PCA for PCA"]


def test_names_from_the_data_cannot_command_the_terminal():
    labels = np.where(GROUPS == "wide", "\x1b[31mred", "line\nbreak")
    text = str(audit({"\x1b[2Jmodel": PCA(1).fit(X)}, X, labels))
    assert "\x1b" not in text
    assert "line?break" in text


def test_groups_that_tie_are_named_together():
    rows = WIDE * [1, 1, 10, 1]
    mirrored = np.vstack([rows, rows[:, [1, 0, 2, 3]]])
    labels = np.repeat(["a", "b"], 200)
    finding = get_finding("FS205", PCA(1).fit(mirrored), mirrored, labels, folds=None)
    assert sorted(finding.groups) == ["a", "b"]
    assert "'a', 'b' have the largest" in finding.message


@pytest.mark.slow
def test_findings_and_verdict_read_the_same_figures():
    """Fits to pure noise differ, but no difference on new rows may be claimed."""
    rng = np.random.default_rng(3)
    claims = 0
    for _ in range(4):
        rows = rng.standard_normal((120, 8))
        labels = np.repeat(["a", "b"], 60)
        result = audit(fit_model(rows, labels, 2), rows, labels)
        codes = {finding.code for finding in result.findings}
        harmful = any(group.state == "harmed" for group in result.models[1].groups)
        assert harmful or not codes & {"FS205"}
        claims += "FS202" in codes
    assert claims <= 1


def test_the_largest_loss_is_that_of_the_largest_share():
    """Finding and verdict begin with 'small', although 'wide' loses more in squared units."""
    rng = np.random.default_rng(0)
    spreads = {"wide": [6, 1, 3, 3, 1, 1], "small": [0.2, 1.1, 0.1, 0.1, 0.1, 0.1]}
    rows = np.vstack([rng.standard_normal((900, 6)) * spread for spread in spreads.values()])
    groups = np.repeat(["wide", "small"], 900)
    model = PCA(3).fit(rng.standard_normal((900, 6)) * [6, 0.1, 2.9, 1, 3, 0.1])
    result = audit({"PCA": model}, rows, groups)
    [message] = [finding.message for finding in result.findings if finding.code == "FS205"]
    small, wide = result.models[0].groups
    assert wide.expected_loss.value > small.expected_loss.value
    assert message.index("'small'") < message.index("'wide'")
    assert "Its error is 85.2 % of the variance above" in message
    assert result.verdict.groups == ("small", "wide")
