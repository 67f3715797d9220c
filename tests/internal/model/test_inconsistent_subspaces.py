"""Files of subspaces whose fields contradict each other."""

import numpy as np
import pytest

from fairspan import FairSubspace
from fairspan.errors import CorruptFile
from fairspan.storage.archive import write_archive

BASIS = np.linalg.qr(np.random.default_rng(5).standard_normal((4, 2)))[0].T
SOUND = {"center": "global", "feature_names": None, "certificate": None, "proof": None}
INCONSISTENT = {
    "no components": (SOUND, {"mean": np.zeros(4)}),
    "not orthonormal": (SOUND, {"components": 2 * BASIS}),
    "NaN": (SOUND, {"components": BASIS * np.nan}),
    "more components than features": (SOUND, {"components": np.ones((3, 2))}),
    "one dimension": (SOUND, {"components": np.ones(4)}),
    "another width": (SOUND, {"components": BASIS, "mean": np.zeros(3)}),
    "infinite scale": (SOUND, {"components": BASIS, "scale": np.full(4, np.inf)}),
    "scale of zero": (SOUND, {"components": BASIS, "scale": np.zeros(4)}),
    "too few names": (SOUND | {"feature_names": ["x"]}, {"components": BASIS}),
    "unknown center": (SOUND | {"center": "median"}, {"components": BASIS}),
    "another certificate": (SOUND | {"certificate": {"x": 1}}, {"components": BASIS}),
    "certificate is a list": (SOUND | {"certificate": [1]}, {"components": BASIS}),
    "no center": ({k: v for k, v in SOUND.items() if k != "center"}, {"components": BASIS}),
}


@pytest.mark.parametrize("case", INCONSISTENT)
def test_a_subspace_that_contradicts_itself_is_refused(tmp_path, case):
    header, arrays = INCONSISTENT[case]
    write_archive(tmp_path / "out", "subspace", header, arrays)
    with pytest.raises(CorruptFile, match="does not contain a consistent subspace"):
        FairSubspace.load(tmp_path / "out")
