"""Settings of a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairspan import registry
from fairspan.auditing.estimation_options import DEFAULT_OPTIONS, EstimationOptions
from fairspan.displays.by_name import DISPLAYS
from fairspan.errors import InvalidType, describe_type
from fairspan.extending import Display
from fairspan.moments.base_moments import Center, check_center
from fairspan.parameters import check_bool, check_integer
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.problem.part_parameters import check_n_components

PCA_CRITERION = "total_error"


@dataclass(frozen=True)
class ReportSettings:
    """Settings of a report.

    Attributes
    ----------
    criterion : Criterion
        Main criterion.
    criteria : tuple of Criterion
        Criteria to compare, the main one first; without ordinary PCA.
    has_chosen_criteria : bool
        Whether the user chose the criteria to compare.
    n_components : int, float or None
        Number of dimensions, or share of every group's variance that the main criterion must keep
        (None: 0.9).
    center : {"global", "group", "none"}
    scale : bool
    displays : tuple of str or Display
        Additional displays.
    estimation : EstimationOptions
        Options for the estimates on new rows.
    """

    criterion: Criterion
    criteria: tuple[Criterion, ...]
    has_chosen_criteria: bool
    n_components: int | float | None
    center: Center
    scale: bool
    displays: tuple[object, ...] = ()
    estimation: EstimationOptions = DEFAULT_OPTIONS

    @classmethod
    def parse(
        cls,
        criterion: object,
        criteria: Sequence[object] | None,
        n_components: int | float | None,
        center: Any,
        scale: Any,
        displays: Sequence[object] | None = None,
        estimation: EstimationOptions = DEFAULT_OPTIONS,
    ) -> "ReportSettings":
        """Validate the settings, and resolve the names of criteria.

        Parameters
        ----------
        criterion : str or criterion object
            Main criterion.
        criteria : sequence of str or criterion objects, or None
            Criteria to compare; None for all built-in ones.
        n_components : int, float or None
            Number of dimensions, or share of every group's variance to keep.
        center : {"global", "group", "none"}
            Center about which errors are measured.
        scale : bool
            Whether features are divided by their pooled standard deviation.
        displays : sequence of str or Display, optional
            Additional displays.
        estimation : EstimationOptions

        Raises
        ------
        InvalidParameter, InvalidType
            A setting out of range.

        Examples
        --------
        >>> compare = ["minimax_loss"]
        >>> settings = ReportSettings.parse("error_gap", compare, None, "global", False)
        >>> [criterion.name for criterion in settings.criteria]
        ['error_gap', 'minimax_loss']
        """
        main = get_criterion(criterion)
        requested_displays = _check_sequence("displays", () if displays is None else displays)
        for display in requested_displays:
            _check_display(display)
        check_center(center)
        check_bool("scale", scale)
        is_share = isinstance(n_components, float) and 0 < n_components < 1
        if n_components is not None and not is_share:
            check_integer("n_components", n_components)
        if criteria is None:
            builtin_names = registry.builtin_names("criterion")
            other_criteria: Sequence[object] = [name for name in builtin_names if name != main.name]
        else:
            other_criteria = _check_sequence("compare", criteria)
        # Remove duplicates by equality: some criteria contain a mapping and are not hashable.
        compared: list[Criterion] = []
        for candidate in (main, *map(get_criterion, other_criteria)):
            # With group centers, total error is not ordinary PCA but a further criterion.
            is_ordinary_pca = candidate.name == PCA_CRITERION and center != "group"
            if candidate not in compared and not is_ordinary_pca:
                compared.append(candidate)
        return cls(
            criterion=main,
            criteria=tuple(compared),
            has_chosen_criteria=criteria is not None,
            n_components=n_components,
            center=center,
            scale=bool(scale),
            displays=tuple(requested_displays),
            estimation=estimation,
        )

    @property
    def is_pca(self) -> bool:
        """Whether the main criterion is that of ordinary PCA."""
        return self.criterion.name == PCA_CRITERION and self.center != "group"

    def check_size(self, n_features: int) -> None:
        """Check that the number of features is not below the number of dimensions.

        Raises
        ------
        InvalidParameter
        """
        if self.n_components is not None:
            check_n_components(self.n_components, n_features, allow_fraction=True)


def _check_display(display: object) -> None:
    """Check that a display is known by its name or import path, or is one already.

    A display given by name or import path is created after the fit, so only its class is looked up.

    Raises
    ------
    InvalidParameter, InvalidType
    """
    if isinstance(display, str | registry.ExternalObject):
        registry.get_factory("display", display, DISPLAYS.__getitem__)
    else:
        registry.resolve_object("display", display, Display, DISPLAYS.__getitem__)


def _check_sequence(name: str, value: object) -> Sequence[object]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise InvalidType(
        f"{name} is {describe_type(value)}",
        "Allowed: a sequence of names or objects",
        "Pass a list, even for a single item",
    )
