"""Advice of errors names only arguments and options that the caller has, and following it works."""

import inspect
import re
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

from fairspan import (
    FairPCA,
    FairSubspace,
    FileRows,
    GroupMoments,
    audit,
    cli,
    frontier,
    metrics,
    verify,
    write_report,
)
from fairspan.displays import (
    ErrorCurveDisplay,
    FeatureErrorDisplay,
    GroupLossDisplay,
    ReducedRowsDisplay,
    VarianceKeptDisplay,
)
from fairspan.errors import FairspanError
from fairspan.selection import UCB1SearchCV

N = 120
NAMES = ["p", "q", "r"]
ROWS = pd.DataFrame(np.random.default_rng(7).standard_normal((N, 3)) * [3, 2, 1], columns=NAMES)
GROUPS = pd.Series(["w", "m"] * (N // 2), name="sex")


@cache
def fitted_model():
    return FairPCA(2).fit(ROWS, sensitive_features=GROUPS)


def alter(row, column, value):
    rows = ROWS.astype({column: object}) if isinstance(value, str) else ROWS.copy()
    rows.loc[row, column] = value
    return rows


def empty_row():
    rows = ROWS.copy()
    rows.loc[5] = np.nan
    rows.loc[7, "q"] = np.nan
    return rows


# Functions that return rows and groups with one thing wrong each.
WRONG = {
    "a missing cell": lambda: (alter(3, "q", np.nan), GROUPS),
    "missing cell of an array": lambda: (alter(3, "q", np.nan).to_numpy(), GROUPS.to_numpy()),
    "an empty row": lambda: (empty_row(), GROUPS),
    "a missing label": lambda: (ROWS, GROUPS.mask(GROUPS.index == 4)),
    "an infinite cell": lambda: (alter(3, "q", np.inf), GROUPS),
    "a text": lambda: (alter(3, "q", "unknown"), GROUPS),
    "a column of text": lambda: (ROWS.assign(q="many"), GROUPS),
    "another column": lambda: (ROWS.rename(columns={"q": "other"}), GROUPS),
    "a column less": lambda: (ROWS[["p", "q"]].to_numpy(), GROUPS.to_numpy()),
    "a label for each row": lambda: (ROWS, pd.Series([f"person {i}" for i in range(N)])),
    "labels of other rows": lambda: (ROWS.drop(index=0), GROUPS.drop(index=N - 1)),
    "one label less": lambda: (ROWS, GROUPS[1:]),
}


def fit(estimator=None, **settings):
    return FairPCA(2, **(estimator or {}), **settings)


# Each takes rows, groups, its own arguments, and those of the estimator that it fits, if any.
DOORS = {
    "fit": (FairPCA.fit, lambda X, z, options, of: fit(of).fit(X, sensitive_features=z, **options)),
    "partial_fit": (
        FairPCA.partial_fit,
        lambda X, z, options, of: fit(of).partial_fit(X, sensitive_features=z, **options),
    ),
    "transform": (
        FairPCA.transform,
        lambda X, z, options, of: fit_again(of).transform(X, **options),
    ),
    "score": (FairPCA.score, lambda X, z, options, of: fit_again(of).score(X, **options)),
    "score_samples": (
        FairPCA.score_samples,
        lambda X, z, options, of: fit_again(of).score_samples(X, **options),
    ),
    "inverse_transform": (
        FairPCA.inverse_transform,
        lambda X, z, options, of: fitted_model().inverse_transform(np.asarray(X)[:, :2], **options),
    ),
    "FairSubspace.transform": (
        FairSubspace.transform,
        lambda X, z, options, of: fit_again(of).subspace_.transform(X, **options),
    ),
    "from_rows": (
        GroupMoments.from_rows,
        lambda X, z, options, of: GroupMoments.from_rows(X, z, **options),
    ),
    "audit": (audit, lambda X, z, options, of: audit(fitted_model(), X, z, folds=None, **options)),
    "verify": (verify, lambda X, z, options, of: verify(fitted_model(), X, z, **options)),
    "frontier": (
        frontier,
        lambda X, z, options, of: frontier(X, 1, sensitive_features=z, **options),
    ),
    "write_report": (
        write_report,
        lambda X, z, options, of: write_report(
            PAGE[0], X, z, n_components=1, compare=[], folds=None, **options
        ),
    ),
    "excess_loss": (
        metrics.excess_loss,
        lambda X, z, options, of: metrics.excess_loss(fitted_model(), X, z, **options),
    ),
    "reconstruction_error": (
        metrics.reconstruction_error,
        lambda X, z, options, of: metrics.reconstruction_error(fitted_model(), X, z, **options),
    ),
    "worst_case_error": (
        metrics.worst_case_error,
        lambda X, z, options, of: metrics.worst_case_error(fitted_model(), X, z, **options),
    ),
    "leakage": (metrics.leakage, lambda X, z, options, of: metrics.leakage(X, z, X, z, **options)),
    "mmd": (metrics.mmd, lambda X, z, options, of: metrics.mmd(X, z, n_permutations=0, **options)),
    "label_bias": (
        metrics.label_bias,
        lambda X, z, options, of: metrics.label_bias(np.arange(len(X)) % 3, z, "w", **options),
    ),
    "statistical_parity": (
        metrics.statistical_parity,
        lambda X, z, options, of: metrics.statistical_parity(
            np.arange(len(X)) % 3, z, n_bootstrap=0, **options
        ),
    ),
    "UCB1SearchCV": (
        UCB1SearchCV.fit,
        lambda X, z, options, of: UCB1SearchCV(
            fit(of), {"n_components": [1]}, n_pulls=1, random_state=0
        ).fit(X, sensitive_features=z, **options),
    ),
    **{
        kind.__name__: (
            kind.from_estimator,
            lambda X, z, options, of, kind=kind: kind.compute(fitted_model(), X, z, **options),
        )
        for kind in (
            ErrorCurveDisplay,
            FeatureErrorDisplay,
            GroupLossDisplay,
            ReducedRowsDisplay,
            VarianceKeptDisplay,
        )
    },
}
PAGE = []
LONG = pytest.mark.long
SLOW_CALLS = {
    ("write_report", "another column"),
    ("write_report", "a column less"),
    ("audit", "an empty row"),
    ("audit", "missing cell of an array"),
    *((door, "a label for each row") for door in ("partial_fit", "leakage", "UCB1SearchCV")),
}
# Names that advice may use in addition to those of the caller.
NAMED = {
    "FairPCA": FairPCA,
    "FileRows.open": FileRows.open,
    "GroupMoments.from_rows": GroupMoments.from_rows,
}
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(([^()]*=[^()]*)\)")
_KEYWORD = re.compile(r"\b([a-z_]+)=(\"[^\"]*\"|'[^']*'|\d+|[A-Za-z_.]+)")
_OPTION = re.compile(r"(?<![\w-])(--[a-z][-a-z]*)(?: ([^\s,;()]+))?")


def cross(names, cases, slow):
    """Return all pairs of a function or command and a case; some of them take longer."""
    return [
        pytest.param(name, case, marks=[pytest.mark.slow] if (name, case) in slow else [])
        for name in names
        for case in cases
    ]


def fit_again(estimator):
    """Return the fitted model, or fit one with other settings to rows with a missing cell."""
    if not estimator:
        return fitted_model()
    return FairPCA(2, **estimator).fit(alter(9, "p", np.nan), sensitive_features=GROUPS)


def error_of(door, rows, groups, arguments=None, of_estimator=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of many groups, and of advice that changes the fit
        try:
            DOORS[door][1](rows, groups, arguments or {}, of_estimator or {})
        except ValueError as error:
            # scikit-learn says itself what is wrong with the columns.
            if isinstance(error, FairspanError) or "feature" in str(error):
                return error
            raise
    return None


def keywords_of(message):
    """Return the arguments of calls that a message names, and those of the caller itself."""
    calls = [(name, _values(inside)) for name, inside in _CALL.findall(message)]
    return calls, _values(_CALL.sub("", message))


def _values(text):
    pairs = [(name, value.strip("\"'")) for name, value in _KEYWORD.findall(text)]
    return [(name, int(value) if value.isdigit() else value) for name, value in pairs]


def accepts_argument(function, name):
    return name in inspect.signature(function).parameters


@pytest.mark.parametrize(("door", "wrong"), cross(DOORS, WRONG, SLOW_CALLS))
def test_advice_names_what_the_function_has_and_can_be_followed(door, wrong, tmp_path):
    PAGE[:] = [tmp_path / "page.html"]
    rows, groups = WRONG[wrong]()
    function, _ = DOORS[door]
    with_em = {"on_missing": "em"} if wrong == "an empty row" else {}
    options = with_em if accepts_argument(function, "on_missing") else {}
    of_estimator = with_em if door in ("fit", "partial_fit", "UCB1SearchCV") else {}
    error = error_of(door, rows, groups, options, of_estimator)
    if error is None:  # this function does not look at what is wrong
        return
    message = str(error)
    assert not _OPTION.search(message), message
    calls, keywords = keywords_of(message)
    for called, arguments in calls:
        for name, value in arguments:
            assert accepts_argument(NAMED[called], name), message
            if called == "FairPCA":
                changed_estimator = {**of_estimator, name: value}
                again = error_of(door, rows, groups, options, changed_estimator)
                assert str(again) != message
    for name, value in keywords:
        assert accepts_argument(function, name), f"{door} has no {name}: {message}"
        if door == "write_report":  # which takes seconds; see the test below
            continue
        again = error_of(door, rows, groups, {**options, name: value}, of_estimator)
        assert str(again) != message


@pytest.mark.parametrize(
    "door",
    ["fit", "partial_fit", "from_rows", "audit", pytest.param("write_report", marks=LONG)],
)
@pytest.mark.parametrize("wrong", ["a missing cell", "a missing label", "an empty row"])
def test_following_the_advice_for_missing_values_succeeds(door, wrong, tmp_path):
    PAGE[:] = [tmp_path / "page.html"]
    rows, groups = WRONG[wrong]()
    values = ["em-drop-empty"] if wrong == "an empty row" else ["drop", "em"]
    for value in values:
        option = {"on_missing": value}
        arguments = option if accepts_argument(DOORS[door][0], "on_missing") else {}
        assert error_of(door, rows, groups, arguments, {} if arguments else option) is None


def open_rows(path, **options):
    return FileRows.open(path, ["sex"], **options)


# Functions that take rows already opened, whose missing cells are decided where they are opened.
@pytest.mark.parametrize("door", ["fit", "from_rows", "audit", "verify", "excess_loss", "frontier"])
@pytest.mark.parametrize("wrong", ["a missing cell", "a missing label"])
def test_advice_for_opened_files_names_where_they_are_opened(door, wrong, tmp_path):
    rows, groups = WRONG[wrong]()
    path = tmp_path / "rows.csv"
    rows.assign(sex=groups).to_csv(path, index=False)
    if door == "frontier":  # which takes groups as a separate argument alone
        error = error_of(door, path, "sex")
        again = None
    else:
        error = error_of(door, open_rows(path), None)
        again = error_of(door, open_rows(path, on_missing="drop"), None)
    calls, keywords = keywords_of(str(error))
    assert ("FileRows.open", [("on_missing", "drop")]) in calls
    assert not keywords
    assert again is None


@pytest.mark.parametrize("door", ["fit", "from_rows", "audit", "verify"])
def test_a_path_is_opened_by_the_function_itself_if_it_has_the_argument(door, tmp_path):
    path = tmp_path / "rows.csv"
    alter(3, "q", np.nan).assign(sex=GROUPS).to_csv(path, index=False)
    calls, keywords = keywords_of(str(error_of(door, path, "sex")))
    if door in ("from_rows", "audit"):
        assert not calls
        assert ("on_missing", "drop") in keywords
    else:
        assert calls[0] == ({"fit": "FairPCA"}.get(door, "FileRows.open"), [("on_missing", "drop")])


# Words of commands on a file with something wrong, and on a model of complete rows.
COMMANDS = {
    "audit": "audit {data} --group sex -d 1 --folds none",
    "report": "report {data} --group sex -d 1 --folds none --json",
    "fit": "fit {data} --group sex -d 1 --folds none -o {out}.model",
    "verify": "verify {model} {data} --group sex",
    "transform": "transform {model} {data} -o {out}.csv",
    "moments": "moments {data} --group sex -o {out}.moments",
}
WRONG_FILES = [
    "a missing cell",
    "an empty row",
    "a missing label",
    "an infinite cell",
    "a text",
    "a column of text",
    "another column",
    "a label for each row",
]
SLOW_COMMANDS = {
    ("report", "a missing cell"),
    ("report", "an empty row"),
    ("report", "a missing label"),
    ("report", "a column of text"),
    ("report", "a label for each row"),
    ("audit", "a missing cell"),
    ("audit", "an empty row"),
    ("audit", "a label for each row"),
}


@pytest.mark.parametrize(("name", "wrong"), cross(COMMANDS, WRONG_FILES, SLOW_COMMANDS))
def test_advice_names_what_the_command_has_and_can_be_followed(name, wrong, tmp_path, capsys):
    rows, groups = WRONG[wrong]()
    data, model = tmp_path / "rows.csv", tmp_path / "fitted.model"
    rows.assign(sex=groups).to_csv(data, index=False)
    fitted_model().subspace_.save(model)
    words = COMMANDS[name].format(data=data, model=model, out=tmp_path / "out").split()
    if wrong == "an empty row":
        words += ["--on-missing", "em"]

    def error_of_command(more=()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cli.run([*words, *more])
        text = capsys.readouterr().err
        return next((line for line in text.splitlines() if "error:" in line), "")

    message = error_of_command()
    if not message:
        return
    _, keywords = keywords_of(_OPTION.sub("", message))
    assert not keywords, message
    options = {
        option: parameter
        for parameter in cli.fairspan.commands[name].params
        for option in parameter.opts
    }
    for option, _ in _OPTION.findall(message):
        assert option in options, f"{name} has no {option}: {message}"
    remedy = message.removesuffix(".").rpartition(". ")[2]
    # Options that "and" joins are followed together.
    for way in re.split(r";| or ", remedy):
        more = []
        for option, value in _OPTION.findall(way):
            if getattr(options[option], "is_flag", False):
                more += [option]
            else:
                is_given = value and not value.isupper() and value != "and"
                more += [option, value if is_given else VALUES[option]]
        if more:
            assert error_of_command(more) != message, (message, more)


VALUES = {"--exclude": "q", "--group": "p", "--bin": "p=0", "--max-groups": "120"}
