"""Fits of other rows with the settings that a model was fitted with."""

from typing import cast

from fairspan.certificates.claims import settings_from
from fairspan.estimator.fitting import fit_subspace
from fairspan.moments.center import Center
from fairspan.moments.of_rows import Moments
from fairspan.subspace import FairSubspace


def fit_again(
    subspace: FairSubspace, moments: Moments, *, scale: bool = False, tol: float | None = None
) -> FairSubspace:
    """Fit moments as a model was fitted, with the default solver.

    Parameters
    ----------
    subspace : FairSubspace
        Fitted, so that it knows its settings.
    moments : GroupMoments, SparseMoments or ThinMoments
    scale : bool
        Whether features are divided by their standard deviations.
    tol : float, optional
        That of the model where it is left out.
    """
    made = subspace.provenance
    assert made is not None
    criterion, restriction = settings_from(made.criterion, made.settings)
    return fit_subspace(
        moments,
        subspace.dimension,
        criterion=criterion,
        restriction=restriction,
        center=cast(Center, subspace.center),
        scale=scale,
        tol=made.tol if tol is None else tol,
        allow_extra=subspace.is_soft,
        nested=subspace.is_nested,
    ).subspace
