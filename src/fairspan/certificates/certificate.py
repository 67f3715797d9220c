"""What was minimised, what was reached, and what proves it: the one record of an answer."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from fairspan.certificates.proofs import Proof
from fairspan.formatting.results import Row, first_and_last, html_table
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions import Restriction
from fairspan.rows.groups import Label, printable, spelled
from fairspan.typing import FloatArray
from fairspan.version import __version__

# Groups that a notebook shows.
_MOST_GROUPS = 20


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


@dataclass(frozen=True, eq=False)
class Certificate:
    """A subspace, what was minimised, what was reached, and what proves how good that is.

    All attributes but the last five are claims: :func:`fairspan.verify` computes them again from
    moments and compares them one by one. The last five are records of the run, which it does not
    judge. A solver gives those of the problem that it received; the fit adds what it knows of the
    rows (`losses`, `counts`, `center`, `restriction`, `reason`).

    Attributes
    ----------
    components : (d, p) array
        Orthonormal rows that span the subspace. With `allow_extra` there may be more than d: rows
        sqrt(lambda_j) u_j of a soft projection sum_j lambda_j u_j u_j', u_j orthonormal. Of an
        oblique projection, the columns of its decoder.
    criterion : Criterion
        What was minimised, with its settings.
    n_components : int
        d.
    tol : float
        The gap that is called optimal, as a share of `scale`.
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
    proof : Proof or None
        What the bound can be computed from again: weights of the groups, and whatever else it
        needs.
    scale : float
        The quantity with which the gap is compared: the size of the objective; for `Disparity`
        ``sum_g |w_g| e_g``, for Nash welfare 1. Under a restriction, no more than the largest
        error within the directions that it allows.
    tolerance : float
        Absolute bound on the gap of an optimal solution: `tol` times `scale`; or the resolution, if
        that is small beside the largest error.
    resolution : float
        The largest gap that double precision cannot distinguish from zero, in the units of the
        objective.
    violation : float
        By how much the groups' errors differ if the criterion requires equal errors; otherwise 0.
    theorem_3_2 : bool or None
        For the robust error gap, whether the condition of that theorem of Vu et al. (2022) holds:
        if not, their equation (6) may fall short of the supremum, which is what is minimised here.
    groups : tuple of k labels
    errors, losses : (k,) arrays
        e_g and l_g of each group.
    total_variance : float
        Of all rows, in the units of the errors.
    counts : tuple of k int
        Rows of each group.
    center : {"global", "group", "none"}
        The centre about which errors are measured.
    restriction : Restriction or None
        What hides the group, with its settings.
    reason : str or None
        For UNRESOLVED, the property of the data that causes it.
    steps : tuple of Certificate
        Of nested components, one for each, in their order: of the criterion with d = 1 in the
        complement of those before it; errors, losses and total variance are those of the first
        components together. Empty otherwise.
    prefixes : tuple of Certificate
        Of nested components, those of the first 1, 2, .., d - 1 of them together.
    solver : str
        Name of the solver.
    n_eigenproblems : int
        How many eigenproblems were solved; inside a small subspace most of them are small.
    trace : tuple of TracePoint
        The bounds after each step.
    eigen : {"dense", "projected", "matrix-free", "thin"}
        How its eigenproblems were solved: of p x p matrices by LAPACK; inside a small subspace, the
        bound proven in all p dimensions; inside one without matrices (sparse rows of many
        features); or in the coordinates of the rows, of which there are fewer than features.
    version : str
        The version of fairspan that computed it.

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
    criterion: Criterion
    n_components: int
    tol: float
    objective: float
    lower_bound: float
    status: Status
    proof: Proof | None
    scale: float
    tolerance: float
    resolution: float
    violation: float
    theorem_3_2: bool | None
    groups: tuple[Label, ...]
    errors: FloatArray
    total_variance: float
    losses: FloatArray = field(default_factory=lambda: np.zeros(0))
    counts: tuple[int, ...] = ()
    center: str = "global"
    restriction: Restriction | None = None
    reason: str | None = None
    steps: "tuple[Certificate, ...]" = ()
    prefixes: "tuple[Certificate, ...]" = ()
    solver: str = ""
    n_eigenproblems: int = 0
    trace: tuple[TracePoint, ...] = ()
    eigen: str = "dense"
    version: str = __version__

    @property
    def weights(self) -> FloatArray:
        """Weights of the groups' second moments whose mixture proves the bound, shape (k,).

        They may be negative if the criterion penalises a gap. For the robust error gap, and for
        restrictions with a tolerance, the bound needs more than one mixture, and these are those of
        the last.
        """
        return np.zeros(len(self.groups)) if self.proof is None else self.proof.weights

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

    @property
    def restricted_by(self) -> str | None:
        """The restriction with its settings, such as "MeanParity(tolerance=0.0)"."""
        return None if self.restriction is None else repr(self.restriction)

    @property
    def minimised(self) -> str:
        """What was minimised, under which restriction, and whether components are nested."""
        hidden = "" if self.restriction is None else f" with {self.restriction!r}"
        return f"{'nested ' if self.steps else ''}{self.criterion.name}{hidden}"

    def of_first(self, n_components: int) -> "Certificate":
        """That of the first of nested components alone."""
        if n_components == len(self.steps):
            return self
        return replace(
            self.prefixes[n_components - 1],
            steps=self.steps[:n_components],
            prefixes=self.prefixes[: n_components - 1],
        )

    def plus(self, lost: float) -> "Certificate":
        """The same where the criterion is larger by a constant, whatever is chosen."""
        if not lost:
            return self
        return replace(
            self,
            objective=self.objective + lost,
            lower_bound=self.lower_bound + lost,
            trace=tuple(
                TracePoint(each.n_eigenproblems, each.lower_bound + lost, each.upper_bound + lost)
                for each in self.trace
            ),
        )

    def __repr__(self) -> str:
        return (
            f"<Certificate {self.status}: objective {self.objective:.6g}, gap {self.gap:.1e}, "
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

    def table(self, caption: str) -> str:
        """What a notebook shows: the groups, and what was proven."""
        rows: list[Row] = [
            (printable(spelled(group)), f"{count:,}", f"{error:.4g}", f"{loss:.4g}")
            for group, count, error, loss in zip(
                self.groups, self.counts, self.errors.tolist(), self.losses.tolist(), strict=True
            )
        ]
        bound = f"{self.lower_bound:.6g}" if math.isfinite(self.lower_bound) else "none is known"
        return html_table(
            caption,
            ("group", "rows", "error", "loss"),
            [("", first_and_last(rows, _MOST_GROUPS, "groups"))],
            [
                f"{self.status}: {self.criterion.name} is {self.objective:.6g}, lower bound: "
                f"{bound} (by {self.solver}, fairspan {self.version})"
            ],
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
    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Certificate:
        """Find a subspace whose gap is at most `tol`, a share of the objective.

        `random_state` is a seed, a numpy Generator or RandomState, or None, for solvers with
        random starts.
        """
