"""Packages of the extra `report` that pages need."""

from importlib.util import find_spec

from fairspan.errors import MissingDependency

_EXTRA = "report"
_PACKAGES = ("jinja2", "matplotlib")


def check_required_packages(purpose: str) -> None:
    """Check that the packages which pages need are installed.

    Parameters
    ----------
    purpose : str
        What needs them: the subject of the error message.

    Raises
    ------
    MissingDependency
    """
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise MissingDependency.for_extra(package, _EXTRA, purpose)
