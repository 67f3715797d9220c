"""Verification recomputes the claims of a model, which hold only for the rows of its fit."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import fairspan as fs
from case_selection import parametrize_diagonal
from certificate_claims import replace_claims
from fairspan import FairPCA, FairSubspace, GroupMoments, verify
from fairspan.errors import IncompatibleParameters, InvalidInput
from numpy_reference import generate_group_rows

CRITERIA = (
    "total_error",
    "minimax_loss",
    "minimax_error",
    "disparity",
    fs.Disparity(0.3, "b"),
    "equal_error",
    fs.ErrorGap(2.0),
    fs.RobustErrorGap(0.7, 0.4),
    fs.RobustErrorGap(0.7, {"a": 0.1, "b": 0.2}),
    "nash_welfare",
    "least_variance",
    fs.MinimaxLoss(relative=True),
    fs.MinimaxError(relative=True),
)
RESTRICTIONS = (
    fs.MeanParity(),
    fs.MeanParity(0.3),
    fs.MeanParity(attributes="marginal"),
    fs.MeanParity(oblique=True),
    fs.CovarianceParity(n_directions=3),
)


X, LABELS = generate_group_rows()


def fit_model(d=2, X=X, labels=LABELS, **settings):
    return FairPCA(d, **settings).fit(X, sensitive_features=labels)


def assert_holds(model, *data, **more):
    result = verify(model, *data, **more)
    assert result.holds, str(result)
    return result


def assert_fails(model, *data, because, **more):
    result = verify(model, *data, **more)
    assert result.holds is False
    assert because in " ".join(result.messages), str(result)
    return result


@parametrize_diagonal(center=["global", "group", "none"], criterion=CRITERIA)
def test_every_criterion_holds_at_every_center(criterion, center):
    model = fit_model(criterion=criterion, center=center)
    result = assert_holds(model, X, LABELS)
    assert result.objective == pytest.approx(model.solution_.objective, rel=1e-9)
    unsure = model.solution_.resolution + 1e-9 * model.solution_.scale
    assert abs(result.lower_bound - model.solution_.lower_bound) <= unsure
    assert result.gap == pytest.approx(result.objective - result.lower_bound, abs=unsure)


FAIR = (
    *("minimax_loss", "error_gap", fs.RobustErrorGap(), "least_variance"),
    *(fs.MinimaxLoss(relative=True), fs.MinimaxError(relative=True)),
)
MANY_GROUP_NAMES = (*FAIR, "minimax_error", "nash_welfare", fs.RobustErrorGap(0.5, 0.3))
UNITS = [1, 1e3, 1e-3, 5, 2, 1]
HELD = [
    *(
        ((X * UNITS, LABELS), {"criterion": criterion, "scale": True})
        for criterion in ("minimax_loss", fs.RobustErrorGap(), "nash_welfare")
    ),
    *((generate_group_rows(4, seed=4), {"criterion": criterion}) for criterion in MANY_GROUP_NAMES),
    *(
        pytest.param(
            generate_group_rows(3, seed=3), {"criterion": criterion}, marks=pytest.mark.slow
        )
        for criterion in MANY_GROUP_NAMES
    ),
    *(
        ((X, LABELS), {"criterion": "total_error", "restriction": restriction})
        for restriction in RESTRICTIONS
    ),
    *(
        ((X, LABELS), {"criterion": criterion, "restriction": restriction})
        for restriction in (fs.MeanParity(), fs.CovarianceParity(n_directions=4))
        for criterion in FAIR
    ),
    *(((X, LABELS), {"d": d}) for d in (1, 6, 0.9)),
    (generate_group_rows(2, 200, n=150), {"d": 5}),
]


@pytest.mark.parametrize(("data", "settings"), HELD, ids=lambda value: str(value)[-80:])
def test_every_setting_holds(data, settings):
    assert_holds(fit_model(X=data[0], labels=data[1], **settings), *data)


@pytest.mark.long
@pytest.mark.parametrize("center", ["global", "group", "none"])
@pytest.mark.parametrize("criterion", FAIR, ids=str)
def test_rows_fewer_than_their_features(criterion, center):
    rows, labels = generate_group_rows(2, 520, n=6)
    model = fit_model(2, rows, labels, criterion=criterion, center=center)
    assert model.solution_.eigensolver == "thin"
    assert_holds(model, rows, labels)
    assert_holds(model, model.moments_)


def test_thin_rows_within_a_restriction():
    from sklearn.decomposition import PCA

    rows, labels = generate_group_rows(2, 520, n=6)
    model = fit_model(2, rows, labels, restriction=fs.MeanParity())
    assert_holds(model, rows, labels)
    model.subspace_ = replace(model.subspace_, components=PCA(2).fit(rows).components_)
    assert not verify(model.subspace_, rows, labels).holds


@pytest.mark.usefixtures("no_sparse_row_coordinates")
def test_the_bound_of_sparse_rows_is_reported_as_unchecked(monkeypatch):
    rng = np.random.default_rng(1)
    rows = scipy.sparse.random(60, 1600, 0.05, format="csr", random_state=rng)
    labels = np.repeat(["a", "b"], 30)
    model = fit_model(2, rows, labels, criterion="minimax_error")
    assert model.solution_.eigensolver == "matrix-free"
    monkeypatch.setattr("fairspan.moments.row_moments._MAX_MATRIX_ENTRIES", 0)
    result = assert_holds(model, rows, labels)
    assert model.solution_.status == "estimated"
    assert any("lower bound" in message and "sparse" in message for message in result.messages)
    assert "status" in str(result)
    assert result.lower_bound == -np.inf
    assert_fails(model, 2 * rows, labels, because="objective =")


def test_the_bound_of_sparse_rows_that_fit_into_matrices_is_checked():
    rows = scipy.sparse.csr_array(np.where(X > 0, X, 0.0))
    assert np.isfinite(assert_holds(fit_model(2, rows, LABELS), rows, LABELS).lower_bound)


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_saved_and_loaded(criterion, tmp_path):
    model = fit_model(criterion=criterion)
    model.subspace_.save(tmp_path / "model")
    copy = FairSubspace.load(tmp_path / "model")
    assert verify(copy, X, LABELS) == verify(model, X, LABELS)
    assert_holds(copy, GroupMoments.from_rows(X, LABELS))


SLICES = ((0, 1), (0, 2), (1, 2))


def test_moments_in_place_of_rows():
    all_moments, *parts = (GroupMoments.from_rows(X[i::n], LABELS[i::n]) for i, n in SLICES)
    for moments in (all_moments, sum(parts)):
        assert_holds(fit_model(), moments)


def test_weights():
    weights = np.random.default_rng(5).uniform(0.5, 2, len(X))
    model = FairPCA(2).fit(X, sensitive_features=LABELS, sample_weight=weights)
    assert_holds(model, X, LABELS, sample_weight=weights)
    assert_fails(model, X, LABELS, because="mean =")


def test_columns_in_another_order_and_next_to_others():
    frame = pd.DataFrame(X, columns=list("uvwxyz")).assign(group=LABELS)
    model = FairPCA(2).fit(frame, sensitive_features="group")
    assert_holds(model, frame, "group")
    assert_holds(model, frame[[*reversed(frame.columns)]], "group")
    assert_holds(model, frame.assign(other=1.0), "group")
    assert_fails(model, frame.drop(columns="u"), "group", because="features")
    assert_fails(model, frame.rename(columns={"u": "t"}), "group", because="features")


def test_names_that_the_data_do_not_have_are_not_checked():
    frame = pd.DataFrame(X, columns=list("uvwxyz")).assign(group=LABELS)
    original = FairPCA(2).fit(frame, sensitive_features="group").subspace_
    swapped = replace(original, feature_names=("v", "u", *original.feature_names[2:]))
    assert not verify(swapped, frame, "group").holds
    for data in ((X, LABELS), (GroupMoments.from_rows(X, LABELS),)):
        for subspace in (original, swapped):
            assert "names of the features" in " ".join(verify(subspace, *data).messages)
    assert "names" not in str(verify(original, frame, "group"))


def test_models_that_were_fitted_without_groups():
    model = FairPCA(2, missing_groups="ignore").fit(X)
    assert_holds(model, X)
    assert_fails(model, X, LABELS, because="fitted on the groups")


@pytest.mark.parametrize("data", [(X,), (np.full_like(X, np.nan), LABELS)])
def test_rows_without_groups_are_bad_input(data):
    with pytest.raises(InvalidInput):
        verify(fit_model(), *data)


OTHER_DATA = {
    "doubled": ((2 * X, LABELS), "mean ="),
    "moved": ((X + 1, LABELS), "mean ="),
    "reversed": ((X[::-1], LABELS), "objective ="),
    "fewer": ((X[:-1], LABELS[:-1]), "counts ="),
    "renamed": ((X, np.where(LABELS == "a", "c", "b")), "fitted on the groups"),
    "exchanged": ((X, LABELS[::-1]), "objective ="),
    "one": ((X, np.repeat("a", len(X))), "fitted on the groups"),
    "narrow": ((X[:, :5], LABELS), "6 features"),
    "zeros": ((np.zeros_like(X), LABELS), "mean ="),
}


@parametrize_diagonal(
    pytest.mark.slow,
    criterion=["minimax_loss", fs.RobustErrorGap(), "nash_welfare"],
    change=OTHER_DATA,
)
def test_other_data_do_not_hold(criterion, change):
    data, because = OTHER_DATA[change]
    assert_fails(fit_model(criterion=criterion), *data, because=because)


def test_other_rows_are_reported_once_and_not_by_figure():
    message = verify(fit_model(), X[:-1], LABELS[:-1]).messages
    assert message[0].startswith("These are not the rows")
    assert len(message) == 5


def test_the_same_deviations_about_another_mean_do_not_hold():
    model = fit_model(center="group")
    assert_fails(model, X + 1e-3, LABELS, because="mean =")


CHANGES = {
    **dict.fromkeys(("components_", "mean_"), lambda value: value + 1e-3),
    **dict.fromkeys(("group_errors_", "group_losses_"), lambda value: 0.9 * value),
    **dict.fromkeys(
        (
            *("disparity_", "n_components_", "explained_variance_", "explained_variance_ratio_"),
            "group_explained_variance_ratio_",
        ),
        lambda value: 1.001 * value,
    ),
    "groups_": lambda value: value[::-1],
    "scale_": lambda value: None,
}


@pytest.mark.parametrize("name", CHANGES)
def test_attributes_that_were_changed(name):
    model = fit_model(scale=True, whiten=True)
    assert_holds(model, X, LABELS)
    setattr(model, name, CHANGES[name](getattr(model, name)))
    assert_fails(model, X, LABELS, because=f"{name} =")


@pytest.mark.parametrize(
    ("name", "factor", "because"),
    [("scale", 1.001, "scale of the features ="), ("whitening", 100, "squared whitening =")],
)
def test_units_that_were_changed(name, factor, because):
    subspace = fit_model(scale=True, whiten=True).subspace_
    assert_fails(
        replace(subspace, **{name: factor * getattr(subspace, name)}), X, LABELS, because=because
    )


def alter(model, *, components=None, **claims):
    """Return the subspace of a model with forged claims."""
    subspace = model.subspace_
    rows = subspace.components if components is None else components
    certificate = replace_claims(subspace.certificate, components=rows, **claims)
    return replace(subspace, components=rows, certificate=certificate)


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, 0.0], [0.5], [-1.0, 2.0]])
def test_weights_that_were_changed_prove_nothing(weights):
    model = fit_model()
    proof = replace(model.solution_.proof, weights=np.array(weights))
    assert verify(alter(model, proof=proof), X, LABELS).holds is False


def test_components_that_were_changed():
    subspace = fit_model().subspace_
    for components, because in (
        (subspace.components[:, ::-1].copy(), "objective ="),
        (1.1 * subspace.components, "not orthonormal"),
        (np.array([[1.0, 1], [0, 1]]) @ subspace.components, ""),
        (np.full_like(subspace.components, np.nan), ""),
    ):
        assert_fails(replace(subspace, components=components), X, LABELS, because=because)


def test_components_outside_of_a_restriction():
    from sklearn.decomposition import PCA

    model = fit_model(criterion="total_error", restriction=fs.MeanParity())
    other = replace(model.subspace_, components=PCA(2).fit(X).components_)
    assert_fails(other, X, LABELS, because="leave the allowed directions")


@pytest.mark.parametrize(
    "model", [FairSubspace(np.eye(6)[:2], np.zeros(6)), np.eye(6)[:2], None, "model"]
)
def test_models_without_a_certificate(model):
    assert_without_certificate(model)


def test_pca_of_scikit_learn_has_no_certificate():
    from sklearn.decomposition import PCA

    assert_without_certificate(PCA(2).fit(X))


def assert_without_certificate(model):
    result = assert_fails(model, X, LABELS, because="")
    assert (np.isnan(result.objective), result.lower_bound) == (True, -np.inf)
    assert str(result).startswith("The certificate does not hold.")


@pytest.mark.parametrize(
    ("claims", "because"),
    [
        ({"lower_bound": np.inf}, "lower bound inf"),
        ({"lower_bound": np.nan}, "lower bound nan"),
        ({"resolution": 1e9, "objective": 1e-3, "lower_bound": 1e-3}, "objective ="),
        ({"tol": 1e9}, "tol of the model"),
        ({"status": "proven"}, "The problem cannot be posed"),
    ],
)
def test_claims_of_a_model_are_not_trusted(claims, because):
    assert_fails(alter(fit_model(), **claims), X, LABELS, because=because)


def test_worse_components_are_not_optimal_by_any_name():
    """Ordinary PCA keeps the certificate of the fair components, with its own objective."""
    model = fit_model()
    plain = fit_model(criterion="total_error")
    errors = plain.group_errors_
    best = model.group_errors_ - model.group_losses_
    objective = float((errors - best).max())
    for status in ("optimal", "unresolved"):
        cheat = alter(
            model,
            components=plain.components_,
            status=status,
            objective=objective,
            lower_bound=objective,
            errors=errors,
        )
        assert_fails(cheat, X, LABELS, because="The model is called")


def test_a_violated_restriction_is_no_optimum():
    model = fit_model(criterion="total_error", restriction=fs.MeanParity(0.05))
    plain = fit_model(criterion="total_error")
    cheat = alter(
        model,
        proof=plain.solution_.proof,
        components=plain.components_,
        objective=plain.solution_.objective,
        lower_bound=plain.solution_.lower_bound,
        errors=plain.group_errors_,
    )
    assert_fails(cheat, X, LABELS, because="The model is called optimal")


@pytest.mark.parametrize(
    ("settings", "because"),
    [
        ({"restriction": fs.MeanParity(0.01)}, "exceed the limit"),
        pytest.param(
            {"restriction": fs.CovarianceParity(tolerance=0.1)},
            "leave the allowed directions",
            marks=pytest.mark.slow,
        ),
        ({"criterion": "equal_error"}, "criterion allows"),
    ],
)
def test_an_open_gap_is_no_leave_to_violate_what_is_required(settings, because):
    model = fit_model(**({"criterion": "total_error"} | settings))
    plain = fit_model(criterion="total_error").components_
    cheat = alter(model, components=plain, status="open gap", lower_bound=-np.inf)
    assert_fails(cheat, X, LABELS, because=because)


@pytest.mark.parametrize("status", ["estimated", "optimal", "unresolved", "OPTIMAL"])
def test_without_a_proof_only_an_open_gap_can_be_claimed(status):
    claims = {"proof": None, "lower_bound": -np.inf}
    assert_holds(alter(fit_model(), **claims, status="open gap"), X, LABELS)
    assert_fails(alter(fit_model(), **claims, status=status), X, LABELS, because="")


def test_the_mean_is_compared_with_the_deviations_of_the_columns():
    rows = X.copy()
    rows[:, 0] = 1e9 + 0.01 * X[:, 0]
    model = fit_model(X=rows)
    assert_holds(model, rows, LABELS)
    assert_holds(model, rows[::-1], LABELS[::-1])
    for shift in (90 * rows[:, 0].std(), np.nan):
        mean = model.mean_ + np.array([shift, 0, 0, 0, 0, 0])
        assert_fails(replace(model.subspace_, mean=mean), rows, LABELS, because="mean =")


@pytest.mark.parametrize(
    "settings",
    [
        {"criterion": fs.RobustErrorGap(0.7, 0.4)},
        {"criterion": "total_error", "restriction": fs.MeanParity(0.3)},
        {"criterion": "total_error", "restriction": fs.CovarianceParity(tolerance=20.0)},
        {
            "criterion": "total_error",
            "restriction": fs.CovarianceParity(tolerance=20.0),
            "solver": "semidefinite",
        },
    ],
    ids=["lines", "means", "trace of covariances", "covariances"],
)
def test_a_proof_of_another_kind_proves_nothing(settings):
    model = fit_model()
    other = fit_model(**settings)
    proof = other.solution_.proof
    assert proof.kind != model.solution_.proof.kind
    assert_fails(alter(model, proof=proof), X, LABELS, because="another kind of problem")


@parametrize_diagonal(
    criterion=["minimax_loss", "nash_welfare", "total_error"],
    restriction=[fs.MeanParity(), fs.CovarianceParity(n_directions=1)],
)
def test_rows_of_rank_one_in_another_order_hold_within_a_restriction(restriction, criterion):
    """Rounding may choose among directions without variance, so none of them is an answer."""
    n_refused = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        ends = rng.standard_normal((2, 5))
        ends[1] = ends[seed % 2]
        rows = np.vstack([np.outer(rng.standard_normal(9), end) for end in ends])
        labels = np.repeat(["a", "b"], 9)
        order = rng.permutation(18)
        try:
            model = FairPCA(1, criterion=criterion, restriction=restriction, center="group")
            model.fit(rows, sensitive_features=labels)
        except IncompatibleParameters:
            n_refused += 1
            continue
        assert_holds(model, rows[order], labels[order])
    assert n_refused < 12 or criterion == "nash_welfare"


@pytest.mark.parametrize("d", [11, pytest.param(12, marks=pytest.mark.long)])
def test_dimensions_that_hold_all_of_few_rows(d):
    """Matrices of so many features cannot tell zero from rounding; coordinates of the rows can."""
    X = np.random.default_rng(0).normal(size=(12, 510))
    groups = np.repeat(["a", "b"], 6)
    model = fs.FairPCA(d).fit(X, sensitive_features=groups)
    assert model.solution_.status == "optimal"
    assert fs.verify(model, X, groups).holds


@pytest.mark.parametrize("criterion", ["total_error", fs.MinimaxLoss(relative=True)])
def test_parts_far_from_zero_leave_other_directions_by_a_rounding(criterion):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((69, 5)) + 1e5
    labels = np.arange(69) % 3
    parts = np.array_split(rng.permutation(69), 3)
    moments = sum(GroupMoments.from_rows(X[part], labels[part]) for part in parts)
    model = FairPCA(2, criterion=criterion, restriction=fs.MeanParity(), center="none")
    assert_holds(model.fit_moments(moments), X, labels)


def test_sparse_rows_round_otherwise_than_their_matrices(monkeypatch):
    monkeypatch.setattr("fairspan.moments.compute.MAX_DENSE_FEATURES", 10)
    rng = np.random.default_rng(0)
    rows = rng.random((60, 20)) * (rng.random((60, 20)) < 0.2)
    labels = np.arange(60) % 2
    sparse = scipy.sparse.csr_array(rows)
    assert_holds(fit_model(1, sparse, labels, criterion=fs.RobustErrorGap(0.5, 0.5)), rows, labels)


@parametrize_diagonal(share=[1.0, 0.01], center=["global", "none"])
def test_directions_without_variance_are_the_same_in_coordinates_of_few_rows(
    share, center, monkeypatch
):
    monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 5)
    rng = np.random.default_rng(0)
    rows = rng.random((24, 60))
    labels = np.arange(24) % 2
    rows *= rng.random((24, 60)) < share
    settings = {"center": center, "restriction": fs.CovarianceParity(30)}
    model = fit_model(2, rows, labels, **settings)
    moments = GroupMoments.from_rows(rows, labels)
    assert model.solution_.eigensolver == "thin"
    assert_holds(model, moments)
    other = FairPCA(2, **settings).fit_moments(moments)
    assert model.solution_.objective == pytest.approx(other.solution_.objective, rel=1e-9)


def test_directions_of_equal_difference_are_selected_together():
    first, second = np.diag([1.0, 1.0, 2.0, 0.5]), np.diag([0.1, 0.1, 0.1, 0.1])
    X = np.vstack([first, -first, second, -second])
    labels = np.repeat(["a", "b"], 8)
    solutions = [
        fit_model(2, X, labels, restriction=fs.CovarianceParity(n)).solution_ for n in (2, 3)
    ]
    assert solutions[0].objective == pytest.approx(solutions[1].objective, rel=1e-12)


def test_a_bound_above_the_value_shows_how_much_of_both_is_rounding():
    rng = np.random.default_rng(24)
    X = rng.standard_normal((60, 5))
    labels = np.arange(60) % 3
    X[:, 0] = 1e5 * X[:, 0] + 1e6 * labels
    settings = {"criterion": "total_error", "restriction": fs.MeanParity(), "center": "group"}
    solution = fit_model(1, X, labels, **settings).solution_
    assert abs(solution.gap) <= solution.absolute_tol or solution.status == "unresolved"


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_nested_components_next_to_a_huge_row_cannot_be_verified_in_another_order(seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((70, 6)) * rng.uniform(0.3, 3, 6)
    rows[5] *= 1e8
    labels = np.arange(70) % 3
    order = rng.permutation(70)
    model = FairPCA(3, nested=True).fit(rows, sensitive_features=labels)
    assert verify(model, rows, labels).holds
    result = verify(model, rows[order], labels[order])
    assert not result.holds
    assert result.messages[0].startswith("The certificate cannot be verified")
