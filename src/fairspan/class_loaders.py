"""Classes that lower layers use by name and higher layers define.

An audit draws itself, but displays are built on audits; a solver falls back on another, which may
fall back on it; a subspace is created from any model, but adapted models hold subspaces. Imports
point one way, from higher layers and files to lower ones, so such a class is not imported where it
is used. It is looked up here by name, in a table that :mod:`fairspan.registration` fills when the
package is imported.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

Kind = Literal["model", "result display", "result page", "solver"]
"""What the classes are; each kind has its own names."""
ClassLoader = Callable[[], type[object]]
"""Function that imports a class and returns it."""

_LOADERS: dict[tuple[Kind, str], ClassLoader] = {}


def register_loaders(kind: Kind, loaders: Mapping[str, ClassLoader]) -> None:
    """Store the functions that import the classes of a kind, by name.

    Parameters
    ----------
    kind : {"model", "result display", "result page", "solver"}
    loaders : mapping of str to callable
        A function is called when its class is needed, so that the import of the package does not
        wait for it.
    """
    for name, loader in loaders.items():
        _LOADERS[kind, name] = loader


def load_class(kind: Kind, name: str) -> type[Any]:
    """Import and return the class that is registered with a kind and a name.

    Raises
    ------
    KeyError
        No class is registered with this name.

    Examples
    --------
    >>> load_class("solver", "boundary").__name__
    'BoundarySearch'
    """
    return _LOADERS[kind, name]()
