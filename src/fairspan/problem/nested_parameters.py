"""Fields of frozen settings objects as parameters: ``criterion__penalty`` and the like.

scikit-learn reaches into nested estimators through ``name__field``. Criteria, restrictions and
solvers are frozen dataclasses, so a changed field makes a new object.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from fairspan.errors import InvalidParameter

_BETWEEN = "__"


def field_values(settings: object) -> dict[str, Any]:
    """The fields of a settings object that can be chosen; none of anything else.

    Examples
    --------
    >>> from fairspan.problem.criteria import ErrorGap
    >>> field_values(ErrorGap(2.0)), field_values("error_gap")
    ({'penalty': 2.0}, {})
    """
    if not is_dataclass(settings) or isinstance(settings, type):
        return {}
    return {field.name: getattr(settings, field.name) for field in fields(settings) if field.init}


def nested_fields(owner: str, settings: object) -> dict[str, Any]:
    """The fields of a settings object under their nested names; none of anything else.

    Examples
    --------
    >>> from fairspan.problem.criteria import ErrorGap
    >>> nested_fields("criterion", ErrorGap(2.0))
    {'criterion__penalty': 2.0}
    """
    return {f"{owner}{_BETWEEN}{name}": value for name, value in field_values(settings).items()}


def split_nested(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Plain parameters, and nested ones by their owner.

    Examples
    --------
    >>> split_nested({"tol": 0.1, "criterion__penalty": 2.0})
    ({'tol': 0.1}, {'criterion': {'penalty': 2.0}})
    """
    plain: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for name, value in parameters.items():
        owner, between, field = name.partition(_BETWEEN)
        if between:
            nested.setdefault(owner, {})[field] = value
        else:
            plain[name] = value
    return plain, nested


def with_fields(owner: str, settings: Any, changes: Mapping[str, Any]) -> Any:
    """A new settings object with some fields changed.

    Raises
    ------
    InvalidParameter
        A field that it does not have, or a value out of range (then also InvalidType).
    """
    known = list(field_values(settings))
    for name in changes:
        if name not in known:
            raise InvalidParameter(
                f"Invalid parameter {name!r} for {owner} {settings!r}",
                f"Valid parameters are: {known!r}",
                f"Use one of these, or set {owner} to another object first"
                if known
                else f"Set {owner} to an object that has this parameter first",
            )
    return replace(settings, **changes)
