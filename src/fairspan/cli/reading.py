"""How the command line says which rows are read, and where."""

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from fairspan.cli.table_options import csv_format
from fairspan.cli.text_columns import prepared
from fairspan.errors import InvalidType
from fairspan.registry import Foreign

if TYPE_CHECKING:
    from fairspan.rows.group_limit import GroupLimit
    from fairspan.rows.protocol import RowSource

# What also concerns rows of another package.
_OF_ANY_ROWS = {"features", "exclude", "max_groups", "max_memory", "unseen"}
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
    unseen: Literal["error", "ignore"] = "error"

    def __post_init__(self) -> None:
        for both, reason in (
            (self.numeric_only and self.one_hot, "--one-hot encodes text: no --numeric-only"),
        ):
            if both:
                raise click.UsageError(f"{reason}.")

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

    def opened(self, path: Path | Foreign, clusters: str | None = None) -> "RowSource":
        """The rows of a file or folder, or of another package.

        The last columns of their labels are the class in y and the cluster, where these were
        requested.
        """
        from dataclasses import replace

        from fairspan.rows.files.file_rows import FileRows

        if isinstance(path, Foreign):
            return self._of_others(path)
        if not self.groups:
            raise click.UsageError("Name the group column with --group COL.")
        beside = [name for name in (self.label, clusters) if name is not None]
        groups = (*self.groups, *beside)
        rows = FileRows.open(
            path,
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
        return replace(rows, jobs=self._useful_jobs(len(rows.parts)), chosen=chosen)

    def _of_others(self, source: Foreign) -> "RowSource":
        """Rows of another package, which bring their groups, with the features requested."""
        from fairspan.rows.columns import ChosenColumns

        rows = foreign_rows(source)
        asked = {each.name for each in fields(self) if getattr(self, each.name) != each.default}
        if refused := sorted(asked - _OF_ANY_ROWS):
            option = "--group" if "groups" in refused else f"--{refused[0].replace('_', '-')}"
            raise click.UsageError(
                f"{source} makes rows that bring their groups and are no file: no {option}."
            )
        if not (self.features or self.exclude):
            return rows
        names = rows.feature_names or ()
        chosen = ChosenColumns.of(names, {}, features=self.features, exclude=self.exclude)
        return rows.selected(chosen.features)

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


def foreign_rows(source: Foreign) -> "RowSource":
    """The rows that an object of another package is, or that a class or function there makes.

    Raises
    ------
    InvalidType
        It is not, or does not make, rows that can be read in blocks.
    """
    from fairspan.rows.protocol import RowSource

    rows = source.factory()
    if not isinstance(rows, RowSource):
        raise InvalidType(
            f"{source} makes an object of type {type(rows).__name__}",
            "Allowed: rows that are read in blocks, as fairspan.extending.RowSource describes them",
            "Name such an object, or a function without arguments that returns one",
        )
    return rows
