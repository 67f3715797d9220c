"""Tables in which nothing varies are answered without an eigenproblem of their size."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.linalg
from scipy import sparse

from fairspan import BoundarySearch, FairPCA, GroupMoments, MeanParity, verify
from fairspan.errors import IncompatibleParameters
from fairspan.registry import builtin_names

FloatArray = npt.NDArray[np.float64]

FEW_ROWS, MANY_ROWS = (40, 600), (250, 200)
GROUPS = {n: np.arange(n) % 2 for n, _ in (FEW_ROWS, MANY_ROWS)}
# The largest eigenproblem or triangle that a fit of two components may take here.
MAX_DECOMPOSED_SIZE = 8


def zeros(n: int, p: int) -> FloatArray:
    return np.zeros((n, p))


def constant_columns(n: int, p: int) -> FloatArray:
    return np.tile(np.linspace(-3.0, 1e6, p), (n, 1))


def constant_in_single_precision(n: int, p: int) -> Any:
    return np.full((n, p), 3.7, dtype=np.float32)


def sparse_zeros(n: int, p: int) -> Any:
    return sparse.csr_array((n, p))


def constant_within_groups(n: int, p: int) -> FloatArray:
    return np.where(GROUPS[n][:, None] == 0, 1.0, 2.0) * np.ones(p)


TABLES = (zeros, constant_columns, constant_in_single_precision, sparse_zeros)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of all matrices that are decomposed, as a list that grows."""
    matrix_sizes: list[int] = []

    def count_sizes(decompose: Callable[..., Any]) -> Callable[..., Any]:
        def run(matrix: Any, *args: Any, **settings: Any) -> Any:
            matrix_sizes.append(min(matrix.shape))
            return decompose(matrix, *args, **settings)

        return run

    for module, name in (
        (np.linalg, "eigh"),
        (np.linalg, "eigvalsh"),
        (scipy.linalg, "eigh"),
    ):
        monkeypatch.setattr(module, name, count_sizes(getattr(module, name)))
    for module in ("row_axes", "row_space"):
        monkeypatch.setattr(f"fairspan.moments.{module}.qr", count_sizes(scipy.linalg.qr))
    return matrix_sizes


SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"center": "group"},
    {"nested": True},
    {"restriction": MeanParity()},
)


@pytest.mark.parametrize("shape", [FEW_ROWS, MANY_ROWS])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "group", "nested", "parity"])
def test_a_table_without_variance_takes_no_large_eigenproblem(
    table: Callable[..., Any], shape: tuple[int, int], settings: dict[str, Any], sizes: list[int]
) -> None:
    model = FairPCA(2, **settings).fit(table(*shape), sensitive_features=GROUPS[shape[0]])
    assert max(sizes, default=0) <= MAX_DECOMPOSED_SIZE
    assert model.solution_.objective == 0
    assert model.solution_.status == "optimal"
    assert model.group_errors_ == pytest.approx(np.zeros(2), abs=0)
    assert model.components_ @ model.components_.T == pytest.approx(np.eye(2))


@pytest.mark.parametrize("criterion", builtin_names("criterion"))
@pytest.mark.parametrize("shape", [FEW_ROWS, MANY_ROWS])
def test_every_criterion_answers_a_table_of_zeros(
    criterion: str, shape: tuple[int, int], sizes: list[int]
) -> None:
    model = FairPCA(2, criterion=criterion)
    if criterion == "nash_welfare":  # a product of zeros has no logarithm
        with pytest.raises(IncompatibleParameters, match="without variance"):
            model.fit(zeros(*shape), sensitive_features=GROUPS[shape[0]])
    else:
        model.fit(zeros(*shape), sensitive_features=GROUPS[shape[0]])
        # A robust gap leaves room for its radius even where errors are zero.
        assert model.solution_.objective == pytest.approx(0, abs=0.04)
    assert max(sizes, default=0) <= MAX_DECOMPOSED_SIZE


def test_a_bound_of_zero_is_verified() -> None:
    """A bound equal to the proven one holds even if the tolerance is zero."""
    rows = zeros(*FEW_ROWS)
    groups = GROUPS[FEW_ROWS[0]]
    model = FairPCA(2).fit(rows, sensitive_features=groups)
    assert model.solution_.absolute_tol == 0
    assert verify(model, rows, groups).holds


@pytest.mark.parametrize("on_missing", ["drop", "em"])
def test_missing_cells_of_a_constant_table(on_missing: str, sizes: list[int]) -> None:
    rows = zeros(60, 8)
    rows[::7, 3] = np.nan
    moments = GroupMoments.from_rows(rows, np.arange(60) % 2, on_missing=on_missing)
    assert FairPCA(2).fit_moments(moments).solution_.objective == 0


def test_rows_that_are_equal_within_groups_have_one_coordinate(sizes: list[int]) -> None:
    rows = constant_within_groups(*FEW_ROWS)
    model = FairPCA(1).fit(rows, sensitive_features=GROUPS[FEW_ROWS[0]])
    assert max(sizes) <= MAX_DECOMPOSED_SIZE
    assert np.abs(model.components_[0]) == pytest.approx(np.full(FEW_ROWS[1], FEW_ROWS[1] ** -0.5))
    assert model.group_errors_ == pytest.approx(np.zeros(2), abs=1e-12)


def test_repeated_rows_have_the_answer_of_weighted_ones() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((12, 40))
    groups = np.arange(12) % 2
    times = np.arange(12) % 3 + 1
    unweighted = FairPCA(3).fit(
        np.repeat(rows, times, axis=0), sensitive_features=np.repeat(groups, times)
    )
    weighted = FairPCA(3).fit(rows, sensitive_features=groups, sample_weight=times)
    assert unweighted.solution_.objective == pytest.approx(weighted.solution_.objective, rel=1e-9)
    assert unweighted.group_errors_ == pytest.approx(weighted.group_errors_, rel=1e-9)


class _SolverWithoutProof(BoundarySearch):
    name = "without_proof"

    def solve(self, problem, tol, random_state=None):
        solution = super().solve(problem, tol, random_state)
        # Without a proof, a solver may claim nothing but an open gap.
        open_gap = type(solution.status)("open gap")
        assessment = replace(solution.assessment, status=open_gap)
        return replace(solution, proof=None, lower_bound=-np.inf, assessment=assessment)


@pytest.mark.unverified
def test_components_are_those_of_all_features_if_a_solver_has_no_proof():
    groups = np.repeat(["a", "b"], 10)
    model = FairPCA(2, solver=_SolverWithoutProof())
    model.fit(np.zeros((20, 6)), sensitive_features=groups)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)
    assert model.components_.shape == (2, 6)
