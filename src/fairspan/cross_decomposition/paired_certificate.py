"""Certificates of pairs of subspaces: objective, proven bound, and status."""

import math
from dataclasses import dataclass

import numpy as np

from fairspan.certificates.status import GapAssessment, Status
from fairspan.cross_decomposition.cross_covariances import leading_pairs
from fairspan.cross_decomposition.paired_criteria import PairedCriterion, PairedProblem
from fairspan.linalg.rounding import EPS, LOOSE_TOL
from fairspan.moments.base_moments import Center
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray

# An objective of at most this many resolutions cannot be distinguished from zero.
_ZERO_RESOLUTIONS = 2.0


@dataclass(frozen=True)
class PairedStatement:
    """The problem that a certificate is about.

    Attributes
    ----------
    method : {"pls", "cca"}
        Whether covariances are those of the columns, or of both tables whitened.
    criterion : PairedCriterion
    n_components : int
        d.
    groups : tuple of k labels
    counts : tuple of k int
        Number of rows of each group.
    center : {"global", "group", "none"}
        Point about which covariances are computed.
    regularization : float
        Share by which pooled covariances are shrunk before whitening.
    restriction : Restriction or None
    restricted_tables : {"both", "x", "y"}
        Tables to which the restriction applies.
    """

    method: str
    criterion: PairedCriterion
    n_components: int
    groups: tuple[Label, ...]
    counts: tuple[int, ...]
    center: Center
    regularization: float = 0.0
    restriction: Restriction | None = None
    restricted_tables: str = "both"


@dataclass(frozen=True, eq=False)
class PairedFigures:
    """Figures that a pair reaches.

    Attributes
    ----------
    objective : float
        Value of the criterion.
    lower_bound : float
        No pair has a smaller value; with an allowance for rounding in `assessment.resolution`.
    kept : (k,) array
        Covariance tr U'C_gV kept of each group, in units of X times units of Y.
    best : (k,) array
        Most covariance that a pair could keep of that group alone, K_d(C_g).
    """

    objective: float
    lower_bound: float
    kept: FloatArray
    best: FloatArray


@dataclass(frozen=True, eq=False)
class PairedCertificate:
    """Record of a pair of subspaces, with its objective, a proven bound and the resulting status.

    Attributes
    ----------
    statement : PairedStatement
    figures : PairedFigures
    weights : (k,) array
        Weights w of the groups that prove the bound: with K_d the sum of the d largest singular
        values, every pair satisfies sum_g w_g c_g <= K_d(sum_g w_g C_g) (Fan 1951).
    assessment : GapAssessment
        How the gap compares with the tolerance and with rounding.
    n_decompositions : int
        Number of eigenproblems and singular value decompositions solved; a record of the run.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.cross_decomposition import FairPLS
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4))
    >>> Y = X @ rng.normal(size=(4, 3))
    >>> certificate = FairPLS(1).fit(X, Y, sensitive_features=["a", "b"] * 30).solution_
    >>> certificate.status == "optimal", certificate.relative_gap <= 1e-9
    (True, True)
    """

    statement: PairedStatement
    figures: PairedFigures
    weights: FloatArray
    assessment: GapAssessment
    n_decompositions: int = 0

    @property
    def objective(self) -> float:
        """Value of the criterion."""
        return self.figures.objective

    @property
    def lower_bound(self) -> float:
        """Bound that no pair improves on."""
        return self.figures.lower_bound

    @property
    def losses(self) -> FloatArray:
        """Loss K_d(C_g) - tr U'C_gV of each group, shape (k,)."""
        return np.maximum(self.figures.best - self.figures.kept, 0.0)

    @property
    def gap(self) -> float:
        """objective - lower_bound, in the units of the objective."""
        return self.objective - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """Gap relative to the magnitude of the objective; 0 if the gap is not positive."""
        if self.gap <= 0:
            return 0.0
        scale = self.assessment.scale
        return self.gap / scale if scale > 0 else math.inf

    @property
    def status(self) -> Status:
        """Whether the pair is proven optimal."""
        return self.assessment.status

    @property
    def message(self) -> str:
        """Meaning of the status for this pair."""
        messages = {
            Status.OPTIMAL: "no pair of subspaces is better by more than the tolerance",
            Status.UNRESOLVED: "the gap is at most what double precision can resolve for these "
            "data, which exceeds the tolerance",
            Status.OPEN_GAP: "a better pair may exist, by at most "
            f"{100 * self.relative_gap:.2g} % of the objective; accept the gap or raise tol",
        }
        return messages[self.status]

    def __repr__(self) -> str:
        return (
            f"<PairedCertificate {self.assessment.status_text}: objective {self.objective:.6g}, "
            f"gap {self.gap:.1e}>"
        )


def evaluate_pair(
    problem: PairedProblem,
    U: FloatArray,
    V: FloatArray,
    weights: FloatArray,
    tol: float,
    tolerance_factor: float = 1.0,
) -> tuple[PairedFigures, GapAssessment]:
    """Evaluate a pair and the bound that weights prove, by one singular value decomposition.

    Parameters
    ----------
    problem : PairedProblem
    U, V : (p, d) and (q, d) arrays
        Orthonormal columns, in the coordinates of the problem.
    weights : (k,) array
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    tolerance_factor : float
        Factor on tolerance and resolution up to which a gap counts as closed; above 1 in a
        verification, whose rounding errors differ from those of the fit.
    """
    criterion = problem.criterion
    kept = problem.covariances.kept_covariances(U, V)
    objective = criterion.value(kept, problem)
    feasible = criterion.feasible_weights(weights, problem)
    mixture = problem.covariances.mixture(feasible)
    max_weighted = leading_pairs(mixture, problem.n_components).sum
    lower_bound = criterion.lower_bound(feasible, max_weighted, problem)
    figures = PairedFigures(objective, lower_bound, kept, problem.best_covariances)
    # Rounding errors of the objective and of the bound, each at most that of the worst group.
    rounding = criterion.rounding_bound(kept, problem) if math.isfinite(objective) else math.inf
    resolution = 2 * rounding
    assessment = _assess(problem, figures, resolution, tol, tolerance_factor)
    return figures, assessment


def _assess(
    problem: PairedProblem,
    figures: PairedFigures,
    resolution: float,
    tol: float,
    tolerance_factor: float,
) -> GapAssessment:
    """Compare a gap with the tolerance and with rounding, and decide the status.

    The rule is that of :mod:`fairspan.certificates.status`: the gap is compared with the objective,
    which must be known to the larger of the tolerance and 1e-6 of itself. An objective that cannot
    be distinguished from zero is known if the resolution is at most the tolerance times the
    covariance that a group could keep.
    """
    criterion = problem.criterion
    scale = criterion.scale(figures.kept, problem)
    gap = abs(figures.objective - figures.lower_bound)
    last_digit = EPS * abs(figures.objective)
    is_small = resolution <= tolerance_factor * tol * criterion.zero_scale(problem)
    is_zero = is_small and scale <= tolerance_factor * _ZERO_RESOLUTIONS * resolution
    is_known = is_zero or resolution <= tolerance_factor * max(tol, LOOSE_TOL) * scale
    absolute_tol = tol * scale
    if is_known and is_small:
        absolute_tol = max(absolute_tol, resolution)
    if is_known and max(gap, last_digit) <= tolerance_factor * absolute_tol:
        status = Status.OPTIMAL
    elif gap <= tolerance_factor * resolution:
        status = Status.UNRESOLVED
    else:
        status = Status.OPEN_GAP
    return GapAssessment(status, tol, scale, absolute_tol, resolution)
