"""The command line and Python have the same defaults."""

import inspect

import pytest

import fairspan as fs
from fairspan.cli import fairspan as command_line

# Options by the arguments in Python that they correspond to, where the names differ.
ARGUMENTS = {"standardize": "scale", "weight": "sample_weight", "y_column": "y"}
# The number of dimensions of an estimator is a hyperparameter, as in scikit-learn; commands and
# reports choose it. A command is reproducible, so it has a seed.
DIFFERENT = {("fit", "n_components")}
FUNCTIONS = {"fit": fs.FairPCA, "audit": fs.audit, "report": fs.write_report}


def default_of(name):
    """Return the value that a command gets if an option is not used."""
    option_defaults = {}
    for option in command_line.commands[name].params:
        value = option.default
        # Folds may be a word, so they are text; other options without a default are unset.
        if option.name == "folds":
            value = int(value)
        is_set = isinstance(value, str | int | float)
        option_defaults[ARGUMENTS.get(option.name, option.name)] = value if is_set else None
    return option_defaults


@pytest.mark.parametrize("name", FUNCTIONS)
def test_options_have_the_defaults_of_the_arguments(name):
    options = default_of(name)
    arguments = {
        key: parameter.default
        for key, parameter in inspect.signature(FUNCTIONS[name]).parameters.items()
        if key in options and (name, key) not in DIFFERENT
    }
    assert len(arguments) >= 8
    for key, default in arguments.items():
        # An option that is not given leaves it to the function, whose own default may be false.
        option_default = options[key]
        if default is inspect.Parameter.empty:
            continue
        assert option_default == default or (option_default in (None, "global") and not default), (
            key
        )
