"""Mean parity: projections in which the means of the groups agree."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fairspan.errors import Incompatible, InvalidParameter
from fairspan.moments.group_means import GroupMeans
from fairspan.problem.coinciding_means import ATTRIBUTES, coinciding_means
from fairspan.problem.criteria import Criterion, TotalError
from fairspan.problem.mean_free_directions import (
    mean_differences,
    mean_free_directions,
)
from fairspan.problem.parameters import (
    changed_fields,
    check_choice,
    check_flag,
    check_number,
)
from fairspan.problem.problem import Limit, MeansWithin
from fairspan.problem.restrictions.restriction import Restriction, check_tolerated
from fairspan.rows.groups import Label, plain_labels
from fairspan.typing import FloatArray


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
        (:mod:`fairspan.problem.oblique`).

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
        if self.given_labels is not None:
            object.__setattr__(self, "given_labels", _classes(self.given_labels))
        changed = changed_fields(self)
        if not self.is_exact and len(changed) > 1:
            raise Incompatible(
                f"{self!r} has a tolerance",
                "Allowed with a tolerance are the other parameters at their defaults",
                "Leave them out, or use tolerance=0",
            )

    def __repr__(self) -> str:
        # What is not said is the default, so that names of models stay short.
        told = {"tolerance": self.tolerance} | changed_fields(self)
        return f"MeanParity({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    @property
    def is_exact(self) -> bool:
        """Whether it is a choice of directions, with no tolerance."""
        return self.tolerance == 0

    @property
    def needs_labels(self) -> bool:
        """Whether it holds in classes of y, which has to be known then."""
        return self.given_labels is not None

    @property
    def can_be_nested(self) -> bool:
        """Whether the directions that are left are the same for every number of components."""
        return self.is_exact and not self.oblique

    def check(self, labels: list[Label], criterion: Criterion, *, allow_extra: bool) -> None:
        """Raise Incompatible unless it is defined for these groups and this criterion."""
        if not self.is_exact:
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
        """Whether it allows all directions except a few: see :meth:`forbidden`."""
        return self.is_exact and not self.oblique

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
        return mean_free_directions(means, covariances, n_components) if self.is_exact else None

    def most_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """The largest d that can be requested."""
        directions = self.directions(means, covariances, 1)
        return int((means if directions is None else directions).shape[1])

    def limit(self, means: FloatArray, covariances: FloatArray) -> Limit | None:
        """The distance of the two means, if there is a tolerance."""
        return None if self.is_exact else MeansWithin(means[0] - means[-1], self.tolerance)


def _classes(given_labels: object) -> str | tuple[Label, ...]:
    """The classes that were requested, as plain values."""
    if isinstance(given_labels, str) and given_labels == "all":
        return given_labels
    if isinstance(given_labels, list | tuple | np.ndarray) and len(given_labels):
        return tuple(plain_labels(given_labels))
    raise InvalidParameter(
        f"given_labels is {given_labels!r}",
        "Allowed: None, 'all' and a list of classes of y",
        "Use one of these, such as given_labels=[1]",
    )
