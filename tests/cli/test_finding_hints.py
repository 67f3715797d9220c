"""Findings name options of the command line where a command prints them, and only there."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from fairspan import audit

N = 200
RNG = np.random.default_rng(5)
ROWS = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["age", "height", "weight"])
GROUPS = np.repeat(["f", "m"], N // 2)


def columns(**more):
    return ROWS.assign(sex=GROUPS, **more)


CASES = {
    "FS401": (columns(code=np.where(GROUPS == "f", 1.0, 2.0)), "--exclude COL"),
    "FS402": (columns(number=np.arange(N) * 0.5), "--exclude COL"),
    "FS403": (columns(income=ROWS.age * 1e4), "--standardize"),
    "FS412": (columns(height=np.where(np.arange(N) % 9, ROWS.height, -99.0)), "--na-values height"),
    "FS413": (
        columns().assign(sex=np.where(np.arange(N) % 3, GROUPS, "?")),
        "--missing-group drop",
    ),
}


@pytest.mark.parametrize("code", CASES)
def test_a_finding_names_the_option_on_the_command_line_and_an_argument_in_python(
    code, run, tmp_path
):
    table, option = CASES[code]
    path = tmp_path / "rows.csv"
    table.to_csv(path, index=False)
    words = ["audit", path, "--group", "sex", "-d", 1, "--numeric-only", "--json"]
    facts = run(*words).facts
    [said] = [each["message"] for each in facts["findings"] if each["code"] == code]
    hint = re.search(r" On the command line: (.*)\.$", said)
    assert option in hint[1]
    features = table.select_dtypes("number")
    found = audit(PCA(1).fit(features), features, table.sex).findings
    [message] = [each.message for each in found if each.code == code]
    assert said == message + hint[0]
    assert "--" not in message
