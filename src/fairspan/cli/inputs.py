"""Input data of the commands: rows of a file, or saved moments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

from fairspan.cli.command import usage_error_if
from fairspan.cli.option_values import ReadOptions
from fairspan.cli.row_input import (
    NUMERIC_MODEL_FEATURES,
    check_numeric_features,
    is_archive_file,
    open_row_source,
)
from fairspan.errors import InvalidInput
from fairspan.estimator.fit_settings import DEFAULT_VARIANCE_KEPT
from fairspan.formatting.messages import counted
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.problem.part_parameters import check_n_components
from fairspan.registry import ExternalObject
from fairspan.rows.aggregation import Rows
from fairspan.rows.attributes import RowsWithAttributes
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.missing import costliest_features, count_missing
from fairspan.rows.opening import match_groups
from fairspan.rows.protocol import RowSource


@dataclass(frozen=True)
class InputData:
    """Rows of a file, or saved moments.

    Attributes
    ----------
    row_source : RowSource or None
        Rows; None if the data are saved moments.
    saved_moments : GroupMoments or None
        Moments, of all files together; None if the data are rows.
    limit : GroupLimit
        Limits on the number of groups and on memory.
    restriction_columns : tuple of str or int
        Non-feature columns required by a restriction.
    blocks : tuple of GroupMoments
        Moments of the individual files, if there are several.
    is_of_model : bool
        Whether the features are those of a saved model, none of which can be left out.
    """

    row_source: RowSource | None
    saved_moments: GroupMoments | None = None
    limit: GroupLimit = DEFAULT_GROUP_LIMIT
    restriction_columns: tuple[str | int, ...] = ()
    blocks: tuple[GroupMoments, ...] = ()
    is_of_model: bool = False

    @cached_property
    def moments(self) -> GroupMoments:
        """Moments of the data, computed once from the rows unless they are saved.

        Raises
        ------
        InvalidInput
            There is only one group, which may be due to rows that were dropped.
        """
        if self.saved_moments is not None:
            moments = self.saved_moments.with_attributes(self.restriction_columns)
        else:
            moments = compute_group_moments(self.rows("reading"), self.limit)
        if moments.n_groups < 2:
            raise self._single_group_error(moments)
        return moments

    def _single_group_error(self, moments: GroupMoments) -> InvalidInput:
        """Return the error for a single group, with the features that dropped rows lack."""
        received = f"All rows belong to one group ({moments.labels[0]!r})"
        allowed = "Allowed: two or more groups"
        if not moments.n_dropped:
            return InvalidInput(received, allowed, "Check the group column, or use ordinary PCA")
        total = int(moments.counts.sum()) + moments.n_dropped
        return InvalidInput(
            f"{received}; {moments.n_dropped:,} of {total:,} rows were dropped because a value is "
            "missing",
            allowed,
            "Exclude features that cause many rows to be dropped, "
            f"--exclude{self._describe_costliest_features()}",
        )

    def _describe_costliest_features(self) -> str:
        """Return a colon and the features that alone cause the most dropped rows, or nothing.

        This reads the rows once more.
        """
        if self.row_source is None:
            return ""
        cells = count_missing(self.row_source)
        names = self.row_source.feature_names or ()
        costs = [
            f"{name!r} ({counted(n, 'row')} by itself)"
            for name, n in costliest_features(cells, names)
        ]
        if not costs:
            return ""
        return f": {', '.join(costs)}"

    def resolve_dimension(self, n_components: int | float | None) -> int | float:
        """Return the requested dimension or share, or the default; checked before rows are read."""
        if n_components is None:
            return DEFAULT_VARIANCE_KEPT
        data = self.moments if self.row_source is None else self.row_source
        check_n_components(n_components, data.n_features, allow_fraction=True)
        return n_components

    def rows(self, activity: str) -> Rows:
        """Return the rows with the columns of the restriction.

        `activity` is the name that the progress bar shows while rows of files are read.

        Raises
        ------
        InvalidInput
            A feature is not numeric.
        """
        assert self.row_source is not None
        if self.is_of_model:
            # A model needs all of its features, so the message must not suggest to exclude some.
            allowed, remedy = NUMERIC_MODEL_FEATURES
            check_numeric_features(self.row_source, allowed, remedy)
        else:
            check_numeric_features(self.row_source)
        rows: Rows = self.row_source
        if isinstance(rows, FileRows):
            rows = replace(rows, stage_name=activity)
        if not self.restriction_columns:
            return rows
        return RowsWithAttributes.wrap(rows, self.restriction_columns)

    def select_features(
        self, names: tuple[str, ...] | None, attributes: Sequence[str | int] = ()
    ) -> "InputData":
        """Return the data with the features of a model and the columns of its restriction.

        Parameters
        ----------
        names : tuple of str or None
            Names of the features, in the order of the model; None to leave them as they are.
        attributes : sequence of str or int
            Columns that the restriction needs in addition.
        """
        data = replace(self, restriction_columns=tuple(attributes))
        if names is None or self.row_source is None:
            # Saved moments keep all their features.
            return data
        # Read as features first, the columns of the restriction become attributes in `rows`.
        source = self.row_source.select_features((*names, *map(str, attributes)))
        return replace(data, row_source=source, is_of_model=True)

    def matched_to(self, known: KnownLabels) -> "InputData":
        """Return the data with labels of a fit, `known`, in place of those that are equal as text.

        The label 1 of a CSV file, for example, may have been "1" in the fit.
        """
        rows = None if self.row_source is None else match_groups(self.row_source, known)
        saved = None if self.saved_moments is None else self.saved_moments.matched_to(known)
        blocks = tuple(block.matched_to(known) for block in self.blocks)
        return replace(
            self, row_source=cast(RowSource | None, rows), saved_moments=saved, blocks=blocks
        )


def open_input(
    path: Path | ExternalObject, read_options: ReadOptions, clusters: str | None = None
) -> InputData:
    """Open a file of rows (with an optional cluster column) or of saved moments.

    Raises
    ------
    click.UsageError
        An option does not apply to this kind of input.
    InvalidInput, CorruptFile
    """
    has_clusters = clusters is not None
    if isinstance(path, Path) and is_archive_file(path):
        moments = GroupMoments.load(path)
        read_options.reject_for_moments(path)
        usage_error_if(has_clusters, f"--clusters requires rows, but {path} contains moments.")
        return InputData(None, moments)
    usage_error_if(
        isinstance(path, ExternalObject) and has_clusters,
        f"--clusters is not supported for {path}.",
    )
    return InputData(
        open_row_source(read_options, path, clusters),
        limit=read_options.resources.group_limit,
    )


def open_inputs(
    paths: Sequence[Path | ExternalObject], read_options: ReadOptions, clusters: str | None = None
) -> InputData:
    """Open one input, or several files of saved moments, which are added.

    The moments of the single files are kept as `blocks`: their variation gives intervals.
    """
    first = open_input(paths[0], read_options, clusters)
    if len(paths) == 1:
        return first
    for path in paths:
        usage_error_if(
            not (isinstance(path, Path) and is_archive_file(path)),
            f"Several inputs must all be saved moments, but {path} is not; create them with "
            "fairspan moments.",
        )
    blocks = tuple(GroupMoments.load(path) for path in paths if isinstance(path, Path))
    return replace(first, saved_moments=sum(blocks[1:], start=blocks[0]), blocks=blocks)


def open_held_out_rows(
    path: Path,
    read_options: ReadOptions,
    names: tuple[str, ...] | None,
    attributes: Sequence[str | int] = (),
    clusters: str | None = None,
) -> Rows:
    """Open held-out rows with the same options, without y: models are not refitted on them.

    Parameters
    ----------
    path : Path
    read_options : ReadOptions
    names : tuple of str or None
        Features of the models; None for all.
    attributes : sequence of str or int
        Columns that restrictions of the models need in addition.
    clusters : str, optional
        Cluster column.

    Raises
    ------
    InvalidInput
        The file holds moments, or a feature is not numeric.
    """
    if read_options.columns.y_column is not None:
        # A column that has no role would be read as a feature.
        columns = replace(
            read_options.columns,
            y_column=None,
            exclude=(*read_options.columns.exclude, read_options.columns.y_column),
        )
        read_options = replace(read_options, columns=columns)
    data = open_input(path, read_options, clusters)
    if data.row_source is None:
        raise InvalidInput(
            f"{path} holds moments, which hold no rows",
            "Allowed for held-out rows: a file of rows",
            "Name such a file with --test",
        )
    return data.select_features(names, attributes).rows("auditing")
