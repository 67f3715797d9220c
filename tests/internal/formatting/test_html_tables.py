"""Tables as HTML: every text is escaped, wherever it stands."""

from fairspan.formatting.table import Cell, Column, Table
from html_tables import HOSTILE, IN_CELLS, TAGS, Tables


def test_every_text_of_a_table_is_escaped():
    texts = [f"{place}<i>{HOSTILE}" for place in ("caption", "head", "section", "name", "cell")]
    caption, head, section, name, cell = texts
    column = Column(head, [Cell(name), Cell(name)], group=name, is_text=True, total=Cell(cell))
    table = Table(
        caption,
        (column, Column("", [Cell(cell, detail=cell)] * 2)),
        ((0, section),),
        [(name, cell)],
    )
    tables = Tables(table.to_html())
    assert tables.tags <= TAGS | IN_CELLS | {"tfoot"}
    assert tables.rows[0] == [f"{head} {name}", ""]
    assert tables.rows[1:] == [[section], *[[name, f"{cell} {cell}"]] * 2, [cell, ""]]
    assert "".join(tables.beside) == caption + name + cell
