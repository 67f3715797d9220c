"""A problem that waits for a number of components, and what a restriction leaves of it."""

import numbers
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from scipy.linalg import blas

from fairspan.errors import Incompatible
from fairspan.moments.deflation import Complement, DeflatedSparse
from fairspan.moments.held_rows.frame import InCoordinates
from fairspan.moments.held_rows.sparse_moments import SparseSecondMoments
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.mean_free_directions import (
    check_enough_left,
    mean_differences,
)
from fairspan.problem.oblique import Encoding, encoding_without
from fairspan.problem.problem import Coordinates, Problem
from fairspan.problem.restrictions import Restriction
from fairspan.typing import FloatArray

# Sums of squares in the directions that a restriction forbids are rounded by this share.
_ROUNDINGS = 8 * float(np.finfo(np.float64).eps)
# Directions are few where they are no more than one in so many.
_FEW_OF = 20


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
    coordinates : InCoordinates or None
        Those of the problem, where it is not posed in the features.
    n_components : int or float
        d in the coordinates, or the share that was requested.
    """

    problem: Problem
    restriction: Restriction | None
    means: FloatArray
    offsets: FloatArray
    scatters: FloatArray
    variances: FloatArray
    coordinates: InCoordinates | None
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
        if hide is None:
            return self.problem.n_features
        if hide.oblique:
            return self._encoding.rank
        return hide.most_components(self.means, self.covariances)

    @cached_property
    def _encoding(self) -> Encoding:
        apart = mean_differences(self.means, self.variances)
        return encoding_without(self.problem.pooled_matrix, apart)

    def _of_sparse_rows(self, full: Problem) -> Restricted:
        """The problem in the features, beside the few directions that are forbidden."""
        forbidden = self._forbidden(full.n_components)
        outside = full.second_moments.captured_variances(forbidden)
        if full.criterion.counts_kept_variance:
            outside = np.zeros(full.n_groups)
        moves = full.criterion.moves_with_errors
        common = 0.0 if moves is None else float(outside.min())
        rows = cast(SparseSecondMoments, full.second_moments)
        problem = replace(
            full,
            second_moments=DeflatedSparse(rows, forbidden, outside - common),
            unrestricted=full,
            fixed=outside - common,
            left_out=common,
        )
        shift = 0.0 if moves is None else moves * common
        return Restricted(full, problem, None, shift, forbidden=forbidden)

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
        asked = full.n_components
        if self.coordinates is not None and isinstance(self.coordinates.asked, numbers.Integral):
            asked = int(self.coordinates.asked)
        if asked > encoding.rank:
            raise Incompatible(
                f"n_components is {asked} with {self.restriction!r}",
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
        within = np.array([np.vdot(beside, each @ beside) for each in self.scatters])
        within /= self.problem.weights
        outside = within + ((self.offsets @ beside) ** 2).sum(axis=1)
        moved = float(np.linalg.norm(full.dense.offset_rounding))
        rounding = 2 * np.sqrt(outside) * moved + moved**2 + _ROUNDINGS * outside
        return outside, rounding
