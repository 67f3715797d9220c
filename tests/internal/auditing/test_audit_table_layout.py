"""The table of an audit fits the terminal, whatever the names of its groups and its figures."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fairspan.auditing.audit_table import audit_table
from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import (
    CertificateSummary,
    DisparityEstimates,
    GroupResult,
    ModelDescription,
    ModelResult,
)
from fairspan.formatting.numbers import format_ascii_number
from fairspan.formatting.table import number_column
from fairspan.formatting.terminal import display_width, shorten_names, unstyled, wrap_text

WIDE = "東京都世田谷区の住民の皆さん"
DEGREES = ("postgraduate degree", "secondary school", "no formal schooling")
AGES = ("women under thirty", "women over thirty", "men under thirty", "men over thirty")
NAMES = {
    "long": [(degree, age) for degree in DEGREES for age in AGES],
    "wide": [f"{WIDE}{i}" for i in range(12)],
    "the same but for the middle": [f"{'a' * 40}{i:02}{'z' * 40}" for i in range(12)],
    "marks": ["e\u0301" * 40 + str(i) for i in range(3)],
    "forty": [f"g{i}" for i in range(40)],
    "line breaks": ["a\nb\x1b[31m" + "c" * 100, "d\r" * 40],
}


def make_model(names, scale, name="fair", n=60):
    """Return a model with figures of these groups between `scale` and twice that."""
    rng = np.random.default_rng(0)

    def make_group(group):
        error = scale * rng.uniform(1.5, 2)
        best = scale * rng.uniform(1, 1.5)
        interval = Estimate(error, 0.9 * error, 1.1 * error)
        return GroupResult(
            group=group,
            n_rows=n,
            proportion=0.1,
            observed_total_variance=3 * error,
            observed_error=interval,
            observed_best_error=best,
            observed_loss=error - best,
            observed_variance_kept=2 / 3,
        )

    groups = tuple(map(make_group, names))
    disparity = Estimate(-1.2345 * scale, -2.3456 * scale, -0.12345 * scale)
    return ModelResult(
        ModelDescription(name, 5, "group", is_scaled=True, is_pca=False, in_sample=True),
        groups,
        DisparityEstimates(disparity, (names[0], names[1])),
        CertificateSummary("optimal", gap=0.0),
    )


def text_of(models, n_features, width=80, paint=unstyled, unit="squared"):
    return audit_table(models, n_features, unit=unit).to_text(width, paint)


def lines_of_table(models, width=80):
    """Lines of the table without its caption."""
    return text_of(models, 7, width).split("\n\n")[1].splitlines()


def find_numbers(text):
    return [
        float(match)
        for match in re.findall(r"(?<![\w.,])-?\d[\d.]*(?:e-?\+?\d+)?(?=%|\s|[,)]|$)", text)
    ]


SCALES_AND_WIDTHS = [
    (1.0, 80),
    (1e-12, 80),
    (1e9, 80),
    (1.23456e-120, 80),
    (1.0, 64),
    (1e9, 40),
    (1e-12, 30),
]


def all_pairs(places):
    """Names with scales and widths; `./run test` tries two places for each kind of names."""
    return pytest.mark.parametrize(
        ("names", "scale", "width"),
        [
            pytest.param(
                *(NAMES[kind], *place),
                id=f"{kind}-{place}",
                marks=[] if (j - 2 * i) % len(places) < 2 else [pytest.mark.slow],
            )
            for i, kind in enumerate(NAMES)
            for j, place in enumerate(places)
        ],
    )


@all_pairs(SCALES_AND_WIDTHS)
def test_no_line_is_wider_than_the_terminal(names, scale, width):
    models = [make_model(names, scale), make_model(names, scale, "m" * 100, n=123_456_789)]
    for unit in ("squared", "share"):
        text = text_of(models, 12_345, width, unit=unit)
        assert max(map(display_width, text.splitlines())) <= width
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)


@all_pairs([(1.0, 80), (1e-12, 60), (1e9, 80), (1.0, 36)])
def test_every_figure_is_there_however_it_is_laid_out(names, scale, width):
    model = make_model(names, scale)
    lines = text_of([model], 7, width).splitlines()
    text = "\n".join(line for line in lines if not line.startswith("-"))
    numbers = find_numbers(text)
    for group in model.groups:
        for value in (
            *(
                group.observed_total_variance,
                group.observed_error.value,
                group.observed_error.low,
                group.observed_error.high,
            ),
            *(group.observed_best_error, group.observed_loss),
        ):
            assert _nearest(numbers, value) == pytest.approx(value, rel=0.005)
    for value in (
        model.observed_disparity.value,
        model.observed_disparity.low,
        model.observed_disparity.high,
    ):
        # The larger group is named, so that the difference and its limits are positive.
        assert _nearest(numbers, -value) == pytest.approx(-value, rel=0.05)


def _nearest(numbers, value):
    return min(numbers, key=lambda number: abs(number - value))


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e-3])
def test_a_column_of_figures_has_one_number_of_decimals(scale):
    lines = text_of([make_model(["a", "b", "c"], scale), make_model(["a", "b"], scale)], 7)
    rows = [line.split() for line in lines.splitlines() if re.match("  [abc] ", line)]
    for column in zip(*rows, strict=True):
        assert len({len(cell.partition(".")[2]) for cell in column}) == 1


def test_names_that_were_cut_still_differ_or_are_shown_in_full():
    for names in ([f"{WIDE}{i}" for i in range(12)], NAMES["the same but for the middle"]):
        text = text_of([make_model(names, 1.0)], 7)
        rows = [line for line in text.splitlines() if line.startswith("  ")]
        assert len({row.split()[0] for row in rows if row.strip()}) >= 12
    text = text_of([make_model(NAMES["long"], 1.0)], 7)
    for degree, age in NAMES["long"]:
        assert f"\n  {degree} / {age}\n" in text


def test_a_table_that_fits_stays_as_it_is():
    model = make_model(["old", "young"], 1.0)
    lines = lines_of_table([model])
    assert "95 % interval" in lines[1]
    rows = [line for line in lines if line.startswith(("group", "  old", "  young"))]
    assert len(rows) == 3
    assert set(rows) <= set(lines_of_table([model], 200))


def test_the_interval_moves_below_the_error_where_it_must():
    rows = lines_of_table([make_model(["old", "young"], 1.0)], 60)
    assert "95 %" not in rows[1]
    end = rows[1].index("error") + len("error")
    assert [len(row) for row in rows if "95 %:" in row] == [end] * 2


def test_only_the_largest_loss_is_painted_and_takes_no_room():
    model = make_model(["a", "b", "c"], 1.0)
    paint_calls = []

    def paint(text, role):
        paint_calls.append((text, role))
        return f"<{text}>"

    text = text_of([model], 7, 80, paint)
    assert paint_calls == [(format_ascii_number(model.observed_largest_loss, 4), "worst")]
    assert text.replace("<", "").replace(">", "") == text_of([model], 7)


def test_no_loss_is_colored_where_all_are_equal():
    model = make_model(["a", "a"], 1.0)
    model_of_equal_groups = replace(model, groups=(model.groups[0],) * 2)
    assert "!" not in text_of([model_of_equal_groups], 7, 80, lambda text, role: "!")


class TestNames:
    @pytest.mark.parametrize("width", [8, 12, 18])
    @pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
    def test_cut_names_are_narrow_and_different(self, names, width):
        texts = [" / ".join(name) if isinstance(name, tuple) else name for name in names]
        cut = shorten_names(texts, width)
        if cut is not None:
            assert len(set(cut)) == len(set(texts))
            assert max(map(display_width, cut)) <= width
            for text, short in zip(texts, cut, strict=True):
                head, dots, tail = short.partition("…")
                assert text == short or (dots and text.startswith(head) and text.endswith(tail))

    def test_the_same_name_twice_is_the_same_twice(self):
        assert shorten_names(["a" * 20, "a" * 20], 5) == ["aaaa…"] * 2


def test_wrapped_text_keeps_every_character_and_the_width():
    text = f"FS101 {WIDE} and {WIDE * 5} and others, e\u0301 too"
    for width in (20, 41, 80):
        lines = wrap_text(text, width, "  ")
        assert max(map(display_width, lines)) <= width
        assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_figure_has_the_digits_that_its_interval_needs():
    column = number_column(
        "error", [1234.5678, 2.0], intervals=[(1234.5671, 1234.5684), (1.0, 3.0)]
    )
    assert [cell.text for cell in column.cells] == ["1234.5678", "2.00"]
    assert column.cells[0].detail.split() == ["1234.5671", "to", "1234.5684"]
