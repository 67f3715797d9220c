"""Build problems from matrices and rows, and evaluate solutions with numpy alone."""

from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt

from fairspan import (
    BoundarySearch,
    Certificate,
    Disparity,
    ErrorGap,
    GroupMoments,
    LeastVariance,
    MinimaxError,
    MinimaxLoss,
    NashWelfare,
    RobustErrorGap,
)
from fairspan.extending import Criterion, Problem
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.solvers.auto import solve_exactly as solve_exactly

FloatArray = npt.NDArray[np.float64]

RELATIVE = (MinimaxLoss(relative=True), MinimaxError(relative=True))
MINIMAX = (MinimaxLoss(), MinimaxError(), LeastVariance(), *RELATIVE)


def build_problem(
    matrices: list[FloatArray] | FloatArray,
    n_components: int,
    criterion: Criterion,
    proportions: list[float] | None = None,
) -> Problem:
    k = len(matrices)
    shares = np.full(k, 1 / k) if proportions is None else np.array(proportions)
    labels = [f"group {g}" for g in range(k)]
    return Problem(
        DenseSecondMoments(np.array(matrices)), labels, 1000 * shares, n_components, criterion
    )


def problem_from_moments(
    moments: GroupMoments, n_components: int, criterion: Criterion, center: str = "group"
) -> Problem:
    second = DenseSecondMoments(moments.second_moments(center))
    return Problem(second, moments.labels, moments.weights, n_components, criterion)


def search_boundary(problem: Problem, tol: float = 1e-9) -> Certificate:
    return BoundarySearch().solve(problem, tol)


def random_moments(rng: np.random.Generator, n_groups: int, n_features: int) -> FloatArray:
    """Second moments of unequal size and shape; every third is of low rank."""
    matrices = []
    for group in range(n_groups):
        rank = max(1, n_features // 2) if group % 3 == 2 else n_features
        factor = rng.standard_normal((n_features, rank)) * rng.uniform(0.2, 3, rank)
        matrices.append(factor @ factor.T)
    return np.array(matrices)


def random_basis(rng: np.random.Generator, n_features: int, n_components: int) -> FloatArray:
    return np.linalg.qr(rng.standard_normal((n_features, n_components)))[0]


def top_sum(matrix: FloatArray, n_components: int) -> float:
    return float(np.linalg.eigvalsh(matrix)[::-1][:n_components].sum())


def basis_errors(matrices: FloatArray, basis: FloatArray) -> FloatArray:
    """tr S - tr(V'SV) of each matrix, through the residual projector."""
    residual = np.eye(len(basis)) - basis @ basis.T
    return np.array([np.trace(residual @ matrix @ residual) for matrix in matrices])


def matrix_traces(matrices: FloatArray) -> FloatArray:
    return np.array([np.trace(matrix) for matrix in matrices])


def reference_values(matrices: FloatArray, n_components: int, criterion: Criterion) -> FloatArray:
    """Return a_g: the value of a minimax criterion is max_g (a_g - c_g) / s_g."""
    if isinstance(criterion, LeastVariance):
        return np.zeros(len(matrices))
    if isinstance(criterion, MinimaxLoss):
        return np.array([top_sum(matrix, n_components) for matrix in matrices])
    return matrix_traces(matrices)


def group_divisors(matrices: FloatArray, criterion: Criterion) -> FloatArray:
    """Return s_g, the divisors of a minimax criterion."""
    return matrix_traces(matrices) if criterion in RELATIVE else np.ones(len(matrices))


def minimax_value(matrices: FloatArray, basis: FloatArray, criterion: Criterion) -> float:
    """Return the value of a minimax criterion at a basis."""
    assert isinstance(criterion, MinimaxLoss | MinimaxError | LeastVariance)
    captured = matrix_traces(matrices) - basis_errors(matrices, basis)
    missing = reference_values(matrices, basis.shape[1], criterion) - captured
    return float((missing / group_divisors(matrices, criterion)).max())


def nested_value(
    matrices: FloatArray, shares: FloatArray, basis: FloatArray, criterion: str
) -> float:
    """Return the value at a basis of a criterion that allows nesting, given by name."""
    if criterion == "total_error":
        return float(shares @ basis_errors(matrices, basis))
    # Those that are not relative come first.
    return minimax_value(
        matrices,
        basis,
        next(
            relative_criterion
            for relative_criterion in MINIMAX
            if relative_criterion.name == criterion
        ),
    )


def deflate(matrices: FloatArray, components: FloatArray) -> FloatArray:
    """Return P S_g P, P the projector on the orthogonal complement of the components."""
    P = np.eye(matrices.shape[1]) - components.T @ components
    return np.asarray(P @ matrices @ P)


def rows_with_moments(matrices: FloatArray) -> tuple[FloatArray, list[str]]:
    """Return rows with these second moments about the origin, and labels of equal groups."""
    p = matrices.shape[1]
    rows = []
    labels = []
    for group, matrix in enumerate(matrices):
        values, vectors = np.linalg.eigh(matrix)
        root = np.sqrt(p * np.maximum(values, 0.0))[:, None] * vectors.T
        rows += [root, -root]
        labels += [f"group {group}"] * (2 * p)
    return np.vstack(rows), labels


def dual_bound(
    matrices: FloatArray, weights: FloatArray, n_components: int, criterion: Criterion
) -> float:
    """Return the lower bound that weights w with w.s = 1 prove for a minimax criterion."""
    assert (weights >= 0).all()
    assert abs(weights @ group_divisors(matrices, criterion) - 1) < 1e-12
    mixture = np.tensordot(weights, matrices, axes=1)
    references = reference_values(matrices, n_components, criterion)
    return float(weights @ references) - top_sum(mixture, n_components)


def independent_value(problem: Problem, basis: FloatArray) -> float:
    """Return the value of any criterion at a basis, by independent formulas."""
    matrices = problem.second_moments.matrices
    criterion = problem.criterion
    errors = np.maximum(basis_errors(matrices, basis), 0.0)
    q = problem.group_weights / problem.group_weights.sum()
    total = float(q @ errors)
    if isinstance(criterion, MinimaxLoss | MinimaxError | LeastVariance):
        return minimax_value(matrices, basis, criterion)
    if isinstance(criterion, RobustErrorGap):
        return worst_case_value(criterion, problem, errors, q)
    if isinstance(criterion, ErrorGap):
        return total + criterion.penalty * float(np.ptp(errors))
    if isinstance(criterion, Disparity):
        other = errors[1 - int(criterion.protected == problem.group_labels[1])]
        protected = errors[int(criterion.protected == problem.group_labels[1])]
        return criterion.trade_off * total + (1 - criterion.trade_off) * float(protected - other)
    if isinstance(criterion, NashWelfare):
        captured = np.array([np.trace(matrix) for matrix in matrices]) - errors
        return float(-np.log(captured).mean())
    return total


def worst_case_value(
    criterion: RobustErrorGap, problem: Problem, errors: FloatArray, q: FloatArray
) -> float:
    """Return the largest total error plus penalty times the gap, over ends of each group's ball.

    The objective is convex in the errors, so only the ends count.
    """
    if isinstance(criterion.radius, float):
        radii = criterion.radius / np.sqrt(problem.group_weights)
    else:
        radii = np.array([criterion.radius[label] for label in problem.group_labels])
    low = np.maximum(np.sqrt(errors) - np.sqrt(radii), 0.0) ** 2
    high = (np.sqrt(errors) + np.sqrt(radii)) ** 2
    ends = np.array(list(product(*zip(low, high, strict=True))))
    return float((ends @ q + criterion.penalty * np.ptp(ends, axis=1)).max())


def robust_problem(
    seed: int, k: int = 2, criterion: Criterion | None = None
) -> tuple[Problem, np.random.Generator]:
    """Return a random problem with traces of about p, and the generator that drew it."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(3, 9))
    matrices = random_moments(rng, k, p)
    matrices *= p / np.trace(matrices.mean(axis=0))
    shares = rng.dirichlet(np.full(k, 4.0))
    radii = {f"group {g}": float(r) for g, r in enumerate(rng.uniform(0, 0.2, k))}
    criterion = criterion or RobustErrorGap(float(rng.uniform(0, 2)), radii)
    return build_problem(matrices, int(rng.integers(1, p)), criterion, list(shares)), rng


def minimize_over_angles(value: Callable[[FloatArray], float]) -> tuple[float, FloatArray]:
    """Minimize over directions of the plane on a refined grid; return value and direction."""
    best = 0.0
    step = np.pi / 2
    for _ in range(6):
        angles = best + np.linspace(-step, step, 201)
        lines = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None]
        values = [value(line) for line in lines]
        least = int(np.argmin(values))
        best = angles[least]
        step = step / 50
    return values[least], lines[least]


def finite_difference_slopes(
    function: Callable[[FloatArray], float],
    basis: FloatArray,
    directions: list[FloatArray],
    length: float = 1e-6,
) -> FloatArray:
    """Return central differences of a function of a subspace along each direction."""

    def value_at_step(step: FloatArray) -> float:
        return function(np.linalg.qr(basis + step)[0])

    return np.array(
        [
            (value_at_step(length * x) - value_at_step(-length * x)) / (2 * length)
            for x in directions
        ]
    )
