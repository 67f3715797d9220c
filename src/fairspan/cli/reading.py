"""How the command line says which rows are read, and where."""

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from fairspan.cli.table_options import csv_format
from fairspan.cli.text_columns import prepared

if TYPE_CHECKING:
    from fairspan.rows.engines import Engine
    from fairspan.rows.files.file_rows import FileRows
    from fairspan.rows.group_limit import GroupLimit
    from fairspan.rows.protocol import Rows, RowSource

_OF_FILES = ("numeric_only", "one_hot", "delimiter", "decimal", "encoding", "comment")
_CHOICE_OF_FEATURES = ("features", "exclude", "numeric_only", "one_hot")
_CHOICE_OF_COLUMNS = {"groups", "features", "exclude"}


@dataclass(frozen=True)
class Reading:
    """The options of commands that read rows with groups, by the names of the options.

    Attributes
    ----------
    groups : tuple of str
        Group columns.
    label : str or None
        Column of y, the class of each row.
    features, exclude : tuple of str
        Patterns of columns.
    max_groups : int or None
        Most groups.
    max_memory : int or None
        Bytes that the matrices of groups may take.
    weight : str or None
        Column of sample weights.
    on_missing : {"error", "drop"}
    numeric_only, one_hot : bool
        What becomes of columns of text.
    delimiter, decimal, encoding, comment : str or None
        How CSV files are written.
    jobs : int or None
        Processes of this machine.
    engine : {"dask", "spark"} or None
    scheduler : str or None
        Address of the cluster.
    unseen : {"error", "ignore"}
        What becomes of categories that a saved model does not know.
    """

    groups: tuple[str, ...] = ()
    label: str | None = None
    features: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_groups: int | None = None
    max_memory: int | None = None
    weight: str | None = None
    on_missing: Literal["error", "drop"] = "error"
    numeric_only: bool = False
    one_hot: bool = False
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    comment: str | None = None
    jobs: int | None = None
    engine: Literal["dask", "spark"] | None = None
    scheduler: str | None = None
    unseen: Literal["error", "ignore"] = "error"

    def __post_init__(self) -> None:
        for both, reason in (
            (self.numeric_only and self.one_hot, "--one-hot encodes text: no --numeric-only"),
            (self.jobs and self.engine, "--jobs are processes of this machine: no --engine"),
        ):
            if both:
                raise click.UsageError(f"{reason}.")
        if self.scheduler is not None and self.engine is None:
            raise click.UsageError("--scheduler needs --engine dask or --engine spark.")

    @property
    def limit(self) -> "GroupLimit":
        """How many groups the rows may have, and how much memory their moments may take."""
        from fairspan.rows.group_limit import GroupLimit

        return GroupLimit(self.max_groups, max_memory=self.max_memory)

    def refuse_beside(self, names: tuple[str, ...] | None) -> None:
        """Raise a usage error if columns were chosen, and a model has names of its features."""
        asked = [name for name in _CHOICE_OF_FEATURES if getattr(self, name)]
        if names is not None and asked:
            option = f"--{asked[0].replace('_', '-')}"
            raise click.UsageError(f"A saved model brings its features: no {option}.")

    def refuse_for_moments(self, path: Path) -> None:
        """Raise a usage error if anything was requested, as moments hold no rows."""
        asked = {each.name for each in fields(self) if getattr(self, each.name) != each.default}
        options = [f"--{name.replace('_', '-')}" for name in sorted(asked - _CHOICE_OF_COLUMNS)]
        if asked & _CHOICE_OF_COLUMNS:
            options.insert(0, "--group, --features and --exclude")
        if options:
            raise click.UsageError(
                f"{path} holds moments, whose groups and features are fixed; "
                f"leave out {', '.join(options)}."
            )

    def opened(self, path: Path | str, clusters: str | None = None) -> "RowSource":
        """The rows of a file or folder, or of what a source of another package takes.

        The last columns of their labels are the class in y and the cluster, where these were
        requested.
        """
        from dataclasses import replace

        from fairspan.rows.files.file_rows import FileRows, Files
        from fairspan.rows.registry import opener_of, rows_of

        if not self.groups:
            raise click.UsageError("Name the group column with --group COL.")
        beside = [name for name in (self.label, clusters) if name is not None]
        groups = (*self.groups, *beside)
        if isinstance(path, str) or not isinstance(opener_of(path), Files):
            if self.engine or self.jobs:
                raise click.UsageError(f"{path} is no file of rows: no --jobs, no --engine.")
            asked = [name for name in _OF_FILES if getattr(self, name)]
            if asked:
                option = f"--{asked[0].replace('_', '-')}"
                raise click.UsageError(f"{path} is no file of rows: no {option}.")
            return self._chosen(rows_of(path, list(groups), self.weight, self.on_missing))
        rows = FileRows.open(
            path if self.engine is None else path.resolve(),  # workers have folders of their own
            groups,
            self.features,
            self.exclude,
            weight=self.weight,
            on_missing=self.on_missing,
            csv=csv_format(self.delimiter, self.decimal, self.encoding, self.comment),
        )
        rows = prepared(rows, numeric_only=self.numeric_only, one_hot=self.one_hot)
        encoding = replace(rows.chosen.encoding, ignores_unseen=self.unseen == "ignore")
        chosen = replace(rows.chosen, encoding=encoding)
        return replace(rows, engine=self._engine(rows), chosen=chosen)

    def _chosen(self, rows: "Rows") -> "RowSource":
        """Rows of another package's source, with the features that were requested."""
        from fairspan.rows.columns import ChosenColumns
        from fairspan.rows.protocol import RowSource

        if not isinstance(rows, RowSource):
            raise click.UsageError(f"A {type(rows).__name__} cannot be read here in blocks.")
        if self.features or self.exclude:
            names = rows.feature_names or ()
            chosen = ChosenColumns.of(names, {}, features=self.features, exclude=self.exclude)
            return rows.selected(chosen.features)
        return rows

    def _engine(self, rows: "FileRows") -> "Engine":
        if self.engine == "dask":
            from fairspan.rows.dask.engine import OnDask

            return OnDask(self.scheduler)
        if self.engine == "spark":
            from fairspan.rows.spark.engine import OnSpark

            return OnSpark(self.scheduler)
        jobs = 1 if self.jobs in (None, 1) else self._useful_jobs(len(rows.parts))
        if jobs > 1:
            from fairspan.rows.engines import Processes

            return Processes(jobs)
        from fairspan.rows.engines import InThisProcess

        return InThisProcess()

    def _useful_jobs(self, n_parts: int) -> int:
        """As many processes as were requested, but no more than there are parts or cores."""
        asked, n_cores = self.jobs or 1, os.cpu_count() or 1
        useful = min(asked, max(n_parts, 1), n_cores)
        if useful < asked:
            from fairspan.formatting.numbers import count, in_ascii

            limit = count(n_cores, "core") if n_cores < n_parts else count(n_parts, "part")
            where = "this machine has" if n_cores < n_parts else "the files have"
            used = count(useful, "process", "processes")
            verb = "reads" if useful == 1 else "read"
            said = f"{used} {verb} the rows, as {where} {limit}."
            click.echo(f"fairspan: --jobs {asked}: {in_ascii(said)}", err=True)
        return useful
