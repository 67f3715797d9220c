"""Low-rank factors of a linear layer that serve every group of inputs, with a proof.

The layer computes y = W x + b. A matrix W' of rank r in place of W changes the output of a row by
(W - W')(x - c), if the bias is changed to b + (W - W') c. The mean squared change of group g is

    L_g(W') = tr (W - W') S_g (W - W')',   S_g its second moment about c.

For weights w >= 0 of the groups, every W' of rank r satisfies sum_g w_g L_g(W') >= the sum of all
but the r largest eigenvalues of W (sum_g w_g S_g) W' (Eckart and Young 1936). The matrices V V'W
with orthonormal columns V reach as much as PCA of the outputs does, whose bound is the same. So the
certificate of PCA of the moments W S_g W' holds over all matrices of rank r, not only over these.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.status import Status
from fairspan.errors import IncompatibleParameters, InvalidInput
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.linalg.rounding import ENTRY_TERMS, EPS, LOOSE_TOL
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import not_moments_error
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.problem.criteria.linear import TotalError
from fairspan.problem.criteria.minimax import MinimaxError, MinimaxLoss
from fairspan.problem.part_parameters import check_n_components
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class CompressedLayer:
    """Linear layer as a product of two thin matrices.

    Attributes
    ----------
    first : (r, p) array
        V'W: weights of the first of two layers, which has no bias.
    second : (m, r) array
        Orthonormal columns V: weights of the second layer.
    bias : (m,) array
        Bias of the second layer.
    output_errors : (k,) array
        Mean squared change of the outputs of each group, in squared units of the outputs.
    output_variances : (k,) array
        Mean square of W (x - c) of each group, of which the errors are a part.
    certificate : Certificate
        Its bound holds for all (m, p) matrices of rank r in place of W.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import GroupMoments, compress_layer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 6)) * [3, 2, 1, 1, 1, 1]
    >>> X[200:] = X[200:, ::-1]
    >>> moments = GroupMoments.from_rows(X, np.repeat(["many", "few"], [200, 100]))
    >>> layer = compress_layer(rng.normal(size=(5, 6)), moments, rank=2)
    >>> layer.weight.shape, layer.certificate.status == "optimal"
    ((5, 6), True)
    """

    first: FloatArray
    second: FloatArray
    bias: FloatArray
    output_errors: FloatArray
    output_variances: FloatArray
    certificate: Certificate

    @property
    def weight(self) -> FloatArray:
        """The product of both factors, shape (m, p)."""
        return self.second @ self.first

    @property
    def n_parameters(self) -> int:
        """Number of entries of both factors, without the bias."""
        return self.first.size + self.second.size

    def apply(self, X: FloatArray) -> FloatArray:
        """Return the outputs of (n, p) rows, shape (n, m)."""
        return np.asarray(X @ self.first.T @ self.second.T + self.bias)


def compress_layer(
    weight: object,
    moments: GroupMoments,
    rank: int,
    criterion: str | Criterion = "minimax_error",
    *,
    bias: object = None,
    center: Center = "global",
    tol: float = 1e-9,
) -> CompressedLayer:
    """Replace the weights of a linear layer by a product of low rank that serves every group.

    Parameters
    ----------
    weight : (m, p) array
        W, with outputs W x + b, as in the `weight` of a linear layer of PyTorch. Arrays and tensors
        of other packages are converted by their array interface.
    moments : GroupMoments
        Of the inputs of the layer, by group, such as language, domain or skin type.
    rank : int
        r, from 1 to the smaller number of rows and columns of the weights.
    criterion : str or object, default="minimax_error"
        "minimax_error" (largest change of the outputs of a group), "minimax_loss" (the same beyond
        the best for that group), "total_error" (change over all rows: activation-aware singular
        value decomposition), or `MinimaxError` and `MinimaxLoss` with relative=True.
    bias : (m,) array, optional
        b, zero by default.
    center : {"global", "none"}, default="global"
        "global" also changes the bias, so that only deviations from the mean input are lost; "none"
        leaves it as it is.
    tol : float, default=1e-9
        Largest gap that counts as optimal, relative to the objective.

    Returns
    -------
    CompressedLayer

    Raises
    ------
    InvalidInput, InvalidType
        Weights that are not a matrix of finite numbers, or do not fit the moments or the bias.
    InvalidParameter
        A rank that is out of range.
    IncompatibleParameters
        Another criterion or center, whose bound does not hold for all matrices.
    """
    if not isinstance(moments, GroupMoments):
        raise not_moments_error(moments)
    matrix = _to_array("weight", weight, 2)
    m, p = matrix.shape
    if p != moments.n_features:
        raise InvalidInput(
            f"weight has {p} columns, and the moments have {moments.n_features} features",
            "Allowed: moments of the inputs of the layer",
            "Transpose the weights if they map rows by x @ weight",
        )
    of = "rows and columns of the weights, the smaller one"
    check_n_components(rank, min(m, p), of=of, name="rank")
    old_bias = np.zeros(m) if bias is None else _to_array("bias", bias, 1)
    if len(old_bias) != m:
        raise InvalidInput(
            f"bias has {len(old_bias)} entries, and weight has {m} rows",
            "Allowed: one entry for each output",
            "Pass the bias of the same layer",
        )
    checked_criterion = _check_criterion(get_criterion(criterion))
    if center not in ("global", "none"):
        raise IncompatibleParameters(
            f"compress_layer received center={center!r}",
            "Allowed: 'global' and 'none': a layer has one bias for all groups",
            "Use one of these",
        )
    outputs = _moments_of_outputs(matrix, moments, center)
    fit = fit_moments(outputs, FitSettings(rank, checked_criterion, center="none", tol=tol))
    certificate = _with_rounding(fit.certificate, _output_rounding(matrix, moments, center))
    second = np.ascontiguousarray(fit.subspace.components.T)
    first = second.T @ matrix
    new_bias = old_bias
    if center == "global":
        new_bias = old_bias + (matrix - second @ first) @ moments.mean
    return CompressedLayer(
        first,
        second,
        new_bias,
        output_errors=certificate.errors,
        output_variances=fit.problem.second_moments.traces,
        certificate=certificate,
    )


def _check_criterion(criterion: Criterion) -> Criterion:
    """Return the criterion if its bound holds for all matrices.

    The bound of Eckart and Young is about nonnegative weights of the groups; criteria of gaps also
    have negative ones.

    Raises
    ------
    IncompatibleParameters
    """
    if isinstance(criterion, TotalError | MinimaxError | MinimaxLoss):
        return criterion
    raise IncompatibleParameters(
        f"compress_layer received the criterion {criterion.name!r}",
        "Allowed: 'total_error', 'minimax_error' and 'minimax_loss', whose bounds hold for all "
        "matrices of low rank",
        "Choose one of these",
    )


def _moments_of_outputs(matrix: FloatArray, moments: GroupMoments, center: Center) -> GroupMoments:
    """Moments W S_g W' of the outputs, about the origin, with means of zero."""
    second_moments = matrix @ moments.second_moments(center) @ matrix.T
    symmetric = (second_moments + second_moments.transpose(0, 2, 1)) / 2
    return GroupMoments.from_covariances(symmetric, weights=moments.weights, groups=moments.labels)


def _output_rounding(matrix: FloatArray, moments: GroupMoments, center: Center) -> float:
    """Bound on the rounding error of an error of the outputs, of the worst group.

    An entry of S_g is rounded relative to the root mean squares of its two columns, and output i
    sums them with the weights |W_ij|. Moments of incomplete rows are inexact themselves.
    """
    second_moments = moments.second_moments_about(moments.center_point(center))
    root_sums = second_moments.column_rms @ np.abs(matrix).T
    rounding = EPS * ENTRY_TERMS * (root_sums**2).sum(axis=1)
    if second_moments.uncertainty is not None:
        norm = float(np.linalg.norm(matrix, ord=2))
        rounding = rounding + second_moments.uncertainty.absolute * norm**2
    return float(rounding.max())


def _with_rounding(certificate: Certificate, rounding: float) -> Certificate:
    """Add the rounding error of the outputs' moments to the resolution of a certificate.

    An objective that is then not known to six digits is unresolved, however small the gap.
    """
    assessment = certificate.assessment
    resolution = assessment.resolution + rounding
    status = assessment.status
    max_rounding = max(assessment.tol, LOOSE_TOL) * assessment.scale
    # With as many components as outputs the errors are zero, and known to be.
    is_known = resolution <= max_rounding or certificate.objective == 0
    reason = assessment.unresolved_reason
    if status is Status.OPTIMAL and not is_known:
        status = Status.UNRESOLVED
        reason = "the outputs are differences of large numbers, of which few digits remain"
    assessment = replace(assessment, status=status, resolution=resolution, unresolved_reason=reason)
    return replace(certificate, assessment=assessment)


def _to_array(name: str, value: Any, n_axes: int) -> FloatArray:
    """Convert an array, or a tensor of another package, to float64.

    Raises
    ------
    InvalidInput
    """
    allowed = "Allowed: a matrix of finite numbers" if n_axes == 2 else "Allowed: finite numbers"
    # Tensors of PyTorch that require gradients, or are on a device, have no array interface.
    for method in ("detach", "cpu"):
        if hasattr(value, method):
            value = getattr(value, method)()
    try:
        if np.iscomplexobj(value):
            raise TypeError("complex numbers")
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name} cannot be read as numbers ({error})", allowed, "Convert it to an array"
        ) from error
    if array.ndim != n_axes or not array.size or not np.isfinite(array).all():
        raise InvalidInput(
            f"{name} has shape {array.shape}"
            + ("" if np.isfinite(array).all() else " and entries that are not finite"),
            allowed,
            "Pass the weights of one linear layer",
        )
    return array
