"""Options of the commands, and bundles of them that a command receives as one object."""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Any, get_args

import click

from fairspan.cli.command import audit_option, fit_option, output_option, usage_error_if
from fairspan.cli.option_values import (
    AuditOptions,
    FitOptions,
    ModelOptions,
    PairOptions,
    ReadOptions,
    ReportOptions,
)
from fairspan.cli.param_types import (
    DATA_PATH,
    INPUT_FILE,
    NameOrObject,
    bin_edges,
    custom_object,
    dimensions_or_share,
    folds_or_none,
    memory_size,
    parse_parameters,
)
from fairspan.formatting.units import Unit
from fairspan.registry import builtin_names

# Values of fairspan.rows.blocks.OnMissing, which is slow to import.
_ON_MISSING = ("error", "drop", "em", "em-drop-empty")


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
FAIL_ON = output_option(
    "--fail-on",
    multiple=True,
    metavar="CONDITION[,...]",
    help="Exit with status 3 if the saved models, or else PCA, meet a condition: harm, "
    "inconclusive, drift, or the code of a finding, such as FS101.",
)
AUDIT_FORMAT = output_option(
    "--format",
    "audit_format",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    help="text; json, as --json; or markdown, for a model card or an issue.",
)
UNIT = output_option(
    "--unit",
    type=click.Choice(get_args(Unit)),
    default="share",
    help="Print errors and losses in per cent of each group's variance, or in squared units of the "
    "features, as in JSON.",
)


MISSING_GROUP_OPTION = "Give the group column with --group COL."


def _may_be_moments(path: Path) -> bool:
    """Return whether a file starts like saved moments, which are a zip file."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def check_distinct(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the values of a repeatable option; raise BadParameter if one is given twice.

    A callback of click, as are the next functions.
    """
    duplicates = sorted({value for value in values if values.count(value) > 1})
    if duplicates:
        raise click.BadParameter(f"{duplicates[0]!r} is given twice; give each column once.")
    return values


def _check_bins(
    context: click.Context, option: click.Parameter, values: tuple[tuple[str, Any], ...]
) -> tuple[tuple[str, Any], ...]:
    """Reject a column whose bins are given twice."""
    check_distinct(context, option, tuple(column for column, _ in values))
    return values


def _check_groups(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the group columns; require one for tables, before importing the library.

    A column that is given twice is rejected. DATA may also be saved moments, or ``module:object``
    for rows of another package, which is parsed to something other than a `Path`; both bring groups
    of their own.
    """
    # If this option is omitted, click parses DATA before it; if it is given, DATA is not needed.
    data = context.params.get("data")
    # Several inputs are all moments, or an error is raised later.
    if isinstance(data, tuple) and data:
        data = data[0]
    usage_error_if(
        isinstance(data, Path) and not values and not _may_be_moments(data), MISSING_GROUP_OPTION
    )
    return check_distinct(context, option, values)


def _parse_parameters(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    """Parse KEY=VALUE arguments; those of a restriction require --restriction."""
    if (
        values
        and option.name == "restriction_parameters"
        and context.params.get("restriction") is None
    ):
        raise click.BadParameter("Give the restriction with --restriction.")
    return parse_parameters(values)


def bundle_options(
    name: str, cls: type[Any], options: Sequence[Callable[[Any], Any]]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options to a command and passes their values as one object.

    Parameters
    ----------
    name : str
        Parameter name of the object in the command.
    cls : a dataclass
        Class whose fields are the options, or records of options such as those of `ReadOptions`. A
        command may omit some options, which keep their defaults.
    options : sequence of click's options
    """

    def build(record: type[Any], values: dict[str, Any]) -> object:
        """Build a record from its options, which are taken out of the values."""
        arguments = {}
        for field in fields(record):
            if is_dataclass(field.default):
                arguments[field.name] = build(type(field.default), values)
            elif field.name in values:
                arguments[field.name] = values.pop(field.name)
        return record(**arguments)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def wrapper(*arguments: Any, **values: Any) -> Any:
            bundle = build(cls, values)
            return command(*arguments, **{name: bundle}, **values)

        for option in reversed(options):
            wrapper = option(wrapper)
        return wrapper

    return decorate


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
        help="CSV and Excel files have no header: name the columns column_1, column_2, ...",
    ),
    click.option(
        "--skip-rows",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Skip the first N lines of CSV and Excel files, above the header.",
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


_READ_OPTIONS = (
    click.option(
        "--group",
        "groups",
        multiple=True,
        callback=_check_groups,
        metavar="COL",
        help="Group column (repeat for intersections).",
    ),
    click.option(
        "--bin",
        "bins",
        multiple=True,
        type=bin_edges,
        callback=_check_bins,
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
        callback=check_distinct,
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
        callback=_parse_parameters,
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
        callback=_parse_parameters,
        help="Parameter of the restriction, such as oblique=yes, keep_outcome=yes, "
        "attributes=marginal, within_classes=all or columns=age,income (repeatable).",
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
        callback=_parse_parameters,
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
    fit_option(
        "--rotation",
        type=click.Choice(["varimax"]),
        help="Rotate the components inside the subspace, so that each depends on few features.",
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

# Options of a fit of two tables, passed as one object.
with_pair_options = bundle_options(
    "pair_options",
    PairOptions,
    (
        fit_option(
            "--targets",
            multiple=True,
            metavar="PATTERN",
            help="Columns of a second table Y, such as 'PAY_AMT*': fit partial least squares of "
            "the other columns with these (repeatable).",
        ),
        fit_option(
            "--method",
            type=click.Choice(["pls", "cca"]),
            default="pls",
            help="With --targets: partial least squares, or canonical correlation.",
        ),
        fit_option(
            "--regularization",
            type=click.FloatRange(0, 1),
            default=0.0,
            metavar="SHARE",
            help="With --method cca: share by which covariances are shrunk before whitening.",
        ),
    ),
)

_TEST = audit_option(
    "--test", "test_path", type=INPUT_FILE, help="Held-out rows on which the models are audited."
)
# Models of an audit, passed as one object.
with_model_options = bundle_options(
    "model_options",
    ModelOptions,
    (
        audit_option(
            "--model",
            "models",
            multiple=True,
            type=INPUT_FILE,
            help="Audit a saved model instead of ordinary PCA (repeatable).",
        ),
        CUSTOM_OBJECTS,
        audit_option(
            "--by-dimension",
            is_flag=True,
            help="Show the expected loss of each group for several numbers of dimensions.",
        ),
        audit_option(
            "--repair",
            is_flag=True,
            help="Fit the default repair, minimax loss, as well, and compare it with ordinary PCA.",
        ),
        _TEST,
    ),
)
# Contents of a report beyond its main model, passed as one object.
with_report_options = bundle_options(
    "report_options",
    ReportOptions,
    (
        output_option(
            "--display",
            "displays",
            multiple=True,
            type=NameOrObject("display"),
            metavar="NAME",
            help="Add a plot to the report, such as loadings (repeatable).",
        ),
        audit_option(
            "--model",
            "models",
            multiple=True,
            type=INPUT_FILE,
            help="Add a section on a saved model (repeatable).",
        ),
        CUSTOM_OBJECTS,
        output_option(
            "--compare",
            "criteria",
            multiple=True,
            type=NameOrObject("criterion"),
            metavar="NAME",
            help="Compare with this criterion (repeatable); by default all.",
        ),
        _TEST,
        output_option("--title", metavar="TEXT", help="Title of the report."),
    ),
)
