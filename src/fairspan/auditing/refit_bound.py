"""Bounds on what a refit to new rows could achieve, and drift of the errors since the fit.

The dual weights of a certificate prove a bound for any second moments: no subspace has a smaller
weighted error than the sum of the smallest eigenvalues of the weighted mixture. A saved model
therefore bounds what a refit to this month's rows could achieve, without a refit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.auditing.intervals import UNKNOWN, Estimate, half_width, is_heavy_tailed
from fairspan.auditing.observed_errors import ErrorIntervals
from fairspan.auditing.optimism import ErrorOptimism, mixture_weights
from fairspan.certificates.proofs import Proof
from fairspan.errors import FairspanError
from fairspan.model.projected_moments import second_moments_and_projector
from fairspan.model.serialization import UnresolvedObject
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments
from fairspan.moments.second_moments import reconstruction_errors
from fairspan.problem.build_family import build_problem_family
from fairspan.problem.family import ProblemFamily
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import Reduction
from fairspan.typing import FloatArray

# Limit of gaps that may be due to chance, as a multiple of the expected one: in simulations of
# unchanged rows, normal and with heavy tails, one gap in ten was above 1.0 to 1.3 times that.
_CHANCE_FACTOR = 1.5


@dataclass(frozen=True)
class RefitBound:
    """Objective of a model on rows it was not fitted to, and a lower bound for a refit to them.

    A refit uses the same criterion, restriction and units as the model and its own center: with
    center="global" the mean of the new rows.

    Attributes
    ----------
    criterion : str
        Description of criterion and restriction.
    objective : float
        Criterion evaluated at the model's errors on these rows; losses are relative to the groups'
        best errors in a refit. NaN if the criterion is undefined for these rows; infinite if a
        variance whose logarithm is taken is zero.
    recentered_objective : float
        The objective with the model's mean replaced by the mean of these rows.
    lower_bound : float
        Lower bound on the objective of any refit; NaN if there is no proof.
    constraint_violation : float
        Violation of the equality constraint of a criterion of equal errors.
    scale : float
        Scale for the relative gap, as in a certificate.
    expected_gap : float
        Gap that is expected if the rows are distributed like those of the fit, to first order: the
        model fits the chance variation of its own rows, and a refit would fit that of these rows.
        Rows with heavy tails vary more.
    refit_may_help : bool or None
        Whether the gap exceeds the materiality threshold plus 1.5 times the expected gap, or the
        violation exceeds the threshold; None if there is no bound.
    no_bound_reason : str or None
        Why there is no bound, if there is none.
    is_restricted : bool
        Whether the model has a restriction. It need not be feasible for these rows, so the bound
        for a refit, which must be feasible, may exceed the objective.
    """

    criterion: str
    objective: float = math.nan
    recentered_objective: float = math.nan
    lower_bound: float = math.nan
    constraint_violation: float = 0.0
    scale: float = math.nan
    expected_gap: float = math.nan
    refit_may_help: bool | None = None
    no_bound_reason: str | None = None
    is_restricted: bool = False

    @property
    def gap(self) -> float:
        """Largest possible improvement by a refit; zero if the bound exceeds the objective.

        It can: a refit is centered at the mean of these rows, which suits some groups less.
        """
        # np.maximum propagates NaN.
        return float(np.maximum(self.objective - self.lower_bound, 0.0))

    @property
    def relative_gap(self) -> float:
        """Gap relative to `scale`; zero if the gap is zero."""
        if self.gap == 0:
            return 0.0
        if not self.scale > 0:
            return math.inf
        return self.gap / self.scale

    def to_dict(self) -> dict[str, object]:
        """Return JSON-serializable values; non-finite floats become None.

        Gap and relative gap are added; `scale` and `is_restricted` are omitted.
        """
        values = {
            name: value
            for name, value in vars(self).items()
            if name not in ("scale", "is_restricted")
        }
        values |= {"gap": self.gap, "relative_gap": self.relative_gap}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }


def refit_bound(
    subspace: FairSubspace,
    moments: Moments,
    errors: FloatArray,
    standard_errors: FloatArray,
    materiality: float,
) -> RefitBound | None:
    """Bound from below the objective that a refit of the model to these rows could achieve.

    The result also tells whether a refit may gain more than the materiality threshold. None for a
    model without certificate. If a bound cannot be computed, the result says why.

    Parameters
    ----------
    subspace : FairSubspace
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the rows, in the units of the features.
    errors : (k,) array
        Errors of the model on these rows, about its own center.
    standard_errors : (k,) array
        Standard errors of the errors, NaN if unknown: with heavy tails, a larger gap is expected.
    materiality : float
        Materiality threshold, as a share of the smallest variance of a group.
    """
    certificate = subspace.certificate
    if certificate is None:
        return None
    components: tuple[object, ...] = (certificate.criterion, certificate.restriction)
    for component in components:
        if isinstance(component, UnresolvedObject):
            # It is of another package, which the model only names; nothing can be computed with it.
            return RefitBound(certificate.problem_text, no_bound_reason=component.error().args[0])
    result = RefitBound(certificate.problem_text, is_restricted=certificate.restriction is not None)
    try:
        # The model's objective is evaluated without the restriction, which the model may violate on
        # these rows. The bound is computed with it.
        problems = _refit_problems(subspace, moments, restricted=False)
        unrestricted = problems.reduction_at(subspace.dimension).problem
        result = _with_objective(result, subspace, moments, errors, unrestricted)
        bound = _dual_bound(subspace, moments)
    except (FairspanError, _NoBound) as error:
        return replace(result, no_bound_reason=error.args[0])
    result = replace(result, lower_bound=bound)
    # The materiality threshold in the units of the objective: as if each error were this share of
    # the smallest variance of a group, divided like the errors in the criterion.
    min_variances = np.full(unrestricted.n_groups, unrestricted.second_moments.traces.min())
    min_material_gap = materiality * unrestricted.criterion.largest_scaled_error(
        min_variances, unrestricted
    )
    optimism = ErrorOptimism.from_moments(subspace, moments, errors, standard_errors)
    expected_gap = _expected_gap(subspace, moments, optimism, unrestricted)
    result = replace(result, expected_gap=expected_gap)
    # A refit may also restore equal errors, where the criterion requires them.
    chance = _CHANCE_FACTOR * result.expected_gap
    possible_gain = max(result.gap - chance, result.constraint_violation)
    return replace(result, refit_may_help=possible_gain > min_material_gap)


def _expected_gap(
    subspace: FairSubspace, moments: Moments, optimism: ErrorOptimism, problem: Problem
) -> float:
    """Gap that is expected without a change, in the units of the objective.

    On new rows, a model loses half of its optimism against the best one, and a refit gains half of
    its own. The dual weights turn these errors into units of the objective.

    Parameters
    ----------
    subspace, moments
        See :func:`refit_bound`.
    optimism : ErrorOptimism
        Optimism of the model, and of a refit to as many rows.
    problem : Problem
        The problem of a refit without the restriction.
    """
    counts = np.maximum(moments.counts, 1).astype(np.float64)
    training_counts = np.maximum(_training_counts(subspace, moments), 1)
    losses = (optimism.at_counts(counts) + optimism.at_counts(training_counts)) / 2
    weights = mixture_weights(subspace.require_certificate(), moments.labels)
    criterion = problem.criterion
    weights = criterion.dual_feasible_weights(weights, problem)
    weighted_error = float(weights @ optimism.errors)
    best_weighted_error = weighted_error - float(weights @ losses)
    gap = criterion.lower_bound(weighted_error, weights, problem)
    gap -= criterion.lower_bound(best_weighted_error, weights, problem)
    return max(gap, 0.0)


def _training_counts(subspace: FairSubspace, moments: Moments) -> FloatArray:
    """Return the number of rows of the fit in each group of `moments`, (k,); 0 without any."""
    certificate = subspace.require_certificate()
    counts = dict(zip(certificate.groups, certificate.counts, strict=True))
    return np.array([counts.get(label, 0) for label in moments.labels], dtype=np.float64)


def error_drift(
    subspace: FairSubspace,
    moments: Moments,
    errors: FloatArray,
    intervals: ErrorIntervals,
    level: float,
) -> list[Estimate]:
    """Change in each group's error since the fit, with intervals that are simultaneous over groups.

    The training rows are no longer available; their squared residuals are assumed to have the
    variance of those of these rows, so the variance of the change is (1 + n / n_fit) times the
    variance of the current error, for n audited and n_fit training rows of the group. The lower
    limit is reduced by the optimism of the fit, which makes errors larger on any new rows.

    There is no interval without a standard error, or if a few rows dominate it, and NaN for a group
    that was not in the fit. Without a certificate, which records the errors at the fit, no change
    is known.

    Parameters
    ----------
    subspace, moments, errors
        See :func:`refit_bound`.
    intervals : ErrorIntervals
        Standard errors of the errors, with their degrees of freedom and kurtosis.
    level : float
        Confidence level of the intervals.
    """
    certificate = subspace.certificate
    if certificate is None:
        return [UNKNOWN] * moments.n_groups
    error_at_fit = dict(zip(certificate.groups, certificate.errors.tolist(), strict=True))
    training_errors = np.array([error_at_fit.get(label, math.nan) for label in moments.labels])
    changes = errors - training_errors
    training_counts = _training_counts(subspace, moments)
    expected = ErrorOptimism.from_moments(subspace, moments, errors, intervals.standard_errors)
    optimism = expected.at_counts(np.maximum(training_counts, 1))
    mean_bias = expected.own_mean_bias(moments.counts.astype(np.float64))
    n_groups = moments.n_groups
    df = np.broadcast_to(intervals.df, (n_groups,))
    estimates = []
    for i in range(n_groups):
        n_rows = int(moments.counts[i])
        standard_error = float(intervals.standard_errors[i])
        change = Estimate(float(changes[i]))
        is_known = training_counts[i] > 0 and n_rows > 0 and standard_error >= 0 and df[i] > 0
        if is_known and not is_heavy_tailed(float(intervals.kurtosis[i]), n_rows):
            margin = half_width(
                standard_error * math.sqrt(1 + n_rows / training_counts[i]),
                float(df[i]),
                n_groups,
                level,
            )
            # A criterion may also make errors larger on the rows of the fit.
            low = changes[i] - margin - max(optimism[i], 0.0)
            high = changes[i] + margin + max(-optimism[i], 0.0) + mean_bias[i]
            change = Estimate(float(changes[i]), float(low), float(high))
        estimates.append(change)
    return estimates


def _refit_problems(
    subspace: FairSubspace, moments: Moments, *, restricted: bool = True
) -> ProblemFamily:
    """Optimization problems that a refit to these rows would solve, by dimension.

    The criterion, center and scale of the features are those of the model, and the restriction too
    unless `restricted` is False. A soft model, whose components may be shorter than one, may be
    refitted with extra dimensions.
    """
    certificate = subspace.require_certificate()
    return build_problem_family(
        moments,
        subspace.dimension,
        certificate.criterion,
        restriction=certificate.restriction if restricted else None,
        center=subspace.center,
        feature_scale=subspace.scale,
        allow_extra=subspace.is_soft,
    )


def _with_objective(
    result: RefitBound,
    subspace: FairSubspace,
    moments: Moments,
    errors: FloatArray,
    unrestricted: Problem,
) -> RefitBound:
    """Return `result` with the model's objective, violation and scale on these rows.

    `errors` are those of the model on these rows, and `unrestricted` is the problem that a refit
    without the restriction would solve. The recentered objective is that of the model with its mean
    replaced by the mean of these rows. Only a model with center="global" has a mean of its own; for
    others it equals the objective. The scale is a magnitude of the objective, by which the gap is
    divided for the relative gap.
    """
    criterion = unrestricted.criterion
    recentered_errors = errors
    if subspace.center == "global":
        recentered = replace(subspace, mean=moments.mean)
        second_moments, projector = second_moments_and_projector(recentered, moments)
        recentered_errors = reconstruction_errors(projector, second_moments)
    return replace(
        result,
        objective=criterion.value(errors, unrestricted),
        recentered_objective=criterion.value(recentered_errors, unrestricted),
        constraint_violation=max(criterion.constraint_violation(errors), 0.0),
        scale=criterion.scale(errors, unrestricted),
    )


class _NoBound(Exception):
    """Proof of a model from which no bound follows for the audited rows; says why."""


def _dual_bound(subspace: FairSubspace, moments: Moments) -> float:
    """Lower bound on the objective of any refit to these rows.

    The best bound of those that the dual variables of :func:`_applicable_proofs` give.

    Raises
    ------
    _NoBound
        There is no proof, it does not apply to these rows, or it gives no finite bound.
    """
    proof = subspace.require_certificate().proof
    if proof is None:
        raise _NoBound("the certificate of the model has no proof")
    # Other proofs contain matrices in feature coordinates, so they need moments in these.
    working_moments = moments if type(proof) is Proof else moments.to_dense()
    reduction = _refit_problems(subspace, working_moments).reduction_at(subspace.dimension)
    problem = reduction.problem
    if not problem.second_moments.has_matrices:
        raise _NoBound("the rows are sparse, so second moment matrices are not available")
    proofs = _applicable_proofs(subspace, proof, reduction)

    # The bound is valid whatever basis it is evaluated at; use that of ordinary PCA. Errors of the
    # problem lack the part that all groups share, which the offset adds to the objective.
    basis = problem.pooled_optimum.vectors
    errors = problem.errors(basis)
    bounds = [
        proof.lower_bound(problem, basis, errors)[0] + problem.objective_offset for proof in proofs
    ]
    # Zero is a valid bound for a nonnegative criterion, whatever the proofs give.
    min_objective = 0.0 if problem.criterion.is_nonnegative else -math.inf
    best = max([min_objective, *(bound for bound in bounds if not math.isnan(bound))])
    if not math.isfinite(best):
        raise _NoBound("the proof gives no finite bound for these rows")
    return best


def _applicable_proofs(
    subspace: FairSubspace, proof: Proof, reduction: Reduction
) -> Sequence[Proof]:
    """Return proofs for the problem of a refit, from the proof of the saved model.

    A proof is a choice of dual variables from which a bound follows. For most criteria these are
    group weights, and every dual feasible choice gives a valid bound: take the saved weights, equal
    weights, and their midpoint. If the groups have changed much since the fit, equal weights may be
    better. Other proofs hold for the same groups only.

    Raises
    ------
    _NoBound
        The proof is for other groups or restriction limits.
    """
    certificate = subspace.require_certificate()
    problem = reduction.problem
    labels = tuple(problem.group_labels)
    if type(proof) is not Proof:
        # The problem may have fewer coordinates than features, along `reduction.axes`.
        if reduction.axes is not None:
            proof = proof.change_coordinates(reduction.axes.T)
        if labels != tuple(certificate.groups) or not proof.applies_to(problem):
            raise _NoBound(
                "the proof of the model is for other groups or restriction limits than these rows"
            )
        return [proof]
    weight_by_group = dict(zip(certificate.groups, proof.weights.tolist(), strict=True))
    weights = np.array([weight_by_group.get(label, 0.0) for label in labels])
    # Groups of the fit may be missing here: rescale the weights of the others. Weights may be
    # negative, such as those of a criterion of equal errors.
    weights /= np.abs(weights).sum() or 1.0
    equal_weight = 1 / len(labels)
    candidates = [weights + share * (equal_weight - weights) for share in (0.0, 0.5, 1.0)]
    # The criterion replaces each candidate by weights that are feasible for it. For a linear
    # criterion, which fixes the weights, all three become the same.
    feasible = [problem.criterion.dual_feasible_weights(weights, problem) for weights in candidates]
    return [Proof(weights) for weights in np.unique(feasible, axis=0)]
