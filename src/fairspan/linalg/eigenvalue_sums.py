"""Rigorous sums of the smallest eigenvalues of symmetric matrices, and bounds on rounding errors.

The least error of a d-dimensional subspace is a sum of small eigenvalues. Computed as the trace
minus the largest eigenvalues it can have a relative error above 100 %: 400 % where one column is
1e8 times as large as the others. Here the s largest eigenvectors X are deflated instead. Let U be
their orthogonal complement, N = U'MU, R = X'MU, and theta the smallest eigenvalue of X'MX. For any
s with theta > lambda_1(N), the sum of the smallest eigenvalues of M is at least that of N less
tr R'(X'MX - lambda_1(N) I)^-1 R.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from fairspan.linalg.eigen import Eigendecomposition
from fairspan.linalg.graded import ZERO_RATIO, graded_eigh
from fairspan.linalg.rounding import (
    CANCELLATION_RATIO,
    ENTRY_TERMS,
    EPS,
    ROTATION_TERMS,
    SUM_ROUNDING,
    TINY,
)
from fairspan.linalg.symmetric import is_zero, symmetrize
from fairspan.typing import FloatArray

# Gap below the deflated eigenvalues, relative to the largest remaining one, from which the
# neglected coupling is tiny.
_MIN_GAP_RATIO = 1e-3


class SmallestEigenvalueSum(NamedTuple):
    """Sum of the smallest eigenvalues, with a bound on its rounding error.

    Attributes
    ----------
    value : float
        Computed sum.
    rounding_error : float
        Bound on its rounding error: `value - rounding_error` is a rigorous lower bound.
    """

    value: float
    rounding_error: float


def smallest_eigenvalue_sum(
    matrices: FloatArray,
    weights: FloatArray,
    n_leading: int,
    decomposition: Eigendecomposition | None = None,
) -> SmallestEigenvalueSum:
    """Bound the sum of all but the d largest eigenvalues of M = sum_g weights_g S_g from below.

    Some of the largest eigenvectors X are deflated first. Let U be their orthogonal complement: the
    sum of the p - d smallest eigenvalues of U'MU, less a term for the coupling X'MU, is a lower
    bound without cancellation (see `_coupling_bound`). The best of the bounds for several numbers
    of deflated eigenvectors is returned.

    Parameters
    ----------
    matrices : (k, p, p) array
        Second moments S_g of the groups.
    weights : (k,) array
        Of any sign.
    n_leading : int
        Number d of eigenvalues to leave out.
    decomposition : Eigendecomposition, optional
        Decomposition of M, if available.

    Returns
    -------
    SmallestEigenvalueSum
        In exact arithmetic `value` is at most the sum, and nearly equal to it; `rounding_error`
        bounds its rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan.linalg import smallest_eigenvalue_sum
    >>> matrices = np.array([[[1e16, 1e8, 0.0], [1e8, 3.0, 0.5], [0.0, 0.5, 1.0]]])
    >>> round(smallest_eigenvalue_sum(matrices, np.ones(1), 1).value, 12)
    3.0
    """
    # Leave out groups that contribute nothing to the mixture.
    weighted = np.flatnonzero(weights).tolist()
    contributing = [g for g in weighted if not is_zero(matrices[g])]
    p = matrices.shape[1]
    d = n_leading
    if d == p or not contributing:  # no eigenvalue is left, or all are zero
        return SmallestEigenvalueSum(value=0.0, rounding_error=0.0)
    if len(contributing) < len(weights):
        matrices = matrices[contributing]
        weights = weights[contributing]
    mixture = _Mixture.decompose(matrices, weights, d, decomposition)
    sums: list[SmallestEigenvalueSum] = []
    for n_deflated in _deflation_candidates(mixture.eigenvalues, d):
        bound = mixture.deflated_bound(n_deflated, d)
        sums.append(bound.eigenvalue_sum)
        # Other numbers cannot gain more than rounding.
        if bound.neglected <= bound.eigenvalue_sum.rounding_error:
            break
    return max(sums, key=lambda candidate: candidate.value - candidate.rounding_error)


class _DeflatedBound(NamedTuple):
    """Lower bound after deflation, and the coupling term that was subtracted for it."""

    eigenvalue_sum: SmallestEigenvalueSum
    neglected: float


@dataclass(frozen=True, eq=False)
class _Mixture:
    """Eigendecomposition of a mixture M = sum_g weights_g S_g, in ascending order.

    Attributes
    ----------
    matrices : (k, p, p) array
        Second moments S_g.
    weights : (k,) array
    eigenvalues : (p,) array
    vectors, image : (p, p) arrays
        Eigenvectors, and M times them.
    column_rms : (k, p) array
        Root mean square of each column in each group.
    basis_rounding : (k,) array
        Bound on the effect of rounding the eigenvectors on the errors of the groups.
    """

    matrices: FloatArray
    weights: FloatArray
    eigenvalues: FloatArray
    vectors: FloatArray
    image: FloatArray
    column_rms: FloatArray
    basis_rounding: FloatArray

    @classmethod
    def decompose(
        cls,
        matrices: FloatArray,
        weights: FloatArray,
        max_deflated: int,
        decomposition: Eigendecomposition | None,
    ) -> "_Mixture":
        """Compute the mixture and its eigenvectors, unless its decomposition is available."""
        mixture = np.tensordot(weights, matrices, axes=1)
        if decomposition is None:
            eigenpairs = graded_eigh(mixture, max_deflated)
            values = eigenpairs.values
            vectors = eigenpairs.vectors
        else:
            values = decomposition.values[::-1]
            vectors = np.ascontiguousarray(decomposition.vectors[:, ::-1])
        image = mixture @ vectors
        rms = column_rms(matrices)
        # Eigenvalue sums are stationary in the eigenvectors, so only the second-order term of the
        # bound counts; the first-order one is proportional to the root of these zeros.
        no_errors = np.zeros(len(rms))
        basis_rounding = basis_rounding_bound(np.sqrt((rms**2).sum(axis=1)), no_errors)
        return cls(matrices, weights, values, vectors, image, rms, basis_rounding)

    def deflated_bound(self, n_deflated: int, n_leading: int) -> _DeflatedBound:
        """Bound the sum of all but the d largest eigenvalues after deflating some of them."""
        p = len(self.vectors)
        n_remaining = p - n_deflated
        # U, the complement of the deflated eigenvectors, and U'MU.
        complement = self.vectors[:, :n_remaining]
        compressed = symmetrize(complement.T @ self.image[:, :n_remaining])
        if n_deflated == n_leading:
            # The sum of all remaining eigenvalues is a trace. The compressed matrix is nearly
            # diagonal, so that a norm bounds its largest eigenvalue.
            value = float(np.trace(compressed))
            deviation = compressed - np.diag(self.eigenvalues[:n_remaining])
            largest = float(self.eigenvalues[n_remaining - 1]) + float(np.linalg.norm(deviation))
        else:
            eigenvalues = np.linalg.eigvalsh(compressed)
            value = float(eigenvalues[: p - n_leading].sum())
            largest = float(eigenvalues[-1])
        neglected = _coupling_bound(self.image, self.vectors, n_remaining, largest)
        rounding = self._compression_rounding(n_remaining)
        return _DeflatedBound(SmallestEigenvalueSum(value - neglected, rounding), neglected)

    def _compression_rounding(self, n_remaining: int) -> float:
        """Bound on the rounding error of the trace of U'MU, or of a part of its eigenvalues."""
        p = len(self.vectors)
        complement = self.vectors[:, :n_remaining]
        norms = _compressed_norms(self.matrices, self.vectors, n_remaining)
        # Rounding of the products (relative to `norms`) and of the entries of each S_g.
        row_norms = np.sqrt(np.einsum("ij,ij->i", complement, complement))
        entry_rounding = EPS * ENTRY_TERMS * (self.column_rms @ row_norms) ** 2
        product_rounding = EPS * 2 * p * norms
        by_group = product_rounding + entry_rounding + self.basis_rounding
        # Products of subnormal numbers have a larger relative rounding error.
        return float(np.abs(self.weights) @ by_group) + TINY * p


def _compressed_norms(matrices: FloatArray, vectors: FloatArray, n_remaining: int) -> FloatArray:
    """Frobenius norms of U'S_gU of each group, or slightly more, shape (k,).

    U are the first `n_remaining` of the orthonormal (p, p) `vectors`, and X the others. The square
    of the norm is ||S_g||^2 - 2 ||S_gX||^2 + ||X'S_gX||^2, which takes products with the few
    columns of X only. Where most of it cancels, U'S_gU is computed.
    """
    complement = vectors[:, :n_remaining]
    deflated = vectors[:, n_remaining:]
    images = matrices @ deflated
    inner = deflated.T @ images
    squares = np.einsum("gij,gij->g", matrices, matrices)
    remaining = squares - 2 * np.einsum("gij,gij->g", images, images)
    remaining += np.einsum("gij,gij->g", inner, inner)
    # Rounding errors, of all terms together, are far below this fraction of the square.
    bounds = np.sqrt(np.maximum(remaining, 0.0) + SUM_ROUNDING * squares)
    for group in np.flatnonzero(remaining <= CANCELLATION_RATIO * squares).tolist():
        bounds[group] = np.linalg.norm(complement.T @ (matrices[group] @ complement))
    return np.asarray(bounds)


def _coupling_bound(
    image: FloatArray, vectors: FloatArray, n_remaining: int, largest: float
) -> float:
    """Return the coupling term tr R'(X'MX - largest I)^-1 R; zero if nothing is deflated.

    It bounds by how much the coupling of deflated and remaining eigenvectors lowers the sum of the
    smallest eigenvalues. X are the deflated eigenvectors, the `vectors` after the first
    `n_remaining`; U are these first ones, R = X'MU, and `largest` bounds the largest eigenvalue of
    U'MU. `image` is M times the vectors. The term is infinite unless all eigenvalues of X'MX are
    above `largest`.
    """
    if n_remaining == vectors.shape[1]:
        return 0.0
    deflated_image = image[:, n_remaining:]  # MX
    shifted = symmetrize(vectors[:, n_remaining:].T @ deflated_image)
    shifted.flat[:: len(shifted) + 1] -= largest
    # Use all of X'MX, not only its smallest eigenvalue: R is largest where X'MX is. With a Cholesky
    # factor L of the shifted matrix, the term is the squared norm of L^-1 R.
    factor, failed = scipy.linalg.lapack.dpotrf(shifted, lower=True)
    if failed:
        return np.inf
    coupling = deflated_image.T @ vectors[:, :n_remaining]
    solution, _ = scipy.linalg.lapack.dtrtrs(factor, coupling, lower=True)
    return float(np.vdot(solution, solution))


def column_rms(matrices: FloatArray) -> FloatArray:
    """Root mean square of each column in each group, shape (k, p)."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("gii->gi", matrices), 0.0)))


def error_rounding_bound(
    column_rms: FloatArray, errors: FloatArray, row_norms: FloatArray
) -> FloatArray:
    """Return a rounding bound of the error tr(E'S_gE), E = I - VV', of each group.

    V is a (p, d) orthonormal basis and S_g the second moments of group g.

    Parameters
    ----------
    column_rms : (k, p) array
        Root mean square of each feature in each group, about the center.
    errors : (k,) array
        tr(E'S_gE).
    row_norms : (p,) array
        Norms of the rows of E.

    Returns
    -------
    (k,) array
    """
    # Rounding of the entries of S_g.
    entry_rounding = EPS * ENTRY_TERMS * (column_rms @ row_norms) ** 2
    # Errors that are a small part of the variance are computed directly. Larger ones are the
    # variance less what is kept, two sums of p terms whose rounding errors accumulate like a random
    # walk: they count as sqrt(p) terms, and as four if there are few.
    p = len(row_norms)
    variances = (column_rms**2).sum(axis=1)
    subtracted = np.where(errors > CANCELLATION_RATIO * variances, variances, 0.0)
    difference_rounding = EPS * max(4.0, np.sqrt(p)) * subtracted
    # The two products with E, of p terms each, are rounded relative to the error.
    product_rounding = EPS * 2 * p * errors
    rounding = product_rounding + entry_rounding + difference_rounding
    return np.asarray(rounding + basis_rounding_bound(np.sqrt(variances), errors))


def basis_rounding_bound(root_traces: FloatArray, errors: FloatArray) -> FloatArray:
    """Bound on the effect on the groups' errors of rounding a basis to float64, shape (k,).

    Rounding rotates the subspace by a small angle a (a few eps), in the worst case along the
    direction of largest variance. An error e then becomes at most (sqrt(e) + a sqrt(tr S_g))^2.

    Parameters
    ----------
    root_traces : (k,) array
        sqrt(tr S_g), for the second moments S_g of group g.
    errors : (k,) array
        Errors e of the groups; zeros where only the second-order term matters.
    """
    rotated = EPS * ROTATION_TERMS * root_traces
    return np.asarray(2 * rotated * np.sqrt(np.maximum(errors, 0.0)) + rotated**2)


def _deflation_candidates(values: FloatArray, n_leading: int) -> list[int]:
    """Candidate numbers, up to d, of leading eigenvectors to deflate, in the order to try them.

    First the largest number with a gap after its last eigenvalue, since rounding errors are
    smallest if most large eigenvalues are gone. Then the number with the widest relative gap, for
    which the least coupling is neglected, and zero, for which none is. `values` are in ascending
    order, and `n_leading` is d.
    """
    p = len(values)
    # Entry s - 1 is the last of s deflated eigenvalues, the one after it, and the largest magnitude
    # of all that remain.
    leading = values[p - n_leading :][::-1]
    following = values[p - n_leading - 1 : p - 1][::-1]
    remaining = np.maximum(np.abs(following), max(-float(values[0]), 0.0))
    smallest_nonzero = max(ZERO_RATIO * float(np.abs(values).max()), TINY)
    gap_ratios = (leading - following) / np.maximum(remaining, smallest_nonzero)
    separated = np.flatnonzero(gap_ratios > _MIN_GAP_RATIO)
    if len(separated) == 0:
        return [0]
    last_separated = int(separated[-1]) + 1
    most_separated = int(np.argmax(gap_ratios)) + 1
    return list(dict.fromkeys([last_separated, most_separated, 0]))
