"""What a report is asked for, checked before any row is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairspan.errors import InvalidType, kind_of
from fairspan.moments.center import Center, check_center
from fairspan.problem.by_name import criterion_of
from fairspan.problem.criteria import Criterion
from fairspan.problem.parameters import check_count, check_flag
from fairspan.registry import names_of

PLAIN = "total_error"


@dataclass(frozen=True)
class ReportSettings:
    """Which criteria are compared, at which dimension, about which centre.

    Attributes
    ----------
    criterion : Criterion
        The one that the report is mainly about.
    criteria : tuple of Criterion
        All but ordinary PCA, the main one first.
    are_chosen : bool
        Whether somebody chose what the main criterion is compared with.
    n_components : int or None
        d; None for the least that keep 90 % of the variance over all rows.
    center : {"global", "group", "none"}
    scale : bool
    """

    criterion: Criterion
    criteria: tuple[Criterion, ...]
    are_chosen: bool
    n_components: int | None
    center: Center
    scale: bool

    @classmethod
    def of(
        cls,
        criterion: object,
        criteria: Sequence[object] | None,
        n_components: int | None,
        center: Any,
        scale: Any,
    ) -> "ReportSettings":
        """Read and check settings.

        Raises
        ------
        InvalidParameter, InvalidType
            A setting out of range.

        Examples
        --------
        >>> asked = ReportSettings.of("error_gap", ["minimax_loss"], None, "global", False)
        >>> [each.name for each in asked.criteria]
        ['error_gap', 'minimax_loss']
        """
        main = criterion_of(criterion)
        check_center(center)
        check_flag("scale", scale)
        if n_components is not None:
            check_count("n_components", n_components)
        if criteria is None:
            others = [criterion_of(name) for name in names_of("criterion") if name != main.name]
        else:
            others = [criterion_of(each) for each in _several(criteria)]
        chosen = _different([main, *others])
        if center != "group":  # there it is not what everybody calls PCA, but one more criterion
            chosen = [each for each in chosen if each.name != PLAIN]
        return cls(main, tuple(chosen), criteria is not None, n_components, center, scale)

    @property
    def is_plain(self) -> bool:
        """Whether the main criterion is what ordinary PCA minimises."""
        return self.criterion.name == PLAIN and self.center != "group"


def _several(criteria: Sequence[object]) -> Sequence[object]:
    if isinstance(criteria, Sequence) and not isinstance(criteria, str):
        return criteria
    raise InvalidType(
        f"criteria is {kind_of(criteria)}",
        "Allowed is a sequence of names of criteria or criterion objects",
        'Pass a list, such as ["minimax_loss", "error_gap"]',
    )


def _different(criteria: Sequence[Criterion]) -> list[Criterion]:
    """Each once; compared, as some hold a mapping and so have no hash."""
    met: list[Criterion] = []
    for each in criteria:
        if each not in met:
            met.append(each)
    return met
