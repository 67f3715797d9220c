"""What each extra must be able to do where nothing else is installed."""

_ROWS = """
import numpy as np
import fairspan as fs
rng = np.random.default_rng(0)
groups = np.array(["a", "b"])[np.arange(80) % 2]
X = rng.normal(size=(80, 5)) * np.where(groups[:, None] == "a", [3, 2, 1, 1, 1], [1, 1, 1, 2, 3])
model = fs.FairPCA(2).fit(X, sensitive_features=groups)
"""

# By extra: a program that fails unless it works.
SMOKE = {
    "arrow": _ROWS
    + """
import pyarrow, pyarrow.parquet as parquet
table = pyarrow.table({**{f"x{j}": X[:, j] for j in range(5)}, "g": groups})
parquet.write_table(table, "rows.parquet")
read = fs.FairPCA(2).fit("rows.parquet", sensitive_features="g")
assert abs(read.solution_.objective - model.solution_.objective) < 1e-9
""",
    "pandas": _ROWS
    + """
frame = fs.audit(model, X, groups).frame()
assert {"group", "expected_loss", "state"} <= set(frame.columns)
""",
    "plot": _ROWS
    + """
import matplotlib; matplotlib.use("agg")
from fairspan.displays import FrontierDisplay
FrontierDisplay.from_estimator(model).plot().figure_.savefig("frontier.png")
""",
    "report": _ROWS
    + """
fs.write_report("page.html", X, groups, n_components=2)
page = open("page.html", encoding="utf-8").read()
assert page.startswith("<!DOCTYPE html>") and "<svg" in page
""",
    "dask": _ROWS
    + """
import dask.array as da
rows = da.from_array(X, chunks=(20, 5))
parted = fs.FairPCA(2).fit(rows, sensitive_features=da.from_array(groups, chunks=20))
assert abs(parted.solution_.objective - model.solution_.objective) < 1e-9
""",
    "onnx": _ROWS
    + """
import numpy as np
from onnx.reference import ReferenceEvaluator
model.subspace_.to_onnx("fair.onnx")
(made,) = ReferenceEvaluator("fair.onnx").run(None, {"X": X})
assert np.allclose(made, model.transform(X))
""",
}
