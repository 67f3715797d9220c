"""Failure of a verification that allows no further check, and phrases of messages."""

PASS_ROWS_HINT = " Pass the rows, which are more precise than their moments."
CANNOT_BE_VERIFIED = "The certificate cannot be verified from these data"


class VerificationFailure(Exception):
    """A check failed, with a message; never raised to users."""
