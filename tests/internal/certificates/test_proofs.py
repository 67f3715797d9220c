"""Proofs of any size prove the same or are refused, and their supporting lines take linear time."""

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import fairspan as fs
from certificate_claims import replace_claims
from fairspan import EqualError, FairSubspace, NashWelfare, RobustErrorGap, verify
from fairspan.certificates.evaluate_solution import evaluate_solution
from fairspan.certificates.polygons import clip_polygon
from fairspan.certificates.proofs import (
    MAX_LINES,
    CovarianceDifferenceProof,
    CovarianceTraceProof,
    MeanDistanceProof,
    Proof,
    SupportingLinesProof,
)
from fairspan.errors import CorruptFile, InvalidInput
from fairspan.linalg import scale_to_one, smallest_eigenvalue_sum
from numpy_reference import generate_group_rows
from problems import build_problem

# Two groups whose best subspaces with equal errors leave 1.05.
PAIR = np.array([np.diag([4.0, 3.0, 0.52, 0.53]), np.diag([3.0, 4.0, 0.53, 0.52])])
SMALLEST = 5e-324
SIZES = [SMALLEST, 1e-320, 1e-310, 1e-160, 1e160, 1e308]
LINES = np.array([[1.0, 1.0], [0.5, 1.0], [1.0, 0.5]])


def bound(criterion, proof):
    problem = build_problem(PAIR, 2, criterion)
    return evaluate_solution(problem, np.eye(4)[:, :2], proof, tol=1e-9).lower_bound


def rows_of(matrices):
    """Rows whose second moments are these diagonal matrices, and their groups."""
    sides = [np.diag(np.sqrt(len(matrix) * np.diag(matrix))) for matrix in matrices]
    return np.vstack([[*side, *-side] for side in sides]), np.repeat(["a", "b"], 8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("criterion", [EqualError(), EqualError(0.1), NashWelfare()], ids=str)
def test_weights_of_any_size_prove_no_more(criterion, size):
    unit_bound = bound(criterion, Proof(np.array([1.0, 1.0])))
    assert bound(criterion, Proof(np.array([size, size]))) == pytest.approx(unit_bound, rel=1e-9)
    assert bound(EqualError(), Proof(np.array([size, size]))) <= 1.05


@pytest.mark.parametrize("size", SIZES)
def test_lines_of_any_size_prove_no_more(size):
    criterion = RobustErrorGap(0.7, 0.4)
    weights = np.array([0.5, 0.5])
    lines = SupportingLinesProof(weights, np.array([[1.0, 1.0]]))
    scaled = SupportingLinesProof(weights, size * np.array([[1.0, 1.0]]))
    assert bound(criterion, scaled) == pytest.approx(bound(criterion, lines), rel=1e-9)


@pytest.mark.unverified
@pytest.mark.parametrize("criterion", [EqualError(), RobustErrorGap(0.7, 0.4)], ids=str)
def test_a_false_bound_of_a_subnormal_proof_does_not_hold(criterion, tmp_path):
    X, groups = rows_of(PAIR)
    subspace = fs.FairPCA(2, criterion=criterion).fit(X, sensitive_features=groups).subspace_
    tiny = np.full(2, SMALLEST)
    certificate = subspace.certificate
    proof = (
        Proof(tiny)
        if certificate.supporting_weights is None
        else SupportingLinesProof(tiny, tiny[None])
    )
    # Both groups lose 2 here, and 1.05 at best.
    along = np.sqrt((2.55 - 0.525) / (3.5 - 0.525))
    across = np.sqrt(1 - along**2)
    worse = np.array([[1, 1, 0, 0], [along, -along, across, across]]) / np.sqrt(2)
    evaluation = evaluate_solution(
        build_problem(PAIR, 2, criterion), worse.T, proof, tol=certificate.tol
    )
    assert evaluation.errors == pytest.approx([2.0, 2.0])
    assert evaluation.lower_bound < 0.9 * evaluation.objective
    of_both = {name: getattr(evaluation, name) for name in ("objective", "scale", "errors")}
    false_certificate = replace_claims(
        certificate, components=worse, proof=proof, losses=evaluation.errors - 1.05, **of_both
    )
    false_certificate = replace(false_certificate, lower_bound=evaluation.objective)
    false_subspace = replace(subspace, components=worse, certificate=false_certificate)
    verification = verify(false_subspace, X, groups)
    assert not verification.holds
    assert verification.lower_bound < 0.9 * verification.objective
    false_subspace.save(tmp_path / "model")
    assert not verify(FairSubspace.load(tmp_path / "model"), X, groups).holds


@pytest.mark.parametrize("size", SIZES[:3])
def test_sums_of_subnormal_mixtures_have_room_for_rounding(size):
    matrices = np.array([np.diag([3.0, 0.6, 0.7])])
    result = smallest_eigenvalue_sum(matrices, np.array([size]), 1)
    assert result.value - result.rounding_error <= 1.3 * size


def test_vectors_are_scaled_exactly():
    vectors = np.array([[SMALLEST, -3 * SMALLEST], [1e308, 1.0], [0.0, 0.0], [0.5, 0.25]])
    scaled = scale_to_one(vectors)
    assert np.abs(scaled).max(axis=1).tolist() == [0.75, scaled[1, 0], 0.0, 0.5]
    assert scaled[0].tolist() == [0.25, -0.75]
    assert 0.5 <= scaled[1, 0] < 1


EVEN = np.array([0.5, 0.5])
ZEROS = np.zeros((2, 3, 3))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_proofs_that_are_not_finite_are_refused(wrong):
    odd = np.array([0.5, wrong])
    for kind, *other_arguments in (
        (Proof,),
        (SupportingLinesProof, LINES),
        (MeanDistanceProof, 1.0),
        (CovarianceDifferenceProof, ZEROS),
        (CovarianceTraceProof, 1.0),
    ):
        assert kind(EVEN, *other_arguments).weights is EVEN
        with pytest.raises(InvalidInput, match="weights of a proof"):
            kind(odd, *other_arguments)
    for kind, other in (
        (SupportingLinesProof, LINES * wrong),
        (MeanDistanceProof, wrong),
        (CovarianceDifferenceProof, ZEROS + wrong),
        (CovarianceTraceProof, np.array([wrong])),
    ):
        with pytest.raises(InvalidInput, match="of a proof"):
            kind(EVEN, other)


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        (SupportingLinesProof, np.ones((2, 3))),
        (SupportingLinesProof, np.ones(2)),
        (SupportingLinesProof, np.ones((0, 2))),
        (SupportingLinesProof, np.ones((MAX_LINES + 1, 2))),
        (MeanDistanceProof, np.ones(2)),
        (CovarianceTraceProof, np.ones(0)),
        (CovarianceDifferenceProof, np.ones((3, 2, 2))),
        (CovarianceDifferenceProof, np.ones((2, 2, 3))),
    ],
)
def test_proofs_of_a_wrong_shape_are_refused(kind, other):
    with pytest.raises(InvalidInput, match=r"[Aa] proof"):
        kind(EVEN, other)


@pytest.mark.parametrize(
    "proof",
    [
        Proof(np.ones(3)),
        SupportingLinesProof(np.ones(3), LINES),
        CovarianceDifferenceProof(np.ones(2), ZEROS),
    ],
    ids=lambda proof: proof.kind,
)
def test_proofs_of_other_groups_or_features_do_not_fit(proof):
    assert not proof.applies_to(build_problem(PAIR, 2, RobustErrorGap(0.5, 0.5)))


def replace_array(path, name, array):
    """Replace an array of an archive."""
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays[name] = array
    header = json.loads(arrays["header"].tobytes())
    assert name in header["arrays"]
    with zipfile.ZipFile(path, "w") as file:
        for member_name, numbers in arrays.items():
            member = io.BytesIO()
            np.save(member, numbers)
            file.writestr(f"{member_name}.npy", member.getvalue())


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("proof_weights", np.array([np.inf, 0.5])),
        ("proof_weights", np.array([np.nan, 0.5])),
        ("proof_lines", np.full((3, 2), np.inf)),
        ("proof_lines", np.ones((MAX_LINES + 1, 2))),
        ("proof_lines", np.ones((3, 3))),
    ],
    ids=lambda value: str(value)[:20],
)
def test_files_with_such_proofs_are_refused(name, array, tmp_path):
    rows, groups = generate_group_rows()
    model = fs.FairPCA(2, criterion=RobustErrorGap(0.7, 0.4)).fit(rows, sensitive_features=groups)
    model.subspace_.save(tmp_path / "model")
    replace_array(tmp_path / "model", name, array)
    with pytest.raises(CorruptFile, match="proof"):
        FairSubspace.load(tmp_path / "model")


def clip_corner_by_corner(corners, normal, offset):
    """The part of a polygon where normal.e >= offset, corner by corner."""
    inside = corners @ normal - offset
    kept_corners = []
    for i in range(len(corners)):
        j = (i + 1) % len(corners)
        if inside[i] >= 0:
            kept_corners.append(corners[i])
        if (inside[i] >= 0) != (inside[j] >= 0):
            share = inside[i] / (inside[i] - inside[j])
            kept_corners.append(corners[i] + share * (corners[j] - corners[i]))
    return np.array(kept_corners).reshape(-1, 2)


def test_a_polygon_is_clipped_as_corner_by_corner():
    rng = np.random.default_rng(0)
    corners = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)])
    for angle in np.linspace(0, np.pi / 2, 60):
        normal = np.array([np.cos(angle), np.sin(angle)])
        offset = 0.5 + 0.02 * rng.standard_normal()
        expected = clip_corner_by_corner(corners, normal, offset)
        corners = clip_polygon(corners, normal, offset)
        np.testing.assert_array_equal(corners, expected)
    assert len(corners) > 4
    assert clip_polygon(corners, np.array([1.0, 0.0]), 2.0).shape == (0, 2)
    assert clip_polygon(corners[:0], normal, 0.0).shape == (0, 2)
