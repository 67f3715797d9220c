"""Access to an audit as fairlearn's MetricFrame has it, compared with fairlearn."""

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import MetricFrame
from sklearn.decomposition import PCA

import fairspan as fs
from fairspan.errors import InvalidInput, InvalidParameter

RNG = np.random.default_rng(2)
N = 240
SITE = np.array(["x", "y"])[RNG.integers(0, 2, N)]
TEAM = np.array(["a", "b", "c"])[RNG.integers(0, 3, N)]
X = RNG.standard_normal((N, 4)) * np.where(TEAM[:, None] == "a", [3, 2, 1, 1], [1, 1, 2, 3])
MODEL = PCA(2).fit(RNG.standard_normal((90, 4)) * [3, 2, 1, 1])
SQUARED = ((X - MODEL.inverse_transform(MODEL.transform(X))) ** 2).sum(axis=1)
METHODS = ("between_groups", "to_overall")


def frame_of_fairlearn(rows=slice(None), **features):
    return MetricFrame(
        metrics={"reconstruction_error": lambda values, _: values.mean()},
        y_true=SQUARED[rows],
        y_pred=SQUARED[rows],
        **features,
    )


def assert_same(audit, theirs):
    ours, name = audit.by_group.loc["PCA"], "reconstruction_error"
    np.testing.assert_allclose(ours[name], theirs.by_group[name].astype(float))
    assert list(ours.index.names) == list(theirs.by_group.index.names)
    assert list(ours.index) == list(theirs.by_group.index)
    assert audit.control_levels == theirs.control_levels
    assert audit.sensitive_levels == theirs.sensitive_levels
    pairs = [(audit.overall, theirs.overall)]
    pairs += [(audit.group_min(), theirs.group_min()), (audit.group_max(), theirs.group_max())]
    for method in METHODS:
        pairs.append((audit.difference(method), theirs.difference(method=method)))
        pairs.append((audit.ratio(method), theirs.ratio(method=method)))
    for mine, expected in pairs:
        expected = expected[name]
        got = mine.loc["PCA"][name]
        np.testing.assert_allclose(got, np.asarray(expected, dtype=float))


@pytest.mark.parametrize(
    "groups",
    [
        pd.Series(TEAM, name="team"),
        TEAM,
        pd.DataFrame({"team": TEAM, "site": SITE}),
    ],
    ids=["series", "array", "frame"],
)
def test_groups_are_compared_as_by_fairlearn(groups):
    audit = fs.audit({"PCA": MODEL}, X, groups, folds=None)
    assert_same(audit, frame_of_fairlearn(sensitive_features=groups))


@pytest.mark.parametrize("controls", [pd.Series(SITE, name="site"), SITE], ids=["series", "array"])
def test_control_features_are_those_of_fairlearn(controls):
    team = pd.Series(TEAM, name="team")
    audit = fs.audit({"PCA": MODEL}, X, team, control_features=controls, folds=None)
    assert_same(audit, frame_of_fairlearn(sensitive_features=team, control_features=controls))


def test_a_group_without_rows_in_a_level_has_no_figures():
    kept = ~((TEAM == "c") & (SITE == "x"))
    team, site = pd.Series(TEAM[kept], name="team"), pd.Series(SITE[kept], name="site")
    audit = fs.audit({"PCA": MODEL}, X[kept], team, control_features=site, folds=None)
    assert_same(audit, frame_of_fairlearn(kept, sensitive_features=team, control_features=site))
    assert audit.by_group.loc[("PCA", "x", "c")].isna().all()


def test_levels_are_audits_of_their_rows_alone():
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(team=TEAM, site=SITE, year=TEAM == "b")
    named = PCA(2).fit(RNG.standard_normal((90, 4)))
    models = {"PCA": named}
    audit = fs.audit(models, frame, "team", control_features=["site", "year"])
    assert audit.control_levels == ["site", "year"]
    for (site, year), part in audit.within.items():
        own = frame[(frame.site == site) & (frame.year == year)].drop(columns=["site", "year"])
        alone = fs.audit(models, own, "team")
        assert part.models == alone.models
        assert part.verdict == alone.verdict
    # The whole audit is what it is without them.
    whole = fs.audit(models, frame.drop(columns=["site", "year"]), "team")
    assert (audit.models, audit.verdict) == (whole.models, whole.verdict)


def test_models_of_these_rows_have_no_estimates_within_a_level():
    fair = fs.FairPCA(2).fit(X, sensitive_features=TEAM)
    audit = fs.audit({"fair": fair}, X, TEAM, control_features=SITE)
    assert audit.verdict.kind
    for level, part in audit.within.items():
        assert all("all levels" in model.why_no_estimates for model in part.models)
        assert not part.verdicts
        squared = -fair.score_samples(X)
        own = (level == SITE) & (TEAM == "a")
        assert audit.by_group.loc[("fair", level, "a")]["reconstruction_error"] == pytest.approx(
            squared[own].mean()
        )
    assert audit.by_group["expected_error"].isna().all()


def test_figures_over_all_rows_and_estimates():
    fair = fs.FairPCA(2).fit(X, sensitive_features=TEAM)
    audit = fs.audit({"fair": fair}, X, TEAM)
    overall = audit.overall.loc["fair"]
    assert overall["reconstruction_error"] == pytest.approx(-fair.score(X))
    total = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert overall["captured_variance_ratio"] == pytest.approx(1 + fair.score(X) / total)
    table = audit.frame().set_index("model").loc["fair"]
    weighted = (table["proportion"] * table["expected_loss"]).sum()
    assert overall["expected_loss"] == pytest.approx(weighted)


def test_what_cannot_be_controlled_for_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="control_features"):
        fs.audit(MODEL, X, TEAM, control_features=SITE[:10])
    with pytest.raises(InvalidInput, match="not in memory"):
        fs.audit(MODEL, str(tmp_path), "team", control_features="site")
    with pytest.raises(InvalidInput, match="control_features was given with moments"):
        fs.audit(MODEL, moments=fs.GroupMoments.from_rows(X, TEAM), control_features=SITE)
    with pytest.raises(InvalidInput, match=r"no value in row 1 \(index 0\)"):
        fs.audit(MODEL, X, TEAM, control_features=[None, *SITE[1:]])
    with pytest.raises(InvalidParameter, match="method is 'between'"):
        fs.audit(MODEL, X, TEAM, folds=None).difference("between")


def test_the_ratio_to_all_rows_counts_a_group_above_them_as_one_below():
    """Of 180 rows hardly below the mean, and 20 that are far above it."""
    factor = np.where(np.arange(200) < 180, 1.0, 1.3)[:, None]
    rows = np.random.default_rng(0).standard_normal((200, 4)) * factor
    groups = np.where(np.arange(200) < 180, "many", "few")
    audit = fs.audit({"PCA": PCA(2).fit(rows)}, rows, groups, folds=None)
    errors, whole = audit.by_group["reconstruction_error"], audit.overall["reconstruction_error"]
    ratio = errors["PCA", "few"] / whole["PCA"]
    assert 1 < ratio < 2
    found = audit.ratio("to_overall")["reconstruction_error"]["PCA"]
    assert found == pytest.approx(1 / ratio)
