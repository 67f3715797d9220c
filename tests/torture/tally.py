"""Counts of outcomes over many cases, and the smallest case that failed."""

import signal
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairspan.errors import FairspanError
from torture.cases import Case
from torture.judges import Judgment, judge_case
from torture.wrong_answer import WrongAnswer

# Cases are small, so a fit that takes longer counts as endless. This is CPU time, as other work may
# run at the same time.
MAX_CPU_SECONDS = 30


@dataclass
class Failure:
    """A case with a wrong result, and the reason."""

    number: int
    cause: str
    message: str
    case: Case | None

    @property
    def size(self) -> int:
        return 10**9 if self.case is None else self.case.size


@dataclass
class Tally:
    """Outcomes of a series of examples.

    Attributes
    ----------
    examples : int
    outcomes : Counter
        Number of examples by outcome: "refused", "optimal", "unresolved" and so on.
    failures : list of Failure
    worst : dict
        Largest disagreement with each judge.
    """

    examples: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    worst: dict[str, float] = field(default_factory=dict)

    def fail(self, number: int, cause: str, message: str, case: Case | None = None) -> None:
        """Count an example as wrong."""
        self.outcomes["wrong"] += 1
        self.failures.append(Failure(number, cause, message, case))

    def note_disagreement(self, judge: str, amount: float) -> None:
        """Keep the largest disagreement with a judge."""
        self.worst[judge] = max(self.worst.get(judge, 0.0), amount)

    @contextmanager
    def count_example(self, number: int, get_case: Callable[[], Case | None]) -> Iterator[None]:
        """Count any exception inside as a failure of this example.

        The case of a failure comes from `get_case`, as it is drawn inside.
        """
        self.examples += 1
        try:
            with limit_cpu_time(MAX_CPU_SECONDS):
                yield
        except WrongAnswer as error:
            message = str(error)
            self.fail(number, message.split(":")[0], message, get_case())
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{last.filename.rsplit('/', 1)[-1]}:{last.lineno}"
            cause = f"raised {type(error).__name__} in {where}"
            self.fail(number, cause, f"{cause}: {str(error)[:300]}", get_case())

    @property
    def report(self) -> str:
        """Return a description of each cause with its count and its smallest case."""
        parts = [f"{len(self.failures)} of {self.examples} examples are wrong."]
        for cause, count in Counter(failure.cause for failure in self.failures).most_common():
            same_cause = [failure for failure in self.failures if failure.cause == cause]
            smallest = min(same_cause, key=lambda failure: failure.size)
            code = "" if smallest.case is None else f"\n{smallest.case.code()}"
            parts.append(f"{count} x {cause}; example {smallest.number}: {smallest.message}{code}")
        return "\n\n".join(parts)

    def conclude(self, record_property: Callable[[str, Any], None], name: str) -> None:
        """Record the counts for the summary of the run, and fail if an example failed."""
        facts = {
            "name": name,
            "examples": self.examples,
            "outcomes": dict(self.outcomes),
            "worst": {judge: float(amount) for judge, amount in self.worst.items()},
        }
        record_property("torture", facts)
        assert not self.failures, self.report


class TimeLimitExceeded(Exception):
    """A fit that exceeded the limit of CPU time."""


@contextmanager
def limit_cpu_time(seconds: int) -> Iterator[None]:
    """Raise TimeLimitExceeded if the body takes more CPU seconds."""

    def stop(*_: Any) -> None:
        raise TimeLimitExceeded(f"more than {seconds} seconds")

    previous_handler = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous_handler)


def case_generator(name: str, number: int) -> np.random.Generator:
    """Return the generator of an example, the same on every machine."""
    return np.random.default_rng([zlib.crc32(name.encode()), number])


def check_case(case: Case, tally: Tally) -> tuple[Any, Judgment] | None:
    """Fit, judge and verify one case; return None if it was refused.

    Raises
    ------
    WrongAnswer
    """
    model = case.fit_or_refusal()
    if isinstance(model, FairspanError):
        if not case.may_be_refused:
            raise WrongAnswer(f"refused, though there is an answer: {model}")
        tally.outcomes["refused"] += 1
        return None
    judgment = judge_case(case, model)
    if case.must_be_optimal and judgment.status != "optimal":
        raise WrongAnswer(f"{judgment.status}, though the optimum is known: {model.solution_!r}")
    verification = case.verify(model)
    if not verification.holds:
        raise WrongAnswer(
            f"verification does not hold: {verification.messages}, {model.solution_!r}"
        )
    tally.outcomes[judgment.status] += 1
    if judgment.status in ("open gap", "estimated") and len(model.groups_) <= 2:
        tally.outcomes["open with two groups"] += 1
    return model, judgment
