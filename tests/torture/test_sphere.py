"""Answers against every direction of a sphere, and against Clarabel, SCS and 60 digits."""

import numpy as np
import pytest

import fairspan as fs
from fairspan.errors import FairspanError
from torture.cases import Case
from torture.conic import ACCURACY, solve_relaxation
from torture.judges import judge_case
from torture.sphere import least_value
from torture.tally import Tally, case_generator
from torture.wrong_answer import WrongAnswer

# A direction is clearly better if it improves the objective by more than this share.
MIN_IMPROVEMENT = 1e-3
CRITERIA = {
    "minimax_loss": fs.MinimaxLoss(),
    "minimax_error": fs.MinimaxError(),
    "error_gap": fs.ErrorGap(0.5),
}
# Second moments v v' of seven groups for which the solver needs one more start.
SEVEN_VECTORS = [
    [2, 2, 0],
    [-1, 1, -1],
    [3, 2, -3],
    [-3, 3, 0],
    [1, -2, -3],
    [2, 1, 2],
    [1, 0, 0],
]


def criterion_function(name, matrices, d):
    """Return the criterion as a function of (k, n) errors."""
    best = np.array([np.linalg.eigvalsh(matrix)[: 3 - d].sum() for matrix in matrices])
    if name == "minimax_loss":
        return lambda errors: (errors - best[:, None]).max(axis=0)
    if name == "minimax_error":
        return lambda errors: errors.max(axis=0)
    return lambda errors: errors.mean(axis=0) + 0.5 * np.ptp(errors, axis=0)


def draw_integer_case(rng, name, k):
    rank = int(rng.integers(1, 3))
    vectors = rng.integers(-3, 4, (k, rank, 3)).astype(float)
    matrices = np.einsum("gri,grj->gij", vectors, vectors)
    return Case(int(rng.integers(1, 3)), CRITERIA[name], matrices=matrices, may_be_refused=False)


def check_by_directions(case, tally):
    """Raise WrongAnswer where a direction is clearly better than the answer."""
    model = case.fit()
    judgment = judge_case(case, model)
    tally.outcomes[judgment.status] += 1
    value = criterion_function(case.criterion.name, case.matrices, case.n_components)
    least, direction = least_value(case.matrices, case.n_components, value)
    scale = max(abs(judgment.value), 1e-9)
    tally.note_disagreement("the sphere, share of the objective", (judgment.value - least) / scale)
    if judgment.lower_bound > least + model.solution_.resolution + 1e-12 * scale:
        raise WrongAnswer(f"bound above what a direction reaches: {least}, {model.solution_!r}")
    improvement = (judgment.value - least) / scale
    if judgment.value - least > MIN_IMPROVEMENT * scale:
        kind = "beaten though called optimal" if judgment.status == "optimal" else "beaten"
        raise WrongAnswer(
            f"{kind} by a direction of the sphere: {least:.6f}, {improvement:.1%} better, at "
            f"{direction.tolist()}; {model.solution_!r}"
        )


@pytest.mark.parametrize("k", [3, 4])
@pytest.mark.parametrize("name", CRITERIA)
def test_no_direction_is_clearly_better(name, k, choose_count, record_property):
    tally = Tally()
    for number in range(choose_count(5, 167)):
        cases = []
        with tally.count_example(number, lambda: cases[0] if cases else None):  # noqa: B023
            cases.append(draw_integer_case(case_generator(f"sphere {name} {k}", number), name, k))
            check_by_directions(cases[0], tally)
    tally.conclude(record_property, f"sphere: {name}, {k} groups")


def test_seven_groups_that_need_one_more_start(record_property):
    vectors = np.array(SEVEN_VECTORS, dtype=float)
    matrices = np.einsum("gi,gj->gij", vectors, vectors)
    tally = Tally()
    for number, name in enumerate(CRITERIA):
        case = Case(2, CRITERIA[name], matrices=matrices, may_be_refused=False)
        with tally.count_example(number, lambda: case):  # noqa: B023
            check_by_directions(case, tally)
    tally.conclude(record_property, "sphere: seven groups")


NAMES = ("minimax_loss", "minimax_error", "error_gap", "total_error", "equal_error")


def draw_normal_case(rng, name):
    """Draw a case, and its penalty or tolerance."""
    k, p = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    k = 2 if name == "equal_error" else k
    matrices = []
    for _ in range(k):
        factor = rng.standard_normal((p, p)) * rng.uniform(0.1, 2, p)
        matrices.append(factor @ factor.T)
    shares = 2.0 ** rng.integers(0, 3, k)
    matrices = np.array(matrices) / np.mean([np.trace(matrix) for matrix in matrices])
    penalty = float(rng.choice([0.1, 0.5, 2.0]))
    criterion = {
        "minimax_loss": fs.MinimaxLoss(),
        "minimax_error": fs.MinimaxError(),
        "error_gap": fs.ErrorGap(penalty),
        "total_error": fs.TotalError(),
        "equal_error": fs.EqualError(penalty - 0.1),
    }[name]
    if name == "equal_error":
        penalty = criterion.tolerance
    return Case(int(rng.integers(1, p)), criterion, matrices=matrices, shares=shares), penalty


@pytest.mark.parametrize("name", NAMES)
def test_bounds_against_conic_solvers(name, choose_count, record_property):
    tally = Tally()
    for number in range(choose_count(2, 200)):
        cases = []
        with tally.count_example(number, lambda: cases[0] if cases else None):  # noqa: B023
            case, penalty = draw_normal_case(case_generator(f"conic {name}", number), name)
            cases.append(case)
            compare(case, penalty, tally)
    tally.conclude(record_property, f"conic solvers: {name}")


def compare(case, penalty, tally):
    """Compare a case with conic solvers; raise WrongAnswer where they differ."""
    k, p = case.matrices.shape[:2]
    model = case.fit_or_refusal()
    judgment = None
    if isinstance(model, FairspanError):
        tally.outcomes["refused"] += 1
    else:
        judgment = judge_case(case, model)
        tally.outcomes[judgment.status] += 1
        tally.note_disagreement("mpmath, objective", abs(judgment.objective - judgment.value))
        tally.note_disagreement("mpmath, bound", max(judgment.lower_bound - judgment.bound, 0.0))
    proportions = case.shares / case.shares.sum()
    for solver, accuracy in ACCURACY.items():
        optimum = solve_relaxation(case.criterion.name, k, p).optimum(
            solver, case.matrices, proportions, case.n_components, penalty
        )
        if optimum is None:
            tally.outcomes[f"{solver} not sure"] += 1
            continue
        if judgment is None:
            # The relaxation may have an answer where no subspace of d dimensions has one.
            if k == 2 and np.isfinite(optimum):
                raise WrongAnswer(f"refused, where {solver} finds {optimum}: {model}")
            continue
        excess = judgment.lower_bound - optimum
        tally.note_disagreement(f"{solver}, bound above its optimum", excess)
        if excess > accuracy:
            raise WrongAnswer(
                f"bound above the optimum of {solver}: {optimum}, {model.solution_!r}"
            )
        # With two groups the relaxation has the same optimum; with more, it is a lower bound.
        if k == 2:
            difference = abs(judgment.objective - optimum)
            tally.note_disagreement(f"{solver}, objective of two groups", difference)
        else:
            difference = optimum - judgment.objective
        if difference > accuracy:
            raise WrongAnswer(
                f"objective is not the optimum of {solver}: {optimum}, {model.solution_!r}"
            )
