"""Verdict on one model compared with ordinary PCA."""

from dataclasses import dataclass
from typing import Literal

from fairspan.rows.labels import Label

VerdictKind = Literal[
    "harm, repair shifts it",
    "harm, repair at a cost",
    "harm, repair at a possible cost",
    "harm, repair helps",
    "harm, repair makes it worse",
    "harm, repair not shown to help",
    "harm, no repair tried",
    "no material harm, repair harms",
    "inconclusive",
    "no material harm",
]
"""Possible verdicts; the first that applies is given."""


@dataclass(frozen=True)
class Verdict:
    """Verdict on one model compared with ordinary PCA.

    Attributes
    ----------
    kind : str
        One of the ten kinds.
    summary : str
        Summary of the evidence.
    recommendation : str
        Recommended action.
    model : str
        Name of the fair model, or of the only model.
    groups : tuple of labels
        Groups concerned.
    n_agreeing, n_repeats : int
        Number of fold assignments with this kind of verdict, and number of assignments.
    """

    kind: VerdictKind
    summary: str
    recommendation: str
    model: str
    groups: tuple[Label, ...] = ()
    n_agreeing: int = 1
    n_repeats: int = 1

    def __str__(self) -> str:
        text = self.kind[0].upper() + self.kind[1:]
        if self.n_repeats > 1:
            text += f" (in {self.n_agreeing} of {self.n_repeats} fold assignments)"
        return f"{text}. {self.summary} {self.recommendation}"
