"""Criteria, restrictions and their parameters on the command line."""

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from case_selection import mark_most_long
from cli.conftest import FIT

RADII = {"old": 0.3, "young": 0.1}
# Of few features criteria with radii are solved soon, which each part of the rows asks again.
FEW = ["pay_1", "pay_2", "limit"]


@pytest.mark.parametrize(
    ("arguments", "criterion", "displayed"),
    [
        ([], fs.MinimaxLoss(), {}),
        pytest.param(
            ["disparity"],
            fs.Disparity(),
            {"trade_off": 0.5, "protected": "old"},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["disparity", "trade_off=0"],
            fs.Disparity(0.0),
            {"trade_off": 0, "protected": "old"},
            marks=pytest.mark.slow,
        ),
        (
            ["disparity", "trade_off=0.2", "protected=old"],
            fs.Disparity(0.2, "old"),
            {"trade_off": 0.2, "protected": "old"},
        ),
        pytest.param(["equal_error"], fs.EqualError(), {"tolerance": 0}, marks=pytest.mark.slow),
        (["equal_error", "tolerance=0.2"], fs.EqualError(0.2), {"tolerance": 0.2}),
        (["least_variance"], fs.LeastVariance(), {}),
        (["nash_welfare"], fs.NashWelfare(), {}),
        (["total_error"], fs.TotalError(), {}),
        (
            ["minimax_loss", "relative=yes"],
            fs.MinimaxLoss(relative=True),
            {"relative": True},
        ),
        (
            ["minimax_error", "relative=TRUE"],
            fs.MinimaxError(relative=True),
            {"relative": True},
        ),
        pytest.param(
            ["minimax_error", "relative=no"], fs.MinimaxError(), {}, marks=pytest.mark.slow
        ),
        (["error_gap", "penalty=0.1"], fs.ErrorGap(0.1), {"penalty": 0.1}),
        (
            ["robust_error_gap", "penalty=2", "radius=1.5"],
            fs.RobustErrorGap(2.0, 1.5),
            {"penalty": 2, "radius": 1.5},
        ),
        pytest.param(
            ["robust_error_gap", "radius.old=0.3", "radius.young=1e-1"],
            fs.RobustErrorGap(0.5, RADII),
            {"penalty": 0.5, "radius": RADII},
            marks=pytest.mark.long,
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_it_is_what_python_fits(
    run, data, table, features, tmp_path, arguments, criterion, displayed
):
    options = [f"--param={argument}" for argument in arguments[1:]]
    options += ["--criterion", *arguments[:1]] if arguments else []
    command = ("fit", data, "--group", "age", "-d", 2, *options, "--folds", "none")
    command += ("--force", "-o", tmp_path / "m")
    certificate = run(*command, "--json").facts["certificate"]
    in_python = fs.FairPCA(2, criterion=criterion).fit(
        table[features], sensitive_features=table["age"]
    )
    components = fs.FairSubspace.load(tmp_path / "m").components
    expected = in_python.components_
    np.testing.assert_allclose(components.T @ components, expected.T @ expected, atol=1e-7)
    assert (certificate["criterion"], certificate["parameters"]) == (criterion.name, displayed)
    solution = in_python.solution_
    assert certificate["objective"] == pytest.approx(solution.objective, rel=1e-9)
    assert certificate["status"] == solution.status == "optimal"
    assert certificate["gap"] == certificate["objective"] - certificate["lower_bound"]
    assert certificate["constraint_violation"] == pytest.approx(
        solution.constraint_violation, abs=1e-12
    )
    assert certificate["theorem_3_2_holds"] is solution.theorem_3_2_holds
    words = " ".join(run(*command).out.split())
    assert f"is {certificate['objective']:.6g}; no subspace" in words
    assert ("Theorem 3.2" in words) == (solution.theorem_3_2_holds is False)
    if displayed:
        assert ", ".join(f"{key}={value}" for key, value in displayed.items()) in words


@pytest.mark.parametrize(
    ("columns", "names"),
    mark_most_long(
        [
            ({"g": [1, 2]}, ["1", "2"]),
            ({"g": [0.5, 1.0]}, ["0.5", "1.0"]),
            ({"g": [False, True]}, ["False", "True"]),
            ({"g": ["a=b", "c.d"]}, ["a=b", "c.d"]),
            ({"g": ["x", "y"], "h": [3, 4]}, ["x / 3", "y / 4"]),
        ],
        step=4,
    ),
    ids=["whole", "real", "truth", "text", "two attributes"],
)
def test_groups_are_named_as_tables_print_them(run, table, tmp_path, columns, names):
    is_old = (table["age"] == "old").to_numpy()
    frame = table[FEW].assign(**{key: np.where(is_old, *values) for key, values in columns.items()})
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    groups = [word for name in columns for word in ("--group", name)]
    command = ("fit", path, *groups, "-d", 1, "--folds", "none", "--force", "-o", tmp_path / "m")
    for protected, text in enumerate(["old", "young"]):
        facts = run(
            *(*command, "--json", "--criterion", "disparity", "--param"),
            f"protected={names[protected]}",
        ).facts["certificate"]
        in_python = fs.FairPCA(1, criterion=fs.Disparity(protected=text)).fit(
            table[FEW], sensitive_features=table["age"]
        )
        assert facts["objective"] == pytest.approx(in_python.solution_.objective, rel=1e-9)
        assert facts["parameters"]["protected"] == names[protected]
    radii = [
        f"--param=radius.{name}={value}" for name, value in zip(names, (0.3, 0.1), strict=True)
    ]
    robust = run(*command, "--json", "--criterion", "robust_error_gap", *radii).facts["certificate"]
    in_python = fs.FairPCA(1, criterion=fs.RobustErrorGap(radius=RADII)).fit(
        table[FEW], sensitive_features=table["age"]
    )
    assert robust["objective"] == pytest.approx(in_python.solution_.objective, rel=1e-7)
    assert robust["parameters"]["radius"] == dict(zip(names, (0.3, 0.1), strict=True))


USAGE = [
    ("error_gap", ["penalty=much"], ["penalty is 'much'", "a finite number"]),
    ("error_gap", ["penalty="], ["'penalty='", "KEY=VALUE"]),
    ("error_gap", ["penalty=1", "penalty=2"], ["'penalty' is given twice"]),
    ("error_gap", ["radius=1"], ["the parameter 'radius'", "Allowed: penalty."]),
    ("error_gap", ["penalty.old=1"], ["penalty is {'old': 1}", "a finite number"]),
    ("disparity", ["penalty=1"], ["the parameter 'penalty'", "Allowed: trade_off, protected."]),
    ("disparity", ["trade_off=old"], ["trade_off is 'old'", "a number from 0 to 1"]),
    ("robust_error_gap", ["radii=1"], ["Allowed: penalty, radius."]),
    ("robust_error_gap", ["radius.old=x"], ["radius of 'old' is 'x'"]),
    ("robust_error_gap", ["radius.old=1", "radius.old=1"], ["'radius.old' is given twice"]),
    ("robust_error_gap", ["radius=1", "radius.old=1"], ["once for all groups", "once per group"]),
    ("robust_error_gap", ["radius.old=1", "radius=1"], ["once for all groups", "once per group"]),
    ("nash_welfare", ["penalty=1"], ["It has no parameters"]),
    ("minimax_loss", ["relative=1"], ["relative is 1", "True or False"]),
    ("minimax_loss", ["penalty=1"], ["Allowed: relative."]),
]
RANGE = [
    ("error_gap", ["penalty=-1"], ["penalty is -1", "at least 0"]),
    ("error_gap", ["penalty=nan"], ["penalty is nan", "finite"]),
    ("disparity", ["trade_off=1.5"], ["trade_off is 1.5", "from 0 to 1"]),
    ("robust_error_gap", ["radius=inf"], ["radius is inf", "finite"]),
    ("robust_error_gap", ["radius.old=-1"], ["radius of 'old' is -1", "at least 0"]),
]


@pytest.fixture
def unreadable_file(table, features, tmp_path):
    """A file whose rows nobody can read to the end: a cell is empty."""
    path = tmp_path / "gap.csv"
    frame = table[[*features, "age"]]
    frame.assign(height=frame["height"].where(frame.index < 239)).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(("criterion", "arguments", "words"), USAGE + RANGE)
def test_faults_that_need_no_rows_are_refused_before_any_is_read(
    assert_refused, unreadable_file, criterion, arguments, words
):
    options = [f"--param={argument}" for argument in arguments]
    assert_refused(
        *FIT, "--criterion", criterion, *options, data=unreadable_file, expected_text=words
    )


@pytest.mark.parametrize("command", ["fit", "audit"])
def test_a_dimension_too_large_is_refused_before_any_row_is_read(
    assert_refused, unreadable_file, command
):
    out = ("-o", "{out}") if command == "fit" else ()
    words = (command, "{data}", "--group", "age", "-d", 6, *out)
    assert_refused(*words, data=unreadable_file, expected_text="n_components is 6")
    assert "n_components" not in assert_refused(
        *words[:5], 2, *out, data=unreadable_file, expected_text="NaN"
    )


def test_groups_that_print_alike_are_not_distinguished(assert_refused, table, features, tmp_path):
    is_old = table["age"] == "old"
    path = tmp_path / "t.parquet"
    first = np.where(is_old, "a / b", "a")
    second = np.where(is_old, "c", "b / c")
    table[features].assign(g=first, h=second).to_parquet(path)
    command = ("fit", path, "--group", "g", "--group", "h", "-d", 2, "-o", "{out}")
    assert_refused(
        *command,
        "--criterion",
        "disparity",
        "--param",
        "protected=a / b / c",
        expected_text=("('a', 'b / c'), ('a / b', 'c')", "differ when"),
    )


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    sex, race, hired = (rng.integers(count, size=120) for count in (2, 3, 2))
    means = rng.standard_normal((2, 3, 2, 8))[sex, race, hired]
    X = rng.standard_normal((120, 8)) * np.linspace(1, 3, 8) + means
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(8)])
    table["sex"] = np.where(sex == 1, "f", "m")
    table["race"] = race
    table["hired"] = np.where(hired == 1, "yes", "no")
    table.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv", table


FEATURES = [f"x{i}" for i in range(8)]
TOTAL = ("--criterion", "total_error", "-d", 2)
LABEL = ("--y", "hired")


@pytest.mark.parametrize(
    ("groups", "parameters", "restriction"),
    mark_most_long(
        [
            (["sex"], [], fs.MeanParity()),
            (["sex"], ["tolerance=0.2"], fs.MeanParity(0.2)),
            (["sex"], ["oblique=yes"], fs.MeanParity(oblique=True)),
            pytest.param(
                ["sex", "race"],
                ["attributes=marginal"],
                fs.MeanParity(attributes="marginal"),
                marks=pytest.mark.slow,
            ),
            (["sex"], ["within_classes=all"], fs.MeanParity(within_classes="all")),
            (
                ["sex"],
                ["within_classes=yes", "oblique=true"],
                fs.MeanParity(within_classes=["yes"], oblique=True),
            ),
            pytest.param(
                ["sex"],
                ["within_classes=no,yes"],
                fs.MeanParity(within_classes=["no", "yes"]),
                marks=pytest.mark.slow,
            ),
        ],
        step=3,
    ),
    ids=str,
)
def test_a_fit_is_that_of_python_and_is_verified(
    run, people, tmp_path, groups, parameters, restriction
):
    data, table = people
    reading = [word for group in groups for word in ("--group", group)]
    reading += LABEL if restriction.within_classes else ["--exclude", "hired"]
    reading += [] if len(groups) == 2 else ["--exclude", "race"]
    settings = [word for parameter in parameters for word in ("--restriction-param", parameter)]
    model = tmp_path / "m"
    facts = run(
        "fit", data, *reading, *TOTAL, "--restriction", "mean_parity", *settings, "-o", model,
        "--json",
    ).facts  # fmt: skip
    assert facts["certificate"]["restriction"] == repr(restriction)
    expected = fs.FairPCA(2, criterion="total_error", restriction=restriction)
    expected.fit(table[FEATURES], table["hired"], sensitive_features=table[groups])
    subspace = fs.FairSubspace.load(model)
    np.testing.assert_allclose(subspace.encoder, expected.components_, atol=1e-8)
    np.testing.assert_allclose(subspace.decoder, expected.subspace_.decoder, atol=1e-8)
    assert facts["models"][1]["no_estimates_reason"] is None
    assert run("verify", model, data, *reading).status == 0
    group_options = (*reading[: -2 if len(groups) == 1 else None], "--folds", "none")
    outcome = run("audit", data, *group_options, "--model", model)
    if restriction.within_classes:
        assert outcome.status == 0
        assert run("verify", model, data, "--group", "sex", "--exclude", "hired").status == 1
    out = tmp_path / "out.csv"
    assert run("transform", model, data, "-o", out).status == 0
    np.testing.assert_allclose(pd.read_csv(out), expected.transform(table[FEATURES]), atol=1e-8)


def test_the_text_names_the_restriction(run, people, tmp_path):
    data, _ = people
    words = run(
        "fit", data, "--group", "sex", "--exclude", "race", "--exclude", "hired", *TOTAL,
        "--restriction", "mean_parity", "--folds", "none", "-o", tmp_path / "m",
    ).out  # fmt: skip
    assert "total error with MeanParity(tolerance=0.0)" in " ".join(words.split())


def test_moments_with_labels_merge_and_are_fitted(run, people, tmp_path):
    data, table = people
    for i in range(2):
        table[i::2].to_csv(tmp_path / f"{i}.csv", index=False)
        part = (tmp_path / f"{i}.csv", "--group", "sex", "--exclude", "race", *LABEL)
        assert run("moments", *part, "-o", tmp_path / f"{i}.moments").status == 0
    merged_path = tmp_path / "both.moments"
    run("merge", tmp_path / "0.moments", tmp_path / "1.moments", "-o", merged_path)
    assert fs.GroupMoments.load(merged_path).by_class.n_groups == 4
    model = tmp_path / "m"
    hide = ("--restriction", "mean_parity", "--restriction-param", "within_classes=all")
    assert run("fit", merged_path, *TOTAL, *hide, "--folds", "none", "-o", model).status == 0
    assert run("verify", model, merged_path).status == 0
    reading = ("--group", "sex", "--exclude", "race", *LABEL)
    assert run("verify", model, data, *reading).status == 0


@pytest.mark.slow
def test_clusters_are_no_features_next_to_labels(run, people, tmp_path):
    data, table = people
    model = tmp_path / "m"
    hidden = fs.MeanParity(within_classes="all")
    fair = fs.FairPCA(2, criterion="total_error", restriction=hidden)
    fair.fit(table[FEATURES], table["hired"], sensitive_features=table["sex"])
    fair.subspace_.save(model)
    clusters = ("--clusters", "race", "--group", "sex", *LABEL)
    assert run("audit", data, *clusters, "--model", model).status == 0


@pytest.mark.long
def test_a_report_takes_the_column_aside(run, people, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    data, table = people
    reading = ("--group", "sex", "--exclude", "race", *LABEL, "-d", 2)
    facts = run("report", data, *reading, "--json").facts
    assert (facts["data"]["feature_names"], facts["rows"]["n_rows"]) == (FEATURES, len(table))
    page = fs.write_report(
        tmp_path / "page.html",
        table.drop(columns="race"),
        "sex",
        y="hired",
        n_components=2,
        compare=["total_error"],
    )
    assert page["data"]["feature_names"] == FEATURES


def test_classes_are_named_next_to_several_groups(run, people, tmp_path):
    data, table = people
    model = tmp_path / "m"
    hide = ("--restriction", "mean_parity", "--restriction-param", "within_classes=yes")
    arguments = ("--group", "sex", "--group", "race", *LABEL, "--folds", "none")
    run("fit", data, *arguments, *TOTAL, *hide, "-o", model, status=0)
    expected = fs.FairPCA(
        2, criterion="total_error", restriction=fs.MeanParity(within_classes=["yes"])
    ).fit(table[FEATURES], table["hired"], sensitive_features=table[["sex", "race"]])
    subspace = fs.FairSubspace.load(model)
    np.testing.assert_allclose(subspace.encoder, expected.components_, atol=1e-8)
