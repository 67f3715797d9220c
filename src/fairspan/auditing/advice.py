"""Advice of verdicts and recommendations."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    """Advised action.

    Attributes
    ----------
    text : str
        One or more sentences.
    suggests_more_dimensions : bool
        Whether more dimensions are an alternative that the text names. Pages say then at which
        numbers of dimensions PCA is not shown to harm any group.
    """

    text: str
    suggests_more_dimensions: bool = False

    def __str__(self) -> str:
        return self.text
