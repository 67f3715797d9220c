"""Certificates: the problem, the objective reached, the proven bound, and the resulting status.

A certificate is the only record of a solution and the only place where its status is decided. A
solver returns a subspace and weights; objective, bound, gap and status are computed here, so that
no solver can claim more than it proved. The gap is compared with the objective, never with the
variance of the data: with a column of large numbers, a gap that is small relative to the total
variance can exceed every loss.

- **optimal**: the gap is at most the tolerance times the magnitude of the objective. Alternatively,
  the gap is at most the resolution of float64, and the resolution is at most the tolerance times
  the largest error. In either case the objective must be known: the resolution, relative to the
  magnitude of the objective, is at most the larger of the tolerance and 1e-6. An objective that
  cannot be distinguished from zero, as with identical groups or d = p, has no relative resolution.
  It is known if the resolution is at most the tolerance times the largest error or, if all errors
  are zero, times the variance.
- **unresolved**: the gap is at most the resolution of float64, which exceeds the tolerance: the
  data, not the solver, limit what can be proven.
- **open gap**: otherwise.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from fairspan.certificates.proofs import Proof
from fairspan.formatting.messages import counted
from fairspan.formatting.table import Table
from fairspan.linalg import basis_rounding_bound, error_rounding_bound, graded_eigh, normalize_signs
from fairspan.moments.compute import Moments
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.operators import encoder_columns
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import Problem, is_feasible, reported_parameters
from fairspan.problem.reduction import describe_dominant_feature
from fairspan.problem.restrictions import Restriction
from fairspan.rows.labels import Label, table_name
from fairspan.typing import FloatArray
from fairspan.version import __version__

# A tolerance above this is stated together with the status.
LOOSE_TOL = 1e-6


class Status(StrEnum):
    """Status of a solution; compares equal to plain text: ``solution.status == "optimal"``.

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
        """Meaning of the status and possible remedies."""
        return _STATUS_MESSAGES[self]


_STATUS_MESSAGES = {
    Status.OPTIMAL: "no subspace is better by more than the tolerance",
    Status.UNRESOLVED: "the gap is at most what double precision can resolve for these data, which "
    "exceeds the tolerance",
    Status.ESTIMATED: "no subspace was found that is better by more than the tolerance, but the "
    "bound relies on iteratively computed eigenvectors, which cannot prove that none was missed",
    Status.OPEN_GAP: "a better subspace may exist, by at most the gap if there is a bound; accept "
    "the gap or raise the tolerance (tol=, --tol), or with more than two groups try "
    "allow_extra=True (--allow-extra)",
}


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
        return self.scale <= _ZERO_RESOLUTIONS * self.resolution

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


def tolerance_suffix(status: str, tol: float) -> str:
    """Suffix for the status "optimal" if the tolerance is loose.

    Examples
    --------
    >>> tolerance_suffix("optimal", 0.01), tolerance_suffix("optimal", 1e-9)
    (' within 1 %', '')
    >>> tolerance_suffix("open gap", 0.01)
    ''
    """
    if status == Status.OPTIMAL and tol > LOOSE_TOL:
        return f" within {tol * 100:.2g} %"
    return ""


class Solver(Protocol):
    """Method that solves the problems it supports and certifies the solution."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name by which the solver is selected."""

    @abstractmethod
    def unsupported_reason(self, problem: Problem) -> str | None:
        """Reason why the solver does not support a problem; None if it does."""

    @abstractmethod
    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Certificate:
        """Find a subspace whose gap is at most `tol`, relative to the objective.

        `random_state` is a seed, a numpy Generator or RandomState, or None; used by solvers with
        random starts.
        """


_EPSILON = float(np.finfo(np.float64).eps)
# Largest distance of the EM algorithm from its limit, in standard deviations, that is not reported
# as the reason of an unresolved gap: smaller distances are about as large as rounding.
EM_CONVERGENCE_TOL = 1e-11
# Rounding error of errors, relative to the variance, for operators that are not matrices.
_OPERATOR_ROUNDING = 1e-14
# Solvers aim for this fraction of the requested gap, so that evaluating again cannot fail the test.
_TARGET_SAFETY = 0.75
# Relative rounding error of an error that no evaluation avoids: a few rounding errors.
_UNAVOIDABLE_ROUNDING = 4 * _EPSILON
# An objective of at most this many resolutions cannot be distinguished from zero.
_ZERO_RESOLUTIONS = 2.0
# Tolerance for unit length among the columns of a soft basis.
_UNIT_LENGTH_TOL = 1e-12


def evaluate_solution(
    problem: Problem,
    basis: FloatArray,
    proof: Proof | FloatArray,
    *,
    tol: float,
    lower_bound: float | None = None,
    tolerance_factor: float = 1.0,
) -> Certificate:
    """Evaluate objective, bound and status of a subspace, for fits and for verification alike.

    Parameters
    ----------
    problem : Problem
    basis : (p, r) array
        Orthonormal columns; or, for a soft projection, orthogonal columns of length sqrt(lb_j) <= 1
        with sum_j lb_j = d.
    proof : Proof or (k,) array
        Proof of the bound; group weights alone, if these suffice.
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    lower_bound : float, optional
        Bound that was established otherwise, if there are no matrices to compute it from.
    tolerance_factor : float
        Factor on tolerance and resolution up to which a gap counts as closed.

    Returns
    -------
    Certificate
    """
    proof = proof if isinstance(proof, Proof) else Proof(proof)
    criterion = problem.criterion
    errors, error_rounding = errors_and_rounding(problem, basis)
    objective = criterion.value(errors, problem)
    objective_rounding = criterion.rounding_bound(error_rounding, errors, problem)
    if lower_bound is None:
        gap, bound_rounding = proof.gap(problem, basis, errors)
        gap_upper = gap
        if problem.parent is None and criterion.is_nonnegative:
            # Zero is a lower bound too.
            gap_upper = min(gap, objective + objective_rounding)
            gap = min(gap, objective)
    else:
        gap = objective - lower_bound
        bound_rounding = objective_rounding
        gap_upper = gap
    violation = max(criterion.constraint_violation(errors), 0.0)
    if problem.n_groups > 1 and criterion.requires_equal_errors:
        # Errors are equal up to rounding only, which nearly canceling weights amplify.
        weights = criterion.dual_feasible_weights(proof.weights, problem)
        weight_differences = np.abs(problem.proportions - weights / weights.sum())
        objective_rounding += float(weight_differences @ error_rounding)
    resolution = objective_rounding + bound_rounding
    scale = criterion.scale(errors, problem)
    # Both the gap and the constraint violation must be small. If zero is used as the bound, the
    # uncertainty is that of the objective; a bound above the objective shows how uncertain both
    # are.
    shortfall = max(abs(gap), gap_upper, violation)
    if problem.limit is not None and not is_feasible(problem.limit, basis):
        shortfall = np.inf
    tolerance = tol * scale
    # Under a restriction the objective includes a constant, so compare the largest free error
    # instead.
    if problem.parent is None:
        free_magnitude = scale
    else:
        free_magnitude = criterion.largest_scaled_error(errors, problem)
    is_small = resolution <= tolerance_factor * tol * resolution_scale(problem, errors, resolution)
    is_zero = is_small and free_magnitude <= tolerance_factor * _ZERO_RESOLUTIONS * resolution
    is_resolvable = is_zero or resolution <= tolerance_factor * max(tol, LOOSE_TOL) * scale
    if is_resolvable and is_small:
        tolerance = max(tolerance, resolution)
    # Scores with square roots are steep near zero: reaching the bound does not make the objective
    # certain.
    objective_uncertainty = objective_rounding if criterion.has_concave_scores else 0.0
    # Next to a large constant, the last digit of the objective may exceed the tolerance.
    last_digit = _EPSILON * abs(objective + problem.objective_offset)
    objective_uncertainty = max(objective_uncertainty, last_digit)
    if is_resolvable and max(shortfall, objective_uncertainty) <= tolerance_factor * tolerance:
        status = Status.OPTIMAL
    elif shortfall <= tolerance_factor * resolution:
        status = Status.UNRESOLVED
    else:
        status = Status.OPEN_GAP
    return Certificate(
        components=np.ascontiguousarray(encoder_columns(basis).T),
        criterion=criterion,
        n_components=problem.n_components,
        tol=tol,
        objective=objective,
        lower_bound=objective - gap,
        status=status,
        proof=proof,
        scale=scale,
        absolute_tol=tolerance,
        resolution=resolution,
        constraint_violation=violation,
        theorem_3_2_holds=criterion.theorem_3_2_holds(problem),
        groups=tuple(problem.group_labels),
        errors=errors + problem.common_error,
        total_variance=problem.unrestricted.total_variance,
    )


def certify(
    problem: Problem,
    basis: FloatArray,
    proof: Proof | FloatArray,
    *,
    tol: float,
    n_eigenproblems: int,
    trace: Sequence[TracePoint],
    solver: str,
    lower_bound: float | None = None,
) -> Certificate:
    """Rotate the basis to principal axes, evaluate it, and return its certificate.

    Parameters
    ----------
    problem, basis, proof, tol, lower_bound
        See :func:`evaluate_solution`.
    n_eigenproblems, trace, solver
        Record of the run.

    Returns
    -------
    Certificate
    """
    certificate = evaluate_solution(
        problem, rotate_to_principal_axes(problem, basis), proof, tol=tol, lower_bound=lower_bound
    )
    return replace(certificate, n_eigenproblems=n_eigenproblems, trace=tuple(trace), solver=solver)


def unresolved_reason(
    certificate: Certificate, problem: Problem, moments: Moments, center: Any, *, is_scaled: bool
) -> str | None:
    """Reason why double precision cannot resolve the gap; None if the gap is not unresolved.

    The first that applies: a dominant feature, an EM algorithm that has not converged, an oblique
    shift, or an objective that is small relative to the variance.
    """
    if certificate.status is not Status.UNRESOLVED:
        return None
    if not is_scaled:
        feature = describe_dominant_feature(moments, center)
        if feature is not None:
            return feature
    em_summary = moments.em_summary if isinstance(moments, GroupMoments) else None
    if em_summary is not None and em_summary.distance > EM_CONVERGENCE_TOL:
        return (
            "the EM algorithm ended while its models were still up to "
            f"{em_summary.distance:.0e} standard deviations from their limit"
        )
    if certificate.restriction is not None and certificate.restriction.oblique:
        return "the oblique shift depends on directions along which the rows hardly vary"
    scale = max(certificate.scale, certificate.resolution)
    return problem.criterion.unresolved_reason(scale, problem)


def target_gap(problem: Problem, errors: FloatArray, tol: float) -> float:
    """Gap between objective and lower bound at which a search stops, in units of the objective.

    It is a fraction of `tol` times the size of the objective, but no less than rounding error.

    Parameters
    ----------
    problem : Problem
    errors : (k,) array
        Errors of the best subspace so far.
    tol : float
        Relative tolerance.
    """
    wanted_gap = _TARGET_SAFETY * tol * problem.criterion.scale(errors, problem)
    error_rounding = _unavoidable_rounding(problem, errors)
    rounding = problem.criterion.rounding_bound(error_rounding, errors, problem)
    # The gap of the certificate includes the rounding errors of objective and bound.
    return max(wanted_gap - 2 * rounding, rounding)


def rotate_to_principal_axes(problem: Problem, basis: FloatArray) -> FloatArray:
    """Rotate a basis within its span to the principal axes of the pooled moment, largest first.

    For a soft basis, only columns of unit length are rotated; the others follow unchanged.
    """
    has_unit_length = np.linalg.norm(basis, axis=0) >= 1 - _UNIT_LENGTH_TOL
    compressed = problem.second_moments.compress(basis[:, has_unit_length])
    pooled = np.tensordot(problem.proportions, compressed, axes=1)
    axes = graded_eigh(pooled, len(pooled) - 1)[1] if len(pooled) else pooled
    rotated = basis[:, has_unit_length] @ axes[:, ::-1]
    # Products leave the columns orthonormal to about ten rounding errors, which shows in the errors
    # where little variance is lost. One Newton step reduces this to a single one.
    rotated -= rotated @ (rotated.T @ rotated - np.eye(rotated.shape[1])) / 2
    return normalize_signs(np.hstack([rotated, basis[:, ~has_unit_length]]))


def errors_and_rounding(problem: Problem, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Error of each group and its rounding error bound, each of shape (k,)."""
    second_moments = problem.dense_moments
    if not problem.has_matrices:
        return problem.errors(basis), np.asarray(_OPERATOR_ROUNDING * second_moments.traces)
    inner_errors = second_moments.inner_errors(basis)
    residual_row_norms, offset_rounding = second_moments.residual_projector_norms(basis)
    inner_rounding = error_rounding_bound(
        second_moments.column_rms, inner_errors, residual_row_norms
    )
    offset_rounding_bound = 2 * np.sqrt(inner_errors) * offset_rounding + offset_rounding**2
    deflated_errors = second_moments.excluded_variances - problem.fixed_errors
    fixed_rounding = problem.fixed_rounding + _EPSILON * deflated_errors
    errors = inner_errors + second_moments.excluded_variances
    rounding = (
        inner_rounding + offset_rounding_bound + fixed_rounding + _best_error_rounding(problem)
    )
    return errors, rounding + problem.coordinate_rounding(errors + problem.common_error)


def _best_error_rounding(problem: Problem) -> FloatArray:
    """Bound the rounding error of the best errors a restricted problem subtracts, shape (k,)."""
    parent = problem.parent
    if parent is None or not problem.criterion.uses_excess_loss:
        return np.zeros(problem.n_groups)
    return np.array(
        [
            errors_and_rounding(parent, optimum.vectors)[1][g]
            for g, optimum in enumerate(parent.group_optima)
        ]
    )


def _unavoidable_rounding(problem: Problem, errors: FloatArray) -> FloatArray:
    """Return the rounding error that no evaluation of errors avoids, (k,); below the allowance."""
    inner_errors = np.maximum(errors - problem.fixed_errors, 0.0)
    rounding = _UNAVOIDABLE_ROUNDING * inner_errors
    if not problem.has_matrices:
        return rounding
    return rounding + basis_rounding_bound(problem.dense_moments.root_traces, inner_errors)


def resolution_scale(problem: Problem, errors: FloatArray, resolution: float) -> float:
    """Variance to which the resolution is compared: the largest error, unless all are negligible.

    Errors that cannot be distinguished from zero are exact zeros if d dimensions contain all rows.
    They are then compared with the smallest variance of the rows along a direction in which they
    vary, which shows that no such direction was missed. Otherwise small errors may be hidden by
    rounding, as beside a single row of 1e8 times the size of the others, and the scale is zero.
    """
    max_error = problem.criterion.largest_scaled_error(errors, problem)
    if max_error > resolution:
        return max_error
    traces = problem.second_moments.traces
    max_variance = float((traces / problem.divisors).max())
    if problem.n_components == problem.n_features:
        return max_variance
    if not problem.has_matrices:
        # The resolution of sparse rows is relative to the variance, but small errors are sums of
        # squared residuals, whose rounding error is much smaller.
        displacement = _OPERATOR_ROUNDING * np.sqrt(np.maximum(traces, 0.0))
        inner_errors = np.maximum(errors - problem.fixed_errors, 0.0)
        rounding = (2 * np.sqrt(inner_errors) * displacement + displacement**2) / problem.divisors
        min_variance = problem.smallest_row_variance / float(problem.divisors.max())
        return max_variance if rounding.max() <= LOOSE_TOL * min_variance else 0.0
    return problem.smallest_row_variance / float(problem.divisors.max())
