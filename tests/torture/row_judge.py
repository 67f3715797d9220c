"""Judge answers from the rows in long double, without code of the library."""

from itertools import product
from typing import Any

import numpy as np

import fairspan as fs
from torture.row_problems import FloatArray, RowProblem
from torture.wrong_answer import WrongAnswer

EPSILON = float(np.finfo(np.float64).eps)
# Relative accuracy of sums over the rows.
_SUM_ACCURACY = 1e-12
# Singular values below the first share, of the largest, are zero; between the two shares float64
# cannot tell whether a direction is forbidden.
_ZERO_SINGULAR_VALUE = 1e-13
_CLEAR_SINGULAR_VALUE = 1e-6
_N_RANDOM_SUBSPACES = 20
# Relative accuracy to which a verification compares figures: six digits.
_COMPARED_DIGITS = 1e-6


def center_groups(problem: RowProblem) -> list[FloatArray]:
    """Return the rows of each group about the center of the errors, in long double."""
    values = problem.values.astype(np.longdouble)
    center = problem.settings.get("center", "global")
    if center == "global":
        values = values - values.mean(axis=0)
    parts = [values[problem.groups == label] for label in np.unique(problem.groups)]
    return [part - part.mean(axis=0) for part in parts] if center == "group" else parts


def group_variances(problem: RowProblem) -> FloatArray:
    """Return the mean squared length of each group's rows."""
    return np.array([float((part**2).sum() / len(part)) for part in center_groups(problem)])


def reference_errors(problem: RowProblem, model: fs.FairPCA) -> FloatArray:
    """Return the mean squared residual of each group's rows."""
    encoder = model.subspace_.encoder.astype(np.longdouble)
    decoder = model.subspace_.decoder.astype(np.longdouble)
    residuals = [part - part @ encoder.T @ decoder.T for part in center_groups(problem)]
    return np.array([float((part**2).sum() / len(part)) for part in residuals])


def reference_best_errors(problem: RowProblem) -> tuple[FloatArray, FloatArray]:
    """Return the least possible error of each group, and a bound on its rounding."""
    best, rounding = [], []
    for part in center_groups(problem):
        singular_values = np.linalg.svd(part.astype(float), compute_uv=False)
        tail = singular_values[problem.n_components :]
        best.append(float((tail**2).sum()) / len(part))
        svd_rounding = 8 * EPSILON * float(singular_values[0])
        rounding.append(float((2 * tail * svd_rounding + svd_rounding**2).sum()) / len(part))
    return np.array(best), np.array(rounding)


def reference_value(problem: RowProblem, errors: FloatArray) -> tuple[float, float]:
    """Return the criterion at these errors, and a bound on its rounding."""
    criterion = problem.settings["criterion"]
    counts = np.unique(problem.groups, return_counts=True)[1]
    total = float(counts @ errors / counts.sum())
    variances = group_variances(problem)
    divisors = variances if problem.is_relative else np.ones(len(errors))
    if isinstance(criterion, fs.MinimaxLoss):
        best, rounding = reference_best_errors(problem)
        return float(((errors - best) / divisors).max()), float((rounding / divisors).max())
    if isinstance(criterion, fs.MinimaxError):
        return float((errors / divisors).max()), 0.0
    if isinstance(criterion, fs.RobustErrorGap):
        return _robust_error_gap(criterion, errors, counts), 0.0
    if isinstance(criterion, fs.ErrorGap):
        return total + criterion.penalty * float(np.ptp(errors)), 0.0
    if isinstance(criterion, fs.LeastVariance):
        return float((errors - variances).max()), 0.0
    assert isinstance(criterion, fs.TotalError)
    return total, 0.0


def _robust_error_gap(
    criterion: fs.RobustErrorGap, errors: FloatArray, counts: FloatArray
) -> float:
    """Return the largest value with each of two errors at an end of its interval."""
    shares = counts / counts.sum()
    spread = np.sqrt(criterion.radius / np.sqrt(counts))
    lower = np.maximum(np.sqrt(errors) - spread, 0) ** 2
    upper = np.maximum(np.sqrt(errors) + spread, 0) ** 2
    values = []
    for first, second in product((lower[0], upper[0]), (lower[1], upper[1])):
        extreme = np.array([first, second])
        values.append(float(shares @ extreme + criterion.penalty * np.ptp(extreme)))
    return max(values)


def judge(problem: RowProblem, model: fs.FairPCA, *, extra_rounding: float = 0.0) -> None:
    """Compare objective, lower bound and restriction with the rows.

    Parameters
    ----------
    extra_rounding : float
        Rounding of the criterion by the way in which the second moments were computed.

    Raises
    ------
    WrongAnswer
    """
    solution = model.solution_
    errors = reference_errors(problem, model)
    value, value_rounding = reference_value(problem, errors)
    tolerance = solution.resolution + value_rounding + _moment_rounding(problem, errors)
    tolerance += extra_rounding
    tolerance *= 1 + 2 * getattr(problem.settings["criterion"], "penalty", 0.0)
    tolerance += _SUM_ACCURACY * abs(value)
    if abs(value - solution.objective) > tolerance:
        raise WrongAnswer(
            f"objective: {solution.objective:.12g} claimed, {value:.12g} real, {tolerance:.1e} "
            f"allowed; {solution!r}"
        )
    if solution.lower_bound > value + tolerance:
        raise WrongAnswer(f"bound: {solution.lower_bound:.12g} above {value:.12g}; {solution!r}")
    if not np.isfinite([solution.objective, solution.lower_bound, solution.resolution]).all():
        raise WrongAnswer(f"not finite: {solution!r}, resolution {solution.resolution}")
    restriction = problem.settings.get("restriction")
    if isinstance(restriction, fs.MeanParity):
        _check_means(problem, model)
    if isinstance(restriction, fs.Uncorrelated):
        _check_correlations(problem, model)
        _check_bound_at_random_subspaces(problem, model, tolerance)


def _moment_rounding(problem: RowProblem, errors: FloatArray) -> float:
    """Return a bound on the change of the criterion by second moments in float64."""
    variances = group_variances(problem)
    largest_row = np.abs(problem.values).max(axis=0)
    error = max(errors.max(), 0.0)
    rounding = 16 * EPSILON * float(np.sqrt(error * variances.max()) + errors.max())
    rounding += 64 * EPSILON**2 * float(largest_row @ largest_row)
    return rounding / float(variances.min()) if problem.is_relative else rounding


def _check_means(problem: RowProblem, model: fs.FairPCA) -> None:
    """Raise WrongAnswer where the groups' means of the reduced rows differ."""
    tolerance = problem.settings["restriction"].tolerance
    encoder = model.subspace_.encoder.astype(np.longdouble)
    values = problem.values.astype(np.longdouble)
    labels = np.unique(problem.groups)
    means = np.array([values[problem.groups == label].mean(axis=0) for label in labels])
    distance = float(np.linalg.norm((means - means[0]) @ encoder.T, axis=1).max())
    norm = float(np.linalg.norm(encoder.astype(float), 2))
    size = float(np.abs(means).max() + np.sqrt(group_variances(problem).max()))
    if distance > tolerance + 1e-9 * norm * size:
        raise WrongAnswer(f"means: {distance:.2e} apart, at most {tolerance} allowed")


def _check_correlations(problem: RowProblem, model: fs.FairPCA) -> None:
    """Raise WrongAnswer where the reduced rows are correlated with an extra column."""
    assert problem.extra_columns is not None
    encoder = model.subspace_.encoder.astype(np.longdouble)
    values = problem.values.astype(np.longdouble)
    extra_columns = problem.extra_columns.astype(np.longdouble)
    blocks = _blocks_of_restriction(problem)
    for label in np.unique(blocks):
        members = blocks == label
        features = values[members] - values[members].mean(axis=0)
        extra = extra_columns[members] - extra_columns[members].mean(axis=0)
        covariance = np.abs(encoder @ features.T @ extra / len(features))
        size = np.sqrt((features**2).mean(axis=0).sum()) * np.sqrt((extra**2).mean(axis=0))
        rounding = EPSILON * np.abs(values).max() * np.abs(extra).max(axis=0)
        if (covariance > 1e-10 * size + 64 * rounding).any():
            correlation = float((covariance / size).max())
            raise WrongAnswer(f"correlation: {correlation:.1e} remains")


def _blocks_of_restriction(problem: RowProblem) -> FloatArray:
    """Return the rows' groups if `Uncorrelated` holds within groups, or a single block."""
    if problem.settings["restriction"].within_groups:
        return problem.groups
    return np.zeros(len(problem.groups))


def forbidden_directions(problem: RowProblem) -> FloatArray:
    """Return directions that the restriction forbids, (p, m).

    They are differences of means, or covariances with extra columns of standard deviation one.
    """
    p = problem.values.shape[1]
    if problem.extra_columns is None:
        labels = np.unique(problem.groups)
        means = np.array([problem.values[problem.groups == label].mean(axis=0) for label in labels])
        return (means[1:] - means[0]).T
    blocks = _blocks_of_restriction(problem)
    covariances = []
    for label in np.unique(blocks):
        table = problem.table[blocks == label]
        deviations = np.maximum(table[:, p:].std(axis=0), EPSILON)
        covariances.append(np.cov(table.T)[:p, p:] / deviations)
    return np.hstack(covariances)


def _check_bound_at_random_subspaces(
    problem: RowProblem, model: fs.FairPCA, tolerance: float
) -> None:
    """Raise WrongAnswer where a random allowed subspace is better than the lower bound."""
    axes, sizes, _ = np.linalg.svd(forbidden_directions(problem), full_matrices=True)
    sizes = sizes / max(sizes[0], EPSILON)
    if ((sizes > _ZERO_SINGULAR_VALUE) & (sizes <= _CLEAR_SINGULAR_VALUE)).any():
        return
    free = axes[:, int((sizes > _CLEAR_SINGULAR_VALUE).sum()) :]
    moments = [(part.T @ part / len(part)).astype(float) for part in center_groups(problem)]
    rng = np.random.default_rng(problem.size)
    lower_bound = model.solution_.lower_bound
    for _ in range(_N_RANDOM_SUBSPACES):
        noise = rng.standard_normal((free.shape[1], problem.n_components))
        basis = free @ np.linalg.qr(noise)[0]
        errors = np.array([np.trace(S) - np.vdot(basis, S @ basis) for S in moments])
        value, rounding = reference_value(problem, np.maximum(errors, 0.0))
        if lower_bound > value + tolerance + rounding + 1e-9 * abs(value):
            raise WrongAnswer(f"bound: {lower_bound:.12g} above {value:.12g}, at random")


def check_bounds_agree(
    first: fs.FairPCA, second: fs.FairPCA, *, names: str, extra_rounding: float = 0.0
) -> None:
    """Raise WrongAnswer if the bound of one of two answers is above the other's objective.

    Parameters
    ----------
    first, second : FairPCA
        Answers to the same problem.
    names : str
        How they were computed, for the message.
    extra_rounding : float
        Difference of the criterion by the way in which the second moments were computed.
    """
    for one, other in ((first.solution_, second.solution_), (second.solution_, first.solution_)):
        tolerance = (
            one.resolution + other.resolution + 1e-11 * abs(other.objective) + extra_rounding
        )
        if one.lower_bound > other.objective + tolerance:
            raise WrongAnswer(
                f"{names} refute each other: bound {one.lower_bound:.12g}, objective "
                f"{other.objective:.12g}, {tolerance:.1e} allowed; {one!r}, {other!r}"
            )


def asks_for_rows(verification: fs.Verification) -> bool:
    """Return whether moments were not enough to verify a model."""
    return any("Pass the rows" in message for message in verification.messages)


def check_verification(model: fs.FairPCA, *data: Any) -> None:
    """Raise WrongAnswer where a model does not hold.

    Moments cannot tell errors of zero from rounding: verification may ask for the rows, and an
    unresolved model may remain so. So may one whose errors are not resolved to the digits that are
    compared, although its objective is, as that of `LeastVariance` beside a large variance.
    """
    verification = fs.verify(model, *data)
    is_unclear = "cannot be verified" in verification.messages[0]
    solution = model.solution_
    has_unresolved_errors = solution.resolution > _COMPARED_DIGITS * solution.errors.min()
    if is_unclear and (solution.status == "unresolved" or has_unresolved_errors):
        return
    if isinstance(data[0], fs.GroupMoments) and asks_for_rows(verification):
        return
    if not verification.holds:
        message = verification.messages[0]
        raise WrongAnswer(f"verification does not hold: {message}; {model.solution_!r}")
