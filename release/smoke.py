"""Trial of the wheel with one extra and nothing else: `python smoke.py EXTRA`.

Without an argument: what needs no extra. Anything that fails ends the program with an error.
"""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np

import fairspan as fs

# Code that uses each extra.
MODULES = {
    "arrow": "pyarrow.dataset",
    "dask": "dask.dataframe",
    "excel": "openpyxl",
    "onnx": "onnx",
    "pandas": "pandas",
    "plot": "matplotlib",
    "report": "jinja2",
}
rng = np.random.default_rng(0)
GROUPS = np.array(["a", "b"])[np.arange(80) % 2]
SPREAD = np.where(GROUPS[:, None] == "a", [3, 2, 1, 1, 1], [1, 1, 1, 2, 3])
X = rng.normal(size=(80, 5)) * SPREAD


def core() -> None:
    """Fit, audit, verify, and solve Samadi's semidefinite program."""
    fair = fs.FairPCA(2).fit(X, sensitive_features=GROUPS)
    result = fs.audit(fair, X, GROUPS)
    if not fs.verify(fair, X, GROUPS).holds or "harm" not in result.verdict.kind:
        raise SystemExit(f"{fair!r} does not hold, or its audit has no verdict: {result}")
    relaxed = fs.FairPCA(2, solver=fs.Semidefinite(), tol=1e-6).fit_moments(fair.moments_)
    if abs(relaxed.solution_.objective - fair.solution_.objective) > 1e-6:
        raise SystemExit(f"{relaxed.solution_!r} is not {fair.solution_!r}")


def of_extra(extra: str) -> None:
    """Import what the extra brings, and use it."""
    import_module(MODULES[extra])
    fair = fs.FairPCA(2).fit(X, sensitive_features=GROUPS)
    if extra == "arrow":
        lines = [
            ",".join(map(str, row)) + f",{group}" for row, group in zip(X, GROUPS, strict=True)
        ]
        Path("rows.csv").write_text("\n".join(["a,b,c,d,e,group", *lines]))
        from_file = fs.FairPCA(2).fit("rows.csv", sensitive_features="group")
        np.testing.assert_allclose(from_file.solution_.objective, fair.solution_.objective)
    elif extra == "dask":
        rows = import_module("dask.array").from_array(X, chunks=(20, 5))
        np.testing.assert_allclose(fair.transform(rows).compute(), fair.transform(X))
    elif extra == "excel":
        workbook = import_module("openpyxl").Workbook()
        workbook.active.append([*"abcde", "group"])
        for row, group in zip(X.tolist(), GROUPS.tolist(), strict=True):
            workbook.active.append([*row, group])
        workbook.save("rows.xlsx")
        from_file = fs.FairPCA(2).fit("rows.xlsx", sensitive_features="group")
        np.testing.assert_allclose(from_file.solution_.objective, fair.solution_.objective)
    elif extra == "onnx":
        fair.subspace_.to_onnx("fair.onnx")
    elif extra == "pandas":
        fs.audit(fair, X, GROUPS).frame()
    elif extra == "plot":
        import_module("matplotlib").use("agg")
        fs.displays.FrontierDisplay.from_estimator(fair)
    elif extra == "report":
        fs.write_report("page.html", X, GROUPS, n_components=2, compare=[])


if __name__ == "__main__":
    of_extra(sys.argv[1]) if sys.argv[1:] else core()
