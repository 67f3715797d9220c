"""Restrictions: subspaces in which the groups look alike, whatever criterion is minimised in them.

A criterion serves the groups: it decides how much each of them may lose. A restriction hides the
group instead: it removes from the projected rows what tells the groups apart (Olfat and Aswani
2019; Kleindessner et al. 2023). The two goals differ, and a subspace that hides the group may well
serve one group worse.

Symbols: m_g is the mean of group g, C_g its covariance about that mean (divided by its weight), V
the orthonormal (p, d) basis. All are in scaled units where the features are scaled.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fairspan.errors import Incompatible
from fairspan.linalg import eigh
from fairspan.problem.criteria import Criterion, TotalError
from fairspan.problem.mean_free_directions import mean_free_directions, split_by_variance
from fairspan.problem.parameters import check_count, check_number
from fairspan.problem.problem import CovariancesWithin, Limit, MeansWithin
from fairspan.rows.groups import Label
from fairspan.typing import FloatArray

# Without n_directions, covariance parity keeps this share of the directions.
_SHARE_OF_DIRECTIONS = 0.85


class Restriction(Protocol):
    """What hides the group: which subspaces are left, whatever criterion is minimised in them."""

    @property
    def name(self) -> str:
        """The name by which it can be asked for."""

    def check(self, labels: list[Label], criterion: Criterion, *, allow_extra: bool) -> None:
        """Raise Incompatible unless it is defined for these groups and this criterion."""

    def directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray | None:
        """Orthonormal (p, m) columns in whose span V is chosen; None for all directions.

        Parameters
        ----------
        means : (k, p) array
        covariances : (k, p, p) array
            About each group's own mean.
        n_components : int
        """

    def most_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """The largest d that can be asked for, where it is to be found from a share of variance."""

    def limit(self, means: FloatArray, covariances: FloatArray) -> Limit | None:
        """What a subspace must not exceed, within the directions; None for no further limit."""


@dataclass(frozen=True)
class MeanParity:
    """The projected rows of all groups have the same mean, or nearly.

    Exactly (tolerance 0): V'(m_g - m) = 0 for every group, m any mean of the m_g. V lies in the
    complement of the span of these differences, of dimension p - rank, in which any criterion is
    minimised. With a tolerance, two groups: ||V'(m_1 - m_2)|| <= tolerance, total error only; Olfat
    and Aswani (2019), without their relaxation.

    Parameters
    ----------
    tolerance : float, default=0.0
        Largest distance of the two projected means, in (scaled) units of the features.

    Raises
    ------
    InvalidParameter, InvalidType
        The tolerance is no finite number, or negative. When fitting: Incompatible where too few
        directions are left, or a tolerance meets another criterion, number of groups or solver.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, MeanParity
    >>> X = np.array([[3.0, 1, 0], [-1, 1, 0], [0, 0, 2], [0, 0, -2]])
    >>> groups = ["a", "a", "b", "b"]
    >>> for restriction in (None, MeanParity(tolerance=0.5), MeanParity()):
    ...     hidden = FairPCA(1, criterion="total_error", restriction=restriction)
    ...     reduced = hidden.fit_transform(X, sensitive_features=groups)
    ...     print(abs(reduced[:2].mean() - reduced[2:].mean()).round(3), round(hidden.score(X), 3))
    1.115 -2.219
    0.5 -2.438
    0.0 -2.5
    """

    tolerance: float = 0.0
    name: ClassVar[str] = "mean_parity"
    powers_of_unit: ClassVar[dict[str, int]] = {"tolerance": 1}

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance, 0)

    @property
    def is_exact(self) -> bool:
        """Whether it is a choice of directions, with no tolerance."""
        return self.tolerance == 0

    def check(self, labels: list[Label], criterion: Criterion, *, allow_extra: bool) -> None:
        """Raise Incompatible unless it is defined for these groups and this criterion."""
        if not self.is_exact:
            exact = "MeanParity(tolerance=0) combines with every criterion and number of groups"
            _check_tolerated(self, labels, criterion, allow_extra=allow_extra, instead=exact)

    def directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray | None:
        """The directions among which V is chosen; None for all.

        Raises
        ------
        Incompatible
            Fewer than d are left.
        """
        return mean_free_directions(means, covariances, n_components) if self.is_exact else None

    def most_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """The largest d that can be asked for."""
        directions = self.directions(means, covariances, 1)
        return int((means if directions is None else directions).shape[1])

    def limit(self, means: FloatArray, covariances: FloatArray) -> Limit | None:
        """The distance of the two means, if there is a tolerance."""
        return None if self.is_exact else MeansWithin(means[0] - means[-1], self.tolerance)


@dataclass(frozen=True)
class CovarianceParity:
    """The projected rows of two groups have the same mean, and nearly the same covariance.

    Let Q be the directions that exact :class:`MeanParity` leaves. By directions: V lies in the span
    of the `n_directions` eigenvectors of Q'(C_1 - C_2)Q of smallest absolute eigenvalue, in which
    any criterion is minimised (Kleindessner et al. 2023). By tolerance: the spectral norm of
    V'(C_1 - C_2)V is at most `tolerance`, total error only (Olfat and Aswani 2019, see
    :mod:`fairspan.solvers.restrictions.parity`).

    Parameters
    ----------
    n_directions : int, default=None
        From d to p - 1 (to p if the means agree already); fewer make the covariances more alike.
        None, with no tolerance, takes 85 % of the directions that mean parity leaves, rounded down,
        and at least d. Directions without variance are taken last.
    tolerance : float, default=None
        Largest absolute difference of the groups' variances along a direction of the subspace, in
        squared (scaled) units of the features. Instead of `n_directions`. Zero makes them equal.
        Up to 60 directions need cvxpy; of more, the bound is weaker and the gap usually open.

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
    powers_of_unit: ClassVar[dict[str, int]] = {"tolerance": 2}

    def __post_init__(self) -> None:
        if self.n_directions is not None:
            check_count("n_directions", self.n_directions)
        if self.tolerance is not None:
            check_number("tolerance", self.tolerance, 0)
        if self.n_directions is not None and self.tolerance is not None:
            raise Incompatible(
                f"CovarianceParity received n_directions={self.n_directions!r} and "
                f"tolerance={self.tolerance!r}",
                "Allowed is one of them, or neither: each is a way of its own",
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
                f"CovarianceParity was asked for {len(labels)} groups",
                "Allowed are two groups: it compares two covariances",
                "Use MeanParity(), which takes any number of groups, or join groups",
            )
        if not self.is_exact:
            exact = "CovarianceParity(n_directions=...) combines with every criterion"
            _check_tolerated(self, labels, criterion, allow_extra=allow_extra, instead=exact)

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
            Fewer than d directions, or fewer than were asked for.
        """
        free = mean_free_directions(means, covariances, n_components)
        if len(means) == 1:
            return free
        if not self.is_exact:
            varying, still = split_by_variance(free, covariances)
            self._check_varying(n_components, varying.shape[1])
            # Directions without variance would only stand for a feasible subspace of more.
            return varying if still.shape[1] else free
        left = free.shape[1]
        wanted = self.n_directions
        if wanted is None:
            wanted = max(int(_SHARE_OF_DIRECTIONS * left), n_components)
        if not n_components <= wanted <= left:
            raise Incompatible(
                f"CovarianceParity was asked for n_directions={wanted}",
                f"Allowed are {n_components} (n_components) to {left}: of {means.shape[1]} "
                f"features, mean parity takes {means.shape[1] - left} direction(s) away",
                "Choose a number in that range, or another n_components",
            )
        varying, still = split_by_variance(free, covariances)
        self._check_varying(n_components, varying.shape[1])
        values, vectors = eigh(varying.T @ (covariances[0] - covariances[1]) @ varying)
        nearest = np.sort(np.argsort(np.abs(values), kind="stable")[:wanted])
        # Along directions without variance groups are alike, and there is nothing to be kept.
        return np.hstack([varying @ vectors[:, nearest], still[:, : wanted - len(nearest)]])

    def _check_varying(self, n_components: int, n_varying: int) -> None:
        if n_components > n_varying:
            raise Incompatible(
                f"CovarianceParity was asked for n_components={n_components}",
                f"Allowed are up to {n_varying}: along no more of the directions that mean "
                "parity leaves does any row vary about its group's mean",
                "Choose fewer components, or use MeanParity()",
            )

    def most_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """The largest d that can be asked for."""
        free = mean_free_directions(means, covariances, 1)
        if len(means) == 1:
            return int(free.shape[1])
        n_varying = int(split_by_variance(free, covariances)[0].shape[1])
        return n_varying if self.n_directions is None else min(n_varying, self.n_directions)

    def limit(self, means: FloatArray, covariances: FloatArray) -> Limit | None:
        """The difference of the two covariances, if there is a tolerance."""
        if self.tolerance is None:
            return None
        return CovariancesWithin(covariances[0] - covariances[-1], self.tolerance)


def _check_tolerated(
    restriction: Restriction,
    labels: list[Label],
    criterion: Criterion,
    *,
    allow_extra: bool,
    instead: str,
) -> None:
    """Raise Incompatible where a restriction with a tolerance is not defined."""
    if isinstance(criterion, TotalError) and len(labels) <= 2 and not allow_extra:
        return
    received = f"the criterion {criterion.name!r}"
    if allow_extra:
        received = "allow_extra=True"
    if len(labels) > 2:
        received = f"{len(labels)} groups"
    raise Incompatible(
        f"{restriction!r} was asked for together with {received}",
        "Allowed with a tolerance are the criterion 'total_error', two groups and "
        "allow_extra=False",
        f"Use these; or no tolerance: {instead}",
    )
