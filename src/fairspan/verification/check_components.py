"""Checks of components: orthonormality, allowed directions, and rounding of what they capture."""

from collections.abc import Iterator

import numpy as np

from fairspan.linalg.rounding import ENTRY_TERMS, EPS, LOOSE_TOL
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.problem.reduction import Reduction
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.typing import FloatArray
from fairspan.verification.tolerances import ORTHONORMALITY_TOL

# Directions along which covariances agree are less accurate than those of means.
_COVARIANCE_DIRECTION_TOL = 1e-8


def basis_in_coordinates(basis: FloatArray) -> FloatArray:
    """Orthogonal basis of the part of components that lies in row coordinates, shape (m, r).

    r is at most d: directions of the components that vanish in row coordinates are dropped.

    Parameters
    ----------
    basis : (m, d) array
        Components projected onto the row coordinates, where one inside them keeps its length and
        one outside vanishes. Soft projections also have lengths between zero and one.
    """
    vectors, lengths, _ = np.linalg.svd(basis, full_matrices=False)
    # Shorter columns lie outside the row coordinates.
    is_inside = lengths > LOOSE_TOL
    # If one column is very large, coordinates are orthonormal to fewer digits, and lengths near one
    # are one.
    lengths = np.where(lengths > 1 - LOOSE_TOL, 1.0, lengths)
    return np.asarray(vectors[:, is_inside] * lengths[is_inside])


def forbidden_rotation(moments: Moments, restriction: Restriction | None) -> float:
    """Bound on the angle, in radians, by which rounded means rotate the forbidden directions.

    These span the differences of the means. The bound is the rounding error of the means divided by
    the smallest singular value of the differences that is not rounding error itself.
    """
    # Relative to the first group, so that rows far from zero keep their precision.
    mean_differences = moments.mean_differences(group=0)
    means = mean_differences
    # Restrictions may constrain other means, such as those within classes.
    if restriction is not None:
        means = restriction.constrained_means(moments)
    singular_values = np.linalg.svd(means[1:] - means[0], compute_uv=False)
    magnitude = float(np.linalg.norm(np.abs(mean_differences).max(axis=0)))
    all_columns = moments.all_columns
    if restriction is not None and restriction.columns and all_columns is not None:
        # Covariances with further columns are forbidden too, in units of the columns' standard
        # deviations. Rounding the mean of a column changes these by the rounding error in the same
        # units, times the standard deviations of the features.
        extra = slice(moments.n_features, None)
        column_means = np.abs(all_columns.mean_differences(group=0)).max(axis=0)[extra]
        ratios = column_means / all_columns.standard_deviations[extra]
        magnitude += float(ratios.max() * np.linalg.norm(moments.standard_deviations))
    # Means of rows read in different blocks differ by a few rounding errors.
    rounding = EPS * ENTRY_TERMS * magnitude
    significant = singular_values[singular_values > rounding]
    return rounding / float(significant.min()) if significant.size else 0.0


def largest_outside_norm(moments: Moments, restriction: Restriction | None) -> float:
    """Largest acceptable norm of the part of the components outside the allowed directions."""
    if restriction is not None and not restriction.forbids_mean_differences_only:
        return _COVARIANCE_DIRECTION_TOL
    rotation = forbidden_rotation(moments, restriction)
    return min(ORTHONORMALITY_TOL + rotation, _COVARIANCE_DIRECTION_TOL)


def restrict_basis(reduction: Reduction, basis: FloatArray) -> tuple[FloatArray, float]:
    """Return the basis in coordinates of the allowed directions, and the norm of the rest.

    The norm is the Frobenius norm of the part of the columns in forbidden directions. Problems of
    sparse rows keep the coordinates of the features. Directions that every solution contains are
    left out; where the basis lacks a part of them, that part counts as forbidden.
    """
    axes = reduction.axes
    if axes is None:
        forbidden = reduction.problem.second_moments.forbidden
        return basis, float(np.linalg.norm(forbidden.T @ basis))
    required = reduction.required
    missing_norm = 0.0
    if required is not None:
        missing_norm = float(np.linalg.norm(required - basis @ (basis.T @ required)))
        others = basis - required @ (required.T @ basis)
        vectors = np.linalg.svd(others, full_matrices=False)[0]
        basis = vectors[:, : basis.shape[1] - required.shape[1]]
    restricted = np.asarray(axes.T @ basis)
    outside_norm = float(np.linalg.norm(basis - axes @ restricted))
    return restricted, float(np.hypot(outside_norm, missing_norm))


def component_failures(projector: Projector, *, is_soft: bool) -> Iterator[str]:
    """Yield a message unless components are orthonormal or soft, and an encoder fits its decoder.

    Columns of a soft projection are orthogonal, of lengths up to one. An oblique encoder must be a
    left inverse of its decoder.
    """
    decoder = projector.decoder
    products = {"components are not orthonormal": (decoder.T, decoder)}
    if projector.oblique_decoder is not None:
        products["encoder is not a left inverse of the decoder"] = (projector.encoder, decoder)
    squared_lengths = np.einsum("ij,ij->j", decoder, decoder)
    expected = np.diag(squared_lengths) if is_soft else np.eye(len(squared_lengths))
    for description, (left, right) in products.items():
        deviation = float(np.abs(left @ right - expected).max())
        if not deviation <= ORTHONORMALITY_TOL * (np.abs(left) @ np.abs(right)).max():
            yield f"The {description}: their products are off by {deviation:.1e}."
    if not is_soft:
        return
    # A soft projection with squared lengths lambda_j loses the fraction (1 - lambda_j)^2 of the
    # variance along each column. The fractions that it keeps add up to d, a number of components.
    dimension = float((squared_lengths * (2 - squared_lengths)).sum())
    is_too_long = squared_lengths.max() > 1 + ORTHONORMALITY_TOL
    if is_too_long or abs(dimension - round(dimension)) > LOOSE_TOL:
        yield "The components are not a soft projection of an integral dimension."


def feature_deviations(moments: Moments, scale: FloatArray, center: str) -> FloatArray:
    """Root mean square of each scaled feature about the center of the errors, shape (p,)."""
    deviations = moments.standard_deviations
    if center == "none":
        deviations = np.hypot(deviations, moments.mean)
    return deviations / scale


def component_entry_rounding(deviations: FloatArray, projector: Projector) -> FloatArray:
    """Bound the rounding error of the variance of each component, shape (d,).

    Entries of second moments are rounded relative to the product of two features' deviations.
    """
    loadings = np.maximum(np.abs(projector.encoder), np.abs(projector.decoder.T))
    return np.asarray(EPS * ENTRY_TERMS * (loadings @ deviations) ** 2)
