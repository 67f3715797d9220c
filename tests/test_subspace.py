import pickle
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairspan import FairPCA, FairSubspace, GroupMoments, MinimaxError, audit
from fairspan.errors import FairspanWarning, InvalidInput
from numpy_reference import assert_same_certificate, random_rows

ROWS = random_rows(21, n=50, p=4)
NAMES = ("w", "x", "y", "z")
BASIS = np.linalg.qr(np.random.default_rng(5).standard_normal((4, 2)))[0].T
SCALE = np.array([1.0, 2.0, 0.5, 4.0])
NAMED = FairSubspace(BASIS, ROWS.X.mean(axis=0), SCALE, feature_names=NAMES)
STANDARDIZED = (ROWS.X - ROWS.X.mean(axis=0)) / SCALE
COLUMNS = dict(zip(NAMES, ROWS.X.T, strict=True))


def test_coordinates_and_reconstruction_are_those_of_the_formulas():
    Z = NAMED.transform(ROWS.X)
    np.testing.assert_allclose(Z, STANDARDIZED @ BASIS.T, atol=1e-12)
    back = NAMED.inverse_transform(Z)
    np.testing.assert_allclose(back, Z @ BASIS * SCALE + ROWS.X.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(NAMED.transform(back), Z, atol=1e-12)
    residual = STANDARDIZED - STANDARDIZED @ BASIS.T @ BASIS
    errors = NAMED.projector.squared_residuals(STANDARDIZED)
    np.testing.assert_allclose(errors, (residual**2).sum(axis=1), atol=1e-12)
    assert (NAMED.n_components, NAMED.n_features) == (2, 4)


def test_without_mean_and_scale_the_rows_are_projected_as_they_are():
    bare = FairSubspace(BASIS, None)
    np.testing.assert_allclose(bare.transform(ROWS.X), ROWS.X @ BASIS.T, atol=1e-12)
    np.testing.assert_allclose(bare.inverse_transform(np.eye(2)), BASIS, atol=1e-12)


UNNAMED = FairSubspace(BASIS, np.zeros(4))
ANOTHER_WIDTH = r"\d features, but the model expects 4"
MISSING = r"no column 'x'.*fitted on 'w', 'x', 'y', 'z'"


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("order", [("w", "x", "y", "z"), ("z", "x", "w", "y")])
def test_columns_are_matched_by_name_and_others_ignored(kind, order):
    columns = {name: COLUMNS[name] for name in order}
    columns = {"sex": ROWS.labels.tolist(), **columns, "extra": ["text"] * 50}
    np.testing.assert_array_equal(NAMED.transform(kind(columns)), NAMED.transform(ROWS.X))
    del columns["x"]
    with pytest.raises(InvalidInput, match=MISSING):
        NAMED.transform(kind(columns))


@pytest.mark.parametrize("rows", [pd.DataFrame(COLUMNS), pd.DataFrame(ROWS.X)])
def test_a_frame_without_the_names_of_the_fit_is_taken_by_position(rows):
    np.testing.assert_allclose(UNNAMED.transform(rows), ROWS.X @ BASIS.T, atol=1e-12)


@pytest.mark.parametrize("subspace", [NAMED, UNNAMED], ids=["named", "unnamed"])
@pytest.mark.parametrize(
    ("rows", "expected_text"),
    [
        *((rows, ANOTHER_WIDTH) for rows in (ROWS.X[:, :3], np.ones((2, 5)), [[1.0]])),
        (np.full((2, 4), np.nan), "NaN"),
        ([["a"] * 4], "text"),
        (np.ones(4), "1 dimension"),
        (pd.DataFrame({n: ["a"] for n in NAMES}), "not numeric"),
    ],
)
def test_unusable_rows_are_refused(rows, expected_text, subspace):
    with pytest.raises(InvalidInput, match=expected_text):
        subspace.transform(rows)
    with pytest.raises(InvalidInput, match="3 coordinates, but the model expects 2"):
        subspace.inverse_transform(np.ones((2, 3)))


def fit_model(**settings):
    frame = pd.DataFrame(COLUMNS).assign(sex=ROWS.labels)
    return FairPCA(2, **settings).fit(frame, sensitive_features="sex").subspace_


@pytest.mark.parametrize("center", ["global", "group", "none"])
@pytest.mark.parametrize("scale", [False, True])
def test_save_and_load_keep_everything(tmp_path, center, scale):
    subspace = fit_model(center=center, scale=scale)
    subspace.save(tmp_path / "model.v1")
    copy = FairSubspace.load(tmp_path / "model.v1")
    for name in ("components", "mean", "scale"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(subspace, name))
    assert (copy.center, copy.feature_names) == (center, NAMES)
    assert_same_certificate(copy.certificate, subspace.certificate)
    assert copy.transform(ROWS.X).tobytes() == subspace.transform(ROWS.X).tobytes()
    copy.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model.v1").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "model.v1"]


def test_the_certificate_describes_the_problem_and_its_proof():
    certificate = fit_model(criterion="minimax_error").certificate
    message = (
        certificate.criterion,
        certificate.solver,
        certificate.status,
        certificate.groups,
        certificate.counts,
    )
    assert message == (MinimaxError(), "boundary", "optimal", ("a", "b"), (25, 25))
    assert certificate.objective == pytest.approx(max(certificate.errors))
    assert certificate.total_variance == pytest.approx(ROWS.X.var(axis=0).sum())
    assert 0 <= certificate.gap <= 1e-9 * certificate.total_variance


@pytest.mark.parametrize("labels", [[1, 2], [True, False], [0.5, 1.5], [("a", 1), ("b", 2)]])
def test_groups_in_the_certificate_keep_their_type(tmp_path, labels):
    moments = GroupMoments.from_rows(ROWS.X, labels * 25)
    subspace = FairPCA(1).fit_moments(moments).subspace_
    subspace.save(tmp_path / "out")
    groups = FairSubspace.load(tmp_path / "out").certificate.groups
    assert list(map(repr, groups)) == list(map(repr, sorted(labels)))


def test_a_bare_subspace_is_saved_and_pickled_too(tmp_path):
    FairSubspace(BASIS, None).save(tmp_path / "out")
    for again in (FairSubspace.load(tmp_path / "out"), pickle.loads(pickle.dumps(NAMED))):
        np.testing.assert_array_equal(again.components, BASIS)
    copy = FairSubspace.load(tmp_path / "out")
    assert (copy.mean, copy.scale, copy.feature_names, copy.certificate) == (None,) * 4


def test_repr_is_short():
    assert repr(NAMED) == "<FairSubspace of 2 in 4 features>"
    assert repr(fit_model()) == "<FairSubspace of 2 in 4 features, minimax_loss>"
    assert "certificate" not in repr(replace(NAMED, center="none"))


def test_all_directions_give_zero_loss():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)) * [1e4, 1, 1, 1, 1e-3]
    groups = np.repeat(["a", "b"], 30)
    model = FairPCA(5).fit(X, sensitive_features=groups)
    table = audit(model, X, sensitive_features=groups).frame()
    figures = table[["observed_error", "observed_loss", "expected_error", "expected_loss"]]
    assert (figures.to_numpy() == 0).all()


@pytest.mark.parametrize(
    ("factor", "n", "warns"), [(1000, 50, True), (3, 50, False), (1000, 9, False)]
)
def test_rows_in_other_units_are_reported(factor, n, warns):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((200, 6)), columns=list("abcdef"))
    fair = FairPCA(2, scale=True).fit(X, sensitive_features=["u", "v"] * 100)
    X.loc[: n // 2 + 1, "d"] *= factor  # of little more than half of the rows
    warning = pytest.warns(FairspanWarning, match="mostly in 'd'")
    with warning if warns else nullcontext():
        fair.transform(X[:n])


def test_single_rows_with_long_tails_are_not_reported():
    X = np.random.default_rng(0).standard_normal((200, 6))
    fair = FairPCA(2).fit(X, sensitive_features=["u", "v"] * 100)
    X[:90] *= 1e6
    fair.transform(X)
