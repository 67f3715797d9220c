"""Judge answers from the rows in numbers of 60 digits and more, without code of the library.

Second moments come from the rows as fractions, so they are exact. The value of the returned
components, and the bound that the returned weights prove, are computed from them with mpmath. A
claim is wrong if it differs from the exact number by more than rounding in float64 explains.
"""

from dataclasses import dataclass
from typing import Any

from mpmath import mp, mpf

from torture.cases import Case
from torture.exact_criteria import ExactCriterion
from torture.exact_moments import EPSILON, AllowedDirections, ExactMoments
from torture.high_precision import (
    Rounded,
    float_spacing,
    orthonormal_rows,
    smallest_eigenspace,
    sum_of_smallest,
    to_mpf,
    trace,
    trace_rounding,
)
from torture.weight_bounds import WeightBound
from torture.wrong_answer import WrongAnswer

# Criteria that do not compare groups, so that the rounding of errors which a restriction fixes is
# the same in value and bound.
_WITHOUT_COMPARISON = ("total_error", "nash_welfare")


@dataclass(frozen=True)
class Judgment:
    """The claims of an answer and the exact numbers.

    Attributes
    ----------
    status : str
        Claimed.
    value, bound, gap : float
        True value at the components, true bound of the weights, and their difference.
    objective, lower_bound : float
        Claimed.
    """

    status: str
    value: float
    bound: float
    gap: float
    objective: float
    lower_bound: float


@dataclass(frozen=True)
class _Evidence:
    """Exact numbers about an answer, its claims, and bounds on every kind of rounding.

    Attributes
    ----------
    value, bound : Rounded
        Exact value of the components and exact bound of the weights, with the rounding of the
        second moments.
    objective, lower_bound, resolution : mpf
        Claimed.
    fixed_rounding : mpf
        Rounding of the errors that a restriction fixes.
    storage_rounding : mpf
        Rounding of the components to float64.
    violation : mpf
        Excess of the difference of errors over what the criterion allows.
    leverage : mpf
        Decrease of the total error per unit of violation.
    scale : mpf
        The tolerance is relative to this.
    size, least_error : mpf
        Largest and smallest error that the choice of a subspace changes.
    """

    case: Case
    status: str
    solution: Any
    value: Rounded
    bound: Rounded
    objective: Any
    lower_bound: Any
    resolution: Any
    fixed_rounding: Any
    storage_rounding: Any
    violation: Any
    leverage: Any
    scale: Any
    size: Any
    least_error: Any
    p: int

    @property
    def gap(self) -> Any:
        return self.value.value - self.bound.value

    def __str__(self) -> str:
        value_rounding = self.value.rounding + self.fixed_rounding
        bound_rounding = self.bound.rounding + self.fixed_rounding
        return (
            f"{self.solution!r}, resolution {float(self.resolution):.1e}; "
            f"true value {mp.nstr(self.value.value, 17)}, "
            f"true bound {mp.nstr(self.bound.value, 17)}, true gap {mp.nstr(self.gap, 3)}, "
            f"room for rounding {mp.nstr(value_rounding, 2)} and {mp.nstr(bound_rounding, 2)}"
        )


def judge_case(case: Case, model: Any) -> Judgment:
    """Compare the claims of a fitted model with the exact numbers.

    Raises
    ------
    WrongAnswer
    """
    exact = ExactMoments(case, model.groups_.tolist(), model.scale_)
    with mp.workdps(exact.digits):
        _check_scale(case, model, exact)
        evidence = _collect_evidence(case, model, exact)
        _check_numbers(evidence)
        _check_status(evidence)
        return Judgment(
            evidence.status,
            float(evidence.value.value),
            float(evidence.bound.value),
            float(evidence.gap),
            float(evidence.objective),
            float(evidence.lower_bound),
        )


def _collect_evidence(case: Case, model: Any, exact: ExactMoments) -> _Evidence:
    solution = model.solution_
    directions = AllowedDirections(exact)
    components = mp.matrix(model.components_.tolist())
    residual = _residual_projector(case, exact, components)
    _check_restriction(case, exact, directions, components)

    errors = [trace(residual * matrix * residual) for matrix in exact.matrices]
    error_rounding = [trace_rounding(residual, rounding) for rounding in directions.entry_rounding]
    best, best_rounding = _best_errors(exact, case.n_components, case.criterion)
    criterion = ExactCriterion(case.criterion, case, exact, best)
    value = Rounded(
        criterion.value(errors), criterion.value_rounding(errors, error_rounding, best_rounding)
    )
    weight_bound = WeightBound(criterion, exact, directions, case.n_components)
    bound = weight_bound.bound(solution, best_rounding)
    unconditional = criterion.unconditional_bound()
    if unconditional is not None and unconditional > bound.value:
        bound = Rounded(unconditional, criterion.average(best_rounding))

    # Errors that the choice of a subspace changes, in the units of the criterion.
    free_errors = [
        (error - fixed) / divisor
        for error, fixed, divisor in zip(
            errors, directions.fixed_errors, criterion.divisors, strict=True
        )
    ]
    fixed_rounding = mpf(0)
    if directions.is_restricted:
        fixed = [f / t for f, t in zip(directions.fixed_errors, criterion.divisors, strict=True)]
        fixed_rounding = 64 * EPSILON * criterion.average(fixed)
    scale = criterion.scale(errors)
    measures_variance = criterion.is_nash or criterion.name == "least_variance"
    if directions.is_restricted and not measures_variance:
        scale = min(scale, max(free_errors))
    resolution = mpf(float(solution.resolution))
    violation = mpf(0)
    if criterion.wants_equal:
        violation = max(max(errors) - min(errors) - criterion.tolerance, mpf(0))
    zeros = [mpf(0)] * exact.k
    return _Evidence(
        case=case,
        status=str(solution.status),
        solution=solution,
        value=value,
        bound=bound,
        objective=mpf(float(solution.objective)),
        lower_bound=mpf(float(solution.lower_bound)),
        resolution=resolution,
        fixed_rounding=fixed_rounding,
        storage_rounding=criterion.value_rounding(
            errors, _storage_errors(exact, directions), zeros
        ),
        violation=violation,
        leverage=weight_bound.leverage,
        scale=scale,
        size=_error_size(criterion, directions, max(free_errors), resolution),
        least_error=max(free_errors) if directions.is_restricted else scale,
        p=exact.p,
    )


def _error_size(
    criterion: ExactCriterion, directions: AllowedDirections, largest_error: Any, resolution: Any
) -> Any:
    """Return the largest error, or the largest variance where errors are below the resolution."""
    if criterion.is_nash:
        return mpf(1)
    if largest_error > resolution:
        return largest_error
    variances = [trace(matrix) for matrix in directions.matrices]
    return max(v / t for v, t in zip(variances, criterion.divisors, strict=True))


def _check_numbers(evidence: _Evidence) -> None:
    """Raise WrongAnswer where the objective or the lower bound is wrong."""
    objective, lower_bound = evidence.objective, evidence.lower_bound
    resolution = evidence.resolution
    value, bound = evidence.value, evidence.bound
    spacing = 4 * float_spacing(objective)
    if not (mp.isfinite(objective) and mp.isfinite(resolution)):
        raise WrongAnswer(f"not finite: {evidence}")
    rounding = value.rounding + evidence.fixed_rounding + evidence.storage_rounding
    if abs(objective - value.value) > resolution + rounding + spacing:
        raise WrongAnswer(f"objective is not the value of the components: {evidence}")
    rounding = bound.rounding + evidence.fixed_rounding
    if lower_bound > bound.value + resolution + rounding + spacing:
        raise WrongAnswer(f"lower bound is more than its weights prove: {evidence}")
    # Errors that differ within the tolerance make a total below that of equal ones.
    decrease = evidence.violation * evidence.leverage
    if evidence.status == "optimal":
        decrease = min(decrease, 2 * mpf(evidence.case.tol) * evidence.scale)
    if lower_bound > objective + resolution + decrease + spacing:
        raise WrongAnswer(f"lower bound is above the objective: {evidence}")


def _check_status(evidence: _Evidence) -> None:
    """Raise WrongAnswer where the status claims more than the gap and the violation allow."""
    if evidence.status in ("open gap", "estimated"):
        return
    resolution = evidence.resolution
    worst = max(evidence.gap, evidence.violation)
    rounding = evidence.value.rounding + evidence.bound.rounding + evidence.storage_rounding
    if evidence.case.criterion.name not in _WITHOUT_COMPARISON:
        rounding += evidence.fixed_rounding
    if evidence.status == "optimal":
        allowed_gap = 2 * mpf(evidence.case.tol) * evidence.scale + rounding
        if not (worst <= allowed_gap or _is_zero_by_structure(evidence, worst, rounding)):
            violation = mp.nstr(evidence.violation, 3)
            raise WrongAnswer(f"optimal, but the gap is open: {evidence}, violation {violation}")
    elif evidence.status == "unresolved":
        if worst > 2 * resolution + rounding + 4 * float_spacing(evidence.objective):
            raise WrongAnswer(f"unresolved, but the gap is larger than that: {evidence}")
    else:
        raise WrongAnswer(f"unknown status: {evidence}")


def _is_zero_by_structure(evidence: _Evidence, worst: Any, rounding: Any) -> bool:
    """Return whether the gap is below the resolution of the largest error or variance."""
    resolution = evidence.resolution
    tol = evidence.case.tol
    is_small = worst <= 2 * resolution + rounding
    is_resolved = resolution <= 2 * mpf(tol) * evidence.size
    is_epsilon = worst <= 4 * evidence.p * EPSILON * evidence.size
    # An objective that differs from zero has to be known to some digits.
    has_digits = resolution <= 2 * mp.sqrt(tol) * evidence.scale
    is_zero = evidence.least_error <= 4 * resolution + rounding
    return bool(is_small and (is_resolved or is_epsilon) and (has_digits or is_zero))


def _residual_projector(case: Case, exact: ExactMoments, components: Any) -> Any:
    """Return I - P for components that are orthonormal, or a soft projection where that is allowed.

    The rows of a basis are orthonormal to rounding only, which would let a column of 1e9 leak into
    every error, so the projector is that of their span.
    """
    p = exact.p
    lengths = [mp.norm(components[i, :]) for i in range(components.rows)]
    if all(abs(length - 1) < mpf("1e-9") for length in lengths):
        if components.rows != case.n_components:
            raise WrongAnswer(f"{components.rows} components in place of {case.n_components}")
        basis = orthonormal_rows(components)
        residual = mp.eye(p) - basis.T * basis
    elif case.allow_extra:
        residual = mp.eye(p) - components.T * components
        dimension = sum((length**2 * (2 - length**2) for length in lengths), mpf(0))
        if abs(dimension - case.n_components) > mpf("1e-8"):
            raise WrongAnswer(f"the soft projection keeps {mp.nstr(dimension, 12)} dimensions")
    else:
        raise WrongAnswer("components are not of length one")
    gram = components * components.T
    for i in range(gram.rows):
        for j in range(i):
            if abs(gram[i, j]) > mpf("1e-9"):
                raise WrongAnswer("components are not orthogonal")
    return residual


def _storage_errors(exact: ExactMoments, directions: AllowedDirections) -> list[Any]:
    """Return the error of each group that rounding the components to float64 adds.

    It grows with the square of an angle. Errors are not stationary in directions that a restriction
    forbids, so there the angle itself counts.
    """
    angle = exact.p * mpf(EPSILON)
    errors = []
    for matrix, inner in zip(exact.matrices, directions.matrices, strict=True):
        error = 16 * angle**2 * trace(matrix)
        if directions.is_restricted:
            error += 4 * angle * mp.sqrt(trace(matrix) * trace(inner))
        errors.append(error)
    return errors


def _best_errors(exact: ExactMoments, d: int, criterion: Any) -> tuple[list[Any], list[Any]]:
    """Return the least possible error of each group and its rounding; zeros where unused."""
    zeros = [mpf(0)] * exact.k
    without_best = ("nash_welfare", "disparity", "robust_error_gap" if exact.k > 1 else "")
    if criterion.name in without_best:
        return zeros, zeros
    if not (exact.is_rounded and criterion.name == "minimax_loss"):
        return [sum_of_smallest(matrix, d) for matrix in exact.matrices], zeros
    best, best_rounding = [], []
    for matrix, rounding in zip(exact.matrices, exact.entry_rounding, strict=True):
        least, residual = smallest_eigenspace(matrix, d)
        best.append(least)
        best_rounding.append(trace_rounding(residual, mp.matrix(rounding)))
    return best, best_rounding


def _check_scale(case: Case, model: Any, exact: ExactMoments) -> None:
    """Raise WrongAnswer unless scaled columns have variance one or none."""
    if not case.scale:
        return
    total = sum(exact.weights)
    overall_mean = exact.overall_mean()
    groups = list(zip(exact.weights, exact.means, exact.covariances, strict=True))
    for j in range(exact.p):
        scatter = sum(
            weight * (covariance[j][j] + (mean[j] - overall_mean[j]) ** 2)
            for weight, mean, covariance in groups
        )
        variance = to_mpf(scatter / total)
        mean_rounding = EPSILON * exact.largest[j]
        limit = mpf("1e-12") + 8 * mean_rounding**2 + 8 * mean_rounding
        if variance > 0 and abs(variance - 1) > limit:
            raise WrongAnswer(f"scaled column {j} has variance {float(variance)}")


def _check_restriction(
    case: Case, exact: ExactMoments, directions: AllowedDirections, components: Any
) -> None:
    """Raise WrongAnswer where the components violate the restriction."""
    restriction = case.restriction
    if restriction is None:
        return
    largest = mp.norm(mp.matrix(exact.largest))
    limit = mpf(0)
    if restriction.name == "mean_parity":
        limit = mpf(float(restriction.tolerance or 0))
    for difference in directions.mean_differences:
        distance = mp.norm(components * difference)
        rounding = mpf("1e-12") * mp.norm(difference) + 16 * EPSILON * largest
        if distance > limit * (1 + mpf("1e-9")) + rounding:
            raise WrongAnswer(f"means differ by {mp.nstr(distance, 5)} along the components")
    if directions.is_restricted:
        outside = components - components * directions.basis * directions.basis.T
        if mp.norm(outside) > mpf("1e-8"):
            raise WrongAnswer(f"components leave the directions by {mp.nstr(mp.norm(outside), 3)}")
