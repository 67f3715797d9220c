"""Restrictions: subspaces in which the groups look alike, whatever criterion is minimised in them.

A criterion decides how much each group may lose. A restriction hides the group instead: it removes
differences between the groups from the projected rows (Olfat and Aswani 2019; Kleindessner et al.
2023). The two goals differ, and a subspace that hides the group can have a larger error for one
group.

Symbols: m_g is the mean of group g, C_g its covariance about that mean (divided by its weight), V
the orthonormal (p, d) basis. All are in scaled units where the features are scaled.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fairspan.errors import Incompatible, InvalidParameter
from fairspan.linalg import eigh
from fairspan.moments.group_means import GroupMeans
from fairspan.problem.criteria import Criterion, TotalError
from fairspan.problem.parameters import (
    changed_fields,
    check_choice,
    check_count,
    check_flag,
    check_number,
)
from fairspan.problem.parity import (
    ATTRIBUTES,
    coinciding_means,
    mean_differences,
    mean_free_directions,
    split_by_variance,
)
from fairspan.problem.problem import CovariancesWithin, Limit, MeansWithin
from fairspan.rows.groups import Label, plain_labels
from fairspan.typing import FloatArray

# Without n_directions, covariance parity keeps this share of the directions.
_SHARE_OF_DIRECTIONS = 0.85
# What covariances differ by along a direction is rounding below this share of the most.
_NO_DIFFERENCE = 1e-12
__all__ = ["CovarianceParity", "MeanParity", "Restriction"]


class Restriction(ABC):
    """A condition that hides the group: it limits the subspaces that a criterion may choose.

    A restriction of your own inherits from this class. It has a `name` and says its `directions`;
    the others have defaults.

    Attributes
    ----------
    follows_rotations : bool
        Whether rotated features only rotate the subspaces that are allowed: rows that are fewer
        than their features are then solved in coordinates of their own. Otherwise moments of all
        features are computed.
    given_labels : "all", sequence of classes, or None
        Classes of y, whose means it is about; moments then have `by_label`. None for all rows.
    oblique : bool
        Whether rows are shifted until the means agree, and then projected, without other
        conditions (:mod:`fairspan.problem.parity`).
    """

    follows_rotations: ClassVar[bool] = False
    given_labels: str | Sequence[Label] | None = None
    oblique: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which it can be requested."""

    @abstractmethod
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

    def check(self, labels: list[Label], criterion: Criterion, *, allow_extra: bool) -> None:
        """Raise Incompatible unless it is defined for these groups and this criterion."""
        return

    def most_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """The largest d that can be requested, where it is to be found from a share of variance."""
        directions = self.directions(means, covariances, 1)
        return int((means if directions is None else directions).shape[1])

    def limit(self, means: FloatArray, covariances: FloatArray) -> Limit | None:
        """What a subspace must not exceed, within the directions; None for no further limit."""
        return None

    @property
    def forbids_few(self) -> bool:
        """Whether all directions but the span of few are allowed, for every d, and nothing else.

        See :meth:`forbidden`. Components may then be nested.
        """
        return False

    def forbidden(self, means: FloatArray, variances: FloatArray) -> FloatArray:
        """Independent columns, (p, r), that the components have to be orthogonal to."""
        return np.empty((means.shape[1], 0))

    def means_of(self, moments: GroupMeans) -> FloatArray:
        """Means that the directions are computed from, (m, p): those of the groups."""
        return moments.means


def check_tolerated(
    restriction: Restriction,
    labels: list[Label],
    criterion: Criterion,
    *,
    allow_extra: bool,
    instead: str,
) -> None:
    """Raise Incompatible where a restriction with a tolerance is not defined."""
    received = "allow_extra=True" if allow_extra else f"the criterion {criterion.name!r}"
    if len(labels) > 2:
        received = f"{len(labels)} groups"
    if len(labels) > 2 or allow_extra or not isinstance(criterion, TotalError):
        raise Incompatible(
            f"{restriction!r} was requested together with {received}",
            "Allowed with a tolerance are the criterion 'total_error', two groups and "
            "allow_extra=False",
            f"Use these; or no tolerance: {instead}",
        )


@dataclass(frozen=True, repr=False)
class MeanParity(Restriction):
    """Require equal, or nearly equal, means of the groups' projected rows.

    Exactly (tolerance 0): V'(m_g - m) = 0 for every group, m any mean of the m_g. V lies in the
    complement of the span of these differences, of dimension p - rank, in which any criterion is
    minimised. With a tolerance, two groups: ||V'(m_1 - m_2)|| <= tolerance, total error only; Olfat
    and Aswani (2019), without their relaxation.

    Parameters
    ----------
    tolerance : float, default=0.0
        Largest distance of the two projected means, in (scaled) units of the features.
    attributes : {"intersections", "marginal"}, default="intersections"
        Which means are equal with several attributes, such as sex and race. "intersections": every
        combination has the same mean. "marginal": the categories of each attribute have the same
        mean, V'Cov(x, z) = 0 for the indicator z of each category, which removes sum_j (k_j - 1)
        directions and not prod_j k_j - 1. For a single attribute both are the same.
    given_labels : "all", list of classes, or None, default=None
        The means agree among the rows of each of these classes of the y passed to `fit` (equal
        opportunity, Kleindessner et al. 2023), instead of among all rows. The criterion is that of
        all rows in any case.
    oblique : bool, default=False
        Project obliquely: rows are shifted along the differences of the means, by an amount that
        is predicted from the other features, and then projected. This keeps more variance at the
        same d. The projection has an encoder, whose rows are not orthonormal, and a decoder. Total
        error and center="global" only; d is at most the rank of the remaining variance
        (:mod:`fairspan.problem.parity`).

    Raises
    ------
    InvalidParameter, InvalidType
        The tolerance is no finite number, or negative; another word for the attributes; `oblique`
        neither True nor False.
    Incompatible
        A tolerance with another parameter. When fitting: too few directions are left, or a
        tolerance or an oblique projection meets another criterion, number of groups, centre or
        solver.

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
    attributes: str = field(default="intersections", kw_only=True)
    given_labels: str | Sequence[Label] | None = field(default=None, kw_only=True)
    oblique: bool = field(default=False, kw_only=True)
    name: ClassVar[str] = "mean_parity"
    follows_rotations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance, 0)
        check_choice("attributes", self.attributes, ATTRIBUTES)
        check_flag("oblique", self.oblique)
        classes = self.given_labels
        if isinstance(classes, list | tuple | np.ndarray) and len(classes):
            object.__setattr__(self, "given_labels", tuple(plain_labels(classes)))
        elif classes is not None and not (isinstance(classes, str) and classes == "all"):
            raise InvalidParameter(
                f"given_labels is {classes!r}",
                "Allowed: None, 'all' and a list of classes of y",
                "Use one of these, such as given_labels=[1]",
            )
        if self.tolerance > 0 and len(changed_fields(self)) > 1:
            raise Incompatible(
                f"{self!r} has a tolerance",
                "Allowed with a tolerance are the other parameters at their defaults",
                "Leave them out, or use tolerance=0",
            )

    def __repr__(self) -> str:
        # What is not said is the default, so that names of models stay short.
        told = {"tolerance": self.tolerance} | changed_fields(self)
        return f"MeanParity({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    def check(self, labels: list[Label], criterion: Criterion, *, allow_extra: bool) -> None:
        """Raise Incompatible unless it is defined for these groups and this criterion."""
        if self.tolerance > 0:
            exact = "MeanParity(tolerance=0) combines with every criterion and number of groups"
            check_tolerated(self, labels, criterion, allow_extra=allow_extra, instead=exact)
        if self.oblique and not isinstance(criterion, TotalError):
            raise Incompatible(
                f"{self!r} was requested together with the criterion {criterion.name!r}",
                "Allowed with an oblique projection is the criterion 'total_error'",
                "Use it, or MeanParity(), which combines with every criterion",
            )

    def means_of(self, moments: GroupMeans) -> FloatArray:
        """The means that must agree, (m, p)."""
        return coinciding_means(moments, self.attributes, self.given_labels)

    @property
    def forbids_few(self) -> bool:
        """Unless it has a tolerance, or rows are moved."""
        return self.tolerance == 0 and not self.oblique

    def forbidden(self, means: FloatArray, variances: FloatArray) -> FloatArray:
        """Independent columns, (p, r), that the components have to be orthogonal to.

        Parameters
        ----------
        means : (m, p) array
        variances : (k, p) array
            Of each feature in each group.
        """
        return mean_differences(means, variances)

    def directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray | None:
        """The directions among which V is chosen; None for all.

        Raises
        ------
        Incompatible
            Fewer than d are left.
        """
        return None if self.tolerance else mean_free_directions(means, covariances, n_components)

    def limit(self, means: FloatArray, covariances: FloatArray) -> Limit | None:
        """The distance of the two means, if there is a tolerance."""
        return MeansWithin(means[0] - means[-1], self.tolerance) if self.tolerance else None


@dataclass(frozen=True)
class CovarianceParity(Restriction):
    """Require equal means and nearly equal covariances of two groups' projected rows.

    Let Q be the directions that exact :class:`MeanParity` allows. With `n_directions`, V lies in
    the span of the `n_directions` eigenvectors of Q'(C_1 - C_2)Q of smallest absolute eigenvalue,
    in which any criterion is minimised (Kleindessner et al. 2023). With `tolerance`, the spectral
    norm of V'(C_1 - C_2)V is at most `tolerance`, total error only (Olfat and Aswani 2019, see
    :mod:`fairspan.solvers.parity.covariances`).

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

    def check(self, labels: list[Label], criterion: Criterion, *, allow_extra: bool) -> None:
        """Raise Incompatible unless it is defined for these groups and this criterion."""
        if len(labels) > 2:
            raise Incompatible(
                f"CovarianceParity received {len(labels)} groups",
                "Allowed: two groups: it compares two covariances",
                "Use MeanParity(), which takes any number of groups, or join groups",
            )
        if self.tolerance is not None:
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
        varying, still = split_by_variance(free, covariances)
        if n_components > varying.shape[1]:
            raise Incompatible(
                f"CovarianceParity received n_components={n_components}",
                f"Allowed: up to {varying.shape[1]}: along no more of the directions that mean "
                "parity leaves does any row vary about its group's mean",
                "Choose fewer components, or use MeanParity()",
            )
        values, vectors = eigh(varying.T @ (covariances[0] - covariances[1]) @ varying)
        sizes = np.abs(values)
        if self.tolerance is not None:
            # Where one group varies more along all directions but those of no difference, equal
            # covariances require these, and the answer among them is exact. Directions without
            # variance would only stand for a feasible subspace of more.
            rounding = _NO_DIFFERENCE * sizes.max()
            cancels = values[0] < -rounding and values[-1] > rounding
            same = vectors[:, sizes <= rounding]
            only = self.tolerance == 0 and not cancels and same.shape[1] >= n_components
            return np.asarray(varying @ same if only else varying)
        wanted, left = self.n_directions, free.shape[1]
        if wanted is None:
            wanted = max(int(_SHARE_OF_DIRECTIONS * left), n_components)
        if not n_components <= wanted <= left:
            raise Incompatible(
                f"CovarianceParity received n_directions={wanted}",
                f"Allowed: {n_components} (n_components) to {left}: of {means.shape[1]} "
                f"features, mean parity takes {means.shape[1] - left} direction(s) away",
                "Choose a number in that range, or another n_components",
            )
        nearest = np.sort(np.argsort(sizes, kind="stable")[:wanted])
        # Along directions without variance groups are alike, and there is nothing to be kept.
        return np.hstack([varying @ vectors[:, nearest], still[:, : wanted - len(nearest)]])

    def most_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """The largest d that can be requested: along so many directions rows vary."""
        kept = mean_free_directions(means, covariances, 1)
        if len(means) > 1:
            kept = split_by_variance(kept, covariances)[0][:, : self.n_directions]
        return int(kept.shape[1])

    def limit(self, means: FloatArray, covariances: FloatArray) -> Limit | None:
        """The difference of the two covariances, if there is a tolerance and a difference."""
        apart = covariances[0] - covariances[-1]
        alike = np.abs(apart).max() <= _NO_DIFFERENCE * np.abs(covariances).max()
        return None if self.tolerance is None or alike else CovariancesWithin(apart, self.tolerance)
