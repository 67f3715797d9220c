"""The options of the commands: how they are written, read and shown in help.

Values are read without numpy. A group is named by what tables print of it. Which groups there are
is known only when the rows have been read, so a name stays text until then; usage errors come at
once.
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
    from fairspan.rows.protocol import GroupLimit, OnMissing

# Those of fairspan.rows.protocol, which takes its time to import.
_ON_MISSING = ("error", "drop", "em", "em-drop-empty")

TABLE, FITTED, JUDGED, OUTPUT = (
    "Reading the table",
    "What is fitted",
    "How it is judged",
    "Output",
)


class _GroupedOption(click.Option):
    """An option that stands under a heading; a plain one stands under that of the table."""

    def __init__(self, *names: Any, heading: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.heading = heading


fitted_option = partial(click.option, cls=_GroupedOption, heading=FITTED)
judged_option = partial(click.option, cls=_GroupedOption, heading=JUDGED)
output_option = partial(click.option, cls=_GroupedOption, heading=OUTPUT)


class Command(click.Command):
    """A command whose help has headings and ends with examples.

    Parameters
    ----------
    examples : sequence of str
        Command lines that work on a table `patients.csv`.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; of one that does not exist, say which was most likely meant."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            # click compares names with their dashes, which make all of them alike.
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
        """Write the options under their headings."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        for heading in (TABLE, FITTED, JUDGED, OUTPUT):
            in_section = [each for each in options if self._heading_of(each, ctx) == heading]
            records = [each.get_help_record(ctx) for each in in_section]
            written = [record for record in records if record is not None]
            if written:
                with formatter.section(heading):
                    formatter.write_dl(written)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, each in one line that can be copied."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")

    def _heading_of(self, option: click.Option, ctx: click.Context) -> str:
        return OUTPUT if option is self.get_help_option(ctx) else getattr(option, "heading", TABLE)


command = partial(click.command, cls=Command)


DATA = click.argument("data", type=DATA_PATH)
SEVERAL_DATA = click.argument("data", type=DATA_PATH, nargs=-1, required=True)
OPTIONAL_DATA = click.argument("data", type=DATA_PATH, required=False)
CUSTOM_OBJECTS = judged_option(
    "--custom-object",
    "custom_objects",
    multiple=True,
    type=custom_object,
    metavar="MODULE:OBJECT",
    help="A criterion or restriction of another package that a saved model was fitted with "
    "(repeatable).",
)
JSON = output_option("--json", "as_json", is_flag=True, help="Print machine-readable results.")
_FEATURE_OPTIONS = {"features", "exclude", "numeric_only", "one_hot"}
_COLUMN_OPTIONS = {"groups", "features", "exclude"}


MISSING_GROUP_OPTION = "Name the group column with --group COL."


def usage_error_if(condition: object, message: str) -> None:
    """Raise a usage error where something holds."""
    if condition:
        raise click.UsageError(message)


def _may_be_archive(path: Path) -> bool:
    """Whether a file begins like saved moments, which hold their groups; it may be cut off."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def _option_of(name: str) -> str:
    return {"groups": "--group", "bins": "--bin"}.get(name, f"--{name.replace('_', '-')}")


@dataclass(frozen=True)
class ReadOptions:
    """The options of commands that read rows, by the names of the options.

    Attributes
    ----------
    groups : tuple of str
        Group columns.
    bins : tuple of (str, tuple of float)
        Group columns of numbers, and where these are cut.
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
    on_missing : {"error", "drop", "em", "em-drop-empty"}
    missing_group : str or None
        "drop", or the group of rows that have none.
    numeric_only, one_hot : bool
        What becomes of columns of text.
    na_values : tuple of str
        Cells that stand for missing values, as they are typed.
    delimiter, decimal, thousands, encoding, comment : str or None
        How CSV files are written.
    no_header : bool
        Whether the first line of CSV files is a row.
    jobs : int or None
        Processes of this machine.
    unseen : {"error", "ignore"}
        What becomes of categories that a saved model does not know.
    keep : tuple of str
        Columns that stay beside reduced rows.
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
            self.numeric_only and self.one_hot, "--one-hot encodes text: no --numeric-only."
        )
        for column, _ in self.bins:
            usage_error_if(
                column not in self.groups, f"--bin cuts a group column: add --group {column}."
            )

    @property
    def limit(self) -> "GroupLimit":
        """How many groups the rows may have, and how much memory their moments may take."""
        from fairspan.rows.protocol import GroupLimit

        return GroupLimit(self.max_groups, max_memory=self.max_memory)

    @property
    def changed_options(self) -> set[str]:
        """Names of the options that were given another value than usual."""
        return {each.name for each in fields(self) if getattr(self, each.name) != each.default}

    def to_arguments(self, exclude: set[str]) -> Iterator[str]:
        """The options that were given another value than usual, as they are typed."""
        for name in [
            each.name for each in fields(self) if each.name in self.changed_options - exclude
        ]:
            value, option = getattr(self, name), _option_of(name)
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, tuple):  # a column, and where it is cut
                    each = f"{each[0]}={','.join(map(repr, each[1]))}"
                yield from [option] if each is True else [option, str(each)]

    def reject_options(self, reason: str, options: set[str]) -> None:
        """Raise a usage error if one of these options was requested."""
        for name in sorted(
            self.changed_options & options, key=lambda name: (name != "groups", name)
        ):
            raise click.UsageError(f"{reason}: no {_option_of(name)}.")

    def reject_feature_options(self, model_features: tuple[str, ...] | None) -> None:
        """Raise a usage error if columns were chosen, and a model has names of its features."""
        if model_features is not None:
            self.reject_options("A saved model brings its features", _FEATURE_OPTIONS)

    def reject_for_moments(self, path: Path) -> None:
        """Raise a usage error if anything was requested, as moments hold no rows."""
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
    """Values that are given once each: a column twice is a mistake."""
    duplicates = sorted({value for value in values if values.count(value) > 1})
    if duplicates:
        raise click.BadParameter(f"{duplicates[0]!r} is given twice; name each column once.")
    return values


def _bins(
    context: click.Context, option: click.Parameter, values: tuple[tuple[str, Any], ...]
) -> tuple[tuple[str, Any], ...]:
    each_once(context, option, tuple(column for column, _ in values))
    return values


@dataclass(frozen=True)
class AuditOptions:
    """The options of how models are judged.

    Attributes
    ----------
    folds : int
        0 for figures on these rows alone.
    clusters : str or None
        Column that says which rows belong together.
    level, material : float
    repeats : int
        Assignments of rows to folds.
    """

    folds: int = 10
    clusters: str | None = None
    level: float = 0.95
    materiality: float = 0.01
    repeats: int = 1

    def require_folds(self, *, by_dimension: bool = False) -> None:
        """Raise a usage error where no folds are wanted, and something about new rows is."""
        option = "--by-dimension" if by_dimension else "--clusters"
        usage_error_if(
            not self.folds and (by_dimension or self.clusters is not None),
            f"{option} concerns estimates for new rows: no --folds none.",
        )

    @property
    def estimation_options(self) -> "EstimationOptions":
        """How what new rows would show is estimated."""
        from fairspan.auditing.expected_losses import estimation_options  # takes its time

        by_cluster = self.clusters is not None
        return estimation_options(
            self.folds or None,
            self.level,
            self.materiality,
            0,
            by_cluster=by_cluster,
            runs=self.repeats,
        )


def require_models(models: Sequence[Path], reading: ReadOptions, test: Path | None) -> None:
    """Raise a usage error where an option is about saved models, and none is named."""
    for option, is_given in (("--test", test is not None), ("--unseen", reading.unseen != "error")):
        usage_error_if(
            is_given and not models,
            f"{option} concerns saved models: name these with --model.",
        )


def bundle_options(
    name: str, cls: type[Any], options: Sequence[Callable[[Any], Any]]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What adds options to a command that takes their values as one object.

    Parameters
    ----------
    name : str
        Of the object, as the command takes it.
    kind : a dataclass
        Its fields are the options; some commands lack some of them.
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
    """Refuse standard output, a place not to be written to, and a name of another kind of file.

    Parameters
    ----------
    out : Path
    what : str
        Such as "a model is".
    *inputs : object
        Of which paths are not to be overwritten.
    endings : sequence of str
        Those of its own kind.
    as_folder : bool

    Raises
    ------
    click.UsageError, InvalidParameter
    """
    check_output_path(path, *inputs, as_folder=as_folder)
    usage_error_if(
        str(path) == "-", f"{kind[0].upper()}{kind[1:]} no text to print; name a file with -o."
    )
    from fairspan.storage import check_suffix  # takes its time

    check_suffix(path, kind, *endings)


@dataclass(frozen=True)
class FitOptions:
    """The options of a fit as they were typed: the names of parts, with their parameters.

    Attributes
    ----------
    n_components : int, float or None
        A number of dimensions, or a share of every group's variance.
    center : {"global", "group", "none"}
    standardize : bool
    criterion : str or Foreign
    parameters : mapping
        Of the criterion; texts name groups.
    restriction : str, Foreign or None
    restriction_parameters : mapping
    solver : str or Foreign
    solver_parameters : mapping
    tol : float
        Largest gap to call optimal, as a share of the objective.
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
        raise click.BadParameter("Name the restriction with --restriction.")
    return parse_parameters(values)


CSV_OPTIONS = (
    click.option(
        "--delimiter",
        metavar="LETTER",
        help="Letter between the cells of a CSV file, or 'tab'; by default as in the header.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="Letter before the fraction of numbers in a CSV file.  [default: .]",
    ),
    click.option(
        "--thousands",
        type=click.Choice([",", ".", "'", " ", "space"]),
        metavar="LETTER",
        help="Letter between the thousands of numbers in a CSV file: a comma, a point, an "
        "apostrophe, or 'space'.",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        help="Encoding of a CSV file, such as latin-1.  [default: utf-8]",
    ),
    click.option(
        "--comment",
        metavar="TEXT",
        help="Skip lines of a CSV file that begin with this text, such as '#'.",
    ),
    click.option(
        "--no-header",
        is_flag=True,
        help="The first line of a CSV file is a row: name the columns column_1, column_2, ...",
    ),
)

NA_VALUES = click.option(
    "--na-values",
    multiple=True,
    metavar="[COL=]VALUE[,VALUE]",
    help="Cells that stand for a missing value, such as -99,999 or '?', in all columns or in COL "
    "(repeatable).",
)

TEXT_OPTIONS = (
    click.option(
        "--numeric-only",
        is_flag=True,
        help="Leave out columns that hold no numbers, and say which.",
    ),
    click.option(
        "--one-hot",
        is_flag=True,
        help="Make an indicator (1 or 0) of each category of each column of text.",
    ),
)


def _groups(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Group columns: a table needs one, which is said before the library is imported."""
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
        help="Group column; repeat it for intersections.",
    ),
    click.option(
        "--bin",
        "bins",
        multiple=True,
        type=bin_edges,
        callback=_bins,
        metavar="COL=EDGES",
        help="Cut the numbers of a group column into groups: age=30,60 makes 'below 30', '30 to "
        "below 60' and '60 or more', so that a bin holds its lower edge (repeatable).",
    ),
    click.option(
        "--y",
        "y_column",
        metavar="COL",
        help="Column of y, the classes that within_classes needs; it is no feature.",
    ),
    click.option(
        "--features",
        multiple=True,
        metavar="PATTERN",
        help="Use only columns that match, such as 'PAY_*' (repeatable).",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="PATTERN",
        help="Leave out columns that match (repeatable).",
    ),
    click.option(
        "--max-groups",
        type=click.IntRange(min=1),
        metavar="N",
        help="Allow up to N groups; by default 100.",
    ),
    click.option(
        "--max-memory",
        type=memory_size,
        metavar="SIZE",
        help="Memory for the matrices of groups, such as 500MB or 8GB; by default the machine's.",
    ),
    click.option("--weight", metavar="COL", help="Column of sample weights."),
    click.option(
        "--on-missing",
        type=click.Choice(_ON_MISSING),
        default="error",
        help="Where a feature or the group is missing: an error, or leave out the row; with em, "
        "expect missing features by the observed ones (EM algorithm); with em-drop-empty, also "
        "leave out rows without any feature.",
    ),
    click.option(
        "--missing-group",
        metavar="drop|NAME",
        help="Where the group is missing: leave out the row, or give it the group NAME.",
    ),
    NA_VALUES,
    *TEXT_OPTIONS,
    *CSV_OPTIONS,
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Read files and row groups in N processes.",
    ),
)

# Of commands that read rows for a saved model.
UNSEEN_CATEGORIES = click.option(
    "--unseen",
    type=click.Choice(["error", "ignore"]),
    default="error",
    help="A category that the model does not know: an error, or 0 in all its indicators.",
)

_TRANSFORM_OPTIONS = (
    output_option(
        "--keep",
        multiple=True,
        callback=each_once,
        metavar="COL",
        help="Write this column of DATA beside the reduced rows (repeatable).",
    ),
    output_option("--keep-all", is_flag=True, help="Write all columns of DATA beside them."),
    click.option(
        "--on-missing",
        type=click.Choice(_ON_MISSING),
        default="error",
        help="Where a feature is missing: an error, or leave out the row; with em, expect it by "
        "the observed ones, if MODEL was fitted so; with em-drop-empty, also leave out rows "
        "without any feature.",
    ),
    UNSEEN_CATEGORIES,
)

_DIMENSION_OPTIONS = (
    fitted_option(
        "-d",
        "--dimensions",
        "n_components",
        type=dimensions_or_share,
        metavar="N",
        help="Dimensions to keep; or a share, such as 0.9: the fewest dimensions that keep so much "
        "of every group's variance. Without it -d 0.9.",
    ),
    fitted_option(
        "--center",
        type=click.Choice(["global", "group", "none"]),
        default="global",
        help="Measure errors about the mean of all rows, of each group, or the origin.",
    ),
    fitted_option(
        "--standardize",
        is_flag=True,
        help="Divide each feature by its standard deviation (in Python: scale=True).",
    ),
)

_AUDIT_OPTIONS = (
    judged_option(
        "--folds",
        type=folds_or_none,
        default="10",
        metavar="K",
        help="Number of folds for cross-fitting; none for no estimates.",
    ),
    judged_option(
        "--clusters",
        metavar="COL",
        help="Column that says which rows belong together, such as those of one person.",
    ),
    judged_option(
        "--level",
        type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
        default=0.95,
        metavar="P",
        help="Level of the intervals.",
    ),
    judged_option(
        "--materiality",
        "materiality",
        type=click.FloatRange(0, 1, max_open=True),
        default=0.01,
        metavar="SHARE",
        help="The least loss that matters, as a share of a group's variance.",
    ),
    judged_option(
        "--repeats",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Try N assignments of rows to folds, and say in how many the verdict is the same.",
    ),
)

# Of commands that read rows with groups; they come as one `reading`.
reads_rows = bundle_options("read_options", ReadOptions, _READ_OPTIONS)
# Of transform, which reads rows without groups.
transforms = bundle_options(
    "read_options", ReadOptions, (*_TRANSFORM_OPTIONS, NA_VALUES, *CSV_OPTIONS)
)
# What new rows would show.
judges = bundle_options("audit_options", AuditOptions, _AUDIT_OPTIONS)


_CRITERION_OPTIONS = (
    fitted_option(
        "--criterion",
        type=NameOrObject("criterion"),
        default="minimax_loss",
        metavar="NAME",  # all of them in one word would be wider than a terminal
        help=f"What to minimise: {', '.join(builtin_names('criterion'))}.",
    ),
    fitted_option(
        "--param",
        "criterion_parameters",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parameters,
        help="A parameter of the criterion, such as penalty=2, relative=yes, protected=GROUP or "
        "radius.GROUP=0.1 (repeatable).",
    ),
)

_RESTRICTION_OPTIONS = (
    fitted_option(
        "--restriction",
        type=NameOrObject("restriction"),
        is_eager=True,
        metavar="NAME",
        help=f"What hides the group: {', '.join(builtin_names('restriction'))}.",
    ),
    fitted_option(
        "--restriction-param",
        "restriction_parameters",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parameters,
        help="A parameter of the restriction, such as oblique=yes, attributes=marginal, "
        "within_classes=all or columns=age,income (repeatable).",
    ),
)

_SOLVER_OPTIONS = (
    fitted_option(
        "--solver",
        type=NameOrObject("solver"),
        default="auto",
        metavar="NAME",
        help=f"How to minimise: {', '.join(builtin_names('solver'))}. Random starts use the seed 0.",
    ),
    fitted_option(
        "--solver-param",
        "solver_parameters",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parameters,
        help="A parameter of the solver, such as max_iter=500 (repeatable).",
    ),
    fitted_option(
        "--tol",
        type=click.FloatRange(0, 1, max_open=True),
        default=1e-9,
        metavar="SHARE",
        help="Largest gap that is called optimal, as a share of the objective.",
    ),
    fitted_option(
        "--allow-extra",
        is_flag=True,
        help="With three groups or more: allow more components than dimensions, each scaled down, "
        "if only these reach the optimum.",
    ),
    fitted_option(
        "--nested",
        is_flag=True,
        help="Choose components one after the other: the first ones answer fewer dimensions.",
    ),
)

# Of commands that reduce rows to some dimension, take a criterion, or fit; as one `fitting`.
chooses_dimension = bundle_options("fit_options", FitOptions, _DIMENSION_OPTIONS)
chooses_criterion = bundle_options(
    "fit_options", FitOptions, (*_DIMENSION_OPTIONS, *_CRITERION_OPTIONS)
)
fits = bundle_options(
    "fit_options",
    FitOptions,
    (*_DIMENSION_OPTIONS, *_CRITERION_OPTIONS, *_RESTRICTION_OPTIONS, *_SOLVER_OPTIONS),
)
