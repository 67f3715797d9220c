"""The exception with which judges reject an answer."""


class WrongAnswer(AssertionError):
    """An answer for which a claim of the library is false."""
