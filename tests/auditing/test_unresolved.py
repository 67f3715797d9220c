"""An answer that double precision cannot resolve is told as such wherever a status is shown."""

import numpy as np
import pandas as pd
import pytest

from fairspan import FairPCA, audit, verify
from fairspan.displays import GroupLossDisplay
from fairspan.displays.base_display import describe_unproven
from fairspan.report.page import render_sentence
from report_cases import make_report

COLUMN = "income"


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    X[:100, 1] *= 3
    X[100:, 2] *= 3
    X[:, 0] *= 1e8
    X[:, 1] += 1e-3 * X[:, 0]
    return pd.DataFrame(X, columns=[COLUMN, *"abcd"]), np.repeat(["one", "other"], 100)


@pytest.fixture(scope="module")
def fair(rows):
    return FairPCA(2).fit(rows[0], sensitive_features=rows[1])


def claims_nothing(text):
    return not any(each in text.lower() for each in ("proven", "is optimal", "open gap"))


def test_the_certificate_gives_a_reason_and_a_remedy(fair, rows):
    solution = fair.solution_
    assert solution.status == "unresolved"
    assert solution.absolute_tol < solution.gap <= solution.resolution
    assert f"the column {COLUMN!r} has the largest numbers" in solution.unresolved_reason
    assert solution.unresolved_reason in solution.message
    assert "divide it by its unit" in solution.message
    assert solution.message in solution._repr_html_().replace("&#x27;", "'").replace("&quot;", '"')
    assert verify(fair, *rows).holds


def test_the_finding(fair, rows):
    (found,) = [
        each
        for each in audit({"fair": fair}, *rows).findings
        if each.model == "fair" and each.code == "FS204"
    ]
    assert "(unresolved)" in found.message
    assert COLUMN in found.message
    # These rows are centered about the mean of all rows already.
    assert found.message.endswith(" Rescale it, or use scale=True.")
    assert claims_nothing(found.message)


def test_the_command_line(rows, tmp_path, capsys):
    from fairspan import cli

    path = tmp_path / "rows.csv"
    rows[0].assign(group=rows[1]).to_csv(path, index=False)
    fit = ["fit", str(path), "--group", "group", "-d", "2", "-o", str(tmp_path / "m")]
    assert cli.run(fit) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Status: unresolved: the gap is at most what double precision can resolve" in text
    assert "the column 'income' has the largest numbers" in text
    assert "The resolution of double precision" in text
    assert "Status: optimal" not in text
    assert cli.run(["verify", str(tmp_path / "m"), str(path), "--group", "group"]) == 0


def test_the_page(rows):
    facts = make_report(rows[0].to_numpy(), rows[1], 2, compare=[])
    proof = render_sentence("certificate_lead", facts).striptags()
    assert proof.startswith("Unresolved: no projection to 2 dimensions reduces")
    assert "the column" in proof
    assert "Rescale it, standardize" in proof
    assert claims_nothing(proof)
    assert "Unresolved" in render_sentence("key_figures", facts)


def test_pictures(fair):
    note = GroupLossDisplay.from_estimator(fair)._note()
    assert "rounding error" in note
    assert claims_nothing(note)
    of_path = describe_unproven(["optimal", "unresolved", "open gap"])
    assert of_path.startswith(
        "Of 3 solutions, 1 is not proven optimal. Of 3 solutions, 1 is unresolved"
    )
