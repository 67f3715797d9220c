"""Compressed files, lines above the header, and Excel workbooks: the rows of the plain table."""

import bz2
import datetime
import gzip
import zipfile

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from fairspan.errors import FairspanWarning, InvalidInput, InvalidParameter, MissingDependency

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 3)).round(6), columns=["x", "y", "z"])
    frame["y"] = (10 * frame["y"]).round().astype(int)
    return frame.assign(g=np.where(rng.random(80) < 0.4, "a", "b"))


def moments_of(path, **options):
    rows = fs.FileRows.open(path, ["g"], **options)
    return fs.GroupMoments.from_rows(rows, None)


def assert_same(moments, table):
    expected = fs.GroupMoments.from_rows(table, "g")
    assert moments.feature_names == ("x", "y", "z")
    assert moments.labels == expected.labels
    np.testing.assert_array_equal(moments.counts, expected.counts)
    np.testing.assert_allclose(moments.means, expected.means, atol=1e-12)
    np.testing.assert_allclose(moments.scatters, expected.scatters, atol=1e-9)


def zipped(path, content, *names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("name", ["t.csv.bz2", "t.csv.gz", "t.csv.zip", "t.zip"])
def test_compressed_files(tmp_path, table, name):
    content = table.to_csv(index=False).encode()
    path = tmp_path / name
    if name.endswith(".zip"):
        zipped(path, content, "folder/t.csv", "__MACOSX/folder/._t.csv")
    else:
        path.write_bytes((bz2 if name.endswith("bz2") else gzip).compress(content))
    assert_same(moments_of(path), table)


@pytest.mark.parametrize("names", [(), ("a.csv", "b.csv")])
def test_an_archive_holds_one_table(tmp_path, table, names):
    path = zipped(tmp_path / "t.zip", table.to_csv(index=False), *names)
    with pytest.raises(InvalidInput, match=f"holds {len(names)} files, not one table"):
        moments_of(path)


@pytest.mark.parametrize("name", ["t.csv.bz2", "t.csv.zip"])
def test_damaged_files_are_refused(tmp_path, table, name):
    path = tmp_path / name
    content = table.to_csv(index=False).encode()
    if name.endswith("zip"):
        zipped(path, content, "t.csv")
        damaged = bytearray(path.read_bytes())
        damaged[60:80] = bytes(20)
        path.write_bytes(damaged)
    else:
        path.write_bytes(bz2.compress(content)[:-40])
    with pytest.raises(InvalidInput, match="cannot be read"):
        moments_of(path)


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_lines_above_the_header_are_skipped(tmp_path, table, line_end, encoding):
    title = ['Report "2026"', "", "all, persons"]
    lines = [*title, *table.to_csv(index=False).splitlines()]
    path = tmp_path / "t.csv"
    path.write_bytes(line_end.join(lines).encode(encoding))
    assert_same(moments_of(path, csv={"skip_rows": 3, "encoding": encoding}), table)


def test_more_skipped_lines_than_a_block_holds(tmp_path, table):
    path = tmp_path / "t.csv"
    path.write_text("a title,\n" * 20_000 + table.to_csv(index=False))
    assert_same(moments_of(path, csv={"skip_rows": 20_000}), table)


def test_errors_count_the_lines_of_the_file(tmp_path, table):
    lines = table.to_csv(index=False).splitlines()
    lines[6] = "1.5,,2.5,a"
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["title", "", *lines]))
    with pytest.raises(InvalidInput, match="line 9"):
        moments_of(path, csv={"skip_rows": 2})


def test_a_title_is_explained_with_the_number_of_lines_to_skip(tmp_path, table):
    path = tmp_path / "t.csv"
    path.write_text("People of the town\n\n" + table.to_csv(index=False))
    with pytest.raises(InvalidInput, match=r"csv=\{'skip_rows': 2\}"):
        moments_of(path)
    assert_same(moments_of(path, csv={"skip_rows": 2}), table)


@pytest.mark.parametrize("n", [-1, 1.5, "2"])
def test_numbers_of_lines_that_are_none_are_refused(tmp_path, n):
    with pytest.raises((InvalidParameter, TypeError), match="skip_rows"):
        fs.FileRows.open(tmp_path / "t.csv", ["g"], csv={"skip_rows": n})


def write_workbook(path, rows, *other_sheets):
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    for title in other_sheets:
        workbook.create_sheet(title)
    workbook.save(path)
    return path


def rows_of(table):
    return [list(table), *table.astype(object).values.tolist()]


@pytest.mark.slow
def test_workbooks(tmp_path, table):
    path = write_workbook(tmp_path / "t.xlsx", rows_of(table))
    assert_same(moments_of(path), table)
    fair = fs.FairPCA(2).fit(path, sensitive_features="g")
    from_table = fs.FairPCA(2).fit(table, sensitive_features="g")
    np.testing.assert_allclose(fair.components_, from_table.components_, atol=1e-12)
    assert fs.audit(fair, path, "g").verdict == fs.audit(from_table, table, "g").verdict


def test_titles_blank_rows_and_columns_of_workbooks_are_no_rows(tmp_path, table):
    header, *body = rows_of(table)
    blank = [None] * 6
    rows = [["People"], blank, header, *body[:40], blank, *body[40:], blank]
    path = write_workbook(tmp_path / "t.xlsx", rows)
    assert_same(moments_of(path, csv={"skip_rows": 2}), table)


def test_workbooks_without_header(tmp_path, table):
    path = write_workbook(tmp_path / "t.xlsx", rows_of(table)[1:])
    rows = fs.FileRows.open(path, ["column_4"], csv={"header": False})
    moments = fs.GroupMoments.from_rows(rows, None)
    expected = fs.GroupMoments.from_rows(table, "g")
    np.testing.assert_allclose(moments.means, expected.means, atol=1e-12)


def test_missing_cells_and_codes_of_workbooks(tmp_path, table):
    rows = rows_of(table)
    rows[3][0], rows[4][1], rows[5][2] = None, "#N/A", -99
    path = write_workbook(tmp_path / "t.xlsx", rows)
    moments = moments_of(path, na_values=-99, on_missing="drop")
    assert_same(moments, table.drop(index=[2, 3, 4]))
    assert moments.n_dropped == 3


def test_text_among_numbers_is_refused_and_dates_are_no_numbers(tmp_path, table):
    rows = rows_of(table)
    rows[3][0] = "many"
    with pytest.raises(InvalidInput, match="'x'"):
        moments_of(write_workbook(tmp_path / "t.xlsx", rows))
    rows = rows_of(table)
    for row in rows[1:]:
        row[0] = datetime.datetime(2026, 1, 1)
    with pytest.raises(InvalidInput, match="'x'"):
        moments_of(write_workbook(tmp_path / "dates.xlsx", rows))


def test_the_first_of_several_sheets_is_read_with_a_warning(tmp_path, table):
    path = write_workbook(tmp_path / "t.xlsx", rows_of(table), "notes")
    with pytest.warns(FairspanWarning, match="first of the sheets 'Sheet', 'notes'"):
        assert_same(moments_of(path), table)


@pytest.mark.parametrize("rows", [[], [["x", "g"]]])
def test_empty_workbooks_are_refused(tmp_path, rows):
    with pytest.raises(InvalidInput, match="is empty"):
        moments_of(write_workbook(tmp_path / "t.xlsx", rows))


def test_a_cell_without_a_name_is_refused(tmp_path, table):
    rows = rows_of(table)
    rows[7].append(5)
    with pytest.raises(InvalidInput, match="column 5, which has no name"):
        moments_of(write_workbook(tmp_path / "t.xlsx", rows))


def test_options_of_text_files_are_refused_for_workbooks(tmp_path, table):
    path = write_workbook(tmp_path / "t.xlsx", rows_of(table))
    with pytest.raises(InvalidInput, match="an Excel file, which has no such format options"):
        moments_of(path, csv={"decimal": ","})


def test_a_file_that_is_no_workbook_is_refused(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "t.xlsx"
    path.write_bytes(b"PK\x03\x04" + bytes(50))
    with pytest.raises(InvalidInput, match="cannot be read"):
        moments_of(path)


def test_a_workbook_without_its_package_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "t.xlsx"
    path.write_bytes(b"PK\x03\x04" + bytes(50))
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(MissingDependency, match=r"fairspan\[excel\]"):
        moments_of(path)
