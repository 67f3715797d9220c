"""Certificates: the record of a solution, with its objective, proven bound and status."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from fairspan.certificates.certificate_parts import (
    PartAttribute,
    ProblemStatement,
    RunRecord,
    SolutionFigures,
    TracePoint,
)
from fairspan.certificates.certificate_table import certificate_table
from fairspan.certificates.eigensolver import Eigensolver
from fairspan.certificates.proofs import Proof
from fairspan.certificates.status import GapAssessment, Status
from fairspan.formatting.messages import counted
from fairspan.moments.base_moments import Center
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.equal_error import EqualError
from fairspan.problem.part_parameters import reported_parameters
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Certificate:
    """Subspace with its objective, a proven lower bound and the resulting status.

    Everything except `run` is a claim, which :func:`fairspan.verify` recomputes from moments and
    compares. A solver fills in what follows from its problem; the fit adds what it knows of the
    rows (`losses`, `counts`, `center`, `restriction`, `unresolved_reason`).

    Attributes of the parts can be read from the certificate itself, as in
    ``certificate.objective``.

    Attributes
    ----------
    components : (d, p) array
        Orthonormal rows that span the subspace. With `allow_extra` there may be more than d: rows
        sqrt(lambda_j) u_j of a soft projection sum_j lambda_j u_j u_j', u_j orthonormal. For an
        oblique projection, the columns of the decoder.
    statement : ProblemStatement
        The problem: `criterion`, `restriction`, `n_components`, `center`, `groups`, `counts` and
        `theorem_3_2_holds`.
    figures : SolutionFigures
        Figures reached: `objective`, `errors`, `losses`, `total_variance` and
        `constraint_violation`.
    lower_bound : float
        Bound that no d-dimensional subspace improves on, with an allowance for rounding. For sparse
        rows it holds only if the iteration missed no eigenvalue.
    proof : Proof or None
        Data from which the bound can be recomputed: group weights and, for some criteria and
        restrictions, more.
    assessment : GapAssessment
        How the gap compares with the tolerance and with rounding: `status`, `tol`, `scale`,
        `absolute_tol`, `resolution`, `unresolved_reason` and `scaling_helps`.
    run : RunRecord
        Record of the run: `solver`, `n_eigenproblems`, `trace`, `eigensolver` and `version`.
    steps : tuple of Certificate
        For nested components, one certificate per component: of the criterion with d = 1 in the
        complement of the previous components; errors, losses and total variance are those of all
        components up to it. Otherwise empty.
    prefixes : tuple of Certificate
        For nested components, the certificates of the first 1, 2, .., d - 1 components together.

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
    statement: ProblemStatement
    figures: SolutionFigures
    lower_bound: float
    proof: Proof | None
    assessment: GapAssessment
    run: RunRecord = field(default_factory=RunRecord)
    steps: "tuple[Certificate, ...]" = ()
    prefixes: "tuple[Certificate, ...]" = ()

    criterion = PartAttribute[Criterion]("statement.criterion")
    n_components = PartAttribute[int]("statement.n_components")
    groups = PartAttribute[tuple[Label, ...]]("statement.groups")
    counts = PartAttribute[tuple[int, ...]]("statement.counts")
    center = PartAttribute[Center]("statement.center")
    restriction = PartAttribute[Restriction | None]("statement.restriction")
    theorem_3_2_holds = PartAttribute[bool | None]("statement.theorem_3_2_holds")
    objective = PartAttribute[float]("figures.objective")
    errors = PartAttribute[FloatArray]("figures.errors")
    losses = PartAttribute[FloatArray]("figures.losses")
    total_variance = PartAttribute[float]("figures.total_variance")
    constraint_violation = PartAttribute[float]("figures.constraint_violation")
    status = PartAttribute[Status]("assessment.status")
    tol = PartAttribute[float]("assessment.tol")
    scale = PartAttribute[float]("assessment.scale")
    absolute_tol = PartAttribute[float]("assessment.absolute_tol")
    resolution = PartAttribute[float]("assessment.resolution")
    unresolved_reason = PartAttribute[str | None]("assessment.unresolved_reason")
    scaling_helps = PartAttribute[bool]("assessment.scaling_helps")
    may_be_zero = PartAttribute[bool]("assessment.may_be_zero")
    status_text = PartAttribute[str]("assessment.status_text")
    tolerance_suffix = PartAttribute[str]("assessment.tolerance_suffix")
    solver = PartAttribute[str]("run.solver")
    n_eigenproblems = PartAttribute[int]("run.n_eigenproblems")
    trace = PartAttribute[tuple[TracePoint, ...]]("run.trace")
    eigensolver = PartAttribute[Eigensolver]("run.eigensolver")
    version = PartAttribute[str]("run.version")

    @property
    def weights(self) -> FloatArray:
        """Group weights of the mixture of second moments that proves the bound, shape (k,).

        They may be negative if the criterion penalizes a gap. For the robust error gap and for
        restrictions with a tolerance the bound needs more than this mixture (see `proof`).
        """
        return np.zeros(len(self.groups)) if self.proof is None else self.proof.weights

    @property
    def gap(self) -> float:
        """objective - lower_bound, in the units of the objective."""
        return self.objective - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """Gap relative to the scale of the objective; 0 if the gap is not positive."""
        if self.gap <= 0:
            return 0.0
        return self.gap / self.scale if self.scale > 0 else math.inf

    @property
    def supporting_weights(self) -> FloatArray | None:
        """Weights of the supporting lines, shape (m, 2); None without such a proof.

        They prove the bound of the robust error gap of two groups. For each of these w, every
        subspace has w.e at least equal to the sum of the p - d smallest eigenvalues of
        sum_g w_g S_g, and no e that satisfies all of these has a value below the bound.
        """
        return getattr(self.proof, "lines", None)

    @property
    def message(self) -> str:
        """Meaning of the status for this solution, and possible remedies."""
        text = self.status.message
        if self.status is Status.OPEN_GAP and math.isfinite(self.relative_gap):
            # The general message of this status leaves the size of the gap open.
            gap_text = f"{100 * self.relative_gap:.2g} % of the objective"
            text = text.replace("the gap if there is a bound", gap_text)
        if self.steps and self.status is Status.OPEN_GAP:
            n_proven = sum(step.status is Status.OPTIMAL for step in self.steps)
            text = (
                "components are nested, each computed in the complement of the previous ones "
                f"({n_proven} of {len(self.steps)} proven optimal); {len(self.steps)} components "
                "chosen jointly may be better, by at most the gap"
            )
        if self.tolerance_suffix:
            text += f", {self.tol:.2g} of the objective"
        if self.unresolved_reason is None:
            return text
        text += f": {self.unresolved_reason}"
        if self.scaling_helps:
            text += '; divide it by its unit, or use scale=True or center="global"'
        return text

    @property
    def restriction_text(self) -> str | None:
        """Restriction with its parameters, such as "MeanParity(tolerance=0.0)", or None."""
        return None if self.restriction is None else repr(self.restriction)

    @property
    def problem_text(self) -> str:
        """Description of the problem: criterion, restriction, and whether components are nested."""
        text = self.criterion.name
        if self.steps:
            text = f"nested {text}"
        if self.restriction is not None:
            text += f" with {self.restriction!r}"
        return text

    def to_dict(self) -> dict[str, object]:
        """Figures of the certificate, described in its attributes, as plain values for JSON.

        Bounds may be infinite.
        """
        return {
            "criterion": self.criterion.name,
            "parameters": reported_parameters(self.criterion, self.groups),
            "restriction": self.restriction_text,
            "n_components": self.n_components,
            "nested": self._nested_to_list() or None,
            "objective": self.objective,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "relative_gap": self.relative_gap,
            "absolute_tol": self.absolute_tol,
            "resolution": self.resolution,
            "unresolved_reason": self.unresolved_reason,
            "message": self.message,
            "solver": self.solver,
            "eigensolver": str(self.eigensolver),
            "n_eigenproblems": self.n_eigenproblems,
            "constraint_violation": self.constraint_violation,
            "theorem_3_2_holds": self.theorem_3_2_holds,
            "total_variance": self.total_variance,
            "status": str(self.status),
            "weights": self.weights.tolist(),
            "requires_equal_errors": isinstance(self.criterion, EqualError),
            "bounds_largest_loss": self.criterion.bounds_largest_loss,
        }

    def _nested_to_list(self) -> list[dict[str, object]]:
        """Figures of each prefix and step of nested components, for JSON; otherwise empty.

        The certificate of the first d components together (this one for all of them) is paired with
        that of component d alone.
        """
        # Without nesting there are no steps, and so no pairs.
        pairs = zip((*self.prefixes, self), self.steps, strict=False)
        return [
            {
                "n_components": d,
                "objective": prefix.objective,
                "lower_bound": prefix.lower_bound,
                "step": {
                    "objective": step.objective,
                    "lower_bound": step.lower_bound,
                    "gap": step.gap,
                    "status": str(step.status),
                },
            }
            for d, (prefix, step) in enumerate(pairs, start=1)
        ]

    def truncate(self, n_components: int) -> "Certificate":
        """Return the certificate of the first nested components."""
        if n_components == len(self.steps):
            return self
        return replace(
            self.prefixes[n_components - 1],
            steps=self.steps[:n_components],
            prefixes=self.prefixes[: n_components - 1],
        )

    def with_offset(self, offset: float) -> "Certificate":
        """Return a copy with a constant added to objective and bounds."""
        if not offset:
            return self
        trace = tuple(
            replace(
                point,
                lower_bound=point.lower_bound + offset,
                upper_bound=point.upper_bound + offset,
            )
            for point in self.trace
        )
        return replace(
            self,
            figures=replace(self.figures, objective=self.objective + offset),
            lower_bound=self.lower_bound + offset,
            run=replace(self.run, trace=trace),
        )

    def __repr__(self) -> str:
        return (
            f"<Certificate {self.status_text}: objective {self.objective:.6g}, gap {self.gap:.1e}, "
            f"{counted(self.n_eigenproblems, 'eigenproblem')} by {self.solver}>"
        )

    def _repr_html_(self) -> str:
        """HTML table of the certificate, for notebooks."""
        table = certificate_table(
            self.figures, self.lower_bound, self.assessment, self.run, self.message
        )
        return table._repr_html_()
