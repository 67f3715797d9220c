"""Audits as Markdown: every figure of the text, and nothing that the data could interpret."""

import re

import numpy as np
import pytest

import fairspan as fs
from known_verdicts import repairable_minority

markdown_it = pytest.importorskip("markdown_it")


@pytest.fixture(scope="module")
def audit():
    X, groups = repairable_minority()
    fair = fs.FairPCA(2, criterion=fs.MinimaxLoss(relative=True))
    return fs.audit(fair.fit(X, sensitive_features=groups), X, groups)


def tables_of(text):
    """Rows of the tables, as a parser of Markdown sees them."""
    tables = []
    for token in markdown_it.MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif token.type == "inline" and tables and tables[-1] and token.level >= 4:
            content = "".join(child.content for child in token.children)
            tables[-1][-1].append(content)
    return tables


def test_tables_have_the_figures_of_the_printed_ones(audit):
    decisions, fair, pca = tables_of(audit.to_markdown())
    assert [row[0] for row in decisions] == ["model", "PCA", audit.verdict.model]
    for table, model in ((fair, audit.models[0]), (pca, audit.models[1])):
        headings, *rows = table
        assert headings[0] == "group"
        text_rows = [re.split(r"\s{2,}", line.strip()) for line in str(audit.table()).splitlines()]
        for row, group in zip(rows, model.groups, strict=True):
            assert row[:2] == [group.group, f"{group.n_rows:,}"]
            assert row[-1] == group.state
            loss, _, interval = row[3].partition(" (")
            expected_row = [group.group, row[1], row[2], loss, interval.rstrip(")"), *row[4:]]
            assert expected_row in text_rows


def test_markdown_includes_verdict_findings_and_provenance(audit):
    text = markdown_it.MarkdownIt().render(audit.to_markdown(origin={"Data": "a`b.csv"}))
    plain = re.sub(r"<[^>]+>", "", text).replace("&gt;", ">").replace("&quot;", '"')
    assert f"Verdict: {audit.verdict}" in plain
    for finding in audit.findings:
        assert f"{finding.code} {finding.message}" in plain
    assert "<code>a`b.csv</code>" in text
    assert "3,000 rows, 3 features" in plain
    assert f"fairspan {fs.__version__}" in plain


def test_names_from_the_data_cannot_change_the_layout():
    rng = np.random.default_rng(0)
    hostile = ["<b>x</b>", "a | b", "*c*", "# d", "`e`\n\n- f", "[g](http://h)"]
    groups = np.array(hostile * 50)
    X = rng.standard_normal((300, 3)) * [3, 1, 0.5]
    model = fs.FairPCA(1).fit(X, sensitive_features=groups)
    audit = fs.audit({"m <script>": model}, X, groups, folds=None)
    text = audit.to_markdown()
    tokens = markdown_it.MarkdownIt("commonmark").enable("table").parse(text)
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close", "softbreak"}
    assert "html_block" not in {token.type for token in tokens}
    (table, *_) = tables_of(text)
    names = {row[0] for row in table[1:]}
    assert names == {name.replace("\n\n", "??") for name in hostile}


def test_units_are_those_of_the_table(audit):
    shares = audit.to_markdown()
    squared = audit.to_markdown(unit="squared")
    assert "in squared units of the features" in squared
    assert "44.8 %" in tables_of(shares)[2][1][3]
    assert "%" not in tables_of(squared)[2][1][3]
