"""What users may import, and that importing it stays cheap."""

import subprocess
import sys

import pytest

import fairspan
from fairspan import errors


@pytest.mark.parametrize("name", fairspan.__all__)
def test_every_public_name_is_there(name):
    assert getattr(fairspan, name) is not None


def test_dir_shows_public_names_alone():
    assert dir(fairspan) == sorted([*fairspan.__all__, "__version__"])


def test_the_public_errors_are_those_of_the_tree():
    classes = [name for name, each in vars(errors).items() if isinstance(each, type)]
    assert sorted(classes) == errors.__all__


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'FairICA'"):
        fairspan.FairICA  # noqa: B018


@pytest.mark.parametrize("name", ["fairspan", "fairspan.cli", "fairspan.registry"])
def test_importing_loads_nothing_heavy(name):
    code = f"import sys, {name}; print(sorted({{'numpy', 'scipy', 'sklearn'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_core_does_not_need_scikit_learn():
    names = ("GroupMoments", "FairSubspace", "audit", "metrics")
    uses = "; ".join(f"fairspan.{name}" for name in names)
    code = f"import sys, fairspan; {uses}; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_error_is_a_value_or_type_error_and_is_drawn_in_the_tree():
    raised = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.FairspanError)
    ]
    for each in raised:
        assert each.__name__ in (errors.__doc__ or "")
        if each is not errors.FairspanError:
            assert issubclass(each, ValueError | TypeError)


def test_an_error_says_what_came_in_what_is_allowed_and_what_to_do():
    error = errors.InvalidParameter("d is 0", "Allowed: 1 to 4", "Choose one of these")
    assert str(error) == "d is 0. Allowed: 1 to 4. Choose one of these."
