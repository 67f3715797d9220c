import pickle

import numpy as np
import pytest

import fairspan.errors
from fairspan import FairPCA, FairSubspace
from fairspan.errors import (
    FairspanError,
    FairspanWarning,
    InvalidParameter,
    MissingDependency,
    warn,
)

CLASSES = [
    each
    for each in vars(fairspan.errors).values()
    if isinstance(each, type) and issubclass(each, FairspanError)
]


@pytest.mark.parametrize("kind", CLASSES)
def test_errors_survive_the_way_to_another_process(kind):
    error = kind("X has 3 rows", "Allowed: 4", "Add one")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == "X has 3 rows. Allowed: 4. Add one."


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_is_also_of_a_built_in_kind(kind):
    assert kind is FairspanError or issubclass(kind, ValueError | TypeError | ImportError)


def test_a_missing_package_names_the_command():
    error = MissingDependency.for_extra("pyarrow", "arrow", "Reading Parquet")
    assert 'pip install "fairspan[arrow]"' in str(error)


def test_warnings_from_inside_the_package_point_there_too():
    with pytest.warns(FairspanWarning, match="one group") as caught:
        FairPCA(1).fit([[1.0], [2.0]], sensitive_features=["a", "a"])
    assert caught[0].filename == __file__


def test_warnings_point_at_the_line_of_the_user():
    with pytest.warns(FairspanWarning, match="careful") as caught:
        warn("careful")
    assert caught[0].filename == __file__


def test_a_name_that_is_nearly_right_is_named():
    with pytest.raises(InvalidParameter, match="the closest is 'minimax_loss'"):
        FairPCA(1, criterion="minmax_loss").fit(np.eye(4), sensitive_features=[*"aabb"])
    with pytest.raises(InvalidParameter) as refused:
        FairPCA(1, criterion="something else").fit(np.eye(4), sensitive_features=[*"aabb"])
    assert "closest" not in str(refused.value)


def test_a_file_that_is_not_there_is_named_with_what_to_do():
    with pytest.raises(FileNotFoundError, match=r"Name one that save .* wrote: 'nope'"):
        FairSubspace.load("nope")
