"""The fits of every test, thirty at most, are verified when it is over and its patches are undone.

Fits are noted as they end, and looked at after the test: counters of calls, monkeypatched
internals and warnings of the test stay as they are. What runs in a process of its own is out of
reach, and so are criteria that tests make themselves.
"""

import warnings
from typing import Any

from fairspan import Verification, verify
from fairspan.estimator import fit as fits
from fairspan.moments.wide import WideMoments
from fairspan.registry import builtin_names
from fairspan.verification import CANNOT_BE_VERIFIED
from fairspan.verification.verified_data import may_have_zero_errors
from sweeps import WHOLE

# Above so many features, or coordinates where rows are fewer, verifying takes longer than the test.
MOST_FEATURES = 300
# Of more fits in one test, those that come later are not looked at: those without each part of the
# rows, for the most part.
MOST_FITS = 200 if WHOLE else 30
_pending: list[tuple[Any, Any]] = []


def note_fits() -> None:
    """Note every fit of this process from now on, as it ends."""
    finish = fits.finish_fit

    def noted(*arguments: Any) -> Any:
        fit = finish(*arguments)
        if len(_pending) < MOST_FITS and _is_verified(fit.subspace, fit.moments):
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
    return is_known and min(sizes) <= MOST_FEATURES


def failures() -> list[str]:
    """What does not hold of the fits since the last look."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checked = [(subspace, verify(subspace, moments)) for subspace, moments in _pending]
    _pending.clear()
    return [
        f"{subspace!r}: {found}" for subspace, found in checked if not _is_fine(subspace, found)
    ]


def _is_fine(subspace: Any, found: Verification) -> bool:
    """Whether it holds, or rounding is too large to tell, which the model itself says."""
    cannot_tell = any(CANNOT_BE_VERIFIED in message for message in found.messages)
    return found.holds or (cannot_tell and subspace.certificate.status == "unresolved")
