"""Figures of audits by flat names, as experiment trackers store them."""

import posixpath
import re
from functools import cache

import numpy as np
import pytest
from sklearn.decomposition import PCA

import fairspan as fs
from fairspan.errors import InvalidInput, InvalidParameter
from known_verdicts import repairable_minority, same_distribution

# What MLflow accepts in the name of a metric (mlflow.utils.validation).
MLFLOW_NAME = re.compile(r"[/\w.\- ]*")


@cache
def audit_repair(**options):
    X, groups = repairable_minority()
    fair = fs.FairPCA(2, criterion=fs.MinimaxLoss(relative=True))
    return fs.audit(fair.fit(X, sensitive_features=groups), X, groups, **options)


def test_metrics_are_the_figures_of_the_frame_as_shares_of_variance():
    audit = audit_repair()
    metrics = audit.metrics()
    frame = audit.frame()
    rows = frame[frame["model"] == audit.verdict.model].set_index("group")
    expected = {"total_rows": rows["n_rows"].sum()}
    columns = {
        "loss": "expected_loss",
        "error": "expected_error",
        "change": "expected_change",
        "observed_error": "observed_error",
    }
    for group, row in rows.iterrows():
        expected[f"n_rows/{group}"] = row["n_rows"]
        expected[f"observed_loss/{group}"] = row["observed_loss"] / row["observed_total_variance"]
        for name, column in columns.items():
            for end in ("", "_low", "_high"):
                share = row[f"{column}{end}"] / row["observed_total_variance"]
                expected[f"{name}{end}/{group}"] = share
    expected["n_harmed"] = (rows["state"] == "harmed").sum()
    expected["n_inconclusive"] = (rows["state"] == "inconclusive").sum()
    expected["largest_loss"] = max(expected["loss/few"], expected["loss/many"])
    for name in ("observed_disparity", "expected_disparity"):
        expected[name] = rows[name].iloc[0]
    figures = {name: value for name, value in metrics.items() if not name.startswith("findings/")}
    assert figures == pytest.approx(expected, rel=1e-12)
    assert all(type(value) is float for value in metrics.values())


def test_findings_are_counted_by_code():
    audit = audit_repair()
    name = audit.verdict.model
    codes = [finding.code for finding in audit.findings if finding.model in (None, name)]
    counts = {key: n for key, n in audit.metrics().items() if key.startswith("findings/")}
    assert counts == {f"findings/{code}": codes.count(code) for code in codes}


def test_drift_and_the_refit_bound_are_those_of_a_model_fitted_to_other_rows():
    X, groups = same_distribution()
    fair = fs.FairPCA(2).fit(X, sensitive_features=groups)
    audit = fs.audit(fair, *same_distribution(seed=1))
    (model,) = [audited_model for audited_model in audit.models if not audited_model.is_pca]
    metrics = audit.metrics()
    for group in model.groups:
        drift = group.drift.value / group.observed_total_variance
        assert metrics[f"drift/{group.group}"] == pytest.approx(drift)
    assert metrics["refit_gap"] == pytest.approx(model.refit_bound.relative_gap)
    assert metrics["refit_may_help"] == float(model.refit_bound.refit_may_help)


def test_unknown_figures_are_omitted():
    X, groups = same_distribution()
    names = fs.audit(PCA(2).fit(X), X, groups, folds=None).metrics()
    assert "observed_error/men" in names
    assert not [name for name in names if name.split("/")[0] in ("loss", "drift", "n_harmed")]
    assert np.isfinite([*names.values()]).all()


def test_names_are_accepted_by_trackers_whatever_the_groups_are_called():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 4))
    labels = ["a/b", "30+", "30?", "naïve 漢", "..", "w ", "x:y", "w"]
    groups = np.array(labels * 30, dtype=object)
    moments = fs.GroupMoments.from_rows(X, groups)
    audit = fs.audit(np.eye(4)[:2], moments=moments)
    names = audit.metrics()
    assert sum(name.startswith("observed_error/") for name in names) == len(labels)
    for name in names:
        assert MLFLOW_NAME.fullmatch(name), name
        assert posixpath.normpath(name) == name
    # A store of files cannot have a file and a folder of one name.
    assert not {name.rpartition("/")[0] for name in names} & set(names)


def test_one_of_several_models_is_named():
    X, groups = same_distribution()
    models = {"two": fs.FairPCA(2), "three": fs.FairPCA(3)}
    fitted_models = {
        name: model.fit(X, sensitive_features=groups) for name, model in models.items()
    }
    audit = fs.audit(fitted_models, X, groups)
    with pytest.raises(InvalidInput, match="several models: 'two', 'three'"):
        audit.metrics()
    assert audit.metrics("three")["observed_error/men"] < audit.metrics("two")["observed_error/men"]
    with pytest.raises(InvalidParameter, match="model names 'four'"):
        audit.metrics("four")
