"""The demonstration and the report of a file: facts, the page made of them, and what is shown."""

import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairspan.auditing.audit import Audit, audit, finding_lines
from fairspan.auditing.models import attributes_of, known_labels_of
from fairspan.auditing.results import group_name
from fairspan.certificates.certificate import Certificate
from fairspan.cli.inputs import held_out_rows, loaded, open_input, with_labels
from fairspan.cli.options import Reading
from fairspan.cli.output import certificate_in_words
from fairspan.cli.reading import reading_for
from fairspan.cli.terminal import paint_on
from fairspan.datasets import Dataset, adult_by_sex
from fairspan.errors import MissingDependency
from fairspan.formatting.text import counted, figure, in_ascii, relative, width_of, wrapped
from fairspan.moments.group_moments import GroupMoments, accumulate
from fairspan.problem.reduction import criterion_of
from fairspan.registry import Foreign
from fairspan.report.program import Origin, title_of, without_folders
from fairspan.report.report import Report, ReportSettings, making_a_report, read_models, report_of
from fairspan.report.writing import check_can_write, with_displays, write_page
from fairspan.rows.groups import printable, spelled
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.registry import fingerprint_of, match_groups, of_files, rows_of

# Options that choose neither rows nor columns.
_OF_NO_ROWS = {"jobs", "max_memory", "unseen"}
_N_COMPONENTS = 3
# How a reader of the page gets the same moments.
_MAKING_MOMENTS = """\
from fairspan.datasets import adult_by_sex
data = adult_by_sex()
moments = GroupMoments.from_rows(data.X, data.sensitive_features)"""


@making_a_report()
def report_of_file(
    path: Path | Foreign,
    page: Path | None,
    reading: Reading,
    criterion: str | Foreign,
    parameters: Mapping[str, Any],
    settings: Mapping[str, Any],
    typed: Iterable[str],
    models: Sequence[Path] = (),
    parts: Sequence[Foreign] = (),
    test: Path | None = None,
    title: str | None = None,
    clusters: str | None = None,
) -> Report:
    """Write the page of a file, if it has a name; return its report.

    Parameters
    ----------
    path : Path or Foreign
        What was typed.
    page : Path or None
    reading : Reading
    criterion : str or Foreign
    parameters : mapping
        Of the criterion; texts name groups.
    settings : mapping
        The others of `ReportSettings.of`.
    typed : iterable of str
        The words of the command.
    models : sequence of Path
        Saved models, which have a section of the page.
    parts : sequence of Foreign
        Criteria and restrictions of other packages that these were fitted with.
    test : Path or None
        Held-out rows that judge them.
    title : str or None
    clusters : str or None
        Column that says which rows belong together.

    Raises
    ------
    FairspanError
        Rows or settings that cannot be used; settings are checked before the rows.
    """
    if page is not None:
        check_can_write(page)
    given = loaded(models, parts)
    names = next((each.feature_names for each in given.values()), None)
    reading.refuse_beside(names)
    beside = attributes_of(given)
    reading = reading_for(given.values(), path, reading)
    table = open_input(path, reading, clusters).selected(names, beside)
    table = table.matched_to(known_labels_of(given, has_classes=table.has_labels))
    asked = ReportSettings.of(criterion_of(criterion, **parameters), **settings)
    if table.source is not None:
        asked.check_size(table.source.n_features)
    moments = table.moments
    asked = ReportSettings.of(
        criterion_of(criterion, **with_labels(parameters, moments.labels)), **settings
    )
    if table.source is None:
        fingerprint: str | None = of_files(Path(str(path)), ())
        line, rows = f"moments = GroupMoments.load({without_folders(str(path))!r})", None
    else:
        fingerprint, rows = fingerprint_of(table.source), table.rows("auditing")
        # Where --exclude and the like choose columns, these are the same moments.
        making = shell_text(
            [
                *("fairspan", "moments", without_folders(str(path)), *reading.words(_OF_NO_ROWS)),
                *(() if clusters is None else ("--exclude", clusters)),
            ]
        )
        line = f'# {making} -o moments.npz\nmoments = GroupMoments.load("moments.npz")'
    command, name = shell_text(["fairspan", *map(without_folders, typed)]), Path(str(path)).name
    origin = Origin(name, title or title_of(name), fingerprint, command, line)
    audited = read_models(given, moments) if given else []
    if audited and asked.n_components is None:
        asked = replace(asked, n_components=audited[0].subspace.dimension)
    held_out = None
    if test is not None:
        held_out = held_out_rows(test, reading, moments.feature_names, beside, clusters)
        held_out = match_groups(held_out, KnownLabels.of(moments.labels))
    report = report_of(
        moments,
        rows,
        asked,
        origin,
        models=audited,
        test=held_out,
        max_memory=reading.max_memory,
    )
    report = with_displays(report)
    if page is not None:
        write_page(page, report)
    return report


def summary(report: Report, page: Path | None) -> str:
    """The verdict, and findings about rows, PCA and the main criterion, as wide as the terminal."""
    width, paint, rows = width_of(sys.stdout), paint_on(sys.stdout), report.audit.rows
    sizes = ", ".join(f"{group_name(group.group)} {group.n:,}" for group in report.plain.groups)
    criteria = counted(len(report.fits) - 1, "criterion", "criteria")
    dimensions = counted(report.main.n_components, "dimension")
    what = (
        f"{counted(rows.n, 'row')} ({sizes}) of {counted(rows.n_features, 'feature')}; PCA and "
        f"{criteria}, each with {dimensions}."
    )
    lines = [*wrapped(printable(report.origin.title), width), *wrapped(what, width), ""]
    if report.verdict is not None:
        lines += [*wrapped(f"Verdict: {report.verdict}", width, "  "), ""]
    for each in report.audit.findings:
        if each.model in (None, report.plain.name, report.main.name):
            lines += finding_lines(each.code, each.severity, each.message, width, paint)
    return "\n".join([*lines, "", f"Written to {printable(str(page))}"])


def shell_text(words: Iterable[str]) -> str:
    r"""The words of a command as a shell reads them, in one line that a reader can copy.

    Words with line breaks, control codes or letters that would turn the line around are written
    with escapes, as bash and zsh take them: such a name could end a comment, or look like another.

    Examples
    --------
    >>> shell_text(["fairspan", "report", "my rows.csv"])
    "fairspan report 'my rows.csv'"
    >>> print(shell_text(["a\nb'c"]))
    $'a\x0ab\'c'
    """
    return " ".join(
        shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'"
        for word in words
    )


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return char if char.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))


def demo_facts() -> tuple[Certificate, Audit, Dataset]:
    """Fit and audit the data."""
    from fairspan.estimator.fair_pca import FairPCA  # takes its time

    data = adult_by_sex()
    moments = GroupMoments.from_rows(data.X, data.sensitive_features)
    # Estimators carry the moments that tell an audit which PCA a fair fit is compared with.
    plain, fair = (
        FairPCA(_N_COMPONENTS, criterion=criterion, scale=True).fit_moments(moments)
        for criterion in ("total_error", "minimax_loss")
    )
    return (
        fair.solution_,
        audit({"PCA": plain, "fair": fair}, data.X, data.sensitive_features),
        data,
    )


def missing_for_page(page: Path) -> str | None:
    """How to get the page, where a package that makes it is not installed."""
    try:
        check_can_write(page)
    except MissingDependency:
        return 'For the whole audit as a page: pip install "fairspan[report]", run this again'
    return None


def write_demo_page(page: Path, data: Dataset) -> None:
    """Write the audit page of the same rows."""
    rows = rows_of(data.X, data.sensitive_features)
    moments = replace(accumulate(rows), feature_names=data.feature_names)
    asked = ReportSettings.of("minimax_loss", None, _N_COMPONENTS, "global", True)
    origin = Origin(
        data.name, title_of(data.name), fingerprint_of(rows), "fairspan demo", _MAKING_MOMENTS
    )
    write_page(page, report_of(moments, rows, asked, origin))


def demo_screen(certificate: Certificate, result: Audit, data: Dataset) -> str:
    """What the reader sees, as wide as the terminal."""
    plain, fair = result.models
    sizes = ", ".join(f"{spelled(group.group)}: {group.n:,}" for group in plain.groups)
    cost = fair.total_error_here / plain.total_error_here - 1
    d, width = plain.n_components, width_of(sys.stdout)
    about = (
        f"Data: {data.source}: {result.rows.n:,} people ({sizes}), {result.rows.n_features} "
        f"features, standardised. PCA and fair PCA each keep {d} dimensions."
    )
    conclusion = (
        "A group is called 'harmed' only where its loss is above zero beyond chance. On these rows "
        "fair PCA minimises the larger loss: "
        f"{figure(plain.largest_loss_here)} becomes {figure(fair.largest_loss_here)}, for "
        f"{in_ascii(relative(cost))} more error over all rows."
    )
    parts = [
        _filled("Does PCA harm one of my groups, and does repair help?", width),
        _filled(about, width),
        _filled(f"Verdict: {result.verdict}", width),
        result.table().to_text(width, paint_on(sys.stdout)),
        f"{_filled(conclusion, width)}\n{certificate_in_words(certificate)}",
        # In one line, as it is copied.
        "Try it on your data: fairspan audit DATA.csv --group COLUMN --standardize",
    ]
    return "\n\n".join(parts)


def _filled(text: str, width: int) -> str:
    return "\n".join(wrapped(text, width))
