"""Progress of long work: stages report it, and tqdm shows it on a terminal or in a notebook.

Where there is neither, such as in the log of a job, a line is written every ten seconds.

Without :func:`show_progress`, a stage only reads one variable.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from threading import RLock
from time import monotonic
from typing import Any, TypeVar

Item = TypeVar("Item")

# Of stages whose length is not known: an eigenproblem is what takes the time in them.
EIGENPROBLEMS = "eigenproblems"
# Seconds before a bar appears, and between two of its states.
_DELAY, _INTERVAL = 2.0, 0.2
# Of work in several stages: what is done before the end at most, in percent, and its bar.
_MAX_PERCENT_RUNNING = 95
_OVERALL_BAR_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"
# Seconds between two lines where there is no bar, and when the last one was written.
_LINE_INTERVAL = 10.0
_LAST_LINE_TIME: ContextVar[float] = ContextVar("last line", default=0.0)


@dataclass(eq=False)
class Stage:
    """A long step, from `with` to its end; shown by :func:`fairspan.show_progress`.

    Attributes
    ----------
    what : str
        What is being done, such as "reading".
    total : int or None
        How many things there are, at least about, if it is known.
    unit : str
        The name of these things.
    done : float
        How many of them are done.
    shares : mapping of str to float
        Of work in several stages: about how much of it each of these takes, in percent. Then the
        stages inside are what is done, and nothing has to be counted.

    Examples
    --------
    >>> with Stage("fitting", 3, "criteria") as stage:
    ...     for criterion in ("a", "b", "c"):
    ...         stage.add()
    >>> stage.done
    3
    """

    name: str
    total: int | None = None
    unit: str = "steps"
    n_done: float = 0
    stage_percentages: Mapping[str, float] = field(default_factory=dict)
    _active: "list[Stage] | None" = field(default=None, init=False, repr=False)
    _bar: Any = field(default=None, init=False, repr=False)

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
            for outer in self._active[:1]:
                outer.n_done = outer._total_done([replace(self, n_done=1, total=1)])
        if self._bar is not None:
            self._bar.close()

    def advance(self, n: float = 1) -> None:
        """Count the work that was done since the last call."""
        self.n_done += n
        outer, *others = self._active or [self]
        bar = outer._bar
        if bar is not None:
            bar.desc, bar.total = outer.name, outer.total
            inner = [f"{stage.name}: {stage.n_done} {stage.unit}" for stage in others[-1:]]
            bar.set_postfix_str("".join(inner), refresh=False)
            bar.update(outer._total_done(others) - bar.n)

    def _total_done(self, inner_stages: "Sequence[Stage]") -> float:
        """What is done, with what is done in the first of the stages inside."""
        share = sum(
            self.stage_percentages.get(stage.name, 0) * stage._fraction_done
            for stage in inner_stages[:1]
        )
        # Stages may be repeated, and what follows them is not counted.
        return (
            min(self.n_done + share, _MAX_PERCENT_RUNNING)
            if self.stage_percentages
            else self.n_done
        )

    @property
    def _fraction_done(self) -> float:
        return min(self.n_done / self.total, 1.0) if self.total else 0.0


@contextmanager
def overall_progress(what: str, **stage_weights: float) -> Iterator[Stage]:
    """Work in several stages, shown by one bar with an estimate for all of it.

    Parameters
    ----------
    what : str
    **shares : float
        About how much of the time each stage takes, in any unit; underscores stand between the
        words of its name.

    Examples
    --------
    >>> with whole("auditing rows", reading=1, fitting_again=3) as stage:
    ...     for item in track("reading", ["a", "b"]):
    ...         pass
    >>> stage.shares
    {'reading': 25.0, 'fitting again': 75.0}
    """
    unit = sum(stage_weights.values()) / 100
    named = {name.replace("_", " "): share / unit for name, share in stage_weights.items()}
    with Stage(what, 100, "%", stage_percentages=named) as stage:
        yield stage


# Stages that have not ended, where they are shown; the bar is that of the first.
_ACTIVE_STAGES: ContextVar[list[Stage] | None] = ContextVar("progress", default=None)


def track(what: str, items: Sequence[Item], unit: str = "steps") -> Iterator[Item]:
    """Go through items, counting those that are done.

    Examples
    --------
    >>> list(track("fitting", ["a", "b"], "criteria"))
    ['a', 'b']
    """
    with Stage(what, len(items), unit) as stage:
        for item in items:
            yield item
            stage.advance()


def count_eigenproblem() -> None:
    """Count an eigenproblem in the current stage, if it counts these."""
    stages = _ACTIVE_STAGES.get()
    if stages and stages[-1].unit == EIGENPROBLEMS:
        stages[-1].advance()


def is_progress_shown() -> bool:
    """Whether stages are shown, so that their length has to be estimated."""
    return _ACTIVE_STAGES.get() is not None


def clear_progress_bar() -> None:
    """Clear the bar before a message is written to the same place; it comes back later."""
    stages = _ACTIVE_STAGES.get()
    if stages and stages[0]._bar is not None:
        stages[0]._bar.clear()


@contextmanager
def show_progress() -> Iterator[None]:
    """Show the progress of long work: fits, audits, reports, and reading on the command line.

    On a terminal and in a notebook, a bar appears on standard error for each step that takes more
    than two seconds, and disappears at its end. Reports, curves, and the commands `audit` and `fit`
    have one bar for all of their steps. Elsewhere a line is written every ten seconds. Both
    estimate how long the rest will take.

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
    before, last = _ACTIVE_STAGES.set([]), _LAST_LINE_TIME.set(monotonic())
    try:
        yield
    finally:
        _ACTIVE_STAGES.reset(before)
        _LAST_LINE_TIME.reset(last)


class _LineReporter:
    """Lines in place of a bar: one every ten seconds, with the step and about when it ends.

    Parameters
    ----------
    stage : Stage
    """

    def __init__(self, stage: Stage) -> None:
        self.stage, self.n, self.start_time = stage, stage.n_done, monotonic()
        self.desc, self.total, self.inner_text = stage.name, stage.total, ""

    def set_postfix_str(self, text: str, *, refresh: bool) -> None:
        self.inner_text = text

    def update(self, number: float) -> None:
        self.n += number
        now = monotonic()
        if now - _LAST_LINE_TIME.get() < _LINE_INTERVAL:
            return
        _LAST_LINE_TIME.set(now)
        of, left = "", ""
        if self.total and self.n:
            seconds = (now - self.start_time) * max(self.total / self.n - 1, 0.0)
            took = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
            step = "" if self.stage.stage_percentages else " of this step"
            left = f", about {took} left{step}"
            of = "" if self.stage.stage_percentages else f" of {self.total:,}"
        inner = f" ({self.inner_text})" * bool(self.inner_text)
        unit = self.stage.unit
        if not of and round(self.n) == 1:
            unit = unit.removesuffix("s")
        said = f"fairspan: {self.desc}: {self.n:,.0f}{of} {unit}{left}{inner}"
        print(said, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Lines stay."""

    close = clear


def _make_bar(stage: Stage) -> Any:
    # Other programs import IPython too; a notebook has a shell of it with a kernel.
    ipython: Any = sys.modules.get("IPython")
    is_notebook = ipython is not None and hasattr(ipython.get_ipython(), "kernel")
    if not is_notebook and not sys.stderr.isatty():
        return _LineReporter(stage)
    from tqdm.std import tqdm  # takes its time

    # Without the thread that watches all bars, and the lock between processes.
    bar = type("Bar", (tqdm,), {"monitor_interval": 0, "_lock": RLock()})
    return bar(
        desc=stage.name,
        total=stage.total,
        initial=stage.n_done,
        unit=f" {stage.unit}",
        unit_scale=stage.unit == "rows",
        # The rate of the whole is that of all its stages, not of the last ones.
        smoothing=0 if stage.stage_percentages else 0.3,
        bar_format=_OVERALL_BAR_FORMAT if stage.stage_percentages else None,
        file=sys.stderr,
        leave=False,
        dynamic_ncols=True,
        delay=_DELAY,
        mininterval=_INTERVAL,
        miniters=0,
    )
