"""Processor time and floating point operations of a run, by kind of work."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from types import FrameType
from typing import Any

import numpy as np
import scipy

import fairspan

EIGENPROBLEMS = "eigenproblems"
PRODUCTS = "products"
FACTORIZATIONS = "factorizations"
CERTIFICATE = "certificate"
PROGRAMS = "small programs"
ROW_AXES = "row axes"
PARTS = (ROW_AXES, EIGENPROBLEMS, PRODUCTS, FACTORIZATIONS, CERTIFICATE, PROGRAMS)

_LINEAR_ALGEBRA = tuple(str(Path(package.__file__).parent) for package in (np.linalg, scipy.linalg))
_LIBRARY = str(Path(fairspan.__file__).parent)
# Functions by the end of their file's path; those of NumPy and SciPy by their folder.
_PARTS_OF_LINEAR_ALGEBRA = {
    "eigh": EIGENPROBLEMS,
    "eigvalsh": EIGENPROBLEMS,
    "svd": FACTORIZATIONS,
    "qr": FACTORIZATIONS,
    "cholesky": FACTORIZATIONS,
}
_PARTS_OF_LIBRARY = {
    ("second_moments.py", "apply"): PRODUCTS,
    ("second_moments.py", "_symmetric_product"): PRODUCTS,
    ("eigen.py", "mixture"): PRODUCTS,
    ("eigenvalue_bounds.py", "complement_eigenvalue_bound"): FACTORIZATIONS,
    ("evaluate_solution.py", "evaluate_solution"): CERTIFICATE,
    ("convex_programs.py", "minimize_on_simplex"): PROGRAMS,
    ("convex_programs.py", "solve_saddle_point"): PROGRAMS,
    ("row_axes.py", "span_rows"): ROW_AXES,
    ("row_axes.py", "_gram_of_axes"): ROW_AXES,
    ("shifted_rows.py", "gram"): ROW_AXES,
}


@dataclass
class WorkRecord:
    """Processor time by part of a run, and its floating point operations.

    Attributes
    ----------
    seconds : Counter of str
        By part. Each second counts once, for the outermost part.
    flops : float
        In eigenproblems, factorizations, products with second moments, inner ones included, and
        products of rows with each other.
    n_large : int
        Eigenproblems of at least half of the features.
    """

    seconds: Counter[str] = field(default_factory=Counter)
    flops: float = 0.0
    n_large: int = 0


def record_work(run: Callable[[], object], n_features: int) -> WorkRecord:
    """Run a function in this thread, and record the work of the parts."""
    observer = _Observer(n_features)
    sys.setprofile(observer)
    try:
        run()
    finally:
        sys.setprofile(None)
    return observer.record


class _Observer:
    """Profile function that times the outermost of the functions that belong to a part."""

    def __init__(self, n_features: int) -> None:
        self.record = WorkRecord()
        self._n_features = n_features
        self._outermost: FrameType | None = None
        self._part = ""
        self._start = 0.0

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "return" and frame is self._outermost:
            self.record.seconds[self._part] += process_time() - self._start
            self._outermost = None
        if event != "call":
            return
        part = _part_of(frame)
        if part is None:
            return
        self._count_flops(frame)
        if self._outermost is None:
            self._outermost = frame
            self._part = part
            self._start = process_time()

    def _count_flops(self, frame: FrameType) -> None:
        """Count the operations of a call by the sizes of its arguments."""
        name = frame.f_code.co_name
        arguments: dict[str, Any] = frame.f_locals
        first = next(iter(arguments.values()))
        if name in ("eigh", "eigvalsh"):
            *stack, n = np.shape(first)[:-1]
            n_vectors = n if name == "eigh" else 0
            if arguments.get("subset_by_index") is not None:
                low, high = arguments["subset_by_index"]
                n_vectors = high - low + 1
            # The reduction to a tridiagonal matrix, and the way back of the vectors; what is
            # between them takes less.
            flops = np.prod(stack) * (4 / 3 * n**3 + 2 * n**2 * n_vectors)
            self.record.n_large += int(np.prod(stack)) * (2 * n >= self._n_features)
        elif name == "apply":
            k, p, _ = first.matrices.shape
            flops = 2 * k * p**2 * arguments["basis"].shape[1]
        elif name == "_symmetric_product":
            flops = 2 * arguments["matrix"].size * arguments["block"].shape[1]
        elif name == "complement_eigenvalue_bound":
            # A Cholesky factorization, and the product that deflates the subspace.
            p, m = arguments["basis"].shape
            flops = p**3 / 3 + 2 * p**2 * m
        elif name == "gram":
            n, p = first.shape
            flops = n**2 * p
        elif name == "_gram_of_axes":
            n, p = first.shape
            # Products with a triangle, and half of those of the axes with each other.
            flops = 2 * n**2 * p
        elif name == "qr":
            rows, columns = sorted(np.shape(first)[-2:], reverse=True)
            vectors = rows if arguments.get("mode") == "complete" else columns
            flops = 4 * rows * columns * vectors - 4 / 3 * columns**3
        else:
            flops = 0.0
        self.record.flops += float(flops)


def _part_of(frame: FrameType) -> str | None:
    code = frame.f_code
    if code.co_filename.startswith(_LIBRARY):
        return _PARTS_OF_LIBRARY.get((Path(code.co_filename).name, code.co_name))
    if code.co_name in _PARTS_OF_LINEAR_ALGEBRA and code.co_filename.startswith(_LINEAR_ALGEBRA):
        return _PARTS_OF_LINEAR_ALGEBRA[code.co_name]
    return None
