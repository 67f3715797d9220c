"""Certificates: the record of a solution, with its objective, proven bound and status."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairspan.certificates.proofs import Proof
from fairspan.certificates.status import ZERO_RESOLUTIONS, Status, tolerance_suffix
from fairspan.formatting.messages import counted
from fairspan.formatting.table import Table
from fairspan.problem.criteria import Criterion
from fairspan.problem.parameters import reported_parameters
from fairspan.problem.restrictions import Restriction
from fairspan.rows.labels import Label, table_name
from fairspan.typing import FloatArray
from fairspan.version import __version__


@dataclass(frozen=True)
class TracePoint:
    """Bounds on the optimal value after one step: lower <= optimum <= upper."""

    n_eigenproblems: int
    lower_bound: float
    upper_bound: float


@dataclass(frozen=True, eq=False)
class Certificate:
    """Subspace with its objective, a proven lower bound and the resulting status.

    All attributes except the last five are claims, which :func:`fairspan.verify` recomputes from
    moments and compares. The last five record the run and are not verified. A solver fills in what
    follows from its problem; the fit adds what it knows of the rows (`losses`, `counts`, `center`,
    `restriction`, `unresolved_reason`).

    Attributes
    ----------
    components : (d, p) array
        Orthonormal rows that span the subspace. With `allow_extra` there may be more than d: rows
        sqrt(lambda_j) u_j of a soft projection sum_j lambda_j u_j u_j', u_j orthonormal. For an
        oblique projection, the columns of the decoder.
    criterion : Criterion
        Criterion that was minimized, with its parameters.
    n_components : int
        d.
    tol : float
        Largest gap that counts as optimal, relative to `scale`.
    objective : float
        Value of the criterion at this subspace, in squared units of the (scaled) features; for Nash
        welfare a mean of logarithms.
    lower_bound : float
        Bound that no d-dimensional subspace improves on, with an allowance for rounding. For sparse
        rows it holds only if the iteration missed no eigenvalue.
    status : Status
        OPTIMAL only if the gap is proven to be within the tolerance; ESTIMATED if it is, but the
        bound is not proven; UNRESOLVED if double precision cannot decide
        (:mod:`fairspan.certificates.certificate`).
    proof : Proof or None
        Data from which the bound can be recomputed: group weights and, for some criteria and
        restrictions, more.
    scale : float
        Magnitude with which the gap is compared: that of the objective; for `Disparity`
        ``sum_g |w_g| e_g``, for Nash welfare 1. Under a restriction, at most the largest error
        within the allowed directions.
    absolute_tol : float
        Largest gap that counts as optimal, absolute: `tol` times `scale`, or the resolution if that
        is small relative to the largest error.
    resolution : float
        Largest gap that double precision cannot distinguish from zero, in units of the objective.
    constraint_violation : float
        Amount by which the groups' errors differ if the criterion requires equal errors; otherwise
        0.
    theorem_3_2_holds : bool or None
        For the robust error gap, whether the condition of that theorem of Vu et al. (2022) holds.
        If not, their equation (6) may underestimate the supremum, which is minimized here.
    groups : tuple of k labels
    errors, losses : (k,) arrays
        e_g and l_g of each group.
    total_variance : float
        Variance of all rows, in units of the errors.
    counts : tuple of k int
        Number of rows of each group.
    center : {"global", "group", "none"}
        Center about which errors are measured.
    restriction : Restriction or None
        Restriction on the subspaces, with its parameters.
    unresolved_reason : str or None
        For UNRESOLVED, the property of the data responsible.
    steps : tuple of Certificate
        For nested components, one certificate per component: of the criterion with d = 1 in the
        complement of the previous components; errors, losses and total variance are those of all
        components up to it. Otherwise empty.
    prefixes : tuple of Certificate
        For nested components, the certificates of the first 1, 2, .., d - 1 components together.
    solver : str
        Name of the solver.
    n_eigenproblems : int
        Number of eigenproblems solved; within a search subspace most of them are small.
    trace : tuple of TracePoint
        Bounds after each step.
    eigensolver : {"dense", "projected", "matrix-free", "thin"}
        How eigenproblems were solved: LAPACK on p x p matrices; within a search subspace, with the
        bound proven in all p dimensions; within a search subspace without matrices (sparse rows of
        many features); or in row coordinates, if there are fewer rows than features.
    version : str
        Version of fairspan that computed the certificate.

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
    absolute_tol: float
    resolution: float
    constraint_violation: float
    theorem_3_2_holds: bool | None
    groups: tuple[Label, ...]
    errors: FloatArray
    total_variance: float
    losses: FloatArray = field(default_factory=lambda: np.zeros(0))
    counts: tuple[int, ...] = ()
    center: str = "global"
    restriction: Restriction | None = None
    unresolved_reason: str | None = None
    steps: "tuple[Certificate, ...]" = ()
    prefixes: "tuple[Certificate, ...]" = ()
    solver: str = ""
    n_eigenproblems: int = 0
    trace: tuple[TracePoint, ...] = ()
    eigensolver: str = "dense"
    version: str = __version__

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
    def may_be_zero(self) -> bool:
        """Whether the objective cannot be distinguished from zero."""
        return self.scale <= ZERO_RESOLUTIONS * self.resolution

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
        # Only a column of much larger numbers than the others is a reason that scaling removes.
        if "column" in self.unresolved_reason:
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

    @property
    def status_text(self) -> str:
        """Status, with the tolerance if it is loose, such as "optimal within 1 %"."""
        return f"{self.status}{self.tolerance_suffix}"

    @property
    def tolerance_suffix(self) -> str:
        """Suffix such as " within 1 %" if an optimal solution has a loose tolerance; else empty."""
        return tolerance_suffix(self.status, self.tol)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; bounds may be infinite."""
        step_fields = ("objective", "lower_bound", "gap")
        result_fields = (
            "relative_gap",
            "absolute_tol",
            "resolution",
            "unresolved_reason",
            "message",
            "solver",
            "eigensolver",
        )
        run_fields = (
            "n_eigenproblems",
            "constraint_violation",
            "theorem_3_2_holds",
            "total_variance",
        )
        # For nested components, pair the certificate of the first d components together (this one
        # for all of them) with that of component d alone. Otherwise there are no steps.
        steps = zip((*self.prefixes, self), self.steps, strict=False)
        return {
            "criterion": self.criterion.name,
            "parameters": reported_parameters(self.criterion, self.groups),
            "restriction": self.restriction_text,
            "n_components": self.n_components,
            # For nested components, the figures of each prefix and of each step.
            "nested": [
                {
                    "n_components": d,
                    "objective": prefix.objective,
                    "lower_bound": prefix.lower_bound,
                    "step": {
                        **{name: getattr(step, name) for name in step_fields},
                        "status": str(step.status),
                    },
                }
                for d, (prefix, step) in enumerate(steps, start=1)
            ]
            or None,
            **{name: getattr(self, name) for name in (*step_fields, *result_fields, *run_fields)},
            "status": str(self.status),
            "weights": self.weights.tolist(),
            "requires_equal_errors": self.criterion.requires_equal_errors,
            # Whether the bound is one on the largest excess loss itself, not on a relative loss.
            "bounds_largest_loss": self.criterion.uses_excess_loss and not self.criterion.relative,
        }

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
            objective=self.objective + offset,
            lower_bound=self.lower_bound + offset,
            trace=trace,
        )

    def __repr__(self) -> str:
        return (
            f"<Certificate {self.status_text}: objective {self.objective:.6g}, gap {self.gap:.1e}, "
            f"{counted(self.n_eigenproblems, 'eigenproblem')} by {self.solver}>"
        )

    def _repr_html_(self) -> str:
        """HTML table of the certificate, for notebooks."""
        has_bound = math.isfinite(self.lower_bound)
        rows = [
            ("objective", f"{self.objective:.6g}"),
            ("lower bound", self._lower_bound_text),
            ("gap", f"{self.gap:.1e}" if has_bound else "unknown"),
            ("tolerance", f"{self.absolute_tol:.1e}"),
            ("resolution of double precision", f"{self.resolution:.1e}"),
            ("eigenproblems", f"{self.n_eigenproblems:,}"),
            ("solver", self.solver),
        ]
        if self.constraint_violation > self.absolute_tol:
            rows.append(("errors differ too much by", f"{self.constraint_violation:.1e}"))
        notes = (f"{self.status_text}: {self.message}.",)
        return Table.from_texts("Certificate", ("", "value"), rows, notes=notes)._repr_html_()

    def to_table(self, caption: str) -> Table:
        """Table of the groups with a note on the proof, for notebooks."""
        rows = [
            (table_name(group), f"{count:,}", f"{error:.4g}", f"{loss:.4g}")
            for group, count, error, loss in zip(
                self.groups, self.counts, self.errors.tolist(), self.losses.tolist(), strict=True
            )
        ]
        note = (
            f"{self.status_text}: {self.criterion.name} is {self.objective:.6g}, lower bound: "
            f"{self._lower_bound_text} (by {self.solver}, fairspan {self.version})"
        )
        return Table.from_texts(caption, ("group", "rows", "error", "loss"), rows, notes=(note,))

    @property
    def _lower_bound_text(self) -> str:
        """Lower bound as tables print it."""
        return f"{self.lower_bound:.6g}" if math.isfinite(self.lower_bound) else "unknown"
