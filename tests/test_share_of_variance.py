"""n_components as a share: the smallest d at which every group keeps it."""

import numpy as np
import pytest

from case_selection import select_cases
from fairspan import CovarianceParity, ErrorGap, FairPCA, GroupMoments, MeanParity
from fairspan.errors import IncompatibleParameters
from numpy_reference import random_rows

ROWS = random_rows(95, n=120, p=7)
THREE = random_rows(96, n=120, p=7, groups=("a", "b", "c"))


def fit(n_components, rows=ROWS, **settings):
    model = FairPCA(n_components, **settings)
    return model.fit(rows.X, sensitive_features=rows.labels)


def minimum_share(model, rows):
    """Return the smallest share of a group's variance that a model captures, from the rows."""
    residual = rows.X - model.inverse_transform(model.transform(rows.X))
    centered = rows.X - rows.X.mean(axis=0)
    of_groups = [np.array(rows.labels) == label for label in model.groups_]
    return min(1 - (residual[of] ** 2).sum() / (centered[of] ** 2).sum() for of in of_groups)


SETTINGS = {
    "loss": {"criterion": "minimax_loss"},
    "error": {"criterion": "minimax_error"},
    "total": {"criterion": "total_error"},
    "gap": {"criterion": ErrorGap(2.0)},
    "equal": {"criterion": "equal_error"},
    "mean parity": {"restriction": MeanParity()},
    "some directions": {"restriction": CovarianceParity(n_directions=5)},
    "oblique": {"criterion": "total_error", "restriction": MeanParity(oblique=True)},
    "near means": {"criterion": "total_error", "restriction": MeanParity(0.5)},
}


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("case", "share"),
    select_cases([(case, share) for share in (0.3, 0.6, 0.9, 0.99) for case in SETTINGS], 3),
)
def test_the_smallest_dimension_is_found(case, share):
    settings = SETTINGS[case]
    shares = {}
    for d in range(1, 8):
        try:
            shares[d] = minimum_share(fit(d, **settings), ROWS)
        except IncompatibleParameters:  # more components than the restriction leaves
            continue
    enough = [d for d, captured in shares.items() if captured >= share]
    if not enough:
        with pytest.raises(IncompatibleParameters, match="Allowed: at most") as error:
            fit(share, **settings)
        feasible_share = float(str(error.value).split("at most ")[1].split(",")[0])
        assert feasible_share == pytest.approx(max(shares.values()), abs=2e-6)
        fit(feasible_share, **settings)
        return
    model = fit(share, **settings)
    assert model.n_components_ == min(enough)
    assert model.n_components == share
    again = fit(min(enough), **settings)
    assert again.components_.tobytes() == model.components_.tobytes()


def test_the_refusal_of_an_infeasible_fraction_names_the_feasible_one():
    """Seven components leave the means no direction in which to come closer; six keep .679."""
    settings = SETTINGS["near means"]
    feasible_share = minimum_share(fit(6, **settings), ROWS)
    with pytest.raises(IncompatibleParameters, match=f"Allowed: at most {feasible_share:.4f}"):
        fit(0.99, **settings)


def test_every_group_keeps_it_not_only_all_rows_together():
    """One group varies along an axis that contributes little to the pooled variance."""
    X = np.zeros((100, 3))
    X[:90, 0] = np.tile([10.0, -10.0], 45)
    X[90:, 1] = np.tile([1.0, -1.0], 5)
    labels = np.repeat(["many", "few"], [90, 10])
    model = FairPCA(0.9, criterion="total_error").fit(X, sensitive_features=labels)
    assert model.n_components_ == 2


def test_any_number_of_groups_and_a_group_without_variance():
    model = fit(0.8, THREE, criterion="total_error")
    assert minimum_share(model, THREE) >= 0.8
    assert minimum_share(fit(model.n_components_ - 1, THREE, criterion="total_error"), THREE) < 0.8
    X = np.vstack([ROWS.X, np.tile(ROWS.X.mean(axis=0), (10, 1))])
    labels = [*ROWS.labels, *["same"] * 10]
    model = FairPCA(0.8, criterion="total_error").fit(X, sensitive_features=labels)
    assert 1 <= model.n_components_ < 7
    assert FairPCA(0.5).fit(np.ones((4, 3)), sensitive_features=list("aabb")).n_components_ == 1


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_the_unit_of_the_features_changes_no_dimension(unit):
    moments = GroupMoments.from_rows(unit * ROWS.X, ROWS.labels)
    one = FairPCA(np.float32(0.8)).fit_moments(moments)
    assert one.n_components_ == fit(0.8).n_components_
    assert one.transform(unit * ROWS.X).shape == (120, one.n_components_)


def test_a_share_is_kept_exactly_where_it_can_be():
    X = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 1, 0], [0, -1, 0]] * 2)
    labels = ["a"] * 4 + ["b"] * 4
    for share, d in ((0.9, 1), (0.9 + 1e-9, 2)):
        assert FairPCA(share).fit(X, sensitive_features=labels).n_components_ == d
