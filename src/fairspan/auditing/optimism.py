"""Optimism of a fit: by how much errors on its rows are smaller than on new ones.

To first order in 1 / n, for the leading eigenvectors q_i of the mixture sum_g w_g S_g with
eigenvalues mu_i, and normal rows, the error of group g on its n_g rows is too small by 2 w_g B_g /
n_g, where B_g is the sum over i <= d < j of (q_i' S_g q_i) (q_j' S_g q_j) / (mu_i - mu_j): the
components follow the chance variation of the rows. The mean follows it too. In rows with heavy
tails, covariances vary more than in normal ones, and the optimism is larger by the same factor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.model.projected_moments import second_moments_and_projector
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments
from fairspan.moments.second_moments import SecondMoments
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class ErrorOptimism:
    """Optimism of the errors of a model, as a function of the number of rows of its fit.

    Attributes
    ----------
    selection_rates : (k,) array
        2 w_g B_g, times the tail factor; negative if the criterion raises the error of the group.
    errors : (k,) array
        Errors of the model.
    center : {"global", "group", "none"}
    """

    selection_rates: FloatArray
    errors: FloatArray
    center: Center

    @classmethod
    def from_moments(
        cls,
        subspace: FairSubspace,
        moments: Moments,
        errors: FloatArray,
        standard_errors: FloatArray | None = None,
    ) -> "ErrorOptimism":
        """Estimate the optimism of a model from other rows than those of its fit.

        Parameters
        ----------
        subspace : FairSubspace
            With a certificate.
        moments : GroupMoments, SparseMoments or WideMoments
            In the units of the features.
        errors : (k,) array
            Errors of the model on these rows.
        standard_errors : (k,) array, optional
            Their standard errors, which tell tails, weights and clusters; NaN if unknown. Without
            them, rows are taken as normal.
        """
        certificate = subspace.require_certificate()
        weights = mixture_weights(certificate, moments.labels)
        second_moments, projector = second_moments_and_projector(subspace, moments)
        basis = np.linalg.qr(projector.basis)[0]
        rates = _selection_rates(second_moments, basis, weights, sum(certificate.counts))
        if standard_errors is not None:
            mean_squares = moments.counts * standard_errors**2 + errors**2
            rates = rates * _tail_factors(mean_squares, second_moments, basis)
        return cls(rates, errors, subspace.center)

    def at_counts(self, counts: FloatArray) -> FloatArray:
        """Return the optimism of errors on this (k,) number of rows of each group, (k,)."""
        optimism = self.selection_rates / counts
        if self.center == "global":
            # The mean of N rows is nearer to these than to others, by twice the variance of a mean.
            optimism = optimism + 2 * self.errors / counts.sum()
        elif self.center == "group":
            # New rows are centered at their own mean, see `own_mean_bias`.
            optimism = optimism + self.own_mean_bias(counts)
        return optimism

    def own_mean_bias(self, counts: FloatArray) -> FloatArray:
        """Amount by which errors are too small about the mean of the same rows, (k,).

        Zero unless each group has its own center, even on new rows.
        """
        if self.center != "group":
            return np.zeros_like(self.errors)
        return np.asarray(self.errors / np.maximum(counts - 1, 1))


def mixture_weights(certificate: Certificate, labels: Sequence[Label]) -> FloatArray:
    """Return the weight of each group in the mixture that the components are fitted to, (k,).

    Without a proof, which has these weights, they are the numbers of rows. `labels` are those of
    the k groups; the weight of a group that was not in the fit is zero.
    """
    weights = certificate.weights
    if certificate.proof is None:
        weights = np.array(certificate.counts, dtype=np.float64)
    weight_by_group = dict(zip(certificate.groups, weights.tolist(), strict=True))
    return np.array([weight_by_group.get(label, 0.0) for label in labels])


def _tail_factors(
    mean_squares: FloatArray, second_moments: SecondMoments, basis: FloatArray
) -> FloatArray:
    """Return by what factor covariances vary more than those of as many normal rows, (k,).

    For rows that are normal but for a random size of each, as Student's t, it is the mean square of
    the rows' squared residuals over its value for normal rows, e^2 + 2 tr((R S)^2), where S is the
    second moment, R projects on the complement of the basis, and e = tr(R S). Rows of independent
    features with heavy tails have a smaller factor. At least one; one where nothing is known.

    Parameters
    ----------
    mean_squares : (k,) array
        Of the squared residuals of each group; NaN if unknown.
    second_moments : SecondMoments
        Of k groups in p coordinates.
    basis : (p, d) array
        Orthonormal.
    """
    residual_variances = second_moments.residual_variances(basis)
    n_directions = second_moments.n_features - basis.shape[1]
    if second_moments.has_matrices and n_directions > 0:
        complement = np.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :]
        squared_norms = (second_moments.compress(complement) ** 2).sum(axis=(1, 2))
    else:
        # The least of all spectra with this sum, so that the factor is rather too large.
        squared_norms = residual_variances**2 / max(n_directions, 1)
    normal = residual_variances**2 + 2 * squared_norms
    factors = np.divide(mean_squares, normal, out=np.ones_like(normal), where=normal > 0)
    return np.asarray(np.fmax(factors, 1.0))  # one for NaN


def _selection_rates(
    second_moments: SecondMoments, basis: FloatArray, weights: FloatArray, n_training_rows: int
) -> FloatArray:
    """Return 2 w_g B_g of each group, (k,).

    The pairs are axes of the mixture within the basis and outside of it. Without matrices, all
    variance outside is taken to have the largest eigenvalue there, which gives an upper bound.

    Parameters
    ----------
    second_moments : SecondMoments
        Of k groups in p coordinates.
    basis : (p, d) array
        Orthonormal.
    weights : (k,) array
    n_training_rows : int
        Number of rows of the fit, from which nearly equal eigenvalues are not told apart.
    """
    d = basis.shape[1]
    if d == second_moments.n_features:
        return np.zeros(len(weights))
    inner = _MixtureAxes.within(second_moments, basis, weights)
    if second_moments.has_matrices:
        complement = np.linalg.qr(basis, mode="complete")[0][:, d:]
        outer = _MixtureAxes.within(second_moments, complement, weights)
    else:
        outer = _MixtureAxes(
            second_moments.leading(weights, d + 1).eigenvalues[-1:],
            second_moments.residual_variances(basis)[:, None],
        )
    gaps = inner.eigenvalues[:, None] - outer.eigenvalues
    products = np.maximum(np.outer(inner.eigenvalues, outer.eigenvalues), 0.0)
    # Gaps below their standard error are not known to be smaller than that.
    min_gaps = np.sqrt(products / max(n_training_rows, 1))
    # A direction outside with clearly more variance is left out for another reason than the
    # mixture, such as a restriction, or has gained variance since the fit.
    is_ordered = gaps + min_gaps > 0
    inverse_gaps = np.zeros_like(gaps)
    np.divide(1.0, np.maximum(gaps, min_gaps), out=inverse_gaps, where=is_ordered)
    costs = np.einsum("gi,ij,gj->g", inner.variances, inverse_gaps, outer.variances, optimize=True)
    return np.asarray(2 * weights * costs)


@dataclass(frozen=True, eq=False)
class _MixtureAxes:
    """Eigenvectors of a mixture of second moments within a subspace.

    Attributes
    ----------
    eigenvalues : (m,) array
    variances : (k, m) array
        Second moment of each group along each of them.
    """

    eigenvalues: FloatArray
    variances: FloatArray

    @classmethod
    def within(
        cls, second_moments: SecondMoments, basis: FloatArray, weights: FloatArray
    ) -> "_MixtureAxes":
        """Return the axes within the span of orthonormal columns, (p, m)."""
        blocks = second_moments.compress(basis)
        eigenvalues, vectors = np.linalg.eigh(np.einsum("g,gij->ij", weights, blocks))
        variances = np.einsum("gij,ia,ja->ga", blocks, vectors, vectors, optimize=True)
        return cls(eigenvalues, np.asarray(variances))
