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
from fairspan.report.curves import Fit
from fairspan.typing import FloatArray
from fairspan.version import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn")
# What write_report takes where nothing is said.
_DEFAULTS = {
    "criterion": ("'minimax_loss'",),
    "center": ("None", "'global'"),
    "scale": ("None", "False"),
    "folds": ("10",),
    "repeats": ("1",),
    "level": ("0.95",),
    "material": ("0.01",),
}
_NOTHING = ("None",)
# What a call names and does not show.
_OBJECTS = ("models", "test", "clusters")


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


def provenance(origin: Origin) -> dict[str, Any]:
    """What is needed to make the report again."""
    return {
        "fairspan": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
        "input_sha256": origin.input_sha256,
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
    on_missing: str,
    **settings: Any,
) -> Origin:
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
        if on_missing != "error":
            words.append(f'on_missing="{on_missing}"')
        given = ", ".join(words)
        moments = f"moments = GroupMoments.from_rows({given})"
    told = {key: _spelled(value) for key, value in settings.items()}
    told |= {key: key for key in _OBJECTS if not isinstance(settings[key], str | None)}
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


def verification_of(fit: Fit, moments: str) -> dict[str, Any]:
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
    has_bound = isinstance(proof, LinesProof) or type(proof) is Proof
    if proof is not None and type(proof) is not Proof:
        formula = replace(formula, bound_in_words=_BY_LINES if has_bound else _BY_A_LIMIT)
    from_mixture = _mixture_tells(fit)
    has_objective = from_mixture or certificate.components.size <= _MOST_NUMBERS
    roundings = _ROUNDING * problem.n_features * problem.second_moments.traces
    rounding = problem.criterion.rounding(roundings, certificate.errors, problem)
    lines = _matrices(fit, moments)
    if has_objective:
        lines += [
            *_components(fit, is_leading=from_mixture),
            "left = np.eye(len(V)) - V @ V.T",
            "errors = np.array([np.trace(left @ each @ left) for each in S])",
        ]
    lines += _parameters(fit)
    if has_objective:
        lines.append(f"objective = {formula.objective}")
    if isinstance(proof, LinesProof):
        rows = [f"    {each}," for each in proof.lines.tolist()]
        lines += ["lines = np.array([", *rows, "])", *_POLYGON.splitlines()]
    elif has_bound:
        lines.append(f"lower_bound = {formula.bound}")
    told = ["objective"] * has_objective + ["lower_bound"] * has_bound
    return {
        "calls": list(_CALLS),
        "of_calls": _OF_CALLS,
        "words": _words(fit, formula, has_objective=has_objective, has_bound=has_bound),
        "snippet": "\n".join([*lines, f"print({', '.join(told)})", ""]),
        "objective": certificate.objective,
        "lower_bound": certificate.lower_bound,
        # What rounding does to the certificate and to plain formulas, and a share of the objective.
        "tolerance": certificate.resolution + rounding + _SHARE * abs(certificate.scale),
    }


def _mixture_tells(fit: Fit) -> bool:
    """Whether the leading eigenvectors of the mixture have the objective: then they are enough."""
    certificate, problem = fit.certificate, fit.problem
    leading = problem.second_moments.leading(proving_weights(fit), problem.n_components).vectors
    value = problem.criterion.value(problem.errors(leading), problem)
    close = abs(value - certificate.objective) <= max(
        certificate.tolerance, certificate.resolution, 1e-9 * abs(certificate.scale)
    )
    return bool(close) and certificate.violation <= certificate.tolerance


def _words(fit: Fit, formula: Formula, *, has_objective: bool, has_bound: bool) -> list[str]:
    d, certificate = fit.problem.n_components, fit.certificate
    largest = "largest" if d == 1 else f"{d} largest"
    rest = f"the sum of all eigenvalues but the {largest}"
    bound = "no bound is known"
    if math.isfinite(certificate.lower_bound):
        among = fit.problem.criterion.condition
        bound = f"no subspace of as many dimensions{among} is below {certificate.lower_bound:.6g}"
    words = [
        f"The objective is {formula.objective_in_words} Here it is {certificate.objective:.6g}, "
        f"and {bound}.",
        formula.bound_in_words.format(rest=rest),
    ]
    if not has_bound:
        words.append("The program below recomputes the objective; the command checks the bound.")
    if not has_objective:
        words.append(
            "The components are too many numbers to be written down here, so the program below "
            "recomputes the bound; a saved model has the components."
        )
    return words


def proving_weights(fit: Fit) -> FloatArray:
    """The weights of the mixture that proves the bound."""
    return fit.problem.criterion.dual_weights(fit.certificate.weights, fit.problem)


def _matrices(fit: Fit, moments: str) -> list[str]:
    """Lines that set the second moments, their mixture, and the best errors."""
    in_units = [
        "deviations = moments.standard_deviations",
        "moments = moments.divided_by(np.where(deviations > 0, deviations, 1))",
    ]
    return [
        *_START,
        moments,
        *(in_units if fit.subspace.scale is not None else ()),
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


def _components(fit: Fit, *, is_leading: bool) -> list[str]:
    """Lines that set them: the leading eigenvectors of the mixture, or the numbers themselves."""
    if is_leading:
        return [f"V = np.linalg.eigh(mixture)[1][:, -{fit.problem.n_components}:]"]
    components = fit.subspace.components
    text = ", ".join(map(str, components.round(_DIGITS).ravel().tolist()))
    numbers = wrap(text, _WIDTH, break_on_hyphens=False)
    return ["V = np.array([", *numbers, f"]).reshape({components.shape}).T"]


def _parameters(fit: Fit) -> list[str]:
    """Lines that set the criterion's parameters, and what its formula needs beside them."""
    criterion = fit.problem.criterion
    values = criterion.formula_parameters(fit.problem, fit.certificate.weights)
    lines = [
        f"{name} = {_numbers(value) if isinstance(value, np.ndarray) else repr(value)}"
        for name, value in values.items()
    ]
    function = criterion.formula.function
    return [*lines, "", *function.splitlines(), ""] if function else lines


def _numbers(values: Any) -> str:
    return f"np.array({np.asarray(values, dtype=np.float64).tolist()})"
