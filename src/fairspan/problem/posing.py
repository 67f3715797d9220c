"""From moments, and criteria by name, to the problem that solvers receive or verification poses.

A problem first waits for a number of components; then a restriction leaves some of it.
"""

import numbers
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from scipy.linalg import blas

from fairspan.errors import Incompatible, warn
from fairspan.moments.group_means import Center, GroupMeans
from fairspan.moments.held_rows import Coordinates as RowCoordinates
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import Complement, DenseSecondMoments
from fairspan.moments.sparse import SparseSecondMoments
from fairspan.problem.criteria import Criterion
from fairspan.problem.parity import (
    Encoding,
    check_enough_left,
    encoding_without,
    mean_differences,
    mean_free_directions,
)
from fairspan.problem.problem import Coordinates, Problem
from fairspan.problem.restrictions import CovarianceParity, Restriction
from fairspan.registry import object_of
from fairspan.rows.groups import listed
from fairspan.typing import FloatArray

# Sums of squares in the directions that a restriction forbids are rounded by this share.
_ROUNDINGS = 8 * float(np.finfo(np.float64).eps)
# Directions are few where they are no more than one in so many.
_FEW_OF = 20
# A column that is so many times as large as most may leave the others few digits.
_FAR_LARGER = 100.0


@dataclass(frozen=True, eq=False)
class Restricted:
    """A problem at one dimension, in the directions that a restriction leaves.

    Attributes
    ----------
    full : Problem
        Without the restriction.
    problem : Problem
        In the coordinates of the directions.
    directions : (p, m) array or None
        Orthonormal columns; None for all.
    shift : float
        To be added to values of the problem: what all groups lose alike outside of the directions
        is left out of it, since means that lie far apart would drown everything else.
    encoding : Encoding or None
        How rows are moved before they are projected, where the restriction is oblique; the problem
        is then that of the moved rows.
    forbidden : (p, r) array or None
        Orthonormal columns that the answer is orthogonal to, where sparse rows keep the problem in
        the features.
    """

    full: Problem
    problem: Problem
    directions: FloatArray | None
    shift: float = 0.0
    encoding: Encoding | None = None
    forbidden: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Posed:
    """A problem at a dimension yet to be given.

    Attributes
    ----------
    problem : Problem
        Without the restriction, at any dimension.
    restriction : Restriction or None
        In the coordinates of the problem.
    means : (m, p) array
        The means that the restriction receives: those of the groups, unless it requires others.
    offsets : (k, p) array
        The groups' means, from the point about which errors are measured.
    scatters : (k, p, p) array
        Sums of weighted squares and products about each group's own mean; empty without a
        restriction, and of sparse rows.
    variances : (k, p) array
        The same of each feature; empty without a restriction.
    coordinates : Coordinates or None
        Those of the problem, where it is not posed in the features.
    n_components : int or float
        d, or the share that was requested.
    """

    problem: Problem
    restriction: Restriction | None
    means: FloatArray
    offsets: FloatArray
    scatters: FloatArray
    variances: FloatArray
    coordinates: RowCoordinates | None
    n_components: int | float

    def at(self, n_components: int) -> Restricted:
        """The problem at a dimension.

        Raises
        ------
        Incompatible
            The restriction leaves too few directions.
        """
        full = replace(self.problem, n_components=n_components)
        hide = self.restriction
        if hide is None:
            return Restricted(full, full, None)
        if not full.has_matrices:
            return self._of_sparse_rows(full)
        if hide.oblique:
            return self._of_moved_rows(full)
        means, problem, shift = self.means, full, 0.0
        beside, directions, to_coordinates, within = self._parted(hide, n_components)
        if directions is None:
            limit = hide.limit(means, within)
        else:
            limit = hide.limit(means @ directions, within)
            outside, rounding = self._outside(full, beside)
            moves = full.criterion.moves_with_errors
            common = 0.0 if moves is None else float(outside.min())
            shift = 0.0 if moves is None else moves * common
            moved = full.dense.offset_rounding
            # Not from the second moments: means that lie far apart would leave their rounding.
            within = np.ascontiguousarray(within) if limit is None else within.copy()
            for matrix, offset in zip(within, self.offsets @ directions, strict=True):
                # In place, as the matrix is in C order: a product of its own would take longer.
                blas.dger(1.0, offset, offset, a=matrix.T, overwrite_a=1)
            second = DenseSecondMoments(
                within,
                outside - common,
                np.abs(directions.T) @ moved,
            )
            problem = replace(
                full,
                second_moments=second,
                unrestricted=full,
                to_coordinates=to_coordinates,
                fixed=outside - common,
                left_out=common,
                fixed_rounding=rounding,
                inner_rounding=_ROUNDINGS * self.variances.sum(axis=1),
            )
        problem = replace(problem, limit=limit)
        return Restricted(full, problem, directions, shift)

    @cached_property
    def covariances(self) -> FloatArray:
        """About each group's own mean, (k, p, p)."""
        return self.scatters / self.problem.weights[:, None, None]

    @property
    def most_components(self) -> int:
        """The largest d that can be requested."""
        hide = self.restriction
        known = self.coordinates
        most = self.problem.n_features if known is None else known.most_components
        if hide is None:
            return most
        if hide.oblique:
            return min(most, self._encoding.rank)
        return min(most, hide.most_components(self.means, self.covariances))

    @cached_property
    def _encoding(self) -> Encoding:
        return encoding_without(
            self.problem.pooled_matrix, mean_differences(self.means, self.variances)
        )

    def _of_sparse_rows(self, full: Problem) -> Restricted:
        """The problem in the features, beside the few directions that are forbidden."""
        forbidden = self._forbidden(full.n_components)
        outside = full.second_moments.captured_variances(forbidden)
        if full.criterion.counts_kept_variance:
            outside = np.zeros(full.n_groups)
        moves = full.criterion.moves_with_errors
        common = 0.0 if moves is None else float(outside.min())
        problem = replace(
            full,
            second_moments=cast(SparseSecondMoments, full.second_moments).beside(
                forbidden, outside - common
            ),
            unrestricted=full,
            fixed=outside - common,
            left_out=common,
        )
        return Restricted(
            full, problem, None, 0.0 if moves is None else moves * common, forbidden=forbidden
        )

    def _forbidden(self, n_components: int) -> FloatArray:
        """Orthonormal columns, (p, r), that a restriction forbids alone."""
        hide: Any = self.restriction
        columns = hide.forbidden(self.means, self.variances)
        check_enough_left(n_components, len(columns), columns.shape[1])
        return np.linalg.qr(columns)[0]

    def _parted(
        self, hide: Restriction, n_components: int
    ) -> tuple[FloatArray, FloatArray | None, Coordinates | None, FloatArray]:
        """What is forbidden, what is left (None for all), Q'V of columns V, and Q'C_gQ of groups.

        Where few of many directions are forbidden, what is left has a basis in which that takes
        products with those few alone.
        """
        p = self.means.shape[1]
        if hide.forbids_few:
            forbidden = self._forbidden(n_components)
            if forbidden.shape[1] <= p // _FEW_OF:
                complement = Complement.of(forbidden)
                within = complement.compressed(self.scatters, 1 / self.problem.weights)
                return forbidden, complement.basis, complement.coordinates, within
        covariances = self.covariances
        directions = hide.directions(self.means, covariances, n_components)
        if directions is None:
            return self.means[:0].T, None, None, covariances
        beside = np.linalg.qr(directions, mode="complete")[0][:, directions.shape[1] :]
        within = np.array([directions.T @ each @ directions for each in covariances])
        return beside, directions, partial(np.matmul, directions.T), within

    def _of_moved_rows(self, full: Problem) -> Restricted:
        """The problem of rows that an oblique restriction moves first: the same for all groups.

        What matters is the total error, which is that of the moved rows and what moving them costs.
        """
        encoding, k, p = self._encoding, full.n_groups, full.n_features
        if full.n_components > encoding.rank:
            raise Incompatible(
                f"n_components is {full.n_components} with {self.restriction!r}",
                f"Allowed: at most {encoding.rank}: once their means agree, the rows vary along "
                "no more directions",
                "Choose fewer components",
            )
        moved = DenseSecondMoments(
            np.broadcast_to(encoding.second_moment, (k, p, p)),
            offset_rounding=full.dense.offset_rounding,
        )
        problem = replace(
            full,
            second_moments=moved,
            unrestricted=full,
            fixed=np.zeros(k),
            left_out=encoding.lost,
            fixed_rounding=np.full(k, _ROUNDINGS * encoding.lost),
            inner_rounding=_ROUNDINGS * moved.traces,
        )
        return Restricted(full, problem, None, encoding.lost, encoding)

    def _outside(self, full: Problem, beside: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Each group's errors beside the directions left, and by how much these may be rounded."""
        if full.criterion.counts_kept_variance:
            nothing = np.zeros(full.n_groups)
            return nothing, nothing
        within = (
            np.array([np.vdot(beside, each @ beside) for each in self.scatters])
            / self.problem.weights
        )
        outside = within + ((self.offsets @ beside) ** 2).sum(axis=1)
        moved = float(np.linalg.norm(full.dense.offset_rounding))
        return outside, (2 * np.sqrt(outside) * moved + moved**2 + _ROUNDINGS * outside)


def pose(
    moments: Moments,
    n_components: int | float,
    criterion: Criterion,
    *,
    restriction: Restriction | None = None,
    center: Center = "global",
    divisor: FloatArray | None = None,
    allow_extra: bool = False,
) -> Posed:
    """The problem of a criterion.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or ThinMoments
        Thin ones are posed in the coordinates of the rows.
    n_components : int or float
        d, or a share of every group's variance.
    criterion : Criterion
    restriction : Restriction or None
    center : {"global", "group", "none"}
    divisor : (p,) array, optional
        What each feature is divided by.
    allow_extra : bool

    Returns
    -------
    Posed

    Raises
    ------
    Incompatible, UnknownGroup
        The criterion or the restriction is not defined for these groups.
    """
    scaled = moments if divisor is None else moments.divided_by(divisor)
    whole = isinstance(n_components, numbers.Integral)
    deviations = scaled.standard_deviations
    varying = deviations[deviations > 0]
    inside: GroupMeans = scaled
    # Coordinates of few rows turn the features, which a restriction may treat differently.
    turns = restriction is None or restriction.follows_rotations
    thin = scaled.in_coordinates(n_components, center) if turns else None
    if thin is None:
        inside = scaled if scaled.matrix_free else scaled.matrices()
        point = scaled.center_point(center)
    else:
        inside, point = thin.moments, thin.point
    problem = Problem(
        inside.operator_about(point),
        moments.labels,
        moments.weights,
        int(n_components) if whole else 1,
        criterion,
        allow_extra,
        least_column_variance=float(varying.min() ** 2) if len(varying) else None,
    )
    if restriction is not None:
        restriction.check(moments.labels, criterion, allow_extra=allow_extra)
        _check_center(restriction, center)
    within, means = restriction, inside.means
    if restriction is not None:
        means = restriction.means_of(inside)
    if restriction is not None and thin is not None:
        within = _in_coordinates(restriction, thin, n_components)
    offsets = np.zeros_like(inside.means) if point is None else inside.means - point
    scatters = variances = np.empty(0)
    if restriction is not None and inside.matrix_free:
        variances = inside.variances
    elif restriction is not None:
        scatters = inside.matrices().scatters
        variances = np.einsum("gii->gi", scatters) / inside.weights[:, None]
    return Posed(problem, within, means, offsets, scatters, variances, thin, n_components)


def deviations_of(moments: Moments) -> FloatArray:
    """What features are divided by where they are to be scaled: 1 for those that are constant."""
    deviations = moments.standard_deviations
    constant = deviations == 0
    if constant.any():
        names = moments.feature_names or tuple(map(str, range(moments.n_features)))
        columns = [name for name, is_constant in zip(names, constant, strict=True) if is_constant]
        warn(
            f"These columns are constant and stay unscaled: {listed(columns)}. Scaling needs "
            "columns that vary. They carry no variance, so you can leave them out."
        )
    return np.where(constant, 1.0, deviations)


def largest_column(moments: Moments, center: Center) -> str | None:
    """Which feature is so large that others are rounding beside it, in words; None of none."""
    spreads = moments.standard_deviations
    if center == "none":
        spreads = np.hypot(spreads, moments.mean)
    largest = int(np.argmax(spreads))
    names = moments.feature_names or tuple(map(str, range(moments.n_features)))
    others = np.delete(spreads, largest)
    typical = float(np.median(others[others > 0])) if (others > 0).any() else 0.0
    times = float(spreads[largest]) / typical if typical > 0 else np.inf
    if times < _FAR_LARGER:
        return None
    told = f", {times:.0e} times as large as most" if np.isfinite(times) else ""
    return f"the column {names[largest]!r} is the largest{told}"


def _check_center(restriction: Restriction, center: Center) -> None:
    if center != "global" and restriction.oblique:
        raise Incompatible(
            f"{restriction!r} was requested with center={center!r}",
            "Allowed: center='global': rows are moved about the mean of all of them",
            "Use center='global', or an orthogonal restriction",
        )


def _in_coordinates(
    restriction: Restriction, within: RowCoordinates, n_components: int | float
) -> Restriction:
    """The restriction in coordinates that is equivalent to that of all features.

    Rows that are fewer than their features have coordinates in which most directions without
    variance are left out (:mod:`fairspan.moments.held_rows`). A restriction counts those as well.

    Raises
    ------
    Incompatible
        Fewer directions are left than components or directions were requested, or it is not said
        how many.
    """
    # A restriction that counts no directions means the same in all coordinates.
    if not restriction.is_exact or restriction.oblique:
        return restriction
    moments, n_features = within.moments, within.thin.n_features
    free = mean_free_directions(restriction.means_of(moments), moments.second_moments("group"), 1)
    most = n_features - moments.n_features + free.shape[1]
    least = int(n_components) if isinstance(n_components, numbers.Integral) else 1
    if least > most:
        raise Incompatible(
            f"n_components is {least} with {restriction!r}",
            f"Allowed: at most {most}: of {n_features} features, the means that are to agree "
            f"differ along {n_features - most} direction(s)",
            "Choose fewer components, or leave the restriction out",
        )
    if not restriction.counts_directions or moments.n_groups == 1:
        return restriction
    wanted = cast(CovarianceParity, restriction).n_directions
    if wanted is None or not least <= wanted <= most:
        varying = within.n_known
        raise Incompatible(
            f"{restriction!r} was requested with rows that vary along only {varying} of "
            f"{n_features} directions",
            f"Allowed: a number n_directions from {least} to {most}; unless it is above "
            f"{n_features - varying}, no direction with variance needs to be among them",
            "Choose such a number, or another n_components",
        )
    # Directions without variance, which the coordinates leave out, are taken last.
    fewer: Any = replace(cast(Any, restriction), n_directions=min(wanted, free.shape[1]))
    return cast(Restriction, fewer)


def criterion_of(criterion: object, **parameters: Any) -> Criterion:
    """A criterion from its name and parameters, or the object itself.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor an object that has what a criterion has.

    Examples
    --------
    >>> criterion_of("error_gap", penalty=2.0)
    ErrorGap(penalty=2.0)
    """
    return cast(Criterion, object_of("criterion", criterion, Criterion, parameters))


def restriction_of(restriction: object, **parameters: Any) -> Restriction | None:
    """A restriction from its name and parameters, the object itself, or None.

    Raises
    ------
    InvalidParameter, InvalidType
        As of :func:`criterion_of`.

    Examples
    --------
    >>> restriction_of("mean_parity")
    MeanParity(tolerance=0.0)
    """
    if restriction is None:
        return None
    return cast(Restriction, object_of("restriction", restriction, Restriction, parameters))
