"""A data folder's sets, faces, and what is fetched from OpenML, here from a server of our own."""

import gzip
import hashlib
import json
import re
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import real_data
from fairspan import datasets
from fairspan.datasets.dataset import balanced_rows
from fairspan.datasets.folder import names
from fairspan.datasets.loading import resized
from fairspan.errors import CorruptFile, InvalidInput, InvalidParameter


@pytest.fixture
def folder(tmp_path):
    """A set of four rows and six faces, with a manifest."""
    columns = {
        "height": [1.0, 2.0, 3.0, 4.0],
        "group__sex": ["f", "m", "f", "m"],
        "weight": [5, 6, 7, 8],
        "group__age": ["old", "old", "young", "young"],
        "label__sick": [0, 1, 1, 0],
        "drop__id": [1, 2, 3, 4],
        "meta__note": ["", "x", "", "y"],
    }
    parquet.write_table(pa.table(columns), tmp_path / "small.parquet")
    pixels = np.arange(6 * 4 * 3, dtype=np.uint8).reshape(6, 4, 3)
    np.savez(
        tmp_path / "lfw.npz",
        pixels=pixels,
        thirds=pixels % 3,
        male=np.array([1, 0, 1, 0, 1, 1], dtype=np.uint8),
    )
    manifest = {
        path.stem: {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in tmp_path.iterdir()
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


def test_columns_are_taken_by_the_prefix_of_their_names(folder):
    data = datasets.load("small", folder)
    assert data.feature_names == ("height", "weight")
    np.testing.assert_array_equal(data.X, [[1, 5], [2, 6], [3, 7], [4, 8]])
    assert data.sensitive_features.tolist() == ["f", "m", "f", "m"]
    assert data.labels.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("name", ["age", "group__age"])
def test_a_group_column_is_named_with_or_without_its_prefix(folder, name):
    data = datasets.load("small", folder, group=name)
    assert data.sensitive_features.tolist() == ["old", "old", "young", "young"]


def test_groups_are_crossed(folder):
    data = datasets.load("small", folder, group=["sex", "age"])
    assert data.sensitive_features.tolist()[1] == ["m", "old"]


def test_features_may_be_left_out(folder):
    data = datasets.load("small", folder).without("height")
    assert (data.feature_names, data.X.tolist()) == (("weight",), [[5], [6], [7], [8]])


def test_the_environment_names_the_folder(folder, monkeypatch):
    monkeypatch.setenv("FAIRSPAN_DATA", str(folder))
    assert names() == ["lfw", "small"]
    assert datasets.load("small").X.shape == (4, 2)
    monkeypatch.delenv("FAIRSPAN_DATA")
    with pytest.raises(InvalidParameter, match="FAIRSPAN_DATA"):
        datasets.load("small")


def test_without_a_manifest_there_is_no_checksum(folder):
    (folder / "manifest.json").unlink()
    assert datasets.load("small", folder).X.shape == (4, 2)
    assert datasets.load("lfw", folder).X.shape == (6, 12)


def test_unknown_sets_and_groups_list_what_there_is(folder):
    with pytest.raises(InvalidParameter, match="'lfw', 'small'"):
        datasets.load("large", folder)
    with pytest.raises(InvalidParameter, match="'sex', 'age'"):
        datasets.load("small", folder, group="race")


def test_a_missing_file_and_a_missing_folder_are_named(folder):
    (folder / "small.parquet").unlink()
    with pytest.raises(InvalidInput, match=r"small\.parquet is missing"):
        datasets.load("small", folder)
    with pytest.raises(InvalidInput, match="There is no folder"):
        datasets.load("small", folder / "nowhere")


@pytest.mark.parametrize("name", ["small.parquet", "lfw.npz"])
@pytest.mark.parametrize("spoil", [lambda b: b[:-20], lambda b: b[:40] + b"\xff" + b[41:]])
def test_spoilt_files_miss_their_checksum(folder, name, spoil):
    path = folder / name
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(CorruptFile, match="checksum"):
        datasets.load(path.stem, folder)


@pytest.mark.parametrize("name", ["small.parquet", "lfw.npz"])
def test_without_a_checksum_truncated_files_cannot_be_read(folder, name):
    (folder / "manifest.json").unlink()
    path = folder / name
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CorruptFile, match="cannot be read"):
        datasets.load(path.stem, folder)


@pytest.mark.parametrize("text", ["{", "[1]", '{"small": {"file": "small.parquet"}}'])
def test_a_spoilt_manifest_is_named(folder, text):
    (folder / "manifest.json").write_text(text)
    with pytest.raises(CorruptFile, match=r"manifest\.json cannot be read"):
        datasets.load("small", folder)


def test_faces_are_grey_values_between_zero_and_one(folder):
    faces = datasets.load("lfw", folder)
    assert faces.X.shape == (6, 12)
    assert faces.X[0, 5] == pytest.approx((5 + (5 % 3) / 3) / 255)
    assert faces.sensitive_features.tolist() == ["male", "female", "male", "female", "male", "male"]
    n_columns = 1 + max(int(name.partition("column")[2]) for name in faces.feature_names)
    assert len(set(faces.feature_names)) == 12
    assert faces.feature_names[n_columns + 1] == "row1_column1"


def test_a_balanced_sample_has_as_many_of_each_and_hangs_on_the_seed(folder):
    drawn = [datasets.load_faces(folder, n_per_gender=2, seed=seed) for seed in (0, 0, 1, 2, 3)]
    for each in drawn:
        assert sorted(each.sensitive_features) == ["female"] * 2 + ["male"] * 2
        assert len(np.unique(each.X, axis=0)) == 4
    np.testing.assert_array_equal(drawn[0].X, drawn[1].X)
    assert any((each.X != drawn[0].X).any() for each in drawn[2:])
    with pytest.raises(InvalidParameter, match="1 to 2"):
        datasets.load_faces(folder, n_per_gender=3)


@pytest.mark.parametrize("labels", [None, np.arange(6) * 10])
def test_a_balanced_sample_keeps_each_row_whole(labels):
    rows = np.arange(6.0)
    groups = np.array(["a", "b", "a", "b", "b", "b"])
    data = datasets.Dataset("made", "here", rows[:, None], groups, ("x",), labels)
    drawn = data.balanced(2, 0)
    chosen = drawn.X[:, 0].astype(int)
    assert len(set(chosen)) == 4
    np.testing.assert_array_equal(drawn.sensitive_features, groups[chosen])
    if labels is None:
        assert drawn.labels is None
    else:
        np.testing.assert_array_equal(drawn.labels, labels[chosen])


def test_resizing_averages_over_areas():
    rng = np.random.default_rng(3)
    images = rng.random((2, 49, 36))
    # Every pixel split into 24 x 24 equal parts, of which blocks of 49 x 36 are averaged.
    fine = images.repeat(24, axis=1).repeat(24, axis=2)
    expected = fine.reshape(2, 24, 49, 24, 36).mean(axis=(2, 4))
    np.testing.assert_allclose(resized(images, (24, 24)), expected, rtol=1e-12)
    np.testing.assert_allclose(resized(images, (49, 36)), images, rtol=1e-12)


def test_the_real_faces_and_credit_are_those_of_the_manifest():
    facts = json.loads(real_data.path_of("manifest.json").read_text())
    faces = datasets.load_faces(real_data.FOLDER, n_per_gender=2000, shape=(24, 24))
    assert faces.X.shape == (4000, 576)
    mean = datasets.load("lfw", real_data.FOLDER).X.mean()
    assert mean == pytest.approx(facts["lfw"]["pixel_mean_over_all_div255"], rel=1e-12)
    credit = datasets.load("default_credit", real_data.FOLDER, group="education3")
    assert credit.X.shape == (30000, 22)
    sizes = dict(zip(*np.unique(credit.sensitive_features, return_counts=True), strict=True))
    assert sizes == {"university_or_above": 24629, "high_school": 4917, "other": 454}
    stated = [each["mean"] for each in facts["default_credit"]["features"]]
    np.testing.assert_allclose(credit.X.mean(axis=0), stated, rtol=1e-12)


# ---------------------------------------------------------------------------------------------
# OpenML

CREDIT = "\n".join(
    [
        "% a comment",
        "@RELATION credit",
        *(f"@ATTRIBUTE x{i} {'{0,1,2,3}' if i in (2, 3) else 'INTEGER'}" for i in range(1, 24)),
        "@ATTRIBUTE y {0,1}",
        "@DATA",
        *(
            ",".join(map(str, [100 + row, 1 + row % 2, row % 4, *range(row, row + 20), row % 2]))
            for row in range(8)
        ),
        "",
    ]
)
ADULT = """@relation adult
@attribute age numeric
@attribute 'workclass' {Private, 'Self emp', State-gov}
@attribute fnlwgt numeric
@attribute race {White, Black}
@attribute sex {Female, Male}
@attribute class {'<=50K', '>50K'}
@data
39, State-gov, 77516, White, Male, '<=50K'
50, 'Self emp', 83311, Black, Male, '>50K'
38, ?, 215646, White, Female, '<=50K'
"""
COMPAS = """@relation compas
@attribute sex {0,1}
@attribute age numeric
@attribute race_African-American {0,1}
@attribute race_Caucasian {0,1}
@attribute twoyearrecid {0,1}
@data
0,30,1,0,1
1,40,0,1,0
1,50,0,0,0
"""


class Server:
    """OpenML for three sets; what it answers can be spoilt."""

    def __init__(self):
        self.files = {42477: CREDIT, 1590: ADULT, 42192: COMPAS}
        self.md5 = {n: hashlib.md5(text.encode()).hexdigest() for n, text in self.files.items()}
        self.missing = self.n_short = 0
        self.page = b""
        self.asked = []
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                served.asked.append(self.path)
                number = int(self.path.rsplit("/", 1)[1])
                body = served.files[number].encode()
                if "/api/" in self.path:
                    body = served.page or json.dumps(served.facts(self.path, number)).encode()
                elif served.n_short:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body[: -served.n_short])
                    return
                self.send_response(404 if number == served.missing else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def facts(self, path, number):
        """What OpenML says of a set, of its columns and of its size."""
        text = self.files[number]
        if "/features/" in path:
            columns = re.findall(r"(?i)@attribute (?:'([^']*)'|(\S+)) (.*)", text)
            kept = {"is_ignore": "false", "is_row_identifier": "false", "is_target": "false"}
            return {
                "data_features": {
                    "feature": [
                        {
                            "index": str(index),
                            "name": quoted or name,
                            "data_type": "nominal" if "{" in kind else "numeric",
                            **kept,
                        }
                        for index, (quoted, name, kind) in enumerate(columns)
                    ]
                }
            }
        if "/qualities/" in path:
            return {"data_qualities": {}}
        return {
            "data_set_description": {
                "id": str(number),
                "status": "active",
                "format": "ARFF",
                "description": "",
                "url": f"https://openml.test/data/{number}",
                "file_id": str(number),  # what older versions of scikit-learn ask for
                "md5_checksum": self.md5[number],
            }
        }

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def server(monkeypatch):
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    running = Server()
    running.address = running.url

    def ask_here(request, *arguments, **options):
        path = request.full_url.split("/", 3)[3]
        there = urllib.request.Request(f"{running.address}/{path}", headers=request.headers)
        return urllib.request.urlopen(there, *arguments, **options)

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", ask_here)
    # scikit-learn waits a second before it asks again.
    monkeypatch.setattr(time, "sleep", lambda _: None)
    yield running
    running.close()


@pytest.fixture
def places(server, tmp_path):
    return {"cache": tmp_path / "cache"}


def kept(places):
    return sorted(path.name for path in places["cache"].rglob("*") if path.is_file())


def test_credit_comes_with_the_names_of_its_columns(places):
    credit = datasets.fetch_default_credit(**places)
    assert credit.feature_names[:4] == ("LIMIT_BAL", "SEX", "MARRIAGE", "AGE")
    assert credit.feature_names[-1] == "PAY_AMT6"
    assert credit.X.shape == (8, 22)
    assert credit.X[3].tolist() == [103, 2, *range(3, 23)]
    assert credit.sensitive_features.tolist() == ["lower", "higher", "higher", "lower"] * 2
    assert credit.labels.tolist() == [0, 1] * 4


def test_adult_has_one_feature_for_each_text_and_none_for_a_missing_one(places):
    adult = datasets.fetch_adult(**places)
    assert adult.sensitive_features.tolist() == ["Male", "Male", "Female"]
    table = dict(zip(adult.feature_names, adult.X.T.tolist(), strict=True))
    assert table["age"] == [39, 50, 38]
    assert table["workclass=Self emp"] == [0, 1, 0]
    assert table["workclass=State-gov"] == [1, 0, 0]
    assert table["race=White"] == [1, 0, 1]
    assert not {"fnlwgt", "class", "sex"} & {name.split("=")[0] for name in table}
    assert adult.labels.tolist() == ["<=50K", ">50K", "<=50K"]


def test_compas_groups_are_read_from_a_block_of_columns(places):
    compas = datasets.fetch_compas(**places)
    assert compas.sensitive_features.tolist() == ["African-American", "Caucasian", "other"]
    assert (compas.feature_names, compas.X[0].tolist()) == (("sex", "age"), [0, 30])
    assert datasets.fetch_compas("sex", **places).sensitive_features[0] == "sex 0"


def test_a_second_fetch_asks_nobody(server, places):
    first = datasets.fetch_default_credit(**places)
    asked = len(server.asked)
    again = datasets.fetch_default_credit("sex", **places)
    assert len(server.asked) == asked
    np.testing.assert_array_equal(first.X[:, 0], again.X[:, 0])
    assert again.sensitive_features.tolist() == ["male", "female"] * 4


def table_in(cache):
    (path,) = (each for each in cache.rglob("1590.gz") if "api" not in each.parts)
    return path


def test_an_altered_file_in_the_cache_is_fetched_again(server, places):
    datasets.fetch_adult(**places)
    path = table_in(places["cache"])
    path.write_bytes(gzip.compress(ADULT.replace("39,", "93,").encode()))
    asked = len(server.asked)
    assert datasets.fetch_adult(**places).X[0, 0] == 39
    assert len(server.asked) == asked + 1


def test_the_environment_names_the_cache(server, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRSPAN_CACHE", str(tmp_path / "mine"))
    datasets.fetch_adult()
    assert gzip.decompress(table_in(tmp_path / "mine").read_bytes()).decode() == ADULT


def test_a_wrong_checksum_is_refused_and_nothing_kept(server, places):
    server.md5[42477] = "0" * 32
    with pytest.raises(CorruptFile, match="md5 checksum"):
        datasets.fetch_default_credit(**places)
    assert kept(places) == []


def test_a_file_that_ends_early_is_refused_and_nothing_kept(server, places):
    server.n_short = 10
    with pytest.raises(CorruptFile, match="md5 checksum"):
        datasets.fetch_default_credit(**places)
    assert kept(places) == []


def test_a_set_that_is_gone_is_named(server, places):
    server.missing = 42192
    with pytest.raises(InvalidInput, match="42192 answers 404"):
        datasets.fetch_compas(**places)
    assert kept(places) == []


def test_without_a_network_the_message_says_what_else_can_be_done(server, places):
    server.address = "http://127.0.0.1:9"  # the port that discards
    with pytest.raises(InvalidInput, match=r"cannot be reached .*refused.* fairspan.datasets.load"):
        datasets.fetch_adult(**places)
    assert kept(places) == []


@pytest.mark.parametrize(
    "page", [b"<html>", b"[]", b'{"data_set_description": {"url": "file:///etc/hostname"}}']
)
def test_a_page_that_is_no_description_is_named(server, places, page):
    server.page = page
    with pytest.raises(CorruptFile, match="What came as OpenML 1590 cannot be used"):
        datasets.fetch_adult(**places)
    assert kept(places) == []


def test_other_columns_than_expected_are_listed(server, places):
    server.files[1590] = ADULT.replace("sex", "gender")
    server.md5[1590] = hashlib.md5(server.files[1590].encode()).hexdigest()
    with pytest.raises(InvalidInput, match=r"'gender'.*Expected is a column 'sex'"):
        datasets.fetch_adult(**places)


def test_another_group_is_refused(places):
    with pytest.raises(InvalidParameter, match="'education', 'sex'"):
        datasets.fetch_default_credit("age", **places)


@pytest.mark.parametrize(
    "text",
    [
        "@attribute a real\n1",
        "@data\n1",
        "@relation r\n@attribute a real\n@data\n",
        "@relation r\n@attribute a real\n@data\n1,2",
        "@relation r\n@attribute a real\n@data\n1\nx",
    ],
)
def test_what_is_no_table_is_refused_and_nothing_kept(server, places, text):
    server.files[1590] = text
    server.md5[1590] = hashlib.md5(text.encode()).hexdigest()
    with pytest.raises(CorruptFile, match="OpenML 1590 cannot be used"):
        datasets.fetch_adult(**places)
    assert kept(places) == []


def test_one_row_of_each_group_can_be_drawn():
    groups = np.array(["a", "b", "b", "a", "c"])
    drawn = balanced_rows(groups, 1, seed=0)
    assert sorted(groups[drawn]) == ["a", "b", "c"]
    for n in (0, 2):
        with pytest.raises(InvalidParameter, match=f"{n} rows of each group"):
            balanced_rows(groups, n, seed=0)
