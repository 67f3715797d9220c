"""Build the release files and try them in a new environment: `./run release`.

`uv build` makes the wheel (from the unpacked source archive) and the archive, `twine check` reads
their metadata, and `smoke.py` runs with the wheel in clean environments: once without extras, and
once with each extra. The extra `spark` is too large to install. The first failure ends the run.
"""

import os
import subprocess
import sys
from pathlib import Path
from shutil import rmtree

from release.smoke import MODULES

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "release"


def run(*command: str | Path, folder: Path = ROOT) -> None:
    """Run a command that must succeed, without the settings of this Python."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run(list(map(str, command)), cwd=folder, env=clean, check=True)


def uv(*arguments: str | Path) -> None:
    """Run uv, which `./run setup` installs."""
    run(Path(sys.executable).with_name("uv"), "--quiet", *arguments)


def main() -> None:
    """Build and try."""
    rmtree(BUILD, ignore_errors=True)
    uv("build", "--out-dir", BUILD, ROOT)
    (wheel,), (sources,) = BUILD.glob("*.whl"), BUILD.glob("*.tar.gz")
    uv("tool", "run", "twine", "check", "--strict", wheel, sources)
    for extra in ("", *MODULES):
        place = BUILD / f"with-{extra or 'nothing'}"
        python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
        uv("venv", "--python", sys.executable, place)
        uv("pip", "install", "--python", python, f"{wheel}[{extra}]" if extra else wheel)
        run(python, "-I", ROOT / "release" / "smoke.py", *filter(None, [extra]), folder=BUILD)
        print(f"release: the wheel works with {f'the extra {extra}' if extra else 'no extra'}")


if __name__ == "__main__":
    main()
