"""What is attacked: each target takes a generator of random numbers and a folder of its own.

Each returns a word for what happened; anything else than an error of fairspan is a find.
"""

import contextlib
import io
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import scipy.sparse
from spoiling import ODD_VALUES, one_of, spoilt_archive, spoilt_bytes

import fairspan as fs
from fairspan import cli
from fairspan.errors import FairspanError
from fairspan.moments.accumulate import MomentsFold
from fairspan.rows.files import first_pass
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.resuming import Plan, Record
from fairspan.storage import HeldFile

CRITERIA = ["minimax_loss", "total_error", "robust_error_gap", "error_gap"]
CRITERIA += ["equal_error", "least_variance"]


class Honest:
    """Inputs that nobody spoilt, made once."""

    def __init__(self, folder):
        random = np.random.default_rng(0)
        self.X = random.standard_normal((40, 4))
        self.frame = pd.DataFrame(self.X, columns=list("wxyz"))
        self.frame["g"] = ["a", "b"] * 20
        self.moments = fs.GroupMoments.from_rows(self.frame, "g")
        self.moment_bytes = self.moments.to_bytes()
        self.models = []
        for criterion in CRITERIA[:4]:
            fitted = fs.FairPCA(2, criterion=criterion).fit_moments(self.moments)
            fitted.subspace_.save(folder / "model")
            self.models.append((folder / "model").read_bytes())
        self.csv = self.frame.to_csv(index=False).encode()
        self.tables = {"csv": self.csv}
        self.frame.to_parquet(folder / "rows.parquet")
        self.frame.to_feather(folder / "rows.arrow", compression="uncompressed")
        for name in ("parquet", "arrow"):
            self.tables[name] = (folder / f"rows.{name}").read_bytes()
        (folder / "rows.csv").write_bytes(self.csv)
        self.rows = FileRows.open(folder / "rows.parquet", ["g"])
        fold = MomentsFold()
        record = Record(HeldFile(folder / "record"), Plan.of(self.rows))
        record.write(fold, 1, fold.over(self.rows))
        self.record = (folder / "record").read_bytes()


def model(honest, random, folder):
    (folder / "model").write_bytes(spoilt_archive(random, one_of(random, honest.models)))
    loaded = fs.FairSubspace.load(folder / "model")
    repr(loaded), loaded._repr_html_()
    if loaded.n_features == 4:
        loaded.transform(honest.X)
    fs.verify(loaded, honest.moments)


def moments(honest, random, folder):
    loaded = fs.GroupMoments.from_bytes(spoilt_archive(random, honest.moment_bytes))
    repr(loaded), loaded._repr_html_()
    fitted = fs.FairPCA(1, criterion=one_of(random, CRITERIA)).fit_moments(loaded)
    fs.verify(fitted, loaded)
    loaded + honest.moments


def record(honest, random, folder):
    (folder / "out.partial").write_bytes(spoilt_archive(random, honest.record))
    Record(HeldFile(folder / "out.partial"), Plan.of(honest.rows)).read(MomentsFold())


def table(honest, random, folder):
    name = one_of(random, sorted(honest.tables))
    path = folder / f"rows.{name}"
    path.write_bytes(spoilt_bytes(random, honest.tables[name]))
    fs.GroupMoments.from_rows(path, "g", on_missing=one_of(random, ["error", "drop"]))


def csv_table(honest, random, folder):
    """A spoilt CSV file, read as it may be written, with text encoded and gaps filled."""
    path = folder / "rows.csv"
    path.write_bytes(spoilt_bytes(random, honest.csv))
    form = {
        "delimiter": one_of(random, [",", ";", "\t", "a"]),
        "decimal": one_of(random, [".", ","]),
        "encoding": one_of(random, ["utf-8", "latin-1", "utf-16", "cp1252", "ascii"]),
        "comment": one_of(random, ["#", "1", "g"]),
    }
    said = {name: form[name] for name in form if random.random() < 0.3}
    rows = FileRows.open(path, ["g"], csv=said)
    if random.random() < 0.5:
        rows = first_pass.one_hot(rows)
    fs.GroupMoments.from_rows(rows, None)


def sparse(honest, random, folder):
    kind = one_of(random, ["csr_array", "csc_array", "csr_matrix", "bsr_array", "coo_array"])
    matrix = getattr(scipy.sparse, kind)(honest.X * (honest.X > 0.5))
    names = ("row", "col") if kind == "coo_array" else ("indices", "indptr")
    for _ in range(int(random.integers(1, 3))):
        array = getattr(matrix, one_of(random, [*names, "data"]))
        value = one_of(random, [-1, 0, 1, 4, 40, 41, 10**9, -(2**31), 2**31 - 1])
        array.flat[int(random.integers(array.size))] = value
    groups = honest.frame["g"]
    one_of(
        random,
        [
            lambda: fs.GroupMoments.from_rows(matrix, groups),
            lambda: fs.FairPCA(2).fit(matrix, sensitive_features=groups),
            lambda: fs.FairSubspace(np.eye(2, 4), np.zeros(4)).transform(matrix),
        ],
    )()


def words_of_command(honest, random, folder):
    """A command line of plausible and odd words, and the files that it names."""
    (folder / "rows.csv").write_bytes(honest.csv)
    (folder / "model").write_bytes(honest.models[0])
    (folder / "old.moments").write_bytes(honest.moment_bytes)
    places = {name: str(folder / name) for name in ("rows.csv", "model", "old.moments", "out")}
    data = one_of(random, [places["rows.csv"], places["old.moments"], places["model"]])
    words = one_of(
        random,
        [
            ["fit", data, "-o", places["out"]],
            ["audit", data],
            ["moments", data, "-o", places["out"]],
            ["merge", data, places["old.moments"], "-o", places["out"]],
            ["transform", places["model"], data, "-o", places["out"] + ".csv"],
            ["verify", places["model"], data],
        ],
    )
    if data == places["rows.csv"] and words[0] in ("fit", "audit", "moments", "verify"):
        words += ["--group", "g"]
    words = [*words]
    for _ in range(int(random.integers(0, 3))):
        words.append(one_of(random, OPTIONS))
        odd = str(one_of(random, ODD_VALUES)).replace("\0", "")
        words.append(odd if random.random() < 0.4 else one_of(random, PLAUSIBLE))
    return words


OPTIONS = ["-d", "--group", "--criterion", "--param", "--features", "--exclude", "--center"]
OPTIONS += ["--weight", "--on-missing", "--max-groups", "--json"]
OPTIONS += ["--delimiter", "--decimal", "--encoding", "--comment", "--numeric-only", "--one-hot"]
OPTIONS += ["--keep", "--keep-all", "--unseen", "--force", "--solver", "--tol", "--restriction"]
OPTIONS += ["--nested", "--allow-extra", "--folds", "--clusters", "--level", "--label"]
PLAUSIBLE = ["g", "w", "1", "2", "0.9", "minimax_loss", "error_gap", "penalty=0.5", "w*"]
PLAUSIBLE += [",", ";", "latin-1", "utf-16", "#", "mean", "ignore", "mean_parity", "none", "1e-6"]
PLAUSIBLE += ["trade_off=NaN", "penalty=[1,2]", "protected=b", '{"a":1}', "radius=1e400"]


def command(honest, random, folder):
    """A command line, called in this process."""
    words = words_of_command(honest, random, folder)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = cli.run(words)
    judged(words, status, said.getvalue())


def program(honest, random, folder):
    """A command line, as a program of its own."""
    words = words_of_command(honest, random, folder)
    done = subprocess.run(
        [sys.executable, "-c", "from fairspan.cli import main; main()"]
        + [word.encode("utf-8", "surrogatepass") for word in words],
        capture_output=True,
        text=True,
        errors="replace",
        cwd=folder,
    )
    judged(words, done.returncode, done.stdout + done.stderr)


def judged(words, status, said):
    """Only a verification may end with 1, and nobody is shown a traceback."""
    if status not in (0, 1, 2) or (status == 1 and words[0] != "verify"):
        raise AssertionError(f"status {status} of {words}: {said[-300:]}")
    if "Traceback" in said:
        raise AssertionError(f"a traceback of {words}")
    if status == 2:
        raise FairspanError("refused", "", "")


TARGETS = [model, moments, record, table, csv_table, sparse, command]
# Starting one takes a hundred times as long as calling it, and longer on a busy machine.
SLOW = [program]


def attempt(target, honest, random, folder):
    """Answered or refused; whatever else is raised is a find."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            target(honest, random, folder)
        except FairspanError:
            return "refused"
    return "answered"
