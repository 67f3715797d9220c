"""Nested components, held against grids of directions, one-dimensional duals and numpy by hand."""

import re
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize_scalar

from case_selection import parametrize_diagonal
from certificate_claims import replace_claims
from fairspan import (
    CovarianceParity,
    ErrorGap,
    FairPCA,
    FairSubspace,
    GroupMoments,
    MeanParity,
    MinimaxError,
    audit,
    verify,
)
from fairspan.errors import IncompatibleParameters, InvalidParameter
from numpy_reference import random_rows
from problems import deflate, nested_value, rows_with_moments, top_sum
from real_data import load

CRITERIA = ("minimax_loss", "minimax_error", "least_variance", "total_error")
TWO = random_rows(31, n=150, p=6)
THREE = random_rows(32, n=150, p=6, groups=("a", "b", "c"))
ROWS = {"two": TWO, "three": THREE}


def fit(rows, d=4, criterion="minimax_loss", **settings):
    model = FairPCA(d, criterion=criterion, nested=True, **settings)
    return model.fit(rows.X, sensitive_features=rows.labels)


def second_moments(rows):
    """Return S_g about the mean of all rows, and the shares of the groups."""
    middle = rows.X - rows.X.mean(axis=0)
    group_rows = [middle[rows.labels == group] for group in np.unique(rows.labels)]
    return np.array([x.T @ x / len(x) for x in group_rows]), np.array(
        [len(x) / len(middle) for x in group_rows]
    )


@parametrize_diagonal(rows=["two", "three"], criterion=CRITERIA)
def test_no_direction_of_a_grid_is_better_at_any_step(rows, criterion):
    rows = replace(ROWS[rows], X=ROWS[rows].X[:, :3])
    model = fit(rows, 3, criterion)
    matrices, shares = second_moments(rows)
    turns = np.linspace(0, np.pi, 181)
    around = np.column_stack([np.cos(turns), np.sin(turns)])
    sphere = np.concatenate(
        [
            np.column_stack([np.sin(tilt) * around, np.full(len(turns), np.cos(tilt))])
            for tilt in np.linspace(0, np.pi, 181)
        ]
    )
    for step, directions in enumerate((sphere, around)):
        before = model.components_[:step]
        complement = np.linalg.svd(before, full_matrices=True)[2][step:] if step else np.eye(3)
        deflated = deflate(matrices, before)
        within = complement @ deflated @ complement.T
        captured = np.einsum("ni,gij,nj->gn", directions, within, directions)
        references = {
            "minimax_loss": [top_sum(matrix, 1) for matrix in within],
            "least_variance": np.zeros(len(within)),
        }.get(criterion, np.trace(within, axis1=1, axis2=2))
        losses = np.array(references)[:, None] - captured
        values = shares @ losses if criterion == "total_error" else losses.max(axis=0)
        objective = model.solution_.steps[step].objective
        scale = float(np.trace(deflated, axis1=1, axis2=2).max())
        assert values.min() >= objective - 1e-9 * scale
        # Neighbors on the grid are a degree apart.
        assert values.min() <= objective + 0.04 * scale
        assert objective == pytest.approx(
            nested_value(deflated, shares, model.components_[step : step + 1].T, criterion),
            abs=1e-9 * scale,
        )


@pytest.mark.parametrize("seed", range(3))
def test_two_groups_each_step_meets_the_dual_of_one_direction(seed):
    rows = random_rows(seed, n=100, p=7)
    model = fit(rows, 6)
    matrices, _ = second_moments(rows)
    for step, solution in enumerate(model.solution_.steps):
        first, second = deflate(matrices, model.components_[:step])

        def excess_over_ends(t, first=first, second=second):
            mixed = top_sum(t * first + (1 - t) * second, 1)
            return mixed - t * top_sum(first, 1) - (1 - t) * top_sum(second, 1)

        highest = -minimize_scalar(excess_over_ends, bounds=(0, 1), options={"xatol": 1e-12}).fun
        assert solution.objective == pytest.approx(highest, rel=1e-6)
        assert solution.status == "optimal"


@parametrize_diagonal(rows=["two", "three"], criterion=CRITERIA)
def test_the_first_components_are_the_nested_fit_of_fewer(rows, criterion):
    rows = ROWS[rows]
    model = fit(rows, 4, criterion)
    for d in (1, 4):
        fewer = fit(rows, d, criterion)
        first = model.subspace_.truncate(d)
        np.testing.assert_array_equal(first.components, fewer.components_)
        certificate, alone = first.certificate, fewer.subspace_.certificate
        np.testing.assert_allclose(certificate.errors, alone.errors, rtol=1e-12)
        message = attrgetter("status", "objective", "lower_bound")
        assert message(certificate) == message(alone)
        assert first.is_nested
        assert verify(first, rows.X, rows.labels)
        np.testing.assert_allclose(
            first.transform(rows.X), model.transform(rows.X)[:, :d], atol=1e-12
        )


@pytest.mark.parametrize("rows", ["two", pytest.param("three", marks=pytest.mark.slow)])
def test_a_loss_is_at_most_the_sum_of_the_steps_and_no_joint_fit_is_below_the_bound(rows):
    rows = ROWS[rows]
    model = fit(rows, 5)
    matrices, shares = second_moments(rows)
    total = 0.0
    for d, step in enumerate(model.solution_.steps, start=1):
        total += step.objective
        certificate = model.subspace_.truncate(d).certificate
        assert certificate.objective <= total * (1 + 1e-12)
        basis = model.components_[:d].T
        assert certificate.objective == pytest.approx(
            nested_value(matrices, shares, basis, "minimax_loss")
        )
        joint = FairPCA(d).fit(rows.X, sensitive_features=rows.labels).solution_
        assert certificate.lower_bound <= joint.objective <= certificate.objective * (1 + 1e-12)
        assert certificate.lower_bound >= 0
    assert (model.solution_.objective, model.solution_.lower_bound) == (
        certificate.objective,
        certificate.lower_bound,
    )
    assert model.solution_.status == "open gap"
    assert f"of {len(model.solution_.steps)} " in model.solution_.message


@pytest.mark.parametrize("criterion", CRITERIA)
def test_one_group_or_the_total_error_is_pca(criterion):
    labels = np.full(len(TWO.X), "all") if criterion != "total_error" else TWO.labels
    if criterion != "total_error":
        model = FairPCA(4, criterion=criterion, nested=True, missing_groups="ignore").fit(TWO.X)
    else:
        model = fit(replace(TWO, labels=labels), 4, criterion)
    from sklearn.decomposition import PCA

    plain = PCA(4).fit(TWO.X).components_
    np.testing.assert_allclose(np.abs((model.components_ * plain).sum(axis=1)), 1, atol=1e-9)
    assert model.solution_.status == "optimal"


def test_rotations_other_names_and_repeated_rows_change_nothing():
    model = fit(TWO)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    variants = {
        "turned": fit(replace(TWO, X=TWO.X @ turn)),
        "renamed": fit(replace(TWO, labels=np.where(TWO.labels == "a", "z", "y"))),
        "twice": fit(replace(TWO, X=np.vstack([TWO.X] * 2), labels=np.tile(TWO.labels, 2))),
    }
    for name, other in variants.items():
        components = other.components_ @ turn.T if name == "turned" else other.components_
        agreed = np.abs((components * model.components_).sum(axis=1))
        np.testing.assert_allclose(agreed, 1, atol=1e-7, err_msg=name)
        for mine, theirs in zip(model.solution_.steps, other.solution_.steps, strict=True):
            assert theirs.objective == pytest.approx(mine.objective, rel=1e-8)


def test_ties_of_components_are_resolved_by_pooled_variance():
    # The first group alone has the largest error, and varies alike along two axes.
    matrices = np.array([np.diag([9.0, 9, 8]), np.diag([1.0, 2, 0]), np.diag([1.0, 3, 0])])
    model = FairPCA(1, criterion="minimax_error", center="none", nested=True)
    X, labels = rows_with_moments(matrices)
    model.fit(X, sensitive_features=labels)
    np.testing.assert_allclose(np.abs(model.components_), [[0, 1, 0]], atol=1e-9)
    assert model.solution_.status == "optimal"


@pytest.mark.parametrize(
    "criterion", [pytest.param(CRITERIA[0], marks=pytest.mark.slow), *CRITERIA[1:]]
)
def test_mean_parity_holds_in_every_prefix(criterion):
    model = fit(THREE, 4, criterion, restriction=MeanParity())
    reduced = model.transform(THREE.X)
    means = [reduced[THREE.labels == group].mean(axis=0) for group in model.groups_]
    np.testing.assert_allclose(means, [means[0]] * 3, atol=1e-10)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(4), atol=1e-12)
    assert repr(model.subspace_).endswith(f"nested {criterion} with MeanParity(tolerance=0.0)>")
    # Losses of a step are measured against the best of all directions that are left.
    matrices, shares = second_moments(THREE)
    for step, step_solution in enumerate(model.solution_.steps):
        deflated = deflate(matrices, model.components_[:step])
        objective = nested_value(deflated, shares, model.components_[step : step + 1].T, criterion)
        assert step_solution.objective == pytest.approx(objective, rel=1e-9)
    with pytest.raises(IncompatibleParameters, match="at most 4"):
        fit(THREE, 5, criterion, restriction=MeanParity())


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_share_is_the_smallest_prefix_that_keeps_it(share):
    model = fit(TWO, share)
    share_captured = model.group_explained_variance_ratio_.sum(axis=1).min()
    fewer = model.group_explained_variance_ratio_[:, :-1].sum(axis=1).min()
    assert fewer < share <= share_captured
    np.testing.assert_array_equal(model.components_, fit(TWO, model.n_components_).components_)
    with pytest.raises(IncompatibleParameters, match="at most 0"):
        fit(THREE, 0.999, restriction=MeanParity())


@pytest.mark.parametrize(
    "settings",
    [
        {"criterion": ErrorGap(0.5)},
        {"criterion": "nash_welfare"},
        {"criterion": MinimaxError(relative=True)},
        {"criterion": "equal_error"},
        {"restriction": CovarianceParity()},
        {"criterion": "total_error", "restriction": MeanParity(0.1)},
        {"criterion": "total_error", "restriction": MeanParity(oblique=True)},
        {"allow_extra": True},
    ],
    ids=str,
)
def test_criteria_without_nesting_are_refused(settings):
    with pytest.raises(IncompatibleParameters, match="nested=True was requested"):
        fit(TWO, 2, **settings)


def test_the_first_components_of_other_fits_are_refused():
    joint = FairPCA(3).fit(TWO.X, sensitive_features=TWO.labels).subspace_
    expected_text = "components, 3"
    for subspace, d, kind, message in (
        *(
            (subspace, 1, IncompatibleParameters, "nested=True")
            for subspace in (joint, FairSubspace(np.eye(3), None))
        ),
        *(
            (fit(TWO, 3).subspace_, d, InvalidParameter, expected_text)
            for d in (0, 4, 1.5, True, "2")
        ),
    ):
        with pytest.raises(kind, match=message):
            subspace.truncate(d)
    with pytest.raises(InvalidParameter, match="nested is 'yes'"):
        FairPCA(2, nested="yes").fit(TWO.X, sensitive_features=TWO.labels)


def alter(subspace, part, index, **claims):
    """Alter the claims of one step, or of the first components."""
    parts = list(getattr(subspace.certificate, part))
    parts[index] = replace_claims(parts[index], **claims)
    return replace(subspace, certificate=replace(subspace.certificate, **{part: tuple(parts)}))


def test_a_claim_that_does_not_hold_is_found_at_any_step():
    model = fit(TWO, 3)
    subspace = model.subspace_
    assert verify(model, TWO.X, TWO.labels)
    third_step = subspace.certificate.steps[2]
    proof = subspace.certificate.prefixes[1].proof
    wrong = {
        "Component 3, .*lower bound": alter(
            subspace, "steps", 2, lower_bound=third_step.lower_bound + 0.1 * third_step.objective
        ),
        "Component 2, .*objective": alter(subspace, "steps", 1, objective=0.0),
        "The first 2 components: .*bound": alter(
            subspace, "prefixes", 1, proof=replace(proof, weights=np.array([1.0, 0]))
        ),
        "A step or prefix .* errors": alter(subspace, "prefixes", 1, errors=np.zeros(2)),
        "Component 1, ": replace(subspace, components=subspace.components[[1, 0, 2]]),
    }
    for message, forgery in wrong.items():
        result = verify(forgery, TWO.X, TWO.labels)
        assert not result
        assert re.search(message, str(result)), (message, str(result))
    model.solution_ = replace(model.solution_, steps=model.solution_.steps[::-1])
    assert "solution_ =" in str(verify(model, TWO.X, TWO.labels))


def test_the_unit_of_the_features_changes_no_component():
    unit = fit(replace(TWO, X=TWO.X * 1e70), 3)
    small = fit(TWO, 3)
    np.testing.assert_allclose(unit.components_, small.components_, atol=1e-9)
    for large, step in zip(unit.solution_.steps, small.solution_.steps, strict=True):
        assert large.objective / 1e140 == pytest.approx(step.objective, rel=1e-9)


def test_a_column_of_large_numbers_takes_nothing_from_later_steps():
    X = TWO.X.copy()
    X[:, 0] = 1e7 * X[:, 0] + X[:, 1]
    model = fit(replace(TWO, X=X), 3, "total_error")
    centered = X - X.mean(axis=0)
    # Exactly, by least squares, what the column leaves of the others.
    column = centered[:, :1]
    rest = centered[:, 1:] - column @ np.linalg.lstsq(column, centered[:, 1:], rcond=None)[0]
    expected = np.linalg.svd(rest, full_matrices=False)[2][:2]
    agreed = np.abs((model.components_[1:, 1:] * expected).sum(axis=1))
    np.testing.assert_allclose(agreed, 1, atol=1e-9)


@pytest.mark.parametrize("restriction", [None, MeanParity()], ids=["all", "mean parity"])
def test_rows_that_are_fewer_than_their_features_are_nested_in_coordinates(
    restriction, monkeypatch
):
    monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 50)
    rng = np.random.default_rng(5)
    X = rng.standard_normal((24, 20)) * np.arange(20, 0, -1)
    X = np.hstack([X, np.zeros((24, 80))])
    labels = np.tile(["a", "b"], 12)
    settings = {"nested": True, "restriction": restriction}
    thin = FairPCA(4, **settings).fit(X, sensitive_features=labels)
    assert thin.solution_.eigensolver == thin.solution_.steps[1].eigensolver == "thin"
    dense = FairPCA(4, **settings).fit(X[:, :20], sensitive_features=labels)
    agreed = np.abs((thin.components_[:, :20] * dense.components_).sum(axis=1))
    np.testing.assert_allclose(agreed, 1, atol=1e-8)
    assert len(thin.solution_.steps[2].components[0]) == 100


def test_more_components_than_the_rows_vary_along_are_zero_steps(monkeypatch):
    monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 15)
    X = random_rows(3, n=6, p=8).X
    labels = np.tile(["a", "b"], 3)
    for features in (X, np.hstack([X] * 2)):  # the second is solved in coordinates
        model = FairPCA(7, nested=True).fit(features, sensitive_features=labels)
        np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(7), atol=1e-9)
        assert model.solution_.status == "optimal"
        assert all(step.status == "optimal" for step in model.solution_.steps[5:])


@pytest.mark.long
@pytest.mark.usefixtures("no_sparse_row_coordinates")
def test_sparse_rows_of_many_features_are_nested_without_matrices():
    rng = np.random.default_rng(6)
    scores = rng.standard_normal((300, 5)) * [5, 4, 3, 2, 1]
    others = scipy.sparse.random(300, 1600, density=0.01, random_state=7)
    X = scipy.sparse.hstack([scores, others], format="csr")
    labels = np.tile(["a", "b", "b"], 100)
    model = FairPCA(3, nested=True).fit(X, sensitive_features=labels)
    dense = FairPCA(3, nested=True).fit_moments(GroupMoments.from_rows(X.toarray(), labels))
    assert {str(step.status) for step in model.solution_.steps} == {"estimated"}
    agreed = np.abs((model.components_ * dense.components_).sum(axis=1))
    np.testing.assert_allclose(agreed, 1, atol=1e-7)


def test_an_audit_names_it_and_says_what_its_gap_is():
    model = fit(TWO, 3)
    audited = audit(model, TWO.X, TWO.labels, folds=None)
    assert audited.models[0].name == "nested minimax loss"
    assert audited.models[0].is_nested
    (finding,) = [entry for entry in audited.findings if entry.code == "FS204"]
    assert "nested" in finding.message


@pytest.mark.slow
def test_an_audit_refits_nested_models_as_nested():
    model = fit(TWO, 3)
    # Models are fitted anew as they were: another fit would be expected to lose less.
    joint = FairPCA(3).fit(TWO.X, sensitive_features=TWO.labels)
    both = audit({"nested": model, "joint": joint}, TWO.X, TWO.labels, folds=5)
    nested, other = (model_audit.groups[0].expected_error.value for model_audit in both.models[:2])
    assert nested != pytest.approx(other, rel=1e-6)


def test_the_figures_of_credit_by_education():
    rows = load("default_credit:group__education")
    model = FairPCA(10, scale=True, center="group", nested=True)
    model.fit(rows.X, sensitive_features=rows.groups)
    assert model.subspace_.truncate(5).certificate.objective == pytest.approx(0.0636, abs=5e-5)
    assert model.solution_.objective == pytest.approx(0.356, abs=5e-4)
    assert {step.status for step in model.solution_.steps} == {"optimal"}
