"""Check whether components can be nested: computed one at a time."""

from fairspan.errors import IncompatibleParameters
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.registry import builtin_names


def check_nesting_supported(
    criterion: Criterion, restriction: Restriction | None, *, allow_extra: bool
) -> None:
    """Check that components can be nested.

    Raises
    ------
    IncompatibleParameters
        The criterion or the restriction does not support nesting, or soft projections are allowed.
    """
    if not criterion.supports_nesting:
        supported = [
            name for name in builtin_names("criterion") if get_criterion(name).supports_nesting
        ]
        raise IncompatibleParameters(
            f"nested=True was requested with {criterion!r}",
            f"Allowed: the criteria {', '.join(map(repr, supported))}, with default parameters",
            "Use one of these, or nested=False",
        )
    if restriction is not None and not restriction.forbids_mean_differences_only:
        raise IncompatibleParameters(
            f"nested=True was requested with {restriction!r}",
            "Allowed: restrictions with the same allowed directions for every number of "
            "components, such as MeanParity()",
            "Use MeanParity(), or nested=False",
        )
    if allow_extra:
        raise IncompatibleParameters(
            "nested=True was requested with allow_extra=True",
            "Allowed with nested=True: allow_extra=False, since each component is one direction",
            "Drop one of the two",
        )
