"""Bounds on a refit to other rows: no refit is below what the certificate of a model proves."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import qr

import fairspan as fs
from case_selection import parametrize_diagonal
from fairspan import FairPCA, GroupMoments, audit

CRITERIA = {
    "total error": fs.TotalError(),
    "minimax loss": fs.MinimaxLoss(),
    "relative loss": fs.MinimaxLoss(relative=True),
    "minimax error": fs.MinimaxError(),
    "relative error": fs.MinimaxError(relative=True),
    "disparity": fs.Disparity(0.4),
    "equal error": fs.EqualError(),
    "errors nearly equal": fs.EqualError(tolerance=0.3),
    "error gap": fs.ErrorGap(0.7),
    "robust error gap": fs.RobustErrorGap(0.7, 2.0),
    "Nash welfare": fs.NashWelfare(),
    "least variance": fs.LeastVariance(),
}
MANY_GROUP_CRITERIA = [name for name in CRITERIA if "equal" not in name and name != "disparity"]
SIZES = np.array([[3, 2, 1.5, 1, 0.8, 0.5], [1, 2, 1, 3, 0.8, 0.5], [2, 1, 2, 1, 2, 1]])
# Nothing changed; one group varies more; all rows moved; one group moved.
CHANGES = {"none": (1.0, 0.0, 0.0), "spread": (1.6, 0.0, 0.0), "all": (1, 2, 0), "one": (1, 0, 2)}


def draw_rows(seed, k=2, change="none", n_smallest=150):
    rng = np.random.default_rng(seed)
    spread, everyone, one = CHANGES[change]
    parts = [
        rng.normal(size=(n_smallest * (g + 1), 6)) * sizes for g, sizes in enumerate(SIZES[:k])
    ]
    parts[-1] = parts[-1] * [1, spread, 1, spread, 1, 1] + one
    labels = np.repeat([*"abc"][:k], [len(part) for part in parts])
    return np.vstack(parts) + everyone, labels


def audit_model(model, X, groups, **settings):
    return audit({"fair": model}, X, groups, folds=None, **settings).models[0]


def refit(model, X, groups):
    """The optimum on other rows, in the units of the model."""
    moments = GroupMoments.from_rows(X, groups)
    if model.scale_ is not None:
        moments = moments.divided_by(model.scale_)
    parameters = model.get_params(deep=False) | {"scale": False}
    return FairPCA(**parameters).fit_moments(moments).solution_


KINDS = [
    *((criterion, 2) for criterion in CRITERIA),
    *((criterion, 3) for criterion in MANY_GROUP_CRITERIA),
]
CENTERS_AND_CHANGES = [
    *(("global", change) for change in CHANGES),
    ("group", "spread"),
    ("none", "one"),
]


# Fits of three groups with these criteria take longest.
SLOW_KINDS = {("error gap", 3), ("robust error gap", 3), ("Nash welfare", 3)}


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        pytest.param(
            *(kind, place),
            marks=[
                *([] if i % len(CENTERS_AND_CHANGES) == j else [pytest.mark.long]),
                *([pytest.mark.slow] if kind in SLOW_KINDS else []),
            ],
        )
        for i, kind in enumerate(KINDS)
        for j, place in enumerate(CENTERS_AND_CHANGES)
    ],
    ids=str,
)
def test_no_refit_is_below_the_bound(kind, place):
    name, k = kind
    center, change = place
    model = FairPCA(2, criterion=CRITERIA[name], center=center, scale=center == "global")
    model.fit(draw_rows(1, k)[0], sensitive_features=draw_rows(1, k)[1])
    X, groups = draw_rows(2, k, change)
    bound = audit_model(model, X, groups).refit_bound
    best = refit(model, X, groups)
    scale = max(best.scale, 1e-9)
    assert bound.lower_bound <= best.objective + best.resolution + 1e-9 * scale
    assert bound.no_bound_reason is None
    if name in ("total error", "disparity"):  # of which the weights are known beforehand
        assert bound.lower_bound == pytest.approx(best.objective, rel=1e-8, abs=1e-9 * scale)
    if center != "global":
        assert bound.recentered_objective == bound.objective
    if center == "group" and "equal" not in name:
        assert bound.objective >= best.lower_bound - 1e-9 * scale


@pytest.mark.slow
@parametrize_diagonal(
    name=["minimax_loss", "minimax_error", "error_gap", "equal_error"], change=CHANGES
)
def test_the_bound_is_below_what_conic_solvers_find(name, change):
    from torture.conic import ACCURACY, solve_relaxation

    model = FairPCA(2, criterion=name).fit(draw_rows(3)[0], sensitive_features=draw_rows(3)[1])
    X, groups = draw_rows(4, change=change)
    moments = GroupMoments.from_rows(X, groups)
    penalty = {"error_gap": 0.5}.get(name, 0.0)
    relaxed = solve_relaxation(name, 2, 6).optimum(
        "Clarabel", moments.second_moments(), moments.proportions, 2, penalty
    )
    total = float(moments.proportions @ np.trace(moments.second_moments(), axis1=1, axis2=2))
    bound = audit_model(model, X, groups).refit_bound
    assert bound.lower_bound <= relaxed + ACCURACY["Clarabel"] * total
    # Weights that are nearly right prove nearly the optimum.
    assert bound.lower_bound >= relaxed - 0.15 * total


@pytest.mark.parametrize("change", ["spread", "one"])
@pytest.mark.parametrize(
    "restriction",
    [
        fs.MeanParity(),
        fs.MeanParity(tolerance=0.2),
        fs.MeanParity(oblique=True),
        fs.CovarianceParity(n_directions=3),
        pytest.param(fs.CovarianceParity(tolerance=0.5), marks=pytest.mark.slow),
        pytest.param(fs.CovarianceParity(tolerance=0.0), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_bound_holds_under_every_restriction(restriction, change):
    model = FairPCA(2, criterion="total_error", restriction=restriction)
    X, groups = draw_rows(5, change="one")
    model.fit(X, sensitive_features=groups)
    X, groups = draw_rows(6, change=change)
    bound = audit_model(model, X, groups).refit_bound
    best = refit(model, X, groups)
    assert bound.no_bound_reason is None
    assert 0 <= bound.lower_bound <= best.objective * (1 + 1e-9)


def test_the_bound_holds_for_subspaces_tried_at_random():
    rng = np.random.default_rng(0)
    model = FairPCA(2).fit(draw_rows(7, 3)[0], sensitive_features=draw_rows(7, 3)[1])
    X, groups = draw_rows(8, 3, "spread")
    bound = audit_model(model, X, groups).refit_bound
    second = GroupMoments.from_rows(X, groups).second_moments()
    best = np.array([np.linalg.eigvalsh(matrix)[:4].sum() for matrix in second])
    values = []
    for _ in range(2_000):
        basis = qr(rng.normal(size=(6, 6)))[0][:, :4]
        values.append((np.einsum("ij,gik,kj->g", basis, second, basis) - best).max())
    assert bound.lower_bound <= min(values)
    assert bound.objective >= bound.lower_bound == pytest.approx(bound.objective - bound.gap)


def test_the_objective_is_that_of_the_model_as_it_is_used():
    X, groups = draw_rows(1)
    model = FairPCA(2, criterion="minimax_error").fit(X, sensitive_features=groups)
    X, groups = draw_rows(2, change="all", n_smallest=140)
    residuals = X - model.inverse_transform(model.transform(X))
    errors = [(residuals[groups == label] ** 2).sum(axis=1).mean() for label in "ab"]
    audited_model = audit_model(model, X, groups)
    assert audited_model.refit_bound.objective == pytest.approx(max(errors))
    recentered = replace(model.subspace_, mean=X.mean(axis=0))
    recentered_bound = audit_model(recentered, X, groups).refit_bound
    assert recentered_bound.objective == pytest.approx(
        audited_model.refit_bound.recentered_objective
    )
    assert recentered_bound.gap < 0.2 * audited_model.refit_bound.gap
    # Of the fit, errors are known.
    drift = [group.drift.value for group in audited_model.groups]
    np.testing.assert_allclose(drift, errors - model.group_errors_)


def test_a_file_gives_the_same_results_as_the_model(tmp_path):
    X, groups = draw_rows(1)
    model = FairPCA(2, criterion="robust_error_gap", scale=True).fit(X, sensitive_features=groups)
    model.subspace_.save(tmp_path / "fair.model")
    X, groups = draw_rows(2)
    audits = [audit_model(source, X, groups) for source in (model, tmp_path / "fair.model")]
    assert audits[0].refit_bound == audits[1].refit_bound
    assert audits[0].to_dict()["refit_bound"] == audits[1].to_dict()["refit_bound"]


def test_rows_of_the_fit_and_models_of_others_give_no_finding():
    X, groups = draw_rows(1)
    model = FairPCA(2).fit(X, sensitive_features=groups)
    assert audit_model(model, X, groups).refit_bound is None
    assert audit_model(np.eye(6)[:2], X, groups).refit_bound is None
    assert np.isnan(audit_model(model, X, groups).groups[0].drift.value)


@pytest.mark.parametrize(
    ("criterion", "restriction", "reason"),
    [
        (fs.MinimaxLoss(), None, None),
        (fs.NashWelfare(), None, None),
        (fs.RobustErrorGap(0.5, 1.0), None, "other groups"),
        (fs.RobustErrorGap(0.5, {"a": 1.0, "b": 2.0}), None, "radius"),
        (fs.TotalError(), fs.MeanParity(tolerance=0.1), "other groups"),
    ],
)
def test_without_a_group_there_is_a_bound_or_a_reason_for_none(criterion, restriction, reason):
    model = FairPCA(2, criterion=criterion, restriction=restriction)
    X, groups = draw_rows(1, change="one")
    model.fit(X, sensitive_features=groups)
    bound = audit_model(model, X[groups == "a"] + 1, groups[groups == "a"]).refit_bound
    if reason is None:
        assert np.isfinite(bound.lower_bound)
        return
    assert reason in bound.no_bound_reason
    assert bound.refit_may_help is None
    assert bound.to_dict()["gap"] is bound.to_dict()["lower_bound"] is None


@pytest.mark.parametrize(
    "n_draws", [pytest.param(20, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.long)]
)
def test_the_interval_of_the_drift_covers_no_change_as_often_as_it_says(n_draws):
    n_covered = 0
    for seed in range(n_draws):
        X, groups = draw_rows(100 + seed, n_smallest=400)
        model = FairPCA(2, criterion="total_error").fit(X, sensitive_features=groups)
        audited_model = audit_model(model, *draw_rows(500 + seed, n_smallest=150))
        n_covered += all(group.drift.contains_zero for group in audited_model.groups)
    assert n_covered >= (0.88 if n_draws == 60 else 0.8) * n_draws


def test_blocks_of_moments_give_the_findings_of_rows():
    X, groups = draw_rows(1)
    model = FairPCA(2).fit(X, sensitive_features=groups)
    X, groups = draw_rows(2, change="spread")
    blocks = [GroupMoments.from_rows(X[i::20], groups[i::20]) for i in range(20)]
    of_blocks = audit(model, moments=blocks, folds=None).models[0]
    of_rows = audit(model, X, groups, folds=None).models[0]
    bound = of_blocks.refit_bound
    assert bound.lower_bound == pytest.approx(of_rows.refit_bound.lower_bound)
    for block_group, row_group in zip(of_blocks.groups, of_rows.groups, strict=True):
        assert block_group.drift.value == pytest.approx(row_group.drift.value)
        half = [group.drift.high - group.drift.value for group in (block_group, row_group)]
        assert half[0] == pytest.approx(half[1], rel=0.5)
    single = audit(model, moments=blocks[0], folds=None).models[0]
    assert not single.groups[0].drift.has_interval


@pytest.mark.parametrize(
    ("change", "codes", "words"),
    [
        ("none", {"FS209"}, "No refit is needed"),
        ("spread", {"FS209", "FS210"}, "A refit may help"),
        ("all", {"FS209", "FS210"}, "recentered at the mean"),
    ],
)
def test_findings_say_whether_a_refit_may_help(change, codes, words):
    X, groups = draw_rows(1, n_smallest=1_000)
    model = FairPCA(2, criterion="nash_welfare").fit(X, sensitive_features=groups)
    X, groups = draw_rows(2, change=change, n_smallest=3_000)
    findings = audit(model, X - (0.8 if change == "all" else 0.0), groups, folds=None).findings
    refit_findings = [finding for finding in findings if finding.code in ("FS209", "FS210")]
    assert {finding.code for finding in refit_findings} == codes
    assert {finding.model for finding in refit_findings} == {"Nash welfare"}
    assert any(words in finding.message for finding in refit_findings)


@pytest.mark.parametrize(("n", "is_told"), [(59, True), (60, False)])
def test_a_gap_due_to_few_rows_is_reported_as_chance(n, is_told):
    rng = np.random.default_rng(0)
    model = FairPCA(2).fit(rng.standard_normal((400, 6)), sensitive_features=["a", "b"] * 200)
    X = np.vstack([rng.standard_normal((400, 6)), rng.standard_normal((n, 6)) * [1, 1, 1, 4, 3, 1]])
    [finding] = [
        finding
        for finding in audit(model, X, np.repeat(["a", "b"], [400, n])).findings
        if finding.code == "FS209"
    ]
    assert finding.message.endswith(f"has only {n} rows.") == is_told
    assert ("due to chance: 'b'" in finding.message) == is_told
    assert "A refit may help" in finding.message


def test_ordinary_pca_alone_has_a_refit_finding():
    X, groups = draw_rows(1)
    model = FairPCA(2, criterion="total_error").fit(X, sensitive_features=groups)
    X, groups = draw_rows(2)
    refit_findings = [
        finding for finding in audit(model, X, groups).findings if finding.code == "FS209"
    ]
    assert len(refit_findings) == 1
    pca = audit(model, X, groups, folds=None).models[0].refit_bound
    assert pca.lower_bound == pytest.approx(refit(model, X, groups).objective)


def test_a_negative_captured_variance_has_no_finite_welfare():
    X, groups = draw_rows(1)
    model = FairPCA(2, criterion="nash_welfare").fit(X, sensitive_features=groups)
    X, groups = draw_rows(2)
    result = audit(model, X + 30, groups)
    bound = result.models[0].refit_bound
    assert bound.objective == np.inf
    assert bound.refit_may_help
    record = bound.to_dict()
    assert record["objective"] is record["gap"] is record["relative_gap"] is None
    assert record["lower_bound"] < record["recentered_objective"] < 0
    sentence = next(finding.message for finding in result.findings if finding.code == "FS209")
    assert "nash_welfare is infinite, and" in sentence
    assert "inf " not in sentence


@pytest.mark.parametrize(("is_heavy", "is_reported"), [(False, True), (True, False)])
def test_a_smaller_error_is_reported_if_tails_are_light(is_heavy, is_reported):
    """Rows whose sizes vary much may lack the few that dominated the error at the fit."""
    rng = np.random.default_rng(0)
    lengths = [3, 2, 1, 1, 1, 1]
    groups = np.tile(["a", "b"], 2_000)
    X = rng.normal(size=(4_000, 6)) * lengths
    model = FairPCA(2).fit(X, sensitive_features=groups)
    sizes = rng.choice([0.3, 2.0], (4_000, 1), p=[0.9, 0.1]) if is_heavy else 0.5
    new_rows = rng.normal(size=(4_000, 6)) * lengths * sizes
    result = audit(model, new_rows, groups, folds=None)
    assert all(group.drift.high < 0 for group in result.models[0].groups)
    assert ("FS210" in [finding.code for finding in result.findings]) == is_reported
