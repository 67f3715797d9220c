"""Every field of a certificate is a claim or a record: claims are judged, and both are kept."""

from dataclasses import asdict, fields, replace

import numpy as np
import pytest
import scipy.sparse

import fairspan as fs
from fairspan import FairSubspace, verify
from fairspan.certificates.certificate import Certificate, TracePoint

# What verification does not judge.
RECORDS = {"solver", "n_eigenproblems", "trace", "eigen", "version"}


def made_rows(k=2, p=6, n=30, seed=0):
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(n + 3 * g, p)) @ rng.normal(size=(p, p)) for g in range(k)]
    labels = np.repeat(list("abcd")[:k], [len(each) for each in blocks])
    return np.vstack(blocks) + rng.normal(size=p), labels


def hardly_any_losses():
    """The losses are a share of 1e-11 of the errors, whose rounding is far from all of them."""
    rng = np.random.default_rng(0)
    axes = np.vstack([np.eye(5), -np.eye(5)]) * np.sqrt(5)
    factors = rng.standard_normal((2, 5, 5))
    groups = [axes @ np.linalg.cholesky(1e11 * np.eye(5) + f @ f.T).T for f in factors]
    return np.vstack(groups), np.repeat(["a", "b"], 10)


def three_lines():
    """Three groups, each along a line of its own: no one line is as good as the bound."""
    lines = np.array([[1.0, 0], [0.5, 0.75**0.5], [-0.5, 0.75**0.5]])
    return np.vstack([lines, -lines]), np.array(["a", "b", "c"] * 2)


def few_numbers():
    """Sparse rows of so many features that they are fitted without matrices."""
    rng = np.random.default_rng(1)
    rows = scipy.sparse.random(60, 1600, 0.05, format="csr", random_state=rng)
    return rows, np.repeat(["a", "b"], 30)


CASES = {
    "two groups": (made_rows(), 2, {}),
    "lines": (made_rows(), 2, {"criterion": fs.RobustErrorGap(0.7, {"a": 0.4, "b": 0.2})}),
    "means": (made_rows(), 2, {"criterion": "total_error", "restriction": fs.MeanParity(0.3)}),
    "covariances": (
        made_rows(),
        2,
        {"criterion": "total_error", "restriction": fs.CovarianceParity(tolerance=20.0)},
    ),
    "oblique": (
        made_rows(),
        2,
        {"criterion": "total_error", "restriction": fs.MeanParity(oblique=True), "scale": True},
    ),
    "nested": (made_rows(3), 3, {"nested": True}),
    "nested parity": (made_rows(3), 3, {"nested": True, "restriction": fs.MeanParity()}),
    "unresolved": (hardly_any_losses(), 2, {}),
    "open gap": (three_lines(), 1, {}),
    "soft": (three_lines(), 1, {"allow_extra": True}),
    "thin": (made_rows(2, 520, n=6), 2, {"criterion": "minimax_error"}),
    "sparse": (few_numbers(), 2, {"criterion": "minimax_error"}),
}


def fitted(case):
    (rows, labels), d, settings = CASES[case]
    return fs.FairPCA(d, **settings).fit(rows, sensitive_features=labels).subspace_


def proofs_beside(proof):
    """Other numbers in one of the arrays of a proof."""
    for each in fields(proof):
        numbers = np.atleast_1d(getattr(proof, each.name))
        other = np.zeros_like(numbers)
        other.flat[0] = 1.0
        yield replace(proof, **{each.name: other})


def beside(certificate, name):
    """Other values of one field, of its own kind and plausible."""
    own = getattr(certificate, name)
    tenth = 0.1 * certificate.objective
    match own:
        case _ if name in ("objective", "lower_bound"):
            return 1000 * own, own + tenth, own - tenth
        case _ if name == "status":
            return [each for each in ("optimal", "unresolved", "open gap") if each != own]
        case _ if name == "criterion":
            return fs.NashWelfare(), fs.RobustErrorGap(0.5, 0.1)
        case _ if name == "restriction":
            return fs.MeanParity() if own is None else None, fs.CovarianceParity(n_directions=2)
        case _ if name == "proof":
            return None, *proofs_beside(own)
        case _ if name == "center":
            return ("group",)
        case _ if name == "theorem_3_2":
            return tuple({None, True, False} - {own})
        case _ if name == "trace":
            return (TracePoint(3, 0.0, 1.0),), ()
        case np.ndarray():
            return own[:-1], 1000 * own + tenth
        case Certificate():
            return ()
        case tuple():
            return own[:-1] if own else (certificate,), (*own, *own), own[::-1] + own[:1]
        case str() | None:
            return f"{own} or so", ""
        case _:
            return 1000 * own + (name == "violation") * tenth, own + 1


def is_refused(subspace, rows, labels):
    found = verify(subspace, rows, labels)
    assert found.holds or found.messages[0]
    return not found.holds


def judged(subspace, rows, labels, certificate, rebuilt):
    """The fields of a certificate of which no other value is believed."""
    return {
        each.name
        for each in fields(Certificate)
        if all(
            is_refused(
                replace(subspace, certificate=rebuilt(replace(certificate, **{each.name: other}))),
                rows,
                labels,
            )
            for other in beside(certificate, each.name)
        )
    }


CLAIMS = {each.name for each in fields(Certificate)} - RECORDS


@pytest.mark.unverified
@pytest.mark.parametrize("case", [each for each in CASES if each not in ("thin", "sparse")])
def test_a_claim_that_was_tampered_with_is_refused(case):
    (rows, labels), subspace = CASES[case][0], fitted(case)
    found = verify(subspace, rows, labels)
    assert found.holds, str(found)
    assert "Not judged are records of the run" in found.messages[-1]
    own = subspace.certificate
    assert CLAIMS - judged(subspace, rows, labels, own, lambda each: each) == set()
    for name in RECORDS:
        other = replace(own, **{name: beside(own, name)[0]})
        assert verify(replace(subspace, certificate=other), rows, labels).messages == found.messages
