"""Public names, the cost of importing them, and texts of errors and warnings."""

import ast
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import fairspan
from fairspan import FairPCA, FairSubspace, errors
from fairspan.errors import (
    FairspanError,
    FairspanWarning,
    InvalidParameter,
    MissingDependency,
    warn,
)

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, FairspanError)
]


@pytest.mark.parametrize("name", fairspan.__all__)
def test_every_public_name_is_there(name):
    assert getattr(fairspan, name) is not None


def test_type_checkers_see_every_public_name_where_it_lives():
    tree = ast.parse(Path(fairspan.__file__).read_text(encoding="utf-8"))
    imports = [statement for statement in ast.walk(tree) if isinstance(statement, ast.ImportFrom)]
    homes = {
        name.name: statement.module
        for statement in imports
        for name in statement.names
        if not name.asname
    }
    for name in fairspan.__all__:
        value = getattr(fairspan, name)
        assert getattr(import_module(homes[name]), name) is value


def test_dir_shows_public_names_alone():
    assert dir(fairspan) == sorted([*fairspan.__all__, "__version__"])


def test_the_public_errors_are_those_of_the_tree():
    classes = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, FairspanError | FairspanWarning)
    ]
    assert sorted(classes) == errors.__all__


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'FairICA'"):
        fairspan.FairICA  # noqa: B018


USES = "fairspan; fairspan.GroupMoments; fairspan.FairSubspace; fairspan.audit; fairspan.metrics"


@pytest.mark.parametrize(
    ("imported", "heavy"),
    [
        *((name, {"numpy", "scipy", "sklearn"}) for name in ("fairspan", "fairspan.cli")),
        ("fairspan.registry", {"numpy", "scipy", "sklearn"}),
        pytest.param(USES, {"sklearn"}, marks=pytest.mark.slow),
    ],
)
def test_importing_loads_nothing_heavy(imported, heavy):
    code = f"import sys, {imported}; print({heavy!r} & set(sys.modules))"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "set()"


def test_a_missing_group_is_reported_before_anything_heavy_is_loaded(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    code = (
        "import sys, fairspan.cli; fairspan.cli.run(['audit', 'rows.csv'])\n"
        "print({'numpy', 'pyarrow'} & set(sys.modules))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert "group column with --group" in process.stderr
    assert process.stdout.strip() == "set()"


@pytest.mark.parametrize("kind", CLASSES)
def test_errors_survive_the_way_to_another_process(kind):
    error = kind("X has 3 rows", "Allowed: 4", "Add one")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == "X has 3 rows. Allowed: 4. Add one."


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_is_also_of_a_built_in_kind_and_drawn_in_the_tree(kind):
    built_in = ValueError | TypeError | ImportError | AssertionError
    assert kind is FairspanError or issubclass(kind, built_in)
    assert kind.__name__ in (errors.__doc__ or "")


def test_a_missing_package_names_the_command():
    error = MissingDependency.for_extra("pyarrow", "arrow", "Reading Parquet")
    assert 'pip install "fairspan[arrow]"' in str(error)


@pytest.mark.parametrize(
    ("call", "expected_text"),
    [
        (lambda: FairPCA(1).fit([[1.0], [2.0]], sensitive_features=["a", "a"]), "one group"),
        (lambda: warn("careful"), "careful"),
    ],
)
def test_warnings_point_at_the_line_of_the_user(call, expected_text):
    with pytest.warns(FairspanWarning, match=expected_text) as record:
        call()
    assert record[0].filename == __file__


@pytest.mark.parametrize(
    ("name", "expected_text"),
    [
        ("minmax_loss", "closest.* 'minimax_loss'"),
        ("something else", "criterion is 'something else'"),
    ],
)
def test_a_name_that_is_nearly_right_is_named(name, expected_text):
    with pytest.raises(InvalidParameter, match=expected_text) as error:
        FairPCA(1, criterion=name).fit(np.eye(4), sensitive_features=[*"aabb"])
    assert ("closest" in expected_text) == ("closest" in str(error.value))


def test_a_file_that_is_not_there_is_named_with_what_to_do():
    with pytest.raises(FileNotFoundError, match=r"save.*'nope'"):
        FairSubspace.load("nope")
