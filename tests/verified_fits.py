"""Verify the fits of a test, at most thirty, after the test and its monkeypatches ended.

Fits are recorded as they finish and verified after the test, so counters, monkeypatched internals
and warnings of the test are not affected. Fits in other processes and fits with criteria that
tests define are not verified.
"""

import warnings
from typing import Any

from case_selection import ALL_CASES
from fairspan import Verification, verify
from fairspan.estimator import fit as fits
from fairspan.moments.wide import WideMoments
from fairspan.registry import builtin_names
from fairspan.verification import CANNOT_BE_VERIFIED
from fairspan.verification.verified_data import may_have_zero_errors

# Above so many features, or coordinates where rows are fewer, verifying takes longer than the test.
MAX_FEATURES = 300
# Further fits of one test are mostly refits without one fold, and are not verified.
MAX_FITS = 200 if ALL_CASES else 30
_pending: list[tuple[Any, Any]] = []


def record_fits() -> None:
    """Record every fit of this process from now on."""
    finish = fits.finish_fit

    def noted(*arguments: Any) -> Any:
        fit = finish(*arguments)
        if len(_pending) < MAX_FITS and _is_verified(fit.subspace, fit.moments):
            _pending.append((fit.subspace, fit.moments))
        return fit

    fits.finish_fit = noted


def _is_verified(subspace: Any, moments: Any) -> bool:
    sizes = [moments.n_features]
    if isinstance(moments, WideMoments):
        sizes.append(int(moments.counts.sum()))
    is_known = subspace.certificate.criterion.name in builtin_names("criterion")
    if moments.row_spread is None and may_have_zero_errors(subspace.certificate):
        # A fit to rows is repeated with their spread, without which moments decide nothing.
        return False
    return is_known and min(sizes) <= MAX_FEATURES


def failures() -> list[str]:
    """Verify the recorded fits, forget them, and describe those that fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checked = [(subspace, verify(subspace, moments)) for subspace, moments in _pending]
    _pending.clear()
    return [
        f"{subspace!r}: {result}"
        for subspace, result in checked
        if not _is_confirmed(subspace, result)
    ]


def forget() -> None:
    """Forget the recorded fits."""
    _pending.clear()


def _is_confirmed(subspace: Any, verification: Verification) -> bool:
    """Whether the certificate holds, or is called unresolved and cannot be verified."""
    cannot_tell = any(CANNOT_BE_VERIFIED in message for message in verification.messages)
    if any("rows have changed" in message for message in verification.messages):
        # The test has changed its table, to which moments of wide tables refer.
        return True
    return verification.holds or (cannot_tell and subspace.certificate.status == "unresolved")
