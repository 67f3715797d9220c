"""The archive format of models and moments: what is written is read back, and nothing else is."""

import zipfile

import numpy as np
import pytest

from fairspan.errors import CorruptFile, InvalidParameter
from fairspan.storage.archive import looks_like_archive, open_archive, write_archive
from fairspan.storage.fields import FileKind

ARRAYS = {
    "ints": np.arange(6, dtype=np.int64),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "empty": np.empty((0, 3)),
}
HEADER = {"names": ["a", "ß", "名"], "nothing": None, "deep": {"x": [1, 2.5, True]}}
THING = FileKind("thing", "a thing")
OTHER = FileKind("other", "another thing")


def read_thing(path):
    with open_archive(path, THING) as fields:
        return {
            "names": fields.read_texts("names"),
            "nothing": None if fields.is_null("nothing") else fields.read_text("nothing"),
            "deep": fields.read_mapping("deep"),
            "ints": fields.read_array("ints", "n", (None,)),
            "fortran": fields.read_array("fortran", "2 n", (2, None)),
            "empty": fields.read_array("empty", "n 3", (None, 3)),
        }


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "archive.fs"
    write_archive(path, "thing", HEADER, ARRAYS)
    return path


def contents(folder):
    return sorted(path.name for path in folder.iterdir())


def test_written_files_are_read_back(archive):
    record = read_thing(archive)
    assert record.keys() == HEADER.keys() | ARRAYS.keys()
    assert {name: record[name] for name in HEADER} == HEADER
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(record[name], array)
        assert record[name].dtype == array.dtype


@pytest.mark.parametrize("name", ["plain", "with.dots.moments", "ends.npz", "spa ce", ".hidden"])
@pytest.mark.parametrize("as_text", [False, True])
def test_the_file_has_exactly_the_requested_name(tmp_path, name, as_text):
    path = tmp_path / name
    write_archive(str(path) if as_text else path, "thing", {}, ARRAYS)
    assert contents(tmp_path) == [name]
    assert looks_like_archive(path)


def test_the_same_contents_give_the_same_bytes(tmp_path):
    write_archive(tmp_path / "one", "thing", HEADER, ARRAYS)
    reordered = dict(reversed(HEADER.items()))
    write_archive(tmp_path / "other", "thing", reordered, ARRAYS)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_arrays_of_objects_are_neither_written_nor_read(tmp_path):
    objects = np.array([{}, 1], dtype=object)
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_archive(tmp_path / "out", "thing", {}, {"objects": objects})
    assert contents(tmp_path) == []
    np.savez(tmp_path / "pickled.npz", header=objects)
    with pytest.raises(CorruptFile, match=r"header\.npy contains object"):
        read_thing(tmp_path / "pickled.npz")


def test_another_kind_or_version_is_refused(archive, tmp_path):
    with pytest.raises(CorruptFile, match=r"of kind 'fairspan\.thing'.*'fairspan\.other'"):
        open_archive(archive, OTHER).__enter__()
    for version, remedy in (
        (b"3", "version 3.*Update fairspan"),
        (b'"2"', "version '2'.*Update fairspan"),
        (b"1", "version 1.*Fit the model again; .* older versions"),
    ):
        header = b'{"format": "fairspan.thing", "version": ' + version + b', "arrays": []}'
        np.savez(tmp_path / "other.npz", header=np.frombuffer(header, dtype=np.uint8))
        with pytest.raises(CorruptFile, match=remedy):
            read_thing(tmp_path / "other.npz")


@pytest.mark.parametrize("header", [b"[]", b"{}", b"not json", b"\xff\xfe", b"", b"[" * 100_000])
def test_a_header_that_is_no_document_is_refused(tmp_path, header):
    np.savez(tmp_path / "file.npz", header=np.frombuffer(header, dtype=np.uint8))
    with pytest.raises(CorruptFile, match="cannot be read as a fairspan file"):
        read_thing(tmp_path / "file.npz")


def test_a_file_cut_anywhere_is_refused(archive, tmp_path):
    content = archive.read_bytes()
    part = tmp_path / "part"
    for length in [*range(0, len(content), 29), len(content) - 1]:
        part.write_bytes(content[:length])
        with pytest.raises(CorruptFile, match="truncated"):
            read_thing(part)


@pytest.mark.parametrize(
    ("step", "flips"),
    [(13, (0xFF,)), pytest.param(3, (0x01, 0x80, 0xFF), marks=pytest.mark.slow)],
)
def test_an_altered_byte_is_noticed_or_harmless(archive, tmp_path, step, flips):
    content = archive.read_bytes()
    altered_path = tmp_path / "altered"
    n_tried = n_noticed = 0
    for position in range(0, len(content), step):
        for flip in flips:
            n_tried += 1
            altered_content = bytearray(content)
            altered_content[position] ^= flip
            altered_path.write_bytes(altered_content)
            try:
                record = read_thing(altered_path)
            except CorruptFile:
                n_noticed += 1
                continue
            # Padding and dates inside the archive carry no information.
            assert {name: record[name] for name in HEADER} == HEADER
            for name, array in ARRAYS.items():
                np.testing.assert_array_equal(record[name], array)
    assert n_noticed > n_tried / 2


@pytest.mark.parametrize("start", [b"", b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY", b"PAR1"])
@pytest.mark.parametrize("length", [0, 1, 30, 5000])
def test_random_bytes_are_refused(tmp_path, start, length):
    path = tmp_path / "noise"
    path.write_bytes(start + np.random.default_rng(length).bytes(length))
    with pytest.raises(CorruptFile):
        read_thing(path)


def test_a_hidden_array_is_noticed(archive, tmp_path):
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(tmp_path / "less", "w") as target:
        for name in source.namelist():
            if name != "ints.npy":
                target.writestr(name, source.read(name))
    with pytest.raises(CorruptFile, match="header"):
        read_thing(tmp_path / "less")


def test_an_archive_of_other_things_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("header", "{}")
    with pytest.raises(CorruptFile):
        read_thing(tmp_path / "other.zip")
    assert not looks_like_archive(tmp_path / "other.zip")


def test_a_missing_file_is_missing_and_not_corrupt(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_thing(tmp_path / "none")


def test_is_archive_looks_at_the_first_bytes(tmp_path):
    for name, start in {"empty": b"", "short": b"PK", "text": b"a,b\n1,2\n"}.items():
        (tmp_path / name).write_bytes(start)
        assert not looks_like_archive(tmp_path / name)


def test_a_missing_folder_is_not_created(tmp_path):
    with pytest.raises(InvalidParameter, match="No such file or directory"):
        write_archive(tmp_path / "none" / "out", "thing", {}, ARRAYS)
    assert contents(tmp_path) == []
