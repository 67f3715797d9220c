"""Displays in notebooks: tables of plain text, whatever the names in the data."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import fairspan as fs
from fairspan.formatting.numbers import to_ascii
from html_tables import HOSTILE, IN_CELLS, TAGS, Tables

RNG = np.random.default_rng(0)


def rows_of(k, n=12, p=4):
    X = np.vstack([RNG.normal(size=(n, p)) * RNG.uniform(0.5, 2, p) for _ in range(k)])
    return X, np.repeat([f"g{i:02}" for i in range(k)], n)


def render(thing):
    tables = Tables(thing._repr_html_())
    assert tables.tags <= TAGS | IN_CELLS
    # Colors are those of the page around, light or dark.
    assert not {"#", "rgb", "url("} & set(re.findall(r"#|rgb|url\(", tables.style))
    for name, value in re.findall(r"([\w-]+):([^;}]*)", tables.style):
        if "color" in name or "background" in name:
            assert value in ("inherit", "none")
    # Nothing else on the page around changes.
    assert all(rule.strip().startswith(".fairspan") for rule in tables.style.split("}")[:-1])
    return tables


@pytest.fixture(scope="module")
def two():
    X, groups = rows_of(2)
    return X, groups, fs.FairPCA(2).fit(X, sensitive_features=groups)


def test_the_estimator_keeps_the_diagram_of_scikit_learn(two):
    fair = fs.FairPCA(2, criterion="minimax_error")
    assert fs.FairPCA._repr_html_ is BaseEstimator._repr_html_
    html = fair._repr_html_()
    assert "sk-estimator" in html
    assert "minimax_error" in html
    bundle = two[2]._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert "sk-estimator" in bundle["text/html"]


def test_an_audit_shows_the_cells_of_its_text_table_and_its_findings(two):
    X, groups, fair = two
    audit = fs.audit(fair, X, groups, folds=5)
    tables = render(audit)
    note, table = audit.table().to_text(200).split("\n\n")
    in_text = [line.split() for line in table.splitlines() if not line.startswith("-")]
    assert any(" ".join(note.split()) in text for text in tables.beside)
    assert any(str(audit.verdict) in text for text in tables.notes)
    head, *rows = [to_ascii(" ".join(row)).split() for row in tables.rows]
    lines = len(in_text) - len(rows)  # of its head, which may take several
    assert sorted(word for line in in_text[:lines] for word in line) == sorted(head)
    assert in_text[lines:] == rows
    for finding in audit.findings:
        assert str(finding) in tables.notes
        assert (finding.severity == "warning") == (finding.code in tables.strong)


def test_many_groups_are_all_in_a_box_that_scrolls():
    for k, scrolls in ((12, False), (30, True)):
        moments = fs.GroupMoments.from_rows(*rows_of(k))
        assert [row[0] for row in render(moments).rows[1:]] == list(moments.labels)
        assert ('class="scroll long"' in moments._repr_html_()) == scrolls


def test_moments_show_rows_weights_shares_and_variances(two):
    X, groups, _ = two
    weights = RNG.uniform(0.5, 1.5, len(X))
    tables = render(fs.GroupMoments.from_rows(X, groups, weights))
    assert any(text.startswith("24 rows, 4 features; ") for text in tables.beside)
    for name, row in zip(("g00", "g01"), tables.rows[1:], strict=True):
        mine, group_weights = X[groups == name], weights[groups == name]
        mean = np.average(mine, axis=0, weights=group_weights)
        variance = np.average(((mine - mean) ** 2).sum(axis=1), weights=group_weights)
        assert row[:2] == [name, "12"]
        assert float(row[2]) == pytest.approx(group_weights.sum(), rel=1e-9)
        assert row[3:] == [f"{100 * group_weights.sum() / weights.sum():.1f} %", f"{variance:.4g}"]


def test_moments_of_rows_that_stay_show_the_same(two, monkeypatch):
    import scipy.sparse

    X, groups, _ = two
    wide = np.hstack([X, RNG.normal(size=(len(X), 60))])
    full_moments = fs.GroupMoments.from_rows(wide, groups)
    monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 50)
    monkeypatch.setattr("fairspan.moments.compute.MAX_DENSE_FEATURES", 50)
    monkeypatch.setattr("fairspan.moments.compute.MAX_SQUARED_SPARSE_RATIO", 0)
    for eigensolver, rows in (("thin", wide), ("matrix-free", scipy.sparse.csr_array(wide))):
        fair = fs.FairPCA(2).fit(rows, sensitive_features=groups)
        assert fair.solution_.eigensolver == eigensolver
        assert render(fair.moments_).rows == render(full_moments).rows


def test_a_frontier_shows_its_ends_and_ordinary_pca(two):
    X, groups, _ = two
    moments = fs.GroupMoments.from_rows(X, groups)
    curve = fs.frontier(moments, 2, tol=1e-5)
    tables = render(curve)
    m = len(curve.errors)
    assert m > 10
    head, first, *_, last, pca = tables.rows
    assert head[:3] == ["", "weight of g00", "error of g00"]
    assert len(tables.rows) == 1 + 10 + 1
    assert f"{m} vertices (10 shown), 2 components, center 'global'" in tables.beside
    short = fs.frontier(moments, 2, tol=0.1)
    assert f"{len(short.errors)} vertices, 2 components" in " ".join(render(short).beside)
    for row, i in ((first, 0), (last, m - 1)):
        assert row[0] == f"vertex {i}"
        figures = [curve.weights[i, 0], *curve.errors[i], *curve.losses[i], curve.total_errors[i]]
        assert [float(cell) for cell in row[1:]] == pytest.approx(figures, rel=1e-3, abs=1e-9)
    plain = fs.FairPCA(2, criterion="total_error").fit(X, sensitive_features=groups)
    by_fit = [*plain.group_errors_, *plain.group_losses_]
    assert [float(cell) for cell in pca[2:6]] == pytest.approx(by_fit, rel=1e-3)
    assert float(pca[6]) <= curve.total_errors.min() * 1.001


def test_a_subspace_and_its_certificate(two, tmp_path):
    _, _, fair = two
    tables = render(fair.subspace_)
    assert [row[0] for row in tables.rows] == ["group", "g00", "g01"]
    assert [float(row[3]) for row in tables.rows[1:]] == pytest.approx(fair.group_losses_, rel=1e-3)
    assert any(text.startswith("optimal: minimax_loss is") for text in tables.beside)
    certificate = dict(render(fair.solution_).rows)
    assert float(certificate["objective"]) == pytest.approx(fair.solution_.objective, rel=1e-5)
    assert certificate["solver"] == fair.solution_.solver
    assert float(certificate["gap"]) == pytest.approx(fair.solution_.gap, rel=0.05)
    unbounded = dict(render(replace(fair.solution_, lower_bound=-np.inf)).rows)
    assert (unbounded["lower bound"], unbounded["gap"]) == ("unknown", "unknown")
    # Nothing is known of a basis that was given.
    assert fs.FairSubspace(np.eye(4)[:2], np.zeros(4))._repr_html_() is None


def test_hostile_names_stay_text(two):
    X, groups, _ = two
    hostile_groups = np.where(groups == "g00", HOSTILE, "b\n\x1b[31m")
    fair = fs.FairPCA(2).fit(X, sensitive_features=hostile_groups)
    moments = fs.GroupMoments.from_rows(X, hostile_groups)
    things = [
        fs.audit({HOSTILE: fair}, X, hostile_groups, folds=None),
        moments,
        fs.frontier(moments, 2, tol=1e-2),
    ]
    for thing in [*things, fair.subspace_]:
        tables = render(thing)
        text = "".join(tables.beside + [cell for row in tables.rows for cell in row])
        assert HOSTILE.replace("\u202e", "?") in text
        assert "\u202e" not in text
        assert "\x1b" not in text
