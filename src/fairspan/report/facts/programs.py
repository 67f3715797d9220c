"""Programs that verify a certificate, one formula for each kind of criterion."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.fitting import Fit
from fairspan.problem.criteria import Disparity, ErrorGap
from fairspan.problem.robust_error_gap import RobustErrorGap

FloatArray = npt.NDArray[np.float64]

# Components of so few numbers are written as such; more of them as coded bytes.
_FEW_NUMBERS = 60
# Digits of a number that a reader may compare; its last ones are left to rounding.
_DIGITS = 13
_WIDTH = 78


@dataclass(frozen=True)
class Formula:
    """How a criterion is computed from errors, and its bound from a mixture.

    Attributes
    ----------
    objective_in_words : str
        What follows "The objective is".
    bound_in_words : str
        Why no subspace is below the bound; `{top}` stands for what is largest of a matrix.
    objective : str
        In Python, of `errors`, `S`, `q` and `best`.
    bound : str
        In Python, of `weights`, `traces`, `best` and `mixture`; empty if it takes more than that.
    """

    objective_in_words: str
    bound_in_words: str
    objective: str
    bound: str

    @property
    def has_bound(self) -> bool:
        """Whether the program recomputes the bound."""
        return bool(self.bound)


_KY_FAN = (
    "S_g is the second moment matrix of group g, and M = sum_g w_g S_g with the weights w below. "
    "No subspace of as many dimensions keeps more of M than t(M), {top} (Ky Fan 1949). "
)
_OF_ERRORS = (
    _KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below sum_g w_g tr S_g "
    "- t(M), and the criterion is never below this weighted sum."
)
_LINEAR = "float(weights @ traces) - top_sum(mixture)"


def _of_errors(objective_in_words: str, objective: str) -> Formula:
    return Formula(objective_in_words, _OF_ERRORS, objective, _LINEAR)


FORMULAS = {
    "total_error": _of_errors("the error over all rows.", "float(q @ errors)"),
    "minimax_error": _of_errors("the largest error of a group.", "float(errors.max())"),
    "disparity": _of_errors(
        "trade_off times the error over all rows, plus 1 - trade_off times the difference in "
        "error between the protected group and the other.",
        "trade_off * float(q @ errors) + (1 - trade_off) * float(errors[b] - errors[1 - b])",
    ),
    "equal_error": Formula(
        "the error over all rows, where all groups have the same error.",
        _KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below sum_g w_g tr "
        "S_g - t(M). Where all errors are the same, the sum is sum_g w_g times one error.",
        "float(q @ errors)",
        "(float(weights @ traces) - top_sum(mixture)) / float(weights.sum())",
    ),
    "error_gap": _of_errors(
        "the error over all rows, plus the penalty times the largest difference in error.",
        "float(q @ errors) + penalty * float(errors.max() - errors.min())",
    ),
    "minimax_loss": Formula(
        "the largest excess loss of a group: its error minus the least error that any subspace of "
        "as many dimensions has on it.",
        _KY_FAN + "So no subspace has a weighted mean of excess losses below sum_g w_g t(S_g) - "
        "t(M), with t as of M, and the largest loss is never below their mean.",
        "float((errors - best).max())",
        "float(weights @ (traces - best)) - top_sum(mixture)",
    ),
    "nash_welfare": Formula(
        "minus the mean logarithm of the variances that the groups keep.",
        _KY_FAN + "So no subspace has a weighted sum of kept variances c_g above t(M), and of all "
        "variances with that sum those have the largest product whose w_g c_g are equal.",
        "-float(np.log(traces - errors).mean())",
        "float(np.log(weights).mean()) - float(np.log(top_sum(mixture) / len(weights)))",
    ),
    "robust_error_gap": Formula(
        "the error over all rows plus the penalty times the largest difference in error, for the "
        "worst rows within a radius of each group's.",
        "The bound rests on several mixtures of the groups' second moments; none of them alone "
        "proves it.",
        "max(worst(a, b) for a in range(len(q)) for b in range(len(q)) if a != b)",
        "",
    ),
}


def program(
    fit: Fit,
    formula: Formula,
    moments: str,
    *,
    components: FloatArray | None,
    has_objective: bool,
) -> str:
    """Lines of Python that set `objective` and `lower_bound`.

    Parameters
    ----------
    fit : Fit
    formula : Formula
    moments : str
        The line that sets `moments`.
    components : (d, p) array or None
        None where the leading eigenvectors of the mixture are the answer.
    has_objective : bool
    """
    coded = components is not None and components.size > _FEW_NUMBERS
    lines = [
        *(_CODED if coded else ()),
        *_START,
        moments,
        *_scaled(fit),
        f'S = moments.second_moments("{fit.subspace.center}")  # one matrix for each group',
        "q = moments.proportions",
        f"weights = {_numbers(fit.solution.weights)}",
        "",
        *_TOP_SUM.format(dimensions=fit.problem.n_components).splitlines(),
        "",
        "traces = np.array([np.trace(each) for each in S])",
        "best = traces - [top_sum(each) for each in S]  # least error of each group alone",
        "mixture = np.tensordot(weights, S, axes=1)",
    ]
    if has_objective:
        lines += [
            *_components(fit, components),
            "errors = traces - [np.trace(V.T @ each @ V) for each in S]",
            *_parameters(fit),
            f"objective = {formula.objective}",
        ]
    if formula.has_bound:
        lines.append(f"lower_bound = {formula.bound}")
    known = [name for name, is_set in _set_by(formula, has_objective=has_objective) if is_set]
    return "\n".join([*lines, f"print({', '.join(known)})", ""])


_CODED = ("from base64 import b64decode", "")
_START = ("import numpy as np", "from fairspan import GroupMoments", "")
_TOP_SUM = """\
def top_sum(matrix):  # of the {dimensions} largest eigenvalues
    return np.linalg.eigvalsh(matrix)[-{dimensions}:].sum()
"""
_WORST = """\
def worst(a, b):  # if group a has the larger error
    v = q + penalty * (np.arange(len(q)) == a) - penalty * (np.arange(len(q)) == b)
    spread = np.where(v >= 0, np.sqrt(radius), -np.sqrt(radius))
    return float((v * np.maximum(np.sqrt(errors) + spread, 0) ** 2).sum())
"""


def _set_by(formula: Formula, *, has_objective: bool) -> Sequence[tuple[str, bool]]:
    return ("objective", has_objective), ("lower_bound", formula.has_bound)


def _scaled(fit: Fit) -> list[str]:
    if fit.subspace.scale is None:
        return []
    return [
        "deviations = moments.standard_deviations",
        "moments = moments.divided_by(np.where(deviations > 0, deviations, 1))",
    ]


def _components(fit: Fit, components: FloatArray | None) -> list[str]:
    if components is None:
        return [f"V = np.linalg.eigh(mixture)[1][:, -{fit.problem.n_components}:]"]
    if components.size <= _FEW_NUMBERS:
        rows = [f"    {each.round(_DIGITS).tolist()}," for each in components]
        return ["V = np.array([", *rows, "]).T"]
    coded = b64encode(components.round(_DIGITS).astype("<f8").tobytes()).decode()
    return [
        'coded = """',
        *wrap(coded, _WIDTH),
        '"""',
        f'V = np.frombuffer(b64decode(coded), "<f8").reshape({components.shape}).T',
    ]


def _parameters(fit: Fit) -> list[str]:
    criterion, problem = fit.problem.criterion, fit.problem
    if isinstance(criterion, Disparity):
        own = criterion.protected
        protected = problem.served_worse_by_pca if own is None else problem.labels.index(own)
        return [f"trade_off, b = {criterion.trade_off!r}, {protected}"]
    if isinstance(criterion, ErrorGap):
        return [f"penalty = {criterion.penalty!r}"]
    if isinstance(criterion, RobustErrorGap):
        radii = f"radius = {_numbers(criterion.radii(problem))}"
        return [f"penalty = {criterion.penalty!r}", radii, "", *_WORST.splitlines(), ""]
    return []


def _numbers(values: Any) -> str:
    return f"np.array({[float(f'{each:.{_DIGITS}g}') for each in np.asarray(values).tolist()]})"
