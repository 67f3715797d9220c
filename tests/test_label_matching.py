"""Labels of a fit in Python and those of a CSV file of the same rows: equal as text, one group."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from fairspan import FairPCA, GroupMoments, MeanParity, audit, verify, write_report
from fairspan.errors import FairspanWarning, InvalidInput, UnknownGroup

N = 120
PLACE = np.arange(N) % 3
X = np.random.default_rng(0).standard_normal((N, 4)) * (1 + np.eye(4)[:3][PLACE] * 3)
FRAME = pd.DataFrame(X, columns=list("abcd"))
NOTICE = "those of the model"


def labels(*names):
    groups = np.empty(3, dtype=object)
    groups[:] = names
    return groups[PLACE].tolist()


def fit_model(*names, **settings):
    return FairPCA(1, **settings).fit(FRAME, sensitive_features=labels(*names))


PAIRS = {
    "whole numbers": ((1, 2, 10), ("1", "2", "10")),
    "text": (("1", "2", "10"), (1, 2, 10)),
    "floats of whole numbers": ((1, 2, 10), (1.0, 2.0, 10.0)),
    "floats as text": ((1, 2, 10), ("1.0", "2.0", "10.0")),
    "large whole numbers": ((2**60, 2**60 + 1, 3), (str(2**60), str(2**60 + 1), "3")),
    "truth values and numbers": ((True, False, True), (1, 0, 1)),
    "fractions": ((0.5, 1.0, 1e-7), ("0.5", "1.0", "1e-07")),
    "pairs": (((1, "a"), (2, "a"), (2, "b")), (("1", "a"), ("2", "a"), ("2", "b"))),
    "pairs with truth values": (
        ((1, True), (2, True), (2, False)),
        (("1", "True"), ("2", "True"), ("2", "False")),
    ),
}


@pytest.mark.parametrize(("fit", "names"), PAIRS.values(), ids=PAIRS)
def test_a_certificate_holds_with_labels_that_are_equal_as_text(fit, names):
    model = fit_model(*fit)
    with pytest.warns(FairspanWarning, match=NOTICE):
        checked = verify(model, FRAME, labels(*names))
    assert checked.holds, checked.messages
    moments = GroupMoments.from_rows(FRAME, labels(*names))
    with pytest.warns(FairspanWarning, match=NOTICE):
        assert verify(model, moments).holds


def test_truth_values_match_their_spellings():
    groups = (PLACE == 0).tolist()
    model = FairPCA(1).fit(FRAME, sensitive_features=groups)
    for spelling in (str, lambda label: str(label).lower(), lambda label: str(label).upper()):
        with pytest.warns(FairspanWarning, match=NOTICE):
            assert verify(model, FRAME, list(map(spelling, groups))).holds


def test_labels_of_the_same_type_match_without_a_notice():
    model = fit_model(1, 2, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verify(model, FRAME, labels(1, 2, 10)).holds
        assert verify(model, FRAME, np.array(labels(1, 2, 10), dtype=np.int8)).holds
        assert verify(model, FRAME, pd.Categorical(labels(1, 2, 10))).holds


@pytest.mark.parametrize(
    ("fit", "names"),
    [
        ((1, 2, 3), ("1", "2", "a")),
        ((1, 2, 3), ("p", "q", "r")),
        (("p", "q", "r"), (1, 2, 3)),
        ((True, False, True), ("yes", "no", "yes")),
        ((1, 2, 3), ("01", "02", "03")),
        ((1.5, 2.5, 3.5), ("1.5", "2.5", "inf")),
        (("1", "2", "1"), (True, False, True)),
        (("1", "1.0", "2"), (1.0, 3.0, 2.0)),
        (((1, "a"), (2, "a"), (2, "b")), ("1 / a", "2 / a", "2 / b")),
    ],
)
def test_labels_that_cannot_be_compared_are_bad_input_and_no_verdict(fit, names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InvalidInput, match="was fitted on"):
            verify(fit_model(*fit), FRAME, labels(*names))


def test_other_groups_of_the_same_type_do_not_hold():
    assert not verify(fit_model(1, 2, 3), FRAME, labels(1, 2, 4)).holds
    with pytest.warns(FairspanWarning, match=NOTICE):
        checked = verify(fit_model(1, 2, 3), FRAME, labels("1", "2", "4"))
    (message,) = checked.messages
    assert "1, 2, 3;" in message
    assert "1, 2, 4." in message
    # Other rows with matched labels are evaluated as these rows.
    with pytest.warns(FairspanWarning, match=NOTICE):
        assert not verify(fit_model(1, 2, 3), FRAME, labels("2", "1", "3")).holds


def test_both_spellings_in_one_column_stay_an_error():
    with pytest.raises(InvalidInput, match="mix"):
        verify(fit_model(1, 2, 3), FRAME, labels(1, "2", "3"))
    with pytest.raises(UnknownGroup, match=r"'1\.0'"):
        audit(fit_model(1, 2, 3), FRAME, labels("1", "1.0", "3"), folds=None)


@pytest.mark.parametrize("settings", [{"criterion": fs.Disparity(protected=2)}, {"center": "none"}])
def test_settings_that_name_groups_are_verified_as_well(settings):
    groups = (1 + (PLACE > 0)).tolist()
    model = FairPCA(1, **settings).fit(FRAME, sensitive_features=groups)
    with pytest.warns(FairspanWarning, match=NOTICE):
        assert verify(model, FRAME, list(map(str, groups))).holds


def test_classes_of_y_match_as_groups_do():
    y = (np.arange(N) % 2).tolist()
    hide = MeanParity(within_classes=[1])
    groups = (1 + (PLACE > 0)).tolist()
    model = FairPCA(1, restriction=hide).fit(FRAME, y, sensitive_features=groups)
    texts = list(map(str, groups))
    with pytest.warns(FairspanWarning, match=NOTICE):
        assert verify(model, FRAME, texts, y=list(map(str, y))).holds
    moments = GroupMoments.from_rows(FRAME, texts, y=list(map(str, y)))
    with pytest.warns(FairspanWarning, match=NOTICE):
        assert verify(model, moments).holds


@pytest.mark.parametrize("folds", [None, pytest.param(5, marks=pytest.mark.slow)])
def test_an_audit_matches_classes_of_y(folds):
    y = (np.arange(N) % 2).tolist()
    groups = (1 + (PLACE > 0)).tolist()
    model = FairPCA(1, restriction=MeanParity(within_classes=[1]))
    model.fit(FRAME, y, sensitive_features=groups)
    with pytest.warns(FairspanWarning, match=NOTICE):
        result = audit(model, FRAME, list(map(str, groups)), y=list(map(str, y)), folds=folds)
    expected = audit(model, FRAME, groups, y=y, folds=folds)
    assert result.to_records() == expected.to_records()


def figures(result):
    return result.to_records(), [finding.code for finding in result.findings]


def test_an_audit_of_matched_labels_is_that_of_the_labels_themselves():
    model = fit_model(1, 2, 10)
    expected = figures(audit(model, FRAME, labels(1, 2, 10), folds=5))
    with pytest.warns(FairspanWarning, match=NOTICE):
        assert figures(audit(model, FRAME, labels("1", "2", "10"), folds=5)) == expected


@pytest.mark.slow
def test_an_audit_by_clusters_matches_labels():
    model = fit_model(1, 2, 10)
    clusters = np.arange(N) // 2
    expected = figures(audit(model, FRAME, labels(1, 2, 10), folds=5, clusters=clusters))
    with pytest.warns(FairspanWarning, match=NOTICE):
        matched = audit(model, FRAME, labels("1", "2", "10"), folds=5, clusters=clusters)
    assert figures(matched) == expected


def test_an_audit_of_moments_matches_labels_of_every_block():
    model = fit_model(1, 2, 10)
    blocks = [GroupMoments.from_rows(FRAME[i::2], labels("1", "2", "10")[i::2]) for i in range(2)]
    plain = [GroupMoments.from_rows(FRAME[i::2], labels(1, 2, 10)[i::2]) for i in range(2)]
    with pytest.warns(FairspanWarning, match=NOTICE):
        matched = audit(model, moments=blocks)
    assert figures(matched) == figures(audit(model, moments=plain))


def test_a_display_matches_labels():
    model = fit_model(1, 2, 10)
    draw = fs.displays.GroupLossDisplay.compute
    expected = draw(model, FRAME, labels(1, 2, 10)).frame()
    with pytest.warns(FairspanWarning, match=NOTICE):
        data = draw(model, FRAME, labels("1", "2", "10")).frame()
    pd.testing.assert_frame_equal(data, expected)


@pytest.mark.long
def test_a_report_matches_labels(tmp_path):
    model = fit_model(1, 2, 10)
    with pytest.warns(FairspanWarning, match=NOTICE):
        facts = write_report(
            tmp_path / "page.html",
            FRAME,
            labels("1", "2", "10"),
            models={"mine": model},
            compare=[],
            folds=None,
            n_components=1,
        )
    assert [group["group"] for group in facts["models"][0]["groups"]] == [1, 2, 10]


@cache
def wide_rows():
    return np.random.default_rng(1).standard_normal((24, 520))


def test_rows_that_are_fewer_than_features_and_sparse_rows_match():
    from scipy import sparse

    groups = (1 + np.arange(24) % 2).tolist()
    for rows in (wide_rows(), sparse.csr_array(np.where(wide_rows() > 1.5, wide_rows(), 0))):
        model = FairPCA(2).fit(rows, sensitive_features=groups)
        with pytest.warns(FairspanWarning, match=NOTICE):
            assert verify(model, rows, list(map(str, groups))).holds


def test_files_match_by_the_types_of_their_columns(tmp_path):
    model = fit_model(1, 2, 10)
    FRAME.assign(g=labels(1, 2, 10)).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.warns(FairspanWarning, match="text in these rows.*integers"):
        checked = verify(model, tmp_path / "rows.csv", "g")
    assert checked.holds, checked.messages
    text = fit_model("1", "2", "10")
    FRAME.assign(g=labels(1, 2, 10)).to_parquet(tmp_path / "rows.parquet")
    with pytest.warns(FairspanWarning, match="integers in these rows.*text"):
        assert verify(text, tmp_path / "rows.parquet", "g").holds
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verify(text, tmp_path / "rows.csv", "g").holds
        assert verify(model, tmp_path / "rows.parquet", "g").holds


def test_leakage_matches_groups_of_held_out_rows():
    groups = labels(1, 2, 10)
    texts = labels("1", "2", "10")
    expected = fs.metrics.leakage(X, groups, X[::2], groups[::2])
    with pytest.warns(FairspanWarning, match=NOTICE):
        value = fs.metrics.leakage(X, groups, X[::2], texts[::2])
    assert value == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda z: fit_model(*z, criterion=fs.Disparity(protected="1")),
        lambda z: fit_model(*z, criterion=fs.RobustErrorGap(radius={"1": 0.1, "2": 0.2})),
        lambda z: fs.metrics.label_bias([0, 1, 1] * 40, labels(*z), protected="1"),
    ],
)
def test_a_setting_that_names_a_group_as_text_explains_how_to_write_it(call):
    with pytest.raises(UnknownGroup, match="Write 1 in place of '1': labels have types"):
        call((1, 2, 2))


@pytest.mark.slow
def test_collections_in_parts_match_their_labels():
    dask_frame = pytest.importorskip("dask.dataframe")
    model = fit_model(1, 2, 10)
    rows = dask_frame.from_pandas(FRAME.assign(g=labels("1", "2", "10")), npartitions=3)
    with pytest.warns(FairspanWarning, match="text in these rows.*integers"):
        assert verify(model, rows, "g").holds
    expected = audit(model, FRAME, labels(1, 2, 10), folds=None).to_records()
    with pytest.warns(FairspanWarning, match="text in these rows.*integers"):
        records = audit(model, rows, "g", folds=None).to_records()
    assert [record["group"] for record in records] == [record["group"] for record in expected]


def test_streams_match_their_labels():
    pa = pytest.importorskip("pyarrow")
    model = fit_model(1, 2, 10)
    table = pa.Table.from_pandas(FRAME.assign(g=labels("1", "2", "10")))
    with pytest.warns(FairspanWarning, match="text in these rows.*integers"):
        assert verify(model, pa.RecordBatchReader.from_stream(table), "g").holds
