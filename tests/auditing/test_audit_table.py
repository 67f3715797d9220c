"""Tables and pictures of an audit: they fit the terminal and show its own figures."""

import re
from functools import cache
from unicodedata import east_asian_width

import numpy as np
import pandas as pd
import pytest

from fairspan import FairPCA, GroupMoments, audit
from fairspan.errors import InvalidParameter
from numpy_reference import random_rows

WIDE = "東京都世田谷区の住民の皆さん"


def display_width(text):
    return sum(1 + (east_asian_width(character) in "WF") for character in text)


def test_findings_fit_and_the_codes_of_warnings_are_painted():
    rng = np.random.default_rng(0)
    labels = np.repeat([f"{WIDE}{i}" for i in range(3)], 30)
    result = audit(np.eye(4)[:1], rng.normal(size=(90, 4)) * [1, 2, 3, 4], labels)
    for width in (80, 60):
        text = result.to_text(width)
        assert max(map(display_width, text.splitlines())) <= width
    colored_text = result.to_text(
        80,
        lambda text, role: f"\x1b[1m{text}\x1b[0m" if role == "warning" else text,
    )  # fmt: skip
    assert re.sub(r"\x1b\[\dm", "", colored_text) == str(result)
    codes = {finding.code for finding in result.findings if finding.severity == "warning"}
    assert set(re.findall(r"\x1b\[1m(.*?)\x1b", colored_text)) == codes


ROWS = random_rows(0, n=60, p=4, groups=("a", "b", "c"))


@cache
def fair():
    return FairPCA(2).fit(ROWS.X, sensitive_features=ROWS.labels)


@cache
def audit_example():
    return audit(fair(), ROWS.X, ROWS.labels, folds=None)


@pytest.mark.parametrize("quantity", ["observed_error", "observed_loss", "observed_variance_kept"])
def test_figures_are_those_of_the_table(quantity):
    from matplotlib.figure import Figure

    picture = audit_example().plot(Figure().add_subplot(), quantity=quantity, unit="squared")
    frame = picture.frame()
    table = audit_example().frame()
    ends = [f"{quantity}{end}" for end in ("_low", "_high")] * (quantity == "observed_error")
    variances = ["observed_total_variance"] * (quantity != "observed_variance_kept")
    assert list(frame.columns) == ["model", "group", quantity, *ends, *variances]
    pd.testing.assert_frame_equal(frame, table[frame.columns])
    assert picture.models == ("minimax loss", "PCA")
    assert picture.pca_models == ("PCA",)
    lines = {line.get_gid(): line for line in picture.ax_.lines}
    assert lines["model-1"].get_markerfacecolor() == "white" != lines["model-0"].get_color()
    assert lines["model-1"].get_color() != lines["model-0"].get_color()
    assert lines["model-0"].get_markerfacecolor() == lines["model-0"].get_color()
    np.testing.assert_array_equal(lines["model-0"].get_xdata(), picture.values()[0])


def test_moments_have_no_intervals():
    picture = audit(fair(), moments=GroupMoments.from_rows(ROWS.X, ROWS.labels)).plot()
    assert list(picture.frame().columns) == [
        *("model", "group", "observed_error", "observed_total_variance"),
    ]


def test_a_loss_that_is_only_rounding_is_drawn_as_zero():
    X = np.outer(np.arange(60.0), [1.0, 2.0, 3.0, 4.0])  # one dimension holds all
    line = FairPCA(1).fit(X, sensitive_features=ROWS.labels)
    result = audit(line, X, ROWS.labels, folds=None)
    assert not result.plot(quantity="observed_loss").values().any()


def test_intervals_are_drawn_and_named_where_there_are_any():
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    for quantity, has_intervals in (("observed_error", True), ("observed_variance_kept", False)):
        figure = Figure()
        audit_example().plot(figure.add_subplot(), quantity=quantity)
        labels = [" ".join(text.get_text().split()) for text in figure.findobj(Text)]
        assert any("95 % confidence intervals" in label for label in labels) == has_intervals
        assert not has_intervals or figure.findobj(LineCollection)


def uneven_rows(kind):
    """Rows of two groups in which one column, cell or group is far larger than all others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * [3, 2, 1, 1, 1]
    groups = np.array(["a", "b"] * 200)
    if kind == "column":
        X[:, 0] *= 1e9
    elif kind == "stray cell":
        X[3, 0] = 1e20
    elif kind == "two columns":
        X[:, :2] *= [1e12, 1e6]
    elif kind == "group":
        X[groups == "b"] *= 1e8
    elif kind == "offset":
        X[:, 1] += 1e9
    return X, groups


NUMBER = r"-?\d[\d.]*(?:e-?\d+)?"


@pytest.mark.parametrize(
    ("kind", "folds"),
    [
        *((kind, None) for kind in ("column", "stray cell", "group", "offset")),
        ("two columns", 5),
        *(
            pytest.param(kind, 5, marks=pytest.mark.slow)
            for kind in ("column", "stray cell", "group", "offset")
        ),
        pytest.param("two columns", None, marks=pytest.mark.slow),
    ],
)
def test_no_figure_is_rounded_to_zero_next_to_its_interval(kind, folds):
    X, groups = uneven_rows(kind)
    result = audit(FairPCA(2).fit(X, sensitive_features=groups), X, groups, folds=folds)
    errors = [group.observed_error for model in result.models for group in model.groups]
    frame = result.frame()
    group_records = [
        group_record for model in result.to_dict()["models"] for group_record in model["groups"]
    ]
    plot_frame = result.plot(quantity="observed_error").frame()
    text = result.to_text(unit="squared")
    html = result.table("squared")._repr_html_()
    for i, error in enumerate(errors):
        assert error.low <= error.value <= error.high
        for record in (frame.iloc[i], group_records[i], plot_frame.iloc[i]):
            assert record["observed_error"] == error.value
            assert record["observed_error_low"] == error.low
        if folds is None and kind != "group":
            value = re.escape(f"{error.value:.4g}"[:4])
            low = re.escape(f"{error.low:.4g}"[:3])
            pattern = rf"\b0*{value}\d*\s+{low}"
            assert re.search(pattern, text), (pattern, text)
            assert f"{error.value:.4g}"[:4] in html
    # On a terminal no figure stands outside of the interval next to it.
    for displayed in (text, str(result)):
        triples = re.findall(rf"({NUMBER})(?: %)?\s+({NUMBER}) to\s+({NUMBER})", displayed)
        triples += re.findall(
            rf"\bby ({NUMBER}) in\s+squared\s+units\s+\(({NUMBER})\s+to\s+({NUMBER})\)", displayed
        )
        assert triples
        for value, low, high in (map(float, triple) for triple in triples):
            assert value or low <= 0 <= high
            assert folds is not None or low <= value <= high


@cache
def audit_with_folds():
    return audit(fair(), ROWS.X, ROWS.labels)


def rows_of(table):
    """Texts of the rows of each group of a table."""
    headings = [f"{column.heading} {column.detail_heading}".strip() for column in table.columns]
    return [dict(zip(headings, row, strict=True)) for row in table.rows]


def test_tables_show_shares_of_the_variance_of_each_group():
    result = audit_with_folds()
    groups = [group for model in result.models for group in model.groups]
    shares = result.table()
    squares = result.table(unit="squared")
    for group, share_row, squared_row in zip(
        groups, rows_of(shares), rows_of(squares), strict=True
    ):
        loss = group.expected_loss
        percent, unit = share_row["expected loss 95 % interval"].text.split()
        assert unit == "%"
        assert float(percent.replace("\u2212", "-")) == pytest.approx(
            100 * loss.value / group.observed_total_variance, abs=0.05
        )
        ends = share_row["expected loss 95 % interval"].detail.replace("\u2212", "-").split()
        assert [float(ends[0]), float(ends[2])] == pytest.approx(
            [100 * end / group.observed_total_variance for end in (loss.low, loss.high)], abs=0.05
        )
        error = float(share_row["expected error"].text.split()[0])
        assert error == pytest.approx(
            100 * group.expected_error.value / group.observed_total_variance, abs=0.05
        )
        assert float(squared_row["expected error"].text) == pytest.approx(
            group.expected_error.value, rel=1e-3
        )
    with pytest.raises(InvalidParameter, match="percent"):
        result.table(unit="percent")


def test_uninformative_columns_are_omitted():
    clear = audit_with_folds()
    headings = [column.heading for column in clear.table().columns]
    assert headings[-1] == "state"
    assert "effective rows" not in headings
    rng = np.random.default_rng(0)
    # Equal eigenvalues identify no best subspace, and few weights count for nearly all rows.
    X = rng.normal(size=(400, 4)) * [3, 1, 1, 1]
    groups = np.tile(["a", "b"], 200)
    weights = np.where(np.arange(400) < 40, 100.0, 1.0)
    weighted = audit(np.eye(4)[:2], X, groups, sample_weight=weights)
    table_rows = rows_of(weighted.table())
    for row, group in zip(table_rows, weighted.models[0].groups, strict=True):
        assert row["effective rows"].text == f"{group.n_effective:.0f}"
        gap = group.eigenvalue_gap
        assert row["eigenvalue gap"].text == f"{gap.value / gap.standard_error:.1f} s.e."
    assert max(map(display_width, weighted.table().to_text(80).splitlines())) <= 80


def test_a_difference_names_the_larger_group_and_has_the_sign_of_its_interval():
    X = np.random.default_rng(0).normal(size=(400, 3)) * [3, 1, 1]
    groups = np.tile(["a", "b"], 200)
    for larger in ("a", "b"):
        scaled = X * np.where(groups == larger, 2, 1)[:, None]
        result = audit(np.eye(3)[:1], scaled, groups, folds=None)
        heading = dict(result.table(unit="squared").sections)[0]
        smaller = "b" if larger == "a" else "a"
        words = f"error of {larger} larger than of {smaller} by"
        pattern = rf"{words} ({NUMBER}) in squared units \(({NUMBER}) to\s({NUMBER})\)"
        value, low, high = map(float, re.search(pattern, heading).groups())
        squares = (scaled[:, 1:] - scaled[:, 1:].mean(axis=0)) ** 2
        errors = [squares[groups == label].sum(axis=1).mean() for label in "ab"]
        assert value == pytest.approx(abs(errors[0] - errors[1]), rel=1e-3)
        assert 0 < low < value < high
        # Errors of two groups are compared in one unit, also as shares.
        heading = dict(result.table().sections)[0]
        share = 100 * value / result.models[0].total_variance
        assert f"{words} {share:.1f} % of the variance of all rows (" in heading
