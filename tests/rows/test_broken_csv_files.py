"""Broken CSV files: each message names the line, and shows no more than one cell of the data."""

import contextlib
import io
import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan import FileRows, GroupMoments, cli
from fairspan.errors import FairspanError, InvalidInput

HEADER = "x,y,note,g"
N_ROWS = 40
# Each cell has a token of its own, by which it is found in messages.
TOKEN = re.compile(r"(?:tok|7)\d{3}0\d9")


def cells_of(row):
    return [f"7{row:03}009", f"7{row:03}019", f"tok{row:03}029", f"{'ab'[row % 2]}"]


def lines_of(n_rows=N_ROWS):
    return [",".join(cells_of(row)) for row in range(n_rows)]


def refusal(path, content, *, groups=("g",), **settings):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidInput) as error:
        moments_of(path, groups, **settings)
    return str(error.value)


def moments_of(path, groups=("g",), **settings):
    return GroupMoments.from_rows(FileRows.open(path, groups, ["x", "y"], **settings), None)


def text(lines, header=HEADER):
    return "\n".join([header, *lines, ""])


def test_an_unclosed_quote_in_the_header(tmp_path):
    message = refusal(tmp_path / "rows.csv", text(lines_of(), '"' + HEADER))
    assert "quote in line 1 " in message


@pytest.mark.parametrize("column", [0, 1, 2, 3])
@pytest.mark.parametrize("row", [0, 17, N_ROWS - 1])
def test_an_unclosed_quote_is_named_by_its_line(tmp_path, column, row):
    lines = lines_of()
    cells = cells_of(row)
    cells[column] = '"' + cells[column]
    lines[row] = ",".join(cells)
    message = refusal(tmp_path / "rows.csv", text(lines))
    assert f"quote in line {row + 2} " in message
    assert not TOKEN.findall(message)


@pytest.mark.usefixtures("small_csv_blocks")
def test_an_unclosed_quote_in_a_column_that_is_not_read_loses_no_rows_silently(tmp_path):
    lines = lines_of(900)
    lines[-5] = lines[-5].replace("tok", '"tok')
    assert "quote in line 897" in refusal(tmp_path / "rows.csv", text(lines))


@pytest.mark.parametrize("first", [3, 20])
@pytest.mark.parametrize("column", [0, 1, 2, 3])
@pytest.mark.parametrize("n_rows", [N_ROWS, 900, pytest.param(60_000, marks=pytest.mark.slow)])
def test_two_unclosed_quotes_lose_no_rows_silently(request, tmp_path, column, first, n_rows):
    if n_rows < 60_000:  # more than a megabyte
        request.getfixturevalue("small_csv_blocks")
    lines = lines_of(n_rows)
    second = n_rows - 7
    for row in (first, second):
        cells = cells_of(row)
        cells[column] = '"' + cells[column]
        lines[row] = ",".join(cells)
    message = refusal(tmp_path / "rows.csv", text(lines))
    assert len(set(TOKEN.findall(message))) <= 1
    if column > 1:
        assert f"quote in line {first + 2} " in message
        assert f"in line {second + 2}" in message


def test_cells_of_several_lines_with_quotes_within_are_read(tmp_path):
    notes = ['"two\nlines"', '"a ""quoted"" word\n""twice"""', '"x\n\n"', '""', '"a,b\n,""c"",\nd"']
    lines = [f"{row},{row * row % 7},{notes[row % 5]},{'ab'[row % 2]}" for row in range(30)]
    (tmp_path / "rows.csv").write_text(text(lines))
    assert moments_of(tmp_path / "rows.csv").counts.sum() == 30


def test_quotes_that_open_no_cell_are_text(tmp_path):
    (tmp_path / "rows.csv").write_text(text([*lines_of(), '1,2,5" disk,a']))
    assert moments_of(tmp_path / "rows.csv").counts.sum() == N_ROWS + 1


def test_a_row_of_another_length_is_named_by_its_line(tmp_path):
    quoted = '1,2,"two\nlines",a'
    message = refusal(tmp_path / "rows.csv", text([quoted, "", *lines_of(), "1,2,3"]))
    assert f"a row with 3 cells in line {N_ROWS + 5}, but a header with 4" in message
    message = refusal(tmp_path / "rows.csv", text([*lines_of(), ',2,"a"']))
    assert f"a row with 3 cells in line {N_ROWS + 2}, but a header with 4" in message
    message = refusal(tmp_path / "rows.csv", text([*lines_of(), '1,2,3,"a\nb",5']))
    assert f"continues up to line {N_ROWS + 3}" in message


HEADERS = {
    "too short": ("x,y,g", "a header of 3 cells in line 1, and rows of 4", "Name each column"),
    "too long": ("x,y,z,note,g,h", "a header of 6 cells in line 1, and rows of 4", "Name each of"),
    "a title above": ("survey\n" + HEADER, "a header of 1 cell in line 1", "csv={'comment': ...}"),
}


@pytest.mark.parametrize(("header", "expected_text", "remedy"), HEADERS.values(), ids=HEADERS)
def test_a_wrong_header_is_what_has_to_be_corrected(tmp_path, header, expected_text, remedy):
    message = refusal(tmp_path / "rows.csv", text(lines_of(), header), groups=())
    assert expected_text in message
    assert remedy in message
    assert "Correct line" not in message


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_an_editor(tmp_path, encoding, end):
    content = end.join([HEADER, "", '1,2,"a ""b""' + end + '",a', "# no row", "1,2,3", ""])
    message = refusal(
        tmp_path / "rows.csv", content.encode(encoding), csv={"encoding": encoding, "comment": "#"}
    )
    assert "in line 6" in message


def corrupt(draw):
    """Replace bytes of a table, or insert others."""
    content = bytearray(text(lines_of()).encode())
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(content)))
        more = draw(
            st.sampled_from(
                [b'"', b",", b"\n", b"\0", b"\xff", b"\xe4", b'","', b"\r", b"q" * 5000]
            )
        )
        content[place : place + draw(st.integers(0, 1))] = more
    return bytes(content)


@pytest.mark.parametrize("door", ["python", "command line"])
@given(data=st.data())
@pytest.mark.slow
def test_no_message_shows_more_than_one_cell(tmp_path, door, data):
    path = tmp_path / "rows.csv"
    path.write_bytes(corrupt(data.draw))
    message = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a header that a line break has cut
        if door == "python":
            try:
                moments_of(path)
            except FairspanError as error:
                message = str(error)
        else:
            options = ["--group", "g", "--exclude", "note", "-o", f"{path}.moments"]
            output, errors = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
                status = cli.run(["moments", str(path), *options])
            message = errors.getvalue() if status else ""
    # A cut header may be followed by what was the first row.
    assert len(set(TOKEN.findall(message))) <= 1, message
    assert len(message) < 1500
