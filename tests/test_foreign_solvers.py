"""A fit believes a solver of another package only as far as its proof goes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse

import fairspan as fs
from fairspan import BoundarySearch, FairPCA
from fairspan.errors import InvalidInput, InvalidType
from fairspan.extending import certify

RNG = np.random.default_rng(0)
GROUPS = np.repeat(["a", "b"], 40)
ROWS = RNG.normal(size=(80, 5)) * np.where(
    GROUPS[:, None] == "a", [3, 1, 1, 1, 0.5], [1, 3, 2, 1, 0.5]
)


@dataclass(frozen=True)
class ChangingSolver:
    """Solver that changes what the exact solver returns."""

    change: Callable
    name: ClassVar[str] = "claiming"

    def unsupported_reason(self, problem):
        return None

    def solve(self, problem, tol, random_state=None):
        return self.change(problem, BoundarySearch().solve(problem, tol))


def fit(change, rows=ROWS, **settings):
    return FairPCA(2, solver=ChangingSolver(change), **settings).fit(
        rows, sensitive_features=GROUPS
    )


def replace_part(name, **values):
    return lambda problem, solution: replace(
        solution, **{name: replace(getattr(solution, name), **values)}
    )


def certify_poor_basis(problem, solution, tol=1e-9):
    """Certify the last axes, which are far from optimal, with the weights of the optimum."""
    basis = np.eye(5)[:, 3:]
    return certify(
        problem, basis, solution.proof, tol=tol, n_eigenproblems=1, trace=(), solver="claiming"
    )


def claim_optimal_status(problem, solution):
    return replace(certify_poor_basis(problem, solution), assessment=solution.assessment)


def claim_high_bound(problem, solution):
    certificate = certify_poor_basis(problem, solution)
    return replace(certificate, assessment=solution.assessment, lower_bound=certificate.objective)


UNSUPPORTED = {
    "no proof": (
        lambda _, solution: replace(solution, proof=None),
        r"status is 'optimal' .*without a proof",
    ),
    "a bound without a proof": (
        lambda problem, solution: replace(certify_poor_basis(problem, solution), proof=None),
        r"status is 'open gap' .*without a proof",
    ),
    "another objective": (replace_part("figures", objective=0.1), "the objective is 0.1, and"),
    "no number": (replace_part("figures", objective=np.nan), "objective is nan"),
    "other errors": (replace_part("figures", errors=np.zeros(2)), "the group errors are"),
    "estimated": (
        replace_part("assessment", status="estimated"),
        r"'estimated', .*'optimal'",
    ),
    "another status": (
        replace_part("assessment", status="perfect"),
        r"'perfect', .*'optimal'",
    ),
    "open gap called optimal": (
        claim_optimal_status,
        r"'optimal', .*'open gap' with a gap of",
    ),
    "optimal to a looser tolerance": (
        lambda problem, solution: certify_poor_basis(problem, solution, tol=0.99),
        r"'optimal', .*'open gap' with a gap of",
    ),
    "a bound that is too high": (claim_high_bound, "the lower bound is"),
    "components of other length": (
        lambda _, solution: replace(solution, components=2 * solution.components),
        "The components are not orthonormal",
    ),
    "components of fewer features": (
        lambda _, solution: replace(solution, components=np.eye(2, 4)),
        r"components have 4 columns.* 5 features",
    ),
    "a proof of three groups": (
        replace_part("proof", weights=np.ones(3)),
        "the proof, a Proof,",
    ),
    "weights in place of a proof": (
        lambda _, solution: replace(solution, proof=np.ones(2)),
        "the proof, a ndarray,",
    ),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_unsupported_claims_are_refused(case):
    change, expected_text = UNSUPPORTED[case]
    with pytest.raises(InvalidInput, match=expected_text) as error:
        fit(change)
    message = str(error.value)
    assert message.startswith("The solver 'claiming' returned a certificate")
    if "orthonormal" not in message:
        assert "fairspan.extending.certify" in message


def test_a_result_that_is_no_certificate_is_refused():
    with pytest.raises(InvalidType, match=r"'claiming' .*type ndarray.*certify"):
        fit(lambda _, solution: solution.components)


@pytest.mark.parametrize(
    "settings",
    [
        {"criterion": "robust_error_gap"},
        {"criterion": "equal_error"},
        {"criterion": "disparity"},
        {"restriction": "mean_parity"},
        {"nested": True},
        {"n_components": 0.8},
    ],
)
def test_supported_claims_are_accepted_as_they_are(settings):
    model = FairPCA(2, solver=ChangingSolver(lambda _, solution: solution)).set_params(**settings)
    model.fit(ROWS, sensitive_features=GROUPS)
    expected = FairPCA(2, solver=BoundarySearch()).set_params(**settings)
    expected.fit(ROWS, sensitive_features=GROUPS)
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.solution_.lower_bound == expected.solution_.lower_bound
    assert fs.verify(model, ROWS, GROUPS).holds


def test_weaker_claims_are_accepted():
    model = fit(certify_poor_basis)
    assert model.solution_.status == "open gap"
    assert fs.verify(model, ROWS, GROUPS).holds


def test_an_open_gap_needs_no_proof():
    def remove_proof(problem, solution):
        return replace(certify_poor_basis(problem, solution), proof=None, lower_bound=-np.inf)

    model = fit(remove_proof)
    assert model.solution_.status == "open gap"
    assert model.solution_.lower_bound == -np.inf
    assert fs.verify(model, ROWS, GROUPS).holds


@pytest.mark.slow
@pytest.mark.usefixtures("no_sparse_row_coordinates")
def test_claims_about_sparse_rows_of_many_features_are_checked_in_the_search_subspace():
    rows = sparse.random(80, 6000, density=0.01, random_state=0, format="csr")
    model = fit(lambda _, solution: solution, rows)
    assert model.solution_.status == "estimated"
    with pytest.raises(InvalidInput, match="without a proof"):
        fit(lambda _, solution: replace(solution, proof=None), rows)
