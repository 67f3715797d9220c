"""One line on standard error that says how far something has come."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from fairspan.cli.terminal import width_of

# Seconds before the line appears, and between two of its states.
_PATIENCE, _EVERY = 2.0, 0.2
_PERIODS = ((1, "s"), (60, "min"), (3600, "h"))
_UNITS = ((1e9, " G"), (1e6, " M"), (1e3, " k"))


@dataclass
class ProgressLine:
    """A line that is rewritten as things get done, and cleared in the end.

    Attributes
    ----------
    what : str
        What is being done, such as "reading".
    total : int or None
        How many things there are, if it is known.
    stream : text file
        Nothing is written where it is no terminal.
    clock : callable
        Seconds that have passed.
    unit : str
        What the things are called.
    done : int
        How many of them were done before.
    is_estimate : bool
        Whether there are only about as many.
    """

    what: str
    total: int | None
    stream: TextIO
    clock: Callable[[], float] = time.monotonic
    unit: str = "rows"
    done: int = 0
    is_estimate: bool = False
    _shown: str = field(default="", init=False)

    def __enter__(self) -> "ProgressLine":
        self._is_seen = self.stream.isatty()
        if self._is_seen:
            self._before, self._begun = self.done, self.clock()
            self._due = self._begun + _PATIENCE
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self.stream.write("\r" + " " * len(self._shown) + "\r")
            self.stream.flush()

    def add(self, number: int) -> None:
        """Count what was done since."""
        self.done += number
        if not self._is_seen:
            return
        now = self.clock()
        if now >= self._due:
            self._due = now + _EVERY
            line = self._text(now - self._begun, width_of(self.stream) - 1)
            self.stream.write("\r" + line.ljust(len(self._shown)))
            self.stream.flush()
            self._shown = line

    def _text(self, seconds: float, width: int) -> str:
        """The most that fits: the time left is the last to go."""
        rate = (self.done - self._before) / seconds if seconds > 0 else 0.0
        speed = [_per_time(rate, self.unit)] if rate else []
        if not self.total or (self.is_estimate and self.done > self.total):
            counted, brief, left = f"{self.done:,} {self.unit}", f"{self.done:,} {self.unit}", []
        else:
            about = "about " if self.is_estimate else ""
            brief = f"{100 * min(self.done / self.total, 1.0):.0f} %"
            counted = f"{self.done:,} of {about}{self.total:,} {self.unit} ({brief})"
            left = [f"{duration((self.total - self.done) / rate)} left"] if rate else []
        for parts in ([counted, *speed, *left], [brief, *speed, *left], [brief, *left]):
            text = f"{self.what}: {', '.join(parts)}"
            if len(text) <= width:
                return text
        return text[:width]


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
