import re

import pytest

import fairspan as fs
from cli.command_lines import ALL, AUDIT, BOTH, FIT, replacing
from fairspan.cli.value_types import Size


@BOTH
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--features", "PAY*"], ["'PAY*' matches no column", "'pay_1'", "Correct the pattern"]),
        (["--exclude", "zzz"], ["'zzz' matches no column"]),
        (["--exclude", "*"], ["No column is left", "Loosen the patterns"]),
        (["-d", "0"], ["'-d'", "0' is not a number of dimensions"]),
        (["-d", "6"], ["n_components is 6", "from 1 to the number of features, 5"]),
        (["-d", "two"], ["'-d'", "'two' is not a number of dimensions", "such as 0.9"]),
        (["--center", "median"], ["'median' is not one of 'global', 'group', 'none'"]),
        (["--group", "agee"], ["no column 'agee'", "the closest is 'age'"]),
        (["--group", "town"], ["no column 'town'", "Its columns are 'pay_1'"]),
        (["--group", "AGE"], ["no column 'AGE'", "the closest is 'age'"]),
        (["--nonsense"], ["No such option", "--nonsense"]),
    ],
)
def test_options(refused, command, options, words):
    message = refused(*command, *options)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--criterion", "fairest"], ["'fairest' is not one of 'minimax_loss'"]),
        (["--param", "penalty=1"], ["'minimax_loss'", "'penalty'", "allowed: relative"]),
        (["--param", "penalty"], ["'penalty' is not of the form KEY=VALUE"]),
        (["--param", "=1"], ["'=1' is not of the form KEY=VALUE"]),
    ],
)
def test_options_of_fit(refused, options, words):
    message = refused(*FIT, *options)
    assert all(word in message for word in words), message


@BOTH
def test_options_that_are_nearly_right(refused, command):
    for typed, meant in (("--job", "--jobs"), ("--exclud", "--exclude"), ("--onehot", "--one-hot")):
        message = refused(*command, typed, "1")
        assert set(re.findall(r"--[\w-]+", message)) == {typed, meant}
    for typed in ("--bogus", "--rows", "--t"):
        assert re.findall(r"--[\w-]+", refused(*command, typed)) == [typed]


@BOTH
def test_no_group(refused, command):
    assert "Name the group column with --group" in refused(
        *replacing(command, **{"--group": "--exclude"})
    )


@pytest.mark.parametrize("option", ["--group", "--features", "--exclude"])
def test_options_that_moments_cannot_take(refused, table, features, tmp_path, option):
    moments = tmp_path / "some.moments"
    fs.GroupMoments.from_rows(table[features], table["age"]).save(moments)
    assert f"leave out {'--group, --features'}" in refused("audit", moments, option, "pay_1")


def test_models_of_different_features_side_by_side(refused, run, data, tmp_path):
    for name, column in (("a", "height"), ("b", "weight")):
        run("fit", data, "--group", "age", "--exclude", column, "-d", 2, "-o", tmp_path / name)
    message = refused(*AUDIT, "--model", tmp_path / "a", "--model", tmp_path / "b")
    assert "different features" in message


def test_the_signed_gap_of_three_groups(refused, table, features, tmp_path):
    path = tmp_path / "three.csv"
    table[features].assign(age=[1, 2, 3] * 80).to_csv(path, index=False)
    message = refused(*FIT, "--criterion", "disparity", data=path)
    assert all(word in message for word in ("3 groups", "signed gap of two", "'error_gap'"))


def test_a_model_is_not_printed(refused):
    assert "name a file with -o" in refused(*replacing(FIT, out="-"))


@ALL
def test_missing_files(refused, tmp_path, command):
    assert "does not exist" in refused(*command, data=tmp_path / "nothing.csv")
    assert "does not exist" in refused("transform", "nothing", "{data}", "-o", "{out}")


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("100B", "while they are made, and one eigenproblem"),
        ("0", "'0' is not a size; write a number with a unit, such as 500MB or 8GB"),
        ("much", "'much' is not a size"),
        ("-1GB", "'-1GB' is not a size"),
        ("1 PB", "'1 PB' is not a size"),
    ],
)
def test_memory_that_is_allowed_is_a_size_and_kept_to(run, data, size, said):
    result = run("audit", data, "--group", "age", "--max-memory", size)
    assert result.status == 2
    assert said in result.err
    assert run("audit", data, "--group", "age", "--max-memory", "1.5 gb").status == 0


@pytest.mark.parametrize(
    ("size", "n_bytes"),
    [("7", 7), ("7B", 7), ("3KB", 3000), ("2 mb", 2_000_000), ("1.5GB", 1.5e9), ("2TB", 2e12)],
)
def test_sizes_have_units_of_a_thousand(size, n_bytes):
    assert Size().convert(size, None, None) == n_bytes
