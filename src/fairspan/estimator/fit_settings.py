"""Settings of a fit: parsed once, and passed as one record to everything that fits."""

from dataclasses import dataclass
from typing import Self, TypedDict, Unpack, get_args

from fairspan.errors import IncompatibleParameters, InvalidParameter
from fairspan.model.subspace import Rotation
from fairspan.moments.base_moments import Center, check_center
from fairspan.parameters import check_bool, check_choice, is_integer, is_number, plain_value
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.criterion_catalog import get_criterion
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.problem.restrictions.restriction_catalog import get_restriction
from fairspan.solvers.auto import AUTO, Auto, resolve_solver
from fairspan.solvers.solver import Solver
from fairspan.typing import RandomSource

# Share of every group's variance to keep if neither a dimension nor a share is requested.
DEFAULT_VARIANCE_KEPT = 0.9


class FitOptions(TypedDict, total=False):
    """Settings of a fit that are passed as they are, see :class:`FitSettings`."""

    center: Center
    scale: bool
    tol: float
    allow_extra: bool
    nested: bool
    random_state: RandomSource
    rotation: Rotation | None


@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit, valid for any rows; `n_components` is checked when features are known.

    Attributes
    ----------
    n_components : int or float
        d, or a fraction of every group's variance: the smallest d at which this criterion keeps
        that fraction for every group.
    criterion : Criterion
    restriction : Restriction or None
        Limits the allowed subspaces; excess losses still refer to the best of all subspaces.
    center : {"global", "group", "none"}
        Point about which errors are measured: the mean of all rows, that of each group, or zero.
    scale : bool
        Divide each feature by its pooled standard deviation first.
    solver : Solver or Auto
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    allow_extra : bool
        Whether a soft projection of more than d components may be returned.
    nested : bool
        Whether the first components solve the problem with fewer dimensions.
    random_state : int, Generator, RandomState or None
        Used by solvers with random starts.
    rotation : "varimax" or None
        Rotation of the components inside the subspace.

    Raises
    ------
    InvalidParameter
        A setting is out of range.

    Examples
    --------
    >>> from fairspan.problem.criteria.linear import TotalError
    >>> FitSettings(2, TotalError(), center="none").solver
    Auto()
    """

    n_components: int | float
    criterion: Criterion
    restriction: Restriction | None = None
    center: Center = "global"
    scale: bool = False
    solver: Solver | Auto = AUTO
    tol: float = 1e-9
    allow_extra: bool = False
    nested: bool = False
    random_state: RandomSource = None
    rotation: Rotation | None = None

    def __post_init__(self) -> None:
        if not is_number(self.tol) or not 0 <= self.tol < 1:
            raise InvalidParameter(
                f"tol is {self.tol!r}",
                "Allowed: a number of at least 0 and below 1, relative to the objective",
                "Use the default, 1e-9",
            )
        # Certificates are saved as JSON, which has built-in numbers only.
        object.__setattr__(self, "tol", plain_value(self.tol))
        for name in ("scale", "allow_extra", "nested"):
            value = getattr(self, name)
            check_bool(name, value)
            object.__setattr__(self, name, bool(value))
        check_center(self.center)
        if self.rotation is not None:
            check_choice("rotation", self.rotation, get_args(Rotation))
            if self.nested:
                raise IncompatibleParameters(
                    f"rotation={self.rotation!r} was requested with nested=True",
                    "Allowed: one of them, since nested components keep the order of their steps",
                    "Use rotation=None or nested=False",
                )

    @classmethod
    def parse(
        cls,
        n_components: int | float,
        criterion: str | Criterion = "minimax_loss",
        *,
        restriction: str | Restriction | None = None,
        solver: str | Solver | Auto = "auto",
        **options: Unpack[FitOptions],
    ) -> Self:
        """Create settings with criterion, restriction and solver given as objects or by name.

        Parameters
        ----------
        n_components, criterion, restriction, solver
            See the attributes.
        **options
            Other attributes by name.

        Raises
        ------
        InvalidParameter, InvalidType
            An unknown name, an object of another kind, or a setting out of range.

        Examples
        --------
        >>> FitSettings.parse(2, "error_gap", restriction="mean_parity").criterion
        ErrorGap(penalty=0.5)
        """
        return cls(
            n_components,
            get_criterion(criterion),
            get_restriction(restriction),
            solver=resolve_solver(solver),
            **options,
        )

    @property
    def is_fraction(self) -> bool:
        """Whether `n_components` is a fraction of variance instead of a number of components."""
        return not is_integer(self.n_components)
