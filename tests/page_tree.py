"""An HTML page as a tree, read strictly: a tag that is not closed, or twice, is an error."""

from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "wbr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list = field(default_factory=list)

    @property
    def text(self):
        return "".join(c if isinstance(c, str) else c.text for c in self.children)

    def all(self, *tags):
        """Return such elements below this one, in the order of the page."""
        for child in self.children:
            if isinstance(child, Element):
                if child.tag in tags or not tags:
                    yield child
                yield from child.all(*tags)

    def with_id(self, key):
        return next(element for element in self.all() if element.attributes.get("id") == key)


class _TreeParser(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = [Element("page")]

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), (tag, names)
        element = Element(tag, dict(attributes))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        self.open[-1].children.append(data)


@lru_cache(maxsize=8)
def parse_page(page):
    """Return the tree of a page; do not modify it, as several tests share it."""
    reader = _TreeParser()
    reader.feed(page)
    reader.close()
    assert len(reader.open) == 1
    return reader.open[0]
