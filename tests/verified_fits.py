"""Every fit of every test is verified, when the test is over and its patches are undone.

Fits are noted as they end, and looked at after the test: counters of calls, monkeypatched
internals and warnings of the test stay as they are. What runs in a process of its own is out of
reach, and so are criteria that tests make themselves.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fairspan.certificates.verification import verify
from fairspan.estimator import fitting
from fairspan.moments.held_rows.thin_moments import ThinMoments
from fairspan.moments.of_rows import Moments
from fairspan.registry import names_of
from fairspan.subspace import FairSubspace

# Above so many features, or coordinates where rows are fewer, verifying takes longer than the test.
MOST_FEATURES = 300
# Of more fits in one test, those that come later are not looked at.
MOST_FITS = 200


@dataclass
class NotedFits:
    """The fits since the last look, and how many of them were passed over."""

    pending: list[tuple[FairSubspace, Moments]] = field(default_factory=list)
    n_passed_over: int = 0

    def noting(self, fit_of: Callable[..., Any]) -> Callable[..., Any]:
        """The function that ends a fit, which notes it as well."""

        def noted(solved: Any, moments: Moments, *others: Any) -> Any:
            fit = fit_of(solved, moments, *others)
            if len(self.pending) < MOST_FITS and is_small(moments) and is_known(fit.subspace):
                self.pending.append((fit.subspace, moments))
            else:
                self.n_passed_over += 1
            return fit

        return noted

    def failures(self) -> tuple[list[str], int]:
        """What does not hold of the fits that were noted, and how many were passed over."""
        noted, n_passed_over = self.pending, self.n_passed_over
        self.pending, self.n_passed_over = [], 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            checked = [(subspace, verify(subspace, moments)) for subspace, moments in noted]
        failures = [f"{subspace!r}: {found}" for subspace, found in checked if not found.holds]
        return failures, n_passed_over


def is_small(moments: Moments) -> bool:
    is_thin = isinstance(moments, ThinMoments)
    n_coordinates = int(moments.counts.sum()) if is_thin else moments.n_features
    return min(moments.n_features, n_coordinates) <= MOST_FEATURES


def is_known(subspace: FairSubspace) -> bool:
    return subspace.provenance is not None and subspace.provenance.criterion in names_of(
        "criterion"
    )


def note_fits(notes: NotedFits) -> None:
    fitting.fit_of = notes.noting(fitting.fit_of)
