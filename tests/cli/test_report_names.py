"""fairspan report of files and columns whose names hold line breaks and control codes."""

import ast
import os
import subprocess
import sys

import pandas as pd
import pytest

from fairspan.cli.reporting import shell_text
from report_rows import made_rows

BREAKING = "group\nimport os; os.abort()\n#"


@pytest.fixture
def odd(tmp_path):
    X, groups = made_rows(2, 3)
    path = tmp_path / "rows\nimport os; os.abort()\n\x1b[31m\u202e.csv"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], BREAKING: groups}).to_csv(
        path, index=False
    )
    return path


def test_no_name_becomes_a_line_of_the_program_that_verifies(run, odd):
    snippet = run("report", odd, "--group", BREAKING, "-d", 1, "--json").facts["verification"][
        "snippet"
    ]
    names = {node.id for node in ast.walk(ast.parse(snippet)) if isinstance(node, ast.Name)}
    assert "os" not in names
    assert "abort" in next(line for line in snippet.splitlines() if line.startswith("# fairspan"))


@pytest.mark.long
def test_the_command_is_one_printable_line_that_a_shell_reads_as_it_was_typed(run, odd, tmp_path):
    page = tmp_path / os.fsdecode(b"page \xff.html")
    typed = ("report", str(odd), "--group", BREAKING, "-d", "1", "-o", str(page))
    result = run(*typed)
    assert result.status == 0, result.err
    assert all(line.isprintable() for line in result.out.splitlines())
    told = run(*typed, "--json").facts["made"]["command"]
    assert told.isprintable()
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {told}"], capture_output=True, check=True
    ).stdout.split(b"\0")[:-1]
    # Paths by their names: a page says nothing of the machine that made it.
    named = [os.path.basename(word) if word.startswith("/") else word for word in typed]  # noqa: PTH119
    assert words == [os.fsencode(word) for word in ("fairspan", *named, "--json")]
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.skipif(sys.platform == "win32", reason="no bash")
@pytest.mark.parametrize("word", ["", "a b", "it's", "\\'\n", "\x01f", "\u2028", "\t$x`y`", "é\n"])
def test_any_word_comes_back_from_the_shell(word):
    found = subprocess.run(
        ["bash", "-c", f"printf %s {shell_text([word])}"], capture_output=True, check=True
    )
    assert found.stdout == word.encode()
