"""A fit: solutions in the coordinates of a solver become a subspace in those of the features."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fairspan.certificates.claims import evidence_of, stored_settings
from fairspan.certificates.solution import Solution, Status
from fairspan.linalg import with_positive_signs
from fairspan.moments.center import Center
from fairspan.moments.held_rows.frame import InCoordinates
from fairspan.moments.of_rows import Moments
from fairspan.problem.criteria import Criterion
from fairspan.problem.posed import Posed
from fairspan.problem.posing import largest_column, pose
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions import Restriction
from fairspan.provenance import Claim, NestedStep, Provenance
from fairspan.registry import names_of
from fairspan.solvers.choose import Solved
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray
from fairspan.version import __version__


@dataclass(frozen=True, eq=False)
class Fit:
    """A solved problem: the subspace, its certificate, and each group's figures.

    Attributes
    ----------
    problem : Problem
        Without the restriction, if there is one; in coordinates, if it was solved in such.
    solution : Solution
    subspace : FairSubspace
    errors, losses : (k,) arrays
        e_g and l_g of each group, in squared (scaled) units of the features.
    component_variances : (k, r) array
        Variance of each group that each component keeps.
    coordinates : InCoordinates or None
        Those of the problem, where it was not solved in the features.
    """

    problem: Problem
    solution: Solution
    subspace: FairSubspace
    errors: FloatArray
    losses: FloatArray
    component_variances: FloatArray
    coordinates: InCoordinates | None = None

    def in_features(self, basis: FloatArray) -> FloatArray:
        """A basis of the problem as columns of the features, (p, r)."""
        if self.coordinates is None:
            return basis
        return self.coordinates.in_features(basis, self.problem.n_components)


@dataclass(frozen=True, eq=False)
class Settings:
    """What the moments must have."""

    criterion: Criterion
    restriction: Restriction | None
    center: Center
    divisor: FloatArray | None
    allow_extra: bool
    tol: float
    nested: bool

    def posed(self, moments: Moments, n_components: int | float) -> Posed:
        """The problem."""
        return pose(
            moments,
            n_components,
            self.criterion,
            restriction=self.restriction,
            center=self.center,
            divisor=self.divisor,
            allow_extra=self.allow_extra,
            nested=self.nested,
        )


def fit_of(
    solved: Solved,
    moments: Moments,
    settings: Settings,
    coordinates: InCoordinates | None,
    before: Sequence[Solved] = (),
) -> Fit:
    """The fit of an answer; of nested components, after those of fewer dimensions."""
    problem, solution = solved.problem, solved.solution
    errors, losses = _errors_and_losses(solved)
    variances = solved.projector.kept_by_component(problem.second_moments)
    reasons = partial(_with_reason, problem, moments=moments, settings=settings)
    solution = reasons(replace(solution, steps=tuple(map(reasons, solution.steps))))
    steps = [_step_of(replace(each, solution=reasons(each.solution))) for each in before]
    if settings.nested:
        steps.append(_step_of(replace(solved, solution=solution)))
    if coordinates is not None:
        columns = coordinates.in_features(solution.components.T, problem.n_components)
        components = np.ascontiguousarray(columns.T)
        rows = zip(solution.steps, components[:, None], strict=False)
        inside = tuple(replace(step, components=row, eigen="thin") for step, row in rows)
        solution = replace(solution, components=components, eigen="thin", steps=inside)
        variances = np.pad(variances, ((0, 0), (0, len(components) - variances.shape[1])))
    encoder, decoder = solution.components, None
    if solved.encoder is not None:
        encoder, decoder = _oblique(solved.encoder, solved.solution, solution, coordinates)
        solution = replace(solution, components=np.ascontiguousarray(decoder.T))
    center, hide = settings.center, settings.restriction
    mean = np.zeros(moments.n_features) if center == "none" else moments.mean
    provenance = Provenance(
        criterion=problem.criterion.name,
        solver=solution.solver,
        status=str(solution.status),
        groups=tuple(moments.labels),
        counts=tuple(moments.counts.tolist()),
        errors=tuple(errors.tolist()),
        losses=tuple(losses.tolist()),
        objective=solution.objective,
        lower_bound=solution.lower_bound,
        total_variance=problem.total_variance,
        version=__version__,
        restriction=None if hide is None else repr(hide),
        tol=settings.tol,
        resolution=solution.resolution,
        settings=stored_settings(settings.criterion, hide),
        reason=solution.reason,
        steps=tuple(steps),
        parts=_of_others(settings),
    )
    subspace = FairSubspace(
        encoder,
        mean,
        settings.divisor,
        center,
        moments.feature_names,
        provenance,
        evidence_of(solution.proof),
        decoder,
    )
    return Fit(problem, solution, subspace, errors, losses, np.array(variances), coordinates)


def _of_others(settings: Settings) -> tuple[Any, ...]:
    """Criterion and restriction of other packages."""
    parts = ("criterion", settings.criterion), ("restriction", settings.restriction)
    return tuple(
        part for kind, part in parts if part is not None and part.name not in names_of(kind)
    )


def _errors_and_losses(solved: Solved) -> tuple[FloatArray, FloatArray]:
    errors = solved.projector.errors(solved.problem.second_moments)
    return errors, np.maximum(errors - solved.problem.best_errors, 0.0)


def _step_of(solved: Solved) -> NestedStep:
    """The last of nested components, and all of them."""
    errors, losses = _errors_and_losses(solved)
    together = solved.solution
    return NestedStep(
        _claim_of(together.steps[-1]),
        _claim_of(together),
        tuple(errors.tolist()),
        tuple(losses.tolist()),
    )


def _claim_of(solution: Solution) -> Claim:
    return Claim(
        solution.objective,
        solution.lower_bound,
        solution.resolution,
        str(solution.status),
        tuple(solution.weights.tolist()),
        solution.reason,
    )


def _oblique(
    encoder: FloatArray, solved: Solution, solution: Solution, coordinates: InCoordinates | None
) -> tuple[FloatArray, FloatArray]:
    """Encoder and decoder in the features, the largest loading of each component positive.

    Parameters
    ----------
    encoder : (d, m) array
    solved, solution : Solution
        As it was solved, with the decoder's columns in the same coordinates as the encoder; and
        with those in the features.
    coordinates : InCoordinates or None
    """
    columns, decoder = encoder.T, solution.components.T
    if coordinates is not None:
        both = coordinates.frame.spread_out(np.hstack([solved.components.T, columns]))
        turned, columns = np.hsplit(both, 2)
        columns = columns * np.sign(np.einsum("ij,ij->j", turned, decoder))
    signed = with_positive_signs(columns)
    return np.ascontiguousarray(signed.T), decoder * np.sign(np.einsum("ij,ij->j", signed, columns))


def _with_reason(
    problem: Problem, solution: Solution, moments: Moments, settings: Settings
) -> Solution:
    """With the reason of an unresolved gap: a column of large numbers, or a tiny objective."""
    if solution.status is not Status.UNRESOLVED:
        return solution
    column = None if settings.divisor is not None else largest_column(moments, settings.center)
    if column is not None:
        return replace(solution, reason=column)
    if getattr(problem.criterion, "is_logarithmic", False):
        reason = "a group keeps so little of its variance that the logarithm is uncertain"
        return replace(solution, reason=reason)
    variance = float((problem.second_moments.traces / problem.divisors).max())
    share = max(solution.scale, solution.resolution) / variance
    return replace(solution, reason=f"the objective is no more than {share:.0e} of the variance")
