import numpy as np
import pytest

from fairspan import MinimaxError
from fairspan.moments.operators import DenseSecondMoments
from fairspan.solvers.two_groups.frontier import Face, points_at
from problems import problem_of


def edge(seed, n_fixed, n_tied, n_free, p=9):
    """Two matrices whose sum has an eigenvalue of multiplicity n_tied at position d."""
    rng = np.random.default_rng(seed)
    spectrum = np.r_[np.linspace(9, 7, n_fixed), np.full(n_tied, 4.0)]
    spectrum = np.r_[spectrum, np.linspace(2, 1, p - len(spectrum))]
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    mixture = (turn * spectrum) @ turn.T
    half = rng.standard_normal((p, p))
    first = half + half.T
    second_moments = DenseSecondMoments(np.array([first, mixture - first]))
    weights = np.array([1.0, 1.0])
    leading = second_moments.leading(weights, n_fixed + n_free)
    return second_moments, Face.of(second_moments, weights, leading, np.array([1.0, -1.0]))


def difference_of(second_moments, basis):
    """h.c(V) along h = (1, -1)."""
    first, second = second_moments.captured_variances(basis)
    return first - second


@pytest.mark.parametrize(
    ("n_fixed", "n_tied", "n_free"), [(0, 2, 1), (2, 5, 2), (1, 6, 4), (3, 4, 3), (0, 9, 4)]
)
def test_every_point_of_the_edge_is_reached_without_leaving_it(n_fixed, n_tied, n_free):
    second_moments, face = edge(n_tied, n_fixed, n_tied, n_free)
    assert face.leading.n_fixed == n_fixed
    assert face.low < face.high
    shared = difference_of(second_moments, face.leading.vectors[:, :n_fixed])
    for target in np.linspace(face.low, face.high, 11):
        basis = face.basis_at(target)
        np.testing.assert_allclose(basis.T @ basis, np.eye(n_fixed + n_free), atol=1e-12)
        captured = second_moments.captured_variances(basis)
        assert captured[0] - captured[1] == pytest.approx(shared + target, abs=1e-10)
        assert captured.sum() == pytest.approx(face.leading.top_eigenvalue_sum, abs=1e-10)


def test_ends_of_the_edge_are_extreme():
    second_moments, face = edge(1, 1, 4, 2)
    shared = difference_of(second_moments, face.leading.vectors[:, :1])
    rng = np.random.default_rng(0)
    for _ in range(200):
        pick = face.leading.tied @ np.linalg.qr(rng.standard_normal((4, 2)))[0]
        basis = np.hstack([face.leading.vectors[:, :1], pick])
        position = difference_of(second_moments, basis) - shared
        assert face.low - 1e-10 <= position <= face.high + 1e-10


def test_a_point_is_an_edge_of_no_length():
    second_moments = DenseSecondMoments(np.array([np.diag([3.0, 1.0]), np.diag([1.0, 1.5])]))
    weights = np.array([0.5, 0.5])
    leading = second_moments.leading(weights, 1)
    face = Face.of(second_moments, weights, leading, np.array([1.0, -1.0]))
    assert face.low == face.high == 0.0
    assert face.basis_at(0.0) is leading.vectors


def test_the_foot_of_what_was_only_taken_as_tied_is_on_the_supporting_line():
    # The mixture with weights (1, 0) has eigenvalues 3, 2 and 1.9, of which two are taken as tied.
    problem = problem_of([np.diag([3.0, 2.0, 1.9]), np.diag([1.0, 1.0, 5.0])], 2, MinimaxError())
    ends = points_at(problem, 0.0, 0.2)
    assert sorted(end.errors[0] for end in ends) == pytest.approx([1.9, 2.0])
    assert [end.foot[0] for end in ends] == pytest.approx([1.9, 1.9], rel=1e-14)
    assert [end.foot[1] for end in ends] == [end.errors[1] for end in ends]
