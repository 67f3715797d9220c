"""The methods that the paper compares, each as a function of training moments and a setting.

Rows come centered by the training part's mean, so RFPCA, PCA and CFPCA measure errors about the
origin. FairPCA measures them about each group's own mean, as the code of Samadi et al. does: only
that gives the printed ARE (Statlog 8.0, Image 10.3, Wine 5.9; about the common mean, 3.1, 5.9 and
4.1).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.criteria.error_gap import RobustErrorGap
from fairspan.problem.restrictions.covariance_parity import CovarianceParity
from fairspan.problem.restrictions.mean_parity import MeanParity
from fairspan.solvers.published.multiplicative_weights import MultiplicativeWeights
from fairspan.solvers.published.riemannian import RiemannianSubgradient
from fairspan.solvers.two_groups.boundary_search import BoundarySearch

Setting = dict[str, float]

RADII = (0.05, 0.1, 0.15)
PENALTIES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
MEAN_TOLERANCES = (0.0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
LEARNING_RATES = (0.1, *(0.25 + 0.25 * i for i in range(17)))
# Far below any difference that a table shows, and half the eigenproblems of the default.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Method:
    """One method of the paper's tables.

    Attributes
    ----------
    name : str
    printed : str or None
        Its column in the printed tables.
    fit : callable
        (training moments, d, setting, seed) to a subspace.
    settings : tuple of dict
        What cross-validation chooses from; a single one is taken as it is.
    follows : str or None
        Takes the setting that the method of this name has chosen.
    max_features : int or None
        Left out above.
    """

    name: str
    printed: str | None
    fit: Callable[[GroupMoments, int, Setting, int], FairSubspace]
    settings: tuple[Setting, ...] = ({},)
    follows: str | None = None
    max_features: int | None = None


def grid(radii: tuple[float, ...], penalties: tuple[float, ...]) -> tuple[Setting, ...]:
    """Every pair of a radius alpha and a penalty lambda."""
    return tuple({"radius": a, "penalty": b} for a in radii for b in penalties)


def pca(moments: GroupMoments, d: int, setting: Setting, seed: int) -> FairSubspace:
    """Ordinary PCA about the training mean."""
    return fit_moments(moments, FitSettings.parse(d, "total_error", center="none")).subspace


def certified_rfpca(moments: GroupMoments, d: int, setting: Setting, seed: int) -> FairSubspace:
    """RFPCA by branch and bound, to a proven optimum."""
    return fit_moments(
        moments,
        FitSettings.parse(
            d, _robust(setting), center="none", solver=BoundarySearch(), tol=_TOLERANCE
        ),
    ).subspace


def papers_rfpca(
    n_starts: int, max_iter: int
) -> Callable[[GroupMoments, int, Setting, int], FairSubspace]:
    """RFPCA by the paper's Algorithm 1 from this many random starts."""

    def fit(moments: GroupMoments, d: int, setting: Setting, seed: int) -> FairSubspace:
        return fit_moments(
            moments,
            FitSettings.parse(
                d,
                _robust(setting),
                center="none",
                solver=RiemannianSubgradient(max_iter=max_iter, n_starts=n_starts),
                tol=_TOLERANCE,
                random_state=seed,
            ),
        ).subspace

    return fit


def exact_fair_pca(moments: GroupMoments, d: int, setting: Setting, seed: int) -> FairSubspace:
    """Fit the optimum of Samadi et al. (2018), about each group's own mean."""
    return fit_moments(moments, FitSettings.parse(d, "minimax_loss", center="group")).subspace


def multiplicative_fair_pca(
    moments: GroupMoments, d: int, setting: Setting, seed: int
) -> FairSubspace:
    """Fit by the multiplicative weights of Samadi et al., rounded to d components."""
    solver = MultiplicativeWeights(step_size=setting["rate"], max_iter=1000)
    return fit_moments(
        moments, FitSettings.parse(d, "minimax_loss", center="group", solver=solver)
    ).subspace


def mean_parity(moments: GroupMoments, d: int, setting: Setting, seed: int) -> FairSubspace:
    """CFPCA with its mean constraint, without its relaxation."""
    return fit_moments(
        moments,
        FitSettings.parse(
            d, "total_error", center="none", restriction=MeanParity(setting.get("tolerance", 0.0))
        ),
    ).subspace


def closest_covariances(moments: GroupMoments, d: int, setting: Setting, seed: int) -> FairSubspace:
    """CFPCA with both constraints where its penalty leaves no weight to the variance."""
    restriction = CovarianceParity(n_directions=d)
    return fit_moments(
        moments,
        FitSettings.parse(
            d, "total_error", center="none", restriction=restriction, solver="semidefinite"
        ),
    ).subspace


def limited_covariances(moments: GroupMoments, d: int, setting: Setting, seed: int) -> FairSubspace:
    """CFPCA with both constraints: variances differ by at most a share of the largest difference.

    The share of the spectral norm of C_1 - C_2 is the setting; where no subspace is within it, the
    least that one reaches.
    """
    first, second = moments.second_moments("group")
    # Any tolerance but zero: those with equal means along which rows vary.
    of_any = CovarianceParity(tolerance=1.0)
    free = of_any.allowed_directions(moments.means, np.array([first, second]), d)
    values = np.linalg.eigvalsh(free.T @ (first - second) @ free)
    # The eigenvalues of V'DV interlace with those of D, and every such set is reached.
    least = max(float(values[d - 1]), -float(values[len(values) - d]), 0.0)
    tolerance = max(setting["share"] * float(np.abs(values).max()), 1.1 * least)
    restriction = CovarianceParity(tolerance=tolerance)
    return fit_moments(
        moments,
        FitSettings.parse(
            d, "total_error", center="none", restriction=restriction, solver="semidefinite"
        ),
    ).subspace


def _robust(setting: Setting) -> RobustErrorGap:
    return RobustErrorGap(setting["penalty"], setting["radius"])
