"""What the commands read, and what they fit to it: rows or moments, saved models, and fair ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import click

from fairspan.auditing.audit import Audit, audit_moments, audit_rows
from fairspan.auditing.models import (
    Audited,
    attributes_of,
    audited_pca,
    chosen_dimensions,
    known_labels_of,
    models_of,
    pca_by_dimension,
    read_model,
    with_plain_beside,
)
from fairspan.cli.options import Fitting, Judging, Reading, refuse_if
from fairspan.cli.reading import OF_MODEL, check_numeric, holds_archive, opened, reading_for
from fairspan.errors import CorruptFile, Incompatible, InvalidInput, UnknownGroup
from fairspan.estimator.fit import dimension_keeping, fit_subspace
from fairspan.formatting.text import count, counted, in_ascii, percent, spoken
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import matrices_of
from fairspan.problem.problem import check_n_components
from fairspan.problem.reduction import criterion_of, restriction_of
from fairspan.progress import clear_line
from fairspan.registry import Foreign
from fairspan.rows.attributes import RowsWithAttributes
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.groups import Label, listed, spelled
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.missing import missing_cells, most_costly
from fairspan.rows.protocol import USUAL_LIMIT, GroupLimit, Rows, RowSource
from fairspan.rows.registry import match_groups
from fairspan.solvers.solve import solver_of
from fairspan.storage import is_archive
from fairspan.verification import Verification, verify

# Without -d, the dimension that keeps this share of the pooled variance.
SHARE_KEPT = 0.9

# Of solvers that start anywhere: the same command gives the same model.
_SEED = 0


@dataclass(frozen=True)
class Input:
    """The rows of a file, or moments instead of rows.

    Attributes
    ----------
    source : RowSource or None
    saved : GroupMoments or None
    limit : GroupLimit
        How many groups the rows may have, and how much memory their moments may take.
    has_clusters : bool
        Whether the last column of the labels says which rows belong together.
    has_labels : bool
        Whether the last column, but for that, is the class of each row in y.
    attributes : tuple of str or int
        Columns that a restriction needs and that are no features.
    blocks : tuple of GroupMoments
        Of which the moments are the sum, where several files hold them.
    is_of_model : bool
        Whether the features are those of a saved model, none of which can be left out.
    """

    source: RowSource | None
    saved: GroupMoments | None = None
    limit: GroupLimit = USUAL_LIMIT
    has_clusters: bool = False
    has_labels: bool = False
    attributes: tuple[str | int, ...] = ()
    blocks: tuple[GroupMoments, ...] = ()
    is_of_model: bool = False

    @cached_property
    def moments(self) -> GroupMoments:
        """Moments of at least two groups, read once."""
        if self.saved is not None:
            moments = self.saved.apart(self.attributes)
        else:
            moments = matrices_of(
                self.rows("reading"),
                self.limit,
                has_labels=self.has_labels,
                by_cluster=self.has_clusters,
            )
        if moments.n_groups < 2:
            left_out, remedy = "", "Check the group column, or use ordinary PCA"
            if moments.n_dropped:
                n, n_dropped = int(moments.counts.sum()), moments.n_dropped
                left_out = f", of which {n:,} of {n + n_dropped:,} are left: in the others a value"
                left_out += " is missing"
                remedy = f"Leave out features that cost many rows, --exclude{self._most_costly()}"
            raise InvalidInput(
                f"All rows are of one group ({moments.labels[0]!r}){left_out}",
                "Allowed: two groups or more",
                remedy,
            )
        return moments

    def _most_costly(self) -> str:
        """The features because of which most rows are left out, after a colon."""
        if self.source is None:
            return ""
        cells = missing_cells(self.source, self.has_labels + self.has_clusters)
        names = self.source.feature_names or ()
        told = [
            f"{name!r} ({counted(n, 'row')} by itself)" for name, n in most_costly(cells, names)
        ]
        return f": {', '.join(told)}" if told else ""

    def check_dimension(self, n_components: int | float | None) -> int | float:
        """The number of dimensions, or share, that was requested, checked before rows are read."""
        if n_components is None:
            return SHARE_KEPT
        read = self.moments if self.source is None else self.source
        check_n_components(n_components, read.n_features, or_share=True)
        return n_components

    def rows(self, what: str) -> Rows:
        """The rows, telling how many have been read."""
        assert self.source is not None
        if self.is_of_model:
            check_numeric(self.source, *OF_MODEL)
        else:
            check_numeric(self.source)
        rows: Rows = self.source
        if isinstance(rows, FileRows):
            rows = replace(rows, activity=what)
        return RowsWithAttributes.of(rows, self.attributes) if self.attributes else rows

    def selected(
        self, names: tuple[str, ...] | None, attributes: Sequence[str | int] = ()
    ) -> "Input":
        """The same rows with these features, in this order, and these columns beside them."""
        table = replace(self, attributes=tuple(attributes))
        if names is None or self.source is None:
            return table
        source = self.source.selected((*names, *map(str, attributes)))
        return replace(table, source=source, is_of_model=True)

    def matched_to(self, known: KnownLabels) -> "Input":
        """The same rows or moments, with labels of a fit in place of those equal as text."""
        rows = None if self.source is None else match_groups(self.source, known)
        saved = None if self.saved is None else self.saved.matched_to(known)
        blocks = tuple(block.matched_to(known) for block in self.blocks)
        return replace(self, source=cast(RowSource | None, rows), saved=saved, blocks=blocks)


def open_input(path: Path | Foreign, reading: Reading, clusters: str | None = None) -> Input:
    """Open rows, and the column of their clusters if they have one; or saved moments."""
    has_clusters = clusters is not None
    if isinstance(path, Path) and holds_archive(path):
        moments = GroupMoments.load(path)
        reading.refuse_for_moments(path)
        refuse_if(has_clusters, f"{path} holds moments, which have no rows: no --clusters.")
        return Input(None, moments)
    refuse_if(
        isinstance(path, Foreign) and has_clusters,
        f"{path} makes rows without clusters: no --clusters.",
    )
    return Input(
        opened(reading, path, clusters),
        limit=reading.limit,
        has_clusters=has_clusters,
        has_labels=reading.label is not None,
    )


def open_inputs(
    paths: Sequence[Path | Foreign], reading: Reading, clusters: str | None = None
) -> Input:
    """Open one file of any kind, or several of saved moments, whose sum is taken."""
    first = open_input(paths[0], reading, clusters)
    if len(paths) == 1:
        return first
    for path in paths:
        refuse_if(
            not (isinstance(path, Path) and holds_archive(path)),
            f"{path} does not hold saved moments: several files are audited together only where "
            "all do; make them with fairspan moments.",
        )
    blocks = tuple(GroupMoments.load(path) for path in paths if isinstance(path, Path))
    return replace(first, saved=sum(blocks[1:], start=blocks[0]), blocks=blocks)


def plain_model(table: Input, asked: Fitting) -> Audited:
    """Ordinary PCA of the table."""
    wanted = table.check_dimension(asked.n_components)  # before the rows are read for moments
    d = dimension_keeping(table.moments, wanted, center=asked.center, scale=asked.standardize)
    tell_dimension(asked.n_components, d, table.moments.n_features, "PCA")
    return audited_pca(table.moments, d, asked.center, scale=asked.standardize)


def tell_dimension(
    n_components: int | float | None, chosen: int, n_features: int, name: str
) -> None:
    """Say on standard error how many dimensions a share, or nothing, was taken for."""
    if isinstance(n_components, int):
        return
    share = SHARE_KEPT if n_components is None else n_components
    why = "" if n_components is not None else "; choose others with -d"
    few = in_ascii(count(chosen, "dimension"))
    clear_line()
    click.echo(
        f"fairspan: -d {share:g}: {few} of {n_features}, the fewest with which {name} keeps "
        f"{in_ascii(percent(share))} of every group's variance{why}.",
        err=True,
    )


def saved_models(
    paths: Sequence[Path], asked: Fitting, parts: Sequence[Foreign] = (), *, has_center: bool
) -> list[Audited]:
    """Models from files, named by them; the centre counts where it was requested.

    Raises
    ------
    Incompatible
        A setting that was requested is not that of a model.
    """
    models = loaded(paths, parts)
    for name, model in models.items():
        for option, wanted, own in (
            ("-d", asked.n_components, model.n_components),
            ("--center", asked.center if has_center else None, model.center),
            ("--standardize", asked.standardize or None, model.scale is not None),
        ):
            if wanted not in (None, own):
                raise Incompatible(
                    f"The model {name} does not agree with {option}: it has "
                    f"{counted(model.n_components, 'dimension')}, center {model.center!r} and "
                    f"{'standardized' if model.scale is not None else 'unscaled'} features",
                    "A saved model brings its own dimensions, center and scaling",
                    f"Leave out {option}, or fit another model",
                )
    return models_of(models) if models else []


def loaded(paths: Sequence[Path], parts: Sequence[Foreign] = ()) -> dict[str, FairSubspace]:
    """Saved models by the names of their files, or by their paths where these are the same."""
    short = {path.name: path for path in paths}
    named = short if len(short) == len(paths) else {str(path): path for path in paths}
    made = [each.factory() for each in parts]
    return {name: FairSubspace.load(path, parts=made) for name, path in named.items()}


def held_out_rows(
    path: Path,
    reading: Reading,
    names: tuple[str, ...] | None,
    attributes: Sequence[str | int] = (),
    clusters: str | None = None,
) -> Rows:
    """Rows of another file, read as those of the page, but for their classes."""
    label = () if reading.label is None else (reading.label,)
    table = open_input(
        path, replace(reading, label=None, exclude=(*reading.exclude, *label)), clusters
    )
    if table.source is None:
        raise InvalidInput(
            f"{path} holds moments, which hold no rows",
            "Allowed for held-out rows: a file of rows",
            "Name such a file with --test",
        )
    return table.selected(names, attributes).rows("auditing")


def audited_table(
    table: Input, audited: Sequence[Audited], judging: Judging, test: Rows | None = None
) -> Audit:
    """The audit of models on rows, or on moments instead of rows.

    A saved fair model is compared with ordinary PCA of the table. Held-out rows, where there are
    some, judge the models as they are.
    """
    if any(each.is_fair and each.baseline is None for each in audited):
        audited = with_plain_beside(audited, table.moments)
    options = replace(judging.expectations, has_labels=table.has_labels and test is None)
    if table.source is None and test is None:
        blocks = [each.apart(table.attributes) for each in table.blocks]
        return audit_moments(audited, blocks or [table.moments], options)
    options = replace(options, max_memory=table.limit.max_memory)
    if test is not None:
        return audit_rows(audited, match_groups(test, known_labels_of(audited)), options=options)
    return audit_rows(audited, table.rows("auditing"), table.moments, options=options)


def verified_model(
    model: Path, data: Path | Foreign, reading: Reading, parts: Sequence[Foreign] = ()
) -> Verification:
    """The claims of a saved model's certificate, computed again."""
    (subspace,) = loaded([model], parts).values()
    reading = reading_for([subspace], data, reading)
    table = open_input(data, reading).selected(subspace.feature_names, attributes_of(subspace))
    table = table.matched_to(known_labels_of(subspace, has_classes=table.has_labels))
    return verify(subspace, table.moments)


def audit_by_dimension(table: Input, asked: Fitting, judging: Judging) -> Audit:
    """The audit of ordinary PCA with each of several numbers of dimensions, smallest first.

    Raises
    ------
    Incompatible
        The table is moments, from which no estimates for new rows can be made.
    """
    if table.source is None:
        raise Incompatible(
            "--by-dimension received saved moments",
            "Allowed: rows, from which estimates for new rows can be made",
            "Name the file of the rows",
        )
    dimensions = chosen_dimensions(max(table.source.n_features - 1, 1), 1)
    models = pca_by_dimension(table.moments, dimensions, asked.center, scale=asked.standardize)
    return audited_table(table, models, judging)


def columns_of_models(audited: Sequence[Audited]) -> tuple[str | int, ...]:
    """The columns that restrictions of some models need and that are no features."""
    return attributes_of({each.name: each.subspace for each in audited})


def labels_of_models(audited: Sequence[Audited], *, has_classes: bool) -> KnownLabels:
    """The labels that saved models were fitted on, to which those of rows are matched."""
    return known_labels_of(audited, has_classes=has_classes)


def columns_of_restriction(asked: Fitting) -> tuple[str | int, ...]:
    """The columns that the restriction needs and that are no features."""
    hide = restriction_of(asked.restriction, **asked.of_restriction)
    return () if hide is None else hide.columns


def fair_models(table: Input, asked: Fitting) -> tuple[FairSubspace, list[Audited]]:
    """The fair fit, and what to audit: ordinary PCA beside it."""
    # Settings are looked at before the rows are read.
    criterion_of(asked.criterion, **asked.parameters)
    hide = restriction_of(asked.restriction, **asked.of_restriction)
    solver = solver_of(asked.solver, **asked.of_solver)
    needs_labels = hide is not None and bool(hide.given_labels)
    refuse_if(
        needs_labels and table.source is not None and not table.has_labels,
        f"{hide!r} holds in classes of y: name its column, --label COL.",
    )
    dimension = table.check_dimension(asked.n_components)
    moments = table.moments
    fair = fit_subspace(
        moments,
        dimension,
        criterion=criterion_of(asked.criterion, **with_labels(asked.parameters, moments.labels)),
        restriction=restriction_of(
            asked.restriction, **with_classes(asked.of_restriction, moments)
        ),
        center=asked.center,
        scale=asked.standardize,
        solver=solver,
        tol=asked.tol,
        allow_extra=asked.allow_extra,
        nested=asked.nested,
        random_state=_SEED,
    )
    d, certificate = fair.dimension, fair.proven
    tell_dimension(asked.n_components, d, moments.n_features, spoken(certificate.criterion.name))
    plain = audited_pca(moments, d, asked.center, scale=asked.standardize)
    return fair, [plain, replace(read_model("fair", fair), baseline=plain.name)]


def refuse_replacing(path: Path, asked: Fitting) -> None:
    """Raise a usage error where a file would be replaced that is no model of these settings."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    remedy = "replace it with --force, or name another."
    refuse_if(not is_archive(path), f"{path} is not a model; {remedy}")
    try:
        old = FairSubspace.load(path)
    except CorruptFile:
        raise click.UsageError(f"{path} is not a readable model; {remedy}") from None
    certificate = old.certificate
    settings: dict[str, tuple[object, object]] = {
        "criterion": (
            None if certificate is None else certificate.criterion.name,
            criterion_of(asked.criterion, **asked.parameters).name,
        ),
        "center": (old.center, asked.center),
        "standardize": (old.scale is not None, asked.standardize),
        "dimensions": (
            old.n_components,
            asked.n_components if isinstance(asked.n_components, int) else old.n_components,
        ),
    }
    for name, (before, now) in settings.items():
        refuse_if(
            before != now,
            f"{path} holds a model of other settings ({name}: {before}, now {now}); {remedy}",
        )


def with_labels(parameters: Mapping[str, Any], labels: Sequence[Label]) -> dict[str, Any]:
    """The same parameters, with labels in place of the texts that name groups.

    Raises
    ------
    UnknownGroup
    """
    by_text: dict[str, list[Label]] = {}
    for label in labels:
        by_text.setdefault(spelled(label), []).append(label)

    def label_of(key: str, text: str) -> Label:
        matching = by_text.get(text, [])
        if len(matching) == 1:
            return matching[0]
        raise UnknownGroup(
            f"--param {key} names the group {text!r}"
            + (f", which matches {listed(matching)}" if matching else ""),
            f"Allowed: the groups {listed(list(by_text))}",
            "Give groups names that differ when printed" if matching else "Name one of them",
        )

    return {
        key: label_of(key, value)
        if isinstance(value, str)
        else {label_of(key, text): number for text, number in value.items()}
        if isinstance(value, dict)
        else value
        for key, value in parameters.items()
    }


def with_classes(parameters: Mapping[str, Any], moments: GroupMoments) -> dict[str, Any]:
    """The same parameters of a restriction, with classes of y in place of the texts naming them.

    Texts that name none stay: the restriction says which classes there are.
    """
    given, by_label = parameters.get("given_labels"), moments.by_label
    if not isinstance(given, list) or by_label is None:
        return dict(parameters)
    by_text = {spelled(pair[-1]): pair[-1] for pair in by_label.labels if isinstance(pair, tuple)}
    return {**parameters, "given_labels": [by_text.get(text, text) for text in given]}
