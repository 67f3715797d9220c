"""Inputs that coverage guides: ./run fuzz --guided [--minutes N] [--runs N] [--seed S].

libFuzzer, through atheris, keeps each input that reaches new lines of the library and goes on from
there. Half of its steps change bytes, half change a header or an array inside of the archive, which
bytes alone rarely do as each member has a checksum. Asserted of each input: it is loaded, and
then the same after it was saved and loaded again, or refused with one of our errors; within 10 s
and 1 GB. Texts of `--param` that are taken give a fit whose certificate `verify` confirms; sparse
structures that are taken give the moments of the dense rows that they spell out. The process ends
at the first find, and leaves the input in the folder build/fuzz.
"""

import argparse
import json
import mmap
import os
import shutil
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import atheris
import click
import numpy as np
import scipy.sparse

with atheris.instrument_imports(include=["fairspan"]):
    from targets import CRITERIA, Honest

    import fairspan as fs
    from fairspan.cli.fitting import with_labels
    from fairspan.cli.parameters import parameters_of
    from fairspan.errors import FairspanError
    from fairspan.moments.accumulate import MomentsFold
    from fairspan.problem.posing import criterion_of
    from fairspan.rows.resuming import Plan, Record
    from fairspan.storage import HeldFile

from spoiling import spoilt_archive, spoilt_bytes, spoilt_document

FOUND = Path("build/fuzz")
LONGEST_SECONDS, MOST_MEGABYTES = 10, 1024
# What the library itself takes, above which 1 GB is counted.
ITSELF_MEGABYTES = 700
OUTCOMES = ["loaded", "refused", "repeated"]


class Formats:
    """One loader for each format; the first byte of an input says which."""

    def __init__(self, folder):
        self.folder = folder
        self.seen = set()
        self.honest = Honest(folder)
        self.sparse_rows = scipy.sparse.csr_array(self.honest.X * (self.honest.X > 0.5))
        self.loaders = [self.model, self.moments, self.record]
        self.loaders += [self.parameters, self.table, self.structure]
        # Shared with the process that tells of it, as libFuzzer ends its own at once.
        shared = mmap.mmap(-1, 8 * len(self.loaders) * len(OUTCOMES))
        self.tally = np.frombuffer(shared, np.int64).reshape(-1, len(OUTCOMES))

    def seeds(self):
        pulls = json.dumps(self.honest.pulls).encode()
        formats = [self.honest.models, [self.honest.moment_bytes], [self.honest.record], [pulls]]
        formats += [[bytes([number]) + text for number, text in PARAMETERS], [self.honest.csv]]
        formats.append([self.sparse_rows.indices.tobytes() + self.sparse_rows.indptr.tobytes()])
        for number, files in enumerate(formats):
            for content in files:
                yield bytes([number]) + content

    def path(self, content):
        path = self.folder / "input"
        path.write_bytes(content)
        return path

    def model(self, content):
        loaded = fs.FairSubspace.load(self.path(content))
        loaded.save(self.folder / "again")
        again = fs.FairSubspace.load(self.folder / "again")
        np.testing.assert_array_equal(again.components, loaded.components)
        np.testing.assert_array_equal(again.mean, loaded.mean)

    def moments(self, content):
        loaded = fs.GroupMoments.from_bytes(content)
        again = fs.GroupMoments.from_bytes(loaded.to_bytes())
        np.testing.assert_array_equal(again.scatters, loaded.scatters)
        np.testing.assert_array_equal(again.counts, loaded.counts)
        np.testing.assert_array_equal(again.groups, loaded.groups)
        assert np.isfinite(loaded.means).all()

    def record(self, content):
        held = HeldFile(self.path(content))
        Record(held, Plan.of(self.honest.rows)).read(MomentsFold())

    def parameters(self, content):
        """One argument of --param a line, for a criterion of which the first byte is the number."""
        names = [*CRITERIA, "disparity"]
        name = names[(content or b"\0")[0] % len(names)]
        arguments = content[1:].decode(errors="surrogateescape").splitlines()
        given = with_labels(parameters_of(name, arguments), self.honest.moments.labels)
        criterion = criterion_of(name, **given)
        fair = fs.FairPCA(2, criterion=criterion).fit_moments(self.honest.moments)
        assert np.isfinite(fair.solution_.objective)
        assert fs.verify(fair, self.honest.moments).holds

    def table(self, content):
        path = self.folder / "input.csv"
        path.write_bytes(content)
        loaded = fs.GroupMoments.from_rows(path, "g", on_missing="drop")
        assert np.isfinite(loaded.means).all()
        again = fs.GroupMoments.from_bytes(loaded.to_bytes())
        np.testing.assert_array_equal(again.scatters, loaded.scatters)

    def structure(self, content):
        """Column numbers and starts of rows, as they stand in memory."""
        matrix = self.sparse_rows.copy()
        numbers = np.frombuffer(content[: len(content) // 4 * 4], np.int32)
        own = numbers[: len(matrix.indices)]
        matrix.indices[: len(own)] = own
        own = numbers[len(matrix.indices) :][: len(matrix.indptr)]
        matrix.indptr[: len(own)] = own
        groups = self.honest.frame["g"]
        loaded = fs.GroupMoments.from_rows(matrix, groups)
        dense = np.zeros(self.honest.X.shape)
        for row in range(len(dense)):
            for place in range(matrix.indptr[row], matrix.indptr[row + 1]):
                dense[row, matrix.indices[place]] += matrix.data[place]
        expected = fs.GroupMoments.from_rows(dense, groups)
        np.testing.assert_allclose(loaded.scatters, expected.scatters, atol=1e-9)
        np.testing.assert_allclose(loaded.means, expected.means, atol=1e-12)

    def load(self, content):
        """What libFuzzer calls."""
        if not content:
            return
        number = content[0] % len(self.loaders)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.loaders[number](content[1:])
            outcome = "loaded"
        except (FairspanError, click.ClickException):
            outcome = "refused"
        if hash(content) in self.seen:
            outcome = "repeated"
        self.seen.add(hash(content))
        self.tally[number, OUTCOMES.index(outcome)] += 1

    def told(self):
        """What became of the inputs; a repeated one counts as nothing else."""
        for loader, counts in zip(self.loaders, self.tally.tolist(), strict=True):
            for outcome, count in zip(OUTCOMES, counts, strict=True):
                print(f"{loader.__name__:12} {outcome:9} {count:9,}")
        print(f"{self.tally[:, :2].sum():,} different inputs")

    def mutated(self, content, most, seed):
        """Another input, made from one that was kept."""
        random = np.random.default_rng(seed)
        if not content or random.random() < 0.5:
            return atheris.Mutate(content, most)
        kind = self.loaders[content[0] % len(self.loaders)].__name__
        spoilt = SPOILT.get(kind, spoilt_archive)
        try:
            return (content[:1] + spoilt(random, content[1:]))[:most]
        except Exception:  # what was kept is no archive or document any more
            return (content[:1] + spoilt_bytes(random, content[1:]))[:most]


def spoilt_text(random, content):
    return json.dumps(spoilt_document(random, json.loads(content))).encode()


def spoilt_numbers(random, content):
    numbers = np.frombuffer(content[: len(content) // 4 * 4], np.int32).copy()
    values = [-1, 0, 1, 3, 4, 40, len(numbers), 2**31 - 1, -(2**31)]
    numbers[random.integers(len(numbers), size=random.integers(1, 4))] = random.choice(values)
    return numbers.tobytes()


PARAMETERS = [
    (2, b"penalty=0.5\nradius.a=0.1\nradius.b=0.2"),
    (3, b"penalty=2e-3"),
    (5, b"trade_off=0.3\nprotected=b"),
]
SPOILT = {
    "structure": spoilt_numbers,
    "parameters": spoilt_bytes,
    "table": spoilt_bytes,
}


def main():
    """Take our options out of the command line; libFuzzer has the rest."""
    parser = argparse.ArgumentParser(prog="./run fuzz --guided", description=__doc__)
    parser.add_argument("--guided", action="store_true")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=-1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    FOUND.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    (folder / "corpus").mkdir()
    formats = Formats(folder)
    for number, seed in enumerate(formats.seeds()):
        (folder / "corpus" / str(number)).write_bytes(seed)
    if fuzzing := os.fork():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # which ends the other one
        _, status = os.waitpid(fuzzing, 0)
        formats.told()
        shutil.rmtree(folder)
        sys.exit(os.waitstatus_to_exitcode(status))
    atheris.Setup(
        [
            sys.argv[0],
            str(folder / "corpus"),
            f"-seed={arguments.seed}",
            f"-runs={arguments.runs}",
            f"-max_total_time={round(60 * arguments.minutes)}",
            f"-timeout={LONGEST_SECONDS}",
            f"-rss_limit_mb={ITSELF_MEGABYTES + MOST_MEGABYTES}",
            "-max_len=20000",
            "-len_control=0",
            "-print_final_stats=1",
            f"-artifact_prefix={FOUND}/",
        ],
        formats.load,
        custom_mutator=formats.mutated,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
