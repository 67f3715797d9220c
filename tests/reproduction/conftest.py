"""Running the command reproduce, and experiments without it."""

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import real_data
from reproduction import registry
from reproduction.command import run as run_command
from reproduction.experiment import Effort, Result, Setting
from reproduction.store import Store


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


@pytest.fixture
def reproduce(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Run the command in this process; files go to tmp_path / "out"."""
    monkeypatch.delenv("FAIRSPAN_DATA", raising=False)
    folder = tmp_path / "out"
    folder.mkdir()

    def run(*arguments: object) -> Outcome:
        capfd.readouterr()
        status = run_command([*map(str, arguments), "-o", str(folder)])
        return Outcome(status, *capfd.readouterr())

    return run


@pytest.fixture
def read_files(tmp_path: Path) -> Callable[[], dict[str, bytes]]:
    """Return a function that reads the files in tmp_path / "out"."""
    return lambda: {path.name: path.read_bytes() for path in sorted((tmp_path / "out").iterdir())}


class Toy:
    """Four steps, one of them a third; calls `before` before each."""

    name = "toy"
    title = "Four numbers"
    source = "made up"

    def __init__(self, files=(), before=lambda step: None, *, draws=True):
        self.files = files
        self.before = before
        self.draws = draws
        self.computed = []

    def run(self, setting):
        rows = []
        for step in range(4):
            setting.progress(f"step {step}", step, 4)
            rows.append((f"step {step}", setting.store.get_or_compute(f"{step}", self._of(step))))
        draw = self._draw if self.draws else None
        return Result(self.title, ("step", "value"), rows, ("A note.",), draw)

    def _of(self, step):
        def compute():
            self.before(step)
            self.computed.append(step)
            return step / 3

        return compute

    def _draw(self, figure):
        figure.subplots().plot([0, 1], [1, 0])


@pytest.fixture
def registered(monkeypatch):
    """Register a toy experiment."""

    def register(toy):
        module = types.ModuleType("reproduction.toy")
        module.TOY = toy
        monkeypatch.setitem(sys.modules, "reproduction.toy", module)
        monkeypatch.setitem(registry.EXPERIMENTS, "toy", registry.Entry("toy:TOY", toy.title))
        return toy

    return register


@pytest.fixture
def toy(registered):
    return registered(Toy())


@pytest.fixture
def make_toy():
    return Toy


@pytest.fixture(scope="session")
def quick():
    """Run an experiment quickly on the real data; those with the same steps share a store."""
    stores = {}

    def run(experiment, files=None):
        for name in experiment.files if files is None else files:
            real_data.data_path(f"{name}.parquet")
        store = stores.setdefault(experiment.files, Store())
        setting = Setting(real_data.FOLDER, Effort.QUICK, 0, lambda *_: None, store)
        return experiment.run(setting)

    return run
