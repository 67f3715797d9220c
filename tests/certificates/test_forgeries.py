"""Models that differ from what their certificates claim are refused."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

import fairspan as fs
from case_selection import mark_most_slow, parametrize_diagonal
from certificate_claims import replace_claims
from fairspan import FairSubspace, MeanParity, verify
from numpy_reference import generate_group_rows

pytestmark = pytest.mark.unverified

X, GROUPS = generate_group_rows()
OBLIQUE = {"criterion": "total_error", "restriction": MeanParity(oblique=True)}


def fit_model(X=X, groups=GROUPS, d=2, **settings):
    model = fs.FairPCA(d, **settings).fit(X, sensitive_features=groups)
    assert verify(model, X, groups).holds
    return model


def assert_refused(subspace, X, groups, tmp_path, because):
    """Check that `verify` refuses the subspace, in memory and from a file."""
    subspace.save(tmp_path / "model")
    for model in (subspace, FairSubspace.load(tmp_path / "model")):
        result = verify(model, X, groups)
        assert not result.holds
        assert because in result.messages[0], str(result)


@pytest.mark.parametrize("restriction", [None, MeanParity(), MeanParity(0.3)], ids=str)
@pytest.mark.parametrize("size", [1e-7, 1.0, 1e3])
def test_a_decoder_that_was_added(size, restriction, tmp_path):
    subspace = fit_model(criterion="total_error", restriction=restriction).subspace_
    rows = subspace.components
    rng = np.random.default_rng(0)
    orthogonal = size * rng.standard_normal(rows.shape)
    orthogonal -= orthogonal @ rows.T @ rows
    forgery = replace(
        subspace, components=rows + orthogonal, oblique_decoder=np.ascontiguousarray(rows.T)
    )
    assert np.abs(forgery.transform(X) - subspace.transform(X)).max() > 0.1 * size
    assert_refused(forgery, X, GROUPS, tmp_path, "has a separate decoder")


def test_a_removed_decoder_is_refused(tmp_path):
    subspace = fit_model(**OBLIQUE).subspace_
    forgery = replace(
        subspace, components=subspace.projector.decoder.T.copy(), oblique_decoder=None
    )
    assert_refused(forgery, X, GROUPS, tmp_path, "no separate decoder")


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("size", [1e-6, 1e3])
def test_an_encoder_that_differs_where_the_rows_do_not_vary(size, scale, tmp_path):
    rows = X.copy()
    rows[:, 5] = 2 * rows[:, 4]
    subspace = fit_model(rows, scale=scale, **OBLIQUE).subspace_
    unit = np.ones(6) if subspace.scale is None else subspace.scale
    encoder = subspace.components.copy()
    encoder[0] += size * np.array([0, 0, 0, 0, 2.0, -1.0]) * unit
    forgery = replace(subspace, components=encoder)
    assert np.abs(forgery.transform(rows) - subspace.transform(rows)).max() < 1e-9 * max(size, 1)
    assert_refused(forgery, rows, GROUPS, tmp_path, "The encoder differs")


def test_an_encoder_that_differs_next_to_fewer_rows_than_features(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((14, 520))
    groups = np.arange(14) % 2
    subspace = fit_model(rows, groups, **OBLIQUE).subspace_
    orthogonal = rng.standard_normal(520)
    centered = rows - rows.mean(axis=0)
    orthogonal -= np.linalg.lstsq(centered, centered @ orthogonal, rcond=None)[0]
    encoder = subspace.components.copy()
    encoder[1] += 1e-5 * orthogonal
    assert_refused(
        replace(subspace, components=encoder), rows, groups, tmp_path, "The encoder differs"
    )


def test_an_encoder_of_a_small_component(tmp_path):
    rows = X * [1.0, 1.0, 1e-6, 1e-6, 1e-6, 1e-6]
    subspace = fit_model(rows, d=3, **OBLIQUE).subspace_
    small = int(np.argmin(subspace.transform(rows).var(axis=0)))
    encoder = subspace.components.copy()
    # Along another small component, so that it still undoes the decoder.
    rng = np.random.default_rng(0)
    orthogonal = rng.standard_normal(6)
    decoder = subspace.projector.decoder
    orthogonal -= decoder @ (decoder.T @ orthogonal)
    encoder[small] += 1e-5 * orthogonal
    assert_refused(replace(subspace, components=encoder), rows, GROUPS, tmp_path, "")


def small_and_large():
    """A component of 1e-10 of the variance, and a group whose rows are 1e-5 of the others."""
    rows = X * [1.0, 1e-5, 1e-5, 1e-7, 1e-7, 1e-7]
    return rows, GROUPS


@pytest.mark.parametrize("factor", [100.0, 0.01, 1.001])
def test_each_component_is_evaluated_in_its_own_size(factor, tmp_path):
    rows, groups = small_and_large()
    model = fit_model(rows, groups, d=3, criterion="total_error", whiten=True)
    subspace, variances = model.subspace_, model.explained_variance_
    assert variances[2] < 1e-9 * variances[0]
    whitening = subspace.whitening * [1, 1, np.sqrt(factor)]
    forgery = replace(subspace, whitening=whitening)
    assert_refused(forgery, rows, groups, tmp_path, "squared whitening =")
    for name in (
        "explained_variance_",
        "explained_variance_ratio_",
        "group_explained_variance_ratio_",
    ):
        value = getattr(model, name)
        setattr(model, name, value * [1, 1, factor])
        result = verify(model, rows, groups)
        assert not result.holds
        assert f"{name} =" in result.messages[0]
        setattr(model, name, value)


@pytest.mark.parametrize("factor", [0.0, 10.0, 1.001])
@pytest.mark.parametrize("name", ["errors", "losses"])
def test_each_group_is_evaluated_in_its_own_size(name, factor, tmp_path):
    rows = np.where((GROUPS[0] == GROUPS)[:, None], X - X.mean(axis=0), 1e-6 * X)
    model = fit_model(rows, criterion="total_error", center="group")
    certificate = model.solution_
    small = int(np.argmin(certificate.errors))
    assert certificate.errors[small] < 1e-10 * certificate.errors.max()
    values = getattr(certificate, name).copy()
    values[small] *= factor
    forgery = replace(model.subspace_, certificate=replace_claims(certificate, **{name: values}))
    assert_refused(forgery, rows, GROUPS, tmp_path, f"{name} =")


def dates(offset, deviation, n=200):
    """Return rows with a column of dates, and the groups."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 5)) * [1.0, 3.0, 2.0, 1.0, 1.0]
    groups = np.arange(n) % 2
    rows[groups == 1, 2] += 1
    rows[:, 0] = offset + deviation * rows[:, 0]
    return rows, groups


def multiply_claims(subspace, factor):
    """Return a subspace with all figures in units of the objective times a factor."""
    certificate = subspace.certificate
    names = ("objective", "lower_bound", "scale", "absolute_tol", "errors", "losses")
    return replace(
        subspace,
        certificate=replace_claims(
            certificate, **{name: factor * getattr(certificate, name) for name in names}
        ),
    )


DATES = [(1.7e9, 1e7), (1.7e12, 1e10), (1.7e15, 1e13), (1.7e18, 1e16), (1.7e15, 0), (1e9, 1e-5)]


@parametrize_diagonal(
    pytest.mark.slow,
    column=DATES,
    settings=[
        {"criterion": "minimax_loss", "center": "global"},
        {"criterion": "total_error", "center": "none"},
        {"criterion": "minimax_error", "center": "group"},
    ],
)
def test_room_for_rounding_is_a_share_of_what_is_claimed(column, settings):
    rows, groups = dates(*column)
    model = fit_model(rows, groups, **settings)
    certificate = model.solution_
    assert certificate.objective > 0.01
    for factor in (0.0, 0.9, 1.0001, 1.1, 2.0, 1e4):
        assert not verify(multiply_claims(model.subspace_, factor), rows, groups).holds
    for name in ("objective", "lower_bound", "errors", "losses"):
        value = getattr(certificate, name) + 0.001 * certificate.objective
        forgery = replace(model.subspace_, certificate=replace_claims(certificate, **{name: value}))
        assert not verify(forgery, rows, groups).holds


def test_figures_that_rounding_may_have_made_are_not_verified():
    rows, groups = dates(1.7e18, 1e16)
    model = fit_model(rows, groups, criterion="total_error")
    result = verify(multiply_claims(model.subspace_, 2.0), rows, groups)
    assert "cannot be verified" in result.messages[0]
    result = verify(multiply_claims(model.subspace_, 1e30), rows, groups)
    assert "cannot be verified" not in str(result)


@parametrize_diagonal(
    pytest.mark.slow, size=[1.0, 1e4, 1e7], eigen=["thin", "matrix-free", "projected"]
)
def test_the_record_of_how_it_was_solved_loosens_nothing(eigen, size):
    rows = X * [size, 1, 1, 1, 1, 1]
    subspace = fit_model(rows, criterion="minimax_error").subspace_
    # Of ordinary PCA, with what it loses.
    other = fit_model(rows[:, ::-1], criterion="minimax_error").subspace_
    worse = np.ascontiguousarray(other.components)
    for altered in (
        multiply_claims(subspace, 0.5),
        multiply_claims(subspace, 1.1),
        replace(subspace, components=worse),
    ):
        certificate = replace_claims(
            altered.certificate, eigensolver=eigen, components=altered.components
        )
        for status in ("optimal", "estimated", "unresolved"):
            forgery = replace(altered, certificate=replace_claims(certificate, status=status))
            assert not verify(forgery, rows, GROUPS).holds
    assert verify(
        replace(subspace, certificate=replace_claims(subspace.certificate, eigensolver=eigen)),
        rows,
        GROUPS,
    ).holds


def sparse(monkeypatch, **settings):
    """Fit sparse rows, which are verified without matrices too."""
    monkeypatch.setattr("fairspan.moments.compute.MAX_DENSE_FEATURES", 20)
    monkeypatch.setattr("fairspan.moments.row_moments._MAX_MATRIX_ENTRIES", 0)
    rng = np.random.default_rng(1)
    rows = scipy.sparse.random(60, 40, 0.3, format="csr", random_state=rng)
    groups = np.repeat(["a", "b"], 30)
    return fit_model(rows, groups, **settings).subspace_, rows, groups


CHANGES = {
    "times 0": lambda value: 0 * value,
    "times 1.01": lambda value: 1.01 * value,
    "times 1,000": lambda value: 1000 * value,
    "negated": lambda value: -value,
    "above": lambda value: value + 1,
    "infinite": lambda value: value + np.inf,
}


@pytest.mark.parametrize(
    ("criterion", "restriction"),
    [
        ("minimax_loss", None),
        *(
            pytest.param(criterion, restriction, marks=pytest.mark.slow)
            for criterion, restriction in [
                ("minimax_error", None),
                ("total_error", None),
                ("minimax_error", MeanParity()),
                ("minimax_loss", MeanParity()),
                ("total_error", MeanParity()),
            ]
        ),
    ],
    ids=str,
)
def test_fields_of_sparse_rows_are_computed_again(criterion, restriction, monkeypatch):
    subspace, rows, groups = sparse(monkeypatch, criterion=criterion, restriction=restriction)
    certificate = subspace.certificate
    assert certificate.status == "estimated"
    assert "was not verified" in str(verify(subspace, rows, groups))
    for name in ("objective", "errors", "losses", "scale", "absolute_tol", "resolution"):
        for how, change in CHANGES.items():
            # The size of room for rounding is known up to a factor.
            if name == "resolution" and how in ("times 1.01", "negated"):
                continue
            value = change(getattr(certificate, name))
            if np.array_equal(value, getattr(certificate, name)):
                continue
            forgery = replace(subspace, certificate=replace_claims(certificate, **{name: value}))
            assert not verify(forgery, rows, groups).holds, (name, how)
    above = certificate.objective * (1 + 1e-6)
    for bound in (above, np.inf, np.nan, -np.inf, 0.5 * certificate.lower_bound):
        forgery = replace(subspace, certificate=replace(certificate, lower_bound=bound))
        assert not verify(forgery, rows, groups).holds
    for bound in (certificate.lower_bound, certificate.objective):
        called_open = replace_claims(certificate, lower_bound=bound, status="open gap")
        result = verify(replace(subspace, certificate=called_open), rows, groups)
        assert not result.holds
        assert "its own gap" in result.messages[0]


def assert_changes_of_figures_are_refused(subspace, rows, groups):
    """Check that altered figures are refused, also where matrices have another resolution."""
    certificate = subspace.certificate
    changes = {
        "absolute_tol": (0.0, 2.0, 1e3),
        "resolution": (0.0, 1e10),
        "lower_bound": (0.99, 1.01, 2.0),
        "losses": (0.0, 1.01),
        "errors": (0.0, 1.01),
        "objective": (0.0, 1.01),
        "scale": (0.0, 1.01),
    }
    for name, factors in changes.items():
        for factor in factors:
            value = factor * getattr(certificate, name)
            forgery = replace(subspace, certificate=replace_claims(certificate, **{name: value}))
            result = verify(forgery, rows, groups)
            is_named = "lower bound was not" in str(result)
            below = name == "lower_bound" and factor < 1
            assert not result.holds or (below and is_named), (name, factor)
    for factor in (0.1, 10.0):
        altered = replace_claims(certificate, resolution=factor * certificate.resolution)
        result = verify(replace(subspace, certificate=altered), rows, groups)
        assert not result.holds or "order of magnitude" in str(result)


@pytest.mark.parametrize(
    "criterion", mark_most_slow(["minimax_loss", "minimax_error", "total_error"], 3)
)
def test_fields_of_sparse_rows_that_fit_into_matrices(criterion, monkeypatch):
    monkeypatch.setattr("fairspan.moments.compute.MAX_DENSE_FEATURES", 20)
    monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 20)
    rng = np.random.default_rng(1)
    rows = scipy.sparse.random(36, 40, 0.3, format="csr", random_state=rng)
    groups = np.repeat(["a", "b"], 18)
    subspace = fit_model(rows, groups, criterion=criterion).subspace_
    assert subspace.certificate.status == "estimated"
    assert_changes_of_figures_are_refused(subspace, rows, groups)


@pytest.mark.long
@pytest.mark.parametrize("criterion", ["minimax_error", "minimax_loss", "total_error"])
@pytest.mark.parametrize("shape", [(280, 1600), (300, 13_000)], ids=str)
@pytest.mark.parametrize("eigensolver", ["matrix-free", "thin"])
def test_fields_of_sparse_rows_of_many_features(criterion, shape, eigensolver, monkeypatch):
    if eigensolver == "matrix-free":
        monkeypatch.setattr("fairspan.moments.compute.MAX_SQUARED_SPARSE_RATIO", 0)
    rng = np.random.default_rng(7)
    rows = scipy.sparse.random(
        *shape, 0.02, format="csr", random_state=rng, data_rvs=rng.standard_normal
    )
    groups = np.array(["a", "b"] * (shape[0] // 2))
    subspace = fit_model(rows, groups, criterion=criterion).subspace_
    assert subspace.certificate.eigensolver == eigensolver
    assert_changes_of_figures_are_refused(subspace, rows, groups)


@pytest.mark.parametrize("case", ["two groups", "restricted", "nested"])
def test_a_bound_above_the_objective_never_holds(case):
    settings = {"restriction": MeanParity()} if case == "restricted" else {}
    subspace = fit_model(**settings, nested=case == "nested").subspace_
    certificate = subspace.certificate
    for factor in (1 + 1e-6, 1.1, 10):
        bound = factor * certificate.objective
        for status in ("optimal", "unresolved", "estimated", "open gap"):
            altered = replace_claims(certificate, lower_bound=bound, status=status)
            assert not verify(replace(subspace, certificate=altered), X, GROUPS).holds


@pytest.mark.parametrize(
    ("large", "small", "angle"), [(1e9, 1.0, 1e-10), (1e5, 1e-5, 9e-11), (1e6, 1e-3, 1e-9)]
)
def test_equal_means_are_evaluated_in_units_of_each_coordinate(large, small, angle, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 4))
    groups = np.arange(200) % 2
    # Means differ along the large column, and a small component is turned towards it.
    rows[groups == 1, 0] += 3
    rows *= [large, small, small, small]
    subspace = fit_model(
        rows, groups, d=1, criterion="total_error", restriction=MeanParity()
    ).subspace_
    components = subspace.components.copy()
    components[0, 0] += angle
    certificate = replace(subspace.certificate, components=components)
    forgery = replace(subspace, components=components, certificate=certificate)
    means = np.array([forgery.transform(rows[groups == group]).mean() for group in (0, 1)])
    spread = np.sqrt(np.mean([forgery.transform(rows[groups == group]).var() for group in (0, 1)]))
    assert abs(means[1] - means[0]) > 0.05 * spread
    assert_refused(forgery, rows, groups, tmp_path, "")
