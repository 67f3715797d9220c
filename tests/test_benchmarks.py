"""The benchmark suite runs at toy sizes, says what it skips, and keeps sections it did not run.

Nothing here looks at a time.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

from fairspan import FairPCA, FileRows, GroupMoments, RobustErrorGap
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.settings import FitSettings

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("benchmarks are in the repository only", allow_module_level=True)
pytest.importorskip("matplotlib")
# Behind everything else, and left there: processes that a benchmark starts look there too.
sys.path.append(str(ROOT))
from benchmarks import (  # noqa: E402
    headline,
    memory,
    packages,
    papers,
    printed,
    scaling,
    structure,
    suite,
)
from benchmarks.effort import Effort, SkippedError  # noqa: E402
from benchmarks.racing import SOLVERS, race, why_not  # noqa: E402
from benchmarks.report import Measured, sections_in, write_figures  # noqa: E402
from benchmarks.results import table_of  # noqa: E402
from benchmarks.rows import made  # noqa: E402

TOY = Effort(repetitions=1, quick=True, limit=60)


def toy_moments():
    return GroupMoments.from_rows(*made(80, 6))


def test_a_race_runs_every_solver_and_carries_the_certificate():
    found = race(made(60, 8), 2, TOY)
    assert set(found.rivals) == set(SOLVERS)
    assert found.status == "optimal"
    assert 0 <= found.gap <= 1e-9
    assert found.best in SOLVERS


def test_solvers_that_cannot_take_the_rows_are_skipped_with_a_reason():
    assert why_not("arpack", (30, 4), 4)
    assert why_not("covariance_eigh", (500, 20_000), 10)
    assert "arpack" not in race(made(30, 4), 4, TOY).rivals


def test_the_headline_has_a_line_for_each_case_and_names_skipped_ones(tmp_path):
    case = headline.Case("toy", lambda: made(60, 8), 2, 1.5)
    results = [headline.run_case(case, TOY)]
    text = headline.report(results, ["- other: not there."], TOY)
    assert "| toy | 60 x 8, 2 |" in text
    assert "- other: not there." in text
    figures = {"headline": lambda figure: headline.draw(results, figure)}
    write_figures(Measured("", figures=figures), tmp_path / "RESULTS.md")
    assert (tmp_path / "plots" / "headline.png").read_bytes().startswith(b"\x89PNG")


def test_the_printed_algorithm_finds_what_branch_and_bound_proves():
    moments, criterion = toy_moments(), RobustErrorGap(0.3, 0.15)
    fit = fit_moments(moments, FitSettings.parse(2, criterion))
    posed = fit.problem
    problem = printed.RobustProblem(
        moments.second_moments("global"), moments.proportions, criterion.radii(posed), 0.3
    )
    errors = printed.descend(problem, 2, 4, 300)
    value = criterion.value(errors, posed)
    assert value == pytest.approx(fit.certificate.objective, rel=1e-2)
    assert value >= fit.certificate.lower_bound - 1e-12


def test_lines_about_the_papers():
    line = papers.robust_line("toy", toy_moments(), 0.5, papers.Starts(2, 5))
    assert (line[0], line[4]) == ("toy", "optimal")
    assert papers.weights_line("toy", made(80, 6, 3), 2)[2] == "3"


def test_the_conic_relaxation_has_our_value():
    pytest.importorskip("cvxpy")
    conic = pytest.importorskip("benchmarks.conic")
    lines = conic.conic_lines(6)
    assert lines[0][1] == "fairspan"
    assert all(abs(float(line[4])) < 1e-3 for line in lines[1:])


def test_reduced_rows_hide_the_group():
    X, labels = made(200, 8)
    found = packages.reduced(X, labels.astype(float), TOY)
    assert found[0].name == "fairspan"
    assert found[0].apart < 1e-9
    assert 0 < found[0].kept < 1


def test_a_scaling_curve_is_measured_point_by_point(tmp_path):
    curve = scaling.Curve("n", "n, rows", "toy", (40, 80), scaling.Sizes(p=6, d=2))
    found = scaling.along(curve, TOY)
    assert [each.n for each in curve.points()] == [40, 80]
    assert "| n, rows | 80 |" in scaling.report([found], [])
    figures = {"toy": lambda figure: scaling.draw(found, figure)}
    write_figures(Measured("", figures=figures), tmp_path / "RESULTS.md")
    assert (tmp_path / "plots" / "toy.png").exists()


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells")
def test_the_peak_is_that_of_the_fit():
    case = headline.Case("toy", lambda: made(2000, 50), 2, 1.0)
    peak = memory.peak_of(case, memory.FAIR)
    assert peak.rows == pytest.approx(0.8)
    assert 0 <= peak.added < 200 < 1e6 * peak.whole


@pytest.mark.long
def test_rows_in_files_have_the_moments_of_rows_in_memory(tmp_path):
    pytest.importorskip("distributed")
    sources = pytest.importorskip("benchmarks.sources")
    sources.write_rows(tmp_path, 400, 3)
    sources.bare_read(tmp_path)
    assert sources.hold(tmp_path) == 400 * 3 * 8
    moments = sources.moments_of_files(FileRows.open(tmp_path, ["g"]))
    for scatter, wanted in zip(moments.scatters, sources.numpy_moments(), strict=True):
        np.testing.assert_allclose(scatter, wanted, rtol=1e-9)


class Stub(suite.Benchmark):
    def measure(self, effort):
        if self.name == "gpu":
            raise SkippedError("there is none")
        return Measured(f"{self.name} measured\n\n{table_of(['a'], [['1']])}")


def test_results_keep_sections_that_were_not_run_or_skip(tmp_path, monkeypatch, capsys):
    benchmarks = tuple(Stub(each.name, each.title) for each in suite.SUITE)
    monkeypatch.setattr(suite, "SUITE", benchmarks)
    results = tmp_path / "RESULTS.md"
    first = next(each for each in benchmarks if each.name == "memory")
    suite.run(benchmarks, TOY, results)
    assert list(sections_in(results)) == [each.title for each in benchmarks]
    assert "Skipped: there is none." in results.read_text()
    results.write_text(results.read_text().replace("Skipped: there is none.", "On a GPU: 1 s"))
    suite.run([first, benchmarks[-1]], TOY, results)
    text = results.read_text()
    assert "On a GPU: 1 s" in text
    assert "headline measured" in text
    assert not list(tmp_path.glob("*.partial"))
    assert "memory measured" in capsys.readouterr().out


def test_calls_of_a_package_are_counted_without_comprehensions():
    def run():
        return [len(made(20, 2)) for _ in range(3)]

    assert structure.count_calls("benchmarks", run) == structure.CallCount(1, 3)


def test_sizes_of_source_are_counted(tmp_path):
    parameters = ", ".join(f"x{i}: Any" for i in range(9))
    (tmp_path / "module.py").write_text(
        f"LIMIT = -2.0**3\nNAME = 'a'\n\ndef wide({parameters}) -> None: isinstance(x0, int)\n"
    )
    sizes = dict(structure.sizes_of_source(tmp_path))
    assert sizes["numeric constants of modules"] == "1"
    assert sizes["`Any`"] == "9"
    assert sizes["`isinstance`"] == sizes["functions of more than 8 parameters"] == "1"
    assert sizes["functions of more than 60 lines without the docstring"] == "0"


def test_the_certificate_in_a_race_is_that_of_the_estimator():
    X, labels = made(60, 8)
    fair = FairPCA(2).fit(X, sensitive_features=labels)
    assert race((X, labels), 2, TOY).n_eigenproblems == fair.solution_.n_eigenproblems
