"""Every field of a certificate is a claim or a record: claims are verified, both are saved."""

from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import fairspan as fs
from case_selection import mark_most_long
from certificate_claims import CLAIM_PARTS, RECORDS, replace_claims
from fairspan import FairSubspace, verify
from fairspan.errors import FairspanError
from fairspan.extending import TracePoint
from numpy_reference import assert_same_certificate, generate_group_rows


def tiny_losses():
    """Return rows whose losses are 1e-11 of the errors, far above the errors' rounding."""
    rng = np.random.default_rng(0)
    axes = np.vstack([np.eye(5), -np.eye(5)]) * np.sqrt(5)
    factors = rng.standard_normal((2, 5, 5))
    groups = [axes @ np.linalg.cholesky(1e11 * np.eye(5) + f @ f.T).T for f in factors]
    return np.vstack(groups), np.repeat(["a", "b"], 10)


def three_lines():
    """Return three groups on one line each, for which no single line reaches the bound."""
    lines = np.array([[1.0, 0], [0.5, 0.75**0.5], [-0.5, 0.75**0.5]])
    return np.vstack([lines, -lines]), np.array(["a", "b", "c"] * 2)


def sparse_rows():
    """Return sparse rows with too many features for matrices."""
    rng = np.random.default_rng(1)
    rows = scipy.sparse.random(60, 1600, 0.05, format="csr", random_state=rng)
    return rows, np.repeat(["a", "b"], 30)


CASES = {
    "two groups": (generate_group_rows(), 2, {}),
    "lines": (
        generate_group_rows(),
        2,
        {"criterion": fs.RobustErrorGap(0.7, {"a": 0.4, "b": 0.2})},
    ),
    "means": (
        generate_group_rows(),
        2,
        {"criterion": "total_error", "restriction": fs.MeanParity(0.3)},
    ),
    "covariances": (
        generate_group_rows(),
        2,
        {"criterion": "total_error", "restriction": fs.CovarianceParity(tolerance=20.0)},
    ),
    "oblique": (
        generate_group_rows(),
        2,
        {"criterion": "total_error", "restriction": fs.MeanParity(oblique=True), "scale": True},
    ),
    "uncorrelated": (generate_group_rows(3), 2, {"restriction": fs.Uncorrelated([1])}),
    "nested": (generate_group_rows(3), 3, {"nested": True}),
    "nested parity": (generate_group_rows(3), 3, {"nested": True, "restriction": fs.MeanParity()}),
    "unresolved": (tiny_losses(), 2, {}),
    "open gap": (three_lines(), 1, {}),
    "soft": (three_lines(), 1, {"allow_extra": True}),
}
# Of these rounding, or what matrices prove, is of another size than a fit says.
SETTINGS = {
    "thin": (generate_group_rows(2, 520, n=6), 2, {"nested": True}),
    "sparse": (sparse_rows(), 2, {"criterion": "minimax_error"}),
}


def fit_model(case):
    (rows, labels), d, settings = (CASES | SETTINGS)[case]
    return fs.FairPCA(d, **settings).fit(rows, sensitive_features=labels).subspace_


def plausible_values(certificate, name):
    """Return other plausible values of one field, of its type."""
    value = getattr(certificate, name)
    tenth = 0.1 * certificate.objective
    match name:
        case "objective" | "lower_bound":
            return 1000 * value, value + tenth, value - tenth
        case "status":
            return {"optimal", "estimated", "unresolved", "open gap"} - {value}
        case "criterion":
            return fs.NashWelfare(), fs.RobustErrorGap(0.5, 0.1)
        case "restriction":
            others = fs.CovarianceParity(n_directions=2), fs.CovarianceParity(tolerance=1.0)
            return *others, fs.Uncorrelated([2])
        case "proof":
            return None, *other_proofs(value, certificate)
        case "scaling_helps":
            return (not value,)
        case "theorem_3_2_holds":
            return {None, True, False} - {value}
        case "trace":
            return (TracePoint(3, 0.0, 1.0),), ()
        case "steps" | "prefixes":
            return value[:-1] or (certificate,) * 2, (*value, certificate, certificate)
        case "components" | "errors" | "losses":
            return value[:-1] if value.size else np.ones(1), 1000 * np.append(value, tenth)
        case "groups" | "counts":
            return value[:-1], (*value[1:], value[0] * 2), (*value, *value)
        case "eigensolver":
            return set(type(value)) - {value}
        case "solver" | "version" | "center" | "unresolved_reason":
            return (f"{value} or so",)
        case "n_components" | "n_eigenproblems":
            return value + 1, value - 1
        case _:
            return (1000 * value + (name == "constraint_violation") * tenth,)


def other_proofs(proof, certificate):
    """Yield proofs with other numbers in one of the arrays that the bound is computed from."""
    for field in fields(proof):
        numbers = np.atleast_1d(getattr(proof, field.name))
        other = np.zeros_like(numbers)
        other.flat[0] = 1.0
        # The weights of a total error are the shares of the groups, whatever a proof says.
        if field.name != "weights" or certificate.criterion.name.startswith("minimax"):
            yield replace(proof, **{field.name: other})


def accepted_fields(subspace, is_accepted, certificate, rebuild=lambda changed: changed):
    """Return the fields of a certificate in which another value is accepted."""
    return {
        name
        for name in CLAIM_PARTS
        for other in plausible_values(certificate, name)
        if is_accepted(
            replace(subspace, certificate=rebuild(replace_claims(certificate, **{name: other})))
        )
    }


def accept_after_saving(path, is_accepted):
    """Return a function that checks whether a saved subspace can be loaded and is accepted."""

    def is_accepted_after_saving(subspace):
        with suppress(FairspanError):
            subspace.save(path)
            return is_accepted(FairSubspace.load(path))

    return is_accepted_after_saving


def test_the_cases_are_what_they_are_called():
    assert fit_model("open gap").certificate.status == "open gap"
    assert fit_model("soft").is_soft
    certificate = fit_model("unresolved").certificate
    assert certificate.status == "unresolved"
    assert (
        certificate.absolute_tol
        < certificate.gap
        < certificate.resolution
        < 0.01 * certificate.scale
    )


# Each kind of proof, and of fits those that say more than others.
COMMAND_KINDS = ["two groups", "means", "oblique", "soft"]
SLOW = ["lines", "covariances", "nested"]


@pytest.mark.unverified
@pytest.mark.parametrize(
    "case",
    [
        *COMMAND_KINDS,
        *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW),
        *(
            pytest.param(case, marks=pytest.mark.long)
            for case in CASES
            if case not in COMMAND_KINDS + SLOW
        ),
    ],
)
def test_a_claim_that_was_tampered_with_is_refused(case):
    data = CASES[case][0]
    subspace = fit_model(case)
    certificate = subspace.certificate
    verification = verify(subspace, *data)
    assert verification.holds, str(verification)

    def is_accepted(model):
        return verify(model, *data).holds

    assert "records of the run" in verification.messages[-1]
    assert accepted_fields(subspace, is_accepted, certificate) == RECORDS
    if certificate.steps:
        first, second, third = certificate.steps
        swapped = accepted_fields(
            subspace, is_accepted, second, lambda x: replace(certificate, steps=(first, x, third))
        )
        assert swapped == RECORDS
        one, two = certificate.prefixes
        assert (
            accepted_fields(
                subspace, is_accepted, two, lambda x: replace(certificate, prefixes=(one, x))
            )
            == RECORDS
        )


@pytest.mark.unverified
@pytest.mark.parametrize(
    "case",
    [
        "two groups",
        pytest.param("nested", marks=pytest.mark.slow),
        *(
            pytest.param(case, marks=pytest.mark.long)
            for case in CASES
            if case not in ("two groups", "nested")
        ),
    ],
)
def test_a_file_is_believed_no_more(case, tmp_path):
    data = CASES[case][0]
    subspace = fit_model(case)
    in_file = accept_after_saving(tmp_path / "model", lambda model: verify(model, *data).holds)
    # A file has the components once, and no place for others.
    assert accepted_fields(subspace, in_file, subspace.certificate) == RECORDS | {"components"}


@pytest.mark.unverified
@pytest.mark.slow
@pytest.mark.parametrize("case", mark_most_long(["lines", "two groups"], 2))
def test_the_command_line_believes_no_more(case, tmp_path):
    from fairspan import cli

    (rows, labels), subspace = CASES[case][0], fit_model(case)
    table, path = tmp_path / "rows.csv", tmp_path / "model"
    pd.DataFrame(rows).assign(group=labels).to_csv(table, index=False)

    def is_accepted(model):
        model = replace(model, feature_names=tuple(map(str, range(model.n_features))))
        with suppress(FairspanError):
            model.save(path)
            return cli.run(["verify", str(path), str(table), "--group", "group"]) == 0

    assert is_accepted(subspace)
    assert accepted_fields(subspace, is_accepted, subspace.certificate) == RECORDS | {"components"}


@pytest.mark.parametrize("case", [*CASES, *SETTINGS])
def test_a_file_keeps_every_field(case, tmp_path):
    subspace = fit_model(case)
    subspace.save(tmp_path / "model")
    copy = FairSubspace.load(tmp_path / "model")
    assert_same_certificate(copy.certificate, subspace.certificate)
