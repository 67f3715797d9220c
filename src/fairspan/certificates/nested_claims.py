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
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray

# Figures that were worked out twice agree to this share, and to a few times what is rounding.
_SAME, _FEW = 1e-9, 4.0


def of_prices(subspace: FairSubspace, made: Provenance) -> Iterator[str]:
    """Whether the steps fit each other and the whole."""
    if len(made.steps) != len(subspace.components) or made.of_first(len(made.steps)) != made:
        yield "The steps are not those of the components."
    for d, step in enumerate(made.steps, start=1):
        together = step.together
        rounded = _FEW * together.resolution + _SAME * abs(together.objective)
        below = together.lower_bound - rounded <= step.joint_objective
        if not (below and step.joint_objective <= together.objective):
            yield f"The best value of {d} components together is not between bound and objective."


def of_steps(posed: Posed, basis: FloatArray, made: Provenance, unit: float) -> Iterator[str]:
    """Objective, bound and status of each step.

    Parameters
    ----------
    posed : Posed
    basis : (p, d) array
        The components, in the coordinates of the problem.
    made : Provenance
    unit : float
        What the features are divided by in the problem.
    """
    single = posed.at(1)
    for index, step in enumerate(made.steps):
        left = left_beside(single, basis[:, :index])
        column = basis[:, [index]]
        if left.directions is not None:
            column = left.directions.T @ column
        found = judged(left.problem, column, Proof(np.array(step.own.weights)), made.tol)
        found = found.shifted(left.shift).rescaled(unit * unit, 0.0, unit * unit)
        claimed = replace(
            made,
            objective=step.own.objective,
            lower_bound=step.own.lower_bound,
            status=step.own.status,
        )
        for message in of_figures(found, claimed, has_bound=True):
            yield f"Component {index + 1}, beside those before it: {message}"
