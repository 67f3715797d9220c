"""Provenance of a report, and instructions for verifying its certificate.

These are a command, an explanation, and a short program that needs only numpy and GroupMoments and
uses none of the library's solvers. No date, user or host name is included, so output is
reproducible.
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
from fairspan.problem.criteria import get_criterion
from fairspan.problem.formulas import CriterionFormula
from fairspan.problem.problem import Criterion
from fairspan.registry import builtin_names
from fairspan.report.fitted_criterion import FittedCriterion
from fairspan.typing import FloatArray
from fairspan.version import __version__

_REPORTED_PACKAGES = ("numpy", "scipy", "scikit-learn")
# Code of the default arguments of write_report, which is omitted.
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
# Arguments shown by name rather than by value.
_NAMED_ONLY = ("models", "test", "clusters")


@dataclass(frozen=True)
class Provenance:
    """Provenance of a report: its data and how it was requested.

    Attributes
    ----------
    name : str
        Name of the data.
    title : str
        Title of the report.
    input_sha256 : str or None
        SHA-256 of the input file, folder or arrays; None for remote data.
    command : str
        Command or call that reproduces the report.
    moments_code : str
        Python code that computes the moments of the same rows.
    """

    name: str
    title: str
    input_sha256: str | None
    command: str
    moments_code: str

    def to_dict(self) -> dict[str, Any]:
        """Return versions, input hash and command needed to reproduce the report."""
        return {
            "fairspan": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in _REPORTED_PACKAGES},
            "input_sha256": self.input_sha256,
            "command": self.command,
        }


def without_directories(argument: str) -> str:
    """Reduce an absolute path to its last component.

    Pages must not reveal the directories of the machine.

    Examples
    --------
    >>> arguments = ("/home/me/rows.csv", "--test=/tmp/b.csv", "data/c.csv")
    >>> [without_directories(argument) for argument in arguments]
    ['rows.csv', '--test=b.csv', 'data/c.csv']
    """
    option, equals_sign, value = argument.rpartition("=")
    path = Path(value)
    if path.is_absolute():
        value = path.name
    return f"{option}{equals_sign}{value}"


def default_title(name: str) -> str:
    """Return the default title of a report."""
    return f"How PCA affects each group of {name}"


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
    """Return the provenance of a `write_report` call; in-memory data are represented by name.

    Parameters
    ----------
    X, sensitive_features, sample_weight, max_groups, on_missing
        Arguments as passed; X is None if moments were passed.
    fingerprint : str or None
        SHA-256 of the rows.
    **settings
        All other arguments as passed, including `name` and `title`.
    """
    if X is None:
        data_arguments = "moments=moments"
        moments_code = (
            'moments = GroupMoments.load("moments.npz")  # after moments.save("moments.npz")'
        )
    else:
        data_arguments = _data_arguments(
            X, sensitive_features, sample_weight, max_groups, on_missing
        )
        moments_code = f"moments = GroupMoments.from_rows({data_arguments})"
    texts = {name: _argument_code(name, value) for name, value in settings.items()}
    nondefault = [
        f"{name}={text}"
        for name, text in texts.items()
        if text not in _DEFAULT_TEXTS.get(name, _OMITTED)
    ]
    data_name = settings["name"]
    if data_name is None:
        data_name = Path(X).name if _is_path(X) else "these rows"
    title = settings["title"]
    if title is None:
        title = default_title(data_name)
    return Provenance(
        name=data_name,
        title=title,
        input_sha256=fingerprint,
        command=f"fairspan.write_report({', '.join(['path', data_arguments, *nondefault])})",
        moments_code=moments_code,
    )


def _data_arguments(
    X: Any, sensitive_features: Any, sample_weight: Any, max_groups: int | None, on_missing: str
) -> str:
    """Return the code of the arguments that select the rows."""
    arguments = [repr(without_directories(os.fspath(X))) if _is_path(X) else "X"]
    # Opened rows contain their groups.
    groups = "None"
    if sensitive_features is not None:
        groups = _column_or_parameter_name("sensitive_features", sensitive_features, X)
    arguments.append(groups)
    if sample_weight is not None:
        weights = _column_or_parameter_name("sample_weight", sample_weight, X)
        arguments.append(f"sample_weight={weights}")
    if max_groups is not None:
        arguments.append(f"max_groups={max_groups}")
    if on_missing != "error":
        arguments.append(f'on_missing="{on_missing}"')
    return ", ".join(arguments)


def _argument_code(name: str, value: Any) -> str:
    """Format an argument as Python code; some are represented by their name."""
    if name in _NAMED_ONLY and not isinstance(value, str | None):
        return name
    return _as_code(value)


def _as_code(value: Any) -> str:
    """Format a setting as Python code; a criterion with default parameters by its name."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_as_code, value))}]"
    if isinstance(value, Criterion):
        has_defaults = value.name in builtin_names("criterion") and value == get_criterion(
            value.name
        )
        return repr(value.name if has_defaults else value)
    if isinstance(value, Display):
        return type(value).__name__
    return repr(value)


def _column_or_parameter_name(name: str, value: Any, X: Any) -> str:
    """Format column names as code; represent anything else by the parameter's name."""
    are_names = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    if isinstance(value, str) or (are_names and _is_path(X)):
        return repr(value)
    return name


def _is_path(X: Any) -> bool:
    return isinstance(X, str | os.PathLike)


# Maximum number of component entries written into the program: more would fill many screens.
_MAX_COMPONENT_ENTRIES = 2500
# Commands that verify a saved or fitted model.
_COMMANDS = ("fairspan verify MODEL DATA", "fairspan.verify(model, moments)")
_COMMANDS_NOTE = (
    "For a saved model, the command recomputes objective and bound from the rows and exits with "
    "status 0 if the certificate holds. DATA are rows, read with the options of the fit, or a file "
    "of moments. The function does the same in Python and also accepts rows: "
    "fairspan.verify(model, X, sensitive_features). Neither uses a solver. The program below "
    "requires only numpy and the formulas."
)
# The plain formulas are less accurate than the certificate: rounding error per feature, relative to
# the variance of a group, and the agreement that is expected relative to the objective.
_ROUNDING_TOL = 4 * float(np.finfo(np.float64).eps)
_RELATIVE_TOL = 1e-9
# Decimals of components; further digits are rounding error.
_COMPONENT_DECIMALS = 13
# Characters in a line of component entries.
_LINE_WIDTH = 78


_LINES_PROOF_TEXT = (
    "S_g is the second moment matrix of group g. Each row w of `lines` gives a supporting line: no "
    "subspace of this dimension has errors with w_1 e_1 + w_2 e_2 below L(M), {rest} of "
    "M = w_1 S_1 + w_2 S_2 (Ky Fan 1949). The errors of all subspaces therefore lie in a polygon. "
    "The criterion increases in both errors, so its minimum over the polygon is on the edges, "
    "where it is the maximum of two concave functions, each bounded below by its chord."
)
_LIMIT_PROOF_TEXT = (
    "The bound also uses the limit of the restriction; it cannot be proven from a mixture of the "
    "groups' second moments alone."
)

_HEADER_CODE = ("import numpy as np", "from fairspan import GroupMoments", "")
_RESIDUAL_CODE = """\
def smallest_eigenvalue_sum(matrix):  # the sum of all eigenvalues but the {dimensions} largest
    return float(np.linalg.eigvalsh(matrix)[: len(matrix) - {dimensions}].sum())
"""
_LINES_BOUND_CODE = """\
offsets = [smallest_eigenvalue_sum(np.tensordot(line, S, axes=1)) for line in lines]
lines = np.vstack([lines, np.eye(2), -np.eye(2)])
offsets = np.array([*offsets, 0, 0, *-traces])
vertices = []  # intersections of two lines that satisfy all other constraints
for i in range(len(lines)):
    for j in range(i):
        if abs(np.linalg.det(lines[[i, j]])) > 1e-12:
            vertex = np.linalg.solve(lines[[i, j]], offsets[[i, j]])
            if (lines @ vertex >= offsets - 1e-10 * traces.sum()).all():
                vertices.append(np.maximum(vertex, 0))
middle = np.mean(vertices, axis=0)
vertices.sort(key=lambda vertex: np.arctan2(*(vertex - middle)))
lower_bound = np.inf
for vertex, following in zip(vertices, [*vertices[1:], vertices[0]]):
    points = vertex + np.linspace(0, 1, 5001)[:, None] * (following - vertex)
    J = np.array([worst(points, 0, 1), worst(points, 1, 0)])
    first, last = J[:, :-1], J[:, 1:]  # at the ends of each segment of the edge
    difference = J[0] - J[1]
    crosses = difference[:-1] * difference[1:] < 0
    fraction = difference[:-1] / np.where(crosses, difference[:-1] - difference[1:], 1)
    crossing = np.where(crosses, first[0] + fraction * (last[0] - first[0]), np.inf)
    smallest = np.minimum(np.minimum(first.max(axis=0), last.max(axis=0)), crossing)
    lower_bound = min(lower_bound, float(smallest.min()))
"""


def verification_program(fit: FittedCriterion, moments_code: str) -> dict[str, Any]:
    """Explain how the certificate is verified, and generate a program.

    The program computes `objective` and `lower_bound`.

    Parameters
    ----------
    fit : FittedCriterion
        Fit whose certificate is verified.
    moments_code : str
        Python code that sets `moments`.

    Returns
    -------
    dict
        The program omits what it cannot compute, such as the objective if there are too many
        component entries to write down; the explanation says so. `tolerance` is the expected
        agreement with the certificate.
    """
    certificate = fit.certificate
    problem = fit.problem
    proof = certificate.proof
    formula = problem.criterion.formula
    # The program supports proofs by one mixture or by supporting lines.
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
            "complement = np.eye(len(V)) - V @ V.T",
            "errors = np.array([np.trace(complement @ each @ complement) for each in S])",
        ]
    lines += _parameters_code(fit)
    if has_objective:
        lines.append(f"objective = {formula.objective_code}")
    if isinstance(proof, SupportingLinesProof):
        rows = [f"    {line}," for line in proof.lines.tolist()]
        lines += ["lines = np.array([", *rows, "])", *_LINES_BOUND_CODE.splitlines()]
    elif has_bound:
        lines.append(f"lower_bound = {formula.bound_code}")
    results = ["objective"] * has_objective + ["lower_bound"] * has_bound
    return {
        "commands": list(_COMMANDS),
        "commands_note": _COMMANDS_NOTE,
        "explanation": _explanation(fit, formula, has_objective=has_objective, has_bound=has_bound),
        "program": "\n".join([*lines, f"print({', '.join(results)})", ""]),
        "objective": certificate.objective,
        "lower_bound": certificate.lower_bound,
        # Rounding errors of certificate and plain formulas, plus a relative tolerance.
        "absolute_tol": certificate.resolution + rounding + _RELATIVE_TOL * abs(certificate.scale),
    }


def _mixture_attains_objective(fit: FittedCriterion) -> bool:
    """Whether the leading eigenvectors of the mixture attain the objective.

    If so, the components need not be written down.
    """
    certificate = fit.certificate
    problem = fit.problem
    leading = problem.second_moments.leading(dual_weights(fit), problem.n_components).vectors
    value = problem.criterion.value(problem.errors(leading), problem)
    tolerance = max(
        certificate.absolute_tol, certificate.resolution, _RELATIVE_TOL * abs(certificate.scale)
    )
    is_close = bool(abs(value - certificate.objective) <= tolerance)
    return is_close and certificate.constraint_violation <= certificate.absolute_tol


def _explanation(
    fit: FittedCriterion, formula: CriterionFormula, *, has_objective: bool, has_bound: bool
) -> list[str]:
    """Explain the formulas of objective and bound, and what the program omits."""
    d = fit.problem.n_components
    certificate = fit.certificate
    largest = "largest" if d == 1 else f"{d} largest"
    rest = f"the sum of all eigenvalues but the {largest}"
    bound = "no bound is known"
    if math.isfinite(certificate.lower_bound):
        condition = fit.problem.criterion.constraint_text
        bound = (
            f"no subspace of this dimension{condition} has a value below "
            f"{certificate.lower_bound:.6g}"
        )
    paragraphs = [
        f"The objective is {formula.objective_text} Here it is {certificate.objective:.6g}, "
        f"and {bound}.",
        formula.bound_text.format(rest=rest),
    ]
    if not has_bound:
        paragraphs.append(
            "The program below recomputes only the objective; the command checks the bound."
        )
    if not has_objective:
        paragraphs.append(
            "The components have too many entries to be listed here, so the program below "
            "recomputes only the bound; a saved model contains the components."
        )
    return paragraphs


def dual_weights(fit: FittedCriterion) -> FloatArray:
    """Weights of the mixture that proves the bound."""
    return fit.problem.criterion.dual_feasible_weights(fit.certificate.weights, fit.problem)


def _moments_code(fit: FittedCriterion, moments_code: str) -> list[str]:
    """Code that sets the second moments, their mixture and the best errors."""
    scaling_code = []
    if fit.subspace.scale is not None:
        scaling_code = [
            "deviations = moments.standard_deviations",
            "moments = moments.divided_by(np.where(deviations > 0, deviations, 1))",
        ]
    return [
        *_HEADER_CODE,
        moments_code,
        *scaling_code,
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
    """Code that sets the components: leading eigenvectors of the mixture, or the entries."""
    if is_leading:
        return [f"V = np.linalg.eigh(mixture)[1][:, -{fit.problem.n_components}:]"]
    components = fit.subspace.components
    text = ", ".join(map(str, components.round(_COMPONENT_DECIMALS).ravel().tolist()))
    entries = wrap(text, _LINE_WIDTH, break_on_hyphens=False)
    return ["V = np.array([", *entries, f"]).reshape({components.shape}).T"]


def _parameters_code(fit: FittedCriterion) -> list[str]:
    """Code that sets the criterion's parameters and helper function."""
    criterion = fit.problem.criterion
    values = criterion.formula_parameters(fit.problem, fit.certificate.weights)
    lines = [
        f"{name} = {_array_code(value) if isinstance(value, np.ndarray) else repr(value)}"
        for name, value in values.items()
    ]
    helper_code = criterion.formula.helper_code
    if helper_code:
        lines += ["", *helper_code.splitlines(), ""]
    return lines


def _array_code(values: Any) -> str:
    return f"np.array({np.asarray(values, dtype=np.float64).tolist()})"
