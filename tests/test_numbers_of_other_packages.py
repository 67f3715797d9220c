"""Parameters may be numbers of numpy or of the standard library; a model keeps Python's own."""

import math
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairspan
from certificate_claims import replace_claims
from fairspan import (
    CovarianceParity,
    Disparity,
    EqualError,
    ErrorGap,
    FairPCA,
    FairSubspace,
    MeanParity,
    MinimaxLoss,
    RobustErrorGap,
)
from fairspan.errors import CorruptFile, InvalidParameter
from fairspan.extending import Criterion

ROWS = np.random.default_rng(0).standard_normal((60, 4)) * [3.0, 2.0, 1.0, 0.5]
GROUPS = np.arange(60) % 2

SETTINGS: dict[str, dict[str, Any]] = {
    "single precision": {"tol": np.float32(1e-6)},
    "fraction": {"tol": Fraction(1, 10**6)},
    "long double": {"tol": np.longdouble(1e-6)},
    "flags": {"scale": np.bool_(True), "nested": np.bool_(True)},
    "components": {"n_components": np.int8(2)},
    "equal error": {"criterion": EqualError(np.float32(0.25))},
    "gap": {"criterion": ErrorGap(Fraction(1, 2))},
    "robust gap": {"criterion": RobustErrorGap(np.float16(0.5), radius=np.float32(0.25))},
    "radii": {
        "criterion": RobustErrorGap(radius={np.int64(0): np.float16(0.1), 1: Fraction(1, 4)})
    },
    "disparity": {"criterion": Disparity(np.float16(0.75), protected=np.int64(1))},
    "relative": {"criterion": MinimaxLoss(relative=np.bool_(True))},
    "parity": {"restriction": MeanParity(np.float16(0.5)), "criterion": "total_error"},
    "oblique": {"restriction": MeanParity(oblique=np.bool_(True)), "criterion": "total_error"},
    "covariances": {"restriction": CovarianceParity(np.int64(3))},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_model_keeps_plain_numbers_and_can_be_saved(name: str, tmp_path: Path) -> None:
    settings = {"n_components": 2, **SETTINGS[name]}
    model = FairPCA(**settings).fit(ROWS, sensitive_features=GROUPS)
    model.subspace_.save(tmp_path / "model.npz")
    again = FairSubspace.load(tmp_path / "model.npz")
    assert again.certificate is not None
    assert again.certificate.to_dict() == model.solution_.to_dict()
    # The same model with Python's numbers.
    plain = FairPCA(**{key: compute_in_python(value) for key, value in settings.items()})
    plain.fit(ROWS, sensitive_features=GROUPS)
    assert np.array_equal(plain.components_, model.components_)


def compute_in_python(value: Any) -> Any:
    if isinstance(value, Fraction):
        return float(value)
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("name", [name for name in SETTINGS if len(SETTINGS[name]) == 1])
def test_fields_are_plain(name: str) -> None:
    (part,) = SETTINGS[name].values()
    if isinstance(part, Criterion | CovarianceParity):
        values = [getattr(part, field.name) for field in fields(part)]
        values += [
            number for value in values if isinstance(value, dict) for number in value.values()
        ]
        assert {type(value) for value in values} <= {bool, int, float, str, dict, type(None)}


@pytest.mark.parametrize("penalty", [1e300, 2e15, np.float32(1e20)])
def test_a_penalty_next_to_which_the_error_is_rounding_is_refused(penalty: Any) -> None:
    for criterion in (ErrorGap, RobustErrorGap):
        with pytest.raises(InvalidParameter, match="from 0 to 1e\\+15"):
            criterion(penalty)


@pytest.mark.parametrize("penalty", [10**400, Fraction(10**400), math.inf, math.nan])
def test_a_penalty_beyond_all_numbers_is_refused(penalty: Any) -> None:
    with pytest.raises(InvalidParameter, match="penalty"):
        ErrorGap(penalty)


@pytest.mark.parametrize("criterion", [ErrorGap, RobustErrorGap])
@pytest.mark.parametrize("n_groups", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_the_largest_penalty_is_a_number_like_others(criterion: Any, n_groups: int) -> None:
    model = FairPCA(2, criterion=criterion(1e15)).fit(
        ROWS, sensitive_features=np.arange(60) % n_groups
    )
    assert np.isfinite(model.solution_.objective)
    assert model.solution_.lower_bound <= model.solution_.objective


@pytest.mark.parametrize(
    "criterion",
    [
        Disparity(protected="c"),
        RobustErrorGap(radius={"a": 0.1}),
        RobustErrorGap(radius={0: 0, 2: 0}),
    ],
)
def test_a_file_whose_criterion_does_not_fit_its_groups_is_refused(
    criterion: Criterion, tmp_path: Path
) -> None:
    model = FairPCA(2, criterion="error_gap").fit(ROWS, sensitive_features=GROUPS)
    certificate = replace_claims(model.solution_, criterion=criterion)
    replace(model.subspace_, certificate=certificate).save(tmp_path / "model.npz")
    with pytest.raises(CorruptFile, match="criterion"):
        FairSubspace.load(tmp_path / "model.npz")


def test_a_frontier_takes_a_fraction() -> None:
    frontier = fairspan.frontier(ROWS, 2, sensitive_features=GROUPS, tol=Fraction(1, 1000))
    assert np.isfinite(frontier.errors).all()
