"""Advice of verdicts and recommendations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

_CONDITION = "If the verdict does not change, "
_MORE_DIMENSIONS = ", or use more dimensions"


@dataclass(frozen=True)
class Step:
    """Step of an advice, of one or more sentences.

    Attributes
    ----------
    action : str
        What to do, in the imperative.
    ending : str
        Continues the action, and follows the alternative of more dimensions if there is one; empty
        if the action is complete.
    suggests_more_dimensions : bool
        Whether more dimensions are an alternative to the action. Pages say then at which larger
        numbers of dimensions PCA is shown to do no material harm.
    same_dimension_action : str
        The action without its proposal of another number of dimensions, and without the full stop;
        empty if it proposes none. Reports, which try other numbers, replace the step.
    is_conditional : bool
        Whether the step is taken only if earlier ones do not change the verdict.

    Examples
    --------
    >>> Step("Keep PCA", ending=": no model helps.", suggests_more_dimensions=True).text
    'Keep PCA, or use more dimensions: no model helps.'
    >>> Step("Collect more rows.", is_conditional=True).text
    'If the verdict does not change, collect more rows.'
    """

    action: str
    ending: str = ""
    suggests_more_dimensions: bool = False
    same_dimension_action: str = ""
    is_conditional: bool = False

    @property
    def text(self) -> str:
        """The step as text."""
        alternative = _MORE_DIMENSIONS if self.suggests_more_dimensions else ""
        text = f"{self.action}{alternative}{self.ending}"
        if not self.is_conditional:
            return text
        return f"{_CONDITION}{text[0].lower()}{text[1:]}"

    def map_text(self, function: Callable[[str], str]) -> "Step":
        """Return the step with a function applied to its words."""
        return replace(
            self,
            action=function(self.action),
            ending=function(self.ending),
            same_dimension_action=function(self.same_dimension_action),
        )

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Advice:
    """Advised action, in steps.

    Attributes
    ----------
    steps : tuple of Step
        One or more steps in the order in which they are taken.
    offered_model : str or None
        Name of the fair model that the steps advise, perhaps on a condition. Where none is, figures
        of fair models are left to the section on repair.
    """

    steps: tuple[Step, ...]
    offered_model: str | None = None

    @classmethod
    def from_texts(cls, *texts: str, offered_model: str | None = None) -> "Advice":
        """Create advice of steps that are complete texts, on no condition.

        Examples
        --------
        >>> Advice.from_texts("Check the rows.", "Audit again.").text
        '1. Check the rows. 2. Audit again.'
        """
        return cls(tuple(Step(text) for text in texts), offered_model)

    @property
    def suggests_more_dimensions(self) -> bool:
        """Whether a step names more dimensions as an alternative."""
        return any(step.suggests_more_dimensions for step in self.steps)

    @property
    def dimension_step(self) -> Step | None:
        """The step that proposes another number of dimensions; None if none does."""
        return next((step for step in self.steps if step.same_dimension_action), None)

    @property
    def step_texts(self) -> tuple[str, ...]:
        """The steps as texts."""
        return tuple(step.text for step in self.steps)

    @property
    def numbered_steps(self) -> tuple[str, ...]:
        """The steps as texts with their numbers, unless there is only one.

        Examples
        --------
        >>> Advice.from_texts("Use PCA.").numbered_steps
        ('Use PCA.',)
        >>> Advice.from_texts("Check the rows.", "Audit again.").numbered_steps
        ('1. Check the rows.', '2. Audit again.')
        """
        texts = self.step_texts
        if len(texts) == 1:
            return texts
        return tuple(f"{i}. {text}" for i, text in enumerate(texts, start=1))

    @property
    def text(self) -> str:
        """The steps in one paragraph."""
        return " ".join(self.numbered_steps)

    def after(self, first_steps: Iterable[Step]) -> "Advice":
        """Return the advice with other steps before these."""
        return replace(self, steps=(*first_steps, *self.steps))

    def on_condition(self, first_steps: Iterable[Step]) -> "Advice":
        """Return the advice after other steps, and only if these do not change the verdict."""
        first, *others = self.steps
        return replace(self, steps=(*first_steps, replace(first, is_conditional=True), *others))

    def with_dimension_steps(self, steps: Sequence[Step]) -> "Advice":
        """Return the advice with these steps in place of the one that proposes a dimension.

        They are taken on the condition of that step.

        Examples
        --------
        >>> proposal = Step("Use fewer dimensions.", same_dimension_action="Collect more rows")
        >>> advice = Advice((proposal, Step("Claim nothing.")))
        >>> advice.with_dimension_steps([Step("Use 2 dimensions.")]).text
        '1. Use 2 dimensions. 2. Claim nothing.'
        """
        proposal = self.dimension_step
        assert proposal is not None
        position = self.steps.index(proposal)
        before = self.steps[:position]
        after = self.steps[position + 1 :]
        new = replace(self, steps=(*steps, *after))
        return new.on_condition(before) if proposal.is_conditional else new.after(before)

    def without_more_dimensions(self) -> "Advice":
        """Return the advice whose steps do not name more dimensions as an alternative."""
        steps = tuple(replace(step, suggests_more_dimensions=False) for step in self.steps)
        return replace(self, steps=steps)

    def map_text(self, function: Callable[[str], str]) -> "Advice":
        """Return the advice with a function applied to the words of its steps."""
        return replace(self, steps=tuple(step.map_text(function) for step in self.steps))

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
            Step(decision),
            Step(f"If it is, use {full_name} and report who pays."),
            Step(f"If it is not, {alternative}", ending=".", suggests_more_dimensions=True),
        ),
        offered_model=model,
    )
