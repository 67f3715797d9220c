"""Input that displays refuse, with messages that say what to do."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from display_cases import display_texts
from fairspan import ErrorGap, FairPCA, FileRows, audit, displays
from fairspan.errors import (
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    InvalidType,
    UnknownGroup,
)
from numpy_reference import random_rows

ROWS = random_rows(0, n=60, p=4)


@cache
def fair_model():
    return FairPCA(2).fit(ROWS.X, sensitive_features=ROWS.labels)


# Others are drawn from audits, histories or decompositions of two tables.
DISPLAYS_OF_ESTIMATORS = [
    name
    for name in displays.__all__
    if hasattr(vars(displays)[name], "from_estimator") and name != "CovarianceLossDisplay"
]
DISPLAYS_WITH_ROWS = ("BiplotDisplay", "ReducedRowsDisplay")


@pytest.mark.parametrize("name", DISPLAYS_OF_ESTIMATORS)
def test_only_a_fitted_estimator_is_shown(name):
    display = getattr(displays, name)
    rows = (ROWS.X, ROWS.labels) if name in DISPLAYS_WITH_ROWS else ()
    for estimator in (FairPCA(2), PCA(2), None, fair_model().subspace_):
        remedy = "Call its fit method" if isinstance(estimator, FairPCA) else "Fit a FairPCA first"
        with pytest.raises(InvalidType, match=f"for {name} is .*fitted FairPCA.*{remedy}"):
            display.from_estimator(estimator, *rows)


@pytest.mark.parametrize("name", ["ErrorCurveDisplay", "VarianceKeptDisplay"])
@pytest.mark.parametrize(
    ("error", "rows"),
    [
        (InvalidInput, (ROWS.X,)),
        (InvalidInput, (None, ROWS.labels)),
        (InvalidInput, (ROWS.X[:, :3], ROWS.labels)),
        (InvalidInput, (ROWS.X, ROWS.labels[:5])),
        (UnknownGroup, (ROWS.X, np.where(ROWS.labels == "a", "new", "b"))),
    ],
)
def test_rows_that_cannot_be_used_for_evaluation(name, error, rows):
    with pytest.raises(error):
        getattr(displays, name).from_estimator(fair_model(), *rows)


@pytest.mark.parametrize("dimensions", [[0], [5], [1.5], []])
def test_unavailable_dimensions_are_refused(dimensions):
    with pytest.raises(InvalidParameter):
        displays.ErrorCurveDisplay.from_estimator(fair_model(), dimensions=dimensions)


def test_invalid_parameters_are_refused():
    with pytest.raises(InvalidParameter, match=r"numeric parameters.*tol"):
        displays.DisparityPathDisplay.from_estimator(fair_model())
    with pytest.raises(InvalidParameter, match="'error', 'loss'"):
        displays.ErrorCurveDisplay.from_estimator(fair_model(), quantity="variance")
    with pytest.raises(InvalidParameter, match="features, 4"):
        displays.LoadingsDisplay.from_estimator(fair_model(), image_shape=(3, 3))
    with pytest.raises(InvalidParameter, match="n_features is 0"):
        displays.LoadingsDisplay.from_estimator(fair_model(), n_features=0)
    with pytest.raises(InvalidParameter, match="show_pca is 'no'"):
        displays.LoadingsDisplay.from_estimator(fair_model(), image_shape=(2, 2), show_pca="no")
    with pytest.raises(IncompatibleParameters, match="image_shape"):
        displays.LoadingsDisplay.from_estimator(fair_model(), show_pca=True)
    with pytest.raises(InvalidParameter, match="'observed_variance_kept'"):
        audit(fair_model(), ROWS.X, ROWS.labels).plot(quantity="share")


@pytest.mark.parametrize(
    "changes",
    [
        {"criterion": "total_error"},
        {"criterion": ErrorGap(2.0)},
        {"restriction": "mean_parity"},
        {"center": "none"},
        {"scale": True},
    ],
    ids=str,
)
def test_settings_that_were_changed_after_the_fit_are_not_drawn_under_its_name(changes):
    estimator = FairPCA(2, criterion="error_gap").fit(ROWS.X, sensitive_features=ROWS.labels)
    estimator.set_params(**changes)
    for name in ("ErrorCurveDisplay", "DisparityPathDisplay"):
        with pytest.raises(InvalidParameter, match=r"changed after|does not have"):
            getattr(displays, name).from_estimator(estimator)
    estimator.fit(ROWS.X, sensitive_features=ROWS.labels)
    displays.ErrorCurveDisplay.compute(estimator, dimensions=[2])


def test_few_rows_give_no_estimates_for_new_rows():
    few_rows = (ROWS.X[:4], np.array(["a", "a", "b", "b"]))
    with pytest.raises(InvalidInput, match="too few rows"):
        displays.GroupLossDisplay.from_estimator(fair_model(), *few_rows)
    display = displays.ErrorCurveDisplay.from_estimator(fair_model(), *few_rows, dimensions=[2])
    assert "too few rows" in " ".join(display_texts(display))


@pytest.mark.parametrize("name", ["GroupLossDisplay", "ErrorCurveDisplay"])
def test_folds_that_need_too_much_memory_are_named_where_nothing_is_estimated(name, monkeypatch):
    monkeypatch.setattr("fairspan.auditing.fold_statistics._MAX_FEATURES_WITHOUT_CHECK", 0)
    monkeypatch.setattr("fairspan.auditing.fold_statistics.affordable_folds", lambda *_: None)
    display = getattr(displays, name)
    if name == "GroupLossDisplay":
        with pytest.raises(InvalidInput, match=r"for new rows: .*GiB"):
            display.from_estimator(fair_model(), ROWS.X, ROWS.labels)
    else:
        assert "GiB" in " ".join(
            display_texts(display.from_estimator(fair_model(), ROWS.X, ROWS.labels))
        )


def test_rows_that_were_opened_bring_their_own_groups(tmp_path):
    names = [f"x{i}" for i in range(4)]
    frame = pd.DataFrame(ROWS.X, columns=names).assign(g=ROWS.labels)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    rows = FileRows.open(tmp_path / "rows.csv", group_columns=["g"])
    model_with_names = FairPCA(2, criterion="total_error").fit(
        frame[names], sensitive_features=ROWS.labels
    )
    frames = [
        displays.GroupLossDisplay.compute(model_with_names, *data).frame()
        for data in ((rows,), (frame[names], ROWS.labels))
    ]
    pd.testing.assert_frame_equal(*frames)
    with pytest.raises(InvalidInput, match="X without sensitive_features"):
        displays.GroupLossDisplay.from_estimator(model_with_names, frame[names])
