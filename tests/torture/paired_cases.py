"""Cross-covariances that are hard for float64, and a judge of their fits with 50 digits."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan import GroupMoments, MeanParity
from fairspan.cross_decomposition import FairPLS, verify_pairs
from fairspan.errors import IncompatibleParameters
from torture.wrong_answer import WrongAnswer

FloatArray = npt.NDArray[np.float64]

KINDS = (
    "plain",
    "shared",
    "low rank",
    "tied",
    "identical",
    "sizes of columns",
    "opposed",
    "integers",
)
CRITERIA = ("minimax_loss", "minimax_relative_loss", "total_covariance", "nash_welfare")
DIGITS = 50
# Largest error of an entry of an orthonormal basis, after a few hundred operations.
ORTHONORMALITY = 1e-12


@dataclass
class PairedCase:
    """Cross-covariances of k groups, and the settings of a fit."""

    kind: str
    matrices: FloatArray
    weights: FloatArray
    criterion: str
    n_components: int
    is_restricted: bool

    def __str__(self) -> str:
        return (
            f"{self.kind}, {self.matrices.shape}, d={self.n_components}, {self.criterion}, "
            f"restricted: {self.is_restricted}"
        )

    @property
    def moments(self) -> GroupMoments:
        """Moments of two tables side by side with these cross-covariances."""
        k, p, q = self.matrices.shape
        # Large enough on the diagonal, so that the matrix of both tables is positive semidefinite.
        norms = np.linalg.norm(self.matrices, ord=2, axis=(1, 2))
        scatters = np.zeros((k, p + q, p + q))
        scatters[:, :p, p:] = self.matrices
        scatters[:, p:, :p] = self.matrices.transpose(0, 2, 1)
        scatters += (1.01 * norms + np.finfo(float).tiny)[:, None, None] * np.eye(p + q)
        means = np.zeros((k, p + q))
        if self.is_restricted:
            means[0, 0] = 1.0
            means[0, p] = 1.0
        return GroupMoments.from_covariances(scatters, means, self.weights)

    def fit(self) -> FairPLS:
        """Fit about the means of the groups, which does not change these covariances."""
        restriction = MeanParity() if self.is_restricted else None
        model = FairPLS(
            self.n_components,
            criterion=self.criterion,
            restriction=restriction,
            center="group",
            scale=False,
        )
        return model.fit_moments(self.moments, self.matrices.shape[2])


def draw_case(rng: np.random.Generator) -> PairedCase:
    """Draw cross-covariances of a kind, with p and q up to 60 columns and up to 12 groups."""
    kind = str(rng.choice(KINDS))
    largest = int(rng.choice([4, 8, 12, 60], p=[0.3, 0.3, 0.37, 0.03]))
    p = int(rng.integers(2, 61 if rng.random() < 0.1 else largest + 1))
    q = int(rng.integers(2, largest + 1))
    if rng.random() < 0.5:
        p, q = q, p
    k = int(rng.integers(1, 13 if rng.random() < 0.2 else 5))
    matrices = rng.standard_normal((k, p, q))
    if kind == "shared":
        matrices += 3 * rng.standard_normal((p, q))
    elif kind == "low rank":
        rank = int(rng.integers(1, min(p, q) + 1))
        matrices = rng.standard_normal((k, p, rank)) @ rng.standard_normal((k, rank, q))
    elif kind == "tied":
        left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in (p, q))
        values = rng.integers(0, 3, (k, min(p, q))).astype(float)
        matrices = np.zeros((k, p, q))
        diagonal = np.arange(min(p, q))
        matrices[:, diagonal, diagonal] = values
        matrices = left @ matrices @ right
        matrices[0, 0, 0] += 1.0
    elif kind == "identical":
        matrices[:] = matrices[0]
    elif kind == "sizes of columns":
        matrices *= 10.0 ** rng.uniform(-4, 4, (p, 1))
        matrices *= 10.0 ** rng.uniform(-4, 4, q)
    elif kind == "opposed":
        matrices[-1] = -matrices[0]
    elif kind == "integers":
        matrices = rng.integers(-2, 3, (k, p, q)).astype(float)
        matrices[0, 0, 0] += 1.0
    matrices *= 10.0 ** rng.uniform(-8, 8)
    if rng.random() < 0.3:
        matrices *= 10.0 ** rng.uniform(-3, 3, (k, 1, 1))
    is_restricted = bool(k > 1 and min(p, q) > 2 and rng.random() < 0.2)
    free = min(p, q) - is_restricted
    return PairedCase(
        kind,
        matrices,
        rng.uniform(0.1, 10, k),
        str(rng.choice(CRITERIA)),
        int(rng.integers(1, free)) if free > 1 else 1,
        is_restricted,
    )


def check(case: PairedCase) -> str:
    """Fit and judge a case; return the status, or "refused".

    Raises
    ------
    WrongAnswer
    """
    try:
        model = case.fit()
    except IncompatibleParameters as error:
        if case.criterion in ("nash_welfare", "minimax_relative_loss") or "zero" in str(error):
            return "refused"
        raise
    judge(case, model)
    verification = verify_pairs(model, case.moments)
    if not verification.holds:
        raise WrongAnswer(f"verification does not hold: {verification}, {case}")
    return str(model.solution_.status)


def judge(case: PairedCase, model: FairPLS) -> None:
    """Compare every claim of a model with the exact numbers.

    Raises
    ------
    WrongAnswer
    """
    import mpmath

    certificate = model.solution_
    resolution = certificate.assessment.resolution
    for basis in (model.x_weights_, model.y_weights_):
        departure = np.abs(basis.T @ basis - np.eye(basis.shape[1])).max()
        if departure > ORTHONORMALITY:
            raise WrongAnswer(f"not orthonormal: by {departure:.1e}, {case}")
    if case.is_restricted:
        largest = max(np.abs(model.x_weights_[0]).max(), np.abs(model.y_weights_[0]).max())
        if largest > ORTHONORMALITY:
            raise WrongAnswer(f"means of scores differ: by {largest:.1e}, {case}")
    with mpmath.workdps(DIGITS):
        exact = [mpmath.matrix(C.tolist()) for C in case.matrices]
        U = mpmath.matrix(model.x_weights_.tolist())
        V = mpmath.matrix(model.y_weights_.tolist())
        captured = [_trace(U.T * C * V) for C in exact]
        best = [largest_sum(C, case.n_components) for C in exact]
        shares = [mpmath.mpf(w) / mpmath.fsum(case.weights.tolist()) for w in case.weights.tolist()]
        objective = _value(case.criterion, captured, best, shares)
        bound = _bound(case, certificate.weights, exact, best, shares)
        objective_error = float(abs(objective - certificate.objective))
        if objective_error > resolution:
            raise WrongAnswer(
                f"objective off: by {objective_error:.1e}, resolution {resolution:.1e}, {case}"
            )
        excess = float(certificate.lower_bound - bound)
        if excess > resolution:
            raise WrongAnswer(
                f"bound above what is proven: by {excess:.1e}, {resolution:.1e}, {case}"
            )
        gap = float(objective - bound)
        tol = certificate.assessment.tol
        # The logarithms of Nash welfare have no unit, so its tolerance is absolute.
        unit = 1.0 if case.criterion == "nash_welfare" else abs(float(objective))
        tolerance = max(tol * unit, resolution)
        if certificate.status == "optimal" and gap > 1.01 * tolerance + resolution:
            raise WrongAnswer(f"called optimal: gap {gap:.1e}, allowed {tolerance:.1e}, {case}")
        scale = float(max(best))
        for name, exact_figures, figures in (
            ("kept", captured, certificate.figures.kept),
            ("best", best, certificate.figures.best),
        ):
            differences = [abs(a - b) for a, b in zip(exact_figures, figures.tolist(), strict=True)]
            error = max(float(difference) for difference in differences)
            if error > 1e-11 * scale:
                raise WrongAnswer(f"{name} off: by {error:.1e} of {scale:.1e}, {case}")


def largest_sum(matrix: Any, d: int) -> Any:
    """Return the sum of the d largest singular values of an exact matrix."""
    import mpmath

    gram = matrix * matrix.T if matrix.rows <= matrix.cols else matrix.T * matrix
    values = sorted(mpmath.sqrt(max(v, 0)) for v in mpmath.eigsy(gram, eigvals_only=True))
    return mpmath.fsum(values[-d:])


def _value(criterion: str, captured: list[Any], best: list[Any], shares: list[Any]) -> Any:
    import mpmath

    if criterion == "total_covariance":
        return -mpmath.fsum(q * c for q, c in zip(shares, captured, strict=True))
    if criterion == "nash_welfare":
        return -mpmath.fsum(map(mpmath.log, captured)) / len(captured)
    relative = criterion == "minimax_relative_loss"
    return max((b - c) / (b if relative else 1) for b, c in zip(best, captured, strict=True))


def _bound(
    case: PairedCase, weights: FloatArray, exact: list[Any], best: list[Any], shares: list[Any]
) -> Any:
    """Return the bound that the weights prove for pairs in the allowed directions."""
    import mpmath

    w = [mpmath.mpf(weight) for weight in weights.tolist()]
    if case.criterion == "total_covariance":
        w = shares
    elif case.criterion != "nash_welfare":
        divisors = best if case.criterion == "minimax_relative_loss" else [mpmath.mpf(1)] * len(w)
        total = mpmath.fsum(a * s for a, s in zip(w, divisors, strict=True))
        w = [max(a, 0) / total for a in w]
    mixture = mpmath.zeros(exact[0].rows, exact[0].cols)
    for weight, C in zip(w, exact, strict=True):
        mixture += weight * C
    if case.is_restricted:
        # The means differ along the first column of each table.
        mixture = mixture[1:, 1:]
    largest = largest_sum(mixture, case.n_components)
    if case.criterion == "total_covariance":
        return -largest
    if case.criterion == "nash_welfare":
        k = len(w)
        return mpmath.fsum(mpmath.log(k * a) for a in w) / k - mpmath.log(largest)
    return max(mpmath.fsum(a * b for a, b in zip(w, best, strict=True)) - largest, 0)


def _trace(matrix: Any) -> Any:
    import mpmath

    return mpmath.fsum(matrix[i, i] for i in range(matrix.rows))
