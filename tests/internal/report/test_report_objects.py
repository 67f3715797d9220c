"""Names and settings of a report, and the components, points and features of its slider."""

import numpy as np
import pytest

from fairspan.errors import InvalidParameter
from fairspan.report.slider_data import align_components, evenly_spaced, most_loaded_features
from internal.report.report_objects import make_report
from report_cases import generate_rows


def test_names_are_shown_without_what_a_page_or_terminal_would_obey():
    X, _ = generate_rows(2, 3)
    labels = np.where(np.arange(len(X)) % 3 == 0, "<b>\n", "\u202ea")
    assert make_report(X, labels, 1, compare=[], folds=None).group_names == ("<b>?", "?a")


def test_scale_is_true_or_false():
    with pytest.raises(InvalidParameter, match="scale"):
        make_report(*generate_rows(2, 4), scale="yes")


def test_alignment_undoes_signs_and_order():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(7, 3)))[0].T
    shuffled = basis[[2, 0, 1]] * np.array([[-1.0], [1.0], [-1.0]])
    walk = align_components([shuffled, basis, -basis, basis[:2]], 1)
    for components in walk[:3]:
        np.testing.assert_array_equal(components, basis)
    np.testing.assert_array_equal(walk[3], basis[:2])


def test_points_are_spread_and_keep_both_ends():
    angles = np.linspace(0, np.pi / 2, 500) ** 3
    curve = np.column_stack([1 - np.cos(angles), 1 - np.sin(angles)]) * [1e6, 1e-3]
    positions = evenly_spaced(curve, 20)
    assert (positions[0], positions[-1], len(positions)) == (0, 499, 20)
    lengths = np.linalg.norm(np.diff(curve[positions] / np.ptp(curve, axis=0), axis=0), axis=1)
    assert lengths.max() < 2 * lengths.min()


def test_telling_features_are_the_largest_anywhere():
    components = np.zeros((3, 2, 50))
    for step, feature in enumerate((49, 7, 30)):
        components[step, 1, feature] = -1.0 + 0.1 * step
    features = most_loaded_features(list(components))
    assert features == sorted({49, 7, 30} | set(range(7)) | set(range(8, 18)))
