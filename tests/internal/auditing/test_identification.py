"""The gap between eigenvalues of a group, compared with its spread over drawn samples."""

import numpy as np
import pytest

import fairspan as fs
from fairspan.auditing.identification import (
    EigenvalueGap,
    eigenvalue_gap,
)

N_FOLDS = 10
N_DRAWS = 60
CLEAR_GAP = np.array([4.0, 3.0, 1.0, 0.8, 0.6])
TIED_PAIR = np.array([4.0, 1.0, 1.0, 0.3, 0.2])
EQUAL = np.ones(12)


def gap_of_rows(rows, d):
    """Gap of rows about the origin, in ten folds of consecutive rows."""
    parts = np.array_split(rows, N_FOLDS)
    moments_by_fold = np.array([part.T @ part / len(part) for part in parts])
    shares = np.array([len(part) / len(rows) for part in parts])
    return eigenvalue_gap(rows.T @ rows / len(rows), moments_by_fold, shares, d)


def normal_rows(rng, n, eigenvalues):
    return rng.normal(size=(n, len(eigenvalues))) * np.sqrt(eigenvalues)


def student_rows(rng, n, eigenvalues):
    """Rows of a multivariate Student distribution with eight degrees of freedom, unit scale."""
    return normal_rows(rng, n, eigenvalues) * np.sqrt(6 / rng.chisquare(8, size=(n, 1)))


@pytest.mark.parametrize("draw_rows", [normal_rows, student_rows])
def test_standard_error_is_the_spread_of_the_gap_over_samples(draw_rows):
    rng = np.random.default_rng(7)
    gaps = [gap_of_rows(draw_rows(rng, 400, CLEAR_GAP), 2) for _ in range(N_DRAWS)]
    spread = np.std([gap.value for gap in gaps], ddof=1)
    mean_standard_error = np.mean([gap.standard_error for gap in gaps])
    # The spread of 60 draws has a standard error of 9 %, more for Student rows.
    assert mean_standard_error == pytest.approx(spread, rel=0.35)
    assert all(gap.is_identified for gap in gaps)


def test_standard_error_of_normal_rows_agrees_with_that_from_folds():
    rng = np.random.default_rng(8)
    rows = [normal_rows(rng, 400, CLEAR_GAP) for _ in range(N_DRAWS)]
    from_folds = np.mean([gap_of_rows(draw, 2).standard_error for draw in rows])
    # The variance of the sample variance of n normal scores of variance v is 2 v^2 / n.
    expected = np.sqrt(2 / 400) * np.hypot(*CLEAR_GAP[[1, 2]])
    assert from_folds == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize(("eigenvalues", "min_share"), [(TIED_PAIR, 0.7), (EQUAL, 0.95)])
@pytest.mark.parametrize("n", [80, 2000])
def test_equal_eigenvalues_are_rarely_identified(eigenvalues, min_share, n):
    rng = np.random.default_rng(9)
    gaps = [gap_of_rows(normal_rows(rng, n, eigenvalues), 2) for _ in range(N_DRAWS)]
    assert np.mean([not gap.is_identified for gap in gaps]) >= min_share


def test_weights_of_clusters_widen_the_standard_error():
    rng = np.random.default_rng(10)
    rows = np.repeat(normal_rows(rng, 100, CLEAR_GAP), 10, axis=0)
    # Clusters stay in one fold each, so that ten equal rows count as one.
    clustered = gap_of_rows(rows, 2)
    single = gap_of_rows(rows[::10], 2)
    assert clustered.standard_error == pytest.approx(single.standard_error)


def test_rotated_features_have_the_same_gap():
    rng = np.random.default_rng(11)
    rows = normal_rows(rng, 100, CLEAR_GAP)
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    gap = gap_of_rows(rows, 2)
    rotated_gap = gap_of_rows(rows @ rotation, 2)
    assert rotated_gap.value == pytest.approx(gap.value)
    assert rotated_gap.standard_error == pytest.approx(gap.standard_error)


def test_all_dimensions_are_identified():
    rows = normal_rows(np.random.default_rng(12), 50, CLEAR_GAP)
    assert gap_of_rows(rows, 5).is_identified


def test_a_gap_of_zero_without_spread_is_not_identified():
    assert not EigenvalueGap(0.0, 0.0).is_identified
    assert EigenvalueGap(1.0, 0.0).is_identified


def test_a_gap_of_unknown_spread_counts_as_identified():
    one_fold = eigenvalue_gap(np.diag([2.0, 1.0]), np.diag([2.0, 1.0])[None], np.ones(1), 1)
    assert np.isnan(one_fold.standard_error)
    assert one_fold.is_identified


@pytest.mark.parametrize("center", ["global", "group"])
def test_audits_report_the_gap_of_each_group_in_units_of_the_model(center):
    rng = np.random.default_rng(13)
    X = normal_rows(rng, 120, CLEAR_GAP) * 3 + 5
    groups = np.repeat(["a", "b"], [80, 40])
    model = fs.FairPCA(2, center=center, scale=True).fit(X, sensitive_features=groups)
    audit = fs.audit(model, X, sensitive_features=groups)
    values = X / X.std(axis=0)
    for record in audit.to_records():
        rows = values[groups == record["group"]]
        is_global = record["center"] == "global"
        rows = rows - (values if is_global else rows).mean(axis=0)
        eigenvalues = np.linalg.eigvalsh(rows.T @ rows / len(rows))
        assert record["eigenvalue_gap"] == pytest.approx(eigenvalues[-2] - eigenvalues[-3])
        assert record["eigenvalue_gap_standard_error"] > 0


def test_blocks_of_moments_report_the_gap_of_their_matrices():
    rng = np.random.default_rng(14)
    parts = [normal_rows(rng, 30 + 5 * i, CLEAR_GAP) for i in range(8)]
    blocks = [fs.GroupMoments.from_rows(part, ["a"] * len(part)) for part in parts]
    model = np.eye(5)[:2]
    (record,) = fs.audit(model, moments=blocks).to_records()
    total = np.vstack(parts)
    mean = total.mean(axis=0)
    moments_by_fold = np.array([(part - mean).T @ (part - mean) / len(part) for part in parts])
    shares = np.array([len(part) / len(total) for part in parts])
    centered = total - mean
    expected = eigenvalue_gap(centered.T @ centered / len(total), moments_by_fold, shares, 2)
    assert record["eigenvalue_gap"] == pytest.approx(expected.value)
    assert record["eigenvalue_gap_standard_error"] == pytest.approx(expected.standard_error)
