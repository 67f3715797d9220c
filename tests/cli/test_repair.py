"""fairspan audit --repair: the models that it fits, and the commands that audits name next."""

import shlex

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from fairspan.cli.next_commands import next_command
from fairspan.cli.option_values import ModelOptions
from known_verdicts import TRUTHS

RELEVANT = ("a harmed minority", "one distribution", "harm that moves")


@pytest.fixture(params=[truth for truth in TRUTHS if truth.name in RELEVANT], ids=lambda t: t.name)
def truth(request):
    return request.param


def write_table(truth, folder):
    """Write the rows of a known verdict as a CSV file."""
    X, groups = truth.rows()
    path = folder / "rows.csv"
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    table.assign(group=groups).to_csv(path, index=False)
    return path, table, groups


@pytest.mark.slow
def test_it_fits_and_audits_what_python_does(run, truth, tmp_path):
    path, X, groups = write_table(truth, tmp_path)
    facts = run("audit", path, "--group", "group", "-d", truth.d, "--repair", "--json").facts
    fair = fs.FairPCA(truth.d).fit(X, sensitive_features=groups)
    audit = fs.audit(fair, X, groups)
    assert facts["verdict"]["kind"] == audit.verdict.kind == truth.kind
    assert facts["verdict"]["model"] == audit.verdict.model == "minimax loss"
    by_name = {model.name: model for model in audit.models}
    assert {model["name"] for model in facts["models"]} == set(by_name)
    for model in facts["models"]:
        errors = [group["observed_error"] for group in model["groups"]]
        expected = [group.observed_error.value for group in by_name[model["name"]].groups]
        assert errors == pytest.approx(expected, rel=1e-6)


def named_command(text):
    """Return the words of the command that an audit names in its last line."""
    last = text.splitlines()[-1]
    assert last.startswith("Next: ")
    return shlex.split(last.removeprefix("Next: "))[1:]


@pytest.mark.long
def test_the_commands_that_audits_name_lead_to_a_saved_model(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (truth,) = (case for case in TRUTHS if case.name == "a harmed minority")
    path, *_ = write_table(truth, tmp_path)
    first = run("audit", path, "--group", "group", "-d", truth.d, status=0).out
    repair = named_command(first)
    assert repair == [
        "audit",
        str(path),
        "--group",
        "group",
        "-d",
        str(truth.d),
        "--repair",
    ]
    fit = named_command(run(*repair, status=0).out)
    assert run(*fit, status=0).out
    subspace = fs.FairSubspace.load(tmp_path / fit[-1])
    assert subspace.n_components == truth.d
    assert subspace.certificate.criterion.name == "minimax_loss"


def test_the_dimension_of_a_share_is_that_of_the_audit_without_repair(run, data):
    arguments = ("audit", data, "--group", "age", "-d", "0.7", "--folds", "none", "--json")
    pca_models = run(*arguments, err="of every group's variance").facts["models"]
    repair_models = run(*arguments, "--repair", err="of every group's variance").facts["models"]
    assert {model["n_components"] for model in repair_models} == {pca_models[0]["n_components"]}


@pytest.mark.parametrize(
    "more_words", [("--by-dimension",), ("--model", "{model}")], ids=lambda word: word[0]
)
def test_it_fits_its_own_model_of_one_dimension(run, data, model, more_words):
    options = [model if word == "{model}" else word for word in more_words]
    arguments = ("audit", data, "--group", "age", "--repair", *options)
    run(*arguments, status=2, out=None, err="--repair")


def audit_models(X, groups, *, with_repair):
    pca = fs.FairPCA(1, criterion="total_error").fit(X, sensitive_features=groups)
    fair = fs.FairPCA(1).fit(X, sensitive_features=groups)
    models = {"PCA": pca, "minimax loss": fair} if with_repair else {"PCA": pca}
    return fs.audit(models, X, groups)


@pytest.mark.slow
def test_a_table_without_harm_needs_no_next_command():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3)) * [4, 0.4, 0.2]
    groups = np.repeat(["a", "b"], 600)
    for with_repair in (False, True):
        audit = audit_models(X, groups, with_repair=with_repair)
        assert not audit.verdict.kind.startswith("harm")
        arguments = ["audit", "rows.csv", "--group", "g"]
        assert next_command(arguments, audit, ModelOptions(repair=with_repair)) is None


@pytest.mark.slow
@pytest.mark.parametrize("words", [["-d", "0.9"], ["-d0.9"], ["--dimensions=0.9"], []])
def test_the_next_fit_has_the_dimension_of_the_audit(words):
    (truth,) = (case for case in TRUTHS if case.name == "harm that moves")
    audit = audit_models(*truth.rows(), with_repair=True)
    assert audit.verdict.kind == "harm, repair shifts it"
    arguments = ["audit", "my rows.csv", "--group", "g", *words, "--repair"]
    line = next_command(arguments, audit, ModelOptions(repair=True))
    assert shlex.split(line.removeprefix("Next: ")) == [
        *("fairspan", "report", "my rows.csv", "--group", "g", "-d", "1", "-o", "report.html")
    ]
