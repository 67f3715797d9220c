"""Objective and lower bound of a certificate from the second moments alone, by numpy.

Criteria are given as to FairPCA: by name, or as objects.
"""

import itertools

import numpy as np

from fairspan import Disparity, EqualError, ErrorGap, MinimaxError, MinimaxLoss, RobustErrorGap


def sum_of_smallest(matrix, d):
    """L(M), the sum of all eigenvalues but the d largest."""
    return np.linalg.eigvalsh(matrix)[: len(matrix) - d].sum()


def worst_case(errors, q, criterion, counts):
    """The robust error gap of two or more groups, pair by pair."""
    radii = criterion.radius / np.sqrt(counts)
    values = []
    for a, b in itertools.permutations(range(len(q)), 2):
        v = q.copy()
        v[a] += criterion.penalty
        v[b] -= criterion.penalty
        roots = np.sqrt(errors) + np.where(v >= 0, 1, -1) * np.sqrt(radii)
        values.append(v @ np.maximum(roots, 0) ** 2)
    return max(values)


def reference_objective(criterion, errors, S, d, counts):
    """Return the objective from the errors of the groups, by the formula of the page."""
    q = counts / counts.sum()
    traces = np.trace(S, axis1=1, axis2=2)
    losses = errors - [sum_of_smallest(matrix, d) for matrix in S]
    match criterion:
        case "minimax_loss":
            return losses.max()
        case MinimaxLoss():
            return (losses / traces).max()
        case "minimax_error":
            return errors.max()
        case MinimaxError():
            return (errors / traces).max()
        case "least_variance":
            return (errors - traces).max()
        case "nash_welfare":
            return -np.log(traces - errors).mean()
        case Disparity(trade_off=share):
            return share * q @ errors + (1 - share) * (errors[0] - errors[1])
        case RobustErrorGap():
            return worst_case(errors, q, criterion, counts)
        case ErrorGap(penalty=penalty):
            return q @ errors + penalty * np.ptp(errors)
    return q @ errors


def reference_bound(criterion, weights, S, d, counts):
    """Return the bound that weights of the certificate prove, by the formulas of the page."""
    mixture = np.tensordot(weights, S, axes=1)
    least = sum_of_smallest(mixture, d)
    traces = np.trace(S, axis1=1, axis2=2)
    match criterion:
        case "minimax_loss" | MinimaxLoss():
            return least - sum(
                w * sum_of_smallest(matrix, d) for w, matrix in zip(weights, S, strict=True)
            )
        case "equal_error":
            return least / weights.sum()
        case EqualError(tolerance=tolerance):
            share = weights[0] / weights.sum() - counts[0] / counts.sum()
            return least / weights.sum() - tolerance * abs(share)
        case "least_variance":
            return least - weights @ traces
        case "nash_welfare":
            captured = np.trace(mixture) - least
            return np.log(weights * len(weights)).mean() - np.log(captured)
    return least
