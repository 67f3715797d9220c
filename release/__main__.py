"""Build what would be released, and check it as a stranger would meet it: `./run release`.

The wheel and the source archive are built, their contents and metadata compared with the sources,
and the wheel is installed in clean environments: once without extras, where the demo and the tests
of the bare core run, and once with each extra, which must then do what it is for. The extra
`spark` is too large to install and is checked in the metadata alone. Anything wrong ends the run.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from time import perf_counter

from release.extras import SMOKE

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "release"
_TOO_LARGE = {"spark"}
_BIN = "Scripts" if os.name == "nt" else "bin"
# Whoever has the source archive can read, test and build it.
_IN_SOURCES = ("README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "run")


class ReleaseError(Exception):
    """What is wrong with the release, in one line."""


def main() -> int:
    """Build and check; the exit status is 1 if anything is wrong."""
    started = perf_counter()
    try:
        wheel, sources = built()
        check_contents(wheel, sources)
        check_metadata(wheel)
        check_core(wheel)
        for extra in SMOKE:
            check_extra(wheel, extra)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    said(f"{wheel.name} and {sources.name} are good ({perf_counter() - started:.0f} s)")
    return 0


def said(text: str) -> None:
    """Tell how far the checks are."""
    print(f"release: {text}", flush=True)


def done(*command: str | Path, folder: Path = ROOT) -> str:
    """Output of a command that must succeed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(
        [str(part) for part in command], cwd=folder, env=clean, capture_output=True, text=True
    )
    if result.returncode:
        told = (result.stdout + result.stderr).strip()
        raise ReleaseError(f"{' '.join(map(str, command))} failed:\n{told}")
    return result.stdout


def uv(*arguments: str | Path) -> str:
    """Run uv, which `./run setup` installs."""
    return done(Path(sys.executable).with_name("uv"), *arguments, "--quiet")


def built() -> tuple[Path, Path]:
    """The wheel, made from the unpacked source archive as an installer would, and that archive."""
    shutil.rmtree(BUILD, ignore_errors=True)
    uv("build", "--out-dir", BUILD, ROOT)
    (wheel,), (sources,) = BUILD.glob("*.whl"), BUILD.glob("*.tar.gz")
    said(f"built {wheel.name} and {sources.name}")
    return wheel, sources


def check_contents(wheel: Path, sources: Path) -> None:
    """The wheel has the package and nothing else; the archive has what is needed to test it."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "fairspan").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if files != package:
        raise ReleaseError(f"the wheel differs from src in {sorted(files ^ package)}")
    with tarfile.open(sources) as archive:
        held = {name.split("/", 1)[-1] for name in archive.getnames()}
    if missing := [name for name in _IN_SOURCES if name not in held]:
        raise ReleaseError(f"the source archive lacks {missing}")
    for folder in ("src", "tests", "docs", "examples", "reproduction"):
        if not any(name.startswith(f"{folder}/") for name in held):
            raise ReleaseError(f"the source archive has nothing of {folder}/")
    said(f"the wheel has the {len(package)} files of the package, the archive what tests it")


def check_metadata(wheel: Path) -> None:
    """Name, version, licence, dependencies and extras are those of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        found = Parser().parsestr(archive.read(name).decode())
    version = re.findall(r'"(.+)"$', (ROOT / "src/fairspan/version.py").read_text(), re.M)[-1]
    expected = {
        "Name": project["name"],
        "Version": version,
        "License-Expression": project["license"],
        "Requires-Python": project["requires-python"],
        "Description-Content-Type": "text/markdown",
    }
    for field, value in expected.items():
        if found[field] != value:
            raise ReleaseError(f"{field} is {found[field]!r} and should be {value!r}")
    extras = project["optional-dependencies"]
    if set(found.get_all("Provides-Extra", [])) != set(extras):
        raise ReleaseError(f"the extras are {found.get_all('Provides-Extra')}")
    if set(extras) != set(SMOKE) | _TOO_LARGE:
        raise ReleaseError("release/extras.py has another list of extras than pyproject.toml")
    n_expected = len(project["dependencies"]) + sum(map(len, extras.values()))
    if len(found.get_all("Requires-Dist", [])) != n_expected:
        raise ReleaseError(f"Requires-Dist is {found.get_all('Requires-Dist')}")
    text = found.get_payload()
    if f"\n## {version}" not in (ROOT / "CHANGELOG.md").read_text():
        raise ReleaseError(f"CHANGELOG.md has no section for {version}")
    if not str(text).startswith("# fairspan"):
        raise ReleaseError("the long description is not the README")
    said("metadata agree with pyproject.toml")


def check_core(wheel: Path) -> None:
    """The wheel alone, in a clean environment: tests of the core, the demo, an honest refusal."""
    python = environment("core", f"{wheel}")
    uv("pip", "install", "--python", python, "pytest")
    tests = ROOT / "tests" / "without_extras"
    done(python, "-I", "-m", "pytest", "--noconftest", "-q", "-p", "no:cacheprovider", tests)
    shown = done(python.with_name("fairspan"), "demo", folder=BUILD)
    if "harm" not in shown:
        raise ReleaseError(f"fairspan demo prints no verdict:\n{shown}")
    said("without extras: tests of the core pass and the demo runs")


def check_extra(wheel: Path, extra: str) -> None:
    """The wheel with one extra, in a clean environment: it does what the extra is for."""
    python = environment(extra, f"{wheel}[{extra}]")
    done(python, "-I", "-W", "error::DeprecationWarning:fairspan", "-c", SMOKE[extra], folder=BUILD)
    said(f"with the extra {extra}: works")


def environment(name: str, requirement: str) -> Path:
    """The interpreter of a new environment that has this and what it needs."""
    place = BUILD / f"environment-{name}"
    uv("venv", "--python", sys.executable, place)
    python = place / _BIN / "python"
    uv("pip", "install", "--python", python, requirement)
    uv("pip", "check", "--python", python)
    return python


if __name__ == "__main__":
    sys.exit(main())
