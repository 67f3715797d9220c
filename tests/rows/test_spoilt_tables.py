"""Spoilt files of rows are refused, or read to finite moments that are the same when saved."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan import GroupMoments, cli
from spoiling import answered_or_refused, spoilt_bytes

FRAME = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 4)), columns=list("wxyz"))
FRAME["g"] = ["a", "b"] * 20
CSV = FRAME.to_csv(index=False).encode()
FORMS = {
    "--delimiter": [",", ";", "\t", "a"],
    "--decimal": [".", ","],
    "--encoding": ["utf-8", "latin-1", "utf-16", "cp1252", "ascii"],
    "--comment": ["#", "1", "g"],
}


def written(suffix):
    file = io.BytesIO()
    if suffix == "csv":
        return CSV
    if suffix == "parquet":
        FRAME.to_parquet(file)
    else:
        FRAME.to_feather(file, compression="uncompressed")
    return file.getvalue()


def check_sound(moments):
    assert np.isfinite(moments.means).all()
    again = GroupMoments.from_bytes(moments.to_bytes())
    np.testing.assert_array_equal(again.scatters, moments.scatters)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
@given(data=st.data())
def test_a_spoilt_table_is_refused_or_read(tmp_path, suffix, data):
    path = tmp_path / f"rows.{suffix}"
    path.write_bytes(data.draw(spoilt_bytes(written(suffix))))
    with answered_or_refused():
        check_sound(GroupMoments.from_rows(path, "g"))


@given(
    content=spoilt_bytes(CSV),
    form=st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in FORMS.items()}),
    flags=st.sets(st.sampled_from(["--one-hot", "--numeric-only"])),
)
def test_a_spoilt_csv_file_is_refused_or_read_in_any_form(tmp_path, content, form, flags):
    (tmp_path / "rows.csv").write_bytes(content)
    words = ["audit", str(tmp_path / "rows.csv"), "--group", "g", "-d", "1", "--folds", "none"]
    with answered_or_refused():
        status = cli.run([*words, *flags, *(word for pair in form.items() for word in pair)])
    assert status in (0, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
