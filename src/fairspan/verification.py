"""Verification of a model: what its certificate claims, computed again without any solver.

Everything is recomputed from the components, the proof that the model carries, and the moments of
the rows: that the components are orthonormal, the errors, the objective, the lower bound and the
nested steps, with eigenvalues by LAPACK and room for rounding on the safe side. Which solver ran,
how many eigenproblems it solved and on which way it came there are records, and not judged.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.claims import (
    Fails,
    Recomputed,
    check_parts,
    check_same_features,
    of_components,
    of_data,
    of_figures,
    of_steps,
    recompute,
)
from fairspan.certificates.optimality import reason_of
from fairspan.errors import FairspanError, memory_error_hint
from fairspan.model.stored import PartElsewhere
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_means import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import Moments, moments_of
from fairspan.problem.reduction import ProblemFamily, build_problem
from fairspan.rows.arrays import Everyone
from fairspan.rows.registry import open_rows

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


@memory_error_hint()
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
    claimed = subspace.certificate
    if groups is None and claimed is not None and len(claimed.groups) == 1:
        groups = Everyone(str(claimed.groups[0]))
    moments: Moments = (
        given
        if isinstance(given, Moments)
        else moments_of(
            open_rows(given, groups, {"labels": labels}, weight), has_labels=labels is not None
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
    by_rows: bool = False

    def run(self) -> Verification:
        """Check everything; what does not hold is said first."""
        claimed, subspace = self.subspace.certificate, self.subspace
        if claimed is None:
            raise Fails("The model does not say what it minimises: nothing can be verified.")
        for part in (claimed.criterion, claimed.restriction):
            if isinstance(part, PartElsewhere):
                raise part.missing()
        check_same_features(claimed, subspace.n_features, subspace.feature_names, self.moments)
        family = self._family(claimed)
        reduction = family.at(subspace.dimension)
        computed = recompute(subspace.projector, family, reduction, claimed)
        failures = [
            *self._of_model(claimed),
            *of_components(subspace.projector, is_soft=subspace.is_soft),
            *of_data(claimed, subspace.mean, subspace.scale, self.moments),
            *of_figures(
                computed, claimed, reduction, by_rows=self.by_rows or self.moments.matrix_free
            ),
        ]
        for each in (claimed, *claimed.steps):
            whole = replace(reduction.problem.whole, n_components=each.n_components)
            is_scaled = subspace.scale is not None
            if each.reason != reason_of(
                each, whole, self.moments, each.center, is_scaled=is_scaled
            ):
                failures.append("The reason of the status is not what the figures say.")
        if claimed.steps or claimed.prefixes:
            check_parts(claimed)
            failures += self._of_nested(claimed, family, has_bound=computed.has_bound)
        messages = (*failures, *self._said(computed, claimed))
        found = computed.found
        return Verification(not failures, found.objective, found.lower_bound, found.gap, messages)

    def _of_model(self, claimed: Certificate) -> Iterator[str]:
        """What an estimator's attributes say, which anybody may have changed."""
        model, subspace = self.model, self.subspace
        if claimed.center != subspace.center:
            yield "The certificate is of another centre than the model's."
        if not np.array_equal(claimed.components, subspace.projector.decoder.T):
            yield "The components of the certificate are not those of the model."
        if model is subspace:
            return
        for name in ("components", "mean", "scale"):
            # Two that are None are equal, and None differs from any array.
            given: Any = getattr(model, f"{name}_", None)
            if not np.array_equal(given, getattr(subspace, name)):
                yield f"{name}_ of the estimator differs from what was fitted (subspace_)."
        if getattr(model, "solution_", claimed) is not claimed:
            yield "solution_ of the estimator differs from what was fitted (subspace_)."
        for name in ("errors", "losses"):
            attribute = getattr(model, f"group_{name}_", None)
            if attribute is not None and not np.array_equal(attribute, getattr(claimed, name)):
                yield f"group_{name}_ of the estimator differs from what was fitted (subspace_)."

    def _of_nested(
        self, claimed: Certificate, family: ProblemFamily, *, has_bound: bool
    ) -> Iterator[str]:
        """What does not hold of the steps, and of the first components by themselves."""
        basis = self.subspace.components.T
        if family.coordinates is not None:
            basis = np.linalg.qr(family.coordinates.reduce(basis))[0]
        if has_bound:
            yield from of_steps(family, basis, claimed)
        for n in range(1, len(claimed.steps)):
            first = self.subspace.first(n)
            own = replace(first.proven, steps=(), prefixes=())
            alone = replace(first, certificate=own)
            by_rows = self.moments.matrix_free
            found = _Checks(alone, alone, self._posed_moments, by_rows=by_rows).run()
            if not found.holds:
                yield f"The first {n} components: {found.messages[0]}"

    def _family(self, claimed: Certificate) -> ProblemFamily:
        return build_problem(
            self._posed_moments,
            self.subspace.dimension,
            claimed.criterion,
            restriction=claimed.restriction,
            center=cast(Center, self.subspace.center),
            divisor=self.subspace.scale,
            allow_extra=self.subspace.is_soft,
        )

    @cached_property
    def _posed_moments(self) -> Moments:
        """Matrices where they are no too many numbers; otherwise the moments as they are."""
        moments, claimed = self.moments, self.subspace.certificate
        if moments.matrix_free:
            by_matrices = moments.n_groups * float(moments.n_features) ** 2 <= _MOST_NUMBERS
        else:  # coordinates of the rows lose digits beside a column of large numbers
            bare = claimed is not None and claimed.restriction is None
            by_matrices = self.by_matrices and bare and moments.n_features <= _MOST_FEATURES
        return moments.matrices() if by_matrices else moments

    def _said(self, computed: Recomputed, claimed: Certificate) -> Iterator[str]:
        """What was found, and what was not judged."""
        found = computed.found
        said = (
            f"{claimed.criterion.name} is {found.objective:.9g} at these components "
            f"(the model says {claimed.objective:.9g})"
        )
        if computed.has_bound:
            yield (
                f"{said}, and its proof gives the lower bound {found.lower_bound:.9g} "
                f"(the model says {claimed.lower_bound:.9g}). Double precision resolves "
                f"{found.resolution:.1e}."
            )
        else:
            yield f"{said}."
            why = "the model carries no proof" if claimed.proof is None else "the rows stay sparse"
            yield f"The lower bound was not checked: {why}."
        yield (
            "Not judged are records of the run: its solver, number of eigenproblems, trace and "
            "version."
        )
