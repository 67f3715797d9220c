"""How a criterion is computed, and its bound proven, in formulas that a reader can run.

Each criterion declares its formula, and the report writes a program with it.
"""

from dataclasses import dataclass

KY_FAN = (
    "S_g is the second moment matrix of group g, and M = sum_g w_g S_g with the weights w below. "
    "No subspace of as many dimensions leaves less of M than L(M), {rest} (Ky Fan 1949). "
)
_OF_ERRORS = (
    KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the "
    "criterion is never below this weighted sum."
)
LEAST_LEFT = "least_left(mixture)"


@dataclass(frozen=True)
class Formula:
    """How a criterion is computed from errors, and its bound from a mixture.

    Attributes
    ----------
    objective_in_words : str
        What follows "The objective is".
    bound_in_words : str
        Why no subspace is below the bound; `{rest}` names the remaining eigenvalues.
    objective : str
        In Python, of `errors`, `S`, `q` and `best`.
    bound : str
        In Python, of `weights`, `best` and `mixture`; or lines that set `lower_bound`.
    function : str
        In Python, a function that the objective calls; empty if there is none.
    """

    objective_in_words: str
    bound_in_words: str
    objective: str
    bound: str
    function: str = ""

    @classmethod
    def of_errors(cls, objective_in_words: str, objective: str) -> "Formula":
        """Of a criterion that is never below a weighted sum of errors."""
        return cls(objective_in_words, _OF_ERRORS, objective, LEAST_LEFT)


# Of a criterion that declares no formula of its own.
OF_PIECES = Formula(
    "the sum, over blocks of affine functions of the errors, of the largest of each block.",
    KY_FAN + "The criterion is never below the sum of its affine functions times multipliers that "
    "sum to one in each block. The weights w are the slopes of that sum.",
    "float(np.maximum.reduceat(slopes @ errors - offsets, starts).sum())",
    "least_left(mixture) - float(multipliers @ offsets)",
)
