"""What a report is asked, and all that it says: an audit, the fits, curves, and their origin."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from fairspan import registry
from fairspan.auditing.audit import Audit, audit_in_folds, audit_moments, audit_rows
from fairspan.auditing.expected_losses import USUAL, Expectations
from fairspan.auditing.models import (
    TOLERANCE_OF_CURVES,
    Audited,
    audited_pca,
    models_of,
    read_model,
)
from fairspan.auditing.results import ModelResult, Verdict, group_name, verdicts_of
from fairspan.displays.fitted import without_rounding
from fairspan.errors import Incompatible, InvalidInput, InvalidType, kind_of
from fairspan.estimator.fit import dimension_keeping, fit_with_problem
from fairspan.extending import Display
from fairspan.formatting.results import plain
from fairspan.formatting.text import called, percent, spoken
from fairspan.formatting.text import settings as spelled_settings
from fairspan.linalg.resources import memory_error_hint, threads_of
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_means import Center, check_center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import FoldMoments
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.criteria import Criterion
from fairspan.problem.problem import check_n_components, used_parameters
from fairspan.problem.reduction import criterion_of
from fairspan.progress import track, whole
from fairspan.registry import check_count, check_flag, field_values
from fairspan.report.curves import PCA, Curves, Fit, curves_of
from fairspan.report.program import Origin, provenance, verification_of
from fairspan.rows.groups import printable
from fairspan.rows.protocol import Rows

PLAIN = "total_error"
# Of more groups than these, some criteria may take minutes: they are for whoever asks for them.
_MANY_GROUPS = {"error_gap": 16, "robust_error_gap": 2}
_NOT_COMPARED = (
    "Of more than {} groups its answer may take minutes, so it was not compared. Ask for it as the "
    "criterion, or among the criteria of write_report."
)
# Of more groups, the error gaps are not fitted again without each part of the rows.
_FEW_GROUPS = 2
_NOT_REFITTED = (
    "not fitted again without each part of the rows, which takes its time with more than {} "
    "groups. Request it as the criterion"
)
_IN_ONE_PART = "moments alone give no estimates for new rows"
SHARE_KEPT = 0.9
# Matrices of more features, one for each group, are too large to compare so many answers.
_MOST_FEATURES = 1000
# Of float64's sixteen digits the last four are left to rounding.
_DIGITS = 12


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
    displays: tuple[Any, ...] = ()
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

    def check_size(self, n_features: int) -> None:
        """Make sure that these are not too many features, nor too few for d.

        Raises
        ------
        InvalidInput, InvalidParameter
        """
        if n_features > _MOST_FEATURES:
            raise InvalidInput(
                f"A report received {n_features} features",
                f"Allowed: {_MOST_FEATURES} at most, as dozens of answers are compared",
                "Choose features, or use FairPCA and audit, which take any number",
            )
        if self.n_components is not None:
            check_n_components(self.n_components, n_features, or_share=True)


def _several(what: str, given: Any) -> Sequence[Any]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return given
    raise InvalidType(
        f"{what} is {kind_of(given)}",
        f"Allowed: a sequence of names or objects: several {what}",
        "Pass a list, even of a single one",
    )


@dataclass(frozen=True, eq=False)
class Given:
    """Models of the user, audited.

    Attributes
    ----------
    audit : Audit
    kinds : tuple of str
        What each of them is, in words.
    held_out : bool
        Whether other rows than those of the page judge them.
    """

    audit: Audit
    kinds: tuple[str, ...]
    held_out: bool


@dataclass(frozen=True, eq=False)
class Report:
    """All that a report says.

    Attributes
    ----------
    audit : Audit
        Of ordinary PCA and then of the others; what is only rounding is zero.
    fits : tuple of Fit
        One for each model of the audit.
    curves : Curves
        Over the dimension, and what the slider walks along.
    origin : Origin
    moments : GroupMoments
    asked : ReportSettings
    unavailable : tuple of (str, str)
        The criteria without an answer here, each with why.
    given : Given or None
    displays : tuple of (str, Display)
        Pictures beside those of every page, by their names.
    """

    audit: Audit
    fits: tuple[Fit, ...]
    curves: Curves
    origin: Origin
    moments: GroupMoments
    asked: ReportSettings
    unavailable: tuple[tuple[str, str], ...] = ()
    given: Given | None = None
    displays: tuple[tuple[str, Display], ...] = ()

    @property
    def place(self) -> int:
        """Position of the main answer: that of ordinary PCA, or the one after it."""
        return 0 if self.asked.is_plain else 1

    @property
    def plain(self) -> ModelResult:
        """Ordinary PCA."""
        return self.audit.models[0]

    @property
    def main(self) -> ModelResult:
        """The main answer."""
        return self.audit.models[self.place]

    @property
    def fit(self) -> Fit:
        """That of the main answer."""
        return self.fits[self.place]

    @property
    def verdict(self) -> Verdict | None:
        """That on the main answer; None without estimates for new rows."""
        return next((each for each in self.audit.verdicts if each.model == self.main.name), None)

    @property
    def is_completed(self) -> bool:
        """Whether moments were estimated from rows with missing cells."""
        return self.moments.completion is not None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The groups, as they are shown."""
        return tuple(called(group_name(group.group)) for group in self.plain.groups)

    @property
    def features(self) -> list[str]:
        """Their names, whole."""
        names = self.moments.feature_names or [f"feature {i}" for i in range(self.n_features)]
        return [printable(name) for name in names]

    @property
    def n_features(self) -> int:
        """p."""
        return self.moments.n_features

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return not np.array_equal(self.moments.weights, self.moments.counts)

    @property
    def has_estimates(self) -> bool:
        """Whether it is known what new rows would show of any group."""
        return self.plain.has_estimates

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What was requested, and what was made of it."""
        wanted, made = self.asked.n_components, self.fit.certificate
        kept = percent(SHARE_KEPT if wanted is None else wanted)
        return {
            "n_components": self.plain.n_components,
            "chosen_by": "asked"
            if isinstance(wanted, int)
            else f"the fewest that keep {kept} of every group's variance",
            "center": self.asked.center,
            "standardize": bool(self.asked.scale),
            "criterion": self.asked.criterion.name,
            "parameters": used_parameters(made.criterion, made.groups),
        }

    def total_change(self, model: ModelResult) -> float | None:
        """How much more error than ordinary PCA a model has over all rows, as a share."""
        before = self.plain.total_error_here
        return model.total_error_here / before - 1 if before > self.plain.rounding else None

    def in_short(self, text: str, spelled: Callable[[str], str] = str) -> str:
        """A text with very long names of groups and features without their middles.

        Parameters
        ----------
        text : str
        spelled : callable
            How the text spells a name.
        """
        groups = [group_name(group.group) for group in self.plain.groups]
        for name in {*groups, *self.features, self.origin.name}:
            if name.strip():
                text = text.replace(spelled(name), spelled(called(name)))
        return text

    @cached_property
    def verification(self) -> dict[str, Any]:
        """How the certificate of the main answer is verified."""
        return {
            "model": self.main.name,
            **verification_of(self.fit, self.origin.moments),
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON: the audit, and what a page has beside it."""
        facts: dict[str, Any] = plain(
            {
                "title": printable(self.origin.title),
                "data": {
                    "name": printable(self.origin.name),
                    "feature_names": self.features,
                    "weighted": self.is_weighted,
                },
                "settings": self.settings,
                "main": self.main.name,
                **self.audit.to_dict(),
                "certificates": [
                    {"model": each.name, **each.certificate.to_dict()} for each in self.fits
                ],
                "unavailable": [{"name": name, "why": why} for name, why in self.unavailable],
                **self.curves.to_dict(self.main.name, self.features),
                "given": self.given
                and {
                    "held_out": self.given.held_out,
                    "kinds": self.given.kinds,
                    **self.given.audit.to_dict(),
                },
                "verification": self.verification,
                "made": {**provenance(self.origin), "parameters": self.settings},
            },
            _DIGITS,
        )
        shown = [
            {"name": name, "data": each.frame().to_dict("list")} for name, each in self.displays
        ]
        return {**facts, "displays": plain(shown)}


# From the first look at the rows to the page; drawing is not counted, and takes about what is left.
making_a_report = partial(
    whole,
    "making the report",
    reading=10,
    comparing_criteria=15,
    auditing=10,
    fitting_again_without_each_part=25,
    comparing_numbers_of_dimensions=15,
    drawing=25,
)


@memory_error_hint()
def report_of(
    moments: GroupMoments,
    rows: Rows | None,
    asked: ReportSettings,
    origin: Origin,
    *,
    models: Sequence[Audited] = (),
    test: Rows | None = None,
    max_memory: int | None = None,
) -> Report:
    """Fit, audit and draw curves: everything there is to say about some rows.

    Parameters
    ----------
    moments : GroupMoments
        Of the rows.
    rows : RowSource, PartedRows or None
        The rows again, read twice for estimates and intervals; None for none.
    asked : ReportSettings
    origin : Origin
    models : sequence of Audited
        Models of the user.
    test : RowSource, PartedRows or None
        Held-out rows that judge these models; None for the rows of the report.
    max_memory : int, optional
        Bytes that moments by fold may take, where that was set.

    Raises
    ------
    Incompatible, InvalidInput, InvalidParameter, UnknownGroup
        One group only, too many features, or no answer of the main criterion.
    """
    asked.check_size(moments.n_features)
    if moments.n_groups < 2:
        raise InvalidInput(
            f"All rows are of one group ({moments.labels[0]!r})",
            "Allowed: two groups or more",
            "Check the group column, or use ordinary PCA",
        )
    wanted = SHARE_KEPT if asked.n_components is None else asked.n_components
    estimates = replace(asked.estimates, max_memory=max_memory)
    # Hundreds of small eigenproblems: where cores are shared, threads would wait for each other.
    with threads_of(None):
        d = dimension_keeping(
            moments, wanted, asked.criterion, center=asked.center, scale=asked.scale
        )
        fits, unavailable = fits_of(moments, asked, d)
    audit, folds = audit_of(fits, rows, moments, asked, estimates)
    with threads_of(None):
        main = fits[0 if asked.is_plain else 1]
        curves = curves_of(moments, audit, fits[0], main, folds, asked.center)
    return Report(
        audit,
        fits,
        curves,
        origin,
        moments,
        asked,
        unavailable,
        _given(models, rows, test, moments, estimates) if models else None,
    )


def fits_of(
    moments: GroupMoments, asked: ReportSettings, n_components: int
) -> tuple[tuple[Fit, ...], tuple[tuple[str, str], ...]]:
    """Ordinary PCA and every criterion that was requested; and those without an answer, with why.

    Raises
    ------
    Incompatible, InvalidInput, UnknownGroup
        The main criterion has no answer for these groups at this dimension.
    """
    about: Center = "none" if asked.center == "none" else "global"
    pca, problem, _ = fit_with_problem(
        moments, n_components, criterion=PLAIN, center=about, scale=asked.scale
    )
    fits, without = [Fit(PCA, pca, problem)], []
    shared = problem.second_moments if about == asked.center else None
    named = list(zip(asked.criteria, names_of(asked.criteria), strict=True))
    for criterion, name in track("comparing criteria", named, "criteria"):
        is_main = criterion is asked.criterion
        most = _MANY_GROUPS.get(criterion.name, moments.n_groups)
        if moments.n_groups > most and not (is_main or asked.are_chosen):
            without.append((name, _NOT_COMPARED.format(most)))
            continue
        try:
            fair, own, _ = fit_with_problem(
                moments,
                n_components,
                criterion=criterion,
                center=asked.center,
                scale=asked.scale,
                second=shared if isinstance(shared, DenseSecondMoments) else None,
            )
        except (Incompatible, InvalidInput) as error:
            if is_main:
                raise
            without.append((name, printable("{}. {}.".format(*error.args))))
            continue
        fits.append(Fit(name, fair, own))
    return tuple(fits), tuple(without)


def names_of(criteria: Sequence[Criterion]) -> list[str]:
    """What the answers are called: by their criterion, with its settings where two share it.

    Examples
    --------
    >>> from fairspan.problem.criteria import ErrorGap, MinimaxLoss
    >>> names_of([MinimaxLoss(), ErrorGap(0.5), ErrorGap(2.0)])
    ['minimax loss', 'error gap (penalty=0.5)', 'error gap (penalty=2.0)']
    >>> names_of([MinimaxLoss(relative=True)])
    ['relative minimax loss']
    """
    names = [spoken(f"relative_{each.name}" if each.relative else each.name) for each in criteria]
    return [
        name
        if names.count(name) == 1
        else f"{name} ({printable(spelled_settings(field_values(each)))})"
        for name, each in zip(names, criteria, strict=True)
    ]


def audit_of(
    fits: Sequence[Fit],
    rows: Rows | None,
    moments: GroupMoments,
    asked: ReportSettings,
    estimates: Expectations,
) -> tuple[Audit, FoldMoments | None]:
    """The audit of all fits, and moments by fold; of many groups, not all have estimates."""
    # Ordinary PCA knows no groups: only its errors are measured about each group's own mean.
    pca = read_model(PCA, replace(fits[0].subspace, center=asked.center))
    audited = [replace(pca, is_plain_pca=True)]
    for each in fits[1:]:
        model = replace(
            read_model(each.name, each.subspace), baseline=PCA, refit_tol=TOLERANCE_OF_CURVES
        )
        is_slow = each.problem.criterion.name in _MANY_GROUPS and moments.n_groups > _FEW_GROUPS
        if is_slow and each.problem.criterion != asked.criterion:
            model = replace(model, why_not_refitted=_NOT_REFITTED.format(_FEW_GROUPS))
        audited.append(model)
    folds = None
    if rows is None:
        audit = audit_moments(audited, [moments])
    else:
        options = replace(estimates, has_labels=moments.by_label is not None)
        audit, folds = audit_in_folds(audited, rows, moments, options=options)
    unknown = {each.name for each in audited if each.why_not_refitted}
    models = [_settled(model) for model in audit.models]
    if rows is None:
        models = [replace(model, why_no_estimates=_IN_ONE_PART) for model in models]
    verdicts = audit.verdicts
    if verdicts and asked.is_plain and len(models) > 1:
        # The others are about what it is compared with.
        own = verdicts_of(models[:1], audit.findings, audit.level, audit.material)
        verdicts = (*own, *verdicts)
    return (
        replace(
            audit,
            models=tuple(models),
            verdicts=tuple(each for each in verdicts if each.model not in unknown),
            findings=tuple(
                each for each in audit.findings if each.code != "FS110" or each.model not in unknown
            ),
        ),
        folds,
    )


def _settled(model: ModelResult) -> ModelResult:
    """The same, with zero for figures that are only rounding."""
    groups = tuple(
        replace(
            group,
            error_here=group.error_here.without_rounding(group.rounding_here),
            best_error_here=float(without_rounding(group.best_error_here, group.rounding_here)),
            loss_here=float(without_rounding(group.loss_here, group.rounding_here)),
        )
        for group in model.groups
    )
    disparity = model.disparity_here.without_rounding(model.rounding)
    return replace(model, groups=groups, disparity_here=disparity)


def read_models(models: Any, moments: GroupMoments) -> list[Audited]:
    """Models by their names, and ordinary PCA of the rows of the page beside each fair one."""
    audited = models_of(models, moments.n_features)
    names = {each.name for each in audited}
    added: dict[tuple[int, str, bool], Audited] = {}
    compared = []
    for each in audited:
        made = each.subspace.certificate
        if each.baseline is None and not each.is_plain_pca and made is not None:
            d, center = each.subspace.dimension, each.subspace.center
            kind = (d, center, each.subspace.scale is not None)
            if kind not in added:
                check_n_components(d, moments.n_features)
                name = f"PCA of {each.name}" if "PCA" in names else "PCA"
                names.add(name)
                added[kind] = audited_pca(moments, d, center, scale=kind[2], name=name)
            each = replace(each, baseline=added[kind].name)
        compared.append(each)
    return [*compared, *added.values()]


def _given(
    audited: Sequence[Audited],
    rows: Rows | None,
    test: Rows | None,
    moments: GroupMoments,
    estimates: Expectations,
) -> Given:
    """What the models of the user do to each group of the rows of the page, or of others."""
    judging, of_page = (rows, moments) if test is None else (test, None)
    has_labels = of_page is not None and of_page.by_label is not None
    audit = (
        audit_moments(audited, [moments])
        if judging is None
        else audit_rows(
            audited, judging, of_page, options=replace(estimates, has_labels=has_labels)
        )
    )
    by_name = {each.name: each for each in audited}
    kinds = tuple(_kind_of(by_name[model.name]) for model in audit.models)
    models = tuple(map(_settled, audit.models))
    return Given(replace(audit, models=models), kinds, test is not None)


def _kind_of(each: Audited) -> str:
    """What a model is, in words."""
    if each.by_rows is not None:
        return "no projection: errors of the rows"
    subspace: FairSubspace = each.subspace
    kinds = {"oblique": subspace.is_oblique, "soft": subspace.is_soft, "nested": subspace.is_nested}
    told = [kind for kind, is_so in kinds.items() if is_so]
    made = subspace.certificate
    if made is not None and not each.is_plain_pca:
        told.append(spoken(made.criterion.name))
    if made is not None and made.restriction is not None:
        told.append(f"with {made.restriction!r}")
    return ", ".join(told) or "projection"
