"""Options of the commands: parsing, validation and help.

Values are parsed without importing numpy. Groups are named by their printed labels and resolved
once the rows have been read; usage errors are reported immediately.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from fairspan.cli.param_types import (
    DATA_PATH,
    NameOrObject,
    bin_edges,
    custom_object,
    dimensions_or_share,
    folds_or_none,
    memory_size,
    parse_parameters,
)
from fairspan.errors import caller_remedies, closest_match
from fairspan.registry import ExternalObject, builtin_names
from fairspan.report.outputs import check_output_path

if TYPE_CHECKING:
    from fairspan.auditing.expected_losses import EstimationOptions
    from fairspan.rows.blocks import OnMissing
    from fairspan.rows.group_limit import GroupLimit

# Values of fairspan.rows.blocks.OnMissing, which is slow to import.
_ON_MISSING = ("error", "drop", "em", "em-drop-empty")

# Headings in the help of a command.
READING = "Reading data"
FITTING = "Fitting"
AUDITING = "Audit"
OUTPUT = "Output"


class _GroupedOption(click.Option):
    """Option with a help heading; plain options appear under "Reading data"."""

    def __init__(self, *names: Any, heading: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.heading = heading


fit_option = partial(click.option, cls=_GroupedOption, heading=FITTING)
audit_option = partial(click.option, cls=_GroupedOption, heading=AUDITING)
output_option = partial(click.option, cls=_GroupedOption, heading=OUTPUT)


class Command(click.Command):
    """Command whose help has option headings and examples.

    Parameters
    ----------
    examples : sequence of str
        Example command lines for a table `patients.csv`.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options; suggest the closest name for an unknown one."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            # click compares names including dashes, which makes all of them similar.
            names = [each.removeprefix("--") for each in error.possibilities or ()]
            suggestion = closest_match(error.option_name.removeprefix("--"), names)
            raise click.NoSuchOption(
                error.option_name,
                possibilities=[f"--{suggestion}"] if suggestion else None,
                ctx=ctx,
            ) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; remedies of errors about rows name its own options."""
        from fairspan.cli.remedies import command_remedies

        with caller_remedies(command_remedies(self)):
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Format the options under their headings."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        for heading in (READING, FITTING, AUDITING, OUTPUT):
            in_section = [each for each in options if self._heading_of(each, ctx) == heading]
            records = [each.get_help_record(ctx) for each in in_section]
            written = [record for record in records if record is not None]
            if written:
                with formatter.section(heading):
                    formatter.write_dl(written)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Format the examples, one copyable line each."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")

    def _heading_of(self, option: click.Option, ctx: click.Context) -> str:
        return (
            OUTPUT if option is self.get_help_option(ctx) else getattr(option, "heading", READING)
        )


command = partial(click.command, cls=Command)


DATA = click.argument("data", type=DATA_PATH)
SEVERAL_DATA = click.argument("data", type=DATA_PATH, nargs=-1, required=True)
OPTIONAL_DATA = click.argument("data", type=DATA_PATH, required=False)
CUSTOM_OBJECTS = audit_option(
    "--custom-object",
    "custom_objects",
    multiple=True,
    type=custom_object,
    metavar="MODULE:OBJECT",
    help="Criterion or restriction of another package that a saved model uses (repeatable).",
)
JSON = output_option("--json", "as_json", is_flag=True, help="Print results as JSON.")
_FEATURE_OPTIONS = {"features", "exclude", "numeric_only", "one_hot"}
_COLUMN_OPTIONS = {"groups", "features", "exclude"}


MISSING_GROUP_OPTION = "Give the group column with --group COL."


def usage_error_if(condition: object, message: str) -> None:
    """Raise a usage error if the condition is true."""
    if condition:
        raise click.UsageError(message)


def _may_be_archive(path: Path) -> bool:
    """Return whether a file looks like saved moments, even if it is truncated."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def _option_of(name: str) -> str:
    return {"groups": "--group", "bins": "--bin"}.get(name, f"--{name.replace('_', '-')}")


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading rows.

    Attributes
    ----------
    groups : tuple of str
        Group columns.
    bins : tuple of (str, tuple of float)
        Numeric group columns with their bin edges.
    y_column : str or None
        Column of class labels.
    features, exclude : tuple of str
        Column patterns.
    max_groups : int or None
        Maximum number of groups.
    max_memory : int or None
        Memory budget in bytes for group matrices.
    weight : str or None
        Column of sample weights.
    on_missing : {"error", "drop", "em", "em-drop-empty"}
    missing_group : str or None
        "drop", or the name of the group for rows without one.
    numeric_only, one_hot : bool
        Treatment of text columns.
    na_values : tuple of str
        Values that mark missing cells, as typed.
    delimiter, decimal, thousands, encoding, comment : str or None
        CSV format.
    no_header : bool
        Whether the first line of CSV files is a row.
    jobs : int or None
        Number of local processes.
    unseen : {"error", "ignore"}
        Treatment of categories unknown to a saved model.
    keep : tuple of str
        Columns to copy to the output.
    keep_all : bool
    """

    groups: tuple[str, ...] = ()
    bins: tuple[tuple[str, tuple[float, ...]], ...] = ()
    y_column: str | None = None
    features: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_groups: int | None = None
    max_memory: int | None = None
    weight: str | None = None
    on_missing: "OnMissing" = "error"
    missing_group: str | None = None
    na_values: tuple[str, ...] = ()
    numeric_only: bool = False
    one_hot: bool = False
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    comment: str | None = None
    no_header: bool = False
    jobs: int | None = None
    unseen: Literal["error", "ignore"] = "error"
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

    @property
    def limit(self) -> "GroupLimit":
        """Limits on the number of groups and on memory."""
        from fairspan.rows.group_limit import GroupLimit

        return GroupLimit(self.max_groups, max_memory=self.max_memory)

    @property
    def changed_options(self) -> set[str]:
        """Names of options with nondefault values."""
        return {each.name for each in fields(self) if getattr(self, each.name) != each.default}

    def to_arguments(self, exclude: set[str]) -> Iterator[str]:
        """Yield the nondefault options as command line arguments."""
        included = self.changed_options - exclude
        for name in (each.name for each in fields(self) if each.name in included):
            option = _option_of(name)
            value = getattr(self, name)
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, tuple):  # a column with its bin edges
                    each = f"{each[0]}={','.join(map(repr, each[1]))}"
                yield from [option] if each is True else [option, str(each)]

    def reject_options(self, reason: str, options: set[str]) -> None:
        """Raise a usage error if one of these options was given."""
        for name in sorted(
            self.changed_options & options, key=lambda name: (name != "groups", name)
        ):
            raise click.UsageError(f"{reason}; omit {_option_of(name)}.")

    def reject_feature_options(self, model_features: tuple[str, ...] | None) -> None:
        """Raise a usage error if feature options were given although a model fixes the features."""
        if model_features is not None:
            self.reject_options("A saved model fixes the features", _FEATURE_OPTIONS)

    def reject_for_moments(self, path: Path) -> None:
        """Raise a usage error if reading options were given for saved moments."""
        asked = self.changed_options
        columns = ["--group, --features and --exclude"] * bool(asked & _COLUMN_OPTIONS)
        options = columns + [_option_of(name) for name in sorted(asked - _COLUMN_OPTIONS)]
        usage_error_if(
            options,
            f"{path} holds moments, whose groups and features are fixed; "
            f"leave out {', '.join(options)}.",
        )


def each_once(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Reject duplicate values."""
    duplicates = sorted({value for value in values if values.count(value) > 1})
    if duplicates:
        raise click.BadParameter(f"{duplicates[0]!r} is given twice; give each column once.")
    return values


def _bins(
    context: click.Context, option: click.Parameter, values: tuple[tuple[str, Any], ...]
) -> tuple[tuple[str, Any], ...]:
    each_once(context, option, tuple(column for column, _ in values))
    return values


@dataclass(frozen=True)
class AuditOptions:
    """Options of an audit.

    Attributes
    ----------
    folds : int
        Number of folds; 0 for observed figures only.
    clusters : str or None
        Cluster column.
    level, materiality : float
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
        option = "--by-dimension" if by_dimension else "--clusters"
        usage_error_if(
            not self.folds and (by_dimension or self.clusters is not None),
            f"{option} requires estimates for new rows and cannot be combined with --folds none.",
        )

    @property
    def estimation_options(self) -> "EstimationOptions":
        """Options for the estimates on new rows."""
        from fairspan.auditing.expected_losses import estimation_options  # slow to import

        by_cluster = self.clusters is not None
        return estimation_options(
            self.folds or None,
            self.level,
            self.materiality,
            0,
            has_clusters=by_cluster,
            repeats=self.repeats,
        )


def require_models(models: Sequence[Path], reading: ReadOptions, test: Path | None) -> None:
    """Raise a usage error if an option for saved models is given without --model."""
    for option, is_given in (("--test", test is not None), ("--unseen", reading.unseen != "error")):
        usage_error_if(
            is_given and not models,
            f"{option} requires saved models: give them with --model.",
        )


def bundle_options(
    name: str, cls: type[Any], options: Sequence[Callable[[Any], Any]]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options to a command and passes their values as one object.

    Parameters
    ----------
    name : str
        Parameter name of the object in the command.
    cls : a dataclass
        Class whose fields are the options; a command may omit some.
    options : sequence of click's options
    """
    names = [each.name for each in fields(cls)]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def wrapper(*arguments: Any, **values: Any) -> Any:
            bundle = cls(**{field: values.pop(field) for field in names if field in values})
            return command(*arguments, **{name: bundle}, **values)

        for option in reversed(options):
            wrapper = option(wrapper)
        return wrapper

    return decorate


def check_output_file(
    path: Path, kind: str, *inputs: object, endings: Sequence[str] = (), as_folder: bool = False
) -> None:
    """Reject standard output, unwritable paths, and file names of another kind.

    Parameters
    ----------
    path : Path
    kind : str
        Start of the message, such as "a model is".
    *inputs : object
        Inputs that must not be overwritten.
    endings : sequence of str
        Allowed file extensions.
    as_folder : bool

    Raises
    ------
    click.UsageError, InvalidParameter
    """
    check_output_path(path, *inputs, as_folder=as_folder)
    usage_error_if(
        str(path) == "-", f"{kind[0].upper()}{kind[1:]} no text to print; name a file with -o."
    )
    from fairspan.storage.atomic import check_suffix  # slow to import

    check_suffix(path, kind, *endings)


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
    """

    n_components: int | float | None = None
    center: Any = "global"
    standardize: bool = False
    criterion: str | ExternalObject = "minimax_loss"
    criterion_parameters: Mapping[str, Any] = field(default_factory=dict)
    restriction: str | ExternalObject | None = None
    restriction_parameters: Mapping[str, Any] = field(default_factory=dict)
    solver: str | ExternalObject = "auto"
    solver_parameters: Mapping[str, Any] = field(default_factory=dict)
    tol: float = 1e-9
    allow_extra: bool = False
    nested: bool = False


def _parameters(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    if (
        values
        and option.name == "restriction_parameters"
        and context.params.get("restriction") is None
    ):
        raise click.BadParameter("Give the restriction with --restriction.")
    return parse_parameters(values)


CSV_OPTIONS = (
    click.option(
        "--delimiter",
        metavar="CHAR",
        help="Delimiter of CSV files, or 'tab'; by default detected from the header.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="Decimal separator of numbers in CSV files.  [default: .]",
    ),
    click.option(
        "--thousands",
        type=click.Choice([",", ".", "'", " ", "space"]),
        metavar="CHAR",
        help="Thousands separator of numbers in CSV files: a comma, a point, an apostrophe, or "
        "'space'.",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        help="Encoding of CSV files, such as latin-1.  [default: utf-8]",
    ),
    click.option(
        "--comment",
        metavar="TEXT",
        help="Skip lines of CSV files that start with TEXT, such as '#'.",
    ),
    click.option(
        "--no-header",
        is_flag=True,
        help="CSV files have no header: name the columns column_1, column_2, ...",
    ),
)

NA_VALUES = click.option(
    "--na-values",
    multiple=True,
    metavar="[COL=]VALUE[,VALUE]",
    help="Values that mark missing cells, such as '?' or -9,-99, in all columns or in COL "
    "(repeatable).",
)

TEXT_OPTIONS = (
    click.option(
        "--numeric-only",
        is_flag=True,
        help="Exclude non-numeric columns and list them.",
    ),
    click.option(
        "--one-hot",
        is_flag=True,
        help="One-hot encode text columns.",
    ),
)


def _groups(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Require a group column for tables, before importing the library."""
    data = context.params.get("data")
    data = data[0] if isinstance(data, tuple) and data else data
    usage_error_if(
        isinstance(data, Path) and not values and not _may_be_archive(data), MISSING_GROUP_OPTION
    )
    return each_once(context, option, values)


_READ_OPTIONS = (
    click.option(
        "--group",
        "groups",
        multiple=True,
        callback=_groups,
        metavar="COL",
        help="Group column (repeat for intersections).",
    ),
    click.option(
        "--bin",
        "bins",
        multiple=True,
        type=bin_edges,
        callback=_bins,
        metavar="COL=EDGES",
        help="Bin the numbers of a group column: age=30,60 makes the groups 'below 30', '30 to "
        "below 60' and '60 or more'. A bin includes its lower edge (repeatable).",
    ),
    click.option(
        "--y",
        "y_column",
        metavar="COL",
        help="Column of the class labels y, for within_classes; not used as a feature.",
    ),
    click.option(
        "--features",
        multiple=True,
        metavar="PATTERN",
        help="Use only matching columns, such as 'PAY_*' (repeatable).",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="PATTERN",
        help="Exclude matching columns (repeatable).",
    ),
    click.option(
        "--max-groups",
        type=click.IntRange(min=1),
        metavar="N",
        help="Maximum number of groups; by default 100.",
    ),
    click.option(
        "--max-memory",
        type=memory_size,
        metavar="SIZE",
        help="Memory limit for group matrices, such as 500MB or 8GB; by default the memory of "
        "the machine.",
    ),
    click.option("--weight", metavar="COL", help="Column of sample weights."),
    click.option(
        "--on-missing",
        type=click.Choice(_ON_MISSING),
        default="error",
        help="Treatment of a missing feature or group: raise an error; drop the row; em: estimate "
        "missing features from the observed ones (EM algorithm); em-drop-empty: also drop rows "
        "without any feature.",
    ),
    click.option(
        "--missing-group",
        metavar="drop|NAME",
        help="Treatment of a missing group: drop the row, or assign it to group NAME.",
    ),
    NA_VALUES,
    *TEXT_OPTIONS,
    *CSV_OPTIONS,
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Read files and row groups with N processes.",
    ),
)

# Option of commands that read rows for a saved model.
UNSEEN_CATEGORIES = click.option(
    "--unseen",
    type=click.Choice(["error", "ignore"]),
    default="error",
    help="Treatment of categories unknown to the model: raise an error, or set all indicators to "
    "0.",
)

_TRANSFORM_OPTIONS = (
    output_option(
        "--keep",
        multiple=True,
        callback=each_once,
        metavar="COL",
        help="Copy this column of DATA to the output (repeatable).",
    ),
    output_option("--keep-all", is_flag=True, help="Copy all columns of DATA to the output."),
    click.option(
        "--on-missing",
        type=click.Choice(_ON_MISSING),
        default="error",
        help="Treatment of a missing feature: raise an error; drop the row; em: estimate it from "
        "the observed ones, if MODEL was fitted with em; em-drop-empty: also drop rows without any "
        "feature.",
    ),
    UNSEEN_CATEGORIES,
)

_DIMENSION_OPTIONS = (
    fit_option(
        "-d",
        "--dimensions",
        "n_components",
        type=dimensions_or_share,
        metavar="N",
        help="Number of dimensions; or a share, such as 0.9: the fewest dimensions that keep this "
        "share of every group's variance.  [default: 0.9]",
    ),
    fit_option(
        "--center",
        type=click.Choice(["global", "group", "none"]),
        default="global",
        help="Point about which errors are measured: the overall mean, each group's mean, or the "
        "origin.",
    ),
    fit_option(
        "--standardize",
        is_flag=True,
        help="Divide each feature by its pooled standard deviation (scale=True in Python).",
    ),
)

_AUDIT_OPTIONS = (
    audit_option(
        "--folds",
        type=folds_or_none,
        default="10",
        metavar="K",
        help="Number of cross-fitting folds, or none: no estimates for new rows.",
    ),
    audit_option(
        "--clusters",
        metavar="COL",
        help="Column that identifies clusters of rows, such as the person of each row.",
    ),
    audit_option(
        "--level",
        type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
        default=0.95,
        metavar="P",
        help="Confidence level of the intervals.",
    ),
    audit_option(
        "--materiality",
        "materiality",
        type=click.FloatRange(0, 1, max_open=True),
        default=0.01,
        metavar="SHARE",
        help="Materiality threshold: smallest loss that counts, as a share of the group's "
        "variance.",
    ),
    audit_option(
        "--repeats",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Use N random fold assignments, and report how many agree with the verdict.",
    ),
)

# Options for reading rows with groups, passed as one object.
with_read_options = bundle_options("read_options", ReadOptions, _READ_OPTIONS)
# Options of transform, which reads rows without groups.
with_transform_options = bundle_options(
    "read_options", ReadOptions, (*_TRANSFORM_OPTIONS, NA_VALUES, *CSV_OPTIONS)
)
# Options for the estimates on new rows.
with_audit_options = bundle_options("audit_options", AuditOptions, _AUDIT_OPTIONS)


_CRITERION_OPTIONS = (
    fit_option(
        "--criterion",
        type=NameOrObject("criterion"),
        default="minimax_loss",
        metavar="NAME",  # the list of choices would be wider than a terminal
        help=f"Criterion to minimize: {', '.join(builtin_names('criterion'))}.",
    ),
    fit_option(
        "--param",
        "criterion_parameters",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parameters,
        help="Parameter of the criterion, such as penalty=2, relative=yes, protected=GROUP or "
        "radius.GROUP=0.1 (repeatable).",
    ),
)

_RESTRICTION_OPTIONS = (
    fit_option(
        "--restriction",
        type=NameOrObject("restriction"),
        is_eager=True,
        metavar="NAME",
        help=f"Restriction that hides the group: {', '.join(builtin_names('restriction'))}.",
    ),
    fit_option(
        "--restriction-param",
        "restriction_parameters",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parameters,
        help="Parameter of the restriction, such as oblique=yes, attributes=marginal, "
        "within_classes=all or columns=age,income (repeatable).",
    ),
)

_SOLVER_OPTIONS = (
    fit_option(
        "--solver",
        type=NameOrObject("solver"),
        default="auto",
        metavar="NAME",
        help=f"Solver: {', '.join(builtin_names('solver'))}. Random starts use seed 0.",
    ),
    fit_option(
        "--solver-param",
        "solver_parameters",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parameters,
        help="Parameter of the solver, such as max_iter=500 (repeatable).",
    ),
    fit_option(
        "--tol",
        type=click.FloatRange(0, 1, max_open=True),
        default=1e-9,
        metavar="SHARE",
        help="Relative tolerance: largest gap to accept as optimal, as a share of the objective.",
    ),
    fit_option(
        "--allow-extra",
        is_flag=True,
        help="With three groups or more: allow more components than dimensions, each scaled down, "
        "if no subspace of N dimensions is optimal.",
    ),
    fit_option(
        "--nested",
        is_flag=True,
        help="Choose components one at a time, so that the leading ones solve the problem for fewer"
        " dimensions.",
    ),
)

# Options for dimension, criterion and fit, passed as one object.
with_dimension_options = bundle_options("fit_options", FitOptions, _DIMENSION_OPTIONS)
with_criterion_options = bundle_options(
    "fit_options", FitOptions, (*_DIMENSION_OPTIONS, *_CRITERION_OPTIONS)
)
with_fit_options = bundle_options(
    "fit_options",
    FitOptions,
    (*_DIMENSION_OPTIONS, *_CRITERION_OPTIONS, *_RESTRICTION_OPTIONS, *_SOLVER_OPTIONS),
)
