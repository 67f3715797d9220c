"""Lower bound on the largest group error of any model with a linear decoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidType
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.linalg.rounding import LOOSE_TOL
from fairspan.metrics.decoder_offset import decoder_offset, not_linear_error
from fairspan.model.adapted_model import AdaptedModel
from fairspan.model.linear_decoder import LinearDecoder
from fairspan.model.other_packages import ReconstructionModel
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.parameters import check_bool
from fairspan.problem.criteria.minimax import MinimaxError
from fairspan.rows.aggregation import Rows, as_row_source
from fairspan.rows.labels import Label, format_list
from fairspan.rows.opening import open_group_rows
from fairspan.typing import FloatArray, LabelsLike, TableLike, WeightsLike

# Relative gap at which the search for the best subspace ends, as for FairPCA.
_DEFAULT_TOL = 1e-9


@dataclass(frozen=True, eq=False)
class RankBound:
    """Largest group error of a model, with a lower bound for all models of its rank.

    Attributes
    ----------
    groups : tuple of k labels
    errors : (k,) array
        Mean squared error of each group, in squared units; divided by its variance if `relative`.
    bound : float
        No model that reconstructs from as many numbers with a common linear decoder, about the same
        center, has a smaller largest error.
    n_components : int
        Number of codes of a row, d.
    relative : bool
    certificate : Certificate
        Of the fair subspace whose bound this is.
    """

    groups: tuple[Label, ...]
    errors: FloatArray
    bound: float
    n_components: int
    relative: bool
    certificate: Certificate

    @property
    def largest_error(self) -> float:
        """Error of the group that is reconstructed worst."""
        return float(self.errors.max())

    @property
    def excess(self) -> float:
        """Largest error over the bound, minus one: by at most this the best model is better."""
        return self.largest_error / self.bound - 1 if self.bound > 0 else np.inf

    def __str__(self) -> str:
        error = f"{self.largest_error:.4g} squared units"
        bound = f"{self.bound:.4g}"
        if self.relative:
            error = f"{100 * self.largest_error:.1f} % of its mean square about the model's offset"
            bound = f"{100 * self.bound:.1f} %"
        if self.bound == 0:
            return f"The largest error of a group is {error}, and no positive bound is known."
        return (
            f"The largest error of a group is {error}. No linear decoder of "
            f"{self.n_components} numbers has one below {bound}, so this model is at most "
            f"{100 * self.excess:.2g} % above the best."
        )


def rank_bound(
    model: object,
    X: TableLike,
    sensitive_features: LabelsLike,
    *,
    sample_weight: WeightsLike = None,
    relative: bool = True,
) -> RankBound:
    """Compare the largest group error of a model with a bound for all linear decoders of its rank.

    For any encoder and any decoder D of rank d, and weights w >= 0 of the groups, the errors
    satisfy sum_g w_g e_g >= the sum of all but the d largest eigenvalues of sum_g w_g S_g (Eckart
    and Young 1936), S_g the second moments about the model's offset. The weights are those that
    prove the optimum of `MinimaxError`.

    Parameters
    ----------
    model : object
        Fitted model with `transform` and a linear `inverse_transform`, such as NMF, SparsePCA or a
        PCA; a dictionary with `components_`; a :class:`~fairspan.extending.LinearDecoder` for any
        other encoder; or any model that :func:`fairspan.audit` takes.
    X : (n, p) table of finite numbers, in memory
    sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
    sample_weight : (n,) array-like, or column name of X, optional
    relative : bool, default=True
        Divide each error by the group's variance about the model's offset.

    Returns
    -------
    RankBound

    Raises
    ------
    InvalidInput, InvalidType
        Rows or a model that are not valid.
    IncompatibleParameters
        The decoder is not linear, or errors are about the mean of each group.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.decomposition import NMF
    >>> from fairspan import metrics
    >>> X, digits = load_digits(return_X_y=True)
    >>> model = NMF(5, init="nndsvda", max_iter=1000).fit(X)
    >>> result = metrics.rank_bound(model, X, digits >= 5)
    >>> bool(result.largest_error > result.bound > 0)
    True
    """
    check_bool("relative", relative)
    mapping = AdaptedModel.from_model(_add_linear_decoder(model)).mapping
    rows = open_group_rows(X, sensitive_features, sample_weight)
    if mapping.feature_names is not None and rows.feature_names is not None:
        rows = rows.select_features(mapping.feature_names)
    if isinstance(mapping, FairSubspace):
        return _bound_subspace(mapping, rows, relative=relative)
    return _bound_row_model(mapping, rows, relative=relative)


def _add_linear_decoder(model: object) -> object:
    """Return the model; if it has components and no decoder, with the decoder that they define."""
    encode_rows = getattr(model, "transform", None)
    components = getattr(model, "components_", None)
    if hasattr(model, "inverse_transform") or encode_rows is None:
        return model
    if not isinstance(components, np.ndarray):
        return model
    return LinearDecoder(encode_rows, components)


def _bound_subspace(subspace: FairSubspace, rows: Rows, *, relative: bool) -> RankBound:
    """Compare a projection with its bound, for which moments suffice."""
    moments = compute_group_moments(rows)
    frame = subspace.reference_frame(moments)
    if not frame.has_common_center:
        raise IncompatibleParameters(
            "The model has errors about the mean of each group",
            "Allowed: models with one offset for all rows",
            "Fit with center='global'",
        )
    second_moments = cast(DenseSecondMoments, frame.second_moments(moments)).matrices
    projector = subspace.projector
    residual = np.eye(subspace.n_features) - projector.decoder @ projector.encoder
    errors = np.einsum("ij,gjk,ik->g", residual, second_moments, residual)
    return _compare_with_bound(
        moments, second_moments, errors, subspace.dimension, relative=relative
    )


def _bound_row_model(model: ReconstructionModel, rows: Rows, *, relative: bool) -> RankBound:
    """Compare a model that is evaluated row by row with its bound."""
    source = as_row_source(rows)
    if source is None:
        raise InvalidType(
            f"X is of type {type(rows).__name__}, whose partitions are read in place",
            "Allowed: arrays, data frames and files",
            "Load a random part of the rows into memory",
        )
    moments = compute_group_moments(rows)
    sums = np.zeros(moments.n_groups)
    weights = np.zeros(moments.n_groups)
    positions_by_label = {label: index for index, label in enumerate(moments.labels)}
    for block in source.blocks():
        assert block.groups is not None
        positions = np.array([positions_by_label[label] for label in block.groups.to_list()])
        row_weights = np.ones(len(block.values)) if block.weights is None else block.weights
        offset = decoder_offset(model, block.values)
        residuals = row_weights * model.squared_residuals(block.values)
        sums += np.bincount(positions, weights=residuals, minlength=len(sums))
        weights += np.bincount(positions, weights=row_weights, minlength=len(sums))
    scaled = moments.in_units(model.scale)
    point = offset if model.scale is None else offset / model.scale
    second_moments = scaled.second_moments_about(point).matrices
    return _compare_with_bound(
        moments, second_moments, sums / weights, model.dimension, relative=relative
    )


def _compare_with_bound(
    moments: GroupMoments,
    second_moments: FloatArray,
    errors: FloatArray,
    d: int,
    *,
    relative: bool,
) -> RankBound:
    """Compare errors with the bound for models of rank d.

    Parameters
    ----------
    moments : GroupMoments
    second_moments : (k, p, p) array
        About the offset of the model.
    errors : (k,) array
        Mean squared error of each group under the model.
    d : int
    relative : bool

    Raises
    ------
    IncompatibleParameters
        The errors are below the bound, which shows that the decoder is not linear.
    InvalidInput
        A group without variance has no relative error.
    """
    if relative:
        variances = np.einsum("gii->g", second_moments)
        _check_varies(variances, moments.labels)
        errors = errors / variances
    certificate = minimax_certificate(second_moments, moments.labels, d, relative=relative)
    bound = proven_bound(certificate)
    if errors.max() < bound * (1 - LOOSE_TOL):
        raise not_linear_error()
    return RankBound(
        groups=tuple(moments.labels),
        errors=errors,
        bound=bound,
        n_components=d,
        relative=relative,
        certificate=certificate,
    )


def _check_varies(variances: FloatArray, groups: Sequence[Label]) -> None:
    """Check that every group has variance about the offset of the model.

    Raises
    ------
    InvalidInput
    """
    constant = [group for group, variance in zip(groups, variances, strict=True) if not variance]
    if constant:
        raise InvalidInput(
            f"The rows of {format_list(constant)} do not vary about the offset of the model",
            "Allowed with relative=True: groups with variance, of which errors are shares",
            "Use relative=False, or leave these rows out",
        )


def minimax_certificate(
    second_moments: FloatArray,
    groups: Sequence[Label],
    n_components: int,
    *,
    relative: bool = False,
    tol: float = _DEFAULT_TOL,
) -> Certificate:
    """Certificate of the subspace with the smallest largest error, about the origin.

    Parameters
    ----------
    second_moments : (k, q, q) array
    groups : sequence of k labels
    n_components : int
        Number of dimensions; with more than q, all of them.
    relative : bool
        Divide each error by the trace of its matrix.
    tol : float
        Largest relative gap at which the search ends.
    """
    about_origin = GroupMoments.from_covariances(second_moments, groups=groups)
    rank = min(n_components, about_origin.n_features)
    settings = FitSettings(rank, MinimaxError(relative=relative), center="none", tol=tol)
    return fit_moments(about_origin, settings).certificate


def proven_bound(certificate: Certificate) -> float:
    """Lower bound of a certificate less its rounding error, at least zero."""
    return max(certificate.lower_bound - certificate.resolution, 0.0)
