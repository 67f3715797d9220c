"""Saved pairs, and the verification that recomputes their claims."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cross_decomposition.paired_tables import draw_tables
from fairspan import FairPCA, GroupMoments, audit, verify, write_report
from fairspan.certificates.status import Status
from fairspan.cross_decomposition import (
    FairCCA,
    FairPLS,
    NashCovariance,
    PairedSubspace,
    verify_pairs,
)
from fairspan.errors import CorruptFile, IncompatibleParameters, InvalidType
from fairspan.metrics import rank_bound

CASES = [
    (method, criterion, restriction, center)
    for method in (FairPLS, FairCCA)
    for criterion, restriction, center in [
        ("minimax_loss", None, "global"),
        ("minimax_relative_loss", "mean_parity", "group"),
        ("nash_welfare", None, "none"),
        ("total_covariance", "mean_parity", "global"),
    ]
]


@pytest.mark.parametrize(("method", "criterion", "restriction", "center"), CASES)
def test_saved_models_verify_with_the_rows_in_any_order(
    method, criterion, restriction, center, tmp_path
):
    X, Y, groups = draw_tables(groups="ab")
    model = method(2, criterion=criterion, restriction=restriction, center=center)
    model.fit(X, Y, sensitive_features=groups)
    path = tmp_path / "pair.model"
    model.subspace_.save(path)
    copy = PairedSubspace.load(path)
    np.testing.assert_array_equal(copy.x.rotations, model.x_weights_)
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    assert copy.certificate.status == model.solution_.status
    order = np.random.default_rng(0).permutation(len(X))
    result = verify_pairs(copy, X[order], Y[order], sensitive_features=groups[order])
    assert result.holds, str(result)
    assert verify_pairs(model, GroupMoments.from_rows(np.hstack([X, Y]), groups)).holds
    for other in (X + 1e-3 * Y[:, :1], X[:, ::-1]):
        assert not verify_pairs(copy, other, Y, sensitive_features=groups).holds
    assert not verify_pairs(copy, X[1:], Y[1:], sensitive_features=groups[1:]).holds


@pytest.mark.parametrize(
    "refuse",
    [
        lambda model, X, groups: audit(model, X, groups),
        lambda model, X, groups: audit(model.subspace_, X, groups),
        lambda model, X, groups: write_report("page.html", X, groups, models=model),
        lambda model, X, groups: rank_bound(model, X, groups),
    ],
)
def test_functions_for_one_table_name_those_for_two(refuse, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, Y, groups = draw_tables(groups="ab")
    model = FairPLS(1).fit(X, Y, sensitive_features=groups)
    with pytest.raises(InvalidType, match="audit_pairs"):
        refuse(model, X, groups)
    assert list(tmp_path.iterdir()) == []
    result = verify(model, X, groups)
    assert not result.holds
    assert "verify_pairs" in str(result)


def forge(pair):
    """Yield false claims with their names."""
    certificate = pair.certificate
    figures = certificate.figures
    statement = certificate.statement
    swapped = replace(pair.x, rotations=pair.x.rotations[:, ::-1])
    permuted = replace(pair.x, rotations=np.roll(pair.x.rotations, 1, axis=0))
    stretched = replace(pair.y, rotations=1.001 * pair.y.rotations)
    yield "bases that are turned against each other", replace(pair, x=swapped)
    yield "another subspace", replace(pair, x=permuted)
    yield "weights that are not orthonormal", replace(pair, y=stretched)
    yield "another mean", replace(pair, x=replace(pair.x, mean=pair.x.mean + 0.1))
    yield "another scale", replace(pair, y=replace(pair.y, scale=1.1 * pair.y.scale))
    for name, change in (
        ("a smaller objective", {"objective": figures.objective - 1e-4}),
        ("a higher bound", {"lower_bound": figures.lower_bound + 1e-4}),
        ("more kept", {"kept": figures.kept + 1e-4}),
        ("a smaller best", {"best": figures.best - 1e-4}),
    ):
        altered = replace(certificate, figures=replace(figures, **change))
        yield name, replace(pair, certificate=altered)
    for name, change in (
        ("another criterion", {"criterion": NashCovariance()}),
        ("other groups", {"groups": ("a", "z")}),
        ("other counts", {"counts": (1, 2)}),
        ("another center", {"center": "none"}),
        ("another method", {"method": "cca"}),
    ):
        altered = replace(certificate, statement=replace(statement, **change))
        yield name, replace(pair, certificate=altered)
    yield (
        "other weights",
        replace(pair, certificate=replace(certificate, weights=np.array([1.0, 0]))),
    )


@pytest.mark.parametrize("index", range(15))
def test_false_claims_are_found(index):
    X, Y, groups = draw_tables(groups="ab")
    pair = FairPLS(2).fit(X, Y, sensitive_features=groups).subspace_
    cases = list(forge(pair))
    assert len(cases) == 15
    name, forgery = cases[index]
    result = verify_pairs(forgery, X, Y, sensitive_features=groups)
    assert not result.holds, name
    assert "does not hold" in str(result)


def test_a_suboptimal_pair_is_not_called_optimal():
    X, Y, groups = draw_tables(groups="ab")
    best = FairPLS(2).fit(X, Y, sensitive_features=groups).subspace_
    usual = FairPLS(2, criterion="total_covariance").fit(X, Y, sensitive_features=groups).subspace_
    figures = replace(
        best.certificate.figures,
        kept=usual.certificate.figures.kept,
        objective=float(usual.certificate.losses.max()),
    )
    tol = best.certificate.assessment.tol
    assessment = replace(
        best.certificate.assessment,
        scale=figures.objective,
        absolute_tol=tol * figures.objective,
    )
    forgery = replace(
        usual, certificate=replace(best.certificate, figures=figures, assessment=assessment)
    )
    result = verify_pairs(forgery, X, Y, sensitive_features=groups)
    assert not result.holds
    assert "says optimal" in str(result)
    honest = replace(assessment, status=Status.OPEN_GAP)
    honest = replace(forgery, certificate=replace(forgery.certificate, assessment=honest))
    assert verify_pairs(honest, X, Y, sensitive_features=groups).holds


def test_labels_match_as_text_and_other_models_have_nothing_to_verify():
    X, Y, groups = draw_tables(groups="12")
    pair = FairPLS(1).fit(X, Y, sensitive_features=groups).subspace_
    rows = pd.DataFrame(np.hstack([X, Y])).rename(columns=str).assign(g=groups)
    assert verify_pairs(pair, rows, list("5678"), sensitive_features="g").holds
    pca = FairPCA(1).fit(X, sensitive_features=groups)
    assert "nothing to verify" in str(verify_pairs(pca, X, Y, sensitive_features=groups))


def test_broken_files_are_refused(tmp_path):
    X, Y, groups = draw_tables()
    path = tmp_path / "pair.model"
    FairPLS(1).fit(X, Y, sensitive_features=groups).subspace_.save(path)
    contents = path.read_bytes()
    for position in range(100, len(contents), len(contents) // 25):
        corrupted = bytearray(contents)
        corrupted[position] ^= 0xFF
        path.write_bytes(corrupted)
        try:
            pair = PairedSubspace.load(path)
        except CorruptFile:
            continue
        # A byte that no check covers, such as a date in the archive.
        assert verify_pairs(pair, X, Y, sensitive_features=groups).holds
    path.write_bytes(contents[: len(contents) // 2])
    with pytest.raises(CorruptFile):
        PairedSubspace.load(path)
    FairPCA(1).fit(X, sensitive_features=groups).subspace_.save(path)
    with pytest.raises(CorruptFile, match=r"kind 'fairspan\.subspace'"):
        PairedSubspace.load(path)


def test_criteria_of_other_packages_fit_and_verify_but_are_not_saved(tmp_path):
    class MeanLogarithm(NashCovariance):
        name = "mean_logarithm"

    X, Y, groups = draw_tables(shared=1.0)
    theirs = FairPLS(1, criterion=MeanLogarithm()).fit(X, Y, sensitive_features=groups)
    ours = FairPLS(1, criterion="nash_welfare").fit(X, Y, sensitive_features=groups)
    assert theirs.solution_.objective == ours.solution_.objective
    assert verify_pairs(theirs, X, Y, sensitive_features=groups).holds
    with pytest.raises(IncompatibleParameters, match="mean_logarithm"):
        theirs.subspace_.save(tmp_path / "pair.model")
