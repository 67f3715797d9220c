"""Tables and claims that could silently give a wrong answer."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from cross_decomposition.paired_tables import draw_tables
from fairspan import GroupMoments, Uncorrelated
from fairspan.cross_decomposition import FairCCA, FairPLS, audit_pairs, verify_pairs
from fairspan.displays import CovarianceLossDisplay
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidType


@pytest.fixture
def tables():
    return draw_tables(p=4, q=3, n=200)


def frames(tables):
    X, Y, groups = tables
    return pd.DataFrame(X, columns=list("abcd")), pd.DataFrame(Y, columns=list("efg")), groups


@pytest.mark.parametrize("argument", ["sensitive_features", "sample_weight"])
def test_groups_and_weights_are_no_columns_of_the_second_table(tables, argument):
    X, Y, groups = frames(tables)
    Y = Y.assign(s=(groups == "a").astype(int))
    arguments = {"sensitive_features": groups} | {argument: "s"}
    with pytest.raises(InvalidInput, match=f"{argument} names the columns 's' of Y"):
        FairPLS(1).fit(X, Y, **arguments)


def test_indexes_that_differ_are_refused(tables):
    X, Y, groups = frames(tables)
    with pytest.raises(InvalidInput, match="index"):
        FairPLS(1).fit(X, Y.iloc[::-1], sensitive_features=groups)


def test_named_columns_of_y_are_matched_next_to_an_array(tables):
    X, Y, groups = frames(tables)
    array = X.to_numpy()
    fair = FairPLS(1).fit(array, Y, sensitive_features=groups)
    expected = fair.transform(array, Y)[1]
    np.testing.assert_array_equal(fair.transform(array, Y[list("gfe")])[1], expected)
    with pytest.raises(InvalidInput, match="in this order"):
        fair.partial_fit(array, Y[list("gfe")], sensitive_features=groups)
    assert fair.partial_fit(array, Y, sensitive_features=groups).n_samples_seen_ == 400


def test_sparse_targets_and_free_names(tables):
    X, Y, groups = frames(tables)
    plain = FairPLS(1).fit(X, Y, sensitive_features=groups)
    mixed = FairPLS(1).fit(X, sparse.csr_array(Y.to_numpy()), sensitive_features=groups)
    np.testing.assert_allclose(mixed.x_weights_, plain.x_weights_, atol=1e-9)
    clashing = X.rename(columns={"a": "y0"})
    assert FairPLS(1).fit(clashing, Y.to_numpy(), sensitive_features=groups).n_features_in_ == 4


def test_scores_of_tables_of_other_lengths_are_refused(tables):
    X, Y, groups = tables
    fair = FairPLS(1).fit(X, Y, sensitive_features=groups)
    with pytest.raises(InvalidInput, match="200 rows and Y has 5"):
        fair.transform(X, Y[:5])


@pytest.mark.parametrize(
    ("targets", "error"),
    [
        (["e", "e", "f"], InvalidInput),
        (True, InvalidType),
        (3.0, InvalidType),
        (["q"], InvalidInput),
    ],
)
def test_targets_of_moments_are_checked(tables, targets, error):
    X, Y, groups = frames(tables)
    moments = GroupMoments.from_rows(pd.concat([X, Y], axis=1), groups)
    with pytest.raises(error, match="targets"):
        FairPLS(1).fit_moments(moments, targets)


def test_other_restrictions_are_refused_in_terms_of_two_tables(tables):
    X, Y, groups = tables
    with pytest.raises(IncompatibleParameters, match="pair of tables"):
        FairPLS(1, restriction=Uncorrelated([0])).fit(X, Y, sensitive_features=groups)


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e8])
@pytest.mark.parametrize("criterion", ["minimax_loss", "nash_welfare", "minimax_relative_loss"])
def test_figures_in_any_units_are_compared(scale, criterion):
    X, Y, groups = draw_tables(p=4, q=3, n=200, shared=1.0)
    X, Y = scale * X, scale * Y
    fair = FairPLS(1, scale=False, criterion=criterion).fit(X, Y, sensitive_features=groups)
    pair = fair.subspace_
    assert verify_pairs(pair, X, Y, sensitive_features=groups).holds
    figures = pair.certificate.figures
    for change in ({"kept": figures.best}, {"kept": figures.kept * (1 + 1e-6)}):
        certificate = replace(pair.certificate, figures=replace(figures, **change))
        forgery = replace(pair, certificate=certificate)
        assert not verify_pairs(forgery, X, Y, sensitive_features=groups).holds


def test_stretched_weights_do_not_hide_a_gap(tables):
    X, Y, groups = tables
    pair = FairPLS(1).fit(X, Y, sensitive_features=groups).subspace_
    rng = np.random.default_rng(0)
    rotations = pair.x.rotations + 1e-3 * rng.normal(size=(4, 1))
    rotations /= np.linalg.norm(rotations) / (1 + 2.45e-6)
    stretched = pair.y.rotations * (1 + 2.45e-6)
    assessment = replace(pair.certificate.assessment, resolution=pair.certificate.assessment.scale)
    forgery = replace(
        pair,
        x=replace(pair.x, rotations=rotations),
        y=replace(pair.y, rotations=stretched),
        certificate=replace(pair.certificate, assessment=assessment),
    )
    assert not verify_pairs(forgery, X, Y, sensitive_features=groups).holds


@pytest.mark.parametrize(
    "change", [{"resolution": 0.0}, {"absolute_tol": 5.0}, {"resolution": 1.0}]
)
def test_measures_of_the_gap_are_compared(tables, change):
    X, Y, groups = tables
    pair = FairPLS(1).fit(X, Y, sensitive_features=groups).subspace_
    assessment = replace(pair.certificate.assessment, **change)
    forgery = replace(pair, certificate=replace(pair.certificate, assessment=assessment))
    assert not verify_pairs(forgery, X, Y, sensitive_features=groups).holds
    statement = replace(pair.certificate.statement, n_components=3)
    forgery = replace(pair, certificate=replace(pair.certificate, statement=statement))
    assert not verify_pairs(forgery, X, Y, sensitive_features=groups).holds
    labels = replace(pair.certificate.statement, groups=(["a"], ["b"]))
    forgery = replace(pair, certificate=replace(pair.certificate, statement=labels))
    assert not verify_pairs(forgery, X, Y, sensitive_features=groups).holds


def test_nearly_equal_mean_differences_are_unresolved():
    """The means of the groups span two directions, of which one is known to few digits."""
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b", "c"], 200)
    rows = rng.normal(size=(200, 5))
    X = np.vstack([rows, rows, rows])
    X += np.outer(np.repeat([0.0, 1e3, 2e3], 200), np.ones(5))
    X[400:, 0] += 1e-8
    Y = X @ rng.normal(size=(5, 5)) + rng.normal(size=(600, 5))
    hidden = FairPLS(1, restriction="mean_parity", restricted_tables="x", scale=False)
    try:
        hidden.fit(X, Y, sensitive_features=groups)
    except IncompatibleParameters:
        return
    assert hidden.solution_.status != "optimal"


def test_moments_of_incomplete_rows_are_less_exact(tables):
    X, Y, groups = tables
    complete = FairPLS(1).fit(X, Y, sensitive_features=groups)
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    incomplete = FairPLS(1, on_missing="em").fit(holes, Y, sensitive_features=groups)
    exact = complete.solution_.assessment.resolution
    assert incomplete.solution_.assessment.resolution > 3 * exact


def test_rows_of_weight_zero_are_no_evidence(tables):
    X, Y, groups = tables
    fair = FairPLS(1).fit(X, Y, sensitive_features=groups)
    weights = np.ones(len(X))
    weights[np.flatnonzero(groups == "a")[10:]] = 0
    audit = audit_pairs(fair, X, Y, sensitive_features=groups, sample_weight=weights)
    few = next(loss for loss in audit.losses if loss.group == "a")
    assert few.n_rows == 10
    assert few.to_record()["expected_loss_low"] is None


@pytest.mark.slow
def test_audits_say_what_they_do_with_incomplete_rows_and_no_models(tables):
    X, Y, groups = tables
    fair = FairPLS(1).fit(X, Y, sensitive_features=groups)
    holes = X.copy()
    holes[0, 0] = np.nan
    with pytest.raises(InvalidInput, match=r"(?i)row 1"):
        audit_pairs(fair, holes, Y, sensitive_features=groups)
    result = audit_pairs(fair, holes, Y, sensitive_features=groups, on_missing="drop")
    assert sum(loss.n_rows for loss in result.losses) == 2 * 199
    with pytest.raises(InvalidInput, match="empty"):
        audit_pairs({}, X, Y, sensitive_features=groups)
    usual = FairPLS(1, criterion="total_covariance").fit(X, Y, sensitive_features=groups)
    loose = FairPLS(1, tol=1e-3).fit(X, Y, sensitive_features=groups)
    audit = audit_pairs({"mine": usual, "loose": loose}, X, Y, sensitive_features=groups)
    assert {loss.model for loss in audit.losses} == {"mine", "loose"}


def test_displays_of_restricted_models_end_where_directions_do(tables):
    pytest.importorskip("matplotlib")
    X, Y, groups = tables
    hidden = FairPLS(1, restriction="mean_parity").fit(X, Y, sensitive_features=groups)
    assert CovarianceLossDisplay.compute(hidden).dimensions.tolist() == [1]


def test_advice_for_columns_of_other_sizes(tables):
    X, Y, groups = tables
    sizes = np.array([1e-8, 1, 1, 1e8])
    with pytest.raises(IncompatibleParameters, match="scale=True"):
        FairCCA(1, scale=False).fit(X * sizes, Y, sensitive_features=groups)
    assert FairCCA(1).fit(X * sizes, Y, sensitive_features=groups).solution_.status == "optimal"
