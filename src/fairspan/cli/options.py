"""Options that several commands share: of the table, its dimensions, and how it is judged."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from fairspan.cli import table_options
from fairspan.cli.help_pages import fitted_option, judged_option, output_option
from fairspan.cli.reading import Reading
from fairspan.cli.value_types import DATA_PATH, FoldsOrNone, NumberOrShare, OfOthers, Size

Command = TypeVar("Command", bound=Callable[..., Any])

DATA = click.argument("data", type=DATA_PATH)
MAYBE_DATA = click.argument("data", type=DATA_PATH, required=False)
PARTS = judged_option(
    "--part",
    "parts",
    multiple=True,
    type=OfOthers(),
    metavar="MODULE:OBJECT",
    help="A criterion or restriction of another package that a saved model was fitted with "
    "(repeatable).",
)
JSON = output_option("--json", "as_json", is_flag=True, help="Print machine-readable results.")


def each_once(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Values that are given once each: a column twice is a mistake."""
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise click.BadParameter(f"{twice[0]!r} is given twice; name each column once.")
    return values


def refuse_without_folds(folds: int, clusters: str | None, *, by_dimension: bool = False) -> None:
    """Raise a usage error where no folds are wanted, and something that is about new rows is."""
    if not folds and (by_dimension or clusters is not None):
        option = "--by-dimension" if by_dimension else "--clusters"
        raise click.UsageError(f"{option} concerns estimates for new rows: no --folds none.")


def refuse_without_models(models: Sequence[Path], reading: Reading, test: Path | None) -> None:
    """Raise a usage error where an option is about saved models, and none is named."""
    for option, is_given in (("--test", test is not None), ("--unseen", reading.unseen != "error")):
        if is_given and not models:
            raise click.UsageError(f"{option} concerns saved models: name these with --model.")


def with_options(command: Command, options: Sequence[Callable[[Any], Any]]) -> Command:
    """Add options to a command, in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def bundled(
    name: str, kind: type[Any], options: Sequence[Callable[[Any], Any]]
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
    names = [each.name for each in fields(kind)]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_one(*arguments: Any, **values: Any) -> Any:
            made = kind(**{field: values.pop(field) for field in names if field in values})
            return command(*arguments, **{name: made}, **values)

        return with_options(with_one, options)

    return add


_READING = (
    click.option(
        "--group",
        "groups",
        multiple=True,
        callback=each_once,
        metavar="COL",
        help="Group column; repeat it for intersections.",
    ),
    click.option(
        "--label",
        metavar="COL",
        help="Column of y, the classes that given_labels needs; it is no feature.",
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
        help="Allow up to N groups; by default up to 100, or a third as many as rows.",
    ),
    click.option(
        "--max-memory",
        type=Size(),
        metavar="SIZE",
        help="Memory for the matrices of groups, such as 500MB or 8GB; by default the machine's.",
    ),
    click.option("--weight", metavar="COL", help="Column of sample weights."),
    click.option(
        "--on-missing",
        type=click.Choice(["error", "drop"]),
        default="error",
        help="Where a feature or the group is missing: an error, or leave out the row.",
    ),
    *table_options.TEXT,
    *table_options.CSV,
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Read files and row groups in N processes.",
    ),
)

# Of commands that read rows for a saved model.
UNSEEN = click.option(
    "--unseen",
    type=click.Choice(["error", "ignore"]),
    default="error",
    help="A category that the model does not know: an error, or 0 in all its indicators.",
)

_TRANSFORMING = (
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
        type=click.Choice(["error", "drop"]),
        default="error",
        help="Where a feature is missing: an error, or leave out the row.",
    ),
    UNSEEN,
)

_DIMENSION = (
    fitted_option(
        "-d",
        "--dimensions",
        "n_components",
        type=NumberOrShare(),
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

_CLUSTERS = judged_option(
    "--clusters",
    metavar="COL",
    help="Column that says which rows belong together, such as those of one person.",
)

_ESTIMATING = (
    judged_option(
        "--folds",
        type=FoldsOrNone(),
        default="10",
        metavar="K",
        help="Number of folds for cross-fitting; none for no estimates.",
    ),
    _CLUSTERS,
    judged_option(
        "--level",
        type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
        default=0.95,
        metavar="P",
        help="Level of the intervals.",
    ),
    judged_option(
        "--material",
        type=click.FloatRange(0, 1, max_open=True),
        default=0.01,
        metavar="SHARE",
        help="The least loss that matters, as a share of a group's variance.",
    ),
)

# Of commands that read rows with groups; they come as one `reading`.
reads_rows = bundled("reading", Reading, _READING)
# How rows are read to be reduced.
transforms = partial(with_options, options=(*_TRANSFORMING, *table_options.CSV))
# Of commands that reduce rows to some dimension.
chooses_dimension = partial(with_options, options=_DIMENSION)
# What new rows would show; a page knows no clusters.
estimates = partial(with_options, options=_ESTIMATING)
estimates_of_page = partial(
    with_options, options=[each for each in _ESTIMATING if each is not _CLUSTERS]
)
