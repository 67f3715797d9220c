"""Words of command lines: parameters that are parsed, and words that a shell reads again."""

import subprocess
import sys

import numpy as np
import pytest

from fairspan.cli.fitting import with_y_classes
from fairspan.cli.param_types import parse_parameters
from fairspan.cli.reporting import shell_command
from fairspan.moments.group_moments import compute_group_moments
from fairspan.rows.opening import open_rows


def test_numbers_as_texts_stay_texts():
    # A CSV has no types: a group 1 is the text "1".
    assert parse_parameters(["protected=1"]) == {"protected": "1"}


def test_classes_are_known_by_their_texts_next_to_several_attributes():
    X = np.arange(8.0)[:, None] ** [1, 2]
    groups = np.column_stack([np.tile(["a", "b"], 4), np.repeat(["x", "y"], 4)])
    rows = open_rows(X, groups, y=[0, 0, 1, 1] * 2)
    moments = compute_group_moments(rows)
    settings = with_y_classes({"within_classes": ["1", "x"], "tolerance": 0}, moments)
    assert settings == {"within_classes": [1, "x"], "tolerance": 0}


@pytest.mark.skipif(sys.platform == "win32", reason="no bash")
@pytest.mark.parametrize("word", ["", "a b", "it's", "\\'\n", "\x01f", "\u2028", "\t$x`y`", "é\n"])
def test_any_word_comes_back_from_the_shell(word):
    completed = subprocess.run(
        ["bash", "-c", f"printf %s {shell_command([word])}"], capture_output=True, check=True
    )
    assert completed.stdout == word.encode()
