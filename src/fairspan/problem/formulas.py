"""Formulas of criteria as reports print them, in words and as Python code."""

from dataclasses import dataclass

KY_FAN_TEXT = (
    "S_g is the second moment matrix of group g, and M = sum_g w_g S_g with the weights w below. "
    "The residual variance of M under any subspace of this dimension is at least L(M), {rest} "
    "(Ky Fan 1949). "
)


@dataclass(frozen=True)
class CriterionFormula:
    """Statement of a criterion and its bound in reports, in words and as Python code.

    Attributes
    ----------
    summary : str
        What is minimized, in plain language.
    objective_text : str
        Completes the sentence "The objective is ...".
    objective_code : str
        Python expression in `errors`, `S`, `q`, `traces`, `best` and the parameters.
    bound_text : str
        Why the bound holds; `{rest}` is replaced by a description of the remaining eigenvalues.
    bound_code : str
        Python expression in `weights`, `best` and `mixture`, optionally followed by statements that
        update `lower_bound`.
    helper_code : str
        Source of a Python function that the objective calls; empty if there is none.
    """

    summary: str
    objective_text: str
    objective_code: str
    bound_text: str = KY_FAN_TEXT + (
        "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the criterion "
        "is never below this weighted sum."
    )
    bound_code: str = "smallest_eigenvalue_sum(mixture)"
    helper_code: str = ""


# Default, for criteria that define no formula.
DEFAULT_FORMULA = CriterionFormula(
    "See the package that defines this criterion for a description.",
    "the sum over blocks of the largest affine function of the errors in each block.",
    "float(np.maximum.reduceat(slopes @ errors - offsets, starts).sum())",
    KY_FAN_TEXT
    + "The criterion is at least any combination of its affine functions with nonnegative "
    "multipliers that sum to one in each block. The weights w are the slopes of that combination.",
    "smallest_eigenvalue_sum(mixture) - float(multipliers @ offsets)",
)
