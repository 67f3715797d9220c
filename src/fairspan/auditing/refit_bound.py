"""What the proof of a model says of rows that it was not fitted on, and how errors moved since.

The weights that prove a bound prove one for any second moments: of a mixture of these no subspace
leaves less than the sum of its smallest eigenvalues. So a saved model bounds what a refit to this
month's rows could reach, without a refit.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairspan.auditing.expected_losses import UNKNOWN, Estimate
from fairspan.certificates.proofs import Proof
from fairspan.errors import FairspanError
from fairspan.model.serialization import UnresolvedObject
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base import Center
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import reconstruction_errors
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import ProblemFamily, build_problem_family
from fairspan.typing import FloatArray, IntegerArray


@dataclass(frozen=True)
class RefitBound:
    """What a model reaches on rows that it was not fitted on, and what a refit could at best.

    A refit is a fit to these rows by the same criterion and restriction, in the units of the model
    and about its own centre: with center="global" about the mean of these rows.

    Attributes
    ----------
    criterion : str
        What was minimised, under which restriction.
    objective : float
        The criterion at the errors of the model as it is; losses are those beyond the groups' best
        errors in a refit. NaN where the criterion is not defined for these rows; infinite where
        nothing is left of a variance whose logarithm counts.
    recentered_objective : float
        The same if the model subtracted the mean of these rows in place of its own.
    lower_bound : float
        No refit reaches less; NaN where nothing is proven.
    violation : float
        By how much the groups' errors differ more than a criterion of equal errors allows.
    scale : float
        What the gap is a share of: the size of the objective, as in a certificate.
    refit_may_help : bool or None
        Whether the gap, or the violation, is more than the share of a group's variance that
        matters; None where nothing is proven.
    reason : str or None
        Why nothing is proven, where that is so.
    is_restricted : bool
        Whether the model was fitted under a restriction, which it need not meet on these rows: then
        the bound of a refit, which does, may lie above the objective.
    """

    criterion: str
    objective: float = math.nan
    recentered_objective: float = math.nan
    lower_bound: float = math.nan
    constraint_violation: float = 0.0
    scale: float = math.nan
    refit_may_help: bool | None = None
    no_bound_reason: str | None = None
    is_restricted: bool = False

    @property
    def gap(self) -> float:
        """By how much a refit may be better at most; zero where the bound is above the objective.

        That may be: a refit is about the mean of these rows, which suits some groups less.
        """
        # A gap that is not known stays so.
        return float(np.maximum(self.objective - self.lower_bound, 0.0))

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the size of the objective; 0 where both are zero."""
        if self.gap == 0:
            return 0.0
        return self.gap / self.scale if self.scale > 0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON; None where there is no figure."""
        own = {
            name: each
            for name, each in vars(self).items()
            if name not in ("scale", "is_restricted")
        }
        both = {"gap": self.gap, "relative_gap": self.relative_gap}
        return {
            name: None if isinstance(each, float) and not math.isfinite(each) else each
            for name, each in (own | both).items()
        }


def refit_bound(
    subspace: FairSubspace, moments: Moments, errors: FloatArray, material: float
) -> RefitBound | None:
    """What the proof of a model says of other rows; None of a model that carries none.

    Parameters
    ----------
    subspace : FairSubspace
    moments : GroupMoments, SparseMoments or WideMoments
        Of the rows, in the units of the features.
    errors : (k,) array
        Of the model, about its own centre.
    material : float
        The least change that matters, as a share of a group's variance.
    """
    certificate = subspace.certificate
    if certificate is None:
        return None
    for part in (certificate.criterion, certificate.restriction):
        if isinstance(part, UnresolvedObject):
            return RefitBound(certificate.problem_text, no_bound_reason=part.error().args[0])
    found = RefitBound(certificate.problem_text, is_restricted=certificate.restriction is not None)
    try:
        whole = (
            _refit_problems(subspace, moments, restricted=False)
            .reduction_at(subspace.dimension)
            .problem
        )
        found = _with_objective(found, subspace, moments, errors, whole)
        bound = _dual_bound(subspace, moments)
    except FairspanError as error:
        return replace(found, no_bound_reason=error.args[0])
    if isinstance(bound, str):
        return replace(found, no_bound_reason=bound)
    found = replace(found, lower_bound=bound)
    min_variances = np.full(whole.n_groups, whole.second_moments.traces.min())
    matters = material * whole.criterion.largest_scaled_error(min_variances, whole)
    return replace(found, refit_may_help=max(found.gap, found.constraint_violation) > matters)


def error_drift(
    subspace: FairSubspace,
    moments: Moments,
    errors: FloatArray,
    standard_errors: FloatArray,
    freedom: IntegerArray | int,
    level: float,
) -> list[Estimate]:
    """By how much each group's error is larger than it was at the fit, for all groups at once.

    The rows of the fit are not there any more. Errors are taken to have varied among them as they
    do among these, so the variance of the change is that of the error here, (1 + n / n_fit) times.

    Parameters
    ----------
    subspace, moments, errors
        As of :func:`refit_bound`.
    standard_errors : (k,) array
        Of the errors; NaN where they are not known.
    freedom : (k,) array, or int
        Degrees of freedom of these.
    level : float
    """
    certificate = subspace.certificate
    if certificate is None:
        return [UNKNOWN] * moments.n_groups
    training_errors = dict(
        zip(
            certificate.groups,
            zip(certificate.errors, certificate.counts, strict=True),
            strict=True,
        )
    )
    found, k = [], moments.n_groups
    df_by_group = np.broadcast_to(freedom, (k,))
    for i, label in enumerate(moments.labels):
        training_error, n_fit = training_errors.get(label, (math.nan, 0))
        change = float(errors[i] - training_error)
        standard_error, n = float(standard_errors[i]), int(moments.counts[i])
        if n_fit > 0 and n > 0 and standard_error >= 0 and df_by_group[i] > 0:
            standard_error *= math.sqrt(1 + n / n_fit)
            found.append(
                Estimate.from_standard_error(
                    change, standard_error, float(df_by_group[i]), k, level
                )
            )
        else:
            found.append(Estimate(change))
    return found


def _refit_problems(
    subspace: FairSubspace, moments: Moments, *, restricted: bool = True
) -> ProblemFamily:
    """The problems that a refit would solve."""
    certificate = subspace.require_certificate()
    return build_problem_family(
        moments,
        subspace.dimension,
        certificate.criterion,
        restriction=certificate.restriction if restricted else None,
        center=cast(Center, subspace.center),
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
    """With what the model reaches."""
    criterion, recentred = unrestricted.criterion, errors
    if subspace.center == "global":
        second, projector = replace(subspace, mean=moments.mean).second_moments_and_projector(
            moments
        )
        recentred = reconstruction_errors(projector, second)
    return replace(
        result,
        objective=criterion.value(errors, unrestricted),
        recentered_objective=criterion.value(recentred, unrestricted),
        constraint_violation=max(criterion.constraint_violation(errors), 0.0),
        scale=criterion.scale(errors, unrestricted),
    )


def _dual_bound(subspace: FairSubspace, moments: Moments) -> float | str:
    """What no refit reaches less than; or in words why that is not known.

    Weights alone prove the best of three bounds: theirs, that of equal weights, and that of the
    mean of both. Where the groups changed much, equal weights may be the better ones.
    """
    certificate = subspace.require_certificate()
    proof = certificate.proof
    if proof is None:
        return "the model carries no proof"
    # Other proofs hold matrices in the coordinates of the features.
    working_moments = moments if type(proof) is Proof else moments.to_dense()
    reduction = _refit_problems(subspace, working_moments).reduction_at(subspace.dimension)
    problem, criterion = reduction.problem, reduction.problem.criterion
    labels = tuple(problem.group_labels)
    if not problem.has_matrices:
        return "the rows stay sparse"
    if type(proof) is Proof:
        weight_by_group = dict(zip(certificate.groups, proof.weights.tolist(), strict=True))
        weights = np.array([weight_by_group.get(label, 0.0) for label in labels])
        weights /= np.abs(weights).sum() or 1.0
        candidate_weights = [
            weights + part * (1 / len(labels) - weights) for part in (0.0, 0.5, 1.0)
        ]
        # Of a linear criterion they are the same.
        dual_weights = np.unique(
            [criterion.dual_feasible_weights(each, problem) for each in candidate_weights], axis=0
        )
        proofs = [Proof(each) for each in dual_weights]
    else:
        proofs = [proof if reduction.axes is None else proof.change_coordinates(reduction.axes.T)]
        if labels != tuple(certificate.groups) or not proofs[0].applies_to(problem):
            return "the proof of the model is one of other groups or limits than these rows have"
    basis = problem.pooled_optimum.vectors
    errors = problem.errors(basis)
    bounds = [
        each.lower_bound(problem, basis, errors)[0] + problem.objective_offset for each in proofs
    ]
    least = 0.0 if criterion.is_nonnegative else -math.inf
    best = max([least, *(each for each in bounds if not math.isnan(each))])
    return best if math.isfinite(best) else "the proof says nothing of these rows"
