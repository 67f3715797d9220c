"""Values of the options of a command.

Values are parsed without importing numpy. Groups are named by their printed labels and resolved
once the rows have been read; usage errors are reported immediately.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from fairspan.cli.command import usage_error_if
from fairspan.registry import ExternalObject

if TYPE_CHECKING:
    from fairspan.auditing.estimation_options import EstimationOptions
    from fairspan.model.subspace import Rotation
    from fairspan.moments.base_moments import Center
    from fairspan.rows.blocks import OnMissing
    from fairspan.rows.group_limit import GroupLimit

_FEATURE_OPTIONS = {"features", "exclude", "numeric_only", "one_hot"}
_COLUMN_OPTIONS = {"groups", "features", "exclude"}


def _option_of(name: str) -> str:
    """Return the option of the command line that sets a field of a record of `ReadOptions`."""
    return {"groups": "--group", "bins": "--bin"}.get(name, f"--{name.replace('_', '-')}")


@dataclass(frozen=True)
class ColumnOptions:
    """Options that say what each column is for.

    Attributes
    ----------
    groups : tuple of str
        Group columns.
    bins : tuple of (str, tuple of float)
        Numeric group columns with their bin edges.
    y_column : str or None
        Column of class labels.
    weight : str or None
        Column of sample weights.
    features, exclude : tuple of str
        Column patterns.
    numeric_only, one_hot : bool
        Treatment of text columns: without them, or one feature for each category.
    keep : tuple of str
        Columns to copy to the output.
    keep_all : bool
    """

    groups: tuple[str, ...] = ()
    bins: tuple[tuple[str, tuple[float, ...]], ...] = ()
    y_column: str | None = None
    weight: str | None = None
    features: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    numeric_only: bool = False
    one_hot: bool = False
    keep: tuple[str, ...] = ()
    keep_all: bool = False

    def __post_init__(self) -> None:
        usage_error_if(
            self.numeric_only and self.one_hot, "--one-hot and --numeric-only cannot be combined."
        )
        for column, _ in self.bins:
            usage_error_if(
                column not in self.groups, f"--bin requires a group column: add --group {column}."
            )


@dataclass(frozen=True)
class CellOptions:
    """Options for missing cells, and for cells that a saved model does not know.

    Attributes
    ----------
    on_missing : {"error", "drop", "em", "em-drop-empty"}
    missing_group : str or None
        "drop", or the name of the group for rows without one.
    na_values : tuple of str
        Values that mark missing cells, as typed.
    unseen : {"error", "ignore"}
        Treatment of categories unknown to a saved model.
    """

    on_missing: "OnMissing" = "error"
    missing_group: str | None = None
    na_values: tuple[str, ...] = ()
    unseen: Literal["error", "ignore"] = "error"


@dataclass(frozen=True)
class CsvOptions:
    """Options for the format of CSV files, each None if it is to be detected or the usual one.

    Attributes
    ----------
    delimiter, decimal, thousands, encoding, comment : str or None
        As typed: "tab" and "space" stand for these characters.
    no_header : bool
        Whether the first line of CSV and Excel files is a row.
    skip_rows : int
        Number of lines above the header.
    """

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    comment: str | None = None
    no_header: bool = False
    skip_rows: int = 0


@dataclass(frozen=True)
class ResourceOptions:
    """Options that limit what a command may use.

    Attributes
    ----------
    max_groups : int or None
        Maximum number of groups.
    max_memory : int or None
        Memory budget in bytes for group matrices.
    jobs : int or None
        Number of local processes.
    """

    max_groups: int | None = None
    max_memory: int | None = None
    jobs: int | None = None

    @property
    def group_limit(self) -> "GroupLimit":
        """Limits on the number of groups and on memory."""
        from fairspan.rows.group_limit import GroupLimit

        return GroupLimit(self.max_groups, max_memory=self.max_memory)


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading rows.

    Attributes
    ----------
    columns : ColumnOptions
    cells : CellOptions
    csv : CsvOptions
    resources : ResourceOptions
    """

    columns: ColumnOptions = ColumnOptions()
    cells: CellOptions = CellOptions()
    csv: CsvOptions = CsvOptions()
    resources: ResourceOptions = ResourceOptions()

    @property
    def changed_options(self) -> set[str]:
        """Names of options with nondefault values."""
        return {
            option.name
            for record in (self.columns, self.cells, self.csv, self.resources)
            for option in fields(record)
            if getattr(record, option.name) != option.default
        }

    def reject_options(self, reason: str, options: set[str]) -> None:
        """Raise a usage error if one of these options was given, named by their fields.

        `reason` is the start of the message, without a full stop.
        """
        # The error names one option; --group, which users give first, comes before the others.
        for name in sorted(
            self.changed_options & options, key=lambda name: (name != "groups", name)
        ):
            raise click.UsageError(f"{reason}; omit {_option_of(name)}.")

    def reject_feature_options(self, model_features: tuple[str, ...] | None) -> None:
        """Raise a usage error if feature options were given although a model fixes the features."""
        if model_features is not None:
            self.reject_options("A saved model fixes the features", _FEATURE_OPTIONS)

    def reject_for_moments(self, path: Path) -> None:
        """Raise a usage error if reading options were given although `path` holds moments."""
        changed = self.changed_options
        options = [_option_of(name) for name in sorted(changed - _COLUMN_OPTIONS)]
        # The options that select columns are named together, even if only one was given.
        if changed & _COLUMN_OPTIONS:
            options.insert(0, "--group, --features and --exclude")
        usage_error_if(
            options,
            f"{path} holds moments, whose groups and features are fixed; "
            f"omit {', '.join(options)}.",
        )


@dataclass(frozen=True)
class AuditOptions:
    """Options of an audit.

    Attributes
    ----------
    folds : int
        Number of folds; 0 for observed figures only.
    clusters : str or None
        Cluster column.
    level : float
        Confidence level of the intervals.
    materiality : float
        Smallest loss that counts, as a share of the group's variance.
    repeats : int
        Number of fold assignments.
    """

    folds: int = 10
    clusters: str | None = None
    level: float = 0.95
    materiality: float = 0.01
    repeats: int = 1

    def require_folds(self, *, by_dimension: bool = False) -> None:
        """Raise a usage error if an option that needs folds is combined with --folds none."""
        option = "--clusters"
        if by_dimension:
            option = "--by-dimension"
        usage_error_if(
            not self.folds and (by_dimension or self.clusters is not None),
            f"{option} requires estimates for new rows and cannot be combined with --folds none.",
        )

    @property
    def estimation_options(self) -> "EstimationOptions":
        """Options for the estimates on new rows."""
        from fairspan.auditing.estimation_options import estimation_options  # slow to import

        return estimation_options(
            self.folds or None,  # --folds none is stored as 0
            self.level,
            self.materiality,
            random_state=0,
            has_clusters=self.clusters is not None,
            repeats=self.repeats,
        )


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit as given: names of criterion, restriction and solver with their parameters.

    Attributes
    ----------
    n_components : int, float or None
        Number of dimensions, or share of every group's variance to keep.
    center : {"global", "group", "none"}
    standardize : bool
    criterion : str or ExternalObject
    criterion_parameters : mapping
        Strings may name groups.
    restriction : str, ExternalObject or None
    restriction_parameters : mapping
    solver : str or ExternalObject
    solver_parameters : mapping
    tol : float
        Relative tolerance of the gap.
    allow_extra : bool
    nested : bool
    rotation : "varimax" or None
        Rotation of the components inside the subspace.
    """

    n_components: int | float | None = None
    center: "Center" = "global"
    standardize: bool = False
    criterion: str | ExternalObject = "minimax_loss"
    criterion_parameters: Mapping[str, object] = field(default_factory=dict)
    restriction: str | ExternalObject | None = None
    restriction_parameters: Mapping[str, object] = field(default_factory=dict)
    solver: str | ExternalObject = "auto"
    solver_parameters: Mapping[str, object] = field(default_factory=dict)
    tol: float = 1e-9
    allow_extra: bool = False
    nested: bool = False
    rotation: "Rotation | None" = None


@dataclass(frozen=True)
class PairOptions:
    """Options of a fit of two tables.

    Attributes
    ----------
    targets : tuple of str
        Names or patterns of the columns of the second table; empty for a fit of one table.
    method : {"pls", "cca"}
    regularization : float
        Share by which covariances are shrunk before whitening.
    """

    targets: tuple[str, ...] = ()
    method: str = "pls"
    regularization: float = 0.0

    def check_has_targets(self) -> None:
        """Raise a usage error if another option of two tables is given without --targets."""
        is_changed = self.method != "pls" or self.regularization > 0
        usage_error_if(
            is_changed and not self.targets,
            "--method and --regularization require --targets, the columns of the second table.",
        )


@dataclass(frozen=True)
class ModelOptions:
    """Options of an audit on its models.

    Attributes
    ----------
    models : tuple of Path
        Saved models to audit; ordinary PCA if there are none.
    custom_objects : tuple of ExternalObject
        External criteria and restrictions of these models.
    by_dimension : bool
        Whether ordinary PCA is audited for several numbers of dimensions.
    test_path : Path or None
        Held-out rows.
    repair : bool
        Whether the default repair is fitted as well, and compared with ordinary PCA.
    """

    models: tuple[Path, ...] = ()
    custom_objects: tuple[ExternalObject, ...] = ()
    by_dimension: bool = False
    test_path: Path | None = None
    repair: bool = False

    def check_combinations(self, fit_options: FitOptions) -> None:
        """Raise a usage error if options that exclude each other were given."""
        usage_error_if(
            self.by_dimension and self.test_path, "--by-dimension cannot be combined with --test."
        )
        usage_error_if(
            self.by_dimension and self.models,
            "--by-dimension cannot be combined with --model, which fixes the dimension.",
        )
        usage_error_if(
            self.by_dimension and fit_options.n_components is not None,
            "--by-dimension cannot be combined with -d.",
        )
        usage_error_if(
            self.repair and (self.by_dimension or self.models),
            "--repair cannot be combined with --by-dimension or --model: it fits a model of its "
            "own, of one dimension.",
        )


@dataclass(frozen=True)
class ReportOptions:
    """Options of a report.

    Attributes
    ----------
    displays : tuple of str or ExternalObject
        Additional displays.
    criteria : tuple of str or ExternalObject
        Criteria to compare; empty for all.
    models : tuple of Path
        Saved models to audit.
    custom_objects : tuple of ExternalObject
        External criteria and restrictions of these models.
    test_path : Path or None
        Held-out rows for these models.
    title : str or None
    """

    displays: tuple[str | ExternalObject, ...] = ()
    criteria: tuple[str | ExternalObject, ...] = ()
    models: tuple[Path, ...] = ()
    custom_objects: tuple[ExternalObject, ...] = ()
    test_path: Path | None = None
    title: str | None = None


def require_models(
    models: Sequence[Path], read_options: ReadOptions, test_path: Path | None
) -> None:
    """Raise a usage error if --test or --unseen is used without saved models (--model)."""
    if models:
        return
    for option, is_used in (
        ("--test", test_path is not None),
        ("--unseen", read_options.cells.unseen != "error"),
    ):
        usage_error_if(is_used, f"{option} requires saved models: give them with --model.")
