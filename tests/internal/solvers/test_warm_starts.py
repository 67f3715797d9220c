"""Searches that begin at a known answer end where a cold start does, in any number of features."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse

import fairspan
from fairspan import DualNewton, FairPCA, GroupMoments, MeanParity, NashWelfare
from fairspan.errors import InvalidInput
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.extending import Problem
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.problem.warm_start import WarmStart
from fairspan.registry import builtin_names
from fairspan.solvers.growing_subspace import solve_growing

FloatArray = npt.NDArray[np.float64]

CRITERIA = builtin_names("criterion")
# A small subspace is grown from 500 features on, where the spectrum decays.
FEATURES = (499, 500, 501, 800)
SPECTRA = ("decaying", "flat")


def deviations(p: int, spectrum: str) -> FloatArray:
    return np.ones(p) if spectrum == "flat" else 0.9 ** np.arange(p) + 1e-3


def groups_of_rows(p: int, k: int, spectrum: str, n: int = 900) -> tuple[FloatArray, FloatArray]:
    """Return rows and groups: each group varies more along a feature of its own."""
    rng = np.random.default_rng(p + k)
    groups = np.arange(n) % k
    rows = rng.standard_normal((n, p)) * deviations(p, spectrum)
    for group in range(k):
        rows[groups == group, group] *= 2 + group
    return rows, groups


def diagonal_moments(p: int, spectrum: str, share: float = 0.0) -> GroupMoments:
    """Return moments of two groups whose answers move with `share`."""
    variances = np.array([deviations(p, spectrum) ** 2] * 2)
    variances[0, :3] += 4 + share
    variances[1, 2:5] += 5 - share
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))[0]
    matrices = np.array([np.diag(diagonal) for diagonal in variances])
    # The two groups share no eigenvectors.
    matrices[1, :8, :8] = turn @ matrices[1, :8, :8] @ turn.T
    return GroupMoments.from_covariances(matrices)


@pytest.mark.parametrize("spectrum", ["decaying", pytest.param("flat", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "p", [pytest.param(499, marks=pytest.mark.long), 500, pytest.param(501, marks=pytest.mark.long)]
)
def test_a_warm_start_ends_where_a_cold_one_does(p: int, spectrum: str) -> None:
    near = fit_moments(
        diagonal_moments(p, spectrum, 0.1), FitSettings.parse(3, "nash_welfare")
    ).certificate
    moments = diagonal_moments(p, spectrum)
    start = WarmStart(near.weights, near.components.T)
    cold, warm = (
        fit_moments(
            moments, FitSettings.parse(3, "nash_welfare"), warm_start=warm_start
        ).certificate
        for warm_start in (None, start)
    )
    assert cold.status == warm.status == "optimal"
    assert warm.objective == pytest.approx(cold.objective, rel=1e-9)
    assert warm.errors == pytest.approx(cold.errors, rel=1e-4)


@pytest.mark.slow
def test_wrong_directions_of_a_start_do_not_change_the_solution() -> None:
    moments = diagonal_moments(500, "decaying")
    settings = FitSettings.parse(3, "minimax_loss")
    cold = fit_moments(moments, settings).certificate
    # Along the features that vary least, for both groups.
    start = WarmStart(cold.weights, directions=(np.eye(500)[:, -9:],) * 2)
    warm = fit_moments(moments, settings, warm_start=start).certificate
    assert warm.status == cold.status == "optimal"
    assert warm.objective == pytest.approx(cold.objective, rel=1e-9)


@pytest.mark.parametrize("criterion", ["nash_welfare", "minimax_error"])
def test_a_start_is_projected_onto_the_subspace_that_grows(criterion: str) -> None:
    matrices = diagonal_moments(60, "decaying").second_moments("group")
    problem = Problem(
        DenseSecondMoments(matrices),
        ["a", "b"],
        np.ones(2),
        3,
        get_criterion(criterion),
    )
    # The worst start there is: along the features that vary least.
    start = WarmStart(np.array([0.5, 0.5]), np.eye(60)[:, -3:])
    cold = solve_growing(problem, DualNewton(), 1e-9)
    warm = solve_growing(replace(problem, warm_start=start), DualNewton(), 1e-9)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-9)
    assert warm.status == cold.status == "optimal"


def test_a_start_in_other_coordinates_is_refused() -> None:
    second = DenseSecondMoments(np.array([np.eye(4)]))
    problem = Problem(
        second, ["a"], np.ones(1), 1, NashWelfare(), warm_start=WarmStart(np.ones(1), np.eye(4))
    )
    with pytest.raises(InvalidInput, match="in 4 coordinates"):
        replace(problem, second_moments=DenseSecondMoments(np.array([np.eye(3)])))


def test_a_start_along_axes_spans_its_projection_onto_them() -> None:
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((6, 4)))[0]
    start = WarmStart(np.ones(1), axes @ np.eye(4)[:, 1:3])
    inside = start.within(axes).basis
    assert inside is not None
    assert inside @ inside.T == pytest.approx(np.diag([0.0, 1.0, 1.0, 0.0]), abs=1e-12)


@pytest.mark.slow
def test_an_audit_fits_nash_welfare_again_in_many_features() -> None:
    rows, groups = groups_of_rows(500, 2, "decaying", n=600)
    model = FairPCA(3, criterion="nash_welfare").fit(rows, sensitive_features=groups)
    audit = fairspan.audit(model, rows, groups, folds=5)
    assert np.isfinite([group.cross_fitted_loss for group in audit.models[0].groups]).all()


def fit_criterion(rows: FloatArray, groups: FloatArray, criterion: str, kind: str) -> FairPCA:
    restriction = MeanParity() if kind == "restricted" else None
    model = FairPCA(3, criterion=criterion, restriction=restriction, tol=1e-6)
    return model.fit(
        sparse.csr_array(rows) if kind == "sparse" else rows, sensitive_features=groups
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ["plain", "restricted", "few rows", "sparse"])
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("p", FEATURES)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_every_criterion_is_fitted_again_in_many_features(
    criterion: str, p: int, spectrum: str, kind: str, tmp_path: Path
) -> None:
    rows, groups = groups_of_rows(p, 2, spectrum, n=200 if kind == "few rows" else 900)
    if kind == "sparse":
        rows[np.abs(rows) < 0.5 * rows.std(axis=0)] = 0.0
    model = fit_criterion(rows, groups, criterion, kind)
    audit = fairspan.audit(model, rows, groups, folds=5)
    reasons = [finding.message for finding in audit.findings if finding.code == "FS110"]
    if criterion == "equal_error" and reasons:
        # Without a part of the rows no subspace may have equal errors, as a fit of the rest says.
        assert all("smallest achievable gap" in reason for reason in reasons)
        return
    assert np.isfinite([group.cross_fitted_loss for group in audit.models[0].groups]).all()
    # A report solves for dozens of dimensions, from the weights of the one before.
    if kind == "plain" and (p == 500 or criterion == "nash_welfare"):
        path = tmp_path / "report.html"
        fairspan.write_report(path, rows, groups, n_components=3, criterion=criterion, folds=5)
        assert path.stat().st_size
