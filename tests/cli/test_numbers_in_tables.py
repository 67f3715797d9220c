"""Separated thousands and codes for missing values on the command line."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest


def write_file(tmp_path, cells, delimiter=";", labels="abab"):
    path = tmp_path / "rows.csv"
    lines = [
        delimiter.join([cell, str(i % 3), labels[i % len(labels)]]) for i, cell in enumerate(cells)
    ]
    path.write_text("\n".join([delimiter.join("xyg"), *lines, ""]), encoding="utf-8")
    return path


def arguments(path, *options):
    fixed = ["--group", "g", "-d", "1", "--folds", "none", "--features", "x"]
    return ["audit", path, *fixed, *options]


def variance(run, path, *options):
    facts = run(*arguments(path, *options), "--json").facts
    groups = facts["models"][0]["groups"]
    return sum(group["proportion"] * group["observed_total_variance"] for group in groups)


def test_both_readings_of_a_comma_are_reported_and_give_both_variances(
    run, assert_refused, tmp_path
):
    path = write_file(tmp_path, ["3,404", "465", "1,250", "980"])
    assert_refused(
        *arguments(path),
        expected_text=[
            "'x' holds text",
            "'3,404' in line 2. ",
            "Both readings are possible",
            "--thousands , reads '3,404' as 3404",
            "--decimal , reads '3,404' as 3.404",
        ],
    )
    integers = np.array([3404.0, 465, 1250, 980])
    about_the_mean = np.mean((integers - integers.mean()) ** 2)
    assert variance(run, path, "--thousands", ",") == pytest.approx(about_the_mean, rel=1e-12)
    as_fractions = np.array([3.404, 465, 1.25, 980])
    about_the_mean = np.mean((as_fractions - as_fractions.mean()) ** 2)
    assert variance(run, path, "--decimal", ",") == pytest.approx(about_the_mean, rel=1e-12)


def test_between_commas_a_decimal_comma_cannot_be_named(assert_refused, tmp_path):
    path = write_file(tmp_path, ['"3,404"', "465", '"1,250"'], ",")
    message = assert_refused(
        *arguments(path),
        expected_text=["--thousands , reads '3,404' as 3404", "if it is 3.404, write"],
    )
    assert "--decimal" not in message


# Cells, and the options that the message has to name; following it gives these numbers.
ADVICE = {
    "German": (["1.000,50", "465", "12,5"], "--thousands . --decimal ,", [1000.5, 465, 12.5]),
    "millions": (["1.234.567", "465"], "--thousands . --decimal ,", [1234567, 465]),
    "decimal commas": (["3,404", "465", "1,25"], "--decimal ,", [3.404, 465, 1.25]),
    "spaces": (["1 234", "465"], "--thousands space", [1234, 465]),
    "no-break spaces": (["1\u00a0234,5", "6"], "--thousands space --decimal ,", [1234.5, 6]),
    "apostrophes": (["1'234.5", "465"], '--thousands "\'"', [1234.5, 465]),
    "both marks": (["-1,234.5", "465"], "--thousands ,", [-1234.5, 465]),
    "codes": (["3.5", "?", "#DIV/0!", "4"], "--na-values '?,#DIV/0!'", [3.5, None, None, 4]),
    "blanks": (["3.5", "   ", "4"], "--na-values ' '", [3.5, None, 4]),
    "words": (["3.5", "none", "4"], "--na-values x=none", [3.5, None, 4]),
}


@pytest.mark.parametrize(("cells", "advice", "expected"), ADVICE.values(), ids=ADVICE)
def test_following_the_advice_reads_the_column(
    run, assert_refused, tmp_path, cells, advice, expected
):
    # Each cell twice in each group, so that no group is lost with a missing cell.
    path = write_file(tmp_path, np.repeat(cells, 4).tolist())
    assert_refused(*arguments(path), expected_text=advice)
    options = shlex.split(f"{advice} --on-missing drop")
    present = np.array([number for number in expected if number is not None], dtype=float)
    about_the_mean = np.mean((present - present.mean()) ** 2)
    assert variance(run, path, *options) == pytest.approx(about_the_mean, rel=1e-12)


def test_marks_and_codes_are_both_named(run, assert_refused, tmp_path):
    path = write_file(tmp_path, ["3,5", "-", "4", "5", "3,5", "4"])
    assert_refused(
        *arguments(path), expected_text=["Add --decimal , to the command", "add --na-values -"]
    )
    options = ["--decimal", ",", "--na-values", "-", "--on-missing", "drop"]
    about_the_mean = np.var([3.5, 4, 5, 3.5, 4])
    assert variance(run, path, *options) == pytest.approx(about_the_mean, rel=1e-12)


@pytest.mark.parametrize(
    "cells",
    [["1.5", "2,5", "3"], ["1,23,456", "2"], ["$5", "2"], ["1,234,567", "1.234.567"], ["5-", "2"]],
)
def test_no_option_is_advised_that_does_not_make_the_column_numbers(
    assert_refused, tmp_path, cells
):
    message = assert_refused(*arguments(write_file(tmp_path, cells)))
    assert not re.search("--(thousands|decimal|na-values)", message)


def test_advice_suits_the_other_columns_too(assert_refused, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x;y;g\n1,5;0.5;a\n2;1;b\n")
    message = assert_refused("audit", path, "--group", "g", "-d", "1", "--folds", "none")
    assert "the same decimal point" in message
    assert "--decimal" not in message


def test_separators_of_other_columns_are_named_too(assert_refused, run, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x;y;g\n2,00;20.000,50;a\n1,00;1.500,00;b\n3,00;7;a\n4,50;8;b\n")
    command = ["audit", path, "--group", "g", "-d", "1", "--folds", "none"]
    assert_refused(*command, expected_text="Add --thousands . --decimal , to the command")
    run(*command, "--thousands", ".", "--decimal", ",", status=0)


def test_weights_and_bins_get_the_same_advice(run, assert_refused, tmp_path):
    path = tmp_path / "rows.csv"
    lines = [
        f"{i % 5};{i % 7};{income};{'ab'[i % 2]}" for i, income in enumerate(["1,000", "250"] * 20)
    ]
    path.write_text("\n".join(["x;y;w;g", *lines, ""]))
    plain = ["audit", path, "-d", "1", "--folds", "none"]
    assert_refused(
        *plain, "--group", "g", "--weight", "w", expected_text="--thousands , reads '1,000' as 1000"
    )
    binned = ["--group", "w", "--bin", "w=500", "--exclude", "g"]
    assert_refused(*plain, *binned, expected_text="--thousands , reads '1,000' as 1000")
    facts = run(*plain, *binned, "--thousands", ",", "--json").facts
    assert {group["group"] for group in facts["models"][0]["groups"]} == {
        "below 500",
        "500 or more",
    }
    run(*plain, "--group", "g", "--weight", "w", "--thousands", ",")


def test_a_column_of_weights_that_holds_names_cannot_be_left_out(assert_refused, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x;y;w;g\n1;2;Ann;a\n2;1;Bob;b\n")
    message = assert_refused(
        "audit", path, "-d", "1", "--group", "g", "--weight", "w", expected_text="--weight"
    )
    assert not re.search("--(exclude|numeric-only|one-hot|group)", message)


def test_advice_on_a_column_with_an_apostrophe_can_be_typed_in_a_shell(
    run, assert_refused, tmp_path
):
    path = tmp_path / "rows.csv"
    path.write_text("O'Neil;x;g\n" + "1.5;2;a\nnone;1;b\n3;5;b\n4;1;a\n2;4;b\n" * 4)
    command = ["audit", path, "--group", "g", "-d", "1", "--folds", "none"]
    message = assert_refused(*command)
    advice = shlex.split(message.partition("add ")[2])
    assert advice[:2] == ["--na-values", "O'Neil=none"]
    run(*command, *advice[:2], "--on-missing", "drop")


def test_a_label_that_is_a_code_is_a_missing_label(run, tmp_path):
    path = write_file(tmp_path, [str(i * i % 11) for i in range(30)], labels="ab?")
    facts = run(*arguments(path, "--na-values", "?", "--on-missing", "drop"), "--json").facts
    assert {group["group"] for group in facts["models"][0]["groups"]} == {"a", "b"}
    options = ["--na-values", "g=?", "--missing-group", "unknown"]
    facts = run(*arguments(path, *options), "--json").facts
    assert {group["group"] for group in facts["models"][0]["groups"]} == {"a", "b", "unknown"}


CODED_ROWS = 2000


@pytest.mark.parametrize("on_missing", ["drop", pytest.param("em", marks=pytest.mark.slow)])
def test_named_codes_give_the_verdict_of_the_truth(run, tmp_path, on_missing):
    path = tmp_path / "rows.csv"
    rng = np.random.default_rng(0)
    groups = np.where(rng.random(CODED_ROWS) < 0.5, "a", "b")
    rows = pd.DataFrame(rng.normal(size=(CODED_ROWS, 5)) * [6, 5, 4, 3, 3] + 30)
    rows.columns = ["age", "income", "visits", "score", "rate"]
    chance = rng.random(CODED_ROWS)
    rows["score"] = rows["score"].mask((groups == "b") & (chance < 0.04), -99)
    rows["rate"] = rows["rate"].mask((groups == "b") & (chance > 0.97), 999)
    rows.assign(g=groups).to_csv(path, index=False)
    command = ["audit", path, "--group", "g", "-d", "2", "--json"]
    assert run(*command).facts["verdicts"][0]["kind"].startswith("harm")
    options = ["--na-values", "-99,999", "--on-missing", on_missing]
    facts = run(*command, *options).facts
    assert facts["verdicts"][0]["kind"] == "no material harm"
    assert "FS412" not in [finding["code"] for finding in facts["findings"]]


def test_the_advice_of_the_finding_is_followed_for_any_name_of_a_column(run, tmp_path):
    path = tmp_path / "rows.csv"
    rows = pd.DataFrame(
        np.random.default_rng(0).normal(size=(300, 3)), columns=["job=army", "b,c's", "d e"]
    )
    rows.iloc[:20] = [-99, 999, -9]
    rows.assign(g=np.array(["a", "b"])[np.arange(300) % 2]).to_csv(path, index=False)
    command = ["audit", path, "--group", "g", "-d", "1", "--folds", "none", "--json"]
    [message] = [
        finding["message"]
        for finding in run(*command).facts["findings"]
        if finding["code"] == "FS412"
    ]
    advice = message[message.index("--na-values") : message.index(" with --on-missing")]
    facts = run(*command, *shlex.split(advice), "--on-missing", "drop").facts
    assert facts["rows"]["n_rows"] == 280
    assert "FS412" not in [finding["code"] for finding in facts["findings"]]


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--thousands", "."], "Add --decimal ,"),
        (["--delimiter", ",", "--decimal", ","], "--delimiter ';'"),
    ],
)
def test_options_that_exclude_each_other_are_named_as_they_are_typed(
    assert_refused, run, tmp_path, options, advice
):
    path = write_file(tmp_path, ["1.000,50", "465", "2.465", "12,5"])
    message = assert_refused(*arguments(path, *options), expected_text=advice)
    assert "csv=" not in message
    run(*arguments(path, "--thousands", ".", "--decimal", ",", "--delimiter", ";"), status=0)


def test_one_cell_shows_that_a_column_holds_names(assert_refused, tmp_path):
    path = tmp_path / "people.csv"
    lines = [f"Ann {i},{i % 7},{'ab'[i % 2]}" for i in range(40)]
    path.write_text("\n".join(["name,x,g", *lines, ""]))
    command = ["audit", path, "--group", "g", "-d", "1", "--folds", "none", "--one-hot"]
    message = assert_refused(
        *command, expected_text="40 distinct texts in 40 rows, such as 'Ann 0'. "
    )
    assert message.count("Ann") == 1


def test_a_wrong_cell_among_numbers_is_to_be_corrected(assert_refused, tmp_path):
    path = write_file(tmp_path, ["1.5", "2.5", "1.2.3", "4"])
    assert_refused(*arguments(path), expected_text=["'1.2.3' in line 4. ", "Correct such cells"])


@pytest.mark.parametrize("cells", [["$5,231", "$12"], ["5.5 \u20ac", "2"], ["\u00a33", "$", "4"]])
def test_signs_of_currencies_are_named(assert_refused, tmp_path, cells):
    message = assert_refused(*arguments(write_file(tmp_path, cells)))
    is_amount = "$" not in cells
    assert ("Write numbers without a currency sign" in message) == is_amount
