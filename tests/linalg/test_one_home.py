"""Solvers ask fairspan.linalg for eigenvectors, and never a library directly."""

import ast
from pathlib import Path

import numpy as np

import fairspan.solvers
from fairspan.linalg import eigh, eigvalsh

DIRECT = {"eigh", "eigvalsh", "eig", "eigvals", "eigsh", "lobpcg"}


def test_no_solver_calls_a_library_for_eigenvectors():
    for path in Path(fairspan.solvers.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Attribute) and node.attr in DIRECT), (
                path,
                node.lineno,
            )


def test_stacks_are_decomposed_each_for_itself():
    matrices = np.array([np.diag([2.0, 1.0]), np.array([[0.0, 3.0], [3.0, 0.0]])])
    values, vectors = eigh(matrices)
    np.testing.assert_allclose(values, [[1, 2], [-3, 3]], atol=1e-14)
    np.testing.assert_allclose(eigvalsh(matrices), values, atol=1e-14)
    np.testing.assert_allclose(matrices @ vectors, vectors * values[:, None], atol=1e-14)
