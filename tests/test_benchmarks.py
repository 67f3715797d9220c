"""The benchmark suite runs at toy sizes, names what it skips, and keeps sections it did not run.

No test depends on a time.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

from fairspan import FairPCA, FileRows, GroupMoments, RobustErrorGap

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("there is no folder of benchmarks", allow_module_level=True)
# At the end of the path, and not removed: the processes that a benchmark starts need it too.
sys.path.append(str(ROOT))
from benchmarks import printed_algorithm, structure, suite  # noqa: E402
from benchmarks.changes import Measurement, describe_changes  # noqa: E402
from benchmarks.effort import Effort, SkippedError  # noqa: E402
from benchmarks.measurement import format_table  # noqa: E402
from benchmarks.pca_comparison import SOLVERS, compare_with_pca, explain_skip  # noqa: E402
from benchmarks.report import SectionContent, read_sections, write_figures  # noqa: E402
from benchmarks.rows import make_rows  # noqa: E402
from benchmarks.work_record import record_work  # noqa: E402

TOY = Effort(repetitions=1, quick=True, limit=60)


def toy_moments():
    return GroupMoments.from_rows(*make_rows(80, 6))


def test_a_comparison_runs_every_solver_and_has_the_certificate():
    comparison = compare_with_pca(make_rows(60, 8), 2, TOY)
    assert set(comparison.pca) == set(SOLVERS)
    assert comparison.status == "optimal"
    assert 0 <= comparison.gap <= 1e-9
    assert comparison.fastest in SOLVERS


def test_solvers_that_cannot_take_the_rows_are_skipped_with_a_reason():
    assert explain_skip("arpack", (30, 4), 4)
    assert explain_skip("covariance_eigh", (500, 20_000), 10)
    assert "arpack" not in compare_with_pca(make_rows(30, 4), 4, TOY).pca


@pytest.mark.slow
def test_the_headline_has_a_line_for_each_case_and_names_skipped_ones(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks import headline

    case = headline.Case("toy", lambda: make_rows(60, 8), 2, 1.5)
    results = [headline.run_case(case, TOY)]
    text = headline.format_results(results, ["- other: not there."], TOY)
    assert "| toy | 60 x 8, 2 |" in text
    assert "- other: not there." in text
    figures = {"headline": lambda figure: headline.draw(results, figure)}
    write_figures(SectionContent("", figures=figures), tmp_path / "RESULTS.md")
    assert (tmp_path / "plots" / "headline.png").read_bytes().startswith(b"\x89PNG")


def test_the_printed_algorithm_finds_what_branch_and_bound_proves():
    moments = toy_moments()
    criterion = RobustErrorGap(0.3, 0.15)
    certificate = FairPCA(2, criterion=criterion).fit_moments(moments).solution_
    # The radius of a group is the parameter divided by the root of its number of rows.
    radii = 0.15 / np.sqrt(moments.counts)
    robust_problem = printed_algorithm.RobustProblem(
        moments.second_moments("global"), moments.proportions, radii, 0.3
    )
    errors = printed_algorithm.descend(robust_problem, 2, 4, 200)
    larger = (np.sqrt(errors) + np.sqrt(radii)) ** 2
    value = max(
        (moments.proportions + 0.3 * np.array(sign)) @ larger for sign in ([1, -1], [-1, 1])
    )
    assert value == pytest.approx(certificate.objective, rel=1e-2)
    assert value >= certificate.lower_bound - 1e-12


@pytest.mark.slow
def test_lines_about_the_papers():
    from benchmarks import papers

    line = papers.robust_line("toy", toy_moments(), 0.5, papers.Starts(2, 5))
    assert (line[0], line[4]) == ("toy", "optimal")
    assert papers.weights_line("toy", make_rows(80, 6, 3), 2)[2] == "3"


@pytest.mark.slow
def test_the_conic_relaxation_has_our_value():
    pytest.importorskip("cvxpy")
    conic = pytest.importorskip("benchmarks.conic")
    lines = conic.conic_lines(6)
    assert lines[0][1] == "fairspan"
    assert all(abs(float(line[4])) < 1e-3 for line in lines[1:])


def test_reduced_rows_hide_the_group():
    from benchmarks import packages

    X, labels = make_rows(200, 8)
    fairspan, *_ = packages.compare_methods(X, labels.astype(float), TOY)
    assert fairspan.name == "fairspan"
    assert fairspan.mean_distance < 1e-9
    assert 0 < fairspan.kept_variance < 1


@pytest.mark.slow
def test_a_scaling_curve_is_measured_point_by_point(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks import scaling

    curve = scaling.Curve("n", "n, rows", "toy", (40, 80), scaling.Sizes(p=6, d=2))
    measurements = scaling.measure_curve(curve, TOY)
    assert [sizes.n for sizes in curve.points()] == [40, 80]
    assert "| n, rows | 80 |" in scaling.format_measurements([measurements], [])
    figures = {"toy": lambda figure: scaling.draw(measurements, figure)}
    write_figures(SectionContent("", figures=figures), tmp_path / "RESULTS.md")
    assert (tmp_path / "plots" / "toy.png").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells")
def test_the_peak_is_that_of_the_fit():
    pytest.importorskip("matplotlib")
    from benchmarks import headline, memory

    case = headline.Case("toy", lambda: make_rows(2000, 50), 2, 1.0)
    peak = memory.measure_peak(case, memory.FAIRSPAN)
    assert peak.rows == pytest.approx(0.8)
    assert 0 <= peak.added < 200 < 1e6 * peak.process


def test_work_is_recorded_once_and_by_part():
    matrix = np.diag(np.arange(1.0, 31.0))
    record = record_work(lambda: np.linalg.eigh(matrix), n_features=60)
    # The reduction to a tridiagonal matrix, and the way back of all eigenvectors.
    assert record.flops == pytest.approx((4 / 3 + 2) * 30**3)
    assert record.n_large == 1
    assert set(record.seconds) == {"eigenproblems"}
    moments = toy_moments()
    fit = record_work(lambda: FairPCA(2).fit_moments(moments), n_features=6)
    assert {"eigenproblems", "products", "certificate"} <= set(fit.seconds)
    assert fit.flops > 2 * 6**3


@pytest.mark.slow
def test_a_case_has_its_least_work_and_the_shares_of_its_parts():
    from benchmarks import limits

    result = limits.run_case(limits.Case("toy", lambda: make_rows(300, 40, 3), 2), TOY)
    assert result.least_flops == 300 * 40**2 + 4 * 3 * 40**2 * 2 + 40**3 / 3
    assert result.flops > result.least_flops - 40**3
    text = limits.format_results([result], ["- other: not there."])
    assert "| toy | 300 x 40, 2 | 3 |" in text
    assert "- other: not there." in text


@pytest.mark.slow
def test_a_wide_case_needs_products_of_rows_with_each_other():
    from benchmarks import limits

    result = limits.run_case(limits.Case("toy", lambda: make_rows(40, 3000), 2), TOY)
    assert result.least_flops == 40**2 * 3000 + 4 * 2 * 40**2 * 2 + 40**3 / 3 + 2 * 40 * 3000 * 2
    assert result.record.flops >= 40**2 * 3000
    assert result.record.seconds["row axes"] > 0


@pytest.mark.slow
def test_a_tall_table_of_any_kind_is_not_copied():
    from benchmarks import traced_memory

    shape = (200_000, 20)
    for table in traced_memory.tables(*shape):
        if "CSR" not in table.name:
            traced = traced_memory.trace_peak(table, shape)
            assert traced.peak_bytes < 1e7 < traced.table_bytes


@pytest.mark.long
def test_rows_in_files_have_the_moments_of_rows_in_memory(tmp_path):
    pytest.importorskip("distributed")
    sources = pytest.importorskip("benchmarks.sources")
    sources.write_rows(tmp_path, 400, 3)
    sources.read_only(tmp_path)
    assert sources.hold_rows(tmp_path) == 400 * 3 * 8
    moments = sources.moments_of_files(FileRows.open(tmp_path, ["g"]))
    for scatter, expected in zip(moments.scatters, sources.numpy_moments(), strict=True):
        np.testing.assert_allclose(scatter, expected, rtol=1e-9)


class Stub(suite.Benchmark):
    def measure(self, effort):
        if self.name == "gpu":
            raise SkippedError("there is none")
        return SectionContent(f"{self.name} measured\n\n{format_table(['a'], [['1']])}")


def test_results_keep_sections_that_were_not_run_or_skip(tmp_path, monkeypatch, capsys):
    benchmarks = tuple(Stub(benchmark.name, benchmark.title) for benchmark in suite.SUITE)
    monkeypatch.setattr(suite, "SUITE", benchmarks)
    results = tmp_path / "RESULTS.md"
    memory_benchmark = next(benchmark for benchmark in benchmarks if benchmark.name == "memory")
    suite.run(benchmarks, TOY, results)
    assert list(read_sections(results)) == [benchmark.title for benchmark in benchmarks]
    assert "Skipped: there is none." in results.read_text()
    results.write_text(results.read_text().replace("Skipped: there is none.", "On a GPU: 1 s"))
    suite.run([memory_benchmark, benchmarks[-1]], TOY, results)
    text = results.read_text()
    assert "On a GPU: 1 s" in text
    assert "headline measured" in text
    assert not list(tmp_path.glob("*.partial"))
    assert "memory measured" in capsys.readouterr().out


def measured_section(day, machine, ratios):
    """Body of a section of results, with a ratio for each case."""
    lines = [[case, f"**{ratio}**", "1.5"] for case, ratio in ratios.items()]
    table = format_table(["case", "ratio", "goal"], lines)
    other_table = format_table(["case", "fair fit"], [[case, "1 ms"] for case in ratios])
    return f"{day}. {machine}, Python 3.12.0, numpy 2.0.0.\n\n{table}\n\n{other_table}"


def test_changes_are_ratios_that_rose_or_fell_by_more_than_15_percent():
    before = measured_section("2026-01-01", "A, 2 cores", {"one": 1.0, "two": 2.0, "three": 3.0})
    after = measured_section("2026-02-02", "B, 4 cores", {"one": 1.2, "two": 1.6, "three": 3.3})
    changes = describe_changes(Measurement.from_section(before), Measurement.from_section(after))
    first, *others = changes.splitlines()
    assert "2026-01-01" in first
    assert "another machine (A, 2 cores; this is B, 4 cores)" in first
    assert others == [
        "- slower: one: 1.00 -> 1.20 (+20 %)",
        "- faster: two: 2.00 -> 1.60 (-20 %)",
        "- within 15 %: 1 of 3 cases",
    ]


def test_only_cases_that_were_measured_before_have_changes():
    before = Measurement.from_section(measured_section("2026-01-01", "A", {"one": 1.0}))
    after = Measurement.from_section(measured_section("2026-02-02", "A", {"two": 9.0}))
    skipped = Measurement.from_section("Skipped: it needs torch, which is not installed.")
    assert describe_changes(before, before).endswith("1 of 1 cases")
    assert "on the same kind of machine (A)" in describe_changes(before, before)
    assert describe_changes(before, after) == describe_changes(before, skipped) == ""


def test_a_run_prints_what_changed_since_the_results_of_the_folder(tmp_path, monkeypatch, capsys):
    results = tmp_path / "RESULTS.md"
    section = measured_section("2026-01-01", "A", {"one": 1.0})
    results.write_text(f"# Measured results\n\n## Toy\n\n{section}\n")
    monkeypatch.setattr(suite, "RESULTS", results)

    class Slow(suite.Benchmark):
        def measure(self, effort):
            return SectionContent(format_table(["case", "ratio"], [["one", "**2.00**"]]))

    suite.run([Slow("toy", "Toy")], TOY, None)
    assert "- slower: one: 1.00 -> 2.00 (+100 %)" in capsys.readouterr().out
    assert "slower" not in results.read_text()


def test_calls_of_a_package_are_counted_without_comprehensions():
    def run():
        return [len(make_rows(20, 2)) for _ in range(3)]

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


def test_the_certificate_in_a_comparison_is_that_of_the_estimator():
    X, labels = make_rows(60, 8)
    fair = FairPCA(2).fit(X, sensitive_features=labels)
    assert compare_with_pca((X, labels), 2, TOY).n_eigenproblems == fair.solution_.n_eigenproblems


def test_pooled_drift_is_that_of_components_that_keep_65_per_cent_of_the_variance():
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    from benchmarks.watching import PooledDrift

    rng = np.random.default_rng(0)
    factors = rng.normal(size=(3, 9))
    rows = rng.normal(size=(4000, 3)) @ factors + rng.normal(size=(4000, 9))
    reference = rows[:3000]
    chunk = rows[3000:3300]
    drift = PooledDrift(reference, 300)
    scaler = StandardScaler().fit(reference)
    pca = PCA(n_components=0.65).fit(scaler.transform(reference))
    assert drift.n_components == pca.n_components_

    def figure(part):
        scaled = scaler.transform(part)
        reconstructed = pca.inverse_transform(pca.transform(scaled))
        return np.linalg.norm(scaled - reconstructed, axis=1).mean()

    figures = [figure(part) for part in np.split(reference, 10)]
    limit = np.mean(figures) + 3 * np.std(figures)
    shuffled_chunk = chunk.copy()
    # More and more of the columns are shuffled, until the figure is beyond the limit.
    for column in range(9):
        assert drift.has_alarm(shuffled_chunk) == (figure(shuffled_chunk) > limit)
        rng.shuffle(shuffled_chunk[:, column])
    assert not drift.has_alarm(chunk)
    assert drift.has_alarm(shuffled_chunk)
