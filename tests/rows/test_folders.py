"""Folders of files, and columns in the names of their sub-folders."""

import numpy as np
import pandas as pd
import pytest

from fairspan import FileRows, GroupMoments
from fairspan.errors import FairspanWarning, InvalidInput
from rows.file_rows import labels_of, values_of


def write(folder, name, **columns):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(columns)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".feather":
        frame.to_feather(path)
    else:
        frame.to_parquet(path, index=False)
    return path


def test_sub_folders_name_columns_of_whole_numbers_or_text(tmp_path):
    write(tmp_path, "year=2023/sex=f/a.parquet", x=[1.0, 2.0])
    write(tmp_path, "year=2024/sex=m/b.parquet", x=[3.0])
    rows = FileRows.open(tmp_path, groups=["sex"])
    assert rows.feature_names == ("x", "year")
    assert values_of(rows).tolist() == [[1, 2023], [2, 2023], [3, 2024]]
    assert labels_of(rows) == ["f", "f", "m"]
    assert GroupMoments.from_rows(tmp_path, ["sex", "year"]).labels == [("f", 2023), ("m", 2024)]


def test_what_only_looks_like_a_number_is_text(tmp_path):
    write(tmp_path, "zip=01/a.parquet", x=[1.0])
    write(tmp_path, "zip=1/b.parquet", x=[2.0])
    assert labels_of(FileRows.open(tmp_path, groups=["zip"])) == ["01", "1"]


def test_names_are_unquoted_and_no_value_is_a_missing_label(tmp_path):
    write(tmp_path, "g=a%20b/a.parquet", x=[1.0, 5.0])
    write(tmp_path, "g=__HIVE_DEFAULT_PARTITION__/b.parquet", x=[2.0])
    with pytest.raises(
        InvalidInput, match=r"b\.parquet, row group 0: .*row 1 \(index 0\) is missing"
    ):
        GroupMoments.from_rows(tmp_path, "g")
    moments = GroupMoments.from_rows(tmp_path, "g", on_missing="drop")
    assert moments.labels == ["a b"]
    assert moments.intake.n_dropped == 1


@pytest.mark.parametrize("ending", ["csv", "feather", "parquet"])
def test_folders_of_each_kind(tmp_path, ending):
    write(tmp_path, f"part=0/1.{ending}", x=[1.5, 2.0], g=["a", "b"])
    write(tmp_path, f"part=1/2.{ending}", x=[3.0], g=["b"])
    write(tmp_path, f"_notes/3.{ending}", y=[3.0])
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden.parquet").write_bytes(b"none of ours")
    rows = FileRows.open(tmp_path, groups=["g"])
    assert values_of(rows).tolist() == [[1.5, 0], [2, 0], [3, 1]]
    assert labels_of(rows) == ["a", "b", "b"]


def test_a_column_in_the_file_comes_before_the_name_of_its_folder(tmp_path):
    write(tmp_path, "g=a/1.parquet", x=[1.0], g=["own"])
    assert labels_of(FileRows.open(tmp_path, groups=["g"])) == ["own"]


def test_files_of_other_depth_or_kind_or_none(tmp_path):
    with pytest.raises(InvalidInput, match="holds no file of rows"):
        FileRows.open(tmp_path)
    write(tmp_path, "g=a/1.parquet", x=[1.0])
    write(tmp_path, "2.parquet", x=[1.0])
    with pytest.raises(InvalidInput, match=r"lies under 'g', but .*2\.parquet under"):
        FileRows.open(tmp_path)
    (tmp_path / "2.parquet").unlink()
    write(tmp_path, "2.csv", x=[1.0])
    with pytest.raises(InvalidInput, match="files of several kinds: csv, parquet"):
        FileRows.open(tmp_path)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"x": [1.0], "g": ["a"]}, "it lacks 'y'"),
        ({"x": [1.0], "y": [2.0], "z": [2.0], "g": ["a"]}, "it has 'z' besides"),
        ({"x": [1.0], "y": ["text"], "g": ["a"]}, "text|string in column 'y', but"),
        ({"x": [1.0], "y": [True], "g": ["a"]}, "bool in column 'y', but"),
    ],
)
def test_one_file_of_another_schema_is_named(tmp_path, other, message):
    write(tmp_path, "1.parquet", x=[1.0], y=[2.0], g=["a"])
    write(tmp_path, "2.parquet", **other)
    with pytest.raises(InvalidInput, match=message) as caught:
        FileRows.open(tmp_path, groups=["g"])
    assert str(tmp_path / "2.parquet") in str(caught.value)


def test_columns_in_another_order_and_of_another_width_are_the_same(tmp_path):
    write(tmp_path, "1.parquet", x=np.array([1, 2], np.int8), y=[0.5, 1], g=["a", "b"])
    write(tmp_path, "2.parquet", g=["b"], y=np.array([2], np.float32), x=[3.0])
    assert values_of(FileRows.open(tmp_path, groups=["g"])).tolist() == [[1, 0.5], [2, 1], [3, 2]]


@pytest.mark.parametrize("name", ["--5", "9223372036854775808", "-", "9" * 30])
def test_folders_of_what_is_no_number_or_too_large_a_one_are_text(tmp_path, name):
    write(tmp_path, f"g={name}/a.parquet", x=[1.0])
    write(tmp_path, "g=1/b.parquet", x=[2.0])
    assert sorted(labels_of(FileRows.open(tmp_path, groups=["g"]))) == sorted([name, "1"])


def test_no_value_among_numbers_is_missing(tmp_path):
    write(tmp_path, "year=__HIVE_DEFAULT_PARTITION__/a.parquet", x=[1.0, 5.0], g=["a", "b"])
    write(tmp_path, "year=2024/b.parquet", x=[2.0, 4.0], g=["a", "b"])
    by_year = GroupMoments.from_rows(
        FileRows.open(tmp_path, ["year"], ["x"], on_missing="drop"), None
    )
    assert (by_year.labels, by_year.intake.n_dropped) == ([2024], 2)
    as_feature = GroupMoments.from_rows(tmp_path, "g", on_missing="drop")
    assert as_feature.means.tolist() == [[2.0, 2024.0], [4.0, 2024.0]]
    assert as_feature.intake.n_dropped == 2
    with pytest.raises(InvalidInput, match=r"NaN, first in row 1 \(index 0\), column 'year'"):
        GroupMoments.from_rows(tmp_path, "g")


def test_a_file_in_which_nothing_is_known_of_a_column(tmp_path):
    write(tmp_path, "a.parquet", x=[None, None], g=["a", "b"])
    write(tmp_path, "b.parquet", x=[2.0, 4.0], g=["a", "b"])
    moments = GroupMoments.from_rows(tmp_path, "g", on_missing="drop")
    assert moments.means.tolist() == [[2.0], [4.0]]
    assert moments.intake.n_dropped == 2
    with pytest.raises(
        InvalidInput, match=r"a\.parquet, row group 0: .*NaN, first in row 1 \(index 0\)"
    ):
        GroupMoments.from_rows(tmp_path, "g")


def test_labels_of_another_type_in_one_file_are_named(tmp_path):
    write(tmp_path, "1.parquet", x=[1.0], g=[1])
    write(tmp_path, "2.parquet", x=[1.0], g=[1.0])
    with pytest.raises(InvalidInput, match=r"2\.parquet, row group 0: The groups are of different"):
        GroupMoments.from_rows(tmp_path, "g")


def test_files_that_are_passed_over_are_named(tmp_path):
    write(tmp_path, "1.parquet", x=[1.0], g=["a"])
    write(tmp_path, "2.parquet", x=[1.0], g=["b"]).rename(tmp_path / "2")
    with pytest.warns(FairspanWarning, match="skipped: '2'"):
        FileRows.open(tmp_path, groups=["g"])


def test_names_of_folders_and_a_column_of_another_kind_are_refused(tmp_path):
    write(tmp_path, "g=a/1.parquet", x=[1.0])
    write(tmp_path, "g=b/2.parquet", x=[1.0], g=[2.5])
    with pytest.raises(InvalidInput, match=r"holds double in column 'g', but .* holds string"):
        FileRows.open(tmp_path, groups=["g"])
