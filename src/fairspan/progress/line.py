"""One line that says how far something has come."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock

from fairspan.progress.stages import Stage

# Seconds before the line appears, and between two of its states.
_PATIENCE, _EVERY = 2.0, 0.2
_PERIODS = ((1, "s"), (60, "min"), (3600, "h"))
_UNITS = ((1e9, " G"), (1e6, " M"), (1e3, " k"))


@dataclass(eq=False)
class ProgressLine:
    """A line that is rewritten as things get done, and empty in the end.

    Nothing is shown in the first two seconds, and from then on five times a second at most.

    Attributes
    ----------
    show : callable
        Takes the line in place of the one before; an empty one clears it.
    width : callable
        How many columns a line may have.
    clock : callable
        Seconds that have passed.
    """

    show: Callable[[str], None]
    width: Callable[[], int]
    clock: Callable[[], float] = time.monotonic
    _open: list["_Open"] = field(default_factory=list, init=False)
    _lock: RLock = field(default_factory=RLock, init=False)
    _is_shown: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._due = self.clock() + _PATIENCE

    def begin(self, stage: Stage) -> None:
        """Show a stage, behind those that have not ended."""
        with self._lock:
            self._open.append(_Open(stage, stage.done, self.clock()))

    def end(self, stage: Stage) -> None:
        """Show it no more."""
        with self._lock:
            self._open = [each for each in self._open if each.stage is not stage]
            if not self._open:
                self.hide()

    def changed(self, n_eigenproblems: int = 0) -> None:
        """Write the line again, if it is time."""
        with self._lock:
            if not self._open:
                return
            self._open[-1].stage.n_eigenproblems += n_eigenproblems
            now = self.clock()
            if now >= self._due:
                self._due = now + _EVERY
                self._is_shown = True
                self.show(self._text(now, self.width() - 1))

    def hide(self) -> None:
        """Clear the line until something changes."""
        with self._lock:
            if self._is_shown:
                self._is_shown = False
                self.show("")

    def _text(self, now: float, width: int) -> str:
        """The most that fits of the first stage, and of the last one inside it."""
        first, *others = self._open
        whole = first.texts(now)
        inner = others[-1].texts(now)[-1] if others else ""
        both = [f"{text}; {inner}" for text in whole] if inner else []
        for text in (*both, *whole):
            if len(text) <= width:
                return text
        return text[:width]


@dataclass(frozen=True, eq=False)
class _Open:
    """A stage that has not ended: what was done before it began, and when that was."""

    stage: Stage
    before: int
    begun: float

    def texts(self, now: float) -> list[str]:
        """From the longest to the shortest: the time left is the last to go."""
        stage, seconds = self.stage, now - self.begun
        rate = (stage.done - self.before) / seconds if seconds > 0 else 0.0
        speed = [_per_time(rate, stage.unit)] if rate and stage.unit != "steps" else []
        if not stage.total and not stage.done:
            solved = [f"{stage.n_eigenproblems:,} eigenproblems"] * bool(stage.n_eigenproblems)
            parts = [[*solved, duration(seconds)], [duration(seconds)]]
        elif not stage.total or (stage.is_estimate and stage.done > stage.total):
            counted = f"{stage.done:,} {stage.unit}"
            parts = [[counted, *speed], [counted]]
        else:
            about = "about " if stage.is_estimate else ""
            brief = f"{100 * min(stage.done / stage.total, 1.0):.0f} %"
            counted = f"{stage.done:,} of {about}{stage.total:,} {stage.unit} ({brief})"
            left = [f"{duration((stage.total - stage.done) / rate)} left"] if rate else []
            parts = [[counted, *speed, *left], [brief, *speed, *left], [brief, *left]]
        return [f"{stage.what}: {', '.join(each)}" for each in parts]


def _per_time(rate: float, unit: str) -> str:
    """How many there are in a second, or where they are few in a minute or an hour.

    Examples
    --------
    >>> _per_time(730.0, "rows"), _per_time(0.1, "parts"), _per_time(0.01, "files")
    ('730 rows/s', '6 parts/min', '36 files/h')
    """
    number, period = next(
        ((rate * seconds, name) for seconds, name in _PERIODS if rate * seconds >= 1),
        (rate * _PERIODS[-1][0], _PERIODS[-1][1]),
    )
    return f"{_shortened(number)} {unit}/{period}"


def _shortened(number: float) -> str:
    """At most three digits, and a unit.

    Examples
    --------
    >>> _shortened(2_130_000.0), _shortened(750_000.0), _shortened(730.0)
    ('2.1 M', '750 k', '730')
    """
    for size, name in _UNITS:
        if number >= size:
            return f"{number / size:.{1 if number < 10 * size else 0}f}{name}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours.

    Examples
    --------
    >>> duration(12.6), duration(100), duration(9000)
    ('13 s', '2 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
