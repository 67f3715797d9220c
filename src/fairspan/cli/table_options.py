"""Options that say how tables are written, and what becomes of text and of missing numbers."""

import click


def csv_format(
    delimiter: str | None, decimal: str | None, encoding: str | None, comment: str | None
) -> dict[str, str] | None:
    """How CSV files are written, for `FileRows.open`; None where nothing was said."""
    if delimiter in ("tab", "\\t"):
        delimiter = "\t"
    said = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding, "comment": comment}
    return {name: value for name, value in said.items() if value is not None} or None


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
