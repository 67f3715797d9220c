"""What a certificate claims, computed again from second moments and compared field by field.

No solver takes part: components and proof are evaluated by the routine that a fit ends with
(:func:`fairspan.certificates.optimality.evaluate`), on a problem that is made from the
moments.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fairspan.certificates.certificate import Certificate, Status
from fairspan.certificates.optimality import errors_with_roundings, evaluate
from fairspan.certificates.proofs import Proof
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import Projector, errors_under
from fairspan.moments.sparse import SparseSecondMoments
from fairspan.problem.reduction import ProblemFamily, Reduction, left_beside
from fairspan.rows.groups import listed
from fairspan.typing import AnyArray, FloatArray

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
# What is room for rounding is of the same size up to this factor, in any coordinates.
_SIMILAR = 100.0
# Components lie in the directions that a restriction leaves up to this rounding.
_INSIDE_OF = 1e-10
# Means of rows that were read in other blocks differ by a few roundings.
_ROUNDINGS = 8
# Columns of a basis shorter than this lie outside of the rows' coordinates.
_INSIDE = 1e-6
# What a certificate shares with those of its steps and prefixes.
_SHARED = ("criterion", "tol", "center", "restriction", "groups", "counts")
# What a step shares with the components up to it.
_OF_ROWS = ("errors", "losses", "total_variance")


class Fails(Exception):
    """What does not hold, in a sentence; never raised to users."""


def of_components(projector: Projector, *, is_soft: bool) -> Iterator[str]:
    """Whether they span a subspace, or are a soft projection; of an oblique one, the decoder."""
    rows = projector.decoder.T
    gram = rows @ rows.T
    lengths = np.diag(gram)
    off = float(np.abs(gram - np.diag(lengths)).max(initial=0.0))
    if off > _ORTHONORMAL:
        yield f"The components are not at right angles: their products reach {off:.1e}."
    if projector.oblique_decoder is not None:
        apart = float(np.abs(projector.encoder @ projector.decoder - np.eye(len(rows))).max())
        size = float((np.abs(projector.encoder) @ np.abs(projector.decoder)).max())
        if not apart <= _ORTHONORMAL * size:
            yield f"The encoder does not undo the decoder: they differ by {apart:.1e}."
    if not is_soft:
        if float(np.abs(lengths - 1).max()) > _ORTHONORMAL:
            yield "The components are not of length one."
        return
    # Squared lengths lambda_j of a soft projection retain shares 1 - (1 - lambda_j)^2.
    dimension = float((lengths * (2 - lengths)).sum())
    if lengths.max() > 1 + _ORTHONORMAL or abs(dimension - round(dimension)) > _WHOLE:
        yield "The components are no soft projection of a whole number of dimensions."


def of_data(
    claimed: Certificate, mean: FloatArray | None, scale: FloatArray | None, moments: Moments
) -> Iterator[str]:
    """Whether the model was fitted on as many rows, and with their mean and scale."""
    if tuple(moments.counts.tolist()) != tuple(claimed.counts):
        yield "The groups have other numbers of rows than those that the model was fitted on."
    deviations = moments.standard_deviations
    own = np.zeros(len(deviations)) if claimed.center == "none" else moments.mean
    if mean is None or (np.abs(own - mean) > _SAME * (np.abs(own) + deviations)).any():
        yield "The mean of the model is not that of the data."
    units = np.where(deviations == 0, 1.0, deviations)
    if scale is not None and (np.abs(scale - units) > _SAME * units).any():
        yield "The scale of the model is not that of the data."


@dataclass(frozen=True, eq=False)
class Recomputed:
    """A certificate computed again.

    Attributes
    ----------
    found : Certificate
    lenient : Certificate
        The same, where a gap may be a few times the tolerance or the resolution.
    roundings : (k,) array
        By how much each group's error may be off.
    has_bound : bool
        Whether the bound was computed.
    """

    found: Certificate
    lenient: Certificate
    roundings: FloatArray
    has_bound: bool

    @classmethod
    def of(
        cls, reduction: Reduction, basis: FloatArray, proof: Proof | None, tol: float
    ) -> "Recomputed":
        """Evaluate a basis and a proof in the coordinates of a reduction.

        Raises
        ------
        Fails
            The proof is one of another problem.
        """
        problem = reduction.problem
        has_bound = proof is not None and problem.has_matrices
        weights = Proof(problem.proportions if proof is None else proof.weights)
        bound = None if has_bound else -np.inf
        used = proof if proof is not None and has_bound else weights
        if reduction.axes is not None:
            used = used.within(reduction.axes)
        if has_bound and not used.fits(problem):
            raise Fails("The model carries a proof of another kind of problem.")
        found, lenient = (
            evaluate(problem, basis, used, tol=tol, lower_bound=bound, room=room)
            for room in (1.0, _FEW)
        )
        offset = problem.offset
        roundings = errors_with_roundings(problem, basis)[1]
        return cls(found.plus(offset), lenient.plus(offset), roundings, has_bound)


def recompute(
    projector: Projector, family: ProblemFamily, reduction: Reduction, claimed: Certificate
) -> Recomputed:
    """Value, bound and errors of a model's components.

    Raises
    ------
    Fails
        The components are not what the restriction allows, or the proof is of another problem.
    """
    basis, proof = projector.basis, claimed.proof
    if family.coordinates is not None:
        projector = projector.with_columns(family.coordinates.reduce(projector.columns))
        basis = _inside(family.coordinates.reduce(basis))
    whole = reduction.problem.whole
    if reduction.encoding is not None:
        basis = projector.basis
        errors = _oblique_errors(reduction, projector)
    else:
        errors = whole.second_moments.residual_variances(basis)
    computed = Recomputed.of(reduction, _within(reduction, basis), proof, claimed.tol)
    return replace(computed, found=replace(computed.found, errors=errors))


def _inside(basis: FloatArray) -> FloatArray:
    """The columns of a basis in coordinates that hold all rows, without those outside of them."""
    left, lengths, _ = np.linalg.svd(basis, full_matrices=False)
    kept = lengths > _INSIDE
    # Beside a column of large numbers, coordinates are orthonormal to a few digits less.
    lengths = np.where(lengths > 1 - _INSIDE, 1.0, lengths)
    return np.asarray(left[:, kept] * lengths[kept])


def _oblique_errors(reduction: Reduction, projector: Projector) -> FloatArray:
    """Errors of each group under an oblique projection, (k,), if it is the best of its decoder."""
    encoding, whole = reduction.encoding, reduction.problem.whole
    assert encoding is not None
    # The means of the groups themselves are rounded.
    rounded = np.abs(projector.encoder) @ whole.dense.offset_rounding
    apart = np.abs(projector.encoder @ encoding.forbidden)
    allowed = np.abs(projector.encoder) @ np.abs(encoding.forbidden) * _INSIDE_OF
    if not (apart <= allowed + _ROUNDINGS * rounded[:, None]).all():
        share = float((apart / allowed).max() * _INSIDE_OF)
        raise Fails(f"The encoder does not hide the groups' means: {share:.1e} of them is left.")
    errors = errors_under(projector, whole.second_moments)
    best = reduction.problem.value(projector.basis) + reduction.problem.offset
    lost = float(whole.proportions @ errors) - best
    if not lost <= _LOST * best + whole.total_variance * _LOST_ROUNDED:
        raise Fails(f"The encoder loses {lost:.1e} more than the best one of its decoder.")
    return errors


def _within(reduction: Reduction, basis: FloatArray) -> FloatArray:
    """A basis in the coordinates of the directions that a restriction leaves."""
    axes, second, inside = reduction.axes, reduction.problem.second_moments, basis
    if axes is not None:
        inside = axes.T @ basis
        outside = float(np.abs(basis - axes @ inside).max())
    elif isinstance(second, SparseSecondMoments):
        outside = float(np.abs(second.forbidden.T @ basis).max(initial=0.0))
    else:
        return basis
    if outside > _INSIDE_OF:
        raise Fails(
            f"The components leave the directions that the restriction allows by {outside:.1e}."
        )
    return np.asarray(inside)


def of_figures(
    computed: Recomputed,
    claimed: Certificate,
    reduction: Reduction | None = None,
    *,
    by_rows: bool = False,
) -> Iterator[str]:
    """Every figure of a certificate, and its status.

    What the model says of its own resolution proves nothing, so only what was found counts.

    Parameters
    ----------
    computed : Recomputed
    claimed : Certificate
    reduction : Reduction, optional
        Of the components in all directions, whose errors, losses and total variance are compared
        too; losses only where the groups' best errors are known.
    by_rows : bool
        Whether the model was fitted on sparse rows without matrices: what rounding did is then of
        another size, and prefixes of nested components have no bound.
    """
    found = computed.found
    if not 0 <= claimed.tol < 1:
        yield f"The model's tol is {claimed.tol!r}; allowed: a share from 0 to 1."
    rounded = _SAME * abs(found.scale) + _ROUNDED * abs(found.objective)
    unsure = _FEW * found.resolution + rounded
    allowed: dict[str, FloatArray | float] = dict.fromkeys(
        ("objective", "scale", "violation"), unsure
    )
    if reduction is not None:
        of_errors = _FEW * computed.roundings + _SAME * found.errors.max(initial=0.0)
        allowed |= {"errors": of_errors, "total_variance": _SAME * found.total_variance}
        if reduction.problem.whole.has_matrices:
            # Of what each group loses beyond its own best, both parts are rounded.
            allowed["losses"] = 2 * of_errors
            losses = np.maximum(found.errors - reduction.problem.whole.best_errors, 0.0)
            found = replace(found, losses=losses)
    for name, most in {"n_components": 0.0, **allowed}.items():
        own, theirs = np.asarray(getattr(found, name)), np.asarray(getattr(claimed, name))
        if own.shape != theirs.shape or not (np.abs(own - theirs) <= most).all():
            yield (
                f"The {name.replace('_', ' ')} is {_short(own)}, and not {_short(theirs)} as the "
                "model says."
            )
    for name in () if by_rows else ("resolution", "tolerance"):
        own, theirs = getattr(found, name), getattr(claimed, name)
        if not theirs <= _SIMILAR * own or not own <= _SIMILAR * theirs:
            yield f"The {name} is {own:.1e}, and not {theirs:.1e} as the model says."
    if claimed.theorem_3_2 != found.theorem_3_2:
        yield "Whether Theorem 3.2 of Vu et al. (2022) holds is not what the model says."
    yield from _of_status(computed, claimed)
    if claimed.proof is None and claimed.lower_bound > -math.inf:
        yield "The model carries no proof of its lower bound."
    if math.isnan(claimed.lower_bound) or claimed.lower_bound == math.inf:
        yield f"The model's lower bound is {claimed.lower_bound!r}."
    if not computed.has_bound:
        return
    bound = found.lower_bound
    least = bound - unsure - claimed.tolerance
    if not (least <= claimed.lower_bound or (by_rows and claimed.lower_bound == -math.inf)) or (
        claimed.lower_bound > bound + unsure
    ):
        yield (
            f"The proof gives the lower bound {bound:.9g}, and not {claimed.lower_bound:.9g} as "
            "the model says."
        )
    if found.gap < -found.resolution:
        yield f"The lower bound lies above the objective by {-found.gap:.1e}."


def _short(value: AnyArray) -> str:
    return f"{value:.9g}" if value.ndim == 0 else np.array2string(value, precision=6, threshold=6)


def _of_status(computed: Recomputed, claimed: Certificate) -> Iterator[str]:
    """Whether the status is at least nearly that which the model says."""
    found, said = computed.found, Status(claimed.status)
    closed = (Status.OPTIMAL, Status.ESTIMATED)
    if not computed.has_bound:
        if said in (Status.OPTIMAL, Status.UNRESOLVED):
            yield f"The model is called {said}, but its lower bound cannot be checked."
        return
    worst = max(claimed.gap, claimed.violation)
    holds = said is Status.OPEN_GAP or computed.lenient.status is Status.OPTIMAL
    if said is Status.UNRESOLVED:
        holds = computed.lenient.status is not Status.OPEN_GAP
    if said is Status.ESTIMATED:  # which only iterations without matrices leave
        holds = holds and claimed.eigen == "matrix-free"
    if not holds:
        yield (
            f"The model is called {said}, but the computed status is {found.status}: "
            f"the gap is {found.gap:.1e}."
        )
    elif said not in closed and found.status is Status.OPTIMAL and _FEW * worst < claimed.tolerance:
        yield f"The model is called {said}, but its own gap of {worst:.1e} is closed."


def of_steps(family: ProblemFamily, basis: FloatArray, claimed: Certificate) -> Iterator[str]:
    """Objective, bound and status of each step.

    Parameters
    ----------
    family : ProblemFamily
    basis : (p, d) array
        The components, in the coordinates of the problem.
    claimed : Certificate
    """
    single = family.at(1)
    for index, step in enumerate(claimed.steps):
        left = left_beside(single, basis[:, :index])
        column = basis[:, [index]]
        if left.axes is not None:
            column = left.axes.T @ column
        computed = Recomputed.of(replace(left, axes=None), column, step.proof, claimed.tol)
        for message in of_figures(computed, step):
            yield f"Component {index + 1}, beside those before it: {message}"


def check_parts(claimed: Certificate) -> None:
    """Raise Fails where steps or prefixes of nested components are of another certificate."""
    rows, d = claimed.components, claimed.n_components
    own = [rows[[i]] for i in range(d)] + [rows[: i + 1] for i in range(d - 1)]
    parts = (*claimed.steps, *claimed.prefixes)
    if not parts:
        return
    if len(claimed.steps) != d or len(claimed.prefixes) != d - 1:
        raise Fails("The steps are not those of the components.")
    for part, components in zip(parts, own, strict=True):
        same = all(getattr(part, name) == getattr(claimed, name) for name in _SHARED)
        alone = not part.steps and not part.prefixes
        if not (same and alone and np.array_equal(part.components, components)):
            raise Fails("A step or prefix of nested components is of other components or settings.")
    for step, together in zip(claimed.steps, (*claimed.prefixes, claimed), strict=True):
        if not all(
            np.array_equal(getattr(step, name), getattr(together, name)) for name in _OF_ROWS
        ):
            raise Fails("A step says other errors, losses or variance than the components so far.")


def check_same_features(
    claimed: Certificate,
    n_features: int,
    names: tuple[str, ...] | None,
    moments: Moments,
) -> None:
    """Raise Fails where the data have other features or groups."""
    if n_features != moments.n_features:
        raise Fails(f"The model has {n_features} features, the data have {moments.n_features}.")
    known = moments.feature_names
    if names is not None and known is not None and names != known:
        raise Fails("The data have other features than the model, or in another order.")
    if tuple(moments.labels) != tuple(claimed.groups):
        raise Fails(
            f"The model was fitted on the groups {listed(list(claimed.groups))}, the data have "
            f"{listed(moments.labels)}."
        )
