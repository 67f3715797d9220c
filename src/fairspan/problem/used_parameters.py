"""A criterion's parameters as a problem used them, for people to read."""

from collections.abc import Mapping
from typing import Any

from fairspan.problem.nested_parameters import field_values
from fairspan.problem.problem import Problem
from fairspan.rows.groups import Label, printable, spelled


def used_parameters(problem: Problem) -> dict[str, Any]:
    """The parameters of the problem's criterion, groups as tables print them.

    The group that was chosen where none was named is named; what differs by group is a mapping.
    """
    values: dict[str, Any] = {}
    for name, value in field_values(problem.criterion).items():
        if name == "protected":
            chosen = problem.labels[problem.served_worse_by_pca] if value is None else value
            values[name] = _shown(chosen)
        elif isinstance(value, Mapping):
            values[name] = {_shown(label): value[label] for label in problem.labels}
        else:
            values[name] = value
    return values


def _shown(label: Label) -> str:
    return printable(spelled(label))
