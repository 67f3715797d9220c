"""Audits of pipelines that begin with an encoder are those of the later steps on encoded rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairspan import FairPCA, audit, write_report
from fairspan.errors import InvalidInput, InvalidType

NUMBERS = ["income", "age", "debt"]


def loans(n=400):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(n, 3)) * [3, 1, 1], columns=NUMBERS)
    table["job"] = rng.choice(["clerk", "smith", "baker"], n)
    table["region"] = rng.choice(["a", "b"], n)
    table["income"] *= np.where(table["region"] == "b", 0.2, 1)
    return table


def encoder(**settings):
    one_hot = OneHotEncoder(sparse_output=False)
    return ColumnTransformer(
        [("numbers", StandardScaler(), NUMBERS), ("texts", one_hot, ["job"])], **settings
    )


def fair_pipeline(table, first, *last):
    y = table["income"] > 0
    pipeline = make_pipeline(first, FairPCA(2), *last)
    return pipeline.fit(table, y, fairpca__sensitive_features=table["region"])


def figures(result):
    """Observed errors and expected losses of all models and groups."""
    groups = [group for model in result.models for group in model.groups]
    return [(group.observed_error.value, group.expected_loss.value) for group in groups]


@pytest.mark.parametrize("last", [(), (LogisticRegression(),)])
def test_an_audit_on_raw_rows_is_one_of_the_later_steps_on_encoded_rows(last):
    table = loans()
    pipeline = fair_pipeline(table, encoder(), *last)
    result = audit({"fair": pipeline}, table, table["region"])
    reference = audit({"fair": pipeline[1]}, pipeline[0].transform(table), table["region"])
    np.testing.assert_allclose(figures(result), figures(reference), rtol=1e-9)
    assert result.verdict.kind == reference.verdict.kind
    assert [model.name for model in result.models] == ["fair", "PCA"]


def test_groups_clusters_and_weights_may_be_columns_of_the_raw_rows():
    table = loans().assign(person=np.arange(400) // 2, weight=np.linspace(1, 2, 400))
    pipeline = fair_pipeline(table[[*NUMBERS, "job", "region"]], encoder())
    by_name = audit(pipeline, table, "region", clusters="person", sample_weight="weight", folds=5)
    by_arrays = audit(
        pipeline,
        table,
        table["region"],
        clusters=table["person"],
        sample_weight=table["weight"],
        folds=5,
    )
    np.testing.assert_allclose(figures(by_name), figures(by_arrays), rtol=1e-9)
    crossed = audit(pipeline, table, ["region"], folds=None)
    assert len(crossed.models[0].groups) == 2


def test_findings_name_the_encoded_columns():
    table = loans()
    table.loc[17, "age"] = 1e6
    pipeline = fair_pipeline(table, encoder())
    [finding] = [
        finding
        for finding in audit(pipeline, table, "region", folds=None).findings
        if finding.code == "FS109"
    ]
    assert finding.columns == ("numbers__age",)
    assert "row 18, numbers__age " in finding.message


def test_pipelines_with_equal_encoders_are_compared():
    table = loans()
    plain = make_pipeline(encoder(), PCA(2)).fit(table)
    result = audit({"fair": fair_pipeline(table, encoder()), "plain": plain}, table, "region")
    fair, plain, _ = result.models
    assert (fair.name, plain.name) == ("fair", "plain")
    assert plain.groups[0].observed_error.value > 0


def test_pipelines_with_other_encoders_are_refused():
    table = loans()
    weights = {"numbers": 2.0}
    models = {
        "fair": fair_pipeline(table, encoder()),
        "other": fair_pipeline(table, encoder(transformer_weights=weights)),
    }
    with pytest.raises(InvalidInput, match=r"'fair' encode.* 'other' does not") as error:
        audit(models, table, "region")
    assert "model[1:]" in str(error.value)


def test_models_with_and_without_an_encoder_are_refused_together():
    table = loans()
    models = {
        "fair": fair_pipeline(table, encoder()),
        "bare": FairPCA(2).fit(table[NUMBERS], sensitive_features=table["region"]),
    }
    with pytest.raises(InvalidInput, match="'bare' does not encode"):
        audit(models, table, "region")


def test_sparse_encoded_rows_are_audited():
    table = loans()
    sparse_encoder = ColumnTransformer(
        [("texts", OneHotEncoder(), ["job"]), ("numbers", StandardScaler(), NUMBERS)],
        sparse_threshold=1.0,
    )
    pipeline = make_pipeline(sparse_encoder, FairPCA(2))
    pipeline.fit(table, fairpca__sensitive_features=table["region"])
    result = audit({"one": pipeline, "two": pipeline}, table, "region", folds=None)
    first, second, _ = result.models
    assert first.groups[0].observed_error == second.groups[0].observed_error


def test_an_encoder_that_is_not_fitted_is_refused():
    with pytest.raises(InvalidType, match="not fitted"):
        audit(make_pipeline(encoder(), FairPCA(2)), loans(), "region")


def test_rows_in_a_file_are_not_encoded(tmp_path):
    table = loans()
    table.to_csv(tmp_path / "loans.csv", index=False)
    with pytest.raises(InvalidInput, match="first step of"):
        audit(fair_pipeline(table, encoder()), tmp_path / "loans.csv", "region")


@pytest.mark.slow
@pytest.mark.parametrize("is_held_out", [False, True])
def test_a_report_on_raw_rows_is_one_of_the_later_steps_on_encoded_rows(is_held_out, tmp_path):
    table = loans()
    other = loans(500)[100:]
    pipeline = fair_pipeline(table, encoder())
    later = pipeline[1]
    encode = pipeline[0].transform
    settings = {"n_components": 2, "compare": [], "folds": 5}
    test = (other, "region") if is_held_out else None
    of_raw_rows = write_report(
        tmp_path / "raw.html", table, "region", models={"m": pipeline}, test=test, **settings
    )
    test = (encode(other), other["region"]) if is_held_out else None
    reference = write_report(
        tmp_path / "encoded.html",
        encode(table),
        table["region"],
        models={"m": later},
        test=test,
        **settings,
    )
    for facts in (of_raw_rows, reference):
        assert facts["user_models"]["held_out"] is is_held_out
    for model_facts, expected in zip(of_raw_rows["models"], reference["models"], strict=True):
        assert model_facts["observed_total_error"] == pytest.approx(
            expected["observed_total_error"]
        )
    first, second = (
        [
            group["expected_loss"]
            for model in facts["user_models"]["models"]
            for group in model["groups"]
        ]
        for facts in (of_raw_rows, reference)
    )
    assert first == pytest.approx(second)
