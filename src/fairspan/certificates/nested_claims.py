"""What a model of nested components claims about its steps, computed again."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fairspan.certificates.claims import of_figures
from fairspan.certificates.optimality import judged
from fairspan.certificates.proof import Proof
from fairspan.problem.nesting import left_beside
from fairspan.problem.posed import Posed
from fairspan.provenance import Provenance
from fairspan.typing import FloatArray


def of_steps(posed: Posed, basis: FloatArray, made: Provenance) -> Iterator[str]:
    """Objective, bound and status of each step.

    Parameters
    ----------
    posed : Posed
    basis : (p, d) array
        The components, in the coordinates of the problem.
    made : Provenance
    """
    single = posed.at(1)
    for index, step in enumerate(made.steps):
        left = left_beside(single, basis[:, :index])
        column = basis[:, [index]]
        if left.directions is not None:
            column = left.directions.T @ column
        found = judged(left.problem, column, Proof(np.array(step.own.weights)), made.tol)
        found = found.shifted(left.shift)
        claimed = replace(
            made,
            objective=step.own.objective,
            lower_bound=step.own.lower_bound,
            status=step.own.status,
        )
        for message in of_figures(found, claimed, has_bound=True):
            yield f"Component {index + 1}, beside those before it: {message}"
