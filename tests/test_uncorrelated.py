"""Reduced rows that are uncorrelated with columns such as age, which are no features."""

import json

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from case_selection import parametrize_diagonal
from fairspan import cli
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter, InvalidType

NAMES = ["income", "hours", "debt", "rooms", "age", "children"]


def make_case(seed=0, n=240, p=4):
    """Features that follow age and the number of children, in three groups."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b", "c"], n)
    columns = np.column_stack([rng.normal(40, 12, n), rng.poisson(1.5, n)])
    columns[groups == "a", 0] += 15
    features = rng.standard_normal((n, p)) * [3, 2, 1, 1][:p]
    features += (columns - columns.mean(axis=0)) / columns.std(axis=0) @ rng.normal(size=(2, p))
    features[groups == "b"] *= 1.7
    return pd.DataFrame(np.hstack([features, columns]), columns=NAMES), groups


def correlations(reduced, columns):
    return np.corrcoef(reduced.T, columns.T)[: reduced.shape[1], reduced.shape[1] :]


@parametrize_diagonal(
    center=["global", "group", "none"], criterion=["total_error", "minimax_loss", "error_gap"]
)
def test_reduced_rows_are_uncorrelated_with_the_columns(criterion, center):
    frame, groups = make_case()
    hidden = fs.Uncorrelated(["age", "children"])
    fair = fs.FairPCA(2, criterion=criterion, restriction=hidden, center=center, scale=True)
    reduced = fair.fit(frame, sensitive_features=groups).transform(frame)
    assert np.abs(correlations(reduced, frame[["age", "children"]].to_numpy())).max() < 1e-12
    assert list(fair.feature_names_in_) == NAMES[:4]
    np.testing.assert_array_equal(reduced, fair.transform(frame[NAMES[:4]]))
    assert fs.verify(fair, frame, groups)
    assert not fs.verify(fair, frame.assign(age=frame["rooms"] ** 2), groups)


def test_total_error_is_that_of_pca_in_what_the_columns_leave():
    frame, groups = make_case(1)
    frame = frame.drop(columns="children")
    X = frame[NAMES[:4]].to_numpy()
    age = frame[["age"]].to_numpy()
    fair = fs.FairPCA(2, criterion="total_error", restriction=fs.Uncorrelated("age"))
    fair.fit(frame, sensitive_features=groups)
    rows = X - X.mean(axis=0)
    axis = rows.T @ (age - age.mean())
    free = np.linalg.svd(axis, full_matrices=True)[0][:, 1:]
    sizes = np.linalg.svd(rows @ free, compute_uv=False)
    reference = (rows**2).sum() - (sizes[:2] ** 2).sum()
    assert fair.solution_.objective == pytest.approx(reference / len(rows), rel=1e-12)


def test_indicators_of_the_groups_make_mean_parity():
    frame, groups = make_case(2)
    X = frame[NAMES[:4]].to_numpy()
    marks = np.column_stack([groups == group for group in ("a", "b")]).astype(float)
    hidden = fs.FairPCA(1, restriction=fs.Uncorrelated([4, 5]))
    hidden.fit(np.hstack([X, marks]), sensitive_features=groups)
    parity = fs.FairPCA(1, restriction=fs.MeanParity()).fit(X, sensitive_features=groups)
    np.testing.assert_allclose(hidden.components_, parity.components_, atol=1e-10)
    assert hidden.solution_.objective == pytest.approx(parity.solution_.objective, rel=1e-10)


def test_within_groups_no_group_has_a_correlation():
    frame, groups = make_case(3)
    frame = frame.drop(columns="children")
    hidden = fs.Uncorrelated("age", within_groups=True)
    fair = fs.FairPCA(1, restriction=hidden).fit(frame, sensitive_features=groups)
    reduced = fair.transform(frame)
    for group in "abc":
        in_group = groups == group
        coefficients = correlations(reduced[in_group], frame.loc[in_group, ["age"]].to_numpy())
        assert np.abs(coefficients).max() < 1e-12
    assert fs.verify(fair, frame, groups)
    with pytest.raises(IncompatibleParameters, match="at most 1: the restriction removes 3 of 4"):
        fs.FairPCA(2, restriction=hidden).fit(frame, sensitive_features=groups)


def test_an_offset_of_the_column_changes_nothing():
    frame, groups = make_case(4)
    hidden = fs.FairPCA(2, restriction=fs.Uncorrelated("age"))
    near = hidden.fit(frame, sensitive_features=groups).components_
    shifted = frame.assign(age=frame["age"] + 1e7)
    far = hidden.fit(shifted, sensitive_features=groups).components_
    np.testing.assert_allclose(near, far, atol=1e-7)


def test_parts_merged_moments_and_files_give_the_same_answer(tmp_path):
    frame, groups = make_case(5)
    model = fs.FairPCA(2, restriction=fs.Uncorrelated("age"))
    solution = model.fit(frame, sensitive_features=groups).solution_
    parts = [frame[:100], frame[100:]], [groups[:100], groups[100:]]
    by_parts = fs.FairPCA(2, restriction=fs.Uncorrelated("age"))
    for X, labels in zip(*parts, strict=True):
        by_parts.partial_fit(X[NAMES[::-1]] if X is parts[0][1] else X, sensitive_features=labels)
    moments = [fs.GroupMoments.from_rows(X, g) for X, g in zip(*parts, strict=True)]
    (moments[0] + moments[1]).save(tmp_path / "all.moments")
    moments_read = fs.GroupMoments.load(tmp_path / "all.moments")
    from_file = fs.FairPCA(2, restriction=fs.Uncorrelated("age")).fit_moments(moments_read)
    from_file.moments_.save(tmp_path / "again.moments")
    again = fs.GroupMoments.load(tmp_path / "again.moments")
    assert again.n_features == 6
    from_copy = fs.FairPCA(2, restriction=fs.Uncorrelated("age")).fit_moments(again)
    for other in (by_parts, from_file, from_copy):
        assert other.solution_.objective == pytest.approx(solution.objective, rel=1e-10)
        assert fs.verify(other, moments_read)


def test_a_saved_model_is_verified_and_audited(tmp_path):
    frame, groups = make_case(6)
    fair = fs.FairPCA(2, restriction=fs.Uncorrelated("age")).fit(frame, sensitive_features=groups)
    fair.subspace_.save(tmp_path / "fair.model")
    subspace = fs.FairSubspace.load(tmp_path / "fair.model")
    assert fs.verify(subspace, frame, groups)
    result = fs.audit({"fair": fair}, frame, groups, folds=5)
    by_name = {model.name: model for model in result.models}
    assert by_name["fair"].has_estimates
    errors = [group.observed_error.value for group in by_name["fair"].groups]
    np.testing.assert_allclose(errors, fair.group_errors_, rtol=1e-10)
    # Ordinary PCA in the same audit has the same features, and so less error.
    assert by_name["PCA"].observed_total_error < by_name["fair"].observed_total_error


@pytest.mark.slow
def test_command_line_fits_audits_and_verifies(tmp_path, capfd, monkeypatch):
    frame, groups = make_case(7)
    frame.assign(group=groups).to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = cli.run(list(words))
        output = capfd.readouterr()
        assert status == 0, output.err
        return output.out

    options = ("--restriction", "uncorrelated", "--restriction-param", "columns=age,children")
    rows = ("people.csv", "--group", "group")
    facts = json.loads(run("fit", *rows, "-d", "2", *options, "-o", "fair.model", "--json"))
    assert "Uncorrelated" in facts["certificate"]["restriction"]
    assert facts["rows"]["n_features"] == 4
    assert "holds" in run("verify", "fair.model", *rows)
    audited = json.loads(run("audit", *rows, "--model", "fair.model", "--json"))
    assert audited["models"][0]["name"] == "fair.model"
    run("transform", "fair.model", "people.csv", "-o", "reduced.csv")
    reduced = pd.read_csv(tmp_path / "reduced.csv").iloc[:, -2:].to_numpy()
    assert np.abs(correlations(reduced, frame[["age", "children"]].to_numpy())).max() < 1e-9


REFUSED = [
    (lambda: fs.Uncorrelated([]), InvalidParameter, "Name at least one"),
    (lambda: fs.Uncorrelated(["age", "age"]), InvalidParameter, "distinct"),
    (lambda: fs.Uncorrelated([1.5]), InvalidType, "integers"),
    (lambda: fs.Uncorrelated("age", within_groups="yes"), InvalidParameter, "within_groups"),
    (lambda: fs.Uncorrelated([True]), InvalidType, r"columns is \[True\]"),
    (lambda: fs.Uncorrelated([False]), InvalidType, r"columns is \[False\]"),
]


@pytest.mark.parametrize(("make", "error", "expected_text"), REFUSED)
def test_wrong_columns_are_refused(make, error, expected_text):
    with pytest.raises(error, match=expected_text):
        make()


@pytest.mark.parametrize(
    ("columns_of_frame", "columns", "expected_text"),
    [
        ({}, ["salary"], "uses the columns 'salary'"),
        ({}, NAMES, "at least one feature"),
        ({"age": 3.0}, ["age"], "'age' .* constant"),
        ({"age": np.nan}, ["age"], "age"),
    ],
)
def test_columns_that_cannot_be_used_are_refused(columns_of_frame, columns, expected_text):
    frame, groups = make_case(8)
    model = fs.FairPCA(1, restriction=fs.Uncorrelated(columns))
    with pytest.raises(InvalidInput, match=expected_text):
        model.fit(frame.assign(**columns_of_frame), sensitive_features=groups)
    assert not hasattr(model, "components_")
