"""The root along a segment of two groups' weights: known roots, edges, ends and constraints."""

from itertools import pairwise

import numpy as np
import pytest

from bank import TIE, TWO_LINES
from fairspan.moments.operators import DenseSecondMoments
from fairspan.solvers.two_groups.root_search import Reached, RootSearch
from problems import errors_of, random_basis, random_moments, top_sum

EACH = np.eye(2)


def search_of(matrices, d, coefficients=EACH, *, goal=1e-9, constrained=False):
    second = DenseSecondMoments(np.array(matrices, dtype=float))

    def reached_at(basis):
        first, last = coefficients @ second.residual_variances(basis)
        size = abs(float(first) if constrained else float(max(first, last)))
        return Reached((float(first), float(last)), goal * size)

    return RootSearch(second, d, coefficients, reached_at, constrained)


def closed(search):
    """Between the ends, which must enclose the root."""
    left, right = search.contact(0.0), search.contact(1.0)
    assert search.excess(left.values) > 0 > search.excess(right.values)
    search.close(left, right)
    return search


def proven(search):
    """The dual at the weights that the search gives, by numpy alone."""
    matrices = search.second_moments.matrices
    mixture = np.tensordot(search.weights, matrices, axes=1)
    bound = np.trace(mixture) - top_sum(mixture, search.n_components)
    return bound / (1 - search.weight) if search.constrained else bound


def test_a_root_in_the_middle_by_symmetry():
    # Mirror images of each other: at even weights the mixture is diag(3, 1).
    first = np.array([[3.0, 1.0], [1.0, 1.0]])
    mirror = np.diag([1.0, -1.0])
    search = closed(search_of([first, mirror @ first @ mirror], 1))
    assert search.upper == pytest.approx(1, rel=1e-9)
    assert search.lower == pytest.approx(1, rel=1e-9)
    assert search.weight == pytest.approx(0.5, abs=1e-4)
    np.testing.assert_allclose(np.abs(search.basis), [[1], [0]], atol=1e-4)


@pytest.mark.parametrize(("entry", "value"), [(TIE, 2.0), (TWO_LINES, 0.75)])
def test_a_flat_edge_is_entered_where_the_errors_agree(entry, value):
    search = closed(search_of(entry.matrices, entry.n_components))
    errors = errors_of(entry.matrices, search.basis)
    np.testing.assert_allclose(errors, value, rtol=1e-9)
    assert search.lower == pytest.approx(value, rel=1e-9)
    assert search.n_eigenproblems <= 6


def test_an_edge_of_many_dimensions():
    matrices = [np.diag([2.0, 2, 2, 1, 1, 1, 0]), np.diag([1.0, 1, 1, 2, 2, 2, 0])]
    search = closed(search_of(matrices, 3))
    np.testing.assert_allclose(errors_of(np.array(matrices), search.basis), 4.5, rtol=1e-9)
    np.testing.assert_allclose(search.basis.T @ search.basis, np.eye(3), atol=1e-12)
    assert search.upper - search.lower <= 1e-9 * 4.5


def test_at_a_tied_end_the_other_function_chooses():
    # Group 0 is indifferent between the first two axes; group 1 is not.
    search = search_of([np.diag([5.0, 5.0, 4.0]), np.diag([0.0, 1.0, 0.0])], 1)
    np.testing.assert_allclose(search.contact(0.0).values, [9, 0], atol=1e-12)
    assert search.upper == search.lower == 9
    assert search.weight == 0
    mirrored = search_of([np.diag([0.0, 1.0, 0.0]), np.diag([5.0, 5.0, 4.0])], 1)
    np.testing.assert_allclose(mirrored.contact(1.0).values, [0, 9], atol=1e-12)
    assert mirrored.upper == mirrored.lower == 9


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_at_any_weight_is_below_every_subspace(seed):
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, 2, 5)
    search = search_of(matrices, 2)
    for t in rng.uniform(0, 1, 5):
        contact = search.contact(t)
        dual = (1 - t) * contact.values[0] + t * contact.values[1]
        for _ in range(100):
            errors = errors_of(matrices, random_basis(rng, 5, 2))
            assert (1 - t) * errors[0] + t * errors[1] >= dual * (1 - 1e-12)
            assert errors.max() >= search.lower * (1 - 1e-12)
    assert search.lower == pytest.approx(proven(search), rel=1e-12)


def random_searches(constrained):
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p = int(rng.integers(2, 13))
        d = int(rng.integers(1, p))
        matrices = random_moments(rng, 2, p)
        coefficients = EACH
        if constrained:
            pooled = matrices.mean(axis=0)
            errors = errors_of(matrices, np.linalg.eigh(pooled)[1][:, ::-1][:, :d])
            sign = 1.0 if errors[0] >= errors[1] else -1.0
            coefficients = np.array([[0.5, 0.5], [sign, -sign]])
        search = search_of(matrices, d, coefficients, constrained=constrained)
        left, right = search.contact(0.0), search.contact(1.0)
        if search.excess(left.values) > 0 > search.excess(right.values):
            search.close(left, right)
            yield matrices, search


def test_random_problems_are_closed_in_few_steps():
    counts = []
    for matrices, search in random_searches(constrained=False):
        errors = errors_of(matrices, search.basis)
        assert search.upper == pytest.approx(errors.max(), rel=1e-10)
        assert search.upper - search.lower <= 1e-9 * search.upper
        assert search.lower == pytest.approx(proven(search), rel=1e-10)
        counts.append(search.n_eigenproblems)
    assert len(counts) >= 50
    assert max(counts) <= 14
    assert np.mean(counts) <= 8


def test_random_constrained_problems_are_closed_in_few_steps():
    counts = []
    for matrices, search in random_searches(constrained=True):
        errors = errors_of(matrices, search.basis)
        # What the excess may be still counts in the value through the multiplier alone.
        assert abs(errors[0] - errors[1]) <= 1e-9 * errors.mean()
        assert search.upper == pytest.approx(errors.mean(), rel=1e-9)
        assert search.upper - search.lower <= 1e-9 * search.upper
        assert search.lower == pytest.approx(proven(search), rel=1e-9)
        counts.append(search.n_eigenproblems)
    assert len(counts) >= 50
    assert max(counts) <= 14
    assert np.mean(counts) <= 10


def test_the_constrained_form_on_a_straight_edge():
    # Errors 3 s and 1 - s: equal at s = 1/4; the least total error is at s = 0.
    total_and_gap = np.array([[0.5, 0.5], [-1.0, 1.0]])
    search = closed(search_of(TWO_LINES.matrices, 1, total_and_gap, constrained=True))
    np.testing.assert_allclose(errors_of(TWO_LINES.matrices, search.basis), 0.75, rtol=1e-9)
    assert search.lower == pytest.approx(0.75, rel=1e-9)


def test_a_subspace_beyond_the_constraint_is_not_taken():
    matrices, total_and_gap = (
        random_moments(np.random.default_rng(0), 2, 4),
        np.array([[0.5, 0.5], [1.0, -1.0]]),
    )
    search = search_of(matrices, 2, total_and_gap, constrained=True)
    search.contact(0.0)
    assert search.upper == np.inf
    assert not len(search.basis)
    assert not search.closed


def test_bounds_in_the_trace_close_in():
    for _, search in random_searches(constrained=False):
        lower = [point.lower_bound for point in search.trace]
        upper = [point.upper_bound for point in search.trace]
        assert all(a <= b for a, b in pairwise(lower))
        assert all(a >= b for a, b in pairwise(upper))
        assert search.trace[-1].n_eigenproblems == search.n_eigenproblems


def test_a_loose_goal_ends_early():
    matrices = random_moments(np.random.default_rng(3), 2, 12)
    loose, tight = (closed(search_of(matrices, 4, goal=goal)) for goal in (0.1, 1e-12))
    assert loose.n_eigenproblems < tight.n_eigenproblems
    assert loose.lower <= tight.upper <= loose.upper
    assert loose.upper - loose.lower <= 0.1 * loose.upper
