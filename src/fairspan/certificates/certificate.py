"""What was minimised, what was reached, what proves it, and when it is called optimal.

This is the one record of an answer, and the only place that decides its status. A solver returns a
subspace and weights. Objective, bound, gap and status are computed here, so that no solver can
claim more than it proved. The gap is compared with the objective, never with the variance of the
data: a column of large numbers makes a gap that is small beside the total variance larger than
every loss.

- **optimal**: the gap is at most the tolerance times the size of the objective; or at most the
  resolution of float64, where that is at most the tolerance times the largest error. In either case
  the objective must be known: the resolution is at most the larger of the tolerance and 1e-6, as a
  share of the size of the objective. An objective that cannot be distinguished from zero, as with
  identical groups or with d = p, has no such share: it is known where the resolution is at most the
  tolerance times the largest error, or, where all errors are zero, times the variance.
- **unresolved**: the gap is at most what float64 can resolve, but that is too much to call it
  optimal: the data, not the solver, leave open how good the answer is.
- otherwise **open gap**.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from fairspan.certificates.proofs import Proof
from fairspan.formatting.table import Table
from fairspan.formatting.text import counted
from fairspan.linalg import basis_rounding_bound, error_rounding_bound, graded_eigh, normalize_signs
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import encoder_columns
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import Problem, is_feasible, reported_parameters
from fairspan.problem.reduction import describe_dominant_feature
from fairspan.problem.restrictions import Restriction
from fairspan.rows.groups import Label, table_name
from fairspan.typing import FloatArray
from fairspan.version import __version__

# A larger tolerance is stated with every result.
LOOSE_TOL = 1e-6


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
        return _STATUS_MESSAGES[self]


_STATUS_MESSAGES = {
    Status.OPTIMAL: "no subspace is better by more than the tolerance",
    Status.UNRESOLVED: "the gap is no larger than what double precision can tell of these data, "
    "but that is more than the tolerance",
    Status.ESTIMATED: "no better subspace was found by more than the tolerance, but the bound "
    "rests on eigenvectors found by iteration, which cannot prove that none was missed",
    Status.OPEN_GAP: "a better subspace may exist, by at most the gap if there is a bound; accept "
    "it, or allow it (tol=, --tol), or with more than two groups try allow_extra=True "
    "(--allow-extra)",
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
        (:mod:`fairspan.certificates.certificate`).
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
    theorem_3_2_holds : bool or None
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
        text = self.status.message
        if self.status is Status.OPEN_GAP and math.isfinite(self.relative_gap):
            gap_text = f"{100 * self.relative_gap:.2g} % of the objective"
            text = text.replace("the gap if there is a bound", gap_text)
        if self.steps and self.status is Status.OPEN_GAP:
            proven = sum(step.status is Status.OPTIMAL for step in self.steps)
            text = (
                f"components are nested, each chosen beside those before it ({proven} of "
                f"{len(self.steps)} proven optimal so); {len(self.steps)} components chosen "
                "together may be better, by at most the gap"
            )
        if self.tolerance_suffix:
            text += f", {self.tol:.2g} of the objective"
        if self.unresolved_reason is None:
            return text
        remedy = '; divide it by its unit, or use scale=True or center="global"'
        return f"{text}: {self.unresolved_reason}" + (
            remedy if "column" in self.unresolved_reason else ""
        )

    @property
    def restriction_text(self) -> str | None:
        """The restriction with its settings, such as "MeanParity(tolerance=0.0)"."""
        return None if self.restriction is None else repr(self.restriction)

    @property
    def problem_text(self) -> str:
        """What was minimised, under which restriction, and whether components are nested."""
        restriction = "" if self.restriction is None else f" with {self.restriction!r}"
        return f"{'nested ' if self.steps else ''}{self.criterion.name}{restriction}"

    @property
    def status_text(self) -> str:
        """The status, with a tolerance that is larger than usual, as "optimal within 1 %"."""
        return f"{self.status}{self.tolerance_suffix}"

    @property
    def tolerance_suffix(self) -> str:
        """Of an optimal solution with a tolerance that is larger than usual, " within 1 %"."""
        return tolerance_suffix(self.status, self.tol)

    def to_dict(self) -> dict[str, Any]:
        """What was minimised and what is proven, as plain values; a bound may not be finite."""
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
            # Of nested components, the first 1, 2, .. of them and each step.
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
        """That of the first of nested components alone."""
        if n_components == len(self.steps):
            return self
        return replace(
            self.prefixes[n_components - 1],
            steps=self.steps[:n_components],
            prefixes=self.prefixes[: n_components - 1],
        )

    def with_offset(self, offset: float) -> "Certificate":
        """The same where the criterion is larger by a constant, whatever is chosen."""
        if not offset:
            return self
        return replace(
            self,
            objective=self.objective + offset,
            lower_bound=self.lower_bound + offset,
            trace=tuple(
                TracePoint(
                    each.n_eigenproblems, each.lower_bound + offset, each.upper_bound + offset
                )
                for each in self.trace
            ),
        )

    def __repr__(self) -> str:
        return (
            f"<Certificate {self.status_text}: objective {self.objective:.6g}, gap {self.gap:.1e}, "
            f"{counted(self.n_eigenproblems, 'eigenproblem')} by {self.solver}>"
        )

    def _repr_html_(self) -> str:
        """The certificate as a table in a notebook."""
        bound = f"{self.lower_bound:.6g}" if math.isfinite(self.lower_bound) else "none is known"
        gap = f"{self.gap:.1e}" if math.isfinite(self.lower_bound) else "not known"
        rows = [
            ("objective", f"{self.objective:.6g}"),
            ("lower bound", bound),
            ("gap", gap),
            ("tolerance", f"{self.absolute_tol:.1e}"),
            ("resolution of double precision", f"{self.resolution:.1e}"),
            ("eigenproblems", f"{self.n_eigenproblems:,}"),
            ("solver", self.solver),
        ]
        if self.constraint_violation > self.absolute_tol:
            rows.append(("groups' errors differ too much by", f"{self.constraint_violation:.1e}"))
        notes = (f"{self.status_text}: {self.message}.",)
        return Table.from_texts("Certificate", ("", "value"), rows, notes=notes)._repr_html_()

    def to_table(self, caption: str) -> Table:
        """What a notebook shows: the groups, and what was proven."""
        rows = [
            (table_name(group), f"{count:,}", f"{error:.4g}", f"{loss:.4g}")
            for group, count, error, loss in zip(
                self.groups, self.counts, self.errors.tolist(), self.losses.tolist(), strict=True
            )
        ]
        bound = f"{self.lower_bound:.6g}" if math.isfinite(self.lower_bound) else "none is known"
        note = (
            f"{self.status_text}: {self.criterion.name} is {self.objective:.6g}, lower bound: "
            f"{bound} (by {self.solver}, fairspan {self.version})"
        )
        return Table.from_texts(caption, ("group", "rows", "error", "loss"), rows, notes=(note,))


def tolerance_suffix(status: str, tol: float) -> str:
    """What to add to the status "optimal" if its tolerance is larger than usual.

    Examples
    --------
    >>> within("optimal", 0.01), within("optimal", 1e-9), within("open gap", 0.01)
    (' within 1 %', '', '')
    """
    is_loose = status == Status.OPTIMAL and tol > LOOSE_TOL
    return f" within {tol * 100:.2g} %" if is_loose else ""


class Solver(Protocol):
    """A method that solves the problems it accepts, and certifies the solution."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which it can be requested."""

    @abstractmethod
    def unsupported_reason(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""

    @abstractmethod
    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Certificate:
        """Find a subspace whose gap is at most `tol`, a share of the objective.

        `random_state` is a seed, a numpy Generator or RandomState, or None, for solvers with
        random starts.
        """


_EPSILON = float(np.finfo(np.float64).eps)
# Moments of rows with missing cells that are closer to their limit, in standard deviations, leave
# nothing unresolved by that.
KNOWN_WELL = 1e-11
# Without matrices, errors are taken to be uncertain by this share of the variance.
_OPERATOR_ROUNDING = 1e-14
# A search goes a little further than what will be asked, and no further than a few roundings.
_TARGET_SAFETY, _UNAVOIDABLE_ROUNDING = 0.75, 4 * _EPSILON
# An objective of no more than so many resolutions cannot be told from zero.
_ZERO_RESOLUTIONS = 2.0
# What counts as the same length, of the columns of a soft projection's basis.
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
    """Value, bound and status of a subspace: one routine for fits and for verification.

    Parameters
    ----------
    problem : Problem
    basis : (p, r) array
        Orthonormal columns; or, for a soft projection, orthogonal ones of length sqrt(lb_j) <= 1
        with sum_j lb_j = d.
    proof : Proof or (k,) array
        The data of the bound; the weights of the groups alone, if these are enough.
    tol : float
        Relative: the gap that is called optimal, as a share of the objective.
    lower_bound : float, optional
        A bound that was proven in another way, if there are no matrices to compute it from.
    room : float
        How many times tolerance and resolution a gap may be to be called closed.

    Returns
    -------
    Certificate
    """
    proof = proof if isinstance(proof, Proof) else Proof(proof)
    criterion, (errors, roundings) = problem.criterion, errors_and_rounding(problem, basis)
    objective = criterion.value(errors, problem)
    objective_rounding = criterion.rounding_bound(roundings, errors, problem)
    if lower_bound is None:
        gap, bound_rounding = proof.gap(problem, basis, errors)
        gap_upper = gap
        if problem.parent is None and criterion.is_nonnegative:
            gap, gap_upper = min(gap, objective), min(gap, objective + objective_rounding)
    else:
        gap, bound_rounding = objective - lower_bound, objective_rounding
        gap_upper = gap
    violation = max(criterion.constraint_violation(errors), 0.0)
    if problem.n_groups > 1 and criterion.requires_equal_errors:
        # Errors are equal up to rounding, which weights that nearly cancel make much of.
        weights = criterion.dual_feasible_weights(proof.weights, problem)
        objective_rounding += float(
            np.abs(problem.proportions - weights / weights.sum()) @ roundings
        )
    resolution = objective_rounding + bound_rounding
    scale = criterion.scale(errors, problem)
    # Both are to hold: the bound is met, and so is the constraint.
    # Beside a bound that is known to be zero, the value itself is uncertain; and a bound above the
    # value shows by how much both are.
    shortfall = max(abs(gap), gap_upper, violation)
    if problem.limit is not None and not is_feasible(problem.limit, basis):
        shortfall = np.inf
    tolerance = tol * scale
    # Within a restriction, what no choice changes is a part of the objective, and is not zero.
    free_magnitude = (
        scale if problem.parent is None else criterion.largest_scaled_error(errors, problem)
    )
    is_small = resolution <= tolerance_factor * tol * size_beside(problem, errors, resolution)
    is_zero = is_small and free_magnitude <= tolerance_factor * _ZERO_RESOLUTIONS * resolution
    is_known = is_zero or resolution <= tolerance_factor * max(tol, LOOSE_TOL) * scale
    if is_known and is_small:
        tolerance = max(tolerance, resolution)
    status = Status.OPEN_GAP
    # Scores with roots are steep at errors near zero: that a bound is met does not make them known.
    objective_uncertainty = objective_rounding if criterion.has_concave_scores else 0.0
    # Beside a large constant, the last digit of the objective may be more than the tolerance.
    objective_uncertainty = max(
        objective_uncertainty, _EPSILON * abs(objective + problem.objective_offset)
    )
    if is_known and max(shortfall, objective_uncertainty) <= tolerance_factor * tolerance:
        status = Status.OPTIMAL
    elif shortfall <= tolerance_factor * resolution:
        status = Status.UNRESOLVED
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
    """Order the basis, evaluate the criterion at it, and compare with the bound.

    Parameters
    ----------
    problem, basis, proof, tol, lower_bound
        As of :func:`evaluate`.
    n_eigenproblems, trace, solver
        Records of the run.

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
    """Why double precision cannot resolve a gap: large numbers, how rows move, a tiny objective."""
    if certificate.status is not Status.UNRESOLVED:
        return None
    column = None if is_scaled else describe_dominant_feature(moments, center)
    if column is not None:
        return column
    completion = moments.em_summary if isinstance(moments, GroupMoments) else None
    if completion is not None and completion.left > KNOWN_WELL:
        return (
            "the EM algorithm ended while its models were still up to "
            f"{completion.left:.0e} standard deviations from their limit"
        )
    if certificate.restriction is not None and certificate.restriction.oblique:
        return "how rows are moved depends on directions along which they hardly vary"
    return problem.criterion.unresolved_reason(
        max(certificate.scale, certificate.resolution), problem
    )


def target_gap(problem: Problem, errors: FloatArray, tol: float) -> float:
    """The gap for a search to reach, absolute: a share of the objective, or what can be resolved.

    Parameters
    ----------
    problem : Problem
    errors : (k,) array
        Of the best subspace so far.
    tol : float
        Relative.
    """
    wanted_gap = _TARGET_SAFETY * tol * problem.criterion.scale(errors, problem)
    rounding = problem.criterion.rounding_bound(
        _unavoidable_rounding(problem, errors), errors, problem
    )
    # In the end the room for rounding is a part of the gap.
    return max(wanted_gap - 2 * rounding, rounding)


def rotate_to_principal_axes(problem: Problem, basis: FloatArray) -> FloatArray:
    """Rotate a basis inside its subspace: principal axes of the pooled moment, largest first.

    Of a soft projection, only columns of full length are rotated; the others are left to follow.
    """
    has_unit_length = np.linalg.norm(basis, axis=0) >= 1 - _UNIT_LENGTH_TOL
    compressed = problem.second_moments.compress(basis[:, has_unit_length])
    pooled = np.tensordot(problem.proportions, compressed, axes=1)
    axes = graded_eigh(pooled, len(pooled) - 1)[1] if len(pooled) else pooled
    rotated = basis[:, has_unit_length] @ axes[:, ::-1]
    # Products leave columns orthonormal to some ten roundings, which the variance kept would show
    # where hardly any is lost. A step of Newton's method leaves one.
    rotated -= rotated @ (rotated.T @ rotated - np.eye(rotated.shape[1])) / 2
    return normalize_signs(np.hstack([rotated, basis[:, ~has_unit_length]]))


def errors_and_rounding(problem: Problem, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each group's error, and by how much rounding may have moved it, shapes (k,)."""
    second_moments = problem.dense_moments
    if not problem.has_matrices:
        return problem.errors(basis), np.asarray(_OPERATOR_ROUNDING * second_moments.traces)
    inner_errors, (residual_row_norms, offset_rounding) = (
        second_moments.inner_errors(basis),
        second_moments.residual_projector_norms(basis),
    )
    inner_rounding = error_rounding_bound(
        second_moments.column_rms, inner_errors, residual_row_norms
    )
    offset_rounding_bound = 2 * np.sqrt(inner_errors) * offset_rounding + offset_rounding**2
    fixed_rounding = problem.fixed_rounding + _EPSILON * (
        second_moments.excluded_variances - problem.fixed_errors
    )
    errors = inner_errors + second_moments.excluded_variances
    rounding = (
        inner_rounding + offset_rounding_bound + fixed_rounding + _best_error_rounding(problem)
    )
    return errors, rounding + problem.coordinate_rounding(errors + problem.common_error)


def _best_error_rounding(problem: Problem) -> FloatArray:
    """By how much the errors may be off that a restricted problem subtracts, shape (k,)."""
    whole = problem.parent
    if whole is None or not problem.criterion.uses_excess_loss:
        return np.zeros(problem.n_groups)
    optima = enumerate(whole.group_optima)
    return np.array([errors_and_rounding(whole, best.vectors)[1][g] for g, best in optima])


def _unavoidable_rounding(problem: Problem, errors: FloatArray) -> FloatArray:
    """Of errors, by any way to work them out; less than is left room for in the end."""
    inner_errors = np.maximum(errors - problem.fixed_errors, 0.0)
    if not problem.has_matrices:
        return _UNAVOIDABLE_ROUNDING * inner_errors
    return _UNAVOIDABLE_ROUNDING * inner_errors + basis_rounding_bound(
        problem.dense_moments.root_traces, inner_errors
    )


def size_beside(problem: Problem, errors: FloatArray, resolution: float) -> float:
    """The largest error; where all errors are rounding, the least variance of a column that varies.

    So what is zero by structure, as where d dimensions hold all rows, is optimal, but not where a
    column of large numbers makes the variance of all others rounding.
    """
    largest = problem.criterion.largest_scaled_error(errors, problem)
    if largest > resolution:
        return largest
    variance = float((problem.second_moments.traces / problem.divisors).max())
    if problem.n_components == problem.n_features:
        return variance
    least = problem.smallest_feature_variance / float(problem.divisors.max())
    if problem.has_matrices:
        return least
    # The resolution of sparse rows is a share of the variance. Small errors are sums of what is
    # left of rows, and rounded by much less.
    turned = _OPERATOR_ROUNDING * np.sqrt(np.maximum(problem.second_moments.traces, 0.0))
    inner_errors = np.maximum(errors - problem.fixed_errors, 0.0)
    unsure = (2 * np.sqrt(inner_errors) * turned + turned**2) / problem.divisors
    return variance if unsure.max() <= LOOSE_TOL * least else least
