"""Against Clarabel, SCS and 60 digits: no bound above the relaxed optimum, two groups reach it."""

import numpy as np
import pytest

import fairspan as fs
from fairspan.errors import FairspanError
from torture.cases import Case
from torture.conic import ACCURACY, relaxation
from torture.judges import Wrong, judged
from torture.tally import Tally, generator

NAMES = ("minimax_loss", "minimax_error", "error_gap", "total_error", "equal_error")


def drawn(rng, name):
    k, p = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    k = 2 if name == "equal_error" else k
    matrices = []
    for _ in range(k):
        factor = rng.standard_normal((p, p)) * rng.uniform(0.1, 2, p)
        matrices.append(factor @ factor.T)
    shares = 2.0 ** rng.integers(0, 3, k)
    matrices = np.array(matrices) / np.mean([np.trace(each) for each in matrices])
    penalty = float(rng.choice([0.1, 0.5, 2.0]))
    chosen = {
        "minimax_loss": fs.MinimaxLoss(),
        "minimax_error": fs.MinimaxError(),
        "error_gap": fs.ErrorGap(penalty),
        "total_error": fs.TotalError(),
        "equal_error": fs.EqualError(),
    }[name]
    return Case(int(rng.integers(1, p)), chosen, matrices=matrices, shares=shares), penalty


@pytest.mark.parametrize("name", NAMES)
def test_bounds_against_conic_solvers(name, how_many, record_property):
    tally = Tally()
    for number in range(how_many(2, 200)):
        cases = []
        with tally.example(number, lambda: cases[0] if cases else None):  # noqa: B023
            case, penalty = drawn(generator(f"conic {name}", number), name)
            cases.append(case)
            compare(case, penalty, tally)
    tally.settled(record_property, f"conic solvers: {name}")


def compare(case, penalty, tally):
    k, p = case.matrices.shape[:2]
    q = case.shares / case.shares.sum()
    model = case.fit_or_refusal()
    refused = isinstance(model, FairspanError)
    judgement = None if refused else judged(case, model)
    if judgement is not None:
        tally.outcomes[judgement.status] += 1
        tally.disagreement("mpmath, objective", abs(judgement.objective - judgement.value))
        tally.disagreement("mpmath, bound", max(judgement.lower_bound - judgement.bound, 0.0))
    else:
        tally.outcomes["refused"] += 1
    for solver, accuracy in ACCURACY.items():
        optimum = relaxation(case.criterion.name, k, p).optimum(
            solver, case.matrices, q, case.n_components, penalty
        )
        if optimum is None:
            tally.outcomes[f"{solver} not sure"] += 1
            continue
        if judgement is None:
            # What is relaxed may have an answer where no subspace of d dimensions has one.
            if k == 2 and np.isfinite(optimum):
                raise Wrong(f"refused, where {solver} finds {optimum}: {model}")
            continue
        above = judgement.lower_bound - optimum
        tally.disagreement(f"{solver}, bound above its optimum", above)
        if above > accuracy:
            raise Wrong(f"bound above the optimum of {solver}: {optimum}, {model.solution_!r}")
        apart = abs(judgement.objective - optimum) if k == 2 else optimum - judgement.objective
        if k == 2:
            tally.disagreement(f"{solver}, objective of two groups", apart)
        if apart > accuracy:
            raise Wrong(f"objective is not the optimum of {solver}: {optimum}, {model.solution_!r}")
