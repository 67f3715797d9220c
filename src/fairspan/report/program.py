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

from fairspan.certificates.proofs import Proof, SupportingLinesProof
from fairspan.extending import Display
from fairspan.problem.problem import CriterionFormula
from fairspan.problem.reduction import get_criterion
from fairspan.registry import builtin_names
from fairspan.report.curves import FittedCriterion
from fairspan.typing import FloatArray
from fairspan.version import __version__

_REPORTED_PACKAGES = ("numpy", "scipy", "scikit-learn")
# What write_report takes where nothing is said.
_DEFAULT_TEXTS = {
    "criterion": ("'minimax_loss'",),
    "center": ("None", "'global'"),
    "scale": ("None", "False"),
    "folds": ("10",),
    "repeats": ("1",),
    "level": ("0.95",),
    "materiality": ("0.01",),
}
_OMITTED = ("None",)
# What a call names and does not show.
_NAMED_ONLY = ("models", "test", "clusters")


@dataclass(frozen=True)
class Provenance:
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
    moments_code: str


def to_dict(origin: Provenance) -> dict[str, Any]:
    """What is needed to make the report again."""
    return {
        "fairspan": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _REPORTED_PACKAGES},
        "input_sha256": origin.input_sha256,
        "command": origin.command,
    }


def without_directories(argument: str) -> str:
    """An absolute path by its last part: a page says nothing of the machine that made it.

    Examples
    --------
    >>> [without_directories(word) for word in ("/home/me/rows.csv", "--test=/tmp/b.csv", "data/c.csv")]
    ['rows.csv', '--test=b.csv', 'data/c.csv']
    """
    option, mark, value = argument.rpartition("=")
    return f"{option}{mark}{Path(value).name if Path(value).is_absolute() else value}"


def default_title(name: str) -> str:
    """The title of a report that was given none."""
    return f"What PCA does to each group of {name}"


def provenance_of_call(
    X: Any,
    sensitive_features: Any,
    fingerprint: str | None,
    *,
    sample_weight: Any,
    max_groups: int | None,
    on_missing: str,
    **settings: Any,
) -> Provenance:
    """The origin of a report that `write_report` makes; rows in memory are named, not shown.

    Parameters
    ----------
    X, sensitive_features, sample_weight, max_groups, on_missing
        As they were passed; X is None where moments were.
    fingerprint : str or None
        SHA-256 of the rows.
    **settings
        The others as they were passed, `name` and `title` among them.
    """
    if X is None:
        data_arguments = "moments=moments"
        moments = 'moments = GroupMoments.load("moments.npz")  # after moments.save("moments.npz")'
    else:
        arguments = [repr(without_directories(os.fspath(X))) if _is_path(X) else "X"]
        # Rows that were opened bring their own groups.
        is_opened = sensitive_features is None
        arguments.append(
            "None"
            if is_opened
            else _column_or_parameter_name("sensitive_features", sensitive_features, X)
        )
        if sample_weight is not None:
            arguments.append(
                f"sample_weight={_column_or_parameter_name('sample_weight', sample_weight, X)}"
            )
        if max_groups is not None:
            arguments.append(f"max_groups={max_groups}")
        if on_missing != "error":
            arguments.append(f'on_missing="{on_missing}"')
        data_arguments = ", ".join(arguments)
        moments = f"moments = GroupMoments.from_rows({data_arguments})"
    texts = {key: _as_code(value) for key, value in settings.items()}
    texts |= {key: key for key in _NAMED_ONLY if not isinstance(settings[key], str | None)}
    nondefault = [
        f"{key}={text}"
        for key, text in texts.items()
        if text not in _DEFAULT_TEXTS.get(key, _OMITTED)
    ]
    default_name = Path(X).name if _is_path(X) else "these rows"
    name, title = default_name if settings["name"] is None else settings["name"], settings["title"]
    return Provenance(
        name=name,
        title=default_title(name) if title is None else title,
        input_sha256=fingerprint,
        command=f"fairspan.write_report({', '.join(['path', data_arguments, *nondefault])})",
        moments_code=moments,
    )


def _as_code(value: Any) -> str:
    """A setting as Python: a criterion by its name where its own settings are the default ones."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_as_code, value))}]"
    if hasattr(value, "pieces"):  # a criterion
        is_usual = value.name in builtin_names("criterion") and value == get_criterion(value.name)
        return repr(value.name if is_usual else value)
    return type(value).__name__ if isinstance(value, Display) else repr(value)


def _column_or_parameter_name(name: str, value: Any, X: Any) -> str:
    """Names of columns as they are; anything else by the name of the parameter."""
    several = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    return repr(value) if isinstance(value, str) or (several and _is_path(X)) else name


def _is_path(X: Any) -> bool:
    return isinstance(X, str | os.PathLike)


# Numbers that a program may hold: the components of moderate tables.
_MAX_COMPONENT_ENTRIES = 2500
# What computes everything again from a saved model, or from a fitted one.
_COMMANDS = ("fairspan verify MODEL DATA", "fairspan.verify(model, moments)")
_COMMANDS_NOTE = (
    "For a saved model, the command computes objective and bound again from the rows. Its exit "
    "status is 0 if the certificate holds; DATA are rows, read with the options of the fit, or a "
    "file of moments. The call does the same in Python, and takes rows as well: "
    "fairspan.verify(model, X, sensitive_features). Neither uses a solver. The program below "
    "requires only numpy and the formulas."
)
# Plain formulas resolve less than what the certificate leaves room for.
_ROUNDING_TOL, _RELATIVE_TOL = 4 * float(np.finfo(np.float64).eps), 1e-9
# Digits of a component that a reader may compare; its last ones are left to rounding.
_COMPONENT_DECIMALS = 13
_LINE_WIDTH = 78


_LINES_PROOF_TEXT = (
    "S_g is the second moment matrix of group g. Every row w of `lines` is the weights of a "
    "supporting line: no subspace of as many dimensions has errors with w_1 e_1 + w_2 e_2 below "
    "L(M), {rest} of M = w_1 S_1 + w_2 S_2 (Ky Fan 1949). So the errors of every subspace lie in a "
    "polygon. The criterion grows with both errors together, so it is least on the sides, and as a "
    "function of the errors it is the larger of two concave ones, each of which is at least its "
    "chord."
)
_LIMIT_PROOF_TEXT = (
    "The bound rests on the restriction's limit as well; no mixture of the groups' second moments "
    "alone proves it."
)

_HEADER_CODE = ("import numpy as np", "from fairspan import GroupMoments", "")
_RESIDUAL_CODE = """\
def smallest_eigenvalue_sum(matrix):  # the sum of all eigenvalues but the {dimensions} largest
    return float(np.linalg.eigvalsh(matrix)[: len(matrix) - {dimensions}].sum())
"""
_LINES_BOUND_CODE = """\
ends = [smallest_eigenvalue_sum(np.tensordot(each, S, axes=1)) for each in lines]
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


def verification_program(fit: FittedCriterion, moments_code: str) -> dict[str, Any]:
    """The formula in words, and a program that sets `objective` and `lower_bound`.

    Parameters
    ----------
    fit : Fit
        Whose certificate is verified.
    moments : str
        The line of Python that sets `moments`.

    Returns
    -------
    dict
        `snippet` does not set what is told to be out of its reach, such as the objective where the
        components are too many numbers to be written down. `tolerance` is how close both are to the
        certificate's.
    """
    certificate, problem, proof = fit.certificate, fit.problem, fit.certificate.proof
    formula = problem.criterion.formula
    # From one mixture, or from supporting lines.
    has_bound = isinstance(proof, SupportingLinesProof) or type(proof) is Proof
    if proof is not None and type(proof) is not Proof:
        formula = replace(formula, bound_text=_LINES_PROOF_TEXT if has_bound else _LIMIT_PROOF_TEXT)
    is_leading = _mixture_attains_objective(fit)
    has_objective = is_leading or certificate.components.size <= _MAX_COMPONENT_ENTRIES
    roundings = _ROUNDING_TOL * problem.n_features * problem.second_moments.traces
    rounding = problem.criterion.rounding_bound(roundings, certificate.errors, problem)
    lines = _moments_code(fit, moments_code)
    if has_objective:
        lines += [
            *_components_code(fit, is_leading=is_leading),
            "left = np.eye(len(V)) - V @ V.T",
            "errors = np.array([np.trace(left @ each @ left) for each in S])",
        ]
    lines += _parameters_code(fit)
    if has_objective:
        lines.append(f"objective = {formula.objective_code}")
    if isinstance(proof, SupportingLinesProof):
        rows = [f"    {each}," for each in proof.lines.tolist()]
        lines += ["lines = np.array([", *rows, "])", *_LINES_BOUND_CODE.splitlines()]
    elif has_bound:
        lines.append(f"lower_bound = {formula.bound_code}")
    texts = ["objective"] * has_objective + ["lower_bound"] * has_bound
    return {
        "calls": list(_COMMANDS),
        "of_calls": _COMMANDS_NOTE,
        "words": _explanation(fit, formula, has_objective=has_objective, has_bound=has_bound),
        "snippet": "\n".join([*lines, f"print({', '.join(texts)})", ""]),
        "objective": certificate.objective,
        "lower_bound": certificate.lower_bound,
        # What rounding does to the certificate and to plain formulas, and a share of the objective.
        "tolerance": certificate.resolution + rounding + _RELATIVE_TOL * abs(certificate.scale),
    }


def _mixture_attains_objective(fit: FittedCriterion) -> bool:
    """Whether the leading eigenvectors of the mixture have the objective: then they are enough."""
    certificate, problem = fit.certificate, fit.problem
    leading = problem.second_moments.leading(dual_weights(fit), problem.n_components).vectors
    value = problem.criterion.value(problem.errors(leading), problem)
    close = abs(value - certificate.objective) <= max(
        certificate.absolute_tol, certificate.resolution, 1e-9 * abs(certificate.scale)
    )
    return bool(close) and certificate.constraint_violation <= certificate.absolute_tol


def _explanation(
    fit: FittedCriterion, formula: CriterionFormula, *, has_objective: bool, has_bound: bool
) -> list[str]:
    d, certificate = fit.problem.n_components, fit.certificate
    largest = "largest" if d == 1 else f"{d} largest"
    rest = f"the sum of all eigenvalues but the {largest}"
    bound = "no bound is known"
    if math.isfinite(certificate.lower_bound):
        condition = fit.problem.criterion.constraint_text
        bound = (
            f"no subspace of as many dimensions{condition} is below {certificate.lower_bound:.6g}"
        )
    arguments = [
        f"The objective is {formula.objective_text} Here it is {certificate.objective:.6g}, "
        f"and {bound}.",
        formula.bound_text.format(rest=rest),
    ]
    if not has_bound:
        arguments.append(
            "The program below recomputes the objective; the command checks the bound."
        )
    if not has_objective:
        arguments.append(
            "The components are too many numbers to be written down here, so the program below "
            "recomputes the bound; a saved model has the components."
        )
    return arguments


def dual_weights(fit: FittedCriterion) -> FloatArray:
    """The weights of the mixture that proves the bound."""
    return fit.problem.criterion.dual_feasible_weights(fit.certificate.weights, fit.problem)


def _moments_code(fit: FittedCriterion, moments: str) -> list[str]:
    """Lines that set the second moments, their mixture, and the best errors."""
    in_units = [
        "deviations = moments.standard_deviations",
        "moments = moments.divided_by(np.where(deviations > 0, deviations, 1))",
    ]
    return [
        *_HEADER_CODE,
        moments,
        *(in_units if fit.subspace.scale is not None else ()),
        f'S = moments.second_moments("{fit.subspace.center}")  # one matrix for each group',
        "q = moments.proportions",
        f"weights = {_array_code(dual_weights(fit))}",
        "",
        *_RESIDUAL_CODE.format(dimensions=fit.problem.n_components).splitlines(),
        "",
        "traces = np.array([np.trace(each) for each in S])",
        "best = np.array([smallest_eigenvalue_sum(each) for each in S])  # best errors",
        "mixture = np.tensordot(weights, S, axes=1)",
    ]


def _components_code(fit: FittedCriterion, *, is_leading: bool) -> list[str]:
    """Lines that set them: the leading eigenvectors of the mixture, or the numbers themselves."""
    if is_leading:
        return [f"V = np.linalg.eigh(mixture)[1][:, -{fit.problem.n_components}:]"]
    components = fit.subspace.components
    text = ", ".join(map(str, components.round(_COMPONENT_DECIMALS).ravel().tolist()))
    numbers = wrap(text, _LINE_WIDTH, break_on_hyphens=False)
    return ["V = np.array([", *numbers, f"]).reshape({components.shape}).T"]


def _parameters_code(fit: FittedCriterion) -> list[str]:
    """Lines that set the criterion's parameters, and what its formula needs beside them."""
    criterion = fit.problem.criterion
    values = criterion.formula_parameters(fit.problem, fit.certificate.weights)
    lines = [
        f"{name} = {_array_code(value) if isinstance(value, np.ndarray) else repr(value)}"
        for name, value in values.items()
    ]
    function = criterion.formula.helper_code
    return [*lines, "", *function.splitlines(), ""] if function else lines


def _array_code(values: Any) -> str:
    return f"np.array({np.asarray(values, dtype=np.float64).tolist()})"
