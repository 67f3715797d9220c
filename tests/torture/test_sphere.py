"""With three features, no direction of the sphere beats an answer by more than a thousandth."""

import numpy as np
import pytest

import fairspan as fs
from torture.cases import Case
from torture.judges import Wrong, judged
from torture.sphere import least_value
from torture.tally import Tally, generator

# Beaten by no more than this share of the objective.
MOST = 1e-3
CRITERIA = {
    "minimax_loss": fs.MinimaxLoss(),
    "minimax_error": fs.MinimaxError(),
    "error_gap": fs.ErrorGap(0.5),
}
ONE_MORE_START = [
    [2, 2, 0],
    [-1, 1, -1],
    [3, 2, -3],
    [-3, 3, 0],
    [1, -2, -3],
    [2, 1, 2],
    [1, 0, 0],
]


def value_of(name, matrices, d):
    best = np.array([np.linalg.eigvalsh(matrix)[: 3 - d].sum() for matrix in matrices])
    if name == "minimax_loss":
        return lambda errors: (errors - best[:, None]).max(axis=0)
    if name == "minimax_error":
        return lambda errors: errors.max(axis=0)
    return lambda errors: errors.mean(axis=0) + 0.5 * np.ptp(errors, axis=0)


def drawn(rng, name, k):
    ranks = int(rng.integers(1, 3))
    vectors = rng.integers(-3, 4, (k, ranks, 3)).astype(float)
    matrices = np.einsum("gri,grj->gij", vectors, vectors)
    return Case(int(rng.integers(1, 3)), CRITERIA[name], matrices=matrices, may_be_refused=False)


def beaten(case, tally):
    """Raise Wrong where a direction is clearly better than the answer."""
    model = case.fit()
    judgement = judged(case, model)
    tally.outcomes[judgement.status] += 1
    value = value_of(case.criterion.name, case.matrices, case.n_components)
    least, direction = least_value(case.matrices, case.n_components, value)
    scale = max(abs(judgement.value), 1e-9)
    tally.disagreement("the sphere, share of the objective", (judgement.value - least) / scale)
    if judgement.lower_bound > least + model.solution_.resolution + 1e-12 * scale:
        raise Wrong(f"bound above what a direction reaches: {least}, {model.solution_!r}")
    if judgement.value - least > MOST * scale:
        kind = "beaten though called optimal" if judgement.status == "optimal" else "beaten"
        by = (judgement.value - least) / scale
        raise Wrong(
            f"{kind} by a direction of the sphere: {least:.6f}, {by:.1%} better, at "
            f"{direction.tolist()}; {model.solution_!r}"
        )


@pytest.mark.parametrize("k", [3, 4])
@pytest.mark.parametrize("name", CRITERIA)
def test_no_direction_is_clearly_better(name, k, how_many, record_property):
    tally = Tally()
    for number in range(how_many(5, 167)):
        cases = []
        with tally.example(number, lambda: cases[0] if cases else None):  # noqa: B023
            cases.append(drawn(generator(f"sphere {name} {k}", number), name, k))
            beaten(cases[0], tally)
    tally.settled(record_property, f"sphere: {name}, {k} groups")


def test_seven_groups_that_need_one_more_start(record_property):
    vectors = np.array(ONE_MORE_START, dtype=float)
    matrices = np.einsum("gi,gj->gij", vectors, vectors)
    tally = Tally()
    for number, name in enumerate(CRITERIA):
        case = Case(2, CRITERIA[name], matrices=matrices, may_be_refused=False)
        with tally.example(number, lambda: case):  # noqa: B023
            beaten(case, tally)
    tally.settled(record_property, "sphere: seven groups")
