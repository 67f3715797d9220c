"""Where progress is shown: on a terminal, in a notebook, or by a function of the user."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Event, Thread
from typing import Any, TextIO

from fairspan.formatting.terminal_text import width_of
from fairspan.progress.line import ProgressLine
from fairspan.progress.stages import listening

# Seconds between two looks at what takes long without a word, such as one large eigenproblem.
_EVERY = 0.5
_WIDTH = 80


@contextmanager
def show_progress(to: Callable[[str], None] | None = None) -> Iterator[None]:
    """Show the progress of long work: fits, audits, reports, and reading on the command line.

    In a notebook and on a terminal a line appears after two seconds, and disappears at the end.
    Elsewhere nothing is shown without `to`.

    Parameters
    ----------
    to : callable, optional
        Takes the line, at most five times a second, from any thread; an empty text at the end.

    Examples
    --------
    >>> import numpy as np
    >>> import fairspan as fs
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> with fs.show_progress():
    ...     fair = fs.FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
    >>> fair.n_components_
    1
    """
    show = to or in_notebook() or on_terminal(sys.stderr)
    if show is None:
        yield
        return
    line, is_over = ProgressLine(show, lambda: width_of(sys.stderr)), Event()

    def look() -> None:
        while not is_over.wait(_EVERY):
            line.changed()

    looking = Thread(target=look, daemon=True)
    looking.start()
    try:
        with listening(line):
            yield
    finally:
        is_over.set()
        looking.join()
        line.hide()


def on_terminal(stream: TextIO) -> Callable[[str], None] | None:
    """What rewrites a line of a terminal; None where none is."""
    if not stream.isatty():
        return None
    shown = ""

    def show(text: str) -> None:
        nonlocal shown
        blank = " " * len(shown)
        stream.write("\r" + text.ljust(len(shown)) if text else f"\r{blank}\r")
        stream.flush()
        shown = text

    return show


def in_notebook() -> Callable[[str], None] | None:
    """What rewrites a line under a cell; None where no notebook runs."""
    ipython: Any = sys.modules.get("IPython")
    # Other programs import IPython too; a notebook has a shell of it with a kernel.
    if ipython is None or not hasattr(ipython.get_ipython(), "kernel"):
        return None
    display = import_module("IPython.display").display
    shown: Any = None

    def show(text: str) -> None:
        nonlocal shown
        if shown is None:
            shown = display({"text/plain": text}, raw=True, display_id=True)
        else:
            shown.update({"text/plain": text}, raw=True)

    return show
