"""Commands to be spoilt in one place; words in braces stand for paths."""

import pytest

FIT = ("fit", "{data}", "--group", "age", "-d", "2", "-o", "{out}")
AUDIT = ("audit", "{data}", "--group", "age")
MOMENTS = ("moments", "{data}", "--group", "age", "-o", "{out}")
REPORT = ("report", "{data}", "--group", "age", "-d", "2", "-o", "{out}")
TRANSFORM = ("transform", "{model}", "{data}", "-o", "{out}")


def replacing(command, **parts):
    """The command with other values in the places of some of its words."""
    return tuple(parts.get(word.strip("{}"), word) for word in command)


BOTH = pytest.mark.parametrize("command", [AUDIT, FIT], ids=["audit", "fit"])
WRITING = pytest.mark.parametrize("command", [FIT, TRANSFORM], ids=["fit", "transform"])
ALL = pytest.mark.parametrize("command", [AUDIT, FIT, TRANSFORM], ids=["audit", "fit", "transform"])

# A program that runs a command whose files may not grow beyond so many bytes.
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from fairspan.cli import main
main(sys.argv[2:])
"""
