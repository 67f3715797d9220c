"""What a model claims, computed again from second moments, without any solver.

Everything is recomputed from the components, the proof that the model carries, and the moments of
the rows: that the components are orthonormal, the errors, the objective, the lower bound and the
nested steps, with eigenvalues by LAPACK and room for rounding on the safe side.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from fairspan.certificates.claims import (
    Fails,
    judged_components,
    of_components,
    of_data,
    of_estimator,
    of_figures,
    of_steps,
    of_variances,
)
from fairspan.certificates.proof import proof_of, settings_of
from fairspan.certificates.solution import Judged
from fairspan.errors import FairspanError, running_out_told
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_means import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import Moments, moments_of
from fairspan.problem.posing import Posed, pose
from fairspan.provenance import Provenance
from fairspan.rows.groups import Label, listed
from fairspan.rows.labels import Everyone
from fairspan.rows.registry import rows_beside

# Beyond so many numbers in the second moments they are not formed.
_MOST_NUMBERS = 3e8
# Up to so many features rows that are fewer are verified in the features themselves.
_MOST_FEATURES = 2500


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
            basis = np.linalg.qr(posed.coordinates.reduce(basis))[0]
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
