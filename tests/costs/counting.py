"""Count the work of a run: factorizations, products with second moments, calls and memory.

Work is counted, not timed, so the figures are the same on a busy machine.
"""

import gc
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

import fairspan

_LIBRARY = str(Path(fairspan.__file__).parent)
# Functions of NumPy and SciPy that factorize their first argument, named as in a profile.
_FACTORIZATIONS = {"cholesky", "eigh", "eigvalsh", "lstsq", "qr", "solve", "svd"}
_LINEAR_ALGEBRA = tuple(str(Path(package.__file__).parent) for package in (np.linalg, scipy.linalg))
_MEBIBYTE = 2.0**20

Costs = dict[str, float]
"""Amounts by their name."""


class WorkCounter:
    """Counts of the functions that run while this is the profile function of a thread.

    `counts` has the number of eigenproblems, of other factorizations, of calls of functions of the
    library, and millions of multiplications in factorizations and in products with second moments.
    """

    def __init__(self):
        self.counts = Counter()
        self._depth_of_factorization = 0

    def __call__(self, frame, event, _argument):
        code = frame.f_code
        if event == "return" and self._is_factorization(code):
            self._depth_of_factorization -= 1
        if event != "call":
            return
        if code.co_filename.startswith(_LIBRARY):
            self._count_call(frame)
        elif self._is_factorization(code):
            # Functions of SciPy call others of the same name: only the outermost counts.
            if self._depth_of_factorization == 0:
                self._count_factorization(code.co_name, frame.f_locals)
            self._depth_of_factorization += 1

    def _is_factorization(self, code):
        return code.co_name in _FACTORIZATIONS and code.co_filename.startswith(_LINEAR_ALGEBRA)

    def _count_factorization(self, name, arguments):
        matrix = np.asarray(next(iter(arguments.values())))
        if matrix.ndim < 2:
            return
        n_matrices = int(np.prod(matrix.shape[:-2]))
        is_eigenproblem = name in ("eigh", "eigvalsh")
        self.counts["eigenproblems" if is_eigenproblem else "other factorizations"] += n_matrices
        rows, columns = sorted(matrix.shape[-2:])
        self.counts["Mflop in factorizations"] += n_matrices * rows**2 * columns / 1e6

    def _count_call(self, frame):
        name = frame.f_code.co_name
        if not name.startswith("<"):
            self.counts["calls"] += 1
        if name == "validate_block":
            self.counts["rows in blocks"] += len(frame.f_locals["block"].values)
        if name != "apply" or "moments" not in Path(frame.f_code.co_filename).parts:
            return
        moments = frame.f_locals["self"]
        width = frame.f_locals["basis"].shape[1]
        n_entries = moments.n_groups * float(moments.n_features) ** 2
        if not moments.has_matrices:
            n_entries = 2 * float(sum(len(group.row_indices) for group in moments.groups))
            n_entries *= moments.n_features
        self.counts["Mflop in products"] += n_entries * width / 1e6


def count_work(run: Callable[[], object]) -> Costs:
    """Return the amounts of work of a run, and the largest memory that it holds, in MiB.

    The run is repeated: first to load what it needs, then with a counter, then while memory is
    traced.
    """
    with threadpool_limits(1):  # one counter serves one thread
        return _count_in_one_thread(run)


def _count_in_one_thread(run: Callable[[], object]) -> Costs:
    run()
    counter = WorkCounter()
    threading.setprofile(counter)
    sys.setprofile(counter)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    costs = {name: float(amount) for name, amount in counter.counts.items()}
    # When cycles are collected depends on what ran before, and decides how much is held.
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        run()
        costs["MiB at most"] = tracemalloc.get_traced_memory()[1] / _MEBIBYTE
    finally:
        tracemalloc.stop()
        gc.enable()
    return costs
