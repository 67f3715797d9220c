"""Exact sentences, one example for each kind of message; other tests assert the facts in them."""

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from fairspan import cli
from fairspan.errors import (
    FairspanError,
    FairspanWarning,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    UnknownGroup,
)
from known_verdicts import harmed_minority
from numpy_reference import generate_group_rows
from report_cases import generate_rows, report_facts


@pytest.fixture(scope="module")
def fair_audit():
    """Audit of a fair model that repairs the harm to a minority."""
    X, groups = harmed_minority()
    model = fs.FairPCA(3).fit(X, sensitive_features=groups)
    return model, fs.audit({"fair": model}, X, groups, folds=5)


def message_of(code, result):
    return next(finding.message for finding in result.findings if finding.code == code)


def test_a_verdict(fair_audit):
    assert str(fair_audit[1].verdict) == (
        "Harm, repair helps. On new data, PCA with 3 components loses 72.8 % (61.0 to 84.6) more "
        "of the variance of 'few' (400 rows) than the 3 components that suit it best. Under fair,"
        " 'few' keeps 59.9 points more (50.2 to 69.7), and no group pays more than the threshold "
        "of 1.0 %: 'many' (3,000 rows) keeps 0.9 points less (0.9 to 0.99). Use fair: the largest"
        " loss of a group is estimated at 12.8 % of the variance of 'few' (under PCA, 72.8 %); "
        "the largest upper limit is 15.4 %, of 'few' (under PCA, 84.6 %)."
    )


def test_a_finding_about_models(fair_audit):
    assert message_of("FS302", fair_audit[1]) == (
        "fair versus PCA on new rows: the largest loss of a group changes from 72.8 % to 12.8 % "
        "of its variance, and the error over all rows from 0.9 % to 1.2 % of the variance."
    )


def test_a_finding_about_data():
    rows = np.random.default_rng(0).normal(size=(200, 3)) * [10, 1, 1]
    result = fs.audit(np.eye(3)[:1], rows, ["a", "b"] * 100, folds=None)
    assert message_of("FS403", result) == (
        "feature x0 accounts for 98.1 % of the variance, and array does not scale, so all other "
        "features together have less influence. Standardize the features (scale=True), or rescale "
        "the feature."
    )


def test_a_finding_about_a_refit(fair_audit):
    X, groups = harmed_minority()
    result = fs.audit({"fair": fair_audit[0]}, X[::2] + 0.1, groups[::2], folds=None)
    assert message_of("FS209", result) == (
        "fair: on the audited rows, minimax_loss is 0.9071, and by its certificate no refit to "
        "them falls below 0.8264: the optimum is at most 0.08065 (8.9 %) lower, of which "
        "0.06075 is expected by chance. No refit is needed."
    )


def test_an_error_about_groups(fair_audit):
    X, groups = harmed_minority()
    with pytest.raises(UnknownGroup) as error:
        fs.audit(fair_audit[0], X, np.where(groups == "few", "new", groups))
    assert str(error.value) == (
        "The rows contain groups that model 'minimax loss' was not fitted on: 'new'. Allowed: its "
        "training groups, 'few', 'many'. Check the group column for misspelled or new values, or "
        "refit with that group."
    )


def test_a_verification_with_other_rows():
    X, groups = generate_group_rows()
    fair = fs.FairPCA(2).fit(X, sensitive_features=groups)
    assert fs.verify(fair, X[:-1], groups[:-1]).messages[0] == (
        "These are not the rows of the fit: the groups have different numbers of rows. A "
        "certificate is verified with the rows that the model was fitted on; use audit to evaluate "
        "a model on other rows."
    )


PAIR = [np.eye(4), 2 * np.eye(4)]


@pytest.mark.parametrize(
    ("matrices", "settings", "message"),
    [
        (
            PAIR,
            {"n_components": 7},
            "n_components is 7. Allowed: an integer from 1 to the number of features, 4, or a "
            "fraction between 0 and 1 of every group's variance. Choose such a number, for example "
            "2 or 0.9.",
        ),
        (
            PAIR,
            {"n_components": 2, "criterion": "equal_error"},
            "The criterion 'equal_error' was requested, but no subspace of 2 dimensions has the "
            "same error for both groups: the smallest achievable gap is 2. Allowed: data where "
            "zero lies between the sums of the p - d smallest and the p - d largest eigenvalues of "
            "S_1 - S_2, or a tolerance of at least that gap. Use 'error_gap' with a large penalty, "
            "another n_components, or another center.",
        ),
        (
            [*PAIR, np.eye(4)],
            {"n_components": 1, "criterion": "nash_welfare", "solver": "boundary"},
            "The solver 'boundary' does not support the criterion 'nash_welfare' with 3 groups: it "
            "supports one or two groups, and more only for linear criteria such as 'total_error'. "
            "Solvers that support it: 'dual_newton'. Use solver='auto'.",
        ),
    ],
    ids=["components", "equal errors", "solver"],
)
def test_an_error_of_a_fit(matrices, settings, message):
    moments = fs.GroupMoments.from_covariances(matrices)
    with pytest.raises(FairspanError) as error:
        fs.FairPCA(**settings).fit_moments(moments)
    assert str(error.value) == message


def test_the_summary_of_a_criterion():
    assert fs.MinimaxLoss(relative=True).formula.summary == (
        "This criterion minimizes the largest excess loss of a group as a fraction of the group's "
        "variance. The excess loss of a group is its error minus its smallest error under any "
        "subspace of the same dimension."
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda X, groups: fs.FairPCA(1, criterion="minmax_loss").fit(
                X, sensitive_features=groups
            ),
            "criterion is 'minmax_loss'. Allowed: the name of a criterion, or a criterion object. "
            "Choose one of 'minimax_loss', 'minimax_error', 'least_variance', 'total_error', "
            "'disparity', 'equal_error', 'error_gap', 'robust_error_gap', 'nash_welfare'; the "
            "closest match is 'minimax_loss'.",
        ),
        (
            lambda X, groups: fs.MeanParity(0.1, oblique=True),
            "MeanParity(tolerance=0.1, oblique=True) has a tolerance. Allowed with a tolerance: "
            "all other parameters at their defaults. Reset them, or use tolerance=0.",
        ),
        (
            lambda X, groups: fs.FairSubspace.load("nope"),
            "[Errno 2] No such file; pass one written by save or the command line: 'nope'",
        ),
    ],
    ids=["parameter", "combination", "file"],
)
def test_an_error_about_a_parameter_or_file(call, message):
    X = np.random.default_rng(0).standard_normal((40, 3))
    with pytest.raises((ValueError, OSError)) as error:
        call(X, ["a", "b"] * 20)
    assert str(error.value) == message


def test_an_error_about_labels_of_two_types():
    with pytest.raises(InvalidInput) as error:
        fs.GroupMoments.from_rows(np.eye(3), [1, "1", 1])
    assert str(error.value) == (
        "Group labels mix integer with text (row 2 (index 1): '1'). Allowed: text, numbers or "
        "booleans, one type per attribute. Convert the column to one type, for example with "
        "astype(str)."
    )


def test_an_error_about_a_column_name():
    with pytest.raises(InvalidInput) as error:
        fs.GroupMoments.from_rows(pd.DataFrame(np.eye(2), columns=["x", "y"]), "sex")
    assert str(error.value) == (
        "The table has no column 'sex'. Its columns are 'x', 'y'. Correct the name."
    )


def test_a_warning_about_a_group_that_is_dropped():
    rows = pd.DataFrame({"age": [1.0, 2, 4, 3, 2, 1], "pay": [3.0, 1, 2, 5, np.nan, np.nan]})
    with pytest.warns(FairspanWarning) as record:
        fs.GroupMoments.from_rows(rows, list("aabbcc"), on_missing="drop")
    assert str(record[0].message) == (
        "Dropping rows with missing values removes all 2 rows of group 'c' (missing: 'pay' in 2 "
        "rows). Exclude these columns to keep the rows."
    )


def error_message(kind, call):
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def test_an_error_about_a_parameter():
    rows = np.arange(12.0).reshape(4, 3)
    model = fs.FairPCA(4)
    assert error_message(
        InvalidParameter, lambda: model.fit(rows, sensitive_features=list("abab"))
    ) == (
        "n_components is 4. Allowed: an integer from 1 to the number of features, 3, or a fraction "
        "between 0 and 1 of every group's variance. Choose such a number, for example 2 or 0.9."
    )


def test_an_error_about_parameters_together():
    assert error_message(
        IncompatibleParameters, lambda: fs.MeanParity(0.1, attributes="marginal")
    ) == (
        "MeanParity(tolerance=0.1, attributes='marginal') has a tolerance. Allowed with a "
        "tolerance: all other parameters at their defaults. Reset them, or use tolerance=0."
    )


def test_an_error_about_a_missing_cell():
    rows = pd.DataFrame({"u": [1.0, 2.0, 5.0, 7.0], "v": [0.0, np.nan, 3.0, 1.0]})
    model = fs.FairPCA(1)
    assert error_message(
        InvalidInput, lambda: model.fit(rows, sensitive_features=list("abab"))
    ) == (
        "X contains NaN, first in row 2 (index 1), column 'v'. Allowed: finite numbers. Drop rows "
        'with NaN (FairPCA(on_missing="drop")), or fit and audit incomplete rows '
        '(FairPCA(on_missing="em")).'
    )


def test_an_error_about_a_missing_argument():
    assert error_message(InvalidInput, lambda: fs.FairPCA(1).fit(np.eye(3))) == (
        "sensitive_features is missing. Allowed: one group label per row, or the name of a column "
        "of X. Pass sensitive_features=...; for ordinary PCA without groups use "
        'FairPCA(missing_groups="ignore").'
    )


def test_a_warning_about_labels():
    rows = np.random.default_rng(0).normal(size=(6, 3))
    model = fs.FairPCA(1).fit(rows, sensitive_features=[1, 2] * 3)
    with pytest.warns(FairspanWarning) as warned:
        fs.verify(model, rows, ["1", "2"] * 3)
    assert [str(warning.message) for warning in warned] == [
        "Group labels of these rows match those of the model: '1' is 1, '2' is 2."
    ]


def test_an_error_about_arguments_of_a_report():
    with pytest.raises(InvalidInput) as error:
        fs.write_report("page.html")
    assert str(error.value) == (
        "write_report received neither X nor moments. Allowed: either rows (X and "
        "sensitive_features) or moments. Pass X and sensitive_features to get intervals."
    )


def test_the_explanation_of_an_objective():
    facts = report_facts(*generate_rows(2, 4), 2, criterion="equal_error", compare=[])
    bound = f"{facts['verification']['lower_bound']:.6g}"
    assert facts["verification"]["explanation"][0] == (
        "The objective is the error over all rows, subject to equal errors of all groups. Here it "
        f"is {bound}, and no subspace of this dimension with equal errors has a value below "
        f"{bound}."
    )


def test_the_choice_of_a_dimension_and_the_reason_for_a_missing_criterion():
    facts = report_facts(*generate_rows(3, 4), compare=["disparity"])
    assert facts["settings"]["dimension_choice"] == (
        "smallest number that keeps 90 % of every group's variance"
    )
    assert facts["skipped_criteria"][0]["reason"] == (
        "The criterion 'disparity' received 3 groups. Allowed: at most two groups, whose signed "
        "gap it minimizes."
    )


# Cells of a table of x, y and g, a command on its file, and what is printed.
COMMANDS = {
    "options that cannot be combined": (
        [],
        "audit rows.csv --group g --by-dimension -d 1",
        "Error: --by-dimension cannot be combined with -d.",
    ),
    "a column nearly named": (
        [],
        "audit rows.csv --group G",
        "fairspan: error: The table has no column 'G'. Its columns are 'x', 'y', 'g'. Correct the "
        "name; the closest match is 'g'.",
    ),
    "a cell of text": (
        ["1,low,a"],
        "audit rows.csv --group g",
        "fairspan: error: rows.csv: the column 'y' holds text, such as 'low' in line 2. Allowed: "
        "numeric and boolean features; give group columns with --group. Correct such cells, "
        "exclude the columns with --numeric-only or --exclude, or encode text with --one-hot.",
    ),
    "an encoding": (
        ["1,2,\xe9"],
        "audit rows.csv --group g",
        "fairspan: error: rows.csv is not encoded as utf-8: line 2 has the byte 0xe9. Allowed: any "
        "encoding that Python knows. Specify it: --encoding latin-1, or cp1252 of Windows.",
    ),
    "a group of one row": (
        ["3,4,c"],
        "moments rows.csv --group g -o m",
        "fairspan: warning: Groups of 1 or 2 rows ('c'): their rows can be recovered from these "
        "moments; use --min-group-size to drop such groups.",
    ),
    "a row that is dropped": (
        ["3,,a"],
        "moments rows.csv --group g -o m --on-missing drop",
        "8 rows, 2 features; 1 row with missing values dropped; variance of all features, about "
        "the mean of each group",
    ),
}


@pytest.mark.parametrize(("first", "command", "expected"), COMMANDS.values(), ids=COMMANDS)
def test_what_a_command_prints(capfd, monkeypatch, tmp_path, first, command, expected):
    monkeypatch.chdir(tmp_path)
    lines = ["x,y,g", *first, *(f"{i},{i * i % 7},{'ab'[i % 2]}" for i in range(8)), ""]
    (tmp_path / "rows.csv").write_text("\n".join(lines), encoding="latin-1")
    cli.run(command.split())
    assert expected in " ".join(" ".join(capfd.readouterr()).split())
