"""Fractions and matrices of mpmath: conversions, sums of eigenvalues, orthogonal complements."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from mpmath import mp, mpf

# A unit vector depends on others if it is at most this far from their span. As text, so that mpmath
# reads it to the digits of the current precision.
_DEPENDENT = "1e-9"


@dataclass(frozen=True)
class Rounded:
    """A number, and the most by which rounding of the second moments may change it."""

    value: Any
    rounding: Any


def to_fractions(matrix: Any) -> list[list[Fraction]]:
    """Return the entries of a matrix, exactly."""
    return [[Fraction(float(entry)) for entry in row] for row in matrix]


def to_mpf(number: Fraction) -> Any:
    """Return a fraction to the digits of the current precision."""
    return mpf(number.numerator) / mpf(number.denominator)


def to_mp_matrix(rows: list[list[Fraction]]) -> Any:
    """Return a matrix of fractions to the digits of the current precision."""
    return mp.matrix([[to_mpf(entry) for entry in row] for row in rows])


def square_root(number: Fraction) -> Any:
    return mp.sqrt(to_mpf(number))


def decimal_exponent(number: Fraction) -> int:
    """Return the order of magnitude of a positive fraction, give or take one."""
    n_bits = number.numerator.bit_length() - number.denominator.bit_length()
    return int(0.30103 * n_bits)


def float_spacing(number: Any) -> Any:
    """Return the distance from a number to the next one in float64."""
    return mpf(float(np.spacing(abs(float(number)))))


def dot(weights: list[Any], numbers: list[Any]) -> Any:
    return sum((w * x for w, x in zip(weights, numbers, strict=True)), mpf(0))


def trace(matrix: Any) -> Any:
    return sum((matrix[i, i] for i in range(matrix.rows)), mpf(0))


def weighted_sum(matrices: list[Any], weights: list[Any]) -> Any:
    total = mp.zeros(matrices[0].rows)
    for matrix, weight in zip(matrices, weights, strict=True):
        if weight != 0:
            total += weight * matrix
    return total


def trace_rounding(projector: Any, entry_rounding: Any) -> Any:
    """Return the most by which tr(P S) may change if each entry of S changes by its rounding."""
    p = projector.rows
    return sum(
        (abs(projector[i, j]) * entry_rounding[i, j] for i in range(p) for j in range(p)), mpf(0)
    )


def sum_of_smallest(matrix: Any, d: int) -> Any:
    """Return the sum of all but the d largest eigenvalues."""
    p = matrix.rows
    if d >= p:
        return mpf(0)
    values = sorted(mp.eigsy(matrix, eigvals_only=True))
    return sum(values[: p - d], mpf(0))


def smallest_eigenspace(matrix: Any, d: int) -> tuple[Any, Any]:
    """Return the sum of all but the d largest eigenvalues, and the projector on their vectors."""
    p = matrix.rows
    projector = mp.zeros(p)
    if d >= p:
        return mpf(0), projector
    values, vectors = mp.eigsy(matrix)
    smallest = sorted(range(p), key=lambda i: values[i])[: p - d]
    for i in smallest:
        projector += vectors[:, i] * vectors[:, i].T
    return sum((values[i] for i in smallest), mpf(0)), projector


def orthogonal_complement(vectors: list[Any], p: int) -> Any:
    """Return an orthonormal basis of the orthogonal complement of the vectors."""
    basis: list[Any] = []
    for vector in vectors:
        length = mp.norm(vector)
        if length == 0:
            continue
        remainder = _project_out(vector / length, basis)
        if mp.norm(remainder) > mpf(_DEPENDENT):
            basis.append(remainder / mp.norm(remainder))
    rank = len(basis)
    axes = [mp.matrix([mpf(int(i == j)) for i in range(p)]) for j in range(p)]
    while len(basis) < p:
        remainders = [_project_out(axis, basis) for axis in axes]
        longest = max(remainders, key=mp.norm)
        basis.append(longest / mp.norm(longest))
    complement = mp.matrix(p, p - rank)
    for j, vector in enumerate(basis[rank:]):
        for i in range(p):
            complement[i, j] = vector[i]
    return complement


def orthonormal_rows(rows: Any) -> Any:
    """Return an orthonormal basis of the rows of a matrix, as rows."""
    basis: list[Any] = []
    for i in range(rows.rows):
        vector = _project_out(rows[i, :].T, basis)
        basis.append(vector / mp.norm(vector))
    return mp.matrix([list(vector) for vector in basis])


def _project_out(vector: Any, basis: list[Any]) -> Any:
    # Twice, so that the result is orthogonal to all digits.
    for _ in range(2):
        for axis in basis:
            vector = vector - axis * (axis.T * vector)[0]
    return vector
