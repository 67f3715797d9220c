"""Check built pages: they load nothing from outside, and no link or picture is dead.

No two addresses differ by case alone: on many file systems one file would overwrite the other.

    python self_contained.py FOLDER

Links that a reader clicks may lead anywhere; what a page loads by itself may not.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes whose address a browser opens by itself; of <link>, only these kinds.
_LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("use", "href")}
_LOADED_LINKS = ("stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch")


class _Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.clicked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.loaded += [values[name] for at, name in _LOADED if at == tag and name in values]
        self.loaded += [each.split()[0] for each in values.get("srcset", "").split(",") if each]
        if tag == "link" and any(kind in _LOADED_LINKS for kind in values.get("rel", "").split()):
            self.loaded.append(values.get("href", ""))
        if tag == "a":
            self.clicked.append(values.get("href", ""))


def faults(folder: Path) -> Iterator[str]:
    """Yield the faults of a folder's pages, one line each."""
    for page in sorted(folder.rglob("*.html")):
        if page.is_relative_to(folder / "_static"):  # templates of the theme
            continue
        addresses = _Addresses()
        addresses.feed(page.read_text(encoding="utf-8"))
        name = page.relative_to(folder)
        for address in addresses.loaded:
            if urlsplit(address).netloc:
                yield f"{name} loads {address} from outside"
        for address in addresses.loaded + addresses.clicked:
            parts = urlsplit(address)
            if not parts.scheme and not parts.netloc and not _exists(page, folder, parts.path):
                yield f"{name} leads to {address}, which is not there"
    for sheet in sorted(folder.rglob("*.css")):
        text = sheet.read_text(encoding="utf-8")
        if re.search(r"(url\(|@import)\s*[\"']?(https?:|//)", text):
            yield f"{sheet.relative_to(folder)} may load from outside"
    yield from alike(str(path.relative_to(folder)) for path in sorted(folder.rglob("*")))


def alike(names: Iterable[str]) -> Iterator[str]:
    """Those of several addresses that differ from an earlier one by case alone."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(name.lower(), name)
        if first != name:
            yield f"{first} and {name} differ by case alone"


def _exists(page: Path, folder: Path, path: str) -> bool:
    start = folder if path.startswith("/") else page.parent
    return not path or (start / unquote(path).lstrip("/")).exists()


if __name__ == "__main__":
    wrong = list(faults(Path(sys.argv[1])))
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    sys.exit(1 if wrong else 0)
