"""Parameters of an estimator: whether they are in range, and the fields of those that have some.

Criterion, restriction and solver are settings objects; their fields are parameters as well, such as
``criterion__penalty``.
"""

import numbers
from collections.abc import Mapping
from typing import Any

from fairspan.errors import FairspanError, InvalidParameter
from fairspan.moments.center import check_center
from fairspan.problem.parameters import check_flag, nested_fields, split_nested, with_fields
from fairspan.problem.posing import criterion_of, restriction_of
from fairspan.rows.group_limit import GroupLimit
from fairspan.solvers.choose import solver_of

_OWNERS: dict[str, Any] = {
    "criterion": criterion_of,
    "restriction": restriction_of,
    "solver": solver_of,
}


def check_settings(estimator: Any) -> None:
    """Make sure that every parameter of an estimator is in range, before anything is read.

    Raises
    ------
    InvalidParameter, InvalidType
    """
    if str(estimator.missing_groups) not in ("error", "ignore"):
        raise InvalidParameter(
            f"missing_groups is {estimator.missing_groups!r}",
            "Allowed: 'error' and 'ignore'",
            "Use 'error' unless you want ordinary PCA without groups",
        )
    real = isinstance(estimator.tol, numbers.Real) and not isinstance(estimator.tol, bool)
    if not real or not 0 <= estimator.tol < 1:
        raise InvalidParameter(
            f"tol is {estimator.tol!r}",
            "Allowed: a number from 0 to below 1, a share of the objective",
            "Use the default, 1e-9",
        )
    check_flag("scale", estimator.scale)
    check_flag("allow_extra", estimator.allow_extra)
    check_flag("nested", estimator.nested)
    check_flag("whiten", estimator.whiten)
    criterion_of(estimator.criterion)
    restriction_of(estimator.restriction)
    solver_of(estimator.solver)
    check_center(estimator.center)
    GroupLimit(estimator.max_groups)


def nested_settings(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of criterion, restriction and solver under their nested names.

    Examples
    --------
    >>> nested_settings({"criterion": "error_gap", "restriction": None, "solver": "boundary"})
    {'criterion__penalty': 0.5, 'solver__eigen': 'auto'}
    """
    nested: dict[str, Any] = {}
    for owner in _OWNERS:
        nested |= nested_fields(owner, _settings_of(owner, parameters[owner]))
    return nested


def changed_settings(
    parameters: Mapping[str, Any], changes: Mapping[str, Any], *, of: object
) -> dict[str, Any]:
    """What to set for some changes, nested ones as new objects of their owners.

    Parameters
    ----------
    parameters : mapping
        All parameters as they are.
    changes : mapping
        Of plain and of nested parameters.
    of : estimator
        Whose parameters they are, to be named in an error.

    Raises
    ------
    InvalidParameter
        A parameter that is not there, or a value out of range (then also InvalidType).

    Examples
    --------
    >>> now = {"criterion": "error_gap", "tol": 1e-9}
    >>> changed_settings(now, {"criterion__penalty": 2.0}, of="FairPCA()")
    {'criterion': ErrorGap(penalty=2.0)}
    """
    plain, nested = split_nested(changes)
    for name in (*plain, *nested):
        if name not in parameters:
            raise InvalidParameter(
                f"Invalid parameter {name!r} for estimator {of}",
                f"Valid parameters are: {sorted(parameters)!r}",
                "Use one of these",
            )
    for owner, fields in nested.items():
        settings = _settings_of(owner, plain.get(owner, parameters[owner]))
        plain[owner] = with_fields(owner, settings, fields)
    return plain


def _settings_of(owner: str, value: Any) -> Any:
    """The settings object behind a parameter, made from its name if need be; else the value."""
    try:
        return _OWNERS[owner](value) if owner in _OWNERS else value
    except FairspanError:  # parameters are only checked when fitting
        return value
