"""Verify a model: recompute the claims of its certificate without any solver."""

from fairspan.verification.failure import CANNOT_BE_VERIFIED
from fairspan.verification.verification import Verification, verify

__all__ = ["CANNOT_BE_VERIFIED", "Verification", "verify"]
