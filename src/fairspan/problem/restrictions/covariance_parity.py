"""Covariance parity: projections in which means agree, and covariances nearly do."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.errors import Incompatible
from fairspan.linalg import eigh, eigvalsh
from fairspan.problem.criteria import Criterion
from fairspan.problem.mean_free_directions import (
    mean_free_directions,
    split_by_variance,
)
from fairspan.problem.parameters import (
    check_count,
    check_number,
)
from fairspan.problem.problem import CovariancesWithin, Limit
from fairspan.problem.restrictions.restriction import Restriction, check_tolerated
from fairspan.rows.groups import Label
from fairspan.typing import FloatArray

# Without n_directions, covariance parity keeps this share of the directions.
_SHARE_OF_DIRECTIONS = 0.85
# What covariances differ by along a direction is rounding below this share of the most.
_NO_DIFFERENCE = 1e-12


@dataclass(frozen=True)
class CovarianceParity(Restriction):
    """Require equal means and nearly equal covariances of two groups' projected rows.

    Let Q be the directions that exact :class:`MeanParity` allows. With `n_directions`, V lies in
    the span of the `n_directions` eigenvectors of Q'(C_1 - C_2)Q of smallest absolute eigenvalue,
    in which any criterion is minimised (Kleindessner et al. 2023). With `tolerance`, the spectral
    norm of V'(C_1 - C_2)V is at most `tolerance`, total error only (Olfat and Aswani 2019, see
    :mod:`fairspan.solvers.restrictions.parity`).

    Parameters
    ----------
    n_directions : int, default=None
        From d to p - 1 (to p if the means agree already); fewer make the covariances more alike.
        None, with no tolerance, uses 85 % of the directions that mean parity allows, rounded down,
        and at least d. Directions without variance are taken last.
    tolerance : float, default=None
        Largest absolute difference of the groups' variances along a direction of the subspace, in
        squared (scaled) units of the features. Instead of `n_directions`. Zero makes them equal.
        The bound is that of a relaxation, so the gap is usually open; with solver="semidefinite"
        it is smaller, for up to 60 directions.

    Raises
    ------
    InvalidParameter, InvalidType
        A value out of range.
    Incompatible
        Both parameters at once. When fitting: more than two groups, n_directions below d or above
        what mean parity leaves, or a tolerance with another criterion or solver.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import CovarianceParity, FairPCA
    >>> X = np.array([[3.0, 1, 0], [-1, 1, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b"]
    >>> for n_directions in (2, 1):
    ...     parity = CovarianceParity(n_directions)
    ...     hidden = FairPCA(1, criterion="total_error", restriction=parity)
    ...     reduced = hidden.fit_transform(X, sensitive_features=groups)
    ...     print(reduced[:2].var().round(3), reduced[2:].var().round(3))
    0.0 4.0
    2.0 0.0
    """

    n_directions: int | None = None
    tolerance: float | None = None
    name: ClassVar[str] = "covariance_parity"
    follows_rotations: ClassVar[bool] = True
    counts_directions: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.n_directions is not None:
            check_count("n_directions", self.n_directions)
        if self.tolerance is not None:
            check_number("tolerance", self.tolerance, 0)
        if self.n_directions is not None and self.tolerance is not None:
            raise Incompatible(
                f"CovarianceParity received n_directions={self.n_directions!r} and "
                f"tolerance={self.tolerance!r}",
                "Allowed: one of them, or neither: each is a way of its own",
                "Leave one of them out",
            )

    @property
    def is_exact(self) -> bool:
        """Whether it is a choice of directions, with no tolerance."""
        return self.tolerance is None

    def check(self, labels: list[Label], criterion: Criterion, *, allow_extra: bool) -> None:
        """Raise Incompatible unless it is defined for these groups and this criterion."""
        if len(labels) > 2:
            raise Incompatible(
                f"CovarianceParity received {len(labels)} groups",
                "Allowed: two groups: it compares two covariances",
                "Use MeanParity(), which takes any number of groups, or join groups",
            )
        if not self.is_exact:
            exact = "CovarianceParity(n_directions=...) combines with every criterion"
            check_tolerated(self, labels, criterion, allow_extra=allow_extra, instead=exact)

    def directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray:
        """The directions among which V is chosen.

        Returns
        -------
        (p, n_directions) array
            Orthonormal columns; with a tolerance those of mean parity alone.

        Raises
        ------
        Incompatible
            Fewer than d directions, or fewer than were requested.
        """
        free = mean_free_directions(means, covariances, n_components)
        if len(means) == 1:
            return free
        if not self.is_exact:
            varying, still = split_by_variance(free, covariances)
            self._check_varying(n_components, varying.shape[1])
            # Directions without variance would only stand for a feasible subspace of more.
            kept = varying if still.shape[1] else free
            return self._where_nothing_cancels(kept, covariances, n_components)
        left = free.shape[1]
        wanted = self.n_directions
        if wanted is None:
            wanted = max(int(_SHARE_OF_DIRECTIONS * left), n_components)
        if not n_components <= wanted <= left:
            raise Incompatible(
                f"CovarianceParity received n_directions={wanted}",
                f"Allowed: {n_components} (n_components) to {left}: of {means.shape[1]} "
                f"features, mean parity takes {means.shape[1] - left} direction(s) away",
                "Choose a number in that range, or another n_components",
            )
        varying, still = split_by_variance(free, covariances)
        self._check_varying(n_components, varying.shape[1])
        values, vectors = eigh(varying.T @ (covariances[0] - covariances[1]) @ varying)
        nearest = np.sort(np.argsort(np.abs(values), kind="stable")[:wanted])
        # Along directions without variance groups are alike, and there is nothing to be kept.
        return np.hstack([varying @ vectors[:, nearest], still[:, : wanted - len(nearest)]])

    def _where_nothing_cancels(
        self, kept: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray:
        """The directions, or those of no difference where one group varies more along all others.

        Equal covariances then require only these, and the answer among them is exact.
        """
        if self.tolerance != 0:
            return kept
        apart = kept.T @ (covariances[0] - covariances[1]) @ kept
        least, *_, most = eigvalsh(apart) if len(apart) > 1 else np.repeat(apart, 2)
        rounding = _NO_DIFFERENCE * max(abs(least), abs(most))
        if least < -rounding and most > rounding:
            return kept
        values, vectors = eigh(apart)
        same = np.abs(values) <= rounding
        return kept @ vectors[:, same] if np.count_nonzero(same) >= n_components else kept

    def _check_varying(self, n_components: int, n_varying: int) -> None:
        if n_components > n_varying:
            raise Incompatible(
                f"CovarianceParity received n_components={n_components}",
                f"Allowed: up to {n_varying}: along no more of the directions that mean "
                "parity leaves does any row vary about its group's mean",
                "Choose fewer components, or use MeanParity()",
            )

    def most_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """The largest d that can be requested."""
        free = mean_free_directions(means, covariances, 1)
        if len(means) == 1:
            return int(free.shape[1])
        n_varying = int(split_by_variance(free, covariances)[0].shape[1])
        return n_varying if self.n_directions is None else min(n_varying, self.n_directions)

    def limit(self, means: FloatArray, covariances: FloatArray) -> Limit | None:
        """The difference of the two covariances, if there is a tolerance and a difference."""
        apart = covariances[0] - covariances[-1]
        rounding = _NO_DIFFERENCE * float(np.abs(covariances).max())
        if self.tolerance is None or float(np.abs(apart).max()) <= rounding:
            return None
        return CovariancesWithin(apart, self.tolerance)
