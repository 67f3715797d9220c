"""What a restriction is, and with what one that has a tolerance is combined."""

from abc import abstractmethod
from typing import ClassVar, Protocol

import numpy as np

from fairspan.errors import Incompatible
from fairspan.moments.group_means import GroupMeans
from fairspan.problem.criteria import Criterion, TotalError
from fairspan.problem.problem import Limit
from fairspan.rows.groups import Label
from fairspan.typing import FloatArray


class Restriction(Protocol):
    """A condition that hides the group: it limits the subspaces that a criterion may choose.

    Five members are required. The others say what else has to be known; an object that has the
    required ones alone is taken with the defaults.

    Attributes
    ----------
    follows_rotations : bool
        Whether rotated features only rotate the subspaces that are allowed: rows that are fewer
        than their features are then solved in coordinates of their own. Otherwise moments of all
        features are computed.
    counts_directions : bool
        Whether a parameter `n_directions` says how many directions are allowed.
    oblique : bool
        Whether rows are shifted until the means agree, and then projected, without other
        conditions (:mod:`fairspan.problem.oblique`).
    """

    follows_rotations: ClassVar[bool] = False
    counts_directions: ClassVar[bool] = False
    oblique: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which it can be requested."""

    @abstractmethod
    def check(self, labels: list[Label], criterion: Criterion, *, allow_extra: bool) -> None:
        """Raise Incompatible unless it is defined for these groups and this criterion."""

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

    @abstractmethod
    def most_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """The largest d that can be requested, where it is to be found from a share of variance."""

    @abstractmethod
    def limit(self, means: FloatArray, covariances: FloatArray) -> Limit | None:
        """What a subspace must not exceed, within the directions; None for no further limit."""

    @property
    def is_exact(self) -> bool:
        """Whether it is a choice of directions along which the means agree, with no tolerance."""
        return False

    @property
    def needs_labels(self) -> bool:
        """Whether its means are those of classes of y, which moments then have as `by_label`."""
        return False

    @property
    def can_be_nested(self) -> bool:
        """Whether the directions are the same for every d, and are the only condition."""
        return False

    @property
    def forbids_few(self) -> bool:
        """Whether all directions are allowed but the span of few: see :meth:`forbidden`."""
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
    if isinstance(criterion, TotalError) and len(labels) <= 2 and not allow_extra:
        return
    received = f"the criterion {criterion.name!r}"
    if allow_extra:
        received = "allow_extra=True"
    if len(labels) > 2:
        received = f"{len(labels)} groups"
    raise Incompatible(
        f"{restriction!r} was requested together with {received}",
        "Allowed with a tolerance are the criterion 'total_error', two groups and "
        "allow_extra=False",
        f"Use these; or no tolerance: {instead}",
    )
