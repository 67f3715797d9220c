"""Result of a verification."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Verification:
    """Result of verifying a model's certificate with moments or rows.

    Attributes
    ----------
    holds : bool
        Whether everything that was checked agrees.
    objective : float
        Criterion at the model's components, recomputed; NaN if that was impossible.
    lower_bound : float
        Bound that the model's proof proves, recomputed; minus infinity if none.
    gap : float
        objective - lower_bound.
    messages : tuple of str
        One sentence per check, failed checks first.

    Examples
    --------
    >>> import numpy as np
    >>> import fairspan as fs
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> fair = fs.FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
    >>> result = fs.verify(fair, X, ["a", "a", "b", "b"])
    >>> result.holds, round(result.objective, 3), result.gap < 1e-9
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


def failed_verification(message: str) -> Verification:
    """Failed verification with a message."""
    return Verification(
        holds=False, objective=np.nan, lower_bound=-np.inf, gap=np.nan, messages=(message,)
    )
