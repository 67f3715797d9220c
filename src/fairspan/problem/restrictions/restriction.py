"""What a restriction is, and with what one that has a tolerance is combined."""

from typing import Protocol

from fairspan.errors import Incompatible
from fairspan.problem.criteria import Criterion, TotalError
from fairspan.problem.problem import Limit
from fairspan.rows.groups import Label
from fairspan.typing import FloatArray


class Restriction(Protocol):
    """A condition that hides the group: it limits the subspaces that a criterion may choose.

    It may have five more members. The method ``means_of(moments)`` returns an (m, p) array of
    means that are used instead of those of the groups. The property ``needs_labels`` is true if
    these means are those of classes of y, which the moments then have as ``by_label``. If the
    field ``oblique`` is true, rows are shifted until these means agree, and then projected, and
    there are no other conditions (:mod:`fairspan.problem.oblique`). The property ``can_be_nested``
    is true if the allowed directions are the same for every number of components, and are the only
    condition. The property ``follows_rotations`` is true if rotated features only rotate the
    subspaces that are allowed: rows that are fewer than their features are then solved in
    coordinates of their own. Without it, moments of all features are computed.
    """

    @property
    def name(self) -> str:
        """The name by which it can be requested."""

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
        """The largest d that can be requested, where it is to be found from a share of variance."""

    def limit(self, means: FloatArray, covariances: FloatArray) -> Limit | None:
        """What a subspace must not exceed, within the directions; None for no further limit."""


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
