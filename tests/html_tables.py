"""A parser of the tables that notebooks show, and names that try to be markup."""

from html.parser import HTMLParser

HOSTILE = "<script>alert('1')</script>\"&amp;\u202e"
TAGS = {"style", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "strong"}
IN_CELLS = {"span", "bdi", "wbr"}
ATTRIBUTES = {"class", "scope", "colspan", "data-value", "tabindex", "role", "aria-label"}
ATTRIBUTES |= {"data-state", "title"}


class Tables(HTMLParser):
    """Parser of the cells of each row as text, the tags, and text outside cells."""

    def __init__(self, html):
        super().__init__()
        self.rows = []
        self.tags = set()
        self.beside = []
        self.style = ""
        self.open = []
        self.notes, self.strong = [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        assert {name for name, _ in attributes} <= ATTRIBUTES
        if tag == "wbr":
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "p":
            self.notes.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "style":
            self.style += data
        elif {"td", "th"} & set(self.open):
            # The second line of a cell is a word of its own.
            self.rows[-1][-1] += f" {data}" if self.open[-1] == "span" else data
        else:
            self.beside.append(data)
        if "p" in self.open:
            self.notes[-1] += data
        if self.open[-1] == "strong":
            self.strong.append(data)
