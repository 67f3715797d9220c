"""Commands as text that a reader can copy: one line, whatever names of files and columns hold."""

import os
import shlex
from collections.abc import Iterable


def shell_text(words: Iterable[str]) -> str:
    r"""The words of a command as a shell reads them.

    Words with line breaks, control codes or letters that would turn the line around are written
    with escapes, as bash and zsh take them: such a name could end a comment, or look like another.

    Examples
    --------
    >>> shell_text(["fairspan", "report", "my rows.csv"])
    "fairspan report 'my rows.csv'"
    >>> print(shell_text(["a\nb'c"]))
    $'a\x0ab\'c'
    """
    return " ".join(map(_word, words))


def _word(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
