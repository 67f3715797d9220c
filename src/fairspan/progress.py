"""Progress reporting: stages count work, and tqdm displays it in a terminal or notebook.

Elsewhere, such as in a batch log, a line is printed every ten seconds. Without
:func:`show_progress` a stage costs one variable lookup.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from threading import RLock
from time import monotonic
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")

# Unit of stages of unknown length, whose time is dominated by eigenproblems.
EIGENPROBLEMS = "eigenproblems"
# Seconds before a bar appears: shorter stages need none.
_DELAY = 2.0
# Seconds between updates of a bar.
_INTERVAL = 0.2
# Percentage that an overall bar does not exceed before the end: stages may repeat, and work after
# them is not counted.
_MAX_PERCENT_RUNNING = 95
_OVERALL_BAR_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"
# Seconds between lines without a bar.
_LINE_INTERVAL = 10.0
# Time of the last line, by the clock of `monotonic`.
_LAST_LINE_TIME: ContextVar[float] = ContextVar("last line", default=0.0)


class _Bar(Protocol):
    """Display of one stage: a tqdm bar, or lines of text."""

    n: float
    desc: str
    total: int | None

    def set_postfix_str(self, text: str, /, *, refresh: bool) -> None:
        """Set the text after the bar."""

    def update(self, n: float, /) -> object:
        """Advance by n units."""

    def clear(self) -> None:
        """Remove the bar before other output."""

    def close(self) -> None:
        """End the bar."""


@dataclass(eq=False)
class Stage:
    """Stage of long work, used as a context manager; shown by :func:`fairspan.show_progress`.

    Attributes
    ----------
    name : str
        Name of the activity, such as "reading".
    total : int or None
        Number of units, possibly approximate; None if unknown.
    unit : str
        Name of the units.
    n_done : float
        Number of units done.
    stage_percentages : mapping of str to float
        For work in several stages: approximate percentage of each stage. Progress then follows the
        inner stages.

    Examples
    --------
    >>> with Stage("fitting", 3, "criteria") as stage:
    ...     for criterion in ("a", "b", "c"):
    ...         stage.advance()
    >>> stage.n_done
    3
    """

    name: str
    total: int | None = None
    unit: str = "steps"
    n_done: float = 0
    stage_percentages: Mapping[str, float] = field(default_factory=dict)
    _active: "list[Stage] | None" = field(default=None, init=False, repr=False)
    _bar: _Bar | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> "Stage":
        self._active = _ACTIVE_STAGES.get()
        if self._active is not None:
            if not self._active:
                self._bar = _make_bar(self)
            self._active.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._active is not None:
            self._active.remove(self)
            # The outermost stage, if this is another one, adds the percentage of this stage, as
            # one that is complete.
            for outer in self._active[:1]:
                outer.n_done = outer._total_done([replace(self, n_done=1, total=1)])
        if self._bar is not None:
            self._bar.close()

    def advance(self, n: float = 1) -> None:
        """Advance by the work done since the last call, and update the bar if there is one.

        The bar belongs to the outermost active stage; it also shows the count of the innermost.
        """
        self.n_done += n
        # `_active` lists the stages in progress, the outermost first. Outside of `show_progress` it
        # is None, and no stage has a bar.
        outer, *inner_stages = self._active or [self]
        bar = outer._bar
        if bar is None:
            return
        bar.desc = outer.name
        bar.total = outer.total
        inner_text = ""
        if inner_stages:
            innermost = inner_stages[-1]
            n_done = innermost.n_done
            inner_text = f"{innermost.name}: {n_done} {_unit_form(n_done, innermost.unit)}"
        bar.set_postfix_str(inner_text, refresh=False)
        bar.update(outer._total_done(inner_stages) - bar.n)

    def _total_done(self, inner_stages: "Sequence[Stage]") -> float:
        """Return the number of units done, including those in progress in the first inner stage.

        With `stage_percentages` this is a percentage. It stays at or below `_MAX_PERCENT_RUNNING`
        until the end, since stages may repeat and work after them is not counted.
        """
        if not self.stage_percentages:
            return self.n_done
        percentage = 0.0
        if inner_stages:
            stage = inner_stages[0]
            percentage = self.stage_percentages.get(stage.name, 0) * stage._fraction_done
        return min(self.n_done + percentage, _MAX_PERCENT_RUNNING)

    @property
    def _fraction_done(self) -> float:
        return min(self.n_done / self.total, 1.0) if self.total else 0.0


@contextmanager
def overall_progress(name: str, **stage_weights: float) -> Iterator[Stage]:
    """Show several stages as one bar with an overall estimate.

    Parameters
    ----------
    name : str
        Name of the work.
    **stage_weights : float
        Approximate relative duration of each stage; underscores in names become spaces.

    Examples
    --------
    >>> with overall_progress("auditing rows", reading=1, fitting_again=3) as stage:
    ...     for item in track("reading", ["a", "b"]):
    ...         pass
    >>> stage.stage_percentages
    {'reading': 25.0, 'fitting again': 75.0}
    """
    weight_per_percent = sum(stage_weights.values()) / 100
    percentages = {
        stage_name.replace("_", " "): weight / weight_per_percent
        for stage_name, weight in stage_weights.items()
    }
    with Stage(name, 100, "%", stage_percentages=percentages) as stage:
        yield stage


# Active stages if progress is shown; the bar belongs to the outermost.
_ACTIVE_STAGES: ContextVar[list[Stage] | None] = ContextVar("progress", default=None)


def track(name: str, items: Sequence[Item], unit: str = "steps") -> Iterator[Item]:
    """Iterate over items and report progress.

    Examples
    --------
    >>> list(track("fitting", ["a", "b"], "criteria"))
    ['a', 'b']
    """
    with Stage(name, len(items), unit) as stage:
        for item in items:
            yield item
            stage.advance()


def count_eigenproblem() -> None:
    """Count an eigenproblem in the current stage, if that is its unit."""
    stages = _ACTIVE_STAGES.get()
    if stages and stages[-1].unit == EIGENPROBLEMS:
        stages[-1].advance()


def is_progress_shown() -> bool:
    """Return whether progress is shown (and lengths should be estimated)."""
    return _ACTIVE_STAGES.get() is not None


def clear_progress_bar() -> None:
    """Clear the bar before other output; it reappears on the next update."""
    stages = _ACTIVE_STAGES.get()
    if stages and stages[0]._bar is not None:
        stages[0]._bar.clear()


@contextmanager
def show_progress() -> Iterator[None]:
    """Show the progress of fits, audits, reports and reading.

    In a terminal or notebook, a bar on standard error appears for each stage that takes more than
    two seconds and disappears when it ends; reports, curves and the commands `audit` and `fit` show
    one overall bar. Elsewhere a line is printed every ten seconds. Both estimate the remaining
    time.

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
    stages_token = _ACTIVE_STAGES.set([])
    time_token = _LAST_LINE_TIME.set(monotonic())
    try:
        yield
    finally:
        _ACTIVE_STAGES.reset(stages_token)
        _LAST_LINE_TIME.reset(time_token)


def _unit_form(n: float, unit: str) -> str:
    """Return the name of a unit in the form that agrees with a count."""
    return unit.removesuffix("s") if n == 1 else unit


class _LineReporter:
    """Line-based substitute for a tqdm bar: one line every ten seconds, with the time left.

    It has the attributes and methods of a bar that :class:`Stage` uses.

    Parameters
    ----------
    stage : Stage
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.n = stage.n_done
        self.start_time = monotonic()
        self.desc = stage.name
        self.total = stage.total
        self.inner_text = ""

    def set_postfix_str(self, text: str, *, refresh: bool) -> None:
        self.inner_text = text

    def update(self, n: float) -> None:
        """Advance by n units; print a line if the last one of any stage is ten seconds old."""
        self.n += n
        now = monotonic()
        if now - _LAST_LINE_TIME.get() < _LINE_INTERVAL:
            return
        _LAST_LINE_TIME.set(now)
        if not self.total:
            # The number of steps is unknown, so the time tells more than a count of them.
            print(f"fairspan: {self.desc} ... ({now - self.start_time:.0f} s)", file=sys.stderr)
            sys.stderr.flush()
            return
        # An overall stage counts percent of all steps, of which "of 100" would say nothing.
        is_overall = bool(self.stage.stage_percentages)
        out_of = ""
        remaining_text = ""
        if self.n:
            seconds = (now - self.start_time) * max(self.total / self.n - 1, 0.0)
            duration = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
            if is_overall:
                remaining_text = f", about {duration} left"
            else:
                out_of = f" of {self.total:,}"
                remaining_text = f", about {duration} left of this step"
        inner = f" ({self.inner_text})" if self.inner_text else ""
        unit = self.stage.unit
        if not out_of:
            unit = _unit_form(round(self.n), unit)
        line = f"fairspan: {self.desc}: {self.n:,.0f}{out_of} {unit}{remaining_text}{inner}"
        print(line, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Do nothing: lines are permanent."""

    close = clear


def _make_bar(stage: Stage) -> _Bar:
    """Return a tqdm bar in a terminal or notebook, and a line-based reporter elsewhere."""
    # IPython may be imported elsewhere too; in a notebook its shell has a kernel.
    ipython: Any = sys.modules.get("IPython")
    is_notebook = ipython is not None and hasattr(ipython.get_ipython(), "kernel")
    if not is_notebook and not sys.stderr.isatty():
        return _LineReporter(stage)
    from tqdm.std import tqdm  # slow import

    # Omit tqdm's monitor thread and multiprocessing lock, which a single process does not need.
    create_bar: Callable[..., _Bar] = type(
        "Bar", (tqdm,), {"monitor_interval": 0, "_lock": RLock()}
    )
    return create_bar(
        desc=stage.name,
        total=stage.total,
        initial=stage.n_done,
        unit=f" {stage.unit}",
        unit_scale=stage.unit == "rows",
        # Estimate the overall rate from all stages, not from the most recent ones.
        smoothing=0 if stage.stage_percentages else 0.3,
        bar_format=_OVERALL_BAR_FORMAT if stage.stage_percentages else None,
        file=sys.stderr,
        leave=False,
        dynamic_ncols=True,
        delay=_DELAY,
        mininterval=_INTERVAL,
        miniters=0,
    )
