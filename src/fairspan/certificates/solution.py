"""What every solver returns: a subspace, its value, and a bound that no subspace can beat."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from fairspan.certificates.proof import Proof
from fairspan.formatting.results import html_table
from fairspan.problem.problem import Problem
from fairspan.typing import FloatArray


class Status(StrEnum):
    """The status of a solution. It equals plain text: ``solution.status == "optimal"``.

    Examples
    --------
    >>> Status.OPTIMAL == "optimal", Status.OPTIMAL.message
    (True, 'no subspace is better by more than the tolerance')
    """

    OPTIMAL = "optimal"
    ESTIMATED = "estimated"
    OPEN_GAP = "open gap"
    UNRESOLVED = "unresolved"

    @property
    def message(self) -> str:
        """What the status means and what can be done about it."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.OPTIMAL: "no subspace is better by more than the tolerance",
    Status.UNRESOLVED: "the gap is no larger than what double precision can tell of these data, "
    "but that is more than the tolerance",
    Status.ESTIMATED: "no better subspace was found by more than the tolerance, but the bound "
    "rests on eigenvectors found by iteration, which cannot prove that none was missed",
    Status.OPEN_GAP: "a better subspace may exist, by at most the gap if there is a bound; accept "
    "it, loosen tol, or with more than two groups try allow_extra",
}


@dataclass(frozen=True)
class TracePoint:
    """Bounds on the optimum after one step: lower <= optimum <= upper."""

    n_eigenproblems: int
    lower_bound: float
    upper_bound: float

    def shifted(self, by: float) -> "TracePoint":
        """The same of values that are larger by a number."""
        return TracePoint(self.n_eigenproblems, self.lower_bound + by, self.upper_bound + by)


class Judged(NamedTuple):
    """A subspace, judged by the objective and by what is proven of it.

    Attributes
    ----------
    objective, lower_bound : float
    gap : float
        Their difference, computed without cancellation.
    violation : float
        By how much the groups' errors differ if the criterion requires equal errors; otherwise 0.
    scale : float
        What a gap is compared with: the size of the objective.
    resolution : float
        The largest gap that float64 cannot distinguish from zero.
    tolerance : float
        The gap up to which the subspace is optimal.
    worst : float
        What is compared with that: gap or violation; infinite beyond a restriction's limit.
    rounding : float
        By how much the objective alone may be off.
    size : float
        The largest error.
    errors, roundings : (k,) arrays
        Of the groups, and by how much each may be off.
    status : Status
    """

    objective: float
    lower_bound: float
    gap: float
    violation: float
    scale: float
    resolution: float
    tolerance: float
    worst: float
    rounding: float
    size: float
    errors: FloatArray
    roundings: FloatArray
    status: Status

    def shifted(self, by: float) -> "Judged":
        """The same of values that are larger by a number."""
        return self._replace(objective=self.objective + by, lower_bound=self.lower_bound + by)


@dataclass(frozen=True, eq=False)
class Solution:
    """A subspace with its certificate.

    Attributes
    ----------
    components : (d, p) array
        Orthonormal rows that span the subspace. With `allow_extra` there may be more than d: rows
        sqrt(lambda_j) u_j of a soft projection sum_j lambda_j u_j u_j', u_j orthonormal.
    objective : float
        Value of the criterion at this subspace, in squared units of the (scaled) features; for Nash
        welfare a mean of logarithms.
    lower_bound : float
        No d-dimensional subspace has a smaller value, with a margin for rounding. If the rows stay
        sparse, this holds if the iterations missed no eigenvalue.
    status : Status
        OPTIMAL only if the gap is proven to be within the tolerance; ESTIMATED if it is, but the
        bound is not proven; UNRESOLVED if double precision cannot decide
        (:mod:`fairspan.certificates.optimality`).
    tolerance : float
        Absolute bound on the gap of an optimal solution: the relative tolerance times `scale`; or
        the resolution, if that is small beside the largest error.
    weights : (k,) array
        Weights of the groups' second moments whose mixture proves the bound; may be negative if
        the criterion penalises a gap. For the robust error gap, and for restrictions with a
        tolerance, the bound needs more than one mixture, and these are those of the last.
    n_eigenproblems : int
        How many eigenproblems were solved; inside a small subspace most of them are small.
    trace : tuple of TracePoint
        The bounds after each step.
    solver : str
        Name of the solver.
    eigen : {"dense", "projected", "matrix-free", "thin"}
        How its eigenproblems were solved: of p x p matrices by LAPACK; inside a small subspace, the
        bound proven in all p dimensions; inside one without matrices (sparse rows of many
        features); or in the coordinates of the rows, of which there are fewer than features.
    reason : str or None
        For UNRESOLVED, the property of the data that causes it.
    violation : float
        By how much the groups' errors differ if the criterion requires equal errors; otherwise 0.
    theorem_3_2 : bool or None
        For the robust error gap, whether the condition of that theorem of Vu et al. (2022) holds:
        if not, their equation (6) may fall short of the supremum, which is what is minimised here.
    resolution : float
        The largest gap that double precision cannot distinguish from zero, in the units of the
        objective.
    scale : float
        The quantity with which the gap is compared: the size of the objective; for `Disparity`
        ``sum_g |w_g| e_g``, for Nash welfare 1. Under a restriction, no more than the largest
        error within the directions that it allows.
    proof : Proof or None
        What the bound can be computed from again: the weights, and whatever else it needs.
    steps : tuple of Solution
        Of nested components, one certificate for each, in their order: of the criterion with
        d = 1 in the complement of those before it. Empty otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> certificate = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"]).solution_
    >>> round(certificate.objective, 3), round(certificate.lower_bound, 3)
    (2.421, 2.421)
    >>> certificate.status == "optimal", certificate.relative_gap <= 1e-9
    (True, True)
    """

    components: FloatArray
    objective: float
    lower_bound: float
    status: Status
    tolerance: float
    weights: FloatArray
    n_eigenproblems: int
    trace: tuple[TracePoint, ...]
    solver: str
    violation: float = 0.0
    theorem_3_2: bool | None = None
    resolution: float = 0.0
    scale: float = 0.0
    proof: Proof | None = None
    eigen: str = "dense"
    reason: str | None = None
    steps: "tuple[Solution, ...]" = ()

    @property
    def gap(self) -> float:
        """objective - lower_bound, in the units of the objective."""
        return self.objective - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the size of the objective; 0 where both are zero."""
        if self.gap <= 0:
            return 0.0
        return self.gap / self.scale if self.scale > 0 else math.inf

    @property
    def supporting_weights(self) -> FloatArray | None:
        """For the robust error gap of two groups: the (m, 2) weights of the supporting lines.

        No subspace has errors e with w.e below the sum of the p - d smallest eigenvalues of
        sum_g w_g S_g for any of these w, and no such e has a value below the bound.
        """
        return getattr(self.proof, "lines", None)

    @property
    def message(self) -> str:
        """What the status means for this solution, and what can be done about it."""
        means = self.status.message
        if self.steps and self.status is Status.OPEN_GAP:
            proven = sum(step.status is Status.OPTIMAL for step in self.steps)
            means = (
                f"components are nested, each chosen beside those before it ({proven} of "
                f"{len(self.steps)} proven optimal so); {len(self.steps)} components chosen "
                "together may be better, by at most the gap"
            )
        if self.reason is None:
            return means
        helps = '; divide it by its unit, or use scale=True or center="global"'
        return f"{means}: {self.reason}" + (helps if "column" in self.reason else "")

    def __repr__(self) -> str:
        return (
            f"<Solution {self.status}: objective {self.objective:.6g}, gap {self.gap:.1e}, "
            f"{self.n_eigenproblems} eigenproblems by {self.solver}>"
        )

    def _repr_html_(self) -> str:
        """The certificate as a table in a notebook."""
        bound = f"{self.lower_bound:.6g}" if math.isfinite(self.lower_bound) else "none is known"
        gap = f"{self.gap:.1e}" if math.isfinite(self.lower_bound) else "not known"
        rows = [
            ("objective", f"{self.objective:.6g}"),
            ("lower bound", bound),
            ("gap", gap),
            ("tolerance", f"{self.tolerance:.1e}"),
            ("resolution of double precision", f"{self.resolution:.1e}"),
            ("eigenproblems", f"{self.n_eigenproblems:,}"),
            ("solver", self.solver),
        ]
        if self.violation > self.tolerance:
            rows.append(("groups' errors differ by", f"{self.violation:.1e}"))
        return html_table(
            "Certificate", ("", "value"), [("", rows)], [f"{self.status}: {self.message}."]
        )


class Solver(Protocol):
    """A method that solves the problems it accepts, and certifies the solution."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which it can be requested."""

    @abstractmethod
    def objection(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""

    @abstractmethod
    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Solution:
        """Find a subspace whose gap is at most `tol`, a share of the objective.

        `random_state` is a seed, a numpy Generator or RandomState, or None, for solvers with
        random starts.
        """

    def solve_dense(self, problem: Problem, tol: float, random_state: Any = None) -> Solution:
        """The same with matrices of all features, and no smaller subspace inside."""
        return self.solve(problem, tol, random_state)
