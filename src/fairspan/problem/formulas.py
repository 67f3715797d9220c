"""Formulas of criteria in words, as reports print them."""

from dataclasses import dataclass

KY_FAN_TEXT = (
    "S_g is the second moment matrix of group g, and M = sum_g w_g S_g with the weights w of the "
    "certificate. The residual variance of M under any subspace of this dimension is at least "
    "L(M), {rest} (Ky Fan 1949). "
)


@dataclass(frozen=True)
class CriterionFormula:
    """Formula of a criterion and its bound in reports, in words.

    Attributes
    ----------
    summary : str
        What is minimized, in plain language.
    objective_text : str
        Completes the sentence "The objective is ...".
    bound_text : str
        Why the bound holds; `{rest}` is replaced by a description of the remaining eigenvalues.
    """

    summary: str
    objective_text: str
    bound_text: str = KY_FAN_TEXT + (
        "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the criterion "
        "is never below this weighted sum."
    )


# Default, for criteria that define no formula.
DEFAULT_FORMULA = CriterionFormula(
    "See the package that defines this criterion for a description.",
    "the sum over blocks of the largest affine function of the errors in each block.",
    KY_FAN_TEXT
    + "The criterion is at least any combination of its affine functions with nonnegative "
    "multipliers that sum to one in each block. The weights w are the slopes of that combination.",
)
