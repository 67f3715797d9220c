"""The library with nothing but its core dependencies, in an environment of its own."""

import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairspan as fs
from fairspan import metrics
from fairspan.errors import MissingDependency

EXTRAS = ("cvxpy", "dask", "distributed", "jinja2", "matplotlib", "pandas", "pyarrow", "pyspark")
# They import jinja2 or pyarrow, and are imported where a page is made or a file is opened.
MODULES_OF_EXTRAS = (
    "fairspan.report.figures",
    "fairspan.report.history_page",
    "fairspan.report.page",
    "fairspan.report.svg_figures",
    "fairspan.rows.files.compression",
    "fairspan.rows.files.csv_errors",
    "fairspan.rows.files.csv_files",
    "fairspan.rows.files.csv_format",
    "fairspan.rows.files.csv_reader",
    "fairspan.rows.files.excel_files",
    "fairspan.rows.files.na_values",
    "fairspan.rows.files.number_format_advice",
    "fairspan.rows.files.numbers_as_text",
    "fairspan.rows.files.table_files",
)
RNG = np.random.default_rng(0)
GROUPS = np.array(["a", "b"])[np.arange(90) % 2]
X = RNG.normal(size=(90, 5)) * np.where(GROUPS[:, None] == "a", [3, 2, 1, 1, 1], [1, 1, 1, 2, 3])
THREE = np.array(["a", "b", "c"])[np.arange(90) % 3]


def watched_history():
    monitor = fs.Monitor(fit_model().subspace_)
    monitor.add(RNG.normal(size=(90, 5)), GROUPS)
    return monitor.history


def fit_model(**settings):
    return fs.FairPCA(2, **settings).fit(X, sensitive_features=GROUPS)


@pytest.mark.parametrize("package", EXTRAS)
def test_the_environment_has_no_extra(package):
    assert importlib.util.find_spec(package) is None


def test_every_module_but_those_of_extras_can_be_imported():
    names = [module.name for module in pkgutil.walk_packages(fs.__path__, "fairspan.")]
    imported = [name for name in names if name not in MODULES_OF_EXTRAS]
    for name in imported:
        importlib.import_module(name)


@pytest.mark.parametrize(
    ("groups", "restriction"),
    [
        (GROUPS, None),
        (GROUPS, "mean_parity"),
        (GROUPS, "covariance_parity"),
        (THREE, None),
        (THREE, "mean_parity"),
    ],
)
def test_a_fit_is_optimal_and_verified(groups, restriction):
    model = fs.FairPCA(2, restriction=restriction).fit(X, sensitive_features=groups)
    assert model.solution_.status == "optimal"
    assert fs.verify(model, X, groups).holds


def test_rows_of_all_kinds_give_one_model():
    from_sparse = fs.FairPCA(2).fit(scipy.sparse.csr_array(X), sensitive_features=GROUPS)
    from_lists = fs.FairPCA(2).fit(X.tolist(), sensitive_features=GROUPS.tolist())
    for model in (from_sparse, from_lists):
        np.testing.assert_allclose(model.components_, fit_model().components_, atol=1e-10)


def test_models_work_without_extras(tmp_path):
    model = fit_model()
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)).shape, X.shape)
    model.subspace_.save(tmp_path / "a.model")
    again = fs.FairSubspace.load(tmp_path / "a.model")
    np.testing.assert_array_equal(again.components, model.components_)
    model.moments_.save(tmp_path / "a.moments")
    assert fs.GroupMoments.load(tmp_path / "a.moments").groups.tolist() == ["a", "b"]
    assert metrics.leakage(model.transform(X), GROUPS, model.transform(X), GROUPS) >= 0
    assert len(fs.frontier(model.moments_, 2).errors) > 0
    assert fs.audit(model, X, GROUPS).findings


def test_scikit_learn_around_it():
    pipeline = make_pipeline(StandardScaler(), fs.FairPCA())
    grid = {"fairpca__n_components": [1, 2]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, fairpca__sensitive_features=GROUPS)
    assert search.best_params_ == {"fairpca__n_components": 2}


def test_the_semidefinite_program_needs_no_extra():
    relaxed = fit_model(solver="semidefinite")
    exact = fit_model()
    assert relaxed.solution_.objective == pytest.approx(exact.solution_.objective, rel=1e-6)


@pytest.mark.parametrize(
    ("use", "extra"),
    [
        (lambda path: fs.audit(fit_model(), X, GROUPS).frame(), "pandas"),
        (lambda path: fs.frontier(fit_model().moments_, 2).frame(), "pandas"),
        (lambda path: fs.frontier(fit_model().moments_, 2).plot(), "plot"),
        (lambda path: fs.audit(fit_model(), X, GROUPS).plot(), "plot"),
        (lambda path: fs.write_report(path / "page.html", X, GROUPS, n_components=2), "report"),
        (lambda path: watched_history().write_report(path / "looks.html"), "report"),
        (lambda path: fs.GroupMoments.from_rows(csv(path), "g"), "arrow"),
    ],
    ids=["audit-frame", "frontier-frame", "plot", "audit-plot", "report", "history", "csv"],
)
def test_functions_that_need_an_extra_name_the_command_that_installs_it(use, extra, tmp_path):
    with pytest.raises(MissingDependency, match=rf'pip install "fairspan\[{extra}\]"'):
        use(tmp_path)
    assert not any(tmp_path.glob("*.html"))


@pytest.mark.parametrize("options", [[], ["--na-values", "-99"], ["--thousands", ","]], ids=str)
def test_the_command_line_names_it_too(options, tmp_path):
    audit = command("audit", str(csv(tmp_path)), "--group", "g", "-d", "1", *options)
    assert audit.returncode == 2
    assert 'pip install "fairspan[arrow]"' in audit.stderr
    assert "Traceback" not in audit.stderr
    assert command("--help").returncode == 0


def test_the_command_line_fits_moments(tmp_path):
    fit_model().moments_.save(tmp_path / "a.moments")
    fit = command("fit", str(tmp_path / "a.moments"), "-d", "2", "-o", str(tmp_path / "a.model"))
    assert fit.returncode == 0, fit.stderr
    verify = command("verify", str(tmp_path / "a.model"), str(tmp_path / "a.moments"))
    assert verify.returncode == 0, verify.stderr


def csv(folder):
    path = folder / "rows.csv"
    path.write_text("g,x,y\na,1,2\nb,2,1\na,3,1\nb,0,5\n")
    return path


def command(*arguments):
    program = Path(sys.executable).with_name("fairspan")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
