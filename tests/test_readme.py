"""The README's example runs as it stands and prints what it says."""

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def example_and_output():
    found = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", README, re.S)
    assert found is not None
    return found.groups()


def test_the_example_prints_what_the_readme_shows():
    example, shown = example_and_output()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})
    assert printed.getvalue() == shown


def test_the_example_fits_the_first_screen():
    example, _ = example_and_output()
    assert len([line for line in example.splitlines() if line]) <= 8


def test_every_option_in_the_command_lines_exists():
    from fairspan.cli import fairspan

    lines = re.findall(r"^fairspan (\w+) ?(.*?)(?: +#.*)?$", README, re.M)
    assert {command for command, _ in lines} == set(fairspan.commands)
    for command, arguments in lines:
        known = {name for param in fairspan.commands[command].params for name in param.opts}
        assert set(re.findall(r"(?<=\s)-{1,2}\w+", f" {arguments}")) <= known
