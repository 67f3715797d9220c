"""Where the rows of a report come from, and how a reader verifies its certificate.

A command, words, and a program of a few lines, which needs numpy and GroupMoments alone: no solver
of ours is trusted. No date, no user and no host: the same rows and settings give the same bytes.
"""

import math
import os
import platform
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from fairspan.certificates.proofs import LinesProof, Proof
from fairspan.extending import Display
from fairspan.problem.problem import Formula
from fairspan.problem.reduction import criterion_of
from fairspan.registry import names_of
from fairspan.report.facts.answers import Answer
from fairspan.typing import FloatArray
from fairspan.version import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn")
# What write_report takes where nothing is said.
_DEFAULTS = {
    "criterion": ("'minimax_loss'",),
    "center": ("None", "'global'"),
    "scale": ("None", "False"),
    "folds": ("10",),
    "level": ("0.95",),
    "material": ("0.01",),
}
_NOTHING = ("None",)
# What a call names and does not show.
_OBJECTS = ("models", "test")


@dataclass(frozen=True)
class Origin:
    """Where the rows of a report come from, and how it was requested.

    Attributes
    ----------
    name : str
        What the rows are called.
    title : str
        Of the report.
    input_sha256 : str or None
        Of the file, the folder or the numbers that were read; None where they lie elsewhere.
    command : str
        What makes the report again.
    moments : str
        The line of Python that makes the moments of the same rows.
    """

    name: str
    title: str
    input_sha256: str | None
    command: str
    moments: str


def provenance_facts(origin: Origin, settings: dict[str, Any]) -> dict[str, Any]:
    """What is needed to make the report again."""
    return {
        "fairspan": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
        "input_sha256": origin.input_sha256,
        "parameters": settings,
        "command": origin.command,
    }


def without_folders(word: str) -> str:
    """An absolute path by its last part: a page says nothing of the machine that made it.

    Examples
    --------
    >>> [without_folders(word) for word in ("/home/me/rows.csv", "--test=/tmp/b.csv", "data/c.csv")]
    ['rows.csv', '--test=b.csv', 'data/c.csv']
    """
    option, mark, value = word.rpartition("=")
    return f"{option}{mark}{Path(value).name if Path(value).is_absolute() else value}"


def title_of(name: str) -> str:
    """The title of a report that was given none."""
    return f"What PCA does to each group of {name}"


def origin_of_call(
    X: Any,
    sensitive_features: Any,
    fingerprint: str | None,
    *,
    sample_weight: Any,
    max_groups: int | None,
    **settings: Any,
) -> Origin:
    """The origin of a report that `write_report` makes; rows in memory are named, not shown.

    Parameters
    ----------
    X, sensitive_features, sample_weight, max_groups
        As they were passed; X is None where moments were.
    fingerprint : str or None
        SHA-256 of the rows.
    **settings
        The others as they were passed, `name` and `title` among them.
    """
    if X is None:
        given = "moments=moments"
        moments = 'moments = GroupMoments.load("moments.npz")  # after moments.save("moments.npz")'
    else:
        words = [repr(without_folders(os.fspath(X))) if _is_path(X) else "X"]
        # Rows that were opened bring their own groups.
        is_opened = sensitive_features is None
        words.append("None" if is_opened else _named("sensitive_features", sensitive_features, X))
        if sample_weight is not None:
            words.append(f"sample_weight={_named('sample_weight', sample_weight, X)}")
        if max_groups is not None:
            words.append(f"max_groups={max_groups}")
        given = ", ".join(words)
        moments = f"moments = GroupMoments.from_rows({given})"
    told = {key: _spelled(value) for key, value in settings.items()}
    told |= {key: key for key in _OBJECTS if settings[key] is not None}
    chosen = [
        f"{key}={text}" for key, text in told.items() if text not in _DEFAULTS.get(key, _NOTHING)
    ]
    of_rows = Path(X).name if _is_path(X) else "these rows"
    name, title = of_rows if settings["name"] is None else settings["name"], settings["title"]
    return Origin(
        name=name,
        title=title_of(name) if title is None else title,
        input_sha256=fingerprint,
        command=f"fairspan.write_report({', '.join(['path', given, *chosen])})",
        moments=moments,
    )


def _spelled(value: Any) -> str:
    """A setting as Python: a criterion by its name where its own settings are the default ones."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_spelled, value))}]"
    if hasattr(value, "pieces"):  # a criterion
        is_usual = value.name in names_of("criterion") and value == criterion_of(value.name)
        return repr(value.name if is_usual else value)
    return type(value).__name__ if isinstance(value, Display) else repr(value)


def _named(name: str, value: Any, X: Any) -> str:
    """Names of columns as they are; anything else by the name of the parameter."""
    several = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    return repr(value) if isinstance(value, str) or (several and _is_path(X)) else name


def _is_path(X: Any) -> bool:
    return isinstance(X, str | os.PathLike)


# Numbers that a program may hold: the components of moderate tables.
_MOST_NUMBERS = 2500
# What computes everything again from a saved model, or from a fitted one.
_CALLS = ("fairspan verify MODEL DATA", "fairspan.verify(model, moments)")
_OF_CALLS = (
    "For a saved model, the command computes objective and bound again from the rows. Its exit "
    "status is 0 if the certificate holds; DATA are rows, read with the options of the fit, or a "
    "file of moments. The call does the same in Python, and takes rows as well: "
    "fairspan.verify(model, X, sensitive_features). Neither uses a solver. The program below "
    "requires only numpy and the formulas."
)
# Plain formulas resolve less than what the certificate leaves room for.
_ROUNDING, _SHARE = 4 * float(np.finfo(np.float64).eps), 1e-9
# Digits of a component that a reader may compare; its last ones are left to rounding.
_DIGITS = 13
_WIDTH = 78


_BY_LINES = (
    "S_g is the second moment matrix of group g. Every row w of `lines` is the weights of a "
    "supporting line: no subspace of as many dimensions has errors with w_1 e_1 + w_2 e_2 below "
    "L(M), {rest} of M = w_1 S_1 + w_2 S_2 (Ky Fan 1949). So the errors of every subspace lie in a "
    "polygon. The criterion grows with both errors together, so it is least on the sides, and as a "
    "function of the errors it is the larger of two concave ones, each of which is at least its "
    "chord."
)
_BY_A_LIMIT = (
    "The bound rests on the restriction's limit as well; no mixture of the groups' second moments "
    "alone proves it."
)

_START = ("import numpy as np", "from fairspan import GroupMoments", "")
_LEAST_LEFT = """\
def least_left(matrix):  # the sum of all eigenvalues but the {dimensions} largest
    return float(np.linalg.eigvalsh(matrix)[: len(matrix) - {dimensions}].sum())
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


def verification_facts(answer: Answer, origin: Origin) -> dict[str, Any]:
    """The formula in words, and a program that sets `objective` and `lower_bound`.

    Parameters
    ----------
    answer : Answer
        Whose certificate is verified.
    origin : Origin

    Returns
    -------
    dict
        `snippet` does not set what is told to be out of its reach, such as the objective where the
        components are too many numbers to be written down. `tolerance` is how close both are to the
        certificate's.
    """
    formula = formula_of(answer)
    from_mixture = _mixture_tells(answer)
    has_objective = from_mixture or answer.subspace.components.size <= _MOST_NUMBERS
    return {
        "model": answer.name,
        "calls": list(_CALLS),
        "of_calls": _OF_CALLS,
        "words": _words(answer, formula, has_objective=has_objective),
        "snippet": program(
            answer,
            formula,
            origin.moments,
            components=None if from_mixture or not has_objective else answer.subspace.components,
            has_objective=has_objective,
        ),
        "objective": answer.certificate.objective,
        "lower_bound": answer.certificate.lower_bound,
        "tolerance": _tolerance(answer),
    }


def _tolerance(answer: Answer) -> float:
    """What rounding does to the certificate and to plain formulas, and a share of the objective."""
    solution, problem = answer.certificate, answer.problem
    roundings = _ROUNDING * problem.n_features * problem.second_moments.traces
    plain = problem.criterion.rounding(roundings, solution.errors, problem)
    return solution.resolution + plain + _SHARE * abs(solution.scale)


def _mixture_tells(answer: Answer) -> bool:
    """Whether the leading eigenvectors of the mixture have the objective: then they are enough."""
    solution, problem = answer.certificate, answer.problem
    leading = problem.second_moments.leading(proving_weights(answer), problem.n_components).vectors
    value = problem.criterion.value(problem.errors(leading), problem)
    close = abs(value - solution.objective) <= max(
        solution.tolerance, solution.resolution, 1e-9 * abs(solution.scale)
    )
    return bool(close) and solution.violation <= solution.tolerance


def _words(answer: Answer, formula: Formula, *, has_objective: bool) -> list[str]:
    d, solution = answer.problem.n_components, answer.certificate
    largest = "largest" if d == 1 else f"{d} largest"
    rest = f"the sum of all eigenvalues but the {largest}"
    bound = "no bound is known"
    if math.isfinite(solution.lower_bound):
        among = " with equal errors" if answer.problem.criterion.wants_equal_errors else ""
        bound = f"no subspace of as many dimensions{among} is below {solution.lower_bound:.6g}"
    words = [
        f"The objective is {formula.objective_in_words} Here it is {solution.objective:.6g}, and "
        f"{bound}.",
        formula.bound_in_words.format(rest=rest),
    ]
    if not has_bound(answer):
        words.append("The program below recomputes the objective; the command checks the bound.")
    if not has_objective:
        words.append(
            "The components are too many numbers to be written down here, so the program below "
            "recomputes the bound; a saved model has the components."
        )
    return words


def formula_of(answer: Answer) -> Formula:
    """How the criterion of a fit is computed, and its bound from the proof that was found."""
    formula = answer.problem.criterion.formula
    proof = answer.certificate.proof
    if proof is None or type(proof) is Proof:
        return formula
    return replace(formula, bound_in_words=_BY_LINES if has_bound(answer) else _BY_A_LIMIT)


def has_bound(answer: Answer) -> bool:
    """Whether the program recomputes the bound: from one mixture, or from supporting lines."""
    proof = answer.certificate.proof
    return isinstance(proof, LinesProof) or type(proof) is Proof


def program(
    answer: Answer,
    formula: Formula,
    moments: str,
    *,
    components: FloatArray | None,
    has_objective: bool,
) -> str:
    """Lines of Python that set `objective` and `lower_bound`.

    Parameters
    ----------
    answer : Answer
    formula : Formula
    moments : str
        The line that sets `moments`.
    components : (d, p) array or None
        None where the leading eigenvectors of the mixture are the answer.
    has_objective : bool
    """
    lines = [
        *_START,
        moments,
        *_scaled(answer),
        f'S = moments.second_moments("{answer.subspace.center}")  # one matrix for each group',
        "q = moments.proportions",
        f"weights = {_numbers(proving_weights(answer))}",
        "",
        *_LEAST_LEFT.format(dimensions=answer.problem.n_components).splitlines(),
        "",
        "traces = np.array([np.trace(each) for each in S])",
        "best = np.array([least_left(each) for each in S])  # least error of each group alone",
        "mixture = np.tensordot(weights, S, axes=1)",
    ]
    if has_objective:
        lines += [
            *_components(answer, components),
            "left = np.eye(len(V)) - V @ V.T",
            "errors = np.array([np.trace(left @ each @ left) for each in S])",
        ]
    lines += _parameters(answer)
    if has_objective:
        lines.append(f"objective = {formula.objective}")
    proof = answer.certificate.proof
    if isinstance(proof, LinesProof):
        rows = [f"    {each}," for each in proof.lines.tolist()]
        lines += ["lines = np.array([", *rows, "])", *_POLYGON.splitlines()]
    elif has_bound(answer):
        lines.append(f"lower_bound = {formula.bound}")
    told = ["objective"] * has_objective + ["lower_bound"] * has_bound(answer)
    return "\n".join([*lines, f"print({', '.join(told)})", ""])


def proving_weights(answer: Answer) -> FloatArray:
    """The weights of the mixture that proves the bound."""
    return answer.criterion.dual_weights(answer.certificate.weights, answer.problem)


def _scaled(answer: Answer) -> list[str]:
    in_units = [
        "deviations = moments.standard_deviations",
        "moments = moments.divided_by(np.where(deviations > 0, deviations, 1))",
    ]
    return [] if answer.subspace.scale is None else in_units


def _components(answer: Answer, components: FloatArray | None) -> list[str]:
    if components is None:
        return [f"V = np.linalg.eigh(mixture)[1][:, -{answer.problem.n_components}:]"]
    text = ", ".join(map(str, components.round(_DIGITS).ravel().tolist()))
    numbers = wrap(text, _WIDTH, break_on_hyphens=False)
    return ["V = np.array([", *numbers, f"]).reshape({components.shape}).T"]


def _parameters(answer: Answer) -> list[str]:
    """Lines that set the criterion's parameters, and what its formula needs beside them."""
    problem, criterion = answer.problem, answer.criterion
    formula = criterion.formula
    values = criterion.formula_parameters(problem, answer.certificate.weights)
    lines = [
        f"{name} = {_numbers(value) if isinstance(value, np.ndarray) else repr(value)}"
        for name, value in values.items()
    ]
    return [*lines, "", *formula.function.splitlines(), ""] if formula.function else lines


def _numbers(values: Any) -> str:
    return f"np.array({np.asarray(values, dtype=np.float64).tolist()})"
