"""Corrupt and forged files are refused, or read to finite moments."""

import io
import json
import tracemalloc
import zipfile
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import fairspan as fs
from case_selection import parametrize_diagonal
from corruption import accept_or_refuse, corrupted_archive, corrupted_bytes
from fairspan import GroupMoments, cli
from fairspan.errors import CorruptFile
from fairspan.storage.archive import write_archive
from numpy_reference import random_rows

MOMENTS = {
    "groups": ["a", "b"],
    "feature_names": ["x", "y", "z"],
    "n_dropped": 0,
}
# The lower triangle of the identity.
EYE = [1.0, 0.0, 1.0, 0.0, 0.0, 1.0]
ARRAYS = {
    "counts": np.array([2, 3]),
    "weights": np.array([2.0, 3.0]),
    "means": np.zeros((2, 3)),
    "triangles": np.array([EYE, EYE]),
}


def assert_refused(path, load=fs.GroupMoments.load):
    with pytest.raises(CorruptFile) as error:
        load(path)
    return str(error.value)


HEADERS = {
    "names are numbers": ("feature_names", [1, 2, 3], "feature_names[0] is 1"),
    "names twice": ("feature_names", ["x", "x", "y"], "a list of unique entries"),
    "names of names": ("feature_names", ["x", ["y"], "z"], "feature_names[1]"),
    "too few names": ("feature_names", ["x", "y"], "means has 3 entries along p"),
    "no groups": ("groups", [], "has 2 entries along k"),
    "groups are no list": ("groups", 3, "groups is 3"),
    "too many groups": ("groups", ["a", "b", "c"], "has 2 entries along k"),
    "names are text": ("feature_names", "xyz", "feature_names is 'xyz'"),
    "a label of nothing": ("groups", ["a", None], "groups[1] is None"),
    "a nested label": ("groups", [["a", ["b"]], ["a", "c"]], "groups[0] is ['a', ['b']]"),
    "an empty label": ("groups", [[], ["a"]], "groups[0] is []"),
    "a mapping as label": ("groups", [{}, "a"], "groups[0] is {}"),
    "labels of two kinds": ("groups", [1, 2.0], "labels of one type"),
    "labels of two lengths": ("groups", [["a"], ["a", "b"]], "labels of one type"),
    "truth and number": ("groups", [0, True], "labels of one type"),
    "a label twice": ("groups", ["a", "a"], "unique labels"),
    "labels in disorder": ("groups", ["b", "a"], "sorted labels"),
    "dropped: half a row": ("n_dropped", 0.5, "n_dropped is 0.5"),
    "dropped: less than none": ("n_dropped", -1, "n_dropped is -1"),
    "dropped: true": ("n_dropped", True, "n_dropped is True"),
    "dropped: a list": ("n_dropped", [3], "n_dropped is [3]"),
    "dropped: too many": ("n_dropped", 2**63, "n_dropped is 9223372036854775808"),
    "two columns of labels": ("n_label_columns", 2, "n_label_columns is 2"),
    "labels are there: true": ("n_label_columns", True, "n_label_columns is True"),
    "groups without their class": ("n_label_columns", 1, "groups[0] has no class of y"),
    "another entry": ("surprise", 1, "surprise is unknown"),
    "version true": ("version", True, "version True"),
    "version one point": ("version", 1.0, "version 1.0"),
    "version text": ("version", "1", "version '1'"),
    "kind is a list": ("format", ["fairspan.moments"], "of kind ['fairspan.moments']"),
}
NUMBERS = {
    "counts of NaN": ("counts", np.array([np.nan, 1.0]), "counts contains float64"),
    "counts of real numbers": ("counts", np.array([1.0, 2.0]), "counts contains float64"),
    "counts of text": ("counts", np.array(["1", "2"]), "counts contains <U1"),
    "counts of truth": ("counts", np.array([True, True]), "counts contains bool"),
    "negative counts": ("counts", np.array([-1, 5]), "counts ranges from -1"),
    "huge counts": ("counts", np.array([2**63 - 1, 1]), "9223372036854775807"),
    "counts of a large sum": (
        "counts",
        np.array([2**53, 2**53]),
        "no more than",
    ),
    "complex weights": ("weights", np.array([1 + 1j, 2]), "weights contains complex128"),
    "infinite weights": ("weights", np.array([1.0, np.inf]), "weights ranges"),
    "weights of zero": ("weights", np.array([0.0, 1.0]), "weights ranges from 0.0"),
    "long double weights": ("weights", np.ones(2, np.longdouble), "weights contains float128"),
    "complex means": ("means", np.zeros((2, 3), complex), "means contains complex128"),
    "dates": ("means", np.zeros((2, 3), "M8[s]"), "means contains datetime64"),
    "records": ("weights", np.zeros(2, [("a", "f8")]), "weights contains"),
    "means of no feature": ("means", np.zeros((2, 0)), "means has 0 entries along p"),
    "counts too long": ("counts", np.array([1, 1, 1]), "counts has"),
    "means of one dimension": ("means", np.zeros(3), "means has"),
    "means of text": ("means", np.full((2, 3), "x"), "means contains <U1"),
    "triangles too short": ("triangles", np.zeros((2, 5)), "triangles has"),
    "triangles of fewer groups": ("triangles", np.zeros((1, 6)), "triangles has"),
    "huge means": ("means", np.full((2, 3), 1e300), "of about 1e+300"),
    "NaN in a scatter": ("triangles", np.full((2, 6), np.nan), "triangles ranges from nan"),
    "negative variance": ("triangles", np.array([EYE, [-1.0, 0, 1, 0, 0, 1]]), "'b' has a neg"),
    "indefinite": ("triangles", np.array([[1.0, 2, 1, 0, 0, 1], EYE]), "'a' has a negative"),
    "indefinite in three": (
        "triangles",
        np.array([EYE, [1.0, -0.9, 1, -0.9, -0.9, 1]]),
        "The matrix of group 'b' has a negative eigenvalue",
    ),
    "covariance without variance": (
        "triangles",
        np.array([EYE, [0.0, 1e-3, 1, 0, 0, 1]]),
        "The matrix of group 'b' has a negative eigenvalue",
    ),
    "another array": ("surprise", np.zeros(2), "surprise is unknown"),
}


def test_the_archive_without_changes_is_loaded(tmp_path):
    write_archive(tmp_path / "out", "moments", MOMENTS, ARRAYS)
    assert fs.GroupMoments.load(tmp_path / "out").labels == ["a", "b"]


@pytest.mark.parametrize("case", HEADERS)
def test_invalid_headers_are_refused(tmp_path, case):
    name, value, text = HEADERS[case]
    write_archive(tmp_path / "out", "moments", MOMENTS | {name: value}, ARRAYS)
    message = assert_refused(tmp_path / "out")
    assert text in message
    contents = (tmp_path / "out").read_bytes()
    assert text in assert_refused(contents, fs.GroupMoments.from_bytes)


@pytest.mark.parametrize("case", NUMBERS)
def test_invalid_arrays_are_refused(tmp_path, case):
    name, value, message = NUMBERS[case]
    write_archive(tmp_path / "out", "moments", MOMENTS, ARRAYS | {name: value})
    assert message in assert_refused(tmp_path / "out")


def test_a_missing_array_is_refused(tmp_path):
    arrays = {name: array for name, array in ARRAYS.items() if name != "weights"}
    write_archive(tmp_path / "out", "moments", MOMENTS, arrays)
    assert "weights is missing" in assert_refused(tmp_path / "out")


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def npy_header(dtype, shape):
    """Return the header of an array file, without numbers."""
    file = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def write_members(path, members, compression=zipfile.ZIP_STORED):
    """Write members without checks, after a header that lists them."""
    names = sorted({name.removesuffix(".npy") for name, _ in members})
    header = {"format": "fairspan.moments", "version": 2, "arrays": names, **MOMENTS}
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("header.npy", npy(text))
        for name, content in members:
            archive.writestr(name, content)


def usual_members(**changes):
    return [(f"{name}.npy", npy(array)) for name, array in (ARRAYS | changes).items()]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["weights.npy", "header.npy"])
def test_a_duplicated_member_is_refused(tmp_path, name):
    write_members(tmp_path / "out", [*usual_members(), (name, npy(np.ones(2)))])
    assert f"{name} is duplicated" in assert_refused(tmp_path / "out")


def assert_refused_in_little_memory(path):
    tracemalloc.start()
    try:
        message = assert_refused(path)
        assert tracemalloc.get_traced_memory()[1] < 2e6
    finally:
        tracemalloc.stop()
    return message


def test_a_small_file_does_not_unpack_to_a_large_one(tmp_path):
    large = np.zeros((2, 500_000))
    write_members(tmp_path / "out", usual_members(triangles=large), zipfile.ZIP_DEFLATED)
    assert (tmp_path / "out").stat().st_size < 1e5
    message = assert_refused_in_little_memory(tmp_path / "out")
    assert "bytes in a file of" in message


def test_a_compressed_member_is_none_of_ours(tmp_path):
    write_members(tmp_path / "out", usual_members(), zipfile.ZIP_DEFLATED)
    assert "is compressed or encrypted" in assert_refused(tmp_path / "out")


@pytest.mark.parametrize("shape", [(2, 10**12), (2**62, 6), (10**6, 10**6, 10**6), (-2, -6)])
def test_a_shape_larger_than_the_file_is_not_allocated(tmp_path, shape):
    members = [member for member in usual_members() if member[0] != "triangles.npy"]
    write_members(tmp_path / "out", [*members, ("triangles.npy", npy_header("<f8", shape))])
    message = assert_refused_in_little_memory(tmp_path / "out")
    assert "triangles" in message


def test_overlapping_members_are_refused(tmp_path):
    path = tmp_path / "out"
    write_members(path, usual_members(means=np.zeros((2, 3)), triangles=np.zeros((2, 6))))
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("triangles.npy").file_size
    content = bytearray(path.read_bytes())
    place = content.rindex(b"triangles.npy") - 46  # in the table of contents
    content[place + 20 : place + 28] = 2 * (size + 10**8).to_bytes(4, "little")
    path.write_bytes(content)
    assert "bytes in a file of" in assert_refused(path)


def test_a_name_twice_in_the_header_and_numbers_that_are_none(tmp_path):
    for text in ('{"version": 2, "version": 2}', '{"version": NaN}', '{"a": ' * 100_000):
        with zipfile.ZipFile(tmp_path / "out", "w") as archive:
            archive.writestr("header.npy", npy(np.frombuffer(text.encode(), np.uint8)))
        assert "cannot be read as a fairspan file" in assert_refused(tmp_path / "out")


STEP = {
    "n_components": 2,
    "status": "optimal",
    "errors": [1.0, 2.0],
    "losses": [0.0, 0.0],
    "objective": 1.0,
    "lower_bound": 1.0,
    "scale": 1.0,
    "absolute_tol": 1e-9,
    "resolution": 1e-14,
    "constraint_violation": 0.0,
    "theorem_3_2_holds": None,
    "total_variance": 3.0,
    "unresolved_reason": None,
    "solver": "boundary",
    "n_eigenproblems": 3,
    "trace": [{"n_eigenproblems": 1, "lower_bound": 0.5, "upper_bound": 1.0}],
    "eigensolver": "dense",
}
CERTIFICATE = STEP | {
    "criterion": {"name": "minimax_loss", "settings": {}},
    "restriction": None,
    "center": "global",
    "tol": 1e-9,
    "groups": ["a", "b"],
    "counts": [2, 3],
    "steps": [],
    "prefixes": [],
    "version": "0.1",
}
SUBSPACE = {"center": "global", "feature_names": None, "proof": None}
CLAIMS = {
    "criterion is a number": ("criterion", 3),
    "solver is nothing": ("solver", None),
    "status is a list": ("status", ["optimal"]),
    "groups are text": ("groups", "ab"),
    "a group of nothing": ("groups", ["a", None]),
    "a nested group": ("groups", [["a"], [["b"]]]),
    "three groups": ("groups", ["a", "b", "c"]),
    "counts of text": ("counts", ["2", "3"]),
    "real counts": ("counts", [2.5, 3.0]),
    "negative counts": ("counts", [-2, 3]),
    "too few counts": ("counts", [2]),
    "errors of nothing": ("errors", [None, 1.0]),
    "errors of text": ("errors", "12"),
    "infinite errors": ("errors", [1.0, float("inf")]),
    "losses are a number": ("losses", 0.0),
    "objective is text": ("objective", "1"),
    "objective is true": ("objective", True),
    "lower bound is a list": ("lower_bound", []),
    "negative variance": ("total_variance", -1.0),
    "version is a number": ("version", 1),
    "restriction has no name": ("restriction", {}),
    "tol is text": ("tol", "small"),
    "tol of one": ("tol", 1.0),
    "a scale beyond double precision": ("scale", 10**400),
    "settings are a list": ("criterion", {"name": "minimax_loss", "settings": []}),
    "reason is a number": ("unresolved_reason", 4),
    "a trace of two numbers": ("trace", [[1, 0.5]]),
    "half an eigenproblem": ("n_eigenproblems", 0.5),
    "eigen is nothing": ("eigensolver", None),
    "theorem is a number": ("theorem_3_2_holds", 1),
    "no components": ("n_components", 0),
    "negative scale": ("scale", -1.0),
    "negative tolerance": ("absolute_tol", -1.0),
    "resolution is nothing": ("resolution", None),
    "violation is text": ("constraint_violation", "0"),
    "another center": ("center", "median"),
    "steps are a mapping": ("steps", {}),
    "a step without weights": ("steps", [STEP]),
    "prefixes are certificates": ("prefixes", [CERTIFICATE | {"weights": [0.5, 0.5]}]),
}


def write_model(path, certificate=None, header=None, **arrays):
    document = SUBSPACE | {"certificate": certificate} | (header or {})
    write_archive(path, "subspace", document, {"components": np.eye(2, 3)} | arrays)


def test_the_model_that_these_vary_is_loaded_and_shown(tmp_path):
    write_model(tmp_path / "out", CERTIFICATE)
    assert "minimax_loss" in fs.FairSubspace.load(tmp_path / "out")._repr_html_()


@pytest.mark.parametrize("case", CLAIMS)
def test_claims_of_a_wrong_type_are_refused(tmp_path, case):
    name, value = CLAIMS[case]
    write_model(tmp_path / "out", CERTIFICATE | {name: value})
    message = assert_refused(tmp_path / "out", fs.FairSubspace.load)
    assert f"certificate.{name}" in message or "certificate.counts" in message


@pytest.mark.slow
def test_missing_and_unknown_claims_are_refused(tmp_path):
    step = STEP | {"weights": [0.5, 0.5]}
    for place, record in (("", CERTIFICATE), (".steps[0]", step), (".prefixes[0]", step)):
        changed_records = [
            (name, {claim: record[claim] for claim in record if claim != name}) for name in record
        ]
        for name, other in [*changed_records, ("more", record | {"more": 1})]:
            nested = CERTIFICATE | {place[1:-3]: [other]} if place else other
            write_model(tmp_path / "out", nested)
            message = assert_refused(tmp_path / "out", fs.FairSubspace.load)
            fault = "unknown" if name == "more" else "missing"
            assert f"certificate{place}.{name} is {fault}" in message


MODELS = {
    "components whose squares overflow": (
        {},
        {"components": np.array([[1.3e154, 0, 0], [0, 1e-3, 0]])},
        "components are not orthonormal. Allowed: orthonormal rows",
    ),
    "complex components": ({}, {"components": np.eye(2, 3) + 0j}, "components contains complex128"),
    "truth values": ({}, {"components": np.eye(2, 3, dtype=bool)}, "components contains bool"),
    "two centers": ({"center": ["global"]}, {}, "center is ['global']"),
    "names twice": ({"feature_names": ["x", "x", "y"]}, {}, "a list of unique entries"),
    "a proof of another kind": ({"proof": "oracle"}, {}, "proof is 'oracle'"),
    "a proof without numbers": ({"proof": "weights"}, {}, "argument: 'weights'"),
    "numbers without a proof": ({}, {"proof_weights": np.ones(2)}, "member proof is None"),
    "a proof of NaN": (
        {"proof": "weights"},
        {"proof_weights": np.array([np.nan, 1])},
        "proof_weights ranges from nan",
    ),
    "a proof of another shape": (
        {"proof": "weights"},
        {"proof_weights": np.ones((2, 2))},
        "proof_weights has shape (2, 2)",
    ),
    "a negative scale": ({}, {"scale": np.array([1.0, -1, 1])}, "scale ranges from -1.0"),
}


@pytest.mark.parametrize("case", MODELS)
def test_invalid_models_are_refused(tmp_path, case):
    header, arrays, message = MODELS[case]
    write_model(tmp_path / "out", None, header, **arrays)
    assert message in assert_refused(tmp_path / "out", fs.FairSubspace.load)


def hard_rows(kind):
    """Rows whose scatters are as badly rounded as honest ones get."""
    rows = random_rows(3, n=60, p=6, offset=0.0)
    X = rows.X.copy()
    if kind == "rank one":
        X = np.outer(X[:, 0], np.arange(1.0, 7.0))
    elif kind == "far away":
        X += 1e12
    elif kind == "far and nearly constant":
        X[:, 0] = 1e10 + 1e-6 * X[:, 0]
        X[:, 1] = 1e10
    elif kind == "all sizes":
        X *= 10.0 ** np.array([-74, -50, -20, 0, 50, 70])
    elif kind == "subnormal":
        X[1:] *= 10.0 ** np.array([-310, -300, -160, 0, 0, 70])
    elif kind == "two columns alike":
        X[:, 1] = X[:, 0] * (1 + 1e-15)
    elif kind == "few rows":
        return X[:6], rows.labels[:6], None
    return X, rows.labels, rows.weights * 1e-9 if kind == "light" else rows.weights


KINDS = ["plain", "rank one", "far away", "far and nearly constant", "all sizes", "subnormal"]
KINDS += ["two columns alike", "few rows", "light"]


@parametrize_diagonal(weighted=[False, True], kind=KINDS, sparse=[False, True])
def test_moments_of_hard_rows_are_loaded_bit_for_bit(tmp_path, kind, weighted, sparse):
    X, labels, weights = hard_rows(kind)
    if sparse:
        X = X * (np.random.default_rng(1).random(X.shape) < 0.07)
        X[0] = 1.0
        X = scipy.sparse.csr_array(X)
    moments = fs.GroupMoments.from_rows(X, labels, weights if weighted else None)
    for original in (moments, moments + moments, moments.divided_by(np.full(6, 1e-3))):
        original.save(tmp_path / "out")
        assert (
            fs.GroupMoments.load(tmp_path / "out").scatters.tobytes() == original.scatters.tobytes()
        )


CRITERIA = ["minimax_loss", "total_error", "robust_error_gap", "error_gap"]
CRITERIA += ["equal_error", "least_variance"]


@cache
def honest_moments():
    rows = np.random.default_rng(0).normal(size=(40, 4))
    return fs.GroupMoments.from_rows(rows, ["a", "b"] * 20)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("honest") / "model"
    contents = []
    for criterion in CRITERIA[:4]:
        fs.FairPCA(2, criterion=criterion).fit_moments(honest_moments()).subspace_.save(path)
        contents.append(path.read_bytes())
    return contents


@given(data=st.data())
def test_a_spoilt_model_is_refused_or_is_the_same_when_saved_again(tmp_path, models, data):
    content = data.draw(st.sampled_from(models))
    (tmp_path / "model").write_bytes(data.draw(corrupted_archive(content)))
    with accept_or_refuse():
        model = fs.FairSubspace.load(tmp_path / "model")
        repr(model), model._repr_html_()
        model.save(tmp_path / "again")
        reloaded = fs.FairSubspace.load(tmp_path / "again")
        np.testing.assert_array_equal(reloaded.components, model.components)
        np.testing.assert_array_equal(reloaded.mean, model.mean)
        fs.verify(model, honest_moments())
        model.transform(np.eye(4))
    assert {path.name for path in tmp_path.iterdir()} <= {"model", "again"}


@given(
    content=st.deferred(lambda: corrupted_archive(honest_moments().to_bytes())),
    criterion=st.sampled_from(CRITERIA),
)
def test_spoilt_moments_are_refused_or_give_a_certificate_that_holds(content, criterion):
    with accept_or_refuse():
        moments = fs.GroupMoments.from_bytes(content)
        reloaded = fs.GroupMoments.from_bytes(moments.to_bytes())
        np.testing.assert_array_equal(reloaded.scatters, moments.scatters)
        assert list(reloaded.labels) == list(moments.labels)
        assert np.isfinite(moments.means).all()
        fair = fs.FairPCA(1, criterion=criterion).fit_moments(moments)
        assert fs.verify(fair, moments).holds
        assert (moments + honest_moments()).counts.sum() == moments.counts.sum() + 40


FRAME = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 4)), columns=list("wxyz"))
FRAME["g"] = ["a", "b"] * 20
CSV = FRAME.to_csv(index=False).encode()
FORMS = {
    "--delimiter": [",", ";", "\t", "a"],
    "--decimal": [".", ","],
    "--thousands": [",", ".", "'", "space"],
    "--na-values": ["-99,?", "w=1", "", "g=a,b"],
    "--encoding": ["utf-8", "latin-1", "utf-16", "cp1252", "ascii"],
    "--comment": ["#", "1", "g"],
}


def write_file(suffix):
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
    reloaded = GroupMoments.from_bytes(moments.to_bytes())
    np.testing.assert_array_equal(reloaded.scatters, moments.scatters)


@pytest.mark.parametrize(
    "suffix",
    ["csv", *(pytest.param(suffix, marks=pytest.mark.slow) for suffix in ("parquet", "arrow"))],
)
@given(data=st.data())
def test_a_spoilt_table_is_refused_or_read(tmp_path, suffix, data):
    path = tmp_path / f"rows.{suffix}"
    path.write_bytes(data.draw(corrupted_bytes(write_file(suffix))))
    with accept_or_refuse():
        check_sound(GroupMoments.from_rows(path, "g"))


@given(
    content=corrupted_bytes(CSV),
    form=st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in FORMS.items()}),
    flags=st.sets(st.sampled_from(["--one-hot", "--numeric-only", "--no-header"])),
)
def test_a_spoilt_csv_file_is_refused_or_read_in_any_form(tmp_path, content, form, flags):
    (tmp_path / "rows.csv").write_bytes(content)
    words = ["audit", str(tmp_path / "rows.csv"), "--group", "g", "-d", "1", "--folds", "none"]
    with accept_or_refuse():
        status = cli.run([*words, *flags, *(word for pair in form.items() for word in pair)])
    assert status in (0, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
