"""Verify a model: recompute the claims of its certificate without any solver."""

from fairspan.verification.verification_failure import CANNOT_BE_VERIFIED
from fairspan.verification.verification_result import Verification
from fairspan.verification.verify_model import verify

__all__ = ["CANNOT_BE_VERIFIED", "Verification", "verify"]
