"""Laws of every criterion with every restriction, on the bank of problems and on real data.

Rotated features have the same answer, and so have columns in other units where they are scaled;
errors and objectives are those of the rows; certificates hold; and who may choose from fewer
subspaces finds nothing better.
"""

import warnings
from functools import cache
from itertools import product

import numpy as np
import pytest
import scipy.sparse

import fairspan as fs
import real_data
from bank import BANK
from case_selection import mark_most_long
from fairspan.errors import FairspanError
from problems import rows_with_moments

CRITERIA = {
    "total_error": fs.TotalError(),
    "minimax_loss": fs.MinimaxLoss(),
    "minimax_error": fs.MinimaxError(),
    "relative_loss": fs.MinimaxLoss(relative=True),
    "relative_error": fs.MinimaxError(relative=True),
    "least_variance": fs.LeastVariance(),
    "equal_error": fs.EqualError(),
    "disparity": fs.Disparity(),
    "error_gap": fs.ErrorGap(0.7),
    "robust_error_gap": fs.RobustErrorGap(),
    "nash_welfare": fs.NashWelfare(),
}
NESTED = ("total_error", "minimax_loss", "minimax_error", "least_variance")
RESTRICTIONS = {
    "free": None,
    "mean_parity": fs.MeanParity(),
    "loose_mean_parity": fs.MeanParity(0.5),
    "oblique": fs.MeanParity(oblique=True),
    "covariance_parity": fs.CovarianceParity(n_directions=1),
}
CENTERS = ("global", "group", "none")


@pytest.fixture(autouse=True)
def _advice_is_not_the_subject():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fit(moments, n_components, **settings):
    """Return the fit, or the class of the error that refuses it."""
    try:
        return fs.FairPCA(n_components, **settings).fit_moments(moments)
    except FairspanError as error:
        return type(error)


def centered_groups(model, X, labels):
    """Rows of each group in the units of the model, about the point of the model."""
    X = X if model.scale_ is None else X / model.scale_
    parts = [X[labels == label] for label in np.unique(labels)]
    if model.center == "group":
        return [part - part.mean(axis=0) for part in parts]
    return [part - X.mean(axis=0) * (model.center == "global") for part in parts]


def check_errors(model, X, labels):
    """Compare group errors and objective with figures from the rows."""
    parts = centered_groups(model, X, labels)
    across = np.eye(X.shape[1]) - model.subspace_.encoder.T @ model.subspace_.decoder.T
    errors = np.array([((part @ across) ** 2).sum() / len(part) for part in parts])
    totals = np.array([(part**2).sum() / len(part) for part in parts])
    spectra = [np.linalg.svd(part, compute_uv=False) ** 2 / len(part) for part in parts]
    best = np.array([spectrum[model.n_components_ :].sum() for spectrum in spectra])
    shares = np.array([len(part) / len(X) for part in parts])
    slack = 1e-8 * totals.max()
    np.testing.assert_allclose(model.group_errors_, errors, rtol=1e-8, atol=slack)
    # Losses are those to the best of all subspaces that a restriction leaves.
    assert (model.group_losses_ <= errors - best + slack).all()
    losses = model.group_losses_
    name = model.solution_.criterion.name
    is_relative = getattr(model.solution_.criterion, "relative", False)
    divisor = totals if is_relative else np.ones(len(parts))
    values = {
        "total_error": shares @ errors,
        "minimax_loss": (losses / divisor).max(),
        "minimax_error": (errors / divisor).max(),
        "least_variance": -(totals - errors).min(),
        "error_gap": shares @ errors + 0.7 * np.ptp(errors),
    }
    if name in values:
        assert model.solution_.objective == pytest.approx(values[name], rel=1e-8, abs=slack), name


def check_same_answer(one, other):
    """Compare two fits of one problem; with an open gap, answers may differ by the gap."""
    if isinstance(one, type) or isinstance(other, type):
        assert one is other
        return
    mine, theirs = one.solution_, other.solution_
    slack = 2e-9 * max(mine.scale, theirs.scale) + mine.resolution + theirs.resolution
    assert mine.status == theirs.status
    assert mine.lower_bound <= theirs.objective + slack
    assert theirs.lower_bound <= mine.objective + slack
    if mine.status == "optimal":
        assert mine.objective == pytest.approx(theirs.objective, rel=1e-8, abs=slack)


def random_rotation(p):
    return np.linalg.qr(np.random.default_rng(p).standard_normal((p, p)))[0]


SLOW = {
    ("a flat edge", "free", "global"),
    ("two lines", "free", "group"),
    ("a group without variance", "mean_parity", "global"),
    ("3 lines, d = 1", "mean_parity", "none"),
}
BANK_CASES = [
    pytest.param(*case, marks=[pytest.mark.slow] if case in SLOW else [])
    for case in product([entry.name for entry in BANK], RESTRICTIONS, CENTERS)
]


@pytest.mark.parametrize(("name", "restriction", "center"), mark_most_long(BANK_CASES, 16))
def test_problems_of_the_bank(name, restriction, center):
    entry = next(problem for problem in BANK if problem.name == name)
    X, labels = rows_with_moments(entry.matrices)
    labels = np.array(labels)
    if center != "none" or restriction != "free":  # groups lie apart where means count
        codes = np.unique(labels, return_inverse=True)[1]
        X = X + 0.5 * np.cos(np.outer(codes + 1, np.arange(1, X.shape[1] + 1)))
    d = entry.n_components
    moments = fs.GroupMoments.from_rows(X, labels)
    rotated = fs.GroupMoments.from_rows(X @ random_rotation(X.shape[1]), labels)
    settings = {"restriction": RESTRICTIONS[restriction], "center": center}
    for key, criterion in CRITERIA.items():
        for nested in (False, True) if key in NESTED else (False,):
            arguments = {"criterion": criterion, "nested": nested} | settings
            model = fit(moments, d, **arguments)
            if not isinstance(model, type):
                # PCA chooses the protected group where none is named; it may be arbitrary here.
                arguments["criterion"] = model.solution_.criterion
            check_same_answer(model, fit(rotated, d, **arguments))
            if isinstance(model, type):
                continue
            check_errors(model, X, labels)
            assert fs.verify(model, moments).holds
            solution = model.solution_
            # Losses are to the best that the restriction leaves, so they cannot be compared.
            if "loss" not in key and not model.subspace_.is_oblique:
                free = fit(moments, d, criterion=arguments["criterion"], center=center)
                slack = 1e-9 * solution.scale + solution.resolution
                assert free.solution_.lower_bound <= solution.objective + slack


# The first of them are small.
DATA = ("pima_diabetes:group__pregnant_gt1", "compas_molfat:group__race")
DATA += ("default_credit:group__education3", "adult_train:group__asian")


def data_cases():
    names = [*real_data.TWO_GROUPS, *real_data.MANY_GROUP_NAMES]
    slow, long = [pytest.mark.slow], [pytest.mark.long]
    marks = dict.fromkeys(DATA[1:], slow) | {DATA[0]: []}
    return [pytest.param(name, marks=marks.get(name, long)) for name in names]


@pytest.mark.parametrize("name", data_cases())
def test_real_data(name):
    rows = real_data.load(name)
    X, labels = rows.X, rows.groups
    moments = fs.GroupMoments.from_rows(X, labels)
    for g, label in enumerate(moments.labels):
        group_rows = X[labels == label]
        np.testing.assert_allclose(moments.means[g], group_rows.mean(axis=0), rtol=1e-9, atol=1e-9)
        scatter = (group_rows - group_rows.mean(axis=0)).T @ (group_rows - group_rows.mean(axis=0))
        largest = np.abs(scatter).max()
        np.testing.assert_allclose(moments.scatters[g], scatter, rtol=1e-8, atol=1e-11 * largest)
    # Powers of two, by which numbers are multiplied without rounding.
    units = 2.0 ** (np.arange(X.shape[1]) % 7 - 3)
    in_other_units = fs.GroupMoments.from_rows(X * units, labels)
    settings = [{"criterion": criterion} for criterion in CRITERIA.values()]
    settings += [
        {"restriction": restriction}
        for restriction in RESTRICTIONS.values()
        if restriction is not None
    ]
    settings += [{"nested": True}]
    for settings_of_fit in settings:
        model = fit(moments, 3, scale=True, **settings_of_fit)
        check_same_answer(model, fit(in_other_units, 3, scale=True, **settings_of_fit))
        if not isinstance(model, type):
            check_errors(model, X, labels)
            assert fs.verify(model, moments).holds


@cache
def wide_rows():
    rng = np.random.default_rng(11)
    labels = np.arange(48) % 3
    shape = rng.uniform(0.3, 3.0, (3, 620))
    return rng.standard_normal((48, 620)) * shape[labels] + 0.3 * labels[:, None], labels


@cache
def sparse_rows():
    rng = np.random.default_rng(11)
    sparse = scipy.sparse.random_array((900, 700), density=0.02, rng=rng, format="csr")
    labels = np.arange(900) % 2
    scales = scipy.sparse.diags_array(np.where(labels == 0, 1.0, 1.7))
    return (scales @ sparse).tocsr(), labels


@pytest.mark.long
@pytest.mark.parametrize("restriction", [None, fs.MeanParity()])
@pytest.mark.parametrize("criterion", ["minimax_loss", "error_gap", "nash_welfare", "total_error"])
@pytest.mark.parametrize("kind", ["wide", "sparse"])
def test_few_rows_in_their_own_coordinates_and_sparse_rows_as_dense_ones(
    kind, criterion, restriction
):
    X, labels = wide_rows() if kind == "wide" else sparse_rows()
    # Fewer rows than features span as many coordinates as there are rows.
    other = np.linalg.qr(X.T)[1].T if kind == "wide" else X.toarray()
    fits = []
    for rows in (X, other):
        fair = fs.FairPCA(4, criterion=criterion, restriction=restriction)
        fits.append(fair.fit(rows, sensitive_features=labels))
    check_same_answer(*fits)
    np.testing.assert_allclose(fits[0].group_errors_, fits[1].group_errors_, rtol=1e-5)


# Small enough that an audit with ten folds takes a second or two.
AUDITED = (
    pytest.param("energy:group__orientation_lt4", marks=pytest.mark.slow),
    *(
        pytest.param(name, marks=pytest.mark.long)
        for name in (
            "compas:group__sex",
            "compas_molfat:group__race",
            "ecoli:group__cytoplasm",
            "german_credit:group__age_lt40",
            "pima_diabetes:group__pregnant_gt1",
            "steel_plates:group__fault_other",
            "wine_quality:group__colour",
        )
    ),
)


@pytest.mark.parametrize("name", AUDITED)
def test_an_audit_of_scaled_columns_does_not_depend_on_their_units(name):
    rows = real_data.load(name)
    frames = []
    for units in (1.0, 2.0 ** (np.arange(rows.X.shape[1]) % 7 - 3)):
        X = rows.X * units
        fair = fs.FairPCA(2, scale=True).fit(X, sensitive_features=rows.groups)
        frames.append(fs.audit(fair, X, rows.groups).frame())
    one, other = frames
    assert list(one) == list(other)
    for column in one:
        if one[column].dtype.kind == "f":
            np.testing.assert_allclose(one[column], other[column], rtol=1e-6, atol=1e-9)
        else:
            assert one[column].tolist() == other[column].tolist()
    deviation = rows.X.std(axis=0)
    for model, group in one.groupby("group"):
        group_rows = rows.X[rows.groups == model] / np.where(deviation > 0, deviation, 1.0)
        group_rows = group_rows - (rows.X / np.where(deviation > 0, deviation, 1.0)).mean(axis=0)
        spectrum = np.linalg.svd(group_rows, compute_uv=False) ** 2 / len(group_rows)
        np.testing.assert_allclose(group["observed_total_variance"], spectrum.sum())
        np.testing.assert_allclose(group["observed_best_error"], spectrum[2:].sum(), rtol=1e-8)
