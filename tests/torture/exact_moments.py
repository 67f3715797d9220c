"""Second moments of a case in fractions, and the directions that its restriction allows.

Float64 rounds second moments before any solver sees them: each entry (i, j) may be off by a few
units of epsilon times the sizes of its two columns. These bounds are kept beside the exact numbers.
"""

from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from mpmath import mp, mpf

from torture.cases import Case
from torture.high_precision import (
    decimal_exponent,
    orthogonal_complement,
    square_root,
    to_fractions,
    to_mp_matrix,
    to_mpf,
    trace,
    weighted_sum,
)

DIGITS = 60
EPSILON = float(np.finfo(np.float64).eps)
# Rounding of an entry of a second moment, in units of epsilon times the sizes of its two columns.
ENTRY_ERROR_UNITS = 16
# Eigenvectors of a difference of covariances are known to this angle in float64, in radians. As
# text, so that mpmath reads it to the digits of the current precision.
_PARITY_ANGLE = "1e-11"

Fractions = list[list[Fraction]]


class ExactMoments:
    """The second moments of a case, exactly, in the order of a fitted model's groups.

    Attributes
    ----------
    k, p : int
        Numbers of groups and features.
    digits : int
        Precision that judgments of this case need.
    weights : list of k Fraction
        Total weights of the groups.
    means : list of k lists of p Fraction
    covariances, moments : list of k (p, p) lists of Fraction
        About the mean of the group, and about the center of the errors.
    entry_rounding : list of k (p, p)
        Bounds on the rounding of each entry of the second moments in float64.
    deviations : list of k lists of p
        Standard deviations of the features within the groups.
    largest : list of p
        Largest distance of a row from the mean of all rows, by feature; of rows only.
    """

    largest: list[Any]

    def __init__(self, case: Case, labels: list[Any], scale: Any) -> None:
        self.case = case
        if case.matrices is not None:
            self._read_matrices(case)
        else:
            self._read_rows(case, labels, scale)
        self.k = len(self.moments)
        self.p = len(self.moments[0])
        self.digits = self._digits()

    @property
    def is_rounded(self) -> bool:
        """Whether float64 rounds the second moments: those of rows, not given matrices."""
        return self.case.matrices is None

    def _read_matrices(self, case: Case) -> None:
        assert case.matrices is not None
        k, p = case.matrices.shape[:2]
        shares = np.ones(k) if case.shares is None else case.shares
        self.moments = [to_fractions(matrix) for matrix in case.matrices]
        self.weights = [Fraction(float(share)) for share in shares]
        self.means = [[Fraction(0)] * p for _ in range(k)]
        self.covariances = self.moments
        self.entry_rounding: list[Any] = [np.zeros((p, p)) for _ in range(k)]
        self.deviations: list[list[Any]] = [[0.0] * p for _ in range(k)]

    def _read_rows(self, case: Case, labels: list[Any], scale: Any) -> None:
        assert case.rows is not None
        n, p = case.rows.shape
        rows = _scaled_rows(case.rows, scale)
        row_weights = np.ones(n) if case.weights is None else case.weights
        shares = [Fraction(float(weight)) for weight in row_weights]
        members = [
            [i for i in range(n) if str(case.groups[i]) == str(label) and shares[i] > 0]
            for label in labels
        ]
        self.weights = [sum((shares[i] for i in group), Fraction(0)) for group in members]
        self.means = [
            [sum((shares[i] * rows[i][j] for i in group), Fraction(0)) / weight for j in range(p)]
            for group, weight in zip(members, self.weights, strict=True)
        ]
        self.covariances = [
            _second_moment([rows[i] for i in group], [shares[i] for i in group], mean)
            for group, mean in zip(members, self.means, strict=True)
        ]
        overall_mean = self.overall_mean()
        self.largest = [
            max(square_root((row[j] - overall_mean[j]) ** 2) for row in rows) for j in range(p)
        ]
        centers = {
            "group": self.means,
            "global": [overall_mean] * len(labels),
            "none": [[Fraction(0)] * p] * len(labels),
        }[case.center]
        self.moments = [
            _shifted_moment(covariance, mean, center)
            for covariance, mean, center in zip(self.covariances, self.means, centers, strict=True)
        ]
        # Means are sums of differences from a row, so their rounding is independent of how far the
        # rows are from zero.
        is_global = case.center == "global"
        mean_rounding = [2 * EPSILON * at if is_global else mpf(0) for at in self.largest]
        self.entry_rounding = [_entry_rounding(moment, mean_rounding) for moment in self.moments]
        self.deviations = [
            [square_root(covariance[j][j]) for j in range(p)] for covariance in self.covariances
        ]

    def overall_mean(self) -> list[Fraction]:
        """Return the mean of all rows."""
        total = sum(self.weights)
        return [
            sum(
                (w * mean[j] for w, mean in zip(self.weights, self.means, strict=True)), Fraction(0)
            )
            / total
            for j in range(len(self.means[0]))
        ]

    def _digits(self) -> int:
        """Return a precision at which eigenvalues of columns of different size have 60 digits."""
        sizes = [m[j][j] for m in self.moments for j in range(len(m)) if m[j][j] > 0]
        if not sizes:
            return DIGITS
        return DIGITS + 2 * abs(decimal_exponent(max(sizes)) - decimal_exponent(min(sizes)))

    @cached_property
    def proportions(self) -> list[Any]:
        total = sum(self.weights)
        return [to_mpf(weight / total) for weight in self.weights]

    @cached_property
    def matrices(self) -> list[Any]:
        return [to_mp_matrix(moment) for moment in self.moments]

    def mixture(self, weights: list[Any]) -> Any:
        return weighted_sum(self.matrices, weights)


class AllowedDirections:
    """The directions that a restriction allows, and the second moments within them.

    Attributes
    ----------
    is_restricted : bool
        Whether some directions are forbidden; a tolerance forbids none.
    basis : (p, m) matrix
        Orthonormal basis of the allowed directions.
    mean_differences : list of (p,)
        Differences of the groups' means from the first.
    matrices : list of k (m, m)
        Second moments in this basis.
    fixed_errors : list of k
        Error of each group in the forbidden directions, which no subspace avoids.
    entry_rounding : list of k (m, m)
    """

    def __init__(self, exact: ExactMoments) -> None:
        self.exact = exact
        restriction = exact.case.restriction
        self.mean_differences = [
            mp.matrix([to_mpf(a - b) for a, b in zip(mean, exact.means[0], strict=True)])
            for mean in exact.means[1:]
        ]
        self.is_restricted = restriction is not None and not _has_tolerance(restriction)
        if not self.is_restricted:
            self.basis: Any = mp.eye(exact.p)
            self.matrices = list(exact.matrices)
            self.fixed_errors = [mpf(0)] * exact.k
        else:
            self.basis = orthogonal_complement(self.mean_differences, exact.p)
            if restriction.name == "covariance_parity":
                self.basis = _most_equal_directions(exact, self.basis, restriction.n_directions)
            self.matrices = [self.basis.T * matrix * self.basis for matrix in exact.matrices]
            self.fixed_errors = [
                trace(matrix) - trace(inner)
                for matrix, inner in zip(exact.matrices, self.matrices, strict=True)
            ]
        self.entry_rounding = self._entry_rounding()

    def _entry_rounding(self) -> list[Any]:
        exact = self.exact
        if not exact.is_rounded:
            return [mp.zeros(exact.p) for _ in range(exact.k)]
        if not self.is_restricted:
            return [mp.matrix(rounding) for rounding in exact.entry_rounding]
        # In the allowed directions rows differ only within groups. Rounded means turn these
        # directions by an angle.
        unit = ENTRY_ERROR_UNITS * EPSILON
        distance = max(mp.norm(difference) for difference in self.mean_differences)
        angle = unit + 4 * EPSILON * mp.norm(mp.matrix(exact.largest)) / distance
        if exact.case.restriction.name == "covariance_parity":
            angle = max(angle, mpf(_PARITY_ANGLE))
        roundings = []
        for deviations in exact.deviations:
            length = mp.norm(mp.matrix(deviations))
            turn_rounding = 2 * angle * length**2
            roundings.append(
                mp.matrix(
                    [
                        [unit * a * b + turn_rounding + (angle * distance) ** 2 for a in deviations]
                        for b in deviations
                    ]
                )
            )
        return roundings


def _has_tolerance(restriction: Any) -> bool:
    if restriction.name == "mean_parity":
        return bool(restriction.tolerance != 0)
    return restriction.tolerance is not None


def _scaled_rows(values: Any, scale: Any) -> Fractions:
    divisors = [Fraction(1)] * values.shape[1]
    if scale is not None:
        divisors = [Fraction(float(divisor)) for divisor in scale]
    return [
        [Fraction(float(x)) / divisor for x, divisor in zip(row, divisors, strict=True)]
        for row in values
    ]


def _second_moment(rows: Fractions, shares: list[Fraction], center: list[Fraction]) -> Fractions:
    p = len(center)
    total = sum(shares)
    deviations = [[x - at for x, at in zip(row, center, strict=True)] for row in rows]
    moment = [[Fraction(0)] * p for _ in range(p)]
    for i in range(p):
        for j in range(i + 1):
            entry = sum(
                (share * row[i] * row[j] for share, row in zip(shares, deviations, strict=True)),
                Fraction(0),
            )
            moment[i][j] = entry / total
            moment[j][i] = moment[i][j]
    return moment


def _shifted_moment(
    covariance: Fractions, mean: list[Fraction], center: list[Fraction]
) -> Fractions:
    """Return the second moment about a center, from the covariance about the mean."""
    p = len(mean)
    offset = [m - at for m, at in zip(mean, center, strict=True)]
    return [[covariance[i][j] + offset[i] * offset[j] for j in range(p)] for i in range(p)]


def _entry_rounding(moment: Fractions, mean_rounding: list[Any]) -> list[list[Any]]:
    p = len(moment)
    size = [square_root(moment[j][j]) for j in range(p)]
    return [
        [
            ENTRY_ERROR_UNITS * EPSILON * size[i] * size[j]
            + size[i] * mean_rounding[j]
            + mean_rounding[i] * size[j]
            + mean_rounding[i] * mean_rounding[j]
            for j in range(p)
        ]
        for i in range(p)
    ]


def _most_equal_directions(exact: ExactMoments, basis: Any, n_directions: int) -> Any:
    """Return the directions within a basis along which two groups' covariances differ least."""
    first, second = (to_mp_matrix(covariance) for covariance in exact.covariances)
    values, vectors = mp.eigsy(basis.T * (first - second) * basis)
    order = sorted(range(len(values)), key=lambda i: abs(values[i]))[:n_directions]
    selection = mp.matrix(basis.cols, n_directions)
    for j, i in enumerate(order):
        for row in range(basis.cols):
            selection[row, j] = vectors[row, i]
    return basis * selection
