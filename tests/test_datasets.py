"""Sets that are fetched from OpenML, here from a server of our own."""

import gzip
import hashlib
import json
import re
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import resources
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from fairspan import datasets
from fairspan.errors import CorruptFile, InvalidInput, InvalidParameter
from real_data import data_path
from release.adult import NAMES, SHIPPED, arrays_of, write

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
    """A stand-in for OpenML with three data sets, whose answers can be replaced."""

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

    def replace_answers(self, text=None, checksum=None, **answers):
        """Replace the table of adult, or other answers."""
        self.files[1590] = text or ADULT
        self.md5[1590] = checksum or hashlib.md5(self.files[1590].encode()).hexdigest()
        vars(self).update(answers)

    def facts(self, path, number):
        """Return OpenML's answer about a data set, its columns or its size."""
        text = self.files[number]
        if "/features/" in path:
            columns = re.findall(r"(?i)@attribute (?:'([^']*)'|(\S+)) (.*)", text)
            flags = {"is_ignore": "false", "is_row_identifier": "false", "is_target": "false"}
            return {
                "data_features": {
                    "feature": [
                        {
                            "index": str(index),
                            "name": quoted or name,
                            "data_type": "nominal" if "{" in kind else "numeric",
                            **flags,
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

    def open_local_url(request, *arguments, **options):
        path = request.full_url.split("/", 3)[3]
        local_request = urllib.request.Request(f"{running.address}/{path}", headers=request.headers)
        return urllib.request.urlopen(local_request, *arguments, **options)

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", open_local_url)
    # scikit-learn waits a second before it asks again.
    monkeypatch.setattr(time, "sleep", lambda _: None)
    yield running
    running.close()


@pytest.fixture
def cache_options(server, tmp_path):
    return {"cache_dir": tmp_path / "cache"}


def cached_files(cache_options):
    return sorted(path.name for path in cache_options["cache_dir"].rglob("*") if path.is_file())


def test_credit_comes_with_the_names_of_its_columns(cache_options):
    credit = datasets.fetch_default_credit(**cache_options)
    assert credit.feature_names[:4] == ("LIMIT_BAL", "SEX", "MARRIAGE", "AGE")
    assert credit.feature_names[-1] == "PAY_AMT6"
    assert credit.X.shape == (8, 22)
    assert credit.X[3].tolist() == [103, 2, *range(3, 23)]
    assert credit.sensitive_features.tolist() == ["lower", "higher", "higher", "lower"] * 2
    assert credit.y.tolist() == [0, 1] * 4


def test_adult_has_one_feature_for_each_text_and_none_for_a_missing_one(cache_options):
    adult = datasets.fetch_adult(**cache_options)
    assert adult.sensitive_features.tolist() == ["Male", "Male", "Female"]
    table = dict(zip(adult.feature_names, adult.X.T.tolist(), strict=True))
    assert (table["age"], table["workclass=Self emp"]) == ([39, 50, 38], [0, 1, 0])
    assert (table["workclass=State-gov"], table["race=White"]) == ([1, 0, 0], [1, 0, 1])
    assert not {"fnlwgt", "class", "sex"} & {name.split("=")[0] for name in table}
    assert adult.y.tolist() == ["<=50K", ">50K", "<=50K"]


def adult_with_training_rows(*, first, altered=False):
    """A table like OpenML's: the shipped training rows, and two others before or after them."""
    shipped = datasets.load_adult()
    ages = shipped.X[:, 0].astype(int)
    ages[5] += altered
    rows = [f"{age},Private,1,White,{sex},'<=50K'" for age, sex in zip(ages, ages % 2, strict=True)]
    rows = [row.replace(",0,", ",Female,").replace(",1,'", ",Male,'") for row in rows]
    others = ["25,Private,7,Black,Male,'>50K'", "26,Private,8,Black,Female,'>50K'"]
    head = ADULT[: ADULT.index("39, State-gov")]
    return head + "\n".join(rows + others if first else others + rows) + "\n"


@pytest.mark.parametrize(
    "first",
    [pytest.param(True, marks=pytest.mark.slow), pytest.param(False, marks=pytest.mark.long)],
)
def test_the_parts_of_adult_are_the_training_rows_and_the_others(server, cache_options, first):
    server.replace_answers(text=adult_with_training_rows(first=first))
    train = datasets.fetch_adult(subset="train", **cache_options)
    np.testing.assert_array_equal(train.X[:, 0], datasets.load_adult().X[:, 0])
    test = datasets.fetch_adult("race", subset="test", **cache_options)
    assert test.X[:, 0].tolist() == [25, 26]
    assert test.y.tolist() == [">50K"] * 2
    assert len(datasets.fetch_adult(**cache_options).X) == 32_563


@pytest.mark.parametrize("first", [True, False])
def test_the_training_rows_are_found_by_their_ages(server, cache_options, first, monkeypatch):
    ages = [39.0, 50.0, 38.0]
    monkeypatch.setattr(datasets, "load_adult", lambda: SimpleNamespace(X=np.array([ages]).T))
    other = "25, Private, 7, Black, Male, '>50K'\n"
    head, rows = ADULT.split("@data\n")
    server.replace_answers(text=f"{head}@data\n" + (rows + other if first else other + rows))
    assert datasets.fetch_adult(subset="train", **cache_options).X[:, 0].tolist() == ages
    test = datasets.fetch_adult("race", subset="test", **cache_options)
    assert test.X[:, 0].tolist() == [25]
    assert test.y.tolist() == [">50K"]


def test_parts_that_cannot_be_found_are_refused(cache_options):
    # Of the three rows that the server has, none are those that ship with the library.
    with pytest.raises(InvalidInput, match=r"1590.*training rows.*load_adult"):
        datasets.fetch_adult(subset="train", **cache_options)
    with pytest.raises(InvalidParameter, match="subset is 'half'"):
        datasets.fetch_adult(subset="half", **cache_options)


@pytest.mark.slow
def test_a_table_with_one_other_training_row_has_no_parts(server, cache_options):
    server.replace_answers(text=adult_with_training_rows(first=True, altered=True))
    with pytest.raises(InvalidInput, match=r"1590.*training rows.*load_adult"):
        datasets.fetch_adult(subset="train", **cache_options)


@pytest.mark.slow
def test_adult_by_sex_has_no_rare_value_and_none_that_tells_the_sex():
    people = datasets.load_adult_by_sex()
    full = datasets.load_adult("sex")
    columns = dict(zip(people.feature_names, people.X.T, strict=True))
    of_all = dict(zip(full.feature_names, full.X.T, strict=True))
    spouses = of_all["relationship=Husband"] + of_all["relationship=Wife"]
    np.testing.assert_array_equal(columns["relationship=Spouse"], spouses)
    rare = {"workclass=Never-worked", "workclass=Without-pay", "occupation=Armed-Forces"}
    rare |= {"marital-status=Married-AF-spouse", "relationship=Husband", "relationship=Wife"}
    gone = set(of_all) - set(columns)
    assert {name for name in gone if not name.startswith(("education", "native"))} == rare
    np.testing.assert_array_equal(people.sensitive_features, full.sensitive_features)
    is_woman = people.sensitive_features == "Female"
    assert max(abs(np.corrcoef(values, is_woman)[0, 1]) for values in people.X.T) < 0.45


def test_adult_by_race_has_seven_features_of_the_whole_table():
    people = datasets.load_adult_by_race()
    full = datasets.load_adult("race")
    columns = dict(zip(full.feature_names, full.X.T, strict=True))
    for name, values in zip(people.feature_names, people.X.T, strict=True):
        np.testing.assert_array_equal(values, columns[name])
    is_black = full.sensitive_features == "Black"
    np.testing.assert_array_equal(people.sensitive_features == "Black", is_black)
    assert set(people.sensitive_features[~is_black]) == {"other"}
    assert (people.X.shape, is_black.sum()) == ((32_561, 7), 3_124)


def test_the_published_bias_of_adult_needs_no_network():
    people = datasets.load_adult("sex")
    bias = fs.metrics.label_bias(people.y, people.sensitive_features, "Female", ">50K")
    assert round(bias, 4) == 0.1963


def test_compas_groups_are_read_from_a_block_of_columns(cache_options):
    compas = datasets.fetch_compas(**cache_options)
    assert compas.sensitive_features.tolist() == ["African-American", "Caucasian", "other"]
    assert (compas.feature_names, compas.X[0].tolist()) == (("sex", "age"), [0, 30])
    assert datasets.fetch_compas("sex", **cache_options).sensitive_features[0] == "sex 0"


def test_a_second_fetch_uses_the_cache(server, cache_options):
    first = datasets.fetch_default_credit(**cache_options)
    n_requests = len(server.asked)
    again = datasets.fetch_default_credit("sex", **cache_options)
    assert len(server.asked) == n_requests
    np.testing.assert_array_equal(first.X[:, 0], again.X[:, 0])
    assert again.sensitive_features.tolist() == ["male", "female"] * 4


def table_in(cache):
    (path,) = (file for file in cache.rglob("1590.gz") if "api" not in file.parts)
    return path


def test_an_altered_file_in_the_cache_is_fetched_again(server, cache_options):
    datasets.fetch_adult(**cache_options)
    path = table_in(cache_options["cache_dir"])
    path.write_bytes(gzip.compress(ADULT.replace("39,", "93,").encode()))
    n_requests = len(server.asked)
    assert datasets.fetch_adult(**cache_options).X[0, 0] == 39
    assert len(server.asked) == n_requests + 1


def test_the_environment_names_the_cache(server, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRSPAN_CACHE", str(tmp_path / "mine"))
    datasets.fetch_adult()
    assert gzip.decompress(table_in(tmp_path / "mine").read_bytes()).decode() == ADULT


SPOILT = {
    # A wrong checksum; a file that ends early; a set that is gone; the port that discards.
    "checksum": ({"checksum": "0" * 32}, CorruptFile, "md5 checksum"),
    "short": ({"n_short": 10}, CorruptFile, "md5 checksum"),
    "gone": ({"missing": 1590}, InvalidInput, "1590 answers 404"),
    "no network": (
        {"address": "http://127.0.0.1:9"},
        InvalidInput,
        r"is unreachable .*refused.* FAIRSPAN_CACHE",
    ),
    **{
        page.decode(): ({"page": page}, CorruptFile, "download of OpenML 1590 is unusable")
        for page in (b"<html>", b"[]", b'{"data_set_description": {"url": "file:///etc/hostname"}}')
    },
    **{
        text: ({"text": text}, CorruptFile, "OpenML 1590 is unusable")
        for text in (
            "@attribute a real\n1",
            "@data\n1",
            "@relation r\n@attribute a real\n@data\n",
            "@relation r\n@attribute a real\n@data\n1,2",
            "@relation r\n@attribute a real\n@data\n1\nx",
        )
    },
}


@pytest.mark.parametrize("case", SPOILT)
def test_unusable_answers_are_named_and_not_cached(server, cache_options, case):
    answers, kind, message = SPOILT[case]
    server.replace_answers(**answers)
    with pytest.raises(kind, match=message):
        datasets.fetch_adult(**cache_options)
    assert cached_files(cache_options) == []


def test_other_columns_than_expected_are_listed(server, cache_options):
    server.replace_answers(text=ADULT.replace("sex", "gender"))
    with pytest.raises(InvalidInput, match=r"'gender'.*Expected: a column 'sex'"):
        datasets.fetch_adult(**cache_options)


def test_another_group_is_refused(cache_options):
    with pytest.raises(InvalidParameter, match="'education', 'sex'"):
        datasets.fetch_default_credit("age", **cache_options)


@pytest.mark.slow
def test_adult_ships_with_its_attribution_and_gives_the_printed_differences():
    data = datasets.load_adult()
    assert (data.X.shape, len(data.y)) == ((32561, 99), 32561)
    table = dict(zip(data.feature_names, data.X.T, strict=True))
    assert not [name for name in table if name.startswith(("race", "fnlwgt", "class"))]
    rich = np.where(data.y == ">50K", 1, 0)
    sex = datasets.load_adult("sex").sensitive_features
    # Kun (2015) prints what a group without the attribute has more of high incomes.
    for has, published in (
        (sex == "Female", 0.1963),
        (table["workclass=Private"], 0.0731),
        (data.sensitive_features == "Asian-Pac-Islander", -0.0256),
        (table["marital-status=Divorced"], 0.1582),
    ):
        groups = np.where(has, "with", "without")
        bias = fs.metrics.label_bias(rich, groups, "with")
        assert bias == pytest.approx(published, abs=5e-5)
    path = resources.files("fairspan").joinpath("adult.npz")
    with path.open("rb") as file, np.load(file) as archive:
        assert "CC BY 4.0" in str(archive["attribution"])


@pytest.mark.slow
def test_shipped_adult_is_the_training_file():
    data = datasets.load_adult("sex")
    frame = pd.read_parquet(data_path("adult_train.parquet"))
    table = dict(zip(data.feature_names, data.X.T, strict=True))
    column_names = {
        "age": "age",
        "hours-per-week": "hours_per_week",
        "capital-gain": "capital_gain",
    }
    column_names |= {name: name for name in ("occupation=Sales", "race=Black")}
    for ours, theirs in column_names.items():
        np.testing.assert_array_equal(table[ours], frame[theirs])
    np.testing.assert_array_equal(data.sensitive_features, frame["meta__sex"])
    np.testing.assert_array_equal(data.y == ">50K", frame["label__income_gt_50k"] == 1)


@pytest.mark.slow
def test_the_shipped_file_is_made_from_the_lines_of_the_source(tmp_path):
    frame = pd.read_parquet(data_path("adult_train.parquet"))
    message = frame["label__income_gt_50k"].map({1: ">50K", -1: "<=50K"})
    columns = [
        message if name == "class" else frame[_column_of(name, frame.columns)] for name in NAMES
    ]
    text = pd.concat(columns, axis=1).to_csv(index=False, header=False)
    write(arrays_of(text.replace(",", ", ")), tmp_path / "adult.npz")
    with np.load(tmp_path / "adult.npz") as archive, np.load(SHIPPED) as shipped:
        assert sorted(archive) == sorted(shipped)
        for name in archive:
            np.testing.assert_array_equal(archive[name], shipped[name])
            assert archive[name].dtype == shipped[name].dtype


def _column_of(name, columns):
    plain = name.replace("-", "_")
    return f"meta__{plain}" if f"meta__{plain}" in columns else plain
