"""An answer that double precision cannot resolve is called unresolved wherever it is shown."""

import pandas as pd
import pytest

from display_cases import display_texts, make_displays
from fairspan import FairPCA, audit, verify
from fairspan.displays import GroupLossDisplay
from unresolved_rows import claims_nothing, draw_unresolved_rows

COLUMN = "income"


@pytest.fixture(scope="module")
def rows():
    X, groups = draw_unresolved_rows()
    return pd.DataFrame(X, columns=[COLUMN, *"abcd"]), groups


@pytest.fixture(scope="module")
def fair(rows):
    return FairPCA(2).fit(rows[0], sensitive_features=rows[1])


def test_the_certificate_gives_a_reason_and_a_remedy(fair, rows):
    solution = fair.solution_
    assert solution.status == "unresolved"
    assert solution.absolute_tol < solution.gap <= solution.resolution
    assert f"the column {COLUMN!r}" in solution.unresolved_reason
    assert solution.unresolved_reason in solution.message
    assert "by its unit" in solution.message
    assert solution.message in solution._repr_html_().replace("&#x27;", "'").replace("&quot;", '"')
    assert verify(fair, *rows).holds


def test_the_finding_names_the_column_to_rescale(fair, rows):
    (finding,) = [
        finding
        for finding in audit({"fair": fair}, *rows).findings
        if finding.model == "fair" and finding.code == "FS204"
    ]
    assert "(unresolved)" in finding.message
    assert COLUMN in finding.message
    # These rows are centered about the mean of all rows already.
    assert finding.message.endswith(" Rescale it, or use scale=True.")
    assert claims_nothing(finding.message)


@pytest.mark.slow
def test_the_command_line_prints_the_status_unresolved(rows, tmp_path, capsys):
    from fairspan import cli

    path = tmp_path / "rows.csv"
    rows[0].assign(group=rows[1]).to_csv(path, index=False)
    fit = ["fit", str(path), "--group", "group", "-d", "2", "-o", str(tmp_path / "m")]
    assert cli.run(fit) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Status: unresolved" in text
    assert "column 'income'" in text
    assert "Status: proven" not in text
    assert cli.run(["verify", str(tmp_path / "m"), str(path), "--group", "group"]) == 0


def test_pictures_note_unresolved_solutions(fair):
    note = GroupLossDisplay.from_estimator(fair)._note()
    assert "rounding error" in note
    assert claims_nothing(note)
    from matplotlib.figure import Figure

    path = make_displays(("a", "b"))["path"]
    path.statuses = ["optimal", "optimal", "optimal", "unresolved", "open gap"]
    message = " ".join(display_texts(path.plot(Figure().add_subplot())))
    assert "Of 5 solutions, 1 is not" in message
    assert "Of 5 solutions, 1 is unresolved" in message
