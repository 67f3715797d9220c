"""Inputs that coverage guides: ./run fuzz --guided [--minutes N] [--runs N] [--seed S].

libFuzzer, through atheris, keeps each input that reaches new lines of the library and goes on from
there. Half of its steps change bytes, half change a header or an array inside of the archive, which
bytes alone rarely do as each member has a checksum. Asserted of each input: it is loaded, and
then the same after it was saved and loaded again, or refused with one of our errors; within 10 s
and 1 GB. The process ends at the first find, and leaves the input in the folder build/fuzz.
"""

import argparse
import atexit
import json
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import atheris
import numpy as np

with atheris.instrument_imports(include=["fairspan"]):
    from targets import Honest

    import fairspan as fs
    from fairspan.cli import options  # noqa: F401  (what follows imports the rest)
    from fairspan.errors import FairspanError
    from fairspan.moments.accumulate import MomentsFold
    from fairspan.rows.resuming import Plan, Record
    from fairspan.selection.checkpoint import Checkpoint
    from fairspan.storage import HeldFile

from spoiling import spoilt_archive, spoilt_bytes, spoilt_document

FOUND = Path("build/fuzz")
LONGEST_SECONDS, MOST_MEGABYTES = 10, 1024
# What the library itself takes, above which 1 GB is counted.
ITSELF_MEGABYTES = 700
TALLY = Counter()


class Formats:
    """One loader for each format; the first byte of an input says which."""

    def __init__(self, folder):
        self.folder = folder
        self.honest = Honest(folder)
        self.loaders = [self.model, self.moments, self.record, self.checkpoint]

    def seeds(self):
        pulls = json.dumps(self.honest.pulls).encode()
        formats = [self.honest.models, [self.honest.moment_bytes], [self.honest.record], [pulls]]
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

    def checkpoint(self, content):
        Checkpoint(self.path(content)).read("f" * 32, 3)

    def load(self, content):
        """What libFuzzer calls."""
        if not content:
            return
        loader = self.loaders[content[0] % len(self.loaders)]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loader(content[1:])
        except FairspanError:
            TALLY[loader.__name__, "refused"] += 1
        else:
            TALLY[loader.__name__, "loaded"] += 1

    def mutated(self, content, most, seed):
        """Another input, made from one that was kept."""
        random = np.random.default_rng(seed)
        if not content or random.random() < 0.5:
            return atheris.Mutate(content, most)
        is_document = self.loaders[content[0] % len(self.loaders)] == self.checkpoint
        spoilt = spoilt_text if is_document else spoilt_archive
        try:
            return (content[:1] + spoilt(random, content[1:]))[:most]
        except Exception:  # what was kept is no archive or document any more
            return (content[:1] + spoilt_bytes(random, content[1:]))[:most]


def spoilt_text(random, content):
    return json.dumps(spoilt_document(random, json.loads(content))).encode()


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
    atexit.register(told)
    atheris.Fuzz()


def told():
    """What became of the inputs."""
    for (name, outcome), count in sorted(TALLY.items()):
        print(f"{name:12} {outcome:9} {count:9,}")
    print(f"{TALLY.total():,} inputs", flush=True)


if __name__ == "__main__":
    main()
