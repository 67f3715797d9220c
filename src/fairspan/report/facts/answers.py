"""What a report is requested, and what answers it: ordinary PCA and each criterion."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairspan import registry
from fairspan.auditing.expected_losses import USUAL, Expectations
from fairspan.auditing.models import Audited, read_model
from fairspan.certificates.certificate import Certificate
from fairspan.drawing.picture import Display
from fairspan.errors import Incompatible, InvalidInput, InvalidType, kind_of
from fairspan.estimator.fit import fit_with_problem
from fairspan.formatting.text import settings as spelled_settings
from fairspan.formatting.text import spoken
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_means import Center, check_center
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.criteria import Criterion
from fairspan.problem.parameters import check_count, check_flag, field_values
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import criterion_of
from fairspan.progress import track
from fairspan.rows.groups import printable

PCA, PLAIN = "PCA", "total_error"

# Of more groups than these, some criteria may take minutes: they are for whoever asks for them.
MANY_GROUPS = 16
SLOW = ("error_gap", "robust_error_gap")
_NOT_COMPARED = (
    f"Of more than {MANY_GROUPS} groups its answer may take minutes, so it was not compared. Ask "
    "for it as the criterion, or among the criteria of write_report."
)


@dataclass(frozen=True)
class ReportSettings:
    """Which criteria are compared, at which dimension, about which centre.

    Attributes
    ----------
    criterion : Criterion
        The one that the report is mainly about.
    criteria : tuple of Criterion
        All but ordinary PCA, the main one first.
    are_chosen : bool
        Whether the compared criteria were chosen by the user.
    n_components : int, float or None
        d; or the share of every group's variance that the main criterion is to keep, 0.9 for None.
    center : {"global", "group", "none"}
    scale : bool
    displays : tuple of str or Display
        Pictures beside those of every page.
    estimates : Expectations
        How what new rows would show is estimated.
    """

    criterion: Criterion
    criteria: tuple[Criterion, ...]
    are_chosen: bool
    n_components: int | float | None
    center: Center
    scale: bool
    displays: tuple[str | Display, ...] = ()
    estimates: Expectations = USUAL

    @classmethod
    def of(
        cls,
        criterion: object,
        criteria: Sequence[object] | None,
        n_components: int | float | None,
        center: Any,
        scale: Any,
        displays: Sequence[object] | None = None,
        estimates: Expectations = USUAL,
    ) -> "ReportSettings":
        """Read and check settings.

        Raises
        ------
        InvalidParameter, InvalidType
            A setting out of range.

        Examples
        --------
        >>> asked = ReportSettings.of("error_gap", ["minimax_loss"], None, "global", False)
        >>> [each.name for each in asked.criteria]
        ['error_gap', 'minimax_loss']
        """
        main = criterion_of(criterion)
        wanted = _several("displays", displays or ())
        for each in wanted:
            if isinstance(each, str | registry.Foreign):
                registry.factory_of("display", each)
            else:
                registry.object_of("display", each, Display)
        check_center(center)
        check_flag("scale", scale)
        is_share = isinstance(n_components, float) and 0 < n_components < 1
        if n_components is not None and not is_share:
            check_count("n_components", n_components)
        others: Sequence[Any] = (
            [name for name in registry.names_of("criterion") if name != main.name]
            if criteria is None
            else _several("criteria", criteria)
        )
        # Each once; compared, as some hold a mapping and so have no hash.
        chosen = [main, *map(criterion_of, others)]
        chosen = [each for i, each in enumerate(chosen) if each not in chosen[:i]]
        if center != "group":  # there it is not what everybody calls PCA, but one more criterion
            chosen = [each for each in chosen if each.name != PLAIN]
        told = (n_components, center, scale, tuple(wanted), estimates)
        return cls(main, tuple(chosen), criteria is not None, *told)

    @property
    def is_plain(self) -> bool:
        """Whether the main criterion is what ordinary PCA minimises."""
        return self.criterion.name == PLAIN and self.center != "group"


@dataclass(frozen=True, eq=False)
class Answer:
    """What minimises a criterion.

    Attributes
    ----------
    name : str
        As it is shown; different for each answer of a report.
    subspace : FairSubspace
    problem : Problem
        Without a restriction.
    is_main : bool
    """

    name: str
    subspace: FairSubspace
    problem: Problem
    is_main: bool

    @property
    def certificate(self) -> Certificate:
        """What proves how good the subspace is."""
        return self.subspace.proven

    @property
    def criterion(self) -> Criterion:
        """What was minimised."""
        return self.problem.criterion


@dataclass(frozen=True, eq=False)
class Answers:
    """Those of all criteria that have one, ordinary PCA first.

    Attributes
    ----------
    plain : Answer
    others : tuple of Answer
    without : tuple of (str, str)
        Name of each criterion that has no answer here, and why.
    center : {"global", "group", "none"}
        About which errors are measured.
    """

    plain: Answer
    others: tuple[Answer, ...]
    without: tuple[tuple[str, str], ...]
    center: Center

    def __iter__(self) -> Iterator[Answer]:
        return iter((self.plain, *self.others))

    @property
    def main(self) -> Answer:
        """That of the main criterion."""
        return next(each for each in self if each.is_main)

    @property
    def audited(self) -> list[Audited]:
        """All of them as an audit takes them."""
        # Ordinary PCA knows no groups: only its errors are measured about each group's own mean.
        judged = replace(self.plain.subspace, center=self.center)
        plain = replace(read_model(PCA, judged), is_plain_pca=True)
        others = (read_model(spoken(each.name), each.subspace) for each in self.others)
        return [plain, *(replace(each, baseline=PCA) for each in others)]


def answers_of(moments: GroupMoments, settings: ReportSettings, n_components: int) -> Answers:
    """Fit ordinary PCA, and every criterion that was requested.

    Raises
    ------
    Incompatible, InvalidInput, UnknownGroup
        The main criterion has no answer for these groups at this dimension.
    """
    about: Center = "none" if settings.center == "none" else "global"
    pca, problem, _ = fit_with_problem(
        moments, n_components, criterion=PLAIN, center=about, scale=settings.scale
    )
    answers, without = [], []
    named = list(zip(settings.criteria, names_of(settings.criteria), strict=True))
    for criterion, name in track("comparing criteria", named, "criteria"):
        is_main = criterion is settings.criterion
        if (
            moments.n_groups > MANY_GROUPS
            and criterion.name in SLOW
            and not (is_main or settings.are_chosen)
        ):
            without.append((name, _NOT_COMPARED))
            continue
        try:
            fair, own, _ = fit_with_problem(
                moments,
                n_components,
                criterion=criterion,
                center=settings.center,
                scale=settings.scale,
            )
        except (Incompatible, InvalidInput) as error:
            if is_main:
                raise
            without.append((name, printable("{}. {}.".format(*error.args))))
            continue
        answers.append(Answer(name, fair, own, is_main))
    return Answers(
        Answer(PCA, pca, problem, settings.is_plain),
        tuple(answers),
        tuple(without),
        settings.center,
    )


def names_of(criteria: Sequence[Criterion]) -> list[str]:
    """What the answers are called: by their criterion, with its settings where two share it.

    Examples
    --------
    >>> from fairspan.problem.criteria import ErrorGap, MinimaxLoss
    >>> names_of([MinimaxLoss(), ErrorGap(0.5), ErrorGap(2.0)])
    ['minimax_loss', 'error_gap (penalty=0.5)', 'error_gap (penalty=2.0)']
    >>> names_of([MinimaxLoss(relative=True)])
    ['relative_minimax_loss']
    """
    names = [f"relative_{each.name}" if each.relative else each.name for each in criteria]
    return [
        name
        if names.count(name) == 1
        else f"{name} ({printable(spelled_settings(field_values(each)))})"
        for name, each in zip(names, criteria, strict=True)
    ]


def _several(what: str, given: Any) -> Sequence[Any]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return given
    raise InvalidType(
        f"{what} is {kind_of(given)}",
        f"Allowed: a sequence of names or objects: several {what}",
        "Pass a list, even of a single one",
    )
