"""What is not proven of answers along a path."""

from collections.abc import Sequence

OPTIMAL, UNRESOLVED, NONE = "optimal", "unresolved", "no answer"


def unproven(statuses: Sequence[str]) -> str:
    """How many answers of a criterion are not proven optimal, in sentences; or nothing.

    Examples
    --------
    >>> unproven(["optimal", "open gap", "optimal"])
    'Of 3 answers, 1 is not proven optimal.'
    >>> unproven(["optimal", "unresolved", "optimal"])
    'Of 3 answers, 1 is unresolved: double precision cannot tell how close it is to the optimum.'
    >>> unproven(["optimal", "no answer"])
    ''
    """
    answers = [status for status in statuses if status != NONE]
    n_unresolved = answers.count(UNRESOLVED)
    n_open = len(answers) - n_unresolved - answers.count(OPTIMAL)
    of, sentences = f"Of {len(answers)} answers,", []
    if n_open:
        sentences.append(f"{of} {n_open} {_are(n_open)} not proven optimal.")
    if n_unresolved:
        close = "it is" if n_unresolved == 1 else "they are"
        sentences.append(
            f"{of} {n_unresolved} {_are(n_unresolved)} unresolved: double precision cannot tell "
            f"how close {close} to the optimum."
        )
    return " ".join(sentences)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
