"""Parts of a certificate: the problem that it is about, the figures reached, and the run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, Self, TypeVar, overload

import numpy as np

from fairspan.certificates.eigensolver import Eigensolver
from fairspan.moments.base_moments import Center
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray
from fairspan.version import __version__

Value = TypeVar("Value")


class PartAttribute(property, Generic[Value]):
    """Read-only attribute of a record that reads an attribute of one of its parts.

    Parameters
    ----------
    path : str
        Name of the part and of its attribute, such as "figures.objective".

    Examples
    --------
    >>> class Circle:
    ...     radius = PartAttribute[float]("shape.radius")
    ...     def __init__(self, shape):
    ...         self.shape = shape
    >>> from types import SimpleNamespace
    >>> Circle(SimpleNamespace(radius=2.0)).radius
    2.0
    """

    def __init__(self, path: str) -> None:
        reader: Callable[[object], Value] = attrgetter(path)
        super().__init__(reader)
        part, _, name = path.partition(".")
        # Set last: an instance of a subclass would show the docstring of its class.
        self.__doc__ = f"Attribute `{name}` of `{part}`."

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type, /) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type | None = None, /) -> Value: ...
        def __get__(self, instance: object, owner: type | None = None, /) -> Self | Value: ...


@dataclass(frozen=True, eq=False)
class ProblemStatement:
    """The problem that a certificate is about: what is minimized, and for which rows.

    Attributes
    ----------
    criterion : Criterion
        Criterion that was minimized, with its parameters.
    n_components : int
        d.
    groups : tuple of k labels
    counts : tuple of k int
        Number of rows of each group.
    center : {"global", "group", "none"}
        Center about which errors are measured.
    restriction : Restriction or None
        Restriction on the subspaces, with its parameters.
    theorem_3_2_holds : bool or None
        For the robust error gap, whether the condition of that theorem of Vu et al. (2022) holds.
        If not, their equation (6) may underestimate the supremum, which is minimized here.
    """

    criterion: Criterion
    n_components: int
    groups: tuple[Label, ...]
    counts: tuple[int, ...] = ()
    center: Center = "global"
    restriction: Restriction | None = None
    theorem_3_2_holds: bool | None = None


@dataclass(frozen=True, eq=False)
class SolutionFigures:
    """Figures that a solution reaches.

    Attributes
    ----------
    objective : float
        Value of the criterion at the subspace, in squared units of the (scaled) features; for Nash
        welfare a mean of logarithms.
    errors, losses : (k,) arrays
        e_g and l_g of each group.
    total_variance : float
        Variance of all rows, in units of the errors.
    constraint_violation : float
        Amount by which the groups' errors differ if the criterion requires equal errors; otherwise
        0.
    """

    objective: float
    errors: FloatArray
    total_variance: float
    constraint_violation: float = 0.0
    losses: FloatArray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class TracePoint:
    """Bounds on the optimal value after one step: lower <= optimum <= upper."""

    n_eigenproblems: int
    lower_bound: float
    upper_bound: float


@dataclass(frozen=True)
class RunRecord:
    """Record of the run that found a solution. No claim rests on it, and it is not verified.

    Attributes
    ----------
    solver : str
        Name of the solver.
    n_eigenproblems : int
        Number of eigenproblems solved; within a search subspace most of them are small.
    trace : tuple of TracePoint
        Bounds after each step.
    eigensolver : Eigensolver
        How eigenproblems were solved.
    version : str
        Version of fairspan that computed the certificate.
    """

    solver: str = ""
    n_eigenproblems: int = 0
    trace: tuple[TracePoint, ...] = ()
    eigensolver: Eigensolver = Eigensolver.DENSE
    version: str = __version__
