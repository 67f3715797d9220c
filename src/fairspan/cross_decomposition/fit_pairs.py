"""Fit moments of a joined table: from moments to the pair of subspaces and its certificate."""

from dataclasses import dataclass, replace

import numpy as np

from fairspan.cross_decomposition.paired_certificate import (
    PairedCertificate,
    PairedStatement,
    evaluate_pair,
)
from fairspan.cross_decomposition.paired_subspace import PairedSubspace
from fairspan.cross_decomposition.pose_pairs import PairedSettings, PosedPairs, pose_pairs
from fairspan.cross_decomposition.solve_pairs import PairedSolution, solve_pairs
from fairspan.cross_decomposition.table_weights import TableWeights, score_prefix
from fairspan.linalg.memory import explain_memory_errors
from fairspan.linalg.threads import single_thread_if_small
from fairspan.moments.group_moments import GroupMoments
from fairspan.solvers.auto import AUTO, Auto
from fairspan.solvers.solver import Solver
from fairspan.typing import FloatArray, RandomSource


@dataclass(frozen=True, eq=False)
class PairedFit:
    """Result of a fit of two tables.

    Attributes
    ----------
    subspace : PairedSubspace
    covariances : (d,) array
        Covariance of each pair of scores over all rows.
    """

    subspace: PairedSubspace
    covariances: FloatArray


@explain_memory_errors()
def fit_pairs(
    moments: GroupMoments,
    n_targets: int,
    settings: PairedSettings,
    solver: Solver | Auto = AUTO,
    random_state: RandomSource = None,
) -> PairedFit:
    """Find the best pair of subspaces for the moments of a joined table.

    Parameters
    ----------
    moments : GroupMoments
        Of the columns of X, followed by the `n_targets` columns of Y.
    n_targets : int
        q.
    settings : PairedSettings
    solver : Solver or Auto
    random_state : int, Generator, RandomState or None

    Raises
    ------
    IncompatibleParameters, InvalidParameter, InvalidInput
        See :func:`fairspan.cross_decomposition.pose_pairs.pose_pairs`.
    """
    moments.check_range()
    with single_thread_if_small(moments.n_features):
        posed = pose_pairs(moments, n_targets, settings)
        solution = solve_pairs(posed.problem, solver, settings.tol, random_state)
        solution = rotate_to_pooled_axes(posed, solution)
        figures, assessment = evaluate_pair(
            posed.problem, solution.U, solution.V, solution.weights, settings.tol
        )
    statement = PairedStatement(
        method=settings.method,
        criterion=settings.criterion,
        n_components=settings.n_components,
        groups=tuple(moments.labels),
        counts=tuple(moments.counts.tolist()),
        center=settings.center,
        regularization=float(settings.regularization),
        restriction=settings.restriction,
        restricted_tables=settings.restricted_tables,
    )
    weights = posed.problem.criterion.feasible_weights(solution.weights, posed.problem)
    certificate = PairedCertificate(
        statement, figures, weights, assessment, solution.n_decompositions
    )
    subspace = _paired_subspace(moments, n_targets, settings, posed, solution, certificate)
    pooled = posed.problem.covariances.mixture(moments.proportions)
    covariances = np.einsum("ij,ij->j", solution.U, pooled @ solution.V)
    return PairedFit(subspace, covariances)


def rotate_to_pooled_axes(posed: PosedPairs, solution: PairedSolution) -> PairedSolution:
    """Rotate both bases alike, so that pairs of scores covary less and less over all rows.

    What the groups keep depends on UV' alone, so a rotation R of both, to UR and VR, changes
    nothing. R are the eigenvectors of the symmetric part of U'CV, C the pooled cross-covariance.
    The largest weight of each column of X is positive.
    """
    pooled = posed.problem.covariances.mixture(posed.problem.proportions)
    compressed = solution.U.T @ pooled @ solution.V
    _, vectors = np.linalg.eigh((compressed + compressed.T) / 2)
    largest_first = vectors[:, ::-1]
    U = solution.U @ largest_first
    V = solution.V @ largest_first
    x_rotations = posed.x_axes @ U
    largest = np.abs(x_rotations).argmax(axis=0)
    signs = np.sign(x_rotations[largest, np.arange(U.shape[1])])
    signs[signs == 0] = 1.0
    return replace(solution, U=U * signs, V=V * signs)


def _paired_subspace(
    moments: GroupMoments,
    n_targets: int,
    settings: PairedSettings,
    posed: PosedPairs,
    solution: PairedSolution,
    certificate: PairedCertificate,
) -> PairedSubspace:
    """Pair of subspaces in the columns of the two tables."""
    n_features = moments.n_features - n_targets
    mean = np.zeros(moments.n_features) if settings.center == "none" else moments.mean
    names = moments.feature_names

    def table_weights(table: str, rotations: FloatArray, columns: slice) -> TableWeights:
        return TableWeights(
            rotations=np.ascontiguousarray(rotations),
            mean=np.array(mean[columns]),
            scale=None if posed.feature_scale is None else posed.feature_scale[columns],
            feature_names=None if names is None else names[columns],
            prefix=score_prefix(settings.method, table),
        )

    return PairedSubspace(
        table_weights("x", posed.x_axes @ solution.U, slice(0, n_features)),
        table_weights("y", posed.y_axes @ solution.V, slice(n_features, None)),
        certificate,
    )
