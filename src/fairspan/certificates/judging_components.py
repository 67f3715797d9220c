"""Objective of components, and whether a restriction allows them, computed without a solver.

Of nested components each step is computed again as well.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fairspan.certificates.claims import of_figures
from fairspan.certificates.optimality import judged
from fairspan.certificates.proof import Proof
from fairspan.certificates.solution import Judged
from fairspan.problem.nesting import left_beside
from fairspan.problem.oblique import Encoding
from fairspan.problem.posed import Posed, Restricted
from fairspan.projector import Projector
from fairspan.provenance import Provenance
from fairspan.typing import FloatArray

# Components lie in the directions that a restriction leaves up to this rounding.
_INSIDE_OF = 1e-10
# The best encoder of a decoder loses what it should, up to this share and to rounding.
_LOST, _ROUNDED = 1e-9, 1e-13
# Means of rows that were read in other blocks differ by a few roundings.
_ROUNDINGS = 8
# Columns of a basis shorter than this lie outside of the rows' coordinates.
_INSIDE = 1e-6


class Fails(Exception):
    """What does not hold, in a sentence; never raised to users."""


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
        frame = posed.coordinates.frame
        projector = projector.with_columns(frame.reduced(projector.columns))
        basis = _inside(frame.reduced(basis))
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
    errors = projector.errors(restricted.full.second_moments)
    best = restricted.problem.value(projector.basis) + restricted.shift
    lost = float(restricted.full.proportions @ errors) - best
    if not lost <= _LOST * best + restricted.full.total_variance * _ROUNDED:
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
        found = found.shifted(left.shift)
        claimed = replace(
            made,
            objective=step.own.objective,
            lower_bound=step.own.lower_bound,
            status=step.own.status,
        )
        for message in of_figures(found, claimed, has_bound=True):
            yield f"Component {index + 1}, beside those before it: {message}"
