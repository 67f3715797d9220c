"""How a criterion is computed, and its bound proven, in formulas that a reader can run.

Each criterion declares its formula, and the report writes a program with it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Formula:
    """How a criterion is computed from errors, and its bound from a mixture.

    Attributes
    ----------
    objective_in_words : str
        What follows "The objective is".
    bound_in_words : str
        Why no subspace is below the bound; `{rest}` stands for the eigenvalues that are left.
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


_KY_FAN = (
    "S_g is the second moment matrix of group g, and M = sum_g w_g S_g with the weights w below. "
    "No subspace of as many dimensions leaves less of M than L(M), {rest} (Ky Fan 1949). "
)
_OF_ERRORS = (
    _KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the "
    "criterion is never below this weighted sum."
)
_LINEAR = "least_left(mixture)"


_WORST = """\
def worst(errors, a, b):  # if group a has the larger error
    v = q + penalty * (np.arange(len(q)) == a) - penalty * (np.arange(len(q)) == b)
    spread = np.where(v >= 0, np.sqrt(radius), -np.sqrt(radius))
    return (v * np.maximum(np.sqrt(errors) + spread, 0) ** 2).sum(axis=-1)
"""


def _of_errors(objective_in_words: str, objective: str) -> Formula:
    return Formula(objective_in_words, _OF_ERRORS, objective, _LINEAR)


TOTAL_ERROR = _of_errors("the error over all rows.", "float(q @ errors)")
MINIMAX_ERROR = _of_errors("the largest error of a group.", "float(errors.max())")
DISPARITY = _of_errors(
    "trade_off times the error over all rows, plus 1 - trade_off times the difference in "
    "error between the protected group and the other.",
    "trade_off * float(q @ errors) + (1 - trade_off) * float(errors[b] - errors[1 - b])",
)
EQUAL_ERROR = Formula(
    "the error over all rows, where all groups have the same error.",
    _KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M). Where "
    "all errors are the same, the sum is sum_g w_g times one error.",
    "float(q @ errors)",
    "least_left(mixture) / float(weights.sum())",
)
ERROR_GAP = _of_errors(
    "the error over all rows, plus the penalty times the largest difference in error.",
    "float(q @ errors) + penalty * float(errors.max() - errors.min())",
)
MINIMAX_LOSS = Formula(
    "the largest excess loss of a group: its error minus the least error that any subspace of "
    "as many dimensions has on it.",
    _KY_FAN + "So no subspace has a weighted mean of excess losses below L(M) - sum_g w_g "
    "L(S_g), and the largest loss is never below their mean.",
    "float((errors - best).max())",
    "least_left(mixture) - float(weights @ best)",
)
NASH_WELFARE = Formula(
    "minus the mean logarithm of the variances that the groups keep.",
    _KY_FAN + "So no subspace has a weighted sum of kept variances c_g above tr M - L(M), and "
    "of all variances with that sum those have the largest product whose w_g c_g are equal.",
    "-float(np.log(traces - errors).mean())",
    "float(np.log(weights * len(weights)).mean())\n"
    "lower_bound -= float(np.log(np.trace(mixture) - least_left(mixture)))",
)
ROBUST_ERROR_GAP = Formula(
    "the error over all rows plus the penalty times the largest difference in error, for the "
    "worst rows within a radius of each group's.",
    _KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the "
    "criterion, which is least where the radius is zero, is never below this weighted sum.",
    "float(max(worst(errors, a, b) for a in range(len(q)) for b in range(len(q)) if a != b))",
    _LINEAR,
    _WORST,
)
# Of a criterion that declares no formula of its own.
OF_PIECES = Formula(
    "the sum, over blocks of affine functions of the errors, of the largest of each block.",
    _KY_FAN + "The criterion is never below the sum of its affine functions times multipliers that "
    "sum to one in each block. The weights w are the slopes of that sum.",
    "float(np.maximum.reduceat(slopes @ errors - offsets, starts).sum())",
    "least_left(mixture) - float(multipliers @ offsets)",
)
