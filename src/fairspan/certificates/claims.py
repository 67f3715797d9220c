"""What a model claims of itself, compared with what its components and the moments give."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fairspan.certificates.optimality import judged
from fairspan.certificates.proof import Proof
from fairspan.certificates.solution import Judged, Status
from fairspan.model.subspace import FairSubspace
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import errors_under
from fairspan.problem.nesting import left_beside
from fairspan.problem.parity import Encoding
from fairspan.problem.posing import Posed, Restricted
from fairspan.projector import Projector
from fairspan.provenance import Provenance
from fairspan.typing import FloatArray

# Products of components are one or zero up to this, and dimensions whole numbers.
_ORTHONORMAL, _WHOLE = 1e-10, 1e-6
# The best encoder of a decoder loses what it should, up to this share and to rounding.
_LOST, _LOST_ROUNDED = 1e-9, 1e-13

# Figures that were worked out twice agree to this share, beside what rounding does to them.
_SAME = 1e-9
# Under a restriction the objective may be larger than what was chosen by far, and is rounded.
_ROUNDED = 1e-14
# In other coordinates rounding, and with it a gap, may be a few times as large.
_FEW = 4.0
# Components lie in the directions that a restriction leaves up to this rounding.
_INSIDE_OF = 1e-10
# Means of rows that were read in other blocks differ by a few roundings.
_ROUNDINGS = 8
# Columns of a basis shorter than this lie outside of the rows' coordinates.
_INSIDE = 1e-6


class Fails(Exception):
    """What does not hold, in a sentence; never raised to users."""


def of_estimator(model: Any, subspace: FairSubspace, made: Provenance) -> Iterator[str]:
    """What an estimator's attributes say, which anybody may have changed."""
    if model is subspace:
        return
    for name in ("components", "mean", "scale"):
        # Two that are None are equal, and None differs from any array.
        given: Any = getattr(model, f"{name}_", None)
        if not np.array_equal(given, getattr(subspace, name)):
            yield f"{name}_ of the estimator differs from what was fitted (subspace_)."
    solution = getattr(model, "solution_", None)
    for name in ("objective", "lower_bound", "status"):
        if solution is not None and getattr(solution, name) != getattr(made, name):
            yield f"solution_.{name} of the estimator differs from what was fitted (subspace_)."
    steps = getattr(solution, "steps", ())
    if len(steps) != len(made.steps) or any(
        getattr(step, name) != getattr(said.own, name)
        for step, said in zip(steps, made.steps, strict=False)
        for name in ("objective", "lower_bound", "status")
    ):
        yield "solution_.steps of the estimator differ from what was fitted (subspace_)."
    for name in ("errors", "losses"):
        attribute = getattr(model, f"group_{name}_", None)
        if attribute is not None and not np.array_equal(attribute, getattr(made, name)):
            yield f"group_{name}_ of the estimator differs from what was fitted (subspace_)."


def of_components(subspace: FairSubspace) -> Iterator[str]:
    """Whether they span a subspace, or are a soft projection; of an oblique one, the decoder."""
    projector = subspace.projector
    rows = projector.decoder.T
    gram = rows @ rows.T
    lengths = np.diag(gram)
    off = float(np.abs(gram - np.diag(lengths)).max(initial=0.0))
    if off > _ORTHONORMAL:
        yield f"The components are not at right angles: their products reach {off:.1e}."
    if subspace.is_oblique:
        apart = float(np.abs(projector.encoder @ projector.decoder - np.eye(len(rows))).max())
        size = float((np.abs(projector.encoder) @ np.abs(projector.decoder)).max())
        if not apart <= _ORTHONORMAL * size:
            yield f"The encoder does not undo the decoder: they differ by {apart:.1e}."
    if not subspace.is_soft:
        if float(np.abs(lengths - 1).max()) > _ORTHONORMAL:
            yield "The components are not of length one."
        return
    # Squared lengths lambda_j of a soft projection retain shares 1 - (1 - lambda_j)^2.
    dimension = float((lengths * (2 - lengths)).sum())
    if lengths.max() > 1 + _ORTHONORMAL or abs(dimension - round(dimension)) > _WHOLE:
        yield "The components are no soft projection of a whole number of dimensions."


def of_data(subspace: FairSubspace, moments: Moments, made: Provenance) -> Iterator[str]:
    """Whether the model was fitted on as many rows, and with their mean and scale."""
    if tuple(moments.counts.tolist()) != tuple(made.counts):
        yield "The groups have other numbers of rows than those that the model was fitted on."
    deviations, own, scale = moments.standard_deviations, subspace.mean, subspace.scale
    mean = np.zeros(len(deviations)) if subspace.center == "none" else moments.mean
    if own is None or (np.abs(mean - own) > _SAME * (np.abs(mean) + deviations)).any():
        yield "The mean of the model is not that of the data."
    units = np.where(deviations == 0, 1.0, deviations)
    if scale is not None and (np.abs(scale - units) > _SAME * units).any():
        yield "The scale of the model is not that of the data."


def of_variances(
    found: Judged, made: Provenance, total: float, best_errors: FloatArray | None
) -> Iterator[str]:
    """Errors, losses and total variance of a model; losses only if the groups' best are known."""
    unsure = _FEW * found.roundings + _SAME * found.errors.max(initial=0.0)
    errors, losses = np.array(made.errors), np.array(made.losses)
    if errors.shape != found.errors.shape or not (np.abs(errors - found.errors) <= unsure).all():
        yield "The errors of the groups are not those that the model says."
    if not abs(made.total_variance - total) <= _SAME * total:
        yield f"The total variance is {total:.9g}, and not {made.total_variance:.9g}."
    if best_errors is None:
        return
    # Of what each group loses beyond its own best, both parts are rounded.
    expected = np.maximum(found.errors - best_errors, 0.0)
    if losses.shape != expected.shape or not (np.abs(losses - expected) <= 2 * unsure).all():
        yield "The excess losses of the groups are not those that the model says."


def of_figures(found: Judged, made: Provenance, *, has_bound: bool) -> Iterator[str]:
    """Objective, bound and status of a model.

    What the model says of its own resolution proves nothing, so only what was found counts.
    """
    if not 0 <= made.tol < 1:
        yield f"The model's tol is {made.tol!r}; allowed: a share from 0 to 1."
    rounded = _SAME * abs(found.scale) + _ROUNDED * abs(found.objective)
    if not abs(found.objective - made.objective) <= _FEW * found.rounding + rounded:
        yield (
            f"The objective is {found.objective:.9g}, and not {made.objective:.9g} as the model "
            "says."
        )
    if math.isnan(made.lower_bound) or made.lower_bound == math.inf:
        yield f"The model's lower bound is {made.lower_bound!r}."
    if not has_bound:
        if made.status in (Status.OPTIMAL, Status.UNRESOLVED):
            yield f"The model is called {made.status}, but its lower bound cannot be checked."
        return
    unsure_bound = _FEW * found.resolution + rounded
    if np.isfinite(made.lower_bound) and not found.lower_bound >= made.lower_bound - unsure_bound:
        yield (
            f"The proof gives the lower bound {found.lower_bound:.9g}, and not "
            f"{made.lower_bound:.9g} as the model says."
        )
    if found.gap < -found.resolution:
        yield f"The lower bound lies above the objective by {-found.gap:.1e}."
    if not _is_as_good(found, made):
        yield (
            f"The model is called {made.status}, but the computed status is {found.status}: "
            f"the gap is {found.gap:.1e}."
        )


def _is_as_good(found: Judged, made: Provenance) -> bool:
    """Whether the status is at least nearly that which the model says."""
    if made.status not in (Status.OPTIMAL, Status.UNRESOLVED) or found.status == Status.OPTIMAL:
        return True
    if made.status == Status.UNRESOLVED:
        return found.worst <= _FEW * found.resolution
    known = (
        found.resolution <= _FEW * math.sqrt(made.tol) * found.scale
        or found.scale <= _FEW * _FEW * found.resolution
    )
    structural = known and found.resolution <= _FEW * made.tol * found.size
    return found.worst <= _FEW * max(
        made.tol * found.scale, found.resolution if structural else 0.0
    )


def judged_components(
    projector: Projector, posed: Posed, restricted: Restricted, proof: Proof | None, tol: float
) -> tuple[Judged, str | None]:
    """Value and bound; and what could not be checked, if anything.

    Parameters
    ----------
    projector : Projector
        In all features.
    posed : Posed
    restricted : Restricted
        The same for the number of components that the model has.
    proof : Proof or None
    tol : float
        A share of the objective.

    Raises
    ------
    Fails
        The components are not what the restriction allows, or the proof is of another problem.
    """
    basis = projector.basis
    if posed.coordinates is not None:
        within = posed.coordinates
        projector = projector.with_columns(within.reduce(projector.columns))
        basis = _inside(within.reduce(basis))
    errors = restricted.full.errors(basis)
    if restricted.encoding is not None:
        basis = projector.basis
        errors = _moved(restricted, restricted.encoding, projector)
    basis = _within(restricted, basis)
    if proof is None or not restricted.problem.has_matrices:
        why = "the model carries no proof" if proof is None else "the rows stay sparse"
        weights = restricted.problem.proportions if proof is None else proof.weights
        found = judged(restricted.problem, basis, Proof(weights), tol, -np.inf)
        found = found.shifted(restricted.shift)._replace(errors=errors)
        return found, f"The lower bound was not checked: {why}."
    if restricted.directions is not None:
        proof = proof.within(restricted.directions)
    if not proof.fits(restricted.problem):
        raise Fails("The model carries a proof of another kind of problem.")
    found = judged(restricted.problem, basis, proof, tol)
    return found.shifted(restricted.shift)._replace(errors=errors), None


def _inside(basis: FloatArray) -> FloatArray:
    """The columns of a basis in coordinates that hold all rows, without those outside of them."""
    left, lengths, _ = np.linalg.svd(basis, full_matrices=False)
    kept = lengths > _INSIDE
    # Beside a column of large numbers, coordinates are orthonormal to a few digits less.
    lengths = np.where(lengths > 1 - _INSIDE, 1.0, lengths)
    return np.asarray(left[:, kept] * lengths[kept])


def _moved(restricted: Restricted, encoding: Encoding, projector: Projector) -> FloatArray:
    """Errors of each group under an oblique projection, (k,), if it is the best of its decoder."""
    # The means of the groups themselves are rounded.
    rounded = np.abs(projector.encoder) @ restricted.full.dense.offset_rounding
    apart = np.abs(projector.encoder @ encoding.forbidden)
    allowed = np.abs(projector.encoder) @ np.abs(encoding.forbidden) * _INSIDE_OF
    if not (apart <= allowed + _ROUNDINGS * rounded[:, None]).all():
        share = float((apart / allowed).max() * _INSIDE_OF)
        raise Fails(f"The encoder does not hide the groups' means: {share:.1e} of them is left.")
    errors = errors_under(projector, restricted.full.second_moments)
    best = restricted.problem.value(projector.basis) + restricted.shift
    lost = float(restricted.full.proportions @ errors) - best
    if not lost <= _LOST * best + restricted.full.total_variance * _LOST_ROUNDED:
        raise Fails(f"The encoder loses {lost:.1e} more than the best one of its decoder.")
    return errors


def _within(restricted: Restricted, basis: FloatArray) -> FloatArray:
    """A basis in the coordinates of the directions that a restriction leaves."""
    directions, inside = restricted.directions, basis
    if directions is not None:
        inside = directions.T @ basis
        outside = float(np.abs(basis - directions @ inside).max())
    elif restricted.forbidden is not None:
        outside = float(np.abs(restricted.forbidden.T @ basis).max(initial=0.0))
    else:
        return basis
    if outside > _INSIDE_OF:
        raise Fails(
            f"The components leave the directions that the restriction allows by {outside:.1e}."
        )
    return np.asarray(inside)


def of_steps(posed: Posed, basis: FloatArray, made: Provenance) -> Iterator[str]:
    """Objective, bound and status of each step.

    Parameters
    ----------
    posed : Posed
    basis : (p, d) array
        The components, in the coordinates of the problem.
    made : Provenance
    """
    single = posed.at(1)
    for index, step in enumerate(made.steps):
        left = left_beside(single, basis[:, :index])
        column = basis[:, [index]]
        if left.directions is not None:
            column = left.directions.T @ column
        found = judged(left.problem, column, Proof(np.array(step.own.weights)), made.tol)
        claimed = replace(
            made,
            objective=step.own.objective,
            lower_bound=step.own.lower_bound,
            status=step.own.status,
        )
        for message in of_figures(found.shifted(left.shift), claimed, has_bound=True):
            yield f"Component {index + 1}, beside those before it: {message}"
