"""The options of the commands: how they are written, read and shown in help.

Values are read without numpy. A group is named by what tables print of it. Which groups there are
is known only when the rows have been read, so a name stays text until then; usage errors come at
once.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.shell_completion import CompletionItem

from fairspan.errors import nearest
from fairspan.registry import Foreign, names_of

if TYPE_CHECKING:
    from fairspan.moments.running_group import GroupLimit

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FILE_OR_FOLDER = click.Path(path_type=Path, allow_dash=True)
OUT = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


class _Data(click.Path):
    """A path that exists, or rows of another package, as package.module:Object."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path, or what makes the rows."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            found = Foreign.named("DATA", str(value))
            if found is None:
                raise
            return found


DATA_PATH = _Data(exists=True, path_type=Path)


def number_or_share(value: str) -> int | float:
    """A whole number from 1 on, or a share above 0 and below 1.

    Examples
    --------
    >>> number_or_share("3"), number_or_share("0.9")
    (3, 0.9)
    """
    text = value.strip()
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    share = float(text) if re.fullmatch(r"0?\.\d+", text) else 0.0
    if not 0 < share < 1:
        raise click.BadParameter(
            f"{value!r} is not a number of dimensions; write a whole number of at least 1, or "
            "a share of every group's variance, such as 0.9."
        )
    return share


def size(value: str) -> int:
    """Bytes, as a number or with a unit of 1,000, such as 500MB or 8GB.

    Examples
    --------
    >>> size("1.5GB")
    1500000000
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)B?", value.strip().upper())
    n_bytes = round(float(found[1]) * 1000 ** " KMGT".index(found[2] or " ")) if found else 0
    if n_bytes < 1:
        raise click.BadParameter(
            f"{value!r} is not a size; write a number with a unit, such as 500MB or 8GB."
        )
    return n_bytes


def folds_or_none(value: str | int) -> int:
    """A number of folds; 0 or "none" for no estimates of new rows, which gives 0."""
    text = "0" if str(value).lower() == "none" else str(value)
    if not text.isdecimal() or int(text) == 1:
        raise click.BadParameter(
            f"{value!r} is not a number of folds: 2 or more, or none for figures on these rows."
        )
    return int(text)


def part_of_others(value: str) -> Foreign:
    """A criterion or restriction of another package: package.module:Object."""
    found = Foreign.named("part", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not of the form package.module:Object.")
    return found


class Named(click.ParamType):  # type: ignore[type-arg]
    """The name of a criterion or another part, or one of another package: package.module:Object."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | Foreign:
        """The same name if it is known, or what makes the part of another package."""
        names = names_of(self.name)
        if value in names:
            return str(value)
        if (found := Foreign.named(self.name, str(value))) is not None:
            return found
        close = nearest(value, names)
        meant = f" Did you mean {close!r}?" if close else ""
        raise click.BadParameter(f"{value!r} is not one of {', '.join(map(repr, names))}.{meant}")

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin like this."""
        return [CompletionItem(name) for name in names_of(self.name) if name.startswith(incomplete)]


# A number, yes or no, the name of a group, or a number for each of some groups by their names.
Value = float | bool | str | dict[str, float]

# What the parameters of a criterion take; NUMBERS is one for all groups, or one for each of them.
NUMBER, NUMBERS, GROUP, FLAG = "a number", "numbers", "a group", "yes or no"
PARAMETERS = {
    "minimax_loss": {"relative": FLAG},
    "minimax_error": {"relative": FLAG},
    "disparity": {"trade_off": NUMBER, "protected": GROUP},
    "error_gap": {"penalty": NUMBER},
    "robust_error_gap": {"penalty": NUMBER, "radius": NUMBERS},
}
_YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}


def parameters_of(criterion: str, arguments: Sequence[str]) -> dict[str, Value]:
    """What KEY=VALUE arguments say.

    Parameters
    ----------
    criterion : str
        Name of a criterion.
    arguments : sequence of str
        Such as "penalty=2", "protected=female" or "radius.female=0.2".

    Returns
    -------
    dict
        By parameter: a number, True or False, the text that names a group, or numbers by such
        texts.

    Raises
    ------
    click.BadParameter
        Another form, a parameter that the criterion does not have, the same twice, or no number,
        or neither yes nor no, where one is wanted.

    Examples
    --------
    >>> parameters_of("robust_error_gap", ["penalty=2", "radius.a=0.1", "radius.b=0.2"])
    {'penalty': 2.0, 'radius': {'a': 0.1, 'b': 0.2}}
    """
    known = PARAMETERS.get(criterion, {})
    values: dict[str, Value] = {}
    for argument in arguments:
        # The name of a group may hold an equals sign, on either side.
        name, dot, _ = argument.partition("=")[0].partition(".")
        is_of_group = bool(dot) and known.get(name) == NUMBERS
        key, text = _halves(argument, at_last=is_of_group)
        name = name if is_of_group else key
        if name not in known:
            raise click.BadParameter(_unknown(criterion, key))
        if is_of_group != isinstance(values.get(name, {} if is_of_group else None), dict):
            raise click.BadParameter(f"Give {name} once for all groups, or for each of them.")
        own: Any = values.setdefault(name, {}) if is_of_group else values
        place = key.removeprefix(f"{name}.") if is_of_group else key
        if place in own:
            raise click.BadParameter(f"{key!r} is given twice.")
        own[place] = _read(key, text, known[name])
    return values


def _read(key: str, text: str, kind: str) -> Value:
    if kind == GROUP:
        return text
    try:
        return _YES_OR_NO[text.lower()] if kind == FLAG else float(text)
    except (KeyError, ValueError):
        wanted = FLAG if kind == FLAG else NUMBER
        raise click.BadParameter(f"{key} is {text!r}; it takes {wanted}.") from None


def _halves(argument: str, *, at_last: bool = False) -> tuple[str, str]:
    key, equals, text = argument.rpartition("=") if at_last else argument.partition("=")
    if not key or not equals or not text:
        raise click.BadParameter(f"{argument!r} is not of the form KEY=VALUE.")
    return key, text


def _unknown(criterion: str, key: str) -> str:
    known = PARAMETERS.get(criterion, {})
    allowed = [*known, *(f"{name}.GROUP" for name in known if known[name] == NUMBERS)]
    return f"The criterion {criterion!r} has no parameter {key!r}; " + (
        f"allowed: {', '.join(allowed)}." if allowed else "it has no parameters."
    )


def plain_parameters_of(arguments: Sequence[str]) -> dict[str, Any]:
    """What KEY=VALUE arguments say of any other part: numbers, yes and no, words, classes.

    Raises
    ------
    click.BadParameter
        Another form, or the same twice.

    Examples
    --------
    >>> plain_parameters_of(["oblique=yes", "given_labels=hired,refused"])
    {'oblique': True, 'given_labels': ['hired', 'refused']}
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        key, text = _halves(argument)
        if key in values:
            raise click.BadParameter(f"{key!r} is given twice.")
        values[key] = _plain_value(key, text)
    return values


def _plain_value(key: str, text: str) -> Any:
    if key == "given_labels":
        return text if text == "all" else text.split(",")
    if text in _YES_OR_NO:
        return _YES_OR_NO[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


TABLE, FITTED, JUDGED, OUTPUT = (
    "Reading the table",
    "What is fitted",
    "How it is judged",
    "Output",
)


class _Option(click.Option):
    """An option that stands under a heading; a plain one stands under that of the table."""

    def __init__(self, *names: Any, heading: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.heading = heading


fitted_option = partial(click.option, cls=_Option, heading=FITTED)
judged_option = partial(click.option, cls=_Option, heading=JUDGED)
output_option = partial(click.option, cls=_Option, heading=OUTPUT)


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
            meant = nearest(error.option_name.removeprefix("--"), names)
            raise click.NoSuchOption(
                error.option_name, possibilities=[f"--{meant}"] if meant else None, ctx=ctx
            ) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        for heading in (TABLE, FITTED, JUDGED, OUTPUT):
            of_it = [each for each in options if self._heading_of(each, ctx) == heading]
            records = [each.get_help_record(ctx) for each in of_it]
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


Decorated = TypeVar("Decorated", bound=Callable[..., Any])

DATA = click.argument("data", type=DATA_PATH)
MAYBE_DATA = click.argument("data", type=DATA_PATH, required=False)
PARTS = judged_option(
    "--part",
    "parts",
    multiple=True,
    type=part_of_others,
    metavar="MODULE:OBJECT",
    help="A criterion or restriction of another package that a saved model was fitted with "
    "(repeatable).",
)
JSON = output_option("--json", "as_json", is_flag=True, help="Print machine-readable results.")
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
        if self.numeric_only and self.one_hot:
            raise click.UsageError("--one-hot encodes text: no --numeric-only.")

    @property
    def limit(self) -> "GroupLimit":
        """How many groups the rows may have, and how much memory their moments may take."""
        from fairspan.moments.running_group import GroupLimit

        return GroupLimit(self.max_groups, max_memory=self.max_memory)

    @property
    def requested(self) -> set[str]:
        """Names of the options that were given another value than usual."""
        return {each.name for each in fields(self) if getattr(self, each.name) != each.default}

    def refuse_beside(self, names: tuple[str, ...] | None) -> None:
        """Raise a usage error if columns were chosen, and a model has names of its features."""
        asked = [name for name in _CHOICE_OF_FEATURES if getattr(self, name)]
        if names is not None and asked:
            option = f"--{asked[0].replace('_', '-')}"
            raise click.UsageError(f"A saved model brings its features: no {option}.")

    def refuse_for_moments(self, path: Path) -> None:
        """Raise a usage error if anything was requested, as moments hold no rows."""
        asked = self.requested
        options = [f"--{name.replace('_', '-')}" for name in sorted(asked - _CHOICE_OF_COLUMNS)]
        if asked & _CHOICE_OF_COLUMNS:
            options.insert(0, "--group, --features and --exclude")
        if options:
            raise click.UsageError(
                f"{path} holds moments, whose groups and features are fixed; "
                f"leave out {', '.join(options)}."
            )


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


def with_options(command: Decorated, options: Sequence[Callable[[Any], Any]]) -> Decorated:
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


def refuse_text(out: Path, what: str, *endings: str) -> None:
    """Refuse standard output, and a name of another kind of file, before anything is read.

    Parameters
    ----------
    out : Path
    what : str
        Such as "a model is".
    endings : str
        Those of its own kind.

    Raises
    ------
    click.UsageError, InvalidParameter
    """
    if str(out) == "-":
        raise click.UsageError(
            f"{what[0].upper()}{what[1:]} no text to print; name a file with -o."
        )
    from fairspan.storage import check_name  # takes its time

    check_name(out, what, *endings)


@dataclass(frozen=True)
class Fitting:
    """The options of a fit as they were typed: the names of parts, with their parameters.

    Attributes
    ----------
    criterion : str or Foreign
    parameters : mapping
        Of the criterion; texts name groups.
    restriction : str, Foreign or None
    of_restriction : mapping
    solver : str or Foreign
    of_solver : mapping
    tol : float
        Largest gap to call optimal, as a share of the objective.
    allow_extra : bool
    nested : bool
    """

    criterion: str | Foreign = "minimax_loss"
    parameters: Mapping[str, Value] = field(default_factory=dict)
    restriction: str | Foreign | None = None
    of_restriction: Mapping[str, Any] = field(default_factory=dict)
    solver: str | Foreign = "auto"
    of_solver: Mapping[str, Any] = field(default_factory=dict)
    tol: float = 1e-9
    allow_extra: bool = False
    nested: bool = False


def _of_criterion(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Value]:
    criterion = context.params["criterion"]
    if isinstance(criterion, Foreign):
        return plain_parameters_of(values)
    return parameters_of(criterion, values)


def _of_restriction(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    if values and context.params.get("restriction") is None:
        raise click.BadParameter("Name the restriction with --restriction.")
    return plain_parameters_of(values)


CSV = (
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
        "--encoding",
        metavar="NAME",
        help="Encoding of a CSV file, such as latin-1.  [default: utf-8]",
    ),
    click.option(
        "--comment",
        metavar="TEXT",
        help="Skip lines of a CSV file that begin with this text, such as '#'.",
    ),
)

TEXT = (
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
        type=size,
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
    *TEXT,
    *CSV,
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
        type=number_or_share,
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
        type=folds_or_none,
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
transforms = partial(with_options, options=(*_TRANSFORMING, *CSV))
# Of commands that reduce rows to some dimension.
chooses_dimension = partial(with_options, options=_DIMENSION)
# What new rows would show; a page knows no clusters.
estimates = partial(with_options, options=_ESTIMATING)
estimates_of_page = partial(
    with_options, options=[each for each in _ESTIMATING if each is not _CLUSTERS]
)


_CRITERION = (
    fitted_option(
        "--criterion",
        type=Named("criterion"),
        default="minimax_loss",
        is_eager=True,  # which parameters there are depends on it
        metavar="NAME",  # all of them in one word would be wider than a terminal
        help=f"What to minimise: {', '.join(names_of('criterion'))}.",
    ),
    fitted_option(
        "--param",
        "parameters",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_of_criterion,
        help="A parameter of the criterion, such as penalty=2, relative=yes, protected=GROUP or "
        "radius.GROUP=0.1 (repeatable).",
    ),
)

_RESTRICTION = (
    fitted_option(
        "--restriction",
        type=Named("restriction"),
        is_eager=True,
        metavar="NAME",
        help=f"What hides the group: {', '.join(names_of('restriction'))}.",
    ),
    fitted_option(
        "--restriction-param",
        "of_restriction",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_of_restriction,
        help="A parameter of the restriction, such as oblique=yes, attributes=marginal or "
        "given_labels=all (repeatable).",
    ),
)

_SOLVING = (
    fitted_option(
        "--solver",
        type=Named("solver"),
        default="auto",
        metavar="NAME",
        help=f"How to minimise: {', '.join(names_of('solver'))}. Random starts use the seed 0.",
    ),
    fitted_option(
        "--solver-param",
        "of_solver",
        multiple=True,
        metavar="KEY=VALUE",
        callback=lambda context, option, values: plain_parameters_of(values),
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

# Of commands that take a criterion; and of those that fit, as one `fitting`.
chooses_criterion = partial(with_options, options=_CRITERION)
fits = bundled("fitting", Fitting, (*_CRITERION, *_RESTRICTION, *_SOLVING))
