"""Verdict on one model compared with ordinary PCA."""

from dataclasses import dataclass
from typing import Literal

from fairspan.auditing.advice import Advice
from fairspan.formatting.terminal import wrap_text
from fairspan.rows.labels import Label

_INDENT = "  "
# Below the text of a numbered step.
_STEP_INDENT = _INDENT + " " * len("1. ")

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
    advice : Advice
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
    advice: Advice
    model: str
    groups: tuple[Label, ...] = ()
    n_agreeing: int = 1
    n_repeats: int = 1

    @property
    def recommendation(self) -> str:
        """Recommended action, as text."""
        return self.advice.text

    def to_dict(self) -> dict[str, object]:
        """Return JSON-serializable values."""
        return {
            "kind": self.kind,
            "summary": self.summary,
            "recommendation": self.recommendation,
            "steps": list(self.advice.step_texts),
            "model": self.model,
            "groups": list(self.groups),
            "n_agreeing": self.n_agreeing,
            "n_repeats": self.n_repeats,
        }

    @property
    def evidence(self) -> str:
        """The kind with the summary, without the recommendation."""
        text = self.kind[0].upper() + self.kind[1:]
        if self.n_repeats > 1:
            text += f" (in {self.n_agreeing} of {self.n_repeats} fold assignments)"
        return f"{text}. {self.summary}"

    def to_lines(self, title: str, width: int) -> list[str]:
        """Return the verdict after its title, with several steps below it, wrapped to a width."""
        steps = self.advice.numbered_steps
        if len(steps) == 1:
            return wrap_text(f"{title}: {self}", width, _INDENT)
        lines = wrap_text(f"{title}: {self.evidence}", width, _INDENT)
        lines.append("Recommendation:")
        for step in steps:
            lines += wrap_text(f"{_INDENT}{step}", width, _STEP_INDENT)
        return lines

    def __str__(self) -> str:
        return f"{self.evidence} {self.recommendation}"
