"""How many files of the library a fit enters: who reads one from the start should not need more."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
import scipy.sparse

import fairspan
from fairspan import FairPCA
from fairspan.registry import check_flag

ROOT = str(Path(fairspan.__file__).parent)
MOST_OF_TWO_GROUPS, MOST = 25, 30


def table(n_rows: int, n_features: int) -> np.ndarray:
    """Rows whose features differ more and more in size."""
    return np.random.default_rng(0).standard_normal((n_rows, n_features)) / np.arange(
        1, n_features + 1
    )


def sparse_rows() -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array(scipy.sparse.random(300, 2000, 0.02, random_state=0))


FITS = {
    "two groups": (table(3000, 22), 2, MOST_OF_TWO_GROUPS),
    "six groups": (table(3000, 22), 6, MOST),
    "more features than rows": (table(60, 700), 2, MOST),
    "sparse rows": (sparse_rows(), 2, MOST),
    "many features": (table(2000, 600), 2, MOST),
}


@pytest.mark.parametrize("case", FITS)
def test_a_fit_enters_few_files(case):
    rows, n_groups, most = FITS[case]
    groups = np.arange(rows.shape[0]) % n_groups
    files = entered(lambda: FairPCA(2).fit(rows, sensitive_features=groups))
    assert len(files) <= most, files


def test_entered_files_are_counted():
    assert entered(lambda: check_flag("scale", True)) == ["registry.py"]
    assert entered(lambda: None) == []


def entered(call: Callable[[], object]) -> list[str]:
    """The files of the library with a function that a call enters, beside what imports run."""
    call()  # What is imported on the way is not run again.
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(ROOT):
            files.add(Path(name).relative_to(ROOT).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return sorted(files)
