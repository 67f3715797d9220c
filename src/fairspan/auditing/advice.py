"""Advice of verdicts and recommendations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

MORE_DIMENSIONS = ", or use more dimensions"
"""Last alternative of a step; a step is complete without it."""
_CONDITION = "If the verdict does not change, "


@dataclass(frozen=True)
class Advice:
    """Advised action, in steps.

    Attributes
    ----------
    steps : tuple of str
        One or more steps in the order in which they are taken, each of one or more sentences.
    offered_model : str or None
        Name of the fair model that the steps advise, perhaps on a condition. Where none is, figures
        of fair models are left to the section on repair.
    suggests_more_dimensions : bool
        Whether more dimensions are an alternative that the steps name. Pages say then at which
        larger numbers of dimensions PCA is shown to do no material harm.
    step_at_any_dimension : str
        The last step but one without its proposal of another number of dimensions, and without the
        full stop; empty if it proposes none. Reports, which try other numbers, replace the step.
    """

    steps: tuple[str, ...]
    offered_model: str | None = None
    suggests_more_dimensions: bool = False
    step_at_any_dimension: str = ""

    @property
    def numbered_steps(self) -> tuple[str, ...]:
        """The steps with their numbers, unless there is only one.

        Examples
        --------
        >>> Advice(("Use PCA.",)).numbered_steps
        ('Use PCA.',)
        >>> Advice(("Check the rows.", "Audit again.")).numbered_steps
        ('1. Check the rows.', '2. Audit again.')
        """
        if len(self.steps) == 1:
            return self.steps
        return tuple(f"{i}. {step}" for i, step in enumerate(self.steps, start=1))

    @property
    def text(self) -> str:
        """The steps in one paragraph."""
        return " ".join(self.numbered_steps)

    def after(self, first_steps: Sequence[str]) -> "Advice":
        """Return the advice with other steps before these."""
        return replace(self, steps=(*first_steps, *self.steps))

    def on_condition(self, first_steps: Sequence[str]) -> "Advice":
        """Return the advice after other steps, and only if these do not change the verdict."""
        first, *others = self.steps
        first = f"{_CONDITION}{first[0].lower()}{first[1:]}"
        return replace(self, steps=(*first_steps, first, *others))

    def with_dimension_steps(self, steps: Sequence[str]) -> "Advice":
        """Return the advice with these steps in place of the one that proposes a dimension.

        Examples
        --------
        >>> advice = Advice(("Use fewer dimensions.", "Claim nothing."), step_at_any_dimension="-")
        >>> advice.with_dimension_steps(["Use 2 dimensions."]).text
        '1. Use 2 dimensions. 2. Claim nothing.'
        """
        *before, proposal, last = self.steps
        new = replace(self, steps=(*steps, last), step_at_any_dimension="")
        if proposal.startswith(_CONDITION):
            return new.on_condition(before)
        return new.after(before)

    def without_more_dimensions(self) -> "Advice":
        """Return the advice whose steps do not name more dimensions as an alternative."""
        steps = tuple(step.replace(MORE_DIMENSIONS, "") for step in self.steps)
        return replace(self, steps=steps, suggests_more_dimensions=False)

    def __str__(self) -> str:
        return self.text


def offer_at_cost(
    decision: str, full_name: str, model: str, alternative: str = "compare other criteria"
) -> Advice:
    """Offer a fair model on the condition that its cost, to be decided on first, is acceptable.

    Parameters
    ----------
    decision : str
        First step, which says whose cost is to be accepted.
    full_name, model : str
        Name of the model in sentences, and as it is audited.
    alternative : str
        What to do instead, besides more dimensions, in the imperative.
    """
    return Advice(
        (
            decision,
            f"If it is, use {full_name} and report who pays.",
            f"If it is not, {alternative}{MORE_DIMENSIONS}.",
        ),
        offered_model=model,
        suggests_more_dimensions=True,
    )
