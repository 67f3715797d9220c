"""Programs that verify a certificate, one formula for each kind of criterion."""

from base64 import b64encode
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.certificates.proof import LinesProof, Proof
from fairspan.fitting import Fit
from fairspan.problem.criteria import Disparity, ErrorGap
from fairspan.problem.proof_formulas import PiecewiseProof, proof_formula_of
from fairspan.problem.robust_error_gap import RobustErrorGap

FloatArray = npt.NDArray[np.float64]

# Components of so few numbers are written as such; more of them as coded bytes.
_FEW_NUMBERS = 60
# Digits of a component that a reader may compare; its last ones are left to rounding.
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
        Why no subspace is below the bound; `{rest}` stands for the eigenvalues that are left.
    objective : str
        In Python, of `errors`, `S`, `q` and `best`.
    bound : str
        In Python, of `weights`, `best` and `mixture`; or lines that set `lower_bound`.
    """

    objective_in_words: str
    bound_in_words: str
    objective: str
    bound: str


_KY_FAN = (
    "S_g is the second moment matrix of group g, and M = sum_g w_g S_g with the weights w below. "
    "No subspace of as many dimensions leaves less of M than L(M), {rest} (Ky Fan 1949). "
)
_OF_ERRORS = (
    _KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the "
    "criterion is never below this weighted sum."
)
_LINEAR = "least_left(mixture)"


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
        _KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M). Where "
        "all errors are the same, the sum is sum_g w_g times one error.",
        "float(q @ errors)",
        "least_left(mixture) / float(weights.sum())",
    ),
    "error_gap": _of_errors(
        "the error over all rows, plus the penalty times the largest difference in error.",
        "float(q @ errors) + penalty * float(errors.max() - errors.min())",
    ),
    "minimax_loss": Formula(
        "the largest excess loss of a group: its error minus the least error that any subspace of "
        "as many dimensions has on it.",
        _KY_FAN + "So no subspace has a weighted mean of excess losses below L(M) - sum_g w_g "
        "L(S_g), and the largest loss is never below their mean.",
        "float((errors - best).max())",
        "least_left(mixture) - float(weights @ best)",
    ),
    "nash_welfare": Formula(
        "minus the mean logarithm of the variances that the groups keep.",
        _KY_FAN + "So no subspace has a weighted sum of kept variances c_g above tr M - L(M), and "
        "of all variances with that sum those have the largest product whose w_g c_g are equal.",
        "-float(np.log(traces - errors).mean())",
        "float(np.log(weights * len(weights)).mean())\n"
        "lower_bound -= float(np.log(np.trace(mixture) - least_left(mixture)))",
    ),
    "robust_error_gap": Formula(
        "the error over all rows plus the penalty times the largest difference in error, for the "
        "worst rows within a radius of each group's.",
        _KY_FAN + "So no subspace has a weighted sum of errors, sum_g w_g e_g, below L(M), and the "
        "criterion, which is least where the radius is zero, is never below this weighted sum.",
        "float(max(worst(errors, a, b) for a in range(len(q)) for b in range(len(q)) if a != b))",
        _LINEAR,
    ),
}
# That of a criterion of another package.
_OF_PIECES = Formula(
    "the sum, over blocks of affine functions of the errors, of the largest of each block.",
    _KY_FAN + "The criterion is never below the sum of its affine functions times multipliers that "
    "sum to one in each block. The weights w are the slopes of that sum.",
    "float(np.maximum.reduceat(slopes @ errors - offsets, starts).sum())",
    "least_left(mixture) - float(multipliers @ offsets)",
)
_BY_LINES = (
    "S_g is the second moment matrix of group g. Every row w of `lines` is the weights of a "
    "supporting line: no subspace of as many dimensions has errors with w_1 e_1 + w_2 e_2 below "
    "L(M), {rest} of M = w_1 S_1 + w_2 S_2 (Ky Fan 1949). So the errors of every subspace lie in a "
    "polygon. The criterion grows with both errors together, so it is least on the sides, and as a "
    "function of the errors it is the larger of two concave ones, each of which is at least its "
    "chord."
)
_BY_BOXES = (
    "The bound rests on many mixtures of the groups' second moments; none of them alone proves it."
)


def formula_of(fit: Fit) -> Formula:
    """How the criterion of a fit is computed, and its bound from the proof that was found."""
    formula = FORMULAS.get(fit.problem.criterion.name, _OF_PIECES)
    if type(fit.solution.proof) is Proof or fit.problem.criterion.name != RobustErrorGap.name:
        return formula
    by_lines = isinstance(fit.solution.proof, LinesProof)
    return replace(formula, bound_in_words=_BY_LINES if by_lines else _BY_BOXES)


def has_bound(fit: Fit) -> bool:
    """Whether the program recomputes the bound: from one mixture, or from supporting lines."""
    proof = fit.solution.proof
    return isinstance(proof, LinesProof) or type(proof) is Proof


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
        f"weights = {_numbers(proving_weights(fit))}",
        "",
        *_LEAST_LEFT.format(dimensions=fit.problem.n_components).splitlines(),
        "",
        "traces = np.array([np.trace(each) for each in S])",
        "best = np.array([least_left(each) for each in S])  # least error of each group alone",
        "mixture = np.tensordot(weights, S, axes=1)",
    ]
    if has_objective:
        lines += [
            *_components(fit, components),
            "left = np.eye(len(V)) - V @ V.T",
            "errors = np.array([np.trace(left @ each @ left) for each in S])",
        ]
    lines += _parameters(fit)
    if has_objective:
        lines.append(f"objective = {formula.objective}")
    proof = fit.solution.proof
    if isinstance(proof, LinesProof):
        rows = [f"    {each}," for each in proof.lines.tolist()]
        lines += ["lines = np.array([", *rows, "])", *_POLYGON.splitlines()]
    elif has_bound(fit):
        lines.append(f"lower_bound = {formula.bound}")
    told = ["objective"] * has_objective + ["lower_bound"] * has_bound(fit)
    return "\n".join([*lines, f"print({', '.join(told)})", ""])


def proving_weights(fit: Fit) -> FloatArray:
    """The weights of the mixture that proves the bound."""
    formula = proof_formula_of(fit.problem.criterion)
    return formula.proving_weights(fit.solution.weights, fit.problem)


_CODED = ("from base64 import b64decode", "")
_START = ("import numpy as np", "from fairspan import GroupMoments", "")
_LEAST_LEFT = """\
def least_left(matrix):  # the sum of all eigenvalues but the {dimensions} largest
    return float(np.linalg.eigvalsh(matrix)[: len(matrix) - {dimensions}].sum())
"""
_WORST = """\
def worst(errors, a, b):  # if group a has the larger error
    v = q + penalty * (np.arange(len(q)) == a) - penalty * (np.arange(len(q)) == b)
    spread = np.where(v >= 0, np.sqrt(radius), -np.sqrt(radius))
    return (v * np.maximum(np.sqrt(errors) + spread, 0) ** 2).sum(axis=-1)
"""
_POLYGON = """\
ends = [least_left(np.tensordot(each, S, axes=1)) for each in lines]
lines, ends = np.vstack([lines, np.eye(2), -np.eye(2)]), np.array([*ends, 0, 0, *-traces])
corners = []  # where two lines cross, and no other line leaves the crossing out
for i in range(len(lines)):
    for j in range(i):
        if abs(np.linalg.det(lines[[i, j]])) > 1e-12:
            corner = np.linalg.solve(lines[[i, j]], ends[[i, j]])
            if (lines @ corner >= ends - 1e-10 * traces.sum()).all():
                corners.append(np.maximum(corner, 0))
middle = np.mean(corners, axis=0)
corners.sort(key=lambda corner: np.arctan2(*(corner - middle)))
lower_bound = np.inf
for corner, following in zip(corners, [*corners[1:], corners[0]]):
    points = corner + np.linspace(0, 1, 5001)[:, None] * (following - corner)
    J = np.array([worst(points, 0, 1), worst(points, 1, 0)])
    first, last, apart = J[:, :-1], J[:, 1:], J[0] - J[1]  # at the ends of each part of the side
    cross = apart[:-1] * apart[1:] < 0
    share = apart[:-1] / np.where(cross, apart[:-1] - apart[1:], 1)
    crossing = np.where(cross, first[0] + share * (last[0] - first[0]), np.inf)
    least = np.minimum(np.minimum(first.max(axis=0), last.max(axis=0)), crossing)
    lower_bound = min(lower_bound, float(least.min()))
"""


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
    if criterion.name not in FORMULAS:
        pieces, multipliers = PiecewiseProof(criterion).multipliers(fit.solution.weights, problem)
        return [
            f"slopes = {_numbers(pieces.coefficients)}",
            f"offsets = {_numbers(pieces.offsets)}",
            f"starts = {list(pieces.blocks.starts)}",
            f"multipliers = {_numbers(multipliers)}",
        ]
    return []


def _numbers(values: Any) -> str:
    return f"np.array({np.asarray(values, dtype=np.float64).tolist()})"
