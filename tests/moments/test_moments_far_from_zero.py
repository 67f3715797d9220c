"""Columns far from zero, constant or nearly so, in every kind of moments."""

from fractions import Fraction

import numpy as np
import pytest
import scipy

import fairspan as fs

KINDS = ["dense", "wide", "sparse", "merged", "em"]
# Dates in nanoseconds, and a number that float64 does not hold exactly.
CONSTANTS = [1.7e18, -1e9 / 3]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def _rows(kind, rng):
    """Return rows and groups of a kind; the groups differ in the second column."""
    shape = {"wide": (60, 520), "sparse": (90, 40)}.get(kind, (90, 7))
    rows = rng.standard_normal(shape)
    groups = np.arange(len(rows)) % 3 == 0
    rows[groups, 1] += 3.0
    rows[groups, 2] *= 2.0
    if kind == "sparse":
        rows[rng.random(shape) < 0.95] = 0.0
    if kind == "em":
        rows[rng.random(shape) < 0.05] = np.nan
    return rows, groups


def _fit(kind, rows, groups, **settings):
    model = fs.FairPCA(2, **settings)
    if kind == "merged":
        # Parts in which the first group, and with it the pilot of a column, differ.
        halves = [groups, ~groups, groups & (np.arange(len(groups)) % 2 == 0)]
        rest = groups & ~halves[2]
        parts = [halves[1], halves[2], rest]
        moments = [fs.GroupMoments.from_rows(rows[part], groups[part]) for part in parts]
        return model.fit_moments(sum(moments[1:], moments[0]))
    if kind == "em":
        model.set_params(on_missing="em")
    if kind == "sparse":
        rows = scipy.sparse.csr_array(rows)
    return model.fit(rows, sensitive_features=groups)


@pytest.mark.filterwarnings("ignore:EM ended")
@pytest.mark.parametrize("kind", KINDS)
def test_constant_columns_change_nothing(kind, rng, monkeypatch):
    monkeypatch.setattr("fairspan.moments.compute.MAX_DENSE_FEATURES", 10)
    rows, groups = _rows(kind, rng)
    wider = np.column_stack([np.full((len(rows), 2), CONSTANTS), rows])
    for settings in (
        {"criterion": "minimax_error"},
        {"criterion": "total_error", "restriction": fs.MeanParity(), "center": "group"},
    ):
        if kind == "em" and "restriction" in settings:
            continue
        plain, wide = (_fit(kind, table, groups, **settings) for table in (rows, wider))
        assert wide.solution_.objective == pytest.approx(plain.solution_.objective, rel=1e-7)
        assert wide.group_errors_ == pytest.approx(plain.group_errors_, rel=1e-6)
        assert wide.solution_.status == plain.solution_.status
        assert wide.solution_.resolution < 4 * plain.solution_.resolution
        assert np.abs(wide.components_[:, :2]).max() < 1e-9
        assert (wide.moments_.standard_deviations[:2] == 0).all()
        assert (wide.mean_[:2] == CONSTANTS).all()


@pytest.mark.parametrize("kind", ["dense", "wide", "merged"])
@pytest.mark.parametrize("center", ["global", "group"])
def test_errors_far_from_zero_are_those_of_the_rows(kind, center, rng):
    rows, groups = _rows(kind, rng)
    rows = 1e9 + 1e-5 * rows
    model = _fit(kind, rows, groups, criterion="minimax_error", center=center)
    # The rows less the first of them are exact.
    apart = (rows - rows[0]).astype(np.longdouble)
    components = model.components_.astype(np.longdouble)
    middle = apart.mean(axis=0)
    for label, error in zip(model.groups_, model.group_errors_, strict=True):
        group_rows = apart[groups == label]
        group_rows = group_rows - (middle if center == "global" else group_rows.mean(axis=0))
        residual = group_rows - group_rows @ components.T @ components
        assert error == pytest.approx(float((residual**2).sum(axis=1).mean()), rel=1e-10)
    assert model.solution_.status == "optimal"
    assert fs.verify(model, model.moments_).holds


def test_means_of_parts_are_exact(rng):
    rows = 1e12 + rng.standard_normal((40, 3))
    groups = np.arange(40) % 2
    parts = [fs.GroupMoments.from_rows(rows[i::4], groups[i::4]) for i in (0, 1)]
    parts += [fs.GroupMoments.from_rows(rows[i::4], groups[i::4]) for i in (2, 3)]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    for g in (0, 1):
        for feature in range(3):
            values = [Fraction(float(x)) for x in rows[groups == g, feature]]
            mean = sum(values) / len(values)
            high, low = total.means[g, feature], total.mean_corrections[g, feature]
            # In units of the deviation; a mean alone is off by 1e-4.
            assert abs(float(mean - Fraction(float(high)) - Fraction(float(low)))) < 1e-14


def test_a_file_keeps_the_exact_means(rng, tmp_path):
    moments = fs.GroupMoments.from_rows(1e12 + rng.standard_normal((40, 3)), np.arange(40) % 2)
    moments.save(tmp_path / "moments.npz")
    again = fs.GroupMoments.load(tmp_path / "moments.npz")
    assert (again.mean_corrections == moments.mean_corrections).all()
    assert np.abs(moments.mean_corrections).max() > 0


def test_corrections_larger_than_rounding_are_refused(rng):
    moments = fs.GroupMoments.from_rows(1e12 + rng.standard_normal((40, 3)), np.arange(40) % 2)
    parts = (moments.groups, moments.counts, moments.weights, moments.means, moments.scatters)
    with pytest.raises(fs.errors.InvalidInput, match="mean_corrections are larger"):
        fs.GroupMoments(*parts, mean_corrections=np.ones((2, 3)))


def test_rounding_is_a_share_of_what_varies(rng):
    rows = np.column_stack([np.full(40, 1.7e18), 1e9 + rng.standard_normal(40)])
    moments = fs.GroupMoments.from_rows(rows, np.arange(40) % 2)
    rounding = moments.offset_rounding(moments.mean)
    assert rounding[0] == 0
    assert 0 < rounding[1] < 1e-15
    assert (moments.offset_rounding(moments.means) == 0).all()
    halved = moments.divided_by(np.array([1.0, 2.0]))
    assert halved.offset_rounding(halved.mean)[1] == pytest.approx(rounding[1] / 2)


def test_scaled_offsets_are_exact(rng):
    rows = 1e9 + 1e-5 * rng.standard_normal((60, 2))
    groups = np.arange(60) % 2
    moments = fs.GroupMoments.from_rows(rows, groups)
    scaled = moments.divided_by(np.array([1e-5 / 3, 0.7]))
    for feature, by in enumerate((1e-5 / 3, 0.7)):
        values = [Fraction(float(x)) / Fraction(by) for x in rows[:, feature]]
        middle = sum(values) / 60
        mean = sum(values[1::2]) / 30
        offset = scaled.offsets_from(scaled.mean)[1, feature]
        assert offset == pytest.approx(float(mean - middle), rel=1e-9)
