"""Criteria and their parameters on the command line."""

from dataclasses import fields, replace

import numpy as np
import pytest

import fairspan as fs
from cli.command_lines import FIT
from fairspan.cli import fitting, inputs
from fairspan.cli.output import certificate_in_words
from fairspan.cli.parameters import PARAMETERS, parameters_of
from fairspan.estimator.fit import fit_subspace
from fairspan.problem.posing import criterion_of
from fairspan.registry import names_of
from sweeps import mostly_long

RADII = {"old": 0.3, "young": 0.1}
# Of few features criteria with radii are solved soon, which each part of the rows asks again.
FEW = ["pay_1", "pay_2", "limit"]


def unwrapped(words):
    return " ".join(words.split())


@pytest.mark.parametrize("name", names_of("criterion"))
def test_the_command_line_knows_every_parameter_and_no_other(name):
    parameters = {field.name for field in fields(criterion_of(name))}
    assert set(PARAMETERS.get(name, ())) == parameters


@pytest.mark.parametrize(
    ("arguments", "criterion", "shown"),
    [
        ([], fs.MinimaxLoss(), {}),
        (["disparity"], fs.Disparity(), {"trade_off": 0.5, "protected": "old"}),
        (
            ["disparity", "trade_off=0.2", "protected=old"],
            fs.Disparity(0.2, "old"),
            {"trade_off": 0.2, "protected": "old"},
        ),
        (["equal_error"], fs.EqualError(), {}),
        (["least_variance"], fs.LeastVariance(), {}),
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
        (["minimax_error", "relative=no"], fs.MinimaxError(), {}),
        (["error_gap", "penalty=0.1"], fs.ErrorGap(0.1), {"penalty": 0.1}),
        (
            ["robust_error_gap", "penalty=2", "radius=1.5"],
            fs.RobustErrorGap(2.0, 1.5),
            {"penalty": 2.0, "radius": 1.5},
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
def test_it_is_what_python_fits(run, data, table, features, tmp_path, arguments, criterion, shown):
    options = [f"--param={each}" for each in arguments[1:]]
    options += ["--criterion", *arguments[:1]] if arguments else []
    command = ("fit", data, "--group", "age", "-d", 2, *options, "--force", "-o", tmp_path / "m")
    certificate = run(*command, "--json").facts["certificate"]
    in_python = fs.FairPCA(2, criterion=criterion).fit(
        table[features], sensitive_features=table["age"]
    )
    saved = fs.FairSubspace.load(tmp_path / "m").components
    theirs = in_python.components_
    np.testing.assert_allclose(saved.T @ saved, theirs.T @ theirs, atol=1e-7)
    assert certificate["criterion"] == criterion.name
    assert certificate["parameters"] == shown
    solution = in_python.solution_
    assert certificate["objective"] == pytest.approx(solution.objective, rel=1e-9)
    assert certificate["status"] == solution.status == "optimal"
    assert certificate["violation"] == pytest.approx(solution.violation, abs=1e-12)
    assert certificate["theorem_3_2"] is solution.theorem_3_2
    words = " ".join(run(*command).out.split())
    assert f"is {certificate['objective']:.6g}; no subspace" in words
    assert ("Theorem 3.2" in words) == (solution.theorem_3_2 is False)
    if shown:
        assert ", ".join(f"{key}={value}" for key, value in shown.items()) in words


def test_a_signed_gap_may_be_negative(run, data, tmp_path):
    command = ("fit", data, "--group", "age", "-d", 2, "--criterion", "disparity", "-o")
    options = ("--param", "trade_off=0", "--param", "protected=old")
    facts = run(*command, tmp_path / "m", *options, "--json").facts
    objective, bound = (facts["certificate"][key] for key in ("objective", "lower_bound"))
    assert bound <= objective < 0
    old, young = (group["error"]["value"] for group in facts["models"][1]["groups"])
    assert objective == pytest.approx(old - young, rel=1e-9)
    words = unwrapped(run(*command, tmp_path / "m", *options).out)
    assert f"is {objective:.6g}; no subspace" in words


@pytest.mark.parametrize(
    ("columns", "named"),
    mostly_long(
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
def test_groups_are_named_as_tables_print_them(run, table, tmp_path, columns, named):
    is_old = (table["age"] == "old").to_numpy()
    frame = table[FEW].assign(**{key: np.where(is_old, *values) for key, values in columns.items()})
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    groups = [word for name in columns for word in ("--group", name)]
    command = ("fit", path, *groups, "-d", 1, "--force", "-o", tmp_path / "m")
    for protected, text in enumerate(["old", "young"]):
        facts = run(
            *(*command, "--json", "--criterion", "disparity", "--param"),
            f"protected={named[protected]}",
        ).facts["certificate"]
        in_python = fs.FairPCA(1, criterion=fs.Disparity(protected=text)).fit(
            table[FEW], sensitive_features=table["age"]
        )
        assert facts["objective"] == pytest.approx(in_python.solution_.objective, rel=1e-9)
        assert facts["parameters"]["protected"] == named[protected]
    radii = [
        f"--param=radius.{name}={value}" for name, value in zip(named, (0.3, 0.1), strict=True)
    ]
    robust = run(*command, "--json", "--criterion", "robust_error_gap", *radii).facts["certificate"]
    in_python = fs.FairPCA(1, criterion=fs.RobustErrorGap(radius=RADII)).fit(
        table[FEW], sensitive_features=table["age"]
    )
    assert robust["objective"] == pytest.approx(in_python.solution_.objective, rel=1e-7)
    assert robust["parameters"]["radius"] == dict(zip(named, (0.3, 0.1), strict=True))


USAGE = [
    ("error_gap", ["penalty=much"], ["penalty is 'much'", "takes a number"]),
    ("error_gap", ["penalty="], ["'penalty=' is not of the form KEY=VALUE"]),
    ("error_gap", ["penalty=1", "penalty=2"], ["'penalty' is given twice"]),
    ("error_gap", ["radius=1"], ["has no parameter 'radius'", "allowed: penalty."]),
    ("error_gap", ["penalty.old=1"], ["has no parameter 'penalty.old'"]),
    ("disparity", ["penalty=1"], ["no parameter 'penalty'", "allowed: trade_off, protected."]),
    ("disparity", ["trade_off=old"], ["trade_off is 'old'", "takes a number"]),
    ("robust_error_gap", ["radii=1"], ["allowed: penalty, radius, radius.GROUP."]),
    ("robust_error_gap", ["radius.old=x"], ["radius.old is 'x'"]),
    ("robust_error_gap", ["radius.old=1", "radius.old=1"], ["'radius.old' is given twice"]),
    ("robust_error_gap", ["radius=1", "radius.old=1"], ["once for all groups, or for each"]),
    ("robust_error_gap", ["radius.old=1", "radius=1"], ["once for all groups, or for each"]),
    ("nash_welfare", ["penalty=1"], ["it has no parameters"]),
    ("minimax_loss", ["relative=1"], ["relative is '1'", "takes yes or no"]),
    ("minimax_loss", ["penalty=1"], ["allowed: relative."]),
]
RANGE = [
    ("error_gap", ["penalty=-1"], ["penalty is -1.0", "at least 0"]),
    ("error_gap", ["penalty=nan"], ["penalty is nan", "finite"]),
    ("disparity", ["trade_off=1.5"], ["trade_off is 1.5", "from 0 to 1"]),
    ("robust_error_gap", ["radius=inf"], ["radius is inf", "finite"]),
    ("robust_error_gap", ["radius.old=-1"], ["radius of 'old' is -1.0", "at least 0"]),
]


@pytest.mark.parametrize(("criterion", "arguments", "words"), USAGE + RANGE)
def test_what_needs_no_rows_is_refused_before_any_is_read(
    refused, monkeypatch, criterion, arguments, words
):
    monkeypatch.setattr(inputs, "accumulate", lambda _: pytest.fail("the rows were read"))
    options = [f"--param={argument}" for argument in arguments]
    message = refused(*FIT, "--criterion", criterion, *options)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("command", ["fit", "audit"])
def test_a_dimension_too_large_is_refused_before_any_row_is_read(refused, monkeypatch, command):
    monkeypatch.setattr(inputs, "accumulate", lambda _: pytest.fail("the rows were read"))
    out = ("-o", "{out}") if command == "fit" else ()
    message = refused(command, "{data}", "--group", "age", "-d", 6, *out)
    assert "n_components is 6" in message


def test_groups_that_print_alike_are_told_apart_by_nothing(refused, table, features, tmp_path):
    is_old = table["age"] == "old"
    path = tmp_path / "t.parquet"
    first, second = np.where(is_old, "a / b", "a"), np.where(is_old, "c", "b / c")
    table[features].assign(g=first, h=second).to_parquet(path)
    command = ("fit", path, "--group", "g", "--group", "h", "-d", 2, "-o", "{out}")
    message = refused(*command, "--criterion", "disparity", "--param", "protected=a / b / c")
    assert all(word in message for word in ("('a', 'b / c'), ('a / b', 'c')", "differ when"))


def test_the_order_of_the_options_does_not_matter(run, data, tmp_path):
    command = ("fit", data, "--group", "age", "-d", 2, "--json", "--force", "-o", tmp_path / "m")
    options = ("--criterion", "error_gap"), ("--param", "penalty=3")
    one = run(*command, *options[0], *options[1]).facts
    assert run(*command, *options[1], *options[0]).facts == one
    assert one["certificate"]["parameters"] == {"penalty": 3.0}


def test_a_bound_that_is_not_known_is_not_called_infinite(run, data, tmp_path, monkeypatch):
    def without_bound(*arguments, **settings):
        fit = fit_subspace(*arguments, **settings)
        unknown = {"lower_bound": -np.inf, "status": fs.Status.OPEN_GAP, "theorem_3_2": False}
        return replace(fit, solution=replace(fit.solution, **unknown))

    monkeypatch.setattr(fitting, "fit_subspace", without_bound)
    command = ("fit", data, "--group", "age", "-d", 2, "--force", "-o", tmp_path / "m")
    words = run(*command).out
    certificate = unwrapped(words[words.index("Certificate") :])
    assert "no bound is known" in certificate
    assert "by how much is not known" in certificate
    assert "Theorem 3.2" in certificate
    assert "inf" not in certificate.replace("minimax_loss", "")
    facts = run(*command, "--json").facts["certificate"]
    assert (facts["lower_bound"], facts["gap"]) == (None, None)


def test_errors_that_were_to_be_equal_and_are_not_are_told(table, features):
    moments = fs.GroupMoments.from_rows(table[features], table["age"])
    fit = fit_subspace(moments, 2, criterion="equal_error")
    assert "meant to be equal" not in unwrapped(certificate_in_words(fit))
    # Others may be below: those of ordinary PCA, for one.
    assert "no subspace of 2 dimensions with equal errors is" in unwrapped(
        certificate_in_words(fit)
    )
    missed = replace(fit, solution=replace(fit.solution, violation=0.25))
    words = certificate_in_words(missed)
    assert "differ by 2.5e-01" in unwrapped(words)
    assert max(map(len, words.splitlines())) <= 80


def test_numbers_as_texts_stay_texts():
    # A CSV has no types: a group 1 is the text "1".
    assert parameters_of("disparity", ["protected=1"]) == {"protected": "1"}


@pytest.mark.long
def test_four_groups_of_two_attributes(run, table, features, tmp_path):
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False)
    command = (
        "fit",
        path,
        "--group",
        "age",
        "--group",
        "sex",
        "-d",
        2,
        "--force",
        "-o",
        tmp_path / "m",
    )
    facts = run(*command, "--criterion", "error_gap", "--param", "penalty=0.3", "--json").facts
    fair = facts["models"][1]
    labels = list(zip(table["age"], table["sex"], strict=True))
    assert [tuple(group["group"]) for group in fair["groups"]] == sorted(set(labels))
    errors = np.array([group["error"]["value"] for group in fair["groups"]])
    shares = np.array([group["n"] for group in fair["groups"]]) / len(table)
    value = shares @ errors + 0.3 * (errors.max() - errors.min())
    certificate = facts["certificate"]
    assert certificate["objective"] == pytest.approx(value, rel=1e-9)
    assert certificate["lower_bound"] <= value
    plain = np.array([group["error"]["value"] for group in facts["models"][0]["groups"]])
    assert value <= shares @ plain + 0.3 * (plain.max() - plain.min())


def test_nash_welfare_is_negative_where_much_is_kept(run, data, tmp_path):
    command = ("fit", data, "--group", "age", "-d", 2, "--criterion", "nash_welfare")
    facts = run(*command, "-o", tmp_path / "m", "--json").facts
    groups = facts["models"][1]["groups"]
    kept = [group["total_variance"] - group["error"]["value"] for group in groups]
    certificate = facts["certificate"]
    assert certificate["objective"] == pytest.approx(-np.log(kept).mean(), rel=1e-9)
    assert certificate["lower_bound"] <= certificate["objective"] < 0
    assert certificate["status"] == "optimal"
    words = unwrapped(run(*command, "-o", tmp_path / "m").out)
    assert f"Nash welfare is {certificate['objective']:.6g}; no subspace" in words
