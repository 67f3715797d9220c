"""Criteria of another package with a constraint, or steep at zero, are evaluated as ours are."""

from typing import ClassVar

import numpy as np
import pytest

from fairspan import FairPCA, GroupMoments
from fairspan.errors import IncompatibleParameters
from fairspan.extending import ConcaveScoresCriterion, Criterion, LinearCriterion, certify
from fairspan.problem.criteria.equal_error import EqualError
from problems import build_problem, random_moments

RNG = np.random.default_rng(0)
MOMENTS = GroupMoments.from_rows(RNG.normal(size=(60, 4)) * [3, 2, 1, 1], np.arange(60) % 2)


class FirstGroupAtMost(LinearCriterion):
    """Total error of subspaces under which the error of the first group is at most a limit."""

    name: ClassVar[str] = "first_group_at_most"
    limit: ClassVar[float] = 0.5
    is_constrained: ClassVar[bool] = True

    def group_weights(self, problem):
        return problem.proportions

    def constraint_violation(self, errors):
        return float(errors[0]) - self.limit


def test_a_solver_that_knows_no_constraints_refuses_it():
    with pytest.raises(IncompatibleParameters, match="maxima of affine"):
        FairPCA(2, criterion=FirstGroupAtMost(), solver="semidefinite").fit_moments(MOMENTS)


def test_a_violated_constraint_leaves_the_gap_open():
    fair = FairPCA(1, criterion=FirstGroupAtMost()).fit_moments(MOMENTS)
    assert fair.group_errors_[0] > FirstGroupAtMost.limit
    assert fair.solution_.constraint_violation > 0
    assert fair.solution_.status == "open gap"


def test_an_objective_below_the_bound_counts_as_a_gap():
    """The bound holds only for errors that satisfy the constraint."""

    class Higher(FirstGroupAtMost):
        def lower_bound(self, min_weighted_error, weights, problem):
            return 10 + super().lower_bound(min_weighted_error, weights, problem)

    problem = build_problem(random_moments(np.random.default_rng(1), 2, 4), 2, Higher())
    settings = {"tol": 1e-9, "n_eigenproblems": 1, "trace": (), "solver": "by hand"}
    certificate = certify(problem, np.eye(4)[:, :2], problem.proportions, **settings)
    assert certificate.lower_bound > 0
    assert certificate.gap > 0


def test_which_criteria_are_constrained_or_steep():
    assert EqualError().is_constrained
    assert not Criterion.is_steep_at_zero
    assert ConcaveScoresCriterion.is_steep_at_zero
