"""What a model claims, computed again from second moments, without any solver.

Everything is recomputed from the components, the proof that the model carries, and the moments of
the rows: that the components are orthonormal, the errors, the objective, the lower bound and the
nested steps, with eigenvalues by LAPACK and room for rounding on the safe side.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from fairspan.certificates.optimality import judged
from fairspan.certificates.proof import Proof, proof_of, settings_of
from fairspan.certificates.solution import Judged, Status
from fairspan.errors import FairspanError, running_out_told
from fairspan.moments.group_means import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import Moments, moments_of
from fairspan.moments.operators import errors_under
from fairspan.problem.nesting import left_beside
from fairspan.problem.parity import Encoding
from fairspan.problem.posing import Posed, Restricted, pose
from fairspan.projector import Projector
from fairspan.provenance import Provenance
from fairspan.rows.groups import Label, listed
from fairspan.rows.labels import Everyone
from fairspan.rows.registry import rows_beside
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray

# Products of components are one or zero up to this, and dimensions whole numbers.
_ORTHONORMAL, _WHOLE = 1e-10, 1e-6
# Figures that were worked out twice agree to this share, beside what rounding does to them.
_SAME = 1e-9
# Under a restriction the objective may be larger than what was chosen by far, and is rounded.
_ROUNDED = 1e-14
# In other coordinates rounding, and with it a gap, may be a few times as large.
_FEW = 4.0
# Components lie in the directions that a restriction leaves up to this rounding.
_INSIDE_OF = 1e-10
# The best encoder of a decoder loses what it should, up to this share and to rounding.
_LOST, _LOST_ROUNDED = 1e-9, 1e-13
# Means of rows that were read in other blocks differ by a few roundings.
_ROUNDINGS = 8
# Columns of a basis shorter than this lie outside of the rows' coordinates.
_INSIDE = 1e-6


# Beyond so many numbers in the second moments they are not formed.
_MOST_NUMBERS = 3e8
# Up to so many features rows that are fewer are verified in the features themselves.
_MOST_FEATURES = 2500


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


@dataclass(frozen=True)
class Verification:
    """Result of checking a model's certificate with moments or rows.

    Attributes
    ----------
    holds : bool
        Whether everything that was checked agrees.
    objective : float
        The criterion at the model's components, computed again; NaN if it could not be.
    lower_bound : float
        What the model's proof proves, computed again; minus infinity if nothing.
    gap : float
        Their difference.
    messages : tuple of str
        One sentence for each check; failed checks come first.

    Examples
    --------
    >>> import numpy as np
    >>> import fairspan as fs
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> fair = fs.FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
    >>> checked = fs.verify(fair, X, ["a", "a", "b", "b"])
    >>> checked.holds, round(checked.objective, 3), checked.gap < 1e-9
    (True, 2.421, True)
    >>> fs.verify(fair, 2 * X, ["a", "a", "b", "b"]).holds
    False
    """

    holds: bool
    objective: float
    lower_bound: float
    gap: float
    messages: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        verdict = "The certificate holds." if self.holds else "The certificate does not hold."
        return "\n".join([verdict, *(f"- {message}" for message in self.messages)])


@running_out_told()
def verify(
    model: Any,
    moments_or_X: Any,
    sensitive_features: Any = None,
    *,
    sample_weight: Any = None,
    labels: Any = None,
) -> Verification:
    """Verify a model's certificate from moments or rows, without a solver.

    Parameters
    ----------
    model : FairPCA or FairSubspace
        A fitted one, or one that was loaded.
    moments_or_X : GroupMoments, or (n, p) table
        Of the rows that the model was fitted on; whatever `FairPCA.fit` takes.
    sensitive_features : (n,) or (n, a) array-like, or column name(s), optional
        Not needed with moments.
    sample_weight : (n,) array-like, or column name, optional
    labels : (n,) array-like, or column name, optional
        y, where the restriction holds in each of its classes.

    Returns
    -------
    Verification
        Other data than the model was fitted on, or a model that was changed, give ``holds=False``.

    Raises
    ------
    InvalidInput
        Rows without groups, or rows that are no table of finite numbers.
    """
    subspace = model if isinstance(model, FairSubspace) else getattr(model, "subspace_", None)
    if not isinstance(subspace, FairSubspace):
        return not_verified(
            f"The model is a {type(model).__name__} that carries no certificate: nothing can be "
            "verified."
        )
    moments = _moments_of(moments_or_X, sensitive_features, sample_weight, labels, subspace)
    checks = _Checks(model, subspace, moments)
    try:
        found = checks.run()
        # Where d dimensions hold all of few rows, matrices of many features cannot tell zero from
        # rounding; coordinates of the rows can.
        if not found.holds and not moments.matrix_free and not isinstance(moments, GroupMoments):
            in_coordinates = replace(checks, by_matrices=False).run()
            found = in_coordinates if in_coordinates.holds else found
        return found
    except Fails as failure:
        return not_verified(str(failure))
    except (FairspanError, LookupError, ValueError, TypeError, ArithmeticError) as error:
        return not_verified(f"The problem cannot be posed for these data: {error}")


def _moments_of(
    given: Any, groups: Any, weight: Any, labels: Any, subspace: FairSubspace
) -> Moments:
    made = subspace.provenance
    if groups is None and made is not None and len(made.groups) == 1:
        groups = Everyone(str(made.groups[0]))
    moments: Moments = (
        given
        if isinstance(given, Moments)
        else moments_of(
            rows_beside(given, groups, {"labels": labels}, weight), has_labels=labels is not None
        )
    )
    names, known = subspace.feature_names, moments.feature_names
    if names is None or known is None or names == known or not set(names) <= set(known):
        return moments
    # Columns in another order, or beside others, are the same columns.
    if isinstance(moments, GroupMoments):
        return moments.selected([known.index(name) for name in names])
    return moments


def not_verified(message: str) -> Verification:
    """That nothing could be verified, and why."""
    return Verification(False, np.nan, -np.inf, np.nan, (message,))


@dataclass(frozen=True, eq=False)
class _Checks:
    """One model, and the moments that it is checked with."""

    model: Any
    subspace: FairSubspace
    moments: Moments
    by_matrices: bool = True

    def run(self) -> Verification:
        """Check everything; what does not hold is said first."""
        made = self.subspace.provenance
        if made is None or not made.settings:
            raise Fails("The model does not say what it minimises: nothing can be verified.")
        self._check_same_features(made.groups)
        failures = [
            *of_estimator(self.model, self.subspace, made),
            *of_components(self.subspace),
            *of_data(self.subspace, self.moments, made),
        ]
        posed, evidence = self._posed(made), self.subspace.evidence
        proof = None if evidence is None else proof_of(evidence)
        restricted = posed.at(int(posed.n_components))
        found, unchecked = judged_components(
            self.subspace.projector, posed, restricted, proof, made.tol
        )
        full = restricted.full
        # The groups' own best errors are known where there are matrices.
        failures += of_variances(
            found, made, full.total_variance, full.best_errors if full.has_matrices else None
        )
        failures += of_figures(found, made, has_bound=unchecked is None)
        if made.steps:
            failures += self._of_nested(made, posed, has_bound=unchecked is None)
        said = self._said(found, made, has_bound=unchecked is None)
        messages = (*failures, said, *filter(None, [unchecked]))
        return Verification(not failures, found.objective, found.lower_bound, found.gap, messages)

    def _of_nested(self, made: Provenance, posed: Posed, *, has_bound: bool) -> Iterator[str]:
        """What does not hold of the steps, and of the first components by themselves."""
        steps = made.steps
        if len(steps) != len(self.subspace.components) or made.of_first(len(steps)) != made:
            yield "The steps are not those of the components."
        basis = self.subspace.components.T
        if posed.coordinates is not None:
            basis = np.linalg.qr(posed.coordinates.frame.reduced(basis))[0]
        if has_bound:
            yield from of_steps(posed, basis, made)
        for d in range(1, len(made.steps)):
            first = self.subspace.first(d)
            alone = replace(first, provenance=replace(made.of_first(d), steps=()))
            found = _Checks(alone, alone, self._posed_moments).run()
            if not found.holds:
                yield f"The first {d} components: {found.messages[0]}"

    def _check_same_features(self, groups: tuple[Label, ...]) -> None:
        p, given = self.subspace.n_features, self.moments.n_features
        if p != given:
            raise Fails(f"The model has {p} features, the data have {given}.")
        names, known = self.subspace.feature_names, self.moments.feature_names
        if names is not None and known is not None and names != known:
            raise Fails("The data have other features than the model, or in another order.")
        if tuple(self.moments.labels) != tuple(groups):
            raise Fails(
                f"The model was fitted on the groups {listed(list(groups))}, the data have "
                f"{listed(self.moments.labels)}."
            )

    def _posed(self, made: Provenance) -> Posed:
        criterion, restriction = settings_of(made)
        if made.restriction != (None if restriction is None else repr(restriction)):
            raise Fails(
                f"The model says that it is restricted by {made.restriction}, but it is not."
            )
        return pose(
            self._posed_moments,
            self.subspace.dimension,
            criterion,
            restriction=restriction,
            center=cast(Center, self.subspace.center),
            divisor=self.subspace.scale,
            allow_extra=self.subspace.is_soft,
            nested=self.subspace.is_nested,
        )

    @cached_property
    def _posed_moments(self) -> Moments:
        """Matrices where they are no too many numbers; otherwise the moments as they are."""
        moments, made = self.moments, self.subspace.provenance
        if moments.matrix_free:
            by_matrices = moments.n_groups * float(moments.n_features) ** 2 <= _MOST_NUMBERS
        else:  # coordinates of the rows lose digits beside a column of large numbers
            bare = made is not None and made.restriction is None
            by_matrices = self.by_matrices and bare and moments.n_features <= _MOST_FEATURES
        return moments.matrices() if by_matrices else moments

    def _said(self, found: Judged, made: Provenance, *, has_bound: bool) -> str:
        said = (
            f"{made.criterion} is {found.objective:.9g} at these components "
            f"(the model says {made.objective:.9g})"
        )
        if not has_bound:
            return said + "."
        return (
            f"{said}, and its proof gives the lower bound {found.lower_bound:.9g} "
            f"(the model says {made.lower_bound:.9g}). Double precision resolves "
            f"{found.resolution:.1e}."
        )
