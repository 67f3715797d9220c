"""Properties of every fit: restricted, nested, soft, scaled or whitened."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pytest

import fairspan as fs
from fairspan import FairPCA, FairSubspace, GroupMoments, MeanParity
from numpy_reference import assert_same_certificate, random_rows

THREE = random_rows(33, n=150, p=6, groups=("a", "b", "c"), offset=1.0)
SEVERAL = np.column_stack([THREE.labels, np.arange(150) // 7 % 2])
CLASSES = np.arange(150) * 7 % 11 % 2
# Three lines in a plane, which no one line serves as well as a soft projection does.
LINES = np.array([[1.0, 0], [0.5, 0.75**0.5], [-0.6, 0.9]])


@dataclass(eq=False)
class Kind:
    settings: dict
    d: int = 2
    X: np.ndarray = field(default_factory=lambda: THREE.X)
    groups: np.ndarray = field(default_factory=lambda: THREE.labels)
    y: np.ndarray | None = None
    restricted_by: str | None = None

    def estimator(self):
        return FairPCA(self.d, **{"criterion": "total_error"} | self.settings)

    @cached_property
    def model(self):
        return self.estimator().fit(self.X, self.y, sensitive_features=self.groups)


KINDS = {
    "scaled": Kind({"scale": True, "criterion": "minimax_loss"}),
    "about each group": Kind({"center": "group", "criterion": "minimax_loss"}),
    "about the origin": Kind({"center": "none", "criterion": "minimax_loss"}),
    "relative": Kind({"criterion": fs.MinimaxLoss(relative=True)}),
    "whitened": Kind({"whiten": True, "scale": True, "criterion": "minimax_error"}),
    "nested": Kind({"nested": True, "criterion": "minimax_loss"}, d=4),
    "nested parity": Kind(
        {"nested": True, "criterion": "minimax_loss", "restriction": MeanParity()},
        d=4,
        restricted_by="MeanParity(tolerance=0.0)",
    ),
    "soft": Kind(
        {"allow_extra": True, "criterion": "minimax_error"},
        1,
        np.repeat(np.vstack([LINES, -LINES]), 6, axis=0),
        np.repeat([*"abcabc"], 6),
    ),
    "mean parity": Kind({"restriction": MeanParity()}, restricted_by="MeanParity(tolerance=0.0)"),
    "marginal parity": Kind(
        {"restriction": MeanParity(attributes="marginal")},
        groups=SEVERAL,
        restricted_by="MeanParity(tolerance=0.0, attributes='marginal')",
    ),
    "parity given labels": Kind(
        {"restriction": MeanParity(within_classes=[1])},
        y=CLASSES,
        restricted_by="MeanParity(tolerance=0.0, within_classes=(1,))",
    ),
    "oblique": Kind(
        {"restriction": MeanParity(oblique=True), "scale": True},
        restricted_by="MeanParity(tolerance=0.0, oblique=True)",
    ),
    "covariance parity": Kind(
        {"restriction": fs.CovarianceParity(n_directions=3)},
        groups=SEVERAL[:, 1],
        restricted_by="CovarianceParity(n_directions=3, tolerance=None)",
    ),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def mark_slow(names):
    """Return all kinds, and mark those with these names as slow."""
    marks = {name: [pytest.mark.slow] for name in names}
    return [pytest.param(kind, id=name, marks=marks.get(name, [])) for name, kind in KINDS.items()]


@each_kind
def test_errors_are_those_of_the_reconstructed_rows(kind):
    model = kind.model
    codes = fs.GroupMoments.from_rows(np.arange(len(kind.X))[:, None] * 1.0, kind.groups)
    assert model.groups_.tolist() == codes.groups.tolist()
    if model.center == "group":
        return
    scores = model.score_samples(kind.X)
    residual = kind.X - model.inverse_transform(model.transform(kind.X))
    residual = residual if model.scale_ is None else residual / model.scale_
    np.testing.assert_allclose(scores, -(residual**2).sum(axis=1), rtol=1e-8, atol=1e-12)
    rows = np.column_stack([np.ones(len(scores)), -scores])
    errors = GroupMoments.from_rows(rows, kind.groups).means[:, 1]
    np.testing.assert_allclose(model.group_errors_, errors, rtol=1e-9)


@each_kind
def test_the_saved_model_is_the_fitted_one(kind, tmp_path):
    model = kind.model
    model.subspace_.save(tmp_path / "model")
    copy = FairSubspace.load(tmp_path / "model")
    assert_same_certificate(copy.certificate, model.subspace_.certificate)
    assert copy.certificate.restriction_text == kind.restricted_by
    for name in ("is_soft", "is_oblique", "is_nested", "n_components", "dimension", "center"):
        assert getattr(copy, name) == getattr(model.subspace_, name)
    Z = model.transform(kind.X)
    np.testing.assert_array_equal(copy.transform(kind.X), Z)
    np.testing.assert_array_equal(copy.inverse_transform(Z), model.inverse_transform(Z))
    if model.nested:
        first = copy.truncate(2)
        np.testing.assert_array_equal(first.components, copy.components[:2])
        assert fs.verify(first, kind.X, kind.groups)
    assert fs.verify(copy, kind.X, kind.groups, y=kind.y).holds
    assert not fs.verify(copy, kind.X, np.roll(kind.groups, 7, axis=0), y=kind.y).holds
    if kind.y is not None:
        assert not fs.verify(copy, kind.X, kind.groups, y=1 - kind.y).holds


@pytest.mark.parametrize("kind", mark_slow(["soft", "whitened", "nested parity"]))
def test_parts_of_the_rows_give_the_fit_of_all(kind):
    model = kind.model
    parts = kind.estimator()
    moments = []
    for rows in (slice(i, None, 3) for i in range(3)):
        X = kind.X[rows]
        groups = kind.groups[rows]
        y = None if kind.y is None else kind.y[rows]
        parts.partial_fit(X, y, sensitive_features=groups)
        moments.append(GroupMoments.from_rows(X, groups, y=y))
    for other in (parts, kind.estimator().fit_moments(sum(moments))):
        np.testing.assert_allclose(other.components_, model.components_, atol=1e-7)
        np.testing.assert_allclose(other.group_errors_, model.group_errors_, rtol=1e-8)


SLOW_AUDITS = ["soft", "whitened", "nested", "nested parity", "parity given labels"]


@pytest.mark.parametrize("kind", mark_slow(SLOW_AUDITS))
def test_an_audit_has_its_errors(kind):
    check_audit(kind, "rows" if [*KINDS.values()].index(kind) % 2 == 0 else "blocks")


@pytest.mark.long
@each_kind
def test_an_audit_has_its_errors_either_way(kind):
    for source in ("rows", "blocks"):
        check_audit(kind, source)


def check_audit(kind, source):
    model = kind.model
    if source == "rows":
        result = fs.audit(model, kind.X, kind.groups, y=kind.y, folds=5)
    else:
        classes = [None if kind.y is None else kind.y[i::6] for i in range(6)]
        result = fs.audit(
            model,
            moments=[
                GroupMoments.from_rows(kind.X[i::6], kind.groups[i::6], y=labels)
                for i, labels in enumerate(classes)
            ],
        )
    mine, plain = result.models
    errors = [group.observed_error.value for group in mine.groups]
    np.testing.assert_allclose(errors, model.group_errors_, rtol=1e-9, atol=1e-12)
    assert [group.group for group in mine.groups] == [*map(tuple_of, model.groups_)]
    assert (plain.name, plain.n_components) == ("PCA", mine.n_components)
    assert mine.n_components == model.subspace_.dimension
    assert mine.is_nested == model.nested
    assert mine.no_estimates_reason is None


@each_kind
def test_its_proof_bounds_a_refit_to_other_rows(kind):
    model = kind.model
    half = np.arange(len(kind.X)) % 5 < 3
    X = kind.X[half] * 1.1 + 0.2
    groups = kind.groups[half]
    y = None if kind.y is None else kind.y[half]
    moments = GroupMoments.from_rows(X, groups, y=y)
    # Without the classes of the rows, nothing is known of what a restriction asks of them.
    for labels in (y, None) if y is not None else (None,):
        bound = fs.audit(model, X, groups, y=labels, folds=None).models[0].refit_bound
        assert (bound.no_bound_reason is None) == (labels is y)
    posed = moments if model.scale_ is None else moments.divided_by(model.scale_)
    solution = kind.estimator().set_params(scale=False).fit_moments(posed).solution_
    bound = fs.audit(model, X, groups, y=y, folds=None).models[0].refit_bound
    assert bound.lower_bound <= solution.objective + 1e-9 * solution.scale + solution.resolution
    assert bound.criterion == model.solution_.problem_text


def tuple_of(label):
    return tuple(label) if isinstance(label, list | np.ndarray) else label
