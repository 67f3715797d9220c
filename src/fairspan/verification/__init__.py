"""Verify a model: recompute the claims of its certificate without any solver."""

from fairspan.verification.failure import CANNOT_BE_VERIFIED
from fairspan.verification.result import Verification
from fairspan.verification.verification import verify

__all__ = ["CANNOT_BE_VERIFIED", "Verification", "verify"]
