"""Fits to rows some of which are huge, or which lie in few dimensions, are right.

Errors of the returned components are computed from the rows in fractions, without code of the
library, and so is the rank of the rows.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import fairspan as fs
from fairspan.errors import FairspanError
from torture.tally import Tally, case_generator
from torture.wrong_answer import WrongAnswer

FloatArray = np.ndarray
CRITERIA = ("minimax_loss", "minimax_error", "total_error", "error_gap", "robust_error_gap")
# An objective that is called optimal is known to this share of itself.
_MAX_RELATIVE_ERROR = 1e-6
# Errors of rows that lie in the subspace, relative to the variance of ordinary rows.
_ZERO = 1e-9


@dataclass(frozen=True, eq=False)
class HugeRows:
    """A problem with huge rows."""

    values: FloatArray
    groups: FloatArray
    n_components: int
    settings: dict[str, Any]

    @property
    def size(self) -> int:
        return self.values.size

    def code(self) -> str:
        return f"rows {self.values.shape}, d = {self.n_components}, {self.settings}"

    def fit(self) -> fs.FairPCA:
        model = fs.FairPCA(self.n_components, **self.settings)
        return model.fit(self.values, sensitive_features=self.groups)


def draw_problem(rng: np.random.Generator) -> HugeRows:
    """Draw rows of any rank, of which up to d + 1 are multiplied by up to 1e18."""
    n = int(rng.integers(8, 30))
    p = int(rng.integers(3, 7))
    rank = int(rng.integers(1, p + 1))
    n_components = int(rng.integers(1, p))
    # Small integers keep products of factors exact, and with them the rank.
    values = rng.integers(-4, 5, (n, rank)) @ rng.integers(-4, 5, (rank, p)).astype(float)
    if rng.integers(2):
        values += rng.integers(-3, 4, p) * 2.0 ** rng.integers(0, 20)
    n_huge = int(rng.integers(0, n_components + 2))
    huge = rng.choice(n, n_huge, replace=False)
    values[huge] *= 2.0 ** rng.integers(8, 60)
    if rng.integers(4) == 0:
        values *= 2.0 ** rng.integers(-20, 20, p)
    groups = rng.permutation(np.arange(n) % int(rng.integers(2, 4)))
    settings = {
        "criterion": str(rng.choice(CRITERIA)),
        "center": str(rng.choice(["global", "global", "group"])),
        "nested": False,
    }
    return HugeRows(values, groups, n_components, settings)


def centered_rows(problem: HugeRows) -> list[list[Fraction]]:
    """The rows about the center of the errors, in fractions."""
    rows = [[Fraction(value) for value in row] for row in problem.values.tolist()]
    labels = problem.groups.tolist()
    if problem.settings["center"] == "global":
        labels = [0] * len(rows)
    means = {}
    for label in set(labels):
        members = [row for row, other in zip(rows, labels, strict=True) if other == label]
        means[label] = [sum(column) / len(members) for column in zip(*members, strict=True)]
    return [
        [value - mean for value, mean in zip(row, means[label], strict=True)]
        for row, label in zip(rows, labels, strict=True)
    ]


def exact_errors(problem: HugeRows, rows: list[list[Fraction]], components: Any) -> FloatArray:
    """Return the mean squared residual of each group."""
    basis = [[Fraction(value) for value in component] for component in components.tolist()]
    squares = []
    for row in rows:
        residual = row
        # Twice, as the components are orthonormal up to rounding only.
        for _ in range(2):
            for component in basis:
                score = sum(a * b for a, b in zip(residual, component, strict=True))
                residual = [a - score * b for a, b in zip(residual, component, strict=True)]
        squares.append(sum(value * value for value in residual))
    errors = []
    for label in np.unique(problem.groups):
        members = [squares[i] for i in np.flatnonzero(problem.groups == label)]
        errors.append(float(sum(members) / len(members)))
    return np.array(errors)


def exact_rank(rows: list[list[Fraction]]) -> int:
    """Return the rank by Gaussian elimination."""
    remaining = [list(row) for row in rows]
    rank = 0
    for column in range(len(rows[0])):
        pivot = next((row for row in remaining if row[column] != 0), None)
        if pivot is None:
            continue
        rank += 1
        remaining = [
            [a - b * row[column] / pivot[column] for a, b in zip(row, pivot, strict=True)]
            for row in remaining
            if row is not pivot
        ]
    return rank


def judge(problem: HugeRows, model: fs.FairPCA) -> float:
    """Return the relative error of the claimed errors of an optimal model.

    Raises
    ------
    WrongAnswer
    """
    solution = model.solution_
    rows = centered_rows(problem)
    errors = exact_errors(problem, rows, model.components_)
    if errors.max() <= 2 * solution.resolution:
        ordinary = np.median([float(sum(value * value for value in row)) for row in rows])
        if exact_rank(rows) > problem.n_components:
            raise WrongAnswer(f"not all rows lie in the subspace: {errors}, {solution!r}")
        if errors.max() > _ZERO * max(ordinary, 1e-300):
            raise WrongAnswer(f"a direction of the rows was missed: {errors}, {solution!r}")
        return 0.0
    disagreement = float(np.abs(solution.errors - errors).max() / errors.max())
    if disagreement > _MAX_RELATIVE_ERROR:
        raise WrongAnswer(f"errors are {errors}, not {solution.errors}, {solution!r}")
    return disagreement


def test_huge_rows_never_hide_others(choose_count, record_property):
    tally = Tally()
    for number in range(choose_count(100, 2_000)):
        problems: list[HugeRows] = []
        with tally.count_example(number, lambda: None):
            rng = case_generator("huge rows", number)
            problems.append(draw_problem(rng))
            try:
                model = problems[0].fit()
            except FairspanError:
                tally.outcomes["refused"] += 1
                continue
            status = str(model.solution_.status)
            tally.outcomes[status] += 1
            if status != "optimal":
                continue
            tally.note_disagreement("rows in fractions", judge(problems[0], model))
            verification = fs.verify(model, problems[0].values, problems[0].groups)
            if not verification.holds:
                raise WrongAnswer(f"verification does not hold: {verification.messages}")
    tally.conclude(record_property, "huge rows")
